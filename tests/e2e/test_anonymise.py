"""`pfw anonymise`: no name of the original is left, and every figure is."""
import gzip
import json
import os
import re
import stat
import struct
import subprocess
import sys
import time

import pytest
from harness import PFW, clean_environment, run

KEY = bytes(range(16))
# Words that lines may keep: of the format, of libc, of PyTorch and of DFTracer.
PUBLIC = set("""process thread_name end summed lost GPU stream FH HH SH fhash read open write pread memcpy mark
POSIX STDIO PP COUNTER pfw app O_RDONLY O_WRONLY O_CREAT F_GETFL SEEK_SET ENOENT exit cpu_op kernel annotation
pipe 123 python_function active tsc ProfilerStep enumerate DataLoader aten mm void gemm float PR dftracer step load""".split())


def rotate(word, by):
    return (word << by | word >> 64 - by) & 2 ** 64 - 1


def siphash(key, text):
    """SipHash-2-4, from its paper."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a] = (v[a] + v[b]) % 2 ** 64
                v[b] = rotate(v[b], first) ^ v[a]
                v[a] = rotate(v[a], 32)
                v[c] = (v[c] + v[d]) % 2 ** 64
                v[d] = rotate(v[d], second) ^ v[c]
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def pseudonym(text):
    number = siphash(KEY, text.encode())
    return "".join("abcdefghijklmnopqrstuvwxyz234567"[number >> 5 * i & 31] for i in range(12))


def path(name):
    return "/".join(pseudonym(part) if part not in ("", ".", "..") else part for part in name.split("/"))


def text_of(file):
    data = file.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def lines_of(directory):
    return [json.loads(line) for file in sorted(directory.iterdir()) for line in text_of(file).splitlines()]


def line(number, name, cat, phase, args, dur=2.5):
    times = {"ts": 1700000000000000.0 + number * 10, **({"dur": dur} if phase == "X" else {})}
    return json.dumps({"id": number, "name": name, "cat": cat, "pid": 7, "tid": 7, **times, "ph": phase, "args": args})


def process(rank=0, world=1, pid=7, host="hostsecret"):
    return json.dumps({"id": 1, "name": "process", "cat": "pfw", "pid": pid, "tid": pid, "ts": 1700000000000000.0, "ph": "M",
                       "args": {"format": 1, "version": "1", "run": "runsecret", "host": host, "boot": "bootsecret",
                                "rank": rank, "world_size": world, "local_rank": 0, "rank_source": "SECRETRANK",
                                "ppid": 1, "cmd": "train --password hunter2", "start_ts": 1.0, "clock": "tsc",
                                "spool": "/spooldir/spoolsecret"}})


SECRETS = [
    process(),
    line(2, "thread_name", "pfw", "M", {"name": "threadsecret"}),
    line(3, "thread_name", "pfw", "M", {"name": "GPU 0 stream 7"}),
    line(4, "thread_name", "pfw", "M", {"name": "GPU 0 (gpusecret) stream 7 (streamsecret)"}),
    line(5, "open", "POSIX", "X", {"fname": "/home/alice/../data.d/x\"y\\z/fil\u00e9.parquet", "fd": 3, "ret": 3,
                                   "flags": "O_WRONLY|O_CREAT", "mode": 420}),
    line(6, "open", "POSIX", "X", {"fname": "/home/alice/bad\ufffd", "fname_b64": "L2hvbWUvYWxpY2Uv/w==", "fd": -1,
                                   "ret": -1, "errno": "ENOENT", "flags": "O_RDONLY", "target": "/home/bob/t"}),
    line(7, "rename", "POSIX", "X", {"fname": None, "ret": 0, "cmd": "F_GETFL"}),
    line(8, "system", "POSIX", "X", {"fname": None, "command": "curl -u bob:pw", "ret": 0}),
    line(9, "read", "POSIX", "X", {"fname": "pipe:[123]", "fd": 0, "ret": 5, "count": 5}),
    line(10, "aten::mm", "PP", "X", {"kind": "cpu_op", "stack": ["train.py(3): main", "lib.py(4): call"],
                                     "module": "SecretNet", "dtypes": ["float"], "device": 0, "phase": "active"}),
    line(11, "train.py(3): forward", "PP", "X", {"kind": "python_function", "python_id": 1}),
    line(12, "layersecret", "PP", "X", {"kind": "annotation"}),
    line(13, "ProfilerStep#3", "PP", "X", {"kind": "annotation"}),
    line(14, "spansecret", "catsecret", "X", {"kind": "valuesecret", "nested": {"deep": ["listsecret", 4]}, "n": 3}),
    line(15, "/var/dirsecret/load", "app", "X", {"fname": "/home/alice/data.d"}),
    line(16, "summed", "pfw", "M", {"name": "read", "fname": "/home/alice/data.d", "count": 2, "failed": 0, "dur": 1.0,
                                    "bytes": 9}),
    line(17, "FH", "dftracer", "M", {"name": "/home/alice/data.d", "value": 123456789}),
    line(18, "PR", "dftracer", "M", {"name": "usersecret", "value": "namesecret"}),
    line(19, "read", "POSIX", "X", {"fhash": 123456789, "hhash": "hosthash", "ret": 4}),
    line(20, "end", "pfw", "M", {"events": 10, "lost": 0, "reason": "exit"}),
]


def words_of(value):
    """The parts of all texts of a line."""
    if isinstance(value, dict):
        return set().union(*[words_of(one) for one in value.values()])
    if isinstance(value, list):
        return set().union(*[words_of(one) for one in value])
    return set(re.findall(r"\w{3,}", value)) if isinstance(value, str) else set()


def left(before, after, allowed=PUBLIC):
    """Words of the texts before that are somewhere after."""
    words = set().union(*[words_of(json.loads(one)) for one in before]) - allowed
    return sorted(word for word in words if word in after)


@pytest.fixture(name="key")
def fixture_key(tmp_path):
    (tmp_path / "key").write_bytes(KEY)
    return tmp_path / "key"


def test_hash_is_the_published_one():
    assert siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5


def test_no_name_is_left(tmp_path, key):
    (tmp_path / "secret-t.pfw").write_text("\n".join(SECRETS) + "\n")
    run([PFW, "anonymise", "--key", key, "-o", tmp_path / "o", tmp_path / "secret-t.pfw"])
    made, = (tmp_path / "o").iterdir()
    assert made.name == "trace.pfw"
    kept = {"system", "rename", "layersecret", "spansecret", "catsecret", "F_GETFL"}
    text = made.read_text()
    assert not left(SECRETS, text, PUBLIC | kept) and "hunter2" not in text and "b64" not in text
    lines = {one["id"]: one for one in lines_of(tmp_path / "o")}
    assert len(lines) == len(SECRETS)
    args = {number: one["args"] for number, one in lines.items()}
    assert args[5] == {"fname": path("/home/alice/../data.d/x\"y\\z/fil\u00e9.parquet"), "fd": 3, "ret": 3,
                       "flags": "O_WRONLY|O_CREAT", "mode": 420}
    assert args[6] == {"fname": path("/home/alice/bad\ufffd"), "fd": -1, "ret": -1, "errno": "ENOENT",
                       "flags": "O_RDONLY", "target": path("/home/bob/t")}
    assert args[7]["cmd"] == "F_GETFL" and args[9]["fname"] == "pipe:[123]" and args[7]["fname"] is None
    assert args[1]["host"] == pseudonym("hostsecret") and args[1]["clock"] == "tsc"
    assert args[3]["name"] == "GPU 0 stream 7" and args[4]["name"] == pseudonym("GPU 0 (gpusecret) stream 7 (streamsecret)")
    assert args[10]["stack"] == [pseudonym("train.py(3): main"), pseudonym("lib.py(4): call")]
    assert args[14] == {"kind": pseudonym("valuesecret"), "nested": {"deep": [pseudonym("listsecret"), 4]}, "n": 3}
    assert args[16]["name"] == "read" and args[16]["fname"] == path("/home/alice/data.d")
    assert args[17]["value"] == args[19]["fhash"] != 123456789
    for number, was in ((int(json.loads(one)["id"]), json.loads(one)) for one in SECRETS):
        assert {**lines[number], "name": 0, "args": 0} == {**was, "name": 0, "args": 0}


def test_names_of_spans(tmp_path, key):
    (tmp_path / "t.pfw").write_text("\n".join(SECRETS) + "\n")
    run([PFW, "anonymise", "--names", "--key", key, "-o", tmp_path / "o", tmp_path / "t.pfw"])
    lines = {one["id"]: one for one in lines_of(tmp_path / "o")}
    assert not left(SECRETS, text_of(tmp_path / "o" / "trace.pfw"), PUBLIC | {"system", "rename"})
    assert lines[12]["name"] == pseudonym("layersecret") and lines[13]["name"] == "ProfilerStep#3"
    assert (lines[14]["name"], lines[14]["cat"]) == (pseudonym("spansecret"), pseudonym("catsecret"))
    assert lines[10]["name"] == "aten::mm"


def test_keep(tmp_path, key):
    names = ["/usr/lib/own/a.parquet", "/usr/library/b", "/proc/self/maps", "/dev/shm/x.tar.gz", "/data/.hidden",
             "/data/name.withlongend", "/tmp", "/data/x.", "/data/y.b-c"]
    (tmp_path / "t.pfw").write_text("".join(line(n, "open", "POSIX", "X", {"fname": name}) + "\n"
                                            for n, name in enumerate(names, 1)))
    run([PFW, "anonymise", "--keep", "roots,extensions", "--key", key, "-o", tmp_path / "o", tmp_path / "t.pfw"])
    p = pseudonym
    assert [one["args"]["fname"] for one in lines_of(tmp_path / "o")] == [
        f"/usr/lib/{p('own')}/{p('a.parquet')}.parquet", f"/usr/{p('library')}/{p('b')}", f"/proc/self/{p('maps')}",
        f"/dev/shm/{p('x.tar.gz')}.gz", f"/{p('data')}/{p('.hidden')}", f"/{p('data')}/{p('name.withlongend')}", "/tmp",
        f"/{p('data')}/{p('x.')}", f"/{p('data')}/{p('y.b-c')}"]


# Of a table's row: what is a figure, and what is a name.
def figures(command, *paths):
    rows = [json.loads(one) for one in run([PFW, *command, "--format", "ndjson", *paths]).stdout.splitlines()]
    return sorted(json.dumps({key: value for key, value in row.items() if not isinstance(value, str)}, sort_keys=True)
                  for row in rows)


FIGURES = [("table",), ("table", "--group-by", "fname"), ("table", "--group-by", "cmd,name"), ("overlap",), ("patterns",)]
WORK = """
import os, sys, threading
top = sys.argv[1]
for n in range(40):
    with open(f"{top}/filesecret{n % 7}.bin", "wb") as out:
        out.write(b"x" * (n * 911))
