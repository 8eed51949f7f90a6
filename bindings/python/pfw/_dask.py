"""``pfw.to_dask``: traces as a frame of Dask, a partition a range of blocks."""
from __future__ import annotations

import os
from typing import Any

from ._read import Lines, _given, package, read

# About 200,000 events: some 70 MB with all columns.
_BLOCKS = 64

_UNKNOWN = (-1 << 63, (1 << 63) - 1)


def _frame(table: Any) -> Any:
    """Texts without dictionaries: the partitions' would differ, and Dask compares the types of partitions."""
    import pandas
    import pyarrow

    for number, field in enumerate(table.schema):
        if pyarrow.types.is_dictionary(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pyarrow.string()))
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def _partition(part: tuple[str, int | None], paths: list[bytes], options: list[tuple[str, str]]) -> Any:
    name, since = part
    frame = _frame(Lines(paths, [*options, ("part", name)]).arrow())
    if since is None:
        return frame
    return frame.set_index(frame["ts"].fillna(since).astype("int64").rename(None)).sort_index(kind="stable")


def _divisions(parts: list[tuple[str, int, int]], timed: bool) -> list[int] | None:
    """Where the partitions begin, and the end of the last one; None: they overlap in time."""
    known = timed and all((least, greatest) != _UNKNOWN for _, least, greatest in parts)
    if not known or any(one[2] >= other[1] for one, other in zip(parts, parts[1:])):
        return None
    return [*(least for _, least, _ in parts), parts[-1][2]]


def to_dask(paths: Any = (), *, blocks: int = _BLOCKS, columns: Any = None, where: Any = None, ranks: Any = None,
            **conditions: Any) -> Any:
    """The lines of traces that fulfil conditions as a ``dask.dataframe``, which workers read in parallel.

    A partition is a range of blocks (about 1 MiB of text each), and a worker reads the blocks of its partitions only,
    so all workers need the traces under the same path.  If the partitions are disjoint in time, as those of one
    compacted trace, the index is the ts, with known divisions: ``frame.loc[since:until]`` reads what it needs.

    :param paths: as of :func:`pfw.read`, and so all other parameters; none: the newest run here.
    :param blocks: how many blocks a partition has at most.
    :raises ValueError: the traces cannot be read, or a condition or column is none; of a partition: the traces have
        grown since.
    :raises ImportError: Dask is not there: ``pip install pfwtrace[dask]``.
    """
    dask_dataframe, pyarrow = package("dask.dataframe", "dask"), package("pyarrow", "dask")
    from . import _reader

    if blocks < 1:
        raise ValueError(f"blocks={blocks}: a partition has at least one")
    lines = read([os.path.abspath(one) for one in _given(paths) or [b"."]], columns=columns, where=where, ranks=ranks,
                 **conditions)
    schema = pyarrow.RecordBatchReader.from_stream(lines).schema
    parts = _reader.divide(lines._paths, lines._options, blocks)
    divisions = _divisions(parts, "ts" in schema.names)
    empty = _frame(schema.empty_table())
    if divisions is not None:
        empty.index = empty.index.astype("int64")
    return dask_dataframe.from_map(
        _partition, [(name, None if divisions is None else least) for name, least, _ in parts], meta=empty,
        args=(lines._paths, lines._options), divisions=None if divisions is None else tuple(divisions), label="pfw")
