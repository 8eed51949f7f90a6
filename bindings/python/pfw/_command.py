"""The command ``pfw`` that was installed with the package."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any


def path() -> str:
    """Where it is: beside this Python, else the PATH's.

    :raises FileNotFoundError: it is nowhere.
    """
    for directory in (os.path.dirname(sys.executable or ""), sysconfig.get_path("scripts"),
                      os.path.join(sysconfig.get_config_var("userbase") or "", "bin")):
        found = os.path.join(directory, "pfw")
        if directory and os.access(found, os.X_OK):
            return found
    on_path = shutil.which("pfw")
    if on_path is None:
        raise FileNotFoundError("the command pfw is neither beside Python nor on the PATH: "
                                "install pfwtrace again")
    return on_path


def environment() -> dict[str, str]:
    """That of this process without what would trace the command."""
    return {name: value for name, value in os.environ.items()
            if name not in ("DFTRACER_ENABLE", "LD_PRELOAD", "PFW_PY_CALLS")}


def output(words: Sequence[str], **variables: str) -> str:
    """What ``pfw WORDS`` prints; what it says of problems goes where this process's errors go."""
    done = subprocess.run([path(), *words], stdout=subprocess.PIPE, env=environment() | variables,
                          text=True, check=False)
    return done.stdout


def run(words: Sequence[str]) -> str:
    """The same of a command that has to succeed.

    :raises ValueError: it did not; the text is what it said.
    """
    done = subprocess.run([path(), *words], capture_output=True, env=environment(), text=True,
                          check=False)
    if done.returncode == 2:
        raise ValueError(done.stderr.strip() or f"pfw {words[0]} failed")
    return done.stdout


def rows(words: Sequence[str]) -> list[dict[str, Any]]:
    """What such a command says, a dict each row."""
    return [json.loads(line) for line in run([*words, "--format", "ndjson"]).splitlines()]
