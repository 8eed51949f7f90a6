"""Each option, variable, wrapped call, and public name of C and Python is in the reference (docs/), and each is in an
example or a page of the cookbook, or among the advanced ones (docs/advanced.rst)."""
import json
import re

import pytest

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


# ---- examples ----

# Names that are there for the headers themselves.
INNER = {"PFW_API", "PFW_READ_API", "PFW_PFW_H", "PFW_READ_H", "PFW_SPAN_AT", "PFW_SPAN_VARIABLE"}


def blocks(text):
    """The literal blocks of a page."""
    lines, found, depth = text.splitlines(), [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is not None and (not line.strip() or indent > depth):
            found.append(line)
            continue
        depth = None
        if re.match(r"\s*\.\. code-block::", line) or line.endswith("::") and not line.lstrip().startswith(".."):
            depth = indent
    return "\n".join(found)


def examples():
    """What a user finds to copy: the blocks of all pages, the pages of the cookbook, and examples/."""
    pages = [path for path in [*DOCS.glob("*.rst"), SOURCE / "README.rst"] if path.name != "advanced.rst"]
    return "\n".join([*(blocks(path.read_text()) for path in pages),
                      *(path.read_text() for path in [DOCS / "cookbook.rst", *(DOCS / "cookbook").glob("*.rst")]),
                      *(path.read_text() for path in (SOURCE / "examples").iterdir())])


def options():
    """The options of each command: {"table": [("s", "sort-by"), ...]}, without --help."""
    names = re.findall(r"^  ([a-z]+) +\S", run([PFW, "--help"]).stdout, re.M)
    return {name: [pair for pair in re.findall(r"^  (?:-(\w), |    )--([\w-]+)",
                                               run([PFW, name, "--help"]).stdout.split("options:")[-1], re.M)
                   if pair[1] != "help"] for name in names}


def shown_options(text):
    """The options that are in an example of a command that has them."""
    shown = set()
    for name, pairs in options().items():
        lines = re.findall(rf"\bpfw {name}\b.*", text)
        shown |= {option for letter, option in pairs
                  if any(re.search(rf"--{option}(?![\w-])" + (rf"|\s-\w*{letter}\b" if letter else ""), line)
                         for line in lines)}
    return shown


def missing_options(text, advanced):
    shown = shown_options(text)
    return [f"pfw {name} --{option}" for name, pairs in options().items() for _, option in pairs
            if option not in shown and f"``pfw {name} --{option}``" not in advanced]


def names_of_c():
    found = set()
    for header in ("pfw.h", "read.h"):
        source = (SOURCE / "include/pfw" / header).read_text()
        found |= {*re.findall(r"^(?:PFW_API|PFW_READ_API|typedef)\b[^;(]*?\*?(\w+)\(", source, re.M),
                  *re.findall(r"^(?:struct|enum) (pfw_\w+) \{", source, re.M),
                  *re.findall(r"^#define (PFW_\w+)", source, re.M), *re.findall(r"^\s+(PFW_[A-Z_0-9]+)\b", source, re.M)}
    return found - INNER


def missing_names(kind, text, advanced):
    if kind == "variables":
        rows = [json.loads(line) for line in run([PFW, "config", "--format", "ndjson"]).stdout.splitlines()]
        names = [row["name"] for row in rows
                 if f"* - ``{row['name']}``" in page("variables") and not ignored(row["name"])]
        return [name for name in names if not re.search(rf"\b{name}\b", text) and f"``{name}``" not in advanced]
    if kind == "C":
        return [name for name in sorted(names_of_c())
                if not re.search(rf"\b{name}\b", text) and f"``{name}``" not in advanced]
    source = (SOURCE / "bindings/python/pfw/__init__.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", source, re.S)[1])
    return [name for name in names if not re.search(rf"\bpfw\.{name}\b", text) and f"``pfw.{name}``" not in advanced]


def ignored(variable):
    """A variable of DFTracer that does nothing here."""
    return "*Ignored:*" in page("variables").split(f"* - ``{variable}``\n")[1].split("   * - ``")[0]


def test_options_are_in_examples():
    assert len(shown_options(examples())) > 60
    assert not missing_options(examples(), page("advanced"))


@pytest.mark.parametrize("kind", ["variables", "C", "Python"])
def test_names_are_in_examples(kind):
    assert not missing_names(kind, examples(), page("advanced"))


def test_nothing_advanced_is_unknown():
    """What is listed as advanced exists, and is in no example."""
    listed = set(re.findall(r"``([^`]+)``", "\n".join(re.findall(r"^(?:   \* -|       ``).*", page("advanced"), re.M))))
    known = {f"pfw {name} --{option}" for name, pairs in options().items() for _, option in pairs}
    known |= names_of_c() | set(missing_names("variables", "", "")) | {f"pfw.{name}" for name in missing_names("Python", "", "")}
    assert len(listed) > 40 and not listed - known
    missing = {*missing_options(examples(), ""), *(one for kind in ("variables", "C") for one in missing_names(kind, examples(), "")),
               *(f"pfw.{name}" for name in missing_names("Python", examples(), ""))}
    needless = {one for one in listed if one.startswith("pfw ")} - missing
    assert not needless


def test_a_name_without_example_is_found():
    """These tests can fail."""
    assert "pfw table --sort-by" in missing_options("", "") and "pfw_step" in missing_names("C", "", "")
    assert "PFW_COUNTERS" in missing_names("variables", "", "") and "read" in missing_names("Python", "", "")
