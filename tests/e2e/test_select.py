"""What is recorded: files, calls, durations, sizes, ranks, children, and what is said of the rest."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from harness import (BUILD, PFW, PRELOAD, check_trace, clean_environment, events, own, process_args,
                     read_lines, run, trace_names, traced_environment)
from test_kill import Target

STEPS = BUILD / "tests/steps"
SELECT = BUILD / "tests/select_target"


@pytest.fixture(name="world")
def make_world(tmp_path):
    """A directory for traces, one for spools, one for data."""
    for name in ("t", "s", "d"):
        (tmp_path / name).mkdir()
    return tmp_path


def environment(world, **variables):
    return traced_environment(world / "t/t", world / "s", **variables)


def record(world, *command, status=0, **variables):
    """Run it traced; the lines of its one trace."""
    run(command, environment(world, **variables), world / "d", status)
    assert not os.listdir(world / "s")
    names = trace_names(world / "t")
    assert len(names) == 1, names
    lines = check_trace(world / "t" / names[0])
    os.remove(world / "t" / names[0])
    return lines


def names_of(lines):
    return sorted({line["name"] for line in events(lines)})


def test_calls_of_these_names_only(world):
    (world / "d/f").write_text("x" * 100)
    everything = record(world, SELECT, "copy", "f", "g")
    assert {"open", "read", "write", "close", "fstat"} <= set(names_of(everything))
    lines = record(world, SELECT, "copy", "f", "g", PFW_CALLS="re*,write")
    assert names_of(lines) == ["read", "write"]
    assert len(events(lines)) == len(events(everything, "read", "write"))
    lines = record(world, SELECT, "copy", "f", "g", PFW_CALLS="open*,fstat")
    assert names_of(lines) == ["fstat", "open"]


def test_unrecorded_calls_keep_the_names_of_descriptors(world):
    """close and dup2 are not recorded, but what a number stands for is right all the same."""
    for name in ("a", "b", "c"):
        (world / "d" / name).write_text(name)
    for variables in ({"PFW_CALLS": "read,fgets"}, {"DFTRACER_DISABLE_POSIX": "1"}):
        lines = record(world, SELECT, "reuse", "a", "b", "c", **variables)
        wanted = "fgets" if "DFTRACER_DISABLE_POSIX" in variables else "read"
        read = [line["args"]["fname"] for line in events(lines, wanted)]
        assert read == [f"{world}/d/{name}" for name in "abc"], variables
        assert names_of(lines) == (["fgets", "read"] if wanted == "read"
                                   else ["fclose", "fdopen", "fgets"])


def test_a_trace_without_io_ends_well(world):
    """DFTRACER_DISABLE_IO leaves the program's spans; _exit and exec still finish the file."""
    for how, reason in (("_exit", "exit"), ("exec", "exec")):
        run([SELECT, "span", how], environment(world, DFTRACER_DISABLE_IO="1"), world / "d")
        (name,) = trace_names(world / "t")
        lines = check_trace(world / "t" / name)
        assert names_of(lines) == ["work"] and lines[-1]["args"]["reason"] == reason
        os.remove(world / "t" / name)
        assert not os.listdir(world / "s")


def test_no_call_left_is_said(world):
    done = run([SELECT, "copy", "/dev/null", "g"], environment(world, PFW_CALLS="raed"), world / "d")
    assert "leave no call to record" in done.stderr and not trace_names(world / "t")


def test_unwrapped_calls_stay_on_libc(world):
    """What is not selected and keeps nothing jumps to libc: its slot is as it is when disabled."""
    where = run([SELECT, "slots", "read", "write", "stat", "close"],
                environment(world, PFW_CALLS="read"), world / "d").stdout.split()
    assert where == ["recorder", "libc", "libc", "recorder"]


def test_files_left_out(world):
    (world / "d/cache").mkdir()
    for name in ("f", "x.tmp", "cache/y"):
        (world / "d" / name).write_text("x")
    lines = record(world, SELECT, "read", "f", "x.tmp", "cache/y", PFW_EXCLUDE="*.tmp:cache")
    assert {line["args"]["fname"] for line in events(lines, "open")} == {f"{world}/d/f"}
    (excluded,) = own(lines, "excluded")
    assert excluded["args"] == {"exclude": 2}


