"""The schedule on running programs: what is recorded, as what, and when the hook is called.

torch_action() is torch.profiler.schedule() told once more; where this Python has a torch, the two
are compared first.
"""
import bisect
import inspect
import itertools
import json
import os
import random
import signal

import pytest

import harness

TARGET = harness.BUILD / "tests" / "schedule_target"
KEYS = ("skip_first", "wait", "warmup", "active", "repeat", "skip_first_wait", "discard_warmup")


def torch_action(step, skip_first=0, wait=0, warmup=0, active=1, repeat=0, skip_first_wait=0,
                 **_unused):
    if step < skip_first:
        return "NONE"
    step -= skip_first
    if skip_first_wait:
        step += wait
    cycle = wait + warmup + active
    if repeat and step // cycle >= repeat:
        return "NONE"
    at = step % cycle
    if at < wait:
        return "NONE"
    if at < wait + warmup:
        return "WARMUP"
    return "RECORD_AND_SAVE" if at == cycle - 1 else "RECORD"


def small_schedules():
    for figures in itertools.product(range(3), range(3), range(3), range(1, 4), range(3), range(2)):
        yield dict(zip(KEYS, figures))


class Run:
    def __init__(self, top, *arguments, status=0, kept=0, **variables):
        (top / "spools").mkdir()
        (top / "data").write_bytes(b"x" * 100_000)
        environment = harness.traced_environment(top / "t", top / "spools", DFTRACER_DATA_DIR=str(top),
                                                 DFTRACER_INC_METADATA="1", **variables)
        command = arguments if "/" in str(arguments[0]) else [TARGET, *arguments]
        result = harness.run(command, environment, top, status=status)
        self.top, self.printed, self.said = top, result.stdout.splitlines(), result.stderr
        assert len(os.listdir(top / "spools")) == kept
        self.ready = [[int(word) for word in line.split()[1:8]] for line in self.printed
                      if line.startswith("ready")]

    def lines(self, name="t.pfw", **checks):
        return harness.check_trace(self.top / name, **checks)


def by_step(lines, name):
    """Of the events of a name: {step: phase}; none may be in no step."""
    return {line["args"]["step"]: line["args"]["phase"] for line in harness.events(lines, name)}


def expected(steps, schedule):
    """{step: phase} of the steps that leave a trace."""
    phases = {"WARMUP": "warmup", "RECORD": "active", "RECORD_AND_SAVE": "active"}
    actions = {step: torch_action(step, **schedule) for step in range(steps)}
    return {step: phases[action] for step, action in actions.items() if action in phases
            and not (action == "WARMUP" and schedule.get("discard_warmup"))}


def text_of(schedule):
    return ",".join(f"{key}={value}" for key, value in schedule.items())


ISSUE = {"wait": 1, "warmup": 1, "active": 3, "repeat": 2}


def test_the_schedule_is_torchs():
    profiler = pytest.importorskip("torch.profiler")
    taken = inspect.signature(profiler.schedule).parameters
    for schedule in small_schedules():
        given = {key: value for key, value in schedule.items() if key in taken}
        if len(given) < len(schedule) and schedule["skip_first_wait"]:
            continue  # an older torch
        theirs = profiler.schedule(**given)
        assert [theirs(step).name for step in range(30)] == \
            [torch_action(step, **given) for step in range(30)], given


def test_pfw_schedule_prints_it():
    some = random.Random(5).sample(list(small_schedules()), 60)
    for schedule in some:
        options = [f"--{key.replace('_', '-')}={value}" for key, value in schedule.items()
                   if key != "skip_first_wait"]
        if schedule["skip_first_wait"]:
            options.append("--skip-first-wait")
        result = harness.run([harness.PFW, "schedule", *options, "--steps=30", "--format=ndjson"])
        assert [json.loads(line) for line in result.stdout.splitlines()] == \
            [{"step": step, "action": torch_action(step, **schedule)} for step in range(30)]


def test_pfw_schedule_takes_what_the_variable_takes():
    def printed(*words):
        return harness.run([harness.PFW, "schedule", *words]).stdout
    assert printed("wait=1,warmup=1,active=2", "--steps=9") == \
        printed("--wait=1", "--warmup=1", "--active=2", "--steps=9")
    assert printed("delay=5s,duration=1500ms,every=1m").startswith(
        "records 1.5 s, from 5 s after the start on, and again every 60 s")


