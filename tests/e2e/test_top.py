"""`pfw top`: what traced processes do now, held against what their traces say in the end."""
import collections
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

import pytest

import harness

# Does what it is told to, a line each: `N` reads of a file of its own, or a child that makes as many.
WORKER = """
import os, signal, sys
name = sys.argv[1]
with open(name, "wb") as file:
    file.write(bytes(4096))
fd = os.open(name, os.O_RDONLY)
def read(fd, count):
    for _ in range(count):
        os.pread(fd, 100, 0)
def child(count):
    fd = os.open(name + ".child", os.O_RDONLY | os.O_CREAT)
    read(fd, count)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
print("ready", flush=True)
for line in sys.stdin:
    *words, count = line.split()
    if not words:
        read(fd, int(count))
        print("done", flush=True)
        continue
    pid = os.fork()
    if not pid:
        child(int(count))
    os.waitpid(pid, os.WUNTRACED)
    print(pid, flush=True)
    sys.stdin.readline()
    os.kill(pid, signal.SIGCONT)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""

# Reads as fast as it can: a process, two children, and a child's child.
LOOP = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char page[512], go;
	int fd = open(argv[1], O_RDONLY);
	long count = atol(argv[2]);

	printf("ready\n");
	fflush(stdout);
	if (argc < 3 || read(0, &go, 1) != 1)
		return 1;
	fork();
	fork();
	for (long i = 0; i < count; i++)
		if (pread(fd, page, sizeof(page), i % 7) < 0)
			return 1;
	while (wait(NULL) > 0)
		;
	return 0;
}
"""


