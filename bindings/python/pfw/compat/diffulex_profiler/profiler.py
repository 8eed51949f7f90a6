"""DiffulexProfiler."""
from __future__ import annotations

import contextlib
import importlib.metadata
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from ..._load import core as _core
from ..._rank import own_name
from ...torch._measure import status_bytes
from ...torch._profile import warn
from . import backends, exporters
from .data import PerformanceMetrics, ProfilerConfig


class _Nothing:
    """A section of a profiler that is disabled."""

    __slots__ = ()
    __enter__ = __exit__ = _core.nothing


class _Open:
    """A section that has begun."""

    def __init__(self, metrics: PerformanceMetrics) -> None:
        self.metrics = metrics
        self.memory = status_bytes("VmRSS")
        self.given = 0.0  # seconds that record_throughput() was told
        self.span = _core.span(metrics.name, "section", **{str(key): value for key, value in metrics.metadata.items()})
        self.span.begin()
        self.began_epoch, self.began = time.time(), time.perf_counter_ns()


def _find(what: str, module: Any, own: dict[str, Any], name: str) -> Any:
    """The class of that name: one of ours, else an entry point's; None, with a warning: there is none."""
    points = [] if name in own else [*importlib.metadata.entry_points(group=module.GROUP, name=name)]
    if name not in own and not points:
        warn(f"DiffulexProfiler: {what} {name!r}: there is none; there are {', '.join(own)}, and "
             "entry points")
    return own[name] if name in own else points[0].load() if points else None


class DiffulexProfiler:
    """Measures sections: ``with profiler.profile("decode"): …``; of one thread."""

    def __init__(self, config: ProfilerConfig | None = None) -> None:
        self.config = config or ProfilerConfig()
        self.metrics: list[PerformanceMetrics] = []
        self._open: list[_Open] = []
        if self.config.enabled:
            self.backend = self._init_backend(self.config.backend)
            self.exporters = self._init_exporters()

    def _init_backend(self, name: str) -> backends.ProfilerBackend:
        try:
            return (_find("backend", backends, backends.BACKENDS, name) or backends.SimpleBackend)(self.config)
        except ImportError as error:
            warn(f"DiffulexProfiler: backend {name!r}: {error} (pip install "
                 f"{'torch' if name == 'pytorch' else name}): simple is used")
            return backends.SimpleBackend(self.config)

    def _init_exporters(self) -> dict[str, exporters.ProfilerExporter]:
        kinds = {name: _find("export format", exporters, exporters.EXPORTERS, name)
                 for name in self.config.export_formats}
        return {name: kind() for name, kind in kinds.items() if kind is not None}

    # ---- sections ----

    def profile(self, name: str, metadata: dict[str, Any] | None = None) -> Any:
        """A context manager: what is inside is a section."""
        return self._section(name, metadata) if self.config.enabled else _NOTHING

    @contextlib.contextmanager
    def _section(self, name: str, metadata: dict[str, Any] | None) -> Iterator[DiffulexProfiler]:
        depth = len(self._open)
        self.start(name, metadata)
        try:
            yield self
        finally:
            while len(self._open) > depth:
                self.stop()

    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        """A section begins, inside the one that is open."""
        if self.config.enabled:
            self.backend.start(name, metadata)
            self._open.append(_Open(PerformanceMetrics(name, metadata=dict(metadata or {}),
                                                       depth=len(self._open))))

    def stop(self) -> None:
        """The innermost section has ended."""
        ended = time.perf_counter_ns()
        if not self._open:
            if self.config.enabled:
                warn("DiffulexProfiler.stop(): no section is open")
            return
        section = self._open.pop()
        metrics = section.metrics
        duration = (ended - section.began) / 1e9
        if metrics.total_tokens:
            metrics.throughput_tokens_per_sec = metrics.total_tokens / (section.given or duration)
            section.span.set(tokens=metrics.total_tokens)
        section.span.end()
        self._measure(section, duration)
        self.metrics.append(metrics)
        self.backend.stop()

    def _measure(self, section: _Open, duration: float) -> None:
        metrics, began = section.metrics, section.began_epoch
        if self.config.collect_timing:
            metrics.start_time, metrics.end_time, metrics.duration = began, began + duration, duration
        if self.config.collect_memory_metrics:
            now = status_bytes("VmRSS")
            metrics.memory_mb, metrics.memory_delta_mb = now / 1e6, (now - section.memory) / 1e6
        devices = _core.gpus(int(began * 1e6)) if self.config.collect_gpu_metrics else []
        if devices:
            shares = [share for _, _, share in devices if share is not None]
            metrics.gpu_devices = [name for name, _, _ in devices]
            metrics.gpu_memory_mb = sum(used for _, used, _ in devices) / 1e6
            metrics.gpu_utilization = sum(shares) / len(shares) if shares else None

    def record_metric(self, name: str, value: Any) -> None:
        """A figure of the user's own, of the open section."""
        if self._open:
            self._open[-1].metrics.custom_metrics[name] = value

    def record_throughput(self, tokens: int | None = None, duration: float | None = None, *,
                          total_tokens: int | None = None) -> None:
        """So many tokens (more) in the open section; ``duration`` seconds, if not all of the section.

        ``total_tokens`` is another name of ``tokens``.
        """
        count = tokens if tokens is not None else total_tokens
        if count is None:
            raise TypeError("record_throughput() takes the number of tokens")
        if self._open:
            self._open[-1].metrics.total_tokens += count
            self._open[-1].given += duration or 0.0

    # ---- results ----

    def get_summary(self) -> dict[str, Any]:
        """Sums of the finished sections; a section in another adds no time. Disabled: {}."""
        if not self.config.enabled:
            return {}
        seconds = sum(one.total_tokens / one.throughput_tokens_per_sec for one in self.metrics
                      if one.throughput_tokens_per_sec)
        tokens = sum(one.total_tokens for one in self.metrics)
        return {
            "total_sections": len(self.metrics),
            "total_duration_sec": sum(one.duration for one in self.metrics if one.depth == 0),
            "total_tokens": tokens,
            "avg_throughput_tokens_per_sec": tokens / seconds if seconds else 0.0,
            "sections": [{"name": one.name, "duration_sec": one.duration,
                          "throughput_tokens_per_sec": one.throughput_tokens_per_sec,
                          "total_tokens": one.total_tokens} for one in self.metrics]}

    def export(self, output_path: str | pathlib.Path | None = None) -> None:
        """Write each format: to ``output_path`` with its suffix, else ``{output_dir}/profile_{time}``."""
        if not self.metrics:
            if self.config.enabled:
                warn("DiffulexProfiler.export(): no section has ended, so there is nothing to write")
            return
        name = self.config.output_file or time.strftime("profile_%Y%m%d_%H%M%S")
        base = pathlib.Path(output_path or pathlib.Path(self.config.output_dir) / name)
        base.parent.mkdir(parents=True, exist_ok=True)
        if base.suffix in {exporter.suffix for exporter in self.exporters.values()} | {".json", ".csv", ".txt"}:
            base = base.with_suffix("")
        for format_name, exporter in self.exporters.items():
            try:
                exporter.export(self.metrics, self.get_summary(), pathlib.Path(own_name(f"{base}{exporter.suffix}")))
            except Exception as error:  # the other formats are written
                warn(f"DiffulexProfiler.export(): {format_name}: {type(error).__name__}: {error}")

    def clear(self) -> None:
        """Forget the finished sections."""
        self.metrics.clear()


_NOTHING = _Nothing()
