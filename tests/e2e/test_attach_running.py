"""`pfw attach` and `pfw detach`: a process that runs already is recorded, and notices nothing of it."""
import contextlib
import ctypes.util
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import harness

PFW = harness.PFW
TARGET = harness.BUILD / "tests/running_target"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="attach is for x86-64")


class Running:
    """A program that runs until SIGTERM, and ends with `ok` if all went as it should."""

    def __init__(self, words, top, **variables):
        # Of its own: other tests look for what killed processes leave in the usual directories.
        (top / "spools").mkdir(exist_ok=True)
        self.environment = harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools"), **variables)
        if harness.RUNTIME:
            self.environment["LD_PRELOAD"] = harness.RUNTIME
        self.top = top
        self.process = subprocess.Popen([str(word) for word in words], cwd=top, env=self.environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def pfw(self, *words, **more):
        return subprocess.run([PFW, *map(str, words)], cwd=self.top, text=True, capture_output=True,
                              timeout=120, env={**self.environment, "LD_PRELOAD": ""}, **more)

    def attach(self, *options):
        done = self.pfw("attach", self.pid, *options)
        assert done.returncode == 0, done.stderr
        return done

    def detach(self):
        done = self.pfw("detach", self.pid)
        assert done.returncode == 0, done.stderr
        return done

    def held(self):
        """Threads and descriptors."""
        return [len(os.listdir(f"/proc/{self.pid}/{what}")) for what in ("task", "fd")]

    def maps(self):
        with open(f"/proc/{self.pid}/maps") as maps:
            return maps.read()

    def lasting_maps(self):
        """What begins where.  The first dlopen() of all lengthens a library's data, by tables that the linker keeps."""
        return [re.sub(r"-\w+", "", line, count=1) for line in self.maps().splitlines()]

    def is_ready(self):
        """Whether it catches SIGTERM."""
        with open(f"/proc/{self.pid}/status") as status:
            caught = re.search(r"^SigCgt:\t(\w+)", status.read(), re.M)[1]
        return int(caught, 16) >> (signal.SIGTERM - 1) & 1

    def reads(self):
        """How many it has made."""
        with open(f"/proc/{self.pid}/io") as counts:
            return int(re.search(r"^syscr: (\d+)", counts.read(), re.M)[1])

    def sleeps(self):
        with open(f"/proc/{self.pid}/status") as status:
            return re.search(r"^State:\tS", status.read(), re.M)

    def end(self, expected="ok\n", status=0):
        self.process.send_signal(signal.SIGTERM)
        out, error = self.process.communicate(timeout=60)
        assert (self.process.returncode, out, error) == (status, expected, "")


# A sanitizer's runtime stands before libc.
unloads = pytest.mark.skipif(bool(harness.RUNTIME), reason="with a sanitizer it stays loaded")


def until(condition, what, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.02)


@pytest.fixture
def running(tmp_path):
    started = []

    def start(*words, **variables):
        started.append(Running(words, tmp_path, **variables))
        until(lambda: os.path.realpath(f"/proc/{started[-1].pid}/exe") == os.path.realpath(words[0]),
              "the program has not started")
        return started[-1]

    data = tmp_path / "data"
    data.write_bytes(random.Random(1).randbytes(4096))
    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_it_records_from_then_to_then(running, tmp_path):
    one = running(TARGET, "count", "out")
    until(lambda: os.path.exists(tmp_path / "out") and os.path.getsize(tmp_path / "out") > 20, "it does nothing")
    said = one.attach("-o", "t", "-v").stdout
    stops, longest = re.match(rf"{one.pid}: (\d+) stops of a thread, the longest of (\d+\.\d\d\d) ms\n", said).groups()
    assert int(stops) > 0 and 0 < float(longest) < 500  # what the watcher allows, on a loaded machine, too
    assert said.endswith(f"\n{one.pid}: recording into {tmp_path}/t.pfw; `pfw detach {one.pid}` ends it\n")
    first = os.path.getsize(tmp_path / "out")
    until(lambda: os.path.getsize(tmp_path / "out") > first + 100, "it does nothing")
    assert one.detach().stdout.startswith(f"{one.pid}: detached; the trace is {tmp_path}/t.pfw\n")
    last = os.path.getsize(tmp_path / "out")
    one.end()
    writes = harness.events(harness.check_trace(tmp_path / "t.pfw"), "pwrite")
    offsets = [event["args"]["offset"] for event in writes]
    # Each exactly once, without a hole, under the name of a descriptor that was open before.
    assert offsets == list(range(offsets[0], offsets[-1] + 1))
    assert offsets[0] <= first and offsets[-1] >= first + 100 and offsets[-1] <= last
    assert {event["args"]["fname"] for event in writes} == {str(tmp_path / "out")}


def test_for_a_time_and_until_its_end(running, tmp_path):
    one = running(TARGET, "count", "out")
    one.top = tmp_path / "100%p"  # the command's directory; no word of the trace's name
    one.top.mkdir()
    done = one.attach("--for", "200ms", "-z", "-o", "t")
    assert "detached" in done.stdout
    assert harness.events(harness.check_trace(one.top / "t.pfw.gz"), "pwrite")
    one.attach("-o", "u", "-z", "-q")
    one.end()
    assert harness.events(harness.check_trace(one.top / "u.pfw.gz"), "pwrite")


def test_again_and_again(running, tmp_path):
    """Each time a trace of its own, and nothing is left: no thread, no descriptor, no spool."""
    one = running(TARGET, "count", "out")
    until(lambda: one.held()[1] > 3, "it has not opened its file")
    held = one.held()
    one.attach("-o", "t")
    time.sleep(0.05)
    one.detach()
    for _ in range(5):
        one.attach("-o", "t")
        time.sleep(0.05)
        again = one.pfw("attach", one.pid, "-o", "t")
        assert again.returncode == 1 and "it is recorded already" in again.stderr
        assert one.pfw("ctl", one.pid, "status").returncode == 0
        one.detach()
        until(lambda: one.held() == held, f"{one.held()} are left of {held}")
        assert not os.listdir(tmp_path / "spools") and ".spool" not in one.maps()
    nothing = one.pfw("detach", one.pid)
    assert nothing.returncode == 1 and "it is not recorded" in nothing.stderr
    one.end()
    traces = sorted(tmp_path.glob("t*.pfw"))
    assert len(traces) == 6
    for trace in traces:
        harness.check_trace(trace)


@unloads
def test_nothing_stays_loaded(running, tmp_path):
    """Not even if the program keeps the address of a call that it has found in its own slot."""
    one = running(TARGET, "keeps", "data")
    until(one.is_ready, "it does not wait for SIGTERM")
    before = one.lasting_maps()
    for i in range(6):
        one.attach("-o", f"t{i}", *(["-z", "--all"] if i % 2 else []))  # with other variables, too
        one.process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
        assert "libpfw" in one.maps() and "stays loaded" not in one.detach().stdout
        assert not re.search("libpfw|libisal|libz", one.maps())
        assert one.lasting_maps() == before
    # The kept address leads through the recorder again when it is there.
    assert harness.events(harness.check_trace(tmp_path / "t4.pfw"), "pread")
    one.end()


@unloads
def test_what_cannot_be_recorded_can_be_later(running, tmp_path):
    """The recorder goes at once, with the reason, or when the writer finds out; what comes then is as ever."""
    one = running(TARGET, "count", "out")
    until(one.is_ready, "it does not wait for SIGTERM")
    (tmp_path / "file").touch()
    for name, why in (tmp_path / "file/t", "ENOTDIR"), ("t%z", "has no word %z"):
        assert why in refused(one, one.pid, "-o", name)
        assert "libpfw" not in one.maps()
    (tmp_path / "gone").mkdir()
    one.attach("-o", tmp_path / "gone/t")
    until(lambda: list((tmp_path / "gone").iterdir()), "no trace")
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "gone").touch()
    time.sleep(0.7)  # PFW_FLUSH_MS
    for _ in range(2):
        one.pfw("detach", one.pid)
        assert "libpfw" not in one.maps()
        one.attach("-o", "u")
    one.detach()
    assert len([*map(harness.check_trace, tmp_path.glob("u*.pfw"))]) == 2
    one.process.send_signal(signal.SIGTERM)
    assert one.process.communicate(timeout=60)[0] == "ok\n"


