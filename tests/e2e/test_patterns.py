"""`pfw patterns`: each counter against one made here from what the calls did, as darshan-runtime's
posix module counts; random calls, real programs, all kinds of input."""
import collections
import csv
import gzip
import io
import json
import os
import random
import re
import sys

import pytest

import harness

PFW = os.environ["PFW_BIN"]
BOUNDS = [100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30]
SIZES = ["0_100", "100_1k", "1k_10k", "10k_100k", "100k_1m", "1m_4m", "4m_10m", "10m_100m",
         "100m_1g", "1g_plus"]


def patterns(*words, status=0):
    done = harness.run([PFW, "patterns", "--format", "ndjson", *map(str, words)], status=status)
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_file(rows):
    return {row["fname"]: row for row in rows if row["section"] == "file"}


class Trace:
    """Lines of processes, in order of time."""

    def __init__(self, rank=-1, run="r"):
        self.ts, self.lines = 1795230878000000.0, []
        self.add("process", "pfw", "M", 1, {"format": 1, "version": "1", "run": run, "host": "h",
                                            "rank": rank, "world_size": 1, "start_ts": self.ts})

    def add(self, name, cat, ph, pid, args, dur=1.0):
        line = {"id": len(self.lines) + 1, "name": name, "cat": cat, "pid": pid, "tid": pid,
                "ts": self.ts}
        text = json.dumps(line)[:-1].replace(str(self.ts), f"{self.ts:.3f}")
        text += f',"dur":{dur:.3f}' if ph == "X" else ""
        self.lines.append(f'{text},"ph":"{ph}","args":{json.dumps(args)}}}')
        self.ts += 2

    def call(self, name, pid=1, cat="POSIX", dur=1.0, **args):
        self.add(name, cat, "X", pid, args, dur)

    def write(self, path, opener=open):
        self.add("end", "pfw", "M", 1, {"events": len(self.lines) - 1, "lost": 0, "reason": "exit"})
        with opener(path, "wt") as out:
            out.write("\n".join(self.lines) + "\n")
        return path


# ---- by hand ----

def test_places(tmp_path):
    trace = Trace()
    trace.call("open", fname="/f", fd=3, ret=3, flags=2, dur=5)
    trace.call("read", fname="/f", fd=3, ret=100, count=100)       # first
    trace.call("read", fname="/f", fd=3, ret=100, count=100)       # consecutive: 100
    trace.call("pread", fname="/f", fd=3, ret=50, count=50, offset=300)   # forward
    trace.call("pread", fname="/f", fd=3, ret=50, count=50, offset=500)   # strided: 200 again
    trace.call("pread", fname="/f", fd=3, ret=50, count=50, offset=700)   # strided
    trace.call("read", fname="/f", fd=3, ret=101, count=200)       # 200: back, random
    trace.call("lseek", fname="/f", fd=3, ret=4096, offset=4096, whence=0, dur=2)
    trace.call("read", fname="/f", fd=3, ret=0, count=200)         # 4096: forward, aligned, 0 bytes
    trace.call("read", fname="/f", fd=3, ret=-1, errno="EIO", count=200)
    trace.call("write", fname="/f", fd=3, ret=1 << 20, count=1 << 20)     # first, 4096
    trace.call("write", fname="/f", fd=3, ret=2 << 20, count=2 << 20)     # consecutive
    trace.call("close", fname="/f", fd=3, ret=0, dur=3)
    row = by_file(patterns(trace.write(tmp_path / "t.pfw")))["/f"]
    found = {kind: row[f"read_{kind}"] for kind in
             ("first", "consecutive", "forward", "strided", "random", "unplaced")
             if f"read_{kind}" in row}
    assert found == {"first": 1, "consecutive": 1, "strided": 2, "random": 1, "unplaced": 0}
    assert row["read_sequential"] == 2 and row["read_behind"] == 5
    assert (row["reads"], row["read_bytes"], row["read_unaligned"]) == (8, 451, 5)
    assert (row["size_read_0_100"], row["size_read_100_1k"]) == (6, 1)
    assert (row["writes"], row["write_first"], row["write_consecutive"]) == (2, 1, 1)
    assert (row["size_write_100k_1m"], row["size_write_1m_4m"]) == (1, 1)
    assert (row["read_small"], row["write_small"], row["small"]) == (7, 0, pytest.approx(77.7778))
    assert (row["opens"], row["opens_again"], row["metadata_calls"]) == (1, 0, 2)
    assert (row["metadata_us"], row["data_us"]) == (10, 10)
    assert row["consecutive"] == pytest.approx(100 * 2 / 7, abs=1e-3)
    assert patterns("--alignment", "1KiB", "--small", "64KiB", tmp_path / "t.pfw") == \
        patterns("--alignment", 1024, "--small", 65536, tmp_path / "t.pfw")
    row = by_file(patterns("--alignment", 100, "--small", 100, tmp_path / "t.pfw"))["/f"]
    assert (row["read_unaligned"], row["read_small"]) == (1, 4)


