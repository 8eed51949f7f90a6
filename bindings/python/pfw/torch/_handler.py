"""on_trace_ready of torch.profiler: every event of a cycle goes into the trace."""
from __future__ import annotations

import gc
import json
import re
import sys
import threading
import time
from typing import Any

from .._api import enabled, flush
from .._load import core as _core
from .._trace import annotated_twice
from . import _operators
from ._saved import Event, events_of

_said: set[str] = set()


def trace_handler(prof: Any) -> None:
    """Write every event of torch.profiler's finished cycle to the trace, cat ``PP``.

    Give it to ``torch.profiler.profile(on_trace_ready=trace_handler)``, with or without a schedule, or
    call it with a profile that has ended.  Operators keep their threads and kernels their streams; what
    the profile was asked for (``record_shapes``, ``profile_memory``, ``with_stack``, ``with_flops``) is in
    ``args``: see the page on the Python package for each.  The profile itself is left as it is: its own
    tables and exports work before and after.

    Times are those of the trace's own clock (Kineto's is CLOCK_REALTIME, too).  The cycle is on disk when
    this returns.  Nothing happens where nothing is recorded, and nothing is ever raised: what is wrong is
    said once on standard error.  Call it in the thread that ended the cycle, as torch does.

    :param prof: a torch.profiler.profile or torch.autograd.profiler.profile, torch 2.1 or later.  Of
        anything else its ``events()`` are written, with what they tell.
    """
    if enabled() and not getattr(prof, "streams", False):
        write_cycle(prof)


def write_cycle(prof: Any, active_ns: int = 0) -> None:
    """The same; what begins before ``active_ns`` is marked as warm-up."""
    try:
        if not _write_results(prof, active_ns):
            _write_events(prof.events())
        flush()
    except Exception as error: # the program goes on, whatever a torch of another version does
        _say(f"trace_handler: this cycle is not in the trace: {type(error).__name__}: {error}")


def _say(what: str) -> None:
    if what not in _said:
        _said.add(what)
        print(f"pfw: {what}", file=sys.stderr)


# What of a profile is written
_OPERATORS, _OTHERS = 1, 2


def _write_operators(inner: Any) -> bool:
    try:
        return not enabled() or _write_results(inner, 0, _OPERATORS)
    except Exception as error:  # what was left to this profile is counted as lost
        _say(f"PFW_TORCH_OPS: operators of a profile are not in the trace: {type(error).__name__}: {error}")
        return False


_operators.watch_profiles(_write_operators)


def _write_results(prof: Any, active_ns: int, parts: int = _OPERATORS | _OTHERS) -> bool:
    """Write what Kineto has recorded; false where this is none of its profiles."""
    inner = getattr(prof, "profiler", prof)
    results = getattr(inner, "kineto_results", None)
    if results is None or not hasattr(results, "events"):
        return False
    if not _operators.wanted(inner):
        parts &= ~_OPERATORS
        if not hasattr(inner, "_pfw_written"):
            _say("trace_handler: this profile began before pfw.torch was imported: its operators are in "
                 "the trace as PFW_TORCH_OPS has recorded them, without shapes and the like")
    collecting = gc.isenabled()
    gc.disable() # so many short-lived lists would have it look at all objects again and again
    try:
        events = results.events()
        if not events and getattr(getattr(inner, "experimental_config", None), "trace_only", False):
            events = events_of(inner)
        if events:
            _say_what_is_lacking(type(events[0]))
            events = _without_our_spans(events)
        allocations, functions = _tree(results, events, inner)
        _core.kineto(functions + events, bool(getattr(inner, "record_shapes", False)),
                     bool(getattr(inner, "with_stack", False)),
                     bool(getattr(inner, "with_flops", False)), parts, active_ns, allocations,
                     _operators.gpu_since_ns())
        if parts & _OPERATORS:
            _operators.written(inner)
    finally:
        if collecting:
            gc.enable()
    return True


def _say_what_is_lacking(kind: type) -> None:
    """Of a torch that is older than those that this is for: 1.13 is Debian's."""
    torch = sys.modules.get("torch")
    version = str(getattr(torch, "__version__", ""))
    if not re.match(r"[01]\.|2\.0(\.|$)", version):
        return
    lacks = [what for getter, what in (("start_ns", "times finer than microseconds"),
                                       ("structured_input_strides", "strides"),
                                       ("is_python_function", "numbers of Python's functions"))
             if not hasattr(kind, getter)]
    if not getattr(torch.profiler, "kineto_available", bool)(): # type: ignore[union-attr]
        lacks.append("events of GPUs and the threads of others (it is built without Kineto)")
    _say(f"trace_handler: torch {version} is older than 2.1 and lacks {', '.join(lacks)}: "
         "what it has is in the trace")


