"""What pfw._core is where it cannot be loaded: the same names, doing nothing."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Span:
    """A span that is not recorded."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def begin(self) -> Span:
        return self

    def end(self) -> None:
        return None

    def set(self, **args: object) -> None:
        return None


class Mark:
    """Records nothing."""

    def __init__(self, name: str, category: str, /) -> None:
        self._name, self._cat, self._enable = name, category, True
        self._arguments_int: dict[str, Any] = {}
        self._arguments_float: dict[str, Any] = {}
        self._arguments_string: dict[str, Any] = {}

    def __enter__(self) -> Mark:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def flush(self) -> Mark:
        return self

    reset = flush


def span(name: str, category: str | None = None, /, **args: object) -> Span:
    return Span()


Switch = type


def nothing(*args: object, **keywords: object) -> None:
    return None


def giving(thing: object, /) -> Callable[..., object]:
    return lambda *args: thing


def gpus(since_us: int, /) -> list[tuple[str, int, float | None]]:
    return []


def cuda_profiler(start: bool, /) -> str:
    return ""


def _nothing(*args: Any, **keywords: Any) -> int:
    return 0


def traced(function: Any, name: str, category: str | None, /) -> Any:
    return function


def marked(function: Any, name: str, mark: Mark, picks: Any, /) -> Any:
    return function


class _Steps:
    """The inner iterator or awaitable as it is."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Any:
        return (yield from self.inner)

    def __await__(self) -> Any:
        return (yield from self.inner.__await__())


def steps(inner: Any, span: Span, owns: bool, /) -> Any:
    return _Steps(inner)


def enabled() -> bool:
    return False


start = stop = flush = step = set_rank = set_schedule = on_trace_ready = _nothing
calls_begin = calls_end = calls_profile = calls_enter = calls_leave = _nothing
calls_throw = calls_unwind = _nothing
current = finished = instant = counter = event = compute_event = kineto = _nothing
schedule_action = _nothing


def torch_profile(what: int, count: int, /) -> int:
    return 0


def stats() -> tuple[int, int, int, int, int, bool, str]:
    return 0, 0, 0, 0, 0, False, ""


def version() -> str:
    return ""


def say(error: ImportError) -> None:
    """One line: why nothing is recorded."""
    print(f"pfw: nothing is recorded by Python: {error}: reinstall pfwtrace for this Python",
          file=sys.stderr)
