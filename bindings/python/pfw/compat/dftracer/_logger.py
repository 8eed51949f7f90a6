"""The logger: initialize_log(), finalize() and events that are told one by one."""
from __future__ import annotations

import os
import time
from enum import Enum, IntEnum
from typing import Any

from ... import _api
from ..._load import core

DFTRACER_ENABLE_ENV = "DFTRACER_ENABLE"
DFTRACER_INIT_ENV = "DFTRACER_INIT"
DFTRACER_LOG_LEVEL_ENV = "DFTRACER_LOG_LEVEL"
DFTRACER_TIME_METRIC_ENV = "DFTRACER_TIME_METRIC"
DFTRACER_ENABLE = os.environ.get(DFTRACER_ENABLE_ENV, "0") not in ("", "0")
DFTRACER_INIT_PRELOAD = os.environ.get(DFTRACER_INIT_ENV, "PRELOAD") == "PRELOAD"
DFTRACER_LOG_LEVEL = os.environ.get(DFTRACER_LOG_LEVEL_ENV, "ERROR")

_UNIT_NS = {"NS": 1, "US": 1_000, "MS": 1_000_000, "SEC": 1_000_000_000}


class TagType(Enum):
    KEY = 0
    VALUE = 1
    IGNORE = 2

    def __int__(self) -> int:
        return self.value


class TagDType(Enum):
    INT = 0
    FLOAT = 1
    STRING = 2

    def __int__(self) -> int:
        return self.value


class TagValue:
    """An argument of an event, and of which type it is to be."""

    def __init__(self, value: Any, dtype: TagDType = TagDType.STRING,
                 tag_type: TagType = TagType.KEY) -> None:
        convert = {TagDType.INT: int, TagDType.FLOAT: float}.get(dtype, str)
        self._value: int | float | str = convert(value)
        self._dtype = dtype
        self._tag_type = tag_type

    def value(self) -> tuple[int, int | float | str]:
        return int(self._tag_type), self._value


class EntityStore(IntEnum):
    MEMORY, GPU_MEMORY, LOCAL_DISK, PARALLEL_FS, BURST_BUFFER, OBJECT_STORE, DATABASE, NETWORK, \
        OTHER = range(9)


class EntityRole(IntEnum):
    UNKNOWN, INPUT, OUTPUT, INTERMEDIATE, PARAMETER, REFERENCE = range(6)


class EntityRelation(IntEnum):
    USED, GENERATED, INVALIDATED, UPDATED = range(4)
    DERIVED_FROM, REVISION_OF, CONTAINS, PART_OF, SPECIALIZATION_OF, ALTERNATE_OF, DEPENDS_ON = \
        range(16, 23)


def _metric() -> str:
    metric = os.environ.get(DFTRACER_TIME_METRIC_ENV, "US")
    return metric if metric in _UNIT_NS else "US"


def get_time_scale() -> float:
    """How many units of :meth:`dftracer.get_time` a second has."""
    return 1e9 / _UNIT_NS[_metric()]


class dftracer:
    """The one logger of the process; without DFTRACER_ENABLE=1 it does nothing."""

    _instance: dftracer | None = None

    def __init__(self) -> None:
        self.logger: dftracer | None = None
        self.start_time = 0
        dftracer._instance = self

    @classmethod
    def get_instance(cls) -> dftracer:
        """The logger of this process."""
        return dftracer._instance or dftracer()

    @staticmethod
    def initialize_log(logfile: str | os.PathLike[str] | None = None,
                       data_dir: str | os.PathLike[str] | None = None, process_id: int = -1, *,
                       log_file: str | os.PathLike[str] | None = None) -> dftracer:
        """Start recording, I/O too, if DFTRACER_ENABLE says so.

        :param logfile: name of the trace; None: DFTRACER_LOG_FILE's.  Its directory is made.
        :param data_dir: trace I/O below it only; "all": everywhere; None: as DFTRACER_DATA_DIR says.
        :param process_id: not used, as by DFTracer: events carry the number that the system gave.
        :param log_file: the same as logfile.
        """
        instance = dftracer.get_instance()
        wanted = os.environ.get(DFTRACER_ENABLE_ENV, "0") not in ("", "0")
        if not (wanted or core.enabled()):
            return instance
        name = logfile if logfile is not None else log_file
        if name:
            _make_directory(os.fspath(name))
        metric = os.environ.setdefault(DFTRACER_TIME_METRIC_ENV, "US")
        if _api.begin(os.fspath(name) if name else None, os.fspath(data_dir) if data_dir else None,
                      None, metric == "US"):
            instance.logger = instance
            instance.start_time = instance.get_time()
        return instance

    @property
    def _on(self) -> bool:
        return self.logger is not None or core.enabled()

    def get_time(self) -> int:
        """Now, since the epoch, in units of DFTRACER_TIME_METRIC (microseconds); 0: not recording."""
        return time.time_ns() // _UNIT_NS[_metric()] if self._on else 0

    def get_config(self, key: str) -> str:
        """What a DFTRACER_ variable says, "" where it is not set."""
        if not self._on:
            return ""
        return _metric() if key == DFTRACER_TIME_METRIC_ENV else os.environ.get(key, "")

    def enter_event(self) -> None:
        """Events nest by their times and threads here: there is nothing to do."""

    def exit_event(self) -> None:
        """As :meth:`enter_event`."""

    def log_event(self, name: str, cat: str, start_time: int, duration: int,
                  int_args: dict[str, Any] | None = None,
                  float_args: dict[str, Any] | None = None,
                  string_args: dict[str, Any] | None = None,
                  relations: dict[Any, list[int]] | None = None) -> None:
        """Write an event that is over.

        :param start_time: as :meth:`get_time` gave it.
        :param duration: in the same units.
        :param int_args: and float_args, string_args: {name: value}, or DFTracer's {name: (tag, value)}.
        :param relations: not used: DFTracer 2.2 has no entities in its traces, either.
        """
        unit = _UNIT_NS[_metric()]
        core.finished(str(name), str(cat), int(start_time) * unit, max(int(duration), 0) * unit,
                      int_args, float_args, string_args)

    def log_metadata_event(self, key: str, value: str) -> None:
        """Write a value that belongs to no event: a moment ``CM`` with ``name`` and ``value``."""
        core.finished("CM", "dftracer", time.time_ns(), -1, {"name": str(key), "value": str(value)})

    def set_app_metadata_int(self, key: str, value: int) -> None:
        """As :meth:`log_metadata_event`."""
        core.finished("CM", "dftracer", time.time_ns(), -1, {"name": str(key), "value": int(value)})

    def set_app_metadata_string(self, key: str, value: str) -> None:
        """As :meth:`log_metadata_event`."""
        self.log_metadata_event(key, value)

    def mark_used(self, name: str) -> None:
        """As :meth:`log_metadata_event`, of the name ``used``."""
        self.log_metadata_event("used", name)

    def declare_entity(self, type: str, key: Any, store: EntityStore = EntityStore.MEMORY,
                       uri: str = "") -> int:
        """0, no entity, as with DFTracer 2.2."""
        return 0

    def declare_entity_type(self, type: str, role: EntityRole = EntityRole.UNKNOWN,
                            description: str = "") -> None:
        """Nothing, as with DFTracer 2.2."""

    def relate_entities(self, relation: EntityRelation, subject: int, object: int) -> None:
        """Nothing, as with DFTracer 2.2."""

    def finalize(self) -> None:
        """Stop recording: the trace is complete.  The end of the program does the same."""
        if self._on:
            _api.stop()


def _make_directory(name: str) -> None:
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError:
        pass # the recorder says what it cannot write
