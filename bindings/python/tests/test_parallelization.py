"""The rows B01-B26: the decorator `profiler`, alone and under torchrun."""
import argparse
import itertools
import json
import logging
import pathlib
import pickle
import re
import sys

import pytest

import documents
from conftest import PFW, Run
from pfw.compat import parallelization
from pfw.compat.parallelization import profiler
from pfw.torch import schedule

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "parallelization.rst"

# The document's first block, but for the import; before it, what it takes for granted.
BASIC = """
import torch
torch.manual_seed(0)
torch.distributed.init_process_group("gloo") if torch.distributed.is_torchelastic_launched() else None
batch = torch.randn(4, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1), torch.nn.Flatten(0))
forward = model.forward
model.forward = lambda batch: forward(batch).sum()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
args = None

from pfw.compat.parallelization import step_profiler
""" + documents.code(documents.B[0]) + """
train_model(args)
"""

# Without torch; the steps that were recorded are in the trace.
STEPS = """
import pfw, sys, warnings
from pfw.compat.parallelization import profiler, ray
from pfw.compat.parallelization.profiler.decorator import step_profiler
def train(steps, **options):
    @profiler(**options)
    def run():
        for step in range(steps):
            with pfw.span(f"work {step}"):
                pass
            # IMPORTANT: Step the profiler
            step_profiler()
        return "result"
    return run()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The first block under torchrun, two ranks."""
    pytest.importorskip("torch")
    run = Run(tmp_path_factory.mktemp("trained"))
    run.ranks(BASIC, timeout=900)
    return run


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """The same function with stacks, with modules, and with neither."""
    pytest.importorskip("torch")
    run = Run(tmp_path_factory.mktemp("stacked"))
    run.script(BASIC + """
for options in ({"with_stack": True, "output_dir": "s"}, {"with_modules": True, "output_dir": "m"}):
    profiler(**options)(train_model.__wrapped__)(args)
""", timeout=900)
    return run


def spans(path, **wanted):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X" and
            all(event.get(key) == value for key, value in wanted.items())]


def works(path):
    return [int(event["name"].split()[1]) for event in spans(path, cat="app")
            if event["name"].startswith("work ")]


def test_b01_decorator(run):
    for first in ("pfw.compat.parallelization", "pfw.compat.parallelization.profiler.decorator"):
        run.script(f"""
            import importlib
            importlib.import_module({first!r})
            from pfw.compat.parallelization.profiler.decorator import step_profiler
            import pfw.compat.parallelization.profiler.decorator
            from pfw.compat.parallelization import profiler
            @profiler
            def plain(a, b=2):
                "its docstring"
                return a + b
            @profiler()
            def called():
                pass
            assert plain.__name__ == "plain" and plain.__doc__ == "its docstring" and called.__wrapped__
            assert plain(1) == 3
            """)
    assert (run.directory / "profiler_logs").is_dir()


def test_b02_step_profiler(run):
    parallelization.step_profiler()  # nothing is active: nothing happens
    assert parallelization.step_profiler is sys.modules[
        "pfw.compat.parallelization.profiler.decorator"].step_profiler
    run.script(STEPS + "print(train(2))")
    assert run.output == "result\n"
    assert run.errors.count("0 of 3 active steps seen") == 1
    assert not (run.directory / "profiler_logs/trace_rank_0.json").exists()


def test_b02_steps_of_coroutines_and_generators(run):
    run.script("""
        import asyncio
        from pfw.compat.parallelization import profiler, step_profiler
        @profiler(output_dir="a")
        async def train(steps):
            for _ in range(steps):
                await asyncio.sleep(0)
                step_profiler()
            return "result"
        @profiler(output_dir="g")
        def batches(steps):
            for step in range(steps):
                yield step
                step_profiler()
            return "result"
        def both():
            print((yield from batches(6)))
        assert asyncio.run(train(6)) == "result" and list(both()) == [*range(6)]
        list(batches(2))
        """)
    assert run.output.endswith("result\n")
    assert f"{run.directory / 'script.py'}:19: UserWarning: pfw: 0 of 3 active steps seen" in run.errors
    for name in "a", "g":
        found = [event["name"] for event in spans(run.directory / name / "trace_rank_0.json", cat="user_annotation")]
        assert found == [f"ProfilerStep#{number}" for number in (3, 4, 5)]


def test_b03_disabled_is_the_function_itself():
    def function():
        pass
    assert profiler(enabled=False)(function) is function and profiler(False)(function) is function


