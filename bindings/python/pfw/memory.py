"""PyTorch's snapshots of CUDA memory (``torch.cuda.memory._dump_snapshot``) as traces.

    $ python -m pfw.memory snapshot.pickle -o t.pfw && pfw memory t.pfw

A snapshot has the history of the allocator, if that was recorded (``_record_memory_history``), and what is
allocated at its end. torch need not be installed, and a pickle that wants anything but plain lists,
texts and numbers is refused: a snapshot of somebody else's cannot run code.
"""
from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ._api import version

_SIGN = {"alloc": 1, "free_completed": -1}
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")


class _Plain(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it wants {module_name}.{global_name}: a snapshot of memory is "
                                     "plain lists, texts and numbers")


def load_snapshot(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The snapshot in a file that ``torch.cuda.memory._dump_snapshot`` wrote.

    ValueError where it is none.
    """
    with open(path, "rb") as file:
        try:
            found = _Plain(file).load()
        except Exception as error:  # a pickle that is cut or made up raises anything
            raise ValueError(f"{os.fspath(path)}: no snapshot of memory: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("device_traces"), list):
        raise ValueError(f"{os.fspath(path)}: no snapshot of memory: it has no `device_traces`, which "
                         "torch.cuda.memory._dump_snapshot() writes")
    return found


def _at_end(snapshot: dict[str, Any], device: int) -> tuple[int, int]:
    """Bytes allocated and reserved when the snapshot was taken."""
    allocated = reserved = 0
    for segment in snapshot.get("segments", ()):
        if segment.get("device", 0) != device:
            continue
        reserved += segment["total_size"]
        allocated += sum(block.get("requested_size", block["size"]) for block in segment["blocks"]
                         if block["state"] in _ACTIVE)
    return allocated, reserved


def _stack(frames: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{frame['filename']}({frame['line']}): {frame['name']}" for frame in frames]


def _device_events(snapshot: dict[str, Any], device: int,
                   trace: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Time in µs and args of each event; an entry without a time is 1 µs after the one before."""
    allocated, reserved = _at_end(snapshot, device)
    allocated -= sum(_SIGN.get(entry["action"], 0) * entry["size"] for entry in trace)
    reserved -= sum(_RESERVES.get(entry["action"], 0) * entry["size"] for entry in trace)
    time = 0
    for entry in trace:
        action = entry["action"]
        time = entry.get("time_us", time + 1)
        reserved += _RESERVES.get(action, 0) * entry["size"]
        if action not in _SIGN:
            continue
        size = _SIGN[action] * entry["size"]
        allocated += size
        args = {"kind": "memory", "device": 1, "device_index": device, "addr": entry["addr"],
                "bytes": size, "total_allocated": allocated, "total_reserved": reserved,
                "stream": entry.get("stream", 0)}
        if entry.get("frames"):
            args["stack"] = _stack(entry["frames"])
        yield time, args


def _annotations(snapshot: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Begin, length in µs, and name of the ranges that ``record_function`` marked."""
    begun: dict[Any, list[int]] = {}
    for entry in snapshot.get("external_annotations", ()):
        key = entry.get("device"), entry["name"]
        if entry["stage"] == "START":
            begun.setdefault(key, []).append(entry["time_us"])
        elif begun.get(key):
            start = begun[key].pop()
            yield start, entry["time_us"] - start, entry["name"]


def _events(snapshot: dict[str, Any]) -> list[tuple[int, str, str, dict[str, Any]]]:
    found = []
    for device, trace in enumerate(snapshot["device_traces"]):
        for time, args in _device_events(snapshot, device, trace):
            found.append((time, "[memory]", f'"ts":{time}.000,"ph":"i"', args))
    for start, length, name in _annotations(snapshot):
        found.append((start, name, f'"ts":{start}.000,"dur":{length}.000,"ph":"X"',
                      {"kind": "annotation", "device": 0, "device_index": -1}))
    found.sort(key=lambda event: event[0])
    return found


def _line(number: int, name: str, category: str, rest: str, args: dict[str, Any]) -> str:
    return (f'{{"id":{number},"name":{json.dumps(name)},"cat":"{category}","pid":1,"tid":1,{rest},'
            f'"args":{json.dumps(args, separators=(",", ":"))}}}\n')


def write_trace(snapshot: dict[str, Any], out: TextIO, rank: int | None = None) -> int:
    """Write a snapshot as the lines of a trace; returns how many events that are.

    A snapshot does not say whose it is: its process is 1.
    """
    try:
        events = _events(snapshot)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no snapshot of memory: {type(error).__name__}: {error}") from None
    begin, end = (events[0][0], events[-1][0]) if events else (0, 0)
    out.write(_line(1, "process", "pfw", f'"ts":{begin}.000,"ph":"M"', {
        "format": 1, "version": version(), "run": "snapshot", "host": "", "boot": "", "rank": rank,
        "world_size": 1, "local_rank": None, "rank_source": "imported", "ppid": 0,
        "cmd": "torch.cuda.memory snapshot", "start_ts": begin, "clock": "imported",
        "spool": None}))
    for number, (_, name, rest, args) in enumerate(events, 2):
        out.write(_line(number, name, "PP", rest, args))
    out.write(_line(len(events) + 2, "end", "pfw", f'"ts":{end}.000,"ph":"M"', {
        "events": len(events), "lost": 0, "reason": "exit"}))
    return len(events)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pfw.memory", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snapshot", help="what torch.cuda.memory._dump_snapshot() wrote")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the trace, a .pfw")
    parser.add_argument("--rank", type=int, help="whose it is")
    parser.add_argument("--force", action="store_true", help="replace FILE")
    options = parser.parse_args()
    try:
        snapshot = load_snapshot(options.snapshot)
        part = f"{options.output}.{os.getpid()}.part"
        if os.path.exists(options.output) and not options.force:
            raise ValueError(f"{options.output} exists (--force replaces it)")
        try:
            with open(part, "x", encoding="utf-8") as out:
                write_trace(snapshot, out, options.rank)
            os.replace(part, options.output)
        finally:
            if os.path.exists(part):
                os.unlink(part)
    except (OSError, ValueError) as error:
        print(f"pfw memory: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
