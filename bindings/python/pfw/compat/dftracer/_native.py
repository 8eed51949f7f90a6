"""The functions of DFTracer's extension module dftracer.dftracer."""
from __future__ import annotations

from typing import Any

from ._logger import dftracer


def initialize(log_file: str | None = None, data_dirs: str | None = None,
               process_id: int = -1) -> None:
    """As :meth:`dftracer.initialize_log`."""
    dftracer.initialize_log(log_file, data_dirs, process_id)


def log_event(name: str, cat: str, start_time: int, duration: int,
              int_args: dict[str, Any] | None = None, string_args: dict[str, Any] | None = None,
              float_args: dict[str, Any] | None = None) -> None:
    """As :meth:`dftracer.log_event`."""
    dftracer.get_instance().log_event(name, cat, start_time, duration, int_args, float_args,
                                      string_args)


def __getattr__(name: str) -> Any:
    """get_time, get_config, enter_event, exit_event, log_metadata_event, finalize, ..."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(dftracer.get_instance(), name)
