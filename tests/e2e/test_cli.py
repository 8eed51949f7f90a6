"""The `pfw` command: help, errors, exit codes, `run` with real programs, `validate`, `repair`."""
import contextlib
import ctypes
import fcntl
import gzip
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import time
import zlib
from pathlib import Path

import pytest

PFW = os.environ["PFW_BIN"]
LIB = Path(os.environ["PFW_LIB_DIR"])
COMMANDS = ["run", "validate", "repair", "doctor", "config", "calls", "schedule", "ctl", "query", "overlap",
            "index", "compact", "completion"]
PYTHON = "/usr/bin/python3"


def clean_env(**more):
    """The environment without what would configure the recorder or colour the output."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("PFW_", "DFTRACER_", "SLURM_", "LD_PRELOAD", "VIRTUAL_ENV"))
           and key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    # A python3 on the PATH may be a shell script that starts a dozen programs.
    env["PATH"] = "/usr/bin:/bin"
    env.update(more)
    return env


def pfw(*words, cwd=None, env=None, stdin=subprocess.DEVNULL, binary=PFW):
    return subprocess.run([str(binary), *map(str, words)], cwd=cwd, env=env or clean_env(),
                          stdin=stdin, capture_output=True, text=True, timeout=120)


def lines_of(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt") as file:
        return [json.loads(line) for line in file]


# ---- help, usage, unknown commands ----

def test_help_lists_every_command():
    done = pfw("--help")
    assert done.returncode == 0 and done.stderr == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", done.stdout, re.M)
    assert pfw("-h").stdout == pfw("help").stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    done = pfw(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"usage: pfw {command} [options]")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert pfw(command, "-h").stdout == pfw("help", command).stdout == done.stdout


def test_version_is_the_header_s():
    done = pfw("--version")
    assert re.fullmatch(r"pfw \d+\.\d+\.\d+\n", done.stdout) and done.returncode == 0


def test_no_command_is_a_usage_error():
    done = pfw()
    assert done.returncode == 2 and done.stdout == "" and "usage: pfw" in done.stderr


@pytest.mark.parametrize("word, message", [
    ("validat", "did you mean validate?"),
    ("rnu", "did you mean run?"),
    ("record", "it is called run here"),
    ("stats", "it is called table here"),
    ("frobnicate", "no pfw-frobnicate on the PATH"),
    ("--frobnicate", "no option --frobnicate"),
    ("two\nlines", "there is no command two\\x0alines"),
])
def test_unknown_command(word, message):
    done = pfw(word)
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_unknown_command_runs_a_program_of_that_name(tmp_path):
    script = tmp_path / "pfw-hello"
    script.write_text("#!/bin/sh\necho \"$@\"\nexit 7\n")
    script.chmod(0o755)
    done = pfw("hello", "a b", "--help", env=clean_env(PATH=f"{tmp_path}:/usr/bin:/bin"))
    assert (done.returncode, done.stdout) == (7, "a b --help\n")
    done = pfw("help", "hello", env=clean_env(PATH=f"{tmp_path}:/usr/bin:/bin"))
    assert (done.returncode, done.stdout) == (7, "--help\n")


def test_commands_of_the_python_package_say_how_to_get_them():
    for words in (["view", "t"], ["help", "view"]):
        done = pfw(*words, env=clean_env(PATH="/usr/bin:/bin"))
        assert done.returncode == 2 and "pip install 'pfwtrace[view]'" in done.stderr, done


@pytest.mark.parametrize("words, status, message", [
    (["validate", "--fromat", "x"], 2, "did you mean --format?"),
    (["validate", "-x"], 2, "there is no option -x"),
    (["validate", "--format"], 2, "--format needs text|ndjson after it"),
    (["validate", "--format=xml"], 2, "none of text, ndjson"),
    (["validate", "--quiet=yes"], 2, "this option takes no argument: --quiet=yes"),
    (["calls", "--format", "rts"], 2, "none of text, ndjson, rst"),
    (["calls", "extra"], 2, "no operand"),
    (["repair"], 2, "or --all"),
    (["run"], 125, "no program to run"),
    (["run", "--frob", "true"], 125, "there is no option --frob"),
    (["run", "-o"], 125, "--output needs BASE"),
    (["run", "-o", "x/", "true"], 125, "-o wants a base name"),
    (["run", "-o", ".", "true"], 125, "-o wants a base name"),
    (["run", "-o", "x/..", "true"], 125, "-o wants a base name"),
    (["run", "--compat", "other", "true"], 125, "replaces only dftracer"),
    (["run", "--schedule", "wait=1", "true"], 125, "wants active=N"),
    (["schedule", "wait=1"], 2, "wants active=N"),
    (["schedule", "--active=1", "range"], 2, "give one schedule"),
    (["schedule", "range", "range"], 2, "give one schedule"),
])
def test_usage_errors(words, status, message):
    done = pfw(*words)
    assert done.returncode == status and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_no_escape_sequences_unless_it_is_a_terminal(tmp_path):
    assert "\033" not in pfw("run", "cat", "/dev/null", cwd=tmp_path).stderr
    for env, coloured in ((clean_env(TERM="xterm"), True),
                          (clean_env(TERM="xterm", NO_COLOR="1"), False),
                          (clean_env(TERM="dumb"), False)):
        parent, child = pty.openpty()
        subprocess.run([PFW, "doctor"], stdout=child, env=env, cwd=tmp_path, check=False)
        os.close(child)
        assert (b"\033[" in os.read(parent, 65536)) == coloured
        os.close(parent)


# ---- run: what runs, and its status ----

@pytest.mark.parametrize("words, status", [
    (["true"], 0),
    (["--", "true"], 0),
    (["false"], 1),
    (["sh", "-c", "exit 42"], 42),
    (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
    (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
    (["no-such-program"], 127),
    (["./no-such-program"], 127),
    (["./plain.txt"], 126),
    (["./"], 126),
    (["./bad-interpreter"], 127),
])
def test_exit_status(tmp_path, words, status):
    (tmp_path / "plain.txt").write_text("text\n")
    bad = tmp_path / "bad-interpreter"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    done = pfw("run", *words, cwd=tmp_path)
    assert done.returncode == status
    if status in (126, 127):
        assert done.stderr.startswith("pfw run: ") and done.stderr.count("\n") == 1


def test_a_program_of_this_directory_is_suggested(tmp_path):
    program = tmp_path / "here"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "did you mean ./here?" in pfw("run", "here", cwd=tmp_path).stderr


def test_output_and_input_are_the_program_s(tmp_path):
    done = subprocess.run([PFW, "run", "-q", "--", "sh", "-c", "cat; echo err >&2"], input="in\n",
                          cwd=tmp_path, env=clean_env(), capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("in\n", "err\n", 0)


def test_options_end_where_the_program_begins(tmp_path):
    done = pfw("run", "-q", "echo", "-o", "--", "-q", "--help", cwd=tmp_path)
    assert done.stdout == "-o -- -q --help\n"


@pytest.mark.parametrize("words, base", [
    (["train.py", "a"], "train"),
    (["./sub/train.py", "a"], "train"),
    (["-m", "pkg", "a"], "pkg"),
    ([PYTHON, "-u", "train.py", "a"], "train"),
    ([PYTHON, "-m", "pkg", "a"], "pkg"),
])
def test_python(tmp_path, words, base):
    text = "import sys; open('data.txt', 'w').write('x'); print(sys.argv[1:])\n"
    (tmp_path / "sub").mkdir()
    for name in ("train.py", "sub/train.py", "pkg.py"):
        (tmp_path / name).write_text(text)
    done = pfw("run", *words, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "['a']\n"
    events = lines_of(tmp_path / f"{base}.pfw")
    assert any(e["args"].get("fname") == str(tmp_path / "data.txt") for e in events)


def test_an_executable_script_keeps_its_interpreter(tmp_path):
    script = tmp_path / "tool.py"
    script.write_text("#!/bin/sh\necho shell\n")
    script.chmod(0o755)
    assert pfw("run", "-q", "./tool.py", cwd=tmp_path).stdout == "shell\n"


# ---- run: names ----

def test_a_free_name_is_picked(tmp_path):
    (tmp_path / "f").write_text("x")
    for expected in ("cat.pfw", "cat.2.pfw", "cat.3.pfw"):
        assert f"{expected} (" in pfw("run", "cat", "f", cwd=tmp_path).stderr
    (tmp_path / "t-rank0001.pfw.gz").write_text("")
    pfw("run", "-o", "t.pfw.gz", "cat", "f", cwd=tmp_path)
    assert lines_of(tmp_path / "t.2.pfw.gz")[0]["name"] == "process"
    assert not (tmp_path / "t.pfw.gz").exists()


def test_output_names(tmp_path):
    (tmp_path / "f").write_text("x")
    pfw("run", "-z", "-o", "new/a", "cat", "f", cwd=tmp_path)
    assert lines_of(tmp_path / "new/a.pfw.gz")[-1]["name"] == "end"
    pfw("run", "-o", "b-%%-%q{WORD}", "cat", "f", cwd=tmp_path, env=clean_env(WORD="w"))
    assert (tmp_path / "b-%-w.pfw").exists()
    done = pfw("run", "-o", "no/such/c", "cat", "f", cwd=tmp_path)
    assert done.returncode == 125 and "no/such/c" in done.stderr
    done = pfw("run", "-o", "f/t", "cat", "f", cwd=tmp_path)
    assert done.returncode == 125 and "f/t: Not a directory" in done.stderr


@pytest.mark.parametrize("given", ["new/", ".", "..", "../here/.."])
def test_a_directory_in_the_variable_gets_a_trace(tmp_path, given):
    here = tmp_path / "here"
    here.mkdir()
    (here / "f").write_text("x")
    done = pfw("run", "cat", "f", cwd=here, env=clean_env(DFTRACER_LOG_FILE=given))
    assert f"pfw: {os.path.join(given, 'trace.pfw')} (" in done.stderr
    assert (here / given / "trace.pfw").exists()


def test_the_current_directory_is_gone(tmp_path):
    (tmp_path / "f").write_text("x")

    def run(*options):
        words = [PFW, "run", *options, "cat", tmp_path / "f"]
        (tmp_path / "gone").mkdir()
        return subprocess.run(["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *map(str, words)], cwd=tmp_path / "gone",
                              env=clean_env(), capture_output=True, text=True, check=False)

    for options in (["-o", "t"], ["--data-dir", "x", "-o", tmp_path / "t"]):
        done = run(*options)
        assert (done.returncode, done.stdout) == (125, "") and "the current directory is not there" in done.stderr
    for name in ("t.pfw", "t.2.pfw"):
        done = run("-o", tmp_path / "t")
        assert (done.returncode, done.stdout) == (0, "x") and f"pfw: {tmp_path / name} (" in done.stderr


@pytest.mark.parametrize("output, shown", [
    ("t", "t.pfw"), ("a%%b", "a%b.pfw"), ("a%%b.pfw.gz", "a%b.pfw.gz"), (None, "cat.pfw"), ("-d", "-d.pfw"),
    ("runs%%/[%q{WORD}]/t", "runs%/[w]/t.pfw"), ("runs/%q{WORD}-%p/t", "runs/*/t.pfw"), ("%q{WORD}/%p", "w/*.pfw")])
def test_percent_signs_in_names(tmp_path, output, shown):
    """Those of a directory are no words, of a base they are; either way the traces are found where they are."""
    here = tmp_path / "100%p [x]"
    here.mkdir()
    (here / "f").write_text("x")
    for commands in ("cat f", "cat f; cat f >/dev/null"):
        words = ["run", *(["-o", output] if output else []), "--", *(["cat", "f"] if commands == "cat f" else
                                                                     ["sh", "-c", commands])]
        done = pfw(*words, cwd=here, env=clean_env(WORD="w"))
        assert done.returncode == 0 and " events of " in done.stderr, done.stderr
        report = re.search("next: pfw report (.*)   or: pfw table", done.stderr)[1]
        table = subprocess.run(["sh", "-c", f'"$0" table --plain {report}', PFW], cwd=here, env=clean_env(),
                               capture_output=True, text=True, check=True)
        assert f"events of {'1 process' if commands == 'cat f' else '3 processes'}" in done.stderr and "read" in table.stdout
    assert list(here.glob(shown.replace("[", "[[]"))) and [entry.name for entry in tmp_path.iterdir()] == [here.name]


def test_the_variable_names_the_trace_and_the_option_beats_it(tmp_path):
    (tmp_path / "f").write_text("x")
    env = clean_env(DFTRACER_LOG_FILE="variable")
    pfw("run", "cat", "f", cwd=tmp_path, env=env)
    assert (tmp_path / "variable.pfw").exists()
    pfw("run", "-o", "option", "cat", "f", cwd=tmp_path, env=env)
    assert (tmp_path / "option.pfw").exists()


def test_ranks_have_a_directory_of_their_own(tmp_path):
    (tmp_path / "f").write_text("x")
    done = [pfw("run", "cat", "f", cwd=tmp_path,
                env=clean_env(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2"))
            for rank in range(2)]
    (directory,) = tmp_path.glob("cat-*")
    assert sorted(p.name for p in directory.iterdir()) == ["cat-rank0000.pfw", "cat-rank0001.pfw"]
    runs = {lines_of(path)[0]["args"]["run"] for path in directory.iterdir()}
    assert len(runs) == 1
    assert "(1 of 2 ranks finished so far)" in done[0].stderr and done[1].stderr == ""
    done = pfw("run", "-o", "one", "cat", "f", cwd=tmp_path, env=clean_env(RANK="0", WORLD_SIZE="2", PFW_RANKS="0"))
    assert "(1 of 2 ranks; PFW_RANKS chooses)" in done.stderr


# ---- run: what it says ----

def test_the_end_message(tmp_path):
    (tmp_path / "f").write_text("x")
    done = pfw("run", "sh", "-c", "cat f; exit 3", cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert len(lines) == 6 and all(line.startswith("pfw: ") for line in lines)
    trace = tmp_path / re.search(r"^pfw: (\S+)\*?,? ", lines[3]).group(1)
    events = sum(e["ph"] != "M" for path in tmp_path.glob("sh*.pfw") for e in lines_of(path))
    assert lines[0].startswith(f"pfw: {events} events of ")
    left_out = sum(sum(e["args"].values()) for path in tmp_path.glob("sh*.pfw")
                   for e in lines_of(path) if e["name"] == "excluded")
    assert re.fullmatch(f"pfw: {left_out} calls? on other files left out: --all records all of "
                        "them", lines[1])
    assert lines[2] == "pfw: nothing lost"
    assert lines[4] == "pfw: sh ended with exit status 3"
    assert trace.name.startswith("sh")
    for command in lines[5].removeprefix("pfw: next: ").split("   or: "):
        done = subprocess.run(re.sub("^pfw", PFW, command), shell=True, cwd=tmp_path,
                              capture_output=True, text=True)
        said = done.stderr if command.startswith("pfw report") else done.stdout
        assert done.returncode == 0 and re.search("read|report.html", said.lower()), command


def test_five_lines_where_all_went_well(tmp_path):
    (tmp_path / "f").write_text("x")
    done = pfw("run", "--all", "cat", "f", cwd=tmp_path)
    words = ("events of 1 process in", "nothing left out", "nothing lost", "cat.pfw (", "next: pfw")
    lines = done.stderr.splitlines()
    assert len(lines) == 5 and all(word in line for word, line in zip(words, lines)), lines


def test_the_next_command_works_as_it_is_printed(tmp_path):
    (tmp_path / "it's a file").write_text("x")
    for more in ([], ["-z"]):
        done = pfw("run", *more, "-o", "my trace", "cat", "it's a file", cwd=tmp_path)
        report, table, jq = (subprocess.run(re.sub("^pfw", PFW, command), shell=True, cwd=tmp_path,
                                    capture_output=True, text=True).stdout
                     for command in done.stderr.splitlines()[-1].removeprefix("pfw: next: ")
                     .split("   or: "))
        assert report == "" and (tmp_path / "report.html").stat().st_size > 10_000
        assert re.search(r"^ *open\S* +1 ", table, re.M), table
        assert re.search(rf"^open\S*\t{tmp_path}/it's a file\t\d+$", jq, re.M)


def test_nothing_recorded_says_why(tmp_path):
    done = pfw("run", "true", cwd=tmp_path)
    assert "nothing was recorded" in done.stderr and "pfw run --all" in done.stderr
    assert list(tmp_path.iterdir()) == []
    source = tmp_path / "s.c"
    source.write_text("int main(void) { return 5; }\n")
    subprocess.run(["cc", "-static", "-o", "s", "s.c"], cwd=tmp_path, check=True)
    done = pfw("run", "./s", cwd=tmp_path)
    assert done.returncode == 5 and "linked statically" in done.stderr


@pytest.mark.parametrize("words, line", [
    (["srun", "-n", "4", "python3", "train.py"], "srun -n 4 pfw run python3 train.py"),
    (["srun", "--ntasks=4", "cat", "x"], "srun --ntasks=4 pfw run cat x"),
    (["/usr/bin/docker", "run", "-it", "--rm", "image", "ls", "/"],
     "/usr/bin/docker run -it --rm image pfw run ls /"),
    (["apptainer", "exec", "-B", "/data", "x.sif", "train"],
     "apptainer exec -B /data x.sif pfw run train"),
    (["sbatch", "job.sh"], "inside the batch script"),
    (["kubectl", "apply", "-f", "x"], "in the container's command"),
])
def test_in_front_of_what_runs_elsewhere(tmp_path, words, line):
    done = pfw("run", *words, cwd=tmp_path)
    assert done.returncode == 125 and line in done.stderr and done.stderr.count("\n") == 1


# ---- run: the environment ----

def test_variables(tmp_path):
    code = "import os; print(*(os.environ.get(n) for n in os.environ['ASK'].split()), sep='\\n')"
    ask = "DFTRACER_ENABLE DFTRACER_INIT DFTRACER_LOG_FILE DFTRACER_DATA_DIR PFW_RUN LD_PRELOAD"

    def values(*options, **env):
        done = pfw("run", "-q", *options, PYTHON, "-c", code, cwd=tmp_path,
                   env=clean_env(ASK=ask, **env))
        return dict(zip(ask.split(), done.stdout.splitlines()))

    got = values("-o", "t", "--data-dir", "data:/abs", LD_PRELOAD="libm.so.6")
    assert got["DFTRACER_ENABLE"] == "1" and got["DFTRACER_INIT"] == "PRELOAD"
    assert got["DFTRACER_LOG_FILE"] == str(tmp_path / "t")
    assert got["DFTRACER_DATA_DIR"] == f"{tmp_path}/data:/abs"
    assert got["LD_PRELOAD"].endswith("libpfw_preload.so:libm.so.6")
    assert values("--all")["DFTRACER_DATA_DIR"] == "all"
    assert values()["PFW_RUN"] != values()["PFW_RUN"]
    assert values(PFW_RUN="mine")["PFW_RUN"] == "mine"


def test_nested_runs(tmp_path):
    (tmp_path / "f").write_text("x")
    done = pfw("run", "-o", "outer", "sh", "-c", f"{PFW} run cat f; cat f", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "xx"
    assert done.stderr.count("nothing lost") == 1  # the outer run speaks for all
    files = list(tmp_path.glob("*.pfw"))
    assert all(file.name.startswith("outer") for file in files)
    assert len({lines_of(file)[0]["args"]["run"] for file in files}) == 1
    cats = [file for file in files if lines_of(file)[0]["args"]["cmd"] == "cat f"]
    assert len(cats) == 2
    done = pfw("run", "-o", "a", "sh", "-c", f"{PFW} run -o b cat f", cwd=tmp_path)
    assert "b" in done.stderr and list(tmp_path.glob("b*.pfw"))


@pytest.mark.parametrize("name", ["a b", "a:b"])
def test_a_path_that_the_loader_would_split(tmp_path, name):
    place = tmp_path / name
    (tmp_path / "f").write_text("x")
    (place / "bin").mkdir(parents=True)
    shutil.copy(PFW, place / "bin/pfw")
    shutil.copytree(LIB, place / "lib")
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    done = pfw("run", "-o", "t", "cat", "f", cwd=tmp_path, binary=place / "bin/pfw",
               env=clean_env(TMPDIR=str(tmp)))
    assert done.returncode == 0 and done.stdout == "x" and "nothing lost" in done.stderr
    assert lines_of(tmp_path / "t.pfw")[-1]["name"] == "end"
    assert list(tmp.iterdir()) == []  # the link is gone


def test_without_the_preload_object(tmp_path):
    shutil.copy(PFW, tmp_path / "pfw")
    done = pfw("run", "true", cwd=tmp_path, binary=tmp_path / "pfw")
    if not any(Path(p, "libpfw_preload.so").exists() for p in ("/usr/lib", "/usr/local/lib")):
        assert done.returncode == 125 and "libpfw_preload.so is neither" in done.stderr
        done = pfw("doctor", cwd=tmp_path, binary=tmp_path / "pfw")
        assert done.returncode == 1 and "WRONG preload" in done.stdout


# ---- run: signals ----

CATCHER = """
import signal, sys, time
got = []
for number in (1, 2, 3, 10, 12, 15, 28):
    signal.signal(number, lambda n, _: got.append(n))