def test_b04_output_dir(run):
    run.script(STEPS + "train(6); train(6, output_dir='a/b')")
    assert (run.directory / "profiler_logs/trace_rank_0.json").exists()
    assert (run.directory / "a/b/trace_rank_0.json").exists()


def recorded(run, steps=12, **options):
    run.script(STEPS + f"train({steps}, **{options!r})")
    return works(run.directory / "profiler_logs/trace_rank_0.json")


def test_b05_skip_first(run):
    assert recorded(run) == [3, 4, 5]
    assert recorded(run, skip_first=4, repeat=2, active=1, wait=0) == [5, 7]


def test_b06_wait(run):
    assert recorded(run, wait=4) == [6, 7, 8]


def test_b07_warmup(run):
    assert recorded(run, warmup=3) == [5, 6, 7]
    assert recorded(run, warmup=0) == [2, 3, 4]
    assert run.errors.count("Profiler won't be using warmup, this can skew profiler results") == 1


def test_b08_warmup_is_discarded(run):
    assert recorded(run) == [3, 4, 5]
    assert "warmup" not in (run.directory / "profiler_logs/trace_rank_0.json").read_text()


def test_b09_active(run):
    assert recorded(run, active=5) == [3, 4, 5, 6, 7]
    with pytest.raises(AssertionError, match=r"Got wait=1 .* active=0 \(need > 0\)"):
        profiler(active=0)


def test_b10_all_cycles_are_kept(run):
    assert recorded(run, steps=11, repeat=2) == [3, 4, 5, 8, 9, 10]
    folder = run.directory / "profiler_logs/rank_0"
    cycles = sorted(folder.glob("*.pt.trace.json"), key=lambda path: int(path.name.split(".")[1]))
    assert [works(path) for path in cycles] == [[3, 4, 5], [8, 9, 10]]
    assert recorded(run, steps=17, repeat=0) == [3, 4, 5, 8, 9, 10, 13, 14, 15]


def test_b11_with_stack(stacked):
    """Stacks only where they are asked for."""
    for name, wanted in (("s", True), ("profiler_logs", False)):
        found = spans(stacked.directory / name / "trace_rank_0.json", name="aten::addmm")
        assert found and all(("Call stack" in event["args"]) == wanted for event in found), name


def test_b12_flops(trained, run):
    args = [event["args"] for event in
            spans(trained.directory / "profiler_logs/trace_rank_0.json", name="aten::addmm")]
    assert sorted({event["flops"] for event in args}) == [2 * 4 * 8, 2 * 4 * 8 * 8]
    recorded(run)
    assert "flops" not in (run.directory / "profiler_logs/trace_rank_0.json").read_text()
    assert "FLOP" not in run.output


def test_b13_with_modules(stacked, run):
    """Brings the modules' names, in stacks; without torch it does not fail."""
    found = [event["args"] for event in spans(stacked.directory / "m/trace_rank_0.json", name="aten::addmm")]
    assert found and all("nn.Module: Linear" in args["Call stack"] for args in found)
    assert recorded(run, with_modules=True) == [3, 4, 5]


def test_b14_nsight_never_fails(run):
    """No GPU here: a library of ours counts the calls that nsys would see."""
    run.save("""
        #include <stdio.h>
        int cudaProfilerStart(void) { return puts("start"), fflush(stdout), 0; }
        int cudaProfilerStop(void) { return puts("stop"), fflush(stdout), 35; }
        const char *cudaGetErrorString(int error) { return error == 35 ? "driver too old" : "?"; }
        """, "cudart.c")
    run.command("cc", "-shared", "-fPIC", "-o", "libcudart.so", "cudart.c")
    script = """
import logging
logging.basicConfig(level=logging.INFO)
""" + STEPS + """
import functools
print(train(6, nsight_enabled=True, nsight_output="range"))
"""
    run.script(script, LD_LIBRARY_PATH=str(run.directory))
    words = [line for line in run.output.splitlines() if line in ("start", "stop", "result")]
    assert words == ["start", "stop", "result"]
    assert "nsys profile -c cudaProfilerApi -o range" in run.errors
    assert "nsight: cudaProfilerStop: driver too old (error 35)" in run.errors
    run.script(script.replace("libcudart", "none"), LD_LIBRARY_PATH="/nowhere")
    assert run.output.endswith("result\n") and "nsys profile -c cudaProfilerApi -o range" in run.errors


@profiler(active=10, with_flops=True, nsight_enabled=True)
def module_level():
    return "here"


