"""torch.profiler.profile's interface on a trace: what a cycle held is on disk when the cycle ends.

What other tools' front ends offer (pfw.compat) is built on this: it alone says when something is
recorded, and every file and table is made by the command ``pfw`` of the trace.
"""
from __future__ import annotations

import contextlib
import fnmatch
import functools
import gzip
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from .. import _api, _command, _read, _trace
from .._load import core as _core
from .._rank import own_name
from ._averages import Averages, Device
from ._handler import write_cycle
from ._schedule import ProfilerAction

_NONE, _WARMUP, _RECORD, _SAVE = ProfilerAction
_ACTIVE = (_RECORD, _SAVE)
_NO_IO = 'cat != "POSIX" && cat != "STDIO" && cat != "NET" && cat != "SYNC"'
STEPS_IN_MEMORY = 50
"""torch keeps what it records in memory; a longer cycle is written in parts of so many active steps."""
_OURS = (os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""), contextlib.__file__)
_warned: set[str] = set()


class Cycle(NamedTuple):
    """A finished cycle; ns since the epoch."""

    since: int   # its begin, the warm-up's where that is kept
    active: int  # the begin of its active steps
    until: int
    steps: int   # active steps that ended in it


def warn(text: str) -> None:
    """A warning that names the line of the program's: Python shows the same text once for each line."""
    level, frame = 2, sys._getframe().f_back
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def warn_once(text: str) -> None:
    """The same, the first time that it comes up in this process."""
    if text not in _warned:
        _warned.add(text)
        warn(text)


def running() -> profile | None:
    """The profile that is active in this process."""
    return profile._running


def torch_module() -> Any:
    """torch, where the program has imported it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "profiler") else None


def _torch_activities(torch: Any, activities: Iterable[Any] | None) -> list[Any]:
    """torch's own, of those that this machine has."""
    known = torch.profiler.ProfilerActivity
    here = {"CPU": True, "CUDA": torch.cuda.is_available(),
            "XPU": hasattr(torch, "xpu") and torch.xpu.is_available()}
    wanted = [getattr(activity, "name", str(activity)) for activity in activities or ()]
    missing = [name for name in wanted if not here.get(name, hasattr(known, name))]
    if missing:
        warn_once(f"pfw: this torch sees no {' and no '.join(missing)} device here: what the CPU does "
                  "is recorded")
    return [getattr(known, name) for name in wanted or here if here.get(name, name not in missing)] or [known.CPU]


class Events:
    """What a profile has recorded, read from the trace anew by each loop; an index, len() or list() keeps it all."""

    def __init__(self, of: profile, words: list[str]) -> None:
        self._of, self._words = of, words

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.get("_all") or self._read())

    def _read(self) -> Iterator[Any]:
        words = self._words
        for line in _read.query(words[-1], cat="PP", since=words[1], until=words[3]):
            args = line["args"]
            begin, dur = line["ts"] / 1000, line.get("dur", 0) / 1000
            device = Device(args.get("device", 0))
            yield SimpleNamespace(
                name=line["name"], key=line["name"], thread=line["tid"], id=args.get("external_id", 0), count=1,
                time_range=SimpleNamespace(start=begin, end=begin + dur, elapsed_us=lambda dur=dur: dur),
                cpu_time=0 if device else dur, cpu_time_total=0 if device else dur,
                device_type=device, device_index=args.get("device_index", 0),
                cpu_memory_usage=args.get("cpu_memory", 0),
                device_memory_usage=args.get("device_memory_usage", 0),
                input_shapes=args.get("input_shapes", []), stack=args.get("stack", []),
                flops=args.get("flops", 0), is_remote=bool(args.get("is_remote")), args=args)

    @functools.cached_property
    def _all(self) -> list[Any]:
        return list(self._read())

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, at: Any) -> Any:
        return self._all[at]

    def key_averages(self, *args: Any, **keywords: Any) -> Averages:
        """As the profile's."""
        return self._of.key_averages(*args, **keywords)


