"""The three blocks of DFTracer's document on torch.profiler, in each way that a user can run them here."""
import importlib.metadata
import importlib.util
import os
import sys
import zipfile

import pytest

from conftest import PFW, Run
from test_dftracer import (BASIC, DATA, LOADING, MODEL, TRAINING, calls, check_combined, compute,
                           import_lines_changed, made, operators, shown)

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")

# Each with what the reader is to fill in.
BLOCKS = {"profiler_trace.pfw": MODEL + BASIC, "training.pfw": TRAINING,
          "combined.pfw": DATA + LOADING}
# The document's own.
EXPORTS = """
export DFTRACER_ENABLE=1
export DFTRACER_DATA_DIR=all
"""


def wheel(directory):
    """What pip has installed here, as the wheel that it came from."""
    package = importlib.metadata.distribution("pfwtrace")
    tag, = [line.split()[1] for line in package.read_text("WHEEL").splitlines() if line[:4] == "Tag:"]
    name = f"pfwtrace-{package.version}"
    path = directory / f"{name}-{tag}.whl"
    left_out = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    with zipfile.ZipFile(path, "w") as archive:
        for file in package.files:
            if file.parts[-2] == "bin" and file.parts[0] == ".." and file.name == "pfw":
                archive.write(file.locate(), f"{name}.data/scripts/{file.name}")
            elif file.parts[0] != ".." and file.suffix != ".pyc" and file.name not in left_out:
                archive.write(file.locate(), str(file))
        archive.writestr(f"{name}.dist-info/RECORD",
                         "".join(f"{entry},,\n" for entry in archive.namelist()))
    return path


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A new environment with the package installed in it by pip; torch is had from ours."""
    top = tmp_path_factory.mktemp("fresh")
    run = Run(top)
    run.command(sys.executable, "-m", "venv", top / "env")
    run.command(top / "env/bin/pip", "install", "-q", "--no-index", "--no-deps", wheel(top))
    place, = top.glob("env/lib/python*/site-packages")
    torch = os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin))
    (place / "torch.pth").write_text(torch + "\n")
    return top / "env/bin"


def by_run(run, block, fresh):
    """The unedited block under `pfw run --compat`."""
    run.command(PFW, "run", "-q", "--all", "--compat", "dftracer", "--", sys.executable,
                run.save(block))


def by_imports(run, block, fresh):
    """Plain python, only the import lines changed."""
    assert block.count("dftracer.python") in (2, 3)
    run.script(import_lines_changed(block), DFTRACER_ENABLE="1", DFTRACER_DATA_DIR="all")


def by_enabling(run, block, fresh):
    """The unedited block by plain python after the document's exports, where that is enabled."""
    run.save(EXPORTS + f"exec {fresh}/python {run.save(block)}\n", "run.sh")
    run.command(fresh / "pfw", "compat", "enable", "dftracer")
    try:
        run.command("/bin/sh", "run.sh")
    finally:
        run.command(fresh / "pfw", "compat", "disable", "dftracer")
    run.command(fresh / "python", "-c", "import dftracer", status=1)


@pytest.mark.parametrize("way", [by_run, by_imports, by_enabling])
@pytest.mark.parametrize("name", BLOCKS)
def test_block(run, fresh, name, way):
    """What the document says gets traced, and I/O, in the one file that the block names."""
    way(run, BLOCKS[name], fresh)
    assert [path.name for path in run.directory.glob("*.pfw*")] == [name]
    lines = run.lines(name)
    assert {line["pid"] for line in lines} == {lines[0]["pid"]}
    found = compute(run, name)
    assert {"PP"} == {line["cat"] for line in lines if line["name"].startswith("aten::")}
    for line in found:
        assert line["ts"] > 1_600_000_000_000_000 and line["dur"] >= 0
    for line in operators(run, name):
        assert all(isinstance(value, int) for value in shown(line).values()), line
        assert 0 < line["args"]["total_cpu_percent"] <= 100
    assert len(operators(run, name)) == (3 if name == "combined.pfw" else 2)
    if name == "profiler_trace.pfw":
        assert {line["args"]["cpu_memory"] for line in operators(run, name)} == {8 * 4 * 4}
    elif name == "training.pfw":
        assert [len(operators(run, name, word)) for word in ("forward", "loss")] == [2, 2]
        assert [line["cat"] for line in made(run, name)].count("training") == 4
    else:
        check_combined(run)
    assert calls(run, name)
