"""Traces as Parquet: what ``pfw export --format parquet -o DIR`` runs.

A directory for each rank, ``DIR/rank=0/part-0.parquet``, so that duckdb, polars, pyarrow, Dask and Spark have the rank
as a column of the path; traces without a rank are ``DIR/part-0.parquet``.  docs/export.rst describes the files.  Needs
pyarrow.
"""
from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from ._read import Lines, package, read

__all__ = ["main", "write"]

# Of a row group: some 35 blocks, 40 MB before compression.  Less makes files of all ranks larger by a third.
_ROWS = 122_880
# Rows that wait for their row group, of all ranks; ranks whose files are open.
_ROWS_WAITING = 4 * _ROWS
_OPEN_MOST = 32

# Columns whose values hardly repeat: their differences take half of the room, and less time than a dictionary.  A dur has
# neither.  tools/parquet/parquet.cc has the same.
_DELTAS = ("id", "ts", "args.offset", "args.span_id", "args.parent", "args.correlation", "args.external_id", "args.sequence")
_PLAIN = ("dur",)

# Hive's name for null.
_NO_RANK = "__HIVE_DEFAULT_PARTITION__"
_ANY_RANK = "0-4294967295"


class _Rank:
    """The files of one rank."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.parts = 0
        self.file: Any = None
        self.writer: Any = None
        self.waiting: list[Any] = []
        self.rows = 0

    def flush(self) -> None:
        """Write what waits, as a row group."""
        import pyarrow
        import pyarrow.parquet

        if not self.waiting:
            return
        table = pyarrow.Table.from_batches(self.waiting).unify_dictionaries()
        if self.writer is None:
            os.makedirs(self.directory, exist_ok=True)
            self.file = open(os.path.join(self.directory, f"part-{self.parts}.parquet"), "xb")
            names = table.schema.names
            self.writer = pyarrow.parquet.ParquetWriter(
                self.file, table.schema, compression="zstd",
                use_dictionary=[name for name in names if name not in _DELTAS + _PLAIN],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in _DELTAS if name in names})
            self.parts += 1
        self.writer.write_table(table, row_group_size=table.num_rows or None)
        self.waiting, self.rows = [], 0

    def close(self) -> None:
        """Finish the file; lines that come later go into another one."""
        self.flush()
        if self.writer is not None:
            self.writer.close()
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            self.writer = self.file = None


class _Ranks:
    """The ranks of a run, of which some have open files."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.of: dict[int | None, _Rank] = {}
        self.rows = 0  # waiting

    def add(self, rank: int | None, batch: Any) -> None:
        one = self.of.pop(rank, None) or _Rank(os.path.join(self.directory, f"rank={_NO_RANK if rank is None else rank}"))
        self.of[rank] = one  # the newest is the last one
        one.waiting.append(batch)
        one.rows += batch.num_rows
        self.rows += batch.num_rows
        if one.rows >= _ROWS:
            self._flush(one)
        elif self.rows >= _ROWS_WAITING:
            self._flush(max(self.of.values(), key=lambda each: each.rows))
        opened = [each for each in self.of.values() if each.writer is not None]
        if len(opened) > _OPEN_MOST:
            self._finish(opened[0])

    def _flush(self, one: _Rank) -> None:
        self.rows -= one.rows
        one.flush()

    def _finish(self, one: _Rank) -> None:
        self.rows -= one.rows
        one.close()

    def close(self) -> None:
        for one in self.of.values():
            self._finish(one)
        for one in self.of.values():
            _sync(one.directory)
        _sync(self.directory)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _by_rank(batch: Any) -> list[tuple[int | None, Any]]:
    """The rows of each rank: mostly all are of one."""
    import pyarrow.compute

    ranks = batch.column("rank")
    rest = batch.drop_columns(["rank"])
    of = ranks.unique().to_pylist()
    if len(of) == 1:
        return [(of[0], rest)]
    return [(rank, rest.filter(pyarrow.compute.is_null(ranks) if rank is None else
                               pyarrow.compute.fill_null(pyarrow.compute.equal(ranks, rank), False)))
            for rank in of]


