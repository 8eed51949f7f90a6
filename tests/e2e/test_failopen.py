"""Whatever the tracer lacks, the program runs as if it were not there, and one line says what."""
import os
import re
import resource
import shutil
import subprocess

import pytest

import harness

STEPS = harness.BUILD / "tests" / "steps"
# What most cases do: I/O by two threads and two processes, output, a status.
WORK = ["write", "a", "thread", "b", "print", "out", "fork", "write", "c", "print", "child",
        "status", "3"]
OUT = "out\nchild\n"


class Place:
    def __init__(self, top):
        self.top = top
        self.spools = top / "spools"
        self.spools.mkdir()

    def environment(self, base="t", **variables):
        return harness.traced_environment(base, self.spools, **variables)

    def run(self, *steps, status=0, environment=None, **options):
        return harness.run([STEPS, *steps],
                           self.environment() if environment is None else environment, self.top,
                           status, **options)

    def work(self, environment=None, **variables):
        """Do the WORK; its result and files must be what they are.  Return what pfw said."""
        result = self.run(*WORK, status=3, environment=environment or
                          self.environment(**variables))
        assert result.stdout == OUT
        for name in "abc":
            assert (self.top / name).read_text() == "step\n"
            (self.top / name).unlink()
        said = result.stderr.splitlines()
        assert all(line.startswith("pfw: ") for line in said), said
        return said

    def names(self):
        return [re.sub(r"pid\d+", "pidN", name) for name in harness.trace_names(self.top)]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path.resolve())


def test_the_work_is_traced_where_nothing_is_wrong(place):
    assert place.work() == []
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    assert os.listdir(place.spools) == []


# ---- the libraries ----

def copy_libraries(place, *names):
    place.lib = place.top / "lib"
    place.lib.mkdir()
    for name in names:
        shutil.copy(os.path.join(harness.LIB_DIR, name), place.lib / name)
    return str(place.lib / "libpfw_preload.so")


def test_preload_object_alone(place):
    said = place.work(LD_PRELOAD=copy_libraries(place, "libpfw_preload.so"))
    assert len(said) == 1 and "libpfw.so.1" in said[0] and "runs untraced" in said[0]
    assert place.names() == [] and os.listdir(place.spools) == []


def test_preload_object_alone_says_nothing_when_disabled(place):
    preload = copy_libraries(place, "libpfw_preload.so")
    assert place.work(LD_PRELOAD=preload, DFTRACER_ENABLE="0") == []
    assert place.work(harness.clean_environment(LD_PRELOAD=preload)) == []


def test_libraries_moved_together(place):
    assert place.work(LD_PRELOAD=copy_libraries(place, "libpfw_preload.so", "libpfw.so.1")) == []
    assert place.names() == ["t-pidN.pfw", "t.pfw"]


def test_libraries_that_are_gone_at_an_exec(place):
    """As after chroot(): the linker complains, the program runs untraced, and the trace says so."""
    preload = copy_libraries(place, "libpfw_preload.so", "libpfw.so.1")
    script = f"rm lib/*; {STEPS} write a; echo x > b"
    result = harness.run(["/bin/sh", "-c", script], place.environment(LD_PRELOAD=preload), place.top)
    assert "cannot be preloaded" in result.stderr
    lines = [line for name in harness.trace_names(place.top) for line in harness.check_trace(place.top / name)]
    why = [line["args"]["why"] for line in lines if line["name"] == "untraced_child"]
    assert why == ["the preload object cannot be read: another root, or another user"]


@pytest.mark.parametrize("other", ["libpfw_preload.so", "libpfw.so.1"])
def test_libraries_of_two_builds(place, other):
    """Told by a text that names every wrapped call: change a letter of it in either object."""
    preload = copy_libraries(place, "libpfw_preload.so", "libpfw.so.1")
    image = (place.lib / other).read_bytes()
    assert image.count(b" table 2:") == 1
    (place.lib / other).write_bytes(image.replace(b" table 2:", b" table x:"))
    said = place.work(LD_PRELOAD=preload)
    assert len(said) == 1 and "another build" in said[0] and "runs untraced" in said[0]
    assert place.names() == [] and os.listdir(place.spools) == []


def test_recorder_that_is_no_library(place):
    preload = copy_libraries(place, "libpfw_preload.so")
    (place.lib / "libpfw.so.1").write_text("not a library")
    said = place.work(LD_PRELOAD=preload)
    assert len(said) == 1 and "libpfw.so.1" in said[0]


