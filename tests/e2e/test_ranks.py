"""All ranks in one file (`pfw compact --split-by none`): every command answers of it what it answers of the
files that it was made of, whose ranks are in their first lines, with an index and without."""
import json
import random
import shutil
import struct
import zlib

import pytest

from harness import PFW, run
from test_compact import members_of

START = 1795230878000000000  # ns
RANKS = 3


def us(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"


class Process:
    """A trace with one process's lines, in order of their ends."""

    def __init__(self, pid, rank, begin=0, host="here"):
        self.pid, self.lines = pid, []
        self.add("process", "pfw", pid, begin, None, {
            "format": 1, "version": "0.1.0", "run": "job-1", "host": host, "boot": "b", "rank": rank,
            "world_size": RANKS, "local_rank": rank, "ppid": 1, "cmd": "train"}, "M")

    def add(self, name, cat, tid, begin, end, args, ph="X"):
        self.lines.append((end if end is not None else begin, len(self.lines), name, cat, tid, begin, end,
                           args, ph))

    def write(self, path):
        self.add("end", "pfw", self.pid, max(line[0] for line in self.lines) + 1, None,
                 {"events": len(self.lines) - 1, "lost": 0, "reason": "exit"}, "M")
        first, *rest = self.lines
        with open(path, "w") as out:
            for number, (_, _, name, cat, tid, begin, end, args, ph) in enumerate([first] + sorted(rest), 1):
                dur = "" if end is None else f'"dur":{us(end - begin)},'
                out.write(f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":{self.pid},"tid":{tid},'
                          f'"ts":{us(START + begin)},{dur}"ph":"{ph}","args":{json.dumps(args)}}}\n')


def fill(process, seed, begin, count):
    """Steps with operators, launches, kernels, allocations and I/O; of every rank others."""
    chance = random.Random(seed)
    pid, at, open_file = process.pid, begin, 0
    for step in range(count):
        start = at
        for i in range(40):
            at += chance.randrange(100, 40000)
            took = chance.randrange(200, 90000)
            kind = chance.randrange(5)
            if kind == 0:
                process.add("aten::mm", "PP", pid, at, at + took, {"kind": "cpu_op", "device": 0, "step": step})
                process.add("cudaLaunchKernel", "PP", pid, at + 50, at + 150, {
                    "kind": "runtime", "device": 0, "correlation": seed * 100000 + step * 100 + i})
                process.add("gemm", "PP", 10000007, at + took + 500, at + 2 * took + 600, {
                    "kind": "kernel", "device": 1, "device_index": 0, "context": 1, "stream": 7,
                    "correlation": seed * 100000 + step * 100 + i})
                at += took
            elif kind == 1:
                process.add("[memory]", "PP", pid, at, None, {
                    "kind": "memory", "addr": 4096 + step, "bytes": 512 if i % 2 else -512, "device": 1,
                    "device_index": 0, "total_allocated": 512 * (i % 2), "total_reserved": 4096}, "i")
            else:
                open_file = (open_file + 4096) % (1 << 20)
                process.add(chance.choice(["pread", "pwrite"]), "POSIX", pid + chance.randrange(2), at,
                            at + took, {"fname": f"/data/{seed}-{i % 4}", "fd": 3, "count": 4096,
                                        "offset": open_file, "ret": 4096, "step": step})
                at += took
        process.add(f"ProfilerStep#{step}", "PP", pid, start, at, {"kind": "step", "step": step})
        at += 1000
    return at


def make_runs(directory):
    """raw: a file a process; ranks: one a rank; all, copied: all ranks in one, from the one and the other."""
    raw = directory / "raw"
    raw.mkdir()
    last = 0
    for rank in range(RANKS):
        root = Process(100 + rank, rank, rank * 1000)
        last = max(last, fill(root, rank + 1, rank * 1000 + 2000, 6 + rank))
        root.write(raw / f"t-rank000{rank}.pfw")
    # A pid comes again when its process is gone: here first in rank 0, then in rank 2.
    for rank, begin in ((0, 5000), (2, last + 5000)):
        child = Process(900, rank, begin)
        fill(child, 10 + rank, begin + 1000, 2)
        child.write(raw / f"t-rank000{rank}-pid900.pfw")
    run([PFW, "compact", raw, "-o", directory / "ranks", "--keep", "-q"])
    run([PFW, "compact", raw, "-o", directory / "all", "--split-by", "none", "--keep", "-q"])
    run([PFW, "compact", directory / "ranks", "-o", directory / "copied", "--split-by", "none", "--keep", "-q"])
    shutil.copytree(directory / "all", directory / "bare")
    (directory / "bare" / "t.pfw.gz.idx").unlink()
    shutil.copytree(directory / "copied", directory / "indexed")
    run([PFW, "index", directory / "indexed", "-q"])
    for name in ("all", "copied", "bare", "indexed"):
        run([PFW, "validate", directory / name])
    return directory


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("ranks"))