@unloads
def test_it_stays_loaded_while_a_thread_is_in_a_call(running):
    one = running(TARGET, "keeps", "data")
    until(one.is_ready, "it does not wait for SIGTERM")
    one.attach("-o", "t")
    one.process.send_signal(signal.SIGUSR2)
    until(one.sleeps, "it waits in no call")
    said = one.detach().stdout
    assert f"{one.pid}: the recorder stays loaded, unused: thread {one.pid} waits in a call" in said
    other = one.pfw("attach", one.pid, "-o", "t", "--all")
    assert other.returncode == 1 and "with other variables" in other.stderr
    one.attach("-o", "t")
    before = one.reads()
    one.process.send_signal(signal.SIGUSR1)  # it returns through the recorder
    until(lambda: one.reads() > before + 9, "it reads no more")
    assert "stays loaded" not in one.detach().stdout
    assert "libpfw" not in one.maps()
    one.end()


@unloads
def test_it_stays_loaded_where_calls_may_be_suspended(running, tmp_path):
    (tmp_path / "jumps.c").write_text("#include <ucontext.h>\n#include <unistd.h>\nint main(int n, char **v) {"
                                      "ucontext_t a; if (n > 9) swapcontext(&a, &a); for (;;) usleep(1000); }\n")
    subprocess.run(["gcc", "-o", tmp_path / "jumps", tmp_path / "jumps.c"], check=True)
    one = running(tmp_path / "jumps")
    one.attach("-o", "t")
    assert "stays loaded, unused: it uses swapcontext()" in one.detach().stdout


