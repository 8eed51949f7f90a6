"""Has a function called with a module as soon as that has been imported."""
from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import importlib.machinery
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_wanted: dict[str, list[Callable[[ModuleType], None]]] = {}


class _Finder:
    """Finds nothing itself: it has those modules looked at when they have been imported.

    No importlib.abc.MetaPathFinder: that would import importlib.resources, which takes longer than all of pfw.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        calls = _wanted.pop(name, None)
        if calls is None:
            return None
        if not _wanted:
            sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _watch(spec.loader, calls)
        return spec


def _watch(loader: Any, calls: list[Callable[[ModuleType], None]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for call in calls:
            call(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass  # a loader of somebody's that takes no attributes: the module is not looked at


def when_imported(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call it with that module: now, or when the program imports it; once for each ``call``."""
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    calls = _wanted.setdefault(name, [])
    if call not in calls:
        calls.append(call)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
