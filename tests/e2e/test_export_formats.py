"""`pfw export` to tables, flame graphs, DFTracer's lines and TensorBoard's folder."""
import collections
import csv
import gzip
import io
import itertools
import json
import random
import re
import subprocess
import time
from xml.etree import ElementTree

import pandas
import pytest

import harness
from browser import browser, complaints
from harness import PFW, run
from test_export import EPOCH, Trace, chrome, exact, random_trace, work


def export(form, *arguments, status=0):
    return run([PFW, "export", "--format", form, *arguments], status=status)


# ---- csv ----

@pytest.mark.parametrize("seed", range(15))
def test_csv_has_every_figure(tmp_path, seed):
    """Each event: its texts behind JSON's escapes, times in whole ns, args as they stand."""
    trace = random_trace(seed)
    text = export("csv", trace.write(tmp_path / "t.pfw")).stdout
    (tmp_path / "t.csv").write_text(text)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        found = collections.Counter(
            (row["name"], row["cat"], row["pid"], row["tid"], row["ts_ns"], row["dur_ns"],
             row["ph"], json.dumps(json.loads(row["args"]), sort_keys=True))
            for row in csv.DictReader(file))
    wanted = collections.Counter()
    for text in trace.lines[1:]:
        line = exact(text)
        dur = str(int(line["dur"] * 1000)) if "dur" in line else ""
        wanted[line["name"], line["cat"], str(line["pid"]), str(line["tid"]),
               str(int(line["ts"] * 1000)), dur, line["ph"],
               json.dumps(json.loads(text)["args"], sort_keys=True)] += 1
    assert found == wanted


def test_pandas_reads_csv(tmp_path):
    for rank in (0, 1):
        trace = Trace(100, rank, 2)
        trace.add("pread", "POSIX", 1000 + rank, 417, {"fname": "/a,\"b\"", "ret": 5})
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    frame = pandas.read_csv(io.StringIO(export("csv", tmp_path).stdout))
    assert list(frame["rank"]) == [0, 1] and list(frame["dur_ns"]) == [417, 417]
    assert list(frame["ts_ns"]) == [EPOCH + 1000, EPOCH + 1001]
    assert json.loads(frame["args"][0]) == {"fname": "/a,\"b\"", "ret": 5}


# ---- folded ----

def folded(*arguments):
    """By flamegraph.pl's own pattern for a line."""
    found = {}
    for line in export("folded", *arguments).stdout.splitlines():
        stack, weight = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", line).groups()
        assert stack not in found
        found[stack] = int(weight)
    return found


def test_stacks_of_host_and_device_C12(tmp_path):
    """C12: by the stack that was recorded, else by nesting; devices' time to what launched it."""
    trace = work().write(tmp_path / "t.pfw")
    assert folded(trace) == {
        "ProfilerStep*": 81_588, "ProfilerStep*;forward": 3000, "ProfilerStep*;pread": 412,
        "b.py(2): g;a.py(1): f;aten::mm": 3500,
        "b.py(2): g;a.py(1): f;aten::mm;cudaLaunchKernel": 1500, "MmBackward0": 1000}
    assert folded(trace, "--weight", "device") == {
        "b.py(2): g;a.py(1): f;aten::mm;cudaLaunchKernel;void gemm<float>(int)": 3000,
        "GPU 0 stream 7;Memcpy HtoD (Pageable -> Device)": 1000, "GPU 0 stream 7;Memset (Device)": 100}
    assert folded(trace, "--weight", "count")["ProfilerStep*;pread"] == 1


def test_ranks_stand_on_their_own_ground(tmp_path):
    for rank in (0, 1):
        Trace(100, rank, 2).add("a", "app", 0, 10 + rank).write(tmp_path / f"t-rank000{rank}.pfw")
    assert folded(tmp_path) == {"rank 0;a": 10, "rank 1;a": 11}