def test_streams_copies_and_other_descriptors(tmp_path):
    trace = Trace()
    trace.call("fopen", cat="STDIO", fname="/s", fd=3, ret=3, flags=0)
    trace.call("fread", cat="STDIO", fname="/s", fd=3, ret=5, size=8, count=5)   # 0, 40 bytes
    trace.call("fseek", cat="STDIO", fname="/s", fd=3, ret=0, offset=10, whence=1)
    trace.call("fread", cat="STDIO", fname="/s", fd=3, ret=1, size=8, count=1)   # 50
    trace.call("fgetc", cat="STDIO", fname="/s", fd=3, ret=65)                   # nobody knows
    trace.call("fread", cat="STDIO", fname="/s", fd=3, ret=1, size=8, count=1)   # nowhere
    trace.call("rewind", cat="STDIO", fname="/s", fd=3)
    trace.call("fread", cat="STDIO", fname="/s", fd=3, ret=1, size=8, count=1)   # 0: back
    trace.call("open", fname="/a", fd=4, ret=4, flags=os.O_WRONLY | os.O_APPEND)
    trace.call("write", fname="/a", fd=4, ret=7, count=7)                        # at an end: where?
    trace.call("dup", fname="/s", fd=3, ret=9)
    trace.call("copy_file_range", fname="/s", fd=3, fd_out=5, offset=0, offset_out=0, ret=1000,
               count=1000, target="/b", dur=4)
    trace.call("copy_file_range", fname="/s", fd=3, fd_out=5, offset=1000, offset_out=1000, ret=10,
               count=10, target="/b")
    for source in (None, "pipe:[7]"):  # no row has the time of these but that of the target
        trace.call("splice", fname=source, fd=8, fd_out=7, offset=-1, offset_out=-1, ret=5, count=5, target="/c", dur=3)
    trace.call("aio_read", fname="/d", fd=8, ret=0, count=4096, offset=0)
    trace.call("open", fname="/none", ret=-1, errno="ENOENT", flags=0)
    trace.call("open", fname="/a", fd=6, ret=6, flags=0)
    rows = by_file(patterns(trace.write(tmp_path / "t.pfw")))
    stream = rows["/s"]
    assert (stream["reads"], stream["read_bytes"]) == (7, 64 + 1010)
    assert stream["read_unplaced"] == 1 and stream["read_first"] == 1
    assert (stream["read_sequential"], stream["read_random"], stream["read_consecutive"]) == (1, 2, 1)
    assert (rows["/b"]["writes"], rows["/b"]["written_bytes"]) == (2, 1010)
    assert rows["/b"]["write_consecutive"] == 1 and rows["/b"]["data_us"] == 0
    assert rows["/c"]["written_bytes"] == 10 and rows["/c"]["data_us"] == 6
    assert (rows["/d"]["reads"], rows["/d"]["read_bytes"]) == (1, 4096)
    assert rows["/a"]["write_unplaced"] == 1 and rows["/a"]["opens_again"] == 1
    assert (rows["/none"]["opens"], rows["/none"]["metadata_calls"]) == (0, 1)


def test_flags_and_commands_by_name_or_number(tmp_path):
    """Our lines have names, those of older versions and of DFTracer numbers."""
    found = []
    for which in (0, 1):
        trace = Trace()
        trace.call("open", fname="/a", fd=4, ret=4, flags=("O_WRONLY|O_CREAT|O_APPEND", 0o2101)[which])
        trace.call("write", fname="/a", fd=4, ret=7, count=7)
        trace.call("fopen", cat="STDIO", fname="/s", fd=3, ret=3, flags=("O_RDONLY", 0)[which])
        for whence, number, offset in (("SEEK_SET", 0, 100), ("SEEK_CUR", 1, 28), ("SEEK_END", 2, -9)):
            trace.call("fseek", cat="STDIO", fname="/s", fd=3, ret=0, offset=offset, whence=(whence, number)[which])
            trace.call("fread", cat="STDIO", fname="/s", fd=3, ret=64, size=1, count=64)
        trace.call("fcntl", fname="/s", fd=3, ret=9, cmd=("F_DUPFD_CLOEXEC", 1030)[which], arg=0)
        trace.call("fcntl", fname="/s", fd=3, ret=9, cmd=("F_GETFL", 3)[which], arg=0)
        trace.call("open", fname="/o", fd=5, ret=5, flags=("O_WRONLY|0x80000000", 1 << 31 | 1)[which])
        trace.call("write", fname="/o", fd=5, ret=7, count=7)
        found.append(by_file(patterns(trace.write(tmp_path / f"{which}.pfw"))))
    assert found[0] == found[1]
    assert (found[0]["/a"]["write_unplaced"], found[0]["/o"]["write_unplaced"]) == (1, 0)
    assert (found[0]["/s"]["read_sequential"], found[0]["/s"]["read_unplaced"]) == (1, 1)