def test_b15_composes(run):
    """The document's order, ray outside; picklable by name, and nothing global is taken along."""
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    run.script(STEPS + """
@ray(num_nodes=2, gpus_per_node=4)
@profiler(
    enabled=True,
    output_dir="./profiles", 
    active=10,
    with_flops=True,
    nsight_enabled=True
)
def distributed_train(args):
    # Distributed training code
    for _ in range(13):
        step_profiler()
    return args
assert distributed_train(5) == 5
@ray
def bare():
    return 1
assert bare() == 1
""")
    steps = spans(run.directory / "profiles/trace_rank_0.json", cat="user_annotation")
    assert [event["name"] for event in steps] == [f"ProfilerStep#{step}" for step in range(3, 13)]


def test_b15_ray_itself(run):
    """Ray's own decorator outside @profiler: the function is run, and profiled, in a worker of Ray's."""
    pytest.importorskip("torch")
    pytest.importorskip("ray")
    run.script("""
        import os, ray, torch
        from pfw.compat.parallelization import profiler, step_profiler
        @ray.remote(num_cpus=1)
        @profiler(output_dir=os.path.abspath("profiles"), active=2)
        def train(steps):
            for _ in range(steps):
                torch.nn.functional.linear(torch.ones(4, 8), torch.ones(8, 8))
                step_profiler()
            return os.getpid()
        ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
        assert ray.get(train.remote(6)) != os.getpid()
        """, timeout=600)
    path = run.directory / "profiles/trace_rank_0.json"
    assert [event["name"] for event in spans(path, cat="user_annotation")] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert len(spans(path, name="aten::linear")) == 2


