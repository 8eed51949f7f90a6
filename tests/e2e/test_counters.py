"""PFW_COUNTERS: what the samples say of programs that allocate, compute, read and start threads."""
import json
import os
import pathlib
import subprocess
import time

import pandas
import pytest

import harness

MIB = 1 << 20
NAMES = {"cpu", "memory", "page faults", "threads", "io", "storage"}

# Touches memory, keeps one CPU busy, reads a file, starts threads that sleep; after each it says so, and
# waits for a line.
PROGRAM = """
import os, sys, threading, time
def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
def stage(name):
    print(name, flush=True)
    sys.stdin.readline()
def threads_left():
    left = 0
    for task in os.listdir("/proc/self/task"):
        try:
            left += open(f"/proc/self/task/{task}/comm").read() != "pfw-writer\\n"
        except OSError:
            pass
    return left
data = os.open("data", os.O_RDONLY)
stage("idle")
compute(0.8)
stage("busy")
block = b"x" * (200 << 20)
stage("held")
del block
stage("free")
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(5)]
for thread in threads:
    thread.start()
stage("threads")
done.set()
for thread in threads:
    thread.join()
while threads_left() > 1:  # a thread that was joined may still be on its way out
    time.sleep(0.01)
stage("joined")
for _ in range(1000):
    os.pread(data, 10_000, 0)
stage("read")
"""

# For programs that have to be sampled so often before they go on.
WAIT = """
import os, time
def wait(what, more=3, trace="t.pfw"):
    def count():
        return open(trace).read().count('"name":"%s"' % what) if os.path.exists(trace) else 0
    enough = count() + more
    while count() < enough:
        time.sleep(0.02)
"""


def environment(top, **variables):
    (top / "spools").mkdir()
    (top / "data").write_bytes(b"x" * 10_000)
    return harness.traced_environment(top / "t", top / "spools", DFTRACER_DATA_DIR=str(top),
                                      **{"PFW_FLUSH_MS": "20", **variables})


def samples(lines, name=None):
    return [line for line in lines if line["cat"] == "COUNTER" and name in (None, line["name"])]


def samples_since(trace, seconds):
    """When those were taken that are in the file by now; `storage` is the last line of each."""
    if not trace.exists():
        return []
    whole = trace.read_bytes().rpartition(b"\n")[0]
    return [line["ts"] for line in samples(map(json.loads, whole.splitlines()), "storage")
            if line["ts"] / 1e6 > seconds]


def wait_for_samples(trace, count, since=0):
    deadline = time.monotonic() + 120
    while len(times := samples_since(trace, since)) < count:
        assert time.monotonic() < deadline, f"{len(times)} of {count} samples"
        time.sleep(0.02)
    return times


