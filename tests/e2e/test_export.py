"""`pfw export`: timelines as Kineto writes them, to the nanosecond, and nothing lost."""
import collections
import decimal
import gzip
import json
import random
import shutil
import subprocess

import pytest

from harness import BUILD, PFW, run

EPOCH = 1_795_230_878_000_000_000
BASE = EPOCH - EPOCH % (7889238 * 10**9)
D = decimal.Decimal


def export(*arguments, status=0, **options):
    return run([PFW, "export", *arguments], status=status, **options)


def exact(text):
    """JSON with each number with a point as it is written."""
    return json.loads(text, parse_float=D)


def chrome(*arguments, status=0):
    return exact(export(*arguments, status=status).stdout)


def events(document, ph="X"):
    return [event for event in document["traceEvents"] if event["ph"] == ph]


def us(ns):
    return f"{'-' * (ns < 0)}{abs(ns) // 1000}.{abs(ns) % 1000:03}"


class Trace:
    """A trace made by hand, in the recorder's form.  Times are ns from EPOCH."""

    def __init__(self, pid=100, rank=None, world_size=1, host="here", cmd="python train.py"):
        self.pid, self.lines = pid, []
        self.add("process", "pfw", 0, None, {
            "format": 1, "version": "0", "run": "made", "host": host, "boot": "b", "rank": rank,
            "world_size": world_size, "local_rank": rank, "ppid": 1, "cmd": cmd}, ph="M")

    def add(self, name, cat, ts, dur, args=None, ph="X", tid=None, pid=None):
        times = f'"ts":{us(EPOCH + ts)},' + (f'"dur":{us(dur)},' if dur is not None else "")
        self.lines.append(
            f'{{"id":{len(self.lines) + 1},"name":{json.dumps(name)},"cat":{json.dumps(cat)},'
            f'"pid":{pid or self.pid},"tid":{tid or self.pid},{times}"ph":"{ph}",'
            f'"args":{json.dumps(args or {}, separators=(",", ":"))}}}\n')
        return self

    def gpu(self, name, ts, dur, stream=7, device=0, kind="kernel", **args):
        return self.add(name, "PP", ts, dur, {
            "kind": kind, "device": 1, "device_index": device, "context": 1, "stream": stream,
            **args}, tid=(device + 1) * 10_000_000 + 1000 + stream)

    def write(self, path):
        path.write_text("".join(self.lines))
        return path


def work():
    """One of each kind, and what has no kind."""
    trace = Trace(rank=3, world_size=8)
    trace.add("thread_name", "pfw", 0, None, {"name": "main \"thread\""}, ph="M")
    trace.add("thread_name", "pfw", 0, None, {"name": "GPU 0 stream 7"}, ph="M", tid=10_001_007)
    trace.add("ProfilerStep#4", "PP", 10, 90_000, {"kind": "step", "step": 4})
    trace.add("aten::mm", "PP", 1000, 5000, {
        "kind": "cpu_op", "device": 0, "device_index": -1, "external_id": 12, "sequence": 7,
        "fwd_tid": 0, "input_shapes": [[2, 3], [3, 4]], "dtypes": ["float", "float"],
        "strides": [[3, 1], [4, 1]], "flops": 48, "stack": ["a.py(1): f", "b.py(2): g"]})
    trace.add("cudaLaunchKernel", "PP", 2000, 1500,
              {"kind": "runtime", "device": 0, "device_index": -1, "correlation": 55, "cbid": 211})
    trace.gpu("void gemm<float>(int)", 4000, 3000, correlation=55, external_id=12,
              grid=[3, 1, 1], block=[128, 1, 1], registers=86, static_smem=12288, dynamic_smem=512,
              occupancy=0.254, priority=0, queued=0, graph=3, graph_node=4, blocks_per_sm=0.02)
    trace.gpu("Memcpy HtoD (Pageable -> Device)", 8000, 1000, kind="memcpy", correlation=56,
              bytes=4096, copy_kind="HtoD", gbps=4.096)
    trace.gpu("Memset (Device)", 9000, 100, kind="memset", correlation=57, bytes=64)
    trace.gpu("Stream Wait Event", 9200, 10, kind="sync", wait_on_stream=8, wait_on_event=9)
    trace.gpu("forward", 3990, 5000, kind="annotation")
    trace.add("forward", "PP", 900, 8000, {"kind": "annotation", "device": 0, "device_index": -1})
    trace.add("MmBackward0", "PP", 20_000, 1000,
              {"kind": "cpu_op", "sequence": 7, "fwd_tid": 1}, tid=101)
    trace.add("[memory]", "PP", 1500, 0, {
        "kind": "memory", "device": 0, "device_index": -1, "addr": 2**53 + 1, "bytes": -512,
        "total_allocated": 1024, "total_reserved": 0})
    trace.add("pread", "POSIX", 30_000, 412,
              {"fname": "/d/\u00e9\"\n", "fd": 3, "ret": 4096, "offset": 2**53 + 3})
    trace.add("cpu", "COUNTER", 31_000, None, {"user": 12.5}, ph="C")
    trace.add("mark", "app", 32_000, None, {}, ph="i")
    trace.add("lost", "pfw", 33_000, None, {"count": 4}, ph="M")
    trace.add("end", "pfw", 99_000, None, {"events": 14, "lost": 4, "reason": "exit"}, ph="M")
    return trace