class Program:
    def __init__(self, top, *command, **variables):
        self.top = top
        environment = harness.traced_environment(top / "t", top, DFTRACER_DATA_DIR=str(top), **variables)
        self.process = subprocess.Popen([str(word) for word in command], cwd=top, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def tell(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def ask(self, word):
        self.tell(word)
        return self.answer()

    def answer(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(600) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


def worker(top, **variables):
    return Program(top, "/usr/bin/python3", "-c", WORKER, "data", **variables)


def loop(top, count, **variables):
    (top / "loop.c").write_text(LOOP)
    (top / "data").write_bytes(bytes(4096))
    harness.compile_c(top / "loop.c", top / "loop")
    return Program(top, top / "loop", top / "data", count, **variables)


def command(top, *words):
    return [harness.PFW, "top", *[str(word) for word in words]], harness.clean_environment(
        PFW_SPOOL_DIR=str(top))


def top_once(top, *words, status=0):
    line, environment = command(top, "--once", "--all", "-i", "0.2", "--format", "ndjson", *words)
    return [json.loads(row) for row in harness.run(line, environment, status=status).stdout.splitlines()]


def rows(sample, kind):
    return [row for row in sample if row["type"] == kind]


def row(sample, kind, key, value):
    found = [row for row in rows(sample, kind) if row[key] == value]
    assert len(found) == 1, (kind, value, sample)
    return found[0]


def counts(top):
    """What the traces say: calls and bytes by (name, category), and by file; events by process."""
    calls, files, events = collections.Counter(), collections.Counter(), collections.Counter()
    for path in sorted(top.glob("t*.pfw*")):
        for line in harness.read_lines(path):
            if line["ph"] == "M":
                continue
            events[line["pid"]] += 1
            calls[line["name"]] += 1
            files[line["args"].get("fname")] += 1
    return calls, files, events


def watch(top, *words):
    line, environment = command(top, "--all", "-i", "0.2", "--format", "ndjson", *words)
    return subprocess.Popen(line, env=environment, text=True, stdout=subprocess.PIPE)


def samples(lines):
    """The rows that were printed, in lists of one look each."""
    found = []
    for line in lines:
        row = json.loads(line)
        if row["type"] == "sample":
            found.append([])
        found[-1].append(row)
    return found


def by_name(sample, kind, key, figure):
    return {row[key]: row[figure] for row in rows(sample, kind)}


@pytest.mark.parametrize("compressed", ["0", "1"])
def test_totals_are_those_of_the_trace(tmp_path, compressed):
    """Of a program that waits: some lines are in the file, the others in the ring."""
    with worker(tmp_path, DFTRACER_TRACE_COMPRESSION=compressed, PFW_FLUSH_MS="600000") as program:
        assert program.ask("5000") == "done"
        first = top_once(tmp_path, program.pid)
        assert program.ask("70") == "done"
        second = top_once(tmp_path, tmp_path / "t")
        program.end()
    for sample, reads in ((first, 5000), (second, 5070)):
        call = row(sample, "call", "name", "pread")
        assert (call["calls_total"], call["bytes_total"], call["calls"]) == (reads, 100 * reads, 0)
        assert row(sample, "process", "pid", program.pid)["lost"] == 0
        assert rows(sample, "sample")[0]["processes"] == 1
    calls, files, _ = counts(tmp_path)
    assert calls["pread"] == 5070
    data = row(second, "file", "fname", str(tmp_path / "data"))
    # What comes later is the end of the file's use.
    assert 5070 < data["calls_total"] <= files[str(tmp_path / "data")]


@pytest.mark.parametrize("variables", [{}, {"DFTRACER_TRACE_COMPRESSION": "1"}, {"PFW_MIN_DUR": "1s"}],
                         ids=["plain", "compressed", "summed"])
def test_totals_at_the_end(tmp_path, variables):
    """A program and three children that read as fast as they can: nothing is missed or counted twice."""
    with loop(tmp_path, 60000, **variables) as program:
        view = watch(tmp_path, program.pid)
        first = view.stdout.readline()
        program.tell("g")
        program.end()
        text = view.stdout.read()
        assert view.wait(600) == 0
    seen = samples([first, *text.splitlines()])
    last = by_name(seen[-1], "call", "name", "calls_total")
    watched = {line["trace"]: line["calls_total"] for sample in seen for line in rows(sample, "process")}
    # A child that lives only between two looks is not seen.
    made = {}
    for path in tmp_path.glob("t*.pfw*"):
        made[str(path)] = sum(line["args"]["count"] if line["ph"] == "M" else 1
                              for line in harness.read_lines(path)
                              if line["cat"] in ("POSIX", "STDIO") or line["name"] == "summed")
    assert len(made) == 4 and set(watched) <= set(made)
    assert {path: made[path] for path in watched} == watched
    assert last["pread"] == 60000 * len(watched) or len(watched) < 4
    assert all(line["lost"] == 0 for sample in seen for line in rows(sample, "process"))
    assert all(line["complete"] for line in rows(seen[-1], "process"))
    # The intervals add up to the totals, but for what had been before the first.
    for name in last:
        total = sum(by_name(sample, "call", "name", "calls").get(name, 0) for sample in seen)
        assert last[name] - 20 <= total, name
        # Rings that could not be read at one look count at the next one.
        if all(line["complete"] for sample in seen for line in rows(sample, "process")):
            assert total <= last[name], name


def test_children_and_stopped_processes(tmp_path):
    with worker(tmp_path) as program:
        view = watch(tmp_path, program.pid)
        first = view.stdout.readline()
        child = int(program.ask("child 300"))
        sample = top_once(tmp_path, program.pid)
        assert row(sample, "process", "pid", child)["state"] == "stopped"
        assert row(sample, "process", "pid", program.pid)["state"] == "runs"
        assert row(sample, "file", "fname", f"{tmp_path}/data.child")["calls_total"] >= 300
        assert program.ask("on") == "gone"
        program.end()
        seen = samples([first, *view.stdout.read().splitlines()])
        assert view.wait(600) == 0
    states = [line["state"] for sample in seen for line in rows(sample, "process") if line["pid"] == child]
    assert "stopped" in states and states[-1] == "ended"
    last = [line for sample in seen for line in rows(sample, "process") if line["pid"] == child][-1]
    assert last["events"] == counts(tmp_path)[2][child] >= 300


def test_killed_while_watched(tmp_path):
    with worker(tmp_path, PFW_FLUSH_MS="600000") as program:
        view = watch(tmp_path, program.pid)
        first = view.stdout.readline()
        assert program.ask("3000") == "done"
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        seen = samples([first, *view.stdout.read().splitlines()])
        assert view.wait(600) == 0
    last = row(seen[-1], "process", "pid", program.pid)
    assert last["state"] == "killed" and last["reason"] == "recovered"
    assert row(seen[-1], "call", "name", "pread")["calls_total"] == 3000
    harness.run([harness.PFW, "repair", "-q", tmp_path], harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path)))
    calls, _, events = counts(tmp_path)
    assert calls["pread"] == 3000 and events[program.pid] == last["events"]


def test_messages(tmp_path):
    def says(*words):
        line, environment = command(tmp_path, "--once", "-i", "0.1", *words)
        result = harness.run(line, environment, status=None)
        assert result.stdout == "" and result.stderr.count("\n") == 1, result
        return result.returncode, result.stderr

    gone = subprocess.Popen(["true"])
    gone.wait()
    assert says(gone.pid) == (1, f"pfw top: {gone.pid}: no such process; `pfw table` shows the trace of one "
                                 "that has ended\n")
    status, text = says(os.getpid())
    assert status == 1 and "not traced" in text and "pfw run -- COMMAND" in text
    with worker(tmp_path) as program:
        program.ask("10")
        program.end()
    status, text = says(tmp_path / "t.pfw")
    assert status == 1 and "no process is writing this trace" in text and "pfw table" in text
    status, text = says("no-such-run")
    assert status == 1 and "no-such-run" in text
    for interval in ("0", "nan", "x", "-1", "1e9"):
        line, environment = command(tmp_path, "-i", interval)
        assert "0.1 to 3600" in harness.run(line, environment, status=2).stderr
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory(dir="/tmp") as place:  # where others may come
            os.chmod(place, 0o755)
            result = subprocess.run([shutil.copy(harness.PFW, place), "top", "--once", str(os.getpid())], user=65534,
                                    check=False, env=harness.clean_environment(), text=True, capture_output=True)
        assert result.returncode == 1 and "user 0" in result.stderr


def test_without_operands_and_by_run(tmp_path):
    with worker(tmp_path, PFW_FLUSH_MS="20") as program:
        program.ask("10")
        while not (tmp_path / "t.pfw").exists() or b"\n" not in (tmp_path / "t.pfw").read_bytes():
            time.sleep(0.02)
        everything = top_once(tmp_path)
        run = row(everything, "process", "pid", program.pid)
        names = {line["run"] for line in rows(everything, "rank")}
        assert run["program"] == "python3"
        mine = json.loads((tmp_path / "t.pfw").read_text().splitlines()[0])["args"]["run"]
        assert mine in names
        assert row(top_once(tmp_path, mine), "process", "pid", program.pid)
        assert row(top_once(tmp_path, tmp_path), "process", "pid", program.pid)
        assert row(top_once(tmp_path, tmp_path / "t.pfw"), "process", "pid", program.pid)
        program.end()


def test_tables_for_people(tmp_path):
    with worker(tmp_path) as program:
        program.ask("10")
        line, environment = command(tmp_path, "--once", "-i", "0.2", program.pid)
        text = harness.run(line, environment).stdout
        assert f"{program.pid}" in text and "Processes" in text and "\033" not in text
        assert " \n" not in text
        program.end()


@pytest.mark.skipif(not shutil.which("strace") or harness.RUNTIME != "", reason="no strace, or a runtime in between")
def test_nothing_is_written_or_signalled(tmp_path):
    with worker(tmp_path) as program:
        program.ask("100")
        line, environment = command(tmp_path, "--once", "-i", "0.1", program.pid)
        log = tmp_path / "strace"
        harness.run(["strace", "-f", "-o", log, "-e", "trace=openat,kill,tgkill,ptrace,process_vm_readv,"
                     "process_vm_writev,write,pwrite64,ftruncate,mmap", *line], environment)
        calls = log.read_text()
        opened = [call for call in calls.splitlines() if str(tmp_path) in call and "openat" in call]
        assert any("t.pfw" in call for call in opened) and any(".spool" in call for call in opened)
        assert all("O_RDONLY" in call for call in opened), opened
        assert "kill(" not in calls and "ptrace(" not in calls and "process_vm" not in calls
        program.end()
    assert pathlib.Path(tmp_path / "t.pfw").exists()


# ---- on a terminal ----

class Terminal:
    """`pfw top` on a terminal of its own."""

    def __init__(self, top, *words, size=(40, 120), **variables):
        line, environment = command(top, "-i", "0.2", *words)
        self.ours, theirs = pty.openpty()
        self.modes = termios.tcgetattr(self.ours)
        self.resize(*size, signal_it=False)
        self.process = subprocess.Popen(line, env={**environment, "TERM": "xterm", **variables}, stdin=theirs,
                                        stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.text = ""

    def resize(self, lines, columns, signal_it=True):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if signal_it:
            self.process.send_signal(signal.SIGWINCH)

    def read(self):
        if not select.select([self.ours], [], [], 0.1)[0]:
            return False
        try:
            text = os.read(self.ours, 1 << 16).decode("utf-8", "replace")
        except OSError:
            return False
        self.text += text
        return True

    def until(self, shown):
        """Wait for a frame of which shown(lines) is true, and forget those before."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            frames = self.text.split("\033[H")
            for i, frame in enumerate(frames):
                whole = i + 1 < len(frames) or frame.endswith("\033[J")
                if whole and shown(frame.replace("\033[K", "").replace("\r", "").split("\n")):
                    self.text = "\033[H".join(["", *frames[i + 1:]])
                    return frame
            self.read()
        raise AssertionError(self.text[-4000:])

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def end(self):
        """The exit status, and all that was written last."""
        while self.process.poll() is None or self.read():
            self.read()
        status, modes = self.process.wait(), termios.tcgetattr(self.ours)
        os.close(self.ours)
        assert modes == self.modes, "the terminal's modes are not what they were"
        assert "\033[?25h" in self.text and "\033[?1049l" in self.text.split("\033[J")[-1], self.text[-300:]
        return status


def has(*texts):
    return lambda lines: all(any(text in line for line in lines) for text in texts)


def test_keys(tmp_path):
    with worker(tmp_path) as program:
        program.ask("10")
        view = Terminal(tmp_path, program.pid)
        view.until(has("by calls", "Processes", str(program.pid), "every 200ms"))
        assert program.ask("500") == "done"
        view.until(has("pread", f"{tmp_path}/data", "500"))
        for key, order in zip("btnc", ("bytes", "time", "name", "calls")):
            view.type(key)
            view.until(has(f"by {order}"))
        view.type("+")
        view.until(has("every 400ms"))
        view.type("--")
        view.until(has("every 100ms"))
        view.type(" ")
        view.until(has("space go on"))
        view.type("zZ9\033[A")  # keys that mean nothing
        view.type("q")
        assert view.end() == 0
        program.end()


def test_sizes(tmp_path):
    """Whatever the size, no line is wider, and no frame is higher; thousands of files have their rows."""
    def fits(lines, columns):
        return lambda frame: len(frame) == lines and all(len(re.sub("\033.*?[mK]", "", line)) <= columns
                                                         for line in frame[:-1])

    files = "import os, sys\n" \
            "for i in range(3000):\n open(f'{sys.argv[1]}/f{i:04}', 'w').write('x' * i)\n" \
            "print('ready', flush=True)\nsys.stdin.read()\n"
    with Program(tmp_path, "/usr/bin/python3", "-c", files, tmp_path) as program:
        view = Terminal(tmp_path, "--all", "-s", "bytes", program.pid, size=(50, 100))
        frame = view.until(has("f2999"))
        assert frame.index("f2999") < frame.index("f2998") and "f0001" not in frame
        view.until(fits(50, 100))
        for size in ((24, 80), (10, 40), (3, 20), (1, 1), (60, 200)):
            view.resize(*size)
            view.until(lambda lines, size=size: len(lines) == size[0])
        view.until(has("f2999"))
        view.type("q")
        assert view.end() == 0
        program.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_put_the_terminal_back(tmp_path, number):
    with worker(tmp_path) as program:
        view = Terminal(tmp_path, program.pid)
        view.until(has("Processes"))
        if number == signal.SIGINT:
            view.type("\003")
        else:
            view.process.send_signal(number)
        assert view.end() == -number
        program.end()


def test_suspended_by_a_key(tmp_path):
    """Ctrl-Z gives the terminal back before the view stops.  This one has no shell that could continue it, so
    that the kernel does not stop it at all, and it draws on."""
    with worker(tmp_path) as program:
        view = Terminal(tmp_path, program.pid)
        view.until(has("Processes"))
        view.type("\032")
        view.until(lambda lines: "\033[?1049l" in "".join(lines))
        view.until(has("Processes"))
        view.type("q")
        assert view.end() == 0
        program.end()


def test_the_last_process_ends(tmp_path):
    """The view ends with it; of colours there are none where the user wants none."""
    with worker(tmp_path) as program:
        view = Terminal(tmp_path, program.pid, NO_COLOR="1")
        view.until(has("Processes"))
        program.end()
        text = ""
        while view.process.poll() is None:
            view.read()
            text = view.text
        assert view.end() == 0
        assert "has ended" in view.text and "\033[2m" not in text + view.text and "\033[0m" not in text


def test_output_is_the_same(tmp_path):
    """The program's output, and its trace, are those of a program that nobody watches."""
    def lines(watched):
        top = tmp_path / str(watched)
        top.mkdir()
        with worker(top) as program:
            view = watch(top, program.pid) if watched else None
            if view:
                view.stdout.readline()
            answers = [program.ask(str(count)) for count in (10, 2000, 300)]
            program.end()
            if view:
                view.stdout.read()
                assert view.wait(600) == 0
        trace = harness.check_trace(top / "t.pfw")
        return answers, [(line["name"], line["args"].get("ret")) for line in harness.events(trace, "pread", "open")]

    assert lines(True) == lines(False)
