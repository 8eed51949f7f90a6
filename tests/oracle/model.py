"""What a trace is made of, as docs/format.rst has it: events of processes, and their lines."""
import dataclasses
import json

START = 1795230878000000000  # ns since the epoch


class Time(int):
    """A time in a line's args, in ns here; there it is in us, with three decimals."""


class Near(float):
    """A figure that is documented to be exact to 1 %, as shown, with three decimals."""

    def agrees(self, text):
        return text is not None and abs(float(text) - self) <= 0.01 * abs(self) + 0.001


def nearest_rank(ordered, percent):
    return ordered[max(-(-percent * len(ordered) // 100), 1) - 1]


@dataclasses.dataclass(eq=False)
class Event:
    """One line.  Times are ns; dur is None where the line has none."""
    name: str
    cat: str
    tid: int
    ts: int
    dur: int | None
    args: dict
    ph: str = "X"
    id: int = 0
    process: "Process" = None

    @property
    def end(self):
        return self.ts + (self.dur or 0)

    @property
    def kind(self):
        return self.args.get("kind")

    @property
    def io(self):
        return self.ph == "X" and self.cat in ("POSIX", "STDIO")

    @property
    def fields(self):
        """The line as an object, its times as ns."""
        return {"id": self.id, "name": self.name, "cat": self.cat, "pid": self.process.pid, "tid": self.tid,
                "ts": Time(self.ts), **({} if self.dur is None else {"dur": Time(self.dur)}), "ph": self.ph,
                "args": self.args}

    def line(self):
        return written(self.fields) + "\n"


@dataclasses.dataclass(eq=False)
class Process:
    """A process is its host, boot, pid and start, never a pid alone; it has a file of its own."""
    file: str
    pid: int
    start: int
    rank: int | None
    world: int
    events: list = dataclasses.field(default_factory=list)

    def add(self, event):
        event.process = self
        self.events.append(event)
        return event

    def number(self):
        for number, event in enumerate(self.events, 1):
            event.id = number

    def without(self, unwanted):
        """The same process without some of its events; ids and order stay."""
        other = dataclasses.replace(self, events=[])
        for event in self.events:
            if event not in unwanted:
                other.add(dataclasses.replace(event))
        return other

    def text(self):
        return "".join(event.line() for event in self.events)


def written(value):
    """As JSON."""
    if isinstance(value, Time):
        return us(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def us(ns):
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"