def test_flags_in_an_index(tmp_path):
    """What makes an index compares the flags of an open with the last ones."""
    trace = Trace()
    for flags in ("O_RDWR", "", 0o2001, "", "O_WRONLY|O_APPEND", "", "O_APPEND", 0, "O_APPEND|" + "O_SYNC|" * 9, "O_RDWR") * 3:
        trace.call("open", fname="/f", fd=4, ret=4, flags=flags)
        trace.call("write", fname="/f", fd=4, ret=7, count=7)
    path = trace.write(tmp_path / "t.pfw")
    lines = patterns("--no-index", path)
    harness.run([PFW, "index", path])
    assert patterns(path) == lines
    assert by_file(lines)["/f"]["write_unplaced"] == 12


def test_what_is_appended_has_no_place(tmp_path):
    """Each place that the kernel chooses; the figures of a real program, on whose file another one writes."""
    (tmp_path / "append.py").write_text("""if True:
        import fcntl, os, sys
        other = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(other, b"x" * 100)                          # at 0
        log = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
        os.write(log, b"x" * 10)                             # at the end: 100
        os.pwrite(log, b"x" * 10, 0)                         # there, too
        os.pwrite(other, b"x" * 10, 0)                       # at 0 again
        os.write(log, b"x" * 10)                             # not after that
        os.read(log, 10)                                     # nothing, at the end: nowhere
        fcntl.fcntl(log, fcntl.F_SETFL, 0)
        os.pwrite(log, b"x" * 10, 200)                       # behind
        os.pwritev(log, [b"x" * 10], 0, os.RWF_APPEND)
        fcntl.fcntl(log, fcntl.F_SETFL, os.O_APPEND)
        os.pwrite(log, b"x" * 10, 0)
        assert os.fstat(log).st_size == 230
        """)
    harness.run([PFW, "run", "-q", "-o", tmp_path / "t", "--", sys.executable, tmp_path / "append.py", tmp_path / "log"])
    row = by_file(patterns(tmp_path / "t"))[str(tmp_path / "log")]
    assert (row["writes"], row["write_unplaced"], row["read_unplaced"]) == (8, 5, 1)
    assert (row["write_first"], row["write_random"], row["write_sequential"], row["write_consecutive"]) == (1, 1, 1, 0)


def test_pipes_and_sockets_are_no_files(tmp_path):
    trace = Trace()
    for name in ("pipe:[7]", "socket:[8]", "anon_inode:[eventfd]"):
        trace.call("read", fname=name, fd=3, ret=100, count=100)
        trace.call("close", fname=name, fd=3, ret=0)
    trace.call("sendfile", fname="/f", fd=4, fd_out=5, ret=10, count=10, target="socket:[8]")
    trace.add("summed", "pfw", "M", 1, {"name": "read", "fname": "pipe:[7]", "count": 50, "failed": 0,
                                        "dur": 9.5, "bytes": 5000})
    rows = patterns(trace.write(tmp_path / "t.pfw"))
    assert set(by_file(rows)) == {"/f"} and rows[0]["read_bytes"] == 10


def test_who_only_asks_about_a_file_uses_it(tmp_path):
    trace = Trace()
    trace.call("stat", fname="/f", ret=0, pid=1)
    trace.call("unlink", fname="/f", ret=-1, errno="EACCES", pid=2)
    trace.call("read", fname="/f", fd=3, ret=1, pid=3)
    rows = patterns(trace.write(tmp_path / "t.pfw")), patterns("--name", "stat", tmp_path / "t.pfw")
    assert [by_file(each)["/f"]["processes"] for each in rows] == [3, 1]


def test_opens_that_do_not_say_what_they_returned(tmp_path):
    """DFTracer's: they count as opens, and the descriptors of others keep their places."""
    trace = Trace()
    trace.call("open", fname="/f", fd=3, ret=3)
    trace.call("read", fname="/f", fd=3, ret=10)
    trace.call("open64", fname="/f")
    trace.call("read", fname="/f", fd=3, ret=10)
    trace.call("open", fname="/f", ret=-1, errno="EACCES")
    row = by_file(patterns(trace.write(tmp_path / "t.pfw")))["/f"]
    assert (row["opens"], row["opens_again"], row["metadata_calls"], row["read_consecutive"]) == (2, 1, 1, 1)


