"""The flight recorder (PFW_KEEP): what is in its dumps, by the numbers of the calls, and what is not left."""
import contextlib
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import pytest

import harness
import test_cupti

TARGET = harness.BUILD / "tests" / "keep_target"
THREAD = 10 ** 12  # keep_target.c


@pytest.fixture
def top(tmp_path):
    (tmp_path / "spools").mkdir()
    (tmp_path / "data").write_bytes(b"x")
    return tmp_path


def environment(top, keep, **variables):
    return harness.traced_environment(top / "t", top / "spools",
                                      **{"PFW_KEEP": keep, "DFTRACER_DATA_DIR": str(top), **variables})


def keep(top, keep, *words, **variables):
    return harness.run([TARGET, "state", *words], environment(top, keep, **variables), cwd=top)


def finished(top, thread=0):
    state = top / "state"
    content = state.read_bytes() if state.exists() else b""
    return struct.unpack_from("Q", content, thread * 8)[0] if content else 0


@contextlib.contextmanager
def running(top, keep, *words):
    """A process that is killed at the end."""
    with subprocess.Popen([TARGET, "state", *words], cwd=top, env=environment(top, keep)) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(top, calls, thread=0):
    while finished(top, thread) < calls:
        time.sleep(0.005)


def repaired(top):
    harness.run([harness.PFW, "repair", top], harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")))
    return harness.read_lines(top / "t-dump1.pfw")


def numbers(lines):
    """The numbers of the calls of each thread, in the order of their lines."""
    threads = {}
    for line in harness.events(lines, "pread"):
        thread, number = divmod(line["args"]["offset"], THREAD)
        threads.setdefault(thread, []).append(number)
    return threads


def dumps(top):
    return sorted(name for name in harness.trace_names(top) if "-dump" in name)


def dump_line(lines):
    dump, = harness.own(lines, "dump")
    return dump["args"]


def check_run(numbers):
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_an_end_without_a_dump_leaves_nothing(top):
    keep(top, "64MiB", "run-out", "1000")
    assert not harness.trace_names(top) and not os.listdir(top / "spools")


def test_dumps_on_request_hold_each_call_once(top):
    keep(top, "64MiB", "ask", "1000")
    assert dumps(top) == ["t-dump1.pfw", "t-dump2.pfw"]
    for number, why in (1, "first"), (2, "pfw_dump()"):
        lines = harness.check_trace(top / f"t-dump{number}.pfw", reasons=("dump",))
        assert numbers(lines) == {0: list(range(1000 * (number - 1), 1000 * number))}
        assert dump_line(lines)["why"] == why and dump_line(lines)["number"] == number
        assert dump_line(lines)["overwritten"] == 0
    assert not os.listdir(top / "spools")


def test_dumps_are_compressed_and_never_overwritten(top):
    for _ in range(2):
        keep(top, "64MiB", "ask", "10", DFTRACER_TRACE_COMPRESSION="1")
    assert dumps(top) == ["t-dump1.2.pfw.gz", "t-dump1.pfw.gz", "t-dump2.2.pfw.gz", "t-dump2.pfw.gz"]
    for name in dumps(top):
        harness.check_trace(top / name, reasons=("dump",))


def test_ctl_dumps_a_process_that_hangs(top):
    command = [TARGET, "state", "wait", "100"]
    with subprocess.Popen(command, cwd=top, env=environment(top, "30s"), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"x"
        for number in 1, 2:
            harness.run([harness.PFW, "ctl", process.pid, "dump"],
                        harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")))
            lines = harness.check_trace(top / f"t-dump{number}.pfw", reasons=("dump",))
            assert dump_line(lines)["why"] == "ctl"
            assert numbers(lines).get(0, []) == (list(range(100)) if number == 1 else [])
        process.stdin.close()
        assert process.wait() == 0
    assert len(dumps(top)) == 2


def test_ctl_says_why_there_is_nothing_to_dump(top):
    (top / "state").write_bytes(b"")
    command = [TARGET, "state", "wait", "100"]
    variables = environment(top, "30s")
    del variables["PFW_KEEP"]
    with subprocess.Popen(command, cwd=top, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"x"
        result = harness.run([harness.PFW, "ctl", process.pid, "dump"],
                             harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")), status=1)
        assert "PFW_KEEP" in result.stderr
        process.stdin.close()


def test_a_slow_step_is_dumped_with_what_was_before(top):
    """One of three times the others' length.  On a loaded machine others are slow, too."""
    keep(top, "10s", "steps", "40", PFW_DUMP_ON="step>2x,max=40")
    found, planted = [], False
    for name in sorted(dumps(top), key=lambda name: int(re.search(r"dump(\d+)", name)[1])):
        lines = harness.check_trace(top / name, reasons=("dump",))
        planted = planted or "step: 37 took" in dump_line(lines)["why"]
        found += numbers(lines)[0] if not planted or len(found) < 380 else []
    assert planted and found[:380] == list(range(380))


@pytest.mark.parametrize("sums", [{}, {"PFW_MIN_DUR": "10s"}])
def test_a_slow_call_is_dumped(top, sums):
    """Also one that would be summed."""
    keep(top, "64MiB", "slow", "1000", PFW_DUMP_ON="call>25ms,max=1", DFTRACER_DATA_DIR="all", **sums)
    name, = dumps(top)
    lines = harness.check_trace(top / name, reasons=("dump",))
    assert dump_line(lines)["why"].startswith("call: ")
    assert sums or set(range(1000)) <= set(numbers(lines)[0])
    assert [line for line in lines if line.get("dur", 0) > 25000]


def test_a_time_takes_the_memory_that_it_needs(top):
    """More than it begins with."""
    variables = environment(top, "60s", PFW_SPOOL_DIR="/dev/shm")
    with subprocess.Popen([TARGET, "state", "run", "1"], cwd=top, env=variables) as process:
        wait_for(top, (290 << 20) // 64)
        process.kill()
    spool, = (path for path in pathlib.Path("/dev/shm").glob(f"pfw-*-{process.pid}-*.spool"))
    assert spool.stat().st_size > 280 << 20
    spool.unlink()


def test_a_time_that_cannot_be_kept_is_said_once(top):
    result = harness.run(["sh", "-c", 'ulimit -f 65536; exec "$0" state run-out 1000000', TARGET],
                         environment(top, "60s"), cwd=top)
    assert re.fullmatch(r"pfw: PFW_KEEP: less than its time is kept, in \d+ MiB: .*\n", result.stderr)


def test_threads_that_have_ended_stay_and_keep_their_names(top):
    keep(top, "64MiB", "threads", "200")
    assert not dumps(top)
    with running(top, "64MiB", "threads", "1000000"):
        wait_for(top, 5000)
    calls = harness.events(repaired(top), "pread")
    order = sorted(line["args"]["offset"] for line in calls)
    assert order[-1] >= finished(top) - 1
    check_run(order)
    threads = {}
    for line in calls:
        threads[line["tid"]] = threads.get(line["tid"], 0) + 1
    assert len(threads) > 100 and sum(count != 10 for count in threads.values()) <= 2


def test_each_process_dumps_its_own(top):
    keep(top, "64MiB", "fork", "100")
    assert len(dumps(top)) == 2
    for name in dumps(top):
        lines = harness.check_trace(top / name, reasons=("dump",))
        child = "-pid" in name
        assert dump_line(lines)["why"] == ("child" if child else "parent")
        assert numbers(lines)[0] == list(range(100, 200) if child else range(100))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("change", ["chroot", "setuid"])
def test_a_dump_after_a_change_of_root_or_user(top, change):
    for directory in top, top / "spools":
        directory.chmod(0o777)
    for above in top.parents[:2]:
        above.chmod(0o755)  # pytest's, of which another user sees nothing
    keep(top, "64MiB", change, "100")
    assert dumps(top) == ["t-dump1.pfw"] and not os.listdir(top / "spools")
    lines = harness.check_trace(top / "t-dump1.pfw", reasons=("dump",))
    assert numbers(lines) == {0: list(range(200))} and dump_line(lines)["why"] == change


@test_cupti.standin
def test_work_of_a_gpu_is_in_one_dump(tmp_path):
    """The first dump has what was launched before it; what came later is in the second, after a kill."""
    spools = {"PFW_KEEP": "64MiB", "PFW_SPOOL_DIR": str(tmp_path / "spools")}
    (tmp_path / "spools").mkdir()
    run = test_cupti.Run(tmp_path, "init launch=3 copies=2 dump launch=4 flush abort", status=-signal.SIGABRT,
                         reasons=("dump",), **spools)
    assert len(run.pp("kernel")) == 3 and len(run.pp("memcpy")) == 6 and test_cupti.launches_of(run)
    harness.run([harness.PFW, "repair", tmp_path], harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    later = [line for line in harness.read_lines(tmp_path / "t-dump2.pfw") if line["cat"] == "PP"]
    kernels = [line for line in later if line["args"]["kind"] == "kernel"]
    assert len(kernels) == 4 and {line["args"]["correlation"] for line in kernels} <= {
        line["args"]["correlation"] for line in later if line["name"] == "cudaLaunchKernel"}


def test_new_names_do_not_fill_the_memory(top):
    keep(top, "1MiB", "files", "5000")
    name, = dumps(top)
    lines = harness.check_trace(top / name, reasons=("dump",))
    calls = harness.events(lines, "pread")
    assert dump_line(lines)["overwritten"] > 0
    assert [line["args"]["offset"] for line in calls] == list(range(len(calls)))[::-1]
    for line in calls:
        assert line["args"]["fname"] == str(top / f"a-file-of-many-{line['args']['offset']}")


def test_a_bad_value_is_said(top):
    result = harness.run([harness.PFW, "run", "--keep", "5", "--", "true"], status=125)
    assert "--keep" in result.stderr
    result = harness.run([harness.PFW, "run", "--dump-on", "step>1x", "--", "true"], status=125)
    assert "--dump-on" in result.stderr
    result = keep(top, "1KiB", "threads", "1")
    assert "PFW_KEEP=1KiB" in result.stderr


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_memory_stays_and_nothing_is_written(top):
    sizes = []
    with running(top, "4MiB", "run", "1") as process:
        for calls in 300_000, 1_000_000:
            wait_for(top, calls)
            sizes.append(memory_kib(process.pid))
    assert sizes[1] < sizes[0] + 1024
    assert not harness.trace_names(top)
    spool, = (top / "spools").iterdir()
    assert spool.stat().st_size < 8 << 20


@pytest.mark.parametrize("keep,words", [("1MiB", ("run", 3)), ("100ms", ("pace", 2))])
def test_kills_at_random_moments_leave_the_newest_calls_once(top, keep, words):
    threads = words[1]
    for _ in range(7):
        for name in harness.trace_names(top):
            (top / name).unlink()
        (top / "state").unlink(missing_ok=True)
        with running(top, keep, *map(str, words)) as process:
            wait_for(top, 1000, threads - 1)
            time.sleep(random.random() * 0.3)
            process.send_signal(random.choice([signal.SIGKILL, signal.SIGSEGV]))
        lines = repaired(top)
        found = numbers(lines)
        assert found
        for thread, calls in found.items():  # on a loaded machine one may not have run for so long
            check_run(calls)
            assert calls[-1] - finished(top, thread) in (-1, 0)
        args = dump_line(lines)
        calls = sum(map(len, found.values()))
        assert args["why"] == "killed" and not os.listdir(top / "spools")
        assert calls + args["overwritten"] >= sum(finished(top, thread) for thread in range(threads))
        if keep == "100ms" and args["overwritten"]:
            ends = [line["ts"] + line["dur"] for line in harness.events(lines, "pread")]  # good to 0.25 us
            assert args["from_ts"] < min(ends) + 0.5 and 1e5 <= max(ends) - args["from_ts"] < 1e6
