"""Random questions: the command line, what it answered as {row: figures}, and what the oracle says."""
import collections
import dataclasses
import json
from collections.abc import Callable

import allocations
import overlaps
import tables
import usage
from conditions import Conditions, Moment, Steps
from model import Near, us

GROUPINGS = ["name", "name", "fname", "rank", "step", "cat", "pid", "tid", "name,step", "cat,tid", "rank,name",
             "fname,step", "step,rank"]
EXPRESSIONS = [
    ("dur > 1", lambda event: event.dur is not None and event.dur > 1000),
    ("dur <= 100ns", lambda event: event.dur is not None and event.dur <= 100),
    ("args.ret >= 4KiB", lambda event: event.args.get("ret", -1) >= 4096),
    ("has(args.errno)", lambda event: "errno" in event.args),
    ("!has(args.fname)", lambda event: "fname" not in event.args),
    ('name =~ "^r|d$"', lambda event: event.name.startswith("r") or event.name.endswith("d")),
    ('cat in ("PP", "app") || args.fd == 4',
     lambda event: event.cat in ("PP", "app") or event.args.get("fd") == 4),
    ("args.bytes > 600", lambda event: event.args.get("bytes", 0) > 600)]


@dataclasses.dataclass
class Question:
    words: list
    conditions: Conditions
    answer: Callable  # of its output
    wanted: Callable  # of the processes
    ordered: bool = True  # whether its lines have an order

    @property
    def command(self):
        return [*self.words, *self.conditions.options()]

    def expected(self, processes):
        self.conditions.settle(processes)
        return self.wanted(processes)


def some(chance, count, processes):
    """Questions about a trace; each kind as often as the others."""
    kinds = [about_io, about_compute, about_plain, about_overlap, about_patterns, about_memory, about_counters,
             about_lines, about_bytes]
    first = chance.randrange(len(kinds))
    return [kinds[(first + number) % len(kinds)](chance, processes) for number in range(count)]


# ---- conditions ----

def moments(chance, processes):
    """Two points in time, mostly where something begins or ends."""
    if chance.random() < 0.3:
        low, high = sorted(chance.sample(range(101), 2))
        return Moment("%", low), Moment("%", high)
    counts = [steps_from_0(processes, process.rank) for process in processes]
    if chance.random() < 0.2 and all(counts):
        count = min(counts)
        first = chance.randrange(count)
        return Moment("step:", first), Moment("step:", chance.randrange(first + 1, count + 1))
    events = [event for process in processes for event in process.events]
    begin, end = min(event.ts for event in events), max(event.end for event in events)
    while True:
        low, high = sorted(chance.choice([event.ts, event.end]) + chance.choice([0, 0, 0, -1, 1])
                           for event in (chance.choice(events), chance.choice(events)))
        if begin <= low < high <= end:
            return (chance.choice([Moment("", low), Moment("+", low - begin)]),
                    chance.choice([Moment("", high), Moment("-", end - high)]))


def steps_from_0(processes, rank):
    """How many steps a rank has, if each number is there once; else 0."""
    numbers = [event.args["step"] for process in processes if process.rank == rank for event in process.events
               if event.kind == "step"]
    return len(numbers) if numbers == list(range(len(numbers))) else 0


def reach(chance, processes):
    """Conditions on time, rank, process and thread: mostly none."""
    found = Conditions()
    if chance.random() < 0.3:
        found.since, found.until = moments(chance, processes)
        if chance.random() < 0.3:
            found.since = None
        elif chance.random() < 0.3:
            found.until = None
    ranks = sorted({process.rank for process in processes if process.rank is not None})
    if ranks and chance.random() < 0.15:
        found.ranks = chance.sample(ranks, chance.randrange(1, len(ranks) + 1))
    if chance.random() < 0.1:
        found.pids = [chance.choice(processes).pid]
    return found