def answer(words, directory, status=0):
    done = run([PFW, *[word.replace("%", str(directory)) for word in words]], status=status)
    return done.stdout.replace(str(directory), "%"), done.stderr.replace(str(directory), "%")


COMMANDS = [
    "table % --group-by rank --format csv",
    "table % --group-by rank --plain --format csv",
    "table % --group-by rank,name --format csv --row-limit -1",
    "table % --group-by rank,step --format csv --row-limit -1",
    "table % --group-by name --format csv --row-limit -1",
    "table % --group-by fname --format csv --row-limit -1",
    "table % --rank 2 --format csv",
    "table % --rank 0-1 --group-by cat,rank --plain --format csv",
    "table % --where rank==2&&dur>10 --format csv",
    "table % --rank 1 --group-by fname --columns files --format csv",
    "table % --since step:2 --until step:4 --group-by rank --format csv",
    "overlap % --format csv",
    "overlap % --rank 2 --format csv",
    "overlap % --steps --format ndjson",
    "overlap % --bins 7 --format csv",
    "overlap % --since step:2 --until step:5 --format csv",
    "patterns % --format csv",
    "patterns % --rank 1 --format csv",
    "memory % --format ndjson",
    "memory % --rank 2 --format ndjson",
    "compare % % --group-by rank,name --format csv",
    "compare % % --rank 1 --format csv",
    "query % --rank 2 --count",
    "query % --where rank==0&&dur>20 --count",
    "query % --rank 1,2",
    "query %",
    "query % --pid 900 --fields rank,pid,ts,name",
    "query % --since step:2 --until step:4",
    "query % --meta --name process --fields rank,pid",
    "query % --sort -dur --limit 20",
    "export % --format csv",
    "export % --format csv --rank 2",
    "export % --format chrome --rank 1",
    "export % --format chrome --merge",
    "export % --format perfetto --merge",
    "export % --format folded",
    "export % --format dftracer --rank 0",
]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("kind", ["all", "copied", "bare", "indexed"])
def test_answers_are_those_of_a_file_for_each_rank(runs, kind, words):
    words = words.split()
    out, err = answer(words, runs / kind)
    wanted, wanted_err = answer(words, runs / "ranks")
    assert wanted and err == wanted_err
    # Lines stand in the order of their files; rows that weigh the same may, too.
    if words[0] in ("query", "compare") and "--sort" not in words:
        out, wanted = sorted(out.splitlines()), sorted(wanted.splitlines())
    assert out == wanted


@pytest.mark.parametrize("words", ["table", "table -g step", "table --no-index", "overlap", "overlap --since=+0s", "patterns",
                                   "memory", "memory --no-index", "compare %", "export -o out", "report -o r.html", "advise"])
