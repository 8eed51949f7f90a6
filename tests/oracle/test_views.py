"""The views that an index answers, of random traces (nasty.py) in each way that they can be stored: with the
indexes they have to be, byte for byte, what --no-index reads out of the lines.

PFW_VIEWS is how many traces, PFW_SEED the first of them.  What differs is made small and shown, with the
lines that show it: PFW_VIEWS=1 PFW_SEED=N is that trace again."""
import concurrent.futures
import gzip
import os
import pathlib
import random
import subprocess
import tempfile

import nasty
from harness import PFW, clean_environment

TRACES = int(os.environ.get("PFW_VIEWS", "20"))
SEED = int(os.environ.get("PFW_SEED", "1"))
NARROWED = int(os.environ.get("PFW_VIEWS_NARROWED", "4"))  # views with conditions, of each state of a trace
JOBS = int(os.environ.get("PFW_VIEWS_JOBS", "2"))

TABLES = [["table"], *(["table", "-g", by] for by in ("fname", "rank", "step", "shape", "cat", "name"))]
OVERLAPS = [["overlap"], ["overlap", "--steps"]]
OF_ONE = [["table", "-g", by, "--rank", "0"] for by in ("fname", "step")] + [["compare", "--rank", "0"]]
THREADS = [["table", "-g", "tid"], ["table", "-g", "shape,pid"], ["table", "--pid", "100"], ["table", "--tid", "100"]]
VIEWS = [*TABLES, *THREADS, ["table", "-g", "process"], *OF_ONE, *OVERLAPS, ["patterns"], ["memory"], ["compare"]]
OF_PARTIALS = [*TABLES, *THREADS, *OF_ONE, *OVERLAPS, ["patterns"], ["compare"]]
EPOCH = 1795230878000000  # µs: about when the traces begin
ANSWERED = []  # by partials, which have no lines to fall back on
STATES = ["raw", "gz", "one gz", "grown", "compacted", "one file", "partial"]


def pfw(*words, check=False):
    done = subprocess.run([PFW, *words], env=clean_environment(PFW_INDEX_EVENTS="0"), capture_output=True, timeout=300,
                          check=False)
    if check and (done.returncode > 2 or done.returncode < 0):
        raise AssertionError(f"pfw {' '.join(map(str, words))}: {done.returncode}: {done.stderr.decode()}")
    return done


# ---- states: the directory that is asked, with indexes ----

def put(directory, files):
    directory.mkdir(parents=True)
    for name, lines in files.items():
        (directory / name).write_bytes(b"".join(lines))


