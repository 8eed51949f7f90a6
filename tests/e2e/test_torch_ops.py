"""PFW_TORCH_OPS: PyTorch's operators, from a stand-in of C++'s making and from the real one.

The real one is that of /usr/bin/python3, or of the Python that PFW_TORCH_PYTHON names.
"""
import collections
import json
import os
import shutil
import subprocess

import pytest

import harness

STANDIN = harness.SOURCE / "tests" / "torch" / "standin.cpp"
PYTHON = os.environ.get("PFW_TORCH_PYTHON", "/usr/bin/python3")

PRELUDE = """
import ctypes, os, sys, threading, time
torch = ctypes.CDLL(TORCH)
torch.standin_begin.restype = ctypes.c_void_p
torch.standin_end.argtypes = [ctypes.c_void_p]
def begin(name, scope=0):
    return torch.standin_begin(name, scope)
def wait(count, asked):
    end = time.monotonic() + 60
    while asked() != count and time.monotonic() < end:
        open("data").close()
        time.sleep(0.01)
    assert asked() == count, asked()
"""


def build(top, version="2.15.0+cpu"):
    """A torch package: torch/lib/libtorch_cpu.so and torch/version.py."""
    if not shutil.which("g++"):
        pytest.skip("no g++ to build the stand-in with")
    (top / "torch" / "lib").mkdir(parents=True)
    library = top / "torch" / "lib" / "libtorch_cpu.so"
    harness.run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                 "-Wl,-soname,libtorch_cpu.so", STANDIN, "-o", library])
    if version:
        (top / "torch" / "version.py").write_text(f"__version__ = '{version}'\ncuda = None\n")
    return library


def run(top, library, program, before="", **variables):
    (top / "spools").mkdir()
    (top / "data").write_bytes(b"x")
    environment = harness.traced_environment(
        top / "t", top / "spools", **{"PFW_TORCH_OPS": "1", **variables})
    program = f"TORCH = {str(library)!r}\n{before}{PRELUDE}{program}"
    result = harness.run(["/usr/bin/python3", "-c", program], environment, top)
    assert os.listdir(top / "spools") == []
    return harness.check_trace(top / "t.pfw"), result.stderr


def operators(lines):
    return [line for line in lines if line["cat"] == "PP"]


def test_nesting_and_kinds(tmp_path):
    lines, said = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
for i in range(100):
    outer = begin(b"range", 7)
    a = begin(b"aten::linear")
    b = begin(b"aten::mm")
    torch.standin_end(b)
    torch.standin_end(a)
    c = begin(b"AddBackward0", 1)
    tag = begin(b"a tag, not an operator", 3)
    torch.standin_end(tag)
    torch.standin_end(c)
    torch.standin_end(outer)
""")
    assert said == ""
    made = operators(lines)
    assert collections.Counter(line["name"] for line in made) == {
        "range": 100, "aten::linear": 100, "aten::mm": 100, "AddBackward0": 100}
    for line in made:
        assert line["args"]["kind"] == ("annotation" if line["name"] == "range" else "cpu_op")
        assert (line["args"]["device"], line["args"]["device_index"]) == (0, -1)
        assert line["tid"] == line["pid"]
    for mm, linear in zip((x for x in made if x["name"] == "aten::mm"),
                          (x for x in made if x["name"] == "aten::linear")):
        assert linear["ts"] <= mm["ts"] and mm["ts"] + mm["dur"] <= linear["ts"] + linear["dur"] + 0.002


def test_ends_in_another_thread_and_out_of_order(tmp_path):
    lines, _ = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
names = [b"async%d" % n for n in range(100)]
held = [begin(name) for name in names]
me = threading.get_native_id()
thread = threading.Thread(target=lambda: [torch.standin_end(x) for x in held[::2]])
thread.start()
thread.join()
for x in held[1::2]:
    torch.standin_end(x)
for n in range(1000):
    torch.standin_end(begin(b"after"))
print(me)
""")
    made = operators(lines)
    assert {line["tid"] for line in made} == {lines[0]["pid"]}
    assert collections.Counter(line["name"] for line in made) == {
        **{f"async{n}": 1 for n in range(100)}, "after": 1000}


