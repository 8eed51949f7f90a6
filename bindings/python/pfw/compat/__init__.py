"""Stand-ins for other tracers' Python packages, under their names where that is asked for.

>>> import pfw.compat
>>> pfw.compat.install("dftracer")
>>> from dftracer.python import dftracer, ai     # pfw.compat.dftracer, in this process

The same without a line of code: ``pfw run --compat dftracer -- python script.py``, or for every Python
of an environment ``pfw compat enable dftracer``.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

# Their top-level package: {their module: ours, "" for pfw.compat.PACKAGE itself}.
_MODULES: dict[str, dict[str, str]] = {
    "dftracer": {
        "dftracer.dftracer": "_native", "dftracer.logger": "", "dftracer.python": "",
        "dftracer.python.ai": "ai", "dftracer.python.ai_common": "ai",
        "dftracer.python.ai_init": "ai", "dftracer.python.common": "_function",
        "dftracer.python.dynamo": "dynamo", "dftracer.python.env": "_logger",
        "dftracer.python.logger": "", "dftracer.python.torch": "torch",
        "dftracer.python.torch.common": "torch", "dftracer.python.torch.profiler": "torch",
        "dftracer.python.dbg": "", "dftracer.python.dbg.ai": "ai",
        "dftracer.python.dbg.logger": "", "dftracer.python.dbg.torch": "torch",
        "dftracer.python.dbg.torch.profiler": "torch",
    },
}


def names() -> list[str]:
    """The packages that there is a stand-in for."""
    return sorted(_MODULES)


def check(name: str) -> None:
    """:raises ValueError: there is no stand-in for that package."""
    if name not in _MODULES:
        raise ValueError(f"pfw.compat: no stand-in for {name!r}; there is one for "
                         f"{', '.join(names())}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts the stand-ins into sys.modules when the package is first imported."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        if name != self.package:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"Not {self.package} but its stand-in pfw.compat.{self.package}."
        for theirs, ours in _MODULES[self.package].items():
            found = importlib.import_module(f"pfw.compat.{self.package}{ours and '.' + ours}")
            sys.modules[theirs] = found
            if theirs.count(".") == 1: # the deeper ones are attributes of ours already
                setattr(module, theirs.rpartition(".")[2], found)


def install(name: str) -> None:
    """Have ``import NAME`` find the stand-in, in this process, from now on.

    What has been imported of the real package before stays with who has it.

    :raises ValueError: there is no stand-in for that package.
    """
    check(name)
    if any(isinstance(finder, _Finder) and finder.package == name for finder in sys.meta_path):
        return
    for module in [key for key in sys.modules if key == name or key.startswith(name + ".")]:
        del sys.modules[module]
    sys.meta_path.insert(0, _Finder(name))
