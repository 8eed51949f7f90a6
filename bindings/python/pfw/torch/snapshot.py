"""``python -m pfw.torch.snapshot FILE.pickle``: what torch.cuda.memory's snapshot says, by `pfw memory`."""
from __future__ import annotations

import os
import pickle
import sys
import tempfile
from typing import Any

from .. import _api, _command

_SIGNS = {"alloc": 1, "free_completed": -1}


class _Plain(pickle.Unpickler):
    """Snapshots hold dicts, lists, texts and numbers: nothing that a pickle could run."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}, so it is no snapshot of memory")


def write(snapshot: dict[str, Any]) -> None:
    """Write a snapshot's allocations to the trace, each named by the function that made it."""
    for index, events in enumerate(snapshot["device_traces"]):
        total = 0
        for event in events:
            size = _SIGNS.get(event["action"], 0) * event["size"]
            if size:
                total += size
                frames = event.get("frames") or [{"name": "[memory]"}]
                _api.compute_event(frames[0]["name"], event.get("time_us", 0) * 1000, 0, kind="memory", device=1,
                                   device_index=index, addr=event["addr"], bytes=size, total_allocated=total)


def main(words: list[str]) -> int:
    """Print what `pfw memory`, given the other words, says of the pickle."""
    if not words or words[0].startswith("-"):
        print("usage: python -m pfw.torch.snapshot FILE.pickle [options of pfw memory]", file=sys.stderr)
        return 2
    try:
        with open(words[0], "rb") as file, tempfile.TemporaryDirectory() as directory:
            snapshot = _Plain(file).load()
            os.environ["DFTRACER_ENABLE"] = "1"
            _api.start(os.path.join(directory, "snapshot"), data_dir="/nowhere")
            write(snapshot)
            _api.stop()
            print(_command.run(["memory", *words[1:], _api.stats().path]), end="")
    except (OSError, ValueError, KeyError, TypeError, pickle.UnpicklingError) as error:
        print(f"pfw.torch.snapshot: {words[0]}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
