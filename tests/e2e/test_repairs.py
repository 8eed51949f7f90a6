"""`pfw run` finishes the traces that killed processes of earlier runs have left, when its program has ended."""
import collections
import os
import pathlib
import re
import subprocess
import tempfile
import time

import pytest

import harness

PYTHON = "/usr/bin/python3"
ALICE = 31001
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place, which only root can")

# 300 calls, some of them in the file; 700 that are not, for the writer rests.  Then it waits for a line.
PROGRAM = """
import os, sys, time
for i in range(300): os.stat('/tmp')
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]): time.sleep(0.01)
for i in range(700): os.stat('/tmp')
print(flush=True)
sys.stdin.readline()
"""


class Place:
    def __init__(self, top):
        self.top, self.spools = top, top / "spools"
        self.spools.mkdir()

    def start(self, name="t", before=()):
        """A traced program that has recorded and now waits."""
        (self.top / "traces").mkdir(exist_ok=True)
        base = self.top / "traces" / name
        traced = harness.traced_environment(base, self.spools)
        ours = [f"{name}={value}" for name, value in traced.items() if name.startswith(harness.OURS)]
        words = [*before, "env", *ours, PYTHON, "-S", "-E", "-c", PROGRAM, f"{base}.pfw"]
        program = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=harness.clean_environment())
        assert program.stdout.read(1) == b"\n"
        return program

    def kill(self, *names, **options):
        started = [self.start(name, **options) for name in names]
        for program in started:
            program.kill()
            program.communicate()
        return started

    def environment(self, **variables):
        return harness.clean_environment(**{"PFW_SPOOL_DIR": str(self.spools), "PFW_REPAIR": "1", **variables})

    def run(self, *options, before=(), program=("true",), status=0, **variables):
        """What the next `pfw run` says of killed processes, without those that others have left in /dev/shm."""
        said = harness.run([*before, harness.PFW, "run", "-o", self.top / "next", *options, "--", *program],
                           self.environment(**variables), self.top, status=status).stderr
        return [line for line in said.splitlines() if "killed" in line
                and (str(self.top) in line or "stay in" not in line and "repaired /" not in line)]

    def left(self):
        return sorted(os.listdir(self.spools))

    def check(self, name="t"):
        lines = harness.check_trace(self.top / "traces" / f"{name}.pfw", reasons=("recovered",))
        assert len([line for line in harness.events(lines, "stat") if line["args"]["fname"] == "/tmp"]) == 1000


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_the_next_run_repairs_and_says_so(place):
    program, = place.kill("t")
    assert len(place.left()) == 1
    line, = place.run(program=("sh", "-c", "exit 7"), status=7)
    trace = place.top / "traces" / "t.pfw"
    assert re.fullmatch(rf"pfw: repaired {trace} of python3 \(pid {program.pid}, since [-0-9]+ [:0-9]+\), "
                        r"which was killed: [0-9,]+ events recovered", line), line
    assert place.left() == [] and place.run() == []
    place.check()


def test_quietly_and_not_at_all(place):
    place.kill("t")
    assert place.run(PFW_REPAIR="0") == [] and len(place.left()) == 1
    assert place.run("-q") == [] and place.left() == []
    place.check()


def test_the_living_are_left_alone(place):
    place.kill("dead")
    program = place.start("alive")
    spool, = set(place.left()) - {name for name in place.left() if f"-{program.pid}-" not in name}
    assert len(place.run()) == 1 and place.left() == [spool]
    program.communicate(b"\n")
    assert place.left() == []
    lines = harness.check_trace(place.top / "traces" / "alive.pfw")
    assert len(harness.events(lines, "stat")) >= 1000
    place.check("dead")


@needs_root
def test_what_is_another_users_is_left_alone():
    with tempfile.TemporaryDirectory() as top:
        place = Place(pathlib.Path(top))
        (place.top / "traces").mkdir()
        for directory in (place.top, place.spools, place.top / "traces"):
            directory.chmod(0o777)
        alice = ["setpriv", "--reuid", str(ALICE), "--regid", str(ALICE), "--clear-groups", "--"]
        if subprocess.run([*alice, "test", "-r", harness.PRELOAD], check=False).returncode:
            pytest.skip(f"another user cannot read {harness.PRELOAD}")
        place.kill("t", before=alice)
        spool, = place.left()
        assert place.run() == [] and place.left() == [spool]
        assert len(place.run(before=alice)) == 1 and place.left() == []
        place.check()