def waits(process):
    """Since when: only then has the kernel counted what it wrote last."""
    stat = pathlib.Path(f"/proc/{process.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.001)
    return time.time()


class Told:
    """The lines of PROGRAM's trace, and which samples were taken of each stage of it."""

    def __init__(self, top):
        self.stages, last = {}, 0
        with subprocess.Popen(["/usr/bin/python3", "-c", PROGRAM], cwd=top, text=True,
                              env=environment(top, PFW_COUNTERS="50ms", DFTRACER_INC_METADATA="1"),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            for name in process.stdout:
                times = wait_for_samples(top / "t.pfw", 4, waits(process))
                self.stages[name.strip()] = (last, times[0], times[-1])
                last = times[-1]
                process.stdin.write("\n")
                process.stdin.flush()
            assert process.wait(300) == 0 and process.stderr.read() == ""
        self.lines = harness.check_trace(top / "t.pfw")

    def all_of(self, name, stage):
        """The args of what was sampled since the last one that was seen of the stage before."""
        last, _, until = self.stages[stage]
        return [line["args"] for line in samples(self.lines, name) if last < line["ts"] <= until]

    def behind(self, name, stage):
        """Those of samples that begin and end while the stage waits."""
        _, first, until = self.stages[stage]
        return [line["args"] for line in samples(self.lines, name) if first < line["ts"] <= until]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return Told(tmp_path_factory.mktemp("counters"))


def test_samples(told):
    assert {line["name"] for line in samples(told.lines)} == NAMES
    for line in samples(told.lines):
        assert line["ph"] == "C" and line["tid"] == line["pid"] and "dur" not in line
        assert all(isinstance(value, (int, float)) and value >= 0 for value in line["args"].values())
    # One every 50 ms, but for what a loaded machine misses.
    times = [line["ts"] for line in samples(told.lines, "memory")]
    assert sorted(b - a for a, b in zip(times, times[1:]))[len(times) // 2] < 1_000_000


def test_memory(told):
    before, held, free = ([args["rss"] for args in told.behind("memory", stage)]
                          for stage in ("idle", "held", "free"))
    assert min(held) - max(before) >= 190 * MIB and max(free) < max(before) + 20 * MIB
    assert sum(args["minor"] for args in told.all_of("page faults", "held")) > 100


def test_cpu(told):
    """The loop asks for 0.8 s of a CPU, however long it takes to get them."""
    _, _, before = told.stages["idle"]
    _, _, until = told.stages["busy"]
    taken = [line for line in samples(told.lines, "cpu") if before <= line["ts"] <= until]
    used = sum((line["ts"] - last["ts"]) * (line["args"]["user"] + line["args"]["system"]) / 100
               for last, line in zip(taken, taken[1:]))
    assert 0.6e6 < used < 0.95e6
    assert all(args["user"] + args["system"] < 20 for args in told.behind("cpu", "idle"))


def test_threads(told):
    for stage, count in (("idle", 1), ("threads", 6), ("joined", 1)):
        assert {args["count"] for args in told.behind("threads", stage)} == {count}, stage


def test_bytes_add_up(told):
    """What came between two samples: all of it is in one of them, and nothing of the recorder's."""
    # And the line that the stage before waited for.
    assert sum(args["read"] for args in told.all_of("io", "read")) == 10_000_000 + 1
    assert all(args == {"read": 0, "written": 0} for args in told.behind("io", "idle"))


def sampled(top, program, **variables):
    harness.run(["/usr/bin/python3", "-c", WAIT + program], environment(top, **variables), top)


def test_pandas_reads_them(tmp_path):
    sampled(tmp_path, "wait('memory')", PFW_COUNTERS="50ms")
    frame = pandas.read_json(tmp_path / "t.pfw", lines=True)
    memory = pandas.json_normalize(frame[frame.name == "memory"].args)
    assert len(memory) >= 2 and (memory.rss > 0).all()


def test_a_program_that_does_nothing_else(tmp_path):
    """The thread stays and wakes in time although there is no event."""
    with subprocess.Popen(["cat"], env=environment(tmp_path, PFW_COUNTERS="200ms"), cwd=tmp_path,
                          stdin=subprocess.PIPE) as process:
        wait_for_samples(tmp_path / "t.pfw", 12)
        process.stdin.close()
        assert process.wait(300) == 0
    lines = harness.check_trace(tmp_path / "t.pfw")
    start = lines[0]["args"]["start_ts"]
    for number, line in enumerate(samples(lines, "cpu"), 1):
        assert line["ts"] - start > (number - 1) * 200_000
    assert {line["args"]["count"] for line in samples(lines, "threads")} == {1}


def test_off(tmp_path):
    harness.run(["sleep", "0.3"], environment(tmp_path), tmp_path)
    assert not (tmp_path / "t.pfw").exists()


@pytest.mark.parametrize("text", ["500", "5ms", "-1s", "often", "1d", "99999999999999999999s"])
def test_bad_value(tmp_path, text):
    """One line names it, and nothing is sampled."""
    result = harness.run(["cat", "data"], environment(tmp_path, PFW_COUNTERS=text), tmp_path)
    assert result.stderr.count("PFW_COUNTERS") == 1 and text in result.stderr
    assert not samples(harness.check_trace(tmp_path / "t.pfw"))


def test_children_sample_themselves(tmp_path):
    sampled(tmp_path, """
child = os.fork()
block = b"x" * ((100 << 20) if child else 1)
os.pread(os.open("data", os.O_RDONLY), 1, 0)
wait("memory", trace="t.pfw" if child else f"t-pid{os.getpid()}.pfw")
if child:
    os.waitpid(child, 0)
""", PFW_COUNTERS="50ms")
    names = harness.trace_names(tmp_path)
    assert len(names) == 2
    most = {}
    for name in names:
        lines = harness.check_trace(tmp_path / name)
        assert {line["args"]["count"] for line in samples(lines, "threads")} == {1}, name
        most[name] = max(line["args"]["rss"] for line in samples(lines, "memory"))
    assert most["t.pfw"] > 100 * MIB > most[names[0]]


def test_only_while_recording(tmp_path):
    variables = {"PFW_COUNTERS": "20ms", "PFW_SCHEDULE": "delay=400ms,duration=2s"}
    harness.run(["sleep", "6"], environment(tmp_path, **variables), tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    times = [line["ts"] / 1e6 for line in samples(lines, "memory")]
    assert len(times) >= 3 and max(times) - min(times) < 4


def test_nothing_of_it_is_seen(tmp_path):
    """No descriptor more, no thread more than without the counters."""
    program = """
import os, time
time.sleep(0.3)
print(sorted(os.listdir("/proc/self/fd")))
"""
    seen = set()
    for number, variables in enumerate(({}, {"PFW_COUNTERS": "20ms"})):
        top = tmp_path / str(number)
        top.mkdir()
        seen.add(harness.run(["/usr/bin/python3", "-c", program], environment(top, **variables),
                             top).stdout)
    assert len(seen) == 1


def test_killed(tmp_path):
    """A killed program's samples are in what is recovered."""
    script = "cat data; until [ \"$(grep -c '\"cpu\"' t.pfw)\" -ge 3 ]; do sleep 0.05; done; kill -9 $$"
    harness.run(["/bin/sh", "-c", script], environment(tmp_path, PFW_COUNTERS="50ms"), tmp_path,
                status=-9)
    harness.run([harness.PFW, "repair", tmp_path],
                harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    lines = harness.check_trace(tmp_path / "t.pfw", reasons=("recovered",))
    assert len(samples(lines, "cpu")) >= 3
    assert not os.listdir(tmp_path / "spools")


# ---- GPUs ----

NVML = harness.BUILD / "tests/standin/libnvidia-ml.so.1"
# Its first argument: which line comes once there is a GPU.
GPU_PROGRAM = WAIT + """
import ctypes, subprocess, sys
def held():
    return [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")]
wait("cpu")
print("cuda", time.time(), flush=True)
ctypes.CDLL("libcuda.so.1")
before = sorted(held())
wait(sys.argv[1], 6)
for word in sys.argv[2:]:
    if word == "fork":  # the recorder's thread goes and comes back
        subprocess.run(["true"])
        if os.fork() == 0:
            os.pread(os.open("data", os.O_RDONLY), 1, 0)
            wait("cpu", trace=f"t-pid{os.getpid()}.pfw")
            os._exit(0)
        os.wait()
    wait(sys.argv[1])
assert sorted(held()) == before, (held(), before)
"""


def test_shown_by_a_command(told, tmp_path):
    """Each figure against one made here, from the same lines."""
    (tmp_path / "t.pfw").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in told.lines))
    rows = [json.loads(line) for line in harness.run(
        [harness.PFW, "counters", "--format", "ndjson", tmp_path / "t.pfw"]).stdout.splitlines()]
    assert {row["name"] for row in rows} == NAMES
    units = {"memory": "bytes", "io": "bytes", "storage": "bytes", "cpu": "percent"}
    for row in rows:
        values = [line["args"][row["key"]] for line in samples(told.lines, row["name"])]
        assert row["unit"] == units.get(row["name"], "count") and row["pid"] == told.lines[0]["pid"]
        assert (row["samples"], row["min"], row["max"], row["last"]) == (
            len(values), min(values), max(values), values[-1]), row
        assert row["mean"] == pytest.approx(sum(values) / len(values), rel=1e-11, abs=0.5 if row["unit"] == "bytes" else 0)
        assert row["total"] == (sum(values) if row["name"] in ("page faults", "io", "storage") else None)
    text = harness.run([harness.PFW, "counters", "--name", "memory", tmp_path / "t.pfw"]).stdout
    assert "MiB" in text and "rss" in text and len(text.splitlines()) == 2 and "Mean" in text


def test_counters_of_the_program_are_shown(tmp_path):
    lines = [{"id": 1, "name": "loss", "cat": "app", "pid": 7, "tid": 7, "ts": ts, "ph": "C", "args": {"value": value}}
             for ts, value in ((3, -0.5), (1, 2.25), (2, 1e300), (3, -1))]
    (tmp_path / "t.pfw").write_text("".join(json.dumps(line) + "\n" for line in lines))
    row, = map(json.loads, harness.run([harness.PFW, "counters", "--format", "ndjson", tmp_path / "t.pfw"],
                                       status=None).stdout.splitlines())
    assert (row["cat"], row["unit"], row["min"], row["max"], row["last"], row["total"]) == (
        "app", None, -1, 1e300, -0.5, None)


def test_blocks_without_counters_are_not_read(tmp_path):
    trace = tmp_path / "t.pfw"
    line = '{{"id":{0},"name":"{1}","cat":"app","pid":7,"tid":7,"ts":{0}.000,{2}}}\n'
    trace.write_text("".join(line.format(i, "span", '"dur":0.500,"ph":"X","args":{}') for i in range(40000))
                     + line.format(40000, "loss", '"ph":"C","args":{"value":2}'))
    counters = [harness.PFW, "counters", "--format", "csv", trace]
    shown = harness.run(counters).stdout
    harness.run([harness.PFW, "index", trace])
    times = os.stat(trace)
    with open(trace, "r+b") as file:
        file.seek(1_500_000)
        file.write(b"rubbish")
    os.utime(trace, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert harness.run(counters).stdout == shown
    assert "t.pfw" in harness.run([*counters, "--no-index"], status=1).stderr
    # The index knows of the damage: now it is reported.
    harness.run([harness.PFW, "index", "--force", trace], status=1)
    assert "t.pfw" in harness.run(counters, status=1).stderr


@pytest.fixture(name="gpus")
def two_gpus(tmp_path):
    """Run GPU_PROGRAM where there are two, by the stand-in; the lines of its trace."""
    if not NVML.exists():
        pytest.skip("no nvml.h: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")
    (tmp_path / "cuda.c").write_text("int cuInit(unsigned flags) { return flags ? 1 : 100; }\n")
    harness.compile_c(tmp_path / "cuda.c", tmp_path / "libcuda.so.1", "-shared", "-fPIC",
                      "-Wl,-soname,libcuda.so.1")

    def run(*words, line="gpu 1 power", **variables):
        set_up = environment(tmp_path, **{
            "PFW_COUNTERS": "50ms", "PFW_CUPTI": "1",
            "LD_LIBRARY_PATH": f"{NVML.parent}:{tmp_path}", **variables})
        result = harness.run(["/usr/bin/python3", "-c", GPU_PROGRAM, line, *words], set_up,
                             tmp_path)
        return harness.check_trace(tmp_path / "t.pfw"), float(result.stdout.split()[1])

    return run


def test_gpus(gpus):
    lines, loaded = gpus()
    assert all(line["ts"] / 1e6 > loaded for line in samples(lines) if "gpu" in line["name"])
    for number in (0, 1):
        assert samples(lines, f"gpu {number} utilization")[-1]["args"] == {
            "gpu": 90 + number, "memory": 40}
        assert samples(lines, f"gpu {number} memory")[-1]["args"] == {"used": 1 << 30}
        assert samples(lines, f"gpu {number} power")[-1]["args"] == {"watts": 250.5}
        assert samples(lines, f"gpu {number} clocks")[-1]["args"] == {"sm": 1980, "memory": 2619}
        # Since the sample before; also where the device's counter has begun again at 0.
        pcie = [line["args"] for line in samples(lines, f"gpu {number} pcie")]
        assert len(pcie) >= 3 and all(args == {"tx": 1000, "rx": 1000} for args in pcie)
    assert samples(lines, "gpu 0 nvlink")[-1]["args"] == {"tx": 3072, "rx": 3072}
    assert not samples(lines, "gpu 1 nvlink")


@pytest.mark.parametrize("visible, seen", [("1", "1"), ("0", "0"), ("GPU-12345678", "1"), ("", ""),
                                           ("-1", ""), ("1,0", "01")])
def test_visible_gpus(gpus, visible, seen):
    lines, _ = gpus(line=f"gpu {seen[-1]} power" if seen else "cpu", CUDA_VISIBLE_DEVICES=visible)
    assert {line["name"].split()[1] for line in samples(lines) if line["name"].startswith("gpu ")} == \
        set(seen)


def test_gpus_and_forks(gpus, tmp_path):
    """The library's descriptors are the thread's: it lets go of them, and opens them again."""
    lines, _ = gpus("fork")
    times = [line["ts"] / 1e6 for line in samples(lines, "gpu 0 power")]
    forked = [line["ts"] / 1e6 for line in harness.events(lines, "fork")]
    assert times[0] < forked[-1] < times[-1]
    for name in harness.trace_names(tmp_path):
        if name != "t.pfw":
            assert not [line for line in samples(harness.check_trace(tmp_path / name))
                        if "gpu" in line["name"]]


def test_no_gpu_library(gpus, tmp_path):
    """CUDA without the management library: nothing of the GPU, and everything else."""
    lines, _ = gpus(line="cpu", LD_LIBRARY_PATH=str(tmp_path))
    assert samples(lines, "cpu") and not any("gpu" in line["name"] for line in samples(lines))
