"""pfw.torch.trace_handler against torch's own figures, with the torch that is installed beside it."""
import collections
import decimal
import inspect
import json
import re

import pytest

from conftest import PFW

torch = pytest.importorskip("torch")

TRAIN = """
import inspect, os, sys, threading, torch, pfw
from torch.profiler import profile, schedule, record_function, ProfilerActivity
from pfw.torch import trace_handler
model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
def train(rows=8):
    with record_function('forward "quoted"'):
        loss = model(torch.randn(rows, 10)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
def cycles(steps, hook=trace_handler, schedule=None, **options):
    if "acc_events" not in inspect.signature(profile).parameters: # torch before 2.5
        options.pop("acc_events", None)
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=hook, schedule=schedule, **options) as p:
        for step in range(steps):
            train()
            p.step()
    return p
def times(event):
    if hasattr(event, "start_ns"):
        return event.start_ns(), event.duration_ns()
    return event.start_us() * 1000, event.duration_us() * 1000 # torch before 2.4
"""


OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 1)
# torch 2.1 calls a step by the number of the one before it.
EARLY = "str(cur_step)" in inspect.getsource(torch.profiler.profile.step)


def steps(numbers):
    return [f"ProfilerStep#{number - EARLY}" for number in numbers]


def pp(run, **wanted):
    return [line for line in run.lines() if line["cat"] == "PP" and
            all(line["args"].get(key) == value for key, value in wanted.items())]


def test_every_event_as_torch_has_it_E05_E06_E10_E17(run):
    """One callback for two steps; names, times and threads are Kineto's, and torch's tables go on."""
    run.traced(TRAIN + """
calls = []
def hook(prof):
    before = prof.key_averages().table()
    events = prof.profiler.kineto_results.events()
    trace_handler(prof)
    assert prof.key_averages().table() == before
    prof.export_chrome_trace("torch.json")
    calls.append(prof.step_num)
    with open("events", "w") as file:
        for event in events:
            print(*times(event), event.device_resource_id() or os.getpid(), event.name(),
                  file=file)
cycles(4, hook, schedule(wait=1, warmup=1, active=2, repeat=1))
assert calls == [4], calls
""")
    wanted = sorted((run.directory / "events").read_text().splitlines())
    found = sorted("{} {} {tid} {name}".format(*times(line), **line) for line in parsed(run))
    assert found == wanted and len(wanted) > 60
    assert [line["name"] for line in pp(run, kind="step")] == steps((2, 3))
    for step in (2 - EARLY, 3 - EARLY):
        inside = pp(run, step=step)
        assert len([line for line in inside if line["name"] == "aten::addmm"]) == 2
        assert {line["args"]["phase"] for line in inside} == {"active"}
    around, = [line for line in pp(run, step=2 - EARLY) if line["name"] == 'forward "quoted"']
    linear = [line for line in pp(run, step=2 - EARLY) if line["name"] == "aten::linear"]
    assert around["args"]["kind"] == "annotation" and len(linear) == 2
    for line in linear:
        assert around["ts"] <= line["ts"] and line["ts"] + line["dur"] <= around["ts"] + around["dur"]


def times(line):
    """Start and duration in ns, as integers."""
    return round(line["ts"] * 1000), round(line["dur"] * 1000)


def parsed(run):
    """Lines with exact times: a double does not hold a ts of today to the ns."""
    return [line for path in sorted(run.directory.glob("t*.pfw"))
            for line in (json.loads(text, parse_float=decimal.Decimal)
                         for text in path.read_text().splitlines()) if line["cat"] == "PP"]


@pytest.mark.parametrize("grouped", [False, True])
def test_pfw_table_is_torchs_table(run, grouped):
    """From the trace alone `pfw table` prints what torch prints of the profile."""
    run.traced(TRAIN + f"""
p = cycles(6, schedule=schedule(wait=1, warmup=1, active=4, repeat=1), acc_events=True,
           record_shapes={grouped}, with_flops={grouped})
averages = p.key_averages(group_by_input_shape={grouped})
print(averages.table(sort_by="cpu_time_total", row_limit=100))
""")
    wanted = rows(run.output)
    run.command(PFW, "table", "--sort-by", "cpu_time_total", "--row-limit", "100",
                *(["--group-by", "shape"] if grouped else []), "--cat", "PP", "t.pfw")
    found = rows(run.output)
    assert found.keys() == wanted.keys() and len(wanted) > 25
    for name, figures in wanted.items():
        # torch adds doubles: the last digit of a mean may be the other.
        assert [unit for _, unit in found[name]] == [unit for _, unit in figures]
        assert [number for number, _ in found[name]] == pytest.approx(
            [number for number, _ in figures], abs=0.00101), name


