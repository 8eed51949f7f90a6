"""Which rank this process is, as the recorder names its files (docs/design.rst)."""
from __future__ import annotations

import os
import re
import sys

# A launcher's variables: rank, number of ranks.  RANK and SLURM_PROCID alone say nothing.
_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
              ("PMIX_RANK", "PMIX_SIZE"), ("PMI_RANK", "PMI_SIZE"),
              ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), ("PALS_RANKID", "PALS_SIZE"),
              ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"), ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
              ("SLURM_PROCID", "SLURM_NTASKS"))
_NEED_SIZE = ("RANK", "SLURM_PROCID")


def _number(name: str | None) -> int | None:
    text = os.environ.get(name or "", "")
    return int(text) if text.isdecimal() else None


def rank_and_world() -> tuple[int, int]:
    """(rank, number of ranks), (0, 1) where there is but one; of the global rank, never the local.

    The environment has it before torch.distributed, so it is known before init_process_group().
    """
    sizes = [size for _, name in _LAUNCHERS if (size := _number(name)) is not None]
    rank = _number("PFW_RANK")
    if rank is None:
        rank = _number(os.environ.get("PFW_RANK_VAR"))
    if rank is not None:
        return rank, max(sizes[:1] + [rank + 1])
    # A batch script of Slurm is no rank: sbatch gives it SLURM_PROCID=0 and the SLURM_NTASKS of its steps.
    batch = _number("SLURM_TASK_PID") is not None and _number("SLURM_STEP_ID") is None
    for name, size_name in _LAUNCHERS[:-1] if batch else _LAUNCHERS:
        rank, size = _number(name), _number(size_name)
        if rank is not None and (size is not None or name not in _NEED_SIZE):
            return rank, size if size is not None else max(2, rank + 1)
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    except (AttributeError, RuntimeError):
        pass
    return 0, 1


def own_name(path: str | os.PathLike[str]) -> str:
    """The name of this rank's file: ``NAME-rank{N}.EXT`` where there are several ranks.

    A path that says ``rank`` and the number already stays as it is, and so does one for TensorBoard, which
    has the process and the time in it.
    """
    name, (rank, world) = os.fspath(path), rank_and_world()
    if world < 2 or re.search(rf"rank[-_]?0*{rank}(?!\d)|\.pt\.trace\.json(\.gz)?$", name):
        return name
    return re.sub(r"((?:\.trace)?(?:\.\w+)?(?:\.gz)?)$", rf"-rank{rank}\1", name, count=1)
