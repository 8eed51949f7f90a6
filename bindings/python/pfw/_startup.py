"""What `pfw run` asks of a Python that it starts, told by variables."""
from __future__ import annotations

import atexit
import os
import sys

from ._calls import TraceCalls, trace_calls
from ._load import core


def _calls() -> None:
    """PFW_PY_CALLS: 1, or a list of functions and modules; min=TIME leaves shorter calls out."""
    words = [word for word in os.environ.get("PFW_PY_CALLS", "").split(",") if word]
    if not words or words == ["0"] or not core.enabled():
        return
    min_us = 0.0
    include = []
    for word in words:
        if word.startswith("min="):
            min_us = _time_us(word[len("min="):])
        elif word != "1":
            include.append(word)
    calls = trace_calls(include, min_us=min_us)
    atexit.register(_say_unmatched, calls)


def _say_unmatched(calls: TraceCalls) -> None:
    """Once a run: not by workers, which call what they are made for."""
    words = calls.unmatched()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if words and (multiprocessing is None or multiprocessing.parent_process() is None):
        print(f"pfw: PFW_PY_CALLS: no call was {' or '.join(words)}", file=sys.stderr)


def _time_us(text: str) -> float:
    units = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    digits = text.rstrip("nums")
    try:
        return float(digits) * units[text[len(digits):] or "us"]
    except (KeyError, ValueError):
        print(f"pfw: PFW_PY_CALLS: min={text}: wants a time such as 20us; all calls are traced",
              file=sys.stderr)
        return 0.0


def _compat() -> None:
    """PFW_COMPAT: the package to stand in for."""
    name = os.environ.get("PFW_COMPAT")
    if name:
        from . import compat

        compat.install(name)


def begin() -> None:
    """Do it; raises nothing that the program would have to know of."""
    _compat()
    _calls()