def check_steps(run, schedule, steps):
    """Every event of the recorded steps is there, with its step and phase, and no other."""
    lines, want = run.lines(), expected(steps, schedule)
    for name in ("work", "pread"):
        assert by_step(lines, name) == want, name
        assert len(harness.events(lines, name)) == len(want)
    for line in harness.events(lines, "work"):
        assert line["args"]["n"] == line["args"]["step"], line
    spans = [line for line in lines if line["name"].startswith("ProfilerStep#")]
    # The step that is open at the end is a step, too.
    last = expected(steps + 1, schedule)
    assert {line["name"]: (line["cat"], line["args"]["step"], line["args"]["phase"])
            for line in spans} == {f"ProfilerStep#{step}": ("PP", step, phase)
                                   for step, phase in last.items()}
    assert len(spans) == len(last)
    return lines


def check_segments(lines, schedule, steps):
    """One line for each cycle, naming the ids of exactly what was recorded in it."""
    cycles, current = [], []
    for step, phase in expected(steps + 1, schedule).items():
        if current and (step != current[-1] + 1 or phase == "warmup" or
                        torch_action(current[-1], **schedule) == "RECORD_AND_SAVE"):
            cycles.append(current)
            current = []
        if phase == "active":
            current.append(step)
    cycles = [cycle for cycle in cycles + [current] if cycle]
    segments = harness.own(lines, "segment")
    assert [(line["args"]["cycle"], line["args"]["first_step"], line["args"]["steps"])
            for line in segments] == [(n, cycle[0], len(cycle)) for n, cycle in enumerate(cycles)]
    for cycle, segment in zip(cycles, segments):
        first, last = segment["args"]["first_id"], segment["args"]["last_id"]
        inside = [line for line in lines if first <= line["id"] <= last]
        assert {line["args"]["n"] for line in inside if line["name"] == "work"} >= \
            {step for step in cycle if step < steps}
        assert {line["args"]["step"] for line in inside if line["args"].get("phase") == "active"} == \
            set(cycle)


def test_twelve_steps(tmp_path):
    """What the issue of this part shows: two cycles of three, and the hook at steps 5 and 10."""
    run = Run(tmp_path, "hook", "steps", "12", PFW_SCHEDULE=text_of(ISSUE))
    lines = check_steps(run, ISSUE, 12)
    assert sorted(by_step(lines, "work")) == [1, 2, 3, 4, 6, 7, 8, 9]
    check_segments(lines, ISSUE, 12)
    segments = harness.own(lines, "segment")
    assert run.ready == [[step, step, cycle, first, 3, segments[cycle]["args"]["first_id"],
                          segments[cycle]["args"]["last_id"]]
                         for cycle, (step, first) in enumerate([(5, 2), (10, 7)])]
    assert all(line.endswith(str(tmp_path / "t.pfw")) for line in run.printed)
    assert "wrong" not in run.printed and run.said == ""
    # Steps 5 and 10 are not recorded: nor is the hook.
    assert not harness.events(lines, "access")


@pytest.mark.parametrize("end", [(), ("_exit",), ("exec", "/bin/true"), ("exec", "/missing")])
def test_a_cycle_that_the_end_cuts_short(tmp_path, end):
    """It has its segment however the program leaves; behind an exec that fails it goes on, and gets
    another one."""
    run = Run(tmp_path, "hook", "steps", "4", *end, *(["steps", "1"] * ("/missing" in end)),
              PFW_SCHEDULE="wait=1,warmup=1,active=5")
    failed = "/missing" in end
    lines = run.lines()
    segments = [line["args"] for line in harness.own(lines, "segment")]
    assert [(part["cycle"], part["first_step"], part["steps"]) for part in segments] == \
        [(0, 2, 3)] + [(0, 2, 4)] * failed and not run.ready
    work = {line["args"]["n"] for line in harness.events(lines, "work") if
            segments[0]["first_id"] <= line["id"] <= segments[-1]["last_id"]}
    assert work == ({1, 2, 3, 4} if failed else {1, 2, 3})
    if "/bin/true" not in end:
        last = max(line["args"]["step"] for line in harness.events(lines, "ProfilerStep#4",
                                                                   "ProfilerStep#5"))
        assert last == 4 + failed