@needs_root
def test_another_containers_is_left_alone(place):
    """What was a process there cannot be known here as well as there."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no namespaces here")
    place.kill("t", before=[*inside, "--kill-child"])
    spool, = place.left()
    assert place.run() == [] and place.left() == [spool]


def test_of_several_runs_at_once_each_trace_is_of_one(place):
    names = [f"t{number}" for number in range(12)]
    place.kill(*names)
    command = [harness.PFW, "run", "-o", place.top / "next%p", "--", "true"]
    runs = [subprocess.Popen([str(word) for word in command], env=place.environment(), stderr=subprocess.PIPE,
                             text=True) for _ in range(8)]
    said = "".join(run.communicate()[1] for run in runs)
    assert all(run.returncode == 0 for run in runs), said
    deadline = time.monotonic() + 60  # a run begins no repair after a second, which may be short on a loaded machine
    while place.left() and time.monotonic() < deadline:
        said += "\n".join([*place.run(), ""])
    assert place.left() == []
    each = collections.Counter(re.findall(r"repaired (\S+) of python3", said))
    more = sum(map(int, re.findall(r"traces of (\d+) more killed", said)))
    assert set(each.values()) == {1} and sum(each.values()) + more == len(names), said
    for name in names:
        place.check(name)


def test_many_are_said_in_few_lines(place):
    place.kill(*(f"t{number}" for number in range(6)))
    said = place.run()
    while place.left():
        said += place.run()
    assert 1 <= len(said) <= 6 and any("killed process" in line for line in said[3:]), said


def test_what_cannot_be_repaired_stays_and_is_said_once(place):
    place.kill("t")
    traces, away = place.top / "traces", place.top / "away"
    traces.rename(away)
    spool, = place.left()
    line, = place.run()
    assert "of python3 (pid " in line and f"stay in {place.spools / spool}: " in line and str(traces) in line
    assert place.run() == [] and place.left() == [spool]
    away.rename(traces)
    assert len(place.run()) == 1 and place.left() == []
    place.check()
    place.kill(*(f"t{number}" for number in range(6)))
    traces.rename(away)
    said = place.run()
    assert len(said) == 4 and "the last events of 3 more killed processes stay" in said[3], said
    assert place.run() == [] and len(place.left()) == 6


@needs_root
def test_what_root_is_asked_about(place):
    """Only a spool says where the trace is to be: the line says the command that answers."""
    place.kill("t")
    trace, away = place.top / "traces" / "t.pfw", place.top / "t.pfw"
    trace.rename(away)
    line, = place.run()
    assert line.endswith(f"`pfw repair {trace}`") and not trace.exists()
    harness.run([harness.PFW, "repair", trace], place.environment())
    assert place.left() == [] and len(list(trace.parent.iterdir())) == 1


HOOK = """
#include <signal.h>
#include <unistd.h>
int fsync(int fd)
{
	(void)fd;
	BODY;
	return 0;
}
"""


@pytest.mark.parametrize("body, bound", [("raise(SIGSEGV)", 8), ("for (;;) pause()", 60)])
def test_a_repair_that_dies_or_hangs_is_no_matter(place, body, bound):
    """A file system that hangs, or a fault in the repair: the program's status comes, and nothing is lost."""
    (place.top / "hook.c").write_text(HOOK.replace("BODY", body))
    hook = harness.compile_c(place.top / "hook.c", place.top / "hook.so", "-shared", "-fPIC")
    place.kill("t")
    start = time.monotonic()
    said = place.run(LD_PRELOAD=f"{hook}:{harness.RUNTIME}" if harness.RUNTIME else str(hook),
                     program=("sh", "-c", "exit 3"), status=3)
    assert time.monotonic() - start < bound
    assert any("pfw repair --all" in line for line in said) == ("pause" in body), said
    assert len(place.left()) == 1 and len(place.run()) == 1 and place.left() == []
    place.check()


@pytest.mark.parametrize("command", ["repair", "compact", "validate"])
def test_the_spool_that_a_trace_names_is_found(place, command):
    """PFW_SPOOL_DIR was set for the traced program alone, as by a job's script."""
    place.kill("t", "u")
    words = ["--all-runs"] if command == "compact" else []
    found = harness.run([harness.PFW, command, *words, place.top / "traces"], harness.clean_environment(),
                        status=None)
    if command == "validate":
        assert found.returncode == 1 and "`pfw repair`" in found.stdout + found.stderr
        harness.run([harness.PFW, "repair", place.top / "traces"], harness.clean_environment())
    else:
        assert found.returncode == 0, found.stderr
    assert place.left() == []
    if command != "compact":
        place.check("t")
        place.check("u")
        return
    count = harness.run([harness.PFW, "query", "--count", "--all-runs", "--name", "stat", "--fname", "/tmp",
                             place.top / "traces"],
                        harness.clean_environment()).stdout
    assert count.strip() == "2000"


def test_compact_leaves_out_no_spool_silently(place):
    place.kill("t")
    (spool,) = place.left()
    (place.spools / spool).write_bytes(b"no spool any more")
    compact = [harness.PFW, "compact", place.top / "traces"]
    refused = harness.run(compact, harness.clean_environment(), status=2)
    # In a pid namespace of its own the command cannot know whether the process is dead.
    assert (f"its spool {place.spools / spool} has not been recovered" in refused.stderr
            or "may run outside of this container" in refused.stderr)
    assert (place.top / "traces" / "t.pfw").exists() and place.left() == [spool]
    harness.run([*compact, "--force"], harness.clean_environment(), status=1)
    assert not (place.top / "traces" / "t.pfw").exists() and place.left() == [spool]