# ---- the defaults ----

@pytest.fixture(name="python")
def make_python(world):
    """A virtual environment's, not activated, with pandas among its own packages."""
    run(["/usr/bin/python3", "-m", "venv", "--without-pip", world / "v"])
    (packages,) = (world / "v").glob("lib/python3*/site-packages")
    for module in pathlib.Path("/usr/lib/python3/dist-packages").iterdir():
        (packages / module.name).symlink_to(module)
    return world / "v/bin/python3"


def test_importing_pandas_is_tens_of_lines(world, python):
    """With defaults, what Python and the system read for themselves is one line that counts it."""
    settings = environment(world)
    del settings["DFTRACER_DATA_DIR"]
    imported = [python, "-c", "import pandas; open('f', 'w').close(); print(pandas.__file__)"]
    done = run(imported, settings, world / "d")
    assert done.stdout.startswith(f"{world}/v/lib/") and not done.stderr
    traces = [check_trace(world / "t" / name) for name in trace_names(world / "t")]
    assert sum(len(lines) for lines in traces) < 100
    (lines,) = [lines for lines in traces if events(lines, "open")]
    assert [line["args"]["fname"] for line in events(lines, "open")] == [f"{world}/d/f"]
    (excluded,) = own(lines, "excluded")
    assert set(excluded["args"]) <= {"system", "python", "library"}
    assert excluded["args"]["python"] > 1000 < excluded["args"]["system"]
    run(imported, environment(world), world / "d")
    assert sum(1 for _ in open(world / "t/t.2.pfw", "rb")) > 5000


# ---- children ----

def programs(world):
    """{program: traces} of a run, and its traces are removed."""
    found = {}
    for name in trace_names(world / "t"):
        lines = check_trace(world / "t" / name)
        program = lines[0]["args"]["cmd"].split()[0]
        found.setdefault(os.path.basename(program), []).append(lines)
        os.remove(world / "t" / name)
    return found


def test_children_by_name(world):
    (world / "d/f").write_text("x")
    shell = ["sh", "-c", "cat f; head -c1 f; echo > g"]
    for variables, want in (({}, ["cat", "head", "sh"]), ({"PFW_CHILDREN": "none"}, ["sh"]),
                            ({"PFW_CHILDREN": "he*,tail"}, ["head", "sh"])):
        run(shell, environment(world, **variables), world / "d")
        assert sorted(programs(world)) == want, variables
        assert not os.listdir(world / "s")


def test_forked_children_left_out_are_counted(world):
    fork = [sys.executable, "-c", "import os\nopen('f', 'w').close()\nfor i in range(3):\n"
            " if not os.fork(): open('f', 'w').close(); os._exit(0)\n os.wait()\n"]
    run(fork, environment(world), world / "d")
    assert [len(traces) for traces in programs(world).values()] == [4]
    run(fork, environment(world, PFW_CHILDREN="none"), world / "d")
    ((lines,),) = programs(world).values()
    (excluded,) = own(lines, "excluded")
    assert excluded["args"]["children"] == 3
    run(fork, environment(world, PFW_CHILDREN="python*"), world / "d")
    assert [len(traces) for traces in programs(world).values()] == [4]


def test_ranks_are_no_children_and_others_leave_no_file(world):
    (world / "d/f").write_text("x")
    for rank in range(4):
        run(["cat", "f"], environment(world, RANK=str(rank), WORLD_SIZE="4", PFW_RANKS="0,2-3",
                                      PFW_CHILDREN="none"), world / "d")
    assert trace_names(world / "t") == [f"t-rank000{rank}.pfw" for rank in (0, 2, 3)]
    assert not os.listdir(world / "s")
    said = [run(["cat", "f"], environment(world, PFW_RANKS="4-7", **rank), world / "d").stderr
            for rank in ({"RANK": "0", "WORLD_SIZE": "4"}, {"RANK": "1", "WORLD_SIZE": "4"}, {})]
    assert said == ["pfw: nothing is recorded: PFW_RANKS=4-7 has no rank of this job: name some of 0 to 3\n",
                    "", ""]


