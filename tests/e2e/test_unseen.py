"""The writer unseen: programs that look for the tracer find none, and lose nothing.

Each case runs untraced and traced; what the target prints (descriptors, locks, threads, results) and
its status must be the same, and the traces must hold every read that it counts, once.
"""
import errno
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import harness

TARGET = harness.BUILD / "tests" / "unseen_target"
BUSY = {"PFW_FLUSH_MS": "1"}  # the writer is at work all the time


def run_both(tmp_path, *arguments, status=0, refused=(), answer=1, **variables):
    """Untraced, then traced.  Return what it printed and the traced run's stderr.

    The system calls `refused` fail with the errno `answer`, from before the program begins."""
    results = []
    for side in ("plain", "trace"):
        work = tmp_path / side
        work.mkdir(mode=0o777)
        work.chmod(0o777)
        environment = harness.clean_environment(**variables)
        if side == "trace":
            spools = tmp_path / "spools"
            spools.mkdir(mode=0o777)
            (tmp_path / "traces").mkdir()
            environment = harness.traced_environment(tmp_path / "traces" / "t", spools,
                                                     **{**BUSY, **variables})
        command = [TARGET, arguments[0], work, *arguments[1:]]
        if refused:  # env is not traced itself
            preload = environment.pop("LD_PRELOAD", "")
            command = [TARGET, "filter", work, answer, *refused, "--", "/usr/bin/env",
                       f"LD_PRELOAD={preload}", *command]
        results.append(harness.run(command, environment, status=None))
    plain, traced = results
    if refused and plain.returncode != status:
        pytest.skip(f"the program itself cannot do without: {plain.stderr}")
    assert plain.returncode == status, plain
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout), traced
    return traced.stdout, traced.stderr


def check_traces(tmp_path, printed):
    """All traces are whole, hold the reads that were counted, and left no spool."""
    names = harness.trace_names(tmp_path / "traces")
    lines = [line for name in names
             for line in harness.check_trace(tmp_path / "traces" / name)]
    counted = int(printed.split("preads ")[-1])
    assert len(harness.events(lines, "pread")) == counted, names
    assert not os.listdir(tmp_path / "spools")
    return lines


