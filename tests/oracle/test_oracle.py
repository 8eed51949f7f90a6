"""The commands against an oracle that was written from the documents: random traces (generate.py), stored in
each way (states.py), and random questions about them (questions.py).  Every state has to give the same bytes,
and the figures have to be the oracle's, to the last digit.

PFW_ORACLE is how many traces, PFW_SEED the first of them.  What differs is made small and shown, with the
lines that show it: PFW_ORACLE=1 PFW_SEED=N is that trace again."""
import concurrent.futures
import os
import pathlib
import random
import subprocess
import tempfile

import generate
import questions
import states
from harness import PFW, clean_environment
from model import Near

TRACES = int(os.environ.get("PFW_ORACLE", "100"))
SEED = int(os.environ.get("PFW_SEED", "1"))
QUESTIONS = 14


def ask(question, directory):
    operands = [directory] * (2 if question.words[0] == "compare" else 1)
    done = subprocess.run([PFW, *question.command, "-q", "-j", "2", *operands], env=clean_environment(), text=True,
                          capture_output=True, timeout=120, check=False)
    return done.stdout, done.returncode, done.stderr.replace(str(directory), "")


def differences(got, wanted):
    """What the oracle has otherwise; a figure that is not shown is not compared."""
    found = [f"{key}: {'missing' if key in wanted else 'not expected'}" for key in {**got, **wanted}
             if (key in got) != (key in wanted)]
    return found + [f"{key}: {name}: {got[key][name]} instead of {value}" for key in wanted if key in got
                    for name, value in wanted[key].items() if name in got[key] and not agrees(got[key][name], value)]


def agrees(got, wanted):
    return wanted.agrees(got) if isinstance(wanted, Near) else got == wanted


def wrong(question, processes, directory, raw=None):
    """What is wrong with an answer, as text."""
    out, status, said = ask(question, directory)
    if status == 2 or status < 0:
        if not question.expected(processes):
            return ""
        return f"status {status}: {said}"
    if raw is not None:
        same = (out, status) == raw[:2] or not question.ordered and sorted(out) == sorted(raw[0])
        return "" if same else "differs from raw:\n" + contrast(raw[0], out)
    return "\n".join(differences(question.answer(out), question.expected(processes)))


def contrast(one, other):
    lines, others = set(one.splitlines()), set(other.splitlines())
    return "\n".join([*(f"- {line}" for line in sorted(lines - others)),
                      *(f"+ {line}" for line in sorted(others - lines))]) or "another order"


def faults_of(seed):
    """[(question, state, what is wrong)] of one trace."""
    chance = random.Random(seed)
    processes = generate.world(seed)
    asked = questions.some(chance, QUESTIONS, processes)
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for state in [*states.STATES[:4], chance.choice(states.STATES[4:])]:
            at = scratch / "raw" if (scratch / "raw").exists() and state == "raw" else \
                states.write(scratch, processes, state)
            for number, question in enumerate(asked):
                what = look(question, processes, at, state, scratch)
                if what:
                    found.append((seed, number, question, state, what))
    return found


def look(question, processes, at, state, scratch):
    raw = None if state == "raw" else question.raw
    if state == "raw":
        question.raw = ask(question, at)
    return wrong(question, processes, at, raw)


# ---- reproductions ----

def is_wrong(question, processes, state):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        at = states.write(scratch, processes, "raw")
        raw = ask(question, at) if state != "raw" else None
        if state != "raw":
            at = states.write(scratch, processes, state)
        return wrong(question, processes, at, raw)


def without(processes, unwanted):
    return [process.without(unwanted) for process in processes]


def smallest(question, processes, state):
    """The trace with as few of its lines as show the same."""
    for process in list(processes):
        fewer = [other for other in processes if other is not process]
        if fewer and is_wrong(question, fewer, state):
            processes = fewer
    size = max(len(process.events) for process in processes)
    while size:
        removable = [event for process in processes for event in process.events[1:-1]]
        for at in range(0, len(removable), size):
            unwanted = set(removable[at:at + size])
            fewer = without(processes, unwanted)
            if is_wrong(question, fewer, state):
                break
        else:
            size //= 2
            continue
        processes = fewer
    return processes


def report(seed, question, state):
    processes = smallest(question, generate.world(seed), state)
    text = "".join(f"--- {process.file}\n{process.text()}" for process in processes)
    return f"seed {seed}, {state}: pfw {' '.join(question.command)}\n" \
           f"{is_wrong(question, processes, state)}\n{text}"


def test_oracle():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [fault for each in pool.map(faults_of, range(SEED, SEED + TRACES)) for fault in each]
    if found:
        seed, _, question, state, _ = found[0]
        kinds = sorted({(seed, state, " ".join(question.command)) for seed, _, question, state, _ in found})
        listed = "\n".join(f"seed {seed}, {state}: {command}" for seed, state, command in kinds[:40])
        raise AssertionError(f"{len(found)} answers differ:\n{listed}\n\nthe first, made small:\n"
                             f"{report(seed, question, state)}")
