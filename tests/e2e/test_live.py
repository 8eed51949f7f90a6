"""A trace while its program runs: live, bounded, and exact about what did not fit."""
import json
import os
import subprocess
import time

import pytest

import harness

BURSTS = os.path.join(harness.BUILD, "tests", "bursts")

# Does one read when it is told to, on standard input, and says so.
READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for line in sys.stdin:
    os.pread(fd, int(line), 0)
    print("done", flush=True)
"""


def wait_until(check, seconds=10):
    """What check() returns once it is true; None when it stays false."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    return None


class Reader:
    def __init__(self, directory, **variables):
        self.data = directory / "data"
        self.data.write_bytes(b"x" * 100)
        self.trace = directory / "t.pfw"
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", READER, str(self.data)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env=harness.traced_environment(directory / "t", directory, **variables))

    def read(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def seen(self, count):
        """Whether whole lines of the live trace hold the read of that many bytes."""
        if not self.trace.exists():
            return False
        whole = self.trace.read_bytes().rpartition(b"\n")[0]
        return any(line["name"] == "pread" and line["args"]["count"] == count
                   for line in map(json.loads, whole.splitlines()))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        return harness.check_trace(self.trace)


def test_an_event_is_in_the_file_while_the_program_runs(tmp_path):
    reader = Reader(tmp_path, PFW_FLUSH_MS="100")
    for count in (11, 12, 13):
        reader.read(count)
        assert wait_until(lambda: reader.seen(count)), f"read of {count} bytes never came"
    lines = reader.end()
    assert [line["args"]["count"] for line in harness.events(lines, "pread")] == [11, 12, 13]


def test_the_writer_rests_and_comes_back(tmp_path):
    """With nothing to write for two seconds the program has its own threads only."""
    reader = Reader(tmp_path, PFW_FLUSH_MS="100")
    reader.read(21)
    assert wait_until(lambda: reader.threads() == 2)
    assert wait_until(lambda: reader.threads() == 1), "the writer never went"
    reader.read(22)
    assert wait_until(lambda: reader.seen(22)), "nothing was written after the rest"
    assert reader.threads() == 2
    lines = reader.end()
    assert [line["args"]["count"] for line in harness.events(lines, "pread")] == [21, 22]


def bursts(tmp_path, threads, spans, **variables):
    environment = harness.traced_environment(tmp_path / "t", tmp_path, **variables)
    result = harness.run([BURSTS, threads, spans], environment)
    name, = harness.trace_names(tmp_path)
    return result, tmp_path / name


@pytest.mark.parametrize("compression", ["0", "1"])
def test_a_full_ring_makes_the_program_wait_and_says_so(tmp_path, compression):
    result, trace = bursts(tmp_path, 4, 50000, PFW_RING_MAX="32KiB",
                           DFTRACER_TRACE_COMPRESSION=compression)
    lines = harness.check_trace(trace)
    assert len(harness.events(lines, "burst")) == 4 * 50000
    waited, = harness.own(lines, "waited")
    assert waited["args"]["count"] > 0 and waited["args"]["total"] > 0
    assert result.stderr == ""


def test_a_full_ring_drops_when_told_to_and_counts_each(tmp_path):
    result, trace = bursts(tmp_path, 4, 100000, PFW_RING_MAX="32KiB", PFW_ON_FULL="drop")
    lines = harness.read_lines(trace)
    kept = len(harness.events(lines, "burst"))
    lost = harness.own(lines, "lost")[-1]["args"]
    assert lost["reason"] == "full" and lost["first_ts"] <= lost["last_ts"]
    assert kept + lost["count"] == 4 * 100000 + (0 if harness.events(lines, "printf") else 1)
    assert lines[-1]["args"]["lost"] == lost["count"]
    assert f"pfw: {lost['count']} events were lost" in result.stderr


def test_memory_is_bounded_at_any_rate(tmp_path):
    """8 MiB and 1 MiB a busy thread, however many events."""
    result, trace = bursts(tmp_path, 4, 100000, DFTRACER_TRACE_COMPRESSION="1")
    plain = harness.run([BURSTS, 4, 100000])
    before, peak = map(int, result.stdout.split())
    _, untraced = map(int, plain.stdout.split())
    assert peak - untraced <= (8 + 4) * 1024, f"{peak} KiB against {untraced} untraced"
    assert before <= peak
    assert len(harness.events(harness.check_trace(trace), "burst")) == 4 * 100000
