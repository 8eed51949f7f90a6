"""README.rst against the program: its table of variables is what `pfw config` prints."""
import difflib
import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(os.environ.get("PFW_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BEGIN, END = ".. pfw-config-begin", ".. pfw-config-end"


def config(*options, **environ):
    return subprocess.run([os.environ["PFW_BIN"], "config", *options], env=environ, text=True,
                          capture_output=True, check=False)


def block_of_readme():
    lines = (SOURCE / "README.rst").read_text().splitlines()
    assert lines.count(BEGIN) == 1 and lines.count(END) == 1, "README.rst: one block, please"
    return "\n".join(lines[lines.index(BEGIN) + 1:lines.index(END)]).strip().splitlines()


def test_readme_has_the_table_of_variables():
    result = config("--format", "rst")
    assert (result.returncode, result.stderr) == (0, "")
    printed = result.stdout.strip().splitlines()
    assert len(printed) > 100
    difference = "\n".join(difflib.unified_diff(
        block_of_readme(), printed, "README.rst", "pfw config --format rst", lineterm=""))
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
