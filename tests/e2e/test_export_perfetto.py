"""`pfw export --format perfetto`: every figure of the lines, read back by a decoder of the test's own
from nothing but the numbers of Perfetto's fields."""
import collections
import json
import struct

import pytest

from harness import PFW, run
from test_export import EPOCH, Trace, exact, random_trace, work

SIGNED = 1 << 63


def fields(data):
    """A message's fields in order: (number, an int, or bytes)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, data[at:at + 8]
            at += 8
        else:
            assert key & 7 == 2
            count = varint()
            assert at + count <= len(data)
            yield key >> 3, data[at:at + count]
            at += count


def one(data):
    return dict(fields(data))


def signed(value):
    return value - 2 * SIGNED if value >= SIGNED else value


class Timeline:
    """What a reader makes of the packets: spans, instants, arrows, counters, tracks."""

    def __init__(self, data):
        self.spans, self.instants, self.counters, self.tracks = [], [], [], {}
        self.ends, self.texts, self.arrows = {}, {}, collections.defaultdict(list)
        self.now, self.clears, self.open = None, 0, collections.defaultdict(list)
        late = []
        for number, packet in fields(data):
            assert number == 1
            packet = collections.defaultdict(list, self.group(packet))
            assert packet[10] == [1]
            if packet[13] == [1]:
                self.clear(packet)
            elif packet[60]:
                self.track(packet[60][0])
            else:
                assert packet[13] == [2]
                for part in packet[12]:
                    self.tell(part)
                time = packet[8][0] if packet[58] else self.now + packet[8][0]
                if not packet[58]:
                    self.now = time
                late.append((time, self.event(one(packet[11][0]), packet[11][0])))
        for time, (kind, track, what) in sorted(late, key=lambda each: each[0]):
            self.take(time, kind, track, what)
        assert not any(self.open.values())

    @staticmethod
    def group(data):
        found = collections.defaultdict(list)
        for number, value in fields(data):
            found[number].append(value)
        return found

    def clear(self, packet):
        """The first packet of a sequence: clocks and defaults; texts count for nothing from here."""
        clocks = [one(value) for number, value in fields(packet[6][0]) if number == 1]
        assert [clock[1] for clock in clocks] == [64, 1] and clocks[0][3] == 1
        assert clocks[0][2] == clocks[1][2] and one(packet[59][0]) == {58: 64}
        assert one(packet[6][0])[2] == 1
        self.now, self.texts = clocks[0][2], {}
        self.clears += 1

    def tell(self, data):
        for kind, text in fields(data):
            text = one(text)
            assert (kind, text[1]) not in self.texts
            self.texts[kind, text[1]] = text[2].decode()

    def track(self, data):
        track = one(data)
        before = self.tracks.setdefault(track[1], track)
        assert before.get(5) == track.get(5)
        self.tracks[track[1]] = track

    def value(self, annotation):
        for number, value in fields(annotation):
            if number in (11, 12):
                found = [(one(each).get(10, b"").decode(), self.value(each))
                         for kind, each in fields(annotation) if kind == number]
                return dict(found) if number == 11 else [each for _, each in found]
            if number == 17:
                return self.texts[29, value]
            if number in (2, 3, 4, 5, 6):
                return {2: bool, 3: int, 4: signed, 6: bytes.decode,
                        5: lambda eight: struct.unpack("<d", eight)[0]}[number](value)
        raise AssertionError(annotation)

    def event(self, event, data):
        """Its texts, as long as they hold."""
        track = event[11]
        assert track in self.tracks
        if event.get(9) == 4:
            value = signed(event[30]) if 30 in event else struct.unpack("<d", event[44])[0]
            return 4, track, value
        if event.get(9) == 2:
            return 2, track, None
        args = {self.texts[3, one(value)[1]]: self.value(value)
                for number, value in fields(data) if number == 4}
        what = self.texts[2, event[10]], self.texts[1, event[3]], args, one(event.get(6, b""))
        return event.get(9), track, what

    def take(self, time, kind, track, what):
        if kind == 4:
            self.counters.append((track, time, what))
        elif kind == 2:
            self.spans.append((*self.open[track].pop(), time))
        elif kind == 3:
            self.instants.append((track, time, *what[:3]))
        elif kind == 1:
            self.open[track].append((track, time, *what[:3]))
            if 8 in what[3]:
                self.arrows[what[3][8], "launch"].append((track, time, what[3][13]))
        else:
            # It is bound to the span that began there.
            assert self.open[track][-1][1] == time
            self.arrows[what[3][6], what[0]].append((track, time, chr(what[3][2])))

    def name(self, uuid):
        track = self.tracks[uuid]
        for number, name in ((3, 6), (4, 5)):
            if number in track:
                return one(track[number]).get(name, b"").decode()
        return track[2].decode()

    def place(self, uuid):
        """The names from the outermost track on."""
        track = self.tracks[uuid]
        if 4 in track:
            pid, tid = (one(track[4])[number] for number in (1, 2))
            outer = next(name for number, other in self.tracks.items() if 3 in other
                         and one(other[3])[1] == pid for name in [self.name(number)])
            return (outer, f"{tid} {self.name(uuid)}".strip())
        above = self.place(track[5]) if 5 in track else ()
        return (*above, self.name(uuid))


def perfetto(*arguments, status=0):
    return run([PFW, "export", "--format", "perfetto", *arguments], status=status)


def timeline(tmp_path, *arguments, status=0):
    out = tmp_path / "out.pftrace"
    out.unlink(missing_ok=True)
    perfetto(*arguments, "-o", out, status=status)
    return Timeline(out.read_bytes())


def test_places_arrows_counters(tmp_path):
    """Processes, threads and streams; arrows from calls and forward operators; curves; what the
    tracer said."""
    found = timeline(tmp_path, work().write(tmp_path / "t.pfw"))
    spans = {(name, category): (found.place(track), start - EPOCH, end - EPOCH, args)
             for track, start, name, category, args, end in found.spans}
    host = ("python train.py", '100 main "thread"')
    assert spans["aten::mm", "cpu_op"][:3] == (host, 1000, 6000)
    assert spans["aten::mm", "cpu_op"][3]["input_shapes"] == [[2, 3], [3, 4]]
    gpu = ("python train.py", "GPU 0", "stream 7")
    assert spans["void gemm<float>(int)", "kernel"][:3] == (gpu, 4000, 7000)
    assert spans["forward", "gpu_user_annotation"][0] == gpu
    assert spans["forward", "user_annotation"][0] == host
    assert spans["pread", "POSIX"][3]["fname"] == "/d/\u00e9\"\n"
    assert spans["pread", "POSIX"][3]["offset"] == 2**53 + 3
    assert "kind" not in spans["Memset (Device)", "gpu_memset"][3]
    arrows = {key: sorted((found.place(track)[-1], time - EPOCH, end) for track, time, end in ends)
              for key, ends in found.arrows.items()}
    assert arrows[55, "launch"] == [('100 main "thread"', 2000, 2), ("stream 7", 4000, 1)]
    assert arrows[1, "fwdbwd"] == [('100 main "thread"', 1000, "s"), ("101", 20_000, "f")]
    assert {(name, time - EPOCH) for _, time, name, _, _ in found.instants} == {
        ("mark", 32_000), ("lost", 33_000), ("[memory]", 1500)}
    [(track, time, value)] = found.counters
    assert (found.place(track), time - EPOCH, value) == \
        (("python train.py", "cpu user"), 31_000, 12.5)


def plain(value):
    """As a list of nothing, and null, are written."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()} or "{}"
    if isinstance(value, list):
        return [plain(each) for each in value] or "[]"
    return "null" if value is None else value


