"""Real reads under, beside and across kernels: pfw overlap finds what was put there.

tests/e2e/combined has the program, in C and in Python; kernels are those of the stand-ins
(tests/gpu/standin), which take as long as the test says."""
import json
import subprocess

import harness
import pytest

STANDIN = harness.BUILD / "tests/standin13"
KERNEL_NS = 60_000_000
ROUNDS = 3
LARGE = 64 << 20  # a read of it takes longer than a kernel's last 2 ms, and than a thread's start
PLACES = ("under", "beside", "end", "begin")

pytestmark = pytest.mark.skipif(not (STANDIN / "libcupti.so.13").exists(),
                                reason="no stand-ins: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    for name in PLACES:
        with open(directory / name, "wb") as file:
            file.truncate(LARGE if name in ("end", "begin") else 1 << 20)
    return directory


def ns(us):
    return round(us * 1000)


def time_ns(raw, key):
    """Exactly: as a double a ts is known to 0.25 µs only."""
    text = raw.split(f'"{key}":')[1].split(",")[0]
    return int(text.replace(".", ""))


class Run:
    def __init__(self, directory, data, command):
        environment = harness.traced_environment(directory / "t", data)
        environment |= {"LD_LIBRARY_PATH": str(STANDIN), "STANDIN": f"kernel_ns={KERNEL_NS}",
                        "CUDA_INJECTION64_PATH": str(harness.BUILD / "lib/libpfw.so.1")}
        out = harness.run([*command[:-1], *map(str, (data, KERNEL_NS, ROUNDS)), *command[-1:]],
                          environment, directory).stdout
        # By the program's own clock: what it did where.
        self.said = [(name, int(begin), int(end)) for name, begin, end in
                     (each.split() for each in out.splitlines())]
        (self.path,) = [directory / name for name in harness.trace_names(directory)]
        harness.check_trace(self.path)
        lines = [(raw, json.loads(raw)) for raw in self.path.read_text().splitlines()]
        self.kernels = sorted((time_ns(raw, "ts"), time_ns(raw, "ts") + time_ns(raw, "dur"))
                              for raw, line in lines if line["args"].get("kind") == "kernel")
        self.calls = [(line["name"], (line["args"].get("fname") or "").rsplit("/", 1)[-1],
                       time_ns(raw, "ts"), time_ns(raw, "ts") + time_ns(raw, "dur"))
                      for raw, line in lines if line["cat"] in ("POSIX", "STDIO")]
        self.row = self.overlap(self.path)

    @staticmethod
    def overlap(path):
        out = subprocess.run([harness.PFW, "overlap", path, "--format", "ndjson"], check=True,
                             capture_output=True, text=True, timeout=60).stdout
        return json.loads(out.splitlines()[0])


def kernel_at(run, time):
    """The kernel that runs then, or None."""
    return next((kernel for kernel in run.kernels if kernel[0] <= time < kernel[1]), None)


def hidden(run, name, begin, end):
    """What a read has of its kernel, by where the program has put it."""
    if name == "under":
        assert kernel_at(run, begin) and kernel_at(run, begin) == kernel_at(run, end - 1)
        return end - begin
    if name == "end":
        kernel = kernel_at(run, begin)
        assert kernel and end > kernel[1], "the machine was too slow or too fast for this round"
        return kernel[1] - begin
    if name == "begin":
        inside = [kernel for kernel in run.kernels if begin < kernel[0] < end]
        assert len(inside) == 1 and not kernel_at(run, begin), "as above"
        return min(end, inside[0][1]) - inside[0][0]
    assert not kernel_at(run, begin) and not kernel_at(run, end - 1)
    return 0


def placed(directory, data, command):
    """A run in which every read is where it was to be: the machine may do something else meanwhile."""
    for attempt in range(8):
        (directory / str(attempt)).mkdir()
        run = Run(directory / str(attempt), data, command)
        try:
            run.wanted = sum(hidden(run, *call[1:]) for call in run.calls if call[1] in PLACES
                             and call[0] == "pread")
            run.wanted_by_clock = sum(hidden(run, *read) for read in run.said)
            return run
        except AssertionError as error:
            reason = error
    pytest.fail(f"in none of 8 runs were the reads where they belong: {reason}")


@pytest.mark.parametrize("command", [[harness.BUILD / "tests/combined13", None],
                                     ["/usr/bin/python3", harness.SOURCE / "tests/e2e/combined/combined.py",
                                      STANDIN / "libcudart.so.13"]], ids=["c", "python"])
def test_the_overlap_is_the_one_that_was_made(tmp_path, data, command):
    command = [str(word) for word in command if word]
    if len(command) == 1:
        command.append("0")
    run = placed(tmp_path, data, command)
    row = run.row
    reads = [call for call in run.calls if call[0] == "pread" and call[1] in PLACES]
    assert len(run.kernels) == 3 * ROUNDS and len(reads) == len(run.said) == 12 * ROUNDS
    # By the lines: exactly.
    assert ns(row["io_gpu"]) == run.wanted
    assert ns(row["gpu"]) == 3 * ROUNDS * KERNEL_NS
    assert ns(row["io_unoverlapped"]) == ns(row["io"]) - run.wanted
    # By the program's own clock, to the microsecond of each read, but for what it does between its
    # look at the clock and the call.
    slack = sum(end - begin for _, begin, end in run.said) - sum(end - begin for *_, begin, end in reads)
    assert -1000 * len(reads) <= run.wanted_by_clock - ns(row["io_gpu"]) <= slack + 1000 * len(reads)
    assert slack < run.wanted / 10, "the clock of the trace is not the program's"
    # What was read beside kernels is what an idle GPU waited for.
    beside = sum(end - begin for _, name, begin, end in reads if name == "beside")
    assert ns(row["idle_io"]) >= beside and ns(row["idle"]) >= ns(row["idle_io"])
    assert row["launches"] == 3 * ROUNDS
    # A compacted trace's index says the same.
    subprocess.run([harness.PFW, "compact", "-q", run.path], check=True, timeout=60)
    (compacted,) = run.path.parent.glob("*.pfw.gz")
    assert Run.overlap(compacted) == row