print("ready", flush=True)
while not got:
    time.sleep(0.01)
time.sleep(0.3)
print(*got, flush=True)
sys.exit(9)
"""


def start(words, **more):
    process = subprocess.Popen([PFW, "run", "-q", *words], env=clean_env(), text=True,
                               stdout=subprocess.PIPE, **more)
    assert process.stdout.readline() == "ready\n"
    return process


def test_these_tests_may_run_in_the_background():
    """A shell starts them with both signals ignored there, which programs inherit; each test of them would hang."""
    ignored = "trap '' INT QUIT; exec \"$@\""
    look = "import harness, signal; print(*(signal.getsignal(n) is signal.SIG_IGN for n in (2, 3)))"
    done = subprocess.run(["sh", "-c", ignored, "sh", PYTHON, "-c", look], cwd=Path(__file__).parent, text=True,
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize("number", [1, 2, 3, 10, 12, 15, 28])
def test_signals_reach_the_program_once(tmp_path, number):
    process = start([PYTHON, "-c", CATCHER], cwd=tmp_path)
    process.send_signal(number)
    out, _ = process.communicate(timeout=300)
    assert (out, process.returncode) == (f"{number}\n", 9)


def test_an_interrupt_from_the_terminal_arrives_once(tmp_path):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(PFW, [PFW, "run", "-q", PYTHON, "-c", CATCHER], clean_env())
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while True:
            said += os.read(terminal, 1000)
    except OSError:  # EIO: the last process of the terminal is gone
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 9
    assert said.endswith(b"2\r\n") and b"2 2" not in said


def test_nohup_is_left_alone(tmp_path):
    process = start([PYTHON, "-c", "print('ready', flush=True); input(); print('alive')"],
                    cwd=tmp_path, stdin=subprocess.PIPE,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate("\n", timeout=300)
    assert (out, process.returncode) == ("alive\n", 0)


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def wait_for_state(pid, stopped):
    for _ in range(1000):
        if (state_of(pid) == "T") == stopped:
            return True
        time.sleep(0.01)
    return False


def test_stop_and_continue(tmp_path):
    code = "import os; print('ready', flush=True); print(os.getpid(), flush=True); input()"
    process = start([PYTHON, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE,
                    preexec_fn=os.setpgrp)
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    assert wait_for_state(child, True) and wait_for_state(process.pid, True)
    process.send_signal(signal.SIGCONT)
    assert wait_for_state(child, False) and wait_for_state(process.pid, False)
    process.communicate("\n", timeout=300)
    assert process.returncode == 0


# ---- repair ----

LOOP = """
import os
file = os.open("data", os.O_RDWR | os.O_CREAT)
for n in range(5000):
    os.pwrite(file, b"x", n)