def test_ranks_and_counters(tmp_path):
    for rank in range(3):
        trace = Trace(rank)
        trace.call("open", fname="/shared", ret=3, flags=0)
        trace.call("read", fname="/shared", fd=3, ret=10)
        trace.call("open", fname=f"/own{rank}", ret=4, flags=0)
        trace.call("read", fname=f"/own{rank}", fd=4, ret=1000)
        trace.call("read", fname=f"/own{rank}", fd=4, ret=1000, pid=2)  # inherited: nobody knows where
        trace.add("io", "COUNTER", "C", 1, {"read": 3000, "written": 7})
        trace.add("storage", "COUNTER", "C", 1, {"read": 100, "written": 0})
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    rows = patterns(tmp_path)
    assert [row["section"] for row in rows] == ["all"] + ["rank"] * 3 + ["file"] * 4
    assert [row["rank"] for row in rows[:4]] == [None, 0, 1, 2]
    files = by_file(rows)
    assert (files["/shared"]["ranks"], files["/shared"]["processes"]) == (3, 3)
    assert (files["/own1"]["ranks"], files["/own1"]["rank"], files["/own1"]["processes"]) == (1, 1, 2)
    assert files["/own1"]["read_unplaced"] == 1
    assert rows[0]["read_bytes"] == 6030 and rows[0]["files"] == 4 and rows[2]["files"] == 2
    assert (rows[0]["calls_read_bytes"], rows[0]["storage_read_bytes"]) == (9000, 300)
    assert rows[3]["calls_written_bytes"] == 7 and files["/own1"]["storage_read_bytes"] is None
    assert {row["fname"] for row in patterns("--rank", 1, tmp_path) if row["section"] == "file"} == {
        "/shared", "/own1"}
    text = harness.run([PFW, "patterns", tmp_path]).stdout
    assert "(rank 2)" in text and "8.8 KiB read by calls, 300 B of that from storage" in text


def test_summed_calls(tmp_path):
    trace = Trace()
    trace.add("summed", "pfw", "M", 1, {"name": "read", "fname": "/f", "count": 50, "dur": 9.5,
                                        "bytes": 5000})
    row = by_file(patterns(trace.write(tmp_path / "t.pfw")))["/f"]
    assert (row["reads"], row["read_bytes"], row["data_us"]) == (50, 5000, 9.5)
    assert row["size_read_0_100"] == 0 and row["consecutive"] is None


def test_conditions_leave_places_right(tmp_path):
    """What is not asked for still moves the descriptor."""
    trace = Trace()
    trace.call("open", fname="/f", ret=3, flags=0)
    for i in range(10):
        trace.call("read", fname="/f", fd=3, ret=100, dur=50 if i % 2 else 1)
    rows = by_file(patterns("--min-dur", "10us", trace.write(tmp_path / "t.pfw")))
    assert rows["/f"]["reads"] == 5 and rows["/f"]["read_consecutive"] == 5
    rows = by_file(patterns("--fname", "/g", tmp_path / "t.pfw"))
    assert not rows.get("/f") or rows["/f"]["reads"] == 0


# ---- random calls ----

class Counted:
    """The same by the rules of docs/analysis.rst, call by call, from true offsets."""

    def __init__(self):
        self.files = collections.defaultdict(collections.Counter)
        self.last = {}

    def access(self, pid, name, kind, offset, size):
        count, key = self.files[name], (pid, name, kind)
        begin, end, step = self.last.get(key, (None, None, None))
        if begin is None:
            place = "first"
        elif offset == end:
            place = "consecutive"
        elif offset - begin == step:
            place = "strided"
        else:
            place = "sequential" if offset > end else "random"
        count[f"{kind}_{place}"] += 1
        count[f"{kind}_behind"] += offset > (0 if begin is None else end - 1)
        count[f"{kind}_unaligned"] += offset % 4096 != 0
        count[f"{kind}_small"] += size < 1 << 20
        count[f"size_{kind}_{SIZES[sum(size > bound for bound in BOUNDS)]}"] += 1
        count["read_bytes" if kind == "read" else "written_bytes"] += size
        count[f"{kind}s"] += 1
        self.last[key] = offset, offset + size, None if begin is None else offset - begin


