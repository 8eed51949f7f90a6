"""The rows C01-C33: torch.profiler's interface on a trace; the tutorial's blocks and its four exercises.

There is no GPU here: where one is needed, its events are written by hand, as CUPTI would report them.
The HTML report of C16, C20-C24, C29 and C33 is another command's; their figures are had from `pfw table`,
`pfw overlap`, `pfw memory` and the exports.
"""
import json
import os
import pathlib
import re
import sys

import pytest

from conftest import PFW, Run
from pfw.torch import ProfilerAction, ProfilerActivity, schedule

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
DOCS = pathlib.Path(__file__).parents[3] / "docs" / "tutorial.rst"

# The document's blocks, but for the import; before them, what they take for granted.
BLOCKS = """
import socket
import torch
torch.Tensor.cuda = lambda self: self  # no device here
input = torch.randn(4, 8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = torch.nn.MSELoss()
train_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randn(40, 8)), 4)

import torch
from pfw.torch import profile, record_function, ProfilerActivity

with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    record_shapes=True,
) as prof:
    with record_function("model_inference"):
        output = model(input)

print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
print("END OF TABLE")
shapes = prof.key_averages(group_by_input_shape=True)
print("SHAPES", [row.input_shapes for row in shapes if row.key == "aten::addmm"])

with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=torch.profiler.schedule(
        wait=1,    # Skip first iteration
        warmup=1,  # Warmup iteration
        active=3,  # Profile 3 iterations
        repeat=2   # Repeat 2 times
    ),
    on_trace_ready=torch.profiler.tensorboard_trace_handler('./logs'),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for step, (data, target) in enumerate(train_loader):
        # Training step
        optimizer.zero_grad()
        output = model(data.cuda())
        loss = criterion(output, target.cuda())
        loss.backward()
        optimizer.step()
        
        prof.step()  # Signal next step

# Export to Chrome trace format
prof.export_chrome_trace("trace.json")

# Export to TensorBoard
prof.export_stacks("stacks.txt", "self_cuda_time_total")
prof.export_memory_timeline("memory.json.gz")
stacks = prof.key_averages(group_by_stack_n=5)
print("STACK", [row.stack for row in stacks if row.key == "aten::addmm"][0])
print("EVENTS", sum(event.key == "aten::addmm" for event in prof.events()))

with profile(
    activities=[ProfilerActivity.CUDA],
    profile_memory=True,
) as prof:
    model(input)

# Memory timeline
print(prof.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=10))
"""

# A device's events by hand, without torch.
DEVICE = """
import time
import pfw
from pfw.torch import profile, record_function, ProfilerActivity
def work(launch_ns=1000, kernel_ns=50_000):
    now = time.time_ns()
    pfw.compute_event("aten::mm", now, 20_000, kind="cpu_op", external_id=7, flops=64)
    pfw.compute_event("cudaLaunchKernel", now + 1000, 5000, kind="runtime", correlation=9, external_id=7)
    pfw.compute_event("sgemm", now + 2000 + launch_ns, kernel_ns, kind="kernel", device=1, device_index=0,
                      stream=7, correlation=9, external_id=7, grid=(1, 2, 3), block=(32, 1, 1), registers=40,
                      static_smem=1024)
    pfw.compute_event("[memory]", now + 3000, 0, kind="memory", device=1, device_index=0, bytes=4096,
                      addr=1, total_allocated=4096, total_reserved=8192)
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    pytest.importorskip("torch")
    run = Run(tmp_path_factory.mktemp("blocks"))
    run.script(BLOCKS, timeout=900)
    return run


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("device"))
    run.script(DEVICE + """
with profile(activities=[ProfilerActivity.CUDA], profile_memory=True) as prof:
    work()
