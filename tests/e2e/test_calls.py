"""Every row of calls.def, end to end: same results with and without the tracer, and a true trace.

calls_target makes each call in ways that work and ways that fail.  It writes what the calls
returned, which must not change under the tracer, and one JSON line for each event that a trace of
them must hold.  The whole trace is compared: nothing missing, nothing more, in order.
"""
import errno
import fcntl
import json
import mmap
import os
import pathlib
import re
import signal
import socket
import subprocess
import termios

import pytest

from symbols import libc_symbols

SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
TESTS = pathlib.Path(os.environ["PFW_BUILD_DIR"]) / "tests"
# How the recorder gets at the calls: through the preload object, or by pfw_start() in a program that
# links it, which rewrites the addresses that the program calls.
WAYS = {
    "preload": (TESTS / "calls_target",
                {"DFTRACER_INIT": "PRELOAD", "LD_PRELOAD": os.environ["PFW_PRELOAD"].replace(".so", "_sync.so")}),
    "attach": (TESTS / "linked_calls_target", {}),
}
MARK = "/row/"


def rows():
    text = re.sub(r"/\*.*?\*/", "", (SOURCE / "src/common/calls/calls.def").read_text(), flags=re.S)
    return re.findall(r"^CALL_\w+\([^,]+,[^,]+,\s*(\w+)\s*,", text, re.M)


def run_target(program, directory, environment):
    work = directory / "work"
    work.mkdir()
    with open(work / "stdout", "wb") as stdout:
        subprocess.run([program, work, directory / "results", directory / "expected",
                        directory / "stacks"], stdout=stdout, env=environment, check=True, timeout=120)
    return work


