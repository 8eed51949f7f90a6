"""`pfw memory`, by docs/analysis.rst: peaks and ends, growth in steps, who allocates, what is not freed."""
import collections

from conditions import Steps


def memory(processes, conditions):
    """[row], each with its section"""
    steps, rows = Steps(processes), []
    owners = collections.defaultdict(collections.Counter)
    for process in processes:
        events = [event for event in process.events if event.kind == "memory" and event.args["bytes"] and
                  conditions.reached(event) and conditions.shown(event, steps)]
        # At the same moment frees come first.
        events.sort(key=lambda event: (event.ts, event.args["bytes"] >= 0, event.id))
        if events:
            rows += Device(process, events, steps).rows(owners)
    return rows + [{"section": "owner", "name": name, **owner} for name, owner in owners.items()]


class Device:
    """A process's memory on a device."""

    def __init__(self, process, events, steps):
        self.process, self.steps = process, {}
        self.live, self.unknown, self.sums = {}, 0, []
        total = 0
        for event in events:
            number, size = steps.of(event), event.args["bytes"]
            if number is not None:
                step = self.steps.setdefault(number, {"allocations": 0, "growth_bytes": 0, "peak_bytes": total})
                step["allocations"] += size > 0
                step["growth_bytes"] += size
                step["peak_bytes"] = max(step["peak_bytes"], total + size)
                step["end_bytes"] = total + size
            total += size
            self.sums.append((total, event))
            if size > 0:
                self.live[event.args["addr"]] = event, number
            else:
                self.unknown += self.live.pop(event.args["addr"], None) is None

    def rows(self, owners):
        for _, event in self.sums:
            if event.args["bytes"] > 0:
                self.own(owners[owner(event, self.process)], event)
        yield {"section": "device", "pid": self.process.pid, **self.figures()}
        for number, step in self.steps.items():
            yield {"section": "step", "pid": self.process.pid, "step": number, **step}
        for event, number in self.live.values():
            yield {"section": "unfreed", "pid": self.process.pid, "addr": hex(event.args["addr"]),
                   "bytes": event.args["bytes"], "step": number, "name": owner(event, self.process)}

    def own(self, found, event):
        size, live = event.args["bytes"], any(event is each for each, _ in self.live.values())
        found.update({"allocations": 1, "allocated_bytes": size, "unfreed": int(live),
                                      "unfreed_bytes": size * live})
        found["greatest_bytes"] = max(found["greatest_bytes"], size)

    def figures(self):
        sizes = [event.args["bytes"] for _, event in self.sums]
        return {"allocations": sum(size > 0 for size in sizes), "frees": sum(size < 0 for size in sizes),
                "allocated_bytes": sum(size for size in sizes if size > 0),
                "freed_bytes": -sum(size for size in sizes if size < 0),
                "peak_bytes": max(0, *(total for total, _ in self.sums)), "end_bytes": self.sums[-1][0],
                "peak_allocated_bytes": max(event.args["total_allocated"] for _, event in self.sums),
                "peak_reserved_bytes": max(event.args["total_reserved"] for _, event in self.sums),
                "unfreed": len(self.live), "unfreed_bytes": sum(event.args["bytes"] for event, _ in self.live.values()),
                "unknown_frees": self.unknown}


def owner(event, process):
    """The name of the innermost span of its thread that it lies in, ends included: of spans that cross, the last
    one begun."""
    spans = [span for span in process.events if span.ph == "X" and span.tid == event.tid and
             span.ts <= event.ts <= span.end and (span.kind in ("cpu_op", "annotation") or
                                                 span.kind is None and not span.io)]
    return min(spans, key=lambda span: (-span.ts, span.end, span.id)).name if spans else None
