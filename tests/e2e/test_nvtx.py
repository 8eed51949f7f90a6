"""NVTX: what a program marks through NVIDIA's header (tests/gpu/nvtx_target.c), without a GPU."""
import json
import subprocess
import sys

import pytest

import harness

TARGET = harness.BUILD / "tests/nvtx_target"
RECORDER = harness.BUILD / "lib/libpfw.so.1"
pytestmark = pytest.mark.skipif(
    not TARGET.exists(),
    reason="no nvtx3/nvToolsExt.h: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")


class Run:
    def __init__(self, top, words, program=TARGET, lost=0, **variables):
        (top / "data").write_bytes(b"x" * 100_000)
        (top / "spools").mkdir()
        self.top = top
        self.environment = harness.traced_environment(
            top / "t", top / "spools", DFTRACER_DATA_DIR=str(top), DFTRACER_INC_METADATA="1",
            **{"NVTX_INJECTION64_PATH": str(RECORDER), **variables})
        command = [program, *words.split()] if isinstance(words, str) else [program, *words]
        self.result = harness.run(command, self.environment, top)
        assert bool(lost) == (f"{lost} events were lost" in self.result.stderr)
        self.out = self.result.stdout
        self.lines = harness.check_trace(top / "t.pfw", lost=lost) \
            if (top / "t.pfw").exists() else []

    def said(self, *names):
        """The annotations of these names, in the order in which they began."""
        return sorted((line for line in harness.events(self.lines, *names)
                       if line["cat"] == "PP" and line["args"].get("kind") == "annotation"),
                      key=lambda line: (line["ts"], line["args"].get("span_id", 0)))


def test_nest(tmp_path):
    run = Run(tmp_path, "nest")
    assert run.out == "0 1 1 0 1\n"
    outer, inner, mark = run.said("outer") + run.said("inner") + run.said("mark")
    assert (outer["ph"], inner["ph"], mark["ph"]) == ("X", "X", "i")
    assert inner["args"]["parent"] == outer["args"]["span_id"] and "parent" not in outer["args"]
    assert outer["ts"] <= inner["ts"] <= mark["ts"] <= inner["ts"] + inner["dur"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.001
    assert len(run.said()) == 3


def test_domains(tmp_path):
    """Each counts its own depth; the topmost range of all need not be popped first."""
    run = Run(tmp_path, "domains")
    assert run.out == "0 0 0 1 0 1 0 0\n"
    assert [(line["name"], line["args"].get("domain"), line["args"]["category"])
            for line in run.said()] == [
                ("registered", "one", "seventh"), ("b", "twö", 7), ("b", None, "default's"),
                ("registered", "one", "seventh"), ("registered", "one", "seventh")]
    assert [line["ph"] for line in run.said()] == ["X"] * 4 + ["i"]


def test_attributes(tmp_path):
    lines = Run(tmp_path, "attributes").said("payload")
    assert [line["args"]["payload"] for line in lines] == \
        [18446744073709551615, -5, 0.1, 4294967295, -6, 0.5]
    assert {line["args"]["color"] for line in lines} == {"#ff00a1b2"}


def test_messages(tmp_path):
    assert sorted(line["name"] for line in Run(tmp_path, "wide").said()) == \
        ["", "(no message)", "wït世😀"]


def test_ranges_of_any_thread(tmp_path):
    run = Run(tmp_path, "ranges")
    here, elsewhere, within = run.said("here") + run.said("elsewhere") + run.said("within")
    assert len(run.said()) == 3  # one that is over is not ended twice
    assert here["tid"] == within["tid"] == elsewhere["args"]["started_by"] != elsewhere["tid"]
    assert "started_by" not in here["args"]
    assert not any("parent" in line["args"] for line in (here, elsewhere, within))
    assert here["ts"] <= elsewhere["ts"] <= within["ts"]


def test_many_ranges(tmp_path):
    assert len(Run(tmp_path, "many 16000").said("many")) == 32_000


def test_too_many(tmp_path):
    """What does not fit is counted, and the others are whole."""
    run = Run(tmp_path, "many 17000 deep 400", lost=2 * 616 + 400 - 313)
    assert len(run.said("many")) == 2 * 16384
    deep = run.said("deep")
    assert len(deep) == 313
    assert [line["args"].get("parent") for line in deep] == \
        [None] + [line["args"]["span_id"] for line in deep[:-1]]


def test_threads(tmp_path):
    """A thread that ends leaves nothing to the next one, which has its memory."""
    ranges = Run(tmp_path, "threads 300").said()
    assert [line["name"] for line in ranges] == ["thread"] * 300
    assert len({line["args"]["parent"] for line in ranges}) == 300


def test_thread_names(tmp_path):
    run = Run(tmp_path, "nest name loader-of-batches nest")
    assert harness.own(run.lines, "thread_name")[-1]["args"]["name"] == "loader-of-batch"


def test_fork(tmp_path):
    run = Run(tmp_path, "fork")
    assert [line["name"] for line in run.said()] == ["around a fork"]
    child, = (name for name in harness.trace_names(tmp_path) if name != "t.pfw")
    lines = harness.check_trace(tmp_path / child)
    assert [line["name"] for line in lines if line["cat"] == "PP"] == ["child's"]


def test_stop_and_start(tmp_path):
    run = Run(tmp_path, "nest stop nest start nest")
    assert run.out == "0 1 1 0 1\n" * 3
    assert len(run.said("outer")) == 2


def test_off(tmp_path):
    run = Run(tmp_path, "nest", PFW_NVTX="0")
    assert run.out == "-2 -2 -2 -2 1\n" and not run.said()


def test_pfw_run_names_the_recorder(tmp_path):
    (tmp_path / "data").write_bytes(b"x")
    for others, count in (({}, 2), ({"PFW_NVTX": "off"}, 0),
                          ({"NVTX_INJECTION64_PATH": "/nonexistent.so"}, 0)):
        harness.run([harness.PFW, "run", "-q", "-o", tmp_path / f"r{count}{len(others)}", TARGET, "nest"],
                    harness.clean_environment(**others), tmp_path)
        (name,) = (name for name in harness.trace_names(tmp_path)
                   if name.startswith(f"r{count}{len(others)}"))
        lines = harness.check_trace(tmp_path / name)
        assert sum(line["name"] in ("outer", "inner") for line in lines) == count, others
        (tmp_path / name).unlink()


def test_reads_know_their_range(tmp_path):
    run = Run(tmp_path, ["steps", "3", "batch %d"])
    batches, reads = run.said(), harness.events(run.lines, "pread")
    assert [line["name"] for line in batches] == ["batch 0", "batch 1", "batch 2"]
    for batch, read in zip(batches, reads):
        assert batch["ts"] <= read["ts"] <= batch["ts"] + batch["dur"]


def test_pythons_nvtx(tmp_path):
    """The `nvtx` package, where it is installed for this Python."""
    if subprocess.run([sys.executable, "-c", "import nvtx"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no Python package nvtx")
    program = """
import nvtx
@nvtx.annotate("function", color="blue", domain="mine")
def function():
    nvtx.mark("here", color="red")
function()
"""
    run = Run(tmp_path, ["-c", program], sys.executable)
    function, here = run.said("function") + run.said("here")
    assert function["args"]["domain"] == "mine" and function["args"]["color"] == "#000000ff"
    assert here["ph"] == "i" and json.dumps(here)
