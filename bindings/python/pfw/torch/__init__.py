"""What PyTorch users put into their loop; torch itself is imported only where it is used.

>>> from torch.profiler import profile, schedule
>>> from pfw.torch import trace_handler
>>> with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=trace_handler) as p:
...     for batch in loader:
...         train(batch)
...         p.step()

or, for the whole of torch.profiler's interface on a trace, ``from pfw.torch import profile``.
"""
from .._trace import record_function
from ._handler import trace_handler
from ._measure import compare_impls, memory_profile
from ._profile import profile, tensorboard_trace_handler
from ._schedule import ProfilerAction, ProfilerActivity, schedule

__all__ = ["ProfilerAction", "ProfilerActivity", "compare_impls", "memory_profile", "profile",
           "record_function", "schedule", "tensorboard_trace_handler", "trace_handler"]
