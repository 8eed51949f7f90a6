"""pfw: record what this process does with its time, as JSON lines.

>>> import pfw
>>> pfw.start("t")              # or run the program with: pfw run -o t train.py
>>> with pfw.span("load", epoch=1):
...     pass
>>> pfw.stop()                  # t.pfw is complete; so it is when the program just ends

Nothing here raises because tracing is off or the library is missing: every call is then a no-op.
All functions may be called from any thread.
"""
from __future__ import annotations

from typing import Any

from ._api import (Segment, Stats, compute_event, counter, current, dump, enabled, event, flush, instant,
                   on_trace_ready, schedule, set_rank, span, start, stats, step, stop, version)
from ._calls import trace_calls
from ._dask import to_dask
from ._read import Lines, query, read, scan
from ._tables import Run, Table, compare, memory, overlap, patterns, summary, table
from ._trace import record_function, trace

__all__ = ["Lines", "Run", "Segment", "Stats", "Table", "compare", "compute_event", "counter", "current", "dump",
           "enabled", "event", "flush", "instant", "memory", "on_trace_ready", "overlap", "patterns", "query", "read",
           "record_function", "scan", "schedule", "set_rank", "span", "start", "stats", "step", "stop", "summary",
           "table", "to_dask", "trace", "trace_calls", "version"]
__version__ = version()


def __getattr__(name: str) -> Any:
    """pfw.torch's, for short; what they need is loaded when they are asked for."""
    if name in ("compare_impls", "memory_profile"):
        from . import torch
        return getattr(torch, name)
    if name == "plot":
        import importlib
        return importlib.import_module("pfw.plot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext pfw``: gives a notebook ``%%pfw [NAME] [--calls] [--quiet]``."""
    from . import _notebook

    _notebook.load(shell)