def _without_our_spans(events: list[Any]) -> list[Any]:
    """All but the annotations of pfw's record_function()s that are in the trace as spans."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for name, since, until in annotated_twice():
        spans.setdefault(name, []).append((since, until))
    if not spans:
        return events
    left = []
    for event in events:
        times = spans.get(event.name())
        begin = times and _start_ns(event)
        twice = times and next((time for time in times if time[0] - 10_000 <= begin <= time[1]), None)
        if not twice:
            left.append(event)
        elif not int(event.device_type()):
            times.remove(twice)
    return left


def _start_ns(event: Any) -> int:
    return int(event.start_ns() if hasattr(event, "start_ns") else event.start_us() * 1000)


class _Function:
    """A call of a Python function, with an event's getters; of times in us, as older torch's."""

    def __init__(self, node: Any, number: int, parent: int, tid: int) -> None:
        self.node, self.number, self.parent, self.tid = node, number, parent, tid

    def name(self) -> str:
        return str(self.node.name)

    def is_python_function(self) -> bool:
        return True

    def start_ns(self) -> int:
        return int(self.node.start_time_ns)

    def duration_ns(self) -> int:
        return int(self.node.end_time_ns - self.node.start_time_ns)

    def start_us(self) -> int:
        return self.start_ns() // 1000

    def duration_us(self) -> int:
        return int(self.node.end_time_ns // 1000 - self.start_us())

    def device_resource_id(self) -> int:
        return self.tid

    def python_id(self) -> int:
        return self.number

    def python_parent_id(self) -> int:
        return self.parent


_Allocations = dict[tuple[int, int], tuple[int, int, int]]


def _tree(results: Any, events: list[Any], inner: Any) -> tuple[_Allocations, list[_Function]]:
    """What only torch's tree of events tells: address and totals of each allocation, by when it was and
    how much; and, where functions are no events (torch 2.8 and before), those."""
    allocations: _Allocations = {}
    functions: list[_Function] = []
    stacks = (getattr(inner, "with_stack", False) and events
              and not hasattr(events[0], "is_python_function"))
    if not (stacks or getattr(inner, "profile_memory", False)):
        return allocations, functions
    if events and isinstance(events[0], Event):
        return {(event.start_ns(), event.nbytes()): event.allocation() for event in events
                if event.name() == "[memory]"}, functions
    try:
        kinds = sys.modules["torch"]._C._profiler._EventType
        calls = (kinds.PyCall, kinds.PyCCall) if stacks else ()
        unit = 1 if hasattr(events[0], "start_ns") else 1000  # events of older torch are in us
        tids = {event.start_thread_id(): event.device_resource_id() for event in events
                if int(event.device_type()) == 0} if stacks else {}
        left = [(node, -1) for node in results.experimental_event_tree()]
        while left:
            node, parent = left.pop()
            if node.tag == kinds.Allocation:
                fields = node.extra_fields
                allocations[node.start_time_ns // unit * unit, fields.alloc_size] = (
                    fields.ptr, fields.total_allocated, fields.total_reserved)
            elif node.tag in calls:
                functions.append(_Function(node, len(functions), parent, tids.get(
                    node.start_tid, threading.get_native_id())))
                parent = len(functions) - 1
            left.extend((child, parent) for child in node.children)
    except (AttributeError, LookupError, RuntimeError) as error:
        _say(f"trace_handler: memory events have no addresses: {type(error).__name__}: {error}")
    return allocations, functions


# ---- whatever has events() ----

def _write_events(events: Any) -> None:
    """torch's FunctionEvents, by the attributes that they have; the last of them ends now."""
    events = list(events)
    last = max((event.time_range.end for event in events), default=0)
    base = time.time_ns() - round(last * 1000)
    for event in events:
        fields = {key: value for key, value in _fields(event).items() if value is not None}
        _core.compute_event(str(event.key), base + round(event.time_range.start * 1000),
                            max(round(event.time_range.elapsed_us() * 1000), 0), **fields)


def _fields(event: Any) -> dict[str, Any]:
    device = int(getattr(event.device_type, "value", event.device_type))
    shapes = getattr(event, "input_shapes", None) or []
    stack = getattr(event, "stack", None)
    return {
        "kind": "kernel" if device else "cpu_op",
        "device": device,
        "device_index": getattr(event, "device_index", 0) if device else -1,
        "external_id": event.id if isinstance(event.id, int) and event.id > 0 else None,
        "cpu_memory": getattr(event, "cpu_memory_usage", 0),
        "device_memory_usage": getattr(event, "device_memory_usage",
                                       getattr(event, "cuda_memory_usage", 0)),
        "is_remote": int(getattr(event, "is_remote", False)),
        "input_size": sum(len(shape) for shape in shapes if isinstance(shape, (list, tuple))),
        "input_shapes": json.dumps(shapes) if shapes else None,
        "stack": json.dumps(stack) if stack else None,
        "flops": getattr(event, "flops", None) or None,
    }
