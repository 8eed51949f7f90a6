"""Tables of traces: ``pfw.table``, ``overlap``, ``patterns``, ``memory``, ``compare``; ``pfw.summary`` of a run."""
from __future__ import annotations

import dataclasses
import html
import json
import os
import shutil
import warnings
from collections.abc import Iterable
from typing import Any

from ._read import Lines, _given, _interruptible, _ranks, _texts, package

# What of pfw_read_set() selects lines; all else is an option of the command.
_CONDITIONS = {"since", "until", "min-dur", "cat", "name", "fname", "rank", "pid", "tid", "step", "where", "all-runs",
               "jobs"}
_SHOWN = 60  # rows of a table in a notebook
_PRINTED = 20  # of one that is printed
_TEXT_PRINTED = 48  # characters of a text
_NAMES = {"rank", "pid", "tid", "step", "ts", "device"}  # numbers that are no amounts


class Table(Lines):
    """The table of a command as Arrow data: :func:`table`, :func:`overlap`, :func:`patterns`, :func:`memory`,
    :func:`compare`.

    To frames as :class:`pfw.Lines`; a notebook shows it, and ``print()`` prints its first rows.  Each use makes the table
    anew.
    """

    def __init__(self, command: str, paths: list[bytes], conditions: list[tuple[str, str]],
                 options: list[tuple[str, str]]) -> None:
        super().__init__(paths, conditions)
        self._command, self._of_command = command, options

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new stream of one record batch, in a capsule."""
        from . import _reader

        reader = _reader.reader(self._paths, self._options)
        self._readers = [reader]
        return _interruptible(lambda: _reader.table(reader, self._command, self._of_command),
                              lambda: _reader.stop(reader))

    def _parts(self) -> list[Lines]:
        return [self]

    def dataset(self) -> Any:
        """It as a pyarrow.dataset.Dataset, made once."""
        return package("pyarrow.dataset", "arrow").dataset(self.arrow())

    def _warned(self, whole: Any) -> Any:
        for text in self.problems:
            warnings.warn(text, stacklevel=3)
        return whole

    def columns(self) -> dict[str, list[Any]]:
        """Its columns by their names, as lists of int, float, str and None.  Needs no other package."""
        from . import _reader

        return self._warned(_reader.batch(self.__arrow_c_stream__()))  # type: ignore[no-any-return]

    def rows(self) -> list[dict[str, Any]]:
        """Its rows as dicts.  Needs no other package."""
        columns = self.columns()
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def __repr__(self) -> str:
        paths = ", ".join(os.fsdecode(path) for path in self._paths) or "the newest run"
        return f"<pfw.Table: {self._command} of {paths}>"

    def __str__(self) -> str:
        return _text_table(self.columns())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # of IPython's prompt
        printer.text(str(self))

    def _repr_html_(self) -> str:
        columns = self.columns()
        return _html_table(columns, f"pfw {self._command}")


def _number(name: str, value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value) if name in _NAMES else f"{value:,}"


def printable(text: str) -> str:
    """On one line of a terminal, whatever is in a name."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text_column(name: str, values: list[Any]) -> list[str]:
    """Its name and cells, of one width: numbers to the right."""
    texts = ["-" if value is None else printable(value) if isinstance(value, str) else _number(name, value)
             for value in values]
    cells = [text if len(text) <= _TEXT_PRINTED else text[:_TEXT_PRINTED - 1] + "…" for text in [printable(name), *texts]]
    width = max(map(len, cells))
    left = any(isinstance(value, str) for value in values)
    return [cell.ljust(width) if left else cell.rjust(width) for cell in cells]


def _text_table(columns: dict[str, list[Any]]) -> str:
    """As many rows and columns as a person reads: those that have values, as far as the terminal is wide."""
    rows = len(next(iter(columns.values()), []))
    made = [_text_column(name, values[:_PRINTED]) for name, values in columns.items()
            if not rows or any(value is not None for value in values)]
    room, few = max(shutil.get_terminal_size((120, 24)).columns, 40), made[:1]
    for column in made[1:]:
        if sum(len(one[0]) + 2 for one in few) + len(column[0]) > room:
            break
        few.append(column)
    lines = ["  ".join(cells).rstrip() for cells in zip(*few)]
    if rows > _PRINTED:
        lines.append(f"… {rows - _PRINTED:,} more rows")
    return "\n".join([*lines, f"[{rows:,} row{'s' * (rows != 1)}, {len(few)} of {len(columns)} columns]"])


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        return f'<td style="text-align:left; white-space:pre-wrap">{html.escape(value)}</td>'
    return f'<td style="text-align:right">{_number(name, value)}</td>'


