"""What would otherwise be silent is said: a choice that matched nothing, a child that is not traced, runs left out.

And steps without variables: `pfw run --torch`, `--step`, `--steps`.
"""
import csv
import ctypes
import fcntl
import os
import pty
import re
import subprocess
import termios
import time

import pytest

import harness

TARGET = harness.BUILD / "tests" / "schedule_target"


def pfw(top, *words, status=0, **variables):
    top.mkdir(exist_ok=True)
    (top / "data").write_bytes(b"x" * 100)
    return harness.run([harness.PFW, *words], harness.clean_environment(**variables), top, status=status)


def steps_of(top):
    return sorted(line["args"]["step"] for path in harness.trace_names(top)
                  for line in harness.read_lines(top / path) if line["args"].get("kind") == "step")


# ---- steps ----

@pytest.mark.parametrize("asked, recorded", [("0-2", [0, 1, 2]), ("3-5", [3, 4, 5]), ("4", [4]), ("8-20", [8, 9])])
def test_steps_by_an_option(tmp_path, asked, recorded):
    pfw(tmp_path, "run", "-o", "t", "--steps", asked, "--step", "step", "--", TARGET, "named", "10", "step")
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert steps_of(tmp_path) == recorded
    assert [line["args"]["step"] for line in harness.events(lines, "work")] == recorded
    assert not [line for line in lines if line["args"].get("phase") == "warmup"]


@pytest.mark.parametrize("text", ["", "a", "5-3", "-3", "3-", "1-2-3", "99999999999-99999999999"])
def test_steps_that_are_none(tmp_path, text):
    said = pfw(tmp_path, "run", f"--steps={text}", "--", "true", status=125).stderr
    assert "--steps" in said and "10-20" in said


def test_torch_sets_both_variables(tmp_path):
    command = 'echo "$PFW_TORCH_OPS $PFW_STEP"'
    assert pfw(tmp_path, "run", "-q", "--torch", "--", "sh", "-c", command).stdout == "1 auto\n"
    assert pfw(tmp_path, "run", "-q", "--step", "mine", "--torch", "sh", "-c", command).stdout == "1 mine\n"
    assert pfw(tmp_path, "run", "-q", "--torch", "--step", "mine", "sh", "-c", command).stdout == "1 mine\n"


def test_no_steps_says_how_to_get_them(tmp_path):
    pfw(tmp_path, "run", "-o", "t", "--all", "--", "cat", "data")
    result = pfw(tmp_path, "overlap", "--steps", "t")
    assert "no steps" in result.stderr and "--torch" in result.stderr and "--step NAME" in result.stderr
    assert "Steps" not in result.stdout


@pytest.mark.parametrize("options, why", [
    (["--steps", "20-30", "--step", "step"], "reached none of the steps to record"),
    (["--schedule", "delay=1h,duration=1s"], "ended before PFW_SCHEDULE=delay=1h,duration=1s began"),
])
def test_nothing_recorded_names_the_true_cause(tmp_path, options, why):
    said = pfw(tmp_path, "run", "-o", "t", *options, "--", TARGET, "named", "3", "step").stderr
    assert why in said, said


# ---- what matched nothing ----

def test_a_call_that_there_is_not(tmp_path):
    said = pfw(tmp_path, "run", "-o", "t", "--all", "sh", "-c", "cat data", PFW_CALLS="open*,raed,write").stderr
    assert said.count("PFW_CALLS: no call is named raed; `pfw calls` lists all") == 1
    assert "PFW_CALLS" not in pfw(tmp_path, "run", "-o", "u", "--all", "cat", "data", PFW_CALLS="open*,read").stderr


@pytest.mark.parametrize("script", ["cat data u.tmp", "exec sh -c 'cat u.tmp; true'", "(cat u.tmp); exec true",
                                    "cat data; exec sh -c 'cat u.tmp; exit 0'"])
