"""What lies in what in a thread, and which operator launched what on a device (docs/table.rst)."""
import collections

LEFT_OUT = {"[memory]", "[OutOfMemory]", "profiler::_record_function_enter",
            "profiler::_record_function_enter_new", "profiler::_record_function_exit", "aten::is_leaf",
            "aten::output_nr", "aten::_version"}
DEVICE_KINDS = ("kernel", "memcpy", "memset")


class Node:
    """A span, with what lies in it directly."""

    def __init__(self, event):
        self.event, self.parent, self.children, self.work = event, None, [], []

    @property
    def self_ns(self):
        inside, covered = 0, self.event.ts
        for child in self.children:  # in order of their begins; what two of them cover counts once
            inside += max(child.event.end - max(child.event.ts, covered), 0)
            covered = max(covered, child.event.end)
        return self.event.dur - inside

    @property
    def device_ns(self):
        return sum(event.dur for event in self.work) + sum(child.device_ns for child in self.children)

    @property
    def self_device_ns(self):
        return sum(event.dur for event in self.work)


def nested(events):
    """The nodes of these events.  Of two with the same times, the one written first lies in the other."""
    threads = collections.defaultdict(list)
    for event in events:
        threads[event.process, event.tid].append(event)
    nodes = []
    for each in threads.values():
        above = []
        for event in sorted(each, key=lambda event: (event.ts, -event.end, -event.id)):
            node = Node(event)
            while above and (event.ts >= above[-1].event.end or event.end > above[-1].event.end):
                above.pop()
            if above:
                node.parent = above[-1]
                above[-1].children.append(node)
            above.append(node)
            nodes.append(node)
    return nodes


def on_device(event):
    return event.kind in DEVICE_KINDS


def is_compute(event):
    return event.ph == "X" and event.cat not in ("POSIX", "STDIO", "COUNTER", "pfw") and event.kind != "memory"


def computed(events):
    """The nodes of compute events on the CPU, each with the work that it launched itself, and the work."""
    work = [event for event in events if is_compute(event) and on_device(event)]
    nodes = nested(event for event in events
                   if is_compute(event) and not on_device(event) and event.name not in LEFT_OUT)
    launched(nodes, work)
    return merged(nodes), work


def launched(nodes, work):
    operators, calls, spans = {}, {}, {}
    for node in nodes:
        args, process = node.event.args, node.event.process
        if "external_id" in args and node.event.kind == "cpu_op":
            operators[process, args["external_id"]] = node
        if node.event.kind in ("runtime", "driver") and args.get("correlation"):
            calls.setdefault((process, args["correlation"]), []).append(node)
        if "span_id" in args:
            spans[process, args["span_id"]] = node
    for event in work:
        node = launcher(event, operators, calls, spans)
        if node:
            node.work.append(event)


def launcher(event, operators, calls, spans):
    found = operators.get((event.process, event.args.get("external_id")))
    if found:
        return found
    several = calls.get((event.process, event.args.get("correlation")), [])
    if several:  # of several calls, the one that ends first, which is the innermost
        above = min(several, key=lambda node: (node.event.end, -node.event.ts, node.event.id)).parent
        while above and above.event.kind in ("runtime", "driver"):
            above = above.parent
        return above
    return spans.get((event.process, event.args.get("span")))


def merged(nodes):
    """If an event's only child has the same name, the two are one event."""
    gone = set()
    for node in nodes:
        while len(node.children) == 1 and node.children[0].event.name == node.event.name:
            child = node.children[0]
            gone.add(child)
            node.children, node.work = child.children, node.work + child.work
            for each in node.children:
                each.parent = node
    return [node for node in nodes if node not in gone]