def _html_rows(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    names = list(names)
    return "".join("<tr>" + "".join(map(_cell, names, row)) + "</tr>" for row in rows)


def _html_table(columns: dict[str, list[Any]], title: str) -> str:
    """Without colours of its own, so that it is read on light and dark."""
    rows = list(zip(*columns.values()))
    head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in columns)
    more = f"<p>{len(rows) - _SHOWN:,} more rows</p>" if len(rows) > _SHOWN else ""
    return (f'<div style="overflow-x:auto"><table><caption style="text-align:left">{html.escape(title)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{_html_rows(columns, rows[:_SHOWN])}</tbody></table>{more}</div>")


def _table(command: str, paths: Any, ranks: Any, options: dict[str, Any]) -> Table:
    conditions: list[tuple[str, str]] = _ranks(ranks)
    of_command: list[tuple[str, str]] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        if value is None:
            continue
        if name in _CONDITIONS:
            conditions += [(name, text) for text in _texts(value)]
        else:
            of_command.append((name, ",".join(_texts(value))))
    return Table(command, _given(paths), conditions, of_command)


def table(paths: Any = (), *, group_by: Any = None, where: Any = None, ranks: Any = None, **options: Any) -> Table:
    """What took the time, as ``pfw table``: a row a name, file, rank …

    ``pfw.table("t", group_by="fname").to_pandas()``, ``.to_polars()``, ``.arrow()``, ``.duckdb()``, ``.rows()``.
    Times are µs (float), counts and bytes int; docs/table.rst has the columns.

    :param paths: files, directories, globs or base names, one or several; none: the newest run here.
    :param group_by: the fields of a row, "name,rank" or a list.
    :param where: an expression, or several that all have to be true.
    :param ranks: a number, several, or "0,8-15".
    :param options: of ``pfw table``: ``sort_by="p99"``, ``columns=["count", "total"]``, ``row_limit=20`` (default: all
        rows), ``plain=True``, ``since="50%"``, ``cat="POSIX"`` …; and ``jobs=4``, the number of threads.
    :raises ValueError: when it is made: the traces cannot be read, or an option is none.
    """
    return _table("table", paths, ranks, {"group-by": group_by, "where": where, **options})


def overlap(paths: Any = (), *, steps: bool = False, bins: Any = None, ranks: Any = None, **options: Any) -> Table:
    """How I/O, compute and communication overlap, as ``pfw overlap``: a row a rank, and one of all ranks.

    Times are µs (float), ``ts`` is ns since the epoch (int), as of :func:`read`.  ``type`` is "rank" or "all".

    :param paths: as of :func:`table`, and ``ranks``.
    :param steps: a row a step and rank instead.
    :param bins: a row an interval and rank instead: how many, or how long each is, "50ms".
    :param options: of ``pfw overlap``: ``compute="my_span*"``, ``since="50%"`` …
    :raises ValueError: as of :func:`table`.
    """
    return _table("overlap", paths, ranks, {"steps": steps, "bins": bins, **options})


def patterns(paths: Any = (), *, where: Any = None, ranks: Any = None, **options: Any) -> Table:
    """How files are used, as ``pfw patterns``: a row of all files, of each rank and of each file (``section``).

    :param paths: as of :func:`table`, and ``where`` and ``ranks``.
    :param options: of ``pfw patterns``: ``small=65536``, ``alignment=512``, ``row_limit=100``, ``fname="*.npz"`` …
    :raises ValueError: as of :func:`table`.
    """
    return _table("patterns", paths, ranks, {"where": where, **options})


def memory(paths: Any = (), *, rows: str = "device", bins: int | None = None, where: Any = None, ranks: Any = None,
           **options: Any) -> Table:
    """Allocations, as ``pfw memory``.

    ``ts`` and ``peak_ts`` are ns since the epoch (int).

    :param paths: as of :func:`table`, and ``where`` and ``ranks``; also PyTorch's snapshots.
    :param rows: "device": a row a device of a process; "step": of each step; "owner": who allocates; "unfreed": what is
        not freed; "time": the course over time, in ``bins`` intervals.
    :param options: of ``pfw memory``: ``step="10-20"``, ``row_limit=100`` …
    :raises ValueError: as of :func:`table`.
    """
    return _table("memory", paths, ranks, {"rows": rows, "bins": bins, "where": where, **options})


def compare(a: Any, b: Any, *, group_by: Any = None, where: Any = None, ranks: Any = None, **options: Any) -> Table:
    """What changed between two runs, or between several and others, as ``pfw compare``: a row a call, those that differ
    most first.

    Times are µs (float), changes are percent, ``significant`` is a bool; docs/analysis.rst has the method.

    :param a: traces as of :func:`table`; several are runs of this side.
    :param b: the other side.
    :param group_by: the fields of a row, "cat,name" or a list.
    :param where: as of :func:`table`, and ``ranks``.
    :param options: of ``pfw compare``: ``cat="POSIX"``, ``row_limit=20``, ``since="50%"`` …
    :raises ValueError: as of :func:`table`.
    """
    return _table("compare", [*_given(a), b"--", *_given(b)], ranks, {"group-by": group_by, "where": where, **options})


@dataclasses.dataclass
class Run:
    """What a run was: :func:`summary`.  A notebook shows it."""

    commands: list[str]  #: what ran, each command once
    hosts: list[str]
    processes: int
    ranks: list[int]
    start_ns: int | None  #: of its first event, since the epoch
    wall_us: float | None  #: of all ranks: from the first event to the last
    events: int
    io_calls: int | None  #: None: none was recorded
    io_bytes: int | None
    lost: int  #: events
    warnings: list[str]  #: what was lost, left out or cannot be read

    def _figures(self) -> list[tuple[str, Any]]:
        return [("command", "\n".join(self.commands) or None), ("hosts", ", ".join(self.hosts) or None),
                ("processes", self.processes), ("ranks", len(self.ranks)),
                ("wall", None if self.wall_us is None else f"{self.wall_us / 1e6:,.3f} s"), ("events", self.events),
                ("I/O calls", self.io_calls), ("I/O bytes", self.io_bytes), ("events lost", self.lost),
                *(("warning", text) for text in self.warnings)]

    def __str__(self) -> str:
        return "\n".join(f"{name:<11}  {'not recorded' if value is None else value}" for name, value in self._figures())

    def _repr_html_(self) -> str:
        rows = [(name, "not recorded" if value is None else value) for name, value in self._figures()]
        return ('<table><caption style="text-align:left">pfw run</caption>'
                f'<tbody>{_html_rows(("", ""), rows)}</tbody></table>')


def _own_lines(paths: Any, options: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines in which pfw speaks of the processes themselves, and what cannot be read of them."""
    from . import _reader
    from ._read import read

    names = ["process", "end", "lost", "untraced_child", "unrecorded"]
    lines = read(paths, meta=True, cat="pfw", name=names,
                 columns=["rank", "pid", "ts", "name", "args_json", "args.cmd", "args.count"], **options)
    stream, found = lines.__arrow_c_stream__(), []
    while (columns := _reader.batch(stream)):
        found += [dict(zip(columns, row)) for row in zip(*columns.values())]
    for line in found:
        line["args"] = json.loads(line["args_json"] or "{}")
    return found, lines.problems


def _warnings(lines: list[dict[str, Any]], unended: int) -> list[str]:
    lost: dict[Any, int] = {}
    for line in lines:
        if line["name"] == "lost":  # the total so far: the last one counts
            lost[line["pid"], line["args"].get("reason")] = line["args.count"] or 0
    reasons = dict.fromkeys(reason for _, reason in lost)
    texts = [f"{sum(count for (_, other), count in lost.items() if other == reason):,} events were lost: {reason}"
             for reason in reasons]
    untraced = sum(line["name"] == "untraced_child" for line in lines)
    if untraced:
        texts.append(f"{untraced:,} program{'s' * (untraced > 1)} that the run started "
                     f"{'are' if untraced > 1 else 'is'} not traced")
    kinds = {key: sum(line["args"].get(key, 0) for line in lines if line["name"] == "unrecorded")
             for key in ("io_uring_operations", "aio_contexts", "early_calls")}
    texts += [f"{count:,} {key.replace('_', ' ')} were not recorded" for key, count in kinds.items() if count]
    gpu_us = max((line["args"].get("gpu_us", 0) for line in lines if line["name"] == "unrecorded"), default=0)
    if gpu_us:
        texts.append(f"GPU work of the last {gpu_us / 1e3:,.1f} ms before a kill was not recorded")
    killed = sum(line["args"].get("reason") == "recovered" for line in lines if line["name"] == "end")
    if killed:
        texts.append(f"{killed:,} process{'es were' if killed > 1 else ' was'} killed")
    if unended:
        texts.append(f"{unended:,} process{'es' * (unended > 1)} still run{'s' * (unended == 1)}, or "
                     f"{'were' if unended > 1 else 'was'} killed")
    return texts


def summary(paths: Any = (), **options: Any) -> Run:
    """What a run was: what ran, how long, its ranks and events, and what was lost.

    :param paths: as of :func:`table`.
    :param options: ``ranks``, ``all_runs``, ``jobs``.
    :raises ValueError: the traces cannot be read.
    """
    try:
        rows = overlap(paths, **options).rows()
    except ValueError as error:
        raise ValueError(str(error).replace("overlap: ", "summary: ", 1)) from None
    lines, problems = _own_lines(paths, options)
    begun = [line for line in lines if line["name"] == "process"]
    ended = [line for line in lines if line["name"] == "end"]
    ranks = [row for row in rows if row["type"] == "rank"]
    timed = [row for row in ranks if row["ts"] is not None]
    start = min((row["ts"] for row in timed), default=None)
    every = rows[-1]
    return Run(commands=list(dict.fromkeys(str(line["args.cmd"]) for line in begun)),
               hosts=sorted({str(line["args"].get("host")) for line in begun}), processes=len(begun),
               ranks=[row["rank"] for row in ranks if row["rank"] is not None], start_ns=start,
               wall_us=None if start is None else max(row["ts"] - start + row["wall"] * 1000 for row in timed) / 1000,
               events=every["events"], io_calls=every["io_calls"], io_bytes=every["io_bytes"],
               lost=sum(line["args"].get("lost", 0) for line in ended),
               warnings=_warnings(lines, max(0, len(begun) - len(ended))) + problems)
