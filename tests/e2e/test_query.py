"""`pfw query`: the same answers as jq and pandas give, on every kind of trace; order, tables, output
files, damage, and traces that are still being written."""
import csv
import decimal
import fractions
import gzip
import io
import itertools
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
import zlib

import pandas
import pytest

import harness
from harness import pfw

PFW = os.environ["PFW_BIN"]
PYTHON = "/usr/bin/python3"

DFTRACER_1 = """[
{"id":0,"name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"name":"/a","value":"9b"}},
{"id":3,"name":"open","cat":"POSIX","pid":1,"tid":1,"ts":1795231645699165,"dur":14,"ph":"X","args":{"fhash":"9b"}},
{"id":4,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":1795231645699185,"dur":4,"ph":"X","args":{"ret":7}}
]
"""
DFTRACER_2 = """\
{"name":"FH","cat":"dftracer","type":1,"pid":1,"tid":1,"ph":4,"args":{"name":"/a","value":"68"}}
{"id":9,"name":"open","cat":"POSIX","type":3,"pid":1,"tid":1,"ts":1795231645699165,"dur":14,"ph":1,"args":{"fhash":"68"}}
{"id":2,"name":"read","cat":"POSIX","type":3,"pid":1,"tid":1,"ts":1795231645699175,"dur":0,"ph":1,"args":{"ret":-1}}
"""


def query(*words, **options):
    done = pfw("query", *words, **options)
    if options.get("status", 0) == 0:
        assert done.stderr == "", done.stderr
    return done.stdout


def ids(text):
    return [(line["pid"], line["id"]) for line in map(json.loads, text.splitlines())]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """One program's trace as each kind of file."""
    top = tmp_path_factory.mktemp("query")
    (top / "data").mkdir()
    for base, more in (("raw", {}), ("gz", {"DFTRACER_TRACE_COMPRESSION": "1"})):
        harness.run([PYTHON, "-c", harness.ODD_FILES, top / "data"],
                    harness.traced_environment(top / base, top, **more))
    with gzip.open(top / "one.pfw.gz", "wb") as file:
        file.write((top / "raw.pfw").read_bytes())
    (top / "dft1.pfw").write_text(DFTRACER_1)
    (top / "dft2.pfw").write_text(DFTRACER_2)
    return {"raw": top / "raw.pfw", "gz": top / "gz.pfw.gz", "one": top / "one.pfw.gz",
            "dft1": top / "dft1.pfw", "dft2": top / "dft2.pfw"}


def text_of(path):
    with harness.open_trace(path) as file:
        return file.read().decode()


def objects(path):
    """The lines of a trace as jq takes them: without DFTracer's frame; ph as a letter."""
    for line in text_of(path).splitlines():
        line = line.strip().rstrip(",")
        if line.startswith("{"):
            line = json.loads(line)
            line["ph"] = {1: "X", 2: "C", 3: "A", 4: "M"}.get(line.get("ph"), line.get("ph"))
            yield line


def jq(filter_, path):
    """[pid, id] of the lines that the filter selects."""
    text = "\n".join(map(json.dumps, objects(path)))
    done = harness.run(["jq", "-c", f"select({filter_})|[.pid,.id]"], input=text, stdin=None)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


# The condition, and the same for jq; metadata is left out by query itself.
CONDITIONS = [
    ([], "true"),
    (["--name", "read"], '.name=="read"'),
    (["--name", "re*", "--name", "open"], '(.name|startswith("re")) or .name=="open"'),
    (["--cat", "POSIX", "--min-dur", "5us"], '.cat=="POSIX" and .dur!=null and .dur>=5'),
    (["--fname", "*.npz"], '.args.fname//""|tostring|endswith(".npz")'),
    (["--fname", '*q"uote'], '.args.fname//""|tostring|endswith("q\\"uote")'),
    (["--fname", "*\t*"], '.args.fname//""|tostring|contains("\t")'),
    (["--where", "args.ret > 100 && args.ret <= 1KiB"],
     '(.args.ret|type)=="number" and .args.ret>100 and .args.ret<=1024'),
    (["--where", 'args.fname =~ "\\.np[yz]$" && !has(args.errno)'],
     '((.args.fname//"")|test("\\\\.np[yz]$")) and .args.errno==null'),
    (["--where", 'args.fname =~ "(?i)\\d+/DATA/[\\w.]+\\.NP[^\\d\\s]$"'],
     '.args.fname//""|tostring|test("[0-9]/data/[a-z.]+\\\\.np[a-z]$")'),
    (["--where", 'args.errno == "ENOENT" || name in ("close", "fstat")'],
     '.args.errno=="ENOENT" or .name=="close" or .name=="fstat"'),
    (["--where", "has(args.ret) && args.ret == args.count"], ".args.ret!=null and .args.ret==.args.count"),
    (["--where", "dur*1000 > 7000ns + 1ms"], ".dur!=null and .dur*1000>7+1000"),
    (["--where", "args.fname > 'b' || args.ret < 0 || tid != pid"],
     '((.args.fname|type)=="string" and .args.fname>"b") or '
     '((.args.ret|type)=="number" and .args.ret<0) or .tid!=.pid'),
]


@pytest.mark.parametrize("kind", ["raw", "gz", "one", "dft1", "dft2"])
def test_answers_are_jq_s(traces, kind):
    some = 0
    for words, filter_ in CONDITIONS:
        wanted = jq(f'.ph!="M" and ({filter_})', traces[kind])
        got = ids(query(*words, traces[kind]))
        assert got == wanted, words
        assert query("--count", *words, traces[kind]) == f"{len(wanted)}\n"
        some += len(wanted) > 0
    assert some == len(CONDITIONS) or kind.startswith("dft")


