"""`pfw index`: what the index says is what jq, pandas and sqlite3 find in the trace itself, on every
kind of trace; it is kept, refused or made anew as it should, and never left half-made."""
import collections
import fcntl
import gzip
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pandas
import pytest

import harness
from harness import pfw

PFW = os.environ["PFW_BIN"]
PYTHON = "/usr/bin/python3"
DOCS = harness.SOURCE / "docs" / "index_format.rst"


def index_of(trace):
    return pathlib.Path(f"{trace}.idx")


def rows(trace, sql):
    """What the sqlite3 command says, as lists of texts."""
    done = harness.run(["sqlite3", "-readonly", "-separator", "\x1f", index_of(trace), sql])
    return [line.split("\x1f") for line in done.stdout.splitlines()]


def traced(tmp_path, command, **variables):
    spools = tmp_path / "spools"
    spools.mkdir(exist_ok=True)
    base = tmp_path / "traces" / "t"
    base.parent.mkdir(exist_ok=True)
    harness.run(command, harness.traced_environment(base, spools, **variables), cwd=tmp_path)
    return sorted(base.parent.glob("*.pfw*"))


def real_python(tmp_path, **variables):
    (tmp_path / "files").mkdir()
    return traced(tmp_path, [PYTHON, "-c", harness.ODD_FILES, tmp_path / "files"], **variables)


def real_cp(tmp_path, **variables):
    return traced(tmp_path, ["cp", "-r", harness.SOURCE / "src", tmp_path / "copy"], **variables)


def real_sqlite(tmp_path, **variables):
    sql = "CREATE TABLE t (a, b);" + "".join(f"INSERT INTO t VALUES ({i}, 'x{i}');"
                                             for i in range(40))
    return traced(tmp_path, ["sqlite3", tmp_path / "data.db", sql], **variables)


PROGRAMS = {"python": real_python, "cp": real_cp, "sqlite": real_sqlite}

# ---- totals ----

MOVES = "read|pread|readv|preadv|preadv2|write|pwrite|writev|pwritev|pwritev2|copy_file_range|" \
    "sendfile|splice|tee|vmsplice|fgets|gets|getline|getdelim|printf|fprintf|dprintf|vprintf|" \
    "vfprintf|vdprintf"

JQ_NAMES = f"""
def ns: (. * 1000 | round);
[inputs | select(.name | startswith("summed") | not)] | group_by([.cat, .name, .ph]) | .[] |
[.[0].cat, .[0].name, .[0].ph, length, ([.[] | select(.dur) | .dur | ns] | add // 0),
 ([.[] | select(.dur) | .dur | ns] | min), ([.[] | select(.dur) | .dur | ns] | max),
 ([.[] | select((.cat == "POSIX" or .cat == "STDIO") and (.args.ret // -1) >= 0) |
   if .name | test("^({MOVES})$") then .args.ret
   elif .name == "fread" or .name == "fwrite" then .args.ret * .args.size
   elif .name == "fputs" or .name == "puts" then .args.count else 0 end] | add // 0)] | @json
"""


def by_jq(trace):
    text = harness.open_trace(trace).read()
    done = subprocess.run(["jq", "-nr", JQ_NAMES], input=text, capture_output=True, check=True)
    return sorted(map(json.loads, done.stdout.splitlines()))


def by_index(trace):
    found = rows(trace, "SELECT json_array(cat, name, ph, count, sum_ns, min_ns, max_ns, bytes) "
                        "FROM name WHERE id > 0")
    return sorted(json.loads(each[0]) for each in found)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("compressed", ["0", "1"])
def test_totals_are_those_of_jq(tmp_path, program, compressed):
    traces = PROGRAMS[program](tmp_path, DFTRACER_TRACE_COMPRESSION=compressed)
    assert traces
    pfw("index", *traces)
    for trace in traces:
        assert by_index(trace) == by_jq(trace)
        assert pfw("index", "--check", trace).stdout.startswith(f"{trace}: its index is right, ")


