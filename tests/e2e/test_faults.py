"""Faults of the real machine: no descriptor, no /proc, no room, a clock that is set, nobody reading.

What a single failing call does is tests/faults/sweep.py's; here are those that need no injector.
"""
import fcntl
import os
import re
import resource
import shutil
import subprocess

import pytest

import harness

TARGET = harness.BUILD / "tests" / "faults_target"
SHIM = harness.BUILD / "tests" / "libfaults_shim.so"
INJECT = harness.BUILD / "tests" / "inject"
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]


@pytest.fixture
def top(tmp_path):
    (tmp_path / "spools").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path.resolve()


def traced(top, command, environment=None, status=0, **options):
    return harness.run(command, environment or environment_of(top), top / "work", status, **options)


def environment_of(top, **variables):
    return harness.traced_environment(top / "t", top / "spools", **variables)


def in_own_mounts(script, *command):
    """The command, after the script, in mounts of its own; skips where that is not allowed."""
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             script + ' && exec "$@"', "sh"]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1) to make mounts of one's own with")
    tried = subprocess.run([*enter, "true"], check=False, stderr=subprocess.PIPE, text=True)
    if tried.returncode:
        pytest.skip(f"no mounts of one's own here: {tried.stderr.strip()}")
    return [*enter, *command]


def in_own_mounts_traced(script, environment, *command):
    """As above; only the command is traced, not those who make the mounts."""
    preload = environment.pop("LD_PRELOAD")
    return in_own_mounts(script, "env", f"LD_PRELOAD={preload}", *command)


def all_events(top):
    return sum(len(harness.events(harness.check_trace(top / name)))
               for name in harness.trace_names(top))


# ---- what a process needs to find out about itself ----

FORK_AT_LIMIT = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
data = os.open('data', os.O_RDWR | os.O_CREAT)
taken = []
try:
    while True: taken.append(os.dup(data))
except OSError: pass
pid = os.fork()
if not pid:
    os.write(data, b'child')
    os._exit(3)
status = os.waitpid(pid, 0)[1]
os.write(data, b'parent')
print(len(taken), status >> 8, os.pread(data, 99, 0))
"""


def test_fork_without_a_free_descriptor(top):
    """The child can open nothing: neither /proc nor a spool nor its trace's name."""
    plain = harness.run([*PYTHON, FORK_AT_LIMIT], cwd=top / "work")
    (top / "work" / "data").unlink()
    result = traced(top, [*PYTHON, FORK_AT_LIMIT], timeout=300)
    assert result.stdout == plain.stdout == "60 3 b'childparent'\n"
    (child,) = [name for name in harness.trace_names(top) if "-pid" in name]
    born = harness.check_trace(top / child)
    assert [line["args"]["ret"] for line in harness.events(born, "write")] == [5]
    lines = harness.check_trace(top / "t.pfw")
    assert child == f"t-pid{born[0]['pid']}.pfw" and born[0]["pid"] != lines[0]["pid"]
    assert [line["args"]["ret"] for line in harness.events(lines, "write")
            if (line["args"]["fname"] or "").endswith("/data")] == [6]


def test_without_proc(top):
    plain = harness.run([TARGET], cwd=top / "work", status=3)
    shutil.rmtree(top / "work")
    (top / "work").mkdir()
    result = traced(top, in_own_mounts_traced("mount -t tmpfs none /proc", environment := environment_of(top),
                                              TARGET), environment, status=3)
    assert (result.stdout, result.stderr) == (plain.stdout, "")
    assert all_events(top) > 1000 and os.listdir(top / "spools") == []


def test_repair_without_proc(top):
    """A spool that can be repaired later is not called one of an earlier boot, to be removed."""
    harness.run(["sh", "-c", "echo > file; kill -9 $$"], environment_of(top), top / "work", status=-9)
    repair = [harness.PFW, "repair", top / "t.pfw"]
    env = {**os.environ, "PFW_SPOOL_DIR": str(top / "spools")}
    done = harness.run(in_own_mounts("mount -t tmpfs none /proc", *repair), env, top / "work", status=1)
    assert "/proc cannot be read" in done.stderr and "remove" not in done.stderr
    assert len(os.listdir(top / "spools")) == 1
    harness.run(repair, env, top / "work")
    assert os.listdir(top / "spools") == []