def test_patterns_know_digits_and_case(tmp_path):
    names = ["read1", "pREAD64", "readd", "Read", "write2"]
    (tmp_path / "t.pfw").write_text("".join(json.dumps(
        {"id": i, "name": name, "cat": "C", "ph": "X", "pid": 1, "tid": 1, "ts": i, "dur": 1}) + "\n"
        for i, name in enumerate(names)))
    for where, wanted in (('name =~ "(?i)read\\d+"', [0, 1]), ('name =~ "(?i)^read\\D?$"', [2, 3]),
                          ('name !~ "\\d$"', [2, 3]), ('name =~ "^[\\w]+[\\d]$"', [0, 1, 4]),
                          ('name =~ "read\\d"', [0])):
        assert [line for _, line in ids(query("--where", where, tmp_path / "t.pfw"))] == wanted, where


def test_lines_stand_as_in_the_trace(traces):
    for kind in ("raw", "gz", "one"):
        wanted = [line for line in text_of(traces[kind]).splitlines() if '"ph":"M"' not in line]
        assert query(traces[kind]).splitlines() == wanted
    # DFTracer's commas and brackets are no part of the objects.
    assert query(traces["dft1"]).splitlines() == \
        [line.rstrip(",") for line in DFTRACER_1.splitlines()[2:4]]


def test_metadata_only_where_it_is_asked_for(traces):
    for words, filter_ in ((["--meta"], "true"), (["--cat", "pfw"], '.cat=="pfw"'),
                           (["--where", 'ph == "M"'], '.ph=="M"'),
                           (["--where", 'cat == "pfw" && name == "end"'],
                            '.cat=="pfw" and .name=="end"')):
        wanted = jq(filter_, traces["raw"])
        assert wanted and ids(query(*words, traces["raw"])) == wanted


def test_dftracer_s_files_have_their_names(tmp_path):
    """An event has a hash; what it stands for is told once, perhaps later or in another file."""
    lines = DFTRACER_2.splitlines(keepends=True)
    (tmp_path / "a.pfw").write_text("".join(lines[1:] + lines[:1]))
    other = lines[1].replace('"68"', '"69"').replace('"id":9', '"id":10')
    (tmp_path / "b.pfw").write_text(other + lines[1].replace('"id":9', '"id":11'))
    name = lines[0].replace('"68"', '"69"').replace('"/a"', '"/b \\"x\\""')
    with gzip.open(tmp_path / "c.pfw.gz", "wt") as file:
        file.write(name + DFTRACER_1.splitlines()[2].rstrip(",") + "\n")
    assert [pair[1] for pair in ids(query("--fname", "/a", tmp_path))] == [9, 11]
    assert [pair[1] for pair in ids(query("--fname", "/b*", tmp_path))] == [10]
    assert [pair[1] for pair in ids(query("--where", 'args.fname == "/b \\"x\\""', tmp_path))] == [10]
    assert query("--where", "!has(args.fname) && args.fhash == '9b'", "--count", tmp_path) == "1\n"
    rows = [json.loads(row) for row in query("--fields", "id,args.fname", "--format", "ndjson",
                                             tmp_path).splitlines()]
    assert {row["id"]: row["args.fname"] for row in rows} == \
        {9: "/a", 2: None, 10: '/b "x"', 11: "/a", 3: None}
    for name in ("a.pfw", "b.pfw", "c.pfw.gz"):
        pfw("index", tmp_path / name)
    assert [pair[1] for pair in ids(query("--fname", "/a", tmp_path))] == [9, 11]
    assert [pair[1] for pair in ids(query("--where", "args.fname =~ 'b'", tmp_path))] == [10]


