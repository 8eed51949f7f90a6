"""cache-dit's ProfilerContext and its command-line flags, on pfw.torch.profile.

>>> from pfw.compat.cache_dit import create_profiler_from_args, add_profile_arguments, MemoryTracker

docs/cache_dit.rst says what changes for who used the original.
"""
from __future__ import annotations

import argparse
import logging
import os
import pathlib
import pickle
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import _api, _command, _read
from .._load import core as _core
from .._rank import own_name, rank_and_world
from .._trace import around
from ..torch import ProfilerActivity, profile, schedule
from ..torch._measure import MemoryTracker, cuda
from ..torch._profile import torch_module, warn

__all__ = ["MemoryTracker", "ProfilerContext", "add_profile_arguments", "create_profiler_context",
           "create_profiler_from_args", "get_profiler_output_dir", "profile_function", "profile_steps",
           "set_profiler_output_dir"]

_ACTIVITIES = {"CPU": ProfilerActivity.CPU, "GPU": ProfilerActivity.CUDA, "MEM": None}
_DIRECTORY = "CACHE_DIT_TORCH_PROFILER_DIR"
_log = logging.getLogger(__name__)
_used: dict[pathlib.Path, int] = {}  # files of this process: none is written twice
Function = TypeVar("Function", bound=Callable[..., Any])


def get_profiler_output_dir() -> str:
    """Where traces go unless told: $CACHE_DIT_TORCH_PROFILER_DIR, DFTRACER_LOG_FILE's directory, or /tmp."""
    log = os.environ.get("DFTRACER_LOG_FILE")
    return os.environ.get(_DIRECTORY) or (os.path.dirname(log) or "." if log else "/tmp/cache_dit_profiles")


def set_profiler_output_dir(directory: str | os.PathLike[str]) -> None:
    """Have traces of this process and its children go there."""
    os.environ[_DIRECTORY] = os.fspath(directory)


class ProfilerContext(metaclass=_core.Switch):
    """Profile what is inside, into ``{profile_name}[-rank{N}].trace.json.gz``; may be used again.

    :param activities: of "CPU", "GPU" and "MEM" (allocations: ``…-memory-{s}.pickle`` and ``.txt``).
    :param output_dir: see get_profiler_output_dir().
    :param profile_name: "profile_{s}" unless told, s being seconds since the epoch.
    :param wait: steps left out, then ``warmup`` marked as such, then ``active``, all that ``repeat`` times.
        A step is a ``step()``, a record_function() that PFW_STEP names, or ``callback_on_step_end`` in
        diffusers' pipelines. Without any, all counts as active.
    """

    def __init__(self, enabled: bool = True, activities: Sequence[str] | None = None,
                 output_dir: str | os.PathLike[str] | None = None, profile_name: str | None = None,
                 with_stack: bool = False, record_shapes: bool = True, wait: int = 0, warmup: int = 1,
                 active: int = 3, repeat: int = 1) -> None:
        self.enabled = enabled
        self.profiler: profile | None = None
        if not enabled:
            return
        self.activities = list(activities or ("CPU", "GPU"))
        unknown = [word for word in self.activities if word not in _ACTIVITIES]
        if unknown:
            raise ValueError(f"activities: {', '.join(map(str, unknown))}: not CPU, GPU or MEM")
        self.output_dir = pathlib.Path(output_dir or get_profiler_output_dir()).expanduser()
        self.profile_name = profile_name
        self.with_stack = with_stack
        self.record_shapes = record_shapes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warm-up may be what is wanted here
            self.schedule = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
        self.trace_path: pathlib.Path | None = None
        self.memory_path: pathlib.Path | None = None

    def __enter__(self) -> ProfilerContext:
        if not self.enabled:
            return self
        self._began = time.time()
        name = self.profile_name or f"profile_{int(self._began)}"
        self.output_dir.mkdir(parents=True, exist_ok=True)
        count = _used[self.output_dir / name] = _used.get(self.output_dir / name, 0) + 1
        self._base = self.output_dir / (name if count == 1 else f"{name}-{count}")
        self.trace_path = pathlib.Path(own_name(f"{self._base}.trace.json.gz"))
        memory = "MEM" in self.activities
        self.profiler = profile(
            activities=[activity for word in self.activities if (activity := _ACTIVITIES[word]) is not None],
            schedule=self.schedule, on_trace_ready=self._write, record_shapes=self.record_shapes,
            profile_memory=memory, with_stack=self.with_stack, keep_warmup=True, steps_optional=True,
            log_file=self._base)
        if memory:
            self.memory_path = pathlib.Path(
                f"{self._base}-rank{rank_and_world()[0]}-memory-{int(self._began)}.pickle")
            if torch_module() is None:  # the recorder's samples are all that there is of memory
                os.environ.setdefault("PFW_COUNTERS", "50ms")
        self.profiler.start()
        if memory and cuda() is not None:
            cuda().memory._record_memory_history(max_entries=100_000)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.profiler is None:
            return
        if cuda() is not None:
            cuda().synchronize()
        self.profiler.stop()
        if self.profiler.cycles:
            if self.memory_path is not None:
                self._write_memory(self.memory_path)
            _log.info("Profiler traces saved to: %s", self.trace_path)

    def step(self) -> None:
        """A step has ended."""
        if self.profiler is not None:
            self.profiler.step()

    def callback_on_step_end(self, pipe: Any, step: int, timestep: Any, callback_kwargs: dict[str, Any]
                             ) -> dict[str, Any]:
        """diffusers' parameter of that name."""
        self.step()
        return callback_kwargs

    def _write(self, profiler: profile) -> None:
        """A cycle is over: its file, and the name by which TensorBoard knows it."""
        suffix = f"-cycle{len(profiler.cycles)}" if len(profiler.cycles) > 1 else ""
        self.trace_path = pathlib.Path(own_name(f"{self._base}{suffix}.trace.json.gz"))
        profiler.export_chrome_trace(self.trace_path)
        stem = self.trace_path.name.removesuffix(".trace.json.gz")
        for_tensorboard = self.output_dir / f"{stem}.{time.time_ns()}.pt.trace.json.gz"
        try:
            for_tensorboard.hardlink_to(self.trace_path)
        except OSError:  # the file system has no links
            shutil.copyfile(self.trace_path, for_tensorboard)

    def _write_memory(self, path: pathlib.Path) -> None:
        """torch's own snapshot where CUDA is in use, else the trace's allocations in the same schema."""
        since = f"{int(self._began * 1e6)}"
        text = _command.run(["memory", "--quiet", "--since", since, _api.stats().path])
        if cuda() is not None:
            cuda().memory._dump_snapshot(str(path))
            cuda().memory._record_memory_history(enabled=None)
            text = f"{cuda().memory_summary()}\n{text}"
        else:
            lines = _read.query(_api.stats().path, cat="PP", since=since, where='args.kind == "memory"')
            events = [{"action": "alloc" if args["bytes"] > 0 else "free_completed", "addr": args.get("addr", 0),
                       "size": abs(args["bytes"]), "stream": 0, "time_us": line["ts"] // 1000, "frames": []}
                      for line in lines for args in [line["args"]]]
            path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events], "allocator_settings": {}}))
        if torch_module() is None:
            samples = [line["args"]["rss"] / 2**30 for line in _read.query(
                _api.stats().path, cat="COUNTER", since=since, where='name == "memory"')]
            text += (f"Host memory in {len(samples)} samples: at most {max(samples):.2f} GiB, "
                     f"at the end {samples[-1]:.2f} GiB\n" if samples else
                     "Host memory: no samples were taken (PFW_COUNTERS=50ms takes them)\n")
        path.with_suffix(".txt").write_text(text)