def test_deeper_than_there_is_room(tmp_path):
    """What cannot be followed is counted."""
    (tmp_path / "spools").mkdir()
    (tmp_path / "data").write_bytes(b"x")
    program = """
wait(2, torch.standin_added)
held = [begin(b"deep") for n in range(300)]
for x in reversed(held):
    torch.standin_end(x)
torch.standin_end(begin(b"after"))
"""
    environment = harness.traced_environment(tmp_path / "t", tmp_path / "spools", PFW_TORCH_OPS="1")
    library = build(tmp_path)
    result = harness.run(["/usr/bin/python3", "-c", f"TORCH = {str(library)!r}\n{PRELUDE}{program}"],
                         environment, tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw", lost=180)
    names = collections.Counter(line["name"] for line in operators(lines))
    assert names == {"deep": 120, "after": 1}
    assert "180 events were lost" in result.stderr


def test_nobody_listens_while_nothing_is_recorded(tmp_path):
    lines, _ = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
pfw = ctypes.CDLL(None)
torch.standin_end(begin(b"one"))
pfw.pfw_step()      # step 1: not recorded
assert torch.standin_removed() == 2
torch.standin_end(begin(b"two"))
pfw.pfw_step()      # step 2: recorded
assert torch.standin_added() == 4
torch.standin_end(begin(b"three"))
""", PFW_SCHEDULE="skip_first_wait=1,wait=1,warmup=0,active=1,repeat=2")
    assert [line["name"] for line in operators(lines) if "#" not in line["name"]] == ["one", "three"]


def test_fork(tmp_path):
    run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
open_here = begin(b"begun before the fork")
child = os.fork()
torch.standin_end(open_here)
torch.standin_end(begin(b"child" if child == 0 else b"parent"))
if child == 0:
    sys.exit()
os.wait()
""")
    (child,) = [name for name in harness.trace_names(tmp_path) if "pid" in name]
    names = [line["name"] for line in operators(harness.check_trace(tmp_path / child))]
    assert names == ["begun before the fork", "child"]


@pytest.mark.parametrize("version", ["2.16.0", "3.0.0", "1.13.1", None])
def test_unknown_version(tmp_path, version):
    # It may be said as soon as the library is there.
    before = 'import os\nos.dup2(os.open("said", os.O_CREAT | os.O_WRONLY, 0o600), 2)\n'
    lines, _ = run(tmp_path, build(tmp_path, version), """
while not os.path.getsize("said"):
    open("data").close()
    time.sleep(0.01)
assert torch.standin_added() == 0
""", before)
    said = (tmp_path / "said").read_text()
    assert said.count("\n") == 1 and "PFW_TORCH_OPS" in said and (version or "does not tell") in said
    assert not operators(lines)


def test_steps_are_batches(tmp_path):
    """PFW_STEP=auto, with a schedule: seen also while nothing is recorded."""
    lines, said = run(tmp_path, build(tmp_path), """
wait(1, torch.standin_added)
for batch in range(10):
    torch.standin_end(begin(b"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 7))
    torch.standin_end(begin(b"aten::mm"))
    torch.standin_end(begin(b"Optimizer.step#SGD.step", 7))
    open("data").close()
""", PFW_TORCH_OPS="0", PFW_STEP="auto", PFW_SCHEDULE="wait=1,warmup=1,active=2",
                      DFTRACER_DATA_DIR=str(tmp_path))
    assert said == ""
    assert [(line["args"]["step"], line["args"]["phase"]) for line in
            harness.events(lines, "openat", "open", "open64", "fopen") if line["args"].get("step")] == \
        [(step, "warmup" if step % 4 == 1 else "active") for step in (1, 2, 3, 5, 6, 7, 9)]
    assert len([line for line in lines if line["cat"] == "pfw_step"]) == 1
    assert not [line for line in operators(lines) if line["args"]["kind"] != "step"]


def test_steps_of_one_optimizer(tmp_path):
    """Where there is no loader: the first one's, each from the end of one to the end of the next."""
    lines, _ = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
for batch in range(5):
    for name in (b"Optimizer.step#SGD.step", b"Optimizer.step#Adam.step"):
        torch.standin_end(begin(name, 7))
""", PFW_STEP="auto")
    assert [line["name"] for line in lines if line["args"].get("kind") == "step"] == \
        [f"ProfilerStep#{step}" for step in range(5)]
    (which,) = [line["name"] for line in lines if line["cat"] == "pfw_step"]
    assert which == "Optimizer.step#SGD.step"


def test_no_step_after_the_last_optimizer(tmp_path):
    lines, _ = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
for batch in range(5):
    torch.standin_end(begin(b"aten::mm"))
    torch.standin_end(begin(b"Optimizer.step#SGD.step", 7))
open("data").close()
""", PFW_STEP="auto")
    assert [line["name"] for line in lines if line["args"].get("kind") == "step"] == \
        [f"ProfilerStep#{step}" for step in range(4)]