def test_times_are_exact_to_the_nanosecond(traces):
    lines = [(decimal.Decimal(re.search(r'"ts":([0-9.]+)', line)[1]), json.loads(line)["id"])
             for line in text_of(traces["raw"]).splitlines() if '"ph":"M"' not in line]
    ts, number = lines[len(lines) // 2]
    assert [pair[1] for pair in ids(query("--where", f"ts == {ts}", traces["raw"]))] == \
        [each[1] for each in lines if each[0] == ts]
    assert number in [pair[1] for pair in ids(query("--where", f"ts <= {ts}", traces["raw"]))]
    later = ts + decimal.Decimal("0.001")
    assert len(ids(query("--where", f"ts < {later}", traces["raw"]))) == \
        sum(each[0] < later for each in lines)


def overlapping(path, since, until):
    """[pid, id] of what overlaps [since, until), in ns."""
    wanted = []
    for text in text_of(path).splitlines():
        line = json.loads(text)
        if line["ph"] == "M":
            continue
        begin = int(decimal.Decimal(re.search(r'"ts":([0-9.]+)', text)[1]) * 1000)
        dur = re.search(r'"dur":([0-9.]+)', text)
        end = begin + int(decimal.Decimal(dur[1]) * 1000) if dur else begin
        if begin < until and (begin >= since or end > since):
            wanted.append((line["pid"], line["id"]))
    return wanted


def extent(path):
    begins, ends = [], []
    for text in text_of(path).splitlines():
        ts = int(decimal.Decimal(re.search(r'"ts":([0-9.]+)', text)[1]) * 1000)
        dur = re.search(r'"dur":([0-9.]+)', text)
        begins.append(ts)
        ends.append(ts + (int(decimal.Decimal(dur[1]) * 1000) if dur else 0))
    return min(begins), max(ends)


@pytest.mark.parametrize("kind", ["raw", "gz", "one"])
def test_windows(traces, kind):
    begin, end = extent(traces[kind])
    middle, some = begin + (end - begin) // 2, 0
    part = (end - begin) // 4 // 1000  # µs: what is where depends on how long the start took
    for since, until, low, high in (
            (f"+{part}us", f"+{2 * part}us", begin + 1000 * part, begin + 2000 * part),
            (f"-{2 * part}us", f"-{part}us", end - 2000 * part, end - 1000 * part),
            ("50%", "100%", middle, end + 1),
            ("0%", "50%", begin, middle),
            (f"{middle // 1000}.{middle % 1000:03}", None, middle, end + 1),
            (None, f"+{3 * part}us", begin, begin + 3000 * part)):
        words = (["--since", since] if since else []) + (["--until", until] if until else [])
        wanted = overlapping(traces[kind], low, high)
        assert ids(query(*words, traces[kind])) == wanted, words
        some += len(wanted) > 0
    assert some > 3


def test_a_window_of_steps(tmp_path):
    def line(number, name, ts, dur, args):
        return json.dumps({"id": number, "name": name, "cat": "PP", "pid": 1, "tid": 1, "ts": ts,
                           "dur": dur, "ph": "X", "args": args}) + "\n"

    trace = tmp_path / "t.pfw"
    trace.write_text("".join(
        line(10 * step + 1, "work", 1000 * step + 10, 20, {"step": step}) +
        line(10 * step, f"ProfilerStep#{step}", 1000 * step, 900, {"kind": "step", "step": step})
        for step in range(3, 8)))
    assert [pair[1] for pair in ids(query("--since", "step:4", "--until", "step:6", trace))] == \
        [41, 40, 51, 50]
    assert [pair[1] for pair in ids(query("--since", "step:7", trace))] == [71, 70]
    assert query("--until", "step:8", "--count", trace) == "10\n"
    assert [pair[1] for pair in ids(query("--step", "3,7", "--name", "work", trace))] == [31, 71]
    done = pfw("query", "--since", "step:9", trace, status=2)
    assert "step:9: the last step is 7" in done.stderr and done.stderr.count("\n") == 1


# ---- any expression: against an evaluation in Python ----

def number(text):
    """As expr.h says: exact where it is whole in thousandths, else a double."""
    exact = fractions.Fraction(decimal.Decimal(text)) if abs(
        decimal.Decimal(text).adjusted()) < 40 else None
    return exact if exact is not None and (exact * 1000).denominator == 1 else float(text)


class Other:
    """An object or an array: equal to nothing."""
    def __eq__(self, other):
        return False

    __hash__ = None


def calculate(op, left, right):
    if not all(isinstance(side, (fractions.Fraction, float)) for side in (left, right)):
        return None
    if op == "/" and right == 0:
        return None
    if isinstance(left, fractions.Fraction) and isinstance(right, fractions.Fraction):
        exact = {"+": left.__add__, "-": left.__sub__, "*": left.__mul__,
                 "/": left.__truediv__}[op](right)
        if (exact * 1000).denominator == 1:
            return exact
    left, right = float(left), float(right)
    return {"+": left + right, "-": left - right, "*": left * right}[op] if op != "/" \
        else left / right


def kind_of(value):
    return {fractions.Fraction: "number", float: "number", bool: "truth", str: "text",
            type(None): "null"}.get(type(value), "other")


def compare(op, left, right):
    same = kind_of(left) == kind_of(right)
    if same and kind_of(left) == "number" and type(left) is not type(right):
        left, right = float(left), float(right)
    if op in ("==", "!="):
        return (same and left == right) == (op == "==")
    if not same or kind_of(left) not in ("number", "text"):
        return False
    if kind_of(left) == "text":
        left, right = left.encode(), right.encode()
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


class Generator:
    """Random expressions, each as its text and a function of a line."""
    FIELDS = {"id": "number", "pid": "number", "tid": "number", "ts": "number", "dur": "number",
              "name": "text", "cat": "text", "ph": "text", "rank": "null",
              "args.i": "any", "args.f": "any", "args.s": "any", "args.t": "any", "args.n": "any",
              "args.o.x": "any", "args.o": "any", "args.l": "any", "args.none": "any"}
    TEXTS = ["read", "é\"q", "a\\b", "", "x\ty", "POSIX", "open"]
    PATTERNS = ["^re", "d$", "e", "^open$", "[aeiou]", "o|x", "(re|op)", "a+", "^$", ".", "é"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def constant(self, kind):
        if kind == "text":
            text = self.pick(*self.TEXTS)
            return json.dumps(text, ensure_ascii=self.pick(True, False)), lambda line: text
        text = self.pick("0", "1", "7", "1.5", "0.001", "1000", "5ms", "4KiB", "12", "3us", "1e3",
                         "250ns", "18446744073709551615", "0.00001", "2.500")
        scale = {"5ms": "5000", "4KiB": "4096", "3us": "3", "250ns": "0.25"}
        value = number(scale.get(text, text))
        return text, lambda line: value

    def field(self, kind):
        name = self.pick(*[name for name, is_ in self.FIELDS.items() if is_ in (kind, "any")])

        def value(line):
            found = line
            for key in name.split("."):
                found = found.get(key) if isinstance(found, dict) else None
            return Other() if isinstance(found, (dict, list)) else found
        return name, value

    def value(self, kind, depth):
        which = self.random.random()
        if which < 0.4:
            return self.constant(kind)
        if which < 0.8 or kind == "text" or depth > 3:
            return self.field(kind)
        op = self.pick("+", "-", "*", "/")
        left, left_of = self.value("number", depth + 1)
        right, right_of = self.value("number", depth + 1)
        return f"({left} {op} {right})", lambda line: calculate(op, left_of(line), right_of(line))

    def condition(self, depth=0):
        which = self.random.random()
        if which < 0.3 and depth < 4:
            op = self.pick("&&", "||")
            left, left_of = self.condition(depth + 1)
            right, right_of = self.condition(depth + 1)
            return f"({left}{op}{right})", (
                (lambda line: left_of(line) and right_of(line)) if op == "&&" else
                (lambda line: left_of(line) or right_of(line)))
        if which < 0.4 and depth < 4:
            inner, inner_of = self.condition(depth + 1)
            return f"!({inner})", lambda line: not inner_of(line)
        if which < 0.5:
            name, value_of = self.field("any")
            return f"has({name})", lambda line: value_of(line) is not None
        if which < 0.55:
            name, value_of = self.field("any")
            return f"({name} || false)", lambda line: value_of(line) is True
        if which < 0.65:
            name, value_of = self.field("text")
            pattern, op = self.pick(*self.PATTERNS), self.pick("=~", "!~")
            return f'{name} {op} "{pattern}"', lambda line: (
                isinstance(value_of(line), str) and
                re.search(pattern, value_of(line), re.S) is not None) == (op == "=~")
        kind = self.pick("number", "number", "text")
        left, left_of = self.value(kind, 0)
        if which < 0.75:
            items = [self.constant(kind) for _ in range(self.random.randint(1, 4))]
            return f"{left} in ({', '.join(item[0] for item in items)})", lambda line: any(
                compare("==", left_of(line), item[1](line)) for item in items)
        op = self.pick("==", "!=", "<", "<=", ">", ">=")
        right, right_of = self.value(kind, 0)
        return f"{left}{op}{right}", lambda line: compare(op, left_of(line), right_of(line))


def random_lines(random_, count):
    """Texts of lines, and what is in them."""
    def any_value():
        return random_.choice(["0", "1", "7", "-3", "1.5", "0.10", "1e3", "2.5E-3", "1000.000",
                               "18446744073709551615", "0.00001", "true", "false", "null",
                               '"read"', '"\\u00e9\\"q"', '"a\\\\b"', '""', '"x\\ty"', '{"x":1}',
                               "[1]"])

    for i in range(count):
        args = ",".join(f'"{key}":{any_value()}' for key in "ifstnl" if random_.random() < 0.8)
        if random_.random() < 0.7:
            args += ("," if args else "") + f'"o":{{"x":{any_value()}}}'
        span = random_.random() < 0.8
        dur = f'"dur":{random_.choice([0, 1, 7, 1000, 5000])}.{random_.randint(0, 999):03},'
        yield (f'{{"id":{i},"name":{random_.choice(["", *map(json.dumps, Generator.TEXTS[:3])]) or json.dumps("open")},'
               f'"cat":"{random_.choice(["POSIX", "app"])}","pid":{random_.choice([1, 7, 12])},'
               f'"tid":{random_.choice([1, 12])},"ts":{random_.randint(0, 2000)}.'
               f'{random_.randint(0, 999):03},{dur if span else ""}"ph":"{"X" if span else "i"}",'
               f'"args":{{{args}}}}}')


def member(text):
    """A gzip member of one line, as the recorder writes it, with its times in the header."""
    ts = re.search(r'"ts":([0-9.]+)', text)
    dur = re.search(r'"dur":([0-9.]+)', text)
    begin = int(decimal.Decimal(ts[1]) * 1000)
    end = begin + (int(decimal.Decimal(dur[1]) * 1000) if dur else 0)
    data = (text + "\n").encode()
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    return (b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" +
            struct.pack("<H2sHIIQQ", 28, b"PF", 24, 48 + len(body), 1, begin, end) +
            body + struct.pack("<II", zlib.crc32(data), len(data)))


PROCESS = ('{"id":1000,"name":"process","cat":"pfw","pid":7,"tid":7,"ts":1.000,"ph":"M",'
           '"args":{"format":1,"run":"r","rank":-1,"i":7}}')


@pytest.mark.parametrize("kind", ["raw", "members", "index"])
def test_expressions_mean_what_python_says(tmp_path, kind):
    """Of members, each of one line, only those are read whose header and index allow it."""
    seed = f"{os.environ.get('PFW_QUERY_SEED', '1')}-{kind}"
    generator = Generator(seed)
    texts = [PROCESS, *random_lines(generator.random, 60)]
    lines = [json.loads(text, parse_float=number, parse_int=number) for text in texts]
    trace = tmp_path / ("t.pfw" if kind == "raw" else "t.pfw.gz")
    trace.write_bytes(("\n".join(texts) + "\n").encode() if kind == "raw" else
                      b"".join(map(member, texts)))
    if kind == "index":
        pfw("index", trace)
    different = set()
    for _ in range(int(os.environ.get("PFW_QUERY_ROUNDS", "150"))):
        text, truth = generator.condition()
        meta = re.search(r"\bph\b", text)
        wanted = [int(line["id"]) for line in lines if (line["ph"] != "M" or meta) and truth(line)]
        done = pfw("query", "--fields", "id", "--where", text, trace, status=None)
        assert (done.returncode, done.stderr) == (0, ""), f"seed {seed}: {text}\n{done.stderr}"
        got = list(map(int, done.stdout.splitlines()[1:]))
        assert got == wanted, f"seed {seed}: {text}"
        different.add(tuple(wanted))
    assert len(different) > 30


# ---- with an index ----

@pytest.mark.parametrize("kind", ["raw", "gz", "one", "dft1", "dft2"])
def test_an_index_changes_no_answer(traces, kind, tmp_path):
    copy = tmp_path / traces[kind].name
    copy.write_bytes(traces[kind].read_bytes())
    pfw("index", copy)
    assert (tmp_path / f"{copy.name}.idx").exists()
    begin, end = extent(copy) if not kind.startswith("dft") else (0, 1)
    keys = itertools.cycle(("ts", "-dur", "-ts", "dur"))
    for words, _ in CONDITIONS + [(["--meta", "--pid", "1-999999999"], ""), (["--cat", "pfw"], ""),
                                  (["--since", "30%", "--until", "60%"], ""),
                                  (["--where", f"ts < {(begin + end) // 2000}"], ""),
                                  (["--where", "!(name == 'read' || has(args.fname))"], ""),
                                  (["--where", "args.fname.x == null && pid > 0"], "")]:
        assert query(*words, copy) == query(*words, traces[kind]), words
        first = [*words, "--sort", next(keys), "--limit", 10]
        assert query(*first, copy) == query(*first, traces[kind]), first


def damaged_with_index(trace, durations, each=12000):
    """A trace of three calls, first all of one, then of the next; it was damaged after it was indexed, where
    the first and the second are near."""
    with open(trace, "w") as file:
        file.write('{"id":0,"name":"process","cat":"pfw","pid":7,"tid":7,"ts":1.000,"ph":"M",'
                   '"args":{"format":1,"run":"r","rank":-1}}\n')
        for i, (name, fname) in enumerate((("read", "/a"), ("write", "/b"), ("close", "/c"))):
            for j in range(each):
                file.write(f'{{"id":{each * i + j},"name":"{name}","cat":"POSIX","pid":{i + 7},'
                           f'"tid":{i + 7},"ts":{1000000 * i + j}.000,"dur":{durations[i]}.000,"ph":"X",'
                           f'"args":{{"fname":"{fname}"}}}}\n')
    bytes_ = bytearray(trace.read_bytes())
    pfw("index", trace)
    where = 1_700_000 * each // 12000
    bytes_[where:where + 7] = b"rubbish"
    # The same size and time: what an index can know without reading all.
    times = os.stat(trace)
    with open(trace, "r+b") as file:
        file.write(bytes_)
    os.utime(trace, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_blocks_that_an_index_rules_out_are_not_read(tmp_path):
    """One block is damaged: only who wants what may be in it hears of that."""
    trace = tmp_path / "t.pfw"
    damaged_with_index(trace, (1, 10, 100))
    for words in (["--name", "close"], ["--fname", "/c"], ["--pid", "9"], ["--min-dur", "50us"],
                  ["--since", "2000000"], ["--where", "name == 'close'"], ["--where", "pid > 8"],
                  ["--where", "dur >= 20us"], ["--where", "args.fname =~ 'c$'"]):
        assert query("--count", *words, trace) == "12000\n", words
    for words in (["--name", "write"], ["--fname", "/b"], ["--where", "name != 'read'"]):
        assert "rubbish" not in pfw("query", "--count", *words, trace, status=1).stdout
    os.unlink(f"{trace}.idx")
    assert pfw("query", "--count", "--name", "close", trace, status=1).stdout == "12000\n"


def test_blocks_that_cannot_have_the_first_lines_are_not_read(tmp_path):
    trace = tmp_path / "t.pfw"
    damaged_with_index(trace, (100, 10, 1), each=96000)  # so many blocks are not read ahead
    for key in ("-dur", "ts"):
        done = pfw("query", "-j", "1", "--sort", key, "--limit", "3", trace)
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1, 2]
        assert not done.stderr
    for words in (["--sort", "-ts", "--limit", 3], ["--sort", "dur", "--limit", 3],
                  ["--sort", "-dur", "--limit", 96001], ["--sort", "ts", "--limit", 3, "--no-index"]):
        assert "rubbish" not in pfw("query", *words, trace, status=1).stdout
    # The longest of the selected lines, not of all.
    done = pfw("query", "--sort", "-dur", "--limit", "3", "--name", "close", trace)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [192000, 192001, 192002]
    # The index knows of the damage: now it is reported.
    pfw("index", "--force", trace, status=1)
    pfw("query", "--sort", "ts", "--limit", "3", trace, status=1)


def test_an_index_of_another_trace_is_not_believed(tmp_path, traces):
    copy = tmp_path / "t.pfw"
    copy.write_bytes(traces["raw"].read_bytes())
    pfw("index", copy)
    with open(copy, "a") as file:
        file.write(DFTRACER_1.splitlines()[2].rstrip(",") + "\n")
    done = pfw("query", "--count", "--name", "open", "--pid", "1", copy)
    assert done.stdout == "1\n" and done.stderr.count("\n") == 1 and "pfw index" in done.stderr
    (tmp_path / "t.pfw.idx").write_text("not SQLite")
    done = pfw("query", "--count", "--name", "open", "--pid", "1", copy)
    assert done.stdout == "1\n" and done.stderr.count("\n") == 1
    assert pfw("query", "-q", "--count", "--name", "open", "--pid", "1", copy).stderr == ""


# ---- tables ----

COLUMNS = "id,ts,dur,name,args.fname,args.ret,args.none"


def test_fields_as_csv_are_what_pandas_reads(traces):
    table = pandas.read_csv(io.StringIO(query("--fields", COLUMNS, "--format", "csv",
                                              traces["raw"])), dtype=str, keep_default_na=False)
    lines = [json.loads(line, parse_float=str) for line in query(traces["raw"]).splitlines()]
    assert list(table.columns) == COLUMNS.split(",")
    for column in ("name", "id", "ts"):
        assert list(table[column]) == [str(line[column]) for line in lines]
    assert list(table["dur"]) == [line.get("dur", "") for line in lines]
    assert list(table["args.fname"]) == [line["args"].get("fname") or "" for line in lines]
    assert list(table["args.ret"]) == [str(line["args"].get("ret", "")) for line in lines]
    assert set(table["args.none"]) == {""}
    assert any('"' in name for name in table["args.fname"])


def test_fields_as_ndjson_and_tsv(traces):
    rows = [json.loads(line) for line in
            query("--fields", COLUMNS, "--format", "ndjson", traces["raw"]).splitlines()]
    lines = [json.loads(line) for line in query(traces["raw"]).splitlines()]
    assert [list(row) for row in rows] == [COLUMNS.split(",")] * len(lines)
    assert [row["args.fname"] for row in rows] == [line["args"].get("fname") for line in lines]
    head, *tsv = query("--fields", COLUMNS, traces["raw"]).split("\n")[:-1]
    assert head == COLUMNS.replace(",", "\t")
    assert [len(row.split("\t")) for row in tsv] == [7] * len(lines)
    unescaped = [re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r"}.get(m[1], m[1]),
                        row.split("\t")[4]) for row in tsv]
    assert unescaped == [line["args"].get("fname") or "" for line in lines]


def test_what_tables_must_quote(tmp_path):
    trace = tmp_path / "t.pfw"
    values = ["", " a", "a,b", 'say "x"', "two\nlines", "cr\r", "tab\t", "\\", "é", None, True,
              {"k": [1, "x"]}, -0.5]
    trace.write_text("".join(json.dumps({"id": i, "name": "x", "ph": "i", "ts": 1, "args": {"v": value}}) + "\n"
                             for i, value in enumerate(values)))
    query("--fields", "args.v", "--format", "csv", "-o", tmp_path / "out.csv", trace)
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] if row else "" for row in rows[1:]] == \
        values[:9] + ["", "true", '{"k": [1, "x"]}', "-0.5"]
    # An empty text is not the same as none.
    assert query("--fields", "args.v", "--format", "csv", trace).splitlines()[1] == '""'
    text = query("--fields", "args.v", trace)
    assert "two\\nlines\n" in text and "tab\\t\n" in text and "\\\\\n" in text


