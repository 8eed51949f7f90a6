"""SIGKILL at random moments: each event whose call had returned is in the trace exactly once.

The target (kill.c) counts, in memory that outlives it, the calls that have returned; the offset of
each read is its number.  So the trace must hold the reads 0..w-1 of each thread, or 0..w when the
call in flight had been recorded but not yet counted, none twice, and the same of its spans.

PFW_KILLS is the number of kills (60; 200 for a release), PFW_KILL_SEED their seed.
"""
import collections
import contextlib
import gzip
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import time
import zlib

import pytest

BUILD = os.environ["PFW_BUILD_DIR"]
PFW = os.environ.get("PFW_BIN", os.path.join(BUILD, "bin", "pfw"))
PRELOAD = os.environ.get("PFW_PRELOAD", os.path.join(BUILD, "lib", "libpfw_preload.so"))
TARGET = os.path.join(BUILD, "tests", "kill")
KILLS = int(os.environ.get("PFW_KILLS", "60"))
SEED = int(os.environ.get("PFW_KILL_SEED", "20261121"))
THREADS_MAX = 64


def wait_until(condition):
    """A minute at most: on a loaded machine a fifth of a second is not always enough."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


class Target:
    """One run of kill.c under the tracer, in a directory of its own."""

    def __init__(self, directory, threads, count, end, compressed, **variables):
        self.threads = threads
        self.directory = directory
        self.spools = os.path.join(directory, "spools")
        os.mkdir(self.spools)
        self.data = os.path.join(directory, "data")
        self.witness_path = os.path.join(directory, "witness")
        with open(self.data, "wb") as file:
            file.truncate((THREADS_MAX + 1) << 24)
        with open(self.witness_path, "wb") as file:
            file.truncate(max(mmap.PAGESIZE, THREADS_MAX * 16))
        self.trace = os.path.join(directory, "t.pfw" + (".gz" if compressed else ""))
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PFW_", "DFTRACER_", "LD_PRELOAD"))}
        environment.update({
            "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_DATA_DIR": "all",
            "DFTRACER_LOG_FILE": os.path.join(directory, "t"), "LD_PRELOAD": PRELOAD,
            "DFTRACER_TRACE_COMPRESSION": str(int(compressed)), "PFW_SPOOL_DIR": self.spools,
            **variables})
        self.environment = environment
        self.command = [TARGET, self.witness_path, self.data, str(threads), str(count), end]
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.environment,
                                        stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.kill()  # where a check has failed before
        self.process.wait()
        self.process.stderr.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.finish(-signal.SIGKILL)

    def finish(self, status):
        said = self.process.stderr.read()
        assert self.process.wait(timeout=300) == status, said
        return said

    def witness(self):
        """(reads, spans) of each thread that had returned; behind them those of the handler."""
        with open(self.witness_path, "rb") as file:
            return list(struct.iter_unpack("=QQ", file.read(16 * (self.threads + 1))))

    def wait_for_first(self):
        wait_until(lambda: any(reads for reads, _ in self.witness()))

    def has_gone_on(self):
        """Whether something stands behind the end, as far as the trace is written."""
        if not os.path.exists(self.trace):
            return False
        with open(self.trace, "rb") as file:
            data = file.read(1 << 24)
        if not self.trace.endswith(".gz"):
            return data.count(b'"name":"end"') > 1
        ends = 0
        while data and ends < 2:
            member = zlib.decompressobj(31)
            ends += member.decompress(data).count(b'"name":"end"')
            data = member.unused_data
        return ends > 1

    def left_spools(self):
        return os.listdir(self.spools)

    def repair(self, **options):
        return subprocess.run([PFW, "repair", self.trace], capture_output=True, text=True,
                              env={**os.environ, "PFW_SPOOL_DIR": self.spools}, **options)

    def lines(self):
        opener = gzip.open if self.trace.endswith(".gz") else open
        with opener(self.trace, "rb") as file:
            text = file.read()
        assert text.endswith(b"\n")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def started():
    """Target(...) that runs; it is dead when the test is over, however that ends."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **variables: stack.enter_context(Target(*args, **variables))


