"""PyTorch's own profiler (Kineto) and our probe at one CUPTI, the stand-in: each kernel is in the trace once.

PFW_TORCH_PYTHON names a Python with a PyTorch built for CUDA 13 and with the package pfw.
"""
import collections
import os
import subprocess

import pytest

import harness

PYTHON = os.environ.get("PFW_TORCH_PYTHON", "/usr/bin/python3")
STANDIN = harness.BUILD / "tests/standin13"
SHIM = harness.SOURCE / "tests/e2e/kineto/shim.c"

PROGRAM = """
import ctypes, sys, time

class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

names = [name.encode() for name in ("before", "within0", "behind0", "within1", "behind1")]
late = "late" in sys.argv

def launch(name, count):
    begin = time.time_ns()
    for _ in range(count):
        assert cudart.cudaLaunchKernel(name, Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None) == 0
    print(name.decode(), count, begin, time.time_ns())

if late:
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    time.sleep(0.5)
import torch
from torch.profiler import profile, ProfilerActivity
from pfw.torch import trace_handler
torch.cuda.synchronize = lambda *_: None
cudart = ctypes.CDLL(sys.argv[1]) # after PyTorch, which wants more of one than this has
cudart.cudaLaunchKernel.argtypes = [ctypes.c_char_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
launch(names[0], 3)
for cycle in range(2):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], on_trace_ready=trace_handler) as p:
        torch.mm(torch.zeros(2, 2), torch.zeros(2, 2))
        # Kineto drops what its clock, which is not exact, puts outside of the profile.
        time.sleep(0.1)
        launch(names[2 * cycle + 1], 50)
        time.sleep(0.1)
    launch(names[2 * cycle + 2], 4)
    kernels = [event.name() for event in p.profiler.kineto_results.events() if "CUDA" in str(event.device_type())]
    # Where we are one of several clients already, Kineto has no clock of its own, and drops what CUPTI's tells.
    assert kernels == [f"within{cycle}"] * 50 or late, kernels
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    if not (STANDIN / "libcupti.so.13").exists():
        pytest.skip("no stand-ins: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")
    found = subprocess.run([PYTHON, "-c", "import torch, pfw; print(torch.version.cuda)"], check=False,
                           capture_output=True, text=True, env=harness.clean_environment())
    if found.returncode or not found.stdout.startswith("13."):
        pytest.skip(f"{PYTHON} has no PyTorch for CUDA 13, or no pfw")
    library = tmp_path_factory.mktemp("shim") / "libshim.so"
    harness.run(["cc", "-shared", "-fPIC", "-o", library, SHIM])
    return library


@pytest.mark.parametrize("version,late", [
    (130001, ""),  # one client at a time: we leave CUPTI to torch.profiler
    (130500, ""),  # there may be several, but not with its calls: the same
    (130500, "late")])  # we are one of several before it comes: GPU work is ours, trace_handler leaves it out
def test_each_kernel_is_there_once(tmp_path, shim, version, late):
    """And at the time at which it ran, also after Kineto has had CUPTI ask a clock of its own."""
    environment = harness.clean_environment(STANDIN=f"version={version}", LD_LIBRARY_PATH=str(STANDIN),
                                            LD_PRELOAD=f"{STANDIN}/libcupti.so.13:{shim}")
    said = harness.run([harness.PFW, "run", "-q", "-o", tmp_path / "t", PYTHON, "-c", PROGRAM,
                        STANDIN / "libcudart.so.13", late], environment, tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    kernels = collections.defaultdict(list)
    for line in lines:
        if line["cat"] == "PP" and line["args"]["kind"] == "kernel":
            kernels[line["name"]].append(line)
    for name, count, begin, end in (text.split() for text in said.stdout.splitlines()):
        assert len(kernels[name]) == int(count), (name, late)
        for kernel in kernels[name]:
            assert int(begin) / 1e3 <= kernel["ts"] <= int(end) / 1e3 + 100, (name, late)
    assert sum(map(len, kernels.values())) == 3 + 2 * 54
    launches = [line for line in lines if line["name"] == "cudaLaunchKernel"]
    assert len(launches) == 3 + 2 * 54
    assert len({kernel["args"]["correlation"] for each in kernels.values() for kernel in each}) == 3 + 2 * 54
    assert ("grid" in kernels["within0"][0]["args"]) == bool(late)
