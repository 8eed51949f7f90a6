"""pfw.compat.dftracer: what DFTracer's documents promise, a function for each row of that table."""
import importlib.util
import os
import re
import sys

import pfw
import pytest

from conftest import PFW, Run

DFTRACER = """
from pfw.compat.dftracer import dftracer, dft_fn as Profile, ai
df_logger = dftracer.initialize_log("t.pfw", None, -1)
"""


def calls(run, pattern="t.pfw"):
    return [line for line in run.lines(pattern) if line["cat"] in ("POSIX", "STDIO")]


def made(run, pattern="t.pfw"):
    """The program's own events, in the order of their ends."""
    return [line for line in run.lines(pattern)
            if line["cat"] not in ("POSIX", "STDIO", "NET", "pfw", "PP")]


def figures(lines):
    """(name, cat, args without the numbers of spans) of each."""
    return [(line["name"], line["cat"], {key: value for key, value in line["args"].items()
                                         if key not in ("span_id", "parent")}) for line in lines]


# ---- the variables ----

def test_e01_enable_decides_whether_there_is_a_trace(run):
    """Off: no file at all, nothing said, everything a no-op.  On: a trace."""
    program = DFTRACER + """
@Profile("training").log
def step(x): return x + 1
assert step(1) == 2 and list(ai.data.item.iter(range(3))) == [0, 1, 2]
df_logger.log_event("told", "mine", df_logger.get_time(), 5)
print(df_logger.get_time() > 0)
df_logger.finalize()
"""
    for off in ({}, {"DFTRACER_ENABLE": "0"}):
        assert run.script(program, **off) == "False\n" and not run.errors
        assert [path.name for path in run.directory.iterdir()] == ["script.py"]
    assert run.script(program, DFTRACER_ENABLE="1") == "True\n"
    assert [line["name"] for line in made(run)] == \
        ["step", *["item.block", "item.iter"] * 3, "told"]


def test_e02_data_dir_and_io_without_preload(run):
    """Plain python traces I/O from initialize_log() on; the variable or the argument says where."""
    program = """
import os, sys
from pfw.compat.dftracer import dftracer
for name in ("in", "out"):
    os.makedirs(name, exist_ok=True)
dftracer.initialize_log("t.pfw", *sys.argv[1:])
for name in ("in/file", "out/file", "/proc/self/stat"):
    open(name, "w" if name[0] != "/" else "r").close()
dftracer.get_instance().finalize()
"""
    for words, variable, wanted in (([], None, ["in/file", "out/file"]),
                                    ([], "all", ["in/file", "out/file", "/proc/self/stat"]),
                                    ([], "in:none", ["in/file"]),
                                    (["out"], "in", ["out/file"])):
        for old in run.directory.glob("*.pfw"):
            old.unlink()
        run.script(program, *words, DFTRACER_ENABLE="1",
                   **({"DFTRACER_DATA_DIR": variable} if variable else {}))
        opened = [line["args"]["fname"] for line in calls(run) if line["name"] == "open"]
        assert [name for name in opened if name.endswith(("/file", "/stat"))] == \
            [str(run.directory / name) for name in wanted], (words, variable)


# ---- the logger ----

def test_e03_initialize_log(run):
    """The trace has the name that is asked for, and times in whole microseconds."""
    program = """
import os, sys
from pfw.compat.dftracer import dftracer, dft_fn
logger = dftracer.initialize_log({})
assert logger is dftracer.get_instance() and logger.start_time > 10**15
with dft_fn("mine", "block"): pass
logger.finalize()
"""
    for arguments, name in (('"profiler_trace.pfw", None, -1', "profiler_trace.pfw"),
                            ('"deep/er/x.pfw.gz", None, os.getpid()', "deep/er/x.pfw.gz"),
                            ('logfile=os.path.abspath("abs")', "abs.pfw"),
                            ('log_file="other.pfw"', "other.pfw"), ("", "named.pfw")):
        run.script(program.format(arguments), DFTRACER_ENABLE="1", DFTRACER_LOG_FILE="named")
        assert (run.directory / name).is_file(), arguments
    for path in run.directory.glob("*.pfw"):
        for line in run.lines(path.name):
            assert isinstance(line["ts"], int) and isinstance(line.get("dur", 0), int)
    run.script(program.format('"r.pfw"'), DFTRACER_ENABLE="1", RANK="2", WORLD_SIZE="4")
    assert [line["name"] for line in made(run, "r-rank0002.pfw")] == ["block"]
    run.script(program.format('"ns.pfw"'), DFTRACER_ENABLE="1", DFTRACER_TIME_METRIC="NS")
    assert isinstance(made(run, "ns.pfw")[0]["ts"], float)


