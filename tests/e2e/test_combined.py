"""Real reads under, beside and across kernels: pfw overlap finds what was put there.

tests/e2e/combined has the program, in C and in Python; kernels are those of the stand-ins
(tests/gpu/standin), which take as long as the test says."""
import collections
import json
import subprocess

import harness
import pytest

STANDIN = harness.BUILD / "tests/standin13"
KERNEL_NS = 30_000_000
ROUNDS = 2
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
        out = harness.run([*map(str, (*command, data, KERNEL_NS, ROUNDS, STANDIN / "libcudart.so.13"))],
                          environment, directory).stdout
        # By the program's own clock: what it did where.
        self.said = sorted(((name, int(begin), int(end), placed == "1") for name, begin, end, placed in
                            (each.split() for each in out.splitlines())), key=lambda read: read[1])
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
                             capture_output=True, text=True, timeout=300).stdout
        return json.loads(out.splitlines()[0])


def kernel_at(run, time):
    """The kernel that runs then, or None."""
    return next((kernel for kernel in run.kernels if kernel[0] <= time < kernel[1]), None)


def cut(run, begin, end):
    """What a read has of kernels, wherever it is."""
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in run.kernels)


def hidden(run, name, begin, end):
    """The same of one that lies where it was to lie, by that place; else None: the thread may have
    stood still between its look at the clock and the call."""
    at_begin, at_end = kernel_at(run, begin), kernel_at(run, end - 1)
    if name == "under":
        return end - begin if at_begin and at_begin == at_end else None
    if name == "beside":
        return 0 if not at_begin and not at_end else None
    if name == "end":
        return at_begin[1] - begin if at_begin and at_begin != at_end else None
    inside = [kernel for kernel in run.kernels if begin < kernel[0] < end]
    return min(end, inside[0][1]) - inside[0][0] if len(inside) == 1 and not at_begin else None


@pytest.mark.parametrize("command", [[harness.BUILD / "tests/combined13"],
                                     ["/usr/bin/python3", harness.SOURCE / "tests/e2e/combined/combined.py"]],
                         ids=["c", "python"])
def test_the_overlap_is_the_one_that_was_made(tmp_path, data, command):
    run = Run(tmp_path, data, command)
    row = run.row
    reads = sorted((call[1:] for call in run.calls if call[0].startswith("pread") and call[1] in PLACES),
                   key=lambda read: read[1])
    assert [read[0] for read in reads] == [read[0] for read in run.said]
    # By the lines: exactly.
    wanted, placed = 0, collections.Counter()
    for read, said in zip(reads, run.said):
        of_place = hidden(run, *read) if said[3] else None
        placed[read[0]] += of_place is not None
        wanted += cut(run, *read[1:]) if of_place is None else of_place
    assert all(placed[place] >= ROUNDS for place in PLACES), placed
    assert ns(row["io_gpu"]) == wanted > 0
    assert ns(row["gpu"]) == len(run.kernels) * KERNEL_NS
    assert ns(row["io_unoverlapped"]) == ns(row["io"]) - wanted
    # By the program's own clock, to a microsecond a read, but for what it does between its looks at
    # the clock and the call.
    slack = sum(end - begin for _, begin, end, _ in run.said) - sum(end - begin for _, begin, end in reads)
    by_clock = sum(cut(run, begin, end) for _, begin, end, _ in run.said)
    assert -1000 * len(reads) <= by_clock - wanted <= slack + 1000 * len(reads)
    for (_, begin, end), (_, before, behind, _) in zip(reads, run.said):
        assert before - 1000 <= begin and end <= behind + 1000
    # What was read beside kernels is what an idle GPU waited for.
    beside = sum(end - begin for name, begin, end in reads if name == "beside")
    assert ns(row["idle_io"]) >= beside and ns(row["idle"]) >= ns(row["idle_io"])
    assert row["launches"] == len(run.kernels)
    # A compacted trace's index says the same.
    subprocess.run([harness.PFW, "compact", "-q", run.path], check=True, timeout=300)
    (compacted,) = run.path.parent.glob("*.pfw.gz")
    assert Run.overlap(compacted) == row
