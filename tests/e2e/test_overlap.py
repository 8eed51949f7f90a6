"""pfw overlap against an implementation of its definitions (docs/analysis.rst) that has nothing in
common with it: every elementary stretch of time between two edges is looked at by itself, in numpy."""
import gzip
import itertools
import json
import os
import random
import re
import subprocess

import numpy
import pytest

from harness import PFW, run
from test_live import Reader

ACTIVITIES = ["io", "cpu", "gpu", "comm", "copy", "load", "queued"]
START = 1795230878000000000  # ns


# ---- traces ----

def us(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"


def line(number, name, cat, pid, tid, ts, dur, args, ph="X"):
    length = f',"dur":{us(dur)}' if dur is not None else ""
    return (f'{{"id":{number},"name":{json.dumps(name)},"cat":"{cat}","pid":{pid},"tid":{tid},'
            f'"ts":{us(ts)}{length},"ph":"{ph}","args":{json.dumps(args, separators=(",", ":"))}}}\n')


def process(pid, rank=None, world=1, run="r1"):
    return line(1, "process", "pfw", pid, pid, START, None,
                {"format": 1, "version": "1", "run": run, "host": "h", "boot": "b", "rank": rank,
                 "world_size": world, "local_rank": rank, "rank_source": "RANK", "ppid": 1, "cmd": "c",
                 "start_ts": 1, "clock": "tsc", "spool": None}, "M")


def ended(number, pid, ts, events):
    return line(number, "end", "pfw", pid, pid, ts, None,
                {"events": events, "lost": 0, "reason": "exit"}, "M")


class Trace:
    """Events of one process, as they are told."""

    def __init__(self, pid=100, rank=None, world=1):
        self.pid, self.rank, self.world, self.events = pid, rank, world, []

    def add(self, name, cat, begin, end, args=None, tid=None, ph="X"):
        self.events.append((name, cat, tid or self.pid, START + begin, end - begin, args or {}, ph))
        return self

    def io(self, begin, end, bytes=0, tid=None, name="read", cat="POSIX"):
        return self.add(name, cat, begin, end, {"fname": "/d/f", "ret": bytes}, tid)

    def op(self, begin, end, tid=None, name="aten::mm"):
        return self.add(name, "PP", begin, end, {"kind": "cpu_op", "device": 0}, tid)

    def kernel(self, begin, end, name="gemm", correlation=0, stream=7):
        args = {"kind": "kernel", "device": 1, "device_index": 0, "stream": stream}
        if correlation:
            args["correlation"] = correlation
        return self.add(name, "PP", begin, end, args, 10000000 + stream)

    def copy(self, begin, end, bytes=0):
        return self.add("Memcpy HtoD", "PP", begin, end,
                        {"kind": "memcpy", "device": 1, "bytes": bytes}, 10000008)

    def launch(self, begin, end, correlation, name="cudaLaunchKernel", kind="runtime"):
        return self.add(name, "PP", begin, end, {"kind": kind, "correlation": correlation})

    def load(self, begin, end):
        return self.add("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "PP", begin,
                        end, {"kind": "cpu_op", "device": 0})

    def step(self, number, begin, end):
        return self.add(f"ProfilerStep#{number}", "PP", begin, end, {"kind": "step", "step": number})

    def text(self, order=None):
        """Its lines, in order of ends as a recorder writes them, or in another."""
        events = sorted(self.events, key=order or (lambda event: event[3] + event[4]))
        lines = [process(self.pid, self.rank, self.world)]
        for number, (name, cat, tid, ts, dur, args, ph) in enumerate(events, 2):
            lines.append(line(number, name, cat, self.pid, tid, ts,
                              None if ph in "iC" else dur, args, ph))
        last = max([ts + dur for _, _, _, ts, dur, _, _ in events], default=START)
        lines.append(ended(len(lines) + 1, self.pid, last, len(events)))
        return "".join(lines)


def write(path, *traces, **options):
    path.write_text("".join(trace.text(**options) for trace in traces))
    return path


def overlap(*arguments, status=0):
    done = subprocess.run([PFW, "overlap", *map(str, arguments), "--format", "ndjson"], timeout=120,
                          capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    rows = [json.loads(each, parse_float=lambda text: round(float(text) * 1000)
                       if len(text) < 14 else int(text.replace(".", "")))
            for each in done.stdout.splitlines()]
    return rows


def ranks(*arguments, **options):
    return {row["rank"]: row for row in overlap(*arguments, **options) if row["type"] == "rank"}


def only(*arguments):
    return next(row for row in overlap(*arguments) if row["type"] == "rank")


# ---- the definitions, again ----

def activity(name, cat, args):
    if cat in ("POSIX", "STDIO"):
        return "io"
    kind = args.get("kind")
    if kind == "kernel":
        return "comm" if "nccl" in name else "gpu"
    if kind in ("memcpy", "memset"):
        return "copy"
    if name.startswith("enumerate(DataLoader)#"):
        return "load"
    return "cpu" if kind == "cpu_op" else None


def covered(intervals, edges):
    """Which of the stretches between edges lie in any of the intervals."""
    if not intervals:
        return numpy.zeros(len(edges) - 1, bool)
    array = numpy.array(intervals, dtype=numpy.int64)
    change = numpy.zeros(len(edges), dtype=numpy.int64)
    numpy.add.at(change, numpy.searchsorted(edges, array[:, 0]), 1)
    numpy.add.at(change, numpy.searchsorted(edges, array[:, 1]), -1)
    return numpy.cumsum(change)[:-1] > 0


def windows(steps):
    """A step is over at its end, or where the next begins."""
    steps = sorted(steps)
    for (begin, number, end), after in itertools.zip_longest(steps, steps[1:]):
        if end > begin:
            following = [other[0] for other in steps if other > (begin, number, end)
                         and other[2] > other[0]]
            yield number, begin, min([end] + following)


def figures(is_, length, keep, kernels):
    def ns(where):
        return int(length[where & keep].sum())

    everything = numpy.ones(len(length), bool)
    io, cpu, gpu, comm, copy, load, queued = (is_[each] for each in ACTIVITIES)
    idle = ~(gpu | comm)
    wanted = {"wall": ns(everything), "compute": ns(cpu | gpu), "io_compute": ns(io & (cpu | gpu)),
              "io_unoverlapped": ns(io & ~cpu & ~gpu), "comm_unoverlapped": ns(comm & ~gpu),
              "kernels": ns(gpu | comm), "idle": ns(idle), "idle_copy": ns(idle & copy),
              "idle_queued": ns(idle & ~copy & queued),
              "idle_load": ns(idle & ~copy & ~queued & load),
              "idle_io": ns(idle & ~copy & ~queued & ~load & io),
              "idle_launch": ns(idle & ~copy & ~queued & ~load & ~io)}
    for one in ACTIVITIES[:-1]:
        wanted[one] = ns(is_[one])
    for one, other in itertools.combinations(ACTIVITIES[:-1], 2):
        wanted[f"{one}_{other}"] = ns(is_[one] & is_[other])
    if not kernels:
        for key in wanted:
            words = key.split("_")
            if {"gpu", "comm", "kernels", "idle"} & set(words):
                wanted[key] = None
    return wanted


def judge(traces):
    """The figures of a rank's processes, and of each of its steps."""
    of = {each: [] for each in ACTIVITIES}
    launches, gaps, steps, times, sums = {}, [], [], [], {"io_calls": 0, "io_bytes": 0, "launches": 0}
    kernels = []
    for trace in traces:
        for name, cat, _tid, ts, dur, args, ph in trace.events:
            times += [ts, ts + (dur if ph == "X" else 0)]
            if ph != "X":
                continue
            what = activity(name, cat, args)
            if what:
                of[what].append((ts, ts + dur))
            if what == "io":
                sums["io_calls"] += 1
                sums["io_bytes"] += args["ret"] if name in ("read", "write") else 0
            if name.startswith("ProfilerStep#"):
                steps.append((ts, int(name[13:]), ts + dur))
            if args.get("kind") in ("runtime", "driver") and "Launch" in name:
                key = trace.pid, args["correlation"]
                launches[key] = min(ts, launches.get(key, ts))
            if args.get("kind") == "kernel":
                kernels.append((trace.pid, args.get("correlation"), ts))
    for pid, correlation, ts in kernels:
        if (pid, correlation) in launches:
            begin = launches[pid, correlation]
            gaps.append(max(ts - begin, 0))
            if begin < ts:
                of["queued"].append((begin, ts))
    parts = list(windows(steps))
    edges = set(times) | {time for each in of.values() for pair in each for time in pair}
    edges |= {time for _, begin, end in parts for time in (begin, end)}
    edges = numpy.array(sorted(edges), dtype=numpy.int64)
    length = numpy.diff(edges)
    is_ = {each: covered(of[each], edges) for each in ACTIVITIES}
    begin_of = edges[:-1]
    inside = (begin_of >= min(times)) & (begin_of < max(times))
    total = figures(is_, length, inside, kernels) | sums
    total["launches"] = len(gaps)
    total["launch_gap"] = sum(gaps) if gaps else None
    per_step = {}
    for number in {number for number, _, _ in parts}:
        keep = numpy.zeros(len(length), bool)
        for other, begin, end in parts:
            if other == number:
                keep |= (begin_of >= begin) & (begin_of < end)
        per_step[number] = figures(is_, length, keep & inside, kernels)
    return total, per_step


def differences(row, wanted):
    """A figure of activities that were not recorded is null; test_figures.py says which those are."""
    def right(key, value):
        return not value if row[key] is None else row[key] == value
    return {key: (row[key], value) for key, value in wanted.items() if not right(key, value)}


def check(directory, by_rank):
    rows = overlap(directory, "--steps")
    seen = set()
    judged = {rank: judge(traces) for rank, traces in by_rank.items()}
    for row in rows:
        if row["rank"] == "all":
            continue
        total, steps = judged[row["rank"]]
        wanted = total if row["type"] == "rank" else steps[row["step"]]
        assert not differences(row, wanted), (row["type"], row["rank"], row.get("step"))
        seen.add((row["rank"], row.get("step")))
    # A step that another one hides from its begin on has no time, and may be left out.
    missing = {(rank, step) for rank, (_, steps) in judged.items()
               for step in [None, *(number for number, each in steps.items() if each["wall"])]} - seen
    assert not missing


def test_all_ranks_are_the_sum_of_what_each_has(tmp_path):
    """A rank without kernels has no idle GPU; means are rounded."""
    one = Trace(100, 0, 2).launch(0, 1, 1).launch(2, 4, 2).kernel(4, 10, correlation=1).kernel(10, 13, correlation=2)
    write(tmp_path / "t-rank0000.pfw", one)
    write(tmp_path / "t-rank0001.pfw", Trace(101, 1, 2).io(0, 1000))
    found = ranks(tmp_path)
    assert (found[0]["idle"], found[1]["idle"], found["all"]["idle"]) == (4, None, 4)
    assert (found["all"]["wall"], found["all"]["kernels"]) == (1013, 9)
    assert found["all"]["launch_gap_mean"] == 6
    one.launch(20, 21, 3).kernel(28, 29, correlation=3)
    assert ranks(write(tmp_path / "t-rank0000.pfw", one))[0]["launch_gap_mean"] == 7  # 20 / 3


# ---- random ones ----

def random_trace(chance, pid, rank, world):
    trace = Trace(pid, rank, world)
    room = chance.choice([50, 1000, 100000])

    def span(longest=room):
        begin = chance.randrange(room)
        return begin, begin + chance.choice([0, 1, chance.randrange(longest + 1)])

    kinds = chance.sample(["io", "op", "kernel", "comm", "copy", "load", "launch", "other"],
                          chance.randrange(1, 9))
    for _ in range(chance.randrange(1, 60)):
        kind = chance.choice(kinds)
        begin, end = span(room // chance.choice([1, 5, 20]))
        if kind == "io":
            trace.io(begin, end, chance.randrange(-1, 5000) if False else chance.randrange(5000),
                     chance.randrange(1, 5),
                     *chance.choice([("read", "POSIX"), ("write", "POSIX"), ("fopen", "STDIO")]))
        elif kind == "op":
            trace.op(begin, end, chance.randrange(1, 4))
        elif kind == "kernel":
            trace.kernel(begin, end, correlation=chance.randrange(6), stream=chance.randrange(7, 10))
        elif kind == "comm":
            trace.kernel(begin, end, "ncclDevKernel_AllReduce_Sum_f32", chance.randrange(6), 20)
        elif kind == "copy":
            trace.copy(begin, end, chance.randrange(100))
        elif kind == "load":
            trace.load(begin, end)
        elif kind == "launch":
            trace.launch(begin, end, chance.randrange(1, 6),
                         *chance.choice([("cudaLaunchKernel", "runtime"),
                                         ("cuLaunchKernel", "driver"),
                                         ("cudaStreamSynchronize", "runtime")]))
        else:
            trace.add("forward", "app", begin, end, {"span_id": 1})
            trace.add("mark", "app", end, end, {}, ph="i")
    if chance.random() < 0.7:
        begin = chance.randrange(room)
        for number in range(chance.randrange(1, 6)):
            end = begin + chance.randrange(1, room)
            trace.step(number if chance.random() < 0.9 else 0, begin, end)
            begin = end + chance.choice([0, 0, 5, -(end - begin) // 2])
    return trace


def random_ranks(chance, count):
    by_rank = {}
    for rank in range(count):
        by_rank[rank] = [random_trace(chance, 100 + rank, rank, count)]
        while chance.random() < 0.3:  # the loader's workers
            by_rank[rank].append(random_trace(chance, 10000 + 10 * rank + len(by_rank[rank]), rank,
                                              count))
            # Steps are those of the process that trains.
            by_rank[rank][-1].events = [each for each in by_rank[rank][-1].events
                                        if not each[0].startswith("ProfilerStep")]
    return by_rank


def write_ranks(directory, by_rank, chance):
    directory.mkdir(exist_ok=True)
    for rank, traces in by_rank.items():
        for trace in traces:
            child = "" if trace is traces[0] else f"-pid{trace.pid}"
            order = chance.choice([None, None, lambda event: event[3],
                                   lambda event: chance.random()])
            write(directory / f"t-rank{rank:04}{child}.pfw", trace, order=order)


def test_a_thousand_random_traces(tmp_path):
    chance = random.Random(int(os.environ.get("PFW_SEED", "8")))
    by_rank = random_ranks(chance, 1000)
    write_ranks(tmp_path / "t", by_rank, chance)
    check(tmp_path / "t", by_rank)


def test_indexes_say_the_same(tmp_path):
    """Of compacted files the index alone answers: it is asked with a trace that cannot be read."""
    chance = random.Random(9)
    by_rank = random_ranks(chance, 60)
    write_ranks(tmp_path / "t", by_rank, chance)
    done = subprocess.run([PFW, "compact", tmp_path / "t", "-q"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    check(tmp_path / "t", by_rank)
    with_index = overlap(tmp_path / "t", "--steps")
    for path in (tmp_path / "t").glob("*.idx"):
        path.unlink()
    assert overlap(tmp_path / "t", "--steps") == with_index
    done = subprocess.run([PFW, "index", tmp_path / "t", "-q"], timeout=120, check=False)
    assert done.returncode == 0
    assert overlap(tmp_path / "t", "--steps") == with_index


def a_long_trace(chance, rank):
    """Steps in which kernels start long after they are launched, and now and then a long call.  Most of the
    time is in one block, which several bins cut, and in which lines of others begin."""
    trace, at, queue = Trace(100 + rank, rank, 2), 0, []
    for i in range(7000):
        at += chance.choice([100, 900, 5_000]) * (40 if 3_500 < i < 4_100 else 1)
        trace.io(at, at + (3_000_000 if i % 2500 == 9 else chance.randrange(900)), chance.randrange(5000))
        if i in (4_500, 5_400):
            trace.io(at - 15_000_000, at, 1)
        trace.add("mine", "app", at, at + 20, {"more": "x" * 600})  # fewer events a block
        trace.launch(at + 50, at + 60, i + 1)
        queue.append(i + 1)
        if len(queue) > 40 or i > 6990:
            trace.kernel(at + 300, at + 800, chance.choice(["gemm", "ncclDevKernel"]), queue.pop(0))
        if i % 50 == 0:
            trace.step(i // 50, at, at + chance.choice([100_000, 40_000]))
    return trace


@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
def test_windows_read_the_blocks_that_they_cut(tmp_path, packed):
    """The middle of a window, and of bins, comes from the index, and all is as by the lines, to the byte."""
    chance = random.Random(packed)
    for rank in range(2):
        write(tmp_path / f"t-rank000{rank}.pfw", a_long_trace(chance, rank))
    run([PFW, "compact" if packed else "index", "-q", tmp_path])
    ask = lambda *words: run([PFW, "overlap", "--steps", "--format", "ndjson", *words, tmp_path]).stdout
    for _ in range(8):
        since = chance.randrange(80)
        window = ["--since", f"{since}%", "--until", f"{chance.randrange(since, 101)}%"]
        window = chance.choice([window, window, window[:2], window[2:], [*window, "--rank", "1"]])
        assert ask(*window) == ask(*window, "--no-index"), window
    for bins in 1, 2, 3, 5, 9, f"{chance.randrange(100_000, 3_000_000)}us":
        assert ask("--bins", bins) == ask("--bins", bins, "--no-index"), bins
    if not packed:
        path = tmp_path / "t-rank0000.pfw"
        text = path.read_text()
        assert len(text) > 7 << 20
        half = len(text) // 2
        path.write_text(text[:half] + text[half:].replace('"read"', '"ader"', 1).replace('"POSIX"', '"posix"', 1))
        for words in ["--since", "1%", "--until", "99%"], ["--bins", "3"]:
            assert ask(*words) != ask(*words, "--no-index")  # the line was not read


# ---- known answers ----

def test_reads_under_beside_and_across_kernels(tmp_path):
    trace = Trace().kernel(1000, 3000).kernel(5000, 6000, stream=8)
    trace.io(1500, 2000, 10).io(3500, 4000, 20).io(5500, 7000, 30)  # under, beside, across
    row = only(write(tmp_path / "t.pfw", trace))
    assert (row["wall"], row["io"], row["gpu"], row["io_gpu"]) == (6000, 2500, 3000, 1000)
    assert (row["io_compute"], row["io_unoverlapped"], row["io_bytes"]) == (1000, 1500, 60)
    assert (row["idle"], row["idle_io"], row["idle_launch"]) == (3000, 1500, 1500)


def test_waiting_for_another_process_is_no_io(tmp_path):
    """multiprocessing's resource tracker sits in a read of its pipe as long as the program runs."""
    trace = Trace().io(10, 30, 5).io(500, 510, 1)
    for number, name in enumerate(("pipe:[7]", "socket:[tcp 1.2.3.4:5]", "anon_inode:[eventfd]")):
        trace.add("read", "POSIX", 0, 1000, {"fname": name, "ret": 8}, 200 + number)
    row = only(write(tmp_path / "t.pfw", trace))
    assert (row["wall"], row["io"], row["io_unoverlapped"], row["io_calls"]) == (1000, 30, 30, 5)


def test_nested_and_parallel_counts_once(tmp_path):
    trace = Trace().op(0, 100).op(10, 50).op(20, 30).op(40, 200, tid=5).io(60, 80).io(70, 90, tid=6)
    row = only(write(tmp_path / "t.pfw", trace))
    assert (row["cpu"], row["io"], row["io_cpu"], row["io_unoverlapped"]) == (200, 30, 30, 0)
    assert row["gpu"] is None and row["idle"] is None and row["launch_gap"] is None


def test_the_first_cause_counts(tmp_path):
    trace = Trace().launch(0, 5, 1).kernel(0, 100, correlation=2)
    # Behind the kernel nothing, then I/O, loading, a launch, a copy; then the kernel launched.
    trace.io(150, 900).load(300, 900).launch(400, 410, 7).copy(500, 600).kernel(800, 900, correlation=7)
    row = only(write(tmp_path / "t.pfw", trace))
    assert [row[f"idle_{why}"] for why in ("launch", "io", "load", "queued", "copy")] == [
        50, 150, 100, 300, 100]
    assert (row["idle"], row["launches"], row["launch_gap"], row["launches_unknown"]) == (
        700, 1, 400, 1)


def test_communication(tmp_path):
    trace = Trace().kernel(0, 100)
    trace.kernel(50, 200, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    trace.kernel(300, 400, "void cccl::detail::kernel()").kernel(400, 450, "nvshmemi_put")
    row = only(write(tmp_path / "t.pfw", trace))
    assert (row["comm"], row["gpu"], row["gpu_comm"], row["comm_unoverlapped"]) == (200, 200, 50, 150)


def test_a_step_ends_where_the_next_begins(tmp_path):
    trace = Trace().step(0, 0, 100).step(1, 80, 150).io(60, 120)
    trace.add("ProfilerStep#0", "PP", 0, 400, {"kind": "annotation", "device": 1})  # on the device
    rows = overlap(write(tmp_path / "t.pfw", trace), "--steps")
    assert [(row["step"], row["wall"], row["io"]) for row in rows if row["type"] == "step"] == [
        (0, 80, 20), (1, 70, 40)]


def test_workers_belong_to_their_rank(tmp_path):
    main = Trace(100, 0, 2).op(0, 100)
    worker = Trace(101, 0, 2).io(50, 200)
    other = Trace(102, 1, 2).io(0, 10)
    write(tmp_path / "t-rank0000.pfw", main)
    write(tmp_path / "t-rank0000-pid101.pfw", worker)
    write(tmp_path / "t-rank0001.pfw", other)
    rows = ranks(tmp_path)
    assert rows[0]["io_cpu"] == 50 and rows[0]["io_unoverlapped"] == 100 and rows[0]["wall"] == 200
    assert rows[1]["io"] == 10 and rows["all"]["io"] == 160 and rows["all"]["wall"] == 210
    chosen = ranks(tmp_path, "--rank", "1")
    assert set(chosen) == {1, "all"} and chosen["all"]["io"] == 10
    write(tmp_path / "t-launcher-h-pid9.pfw", Trace(9).op(0, 5))
    text = subprocess.run([PFW, "overlap", tmp_path], timeout=120, capture_output=True, text=True, check=True).stdout
    assert text.startswith("2 ranks, ") and re.search(r"^ +- +\d", text, re.MULTILINE), text


def test_stragglers(tmp_path):
    for rank, busy in enumerate((100, 160, 110)):
        trace = Trace(100 + rank, rank, 3)
        for step in range(4):
            begin = step * 200
            trace.step(step, begin, begin + 200).kernel(begin, begin + busy)
            trace.kernel(begin + busy, begin + 200, "ncclDevKernel_AllReduce", stream=9)
        write(tmp_path / f"t-rank{rank:04}.pfw", trace)
    rows = ranks(tmp_path)
    assert [rows[rank]["steps_slowest"] for rank in range(3)] == [0, 4, 0]
    assert [rows[rank]["steps_own"] for rank in range(3)] == [400, 640, 440]
    assert rows[1]["steps_behind"] == 200 and rows[0]["steps_compared"] == 4


def test_series_add_up(tmp_path):
    chance = random.Random(3)
    trace = Trace()
    for _ in range(200):
        begin = chance.randrange(10000)
        trace.io(begin, begin + chance.randrange(900), chance.randrange(100000), chance.randrange(9))
        begin = chance.randrange(10000)
        trace.kernel(begin, begin + chance.randrange(50))
    path = write(tmp_path / "t.pfw", trace)
    for bins in ("7", "100", "0.5us", "1s"):
        rows = overlap(path, "--bins", bins)
        of = [row for row in rows if row["type"] == "bin"]
        total = rows[0]
        assert len(of) == int(bins) if bins.isdigit() else True
        for key in ("io_calls", "io_bytes", "io", "kernels"):
            assert sum(row[key] for row in of) == total[key], (bins, key)
        assert max(row["io"] for row in of) <= of[0]["dur"]
    # All bytes of a call that lies in one bin are there.
    trace = Trace().io(0, 1000, 1000).io(2500, 2600, 77).io(3999, 3999, 5)
    of = [row for row in overlap(write(tmp_path / "u.pfw", trace), "--bins", "1us")
          if row["type"] == "bin"]
    assert [(row["io_bytes"], row["io_calls"]) for row in of] == [(1000, 1), (0, 0), (77, 1), (5, 1)]


def test_a_window_cuts(tmp_path):
    trace = Trace().io(0, 4000).kernel(1000, 3000).op(3500, 5000).step(3, 0, 6000)
    path = write(tmp_path / "t.pfw", trace)
    rows = overlap(path, "--since", "+2us", "--until", "+4us", "--steps")
    assert (rows[0]["wall"], rows[0]["io"], rows[0]["gpu"], rows[0]["cpu"]) == (2000, 2000, 1000, 500)
    assert rows[-1]["step"] == 3 and rows[-1]["wall"] == 2000


def test_formats_say_the_same(tmp_path):
    path = write(tmp_path / "t.pfw", Trace().io(0, 500, 3).kernel(100, 300).step(1, 0, 400))
    for options, kind in (((), "rank"), (("--steps",), "step"), (("--bins", "2"), "bin")):
        rows = [row for row in overlap(path, *options) if row["type"] == kind]
        text = subprocess.run([PFW, "overlap", path, "--format", "csv", *options], check=True,
                              capture_output=True, text=True).stdout.splitlines()
        header = text[0].split(",")
        assert header == [key for key in rows[0] if key != "type"]
        assert len(text) == 1 + len(rows)
        assert all(len(each.split(",")) == len(header) for each in text)


def test_page_of_markdown(tmp_path):
    """All tables of the text, each cell of them, as tables of Markdown."""
    for rank in range(2):
        write(tmp_path / f"t-rank000{rank}.pfw",
              Trace(rank=rank, world=2).io(0, 500, 3).kernel(100, 300).step(1, 0, 400))
    words = [PFW, "overlap", "--steps", "--bins", "2", tmp_path]
    text = run(words).stdout.splitlines()
    page = run([*words, "--format", "md"]).stdout.splitlines()
    titles = ["Time in which", "No kernel ran, and the GPU waited for", "From a kernel's launch to its start",
              "Stragglers", "Steps", "Over time"]
    assert [line for line in page if line in titles] == titles
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page
             if line.startswith("|") and not line.startswith("|--")]
    plain = [re.split("  +", line.strip()) for line in text[1:]
             if line and line not in titles and not line.startswith("- ")]
    assert cells == plain
    for at, line in enumerate(page):
        if line.startswith("|--"):  # a header above, a blank line above that
            assert line.count("|") == page[at - 1].count("|") and page[at - 1].startswith("| ")
            assert page[at - 2] == ""


def test_text(tmp_path):
    path = write(tmp_path / "t.pfw", Trace().io(0, 1500, 3).kernel(500, 2000).step(1, 0, 400))
    text = subprocess.run([PFW, "overlap", path, "--steps"], check=True, capture_output=True,
                          text=True).stdout
    assert "1.500us" in text and "0.500us" in text and "Steps" in text


def test_dftracer(tmp_path):
    """Its files: integers of µs, hashes, and no kinds; spans of its decorators."""
    events = [{"id": 1, "name": "HH", "cat": "dftracer", "type": 1, "ph": "M", "pid": 1, "tid": 1,
               "args": {"name": "n1", "value": "aaaa"}},
              {"id": 2, "name": "read", "cat": "POSIX", "pid": 1, "tid": 1, "ts": 1000, "dur": 50,
               "ph": "X", "args": {"ret": 10}},
              {"id": 3, "name": "forward", "cat": "compute", "pid": 1, "tid": 2, "ts": 1020,
               "dur": 100, "ph": "X", "args": {}},
              {"id": 4, "name": "fetch", "cat": "dataloader", "pid": 1, "tid": 2, "ts": 1130,
               "dur": 5, "ph": "X", "args": {}},
              {"id": 5, "name": "gemm", "cat": "PP", "pid": 1, "tid": 2, "ts": 1100, "dur": 40,
               "ph": "X", "args": {"device": 1}}]
    path = tmp_path / "t.pfw.gz"
    path.write_bytes(gzip.compress(("[\n" + "".join(json.dumps(each) + "\n" for each in events)).encode()))
    row = only(path)
    assert (row["io"], row["cpu"], row["load"], row["gpu"]) == (50000, 100000, 5000, 40000)
    assert (row["io_cpu"], row["io_unoverlapped"], row["cpu_gpu"]) == (30000, 20000, 20000)


def test_several_ranks_in_one_file_are_ranks(tmp_path):
    for rank in range(2):
        write(tmp_path / f"t-rank{rank:04}.pfw", Trace(100 + rank, rank, 2).io(0, 10 + rank))
    words = [PFW, "overlap", tmp_path, "--format", "csv"]
    apart = run(words).stdout
    run([PFW, "compact", "-q", "--split-by", "none", tmp_path])
    for _ in range(2):  # from the index, then without one
        done = run(words)
        assert done.stdout == apart and not done.stderr
        for path in tmp_path.glob("*.idx"):
            path.unlink()


def test_bad_options(tmp_path):
    path = write(tmp_path / "t.pfw", Trace().io(0, 500))
    for words, what in ((["--bins", "0"], "--bins 0"), (["--bins", "x"], "--bins x"),
                        (["--bins", "2000000"], "--bins 2000000"), (["--bins", "0.001us"], None),
                        (["--jobs", "0"], "--jobs 0"), (["--format", "rst"], "md"),
                        (["--since", "soon"], "soon")):
        done = subprocess.run([PFW, "overlap", path, *words], capture_output=True, text=True,
                              check=False)
        assert done.returncode == (2 if what else 0), (words, done.stderr)
        assert not what or (what in done.stderr and done.stderr.count("\n") == 1)


def test_what_is_in_rings_counts(tmp_path):
    """A program that runs, and has not written its last reads yet: where no thread can be made that
    happens when a ring is half full."""
    reader = Reader(tmp_path, threadless=True, DFTRACER_DATA_DIR=str(tmp_path / "data"))
    for count in [1] * 300 + [20, 70]:
        reader.read(count)
    written = reader.trace.read_text()
    assert '"count":1,' in written and '"count":20,' not in written, "it was to be in a ring"
    row = only(reader.trace)
    reader.end()
    after = only(reader.trace)
    assert row["io_bytes"] == after["io_bytes"] == 390
    assert row["io"] == pytest.approx(after["io"], rel=0.01)  # by the clock's rate as it is known then


@pytest.mark.parametrize("seed", range(20))
def test_spans_that_are_told_to_compute(tmp_path, seed):
    """--compute: as if they were operators, of that name or category; others stay what they are."""
    chance, told, plain = random.Random(seed), Trace(), Trace()
    for trace in (told, plain):
        trace.kernel(100, 300).io(50, 400)
    for _ in range(30):
        begin, kind = chance.randrange(1000), chance.randrange(5)
        end = begin + chance.randrange(200)
        name, cat, args, hit = [("fwd 1", "app", {}, True), ("f\u00fc\"d", "mine", {}, True),
                                ("forward", "PP", {"kind": "annotation"}, True),
                                ("forward", "PP", {"kind": "annotation", "device": 1}, False),
                                ("load", "app", {}, False)][kind]
        told.add(name, cat, begin, end, args)
        if hit:
            plain.op(begin, end)
        else:
            plain.add(name, cat, begin, end, args)
    path = write(tmp_path / "t.pfw", told)
    got = only(path, "--compute", "fwd*", "--compute", "forward", "--compute", "min?")
    assert got == only(write(tmp_path / "p.pfw", plain))
    assert only(path)["cpu"] is None and got["cpu"] > 0
    subprocess.run([PFW, "compact", "-q", path], check=True)
    assert only(tmp_path / "t.pfw.gz", "--compute", "f?d 1", "--compute", "mine", "--compute", "forwar[d]") == got
    wanted = only(tmp_path / "t.pfw.gz", "--compute", 'f\u00fc"*')
    assert 0 < wanted["cpu"] < got["cpu"]


def test_traces_of_older_versions(tmp_path):
    """Their lines of GPU work lack what was usual (docs/format.rst): overlap, table and memory go by kind."""
    usual = {"device", "device_index", "stream", "context", "occupancy", "grid", "block"}
    full, older = Trace(), Trace()
    for trace in (full, older):
        trace.launch(10, 20, 7).step(1, 0, 900).io(100, 250, 5).op(5, 30)
        for name, kind, begin, end, more in (
                ("gemm", "kernel", 40, 200, {"correlation": 7, "grid": [4, 1, 1], "block": [64, 1, 1]}),
                ("ncclAllReduce", "kernel", 150, 350, {"occupancy": 50}),
                ("Memcpy HtoD", "memcpy", 300, 500, {"bytes": 64}),
                ("Memset", "memset", 490, 600, {"bytes": 8}),
                ("Stream Synchronize", "sync", 600, 700, {})):
            args = {"kind": kind, "device": 1, "device_index": 0, "context": 1, "stream": 7, **more}
            trace.add(name, "PP", begin, end,
                      {key: value for key, value in args.items()
                       if trace is full or key not in usual}, 10001007)
        alloc = {"kind": "memory", "device": 1, "device_index": 0, "addr": 9, "bytes": 512}
        trace.add("Memory Alloc", "PP", 35, 35,
                  {key: value for key, value in alloc.items()
                   if trace is full or key not in usual}, ph="i")
    paths = [write(tmp_path / "full.pfw", full), write(tmp_path / "older.pfw", older)]
    assert "device_index" not in paths[1].read_text()
    row = only(paths[0])
    assert (row["gpu"], row["comm"], row["copy"], row["launches"]) == (160, 200, 300, 1)
    for words in (["overlap", "--steps", "--format", "ndjson"], ["table", "--format", "csv"],
                  ["memory", "--format", "ndjson"]):
        outputs = [subprocess.run([PFW, *words, path], check=True, stdout=subprocess.PIPE).stdout
                   for path in paths]
        assert outputs[0] == outputs[1] and outputs[0].count(b"\n") > 1, words


@pytest.mark.parametrize("count", [1, 12, 13])
def test_few_steps_are_shown_unasked(tmp_path, count):
    trace = Trace()
    for number in range(count):
        trace.step(number, 1000 * number, 1000 * number + 900)
    write(tmp_path / "t.pfw", trace)
    out = subprocess.run([PFW, "overlap", tmp_path / "t.pfw"], check=True, capture_output=True, text=True).stdout
    assert ("\nSteps\n" in out) == (count <= 12), out
    assert ("\nSteps: --steps shows them (13 rows)\n" in out) == (count > 12), out


# ---- many ranks ----

def sections(text):
    """{title: {first word of a row: its other words}} of what is printed for people; units glued."""
    found, title = {}, None
    for block in text.split("\n\n")[1:]:
        if block.startswith(("- ", "Steps: ")):
            continue  # what was not recorded, or is not shown
        title, _, *rows = block.strip("\n").split("\n")
        found[title] = {re.split(r"\s{2,}", row.strip())[0]: re.split(r"\s{2,}", row.strip())[1:]
                        for row in rows}
    return found


def test_of_many_ranks_the_slowest_are_shown(tmp_path):
    """20 ranks: step 0 of rank r takes 100 + (7 r mod 20) µs, of which the call takes r µs."""
    for rank in range(20):
        own = 100_000 + 7 * rank % 20 * 1000
        write(tmp_path / f"t-rank{rank:04d}.pfw", Trace(100 + rank, rank=rank, world=20)
              .io(0, rank * 1000 + 1000).op(rank * 1000 + 1000, own).step(0, 0, own))
    few = run([PFW, "overlap", tmp_path]).stdout
    slowest = sorted(range(20), key=lambda rank: -(7 * rank % 20))[:10]
    assert "The 10 slowest ranks are shown, by their own time in common steps: --all-ranks" in few
    table = sections(few)["Time in which"]
    assert [*table] == [*map(str, sorted(slowest)), "least", "median", "95 in 100", "most", "all"]
    # Columns: wall, I/O.  1 to 20 µs of I/O: of twenty, the tenth and the nineteenth.
    assert [table[row][1] for row in ("least", "median", "95 in 100", "most")] == \
        ["1.000us", "10.000us", "19.000us", "20.000us"]
    assert [table[row][0] for row in ("least", "most")] == ["100.000us", "119.000us"]
    assert [*sections(few)["Stragglers"]] == [*map(str, sorted(slowest))]
    every = run([PFW, "overlap", "--all-ranks", tmp_path]).stdout
    assert [*sections(every)["Time in which"]] == [*map(str, range(20)), "all"]
    assert "--all-ranks" not in every
    assert len(ranks(tmp_path)) == 21  # programs have all of them, and their sum

    files = run([PFW, "patterns", tmp_path]).stdout
    shown = re.findall(r"^\(rank (\d+)\)", files, re.M)
    assert shown == [str(rank) for rank in range(10, 20)]
    assert "The 10 ranks with most I/O time are shown: --all-ranks shows each" in files
    every = run([PFW, "patterns", "--all-ranks", tmp_path]).stdout
    assert re.findall(r"^\(rank (\d+)\)", every, re.M) == [*map(str, range(20))]