# ---- where the trace goes ----

def impossible_directories(top):
    (top / "file").write_text("")
    yield "file/t"
    yield "/proc/t"  # where nobody, root neither, can make a file
    if os.geteuid() != 0:
        (top / "closed").mkdir(mode=0o500)
        yield "closed/t"


def test_trace_that_cannot_be_made(place):
    for base in impossible_directories(place.top):
        said = place.work(DFTRACER_LOG_FILE=base)
        # Once a process; a child that is forked when that is known has nothing to say.
        assert 1 <= len(said) <= 2, said
        for line in said:
            assert "cannot create the trace" in line and base in line
            assert "nothing is recorded: set DFTRACER_LOG_FILE" in line
        assert os.listdir(place.spools) == []
        # No exit handler runs here.
        place.run("write", "left", "leave", environment=place.environment(base))
        assert os.listdir(place.spools) == []


def test_trace_in_a_directory_that_is_not_there(place):
    assert place.work(DFTRACER_LOG_FILE="not/yet/t") == []
    assert len(harness.trace_names(place.top / "not" / "yet")) == 2


MANY = 30000  # lines of about 200 bytes


def check_cut_trace(path):
    """A trace that ran out of room: whole lines, ids without a gap but at its losses.  None at all, where
    there was no room for what a slow writer wrote at once."""
    lines = harness.read_lines(path) if path.stat().st_size else []
    ids = [line["id"] for line in lines]
    assert ids == list(range(1, len(ids) + 1))
    return lines


def test_full_disk(place):
    """On a file system of 1 MiB: the program goes on; what cannot be kept is counted, said once."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    disk = place.top / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(700 << 10))
        result = place.run("writes", "data", MANY, "print", "out",
                           environment=place.environment("disk/t", PFW_RING_MAX="64KiB"))
        check_full(place, result, disk / "t.pfw", filler.unlink)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_run_counts_no_trace_that_cannot_be_finished(place):
    """`pfw run` has the same limit, so that it cannot finish the trace either."""
    limited = ["bash", "-c", 'ulimit -f 600; exec "$@"', "bash", harness.PFW]
    environment = harness.clean_environment(PFW_SPOOL_DIR=str(place.spools))
    result = harness.run([*limited, "run", "--all", "-o", "t", STEPS, "writes", "data", 20000], environment,
                         place.top)
    assert "and its trace cannot be finished: " in result.stderr
    assert "1 process in" in result.stderr and "(1 not finished, not counted)" in result.stderr
    assert "nothing lost" not in result.stderr and "`pfw validate`" in result.stderr
    assert "File too large" in harness.run([*limited, "repair", "t.pfw"], environment, place.top, 2).stderr
    harness.run([harness.PFW, "repair", "t.pfw"], environment, place.top)
    lines = harness.read_lines(place.top / "t.pfw")
    lost = sum(line["args"]["count"] for line in harness.own(lines, "lost"))
    assert len(harness.events(lines, "pwrite")) + lost >= 20000 and not os.listdir(place.spools)


REPLACED = """
import os, shutil, time
def work():
    for _ in range(100): os.access('data', os.R_OK)
work()
while not os.path.exists('t.pfw') or b'"access"' not in open('t.pfw', 'rb').read(): time.sleep(0.01)
shutil.copy('t.pfw', 'copy')
os.rename('copy', 't.pfw')  # as sed -i does
work()
"""


def test_run_says_that_a_trace_was_cut_short(place):
    environment = harness.clean_environment(PFW_SPOOL_DIR=str(place.spools), PFW_FLUSH_MS="5")
    result = harness.run([harness.PFW, "run", "-o", "t", "--", "/usr/bin/python3", "-I", "-S", "-c", REPLACED],
                         environment, place.top)
    assert "recording stops: the trace was moved" in result.stderr
    assert "(1 not finished, not counted)" in result.stderr and "1 trace is cut short" in result.stderr
    assert "nothing lost" not in result.stderr and "running" not in result.stderr


CHILD_GOES_ON = """
import glob, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-I', '-S', '-c', "import os, sys; os.access('data', 0); sys.stdin.read()"],
                         stdin=open('held'), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while not any('"access"' in open(name).read() for name in glob.glob(f't-pid{child.pid}*')): time.sleep(0.01)
