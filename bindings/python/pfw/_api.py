"""The functions of the package, over pfw._core."""
from __future__ import annotations

import os

from . import _children
from ._load import core as _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._figures import Segment, Stats

span = _core.span
event = _core.event
instant = _core.instant
enabled = _core.enabled
current = _core.current
compute_event = _core.compute_event


def _path(name: str, value: str | bytes | os.PathLike[str] | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"start({name}={value!r}): want a path: str, bytes or os.PathLike")
    text = os.fsdecode(value)
    if "\0" in text:
        raise ValueError(f"start({name}={value!r}): no path has a null character")
    return text


def start(log_file: str | os.PathLike[str] | None = None, *,
          data_dir: str | os.PathLike[str] | None = None,
          compression: bool | None = None) -> bool:
    """Start recording, unless the variable DFTRACER_ENABLE is 0.

    Without ``pfw run`` I/O calls are traced from now on, too, and so are processes that are forked,
    and spawned ones that import pfw: the variables of the environment that say so are set.  Starting
    again is harmless; another ``log_file`` renames the trace.

    :param log_file: name of the trace, ``.pfw`` or ``.pfw.gz`` is added; as DFTRACER_LOG_FILE.
    :param data_dir: trace I/O below these directories only (``:`` between them); "all": everywhere.
    :param compression: write ``.pfw.gz``.
    :returns: whether it records now.  What keeps it from that is said on standard error.
    """
    return begin(_path("log_file", log_file), _path("data_dir", data_dir), compression, False)


def begin(base: str | None, below: str | None, compression: bool | None, whole_us: bool) -> bool:
    """As :func:`start`, if need be with times in whole microseconds."""
    _core.start(base, below, compression, whole_us)
    recording: bool = _core.stats()[-2]
    if recording:
        _children.inherit(below, compression)
        _children.watch_ranks()
    return recording


def stop() -> None:
    """Stop recording: the trace is complete when this returns.  :func:`start` continues it."""
    _children.disinherit()
    _core.stop()


def flush() -> bool:
    """Write to the file what any thread has recorded so far; false where that failed (10 s)."""
    return _core.flush() == 0


def dump(why: str | None = None) -> bool:
    """With PFW_KEEP, write the events that are kept to a trace of their own, with the reason `why`.

    Returns when that is done, or does nothing without PFW_KEEP; false where it failed (60 s).
    """
    return _core.dump(why) == 0


def step() -> None:
    """Say that a step (a batch, an iteration) of this process has ended and the next begins."""
    _core.step()


def set_rank(rank: int, world_size: int) -> bool:
    """Say which rank this process is, where the environment could not: its file is renamed.

    ``torch.distributed.init_process_group()`` is noticed without it.

    :param rank: 0 <= rank < world_size.
    :returns: false where the numbers are none of a rank's.
    """
    return _children.set_rank(rank, world_size)


def schedule(*, active: int, wait: int = 0, warmup: int = 0, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: bool = False, discard_warmup: bool = False) -> bool:
    """Record some steps only: torch.profiler.schedule()'s arguments and meaning, from now on.

    Step 0 begins now, or with the next :func:`start` if nothing is recorded; :func:`step` ends it.
    All figures are steps, 0 to 2**31 - 1.

    :param active: steps recorded in a cycle, at least 1.
    :param wait: steps before them that are not recorded.
    :param warmup: steps before them that are marked ``phase`` "warmup".
    :param repeat: cycles, 0: for ever.
    :param skip_first: steps left out before the first cycle.
    :param skip_first_wait: leave out the first cycle's ``wait``.
    :param discard_warmup: do not record the warm-up steps at all.
    :returns: false where the schedule is none, or inside the hook (said on standard error).
    """
    return _core.set_schedule(skip_first, wait, warmup, active, repeat, skip_first_wait,
                              discard_warmup) == 0


def on_trace_ready(hook: Callable[[Segment], object] | None) -> bool:
    """Have ``hook(segment)`` called when a cycle of the schedule has been written to the trace.

    It is called inside the :func:`step` or :func:`stop` that ends the cycle, in its thread; an
    exception in it is printed and goes no further.  None: no hook.
    """
    from ._figures import Segment

    if hook is None:
        return _core.on_trace_ready(None) == 0
    if not callable(hook):
        raise TypeError(f"on_trace_ready({hook!r}): want a function of a Segment, or None")
    return _core.on_trace_ready(lambda *figures: hook(Segment(*figures))) == 0


def counter(name: str, value: float | None = None, /, **series: float) -> None:
    """One sample of a counter: ``counter("loss", 0.3)`` or ``counter("queue", length=3, free=5)``."""
    if value is not None:
        _core.counter(name, "value", value)
    for key, sample in series.items():
        _core.counter(name, key, sample)


def stats() -> Stats:
    """What was recorded so far."""
    from ._figures import Stats

    return Stats(*_core.stats())


def version() -> str:
    """The version of the recorder, "" where there is none."""
    return _core.version()


if _core.enabled():
    _children.watch_ranks()
