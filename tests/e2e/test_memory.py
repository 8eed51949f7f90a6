"""`pfw memory`: peaks, growth, owners and what is not freed, against sums made here (C10, C28)."""
import collections
import csv
import io
import json
import os
import pathlib
import pickle
import random

import pytest

import harness

PFW = os.environ["PFW_BIN"]
START = 1795230878000000


def memory(*words, status=0, **options):
    done = harness.run([PFW, "memory", "--format", "ndjson", *map(str, words)], status=status, **options)
    found = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found[row["section"]].append(row)
    return found


def line(number, name, cat, ph, ts, args, dur=0.0, pid=1, tid=1):
    text = json.dumps({"id": number, "name": name, "cat": cat, "pid": pid, "tid": tid})[:-1]
    text += f',"ts":{START + ts:.3f}' + (f',"dur":{dur:.3f}' if ph == "X" else "")
    return f'{text},"ph":"{ph}","args":{json.dumps(args)}}}\n'


def write(path, lines, rank=-1):
    """[(name, ts, dur or None, args)]; memory events have no dur."""
    with open(path, "w") as out:
        out.write(line(1, "process", "pfw", "M", 0, {"format": 1, "version": "1", "run": "r",
                                                      "host": "h", "rank": rank, "world_size": 1,
                                                      "start_ts": START}))
        for number, (name, ts, dur, args) in enumerate(lines, 2):
            out.write(line(number, name, "PP", "i" if dur is None else "X", ts, args, dur or 0))
        out.write(line(len(lines) + 2, "end", "pfw", "M", 1e6, {"events": len(lines), "lost": 0,
                                                                "reason": "exit"}))
    return path


def event(ts, addr, size, device=1, **more):
    return ("[memory]", ts, None, {"kind": "memory", "device": device,
                                   "device_index": 0 if device else -1, "addr": addr,
                                   "bytes": size, **more})


LINES = [
    event(10, 1, 100, step=0, total_allocated=100, total_reserved=2048),
    ("outer", 15, 100.0, {"kind": "cpu_op", "device": 0}),
    ("inner", 18, 10.0, {"kind": "cpu_op", "device": 0}),
    event(20, 2, 1000, step=0, total_allocated=1100, total_reserved=2048),
    event(30, 3, 50, step=1, total_allocated=1150, total_reserved=4096),
    event(40, 2, -1000, step=1, total_allocated=150, total_reserved=4096),
    event(50, 2, 7, device=0),
    event(200, 9, -11, step=2),
]


def test_by_hand(tmp_path):
    found = memory("--bins", 2, write(tmp_path / "t.pfw", LINES))
    gpu, cpu = found["device"]
    assert (gpu["device"], cpu["device"], gpu["pid"], gpu["rank"]) == ("cuda:0", "cpu", "1", None)
    assert (gpu["allocations"], gpu["allocated_bytes"], gpu["frees"], gpu["freed_bytes"]) == (
        3, 1150, 2, 1011)
    assert (gpu["peak_bytes"], gpu["peak_ts"]) == (1150, START + 30)
    assert (gpu["peak_allocated_bytes"], gpu["peak_reserved_bytes"]) == (1150, 4096)
    assert (gpu["end_bytes"], gpu["unfreed"], gpu["unfreed_bytes"]) == (139, 2, 150)
    assert gpu["unknown_frees"] == 1 and cpu["peak_reserved_bytes"] is None
    assert [(s["step"], s["growth_bytes"], s["peak_bytes"], s["end_bytes"]) for s in found["step"]] \
        == [(0, 1100, 1100, 1100), (1, -950, 1150, 150), (2, -11, 150, 139)]
    assert {o["name"]: (o["allocations"], o["allocated_bytes"], o["greatest_bytes"],
                        o["unfreed_bytes"]) for o in found["owner"]} == {
        None: (1, 100, 100, 100), "inner": (1, 1000, 1000, 0), "outer": (2, 57, 50, 57)}
    assert [(u["addr"], u["bytes"], u["name"], u["step"]) for u in found["unfreed"]] == [
        ("0x1", 100, None, 0), ("0x3", 50, "outer", 1), ("0x2", 7, "outer", None)]
    assert [(t["device"], t["peak_bytes"], t["end_bytes"]) for t in found["time"]] == [
        ("cuda:0", 1150, 150), ("cuda:0", 150, 139), ("cpu", 7, 7)]
    assert not found["block"]
    lives = [(b["addr"], b["bytes"], b["ts"] - START, b["freed_ts"] and b["freed_ts"] - START, b["dur"], b["name"], b["step"])
             for b in memory("--blocks", 9, tmp_path / "t.pfw")["block"]]
    assert lives == [("0x2", 1000, 20, 40, 20, "inner", 0), ("0x1", 100, 10, None, None, None, 0),
                     ("0x3", 50, 30, None, None, "outer", 1), ("0x2", 7, 50, None, None, "outer", None)]
    assert [b["bytes"] for b in memory("--blocks", 2, tmp_path / "t.pfw")["block"]] == [1000, 100]


