"""Small measurements: implementations side by side, and how much memory a call took."""
from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from .._trace import around, record_function
from ._profile import profile, torch_module

Function = TypeVar("Function", bound=Callable[..., Any])


def compare_impls(implementations: Mapping[str, Callable[..., Any]], *args: Any, n: int = 100,
                  activities: Iterable[Any] | None = None) -> dict[str, float]:
    """Run each ``n`` times after a warm-up call, print ``{name}: {ms:.2f} ms`` and give it back.

    The time is that of the devices where one worked, else the CPU's, of all ``n`` calls: also of what
    records nothing itself.
    """
    times = {}
    for name, function in implementations.items():
        function(*args)
        with profile(activities=activities) as prof, record_function(name):
            for _ in range(n):
                function(*args)
        averages = prof.key_averages()
        total = (sum(average.self_device_time_total for average in averages if average.device_type)
                 or sum(average.self_cpu_time_total for average in averages))
        times[name] = total / 1000
        print(f"{name}: {times[name]:.2f} ms")
    return times


def cuda() -> Any:
    """torch.cuda, where the program uses it."""
    torch = torch_module()
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def status_bytes(key: str) -> int:
    """A figure of /proc/self/status in bytes: VmRSS, VmHWM (its peak)."""
    with open("/proc/self/status") as file:
        found = re.search(rf"^{key}:\s+(\d+) kB", file.read(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class MemoryTracker:
    """How much memory what is inside takes at most: ``peak_memory``, of the device where CUDA is in use, else
    of the host."""

    def __init__(self, device: Any = None) -> None:
        self.device = device
        self.peak_memory = self.peak_host = 0

    def __enter__(self) -> MemoryTracker:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass  # not permitted: the peak is that of the whole process
        if cuda() is not None:
            cuda().reset_peak_memory_stats(self.device)
        return self

    def __exit__(self, *exception: object) -> None:
        self.peak_memory = self.peak_host = status_bytes("VmHWM")
        if cuda() is not None:
            cuda().synchronize(self.device)
            self.peak_memory = cuda().max_memory_allocated(self.device)

    def get_peak_memory_gb(self) -> float:
        """``peak_memory`` in GiB."""
        return self.peak_memory / 2**30

    def report(self) -> None:
        """Print the peaks."""
        if cuda() is not None:
            print(f"Peak device memory: {self.get_peak_memory_gb():.2f} GiB")
        print(f"Peak host memory: {self.peak_host / 2**30:.2f} GiB, now {status_bytes('VmRSS') / 2**30:.2f} GiB")


def memory_profile(function: Function) -> Function:
    """Print ``Peak memory: {x:.2f} GB`` (10**9 bytes) behind each call: of the device, else of the host."""
    @contextlib.contextmanager
    def measured() -> Iterator[None]:
        tracker = MemoryTracker()
        try:
            with tracker:
                yield
        finally:
            print(f"Peak memory: {tracker.peak_memory / 1e9:.2f} GB")
    return around(function, measured)