def test_variables_are_answered_once_a_run(world):
    """Not by each of its processes, nor again after an exec."""
    shell = ["sh", "-c", "cat /dev/null; cat /dev/null; exec cat /dev/null"]
    done = run(shell, environment(world, DFTRACER_ENABLE_AGGREGATION="1", PFW_NOSUCH="1",
                                  PFW_FLUSH_MS="fast"), world / "d")
    for word in ("ENABLE_AGGREGATION=1: ignored: ", "PFW_NOSUCH=1: unknown", "FLUSH_MS=fast: bad"):
        assert done.stderr.count(word) == 1, done.stderr
    said = [run(["cat", "/dev/null"], environment(world, PFW_NOSUCH="1", RANK=str(rank),
                                                  WORLD_SIZE="2"), world / "d").stderr
            for rank in range(2)]
    assert said[0].count("PFW_NOSUCH") == 1 and said[1] == ""


# ---- short calls ----

def totals(lines, name):
    """{file: (calls, bytes, failed)} of one call, from its own lines and from the sums."""
    found = {}
    for line in events(lines, name):
        args = line["args"]
        calls, moved, failed = found.get(args["fname"], (0, 0, 0))
        found[args["fname"]] = (calls + 1, moved + max(args["ret"], 0), failed + ("errno" in args))
    for line in own(lines, "summed"):
        args = line["args"]
        if args["name"] == name:
            calls, moved, failed = found.get(args["fname"], (0, 0, 0))
            found[args["fname"]] = (calls + args["count"], moved + args["bytes"],
                                    failed + args["failed"])
    return found


def files(world, count, prefix="f"):
    names = [f"{prefix}{number}" for number in range(count)]
    for name in names:
        (world / "d" / name).write_text("x" * 64)
    return names


def test_short_calls_are_summed_exactly(world):
    names = files(world, 3)
    lines = record(world, SELECT, "preads", "4", "5000", *names, PFW_MIN_DUR="10s")
    assert len(events(lines, "pread", "stat", "open", "close")) == 0
    summed = own(lines, "summed")
    assert 3 * 4 * 4 <= len(summed) < 300 and len(lines) < 350
    want = {f"{world}/d/{name}": (4 * 5001, 4 * 5000 * 64, 4) for name in names}
    assert totals(lines, "pread") == want
    assert totals(lines, "stat") == {name: (20000, 0, 0) for name in want}
    assert totals(lines, "open") == {name: (4, 0, 0) for name in want}
    for line in summed:
        assert line["args"]["dur"] > 0 and line["ph"] == "M", line
    spent = sum(line["args"]["dur"] for line in summed) / 4
    assert spent < lines[-1]["ts"] - lines[0]["ts"]


def test_longer_calls_stay_lines(world):
    (name,) = files(world, 1)
    lines = record(world, SELECT, "preads", "1", "1000", name, PFW_MIN_DUR="1ns")
    assert len(events(lines, "pread")) == 1001 and not own(lines, "summed")


def test_more_files_than_the_table_holds(world):
    """Nothing is left out where there is no room to sum: those calls are lines, and are counted."""
    names = files(world, 600)
    lines = record(world, SELECT, "preads", "1", "3", *names, PFW_MIN_DUR="10s",
                   PFW_FLUSH_MS="60000")
    want = {f"{world}/d/{name}": (4, 3 * 64, 1) for name in names}
    assert totals(lines, "pread") == want
    (full,) = own(lines, "sums_full")
    assert full["args"]["count"] == len(events(lines)) > 0


@pytest.mark.parametrize("suffix", ["", ".pfw.gz"])
def test_sums_of_a_killed_process_are_exact(world, suffix):
    names = files(world, 5)
    for flush in ("1", "7", "60000"):
        run([SELECT, "preads", "4", "1500", *names, "kill"],
            environment(world, PFW_MIN_DUR="10s", PFW_FLUSH_MS=flush,
                        DFTRACER_LOG_FILE=f"{world}/t/t{suffix}"), world / "d", -signal.SIGKILL)
        env = clean_environment(PFW_SPOOL_DIR=str(world / "s"))
        run([PFW, "repair", world / "t"], env)
        (name,) = trace_names(world / "t")
        lines = check_trace(world / "t" / name, ("recovered",))
        assert totals(lines, "pread") == {f"{world}/d/{name}": (4 * 1501, 4 * 1500 * 64, 4)
                                          for name in names}
        os.remove(world / "t" / name)


