"""`pfw table`: torch's key averages to the letter, and I/O as jq and pandas count it.

tests/torch/key_averages.py makes the events and torch's own tables of them; what it made once is
kept, so that no torch is needed.  With PFW_TORCH_PYTHON it is made anew.
"""
import collections
import fcntl
import gzip
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import termios

import pandas
import pytest

from harness import (PFW, RUNTIME, SOURCE, clean_environment, read_lines, run, torchs_table, traced_environment,
                     without_ends)
from test_export import Trace as Made

KEPT = SOURCE / "tests/torch/key_averages"
TORCH_PYTHON = os.environ.get("PFW_TORCH_PYTHON")
EPOCH = 1_795_230_878_000_000


def table(*arguments, status=0, **options):
    return run([PFW, "table", *arguments], status=status, **options)


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(*words):
    """The greatest memory of a command, in KiB: of a child of a small process, whose own it includes."""
    return int(run([sys.executable, "-I", "-S", "-c", PEAK, PFW, *words]).stdout)


def rows(*arguments, status=0):
    out = table(*arguments, "--format", "ndjson", "--row-limit", "-1", status=status).stdout
    return [json.loads(line) for line in out.splitlines()]


def by(key, found):
    return {row[key]: row for row in found}


class Trace:
    """A trace made by hand, in the recorder's form."""

    def __init__(self, pid=100, rank=None):
        self.pid, self.lines = pid, []
        args = {"format": 1, "version": "0", "run": "made", "host": "here", "rank": rank,
                "world_size": 1 if rank is None else 2}
        self.add("process", "pfw", 0, None, args, ph="M")

    def add(self, name, cat, ts, dur, args=None, ph="X", tid=None):
        """ts and dur in ns; dur None: a line without."""
        times = {"ts": ts} if dur is None else {"ts": ts, "dur": dur}
        text = "".join(f'"{key}":{value // 1000 + (EPOCH if key == "ts" else 0)}.{value % 1000:03},'
                       for key, value in times.items())
        self.lines.append(
            f'{{"id":{len(self.lines)},"name":{json.dumps(name)},"cat":"{cat}","pid":{self.pid},'
            f'"tid":{tid or self.pid},{text}"ph":"{ph}","args":'
            f'{json.dumps(args or {}, separators=(",", ":"))}}}\n')

    def write(self, path):
        path.write_text("".join(self.lines))
        return path


# ---- torch's tables ----

def kept(name):
    with gzip.open(KEPT / f"{name}.json.gz", "rt") as file:
        return json.load(file)["tables"]


def check_tables(trace, tables):
    assert len(tables) > 3
    for wanted in tables:
        assert torchs_table(*wanted["options"], trace) == without_ends(wanted["text"]), wanted["options"]


@pytest.mark.parametrize("trace, tables", [
    ("recorded", "recorded"), ("made", "made"), ("made-calls", "made"), ("stacks", "stacks")])
def test_same_text_as_torch_C03_C04_C05_C15(trace, tables):
    """C03 C04 C05 C15: columns, units, order, keys, footer: what torch 2.15 printed of these events.
    made-calls: work joined by its launch's correlation instead of the operator's number."""
    check_tables(KEPT / f"{trace}.pfw.gz", kept(tables))


@pytest.mark.parametrize("how", ["recorded", "made", "stacks"])
@pytest.mark.skipif(not TORCH_PYTHON, reason="PFW_TORCH_PYTHON names no Python with torch")
def test_same_text_as_the_torch_that_is_here_C05(tmp_path, how):
    """C05: the same of events that are new each time, and of whatever version is installed."""
    trace, tables = tmp_path / "t.pfw", tmp_path / "t.json"
    run([TORCH_PYTHON, SOURCE / "tests/torch/key_averages.py", how, trace, tables],
        clean_environment(CUDA_VISIBLE_DEVICES=""), timeout=600)
    check_tables(trace, json.loads(tables.read_text())["tables"])


def test_any_number_of_threads_gives_the_same():
    wanted = without_ends(kept("made")[0]["text"])
    for jobs in ("1", "3", "100000"):
        assert torchs_table(KEPT / "made.pfw.gz", "--jobs", jobs) == wanted


@pytest.mark.parametrize("order", ["starts", "shuffled", "gz", "pipe", "two files"])
def test_order_and_form_of_the_lines_do_not_matter(tmp_path, order):
    """Lines in order of their ends (as recorded), of their starts (as compacted), or in none."""
    lines = gzip.decompress((KEPT / "made.pfw.gz").read_bytes()).decode().splitlines(True)
    wanted, options = without_ends(kept("made")[0]["text"]), {}
    paths = [tmp_path / "t.pfw"]
    if order == "starts":
        lines.sort(key=lambda line: json.loads(line)["ts"])
    elif order == "shuffled":
        random.Random(5).shuffle(lines)
    text = "".join(lines).encode()
    if order == "gz":
        paths = [tmp_path / "t.pfw.gz"]
        text = b"".join(gzip.compress("".join(lines[i:i + 100]).encode())
                        for i in range(0, len(lines), 100))
    if order == "two files":
        one, other = ([line for line in lines if json.loads(line)["tid"] in tids]
                      for tids in ((1,), (2, 10_000_007)))
        assert one and other
        # Kernels are joined inside a process, so all of thread 1's go with it.
        one += [line for line in other if json.loads(line)["tid"] > 2]
        other = [line for line in other if json.loads(line)["tid"] == 2]
        paths = [tmp_path / "a.pfw", tmp_path / "b.pfw"]
        paths[1].write_text("".join(other))
        text = "".join(one).encode()
        wanted = None
    paths[0].write_bytes(text)
    if order == "pipe":
        with open(paths[0], "rb") as file:
            options, paths = {"stdin": file}, ["-"]
            found = torchs_table(*paths, **options)
    else:
        found = torchs_table(*paths, **options)
    if wanted is None:
        count = collections.Counter(json.loads(line)["name"] for line in lines)
        assert by("name", rows(*paths))["gemm_kernel"]["count"] == count["gemm_kernel"]
    else:
        assert found == wanted


def test_flops_preset_B19(tmp_path):
    """B19: the columns of the seed, one unit for all."""
    trace = Trace()
    at = 0
    for name, flops, dur, kernel in (("aten::mm", 1_074_000_000, 2_631_000, 1_234_000),
                                     ("aten::conv2d", 2_456_000_000, 31_931_000, 12_543_000),
                                     ("aten::batch_norm", 128_000_000, 14_693_000, 3_421_000),
                                     ("aten::relu", 0, 1_000, 0)):
        trace.add(name, "PP", at, dur, {"kind": "cpu_op", "external_id": at + 1, "flops": flops})
        if kernel:
            trace.add(f"k_{name[6:]}", "PP", at, kernel,
                      {"kind": "kernel", "device": 1, "external_id": at + 1}, tid=10_000_007)
        at += dur
    found = torchs_table("--columns", "flops", "--sort-by", "flops", "--row-limit", "3",
                         trace.write(tmp_path / "t.pfw"))
    assert found == (
        "--------------------  ------------  ------------  ------------  ------------\n"
        "                Name    Self FLOPS     CPU total    CUDA total    # of Calls\n"
        "--------------------  ------------  ------------  ------------  ------------\n"
        "        aten::conv2d        2.456G      31.931ms      12.543ms             1\n"
        "            aten::mm        1.074G       2.631ms       1.234ms             1\n"
        "    aten::batch_norm        0.128G      14.693ms       3.421ms             1\n"
        "--------------------  ------------  ------------  ------------  ------------\n"
        "Self CPU time total: 49.256ms\n"
        "Self CUDA time total: 17.198ms\n")
    assert "aten::relu            --       1.000us       0.000us             1" in table(
        "--columns", "flops", tmp_path / "t.pfw").stdout


def test_work_is_joined_by_the_span_that_launched_it(tmp_path):
    """Kernels as our GPU probe writes them: correlation, span, no device and no external_id."""
    trace = Trace()
    trace.add("cudaLaunchKernel", "PP", 2_000, 3_000, {"kind": "runtime", "correlation": 5,
                                                       "span": 9})
    trace.add("gemm", "PP", 9_000, 40_000, {"kind": "kernel", "correlation": 5, "span": 9}, tid=8)
    trace.add("Memcpy HtoD", "PP", 60_000, 7_000, {"kind": "memcpy", "correlation": 6, "span": 9},
              tid=8)
    trace.add("load", "app", 1_000, 20_000, {"span_id": 9})
    trace.add("train", "app", 0, 30_000, {"span_id": 10})
    found = by("name", rows(trace.write(tmp_path / "t.pfw")))
    assert found["load"]["device_time_total"] == 47
    assert found["load"]["self_cpu_time_total"] == 17
    assert found["train"]["device_time_total"] == 47
    assert found["train"]["self_device_time_total"] == 0
    assert found["cudaLaunchKernel"]["device_time_total"] == 0
    assert (found["gemm"]["device_time_total"], found["gemm"]["cpu_time_total"]) == (40, 0)


# ---- I/O ----

PROGRAM = """
import os, sqlite3
db = sqlite3.connect("x.db")
db.execute("create table t(a)")
for i in range(150):
    db.execute("insert into t values (?)", ("x" * i,))
    db.commit()
for i in range(300):
    with open(f"f{i % 7}", "wb") as file:
        file.write(b"y" * (i * 37))
    with open(f"f{i % 7}", "rb") as file:
        file.read()
try:
    open("nowhere/x")
except OSError:
    pass
if os.fork() == 0:
    open("child", "w").write("z")
    os._exit(0)
os.wait()
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A real program's traces, of two processes, and their lines."""
    scratch = tmp_path_factory.mktemp("traced")
    (scratch / "work").mkdir()
    environment = traced_environment(scratch / "t", scratch)
    run(["/usr/bin/python3", "-c", PROGRAM], environment, scratch / "work")
    run(["cp", "-r", "work", "copy"], traced_environment(scratch / "cp", scratch), scratch)
    paths = sorted(scratch.glob("*.pfw"))
    assert len(paths) == 3
    return paths


FEW = 256


