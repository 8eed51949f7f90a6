"""A forked child while it is young: no thread of ours, a small spool, and nothing missing."""
import os
import pathlib
import subprocess

import pytest

import harness

# Forks a child, which does for each line of standard input what it says, and answers with a line.
PARENT = """
import os, sys, threading
where = sys.argv[1]
fd = os.open(where + "/data", os.O_RDONLY)
os.pread(fd, 1, 0)
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for line in sys.stdin:
    word, *numbers = line.split()
    if word == "read":
        for offset in range(*map(int, numbers)):
            os.pread(fd, 1, offset)
    elif word == "rename":
        name = where + "/" + "/".join(["d" * 200] * 19) + "/"
        os.makedirs(name)
        try:
            os.rename(name + "from" * 20, name + "to" * 40)
        except FileNotFoundError:
            pass
    elif word == "open":
        kept = [os.open(f"{where}/{'n' * 100}{i}", os.O_CREAT | os.O_WRONLY) for i in range(int(numbers[0]))]
        for i in kept:
            os.write(i, b"x")
    elif word == "kill":
        os.kill(os.getpid(), 9)
    print(os.getpid(), len(os.listdir("/proc/self/task")), flush=True)
"""


class Child:
    def __init__(self, directory, **variables):
        self.top = directory
        (directory / "data").write_bytes(b"x" * 10000)
        (directory / "spools").mkdir()
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", PARENT, str(directory)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=harness.traced_environment(directory / "t", directory / "spools",
                                           **{"DFTRACER_DATA_DIR": str(directory), **variables}))

    def tell(self, line):
        """Its pid and how many threads it has."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return tuple(map(int, self.process.stdout.readline().split()))

    def end(self, status=0):
        _, errors = self.process.communicate(timeout=300)
        assert (self.process.returncode, errors) == (status, "")

    def trace(self, suffix=".pfw"):
        name, = self.top.glob(f"t-pid*{suffix}")
        return name


@pytest.mark.parametrize("compression, suffix", [("0", ".pfw"), ("1", ".pfw.gz")])
def test_its_first_event_is_written_at_once_by_itself(tmp_path, compression, suffix):
    """Nobody would do it later: the next may never come."""
    child = Child(tmp_path, DFTRACER_TRACE_COMPRESSION=compression, PFW_FLUSH_MS="60000")
    assert child.tell("read 0 1")[1] == 1
    event, = harness.events(harness.read_lines(child.trace(suffix)))
    assert (event["name"], event["args"]["offset"]) == ("pread", 0)
    child.tell("read 1 3")
    child.end()
    assert len(harness.events(harness.check_trace(child.trace(suffix)), "pread")) == 3


@pytest.mark.parametrize("on_full", ["block", "drop"])
def test_more_events_start_the_writer(tmp_path, on_full):
    child = Child(tmp_path, PFW_ON_FULL=on_full)
    assert child.tell("read 0 5")[1] == 2
    if on_full == "block":
        child.tell("read 5 4000")
    child.end()
    lines = harness.check_trace(child.trace())
    assert [line["args"]["offset"] for line in harness.events(lines, "pread")] == \
        list(range(4000 if on_full == "block" else 5))


@pytest.mark.parametrize("reads", [1, 4, 5, 300])
def test_killed_it_loses_nothing(tmp_path, reads):
    child = Child(tmp_path)
    child.tell(f"read 0 {reads}")
    child.tell("kill")
    child.end(status=247)
    harness.run([harness.PFW, "repair", tmp_path],
                harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    lines = harness.check_trace(child.trace(), reasons=("recovered",))
    assert [line["args"]["offset"] for line in harness.events(lines, "pread")] == list(range(reads))
    assert not os.listdir(tmp_path / "spools")


@pytest.mark.parametrize("first", ["", "read 0 200"], ids=["young", "grown"])
def test_a_record_greater_than_its_ring(tmp_path, first):
    child = Child(tmp_path)
    if first:
        child.tell(first)
    child.tell("rename")
    child.end()
    rename, = harness.events(harness.check_trace(child.trace()), "rename")
    assert rename["args"]["fname"].endswith("/" + "from" * 20)
    assert rename["args"]["target"].endswith("/" + "to" * 40)


def test_more_names_than_its_first_page_holds(tmp_path):
    child = Child(tmp_path)
    child.tell("open 900")
    child.end()
    lines = harness.check_trace(child.trace())
    assert [line["args"]["fname"] for line in harness.events(lines, "write")] == \
        [f"{tmp_path}/{'n' * 100}{i}" for i in range(900)]


# What its parent knew of descriptors: A and B are known to it, and each step says what is read then.
INHERITS = """
import ctypes, os, sys
where, early = sys.argv[1:]
libc = ctypes.CDLL(None)
a, b, c, d = (os.open(f"{where}/{name}", os.O_RDWR | os.O_CREAT) for name in "abcd")
for fd in a, b, c, d:
    os.pread(fd, 1, 1)
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
if early == "dup":
    os.dup2(b, a)