def rows(table):
    """{the words of a row: its figures with their units}; of torch's table or ours."""
    found = {}
    for line in table.splitlines():
        words = re.split(r"  +", line.strip())
        if len(words) < 6 or words[0] == "Name" or set(words[0]) == {"-"}:
            continue
        figures = [re.fullmatch(r"(-?[0-9.]+)([%a-z]*)", word) for word in words[1:]]
        key = words[0], *(word for word, figure in zip(words[1:], figures) if not figure)
        found[key] = [(float(figure[1]), figure[2]) for figure in figures if figure]
    return found


def test_memory_shapes_flops_and_sequence_E11_E13_E14_E15(run):
    run.traced(TRAIN + """
import json
def hook(prof):
    trace_handler(prof)
    recorded = prof.profiler.kineto_results.events()
    memory = [(times(event)[0], event.nbytes()) for event in recorded if event.name() == "[memory]"]
    def within(event):
        start, dur = times(event)
        return sum(bytes for at, bytes in memory if start <= at <= start + dur)
    with open("torch", "w") as file:
        json.dump([sorted([event.key, sum(map(len, event.input_shapes)), event.input_shapes,
                           event.flops or 0, event.sequence_nr] for event in prof.events()
                          if event.key.startswith("aten::")),
                   sorted([event.name(), *times(event), within(event)] for event in recorded
                          if event.name().startswith("aten::"))], file)
cycles(3, hook, record_shapes=True, profile_memory=True, with_flops=True)
""")
    wanted, memory = json.loads((run.directory / "torch").read_text())
    found = ([line["name"], args["input_size"], args.get("input_shapes", []),
              args.get("flops", 0), args.get("sequence", -1)]
             for line in pp(run, kind="cpu_op") for args in [line["args"]])
    # torch's tables leave some out that lie in others of the same name.
    assert not collections.Counter(map(str, wanted)) - collections.Counter(map(str, found))
    assert any(row[3] for row in wanted)
    assert sorted([line["name"], *times(line), line["args"]["cpu_memory"]]
                  for line in parsed(run) if line["name"].startswith("aten::")) == memory
    assert any(row[3] for row in memory)
    add, = [line["args"] for line in pp(run, kind="cpu_op") if line["name"] == "aten::addmm"][:1]
    assert add["device"] == 0 and add["device_index"] == -1 and add["is_remote"] == 0
    assert add["device_memory_usage"] == 0 and 0 < add["total_cpu_percent"] < 100
    assert add["dtypes"][:3] == ["float"] * 3
    if hasattr(torch._C._autograd._KinetoEvent, "structured_input_strides"): # torch 2.9
        assert add["strides"][1] == [10, 1]
    outermost = [line for line in pp(run) if line["args"]["kind"] in ("cpu_op", "annotation")]
    assert max(line["args"]["total_cpu_percent"] for line in outermost) <= 100
    allocated = [line["args"]["bytes"] for line in pp(run, kind="memory")]
    assert 640 in allocated and -640 in allocated
    live = {}
    for line in pp(run, kind="memory"):
        args = line["args"]
        assert args["total_allocated"] >= 0 and args["total_reserved"] >= 0
        if args["bytes"] > 0:
            live[args["addr"]] = args["bytes"]
        elif args["addr"] in live: # what was allocated before is given back, too
            assert live.pop(args["addr"]) == -args["bytes"]
    forward = {line["args"]["sequence"]: line["tid"] for line in pp(run, kind="cpu_op")
               if "sequence" in line["args"] and "fwd_tid" not in line["args"]}
    backward = [line["args"] for line in pp(run, kind="cpu_op") if "fwd_tid" in line["args"]]
    assert (backward or OLD) and all(forward[args["sequence"]] == args["fwd_tid"] for args in backward
                            if args["sequence"] in forward)


def test_old_torch_is_said_once(run):
    """Debian's 1.13: in one line what it lacks; what it has is in the trace."""
    run.traced(TRAIN + "cycles(2), cycles(2)\n")
    said = [line for line in run.errors.splitlines() if "trace_handler" in line]
    assert len(said) == OLD, run.errors
    for line in said:
        assert f"torch {torch.__version__} is older than 2.1 and lacks times finer than" in line
    assert len([line for line in pp(run, kind="cpu_op") if line["name"] == "aten::addmm"]) == 2 * 2 * 2


