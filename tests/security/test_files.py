"""Whose files are read, written and removed: docs/security.rst, by its headings."""
import fcntl
import gzip
import json
import os
import re
import sqlite3
import subprocess
import time

import pytest

from attack import (ALICE, DEAD, MALLORY, PYTHON, SPOOLS, Spool, as_user, end_line, event_lines, make_trace,
                    measured, needs_root, offsets, pfw, process_line, text_of, traced)
from harness import (PFW, RUNTIME, SOURCE, clean_environment, compile_c, events, read_lines, run,
                     traced_environment)

ESCAPE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def shim(tmp_path, body):
    """Preloaded into pfw: the host or the attacker at the one moment that matters."""
    source = tmp_path / "shim.c"
    source.write_text("#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n"
                      "#include <stdarg.h>\n#include <sys/file.h>\n#include <sys/mman.h>\n#include <sys/syscall.h>\n"
                      "#include <sys/wait.h>\n#include <unistd.h>\n" + body)
    library = compile_c(source, tmp_path / "shim.so", "-shared", "-fPIC")
    return clean_environment(LD_PRELOAD=f"{library}:{RUNTIME}" if RUNTIME else str(library))


# ---- nothing is removed but what is a trace, nothing through a link ----

@needs_root
def test_compact_removes_nothing_through_a_link(place):
    home, shared = place / "home", place / "shared"
    home.mkdir(), shared.mkdir()
    shared.chmod(0o2777)
    make_trace(home / "mine")
    (home / "dataset.jsonl").write_text('{"question":"a"}\n{"question":"b"}\n')
    (home / "config.json").write_text('{"a":1}')
    (home / "empty").touch()
    run(["chown", "-R", ALICE, home])
    before = content(home)
    for name in before:
        run(as_user(MALLORY, "ln", "-s", home / name, shared / f"{name}.pfw"))
    for path in sorted(shared.iterdir()):
        assert "symbolic link" in pfw("compact", path, user=ALICE, status=2).stderr
    assert "symbolic link" in pfw("compact", shared, user=ALICE, status=2).stderr
    assert content(home) == before and len(list(shared.iterdir())) == 4


def test_a_link_is_read_but_stays(tmp_path):
    trace = make_trace(tmp_path / "t.pfw")
    (tmp_path / "latest.pfw").symlink_to(trace)
    pfw("compact", tmp_path / "latest.pfw", "--keep")
    assert len(gzip.open(tmp_path / "latest.pfw.gz").readlines()) == len(trace.read_text().splitlines())
    assert (tmp_path / "latest.pfw").is_symlink() and trace.exists()


@pytest.mark.parametrize("text", ['{"question":"a"}\n{"question":"b"}\n', "once upon a time\n", "", "[\n]\n"])
def test_what_has_no_event_is_no_trace(tmp_path, text):
    (tmp_path / "notes.pfw").write_text(text)
    done = pfw("compact", tmp_path / "notes.pfw", status=2)
    assert "not a trace" in done.stderr and content(tmp_path) == {"notes.pfw": text.encode()}
    make_trace(tmp_path / "t.pfw")
    pfw("compact", tmp_path, status=1)
    assert sorted(content(tmp_path)) == ["notes.pfw", "t.manifest.json", "t.pfw.gz", "t.pfw.gz.idx"]


def test_a_file_with_the_name_of_an_index_stays(tmp_path):
    make_trace(tmp_path / "t.pfw")
    (tmp_path / "t.pfw.idx").write_text("my thesis")
    pfw("compact", tmp_path / "t.pfw")
    assert not (tmp_path / "t.pfw").exists() and (tmp_path / "t.pfw.idx").read_text() == "my thesis"


@needs_root
def test_all_or_nothing_in_a_sticky_directory(place):
    shared = place / "s"
    shared.mkdir()
    shared.chmod(0o1777)
    for rank, user in enumerate((ALICE, MALLORY)):
        make_trace(shared / f"t-rank000{rank}.pfw", user, pid=500 + rank, rank=rank)
    before = content(shared)
    for _ in range(2):
        assert "another user" in pfw("compact", shared, user=ALICE, status=2).stderr
        assert content(shared) == before
    pfw("compact", shared)  # root may


# ---- what may be alive stays ----

