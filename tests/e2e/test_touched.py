"""How much of a mapped file a program touched, against the kernel's own table of the program's pages."""
import json
import mmap
import os
import pathlib

import pytest

import harness

PFW = os.environ["PFW_BIN"]
# Under a filter of whoever runs this, nothing is asked.
told = pytest.mark.skipif("\nSeccomp:\t0\n" not in pathlib.Path("/proc/self/status").read_text()
                          or mmap.PAGESIZE != 4096, reason="a seccomp filter, or other pages")
HEAD = """
import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None)

def present(data):
    at = ctypes.addressof(ctypes.c_char.from_buffer(data))
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(at // 4096 * 8)
        print(4096 * sum(byte >> 7 for byte in file.read(len(data) // 4096 * 8)[7::8]), flush=True)

def touched(name, size, step, until=None, flags=mmap.MAP_SHARED):
    with open(name, "w+b") as file:
        file.truncate(size)
        data = mmap.mmap(file.fileno(), size, flags=flags)
    data.madvise(mmap.MADV_RANDOM)  # reads no page beside those asked for, so that no fault maps one
    for at in range(0, until or size, step):
        data[at]
    present(data)
    return data
"""


def record(world, program):
    """The args of what the program unmapped or left mapped, by file, and what it printed."""
    (world / "p.py").write_text(HEAD + program)
    env = harness.clean_environment(PFW_SPOOL_DIR=str(world))
    done = harness.run([PFW, "run", "-q", "-o", world / "t/t", "--", "/usr/bin/python3", "p.py"], env, world)
    found = {}
    for name in harness.trace_names(world / "t"):
        for line in harness.check_trace(world / "t" / name):
            if line["name"] in ("munmap", "mapping"):
                found.setdefault(os.path.basename(line["args"]["fname"]), []).append((line["name"], line["args"]))
    return found, [int(word) for word in done.stdout.split()]


@pytest.fixture(name="world")
def make_world(tmp_path):
    (tmp_path / "t").mkdir()
    return tmp_path


@told
def test_far_apart_pages(world):
    """Unmapped or left at exit, shared or private, written, in a forked child, and in part: to the page."""
    found, present = record(world, """
touched("shared", 16 << 20, 1 << 15).close()
data = touched("private", 16 << 20, 1 << 15, flags=mmap.MAP_PRIVATE)
data[4096] = 1
data.close()
touched("none", 1 << 20, 1, until=-1).close()
left = touched("left", 4 << 20, 1 << 16)
if not os.fork():
    child = touched("child", 1 << 20, 1 << 16)
    os._exit(0)
os.wait()
os._exit(0)
""")
    assert present == [2 << 20, 2 << 20, 0, 64 * 4096, 16 * 4096]
    assert {name: [(line, args.get("size", args.get("length")), args["touched"]) for line, args in lines]
            for name, lines in found.items()} == {
                "shared": [("munmap", 16 << 20, 2 << 20)], "private": [("munmap", 16 << 20, (2 << 20) + 4096)],
                "none": [("munmap", 1 << 20, 0)], "left": [("mapping", 4 << 20, 64 * 4096)],
                "child": [("mapping", 1 << 20, 16 * 4096)]}


@told
def test_patterns_say_it(world):
    record(world, """
touched("in", 16 << 20, 1 << 15).close()
left = touched("left", 100 << 10, 1 << 16)
""")
    answers = []
    for words in ([], ["compact", "-q", world / "t"]):
        if words:
            harness.run([PFW, *words])
        for more in ([], ["--no-index"]):
            answers.append([harness.run([PFW, "patterns", *how, *more, world / "t"]).stdout
                         for how in ([], ["--format", "ndjson"])])
            for how in ([], ["-g", "tid"], ["-g", "fname"], ["--cat", "POSIX"]):
                table = harness.run([PFW, "table", *how, *more, world / "t"]).stdout
                assert "\n16.1 MiB mapped, 2.0 MiB touched, not counted: pfw patterns" in table
    assert answers[1:] == answers[:-1]
    text, rows = answers[0]
    assert text.splitlines()[-1] == (
        f"16.1 MiB of 2 files mapped, 2.0 MiB touched, not counted: {world}/in (16.0 MiB, 2.0 MiB touched), "
        f"{world}/left (100.0 KiB, 8.0 KiB touched)")
    rows = {row["fname"]: row["touched_bytes"] for row in map(json.loads, rows.splitlines())}
    assert rows[f"{world}/in"] == 2 << 20 and rows[f"{world}/left"] == 8192
    assert rows["(all files)"] == (2 << 20) + 8192 and rows[f"{world}/p.py"] is None
    only = harness.run([PFW, "patterns", "--name", "munmap", "--format", "ndjson", world / "t"]).stdout
    assert {row["touched_bytes"] for row in map(json.loads, only.splitlines())} == {
        2 << 20, 8192, (2 << 20) + 8192}
    only = harness.run([PFW, "patterns", "--name", "mmap", "--format", "ndjson", world / "t"]).stdout
    assert {row["touched_bytes"] for row in map(json.loads, only.splitlines())} == {None}


@told
def test_a_large_mapping_is_sampled(world):
    """64 MiB in equal steps, of 512 MiB of which only the first half has any."""
    found, (present,) = record(world, 'touched("large", 512 << 20, 1 << 14, 256 << 20).close()')
    ((_, args),) = found["large"]
    assert present == 64 << 20
    assert abs(args["touched"] - present) < present / 20


@pytest.mark.parametrize("answer", ["0x50001", "0x80000000"], ids=["EPERM", "kill"])
def test_nothing_is_asked_under_a_filter(world, answer):
    """A filter refuses move_pages(), as containers' do, or kills for it: the number is missing, not 0."""
    number = {"x86_64": 279, "aarch64": 239}[os.uname().machine]
    found, _ = record(world, f"""
data, left = touched("data", 1 << 20, 1 << 16), touched("left", 1 << 20, 1 << 16)
code = b"".join(struct.pack("HBBI", *each) for each in (
    (0x20, 0, 0, 0), (0x15, 0, 1, {number}), (6, 0, 0, {answer}), (6, 0, 0, 0x7fff0000)))
memory = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(memory)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
data.close()
assert libc.syscall({number}, 0, 0, None, None, None, 0) == -1 if {answer} == 0x50001 else True
os._exit(0)
""")
    assert [(line, "touched" in args) for name in ("data", "left") for line, args in found[name]] == [
        ("munmap", False), ("mapping", False)]
    assert '"touched_bytes":null' in harness.run([PFW, "patterns", "--format", "ndjson", world / "t"]).stdout
    assert "touched" not in harness.run([PFW, "patterns", world / "t"]).stdout.replace(str(world), "")