def test_a_kill_after_a_second_attach(running, tmp_path):
    """Its spool is a new one, which repairs the trace as any other."""
    one = running(TARGET, "count", "out")
    for name in "t", "u":
        one.attach("-o", name)
        until(lambda: os.path.exists(tmp_path / f"{name}.pfw"), "no trace")
        if name == "t":
            one.detach()
    time.sleep(0.05)
    one.process.kill()
    one.process.communicate()
    harness.run([PFW, "repair", tmp_path], one.environment)
    events = harness.events(harness.check_trace(tmp_path / "u.pfw", reasons=("recovered",)), "pwrite")
    offsets = [event["args"]["offset"] for event in events]
    assert offsets == list(range(offsets[0], offsets[-1] + 1))
    assert offsets[-1] + 1 in (size := os.path.getsize(tmp_path / "out"), size - 1)


def test_a_process_that_does_nothing(running, tmp_path):
    """No event, no file; then it does something, and there is one."""
    source = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: open('x').close())\n" \
             "open('x', 'w').close()\nwhile True: time.sleep(1000)"
    one = running("/usr/bin/python3", "-c", source)
    until(lambda: (tmp_path / "x").exists(), "it does nothing at all")
    for _ in range(2):
        one.attach("-o", "t")
        one.detach()
    assert not list(tmp_path.glob("t*"))
    one.attach("-o", "t")
    one.process.send_signal(signal.SIGUSR1)
    until(lambda: (tmp_path / "t.pfw").exists(), "no trace")
    one.detach()
    assert harness.events(harness.check_trace(tmp_path / "t.pfw"), "open", "openat", "open64")