@pytest.mark.parametrize("way", ["variable", "call"])
def test_any_schedule(tmp_path, way):
    some = random.Random(6).sample(list(small_schedules()), 25)
    for number, schedule in enumerate(some):
        schedule["discard_warmup"] = number % 2
        top = tmp_path / str(number)
        top.mkdir()
        if way == "variable":
            run = Run(top, "hook", "steps", "14", PFW_SCHEDULE=text_of(schedule))
        else:
            run = Run(top, "hook", "schedule", ",".join(str(schedule[key]) for key in KEYS),
                      "steps", "14", PFW_SCHEDULE="wait=50,warmup=1,active=1")
            assert run.printed[0] == "schedule 0"
        if not expected(15, schedule):
            assert not (top / "t.pfw").exists() or not harness.events(run.lines(), "work")
            continue
        lines = check_steps(run, schedule, 14)
        check_segments(lines, schedule, 14)
        saved = [step + 1 for step in range(14)
                 if torch_action(step, **schedule) == "RECORD_AND_SAVE"]
        assert [call[1] for call in run.ready] == saved, schedule
        no_warmup = "Profiler won't be using warmup, this can skew profiler results" in run.said
        assert no_warmup == (schedule["warmup"] == 0)


def test_pfw_run_takes_it(tmp_path):
    (tmp_path / "data").write_bytes(b"x" * 100)
    harness.run([harness.PFW, "run", "-q", "-o", tmp_path / "t", "--schedule", "warmup=1,active=2,repeat=1",
                 TARGET, "steps", "6"], cwd=tmp_path)
    assert by_step(harness.check_trace(tmp_path / "t.pfw"), "work") == \
        {0: "warmup", 1: "active", 2: "active"}


def test_no_schedule(tmp_path):
    """pfw_step() alone: every step is recorded, and everything before the first call is step 0."""
    lines = Run(tmp_path, "steps", "5").lines()
    first = harness.events(lines, "work")[0]["args"]
    first.setdefault("step", 0)  # where the writer looked before the first call
    first.setdefault("phase", "active")
    assert by_step(lines, "work") | {5: "active"} == {step: "active" for step in range(6)}
    assert len([line for line in lines if line["name"].startswith("ProfilerStep#")]) == 6


def test_hook_between_two_recorded_cycles(tmp_path):
    """It is recorded, since other threads are, and belongs to no step."""
    run = Run(tmp_path, "hook", "steps", "4", PFW_SCHEDULE="warmup=1,active=1")
    asked = harness.events(run.lines(), "access")
    assert len(run.ready) == len(asked) == 2
    assert all("step" not in line["args"] for line in asked)


def test_stop_saves_what_there_is(tmp_path):
    run = Run(tmp_path, "hook", "steps", "3", "stop", "steps", "3", "start", "steps", "1",
              PFW_SCHEDULE="warmup=1,active=8")
    assert [call[:5] for call in run.ready] == [[3, 3, 0, 1, 3]]
    lines = harness.read_lines(tmp_path / "t.pfw")
    assert len(harness.own(lines, "segment")) >= 1


def test_a_schedule_set_while_off_begins_with_the_next_start(tmp_path):
    schedule = {"wait": 1, "warmup": 1, "active": 2, "repeat": 1}
    text = ",".join(str(schedule.get(key, 0)) for key in KEYS)
    Run(tmp_path, "stop", "schedule", text, "steps", "3", "start", "steps", "8")
    lines = harness.read_lines(tmp_path / "t.pfw")
    assert by_step(lines, "work") == expected(8, schedule)


def test_end_saves_what_there_is(tmp_path):
    run = Run(tmp_path, "hook", "steps", "3", PFW_SCHEDULE="warmup=1,active=8")
    assert run.ready == []  # what the hook needs may be gone at exit
    (segment,) = harness.own(run.lines(), "segment")
    assert segment["args"]["steps"] == 3


