"""The same trace in each of the states that it can be stored in."""
import gzip
import os
import shutil

from harness import PFW, run

STATES = ["raw", "gz", "compacted", "indexed", "indexed gz", "compacted, no index", "one file"]


def write(directory, processes, state):
    """The directory of the trace, in this state."""
    at = directory / state.replace(" ", "-").replace(",", "")
    at.mkdir(parents=True)
    if state in ("compacted", "compacted, no index", "one file"):
        raw = directory / "raw"
        if not raw.exists():
            write(directory, processes, "raw")
        run([PFW, "compact", "-q", "--keep", "-j", "2", *(["--split-by", "none"] if state == "one file" else []),
             "-o", at, raw])
        for name in os.listdir(at):
            if name.endswith(".manifest.json") or "no index" in state and name.endswith(".idx"):
                (at / name).unlink()
    else:
        for process in processes:
            put(at, process, state.endswith("gz"))
        if state.startswith("indexed"):
            run([PFW, "index", "-q", "-j", "2", at])
    return at


def put(directory, process, compress):
    text = process.text()
    if not compress:
        (directory / f"{process.file}.pfw").write_text(text)
        return
    lines = text.splitlines(True)
    members = max(1, len(lines) // (1 + process.pid % 7))
    with open(directory / f"{process.file}.pfw.gz", "wb") as file:
        for at in range(0, len(lines), members):
            file.write(gzip.compress("".join(lines[at:at + members]).encode(), 1))


def remove(directory):
    shutil.rmtree(directory, ignore_errors=True)
