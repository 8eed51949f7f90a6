"""PFW_TORCH_OPS beside torch.profiler: an operator that both see is in the trace once, as the profile has it.

Of a profile that is under way the recorder only counts the operators: they are written when the profile
is, by trace_handler, or else here, when the next one begins or the program ends.
"""
from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .._imports import when_imported
from .._load import core as _core

# enum pfw_profile
_ENDS, _BEGINS, _BEGINS_EVERYWHERE, _WRITTEN, _ASKS, _GPU_SINCE = range(6)

_running: Any = None  # the profile that operators are left to
_pending: tuple[Any, int] | None = None  # one that has ended, and how many it has
_write: Callable[[Any], bool] | None = None


def recorded() -> bool:
    """Whether the recorder is to record operators itself."""
    return os.environ.get("PFW_TORCH_OPS", "0") not in ("", "0")


def _begin(inner: Any) -> None:
    global _running
    flush()
    if getattr(inner, "enabled", True) and getattr(inner, "use_cpu", True):
        everywhere = getattr(getattr(inner, "experimental_config", None), "profile_all_threads", False)
        _running, inner._pfw_written = inner, None
        _core.torch_profile(_BEGINS_EVERYWHERE if everywhere else _BEGINS, 0)


def _end(inner: Any) -> None:
    global _running, _pending
    if _running is inner:
        _running = None
        count = _core.torch_profile(_ENDS, 0)
        _pending = (inner, count) if count else None


def flush() -> None:
    """Write the operators of a profile that nobody has written."""
    global _pending
    if _pending is not None and _write is not None:
        inner = _pending[0]
        if _write(inner):
            written(inner)
        _pending = None


def written(inner: Any) -> None:
    """The operators of this profile are in the trace."""
    global _pending
    if _pending is not None and _pending[0] is inner:
        _core.torch_profile(_WRITTEN, _pending[1])
        _pending = None
    if recorded():
        inner._pfw_written = getattr(inner, "kineto_results", None)


def wanted(inner: Any) -> bool:
    """Whether the operators of this profile are still to be written: one that nobody noticed when it began
    was none to leave them to."""
    if not recorded():
        return True
    if not hasattr(inner, "_pfw_written"):
        return not _core.torch_profile(_ASKS, 0)
    results = inner._pfw_written
    return results is None or results is not getattr(inner, "kineto_results", None)


def gpu_since_ns() -> int:
    """From when on the recorder has GPU work itself, beside torch.profiler (CUPTI 13.3 lets both); 0: not."""
    return int(_core.torch_profile(_GPU_SINCE, 0))


def _at_exit() -> None:
    try:
        if _running is not None:
            _running.__exit__(None, None, None)
        flush()
    except Exception:  # noqa: BLE001 - what is not written is counted as lost
        pass


def _forked() -> None:
    global _running, _pending
    _running = _pending = None


def _watch(profiler: ModuleType) -> None:
    kind: Any = getattr(profiler, "profile", None)
    start, leave = getattr(kind, "_start_trace", None), getattr(kind, "__exit__", None)
    if start is None or leave is None or hasattr(start, "_pfw"):
        return

    @functools.wraps(start)
    def _start_trace(self: Any) -> Any:
        _begin(self)
        return start(self)

    @functools.wraps(leave)
    def __exit__(self: Any, *exception: Any) -> Any:
        try:
            return leave(self, *exception)
        finally:
            _end(self)

    _start_trace._pfw = True  # type: ignore[attr-defined]
    kind._start_trace, kind.__exit__ = _start_trace, __exit__
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_forked)


def watch_profiles(write: Callable[[Any], bool]) -> None:
    """Have profiles noticed; ``write`` writes the operators of one and nothing else, and whether it could."""
    global _write
    if recorded():
        _write = write
        when_imported("torch.autograd.profiler", _watch)
