"""One table of options a command: help, manual pages, completions and docs/commands.rst say the same."""
import os
import pathlib
import re
import shutil

import pytest

import harness

PFW = os.environ["PFW_BIN"]
SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["PFW_BUILD_DIR"])


def pfw(*words, status=0):
    return harness.run([PFW, *words], status=status).stdout


COMMANDS = re.findall(r"^  ([a-z]+) +\S", pfw("--help"), re.M)


def options_of(command):
    """[(letter, name, argument)] as `--help` has them."""
    part = pfw(command, "--help").split("\noptions:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (?:-(.),|   ) --([a-z-]+)(?: (\S+))?", part, re.M)


def test_documents_list_the_commands():
    text = (SOURCE / "docs/commands.rst").read_text()
    listed = text.split(".. pfw-commands-begin\n")[1].split(".. pfw-commands-end\n")[0]
    assert listed.strip() == pfw("help", "--format", "rst").strip(), \
        "put the output of `pfw help --format rst` there"
    assert len(COMMANDS) > 8 and re.findall(r"^    pfw ([a-z]+) ", listed, re.M) == COMMANDS


def test_help_fits_80_columns():
    for words in [[], *([command] for command in COMMANDS)]:
        wide = [line for line in pfw(*words, "--help").splitlines() if len(line) > 80]
        assert not wide, words


def test_a_letter_means_the_same_in_every_command():
    """-s is --sort-by, -c is --cat, and so on; -o, -a and -u, too, where a command has them."""
    meanings = {}
    for command in COMMANDS:
        for letter, name, _ in options_of(command):
            if letter:
                meanings.setdefault(letter, set()).add(name)
    assert {letter: names for letter, names in meanings.items() if len(names) > 1} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_there_is_not_is_a_usage_error(command):
    done = harness.run([PFW, command, "--no-such-option"], status=125 if command == "run" else 2)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert "--no-such-option" in done.stderr


def is_made(name, page):
    """As it is installed; builds with sanitizers are not."""
    return harness.RUNTIME or (BUILD / "share/man/man1" / name).read_text() == page


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_page(command, tmp_path):
    page = pfw("help", "--format", "man", command)
    assert page.startswith(f'.TH "pfw-{command}" 1 ') and f"pfw\\-{command} \\- " in page
    plain = page.replace("\\-", "-").replace("\\e", "\\")
    for letter, name, argument in options_of(command):
        assert f"\\fB--{name}\\fR" in plain.replace(f"\\fB-{letter}\\fR, ", ""), name
        assert not argument or f"\\fI{argument}\\fR" in plain, name
    assert is_made(f"pfw-{command}.1", page)
    if shutil.which("groff"):
        (tmp_path / "page").write_text(page)
        done = harness.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", tmp_path / "page"],
                           status=None)
        assert "error" not in done.stderr


def test_manual_page_of_all():
    page = pfw("help", "--format", "man")
    assert all(f"pfw\\-{command}\\fR(1)" in page for command in COMMANDS)
    assert is_made("pfw.1", page)


@pytest.mark.parametrize("words, status, said", [
    (["help", "nonsense"], 2, "there is no command nonsense"),
    (["help", "--format"], 2, "none of text, man, rst"),
    (["help", "--format", "html", "run"], 2, "none of text, man, rst"),
    (["help", "--format", "rst", "run"], 2, "not of one"),
    (["completion"], 2, "bash, zsh or fish"),
    (["completion", "tcsh"], 2, "bash, zsh or fish"),
])
def test_what_there_is_not(words, status, said):
    done = harness.run([PFW, *words], status=status)
    assert said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
