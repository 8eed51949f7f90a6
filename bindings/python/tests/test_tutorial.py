"""The rows C01-C33: torch.profiler's interface on a trace; the tutorial's four exercises.

test_documents.py has the tutorial's own code.  There is no GPU here: where one is needed, its events are
written by hand, as CUPTI would report them.  The HTML report that C16, C20-C24, C29 and C33 name is another
command's; its figures are had from `pfw table`, `pfw overlap`, `pfw memory` and the exports.
"""
import ast
import json
import os
import pathlib
import re
import sys

import pytest

import documents
from conftest import PFW, Run
from pfw.torch import ProfilerAction, ProfilerActivity, schedule

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
ROOT = pathlib.Path(__file__).parents[3]
DOCS = ROOT / "docs" / "tutorial.rst"
HEADERS = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self CUDA",
           "Self CUDA %", "CUDA total", "CUDA time avg", "CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem",
           "# of Calls"]

# A training loop on torch, of which the second cycle is the last; what is printed is for the tests.
TRAINING = """
import torch
import torch.profiler
from pfw.torch import profile, record_function, ProfilerActivity
batch, model = torch.randn(4, 8), torch.nn.Linear(8, 8)
with profile(
    activities=[torch.profiler.ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2),
    on_trace_ready=torch.profiler.tensorboard_trace_handler("./logs"),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for step in range(10):
        with record_function("forward"):
            output = model(batch)
        with record_function("backward"):
            output.sum().backward()
        prof.step()
def show(name, value):
    print(name, repr(value), flush=True)
rows = {row.key: row for row in prof.key_averages()}
show("counts", {name: row.count for name, row in rows.items()})
show("attributes", {name: float(getattr(rows["aten::addmm"], name)) for name in (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "cuda_time", "device_time_total", "self_cuda_time_total",
    "cpu_memory_usage", "self_cpu_memory_usage", "self_cuda_memory_usage", "flops")})
show("table", prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=3))
show("shapes", [row.input_shapes for row in prof.key_averages(group_by_input_shape=True)
                if row.key == "aten::addmm"])
show("stacks", [row.stack for row in prof.key_averages(group_by_stack_n=5) if row.key == "aten::addmm"])
show("events", [event.key for event in prof.events()].count("aten::addmm"))
prof.export_chrome_trace("trace.json")
prof.export_chrome_trace("trace.json.gz")
prof.export_stacks("stacks.txt", "self_cuda_time_total")
prof.export_memory_timeline("memory.json.gz")
with profile() as prof:
    model(batch)
show("bare", [event.stack for event in prof.events() if event.key == "aten::addmm"])
ours = prof.key_averages().table(row_limit=1).splitlines()[1]
with torch.profiler.profile() as theirs:
    with record_function("both"):
        model(batch)
show("headers", [ours.split(), theirs.key_averages().table(row_limit=1).splitlines()[1].split()])
show("in torch's", [row.count for row in theirs.key_averages() if row.key == "both"])
"""

# A device's events by hand, without torch.
DEVICE = """
import time
import pfw
from pfw.torch import profile, record_function, ProfilerActivity, schedule
number = 0
def work(launch_ns=1000, kernel_ns=50_000):
    global number
    number += 1
    now = time.time_ns()
    pfw.compute_event("aten::mm", now, 20_000, kind="cpu_op", external_id=number, flops=64,
                      input_shapes="[[2, 3], [3, 4]]", device_memory_usage=4096)
    pfw.compute_event("cudaLaunchKernel", now + 1000, 5000, kind="runtime", correlation=number,
                      external_id=number)
    pfw.compute_event("sgemm", now + 2000 + launch_ns, kernel_ns, kind="kernel", device=1, device_index=0,
                      stream=7, correlation=number, external_id=number, grid=(1, 2, 3), block=(32, 1, 1),
                      registers=40, static_smem=1024)
    pfw.compute_event("Memcpy HtoD (Pageable -> Device)", now + 60_000 + kernel_ns, 7000, kind="memcpy", device=1,
                      device_index=0, stream=7)
    pfw.compute_event("[memory]", now + 3000, 0, kind="memory", device=1, device_index=0, bytes=4096,
                      addr=number, total_allocated=4096 * number, total_reserved=8192)
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    pytest.importorskip("torch")
    run = Run(tmp_path_factory.mktemp("training"))
    run.script(TRAINING, timeout=900)
    run.shown = {name: ast.literal_eval(value) for name, value in
                 re.findall(r"^(counts|attributes|table|shapes|stacks|events|bare|headers|in torch's) (.*)$",
                            run.output, re.MULTILINE)}
    return run


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """Two steps, each with one kernel of 50 us, launched 2 us after its call began."""
    run = Run(tmp_path_factory.mktemp("device"))
    run.script(DEVICE + """
