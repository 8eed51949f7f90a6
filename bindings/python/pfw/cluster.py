"""Tables of a run whose files lie on many machines, by Dask: each reduces its own, and partials are merged.

>>> from dask.distributed import Client
>>> import pfw.cluster
>>> client = Client(SLURMCluster(...))          # any cluster object of Dask, or a scheduler's address
>>> print(pfw.cluster.answer(client, "table", ["/local/run"]))
>>> pfw.cluster.frame(client, "overlap", ["s3://bucket/run/*.pfw.gz"])

The same from a shell: ``python -m pfw.cluster table --scheduler tcp://head:8786 /local/run -- -g rank``.

A plain path is what it is on the workers, and its files are reduced where they are; a URL of fsspec is read by
any worker.  Nothing but partials moves between machines.  Needs ``pip install pfwtrace[cluster]`` here and there.
"""
from __future__ import annotations

import argparse
import dataclasses
import gzip
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any

from . import _command
from ._read import _given, package

__all__ = ["answer", "frame", "main", "reduce"]

COMMANDS = ("table", "overlap", "patterns", "memory", "compare")

# Ranks that one task reduces at most, and partials that one task merges.
_RANKS_OF_A_TASK = 64
_PARTIALS_OF_A_TASK = 16

# A worker that dies takes its tasks with it, which others do again.
_RETRIES = 3

# A partial, and what was said of the traces that it was made of.
_Part = tuple[bytes, str]

# What the names of a rank's files differ in: t-rank0001.pfw, t-rank0001-pid7.pfw, t.2-rank0001.pfw.gz.
_OF_A_RANK = re.compile(r"-pid\d+(?=[-.])|\.\d+(?=[-.])|\.pfw(\.gz)?$")

# Of a base name: t.pfw, t.2.pfw, t-rank0001.pfw.gz.
_OF_A_BASE = re.compile(r"(\.\d+)*(-.*)?\.pfw(\.gz)?")


# ---- on the workers ----

def _pfw(words: Sequence[str], *, where: str) -> subprocess.CompletedProcess[str]:
    # A worker's terminal is nobody's: tables have all their columns, as in a file.
    env = {name: value for name, value in _command.environment().items() if name != "COLUMNS"}
    return subprocess.run([_command.path(), *words], cwd=where, capture_output=True, text=True, check=False, env=env)


def _partial(operands: Iterable[str], where: str, *options: str) -> _Part:
    """What ``pfw index --partial`` makes of them, and says of them."""
    out = os.path.join(where, "out.partial")
    done = _pfw(["index", "--partial", "-q", "-o", out, *options, "--", *operands], where=where)
    if done.returncode == 2:
        raise ValueError(done.stderr.strip())
    return pathlib.Path(out).read_bytes(), done.stderr


def _map(directory: str, files: list[str]) -> _Part:
    """The partial of some ranks: ``files`` are names in ``directory``."""
    with tempfile.TemporaryDirectory(prefix="pfw-") as where:
        if "://" not in directory:
            return _partial([os.path.join(directory, name) for name in files], where)
        import fsspec

        system, path = fsspec.core.url_to_fs(directory)
        for name in files:
            system.get_file(f"{path}/{name}", os.path.join(where, name))
        return _partial([os.path.join(where, name) for name in files], where, "--as", directory)


def _merge(parts: list[_Part]) -> _Part:
    with tempfile.TemporaryDirectory(prefix="pfw-") as where:
        for number, (text, _) in enumerate(parts):
            pathlib.Path(where, f"{number}.partial").write_bytes(text)
        text, said = _partial([f"{number}.partial" for number in range(len(parts))], where)
        return text, "".join(part[1] for part in parts) + said


def _answer(parts: list[_Part], words: list[str]) -> tuple[int, str, str]:
    names = ["run.partial"] if len(parts) == 1 else ["a.partial", "b.partial"]
    with tempfile.TemporaryDirectory(prefix="pfw-") as where:
        for name, (text, _) in zip(names, parts):
            pathlib.Path(where, name).write_bytes(text)
        done = _pfw([*words, *names], where=where)
        said = "".join(part[1] for part in parts)
        return done.returncode or bool(said), done.stdout, said + done.stderr


def _is_trace(path: str) -> bool:
    return path.endswith((".pfw", ".pfw.gz"))


def _is_beside(path: str) -> bool:
    """Whether it is an index or a manifest, which a glob names with the traces."""
    return path.endswith((".pfw.idx", ".pfw.gz.idx", ".manifest.json"))