def test_exit_does_not_wait_for_a_hook(tmp_path):
    run = Run(tmp_path, "hook", "hang", PFW_SCHEDULE="warmup=1,active=2")
    assert len(run.ready) == 1
    assert len(harness.own(run.lines(), "segment")) == 1


def test_files_opened_while_off_are_named(tmp_path):
    lines = Run(tmp_path, "steps", "9", PFW_SCHEDULE="wait=3,warmup=1,active=1").lines()
    assert {line["args"]["fname"] for line in harness.events(lines, "pread")} == \
        {str(tmp_path / "data")}
    assert not harness.events(lines, "open", "open64", "openat")


def test_more_steps_than_marks(tmp_path):
    run = Run(tmp_path, "steps", "20000", PFW_SCHEDULE="wait=1,warmup=1,active=3")
    check_steps(run, {"wait": 1, "warmup": 1, "active": 3}, 20000)


def test_other_threads(tmp_path):
    """Each event of any thread has the step in whose time it began."""
    run = Run(tmp_path, "threads", "3", *["steps", "33", "sleep", "5"] * 30, PFW_SCHEDULE=text_of(ISSUE | {"repeat": 0}))
    lines = run.lines()
    steps = sorted((line["ts"], line["ts"] + line["dur"], line["args"]["step"])
                   for line in lines if line["name"].startswith("ProfilerStep#"))
    starts = [start for start, _, _ in steps]
    reads = harness.events(lines, "pread")
    assert len({line["tid"] for line in reads}) > 1
    for line in reads:
        at = bisect.bisect_right(starts, line["ts"]) - 1
        if "step" in line["args"] and steps[at][0] + 1 < line["ts"] < steps[at][1] - 1:
            assert line["args"]["step"] == steps[at][2], (line, steps[at])


def test_a_fork_in_the_middle(tmp_path):
    run = Run(tmp_path, "steps", "2", "fork", "steps", "10", PFW_SCHEDULE=text_of(ISSUE))
    assert not any(line.startswith("child") for line in run.printed)
    check_steps(run, ISSUE, 12)


def test_killed(tmp_path):
    """What is recovered carries its steps as well."""
    Run(tmp_path, "steps", "4", "kill", status=-signal.SIGKILL, kept=1,
        PFW_SCHEDULE=text_of(ISSUE), PFW_FLUSH_MS="60000")
    harness.run([harness.PFW, "repair", tmp_path], harness.clean_environment(
        PFW_SPOOL_DIR=str(tmp_path / "spools")))
    lines = harness.check_trace(tmp_path / "t.pfw", reasons=("recovered",))
    assert by_step(lines, "work") == {1: "warmup", 2: "active", 3: "active"}


@pytest.mark.parametrize("text", ["active=0", "wait=1", "active=1,wat=2", "active=1,", "active=-1",
                                  "active=4294967296", "active=1,skip_first_wait=2"])
def test_bad_schedule(tmp_path, text):
    """One line names it; everything is recorded, as without it."""
    run = Run(tmp_path, "steps", "2", PFW_SCHEDULE=text)
    assert run.said.count("PFW_SCHEDULE") == 1 and text in run.said
    assert len(harness.events(run.lines(), "work")) == 2


def test_bad_call(tmp_path):
    run = Run(tmp_path, "schedule", "0,1,1,0,0", "steps", "2")
    assert run.printed == ["schedule -22"]
    assert "Invalid profiler schedule arguments" in run.said


def test_off_does_nothing(tmp_path):
    (tmp_path / "data").write_bytes(b"x" * 100)
    environment = harness.clean_environment(LD_PRELOAD=harness.PRELOAD)
    result = harness.run([TARGET, "hook", "schedule", "0,1,1,1", "record", "steps", "3", "stop"],
                         environment, tmp_path)
    assert (result.stdout, result.stderr) == ("schedule 0\n", "")


