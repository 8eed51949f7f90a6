"""What goes on while a section is open.  Others register a ProfilerBackend as entry point of GROUP."""
from __future__ import annotations

import abc
import contextlib
import importlib
import os
from typing import Any

from .... import _api
from ...._load import core as _core
from ...._rank import own_name
from ....torch import profile
from ....torch._profile import running
from ..data import ProfilerConfig

GROUP = "pfw.diffulex_profiler.backends"


def in_file(name: str) -> str:
    """A section's name as part of a file's."""
    return name.replace("/", "_")


class ProfilerBackend(abc.ABC):
    """Made once a profiler, from its ProfilerConfig; ``start`` and ``stop`` come in pairs, and may nest."""

    def __init__(self, config: ProfilerConfig) -> None:
        self.config = config

    def path(self, name: str) -> str:
        path = os.path.join(self.config.output_dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    @abc.abstractmethod
    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        """A section begins."""

    @abc.abstractmethod
    def stop(self) -> None:
        """The innermost section has ended."""


class SimpleBackend(ProfilerBackend):
    """Time only; the section is a span where something records (`pfw run`, pfw.start())."""

    start = stop = _core.nothing


class PfwBackend(SimpleBackend):
    """Record: sections, I/O, spans, into ``{output_dir}/sections.pfw``, as they happen."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        if not _api.stats().enabled:
            _api.start(None if _api.stats().path else self.path("sections"))


class _Outermost(ProfilerBackend):
    """Of those that cannot nest: ``recording`` the outermost section, with what lies in it."""

    depth = 0

    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        self.depth += 1
        if self.depth == 1:
            self.context = self.recording(name)
            self.context.__enter__()

    def stop(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.context.__exit__(None, None, None)

    @abc.abstractmethod
    def recording(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """What is around a section."""


class PyTorchBackend(_Outermost):
    """pfw.torch.profile of each section, exported as ``pytorch_trace_{name}.json``."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        importlib.import_module("torch")  # profile() takes it where the program has it

    def recording(self, name: str) -> contextlib.AbstractContextManager[Any]:
        if running() is not None:
            return contextlib.nullcontext()  # somebody's profile has the section in it
        return profile(**{
            "log_file": self.path("sections"),
            "on_trace_ready": lambda made: made.export_chrome_trace(self.path(f"pytorch_trace_{in_file(name)}.json")),
            **(self.config.pytorch_profiler_config or {})})


class VizTracerBackend(_Outermost):
    """VizTracer of each section, ``viztracer_{name}.json`` unless the configuration has an output_file."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        self.module = importlib.import_module("viztracer")

    def recording(self, name: str) -> contextlib.AbstractContextManager[Any]:
        options = {"output_file": f"viztracer_{in_file(name)}.json", **(self.config.viztracer_config or {})}
        tracer: contextlib.AbstractContextManager[Any] = self.module.VizTracer(
            **{**options, "output_file": own_name(self.path(options["output_file"]))})
        return tracer


BACKENDS: dict[str, type[ProfilerBackend]] = {
    "simple": SimpleBackend, "viztracer": VizTracerBackend, "pytorch": PyTorchBackend,
    "pfw": PfwBackend, "dftracer": PfwBackend}
