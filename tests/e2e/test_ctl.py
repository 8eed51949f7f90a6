"""`pfw ctl`: steering a running process, and who follows it; and plans by the clock."""
import json
import os
import signal
import subprocess
import time

import pytest

import harness

# Reads a file every 5 ms until its standard input ends, or, a child, until the file "stop" is there.
LOOP = """
import ctypes, os, select, signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
pfw = ctypes.CDLL(None)
data = os.open("data", os.O_RDONLY)
def child_loop():
    while not os.path.exists("stop"):
        os.pread(data, 1, 7)
        time.sleep(0.005)
def next_word():
    while not select.select([0], [], [], 0.005)[0]:
        os.pread(data, 1, 7)
    return os.read(0, 100)
if len(sys.argv) > 1:
    child_loop()
    sys.exit()
print("up", flush=True)
while word := next_word():
    if word == b"step":
        pfw.pfw_step()
    elif word == b"idle":
        signal.sigwait([signal.SIGUSR1])
    elif word == b"fork":
        child = os.fork()
        if child == 0:
            child_loop()
            os._exit(0)
        print(child)
    else:
        print(subprocess.Popen([sys.executable, "-c", PROGRAM, "child"]).pid)
    print("done", flush=True)
open("stop", "w").close()
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


class Program:
    def __init__(self, top, **variables):
        self.top = top
        (top / "spools").mkdir()
        (top / "data").write_bytes(b"x" * 100)
        self.environment = harness.traced_environment(
            top / "t", top / "spools", DFTRACER_DATA_DIR=str(top), DFTRACER_INC_METADATA="1",
            PFW_FLUSH_MS="20", **variables)
        program = f"PROGRAM = {LOOP!r}\n" + LOOP
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", program], cwd=top, text=True,
                                        env=self.environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "up\n"

    def say(self, word):
        os.write(self.process.stdin.fileno(), word.encode())
        answer = self.process.stdout.readline().strip()
        return answer if answer == "done" else (int(answer), self.process.stdout.readline())[0]

    def ctl(self, verb, *options, pid=None, status=0):
        return harness.run([harness.PFW, "ctl", *options, pid or self.pid, verb],
                           harness.clean_environment(PFW_SPOOL_DIR=str(self.top / "spools")),
                           status=status)

    def status(self, pid=None):
        """{} of a process that has not done anything yet."""
        return json.loads(self.ctl("status", "--format=ndjson", pid=pid, status=None).stdout or "{}")

    def wait_for(self, recording, pid=None):
        """Until status says so; how many seconds that took."""
        start = time.monotonic()
        while self.status(pid).get("recording") != recording:
            assert time.monotonic() < start + 60
            time.sleep(0.005)
        return time.monotonic() - start

    def see(self, count, since=0, name="t.pfw"):
        """Until the trace has so many reads since then."""
        start = time.monotonic()
        while sum(ts >= since for ts in self.reads(name)) < count:
            assert time.monotonic() < start + 60, f"{name}: no {count} reads"
            time.sleep(0.02)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(300) == 0, self.process.stderr.read()
        assert os.listdir(self.top / "spools") == []
        return harness.check_trace(self.top / "t.pfw")

    def reads(self, name="t.pfw"):
        """When: of the lines that are in the trace by now."""
        path = self.top / name
        if not path.exists():
            return []
        whole = path.read_bytes().rpartition(b"\n")[0]
        return [line["ts"] for line in map(json.loads, whole.splitlines())
                if line["name"] == "pread"]


def test_stop_and_start(tmp_path):
    program = Program(tmp_path)
    assert program.status()["recording"] is True
    program.see(1)
    assert "has stopped recording" in program.ctl("stop").stdout
    stopped = time.time_ns() / 1000
    assert program.status()["recording"] is False
    time.sleep(0.3)
    started = time.time_ns() / 1000
    program.ctl("start")
    program.see(1, started)
    assert "ctl" not in program.ctl("start", "-q").stdout  # once more does no harm
    program.end()
    reads = program.reads()
    # A call under way when the answer was given may still be noted.
    assert len([ts for ts in reads if stopped < ts < started]) <= 1
    assert min(reads) < stopped and max(reads) > started


def test_idle_process_stops_with_its_next_event(tmp_path):
    """Its writer's thread has gone home by then."""
    program = Program(tmp_path)
    program.see(1)
    os.write(program.process.stdin.fileno(), b"idle")
    while len(os.listdir(f"/proc/{program.pid}/task")) > 1:
        time.sleep(0.02)
    result = program.ctl("stop", status=1)
    assert "is idle" in result.stderr
    os.kill(program.pid, signal.SIGUSR1)
    assert program.process.stdout.readline() == "done\n"
    program.wait_for(False)
    stopped = time.time_ns() / 1000
    time.sleep(0.3)
    started = time.time_ns() / 1000
    program.ctl("start")
    program.see(1, started)
    program.end()
    assert len([ts for ts in program.reads() if stopped < ts < started]) <= 1  # was under way


