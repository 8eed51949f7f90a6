"""A trace while its program runs: live, bounded, and exact about what did not fit."""
import json
import os
import subprocess
import time

import pytest

import harness

BURSTS = os.path.join(harness.BUILD, "tests", "bursts")
FILTERED = os.path.join(harness.BUILD, "tests", "unseen_target")

# Does one read when it is told to, on standard input, and says so.
READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for line in sys.stdin:
    os.pread(fd, int(line), 0)
    print("done", flush=True)
"""


def wait_until(check, seconds=60):
    """What check() returns once it is true; None when it stays false."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    return None


class Reader:
    def __init__(self, directory, threadless=False, **variables):
        self.data = directory / "data"
        self.data.write_bytes(b"x" * 100)
        self.trace = directory / "t.pfw"
        environment = harness.traced_environment(directory / "t", directory, **variables)
        command = ["/usr/bin/python3", "-c", READER, str(self.data)]
        if threadless:
            command = [FILTERED, "filter", directory, "1", "clone", "clone3", "--", "/usr/bin/env",
                       f"LD_PRELOAD={environment.pop('LD_PRELOAD')}", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)

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
        assert self.process.wait(300) == 0
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
    assert wait_until(lambda: reader.seen(21))  # by a thread, since it was not ended
    assert wait_until(lambda: reader.threads() == 1), "the writer never went"
    reader.read(22)
    assert wait_until(lambda: reader.seen(22)), "nothing was written after the rest"
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


# ---- what is recorded and not yet written, read with the file ----

def validated(path, directory, *options):
    """`pfw validate` as NDJSON: its status, and its last line but those of problems."""
    done = harness.run([harness.PFW, "validate", "--format", "ndjson", path, *options], status=None,
                       environment=harness.clean_environment(PFW_SPOOL_DIR=str(directory)))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done, [line["problem"] for line in lines if "problem" in line], \
        [line for line in lines if "problem" not in line]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def reader_that_has_written_nothing(top, trace):
    """Where no thread can be made, nothing is written before a ring is half full."""
    reader = Reader(top, threadless=True, DFTRACER_DATA_DIR=str(top),
                    DFTRACER_TRACE_COMPRESSION=str(int(trace.endswith(".gz"))))
    for count in range(1, 51):
        reader.read(count)
    assert not (top / trace).exists()
    return reader


@pytest.mark.parametrize("name", ["t.pfw", "t.pfw.gz"])
def test_what_is_not_written_yet_is_read_and_nothing_changed(tmp_path, name):
    top, trace = tmp_path, tmp_path / name
    reader = reader_that_has_written_nothing(top, name)
    try:
        before = contents(top)
        for named in trace, top, top / "t":
            done, problems, files = validated(named, top)
            assert done.returncode == 0 and not problems, done.stdout + done.stderr
            assert len(files) == 1 and files[0]["file"] == str(trace)
            assert files[0]["events"] == 51 and files[0]["running"] == 1
        assert contents(top) == before
        reader.process.kill()
        reader.process.wait()
        before = contents(top)
        done, problems, files = validated(trace, top)
        assert done.returncode == 1 and files[0]["events"] == 51 and not files[0]["running"]
        assert len(problems) == 1 and "was killed" in problems[0] and "pfw repair" in problems[0]
        assert contents(top) == before
        harness.run([harness.PFW, "repair", trace], harness.clean_environment(PFW_SPOOL_DIR=str(top)))
        done, problems, files = validated(trace, top)
        assert done.returncode == 0 and not problems and files[0]["events"] == 51
    finally:
        reader.process.kill()
        reader.process.wait()


def test_a_trace_that_is_being_written_is_whole_at_any_time(tmp_path):
    """Half in the file, half in the rings, while both move."""
    env = harness.traced_environment(tmp_path / "t", tmp_path, PFW_FLUSH_MS="2")
    code = "import os, sys, time\nfd = os.open(sys.argv[1], os.O_RDONLY)\nprint(flush=True)\n" \
           "while True:\n for _ in range(500): os.pread(fd, 1, 0)\n time.sleep(0.005)\n"
    (tmp_path / "data").write_bytes(b"x")
    with subprocess.Popen(["/usr/bin/python3", "-c", code, str(tmp_path / "data")], env=env,
                          stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            seen = []
            deadline = time.monotonic() + 60
            while len(seen) < 10 or (seen[-1] == seen[0] and time.monotonic() < deadline):
                done, problems, files = validated(tmp_path / "t.pfw", tmp_path)
                assert done.returncode == 0 and not problems, done.stdout
                assert files[0]["running"] == 1
                seen.append(files[0]["events"])
            assert seen == sorted(seen) and seen[-1] > seen[0]
        finally:
            process.kill()