IDLE = """
import os, sys, time
for i in range(60): os.stat('/tmp')
open(READY, 'w').close()
sys.stdin.buffer.raw.read(1)
for i in range(1000): os.stat('/tmp')
"""


def unlocked(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("spool", [True, False])
def test_an_idle_writer_whose_spool_is_elsewhere(tmp_path, spool):
    (tmp_path / "log").mkdir(), (tmp_path / "spools").mkdir()
    ready, trace = tmp_path / "ready", tmp_path / "log" / "t.pfw"
    program = traced(tmp_path / "log" / "t", tmp_path / "spools", IDLE.replace("READY", repr(str(ready))))
    try:
        while not (ready.exists() and trace.exists() and trace.stat().st_size and unlocked(trace)):
            assert program.poll() is None
            time.sleep(0.02)
        # Its writer keeps no lock while it is idle: without a spool the pid alone tells.
        hidden = tmp_path / "spools"
        if not spool:
            hidden = hidden.rename(tmp_path / "hidden")
        for more in ([], ["--force"]):
            done = pfw("compact", *more, trace, status=2)
            assert "still being written" in done.stderr and "runs" in done.stderr
        assert os.listdir(trace.parent) == ["t.pfw"]
        hidden.rename(tmp_path / "spools")
    finally:
        program.communicate(b"x")
    assert len(events(read_lines(trace), "stat")) >= 1060
    pfw("compact", trace)


NFS = """
int flock(int fd, int op)
{
	if ((op & LOCK_EX) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
		return -1;
	}
	return syscall(SYS_flock, fd, op);
}
int fcntl(int fd, int op, ...)
{
	va_list args;
	va_start(args, op);
	long value = va_arg(args, long);
	va_end(args);
	if (op == F_SETLEASE) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_fcntl, fd, op, value);
}
"""


def test_locks_as_nfs_has_them(tmp_path):
    environment = shim(tmp_path, NFS)
    trace = make_trace(tmp_path / "t.pfw")
    with open(trace, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run([PFW, "compact", trace], environment, status=2)
        assert "still being written" in done.stderr and trace.exists()
        assert "still being written" in run([PFW, "index", trace], environment, status=None).stderr
    run([PFW, "compact", trace], environment)


def test_a_file_that_is_open_for_writing_stays(tmp_path):
    """Other tracers lock nothing."""
    (tmp_path / "d.pfw").write_text("[\n" + text_of(event_lines()))
    with open(tmp_path / "d.pfw", "ab"):
        assert "still being written" in pfw("compact", tmp_path / "d.pfw", status=2).stderr
    pfw("compact", tmp_path / "d.pfw")


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "1000"]) as sleep:
        yield sleep
        sleep.kill()


def test_a_living_pid_without_a_spool(tmp_path, sleeper):
    start = time.time() * 1e6
    trace = make_trace(tmp_path / "t.pfw", ended=False, pid=sleeper.pid, start=start)
    for more in ([], ["--force"]):
        assert f"process {sleeper.pid} runs" in pfw("compact", *more, trace, status=2).stderr
    # A pid that was given again is another process; in a container the other may live outside.
    other = make_trace(tmp_path / "u.pfw", ended=False, pid=sleeper.pid, start=start - 3600e6)
    if os.readlink("/proc/self/ns/pid") == "pid:[4026531836]":
        pfw("compact", other, status=1)
    else:
        assert "outside of this container" in pfw("compact", other, status=2).stderr
    sleeper.kill()
    sleeper.wait()
    pfw("compact", "--force", trace, status=1)


def test_what_cannot_be_known_is_not_dead(tmp_path):
    trace = make_trace(tmp_path / "t.pfw", ended=False, pid=DEAD, host="elsewhere")
    assert "cannot be seen" in pfw("compact", trace, status=2).stderr and trace.exists()
    pfw("compact", "--force", trace, status=1)
    assert not trace.exists()
    earlier = make_trace(tmp_path / "u.pfw", ended=False, pid=os.getpid(), boot="an-earlier-boot")
    pfw("compact", earlier, status=1)


# ---- a spool is its owner's claim ----

