"""``%load_ext pfw``: the cell magic ``%%pfw``."""
from __future__ import annotations

import shutil
import time
from typing import Any

from . import _api, _command
from ._calls import trace_calls


def _window(path: str, since_us: int, until_us: int) -> str:
    # A notebook wraps lines that its cells have no room for, and says nowhere how much they have.
    return _command.output(["table", "--quiet", "--row-limit", "15", "--since", str(since_us),
                            "--until", str(until_us), path],
                           COLUMNS=str(shutil.get_terminal_size((100, 0)).columns))


def load(shell: Any) -> None:
    """Give IPython's shell the magic."""
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

    @magic_arguments()
    @argument("name", nargs="?", default="cell", help="what the cell's span is called")
    @argument("-c", "--calls", action="store_true", help="trace calls of the notebook's functions")
    @argument("-q", "--quiet", action="store_true", help="print no table")
    def cell(line: str, text: str) -> None:
        """Run the cell in a span, then show what took the time in it."""
        asked = parse_argstring(cell, line)
        if not _api.stats().enabled:
            _api.start("notebook")
        calls = trace_calls() if asked.calls else None
        begin = time.time_ns() // 1000
        with _api.span(asked.name, "cell"):
            shell.run_cell(text)
        if calls is not None:
            calls.stop()
        _api.flush()
        path = _api.stats().path
        if path and not asked.quiet:
            print(_window(path, begin, time.time_ns() // 1000 + 1), end="")
            print(f"pfw: {path}")

    shell.register_magic_function(cell, "cell", "pfw")