def test_ranks_and_conditions(tmp_path):
    for rank in range(2):
        write(tmp_path / f"t-rank000{rank}.pfw", LINES, rank)
    found = memory(tmp_path)
    assert [row["rank"] for row in found["device"]] == [0, 0, 1, 1]
    assert [row["rank"] for row in memory("--rank", 1, tmp_path)["device"]] == [1, 1]
    assert memory("--step", 0, tmp_path)["device"][0]["allocations"] == 2
    found = memory("--where", "args.bytes > 500", tmp_path)
    assert {row["allocated_bytes"] for row in found["device"]} == {1000}


@pytest.mark.parametrize("seed", range(10))
def test_random(tmp_path, seed):
    """Allocations and frees of some addresses, in spans; the same sums here."""
    chance, lines, live, ts = random.Random(seed), [], {}, 0
    peak, total, sizes = 0, 0, []
    owners, growth = collections.Counter(), collections.Counter()
    for i in range(chance.choice([20, 400, 3000])):
        ts += 10
        step, owner = i // 50, f"op{chance.randrange(4)}"
        if live and chance.random() < 0.45:
            addr = chance.choice(list(live))
            size = -live.pop(addr)
        else:
            addr = max(live, default=0) + chance.randrange(1, 5)
            size = chance.randrange(1, 1 << 30)
            live[addr] = size
            sizes.append(size)
            owners[owner] += size
        total += size
        peak = max(peak, total)
        growth[step] += size
        lines.append((owner, ts - 3, 6.0, {"kind": "cpu_op", "device": 0}))
        lines.append(event(ts, addr, size, step=step))
    chance.shuffle(lines)
    found = memory("--blocks", 30, write(tmp_path / "t.pfw", lines))
    assert [row["bytes"] for row in found["block"]] == sorted(sizes, reverse=True)[:30]
    device = found["device"][0]
    assert (device["peak_bytes"], device["end_bytes"]) == (peak, total)
    assert device["unfreed"] == len(live) and device["unfreed_bytes"] == sum(live.values())
    assert {row["name"]: row["allocated_bytes"] for row in found["owner"]} == owners
    assert {row["step"]: row["growth_bytes"] for row in found["step"]} == growth
    assert {int(row["addr"], 16): row["bytes"] for row in found["unfreed"]} == live
    sizes = [row["bytes"] for row in found["unfreed"]]
    assert sizes == sorted(sizes, reverse=True)


def test_outputs(tmp_path):
    path = write(tmp_path / "t.pfw", LINES)
    text = harness.run([PFW, "memory", path]).stdout
    assert "Growth in each step" in text and "0x3" in text and "cuda:0" in text
    table = list(csv.DictReader(io.StringIO(harness.run([PFW, "memory", "--format", "csv",
                                                         path]).stdout)))
    assert [row["peak_bytes"] for row in table] == ["1150", "7"]
    assert "| cuda:0 |" in harness.run([PFW, "memory", "--format", "md", path]).stdout
    harness.run([PFW, "compact", "-q", path])
    assert memory(tmp_path / "t.pfw.gz")["device"][0]["peak_bytes"] == 1150
    empty = harness.run([PFW, "memory", write(tmp_path / "e.pfw", [])])
    assert "no allocations" in empty.stderr and empty.stdout == ""
    head = harness.run([PFW, "memory", "--format", "csv", tmp_path / "e.pfw"]).stdout
    assert head.startswith("section,") and head.count("\n") == 1
    assert harness.run([PFW, "memory", "--bins", "0", path], status=2).stdout == ""


