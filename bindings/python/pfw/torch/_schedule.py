"""torch.profiler's schedule, where there need not be a torch."""
from __future__ import annotations

import enum
import warnings

from .._load import core as _core


# What is recorded, and what is done in a step; torch's own are taken wherever these are.
ProfilerActivity = enum.IntEnum("ProfilerActivity", ["CPU", "XPU", "CUDA"], start=0)
ProfilerAction = enum.IntEnum("ProfilerAction", ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"], start=0)


class schedule:
    """Which steps are recorded: torch.profiler.schedule()'s arguments, meaning and errors.

    A callable from the number of a step to what is done in it.
    """

    def __init__(self, *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
                 skip_first_wait: int = 0) -> None:
        if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
            raise AssertionError(
                f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
                f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
                f"skip_first={skip_first} (need >= 0).")
        if warmup == 0:
            warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
        self.wait, self.warmup, self.active, self.repeat = wait, warmup, active, repeat
        self.skip_first, self.skip_first_wait = skip_first, skip_first_wait

    def __call__(self, step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        return ProfilerAction(_core.schedule_action(
            step, self.skip_first, self.wait, self.warmup, self.active, self.repeat,
            bool(self.skip_first_wait)))
