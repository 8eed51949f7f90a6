"""What the tests share: scripts run by the Python that runs pytest, where pfwtrace is installed."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

# A shell lets what it starts with `&` ignore these, and so would each program that a test interrupts.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# A `pfw run` around pytest, or a variable of the user's, is no part of any test.
CLEAN = {key: value for key, value in os.environ.items()
         if not key.startswith(("DFTRACER_", "PFW_")) and key not in ("LD_PRELOAD", "PYTHONPATH")}
PFW = pathlib.Path(sys.executable).with_name("pfw")


class Run:
    """Runs scripts in a directory of their own, and reads what they leave."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.output = ""
        self.errors = ""

    def command(self, *words: object, status: int = 0, timeout: float = 600, **env: str) -> str:
        done = subprocess.run([str(word) for word in words], cwd=self.directory,
                              env={**CLEAN, **env}, capture_output=True, text=True, timeout=timeout)
        self.output, self.errors = done.stdout, done.stderr
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def save(self, text: str, name: str = "script.py") -> str:
        (self.directory / name).write_text(textwrap.dedent(text))
        return name

    def script(self, text: str, *words: object, status: int = 0, timeout: float = 900,
               **env: str) -> str:
        return self.command(sys.executable, self.save(text), *words, status=status, timeout=timeout,
                            **env)

    def ranks(self, text: str, *words: object, timeout: float = 600, **env: str) -> str:
        """The same in two ranks under torchrun; one's output behind the other's."""
        logs = self.directory.with_name(f"{self.directory.name}-ranks")
        self.command(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
                     "--redirects", "1", "--log-dir", logs, self.save(text), *words, timeout=timeout, **env)
        self.output = "".join(path.read_text() for path in sorted(logs.glob("*/attempt_0/*/stdout.log")))
        return self.output

    def traced(self, text: str, *options: object, status: int = 0, **env: str) -> str:
        """The same under `pfw run -o t`."""
        return self.command(PFW, "run", "-o", "t", *options, "--", sys.executable, self.save(text),
                            status=status, **env)

    def lines(self, pattern: str = "t*.pfw") -> list[dict]:
        return [json.loads(line) for path in sorted(self.directory.glob(pattern))
                for line in path.read_text().splitlines()]

    def spans(self, pattern: str = "t*.pfw", cat: str = "app") -> dict[str, dict]:
        """The lines of that category, by name."""
        return {line["name"]: line for line in self.lines(pattern) if line["cat"] == cat}


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    for path in tmp_path.glob("*.pfw"):
        check_self_times(path)


def check_self_times(path: pathlib.Path) -> None:
    """Whatever a test has recorded: self times are what children leave of a span, so never below 0."""
    done = subprocess.run([PFW, "table", "-q", "--row-limit", "-1", "--format", "ndjson", path],
                          env=CLEAN, capture_output=True, text=True, check=False)
    for row in map(json.loads, done.stdout.splitlines()):
        assert all(value >= 0 for key, value in row.items() if "self" in key and "time" in key), row