def one_call(chance, trace, counted, state):
    """A call of one of two processes on one of its descriptors, as the kernel would answer it."""
    pid = chance.randrange(1, 3)
    own = state[pid]
    if not own or chance.random() < 0.05:
        fd, name = max(own, default=2) + 1, f"/f{chance.randrange(3)}"
        trace.call("open", pid=pid, fname=name, fd=fd, ret=fd, flags=2)
        own[fd] = [name, 0]
        return
    fd = chance.choice(list(own))
    name, offset = own[fd]
    size = chance.choice([0, 50, 100, 101, 4096, 4096, 20000, 1 << 20, (1 << 20) + 1, 5 << 20])
    kind = chance.choice(["read", "write"])
    word = chance.random()
    if word < 0.1:
        own[fd][1] = chance.choice([0, 4096, 123, offset + 4096])
        trace.call("lseek", pid=pid, fname=name, fd=fd, ret=own[fd][1], offset=0, whence=0)
    elif word < 0.15:
        trace.call("close", pid=pid, fname=name, fd=fd, ret=0)
        del own[fd]
    elif word < 0.5:
        at = chance.choice([offset, 8192 * chance.randrange(5), offset + 8192])
        trace.call(f"p{kind}", pid=pid, fname=name, fd=fd, ret=size, count=size, offset=at)
        counted.access(pid, name, kind, at, size)
    else:
        trace.call(kind, pid=pid, fname=name, fd=fd, ret=size, count=size + chance.randrange(2))
        counted.access(pid, name, kind, offset, size)
        own[fd][1] += size


@pytest.mark.parametrize("seed", range(20))
def test_random_calls(tmp_path, seed):
    chance, trace, counted = random.Random(seed), Trace(), Counted()
    state = {1: {}, 2: {}}
    for _ in range(chance.choice([30, 1000, 20000 if seed == 7 else 300])):
        one_call(chance, trace, counted, state)
    rows = by_file(patterns(trace.write(tmp_path / "t.pfw")))
    for name, count in counted.files.items():
        for side in ("read", "write"):
            for key in ["first", "consecutive", "strided", "sequential", "random", "behind",
                        "small", "unaligned"]:
                assert rows[name][f"{side}_{key}"] == count[f"{side}_{key}"], (name, side, key)
            for size in SIZES:
                assert rows[name][f"size_{side}_{size}"] == count[f"size_{side}_{size}"]
        for key in ("read_bytes", "written_bytes", "reads", "writes"):
            assert rows[name][key] == count[key], key


# ---- mapped files ----

MAPS = """
import mmap
for name in ("a.bin", "b.bin", "b.bin"):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        assert data[-1] == 0
try:
    with open("a.bin", "rb") as file:
        mmap.mmap(file.fileno(), 1 << 62, prot=mmap.PROT_READ)
except (OSError, ValueError):
    pass
"""


def test_mapped_files_are_named(tmp_path):
    """A program that maps its input: the bytes are said, and no figure counts them as moved."""
    (tmp_path / "a.bin").write_bytes(bytes(16 << 20))
    (tmp_path / "b.bin").write_bytes(bytes(100 << 10))
    (tmp_path / "p.py").write_text(MAPS)
    harness.run([PFW, "run", "-q", "-o", tmp_path / "t", "--", "/usr/bin/python3", "p.py"],
                harness.clean_environment(), tmp_path)
    told = []
    for words in ([], ["compact", "-q", tmp_path], ["index", "-q", "--force", tmp_path]):
        if words:
            harness.run([PFW, *words])
        told.append([harness.run([PFW, *command, tmp_path]).stdout for command in (
            ["patterns"], ["table"], ["table", "-g", "fname"], ["table", "--format", "md"],
            ["patterns", "--format", "ndjson"], ["table", "--name", "read"])])
    assert told[0] == told[1] == told[2]
    used, by_name, by_fname, markdown, rows, read = told[0]
    files = {row["fname"]: row for row in map(json.loads, rows.splitlines())}
    assert files[str(tmp_path / "a.bin")]["mapped_bytes"] == 16 << 20
    assert files[str(tmp_path / "b.bin")]["mapped_bytes"] == 200 << 10
    assert files["(all files)"]["mapped_bytes"] == (16 << 20) + (200 << 10)
    assert files[str(tmp_path / "a.bin")]["read_bytes"] == 0
    assert re.sub(r", [\d.]+ \w+ touched", "", used.splitlines()[-1]) == (
        f"16.2 MiB of 2 files mapped, not counted: {tmp_path}/a.bin (16.0 MiB), {tmp_path}/b.bin (200.0 KiB)")
    for text in (by_name, by_fname, markdown):
        assert re.sub(r", [\d.]+ \w+ touched", "", text.splitlines()[-1]) == (
            "16.2 MiB mapped, not counted: pfw patterns says of which files")
    assert "mapped" not in read


