"""An index is added to when its trace has grown: then it has what one that is made anew has, and the
old part of the trace is not read again."""
import gzip
import json
import os
import random
import re

import pytest

import harness
from harness import pfw
from test_compact import member
from test_index import PROGRAMS, index_of, lines_of, rows, write_plain
from test_unasked_index import ask, io_lines

PFW = os.environ["PFW_BIN"]
TOTALS = ("name", "file", "file_sums", "thread", "process", "step", "loss", "part")


def state(trace, *options, status=0):
    return json.loads(pfw("index", "--format", "ndjson", *options, trace, status=status).stdout)["state"]


def contents(trace, tables):
    """The rows of an index; of `part` without its block, which text that grew has more of, and overlaps, which
    know the ends of blocks, by their answer."""
    columns = {"part": "kind, version, CASE kind WHEN 'overlap' THEN 0 ELSE hex(data) END"}
    told = {"part": pfw("overlap", "-q", "--steps", "--format", "ndjson", trace, status=None).stdout}
    return {table: (rows(trace, f"SELECT {columns.get(table, '*')} FROM {table}"), told.get(table)) for table in tables}


def append(path, lines, packed):
    with open(path, "ab") as file:
        if not packed:
            file.write("".join(lines).encode())
        for at in range(0, len(lines), 700) if packed else ():
            file.write(member([line.rstrip("\n") for line in lines[at:at + 700]]))


def cuts(lines, pieces, draw):
    """The lines in that many pieces, some of them small."""
    at = sorted(draw.randrange(1, len(lines)) for _ in range(pieces - 1))
    return [lines[begin:end] for begin, end in zip([0, *at], [*at, len(lines)]) if begin < end]


def in_turn(lines):
    """No call begins before the last one of its thread has ended."""
    return [re.sub(r'"dur":[\d.]+', '"dur":0.001', line) for line in lines]


def grows(trace, pieces, packed, ways=("grown",)):
    append(trace, pieces[0], packed)
    assert state(trace) == "built"
    for piece in pieces[1:]:
        append(trace, piece, packed)
        assert state(trace) in ways
        assert state(trace, "--check") == "checked"
        assert state(trace) == "fresh"  # also compared, row by row
    grown = contents(trace, TOTALS), rows(trace, "SELECT lines, events, least_ns, greatest_ns, first_ns, last_ns, "
                                                 "sorted, left_out, nested FROM meta")
    blocks = contents(trace, ("block", "block_holds", "meta"))
    assert state(trace, "--force") == "built"
    assert (contents(trace, TOTALS), rows(trace, "SELECT lines, events, least_ns, greatest_ns, first_ns, last_ns, "
                                                 "sorted, left_out, nested FROM meta")) == grown
    if packed:  # the same blocks, too
        assert contents(trace, ("block", "block_holds", "meta")) == blocks


@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
@pytest.mark.parametrize("seed", range(12))
def test_grown_is_as_made_anew(tmp_path, seed, packed):
    draw = random.Random(seed)
    lines = io_lines(draw.choice([3000, 20000]), seed)  # calls in calls, in every piece
    if seed % 2:
        lines = in_turn(io_lines(draw.choice([40, 3000, 20000]), seed))
    extra = ('{"id":1,"name":"lost","cat":"pfw","pid":7,"tid":7,"ts":1795000000000000.000,"ph":"M",'
             '"args":{"reason":"ring","count":%d}}\n')
    for _ in range(3):
        lines.insert(draw.randrange(1, len(lines)), extra % draw.randrange(99))
    lines.insert(draw.randrange(1, len(lines)), '{"id":1,"name":"thread_name","cat":"pfw","pid":7,"tid":8,'
                 '"ts":1795000000000000.000,"ph":"M","args":{"name":"late"}}\n')
    grows(tmp_path / ("t.pfw.gz" if packed else "t.pfw"), cuts(lines, draw.randrange(2, 6), draw), packed)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
def test_of_real_programs(tmp_path, program, packed):
    trace, *_ = PROGRAMS[program](tmp_path)
    lines = harness.open_trace(trace).read().decode().splitlines(keepends=True)
    # Made anew where a call may have begun before the last line of its thread that was indexed, as after a
    # line of the tracer's own.
    grows(tmp_path / ("u.pfw.gz" if packed else "u.pfw"), cuts(lines, 4, random.Random(1)), packed,
          ("grown", "built"))


def test_only_the_new_part_is_read(tmp_path):
    """The old part may be another one of the same length: who reads it would see that."""
    trace = tmp_path / "t.pfw"
    lines = [line.replace('"name":"read"', '"name":"pread"') if number > 9000 else line
             for number, line in enumerate(io_lines(60000))]
    append(trace, lines[:-100], False)
    pfw("index", trace)
    text = trace.read_bytes()
    assert len(text) > 3 << 20
    middle = text[1 << 20:-1 << 20]
    trace.write_bytes(text[:1 << 20] + middle.replace(b'"name":"pread"', b'"name":"preaf"') + text[-1 << 20:])
    append(trace, lines[-100:], False)
    assert state(trace) == "grown"
    names = {name for name, in rows(trace, "SELECT name FROM name")}
    assert "preaf" not in names
    assert state(trace, "--check", status=1) == "differs"
    assert state(trace) == "built"  # it was compared, and made anew
    assert "preaf" in {name for name, in rows(trace, "SELECT name FROM name")}