def test_b16_schedule_is_torchs(recwarn):
    """For all small arguments: torch's, `pfw schedule`'s picture aside, the same in each step."""
    torch_schedule = pytest.importorskip("torch.profiler").schedule
    checked = 0
    for wait, warmup, active, repeat, skip_first, skip_first_wait in itertools.product(
            range(3), range(3), range(1, 4), range(3), range(3), range(2)):
        figures = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
                   "skip_first": skip_first, "skip_first_wait": skip_first_wait}
        ours, theirs = schedule(**figures), torch_schedule(**figures)
        for step in range(20):
            assert ours(step).name == theirs(step).name, (figures, step)
            checked += 1
    assert checked == 3 * 3 * 3 * 3 * 3 * 2 * 20
    for figures in ({"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0},
                    {"wait": 0, "warmup": 0, "active": 1, "repeat": -2}):
        said = []
        for make in (schedule, torch_schedule):
            with pytest.raises(AssertionError) as error:
                make(**figures)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_b17_command_line(run):
    words = ["--num-nodes", "2", "--profile", "--nsight"]
    args = parallelization.add_profile_arguments(argparse.ArgumentParser()).parse_args(words)
    assert (args.profile, args.nsight, args.num_nodes) == (True, True, 2)
    none = parallelization.add_profile_arguments(argparse.ArgumentParser()).parse_args([])
    assert (none.profile, none.nsight, none.num_nodes) == (False, False, 1)
    # What nsys sets; it has the device then, and torch's profiler is asked for the CPU only.
    pytest.importorskip("torch")
    run.script(BASIC, NSYS_PROFILING_SESSION_ID="1", timeout=900)
    assert "Top operations by CPU time" in run.output and "sees no CUDA" not in run.errors


def test_b18_flops_per_second(trained, run):
    line, = [line for line in trained.output.splitlines() if line.startswith("FLOPs: ")]
    figures = re.fullmatch(r"FLOPs: ([\d.e-]+) GFLOP a step, 3 steps of ([\d.]+) ms: ([\d.e-]+) GFLOP/s", line)
    flops, ms, speed = map(float, figures.groups())
    assert flops == pytest.approx(1.6e-6, rel=0.5) and speed == pytest.approx(flops / ms * 1e3, rel=0.01)
    pytest.importorskip("torch")
    run.script(BASIC.replace("@profiler()", "@profiler(peak_tflops=0.5)"), timeout=900)
    line, = [line for line in run.output.splitlines() if line.startswith("FLOPs: ")]
    speed, share = map(float, re.search(r"([\d.e-]+) GFLOP/s, ([\d.e-]+) % of 0.5 TFLOP/s", line).groups())
    assert share == pytest.approx(speed / 500 * 100, rel=0.01)


def test_b19_flops_table(trained):
    lines = trained.output.splitlines()
    at, = [at for at, line in enumerate(lines) if re.split("  +", line.strip()) == [
        "Name", "Self FLOPS", "CPU total", "CUDA total", "# of Calls"]]
    rules = lines[at - 1], lines[at + 1]
    assert rules[0] == rules[1] and set(rules[0]) == {"-", " "}
    width = rules[0].index(" ")
    assert lines[at][:width].endswith("Name") and lines[at + 2][:width].endswith("mm")
    assert re.fullmatch(r"[\d.]+[KMGT]?", lines[at + 2].split()[1])
    assert re.fullmatch(r"[\d.]+(us|ms|s)", lines[at + 2].split()[2])


def test_b20_tensorboard_folders(trained):
    for rank in (0, 1):
        path, = (trained.directory / f"profiler_logs/rank_{rank}").iterdir()
        assert re.fullmatch(rf"rank_{rank}\.\d{{19}}\.pt\.trace\.json", path.name)
        assert json.loads(path.read_text())["distributedInfo"] == {"rank": rank, "world_size": 2}


def test_b21_chrome_traces(trained, run):
    for rank in (0, 1):
        path = trained.directory / f"profiler_logs/trace_rank_{rank}.json"
        assert json.loads(path.read_text())["distributedInfo"]["rank"] == rank
        assert len(spans(path, name="aten::addmm")) == 6
    run.script(STEPS + "train(6)", RANK="5", LOCAL_RANK="1", WORLD_SIZE="8")
    assert (run.directory / "profiler_logs/trace_rank_5.json").exists()
    assert run.output == "", "only rank 0 prints"


def test_b22_summary_of_rank_0(trained):
    """No device here, so by CPU time, and it says so."""
    assert trained.output.count("Top operations by") == 1
    at = trained.output.index("Top operations by CPU time (no device worked):")
    table = trained.output[at:].split("Self CPU time total")[0].splitlines()
    rules = [number for number, line in enumerate(table) if line and set(line) == {"-", " "}]
    assert rules[2] - rules[1] == 11 and table[rules[1] + 1].split()[0] == "ProfilerStep*"


def test_b23_viewers_find_the_files(trained):
    """What TensorBoard's plugin looks for, below the folder; tests/peers/readers.py drives the viewers."""
    found = [path for path in (trained.directory / "profiler_logs").rglob("*")
             if re.match(r"^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$", path.name)]
    assert sorted(path.parent.name for path in found) == ["rank_0", "rank_1"]
    for path in found:
        categories = {event["cat"] for event in spans(path)}
        assert {"cpu_op", "user_annotation"} <= categories


def test_b24_memory_does_not_grow_with_active(run):
    """torch keeps a cycle in memory; here it goes to the trace in parts, and all of it is there."""
    pytest.importorskip("torch")
    run.script(BASIC.replace("@profiler()", "@profiler(active=90, with_flops=False)") + """
from pfw.torch import _profile
print("parts", _profile.STEPS_IN_MEMORY)
""", timeout=900)
    path = run.directory / "profiler_logs/trace_rank_0.json"
    assert "parts 50" in run.output
    assert len(spans(path, name="aten::addmm")) == 180
    steps = [event["name"] for event in spans(path) if event["name"].startswith("ProfilerStep#")]
    assert steps == [f"ProfilerStep#{step}" for step in range(3, 93)]
    assert "KiB a step" in DOCS.read_text()


def test_b25_tips():
    text = DOCS.read_text()
    assert all(word in text for word in ("First trace", "one node", "stacks only", "small model"))
    with pytest.warns(UserWarning, match="3 to 10 steps are enough"):
        profiler(with_stack=True, active=50)


def test_b26_all_of_it_together(trained):
    names = sorted(str(path.relative_to(trained.directory / "profiler_logs")).split(".")[0]
                   for path in (trained.directory / "profiler_logs").rglob("*") if path.is_file())
    assert names == ["rank_0/rank_0", "rank_1/rank_1", "trace-rank0000", "trace-rank0001",
                     "trace_rank_0", "trace_rank_1"]
    rows = trained.command(PFW, "table", "--group-by", "rank", "--cat", "PP", "--format", "ndjson",
                           "profiler_logs").splitlines()
    assert {json.loads(row)["rank"] for row in rows} == {0, 1}


def test_exceptions_pass_and_the_trace_is_there(run):
    run.script(STEPS + """
@profiler()
def broken():
    for _ in range(4):
        step_profiler()
    raise KeyError("x")
try:
    broken()
except KeyError:
    print("passed")
print(train(6))
""")
    assert "passed\n" in run.output and run.errors.count("1 of 3 active steps seen") == 1
    assert logging.getLogger("pfw") is not None
