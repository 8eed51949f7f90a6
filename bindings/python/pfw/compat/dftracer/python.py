"""DFTracer's ``dftracer.python``, and the modules in it, behind ``pfw.compat.``: this package again."""
import importlib
import sys

from .. import _MODULES
from . import *  # noqa: F403 - for those who read this; importers get the package itself

for _theirs, _ours in _MODULES["dftracer"].items():
    if _theirs.startswith("dftracer.python"):
        sys.modules[f"pfw.compat.{_theirs}"] = importlib.import_module(f"pfw.compat.dftracer{_ours and '.' + _ours}")
