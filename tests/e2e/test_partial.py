"""`pfw index --partial`: partials of a run answer as its traces do, however they are split and merged."""
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import time
import zlib

import pytest

from harness import PFW, RACES, RUNTIME, run
from test_states import Process
from test_states import busy as busier


def busy(process, seed, count=150):
    """Without calls inside calls, whose self times are in no index."""
    busier(process, seed, count)
    process.lines = [line for line in process.lines if line[1] != "write"]
    return process


# What indexes answer.
ANSWERED = [
    *(["table", "--format", "csv", "--row-limit", "-1", *words]
      for words in ([], ["-g", "cat"], ["-g", "rank"], ["-g", "name,rank"], ["-g", "shape"],
                    ["--plain"], ["--cat", "POSIX"], ["--cat", "PP"])),
    ["table"], ["table", "-g", "fname"], ["table", "-s", "none"],
    ["overlap"], ["overlap", "--steps", "--format", "ndjson"],
    ["patterns"], ["patterns", "--format", "ndjson"], ["memory"], ["memory", "--rank", "0", "--format", "csv"],
    ["compare"], ["compare", "-g", "rank,cat", "--format", "ndjson"], ["compare", "--cat", "POSIX"],
    ["table", "-g", "fname", "--rank", "0"], ["compare", "--rank", "0"]]


def many_ranks(directory, seed, count):
    """Ranks with a worker each; a file that all read."""
    for rank in range(count):
        first = busy(Process(100 + rank, rank * 700, rank, count), seed + rank, 40 + rank)
        first.write(directory / f"t-rank{rank:04}.pfw")
        worker = Process(200 + rank, 900, rank, count, 100 + rank)
        busy(worker, seed + 20 + rank, 20).write(directory / f"t-rank{rank:04}-pid{200 + rank}.pfw")


def answers(operands):
    """Of a run without ranks, --rank 0 is an error."""
    done = {" ".join(words): run([PFW, *words, *sides(words, operands)], status=None) for words in ANSWERED}
    return {words: (one.returncode, one.stdout) for words, one in done.items()}


def sides(words, operands):
    """A run is compared with itself."""
    return [*operands, "--", *operands] if words[0] == "compare" else operands


def reduce(out, *operands, **options):
    run([PFW, "index", "--partial", "-q", "-o", out, *operands], **options)
    return out


def merged(chance, tmp_path, partials):
    """One partial of all, by a random tree."""
    left = list(partials)
    while len(left) > 1:
        taken = [left.pop(chance.randrange(len(left)))
                 for _ in range(min(len(left), chance.choice([2, 2, 3])))]
        left.append(reduce(tmp_path / f"merged{chance.randrange(2**40)}.partial", *taken))
    return left[0]


def check(traces, expected, splits, tmp_path):
    """`splits` of the files, each split reduced by itself: together, and merged in two ways."""
    partials = [reduce(tmp_path / f"part{number}.partial", *split)
                for number, split in enumerate(splits)]
    shutil.rmtree(traces)  # the partials stand alone
    assert answers(partials) == expected
    first = merged(random.Random(1), tmp_path, partials)
    second = merged(random.Random(2), tmp_path, partials[::-1])
    assert first.read_bytes() == second.read_bytes()
    assert answers([first]) == expected
    assert answers([first, *partials]) == expected  # what is in two of them counts once


@pytest.mark.parametrize("count", range(1, 9))
def test_random_splits_of_ranks_answer_as_the_run(tmp_path, count):
    chance, made = random.Random(count), tmp_path / "made"
    many_ranks(made, 10 * count, count)
    expected = answers([made])
    splits = [[] for _ in range(chance.randrange(1, count + 1))]
    for rank in range(count):
        chance.choice(splits).extend(sorted(made.glob(f"t-rank{rank:04}*")))
    check(made, expected, [split for split in splits if split], tmp_path)


def children(directory, seed):
    """Processes at the same time, of which later ones have pids of earlier ones."""
    busy(Process(10, 0), seed).write(directory / "t.pfw")
    for number, pid in enumerate([9, 11, 9, 100]):
        child = busy(Process(pid, 50000 + number * 4000000, parent=10), seed + 10 + number, 60)
        child.write(directory / f"t-pid{pid}{'.2' if number == 2 else ''}.pfw")


def one_pid(directory, seed):
    """A program that execs: one pid, one thread id, correlations from 1, three times."""
    start = 0
    for number in range(3):
        process = busy(Process(4711, start), seed + number)
        process.write(directory / ("t.pfw" if not number else f"t.{number + 1}.pfw"))
        start = process.start_of_next