def test_order_and_limit(traces):
    for path in (traces["raw"], traces["gz"]):
        lines = [json.loads(line, parse_float=decimal.Decimal)
                 for line in query(path).splitlines()]
        for key, name in (("ts", "ts"), ("-ts", "ts"), ("dur", "dur"), ("-dur", "dur")):
            sign = -1 if key.startswith("-") else 1
            ordered = sorted(lines, key=lambda line: (name not in line, sign * line.get(name, 0)))
            for limit in (1, 10, len(lines) + 5):
                assert ids(query("--sort", key, "--limit", limit, path)) == \
                    [(line["pid"], line["id"]) for line in ordered[:limit]], (key, limit)
        assert query("--limit", 7, path) == "\n".join(query(path).splitlines()[:7]) + "\n"
        assert query("--limit", 0, path) == ""
        assert query("--limit", 7, "--count", path) == "7\n"


def test_limit_ends_the_reading(tmp_path):
    """A line is given before the end of what is read: standard input stays open."""
    line = '{"id":1,"name":"x","cat":"c","pid":1,"tid":1,"ts":5.000,"ph":"i","args":{}}\n'
    with subprocess.Popen([PFW, "query", "--limit", "3", "-"], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE, env=harness.clean_environment()) as process:
        try:
            for _ in range(200):
                process.stdin.write(line * 1000)
            process.stdin.flush()
        except BrokenPipeError:
            pass
        assert process.stdout.read() == line * 3
        assert process.wait(300) == 0
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass


