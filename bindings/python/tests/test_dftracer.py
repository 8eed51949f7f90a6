"""pfw.compat.dftracer: what DFTracer's documents promise, a function for each row of that table."""

DFTRACER = """
from pfw.compat.dftracer import dftracer, dft_fn as Profile, ai
df_logger = dftracer.initialize_log("t.pfw", None, -1)
"""


def calls(run, pattern="t.pfw"):
    return [line for line in run.lines(pattern) if line["cat"] in ("POSIX", "STDIO")]


def made(run, pattern="t.pfw"):
    """The program's own events, in the order of their ends."""
    return [line for line in run.lines(pattern)
            if line["cat"] not in ("POSIX", "STDIO", "pfw", "PP")]


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
        ["step", *["item.iter", "item.block"] * 3, "told"]


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
assert sorted(df_test._arguments_int) == ["epoch", "image_idx", "step"]
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
          for what in ("iter", "block")],
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
