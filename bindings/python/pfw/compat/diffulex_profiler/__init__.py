"""Diffulex's section profiler: time, tokens, memory and GPUs of named sections, on this recorder.

>>> from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig

docs/diffulex_profiler.rst says what changes for who used the original.
"""
from .backends import ProfilerBackend
from .data import PerformanceMetrics, ProfilerConfig
from .exporters import ProfilerExporter
from .profiler import DiffulexProfiler

__all__ = ["DiffulexProfiler", "PerformanceMetrics", "ProfilerBackend", "ProfilerConfig", "ProfilerExporter"]