def test_e04_finalize_may_be_called_twice_or_not_at_all(run):
    for end in ("df_logger.finalize()\ndf_logger.finalize()", "", "raise SystemExit(3)"):
        for old in run.directory.glob("*.pfw"):
            old.unlink()
        run.script(DFTRACER + f"with Profile('mine', 'block'): pass\n{end}",
                   DFTRACER_ENABLE="1", status=3 if "3" in end else 0)
        assert [line["name"] for line in made(run)] == ["block"]
        assert run.lines("t.pfw")[-1]["name"] == "end"


def test_events_that_are_told(run):
    run.script(DFTRACER + r"""
begin = df_logger.get_time()
df_logger.enter_event()
df_logger.log_event("a \"b\"", "mine", begin, 12, {"n": (0, 2**40), "plain": 3},
                    {"f": (1, 0.5), "nan": float("nan")}, {"s": (0, "x\ny")})
df_logger.exit_event()
df_logger.log_event(name="short", cat="mine", start_time=begin, duration=-5)
df_logger.log_metadata_event("key", "value")
assert df_logger.get_config("DFTRACER_TIME_METRIC") == "US"
print(begin)
""", DFTRACER_ENABLE="1")
    long, short, metadata = made(run)
    assert (long["ts"], long["dur"], short["dur"]) == (int(run.output), 12, 0)
    assert figures([long])[0][:2] == ('a "b"', "mine")
    assert {key: long["args"][key] for key in "nfs"} == {"n": 2 ** 40, "f": 0.5, "s": "x\ny"}
    assert metadata["ph"] == "i" and metadata["args"] == {"name": "key", "value": "value"}


# ---- dft_fn ----

def test_e08_profile_log(run):
    """The category is the profile's, the name the function's; arguments go into the call's own event."""
    run.script(DFTRACER + """
import asyncio
df_test = Profile("training")
@df_test.log
def step(x):
    "What it does."
    return x * 2
assert step(4) == 8 and step.__name__ == "step" and step.__doc__ == "What it does."
@df_test.log(name="renamed")
def other(epoch, *, step=5, image_size=None): raise ValueError
class Reader:
    epoch = 7
    @df_test.log_init
    def __init__(self, image_idx): self.idx = image_idx
    @df_test.log
    def read(self, step): return self.idx + step
    @df_test.log_static
    @staticmethod
    def scale(x): return x * 3
for arguments in ((1,), (2, 2)):
    try: other(arguments[0], **({"step": 9, "image_size": 1.5} if arguments[1:] else {}))
    except ValueError: pass
assert Reader(3).read(step=4) == 7 and Reader.scale(2) == Reader(0).scale(2) == 6
@df_test.log
async def wait():
    await asyncio.sleep(0.01)
    return "waited"
assert asyncio.run(wait()) == "waited"
off = Profile("off", enable=False)
assert off.log(len)("abc") == 3
@df_test.log
def inside(): pass
@df_test.log
def outside(image_idx=3, epoch=1): inside()
outside(epoch=4)
inside()
df_test.update(epoch=8)
outside()
inside()
assert sorted(df_test._arguments_int) == ["epoch"]
""", DFTRACER_ENABLE="1")
    found = figures(made(run))
    assert found[0] == ("step", "training", {})
    assert found[1] == ("renamed", "training", {"epoch": 1, "step": 5, "error": "ValueError"})
    assert found[2] == ("renamed", "training",
                        {"epoch": 2, "step": 9, "image_size": 1.5, "error": "ValueError"})
    by_name = {name: args for name, _, args in found}
    assert by_name["Reader.read"]["epoch"] == 7 and by_name["Reader.read"]["step"] == 4
    assert [args["image_idx"] for name, _, args in found if name == "Reader.__init__"] == [3, 0]
    assert len([name for name, _, _ in found if name == "Reader.scale"]) == 2
    # What a call is given is of the call and what is inside it; update() is of all that follow.
    assert [args for name, _, args in found if name == "inside"] == [
        {"image_idx": 3, "epoch": 4}, {}, {"image_idx": 3, "epoch": 1}, {"epoch": 8}]
    wait, = [line for line in made(run) if line["name"] == "wait"]
    assert wait["dur"] >= 10_000


