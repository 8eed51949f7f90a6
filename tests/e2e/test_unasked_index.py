"""Indexes that nobody asked for: --no-index reads none and makes none."""
import os
import sqlite3

import pytest

import harness
from test_index import lines_of, write_plain, index_of

PFW = os.environ["PFW_BIN"]


def pfw(*arguments, status=0, **options):
    return harness.run([PFW, *arguments], harness.clean_environment(), status=status, **options)


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