DROP = """
import ctypes, os, signal, sys
os.open('/etc/hostname', os.O_RDONLY)
os.setgroups([]); os.setresgid(31002, 31002, 31002); os.setresuid(31002, 31002, 31002)
for line in open('/proc/self/maps'):
    at = int(line.split('-')[0], 16)
    if 'rw-s' in line and ctypes.c_uint64.from_address(at).value == 0x4c4f4f5053574650:
        break
else:
    sys.exit('its spool is not mapped')
path = sys.argv[1].encode() + b'\\0'
ctypes.memmove(at + 4096, path, len(path))
ctypes.c_uint32.from_address(at + int(sys.argv[2])).value = int(sys.argv[3])
if sys.argv[3] == '1':
    ctypes.memset(at + int(sys.argv[4]), 0, 2 * 112)
for i in range(50): os.stat('/tmp')
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_root
@pytest.mark.parametrize("made", [0, 1])
def test_a_process_that_dropped_root_steers_nothing_of_roots(place, made):
    closed, out = place / "closed", place / "out"
    closed.mkdir(), out.mkdir()
    closed.chmod(0o700)
    victim = closed / ("secret" if made else "planted.pfw")
    if made:
        victim.write_text("secret")
    before = content(closed)
    at = offsets(place)
    done = run([PFW, "run", "-o", out / "t", "--all", "--", PYTHON, "-S", "-E", "-c", DROP, victim, at["file_made"],
                made, at["slot"]], clean_environment(PFW_FLUSH_MS="60000"), status=None)
    assert done.returncode == 128 + 9, done.stderr
    assert content(closed) == before, done.stderr
    for spool in re.findall(r"/\S*pfw-\S*\.spool", done.stderr):
        os.unlink(spool)
    left = [path for path in SPOOLS.glob("pfw-0-*.spool") if str(victim).encode() in path.read_bytes()]
    assert left
    for path in left:
        pfw("repair", path, status=2)
        assert content(closed) == before
        path.unlink()


@needs_root
def test_root_adopts_without_its_groups(place):
    closed = place / "closed"
    closed.mkdir()
    os.chown(closed, 0, 4242)
    closed.chmod(0o770)
    with Spool(place, MALLORY, closed / "planted.pfw", rings=1, capacity=64) as spool:
        run(["setpriv", "--groups", "4242,0", PFW, "repair", spool], status=None)
        assert os.listdir(closed) == []


@needs_root
def test_root_makes_a_trace_only_where_it_was_told(place):
    with Spool(place, 0, place / "t.pfw", rings=1, capacity=64, chunks=templates(place)) as spool:
        assert "root writes no file" in pfw("repair", spool, status=2).stderr and not (place / "t.pfw").exists()
        pfw("repair", place)
        assert (place / "t.pfw").exists()


@needs_root
@pytest.mark.parametrize("how", ["spool", "--all"])
def test_root_repairs_what_is_its_own(tmp_path, how):
    """A killed program of root's, whose trace names the spool: no directory has to be named."""
    base = tmp_path / "t"
    code = "import os, sys\nfor i in range(50): os.pread(3, 1, 0)\nos.kill(os.getpid(), 9)"
    with open("/etc/passwd", "rb") as file:
        os.dup2(file.fileno(), 3)
        subprocess.run([PYTHON, "-c", code], env=traced_environment(base, SPOOLS, PFW_FLUSH_MS="20"),
                       pass_fds=[3], check=False)
    spool = json.loads(base.with_suffix(".pfw").read_text().splitlines()[0])["args"]["spool"]
    assert os.path.exists(spool)
    pfw("repair", spool if how == "spool" else how, status=None)
    assert not os.path.exists(spool)
    assert read_lines(base.with_suffix(".pfw"))[-1]["args"]["reason"] == "recovered"


def templates(directory):
    """A table of templates: one name, no fields."""
    del directory
    chunk = bytearray(8192)
    chunk[:16] = (1).to_bytes(4, "little") + bytes(4) + (8192).to_bytes(8, "little")
    chunk[16:24] = (1).to_bytes(4, "little") + (1).to_bytes(4, "little")
    chunk[32:34] = b"fd"
    return bytes(chunk)


# ---- other users' files ----

