"""`pfw patterns`, by docs/analysis.rst: the places of reads and writes, as Darshan counts them."""
import collections

from calls import COPIES, OPENS, READS, WRITES, failed, left, moved, summed
from conditions import Steps

BOUNDS = {"0_100": 100, "100_1k": 1 << 10, "1k_10k": 10 << 10, "10k_100k": 100 << 10, "100k_1m": 1 << 20,
          "1m_4m": 4 << 20, "4m_10m": 10 << 20, "10m_100m": 100 << 20, "100m_1g": 1 << 30, "1g_plus": 1 << 62}
CLASSES = ("first", "consecutive", "strided", "sequential", "random", "unplaced")
APPEND = 1024  # O_APPEND


class OpenFile:
    """Its position, None: not known; and whether writes go to the end."""

    def __init__(self, place=None, appends=False):
        self.place, self.appends = place, appends


class Positions:
    """Where the descriptors of a process are."""

    def __init__(self):
        self.at = collections.defaultdict(OpenFile)  # copies of a descriptor share one

    def appends(self, event, side, descriptor):
        return side == "write" and self.at[event.args[descriptor]].appends

    def move(self, event, side, descriptor):
        """The place of a transfer whose line does not name it."""
        file, size = self.at[event.args[descriptor]], accessed(event)
        if failed(event):
            return None
        place = None if self.appends(event, side, descriptor) else file.place
        file.place = None if place is None or size is None else place + size
        return place

    def follow(self, event):
        """What a call that moves no bytes does to them."""
        args, fd = event.args, event.args.get("fd")
        if event.name == "close":  # it closes even if it fails
            self.at.pop(fd, None)
        if failed(event):
            return
        if event.name in OPENS:
            self.at[args["ret"]] = OpenFile(0, has_append(args.get("flags", 0)))
        elif event.name == "dup":
            self.at[args["ret"]] = self.at[fd]
        elif event.name in ("lseek", "fseek", "rewind"):
            self.at[fd].place = sought(event, self.at[fd].place)


def has_append(flags):
    """Names joined by |, or the number of older versions."""
    return "O_APPEND" in flags.split("|") if isinstance(flags, str) else bool(flags & APPEND)


def sought(event, place):
    """The position after a seek from a place."""
    if event.name == "rewind":
        return 0
    if event.name == "lseek":
        return event.args["ret"]
    since = {0: 0, 1: place, 2: None, "SEEK_SET": 0, "SEEK_CUR": place, "SEEK_END": None}[event.args["whence"]]
    return None if since is None else since + event.args["offset"]


class Side:
    """The reads, or the writes, of one process on one file."""

    def __init__(self):
        self.last = None  # begin and end of the access before, and how far it was from the one before it

    def place(self, begin, size):
        """Its class, and whether it is behind the last byte of the one before."""
        before, self.last = self.last, (begin, begin + size, begin - self.last[0] if self.last else None)
        behind = begin > (before[1] - 1 if before else -1)
        if before is None:
            return "first", begin > 0
        behind = begin > before[1] - 1
        if begin == before[1]:
            return "consecutive", behind
        if before[2] is not None and begin - before[0] == before[2]:
            return "strided", behind
        return ("sequential" if begin > before[1] else "random"), behind


def is_file(fname):
    return fname is not None and not fname.startswith(("pipe:[", "socket:[", "anon_inode:"))


def accesses(event):
    """[(side, fname, the members that have its place and its descriptor)] of a transfer: a copy reads one file and writes the other."""
    args = event.args
    if event.name in COPIES:
        yield "read", args["fname"], "offset", "fd"
        if "target" in args:
            yield "write", args["target"], "offset_out", "fd_out"
    elif event.name in READS:
        yield "read", args["fname"], "offset", "fd"
    elif event.name in WRITES:
        yield "write", args["fname"], "offset", "fd"


def accessed(event):
    """The size of an access; None if it is none."""
    return None if failed(event) else moved(event)


class Row(collections.Counter):
    """The figures of a file; sets beside the sums."""

    def __init__(self):
        super().__init__()
        self.ranks, self.processes = set(), set()

    def take(self, figures):
        for key, value in figures.items():
            self[key] = max(self[key], value) if key.endswith("_end") else self[key] + value

    def touch(self, event):
        self["looked"] += 1
        self["touched"] += event.args["touched"]


