"""What a DiffulexProfiler is told, and what it measures."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ProfilerConfig:
    """``backend``: simple, viztracer, pytorch, pfw (dftracer is another name of it), or one of an entry point."""

    enabled: bool = True
    backend: str = "simple"
    output_dir: str = "log/profiles"
    output_file: str | None = None
    collect_gpu_metrics: bool = True
    collect_memory_metrics: bool = True
    collect_timing: bool = True
    export_formats: list[str] = field(default_factory=lambda: ["json", "summary"])
    viztracer_config: dict[str, Any] | None = None
    pytorch_profiler_config: dict[str, Any] | None = None


@dataclass
class PerformanceMetrics:
    """Of one section; None is what was not measured. Times are seconds since the epoch and seconds."""

    name: str
    start_time: float | None = None
    end_time: float | None = None
    duration: float = 0.0
    total_tokens: int = 0
    throughput_tokens_per_sec: float = 0.0
    gpu_utilization: float | None = None  # mean over the section, of all GPUs, in percent
    gpu_memory_mb: float | None = None    # of all GPUs, at the end
    gpu_devices: list[str] = field(default_factory=list)
    memory_mb: float | None = None        # the process's resident memory at the end
    memory_delta_mb: float | None = None  # by how much it grew
    custom_metrics: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    depth: int = 0                        # how many sections were open around it