def sweep(tmp_path):
    """Remove the spools of traces that have their end, where the program could not."""
    harness.run([harness.PFW, "repair", tmp_path / "traces"],
                harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")), status=None)


def unseen(tmp_path, *arguments, **options):
    printed, errors = run_both(tmp_path, *arguments, **options)
    assert not errors, errors
    return check_traces(tmp_path, printed)


def have(*command):
    """Whether this machine allows something, tried out."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


need_root = pytest.mark.skipif(os.geteuid() != 0 or not have("unshare", "-m", "true"),
                               reason="needs root that may make namespaces")


# ---- descriptors ----

WAYS = ["loop", "close_range", "unshare", "closefrom", "listed", "dup2", "dup3"]


@pytest.mark.parametrize("way", WAYS)
def test_closes_everything(tmp_path, way):
    unseen(tmp_path, "close", way)


@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "02", "12", "012"])
def test_begins_without_the_standard_ones(tmp_path, closed):
    """Its status says whether the numbers were right: what it prints goes nowhere without 1."""
    script = "".join(f" {fd}{'<' if fd == '0' else '>'}&-" for fd in closed)
    results = []
    for side in ("plain", "trace"):
        work = tmp_path / side
        work.mkdir()
        (tmp_path / side / "spools").mkdir()
        environment = (harness.clean_environment() if side == "plain" else
                       harness.traced_environment(work / "t", work / "spools", **BUSY))
        results.append(subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {script}', "sh", TARGET, "numbers", work],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=300, check=False))
    plain, traced = results
    assert (plain.returncode, plain.stdout, plain.stderr) == \
        (traced.returncode, traced.stdout, traced.stderr)
    lines = [line for name in harness.trace_names(tmp_path / "trace")  # the shell's, too
             for line in harness.check_trace(tmp_path / "trace" / name)]
    assert len(harness.events(lines, "pread")) == 30 * 500
    assert (tmp_path / "trace" / "data").read_bytes() == \
        (tmp_path / "plain" / "data").read_bytes()


def test_numbers_are_the_lowest(tmp_path):
    unseen(tmp_path, "numbers")


@pytest.mark.parametrize("limit", [4, 5, 6, 8, 16, 200, 1024])
def test_as_many_files_as_untraced(tmp_path, limit):
    unseen(tmp_path, "limit", limit)


def test_holds_ten_thousand(tmp_path):
    unseen(tmp_path, "hold", 10000)


def test_locks_stay(tmp_path):
    unseen(tmp_path, "locks")


# ---- threads and namespaces ----

def test_one_thread_around_fork(tmp_path):
    # Not /proc: what it reads there would be an event, and begin the writer's thread again.
    unseen(tmp_path, "threads", DFTRACER_DATA_DIR=str(tmp_path))


def test_unshare_and_setns(tmp_path):
    unseen(tmp_path, "unshare")


# The spool cannot be removed by another user than made it: whoever made it does, with `pfw repair`.
@need_root
@pytest.mark.parametrize("how", ["c", "cf", "cx", "ci", "ncf", "m", "mf", "mc", "u", "ui", "uf",
                                 "nuf", "cu", "mcduixf", "k", "kf", "nki"])
def test_other_root_mounts_or_user(tmp_path, how):
    printed, errors = run_both(tmp_path, "root", how)
    assert not errors
    if "u" in how or "k" in how:
        sweep(tmp_path)
    check_traces(tmp_path, printed)


@need_root
def test_first_of_a_pid_namespace(tmp_path):
    unseen(tmp_path, "pids")


# ---- under what watches memory: its own view of mappings, libraries and threads must hold ----

WATCHED = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *reader(void *x) { char name[20], *b; FILE *f; snprintf(name, sizeof(name), "f%ld", (long)x);
        for (int i = 0; i < 200; i++) { f = fopen("a.c", "r"); b = malloc(50); if (fgets(b, 50, f)) free(b); fclose(f);
                close(open(name, O_CREAT | O_RDWR, 0600)); rename(name, "old"); } return x; }
int main(void) { pthread_t t[4]; int status;
        for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, reader, (void *)i);
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
        if (!fork()) { close(open("a.c", O_RDONLY)); exit(2); }
        wait(&status); printf("child %d\n", status); return 5; }
"""


@pytest.mark.skipif(not have("valgrind", "--version"), reason="needs valgrind")
@pytest.mark.parametrize("how", ["valgrind", "-fsanitize=address", "-fsanitize=thread"])
def test_under_what_watches_memory(tmp_path, how):
    (tmp_path / "a.c").write_text(WATCHED)
    words = ["valgrind", "-q", "./a"] if how == "valgrind" else ["./a"]
    if not have("gcc", "-g", "-pthread", *(how,) * (how != "valgrind"), "-o", tmp_path / "a", tmp_path / "a.c"):
        pytest.skip(f"gcc has no {how}")
    plain = harness.run(words, harness.clean_environment(), tmp_path, None)
    if plain.returncode != 5:
        pytest.skip(f"{how} does not work here")
    done = harness.run(words, harness.traced_environment(tmp_path / "t", tmp_path), tmp_path, 5)
    errors = re.sub(r"--\d+-- .*\n", "", done.stderr)  # Valgrind does not know futex_waitv(): docs/reliability.rst
    assert (done.stdout, errors) == (plain.stdout, plain.stderr) == ("child 512\n", "")


@pytest.mark.skipif(not have("valgrind", "--version"), reason="needs valgrind")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])  # what lies beside the spool differs
def test_under_valgrind(tmp_path, locale):
    (tmp_path / "from").write_bytes(bytes(100000))
    environment = harness.traced_environment(tmp_path / "t", tmp_path, LC_ALL=locale,
                                             MALLOC_PERTURB_="87")
    harness.run(["valgrind", "-q", "--error-exitcode=3", "cp", "--reflink=never", tmp_path / "from",
                 tmp_path / "to"], environment)
    assert (tmp_path / "to").read_bytes() == bytes(100000)


