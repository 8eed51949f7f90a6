"""What an attacker on the same host has: other users, spools made by hand, traces made by hand."""
import json
import os
import pathlib
import socket
import struct
import subprocess

import pytest

from harness import PFW, SOURCE, clean_environment, run, traced_environment

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="takes other users' places, which only root can")
ALICE, MALLORY = 31001, 31002
PYTHON = "/usr/bin/python3"

BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
HOST = socket.gethostname()
SPOOLS = pathlib.Path("/dev/shm")
DEAD = 999_999_999  # above the greatest pid that Linux gives


def as_user(user, *command):
    return ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--", *map(str, command)]


def pfw(*words, user=None, status=0, **options):
    command = [PFW, *words]
    return run(command if user is None else as_user(user, *command), status=status, **options)


# ---- traces ----

def process_line(pid=77, number=1, run_name="r", host=HOST, boot=BOOT, spool=None, rank=-1, start=1000.0, **args):
    return {"id": number, "name": "process", "cat": "pfw", "pid": pid, "tid": pid, "ts": start, "ph": "M",
            "args": {"format": 1, "version": "0.1.0", "run": run_name, "host": host, "boot": boot, "rank": rank,
                     "world_size": 1, "local_rank": -1, "rank_source": "none", "ppid": 1, "cmd": "x",
                     "start_ts": start, "clock": "tsc", "spool": spool, **args}}


def event_lines(count=3, pid=77, first=2):
    return [{"id": first + i, "name": "read", "cat": "POSIX", "pid": pid, "tid": pid, "ts": 2000.0 + i, "dur": 1.0,
             "ph": "X", "args": {"fname": "/x", "fd": 3, "ret": 1}} for i in range(count)]


def end_line(pid=77, number=100, events=3):
    return {"id": number, "name": "end", "cat": "pfw", "pid": pid, "tid": pid, "ts": 99999.0, "ph": "M",
            "args": {"events": events, "lost": 0, "reason": "exit"}}


def text_of(lines):
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def make_trace(path, user=None, mode=0o644, ended=True, **claims):
    """A trace of a process that is dead."""
    pid = claims.get("pid", 77)
    path.write_text(text_of([process_line(**claims), *event_lines(pid=pid), *([end_line(pid)] if ended else [])]))
    path.chmod(mode)
    if user is not None:
        os.chown(path, user, user)
    return path


# ---- spools ----

OFFSETS = {}
FIELDS = ("magic version header_bytes end state pid start_time start_ns uid file_made boot_id host run slot "
          "pid_namespace").split()
RING_FIELDS = "order capacity tid in_use head".split()


def offsets(directory):
    """Where the fields of a spool are, by the compiler."""
    if not OFFSETS:
        source = directory / "offsets.c"
        body = "".join(f'printf("{field} %zu\\n", offsetof(struct pfw_spool_header, {field}));' for field in FIELDS)
        body += "".join(f'printf("ring.{field} %zu\\n", offsetof(struct pfw_ring_chunk, {field}));'
                        for field in RING_FIELDS)
        source.write_text('#include <stdio.h>\n#include <stddef.h>\n#include "common/format/spool.h"\n'
                          'int main(void) { printf("version_now %u\\n", PFW_SPOOL_VERSION);' + body + "return 0; }\n")
        run(["cc", "-std=gnu11", f"-I{SOURCE / 'src'}", source, "-o", directory / "offsets"])
        for line in run([directory / "offsets"]).stdout.splitlines():
            name, value = line.split()
            OFFSETS[name] = int(value)
    return OFFSETS


def spool_bytes(directory, trace, rings=0, capacity=1 << 20, pid=DEAD, start=1, run_name="r", host=HOST, boot=BOOT,
                file_made=0, start_ns=1000000, chunks=b""):
    """A spool as its owner could make it, with rings that claim records they do not have."""
    at = offsets(directory)
    header = bytearray(8192)
    ring_bytes = 4096 + capacity * 64
    end = 8192 + len(chunks) + rings * ring_bytes
    for name, form, value in (("magic", "<Q", 0x4c4f4f5053574650), ("version", "<I", at["version_now"]),
                              ("header_bytes", "<I", 8192), ("end", "<Q", end), ("pid", "<i", pid),
                              ("start_time", "<Q", start), ("start_ns", "<Q", start_ns),
                              ("file_made", "<I", file_made)):
        struct.pack_into(form, header, at[name], value)
    for name, value in (("boot_id", boot), ("host", host), ("run", run_name)):
        value = value if isinstance(value, bytes) else value.encode()
        header[at[name]:at[name] + len(value)] = value
    name = os.fsencode(str(trace))
    header[4096:4096 + len(name)] = name
    parts = [(0, bytes(header) + chunks)]
    for ring in range(rings):
        chunk = bytearray(4096)
        struct.pack_into("<IIQ", chunk, 0, 3, ring, ring_bytes)
        for field, form, value in (("order", "<Q", ring), ("capacity", "<I", capacity), ("tid", "<i", 1),
                                   ("in_use", "<I", 1), ("head", "<Q", capacity)):
            struct.pack_into(form, chunk, at["ring." + field], value)
        parts.append((8192 + len(chunks) + ring * ring_bytes, bytes(chunk)))
    return parts, end


class Spool:
    """A spool in /dev/shm for the time of a test."""

    def __init__(self, directory, user, trace, mode=0o600, pid=DEAD, start=1, **options):
        self.path = SPOOLS / f"pfw-{user}-{pid}-{start}.spool"
        parts, end = spool_bytes(directory, trace, pid=pid, start=start, **options)
        with open(self.path, "wb") as file:
            for at, data in parts:
                file.seek(at)
                file.write(data)
            file.truncate(end)
        self.path.chmod(mode)
        os.chown(self.path, user, user)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        self.path.unlink(missing_ok=True)


def traced(base, spools, script, **variables):
    """Start Python traced, in the background."""
    return subprocess.Popen([PYTHON, "-S", "-E", "-c", script],
                            env=traced_environment(base, spools, **variables), stdin=subprocess.PIPE)


MEASURE = """
import os, resource, sys
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
_, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
os.write(3, b'%d %d' % (os.waitstatus_to_exitcode(status), used.ru_maxrss))
"""


def measured(*words, cpu_seconds=0):
    """Run pfw.  Return its status, its output, and the KiB of memory that it had at most.

    A process in between starts it: what one starts begins with the greatest memory of oneself."""
    read, write = os.pipe()
    try:
        command = [PYTHON, "-S", "-E", "-c", f"import os; os.dup2({write}, 3)\n" + MEASURE, str(cpu_seconds), PFW,
                   *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env=clean_environment(), pass_fds=[write], check=True)
        status, used = os.read(read, 100).split()
    finally:
        os.close(read)
        os.close(write)
    return int(status), done.stdout.decode(errors="replace"), int(used)