def narrowed(chance, processes):
    found = reach(chance, processes)
    events = [event for process in processes for event in process.events if event.ph == "X"]
    event = chance.choice(events) if events else None
    if event is None or chance.random() < 0.4:
        return found
    if chance.random() < 0.1:
        found.tids = [event.tid]
    which = chance.choice(["cats", "names", "fnames", "steps", "min_dur", "where"])
    if which == "cats":
        found.cats = chance.choice([["POSIX"], ["STDIO"], ["P*"], ["POSIX", "STDIO"]])
    elif which == "names":
        found.names = [chance.choice([event.name, event.name[:1] + "*"])]
    elif which == "fnames":
        found.fnames = chance.choice([["/data/*"], ["*.pt"], ["/ckpt/opt.pt", "pipe*"]])
    elif which == "steps":
        found.steps = sorted(chance.sample(range(5), 2))
    elif which == "min_dur":
        found.min_dur = event.dur
    else:
        found.where = chance.choice(EXPRESSIONS)
    return found


# ---- tables ----

def rows(text):
    return [json.loads(line, parse_int=str, parse_float=str) for line in text.splitlines()]


def table_rows(text, section, fields):
    return {(tuple(row[field] for field in fields), *([int(row["device"])] if section == "compute" else [])): row
            for row in rows(text) if row["section"] == section}


def in_order(text, section, key):
    """Whether the rows of a section are sorted by a column, the largest first."""
    values = [float(row[key] or 0) for row in rows(text) if row["section"] == section]
    return {"sorted": str(values == sorted(values, reverse=True))}


def as_text(found):
    """The oracle's rows, with keys as a reader of the output sees them."""
    return {(tuple(str(part) for part in key[0]), *key[1:]): row for key, row in found.items()}


def about_table(chance, conditions, section, oracle, words=()):
    fields = chance.choice(GROUPINGS).split(",")
    key = chance.choice(["count", "self_cpu_time_total" if section == "compute" else "total"])
    words = ["table", "-g", ",".join(fields), "-s", key, "--row-limit", "-1", "--format", "ndjson", *words]
    return Question(words, conditions,
                    lambda text: table_rows(text, section, fields) | {"order": in_order(text, section, key)},
                    lambda processes: as_text(oracle(processes, fields, conditions)) | {"order": {"sorted": "True"}})


def about_io(chance, processes):
    def oracle(*arguments):
        return {(key,): row for key, row in tables.io(*arguments).items()}
    return about_table(chance, narrowed(chance, processes), "io", oracle, ["--columns", "io"])


def about_compute(chance, processes):
    return about_table(chance, narrowed(chance, processes), "compute", tables.compute)


def about_plain(chance, processes):
    def oracle(*arguments):
        return {(key,): row for key, row in tables.plain(*arguments).items()}
    return about_table(chance, narrowed(chance, processes), "all", oracle, ["--plain"])


# ---- the others ----

def about_overlap(chance, processes):
    conditions = reach(chance, processes)

    def answer(text):
        found = {}
        for row in rows(text):
            if row["type"] in ("rank", "step"):
                found[row["rank"], row.get("step")] = row
        return found

    def wanted(processes):
        found = overlaps.overlap(processes, conditions)
        return {(None if rank is None else str(rank), None if step is None else str(step)): {
            key: in_us(key, value) for key, value in row.items()} for (rank, step), row in found.items()}
    return Question(["overlap", "--steps", "--format", "ndjson"], conditions, answer, wanted)


def in_us(key, value):
    if value is None or key in overlaps.COUNTS:
        return value if value is None else str(value)
    return Near(value / 1000) if isinstance(value, Near) else tables.number(value / 1000)


def about_patterns(chance, processes):
    conditions = narrowed(chance, processes)

    def answer(text):
        return {(row["section"], row["fname"] if row["section"] == "file" else None,
                 row["rank"] if row["section"] == "rank" else None): row for row in rows(text)}

    def wanted(processes):
        return {(section, fname, None if rank is None else str(rank)): row
                for (section, fname, rank), row in usage.patterns(processes, conditions).items()}
    return Question(["patterns", "--row-limit", "-1", "--format", "ndjson"], conditions, answer, wanted)