@pytest.mark.parametrize("how", ["loop", "signals", "churn"])
def test_sums_survive_a_kill_at_any_moment(tmp_path, how):
    """Each read that had returned is counted once, in a sum or as a line, and with its bytes."""
    dice = random.Random(f"{how} {os.environ.get('PFW_KILL_SEED', '1')}")
    kills = int(os.environ.get("PFW_KILLS", "60")) // 3
    for number in range(kills):
        (tmp_path / str(number)).mkdir()
        with Target(str(tmp_path / str(number)), 3, 200, how, number % 2 == 1, PFW_MIN_DUR="10s",
                    PFW_FLUSH_MS=dice.choice(["1", "5", "500"]),
                    DFTRACER_WRITE_BUFFER_SIZE=dice.choice(["4KiB", "1MiB"])) as target:
            time.sleep(dice.uniform(0.02, 0.25))
            target.kill()
            returned = sum(reads for reads, _ in target.witness())
            if returned == 0:
                continue
            if target.left_spools():
                assert target.repair().returncode == 0
            found = totals(target.lines(), "pread")
            ((count, moved, failed),) = found.values()
            assert returned <= count <= returned + 4 and moved == 8 * count and not failed, number


@pytest.mark.parametrize("suffix", ["", ".pfw.gz"])
def test_a_trace_stops_at_its_greatest_size(world, suffix):
    """The rest is counted: lines and losses are all the calls there were."""
    names = files(world, 2)
    base = {"DFTRACER_LOG_FILE": f"{world}/t/t{suffix}"}
    done = run([SELECT, "preads", "4", "4000", *names],
               environment(world, PFW_MAX_BYTES="100KiB", **base), world / "d")
    assert done.stderr.count("PFW_MAX_BYTES") == 1 and len(done.stderr.splitlines()) == 1
    (name,) = trace_names(world / "t")
    assert 90 << 10 < os.path.getsize(world / "t" / name) <= 100 << 10
    lost = 4 * 2 * 8003 - len(events(read_lines(world / "t" / name)))
    lines = check_trace(world / "t" / name, ("limit",), lost=lost)
    assert 0 < lost and own(lines, "lost")[-1]["args"]["reason"] == "limit"
    assert not os.listdir(world / "s")


def test_a_killed_process_has_told_its_limit(world):
    (name,) = files(world, 1)
    run([SELECT, "preads", "1", "4000", name, "kill"],
        environment(world, PFW_MAX_BYTES="64KiB", PFW_FLUSH_MS="1"), world / "d", -signal.SIGKILL)
    assert len(own(read_lines(world / "t/t.pfw"), "end")) <= 1
    run([PFW, "repair", world / "t"], clean_environment(PFW_SPOOL_DIR=str(world / "s")))
    lines = read_lines(world / "t/t.pfw")
    assert lines[-1]["args"]["lost"] + len(events(lines)) == 8003


def test_sums_while_it_runs_and_at_a_flush(world):
    """What was summed is in the file after PFW_FLUSH_MS, and at pfw_flush()."""
    (name,) = files(world, 1)
    run([SELECT, "flush", name, "t", world / "t/t.pfw"],
        environment(world, PFW_MIN_DUR="10s", PFW_FLUSH_MS="60000"), world / "d")
    run([SELECT, "flush", name, "", world / "t/t.2.pfw"],
        environment(world, PFW_MIN_DUR="10s", PFW_FLUSH_MS="20"), world / "d")


def test_names_that_are_not_utf8_are_summed_apart(world):
    for name in (b"a\xff", b"a\xfe"):
        with open(os.fsencode(world / "d") + b"/" + name, "wb") as file:
            file.write(b"x" * 64)
    lines = record(world, SELECT, "preads", "1", "10", b"a\xff".decode(errors="surrogateescape"),
                   b"a\xfe".decode(errors="surrogateescape"), PFW_MIN_DUR="10s")
    exact = {line["args"]["fname_b64"] for line in own(lines, "summed")
             if line["args"]["name"] == "pread"}
    assert len(exact) == 2