# ---- filters ----

OWN_TABLE = ("close_range", "unshare")


# Where the writer cannot have a table of its own, its files are in the program's, at numbers below
# 1024 that it cannot close.
@pytest.mark.parametrize("mode", [("close", way) for way in WAYS] +
                         [("hold", "900"), ("locks",), ("threads",), ("work",)])
def test_without_a_table_of_its_own(tmp_path, mode):
    unseen(tmp_path, *mode, refused=OWN_TABLE, MOST="900", DFTRACER_DATA_DIR=str(tmp_path))


def test_takes_no_low_number_even_for_a_moment(tmp_path):
    """Each program opens and lists some files while the writer begins: together they would meet it."""
    for i in range(25):
        (tmp_path / str(i)).mkdir()
        unseen(tmp_path / str(i), "close", "closefrom", refused=OWN_TABLE, MOST="900",
               DFTRACER_DATA_DIR=str(tmp_path))


def test_is_in_the_programs_table_only_where_it_must(tmp_path):
    """The last test would prove nothing if its filter did not reach the writer."""
    counts = []
    for refused in ((), OWN_TABLE):
        work = tmp_path / f"work{len(counts)}"
        work.mkdir()
        command = [TARGET, "close", work, "loop"]
        environment = harness.traced_environment(work / "t", work, **BUSY)
        if refused:
            preload = environment.pop("LD_PRELOAD")
            command = [TARGET, "filter", work, 1, *refused, "--", "/usr/bin/env",
                       f"LD_PRELOAD={preload}", *command]
        printed = harness.run(command, environment).stdout
        counts.append(sum(int(word) > 900 for word in re.findall(r"before:(.*)", printed)[0].split()))
        assert len(harness.events(harness.check_trace(work / "t.pfw"), "pread")) == 1500
    assert counts == [0, 2]