@pytest.mark.parametrize("make", [one_pid, children])
def test_a_run_without_ranks(tmp_path, make):
    make(tmp_path / "made", 3)
    check(tmp_path / "made", answers([tmp_path / "made"]), [[tmp_path / "made"]], tmp_path)


def test_compacted_traces_are_reduced_as_they_are(tmp_path):
    many_ranks(tmp_path / "made", 5, 3)
    expected = answers([tmp_path / "made"])
    run([PFW, "compact", "-q", tmp_path / "made"])
    check(tmp_path / "made", expected, [[path] for path in (tmp_path / "made").glob("*.gz")],
          tmp_path)


def test_nothing_is_left_beside_a_partial(tmp_path):
    many_ranks(tmp_path / "made", 5, 2)
    before = {path: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    assert {path: path.read_bytes() for path in (tmp_path / "made").iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["a.partial", "made"]
    assert out.stat().st_size < 2 * 16384
    again = out.read_bytes()
    assert reduce(out, tmp_path / "made").read_bytes() == again  # it replaces itself


def test_a_signal_leaves_nothing(tmp_path):
    """In the middle of the compaction that it needs."""
    many_ranks(tmp_path / "made", 5, 60)
    process = subprocess.Popen([PFW, "index", "--partial", "-q", "-o", tmp_path / "a.partial",
                                tmp_path / "made"])
    while len(os.listdir(tmp_path)) == 1 and process.poll() is None:
        time.sleep(0.001)
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM
    assert os.listdir(tmp_path) == ["made"] and len(os.listdir(tmp_path / "made")) == 120


@pytest.mark.parametrize("words, what", [
    (["table", "-g", "process"], "--group-by process or cmd"),
    (["table", "-g", "fname,pid"], "--group-by fname with another field"),
    (["table", "--where", "dur > 5"], "--where"),
    (["table", "--since", "40%"], "--since"),
    (["table", "--name", "Prof*"], "the name of a step"),
    (["overlap", "--bins", "5"], "--bins"),
    (["overlap", "--since", "40%"], "--since or --until"),
    (["patterns", "--cat", "POSIX"], "--cat"),
])
def test_what_is_in_no_partial_is_said(tmp_path, words, what):
    many_ranks(tmp_path / "made", 5, 1)
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    done = run([PFW, *words, out], status=None)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"a.partial: {what}" in done.stderr and "read the trace itself" in done.stderr
    assert done.stderr.count("\n") == 1


def one_file_a_rank(directory, seed):
    for rank in range(3):
        busy(Process(100 + rank, rank * 700, rank, 3), seed + rank, 400).write(directory / f"t-rank{rank:04}.pfw")


@pytest.mark.parametrize("seed", range(3))
def test_indexes_of_what_is_not_compacted(tmp_path, seed):
    """They are enough if each rank is one file, and are made; what is not whole is compacted."""
    made = tmp_path / "made"
    one_file_a_rank(made, seed)
    expected = answers([made])
    last = made / "t-rank0002.pfw"
    text = last.read_text()
    last.write_text(text.replace("\n", "\nno JSON\n", 1))
    run([PFW, "index", "--partial", "-q", "-o", tmp_path / "compacted.partial", made], status=1)
    compacted = tmp_path / "compacted.partial"
    last.write_text(text)
    parts = [reduce(tmp_path / f"{number}.partial", path) for number, path in enumerate(sorted(made.glob("*.pfw")))]
    whole = reduce(tmp_path / "whole.partial", made)
    for partials, form in (([compacted], b".pfw.gz"), (parts, b".pfw"), ([whole], b".pfw")):
        assert answers(partials) == expected
        for partial in partials:
            assert all(form + b'"' in facts for facts, _ in units(partial.read_bytes()))
    assert whole.read_bytes() == reduce(tmp_path / "merged.partial", *reversed(parts)).read_bytes()


def test_files_of_a_rank_that_were_reduced_apart(tmp_path):
    """Their times do not add up to an overlap; all else does."""
    many_ranks(tmp_path / "made", 5, 1)
    expected = answers([tmp_path / "made"])
    parts = [reduce(tmp_path / f"{number}.partial", path)
             for number, path in enumerate(sorted((tmp_path / "made").iterdir()))]
    assert len(parts) == 2
    for words in ANSWERED:
        done = run([PFW, *words, *sides(words, parts)], status=None)
        if words[0] == "overlap":
            assert done.returncode == 2 and "whose files were reduced apart" in done.stderr
        elif words[0] == "memory": # the worker's steps are those of the other file
            assert done.returncode == 2 and "in steps of a process in another file" in done.stderr
        else:
            assert (done.returncode, done.stdout) == expected[" ".join(words)]


@pytest.mark.parametrize("words", [
    ["table", "-g", "step"], ["table", "-g", "step,rank"], ["table", "-g", "step", "--columns", "count,p99"],
    ["table", "-g", "fname"], ["table"], ["compare"], ["overlap", "--steps"]])
@pytest.mark.parametrize("rank", ["1", "0,2", "7"])
def test_some_ranks(tmp_path, words, rank):
    """A partial has no lines: only indexes can answer."""
    many_ranks(tmp_path / "made", 5, 3)
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    asked = [PFW, *words, "--rank", rank]
    lines = run([*asked, "--no-index", *sides(words, [tmp_path / "made"])], status=None)
    done = run([*asked, *sides(words, [out])], status=None)
    assert (done.returncode, done.stdout) == (lines.returncode, lines.stdout), (done, lines)


@pytest.mark.parametrize("words", [["query"], ["export"], ["compact"], ["index"]])
def test_other_commands_need_the_traces(tmp_path, words):
    many_ranks(tmp_path / "made", 5, 1)
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    done = run([PFW, *words, out], status=None)
    assert done.returncode == 2 and not done.stdout
    assert "a.partial: a partial: only table, overlap, patterns, memory, compare" in done.stderr


def test_options_are_checked(tmp_path):
    many_ranks(tmp_path / "made", 5, 1)
    for words, said in ((["--partial", tmp_path / "made"], "give -o FILE.partial"),
                        (["-o", "x.partial", tmp_path / "made"], "need --partial"),
                        (["--partial", "-o", "x.idx", tmp_path / "made"], "ends in .partial")):
        done = run([PFW, "index", *words], status=None)
        assert done.returncode == 2 and said in done.stderr
    (tmp_path / "mine.partial").write_text("mine")
    done = run([PFW, "index", "--partial", "-o", tmp_path / "mine.partial", tmp_path / "made"],
               status=None)
    assert done.returncode == 2 and "not a partial: not replaced" in done.stderr
    assert (tmp_path / "mine.partial").read_text() == "mine"


# ---- partials are anybody's ----

def test_damaged_partials_are_refused(tmp_path):
    """Cut anywhere, or a byte changed anywhere: one line, and no table; never a wrong one."""
    many_ranks(tmp_path / "made", 5, 2)
    good = reduce(tmp_path / "a.partial", tmp_path / "made").read_bytes()
    expected = run([PFW, "table", tmp_path / "a.partial"]).stdout
    bad, chance = tmp_path / "bad.partial", random.Random(4)
    cuts = [good[:chance.randrange(len(good))] for _ in range(25)] + [b"", good + b"x"]
    flips = []
    for _ in range(60):
        at = chance.choice([chance.randrange(48), chance.randrange(len(good))])
        flips.append(good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1:])
    for text in cuts + flips:
        bad.write_bytes(text)
        for command in ("table", "overlap", "patterns", "memory", "compare"):
            done = run([PFW, command, *sides([command], [bad])], status=None)
            assert done.returncode == 2 and not done.stdout, done
            assert done.stderr.count("\n") == 1 and "bad.partial" in done.stderr, done.stderr
    assert run([PFW, "table", tmp_path / "a.partial"]).stdout == expected


def test_a_partial_that_claims_much_takes_no_memory(tmp_path):
    """Sizes beyond what its bytes can inflate to; counts beyond what its bytes can be."""
    bad = tmp_path / "bad.partial"
    for facts, index, units in ((2**32 - 1, 0, 1), (9, 2**32 - 1, 1), (64 << 20, 256 << 20, 1),
                                (9, 9, 2**63)):
        unit = struct.pack("<6I", 40, facts, 40, index, 0, 0) + bytes(80)
        bad.write_bytes(b"PFWPART1" + struct.pack("<2Q", units, 24 + len(unit)) + unit)
        limit = [] if RUNTIME or RACES else ["prlimit", f"--as={400 << 20}"]
        done = run([*limit, PFW, "table", bad], status=None)
        assert done.returncode == 2 and "bad.partial: a damaged partial" in done.stderr


def units(text):
    """What its traces have: facts and index, inflated."""
    at = 24
    while at < len(text):
        sizes = struct.unpack_from("<6I", text, at)
        at += 24
        yield [zlib.decompress(text[begin:begin + bytes_], -15)
               for begin, bytes_ in ((at, sizes[0]), (at + sizes[0], sizes[2]))]
        at += sizes[0] + sizes[2]


def test_a_partial_knows_no_compressed_bytes(tmp_path):
    """They differ from one compaction to the next; the same lines shall give the same partial."""
    many_ranks(tmp_path / "made", 5, 2)
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    for _, index in units(out.read_bytes()):
        (tmp_path / "x.db").write_bytes(index)
        with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database:
            proof, = database.execute("SELECT trace_bytes - blocks, first_bytes, first_crc,"
                                      " last_bytes, last_crc FROM meta")
        assert proof == (0, 0, 0, 0, 0)


def packed(parts):
    """A partial of these, with the right sums."""
    out = b""
    for pair in parts:
        made = [zlib.compress(text, 1, -15) for text in pair]
        out += struct.pack("<6I", len(made[0]), len(pair[0]), len(made[1]), len(pair[1]),
                           *map(zlib.crc32, made)) + b"".join(made)
    return b"PFWPART1" + struct.pack("<2Q", len(parts), 24 + len(out)) + out


def test_forged_partials_do_no_harm(tmp_path):
    """Right sums over wrong bytes: an answer or one line, never a crash."""
    many_ranks(tmp_path / "made", 5, 2)
    out = reduce(tmp_path / "a.partial", tmp_path / "made")
    good, chance = list(units(out.read_bytes())), random.Random(8)
    assert answers([out]) == answers([tmp_path / "made"])
    out.write_bytes(packed(good))
    assert answers([out]) == answers([tmp_path / "made"])
    for number in range(60):
        bad = [[bytearray(text) for text in pair] for pair in good]
        for _ in range(chance.choice([1, 8, 60])):
            text = bad[chance.randrange(2)][number % 2]
            text[chance.randrange(len(text))] = chance.randrange(256)
        out.write_bytes(packed([[bytes(text) for text in pair] for pair in bad]))
        for command in ("table", "overlap", "patterns", "compare"):
            done = run([PFW, command, *sides([command], [out])], status=None)
            assert done.returncode in (0, 2), done
            assert done.returncode == 0 or done.stderr.count("\n") == 1, done.stderr
    for facts in (b"", b"\n", b"{}\n", b"[]", b'{"name":"trace","args":{"path":5}}\n',
                  good[0][0] * 2, b'{"name":"trace","args":{"path":"x"}}\n' + b"{}\n" * 9):
        out.write_bytes(packed([[facts, good[0][1]]]))
        done = run([PFW, "table", out], status=None)
        assert done.returncode == 2 and "a.partial: a damaged partial" in done.stderr, (facts, done)
    assert run([PFW, "table", out], status=None).stderr.count("\n") == 1


def test_what_the_indexes_of_traces_cannot_answer(tmp_path):
    """Calls inside calls; a file of all ranks by rank."""
    busier(Process(5, 0), 1).write(tmp_path / "nested" / "t.pfw")
    many_ranks(tmp_path / "made", 5, 3)
    expected = answers([tmp_path / "made"])
    run([PFW, "compact", "-q", "--split-by", "none", tmp_path / "made"])
    for name, operand, words, said in (
            ("n", "nested", ["table"], "self times of calls inside calls"),
            ("r", "made", ["table", "-g", "rank"], "what one rank in a file of several does"),
            ("r", "made", ["table", "-g", "fname", "--rank", "1"], "what one rank in a file of several does"),
            ("r", "made", ["table", "-g", "step", "--rank", "1"], "what one rank in a file of several does"),
            ("r", "made", ["compare", "--rank", "1", tmp_path / "r.partial"], "what one rank in a file of several does"),
            ("r", "made", ["overlap"], "several ranks in one file"),
            ("r", "made", ["patterns"], "a file of several ranks")):
        out = reduce(tmp_path / f"{name}.partial", tmp_path / operand)
        done = run([PFW, *words, out], status=None)
        assert done.returncode == 2 and not done.stdout, done
        assert f"{name}.partial: " in done.stderr and said in done.stderr
        assert "read the trace itself" in done.stderr
    assert (0, run([PFW, "table", tmp_path / "r.partial"]).stdout) == expected["table"]
    assert run([PFW, "table", "--plain", tmp_path / "n.partial"]).stdout == \
        run([PFW, "table", "--plain", tmp_path / "nested"]).stdout
