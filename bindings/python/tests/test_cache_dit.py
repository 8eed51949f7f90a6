"""The rows A01-A30: cache-dit's ProfilerContext and its flags, on stub pipelines."""
import argparse
import gzip
import json
import pathlib
import pickle
import re
import sys
import time
import types

import pytest

import documents
from conftest import PFW, Run
from pfw.compat import cache_dit
from pfw.torch import schedule

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "cache_dit.rst"

# The document's first block; before it, what it takes for granted.
QUICK_START = """
import argparse, sys
import torch
from pfw.compat.cache_dit import add_profile_arguments
args = add_profile_arguments(argparse.ArgumentParser()).parse_args()
prompt = "a cat"
model = torch.nn.Linear(8, 8)
class pipe:
    def __init__(self, prompt, num_inference_steps, **rest):
        print("steps", num_inference_steps)
        for _ in range(num_inference_steps):
            with torch.profiler.record_function("denoise"):
                self.images = [model(torch.randn(4, 8))]
""" + documents.code(documents.A[0])

# The integration: the warm-up call, the memory tracker; names come from the flags.
RUN_FLUX = """
import argparse, time
import torch
from pfw.compat.cache_dit import add_profile_arguments, MemoryTracker, create_profiler_from_args
args = add_profile_arguments(argparse.ArgumentParser()).parse_args()
model = torch.nn.Linear(8, 8)
class pipe:
    def __init__(self, prompt, num_inference_steps, **rest):
        for _ in range(num_inference_steps):
            self.images = [model(torch.randn(4, 8))]
prompt = "a cat"
""" + documents.code(documents.A[1]).partition("# ... model setup code ...\n")[2].replace(
    ', profile_name="flux_inference"', "")  # the arguments' own

# Without torch: steps of our own.
STEPS = """
import logging, sys
import pfw
from pfw.compat.cache_dit import ProfilerContext
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
def steps(count, **options):
    with ProfilerContext(output_dir="out", profile_name="n", **options) as prof:
        for step in range(count):
            with pfw.span(f"work {step}"):
                pass
            prof.step()
    return prof
"""


@pytest.fixture(scope="module")
def flux(tmp_path_factory):
    """The document's script, run with its third command line on torch."""
    pytest.importorskip("torch")
    run = Run(tmp_path_factory.mktemp("flux"))
    run.script(RUN_FLUX, "--profile", "--profile-name", "flux_test", "--profile-dir", "profiles",
               "--profile-activities", "CPU", "GPU", "MEM", "--track-memory", timeout=500)
    return run