# An iterator as DataLoader's: `size` batches, and a range around each request.
LOADER = """
class Range:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        self.range = begin(self.name, 7)
    def __exit__(self, *exception):
        torch.standin_end(self.range)
class Loader:
    def __init__(self, size):
        self.left = size
    def __iter__(self):
        return self
    def __next__(self):
        with Range(b"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            open("data").close()
            if not self.left:
                raise StopIteration
            self.left -= 1
def train(batch):
    with Range(b"train"):
        open("data").close()
wait(int(os.environ["PFW_TORCH_OPS"]) + 1, torch.standin_added)
"""


def batches(tmp_path, program, **variables):
    """Step lines of a program that opens `data` once more at its end; and the steps of its opens."""
    lines, said = run(tmp_path, build(tmp_path), LOADER + program + "open('data').close()\n",
                      PFW_STEP="auto", DFTRACER_DATA_DIR=str(tmp_path), **variables)
    assert said == ""
    steps = sorted((line for line in lines if line["args"].get("kind") == "step"),
                   key=lambda line: line["ts"])
    opens = [line for line in harness.events(lines, "openat", "open", "open64", "fopen")
             if line["args"]["fname"].endswith("/data")]
    assert [line["args"]["step"] for line in steps] == list(range(steps[0]["args"]["step"], len(steps)))
    assert steps[-1]["ts"] + steps[-1]["dur"] <= opens[-1]["ts"]
    trained = [line for line in lines if line["name"] == "train" and "step" in line["args"]]
    for line in trained:
        step = steps[line["args"]["step"] - steps[0]["args"]["step"]]
        assert step["ts"] <= line["ts"] and line["ts"] + line["dur"] <= step["ts"] + step["dur"]
    first = next(i for i, line in enumerate(opens) if line["ts"] >= steps[0]["ts"])
    return steps, [line["args"].get("step") for line in opens[first:]]


def test_an_exhausted_loader_ends_its_step(tmp_path):
    """The last request of each epoch has no batch: it is no step, and its events are of none."""
    steps, opens = batches(tmp_path, """
for epoch in range(3):
    for batch in Loader(2):
        train(batch)
""", PFW_FLUSH_MS="10000")
    assert len(steps) == 6
    assert opens == [0, 0, 1, 1, None, 2, 2, 3, 3, None, 4, 4, 5, 5, None, None]


def test_an_exhausted_loader_in_a_schedule(tmp_path):
    """A cycle goes on in the next epoch, and is saved where the last epoch cuts it short."""
    lines, _ = run(tmp_path, build(tmp_path), LOADER + """
for epoch in range(3):
    for batch in Loader(3):
        train(batch)
""", PFW_TORCH_OPS="0", PFW_STEP="auto", PFW_SCHEDULE="wait=1,warmup=0,active=4")
    assert [line["args"]["step"] for line in lines if line["args"].get("kind") == "step"] == \
        [1, 2, 3, 4, 6, 7, 8]
    assert [line["args"]["steps"] for line in lines if line["name"] == "segment"] == [4, 3]


