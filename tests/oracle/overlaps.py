"""`pfw overlap`, by docs/analysis.rst: every elementary stretch of time between two edges by itself."""
import collections
import itertools
import re

from calls import moved
from model import Near, nearest_rank
from usage import is_file

SETS = ["io", "cpu", "gpu", "comm", "copy", "load"]
COMM = re.compile("nccl|rccl|oneccl|msccl|hccl|nvshmem", re.IGNORECASE)
OF_KERNELS = {"gpu", "comm", "kernels", "idle"}
COUNTS = {"events", "io_calls", "io_bytes", "copy_count", "copy_bytes", "kernel_count", "launches",
          "launches_unknown", "steps_slowest"}


def set_of(event):
    if event.ph != "X":
        return None
    if event.cat == "SYNC":
        return "wait"
    if event.io:
        return "io" if is_file(event.args.get("fname") or "/") else None
    if event.kind == "kernel":
        return "comm" if COMM.search(event.name) else "gpu"
    if event.kind in ("memcpy", "memset"):
        return "copy"
    if event.name.startswith("enumerate(DataLoader)#"):
        return "load"
    return "cpu" if event.kind == "cpu_op" else None


class Rank:
    """The sets of one rank, cut to a window."""

    def __init__(self, events, since, until):
        self.events = [event for event in events if event.ph != "M"]
        self.of = collections.defaultdict(list)
        self.gaps, self.kernels, self.unknown = [], 0, 0
        for event in self.events:
            if set_of(event):
                self.of[set_of(event)].append((event.ts, event.end))
        self.queue()
        times = [time for event in self.events for time in (event.ts, event.end)]
        low, high = (min(times), max(times)) if times else (0, 0)
        self.low = low if since is None else max(low, since)
        self.high = high if until is None else min(high, until)
        self.high = max(self.low, self.high)

    def queue(self):
        launches = {}
        for event in self.events:
            if event.kind in ("runtime", "driver") and "Launch" in event.name and event.args.get("correlation"):
                key = event.process, event.args["correlation"]
                launches[key] = min(event.ts, launches.get(key, event.ts))
        for event in self.events:
            if event.kind != "kernel" or event.ph != "X":
                continue
            self.kernels += 1
            begin = launches.get((event.process, event.args.get("correlation")))
            if begin is None:
                self.unknown += 1
                continue
            self.gaps.append(max(event.ts - begin, 0))
            self.of["queued"].append((begin, event.ts))

    def windows(self):
        """[(number, begin, end)]: a step is over at its end, or where the next begins."""
        steps = sorted({(event.ts, event.args["step"], event.end) for event in self.events
                        if event.kind == "step" and event.dur > 0})
        for step in steps:
            after = [other[0] for other in steps if other > step]
            yield step[1], step[0], min([step[2], *after])

    def figures(self, windows):
        """The figures of these windows together: [(begin, end)], cut to the rank's own."""
        windows = [(max(begin, self.low), min(end, self.high)) for begin, end in windows]
        edges = sorted({time for each in [windows, *self.of.values()] for pair in each for time in pair})
        sums = collections.Counter()
        for begin, end in itertools.pairwise(edges):
            if any(low <= begin and end <= high for low, high in windows):
                inside = frozenset(each for each, spans in self.of.items()
                                   if any(low <= begin and end <= high for low, high in spans))
                sums[inside] += end - begin
        return self.named(sums)

    def named(self, sums):
        def ns(holds):
            return sum(length for inside, length in sums.items() if holds(inside))

        found = {"wall": ns(lambda s: True), "compute": ns(lambda s: s & {"cpu", "gpu"}),
                 "kernels": ns(lambda s: s & {"gpu", "comm"}),
                 "io_compute": ns(lambda s: "io" in s and s & {"cpu", "gpu"}),
                 "io_unoverlapped": ns(lambda s: "io" in s and not s & {"cpu", "gpu"}),
                 "comm_unoverlapped": ns(lambda s: "comm" in s and "gpu" not in s),
                 "idle": ns(lambda s: not s & {"gpu", "comm"})}
        found |= {each: ns(lambda s, each=each: each in s) for each in [*SETS, "wait"]}
        found["wait_unoverlapped"] = ns(lambda s: "wait" in s and not s & set(SETS))
        found |= {f"{one}_{other}": ns(lambda s, one=one, other=other: one in s and other in s)
                  for one, other in itertools.combinations(SETS, 2)}
        parts = ["copy", "queued", "load", "io"]
        for number, part in enumerate(parts):
            found[f"idle_{part}"] = ns(lambda s, number=number, part=part: part in s and not
                                       s & {"gpu", "comm", *parts[:number]})
        found["idle_launch"] = ns(lambda s: not s & {"gpu", "comm", *parts})
        known = self.known()
        return {key: value if self.is_known(key, known) else None for key, value in found.items()}

    def known(self):
        """The sets that were recorded, by what there is of them."""
        def ran(which):
            return any(max(begin, self.low) < min(end, self.high) for begin, end in self.of[which])
        return ({"io"} if any(event.io for event in self.events) else set()) | \
            ({"gpu", "comm", "copy"} if self.kernels else set()) | \
            ({"copy"} if any(set_of(event) == "copy" for event in self.events) else set()) | \
            ({"cpu", "load"} if ran("cpu") else set()) | {each for each in ("load", "wait") if ran(each)}

    @staticmethod
    def is_known(key, known):
        """All that a figure is of, and of CPU and GPU, which are compute, one."""
        parts = set(key.split("_"))
        if OF_KERNELS & parts and "gpu" not in known:
            return False
        if "compute" in parts and not known & {"cpu", "gpu"}:
            return False
        return parts & {*SETS, "wait"} <= known

    def total(self):
        io = [event for event in self.events if event.io]
        copies = [event for event in self.events if set_of(event) == "copy"]
        known = self.known()
        counts = {"io": {"io_calls": len(io), "io_bytes": sum(moved(event) or 0 for event in io)},
                  "copy": {"copy_count": len(copies), "copy_bytes": sum(moved(event) for event in copies)},
                  "gpu": {"kernel_count": self.kernels}}
        return self.figures([(self.low, self.high)]) | {
            "events": len(self.events), "launches": len(self.gaps), "launches_unknown": self.unknown,
            **gap_figures(self.gaps),
            **{key: number if which in known else None
               for which, each in counts.items() for key, number in each.items()}}

    def steps(self):
        by_number = collections.defaultdict(list)
        for number, begin, end in self.windows():
            if max(begin, self.low) < min(end, self.high):
                by_number[number].append((begin, end))
        return {number: self.figures(each) for number, each in by_number.items()}