def test_files_and_percentiles_are_those_of_pandas(tmp_path):
    trace, = real_python(tmp_path)
    pfw("index", trace)
    frame = pandas.read_json(trace, lines=True)
    frame["fname"] = [each.get("fname") for each in frame.args]
    lines = frame[frame.fname.notna()].groupby("fname").size().to_dict()
    frame = frame[frame.cat == "POSIX"].copy()
    frame["ret"] = [each.get("ret") for each in frame.args]
    frame["ns"] = (frame.dur * 1000).round().astype("int64")
    named = frame[frame.fname.notna()]
    expected = collections.Counter()
    for call, column in (("read", "read_bytes"), ("write", "written_bytes")):
        moved = named[(named.name == call) & (named.ret > 0)].groupby("fname").ret.sum()
        for name, value in moved.items():
            expected[name, column] += int(value)
    database = sqlite3.connect(f"file:{index_of(trace)}?mode=ro", uri=True)
    found = {(row[0], column): value for row in database.execute(
        "SELECT fname, read_bytes, written_bytes FROM file WHERE id > 0")
        for column, value in (("read_bytes", row[1]), ("written_bytes", row[2])) if value}
    assert found == dict(expected)
    counts = dict(database.execute("SELECT fname, lines FROM file WHERE id > 0"))
    assert counts == lines
    for name, share in (("read", .5), ("write", .99), ("close", .95)):
        ns = sorted(frame[frame.name == name].ns)
        blob, = database.execute("SELECT durations FROM name WHERE name = ?", (name,)).fetchone()
        exact = ns[math.ceil(share * len(ns) - 1e-6) - 1]
        assert abs(sketch_quantile(blob, share) - exact) <= (.01 * exact + 1 if len(ns) > 256 else 0)


