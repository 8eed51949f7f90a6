"""DFTracer's Python package (dftracer.python) on pfw: the same names, signatures and events.

>>> from pfw.compat.dftracer import dftracer, dft_fn, ai
>>> from pfw.compat.dftracer.torch import trace_handler
>>> logger = dftracer.initialize_log("trace.pfw", None, -1)     # with DFTRACER_ENABLE=1
>>> @ai.data.item
... def load(index): ...
>>> logger.finalize()

``pfw.compat.dftracer.python`` is the same. A script that imports ``dftracer.python`` runs unedited under ``pfw run --compat dftracer``.
"""
from __future__ import annotations

from ._function import dft_fn
from ._logger import (DFTRACER_ENABLE, DFTRACER_ENABLE_ENV, DFTRACER_INIT_ENV, DFTRACER_INIT_PRELOAD,
                      DFTRACER_LOG_LEVEL, DFTRACER_LOG_LEVEL_ENV, DFTRACER_TIME_METRIC_ENV,
                      EntityRelation, EntityRole, EntityStore, TagDType, TagType, TagValue, dftracer,
                      get_time_scale)
from .ai import *  # noqa: F403 - what it exports is what DFTracer's does
from .ai import __all__ as _ai_names
from .ai import ai # the root of the tree, not the module: a checker takes that otherwise
from .dynamo import Dynamo, create_backend, dynamo

__all__ = ["DFTRACER_ENABLE", "DFTRACER_ENABLE_ENV", "DFTRACER_INIT_ENV", "DFTRACER_INIT_PRELOAD",
           "DFTRACER_LOG_LEVEL", "DFTRACER_LOG_LEVEL_ENV", "DFTRACER_TIME_METRIC_ENV", "Dynamo",
           "EntityRelation", "EntityRole", "EntityStore", "TagDType", "TagType", "TagValue",
           "create_backend", "dft_fn", "dftracer", "dynamo", "get_time_scale", *_ai_names]
