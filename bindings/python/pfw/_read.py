"""Traces as Python has them: ``pfw.query`` and ``pfw.read``."""
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

from . import _command


class _Number(str):
    """A number with decimals as it stands in the trace: a double has no room for a ts in ns."""


def _plain(value: Any) -> Any:
    if isinstance(value, _Number):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _ns(value: Any) -> int:
    """Microseconds as nanoseconds, exactly."""
    if not isinstance(value, _Number) or "e" in value or "E" in value:
        return round(float(value) * 1000)
    whole, _, decimals = value.partition(".")
    sign = -1 if value.startswith("-") else 1
    return int(whole) * 1000 + sign * int((decimals + "000")[:3])


def _words(paths: Any, conditions: dict[str, Any]) -> list[str]:
    words = []
    for name, value in conditions.items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            option = "--" + name.replace("_", "-")
            words += [option] if part is True else [f"{option}={part}"]
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return ["query", *words, "--", *(os.fspath(one) for one in given)]


def query(paths: Any = (), **conditions: Any) -> Iterator[dict[str, Any]]:
    """The lines of traces that fulfil conditions, one by one: ``pfw query``, parsed.

    As in the trace, but ``ts`` and ``dur`` are whole nanoseconds (int).

    :param paths: files, directories, globs or base names, one or several; none: the newest run here.
    :param conditions: options of ``pfw query``: ``since="50%"``, ``cat="POSIX"``, ``min_dur="1ms"``,
        ``where="args.ret < 0"``, ``rank="0,8-15"``, ``meta=True``, ``limit=10``, …
    :raises ValueError: the traces cannot be read, or a condition is none; standard error has why.
    """
    with subprocess.Popen([_command.path(), *_words(paths, conditions)], stdout=subprocess.PIPE,
                          env=_command.environment()) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                event = json.loads(line, parse_float=_Number)
                yield {key: _ns(value) if key in ("ts", "dur") else _plain(value)
                       for key, value in event.items()}
        except GeneratorExit:
            process.kill()
            raise
    if process.returncode == 2:
        raise ValueError(f"pfw query: {paths!r} cannot be read as asked; standard error has why")


def read(paths: Any = (), **conditions: Any) -> Any:
    """Traces as a pandas.DataFrame: a row an event, a column a key; ``args.X`` is args' X.

    ``ts`` and ``dur`` are nanoseconds (int64; ``dur`` is missing of instants and counters).  All of it
    is in memory: ask for what is needed.

    :param paths: as of :func:`query`.
    :param conditions: as of :func:`query`.
    :raises ImportError: pandas is not there.
    """
    import pandas

    rows = []
    for event in query(paths, **conditions):
        args = event.pop("args", None)
        if isinstance(args, dict):
            event.update((f"args.{key}", value) for key, value in args.items())
        rows.append(event)
    frame = pandas.DataFrame.from_records(rows)
    for name in ("ts", "dur"):
        if name in frame:
            frame[name] = frame[name].astype("Int64" if frame[name].isna().any() else "int64")
    return frame
