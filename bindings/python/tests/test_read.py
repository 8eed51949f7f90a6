"""pfw.query, pfw.read, python -m pfw and the notebook's magic."""
import json
import os
import pathlib
import signal
import sys
import threading

import pytest

import pfw
from conftest import PFW

PROGRAM = """
    import pfw
    pfw.start("t")
    for i in range(5):
        with pfw.span(f"work {i % 2}", number=i, text="x"):
            with open("file", "w") as file:
                file.write("y" * i)
    pfw.event("exact", 1_700_000_000_123_456_789, 1_001)
    """


@pytest.fixture
def trace(run):
    run.script(PROGRAM)
    return run.directory / "t.pfw"


def test_lines_that_fulfil_conditions(trace):
    assert [event["args"]["number"] for event in pfw.query(trace, cat="app", name="work*")] == [0, 1, 2, 3, 4]
    exact, = pfw.query([trace], name="exact")
    assert (exact["ts"], exact["dur"]) == (1_700_000_000_123_456_789, 1_001)
    assert len(list(pfw.query(trace, where="args.number > 1", limit=2))) == 2
    assert next(pfw.query(trace, meta=True))["name"] == "process"
    stopped = pfw.query(trace)
    next(stopped)
    stopped.close()


def test_options_of_the_command_that_yield_lines(trace):
    assert len(list(pfw.query(trace, cat=None, name="exact", meta=False))) == 1
    assert list(pfw.query(trace, name="exact", fields=["ts", "dur", "name"])) == \
        [{"ts": 1_700_000_000_123_456_789, "dur": 1_001, "name": "exact"}]
    for option in ({"count": True}, {"output": trace.parent / "o"}, {"format": "csv"}, {"help": True}):
        with pytest.raises(ValueError, match=f"no option {min(option)}"):
            list(pfw.query(trace, **option))


def test_what_cannot_be_read(trace):
    with pytest.raises(ValueError):
        list(pfw.query(trace.parent / "none"))
    with pytest.raises(ValueError):
        list(pfw.query(trace, where="(("))


def numbers(frame):
    """args.number of the spans, which has no column of its own."""
    return [json.loads(text)["number"] for text in frame["args_json"]]


def test_a_frame_of_pandas(trace):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pfw.read(trace, cat="app").to_pandas()
    assert isinstance(frame, pandas.DataFrame) and str(frame["ts"].dtype) == "int64[pyarrow]"
    assert numbers(frame[frame["name"].astype(str).str.startswith("work")]) == [0, 1, 2, 3, 4]
    assert frame[frame["name"] == "exact"]["ts"].item() == 1_700_000_000_123_456_789
    writes = pfw.read(trace, name="write", where='args.fname =~ "/file$"').to_pandas()
    assert writes["args.ret"].sum() == 10 and (writes["dur"] > 0).all()
    assert str(writes["args.grid"].dtype).startswith("fixed_size_list") and writes["args.grid"].isna().all()


def test_a_frame_of_polars(trace):
    polars = pytest.importorskip("polars")
    frame = pfw.read([trace], where="ph == 'X'", columns=["ts", "name", "args.ret", "args_json"]).to_polars()
    assert frame.columns == ["ts", "name", "args.ret", "args_json"] and frame["ts"].dtype == polars.Int64
    assert frame.filter(polars.col("name") == "exact")["ts"].to_list() == [1_700_000_000_123_456_789]
    assert frame.filter(polars.col("name") == "write")["args.ret"].sum() == 10
    assert polars.DataFrame(pfw.read(trace)).height == len(list(pfw.query(trace)))


def test_a_relation_of_duckdb(trace):
    duckdb = pytest.importorskip("duckdb")
    lines = pfw.read(trace, columns="name,dur,args.ret").duckdb()
    for _ in range(2):  # read anew for each
        assert lines.filter("name = 'write'").sum('"args.ret"').fetchall() == [(10,)]
    assert lines.types == ["VARCHAR", "BIGINT", "BIGINT"]
    with duckdb.connect() as other:
        assert pfw.read(trace, name="exact").duckdb(other).fetchall()[0][4:6] == (1_700_000_000_123_456_789, 1_001)