def test_a_rank_that_is_not_there_is_said(runs, tmp_path, words):
    """An empty answer would be taken for a rank that did nothing."""
    for kind in ("all", "ranks"):
        words_of = [word.replace("%", str(runs / kind)) for word in words.split()]
        done = run([PFW, *words_of, "--rank", "7,9-12", runs / kind], cwd=tmp_path, status=2)
        said = f"pfw {words_of[0]}: --rank 7, 9-12: these traces are of rank 0-2\n"
        assert done.stdout == "" and done.stderr.endswith(said), done.stderr
    assert not list(tmp_path.iterdir())


def ranks_of(lines):
    """Of pid 900 only the time tells."""
    pids = {json.loads(line)["pid"] for line in lines} - {900}
    return pids or {900}


def test_a_member_holds_lines_of_one_rank_in_order(runs, tmp_path):
    """Also of a file that is written anew, by another level or because a part is cut out."""
    run([PFW, "compact", runs / "all", "-o", tmp_path / "level", "--split-by", "none", "--level", "9", "-q"])
    run([PFW, "compact", runs / "all", "-o", tmp_path / "cut", "--split-by", "none", "--since", "1%", "-q"])
    for path in (runs / "all", tmp_path / "level", tmp_path / "cut"):
        run([PFW, "validate", path])
        members = [zlib.decompress(member, 31).splitlines() for member in members_of(path / "t.pfw.gz")]
        assert len(members) >= RANKS
        for lines in members:
            assert len(ranks_of(lines)) == 1
        by_rank = {}
        for lines in members:
            by_rank.setdefault(min(ranks_of(lines)), []).extend(
                json.loads(line)["ts"] for line in lines if b'"name":"process"' not in line)
        for ts in by_rank.values():
            assert ts == sorted(ts)


@pytest.mark.parametrize("words", ["query --rank 0 %", "query --rank 2 --count %", "table --rank 0 %",
                                   "table --rank 2 --plain -g name %", "overlap --rank 0 %",
                                   "patterns --rank 2 %", "memory --rank 0 %",
                                   "export --rank 0 --format csv %", "export --rank 2 --format chrome %"])