def document(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def events(path, **wanted):
    return [event for event in document(path)["traceEvents"] if event["ph"] == "X" and
            all(event.get(key) == value for key, value in wanted.items())]


def parsed(*words):
    return cache_dit.add_profile_arguments(argparse.ArgumentParser()).parse_args(words)


def test_a01_create_profiler_from_args():
    with pytest.warns(UserWarning, match="--profile-name flux_test is overridden by the program: flux_inf"):
        made = cache_dit.create_profiler_from_args(parsed("--profile", "--profile-name", "flux_test"),
                                                   profile_name="flux_inference")
    assert made.profile_name == "flux_inference" and made.enabled
    bare = cache_dit.create_profiler_from_args(argparse.Namespace(profile=True))
    assert bare.activities == ["CPU", "GPU"] and bare.profile_name is None and bare.record_shapes
    assert not bare.with_stack
    assert not cache_dit.create_profiler_from_args(argparse.Namespace()).enabled


def test_a02_profile_flag(tmp_path, monkeypatch):
    assert parsed().profile is False and parsed("--profile").profile is True
    assert parsed().steps is None and parsed().track_memory is False
    monkeypatch.chdir(tmp_path)
    off = cache_dit.create_profiler_from_args(parsed("--profile-dir", str(tmp_path / "out")))
    with off as inside:
        off.step()
    assert inside is off and not list(tmp_path.iterdir())


def test_a03_profile_name(run):
    before = int(time.time())
    run.script("""
        from pfw.compat.cache_dit import ProfilerContext
        with ProfilerContext(output_dir=".") as prof:
            pass
        print(prof.trace_path.name)
        """)
    name = re.fullmatch(r"profile_(\d+)\.trace\.json\.gz\n", run.output)
    assert before <= int(name[1]) <= time.time()


def test_a04_profile_dir(monkeypatch):
    context = cache_dit.ProfilerContext
    monkeypatch.delenv("CACHE_DIT_TORCH_PROFILER_DIR", raising=False)
    monkeypatch.delenv("DFTRACER_LOG_FILE", raising=False)
    assert context().output_dir == pathlib.Path("/tmp/cache_dit_profiles")
    monkeypatch.setenv("DFTRACER_LOG_FILE", "/data/run/t.pfw")
    assert context().output_dir == pathlib.Path("/data/run")
    monkeypatch.setenv("CACHE_DIT_TORCH_PROFILER_DIR", "/data/dit")
    assert context().output_dir == pathlib.Path("/data/dit")
    flagged = cache_dit.create_profiler_from_args(parsed("--profile", "--profile-dir", "~/x"))
    assert flagged.output_dir == pathlib.Path.home() / "x"


def test_a05_environment_is_read_when_it_is_used(monkeypatch):
    monkeypatch.setenv("CACHE_DIT_TORCH_PROFILER_DIR", "/first")
    assert cache_dit.get_profiler_output_dir() == "/first"
    monkeypatch.setenv("CACHE_DIT_TORCH_PROFILER_DIR", "/second")
    assert cache_dit.ProfilerContext().output_dir == pathlib.Path("/second")


def test_a06_activities(capsys, flux):
    assert parsed().profile_activities == ["CPU", "GPU"]
    assert parsed("--profile-activities", "CPU", "MEM").profile_activities == ["CPU", "MEM"]
    with pytest.raises(SystemExit):
        parsed("--profile-activities", "TPU")
    said = capsys.readouterr().err
    assert all(word in said for word in ("TPU", "'CPU'", "'GPU'", "'MEM'")), said
    with pytest.raises(ValueError, match="TPU: not CPU, GPU or MEM"):
        cache_dit.ProfilerContext(activities=["CPU", "TPU"])
    import torch
    if not torch.cuda.is_available():
        assert flux.errors.count("sees no CUDA device") == 1


def test_a07_with_stack_is_off():
    assert parsed().profile_with_stack is False and parsed("--profile-with-stack").profile_with_stack
    assert cache_dit.ProfilerContext().with_stack is False


def test_a08_record_shapes_can_be_turned_off():
    assert parsed().profile_record_shapes is True
    assert parsed("--no-profile-record-shapes").profile_record_shapes is False


def works(path):
    """Numbers of the steps whose work is in a trace, with their phase."""
    return [int(event["name"].split()[1]) for event in events(path, cat="app")]


def test_a09_wait_records_nothing(run):
    assert parsed().profile_wait == 0
    run.script(STEPS + "steps(6, wait=2, warmup=1, active=2)")
    assert works(run.directory / "out/n.trace.json.gz") == [2, 3, 4]
    # Whether there will be a step() at all is known from the first one on only.
    assert "work 1" not in (run.directory / "out/n.pfw").read_text()


def test_a10_warmup_is_marked(run):
    assert parsed().profile_warmup == 1
    run.script(STEPS + "steps(5)")
    phases = {event["name"]: event["args"]["phase"]
              for event in events(run.directory / "out/n.trace.json.gz")
              if event["name"].startswith("ProfilerStep#")}
    assert phases == {"ProfilerStep#0": "warmup", "ProfilerStep#1": "active",
                      "ProfilerStep#2": "active", "ProfilerStep#3": "active"}


def test_a11_active_and_repeat(run):
    assert parsed().profile_active == 3 and parsed().profile_repeat == 1
    run.script(STEPS + "print(steps(9, wait=1, warmup=1, active=2, repeat=2).trace_path.name)")
    assert works(run.directory / "out/n.trace.json.gz") == [1, 2, 3]
    assert works(run.directory / "out/n-cycle2.trace.json.gz") == [5, 6, 7]
    assert run.output == "n-cycle2.trace.json.gz\n" and "active steps seen" not in run.errors


def test_a12_timeline(run):
    actions = [schedule(wait=0, warmup=1, active=3, repeat=1)(step).name for step in range(6)]
    assert actions == ["WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    assert run.command(PFW, "schedule", "--wait", "0", "--warmup", "1", "--active", "3"
                       ).splitlines()[0].split() == ["0", "w##Sw##S"]


def test_a13_steps(run):
    assert cache_dit.profile_steps(parsed()) == 28 and cache_dit.profile_steps(parsed("--profile")) == 3
    assert cache_dit.profile_steps(parsed("--profile", "--steps", "7")) == 7
    run.script(STEPS + "steps(3)")
    assert works(run.directory / "out/n.trace.json.gz") == [0, 1, 2]
    assert run.errors.count("2 of 3 active steps seen") == 1


def test_a14_paths_and_exceptions(run):
    run.script(STEPS + """
import pathlib
prof = ProfilerContext(output_dir="out", profile_name="n")
try:
    with prof:
        assert isinstance(prof.output_dir, pathlib.Path) and isinstance(prof.trace_path, pathlib.Path)
        assert prof.trace_path.name == "n.trace.json.gz"
        with pfw.span("work 0"):
            raise KeyError
except KeyError:
    assert prof.trace_path.exists()
""")
    assert works(run.directory / "out/n.trace.json.gz") == [0]


def test_a15_message_is_logged_not_printed(run, flux):
    run.script(STEPS + "steps(4)")
    assert run.output == ""
    assert run.errors.count("Profiler traces saved to: out/n.trace.json.gz") == 1
    assert flux.output.count("Profiler traces saved to: profiles/flux_test.trace.json.gz\n") == 1


def test_a16_names(run):
    run.script(STEPS + "steps(4)")
    for rank in (0, 1):
        run.script(STEPS + "steps(4)", RANK=str(rank), WORLD_SIZE="2")
    assert sorted(path.name for path in (run.directory / "out").glob("n*.trace.json.gz")
                  if ".pt." not in path.name) == [
        "n-rank0.trace.json.gz", "n-rank1.trace.json.gz", "n.trace.json.gz"]
    assert document(run.directory / "out/n-rank1.trace.json.gz")["distributedInfo"] == {
        "rank": 1, "world_size": 2}


def test_a17_memory(run, flux):
    path, = (flux.directory / "profiles").glob("flux_test-rank0-memory-*.pickle")
    assert abs(int(path.stem.rsplit("-", 1)[1]) - path.stat().st_mtime) < 600
    snapshot = pickle.loads(path.read_bytes())
    traced = snapshot["device_traces"][0]
    assert {"alloc", "free_completed"} == {event["action"] for event in traced}
    assert any(event["size"] == 4 * 8 * 4 for event in traced)
    assert "allocated" in path.with_suffix(".txt").read_text().lower()
    run.script(STEPS + """
import time
with ProfilerContext(output_dir="out", profile_name="n", activities=["CPU", "MEM"]):
    time.sleep(2)  # until it was sampled
""")
    counters = [event for event in document(run.directory / "out/n.trace.json.gz")["traceEvents"]
                if event["ph"] == "C" and event["name"] == "memory"]
    assert counters and counters[-1]["args"]["rss"] > 1 << 20
    text, = [path.read_text() for path in (run.directory / "out").glob("n-rank0-memory-*.txt")]
    assert re.fullmatch(r"Host memory in \d+ samples: at most \d\.\d\d GiB, at the end \d\.\d\d GiB\n", text.strip() + "\n")


def test_a18_memory_tracker(flux, run):
    assert re.search(r"^Peak host memory: \d+\.\d\d GiB, now \d+\.\d\d GiB$", flux.output, re.MULTILINE)
    run.script("""
        from pfw.compat.cache_dit import MemoryTracker
        for size in (600 << 20, 1):
            tracker = MemoryTracker()
            with tracker:
                block = bytearray(size)
                for at in range(0, size, 4096):
                    block[at] = 1
                del block
            print(tracker.peak_memory / 2**30, tracker.get_peak_memory_gb())
        """)
    peaks = [float(line.split()[0]) for line in run.output.splitlines()]
    assert peaks[0] > 600 / 1024 and [line.split()[0] for line in run.output.splitlines()] == [
        line.split()[1] for line in run.output.splitlines()]
    assert MemoryTrackerTakesDevice(None)


def MemoryTrackerTakesDevice(device):
    return cache_dit.MemoryTracker(device=device).device is device


def test_a19_what_is_not_there_is_said():
    text = DOCS.read_text()
    assert all(word in text for word in ("get_args", "strify", "cachify", "two lines"))
    assert not hasattr(cache_dit, "strify")


def test_a20_direct(run):
    """The document's direct use, verbatim but for the import and the directory."""
    run.script("""
        import pfw, pytest
        def model(input):
            with pfw.span("in the model"):
                return input
        input = 1
        from pfw.compat.cache_dit import ProfilerContext

        with ProfilerContext(
            enabled=True,
            activities=["CPU", "GPU"],
            output_dir="profiles",
            profile_name="my_inference",
            with_stack=False,
            record_shapes=True,
        ):
            output = model(input)

        again = ProfilerContext(output_dir="profiles", profile_name="again")
        for _ in range(2):
            with again:
                with pytest.raises(RuntimeError, match="active in this process already"):
                    again.__class__(output_dir="profiles", profile_name="inner").__enter__()
                model(input)
        """)
    names = sorted(path.name for path in (run.directory / "profiles").glob("*.trace.json.gz")
                   if ".pt." not in path.name)
    assert names == ["again-2.trace.json.gz", "again.trace.json.gz", "my_inference.trace.json.gz"]
    for name in names:
        assert [event["name"] for event in events(run.directory / "profiles" / name, cat="app")] == [
            "in the model"]


def test_a21_decorator(run):
    """The document's decorator, verbatim but for the import."""
    run.script("""
        import asyncio, pfw
        def model(input):
            with pfw.span("in the model"):
                return input
        input = 7
        from pfw.compat.cache_dit import profile_function

        @profile_function(enabled=True, profile_name="forward_pass")
        def my_function():
            return model(input)

        @profile_function(output_dir="elsewhere", with_stack=True, record_shapes=False, activities=["CPU"])
        def other():
            "its docstring"

        @profile_function()
        async def served():
            await asyncio.sleep(0)
            return my_span()

        def my_span():
            with pfw.span("behind the await"):
                return 8

        assert asyncio.run(served()) == 8
        assert my_function() == 7 and my_function.__name__ == "my_function"
        other()
        assert other.__doc__ == "its docstring"
        assert profile_function(enabled=False)(model) is model
        """, CACHE_DIT_TORCH_PROFILER_DIR="out")
    assert (run.directory / "elsewhere/other.trace.json.gz").exists()
    assert events(run.directory / "out/forward_pass.trace.json.gz", name="in the model")
    assert events(run.directory / "out/served.trace.json.gz", name="behind the await")


def test_a22_every_rank_has_its_own(run):
    """torchrun, and ranks without torch: known before init_process_group()."""
    pytest.importorskip("torch")
    run.ranks(RUN_FLUX, "--profile", "--profile-name", "flux_tp", "--profile-dir", "profiles")
    for rank in range(2):
        path = run.directory / f"profiles/flux_tp-rank{rank}.trace.json.gz"
        assert document(path)["distributedInfo"] == {"rank": rank, "world_size": 2}
        assert len(events(path, name="aten::linear")) == 3
    families = {"OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE", "PMI_RANK": "PMI_SIZE",
                "SLURM_PROCID": "SLURM_NTASKS", "PFW_RANK": "WORLD_SIZE"}
    for rank, (name, size) in enumerate(families.items()):
        run.script(STEPS + "steps(4)", **{name: str(rank), size: "4"})
        assert (run.directory / f"out/n-rank{rank}.trace.json.gz").exists()
        assert (run.directory / f"out/n-rank{rank:04}.pfw").exists(), "the recorder says another rank"


def test_a23_perfetto(flux):
    """Their format; tests/peers/readers.py has Perfetto's UI itself read such files."""
    trace = document(flux.directory / "profiles/flux_test.trace.json.gz")
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert sum(event["name"] == "aten::linear" for event in spans) == 3
    assert all(isinstance(event["ts"], (int, float)) and event["dur"] >= 0 for event in spans)
    lanes = {}
    for event in spans:
        lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"]))
    for lane in lanes.values():
        open_until = []
        for begin, length in sorted(lane):
            while open_until and open_until[-1] <= begin + 0.0005:
                open_until.pop()
            assert not open_until or begin - length <= open_until[-1] + 0.0005
            open_until.append(begin - length)


def test_a24_chrome(flux):
    text = gzip.open(flux.directory / "profiles/flux_test.trace.json.gz", "rt").read()
    assert text.lstrip().startswith("{") and '"traceEvents": [' in text


def test_a25_name_for_tensorboard(flux):
    path, = (flux.directory / "profiles").glob("*.pt.trace.json.gz")
    assert re.fullmatch(r"flux_test\.\d{19}\.pt\.trace\.json\.gz", path.name)
    assert path.read_bytes() == (flux.directory / "profiles/flux_test.trace.json.gz").read_bytes()


def test_a26_memory_of_a_pickle(flux, run):
    path, = (flux.directory / "profiles").glob("*.pickle")
    rows = [json.loads(line) for line in flux.command(
        PFW, "memory", path, "--format", "ndjson", "-b", "4").splitlines()]
    device, = [row for row in rows if row["section"] == "device"]
    allocated = [event["size"] for event in pickle.loads(path.read_bytes())["device_traces"][0]
                 if event["action"] == "alloc"]
    assert device["allocations"] == len(allocated) and device["allocated_bytes"] == sum(allocated)
    assert device["peak_bytes"] > 0 and sum(row["section"] == "time" for row in rows) == 4
    assert [row for row in rows if row["section"] == "owner"]
    (run.directory / "bad.pickle").write_bytes(pickle.dumps(pathlib.Path("x")))
    run.command(PFW, "memory", "bad.pickle", status=2)
    assert "no snapshot of memory" in run.errors


def test_a27_command_lines(run, flux):
    pytest.importorskip("torch")
    run.script(QUICK_START, "--profile", CACHE_DIT_TORCH_PROFILER_DIR="out", timeout=500)
    assert run.output == "steps 3\nProfiler traces saved to: out/flux_inference.trace.json.gz\n"
    assert len(events(run.directory / "out/flux_inference.trace.json.gz", name="denoise")) == 3
    run.script(QUICK_START)
    assert run.output == "steps 28\n" and len(list((run.directory / "out").iterdir())) == 3
    # The warm-up call before is not in it, and MEM leaves its files.
    assert len(events(flux.directory / "profiles/flux_test.trace.json.gz", name="aten::linear")) == 3
    assert len(list((flux.directory / "profiles").glob("*-memory-*"))) == 2


def test_a28_user_gives_the_base_and_the_rank_is_added(run):
    run.script(STEPS + "print(steps(4).trace_path)", RANK="3", WORLD_SIZE="8")
    assert run.output == "out/n-rank3.trace.json.gz\n"


def test_a29_upstream_extras(monkeypatch):
    monkeypatch.setenv("CACHE_DIT_TORCH_PROFILER_DIR", "/a")
    cache_dit.set_profiler_output_dir("/b")
    assert cache_dit.get_profiler_output_dir() == "/b"
    assert not cache_dit.create_profiler_context().enabled
    assert cache_dit.create_profiler_context(enabled=True, profile_name="x").profile_name == "x"


@pytest.mark.parametrize("source", ["none", "named", "callback"])
def test_a30_where_steps_come_from(run, source):
    body = {"none": "pass", "named": "pass",
            "callback": "assert prof.callback_on_step_end(None, step, 0, {'a': 1}) == {'a': 1}"}[source]
    run.script(STEPS + f"""
with ProfilerContext(output_dir="out", profile_name="n", wait=1, warmup=1, active=2) as prof:
    for step in range(6):
        with pfw.record_function("denoise"), pfw.span(f"work {{step}}"):
            pass
        {body}
""", **({"PFW_STEP": "den*"} if source == "named" else {}))
    found = [number for number in range(6)
             for event in events(run.directory / "out/n.trace.json.gz", name=f"work {number}")]
    assert found == (list(range(6)) if source == "none" else [1, 2, 3])
    assert run.errors.count("the whole block counts as active") == (source == "none")


def test_disabled_costs_nothing():
    def function():
        pass
    assert cache_dit.profile_function(enabled=False)(function) is function
    off = cache_dit.ProfilerContext(enabled=False)
    assert off is cache_dit.ProfilerContext(False) is cache_dit.ProfilerContext(False, output_dir="/none")
    assert isinstance(off, cache_dit.ProfilerContext) and not off.enabled and off.profiler is None
    with off as entered:
        assert entered is off and off.step() is None
    for call in "__enter__", "__exit__":
        assert isinstance(getattr(type(off), call), types.BuiltinFunctionType), "binds to no object"
    with pytest.raises(TypeError, match="no_such"):
        cache_dit.ProfilerContext(enabled=False, no_such=1)
    assert cache_dit.ProfilerContext(True, output_dir="/none").enabled, "the others are as they were"


def test_disabled_classes_of_ones_own(tmp_path):
    """Not handed back what is no instance of theirs; other ways to say no mean no, too."""
    class Mine(cache_dit.ProfilerContext):
        pass
    for off in Mine(enabled=False), Mine(False), cache_dit.ProfilerContext(enabled=0, output_dir=tmp_path / "a"):
        with off as entered:
            off.step()
        assert entered is off and off.profiler is None
    assert isinstance(Mine(enabled=False), Mine) and not list(tmp_path.iterdir())


def test_nothing_recorded_is_said_once(run):
    """By the recorder's switch, not by a number of steps."""
    run.script(STEPS + "print(steps(4).profiler.cycles); steps(0)", DFTRACER_ENABLE="0")
    assert run.output == "[]\n" and not list((run.directory / "out").iterdir())
    assert run.errors.count("DFTRACER_ENABLE is 0") == 1 and "steps" not in run.errors.replace("steps(", "")


def test_imports_without_torch(run):
    run.script("""
        import sys
        sys.modules["torch"] = None
        from pfw.compat.cache_dit import *
        with ProfilerContext(output_dir="out", profile_name="n"):
            pass
        """)
    assert (run.directory / "out/n.trace.json.gz").exists()
