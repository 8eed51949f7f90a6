"""docs/trace.schema.json: real traces fit it, damaged lines do not, and it lists the lines of docs/format.rst."""
import gzip
import json
import pathlib
import re
import sys

import pytest

from conftest import PFW, Run

jsonschema = pytest.importorskip("jsonschema")

DOCS = pathlib.Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "trace.schema.json").read_text())
LINE = jsonschema.Draft202012Validator(SCHEMA)

# Spans, steps, a cycle of a schedule, calls that fail, threads, a child that is not traced, and one that is killed.
PROGRAM = """
import os, signal, subprocess, sys, threading
import pfw
def work():
    for i in range(20):
        with pfw.span("work", number=i, text="a"), open(f"out{i % 3}", "w") as out:
            out.write("x" * i)
        os.path.exists("nowhere")
for step in range(6):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    pfw.counter("loss", 0.5)
    pfw.instant("moment")
    pfw.compute_event("mm", 1, 2, kind="kernel", device=1, stream=7, grid=(1, 2, 3))
    pfw.step()
subprocess.run(["/bin/cat", "/etc/hostname"], env={}, stdout=open("copy", "w"))
if os.fork() == 0:
    open("child", "w").write("y")
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
"""


VARIABLES = [{}, {"PFW_MIN_DUR": "1s"}, {"PFW_SCHEDULE": "wait=1,warmup=1,active=2"}, {"PFW_COUNTERS": "5ms"},
             {"DFTRACER_INC_METADATA": "0"}, {"DFTRACER_DATA_DIR": "/nowhere"}, {"PFW_MAX_BYTES": "64KiB"},
             {"DFTRACER_TIME_METRIC": "US"}, {"RANK": "1", "WORLD_SIZE": "2"}]


def lines(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        yield from map(json.loads, file)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """All lines of the program, recorded in different ways."""
    run = Run(tmp_path_factory.mktemp("traces"))
    for number, variables in enumerate(VARIABLES):
        run.command(PFW, "run", "-q", *["-z"] * (number == 0), "-o", f"t{number}", "--", sys.executable, run.save(PROGRAM),
                    **variables)
    return [line for path in sorted(run.directory.glob("t*.pfw*")) for line in lines(path)]


def test_real_traces_fit(recorded):
    for line in recorded:
        wrong = [error.message for error in LINE.iter_errors(line)]
        assert not wrong, f"{line}: {wrong}"
    assert {"POSIX", "PP", "COUNTER", "app"} <= {line["cat"] for line in recorded}
    assert {"process", "thread_name", "segment", "untraced_child", "summed", "excluded", "lost", "end"} <= {
        line["name"] for line in recorded if line["cat"] == "pfw"}


def test_damaged_lines_do_not_fit(recorded):
    call = next(line for line in recorded if line["cat"] == "POSIX" and "ret" in line["args"])
    end = next(line for line in recorded if (line["cat"], line["name"]) == ("pfw", "end"))
    for line, change in ((call, {"dur": None}), (call, {"ph": "M"}), (call, {"id": "1"}), (call, {"more": 1}),
                         (call, {"args": {"errno": 2}}), (end, {"args": {**end["args"], "more": 1}}),
                         (end, {"args": {"events": 1}}), (end, {"name": "no such line"})):
        assert LINE.is_valid(line) and not LINE.is_valid({**line, **change}), change


def test_the_page_lists_the_same_lines():
    """Names of the tracer's own lines, and their args."""
    text = (DOCS / "format.rst").read_text().split("The tracer's own lines\n---")[1].split("A file without ``end``")[0]
    rows = dict(re.findall(r"   \* - ``([^`]+)``\n(.*?)(?=\n   \* - |\Z)", text, re.S))
    own = {rule["if"]["properties"]["name"]["const"]: rule["then"]["properties"]["args"]["properties"]
           for rule in SCHEMA["allOf"][-1]["then"]["allOf"] if "const" in rule["if"]["properties"]["name"]}
    assert own.keys() - {"imported"} == rows.keys() - {"name"}
    spans = {"span_id", "parent", "step", "phase"}
    for name, args in list(rows.items())[1:]:
        assert not [arg for arg in own[name].keys() - spans if f"``{arg}``" not in args], name