# ---- several traces ----

def test_several_ranks_have_their_rank_in_each_line(tmp_path):
    for rank in (0, 1):
        harness.run([PYTHON, "-c", "open('/etc/hostname').read()"], harness.traced_environment(
            tmp_path / "t", tmp_path, RANK=str(rank), WORLD_SIZE="2"))
    both = [json.loads(line) for line in query(tmp_path).splitlines()]
    assert {line["rank"] for line in both} == {0, 1}
    assert all(next(iter(line)) == "rank" for line in both)
    one = query("--rank", 1, tmp_path).splitlines()
    assert [json.loads(line)["rank"] for line in one] == [1] * len(one) and one
    assert query("--where", "rank == 1", tmp_path).splitlines() == one
    assert [{**json.loads(line), "rank": 1} for line in query(tmp_path / "t-rank0001.pfw").splitlines()] \
        == list(map(json.loads, one))
    assert set(query("--fields", "rank", tmp_path).split()) == {"rank", "0", "1"}
    # What a query has written has its ranks already.
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "a.pfw").write_text(query("--meta", tmp_path))
    (tmp_path / "again" / "b.pfw").write_text(query("--meta", tmp_path / "t-rank0001.pfw"))
    for line in query("-q", "--all-runs", tmp_path / "again" / "a.pfw", tmp_path / "t-rank0001.pfw",
                      tmp_path / "t-rank0000.pfw").splitlines():
        assert line.count('"rank":') == 1 or '"process"' in line


