"""``@profiler`` and ``step_profiler()``."""
from __future__ import annotations

import contextlib
import functools
import logging
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from ...._load import core as _core
from ...._rank import rank_and_world
from ...._trace import around
from ....torch import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from ....torch._profile import running, warn

_log = logging.getLogger(__name__)


def step_profiler() -> None:
    """A training step has ended; nothing happens where no profile is active."""
    active = running()
    if active is not None:
        active.step()


def profiler(enabled: Any = True, output_dir: str | os.PathLike[str] = "./profiler_logs",
             skip_first: int = 1, wait: int = 1, warmup: int = 1, active: int = 3, repeat: int = 1,
             with_stack: bool = False, with_flops: bool = True, with_modules: bool = False,
             nsight_enabled: bool = False, nsight_output: str = "nsight_profile", *,
             peak_tflops: float | None = None) -> Any:
    """Profile a function's steps ``[skip_first] [wait] [warmup] [active]``, the last three ``repeat`` times.

    Each rank writes ``rank_{rank}/`` for TensorBoard (a file a cycle) and ``trace_rank_{rank}.json`` (all
    cycles); rank 0 prints what took the time and how many FLOPs that were.

    :param enabled: false: the function is given back as it is. ``@profiler`` without () is ``@profiler()``.
    :param with_modules: names of modules in the stacks, so these are recorded, too.
    :param nsight_enabled: tell nsys where the function begins and ends (``-c cudaProfilerApi``).
    :param peak_tflops: the hardware's greatest speed, for a percentage.
    """
    if callable(enabled):
        return profiler()(enabled)
    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)
    if with_stack and active > 10:
        warn(f"profiler(with_stack=True, active={active}): stacks make traces large and steps "
             "slow: 3 to 10 steps are enough")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def profiled() -> Iterator[None]:
            if running() is not None:
                warn(f"{function.__name__}: a profile is active already, and goes on")
                yield
                return
            out = pathlib.Path(output_dir)
            out.mkdir(parents=True, exist_ok=True)
            nsys = "NSYS_PROFILING_SESSION_ID" in os.environ  # torch's profiler would find CUPTI taken
            prof = profile(activities=[ProfilerActivity.CPU] if nsys else None, schedule=plan,
                           on_trace_ready=functools.partial(_cycle, out), record_shapes=True,
                           with_stack=with_stack or with_modules, with_flops=with_flops,
                           log_file=out / "trace")
            try:
                with _nsight(nsight_enabled, nsight_output), prof:
                    yield
            finally:
                _finish(prof, out, with_flops, peak_tflops)
        return around(function, profiled) if enabled else function
    return decorate


def _cycle(out: pathlib.Path, prof: profile) -> None:
    """The rank may be known only now: by init_process_group() in the function."""
    name = f"rank_{rank_and_world()[0]}"
    tensorboard_trace_handler(out / name, name)(prof)


def _finish(prof: profile, out: pathlib.Path, with_flops: bool, peak: float | None) -> None:
    rank, _ = rank_and_world()
    if prof.cycles:
        prof.acc_events = True  # from now on: all cycles
        prof.export_chrome_trace(out / f"trace_rank_{rank}.json")
        if rank == 0:
            _print_summary(prof, with_flops, peak)


def _print_summary(prof: profile, with_flops: bool, peak: float | None) -> None:
    averages = prof.key_averages()
    device = any(average.device_time_total for average in averages)
    print(f"Top operations by {'CUDA' if device else 'CPU'} time"
          f"{'' if device else ' (no device worked)'}:")
    print(averages.table(sort_by="cuda_time_total" if device else "cpu_time_total", row_limit=10))
    flops = sum(average.flops for average in averages)
    if not with_flops or not flops:
        return
    print(averages.table(sort_by="self_flops", row_limit=10, columns="flops"))
    steps = [average for average in averages if average.key.startswith("ProfilerStep")]
    seconds = sum(average.cpu_time_total for average in steps) / 1e6
    count = sum(average.count for average in steps)
    if seconds:
        of_peak = f", {flops / seconds / peak / 1e10:.3g} % of {peak:g} TFLOP/s" if peak else ""
        print(f"FLOPs: {flops / count / 1e9:.4g} GFLOP a step, {count} steps of {seconds / count * 1e3:.4g} ms: "
              f"{flops / seconds / 1e9:.4g} GFLOP/s{of_peak}")


# ---- Nsight Systems ----

@contextlib.contextmanager
def _nsight(enabled: bool, output: str) -> Iterator[None]:
    """cudaProfilerStart() and cudaProfilerStop() around the function; nothing that goes wrong is raised."""
    if enabled:
        error = _core.cuda_profiler(True)
        _log.log(logging.WARNING if error else logging.INFO, "nsight: %s; if this runs under: nsys profile "
                 "-c cudaProfilerApi -o %s python …", error or f"output {output}", output)
    try:
        yield
    finally:
        error = _core.cuda_profiler(False) if enabled else ""
        if error:
            _log.warning("nsight: %s", error)
