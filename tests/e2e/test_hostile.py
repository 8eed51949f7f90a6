"""Traces, indexes and manifests as bad as they come: one line each, no crash, no hang, and nothing
else touched.

Every command that reads traces meets every input.  Which of them a command may call sound is in
SOUND; all others must end with status 1 or 2 and say why."""
import gzip
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import resource
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import zlib

import pytest

import harness

MIB = 1 << 20
MEMORY = 192 * MIB  # of any command on any of these
SECONDS = 300  # what hangs takes longer
SANITIZED = b"__asan_init" in pathlib.Path(harness.PFW).read_bytes()


def line(number, name, cat, ph, dur, args, ts=1795230878627639.5):
    keys = {"id": number, "name": name, "cat": cat, "pid": 7, "tid": 7}
    text = json.dumps(keys, separators=(",", ":"))[:-1] + f',"ts":{ts:.3f}'
    text += f',"dur":{dur:.3f}' if dur is not None else ""
    return text + f',"ph":"{ph}","args":{json.dumps(args, separators=(",", ":"))}}}\n'


def process_line():
    return line(1, "process", "pfw", "M", None,
                {"format": 1, "version": "1", "run": "r", "host": "h", "boot": "b", "rank": None,
                 "world_size": 1, "local_rank": None, "ppid": 1, "cmd": "c",
                 "start_ts": 1795230878627000.5, "clock": "tsc"})


def event(number, **keys):
    return line(number, "pread", "POSIX", "X", 0.412, {"fname": "/f", "ret": 1},
                ts=1795230878627639.5 + number, **keys)


def end_line(number, events):
    return line(number, "end", "pfw", "M", None, {"events": events, "lost": 0, "reason": "exit"},
                ts=1795230878627639.5 + number)


def whole(count=100):
    return process_line() + "".join(event(n) for n in range(2, count + 2)) \
        + end_line(count + 2, count)