def test_profile_blocks_loops_and_arguments(run):
    run.script(DFTRACER + """
def by_function():
    with Profile("io") as profile:
        profile.update(epoch=1, args={"text": "x", "half": 0.5, "count": True})
by_function()
df = Profile("io", "rows", step=3, image_size=2)
for value in df.iter("ab"): df.update(image_idx=8)
for value in df.iter("abc", name="half", iter_name="n"): break
with df: df.flush(); df.reset()
df.flush()
df.log_metadata("k", "v")
""", DFTRACER_ENABLE="1")
    given = {"step": 3, "image_size": 2.0}
    assert figures(made(run)) == [
        ("by_function", "io", {"epoch": 1, "count": 1, "half": 0.5, "text": "x"}),
        ("loop.iter", "io", {"step": 1, "image_size": 2.0}),
        ("loop.yield", "io", {"step": 1, "image_size": 2.0, "image_idx": 8}),
        ("loop.iter", "io", {"step": 2, "image_size": 2.0, "image_idx": 8}),
        ("loop.yield", "io", {"step": 2, "image_size": 2.0, "image_idx": 8}),
        ("half.iter", "io", {**given, "n": 1, "image_idx": 8}),
        ("half.yield", "io", {**given, "n": 1, "image_idx": 8}),
        *[("rows", "io", {**given, "image_idx": 8})] * 3,
        ("CM", "dftracer", {"name": "k", "value": "v"})]


def test_one_profile_in_threads_and_tasks(run):
    """A block ends where it began, whoever else is in one of the same profile."""
    run.script(DFTRACER + """
import asyncio, threading, time
barrier = threading.Barrier(2)
def work(first):
    with ai.data.item:
        barrier.wait()
        if first: time.sleep(0.05)
        with Profile("mine", f"in {first}"): pass
threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
for thread in threads: thread.start()
for thread in threads: thread.join()
async def task(first):
    with ai.data.preprocess:
        await asyncio.sleep(0.05 if first else 0.01)
        with Profile("mine", f"task {first}"): pass
async def both(): await asyncio.gather(task(True), task(False))
asyncio.run(both())
""", DFTRACER_ENABLE="1")
    lines = made(run)
    outer = {line["args"]["span_id"]: line for line in lines}
    for name, around in (("in", "item"), ("task", "preprocess")):
        for first in ("True", "False"):
            inner, = [line for line in lines if line["name"] == f"{name} {first}"]
            block = outer[inner["args"]["parent"]]
            assert block["name"] == around and block["tid"] == inner["tid"]
            assert block["ts"] <= inner["ts"]
            assert (block["dur"] >= 45_000) == (first == "True"), (name, first, block)


# ---- ai ----

TREE = {
    "compute": "forward backward step", "data": "preprocess item", "dataloader": "fetch",
    "comm": "send receive barrier bcast reduce all_reduce gather all_gather scatter reduce_scatter "
            "all_to_all",
    "device": "transfer", "checkpoint": "capture restart", "pipeline": "epoch train evaluate test"}


def test_e09_every_category_of_ai(run):
    run.script(DFTRACER + f"""
for category, names in {TREE!r}.items():
    for name in names.split():
        tracer = getattr(getattr(ai, category), name)
        assert tracer(lambda: 5)() == 5
        with tracer: pass
for io in (ai.data.io, ai.checkpoint.io, ai.other.io):
    for name in ("open", "read", "write", "close"): getattr(io, name)(lambda: 0)()
ai.other.log(lambda: 0)()
""", DFTRACER_ENABLE="1")
    wanted = [(name, category) for category, names in TREE.items() for name in names.split()
              for _ in range(2)]
    wanted += [(f"{category}.io.{name}", category) for category in ("data", "checkpoint", "other")
               for name in ("open", "read", "write", "close")]
    assert [(line["name"], line["cat"]) for line in made(run)] == [*wanted, ("other.log", "other")]


