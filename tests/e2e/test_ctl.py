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
import ctypes, os, select, subprocess, sys, time
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
        time.sleep(6)
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
            assert time.monotonic() < start + 10
            time.sleep(0.005)
        return time.monotonic() - start

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0, self.process.stderr.read()
        assert os.listdir(self.top / "spools") == []
        return harness.check_trace(self.top / "t.pfw")

    def reads(self, name="t.pfw"):
        """When: of the lines that are in the trace by now."""
        path = self.top / name
        if not path.exists():
            return []
        return [line["ts"] for line in map(json.loads, path.read_bytes().splitlines())
                if line["name"] == "pread"]


def test_stop_and_start(tmp_path):
    program = Program(tmp_path)
    assert program.status()["recording"] is True
    time.sleep(0.2)
    assert "has stopped recording" in program.ctl("stop").stdout
    stopped = time.time_ns() / 1000
    assert program.status()["recording"] is False
    time.sleep(0.3)
    started = time.time_ns() / 1000
    program.ctl("start")
    time.sleep(0.2)
    assert "ctl" not in program.ctl("start", "-q").stdout  # once more does no harm
    program.end()
    reads = program.reads()
    # A call under way when the answer was given may still be noted.
    assert not [ts for ts in reads if stopped + 1000 < ts < started]
    assert min(reads) < stopped and max(reads) > started


def test_idle_process_stops_with_its_next_event(tmp_path):
    """Its writer's thread has gone home by then."""
    program = Program(tmp_path)
    os.write(program.process.stdin.fileno(), b"idle")
    time.sleep(3)
    before = len(program.reads())
    result = program.ctl("stop", status=1)
    assert "has been idle" in result.stderr
    assert program.process.stdout.readline() == "done\n"
    program.wait_for(False)
    time.sleep(0.3)
    assert len(program.reads()) < before + 40
    program.ctl("start")
    program.end()


def test_step(tmp_path):
    """Steps made from outside are steps: phases, lines, segments."""
    program = Program(tmp_path, PFW_SCHEDULE="wait=1,warmup=1,active=2")
    for step, recording in enumerate([False, True, True, True, False, True]):
        status = program.status()
        assert (status["step"], status["recording"]) == (step, recording)
        time.sleep(0.1)
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
    time.sleep(0.2)
    program.ctl("flush")
    assert program.status()["events"] >= len(program.reads()) > 5
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
    time.sleep(0.2)
    program.say("step")
    program.say("step")
    program.wait_for(False, early)
    program.wait_for(False, late)
    ended = time.time_ns() / 1000
    time.sleep(0.2)
    program.end()
    for child in (early, late):
        reads = program.reads(f"t-pid{child}.pfw")
        assert len(reads) > 10 and began < min(reads) and max(reads) < ended + 1000


def test_child_goes_on_without_its_parent(tmp_path):
    program = Program(tmp_path)
    child = program.say("fork")
    program.ctl("stop")
    program.wait_for(False, child)
    program.process.kill()
    program.process.wait()
    program.wait_for(True, child)
    (tmp_path / "stop").touch()
    while os.path.exists(f"/proc/{child}"):
        time.sleep(0.01)
    assert program.reads(f"t-pid{child}.pfw")


def test_by_the_clock(tmp_path):
    program = Program(tmp_path, PFW_SCHEDULE="delay=300ms,duration=200ms,every=500ms")
    start = time.time_ns() / 1000
    time.sleep(1.5)
    lines = program.end()
    reads = program.reads()
    gaps = [(a, b) for a, b in zip(reads, reads[1:]) if b - a > 200_000]
    assert len(gaps) in (2, 3) and reads[0] > start + 100_000
    assert all(200_000 < b - a < 500_000 for a, b in gaps)
    segments = harness.own(lines, "segment")
    assert len(segments) in (2, 3, 4) and [line["args"]["cycle"] for line in segments] == \
        list(range(len(segments)))
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
            ([program.pid, "pause"], 2, "it is start, stop"), (["x1", "stop"], 2, "no process id"),
            ([1, "stop"], 1, "no process of yours"), ([2**31, "stop"], 2, "no process id")]:
        result = harness.run([harness.PFW, "ctl", *operands], harness.clean_environment(
            PFW_SPOOL_DIR=str(tmp_path / "spools")), status=status)
        assert words in result.stderr and result.stderr.count("\n") == 1
    (spool,) = (tmp_path / "spools").iterdir()
    content = spool.read_bytes()
    (tmp_path / "spools" / f"pfw-{os.geteuid()}-1-1.spool").write_bytes(content[:9000])
    program.ctl("status", pid=1, status=1)
    (tmp_path / "spools" / f"pfw-{os.geteuid()}-1-1.spool").unlink()
    program.end()