def whole(lines):
    return [lines[:-400], lines[-400:]]


ANEW = {
    "spans": lambda lines: whole(list(lines_of(3000))),
    "a cut line": lambda lines: [[*lines[:-400], lines[-400][:-20]], [lines[-400][-20:], *lines[-399:]]],
    "a bad line": lambda lines: whole(["{bad\n", *lines]),
    "no process line": lambda lines: whole(lines[1:]),
    "a call in another": lambda lines: [lines[:-400], [re.sub(r'"ts":\d+', '"ts":1795000000000000', line)
                                                       for line in lines[-400:]]],
    "another begin": lambda lines: whole(lines),
}


@pytest.mark.parametrize("why", ANEW)
def test_what_is_made_anew(tmp_path, why):
    lines = in_turn(io_lines(3000))
    trace, pieces = tmp_path / "t.pfw", ANEW[why](lines)
    append(trace, pieces[0], False)
    status = int(why == "a bad line")
    pfw("index", trace, status=None)
    if why == "another begin":
        text = trace.read_bytes()
        trace.write_bytes(text.replace(b'"cmd":"c"', b'"cmd":"d"', 1))
    append(trace, pieces[1], False)
    assert state(trace, status=status) == "built"
    assert state(trace, "--check", status=status) == "checked"
    assert rows(trace, "SELECT lines FROM meta") == [[str(trace.read_bytes().count(b"\n"))]]


def test_many_small_additions_leave_no_small_blocks(tmp_path):
    trace, lines = tmp_path / "t.pfw", io_lines(2000)
    append(trace, lines[:100], False)
    states = [state(trace)]
    for at in range(100, len(lines), 40):
        append(trace, lines[at:at + 40], False)
        states.append(state(trace))
        assert state(trace, "--check") == "checked"
    assert states[1] == "grown" and states.count("built") > 1
    assert int(rows(trace, "SELECT blocks FROM meta")[0][0]) <= 17


def test_commands_read_grown_ones(tmp_path):
    trace, lines = tmp_path / "t.pfw", io_lines(20000)
    append(trace, [*lines[:5000], lines[-1]], False)
    assert "made" in ask(tmp_path, "table", trace).stderr
    append(trace, lines[5000:], False)
    middle = json.loads(lines[6000])["ts"]
    for command in (["table"], ["table", "-g", "fname"], ["patterns"], ["overlap"], ["query", "--count", "-n", "write"],
                    ["query", "--since", str(middle), "--limit", "50"],
                    ["query", "-f", "/data/7", "--min-dur", "80us"]):
        true = ask(tmp_path, *command, "--no-index", trace).stdout
        assert ask(tmp_path, *command, trace).stdout == true and true
    assert state(trace, "--check") == "checked"
    assert int(rows(trace, "SELECT count(*) FROM block")[0][0]) > len(trace.read_bytes()) >> 20


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	if (flags & O_CREAT && strstr(path, ".idx.tmp"))
		rename("other.idx", "t.pfw.idx");
	return real(path, flags, 0600);
}
"""


def test_another_index_in_between(tmp_path):
    """One of another state takes its place after the blocks to be read were chosen."""
    (tmp_path / "shim.c").write_text(SHIM)
    shim = harness.compile_c(tmp_path / "shim.c", tmp_path / "shim.so", "-shared", "-fPIC")
    trace, lines = tmp_path / "t.pfw", in_turn(io_lines(9000))
    append(trace, lines[:2000], False)
    pfw("index", trace)
    index_of(trace).rename(tmp_path / "other.idx")
    append(trace, lines[2000:4000], False)
    pfw("index", trace)
    append(trace, lines[4000:], False)
    preload = f"{shim}:{harness.RUNTIME}" if harness.RUNTIME else str(shim)
    done = harness.run([PFW, "index", "--format", "ndjson", trace], harness.clean_environment(LD_PRELOAD=preload),
                       cwd=tmp_path)
    assert json.loads(done.stdout)["state"] == "built" and not (tmp_path / "other.idx").exists()
    assert state(trace, "--check") == "checked"
    assert rows(trace, "SELECT lines FROM meta") == [[str(len(lines))]]


def test_a_packed_one_of_another_tool_is_made_anew(tmp_path):
    trace = tmp_path / "t.pfw.gz"
    lines = io_lines(3000)
    trace.write_bytes(gzip.compress("".join(lines[:1000]).encode()))
    assert state(trace) == "built"
    with open(trace, "ab") as file:
        file.write(gzip.compress("".join(lines[1000:]).encode()))
    assert state(trace) == "built" and state(trace, "--check") == "checked"
