"""libpfwread.so.1 against `pfw query`: what it gives has to be the lines, value by value, with the columns and
types of docs/read.rst, of random traces (generate.py) in each state (states.py), and of lines made to be hard.

PFW_ORACLE is how many random traces, PFW_SEED the first of them."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading

import pytest

if os.environ.get("PFW_SANITIZE"):
    pytest.skip("the library would want the sanitizer's runtime", allow_module_level=True)

import generate
import states
from arrow_rows import LIBRARY, Failed, Reader, metadata
from harness import PFW, SOURCE, clean_environment, run, traced_environment
from test_live import wait_until

TRACES = int(os.environ.get("PFW_ORACLE", "40"))
SEED = int(os.environ.get("PFW_SEED", "1"))
FORMATS = {"int64": "l", "float64": "g", "text": "i,u", "list": "i,u", "three": "+w:3,i", "utf8": "u"}
CONDITIONS = [{}, {"meta": "1"}, {"cat": "P*"}, {"name": ["read", "write*", "aten::*"]}, {"since": "20%", "until": "70%"},
              {"where": ["dur > 1us", "args.ret >= 0 || cat != 'POSIX'"]}, {"min-dur": "1us"}, {"rank": "1-2"},
              {"tid": "100,1100"}, {"fname": "*.npz"}]


class Text(str):
    """A number with a fraction or an exponent, as it is written."""


def documented():
    """{column: type} of docs/read.rst, in order."""
    text = pathlib.Path(SOURCE, "docs/read.rst").read_text()
    table = text[text.index("columns-begin"):text.index("columns-end")]
    rows = re.findall(r"^   \* - (``.*?)\n     - (\w+)$", table, re.M | re.S)
    return {name: kind for names, kind in rows for name in re.findall(r"``([\w.]+)``", names)}


COLUMNS = documented()


def is_int(value):
    return type(value) is int and -2**63 <= value < 2**63


def fitted(kind, value):
    """(whether it fits, what the column then has)."""
    if kind == "int64":
        return is_int(value), value
    if kind == "float64":
        return isinstance(value, (int, Text)) and not isinstance(value, bool), value if value is None else \
            float(value) if isinstance(value, (int, Text)) else value
    if kind == "text":
        return isinstance(value, str) and not isinstance(value, Text), value
    if kind == "list":
        return isinstance(value, list), value
    fits = isinstance(value, list) and 0 < len(value) < 4 and all(is_int(x) and 0 <= x < 2**31 for x in value)
    return fits, (value + [1, 1])[:3] if fits else None


def ns(value):
    whole, _, decimals = str(value).partition(".")
    return int(whole) * 1000 + int((decimals + "000")[:3])


def expected(line, rank):
    """The row of a line, as docs/read.rst says."""
    row = dict.fromkeys(COLUMNS)
    row["rank"] = rank
    for name in ("pid", "tid", "id", "ph", "cat", "name"):
        row[name] = line.get(name)
    for name in ("ts", "dur"):
        row[name] = ns(line[name]) if name in line else None
    rest = {}
    for key, value in line.get("args", {}).items():
        column = key if key in ("step", "span") else f"args.{key}"
        kind = COLUMNS.get(column)
        if kind and value is None:
            continue
        fits, value_of = fitted(kind, value) if kind else (False, None)
        if fits:
            row[column] = value_of
        else:
            rest[key] = value
    row["args_json"] = rest or None
    return row


def parsed(text):
    return json.loads(text, parse_float=Text)


def given(row):
    """A row of the library with its JSON texts parsed."""
    return {name: parsed(value) if value is not None and COLUMNS[name] in ("list", "utf8") else value
            for name, value in row.items()}


def asked(directory, conditions):
    """The lines that `pfw query` gives, and the rank of each."""
    options = [f"--{name}" if name == "meta" else f"--{name}={value}" for name, values in conditions.items()
               for value in (values if isinstance(values, list) else [values])]
    command = [PFW, "query", "-q", *options, directory]
    lines, ranks = (subprocess.run([*command, *more], env=clean_environment(), text=True, capture_output=True,
                                   check=False) for more in ([], ["--fields", "rank", "--format", "ndjson"]))
    if lines.returncode == 2:
        return lines.stderr
    return list(zip(map(parsed, lines.stdout.splitlines()),
                    (json.loads(text)["rank"] for text in ranks.stdout.splitlines())))


def check(directory, conditions, jobs=3):
    lines = asked(directory, conditions)
    try:
        reader = Reader(directory, jobs=jobs, **conditions)
        rows = reader.rows()
    except Failed as failed:
        assert isinstance(lines, str) and failed.args[1].splitlines()[0] in lines, (failed, lines)
        return []
    assert not isinstance(lines, str), lines
    assert len(rows) == len(lines)
    for row, (line, rank) in zip(rows, lines):
        assert given(row) == expected(line, rank), line
    reader.close()
    return rows


def test_every_value_of_random_traces(tmp_path):
    """In the order of `pfw query`, whatever the state and the condition."""
    count = 0
    for seed in range(SEED, SEED + TRACES):
        chance = random.Random(seed)
        state = chance.choice(states.STATES)
        at = states.write(tmp_path / str(seed), generate.world(seed), state)
        for conditions in [{"meta": "1"}, chance.choice(CONDITIONS)]:
            try:
                count += len(check(at, conditions, chance.choice((1, 3))))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {state}, {conditions}: {error}") from error
        states.remove(tmp_path / str(seed))
    assert count > 100 * TRACES // 4


def test_types_are_those_of_the_page(tmp_path):
    (tmp_path / "t.pfw").write_text(HARD[0])
    reader = Reader(tmp_path / "t.pfw")
    (schema, _), = reader.batches()
    assert schema == {name: FORMATS[kind] for name, kind in COLUMNS.items()}
    assert metadata(reader) == {"pfw.schema": "2"}


def line(name="x", cat="POSIX", ph="X", **args):
    made = {"id": 1, "name": name, "cat": cat, "pid": 5, "tid": 6, "ts": 1795230878627639.123, "dur": 0.5, "ph": ph}
    text = json.dumps({**made, "args": args}, separators=(",", ":"))
    return text.replace('"ts":1795230878627639.0', '"ts":1795230878627639.123').replace(
        '"ts":1795230878627639.2', '"ts":1795230878627639.123') + "\n"


HARD = [
    line(ret=-1, errno="ENOENT", fname="/a\"b\\c\n\u00e9\U0001f600", fd=None, epoch=3, loss=0.25),
    line(ret="text", fd=1.5, fname=7, step="three", span=2**64, gbps="fast", grid={}, kind=["a"]),
    line(grid=[4], block=[1, 2, 3], gbps=1, occupancy=0.1, input_shapes=[[64, 512], [], "a"], strides=[]),
    line(grid=[1, 2, 3, 4], block=[-1, 1, 1], dtypes="float", stack={"a": [1]}, is_remote=True),
    line(grid=[], count=2**63 - 1, offset=-2**63, size=2**63, addr=10**30),
    '{"id":2,"name":"twice","cat":"c","pid":1,"tid":1,"ts":1.000,"dur":1.000,"ph":"X","args":'
    '{"ret":1,"ret":2,"fd":3,"fd":null,"count":"x","count":4,"size":5,"size":"y","\\u0066name":"/e"}}\n',
    '{"id":3,"name":"doubles","cat":"c","pid":1,"tid":1,"ts":1.000,"ph":"i","args":'
    '{"gbps":1e22,"occupancy":-0.30000000000000004,"total_cpu_percent":123456789012345678901234.5e-7,"x":[ 1 , {"y" : "z"} ]}}\n',
    '{ "name" : "spaced", "ph" : "i", "ts" : 5, "args" : { "ret" : 7 , "grid" : [ 2 , 3 ], "a" : "b" } , "other" : 1 }\n',
    '{"name":"no args","ph":"X","ts":1.5,"dur":2,"cat":"POSIX"}\n',
    '{"id":4,"name":"many","cat":"app","pid":1,"tid":1,"ts":1.000,"dur":1.000,"ph":"X","args":{' +
    ",".join(f'"key{i}":{i}' for i in range(100)) + ',"ret":9}}\n',
    line(name="", cat="", fname="", flags="\u0000", module="m"),
]


@pytest.mark.parametrize("jobs", (1, 3))
def test_lines_that_are_hard(tmp_path, jobs):
    (tmp_path / "t.pfw").write_text("".join(HARD))
    rows = Reader(tmp_path / "t.pfw", jobs=jobs).rows()
    assert len(rows) == len(HARD)
    for row, text in zip(rows, HARD):
        wanted, got = expected(parsed(text), None), given(row)
        if '"twice"' in text:  # the column has the last value, args_json what did not fit
            assert (got["args.ret"], got["args.fd"], got["args.count"], got["args.size"], got["args.fname"]) == \
                (2, None, 4, None, "/e")
            assert got["args_json"] == {"count": "x", "size": "y"}
            continue
        if '"flags"' in text:
            wanted["args.flags"] = "\ufffd"
        assert got == wanted, text


@pytest.mark.parametrize("jobs", (1, 3))
def test_lines_of_one_form(tmp_path, jobs):
    """What lines of a name have in common is read once in a while: the others have it, too."""
    chance = random.Random(SEED + jobs)
    values = [*range(40), *range(40), -1, 2**63, 1.5, "text", 'with "escapes"\n', None, [1, 2], [], {"a": 1}, True]
    made = []
    for i in range(30):
        keys = chance.sample(["ret", "fname", "grid", "gbps", "input_shapes", "step", "own", "errno", "other"], chance.randrange(7))
        same = {key: chance.choice(values) for key in keys}
        for _ in range(chance.randrange(1, 60)):
            varied = {key: chance.choice(values) if chance.random() < 0.1 or key == "ret" else value for key, value in same.items()}
            made.append(line(f"name {i % 7}", chance.choice("ab"), chance.choice("XXXi"), **varied))
    chance.shuffle(made)
    made = sorted(made[:len(made) // 2]) + made[len(made) // 2:]
    (tmp_path / "t.pfw").write_text("".join(made))
    for columns in ({}, {"columns": "name,step,args.ret,cat"}, {"columns": "args.grid,ph"}):
        rows = Reader(tmp_path / "t.pfw", jobs=jobs, **columns).rows()
        assert len(rows) == len(made)
        for row, text in zip(rows, made):
            wanted = expected(parsed(text), None)
            assert given(row) == {name: wanted[name] for name in row}, text


def test_few_columns_are_the_same_columns(tmp_path):
    at = states.write(tmp_path, generate.world(SEED + 2), "raw")
    every = Reader(at, meta=1).rows()
    chance = random.Random(SEED)
    for count in (1, 2, 3, 5, 9, 40):
        names = chance.sample(list(COLUMNS), count)
        rows = Reader(at, meta=1, columns=",".join(names)).rows()
        assert rows == [{name: row[name] for name in names} for row in every]
    (tmp_path / "t.pfw").write_text("".join(HARD))
    every = Reader(tmp_path / "t.pfw").rows()
    for names in (["args_json"], ["args.ret", "args.grid"], ["args.size", "args.fname", "step", "span"]):
        assert Reader(tmp_path / "t.pfw", columns=",".join(names)).rows() == \
            [{name: row[name] for name in names} for row in every]


def test_dftracers_files_have_their_names(tmp_path):
    (tmp_path / "d.pfw").write_text(
        '[\n{"id":1,"name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":4,"type":1,"args":{"name":"/data/x","value":"ab12"}}\n'
        '{"id":2,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":100,"dur":5,"ph":1,"type":0,"args":{"fhash":"ab12","ret":3}}\n')
    row, = Reader(tmp_path / "d.pfw").rows()
    assert (row["args.fname"], row["args.ret"], row["ts"], row["ph"]) == ("/data/x", 3, 100000, "X")
    assert json.loads(row["args_json"]) == {"fhash": "ab12"}


def test_what_is_still_in_rings(tmp_path):
    """Of a stopped process, and of one that was killed; as `pfw query` gives it."""
    code = "import os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\nos.pread(fd, 1, 0)\nprint(flush=True)\n" \
           "for _ in sys.stdin:\n for _ in range(50): os.pread(fd, 1, 0)\n print(flush=True)\n"
    (tmp_path / "data").write_bytes(b"x")
    env = traced_environment(tmp_path / "t", tmp_path, PFW_FLUSH_MS="2000", DFTRACER_DATA_DIR=str(tmp_path))
    trace = tmp_path / "t.pfw"
    with subprocess.Popen(["/usr/bin/python3", "-c", code, tmp_path / "data"], env=env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            assert wait_until(lambda: trace.exists() and b"pread" in trace.read_bytes())
            for count in range(51, 1000, 50):
                os.kill(process.pid, signal.SIGCONT)
                process.stdin.write(b"\n")
                process.stdin.flush()
                process.stdout.readline()
                os.kill(process.pid, signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                written = trace.read_bytes().count(b'"pread"')
                if written < count:  # the writer was not faster
                    break
            assert len(check(tmp_path, {"name": "pread"})) == count > written > 0
        finally:
            process.kill()
    assert len(check(tmp_path, {"name": "pread"})) == count
    assert [row["name"] for row in check(tmp_path, {"meta": "1"})][-1] == "end"
    assert trace.read_bytes().count(b'"pread"') == written


def test_damage_is_counted_and_described(tmp_path):
    (tmp_path / "t.pfw").write_text(HARD[0] + "{broken\n" + HARD[2] + HARD[0][:40])
    reader = Reader(tmp_path / "t.pfw")
    assert len(reader.rows()) == 2
    first, last = reader.problems()
    assert first.startswith(f"{tmp_path}/t.pfw:2: ") and last.startswith(f"{tmp_path}/t.pfw:4: ")
    packed = subprocess.run(["gzip", "-c"], input="".join(HARD).encode() * 5000, capture_output=True, check=True).stdout
    (tmp_path / "cut.pfw.gz").write_bytes(packed[:len(packed) // 2])
    reader = Reader(tmp_path / "cut.pfw.gz", tmp_path / "t.pfw")
    assert len(reader.rows()) > 1000
    assert any(f"{tmp_path}/cut.pfw.gz" in text for text in reader.problems())


@pytest.mark.parametrize("options, error, said", [
    ({"columns": "ts,args.nothing"}, -22, "columns: there is no column args.nothing"),
    ({"columns": "ts,ts"}, -22, "columns: column ts is in the list twice"),
    ({"where": "dur >"}, -22, "where"), ({"rank": "a"}, -22, "rank a: want numbers and ranges"),
    ({"colour": "red"}, -22, "there is no option colour: since until"), ({"meta": "yes"}, -22, "meta yes: want 0 or 1"),
    ({"jobs": "1000"}, -22, "jobs 1000: want a number of threads, at most 64"),
    ({"batch-rows": "-1"}, -22, "batch-rows -1: want a number of rows"), ({"since": "step:9"}, -2, "step:9"),
])
def test_what_cannot_be_asked(tmp_path, options, error, said):
    (tmp_path / "t.pfw").write_text(HARD[0])
    with pytest.raises(Failed) as failed:
        Reader(tmp_path / "t.pfw", **options).rows()
    assert failed.value.args[0] == error and failed.value.args[1].startswith(said), failed.value


def in_parts(directory, blocks, **conditions):
    """(all rows, part by part; the parts); the bounds of each part's times hold."""
    parts, rows = Reader(directory, **conditions).divide(blocks), []
    for part, least, greatest in parts:
        some = Reader(directory, part=part, **conditions).rows()
        assert all(row["ts"] is None or least <= row["ts"] <= greatest for row in some), (part, least, greatest)
        rows += some
    return rows, parts


