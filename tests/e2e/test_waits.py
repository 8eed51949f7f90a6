"""PFW_CALLS=+sync: waits that do not end as usual, what is summed, and who gets the names of locks.

test_calls.py has each call, with both ways to get at it."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import PFW, clean_environment, run

TARGET = pathlib.Path(os.environ["PFW_BUILD_DIR"]) / "tests/waits_target"


def traced(directory, *command, **variables):
    """What a program prints under +sync, and the lines of its processes."""
    result = run([PFW, "run", "-q", "-o", "t", *command], clean_environment() | {"PFW_CALLS": "+sync", **variables},
                 directory, status=None)
    lines = [json.loads(line) for path in sorted(directory.glob("t*.pfw")) for line in path.open()]
    return result, lines


def waits(lines):
    return collections.Counter((line["name"], re.sub(r"\[.*", "", line["args"]["fname"])) for line in lines
                               if line["cat"] == "SYNC")


def test_waits_that_do_not_end_as_usual(tmp_path):
    plain = run([TARGET])
    result, lines = traced(tmp_path, TARGET, PFW_SYNC_MIN="1ms")
    assert (result.returncode, result.stdout, result.stderr) == (0, plain.stdout, plain.stderr)
    found = waits(lines)
    assert ("sleep", "clock:") not in found, "it was left by a jump, and has not returned"
    assert found["sem_wait", "sem:"] >= 1 and found["usleep", "clock:"] == 1
    assert found["pthread_mutex_lock", "mutex:"] == 2, "the fork's handler, and the child"
    assert len({line["pid"] for line in lines if line["cat"] == "SYNC"}) == 2
    assert not [line for line in lines if line["name"] == "lost"]


CONTENDED = """
import threading, time
lock = threading.Lock()
def work():
    for _ in range(300):
        with lock:
            time.sleep(0.00002)
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_short_waits_are_summed(tmp_path):
    for limit in ("1ns", "10s"):
        (tmp_path / limit).mkdir()
        result, lines = traced(tmp_path / limit, "/usr/bin/python3", "-c", CONTENDED, PFW_SYNC_MIN=limit)
        assert result.returncode == 0
        sums = [line for line in lines if line["name"] == "summed"]
        slept = sum(line["args"]["count"] for line in sums if line["args"]["name"] == "clock_nanosleep")
        assert (slept + waits(lines)["clock_nanosleep", "clock:"]) == 900
        assert bool(sums) == (limit == "10s") and bool(waits(lines)) == (limit == "1ns")
        table = json.loads(run([PFW, "table", "--format", "ndjson", "--name", "clock_nanosleep", "t"],
                               cwd=tmp_path / limit).stdout.splitlines()[0])
        assert table["count"] == 900


def test_only_plus_adds_waits(tmp_path):
    """+GLOB adds to what else is recorded; other globs choose among the calls that do not wait."""
    code = "import time; time.sleep(0.01); open('f', 'w').write('x')"
    for calls, expected in {"+sync": {"write", "clock_nanosleep"}, "write,+sync": {"write", "clock_nanosleep"},
                            "*": {"write"}, "+clock_nano*": {"write", "clock_nanosleep"}, "+pthread_*": {"write"}}.items():
        for path in tmp_path.iterdir():
            path.unlink()
        result, lines = traced(tmp_path, "/usr/bin/python3", "-c", code, PFW_CALLS=calls)
        assert {line["name"] for line in lines} & {"write", "clock_nanosleep"} == expected, calls
        assert not result.stderr


def test_the_object_without_locks_says_so(tmp_path):
    result = run(["/bin/true"], cwd=tmp_path, environment=clean_environment() | {
        "LD_PRELOAD": os.environ["PFW_PRELOAD"], "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD",
        "PFW_CALLS": "+sync"})
    assert result.stderr.count("\n") == 1 and "libpfw_preload_sync.so" in result.stderr


RACE_FREE = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int both;
static void *other(void *x) { pthread_mutex_lock(&b); pthread_mutex_lock(&a); both++; usleep(2000);
        pthread_mutex_unlock(&a); pthread_mutex_unlock(&b); return x; }
int main(void) { pthread_t t; pthread_mutex_lock(&a); pthread_mutex_lock(&b); both++; pthread_mutex_unlock(&b);
        pthread_mutex_unlock(&a); pthread_create(&t, 0, other, 0); pthread_join(t, 0); return both != 2; }
"""


def test_thread_sanitizer_still_sees_locks(tmp_path):
    """Two orders of two locks: found only if a lock is no try.  The increments are no race, thanks to the locks."""
    (tmp_path / "a.c").write_text(RACE_FREE)
    made = shutil.which("gcc") and subprocess.run(["gcc", "-g", "-fsanitize=thread", "-o", "a", "a.c"], cwd=tmp_path,
                                                  capture_output=True)
    if not made or made.returncode or run(["./a"], cwd=tmp_path, status=None).returncode not in (0, 66):
        pytest.skip("gcc has no ThreadSanitizer, or it does not work here")
    # Several times: where the writer's thread has less thread-local data than the runtime, every other start crashes.
    for start in range(5):
        (tmp_path / f"{start}").mkdir()
        result, lines = traced(tmp_path / f"{start}", tmp_path / "a")
        assert "lock-order-inversion" in result.stderr and "data race" not in result.stderr
        assert waits(lines)["pthread_join", "thread:"] == 1 and waits(lines)["usleep", "clock:"] == 1
