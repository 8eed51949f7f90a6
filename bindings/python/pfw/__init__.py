"""pfw: record what this process does with its time, as JSON lines.

>>> import pfw
>>> pfw.start("t")              # or run the program with: pfw run -o t train.py
>>> with pfw.span("load", epoch=1):
...     pass
>>> pfw.stop()                  # t.pfw is complete; so it is when the program just ends

Nothing here raises because tracing is off or the library is missing: every call is then a no-op.
All functions may be called from any thread.
"""
from ._api import (Segment, Stats, compute_event, counter, current, enabled, event, flush, instant,
                   on_trace_ready, schedule, set_rank, span, start, stats, step, stop, version)
from ._calls import trace_calls
from ._trace import record_function, trace

__all__ = ["Segment", "Stats", "compute_event", "counter", "current", "enabled", "event", "flush",
           "instant", "on_trace_ready", "record_function", "schedule", "set_rank", "span", "start",
           "stats", "step", "stop", "trace", "trace_calls", "version"]
__version__ = version()
