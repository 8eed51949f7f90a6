"""Where the original has it: ``from parallelization.profiler.decorator import step_profiler``."""
from .decorator import profiler, step_profiler

__all__ = ["profiler", "step_profiler"]
