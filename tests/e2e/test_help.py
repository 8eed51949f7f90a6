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


def complete(*words):
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    done = harness.run(["bash", "-c", f"source <('{PFW}' completion bash); COMP_WORDS=({line}); "
                        f"COMP_CWORD={len(words) - 1}; _pfw; printf '%s\\n' \"${{COMPREPLY[@]}}\""])
    return sorted(done.stdout.split())


def test_bash_completes_commands():
    assert complete("pfw", "") == sorted(COMMANDS + ["help"])
    assert complete("pfw", "va") == ["validate"]
    assert complete("pfw", "--v") == ["--version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_options(command):
    options = options_of(command)
    assert complete("pfw", command, "--") == sorted(f"--{name}" for _, name, _ in options)
    for letter, name, argument in options:
        if "|" in argument:
            words = sorted(argument.split("|"))
            assert complete("pfw", command, f"--{name}", "") == words
            assert not letter or complete("pfw", command, f"-{letter}", "") == words


def test_bash_completes_traces_and_words(tmp_path):
    for name in ("t.pfw", "u.pfw.gz", "u.pfw.gz.idx", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "dir").mkdir()
    assert complete("pfw", "query", f"{tmp_path}/") == \
        sorted(f"{tmp_path}/{name}" for name in ("t.pfw", "u.pfw.gz", "dir"))
    assert complete("pfw", "ctl", "1", "st") == ["start", "status", "step", "stop"]
    assert complete("pfw", "completion", "") == ["bash", "fish", "zsh"]


def test_values_are_completed():
    """Of formats and keys, in every shell; each of them is one that the command takes."""
    assert complete("pfw", "overlap", "--format", "") == ["csv", "md", "ndjson", "text"]
    assert {"name", "fname", "rank", "step"} <= set(complete("pfw", "table", "-g", ""))
    keys = complete("pfw", "table", "--sort-by", "")
    assert len(keys) > 20
    for key in keys:
        done = harness.run([PFW, "table", "--sort-by", key, "/nonexistent"], status=None)
        assert "no such key" not in done.stderr
    assert complete("pfw", "export", "--format", "c") == ["chrome", "csv"]
    assert "(text md ndjson csv)" in pfw("completion", "zsh")
    assert "-a 'text md ndjson csv'" in pfw("completion", "fish")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_theirs(shell, tmp_path):
    script = pfw("completion", shell)
    for command in COMMANDS:
        for _, name, _ in options_of(command):
            assert name == "help" or re.search(rf"(--|-l ){name}\b", script), (command, name)
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        harness.run([shell, "-n", tmp_path / "script"])


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