def test_a_dataset(trace):
    """Of pyarrow and polars, which ask for columns and lines."""
    compute, polars = pytest.importorskip("pyarrow.compute"), pytest.importorskip("polars")
    events = pfw.read(trace, cat=["app", "POSIX"]).dataset()
    whole = pfw.read(trace, cat=["app", "POSIX"]).arrow()
    writes = (compute.field("name") == "write") & (compute.field("args.ret") > 1)
    assert events.to_table().equals(whole) and events.schema == whole.schema and events.count_rows() == whole.num_rows
    assert events.to_table(columns=["dur", "ts"], filter=writes).equals(whole.filter(writes).select(["dur", "ts"]))
    assert events.to_table(columns={"us": compute.field("dur") / 1000}).column_names == ["us"]
    lazy = polars.scan_pyarrow_dataset(events).filter((polars.col("name") == "write") & (polars.col("args.ret") > 1))
    assert lazy.select(polars.col("args.ret").sum()).collect().item() == 9
    assert dict(events._read[-1]._options)["columns"] in ("args.ret,name", "name,args.ret")
    for refused in (events.get_fragments, lambda: events.filter(writes), lambda: events.partition_expression):
        with pytest.raises(NotImplementedError, match="no fragments"):
            refused()
    with open(trace, "a", encoding="utf-8") as file:
        file.write("broken\n")
    assert pfw.read(trace).dataset().problems == [] and events.count_rows() == whole.num_rows and len(events.problems) == 1
    with pytest.raises(ValueError, match="none"):
        pfw.read(trace.parent / "none").dataset()


def test_values_however_they_are_given(trace):
    pytest.importorskip("pyarrow")
    count = lambda **options: (pfw.read(trace, columns=iter(["ts"]), **options).arrow().num_rows,
                               len(list(pfw.query(trace, **options))))
    whole, both = count(), count(cat=["app", "POSIX"])
    assert whole > both > (0, 0)
    for given in ({"app", "POSIX"}, (one for one in ("app", "POSIX")), [b"app", "POSIX"], {"app": 1, "POSIX": 2}):
        given = list(given) if hasattr(given, "send") else given
        assert count(cat=given) == both
    assert pfw.read(trace, cat=iter(["app", "POSIX"])).arrow().num_rows == both[0]
    assert count(fname=trace.parent / "none") == (0, 0)
    assert pfw.read([os.fsencode(trace)]).arrow().num_rows == pfw.read(os.fsencode(trace)).arrow().num_rows == whole[0]
    assert list(pfw.query(trace, ranks=[7, 8])) == []


@pytest.mark.parametrize("paths, options, error, said", [
    (5, {}, TypeError, "paths=5: want a path"), ([None], {}, TypeError, r"paths=\[None\]: want a path"),
    ("a\0b", {}, ValueError, r"'a\\x00b': no path has"), ("none", {}, ValueError, "none: there is no such file"),
    ("t", {"ranks": []}, ValueError, r"ranks=\[\] names no rank"), ("t", {"ranks": 1.5}, ValueError, "rank.*1.5"),
    ("t", {"colour": 1}, ValueError, "there is no option.*colour")])
def test_what_cannot_be_asked(paths, options, error, said):
    for use in (lambda: pfw.read(paths, **options).__arrow_c_stream__(), lambda: pfw.table(paths, **options).rows(),
                lambda: list(pfw.query(paths, **options))):
        with pytest.raises(error, match=said):
            use()


