"""Completion in bash, zsh and fish as people have it, at a terminal: options, their values, files, programs, processes."""
import os
import pty
import re
import shutil
import subprocess
import time

import pytest

import harness
from test_help import COMMANDS, options_of, pfw

FILES = {"t.pfw", "u.pfw.gz", "x.partial", "notes.txt", "dir"}
TRACES = FILES - {"notes.txt"}
# Arguments that nothing can be offered for, or only where it says so: numbers, times, patterns, names of the trace.
FREE = {"N", "TIME", "GLOB", "LIST", "EXPR", "BYTES", "PERCENT", "BINS", "SECONDS", "NAME", "A-B", "WHAT", "K", "KEY"}
OF_FILES = {"FILE", "DIR", "DIRS", "BASE", "DIR|FILE", "OLD", "S"}

# Ctrl-T writes what is offered for the line, then END, and empties the line.
BASH = r"""
PS1= PROMPT_COMMAND= HISTFILE=
source .here/script
bind 'set bell-style none'
bind '"\C-x1": insert-completions'
bind -x '"\C-x2": { printf "%s\n" "$READLINE_LINE"; echo END; } >>.here/offered; READLINE_LINE='
bind '"\C-t": "\C-x1\C-x2"'
echo END >>.here/offered
"""
ZSH = r"""
PS1= PROMPT_EOL_MARK= fpath=($PWD/.here $fpath)
autoload -U compinit && compinit -u -D
zstyle ':completion:*' list-prompt ''
LISTMAX=9999
compadd() {
    local -a hits
    [[ " ${(j: :)@[1,(i)(-|--)]}" == *\ -[OAD]* ]] && { builtin compadd "$@"; return }
    builtin compadd -O hits "$@"
    print -rl -- $hits >>.here/offered
    builtin compadd "$@"
}
offer() { zle complete-word; echo END >>.here/offered; zle kill-whole-line; zle -R }
zle -N offer
bindkey '^T' offer
echo END >>.here/offered
"""


class Terminal:
    """A shell at a terminal, asked line by line what it offers behind it."""

    def __init__(self, shell, top):
        self.shell, self.top, self.at = shell, top, 0
        here = top / ".here"
        here.mkdir()
        self.offered = here / "offered"
        self.offered.write_text("")
        (here / {"zsh": "_pfw"}.get(shell, "script")).write_text(pfw("completion", shell))
        if shell == "fish":
            return
        (here / "setup").write_text({"bash": BASH, "zsh": ZSH}[shell])
        child, self.side = pty.fork()
        if child == 0:
            os.chdir(top)
            words = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
            os.execvpe(shell, words, {**harness.clean_environment(), "TERM": "dumb", "HOME": str(top), "LC_ALL": "C.UTF-8"})
        self.child = child
        self.send(". .here/setup\n")

    def send(self, text):
        os.write(self.side, text.encode())
        os.set_blocking(self.side, False)
        for _ in range(6000):
            try:
                os.read(self.side, 1 << 16)
            except BlockingIOError:
                pass
            new = self.offered.read_text()[self.at:]
            if new.endswith("END\n"):
                self.at += len(new)
                return new[:-4]
            time.sleep(0.005)
        raise AssertionError(f"{self.shell}: no answer to {text!r}")

    def offers(self, line):
        if self.shell == "fish":
            env = {**harness.clean_environment(), "HOME": str(self.top), "LC_ALL": "C.UTF-8"}
            lines = line if isinstance(line, list) else [line]
            text = harness.run(["fish", "--no-config", "-c", "source .here/script; for l in $argv; complete -C $l; echo END; end",
                                *lines], env, self.top).stdout
            sets = [{row.split("\t")[0].rstrip("/").split("=")[-1] for row in part.splitlines()}
                    for part in text.split("END\n")[:-1]]
            return sets if isinstance(line, list) else sets[0]
        if isinstance(line, list):
            return [self.offers(one) for one in line]
        answer = self.send(line + "\x14")
        if self.shell == "bash":
            typed = line.rsplit(" ", 1)[0]
            assert answer.startswith(typed), (line, answer)
            answer = answer[len(typed):].replace(" ", "\n")
            if answer.strip() == line.rsplit(" ", 1)[1]:
                answer = ""  # nothing: as it was typed
        return {word.rstrip("/") for word in answer.split()}

    def close(self):
        if self.shell != "fish":
            os.close(self.side)
            os.waitpid(self.child, 0)


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request, tmp_path_factory):
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} here")
    top = tmp_path_factory.mktemp(request.param)
    for name in FILES - {"dir"}:
        (top / name).write_text("")
    (top / "dir").mkdir()
    terminal = Terminal(request.param, top)
    yield terminal
    terminal.close()