def test_stacks_and_modules_E07(run):
    run.traced(TRAIN + "cycles(2, with_stack=True)\n")
    add, *_ = [line["args"] for line in pp(run, kind="cpu_op") if line["name"] == "aten::addmm"]
    assert add["module"].startswith("Linear_")
    stack = add["stack"]
    order = [next(i for i, frame in enumerate(stack) if part in frame)
             for part in ("linear.py", "nn.Module: Linear_", "nn.Module: Sequential_", ": train")]
    assert order == sorted(order), stack
    functions = {line["args"]["python_id"]: line for line in pp(run, kind="python_function")}
    assert len(functions) > 50
    inside = [line for line in functions.values() if line["args"].get("parent") in functions]
    assert inside
    for line in inside:
        outer = functions[line["args"]["parent"]]
        assert outer["ts"] <= line["ts"]


def test_cycles_follow_each_other_E05(run):
    """Each cycle once, also where torch keeps the events of earlier ones."""
    run.traced(TRAIN + """
cycles(9, schedule=schedule(wait=1, warmup=1, active=1, repeat=3), acc_events=True)
""")
    assert [line["name"] for line in pp(run, kind="step")] == steps((2, 5, 8))
    counts = collections.Counter(line["args"]["step"] for line in pp(run) if "step" in line["args"])
    assert len(set(counts.values())) == 1 and len(counts) == 3
    assert len([line for line in pp(run) if line["name"] == "aten::addmm"]) == 3 * 2


@pytest.mark.skipif("profile_all_threads" not in str(torch._C._profiler._ExperimentalConfig.__init__.__doc__),
                    reason="this torch profiles one thread")
def test_threads_keep_their_lanes_E17(run):
    run.traced(TRAIN + """
def other():
    with record_function("in a thread"):
        torch.randn(100).sum()
with profile(activities=[ProfilerActivity.CPU], on_trace_ready=trace_handler,
             experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True)):
    thread = threading.Thread(target=other)
    thread.start(); thread.join()
    torch.randn(100).sum()
print(thread.native_id)
""")
    tid = int(run.output.split()[0])
    inside, = [line for line in pp(run) if line["name"] == "in a thread"]
    assert inside["tid"] == tid != inside["pid"]
    assert {line["tid"] for line in pp(run) if line["name"] == "aten::randn"} == {tid, inside["pid"]}


def test_nothing_is_read_where_nothing_is_recorded_E01(run):
    run.script(TRAIN + """
class Profile:
    @property
    def profiler(self):
        raise AssertionError
trace_handler(Profile())
cycles(2)
""")
    assert not list(run.directory.glob("*.pfw*")) and not list(run.directory.glob("*.log"))


def test_a_profile_of_another_kind_has_its_events_written_E14(run):
    """Whatever has events(); 2 GiB and more, where DFTracer's handler raises inside training."""
    run.traced(TRAIN + """
class Event:
    key, id, device_type, is_remote = "huge", 7, torch.autograd.DeviceType.CPU, False
    cpu_memory_usage, device_memory_usage = 3 << 30, -(5 << 31)
    input_shapes, stack, flops = [[2, 3], []], ["a.py(1): f"], 12
    class time_range:
        start, end = 10.0, 12.5
        elapsed_us = staticmethod(lambda: 2.5)
class Profile:
    events = staticmethod(lambda: [Event()])
trace_handler(Profile())
trace_handler(object())
trace_handler(object())
""")
    line, = pp(run)
    assert (line["name"], line["dur"]) == ("huge", 2.5)
    assert line["args"] == {
        "kind": "cpu_op", "device": 0, "device_index": -1, "external_id": 7, "cpu_memory": 3 << 30,
        "device_memory_usage": -(5 << 31), "is_remote": 0, "input_size": 2,
        "input_shapes": [[2, 3], []], "flops": 12, "stack": ["a.py(1): f"]}
    said = [line for line in run.errors.splitlines() if "trace_handler" in line]
    assert len(said) == 1 and "not in the trace" in said[0]


def test_memory_stays_over_many_steps(run):
    """Every cycle of a schedule without an end is in the trace, and none of them in memory."""
    def growth(hook):
        run.traced(TRAIN + f"""
resident = []
def hook(prof):
    {hook}
    with open("/proc/self/status") as file:
        resident.append(next(int(line.split()[1]) for line in file if line.startswith("VmRSS")))
cycles(400, hook, schedule(wait=2, warmup=1, active=7))
print(len(resident), resident[-1] - resident[9], "KiB")
""")
        cycles, kilobytes, _ = run.output.split()
        assert int(cycles) == 40
        return int(kilobytes)

    torchs = growth("pass") # torch 2.4 takes 35 MB
    (run.directory / "t.pfw").unlink()
    assert growth("trace_handler(prof)") < max(torchs, 0) + 4096
    assert [line["name"] for line in pp(run, kind="step")] == steps(
        step for step in range(400) if step % 10 >= 3)