def nested_self_times(spans):
    """The rule once more: each span lies in the innermost earlier one that ends no sooner; of
    identical ones the line that was written first lies in the other. Spans in one may overlap each
    other, as those of coroutines do: such a time counts once."""
    totals = collections.Counter()
    for tid in {span[0] for span in spans}:
        mine = sorted((s for s in spans if s[0] == tid), key=lambda s: (s[1], -s[2], -s[4]))
        left = [set(range(start, start + dur)) for _, start, dur, _, _ in mine]
        path = []
        for i, (_, start, dur, name, _) in enumerate(mine):
            inside = [j for j in range(i) if mine[j][1] + mine[j][2] > start
                      and mine[j][1] + mine[j][2] >= start + dur]
            if inside:
                left[inside[-1]] -= set(range(start, start + mine[i][2]))
            path.append((path[inside[-1]] + ";" if inside else "") + name)
        for i, stack in enumerate(path):
            totals[stack] += len(left[i])
    return {stack: total for stack, total in totals.items() if total}


@pytest.mark.parametrize("seed", range(25))
def test_self_times_of_random_spans(tmp_path, seed):
    chance, trace, spans = random.Random(seed), Trace(), []
    for number in range(chance.randrange(120)):
        span = (chance.choice([100, 101]), chance.randrange(300), chance.choice([0, 3, 20, 150]),
                chance.choice("abc"), number)
        spans.append(span)
        trace.add(span[3], "app", span[1], span[2], tid=span[0])
    assert folded(trace.write(tmp_path / "t.pfw")) == nested_self_times(spans)


def test_names_cannot_break_the_format(tmp_path):
    trace = Trace().add("a;b\n 7", "app", 0, 10).add("", "app", 20, 5)
    assert folded(trace.write(tmp_path / "t.pfw")) == {"a:b  7": 10, "(no name)": 5}


# ---- svg and speedscope: the same stacks ----

SVG = "{http://www.w3.org/2000/svg}"


def inclusive(stacks):
    """Each stack's figure with those of the frames that it called; "" is the whole."""
    totals = collections.Counter()
    for stack, weight in stacks.items():
        frames = stack.split(";")
        for depth in range(len(frames) + 1):
            totals[";".join(frames[:depth])] += weight
    return totals


def flame(*arguments):
    """Stack to share of the whole, by which frame lies under which; and the picture."""
    root = ElementTree.fromstring(export("svg", *arguments).stdout)
    frames = [(int(g.get("data-y")), float(g.get("data-x")), float(g.get("data-w")),
               g.find(SVG + "title").text.split("\n")[0], g) for g in root.iter(SVG + "g")]
    stacks = {}
    for y, x, w, name, _ in frames:
        above = [other[3] for other in sorted(frames, key=lambda frame: frame[0])
                 if 0 < other[0] < y and other[1] <= x + 1e-9 and x + w <= other[1] + other[2] + 1e-9]
        assert len(above) == max(y - 1, 0)
        stacks[";".join([*above, name]) if y else ""] = w
    assert len(stacks) == len(frames)
    return stacks, root


@pytest.mark.parametrize("weight", ["host", "device", "count"])
def test_flame_graph_and_speedscope_show_the_folded_stacks(tmp_path, weight):
    trace = work().write(tmp_path / "t.pfw")
    wanted = folded(trace, "--weight", weight)
    totals = inclusive(wanted)
    shares, _ = flame(trace, "--weight", weight)
    assert shares == pytest.approx({stack: total / totals[""] for stack, total in totals.items()})

    profile = json.loads(export("speedscope", trace, "--weight", weight).stdout)
    names = [frame["name"] for frame in profile["shared"]["frames"]]
    one = profile["profiles"][0]
    found = {";".join(names[i] for i in sample): weight
             for sample, weight in zip(one["samples"], one["weights"], strict=True)}
    assert found == wanted and one["endValue"] == sum(wanted.values())
    assert one["unit"] == ("none" if weight == "count" else "nanoseconds")