# ---- inputs, outputs ----

@pytest.mark.parametrize("kind", ["gz", "compacted", "directory", "foreign"])
def test_kinds_of_input(tmp_path, kind):
    chance, trace, counted, state = random.Random(5), Trace(), Counted(), {1: {}, 2: {}}
    for _ in range(500):
        one_call(chance, trace, counted, state)
    other = tmp_path / "other"
    other.mkdir()
    plain = trace.write(tmp_path / "t.pfw")
    if kind == "gz":
        path = other / "t.pfw.gz"
        path.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        path = other / "t.pfw"
        path.write_bytes(plain.read_bytes())
    if kind == "compacted":
        harness.run([PFW, "compact", "-q", path])
    if kind == "foreign":
        names = {f"/f{i}": f"h{i}" for i in range(3)}
        text = plain.read_text().split("\n", 1)[1]
        for name, number in names.items():
            text = text.replace(f'"fname": "{name}"', f'"fhash": "{number}"')
        head = "".join(f'{{"id":1,"name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":"M",'
                       f'"args":{{"name":"{name}","value":"{number}"}}}}\n'
                       for name, number in names.items())
        path.write_text("[\n" + head + text)
    rows = patterns(plain)
    assert len(rows) == 4
    assert patterns(other if kind == "directory" or kind == "compacted" else path) == rows


def test_formats(tmp_path):
    trace = Trace()
    trace.call("read", fname='/a,"b|', fd=3, ret=10)
    path = trace.write(tmp_path / "t.pfw")
    rows = patterns(path)
    done = {kind: harness.run([PFW, "patterns", "--format", kind, path]).stdout
            for kind in ("csv", "tsv", "md", "text")}
    table = list(csv.DictReader(io.StringIO(done["csv"])))
    assert [row["fname"] for row in table] == ["(all files)", '/a,"b|'] == [row["fname"] for row in rows]
    assert list(table[0]) == list(rows[0]) and table[1]["read_bytes"] == "10"
    assert '/a,"b\\|' in done["md"] and '/a,"b|' in done["text"] and "up to 100 B" in done["text"]
    assert done["tsv"].splitlines()[2].split("\t")[1] == '/a,"b|'
    assert len(patterns("--row-limit", 0, path)) == 1
    trace = Trace()
    trace.call("read", fname="/a\tb\\", fd=3, ret=10)
    path = trace.write(tmp_path / "tab.pfw")
    shown = {kind: [harness.run([PFW, *command, "--format", kind, path]).stdout for command in
                    (["patterns"], ["table", "-g", "fname"], ["query", "-F", "args.fname"])]
             for kind in ("csv", "tsv")}
    assert all('"/a\tb\\"' in out for out in shown["csv"])
    assert all("/a\\tb\\\\" in out and "/a\tb" not in out for out in shown["tsv"])
    for words in (["--small", "x"], ["--alignment", "0"], ["--format", "no"], ["missing"]):
        assert harness.run([PFW, "patterns", *words], cwd=tmp_path, status=2).stdout == ""


# ---- a real program ----

PROGRAM = """
import os, sys
path = sys.argv[1]
with open(path, "wb", buffering=0) as f:
    for i in range(64):
        f.write(b"x" * 4096)
fd = os.open(path, os.O_RDONLY)
for i in range(0, 64, 4):
    os.pread(fd, 1000, i * 4096)
for i in range(64):
    os.read(fd, 4096)
os.lseek(fd, 100, 0)
os.read(fd, 200)
os.close(fd)
os.stat(path)
for i in range(3):
    open(path, "rb").close()
"""


def test_real_program(tmp_path):
    """What darshan-runtime 3.4's posix module would count of these calls, by hand: 80 + 1 reads, of
    which 64 + 1 + 15 begin behind the last byte, and 63 where it was."""
    (tmp_path / "p.py").write_text(PROGRAM)
    data = tmp_path / "data"
    harness.run([PFW, "run", "-q", "-o", tmp_path / "t", "--", "/usr/bin/python3", tmp_path / "p.py",
                 data])
    row = by_file(patterns("--cat", "POSIX", tmp_path / "t.pfw"))[str(data)]
    assert (row["opens"], row["opens_again"], row["processes"]) == (5, 4, 1)
    assert (row["writes"], row["written_bytes"], row["write_consecutive"]) == (64, 64 * 4096, 63)
    assert row["size_write_1k_10k"] == 64 and row["write_unaligned"] == 0
    assert (row["reads"], row["read_bytes"]) == (81, 16 * 1000 + 64 * 4096 + 200)
    assert (row["read_consecutive"], row["read_first"]) == (63, 1)
    assert (row["read_strided"], row["read_sequential"], row["read_random"]) == (14, 1, 2)
    assert row["read_behind"] == 15 + 63
    assert (row["size_read_100_1k"], row["size_read_1k_10k"]) == (17, 64)
    assert row["read_unaligned"] == 1