# ---- standard error ----

NO_RANK = {"PFW_RANK": "x"}  # said at start-up


def test_standard_error_that_nobody_reads(top):
    """No SIGPIPE that the program has not caused itself."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PYTHON, "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL);"
                           "import os; print(open('/proc/self/status').read().count('SigPnd'))"],
                          env=environment_of(top, **NO_RANK), cwd=top / "work", stderr=writer,
                          stdout=subprocess.PIPE, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, b"1\n")
    done = subprocess.run([TARGET], env=environment_of(top, **NO_RANK), cwd=top / "work",
                          stderr=writer, stdout=subprocess.PIPE, check=False, timeout=300)
    os.close(writer)
    assert done.returncode == 3


def test_standard_error_in_a_file_that_may_not_grow(top):
    """No SIGXFSZ either."""
    with open(top / "stderr", "wb") as error:
        done = subprocess.run(["/bin/true"], env=environment_of(top, **NO_RANK), stderr=error, check=False, timeout=300,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 0 and not (top / "stderr").read_bytes()


def test_standard_error_that_is_full(top):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    done = subprocess.run([TARGET], env=environment_of(top, **NO_RANK), cwd=top / "work",
                          stderr=writer, stdout=subprocess.PIPE, check=False, timeout=300)
    os.close(reader)
    os.close(writer)
    assert done.returncode == 3 and all_events(top) > 1000


# ---- room ----

WRITES = """
import os, sys, time
data = os.open('data', os.O_RDWR | os.O_CREAT)
def write(count):
    for _ in range(count): os.pwrite(data, b'x', 0)
write(2000)
time.sleep(0.2)
os.unlink(sys.argv[1])
for _ in range(20):
    write(10)
    time.sleep(0.02)
print('done')
"""


@pytest.mark.parametrize("pages", [1, 2, 3, 4, 5, 8, 12, 16, 20, 24, 28, 32])
def test_disk_that_is_full_and_freed(top, pages):
    """The trace's disk has so many pages free, until the program itself removes a file from it."""
    disk = top / "disk"
    disk.mkdir()
    environment = harness.traced_environment(disk / "t", top / "spools", PFW_FLUSH_MS="5",
                                             PFW_RING_MAX="32KiB")
    script = (f"mount -t tmpfs -o size=1m none {disk} && "
              f"head -c {(256 - pages) * 4096} /dev/zero >{disk}/filler")
    preload = environment.pop("LD_PRELOAD")
    command = in_own_mounts(script, "sh", "-c", '"$@"; cp "$0"/*.pfw ' + str(top), disk, "env",
                            f"LD_PRELOAD={preload}", *PYTHON, WRITES, disk / "filler")
    result = traced(top, command, environment)
    assert result.stdout == "done\n"
    said = [line for line in result.stderr.splitlines() if "cannot" in line]
    assert len(said) <= 1, said
    names = [name for name in harness.trace_names(top)]
    lines = [line for name in names for line in harness.read_lines(top / name)
             if line["args"].get("fname") == str(top / "work" / "data")]
    lost = sum(harness.read_lines(top / name)[-1]["args"]["lost"] for name in names)
    for name in names:
        assert harness.read_lines(top / name)[-1]["name"] == "end", name
    assert len(harness.events(lines, "pwrite")) + lost >= 2200
    assert bool(lost) <= any("were lost" in line for line in result.stderr.splitlines())
    assert os.listdir(top / "spools") == []


