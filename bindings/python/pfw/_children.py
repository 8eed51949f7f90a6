"""What processes that this one starts have to know: that they are traced, and of which rank."""
from __future__ import annotations

import functools
import os
import sys

from ._imports import when_imported
from ._load import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_DISTRIBUTED = "torch.distributed.distributed_c10d"
_set: dict[str, str] = {}  # variables that are there because of us


def inherit(data_dir: str | None, compression: bool | None) -> None:
    """Let spawned children that import pfw trace as this process does, into files beside its own.

    A forked child does so by itself; by the base name, which is not among these, it is a child.
    """
    wanted = {"DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD"}
    if data_dir is not None:
        wanted["DFTRACER_DATA_DIR"] = data_dir
    if compression is not None:
        wanted["DFTRACER_TRACE_COMPRESSION"] = str(int(compression))
    for name, value in wanted.items():
        if name not in os.environ or name in _set:
            os.environ[name] = _set[name] = value


def disinherit() -> None:
    """Children started from now on are not traced because of :func:`inherit`."""
    for name in ("DFTRACER_ENABLE", "DFTRACER_INIT"):
        if name in _set and _set.pop(name) == os.environ.get(name):
            del os.environ[name]


def set_rank(rank: int, world_size: int) -> bool:
    """The rank of this process, and of those it starts from now on."""
    if core.set_rank(rank, world_size) != 0:
        return False
    os.environ["PFW_RANK"] = str(rank)
    return True


def _known(rank: int) -> bool:
    """Whether the trace is that rank's already.

    RANK says nothing: launchers within the program (Accelerate's, Ray Train's) set it after we began.
    """
    told = os.environ.get("PFW_RANK")
    if told is not None:
        return told == str(rank)
    return f"-rank{rank:04}" in os.path.basename(core.stats()[-1])


def _rank_seen(distributed: ModuleType) -> None:
    """A process group has been made: its rank is ours, unless that is known."""
    try:
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
        if core.enabled() and 0 <= rank < world_size and not _known(rank):
            set_rank(rank, world_size)
    except Exception:  # noqa: BLE001 - a program must not fail for what only names a file
        pass


def _watch(distributed: ModuleType) -> None:
    begin: Callable[..., Any] | None = getattr(distributed, "init_process_group", None)
    if begin is None or hasattr(begin, "_pfw"):
        return

    def init_process_group(*args: Any, **keywords: Any) -> Any:
        result = begin(*args, **keywords)
        _rank_seen(distributed)
        return result

    watched = functools.update_wrapper(init_process_group, begin)
    watched._pfw = True  # type: ignore[attr-defined]
    for module in (distributed, sys.modules.get("torch.distributed"),
                   sys.modules.get("torch.distributed.distributed_c10d")):
        if getattr(module, "init_process_group", None) is begin:
            module.init_process_group = watched  # type: ignore[union-attr]


def watch_ranks() -> None:
    """Have a late rank noticed: ``torch.distributed.init_process_group()``, whoever calls it."""
    when_imported(_DISTRIBUTED, _watch)