def facts(name, ts, dur, args):
    return name, ts, dur, json.dumps(args, sort_keys=True)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_of_random_traces(tmp_path, seed):
    """Each event with its name, category, times and args, on tracks on which spans nest."""
    trace = random_trace(seed)
    found = timeline(tmp_path, trace.write(tmp_path / "t.pfw"))
    wanted, counts = collections.Counter(), collections.Counter()
    for text in trace.lines[1:]:
        line, args = exact(text), plain(json.loads(text)["args"])
        args = {} if args == "{}" else args
        if line["cat"] == "PP":
            args.pop("kind", None)
        if line["ph"] == "C":
            counts[line["name"] + " v", int(line["ts"] * 1000), 1] += 1
        else:
            wanted[facts(line["name"], int(line["ts"] * 1000),
                         int(line["dur"] * 1000) if "dur" in line else None, args)] += 1
    # Spans that begin at one time on one track are told apart by their ends alone.
    assert collections.Counter(
        [facts(name, start, end - start, args) for _, start, name, _, args, end in found.spans] +
        [facts(name, time, None, args) for _, time, name, _, args in found.instants]) == wanted
    assert collections.Counter((found.name(track), time, value)
                               for track, time, value in found.counters) == counts


def test_lanes(tmp_path):
    """What overlaps stands on tracks beside each other."""
    trace = Trace().add("a", "app", 0, 100).add("b", "app", 50, 100).add("d", "app", 100, 10)
    trace.gpu("k", 0, 100).gpu("l", 99, 50)
    found = timeline(tmp_path, trace.write(tmp_path / "t.pfw"))
    places = {name: (track, found.place(track)) for track, _, name, _, _, _ in found.spans}
    assert places["a"] == places["d"] != places["b"]
    assert places["b"][1] == ("python train.py", "100", "thread 100 (lane 2)")
    assert places["k"][0] != places["l"][0]
    assert places["k"][1] == places["l"][1] == ("python train.py", "GPU 0", "stream 7")