@needs_root
def test_another_users_spool_blocks_nothing(place):
    home = place / "v"
    home.mkdir()
    os.chown(home, ALICE, ALICE)
    trace = make_trace(home / "t.pfw", ALICE)
    with Spool(place, MALLORY, trace, mode=0o644):
        assert "finished, nothing to do" in pfw("repair", trace, user=ALICE).stdout
        pfw("validate", home, user=ALICE)
        pfw("compact", trace, user=ALICE)
        assert not trace.exists()
    # Nor one that has her process's name.
    unfinished = make_trace(home / "u.pfw", ALICE, ended=False, pid=DEAD)
    with Spool(place, MALLORY, unfinished, mode=0o644) as spool:
        named = spool.rename(f"/dev/shm/pfw-{ALICE}-{DEAD}-1.spool")
        try:
            assert "no spool of its process" in pfw("repair", unfinished, user=ALICE, status=1).stderr
        finally:
            named.unlink()


@needs_root
def test_another_users_index_is_not_believed(place):
    shared = place / "s"
    shared.mkdir()
    shared.chmod(0o1777)
    trace = make_trace(shared / "t.pfw", ALICE)
    true = pfw("query", "--count", trace, user=ALICE).stdout
    pfw("index", trace)
    index = shared / "t.pfw.idx"
    with sqlite3.connect(index) as database:
        database.execute("UPDATE block SET lines = 999")
        database.execute("UPDATE name SET count = 999")
        database.execute("UPDATE meta SET events = 999, lines = 999")
    database.close()
    os.chown(index, MALLORY, MALLORY)
    for command in (["query", "--count"], ["table", "--format", "csv"], ["patterns", "--format", "csv"]):
        os.chown(index, MALLORY, MALLORY)
        with_index = pfw(*command, trace, user=ALICE).stdout
        assert "999" not in with_index
    assert pfw("query", "--count", trace, user=ALICE).stdout == true


@needs_root
def test_validate_loads_no_strangers_spools(place):
    home = place / "v"
    home.mkdir()
    os.chown(home, ALICE, ALICE)
    with Spool(place, MALLORY, home / "x.pfw", mode=0o644, rings=8):
        done = pfw("validate", home, user=ALICE, status=2)
        assert "x.pfw" not in done.stdout + done.stderr


@pytest.mark.skipif(bool(RUNTIME), reason="the runtime's memory is counted, too")
def test_a_spool_takes_memory_as_its_disk_does(place):
    user = os.geteuid()
    with Spool(place, user, place / "x.pfw", rings=8, chunks=templates(place)) as spool:
        assert spool.stat().st_blocks * 512 < 100_000 and spool.stat().st_size > 500_000_000
        for command in (["validate", place], ["repair", place]):
            _, _, used = measured(*command)
            assert used < 160 << 10, (command, used)


TRUNCATES = """
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *map = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
	if (fd >= 0 && (flags & MAP_TYPE) == MAP_SHARED && (prot & PROT_WRITE))
		ftruncate(fd, 0);
	return map;
}
"""


@pytest.mark.skipif(bool(RUNTIME), reason="the runtime maps before the shim can")
def test_a_spool_that_is_cut_while_it_is_adopted(place):
    environment = shim(place, TRUNCATES)
    with Spool(place, os.geteuid(), place / "t.pfw", rings=1, capacity=64, chunks=templates(place)):
        done = run([PFW, "repair", place], environment, status=None)
        assert done.returncode in (0, 1, 2), done.returncode
        assert "it lives" in done.stderr


BREAKS_LEASES = """
int fcntl(int fd, int op, ...)
{
	va_list args;
	va_start(args, op);
	long value = va_arg(args, long);
	va_end(args);
	int result = syscall(SYS_fcntl, fd, op, value);
	if (op == F_SETLEASE && value != F_UNLCK && result == 0) {
		char path[64] = "/proc/self/fd/000";
		path[14] += fd / 100, path[15] += fd / 10 % 10, path[16] += fd % 10;
		for (char *from = path + 14, *to = path + 14; (*to = *from); from++)
			to += to != path + 14 || *from != '0';
		if (!fork()) {
			open(path, O_RDWR | O_NONBLOCK);
			_exit(0);
		}
		wait(0);
		write(2, "broken\\n", 7);
	}
	return result;
}
"""


def test_a_lease_that_is_broken_kills_nobody(tmp_path):
    environment = shim(tmp_path, BREAKS_LEASES)
    trace = make_trace(tmp_path / "t.pfw")
    done = run([PFW, "compact", trace], environment, status=None)
    assert "broken" in done.stderr and done.returncode in (0, 2), done.returncode


# ---- types, messages, permissions ----

