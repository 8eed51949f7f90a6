"""What PyTorch users put into their loop; torch itself is imported only where it is used.

>>> from torch.profiler import profile, schedule
>>> from pfw.torch import trace_handler
>>> with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=trace_handler) as p:
...     for batch in loader:
...         train(batch)
...         p.step()
"""
from ._handler import trace_handler

__all__ = ["trace_handler"]