def by_cat(document):
    return {event["cat"]: event for event in document["traceEvents"] if "cat" in event}


def test_kinetos_words_C13(tmp_path):
    """C13: categories, keys, rows of devices, all with the very figures of the line."""
    document = chrome(work().write(tmp_path / "t.pfw"))
    found = by_cat(document)
    operator = events(document)[2]
    assert document["distributedInfo"] == {"rank": 3, "world_size": 8}
    assert (document["schemaVersion"], document["baseTimeNanoseconds"]) == (1, BASE)
    assert operator["cat"] == "cpu_op" and operator["args"] == {
        "External id": 12, "Sequence number": 7, "Fwd thread id": 0,
        "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"],
        "Input Strides": [[3, 1], [4, 1]], "flops": 48, "Call stack": "a.py(1): f;b.py(2): g"}
    assert operator["ts"] == D(EPOCH - BASE + 1000) / 1000 and operator["dur"] == D("5.000")
    assert found["kernel"]["args"] == {
        "device": 0, "context": 1, "stream": 7, "correlation": 55, "External id": 12,
        "grid": [3, 1, 1], "block": [128, 1, 1], "registers per thread": 86,
        "shared memory": 12800, "dynamic_smem": 512, "est. achieved occupancy %": 25, "priority": 0,
        "queued": 0, "graph id": 3, "graph node id": 4, "blocks per SM": D("0.02")}
    assert (found["kernel"]["pid"], found["kernel"]["tid"]) == (0, 7)
    assert found["gpu_memcpy"]["args"]["memory bandwidth (GB/s)"] == D("4.096")
    assert found["gpu_memcpy"]["args"]["bytes"] == 4096
    assert found["gpu_memset"]["name"] == "Memset (Device)"
    assert found["cuda_sync"]["args"]["cuda_sync_kind"] == "Stream Wait Event"
    assert found["cuda_sync"]["args"]["wait_on_cuda_event_id"] == 9
    assert found["gpu_user_annotation"]["pid"] == 0 and found["user_annotation"]["pid"] == 100
    assert found["cuda_runtime"]["args"] == {"correlation": 55, "cbid": 211}
    memory = found["cpu_instant_event"]
    assert (memory["ph"], memory["s"]) == ("i", "t") and memory["args"] == {
        "Device Type": 0, "Device Id": -1, "Addr": 2**53 + 1, "Bytes": -512,
        "Total Allocated": 1024, "Total Reserved": 0}
    assert found["POSIX"]["args"] == {"fname": "/d/\u00e9\"\n", "fd": 3, "ret": 4096,
                                      "offset": 2**53 + 3}
    assert found["COUNTER"]["ph"] == "C" and found["COUNTER"]["args"] == {"user": D("12.5")}
    assert found["app"]["ph"] == "i" and found["pfw"]["args"] == {"count": 4}


def test_jq_reads_it_C13(tmp_path):
    """C13: by another reader, the keys that HolisticTraceAnalysis wants of each span."""
    out = tmp_path / "t.json"
    export(work().write(tmp_path / "t.pfw"), "-o", out)
    wanted = ('[.traceEvents[] | select(.ph == "X") | has("cat") and has("name") and has("pid") '
              'and has("tid") and has("ts") and has("dur")] | "\\(length) \\(all)"')
    assert run(["jq", "-r", wanted, out]).stdout == "11 true\n"
    assert run(["jq", "-c", '.traceEvents[]|select(.cat=="kernel").args.grid', out]).stdout == \
        "[3,1,1]\n"


def test_arrows(tmp_path):
    document = chrome(work().write(tmp_path / "t.pfw"))
    flows = collections.defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            flows[event["cat"], event["id"]].append(
                (event["ph"], event["pid"], event["tid"], event["ts"] * 1000 - (EPOCH - BASE)))
            assert event["name"] == event["cat"] and (event["ph"] == "s" or event["bp"] == "e")
    assert flows["ac2g", 55] == [("s", 100, 100, 2000), ("f", 0, 7, 4000)]
    assert flows["fwdbwd", 1] == [("s", 100, 100, 1000), ("f", 100, 101, 20_000)]