def _has_ranks(first: Any, paths: Any, conditions: dict[str, Any]) -> bool:
    """Whether a line has a rank; mostly the first batch tells."""
    if first is not None and first.column("rank").null_count < first.num_rows:
        return True
    return any(True for _ in read(paths, columns=["rank"], **{"rank": _ANY_RANK, **conditions}).batches())


def _fill(directory: str, lines: Lines, paths: Any, conditions: dict[str, Any]) -> None:
    import pyarrow

    stream = pyarrow.RecordBatchReader.from_stream(lines)
    ranks = _Ranks(directory)
    first = next(iter(stream), None)
    # pyarrow cannot read the ranks of paths if all are null.
    ranked = _has_ranks(first, paths, conditions)
    if not ranked:
        ranks.of[None] = _Rank(directory)
        # A table without rows has its columns, too.
        ranks.add(None, pyarrow.RecordBatch.from_pylist([], schema=stream.schema))
    for batch in itertools.chain([] if first is None else [first], stream):
        for rank, rows in _by_rank(batch) if ranked else [(None, batch)]:
            ranks.add(rank, rows)
    ranks.close()


def _put(made: str, path: str) -> None:
    """Give it its name; what had the name before goes only when that is done."""
    older = None
    if os.path.lexists(path):
        older = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.", suffix=".old", dir=os.path.dirname(path))
        os.rename(path, os.path.join(older, "it"))
    try:
        os.rename(made, path)
    except OSError:
        if older is not None:
            os.rename(os.path.join(older, "it"), path)
            os.rmdir(older)
        raise
    _sync(os.path.dirname(path))
    if older is not None:
        shutil.rmtree(older)


def write(paths: Any, directory: str | os.PathLike[str], *, force: bool = False, **conditions: Any) -> list[str]:
    """Write traces into a new directory, which appears under its name when it is complete.

    :param paths: as of :func:`pfw.read`, and so the conditions.
    :param force: replace the directory, if it has no file that is not of such an export.
    :returns: what could not be read of the traces: the first 100 texts.
    :raises FileExistsError: the directory is there.
    """
    path = os.path.abspath(directory)
    if os.path.lexists(path) and not (force and _is_export(path)):
        raise FileExistsError(f"{os.fspath(directory)} is there: " + (
            "and is not an export to Parquet" if force else "--force replaces it"))
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"{os.fspath(directory)}: there is no such directory to make it in")
    lines = read(paths, **conditions)
    made = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=os.path.dirname(path))
    try:
        _fill(made, lines, paths, conditions)
        _put(made, path)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return lines.problems


def _is_export(path: str) -> bool:
    """Whether nothing else is in it."""
    is_part = lambda name: name.startswith("part-") and name.endswith(".parquet")
    return os.path.isdir(path) and not os.path.islink(path) and all(
        is_part(one) or one.startswith("rank=") and all(map(is_part, os.listdir(os.path.join(path, one))))
        for one in os.listdir(path))


# ---- pfw export --format parquet ----

def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pfw export --format parquet")
    parser.add_argument("path", nargs="*")
    parser.add_argument("--format")
    parser.add_argument("-o", "--output")
    for name in ("since", "until", "min-dur"):
        parser.add_argument(f"--{name}")
    for name in ("cat", "name", "fname", "rank", "where"):
        parser.add_argument(f"-{name[0]}", f"--{name}", action="append")
    for name in ("pid", "tid", "step"):
        parser.add_argument(f"--{name}", action="append")
    for name in ("all-runs", "force"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-j", "--jobs")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The exit status of ``pfw export --format parquet WORDS``."""
    args = vars(_parser().parse_intermixed_args(words))
    args.pop("format"), args.pop("quiet")
    paths, directory = args.pop("path"), args.pop("output")
    if not directory or directory == "-":
        print("pfw export: --format parquet makes a directory: give -o DIR", file=sys.stderr)
        return 2
    # Leave no half of it behind: as at ^C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        package("pyarrow.parquet", "arrow")
    except ImportError as error:
        print(f"pfw export: --format parquet {error}", file=sys.stderr)
        return 2
    try:
        problems = write(paths, directory, **{name: value for name, value in args.items() if value is not None})
    except (ValueError, OSError) as error:
        print(f"pfw export: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for text in problems[:10]:
        print(f"pfw export: {text}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