def test_a_loop_of_ai_has_the_step_that_its_body_tells(run):
    """As DFTracer's: getting a batch carries the step that the batch is for, also of a loop that is left."""
    run.script(DFTRACER + """
for epoch in ai.pipeline.epoch.iter(range(2)):
    for step, batch in ai.dataloader.fetch.iter(enumerate("ab")):
        ai.update(step=step, epoch=epoch)
        with ai.compute: pass
        if (epoch, step) == (1, 0): break
""", DFTRACER_ENABLE="1")
    batches = [{"count": step + 1, "step": step, "epoch": epoch} for epoch, step in ((0, 0), (0, 1), (1, 0))]
    found = figures(made(run))
    for what in ("iter", "block"):
        assert [args for name, _, args in found if name == f"fetch.{what}"] == batches
        assert [args for name, _, args in found if name == f"epoch.{what}"] == [
            {"count": 1, "step": 1, "epoch": 0}, {"count": 2, "step": 0, "epoch": 1}]
    spans = {line["args"].get("span_id"): line["name"] for line in made(run)}
    assert {line["name"]: spans.get(line["args"].get("parent", 0)) for line in made(run)} == {
        "epoch.iter": None, "epoch.block": None, "fetch.iter": "epoch.block", "fetch.block": "epoch.block",
        "compute": "fetch.block"}


def test_ai_in_every_way(run):
    run.script(DFTRACER + """
@ai.data.item
def load(index): return index
@ai.compute.forward(args={"layer": 2}, epoch=5)
def forward(): return load(1)
assert forward() == 1
for batch in ai.dataloader.fetch.iter(range(2)): pass
for epoch in ai.pipeline.epoch.iter(range(1), include_block=False, iter_name="turn"): pass
ai.update(epoch=3, step=4)
ai.device.transfer.start(); load(2); ai.device.transfer.stop()
ai.data.disable(); load(3); ai.enable()
with ai.comm.all_reduce(enable=False): pass
with ai.comm.barrier(step=9) as barrier: barrier.update(args={"ranks": 8})
ai.data.derive("collate")(lambda: 0)()
class Checkpoint:
    @ai.checkpoint.init
    def __init__(self): pass
Checkpoint()
ai.pipeline.train.start(metadata=True)
""", DFTRACER_ENABLE="1")
    now = {"epoch": 3, "step": 4}
    found = figures(made(run))
    assert found[:-1] == [
        ("item", "data", {}), ("forward", "compute", {"epoch": 5, "layer": 2}),
        *[(f"fetch.{what}", "dataloader", {"count": count}) for count in (1, 2)
          for what in ("block", "iter")],
        ("turn", "pipeline", {"count": 1}),
        ("item", "data", now), ("transfer", "device", now),
        ("barrier", "comm", {"step": 9, "ranks": 8}),
        ("data.collate", "data", now), ("checkpoint.init", "checkpoint", now)]
    assert found[-1][0] == "CM" and found[-1][2]["name"] == "train.start"


# ---- under DFTracer's own name ----

def test_install(run):
    """import dftracer finds ours, after install(), with all its modules."""
    run.script("""
import importlib, pfw.compat
pfw.compat.install("dftracer")
import dftracer.dftracer as native
from dftracer.python import *
from dftracer.python import dftracer, dft_fn, ai, dynamo, AI, ProfileCategory
from dftracer.python.torch import trace_handler
for name in ("ai", "ai_common", "common", "env", "logger", "dynamo", "torch.profiler", "dbg.logger"):
    importlib.import_module("dftracer.python." + name)
assert dft_fn.__module__ == "pfw.compat.dftracer._function"
from pfw.compat.dftracer.python import dftracer as same, ai as tree
from pfw.compat.dftracer.python.torch import trace_handler as handler
assert (same, tree, handler) == (dftracer, ai, trace_handler)
native.initialize("t.pfw", None, -1)
native.log_event("told", "mine", native.get_time(), 1, {"a": (0, 1)}, {"s": (0, "t")})
native.finalize()
try: import dftracer.python.none
except ModuleNotFoundError: print("none")
try: pfw.compat.install("other")
except ValueError as error: print(error)
""", DFTRACER_ENABLE="1")
    assert run.output == \
        "none\npfw.compat: no stand-in for 'other'; there is one for dftracer\n"
    assert figures(made(run)) == [("told", "mine", {"a": 1, "s": "t"})]


