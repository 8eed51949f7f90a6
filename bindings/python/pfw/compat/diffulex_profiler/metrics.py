"""What is measured of a section."""
from __future__ import annotations

import ctypes
import dataclasses
import functools
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PerformanceMetrics:
    """Of one section; None is what was not measured. Times are seconds since the epoch and seconds."""

    name: str
    start_time: float | None = None
    end_time: float | None = None
    duration: float = 0.0
    total_tokens: int = 0
    throughput_tokens_per_sec: float = 0.0
    gpu_utilization: float | None = None
    """Mean over the section, of all GPUs, in percent."""
    gpu_memory_mb: float | None = None
    """Of all GPUs, at the end."""
    gpu_devices: list[str] = field(default_factory=list)
    memory_mb: float | None = None
    memory_delta_mb: float | None = None
    """The process's resident memory at the end, and by how much it grew."""
    custom_metrics: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    """How many sections were open around it."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class _Sample(ctypes.Structure):
    _fields_ = [("ts_us", ctypes.c_ulonglong), ("value", ctypes.c_ulonglong)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpus:
    """NVIDIA's management library, as the driver brings it: no package is needed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        count = ctypes.c_uint()
        if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            raise OSError("NVML does not start")
        self.devices = [ctypes.c_void_p() for _ in range(count.value)]
        for index, device in enumerate(self.devices):
            library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))

    def names(self) -> list[str]:
        text = ctypes.create_string_buffer(96)
        return [text.value.decode() for device in self.devices
                if not self.library.nvmlDeviceGetName(device, text, 96)]

    def memory_mb(self) -> float:
        memory = _Memory()
        return sum(memory.used / 1e6 for device in self.devices
                   if not self.library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)))

    def utilization(self, since_us: int) -> float | None:
        """Mean of the driver's own samples from then on; of none, what it says of this moment."""
        means = [mean for device in self.devices if (mean := self._mean(device, since_us)) is not None]
        return sum(means) / len(means) if means else None

    def _mean(self, device: ctypes.c_void_p, since_us: int) -> float | None:
        count, kind, samples = ctypes.c_uint(256), ctypes.c_int(), (_Sample * 256)()
        seen = ctypes.c_ulonglong(since_us)
        error = self.library.nvmlDeviceGetSamples(device, 1, seen, ctypes.byref(kind),  # 1: of the GPU
                                                  ctypes.byref(count), samples)
        values = [sample.value & 0xffffffff for sample in samples[:count.value] if sample.ts_us > since_us]
        if not error and values:
            return sum(values) / len(values)
        now = (ctypes.c_uint * 2)()
        return None if self.library.nvmlDeviceGetUtilizationRates(device, now) else float(now[0])


@functools.lru_cache(maxsize=1)
def gpus() -> Gpus | None:
    """None where there is no driver."""
    try:
        return Gpus(ctypes.CDLL("libnvidia-ml.so.1"))
    except OSError:
        return None