def is_quantile(found, durations, part):
    """The nearest rank of durations in µs: of few exactly, else to 1 % and half a ns, as sketches have whole ns."""
    ordered = sorted(durations)
    exact = ordered[max(-(-part * len(ordered) // 100), 1) - 1]
    return abs(found - exact) <= (0 if len(ordered) <= FEW else 0.01 * exact + 0.0005) + 1e-9


def calls(paths):
    return [line for path in paths for line in read_lines(path)
            if line["cat"] in ("POSIX", "STDIO") and line["ph"] == "X"]


def test_io_counts_as_jq_does(traced):
    found = by("name", rows(*traced))
    script = ('[inputs | select(.ph == "X" and (.cat == "POSIX" or .cat == "STDIO"))] | '
              'group_by(.name)[] | [.[0].name, length, (map(.dur * 1000 | round) | add), '
              '(map(.dur) | min), (map(.dur) | max)] | @json')
    wanted = [json.loads(line) for line in run(["jq", "-rn", script, *traced]).stdout.splitlines()]
    assert {row[0] for row in wanted} == set(found) >= {"pwrite", "open", "fdatasync", "unlink"}
    for name, count, total, least, greatest in wanted:
        row = found[name]
        assert (row["count"], round(row["total"] * 1000)) == (count, total), name
        assert (row["min"], row["max"]) == (least, greatest), name
        assert row["self"] == row["total"] and row["avg"] == pytest.approx(total / count / 1000,
                                                                           abs=0.001)


@pytest.mark.parametrize("keys", [["name"], ["cat", "name"], ["fname"], ["pid"], ["tid", "cat"]])
def test_io_groups_as_pandas_does(traced, keys):
    """Counts and sums exactly, percentiles within 1 %, bytes of reads and writes."""
    if keys == ["fname"]: # what cp copies: test_files_are_those_of_pandas
        traced = [path for path in traced if not path.name.startswith("cp")]
    frame = pandas.DataFrame([{**line, "fname": line["args"].get("fname") or "",
                               "ns": round(line["dur"] * 1000)} for line in calls(traced)])
    wanted = frame.groupby(keys).ns.agg(["count", "sum", "min", "max"])
    found = {tuple(str(row[key]) for key in keys): row
             for row in rows("--group-by", ",".join(keys), "--columns", "io", *traced)}
    assert len(found) == len(wanted) > 1
    for key, row in wanted.iterrows():
        names = tuple(map(str, key if isinstance(key, tuple) else (key,)))
        mine = found[names]
        assert (mine["count"], round(mine["total"] * 1000)) == (row["count"], row["sum"])
        ns = frame[(frame[keys].astype(str) == names).all(axis=1)].ns
        for part in (50, 95, 99):
            assert is_quantile(mine[f"p{part}"], ns / 1000, part), (names, part, mine)


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 100, 101, 256, 257])
def test_percentiles_are_of_one_rank(tmp_path, count):
    """Each duration is some percent above the one before, so that no rank can be taken for its neighbour."""
    trace = Trace()
    durations = [round(1000 * 1.05 ** i) for i in range(count)]
    for i, dur in enumerate(random.Random(count).sample(durations, count)):
        trace.add("read", "POSIX", i, dur, {"fname": "/x", "ret": 1})
    trace.write(tmp_path / "t.pfw")
    for indexed in (False, True):
        if indexed:
            run([PFW, "index", "-q", tmp_path])
        for group in ("fname", "name"):
            row, = rows(tmp_path, "--columns", "io", "-g", group)
            for part in (50, 95, 99):
                assert is_quantile(row[f"p{part}"], [ns / 1000 for ns in durations], part), (part, row)


def test_io_bytes(traced):
    found = by("name", rows(*traced))
    for name in ("pwrite", "write", "read", "pread"):
        moved = [line["args"]["ret"] for line in calls(traced) if line["name"] == name]
        time = sum(line["dur"] for line in calls(traced) if line["name"] == name)
        assert found[name]["bytes"] == sum(size for size in moved if size > 0) > 0
        assert found[name]["mean_size"] == pytest.approx(found[name]["bytes"] / len(moved), abs=0.01)
        assert found[name]["bandwidth"] == pytest.approx(found[name]["bytes"] / time * 1e6,
                                                         rel=1e-6)
    assert found["open"]["bytes"] is None and found["open"]["bandwidth"] is None


def test_calls_inside_calls_count_once(tmp_path):
    """A signal handler's I/O inside a call: that call's own time is less."""
    trace = Trace()
    for at in range(0, 900_000, 9_000):
        trace.add("write", "POSIX", at + 2_000, 1_000, {"fname": "/x", "ret": 10})
        trace.add("read", "POSIX", at, 8_000, {"fname": "/x", "ret": 5})
    path = trace.write(tmp_path / "t.pfw")
    found = by("name", rows(path))
    assert (found["read"]["total"], found["read"]["self"]) == (800, 700)
    assert (found["write"]["total"], found["write"]["self"]) == (100, 100)
    with open(path, "rb") as file:
        assert json.loads(run([PFW, "table", "-", "--format", "ndjson"], stdin=file)
                          .stdout.splitlines()[0]) == found["read"]


@pytest.mark.parametrize("arguments", ["-g name", "-g step", "-g pid"])
def test_a_pipe_is_read_once(tmp_path, arguments):
    """Calls in calls are known only when all are read: a file is then read again."""
    trace = Trace(rank=0)
    for i in range(9):
        trace.add("fread", "STDIO", 100_000 * i, 9_000, {"fname": "/a", "ret": 1, "size": 1})
        trace.add("read", "POSIX", 100_000 * i + 1_000, 5_000, {"fname": "/a", "ret": 1})
    path = trace.write(tmp_path / "t.pfw")
    command = f"{PFW} table {arguments} --format ndjson"
    piped = run(["bash", "-c", f"{command} <(cat {path})"]).stdout
    assert piped and piped == run(["bash", "-c", f"cat {path} | {command} -"]).stdout
    assert len(piped.splitlines()) == len(run([*command.split(), path]).stdout.splitlines())


def test_short_calls_that_were_summed_count(tmp_path):
    environment = traced_environment(tmp_path / "t", tmp_path, PFW_MIN_DUR="50ms")
    run(["dd", "if=/dev/zero", "of=out", "bs=1000", "count=500"], environment, tmp_path)
    path = tmp_path / "t.pfw"
    summed = [line["args"] for line in read_lines(path) if line["name"] == "summed"]
    found = by("name", rows(path))
    assert summed and found["write"]["count"] == 500
    assert found["write"]["bytes"] == 500_000
    assert found["write"]["p50"] is None or found["write"]["p50"] >= 50_000
    assert by("fname", rows(path, "-g", "fname"))[str(tmp_path / "out")]["bytes"] == 500_000


def terminal(columns, *words):
    """What a terminal of that width shows, and whether any line ends with a blank."""
    environment = clean_environment(TERM="dumb")
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    text = b""
    with subprocess.Popen([PFW, *words], stdout=slave, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(slave)
        try:
            while data := os.read(master, 1 << 16):
                text += data
        except OSError:  # EIO: the other end is closed
            pass
    os.close(master)
    assert process.returncode == 0
    return text.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 132])
def test_tables_fit_the_terminal(tmp_path, columns):
    """The least important columns go first, and are named; nothing is cut without dots."""
    trace = Trace()
    for i in range(9):
        trace.add("read", "POSIX", i * 10_000, 1_000 * (i + 1),
                  {"fname": "/data/" + "deep/" * 20 + f"file{i}", "ret": 4096, "count": 4096})
        trace.add("aten::convolution_overrideable", "PP", 200_000 + i * 10_000, 5_000,
                  {"kind": "cpu_op"})
    path = trace.write(tmp_path / "t.pfw")
    for words in (["table"], ["table", "-g", "fname"], ["table", "-g", "name,fname"], ["patterns"],
                  ["overlap"], ["overlap", "-b", "1ms"], ["compare", path]):
        wide = run([PFW, *words, "--wide", path]).stdout.splitlines()
        shown = terminal(columns, *words, path)
        tables = [line for line in shown if "  " in line.strip()]
        assert tables and max(map(len, tables)) <= columns, words
        assert not [line for line in shown + wide if line != line.rstrip()], words
        assert columns < 80 or max(map(len, shown)) <= columns, words
        hidden = re.findall(r"^not shown: (.*?)\s\(--wide\)$", "\n".join(shown), re.M | re.S)
        assert len(hidden) == sum(line.startswith("not shown: ") for line in shown)
        for note in hidden:
            for title in note.replace("\n", " ").split(", "):
                heads = [re.findall(rf"(?:^|  ) *{re.escape(title)}(?=$|  )", "\n".join(lines), re.MULTILINE)
                         for lines in (wide, shown)]
                assert len(heads[1]) < len(heads[0]), f"{title} is shown"
        assert not [line for line in wide if line.startswith("not shown: ")]
        if max(map(len, wide)) > columns and not hidden:
            assert any("..." in line for line in shown), words
    heads = next(line for line in terminal(columns, "compare", path, path) if line.startswith("Category"))
    assert "Change" in heads or columns < 60
    assert [heads.count(f"{name} A") == heads.count(f"{name} B") for name in ("Calls", "Total", "Typical")] == [True] * 3
    io = [line for line in terminal(columns, "table", path) if "of Calls" in line][-1]
    assert "# of Calls" in io and (columns < 60 or "Self" in io)
    if columns >= 60:
        assert any(re.search(r"  p99$|  p99  ", line) for line in terminal(columns, "table", "-s", "p99", path))
    everything = terminal(columns, "table", "--wide", path)
    assert everything == run([PFW, "table", path]).stdout.splitlines()


def test_long_names_keep_a_quarter_of_the_terminal(tmp_path):
    trace = Trace()
    for number in range(2):
        trace.add(f"void at::native::kernel_{number}<" + "int, " * 20, "PP", number * 100, 50,
                  {"kind": "kernel", "device": 1, "device_index": 0, "correlation": number})
        trace.add("cudaLaunchKernel", "PP", number * 100, 10, {"kind": "runtime", "device": 0, "correlation": number})
    for columns in (120, 160):
        names = [line.split("...")[0] for line in terminal(columns, "table", trace.write(tmp_path / "t.pfw"))
                 if line.startswith("void")]
        assert len(set(names)) == 2 and min(map(len, names)) >= columns // 4 - 3