"""


def test_run_says_what_is_still_running(place):
    environment = harness.clean_environment(PFW_SPOOL_DIR=str(place.spools), PFW_FLUSH_MS="5")
    os.mkfifo(place.top / "held")
    held = os.open(place.top / "held", os.O_RDWR)
    result = harness.run([harness.PFW, "run", "-o", "t", "--", "/usr/bin/python3", "-I", "-S", "-c", CHILD_GOES_ON],
                         environment, place.top)
    os.close(held)
    assert "(1 still running, not counted)" in result.stderr and "nothing lost" in result.stderr


def test_file_size_limit(place):
    """RLIMIT_FSIZE: no SIGXFSZ from the tracer's files, neither trace nor spool."""
    result = place.run("limit", 1 << 20, "writes", "data", MANY, "print", "out",
                       environment=place.environment("t", PFW_RING_MAX="64KiB"))
    check_full(place, result, place.top / "t.pfw", lambda: None)


@pytest.mark.parametrize("kib", [0, 4, 64, 256])
def test_file_size_limit_below_a_spool(place, kib):
    """There is no spool then, and events wait in memory."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, resource.RLIM_INFINITY))
    result = place.run("limit", 1 << 30, "write", "a", preexec_fn=limit)
    assert len(harness.events(harness.check_trace(place.top / "t.pfw"), "write")) == 1
    said = result.stderr.splitlines()
    assert len(said) == 1 and "no directory for the spool" in said[0], said
    assert os.listdir(place.spools) == []


def check_full(place, result, trace, make_room):
    said = result.stderr.splitlines()
    assert result.stdout == "out\n"
    full = [line for line in said if "cannot write the trace" in line]
    assert len(full) == 1 and ("ENOSPC" in full[0] or "EFBIG" in full[0]), said
    assert len(said) <= 2, said
    before = check_cut_trace(trace)
    make_room()
    repaired = harness.run([harness.PFW, "repair", trace], cwd=place.top,
                           environment=harness.clean_environment(PFW_SPOOL_DIR=str(place.spools)))
    assert repaired.stderr == "" and os.listdir(place.spools) == []
    lines = check_cut_trace(trace)
    assert lines[:len(before)] == before and len(lines) > len(before)
    kept = len(harness.events(lines, "pwrite"))
    end = lines[-1]["args"]
    assert lines[-1]["name"] == "end" and end["lost"] > 0
    # What is neither in the trace nor counted as lost: nothing.
    whole = MANY + len(harness.events(lines)) - kept
    missing = whole - len(harness.events(lines)) - end["lost"]
    assert 0 <= missing + ENDING <= ENDING + 2, (missing, end)


# Calls after the last write (close, write to stdout, exit's): recorded or lost like any other.
ENDING = 4


def test_room_comes_back(place):
    """A limit that is lifted: the trace goes on where it was, with what the ring has held."""
    place.run("write", "b", "flush", "limit", 10000, "writes", "data", 200, "flush", "limit",
              1 << 30, "flush", "write", "a", environment=place.environment(PFW_FLUSH_MS="5"))
    lines = harness.check_trace(place.top / "t.pfw")
    assert len(harness.events(lines, "pwrite")) == 200
    assert os.listdir(place.spools) == []


# ---- where the spool goes ----

def test_no_room_for_a_ring(place):
    """Neither wait nor die for it: said once, and the program goes on untraced."""
    result = place.run("limit", 40000, "writes", "data", 400, "thread", "a", "print", "out")
    assert result.stdout == "out\n"
    (said,) = result.stderr.splitlines()
    assert "no memory for events" in said and "PFW_SPOOL_DIR" in said
    assert place.names() == [] and os.listdir(place.spools) == []


def test_no_room_for_another_ring(place):
    """A thread's ring that cannot be had: its events are counted, the others are in the trace."""
    result = place.run("write", "b", "limit", 100000, "thread", "a", "writes", "data", 100)
    lines = harness.read_lines(place.top / "t.pfw")
    assert len(harness.events(lines, "pwrite")) == 100
    lost = [line["args"] for line in harness.own(lines, "lost")]
    if lost:
        assert lost[-1]["reason"] == "no_memory" and "were lost" in result.stderr
    assert lines[-1]["args"]["lost"] == sum(part["count"] for part in lost)
    assert not os.listdir(place.spools)