def test_run_compat(run):
    """An unedited script under `pfw run --compat dftracer`, and a process that it spawns."""
    run.traced("""
import multiprocessing
from dftracer.python import dftracer, dft_fn as Profile, ai
@ai.data.item
def load(index): return index
if __name__ == "__main__":
    logger = dftracer.initialize_log(None, None, -1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(load, [1, 2]) == [1, 2]
    assert Profile("training").log(load)(3) == 3
    logger.finalize()
""", "--compat", "dftracer")
    assert [(line["name"], line["cat"]) for line in made(run)] == [("item", "data"),
                                                                   ("load", "training")]
    assert [line["name"] for line in made(run, "t-pid*.pfw")] == ["item", "item"]


def test_compat_enable_and_disable(run):
    """A shim in the environment's site-packages, until it is taken away again."""
    python = run.directory / "env" / "bin" / "python"
    run.command(sys.executable, "-m", "venv", "--without-pip", run.directory / "env")
    (place,) = run.directory.glob("env/lib/python*/site-packages")
    (place / "ours.pth").write_text(os.path.dirname(os.path.dirname(pfw.__file__)) + "\n")
    compat = "import sys; from pfw.compat._shim import main; sys.exit(main())"
    run.save(DFTRACER.replace("pfw.compat.dftracer", "dftracer.python"))
    run.command(python, "script.py", status=1)
    assert "No module named 'dftracer'" in run.errors
    before = sorted(place.iterdir())
    for word, status in (("enable", 0), ("enable", 0), ("disable", 1), ("disable", 1)):
        run.command(python, "-c", compat, word, "dftracer")
        run.command(python, "script.py", status=status)
        assert run.command(python, "-c", compat, "list") == f"dftracer\t{word}d\n"
    assert sorted(path for path in place.iterdir() if path.name != "__pycache__") == before
    run.command(PFW, "compat", "enable", "nothing", status=2)
    assert "no stand-in for 'nothing'" in run.errors


# ---- PyTorch ----

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")

# The seed's blocks, as they stand there; "..." is where they leave something to the reader.
BASIC = """
import torch
from torch.profiler import profile, schedule, ProfilerActivity
from dftracer.python import dftracer
from dftracer.python.torch import trace_handler

# Initialize DFTracer logger
df_logger = dftracer.initialize_log("profiler_trace.pfw", None, -1)

# Define profiler schedule
profiler_schedule = schedule(
    wait=1,
    warmup=1,
    active=2,
    repeat=1,
)

# Run profiler with trace_handler
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=profiler_schedule,
    on_trace_ready=trace_handler,
    profile_memory=True,
    with_stack=True,
) as p:
    for step in range(4):
        # Your training code here
        model(input_data)
        p.step()

df_logger.finalize()
"""
TRAINING = """
import torch
import torch.nn as nn
from torch.profiler import profile, schedule, ProfilerActivity, record_function
from dftracer.python import dftracer
from dftracer.python import dft_fn as Profile
from dftracer.python.torch import trace_handler

# Initialize logger
df_logger = dftracer.initialize_log("training.pfw", None, -1)

# Model setup
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()

# Create DFTracer profile for additional tracing
df_test = Profile("training")

@df_test.log
def training_step(inputs, labels):
    optimizer.zero_grad()

    with record_function("forward"):
        outputs = model(inputs)

    with record_function("loss"):
        loss = criterion(outputs, labels)

    loss.backward()
    optimizer.step()
    return loss.item()

# Profiler schedule
profiler_schedule = schedule(wait=1, warmup=1, active=2, repeat=1)

with profile(
    activities=[ProfilerActivity.CPU],
    schedule=profiler_schedule,
    on_trace_ready=trace_handler,
    profile_memory=True,
) as p:
    for step in range(4):
        inputs = torch.randn(8, 10)
        labels = torch.randint(0, 2, (8,))
        loss = training_step(inputs, labels)
        p.step()

df_logger.finalize()
"""
COMBINED = """
from dftracer.python import dftracer, ai
from dftracer.python.torch import trace_handler
from torch.profiler import profile, ProfilerActivity

df_logger = dftracer.initialize_log("combined.pfw", None, -1)

# Use AI decorators for I/O tracing
@ai.data.item
def load_data(idx):
    # Your data loading code
    return data

# Use PyTorch profiler for compute tracing
with profile(
    activities=[ProfilerActivity.CPU],
    on_trace_ready=trace_handler,
) as p:
    for step in range(steps):
        data = load_data(step)
        output = model(data)
        p.step()

df_logger.finalize()
"""
# What the reader fills in.
MODEL = "import torch\nmodel, input_data = torch.nn.Linear(16, 4), torch.randn(8, 16)\n"
DATA = MODEL + "steps = 3\n" + "".join(
    f"open('item{index}', 'wb').write(bytes(512))\n" for index in range(3))
