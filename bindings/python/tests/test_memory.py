"""``pfw.memory``: snapshots of PyTorch's allocator, as its documentation describes them."""
from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PFW, Run

Snapshot = dict[str, Any]
FRAMES = [{"filename": "t.py", "line": 3, "name": "f"}, {"filename": "t.py", "line": 9, "name": "g"}]


def made(seed: int) -> tuple[Snapshot, int, int]:
    """A history that begins with 1000 of 5000 bytes in use; and its peak and what it leaves."""
    chance = random.Random(seed)
    trace: list[dict[str, Any]] = []
    live: dict[int, int] = {}
    peak = used = 0
    for number in range(200):
        if live and chance.random() < 0.45:
            addr = chance.choice(sorted(live))
            size = live.pop(addr)
            used -= size
            for action in ("free_requested", "free_completed"):
                trace.append({"action": action, "addr": addr, "size": size, "stream": 0,
                              "time_us": 1000 + number, "frames": []})
            continue
        size = chance.randrange(1, 4096)
        live[number << 12] = size
        used += size
        peak = max(peak, used)
        trace.append({"action": "alloc", "addr": number << 12, "size": size, "stream": 0,
                      "time_us": 1000 + number, "frames": FRAMES})
    trace.insert(100, {"action": "segment_alloc", "addr": 1, "size": 2 << 20, "stream": 0,
                       "time_us": trace[100]["time_us"], "frames": []})
    blocks = [{"size": 1024, "requested_size": 1000, "state": "active_allocated"},
              {"size": 99, "state": "inactive"}]
    blocks += [{"size": size + 7, "requested_size": size, "state": "active_allocated"}
               for size in live.values()]
    segments = [{"device": 0, "total_size": 5000 + (2 << 20), "blocks": blocks},
                {"device": 1, "total_size": 7, "blocks": []}]
    notes = [{"stage": stage, "name": "## train ##", "device": 0, "time_us": time}
             for stage, time in (("START", 1000), ("END", 1300))]
    return ({"segments": segments, "device_traces": [trace, []], "external_annotations": notes},
            peak, used)


def convert(run: Run, snapshot: object, status: int = 0) -> str:
    (run.directory / "s.pickle").write_bytes(pickle.dumps(snapshot))
    return run.command(PFW.with_name("python"), "-m", "pfw.memory", "s.pickle", "-o", "t.pfw",
                       status=status)


@pytest.mark.parametrize("seed", range(3))
def test_peaks_and_what_is_left(run: Run, seed: int) -> None:
    snapshot, peak, left = made(seed)
    convert(run, snapshot)
    rows = [json.loads(line) for line in
            run.command(PFW, "memory", "--format", "ndjson", "t.pfw").splitlines()]
    [device] = [row for row in rows if row["section"] == "device"]
    assert (device["peak_bytes"], device["end_bytes"]) == (peak, left)
    assert device["peak_allocated_bytes"] == peak + 1000
    assert device["peak_reserved_bytes"] == 5000 + (2 << 20)
    owners = {row["name"]: row for row in rows if row["section"] == "owner"}
    assert set(owners) == {"## train ##"}
    run.command(PFW, "validate", "t.pfw")


def test_stacks(run: Run) -> None:
    convert(run, made(0)[0])
    lines = [json.loads(line) for line in (run.directory / "t.pfw").read_text().splitlines()]
    stacks = {tuple(line["args"].get("stack", ())) for line in lines
              if line["args"].get("bytes", 0) > 0}
    assert stacks == {("t.py(3): f", "t.py(9): g")}


class Code:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        import os
        return os.system, ("touch ran",)


@pytest.mark.parametrize("bad, why", [
    (Code(), "wants"), ({"segments": []}, "device_traces"), ([1], "device_traces"),
    ({"device_traces": [[{"action": "alloc"}]]}, "no snapshot"), ({"device_traces": [3]}, "no snapshot"),
])
def test_what_is_no_snapshot_is_refused(run: Run, bad: object, why: str) -> None:
    convert(run, bad, status=2)
    assert why in run.errors and run.errors.count("\n") == 1
    assert {path.name for path in Path(run.directory).iterdir()} == {"s.pickle"}


def test_a_cut_pickle_and_an_existing_file(run: Run) -> None:
    convert(run, made(0)[0])
    convert(run, made(1)[0], status=2)
    assert "--force" in run.errors
    whole = (run.directory / "s.pickle").read_bytes()
    (run.directory / "s.pickle").write_bytes(whole[:len(whole) // 2])
    run.command(PFW.with_name("python"), "-m", "pfw.memory", "s.pickle", "-o", "u.pfw", status=2)
    assert "no snapshot" in run.errors and not (run.directory / "u.pfw").exists()
