"""pfw.torch.trace_handler: every combination of what torch.profiler can be asked for, against its own profile."""
import collections
import json

import pytest

torch = pytest.importorskip("torch")

OPTIONS = ("profile_memory", "with_stack", "record_shapes", "with_flops", "acc_events")

# Two cycles of each combination; what Kineto has of them, by its own getters, is left in a file.
PROGRAM = """
import inspect, itertools, json, sys, torch, warnings
from torch.profiler import ProfilerActivity, profile, schedule
from pfw.torch import trace_handler
warnings.simplefilter("ignore")
CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
activities, trace_only, names = {activities}, {trace_only}, {names}
known = inspect.signature(profile).parameters
Config = torch._C._profiler._ExperimentalConfig
if trace_only and "trace_only" not in str(Config.__init__.__doc__):
    sys.exit("no trace_only")
model, image = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()), torch.randn(8, 16)
kineto, tables, combination = [], [], None

def ns(event):
    return ([event.start_ns(), event.duration_ns()] if hasattr(event, "start_ns") else
            [event.start_us() * 1000, event.duration_us() * 1000])

def row(name, times, lane, shapes, flops, bytes):
    kineto.append([combination, name, *times, lane, shapes, flops, bytes])

def read(prof):
    # By Kineto's getters, or where it has no events, by its own file.
    events = prof.profiler.kineto_results.events()
    for event in events:
        row(event.name(), ns(event), event.device_resource_id(),
            event.shapes() if prof.profiler.record_shapes else [], event.flops() if prof.with_flops else 0,
            event.nbytes() if event.name() == "[memory]" else 0)
    if events:
        return
    prof.export_chrome_trace("trace.json")
    trace = json.load(open("trace.json"))
    for entry in trace["traceEvents"]:
        if entry.get("cat") in ("cpu_op", "user_annotation", "cpu_instant_event"):
            args = entry["args"]
            row(entry["name"], [trace["baseTimeNanoseconds"] + round(entry["ts"] * 1000),
                                round(entry.get("dur", 0) * 1000)], entry["tid"],
                args.get("Input Dims", []), 0, args.get("Bytes", 0))

def hook(prof):
    trace_handler(prof)
    read(prof)
    try:
        tables.append([combination, sorted(event.name for event in prof.events())])
    except RuntimeError: # of trace_only
        tables.append([combination, None])

for flags in itertools.product((False, True), repeat=len(names)):
    options = dict(zip(names, flags))
    combination = sum(flag << place for place, flag in enumerate(flags))
    with profile(activities=activities, schedule=schedule(wait=0, warmup=1, active=1, repeat=2),
                 on_trace_ready=hook, **(dict(experimental_config=Config(trace_only=True)) if trace_only else dict()),
                 **{{name: value for name, value in options.items() if name in known}}) as prof:
        for step in range(4):
            model(image).sum().backward()
            prof.step()
json.dump([kineto, tables], open("kineto.json", "w"))
"""


def times(raw):
    """Start and duration in ns; a double does not hold a ts of today to the ns."""
    return [int(raw.split(f'"{key}":')[1].split(",")[0].replace(".", "")) for key in ("ts", "dur")]


@pytest.mark.parametrize("trace_only", [False, True])
@pytest.mark.parametrize("activities", ["None", "[CPU]", "[CPU, CUDA]"])
def test_every_combination(run, activities, trace_only):
    """Each event of Kineto's once, with its time, lane, shapes, FLOPs, bytes; nothing besides."""
    text = PROGRAM.format(activities=activities, trace_only=trace_only, names=OPTIONS)
    try:
        run.traced(text)
    except AssertionError:
        if "no trace_only" not in run.errors:
            raise
        pytest.skip("this torch has no trace_only")
    assert "not in the trace" not in run.errors
    kineto, tables = json.loads((run.directory / "kineto.json").read_text())
    assert len(tables) == 2 * 2 ** len(OPTIONS)
    raws = [raw for raw in (run.directory / "t.pfw").read_text().splitlines() if '"cat":"PP"' in raw]
    # Of older torch functions are no events, and come from elsewhere: test_stacks_and_modules_E07.
    functions = hasattr(torch._C._autograd._KinetoEvent, "is_python_function")
    found = collections.Counter(
        json.dumps([line["name"], *times(raw), line["tid"], line["args"].get("input_shapes", []),
                    line["args"].get("flops", 0), line["args"].get("bytes", 0)])
        for raw, line in zip(raws, map(json.loads, raws))
        if functions or line["args"]["kind"] != "python_function")
    wanted = collections.Counter(json.dumps(row[1:]) for row in kineto)
    assert found == wanted
    for number, names in tables:
        asked = {name for place, name in enumerate(OPTIONS) if number >> place & 1}
        rows = [row for row in kineto if row[0] == number]
        assert len([row for row in rows if row[1] == "aten::addmm"]) == 2
        assert any(row[7] for row in rows) == ("profile_memory" in asked)
        assert any(row[5] for row in rows) == bool({"record_shapes", "with_flops"} & asked)
        assert any(row[6] for row in rows) == ("with_flops" in asked and names is not None)
        assert (names is None) == (trace_only and "with_stack" not in asked)
