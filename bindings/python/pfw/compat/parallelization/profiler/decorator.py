"""``@profiler`` and ``step_profiler()``."""
from __future__ import annotations

import ctypes
import functools
import logging
import os
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

from ...._rank import rank_and_world
from ....torch import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from ....torch._profile import running, torch_module

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
    plan = functools.partial(schedule, wait=wait, warmup=warmup, active=active, repeat=repeat,
                             skip_first=skip_first)
    plan()  # its arguments are wrong here, not when training begins
    if with_stack and active > 10:
        warnings.warn(f"profiler(with_stack=True, active={active}): stacks make traces large and steps "
                      "slow: 3 to 10 steps are enough", stacklevel=2)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not enabled:
            return function

        @functools.wraps(function)
        def profiled(*args: Any, **keywords: Any) -> Any:
            if running() is not None:
                warnings.warn(f"{function.__name__}: a profile is active already, and goes on", stacklevel=2)
                return function(*args, **keywords)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it was said when the function was decorated
                steps = plan()
            out = pathlib.Path(output_dir)
            out.mkdir(parents=True, exist_ok=True)
            prof = profile(activities=[ProfilerActivity.CPU] if _nsys_has_the_device() else None,
                           schedule=steps, on_trace_ready=functools.partial(_cycle, out),
                           record_shapes=True, with_stack=with_stack or with_modules,
                           with_flops=with_flops, with_modules=with_modules, log_file=out / "trace")
            with _nsight(nsight_enabled, nsight_output):
                prof.start()
                try:
                    return function(*args, **keywords)
                finally:
                    prof.stop()
                    _finish(prof, out, active, with_flops, peak_tflops)
        return profiled
    return decorate


def _cycle(out: pathlib.Path, prof: profile) -> None:
    """The rank may be known only now: by init_process_group() in the function."""
    name = f"rank_{rank_and_world()[0]}"
    tensorboard_trace_handler(out / name, name)(prof)


def _finish(prof: profile, out: pathlib.Path, active: int, with_flops: bool, peak: float | None) -> None:
    steps = prof.cycles[-1].steps if prof.cycles else 0
    if steps < active:
        warnings.warn(f"profiler: {steps} of {active} active steps seen"
                      + (" in the last cycle" if len(prof.cycles) > 1 else "")
                      + ": call step_profiler() at the end of each step, and run more of them", stacklevel=3)
    if not prof.cycles:
        return
    prof.acc_events = True  # from now on: all cycles
    rank, _ = rank_and_world()
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

def _nsys_has_the_device() -> bool:
    """Beside nsys torch's profiler would find CUPTI taken."""
    return "NSYS_PROFILING_SESSION_ID" in os.environ


def _cudart() -> Any:
    """CUDA's run-time library: the one that torch has, else the first there is."""
    torch = torch_module()
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.cudart()
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class _nsight:
    """cudaProfilerStart() and cudaProfilerStop() around the function; nothing that goes wrong is raised."""

    def __init__(self, enabled: bool, output: str) -> None:
        self.library = _cudart() if enabled else None
        if enabled:
            command = f"nsys profile -c cudaProfilerApi -o {output} python …"
            if self.library is None:
                _log.warning("nsight: no libcudart is here, so nsys is not told where to begin: %s", command)
            else:
                _log.info("nsight: output %s, if this runs under: %s", output, command)

    def _call(self, name: str) -> None:
        try:
            if self.library is not None:
                getattr(self.library, name)()
        except Exception as error:  # whatever a driver says, training goes on
            _log.warning("nsight: %s: %s", name, error)

    def __enter__(self) -> None:
        self._call("cudaProfilerStart")

    def __exit__(self, *exception: object) -> None:
        self._call("cudaProfilerStop")