def test_a_long_command_loses_the_directories_of_its_program_first(tmp_path):
    trace = Trace()
    program = "/opt/" + "deep/" * 10 + "python"
    trace.lines = [line.replace('"rank":', f'"cmd":"{program} train.py --in /data/x","rank":') for line in trace.lines]
    trace.add("read", "POSIX", 0, 9_000, {"fname": "/d/x", "ret": 1})
    path = trace.write(tmp_path / "t.pfw")
    for key, shown in (("cmd", "python train.py"), ("process", "100 python train.py")):
        text = "\n".join(terminal(100, "table", "-g", key, path))
        assert shown in text and "/opt" not in text and "deep" not in text, text
        assert f"{program} train.py" in run([PFW, "table", "-g", key, "--wide", "--max-name-width", "0", path]).stdout
        assert f"{program} train.py" in run([PFW, "table", "-g", key, "--format", "csv", path]).stdout


def test_a_share_above_100_percent_is_explained(tmp_path):
    for threads, head in ((1, "Wall 9.000us; I/O took 9.000us (100.0%)"),
                          (3, "Wall 9.000us; I/O took 27.000us (300.0%), added up over threads")):
        trace = Trace()
        for thread in range(threads):
            trace.add("read", "POSIX", 0, 9_000, {"fname": "/d/x", "ret": 1}, tid=100 + thread)
        assert table(trace.write(tmp_path / "t.pfw")).stdout.splitlines()[0] == head
    assert " ".join(terminal(50, "table", tmp_path / "t.pfw")[:2]) == head  # in as many lines as it takes


