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

from ._api import (compute_event, counter, current, dump, enabled, event, flush, instant, on_trace_ready, schedule,
                   set_rank, span, start, stats, step, stop, version)
from ._trace import record_function, trace

TYPE_CHECKING = False  # here and below not typing's, which takes longer to import than pfw; checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from ._calls import trace_calls
    from ._dask import to_dask
    from ._figures import Segment, Stats
    from ._read import Lines, query, read, scan
    from ._tables import Run, Table, compare, memory, overlap, patterns, summary, table

__all__ = ["Lines", "Run", "Segment", "Stats", "Table", "compare", "compute_event", "counter", "current", "dump",
           "enabled", "event", "flush", "instant", "memory", "on_trace_ready", "overlap", "patterns", "query", "read",
           "record_function", "scan", "schedule", "set_rank", "span", "start", "stats", "step", "stop", "summary",
           "table", "to_dask", "trace", "trace_calls", "version"]
__version__ = version()


# What reads traces, what traces calls, and pfw.torch's, for short: loaded when they are asked for, as programs that only
# record should not wait for them.
_LATER = {**dict.fromkeys(("Segment", "Stats"), "_figures"), **dict.fromkeys(("Lines", "query", "read", "scan"), "_read"),
          **dict.fromkeys(("Run", "Table", "compare", "memory", "overlap", "patterns", "summary", "table"), "_tables"),
          **dict.fromkeys(("compare_impls", "memory_profile"), "torch"), "to_dask": "_dask",
          "trace_calls": "_calls"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("compat", "plot", "torch"):
        return importlib.import_module(f"pfw.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pfw.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext pfw``: gives a notebook ``%%pfw [NAME] [--calls] [--quiet]``."""
    from . import _notebook

    _notebook.load(shell)
