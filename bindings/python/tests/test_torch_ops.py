"""PFW_TORCH_OPS beside torch.profiler: each operator is in the trace once, whatever becomes of the profile."""
import collections
import sys

import pytest

from conftest import PFW

torch = pytest.importorskip("torch")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 0):
    pytest.skip("PFW_TORCH_OPS is for PyTorch 2", allow_module_level=True)

PRELUDE = """
import os, signal, sys, threading, time, torch
from torch.profiler import profile, schedule, record_function, ProfilerActivity
def train():
    with record_function("train"):
        torch.mm(torch.zeros(4, 4), torch.zeros(4, 4)).relu_()
def listened_to():
    # Until the recorder has noticed PyTorch.
    while '"name":"aten::ones"' not in open("t.pfw").read():
        torch.ones(1)
        time.sleep(0.01)
open("begun", "w").close()
"""
IMPORTED = "from pfw.torch import trace_handler\n" + PRELUDE + "listened_to()\n"
CPU = "activities=[ProfilerActivity.CPU]"


def traced(run, script, **env):
    run.command(PFW, "run", "-o", "t", "--", *run_python(run, script),
                **{"PFW_TORCH_OPS": "1", "PFW_FLUSH_MS": "20", **env})
    return counts(run)


def run_python(run, script):
    return sys.executable, run.save(script)


def counts(run):
    return collections.Counter(line["name"] for line in run.lines()
                               if line["cat"] == "PP" and line["args"]["kind"] in ("cpu_op", "annotation"))


def once_each(run, found, times):
    """torch.mm and all that it calls, as often as it was called."""
    for name in ("train", "aten::mm", "aten::relu_"):
        assert found[name] == times, (name, found)
    assert found["aten::zeros"] == 2 * times
    (end,) = [line for line in run.lines() if line["name"] == "end"]
    assert end["args"]["lost"] == 0


def test_cycles_of_a_schedule(run):
    """What the profile has is from there, with shapes; what it has not, from the recorder."""
    found = traced(run, IMPORTED + f"""
with profile({CPU}, schedule=schedule(wait=1, warmup=1, active=2, repeat=2), record_shapes=True,
             on_trace_ready=trace_handler) as p:
    for step in range(10):
        train()
        p.step()
""")
    once_each(run, found, 10)
    shaped = [line for line in run.lines() if line["name"] == "aten::mm" and "input_shapes" in line["args"]]
    assert len(shaped) == 4
    assert [line["args"]["step"] for line in shaped] == [2, 3, 6, 7]


@pytest.mark.parametrize("hook", ["lambda p: trace_handler(p)", "lambda p: None", "None", "failing"])
def test_whatever_the_hook_is(run, hook):
    found = traced(run, IMPORTED + f"""
def failing(prof):
    raise ZeroDivisionError
try:
    with profile({CPU}, record_shapes=True, on_trace_ready={hook}):
        train()
    train()
    with profile({CPU}, on_trace_ready={hook}):
        train()
except ZeroDivisionError:
    train()
    train()
""")
    once_each(run, found, 3)
    assert len([line for line in run.lines() if "input_shapes" in line["args"]
                and line["name"] == "aten::mm"]) == 1


def test_written_when_it_is_asked_for(run):
    """Operators of a profile that the next one had written already are not written again."""
    found = traced(run, IMPORTED + f"""
first, second = (profile({CPU}, with_stack=True) for _ in range(2))
for p in (first, second):
    with p:
        train()
for p in (first, second):
    trace_handler(p)
""")
    once_each(run, found, 2)
    assert {line["name"] for line in run.lines() if line["args"].get("kind") == "python_function"}


def test_a_profile_that_is_never_stopped(run):
    found = traced(run, IMPORTED + f"""
p = profile({CPU}, on_trace_ready=trace_handler)
p.start()
train()
""")
    once_each(run, found, 1)


def test_killed_within_a_cycle(run):
    """What only the profile had is gone with the process, and counted."""
    run.command(PFW, "run", "-o", "t", "--", *run_python(run, IMPORTED + f"""
train()
p = profile({CPU}, on_trace_ready=trace_handler)
p.start()
train()
os.kill(os.getpid(), signal.SIGKILL)
"""), status=137, PFW_TORCH_OPS="1", PFW_FLUSH_MS="20")
    assert counts(run)["aten::mm"] == 1
    (lost,) = [line for line in run.lines() if line["name"] == "lost"]
    (train,) = [line for line in run.lines() if line["name"] == "train"]
    each = len([line for line in run.lines() if line["cat"] == "PP" and
                train["ts"] <= line["ts"] <= train["ts"] + train["dur"]])
    assert lost["args"]["reason"] == "profile" and lost["args"]["count"] == each > 6
    assert lost["args"]["first_ts"] < lost["args"]["last_ts"]


def test_threads_that_the_profile_does_not_see(run):
    """torch.profiler records the thread that began it; others' operators are not left to it."""
    found = traced(run, IMPORTED + f"""
with profile({CPU}, on_trace_ready=trace_handler):
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    train()
""")
    once_each(run, found, 2)


def test_imported_when_the_profile_had_begun(run):
    found = traced(run, PRELUDE + f"""
listened_to()
with profile({CPU}, record_shapes=True) as p:
    train()
    from pfw.torch import trace_handler
    train()
trace_handler(p)
with profile({CPU}, record_shapes=True, on_trace_ready=trace_handler):
    train()
""")
    once_each(run, found, 3)
    assert "began before pfw.torch was imported" in run.errors and run.errors.count("began") == 1


def test_forked_child_records_its_own(run):
    found = traced(run, IMPORTED + f"""
with profile({CPU}, on_trace_ready=trace_handler):
    train()
    child = os.fork()
    if child == 0:
        train()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
""")
    assert found["aten::mm"] == 2 and found["train"] == 2
