"""Sockets, pipes and waiting: nothing that a program touches is without a name, and nothing that it
does comes out differently."""
import json
import re
import socket

import pytest

from harness import PFW, check_trace, clean_environment, compile_c, events, run, trace_names, traced_environment

PYTHON = "/usr/bin/python3"

# Two ranks that exchange what a collective does, by sockets of all kinds.
RANKS = r"""
import multiprocessing, os, select, socket, sys
where = sys.argv[1]

def rank1(port, path, pipe):
    peer = socket.create_connection(("127.0.0.1", port))
    for n in range(3):
        block = peer.recv(1 << 16, socket.MSG_WAITALL if n else 0)
        while len(block) < 1 << 16:
            block += peer.recv((1 << 16) - len(block))
        peer.sendall(block[:10])
    other = socket.socket(socket.AF_UNIX)
    other.connect(path)
    other.sendmsg([b"ab", b"cde"])
    pipe.send("over")

def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    named = socket.socket(socket.AF_UNIX)
    named.bind(where + "/sock")
    named.listen()
    mine, theirs = multiprocessing.Pipe()
    port = listener.getsockname()[1]
    child = multiprocessing.get_context("fork").Process(
        target=rank1, args=(port, where + "/sock", theirs))
    child.start()
    peer, address = listener.accept()
    poller = select.epoll()
    poller.register(peer.fileno(), select.EPOLLIN)
    for n in range(3):
        peer.sendall(bytes(1 << 16))
        poller.poll()
        assert len(peer.recv(10, socket.MSG_WAITALL)) == 10
    select.select([named], [], [])
    local, _ = named.accept()
    print(local.recv(5, socket.MSG_WAITALL), mine.recv())
    child.join()
    print(child.exitcode, file=sys.stderr)
    with open(where + "/ports", "w") as file:
        file.write(f"{port} {address[1]}")

main()
"""


def touched(line):
    """Whether a call is on something that has a name: not those on the process itself."""
    return "fd" in line["args"] or line["cat"] == "NET"


