"""The bar on standard error: there for who waits at a terminal, gone at the end, else never."""
import os
import pty
import select
import subprocess
import time

PFW = os.environ["PFW_BIN"]
LINE = b'{"id":1,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":1.000,"dur":1.000,"ph":"X",' \
       b'"args":{}}\n'
CHUNK = LINE * 5000
PATIENCE = 60


def read_some(fd):
    ready, _, _ = select.select([fd], [], [], 0.05)
    if not ready:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:  # Linux says EIO where nobody has the other end any more
        return b""


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
    while piece := read_some(parent):
        shown += piece
    os.close(parent)
    assert count == fed
    return shown


def test_bar_is_shown_and_taken_away():
    shown = query()
    assert b"\rquery  " in shown and b"iB/s" in shown
    assert shown.endswith(b"\r\x1b[K")
    for drawn in shown.split(b"\r"):
        assert len(drawn.replace(b"\x1b[K", b"")) < 80


def test_no_bar_when_quiet_or_dumb():
    assert query(["--quiet"]) == b""
    assert query(TERM="dumb") == b""


def test_no_bar_without_a_terminal():
    result = subprocess.run([PFW, "query", "--count", "-"], input=CHUNK * 60, capture_output=True,
                            check=True, env={**os.environ, "TERM": "xterm"})
    assert result.stderr == b"" and int(result.stdout) == 300000