class Usage:
    """Follows all calls in order of time, and counts those that are shown."""

    def __init__(self, processes, conditions):
        self.conditions, self.steps = conditions, Steps(processes)
        self.positions = {process: Positions() for process in processes}
        self.sides = collections.defaultdict(Side)
        self.opened, self.last_side, self.rows = set(), {}, collections.defaultdict(Row)  # by rank and fname
        events = [event for process in processes for event in process.events if event.io]
        for event in sorted(events, key=lambda event: (event.ts, event.process.start, event.id)):
            self.take(event)
        for call in filter(None, (summed(event) for process in processes for event in process.events)):
            if self.counts(call):
                self.add_summed(call)
        for call in filter(None, (left(event) for process in processes for event in process.events)):
            if self.counts(call) and "touched" in call.args and is_file(call.args["fname"]):
                self.row(call, call.args["fname"]).touch(call)

    def counts(self, event):
        return self.conditions.reached(event) and self.conditions.shown(event, self.steps)

    def add_summed(self, call):
        """Calls, bytes and time; no sizes and no places."""
        if not is_file(call.args["fname"]):
            return
        row, args = self.row(call, call.args["fname"]), call.args
        if call.name not in READS | WRITES:
            row["metadata_calls"] += args["count"]
            row["metadata_us"] += args["dur"]
            return
        side, key = ("read", "read_bytes") if call.name in READS else ("write", "written_bytes")
        row[f"{side}s"] += args["count"]
        row[key] += args["bytes"]
        row[f"{side}_us"] += args["dur"]
        row["data_us"] += args["dur"]

    def take(self, event):
        counted = self.counts(event)
        places = self.positions[event.process]
        if event.name in READS | WRITES | COPIES:
            self.transfer(event, counted)
        elif is_file(event.args.get("fname")):
            places.follow(event)
            if counted:
                self.metadata(event)
            if event.name in OPENS and not failed(event):
                self.opened.add((event.process, event.args["fname"]))

    def row(self, event, fname):
        row = self.rows[event.process.rank, fname]
        row.ranks.add(event.process.rank)
        row.processes.add(event.process)
        return row

    def metadata(self, event):
        fname = event.args["fname"]
        row = self.row(event, fname)
        row["metadata_us"] += event.dur
        if event.name in OPENS and not failed(event):
            row["opens"] += 1
            row["opens_again"] += (event.process, fname) in self.opened
        else:
            row["metadata_calls"] += 1
            row["mapped_bytes"] += event.args["length"] if event.name == "mmap" and not failed(event) else 0
            if event.name == "munmap" and "touched" in event.args:
                row.touch(event)

    def transfer(self, event, counted):
        size = accessed(event)
        files = [access for access in accesses(event) if is_file(access[1])]
        for number, (side, fname, offset, descriptor) in enumerate(files):
            place, positions = event.args.get(offset), self.positions[event.process]
            if place is None:
                place = positions.move(event, side, descriptor)
            elif positions.appends(event, side, descriptor):
                place = None  # Linux's pwrite() appends, too
            wanted = counted and self.conditions.named(fname)
            if wanted:
                self.count_call(event, side, fname, number == 0)
            found = self.access(event, side, fname, place) if size is not None else {}
            if wanted:
                self.row(event, fname).take(found)

    def count_call(self, event, side, fname, timed):
        row = self.row(event, fname)
        row[f"{side}s"] += 1
        if timed:
            row["data_us"] += event.dur
            row[f"{side}_us"] += event.dur

    def access(self, event, side, fname, place):
        """The figures of an access, which follows the others whether they are counted or not."""
        size, key = accessed(event), (event.process, fname)
        found = collections.Counter({
            "read_bytes" if side == "read" else "written_bytes": size, f"{side}_small": size < 1 << 20,
            next(f"size_{side}_{name}" for name, bound in BOUNDS.items() if size <= bound): 1,
            "switches": self.last_side.get(key, side) != side})
        self.last_side[key] = side
        if place is None:
            return found | {f"{side}_unplaced": 1}
        kind, behind = self.sides[key + (side,)].place(place, size)
        return found | {f"{side}_{kind}": 1, f"{side}_behind": behind, f"{side}_unaligned": place % 4096 != 0,
                        f"{side}_end": place + size}


def patterns(processes, conditions):
    """{(section, fname, rank): figures}, as text"""
    rows = Usage(processes, conditions).rows
    several = len({process.rank for process in processes
                   if conditions.ranks is None or process.rank in conditions.ranks}) > 1
    found = {("file", fname, None): shown(together(row for (_, name), row in rows.items() if name == fname))
             for fname in {fname for _, fname in rows}}
    for rank in {rank for rank, _ in rows} if several else []:
        found["rank", None, rank] = shown(together(row for (other, _), row in rows.items() if other == rank))
        found["rank", None, rank]["files"] = str(sum(other == rank for other, _ in rows))
        del found["rank", None, rank]["processes"], found["rank", None, rank]["ranks"]
    found["all", None, None] = shown(together(rows.values())) | {"files": str(len({fname for _, fname in rows}))}
    del found["all", None, None]["processes"], found["all", None, None]["ranks"]
    return found


def together(rows):
    found = Row()
    for row in rows:
        found.take(row)
        found.ranks |= row.ranks
        found.processes |= row.processes
    return found


def share(part, whole):
    """Of the percentage."""
    return f"{100 * part / whole:.12g}" if whole else None


def shown(row):
    keys = ["opens", "opens_again", "metadata_calls", "reads", "read_bytes", "writes", "written_bytes", "switches",
            "mapped_bytes"]
    found = {key: str(row[key]) for key in keys}
    found["touched_bytes"] = str(row["touched"]) if row["looked"] else None
    found |= {key: f"{row[key] / 1000:.3f}" for key in ("metadata_us", "data_us", "read_us", "write_us")}
    for side in ("read", "write"):
        found |= {f"{side}_{kind}": str(row[f"{side}_{kind}"]) for kind in (*CLASSES, "behind", "small", "unaligned")}
        found |= {f"size_{side}_{key}": str(row[f"size_{side}_{key}"]) for key in BOUNDS}
        found[f"{side}_max_byte"] = str(row[f"{side}_end"] - 1) if row[f"{side}_end"] else None
    both = {kind: row[f"read_{kind}"] + row[f"write_{kind}"] for kind in (*CLASSES, "small", "unaligned")}
    after = sum(both[kind] for kind in CLASSES[1:-1])
    found |= {kind: share(both[kind], after) for kind in CLASSES[1:-1]}
    found["unaligned"] = share(both["unaligned"], both["first"] + after)
    found["small"] = share(both["small"], both["first"] + after + both["unplaced"])
    found["ranks"], found["processes"] = str(len(row.ranks)), str(len(row.processes))
    return found
