"""Each variable, wrapped call, and public name of C and Python is in the reference (docs/)."""
import json
import re

from harness import PFW, SOURCE, run

DOCS = SOURCE / "docs"
BEGIN, END = ".. calls-begin", ".. calls-end"


def page(name):
    return (DOCS / f"{name}.rst").read_text()


def calls():
    """The table of docs/calls.rst: a row for each name in the trace, category and args."""
    rows = {}
    for line in run([PFW, "calls", "--format", "ndjson"]).stdout.splitlines():
        row = json.loads(line)
        rows.setdefault((row["name"], row["cat"], tuple(row["args"])), []).append(row["call"])
    table = [".. list-table::", "   :header-rows: 1", "   :widths: 20 10 30 40", "", "   * - In the trace", "     - ``cat``",
             "     - ``args``", "     - Calls"]
    for (name, cat, args), names in rows.items():
        table += [f"   * - ``{name}``", f"     - {cat}", f"     - {' '.join(args)}",
                  f"     - {' '.join(f'``{call}``' for call in names)}"]
    return "\n".join(table)


def test_calls():
    shown = page("calls").split(BEGIN)[1].split(END)[0].strip()
    assert shown == calls(), f"put this into docs/calls.rst:\n{calls()}"


def test_variables():
    text = page("variables")
    names = [json.loads(line)["name"] for line in run([PFW, "config", "--format", "ndjson"]).stdout.splitlines()]
    assert len(names) > 50 and not [name for name in names if f"``{name}``" not in text]


def test_names_of_c():
    text = page("c")
    for header in ("pfw.h", "read.h"):
        source = (SOURCE / "include/pfw" / header).read_text()
        names = {*re.findall(r"^(?:PFW_API|PFW_READ_API|typedef)\b[^;(]*?\*?(\w+)\(", source, re.M),
                 *re.findall(r"^(?:struct|enum) (pfw_\w+) \{", source, re.M)}
        assert len(names) > 10 and not [name for name in names if not re.search(rf"\b{name}\b", text)], header


def test_names_of_python():
    """Sphinx takes what is in __all__ from docstrings (docs/api.rst); each has one, or an entry of its own."""
    source = (SOURCE / "bindings/python/pfw/__init__.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", source, re.S)[1])
    api = page("api")
    assert len(names) > 20 and ".. automodule:: pfw\n   :members:" in api
    left_out = re.search(r":exclude-members: (.*)", api)[1].split(", ")
    lost = [name for name in left_out if name in names and not re.search(rf"pfw\.{name}\b", api)]
    assert not lost, lost