LOADING = COMBINED.replace("    return data\n", """    with open(f"item{idx}", "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(8, 16)
    return data
""")


def import_lines_changed(program):
    return re.sub(r"^from dftracer\.python", "from pfw.compat.dftracer", program, flags=re.M)


def compute(run, pattern):
    return [line for line in run.lines(pattern) if line["cat"] == "PP"]


def operators(run, pattern, name="aten::linear"):
    return [line for line in compute(run, pattern) if line["name"] == name]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """The seed's blocks, only their import lines changed, each run by plain python: what they leave."""
    run = Run(tmp_path_factory.mktemp("blocks"))
    shapes = BASIC.replace("with_stack=True", "with_stack=True, record_shapes=True, with_flops=True")
    for program in (MODEL + shapes, TRAINING, DATA + LOADING):
        run.script(import_lines_changed(program), DFTRACER_ENABLE="1", DFTRACER_DATA_DIR="all")
    return run


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """One process that uses the handler in every way."""
    run = Run(tmp_path_factory.mktemp("options"))
    run.script(MODEL + """
import itertools, threading
from torch.profiler import profile, schedule, ProfilerActivity
from pfw.compat.dftracer import dftracer
from pfw.compat.dftracer.torch import trace_handler

def on_disk(name): return sum('"aten::linear"' in line for line in open(name))
logger = dftracer.initialize_log("cycles.pfw", None, -1)
with profile(on_trace_ready=trace_handler) as p: model(input_data)
assert on_disk("cycles.pfw") == 1
with profile(schedule=schedule(wait=1, warmup=0, active=1, repeat=2), on_trace_ready=trace_handler) as p:
    for step in range(4):
        model(input_data); p.step()
        assert on_disk("cycles.pfw") == 1 + (step + 1) // 2, step
with torch.profiler.record_function("no handler"):
    pass
begin = logger.get_time()
names = ("profile_memory", "with_stack", "record_shapes", "with_flops", "acc_events")
for flags in itertools.product((False, True), repeat=5):
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=trace_handler,
                 **dict(zip(names, flags))): model(input_data)
end = logger.get_time()
with profile(on_trace_ready=trace_handler, experimental_config=torch._C._profiler._ExperimentalConfig(
        profile_all_threads=True)):
    model(input_data)
    thread = threading.Thread(target=model, args=(input_data,))
    thread.start()
    thread.join()
logger.finalize()
print(begin, end, threading.get_native_id())
""", DFTRACER_ENABLE="1")
    return run


@needs_torch
def test_e05_trace_handler_with_and_without_a_schedule(options):
    """It is called with the profile, and each cycle is on disk when it returns: the script asserts it."""
    begin = int(options.output.split()[-3])
    assert len([line for line in operators(options, "cycles.pfw") if line["ts"] < begin]) == 3


@needs_torch
def test_e06_schedule_records_two_steps_of_four(blocks):
    found = operators(blocks, "profiler_trace.pfw")
    assert [line["args"]["step"] for line in found] == [2, 3]
    assert {line["name"] for line in compute(blocks, "profiler_trace.pfw")
            if line["args"]["kind"] == "step"} == {"ProfilerStep#2", "ProfilerStep#3"}


@needs_torch
def test_e07_every_combination_of_options(options):
    begin, end = map(int, options.output.split()[-3:-1])
    found = [line for line in operators(options, "cycles.pfw") if begin <= line["ts"] <= end]
    assert len(found) == 32 and "not in the trace" not in options.errors