@pytest.mark.parametrize("where", ["/nowhere", "/proc", "file"])
def test_spool_that_cannot_be_made(place, where):
    (place.top / "file").write_text("")
    said = place.work(PFW_SPOOL_DIR=where)
    assert len(said) == 2 and all(f"PFW_SPOOL_DIR={where}: no directory" in line for line in said), said
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    for name in harness.trace_names(place.top):
        assert "spool" not in harness.check_trace(place.top / name)[0]["args"]


# ---- descriptors ----

@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_standard_descriptors_closed(place, closed):
    """The program's files get the numbers; nothing of the tracer's gets there, nor into them."""
    listed = []
    for environment in (harness.clean_environment(), place.environment()):
        printing = [] if "1>" in closed else ["fds", "lowest"]
        result = harness.run(["sh", "-c", f'exec "$@" {closed}', "sh", STEPS, "write", "a",
                              "thread", "b", "write", "a", *printing, "fork", "write", "c"],
                             environment, place.top)
        listed.append([result.stdout, *((place.top / name).read_text() for name in "abc")])
        for name in "abc":
            (place.top / name).unlink()
    assert listed[0] == listed[1] and listed[0][1:] == ["step\nstep\n", "step\n", "step\n"]
    lines = harness.check_trace(place.top / "t.2.pfw")  # t.pfw is the shell's, before its exec
    opened = [line["args"]["fd"] for line in harness.events(lines, "open")
              if line["args"]["fname"] in (str(place.top / "a"), str(place.top / "b"))]
    assert opened == [min(int(number) for number in re.findall(r"(\d)[<>]", closed))] * 3


def test_descriptors_are_the_same(place):
    """Before and while the writer is at work: the same list, the lowest free one is the lowest."""
    steps = ["fds", "lowest", "write", "a", "fds", "lowest", "thread", "b", "flush", "fds",
             "lowest", "fork", "write", "c", "fds", "lowest"]
    printed = [place.run(*steps, environment=environment).stdout
               for environment in (harness.clean_environment(), place.environment())]
    assert printed[0] == printed[1] and printed[0].count("lowest 3\n") == 4


def test_program_that_closes_everything(place):
    place.run("write", "a", "closeall", "write", "b", "flush", "closeall", "write", "a", "fork",
              "closeall", "write", "c", "closeall")
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    lines = harness.check_trace(place.top / "t.pfw")
    assert [os.path.basename(line["args"]["fname"])
            for line in harness.events(lines, "write")] == ["a", "b", "a"]


def test_limit_of_descriptors(place):
    """A low limit of descriptors: the tracer's are numbers of a table of its own."""
    script = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (6, 6)); f = open('a', 'w'); " \
             "f.write('x'); f.close()"
    harness.run(["/usr/bin/python3", "-I", "-S", "-c", script], place.environment(), place.top)
    lines = harness.check_trace(place.top / "t.pfw")
    assert [line for line in harness.events(lines, "write")
            if line["args"]["fname"] == str(place.top / "a")]


LIMITED = """
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	const struct rlimit limit = { atol(argv[2]), atol(argv[2]) };

	if (argc != 3 || setrlimit(atoi(argv[1]), &limit))
		return 1;
	for (int i = 0; i < 100; i++)
		if (write(1, "x", 1) != 1)
			return 2;
	return 3;
}
"""


@pytest.mark.parametrize("counters", [{}, {"PFW_COUNTERS": "10ms"}])
@pytest.mark.parametrize("limit", [("RLIMIT_NOFILE", 3), ("RLIMIT_AS", 1 << 20)])
def test_limit_before_the_first_event(place, limit, counters):
    """The program does not wait for a ring that the writer's thread cannot make either."""
    (place.top / "limited.c").write_text(LIMITED)
    program = harness.compile_c(place.top / "limited.c", place.top / "limited")
    result = harness.run([program, getattr(resource, limit[0]), limit[1]],
                         place.environment(**counters), place.top, 3, timeout=30)
    assert result.stdout == "x" * 100
    if limit[0] == "RLIMIT_AS":
        assert "no memory for events" in result.stderr and place.names() == []
    else:
        assert len(harness.events(harness.check_trace(place.top / "t.pfw"), "write")) == 100


# ---- disabled ----

