"""Plots of traces on matplotlib: ``pfw.plot.timeline``, ``pfw.plot.overlap``, ``pfw.plot.sizes``.

Each takes what ``pfw.overlap`` and ``pfw.patterns`` take, draws into ``ax`` (None: new ones), and returns the Axes.
"""
from __future__ import annotations

import warnings
from typing import Any

from . import _tables
from ._read import package

__all__ = ["overlap", "sizes", "timeline"]

_SIZES = {"0_100": "100 B", "100_1k": "1 KiB", "1k_10k": "10 KiB", "10k_100k": "100 KiB", "100k_1m": "1 MiB",
          "1m_4m": "4 MiB", "4m_10m": "10 MiB", "10m_100m": "100 MiB", "100m_1g": "1 GiB", "1g_plus": "more"}


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    return package("matplotlib.pyplot", "plot").subplots()[1]


def _steps(paths: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rows = _tables.overlap(paths, steps=True, **options).rows()
    if not rows:
        raise ValueError(str(said[-1].message) if said else "these traces have no steps")
    for one in said:
        warnings.warn(one.message, stacklevel=3)
    return rows


def timeline(paths: Any = (), *, ax: Any = None, **options: Any) -> Any:
    """The steps of each rank in the course of time: a lane a rank, a bar a step.

    :param paths: as of :func:`pfw.overlap`.
    :param ax: matplotlib's Axes to draw into.
    :param options: as of :func:`pfw.overlap`.
    :raises ImportError: matplotlib is not there.
    :raises ValueError: the traces cannot be read, or have no steps.
    """
    ax, rows = _axes(ax), _steps(paths, options)
    begin = min(row["ts"] for row in rows)
    ranks = list(dict.fromkeys(row["rank"] for row in rows))
    for lane, rank in enumerate(ranks):
        steps = [row for row in rows if row["rank"] == rank]
        ax.broken_barh([((row["ts"] - begin) / 1e9, (row["wall"] or 0) / 1e6) for row in steps], (lane - 0.4, 0.8),
                       facecolors=[f"C{row['step'] % 2}" for row in steps])
    ax.set_yticks(range(len(ranks)), ["no rank" if rank is None else f"rank {rank}" for rank in ranks])
    ax.invert_yaxis()
    ax.set_xlabel("seconds since the first step")
    ax.set_title("Steps")
    return ax


def _mean_ms(rows: list[dict[str, Any]], key: str) -> float:
    known = [row[key] for row in rows if row[key] is not None]
    return sum(known) / len(known) / 1000 if known else 0.0


def overlap(paths: Any = (), *, ax: Any = None, **options: Any) -> Any:
    """The I/O of each step: a bar of what no compute hides, and on it the rest; ms, the mean of the ranks.

    :param paths: as of :func:`pfw.overlap`, as ``ax`` and ``options`` are of :func:`timeline`.
    :raises ImportError: matplotlib is not there.
    :raises ValueError: the traces cannot be read, have no steps, or no I/O.
    """
    ax, rows = _axes(ax), _steps(paths, options)
    if all(row["io"] is None for row in rows):
        raise ValueError("no I/O call is in these traces: DFTRACER_DISABLE_IO=0, DFTRACER_DATA_DIR and PFW_CALLS "
                         "record them")
    steps: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        steps.setdefault(row["step"], []).append(row)
    alone = [_mean_ms(steps[step], "io_unoverlapped") for step in steps]
    rest = [_mean_ms(steps[step], "io") - ms for step, ms in zip(steps, alone)]
    ax.bar(list(steps), alone, label="unoverlapped I/O", color="C3")
    ax.bar(list(steps), rest, bottom=alone, label="overlapped I/O", color="C0")
    ax.set_xlabel("step")
    ax.set_ylabel("ms")
    ax.set_title("I/O of each step")
    ax.legend()
    return ax


def sizes(paths: Any = (), *, ax: Any = None, **options: Any) -> Any:
    """How many reads and writes have which size, of all files.

    :param paths: as of :func:`pfw.patterns`, and so are ``options``; ``ax`` is that of :func:`timeline`.
    :raises ImportError: matplotlib is not there.
    :raises ValueError: the traces cannot be read.
    """
    ax = _axes(ax)
    row = _tables.patterns(paths, **{"row_limit": 0, **options}).rows()[0]
    for side, (name, title) in enumerate((("read", "reads"), ("write", "writes"))):
        ax.bar([place + 0.4 * side - 0.2 for place in range(len(_SIZES))],
               [row[f"size_{name}_{key}"] for key in _SIZES], width=0.4, label=title)
    ax.set_xticks(range(len(_SIZES)), [("" if text == "more" else "to ") + text for text in _SIZES.values()],
                  rotation=45, ha="right")
    ax.set_ylabel("calls")
    ax.set_title("Sizes of reads and writes")
    ax.legend()
    return ax
