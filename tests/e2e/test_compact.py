"""`pfw compact`: nothing lost, in order, whole or not at all, whatever the input and whenever killed."""
import collections
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
import zlib

import pytest

from harness import PFW, clean_environment, open_trace, run

PYTHON = "/usr/bin/python3"
T0 = 1795230878627639123  # ns


# ---- making traces ----

def us(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"


def event(ident, ts, dur, pid=100, tid=None, name="read", cat="POSIX", args='{"fd":3}'):
    return (f'{{"id":{ident},"name":"{name}","cat":"{cat}","pid":{pid},"tid":{tid or pid},"ts":{us(ts)},'
            f'"dur":{us(dur)},"ph":"X","args":{args}}}')


def meta(ident, ts, name, args, pid=100):
    return (f'{{"id":{ident},"name":"{name}","cat":"pfw","pid":{pid},"tid":{pid},"ts":{us(ts)},'
            f'"ph":"M","args":{json.dumps(args, separators=(",", ":"))}}}')


def process(ts, pid=100, rank=-1, world=1, run_name="job-1", host="here"):
    return meta(1, ts, "process", {"format": 1, "version": "0.1.0", "run": run_name, "host": host,
                                   "rank": rank, "world_size": world, "ppid": 1, "cmd": "train"}, pid)


def end(ident, ts, events, pid=100, reason="exit"):
    return meta(ident, ts, "end", {"events": events, "lost": 0, "reason": reason}, pid)


def trace_lines(count=50, pid=100, rank=-1, world=1, seed=1, begin=T0, run_name="job-1", args='{"fd":3}'):
    """The lines of one process as the recorder has them: about in order of their ends."""
    random.seed(seed)
    spans = []
    ts = begin
    for _ in range(count):
        ts += random.randrange(100, 9000)
        spans.append((ts, random.choice([0, 500, 20000, 3000000])))
    spans.sort(key=lambda span: span[0] + span[1])
    lines = [process(begin, pid, rank, world, run_name),
             meta(2, begin + 5000, "thread_name", {"name": "train"}, pid)]
    lines += [event(3 + i, ts, dur, pid, args=args) for i, (ts, dur) in enumerate(spans)]
    return lines + [end(3 + count, ts + 4000000, count, pid)]


def member(lines, raw=None):
    """A gzip member of the recorder: FEXTRA `PF` says length, lines, least ts, greatest end."""
    text = "".join(line + "\n" for line in lines).encode() if raw is None else raw
    times = [(int(m[1] + m[2]), int((m[4] or b"0") + (m[5] or b"000"))) for m in re.finditer(
        rb'"ts":(\d+)\.(\d+)(,"dur":(\d+)\.(\d+))?,"ph":', text)]
    least = min((ts for ts, _ in times), default=2 ** 64 - 1)
    greatest = max((ts + dur for ts, dur in times), default=0)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = deflate.compress(text) + deflate.flush()
    return (b"\x1f\x8b\x08\4\0\0\0\0\4\3" + struct.pack("<H", 28) + b"PF" +
            struct.pack("<HIIQQ", 24, 40 + len(packed) + 8, text.count(b"\n"), least, greatest) +
            packed + struct.pack("<II", zlib.crc32(text), len(text)))


def write_trace(path, lines, lines_a_member=100):
    if str(path).endswith(".gz"):
        path.write_bytes(b"".join(member(lines[i:i + lines_a_member])
                                  for i in range(0, len(lines), lines_a_member)))
    else:
        path.write_text("".join(line + "\n" for line in lines))
    return path


# ---- looking at the result ----

def lines_of(*paths):
    """The lines, each as often as it is there."""
    found = collections.Counter()
    for path in paths:
        with open_trace(path) as file:
            found.update(file.read().splitlines())
    return found


def traces(directory):
    return sorted(path for path in directory.iterdir() if path.name.endswith((".pfw", ".pfw.gz")))


def times(path):
    """The ts of each line, in ns, without the `process` lines that stand in front."""
    with open_trace(path) as file:
        lines = [json.loads(line, parse_float=lambda text: int(text.replace(".", "")))
                 for line in file]
    first = next(i for i, line in enumerate(lines) if line["name"] != "process")
    return [line["ts"] for line in lines[first:]]


def check_result(path, before):
    """Whole, in order, and the same lines as before."""
    run(["gzip", "-t", path])
    assert lines_of(path) == before
    ts = times(path)
    assert ts == sorted(ts)
    with open_trace(path) as file:
        assert b'"name":"process"' in file.readline()
    validate(path)


def validate(*paths, status=0):
    return run([PFW, "validate", *paths], status=status)


def compact(*words, status=0, **options):
    return run([PFW, "compact", *words], status=status, **options)


def members_of(path):
    """The members of a file of ours, as bytes, by the lengths in their headers."""
    return members_in(path.read_bytes())


def members_in(data):
    found = []
    while data:
        length, = struct.unpack_from("<I", data, 16)
        found.append(data[:length])
        data = data[length:]
    return found


# ---- what it is for ----

@pytest.mark.parametrize("suffix", [".pfw", ".pfw.gz"])
def test_processes_of_a_rank_become_one_file(tmp_path, suffix):
    write_trace(tmp_path / f"t-rank0003{suffix}", trace_lines(500, 100, 3, 8, seed=1))
    for child in range(3):
        write_trace(tmp_path / f"t-rank0003-pid{200 + child}{suffix}",
                    trace_lines(300, 200 + child, 3, 8, seed=2 + child, begin=T0 + 7000))
    before = lines_of(*traces(tmp_path))
    done = compact(tmp_path)
    assert "t-rank0003.pfw.gz: 1,400 events of 4 traces" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["t-rank0003.pfw.gz", "t-rank0003.pfw.gz.idx", "t.manifest.json"]
    check_result(tmp_path / "t-rank0003.pfw.gz", before)
    with open_trace(tmp_path / "t-rank0003.pfw.gz") as file:
        assert [json.loads(file.readline())["pid"] for _ in range(4)] == [100, 200, 201, 202]


def test_each_rank_gets_a_file_and_the_run_a_manifest(tmp_path):
    for rank in range(4):
        write_trace(tmp_path / f"t-rank000{rank}.pfw", trace_lines(40, 100 + rank, rank, 4, seed=rank))
    before = {rank: lines_of(tmp_path / f"t-rank000{rank}.pfw") for rank in range(4)}
    done = compact(tmp_path, "--format", "ndjson")
    for rank in range(4):
        check_result(tmp_path / f"t-rank000{rank}.pfw.gz", before[rank])
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["rank"], line["events"], line["originals"]) for line in results] == \
        [(rank, 40, 1) for rank in range(4)]
    manifest = json.loads((tmp_path / "t.manifest.json").read_text())
    assert (manifest["format"], manifest["run"], manifest["ranks"]) == (1, "job-1", [0, 1, 2, 3])
    assert manifest["hosts"] == [{"host": "here", "clock_offset": 0}]
    assert manifest["totals"]["events"] == 160 and manifest["totals"]["processes"] == 4
    assert [(entry["pid"], entry["reason"], entry["events"]) for entry in manifest["processes"]] == \
        [(100 + rank, "exit", 40) for rank in range(4)]
    for entry in manifest["files"]:
        assert os.path.getsize(tmp_path / entry["file"]) == entry["bytes"]
        assert entry["lines"] == 43 and entry["events"] == 40