def test_step(tmp_path):
    """Steps made from outside are steps: phases, lines, segments."""
    program = Program(tmp_path, PFW_SCHEDULE="wait=1,warmup=1,active=2")
    for step, recording in enumerate([False, True, True, True, False, True]):
        status = program.status()
        assert (status["step"], status["recording"]) == (step, recording)
        if recording:
            program.see(1, time.time_ns() / 1000)
        program.ctl("step")
    assert program.status()["cycles"] == 1
    program.say("step")
    lines = program.end()
    assert [line["args"]["step"] for line in lines if line["name"].startswith("ProfilerStep#")] == \
        [1, 2, 3, 5, 6, 7]
    assert {1, 2, 3, 5} <= {line["args"]["step"] for line in harness.events(lines, "pread")} <= \
        {1, 2, 3, 5, 6, 7}
    assert [line["args"]["first_step"] for line in harness.own(lines, "segment")] == [2, 6]


def test_force_against_the_schedule(tmp_path):
    """start and stop say otherwise than the schedule, until they agree with it again."""
    program = Program(tmp_path, PFW_SCHEDULE="wait=1,warmup=1,active=1,repeat=1")
    program.ctl("start")
    assert program.status()["recording"] is True
    program.ctl("stop")
    assert program.status()["recording"] is False
    program.say("step")
    assert program.status()["recording"] is True
    program.ctl("stop")
    program.say("step")
    assert program.status()["recording"] is False
    program.end()


def test_flush(tmp_path):
    program = Program(tmp_path, PFW_WRITE_BUFFER="1MiB")
    while len(program.reads()) <= 5:
        program.ctl("flush")
    seen = len(program.reads())
    assert program.status()["events"] >= seen
    program.end()


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_children_follow(tmp_path, how):
    """A child that was started while nothing was recorded, and one that was while it was."""
    program = Program(tmp_path, PFW_SCHEDULE="wait=2,warmup=0,active=2")
    early = program.say(how)
    program.wait_for(False, early)
    program.say("step")
    time.sleep(0.2)
    began = time.time_ns() / 1000
    program.say("step")
    program.wait_for(True, early)
    late = program.say(how)
    program.wait_for(True, late)
    for child in (early, late):
        program.see(11, name=f"t-pid{child}.pfw")
    program.say("step")
    program.say("step")
    program.wait_for(False, early)
    program.wait_for(False, late)
    ended = time.time_ns() / 1000
    time.sleep(0.2)
    program.end()
    for child in (early, late):
        reads = program.reads(f"t-pid{child}.pfw")
        assert began < min(reads)
        assert sum(ts > ended for ts in reads) <= 1  # was under way


def test_child_goes_on_without_its_parent(tmp_path):
    program = Program(tmp_path)
    child = program.say("fork")
    program.ctl("stop")
    program.wait_for(False, child)
    program.process.kill()
    program.process.wait()
    program.wait_for(True, child)
    program.see(1, name=f"t-pid{child}.pfw")
    (tmp_path / "stop").touch()
    while os.path.exists(f"/proc/{child}"):
        time.sleep(0.01)
    harness.check_trace(tmp_path / f"t-pid{child}.pfw")


def test_by_the_clock(tmp_path):
    """300 ms of 500 are not recorded; where the machine is loaded, not each pause is so long."""
    program = Program(tmp_path, PFW_SCHEDULE="delay=300ms,duration=200ms,every=500ms")
    start = time.time_ns() / 1000
    pauses = 0
    while pauses < 2:
        assert time.time_ns() / 1000 < start + 60_000_000
        reads = program.reads()
        pauses = sum(b - a > 200_000 for a, b in zip(reads, reads[1:]))
        time.sleep(0.1)
    lines = program.end()
    segments = harness.own(lines, "segment")
    cycles = [line["args"]["cycle"] for line in segments]
    assert len(cycles) >= 2 and cycles == sorted(set(cycles))
    inside = [range(line["args"]["first_id"], line["args"]["last_id"] + 1) for line in segments]
    assert all(any(line["id"] in ids for ids in inside) for line in harness.events(lines, "pread"))


def test_stopped_process(tmp_path):
    program = Program(tmp_path)
    os.kill(program.pid, signal.SIGSTOP)
    os.waitpid(program.pid, os.WUNTRACED)
    result = program.ctl("stop", status=1)
    assert "no answer within a second" in result.stderr
    os.kill(program.pid, signal.SIGCONT)
    program.wait_for(False)
    program.end()


def test_bad_requests(tmp_path):
    program = Program(tmp_path)
    for operands, status, words in [
            ([], 2, "give a process id"), ([program.pid], 2, "give a process id"),
            ([program.pid, "pause"], 2, "none of start, stop"), (["x1", "stop"], 2, "no process id"),
            ([1, "stop"], 1, "not a traced process of yours"), ([2**31, "stop"], 2, "no process id")]:
        result = harness.run([harness.PFW, "ctl", *operands], harness.clean_environment(
            PFW_SPOOL_DIR=str(tmp_path / "spools")), status=status)
        assert words in result.stderr and result.stderr.count("\n") == 1
    (spool,) = (tmp_path / "spools").iterdir()
    content = spool.read_bytes()
    (tmp_path / "spools" / f"pfw-{os.geteuid()}-1-1.spool").write_bytes(content[:9000])
    program.ctl("status", pid=1, status=1)
    (tmp_path / "spools" / f"pfw-{os.geteuid()}-1-1.spool").unlink()
    program.end()