class profile:
    """torch.profiler.profile, streaming: context manager, ``start``, ``step``, ``stop``, tables, exports.

    Where torch is not imported, the program's own spans, I/O and steps are what there is.  If nothing
    records yet (``pfw.start()``, ``pfw run``), this does while it is active, into one trace a process,
    which stays: ``pfw table``, ``pfw overlap`` and others read it later.

    :param activities: of ProfilerActivity, ours or torch's.
    :param schedule: what to do in which step: ours, torch's or any callable; None: record all.
    :param on_trace_ready: called with this object when a cycle has been written, in ``step()`` or at the end.
    :param acc_events: tables and exports are of all cycles so far; else of the last one.
    :param keep_warmup: write the warm-up's events, too, marked ``phase`` "warmup"; else as torch: none.
    :param steps_optional: if ``step()`` is never called, all counts as active; and where PFW_STEP has names,
        a record_function() with such a name begins a step.
    :param log_file: name of the trace if this is the first in the process to record; as pfw.start()'s.
    """

    streams = True
    _running: profile | None = None

    def __init__(self, *, activities: Iterable[Any] | None = None,
                 schedule: Callable[[int], Any] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None,
                 execution_trace_observer: Any = None, acc_events: bool = False,
                 use_cuda: bool | None = None, custom_trace_id_callback: Any = None,
                 post_processing_timeout_s: float | None = None, keep_warmup: bool = False,
                 steps_optional: bool = False, log_file: str | os.PathLike[str] | None = None) -> None:
        self.activities = activities
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.acc_events = acc_events
        self.keep_warmup = keep_warmup
        self.steps_optional = steps_optional
        self.log_file = log_file
        self.step_num = 0
        self.current_action = _NONE
        self.cycles: list[Cycle] = []
        self.with_torch = False
        options = {
            "record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack,
            "with_flops": with_flops, "with_modules": with_modules, "experimental_config": experimental_config,
            "execution_trace_observer": execution_trace_observer,
            "custom_trace_id_callback": custom_trace_id_callback,
            "post_processing_timeout_s": post_processing_timeout_s}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._inner: Any = None       # torch's profile of this cycle
        self._started = False         # it records
        self._owns = False            # the recorder is on because of this
        self._since = self._active = 0
        self._steps = 0
        self._step_since = 0
        self._annotation: Any = None  # torch's, of this step
        self._step_names: list[str] = []
        self._step_seen = False
        self._empty = False           # a cycle ended, and there is no trace

    # ---- when ----

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0.

        :raises RuntimeError: another one is active in this process.
        """
        if profile._running is not None:
            raise RuntimeError("pfw: a profile is active in this process already: end it before this "
                               "one begins (profilers do not nest; use pfw.record_function() inside)")
        self.step_num = 0
        self.current_action = _RECORD if self.steps_optional else self._planned()
        profile._running = self
        try:
            self._transit(_NONE, self.current_action)
        except BaseException:
            profile._running = None
            raise
        self._step_names = os.environ.get("PFW_STEP", "").split(",") if self.steps_optional else []
        if any(self._step_names):
            _trace.on_enter = self._named
        self._begin_step()

    def stop(self) -> None:
        """End; a cycle that is under way is written as it is."""
        if profile._running is not self:
            return
        profile._running = _trace.on_enter = None
        self._end_step()
        action, self.current_action = self.current_action, _NONE
        if action in _ACTIVE or (action is _WARMUP and self.keep_warmup):
            self._end_cycle()
        elif action is _WARMUP:
            self._forget()
        wanted = getattr(self.schedule, "active", 0)
        seen = self.cycles[-1].steps if self.cycles else 0
        if wanted and self.steps_optional and self.step_num == 0 and self.cycles:
            warn("pfw: no step() was called: the whole block counts as active")
        elif seen < wanted and not self._empty:
            warn(f"pfw: {seen} of {wanted} active steps seen{' in the last cycle' if seen else ''}: "
                 "call step() at the end of each step, and run more of them")

    def step(self) -> None:
        """A step has ended, the next one begins."""
        if profile._running is not self:
            return
        first = self.steps_optional and self.step_num == 0
        if first:
            self.current_action = self._planned()
        self._end_step()
        before = self.current_action
        if first and before is _NONE:
            self._forget()
        elif first and before is _WARMUP:
            self._active = 0
        self._steps += before in _ACTIVE
        self.step_num += 1
        self.current_action = self._planned()
        self._transit(before, self.current_action)
        if self._inner is not None and self._steps and self._steps % STEPS_IN_MEMORY == 0:
            self._write()
            self._prepare()
            self._record()
        self._begin_step()

    def _named(self, name: str) -> None:
        if any(fnmatch.fnmatchcase(name, glob) for glob in self._step_names):
            if self._step_seen:
                self.step()
            self._step_seen = True

    def _planned(self) -> ProfilerAction:
        if self.schedule is None:
            return _RECORD
        action = self.schedule(self.step_num)
        return ProfilerAction[getattr(action, "name", str(action))]

    def _transit(self, before: ProfilerAction, after: ProfilerAction) -> None:
        if before is _SAVE or (before is _RECORD and after not in _ACTIVE):
            self._end_cycle()
        elif before is _WARMUP and after is _NONE:
            self._forget()
        if after is not _NONE and not self._since:
            self._prepare()
            self._since = time.time_ns()
        if after in _ACTIVE and not self._active:
            self._record()
            self._active = time.time_ns()
        elif after is _WARMUP and self.keep_warmup:
            self._record()

    def _prepare(self) -> None:
        """A cycle begins: have torch's profiler ready."""
        torch = torch_module()
        self.with_torch = torch is not None
        if torch is not None:
            self._inner = torch.profiler.profile(activities=_torch_activities(torch, self.activities),
                                                 **self._options)
            self._inner.prepare_trace()

    def _record(self) -> None:
        if self._started:
            return
        self._started = True
        if not _api.stats().enabled:
            self._owns = _api.start(None if _api.stats().path else self.log_file)
            if not self._owns:
                warn_once("pfw: nothing is recorded, so this profile stays empty: DFTRACER_ENABLE is 0, "
                          "or standard error has why")
        if self._inner is not None:
            self._inner.start_trace()
            _trace.profile_writes = _api.stats().enabled

    def _close(self) -> Any:
        """The cycle is over: torch's profile of it, if it has one."""
        inner, self._inner = self._inner, None
        _trace.profile_writes = False
        if inner is not None:
            if not self._started:
                inner.start_trace()
            inner.stop_trace()
        self._started = False
        return inner

    def _forget(self) -> None:
        """No cycle is under way; what torch has of one is dropped."""
        self._close()
        self._since = self._active = self._steps = 0
        if self._owns:
            self._owns = False
            _api.stop()

    def _end_cycle(self) -> None:
        until = self._write()
        cycle = Cycle(self._since if self.keep_warmup else self._active, self._active or until, until, self._steps)
        self._forget()
        self._empty = not _api.stats().path  # _record() has said it
        if not self._empty:
            self.cycles.append(cycle)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def _write(self) -> int:
        """What torch has goes to the trace, and out of memory; when its recording ended."""
        inner = self._close()
        until = time.time_ns()
        if inner is not None and _api.stats().enabled:
            write_cycle(inner, self._active if self.keep_warmup else 0)
            inner.profiler = None  # all that torch holds of it; the object itself is in reference cycles
        _api.flush()
        return until

    def _begin_step(self) -> None:
        if self.schedule is None:
            return
        self._step_since = time.time_ns()
        torch = torch_module()
        if torch is not None and self._started:
            self._annotation = torch.autograd.profiler.record_function(f"ProfilerStep#{self.step_num}")
            self._annotation.__enter__()

    def _end_step(self) -> None:
        annotation, self._annotation = self._annotation, None
        if annotation is not None:
            annotation.__exit__(None, None, None)
        elif (self._started and self._inner is None and self.schedule is not None
              and self.current_action is not _NONE):
            _core.compute_event(f"ProfilerStep#{self.step_num}", self._step_since,
                                time.time_ns() - self._step_since, kind="step", step=self.step_num,
                                phase="active" if self.current_action in _ACTIVE else "warmup")

    # ---- what ----

    def _selection(self, warmup: bool, *conditions: str) -> list[str]:
        """Options and path of what was recorded, so far where the first cycle is not over yet."""
        path = _api.stats().path
        if not path:
            raise RuntimeError("pfw: this profile has no trace: nothing was recorded in its process")
        if not self.cycles and not self._active:
            raise RuntimeError("pfw: this profile has no finished cycle: no active step was reached")
        if self.cycles:
            first, until = self.cycles[0 if self.acc_events else -1], self.cycles[-1].until
            since = first.since if warmup else first.active
        else:
            _api.flush()
            since, until = self._since if warmup else self._active, time.time_ns()
        return ["--since", f"{since // 1000}.{since % 1000:03}", "--until",
                f"{until // 1000}.{until % 1000:03}", *conditions, path]

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> Averages:
        """Events added up by name, and by shapes or the n innermost frames of their stacks."""
        group = "name,shape" if group_by_input_shape else None
        if group_by_stack_n > 0:
            group = f"{group or 'name'},stack:{group_by_stack_n}"
        words = self._selection(False)
        kinds = 'cat in ("PP", "app")' if self.with_torch else _NO_IO
        # A span around the profile lies in no cycle of it.
        return Averages([*words[:-1], "--where", f"{kinds} && ts >= {words[1]}", words[-1]], group)

    def events(self) -> Events:
        """Compute events in the order of the trace, with torch's names for what they have; us."""
        return Events(self, self._selection(False))

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Write a timeline for Perfetto, chrome://tracing and TensorBoard; compressed if named .gz.

        It appears when it is whole, in place of an older one.  Of several ranks each has its own
        (pfw._rank.own_name), here and in the other exports.
        """
        self._export(own_name(path), "chrome", self._selection(True))

    def _export(self, path: str, form: str, words: list[str]) -> None:
        _command.run(["export", "--quiet", "--force", "--format", form, "-o", path, *words])

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write stacks ``a;b;c NS`` for flamegraph.pl, speedscope and others.

        :param metric: self_cpu_time_total, self_cuda_time_total or self_xpu_time_total: whose time.
        """
        kinds = {"cpu": "host", "cuda": "device", "xpu": "device", "device": "device"}
        word = metric.removeprefix("self_").removesuffix("_time_total")
        if word not in kinds or metric != f"self_{word}_time_total":
            raise ValueError(f"export_stacks: {metric!r} is no metric; there are "
                             + ", ".join(f"self_{kind}_time_total" for kind in kinds))
        words = self._selection(False, "--where", 'cat == "PP"' if self.with_torch else _NO_IO)
        path = own_name(path)
        self._export(path, "folded", ["--weight", kinds[word], *words])
        if kinds[word] == "device" and not os.path.getsize(path):
            warn_once("pfw: export_stacks: no device worked, so the stacks are those of the CPU's time")
            self._export(path, "folded", words)

    def memory(self, device: str | None = None) -> dict[str, Any]:
        """What `pfw memory` says of a device's allocations: ``peak_bytes``, ``unfreed``, ``unfreed_bytes``, …

        :param device: "cpu", "cuda:0", …; None: the first GPU in the trace, else the CPU.
        """
        return self._memory(device, "device", self._selection(False))[0]

    def _memory(self, device: str | None, section: str, words: list[str]) -> list[dict[str, Any]]:
        rows = [row for row in _command.rows(["memory", "--quiet", "--bins", "1000", "--row-limit", "1", *words])
                if row["section"] == section]
        devices = sorted({row["device"] for row in rows}, key=lambda name: (name == "cpu", name))
        found = [row for row in rows if row["device"] == (device or devices[0])] if devices else []
        if not found:
            raise ValueError(f"no allocations of {device or 'any device'}: profile_memory=True records "
                             f"them; there are those of {', '.join(devices) or 'none'}")
        return found

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        """Write how much was allocated over time: ``[[us since the epoch], [bytes]]`` as .json or .json.gz.

        :param device: "cpu", "cuda:0", …; None: the first in the trace that has a GPU's, else the CPU's.
        :raises ValueError: the path ends otherwise (torch's .html, for one, is not written).
        """
        if not os.fspath(path).endswith((".json", ".json.gz")):
            raise ValueError(f"export_memory_timeline: {os.fspath(path)}: .json and .json.gz are written")
        points = self._memory(device, "time", self._selection(True))
        document = json.dumps([[row["ts"] for row in points], [row["end_bytes"] for row in points]])
        path = own_name(path)
        temporary = f"{path}.{os.getpid()}"
        with (gzip.open if path.endswith(".gz") else open)(temporary, "wt") as file:
            file.write(document)
        os.replace(temporary, path)

    def add_metadata(self, key: str, value: str) -> None:
        """Have a text in the trace and in exports, as a span without length."""
        with _core.span("metadata", "pfw.torch", **{key: value}):
            pass

    add_metadata_json = add_metadata


def tensorboard_trace_handler(dir_name: str | os.PathLike[str], worker_name: str | None = None,
                              use_gzip: bool = False) -> Callable[[Any], None]:
    """on_trace_ready that writes ``{worker_name}.{ns}.pt.trace.json`` into a folder for TensorBoard.

    :param worker_name: one for each process; ``{host}_{pid}`` by default.
    """
    def handler(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))
    return handler
