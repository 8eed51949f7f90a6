"""README.rst and docs/ against the program: tables, commands and the names of documents."""
import difflib
import json
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(os.environ.get("PFW_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BEGIN, END = ".. pfw-config-begin", ".. pfw-config-end"


def config(*options, **environ):
    return subprocess.run([os.environ["PFW_BIN"], "config", *options], env=environ, text=True,
                          capture_output=True, check=False)


def block_of_variables():
    lines = (SOURCE / "docs/variables.rst").read_text().splitlines()
    assert lines.count(BEGIN) == 1 and lines.count(END) == 1, "docs/variables.rst: one block, please"
    return "\n".join(lines[lines.index(BEGIN) + 1:lines.index(END)]).strip().splitlines()


def test_documents_have_the_table_of_variables():
    result = config("--format", "rst")
    assert (result.returncode, result.stderr) == (0, "")
    printed = result.stdout.strip().splitlines()
    assert len(printed) > 100
    difference = "\n".join(difflib.unified_diff(
        block_of_variables(), printed, "docs/variables.rst", "pfw config --format rst", lineterm=""))
    assert not difference, f"put the output of `pfw config --format rst` there:\n{difference}"


def test_table_does_not_depend_on_the_environment():
    assert config("--format", "rst").stdout == \
        config("--format", "rst", PFW_RING_MAX="2MiB", PFW_NO_SUCH="1").stdout


def test_values_in_effect_are_shown():
    result = config(PFW_FLUSH_MS="20")
    assert result.returncode == 0
    assert "* PFW_FLUSH_MS = 20   (default 500)" in result.stdout.splitlines()
    assert "  PFW_RING_MAX = 1MiB" in result.stdout.splitlines()


def test_what_is_wrong_is_shown():
    result = config("--format", "ndjson", PFW_RING_MAX="9x", PFW_RNAK="3", PFW_FLUSH_MS="20")
    rows = {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert result.returncode == 1
    assert rows["PFW_RING_MAX"]["value"] == "1MiB" and not rows["PFW_RING_MAX"]["set"]
    assert "bad value" in rows["PFW_RING_MAX"]["problem"]
    assert rows["PFW_RNAK"]["state"] == "unknown"
    assert "did you mean PFW_RANK?" in rows["PFW_RNAK"]["problem"]
    assert rows["PFW_FLUSH_MS"]["value"] == "20" and "problem" not in rows["PFW_FLUSH_MS"]
    assert rows["DFTRACER_GOTCHA_PRIORITY"]["state"] == "ignored"


# ---- README.rst ----

def test_readme_is_for_a_minute():
    lines = (SOURCE / "README.rst").read_text().splitlines()
    assert len(lines) <= 150
    assert {"    tools/quickstart      # build into build/, trace a real program, show what was recorded",
            "    tools/check           # run every check that a change must pass"} <= set(lines)


def test_commands_of_readme_are_commands():
    listed = subprocess.run([os.environ["PFW_BIN"], "--help"], text=True, capture_output=True,
                            check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+) +\S", listed, re.M))
    used = set(re.findall(r"^    (?:\$ )?pfw ([a-z]+)", (SOURCE / "README.rst").read_text(), re.M))
    assert len(used) > 5 and used <= commands


# ---- documents that texts name ----

TEXTS = ("*.rst", "*.c", "*.h", "*.def", "*.py", "*.txt", "*.toml")


def texts():
    for directory in ("docs", "src", "tools", "include", "bindings", "tests/e2e", "cmake", "."):
        for pattern in TEXTS:
            for path in (SOURCE / directory).glob(pattern if directory == "." else "**/" + pattern):
                yield path


def test_documents_that_texts_name_exist():
    lost, named = [], set()
    for path in texts():
        for name in re.findall(r"\bdocs/(\w+\.rst)\b", path.read_text()):
            named.add(name)
            if not (SOURCE / "docs" / name).is_file():
                lost.append(f"{path}: docs/{name}")
    assert not lost and len(named) > 10, "\n".join(lost)


def test_every_document_is_on_the_home_page():
    listed = set(re.findall(r"^   (\w+)$", (SOURCE / "docs/index.rst").read_text(), re.M))
    assert listed == {path.stem for path in (SOURCE / "docs").glob("*.rst")} - {"index"}


def test_design_lists_the_rooms_in_their_order():
    law = re.search(r'ROOMS = """(.*?)"""', (SOURCE / "tests/e2e/test_layout.py").read_text(), re.S)
    text = (SOURCE / "docs/design.rst").read_text()
    table = text.split(".. room-table-begin")[1].split(".. room-table-end")[0]
    assert re.findall(r"^   \* - ``(\S+)``$", table, re.M) == law[1].split()


def test_files_that_documents_name_exist():
    lost, named = [], set()
    for path in [*(SOURCE / "docs").glob("*.rst"), SOURCE / "README.rst"]:
        for name in re.findall(r"``((?:src|tools|include|tests|bindings)/[\w./-]*\.\w+)``", path.read_text()):
            named.add(name)
            if not (SOURCE / name).is_file():
                lost.append(f"{path}: {name}")
    assert not lost and len(named) > 40, "\n".join(lost)
