"""What a profile of trace_only has recorded: it has no events, and can be saved once."""
from __future__ import annotations

import json
import os
import tempfile
import zlib
from typing import Any

_ON_DEVICE = frozenset(("kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation",
                        "cuda_sync", "cuda_event"))
_CALLS = frozenset(("cuda_runtime", "cuda_driver"))


class Saved:
    """Stands for torch's results behind the first save(): the user's own save() has the same text."""

    def __init__(self, results: Any) -> None:
        self._results = results
        descriptor, path = tempfile.mkstemp(".json", "pfw-",
                                            "/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        try:
            os.close(descriptor)
            results.save(path)
            with open(path, "rb") as file:
                self._text = zlib.compress(file.read(), 1)
        finally:
            os.unlink(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)

    def save(self, path: str) -> None:
        """As torch's."""
        with open(path, "wb") as file:
            file.write(self.text())

    def text(self) -> bytes:
        """PyTorch's trace, as JSON."""
        return zlib.decompress(self._text)


class Event:
    """An entry of PyTorch's trace, with the getters that its results' events would have."""

    def __init__(self, entry: dict[str, Any], base_ns: int) -> None:
        self.entry, self.args, self.base_ns = entry, entry.get("args", {}), base_ns

    def name(self) -> str:
        return str(self.entry["name"])

    def activity_type(self) -> str:
        return str(self.entry["cat"])

    def start_ns(self) -> int:
        return int(self.base_ns + round(self.entry["ts"] * 1000))  # exact: torch chooses the base for that

    def duration_ns(self) -> int:
        return int(round(self.entry.get("dur", 0) * 1000))

    def device_type(self) -> int:
        return int(self.args.get("Device Type", self.activity_type() in _ON_DEVICE))

    def device_index(self) -> int:
        return int(self.args.get("device", self.args.get("Device Id", -1)))

    def device_resource_id(self) -> int:
        return int(self.args.get("stream", self.entry["tid"]))

    def correlation_id(self) -> int:
        own = self.activity_type() not in _ON_DEVICE | _CALLS
        return int(self.args.get("External id" if own else "correlation", 0))

    def linked_correlation_id(self) -> int:
        return int(self.args.get("External id", 0)) if self.activity_type() in _ON_DEVICE | _CALLS else 0

    def is_user_annotation(self) -> bool:
        return self.activity_type() == "user_annotation"

    def sequence_nr(self) -> int:
        return int(self.args.get("Sequence number", -1))

    def nbytes(self) -> int:
        return int(self.args.get("Bytes", 0))

    def shapes(self) -> list[Any]:
        return list(self.args.get("Input Dims", ()))

    def dtypes(self) -> list[Any]:
        return list(self.args.get("Input type", ()))

    def structured_input_strides(self) -> list[Any]:
        return list(self.args.get("Input Strides", ()))

    def allocation(self) -> tuple[int, int, int]:
        """Address, and how much there is in all and reserved."""
        return self.args["Addr"], self.args["Total Allocated"], self.args["Total Reserved"]


def events_of(inner: Any) -> list[Event]:
    """All events of a cycle of trace_only; the profile can be saved as before.

    :raises RuntimeError: the user has saved it already.
    """
    if not isinstance(inner.kineto_results, Saved):
        inner.kineto_results = Saved(inner.kineto_results)
    trace = json.loads(inner.kineto_results.text())
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    return [Event(entry, base_ns) for entry in trace["traceEvents"]
            if entry["ph"] in ("X", "i") and isinstance(entry["tid"], int) and "cat" in entry]