def test_what_a_trace_names_is_looked_at_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo.spool")
    for spool in ("/dev/ptmx", str(tmp_path / "fifo.spool"), "/dev", "/dev/stdin"):
        trace = make_trace(tmp_path / "t.pfw", ended=False, spool=spool, pid=DEAD)
        for command in (["query", "--count"], ["validate"], ["table"], ["compact", "-o", str(tmp_path / "o"), "--force"]):
            log = tmp_path / "log"
            run(["strace", "-f", "-e", "trace=open,openat,openat2", "-o", log, PFW, *command, trace], status=None)
            opened = [line for line in log.read_text().splitlines() if f'"{spool}"' in line]
            assert opened and all("O_PATH" in line for line in opened), opened


EVIL = "\x1b]0;PWN\x07\u009b2J"


@needs_root
def test_a_spools_host_reaches_no_terminal(place):
    with Spool(place, MALLORY, place / "x\x1b]0;PWN\x07.pfw", host=b"\x1b]0;PWNED\x07\x1b[2J\xc2\x9b2J") as spool:
        for command in (["repair", spool], ["repair", place], ["validate", place]):
            done = pfw(*command, status=None)
            assert not ESCAPE.search(done.stdout + done.stderr), (command, done)
        assert "PWNED" in pfw("repair", spool, status=1).stderr


def test_a_traces_texts_reach_no_terminal(tmp_path):
    lines = [process_line(run_name="r" + EVIL, host="h" + EVIL, rank_source="none" + EVIL, cmd="c" + EVIL),
             {"id": 2, "name": "thread_name", "cat": "pfw", "pid": 77, "tid": 77, "ts": 1000.0, "ph": "M",
              "args": {"name": "th" + EVIL}},
             *event_lines(), {**event_lines(1)[0], "name": "read" + EVIL, "args": {"fname": "/x" + EVIL}},
             {**event_lines(1)[0], "cat": "PP", "name": "k" + EVIL,
              "args": {"kind": "kernel", "stream": 7, "device": EVIL}},
             {"id": 9, "name": "lost", "cat": "pfw", "pid": 77, "tid": 77, "ts": 2002.0, "ph": "M",
              "args": {"count": 3, "reason": "full" + EVIL}},
             {**end_line(), "args": {"events": 5, "lost": 3, "reason": "exit" + EVIL}}]
    trace = tmp_path / f"t{EVIL}.pfw"
    trace.write_text(text_of(lines))
    for command in (["table"], ["table", "-g", "fname"], ["table", "-g", "cat"], ["overlap"], ["patterns"], ["memory"],
                    ["validate"], ["index"], ["compact", "--keep"], ["compare", trace], ["repair"], ["query", "--count"],
                    ["report", "--force", "-o", tmp_path / "r.html"]):
        done = pfw(*command, trace, status=None)
        assert not ESCAPE.search(done.stdout + done.stderr), (command, done)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_what_is_made_of_a_trace_has_its_permissions(tmp_path, mode):
    trace = make_trace(tmp_path / "t.pfw", mode=mode)
    made = {}
    for name in ("chrome", "perfetto", "csv", "folded", "dftracer"):
        pfw("export", "--format", name, "-o", tmp_path / name, trace)
        made[name] = tmp_path / name
    pfw("query", "-o", tmp_path / "q", trace)
    pfw("import", "-o", tmp_path / "i.pfw", made["chrome"])
    pfw("compact", "-o", tmp_path / "o", trace)
    pfw("report", "-o", tmp_path / "r", trace)
    paths = [tmp_path / "r", *made.values(), tmp_path / "q", tmp_path / "i.pfw", *(tmp_path / "o").iterdir()]
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in paths} == {path.name: oct(mode) for path in paths}


# ---- one function opens ----

def test_files_are_opened_in_one_place():
    """Temporary files without a name and /proc are no files of anybody."""
    allowed = {"src/store/sys/open.c", "src/store/sys/spill.c", "src/store/sys/proc.c"}
    opening = re.compile(r"\b(?:open|openat|fopen|freopen|creat)\(([^;]*)")
    found = set()
    for directory in ("src/store", "tools"):
        for path in (SOURCE / directory).rglob("*.c"):
            code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            for match in opening.finditer(code):
                if not re.match(r'"/(proc|dev/null)', match[1]):
                    found.add(str(path.relative_to(SOURCE)))
    assert found - allowed == {"tools/ui/output.c"}, "see src/store/sys/open.h"