def test_packages_that_are_not_there(run, trace):
    run.script("""
        import sys
        for name in ("pyarrow", "pandas", "polars", "duckdb", "dask"):
            sys.modules[name] = None
        import pfw
        lines = pfw.read("t")
        for use in (lines.arrow, lines.to_pandas, lines.to_polars, lines.duckdb, lambda: next(lines.batches()),
                    lambda: pfw.to_dask("t")):
            try:
                use()
            except ImportError as error:
                print(error)
        """)
    assert [line.split("needs ")[1] for line in run.output.splitlines()] == [
        f"{name}: pip install 'pfwtrace[{extra}]'" for name, extra in (
            ("pyarrow", "arrow"), ("pandas", "pandas"), ("polars", "polars"), ("duckdb", "duckdb"),
            ("pyarrow", "arrow"), ("dask", "dask"))]


def test_batches(trace):
    pyarrow = pytest.importorskip("pyarrow")
    batches = list(pfw.scan(trace, columns="name,args.fname", cat=["app", "POSIX"], jobs=2))
    assert all(isinstance(batch, pyarrow.RecordBatch) for batch in batches)
    table = pfw.read(trace, columns="name,args.fname", cat=["app", "POSIX"]).arrow()
    wanted = list(pfw.query(trace, cat=["app", "POSIX"]))
    assert sum(batch.num_rows for batch in batches) == table.num_rows == len(wanted) > 20
    assert table.schema.metadata == {b"pfw.schema": b"2"}


def test_the_least_rows_of_a_batch(tmp_path):
    pytest.importorskip("pyarrow")
    for name in "tu":
        (tmp_path / f"{name}.pfw").write_text("".join(
            '{"id":%d,"name":"n","cat":"c","pid":1,"tid":1,"ts":%d.000,"dur":1.000,"ph":"X","args":{}}\n' % (i, i)
            for i in range(60000)))
    for jobs in (1, 3):
        sizes = lambda least: [batch.num_rows for batch in pfw.scan(tmp_path, columns="id", jobs=jobs, batch_rows=least)]
        assert len(sizes(100000)) == 2 and sizes(100000)[0] >= 100000 and sum(sizes(100000)) == 120000
        assert max(sizes(0)) < 100000 and sizes(200000) == [120000]


def test_ranks_and_flags(run):
    for rank in range(3):
        run.script(f"import pfw; pfw.set_rank({rank}, 3); pfw.start('t')\nwith pfw.span('work'): pass\n")
    pyarrow = pytest.importorskip("pyarrow")
    read = lambda **options: pyarrow.table(pfw.read(run.directory, cat="app", **options))["rank"].to_pylist()
    assert read() == [0, 1, 2]
    assert read(ranks=1) == [1] and read(ranks=[0, 2]) == [0, 2] and read(ranks="1-2") == [1, 2]
    assert len(read(ranks=range(2), all_runs=True)) == 2
    assert pfw.read(run.directory, meta=True).arrow().num_rows > 6


def test_what_cannot_be_read_as_arrow(trace):
    pyarrow = pytest.importorskip("pyarrow")
    for path, options, said in ((trace.parent / "none", {}, "none"), (trace, {"where": "(("}, "where"),
                                (trace, {"columns": ["ts", "nothing"]}, "there is no column nothing"),
                                (trace, {"colour": 1}, "there is no option colour")):
        with pytest.raises(ValueError, match=said):
            pyarrow.table(pfw.read(path, **options))
    with open(trace, "a", encoding="utf-8") as file:
        file.write("broken\n")
    lines = pfw.read(trace)
    with pytest.warns(UserWarning, match=r"1 part of the traces cannot be read: .*t\.pfw:\d+: not a JSON object"):
        whole = lines.arrow()
    assert whole.num_rows > 10 and len(lines.problems) == 1
    with pytest.warns(UserWarning):
        assert sum(batch.num_rows for batch in pfw.scan(trace)) == whole.num_rows