def test_what_is_usual_is_left_out(tmp_path):
    """Lines of the tracer's own say of a device what is not usual; pools have lines of their own."""
    def cuda(ts, name, size, **more):
        return name, ts, None, {"kind": "memory", "addr": 7, "bytes": size, **more}

    lines = [cuda(1, "Memory Alloc", 100), cuda(2, "Memory Alloc", 30, device_index=1),
             cuda(3, "Memory Pool Created", 1 << 20), cuda(4, "Memory Free", -100),
             ("[memory]", 5, None, {"kind": "memory", "device": 0, "addr": 7, "bytes": 9})]
    found = memory(write(tmp_path / "t.pfw", lines))
    assert [(row["device"], row["peak_bytes"], row["end_bytes"]) for row in found["device"]] == [
        ("cuda:0", 100, 0), ("cuda:1", 30, 30), ("cpu", 9, 9)]


@pytest.mark.parametrize("seed", range(6))
def test_owners_of_threads(tmp_path, seed):
    """The span that begins last of those of the thread that an allocation lies in, of begins alike the
    shorter one; spans overlap in every way, and end at, begin at and miss allocations."""
    chance, lines, spans, allocations = random.Random(seed), [], [], []
    for i in range(chance.choice([30, 600])):
        tid, begin = chance.randrange(3), chance.randrange(2000)
        end = begin + chance.choice([0, 3, 40, 900, 10**9 if i == 5 else 1])
        if any(span[:3] == (tid, begin, end) for span in spans):
            continue
        spans.append((tid, begin, end, f"s{i}"))
        lines.append(line(i, f"s{i}", "PP", "X", begin, {"kind": "cpu_op"}, end - begin, tid=tid))
    for i in range(chance.choice([20, 500])):
        tid, ts = chance.randrange(4), chance.randrange(2500)
        allocations.append((tid, ts, i + 1))
        lines.append(line(i, "m", "PP", "i", ts, {"kind": "memory", "addr": i, "bytes": i + 1}, tid=tid))
    wanted = collections.Counter()
    for tid, ts, size in allocations:
        inside = [(begin, -end, name) for of, begin, end, name in spans
                  if of == tid and begin <= ts <= end]
        wanted[max(inside)[2] if inside else None] += size
    chance.shuffle(lines)
    (tmp_path / "t.pfw").write_text("".join(lines))
    with open(tmp_path / "t.pfw") as pipe:
        for found in (memory(tmp_path / "t.pfw"), memory("-", stdin=pipe)):
            assert {row["name"]: row["allocated_bytes"] for row in found["owner"]} == wanted


FRAMES = [{"name": "malloc", "filename": "a.cpp", "line": 1},
          {"name": "f", "filename": "/t.py", "line": 3}, {"name": "g", "filename": "/t.py", "line": 9}]