print("ready", flush=True)
input()
"""


def direct_env(base, **more):
    return clean_env(DFTRACER_ENABLE="1", DFTRACER_INIT="PRELOAD", DFTRACER_LOG_FILE=str(base),
                     LD_PRELOAD=str(LIB / "libpfw_preload.so"), **more)


@pytest.fixture
def killed(tmp_path):
    """A trace whose process was killed after 5,000 writes, and nobody has adopted it."""
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen([PYTHON, "-c", LOOP], cwd=tmp_path, text=True,
                               env=direct_env(tmp_path / "t", PFW_SPOOL_DIR=str(spool)),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    yield process, tmp_path / "t.pfw", clean_env(PFW_SPOOL_DIR=str(spool))
    process.kill()
    process.wait()


def test_repair_leaves_a_living_process_alone(killed):
    process, trace, env = killed
    for _ in range(1000):
        if trace.exists():
            break
        time.sleep(0.01)
    done = pfw("repair", trace, env=env)
    assert done.returncode == 1 and str(trace) in done.stderr
    process.kill()
    process.wait()


def test_repair_finishes_the_trace(killed):
    process, trace, env = killed
    process.kill()
    process.wait()
    if trace.exists():
        assert "not finished" in pfw("validate", trace, env=env).stdout
    done = pfw("repair", trace, env=env)
    assert done.returncode == 0, done.stderr
    assert f"{trace}: " in done.stdout and "nothing lost" in done.stdout
    done = pfw("validate", trace, env=env)
    assert done.returncode == 0, done.stdout
    events = lines_of(trace)
    assert sum(e["name"] == "pwrite" for e in events) == 5000
    assert events[-1]["args"]["reason"] == "recovered"
    assert "nothing to do" in pfw("repair", trace, env=env).stdout


def test_repair_names_the_spool_of_another_version(killed):
    """It cannot be read, but must not be taken for one that is not there."""
    process, trace, env = killed
    for _ in range(1000):
        if trace.exists():
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    (spool,) = (trace.parent / "spool").iterdir()
    content = bytearray(spool.read_bytes())
    content[8] += 1  # of the version, behind the magic
    spool.write_bytes(content)
    done = pfw("repair", trace, env=env)
    assert done.returncode == 2 and "layout is version" in done.stderr
    assert "no spool" not in done.stderr and spool.exists()


def test_repair_of_many_traces(tmp_path):
    """Each is judged by itself, also where one directory holds their spools."""
    code = LOOP.replace("input()", "os.kill(os.getpid(), 9)")
    spools = tmp_path / "spools"
    spools.mkdir()
    for name in ("a", "b"):
        subprocess.run([PYTHON, "-c", code], cwd=tmp_path, check=False, stdout=subprocess.DEVNULL,
                       env=direct_env(tmp_path / name, PFW_SPOOL_DIR=str(spools)))
    whole = process_line() + end_line(2, 0)
    for number in range(200):
        (tmp_path / f"whole{number:03}.pfw").write_text(whole)
    done = pfw("repair", tmp_path, env=clean_env(PFW_SPOOL_DIR=str(spools)))
    assert done.returncode == 0, done.stderr
    assert "200 of 202 traces: finished, nothing to do" in done.stdout
    assert done.stdout.count("recovered, nothing lost") == 2 and not list(spools.iterdir())


def test_run_adopts_what_was_killed(tmp_path):
    code = LOOP.replace("input()", "os.kill(os.getpid(), 9)")
    done = pfw("run", "-o", "t", PYTHON, "-c", code, cwd=tmp_path)
    assert done.returncode == 128 + 9
    assert "recovered from 1 killed process" in done.stderr and "signal 9" in done.stderr
    assert sum(e["name"] == "pwrite" for e in lines_of(tmp_path / "t.pfw")) == 5000
    assert pfw("validate", tmp_path / "t.pfw").returncode == 0


def test_repair_removes_an_empty_trace(tmp_path):
    """Of a process that was gone between making it and writing to it; nobody else's."""
    held, content, link, old = (tmp_path / f"{name}.pfw" for name in ("held", "content", "link", "old"))
    content.write_text("\n")
    old.touch()
    link.symlink_to(content)
    with open(held, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = pfw("repair", old, held)
        assert (done.returncode, held.exists(), old.exists()) == (2, True, False)
    assert done.stdout == f"{old}: empty, removed: its process ended before it wrote anything\n"
    assert "held.pfw" in done.stderr
    assert "`pfw repair` removes it" in pfw("validate", held).stdout
    pfw("repair", content, link, held)
    assert sorted(os.listdir(tmp_path)) == ["content.pfw", "link.pfw"]


def test_run_removes_an_empty_trace(tmp_path):
    done = pfw("run", "-o", tmp_path / "t", "--all", "--", "sh", "-c", "cat /dev/null; : > t-pid1.pfw",
               cwd=tmp_path)
    assert done.returncode == 0
    assert "t.pfw" in os.listdir(tmp_path) and "t-pid1.pfw" not in os.listdir(tmp_path)


def test_repair_without_a_spool(tmp_path):
    assert pfw("repair", "none", cwd=tmp_path).returncode == 2
    (tmp_path / "cut.pfw").write_text(process_line())
    done = pfw("repair", "cut.pfw", cwd=tmp_path)
    assert done.returncode == 1 and "the process ran on elsewhere" in done.stderr
    (tmp_path / "other.pfw").write_text("{}\n")
    assert pfw("repair", "other.pfw", cwd=tmp_path).returncode == 2
    (tmp_path / "pfw-0-1-1.spool").write_text("no spool" * 2000)
    done = pfw("repair", "pfw-0-1-1.spool", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


# ---- validate ----

def process_line(**args):
    args = {"format": 1, "version": "0.1.0", "run": "r", "host": "elsewhere", **args}
    return line(1, "process", "pfw", "M", None, args)


def line(number, name, cat, ph, dur, args):
    keys = {"id": number, "name": name, "cat": cat, "pid": 7, "tid": 7, "ts": 1795230878627639.5}
    if dur is not None:
        keys["dur"] = dur
    return json.dumps({**keys, "ph": ph, "args": args}, separators=(",", ":")) + "\n"


def event(number):
    return line(number, "pread", "POSIX", "X", 0.412, {"fname": "/f", "ret": 1})


def end_line(number, events, lost=0):
    return line(number, "end", "pfw", "M", None, {"events": events, "lost": lost,
                                                  "reason": "exit"})


GOOD = process_line() + event(2) + event(3) + end_line(4, 2)
BOTH = "{}:{}: {}"


def test_a_good_trace(tmp_path):
    trace = tmp_path / "t.pfw"
    trace.write_text(GOOD)
    done = pfw("validate", trace)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == f"{trace}: ok, 4 lines, 2 events, nothing lost\n"
    assert pfw("validate", "-q", trace).stdout == ""
    with open(trace) as stdin:
        done = pfw("validate", "-", stdin=stdin)
    assert done.stdout == "standard input: ok, 4 lines, 2 events, nothing lost\n"


@pytest.mark.parametrize("text, where, problem", [
    ("", "", "empty"),
    (GOOD.replace(end_line(4, 2), ""), "", "not finished (no `end`)"),
    (GOOD[:-30], "4", "the last line is cut"),
    (event(2) + event(3) + end_line(4, 2), "1", "the first line is no `process`"),
    (GOOD + GOOD.replace('"id":', '"id":1'), "5", "a second `process` line"),
    (GOOD.replace('"id":3', '"id":2'), "3", "`id` 2 twice"),
    (GOOD.replace('"id":2', '"id":9'), "3", "`id` 3 behind 9"),
    (GOOD.replace('"events":2', '"events":3'), "", "says 3 events, and there are 2"),
    (GOOD.replace('"dur":0.412,', "", 1), "2", "no `dur`"),
    (GOOD.replace(',"args":{"fname":"/f","ret":1}', "", 1), "2", "no `args`"),
    (GOOD.replace('"dur":0.412', '"dur":-0.412', 1), "2", "`dur` is negative"),
    (GOOD.replace('"ts":1', '"ts":-1', 1), "1", "`ts` is negative"),
    (GOOD.replace('"ts":1795230878627639.5', '"ts":"x"', 1), "1", "`ts`: a value of the wrong"),
    (GOOD.replace('"ts":1795230878627639.5', '"ts":1e999', 1), "1", "`ts`: a value of the wrong"),
    (GOOD.replace('"ts":', '"ts":1' + "0" * 400, 1), "1", "`ts`: a value of the wrong"),
    (GOOD.replace('"pid":7', '"pid":7.5', 1), "1", "`pid`: a value of the wrong type"),
    (GOOD.replace('"ph":"X"', '"ph":"Q"', 1), "2", "`ph` is none of"),
    (GOOD.replace('"ph":"X"', '"ph":"i"', 1), "2", "`dur` in a line that is not a span"),
    (GOOD.replace('"pid":7', '"pid":7,"pid":8', 1), "1", "`pid` more than once"),
    (GOOD.replace('"format":1', '"format":2'), "1", "format 2 and this pfw knows 1"),
    (GOOD.replace('"ret":1', '"ret":NaN', 1), "2", "not a JSON value"),
    (GOOD.replace('"/f"', '"\\ud800"', 1), "2", "half of a surrogate pair"),
    (GOOD.replace("}\n", "},\n", 1), "1", "a comma after the object"),
    (GOOD.replace("\n", "\n\n", 1), "2", "an empty line"),
    (GOOD.replace("\n", "\n[\n", 1), "2", "not JSON Lines"),
    (GOOD.replace('"/f"', "[" * 100000 + "]" * 100000, 1), "2", "nested more than"),
    ("\ufeff" + GOOD, "1", "a byte-order mark"),
    (GOOD.replace("\n", "\n\0\0\0\n", 1), "2", "NUL bytes"),
    (GOOD.replace('"/f"', '"' + "x" * (17 << 20) + '"', 1), "2", "a line of 178"),
], ids=lambda value: value[:30] if len(value) < 60 else "text")
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, where, problem):
    trace = tmp_path / "t.pfw"
    trace.write_text(text)
    done = pfw("validate", trace)
    first = done.stdout.splitlines()[0]
    assert done.returncode == 1
    assert first.startswith(f"{trace}:{where + ':' if where else ''} ") and problem in first, first
    said = [json.loads(each) for each in
            pfw("validate", "--format", "ndjson", trace).stdout.splitlines()]
    assert problem in said[0]["problem"] and said[0].get("line", "") == (int(where) if where else "")
    assert said[-1]["problems"] >= 1


def test_crlf_and_any_key_order_are_read(tmp_path):
    """The order of keys is the format's, so `validate` says where it is another; all commands read it."""
    trace = tmp_path / "t.pfw"
    keys = [json.loads(each) for each in GOOD.splitlines()]
    trace.write_bytes("".join(json.dumps(each) + "\r\n" for each in keys).encode())
    assert pfw("validate", trace).returncode == 0
    count = pfw("query", "--count", trace).stdout
    trace.write_bytes("".join(json.dumps(dict(reversed(each.items()))) + "\r\n"
                              for each in keys).encode())
    assert pfw("query", "--count", trace).stdout == count
    done = pfw("validate", trace)
    assert done.returncode == 1 and "order" in done.stdout


def test_losses_are_summed_and_no_problem(tmp_path):
    def lost(number, reason, count):
        return line(number, "lost", "pfw", "M", None, {"reason": reason, "count": count})

    trace = tmp_path / "t.pfw"
    waited = line(6, "waited", "pfw", "M", None, {"count": 3, "total": 2500000.5})
    trace.write_text(process_line() + event(2) + lost(3, "full", 5) + lost(4, "full", 8)
                     + lost(5, "torn", 1) + waited + end_line(7, 1, 9))
    done = pfw("validate", trace)
    assert done.returncode == 0
    assert done.stdout.endswith("1 event, 9 lost, threads waited 3 times (2.50s)\n")


def test_ten_problems_a_file_then_a_count(tmp_path):
    (tmp_path / "a.pfw").write_text("rubbish\n" * 25)
    (tmp_path / "b.pfw").write_text(GOOD)
    done = pfw("validate", tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert sum("not a JSON object" in each for each in lines) == 10
    assert f"{tmp_path}/a.pfw: 15 more problems" in lines
    assert f"{tmp_path}/b.pfw: ok, 4 lines, 2 events, nothing lost" in lines
    assert lines[-1].startswith("all: 25 problems, 29 lines, 2 events")


def opened(directory, count, work):
    """How often work() opens the directory itself, in which `count` files lie."""
    directory.mkdir()
    for number in range(count):
        (directory / f"r.{number}.pfw").write_text(GOOD)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(directory), 0x20) < 0:  # IN_OPEN
        pytest.skip("no inotify here")
    try:
        work(directory)
        times = 0
        with contextlib.suppress(BlockingIOError):
            while events := os.read(watch, 1 << 16):
                while events:
                    _, mask, _, name = struct.unpack_from("iIII", events)
                    assert not mask & 0x4000, "more events than the kernel keeps"
                    times += mask & 0x40000000 != 0  # IN_ISDIR
                    events = events[16 + name:]
        return times
    finally:
        os.close(watch)


def test_a_directory_is_looked_through_once_for_spools(tmp_path):
    """And not once for each of its files, none of which says whether it has a spool."""
    def work(directory):
        assert pfw("validate", "-q", directory).returncode == 0

    few = opened(tmp_path / "few", 3, work)
    assert 0 < few == opened(tmp_path / "many", 40, work)


DFTRACER_1 = """[
{"id":"0","name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"name":"/a","value":"9b"}},
{"id":3,"name":"open","cat":"POSIX","pid":1,"tid":1,"ts":1795231645699165,"dur":14,"ph":"X","args":{}},
]
"""
DFTRACER_2 = """\
{"name":"HH","cat":"dftracer","type":1,"pid":1,"tid":1,"ph":4,"args":{"name":"vm","value":"68"}}
{"id":9,"name":"open","cat":"POSIX","type":3,"pid":1,"tid":1,"ts":1795231645699165,"dur":14,"ph":1}
{"id":2,"name":"read","cat":"POSIX","type":3,"pid":1,"tid":1,"ts":1795231645699165,"dur":0,"ph":1,"args":{}}
{"name":"cpu-0","cat":"sys","type":7,"ts":1795235597389692,"ph":2,"pid":0,"tid":0,"args":{"a":0.26}}
{"name":"pread","cat":"POSIX","type":3,"ts":1795232263000000,"ph":3,"pid":1,"tid":1,"args":{"dft_cnt":1}}
"""


@pytest.mark.parametrize("text, events", [(DFTRACER_1.replace('"id":"0"', '"id":0'), 1),
                                          (DFTRACER_2, 4)])
def test_dftracer_s_dialects(tmp_path, text, events):
    trace = tmp_path / "t.pfw"
    trace.write_text(text)
    done = pfw("validate", trace)
    assert done.returncode == 0, done.stdout
    assert f" {events} event" in done.stdout
    trace.write_text(text.replace('"dur":14,', ""))
    assert "no `dur`" in pfw("validate", trace).stdout


def member(text):
    """A gzip member as the recorder wrote it before headers had a checksum, with the summary in its header."""
    least = 1795230878627639500
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(text) + packer.flush()
    size = 10 + 2 + 4 + 24 + len(body) + 8
    return (b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H2sHIIQQ", 28, b"PF", 24, size,
                                                             text.count(b"\n"), least,
                                                             least + 412 * (b"pread" in text))
            + body + struct.pack("<II", zlib.crc32(text), len(text)))