def test_directory_removed(top):
    """The trace's directory goes while the program runs: said once, and it runs on."""
    script = """
import os, shutil, sys, time
def work(name):
    for _ in range(100):
        with open(name, 'a') as file: file.write('x')
work('a')
time.sleep(0.2)
shutil.rmtree(sys.argv[1])
for _ in range(10):
    work('b')
    time.sleep(0.02)
print(os.path.getsize('a'), os.path.getsize('b'))
"""
    environment = harness.traced_environment(top / "gone" / "t", top / "spools", PFW_FLUSH_MS="5")
    result = traced(top, [*PYTHON, script, top / "gone"], environment)
    assert result.stdout == "100 1000\n"
    for line in result.stderr.splitlines():
        assert line.startswith("pfw: ")
    assert len(result.stderr.splitlines()) <= 2, result.stderr
    assert not (top / "gone").exists() and os.listdir(top / "spools") == []


@pytest.mark.skipif(not INJECT.exists(), reason="the injector is for x86-64")
@pytest.mark.parametrize("number, name", [(5, "EIO"), (122, "EDQUOT"), (4, None)])
def test_a_close_that_fails_is_said(top, number, name):
    """NFS may write only then.  Once a process; EINTR is no failure."""
    environment = environment_of(top, LD_PRELOAD="")
    command = [INJECT, "-p", f"{harness.PRELOAD}:{SHIM}", "-f", f"close:1-:late={number}", "--", *PYTHON,
               "import os; os.access('a', 0)"]
    said = traced(top, command, environment).stderr
    assert said == (f"pfw: cannot close the trace {top / 't.pfw'}: {name}; its last events may be missing: "
                    "`pfw validate` looks\n" if name else "")


@pytest.mark.parametrize("shm", ["mount -t tmpfs -o size=4k none /dev/shm",
                                 "mount -t tmpfs -o size=64k none /dev/shm",
                                 "mount -t tmpfs -o ro none /dev/shm"])
def test_no_room_in_shm(top, shm):
    """The next place for a spool is taken; nothing is lost, nothing is said."""
    environment = environment_of(top, TMPDIR=str(top / "spools"))
    del environment["PFW_SPOOL_DIR"]
    plain = harness.run([TARGET], cwd=top / "work", status=3)
    shutil.rmtree(top / "work")
    (top / "work").mkdir()
    result = traced(top, in_own_mounts_traced(shm, environment, TARGET), environment, status=3)
    assert (result.stdout, result.stderr) == (plain.stdout, "")
    names = harness.trace_names(top)
    assert names and all_events(top) > 1000 and os.listdir(top / "spools") == []
    for name in names:
        assert harness.process_args(top / name)["spool"].startswith(str(top / "spools"))


WORKER = """
import mmap, os, threading
def busy(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for _ in range(4000): os.pwrite(fd, b'x', 0)
batch = os.open(f'/dev/shm/batch{os.getpid()}', os.O_RDWR | os.O_CREAT)
os.ftruncate(batch, 4 << 20)  # sparse, as torch's are: no room is a SIGBUS
threads = [threading.Thread(target=busy, args=(f'{os.getpid()}-{n}',)) for n in range(4)]
for thread in threads: thread.start()
memory = mmap.mmap(batch, 4 << 20)
for at in range(0, 4 << 20, 4096): memory[at] = 1
for thread in threads: thread.join()
used = [os.path.getsize('/dev/shm/' + name) for name in os.listdir('/dev/shm')
        if name.startswith('pfw-')]
print(max(used))
"""


def test_small_shm_shared_by_workers(top):
    """64 MiB, as containers have: 8 workers with batches of 4 MiB and a spool each.  Nobody gets a
    SIGBUS, and no spool takes more than a sixteenth."""
    environment = environment_of(top, TMPDIR=str(top / "spools"))
    del environment["PFW_SPOOL_DIR"]
    (top / "worker.py").write_text(WORKER)
    script = 'for n in 1 2 3 4 5 6 7 8; do /usr/bin/python3 -I -S "$0" & all="$all $!"; done; ' \
             'for pid in $all; do wait $pid || echo "status $?"; done'
    result = traced(top, in_own_mounts_traced("mount -t tmpfs -o size=64m none /dev/shm",
                                              environment, "sh", "-c", script,
                                              top / "worker.py"), environment)
    used = result.stdout.split()
    assert result.stderr == "" and len(used) == 8 and "status" not in used, result
    assert max(int(number) for number in used) <= (64 << 20) // 16
    traces = [harness.check_trace(top / name) for name in harness.trace_names(top)]
    assert sum(len(harness.events(lines, "pwrite")) for lines in traces) == 8 * 4 * 4000


