"""`pfw import`: chrome traces, torch's own and ours, as traces that all commands read."""
import collections
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile

import pytest

from harness import PFW, SOURCE, clean_environment, run, torchs_table, without_ends
from test_export import BASE, EPOCH, Trace, exact, random_trace, work

KEPT = SOURCE / "tests/torch/kineto"
TORCH_PYTHON = os.environ.get("PFW_TORCH_PYTHON")
NUMBER = re.compile(r"-?\d+\.\d+")


def load(path, tmp_path, status=0):
    """Import it; return the trace."""
    trace = tmp_path / "imported.pfw"
    run([PFW, "import", path, "-o", trace, "--force"], status=status)
    return trace


def lines(trace):
    return [json.loads(line) for line in trace.read_text().splitlines()]


# ---- torch's own ----

NEGATIVE = re.compile(" -[0-9.]+[mu]?s")


def without_shares(got, text):
    """Of a step whose Python functions begin before it and end in it torch takes all of their time: a
    self time below 0.  Here it is what is left; shares, orders and the sum of all self times follow it."""
    def cells(line):
        return [cell for cell in re.split(r"  +", line.strip()) if not cell.endswith("%")]
    ours, torchs = [], []
    for one, other in zip(sorted(map(cells, got.splitlines())), sorted(map(cells, text.splitlines())),
                          strict=True):
        if other and other[0].startswith("Self CPU time total"):
            continue
        if len(other) > 1 and re.fullmatch(r"-[0-9.]+[mu]?s", other[1]):
            assert re.fullmatch(r"[0-9.]+[mu]?s", one.pop(1))
            other.pop(1)
        if set("".join(other)) != {"-"}:
            ours.append(" ".join(one))
            torchs.append(" ".join(other))
    return "\n".join(ours), "\n".join(torchs)


def check_tables(trace, tables):
    """To the letter, but for the last digit of a mean: torch's doubles round a half either way."""
    assert len(tables) == 3
    loose = any(NEGATIVE.search(wanted["text"]) for wanted in tables)
    for wanted in tables:
        options = wanted["options"]
        if loose and "--row-limit" in options and options[options.index("--row-limit") + 1] != "-1":
            continue  # the first few by self time are others
        got, text = torchs_table(trace, *wanted["options"]), without_ends(wanted["text"])
        if loose:
            got, text = without_shares(got, text)
        assert NUMBER.sub("#", got) == NUMBER.sub("#", text)
        for ours, theirs in zip(NUMBER.findall(got), NUMBER.findall(text)):
            digits = len(theirs.split(".")[1])
            assert abs(float(ours) - float(theirs)) < 1.5 * 10**-digits


@pytest.mark.parametrize("how", ["plain", "stack"])
def test_table_is_torchs_C05(tmp_path, how):
    """C05: operators, annotations, shapes, memory, stacks: the key averages that torch printed."""
    trace = load(KEPT / f"{how}.json.gz", tmp_path)
    run([PFW, "validate", trace])
    with gzip.open(KEPT / f"{how}.tables.json.gz", "rt") as file:
        check_tables(trace, json.load(file)["tables"])


@pytest.mark.parametrize("how", ["plain", "stack"])
@pytest.mark.skipif(not TORCH_PYTHON, reason="PFW_TORCH_PYTHON names no Python with torch")
def test_table_is_that_of_the_torch_that_is_here_C05(tmp_path, how):
    """C05: the same of a trace that is new each time."""
    made, tables = tmp_path / "t.json", tmp_path / "t.tables.json"
    run([TORCH_PYTHON, SOURCE / "tests/torch/kineto.py", how, made, tables],
        clean_environment(CUDA_VISIBLE_DEVICES=""), timeout=600)
    check_tables(load(made, tmp_path), json.loads(tables.read_text())["tables"])


def comparable(event):
    args = dict(event.get("args", {}))
    for ours in ("cpu_memory", "step"):  # what the import adds
        args.pop(ours, None)
    return json.dumps([event.get("cat"), event["name"], event["ts"], event.get("dur"),
                       # What overlaps without nesting, as annotations over Python's functions do,
                       # is on a further lane.
                       event["pid"], event["tid"] % 10_000_000, args], sort_keys=True, default=str)


@pytest.mark.parametrize("how", ["plain", "stack"])
def test_torchs_events_come_back(tmp_path, how):
    """Imported and exported: every event with all of its keys, and torch's own arrows."""
    with gzip.open(KEPT / f"{how}.json.gz", "rt") as file:
        before = exact(file.read())
    after = exact(run([PFW, "export", load(KEPT / f"{how}.json.gz", tmp_path)]).stdout)
    assert after["baseTimeNanoseconds"] == before["baseTimeNanoseconds"]
    for key in ("host_name", "trace_id", "profile_memory", "record_shapes", "deviceProperties"):
        assert after[key] == before[key]

    def spans(document):
        return collections.Counter(
            comparable(event) for event in document["traceEvents"]
            if event["ph"] in "Xi" and isinstance(event["pid"], int))

    def arrows(document):
        ends = collections.defaultdict(dict)
        for event in document["traceEvents"]:
            if event["ph"] in "sf":
                ends[event["cat"], event["id"]][event["ph"]] = (event["ts"], event["tid"])
        return sorted((end["s"], end["f"]) for end in ends.values())

    assert spans(after) == spans(before) and len(spans(before)) > 300
    assert arrows(after) == arrows(before) and len(arrows(before)) == 12