def test_damaged_gzip(tmp_path):
    parts = [member(each.encode()) for each in
             (process_line() + event(2), event(3) + event(4), event(5) + end_line(6, 4))]
    second, third = len(parts[0]), len(parts[0]) + len(parts[1])
    trace = tmp_path / "t.pfw.gz"
    whole = b"".join(parts)

    def check(data):
        trace.write_bytes(data)
        done = pfw("validate", trace)
        return done.returncode, done.stdout

    assert check(whole) == (0, f"{trace}: ok, 6 lines, 4 events, nothing lost\n")
    status, said = check(whole[:-10])
    assert status == 1 and f"byte {third}: this gzip member is cut; 5 whole lines" in said \
        or f"byte {third}: this gzip member is cut; 6 whole lines" in said
    status, said = check(whole[:third - 6] + b"xx" + whole[third - 4:])
    assert status == 1 and f"byte {second}: this gzip member is damaged" in said
    assert "6 lines, 4 events" in said  # its text was whole, and so is what follows
    status, said = check(whole + b"rubbish")
    assert status == 1 and f"byte {len(whole)}: " in said and "rubbish" in said
    assert "4 events" in said


def test_what_cannot_be_used(tmp_path):
    (tmp_path / "t.pfw").write_text(GOOD)
    (tmp_path / "loop.pfw").symlink_to("loop.pfw")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo.pfw")
    for name, problem in (("none", "there is no such file"), ("empty", "no *.pfw"),
                          ("loop.pfw", "symbolic links"), ("/dev/zero", "a device"),
                          ("*.gz", "no file matches")):
        done = pfw("validate", name, "t.pfw", cwd=tmp_path)
        assert done.returncode == 2 and problem in done.stderr and done.stderr.count("\n") == 1
        assert "t.pfw: ok" in done.stdout
    assert "fifo.pfw: empty" in pfw("validate", "fifo.pfw", cwd=tmp_path).stdout


