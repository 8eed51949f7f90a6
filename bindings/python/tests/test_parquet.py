"""pfw export --format parquet: the values of pfw.read(), for each reader of Parquet, and nothing that is half."""
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from conftest import CLEAN, PFW
from test_cluster import line, write_process, write_run

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet

import pfw
import pfw.parquet

RANKS = 5
# The command whose neighbour is pfw-parquet in C++, where one was built (PFW_PARQUET=ON).
NATIVE = os.environ.get("PFW_NATIVE_PARQUET")
command = PFW


@pytest.fixture(scope="module", autouse=True, params=["python", "native"])
def way(request):
    """Both programs do the same."""
    global command
    if request.param == "native" and not NATIVE:
        pytest.skip("no pfw-parquet in C++ here")
    command = NATIVE if request.param == "native" else PFW
    yield request.param
    command = PFW


def write_hard(path, events):
    """Without a rank, with values of many kinds."""
    chance, at = random.Random(7), 1795230878000000000
    with open(path, "w", encoding="utf-8") as file:
        for number in range(events):
            at += chance.randrange(1, 5000)
            args = chance.choice([{"fname": f"/é/{number % 50}", "ret": number, "own": {"a": [number]}}, {},
                                  {"kind": "kernel", "grid": [number % 7 + 1, 1, 2], "stream": 7, "occupancy": 0.5},
                                  {"kind": "cpu_op", "input_shapes": [[64, number % 9]], "step": number // 1000}])
            file.write(line(number, f"n{number % 11}", "c", 77, at, "X", args, chance.randrange(99999)))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), RANKS)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Enough for three row groups."""
    path = tmp_path_factory.mktemp("long") / "t.pfw"
    write_hard(path, 260000)
    return path


def export(where, *words, status=0, **env):
    done = subprocess.run([command, "export", "--format", "parquet", *words], cwd=where, capture_output=True, text=True,
                          env={**CLEAN, **env}, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def rows(table):
    """Rows of plain values, in an order that both have."""
    return sorted(map(repr, table.select(sorted(table.column_names)).to_pylist()))


@pytest.fixture(scope="module", params=["ranks", "one file", "no rank"])
def exported(request, traces, tmp_path_factory):
    """(the traces, their export)."""
    where = tmp_path_factory.mktemp("exported")
    at = traces
    if request.param == "one file":
        at = where / "compacted"
        subprocess.run([PFW, "compact", "-q", "--keep", "--split-by", "none", "-o", at, traces], check=True, env=CLEAN)
    elif request.param == "no rank":
        at = where / "t.pfw"
        write_hard(at, 20000)
    assert export(where, "-o", "out", at) == ""
    return at, where / "out"


def test_pyarrow_has_the_same(exported):
    at, out = exported
    wanted = pfw.read(at).arrow()
    got = pyarrow.parquet.read_table(out, partitioning="hive")
    assert got.schema.metadata[b"pfw.schema"] == b"2"
    part = pyarrow.parquet.ParquetFile(next(out.rglob("*.parquet"))).metadata.row_group(0)
    encodings = {part.column(i).path_in_schema: part.column(i).encodings for i in range(part.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings["ts"] and "DELTA_BINARY_PACKED" in encodings["args.offset"]
    assert "RLE_DICTIONARY" in encodings["pid"] and "RLE_DICTIONARY" not in encodings["dur"]
    for field in wanted.schema:
        if field.name != "rank" or wanted["rank"].null_count:
            assert got.schema.field(field.name).type == field.type
    assert got.num_rows == wanted.num_rows
    assert rows(got) == rows(wanted)


def test_duckdb_has_the_same(exported):
    duckdb = pytest.importorskip("duckdb")
    at, out = exported
    got = duckdb.sql(f"from read_parquet('{out}/**/*.parquet', hive_partitioning = true)")
    lines = pfw.read(at).duckdb()
    names = ", ".join(f'"{name}"' for name in lines.columns if name not in ("args.grid", "args.block"))
    for name in ("args.grid", "args.block"):
        names += f', "{name}"::INTEGER[] as "{name}"'
    assert sorted(map(repr, got.select(names).fetchall())) == sorted(map(repr, lines.select(names).fetchall()))
    assert dict(zip(got.columns, got.types))["ts"] == "BIGINT"


def test_polars_has_the_same(exported):
    polars = pytest.importorskip("polars")
    at, out = exported
    got = polars.read_parquet(f"{out}/**/*.parquet", hive_partitioning=True)
    wanted = pfw.read(at).to_polars()
    assert got.height == wanted.height
    plain = lambda frame: sorted(map(repr, frame.select(sorted(wanted.columns)).cast(
        {"rank": polars.Int64, polars.Categorical: polars.String, "args.grid": polars.List(polars.Int32),
         "args.block": polars.List(polars.Int32)}).rows()))
    assert plain(got) == plain(wanted)


def test_dask_has_the_same(exported):
    dd = pytest.importorskip("dask.dataframe")
    at, out = exported
    sums = lambda frame: frame[["dur", "args.ret", "args.count"]].sum().compute(scheduler="synchronous").to_dict()
    assert sums(dd.read_parquet(out)) == sums(pfw.to_dask(at, blocks=2))


def test_spark_has_the_same(exported):
    """Where it was installed by hand: it needs Java, and minutes."""
    sql = pytest.importorskip("pyspark.sql")
    at, out = exported
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    got = spark.read.parquet(str(out)).selectExpr("count(*)", "sum(dur)", "sum(rank)", "sum(`args.ret`)", "count(`args.fname`)",
                                                  "min(ts)", "max(name)", "count(DISTINCT cat)").first()
    one = pfw.read(at).duckdb()
    wanted = one.aggregate('count(*), sum(dur), sum(rank), sum("args.ret"), count("args.fname"), min(ts), max(name::VARCHAR), '
                           'count(DISTINCT cat)').fetchone()
    spark.stop()
    assert tuple(got) == wanted


def test_row_groups_statistics_and_memory(long, tmp_path):
    done = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                           command, "export", "--format", "parquet", "-o", "out", long], cwd=tmp_path, env=CLEAN,
                          capture_output=True, text=True, check=True)
    assert int(done.stdout) < 400 << 10
    assert tree(tmp_path / "out") == ["part-0.parquet"]
    file = pyarrow.parquet.ParquetFile(tmp_path / "out" / "part-0.parquet")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 260000
    assert all(122880 <= group.num_rows < 140000 for group in groups[:-1]) and len(groups) == 2
    ts = file.schema_arrow.names.index("ts")
    bounds = [(group.column(ts).statistics.min, group.column(ts).statistics.max) for group in groups]
    assert all(one[1] < other[0] for one, other in zip(bounds, bounds[1:]))
    name = groups[0].column(file.schema_arrow.names.index("name"))
    assert "RLE_DICTIONARY" in name.encodings
    assert name.compression == "ZSTD"


def test_both_ways_make_the_same(way, traces, long, tmp_path):
    """The same files with the same rows in the same order, types, metadata and row groups."""
    if way == "python":
        pytest.skip("compared below")
    global command
    for at in (traces, long):
        trees = []
        for command, name in ((PFW, f"{at.name}-python"), (NATIVE, f"{at.name}-native")):
            export(tmp_path, "-o", name, at)
            trees.append(tmp_path / name)
        assert tree(trees[0]) == tree(trees[1])
        for name in tree(trees[0]):
            one, other = (pyarrow.parquet.ParquetFile(top / name) for top in trees)
            assert one.schema_arrow.equals(other.schema_arrow, check_metadata=True) and one.schema.equals(other.schema)
            assert one.read().equals(other.read())
            sizes = [[file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)] for file in (one, other)]
            assert sizes[0] == sizes[1]


def test_conditions_are_those_of_export(traces, tmp_path):
    export(tmp_path, "--since", "20%", "--until=80%", "-c", "POSIX", "-r", "1,3", "--min-dur", "1us", "-j2", "-q",
           "--where", "args.ret > 0", "-o", "out", traces)
    wanted = pfw.read(traces, since="20%", until="80%", cat="POSIX", ranks="1,3", min_dur="1us", where="args.ret > 0")
    assert rows(pyarrow.parquet.read_table(tmp_path / "out", partitioning="hive")) == rows(wanted.arrow())
    assert sorted(os.listdir(tmp_path / "out")) == ["rank=1", "rank=3"]
    export(tmp_path, "-n", "nothing", "--output=none", traces)
    assert pyarrow.parquet.read_table(tmp_path / "none").num_rows == 0


def test_some_have_no_rank(traces, tmp_path):
    subprocess.run(["cp", *sorted(map(str, traces.iterdir())), tmp_path], check=True)
    write_hard(tmp_path / "other.pfw", 1000)
    export(tmp_path, "-o", "out", "--all-runs", ".")
    assert len(tree(tmp_path / "out")) == RANKS + 1
    assert rows(pyarrow.parquet.read_table(tmp_path / "out", partitioning="hive")) == \
        rows(pfw.read(tmp_path, all_runs=True).arrow())


def test_what_is_there_stays(traces, tmp_path):
    export(tmp_path, "-o", "out", "-r0", traces)
    assert "out is there: --force replaces it" in export(tmp_path, "-o", "out", traces, status=2)
    export(tmp_path, "-o", "out", "--force", traces)
    assert len(tree(tmp_path / "out")) == RANKS and os.listdir(tmp_path) == ["out"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for other in ("mine", "file"):
        assert "not an export" in export(tmp_path, "-o", other, "--force", traces, status=2)
    assert tree(tmp_path / "mine") == ["thesis.txt"]
    assert "no such directory to make it in" in export(tmp_path, "-o", "a/b", traces, status=2)
    assert "give -o DIR" in export(tmp_path, traces, status=2)
    assert "none.pfw" in export(tmp_path, "-o", "x", "none.pfw", status=2)
    assert "--merge" in export(tmp_path, "-o", "x", "--merge", traces, status=2)
    assert sorted(os.listdir(tmp_path)) == ["file", "mine", "out"]


def test_damage_is_reported(traces, tmp_path):
    text = (traces / "t-rank0001.pfw").read_text().splitlines(True)
    (tmp_path / "t.pfw").write_text("".join([*text[:5], "{broken\n", *text[5:]]))
    assert "t.pfw:6: " in export(tmp_path, "-o", "out", "t.pfw", status=1)
    assert pyarrow.parquet.read_table(tmp_path / "out").num_rows == 40


def test_a_full_disk_leaves_nothing(long, tmp_path):
    """What was there before is there afterwards."""
    export(tmp_path, "-o", "out", "-n", "n1", long)
    before = (tmp_path / "out" / tree(tmp_path / "out")[0]).read_bytes()
    done = subprocess.run(["bash", "-c", 'ulimit -f 200; exec "$@"', "-", command, "export", "--format", "parquet", "--force",
                           "-o", "out", long], cwd=tmp_path, capture_output=True, text=True, env=CLEAN, check=False)
    assert done.returncode == 2 and "File too large" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out" / tree(tmp_path / "out")[0]).read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_kill_leaves_no_half(long, tmp_path, number):
    with subprocess.Popen([command, "export", "--format", "parquet", "-o", "out", long], cwd=tmp_path, env=CLEAN,
                          stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".out.*.tmp/*.parquet")):
            assert time.monotonic() < until and process.poll() is None
        process.send_signal(number)
    assert process.returncode != 0
    left = os.listdir(tmp_path)
    assert not (tmp_path / "out").exists()
    assert left == [] or number == signal.SIGKILL and left[0].startswith(".out.")


def test_many_ranks_have_few_open_files(way, tmp_path, monkeypatch):
    """Ranks whose lines take turns: more than may be open, with less memory than a row group each."""
    if way == "native":
        pytest.skip("its limits are constants")
    monkeypatch.setattr(pfw.parquet, "_OPEN_MOST", 3)
    monkeypatch.setattr(pfw.parquet, "_ROWS", 64)
    monkeypatch.setattr(pfw.parquet, "_ROWS_WAITING", 256)
    for rank in range(9):
        write_process(tmp_path / f"t-rank{rank:04}.pfw", rank, 9, 1000 + rank, rank)
    ranks = pfw.parquet._Ranks(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    wanted = pfw.read(tmp_path).arrow()
    for start in range(0, 40, 10):
        for rank in range(9):
            batch = wanted.slice(40 * rank + start, 10).combine_chunks().to_batches()[0]
            (of, rest), = pfw.parquet._by_rank(batch)
            assert of == rank
            ranks.add(of, rest)
            assert sum(one.writer is not None for one in ranks.of.values()) <= 3 and ranks.rows < 256 + 10
    ranks.close()
    assert rows(pyarrow.parquet.read_table(tmp_path / "out", partitioning="hive")) == rows(wanted)


def test_without_pyarrow(way, traces, tmp_path):
    if way == "native":
        assert export(tmp_path, "-o", "out", traces, PYTHONPATH="/nowhere") == ""
        return
    (tmp_path / "pyarrow.py").write_text("raise ImportError('no pyarrow')")
    assert export(tmp_path, "-o", "out", traces, status=2, PYTHONPATH=str(tmp_path)) == \
        "pfw export: --format parquet needs pyarrow: pip install 'pfwtrace[arrow]' (no pyarrow)\n"