def check_named(run, schedule, steps, name, kinds=("app", "PP")):
    """As check_steps(), where a span of this name begins each step: the last one ends with the run."""
    lines, want = run.lines(), expected(steps, schedule)
    assert by_step(lines, "work") == by_step(lines, "pread") == want
    assert all(line["args"]["n"] == line["args"]["step"] for line in harness.events(lines, "work"))
    steps = [line for line in lines if line["args"].get("kind") == "step"]
    assert {line["args"]["step"]: line["args"]["phase"] for line in steps} == want
    spans = {line["name"]: line for line in lines
             if line["cat"] in kinds and line["args"].get("kind") != "step"}
    for line in steps:
        span = spans[name % line["args"]["step"]]
        assert line["ts"] <= span["ts"] and span["args"]["step"] == line["args"]["step"]
    return lines


@pytest.mark.parametrize("name", ["ProfilerStep#%ld", "train.step", "epoch 1: %ld"])
def test_steps_by_name(tmp_path, name):
    """What precedes the first span is recorded if step 0 is: here it is not."""
    globs = "no such,ProfilerStep#*,train*,epoch [0-9]: *"
    run = Run(tmp_path, "hook", "named", "12", name.replace("train.step", "train.step%.0ld"),
              PFW_SCHEDULE=text_of(ISSUE), PFW_STEP=globs)
    lines = check_named(run, ISSUE, 12, name) if "%" in name else run.lines()
    assert sorted(by_step(lines, "work")) == [1, 2, 3, 4, 6, 7, 8, 9]
    check_segments(lines, ISSUE, 11)
    assert [call[:2] for call in run.ready] == [[5, 5], [10, 10]]


def test_any_schedule_by_name(tmp_path):
    some = random.Random(7).sample(list(small_schedules()), 12)
    for number, schedule in enumerate(some):
        top = tmp_path / str(number)
        top.mkdir()
        run = Run(top, "named", "14", "ProfilerStep#%ld", PFW_SCHEDULE=text_of(schedule),
                  PFW_STEP="ProfilerStep#*")
        if expected(14, schedule):
            check_named(run, schedule, 14, "ProfilerStep#%d")
            check_segments(run.lines(), schedule, 13)
        else:
            assert not (top / "t.pfw").exists() or not harness.events(run.lines(), "work")


def test_steps_by_name_alone(tmp_path):
    """Without a schedule every step is recorded, and what comes before the first is of none."""
    run = Run(tmp_path, "named", "2", "other", "named", "3", "step", PFW_STEP="step")
    lines = run.lines()
    steps = [line["args"].get("step") for line in harness.events(lines, "work")]
    assert steps == [None, None, 0, 1, 2]
    # Nobody ends the last one: its last span does, not the program.
    (last,) = harness.events(lines, "ProfilerStep#2")
    work = harness.events(lines, "work")[-1]
    named = harness.events(lines, "step")[-1]
    ends = max(line["ts"] + line["dur"] for line in (work, named) if line["ph"] == "X")
    assert ends <= last["ts"] + last["dur"] < ends + 20


def test_steps_by_nvtx(tmp_path):
    target = harness.BUILD / "tests/nvtx_target"
    if not target.exists():
        pytest.skip("no nvtx3/nvToolsExt.h: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")
    run = Run(tmp_path, target, "steps", "12", "ProfilerStep#%d", PFW_SCHEDULE=text_of(ISSUE),
              PFW_STEP="ProfilerStep#*", NVTX_INJECTION64_PATH=str(harness.BUILD / "lib/libpfw.so.1"))
    lines = run.lines()
    assert by_step(lines, "pread") == expected(12, ISSUE)
    ranges = [line for line in lines if line["args"].get("kind") == "annotation"]
    assert {line["name"]: line["args"]["step"] for line in ranges} == \
        {f"ProfilerStep#{step}": step for step in expected(12, ISSUE)}


PYTHON_LOOP = """
import ctypes, os
pfw = ctypes.CDLL(None)
data = os.open("data", os.O_RDONLY)
for step in range(12):
    os.pread(data, 1, step)
    pfw.pfw_step()
"""


def test_python(tmp_path):
    run = Run(tmp_path, "/usr/bin/python3", "-c", PYTHON_LOOP, PFW_SCHEDULE=text_of(ISSUE))
    reads = harness.events(run.lines(), "pread")
    assert [(line["args"]["step"], line["args"]["offset"]) for line in reads] == \
        [(step, step) for step in (1, 2, 3, 4, 6, 7, 8, 9)]