def test_an_arrow_has_both_ends(tmp_path):
    """A launch whose work is not in the trace, or work whose launch is not (left out by a condition, lost), has no arrow."""
    trace = Trace()
    for ts, correlation in ((100, 1), (200, 2), (300, 3)):
        trace.add("cudaGraphLaunch", "PP", ts, 10, {"kind": "runtime", "correlation": correlation})
    trace.gpu("k", 400, 5, correlation=2).gpu("k", 500, 5, correlation=2).gpu("k", 600, 5, correlation=3)
    trace.gpu("k", 700, 5, correlation=4)
    trace.write(tmp_path / "t.pfw")

    def arrows(*options):
        return [(event["ph"], event["id"], event["ts"] * 1000 - (EPOCH - BASE))
                for event in chrome(*options, tmp_path / "t.pfw")["traceEvents"] if event["ph"] in "sf"]
    assert arrows() == [("s", 2, 200), ("f", 2, 400), ("f", 2, 500), ("s", 3, 300), ("f", 3, 600)]
    assert arrows("--name", "k") == [] == arrows("--name", "cuda*")


def test_work_may_come_many_launches_after_its_own(tmp_path):
    """The latest 262,144 launches are waited for."""
    launch = Trace().add("cudaLaunchKernel", "PP", 100, 0, {"kind": "runtime", "correlation": 7}).lines[-1]
    assert launch.count('"correlation":7') == 1
    trace = Trace()
    trace.lines += [launch.replace('"correlation":7', f'"correlation":{number}') for number in range(1, 2**18 + 2)]
    trace.gpu("k", 1000, 5, correlation=2).gpu("k", 2000, 5, correlation=2**18).write(tmp_path / "t.pfw")
    arrows = [event for event in chrome(tmp_path / "t.pfw")["traceEvents"] if event["ph"] in "sf"]
    assert [(event["ph"], event["id"]) for event in arrows] == [(end, of) for of in (2, 2**18) for end in "sf"]


def test_names_of_rows(tmp_path):
    document = chrome(work().write(tmp_path / "t.pfw"))
    names = {(event["name"], event["pid"], event["tid"]): list(event["args"].values())[0]
             for event in events(document, "M")}
    assert names["process_name", 100, 0] == names["process_name", 0, 0] == "python train.py"
    assert names["process_labels", 100, 0] == "CPU" and names["process_labels", 0, 0] == "GPU 0"
    assert names["process_sort_index", 0, 0] == 5_000_000
    assert names["thread_name", 0, 7] == "stream 7"
    assert names["thread_name", 100, 100] == "main \"thread\""
    assert not any(tid == 10_001_007 for _, _, tid in names)


def test_absolute_times(tmp_path):
    document = chrome("--absolute", work().write(tmp_path / "t.pfw"))
    assert document["baseTimeNanoseconds"] == 0
    assert events(document)[0]["ts"] * 1000 == EPOCH + 10


def test_before_1970_and_far_future(tmp_path):
    for ts in (-EPOCH - 5_000_001, 2**63 - 1 - EPOCH - 9000):
        trace = Trace()
        trace.lines.clear()
        trace.add("early", "app", ts, 1001).add("late", "app", ts + 2000, 3)
        document = chrome(trace.write(tmp_path / "t.pfw"))
        base = document["baseTimeNanoseconds"]
        assert [event["ts"] * 1000 + base for event in events(document)] == \
            [EPOCH + ts, EPOCH + ts + 2000]


# ---- lanes ----

def check_lanes(document):
    """On each row, spans nest."""
    rows = collections.defaultdict(list)
    for event in events(document):
        rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        open_ends = []
        for start, end in spans:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)
    return rows


def test_overlapping_spans_are_put_on_lanes(tmp_path):
    trace = Trace().add("a", "app", 0, 100).add("b", "app", 50, 100).add("c", "app", 60, 80)
    trace.add("d", "app", 100, 10).gpu("k", 0, 100).gpu("l", 99, 50)
    document = chrome(trace.write(tmp_path / "t.pfw"))
    check_lanes(document)
    assert {event["name"]: event["tid"] for event in events(document)} == {
        "a": 100, "b": 10_000_100, "c": 10_000_100, "d": 100, "k": 7, "l": 10_000_007}
    names = {(event["pid"], event["tid"]): event["args"]["name"]
             for event in events(document, "M") if event["name"] == "thread_name"}
    assert names[100, 10_000_100] == "thread 100 (lane 2)"
    assert names[0, 10_000_007] == "stream 7 (lane 2)"