table = prof.key_averages().table(sort_by="self_cuda_memory_usage")
for key in ("cuda_time_total", "cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
    prof.key_averages().table(sort_by=key)
print(table)
print(sum(row.cuda_time for row in prof.key_averages() if row.key == "aten::mm"))
prof.export_stacks("stacks.txt", "self_cuda_time_total")
prof.export_chrome_trace("trace.json")
""")
    return run


def spans(path, **wanted):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X" and
            all(event.get(key) == value for key, value in wanted.items())]


def example(run, name, *words):
    pytest.importorskip("torch")
    env = {"PATH": f"{PFW.parent}{os.pathsep}{os.environ['PATH']}"}
    run.command(sys.executable, EXAMPLES / name / "main.py", *words, timeout=900, **env)
    return run.output


def test_c01_c03_c05_basic_block(blocks):
    table = blocks.output.split("END OF TABLE")[0]
    header = re.split("  +", table.splitlines()[1].strip())
    assert header == ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
    assert "Self CPU time total: " in table and "aten::linear" in table
    assert "SHAPES [[[8], [4, 8], [8, 8], [], []]]" in blocks.output


def test_c02_record_function(blocks):
    """Once in the table; a decorator, too."""
    table = blocks.output.split("END OF TABLE")[0]
    assert table.count("model_inference") == 1


def test_c04_sort_keys(device):
    device.script(DEVICE + """
with profile() as prof:
    work()
try:
    prof.key_averages().table(sort_by="unheard")
except ValueError as error:
    print(error)
""")
    assert "there is no such key; there are" in device.output and "cpu_time_total" in device.output


def test_c06_schedule():
    made = schedule(wait=1, warmup=1, active=3, repeat=1)
    assert [made(step) for step in range(6)] == [
        ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD,
        ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE]
    with pytest.raises(TypeError):
        schedule(1, 1, 3)
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1."):
        made(-1)


def test_c07_c19_c25_tensorboard_files(blocks):
    """torch's own handler on our profile: its names, a file a cycle, what the plugin looks for."""
    files = sorted((blocks.directory / "logs").iterdir(), key=lambda path: int(path.name.split(".")[-4]))
    assert len(files) == 2
    assert all(re.fullmatch(r".+_\d+\.\d{19}\.pt\.trace\.json", path.name) for path in files)
    document = json.loads(files[0].read_text())
    assert document["schemaVersion"] == 1 and document["distributedInfo"]["world_size"] == 1
    assert {"cpu_op", "user_annotation"} <= {event.get("cat") for event in document["traceEvents"]}


def test_c07_our_handler(run):
    run.script("""
        import pfw, pfw.torch
        hook = pfw.torch.tensorboard_trace_handler("logs", worker_name="w", use_gzip=True)
        with pfw.torch.profile(on_trace_ready=hook), pfw.span("x"):
            pass
        """)
    path, = (run.directory / "logs").iterdir()
    assert re.fullmatch(r"w\.\d{19}\.pt\.trace\.json\.gz", path.name)


def test_c08_c24_memory(blocks, device):
    memory = [event for event in json.loads((blocks.directory / "trace.json").read_text())["traceEvents"]
              if event["name"] == "[memory]"]
    assert memory and {"Bytes"} <= set(memory[0]["args"])
    given, = [event["args"] for event in json.loads((device.directory / "trace.json").read_text())[
        "traceEvents"] if event["name"] == "[memory]"]
    assert (given["Bytes"], given["Addr"], given["Total Allocated"], given["Total Reserved"]) == (
        4096, 1, 4096, 8192)
    assert (blocks.directory / "memory.json.gz").stat().st_size > 100


def test_c09_c12_stacks(blocks, device):
    """Not empty, and flamegraph.pl's form; without a device's work it is the CPU's, and said."""
    lines = (blocks.directory / "stacks.txt").read_text().splitlines()
    assert lines and all(re.fullmatch(r"[^;]+(;[^;]+)* \d+", line) for line in lines)
    assert any("nn.Module: Linear" in line and "aten::addmm" in line for line in lines)
    assert "no device worked" in blocks.errors
    assert "sgemm" in (device.directory / "stacks.txt").read_text()


def test_c10_steps(blocks):
    names = [event["name"] for event in spans(blocks.directory / "trace.json")
             if event["name"].startswith("ProfilerStep#")]
    assert names == ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"]


def test_c11_c03_device_table(device):
    header = re.split("  +", device.command(
        PFW, "table", "--cat", "PP", "trace.pfw").splitlines()[1].strip())
    assert {"Self CUDA", "CUDA total", "CUDA time avg"} <= set(header)


def test_c13_chrome_trace_offline(blocks):
    Run(blocks.directory).command(PFW, "export", "--force", "-o", "offline.json.gz", "trace.pfw")
    assert (blocks.directory / "offline.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(spans(blocks.directory / "trace.json", name="aten::addmm")) == 3


def test_c14_activities(blocks):
    assert [activity.name for activity in ProfilerActivity] == ["CPU", "XPU", "CUDA"]
    import torch
    if not torch.cuda.is_available():
        assert blocks.errors.count("sees no CUDA device") == 1


def test_c15_groups(blocks):
    stack = re.search(r"^STACK (.*)$", blocks.output, re.MULTILINE)[1]
    assert "nn.Module: Linear" in stack and "EVENTS 3" in blocks.output


def test_c16_c27_ex02_training_loop(run):
    output = example(run, "ex02-training-loop", "logs")
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines()[1:]}
    assert list(rows) == ["data_loading", "forward", "backward", "optimizer"]
    assert all(float(figure) > 0 for row in rows.values() for figure in row)
    assert len(list((run.directory / "logs").glob("*.pt.trace.json"))) == 4


def test_c17_compare_impls(run):
    run.script(DEVICE + """
from pfw.torch import compare_impls
times = compare_impls({"fast": lambda: work(kernel_ns=1000), "slow": lambda: work(kernel_ns=100_000)}, n=3)
print(sorted(times))
""")
    assert run.output == "fast: 0.00 ms\nslow: 0.30 ms\n['fast', 'slow']\n"


def test_c18_memory_profile(run):
    run.script("""
        from pfw.torch import memory_profile
        @memory_profile
        def fn(size):
            return len(bytes(bytearray(size)))
        assert fn(300_000_000) == 300_000_000 and fn.__name__ == "fn"
        """)
    assert float(re.fullmatch(r"Peak memory: (\d+\.\d\d) GB\n", run.output)[1]) > 0.29


def test_c20_c21_c22_c23_figures_of_the_views(device):
    kernel, = spans(device.directory / "trace.json", cat="kernel")
    assert kernel["args"]["grid"] == [1, 2, 3] and kernel["args"]["registers per thread"] == 40
    assert kernel["args"]["shared memory"] == 1024 and kernel["args"]["correlation"] == 9
    rows = [json.loads(line) for line in device.command(
        PFW, "table", "--cat", "PP", "--format", "ndjson", "trace.pfw").splitlines()]
    operator, = [row for row in rows if row["name"] == "aten::mm"]
    assert operator["device_time_total"] == pytest.approx(50)


def test_c26_c26b_ex01_basic_profiling(run):
    output = example(run, "ex01-basic-profiling")
    names = [line.split()[0] for line in output.splitlines() if line.strip()]
    assert {"model_inference", "aten::addmm"} <= set(names)
    assert re.search(r"^slowest on the CPU: (\S+)$", output, re.MULTILINE)[1] in names
    assert re.search(r"CPU time: \d+ us, CUDA time: \d+ us", output)


def test_c28_ex03_memory_profiling(run):
    output = example(run, "ex03-memory-profiling")
    leaked = [int(number) for number in re.findall(r"leaked: (\d+) bytes", output)]
    peaks = [int(number) for number in re.findall(r"batch \d+: peak (\d+)", output)]
    assert leaked[0] > 6 * 4096 and peaks == sorted(peaks) and len(set(peaks)) == 3
    assert re.search(r"^Peak memory: \d+\.\d\d GB$", output, re.MULTILINE)
    times, sizes = json.loads((run.directory / "memory.json").read_text())
    assert len(times) == len(sizes) and max(sizes) > 0


def test_c29_c33_ex04_trace_export(run):
    output = example(run, "ex04-trace-export")
    assert re.fullmatch(r"before: [\d.]+ ms\nafter: [\d.]+ ms\n", output)
    assert spans(run.directory / "trace.json", name="aten::matmul")
    assert "aten::matmul" in (run.directory / "report.md").read_text()
    assert (run.directory / "stacks.txt").stat().st_size > 0


def test_c30_launch_gap(device):
    everything = [json.loads(line) for line in device.command(
        PFW, "overlap", "--format", "ndjson", "trace.pfw").splitlines()]
    assert any(row.get("launches") == 1 and row["launch_gap"] == pytest.approx(2.0) for row in everything)


def test_c31_c32_docs():
    text = DOCS.read_text()
    assert all(word.lower() in text.lower() for word in ("pip install", "module load", "Nsight Systems", "Nsight Compute",
                                         "warm up", "energy"))


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
