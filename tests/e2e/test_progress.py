"""The bar on standard error: there for who waits at a terminal, gone at the end, else never.  And
Ctrl-C at that terminal: what was begun is put away."""
import fcntl
import os
import pty
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest

PFW = os.environ["PFW_BIN"]
LINE = b'{"id":1,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":1.000,"dur":1.000,"ph":"X",' \
       b'"args":{}}\n'
CHUNK = LINE * 5000
PATIENCE = 60
GONE = b"\r\x1b[K"


def read_some(fd):
    ready, _, _ = select.select([fd], [], [], 0.05)
    if not ready:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:  # Linux says EIO where nobody has the other end any more
        return b""


def read_rest(fd):
    shown = b""
    while piece := read_some(fd):
        shown += piece
    os.close(fd)
    return shown


def query(arguments=(), **environment):
    """pfw query of a pipe that is fed until a bar was seen, or two seconds have passed; what came
    on the terminal, and how many lines there were."""
    parent, child = pty.openpty()
    process = subprocess.Popen([PFW, "query", "--count", *arguments, "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=child,
                               env={**os.environ, "TERM": "xterm", **environment})
    os.close(child)
    shown, fed, since = b"", 0, time.monotonic()
    patience = 2 if arguments or environment else PATIENCE
    while b"\r" not in shown and time.monotonic() - since < patience:
        process.stdin.write(CHUNK)
        fed += 5000
        shown += read_some(parent)
    process.stdin.close()
    count = int(process.stdout.read())
    assert process.wait() == 0
    shown += read_rest(parent)
    assert count == fed
    return shown


def test_bar_is_shown_and_taken_away():
    shown = query()
    assert b"\rquery  " in shown and b"iB/s" in shown
    assert shown.endswith(GONE)
    for drawn in shown.split(b"\r"):
        assert len(drawn.replace(b"\x1b[K", b"")) < 80


def test_no_bar_when_quiet_or_dumb():
    assert query(["--quiet"]) == b""
    assert query(TERM="dumb") == b""


def test_no_bar_without_a_terminal():
    result = subprocess.run([PFW, "query", "--count", "-"], input=CHUNK * 60, capture_output=True,
                            check=True, env={**os.environ, "TERM": "xterm"})
    assert result.stderr == b"" and int(result.stdout) == 300000


# ---- all commands that take long ----

WRITERS = {"compact": ["-o", "out", "t.pfw"], "index": ["t.pfw"],
           "query": ["-o", "out", "t.pfw"], "table": ["--plain", "t.pfw"]}


def start_at_terminal(name, directory):
    """The command with a terminal of its own, and that terminal's other end."""
    parent, child = pty.openpty()

    def take_terminal():
        fcntl.ioctl(child, termios.TIOCSCTTY, 0)
    process = subprocess.Popen([PFW, name, *WRITERS[name]], cwd=directory, stdin=child,
                               stdout=subprocess.DEVNULL, stderr=child, start_new_session=True,
                               preexec_fn=take_terminal, env={**os.environ, "TERM": "xterm"})
    os.close(child)
    return process, parent


def run_until_bar(process, terminal):
    """Let it run for 5 ms each quarter of a second, so that it takes long on any machine; it is left stopped."""
    shown = b""
    while b"\r" not in shown and process.poll() is None:
        process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.25)
        shown += read_some(terminal)
    return shown


def stopped_with_bar(name, directory):
    """(the command, stopped behind its first bar, its terminal, what that has shown).  The 5 ms may be
    half a second where the machine has more to do, and the command over: then once more."""
    for _ in range(50):
        process, terminal = start_at_terminal(name, directory)
        shown = run_until_bar(process, terminal)
        if process.poll() is None:
            return process, terminal, shown
        os.close(terminal)
        for path in directory.iterdir():
            if path.name == "out" and path.is_dir():
                shutil.rmtree(path)
            elif path.name != "t.pfw":
                path.unlink()
    raise AssertionError(f"{name} is always over before there is a bar")


@pytest.fixture(name="directory")
def directory_with_trace(tmp_path):
    (tmp_path / "t.pfw").write_bytes(LINE * 400_000)
    return tmp_path


@pytest.mark.parametrize("name", WRITERS)
def test_every_command_that_takes_long_has_one(directory, name):
    process, terminal, shown = stopped_with_bar(name, directory)
    process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE) == 0
    shown += read_rest(terminal)
    assert b"\r%s  " % name.encode() in shown and b"iB/s" in shown and b"%" in shown
    assert shown.endswith(GONE)


@pytest.mark.parametrize("name", WRITERS)
def test_ctrl_c_leaves_nothing_half_made(directory, name):
    process, terminal, shown = stopped_with_bar(name, directory)
    os.write(terminal, b"\x03")
    process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE) == -signal.SIGINT
    shown += read_rest(terminal)
    assert b"\r%s  " % name.encode() in shown and shown.replace(b"^C", b"").endswith(GONE)
    # The directory that -o names was made before anything else.
    left = [path.name for path in directory.rglob("*") if path.is_file()]
    assert left == ["t.pfw"] and (directory / "t.pfw").read_bytes() == LINE * 400_000