def test_parts_are_the_whole(tmp_path):
    """In each state of traces, with conditions; a part is what has no other part's blocks."""
    several = 0
    for seed in range(SEED, SEED + max(10, TRACES // 4)):
        chance = random.Random(seed)
        state = chance.choice(states.STATES)
        at = states.write(tmp_path / str(seed), generate.world(seed), state)
        conditions = chance.choice(CONDITIONS)
        try:
            whole = Reader(at, **conditions).rows()
        except Failed as failed:
            with pytest.raises(Failed, match=re.escape(failed.args[1][:60])):
                Reader(at, **conditions).divide(1)
            continue
        rows, parts = in_parts(at, 1, **conditions)
        assert rows == whole, (seed, state, conditions)
        several += len(parts) > 1
        states.remove(tmp_path / str(seed))
    assert several > 2


@pytest.mark.parametrize("kind", ["raw", "gzip", "compacted"])
def test_parts_of_long_traces(tmp_path, kind):
    """Parts are as long as asked; those of a compacted trace are disjoint in time, and no cut is between lines of one
    ts; what is no gzip of ours is one part."""
    text = "".join('{"id":%d,"name":"n%d","cat":"c","pid":1,"tid":1,"ts":%d.000,"dur":90000.000,"ph":"X","args":{"ret":%d}}\n' %
                   (i, i % 3, 1795230878000000 + (7000 if 7000 < i < 9500 else i), i) for i in range(60000))
    (tmp_path / "t.pfw").write_text(text)
    if kind == "gzip":
        run(["gzip", tmp_path / "t.pfw"])
    elif kind != "raw":
        run([PFW, "compact", "-q", tmp_path / "t.pfw"], clean_environment())
    whole = Reader(tmp_path, columns="id,ts").rows()
    for blocks in (1, 2, 5):
        rows, parts = in_parts(tmp_path, blocks, columns="id,ts")
        assert rows == whole and len(whole) == 60000
        assert len(parts) == 1 if kind == "gzip" else len(whole) * 100 / blocks / 2**20 <= len(parts) <= 8 / blocks + 1, parts
        if kind == "compacted":
            assert all(before[2] < after[1] for before, after in zip(parts, parts[1:])), parts
    rows, parts = in_parts(tmp_path, 1, columns="id,ts", until="20%")
    assert len(parts) < 4 or kind == "raw"  # whose blocks say no times
    assert rows == Reader(tmp_path, columns="id,ts", until="20%").rows() and rows


def test_a_part_of_other_traces_is_refused(tmp_path):
    (tmp_path / "t.pfw").write_text("".join(HARD) * 2000)
    (part, *_), *_ = Reader(tmp_path).divide(1)
    assert Reader(tmp_path, part=part).rows() and len(Reader(tmp_path, part="").rows()) == 2000 * len(HARD)
    with open(tmp_path / "t.pfw", "a", encoding="utf-8") as file:
        file.write(HARD[0])
    with pytest.raises(Failed) as failed:
        Reader(tmp_path, part=part).rows()
    assert failed.value.args[0] == -116 and "have grown: divide them again" in failed.value.args[1]
    for wrong in ("1", "0-0/1", "5-2/1", "1-2", "1-2/x", "-1", "0-1/1 "):
        with pytest.raises(Failed, match="want a part of pfw_read_divide"):
            Reader(tmp_path, part=wrong)


def test_no_trace(tmp_path):
    with pytest.raises(Failed) as failed:
        Reader(tmp_path / "none.pfw").rows()
    assert failed.value.args[0] == -2 and "none.pfw" in failed.value.args[1]


def threads():
    return len(os.listdir("/proc/self/task"))


def test_streams_again_and_ended_early(tmp_path):
    """Without threads between calls, and also when a stream is released before its end, or its reader first."""
    (tmp_path / "t.pfw").write_text("".join(HARD) * 20000)
    reader = Reader(tmp_path / "t.pfw", jobs=4, columns="id,name,args.fname,args_json")
    first = next(batches := reader.batches())
    before = threading.active_count()
    while threads() > before:  # a joined thread is listed for a moment; one that stays is a hang
        pass
    reader.close()
    assert next(batches)[0] == first[0]
    batches.close()
    assert len(Reader(tmp_path / "t.pfw", jobs=4).rows()) == 20000 * len(HARD)


def test_memory_does_not_grow_with_the_trace(tmp_path):
    program = ("import re, sys; sys.path.insert(0, sys.argv[2]); from arrow_rows import *\n"
               "reader, stream, array, count = Reader(sys.argv[1], jobs=2), Stream(), Array(), 0\n"
               "reader.check(reader.library.pfw_read_stream(reader.handle, ctypes.byref(stream)))\n"
               "while stream.get_next(ctypes.byref(stream), ctypes.byref(array)) == 0 and array.release:\n"
               "    count += array.length; array.release(ctypes.byref(array))\n"
               "print(count, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n")
    memory = []
    for times in (2000, 60000):
        (tmp_path / "t.pfw").write_text("".join(HARD) * times)
        out = run(["/usr/bin/python3", "-c", program, tmp_path / "t.pfw", pathlib.Path(__file__).parent],
                  clean_environment(PFW_LIB_DIR=os.environ["PFW_LIB_DIR"])).stdout.split()
        assert int(out[0]) == times * len(HARD)
        memory.append(int(out[1]))
    assert memory[1] < 256 << 10, memory  # of 230 MB of text


def test_library_needs_nothing_of_the_recorder():
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-dW", LIBRARY]).stdout)
    assert needed and not [name for name in needed if "pfw" in name]
    shown = [text.split()[-1] for text in run(["nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY])
             .stdout.splitlines()]
    header = pathlib.Path(SOURCE, "include/pfw/read.h").read_text()
    declared = set(re.findall(r"^PFW_READ_API.*?(pfw_read_\w+)\(", header, re.M))
    assert {name.removesuffix("@@PFW_READ_1") for name in shown} == declared | {"PFW_READ_1"}