def test_ranks_are_kept_apart(tmp_path):
    """Two ranks of one pid on two hosts: processes, devices and arrows of their own."""
    for rank, host in enumerate("ab"):
        trace = Trace(100, rank, 2, host)
        trace.add("cudaLaunchKernel", "PP", 1000, 10, {"kind": "runtime", "correlation": 5})
        trace.gpu("k", 1050, 10, correlation=5)
        trace.write(tmp_path / f"t-rank000{rank}.pfw")
    assert "--merge" in perfetto(tmp_path, status=2).stderr
    found = timeline(tmp_path, "--merge", tmp_path)
    places = sorted(found.place(track) for track, *_ in found.spans)
    assert places == [(f"rank {rank} on {host}: python train.py", *inner)
                      for rank, host in enumerate("ab")
                      for inner in [("100",), ("GPU 0", "stream 7")]]
    assert sorted(len(ends) for ends in found.arrows.values()) == [2, 2]
    for ends in found.arrows.values():
        assert len({found.place(track)[0] for track, _, _ in ends}) == 1


def test_texts_are_forgotten_in_time(tmp_path):
    """More texts than are kept: the sequence begins anew, and every event has its own still."""
    trace = Trace()
    for number in range(150_000):
        trace.add(f"n{number}", "app", number * 10, 15 if number % 3 else 5)
    found = timeline(tmp_path, trace.write(tmp_path / "t.pfw"))
    assert found.clears == 2
    assert {(name, start - EPOCH, end - start) for _, start, name, _, _, end in found.spans} == {
        (f"n{number}", number * 10, 15 if number % 3 else 5) for number in range(150_000)}


def test_names_that_come_late(tmp_path):
    """A thread is named after its first event, whatever the order of the lines."""
    trace = Trace().add("a", "app", 0, 5)
    trace.add("thread_name", "pfw", 10, None, {"name": "worker \u00e9"}, ph="M")
    found = timeline(tmp_path, trace.write(tmp_path / "t.pfw"))
    assert found.place(found.spans[0][0]) == ("python train.py", "100 worker \u00e9")


def test_before_1970_and_far_future(tmp_path):
    """Perfetto has no time before 1970: what is there is at its begin."""
    for ts, wanted in ((-EPOCH - 5_000_001, (0, 0)), (2**63 - 1 - EPOCH - 9000, (2**63 - 9001, 1001))):
        trace = Trace()
        trace.lines.clear()
        trace.add("early", "app", ts, 1001)
        [(_, start, _, _, _, end)] = timeline(tmp_path, trace.write(tmp_path / "t.pfw")).spans
        assert (start, end - start) == wanted