class _Disabled(ProfilerContext):
    """What ``ProfilerContext(enabled=False)`` always is: as good as nothing to make, enter and leave."""

    __exit__ = step = _core.nothing


_off = _Disabled(False)
setattr(_Disabled, "__enter__", _core.giving(_off))
setattr(ProfilerContext, "_off", _off)


def profile_function(enabled: bool = True, profile_name: str | None = None,
                     activities: Sequence[str] | None = None,
                     output_dir: str | os.PathLike[str] | None = None, with_stack: bool = False,
                     record_shapes: bool = True) -> Callable[[Function], Function]:
    """Profile each call of a function, named as the function is unless told; ProfilerContext's arguments."""
    def decorate(function: Function) -> Function:
        return around(function, lambda: ProfilerContext(
            True, activities, output_dir, profile_name or function.__name__, with_stack, record_shapes)
        ) if enabled else function
    return decorate


def create_profiler_context(enabled: bool = False, **keywords: Any) -> ProfilerContext:
    """A ProfilerContext, off unless told."""
    return ProfilerContext(enabled, **keywords)


def create_profiler_from_args(args: argparse.Namespace, profile_name: str | None = None) -> ProfilerContext:
    """A ProfilerContext from add_profile_arguments()'s flags; what ``args`` lacks has its default.

    :param profile_name: instead of ``args.profile_name``, which is warned of.
    """
    flags = {**vars(add_profile_arguments(argparse.ArgumentParser()).parse_args([])), **vars(args)}
    name = flags["profile_name"]
    if profile_name and name and name != profile_name:
        warn(f"--profile-name {name} is overridden by the program: {profile_name}")
    return ProfilerContext(
        flags["profile"], flags["profile_activities"], flags["profile_dir"], profile_name or name,
        *(flags[f"profile_{word}"] for word in ("with_stack", "record_shapes", "wait", "warmup", "active", "repeat")))


def add_profile_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a parser ``--profile``, its settings ``--profile-…``, ``--steps`` and ``--track-memory``."""
    add = parser.add_argument
    add("--profile", action="store_true", help="profile the run")
    add("--profile-name", help="prefix of the files (default: profile_ and the time)")
    add("--profile-dir", help=f"directory for them (default: ${_DIRECTORY} or /tmp/cache_dit_profiles)")
    add("--profile-activities", nargs="+", choices=list(_ACTIVITIES), default=["CPU", "GPU"],
        metavar="CPU|GPU|MEM", help="what to profile: CPU, GPU, MEM (default: CPU GPU)")
    add("--profile-with-stack", action="store_true", help="record stacks")
    add("--profile-record-shapes", action=argparse.BooleanOptionalAction, default=True,
        help="record the shapes of tensors")
    add("--profile-wait", type=int, default=0, help="steps to leave out (0)")
    add("--profile-warmup", type=int, default=1, help="steps marked as warm-up (1)")
    add("--profile-active", type=int, default=3, help="steps to profile (3)")
    add("--profile-repeat", type=int, default=1, help="how often, 0: to the end (1)")
    add("--steps", type=int, help="inference steps (3 with --profile, else the program's)")
    add("--track-memory", action="store_true", help="report peaks of memory")
    return parser


def profile_steps(args: argparse.Namespace, default: int = 28, profiled: int = 3) -> int:
    """How many steps to run: ``--steps``, else ``profiled`` with ``--profile``, else ``default``."""
    steps = getattr(args, "steps", None)
    if steps is not None:
        return int(steps)
    return profiled if getattr(args, "profile", False) else default