# ---- Darshan ----

DARSHAN = {"POSIX_READS": "reads", "POSIX_WRITES": "writes", "POSIX_BYTES_READ": "read_bytes",
           "POSIX_BYTES_WRITTEN": "written_bytes", "POSIX_MAX_BYTE_READ": "read_max_byte",
           "POSIX_MAX_BYTE_WRITTEN": "write_max_byte", "POSIX_CONSEC_READS": "read_consecutive",
           "POSIX_CONSEC_WRITES": "write_consecutive", "POSIX_SEQ_READS": "read_behind",
           "POSIX_SEQ_WRITES": "write_behind", "POSIX_RW_SWITCHES": "switches"}


def test_as_darshan_counts(tmp_path):
    """Each counter that both have is what Darshan's own runtime wrote down of the same program."""
    harness.run([PFW, "run", "-q", "-o", tmp_path / "t", "--",
                 harness.compile_c(harness.SOURCE / "tests/e2e/darshan_target.c",
                                   tmp_path / "darshan_target"), tmp_path])
    rows = by_file(patterns(tmp_path / "t.pfw"))
    compared = collections.Counter()
    counted = collections.defaultdict(dict)
    for line in (harness.SOURCE / "tests/e2e/darshan.txt").read_text().splitlines():
        if line[0] != "#":
            name, counter, value = line.split()
            counted[name][counter] = int(value)
    for name, counters in counted.items():
        row = rows[str(tmp_path / name)]
        assert row["opens"] == counters["POSIX_OPENS"] - counters["POSIX_DUPS"]
        assert row["read_unaligned"] + row["write_unaligned"] == counters["POSIX_FILE_NOT_ALIGNED"]
        for counter, value in counters.items():
            key = DARSHAN.get(counter)
            if counter.startswith("POSIX_SIZE"):
                key = counter[6:].lower()
            if key:
                assert row[key] == value, (name, counter)
                compared[name] += 1
    assert compared == {name: 31 for name in ("places", "copies", "turns")}


# ---- order ----

def test_copies_of_a_descriptor_share_its_place(tmp_path):
    trace = Trace()
    trace.call("open", fname="/f", ret=3, flags=2)
    trace.call("dup", fname="/f", fd=3, ret=9)
    trace.call("fcntl", fname="/f", fd=9, ret=12, cmd=0, arg=10)
    for fd in (3, 9, 12, 9):
        trace.call("read", fname="/f", fd=fd, ret=100)
    trace.call("close", fname="/f", fd=9, ret=0)
    trace.call("lseek", fname="/f", fd=12, ret=1000, offset=1000, whence=0)
    trace.call("read", fname="/f", fd=3, ret=100)              # 1000: forward
    trace.call("open", fname="/f", ret=9, flags=2)
    trace.call("read", fname="/f", fd=9, ret=100)              # 0: another open file
    trace.call("dup2", fname="/f", fd=3, newfd=9, ret=9)
    trace.call("read", fname="/f", fd=9, ret=100)              # 1100
    row = by_file(patterns(trace.write(tmp_path / "t.pfw")))["/f"]
    found = {kind: row[f"read_{kind}"] for kind in
             ("first", "consecutive", "strided", "sequential", "random", "unplaced")}
    assert found == {"first": 1, "consecutive": 3, "strided": 0, "sequential": 2, "random": 1,
                     "unplaced": 0}


def test_threads_of_a_raw_trace(tmp_path):
    """Threads read one descriptor in turn; the lines stand one thread after the other, and many of
    them: what is read is in order all the same."""
    trace, count = Trace(), 12000
    trace.call("open", fname="/f", ret=3, flags=0)
    for i in range(count):
        trace.call("read", fname="/f", fd=3, ret=4096)
    head, calls = trace.lines[:2], trace.lines[2:]
    moved = [line.replace('"tid": 1', f'"tid": {2 + i % 3}') for i, line in enumerate(calls)]
    trace.lines = head + [line for tid in (4, 3, 2) for line in moved if f'"tid": {tid}' in line]
    path = trace.write(tmp_path / "t.pfw")
    assert path.stat().st_size > 1.2e6
    row = by_file(patterns(path))["/f"]
    assert (row["read_first"], row["read_consecutive"]) == (1, count - 1)


# ---- from an index ----