def snapshot(chance):
    """One as torch.cuda.memory._dump_snapshot() writes it, of two devices; what `pfw memory` is to say."""
    traces, wanted, at_end = [], [], []
    for device in range(2):
        events, live, peak, used, taken = [], {}, 0, 0, collections.Counter()
        for number in range(chance.choice([3, 500])):
            action, addr = chance.choice(["alloc", "alloc", "free"]), 1 << 63 | number << 9
            stack, owner = chance.choice([([], None), (FRAMES, "/t.py(3): f"), (FRAMES[2:], "/t.py(9): g"),
                                          (FRAMES[:1], "a.cpp(1): malloc")])
            if action == "alloc":
                size = live[addr] = chance.randrange(1, 1 << 33)
                taken[owner] += size
                used += size
            elif live:
                addr = chance.choice(sorted(live))
                size = live.pop(addr)
                used -= size
                action = "free_completed"
                events.append({"action": "free_requested", "addr": addr, "size": size, "frames": [],
                               "stream": 0, "time_us": START + number})
            else:
                action, size = "segment_alloc", 1
            peak = max(peak, used)
            events.append({"action": action, "addr": addr, "size": size, "stream": 0, "frames": stack,
                           "time_us": START + number})
        events.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": START + 999})
        traces.append(events)
        at_end.append((used, sum(event["size"] for event in events if event["action"] == "segment_alloc")))
        wanted.append({"device": f"cuda:{device}", "peak_bytes": peak, "end_bytes": used,
                       "unfreed": len(live), "peak_allocated_bytes": peak + 1000, "owners": taken})
    segments = [{"device": device, "total_size": 5000 + reserved, "blocks": [
        {"size": 1024, "requested_size": 1000, "state": "active_allocated"},
        {"size": used, "state": "active_pending_free"}, {"size": 99, "state": "inactive"}]}
        for device, (used, reserved) in enumerate(at_end)]
    return {"segments": segments, "device_traces": traces + [[]], "allocator_settings": {"x": 1.5}}, wanted


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a26_snapshot_of_torch(tmp_path, protocol):
    """A pickle is read as a trace is: peaks, who allocates, the course of it; ranks are in the names."""
    chance = random.Random(protocol)
    made, wanted = snapshot(chance)
    for rank in range(2):
        path = tmp_path / f"flux-rank{rank}-memory-1795230878.pickle"
        path.write_bytes(pickle.dumps(made, protocol))
    found = memory("-b", 5, tmp_path / "flux-rank1-memory-1795230878.pickle")
    owners = collections.Counter()
    for device, expected in zip(found["device"], wanted, strict=True):
        owners.update(expected.pop("owners"))
        assert {key: device[key] for key in expected} == expected
        assert device["rank"] == 1
    assert {row["name"]: row["allocated_bytes"] for row in found["owner"]} == owners
    assert {row["device"] for row in found["time"]} == {"cuda:0", "cuda:1"} and len(found["time"]) <= 10
    both = memory(*sorted(tmp_path.glob("*.pickle")))
    assert [row["rank"] for row in both["device"]] == [0, 0, 1, 1]
    assert both["device"][0]["peak_bytes"] == wanted[0]["peak_bytes"]
    assert "Who allocates" in harness.run([PFW, "memory", path]).stdout


def test_snapshot_without_stacks_or_times(tmp_path):
    """Before 2.1 events have no times; without stacks, annotations own what is allocated in them."""
    event = {"action": "alloc", "addr": 1, "size": 100, "stream": 0}
    notes = [{"stage": stage, "name": "train", "device": 0, "time_us": time}
             for stage, time in (("END", 1), ("START", 2), ("START", 3), ("END", 3), ("END", 4))]
    (tmp_path / "s").write_bytes(pickle.dumps({"device_traces": [[event | {"addr": n} for n in range(9)]],
                                               "external_annotations": notes}))
    found = memory(tmp_path / "s")
    assert {row["name"]: row["allocations"] for row in found["owner"]} == {"train": 3, None: 6}
    assert memory(tmp_path / "s", "--where", "args.addr >= 5")["device"][0]["peak_bytes"] == 400


class Code:
    def __reduce__(self):
        return os.system, ("touch ran",)


def shared(count):
    """A list of lists that are the same one, so that little text says much work."""
    event = {"action": "alloc", "addr": 1, "size": 1, "stream": 0, "time_us": 1, "frames": []}
    return {"device_traces": [[event] * count] * count}


@pytest.mark.parametrize("bad, why", [
    (Code(), "which is not"), ({"segments": []}, "no `device_traces`"), ([1], "no `device_traces`"),
    ({"device_traces": [[{"action": "alloc"}]]}, "no `action` or `size`"), (shared(3000), "than its bytes"),
    ({"device_traces": [3]}, "are no lists"), ({"device_traces": [[3]]}, "no `action` or `size`"),
    (pathlib.Path("x"), "which is not"), ({"device_traces": [[]] * 300_000}, None),
])
def test_a26_no_snapshot(tmp_path, bad, why):
    for protocol in range(2, 6):
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(bad, protocol))
        done = harness.run([PFW, "memory", tmp_path / "s.pickle"], status=2 if why else 0, cwd=tmp_path)
        assert (why or "no allocations") in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert os.listdir(tmp_path) == ["s.pickle"]