def own_calls():
    """All but those of which getpid(2) says that they are always successful: where processes have no
    pid, two of one clock tick have one name."""
    calls = subprocess.run([TARGET, "calls", "/"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    assert "getpid" in calls
    return [call for call in calls if call not in ("getpid", "getppid", "gettid", "geteuid")]


def check_unharmed(tmp_path, printed, errors):
    """The trace is complete, or what is wrong was said."""
    sweep(tmp_path)
    try:
        check_traces(tmp_path, printed)
    except (AssertionError, OSError, ValueError) as wrong:
        assert "pfw: " in errors, f"incomplete, and nothing was said: {wrong}"


@pytest.mark.parametrize("answer", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize("call", own_calls())
def test_call_refused(tmp_path, call, answer):
    printed, errors = run_both(tmp_path, "work", refused=(call,), answer=answer)
    check_unharmed(tmp_path, printed, errors)


# What a server lets go of when it has begun: it is traced on by what is there already.
LATE = ["close_range", "unshare", "fallocate", "flock", "fcntl", "fstatfs", "madvise", "mkdirat",
        "newfstatat", "openat", "prctl", "prlimit64", "process_vm_readv", "readlinkat", "unlinkat"]


@pytest.mark.parametrize("call", LATE)
def test_call_refused_later(tmp_path, call):
    printed, errors = run_both(tmp_path, "late", errno.EPERM, call)
    check_unharmed(tmp_path, printed, errors)


# ---- adoption: a trace is taken from the dead only ----

need_pid_namespaces = pytest.mark.skipif(
    not have("unshare", "-pf", "--mount-proc", "true"),
    reason="`unshare -pf --mount-proc` is not allowed here")


def repair(tmp_path, *prefix):
    return harness.run([*prefix, harness.PFW, "repair", tmp_path / "traces"],
                       harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")),
                       status=None)


def start(tmp_path, mode, *arguments, prefix=(), **variables):
    """The target, traced; it waits for a byte between its two halves."""
    work, spools = tmp_path / "work", tmp_path / "spools"
    for directory in (work, spools, tmp_path / "traces"):
        directory.mkdir()
    # The prefix is not traced: it hands LD_PRELOAD on.
    environment = harness.traced_environment(tmp_path / "traces" / "t", spools,
                                             **{**BUSY, **variables})
    preload = environment.pop("LD_PRELOAD")
    process = subprocess.Popen(
        [*prefix, "/usr/bin/env", f"LD_PRELOAD={preload}", str(TARGET), mode, str(work), *arguments],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"half\n"
    return process


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def child_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
        return int((children.read().split() or [process.pid])[0])


def has_writer(process):
    tasks = pathlib.Path(f"/proc/{child_of(process)}/task")
    return any(comm.read_text() == "pfw-writer\n" for comm in tasks.glob("*/comm"))


def go_on(process):
    printed, errors = process.communicate(b"\n", timeout=300)
    assert process.returncode == 0 and not errors, (printed, errors)
    return printed.decode()


INSIDE = ["unshare", "-pf", "--mount-proc"]


@need_pid_namespaces
@pytest.mark.parametrize("writer, adopter", [(INSIDE, []), ([], INSIDE), (INSIDE, INSIDE)],
                         ids=["writer inside", "adopter inside", "both, in two"])
@pytest.mark.parametrize("how", ["writing", "resting", "begun"])
def test_live_writer_is_left_alone(tmp_path, how, writer, adopter):
    """In another pid namespace its number says nothing, and only who writes has the trace's lock:
    not one at rest, nor one that has recorded nothing yet."""
    mode = ["begun"] if how == "begun" else ["halves", "500"]
    process = start(tmp_path, *mode, prefix=writer, DFTRACER_DATA_DIR=str(tmp_path),
                    **({"PFW_FLUSH_MS": "500"} if how == "resting" else {}))
    if how != "begun":
        wait_for(lambda: os.path.exists(tmp_path / "traces" / "t.pfw"))
    if how == "resting":
        wait_for(lambda: not has_writer(process))
    spools = os.listdir(tmp_path / "spools")
    found = repair(tmp_path, *adopter)
    assert os.listdir(tmp_path / "spools") == spools and spools, found
    check_traces(tmp_path, go_on(process))


@need_pid_namespaces
def test_killed_inside_is_adopted_from_outside(tmp_path):
    process = start(tmp_path, "halves", "500", prefix=INSIDE)
    os.kill(child_of(process), signal.SIGKILL)
    process.communicate(timeout=300)
    repair(tmp_path)
    lines = harness.check_trace(tmp_path / "traces" / "t.pfw", reasons=("recovered",))
    assert len(harness.events(lines, "pread")) == 500
    assert not os.listdir(tmp_path / "spools")


@pytest.mark.parametrize("child", ["sleeps", "works"])
@pytest.mark.parametrize("refused", [(), OWN_TABLE], ids=["own table", "shared table"])
def test_child_does_not_keep_its_dead_parents_trace(tmp_path, child, refused):
    """The child has the spool mapped, and inherits whatever lock is not let go."""
    prefix = [str(TARGET), "filter", str(tmp_path), "1", *refused, "--"] if refused else []
    process = start(tmp_path, "orphan", child, prefix=prefix)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=300)
    repair(tmp_path)
    lines = harness.check_trace(tmp_path / "traces" / "t.pfw", reasons=("recovered",))
    assert len(harness.events(lines, "pread")) == 500
    printed, errors = process.communicate(b"\n", timeout=300)
    assert not errors
    lines = [harness.check_trace(tmp_path / "traces" / name)
             for name in harness.trace_names(tmp_path / "traces") if name != "t.pfw"]
    counts = [len(harness.events(trace, "pread")) for trace in lines]
    assert sum(counts) == int(printed.split()[-1]) == (1000 if child == "works" else 500)
    assert not os.listdir(tmp_path / "spools")