def test_from_the_index(tmp_path):
    """The same as from the lines."""
    for rank in range(2):
        chance, trace, counted, state = random.Random(rank), Trace(rank), Counted(), {1: {}, 2: {}}
        for _ in range(2000):
            one_call(chance, trace, counted, state)
        trace.add("summed", "pfw", "M", 1, {"name": "read", "fname": "/s", "count": 5, "dur": 9.5,
                                            "bytes": 50})
        trace.add("io", "COUNTER", "C", 1, {"read": 3000, "written": 7})
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    asked = [[], ["--small", 5000], ["--alignment", 10], ["--name", "read"], ["--rank", 1],
             ["--fname", "/f1"], ["--min-dur", "2us"], ["--until", "50%"]]
    rows = [patterns(*words, tmp_path) for words in asked]
    harness.run([PFW, "compact", "-q", tmp_path])
    assert len(list(tmp_path.glob("*.idx"))) == 2
    for words, expected in zip(asked, rows):
        assert patterns(*words, tmp_path) == expected, words


@pytest.mark.parametrize("seed", range(8))
def test_only_the_files_that_are_shown_are_kept(tmp_path, seed):
    """What indexes answer of few rows is what all lines say: files of one rank and of several, of several
    traces of a rank, of equal bytes, mapped, only looked at."""
    chance = random.Random(seed)
    for rank in range(chance.choice([1, 3, 18])):
        for child in range(chance.choice([1, 3])):
            pid, trace = 100 + 10 * rank + child, Trace(rank)
            trace.lines[0] = trace.lines[0].replace('"pid": 1, "tid": 1,', f'"pid": {pid}, "tid": {pid},')
            for _ in range(chance.randrange(60)):
                name = f"/{chance.choice(['all', f'own-{rank}', f'pair-{rank // 2}'])}/{chance.randrange(6)}"
                call = chance.randrange(6)
                if call == 0:
                    trace.call("stat", pid, fname=name, ret=0)
                elif call == 1 and seed % 2:
                    trace.call("mmap", pid, fname=name, ret=4096, length=chance.choice([4096, 8192]), fd=3, offset=0)
                else:
                    size = chance.choice([0, 100, 100, 4096])
                    trace.call(chance.choice(["pread", "pwrite"]), pid, fname=name, fd=3, ret=size, count=size,
                               offset=chance.randrange(3) * 100)
            path = trace.write(tmp_path / f"t-rank{rank:04d}{f'-pid{pid}' if child else ''}.pfw")
            text = path.read_text().splitlines()
            text[-1] = text[-1].replace('"pid": 1, "tid": 1,', f'"pid": {pid}, "tid": {pid},')
            path.write_text("\n".join(text) + "\n")
    harness.run([PFW, "compact", "-q", "--split-by", chance.choice(["rank", "process"]), tmp_path])
    asked = [[], ["--row-limit", "3"], ["--row-limit", "0"], ["--all-ranks"], ["--row-limit", "7", "--format", "csv"],
             ["--row-limit", "1000", "--format", "ndjson"], ["--format", "csv"], ["--rank", "0-1", "--format", "md"]]
    answers = [harness.run([PFW, "patterns", *words, tmp_path]).stdout for words in asked]
    for index in tmp_path.glob("*.idx"):
        index.unlink()
    for words, answer in zip(asked, answers):
        assert harness.run([PFW, "patterns", *words, tmp_path]).stdout == answer, words


def test_an_index_needs_no_text(tmp_path):
    trace = Trace()
    for i in range(30000):
        trace.call("pread", fname=f"/f{i % 9}", fd=3, ret=i, count=i, offset=i * 17)
    trace.write(tmp_path / "t.pfw")
    harness.run([PFW, "compact", "-q", tmp_path])
    path = tmp_path / "t.pfw.gz"
    rows, data = patterns(path), bytearray(path.read_bytes())
    assert len(rows) == 10 and rows[0]["reads"] == 30000
    data[len(data) // 2] ^= 0xff  # no block whose CRC the index is known by
    path.write_bytes(data)
    assert patterns(path) == rows
    (tmp_path / "t.pfw.gz.idx").unlink()
    assert patterns(path, status=1)[0]["reads"] < 30000


def test_names_that_only_other_tracers_have(tmp_path):
    trace = Trace()
    trace.call("open64", fname="/f", ret=3, flags=2)
    trace.call("pread64", fname="/f", fd=3, ret=10, count=10, offset=0)
    trace.call("__xstat64", fname="/f", ret=0)
    row = by_file(patterns(trace.write(tmp_path / "t.pfw")))["/f"]
    assert (row["opens"], row["reads"], row["read_bytes"]) == (1, 1, 10)