def test_a_path_that_there_is_not(tmp_path, script):
    (tmp_path / "u.tmp").write_text("x")

    def said(globs, **variables):
        return pfw(tmp_path, "run", "--all", "sh", "-c", script, PFW_EXCLUDE=globs, **variables).stderr
    text = said("*.tpm:*.tmp:u.*:/nowhere:")
    assert text.count("PFW_EXCLUDE: no file that the run used is matched by *.tpm, /nowhere\n") == 1, text
    assert "PFW_EXCLUDE" not in said("u.*:*.tmp")
    assert "PFW_EXCLUDE" not in said("*.tpm", DFTRACER_DISABLE_IO="1")
    many = said(":".join(f"x{number}" for number in range(70)) + ":*.tmp")
    assert "x0, " in many and "x62\n" in many, many  # the 64th and those after it share a mark


def test_a_program_that_there_is_not(tmp_path):
    def said(globs):
        return pfw(tmp_path, "run", "--all", "sh", "-c", "cat data; tail -1 data", PFW_CHILDREN=globs).stderr
    text = said("ct,cat,t*,,pyton*")
    assert text.count("PFW_CHILDREN: no program of the run is named ct, pyton*\n") == 1, text
    for globs in ("cat", "tail,*sh,cat", "none", "all"):
        assert "PFW_CHILDREN" not in said(globs), globs


def test_what_matched_in_a_forked_process(tmp_path):
    (tmp_path / "u.tmp").write_text("x")
    script = "import os\nif not os.fork(): open('u.tmp').close(); os._exit(0)\nos.wait()"
    variables = harness.clean_environment(DFTRACER_ENABLE="1", DFTRACER_INIT="PRELOAD", LD_PRELOAD=str(harness.PRELOAD),
                                          PFW_EXCLUDE="*.tmp:*.tpm")
    said = harness.run(["/usr/bin/python3", "-c", script], variables, tmp_path).stderr
    assert said.count("PFW_EXCLUDE: no file that the run used is matched by *.tpm\n") == 1, said


def test_a_step_that_there_is_not(tmp_path):
    words = ["run", "-o", "t", "--step", "Train*", "--", TARGET, "named", "3", "train"]
    assert "PFW_STEP: no steps: no span and no NVTX range had such a name" in pfw(tmp_path, *words).stderr
    words[4] = "train"
    assert "PFW_STEP" not in pfw(tmp_path, *words).stderr


def test_python_calls_without_the_option(tmp_path):
    assert "PFW_PY_CALLS does nothing without --py-calls" in \
        pfw(tmp_path, "run", "-o", "t", "true", PFW_PY_CALLS="main").stderr


# ---- the rest ----

def test_the_newest_run_of_several(tmp_path):
    for name in ("a", "b"):
        pfw(tmp_path, "run", "-o", name, "--all", "cat", "data")
    for command in ("table", "overlap", "patterns", "query", "validate", "index", "compact"):
        said = pfw(tmp_path, command).stderr
        assert "the newest run is taken" in said and "1 file of older runs left out" in said, command
        assert "left out" not in pfw(tmp_path, command, "b").stderr, command


def test_a_second_run_of_one_name_with_its_children(tmp_path):
    for cats in (1, 3):
        pfw(tmp_path, "run", "-o", "t", "--all", "sh", "-c", "cat data; " * cats + "true")
    done = pfw(tmp_path, "query", "t", "--cat", "pfw", "--name", "process", "--fields", "args.cmd")
    assert "2 files of older runs left out" in done.stderr and done.stdout.count("cat data\n") == 3, done
    # Named beside t.2, t is the first run alone.
    rows = csv.DictReader(pfw(tmp_path, "compare", "t", "t.2", "--format", "csv").stdout.splitlines())
    assert {(row["count_a"], row["count_b"]) for row in rows if row["name"] == "posix_fadvise"} == {("1", "3")}
    counts = [pfw(tmp_path, "query", "--count", *words).stdout.strip() for words in (("t.pfw", "t-*"), ("t.2",))]
    page = pfw(tmp_path, "report", "--against", "t", "t.2", "--format", "md").stdout
    assert re.findall(r"1 rank, (\d+) events", page) == counts[::-1], page