def test_threads_read_parts(tmp_path, monkeypatch):
    """Whole frames are made by several threads: the same rows in the same order, problems of all parts."""
    pyarrow, polars, _ = (pytest.importorskip(name) for name in ("pyarrow", "polars", "pandas"))
    text = "".join('{"id":%d,"name":"n%d","cat":"c","pid":1,"tid":1,"ts":%d.000,"dur":1.000,"ph":"X","args":{"ret":%d}}\n' %
                   (i, i % 9, i, i) for i in range(60000))
    for name in ("t.pfw", "u.pfw"):
        (tmp_path / name).write_text(text + "broken\n")
    monkeypatch.setattr(pfw._read, "_BLOCKS_OF_A_PART", 1)
    lines = pfw.read(tmp_path, jobs=3, columns="id,name,args.ret")
    assert 3 < len(lines._parts()) <= 3 * pfw._read._PARTS_OF_A_THREAD and len(pfw.read(tmp_path, jobs=1)._parts()) == 1
    one = pyarrow.table(lines)
    for frame in (lines.arrow, lines.to_pandas, lines.to_polars):
        with pytest.warns(UserWarning, match="^2 parts of the traces cannot be read: .*:60001: |^2 parts .* byte"):
            whole = frame()
        assert list(map(str, whole["id"])) == list(map(str, one["id"])) and list(map(str, whole["name"])) == list(map(str, one["name"]))
    assert len(lines.problems) == 2 and polars.DataFrame(lines).equals(polars.DataFrame(one))
    divide = pfw._reader.divide

    def growing(*given):
        parts = divide(*given)
        with open(tmp_path / "t.pfw", "a", encoding="utf-8") as file:
            file.write(text[:text.index("\n") + 1])
        return parts

    monkeypatch.setattr(pfw._reader, "divide", growing)
    with pytest.warns(UserWarning):
        assert lines.arrow().num_rows == 120002


def test_an_unread_stream_is_released(trace):
    """Whoever takes no batch, or has no use for the capsule, leaves nothing open."""
    open_files = lambda: len(os.listdir("/proc/self/fd"))
    before = open_files()
    for _ in range(10):
        pfw.read(trace).__arrow_c_stream__()
    assert open_files() == before


def test_the_command_as_a_module(run):
    assert run.command(sys.executable, "-m", "pfw", "--version") == f"pfw {pfw.__version__}\n"
    run.command(sys.executable, "-m", "pfw", "table", "none", status=2)
    if sys.prefix != sys.base_prefix:  # the Python that was called, not the first in PATH
        script = run.save("import sys; print(sys.executable)")
        for words in ((sys.executable, "-m", "pfw"), (PFW,)):
            found = run.command(*words, "run", "-q", script, PATH="/usr/bin:/bin", VIRTUAL_ENV="")
            assert found == f"{pathlib.Path(sys.executable).with_name('python3')}\n"


def test_notebook(run):
    pytest.importorskip("IPython")
    run.script("""
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "pfw")
        shell.run_cell("def twice(x):\\n    return [x for _ in range(2)]")
        shell.run_cell_magic("pfw", "first --calls", "made = twice(3)\\nopen('f', 'w').write('x')")
        assert shell.user_ns["made"] == [3, 3]
        shell.run_cell_magic("pfw", "second --quiet", "1 / 0")
        print("on")
        """)
    lines = run.lines("notebook.pfw")
    assert {line["name"]: line["cat"] for line in lines if line["cat"] == "cell"} == \
        {"first": "cell", "second": "cell"}
    assert "twice" in [line["name"] for line in lines if line["cat"] == "python"]
    assert "ZeroDivisionError" in run.output and run.output.endswith("on\n")
    assert "notebook.pfw" in run.output and "write" in run.output
    table = run.output[run.output.index("I/O\n"):run.output.index("I/O time total")].splitlines()
    assert len(table) > 4 and max(map(len, table)) <= 100


def test_an_interrupt_ends_all_parts(trace):
    """Ctrl-C while libraries take streams, which do not look for it; and they can be read again."""
    pyarrow = pytest.importorskip("pyarrow")
    lines = pfw.read(trace)

    def make(part):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while True:
            pyarrow.table(part)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # polars may have set its own
    try:
        with pytest.raises(KeyboardInterrupt):
            lines._each(make)
    finally:
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
    assert lines.arrow().num_rows > 20
