"""``pfw sql 'SELECT ...' [PATH...]``: traces as the table ``events`` of duckdb.

>>> pfw sql "SELECT name, count(*), sum(dur) FROM events WHERE cat = 'POSIX' GROUP BY name" t

The columns are those of docs/read.rst; a query reads only those that it needs.  Needs duckdb.
"""
from __future__ import annotations

import argparse
import csv
import decimal
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._read import package, read
from ._tables import printable

__all__ = ["main"]

_FORMATS = ("text", "md", "ndjson", "csv", "tsv")

# Of a table of text the columns are as wide as these rows need; they are the only ones in memory.
_ROWS_MEASURED = 1000


def _rows(cursor: Any) -> Iterator[tuple[Any, ...]]:
    while some := cursor.fetchmany(10000):
        yield from some


# ---- what is printed ----

def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=lambda one: float(one) if isinstance(one, decimal.Decimal) else str(one))


def _text(value: Any) -> str:
    """As of a shell, not as of Python."""
    if value is None:
        return ""
    return _json(value) if isinstance(value, (bool, list, dict)) else str(value)


def _print_text(names: list[str], rows: Iterator[tuple[Any, ...]], markdown: bool) -> None:
    cells_of = lambda row: [printable(_text(value)).replace("|", "\\|") if markdown else printable(_text(value)) for value in row]
    few = list(map(cells_of, itertools.islice(rows, _ROWS_MEASURED)))
    widths = [max(map(len, column)) for column in zip(names, *few)]
    numeric = [bool(few) and all(text.lstrip("-").replace(".", "", 1).isdigit() or not text for text in column)
               for column in (zip(*few) if few else [()] * len(names))]
    edge, between = ("| ", " | ") if markdown else ("", "  ")

    def put(cells: Iterable[str]) -> None:
        line = between.join(text.rjust(width) if right else text.ljust(width)
                            for text, width, right in zip(cells, widths, numeric))
        print(f"{edge}{line} |" if markdown else line.rstrip())

    put(names)
    put(["-" * (width - 1) + ":" if right and markdown else "-" * width for width, right in zip(widths, numeric)])
    for cells in itertools.chain(few, map(cells_of, rows)):
        put(cells)


def _print(format_: str, names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    if format_ in ("text", "md"):
        _print_text(names, rows, format_ == "md")
    elif format_ == "ndjson":
        for row in rows:
            print(_json(dict(zip(names, row))))
    else:
        writer = csv.writer(sys.stdout, delimiter="," if format_ == "csv" else "\t", lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(_text, row) for row in rows)


# ---- pfw sql ----

def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pfw sql", description="Answer SQL about traces, by duckdb: they are the table events.",
                                     epilog="pfw sql \"SELECT name, sum(dur) FROM events GROUP BY name ORDER BY 2 DESC\" t")
    parser.add_argument("query", help="SQL of duckdb")
    parser.add_argument("path", nargs="*", help="a file, directory, glob or base name; none: the newest run here")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="default: text")
    for name in ("since", "until", "min-dur"):
        parser.add_argument(f"--{name}", metavar="TIME")
    for name in ("cat", "name", "fname", "rank", "where"):
        parser.add_argument(f"-{name[0]}", f"--{name}", action="append", metavar={"rank": "LIST", "where": "EXPR"}.get(name, "GLOB"))
    for name in ("pid", "tid", "step"):
        parser.add_argument(f"--{name}", action="append", metavar="LIST")
    parser.add_argument("--meta", action="store_true", help="also the tracer's own lines")
    parser.add_argument("--all-runs", action="store_true", help="not only the newest run")
    parser.add_argument("-j", "--jobs", metavar="N", help="threads (default: one per CPU, at most 8)")
    return parser


# What is not to be changed in SQL; or an arg.
_ARG = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\bargs\.(\w+)""", re.DOTALL | re.IGNORECASE)
_GIVES_ROWS = re.compile(r"\s*(select|with|from|values|show|describe|summarize|explain|pragma|call|\()", re.IGNORECASE)


def _execute(connection: Any, statement: str) -> Any:
    """Columns of args have a dot in their names, so SQL wants quotes: args.ret is taken for "args.ret", too."""
    import duckdb

    try:
        return connection.execute(statement)
    except duckdb.BinderException as error:
        quoted = _ARG.sub(lambda match: f'"args.{match[1]}"' if match[1] else match[0], statement)
        if quoted != statement and '"args"' in str(error):
            return connection.execute(quoted)
        missing = re.search(r'column (?:named )?"(\w+)"', str(error))
        if missing and f"args.{missing[1]}" in (column[0] for column in connection.sql("FROM events").description):
            raise ValueError(f"{error}\n\nThe column is args.{missing[1]}.") from None
        raise


def _answer(query: str, paths: list[str], format_: str, conditions: dict[str, Any]) -> list[str]:
    import duckdb

    if os.path.exists(query):
        raise ValueError(f"{query} is a path: the query comes first, as one argument")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        if conditions.get("jobs", "0").isdigit() and int(conditions.get("jobs", "0")):
            connection.execute(f"SET threads = {conditions['jobs']}")
        events = read(paths, **conditions)._of_duckdb()
        connection.register("events", events)
        statements = [statement.query for statement in connection.extract_statements(query)]
        if not statements:
            raise ValueError("the query is empty: a SELECT of the table events, as one argument")
        for number, statement in enumerate(statements, 1):
            done = _execute(connection, statement)
            # Of the others, duckdb answers with a count.
            if done.description and (number == len(statements) or _GIVES_ROWS.match(statement)):
                _print(format_, [column[0] for column in done.description], _rows(done))
        return events.problems  # type: ignore[no-any-return]


def main(words: Sequence[str] | None = None) -> int:
    """The exit status of ``pfw sql WORDS``."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as of any command in front of head
    args = vars(_parser().parse_intermixed_args(words))
    query, paths, format_ = args.pop("query"), args.pop("path"), args.pop("format")
    try:
        duckdb = package("duckdb", "duckdb")
    except ImportError as error:
        print(f"pfw sql: {error}", file=sys.stderr)
        return 2
    try:
        problems = _answer(query, paths, format_, {name: value for name, value in args.items() if value is not None})
    except (ValueError, OSError, duckdb.Error) as error:
        print(f"pfw sql: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for text in problems[:10]:
        print(f"pfw sql: {text}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