def gap_figures(gaps):
    gaps = sorted(gaps)
    if not gaps:
        return dict.fromkeys(["launch_gap", "launch_gap_max", "launch_gap_mean", "launch_gap_p50", "launch_gap_p99"])
    return {"launch_gap": sum(gaps), "launch_gap_max": gaps[-1], "launch_gap_mean": (2 * sum(gaps) + len(gaps)) // (2 * len(gaps)),
            "launch_gap_p50": Near(nearest_rank(gaps, 50)), "launch_gap_p99": Near(nearest_rank(gaps, 99))}


def overlap(processes, conditions):
    """{(rank, step or None): figures}; the rank "all" for the sum over ranks."""
    by_rank = collections.defaultdict(list)
    for process in processes:
        if conditions.ranks is None or process.rank in conditions.ranks:
            by_rank[process.rank] += [event for event in process.events if conditions.reached(event)]
    ranks = {rank: Rank(events, *conditions.windows[rank]) for rank, events in by_rank.items()}
    found = {(rank, None): sets.total() for rank, sets in ranks.items()}
    steps = {rank: sets.steps() for rank, sets in ranks.items()}
    straggle(found, steps)
    found["all", None] = added(found.values()) | gap_figures([gap for sets in ranks.values() for gap in sets.gaps])
    found |= {(rank, number): row for rank, rows in steps.items() for number, row in rows.items()}
    return found


def added(rows):
    """Their sums; null where all are."""
    rows = list(rows)
    return {key: None if all(row[key] is None for row in rows) else sum(row[key] or 0 for row in rows)
            for key in rows[0] if not key.startswith(("launch_gap", "steps_"))}


def straggle(found, steps):
    """Stragglers: in each step of several ranks the slowest, and how far it is behind the lower median."""
    slowest, behind = collections.Counter(), collections.Counter()
    for number in {number for rows in steps.values() for number in rows}:
        own = sorted((rows[number]["wall"] - (rows[number]["comm_unoverlapped"] or 0), rank)
                     for rank, rows in steps.items() if number in rows)
        if len(own) < 2:
            continue
        rank = min(rank for time, rank in own if time == own[-1][0])
        slowest[rank] += 1
        behind[rank] += own[-1][0] - own[(len(own) - 1) // 2][0]
    for rank in steps if slowest else []:
        found[rank, None] |= {"steps_slowest": slowest[rank], "steps_behind": behind[rank]}