def events_of(path):
    """The intercepted calls of one trace, in its order."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[-1]["name"] == "end" and lines[-1]["args"]["lost"] == 0, lines[-1]
    return [line for line in lines if line["cat"] in ("POSIX", "STDIO", "NET", "SYNC")], lines[-1]["args"]


def split_at_marks(events):
    """{row: its events}, by the events that calls_target makes between the rows."""
    parts, row = {}, None
    for event in events:
        fname = event["args"].get("fname") or ""
        if event["name"] == "access" and fname.startswith(MARK):
            row = fname[len(MARK):]
            parts[row] = []
        else:
            parts[row].append(event)
    return parts


# Args that are names in the trace, and numbers in what calls_target expects.
NAMED = {"flags", "whence", "cmd", "request", "prot", "advice", "operation", "nstype"}
# Of the headers; Python has the others.
NUMBERS = {
    "AT_SYMLINK_NOFOLLOW": 0x100, "AT_EACCESS": 0x200, "AT_REMOVEDIR": 0x200, "AT_SYMLINK_FOLLOW": 0x400,
    "AT_EMPTY_PATH": 0x1000, "RENAME_NOREPLACE": 1, "RENAME_EXCHANGE": 2, "RENAME_WHITEOUT": 4,
    "XATTR_CREATE": 1, "XATTR_REPLACE": 2, "FTW_PHYS": 1, "GLOB_MARK": 2, "SYNC_FILE_RANGE_WRITE": 2,
    "SPLICE_F_MOVE": 1, "MS_ASYNC": 1, "MS_INVALIDATE": 2, "MS_SYNC": 4, "MREMAP_MAYMOVE": 1,
    "MREMAP_FIXED": 2, "MREMAP_DONTUNMAP": 4, "CLOSE_RANGE_UNSHARE": 2, "CLOSE_RANGE_CLOEXEC": 4,
    "MFD_NOEXEC_SEAL": 8, "MFD_EXEC": 16, "RWF_NOAPPEND": 32, "POSIX_MADV_NORMAL": 0,
    "POSIX_MADV_WILLNEED": 3, "CLONE_VM": 0x100, "CLONE_VFORK": 0x4000, "CLONE_NEWNS": 0x20000,
    "CLONE_NEWUSER": 0x10000000, "FTS_COMFOLLOW": 1, "FTS_LOGICAL": 2, "FTS_NOCHDIR": 4, "FTS_NOSTAT": 8,
    "FTS_PHYSICAL": 16, "FTS_SEEDOT": 32, "FTS_XDEV": 64, "FTS_WHITEOUT": 128}

if "PFW_LAUNCHER" in os.environ:  # emulated: aarch64's own
    NUMBERS |= {"O_DIRECTORY": 0o40000, "O_NOFOLLOW": 0o100000, "O_DIRECT": 0o200000, "O_LARGEFILE": 0o400000,
                "O_TMPFILE": 0o20040000}


def told(event):
    """What the trace says, in the shape of an expected line: no name is null, errno a number."""
    args = dict(event["args"])
    if event["name"] == "munmap":
        assert args.pop("touched", 0) % mmap.PAGESIZE == 0
    if args.get("fname", "") is None:
        del args["fname"]
    for key in {"fname", "target"} & set(args):
        args[key] = re.sub(r"^pipe:\[\d+\]$", "pipe:[]", args[key]) if args[key] is not None else None
    if event["cat"] == "SYNC" and not args["fname"].startswith("clock"):
        args["fname"] = re.sub(r"^(\w+):\[(?:[^+]+\+)?(?:0x)?[0-9a-f]+\]$", r"\1:[]", args["fname"])
    if "errno" in args:
        args["errno"] = getattr(errno, args["errno"], args["errno"])
    for key in NAMED & set(args):
        assert isinstance(args[key], str), event
        args[key] = sum(number_of(name) for name in args[key].split("|"))
    return {"name": event["name"], "cat": event["cat"], "args": args}


def number_of(name):
    """The number of a flag or a command; hexadecimal digits are what has no name."""
    for module in (os, fcntl, mmap, termios, signal, socket):
        if name not in NUMBERS and hasattr(module, name):
            return getattr(module, name) & 0xffffffff
    return NUMBERS[name] if name in NUMBERS else int(name, 16)


@pytest.fixture(scope="module", params=WAYS)
def runs(request, tmp_path_factory):
    program, variables = WAYS[request.param]
    top = tmp_path_factory.mktemp("calls").resolve()
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(("PFW_", "DFTRACER_"))}
    plain, traced = top / "plain", top / "traced"
    plain.mkdir()
    traced.mkdir()
    # The names of files take part in what the calls return: as long in both.
    plain_work = run_target(program, plain, clean | {"DFTRACER_ENABLE": "0"})
    traced_work = run_target(program, traced, clean | variables | {
        "DFTRACER_ENABLE": "1", "DFTRACER_DATA_DIR": "all", "DFTRACER_LOG_FILE": str(top / "t"),
        "PFW_CALLS": "+sync", "PFW_SYNC_MIN": "1ns"})
    expected = [json.loads(line) for line in (traced / "expected").read_text().splitlines()]
    events, end = events_of(top / "t.pfw")
    return {
        "plain": ((plain / "results").read_text(), (plain_work / "stdout").read_text()),
        "traced": ((traced / "results").read_text(), (traced_work / "stdout").read_text()),
        "expected": expected,
        "events": events,
        "end": end,
        "parts": split_at_marks(events),
        "top": top,
    }


def of_row(text, row):
    return [line for line in text.splitlines() if line.startswith(row + ":")]


def absent(runs):
    """The rows that this libc has no function for."""
    return {line["row"] for line in runs["expected"] if "absent" in line}


def test_absent_rows_are_not_in_libc(runs):
    missing = set(rows()) - libc_symbols().keys()
    if "PFW_LAUNCHER" in os.environ:  # emulated: aarch64's libc keeps it for old programs only
        missing.add("__send")
    assert absent(runs) == missing
    assert len(missing) < len(rows()) / 10
    assert not [event for row in missing for event in runs["parts"][row]]


def test_programs_see_no_difference(runs):
    assert runs["plain"][0].splitlines() == runs["traced"][0].splitlines()
    assert runs["plain"][1] == runs["traced"][1]


@pytest.mark.parametrize("row", rows())
def test_row(runs, row):
    if row in absent(runs):
        return  # test_absent_rows_are_not_in_libc
    assert of_row(runs["plain"][0], row), "the case of this row makes no call"
    assert of_row(runs["plain"][0], row) == of_row(runs["traced"][0], row)
    expected = [{"name": line["name"], "cat": line["cat"], "args": {
                    key: value & 0xffffffff if key in NAMED else value for key, value in line["args"].items()}}
                for line in runs["expected"] if line["row"] == row and "child" not in line]
    assert expected, "the case of this row expects no event"
    assert [told(event) for event in runs["parts"][row]] == expected


@pytest.mark.parametrize("row", [row for row in rows() if "exec" in row or "xit" in row])
def test_last_event_of_a_child(runs, row):
    (line,) = [line for line in runs["expected"] if line["row"] == row and "child" in line]
    events, end = events_of(runs["top"] / f"t-pid{line['child']}.pfw")
    assert [event["name"] for event in events] == ["access", line["name"]]
    assert told(events[-1])["args"] == line["args"]
    assert end["reason"] == line["reason"]


def test_daemon(runs):
    """The parent's trace ends before it leaves from inside libc; where the fork fails it goes on."""
    lines = [line for line in runs["expected"] if line["row"] == "daemon" and "child" in line]
    assert len(lines) == 3
    for line in lines:
        events, end = events_of(runs["top"] / f"t-pid{line['child']}.pfw")
        assert [event["name"] for event in events] == line["events"]
        assert end["reason"] == line["reason"]


def test_ends_as_a_program_does(runs):
    assert runs["end"]["reason"] == "exit"


def test_times_are_in_order_and_within_each_other(runs):
    last = 0.0
    for event in runs["events"]:
        assert event["ph"] == "X" and event["dur"] >= 0
        end = event["ts"] + event["dur"]
        assert end >= last - 1.0, event  # as doubles, ts steps by 0.25 us
        last = end