def test_an_untraced_child_in_the_summary(tmp_path):
    said = pfw(tmp_path, "run", "-o", "t", "--", "sh", "-c", "env -i cat data; cat data").stderr
    assert "1 child process not traced" in said and "PFW_FOLLOW=1" in said
    (words,) = re.findall(r"1 child process not traced: pfw (query .*) says why", said)
    why = pfw(tmp_path, *words.split(), "--fields", "args.why", "t").stdout.splitlines()
    assert why == ["args.why", "environment without LD_PRELOAD"]
    ends = [line["args"].get("untraced_children", 0) for name in harness.trace_names(tmp_path)
            for line in harness.read_lines(tmp_path / name) if line["name"] == "end"]
    assert sum(ends) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_of_a_user_who_can_make_no_trace(tmp_path):
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-r", os.environ["PFW_PRELOAD"]], check=False).returncode:
        pytest.skip("another user cannot read this build")
    said = pfw(tmp_path, "run", "--all", "-o", "t", *nobody, "cat", "/etc/hostname").stderr
    assert "cannot create the trace" in said and "1 child process not traced: pfw query " in said
    asked = pfw(tmp_path, "query", "--cat", "pfw", "--name", "untraced_child", "--fields", "args.why", "t")
    assert asked.stdout.splitlines()[1:] == ["its trace cannot be created: EACCES"]


@pytest.mark.parametrize("line", ["cat data | wc", "cat data", "cat data > out", "a && b"])
def test_a_line_for_a_shell(tmp_path, line):
    assert "pfw run sh -c" in pfw(tmp_path, "run", line, status=127).stderr


def test_binary_is_not_for_a_terminal(tmp_path):
    pfw(tmp_path, "run", "-o", "t", "--all", "cat", "data")
    ours, theirs = pty.openpty()
    done = subprocess.run([harness.PFW, "export", "--format", "perfetto", "-o", "-", "t.pfw"], stdout=theirs,
                          stderr=subprocess.PIPE, env=harness.clean_environment(), cwd=tmp_path, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2 and "not for a terminal" in done.stderr


# ---- why lines are read ----

def slowly(words, text):
    """Standard error of a command whose input comes in two halves, more than a second after it has taken the first."""
    with subprocess.Popen([harness.PFW, *words, "-"], env=harness.clean_environment(), stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        process.stdin.write(text[:len(text) // 2])
        process.stdin.flush()
        waits = ctypes.c_int(1)
        while waits.value:
            time.sleep(0.01)
            fcntl.ioctl(process.stdin, termios.FIONREAD, waits)
        time.sleep(1.2)
        _, said = process.communicate(text[len(text) // 2:], timeout=60)
        assert process.returncode == 0
        return said.decode()


@pytest.mark.parametrize("words, lacks", [
    (["table", "--group-by", "line"], "--group-by line"),
    (["table", "--where", "dur > 1"], "--where"),
    (["overlap", "--compute", "r*"], "--compute"),
    (["overlap", "--pid", "0-4000000"], "--pid"),
    (["patterns", "--name", "r*"], "--name"),
    (["patterns", "--small", "5"], "--alignment or --small"),
])
def test_what_takes_long_has_a_reason(tmp_path, words, lacks):
    pfw(tmp_path, "run", "-o", "t", "--all", "--", "cat", "data")
    text = b"".join((tmp_path / name).read_bytes() for name in harness.trace_names(tmp_path))
    assert slowly(words, text) == f"pfw {words[0]}: reading the lines: {lacks} is in no index\n"
    assert slowly([*words, "-q"], text) == slowly([*words, "--no-index"], text) == ""


def test_what_an_index_could_answer_needs_no_reason(tmp_path):
    pfw(tmp_path, "run", "-o", "t", "--all", "--", "cat", "data")
    text = b"".join((tmp_path / name).read_bytes() for name in harness.trace_names(tmp_path))
    for words in (["table"], ["overlap"], ["patterns"]):
        assert slowly(words, text) == ""
