"""What stats() and the hook of on_trace_ready() are given."""
from __future__ import annotations

from typing import NamedTuple


class Stats(NamedTuple):
    """What was recorded so far; figures lag the threads by at most PFW_FLUSH_MS."""

    events: int
    """Lines in the trace that are not metadata."""
    lost: int
    """Events that could not be kept, for whatever reason."""
    waits: int
    """Times that a thread waited for room."""
    waited_ns: int
    """Nanoseconds that threads waited for room."""
    trace_bytes: int
    """Length of the trace."""
    enabled: bool
    """Whether events are recorded now."""
    path: str
    """The trace, "" while there is none."""


class Segment(NamedTuple):
    """A finished cycle of the schedule, as the hook is told."""

    path: str
    cycle: int
    first_step: int
    steps: int
    step: int
    first_id: int
    last_id: int
    events: int
    lost: int
