"""``pfw.trace_calls``: a span for each call of a Python function, without a change to the program."""
from __future__ import annotations

import fnmatch
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ._load import core

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_current: TraceCalls | None = None


def _installed() -> tuple[str, ...]:
    """Directories of what is installed: the standard library and packages."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(getattr(site, "getsitepackages", list)())
    paths.add(getattr(site, "getusersitepackages", str)())
    return tuple(os.path.abspath(path) + os.sep for path in paths if path)


def _is_installed(path: str, installed: tuple[str, ...]) -> bool:
    """Also in an environment other than this Python's, which a .pth file or PYTHONPATH may add."""
    path = os.path.abspath(path)
    return path.startswith(installed) or f"{os.sep}site-packages{os.sep}" in path \
        or f"{os.sep}dist-packages{os.sep}" in path


def _decider(include: tuple[str, ...], matched: set[str]) -> Callable[[Any], str | None]:
    installed = _installed()

    def decide(code: Any) -> str | None:
        path = code.co_filename
        if path.startswith(_HERE):
            return None
        frame = sys._getframe(1)
        module = frame.f_globals.get("__name__", "") if frame.f_code is code else ""
        name = getattr(code, "co_qualname", code.co_name)
        whole = name if module in ("", "__main__") else f"{module}.{name}"
        if not include:
            own = module == "__main__" or not (
                path.startswith("<") or _is_installed(path, installed))
            return whole if own else None
        for word in include:
            if os.sep in word:
                if fnmatch.fnmatch(os.path.abspath(path), word):
                    matched.add(word)
                    return whole
            elif whole == word or whole.startswith(word + ".") or fnmatch.fnmatch(whole, word) \
                    or (module == "__main__" and word == "__main__"):
                matched.add(word)
                return whole
        return None
    return decide


class TraceCalls:
    """Function tracing in force: ends with the block, or with :meth:`stop`."""

    def __init__(self, include: tuple[str, ...], min_us: float) -> None:
        self._include = include
        self._min_ns = max(0, int(min_us * 1000))
        self._matched: set[str] = set()
        self._tool: int | None = None
        self._on = False

    def _begin(self) -> TraceCalls:
        global _current
        if _current is not None:
            _current.stop()
        monitoring = getattr(sys, "monitoring", None)
        decide = _decider(self._include, self._matched)
        core.calls_begin(decide, self._min_ns, None if monitoring is None else monitoring.DISABLE)
        self._on = self._monitor(monitoring) if monitoring is not None else self._profile()
        _current = self
        return self

    def _monitor(self, monitoring: Any) -> bool:
        tool = next((number for number in (monitoring.PROFILER_ID, 3, 4)
                     if monitoring.get_tool(number) is None), None)
        if tool is None:
            return self._refuse("other tools have all of sys.monitoring's numbers")
        events = monitoring.events
        monitoring.use_tool_id(tool, "pfw")
        for event, callback in self._callbacks(events).items():
            monitoring.register_callback(tool, event, callback)
        monitoring.restart_events()
        monitoring.set_events(tool, sum(self._callbacks(events)))
        self._tool = tool
        return True

    @staticmethod
    def _callbacks(events: Any) -> dict[int, Any]:
        return {events.PY_START: core.calls_enter, events.PY_RESUME: core.calls_enter,
                events.PY_THROW: core.calls_throw, events.PY_RETURN: core.calls_leave,
                events.PY_YIELD: core.calls_leave, events.PY_UNWIND: core.calls_unwind}

    def _profile(self) -> bool:
        if sys.getprofile() is not None:
            return self._refuse("another profiler (sys.setprofile) is at work")
        threading.setprofile(core.calls_profile)
        core.calls_profile()
        return True

    @staticmethod
    def _refuse(why: str) -> bool:
        core.calls_end()
        print(f"pfw: trace_calls: {why}: function calls are not traced", file=sys.stderr)
        return False

    def unmatched(self) -> list[str]:
        """Which of what was to be included no call has been."""
        return [word for word in self._include if word not in self._matched]

    def stop(self) -> None:
        """No longer trace calls; harmless when it has stopped."""
        global _current
        if not self._on:
            return
        self._on = False
        _current = None
        core.calls_end()
        if self._tool is None:
            core.calls_profile()
            threading.setprofile(None)
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        monitoring.set_events(self._tool, 0)
        for event in self._callbacks(monitoring.events):
            monitoring.register_callback(self._tool, event, None)
        monitoring.free_tool_id(self._tool)

    def __enter__(self) -> TraceCalls:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def trace_calls(include: str | Iterable[str] | None = None, *, min_us: float = 0) -> TraceCalls:
    """Record a span of category "python" for each call of the functions meant, from now on.

    All threads from 3.12 on (sys.monitoring: functions that are not meant then cost nothing); before,
    the calling thread and those started later.  Each time that a generator or coroutine is entered is
    a span.

    :param include: modules ("model", with what is in it), functions ("model.Net.forward"), globs of
        either, or globs of paths (``"/home/me/*.py"``); None: whatever is not installed, that is, neither
        in the standard library nor in site-packages.
    :param min_us: leave out calls that took less, in microseconds.
    :returns: a context manager; its ``stop()`` ends it.  Where another profiler is at work one line on
        standard error says so, and nothing is traced.
    """
    try:
        words = (include,) if isinstance(include, str) else tuple(include or ())
    except TypeError:
        raise TypeError(f"trace_calls(include={include!r}): want a name or a glob, or several") from None
    if not isinstance(min_us, (int, float)):
        raise TypeError(f"trace_calls(min_us={min_us!r}): want a number of microseconds")
    return TraceCalls(words, min_us)._begin()
