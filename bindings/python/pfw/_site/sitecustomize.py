"""Run by Python as it starts, where `pfw run` has put this directory in PYTHONPATH.

What the user has under this name is run, too; then what `pfw run` was asked to do in Python is done.
A program that Python runs never fails for it.
"""
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_package = os.path.dirname(_here)


def _users_own() -> None:
    """The sitecustomize that would have been run without us."""
    own = sys.modules.pop(__name__)
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) != _here]
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


def _pfw() -> None:
    """The package beside us, also where this Python has none installed."""
    if importlib.util.find_spec("pfw") is None:
        spec = importlib.util.spec_from_file_location(
            "pfw", os.path.join(_package, "__init__.py"), submodule_search_locations=[_package])
        assert spec and spec.loader # of a .py file they always are
        sys.modules["pfw"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["pfw"])
    import pfw._startup
    pfw._startup.begin()


try:
    _pfw()
except Exception as error:
    print(f"pfw: Python's part of `pfw run` is left out: {type(error).__name__}: {error}",
          file=sys.stderr)
_users_own()