@dataclasses.dataclass
class _Trace:
    path: str
    given: str  # what named it
    run: str | None = None  # as its first line says; None: it does not
    begun: int = 0


def _of_base(path: pathlib.Path) -> list[pathlib.Path]:
    return [one for one in path.parent.iterdir()
            if one.name.startswith(path.name) and _OF_A_BASE.fullmatch(one.name[len(path.name):])]


def _headed(trace: _Trace) -> _Trace:
    """With what its first line says."""
    try:
        with (gzip.open if trace.path.endswith(".gz") else open)(trace.path, "rb") as file:
            line = json.loads(file.readline(1 << 20))
        return dataclasses.replace(trace, run=line["args"]["run"] or None, begun=int(line["ts"]))
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return trace


def _find_here(paths: list[str]) -> list[_Trace]:
    """The traces of this machine that they name."""
    found = []
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            some = [one for one in path.iterdir() if _is_trace(one.name)]
        elif path.is_file() or not path.parent.is_dir():
            some = [path]
        else:
            some = list(path.parent.glob(path.name)) or _of_base(path)
        found += [_headed(_Trace(str(one), str(path))) for one in some if one.is_file() and not _is_beside(one.name)]
    return found


# ---- which files, and where ----

def _find_urls(urls: list[str]) -> list[str]:
    if not urls:
        return []
    import fsspec

    found = []
    for url in urls:
        system, path = fsspec.core.url_to_fs(url)
        names = system.glob(path) if any(c in path for c in "*?[") else [path]
        for name in names:
            inside = filter(_is_trace, system.ls(name, detail=False)) if system.isdir(name) else [name]
            found += [system.unstrip_protocol(one) for one in inside if not _is_beside(one)]
    return found


def _newest_run(found: list[_Trace]) -> str:
    """As pfw_trace_newest() finds it: a Slurm job's script may go on after its steps."""
    def last(some: list[_Trace]) -> str:
        return max(reversed(some), key=lambda one: one.begun).run or ""

    run = last(found)
    job = re.fullmatch(r"(slurm-\d+)([^.].*)?", run)
    steps = [one for one in found
             if job and (one.run or "").startswith(job[1] + ".") and (one.run or "").endswith(job[2] or "")]
    return last(steps) if steps else run


def _newest(found: list[_Trace], all_runs: bool) -> list[_Trace]:
    """Those of the newest run that each path names; a path of one file is taken whatever its run is."""
    named: dict[str, list[_Trace]] = {}
    for one in found:
        if one.run:
            named.setdefault(one.given, []).append(one)
    newest = {given: _newest_run(some) for given, some in named.items()}
    kept = [one for one in found
            if all_runs or not one.run or one.path == one.given or one.run == newest[one.given]]
    older = len({one.path for one in found} - {one.path for one in kept})
    if older:
        print(f"pfw.cluster: the newest run is taken, {kept[0].path}; {older:,} file{'s' * (older > 1)} of older runs "
              "left out (--all-runs)", file=sys.stderr)
    return kept


def _find(client: Any, paths: list[str], all_runs: bool) -> list[tuple[_Trace, set[str] | None]]:
    """Each trace with the hosts that have it; None: a URL."""
    of_host = {urllib.parse.urlsplit(address).hostname or "": address for address in client.ncores()}
    local = [os.path.abspath(path) for path in paths if "://" not in path]
    found: dict[str, tuple[_Trace, set[str] | None]] = {
        url: (_Trace(url, url), None) for url in _find_urls([url for url in paths if "://" in url])}
    here = client.run(_find_here, local, workers=list(of_host.values())) if local else {}
    all_here = [(host, one) for host, address in of_host.items() for one in here.get(address, [])]
    kept = {one.path for one in _newest([one for _, one in all_here], all_runs)}
    for host, one in all_here:
        if one.path in kept:
            hosts = found.setdefault(one.path, (one, set()))[1]
            if hosts is not None:
                hosts.add(host)
    if not found:
        raise ValueError(f"no worker has a trace by the name of {', '.join(paths)}")
    return [found[path] for path in sorted(found)]