def rank_with_losses(directory, rank, ranks=3):
    """A rank's trace, of which some is lost."""
    pid = 100 + rank
    lines = trace_lines(40, pid, rank, ranks, seed=rank)
    lines[-1:-1] = [meta(90 + n, T0 + 3000000 + n, "lost", {"reason": "full", "count": 5 + rank + n}, pid)
                    for n in range(2)]
    return write_trace(directory / f"t-rank000{rank}.pfw", lines)


def manifest_of(directory):
    return json.loads((directory / "t.manifest.json").read_text())


def test_the_manifest_keeps_what_it_knows_of_other_ranks(tmp_path):
    """Compacted rank by rank, in any order, it says what it would say had all been compacted at once."""
    for place in ("once", "parts"):
        (tmp_path / place).mkdir()
        for rank in range(3):
            rank_with_losses(tmp_path / place, rank)
    compact(tmp_path / "once")
    wanted = manifest_of(tmp_path / "once")
    for rank in (2, 0, 1):
        compact(tmp_path / "parts" / f"t-rank000{rank}.pfw")
    assert manifest_of(tmp_path / "parts") == wanted
    assert wanted["ranks"] == [0, 1, 2] and wanted["losses"] == {"full": 6 + 7 + 8}
    assert [entry["losses"] for entry in wanted["files"]] == [{"full": 6 + n} for n in range(3)]
    # Once more, one of them alone, and one that is no longer what the manifest says.
    compact(tmp_path / "parts" / "t-rank0001.pfw.gz")
    assert manifest_of(tmp_path / "parts") == wanted
    (tmp_path / "parts" / "t-rank0002.pfw.gz").unlink()
    compact(tmp_path / "parts" / "t-rank0001.pfw.gz")
    assert manifest_of(tmp_path / "parts")["ranks"] == [0, 1]
    validate(tmp_path / "parts")


def test_the_manifest_of_another_run_says_nothing_of_this_one(tmp_path):
    write_trace(tmp_path / "t-rank0000.pfw", trace_lines(40, 100, 0, 2, run_name="a"))
    compact(tmp_path)
    write_trace(tmp_path / "t-rank0001.pfw", trace_lines(40, 101, 1, 2, run_name="b"))
    compact(tmp_path / "t-rank0001.pfw")
    assert [entry["file"] for entry in manifest_of(tmp_path)["files"]] == ["t-rank0001.pfw.gz"]