with profile(activities=[ProfilerActivity.CUDA], profile_memory=True,
             schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as prof:
    for _ in range(3):
        work()
        prof.step()
print(prof.key_averages().table(sort_by="self_cuda_memory_usage"))
prof.export_stacks("stacks.txt", "self_cuda_time_total")
prof.export_chrome_trace("trace.json")
""")
    run.table = run.output
    return run


def examples(name, *words):
    def fixture(tmp_path_factory):
        pytest.importorskip("torch")
        run = Run(tmp_path_factory.mktemp(name))
        env = {"PATH": f"{PFW.parent}{os.pathsep}{os.environ['PATH']}"}
        run.command(sys.executable, EXAMPLES / name / "main.py", *words, timeout=900, **env)
        return run
    return pytest.fixture(scope="module")(fixture)


ex01 = examples("ex01-basic-profiling")
ex02 = examples("ex02-training-loop", "logs")
ex03 = examples("ex03-memory-profiling")
ex04 = examples("ex04-trace-export")


def document(path):
    return json.loads(path.read_text())


def events(path, **wanted):
    return [event for event in document(path)["traceEvents"]
            if all(event.get(key) == value for key, value in wanted.items())]


def rows(run, command, *words):
    """What a command says of the run's trace."""
    text = Run(run.directory).command(PFW, command, "-q", "--format", "ndjson", *words, "trace.pfw")
    return [json.loads(line) for line in text.splitlines()]


def columns(table):
    """The titles."""
    return re.split("  +", table.splitlines()[1].strip())


@pytest.mark.parametrize("torch", ["", "import torch\n"], ids=["without_torch", "with_torch"])
def test_c01_profile(run, torch):
    """The document's keywords; without torch own events only, never an import of it."""
    if torch:
        pytest.importorskip("torch")
    run.script(torch + """
import sys, pfw
from pfw.torch import profile, record_function, ProfilerActivity
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    record_shapes=True,
) as prof:
    with record_function("model_inference"):
        pass
print("torch" in sys.modules, [row.count for row in prof.key_averages() if row.key == "model_inference"])
import inspect
print(sorted(inspect.signature(profile).parameters))
if "torch" in sys.modules:
    import torch
    print(set(inspect.signature(torch.profiler.profile).parameters) - set(inspect.signature(profile).parameters))
""")
    assert run.output.splitlines()[0] == f"{bool(torch)} [1]"
    if torch:
        assert run.output.splitlines()[2] == "set()", "torch's keywords are all there"


def test_c02_record_function(training, run):
    """In torch's profile, too; a decorator; and its twin in C."""
    assert training.shown["counts"]["forward"] == 3 and training.shown["in torch's"] == [1]
    package = pathlib.Path(__import__("pfw").__file__).parent
    run.save("""
        #include <pfw/pfw.h>
        int main(void) { PFW_SPAN("data_loading"); return 0; }
        """, "twin.c")
    run.command("cc", "-I", ROOT / "include", "-o", "twin", "twin.c", package / "lib/libpfw.so.1")
    run.command(PFW, "run", "-o", "c", "--", "./twin", LD_LIBRARY_PATH=str(package / "lib"))
    run.traced("""
        from pfw import record_function
        @record_function("backward")
        def function():
            with record_function("forward"):
                pass
        function()
        """)
    assert set(run.spans()) == {"forward", "backward"} and set(run.spans("c*.pfw")) == {"data_loading"}


def test_c03_key_averages(training):
    """The table, the objects, and the same table offline."""
    shown = training.shown
    assert len([line for line in shown["table"].splitlines() if " aten::" in line]) <= 3
    offline = Run(training.directory).command(
        PFW, "table", "-q", "--no-head", "--sort-by", "self_cpu_time_total", "--row-limit", "3", "--since", "0", "--where",
        'cat in ("PP", "app")', "trace.pfw")
    assert columns(offline) == columns(shown["table"])
    attributes = shown["attributes"]
    assert attributes["cpu_time_total"] == pytest.approx(3 * attributes["cpu_time"], rel=0.01)
    assert 0 < attributes["self_cpu_time_total"] <= attributes["cpu_time_total"]
    assert attributes["cpu_memory_usage"] == 3 * 4 * 8 * 4 and attributes["device_time_total"] == 0
    assert shown["counts"]["aten::addmm"] == shown["events"] == 3


def test_c04_sort_keys(device, run):
    for key in ("cuda_time_total", "cpu_time_total", "self_cuda_time_total", "self_cuda_memory_usage"):
        for name in (key, key.replace("cuda", "device")):
            figures = [row.get(key.replace("cuda", "device"), 0)
                       for row in rows(device, "table", "--cat", "PP", "--sort-by", name)]
            assert len(figures) > 3 and figures == sorted(figures, reverse=True) and figures[0] > 0, name
    run.script(DEVICE + """
with profile() as prof:
    work()
try:
    prof.key_averages().table(sort_by="unheard")
except ValueError as error:
    print(error)
""")
    assert "there is no such key; there are" in run.output and "cpu_time_total" in run.output


def test_c05_columns(training, device):
    """torch's own headers, in its order, for the same profile; a device's; the footers."""
    ours, theirs = training.shown["headers"]
    assert ours == theirs
    assert [name for name in columns(device.table) if name in HEADERS] == HEADERS
    for text, footer in ((device.table, "Self CPU time total: "), (device.table, "Self CUDA time total: 114.000us"),
                         (training.shown["table"], "Self CPU time total: ")):
        assert f"\n{footer}" in text
    assert [name for name in columns(training.shown["table"]) if name in HEADERS] == [
        name for name in HEADERS if "CUDA" not in name]
    kernel, = [line.split() for line in device.table.splitlines() if " sgemm " in line]
    assert "100.000us" in kernel and "50.000us" in kernel, "times are scaled to their units"


def test_c06_schedule(training):
    made = schedule(wait=1, warmup=1, active=3, repeat=1)
    assert [made(step) for step in range(6)] == [
        ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD,
        ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE]
    with pytest.raises(TypeError):
        schedule(1, 1, 3)
    with pytest.raises(TypeError):
        schedule(wait=1, warmup=1)
    with pytest.raises(AssertionError, match=r"Got wait=-1 .*active=3"):
        schedule(wait=-1, warmup=1, active=3)
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1."):
        made(-1)
    assert len(list((training.directory / "logs").iterdir())) == 2, "torch's own schedule: two cycles"


def test_c07_tensorboard_trace_handler(training, run):
    """torch's own handler on our profile, and ours."""
    for path in (training.directory / "logs").iterdir():
        assert re.fullmatch(r".+_\d+\.\d{19}\.pt\.trace\.json", path.name)
    run.script("""
        import pfw, pfw.torch
        for options in ({}, {"worker_name": "w", "use_gzip": True}):
            hook = pfw.torch.tensorboard_trace_handler("logs", **options)
            with pfw.torch.profile(on_trace_ready=hook), pfw.span("x"):
                pass
        """)
    names = sorted(path.name for path in (run.directory / "logs").iterdir())
    assert len([name for name in names if re.fullmatch(r"w\.\d{19}\.pt\.trace\.json\.gz", name)]) == 1
    assert len([name for name in names if re.fullmatch(r".+_\d+\.\d{19}\.pt\.trace\.json", name)]) == 1


def test_c08_profile_memory(training, device):
    memory = [event["args"] for event in events(training.directory / "trace.json", name="[memory]")]
    assert {event["Bytes"] for event in memory} >= {4 * 8 * 4, -4 * 8 * 4}
    assert all(event["Device Type"] == 0 and event["Addr"] for event in memory)
    given = [event["args"] for event in events(device.directory / "trace.json", name="[memory]")][-1]
    assert given == {"Device Type": 1, "Device Id": 0, "Bytes": 4096, "Addr": 3, "Total Allocated": 3 * 4096,
                     "Total Reserved": 8192}


def test_c09_with_stack(training):
    """Where it is asked for, and only there."""
    stacks = {event["args"].get("Call stack") for event in
              events(training.directory / "trace.json", name="aten::addmm")}
    assert all("script.py" in stack and "nn.Module: Linear" in stack for stack in stacks)
    assert training.shown["bare"] == [[]]


def test_c10_step(training, device):
    for run, steps in ((training, [7, 8, 9]), (device, [1, 2])):
        found = [event for event in events(run.directory / "trace.json", ph="X")
                 if event["name"].startswith("ProfilerStep#")]
        assert [event["name"] for event in found] == [f"ProfilerStep#{step}" for step in steps]
    assert [row["args"]["step"] for row in map(json.loads, Run(device.directory).command(
        PFW, "query", "-q", "--name", "ProfilerStep*", "trace.pfw").splitlines())] == [1, 2]


def test_c11_cuda_only(device):
    names = columns(device.table)
    assert "CUDA Mem" in names and "Self CUDA Mem" in names
    first = device.table.splitlines()[3].split()
    assert first[0] == "aten::mm" and ["8.00", "KB"] == first[first.index("8.00"):][:2]


def test_c12_export_stacks(training, device):
    """Not empty, and flamegraph.pl's form; without a device's work it is the CPU's, and that is said."""
    lines = (training.directory / "stacks.txt").read_text().splitlines()
    assert lines and all(re.fullmatch(r"[^;]+(;[^;]+)* \d+", line) for line in lines)
    assert any("nn.Module: Linear" in line and "aten::addmm" in line for line in lines)
    assert "no device worked" in training.errors
    folded = dict(line.rsplit(" ", 1) for line in (device.directory / "stacks.txt").read_text().splitlines())
    assert [int(ns) for stack, ns in folded.items() if stack.endswith("sgemm")] == [100_000]


def test_c13_export_chrome_trace(training):
    plain = document(training.directory / "trace.json")["traceEvents"]
    packed = Run(training.directory).command("zcat", "trace.json.gz")
    assert json.loads(packed)["traceEvents"] == plain and [event["name"] for event in plain].count("aten::addmm") == 3
    Run(training.directory).command(PFW, "export", "-q", "--force", "-o", "offline.json", "trace.pfw")
    offline = document(training.directory / "offline.json")["traceEvents"]
    assert [event["name"] for event in offline].count("aten::addmm") >= 7  # of all cycles and profiles
    assert not [path for path in training.directory.iterdir() if re.search(r"json(\.gz)?\.\d+$", path.name)]


def test_c14_activities(training, run):
    assert [activity.name for activity in ProfilerActivity] == ["CPU", "XPU", "CUDA"]
    import torch
    if not torch.cuda.is_available():
        assert training.errors.count("sees no CUDA device") == 1
    run.script("""
        import torch
        from pfw.torch import profile, ProfilerActivity
        with profile(activities=[ProfilerActivity.XPU]) as prof:
            torch.ones(1).add_(1)
        print([row.count for row in prof.key_averages() if row.key == "aten::add_"])
        """)
    if not (hasattr(torch, "xpu") and torch.xpu.is_available()):
        assert "sees no XPU device" in run.errors and run.output == "[1]\n"


def test_c15_groups(training):
    assert training.shown["shapes"] == [[[8], [4, 8], [8, 8], [], []]]
    stack, = training.shown["stacks"]
    assert len(stack) == 5 and any("nn.Module: Linear" in frame for frame in stack)
    assert {row["shape"] for row in rows(training, "table", "--group-by", "name,shape")
            if row["name"] == "aten::addmm" and row["shape"]}
    assert {row["stack"].count("\n") for row in rows(training, "table", "--group-by", "name,stack:5")
            if row["name"] == "aten::addmm" and row.get("stack")} == {4}


def test_c16_where_each_steps_time_went(ex02):
    """Regions of one's own by step, and of each step what computed, waited for data, or idled."""
    regions = {row["name"]: row for row in rows(ex02, "table", "-n", "data_loading", "-n", "forward", "-n",
                                                "backward", "-n", "optimizer")}
    assert set(regions) == {"data_loading", "forward", "backward", "optimizer"}
    assert all(row["cpu_time_total"] > 0 and row["count"] == 12 for row in regions.values())
    steps = [row for row in rows(ex02, "overlap", "-q", "--steps") if row["type"] == "step"]
    # Two loops with two cycles each; steps of the same number are one row.
    assert sorted({step["step"] for step in steps}) == [2, 3, 4, 7, 8, 9]
    assert all(0 < step["compute"] <= step["wall"] for step in steps)
    assert all({"load", "io_unoverlapped", "idle"} <= set(step) for step in steps)
    page = Run(ex02.directory).command(PFW, "overlap", "-q", "--steps", "--format", "md", "trace.pfw")
    assert re.search(r"^Steps\n\n\| Step \| Wall \|.*\| Compute \|", page, re.MULTILINE)


def test_c17_compare_impls(run):
    """All n calls of each, not the warm-up; the document's function keeps its sum of means."""
    run.script(DEVICE + documents.code(documents.C[8]) + """
import pfw
times = pfw.compare_impls({"fast": lambda: work(kernel_ns=1000), "slow": lambda: work(kernel_ns=100_000)}, n=3)
print(sorted(times))
profile_impl("means", work)
""")
    # The copy's 7 us are a device's, too.
    assert run.output == ("fast: 0.02 ms\nslow: 0.32 ms\n['fast', 'slow']\n"
                          "means: 0.11 ms\n"), "of mm and sgemm 50 us each, of the copy 7"
    assert "mean" in DOCS.read_text()


def test_c17_warm_up_is_not_counted(run):
    """One call more than n, before the profile begins."""
    run.script(DEVICE + """
import pfw
from pfw.torch._profile import running
seen = []
pfw.compare_impls({"a": lambda: (work(), seen.append(running() is not None))}, n=3)
print(seen)
""")
    assert run.output.endswith("[False, True, True, True]\n")


def test_c17_of_what_records_nothing(run):
    """Functions without an operator have their time, too."""
    run.script("""
import time, pfw
pfw.compare_impls({"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.02)}, n=3)
""")
    times = dict(line.removesuffix(" ms").split(": ") for line in run.output.splitlines())
    assert list(times) == ["short", "long"]
    assert float(times["short"]) >= 3 and float(times["long"]) >= 60


def test_c03_devices_of_events(run):
    """torch's DeviceType of each event and row: operators on the CPU, kernels and copies on the GPU."""
    run.script(DEVICE + """
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    work()
for found in prof.events(), prof.key_averages():
    print(sorted({(each.key, int(each.device_type)) for each in found}))
import torch
events, rows = prof.events(), prof.key_averages()
assert len(events) == len(list(events)) and events[-1].name == list(events)[-1].name
assert rows.total_average().count == sum(row.count for row in rows) == sum(row.count for row in events.key_averages())
assert rows.self_cpu_time_total == sum(row.self_cpu_time_total for row in rows) == rows.total_average().self_cpu_time_total
for each in (*events, *rows):
    kind = torch.autograd.DeviceType(int(each.device_type))
    assert each.device_type == kind and not each.device_type != kind, each
    assert each.device_type != torch.autograd.DeviceType(1 - int(each.device_type)), each
""")
    events, rows = [dict(eval(line)) for line in run.output.splitlines()]
    assert events == rows and set(events.values()) == {0, 1}
    assert events["sgemm"] == 1 and events["aten::mm"] == 0


def test_c18_memory_profile(run):
    run.script("""
        import pfw
        @pfw.memory_profile
        def fn(size):
            return len(bytes(bytearray(size)))
        assert fn(300_000_000) == 300_000_000 and fn.__name__ == "fn"
        """)
    assert float(re.fullmatch(r"Peak memory: (\d+\.\d\d) GB\n", run.output)[1]) > 0.29


def test_c19_files_make_the_tab_appear(ex02):
    """What the plugin looks for in a folder; tests/peers/readers.py has TensorBoard itself show them."""
    files = list((ex02.directory / "logs").iterdir())
    assert len(files) == 4
    for path in files:
        assert re.fullmatch(r"(.*?)(\.\d+)?\.pt\.trace\.json(\.gz)?", path.name)
        assert document(path)["schemaVersion"] == 1


def test_c20_overview(device):
    """Its figures: of each step and rank the kernels, copies, what the CPU did, and that it idled."""
    first, second = [row for row in rows(device, "overlap", "--steps") if row["type"] == "step"]
    for step in (first, second):
        assert (step["kernels"], step["copy"], step["cpu"], step["load"], step["comm"]) == (50, 7, 20, 0, 0)
        assert step["idle"] == pytest.approx(step["wall"] - step["gpu"]) and step["wall"] > 1000


def test_c21_operators(device):
    operator, = [row for row in rows(device, "table", "-g", "name,shape") if row["name"] == "aten::mm"]
    assert json.loads(operator["shape"]) == [[2, 3], [3, 4]]
    assert (operator["count"], operator["cpu_time_total"], operator["self_cpu_time_total"]) == (2, 40, 30)
    assert operator["device_time_total"] == operator["self_device_time_total"] == 100


def test_c22_kernels(device):
    kernel = events(device.directory / "trace.json", cat="kernel")[0]
    assert kernel["args"] == {"device": 0, "stream": 7, "correlation": 2, "External id": 2, "grid": [1, 2, 3],
                              "block": [32, 1, 1], "registers per thread": 40, "shared memory": 1024}
    row, = [row for row in rows(device, "table", "--plain") if row["name"] == "sgemm"]
    assert (row["count"], row["total"], row["min"], row["max"]) == (2, 100, 50, 50), row


def test_c23_timeline(device):
    """A lane for each thread and stream, and an arrow from each launch to its kernel."""
    trace = device.directory / "trace.json"
    launches, kernels = events(trace, cat="cuda_runtime"), events(trace, cat="kernel")
    begins, ends = events(trace, ph="s"), events(trace, ph="f")
    assert [event["id"] for event in begins] == [event["id"] for event in ends] == [2, 3]
    for one, at in ((launches, begins), (kernels, ends)):
        assert [(event["pid"], event["tid"], event["ts"]) for event in one] == [
            (event["pid"], event["tid"], event["ts"]) for event in at]
    assert {event["tid"] for event in kernels} == {7}


def test_c24_memory_over_time(device, training, run):
    found = rows(device, "memory", "--bins", "4")
    one, = [row for row in found if row["section"] == "device"]
    assert (one["device"], one["peak_bytes"], one["unfreed_bytes"], one["peak_reserved_bytes"]) == (
        "cuda:0", 8192, 8192, 8192)
    curve = [row["end_bytes"] for row in found if row["section"] == "time"]
    assert len(curve) == 4 and curve == sorted(curve) and curve[-1] == 8192
    assert [row for row in found if row["section"] == "owner"][0]["name"] == "aten::mm"
    times, sizes = json.loads(Run(training.directory).command("zcat", "memory.json.gz"))
    assert len(times) == len(sizes) > 100 and max(sizes) > 0 and times == sorted(times)
    run.script(DEVICE + """
with profile() as prof:
    work()
try:
    prof.export_memory_timeline("memory.html")
except ValueError as error:
    print(error)
""")
    assert ".json and .json.gz are written" in run.output and not (run.directory / "memory.html").exists()


def test_c25_minimal_file(device):
    """What a file needs for five views, from events by hand and without torch."""
    trace = document(device.directory / "trace.json")
    assert trace["schemaVersion"] == 1 and trace["distributedInfo"] == {"rank": 0, "world_size": 1}
    assert {event.get("cat") for event in trace["traceEvents"]} >= {
        "cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "user_annotation", "cpu_instant_event"}


def test_c26_four_exercises(ex01, ex02, ex03, ex04):
    """Under the tutorial's names, and each runs."""
    folders = {path.name for path in EXAMPLES.glob("ex0*")}
    assert folders == {"ex01-basic-profiling", "ex02-training-loop", "ex03-memory-profiling", "ex04-trace-export"}
    assert all(run.output for run in (ex01, ex02, ex03, ex04))


def test_c26b_tasks_of_the_first(ex01):
    """Slowest operators, CPU against CUDA, a region of one's own; one command each in the docs."""
    names = [line.split()[0] for line in ex01.output.splitlines() if line.strip()]
    assert {"model_inference", "aten::addmm"} <= set(names)
    assert re.search(r"^slowest on the CPU: (\S+)$", ex01.output, re.MULTILINE)
    assert re.search(r"^CPU time: \d+ us, CUDA time: 0 us$", ex01.output, re.MULTILINE)
    for words, row in (("-s self_cpu_time_total", "aten::addmm"), ("-n model_inference", "model_inference")):
        assert f"``pfw table {words} t``" in DOCS.read_text()
        assert row in Run(ex01.directory).command(PFW, "table", *words.split(), "trace.pfw")


def test_c27_tasks_of_the_second(ex02, run):
    """Parts of a step apart, mixed precision beside full; `pfw compare` of two traces."""
    parts = {line.split()[0]: line.split()[1:] for line in ex02.output.splitlines()[1:]}
    assert list(parts) == ["data_loading", "forward", "backward", "optimizer"]
    assert all(float(figure) > 0 for row in parts.values() for figure in row)
    for name, kernel_ns in (("before", 50_000), ("after", 100_000)):
        run.script(DEVICE + f"""
with profile(log_file="{name}"):
    for _ in range(20):
        work(kernel_ns={kernel_ns})
""")
    found = [json.loads(line) for line in run.command(
        PFW, "compare", "-q", "--format", "ndjson", "before.pfw", "after.pfw").splitlines()]
    kernel, = [row for row in found if row.get("name") == "sgemm"]
    assert 100 in kernel.values(), kernel


def test_c28_tasks_of_the_third(ex03):
    leaked = [int(number) for number in re.findall(r"leaked: (\d+) bytes", ex03.output)]
    peaks = [int(number) for number in re.findall(r"batch \d+: peak (\d+)", ex03.output)]
    assert leaked[0] > 6 * 4096 and peaks == sorted(peaks) and len(set(peaks)) == 3
    assert re.search(r"^Peak memory: \d+\.\d\d GB$", ex03.output, re.MULTILINE)
    found = rows(ex03, "memory", "--row-limit", "3")
    assert {row["section"] for row in found} >= {"device", "owner", "unfreed"}


def test_c29_tasks_of_the_fourth(ex04):
    assert re.fullmatch(r"before: [\d.]+ ms\nafter: [\d.]+ ms\n", ex04.output)
    assert events(ex04.directory / "trace.json", name="aten::matmul")
    report = (ex04.directory / "report.md").read_text()
    assert "| aten::matmul | " in report and "| Rank |" in report
    assert (ex04.directory / "stacks.txt").stat().st_size > 0


def test_c30_launch_gap(device):
    rank, = [row for row in rows(device, "overlap") if row["rank"] is None]
    assert rank["launches"] == 2 and rank["launch_gap_mean"] == rank["launch_gap_max"] == pytest.approx(2.0)
    assert rank["idle_queued"] + rank["idle_launch"] > 0


def test_c31_installation_is_told():
    text = DOCS.read_text()
    assert "pip install pfwtrace torch tensorboard torch-tb-profiler" in text and "module load" in text


def test_c32_which_tool_when():
    text = DOCS.read_text()
    assert all(word in text for word in ("Nsight Systems", "Nsight Compute", "energy", "PFW_COUNTERS"))


def test_c33_best_practices(recwarn):
    """In the docs; a schedule without warm-up is warned of."""
    text = " ".join(DOCS.read_text().split())
    assert all(word in text for word in ("Warm up first", "as large as the real", "on the hardware that counts",
                                         "compare before and after", "record_function"))
    schedule(wait=0, warmup=0, active=1)
    assert "won't be using warmup" in str(recwarn.pop(UserWarning).message)


def test_profiles_do_not_nest_and_end_on_errors(run):
    run.script(DEVICE + """
def schedule(step):
    raise KeyError(step)
for _ in range(2):
    try:
        profile(schedule=schedule).start()
    except KeyError:
        print("passed")
with profile():
    try:
        profile().start()
    except RuntimeError as error:
        print(error)
""")
    assert run.output.startswith("passed\n" * 2) and "profilers do not nest" in run.output