def read(n):
    for _ in range(50):
        with open(f"{top}/filesecret{n}.bin", "rb") as file:
            file.read(4096)
threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
os.system(f"cat {top}/filesecret0.bin > /dev/null")
"""


@pytest.mark.parametrize("kind", ["raw", "gz", "compacted", "all ranks in one"])
def test_figures_stay(tmp_path, kind):
    data = tmp_path / "datasecret"
    data.mkdir()
    base = tmp_path / ("t.pfw.gz" if kind == "gz" else "t.pfw")
    for rank in range(2):
        run([PFW, "run", "-q", "-o", base, "--", sys.executable, "-c", WORK, data],
            environment=clean_environment(RANK=str(rank), WORLD_SIZE="2", DFTRACER_DATA_DIR=str(data), PFW_RUN="runsecret"))
    before = sorted(tmp_path.glob("t*.pfw*"))
    assert len(before) >= 4
    if kind in ("compacted", "all ranks in one"):
        split = "rank" if kind == "compacted" else "none"
        run([PFW, "compact", "-q", "--split-by", split, *before, "-o", tmp_path / "c"])
        before = sorted((tmp_path / "c").glob("*.gz"))
    run([PFW, "anonymise", "-o", tmp_path / "o", *before])
    after = sorted((tmp_path / "o").iterdir())
    assert len(after) == len(before) and [one.suffix for one in after] == [one.suffix for one in before]
    for command in FIGURES:
        assert figures(command, *after) == figures(command, *before), command
    run([PFW, "validate", *after])
    text = "".join(map(text_of, after))
    originals = "".join(map(text_of, before)).splitlines()
    names = {part for one in originals for part in (json.loads(one)["args"].get("fname") or "").split("/")
             if len(part) > 3 and not part.startswith(("pipe:", "socket:"))} - {"local", "null", "comm", "maps"}
    assert len(names) > 4 and not [name for name in names if name in text]
    assert "secret" not in text and f'"{os.uname().nodename}"' not in text
    commands = {json.loads(one)["args"].get("cmd") for one in originals} - {None}
    assert commands and not [one for one in commands if one.split()[0] in text and len(one.split()[0]) > 3]


def test_names_need_the_key(tmp_path, key):
    (tmp_path / "t.pfw").write_text("\n".join(SECRETS) + "\n")
    texts = []
    for number, options in enumerate(([], [], ["--key", tmp_path / "new"], ["--key", tmp_path / "new"], ["--key", key])):
        run([PFW, "anonymise", *options, "-o", tmp_path / f"o{number}", tmp_path / "t.pfw"])
        texts.append(text_of(tmp_path / f"o{number}" / "trace.pfw"))
    assert len({*texts[:3], texts[4]}) == 4 and texts[2] == texts[3]
    assert (tmp_path / "new").stat().st_size == 16 and stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_permissions_are_those_of_the_trace(tmp_path):
    (tmp_path / "t.pfw").write_text("\n".join(SECRETS) + "\n")
    (tmp_path / "t.pfw").chmod(0o600)
    run([PFW, "anonymise", "-o", tmp_path / "o", tmp_path / "t.pfw"])
    assert stat.S_IMODE((tmp_path / "o").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "o" / "trace.pfw").stat().st_mode) == 0o600


def test_members_stay_small(tmp_path):
    """Pseudonyms are longer than short names: a member that gets too long becomes two."""
    (tmp_path / "t.pfw").write_text(process() + "\n" + "".join(
        line(n, "open", "POSIX", "X", {"fname": "/a/b/c/d/e/f/g/h/i/j"}) + "\n" for n in range(2, 20000)) +
        line(20000, "end", "pfw", "M", {"events": 19998, "lost": 0, "reason": "exit"}) + "\n")
    run([PFW, "compact", "-q", tmp_path / "t.pfw", "-o", tmp_path / "c"])
    run([PFW, "anonymise", tmp_path / "c", "-o", tmp_path / "o"])
    run([PFW, "validate", tmp_path / "o"])
    run([PFW, "compact", "-q", tmp_path / "o", "-o", tmp_path / "c2"])
    assert run([PFW, "query", "--count", tmp_path / "c2"]).stdout == run([PFW, "query", "--count", tmp_path / "c"]).stdout


def test_lines_still_in_rings(tmp_path):
    """Of a process that runs, the copy has what it has done so far."""
    with subprocess.Popen([PFW, "run", "-q", "-o", tmp_path / "t", "--", sys.executable, "-c",
                           f"import os; open('{tmp_path}/ringsecret', 'w').write('x'); os.write(1, b'done\\n'); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=clean_environment(PFW_FLUSH_MS="60000", DFTRACER_DATA_DIR="all")) as process_:
        assert process_.stdout.readline() == "done\n"
        wanted, limit = "", time.monotonic() + 60
        while wanted != "2\n" and time.monotonic() < limit:  # the call that wrote "done" may not have ended
            wanted = run([PFW, "query", "--count", "--name", "write", tmp_path / "t"]).stdout
        run([PFW, "anonymise", "-o", tmp_path / "o", tmp_path / "t"])
        process_.stdin.write("\n")
        process_.stdin.close()
    made = run([PFW, "query", "--count", "--name", "write", tmp_path / "o"]).stdout
    assert made == wanted == "2\n" and "ringsecret" not in "".join(map(text_of, (tmp_path / "o").iterdir()))


@pytest.mark.parametrize("arguments, said", [
    ([], "give -o DIR"), (["-o", "."], "exists already"), (["-o", "o", "--keep", "all"], "--keep takes"),
    (["-o", "o", "--key", "t.pfw"], "not a key of 16 bytes"), (["-o", "none/o"], "No such file"),
    (["-o", "o", "--key", "none/key"], "No such file")])
def test_usage(tmp_path, arguments, said):
    (tmp_path / "t.pfw").write_text("\n".join(SECRETS) + "\n")
    done = run([PFW, "anonymise", "t.pfw", *arguments], cwd=tmp_path, status=2)
    assert said in done.stderr and sorted(os.listdir(tmp_path)) == ["t.pfw"]


def test_lines_that_cannot_be_read_are_left_out(tmp_path):
    (tmp_path / "t.pfw").write_text(SECRETS[0] + '\n{"id": brokensecret\n' + SECRETS[-1] + "\n")
    done = run([PFW, "anonymise", "-o", tmp_path / "o", tmp_path / "t.pfw"], status=1)
    assert "t.pfw" in done.stderr and len(lines_of(tmp_path / "o")) == 2


def test_a_full_disk_leaves_nothing(tmp_path):
    (tmp_path / "t.pfw").write_text("\n".join([*SECRETS[:-1]] * 200) + "\n")
    done = run(["bash", "-c", f"ulimit -f 8; trap '' XFSZ; {PFW} anonymise -o o t.pfw"], cwd=tmp_path, status=2)
    assert "File too large" in done.stderr and sorted(os.listdir(tmp_path)) == ["t.pfw"]