def traced(tmp_path, command, **variables):
    """Run it with and without the tracer: the same output.  Return the lines of all its traces."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "traced").mkdir()
    plain = run([*command, tmp_path / "plain"], clean_environment())
    with_us = run([*command, tmp_path / "traced"],
                  traced_environment(tmp_path / "t", tmp_path, **variables))
    assert (plain.stdout, plain.stderr) == (with_us.stdout, with_us.stderr)
    return [line for name in trace_names(tmp_path) for line in check_trace(tmp_path / name)]


def test_two_ranks(tmp_path):
    lines = traced(tmp_path, [PYTHON, "-c", RANKS])
    port, client = (tmp_path / "traced" / "ports").read_text().split()
    calls = events(lines)
    assert not [line for line in calls if touched(line) and not line["args"]["fname"] and
                line["args"]["ret"] >= 0]
    by_name = {}
    for line in calls:
        by_name.setdefault((line["cat"], line["name"]), set()).add(line["args"]["fname"])
    server, unix = f"socket:[tcp 127.0.0.1:{port}", f"socket:[unix {tmp_path}/traced/sock"
    assert by_name["NET", "connect"] == {server + "]", unix + "]"}
    assert by_name["NET", "accept4"] == {server + " listen]", unix + " listen]"}
    assert by_name["NET", "recv"] == {server + "]", f"socket:[tcp 127.0.0.1:{client}]", unix + "]"}
    assert by_name["NET", "send"] == {server + "]", f"socket:[tcp 127.0.0.1:{client}]"}
    assert by_name["NET", "sendmsg"] == {unix + "]"}
    assert by_name["NET", "epoll_wait"] == {"anon_inode:[eventpoll]"}
    assert by_name["POSIX", "close"] & {server + "]", server + " listen]", unix + "]"}
    rows = [json.loads(line) for line in run(
        [PFW, "table", "--group-by", "fname,name", "--format", "ndjson", "--row-limit", "-1",
         *sorted(tmp_path.glob("t*.pfw"))]).stdout.splitlines()]
    sent = {row["fname"]: row["bytes"] for row in rows if row.get("name") == "send"}
    assert sent == {f"socket:[tcp 127.0.0.1:{client}]": 3 << 16, server + "]": 30}
    # Nor is their time I/O of files, from lines as from an index.
    text = [run([PFW, "table", *option, *sorted(tmp_path.glob("t*.pfw"))]).stdout for option in ([], ["--no-index"])]
    apart = [re.search(r"sockets and waiting (.*) \(.*\)\n(?s:.*)\1 of it on sockets and waiting", page)[1] for page in text]
    assert apart[0] == apart[1]
    # Bytes of sockets are no bytes of files.
    files = [json.loads(line) for line in run(
        [PFW, "patterns", "--format", "ndjson", "--row-limit", "-1",
         *sorted(tmp_path.glob("t*.pfw"))]).stdout.splitlines()]
    assert not [row for row in files if re.match(r"socket:|pipe:|fds:|dns:", row.get("fname") or "")]


def test_net_can_be_left_out(tmp_path):
    """Names stay right: connect() is looked at in any case."""
    lines = traced(tmp_path, [PYTHON, "-c", RANKS], PFW_NET="0")
    assert not [line for line in lines if line["cat"] == "NET"]
    port = (tmp_path / "traced" / "ports").read_text().split()[0]
    assert {f"socket:[tcp 127.0.0.1:{port}]", f"socket:[tcp 127.0.0.1:{port} listen]"} <= {
        line["args"]["fname"] for line in events(lines, "close")}


@pytest.mark.parametrize("variables", [{"DFTRACER_DISABLE_POSIX": "1"}, {"PFW_CALLS": "read"},
                                       {"DFTRACER_DATA_DIR": "/etc"}])
def test_what_leaves_files_out_leaves_sockets_out(tmp_path, variables):
    lines = traced(tmp_path, [PYTHON, "-c", RANKS], **variables)
    assert not [line for line in lines if line["cat"] == "NET"]


NAMES = r"""
import errno, os, select, socket, sys
six = socket.socket(socket.AF_INET6)
six.bind(("::1", 0))
six.listen()
late = socket.socket(socket.AF_INET6)
late.setblocking(False)
assert late.connect_ex(("::1", six.getsockname()[1])) in (0, errno.EINPROGRESS)
select.select([], [late], [])
os.write(late.fileno(), b"six")
mapped = socket.socket(socket.AF_INET6)
four = socket.socket()
four.bind(("0.0.0.0", 0))
four.listen()
mapped.connect(("::ffff:127.0.0.1", four.getsockname()[1]))
os.write(mapped.fileno(), b"mapped")
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.sendto(b"to", ("127.0.0.1", 9))
again = socket.socket(type=socket.SOCK_DGRAM)
again.connect(("127.0.0.1", 9))
again.connect(("127.0.0.2", 9))
try:
    os.write(again.fileno(), b"again")
except ConnectionRefusedError:
    pass
abstract = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
abstract.bind("\0pfw test %d" % os.getpid())
os.set_blocking(abstract.fileno(), False)
try:
    abstract.recv(1)
except BlockingIOError:
    pass
pair = socket.socketpair()
os.write(pair[0].fileno(), b"pair")
number = pair[0].fileno()
os.dup2(late.fileno(), number)  # the number is another socket now
os.write(number, b"dup")
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
link.bind((0, 0))
print(six.getsockname()[1], four.getsockname()[1], os.getpid(), late.getsockname()[1], file=open(sys.argv[1] + "/out", "w"))
"""


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine")
def test_names(tmp_path):
    lines = traced(tmp_path, [PYTHON, "-c", NAMES])
    six, four, pid, _ = (tmp_path / "traced" / "out").read_text().split()
    said = [(line["name"], line["args"]["fname"]) for line in events(lines, "write", "recv")
            if not line["args"]["fname"].startswith("/")]
    assert said == [("write", f"socket:[tcp [::1]:{six}]"), ("write", f"socket:[tcp 127.0.0.1:{four}]"),
                    ("write", "socket:[udp 127.0.0.2:9]"), ("recv", f"socket:[unix @pfw test {pid}]"),
                    ("write", "socket:[unix]"), ("write", f"socket:[tcp [::1]:{six}]")]
    assert {line["args"]["fname"] for line in events(lines, "listen")} == {
        f"socket:[tcp [::1]:{six} bound]", f"socket:[tcp *:{four} bound]"}
    assert {line["args"]["fname"] for line in events(lines, "sendto")} == {"socket:[udp]"}
    assert ("bind", "socket:[netlink]") in {(line["name"], line["args"]["fname"]) for line in events(lines, "bind")}


def test_a_pipeline(tmp_path):
    """What a program inherits has a name, too."""
    lines = traced(tmp_path, ["/bin/sh", "-c", "seq 1000 | sort -n | tail -n 1"])
    moved = [line["args"]["fname"] for line in events(lines, "read", "write", "fwrite", "fread")
             if line["args"]["fd"] in (0, 1)]
    assert moved and all(re.match(r"pipe:\[\d+\]$|/", name or "") for name in moved)


def test_an_inherited_socket(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near, listener.accept()[0] as far:
            far.sendall(b"content")
            far.shutdown(socket.SHUT_WR)
            out = run(["/bin/cat"], traced_environment(tmp_path / "t", tmp_path), stdin=near).stdout
    assert out == "content"
    lines = check_trace(tmp_path / "t.pfw")
    reads = [line["args"] for line in events(lines, "read") if line["args"]["fd"] == 0]
    assert {args["fname"] for args in reads} == {f"socket:[tcp 127.0.0.1:{port}]"}


WAITS = r"""
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];
static atomic_int cleaned;

