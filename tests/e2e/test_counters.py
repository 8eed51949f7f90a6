"""PFW_COUNTERS: what the samples say of programs that allocate, compute, read and start threads."""
import os

import pandas
import pytest

import harness

MIB = 1 << 20
NAMES = {"cpu", "memory", "page faults", "threads", "io", "storage"}

# Touches memory, keeps one CPU busy, reads a file, starts threads that sleep; each for a while.
PROGRAM = """
import os, threading, time
def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
def stage(name):
    print(name, time.time(), flush=True)
data = os.open("data", os.O_RDONLY)
stage("idle")
time.sleep(0.5)
stage("busy")
compute(0.8)
stage("memory")
block = b"x" * (200 << 20)
stage("held")
time.sleep(0.3)
stage("free")
del block
time.sleep(0.3)
stage("threads")
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(5)]
for thread in threads:
    thread.start()
time.sleep(0.4)
stage("join")
done.set()
for thread in threads:
    thread.join()
for _ in range(1000):
    os.pread(data, 10_000, 0)
time.sleep(0.3)
stage("end")
"""


def environment(top, **variables):
    (top / "spools").mkdir()
    (top / "data").write_bytes(b"x" * 10_000)
    return harness.traced_environment(top / "t", top / "spools", DFTRACER_DATA_DIR=str(top),
                                      **variables)


def samples(lines, name=None):
    return [line for line in lines if line["cat"] == "COUNTER" and name in (None, line["name"])]


def between(lines, name, start, end):
    """The args of the samples taken in [start, end), in seconds."""
    return [line["args"] for line in samples(lines, name) if start <= line["ts"] / 1e6 < end]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(lines, {stage: (begin, end)}) of the program, sampled every 50 ms."""
    top = tmp_path_factory.mktemp("counters")
    result = harness.run(["/usr/bin/python3", "-c", PROGRAM],
                         environment(top, PFW_COUNTERS="50ms", DFTRACER_INC_METADATA="1"), top)
    times = [(name, float(at)) for name, at in map(str.split, result.stdout.splitlines())]
    stages = {name: (at, after) for (name, at), (_, after) in zip(times, times[1:])}
    assert result.stderr == ""
    return harness.check_trace(top / "t.pfw"), stages


def test_samples(told):
    lines, _stages = told
    assert {line["name"] for line in samples(lines)} == NAMES
    for line in samples(lines):
        assert line["ph"] == "C" and line["tid"] == line["pid"] and "dur" not in line
        assert all(isinstance(value, (int, float)) and value >= 0 for value in line["args"].values())
    # One every 50 ms, but for what a loaded machine misses.
    times = [line["ts"] for line in samples(lines, "memory")]
    assert sorted(b - a for a, b in zip(times, times[1:]))[len(times) // 2] < 150_000


def test_memory(told):
    lines, stages = told
    before = [args["rss"] for args in between(lines, "memory", *stages["idle"])]
    held = [args["rss"] for args in between(lines, "memory", *stages["held"])]
    after = [args["rss"] for args in between(lines, "memory", stages["threads"][0], stages["join"][0])]
    assert before and held and after
    assert min(held) - max(before) >= 190 * MIB and max(after) < max(before) + 20 * MIB
    assert sum(args["minor"] for args in between(
        lines, "page faults", stages["memory"][0], stages["held"][1])) > 100


def test_cpu(told):
    """The loop asks for 0.8 s of a CPU, however long it takes to get them."""
    lines, stages = told
    taken = samples(lines, "cpu")
    busy = [(after["ts"] - before["ts"], after["args"]) for before, after in zip(taken, taken[1:])
            if stages["busy"][0] < after["ts"] / 1e6 < stages["busy"][1] + 0.05]
    used = sum(space * (args["user"] + args["system"]) / 100 for space, args in busy)
    assert 0.6e6 < used < 0.95e6
    assert all(args["user"] + args["system"] < 130 for _, args in busy)
    idle = [args["user"] + args["system"] for args in between(lines, "cpu", stages["idle"][0] + 0.1,
                                                              stages["idle"][1])]
    assert sorted(idle)[len(idle) // 2] < 20


def test_threads(told):
    lines, stages = told
    assert {args["count"] for args in between(lines, "threads", *stages["idle"])} == {1}
    assert {args["count"] for args in between(lines, "threads", stages["threads"][0] + 0.2,
                                              stages["threads"][1])} == {6}
    assert samples(lines, "threads")[-1]["args"]["count"] == 1


def test_bytes_add_up(told):
    """What came between two samples: all of it is in one of them, and nothing of the recorder's."""
    lines, stages = told
    args = between(lines, "io", *stages["join"])
    assert sum(one["read"] for one in args) == 10_000_000
    assert all(one == {"read": 0, "written": 0} for one in between(
        lines, "io", stages["idle"][0] + 0.1, stages["idle"][1]))