def about_memory(chance, processes):
    conditions = reach(chance, processes)
    if chance.random() < 0.3:
        conditions.steps = [chance.randrange(3)]

    def wanted(processes):
        return numbered({key: None if value is None else str(value) for key, value in row.items()}
                        for row in allocations.memory(processes, conditions))
    return Question(["memory", "--format", "ndjson", "--row-limit", "-1"], conditions,
                    lambda text: numbered(row for row in rows(text) if row["section"] in SECTIONS), wanted)


def about_counters(chance, processes):
    """docs/gpu.rst: the samples of each counter of a process."""
    conditions = reach(chance, processes)

    def wanted(processes):
        found = collections.defaultdict(list)
        for event in (event for process in processes for event in process.events):
            if event.ph == "C" and conditions.reached(event):
                for key, value in event.args.items():
                    rank = None if event.process.rank is None else str(event.process.rank)
                    found[rank, str(event.process.pid), event.name, key].append((event.ts, value))
        return {key: counted([value for _, value in sorted(values)]) for key, values in found.items()}
    return Question(["counters", "--format", "ndjson"], conditions,
                    lambda text: {(row["rank"], row["pid"], row["name"], row["key"]): row for row in rows(text)}, wanted)


def counted(values):
    """Whole bytes that are added from sample to sample."""
    return {"unit": "bytes", "samples": str(len(values)), "min": str(min(values)), "max": str(max(values)),
            "mean": str(round(sum(values) / len(values))), "last": str(values[-1]), "total": str(sum(values))}


SECTIONS = {"device": ["pid"], "step": ["pid", "step"], "owner": ["name"], "unfreed": ["pid", "addr"]}


def numbered(rows):
    """By section and what is described; a pid may be that of several processes."""
    found, seen = {}, collections.Counter()
    for row in sorted(rows, key=lambda row: str([row.get(key) for key in ORDER])):
        key = (row["section"], *(row[key] for key in SECTIONS[row["section"]]))
        seen[key] += 1
        found[*key, seen[key]] = row
    return found


ORDER = ["allocated_bytes", "freed_bytes", "peak_bytes", "end_bytes", "growth_bytes", "bytes", "name"]


def about_lines(chance, processes):
    conditions, meta = narrowed(chance, processes), chance.random() < 0.2

    def lines(processes):
        steps = Steps(processes)
        return [event for process in processes for event in process.events
                if (meta or event.ph != "M") and conditions.reached(event) and conditions.shown(event, steps)]
    words = ["query", *(["--meta"] if meta else [])]
    if chance.random() < 0.5:
        return Question([*words, "--count"], conditions, lambda text: {"lines": {"count": text.strip()}},
                        lambda processes: {"lines": {"count": str(len(lines(processes)))}})
    return Question([*words, "--fields", "pid,id,ts,dur"], conditions,
                    lambda text: {line: {} for line in text.splitlines()[1:]},
                    lambda processes: {f"{event.process.pid}\t{event.id}\t{us(event.ts)}\t"
                                       f"{'' if event.dur is None else us(event.dur)}": {}
                                       for event in lines(processes)}, ordered=False)


def about_bytes(chance, processes):
    """Whose answer has to be the same for all states; the oracle does not know it."""
    words = chance.choice([["table"], ["table", "-g", "fname"], ["table", "-g", "cat", "--plain"], ["patterns"],
                           ["overlap", "--steps"], ["overlap", "--bins", "7"], ["memory", "--bins", "5"],
                           ["memory"], ["compare"], ["compare", "-g", "rank,cat", "--format", "ndjson"],
                           ["table", "-g", "name", "--format", "md"], ["export", "--format", "folded"],
                           ["query", "--sort", "-dur", "--limit", "3", "--fields", "dur"]])
    conditions = Conditions() if words[0] == "export" else reach(chance, processes)
    return Question(words, conditions, lambda text: {}, lambda processes: {})