elif early == "close":
    os.close(a)
    assert os.open(f"{where}/e", os.O_RDWR | os.O_CREAT) == a
os.pread(a, 1, 2)
os.pread(b, 1, 3)
os.closerange(c, c + 1)
assert libc.eventfd(1, 0) == c
os.read(c, 8)
os.dup2(b, d)
os.pread(d, 1, 4)
os._exit(0)
"""


@pytest.mark.parametrize("early, first", [("", "a"), ("dup", "b"), ("close", "e")])
@pytest.mark.parametrize("calls", [None, "pread,read"])
def test_descriptors_have_the_names_that_they_have(tmp_path, early, first, calls):
    """Also where the table changes by calls that are not recorded, or numbers by calls that nobody sees."""
    variables = {"PFW_CALLS": calls} if calls else {}
    harness.run(["/usr/bin/python3", "-c", INHERITS, tmp_path, early],
                harness.traced_environment(tmp_path / "t", tmp_path, **variables))
    name, = tmp_path.glob("t-pid*.pfw")
    reads = [(line["args"].get("offset"), line["args"].get("fname"))
             for line in harness.events(harness.check_trace(name), "pread", "read")]
    assert reads == [(2, f"{tmp_path}/{first}"), (3, f"{tmp_path}/b"), (None, "anon_inode:[eventfd]"),
                     (4, f"{tmp_path}/b")]


# A second thread is the first of the child to record.
SECOND = """
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY)
os.pread(fd, 1, 1)
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
thread = threading.Thread(target=lambda: os.pread(fd, 1, 2))
thread.start()
thread.join()
os.pread(fd, 1, 3)
os._exit(0)
"""


def test_the_thread_that_forked_records_into_its_own_trace(tmp_path):
    (tmp_path / "data").write_bytes(b"12345")
    harness.run(["/usr/bin/python3", "-c", SECOND, tmp_path / "data"],
                harness.traced_environment(tmp_path / "t", tmp_path, PFW_CALLS="pread",
                                           DFTRACER_DATA_DIR=str(tmp_path / "data")))
    child, = tmp_path.glob("t-pid*.pfw")
    assert [[line["args"]["offset"] for line in harness.events(harness.check_trace(trace), "pread")]
            for trace in (tmp_path / "t.pfw", child)] == [[1], [2, 3]]


def test_its_start_is_what_the_system_says(tmp_path):
    """Which is part of its spool's name, and worked out without asking."""
    for i in range(40):
        (tmp_path / str(i)).mkdir()
        child = Child(tmp_path / str(i))
        pid, _ = child.tell("read 0 1")
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert f"pfw-{os.geteuid()}-{pid}-{fields[19]}.spool" in os.listdir(child.top / "spools")
        child.end()