@needs_torch
def test_e10_record_function_is_nested_in_time(blocks):
    forward, losses = (operators(blocks, "training.pfw", name) for name in ("forward", "loss"))
    linear = operators(blocks, "training.pfw")
    assert len(forward) == len(losses) == len(linear) == 2
    for outer, inner, loss in zip(forward, linear, losses):
        assert outer["args"]["kind"] == "annotation"
        assert outer["ts"] <= inner["ts"] <= loss["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1
    steps = [line for line in made(blocks, "training.pfw") if line["name"] == "training_step"]
    assert len(steps) == 4 and steps[0]["cat"] == "training"
    assert steps[2]["ts"] <= forward[0]["ts"] <= steps[2]["ts"] + steps[2]["dur"]


def shown(line):
    """What the seed says of an event, in its args."""
    return {key: line["args"].get(key) for key in (
        "device", "cpu_memory", "device_memory_usage", "is_remote", "input_size")}


@needs_torch
def test_e11_what_gets_traced(blocks):
    """Name, times, device, memory, shapes and utilization, by default."""
    for line in operators(blocks, "profiler_trace.pfw"):
        assert line["dur"] >= 0 and shown(line) == {
            "device": 0, "cpu_memory": 128, "device_memory_usage": 0, "is_remote": 0,
            "input_size": 5}, line
        assert line["args"]["input_shapes"] == [[8, 16], [4, 16], [4]]


@needs_torch
def test_e12_category_is_always_pp(blocks):
    assert {line["cat"] for line in blocks.lines("profiler_trace.pfw")
            if line["name"].startswith(("aten::", "ProfilerStep"))} == {"PP"}


@needs_torch
def test_e13_example_line(blocks):
    """JSON lines, which pandas reads, times in whole microseconds since the epoch."""
    for line in operators(blocks, "profiler_trace.pfw"):
        assert isinstance(line["ts"], int) and isinstance(line["dur"], int)
        assert line["ts"] > 1_600_000_000_000_000
        assert {"device", "cpu_memory", "device_memory_usage"} <= set(line["args"])
    pandas = pytest.importorskip("pandas")
    table = pandas.read_json(blocks.directory / "profiler_trace.pfw", lines=True)
    assert len(table[table.name == "aten::linear"]) == 2


@needs_torch
def test_e14_integer_args_and_ours(blocks):
    for line in operators(blocks, "profiler_trace.pfw"):
        assert all(isinstance(value, int) for value in shown(line).values())
        assert line["args"]["device_index"] == -1
    added = operators(blocks, "profiler_trace.pfw", "aten::addmm")
    assert {line["args"]["flops"] for line in added} == {2 * 8 * 16 * 4}


@needs_torch
def test_e15_percentages_are_right_or_not_there(blocks):
    for line in compute(blocks, "profiler_trace.pfw"):
        for key in ("total_cpu_percent", "total_device_percent"):
            assert 0 <= line["args"].get(key, 0) <= 100


def check_combined(run):
    items = [line for line in made(run, "combined.pfw") if line["name"] == "item"]
    reads = [line for line in calls(run, "combined.pfw") if line["name"] == "read" and
             (line["args"]["fname"] or "").rpartition("/")[2].startswith("item") and line["args"]["ret"]]
    forward = operators(run, "combined.pfw")
    assert len(items) == len(reads) == len(forward) == 3
    for item, read, line in zip(items, reads, forward):
        assert item["ts"] <= read["ts"] <= item["ts"] + item["dur"] <= line["ts"] + 1
        assert item["pid"] == read["pid"] == line["pid"]
    assert items[0]["cat"] == "data"


@needs_torch
def test_e16_io_and_compute_in_one_trace(blocks):
    """export, then plain python: POSIX and PP on one clock in one file."""
    check_combined(blocks)


@needs_torch
def test_e17_threads_keep_their_lanes(options):
    _, end, main = map(int, options.output.split()[-3:])
    lanes = {line["tid"] for line in compute(options, "cycles.pfw")
             if line["ts"] > end and line["args"]["kind"] == "cpu_op"}
    assert main in lanes and len(lanes) == 2
