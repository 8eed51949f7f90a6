"""``from dftracer.python.torch import trace_handler``: torch.profiler's events into the trace."""
from ...torch import trace_handler

__all__ = ["trace_handler"]
