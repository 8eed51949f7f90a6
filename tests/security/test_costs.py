"""Small input, large cost: memory and time are linear in the input, and no input ends a command by a signal."""
import struct
import zlib

import pytest

from attack import event_lines, end_line, make_trace, measured, process_line, text_of
from harness import RUNTIME

# Far above what these inputs take, and far below what they took when costs were quadratic.
CPU_SECONDS = 120 if RUNTIME else 30
MEMORY_KIB = 192 << 10


def within(*words):
    """Run pfw with a limit of processor time, and look at its memory."""
    status, text, used = measured(*words, cpu_seconds=CPU_SECONDS)
    assert status in (0, 1, 2), (status, text[-2000:])
    assert RUNTIME or used < MEMORY_KIB, used
    assert "runtime error" not in text, text
    return status, text


# ---- gzip members ----

def member(lines, first=True):
    """A member as compact makes them, with its two subfields."""
    text = text_of(lines).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(text) + packer.flush()
    header_bytes = 12 + 28 + 44
    header = b"\x1f\x8b\x08\x04" + bytes(6) + struct.pack("<H", header_bytes - 12)
    header += b"PF" + struct.pack("<HIIQQ", 24, header_bytes + len(data) + 8, len(lines), 1000000, 1000000)
    header += b"PS" + struct.pack("<HBBHIQqqQ", 40, 1, 1 | 2 * first, 0, len(lines), 0, 1000000, 1000000, 0)
    return header + data + struct.pack("<II", zlib.crc32(text), len(text))


@pytest.mark.parametrize("ranks", [2, 1 << 20])
def test_members_of_process_lines(tmp_path, ranks):
    path = tmp_path / "t.pfw.gz"
    with open(path, "wb") as file:
        for i in range(600):
            file.write(member([process_line(pid=77 if ranks == 2 else 1 + i * 200 + k, rank=(i * 200 + k) % ranks,
                                            number=1 + i * 200 + k) for k in range(200)]))
    for command in (["table", "-g", "rank"], ["query", "--rank", "1"], ["overlap"]):
        within(*command, path)


def test_more_processes_than_bytes(tmp_path):
    lines = [process_line(pid=77, rank=k % 2) for k in range(1000)]
    (tmp_path / "t.pfw.gz").write_bytes(member(lines) * 100)
    for command in (["table", "-g", "rank"], ["query", "--rank", "1"], ["overlap"]):
        assert "its ranks are counted as one" in within(*command, tmp_path / "t.pfw.gz")[1]


def test_ranks_of_members_that_are_real(tmp_path):
    """Each member begins with its own processes only; what follows is not read again."""
    path = tmp_path / "t.pfw.gz"
    path.write_bytes(b"".join(member([process_line(pid=1 + i, rank=i, number=1)]) for i in range(200)))
    assert "counted as one" not in within("query", "--count", "--rank", "7", path)[1]


# ---- pickles ----

def text(value):
    value = value.encode()
    return b"X" + struct.pack("<I", len(value)) + value


def pickled(**values):
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


class Memo:
    def __init__(self):
        self.count, self.made = 0, b""

    def put(self, value):
        """Keep a value, which is then two to five bytes wherever it is wanted."""
        self.made += value + b"\x940"
        self.count += 1
        return b"j" + struct.pack("<I", self.count - 1)


def snapshot(tmp_path, memo, **values):
    path = tmp_path / "s.pickle"
    path.write_bytes(b"\x80\x04" + memo.made + pickled(**values) + b".")
    return path


def test_annotations_that_share_long_names(tmp_path):
    memo = Memo()
    name = "x" * 500_000
    start = memo.put(pickled(stage=text("START"), name=text(name + "a"), device=b"K\0", time_us=b"K\1"))
    end = memo.put(pickled(stage=text("END"), name=text(name + "b"), device=b"K\0", time_us=b"K\2"))
    annotations = b"(" + start * 4096 + end * 200_000 + b"l"
    path = snapshot(tmp_path, memo, device_traces=b"](]e", external_annotations=annotations,
                    padding=text(" " * 4_000_000))
    within("memory", path)


def test_stacks_that_share_frames(tmp_path):
    memo = Memo()
    frame = memo.put(b"}(" + b"".join(text(f"key{i:05}") + b"N" for i in range(300)) + b"u")
    frames = memo.put(b"(" + frame * 1000 + b"l")
    event = memo.put(pickled(action=text("alloc"), size=b"K\1", addr=b"K\1", time_us=b"K\1", frames=frames))
    path = snapshot(tmp_path, memo, device_traces=b"](](" + event * 200_000 + b"ee", padding=text(" " * 3_000_000))
    within("memory", path)


def test_a_list_that_is_in_many_places(tmp_path):
    memo = Memo()
    event = memo.put(pickled(action=text("alloc"), size=b"K\1", addr=b"K\1", time_us=b"K\1"))
    events = memo.put(b"](" + event * 10_000 + b"e")
    path = snapshot(tmp_path, memo, device_traces=b"](" + events * 10_000 + b"e")
    assert within("memory", path)[0] == 2


# ---- figures at their limits ----

def edge_lines():
    least, most = "-9223372036854775.802", "9223372036854775.807"
    first = process_line(rank=0, start=1.0)
    return text_of([first]) + "".join(
        '{"id":%d,"name":"read","cat":"POSIX","pid":77,"tid":77,"ts":%s,"dur":0.000,"ph":"X",'
        '"args":{"fname":"/x","fd":3,"ret":9223372036854775807}}\n' % (2 + i, ts) for i, ts in enumerate((least, most)))


@pytest.mark.parametrize("command", [
    ["overlap", "-b", "5"], ["overlap", "-b", "1"], ["overlap", "-b", "1s"], ["overlap"], ["table"], ["patterns"],
    ["table", "--format", "csv"], ["validate"], ["memory"], ["query", "--since", "50%"], ["query", "--until", "-1s"],
    ["export", "--format", "chrome"], ["export", "--format", "perfetto"], ["export", "--format", "csv"],
    ["export", "--format", "folded"], ["export", "--format", "dftracer"], ["index"], ["compact", "--keep"]], ids=" ".join)
def test_times_at_both_ends(tmp_path, command):
    path = tmp_path / "t.pfw"
    path.write_text(edge_lines())
    within(*command, *(["-o", tmp_path / "out"] if command[0] == "export" else []), path)


@pytest.mark.parametrize("host", [None, 7, {}, "h"])
def test_one_file_for_ranks_without_hosts(tmp_path, host):
    for rank in range(2):
        line = process_line(pid=77, rank=rank, start=1000.0 + 7 * rank)
        if host is None:
            del line["args"]["host"]
        else:
            line["args"]["host"] = host
        (tmp_path / f"t-rank000{rank}.pfw").write_text(text_of([line, *event_lines(), end_line()]))
    within("compact", "--split-by", "none", "--keep", tmp_path)


def test_a_bomb(tmp_path):
    """A line of 100 MiB in 100 KB."""
    path = tmp_path / "t.pfw.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(packer.compress(b'{"id":1,"name":"' + b"x" * (100 << 20) + b'"}\n') + packer.flush())
    for command in (["table"], ["validate"], ["query", "--count"]):
        within(*command, path)
    make_trace(tmp_path / "u.pfw")
