"""ai: categories and names for what programs that train models do, as a tree of tracers."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, TypeVar, overload

from ._function import Wrapped, dft_fn
from ._logger import dftracer

ITER_COUNT_NAME = "count"
INIT_NAME = "init"
BLOCK_NAME = "block"
ITER_NAME = "iter"
CTX_SEPARATOR = "."
ROOT_NAME = ROOT_CAT = "ai_root"
START_METADATA_NAME = "start"
STOP_METADATA_NAME = "end"
Value = TypeVar("Value")


class StringEnum(str, Enum):
    """A str, in lower case, under its name."""

    def __str__(self) -> str:
        return str(self.value)


class ProfileCategory(StringEnum):
    COMPUTE = "compute"
    DATA = "data"
    DATALOADER = "dataloader"
    COMM = "comm"
    DEVICE = "device"
    CHECKPOINT = "checkpoint"
    PIPELINE = "pipeline"
    OTHER = "other"


class ComputeEvent(StringEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "step"


class DataEvent(StringEnum):
    PREPROCESS = "preprocess"
    ITEM = "item"


class DataLoaderEvent(StringEnum):
    FETCH = "fetch"


class CommunicationEvent(StringEnum):
    SEND = "send"
    RECEIVE = "receive"
    BARRIER = "barrier"
    BCAST = "bcast"
    REDUCE = "reduce"
    ALL_REDUCE = "all_reduce"
    GATHER = "gather"
    ALL_GATHER = "all_gather"
    SCATTER = "scatter"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"


class DeviceEvent(StringEnum):
    TRANSFER = "transfer"


class PipelineEvent(StringEnum):
    EPOCH = "epoch"
    TRAIN = "train"
    EVALUATE = "evaluate"
    TEST = "test"


class CheckpointEvent(StringEnum):
    CAPTURE = "capture"
    RESTART = "restart"


class OtherEvent(StringEnum):
    LOG = "log"


class IOEvent(StringEnum):
    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CLOSE = "close"


def _with_suffix(name: str, suffix: str) -> str:
    return name if name.endswith(CTX_SEPARATOR + suffix) else name + CTX_SEPARATOR + suffix


def get_iter_block_name(name: str) -> str:
    """What the work on one value of an iteration is called."""
    return _with_suffix(name, BLOCK_NAME)


def get_iter_handle_name(name: str) -> str:
    """What the getting of one value of an iteration is called."""
    return _with_suffix(name, ITER_NAME)


class DFTracerAI:
    """A category and name: decorator, context manager, start() and stop(), iter().

    >>> @ai.compute.forward
    ... def forward(batch): ...
    >>> with ai.data.preprocess(epoch=1): ...
    >>> for batch in ai.dataloader.fetch.iter(loader): ...
    """

    def __init__(self, *, cat: str, name: str | None = None, epoch: int | None = None,
                 step: int | None = None, image_idx: int | None = None,
                 image_size: Any | None = None, enable: bool = True) -> None:
        self.profiler = dft_fn(cat, name or cat, epoch, step, image_idx, image_size, enable)
        self._children: dict[str, DFTracerAI] = {}

    @property
    def cat(self) -> str:
        return self.profiler._cat

    @property
    def name(self) -> str:
        return self.profiler._name

    def get_time(self) -> int:
        return dftracer.get_instance().get_time()

    # ---- blocks and functions ----

    def __enter__(self) -> DFTracerAI:
        self.profiler.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.profiler.__exit__(*exception)

    @overload
    def __call__(self, fn: None = None, *, enable: bool | None = None, epoch: int | None = None,
                 step: int | None = None, image_idx: int | None = None,
                 image_size: Any | None = None, args: dict[str, Any] | None = None) -> DFTracerAI: ...
    @overload
    def __call__(self, fn: Wrapped, *, enable: bool | None = None, epoch: int | None = None,
                 step: int | None = None, image_idx: int | None = None,
                 image_size: Any | None = None, args: dict[str, Any] | None = None) -> Wrapped: ...

    def __call__(self, fn: Any = None, *, enable: bool | None = None, epoch: int | None = None,
                 step: int | None = None, image_idx: int | None = None,
                 image_size: Any | None = None, args: dict[str, Any] | None = None) -> Any:
        """Decorate ``fn``; without it, another tracer of that name that has these arguments."""
        tracer = self
        if fn is None or epoch is not None or step is not None or image_idx is not None \
                or image_size is not None or args:
            tracer = DFTracerAI(cat=self.cat, name=self.name, epoch=epoch, step=step,
                                image_idx=image_idx, image_size=image_size)
            tracer.profiler.update(args=args)
            tracer.profiler._enable = self.profiler._enable
        if fn is None:
            if enable is not None:
                tracer.profiler._enable = enable
            return tracer
        if not (self.profiler._enable if enable is None else enable):
            return fn
        return tracer.profiler._decorated(fn, tracer.name)

    def start(self, metadata: bool = False) -> None:
        """Begin the block; ``metadata``: only write when."""
        if metadata:
            self._moment(START_METADATA_NAME)
        else:
            self.__enter__()

    def stop(self, metadata: bool = False) -> None:
        """End the block."""
        if metadata:
            self._moment(STOP_METADATA_NAME)
        else:
            self.__exit__(None, None, None)

    def _moment(self, what: str) -> None:
        self.profiler.log_metadata(f"{self.name}{CTX_SEPARATOR}{what}", str(self.get_time()))

    def reset(self) -> None:
        self.profiler.reset()

    def iter(self, iterator: Iterable[Value], *, include_block: bool = True,
             include_iter: bool = True, iter_name: str | None = None,
             block_name: str | None = None) -> Iterator[Value]:
        """Iterate: ``NAME.iter`` is the getting of each value, ``NAME.block`` what is done with it.

        Both carry what the block has told :meth:`update`: the step that the value is for.
        """
        return self.profiler._loop(
            iterator, (iter_name or get_iter_handle_name(self.name)) if include_iter else None,
            (block_name or get_iter_block_name(self.name)) if include_block else None,
            ITER_COUNT_NAME, got_after=True)

    # ---- the tree ----

    def create_children(self, names: dict[str, str]) -> None:
        """Tracers below this one, as attributes: {attribute: name}."""
        for attribute, name in names.items():
            self._children[attribute] = self._child(name)
            setattr(self, attribute, self._children[attribute])

    def _child(self, name: str) -> DFTracerAI:
        """One of the same category that begins with what this one has."""
        ours = self.profiler
        values = {key: value[1] for kind in (ours._arguments_int, ours._arguments_float)
                  for key, value in kind.items()
                  if key in ("epoch", "step", "image_idx", "image_size")}
        return DFTracerAI(cat=self.cat, name=name, enable=ours._enable, **values)

    def derive(self, name: str) -> DFTracerAI:
        """The tracer called ``NAME.name``, of the same category."""
        whole = f"{self.name}{CTX_SEPARATOR}{name}"
        if whole not in self._children:
            self._children[whole] = self._child(whole)
        return self._children[whole]

    @overload
    def init(self, fn: None = None, **keywords: Any) -> DFTracerAI: ...
    @overload
    def init(self, fn: Wrapped, **keywords: Any) -> Wrapped: ...

    def init(self, fn: Any = None, **keywords: Any) -> Any:
        """Decorate what sets something up: as the tracer ``NAME.init``."""
        return self.derive(INIT_NAME)(fn, **keywords)

    def update(self, epoch: int | None = None, step: int | None = None,
               image_idx: int | None = None, image_size: Any | None = None,
               args: dict[str, Any] | None = None) -> DFTracerAI:
        """Give the events of this tracer, and of those below, arguments from now on."""
        self.profiler.update(epoch, step, image_idx, image_size, args)
        for child in self._children.values():
            child.update(epoch, step, image_idx, image_size, args)
        return self

    def enable(self) -> None:
        """Record, here and below."""
        self._switch(True)

    def disable(self) -> None:
        """Record nothing, here and below."""
        self._switch(False)

    def _switch(self, on: bool) -> None:
        self.profiler._enable = on
        for child in self._children.values():
            child._switch(on)


class IO(DFTracerAI):
    """open, read, write and close of what the tracer above is about."""

    open: DFTracerAI
    read: DFTracerAI
    write: DFTracerAI
    close: DFTracerAI

    def __init__(self, *, cat: str, parent_name: str, **keywords: Any) -> None:
        super().__init__(cat=cat, name=f"{parent_name}{CTX_SEPARATOR}io", **keywords)
        self.create_children({event.value: f"{self.name}{CTX_SEPARATOR}{event}"
                              for event in IOEvent})


class _Category(DFTracerAI):
    """A category; below it its events, and I/O where it has some."""

    _category: ProfileCategory
    _events: type[StringEnum]
    _has_io = False

    def __init__(self, epoch: int | None = None, step: int | None = None,
                 image_idx: int | None = None, image_size: Any | None = None,
                 enable: bool = True) -> None:
        keywords: dict[str, Any] = {"epoch": epoch, "step": step, "image_idx": image_idx,
                                    "image_size": image_size, "enable": enable}
        category = str(self._category)
        super().__init__(cat=category, name=category, **keywords)
        self.create_children({event.value: self._event_name(event) for event in self._events})
        if self._has_io:
            self.io = self._children["io"] = IO(cat=category, parent_name=category, **keywords)

    def _event_name(self, event: StringEnum) -> str:
        return str(event)


class Compute(_Category):
    _category, _events = ProfileCategory.COMPUTE, ComputeEvent
    forward: DFTracerAI
    backward: DFTracerAI
    step: DFTracerAI


class Data(_Category):
    _category, _events, _has_io = ProfileCategory.DATA, DataEvent, True
    preprocess: DFTracerAI
    item: DFTracerAI
    io: IO


class DataLoader(_Category):
    _category, _events = ProfileCategory.DATALOADER, DataLoaderEvent
    fetch: DFTracerAI


class Communication(_Category):
    _category, _events = ProfileCategory.COMM, CommunicationEvent
    send: DFTracerAI
    receive: DFTracerAI
    barrier: DFTracerAI
    bcast: DFTracerAI
    reduce: DFTracerAI
    all_reduce: DFTracerAI
    gather: DFTracerAI
    all_gather: DFTracerAI
    scatter: DFTracerAI
    reduce_scatter: DFTracerAI
    all_to_all: DFTracerAI


class Device(_Category):
    _category, _events = ProfileCategory.DEVICE, DeviceEvent
    transfer: DFTracerAI


class Checkpoint(_Category):
    _category, _events, _has_io = ProfileCategory.CHECKPOINT, CheckpointEvent, True
    capture: DFTracerAI
    restart: DFTracerAI
    io: IO


class Pipeline(_Category):
    _category, _events = ProfileCategory.PIPELINE, PipelineEvent
    epoch: DFTracerAI
    train: DFTracerAI
    evaluate: DFTracerAI
    test: DFTracerAI


class Other(_Category):
    _category, _events, _has_io = ProfileCategory.OTHER, OtherEvent, True
    log: DFTracerAI
    io: IO

    def _event_name(self, event: StringEnum) -> str:
        return f"{self.name}{CTX_SEPARATOR}{event}"


class AI(DFTracerAI):
    """The root: all categories as attributes."""

    compute: Compute
    data: Data
    dataloader: DataLoader
    comm: Communication
    device: Device
    checkpoint: Checkpoint
    pipeline: Pipeline
    other: Other

    def __init__(self, epoch: int | None = None, step: int | None = None,
                 image_idx: int | None = None, image_size: Any | None = None,
                 enable: bool = True) -> None:
        super().__init__(cat=ROOT_CAT, name=ROOT_NAME, epoch=epoch, step=step, image_idx=image_idx,
                         image_size=image_size, enable=enable)
        make: dict[str, type[_Category]] = {
            "compute": Compute, "data": Data, "dataloader": DataLoader, "comm": Communication,
            "device": Device, "checkpoint": Checkpoint, "pipeline": Pipeline, "other": Other}
        for name, category in make.items():
            self._children[name] = category(epoch, step, image_idx, image_size, enable)
            setattr(self, name, self._children[name])


ai = AI()
compute, data, dataloader, comm = ai.compute, ai.data, ai.dataloader, ai.comm
device, checkpoint, pipeline, other = ai.device, ai.checkpoint, ai.pipeline, ai.other

__all__ = ["AI", "BLOCK_NAME", "CTX_SEPARATOR", "Checkpoint", "CheckpointEvent", "Communication",
           "CommunicationEvent", "Compute", "ComputeEvent", "DFTracerAI", "Data", "DataEvent",
           "DataLoader", "DataLoaderEvent", "Device", "DeviceEvent", "INIT_NAME", "IO", "IOEvent",
           "ITER_COUNT_NAME", "ITER_NAME", "Other", "OtherEvent", "Pipeline", "PipelineEvent",
           "ProfileCategory", "ROOT_CAT", "ROOT_NAME", "START_METADATA_NAME", "STOP_METADATA_NAME",
           "StringEnum", "ai", "checkpoint", "comm", "compute", "data", "dataloader", "device",
           "get_iter_block_name", "get_iter_handle_name", "other", "pipeline"]
