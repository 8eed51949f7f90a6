"""What a type checker says of a program that uses every public name: nothing."""
import importlib
import sys

import pytest

FRONTS = ("pfw", "pfw.cluster", "pfw.plot", "pfw.torch", "pfw.compat.dftracer", "pfw.compat.cache_dit", "pfw.compat.parallelization",
          "pfw.compat.diffulex_profiler")

# Checkers know what is decorated for what it was, and what each call gives.
PROGRAM = '''
from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pfw
import pfw.compat
import pfw.plot
import pfw.torch
from pfw.compat.dftracer import TagDType, TagValue, ai, create_backend, dft_fn, dftracer, dynamo
from pfw.compat.dftracer.torch import trace_handler as handler

recording: bool = pfw.start("t", data_dir=pathlib.Path("."), compression=False)


@pfw.trace
def load(path: str, times: int = 1) -> list[str]:
    with pfw.span("parse", kind="csv") as span:
        span.set(rows=times)
    return [path] * times


@pfw.trace("other", category="mine")
def other(number: int) -> int:
    return number


@pfw.record_function("annotated")
def annotated(x: float) -> float:
    with pfw.record_function("inner"):
        return x


@pfw.trace
def numbers() -> Iterator[int]:
    yield from range(3)


@pfw.trace
async def task(x: int) -> str:
    return str(x)


@pfw.trace
class Thing:
    def __init__(self, size: int) -> None:
        self.size = size


def hook(segment: pfw.Segment) -> None:
    print(segment.path, segment.steps)


rows: list[str] = load("x", times=other(2))
figures: float = annotated(1.0) + sum(numbers()) + Thing(3).size
pfw.instant("now", "mine")
pfw.event("was", 1, 2, "mine")
pfw.compute_event("k", 1, 2, kind="kernel")
pfw.counter("loss", 0.5)
pfw.counter("queue", length=1, free=2)
pfw.set_rank(0, 1)
pfw.schedule(wait=1, warmup=1, active=2, repeat=1)
pfw.on_trace_ready(hook)
pfw.step()
done: bool = pfw.flush() and pfw.enabled() and pfw.current() > 0
stats: pfw.Stats = pfw.stats()
print(stats.events, stats.path.upper(), pfw.version().upper(), pfw.__version__.upper())
with pfw.trace_calls(include="model", min_us=50):
    pass
for line in pfw.query("t", cat="POSIX", min_dur="1ms"):
    print(line["name"])
lines: pfw.Lines = pfw.read("t", columns=["ts", "name"], ranks=0)
problems: list[str] = lines.problems
lines.to_pandas(), lines.to_polars(), lines.arrow(), lines.duckdb(), lines.__arrow_c_stream__()
for batch in pfw.scan("t", where="dur > 1ms"):
    print(batch)
table: pfw.Table = pfw.table("t", group_by=["name", "rank"], where="dur > 1ms", ranks=[0, 1], row_limit=10)
cells: dict[str, list[object]] = table.columns()
print(table.rows()[0]["count"], table.to_pandas(), pfw.overlap("t", steps=True).to_polars(), pfw.patterns("t").arrow())
print(pfw.memory("t", rows="step", bins=4).rows(), pfw.compare("a", ["b", "c"], group_by="name").columns())
run: pfw.Run = pfw.summary("t")
print(run.wall_us, run.commands[0].upper(), run.warnings)
pfw.plot.timeline("t"), pfw.plot.overlap("t", ranks=0), pfw.plot.sizes("t")
pfw.stop()
pfw.compat.install("dftracer")

with pfw.torch.profile(activities=[pfw.torch.ProfilerActivity.CPU],
                       schedule=pfw.torch.schedule(wait=1, warmup=1, active=1),
                       on_trace_ready=pfw.torch.tensorboard_trace_handler("d")) as profile:
    profile.step()
print(profile.key_averages().table(sort_by="cpu_time_total", row_limit=3))
pfw.torch.trace_handler(profile)

logger = dftracer.initialize_log("t.pfw", None, -1)
logger.log_event("e", "c", logger.get_time(), 3, {"n": 1})
io = dft_fn("io")


class Model:
    @io.log_init
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    @io.log
    def read(self, path: str, step: int) -> bytes:
        return b""

    @io.log_static
    @staticmethod
    def make() -> Model:
        return Model(1)

    @ai.compute.forward
    def forward(self, x: int) -> int:
        return x

    @ai.data.preprocess.derive(name="collate")
    def collate(self, x: int) -> int:
        return x

    @ai.checkpoint.init
    def restore(self) -> None: ...

    @dynamo.compile
    def compiled(self, x: int) -> int:
        return x


with dft_fn("io", "scan") as scan:
    scan.update(args={"files": 3, "tag": TagValue(1, TagDType.INT)})
with ai.compute, ai.data.item(epoch=1):
    pass
for number in io.iter(range(3)):
    number.bit_length()
for batch in ai.dataloader.fetch.iter(range(3)):
    batch.bit_length()
ai.pipeline.epoch.start(metadata=True)
ai.comm.all_reduce.disable()
ai.checkpoint.io.read.enable()
ai.device.transfer.update(args={"a": 1})
ai.other.log.reset()
ai.update(step=1, epoch=2)
model = Model.make()
total: int = model.forward(1) + model.collate(2) + model.compiled(3) + len(model.read("x", step=1))
print(handler, create_backend(name="n"))
logger.finalize()
'''
CONFIG = """
[mypy]
strict = True
[mypy-torch.*,numpy.*,pandas.*,pyarrow.*,polars.*,matplotlib.*,duckdb.*,IPython.*,distributed.*,fsspec.*]
follow_imports = skip
"""


def named() -> str:
    """A program that names all that each front has."""
    return "".join(f"import {front}\n" + "".join(
        f"print({front}.{name})\n" for name in importlib.import_module(front).__all__) for front in FRONTS)


def test_a_program_that_uses_every_public_name(run):
    pytest.importorskip("mypy")
    run.save(PROGRAM, "program.py")
    run.save(named(), "named.py")
    run.save(CONFIG, "mypy.ini")
    run.command(sys.executable, "-m", "mypy", "program.py", "named.py")
    assert "Success" in run.output
