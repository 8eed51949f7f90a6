"""Indexes that nobody asked for: when, where and of what they are made, and --no-index."""
import fcntl
import json
import os
import pty
import random
import re
import resource
import signal
import sqlite3
import subprocess
import time

import pytest

import harness
from harness import pfw
from test_index import KINDS, PROGRAMS, index_of, lines_of, write_foreign, write_plain
from test_progress import GONE, LINE, read_rest

PFW = os.environ["PFW_BIN"]


# ---- --no-index ----

def falsify(trace):
    """Make each figure of the index another one: who reads it shows that."""
    with sqlite3.connect(index_of(trace)) as database:
        database.execute("UPDATE block SET least_ns = 1, greatest_ns = 2, lines = 1")
        database.execute("UPDATE name SET count = count + 77 WHERE id > 0")
        database.execute("DELETE FROM part")
    database.close()


COMMANDS = [["table"], ["table", "--plain", "-c", "POSIX"], ["table", "-g", "fname"],
            ["table", "-g", "step"], ["overlap"], ["patterns"], ["memory"], ["counters"],
            ["query", "--count"], ["query", "--count", "-n", "read"],
            ["query", "--count", "--since", "+1ms"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_index_reads_none(tmp_path, command):
    trace = tmp_path / "t.pfw"
    write_plain(trace, lines_of(3000))
    options = [] if command[0] == "query" else ["--format", "csv"]
    true = pfw(*command, *options, trace)
    pfw("index", trace)
    falsify(trace)
    done = pfw(*command, *options, "--no-index", trace)
    assert (done.stdout, done.stderr) == (true.stdout, true.stderr)
    if command in (["table", "--plain", "-c", "POSIX"], ["query", "--count", "--since", "+1ms"]):
        assert pfw(*command, *options, trace).stdout != true.stdout  # the forgery would be seen
    index_of(trace).write_text("rubbish")
    assert pfw(*command, *options, "--no-index", trace).stderr == true.stderr


def test_compare_without_indexes(tmp_path):
    a, b = tmp_path / "a.pfw", tmp_path / "b.pfw"
    for path, seed in ((a, 1), (b, 2)):
        write_plain(path, lines_of(3000, seed))
    true = pfw("compare", "--since", "+1ms", "--format", "csv", a, b)
    for path in (a, b):
        pfw("index", path)
        falsify(path)
    assert pfw("compare", "--since", "+1ms", "--format", "csv", a, b).stdout != true.stdout
    done = pfw("compare", "--since", "+1ms", "--format", "csv", "--no-index", a, b)
    assert done.stdout == true.stdout


def test_compact_makes_none_if_told(tmp_path):
    for options, made in (["--no-index"], False), ([], True):
        trace = tmp_path / "t.pfw"
        write_plain(trace, lines_of(3000))
        pfw("compact", "--force", *options, trace, status=1)  # its process has no end
        assert (tmp_path / "t.pfw.gz.idx").exists() == made
        (tmp_path / "t.pfw.gz").unlink()


# ---- when ----

END = ('{"id":%d,"name":"end","cat":"pfw","pid":7,"tid":7,"ts":1796000000000000.000,"ph":"M","args":{"events":%d,'
       '"lost":0,"reason":"exit"}}\n')


def io_lines(count, seed=1):
    """A finished trace without spans, whose table an index has."""
    lines = [line for line in lines_of(count, seed) if '"cat":"app"' not in line and '"cat":"PP"' not in line]
    return [*lines, END % (count, len(lines) - 1)]


def ask(tmp_path, *words, events=1000, status=0, **options):
    """Ask with a cache of its own."""
    environment = harness.clean_environment(PFW_INDEX_EVENTS=str(events), XDG_CACHE_HOME=str(tmp_path / "cache"))
    return harness.run([PFW, *words], environment, status=status, **options)


def checked(trace):
    return json.loads(pfw("index", "--check", "--format", "ndjson", trace).stdout)["state"]


@pytest.mark.parametrize("name", KINDS)
def test_the_first_answer_leaves_an_index(tmp_path, name):
    trace = tmp_path / name
    KINDS[name](trace, io_lines(20000))
    true = ask(tmp_path, "table", "--plain", "--no-index", trace)
    assert not index_of(trace).exists()
    first = ask(tmp_path, "table", "--plain", trace)
    assert first.stdout == true.stdout
    assert first.stderr == (f"pfw table: made {trace}.idx: the next answers come at once "
                            "(PFW_INDEX_EVENTS=0: make none)\n")
    assert checked(trace) == "checked"
    made = index_of(trace).stat()
    second = ask(tmp_path, "table", "--plain", trace)
    assert (second.stdout, second.stderr) == (true.stdout, "")
    assert index_of(trace).stat().st_mtime_ns == made.st_mtime_ns
    falsify(trace)
    assert ask(tmp_path, "table", "--plain", trace).stdout != true.stdout  # it is what answers


@pytest.mark.parametrize("program", PROGRAMS)
def test_of_real_programs(tmp_path, program):
    trace, *_ = PROGRAMS[program](tmp_path)
    for command in (["table"], ["table", "-g", "fname"], ["overlap"], ["patterns"]):
        true = ask(tmp_path, *command, "--no-index", trace).stdout
        assert ask(tmp_path, *command, trace, events=10).stdout == true
        assert ask(tmp_path, *command, trace, events=10).stdout == true
    assert checked(trace) == "checked"


def test_compacted_ones_answer_overlap_at_once(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, [*lines_of(5000), END % (5000, 4999)])
    pfw("compact", "--no-index", trace)
    packed = tmp_path / "t.pfw.gz"
    true = ask(tmp_path, "overlap", "--no-index", packed).stdout
    assert ask(tmp_path, "overlap", "-q", packed).stderr == ""
    assert checked(packed) == "checked"
    assert ask(tmp_path, "overlap", packed).stdout == true
    # Members that are copied were not read: compact reads them afterwards.
    out = tmp_path / "out"
    assert f"made {out}/t.pfw.gz.idx" in ask(tmp_path, "compact", "-o", out, packed).stderr
    assert checked(out / "t.pfw.gz") == "checked"
    for events, option in ((0, "-q"), (9999, "-q"), (1000, "--no-index")):
        ask(tmp_path, "compact", "-o", tmp_path / f"o{events}", option, packed, events=events)
        assert not (tmp_path / f"o{events}" / "t.pfw.gz.idx").exists()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("command", [["overlap", "--steps"], ["patterns"]], ids=" ".join)
def test_what_is_not_compacted_answers_at_once(tmp_path, name, command):
    """Lines of several threads, in no order."""
    trace, lines = tmp_path / name, list(lines_of(9000))
    middle = lines[1:]
    random.Random(3).shuffle(middle)
    KINDS[name](trace, [*lines[:1], *middle, END % (9000, 8999)])
    true = ask(tmp_path, *command, "--no-index", trace).stdout
    assert ask(tmp_path, *command, trace).stdout == true and index_of(trace).exists()
    assert checked(trace) == "checked"
    other = tmp_path / "other" / name
    other.parent.mkdir()
    KINDS[name](other, [*lines[:1], *middle[:3000]])
    pfw("index", other)
    with sqlite3.connect(index_of(trace)) as database:
        database.execute("ATTACH ? AS other", [str(index_of(other))])
        database.execute("UPDATE part SET data = (SELECT data FROM other.part AS it WHERE it.kind = part.kind)")
    database.close()
    assert ask(tmp_path, *command, trace).stdout == ask(tmp_path, *command, "--no-index", other).stdout != true


@pytest.mark.parametrize("change", ["UPDATE part SET version = version - 1 WHERE kind = '{}'",
                                    "DELETE FROM part WHERE kind = '{}'",
                                    "UPDATE part SET version = version + 1 WHERE kind = '{}'"])
@pytest.mark.parametrize("kind", ["overlap", "memory"])
def test_one_of_an_older_version_is_made_anew(tmp_path, change, kind):
    """One of a newer pfw stays."""
    trace = tmp_path / "t.pfw"
    write_plain(trace, [*lines_of(2000), END % (2000, 1999)])
    pfw("index", trace)
    with sqlite3.connect(index_of(trace)) as database:
        database.execute(change.format(kind))
    database.close()
    made = ask(tmp_path, kind, trace)
    assert made.stdout == ask(tmp_path, kind, "--no-index", trace).stdout
    assert ("the next answers" in made.stderr) == ("+ 1" not in change)
    assert "the next answers" not in ask(tmp_path, kind, trace).stderr


def test_small_ones_get_none(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(5000))  # about 3000 of them are I/O calls
    for words in (["--no-index"], ["-g", "stack"], ["--since", "+1ms"]):
        ask(tmp_path, "table", *words, trace)
    for events in (0, 4000, 10 ** 6):
        assert ask(tmp_path, "table", trace, events=events).stderr == ""
    pfw("table", trace)
    assert not index_of(trace).exists()
    assert not (tmp_path / "cache").exists()


def test_several_small_ones_are_large_together(tmp_path):
    traces = [tmp_path / f"{i}.pfw" for i in range(4)]
    for i, trace in enumerate(traces):
        write_plain(trace, [line.replace('"pid":7,', f'"pid":{7 + i},') for line in io_lines(1000, i)])
    true = ask(tmp_path, "table", "--no-index", *traces).stdout
    assert ask(tmp_path, "table", traces[0], events=1500).stderr == ""
    done = ask(tmp_path, "table", *traces, events=1500)
    assert done.stdout == true and "0.pfw.idx and 3 more: the next" in done.stderr
    assert all(index_of(trace).exists() for trace in traces)


def test_many_small_ones_get_none(tmp_path):
    """Their indexes would take longer than the answer."""
    for i in range(22):
        write_plain(tmp_path / f"{i}.pfw", [line.replace('"pid":7,', f'"pid":{7 + i},') for line in io_lines(200, i)])
    assert ask(tmp_path, "table", tmp_path, events=2000).stderr == ""
    assert "21 more" in ask(tmp_path, "table", tmp_path, events=1000).stderr


# ---- of what: finished traces, all of which is in the file ----

def test_what_may_be_written_gets_none(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(5000))
    with open(trace, "ab") as file:
        ask(tmp_path, "table", trace)
        assert not index_of(trace).exists()
        file.flush()
    with open(trace, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ask(tmp_path, "table", trace)
    assert not index_of(trace).exists()
    # No end, and its process was on another host: what is not known is not dead.
    write_plain(trace, [line.replace('"host":"h"', '"host":"elsewhere"') for line in io_lines(5000)[:-1]])
    ask(tmp_path, "table", trace)
    assert not index_of(trace).exists()


KILLED = "import os, sys\nfor i in range(3000):\n    os.stat('/')\nos.kill(os.getpid(), 9)\n"


def test_what_was_killed_gets_none_before_it_is_repaired(tmp_path):
    (tmp_path / "spools").mkdir()
    base = tmp_path / "t"
    harness.run(["/usr/bin/python3", "-c", KILLED],
                harness.traced_environment(base, tmp_path / "spools", PFW_FLUSH_MS="60000"), status=-9)
    trace, = tmp_path.glob("t*.pfw")
    with_rings = ask(tmp_path, "table", "-g", "name", trace, events=1).stdout
    assert not index_of(trace).exists()
    harness.run([PFW, "repair", trace], harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    assert ask(tmp_path, "table", "-g", "name", trace, events=1).stdout == with_rings
    assert index_of(trace).exists()


def test_a_pipe_is_only_read(tmp_path):
    text = "".join(io_lines(5000))
    assert ask(tmp_path, "table", "-", input=text, stdin=None, events=1).stderr == ""
    assert list(tmp_path.iterdir()) == []


# ---- without room, two at once, killed ----

def test_a_file_size_limit_ends_no_command(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(5000))
    true = ask(tmp_path, "table", "--no-index", trace)
    done = ask(tmp_path, "table", trace,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert (done.stdout, done.stderr) == (true.stdout, "")
    assert sorted(os.listdir(tmp_path)) == ["t.pfw"]


def test_while_another_makes_it_the_lines_are_read(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(5000))
    true = ask(tmp_path, "table", "--no-index", trace)
    with open(f"{trace}.idx.tmp", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = ask(tmp_path, "table", trace)
        assert (done.stdout, done.stderr) == (true.stdout, "")
        assert not index_of(trace).exists()
    ask(tmp_path, "table", trace)
    assert sorted(os.listdir(tmp_path)) == ["t.pfw", "t.pfw.idx"]


def test_many_at_once(tmp_path):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(60000))
    true = ask(tmp_path, "table", "--no-index", trace).stdout
    environment = harness.clean_environment(PFW_INDEX_EVENTS="1")
    many = [subprocess.Popen([PFW, "table", trace], stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(6)]
    assert [process.communicate()[0] for process in many] == [true] * 6
    assert {process.returncode for process in many} == {0}
    assert checked(trace) == "checked"
    assert sorted(os.listdir(tmp_path)) == ["t.pfw", "t.pfw.idx"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_it_leaves_none_or_a_whole_one(tmp_path, number):
    trace = tmp_path / "t.pfw"
    write_plain(trace, io_lines(40000))
    begin = time.monotonic()
    true = ask(tmp_path, "table", trace).stdout
    whole, draw, killed = time.monotonic() - begin, random.Random(4), 0
    for tries in range(300):
        index_of(trace).unlink(missing_ok=True)
        with subprocess.Popen([PFW, "table", str(trace)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=harness.clean_environment(PFW_INDEX_EVENTS="1")) as process:
            time.sleep(draw.random() * whole)
            process.send_signal(number)
        killed += process.returncode == -number
        if number == signal.SIGINT:
            assert not (tmp_path / "t.pfw.idx.tmp").exists()
        if index_of(trace).exists():
            assert checked(trace) == "checked"
        if tries > 20 and killed > 5:
            break
    assert killed > 5
    assert ask(tmp_path, "table", trace).stdout == true
    assert sorted(os.listdir(tmp_path)) == ["t.pfw", "t.pfw.idx"]


# ---- the bar ----

def test_a_bar_at_a_terminal(tmp_path):
    trace = tmp_path / "t.pfw"
    trace.write_bytes(LINE * 400_000)
    for words in ([], ["-q"]):
        parent, child = pty.openpty()
        with subprocess.Popen([PFW, "table", "--plain", *words, trace], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=child,
                              env=harness.clean_environment(PFW_INDEX_EVENTS="1", TERM="xterm")) as process:
            while process.poll() is None:  # 5 ms in each 105: it takes long enough on any machine
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.005)
        os.close(child)
        shown = read_rest(parent)
        index_of(trace).unlink()
        if words:
            assert shown == b""
        else:
            assert re.search(rb"\rindex  .*%.*iB/s", shown)
            assert GONE + b"pfw table: made " in shown