def test_waiting_for_a_loader_is_no_compute(tmp_path):
    trace = Trace()
    trace.add("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "PP", 0, 8_000, {"device": 0})
    trace.add("aten::copy_", "PP", 1_000, 1_000, {"device": 0})
    trace.add("aten::mm", "PP", 8_000, 2_000, {"device": 0})
    trace.add("ProfilerStep#0", "PP", 0, 20_000, {"device": 0})
    path = trace.write(tmp_path / "t.pfw")
    for options in ((), ("--group-by", "cat,name"), ("--no-index",)):
        head = table(path, *options).stdout.splitlines()[0]
        assert head == "Wall 20.000us; compute took 3.000us (15.0%), loading 7.000us (35.0%)", options


@pytest.mark.parametrize("group, head", [
    ("name", "Wall 20.000us; loading 4.000us (20.0%), I/O took 2.000us (10.0%)"),
    ("rank", "Wall 20.000us; I/O took 2.000us (10.0%)"),
    ("step", "Wall 20.000us; I/O took 2.000us (10.0%)"),
    ("cat", "Wall 20.000us; I/O took 2.000us (10.0%)")])
def test_steps_alone_are_no_compute(tmp_path, group, head):
    """As of a program of TensorFlow or JAX that calls pfw.step()."""
    trace = Trace()
    trace.add("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "PP", 0, 4_000, {"device": 0})
    trace.add("ProfilerStep#0", "PP", 0, 20_000, {"device": 0})
    trace.add("read", "POSIX", 8_000, 2_000, {"fname": "/d/x", "ret": 4096})
    path = trace.write(tmp_path / "t.pfw")
    for options in ((), ("--no-index",)):
        assert table(path, "--group-by", group, *options).stdout.splitlines()[0] == head, options


def test_text_of_io(tmp_path):
    trace = Trace()
    for i in range(4):
        trace.add("read", "POSIX", i * 10_000, 1_000 * (i + 1), {"fname": "/d/x", "ret": 4096})
    trace.add("open", "POSIX", 90_000, 2_500_000, {"fname": "/d/x", "ret": 3})
    found = table(trace.write(tmp_path / "t.pfw"), "--columns", "count,total,self,bytes,bandwidth")
    assert found.stdout == (
        "Wall 2.590ms; I/O took 2.510ms (96.9%)\n\n"
        "--------  ----------  --------  --------  --------  ---------\n"
        "    Name  # of Calls     Total      Self     Bytes  Bandwidth\n"
        "--------  ----------  --------  --------  --------  ---------\n"
        "    open           1   2.500ms   2.500ms\n"
        "    read           4  10.000us  10.000us  16.0 KiB  1.5 GiB/s\n"
        "--------  ----------  --------  --------  --------  ---------\n"
        "I/O time total: 2.510ms in 5 calls, 16.0 KiB moved\n")


@pytest.mark.parametrize("arguments", [["-g", "step"], ["-g", "cat", "--step", "4"]])
def test_steps_are_those_of_the_rank_in_a_file_of_several(tmp_path, arguments):
    """A rank without steps does not follow another one's."""
    for rank in (0, 1):
        trace = Trace(100 + rank, rank)
        trace.add("read", "POSIX", 10_000, 5_000, {"fname": "/x", "ret": 1})
        if rank:
            trace.add("ProfilerStep#4", "PP", 0, 50_000, {"kind": "step", "step": 4})
        trace.add("end", "pfw", 60_000, None, {"events": 1 + rank, "lost": 0, "reason": "exit"}, ph="M")
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    run([PFW, "compact", "-q", "--keep", "--split-by", "none", "-o", tmp_path / "one", tmp_path])
    assert rows(*arguments, tmp_path / "one") == rows(*arguments, tmp_path)


# ---- plain lines, and what indexes know ----

def test_plain_lines_count_as_jq_does(ranks):
    """--plain: every event in one table, the operators in operators as well."""
    found = {(row["cat"], row["name"]): row for row in rows(ranks, "--plain", "-g", "cat,name")}
    assert {key: (row["count"], row["total"]) for key, row in found.items()} == {
        ("POSIX", "read"): (6, 45), ("PP", "aten::mm"): (6, 60), ("PP", "ProfilerStep*"): (6, 540)}
    assert "self" not in found["PP", "aten::mm"]


@pytest.mark.parametrize("arguments", [
    [], ["-g", "cat,name"], ["--plain"], ["--plain", "-g", "cat"], ["-g", "rank,name", "--plain"],
    ["--name", "*open*"], ["--cat", "STDIO", "--plain"], ["--format", "ndjson"],
    ["--columns", "count,p99,bytes,bandwidth"]])
def test_indexes_answer_as_the_lines_do(traced, tmp_path, arguments):
    for path in traced:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    without = table(*arguments, tmp_path).stdout
    run([PFW, "index", tmp_path])
    assert without == table(*arguments, tmp_path).stdout and without


@pytest.mark.parametrize("arguments", [[], ["--name", "ProfilerStep#2"], ["--name", "Prof*"], ["--name", "*"], ["--name", "aten::*"]])
def test_indexes_know_steps_by_one_name(ranks, tmp_path, arguments):
    """An index has all steps in one row."""
    for path in ranks.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    without = rows(tmp_path, "--plain", *arguments)
    run([PFW, "index", tmp_path])
    assert rows(tmp_path, "--plain", *arguments) == without
    assert ("ProfilerStep*" in by("name", without)) == ("aten::*" not in arguments)


@pytest.mark.parametrize("arguments", [["-g", "pid"], ["--since", "0"], ["--cat", "POSIX", "-g", "tid"]])
def test_indexes_know_where_calls_were_summed(tmp_path, arguments):
    """A block with no other calls than those that a `summed` line counts is read, too."""
    trace = Trace()
    trace.add("summed", "pfw", 5, None, {"name": "read", "fname": "/x", "count": 7, "dur": 3.5, "bytes": 9}, ph="M")
    path = trace.write(tmp_path / "t.pfw")
    run([PFW, "index", path])
    assert [(row["count"], row["total"], row["bytes"]) for row in rows(path, *arguments)] == [(7, 3.5, 9)]


def test_indexes_answer_without_the_lines(tmp_path):
    """Told apart by what lies in the middle of a large trace: no index looks there."""
    trace = Trace()
    for i in range(40_000):
        trace.add("read", "POSIX", i * 1_000, 500, {"fname": "/x", "ret": 10})
    path = trace.write(tmp_path / "t.pfw")
    run([PFW, "index", path])
    text = path.read_text()
    path.write_text(text[:3 << 20] + text[3 << 20:].replace('"read"', '"ader"', 1))
    assert [row["name"] for row in rows(path)] == ["read"]
    for words in ["-w", "name == 'read'"], ["-p", "--where", "name != 'write' && cat == 'POSIX'"]:
        assert [row["name"] for row in rows(path, *words)] == ["read"]
    assert len(rows(path, "--min-dur", "0")) == 2
    damaged = text + text[:text.index("\n") // 2]
    path.write_text(damaged)
    run([PFW, "index", "-q", path], status=1)
    path.write_text(damaged[:3 << 20] + damaged[3 << 20:].replace('"read"', '"ader"', 1))
    result = table(path, status=1)
    assert "ader" not in result.stdout and result.stderr.count("the last line is cut") == 1
    # Calls inside calls: only the lines know whose time it is.
    trace.add("write", "POSIX", 39_999_100, 100, {"fname": "/x", "ret": 10})
    trace.write(path)
    run([PFW, "index", path])
    assert by("name", rows(path))["read"]["self"] == 40_000 / 2 - 0.1


KINDS = "--columns=count,self_cpu_time_total,self_device_time_total"


def by_args(ranks, path, odd, count=900):
    """Kernels launched by operators, by spans and by nobody, in steps."""
    path.mkdir()
    for rank in range(ranks):
        chance, trace = random.Random(rank), Made(100 + rank, rank, ranks)
        for i in range(count):
            at, kind = i * 1_000, chance.choice(["kernel", "kernel", "memcpy", odd])
            trace.add(chance.choice(["aten::mm", "aten::add"]), "PP", at, 500, {"kind": "cpu_op", "external_id": i + 1})
            trace.add("cudaLaunchKernel", "PP", at + 100, 200, {"kind": "runtime", "correlation": i + 1})
            trace.add("forward", "app", at + 600, 50, {"span_id": 5000 + i})
            trace.gpu(chance.choice("xyz"), at + 700, chance.randrange(1, 90), kind=kind, correlation=i + 1, **chance.choice(
                [{"external_id": i + 1}, {}, {"span": 5000 + i, "external_id": 77_777}, {"external_id": 88_888}]),
                **({"grid": [chance.randrange(4), 1, 1], "block": [128, 1, 1], "occupancy": 0.25} if kind == "kernel" else {}))
            trace.add("read", "POSIX", at + 800, 20, {"fname": "/x", "ret": 10})
        for i in range(9):
            trace.add(f"ProfilerStep#{i}", "PP", i * 100_000, 99_000, {"kind": "step"}, tid=1)
        trace.write(path / f"t-rank{rank:04}.pfw")
    return path


BY_ARGS = [
    ["-g", "operator"], ["-g", "name,operator,args.grid,args.block,args.occupancy", "--where", "args.kind == 'kernel'"],
    ["-g", "args.kind"], ["-g", "args.kind,rank", "--rank=1"], ["--where", "args.kind in ('cpu_op', 'memcpy') || cat == 'POSIX'"],
    ["-g", "args.grid,operator", "--cat", "PP"], ["-p", "--where", "cat == 'PP'"], ["-g", "step,args.kind", KINDS], ["-g", "rank,args.kind,step", KINDS],
    ["-g", "step", "--columns=self_flops,flops_per_second"]]


@pytest.mark.parametrize("odd", ['a " b', "a b"])
def test_indexes_answer_by_args_and_operator(tmp_path, odd):
    path = by_args(2, tmp_path / "t", odd)
    run([PFW, "index", "-q", path])
    for words in [*BY_ARGS, ["--where", "name in ('x', 'read')"], ["-p", "--where", "name =~ 'aten::[am]' || !(cat == 'PP')"],
                  ["-g", "operator", "--where", "name == 'y'"]]:
        answer = rows(*words, "--row-limit=-1", path)
        assert answer and answer == rows(*words, "--row-limit=-1", path, "--no-index"), words


def test_indexes_answer_by_args_without_the_lines(tmp_path):
    path = by_args(2, tmp_path / "t", "a b", 4000)
    run([PFW, "index", "-q", path])
    answers = [rows(*words, path) for words in BY_ARGS]
    for file in path.glob("*.pfw"):  # no index looks there
        text = file.read_text()
        file.write_text(text[:2 << 20] + "x" * 9 + text[(2 << 20) + 9:])
    assert answers == [rows(*words, path) for words in BY_ARGS]
    run([PFW, "table", path, "--min-dur", "0"], status=1)


@pytest.mark.parametrize("name,cat,args", [("f", "app", {"grid": 3}), ("read", "POSIX", {"kind": "kernel", "fname": "/x", "ret": 1})])
def test_args_of_gpu_work_elsewhere_need_the_lines(tmp_path, name, cat, args):
    trace = Made().add(name, cat, 0, 50, args)
    trace.gpu("k", 100, 10, grid=[1, 1, 1])
    for i in range(20):  # the form of such lines is known
        trace.add(name, cat, 1000 + 100 * i, 50, args)
    path = trace.write(tmp_path / "t.pfw")
    run([PFW, "index", "-q", path])
    for words in (["-g", "args.grid"], ["-g", "args.kind"], ["-g", "name", "--where", "args.kind == 'kernel'"]):
        assert rows(*words, path) == rows(*words, path, "--no-index")


def test_a_duration_that_is_no_number_is_unmeasured(tmp_path):
    trace = Trace()
    trace.add("read", "POSIX", 10_000, 500, {"fname": "/x", "ret": 1})
    trace.lines[-1] = trace.lines[-1].replace('"dur":0.500', '"dur":null')
    path = trace.write(tmp_path / "t.pfw")
    by_lines = rows(path, status=1)
    run([PFW, "index", "-q", path], status=1)
    assert rows(path, status=1) == by_lines
    assert by_lines[0]["count"] == 1 and by_lines[0].get("min") is None


@pytest.mark.parametrize("kind", ["io", "spans", "nested", "untimed", "cut"])
@pytest.mark.parametrize("packed", [False, True])
def test_windows_cut_few_blocks(tmp_path, kind, packed):
    """Blocks inside of a window come from the index, and the rows are those of the lines to the byte."""
    chance, traces = random.Random(f"{kind} {packed}"), []
    for rank in range(2):
        trace, at = Trace(100 + rank, rank), 0
        for i in range(25_000):
            at += chance.choice([0, 1, 999, 5_000])
            name = chance.choice(["read"] * 90 + ["write"] * 9 + ["mmap", "fsync", f"call{i // 3000}"])
            args = {"fname": f"/f{i % 9}", "ret": chance.choice([-1, 0, chance.randrange(9000)])}
            if name == "mmap":
                args["count"] = 4096
            if kind == "spans" and i % 7 == 0:
                trace.add("step", chance.choice(["app", "PP"]), at, chance.randrange(90_000))
            if kind == "untimed" and i == 12_000:
                trace.add("read", "POSIX", at, None, args)
                trace.lines[-1] = re.sub('"ts":[0-9.]*,', "", trace.lines[-1])
            trace.add(name, chance.choice(["POSIX", "STDIO"]), at, 0 if i % 50 == 0 else chance.randrange(900), args)
            at += 0 if kind == "nested" and i % 1000 == 0 else 1_000
        if kind == "cut":
            trace.lines[-1] = trace.lines[-1][:50]
        traces.append(trace.write(tmp_path / f"t-rank{rank}.pfw"))
        if packed and kind != "cut":
            run([PFW, "compact", "-q", "--force", traces[-1]], status=None)
            traces[-1] = tmp_path / f"t-rank{rank}.pfw.gz"
    for path in traces:
        run([PFW, "index", "-q", path], status=None)
    for _ in range(12):
        since = chance.randrange(90)
        ask = ["--since", f"{since}%", "--until", f"{chance.randrange(since + 1, 101)}%", "--format", "ndjson",
               "-g", chance.choice(["name", "cat", "name,rank"]), *chance.choice([[], ["-p"], ["-p", "--name", "*e*"]]),
               *chance.choice([[], ["--cat", "POSIX"], ["--rank", "1"], ["-w", "name =~ 'r' && cat != 'STDIO'"]])]
        assert (table(*ask, tmp_path, status=None).stdout ==
                table(*ask, "--no-index", tmp_path, status=None).stdout), ask
    if not packed and kind in ("io", "spans"):
        text = traces[0].read_text()
        traces[0].write_text(text[:2 << 20] + text[2 << 20:].replace('"read"', '"ader"', 1))
        window = ["-p", "--since", "2%", "--until", "98%", "--columns", "count,total"]  # percentiles of few need lines
        assert "ader" not in table(*window, tmp_path).stdout
        assert "ader" in table(*window, "--no-index", tmp_path).stdout


@pytest.mark.parametrize("group", ["name", "cat", "shape", "rank", "step", "step,rank", "tid,name"])
def test_indexes_answer_self_times_and_kernels_without_the_lines(tmp_path, group):
    trace = Trace()
    for i in range(15_000):
        trace.add("read", "POSIX", i * 1_000 + 800, i % 300, {"fname": "/x", "ret": 10})
        trace.add("aten::mm", "PP", i * 1_000, 500, {
            "kind": "cpu_op", "external_id": i + 1, "input_shapes": [[i % 3, 4]], "flops": 7})
        trace.add("cudaLaunchKernel", "PP", i * 1_000 + 100, 200, {"kind": "runtime", "correlation": i + 1})
        trace.add("gemm", "PP", i * 1_000 + 700, 50, {
            "kind": "kernel", "correlation": i + 1, "device": 1, "external_id": i + 1}, tid=10001000)
    for i in range(150):
        trace.add(f"ProfilerStep#{i}", "PP", i * 100_000, 99_000, {"kind": "step"}, tid=1)
    path = trace.write(tmp_path / "t.pfw")
    without = table(path, "-g", group).stdout
    run([PFW, "index", path])
    text = path.read_text()
    path.write_text(text[:3 << 20] + text[3 << 20:].replace('"aten::mm"', '"aten::nn"', 1))
    assert table(path, "-g", group).stdout == without
    if group == "name":
        (row,) = [row for row in rows(path) if row["name"] == "aten::mm"]
        assert (row["self_cpu_time_total"], row["device_time_total"]) == (15_000 * 0.3, 15_000 * 0.05)
        assert len(rows(path, "-w", "dur > 0")) == len(rows(path)) + 1


def test_indexes_leave_steps_of_another_file_to_the_lines(tmp_path):
    """A worker of a DataLoader has no steps; its calls are in those of its rank's one process that has."""
    trainer, worker = Trace(pid=1), Trace(pid=2)
    for i in range(4):
        trainer.add(f"ProfilerStep#{i}", "PP", i * 1_000, 900, {"kind": "step"})
        worker.add("read", "POSIX", i * 1_000 + 100, 500, {"fname": "/x", "ret": 10})
    trainer.write(tmp_path / "t.pfw")
    worker.write(tmp_path / "t-pid2.pfw")
    without = rows(tmp_path, "-g", "step", "-s", "name")
    run([PFW, "index", tmp_path])
    assert rows(tmp_path, "-g", "step", "-s", "name") == without
    assert sorted(row["step"] for row in without if row["section"] == "io") == [0, 1, 2, 3]
    # Alone, the worker is in no step.
    assert [row["count"] for row in rows(tmp_path / "t-pid2.pfw", "-g", "step")] == [4]


def test_indexes_do_not_answer_for_a_process_in_two_files(tmp_path):
    """A span of one file may lie in a span of the other, which no index of one file knows."""
    for number, (name, begin, dur) in enumerate([("outer", 10, 900), ("inner", 100, 300)]):
        directory = tmp_path / name
        directory.mkdir()
        shared = Trace(pid=1)
        shared.add(name, "app", begin, dur, {"span_id": number + 1})
        shared.write(directory / "t.pfw")
        Trace(pid=2 + number).write(directory / "t-pid2.pfw")
        run([PFW, "compact", "-q", "--force", directory], status=None)
        (directory / "t.pfw.gz").rename(tmp_path / f"t{number}.pfw.gz")
        shutil.rmtree(directory)
    ask = [PFW, "table", "--format", "ndjson", tmp_path]
    without = run(ask, status=1)
    run([PFW, "index", tmp_path], status=None)
    assert (run(ask, status=1).stdout, run(ask, status=1).stderr) == (without.stdout, without.stderr)
    assert [json.loads(line)["self_cpu_time_total"] for line in without.stdout.splitlines()] == [0.6, 0.3]


# ---- files ----

MANY_FILES = '''
import os, shutil
for i in range(160):
    with open(f"f{i % 80}-{i}", "wb", buffering=0) as file:
        for j in range(i % 7):
            file.write(b"x" * 1000 * (i % 5))
    os.stat(f"f{i % 80}-{i}")
for i in range(40):
    shutil.copyfile(f"f{i}-{i}", f"copy{i}")
    with open(f"copy{i}", "rb") as file:
        while file.read(500): pass
ends = os.pipe()
for i in range(30):
    os.write(ends[1], b"y" * 300)
    os.read(ends[0], 300)
os.sync()
'''


@pytest.fixture(scope="module", name="many_files", params=["pfw", "pfw.gz"])
def traces_of_many_files(request, tmp_path_factory):
    """Traces of two processes on the same files, without an index, and the same with one."""
    scratch = tmp_path_factory.mktemp("files")
    for name in ("work", "bare", "indexed"):
        (scratch / name).mkdir()
    for name in ("a", "b"):
        environment = traced_environment(scratch / "bare" / name, scratch / "work",
                                         DFTRACER_TRACE_COMPRESSION=str(
                                             int(request.param == "pfw.gz")))
        run(["/usr/bin/python3", "-c", MANY_FILES], environment, scratch / "work")
    paths = list((scratch / "bare").glob(f"*.{request.param}"))
    assert len(paths) == 2
    for path in paths:
        (scratch / "indexed" / path.name).write_bytes(path.read_bytes())
    run([PFW, "index", *(scratch / "indexed").glob(f"*.{request.param}")])
    assert len(list((scratch / "indexed").glob("*.idx"))) == 2
    return scratch


@pytest.mark.parametrize("key", ["bytes", "total", "count", "none"])
def test_files_from_the_index_are_those_of_the_lines(many_files, key):
    """To the letter, with rows that are as large as others on both sides of the limit."""
    for limit in (1, 2, 7, 40, 81, 160, 199, 1000):
        for form in ("text", "csv"):
            arguments = ("-g", "fname", "--sort-by", key, "--row-limit", str(limit),
                         "--format", form, "--all-runs")
            wanted = table(*arguments, many_files / "bare").stdout
            assert wanted.count("\n") > min(limit, 150)
            assert table(*arguments, many_files / "indexed").stdout == wanted, arguments


def test_files_are_those_of_pandas(many_files):
    """What copies counts for both files; calls on no file are one row."""
    lines = calls(many_files.glob("bare/*.pfw*"))
    wanted = collections.defaultdict(lambda: [0, 0, 0])
    for line in lines:
        args, moved = line["args"], 0
        if line["name"] in ("read", "pread", "write", "sendfile", "copy_file_range"):
            moved = max(args["ret"], 0)
        row = wanted[args.get("fname") or ""]
        wanted[args.get("fname") or ""] = [row[0] + 1, row[1] + round(line["dur"] * 1000),
                                           row[2] + moved]
        if args.get("target"):
            row = wanted[args["target"]]
            wanted[args["target"]] = [row[0] + 1, row[1], row[2] + moved]
    assert any(line["args"].get("target") for line in lines) and "" in wanted
    found = rows("-g", "fname", "--all-runs", many_files / "indexed")
    assert list(found[0]) == ["section", "fname", "count", "total_percent", "total", "avg",
                              "bytes", "mean_size", "bandwidth"]
    assert {row["fname"]: [row["count"], round(row["total"] * 1000), row["bytes"] or 0]
            for row in found} == dict(wanted)


def test_files_come_from_the_index_alone(tmp_path):
    """Told apart by what lies in the middle of a large trace; and the lines, where they must be."""
    trace = Trace()
    for i in range(40_000):
        trace.add("read", "POSIX", i * 1_000, 500, {"fname": f"/x{i % 50}", "ret": 10})
    path = trace.write(tmp_path / "t.pfw")
    run([PFW, "index", path])
    text = path.read_text()
    path.write_text(text[:3 << 20] + text[3 << 20:].replace("/x7", "/y7", 1))

    def files(*arguments):
        out = table("-g", "fname", "--row-limit", "100", "--format", "ndjson", *arguments, path)
        return len(out.stdout.splitlines())

    assert [files(), files("-s", "bytes"), files("--columns", "count,bytes"),
            files("--row-limit", "-1")] == [50] * 4
    for arguments in (["--min-dur", "0"], ["--columns", "io"], ["-s", "avg"], ["-s", "name"],
                      ["--plain"], ["--since", "0"]):
        assert files(*arguments) == 51, arguments


def test_rows_without_rank_or_step_say_so(tmp_path):
    """A launcher has no rank.  For programs the name is empty."""
    trace = Trace()
    trace.add("read", "POSIX", 4_000, 1_000, {"fname": "/d/x", "ret": 4096})
    path = trace.write(tmp_path / "t.pfw")
    for key in ("rank", "step"):
        assert f"\n(no {key})" in table("-g", key, path).stdout
        assert f"(no {key})" not in table("-g", key, "--format", "csv", path).stdout


def test_files_have_rows_of_calls_only(tmp_path):
    trace = Trace()
    trace.add("load", "app", 0, 9_000, {"fname": "/d/x"})
    trace.add("aten::mm", "PP", 0, 9_000, {"kind": "cpu_op"})
    trace.add("fscanf", "STDIO", 1_000, 2_000, {"fname": "/d/x", "ret": 1})
    trace.add("read", "POSIX", 4_000, 1_000, {"fname": "/d/x", "ret": 4096})
    trace.add("read", "POSIX", 5_000, 1_000, {"fname": None, "ret": 1024}, ph="i")
    trace.add("close", "POSIX", 6_000, 1_000, {"fname": None, "ret": 0})
    path = trace.write(tmp_path / "t.pfw")
    without = table("-g", "fname", path).stdout
    run([PFW, "index", path])
    assert without == table("-g", "fname", path).stdout == (
        "Wall 9.000us; I/O took 4.000us (44.4%)\n\n"
        "---------  ----------  -------  -------  -------  -------  ---------  ---------\n"
        "     File  # of Calls  Total %    Total      Avg    Bytes  Mean size  Bandwidth\n"
        "---------  ----------  -------  -------  -------  -------  ---------  ---------\n"
        "     /d/x           2   75.00%  3.000us  1.500us  4.0 KiB    4.0 KiB  3.8 GiB/s\n"
        "(no file)           1   25.00%  1.000us  1.000us\n"
        "---------  ----------  -------  -------  -------  -------  ---------  ---------\n"
        "I/O time total: 4.000us in 3 calls, 4.0 KiB moved\n")


# ---- which lines, which rows ----

@pytest.fixture(name="ranks")
def two_ranks(tmp_path):
    for rank in (0, 1):
        trace = Trace(pid=100 + rank, rank=rank)
        for step in range(3):
            at = step * 100_000
            trace.add("read", "POSIX", at + 10_000, 5_000 * (rank + 1),
                      {"fname": f"/d/{rank}", "ret": 100, "step": step})
            trace.add("aten::mm", "PP", at + 30_000, 10_000, {"kind": "cpu_op", "step": step})
            trace.add(f"ProfilerStep#{step}", "PP", at, 90_000, {"kind": "step", "step": step})
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    return tmp_path


@pytest.mark.parametrize("which", ["ranks", "traced"])
def test_compacted_traces_have_the_same_table(request, tmp_path, which):
    """Sorted by their begins, several processes in a file, in members, with an index."""
    given = request.getfixturevalue(which)
    paths = sorted(given.glob("*.pfw")) if which == "ranks" else given
    for name in {path.name.split("-")[0].split(".")[0] for path in paths}:
        of_it = [path for path in paths if path.name.startswith(name)]
        out = tmp_path / f"compacted-{name}"
        out.mkdir()
        run([PFW, "compact", "--keep", "--force", "-o", out, *of_it], status=None)
        assert list(out.glob("*.pfw.gz"))
        for arguments in ([], ["-g", "name,tid"], ["--plain", "-g", "fname"]):
            assert table(*arguments, out).stdout == table(*arguments, *of_it).stdout


def test_both_kinds_are_two_tables(ranks):
    found = table(ranks).stdout
    assert found.index("\nCompute\n") < found.index("ProfilerStep*") < found.index("\nI/O\n")
    # What a step reads is not an operator of it: torch's figures stay torch's.
    steps = by("name", rows(ranks))["ProfilerStep*"]
    assert (steps["count"], steps["cpu_time_total"], steps["self_cpu_time_total"]) == (6, 540, 480)


def test_groups_by_rank_step_and_category(ranks):
    reads = [row for row in rows(ranks, "-g", "rank,name") if row["name"] == "read"]
    assert [(row["rank"], row["total"]) for row in reads] == [(1, 30), (0, 15)]
    steps = [row for row in rows(ranks, "-g", "step") if row["section"] == "compute"]
    assert [(row["step"], row["count"], row["self_cpu_time_total"]) for row in steps] == [
        (0, 4, 180), (1, 4, 180), (2, 4, 180)]
    assert {(row["cat"], row["count"]) for row in rows(ranks, "-g", "cat")} == {("PP", 12),
                                                                               ("POSIX", 6)}


def test_groups_by_args(tmp_path):
    """Any arg: as the line has it, of a string its text; lines without it have a row of their own."""
    trace = Trace()
    for number in range(12):
        trace.add("read", "POSIX", 1000 * number, 100, {"fname": "/a", "fd": number % 3, "ret": 10})
        trace.add("gemm", "PP", 1000 * number, 50, {"kind": "kernel", "device": 1, "device_index": 0, "stream": 7,
                                                    "correlation": number + 1, "grid": [number % 2 + 1, 1, 1], "own": 'a"é' if number else ""})
    path = trace.write(tmp_path / "t.pfw")
    found = rows(path, "-g", "args.fd")
    assert {row["args.fd"]: row["count"] for row in found if row["section"] == "io"} == {"0": 4, "1": 4, "2": 4}
    found = rows(path, "-g", "name,args.grid,args.own", "--where", "args.kind == 'kernel'")
    assert {(row["name"], row["args.grid"], row["args.own"]): (row["count"], row["device_time_total"]) for row in found} == {
        ("gemm", "[1,1,1]", ""): (1, 0.05), ("gemm", "[1,1,1]", 'a"é'): (5, 0.25), ("gemm", "[2,1,1]", 'a"é'): (6, 0.3)}
    assert {row["args.no"] for row in rows(path, "-g", "args.no,cat")} == {""}
    text = table(path, "-g", "name,args.grid").stdout
    assert re.search(r"^ *Name +args\.grid ", text, re.M) and re.search(r"^ *gemm +\[2,1,1\] ", text, re.M)
    for wrong in ("args.", "args." + "k" * 60, ",".join(f"args.{key}" for key in "abcdefghi")):
        assert "--group-by" in table(path, "-g", wrong, status=2).stderr


def test_groups_by_operator(tmp_path):
    """GPU work is with the operator whose device time it is: by external_id, by the caller of its runtime call, by
    its API span; or with none.  The sums are those of the operators."""
    trace = Trace()
    def kernel(name, start, dur, **args):
        trace.add(name, "PP", 1000 * start, 1000 * dur, {"kind": "kernel", "device": 1, "device_index": 0, "stream": 7, "grid": [dur, 1, 1], **args})
    trace.add("aten::linear", "PP", 0, 100000, {"kind": "cpu_op", "external_id": 1})
    trace.add("aten::linear", "PP", 5000, 60000, {"kind": "cpu_op", "external_id": 2})
    trace.add("aten::mm", "PP", 10000, 40000, {"kind": "cpu_op", "external_id": 3})
    trace.add("cudaLaunchKernel", "PP", 20000, 9000, {"kind": "runtime", "correlation": 11})
    trace.add("cuLaunchKernel", "PP", 22000, 5000, {"kind": "driver", "correlation": 11})
    trace.add("aten::add", "PP", 110000, 10000, {"kind": "cpu_op", "external_id": 4})
    trace.add("mine", "app", 130000, 20000, {"span_id": 5})
    kernel("gemm", 200, 30, external_id=3, correlation=11)
    kernel("gemm", 240, 7, correlation=11)               # no operator is named: the runtime call's caller
    kernel("gemm", 250, 5, external_id=4)
    kernel("gemm", 260, 3, external_id=99, correlation=98, span=5)
    kernel("gemm", 270, 2, correlation=97)
    path = trace.write(tmp_path / "t.pfw")
    rows_of = lambda *more: {(row["name"], row["operator"]): (row["count"], row["device_time_total"])
                             for row in rows(path, "-g", "name,operator", *more)}
    work = {("gemm", "aten::mm"): (2, 37), ("gemm", "aten::add"): (1, 5), ("gemm", "mine"): (1, 3), ("gemm", ""): (1, 2)}
    found = rows_of()
    assert {key: found[key] for key in found if key[0] == "gemm"} == work
    assert rows_of("--where", "args.kind == 'kernel'", "-j", "2") == work
    operators = by("name", rows(path))
    for name in ("aten::mm", "aten::add", "mine"):
        assert operators[name]["self_device_time_total"] == work["gemm", name][1]
    assert {(row["operator"], row["count"]) for row in rows(path, "-g", "operator") if row["device"]} == {
        ("aten::mm", 2), ("aten::add", 1), ("mine", 1), ("", 1)}
    assert {(row["operator"], row["args.grid"]): row["count"] for row in rows(path, "-g", "operator,args.grid") if row["device"]}[
        "aten::mm", "[7,1,1]"] == 1
    assert re.search(r"^ *gemm +aten::mm ", table(path, "-g", "name,operator").stdout, re.M)


def test_conditions_choose_rows_and_keep_self_times(ranks):
    """--name, --where: of the whole; times, ranks: of what they leave."""
    found = rows(ranks, "--name", "ProfilerStep*")
    assert [(row["count"], row["self_cpu_time_total"]) for row in found] == [(6, 480)]
    assert [row["name"] for row in rows(ranks, "--where", "args.ret==100")] == ["read"]
    assert by("name", rows(ranks, "--rank", "1"))["read"]["total"] == 30
    assert by("name", rows(ranks, "--since", "+150us"))["aten::mm"]["count"] == 2
    assert by("name", rows(ranks, "--fname", "/d/0"))["read"]["count"] == 3


def test_columns_and_formats_agree(ranks):
    arguments = ("--columns", "count,cpu_time_total,bytes", "--sort-by", "count")
    frame = pandas.read_csv(io.StringIO(table(ranks, *arguments, "--format", "csv").stdout))
    assert list(frame.columns) == ["section", "name", "device", "count", "cpu_time_total", "total",
                                   "bytes"]
    other = pandas.read_csv(io.StringIO(table(ranks, *arguments, "--format", "tsv").stdout),
                            sep="\t")
    assert frame.equals(other)
    for row, line in zip(frame.to_dict("records"), rows(ranks, *arguments)):
        assert all(row[key] == value for key, value in line.items())


def steps_of_two(tmp_path, chance, told):
    """Two ranks with steps, operators, kernels and I/O in, between and across them; each line says its step,
    or does not, and the lines are in no order."""
    flops, lengths = collections.Counter(), {}
    for rank in range(2):
        trace, ts = Trace(pid=100 + rank, rank=rank), 1000
        for step in range(1, 6):
            dur = chance.randrange(5000, 50000)
            lengths[step, rank] = dur
            kind = {"kind": "step", "device": 0, "step": step}
            trace.add(f"ProfilerStep#{step}", "PP", ts, dur, kind if told else {"kind": "step"})
            # torch shows it a second time where the device worked for it: later.
            trace.add(f"ProfilerStep#{step}", "PP", ts + dur // 2, 10**5, {"kind": "step", "device": 1, "step": step})
            for at in sorted(chance.sample(range(ts - 900, ts + dur), 30)):
                inside = {"step": step} if told and at >= ts else {}
                more = chance.choice([{"kind": "cpu_op", "flops": 1000}, {"kind": "kernel", "device": 1},
                                      {"kind": "cpu_op"}, None])
                if more is None:
                    trace.add("read", "POSIX", at, 1, {"ret": 1, **inside}, tid=7)
                    continue
                flops[step if at >= ts else None, rank] += more.get("flops", 0)
                trace.add(chance.choice("ab"), "PP", at, 1, {**more, **inside}, tid=chance.choice([5, 6]))
            ts += dur + 1000
        head, *lines = trace.lines
        trace.lines = [head, *chance.sample(lines, len(lines))]
        trace.write(tmp_path / f"t-rank{rank:04}.pfw")
    return flops, lengths


@pytest.mark.parametrize("seed", range(4))
def test_events_that_do_not_say_their_step(tmp_path, seed):
    """They are of the step that their process was in when they began; no other than if they said it."""
    found = []
    for told in (True, False):
        (tmp_path / str(told)).mkdir()
        steps_of_two(tmp_path / str(told), random.Random(seed), told)
        found.append([table(tmp_path / str(told), "--row-limit", "-1", *words).stdout for words in (
            ["-g", "step,name,rank"], ["--step", "2-3"], ["--step", "4", "-g", "step"], ["--step", "9"])])
    assert found[0] == found[1] and "ProfilerStep" in found[0][0] and "read" in found[0][1]
    assert table(tmp_path / "False", "--step", "2", "--cat", "POSIX").stdout.count("read") == 1


def test_b18_flops_a_second_of_steps(tmp_path):
    """FLOPs of a step by its time, of all ranks the slowest one's; percent of what so many devices can do."""
    flops, lengths = steps_of_two(tmp_path, random.Random(1), True)
    for words, ranks in ((["-g", "step"], [(0, 1)]), (["-g", "step,rank"], [(0,), (1,)])):
        found = [row for row in rows(tmp_path, *words, "--peak-tflops", "0.5", "--columns", "flops")
                 if row["section"] == "compute" and row["step"] != "" and not row["device"]]
        assert len(found) == 5 * len(ranks)
        for row in found:
            of = next(each for each in ranks if row.get("rank", 0) in each)
            work = sum(flops[row["step"], rank] for rank in of)
            speed = work * 1e9 / max(lengths[row["step"], rank] for rank in of)
            assert row["self_flops"] == work > 0
            assert row["flops_per_second"] == pytest.approx(speed, rel=1e-6)
            assert row["peak_percent"] == pytest.approx(speed / len(of) / 0.5e12 * 100, rel=1e-5)
    whole = rows(tmp_path, "-g", "step,rank", "--columns", "speed", "--peak-tflops", "1")
    run([PFW, "compact", "-q", "--force", "--split-by", "none", tmp_path], status=None)
    assert rows(tmp_path, "-g", "step,rank", "--columns", "speed", "--peak-tflops", "1") == whole
    text = table(tmp_path, "-g", "step", "--peak-tflops", "0.5").stdout
    assert re.search(r"FLOP/s +Of peak", text) and re.search(r" [\d.]+ GFLOP/s +[\d.e-]+%", text)
    assert "peak" not in table(tmp_path, "-g", "step").stdout


def test_c22_tensor_cores_where_the_name_of_a_kernel_says_it(tmp_path):
    """NVIDIA's names tell the instruction; of all others nothing is known, which is not no."""
    says = ["volta_fp16_s884gemm_fp16_128x64", "sm80_xmma_gemm_f16f16_f16f32_tn", "ampere_bf16_s16816gemm_bf16_128x64",
            "cutlass_80_tensorop_s1688gemm_128x128", "turing_h1688gemm_128x64_tn"]
    silent = ["void gemm<float>(int)", "sm80_xmma_gemm_f32f32_f32_tn_simt", "ampere_sgemm_128x64", "Memset (Device)"]
    trace = Trace()
    for number, name in enumerate(says + silent):
        trace.add(name, "PP", 1000 * number, 500, {"kind": "kernel", "device": 1, "correlation": number})
    trace.add("sm80_xmma_gemm", "PP", 0, 100, {"kind": "cpu_op"})
    path = trace.write(tmp_path / "t.pfw")
    found = {row["name"]: row["tensor_cores"] for row in rows(path, "--columns", "tensor_cores")}
    assert found == {**dict.fromkeys(says, True), **dict.fromkeys([*silent, "sm80_xmma_gemm"])}
    text = table(path, "--columns", "tensor_cores", "--wide").stdout
    assert re.search(r"turing_h1688gemm_128x64_tn +yes$", text, re.M) and re.search(r"ampere_sgemm_128x64 +-$", text, re.M)
    assert all(row["tensor_cores"] is None for row in rows(path, "-g", "cat", "--columns", "tensor_cores"))


def test_b18_flops_a_second_of_operators(tmp_path):
    """By the time of the device that worked for them, else by their own."""
    trace = Trace()
    trace.add("mm", "PP", 0, 4000, {"kind": "cpu_op", "flops": 8000, "external_id": 1})
    trace.add("gemm", "PP", 9000, 2000, {"kind": "kernel", "device": 1, "external_id": 1})
    trace.add("conv", "PP", 5000, 1000, {"kind": "cpu_op", "flops": 3000})
    trace.add("add", "PP", 7000, 1000, {"kind": "cpu_op"})
    found = by("name", rows(trace.write(tmp_path / "t.pfw"), "--columns", "speed", "--peak-tflops", "1"))
    assert found["mm"]["flops_per_second"] == 4e9 and found["mm"]["peak_percent"] == 0.4
    assert found["conv"]["flops_per_second"] == 3e9 and found["add"]["flops_per_second"] is None
    for bad in ("0", "-1", "x", "inf", "1x", ""):
        assert "--peak-tflops" in table(tmp_path / "t.pfw", "--peak-tflops", bad, status=2).stderr


def sheets(text):
    """The tables of a text: rows of cells, cut where the rules say."""
    found, rules = [], 0
    for line in text.splitlines():
        if re.fullmatch("-[- ]*-+ *", line):  # above the header, below it, below the rows
            spans = [match.span() for match in re.finditer("-+", line)]
            found += [[]] if rules % 3 == 0 else []
            rules += 1
        elif rules % 3 == 1:  # torch's headers may be wider than their columns
            found[-1].append(re.split("  +", line.strip()))
        elif rules % 3:
            found[-1].append([line[begin:end].strip() for begin, end in spans])
    return found


def pages(text):
    """The tables of a page of Markdown: rows of cells."""
    found = []
    for line in text.splitlines():
        if line.startswith("|--"):
            assert len(found[-1]) == 1 and line.count("|") == len(found[-1][0]) + 1
        elif line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            cells = [re.sub(r"\\([|\\`*_<])", r"\1", cell).strip() for cell in cells]
            found[-1].append(cells) if found and found[-1] else found.append([cells])
        else:
            found.append([])
    return [each for each in found if each]


@pytest.mark.parametrize("arguments", [[], ["--group-by", "shape"], ["--group-by", "rank,step", "--row-limit", "3"],
                                       ["--columns", "flops"], ["--plain"], ["--top-level-only"]])
def test_page_of_markdown(ranks, arguments):
    """The tables of the text, cell by cell, and what stands below them."""
    text = table(ranks, KEPT / "made.pfw.gz", "--max-name-width", "0", *arguments).stdout
    page = table(ranks, KEPT / "made.pfw.gz", "--max-name-width", "0", *arguments, "--format", "md").stdout
    assert pages(page) == sheets(text) and len(pages(page)) == (1 if "--plain" in arguments else 2)
    assert [line for line in page.splitlines() if "total:" in line] == [
        line for line in text.splitlines() if "total:" in line]


def test_stacks_and_odd_names_in_markdown(tmp_path):
    """A stack is one cell with a line for each frame; what Markdown or a terminal would take is escaped."""
    page = pages(table(KEPT / "stacks.pfw.gz", "-g", "stack:5", "--format", "md").stdout)[0]
    at = page[0].index("Source Location")
    frames = [row["stack"].split("\n") for row in rows(KEPT / "stacks.pfw.gz", "-g", "stack:5")]
    assert [row[at].split("<br>") for row in page[1:]] == frames and max(map(len, frames)) > 1
    trace = Trace()
    trace.add("a|b*<c>\\\x1b", "PP", 0, 1000, {"kind": "cpu_op"})
    page = table(trace.write(tmp_path / "t.pfw"), "--format", "md").stdout
    assert "| a\\|b\\*\\<c>\\\\? |" in page


def test_lines_of_code(tmp_path):
    """-g line: the innermost frame of the user's code, of operators and calls; -g stack:N of calls."""
    libc, mine = "/usr/lib/x86_64-linux-gnu/libc.so.6+0xf8", "/home/me/solve.c(7): \"load\""
    trace = Trace()
    for number, stack in enumerate([[libc, mine, "/home/me/solve.c(20): main"], [7, mine, "..."], [libc, "..."], [],
                                    "text", {"a": mine}]):
        trace.add("read", "POSIX", 1000 * number, 100, {"fname": "/a", "fd": 3, "ret": 10, "count": 10, "stack": stack})
    trace.add("read", "POSIX", 7000, 100, {"fname": "/a", "fd": 3, "ret": 10, "count": 10})
    trace.add("mm", "PP", 8000, 100, {"kind": "cpu_op", "stack": ["torch/nn.py(3): f", "train.py(4): step"]})
    path = trace.write(tmp_path / "t.pfw")
    found = rows(path, "-g", "line")
    assert {(row["section"], row["line"]): row["count"] for row in found} == {
        ("io", mine): 2, ("io", libc): 1, ("io", ""): 4, ("compute", "train.py(4): step"): 1}
    assert "(no stack)" in table(path, "-g", "line").stdout and "pfw symbolize" in table(path, "-g", "line").stderr
    assert "pfw symbolize" not in table(path, "-g", "line", "--cat", "PP").stderr + table(path).stderr
    # Rows that are not shown have no stack to look into.
    assert "pfw symbolize" not in table(path, "-g", "stack", "--cat", "PP").stderr
    found = by("stack", [row for row in rows(path, "-g", "stack:2") if row["section"] == "io"])
    assert found[f"{libc}\n{mine}"]["count"] == found[f"{libc}\n..."]["count"] == 1
    assert {row["line"] for row in rows(path, "-g", "name,line,fname", "--cat", "POSIX")} == {mine, libc, ""}


def test_names_that_csv_and_terminals_mind(tmp_path):
    trace = Trace()
    names = ['a,"b"', "über\x1b[31m", "tab\there", "two\nlines"]
    for name in names:
        trace.add(name, "app", 0, 1_000)
    path = trace.write(tmp_path / "t.pfw")
    frame = pandas.read_csv(io.StringIO(table(path, "--format", "csv").stdout))
    assert sorted(frame.name) == sorted(names)
    assert sorted(by("name", rows(path))) == sorted(names)
    assert "\x1b" not in table(path).stdout and "two?lines" in table(path).stdout


# ---- other people's traces, and damage ----

def test_dftracer_files(tmp_path):
    """1.x: a bracket and letters; 2.x: numbers, and whole microseconds."""
    one = tmp_path / "one.pfw"
    one.write_text('[\n{"id":0,"name":"read","cat":"POSIX","pid":1,"tid":2,"ts":1000,"dur":5,'
                   '"ph":"X","args":{"fname":"/a","ret":70}}\n')
    two = tmp_path / "two.pfw.gz"
    two.write_bytes(gzip.compress(
        b'{"id":1,"name":"aten::mm","cat":"PP","type":6,"pid":1,"tid":2,"ts":100,"dur":50,"ph":1,'
        b'"args":{"device":0,"cpu_memory":1024,"is_remote":0,"device_memory_usage":0}}\n'
        b'{"id":2,"name":"aten::add","cat":"PP","type":6,"pid":1,"tid":2,"ts":110,"dur":20,"ph":1,'
        b'"args":{"device":0,"cpu_memory":1000}}\n'))
    found = by("name", rows(one, two))
    assert (found["read"]["total"], found["read"]["bytes"]) == (5, 70)
    assert found["aten::mm"]["self_cpu_time_total"] == 30
    assert found["aten::mm"]["self_cpu_memory_usage"] == 24


def test_dftracer_files_by_their_names(tmp_path):
    """2.x gives a hash for a file, and says on another line what it stands for."""
    trace = tmp_path / "t.pfw"
    trace.write_text(
        '{"id":3,"name":"open","cat":"POSIX","pid":1,"tid":1,"ts":99,"dur":14,"ph":1,"type":3,'
        '"args":{"fhash":"9b"}}\n'
        '{"name":"FH","cat":"dftracer","type":1,"pid":1,"tid":1,"ph":4,'
        '"args":{"name":"/data/a","value":"9b"}}\n')
    assert [(row["fname"], row["total"]) for row in rows(trace, "-g", "fname")] == [("/data/a", 14)]


def test_many_files_are_bounded(tmp_path):
    """Percentiles of 20,000 files would take their memory; the rest is there."""
    trace = Trace()
    for i in range(20_000):
        trace.add("open", "POSIX", i * 1_000, 500, {"fname": f"/d/{i}", "ret": 3})
    path = trace.write(tmp_path / "t.pfw")
    io = ("-g", "fname", "-j", "1", "--columns", "io")
    result = table(path, *io, "--row-limit", "2")
    assert "20,000 calls" in result.stdout and "16,384" in result.stderr
    assert {row["p95"] for row in rows(path, *io)} == {None}
    assert "16,384" not in table(path, "-g", "fname", "-j", "1").stderr
    assert rows(path, *io, "--fname", "/d/19*")[0]["p50"] == 0.5


def test_rows_are_kept_once(tmp_path):
    """Names are needed for nesting only: dropping them at the end takes no second copy of the rows."""
    trace = Trace()
    for i in range(60_000):
        trace.add("open", "POSIX", i * 1_000, 500, {"fname": f"/data/train/{i:040}", "ret": 3})
    path = trace.write(tmp_path / "t.pfw")
    most = {group: peak("table", "-q", "-j", "1", "-g", group, path) for group in ("name,fname", "fname,cat")}
    assert RUNTIME or most["fname,cat"] < most["name,fname"] * 1.15, most


def test_what_a_process_has_not_written_yet_counts(tmp_path):
    """A process that lives, and one that was killed: their rings are read, and stay as they are."""
    marker, trace = tmp_path / "marker", tmp_path / "t.pfw"
    marker.touch()
    script = ("import os, sys\n"
              "for line in sys.stdin:\n"
              "    for i in range(10): os.stat(sys.argv[1])\n"
              "    print(flush=True)\n")
    environment = traced_environment(tmp_path / "t", tmp_path, PFW_FLUSH_MS="60000")

    def counted():
        return [row["count"] for row in rows(trace, "--fname", "*/marker")]

    def written():
        lines = trace.read_text().splitlines() if trace.exists() else []
        return len([line for line in lines if '"name":"stat"' in line and str(marker) in line])

    with subprocess.Popen(["/usr/bin/python3", "-c", script, marker], env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        calls, living = 0, None
        # Its writer may have its first looks at any time; from then on it looks once a minute.
        while living is None or written() >= calls:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline()
            calls += 10
            if written():
                living = counted()
                assert living == [calls]
        process.kill()
    assert counted() == [calls]
    assert written() < calls


def test_damage_is_told_and_what_is_left_is_shown(tmp_path, traced):
    raw = b"".join(path.read_bytes() for path in traced)
    bad = tmp_path / "bad.pfw"
    bad.write_bytes(raw + b'{"name": broken\n')
    result = table(bad, status=1)
    assert f"bad.pfw:{raw.count(bytes([10])) + 1}: " in result.stderr and "pwrite" in result.stdout
    cut = tmp_path / "cut.pfw.gz"
    whole = gzip.compress(raw)
    cut.write_bytes(whole[:len(whole) // 2])
    result = table(cut, status=1)
    assert "cut.pfw.gz: byte" in result.stderr and "open" in result.stdout
    assert 0 < sum(row["count"] for row in rows(cut, status=1)) < len(calls(traced))
    gone = table(tmp_path / "gone.pfw", status=2)
    assert "gone.pfw" in gone.stderr and len(gone.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments, says", [
    (["--sort-by", "cuda_tme"], "cpu_time_total, "),
    (["--columns", "nothing"], "bandwidth"),
    (["--group-by", "colour"], "stack:N"),
    (["--group-by", "stack:0"], "stack:N"),
    (["--row-limit", "many"], "-1"),
    (["--format", "xml"], "csv"),
    (["--where", "dur >"], "dur >"),
])
def test_what_is_asked_wrongly_is_said(traced, arguments, says):
    """C04: a key that there is not gives the keys that there are."""
    result = table(*arguments, traced[0], status=2)
    assert says in result.stderr and not result.stdout


def test_args_of_other_types_are_none(tmp_path):
    trace = Trace()
    for value in ("x", None, [1], {"a": 1}, True):
        trace.add("f", "PP", 0, 1_000, {"kind": value, "device": value, "step": value,
                                        "fname": value, "flops": value, "correlation": value})
        trace.add("read", "POSIX", 0, 1_000, {"fname": value, "ret": value, "step": value})
    found = rows(trace.write(tmp_path / "t.pfw"), "-g", "step,name,fname")
    assert {(row["name"], row["step"]) for row in found} == {("f", ""), ("read", "")}
    assert {row["fname"] for row in found} == {"", "x"}


def test_figures_that_do_not_fit_are_no_crash(tmp_path):
    """Hostile durations and sizes: sums end at the type's border."""
    path = tmp_path / "t.pfw"
    text = ""
    for i in range(20):
        text += (f'{{"id":{i},"name":"x","cat":"PP","pid":1,"tid":1,"ts":{i},'
                 f'"dur":9000000000000000,"ph":"X","args":{{"kind":"cpu_op",'
                 f'"cpu_memory":{-2**63},"flops":{2**64 - 1}}}}}\n')
        text += (f'{{"id":{i},"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":{i},'
                 f'"dur":9000000000000000,"ph":"X","args":{{"ret":{2**63 - 1}}}}}\n')
    path.write_text(text)
    found = by("name", rows(path))
    assert found["x"]["count"] == 20 and found["read"]["bytes"] > 9e18
    assert "x" in table(path).stdout


def test_no_path_is_the_newest_run_here(tmp_path):
    Trace().write(tmp_path / "old.pfw")
    trace = Trace()
    trace.add("only", "app", 0, 5_000)
    trace.write(tmp_path / "new.pfw")
    out = subprocess.run([PFW, "table"], cwd=tmp_path, capture_output=True, text=True, check=True,
                         env=clean_environment()).stdout
    assert "only" in out and "Self CPU time total: 5.000us" in out


def test_a_table_of_nothing_says_so(tmp_path):
    """Whoever has mistyped a name sees no empty screen; programs get no rows."""
    trace = tmp_path / "t.pfw"
    trace.write_text('{"id":1,"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":1.000,"dur":1.000,"ph":"X","args":{}}\n')
    for words in (["--since", "+9s"], ["--name", "nope"], ["--fname", "/nope", "--group-by", "fname"]):
        done = run([PFW, "table", trace, *words])
        assert done.stdout == "" and done.stderr == f"pfw table: no call or compute event is in what {words[0]} selects\n".replace("--since", "--since or --until")
        assert run([PFW, "table", trace, *words, "-q"]).stderr == ""
        assert run([PFW, "table", trace, *words, "--format", "ndjson"]).stderr == ""


PROCESSES = """
import os, sys, time
def work(name):
    open(name, "w").close()
work("parent")
for i in range(3):
    if os.fork() == 0:
        work(f"worker{i}")
        os._exit(0)
    os.wait()
os.spawnlp(os.P_WAIT, "cp", "cp", "parent", "other")
"""


def test_a_share_of_work_that_is_not_shown_is_unknown(tmp_path):
    trace = Trace()
    trace.add("step", "PP", 0, 100, {"kind": "cpu_op", "device": 0, "external_id": 1})
    trace.add("gemm", "PP", 50, 40, {"kind": "kernel", "device": 1, "device_index": 0, "external_id": 1})
    shown = table("-n", "step", trace.write(tmp_path / "t.pfw")).stdout
    assert "NaN" not in shown and re.search(r"40.000ns|0.040us", shown), shown


def test_programs_get_all_rows_and_people_a_word(tmp_path):
    trace = Trace()
    for number in range(130):
        trace.add("read", "POSIX", number * 10, 5, {"fname": f"/data/{number}", "ret": number})
    path = trace.write(tmp_path / "t.pfw")
    for form in ("csv", "ndjson"):
        out = table("-g", "fname", "--format", form, path)
        assert len(out.stdout.splitlines()) == 130 + (form == "csv") and out.stderr == ""
    lines = out.stdout
    run([PFW, "index", "-q", path])
    assert table("-g", "fname", "--format", "ndjson", path).stdout == lines
    for words, says in (([], True), (["--row-limit", "9"], False), (["--row-limit", "-1"], False), (["-q"], False)):
        assert ("the first 100 rows are shown" in table("-g", "fname", *words, path).stderr) == says


def test_names_that_are_left_out(tmp_path):
    """! before a glob; from the lines and from the index."""
    trace = Trace()
    for number, (name, cat) in enumerate((("read", "POSIX"), ("fread", "STDIO"), ("write", "POSIX"), ("!odd", "app"))):
        trace.add(name, cat, number * 10, 5, {"fname": f"/{name}", "ret": 1})
    path = trace.write(tmp_path / "t.pfw")
    for _ in range(2):
        for words, names in ((["-n", "!read"], "!odd fread write"), (["-n", "!*read"], "!odd write"),
                             (["-n", "*r*", "-n", "!write"], "fread read"), (["-c", "!POSIX", "-n", "!fread"], "!odd"),
                             (["-n", "\\!odd"], "!odd"), (["-f", "!/w*"], "!odd fread read"), (["-n", "!*"], "")):
            assert sorted(row["name"] for row in rows(*words, path)) == sorted(names.split()), words
            assert run([PFW, "query", "--count", *words, path]).stdout == f"{len(names.split())}\n"
        run([PFW, "index", "-q", path])


def test_rows_by_name(tmp_path):
    trace = Trace()
    for number in (9, 10, 1):
        trace.add("read", "POSIX", number * 10, number, {"fname": "/b", "ret": 1, "step": number})
        trace.add("close", "POSIX", number * 10 + 5, 1, {"fname": "/b", "ret": 0, "step": number})
    path = trace.write(tmp_path / "t.pfw")
    assert [(row["step"], row["name"]) for row in rows("-g", "step,name", "-s", "name", path)] == \
        [(step, name) for step in (1, 9, 10) for name in ("close", "read")]


def test_processes_of_all_ranks_in_one_file_have_names(tmp_path):
    """Rank 1 was forked by rank 0, with a worker of its own."""
    for pid, rank, parent in ((10, 0, 1), (11, 1, 10), (12, 1, 11)):
        trace = Trace(rank=rank, pid=pid)
        head = json.loads(trace.lines[0])
        head["args"].update(cmd="python3 train.py", ppid=parent)
        trace.lines[0] = json.dumps(head, separators=(",", ":")) + "\n"
        trace.add("read", "POSIX", pid, 5, {"fname": "/a", "ret": 1})
        trace.write(tmp_path / f"t-rank000{rank}{'-pid12' * (pid == 12)}.pfw")
    raw = rows("-g", "process", "-s", "name", tmp_path)
    assert [row["process"] for row in raw] == ["10 python3 train.py", "11 python3 train.py",
                                               "12 worker 0 of 11: python3 train.py"]
    run([PFW, "compact", "-q", "--split-by", "none", "--force", tmp_path], status=1)  # they have no end
    assert rows("-g", "process", "-s", "name", tmp_path) == raw


def test_processes_have_names(tmp_path):
    """By process: pid and command, what was forked by its number; raw and compacted alike."""
    (tmp_path / "train.py").write_text(PROCESSES)
    run([PFW, "run", "-q", "-o", "t", "--", "/usr/bin/python3", "train.py"],
                clean_environment(), tmp_path)
    told = []
    for compact in (False, True):
        if compact:
            run([PFW, "compact", "-q", "t"], clean_environment(), tmp_path)
        told.append([run([PFW, "table", "-q", "-g", group, "-s", "name", "--format", "ndjson", "t"],
                                 clean_environment(), tmp_path).stdout for group in ("process", "cmd")])
    assert told[0] == told[1]
    processes, commands = ([json.loads(line) for line in text.splitlines()] for text in told[0])
    assert {row["cmd"] for row in commands} == {"/usr/bin/python3 train.py", "cp parent other"}
    names = sorted(re.sub("[0-9]{2,}", "N", row["process"]) for row in processes)
    assert [name for name in names if "worker 3" not in name] == \
        ["N /usr/bin/python3 train.py", "N cp parent other"] + \
        [f"N worker {i} of N: /usr/bin/python3 train.py" for i in range(3)]  # the fourth became cp