def test_flame_graph_of_names_that_xml_and_json_forbid(tmp_path):
    """Each a frame with its name; a character that XML has no way to write is U+FFFD."""
    names = ["<a href=\"x\">&lt]]>", "back\\slash \"quoted\"", "\ufffe\uffff", "é" * 700, "]]></script>"]
    trace = Trace()
    for number, name in enumerate(names):
        trace.add(name, "app", 100 * number, 20)
    path = trace.write(tmp_path / "t.pfw")
    shown = sorted([*names[:2], "\ufffd\ufffd", "é" * 511, names[4]])
    assert sorted(name for name in flame(path)[0] if name) == shown
    frames = json.loads(export("speedscope", path).stdout)["shared"]["frames"]
    assert sorted(frame["name"] for frame in frames) == sorted([*names[:3], "é" * 511, names[4]])


def test_flame_graph_leaves_narrow_frames_out_and_says_so(tmp_path):
    trace = Trace().add("long", "app", 0, 10**9).add("short", "app", 2 * 10**9, 1)
    stacks, root = flame(trace.write(tmp_path / "t.pfw"))
    assert set(stacks) == {"", "long"}
    assert "1 narrow frames are left out" in "".join(root.itertext())


def test_flame_graph_of_nothing(tmp_path):
    path = Trace().write(tmp_path / "t.pfw")
    assert set(flame(path)[0]) == {""}
    assert json.loads(export("speedscope", path).stdout)["profiles"][0]["samples"] == []


def test_a_browser_runs_the_flame_graph(tmp_path):
    trace = work().write(tmp_path / "t.pfw")
    export("svg", trace, "-o", tmp_path / "t.svg")
    with browser() as driver:
        driver.get((tmp_path / "t.svg").as_uri())
        page = driver.page_source
        assert complaints(driver) == []
    assert re.search(r'<svg [^>]*width="100%"', page)
    assert re.search(r'<g data-x="0.0000000000" data-w="1.0000000000" data-y="0" tabindex="0">', page)


# ---- dftracer ----