def test_newest_run_and_all_runs(tmp_path):
    for base, when in (("a", 2), ("b", 1)):  # the file of the newer run is the older one
        harness.run([PYTHON, "-c", "open('/etc/hostname').read()"],
                    harness.traced_environment(tmp_path / base, tmp_path))
        os.utime(tmp_path / f"{base}.pfw", (when, when))
    done = pfw("query", "--count", cwd=tmp_path)
    newest = query("--count", tmp_path / "b.pfw")
    assert done.stdout == newest
    assert query("-q", "--count", "--all-runs", cwd=tmp_path, status=None).strip() == \
        str(int(newest) + int(query("--count", tmp_path / "a.pfw")))


# ---- output ----

def test_output_file(traces, tmp_path):
    out = tmp_path / "out.csv"
    words = ("--fields", "ts,name", "--format", "csv", "-o", out, traces["raw"])
    assert query(*words) == ""
    assert out.read_text() == query(*words[:4], traces["raw"])
    out.write_text("mine")
    done = pfw("query", *words, status=2)
    assert "--force" in done.stderr and done.stderr.count("\n") == 1 and out.read_text() == "mine"
    assert query("--force", *words) == "" and out.read_text().startswith("ts,name\n")
    assert os.listdir(tmp_path) == ["out.csv"]
    copy = tmp_path / "t.pfw"
    copy.write_bytes(traces["raw"].read_bytes())
    done = pfw("query", "--force", "-o", copy, copy, status=2)
    assert "is one of the traces" in done.stderr
    assert copy.read_bytes() == traces["raw"].read_bytes()
    assert pfw("query", "-o", tmp_path, copy, status=2).stderr.count("\n") == 1
    assert pfw("query", "-o", tmp_path / "no/such", copy, status=2).stderr.count("\n") == 1
    assert query("-o", "/dev/null", copy) == ""