def test_what_a_path_stands_for(tmp_path):
    for name in ("t.pfw", "t.2.pfw", "t.2-pid7.3.pfw", "t-rank0003.pfw", "t2.pfw", "u.pfw"):
        (tmp_path / name).write_text(GOOD)
    for name in ("t.pfw.idx", "t.manifest.json"):
        (tmp_path / name).write_text("no trace")

    def files(*words):
        """The traces that were read; what is wrong beside them is said, too."""
        done = pfw("validate", "--format", "ndjson", *words, cwd=tmp_path)
        said = [json.loads(each) for each in done.stdout.splitlines()]
        assert {each["file"] for each in said if "problem" in each} <= \
            {f"{'./' if words[0] == '.' else ''}{name}"
             for name in ("t.pfw", "t.manifest.json")}, done.stdout
        return [each["file"] for each in said if each["file"] and "lines" in each]

    assert files(".") == ["./t-rank0003.pfw", "./t.2-pid7.3.pfw", "./t.2.pfw", "./t.pfw", "./t2.pfw", "./u.pfw"]
    assert files("t") == ["t-rank0003.pfw", "t.2-pid7.3.pfw", "t.2.pfw", "t.pfw"]
    assert files("t.2") == ["t.2-pid7.3.pfw", "t.2.pfw"]
    assert files("t.*") == ["t.2-pid7.3.pfw", "t.2.pfw", "t.pfw"]
    assert files("t.pfw", "t.pfw.idx", "t.manifest.json") == ["t.pfw"]


