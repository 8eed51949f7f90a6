"""What goes past libc: io_uring and AIO are counted and said, so that no trace looks complete."""
import json
import os
import pathlib
import shutil
import signal

import pytest

from harness import (PFW, check_trace, clean_environment, events, own, run, trace_names,
                     traced_environment)

TARGET = pathlib.Path(os.environ["PFW_BUILD_DIR"]) / "tests" / "uring_target"
KINDS = ["uring", "aio"]


class Place:
    def __init__(self, top):
        self.top, self.traces, self.spools = top, top / "t", top / "s"
        self.traces.mkdir()
        self.spools.mkdir()

    def run(self, command, status=0, **variables):
        """(lines of each trace, what was said)."""
        result = run(command, traced_environment(self.traces / "t", self.spools, **variables),
                     self.top, status=None)
        if result.returncode == 77:
            pytest.skip("the kernel refuses io_uring or AIO here")
        assert result.returncode == status, result.stderr
        if status < 0:
            run([PFW, "repair", self.traces], clean_environment(PFW_SPOOL_DIR=str(self.spools)))
        lines = {name: check_trace(self.traces / name, ("exit", "recovered"))
                 for name in trace_names(self.traces)}
        return lines, [line for line in result.stderr.splitlines() if line.startswith("pfw: ")]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def unrecorded(lines):
    found = own(lines, "unrecorded")
    assert len(found) <= 1 and all(line["ph"] == "M" for line in found)
    return found[0]["args"] if found else {}


EXPECTED = {"uring": {"io_uring_operations": 100, "io_uring_rings": 1}, "aio": {"aio_contexts": 1}}
SAID = {"uring": "100 operations went through io_uring", "aio": "1 contexts of AIO"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["stay", "close", "kill"])
def test_counted(place, kind, end):
    """To the last one where the ring is still there at the end, or was when it was last used."""
    lines, said = place.run([TARGET, "raw", kind, "100", end],
                            status=-signal.SIGKILL if end == "kill" else 0)
    assert (place.top / "data").read_text() == kind[0] * 100
    assert unrecorded(lines["t.pfw"]) == EXPECTED[kind]
    assert not events(lines["t.pfw"], "syscall")
    if end != "kill":
        (line,) = said
        assert SAID[kind] in line
    report = json.loads(run([PFW, "validate", "--format=ndjson", place.traces / "t.pfw"]
                            ).stdout.splitlines()[-1])
    for key in ("io_uring_operations", "aio_contexts"):
        assert report[key] == EXPECTED[kind].get(key, 0)
    told = {"uring": "100 operations of io_uring not recorded", "aio": "1 AIO context not recorded"}
    assert told[kind] in run([PFW, "validate", place.traces / "t.pfw"]).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_calls_through_libc_are_events_and_not_counted(place, kind):
    lines, said = place.run([TARGET, "libc", kind, "100", "close"])
    assert not said and not unrecorded(lines["t.pfw"])
    name = {"uring": "io_uring_enter", "aio": "io_submit"}[kind]
    calls = [line["args"] for line in events(lines["t.pfw"], "syscall")
             if line["args"]["call"] == name]
    assert len(calls) == 100 and all(args["ret"] == args["count"] == 1 for args in calls)
    if kind == "aio":
        writes = [(line["dur"], line["args"]["fname"], line["args"]["count"], line["args"]["offset"])
                  for line in events(lines["t.pfw"], "aio_write")]
        assert writes == [(0, str(place.top / "data"), 1, at) for at in range(100)]
        table = run([PFW, "table", "--format=ndjson", "--name=aio_write", place.traces / "t.pfw"]).stdout
        assert json.loads(table.splitlines()[0])["bytes"] == 100


def test_calls_through_libc_that_are_not_recorded_are_counted(place):
    lines, said = place.run([TARGET, "libc", "uring", "100", "stay"], PFW_CALLS="open,close")
    assert unrecorded(lines["t.pfw"]) == EXPECTED["uring"]
    assert len(said) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_does_not_count_its_parents(place, kind):
    lines, said = place.run([TARGET, "raw", kind, "100", "fork"])
    (child,) = lines.keys() - {"t.pfw"}
    assert unrecorded(lines["t.pfw"]) == EXPECTED[kind]
    assert not unrecorded(lines[child]), "the parent's ring was taken for the child's"
    assert len(said) == 1


def test_programs_without(place):
    lines, said = place.run(["/bin/sh", "-c", "echo x > data"])
    assert not said and not unrecorded(lines["t.pfw"])


def test_quiet(place):
    lines, said = place.run([TARGET, "raw", "uring", "100", "stay"], PFW_QUIET="1")
    assert not said and unrecorded(lines["t.pfw"]) == EXPECTED["uring"]


FIO = ["fio", "--name=x", "--rw=write", "--size=4M", "--bs=4k", "--rate_iops=400",
       "--filename=data", "--thread"]
needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


@needs_fio
def test_fio_io_uring(place):
    """fio makes its system calls itself.  It makes one ring a thread, and unmaps it by libc: a last look."""
    lines, said = place.run([*FIO, "--ioengine=io_uring"])
    counts = [unrecorded(of_one) for of_one in lines.values()]
    assert sum(count.get("io_uring_operations", 0) for count in counts) == 1024
    assert said


@needs_fio
def test_fio_libaio(place):
    """libaio goes through syscall() since 0.3.111: then each submission is an event."""
    lines, said = place.run([*FIO, "--ioengine=libaio"])
    submitted = [line["args"] for of_one in lines.values() for line in events(of_one, "syscall")
                 if line["args"]["call"] == "io_submit"]
    contexts = sum(unrecorded(of_one).get("aio_contexts", 0) for of_one in lines.values())
    if submitted:
        assert sum(args["ret"] for args in submitted) == 1024 and not contexts and not said
        assert sum(line["args"]["count"] for of_one in lines.values()
                   for line in events(of_one, "aio_write")) == 4 << 20
    else:
        assert contexts and said


def test_gpu_work_before_several_kills(tmp_path):
    """The longest time: those of two processes are no sum; also in one compacted file."""
    own = '{"id":%d,"name":"%s","cat":"pfw","pid":%d,"tid":7,"ts":4.000,"ph":"M","args":{%s}}\n'
    for name, pid, parent, gpu_us in ("a", 7, 1, 166000), ("a-pid8", 8, 7, 500000):
        args = {"process": f'"format":1,"run":"r","host":"h","ppid":{parent}', "unrecorded": f'"gpu_us":{gpu_us}',
                "end": '"events":0,"lost":0,"reason":"recovered"'}
        (tmp_path / f"{name}.pfw").write_text("".join(own % (n, key, pid, args[key]) for n, key in enumerate(args, 1)))
    told = lambda: [line["gpu_us"] for line in map(json.loads, run(
        [PFW, "validate", "--format", "ndjson", tmp_path]).stdout.splitlines()) if "gpu_us" in line]
    assert sorted(told()) == [166000, 500000, 500000]
    run([PFW, "compact", "-q", tmp_path])
    assert told() == [500000]