THREADS = """
import os, threading
def busy():
    for _ in range(5000): os.pread(fd, 1, 0)
fd = os.open('/dev/zero', os.O_RDONLY)
threads = [threading.Thread(target=busy) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(entry.stat().st_size for entry in os.scandir(os.environ['PFW_SPOOL_DIR'])))
"""


@pytest.mark.parametrize("most, used", [("memory.max", "memory.current"),
                                        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")])
def test_rings_of_a_small_cgroup(top, most, used):
    """Rings start small, and grow only where memory is."""
    sizes = []
    for limit in (10 << 30, 6 << 20):
        script = f"mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir memory && echo {limit} >{most} && " \
                 f"echo {4 << 20} >{used} && cd {top}/work"
        environment = environment_of(top)
        result = traced(top, in_own_mounts_traced(script, environment, *PYTHON, THREADS), environment)
        sizes.append(int(result.stdout))
        lines = harness.check_trace(top / "t.pfw")
        assert len(harness.events(lines, "pread")) == 16 * 5000 and not harness.own(lines, "lost")
        (top / "t.pfw").unlink()
    assert sizes[1] < 2 << 20 < sizes[0]


@pytest.mark.parametrize("limit, status", [(10 << 30, 0), (12 << 20, 2)])
def test_spans_of_a_table_in_a_small_cgroup(top, limit, status):
    """They go to temporary files, for which there is no room here, only where memory is short."""
    trace = top / "t.pfw"
    trace.write_text("".join(
        f'{{"id":{i},"name":"step","cat":"app","pid":7,"tid":7,"ts":{1_795_230_878_000_000 + 10 * i}.000,'
        f'"dur":5.000,"ph":"X","args":{{}}}}\n' for i in range(60_000)))
    script = f"mount -t tmpfs none /sys/fs/cgroup && echo {limit} >/sys/fs/cgroup/memory.max && " \
             f"echo {4 << 20} >/sys/fs/cgroup/memory.current && mount -t tmpfs -o size=64k none {top}/work"
    result = harness.run(in_own_mounts(script, harness.PFW, "table", "-j1", "--no-index", trace),
                         harness.clean_environment(TMPDIR=str(top / "work")), status=status)
    assert ("No space left" in result.stderr) == bool(status)


# ---- the clock ----

@pytest.mark.parametrize("looks", [0, 8])  # before the second reading of the clock, and in the third
@pytest.mark.parametrize("seconds", [-3600, 86400])
def test_clock_that_is_set(top, seconds, looks):
    """Stepped in the middle of the run: said in the trace; no duration is negative, none is wrong."""
    plain = harness.run([TARGET], cwd=top / "work", status=3)
    shutil.rmtree(top / "work")
    (top / "work").mkdir()
    environment = environment_of(top, FAULTS_CLOCK=f"{looks} {seconds}", PFW_FLUSH_MS="1",
                                 LD_PRELOAD=f"{harness.PRELOAD}:{SHIM}")
    result = traced(top, [TARGET], environment, status=3)
    assert (result.stdout, result.stderr) == (plain.stdout, "")
    steps = []
    for name in harness.trace_names(top):
        lines = harness.check_trace(top / name)
        steps += [line["args"] for line in harness.own(lines, "clock_step")]
        assert all(line["dur"] < 60e6 for line in harness.events(lines) if "dur" in line)
    assert steps
    for step in steps:
        numbers = [float(value) for value in step.values()]
        assert abs(abs(numbers[1] - numbers[0]) / 1e6 - abs(seconds)) < 60, step
