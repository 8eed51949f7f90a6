"""Files of what was measured.  Others register a ProfilerExporter as entry point of GROUP."""
from __future__ import annotations

import abc
import csv
import dataclasses
import json
import pathlib
from typing import Any

from ..data import PerformanceMetrics

GROUP = "pfw.diffulex_profiler.exporters"


class ProfilerExporter(abc.ABC):
    """``suffix`` is that of its files."""

    suffix = ".out"

    @abc.abstractmethod
    def export(self, metrics: list[PerformanceMetrics], summary: dict[str, Any], path: pathlib.Path) -> None:
        """Write them."""


class JsonExporter(ProfilerExporter):
    suffix = ".json"

    def export(self, metrics: list[PerformanceMetrics], summary: dict[str, Any], path: pathlib.Path) -> None:
        path.write_text(json.dumps({"summary": summary, "metrics": [dataclasses.asdict(one) for one in metrics]},
                                   indent=2, default=str) + "\n")


class CsvExporter(ProfilerExporter):
    suffix = ".csv"

    def export(self, metrics: list[PerformanceMetrics], summary: dict[str, Any], path: pathlib.Path) -> None:
        rows = [{"name": one.name, "duration_sec": one.duration, "total_tokens": one.total_tokens,
                 "throughput_tokens_per_sec": one.throughput_tokens_per_sec, **one.custom_metrics,
                 **{f"metadata_{key}": value for key, value in one.metadata.items()}} for one in metrics]
        names = sorted(dict.fromkeys(key for row in rows for key in row),
                       key=lambda name: name.startswith("metadata_"))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


class SummaryExporter(ProfilerExporter):
    suffix = ".txt"

    def export(self, metrics: list[PerformanceMetrics], summary: dict[str, Any], path: pathlib.Path) -> None:
        lines = [f"Total Sections: {summary['total_sections']}",
                 f"Total Duration: {summary['total_duration_sec']:.2f}s",
                 f"Total Tokens: {summary['total_tokens']}",
                 f"Average Throughput: {summary['avg_throughput_tokens_per_sec']:.2f} tok/s", ""]
        for one in metrics:
            line = f"{'  ' * one.depth}{one.name}: {one.duration:.3f}s"
            if one.total_tokens:
                line += f", {one.total_tokens} tokens, {one.throughput_tokens_per_sec:.2f} tok/s"
            if one.memory_delta_mb is not None:
                line += f", memory {one.memory_delta_mb:+.1f} MB"
            if one.gpu_utilization is not None:
                line += f", GPU {one.gpu_utilization:.0f} %"
            lines.append(line + "".join(f", {key} {value}" for key, value in one.custom_metrics.items()))
        path.write_text("\n".join(lines) + "\n")


EXPORTERS: dict[str, type[ProfilerExporter]] = {
    "json": JsonExporter, "csv": CsvExporter, "summary": SummaryExporter}