# ---- there and back ----

def check_round_trip(trace, tmp_path, *options):
    first = run([PFW, "export", trace, *options]).stdout
    (tmp_path / "first.json").write_text(first)
    back = load(tmp_path / "first.json", tmp_path)
    run([PFW, "validate", back])
    assert run([PFW, "export", back, *options]).stdout == first


@pytest.mark.parametrize("seed", range(60))
def test_export_import_export_gives_the_same_bytes(tmp_path, seed):
    check_round_trip(random_trace(seed).write(tmp_path / "t.pfw"), tmp_path)


@pytest.mark.parametrize("options", [[], ["--absolute"]])
def test_round_trip_of_every_kind(tmp_path, options):
    check_round_trip(work().write(tmp_path / "t.pfw"), tmp_path, *options)


def test_lines_are_those_that_were_exported(tmp_path):
    """Kinds, keys and figures of ours; what Kineto's words cannot say is what it may change."""
    trace = work().write(tmp_path / "t.pfw")
    run([PFW, "export", trace, "-o", tmp_path / "t.json"])
    before = {line["name"]: line for line in lines(trace)}
    after = {line["name"]: line for line in lines(load(tmp_path / "t.json", tmp_path))}
    assert set(before) <= set(after)
    kernel = after["void gemm<float>(int)"]
    assert kernel["args"].pop("occupancy") == 0.25
    assert before["void gemm<float>(int)"]["args"].pop("occupancy") == 0.254
    for name in ("void gemm<float>(int)", "Memset (Device)", "pread", "[memory]", "cpu", "mark",
                 "Memcpy HtoD (Pageable -> Device)", "ProfilerStep#4", "lost"):
        for key in ("cat", "pid", "tid", "ts", "args"):
            assert after[name][key] == before[name][key], (name, key)
    assert after["process"]["args"]["rank"] == 3
    assert after["process"]["args"]["cmd"] == "python train.py"
    operator = after["aten::mm"]["args"]
    assert operator["stack"] == ["a.py(1): f", "b.py(2): g"] and operator["kind"] == "cpu_op"


def test_rank_and_world_size_of_torchs_exports(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({
        "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5,
                         "dur": 2, "args": {"device": 0, "context": 1, "stream": 7,
                                            "shared memory": 64, "correlation": 3,
                                            "est. achieved occupancy %": 50}}],
        "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4, "pg_count": 1},
        "baseTimeNanoseconds": 10**18}))
    trace = load(path, tmp_path)
    process, imported, lane, kernel, end = lines(trace)
    assert process["args"]["rank"] == 2 and process["args"]["world_size"] == 4
    assert imported["args"]["distributed"]["backend"] == "nccl"
    assert lane["args"] == {"name": "GPU 0 stream 7"}
    assert kernel["ts"] == 10**15 + 5 and kernel["tid"] == 10_001_007
    assert kernel["args"] == {"kind": "kernel", "device": 1, "device_index": 0, "context": 1,
                              "stream": 7, "static_smem": 64, "correlation": 3, "occupancy": 0.5}
    assert end["args"] == {"events": 1, "lost": 0, "reason": "exit"}


# ---- forms ----

EVENT = {"ph": "X", "cat": "app", "name": "x", "pid": 1, "tid": 2, "ts": 1.5, "dur": 0.25}


