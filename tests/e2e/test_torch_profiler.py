"""A program that uses torch.profiler, under `pfw run`, where there is no GPU: neither knows of the other.

Skipped where neither /usr/bin/python3 nor the Python that PFW_TORCH_PYTHON names has PyTorch.
"""
import collections
import ctypes
import json
import os
import re
import subprocess

import pytest

import harness

PYTHON = os.environ.get("PFW_TORCH_PYTHON", "/usr/bin/python3")

PROGRAM = """
import json, sys, torch
from torch.profiler import profile, record_function, ProfilerActivity, schedule
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
cycles, losses = [], []

def ready(prof):
    cycles.append(sorted(event.name() for event in prof.profiler.kineto_results.events()))
    prof.export_chrome_trace(f"cycle{len(cycles)}.json")

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
             schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
    for batch in range(9):
        open("data").close()
        with record_function("batch"):
            loss = model(torch.randn(8, 16)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        prof.step()
traces = [sorted([event["ph"], event.get("cat", ""), event["name"]]
                 for event in json.load(open(name))["traceEvents"] if event["ph"] in "Xsf")
          for name in ("cycle1.json", "cycle2.json")]
print(json.dumps({"cycles": cycles, "losses": losses, "traces": traces}))
"""


def without_stamps(text):
    """PyTorch's own lines on stderr carry times and pids."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+", "", text)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    found = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"],
                           check=False, capture_output=True, text=True, env=harness.clean_environment())
    if found.returncode or not found.stdout.startswith("2."):
        pytest.skip(f"{PYTHON} has no PyTorch 2")
    if "True" in found.stdout:
        pytest.skip("PyTorch finds a GPU: tests/gpu/run has this test")
    top = tmp_path_factory.mktemp("plain")
    (top / "data").write_bytes(b"x")
    result = harness.run([PYTHON, "-c", PROGRAM], harness.clean_environment(), top)
    return json.loads(result.stdout), without_stamps(result.stderr)


@pytest.mark.parametrize("variables", [{}, {"PFW_CUPTI": "1", "PFW_TORCH_OPS": "1", "PFW_STEP": "auto"}])
def test_profile_is_as_it_is_without_us(tmp_path, plain, variables):
    (tmp_path / "data").write_bytes(b"x")
    result = harness.run([harness.PFW, "run", "-q", "-o", tmp_path / "t", PYTHON, "-c", PROGRAM],
                         harness.clean_environment(**variables), tmp_path)
    profile, said = plain
    assert json.loads(result.stdout) == profile
    assert without_stamps(result.stderr) == said
    assert len(profile["cycles"]) == 2 and all(profile["cycles"]) and all(profile["traces"])
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert len([line for line in lines if line["args"].get("fname") == str(tmp_path / "data")
                and line["name"].startswith("open")]) == 9
    assert not harness.own(lines, "gpu")
    if variables:
        ours = collections.Counter(line["name"] for line in lines if line["cat"] == "PP")
        theirs = collections.Counter(name for cycle in profile["cycles"] for name in cycle
                                     if name.startswith("aten::"))
        assert theirs["aten::addmm"] == 8
        assert not {name for name, count in theirs.items() if ours[name] < count}


def test_doctor_names_what_is_missing():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("there is a driver")
    out = harness.run([harness.PFW, "doctor"], harness.clean_environment(), status=None).stdout
    (line,) = [line for line in out.splitlines() if line[6:].startswith("gpu ")]
    assert line.endswith("no libcuda.so.1: no GPU work to record here (with an NVIDIA GPU: install its "
                         "driver, or run containers with --gpus all)")
