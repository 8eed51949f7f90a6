"""The decorator ``profiler`` for training functions, on pfw.torch.profile.

>>> from pfw.compat.parallelization import profiler, step_profiler

docs/parallelization.rst says what changes for who used the original.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from .profiler.decorator import profiler, step_profiler

__all__ = ["add_profile_arguments", "profiler", "ray", "step_profiler"]


def ray(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """The original's decorator that runs a function on a cluster; here it is the function as it is."""
    return function if function is not None else lambda function: function


def add_profile_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a parser ``--profile``, ``--nsight`` and ``--num-nodes``."""
    parser.add_argument("--profile", action="store_true", help="profile the run")
    parser.add_argument("--nsight", action="store_true", help="have nsys record the profiled function")
    parser.add_argument("--num-nodes", type=int, default=1, help="nodes to run on (1)")
    return parser