def check_lines(lines):
    ids = [line["id"] for line in lines]
    assert len(set(ids)) == len(ids), "an id twice"
    assert lines[0]["name"] == "process" and lines[0]["cat"] == "pfw"
    named = set()
    for line in lines:
        if line["name"] == "thread_name":
            named.add(line["tid"])
        elif line["cat"] != "pfw":
            assert line["tid"] in named, "an event before its thread's name"
            assert line["dur"] >= 0
    ends = [line for line in lines if line["name"] == "end"]
    assert ends and ends[-1] is lines[-1]
    assert ends[-1]["args"]["events"] == sum(line["ph"] != "M" for line in lines)
    return ends[-1]["args"]


def numbers(values):
    """{thread: [n, …]} of values thread << 24 | n, in the order of the trace."""
    found = collections.defaultdict(list)
    for value in values:
        found[value >> 24].append(value & 0xffffff)
    return found


def check_counts(what, found, witnessed, in_flight, ordered):
    """0..w-1 once each, in order where asked; and w, where a call may have been in flight."""
    for thread, count in enumerate(witnessed):
        got = found.get(thread, [])
        where = f"{what} of thread {thread}: {count} returned, {len(got)} in the trace"
        duplicates = [n for n, times in collections.Counter(got).items() if times > 1]
        assert not duplicates, f"{where}, twice: {duplicates[:5]}"
        missing = sorted(set(range(count)) - set(got))
        assert not missing, f"{where}, {len(missing)} missing: {missing[:3]}…{missing[-3:]}"
        assert all(n < count + in_flight for n in got), f"{where}: of no call"
        assert not ordered or got == sorted(got), f"{where}: not in order"
    assert set(found) <= set(range(len(witnessed)))


def check_events(target, lines, in_flight):
    witness = target.witness()
    reads = [line["args"]["offset"] for line in lines
             if line["name"] == "pread" and line["args"]["fname"] == target.data]
    spans = [line["args"]["n"] for line in lines if line["name"] == "step"]
    ordered = target.command[-1] != "churn"  # of two threads' rings neither is first
    check_counts("reads", numbers(reads), [n for n, _ in witness], in_flight, ordered)
    check_counts("spans", numbers(spans), [n for _, n in witness], in_flight, ordered)
    for line in lines:
        if line["name"] == "pread" and line["args"]["fname"] == target.data:
            assert line["args"]["ret"] == 8 and line["args"]["count"] == 8


def check_recovered(target):
    """After the repair of a killed target: all of it, and nothing left behind."""
    assert target.left_spools() == []
    if not os.path.exists(target.trace):
        assert all(pair == (0, 0) for pair in target.witness())
        return 0
    lines = target.lines()
    end = check_lines(lines)
    assert end["reason"] == "recovered"
    check_events(target, lines, in_flight=1)
    return len(lines)


def variables_for(rng):
    """Rings that grow, rings that are full, files written often and seldom."""
    return {"PFW_RING_MAX": rng.choice(["32KiB", "128KiB", "1MiB"]),
            "PFW_FLUSH_MS": rng.choice(["5", "50", "500"]),
            "DFTRACER_WRITE_BUFFER_SIZE": rng.choice(["16384", "262144", "1048576"])}


def wait_for_moment(target, rng):
    """When to kill: two in five within the start, the others anywhere in what follows."""
    if rng.random() < 0.4:
        time.sleep(rng.uniform(0, 0.03))
    else:
        target.wait_for_first()
        time.sleep(rng.uniform(0, 0.2))


def kill_one(started, directory, number):
    rng = random.Random(f"{SEED}/{number}")
    threads = (1, 2, 8)[number % 3]
    way = rng.choice(["loop", "loop", "churn", "signals"])
    target = started(directory, threads, rng.choice([500, 5000]), way, number % 2 == 1,
                     **variables_for(rng))
    wait_for_moment(target, rng)
    target.kill()
    spools = target.left_spools()
    repaired = target.repair()
    if spools:
        assert repaired.returncode == 0, repaired.stderr
    return check_recovered(target)


def test_kills(started, tmp_path):
    lines = 0
    for number in range(KILLS):
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            lines += kill_one(started, str(directory), number)
        except AssertionError as error:
            pytest.fail(f"kill {number} of seed {SEED}, in {directory}: {error}")
        subprocess.run(["rm", "-rf", str(directory)], check=True)
    assert lines > KILLS, "the kills came before anything was recorded"