@pytest.mark.parametrize("program", ["""
for batch in Loader(10):
    train(batch)
    if batches == 3:
        break
    batches += 1
""", """
for pair in zip(Loader(4), Loader(5)):
    train(pair)
""", """
for batch in Loader(4):
    train(batch)
    for batch in Loader(3):
        train(batch)
""", """
try:
    raise StopIteration
except StopIteration:
    for batch in Loader(4):
        train(batch)
""", """
import threading
def run():
    for batch in Loader(4):
        train(batch)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""], ids=["break", "zip", "validation", "handler", "thread"])
def test_one_loader_makes_the_steps(tmp_path, program):
    """Another one that is asked meanwhile makes none; nobody has to ask it to the end."""
    assert len(batches(tmp_path, "batches = 0" + program)[0]) == 4


WORKERS = """
class Worker:
    def __init__(self, pid):
        self.pid = pid
def fork(number):
    pid = os.fork()
    if pid == 0:
        for _ in range(number + 1):
            open("data").close()
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
class Workers(Loader):
    def __next__(self):
        with Range(b"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            if not self.left:
                raise StopIteration
            self.left -= 1
class Broken(Workers):
    @property
    def _workers(self):
        raise KeyError("none")
fork(5)
for epoch in range(2):
    loader = Workers(3)
    loader._workers = [Worker(fork(number)) for number in range(3)]
    print(*(worker.pid for worker in loader._workers))
    for batch in loader:
        train(batch)
for odd in (None, 7, [], [None], [Worker(None)], [Worker("x")], [Worker(-1)], [Worker(1 << 80)], "text"):
    loader = Workers(1)
    loader._workers = odd
    assert len(list(loader)) == 1
assert len(list(Broken(2))) == 2
"""


@pytest.mark.parametrize("variables", [{"PFW_TORCH_OPS": "0", "PFW_STEP": "auto"}, {"PFW_TORCH_OPS": "1"}])
@pytest.mark.parametrize("kind", ["_MultiProcessing", "_StatefulMultiProcessing"])
def test_workers_have_the_loaders_numbers(tmp_path, variables, kind):
    """Each iterator's, once, torchdata's StatefulDataLoader's too; one that is unlike PyTorch's changes nothing."""
    script = LOADER + WORKERS.replace("_MultiProcessing", kind)
    lines, said = run(tmp_path, build(tmp_path), script, DFTRACER_DATA_DIR=str(tmp_path), **variables)
    assert said == ""
    told = [(line["args"]["pid"], line["args"]["number"]) for line in lines if line["name"] == "DataLoader worker"]
    assert len(told) == 6 == len({pid for pid, _ in told}) and [number for _, number in told] == [0, 1, 2] * 2
    for _ in range(2):
        rows = [json.loads(line) for line in harness.run(
            [harness.PFW, "table", "-q", "-g", "process", "--name", "open*", "--format", "ndjson", tmp_path],
            harness.clean_environment()).stdout.splitlines()]
        names = {int(row["process"].split()[0]): row["process"] for row in rows}
        assert [f"{pid} DataLoader worker {number} of {lines[0]['pid']}: " in names[pid] for pid, number in told] == \
            [True] * 6
        assert sum(" DataLoader worker " in name for name in names.values()) == 6
        harness.run([harness.PFW, "compact", "-q", tmp_path], harness.clean_environment())


def test_the_programs_own_steps_count(tmp_path):
    lines, _ = run(tmp_path, build(tmp_path), """
wait(2, torch.standin_added)
pfw = ctypes.CDLL(None)
for batch in range(5):
    pfw.pfw_step()
    torch.standin_end(begin(b"Optimizer.step#SGD.step", 7))
""", PFW_STEP="auto")
    assert len([line for line in lines if line["args"].get("kind") == "step"]) == 6


# ---- the real one ----

REAL = """
import json, os, torch
from torch.profiler import profile, record_function, ProfilerActivity
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# Until the recorder has noticed.
while not os.path.exists("t.pfw") or '"name":"aten::ones"' not in open("t.pfw").read():
    torch.ones(1)
    open("data").close()
with profile(activities=[ProfilerActivity.CPU]) as prof:
    for i in range(20):
        with record_function("batch"):
            loss = model(torch.randn(8, 16)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
names = [event.name() for event in prof.profiler.kineto_results.events()]
json.dump(names, open("names.json", "w"))
"""


def test_real_torch(tmp_path):
    """Every operator that torch.profiler saw is there, as often."""
    found = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], check=False,
                           capture_output=True, text=True, env=harness.clean_environment())
    if found.returncode or not found.stdout.startswith("2."):
        pytest.skip(f"{PYTHON} has no PyTorch 2")
    (tmp_path / "spools").mkdir()
    (tmp_path / "data").write_bytes(b"x")
    environment = harness.traced_environment(tmp_path / "t", tmp_path / "spools",
                                             DFTRACER_DATA_DIR=str(tmp_path), PFW_TORCH_OPS="1",
                                             PFW_FLUSH_MS="20")
    harness.run([PYTHON, "-c", REAL], environment, tmp_path)
    theirs = collections.Counter(json.loads((tmp_path / "names.json").read_text()))
    ours = collections.Counter(line["name"] for line in
                               operators(harness.check_trace(tmp_path / "t.pfw")))
    missing = {name: (count, ours[name]) for name, count in theirs.items() if ours[name] < count}
    assert theirs["batch"] == 20 and theirs["aten::addmm"] == 40 and not missing