NAMES = ["read", "a\"b", "back\\slash", "\u00e9\u4e2d\U0001f600", "\t\n\x01", "", "</script>", "\u2028",
         "x" * 300, "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")]


def random_trace(seed):
    """Lines in any order, with whatever may stand in them."""
    chance = random.Random(seed)
    trace = Trace(rank=chance.choice([None, 0, 5]))
    for _ in range(chance.randrange(200)):
        ts, dur = chance.randrange(5000), chance.choice([0, 1, 7, 400, 10**12])
        name, args = chance.choice(NAMES), {}
        for _ in range(chance.choice([0, 1, 3, 60])):
            args[chance.choice(NAMES) + str(chance.randrange(99))] = chance.choice(
                [2**53 + 1, 2**64 - 1, -2**63, 0.1, 1e300, None, True, [1, {"a": []}], {}, "",
                 chance.choice(NAMES)])
        kind = chance.choice(["app", "gpu", "op", "i", "C"])
        if kind == "gpu":
            trace.gpu(name, ts, dur, stream=chance.randrange(3), device=chance.randrange(2),
                      correlation=chance.choice([1, 2, 2**53, 2**63]), **args)
        elif kind == "op":
            trace.add(name, "PP", ts, dur, {"kind": "cpu_op", "external_id": 2**53 + 1,
                                            "sequence": chance.randrange(9),
                                            "fwd_tid": chance.randrange(2), **args})
        elif kind == "app":
            trace.add(name, chance.choice(["app", "POSIX", "\"odd\"\\", "PP"]), ts, dur, args,
                      tid=chance.choice([100, 101, 2**40]), pid=chance.choice([100, 7]))
        else:
            trace.add(name, "app", ts, None, args if kind == "i" else {"v": 1}, ph=kind)
    head, rest = trace.lines[:1], trace.lines[1:]
    chance.shuffle(rest)
    trace.lines = head + rest
    return trace


def facts(name, ts, dur, args):
    return name, ts, dur, json.dumps(args, sort_keys=True, default=str)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_of_random_traces(tmp_path, seed):
    """Every event is there, with its name, times and all that stood in its args, on rows that nest."""
    trace = random_trace(seed)
    document = chrome(trace.write(tmp_path / "t.pfw"))
    check_lanes(document)
    base = document["baseTimeNanoseconds"]
    words = {"kind": None, "device": None, "device_index": "device", "external_id": "External id",
             "sequence": "Sequence number", "fwd_tid": "Fwd thread id"}
    wanted, found = collections.Counter(), collections.Counter()
    for line in map(exact, trace.lines[1:]):
        args = line["args"]
        if line["cat"] == "PP" and "kind" in args:
            args = {words.get(key, key): value for key, value in args.items()
                    if words.get(key, key)}
        wanted[facts(line["name"], line["ts"] * 1000, line.get("dur"), args)] += 1
    for event in document["traceEvents"]:
        if event["ph"] in "XiC":
            found[facts(event["name"], event["ts"] * 1000 + base, event.get("dur"),
                        event["args"])] += 1
    assert found == wanted
    order = [event["ts"] for event in document["traceEvents"] if event["ph"] in "XiC"]
    assert order == sorted(order)


def test_any_number_of_threads_gives_the_same(tmp_path):
    trace = random_trace(1).write(tmp_path / "t.pfw")
    assert len({export(trace, "-j", jobs).stdout for jobs in "124"}) == 1


# ---- several ranks ----

