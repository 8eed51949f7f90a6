"""What is recorded: files, calls, durations, sizes, ranks, children, and what is said of the rest."""
import os
import signal
import subprocess
import sys

import pytest

from harness import (BUILD, PFW, PRELOAD, check_trace, clean_environment, events, own, process_args,
                     read_lines, run, trace_names, traced_environment)

STEPS = BUILD / "tests/steps"
SELECT = BUILD / "tests/select_target"


@pytest.fixture(name="world")
def make_world(tmp_path):
    """A directory for traces, one for spools, one for data."""
    for name in ("t", "s", "d"):
        (tmp_path / name).mkdir()
    return tmp_path


def environment(world, **variables):
    return traced_environment(world / "t/t", world / "s", **variables)


def record(world, *command, status=0, **variables):
    """Run it traced; the lines of its one trace."""
    run(command, environment(world, **variables), world / "d", status)
    assert not os.listdir(world / "s")
    names = trace_names(world / "t")
    assert len(names) == 1, names
    lines = check_trace(world / "t" / names[0])
    os.remove(world / "t" / names[0])
    return lines


def names_of(lines):
    return sorted({line["name"] for line in events(lines)})


def test_calls_of_these_names_only(world):
    (world / "d/f").write_text("x" * 100)
    everything = record(world, SELECT, "copy", "f", "g")
    assert {"open", "read", "write", "close", "fstat"} <= set(names_of(everything))
    lines = record(world, SELECT, "copy", "f", "g", PFW_CALLS="re*,write")
    assert names_of(lines) == ["read", "write"]
    assert len(events(lines)) == len(events(everything, "read", "write"))
    lines = record(world, SELECT, "copy", "f", "g", PFW_CALLS="open*,fstat")
    assert names_of(lines) == ["fstat", "open"]


def test_unrecorded_calls_keep_the_names_of_descriptors(world):
    """close and dup2 are not recorded, but what a number stands for is right all the same."""
    for name in ("a", "b", "c"):
        (world / "d" / name).write_text(name)
    for variables in ({"PFW_CALLS": "read,fgets"}, {"DFTRACER_DISABLE_POSIX": "1"}):
        lines = record(world, SELECT, "reuse", "a", "b", "c", **variables)
        wanted = "fgets" if "DFTRACER_DISABLE_POSIX" in variables else "read"
        read = [line["args"]["fname"] for line in events(lines, wanted)]
        assert read == [f"{world}/d/{name}" for name in "abc"], variables
        assert names_of(lines) == (["fgets", "read"] if wanted == "read"
                                   else ["fclose", "fdopen", "fgets"])


def test_a_trace_without_io_ends_well(world):
    """DFTRACER_DISABLE_IO leaves the program's spans; _exit and exec still finish the file."""
    for how, reason in (("_exit", "exit"), ("exec", "exec")):
        run([SELECT, "span", how], environment(world, DFTRACER_DISABLE_IO="1"), world / "d")
        (name,) = trace_names(world / "t")
        lines = check_trace(world / "t" / name)
        assert names_of(lines) == ["work"] and lines[-1]["args"]["reason"] == reason
        os.remove(world / "t" / name)
        assert not os.listdir(world / "s")


def test_no_call_left_is_said(world):
    done = run([SELECT, "copy", "/dev/null", "g"], environment(world, PFW_CALLS="raed"), world / "d")
    assert "leave no call to record" in done.stderr and not trace_names(world / "t")


def test_unwrapped_calls_stay_on_libc(world):
    """What is not selected and keeps nothing jumps to libc: its slot is as it is when disabled."""
    where = run([SELECT, "slots", "read", "write", "stat", "close"],
                environment(world, PFW_CALLS="read"), world / "d").stdout.split()
    assert where == ["recorder", "libc", "libc", "recorder"]


def test_files_left_out(world):
    (world / "d/cache").mkdir()
    for name in ("f", "x.tmp", "cache/y"):
        (world / "d" / name).write_text("x")
    lines = record(world, SELECT, "read", "f", "x.tmp", "cache/y", PFW_EXCLUDE="*.tmp:cache")
    assert {line["args"]["fname"] for line in events(lines, "open")} == {f"{world}/d/f"}
    (excluded,) = own(lines, "excluded")
    assert excluded["args"] == {"exclude": 2}