def sketch_quantile(blob, share):
    """As docs/index_format.rst describes the column `durations`."""
    counts, at, bucket = {}, 0, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = blob[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    few = number()
    if few:
        rank = math.ceil(share * few - 1e-6)
        return sum([number() for _ in range(few)][:max(rank, 1)])
    while at < len(blob):
        step = number()
        bucket += step >> 1
        counts[bucket] = 1 if step & 1 else number()
        bucket += 1
    rank = math.ceil(share * sum(counts.values()) - 1e-6) - 1
    for bucket, count in counts.items():
        rank -= count
        if rank < 0:
            return bucket_middle(bucket)
    return 0


def bucket_of(value):
    if value <= 0:
        return 0
    octave = int(value).bit_length() - 1
    x = value / 2 ** octave - 1
    return 1 + octave * 35 + int(6 * x ** 3 - 21 * x ** 2 + 50 * x)


def bucket_middle(bucket):
    if bucket == 0:
        return 0
    octave = (bucket - 1) // 35
    inside = [value for value in (2 ** octave * (1 + i / 4096) for i in range(4096))
              if bucket_of(value) == bucket]
    return 2 * inside[0] * inside[-1] / (inside[0] + inside[-1])


# ---- made-up traces of several blocks ----

PROCESS = ('{"id":1,"name":"process","cat":"pfw","pid":7,"tid":7,"ts":1795000000000000.000,'
           '"ph":"M","args":{"format":1,"run":"r","host":"h","rank":0,"cmd":"c"}}\n')


def lines_of(count, seed=1):
    draw = random.Random(seed)
    yield PROCESS
    ns = 1795000000000000000
    for number in range(2, count):
        ns += draw.randrange(5000)
        name = draw.choice(["read", "write", "open", "forward", "Memcpy HtoD"])
        cat = {"forward": "app", "Memcpy HtoD": "PP"}.get(name, "POSIX")
        args = {"app": '"span_id":%d' % number, "PP": '"kind":"memcpy","bytes":%d' % number,
                "POSIX": '"fname":"/data/%d","fd":3,"ret":%d' % (draw.randrange(200), number)}[cat]
        yield (f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":7,"tid":{7 + number % 3},'
               f'"ts":{ns // 1000}.{ns % 1000:03d},"dur":{draw.randrange(90)}.{number % 1000:03d},'
               f'"ph":"X","args":{{{args}}}}}\n')


def write_plain(path, lines):
    path.write_text("".join(lines))


def write_foreign(path, lines):
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(lines)


def write_many(path, lines):
    """Gzip members that do not say their length."""
    lines = list(lines)
    with open(path, "wb") as file:
        for at in range(0, len(lines), 5000):
            file.write(gzip.compress("".join(lines[at:at + 5000]).encode(), 1))


KINDS = {"t.pfw": write_plain, "t.pfw.gz": write_foreign, "u.pfw.gz": write_many}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_has_the_same_index(tmp_path, name):
    trace = tmp_path / name
    plain = tmp_path / "plain.pfw"
    KINDS[name](trace, lines_of(20000))
    write_plain(plain, lines_of(20000))
    pfw("index", tmp_path)
    for table in ("name", "file", "thread", "process"):
        assert rows(trace, f"SELECT * FROM {table}") == rows(plain, f"SELECT * FROM {table}")
    assert ["PP", "Memcpy HtoD", "X"] in [each[:3] for each in by_index(trace)]
    assert int(rows(trace, "SELECT blocks FROM meta")[0][0]) > 1
    assert pfw("index", "--check", tmp_path).stdout.count("its index is right") == 2


def test_dftracer_s_files(tmp_path):
    trace = tmp_path / "d.pfw"
    trace.write_text("""[
{"id":0,"name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"name":"/a","value":"9b"}},
{"id":3,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":1795231645699165,"dur":14,"ph":"X","args":{"fhash":"9b","ret":5}},
{"name":"pread","cat":"POSIX","type":3,"ts":1795231645699166,"dur":3,"ph":1,"pid":1,"tid":1,"args":{"ret":7}},
]
""")
    pfw("index", trace)
    assert rows(trace, "SELECT cat, name, ph, count, sum_ns, bytes FROM name WHERE id > 0") == [
        ["dftracer", "FH", "M", "1", "0", "0"], ["POSIX", "read", "X", "1", "14000", "5"],
        ["POSIX", "pread", "X", "1", "3000", "7"]]
    assert rows(trace, "SELECT lines, events FROM meta") == [["5", "2"]]
    assert rows(trace, "SELECT fname, reads, read_bytes FROM file WHERE id > 0") == [
        ["/a", "1", "5"]]
    assert state(trace, "--check") == "checked"


def test_an_empty_file_has_an_empty_index(tmp_path):
    trace = tmp_path / "t.pfw"
    trace.touch()
    assert "indexed, 0 events in 0 blocks" in pfw("index", trace).stdout
    assert "its index is fresh" in pfw("index", trace).stdout


def test_a_million_names_and_files(tmp_path):
    trace = tmp_path / "t.pfw"
    with open(trace, "w", encoding="ascii") as file:
        file.write(PROCESS)
        for i in range(300000):
            file.write(f'{{"id":{i + 2},"name":"n{i}","cat":"POSIX","pid":7,"tid":7,'
                       f'"ts":1795000000{i:06d}.000,"dur":1.000,"ph":"X",'
                       f'"args":{{"fname":"/f/{i}","ret":1}}}}\n')
    done = harness.run(["bash", "-c", f"ulimit -v 600000; exec {PFW} index {trace}"],
                       harness.clean_environment())
    assert "300,000 events" in done.stdout
    (count, names), = rows(trace, "SELECT sum(count), count(*) FROM name WHERE ph != 'M'")
    assert (int(count), int(names)) == (300000, 65535)
    assert int(rows(trace, "SELECT count FROM name WHERE id = 0")[0][0]) == 300000 - 65534
    assert int(rows(trace, "SELECT sum(lines) FROM file")[0][0]) == 300000


# ---- kept, refused, made anew ----

@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.pfw"
    write_plain(path, lines_of(3000))
    return path


def state(trace, *options, status=0):
    done = pfw("index", "--format", "ndjson", *options, trace, status=status)
    return json.loads(done.stdout)["state"] if done.stdout else None


def test_a_fresh_one_is_kept(trace):
    assert state(trace) == "built"
    before = index_of(trace).stat()
    assert state(trace) == "fresh"
    assert index_of(trace).stat().st_ino == before.st_ino
    assert state(trace, "--force") == "built"
    assert index_of(trace).stat().st_ino != before.st_ino
    assert before.st_mode & 0o777 == trace.stat().st_mode & 0o777


def test_a_stale_one_is_made_anew(trace):
    state(trace)
    with open(trace, "a", encoding="ascii") as file:
        file.write("".join(list(lines_of(10, 2))[1:]))
    assert state(trace, "--check", status=1) == "differs"
    assert state(trace) == "built"
    assert state(trace, "--check") == "checked"


def other_tables(path):
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE \"x; DROP TABLE name\" (\"'; --\" INTEGER)")
    database.commit()


