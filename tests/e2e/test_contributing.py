"""The worked examples of CONTRIBUTING.rst: applied to a copy of the tree, built, and run.

An example is a comment of the page, and for all but the last form the code block after it:

    .. example: new FILE
    .. example: FILE after "TEXT"      the block goes after the line that has TEXT
    .. example: FILE before "TEXT"     and before it
    .. example: FILE without "TEXT"    TEXT is removed
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import harness

Edit = collections.namedtuple("Edit", "file how text block")
EXAMPLE = re.compile(r'^\.\. example: (?:(new) (\S+)|(\S+) (after|before|without) "(.*)")$')
TREE = ["CHANGELOG.rst", "CMakeLists.txt", "CONTRIBUTING.rst", "LICENSE", "README.rst", "bindings",
        "cmake", "docs", "include", "packaging", "src", "tests", "tools"]
TARGETS = ["pfw", "pfw_shared", "pfw_preload", "pfw_preload_sync", "calls_target", "linked_calls_target"]


def code_block(lines, number):
    """The code block that begins in line `number` or below."""
    while not lines[number].startswith(".. code-block:: "):
        assert not lines[number].startswith(".. example:"), f"line {number + 1}: no code block"
        number += 1
    block = []
    for line in lines[number + 1:]:
        if line and not line.startswith("    "):
            break
        block.append(line)
    return "\n".join(line[4:] for line in block).strip("\n") + "\n"


def examples():
    lines = (harness.SOURCE / "CONTRIBUTING.rst").read_text().splitlines()
    for number, line in enumerate(lines):
        match = EXAMPLE.match(line)
        assert match or not line.startswith(".. example"), f"line {number + 1}: {line}"
        if match:
            new, made, file, how, text = match.groups()
            yield Edit(made or file, new or how, text,
                       None if how == "without" else code_block(lines, number + 1))


def apply(edit, path):
    if edit.how == "new":
        assert not path.exists(), f"{edit.file} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(edit.block)
        return
    text = path.read_text()
    assert edit.text in text, f'{edit.file} has no "{edit.text}": bring CONTRIBUTING.rst up to date'
    if edit.how == "without":
        path.write_text(text.replace(edit.text, "", 1))
        return
    at = text.index(edit.text)
    at = text.index("\n", at) + 1 if edit.how == "after" else text.rindex("\n", 0, at) + 1
    path.write_text(text[:at] + edit.block + text[at:])


def run(*words, env=None, cwd=None):
    done = subprocess.run([str(word) for word in words], env=env, cwd=cwd, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-6000:]}"
    return done.stdout


def put_between(path, begin, end, text):
    whole = path.read_text()
    head, rest = whole.split(begin + "\n", 1)
    path.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end, 1)[1]}")


class Tree:
    """The copy, with all examples in it."""

    def __init__(self, top):
        self.source, self.build = top / "tree", top / "build"
        self.pfw = self.build / "bin/pfw"
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("PFW_", "DFTRACER_"))}
        self.source.mkdir()
        for name in TREE:
            copy = shutil.copytree if (harness.SOURCE / name).is_dir() else shutil.copy
            copy(harness.SOURCE / name, self.source / name)
        for edit in examples():
            apply(edit, self.source / edit.file)
        run("cmake", "-S", self.source, "-B", self.build, "-DPFW_TESTS=ON", "-DPFW_WERROR=ON",
            "-DCMAKE_BUILD_TYPE=Debug", env=self.environment)
        run("cmake", "--build", self.build, "-j", os.cpu_count(), "--target", *TARGETS,
            env=self.environment)

    def answer(self, *words, cwd=None, **variables):
        return run(self.pfw, *words, env=self.environment | variables, cwd=cwd)

    def tests(self, *words):
        """Tests of the tree, run on the copy."""
        return run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words,
                   cwd=self.source / "tests/e2e", env=self.environment | {
                       "PFW_BIN": self.pfw, "PFW_LIB_DIR": self.build / "lib",
                       "PFW_PRELOAD": self.build / "lib/libpfw_preload.so",
                       "PFW_BUILD_DIR": self.build, "PFW_SOURCE_DIR": self.source})


@pytest.fixture(scope="module", name="tree")
def copy_of_the_tree(tmp_path_factory):
    return Tree(tmp_path_factory.mktemp("contributing"))


@pytest.fixture(scope="module", name="traced")
def trace_of_a_program(tree, tmp_path_factory):
    """A real program that opens three files that are not there, and removes a directory that is in use."""
    top = tmp_path_factory.mktemp("traced")
    program = top / "program.py"
    program.write_text(
        "import os, time\n"
        "for path in ('absent1', 'absent2', 'absent3'):\n"
        "    try:\n"
        "        open(path)\n"
        "    except FileNotFoundError:\n"
        "        pass\n"
        "try:\n"
        "    os.rmdir(os.getcwd())\n"
        "except OSError:\n"
        "    pass\n"
        "file = os.open('program.py', os.O_RDONLY)\n"
        "os.fpathconf(file, 'PC_NAME_MAX')\n"
        "time.sleep(0.1)\n"
        "os.read(file, 10)\n")
    tree.answer("run", "-o", "t", "--", sys.executable, program, cwd=top, PFW_LOAD="10ms")
    return top / "t.pfw"


def test_there_is_one_example_each():
    files = [edit.file for edit in examples()]
    assert {"src/common/calls/calls.def", "tools/size.c", "src/common/settings/config.def",
            "src/recorder/sample/load.c", "src/store/errors/errors.c"} <= set(files)


def test_the_new_call_is_listed_and_recorded(tree, traced):
    listed = [line.split() for line in tree.answer("calls").splitlines()]
    assert ["fpathconf", "fpathconf", "POSIX", "fd", "limit", "ret"] in listed
    assert "fpathconf" not in tree.answer("calls", "--unwrapped").split()
    event, = harness.events(harness.read_lines(traced), "fpathconf")
    assert event["args"]["fname"].endswith("/program.py")
    assert event["args"]["ret"] == os.pathconf(traced, "PC_NAME_MAX")


def test_the_new_call_has_its_case(tree):
    """In both ways to get at a call; the program sees no difference."""
    said = tree.tests("test_calls.py", "-k", "fpathconf or difference")
    assert "4 passed" in said, said


def test_the_new_command_answers(tree, traced):
    row, = map(json.loads, tree.answer("size", "--format", "ndjson", traced).splitlines())
    assert row["trace"] == str(traced) and row["bytes"] == traced.stat().st_size
    assert re.search(r"^  size +List traces", tree.answer("--help"), re.M)
    assert "--format" in tree.answer("size", "--help")


def test_the_new_variable_is_shown(tree):
    def rows(value):
        done = subprocess.run([tree.pfw, "config", "--format", "ndjson"], text=True,
                              env=tree.environment | {"PFW_LOAD": value}, capture_output=True, check=False)
        return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}

    assert rows("2s")["PFW_LOAD"]["value"] == "2s"
    assert "bad value" in rows("often")["PFW_LOAD"]["problem"]


def test_the_new_source_s_events_are_in_a_trace(traced):
    lines = harness.read_lines(traced)
    loads = [line for line in lines if line["name"] == "load"]
    assert loads and all(line["cat"] == "COUNTER" and line["ph"] == "C" for line in loads)
    assert all(0 <= line["args"]["minute"] < 10000 for line in loads)
    assert len(loads) <= (lines[-1]["ts"] - lines[0]["ts"]) / 10000 + 1, "each 10 ms at most"


def test_the_new_analysis_prints_its_figures(tree, traced):
    figures = dict(re.findall(r"^(\w+ E\w+) +([\d,]+)$", tree.answer("errors", traced), re.M))
    counted = collections.Counter(f"{line['name']} {line['args']['errno']}"
                                  for line in harness.read_lines(traced)
                                  if line["cat"] in ("POSIX", "STDIO") and "errno" in line["args"])
    assert figures == {kind: f"{count:,}" for kind, count in counted.items()}
    assert sum(counted.values()) >= 4 and any(kind.endswith("ENOTEMPTY") for kind in counted)
    only = tree.answer("errors", "--name", "rmdir", traced)
    assert "rmdir ENOTEMPTY" in only and "ENOENT" not in only


def test_the_copy_keeps_the_law(tree):
    """Rooms, includes, sizes; and the documents, once what they print is put into them."""
    put_between(tree.source / "docs/commands.rst", ".. pfw-commands-begin", ".. pfw-commands-end",
                tree.answer("help", "--format", "rst"))
    put_between(tree.source / "docs/variables.rst", ".. pfw-config-begin", ".. pfw-config-end",
                tree.answer("config", "--format", "rst"))
    tree.tests("test_layout.py", "test_readme.py")
    tree.tests("test_help.py", "-k", "documents")