def test_pandas_reads_them(tmp_path):
    harness.run(["sleep", "0.5"], environment(tmp_path, PFW_COUNTERS="50ms"), tmp_path)
    frame = pandas.read_json(tmp_path / "t.pfw", lines=True)
    memory = pandas.json_normalize(frame[frame.name == "memory"].args)
    assert len(memory) >= 2 and (memory.rss > 0).all()


def test_a_program_that_does_nothing_else(tmp_path):
    """The thread stays and wakes in time although there is no event."""
    harness.run(["sleep", "3"], environment(tmp_path, PFW_COUNTERS="200ms"), tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert 8 <= len(samples(lines, "cpu")) <= 15
    assert {line["args"]["count"] for line in samples(lines, "threads")} == {1}


def test_off(tmp_path):
    harness.run(["sleep", "0.3"], environment(tmp_path), tmp_path)
    assert not (tmp_path / "t.pfw").exists()


@pytest.mark.parametrize("text", ["500", "5ms", "-1s", "often", "1m", "99999999999999999999s"])
def test_bad_value(tmp_path, text):
    """One line names it, and nothing is sampled."""
    result = harness.run(["cat", "data"], environment(tmp_path, PFW_COUNTERS=text), tmp_path)
    assert result.stderr.count("PFW_COUNTERS") == 1 and text in result.stderr
    assert not samples(harness.check_trace(tmp_path / "t.pfw"))


def test_children_sample_themselves(tmp_path):
    program = """
import os, time
child = os.fork()
block = b"x" * ((100 << 20) if child else 1)
os.pread(os.open("data", os.O_RDONLY), 1, 0)
time.sleep(0.6)
if child:
    os.waitpid(child, 0)
"""
    harness.run(["/usr/bin/python3", "-c", program], environment(tmp_path, PFW_COUNTERS="50ms"),
                tmp_path)
    names = harness.trace_names(tmp_path)
    assert len(names) == 2
    most = {}
    for name in names:
        lines = harness.check_trace(tmp_path / name)
        assert {line["args"]["count"] for line in samples(lines, "threads")} == {1}, name
        most[name] = max(line["args"]["rss"] for line in samples(lines, "memory"))
    assert most["t.pfw"] > 100 * MIB > most[names[0]]


def test_only_while_recording(tmp_path):
    variables = {"PFW_COUNTERS": "20ms", "PFW_SCHEDULE": "delay=400ms,duration=1s"}
    harness.run(["sleep", "2.5"], environment(tmp_path, **variables), tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    times = [line["ts"] / 1e6 for line in samples(lines, "memory")]
    assert len(times) >= 3 and max(times) - min(times) < 1.5


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
    harness.run(["/bin/sh", "-c", "cat data; sleep 0.6; kill -9 $$"],
                environment(tmp_path, PFW_COUNTERS="50ms", PFW_FLUSH_MS="20"), tmp_path, status=-9)
    harness.run([harness.PFW, "repair", tmp_path],
                harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    lines = harness.check_trace(tmp_path / "t.pfw", reasons=("recovered",))
    assert len(samples(lines, "cpu")) >= 3
    assert not os.listdir(tmp_path / "spools")


# ---- GPUs ----

NVML = harness.BUILD / "tests/standin/libnvidia-ml.so.1"
GPU_PROGRAM = """
import ctypes, os, subprocess, sys, time
def held():
    return [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")]
time.sleep(0.2)
print("cuda", time.time(), flush=True)
ctypes.CDLL("libcuda.so.1")
before = sorted(held())
time.sleep(0.4)
for word in sys.argv[1:]:
    if word == "fork":  # the recorder's thread goes and comes back
        subprocess.run(["true"])
        if os.fork() == 0:
            os.pread(os.open("data", os.O_RDONLY), 1, 0)
            time.sleep(0.4)
            os._exit(0)
        os.wait()
    time.sleep(0.4)
assert sorted(held()) == before, (held(), before)
"""


@pytest.fixture(name="gpus")
def two_gpus(tmp_path):
    """Run GPU_PROGRAM where there are two, by the stand-in; the lines of its trace."""
    if not NVML.exists():
        pytest.skip("no nvml.h: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")
    (tmp_path / "cuda.c").write_text("int cuInit(unsigned flags) { return flags ? 1 : 100; }\n")
    harness.compile_c(tmp_path / "cuda.c", tmp_path / "libcuda.so.1", "-shared", "-fPIC",
                      "-Wl,-soname,libcuda.so.1")

    def run(*words, **variables):
        set_up = environment(tmp_path, **{
            "PFW_COUNTERS": "50ms", "PFW_CUPTI": "1",
            "LD_LIBRARY_PATH": f"{NVML.parent}:{tmp_path}", **variables})
        result = harness.run(["/usr/bin/python3", "-c", GPU_PROGRAM, *words], set_up, tmp_path)
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
    lines, _ = gpus(CUDA_VISIBLE_DEVICES=visible)
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
    lines, _ = gpus(LD_LIBRARY_PATH=str(tmp_path))
    assert samples(lines, "cpu") and not any("gpu" in line["name"] for line in samples(lines))