def member(text, lie=0):
    """A gzip member as the recorder writes it, whose header may lie about its length."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(text) + packer.flush()
    size = 40 + len(body) + 8 + lie
    times = [int(part.split(b",")[0].replace(b".", b"")) for part in text.split(b'"ts":')[1:]]
    return (b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
            + struct.pack("<H2sHIIQQ", 28, b"PF", 24, size % 2**32, text.count(b"\n"),
                          min(times, default=0), max(times, default=0) + 412)
            + body + struct.pack("<II", zlib.crc32(text), len(text) % 2**32))


def members(count=100, each=20):
    lines = whole(count).encode().splitlines(keepends=True)
    return b"".join(member(b"".join(lines[i:i + each])) for i in range(0, len(lines), each))


def changed(old, new):
    """A whole trace with its 50th line changed."""
    lines = whole().splitlines(keepends=True)
    assert old in lines[50]
    lines[50] = lines[50].replace(old, new, 1)
    return "".join(lines).encode()


def bomb():
    """One line of twice the memory that a command may have, in some hundred KiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = process_line().encode() + b'{"id":2,"name":"'
    parts = [packer.compress(head)]
    parts += [packer.compress(b"x" * MIB) for _ in range(2 * MEMORY // MIB)]
    return b"".join(parts) + packer.flush()


def flipped(data, seed):
    """With 20 bits wrong, behind the first member's header."""
    chance = random.Random(seed)
    data = bytearray(data)
    for _ in range(20):
        data[chance.randrange(60, len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


HOSTILE = {
    # name: (what the file holds, ends in .gz)
    "cut line": (lambda: whole().encode()[:-30], False),
    "cut in the middle": (lambda: whole().encode()[:7777], False),
    "cut member": (lambda: members()[:-10], True),
    "cut header": (lambda: members() + members()[:25], True),
    "wrong crc": (lambda: (lambda d: d[:-8] + b"abcd" + d[-4:])(members()), True),
    "wrong length": (lambda: members()[:-4] + b"\xff\xff\xff\x7f", True),
    "rubbish behind": (lambda: members() + b"rubbish" * 99, True),
    "length too small": (lambda: member(whole().encode(), -9) + members(), True),
    "length too great": (lambda: member(whole().encode(), 1 << 30) + members(), True),
    "flipped 1": (lambda: flipped(members(), 1), True),
    "flipped 2": (lambda: flipped(members(), 2), True),
    "flipped 3": (lambda: flipped(gzip.compress(whole().encode()), 3), True),
    "empty members": (lambda: members() + member(b"") * 9, True),
    "10,000 members": (lambda: b"".join(member(each.encode()) for each in
                                        whole(9998).splitlines(keepends=True)), True),
    "one foreign member": (lambda: gzip.compress(whole().encode()), True),
    "foreign and cut": (lambda: gzip.compress(whole(5000).encode())[:-99], True),
    "bomb": (bomb, True),
    "100 MiB line": (lambda: whole().encode() + b"x" * (100 * MIB), False),
    "deep": (lambda: changed('"ret":1', '"ret":' + "[" * 100000 + "]" * 100000), False),
    "key twice": (lambda: changed('"pid":7', '"pid":7,"pid":8'), False),
    "no ts": (lambda: changed('"ts":', '"t":'), False),
    "no name": (lambda: changed('"name":"pread",', ""), False),
    "args of a wrong type": (lambda: changed('{"fname":"/f","ret":1}', "7"), False),
    "ts of a wrong type": (lambda: changed('"ts":', '"ts":"x","t":'), False),
    "400 digits": (lambda: changed('"ts":', '"ts":' + "9" * 400), False),
    "NaN": (lambda: changed('"ret":1', '"ret":NaN'), False),
    "1e999": (lambda: changed('"dur":0.412', '"dur":1e999'), False),
    "negative ts": (lambda: changed('"ts":', '"ts":-'), False),
    "far future": (lambda: changed('"ts":1795230878', '"ts":9223372036854775'), False),
    "surrogate": (lambda: changed('"/f"', '"\\ud800"'), False),
    "not UTF-8": (lambda: changed('"/f"', '"X"').replace(b'"X"', b'"\xff\xfe"'), False),
    "NUL": (lambda: changed("{", "\0\0{"), False),
    "BOM": (lambda: b"\xef\xbb\xbf" + whole().encode(), False),
    "CRLF": (lambda: whole().replace("\n", "\r\n").encode(), False),
    "bracket and commas": (lambda: ("[\n" + whole().replace("}\n", "},\n")).encode(), False),
    "ts goes back": (lambda: whole().replace("78627650.", "78627600.").encode(), False),
    "ids twice": (lambda: (whole() + whole()).encode(), False),
    "empty": (lambda: b"", False),
    "empty gz": (lambda: b"", True),
    "text called gz": (lambda: whole().encode(), True),
    "gz called text": (members, False),
    "not a trace": (lambda: pathlib.Path(harness.PFW).read_bytes()[:200000], False),
    "SQL": (lambda: changed('"pread"', '"x\'); drop table block; --"'), False),
}
# What is no damage: reading it may end well.  (`validate` is stricter.)
SOUND = {"empty members", "10,000 members", "one foreign member", "CRLF", "bracket and commas",
         "ts goes back", "ids twice", "text called gz", "gz called text", "SQL", "empty",
         "empty gz", "key twice", "negative ts"}
# Damage that a command does not come to, since no line that it is asked for can be there.
UNSEEN = {("wrong crc", "query window"), ("flipped 1", "query window")}
COMMANDS = {
    "validate": ["validate"],
    "query": ["query"],
    "query by name": ["query", "--name", "pread", "--count"],
    "query where": ["query", "--where", 'args.fname=="/f" && dur>0.1', "--sort", "-dur",
                    "--limit", "5"],
    "query window": ["query", "--since", "+1ms", "--until", "99%", "--count"],
    "table": ["table"],
    "overlap": ["overlap", "--steps"],
    "compare": ["compare", "TRACE"],
    "patterns": ["patterns"],
    "memory": ["memory"],
    "counters": ["counters"],
    "export": ["export", "-o", "/dev/null"],
    "export folded": ["export", "--format", "folded", "-o", "/dev/null"],
    "export dftracer": ["export", "--format", "dftracer", "-o", "/dev/null"],
    "export perfetto": ["export", "--format", "perfetto", "-o", "/dev/null"],
    "index": ["index", "--force"],
    "compact": ["compact", "--keep", "-o", "OUT"],
    "repair": ["repair"],
}


def listed():
    """The commands that there are."""
    text = harness.run([harness.PFW, "--help"]).stdout
    return {each.split()[0] for each in text.split("commands:")[1].split("\n\n")[0].splitlines()
            if each.strip()}


HERE = [name for name, words in COMMANDS.items() if words[0] in listed()]


def pfw(words, where, **options):
    """Run it with its time and memory bounded; return (status, stdout, then stderr)."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([harness.PFW, *map(str, words)], cwd=where,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, env=harness.clean_environment(), **options)
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        output += errors.read()
    assert process.returncode != -9, f"{words}: still running after {SECONDS} s"
    assert process.returncode in (0, 1, 2), (words, process.returncode, output[-3000:])
    # A child's figure begins with the most that its parent ever had.
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert SANITIZED or usage.ru_maxrss <= max(MEMORY // 1024, ours), (words, usage.ru_maxrss)
    return process.returncode, output.decode(errors="replace")


def fingerprint(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".idx"}


def command_words(command, trace, out):
    known = {"OUT": str(out), "TRACE": trace}
    return [known.get(word, word) for word in COMMANDS[command]] + [trace]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    made = {name: folder / f"t{number}.pfw{'.gz' if gz else ''}"
            for number, (name, (_, gz)) in enumerate(HOSTILE.items())}
    # In a process of its own: the most memory that this one ever had would be its children's too.
    maker = multiprocessing.get_context("fork").Process(
        target=lambda: [made[name].write_bytes(make()) for name, (make, _) in HOSTILE.items()])
    maker.start()
    maker.join()
    assert maker.exitcode == 0
    return made


@pytest.mark.parametrize("command", HERE)
@pytest.mark.parametrize("name", HOSTILE)
def test_input(tmp_path, inputs, name, command):
    """Alone in its folder, so that what is made beside it is seen."""
    trace = tmp_path / inputs[name].name
    os.link(inputs[name], trace)
    before = fingerprint(tmp_path)
    status, output = pfw(command_words(command, trace, tmp_path / "out"), tmp_path)
    # One that nobody writes to, and that has no spool, is what a killed process left; see `pfw repair`.
    if command == "repair" and name in ("empty", "empty gz"):
        before = {}
    assert fingerprint(tmp_path) == before
    said = [each for each in output.splitlines() if not each.startswith("{")]
    if name not in SOUND and command != "repair" and (name, command) not in UNSEEN:
        assert status != 0, output[-2000:]
        assert status == 2 or any(trace.name in each for each in said), output[-2000:]
    if status != 0:
        assert 1 <= len(said) < 100 and max(map(len, said)) < 1000
    if command == "query" and name in SOUND - {"empty", "empty gz"}:
        assert status == 0 and output.count('"pread"') >= 99, output[-2000:]


@pytest.mark.parametrize("command", HERE)
def test_what_can_be_saved_is(inputs, tmp_path, command):
    """A member in the middle is damaged: all others are read."""
    if command != "query":
        pytest.skip("what it read is not in its output")
    data = bytearray(members(100, 10))
    begins = [at for at in range(len(data)) if data[at:at + 4] == b"\x1f\x8b\x08\x04"]
    data[begins[4] + 60] ^= 0xff
    trace = tmp_path / "t.pfw.gz"
    trace.write_bytes(data)
    status, output = pfw(["query", trace], tmp_path)
    ids = [json.loads(each)["id"] for each in output.splitlines() if each[0] == "{"]
    assert status == 1 and len(ids) >= 90 and ids == sorted(set(ids))
    assert {n for n in range(2, 102)} - set(ids) <= set(range(41, 51))


@pytest.mark.parametrize("command", HERE)
def test_what_is_no_file(tmp_path, command):
    (tmp_path / "loop.pfw").symlink_to("loop.pfw")
    (tmp_path / "folder.pfw").mkdir()
    os.mkfifo(tmp_path / "fifo.pfw")
    for name in ("none.pfw", "loop.pfw", "folder.pfw", "/dev/zero", "fifo.pfw"):
        status, output = pfw(command_words(command, name, tmp_path / "out"), tmp_path)
        if name != "fifo.pfw":
            assert status == 2 and len(output.splitlines()) <= 2, (name, output)


@pytest.mark.parametrize("command", HERE)
def test_a_file_that_grows(tmp_path, command):
    """Lines are appended while it is read: what is printed is whole, and it ends."""
    if command == "repair":
        pytest.skip("it reads no lines")
    trace = tmp_path / "t.pfw"
    trace.write_text(process_line())
    stop = threading.Event()

    def grow():
        with open(trace, "a") as file:
            number = 2
            while not stop.is_set() and number < 200000:
                file.write("".join(event(n) for n in range(number, number + 500)))
                file.flush()
                number += 500
                time.sleep(0.001)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        time.sleep(0.1)
        _, output = pfw(command_words(command, trace, tmp_path / "out"), tmp_path)
    finally:
        stop.set()
        writer.join()
    for each in output.splitlines():
        if each.startswith("{") and command == "query":
            json.loads(each)


# ---- indexes ----


def stale(trace, idx):
    trace.write_text(whole(120))


def cut(trace, idx):
    idx.write_bytes(idx.read_bytes()[:len(idx.read_bytes()) // 2])


def rubbish(trace, idx):
    idx.write_bytes(b"rubbish" * 5000)


def nothing(trace, idx):
    idx.write_bytes(b"")


def other_tables(trace, idx):
    idx.unlink()
    base = sqlite3.connect(idx)
    base.execute("create table x (a)")
    base.commit()
    base.close()


def wrong_types(trace, idx):
    base = sqlite3.connect(idx)
    tables = [row[0] for row in base.execute("select name from sqlite_master where type='table'")]
    for table in tables:
        for column in base.execute(f"pragma table_info({table})").fetchall():
            try:
                base.execute(f"update {table} set {column[1]} = 'x''); drop table block; --'")
            except sqlite3.Error:
                pass
    base.commit()
    base.close()


def huge_numbers(trace, idx):
    base = sqlite3.connect(idx)
    columns = [row[1] for row in base.execute("pragma table_info(block)")]
    for column in columns:
        try:
            base.execute(f"update block set {column} = 9223372036854775807 "
                         f"where typeof({column}) = 'integer'")
        except sqlite3.Error:
            pass
    base.commit()
    base.close()


def blobs(trace, idx):
    base = sqlite3.connect(idx)
    tables = [row[0] for row in base.execute("select name from sqlite_master where type='table'")]
    for table in tables:
        for column in base.execute(f"pragma table_info({table})").fetchall():
            try:
                base.execute(f"update {table} set {column[1]} = x'ffffffffffffffffffffffffff' "
                             f"where typeof({column[1]}) = 'blob'")
            except sqlite3.Error:
                pass
    base.commit()
    base.close()


def view_instead(trace, idx):
    base = sqlite3.connect(idx)
    base.execute("alter table block rename to real_block")
    base.execute("create view block as select * from real_block where 0")
    base.commit()
    base.close()


def of_another(trace, idx):
    other = trace.parent / "u.pfw"
    other.write_text(whole(77))
    pfw(["index", other], trace.parent)
    os.replace(str(other) + ".idx", idx)
    other.unlink()


def a_folder(trace, idx):
    idx.unlink()
    idx.mkdir()


@pytest.mark.skipif("index" not in listed(), reason="no such command")
@pytest.mark.parametrize("command", [name for name in HERE if name not in ("repair", "validate")])
@pytest.mark.parametrize("damage", [stale, cut, rubbish, nothing, other_tables, wrong_types,
                                    huge_numbers, blobs, view_instead, of_another, a_folder],
                         ids=lambda damage: damage.__name__)
def test_index(tmp_path, damage, command):
    """An index that is not this trace's is never believed: the answer is the trace's."""
    trace = tmp_path / "t.pfw"
    trace.write_text(whole())
    status, output = pfw(["index", trace], tmp_path)
    idx = tmp_path / "t.pfw.idx"
    assert status == 0 and idx.exists(), output
    damage(trace, idx)
    before = trace.read_bytes()
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone" / "t.pfw"
    alone.write_bytes(before)
    status, output = pfw(command_words(command, trace, tmp_path / "out"), tmp_path)
    wanted, without = pfw(command_words(command, alone, tmp_path / "out2"), tmp_path)
    assert trace.read_bytes() == before
    if command == "index":
        assert status == 0 or damage is a_folder, output
        return
    assert status == wanted, (output, without)
    answer = [each for each in output.splitlines() if "idx" not in each]
    if command != "compact":
        assert answer == without.splitlines(), output