def test_ranks_are_kept_apart(tmp_path):
    """Two ranks of one pid on two hosts, and a third: pids, devices and arrows of their own, in
    the order of the ranks."""
    for rank, (pid, host) in enumerate([(100, "a"), (100, "b"), (101, "b")]):
        trace = Trace(pid, rank, 3, host)
        trace.add("cudaLaunchKernel", "PP", 1000 * rank, 10, {"kind": "runtime", "correlation": 5})
        trace.gpu("k", 1000 * rank + 50, 10, correlation=5)
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    document = chrome("--merge", tmp_path)
    calls = [event for event in events(document) if event["cat"] == "cuda_runtime"]
    kernels = [event for event in events(document) if event["cat"] == "kernel"]
    assert len({event["pid"] for event in calls + kernels}) == 6
    flows = collections.Counter(event["id"] for event in document["traceEvents"]
                                if event["ph"] in "sf")
    assert sorted(flows.values()) == [2, 2, 2]
    ends = {(event["ph"], event["pid"]): event["id"] for event in document["traceEvents"]
            if event["ph"] in "sf"}
    assert [ends["s", call["pid"]] for call in calls] == \
        [ends["f", kernel["pid"]] for kernel in kernels]
    labels = {event["pid"]: event["args"]["labels"] for event in events(document, "M")
              if event["name"] == "process_labels"}
    assert [labels[call["pid"]] for call in calls] == \
        ["rank 0 on a, CPU", "rank 1 on b, CPU", "rank 2 on b, CPU"]
    assert [labels[kernel["pid"]] for kernel in kernels][1] == "rank 1 on b, GPU 0"
    sort = {event["pid"]: event["args"]["sort_index"] for event in events(document, "M")
            if event["name"] == "process_sort_index"}
    order = [pid for call, kernel in zip(calls, kernels) for pid in (call["pid"], kernel["pid"])]
    assert sorted(sort, key=sort.get) == order
    # Each rank alone is as if it were the only one.
    alone = chrome("--rank", "1", tmp_path)
    assert {event["pid"] for event in events(alone)} == {100, 0}


def test_several_ranks_need_merge(tmp_path):
    for rank in (0, 1):
        Trace(100 + rank, rank, 2).write(tmp_path / f"t-rank000{rank}.pfw")
    assert "--merge" in export(tmp_path, status=2).stderr


# ---- files ----

def test_gz_by_suffix_and_no_overwriting(tmp_path):
    trace = random_trace(2).write(tmp_path / "t.pfw")
    out = tmp_path / "t.json.gz"
    export(trace, "-o", out)
    assert gzip.decompress(out.read_bytes()).decode() == export(trace).stdout
    assert "--force" in export(trace, "-o", out, status=2).stderr
    assert "one of the traces" in export(trace, "-o", trace, "--force", status=2).stderr


def test_compressed_and_compacted_traces_give_the_same(tmp_path):
    lines = random_trace(3)
    trace = lines.write(tmp_path / "t.pfw")
    wanted = export(trace).stdout
    packed = tmp_path / "u.pfw.gz"
    packed.write_bytes(gzip.compress("".join(lines.lines).encode()))
    assert export(packed).stdout == wanted


def test_conditions(tmp_path):
    trace = work().write(tmp_path / "t.pfw")
    assert {event["cat"] for event in events(chrome(trace, "--cat", "POSIX"))} == {"POSIX"}
    assert [event["name"] for event in events(chrome(trace, "--where", "args.ret>1"))] == ["pread"]


def test_an_end_in_the_middle(tmp_path):
    """What is no line is told, and the rest is a whole document."""
    trace = work()
    trace.lines.insert(5, "rubbish\n")
    result = export(trace.write(tmp_path / "t.pfw"), status=1)
    assert "t.pfw" in result.stderr and len(events(exact(result.stdout))) == 11


def test_nobody_reads_on(tmp_path):
    trace = Trace()
    for number in range(20_000):
        trace.add("x" * 100, "app", number * 10, 5)
    process = subprocess.Popen([PFW, "export", trace.write(tmp_path / "t.pfw")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait()


def test_no_such_format(tmp_path):
    trace = work().write(tmp_path / "t.pfw")
    assert "chrome" in export(trace, "--format", "x", status=2).stderr
    if not shutil.which("pfw-parquet") and not (BUILD / "bin/pfw-parquet").exists():
        assert "needs the Python package" in export(trace, "--format", "parquet", "-o", "x", status=2).stderr


def test_members_that_a_line_lacks_stay_missing(tmp_path):
    """Lines of GPU work of older versions: what they do not say is not made up."""
    trace = Trace()
    kernel = {"kind": "kernel", "correlation": 5, "grid": [7], "block": [8, 2], "registers": 32}
    trace.add("older", "PP", 0, 10, kernel, tid=20_003_009)
    trace.add("newer", "PP", 20, 10, kernel | {"device": 1, "device_index": 1, "context": 3, "stream": 9,
                                               "grid": [7, 1, 1], "graph": 0}, tid=20_003_009)
    found = {event["name"]: event for event in events(chrome(trace.write(tmp_path / "t.pfw")))}
    args = found["older"]["args"]
    assert args["grid"] == [7] and not {"device", "context", "stream"} & set(args)
    assert found["older"]["tid"] == 20_003_009
    args = found["newer"]["args"]
    assert (args["device"], args["context"], args["stream"], args["grid"], args["graph id"]) == (
        1, 3, 9, [7, 1, 1], 0)
    assert (found["newer"]["pid"], found["newer"]["tid"]) == (1, 9)