static void clean(void *what) { (void)what; cleaned++; }
static void on_alarm(int sig) { (void)sig; }

static void *waits(void *how)
{
	struct pollfd fds = { .fd = pair[0], .events = POLLIN };
	char buffer[8];
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	pthread_cleanup_push(clean, NULL);
	switch ((int)(long)how) {
	case 0: recv(pair[0], buffer, 8, 0); break;
	case 1: poll(&fds, 1, -1); break;
	case 2: select(pair[0] + 1, &set, NULL, NULL, NULL); break;
	case 3: { struct epoll_event event; int fd = epoll_create1(0);
		  epoll_ctl(fd, EPOLL_CTL_ADD, pair[0], &(struct epoll_event){ .events = EPOLLIN });
		  epoll_wait(fd, &event, 1, -1); } break;
	case 4: recvmsg(pair[0], &(struct msghdr){ .msg_iov = NULL }, 0); break;
	case 5: { struct sockaddr_storage from; socklen_t n = sizeof(from);
		  recvfrom(pair[0], buffer, 8, 0, (struct sockaddr *)&from, &n); } break;
	}
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	struct pollfd fds = { .events = POLLIN };
	struct sigaction action = { .sa_handler = on_alarm };

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	for (long how = 0; how < 6; how++) {
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, waits, (void *)how);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("%ld %d %d\n", how, result == PTHREAD_CANCELED, cleaned);
	}
	sigaction(SIGALRM, &action, NULL);
	alarm(1);
	fds.fd = pair[0];
	errno = 0;
	printf("%d", poll(&fds, 1, -1));
	printf(" %s\n", strerror(errno));
	return 7;
}
"""


def test_cancelled_and_interrupted(tmp_path):
    """Cancellation points stay such, cleanups run once, and EINTR comes through."""
    source = tmp_path / "waits.c"
    source.write_text(WAITS)
    program = compile_c(source, tmp_path / "waits")
    plain = run([program], clean_environment(), status=7)
    with_us = run([program], traced_environment(tmp_path / "t", tmp_path), status=7)
    assert plain.stdout == with_us.stdout and plain.stdout.count(" 1 ") == 6
    assert plain.stdout.endswith("-1 Interrupted system call\n")
    (poll,) = events(check_trace(tmp_path / "t.pfw"), "poll")
    assert poll["args"]["fname"] == "socket:[unix]" and poll["args"]["errno"] == "EINTR"


def test_short_ones_are_summed(tmp_path):
    """PFW_MIN_DUR keeps the names, and the sums are no I/O of files."""
    lines = traced(tmp_path, [PYTHON, "-c", RANKS], PFW_MIN_DUR="10s")
    summed = [line["args"] for line in lines if line["name"] == "summed" and line["args"]["name"] == "send"]
    port = (tmp_path / "traced" / "ports").read_text().split()[0]
    assert f"socket:[tcp 127.0.0.1:{port}]" in {args["fname"] for args in summed}
    # When there is no room for another sum, calls have lines.
    assert sum(args["bytes"] for args in summed) + sum(
        line["args"]["ret"] for line in events(lines, "send")) == 3 * (1 << 16) + 30