def test_members_of_other_ranks_are_not_read(runs, tmp_path, words):
    """What is spoilt in rank 1's member nobody sees who asks for another rank, by the index."""
    members = [bytearray(member) for member in members_of(runs / "all" / "t.pfw.gz")]
    other = [member for member in members[1:-1] if b'"pid":101,' in zlib.decompress(bytes(member), 31)]
    assert other
    for member in other:
        for at in range(len(member) * 3 // 4, len(member) - 8):
            member[at] ^= 0x55
    shutil.copy(runs / "all" / "t.pfw.gz.idx", tmp_path)
    (tmp_path / "t.pfw.gz").write_bytes(b"".join(members))
    out, err = answer(words.split(), tmp_path)
    assert (out, err) == answer(words.split(), runs / "all")
    _, err = answer([word.replace("0", "1").replace("2", "1") for word in words.split()], tmp_path, status=1)
    assert "t.pfw.gz" in err
    (tmp_path / "t.pfw.gz.idx").unlink()
    _, err = answer(words.split(), tmp_path, status=1)
    assert "t.pfw.gz" in err


def test_tensorboard_has_a_file_for_each_rank(runs, tmp_path):
    for kind in ("ranks", "all", "copied"):
        run([PFW, "export", runs / kind, "--format", "tensorboard", "-o", tmp_path / kind])
    names = sorted(path.name for path in (tmp_path / "ranks").iterdir())
    assert len(names) == RANKS
    for kind in ("all", "copied"):
        assert sorted(path.name for path in (tmp_path / kind).iterdir()) == names
        for name in names:
            assert (tmp_path / kind / name).read_bytes() == (tmp_path / "ranks" / name).read_bytes()


def test_beside_files_of_one_rank(runs):
    """Two runs, one of which is in one file: as if both were in a file for each rank."""
    one = answer(["table", f"{runs}/all", f"{runs}/ranks", "--all-runs", "--group-by", "rank", "--plain",
                  "--format", "csv"], runs)[0]
    other = answer(["table", f"{runs}/ranks/t-rank*.gz", f"{runs}/copied", "--all-runs", "--group-by", "rank",
                    "--plain", "--format", "csv"], runs)[0]
    assert one == other and len(one.splitlines()) == RANKS + 1
    one = answer(["overlap", f"{runs}/all", f"{runs}/ranks", "--format", "csv"], runs)[0]
    other = answer(["overlap", f"{runs}/copied", f"{runs}/ranks", "--format", "csv"], runs)[0]
    assert one == other


def test_cut(runs, tmp_path):
    """What is cut out of one file is what is cut out of each, in order."""
    for kind in ("ranks", "all", "copied"):
        run([PFW, "compact", runs / kind, "-o", tmp_path / kind, "--since", "30%", "--until", "60%",
             *([] if kind == "ranks" else ["--split-by", "none"]), "-q"])
        run([PFW, "validate", tmp_path / kind])
    for words in ("table % --group-by rank,name --format csv --row-limit -1", "query %", "overlap % --format csv"):
        answers = [sorted(answer(words.split(), tmp_path / kind)[0].splitlines())
                   for kind in ("ranks", "all", "copied")]
        assert answers[0] and answers[0] == answers[1] == answers[2]


def test_damage_is_told_once_with_its_line(runs, tmp_path):
    """A line of nobody, in a member that says whose its lines are not."""
    first, *rest = members_of(runs / "all" / "t.pfw.gz")
    text = zlib.decompress(first, 31).splitlines(keepends=True)
    number = len(text) // 2
    text = b"".join(text[:number] + [b'{"id":1,"name":\n'] + text[number:])
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = deflate.compress(text) + deflate.flush() + struct.pack("<II", zlib.crc32(text), len(text))
    header = first[:12 + struct.unpack_from("<H", first, 10)[0]]
    figures = struct.pack("<II", len(header) + len(packed), text.count(b"\n")) + header[24:40]
    header = header[:16] + figures + struct.pack("<I", zlib.crc32(figures)) + header[44:]
    broken = tmp_path / "t.pfw.gz"
    broken.write_bytes(header + packed + b"".join(rest))
    for words in ("table % --group-by rank --plain", "query % --count", "query % --rank 1", "patterns %", "overlap %"):
        _, err = answer(words.split(), broken, status=1)
        assert err.count(str(broken.name)) <= 1 and err.count(f"%:{number + 1}: ") == 1, err


def test_one_pid_on_two_hosts_is_refused(tmp_path):
    """Containers begin to count at 1: nobody could tell such lines apart."""
    for rank in range(2):
        process = Process(7, rank, 0, f"node{rank}")
        fill(process, rank + 1, 1000, 2)
        process.write(tmp_path / f"t-rank000{rank}.pfw")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run([PFW, "compact", tmp_path, "--split-by", "none"], status=2)
    assert "two hosts have a process 7, of different ranks" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    run([PFW, "compact", tmp_path])


def test_where_nobody_can_tell_lines_apart_it_is_said(runs, tmp_path):
    """A file that somebody else has put together: its ranks are counted as one, and that is said."""
    for rank in range(2):
        (tmp_path / f"{rank}").mkdir()
        process = Process(7, rank, 0, f"node{rank}")
        fill(process, rank + 1, 1000, 2)
        process.write(tmp_path / f"{rank}" / "t.pfw")
        run([PFW, "compact", tmp_path / f"{rank}", "-q"])
    joined = tmp_path / "t.pfw.gz"
    joined.write_bytes((tmp_path / "0/t.pfw.gz").read_bytes() + (tmp_path / "1/t.pfw.gz").read_bytes())
    out, err = answer(["table", "%", "--group-by", "rank", "--plain", "--format", "csv"], joined, status=1)
    assert "two hosts have a process 7" in err and len(out.splitlines()) == 2
