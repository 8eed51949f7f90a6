"""The tables of libpfwread.so.1 against the commands: each value of `pfw table`, `overlap` and `patterns` (and, of
smaller ones, of `memory` and `compare`) of random traces (generate.py) in each state (states.py).

PFW_ORACLE is how many random traces, PFW_SEED the first of them."""
import json
import os
import random
import subprocess
import threading

import pytest

if os.environ.get("PFW_SANITIZE"):
    pytest.skip("the library would want the sanitizer's runtime", allow_module_level=True)

import generate
import states
from arrow_rows import Failed, Reader
from harness import PFW, clean_environment
from test_memory import LINES, write

TRACES = int(os.environ.get("PFW_ORACLE", "40"))
SEED = int(os.environ.get("PFW_SEED", "1"))
TEXTS = {"section", "type", "name", "cat", "shape", "stack", "fname", "process", "cmd"}
TABLES = [("table", {}), ("table", {"group-by": "cat,rank,step"}), ("table", {"group-by": "fname"}),
          ("table", {"group-by": "name,pid,tid", "plain": "1"}), ("table", {"group-by": "shape,cmd", "row-limit": "3"}),
          ("table", {"columns": "count,p99,bytes,flops,peak_percent", "peak-tflops": "100", "sort-by": "count"}),
          ("overlap", {}), ("overlap", {"steps": "1"}), ("overlap", {"bins": "7"}), ("patterns", {}),
          ("patterns", {"row-limit": "2", "alignment": "512"})]
CONDITIONS = [{}, {"rank": "1-2"}, {"since": "20%", "until": "70%"}, {"pid": "100,101"}]
MORE = [{"where": "dur > 1us"}, {"cat": "P*", "min-dur": "1us"}, {"name": ["read", "aten::*"]}, {"fname": "*.npz"}]
FLAGS = {"steps", "plain"}
SECTION = {"steps": "step", "bins": "bin"}


class Number(str):
    """A number with a fraction or an exponent, as it is written."""


def asked(command, directories, options, conditions):
    """(the rows that the command prints, or None; what it says)."""
    words = [f"--{name}" if name in FLAGS else f"--{name}={value}" for name, value in options.items() if name != "rows"]
    words += [f"--{name}={value}" for name, values in conditions.items()
              for value in (values if isinstance(values, list) else [values])]
    if command == "table" and "row-limit" not in options:
        words.append("--row-limit=-1")
    done = subprocess.run([PFW, command, "--quiet", "--format", "ndjson", *words, *directories], text=True, capture_output=True,
                          env=clean_environment(PFW_INDEX_EVENTS="0"), check=False)
    if done.returncode == 2:
        return None, done.stderr
    rows = [json.loads(line, parse_float=Number) for line in done.stdout.splitlines()]
    if command == "overlap":  # the library has rows of one type, as csv
        section = next((SECTION[name] for name in options if name in SECTION), "rank")
        rows = [{**row, "type": "all", "rank": None} if row["rank"] == "all" else row for row in rows
                if row["type"] == section]
    if command == "compare":
        rows = [row for row in rows if row.pop("section") == "row"]
    if command == "memory":
        rows = [row for row in rows if row["section"] == options.get("rows", "device")]
    if command == "table":
        rows = [{"device": 0, **row} for row in rows]  # csv says it of I/O, too
    return rows, done.stderr


def is_value(column, kind, given, wanted):
    """Whether a value of the library is what the command prints."""
    if wanted is None or (wanted == "" and kind == "l"):
        return given is None
    if kind == "i,u":
        return given == wanted
    if kind == "b":
        return given is wanted
    if kind == "l" and column in ("ts", "peak_ts"):
        whole, _, decimals = wanted.partition(".")
        return given == int(whole) * 1000 + int(decimals)
    if kind == "l":
        return given == wanted
    return str(wanted) in (f"{given:.3f}", f"{given:.12g}", f"{given:.6g}", f"{given:.0f}")


def check(command, directory, options, conditions, texts=frozenset()):
    directories = directory if isinstance(directory, list) else [directory]
    wanted, said = asked(command, directories, options, conditions)
    reader = Reader(*directories, **conditions)
    try:
        schema, columns = reader.table(command, **options)
    except Failed as failed:
        assert wanted is None and failed.args[1].partition(": ")[2] in said, (failed, said)
        return 0
    finally:
        problems = reader.problems()
        reader.close()
    assert wanted is not None, said
    assert [f"pfw {command}: {text}" for text in problems] == said.splitlines()
    assert len(wanted) == len(columns[0])
    assert set().union(*wanted) <= set(schema)
    for number, row in enumerate(wanted):
        for (name, kind), column in zip(schema.items(), columns):
            assert (kind == "i,u") == (name in TEXTS | texts), (name, kind)
            assert is_value(name, kind, column[number], row.get(name)), (number, name, kind, column[number], row)
    return len(wanted)


def test_every_value_of_random_traces(tmp_path):
    """In the order of the command, whatever the state, the options and the condition."""
    rows = dict.fromkeys(("table", "overlap", "patterns"), 0)
    for seed in range(SEED, SEED + TRACES):
        chance = random.Random(seed)
        state = chance.choice(states.STATES)
        at = states.write(tmp_path / str(seed), generate.world(seed), state)
        for command, options in chance.sample(TABLES, 4):
            conditions = chance.choice(CONDITIONS if command == "overlap" else CONDITIONS + MORE)
            try:
                rows[command] += check(command, at, options, conditions)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {state}, {command}, {options}, {conditions}: {error}") from error
        states.remove(tmp_path / str(seed))
    assert min(rows.values()) > TRACES, rows