HOSTILE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not a database"),
    "noise": lambda path: path.write_bytes(b"SQLite format 3\0" + os.urandom(20000)),
    "cut": lambda path: os.truncate(path, 5000),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0" * 4096),
    "other": lambda path: (path.unlink(), other_tables(path)),
    "tables": other_tables,
    "loop": lambda path: (path.unlink(), path.symlink_to(path)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_one_is_never_believed(trace, kind):
    state(trace)
    expected = by_index(trace)
    HOSTILE[kind](index_of(trace))
    assert state(trace, "--check", status=1) == "differs"
    assert state(trace) == "built"
    assert by_index(trace) == expected
    assert state(trace, "--check") == "checked"


def test_wrong_numbers_are_found_by_check(trace):
    state(trace)
    for change in ("UPDATE name SET count = count + 1 WHERE id = 3", "DELETE FROM loss",
                   "UPDATE block_holds SET files = x'00'", "INSERT INTO step VALUES (0,1,1,1,1,1)",
                   "UPDATE file SET fname = 'x' WHERE id = 2"):
        shutil.copy(index_of(trace), f"{trace}.saved")
        before = index_of(trace).read_bytes()
        database = sqlite3.connect(index_of(trace))
        database.execute(change)
        database.commit()
        database.close()
        if index_of(trace).read_bytes() != before and "loss" not in change:
            assert state(trace, "--check", status=1) == "differs"
            wrong = index_of(trace).stat().st_ino
            done = pfw("index", "-q", trace)
            assert "its index is wrong (" in done.stderr and "making it again" in done.stderr
            assert index_of(trace).stat().st_ino != wrong
            assert state(trace, "--check") == "checked"
        os.replace(f"{trace}.saved", index_of(trace))
    assert state(trace, "--check") == "checked"


def test_several_files_at_once(tmp_path):
    """What threads finish together has nothing of one another: rows are those of one thread."""
    def line(number, **keys):
        return json.dumps({"id": number, "pid": 7, "tid": 7, "ts": 1795230878000000 + number, **keys}) + "\n"

    traces = [tmp_path / f"t-rank{rank:04d}.pfw" for rank in range(16)]
    for rank, path in enumerate(traces):
        path.write_text("".join(
            [line(1, name="process", cat="pfw", ph="M", args={"format": 1, "run": "r", "host": "h",
                                                              "rank": rank, "world_size": 16})] +
            [line(2 + i, name=f"s{i}", cat="app", dur=1 + i * (rank + 1), ph="X", args={})
             for i in range(400)]))
    pfw("index", "-q", "-j", "1", tmp_path)
    alone = [rows(path, "SELECT id, name, count, hex(durations) FROM name") for path in traces]
    assert len(alone[0]) == 402 and alone[0] != alone[1]
    for _ in range(5):
        pfw("index", "-q", "--force", "-j", "4", tmp_path)
        assert [rows(path, "SELECT id, name, count, hex(durations) FROM name") for path in traces] == alone
        pfw("index", "-q", "--check", "-j", "4", tmp_path)


def test_a_trace_that_is_written_is_skipped(trace):
    with open(trace, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = pfw("index", trace, status=1)
    assert "still being written" in done.stderr
    assert not index_of(trace).exists()


def test_damage_is_told_and_the_rest_is_indexed(tmp_path):
    trace = tmp_path / "t.pfw"
    lines = list(lines_of(5000))
    lines[100] = "rubbish\n"
    write_plain(trace, lines)
    done = pfw("index", trace, status=1)
    assert f"{trace}:101: not a JSON object at character 1" in done.stderr
    assert "4,998 events" not in done.stdout and "1 problem" in done.stdout
    assert int(rows(trace, "SELECT sum(count) FROM name")[0][0]) == len(lines) - 1
    assert rows(trace, "SELECT lines, problems FROM meta") == [[str(len(lines)), "1"]]
    packed = tmp_path / "u.pfw.gz"
    write_many(packed, lines_of(20000))
    os.truncate(packed, packed.stat().st_size - 3000)
    done = pfw("index", packed, status=1)
    assert "cut" in done.stderr
    whole = gzip_lines(packed)
    assert int(rows(packed, "SELECT sum(count) FROM name")[0][0]) == whole
    assert pfw("index", "--check", packed, status=1).stdout.startswith(
        f"{packed}: its index is right")


@pytest.mark.parametrize("name", ["t.pfw", "t.pfw.gz", "cut.pfw.gz"])
def test_damage_needs_no_lines(tmp_path, name):
    """What an index answers, it also answers of a damaged trace, with the same problems."""
    trace = tmp_path / name
    lines = list(lines_of(20000))
    lines[100:6000:500] = ["rubbish\n"] * 12  # more than are printed
    write_plain(trace, lines) if name == "t.pfw" else write_many(trace, lines)
    if name == "cut.pfw.gz":
        os.truncate(trace, trace.stat().st_size - 3000)
    commands = [["table"], ["table", "-p"], ["table", "-g", "step"], ["table", "-g", "fname"], ["memory"],
                ["patterns", trace], ["compare", trace]]
    ask = [[*command, trace] for command in commands]
    lines = [pfw(*words, "--no-index", status=None) for words in ask]
    assert pfw("index", trace, status=1)
    for words, expected in zip(ask, lines):
        done = pfw(*words, status=expected.returncode)
        assert (done.stdout, done.stderr) == (expected.stdout, expected.stderr)
    assert not rows(trace, "SELECT 1 FROM meta WHERE problems != (SELECT sum(1 + more) FROM problem)")


def gzip_lines(path):
    """Whole lines that gzip itself can read."""
    done = subprocess.run(["gzip", "-cd", path], capture_output=True, check=False)
    return done.stdout.count(b"\n")


def test_what_cannot_be_indexed(tmp_path, trace):
    os.mkfifo(tmp_path / "pipe.pfw")
    assert "a pipe" in pfw("index", tmp_path / "pipe.pfw", status=2).stderr
    assert "there is no such file" in pfw("index", tmp_path / "none.pfw", status=2).stderr
    assert "takes a whole number from 1 on" in pfw("index", "-j", "0", trace, status=2).stderr
    index_of(trace).mkdir()
    (index_of(trace) / "x").touch()
    done = pfw("index", trace, status=2)
    assert "directory" in done.stderr
    assert not (tmp_path / "t.pfw.idx.tmp").exists()


def test_a_directory_may_be_reached_by_a_link(tmp_path, trace):
    (tmp_path / "link").symlink_to(tmp_path)
    assert state(tmp_path / "link" / "t.pfw") == "built"
    assert state(trace, "--check") == "checked"


def test_other_commands_pass_indexes_over(trace):
    pfw("index", trace)
    assert pfw("query", "--count", trace.parent).returncode == 0
    done = pfw("index", trace.parent)
    assert done.stdout.count("\n") == 1


def test_validate_looks_at_every_row(trace):
    state(trace)
    before = pfw("validate", trace, status=1).stdout
    assert "index" not in before  # a made-up trace: other things are wrong with it
    for change, why in (("name SET bytes = bytes + 1 WHERE id = 3", "bytes of row 3 of the table name is "),
                        ("part SET version = version - 1", "made by an older pfw, it lacks rows of this one)")):
        database = sqlite3.connect(index_of(trace))
        database.execute(f"UPDATE {change}")
        database.commit()
        database.close()
        done = pfw("validate", trace, status=1)
        assert f"its index is wrong ({why}" in done.stdout
        assert "`pfw index` makes it again" in done.stdout
    assert state(trace) == "built"
    assert pfw("validate", trace, status=1).stdout == before
    index_of(trace).write_text("rubbish")
    assert "its index is wrong (not an index of ours)" in pfw("validate", trace, status=1).stdout


# ---- killed, stopped ----

def test_killed_at_any_moment_it_leaves_none_or_a_whole_one(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, lines_of(40000))
    begin = time.monotonic()
    pfw("index", trace)
    whole = time.monotonic() - begin
    expected = by_index(trace)
    draw = random.Random(4)
    killed = tries = 0
    while tries < 40 or (killed <= 5 and tries < 1000):
        tries += 1
        index_of(trace).unlink(missing_ok=True)
        with subprocess.Popen([PFW, "index", str(trace)], stdout=subprocess.DEVNULL,
                              env=harness.clean_environment()) as process:
            time.sleep(draw.random() * whole)
            process.kill()
        if process.returncode == -signal.SIGKILL:
            killed += 1
        else:
            whole *= 0.9  # it was measured while the machine had more to do
        if index_of(trace).exists():
            assert by_index(trace) == expected
            assert state(trace) == "fresh"
    assert killed > 5
    assert state(trace, "--force") == "built"
    assert sorted(os.listdir(tmp_path)) == ["t.pfw", "t.pfw.idx"]


def test_stopped_it_leaves_nothing(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, lines_of(60000))
    stopped = tries = 0
    while tries < 10 or (not stopped and tries < 1000):
        tries += 1
        with subprocess.Popen([PFW, "index", "--force", str(trace)], stdout=subprocess.DEVNULL,
                              env=harness.clean_environment()) as process:
            deadline = time.monotonic() + 60
            while not (tmp_path / "t.pfw.idx.tmp").exists() and time.monotonic() < deadline \
                    and process.poll() is None:
                pass
            process.send_signal(signal.SIGINT)
        stopped += process.returncode == -signal.SIGINT
        assert not (tmp_path / "t.pfw.idx.tmp").exists()
    assert stopped > 0


# ---- the documented queries ----

def test_the_queries_of_the_documentation_run(tmp_path):
    trace, = real_python(tmp_path)
    pfw("index", trace)
    queries = re.findall(r"sqlite3 t\.pfw\.idx \"([^\"]+)\"", DOCS.read_text())
    assert len(queries) > 4
    for query in queries:
        assert rows(trace, query) or "step" in query or "loss" in query, query
    tables = {each[0] for each in rows(trace, "SELECT name FROM sqlite_schema")}
    for table in tables:
        columns = [each[1] for each in rows(trace, f"PRAGMA table_info({table})")]
        section = DOCS.read_text().split(f"\n``{table}``\n")[1].split("\n\n")[0]
        for column in columns:
            assert f"``{column}``" in section, f"docs/index_format.rst: {table}.{column}"


def test_many_stale_indexes_are_one_warning(tmp_path):
    traces = [tmp_path / f"t-{i}.pfw" for i in range(3)]
    for trace in traces:
        trace.write_text('{"id":1,"name":"a","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"X",'
                         '"args":{}}\n' * 9)
    pfw("index", tmp_path)
    for number, trace in enumerate(traces):
        assert pfw("query", "--count", "--name", "a", tmp_path).stderr.count("\n") == (number > 0)
        with open(trace, "a") as file:
            file.write('{"id":2,"name":"b","cat":"c","pid":1,"tid":1,"ts":2,"dur":1,"ph":"X",'
                       '"args":{}}\n')
    for command in ("query --count", "table --fname x", "overlap"):
        done = pfw(*command.split(), "--since", "0", tmp_path)
        assert done.stderr.replace(str(tmp_path), "").count(".idx") == 1, done.stderr
        assert done.stderr.startswith(f"pfw {command.split()[0]}: 3 indexes are not used, the "
                                      f"first {traces[0]}.idx: "), done.stderr
    assert pfw("query", "-q", "--count", "--name", "a", tmp_path).stderr == ""


def test_times_that_fit_in_no_number(tmp_path):
    """Calls on a file that take 2^63 ns together, and, compacted, a span that begins before 1970."""
    call = ('{{"id":{0},"name":"{1}","cat":"POSIX","pid":7,"tid":{0},"ts":1795230878000000.000,'
            '"dur":4000000000000000.000,"ph":"X","args":{{"fname":"/a"}}}}\n')
    for number in range(3):
        (tmp_path / f"a{number}.pfw").write_text(call.format(number, "open") + call.format(number + 9, "read"))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "b.pfw").write_text('{"id":3,"name":"early","cat":"app","pid":8,"tid":8,"ts":-5.000,'
                                            '"dur":3877.051,"ph":"X","args":{}}\n')
    pfw("index", tmp_path)
    pfw("compact", "-q", tmp_path / "old")
    for words in [["-g", "fname", tmp_path], ["-g", "fname", "--row-limit", "1", tmp_path],
                  ["--format", "csv", "--since", "0", "--until", "1795230878000000", tmp_path / "old"]]:
        answer = pfw("table", *words).stdout
        assert answer == pfw("table", "--no-index", *words).stdout and ("9223372036.855s" in answer or "early" in answer)