def test_a26_damaged_snapshot(tmp_path):
    """Cut anywhere, or with a byte changed: a line that says why, or figures; nothing worse."""
    whole = pickle.dumps(snapshot(random.Random(1))[0])
    chance = random.Random(2)
    for number in range(60):
        broken = bytearray(whole)
        if number % 2:
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        else:
            del broken[chance.randrange(2, len(broken)):]
        (tmp_path / "s.pickle").write_bytes(broken)
        done = harness.run([PFW, "memory", tmp_path / "s.pickle"], status=None)
        assert done.returncode in ((0, 2) if number % 2 else (2,))
        assert done.returncode == 0 or done.stderr.count("\n") == 1
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({}, 0))
    assert "opcode" in harness.run([PFW, "memory", tmp_path / "s.pickle"], status=2).stderr


LARGE = """
import json, os, resource, subprocess, sys
done = subprocess.run([sys.argv[1], "memory", "-j2", "--format", "ndjson", "--bins", "10", sys.argv[2]],
                      stdout=subprocess.PIPE, check=True)
print(json.dumps([resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
                  [json.loads(line) for line in done.stdout.splitlines()]]))
"""


def test_more_events_than_memory(tmp_path):
    """What is in no order at all and more than is sorted in memory; the sums are known."""
    count, live = 2_000_000, 1000
    with open(tmp_path / "t.pfw", "w") as out:
        for first in range(count - 100, -1, -100):  # backwards, 100 at a time
            out.writelines(
                f'{{"id":1,"name":"m","cat":"PP","pid":1,"tid":1,"ts":{i}.000,"ph":"i","args":'
                f'{{"kind":"memory","addr":{i % live},"bytes":{64 if i // live % 2 == 0 else -64}}}}}\n'
                for i in range(first, first + 100))
            out.write(f'{{"id":1,"name":"op{first // 100 % 7}","cat":"PP","pid":1,"tid":1,"ts":{first}.000,'
                      f'"dur":50.000,"ph":"X","args":{{"kind":"cpu_op"}}}}\n')
    done = harness.run(["/usr/bin/python3", "-c", LARGE, PFW, tmp_path / "t.pfw"])
    rss, rows = json.loads(done.stdout)
    device = next(row for row in rows if row["section"] == "device")
    assert (device["allocations"], device["frees"]) == (count / 2, count / 2)
    assert (device["peak_bytes"], device["end_bytes"], device["unfreed"]) == (64 * live, 0, 0)
    assert device["unknown_frees"] == 0 and device["peak_ts"] == live - 1
    owners = {row["name"]: row["allocations"] for row in rows if row["section"] == "owner"}
    wanted = collections.Counter(f"op{i // 100 % 7}" if i % 100 <= 50 else None
                                 for i in range(count) if i // live % 2 == 0)
    assert owners == wanted
    assert [row["peak_bytes"] for row in rows if row["section"] == "time"] == [64 * live] * 10
    if b"__asan_init" not in open(PFW, "rb").read() and not harness.RACES:
        assert rss < 160 << 10, rss


# ---- the index ----

def text_of(*words):
    return harness.run([PFW, "memory", *map(str, words)]).stdout


def without_events(path, count, *more):
    """A trace of operators."""
    return write(path, [*(("mm", 10 * number, 2.5, {"kind": "cpu_op", "device": 0}) for number in range(count)), *more])


@pytest.mark.parametrize("words", [[], ["--format", "ndjson"], ["--format", "csv"], ["--bins", "3"]])
def test_index_says_that_there_is_nothing(tmp_path, words):
    trace = without_events(tmp_path / "t.pfw", 40000)
    true = text_of(*words, trace)
    harness.run([PFW, "index", "-q", trace])
    assert text_of(*words, trace) == true == text_of("--no-index", *words, trace)
    text = trace.read_text()
    middle = text.index("\n", len(text) // 2)  # which the index cannot see
    trace.write_text(text[:middle] + text[middle:].replace('"cpu_op", "device": 0', '"memory", "bytes": 80', 1))
    assert text_of(*words, trace) == true != text_of("--no-index", *words, trace)


@pytest.mark.parametrize("dur", [None, 1.0])
def test_one_event_is_found(tmp_path, dur):
    """Whatever its phase and its name are, and whatever else has its name."""
    trace = without_events(tmp_path / "t.pfw", 3000, ("mm", 5, dur, {"kind": "memory", "bytes": 64, "addr": 1}))
    true = text_of("--format", "csv", trace)
    harness.run([PFW, "index", "-q", trace])
    assert text_of("--format", "csv", trace) == true and ",64," in true


@pytest.mark.parametrize("ts, owner", [(11.0, "mm"), (399991.0, "mm"), (5e5, None)])
def test_the_first_event_comes_late(tmp_path, ts, owner):
    """In a span of an early block, whose index is then made anew; in one of its own block; in none."""
    trace = without_events(tmp_path / "t.pfw", 40000, event(ts, 1, 64), event(ts + 1, 2, 128))
    text = trace.read_text()
    trace.write_text(text.replace("\n", "\n{bad\n", 1))
    true = harness.run([PFW, "memory", "--no-index", "--format", "ndjson", trace], status=None)
    rows = [json.loads(row) for row in true.stdout.splitlines()]
    assert [row["name"] for row in rows if row["section"] == "owner"] == [owner]
    told = harness.run([PFW, "index", "-q", trace], status=None).stderr
    assert told.count("t.pfw:2:") == 1, told
    harness.run([PFW, "index", "-q", "--check", trace], status=None)
    assert harness.run([PFW, "memory", "--format", "ndjson", trace], status=None).stdout == true.stdout
    middle = text.index("\n", len(text) // 2)  # which the index cannot see
    trace.write_text(trace.read_text().replace(text[middle:middle + 40], text[middle:middle + 40].replace("m", "n"), 1))
    assert harness.run([PFW, "memory", "--format", "ndjson", trace], status=None).stdout == true.stdout


def test_conditions_are_checked_in_any_case(tmp_path):
    trace = without_events(tmp_path / "t.pfw", 3000)
    before = harness.run([PFW, "memory", "--since", "step:3", trace], status=2).stderr
    harness.run([PFW, "index", "-q", trace])
    assert harness.run([PFW, "memory", "--since", "step:3", trace], status=2).stderr == before != ""


def test_the_first_answer_leaves_an_index(tmp_path):
    trace = without_events(tmp_path / "t.pfw", 3000)
    environment = harness.clean_environment(PFW_INDEX_EVENTS="1000")
    true = harness.run([PFW, "memory", "--no-index", trace], environment)
    first = harness.run([PFW, "memory", trace], environment)
    assert first.stdout == true.stdout and "the next answers come at once" in first.stderr
    assert (tmp_path / "t.pfw.idx").exists()
    assert harness.run([PFW, "memory", trace], environment).stderr == true.stderr


QUESTIONS = [[], ["--format", "ndjson"], ["--format", "csv"], ["--row-limit", "3"], ["--blocks", "5"],
             ["--blocks", "3", "--format", "ndjson"], ["--rank", "0"], ["--bins", "4"]]


def nasty(chance, pid, ordered, number):
    """Lines of a process: spans that overlap in any way, steps, allocations in and out of them, often at one
    time; frees of what was never allocated; with and without ids, devices, steps and totals."""
    times, lines, live = chance.choice([30, 3000, 10**6]), [], []
    for i in range(chance.randrange(4)):
        lines.append((f"ProfilerStep#{i}", i * times / 3, "X", {"kind": "step"}, times / chance.choice([3, 4])))
    for i in range(chance.randrange(60)):
        name = chance.choice(["mm", "a\"b", f"op{chance.randrange(5)}", "ProfilerStep#9", "\u00e9"])
        args = chance.choice([{"kind": "cpu_op"}, {"kind": "annotation", "device": 0}, {},
                              {"kind": "kernel", "device": 1}, {"kind": "cpu_op", "device": 1}])
        lines.append((name, chance.randrange(times), "X", args, chance.choice([0, 3, times / 9, times])))
    for i in range(chance.choice([0, 5, 300])):
        args = {"kind": "memory", "addr": chance.randrange(40), "bytes": chance.choice([8, 100, 100, 1 << 40])}
        if live and chance.random() < .4:
            args |= {"addr": chance.choice(live), "bytes": -args["bytes"]}
        live.append(args["addr"])
        for key, value in {"device": chance.randrange(2), "device_index": chance.randrange(-1, 2), "step": 7,
                           "total_allocated": i, "total_reserved": 10 * i}.items():
            if chance.random() < .3:
                args[key] = value
        lines.append(("[memory]", chance.randrange(times), chance.choice("iX"), args, chance.choice([0, 5])))
    chance.shuffle(lines)
    if ordered:
        lines.sort(key=lambda line: line[1])
    out = []
    for at, (name, ts, ph, args, dur) in enumerate(lines):
        cat = chance.choice(["PP", "PP", "PP", "app"]) if ph == "X" and args.get("kind") != "step" else "PP"
        out.append(line(number + at, name, cat, ph, ts, args, dur, pid, chance.choice([pid, pid + 1])))
    return out


def nasty_run(chance, folder, foreign=True):
    """Files of ranks and of their children; of other tools (without `process` lines), too."""
    for rank in range(chance.choice([1, 2, 3])):
        for child in range(chance.choice([1, 1, 3])):
            pid, ours = 100 * rank + child + 5, not foreign or chance.random() < .7
            head = {"format": 1, "version": "1", "run": "r", "host": "h", "rank": rank, "world_size": 3,
                    "start_ts": START + pid, "ppid": 100 * rank + 5 if child else 1}
            text = line(1, "process", "pfw", "M", 0, head, pid=pid) if ours else ""
            text += "".join(nasty(chance, pid, chance.random() < .3, 2 if chance.random() < .7 else 0))
            if chance.random() < .5:
                text += "".join(nasty(chance, pid + 50, False, 2))
            if ours:
                text += line(9**9, "end", "pfw", "M", 2e6, {"events": 0, "lost": 0, "reason": "exit"}, pid=pid)
            (folder / f"t-rank000{rank}{f'-pid{pid}' if child else ''}.pfw").write_text(text)


def same(folder, partials):
    for words in QUESTIONS:
        true = harness.run([PFW, "memory", "--no-index", *words, folder], status=None)
        for path in [folder, *partials]:
            done = harness.run([PFW, "memory", *words, path], status=None)
            if path != folder and done.returncode == 2:
                assert "is in no partial" in done.stderr and words[:1] not in ([], ["--format"]), done.stderr
                continue
            assert (done.stdout, done.returncode) == (true.stdout, true.returncode), (words, path)


@pytest.mark.parametrize("seed", range(10))
def test_the_index_says_what_the_lines_say(tmp_path, seed):
    chance = random.Random(seed)
    for form in range(3):
        folder = tmp_path / f"f{form}"
        folder.mkdir()
        nasty_run(chance, folder, form != 1)
        split = chance.choice([[], ["--split-by", "none"]])
        if form == 1:
            harness.run([PFW, "compact", "-q", *split, folder])
        else:
            harness.run([PFW, "index", "-q", folder])
        harness.run([PFW, "index", "-q", "--check", folder])
        partials = [tmp_path / "p.partial"] if form == 1 and not split else []
        for partial in partials:
            harness.run([PFW, "index", "--partial", "-q", "-o", partial, folder])
        same(folder, partials)


@pytest.mark.parametrize("words", [[], ["--blocks", "4"], ["--rank", "1"], ["--format", "csv"], ["--row-limit", "-1"]])
def test_the_index_is_enough(tmp_path, words):
    """No line is read: one that is changed behind the index's back changes nothing."""
    for rank in range(2):
        write(tmp_path / f"t-rank000{rank}.pfw", [("mm", 3.0, 1.0, {"kind": "cpu_op"}), *LINES] * 3000, rank)
    true = text_of("--no-index", *words, tmp_path)
    harness.run([PFW, "index", "-q", tmp_path])
    for path in tmp_path.glob("*.pfw"):
        text = path.read_text()
        middle = text.index("\n", len(text) // 2)
        path.write_text(text[:middle] + text[middle:].replace('"bytes": 1000', '"bytes": 7000', 1))
    assert text_of(*words, tmp_path) == true != text_of("--no-index", *words, tmp_path)