def test_interrupted_it_leaves_nothing(tmp_path):
    os.mkfifo(tmp_path / "t.pfw")
    out = tmp_path / "out.ndjson"
    with subprocess.Popen([PFW, "query", "-o", out, "-"], stdin=subprocess.PIPE,
                          env=harness.clean_environment()) as process:
        process.stdin.write(b'{"id":1,"name":"x"}\n' * 1000)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while len(os.listdir(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not out.exists()
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.stdin.close()
        assert process.wait(300) in (-signal.SIGINT, 130)
    assert os.listdir(tmp_path) == ["t.pfw"]


def test_nobody_reads_on(traces):
    done = harness.run(["bash", "-c", f"'{PFW}' query {traces['raw']} | head -1"])
    assert done.stderr == "" and done.stdout.count("\n") == 1


# ---- damage ----

def test_damage_is_told_with_its_place(traces, tmp_path):
    whole = text_of(traces["raw"]).splitlines(keepends=True)
    damaged = tmp_path / "t.pfw"
    damaged.write_text("".join(whole[:100] + ["rubbish\n"] + whole[100:200]) + '{"id":5,"na')
    done = pfw("query", damaged, status=1)
    assert f"{damaged}:101: " in done.stderr and f"{damaged}:202: " in done.stderr
    assert done.stderr.count("\n") == 2
    assert done.stdout.splitlines() == \
        [line.strip() for line in whole[:200] if '"ph":"M"' not in line]
    data = traces["gz"].read_bytes()
    cut = tmp_path / "cut.pfw.gz"
    cut.write_bytes(data[:len(data) - 40])
    done = pfw("query", "--count", cut, status=1)
    assert f"{cut}: byte " in done.stderr and done.stderr.count("\n") == 1
    one = tmp_path / "one.pfw.gz"
    one.write_bytes(traces["one"].read_bytes()[:-1000])
    done = pfw("query", "--count", one, status=1)
    assert 0 < int(done.stdout) < int(query("--count", traces["raw"]))
    many = tmp_path / "many.pfw"
    many.write_text("rubbish\n" * 25)
    done = pfw("query", many, status=1)
    assert done.stderr.count("\n") == 11 and "15 more problems" in done.stderr


@pytest.mark.parametrize("words, said", [
    (["--where", 'dur > "x"'], "a number is never compared with a text"),
    (["--where", "dur >"], "column 6"),
    (["--since", "12s"], "want a sign"),
    (["--rank", "x"], "want numbers and ranges"),
    (["--since", "50%", "--until", "40%"], "--until is a time before --since"),
    (["--min-dur", "5parsecs"], "want 20us"),
    (["--sort", "dur"], "--limit N"),
    (["--sort", "name", "--limit", "5"], "none of ts, -ts, dur"),
    (["--limit", "-1"], "takes a whole number"),
    (["--format", "csv"], "--fields"),
    (["--format", "xml"], "none of ndjson, tsv, csv"),
    (["--fields", "ts,nonsense"], "no field nonsense"),
    (["--fields", "ts,ts"], "a second time"),
    (["--fields", ""], "a field is expected"),
    (["--follow", "--count"], "no --count"),
    (["-j", "0"], "takes a whole number from 1 on"),
    (["no such file"], "there is no such file"),
])
def test_what_cannot_be(traces, words, said):
    done = pfw("query", *words, traces["raw"], status=2)
    assert said in done.stderr and done.stdout == "" or words == ["no such file"]
    assert done.stderr.count("\n") == (3 if "--where" in words or "--fields" in words else 1)


def test_standard_input(traces):
    with open(traces["gz"], "rb") as file:
        assert query("-", stdin=file) == query(traces["gz"])
    with open(traces["raw"], "rb") as file:
        done = pfw("query", "--since", "+1s", "-", stdin=file, status=2)
    assert "only once" in done.stderr


# ---- traces that are being written ----

WRITER = """
import os, sys
for line in sys.stdin:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.pread(fd, int(line), 0)
    os.close(fd)
"""


class Following:
    """A traced program that reads when it is told to, and a query that follows it."""
    def __init__(self, top, *words, **variables):
        (top / "data").write_bytes(b"x" * 100)
        self.program = subprocess.Popen(
            [PYTHON, "-c", WRITER, str(top / "data")], stdin=subprocess.PIPE, text=True,
            env=harness.traced_environment(top / "t", top, PFW_FLUSH_MS="20", **variables))
        self.read(1)
        deadline = time.monotonic() + 60
        while not [name for name in os.listdir(top) if name.startswith("t.pfw")
                   and (top / name).stat().st_size]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.query = subprocess.Popen(
            [PFW, "query", "--follow", "--name", "pread", *words, str(top / "t")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=harness.clean_environment())

    def read(self, count):
        self.program.stdin.write(f"{count}\n")
        self.program.stdin.flush()

    def next_count(self):
        return json.loads(self.query.stdout.readline())["args"]["count"]

    def end(self):
        self.program.stdin.close()
        assert self.program.wait(300) == 0
        rest, said = self.query.communicate(timeout=300)
        return [json.loads(line)["args"]["count"] for line in rest.splitlines()], said


@pytest.mark.parametrize("variables", [{}, {"DFTRACER_TRACE_COMPRESSION": "1"}])
def test_what_is_not_written_yet(tmp_path, variables):
    """The writer sleeps for a minute: what the program did is in its rings, and is found there."""
    (tmp_path / "data").write_bytes(b"x" * 100)
    with subprocess.Popen([PYTHON, "-c", WRITER + "    print(flush=True)", str(tmp_path / "data")],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=harness.traced_environment(tmp_path / "t", tmp_path,
                                                         PFW_FLUSH_MS="60000", **variables)) as program:
        def read(count):
            program.stdin.write(f"{count}\n")
            program.stdin.flush()
            program.stdout.readline()

        def counts(*words):
            return [json.loads(line)["args"]["count"]
                    for line in query("--name", "pread", *words, tmp_path / "t").splitlines()]

        read(1)
        deadline = time.monotonic() + 60
        while not [name for name in os.listdir(tmp_path) if name.startswith("t.pfw")]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for count in range(2, 9):
            read(count)
        assert counts() == list(range(1, 9))
        assert counts("--where", "args.count > 5") == [6, 7, 8]
        assert counts("--limit", "3") == [1, 2, 3]
        assert counts("--sort", "-ts", "--limit", "2") == [8, 7]
        # Times from the end, which is in the rings: to the nanosecond.
        spans = [json.loads(line, parse_float=lambda text: int(text.replace(".", "")))
                 for line in query("--meta", tmp_path / "t").splitlines()]
        last = max(span["ts"] + span.get("dur", 0) for span in spans)
        sixth, = [span["ts"] for span in spans if span["args"].get("count") == 6]
        assert counts(f"--since=-{last - sixth}ns") == [6, 7, 8]
        assert counts("--until", f"-{last - sixth}ns") == [1, 2, 3, 4, 5]
        assert [row["count"] for row in map(json.loads, pfw(
            "table", "--name", "pread", f"--since=-{last - sixth}ns", "--format", "ndjson",
            tmp_path / "t").stdout.splitlines())] == [3]
        program.kill()
        program.wait()
        program.stdin.close()
        killed = query("--meta", tmp_path / "t")
        assert counts() == list(range(1, 9)) and '"reason":"recovered"' in killed
        name = next(name for name in os.listdir(tmp_path) if name.startswith("t.pfw"))
        pfw("repair", tmp_path / name, status=None)
        repaired = query("--meta", tmp_path / "t")
        assert ids(repaired) == ids(killed)


@pytest.mark.parametrize("variables", [{}, {"DFTRACER_TRACE_COMPRESSION": "1"}])
def test_follow(tmp_path, variables):
    following = Following(tmp_path, **variables)
    assert following.next_count() == 1
    for count in (5, 7, 9):
        following.read(count)
        assert following.next_count() == count
    following.read(11)
    assert following.end() == ([11], "")
    assert following.query.returncode == 0


def test_follow_what_is_no_trace_of_ours(tmp_path):
    with gzip.open(tmp_path / "a.pfw.gz", "wt") as file:
        file.write(PROCESS + "\n")
    whole = member(PROCESS)
    (tmp_path / "b.pfw.gz").write_bytes(whole[:16] + struct.pack("<I", 1 << 31) + whole[20:])
    for name in ("a.pfw.gz", "b.pfw.gz"):
        done = pfw("query", "--follow", tmp_path / name, status=1)
        assert "cannot be followed" in done.stderr and done.stderr.count("\n") == 1
    (tmp_path / "c.pfw.gz").write_bytes(whole[:-10] + b"0123456789" + member(
        PROCESS.replace("process", "end")))
    done = pfw("query", "--follow", "--meta", tmp_path / "c.pfw.gz", status=1)
    assert "a damaged gzip member" in done.stderr and '"end"' in done.stdout


def test_follow_until_the_limit(tmp_path):
    following = Following(tmp_path, "--limit", "2")
    following.read(3)
    assert [following.next_count(), following.next_count()] == [1, 3]
    assert following.query.wait(300) == 0
    following.program.stdin.close()
    assert following.program.wait(300) == 0
    following.query.communicate()


def test_follow_says_when_its_process_was_killed(tmp_path):
    following = Following(tmp_path)
    assert following.next_count() == 1
    following.program.kill()
    following.program.wait()
    following.program.stdin.close()
    _, said = following.query.communicate(timeout=300)
    assert "pfw repair" in said and said.count("\n") == 1
    assert following.query.returncode == 1