def mapped(place, environment):
    script = "import re; print(*sorted(set(re.findall(r'libpfw[a-z_]*', open('/proc/self/maps')" \
             ".read()))))"
    return harness.run(["/usr/bin/python3", "-I", "-S", "-c", script], environment,
                       place.top).stdout.split()


@pytest.mark.parametrize("enable", ["0", None, ""])
def test_disabled(place, enable):
    """No file, no thread, no library, no word; also where other variables are wrong."""
    environment = place.environment(PFW_RING_MAX="9x", PFW_RNAK="1", DFTRACER_INIT="WHAT")
    del environment["DFTRACER_ENABLE"]
    if enable is not None:
        environment["DFTRACER_ENABLE"] = enable
    result = place.run(*WORK[:-2], "threads", environment=environment)
    assert (result.stdout, result.stderr) == ("out\nchild\nthreads 1\n", "")
    assert place.names() == [] and os.listdir(place.spools) == []
    assert mapped(place, environment) == ["libpfw_preload"]


def test_enabled_and_idle_has_no_thread(place):
    result = place.run("threads", environment=place.environment(DFTRACER_DATA_DIR="/nowhere"))
    assert result.stdout == "threads 1\n" and place.names() == []


@pytest.mark.parametrize("init", ["FUNCTION", None])
def test_function_mode_waits_for_pfw_start(place, init):
    environment = place.environment(DFTRACER_INIT=init or "")
    if init is None:
        del environment["DFTRACER_INIT"]
    place.run("write", "a", "thread", "b", environment=environment)
    assert place.names() == []
    place.run("write", "a", "begin", "write", "b", environment=environment)
    lines = harness.check_trace(place.top / "t.pfw")
    assert [os.path.basename(line["args"]["fname"]) for line in harness.events(lines, "open")] \
        == ["b"]


def test_enable_is_overruled_by_nothing(place):
    """pfw_start() records unless DFTRACER_ENABLE is 0; unset, it starts."""
    environment = place.environment(DFTRACER_ENABLE="0")
    assert place.run("begin", "write", "a", "span", "s", environment=environment).stderr == ""
    assert place.names() == []
    del environment["DFTRACER_ENABLE"]
    assert place.run("begin", "write", "a", environment=environment).stderr == ""
    assert place.names() == ["t.pfw"]


def test_quiet_says_nothing_of_the_variables_either(place):
    assert "PFW_NOSUCH" in place.work(PFW_NOSUCH="1")[0]
    assert place.work(PFW_NOSUCH="1", PFW_RANK="x", PFW_QUIET="1") == []
    assert place.work(DFTRACER_ENABLE="maybe", PFW_QUIET="1") == []


# ---- odd environments and programs ----

def test_empty_environment(place):
    assert place.run("write", "a", environment={}).stderr == ""
    assert place.names() == []
    bare = {"LD_PRELOAD": harness.PRELOAD}
    assert place.run("write", "a", environment=bare).stderr == ""
    assert place.names() == []
    result = place.run("write", "a", environment={
        **bare, "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_DATA_DIR": "all"})
    assert result.stderr == "" and place.names() == ["trace.pfw"]
    harness.check_trace(place.top / "trace.pfw")


def test_environment_that_the_program_clears(place):
    """Variables are read once: what the program does to them later changes nothing."""
    harness.run(["/usr/bin/python3", "-I", "-S", "-c",
                 "import os; os.environ.clear(); open('a', 'w'); os.fork() or open('b', 'w')"],
                place.environment(), place.top)
    assert place.names() == ["t-pidN.pfw", "t.pfw"]


def test_static_program(place):
    source = place.top / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 3; }\n')
    program = harness.compile_c(source, place.top / "hello", "-static")
    result = harness.run([harness.PFW, "run", "-o", "t", "--", program], cwd=place.top, status=3)
    assert result.stdout == "hello\n"
    assert "static" in result.stderr and "hello" in result.stderr
    assert place.names() == []


def test_missing_working_directory(place):
    gone = place.top / "gone"
    gone.mkdir()
    environment = place.environment(str(place.top / "t"))
    result = harness.run(["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone,
                          STEPS, "write", place.top / "a"], environment)
    assert result.stderr == ""
    assert "t.pfw" in place.names()


def test_killed_by_its_own_signal(place):
    """A status that is a signal stays one."""
    for number in (6, 9, 11, 15):
        assert place.run("write", "a", "kill", number, status=-number).stderr == ""