@pytest.mark.parametrize("newest, other, begun", [
    ("b", "a", "78"), ("slurm-7.1", "slurm-7", "80"), ("slurm-7.1-r2", "slurm-7-r2", "80"), ("slurm-7", "slurm-77.0", "78"),
    ("slurm-7.1", "slurm-7.0", "78"), ("slurm-7.prterun-h-1@1", "slurm-7", "80")])
def test_no_path_is_the_newest_run_here(tmp_path, newest, other, begun):
    # The process that began last says which run is the newest: a copy of old.pfw has a new time.  But a job's
    # script, which goes on after its steps, is not newer than they are.
    for name, run, second in (("new-pid3.pfw", newest, "79"), ("new.pfw", newest, "77"), ("old.pfw", other, begun)):
        (tmp_path / name).write_text(GOOD.replace('"run":"r"', f'"run":"{run}"').replace("878627639", f"8{second}627639"))
    done = pfw("validate", cwd=tmp_path)
    assert "old.pfw" not in done.stdout and "new.pfw: ok" in done.stdout
    assert "new-pid3.pfw: ok" in done.stdout
    (tmp_path / "none").mkdir()
    assert pfw("validate", cwd=tmp_path / "none").returncode == 2


# ---- the others ----

def test_doctor(tmp_path):
    done = pfw("doctor", "cat", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    for what in ("preload", "recorder", "compression", "clock", "spools", "traces", "program"):
        assert re.search(rf"^(ok   |note ) {what} ", done.stdout, re.M), what
    assert pfw("doctor", "no-such-program", cwd=tmp_path).returncode == 1
    done = pfw("doctor", cwd=tmp_path, env=clean_env(PFW_SPOOL_DIR="/no/such"))
    assert done.returncode == 1 and "WRONG spools       /no/such" in done.stdout


def test_doctor_fits_the_terminal(tmp_path):
    """A finding is one line for programs; for people its words are in lines that fit."""
    whole = pfw("doctor", "no-such-program", cwd=tmp_path).stdout
    assert all(re.match(r"(ok   |note |WRONG) \S", line) for line in whole.splitlines())
    assert max(map(len, whole.splitlines())) > 100
    for width in (60, 100):
        lines = pfw("doctor", "no-such-program", cwd=tmp_path, env=clean_env(COLUMNS=str(width))).stdout.splitlines()
        assert all(len(line) <= width or " " not in line[19:] for line in lines), lines
        found = re.sub(r"\n {19}(?=\S)", " ", "\n".join(lines)) + "\n"
        assert steady(found) == steady(whole)


@pytest.mark.parametrize("words", [["calls", "--unwrapped"], ["schedule", "wait=1,active=2,repeat=2"], ["schedule", "range"],
                                   ["config"]])
def test_texts_fit_the_terminal(words):
    """The words are those that a program gets; a word that is longer than a line is not cut."""
    env = {"PFW_COUNTERS": "fast"}
    whole = pfw(*words, env=clean_env(**env)).stdout
    assert max(map(len, whole.splitlines())) > 90
    shown = pfw(*words, env=clean_env(COLUMNS="80", **env)).stdout
    assert shown.split() == whole.split()
    if words != ["config"]:
        assert max(map(len, shown.splitlines())) <= 80
    else:
        assert all(len(line) <= 80 for line in shown.split("PFW_COUNTERS = unset\n")[1].splitlines()[:2])


def steady(found):
    """Without what other programs change."""
    return re.sub(r"[0-9.]+ [KMGT]iB free|(?m:^.{6}spools left .*$)", "", found)


def doctor(cwd, status=0, **variables):
    """What it says of each thing, with its verdict before it."""
    done = pfw("doctor", cwd=cwd, env=clean_env(**variables))
    assert done.returncode == status, done.stdout + done.stderr
    return {line[6:18].strip(): line[:6].strip() + " " + line[19:] for line in done.stdout.splitlines()}


def test_b25_doctor_warns_of_stacks_in_many_steps(tmp_path):
    found = doctor(tmp_path, PFW_SCHEDULE="wait=1,warmup=1,active=50")
    assert found["stacks"].startswith("note active=50: ") and "with_stack=False" in found["stacks"]
    assert "steps 1 to 51 are recorded first" in found["schedule"] and "warm-up" not in found
    few = doctor(tmp_path, PFW_SCHEDULE="skip_first=2,wait=1,active=10")
    assert "stacks" not in few and "steps 3 to 12 " in few["schedule"] and "warmup=1" in few["warm-up"]
    assert "stacks" not in doctor(tmp_path) and "schedule" not in doctor(tmp_path)
    bad = doctor(tmp_path, status=1, PFW_SCHEDULE="active=many")
    assert bad["schedule"].startswith("WRONG PFW_SCHEDULE=active=many is not a schedule")


def test_d26_doctor_says_why_nothing_is_collected(tmp_path):
    assert "under `pfw run`" in doctor(tmp_path)["recording"]
    assert doctor(tmp_path, DFTRACER_ENABLE="1")["recording"] == "ok DFTRACER_ENABLE is on"
    off = doctor(tmp_path, DFTRACER_ENABLE="0")["recording"]
    assert off.startswith("note DFTRACER_ENABLE=0: nothing is recorded") and "DFTRACER_ENABLE=1" in off


def test_d26_doctor_says_why_there_are_no_gpu_metrics(tmp_path):
    none = doctor(tmp_path)["gpu-metrics"]
    if not none.startswith("ok "):
        assert none.startswith("note no libnvidia-ml.so.1") and "pip install pynvml" in none
    subprocess.run(["gcc", "-shared", "-o", tmp_path / "libnvidia-ml.so.1", "-x", "c", "/dev/null"], check=True)
    assert doctor(tmp_path, LD_LIBRARY_PATH=str(tmp_path))["gpu-metrics"] == "ok libnvidia-ml.so.1"


def test_d26_doctor_says_which_backends_do_not_import(tmp_path):
    """By what Python itself says: there, not there, or broken; with the pip line."""
    packages, here = tmp_path / "packages", tmp_path / "here"
    for name, text in (("viztracer", "import no_such_part"), ("torch", "raise SystemExit(3)")):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text(text)
    here.mkdir()
    (here / "viztracer.py").write_text("open('run', 'w')")
    found = doctor(here)
    assert found["viztracer"] == "note not installed: pip install viztracer (backend viztracer)"
    assert found["pfw"] == "note not installed: pip install pfwtrace"
    assert "pip install torch" in found["torch"] and os.listdir(here) == ["viztracer.py"]
    found = doctor(here, PYTHONPATH=str(packages))
    assert found["viztracer"] == ("note does not import: ModuleNotFoundError: No module named 'no_such_part'; "
                                  "pip install --force-reinstall viztracer")
    assert found["torch"].startswith("ok backend pytorch in /usr/bin/python3")
    (packages / "viztracer/__init__.py").write_text("")
    assert doctor(here, PYTHONPATH=str(packages))["viztracer"].startswith("ok backend viztracer in ")
    assert "no python3 on the PATH" in doctor(here, PATH=str(here))["backends"]
    (here / "python3").write_text("#!/bin/sh\nexit 1\n")
    (here / "python3").chmod(0o755)
    assert "cannot be run" in doctor(here, PATH=str(here))["backends"]


def test_calls():
    rows = [json.loads(each) for each in pfw("calls", "--format", "ndjson").stdout.splitlines()]
    by_call = {row["call"]: row for row in rows}
    assert len(by_call) == len(rows) > 50
    assert by_call["open64"]["name"] == by_call["__open_2"]["name"] == "open"
    assert {"fd", "count", "offset", "ret"} <= set(by_call["pread"]["args"])
    text = pfw("calls").stdout.splitlines()
    assert len(text) == len(rows) + 1
    rst = pfw("calls", "--format", "rst").stdout
    assert rst.startswith(".. list-table::") and rst.count("   * - ") == len(rows) + 1


def test_config(tmp_path):
    preload = pfw("config", "--preload").stdout.strip()
    assert os.path.samefile(preload, LIB / "libpfw_preload.so")
    each = [pfw("config", option).stdout for option in ("--cflags", "--libs", "--preload", "--cmake-dir")]
    assert pfw("config", "--cmake-dir", "--preload", "--libs", "--cflags").stdout == "".join(each)
    assert pfw("config", "--cflags", "--libs").stdout == "".join(each[:2])
    (tmp_path / "a.c").write_text("#include <pfw/pfw.h>\n")
    subprocess.run(["cc", "-c", *each[0].split(), "a.c"], cwd=tmp_path, check=True)
    done = pfw("config")
    assert done.returncode == 0 and "DFTRACER_LOG_FILE" in done.stdout
    done = pfw("config", env=clean_env(PFW_ON_FULL="maybe"))
    assert done.returncode == 1 and "maybe" in done.stdout
