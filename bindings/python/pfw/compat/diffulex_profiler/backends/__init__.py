"""What goes on while a section is open.  Others register a ProfilerBackend as entry point of GROUP."""
from __future__ import annotations

import abc
import importlib.metadata
import os
from typing import Any

from .... import _api
from ...._rank import own_name
from ....torch import profile
from ....torch._profile import running, torch_module
from ..config import ProfilerConfig

GROUP = "pfw.diffulex_profiler.backends"


class ProfilerBackend(abc.ABC):
    """Made once a profiler, from its ProfilerConfig; ``start`` and ``stop`` come in pairs, and may nest."""

    def __init__(self, config: ProfilerConfig) -> None:
        self.config = config

    def path(self, name: str) -> str:
        os.makedirs(self.config.output_dir, exist_ok=True)
        return os.path.join(self.config.output_dir, name)

    @abc.abstractmethod
    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        """A section begins."""

    @abc.abstractmethod
    def stop(self) -> None:
        """The innermost section has ended."""


class SimpleBackend(ProfilerBackend):
    """Time only; the section is a span where something records (`pfw run`, pfw.start())."""

    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        return None

    def stop(self) -> None:
        return None


class PfwBackend(SimpleBackend):
    """Record: sections, I/O, spans, into ``{output_dir}/sections.pfw``, as they happen."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        if not _api.stats().enabled:
            _api.start(None if _api.stats().path else self.path("sections"))


class _Outermost(ProfilerBackend):
    """Of those that cannot nest: the outermost section is recorded, with what lies in it."""

    depth = 0

    def start(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        self.depth += 1
        if self.depth == 1:
            self.begin(name)

    def stop(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.end()

    def begin(self, name: str) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError


class PyTorchBackend(_Outermost):
    """pfw.torch.profile of each section, exported as ``pytorch_trace_{name}.json``."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        if torch_module() is None:
            raise ImportError("torch is not imported: pip install torch, and import it first")

    def begin(self, name: str) -> None:
        self.name = name
        self.profile: profile | None = None
        if running() is None:  # else somebody's profile has the section in it
            options = {"log_file": self.path("sections"), **(self.config.pytorch_profiler_config or {})}
            self.profile = profile(**options)
            self.profile.start()

    def end(self) -> None:
        if self.profile is not None:
            self.profile.stop()
            if self.profile.cycles:
                self.profile.export_chrome_trace(self.path(f"pytorch_trace_{self.name}.json"))


class VizTracerBackend(_Outermost):
    """VizTracer of each section, ``viztracer_{name}.json`` unless the configuration has an output_file."""

    def __init__(self, config: ProfilerConfig) -> None:
        super().__init__(config)
        import viztracer
        self.module = viztracer

    def begin(self, name: str) -> None:
        options = {"output_file": f"viztracer_{name}.json", **(self.config.viztracer_config or {})}
        options["output_file"] = own_name(self.path(options["output_file"]))
        self.tracer = self.module.VizTracer(**options)
        self.tracer.start()

    def end(self) -> None:
        self.tracer.stop()
        self.tracer.save()


BACKENDS: dict[str, type[ProfilerBackend]] = {
    "simple": SimpleBackend, "viztracer": VizTracerBackend, "pytorch": PyTorchBackend,
    "pfw": PfwBackend, "dftracer": PfwBackend}


def find(group: str, name: str, own: dict[str, Any]) -> Any:
    """The class of that name: one of ours, else an entry point's; None: there is none."""
    if name in own:
        return own[name]
    for point in importlib.metadata.entry_points(group=group, name=name):
        return point.load()
    return None