def imported(text, tmp_path, status=0, name="t.json"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run([PFW, "import", path], status=status)
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize("text", [
    json.dumps([EVENT]), json.dumps([EVENT])[:-1], json.dumps([EVENT], indent=3),
    "[" + json.dumps(EVENT) + ",\n", json.dumps({"traceEvents": [EVENT], "z": [1, {"y": "]}"}]}),
    "\n " + json.dumps({"a": "\\\"", "traceEvents": [EVENT]}, indent=1) + "\n"])
def test_forms_of_the_file(tmp_path, text):
    """An object or an array, with or without its end, pretty or not."""
    for data, name in ((text.encode(), "t.json"), (gzip.compress(text.encode()), "t.json.gz")):
        found, said = imported(data, tmp_path, name=name)
        assert [line["ts"] for line in found if line["cat"] == "app"] == [1.5] and not said


def test_what_traces_have_nothing_for_is_counted(tmp_path):
    found, said = imported(json.dumps([EVENT, {**EVENT, "ph": "b", "id": 1}]), tmp_path)
    assert len([line for line in found if line["cat"] == "app"]) == 1 and "1 event left out" in said
    ends = {key: EVENT[key] for key in ("pid", "tid", "ts")}
    found, said = imported(json.dumps([EVENT, {**EVENT, "ph": "B"}, {**ends, "ph": "E"}]), tmp_path)
    assert len([line for line in found if line["cat"] == "app"]) == 1 and "2 events left out" in said
    assert "without `name`" not in said


HOSTILE = {
    "empty": b"", "not JSON": b"hello", "a number": b"7", "nothing": b"{}x",
    "no such value": b'{"traceEvents":[{]}', "cut": json.dumps({"traceEvents": [EVENT]})[:-9].encode(),
    "cut text": b'{"traceEvents":[{"ph":"X","name":"abc', "lone surrogate":
    json.dumps([{**EVENT, "name": "\ud800"}]).encode(), "not UTF-8": b'[{"ph":"X","name":"\xff"}]',
    "deep": b'{"traceEvents":[' + b"[" * 10**6, "deep args":
    b'[{"ph":"X","name":"a","ts":1,"dur":1,"args":{"a":' + b"[" * 9999 + b"]" * 9999 + b"}}]",
    "deep member": b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "no key": b"{7:8}",
    "NaN": b'[{"ph":"X","name":"a","ts":NaN,"dur":1}]', "no ts": b'[{"ph":"X","name":"a"}]',
    "1e999": b'[{"ph":"X","name":"a","ts":1e999,"dur":1}]',
    "long": b'{"a":"' + b"x" * (20 << 20) + b'"}', "cut gz": gzip.compress(b"[" + b" " * 9999)[:-9],
    "wrong gz": gzip.compress(json.dumps([EVENT] * 99).encode())[:-8] + b"abcdefgh",
}


def limited(path, memory=192 << 20, status=None):
    """Its status and what it said, in bounded time and memory."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([PFW, "import", path], stdout=subprocess.DEVNULL, stderr=errors,
                                   env=clean_environment())
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    assert process.returncode in (0, 1, 2), (process.returncode, said)
    if b"__asan_init" not in pathlib.Path(PFW).read_bytes():
        assert usage.ru_maxrss * 1024 < memory
    assert len(said.splitlines()) <= 12 and all(len(each) < 400 for each in said.splitlines())
    return process.returncode, said


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(tmp_path, name):
    """One line each, no crash."""
    path = tmp_path / ("t.json.gz" if "gz" in name else "t.json")
    path.write_bytes(HOSTILE[name])
    status, said = limited(path)
    assert status in (1, 2) and "t.json" in said


def test_gzip_bomb(tmp_path):
    """A GiB of spaces, and of one text."""
    import zlib
    for text in (b" ", b"x"):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        parts = [packer.compress(b'{"a":"' if text == b"x" else b"[")]
        parts += [packer.compress(text * (1 << 20)) for _ in range(1024)]
        path = tmp_path / "t.json.gz"
        path.write_bytes(b"".join(parts) + packer.flush())
        status, _ = limited(path)
        assert status in (0, 1, 2)


def test_damaged_bytes(tmp_path):
    """A trace with some bytes wrong: never a crash, and what comes out is a trace."""
    whole = run([PFW, "export", work().write(tmp_path / "t.pfw")]).stdout.encode()
    chance = random.Random(4)
    for number in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.choice(b'"\\{}[],:0x\x00\xff\n')
        if number % 3 == 0:
            del data[chance.randrange(len(data)):]
        path, out = tmp_path / "d.json", tmp_path / "d.pfw"
        path.write_bytes(data)
        result = subprocess.run([PFW, "import", path, "-o", out, "--force"], capture_output=True,
                                text=True, timeout=300, env=clean_environment())
        assert result.returncode in (0, 1, 2) and len(result.stderr.splitlines()) <= 12
        if result.returncode < 2:
            for line in lines(out):
                assert {"id", "name", "cat", "pid", "tid", "ts", "ph", "args"} <= set(line)


def test_refusals(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([EVENT]))
    run([PFW, "import", path, "-o", tmp_path / "t.pfw"])
    assert "--force" in run([PFW, "import", path, "-o", tmp_path / "t.pfw"], status=2).stderr
    assert "is read" in run([PFW, "import", path, "-o", path, "--force"], status=2).stderr
    assert "one chrome trace" in run([PFW, "import"], status=2).stderr
    assert "save it first" in run([PFW, "import", "-"], status=2).stderr
    assert "No such file" in run([PFW, "import", tmp_path / "none.json"], status=2).stderr


def test_compressed_output_and_times(tmp_path):
    trace = Trace().add("x", "app", 17, 1).write(tmp_path / "t.pfw")
    run([PFW, "export", trace, "-o", tmp_path / "t.json.gz"])
    run([PFW, "import", tmp_path / "t.json.gz", "-o", tmp_path / "u.pfw.gz"])
    with gzip.open(tmp_path / "u.pfw.gz", "rt") as file:
        found = [exact(line) for line in file if '"app"' in line]
    assert [line["ts"] * 1000 for line in found] == [EPOCH + 17] and BASE < EPOCH
    assert "app" in run([PFW, "query", tmp_path / "u.pfw.gz"]).stdout
