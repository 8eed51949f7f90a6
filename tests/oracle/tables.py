"""`pfw table`, by docs/table.rst: rows of compute, of I/O, and --plain."""
import collections

from calls import moved, summed
from conditions import Steps
from model import nearest_rank
from nesting import computed, nested


def number(value, digits=3):
    return None if value is None else f"{value:.{digits}f}"


def us(ns):
    return ns / 1000


def percent(part, whole):
    return None if whole == 0 else f"{part * 100.0 / whole:.3f}"


def key_of(event, fields, steps, name=None):
    """What the row of an event is called."""
    shown = {"name": name or event.name, "cat": event.cat, "rank": event.process.rank, "step": steps.of(event),
             "pid": event.process.pid, "tid": event.tid, "fname": event.args.get("fname", "")}
    if event.kind == "step":
        shown["name"] = "ProfilerStep*"
    return tuple("" if shown[field] is None else shown[field] for field in fields)


def compute(processes, fields, conditions):
    """{(key, device): figures}"""
    if fields == ["fname"]:
        return {}  # of files there are only calls
    steps = Steps(processes)
    nodes, work = computed([event for process in processes for event in process.events
                            if conditions.reached(event)])
    rows = collections.defaultdict(collections.Counter)
    for node in nodes:
        if conditions.shown(node.event, steps):
            rows[key_of(node.event, fields, steps), 0].update(
                count=1, total=node.event.dur, self=node.self_ns, device=node.device_ns,
                self_device=node.self_device_ns)
    for event in work:
        if conditions.shown(event, steps):
            rows[key_of(event, fields, steps), 1].update(
                count=1, device=event.dur, self_device=event.dur)
    whole = sum(row["self"] for row in rows.values()) / 1000
    whole_device = sum(row["self_device"] for (_, device), row in rows.items() if device) / 1000
    return {key: {
        "self_cpu_percent": percent(us(row["self"]), whole), "self_cpu_time_total": number(us(row["self"])),
        "total_cpu_percent": percent(us(row["total"]), whole), "cpu_time_total": number(us(row["total"])),
        "cpu_time": number(us(row["total"]) / row["count"]),
        "self_device_time_total": number(us(row["self_device"])),
        "total_device_percent": percent(us(row["self_device"]), whole_device),
        "device_time_total": number(us(row["device"])), "device_time": number(us(row["device"]) / row["count"]),
        "count": str(row["count"])} for key, row in rows.items()}


class Figures:
    """What is added up of the calls of a row."""

    def __init__(self):
        self.count = self.total = self.own = self.bytes = self.transfers = self.transfer_ns = 0
        self.durations = []

    def add(self, event, own):
        self.count += 1
        self.total += event.dur
        self.own += own
        self.durations.append(event.dur)
        size = moved(event)
        if size is not None:
            self.bytes += size
            self.transfers += 1
            self.transfer_ns += event.dur

    def add_second(self, event):
        """A copy, for the file that it writes: one more call, without time."""
        self.count += 1
        size = moved(event)
        if size is not None:
            self.bytes += size
            self.transfers += 1

    def add_summed(self, args):
        """Calls that were only summed: in everything but their single durations."""
        ns = args["dur"]
        self.count += args["count"]
        self.total += ns
        self.own += ns
        if args["name"] != "close":
            self.bytes += args["bytes"]
            self.transfers += args["count"] - args["failed"]
            self.transfer_ns += ns

    def quantile(self, part):
        """The nearest rank."""
        if not self.durations:
            return None
        return number(us(nearest_rank(sorted(self.durations), part)))

    def shown(self, whole):
        known = self.transfers > 0
        return {"count": str(self.count), "total_percent": percent(us(self.total), whole),
                "total": number(us(self.total)), "self": number(us(self.own)),
                "avg": number(us(self.total) / self.count),
                "min": number(us(min(self.durations))) if self.durations else None,
                "p50": self.quantile(50), "p95": self.quantile(95), "p99": self.quantile(99),
                "max": number(us(max(self.durations))) if self.durations else None,
                "bytes": str(self.bytes) if known else None,
                "mean_size": number(self.bytes / self.transfers) if known else None,
                "bandwidth": number(self.bytes * 1e9 / self.transfer_ns) if known and self.transfer_ns else None}


def io(processes, fields, conditions):
    """{key: figures}"""
    steps, rows = Steps(processes), collections.defaultdict(Figures)
    for node in nested(event for process in processes for event in process.events
                       if event.io and conditions.reached(event)):
        event = node.event
        if not conditions.shown(event, steps):
            continue
        by_file = "fname" in fields
        if not by_file or conditions.named(event.args.get("fname")):
            rows[key_of(event, fields, steps)].add(event, node.self_ns)
        target = event.args.get("target")
        if by_file and target is not None and conditions.named(target):
            other = dict(zip(fields, key_of(event, fields, steps)), fname=target)
            rows[tuple(other.values())].add_second(event)
    add_summed(rows, processes, fields, conditions, steps)
    whole = us(sum(row.own for row in rows.values()))
    return {key: row.shown(whole) for key, row in rows.items()}


def add_summed(rows, processes, fields, conditions, steps):
    for process in processes:
        for event in process.events:
            call = summed(event)
            if call and conditions.reached(call) and conditions.shown(call, steps):
                rows[key_of(call, fields, steps)].add_summed(event.args)


def plain(processes, fields, conditions):
    steps, rows = Steps(processes), collections.defaultdict(Figures)
    for process in processes:
        for event in process.events:
            if event.dur is not None and conditions.reached(event) and conditions.shown(event, steps):
                rows[key_of(event, fields, steps)].add(event, 0)
    add_summed(rows, processes, fields, conditions, steps)
    whole = us(sum(row.total for row in rows.values()))
    found = {key: row.shown(whole) for key, row in rows.items()}
    for row in found.values():
        del row["self"]
    return found