PYTHON = """
import hashlib, signal, threading, time
over = False
def stop(*_):
    global over
    over = True
signal.signal(signal.SIGTERM, stop)
def digest():
    with open("data", "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
want, wrong = digest(), []
def work():
    while not over:
        if digest() != want:
            wrong.append(1)
        time.sleep(0.001)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("wrong" if wrong else "ok")
"""
NODE = """
const fs = require('fs'), want = fs.readFileSync('data'); let wrong = 0, done = 0;
const next = () => fs.readFile('data', (error, now) => {
    wrong += !!error || !now.equals(want); done++; setTimeout(next, 1); });
next(); next();
process.on('SIGTERM', () => { console.log(wrong || !done ? 'wrong' : 'ok'); process.exit(0); });
"""
PROGRAMS = {
    "tight": lambda: [TARGET, "tight", "data"],
    "threads": lambda: [TARGET, "threads", "data"],
    "waits": lambda: [TARGET, "waits", "data"],
    "handler": lambda: [TARGET, "handler", "data"],
    "children": lambda: [TARGET, "children", "data"],
    "computes": lambda: [TARGET, "computes", "data"],
    "both": lambda: [TARGET, "both", "data"],
    "python": lambda: ["/usr/bin/python3", "-c", PYTHON],
    "node": lambda: [shutil.which("node"), "-e", NODE],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_do_the_same(running, program):
    words = PROGRAMS[program]()
    if program in ("computes", "both") and (ctypes.util.find_library("dw") is None or harness.RUNTIME):
        pytest.skip("no libdw to follow a stack, or an allocator of its own")
    if not words[0] or (program == "node" and harness.RUNTIME):
        pytest.skip("not on this machine, or with an allocator of its own")
    one = running(*words)
    until(one.is_ready, "it does not wait for SIGTERM")
    for _ in range(4):
        one.attach("-o", "t")
        time.sleep(random.random() * 0.05)
        one.detach()
    one.end()


ALLOCATOR = """
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
static char pool[1 << 24];
static size_t used;
void *malloc(size_t bytes)
{
	size_t *block = (size_t *)(pool + __atomic_fetch_add(&used, (bytes + 31) & ~15ul, __ATOMIC_RELAXED));
	if (gettid() != getpid())
		write(2, "a thread of ours\\n", 17);
	*block = bytes;
	return block + 2;
}
void free(void *block) { if (block && gettid() != getpid()) write(2, "a thread of ours\\n", 17); }
void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
void *realloc(void *old, size_t bytes)
{
	size_t *block = malloc(bytes), before = old ? ((size_t *)old)[-2] : 0;
	return memcpy(block, old, before < bytes ? before : bytes);
}
"""


@unloads
@pytest.mark.skipif(ctypes.util.find_library("dw") is None, reason="no libdw to follow a stack")
@pytest.mark.parametrize("program", ["computes", "count"])
def test_its_allocator_sees_nothing_of_us(running, tmp_path, program):
    """Also where a thread may be within it, since it makes no system call."""
    (tmp_path / "own.c").write_text(ALLOCATOR)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", tmp_path / "own.so", tmp_path / "own.c"], check=True)
    one = running(TARGET, program, "data", LD_PRELOAD=str(tmp_path / "own.so"))
    until(one.is_ready, "it does not wait for SIGTERM")
    before, held = one.lasting_maps(), one.held()
    for i in range(4):
        one.attach("-o", f"t{i}", *(["-z"] if i else []))
        one.detach()
        assert (one.lasting_maps(), one.held()) == (before, held)
    one.end()


QUIET = """
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
void *(*volatile take)(size_t);
void (*volatile give)(void *);
static void stop(int number) { (void)number; write(1, "ok\\n", 3); _exit(0); }
static void wake(int number) { (void)number; }
int main(void)
{
	take = malloc;
	give = free;
	signal(SIGUSR1, wake);
	signal(SIGTERM, stop);
	for (;;) {
		pause();
		close(open("x", O_CREAT | O_RDWR, 0600));
	}
}
"""


@unloads
def test_a_program_without_a_heap_gets_none(running, tmp_path):
    """Though it starts our writer again, which ends when there is nothing to do; and though its own jumps to malloc() and
    free() stand for these in all objects (it is linked to a fixed address)."""
    (tmp_path / "quiet.c").write_text(QUIET)
    subprocess.run(["gcc", "-no-pie", "-fno-pie", "-o", tmp_path / "quiet", tmp_path / "quiet.c"], check=True)
    one = running(tmp_path / "quiet")
    until(one.is_ready, "it does not wait for SIGTERM")
    before = one.lasting_maps()
    for name in "t", "u":
        one.attach("-o", name)
        one.process.send_signal(signal.SIGUSR1)
        until(lambda: (tmp_path / f"{name}.pfw").exists(), "no trace")
        if name == "t":
            until(lambda: one.held()[0] == 1, "the writer does not end")
            one.process.send_signal(signal.SIGUSR1)
            until(lambda: one.held()[0] == 2, "no writer")
        assert "[heap]" not in one.maps()
        one.detach()
        assert one.lasting_maps() == before
    one.end()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to drop a right")
def test_on_a_busy_machine_without_the_right_to_run_first(running):
    """As for an ordinary user; the recorded program waits for its writer most of the time."""
    one = running(TARGET, "tight", "data")
    until(one.is_ready, "it does not wait for SIGTERM")
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        for command in ["attach", "detach"] * 3:
            done = subprocess.run(["setpriv", "--bounding-set=-sys_nice", PFW, command, str(one.pid)], cwd=one.top,
                                  env={**one.environment, "LD_PRELOAD": ""}, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    one.end()


def is_free(pid):
    with open(f"/proc/{pid}/status") as status:
        text = status.read()
    return re.search(r"^TracerPid:\t0$", text, re.M) and not re.search(r"^State:\t[tT]", text, re.M)


@pytest.mark.parametrize("program", ["tight", "threads", "waits"])
def test_a_kill_of_the_command_harms_nothing(running, program):
    """At random moments, so that each part of its work is hit.  The next command clears away what they have left."""
    one = running(*PROGRAMS[program]())
    until(one.is_ready, "it does not wait for SIGTERM")
    before = one.lasting_maps()
    for i in range(12):
        command = subprocess.Popen([PFW, "detach" if i % 3 == 2 else "attach", str(one.pid), "-q"], cwd=one.top,
                                   env={**one.environment, "LD_PRELOAD": ""},
                                   stderr=subprocess.DEVNULL)
        time.sleep(random.random() * 0.08)
        command.kill()
        command.wait()
        until(lambda: is_free(one.pid), "it is stopped, or traced")  # the command's child ends with it
    if program == "tight" and not harness.RUNTIME:  # it has no other thread, and asks for no memory
        until(lambda: one.pfw("detach", one.pid) and one.held()[0] == 1 and one.lasting_maps() == before,
              "something is left")
    one.end()


def test_children_are_recorded_when_asked(running, tmp_path):
    loop = "trap 'echo ok; exit' TERM; while :; do cat data >copy; done"
    one = running("/bin/bash", "-c", loop)
    one.attach("-o", "t", "--children")
    until(lambda: len(list(tmp_path.glob("t*.pfw"))) > 3, "no trace of a child")
    one.end()
    names = {event["args"].get("fname") for path in tmp_path.glob("t*.pfw")
             for event in harness.events(harness.check_trace(path))}
    assert str(tmp_path / "data") in names


def test_a_child_that_has_the_recorder_from_its_parent(running, tmp_path):
    """Without --children it is let alone; its parent's recorder goes."""
    source = "import os, signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nopen('x', 'w').close()\n" \
             "signal.pause()\nchild = os.fork()\n" \
             "while not child: open('y', 'w').close(); time.sleep(0.01); os.path.exists('z') and os._exit(7)\n" \
             "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    one = running("/usr/bin/python3", "-c", source)
    until(lambda: (tmp_path / "x").exists(), "it does nothing")
    one.attach("-o", "t")
    one.process.send_signal(signal.SIGUSR1)
    until(lambda: (tmp_path / "y").exists(), "no child")
    child = open(f"/proc/{one.pid}/task/{one.pid}/children").read().strip()
    for _ in range(2):
        assert "it was forked from a process that was recorded" in one.pfw("detach", child).stderr
        assert "it was forked from a process that was recorded" in refused(one, child)
    said = one.detach().stdout
    assert harness.RUNTIME or "stays loaded" not in said
    (tmp_path / "z").touch()
    assert one.process.communicate(timeout=60)[0] == "7\n"


containers = pytest.mark.skipif(
    os.geteuid() != 0 or bool(harness.RUNTIME) or
    subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode != 0,
    reason="needs root, namespaces, and no sanitizer")


@pytest.fixture
def contained(running, tmp_path):
    """A process of another user, with a root, mounts and pids of its own, where no pfw is."""
    root = tmp_path / "root"
    for directory in "tmp", "proc", "dev/shm", "work", "bin":
        (root / directory).mkdir(parents=True)
        (root / directory).chmod(0o777)
    libraries = subprocess.run(["ldd", TARGET], capture_output=True, text=True, check=True).stdout
    for library in [str(TARGET), *re.findall(r"(/\S+) \(", libraries)]:
        path = root / ("bin/target" if library == str(TARGET) else library[1:])
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, path)
    inner = f"mount --bind {root} {root} && mount -t proc proc {root}/proc && " \
            f"mount -t tmpfs -o noexec tmpfs {root}/dev/shm && " \
            f"exec chroot --userspec=1234:1234 {root} /bin/target count /work/out"
    outer = running("/usr/bin/unshare", "--mount", "--pid", "--fork", "sh", "-c", inner)
    pids = []
    until(lambda: pids.extend(open(f"/proc/{outer.pid}/task/{outer.pid}/children").read().split()) or
          (pids and os.path.realpath(f"/proc/{pids[0]}/exe").endswith("bin/target")), "it has not started")
    outer.pid = int(pids[0])
    until(outer.is_ready, "it does not wait for SIGTERM")
    yield root, outer
    with contextlib.suppress(ProcessLookupError):
        os.kill(outer.pid, signal.SIGKILL)


@containers
def test_a_container_without_pfw(contained, tmp_path):
    root, one = contained
    assert "install pfw there" in refused(one, one.pid, "--children")
    for name in "t", "u":
        said = one.attach("-o", f"/work/{name}").stdout
        assert f"recording into /proc/{one.pid}/root/work/{name}.pfw" in said
        time.sleep(0.05)
        one.detach()
    for name in "t", "u":
        events = harness.events(harness.check_trace(root / f"work/{name}.pfw"), "pwrite")
        assert {event["args"]["fname"] for event in events} == {"/work/out"}
    assert "it is not recorded" in one.pfw("detach", one.pid).stderr
    assert not list((root / "tmp").iterdir())
    os.kill(one.pid, signal.SIGTERM)
    assert one.process.communicate(timeout=60) == ("ok\n", "")


@containers
def test_a_link_of_a_container_leads_nowhere_else(contained, tmp_path):
    root, one = contained
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "tmp").rmdir()
    (root / "tmp").symlink_to(outside)
    assert "none of /dev/shm, /tmp" in refused(one, one.pid)
    (root / "tmp").unlink()
    (root / "tmp").symlink_to("work")  # within it: that is what the process sees
    one.attach("-o", "/work/t")
    assert not list(outside.iterdir())


