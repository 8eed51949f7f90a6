"""No call takes more than 2 KiB of a program's stack for us, 2.5 with PFW_STACK: threads may have 16 KiB,
handlers 8.

Stacks are painted before a call and looked at after it, traced and untraced; what the traced one is
deeper by is ours.  LD_BIND_NOW: finding a function at its first call takes 3 KiB, which would hide
ours.  calls_target does so with each call of calls.def, stack_target with what a thread
does first and last: its stack is a file that outlives it.
"""
import collections
import os
import re
import time

import pytest

import harness

TARGETS = harness.BUILD / "tests"
MOST = collections.defaultdict(lambda: 2048, stacks=2560)  # bytes, by form
API = ("spans", "compute", "steps", "rename")
MODES = ("touch", "many", "paths", "fork", "fork-many", "vfork", "clone", "spawn", "system", "popen",
         "daemon", "first-exit", "_exit", "exit", "quick_exit", "exec", "exec-fails", "clean",
         "setuid", "unshare", "chroot", "prctl", *API)
FORMS = {"plain": {}, "gz": {"DFTRACER_TRACE_COMPRESSION": "1"},
         "sums": {"PFW_MIN_DUR": "1s"}, "stacks": {"PFW_STACK": "every:1"}, "full": {"PFW_RING_MAX": "64KiB", "PFW_FLUSH_MS": "10ms"}}


@pytest.fixture(autouse=True)
def own_code():
    if harness.RUNTIME:
        pytest.skip("a sanitizer makes frames larger")


def depth(path):
    """The deepest byte that is not paint."""
    painted = path.read_bytes()
    return len(painted) - len(re.match(rb"\x5a*", painted)[0])


def run(command, environment, tmp_path):
    """The program's end, and how deep it and its child went."""
    stacks = {name: tmp_path / name for name in ("stack", "stack.child")}
    for stack in stacks.values():
        stack.unlink(missing_ok=True)
    done = harness.run(command, environment, tmp_path, status=None)
    for _ in range(100 if "daemon" in command else 0):  # nobody waits for its child
        time.sleep(0 if stacks["stack.child"].exists() else 0.1)
    return done, {name: depth(stack) for name, stack in stacks.items() if stack.exists()}


def traced(tmp_path, **variables):
    spools = tmp_path / "spools"
    spools.mkdir(exist_ok=True)
    return harness.traced_environment(tmp_path / "t", spools, LD_BIND_NOW="1", **variables)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ("thread", "signal"))
def test_first_and_last_calls(tmp_path, where, mode, form):
    command = [TARGETS / "stack_target", tmp_path / "stack", mode, where]
    off = {"LD_BIND_NOW": "1"} | ({"LD_PRELOAD": harness.PRELOAD, "DFTRACER_ENABLE": "0"}
                                  if mode in API else {})
    plain, without = run(command, harness.clean_environment(**off), tmp_path)
    if plain.returncode == 77:
        pytest.skip("needs root")
    done, taken = run(command, traced(tmp_path, **FORMS[form]), tmp_path)
    assert done.returncode == plain.returncode == 0, done.stderr
    assert taken.keys() == without.keys()
    for name, bytes_ in taken.items():
        assert bytes_ - without[name] <= MOST[form], f"{mode}: {name}"
    assert mode == "first-exit" or harness.trace_names(tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_each_call(tmp_path, form):
    deepest = {}
    for name, environment in (("plain", harness.clean_environment(LD_BIND_NOW="1")),
                              ("traced", traced(tmp_path, **FORMS[form]))):
        work = tmp_path / name
        work.mkdir()
        with open(work / "stdout", "wb") as stdout:
            harness.subprocess.run(
                [TARGETS / "calls_target", work, tmp_path / "results", tmp_path / "expected",
                 tmp_path / "stacks"], stdout=stdout, env=environment, check=True, timeout=120)
        deepest[name] = collections.defaultdict(list)
        for line in (tmp_path / "stacks").read_text().splitlines():
            call, _, taken = line.partition(" ")
            deepest[name][call].append(int(taken))
    assert deepest["plain"].keys() == deepest["traced"].keys() and len(deepest["plain"]) > 200
    ours = {call: max(with_us - without
                      for with_us, without in zip(deepest["traced"][call], deepest["plain"][call]))
            for call in deepest["plain"]}
    assert not {call: took for call, took in ours.items() if took > MOST[form]}
