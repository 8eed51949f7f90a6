"""What a DiffulexProfiler is told."""
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