# ---- refusals ----

def refused(one, *words):
    done = one.pfw("attach", *words)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_refusals_name_the_reason(running, tmp_path):
    source = tmp_path / "static.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "static", source], check=True)
    assert "it is statically linked" in refused(one := running(tmp_path / "static"), one.pid)
    assert "it is a thread of the kernel" in refused(one, 2) or not os.path.exists("/proc/2/exe")
    assert "there is no such process" in refused(one, 2 ** 22 - 1)
    assert one.pfw("attach", "abc").returncode == 2 and one.pfw("attach").returncode == 2
    stopped = running(TARGET, "count", "out")
    stopped.process.send_signal(signal.SIGSTOP)
    until(lambda: "it is stopped" in refused(stopped, stopped.pid), "it is not stopped")
    stopped.process.send_signal(signal.SIGCONT)
    stopped.attach("-o", "t")
    stopped.detach()
    stopped.end()


def test_another_tracer_is_left_alone(running):
    one = running(TARGET, "tight", "data")
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(one.pid)], stderr=subprocess.DEVNULL)
    with open(f"/proc/{one.pid}/status") as status:
        until(lambda: status.seek(0) or not re.search(r"TracerPid:\t0\n", status.read()), "strace is not there")
    assert f"process {tracer.pid} (a debugger, strace) is attached to it" in refused(one, one.pid)
    tracer.terminate()
    tracer.wait()
    one.end()


def test_a_filter_that_would_kill_it(running):
    one = running(TARGET, "filtered", "data")
    until(lambda: "Seccomp:\t2" in open(f"/proc/{one.pid}/status").read(), "no filter")
    assert "a seccomp filter may kill it" in refused(one, one.pid)
    one.end()


def test_a_program_under_pfw_run_is_recorded_already(running, tmp_path):
    one = running(PFW, "run", "-q", "-o", "t", TARGET, "count", "out")
    until(lambda: (tmp_path / "t.pfw").exists(), "no trace")
    child = int(open(f"/proc/{one.pid}/task/{one.pid}/children").read().split()[0])
    assert "it is recorded already" in refused(one, child)
    os.kill(child, signal.SIGTERM)
    one.process.communicate(timeout=60)