def test_killed_repair(started, tmp_path):
    """`pfw repair` may be killed too, at any point: the next one does it."""
    for number in range(max(KILLS // 6, 5)):
        rng = random.Random(f"{SEED}/repair/{number}")
        directory = tmp_path / str(number)
        directory.mkdir()
        target = started(str(directory), 2, 5000, "loop", number % 2 == 1, PFW_FLUSH_MS="400")
        target.wait_for_first()
        time.sleep(rng.uniform(0, 0.25))
        target.kill()
        while target.left_spools():
            repair = subprocess.Popen([PFW, "repair", "-q", target.trace],
                                      env={**os.environ, "PFW_SPOOL_DIR": target.spools})
            time.sleep(rng.uniform(0, 0.02))
            repair.kill()
            repair.wait()
            if rng.random() < 0.2:  # so that an end comes, on any machine
                assert target.repair().returncode == 0
        check_recovered(target)
        assert sorted(os.listdir(directory)) == sorted(
            ["data", "spools", "witness", os.path.basename(target.trace)])


def test_repairs_at_once(started, tmp_path):
    """Of several adopters one does it; all are content."""
    target = started(str(tmp_path), 2, 5000, "loop", False, PFW_FLUSH_MS="400")
    target.wait_for_first()
    time.sleep(0.2)
    target.kill()
    command = [PFW, "repair", target.trace]
    environment = {**os.environ, "PFW_SPOOL_DIR": target.spools}
    repairs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [repair.communicate() for repair in repairs]
    assert sum("recovered" in out for out, _ in said) == 1, said
    check_recovered(target)


def test_repair_of_the_living(started, tmp_path):
    """A trace that is being written is left alone, by name."""
    target = started(str(tmp_path), 2, 500, "loop", False, PFW_FLUSH_MS="20")
    wait_until(lambda: os.path.exists(target.trace) and os.path.getsize(target.trace))
    before = target.repair()
    assert before.returncode == 1 and str(target.process.pid) in before.stderr
    time.sleep(0.1)
    target.kill()
    assert target.repair().returncode == 0
    check_recovered(target)


def test_stopped(started, tmp_path):
    """Ctrl-Z, a debugger: a record in whose middle the thread was stopped is finished later."""
    targets = []
    for number in range(4):
        directory = tmp_path / str(number)
        directory.mkdir()
        targets.append(started(str(directory), 1, 20000, "loop", False, PFW_FLUSH_MS="5"))
    for target in targets:
        target.wait_for_first()
    time.sleep(0.2)
    for _ in range(4):
        for target in targets:
            target.process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)  # the writer gives a record a second to be finished
        for target in targets:
            target.process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    for target in targets:
        target.kill()
    for target in targets:
        assert target.repair().returncode == 0
        check_recovered(target)


@pytest.mark.parametrize("compressed", [False, True], ids=["raw", "gzip"])
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("end", ["return", "exit", "_exit", "quick_exit", "exec"])
def test_ends_well(started, tmp_path, end, threads, compressed):
    """These ends need no recovery: the file is finished, nothing is left behind."""
    target = started(str(tmp_path), threads, 3000, end, compressed)
    assert target.finish(0) == ""
    assert target.left_spools() == []
    lines = target.lines()
    last = check_lines(lines)
    assert last["reason"] == ("exec" if end == "exec" else "exit")
    assert last["lost"] == 0
    assert target.witness()[:-1] == [(3000, 750)] * target.threads
    check_events(target, lines, in_flight=0)


BAD_ENDS = {"abort": -signal.SIGABRT, "segv": -signal.SIGSEGV, "term": -signal.SIGTERM,
            "exit_group": 0}


@pytest.mark.parametrize("compressed", [False, True], ids=["raw", "gzip"])
@pytest.mark.parametrize("end", BAD_ENDS)
def test_ends_badly(started, tmp_path, end, compressed):
    """Deaths that nobody can write an end in: what was recorded is recovered, all of it."""
    target = started(str(tmp_path), 2, 3000, end, compressed, PFW_FLUSH_MS="400")
    target.finish(BAD_ENDS[end])
    assert target.left_spools()
    assert target.repair().returncode == 0
    assert target.left_spools() == []
    lines = target.lines()
    last = check_lines(lines)
    assert last["reason"] == "recovered" and last["lost"] == 0
    assert target.witness()[:-1] == [(3000, 750)] * target.threads
    check_events(target, lines, in_flight=0)


def test_run_adopts(tmp_path):
    """`pfw run` finishes the trace of a command that died, without being asked."""
    target = Target(str(tmp_path), 2, 3000, "abort", False)
    environment = {name: value for name, value in target.environment.items()
                   if name not in ("LD_PRELOAD", "DFTRACER_LOG_FILE")}
    run = subprocess.run([PFW, "run", "-o", str(tmp_path / "t"), "--", *target.command],
                         env=environment, capture_output=True, text=True)
    assert run.returncode == 128 + signal.SIGABRT, run.stderr
    assert target.left_spools() == []
    lines = target.lines()
    assert check_lines(lines)["reason"] == "recovered"
    check_events(target, lines, in_flight=0)


def test_dropped_are_counted(started, tmp_path):
    """PFW_ON_FULL=drop: what is not in the trace is in its count of losses, to the last one."""
    target = started(str(tmp_path), 2, 200000, "return", False, PFW_ON_FULL="drop",
                     PFW_RING_MAX="32KiB")
    target.finish(0)
    lines = target.lines()
    last = check_lines(lines)
    recorded = sum(line["name"] == "pread" and line["args"]["fname"] == target.data
                   or line["name"] == "step" for line in lines)
    assert last["lost"] > 0, "the rings were never full: this tested nothing"
    assert recorded + last["lost"] == 2 * (200000 + 50000)
    assert {line["args"]["reason"] for line in lines if line["name"] == "lost"} == {"full"}


# Preloaded behind the recorder, so begun before it, so called after it: the process goes on when its
# trace has had its end.
GOES_ON = """
#include <stdlib.h>
#include <unistd.h>
static void go_on(void)
{
	for (;;)
		pause();
}
__attribute__((constructor)) static void begin(void)
{
	at_quick_exit(go_on);
}
"""


def members_behind_the_end(path):
    """(offset, bytes, text) of each, as its header says."""
    with open(path, "rb") as file:
        data = file.read()
    at, ended = 0, False
    while at < len(data):
        assert data[at + 12:at + 14] == b"PF"
        size, = struct.unpack_from("<I", data, at + 16)
        text = zlib.decompress(data[at:at + size], 31)
        if ended:
            yield at, size, text
        ended |= b'"name":"end"' in text
        at += size


@pytest.mark.parametrize("compressed", [False, True], ids=["raw", "gzip"])
def test_killed_behind_the_end(started, tmp_path, compressed):
    """Nobody recovers what is written behind an end, so it is there whole or not at all."""
    source, library = tmp_path / "goes_on.c", tmp_path / "goes_on.so"
    source.write_text(GOES_ON)
    compiler = os.environ.get("PFW_CROSS_CC", "gcc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    pads = 0
    for number in range(max(KILLS // 6, 5)):
        rng = random.Random(f"{SEED}/behind/{number}")
        directory = tmp_path / str(number)
        directory.mkdir()
        target = started(str(directory), (1, 2, 8)[number % 3] + 1, 20, "behind", compressed,
                         LD_PRELOAD=f"{PRELOAD}:{library}")
        wait_until(target.has_gone_on)
        time.sleep(rng.uniform(0, 0.1))
        target.kill()
        where = f"kill {number} of seed {SEED}, in {directory}"
        assert target.left_spools() == [], where
        if compressed:
            for at, size, text in members_behind_the_end(target.trace):
                pads += not text
                assert size > 4096 or at // 4096 == (at + size - 1) // 4096, f"{where}, byte {at}"
        lines = target.lines()
        assert check_lines(lines)["reason"] == "exit", where
        assert sum(line["name"] == "end" for line in lines) > 1, f"{where}: no event behind"
        check_events(target, lines, in_flight=1)
        valid = subprocess.run([PFW, "validate", target.trace], capture_output=True, text=True)
        assert valid.returncode == 0, f"{where}: {valid.stdout}{valid.stderr}"
        subprocess.run(["rm", "-rf", str(directory)], check=True)
    assert pads or not compressed
