"""Which events a question is about: --since, --until, --cat, --name, --fname, --rank, --pid, --tid, --step,
--min-dur and --where (docs/query.rst), and the step in which an event began (docs/table.rst)."""
import dataclasses
import fnmatch

from model import us


@dataclasses.dataclass
class Moment:
    """A point in time, as options have it."""
    kind: str  # "", "+", "-", "%", "step:"
    value: int  # ns, percent, or the number of a step

    def __str__(self):
        return {"": us(self.value), "%": f"{self.value}%", "step:": f"step:{self.value}"}.get(
            self.kind, f"{self.kind}{self.value}ns")

    def settled(self, processes, rank):
        """In ns, for a rank."""
        begin = min(event.ts for process in processes for event in process.events)
        end = max(event.end for process in processes for event in process.events)
        if self.kind == "step:":
            steps = [event for process in processes if process.rank == rank for event in process.events
                     if event.kind == "step"]
            found = [event.ts for event in steps if event.args["step"] == self.value]
            return min(found) if found else max(event.end for event in steps)
        return {"": self.value, "+": begin + self.value, "-": end - self.value,
                "%": begin + (end - begin) * self.value // 100}[self.kind]


@dataclasses.dataclass
class Conditions:
    """None: any."""
    since: Moment | None = None
    until: Moment | None = None
    ranks: list | None = None
    pids: list | None = None
    tids: list | None = None
    cats: list | None = None  # globs; one of them must fit
    names: list | None = None
    fnames: list | None = None
    steps: list | None = None
    min_dur: int | None = None
    where: tuple | None = None  # its text, and whether it holds for an event
    windows: dict = dataclasses.field(default_factory=dict)  # [since, until) of each rank, in ns

    def options(self):
        """As the command line has them."""
        for option, value in (("--since", self.since), ("--until", self.until)):
            yield from [f"{option}={value}"] if value is not None else []
        for option, values in (("--rank", self.ranks), ("--pid", self.pids), ("--tid", self.tids),
                               ("--step", self.steps)):
            yield from [option, ",".join(map(str, values))] if values is not None else []
        for option, values in (("--cat", self.cats), ("--name", self.names), ("--fname", self.fnames)):
            for value in values or []:
                yield from (option, value)
        yield from ["--min-dur", f"{self.min_dur}ns"] if self.min_dur is not None else []
        yield from ["--where", self.where[0]] if self.where else []

    def settle(self, processes):
        """Know these processes' times."""
        self.windows = {rank: (self.since and self.since.settled(processes, rank),
                               self.until and self.until.settled(processes, rank))
                        for rank in {process.rank for process in processes}}

    def reached(self, event):
        """Whether it takes part: the conditions on time, rank, process and thread."""
        since, until = self.windows[event.process.rank]
        if until is not None and event.ts >= until:
            return False
        if since is not None and event.end <= since and not event.ts == event.end == since:
            return False
        return all(wanted is None or value in wanted for wanted, value in
                   ((self.ranks, event.process.rank), (self.pids, event.process.pid), (self.tids, event.tid)))

    def shown(self, event, steps):
        """Whether the other conditions hold, too."""
        return (fits(self.cats, event.cat) and fits(self.names, event.name) and
                any(self.named(event.args.get(key)) for key in ("fname", "target")) and
                (self.steps is None or steps.of(event) in self.steps) and
                (self.min_dur is None or event.dur is not None and event.dur >= self.min_dur) and
                (not self.where or self.where[1](event)))


    def named(self, fname):
        """Whether a file is one of those asked for."""
        return self.fnames is None or fname is not None and fits(self.fnames, fname)


def fits(globs, text):
    return globs is None or any(fnmatch.fnmatchcase(text, glob) for glob in globs)


class Steps:
    """The step of an event: the one it names, else the one its process was in when it began.  A process without
    steps follows the one of its rank that has steps, if only one has."""

    def __init__(self, processes):
        self.spans = {process: sorted((event.ts, event.end, event.args["step"]) for event in process.events
                                      if event.kind == "step") for process in processes}

    def of(self, event):
        if "step" in event.args:
            return event.args["step"]
        found = [number for begin, end, number in self.followed(event.process) if begin <= event.ts < end]
        return found[-1] if found else None

    def followed(self, process):
        if self.spans[process]:
            return self.spans[process]
        others = [spans for other, spans in self.spans.items() if spans and other.rank == process.rank]
        return others[0] if len(others) == 1 else []