def test_commands_and_options(shell):
    lines = ["pfw ", "pfw va", "pfw help "] + [f"pfw {command} --" for command in COMMANDS]
    offered = shell.offers(lines)
    assert offered[0] - FILES == {*COMMANDS, "help"} and offered[1] == {"validate"} and offered[2] >= set(COMMANDS)
    for command, found in zip(COMMANDS, offered[3:]):
        missing = {f"--{name}" for _, name, _ in options_of(command)} - {"--help"} - {word.rstrip("=") for word in found}
        assert not missing, command


def test_values(shell):
    """Of every option that takes something, in both its forms."""
    options = [(command, *row) for command in COMMANDS for row in options_of(command) if row[2]]
    lines = [f"pfw {command} --{name} " for command, _, name, _ in options]
    wrong = []
    for (command, letter, name, argument), found in zip(options, shell.offers(lines)):
        if argument in OF_FILES:
            right = found >= FILES if argument != "DIRS" else "dir" in found
        elif "|" in argument:
            right = found == set(argument.split("|"))
        elif name in ("sort-by", "columns", "group-by", "cat", "fields", "keep", "level", "compat"):
            right = bool(found) and not found & FILES
        else:
            right = argument in FREE and not found & FILES
        if not right:
            wrong.append((command, name, argument, found))
    assert not wrong and len(options) > 120


def test_forms_of_values(shell):
    lines = ["pfw query --format=t", "pfw table -g name,ra", "pfw query -f x --format n", "pfw compare -g ra", "pfw compact --level ",
             "pfw export --format c"]
    found = shell.offers(lines)
    found[1] = {word.rsplit(",")[-1] for word in found[1]}
    assert [{word.rsplit("=")[-1] for word in one} for one in found] == \
        [{"tsv"}, {"rank"}, {"ndjson"}, {"rank"}, set("123456789"), {"chrome", "csv"}]


def test_operands(shell):
    """Files for every command that takes some, programs, processes, words."""
    usage = {command: re.match(r"usage: pfw \S+ \[options\] ?(.*)", pfw(command, "--help")).group(1) for command in COMMANDS}
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        offered = shell.offers([f"pfw {command} " for command in COMMANDS])
    finally:
        sleeper.kill()
        sleeper.wait()
    for command, found in zip(COMMANDS, offered):
        operands = usage[command]
        if "PATH" in operands or operands.startswith("A B"):
            assert found >= TRACES and ("notes.txt" not in found or shell.shell == "fish"), command
        elif "PROGRAM" in operands:
            assert {"sh", "ls"} <= found, command
        elif "FILE" in operands or operands == "[SCHEDULE]":
            assert found >= FILES, command
        elif "PID" not in operands:
            assert not found & FILES and found >= set(operands.split("|")) - {""}, command
        if "PID" in operands:
            assert str(sleeper.pid) in found, command
    assert shell.offers("pfw ctl 1 st") == {"start", "status", "step", "stop"}
    assert shell.offers("pfw run -o t -- cat no") == {"notes.txt"}
    assert shell.offers("pfw run -o t l") >= {"ls"}


def test_values_are_such_that_the_command_takes(shell):
    if shell.shell != "bash":
        pytest.skip("the values are the same")
    for command, option in [("table", "sort-by"), ("table", "columns"), ("table", "group-by"), ("compare", "group-by"),
                            ("query", "fields"), ("anonymise", "keep"), ("compact", "level")]:
        values = shell.offers(f"pfw {command} --{option} ")
        assert len(values) > 1
        for value in values:
            said = harness.run([harness.PFW, command, f"--{option}", value, "/no", "/no"], status=None).stderr
            assert "/no" in said or "new directory: give -o" in said, (command, option, value)