def put_gz(directory, files, chance):
    directory.mkdir(parents=True)
    for name, lines in files.items():
        size = max(1, chance.choice([len(lines), len(lines) // 3, 5]))
        members = [gzip.compress(b"".join(lines[at:at + size]), 1) for at in range(0, max(len(lines), 1), size)]
        (directory / f"{name}.gz").write_bytes(b"".join(members))


def grow(at, files, chance):
    """Indexed when it was shorter; of some the index is brought up to date."""
    whole = {name: b"".join(lines) for name, lines in files.items()}
    put(at, {name: [text[:chance.randrange(len(text) + 1)]] for name, text in whole.items()})
    pfw("index", "-q", at, check=True)
    for name, text in whole.items():
        with open(at / name, "ab") as file:
            file.write(text[file.tell():])
    if chance.random() < 0.7:
        pfw("index", "-q", at, check=True)


def store(scratch, files, state, chance):
    at = scratch / state.replace(" ", "-")
    if state in ("compacted", "one file", "partial"):
        put(scratch / "lines", files)
        split = ["--split-by", "none"] if state == "one file" else []
        pfw("compact", "-q", "--keep", *split, "-o", at, scratch / "lines", check=True)
        at.mkdir(exist_ok=True)  # nothing of it was a trace
    elif state == "grown":
        grow(at, files, chance)
    elif state == "one gz":
        put_gz(at, {"t.pfw": [line for name in sorted(files) for line in files[name]]}, chance)
    elif state == "gz":
        put_gz(at, files, chance)
    else:
        put(at, files)
    if state in ("raw", "gz", "one gz"):
        pfw("index", "-q", "-j", "2", at, check=True)
    if state == "partial":
        pfw("index", "-q", "--partial", "-o", scratch / "run.partial", at, check=True)
    return at


# ---- asking ----

def is_compared(view):
    return view[0] == "compare"


def ask(view, how, at, other):
    sides = [at, other] if is_compared(view) else [at]
    done = pfw(*view, "-q", *how, *sides)
    return done.stdout, done.returncode


def differs(view, state, scratch, at, other):
    """What of a view is otherwise without indexes."""
    if state == "partial":
        partial = scratch / "run.partial"
        if not partial.exists():
            return ""
        other = at
        with_index = ask(view, [], partial, partial)
        if with_index == (b"", 2):
            return ""  # it says that it needs lines
        ANSWERED.append(view)
    else:
        with_index = ask(view, [], at, other)
    without = ask(view, ["--no-index"], at, other)
    if view not in VIEWS and state != "partial" and max(with_index[1], without[1]) == 1:
        with_index, without = (with_index[0], 1), (without[0], 1)  # of damage in blocks that were read
    return "" if with_index == without else contrast(without, with_index)


def contrast(without, with_index):
    if without[0] == with_index[0]:
        return f"status {with_index[1]} instead of {without[1]}"
    lines, others = (answer[0].decode(errors="replace").splitlines() for answer in (without, with_index))
    return "\n".join([*(f"- {line}" for line in lines if line not in others),
                      *(f"+ {line}" for line in others if line not in lines)]) or "another order"


def others(files, chance):
    """The other side of a comparison: the same with some lines fewer."""
    return {name: [line for line in lines if chance.random() < 0.9] for name, lines in files.items()}


def window(chance):
    """One of percent, from the begin or the end, of times since the epoch, or of steps; some are empty or begin in a span."""
    low, high = sorted(chance.sample(range(101), 2))
    at = sorted(EPOCH + chance.randrange(-10, 3000) + chance.random() for _ in range(2))
    since, until = chance.choice([(f"{low}%", f"{high}%"), (f"+{low}us", f"+{20 * high}us"), (f"-{20 * high}us", f"-{low}us"),
                                  (f"{at[0]:.3f}", f"{at[1]:.3f}"), (f"{at[0]:.3f}",) * 2, ("0", str(EPOCH))])
    return chance.choice([["--since", since, "--until", until]] * 2 + [["--since", since], ["--until", until]])


def narrowed(view, chance):
    """A view in another format, and most with conditions: one, or several at once."""
    words = [*view, "--format", chance.choice(["ndjson", "csv", "md"])]
    conditions = [["--rank", "0"], ["--rank", "0-1"], ["--pid", "100"]]
    if view[0] != "memory":
        conditions += [["--cat", "POSIX"], ["--name", "*a*"], ["--fname", "/data/*"], ["-w", "dur > 1"],
                       ["-w", "cat == 'POSIX' || name =~ '[aeiou]'"]]
    if view[0] == "table":
        conditions += [["--step", "0-2"], ["--tid", "100"], ["--plain"], ["--row-limit", "3"], ["-s", "count"],
                       ["--top-level-only"]]
    if view[0] == "overlap":
        conditions += [["--bins", "7"], ["--compute", "*m*"]]
    asked = chance.sample(conditions, chance.choice([0, 1, 1, 2, 3]))
    return [*words, *(chance.choice([window(chance), []])), *(word for each in asked for word in each)]


def faults_of(seed):
    files = nasty.sample(seed)
    return [(seed, state, view, said) for state in STATES for view, said in faults_in(files, seed, state)]


def faults_in(files, seed, state, only=None):
    """[(view, what is otherwise)] of a trace in a state."""
    chance = random.Random(f"{seed} {state}")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        at = store(scratch, files, state, chance)
        views = OF_PARTIALS if state == "partial" else VIEWS
        asked = [only] if only else [*views, *(narrowed(chance.choice(views), chance) for _ in range(NARROWED))]
        other = store(scratch / "other", others(files, random.Random(seed)), state, chance) \
            if any(map(is_compared, asked)) else None
        found = [(view, differs(view, state, scratch, at, other)) for view in asked]
    return [(view, said) for view, said in found if said]


# ---- what differs, made small ----

def smallest(files, seed, state, view):
    """The files without what is not needed for the difference: files, then ever fewer lines."""
    wrong = lambda fewer: fewer and faults_in(fewer, seed, state, view)
    for name in list(files):
        fewer = {each: lines for each, lines in files.items() if each != name}
        files = fewer if wrong(fewer) else files
    size = max(map(len, files.values()))
    while size:
        for name, at in [(name, at) for name in files for at in range(0, len(files[name]), size)]:
            fewer = {**files, name: files[name][:at] + files[name][at + size:]}
            if wrong(fewer):
                files = fewer
                break
        else:
            size //= 2
    return files


def report(seed, state, view):
    files = smallest(nasty.sample(seed), seed, state, view)
    text = "".join(f"--- {name}\n{b''.join(lines).decode(errors='replace')}\n" for name, lines in files.items())
    said = "\n".join(said for _, said in faults_in(files, seed, state, view))
    return f"seed {seed}, {state}: pfw {' '.join(view)}\n{said}\n{text[:8000]}"


def test_views():
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        found = [fault for each in pool.map(faults_of, range(SEED, SEED + TRACES)) for fault in each]
    if found:
        seed, state, view, _ = found[0]
        listed = "\n".join(f"seed {seed}, {state}: {' '.join(view)}" for seed, state, view, _ in found[:60])
        raise AssertionError(f"{len(found)} views differ:\n{listed}\n\nthe first, made small:\n"
                             f"{report(seed, state, view)}")
    assert TRACES < 10 or len(ANSWERED) >= TRACES * len(OF_PARTIALS) // 2
