"""Traces as Python has them: ``pfw.query``, ``pfw.read`` and ``pfw.scan``."""
from __future__ import annotations

import concurrent.futures
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _command


# Less is not worth a part.
_BLOCKS_OF_A_PART = 16
# So many, since parts of equal size take their threads different times.
_PARTS_OF_A_THREAD = 4
# Of what stays in memory: each batch has dictionaries, and costs its reader some time.
_BATCH_ROWS = "122880"


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


# Options of the command with which it prints something else than lines.
_NO_LINES = {"count", "force", "format", "help", "output"}


def _words(paths: Any, conditions: dict[str, Any]) -> list[str | bytes]:
    words = []
    for name, value in conditions.items():
        if name in _NO_LINES and value != "ndjson":
            raise ValueError(f"query() yields lines, and has no option {name}: `pfw query` has it")
        option, texts = "--" + name.replace("_", "-"), _texts(value)
        if name == "fields":
            texts = [",".join(texts)]
        words += [option] if value is True else [f"{option}={text}" for text in texts]
    return ["query", "--format=ndjson", *words, "--", *_given(paths)]


def query(paths: Any = (), *, ranks: Any = None, **conditions: Any) -> Iterator[dict[str, Any]]:
    """The lines of traces that fulfil conditions, one by one: ``pfw query``, parsed.

    As in the trace, but ``ts`` and ``dur`` are whole nanoseconds (int).

    :param paths: files, directories, globs or base names, one or several; none: the newest run here.
    :param ranks: a number, several, or "0,8-15".
    :param conditions: options of ``pfw query``: ``since="50%"``, ``cat="POSIX"``, ``min_dur="1ms"``,
        ``where="args.ret < 0"``, ``meta=True``, ``limit=10``, ``fields="ts,name,args.fname"``, …
    :raises ValueError: the traces cannot be read, or a condition is none.
    """
    given = {name: value for name, value in conditions.items() if value is not None and value is not False}
    words = [_command.path(), *_words(paths, {**given, **dict(_ranks(ranks))})]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=_command.environment()) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    event = json.loads(line, parse_float=_Number)
                    yield {key: _ns(value) if key in ("ts", "dur") else _plain(value)
                           for key, value in event.items()}
            except GeneratorExit:
                process.kill()
                raise
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if process.returncode == 2:
        raise ValueError(said.strip())
    sys.stderr.write(said)


def _interruptible(make: Callable[[], Any], stop: Callable[[], None], meanwhile: Callable[[], Any] | None = None) -> Any:
    """make(), in a thread of its own, because Python handles Ctrl-C in the main thread only, between its own steps.

    That one has time for something else ``meanwhile``.
    """
    if threading.current_thread() is not threading.main_thread():
        if meanwhile:
            meanwhile()
        return make()
    made: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    thread = threading.Thread(target=run, name="pfw read")
    try:
        thread.start()
        if meanwhile:
            meanwhile()
        return made.result()
    except BaseException:
        stop()
        raise
    finally:
        if thread.ident is not None:
            thread.join()