def _tasks(found: list[tuple[_Trace, set[str] | None]]) -> list[tuple[frozenset[str] | None, str, list[str]]]:
    """Hosts, directory and files of each task: all files of a rank are in one, for its overlap."""
    ranks: dict[tuple[str, str, str | None], list[tuple[str, set[str] | None]]] = {}
    for trace, hosts in found:
        directory, name = trace.path.rsplit("/", 1)
        ranks.setdefault((directory, _OF_A_RANK.sub("", name), trace.run), []).append((name, hosts))
    places: dict[tuple[frozenset[str] | None, str], list[list[str]]] = {}
    for (directory, _, _), files in ranks.items():
        all_hosts = [hosts for _, hosts in files]
        common = None if None in all_hosts else frozenset(set.intersection(*filter(None, all_hosts)))
        if common is not None and not common:
            raise ValueError(f"{directory}/{files[0][0]}: no machine has all files of this rank")
        places.setdefault((common, directory), []).append([name for name, _ in files])
    size = max(1, min(_RANKS_OF_A_TASK, sum(map(len, places.values())) // 64))
    return [(hosts, directory, [name for names in groups[at:at + size] for name in names])
            for (hosts, directory), groups in places.items() for at in range(0, len(groups), size)]


# ---- what a program calls ----

def reduce(client: Any, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, all_runs: bool = False) -> Any:
    """The partial of a run, as a ``distributed.Future``: its bytes, which ``pfw table`` takes as a file, and what
    was said of damaged traces.

    :param client: a ``distributed.Client`` of any cluster.
    :param paths: files, globs, directories or base names: of the workers, or URLs of fsspec.
    :param all_runs: not only the newest run that each path names.
    :raises ValueError: nobody has such a trace.
    """
    given = list(map(os.fsdecode, _given(paths)))
    left = [client.submit(_map, directory, files, pure=False, retries=_RETRIES,
                          workers=None if hosts is None else sorted(hosts), key=f"pfw-map-{number}-{os.urandom(8).hex()}")
            for number, (hosts, directory, files) in enumerate(_tasks(_find(client, given, all_runs)))]
    while len(left) > 1:
        left = [client.submit(_merge, left[at:at + _PARTIALS_OF_A_TASK], pure=False, retries=_RETRIES)
                for at in range(0, len(left), _PARTIALS_OF_A_TASK)]
    return left[0]


def _ask(client: Any, command: str, paths: Any, options: Sequence[str]) -> tuple[int, str, str]:
    if command not in COMMANDS:
        raise ValueError(f"{command} is none of {', '.join(COMMANDS)}, which take partials")
    sides = [paths]
    if command == "compare":
        sides = [] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if len(sides) != 2:
            raise ValueError("compare takes two sides, A and B: each a path, or a list of paths")
    parts = [reduce(client, side, all_runs="--all-runs" in options) for side in sides]
    future = client.submit(_answer, parts, [command, *options], pure=False,
                           retries=_RETRIES)
    status, text, said = future.result()
    return status, text, said


def answer(client: Any, command: str, paths: Any, *options: str) -> str:
    """What ``pfw COMMAND OPTIONS`` prints for these traces in one place.

    :param command: ``table``, ``overlap``, ``patterns``, ``memory`` or ``compare``.
    :param paths: as of :func:`reduce`; of ``compare`` two such sides, A and B.
    :raises ValueError: it cannot be answered, or a trace cannot be read; the text is what ``pfw`` said.
    """
    status, text, said = _ask(client, command, paths, options)
    if status == 2:
        raise ValueError(said.strip())
    sys.stderr.write(said)
    return text


def frame(client: Any, command: str, paths: Any, *options: str) -> Any:
    """The same as a pandas.DataFrame: times in µs, sizes in bytes."""
    return package("pandas", "pandas").read_csv(io.StringIO(answer(client, command, paths, "--format", "csv", *options)))


# ---- python -m pfw.cluster ----

def main(words: Sequence[str] | None = None) -> int:
    """``python -m pfw.cluster``: the exit status."""
    given = list(sys.argv[1:] if words is None else words)
    options = given[given.index("--") + 1:] if "--" in given else []
    parser = argparse.ArgumentParser(prog="python -m pfw.cluster",
                                     description=(__doc__ or "").split("\n\n")[0],
                                     epilog="After --: options of the command.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("path", nargs="+", help="files, globs, directories or base names of the workers, or URLs; of compare two: A and B")
    parser.add_argument("--scheduler", help="its address; default: a cluster of processes of this machine")
    parser.add_argument("--workers", type=int, help="processes of this machine (default: one per CPU)")
    args = parser.parse_args(given[:given.index("--")] if "--" in given else given)

    from distributed import Client, LocalCluster

    try:
        with (Client(args.scheduler) if args.scheduler else Client(LocalCluster(
                n_workers=args.workers, threads_per_worker=1, processes=True, dashboard_address=None))) as client:
            status, text, said = _ask(client, args.command, args.path, options)
    except (ValueError, OSError) as error:
        print(f"pfw.cluster: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(text)
    sys.stderr.write(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