def test_ranks_that_go_elsewhere_leave_the_originals_and_their_manifest(tmp_path):
    for rank in range(3):
        rank_with_losses(tmp_path, rank)
    compact(tmp_path)
    whole, before = manifest_of(tmp_path), {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = compact(tmp_path / "t-rank0001.pfw.gz", "-o", tmp_path / "o")
    assert "removed" not in done.stdout
    assert manifest_of(tmp_path / "o")["ranks"] == [1]
    compact(tmp_path, "-o", tmp_path / "o", "--force")
    assert manifest_of(tmp_path / "o") == whole
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    validate(tmp_path)
    validate(tmp_path / "o")


def test_what_is_removed_is_said(tmp_path):
    for rank in range(2):
        rank_with_losses(tmp_path, rank)
    originals = {str(path) for path in tmp_path.iterdir()}
    done = compact(tmp_path)
    said = {name for line in done.stdout.splitlines() if line.startswith("  removed: ")
            for name in line.removeprefix("  removed: ").split(", ")}
    assert said == originals and not any(os.path.exists(name) for name in originals)
    assert compact(tmp_path, "-q").stdout == ""


@pytest.mark.parametrize("program", [
    ["tar", "cf", "/dev/null", "/usr/share/doc"],
    ["git", "-C", ".", "log", "--oneline", "-3"],
    [PYTHON, "-c", "import multiprocessing, os\n"
                   "def work(n):\n"
                   "    for i in range(50): open(f'f{n}-{i}', 'w').write('x')\n"
                   "    return n\n"
                   "if __name__ == '__main__':\n"
                   "    with multiprocessing.get_context('fork').Pool(3) as pool:\n"
                   "        print(sum(pool.map(work, range(6))))\n"]])
def test_traces_of_real_programs(tmp_path, program):
    work = tmp_path / "work"
    work.mkdir()
    run(["git", "init", "-q", "."], cwd=work)
    run([PFW, "run", "-o", tmp_path / "t", "--all", "--", *program], cwd=work, status=None)
    before = lines_of(*traces(tmp_path))
    assert sum(before.values()) > 20
    compact(tmp_path)
    assert [path.name for path in traces(tmp_path)] == ["t.pfw.gz"]
    check_result(tmp_path / "t.pfw.gz", before)
    jq = run(["sh", "-c", f"zcat {tmp_path}/t.pfw.gz | jq -c .id | wc -l"])
    assert int(jq.stdout) == sum(before.values())
    frame = run([PYTHON, "-c", "import pandas, sys\n"
                 "print(len(pandas.read_json(sys.argv[1], lines=True, convert_dates=False)))",
                 tmp_path / "t.pfw.gz"])
    assert int(frame.stdout) == sum(before.values())


def test_lines_of_a_tracer_of_another_project_stay_as_they_are(tmp_path):
    lines = [f'{{"id":{i},"name":"read","cat":"POSIX","pid":7,"tid":7,"ts":{1000 + i * 7 % 50},'
             f'"dur":3,"ph":"X","args":{{"hhash":"ab"}}}}' for i in range(60)]
    hashes = '{"id":99,"name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"name":"/x","value":"ab"}}'
    (tmp_path / "app-1.pfw").write_text("[\n" + "".join(line + ",\n" for line in [hashes, *lines[:30]]) + "]\n")
    with gzip.open(tmp_path / "app-2.pfw.gz", "wt") as file:
        file.write("[\n" + "".join(line + "\n" for line in lines[30:]) + "]")
    compact(tmp_path)
    assert [path.name for path in traces(tmp_path)] == ["app.pfw.gz"]
    with open_trace(tmp_path / "app.pfw.gz") as file:
        found = file.read().decode().splitlines()
    assert sorted(found) == sorted([hashes, *lines])
    ts = [json.loads(line)["ts"] for line in found if "FH" not in line]
    assert ts == sorted(ts)


def test_lines_in_reverse_order_and_in_none(tmp_path):
    """More text than the sort may hold is tested in test_merge.c; here it is order that is hard."""
    lines = trace_lines(20000, 100)
    body = lines[1:-1]
    write_trace(tmp_path / "a.pfw", [lines[0], *reversed(body), lines[-1]])
    write_trace(tmp_path / "b.pfw.gz", [lines[0], *random.Random(3).sample(body, len(body)), lines[-1]])
    before = {name: lines_of(tmp_path / name) for name in ("a.pfw", "b.pfw.gz")}
    compact(tmp_path / "a.pfw", "-o", tmp_path / "o")
    compact(tmp_path / "b.pfw.gz", "-o", tmp_path / "o")
    check_result(tmp_path / "o" / "a.pfw.gz", before["a.pfw"])
    check_result(tmp_path / "o" / "b.pfw.gz", before["b.pfw.gz"])


def test_equal_times_keep_the_order_of_processes_and_ids(tmp_path):
    for pid in (100, 101, 102):
        lines = [process(T0, pid)] + [event(2 + i, T0 + 1000, 0, pid) for i in range(500)]
        write_trace(tmp_path / ("t.pfw" if pid == 100 else f"t-pid{pid}.pfw"),
                    [*lines, end(502, T0 + 9000, 500, pid)])
    compact(tmp_path)
    with open_trace(tmp_path / "t.pfw.gz") as file:
        found = [(line["pid"], line["id"]) for line in map(json.loads, file) if line["ph"] == "X"]
    assert found == [(pid, 2 + i) for pid in (100, 101, 102) for i in range(500)]


# ---- compacted before ----

def test_compacted_again_members_are_copied(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(40000))
    compact(tmp_path)
    first = (tmp_path / "t.pfw.gz").read_bytes()
    assert len(members_of(tmp_path / "t.pfw.gz")) > 3
    again = compact(tmp_path, "--format", "ndjson")
    assert (tmp_path / "t.pfw.gz").read_bytes() == first
    copied = compact(tmp_path, "-o", tmp_path / "o", "--format", "ndjson")
    result = json.loads(copied.stdout)
    assert result["copied"] == result["members"] > 3, (again.stdout, copied.stdout)
    assert (tmp_path / "o" / "t.pfw.gz").read_bytes() == first == (tmp_path / "t.pfw.gz").read_bytes()


def test_taken_apart_and_put_together_again(tmp_path):
    many_traces(tmp_path, ranks=2, count=6000)
    before = {path.name.split(".")[0]: lines_of(path) for path in traces(tmp_path)}
    compact(tmp_path)
    first = {path.name: path.read_bytes() for path in traces(tmp_path)}
    done = compact(tmp_path, "--split-by", "process")
    assert sorted(path.name.split(".")[0] for path in traces(tmp_path)) == sorted(before), done.stderr
    for path in traces(tmp_path):
        check_result(path, before[path.name.split(".")[0]])
    compact(tmp_path)
    for name, data in first.items():
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(data)
    everything = lines_of(*traces(tmp_path))
    done = compact(tmp_path, "--split-by", "none", "--format", "ndjson")
    assert [path.name for path in traces(tmp_path)] == ["t.pfw.gz"]
    assert lines_of(tmp_path / "t.pfw.gz") == everything
    run(["gzip", "-t", tmp_path / "t.pfw.gz"])
    validate(tmp_path)


def test_taken_apart_from_members_of_several_files(tmp_path):
    """What was put together by copying has its `process` lines where those files begin, not all in front."""
    for rank in range(3):
        write_trace(tmp_path / f"t-rank{rank:04d}.pfw", trace_lines(200, 100 + rank, rank, 3, seed=rank + 1))
    compact(tmp_path, "--split-by", "process")
    before = {path.name: lines_of(path) for path in traces(tmp_path)}
    assert len(before) == 3
    compact(tmp_path, "--split-by", "none", "-o", tmp_path / "one")
    assert [path.name for path in traces(tmp_path / "one")] == ["t.pfw.gz"]
    compact(tmp_path / "one", "--split-by", "process", "-o", tmp_path / "parts")
    parts = [lines_of(path) for path in traces(tmp_path / "parts")]
    assert len(parts) == 3 and all(part in parts for part in before.values())
    validate(tmp_path / "parts")


def test_copied_members_are_not_read_but_at_the_ends_of_a_cut(tmp_path):
    """Damage inside a member that is only copied is not seen; one that must be read is said."""
    write_trace(tmp_path / "t.pfw", trace_lines(40000))
    compact(tmp_path)
    members = members_of(tmp_path / "t.pfw.gz")
    assert len(members) > 4
    spoilt = bytearray(members[2])
    spoilt[len(spoilt) // 2] ^= 0x55
    (tmp_path / "t.pfw.gz").write_bytes(b"".join([*members[:2], spoilt, *members[3:]]))
    compact(tmp_path, "-o", tmp_path / "o", "--keep")
    assert members_of(tmp_path / "o" / "t.pfw.gz")[2] == spoilt
    done = compact(tmp_path, "-o", tmp_path / "p", "--level", "1", "--keep", status=1)
    assert "damaged" in done.stderr


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("since, until", [(0, 10 ** 6), (3 * 10 ** 6, 90 * 10 ** 6), (50 * 10 ** 6, None),
                                          (None, 40 * 10 ** 6), (10 ** 12, None), (5000, 5001)])
def test_a_cut_is_what_jq_selects(tmp_path, packed, since, until):
    write_trace(tmp_path / "t.pfw", trace_lines(30000))
    if packed:
        compact(tmp_path)
    window = [word for name, ns in (("--since", since), ("--until", until)) if ns is not None
              for word in (name, us(T0 + ns))]
    done = compact(tmp_path, "-o", tmp_path / "o", *window, "--format", "ndjson")
    exact = {"parse_float": lambda text: int(text.replace(".", ""))}
    source = traces(tmp_path)[0]
    with open_trace(source) as file:
        all_lines = [(json.loads(line, **exact), line) for line in file]
    first, last = (T0 + since if since is not None else 0), (T0 + until if until is not None else 2 ** 63)
    wanted = collections.Counter(
        raw.rstrip(b"\n") for line, raw in all_lines if line["ph"] == "M" or
        (line["ts"] < last and (line["ts"] + line["dur"] > first or
                                (line["dur"] == 0 and line["ts"] >= first))))
    assert lines_of(tmp_path / "o" / "t.pfw.gz") == wanted
    assert source.exists()
    if packed and since and until and until > 10 ** 7:
        assert json.loads(done.stdout)["copied"] >= 1


def test_a_cut_needs_a_place_of_its_own(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(20))
    done = compact(tmp_path, "--since", "50%", status=2)
    assert "-o DIR" in done.stderr and os.listdir(tmp_path) == ["t.pfw"]


def test_the_index_is_written_with_it(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(30000))
    run([PFW, "index", tmp_path / "t.pfw"])
    compact(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["t.manifest.json", "t.pfw.gz", "t.pfw.gz.idx"]
    run([PFW, "index", "--check", tmp_path])
    compact(tmp_path, "-o", tmp_path / "o")
    assert sorted(os.listdir(tmp_path / "o")) == ["t.manifest.json", "t.pfw.gz"]


def test_level_9_is_smaller_than_gzip_9(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(20000))
    before = lines_of(tmp_path / "t.pfw")
    packed = run(["sh", "-c", f"gzip -9 -c {tmp_path}/t.pfw | wc -c"])
    compact(tmp_path, "--level", "9")
    check_result(tmp_path / "t.pfw.gz", before)
    assert (tmp_path / "t.pfw.gz").stat().st_size <= int(packed.stdout)


# ---- what `pfw validate` finds ----

def make_compacted(tmp_path):
    many_traces(tmp_path)
    compact(tmp_path)
    validate(tmp_path)
    return tmp_path / "t.manifest.json"


def test_validate_finds_what_is_not_in_the_manifest(tmp_path):
    manifest = make_compacted(tmp_path)
    assert "t.manifest.json: ok" in validate(manifest).stdout
    good = manifest.read_text()
    for what, becomes, said in [
            ('"file":"t-rank0000.pfw.gz","rank"', '"file":"../t-rank0000.pfw.gz","rank"', "refused"),
            ('"file":"t-rank0000.pfw.gz","rank"', '"file":"/etc/passwd","rank"', "refused"),
            ('"file":"t-rank0000.pfw.gz","rank"', '"file":"u.pfw.gz","rank"', "No such file"),
            ('"lines":', '"lines":1', "another"), ('"checksum":"', '"checksum":"f', "another"),
            ('"bytes":', '"bytes":9', "bytes"), ('"events":', '"events":1', "`events` of number 1 of its `files`"),
            ('"first_ts":1', '"first_ts":2', "`first_ts`"), ('"last_end":1', '"last_end":2', "`last_end`"),
            ('"losses":{', '"losses":{"ring":3', "`losses`"), ('"rank":0', '"rank":1', "another rank"),
            ('"members":', '"members":1', "`members`"), ('"reason":"exit"', '"reason":"exec"', "`processes`"),
            ('"start":1', '"start":2', "`start` of number 1 of its `processes`"), ('"cmd":"', '"cmd":"x', "`args`"),
            ('"pid":1', '"pid":2', "`pid`"), ('\n"processes":[', '\n"processes":[{},', "`processes`"),
            ('"ranks":[0', '"ranks":[7', "`ranks`"), ('"host":"here"', '"host":"there"', "`host`"),
            ('"totals":{"files":', '"totals":{"files":1', "`totals`"), ('"format":1', '"format":2', "newer pfw"),
            ('"files":[', '"files":3,"x":[', "no `files`"), ("{", "[", "not a manifest")]:
        begin = 0 if what in ('"format":1', "{", '"ranks":[0', '"host":"here"', '"totals":{"files":') \
            else good.index('"files":[')
        changed = good[:begin] + good[begin:].replace(what, becomes, 1)
        assert changed != good
        manifest.write_text(changed)
        done = validate(manifest, status=1)
        assert said in done.stdout, (what, done.stdout)
    manifest.write_text(good)
    validate(manifest)
    os.remove(tmp_path / "t-rank0001.pfw.gz")
    assert "t-rank0001.pfw.gz: No such file" in validate(manifest, status=1).stdout


def test_validate_finds_lines_that_cannot_be_of_their_process(tmp_path):
    lines = trace_lines(50)
    path = tmp_path / "t.pfw"
    year = 365 * 86400 * 10 ** 9
    for change, said in [
            (lambda line: line.replace('"pid":100', '"pid":101'), "line 10: `pid` 101, and the file is of process 100"),
            (lambda line: line.replace(us(T0)[:7], us(T0 - year)[:7]), "1 lines, the first of them 10, have a `ts`"),
            (lambda line: re.sub(r'("name":"\w+"),("cat":"\w+")', r"\2,\1", line), "line 10: its keys are not in the order")]:
        changed = change(lines[9])
        assert changed != lines[9]
        write_trace(path, lines[:9] + [changed] + lines[10:])
        done = validate(path, status=1).stdout
        assert said.replace("line 10", f"{path}:10") in done and "1 problem," in done, done
    write_trace(path, lines)
    validate(path)
    other = [line.replace('"pid":100', '"pid":77') if i == 20 else line for i, line in enumerate(lines)]
    write_trace(path, other)
    compact(tmp_path)
    assert "lines of process 77, which has no `process` line" in validate(tmp_path / "t.pfw.gz", status=1).stdout


def test_validate_finds_a_member_that_is_gone(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(30000))
    compact(tmp_path)
    os.remove(tmp_path / "t.pfw.gz.idx")
    path = tmp_path / "t.pfw.gz"
    members = members_of(path)
    path.write_bytes(b"".join(members[:1] + members[2:]))
    assert "events, and there are" in validate(path, status=1).stdout
    path.write_bytes(b"".join([members[1], members[0], *members[2:]]))
    validate(path, status=1)
    path.write_bytes(b"".join(members))
    validate(path)


def with_checksum(part):
    """A member() with the CRC that newer ones have of their header."""
    figures = struct.pack("<I", len(part) + 4) + part[20:40]
    return (part[:10] + struct.pack("<H", 32) + b"PF" + struct.pack("<H", 28) + figures +
            struct.pack("<I", zlib.crc32(figures)) + part[40:])


def without_checksums(data):
    """The members as they were before headers had checksums."""
    old = b""
    for part in members_in(data):
        extra, ours = struct.unpack_from("<H", part, 10)[0], struct.unpack_from("<H", part, 14)[0]
        assert part[12:14] == b"PF" and ours == 28
        part = bytearray(part[:10] + struct.pack("<H", extra - 4) + b"PF" + struct.pack("<HI", 24, len(part) - 4) +
                         part[20:40] + part[44:])
        if part[40:42] == b"PS":
            part[46:48] = b"\0\0"
        old += part
    return old


def answers(path):
    """What commands say of a trace that has no index."""
    return [run([PFW, *words, path], status=None).stdout for words in (
        ["query", "--count"], ["query", "--count", "--until", us(T0 + 900000)],
        ["query", "--since", us(T0 + 50000000)], ["query", "--where", f"ts < {us(T0 + 800000)}"],
        ["table", "--plain", "--format", "csv"], ["patterns", "--plain", "--format", "csv"],
        ["overlap", "--plain", "--format", "csv"])]


@pytest.mark.parametrize("of", ["compact", "recorder"])
def test_a_header_that_was_changed_is_not_believed(tmp_path, of):
    """gzip's CRC is not of the header.  Whatever changes in it, answers stay and the change is said."""
    lines = trace_lines(12000, args='{"fname":"/d/f","fd":3,"ret":3}')
    if of == "compact":
        write_trace(tmp_path / "t.pfw", lines)
        compact(tmp_path)
        os.remove(tmp_path / "t.pfw.gz.idx")
        os.remove(tmp_path / "t.manifest.json")
    path = tmp_path / "t.pfw.gz"
    if of == "recorder":
        path.write_bytes(b"".join(with_checksum(member(lines[i:i + 3000])) for i in range(0, len(lines), 3000)))
    good = path.read_bytes()
    before = answers(path)
    validate(path)
    second = len(members_in(good)[0])
    marked = range(second + 48, second + 88) if of == "compact" else ()
    for at in [20, 24, 25, 26, 40, *range(second + 20, second + 44), *marked][::4]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
        if at - second in (48, 49):  # of another version, or not sorted: no mark that this pfw knows
            continue
        assert answers(path) == before, at
        done = run([PFW, "query", "--count", "--until", us(T0 + 900000), path], status=1)
        assert "does not fit its own checksum" in done.stderr
        assert "does not fit its own checksum" in validate(path, status=1).stdout
    path.write_bytes(good)
    validate(path)


def test_headers_without_checksums_are_read_and_validated(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(12000))
    compact(tmp_path)
    path = tmp_path / "t.pfw.gz"
    before = lines_of(path)
    good = without_checksums(path.read_bytes())
    for name in ("t.pfw.gz.idx", "t.manifest.json"):
        os.remove(tmp_path / name)
    path.write_bytes(good)
    run(["gzip", "-t", path])
    validate(path)
    second = len(members_in(good)[0])
    for at, value, said in [(20, 5, "lines"), (24, T0, "times"), (32, T0 + 10 ** 15, "times"), (48, 7, "metadata"),
                            (52, 101, "process 101"), (60, T0, "times"), (68, T0, "times"), (76, 1, "checksum")]:
        changed = bytearray(good)
        struct.pack_into("<I" if at in (20, 48) else "<Q", changed, second + at, value)
        path.write_bytes(changed)
        done = validate(path, status=1).stdout
        assert f"byte {second}: the header of this gzip member is wrong" in done and said in done, (at, done)
    path.write_bytes(good)
    compact(path, "-o", tmp_path / "again")
    assert lines_of(tmp_path / "again" / "t.pfw.gz") == before
    validate(tmp_path / "again")


def test_a_cut_is_not_said_to_be_incomplete(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(30000))
    compact(tmp_path)
    compact(tmp_path, "-o", tmp_path / "o", "--since", "20%", "--until", "60%")
    validate(tmp_path / "o")


# ---- what it refuses ----

def unchanged(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("first, second, words", [
    (dict(run_name="a"), dict(run_name="b"), "two runs are not merged"),
    (dict(), dict(pid=300), "two launches"),
    (dict(), dict(), "begins as"),
])
def test_what_is_not_of_one_rank_is_not_merged(tmp_path, first, second, words):
    write_trace(tmp_path / "t-rank0000.pfw", trace_lines(20, rank=0, world=2, **first))
    write_trace(tmp_path / "t-rank0000.2.pfw", trace_lines(20, rank=0, world=2, **second))
    before = unchanged(tmp_path)
    done = compact(*traces(tmp_path), status=2)
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert unchanged(tmp_path) == before


def test_a_trace_being_written_is_refused_by_name(tmp_path):
    program = subprocess.Popen([PFW, "run", "-o", str(tmp_path / "t"), "--all", "--", PYTHON, "-c",
                                "import os, time\n"
                                "for i in range(10000):\n"
                                "    os.stat('/'); time.sleep(0.01)"],
                               env=clean_environment(), stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not traces(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        done = compact(tmp_path, status=2)
        assert f"{tmp_path}/t.pfw" in done.stderr and "is still being written" in done.stderr
        assert [path.name for path in traces(tmp_path)] == ["t.pfw"]
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait(300)
    before = sum(lines_of(tmp_path / "t.pfw").values())
    # That was its parent: the traced program itself may take a moment longer to die.
    deadline = time.monotonic() + 60
    done = compact(tmp_path, status=None)
    while "is still being written" in done.stderr and time.monotonic() < deadline:
        time.sleep(0.05)
        done = compact(tmp_path, status=None)
    assert done.returncode == 0, done.stderr
    assert sum(lines_of(tmp_path / "t.pfw.gz").values()) >= before


def test_unfinished_on_another_host_is_said(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(20)[:-1])
    done = compact(tmp_path, status=2)
    assert "host here" in done.stderr and (tmp_path / "t.pfw").exists()
    compact(tmp_path, "--force", status=1)
    assert [path.name for path in traces(tmp_path)] == ["t.pfw.gz"]


def test_a_result_that_is_there_is_not_replaced(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(20))
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "t.pfw.gz").write_text("mine")
    done = compact(tmp_path / "t.pfw", "-o", tmp_path / "o", status=2)
    assert "is there already" in done.stderr and "--force" in done.stderr
    assert (tmp_path / "o" / "t.pfw.gz").read_text() == "mine" and (tmp_path / "t.pfw").exists()
    compact(tmp_path / "t.pfw", "-o", tmp_path / "o", "--force")
    check_result(tmp_path / "o" / "t.pfw.gz", lines_of(tmp_path / "o" / "t.pfw.gz"))


def test_what_the_shell_puts_among_the_traces_is_passed_over(tmp_path):
    """t* is an index and a manifest, too."""
    write_trace(tmp_path / "t.pfw", trace_lines(20))
    run([PFW, "index", tmp_path / "t.pfw"])
    before = lines_of(tmp_path / "t.pfw")
    for _ in range(2):
        done = compact(*sorted(tmp_path.glob("t*")))
        assert done.stderr == "" and lines_of(tmp_path / "t.pfw.gz") == before
    assert run([PFW, "query", "--count", *sorted(tmp_path.glob("t*"))]).stdout == "20\n"
    for name in ("t.pfw.gz.idx", "t.manifest.json"):
        assert "not a trace" in compact(tmp_path / name, status=2).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")
def test_originals_that_cannot_be_removed_are_said_before_anything_is_done(tmp_path):
    place, out = tmp_path / "ro", tmp_path / "o"
    place.mkdir()
    write_trace(place / "t.pfw", trace_lines(20)).chmod(0o644)
    before = lines_of(place / "t.pfw")
    place.chmod(0o555)
    out.mkdir()
    out.chmod(0o777)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o001)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = run([*nobody, PFW, "compact", place / "t.pfw"], status=2)
    assert "t.pfw: cannot be removed" in done.stderr and "--keep" in done.stderr
    assert done.stderr.count("\n") == 1 and os.listdir(place) == ["t.pfw"]
    run([*nobody, PFW, "compact", "-o", out, place / "t.pfw"])
    assert lines_of(out / "t.pfw.gz") == before == lines_of(place / "t.pfw")


def test_keep_keeps(tmp_path):
    write_trace(tmp_path / "t.pfw", trace_lines(20))
    before = lines_of(tmp_path / "t.pfw")
    compact(tmp_path, "--keep")
    assert lines_of(tmp_path / "t.pfw") == before
    check_result(tmp_path / "t.pfw.gz", before)


def test_results_have_the_permissions_that_all_traces_have(tmp_path):
    modes = {"t.pfw": 0o640, "t-pid9.pfw": 0o604, "u.pfw": 0o644}
    for name, mode in modes.items():
        write_trace(tmp_path / name, trace_lines(20, 1 + len(name)), 1).chmod(mode)
    for pattern, mode in (("u.pfw", 0o644), ("t*.pfw", 0o600)):
        compact(*tmp_path.glob(pattern))
        for path in tmp_path.glob(pattern[0] + ".*"):
            assert path.stat().st_mode & 0o777 == mode, path


# ---- damage ----

def test_damage_is_said_and_the_originals_stay(tmp_path):
    lines = trace_lines(300)
    write_trace(tmp_path / "t.pfw", [*lines[:100], '{"id":12,"name":', *lines[100:]])
    before = lines_of(tmp_path / "t.pfw")
    done = compact(tmp_path, status=1)
    assert re.search(r"t\.pfw: byte \d+: ", done.stderr) and "kept" in done.stderr
    assert lines_of(tmp_path / "t.pfw") == before
    check_result(tmp_path / "t.pfw.gz", lines_of(tmp_path / "t.pfw") - collections.Counter([b'{"id":12,"name":']))


def test_a_damaged_member_is_not_replaced_by_less(tmp_path):
    path = write_trace(tmp_path / "t.pfw.gz", trace_lines(600))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    done = compact(tmp_path, status=1)
    assert "left unchanged" in done.stderr and path.read_bytes() == data
    done = compact(tmp_path, "-o", tmp_path / "o", status=1)
    assert path.read_bytes() == data
    ts = times(tmp_path / "o" / "t.pfw.gz")
    assert ts == sorted(ts) and len(ts) >= 500


def test_headers_that_lie_change_nothing_but_time(tmp_path):
    """Members say that they begin later than they do."""
    lines = trace_lines(600)
    path = tmp_path / "t.pfw.gz"
    data = b""
    for i in range(0, len(lines), 100):
        part = bytearray(member(lines[i:i + 100]))
        struct.pack_into("<Q", part, 24, T0 + 10 ** 12 + (7 - i // 100) * 10 ** 9)
        struct.pack_into("<Q", part, 32, T0 + 10 ** 13)
        data += part
    path.write_bytes(data)
    before = lines_of(path)
    compact(tmp_path)
    check_result(path, before)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\x00" * 100, b"[\n]\n", b"{}\n", b"\xff\xfe\n" * 50,
                                     b'{"a":' * 5000 + b"\n", b"\x1f\x8b\x08\x04" + b"\xff" * 60])
def test_hostile_files_do_no_harm(tmp_path, content):
    path = tmp_path / "t.pfw"
    path.write_bytes(content)
    done = compact(tmp_path, "-o", tmp_path / "o", status=None)
    assert done.returncode in (0, 1, 2) and "Sanitizer" not in done.stderr
    if path.exists():
        assert path.read_bytes() == content
    elif done.returncode: # lines that a reader minds are kept, and told of
        assert gzip.decompress((tmp_path / "o/t.pfw.gz").read_bytes()) == content


# ---- killed, interrupted, out of room ----

def many_traces(directory, ranks=2, count=3000):
    for rank in range(ranks):
        write_trace(directory / f"t-rank000{rank}.pfw.gz", trace_lines(count, 100 + rank, rank, ranks, seed=rank))
        write_trace(directory / f"t-rank000{rank}-pid{500 + rank}.pfw",
                    trace_lines(count, 500 + rank, rank, ranks, seed=9 + rank))


def every_line_once_or_twice(directory, before):
    """Each file is whole, and each line is there: once, or once in an original, too."""
    found = collections.Counter()
    for path in traces(directory):
        if path.name.endswith(".gz"):
            run(["gzip", "-t", path])
        found.update(lines_of(path))
    assert set(found) == set(before), "lost or made up"
    return found


def test_killed_at_any_moment_nothing_is_lost(tmp_path):
    random.seed(5)
    master = tmp_path / "master"
    master.mkdir()
    many_traces(master)
    before = lines_of(*traces(master))
    work = tmp_path / "work"
    cut, whole = 0, 0.5
    for _ in range(100):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(master, work)
        program = subprocess.Popen([PFW, "compact", str(work)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=clean_environment())
        time.sleep(random.random() * whole)
        program.send_signal(signal.SIGKILL)
        killed = program.wait() == -signal.SIGKILL
        cut += killed
        whole *= 1.05 if killed else 0.8  # however fast this machine is at the moment
        every_line_once_or_twice(work, before)
        done = compact(work)
        assert sorted(name for name in os.listdir(work) if not name.endswith(".idx")) == \
            ["t-rank0000.pfw.gz", "t-rank0001.pfw.gz", "t.manifest.json"], done.stderr
        assert lines_of(*traces(work)) == before
    assert cut > 20


def test_interrupted_it_leaves_everything_as_it_was(tmp_path):
    many_traces(tmp_path, ranks=1, count=60000)
    before = unchanged(tmp_path)
    for delay, out in ((0.05, []), (0.1, ["-o", str(tmp_path / "new")]), (0.2, [])):
        program = subprocess.Popen([PFW, "compact", str(tmp_path), *out], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=clean_environment())
        time.sleep(delay)
        program.send_signal(signal.SIGINT)
        said = program.communicate(timeout=300)[1]
        if program.returncode == 0:
            break
        assert program.returncode == -signal.SIGINT, said
        assert unchanged(tmp_path) == before


def test_a_full_disk_is_said_and_nothing_is_half_made(tmp_path):
    many_traces(tmp_path, ranks=1)
    before = unchanged(tmp_path)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    for out in ([], ["-o", tmp_path / "new"]):
        done = compact(tmp_path, *out, status=2, preexec_fn=limit)
        assert "File too large" in done.stderr
        assert unchanged(tmp_path) == before


# ---- many ----

def test_ten_thousand_files(tmp_path):
    for pid in range(10000):
        (tmp_path / (f"t-pid{pid + 1000}.pfw" if pid else "t.pfw")).write_text(
            process(T0 + pid, pid + 1000) + "\n" + event(2, T0 + 1000000 - pid, 5, pid + 1000) + "\n" +
            end(3, T0 + 2000000, 1, pid + 1000) + "\n")

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    compact(tmp_path, preexec_fn=limit)
    assert sorted(os.listdir(tmp_path)) == ["t.manifest.json", "t.pfw.gz", "t.pfw.gz.idx"]
    ts = times(tmp_path / "t.pfw.gz")
    assert len(ts) == 20000 and ts == sorted(ts)