@pytest.mark.parametrize("rows", ["device", "step", "owner", "unfreed", "time"])
def test_memory(tmp_path, rows):
    """Each kind of rows; also of two ranks, and of a trace without an allocation."""
    paths = [write(tmp_path / "t-rank0000.pfw", LINES, rank=0), write(tmp_path / "t-rank0001.pfw", LINES[3:], rank=1)]
    texts = {"pid", "device", "addr"}
    assert check("memory", paths, {"rows": rows, "bins": "5"}, {}, texts) > 2
    check("memory", paths, {"rows": rows, "row-limit": "1"}, {"rank": "1", "where": "args.bytes > 10"}, texts)
    full = Reader(*paths).table("memory", rows=rows)[0]
    schema, columns = Reader(write(tmp_path / "none.pfw", [])).table("memory", rows=rows)
    assert schema == full and not columns[0]
    with pytest.raises(Failed, match="memory: rows devices: want device, step"):
        Reader(*paths).table("memory", rows="devices")


def test_compare(tmp_path):
    """Two sides, of one or several runs."""
    sides = [states.write(tmp_path / str(seed), generate.world(seed), "raw") for seed in (3, 4)]
    sides.append(states.write(tmp_path / "again", generate.world(3), "gz"))
    for options in ({}, {"group-by": "name"}, {"group-by": "rank,cat", "row-limit": "3"}):
        assert check("compare", sides[:2], options, {}, {"name", "cat"} if not options else set()) > 1
    assert check("compare", [sides[0], "--", sides[1], sides[2]], {}, {"cat": "P*"}) > 1
    schema, columns = Reader(sides[0], sides[2]).table("compare")
    table = dict(zip(schema, columns))
    assert schema["significant"] == "b" and not any(table["significant"])
    assert table["count_a"] == table["count_b"] and set(table["difference"]) == {0.0}
    with pytest.raises(Failed, match="compare: takes two sides"):
        Reader(sides[0]).table("compare")


@pytest.fixture
def trace(tmp_path):
    return states.write(tmp_path, generate.world(3), "raw")


@pytest.mark.parametrize("command, options, conditions, said", [
    ("query", {}, {}, "there is no table query"), ("table", {"colour": "1"}, {}, "table: there is no option colour"),
    ("table", {"group-by": "colour"}, {}, "table: --group-by"), ("table", {"format": "text"}, {}, "no option format"),
    ("table", {"plain": "yes"}, {}, "table: plain yes: want 0 or 1"), ("overlap", {}, {"where": "dur > 1"}, "no option where"),
    ("table", {}, {"columns": "ts,dur"}, "no option columns"), ("table", {}, {"meta": "1"}, "no option meta"),
    ("patterns", {"alignment": "0"}, {}, "patterns: --alignment 0"), ("table", {"group": "cat"}, {}, "no option group"),
])
def test_what_cannot_be_asked(trace, command, options, conditions, said):
    with pytest.raises(Failed, match=said) as failed:
        Reader(trace, **conditions).table(command, **options)
    assert failed.value.args[0] == -22


def test_what_cannot_be_read(trace, tmp_path):
    with pytest.raises(Failed, match="table: .*none: there is no such file"):
        Reader(tmp_path / "none").table("table")
    with open(next(trace.glob("*.pfw")), "a", encoding="utf-8") as file:
        file.write("broken\n" * 30)
    reader = Reader(trace)
    assert reader.table("patterns")[1][0]
    assert len(reader.problems()) == 30 and "not a JSON object" in reader.problems()[29]


def test_a_path_that_looks_like_an_option(trace, monkeypatch):
    trace.rename(trace.with_name("--format=text"))
    monkeypatch.chdir(trace.parent)
    assert len(Reader("--format=text").table("table")[1][0]) > 5


def test_types_do_not_depend_on_the_trace(trace, tmp_path):
    (tmp_path / "empty.pfw").write_text("")
    for command, options in TABLES:
        schema, columns = Reader(tmp_path / "empty.pfw").table(command, **options)
        full = Reader(trace).table(command, **options)[0]
        assert {name: full[name] for name in schema} == schema and "l" in schema.values()
        assert command != "overlap" or schema == full
        assert command == "overlap" or all(len(column) <= 1 for column in columns)
        if command == "overlap":  # of no rank
            assert Reader(trace, rank="77").table(command, **options)[0] == full


def test_a_host_process_is_left_alone(trace, capfd, monkeypatch):
    """Neither output, nor handlers of signals, nor an index; and threads make their tables at the same time."""
    def caught():
        return [line for line in open("/proc/self/status", encoding="ascii") if line.startswith("SigCgt")]

    monkeypatch.setenv("PFW_INDEX_EVENTS", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(trace / "cache"))
    files, signals, said, counts = sorted(trace.rglob("*")), caught(), [], []
    before = threading.active_count()

    def make(number):
        for _ in range(5):
            counts.append(len(Reader(trace).table(("table", "overlap", "patterns")[number % 3])[1][0]))
            try:
                Reader(trace).table("table", **{"sort-by": f"key{number}"})
            except Failed as failed:
                said.append(f"key{number}" in failed.args[1])

    threads = [threading.Thread(target=make, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 30 and len(set(counts)) <= 3 and said == [True] * 30
    assert (sorted(trace.rglob("*")), caught(), threading.active_count()) == (files, signals, before)
    assert capfd.readouterr() == ("", "")
