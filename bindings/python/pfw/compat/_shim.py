"""``pfw compat enable|disable|list``: stand in for a package in every Python of this environment."""
from __future__ import annotations

import os
import signal
import sys
import sysconfig
from collections.abc import Sequence

from . import check, names

# Python runs the .pth file's line as it starts: cheap, until the package is imported.
_LINE = "import _pfw_compat_{name}\n"
_MODULE = '''"""Written by `pfw compat enable {name}`; `pfw compat disable {name}` removes it."""
import sys


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "{name}":
            return None
        sys.meta_path.remove(_Finder)
        try:
            import pfw.compat
            pfw.compat.install(name)
        except Exception as error:
            print(f"pfw: the stand-in for {name} is left out: {{type(error).__name__}}: {{error}}; "
                  "`pfw compat disable {name}` removes it", file=sys.stderr)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
        return None


sys.meta_path.insert(0, _Finder)
'''


def _files(name: str) -> dict[str, str]:
    """{path: text} of what stands for an enabled package."""
    place = sysconfig.get_path("purelib")
    return {os.path.join(place, f"_pfw_compat_{name}.py"): _MODULE.format(name=name),
            os.path.join(place, f"pfw_compat_{name}.pth"): _LINE.format(name=name)}


def enabled(name: str) -> bool:
    """Whether every Python of this environment finds the stand-in."""
    return all(os.path.exists(path) for path in _files(name))


def enable(name: str) -> None:
    """Have ``import NAME`` find the stand-in in every Python of this environment.

    :raises ValueError: there is no stand-in for that package.
    :raises OSError: the environment cannot be written to.
    """
    check(name)
    for path, text in _files(name).items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def disable(name: str) -> None:
    """Undo :func:`enable`; harmless where nothing is enabled."""
    check(name)
    for path in reversed(list(_files(name))):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


_USAGE = "usage: pfw compat enable PACKAGE | disable PACKAGE | list"


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    words = sys.argv[1:] if words is None else words
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as of any command in front of head
    if list(words) in (["--help"], ["-h"]):
        print(f"{_USAGE}\n\nStand in for another tracer's Python package in this environment "
              f"({sys.prefix}).\nThere is a stand-in for: {', '.join(names())}")
        return 0
    if list(words) == ["list"]:
        for name in names():
            print(f"{name}\t{'enabled' if enabled(name) else 'disabled'}")
        return 0
    if len(words) != 2 or words[0] not in ("enable", "disable"):
        print(f"pfw compat: {_USAGE}", file=sys.stderr)
        return 2
    try:
        {"enable": enable, "disable": disable}[words[0]](words[1])
    except (OSError, ValueError) as error:
        print(str(error) if isinstance(error, ValueError) else
              f"pfw compat: {error.filename}: {error.strerror}: {words[0]} it as who owns {sys.prefix}",
              file=sys.stderr)
        return 2
    return 0
