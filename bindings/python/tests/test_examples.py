"""The programs of bindings/python/examples, run as their first lines say."""
import json
import pathlib
import sys

import pytest

from conftest import PFW

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
FIRST = pathlib.Path(__file__).parents[3] / "examples/train.py"


def posix(lines, name, end):
    return [line for line in lines if line["cat"] == "POSIX" and line["name"] == name and
            (line["args"].get("fname") or "").endswith(end)]


def operators(lines):
    return [line for line in lines if line["cat"] == "PP" and line["name"].startswith("aten::")]


def test_train(run):
    """The trace has the name that the program gives it, and says where the steps' time went."""
    pytest.importorskip("torch")
    run.command(PFW, "run", "--", sys.executable, EXAMPLES / "train.py")
    assert "pfw: ./trace.pfw (" in run.errors
    lines = run.lines("trace*.pfw")
    assert {line["name"] for line in lines if line["args"].get("kind") == "step"} == {
        "ProfilerStep#2", "ProfilerStep#3"}
    assert len([line for line in lines if line["name"] == "training_step"]) == 4
    assert operators(lines) and posix(lines, "unlink", "/model.pt")
    rows = {words[0]: words for words in map(str.split, run.command(
        PFW, "overlap", "trace.pfw").splitlines()) if words}
    assert {"2", "3"} <= rows.keys(), run.output


def test_from_nothing(run):
    """The first commands of a new user: a program, with torch or without, and its page."""
    run.command(PFW, "run", "--", sys.executable, FIRST)
    assert "step 29: loss " in run.output and "pfw: next: pfw report train.pfw " in run.errors
    run.command(PFW, "report")
    assert (run.directory / "report.html").stat().st_size > 10_000
    found = json.loads(run.command(PFW, "report", "--format=json"))
    steps = [row for row in found["sheets"]["overlap"]["rows"] if row["type"] == "step"]
    assert len(steps) >= 30 and all(row["load"] > 0 and row["compute"] > 0 for row in steps[:30])
    advice = [json.loads(line) for line in run.command(PFW, "advise", "--format=ndjson").splitlines()]
    assert [one["finding"] for one in advice] == [one["text"] for one in found["findings"]]


def test_combined(run):
    """Reads of the workers and operators of the model, on one clock; compacted, in one file."""
    pytest.importorskip("torch")
    run.command(PFW, "run", "-o", "combined", "--", sys.executable, EXAMPLES / "combined.py")
    run.command(PFW, "compact", "combined")
    lines = [json.loads(line) for line in run.command("zcat", "combined.pfw.gz").splitlines()]
    reads = posix(lines, "read", ".f32")
    items = [line for line in lines if line["name"] == "item"]
    train = [line for line in lines if line["name"] == "train"]
    main = train[0]["pid"]
    assert len(items) == 32 and len({line["pid"] for line in items} - {main}) == 2
    assert {line["pid"] for line in operators(lines)} == {main}
    for item in items:
        assert any(read["tid"] == item["tid"] and item["ts"] <= read["ts"] and
                   read["ts"] + read["dur"] <= item["ts"] + item["dur"] for read in reads)
    # What the first batch needs is read before the first batch trains: the clocks are one.
    first = sorted(line["ts"] + line["dur"] for line in items)[7]
    assert first < min(line["ts"] for line in train)
    assert "I/O+compute" in run.command(PFW, "overlap", "combined")


def test_no_torch_and_analysis(run):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    run.command(sys.executable, EXAMPLES / "no_torch.py")
    lines = run.lines("no_torch.pfw")
    assert len([line for line in lines if line["name"] == "checksum"]) == 24
    assert len(posix(lines, "write", "/2-7")) == 1
    output = run.command(sys.executable, EXAMPLES / "analysis.py", "no_torch")
    assert "POSIX" in output and "bytes moved: 3145732" in output