@pytest.mark.parametrize("seed", [3, 4, 5])
def test_dftracers_lines(tmp_path, seed):
    """Whole µs, files by hashes that are told once, everything else as it is."""
    trace = random_trace(seed)
    for number in range(9):
        trace.add("read", "POSIX", 999 + number, 1001, {"fname": f"/d/{number % 3}\"", "ret": 7})
    found = [json.loads(line) for line in
             export("dftracer", trace.write(tmp_path / "t.pfw")).stdout.splitlines()]
    told = [line for line in found if line["ph"] == "M"]
    hashes = {line["args"]["value"]: line["args"]["name"] for line in told if line["name"] == "FH"}
    reads = [line for line in found if line["cat"] == "POSIX" and "fhash" in line["args"]]
    assert sorted(hashes.values()) == ["/d/0\"", "/d/1\"", "/d/2\""]
    assert sorted(hashes[line["args"]["fhash"]] for line in reads) == \
        sorted(f"/d/{number % 3}\"" for number in range(9))
    assert all(isinstance(line[key], int) for line in found if line["ph"] != "M"
               for key in ("ts", "dur", "pid", "tid", "id"))
    assert all(line["args"]["hhash"] == told[0]["args"]["value"] for line in found)
    assert len(found) - len(told) == len(trace.lines) - 1
    assert {line["ts"] for line in reads} == {EPOCH // 1000, EPOCH // 1000 + 1}


def test_dftracers_lines_are_a_trace_again(tmp_path):
    trace = work().write(tmp_path / "t.pfw")
    export("dftracer", trace, "-o", tmp_path / "d.pfw.gz")
    run([PFW, "validate", tmp_path / "d.pfw.gz"])
    back = chrome(tmp_path / "d.pfw.gz")
    names = {event["args"].get("fname") for event in back["traceEvents"] if event["ph"] == "X"}
    assert "/d/\u00e9\"\n" in names


# ---- tensorboard ----

def test_a_file_for_each_rank_C19(tmp_path):
    """C19: the names that the plugin looks for, a whole timeline of its rank in each."""
    for rank in (0, 1):
        trace = Trace(100 + rank, rank, 2, host="no/de")
        trace.add("aten::mm", "PP", 5, 10, {"kind": "cpu_op"}).write(
            tmp_path / f"t-rank000{rank}.pfw")
        Trace(200 + rank, rank, 2, host="no/de").add("worker", "app", 6, 3).write(
            tmp_path / f"t-rank000{rank}-pid{200 + rank}.pfw")
    out = tmp_path / "log"
    export("tensorboard", "-o", out, tmp_path)
    files = sorted(out.iterdir())
    assert len(files) == 2
    for rank, file in enumerate(files):
        # torch_tb_profiler/consts.py
        assert re.match(r"^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$", file.name)
        with gzip.open(file, "rt") as text:
            document = json.load(text)
        assert document["distributedInfo"]["rank"] == rank
        assert {event["name"] for event in document["traceEvents"] if event["ph"] == "X"} == \
            {"aten::mm", "worker"}
    assert "--force" in export("tensorboard", "-o", out, tmp_path, status=2).stderr
    export("tensorboard", "-o", out, "--force", tmp_path)
    assert "-o DIR" in export("tensorboard", tmp_path, status=2).stderr


# ---- processes that run ----

def test_what_is_in_rings_is_exported(tmp_path):
    """A program that runs, and has written nothing of its last reads: each is there once, in every
    format, as `pfw query` has it."""
    data = tmp_path / "data"
    data.write_bytes(b"x" * 100)
    code = ("import os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
            "for line in sys.stdin:\n os.pread(fd, int(line), 0)\n print('done', flush=True)\n")
    environment = harness.traced_environment(tmp_path / "t", tmp_path, PFW_FLUSH_MS="10000")

    def preads(*words):
        return collections.Counter(int(row["args"]["count"]) for row in map(json.loads, run(
            [PFW, "query", "--name", "pread", *words, tmp_path / "t.pfw"]).stdout.splitlines()))

    def text():
        trace = tmp_path / "t.pfw"
        return trace.read_text() if trace.exists() else ""

    with subprocess.Popen(["/usr/bin/python3", "-c", code, data], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=environment) as process:
        for count in itertools.count(1):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            # The writer's first look may come late; from then on it looks every 10 s.
            while count == 1 and '"count":1,' not in text():
                time.sleep(0.05)
            # A look between the reads may have written them all; the next ones stay in the ring.
            if count >= 59 and text().count('"pread"') < count:
                break
        # A call is in its ring when it is over; the last may still be on its way there.
        for _ in range(100):
            if preads()[count]:
                break
            time.sleep(0.1)
        wanted = {each: 1 for each in range(1, count + 1)}
        written = text()
        found = collections.Counter(event["args"]["count"] for event in chrome(
            "--name", "pread", tmp_path / "t.pfw")["traceEvents"] if event["ph"] == "X")
        rows = list(csv.DictReader(io.StringIO(export("csv", tmp_path / "t.pfw").stdout)))
        late = chrome("--since", "-0s", tmp_path / "t.pfw")
        export("tensorboard", tmp_path / "t.pfw", "-o", tmp_path / "log")
        process.stdin.close()
        assert process.wait(300) == 0
    assert written.count('"pread"') < count, "they were to be in a ring"
    assert found == wanted == preads()
    assert collections.Counter(json.loads(row["args"])["count"] for row in rows
                               if row["name"] == "pread") == wanted
    assert [int(row["ts_ns"]) for row in rows] == sorted(int(row["ts_ns"]) for row in rows)
    assert not [event for event in late["traceEvents"] if event.get("name") == "open"]
    [log] = (tmp_path / "log").iterdir()
    assert gzip.decompress(log.read_bytes()).count(b'"name":"pread"') == count