class Lines:
    """Lines of traces as Arrow data: :func:`read`.

    Whatever takes Arrow's PyCapsule interface (``__arrow_c_stream__``) takes this: ``pyarrow.table(lines)``,
    ``polars.DataFrame(lines)``, ``duckdb.sql("FROM lines")``.  The traces are read each time, in bounded memory.
    docs/read.rst has the columns and their types, which are the same of every trace.
    """

    def __init__(self, paths: list[bytes], options: list[tuple[str, str]]) -> None:
        self._paths, self._options = paths, options
        self._readers: list[Any] = []
        self._stopped = False  # before its reader was there

    def __repr__(self) -> str:
        paths = ", ".join(os.fsdecode(path) for path in self._paths) or "the newest run"
        return f"<pfw.Lines: {paths}{''.join(f', {name} {text}' for name, text in self._options)}>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new stream of record batches, in a capsule."""
        from . import _reader

        reader, stream = _reader.stream(self._paths, self._options)
        self._readers = [reader]
        if self._stopped:
            _reader.stop(reader)
        return stream

    def _jobs(self) -> int:
        """How many threads may read."""
        return next((int(text) for name, text in reversed(self._options) if name == "jobs" and text.isdigit()), 0) or \
            min(len(os.sched_getaffinity(0)), 8)

    def _parts(self) -> list[Lines]:
        """Them in parts, for several threads; one: they cannot be divided, or need not."""
        from . import _reader

        jobs = self._jobs()
        if jobs < 2 or b"-" in self._paths or any(name == "part" for name, _ in self._options):
            return [self]
        names = [part for part, _, _ in _reader.divide(self._paths, self._options, _BLOCKS_OF_A_PART)]
        if len(names) < jobs:
            return [self]
        blocks = _BLOCKS_OF_A_PART * (len(names) // (_PARTS_OF_A_THREAD * jobs) + 1)
        return [Lines(self._paths, [*self._options, ("part", part), ("jobs", "1"), ("batch-rows", _BATCH_ROWS)])
                for part, _, _ in _reader.divide(self._paths, self._options, blocks)]

    def _each(self, make: Callable[[Lines], Any], meanwhile: Callable[[], Any] | None = None) -> list[Any]:
        """What ``make`` makes of each part, in order: libraries take a stream with one thread only."""
        reading: list[Lines] = []
        self._stopped = False

        def stop() -> None:
            from . import _reader

            for lines in reading:
                lines._stopped = True
                for reader in lines._readers:
                    _reader.stop(reader)

        return _interruptible(lambda: self._each_of(make, reading), stop, meanwhile)

    def _each_of(self, make: Callable[[Lines], Any], reading: list[Lines]) -> list[Any]:
        """The same, with those that are read in ``reading``."""
        try:
            parts = self._parts()
            if len(parts) > 1:
                reading += parts
                with concurrent.futures.ThreadPoolExecutor(self._jobs()) as pool:
                    made = list(pool.map(make, parts))
                self._readers = [reader for part in parts for reader in part._readers]
                return made
        except ValueError:  # they have grown meanwhile; any other error comes again
            pass
        reading.append(self)
        return [make(self)]

    @property
    def problems(self) -> list[str]:
        """What could not be read, as far as the newest stream was read: the first 100, with file and line."""
        return self._problems()[1]

    def _problems(self) -> tuple[int, list[str]]:
        from . import _reader

        found = [_reader.problems(reader) for reader in self._readers]
        return sum(count for count, _ in found), [text for _, texts in found for text in texts][:100]

    def _warned(self, whole: Any) -> Any:
        count, texts = self._problems()
        if count:
            warnings.warn(f"{count} part{'s' * (count > 1)} of the traces cannot be read: {texts[0]}", stacklevel=3)
        return whole

    def arrow(self) -> Any:
        """All of them as a pyarrow.Table."""
        pyarrow = package("pyarrow", "arrow")
        return self._warned(pyarrow.concat_tables(self._each(pyarrow.table)))

    def to_pandas(self) -> Any:
        """All of them as a pandas.DataFrame of Arrow's types (needs pyarrow): whole numbers stay whole, nulls null."""
        try:
            pyarrow = package("pyarrow", "pandas")
        except ImportError:
            package("pandas", "pandas")  # rather that one is missing
            raise
        # Not pyarrow.table(), which may look for pandas, too.
        tables = self._each(lambda lines: pyarrow.RecordBatchReader.from_stream(lines).read_all(),
                            lambda: package("pandas", "pandas"))
        pandas = package("pandas", "pandas")
        return self._warned(pyarrow.concat_tables(tables).to_pandas(types_mapper=pandas.ArrowDtype))

    def to_polars(self) -> Any:
        """All of them as a polars.DataFrame; texts are Categorical."""
        polars = package("polars", "polars")
        return self._warned(polars.concat(self._each(polars.DataFrame), rechunk=False))

    def dataset(self) -> Any:
        """Them as a pyarrow.dataset.Dataset, which is read anew each time, as far as it is asked for.

        Of it duckdb (``FROM name``) and polars (``scan_pyarrow_dataset(it)``) read only the columns of a query, and only the
        lines that may fulfil its conditions: :func:`read`'s ``columns`` and ``where`` follow from the query.
        """
        package("pyarrow.dataset", "arrow")
        from ._dataset import Dataset

        return Dataset(self)

    def _of_duckdb(self) -> Any:
        """What duckdb reads the fewest columns and lines of; without pyarrow, all columns."""
        try:
            return self.dataset()
        except ImportError:
            self.__arrow_c_stream__()  # raises what is wrong with the paths and conditions
            return self

    def duckdb(self, connection: Any = None) -> Any:
        """Them as a relation of duckdb, of ``connection`` or duckdb's own; it reads them anew for each query, as
        :meth:`dataset` does (without pyarrow: all columns)."""
        duckdb = package("duckdb", "duckdb")
        lines = self._of_duckdb()  # noqa: F841  duckdb finds it by its name
        return (connection or duckdb).sql("FROM lines")

    def batches(self) -> Iterator[Any]:
        """Them as pyarrow.RecordBatches, one after another."""
        pyarrow = package("pyarrow", "arrow")
        yield from pyarrow.RecordBatchReader.from_stream(self)
        self._warned(None)


def package(name: str, extra: str) -> Any:
    """The module of a package that pfw needs only here.

    :raises ImportError: it is not there, or cannot be loaded; the text says how to get it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise type(error)(f"needs {(error.name or name).partition('.')[0]}: pip install 'pfwtrace[{extra}]'{why}",
                          name=error.name) from None


def _texts(value: Any) -> list[str]:
    """The values of an option: one, or any number of them."""
    if isinstance(value, bool):
        return [str(int(value))]
    if isinstance(value, (bytes, os.PathLike)):
        return [os.fsdecode(value)]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [text for part in value for text in _texts(part)]
    return [str(value)]


def _given(paths: Any) -> list[bytes]:
    """A path, or any number of them."""
    try:
        given = [os.fsencode(one) for one in ([paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths)]
    except TypeError:
        raise TypeError(f"paths={paths!r}: want a path, or several: str, bytes or os.PathLike") from None
    if not given and not isinstance(paths, tuple):  # (), the default, is the newest run here
        raise ValueError(f"paths={paths!r}: there is no path in it")
    for one in given:
        if b"\0" in one:
            raise ValueError(f"{os.fsdecode(one)!r}: no path has a null character")
    return given


def _ranks(ranks: Any) -> list[tuple[str, str]]:
    """The option for a number, several, or "0,8-15"."""
    if ranks is None:
        return []
    text = ",".join(_texts(ranks))
    if not text:
        raise ValueError(f'ranks={ranks!r} names no rank: want a number, several, "0,8-15", or None for all')
    return [("rank", text)]


def read(paths: Any = (), *, columns: Any = None, where: Any = None, ranks: Any = None, **conditions: Any) -> Lines:
    """The lines of traces that fulfil conditions, as Arrow data: a row a line, columns of fixed types.

    ``pfw.read("t").to_pandas()``, ``.to_polars()``, ``.arrow()``, ``.duckdb()``; nothing is read before.

    :param paths: files, directories, globs or base names, one or several; none: the newest run here.
    :param columns: names of columns, a list or "ts,dur,name,args.fname"; None: all (docs/read.rst).
    :param where: an expression, or several that all have to be true.
    :param ranks: a number, several, or "0,8-15".
    :param conditions: as of :func:`query`: ``since="50%"``, ``cat="POSIX"``, ``min_dur="1ms"``, ``meta=True``; and
        ``jobs=4``, the number of threads.
    :raises ValueError: when it is read: the traces cannot be read, or a condition or column is none.
    """
    options = [(name.replace("_", "-"), text) for name, value in {**conditions, "where": where}.items()
               if value is not None for text in _texts(value)]
    if columns is not None:
        options.append(("columns", ",".join(_texts(columns))))
    return Lines(_given(paths), options + _ranks(ranks))


def scan(paths: Any = (), **options: Any) -> Iterator[Any]:
    """The same as pyarrow.RecordBatches, one after another, in bounded memory whatever the traces' size.

    :param paths: as of :func:`read`, and so all other parameters.
    :raises ImportError: pyarrow is not there.
    """
    return read(paths, **options).batches()
