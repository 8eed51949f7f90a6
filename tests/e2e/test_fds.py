"""What the tracer says a descriptor is: reuse, dup, exec, many, none, filters and odd names."""
import base64
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TARGET = pathlib.Path(os.environ["PFW_BUILD_DIR"]) / "tests" / "fds_target"


def environment(trace=None, **variables):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("PFW_", "DFTRACER_"))}
    if trace:
        env |= {"DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_DATA_DIR": "all",
                "DFTRACER_LOG_FILE": str(trace), "LD_PRELOAD": os.environ["PFW_PRELOAD"]}
    return env | variables


def run(*command, env, **options):
    return subprocess.run(command, env=env, check=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def calls(path):
    """The intercepted calls of a trace that lost nothing."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[-1]["name"] == "end" and lines[-1]["args"]["lost"] == 0, lines[-1]
    return [line for line in lines if line["cat"] in ("POSIX", "STDIO")]


def traced(tmp_path, *arguments, **variables):
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    run(TARGET, arguments[0], work, *arguments[1:], env=environment(tmp_path / "t", **variables))
    return calls(tmp_path / "t.pfw")


def number(event):
    return int(event["args"]["fname"].rpartition("f-")[2])


def check_reads(events):
    reads = [event for event in events if event["name"] == "pread"]
    wrong = [event for event in reads if number(event) + 1 != event["args"]["count"]]
    assert not wrong, f"{len(wrong)} of {len(reads)} name another file: {wrong[0]}"
    return reads


def test_numbers_reused_by_other_threads(tmp_path):
    events = traced(tmp_path, "reuse")
    assert len(check_reads(events)) == 4 * 3000 * 2
    counts = collections.Counter(event["name"] for event in events)
    assert counts["open"] == 64 + 4 * 3000
    assert counts["close"] == 64 + 4 * 3000 * 2
    assert all("fname" in event["args"] for event in events)


def test_chains_of_dup(tmp_path):
    events = traced(tmp_path, "dups")
    assert [number(event) for event in check_reads(events)] == [1, 2, 2, 2, 2, 0, 0]
    failed = [event for event in events if "errno" in event["args"]]
    assert [(event["name"], event["args"]["errno"]) for event in failed] == [("dup2", "EBADF")]


def test_exec_closes_and_keeps(tmp_path):
    events = traced(tmp_path, "exec")
    assert [number(event) for event in check_reads(events)] == [1, 2]
    assert events[-1]["name"] in ("execl", "execv")
    events = calls(tmp_path / "t.2.pfw")
    assert [number(event) for event in check_reads(events)] == [2, 3]
    (failed,) = [event for event in events if "errno" in event["args"]]
    assert failed["name"] == "read" and failed["args"]["errno"] == "EBADF"
    assert not failed["args"].get("fname")


def test_two_thousand_at_once(tmp_path):
    assert len(check_reads(traced(tmp_path, "many"))) == 4000


def test_without_the_standard_descriptors(tmp_path):
    (tmp_path / "work").mkdir()
    subprocess.run(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", TARGET, "bare",
                    tmp_path / "work"], env=environment(tmp_path / "t"), check=True, timeout=300)
    check_reads(calls(tmp_path / "t.pfw"))
    for n in range(3):
        assert (tmp_path / "work" / f"f-{n}").read_text() == "xyz"[:n + 1]


def test_odd_commands_pass_through(tmp_path):
    outputs = []
    for env in (environment(), environment(tmp_path / "t")):
        work = tmp_path / f"work{len(outputs)}"
        work.mkdir()
        outputs.append(run(TARGET, "odd", work, env=env).stdout)
    assert outputs[0] == outputs[1]
    assert b"pipe size 131072\n" in outputs[0] and b"seal 0\n" in outputs[0]
    events = [event for event in calls(tmp_path / "t.pfw") if event["name"] == "write"]
    assert [(re.sub(r"\d+", "N", event["args"]["fname"]), event["args"]["ret"]) for event in events] == [
        ("pipe:[N]", 3), ("/memfd:memory", 3), ("/memfd:memory", -1)]


WITHOUT_PATHS = """
import os, socket, sys
out, into = os.pipe()
one, two = socket.socketpair()
event = os.eventfd(1)
copy = os.dup(into)
names = [os.readlink(f"/proc/self/fd/{fd}") for fd in (into, copy, one.fileno(), event)]
os.write(into, b"1"), os.write(copy, b"22"), os.write(one.fileno(), b"333"), os.write(event, bytes(8))
if not os.fork():
    os.write(into, b"55555")
    os._exit(0)
os.wait()
os.sendfile(one.fileno(), os.open(sys.argv[1], os.O_RDONLY), 0, 4)
print(*names, sep="\\n")
"""
PAIR = "socket:[unix]"  # of the tracer: the kernel's has a number


@pytest.mark.parametrize("data_dir", ["all", None, "list"])
def test_descriptors_without_a_path_have_the_kernels_names(tmp_path, data_dir):
    """Pipes, sockets and the like, where all files are traced or those of no list."""
    (tmp_path / "data").write_text("content")
    env = environment(tmp_path / "t")
    env["DFTRACER_DATA_DIR"] = str(tmp_path) if data_dir == "list" else data_dir or ""
    if not data_dir:
        del env["DFTRACER_DATA_DIR"]
    out = run("/usr/bin/python3", "-c", WITHOUT_PATHS, tmp_path / "data", env=env).stdout
    pipe, copy, sock, event = out.decode().split()
    assert pipe == copy and pipe.startswith("pipe:[") and sock.startswith("socket:[") and event.startswith("anon_")
    events = [line for path in tmp_path.glob("t*.pfw") for line in calls(path)]
    writes = {(line["args"]["fname"], line["args"]["ret"]) for line in events
              if line["name"] == "write" and line["args"]["fd"] > 2}
    (send,) = [line["args"] for line in events if line["name"] == "sendfile"]
    if data_dir == "list":
        assert not writes and send["target"] is None
    else:
        assert writes == {(pipe, 1), (copy, 2), (PAIR, 3), (event, 8), (pipe, 5)} and send["target"] == PAIR


def data_tree(tmp_path):
    top = tmp_path / "top"
    for name in ("data", "database", "other"):
        (top / name).mkdir(parents=True)
        (top / name / "a").write_text("content")
    (top / "link").symlink_to("data")
    return top


# What DFTRACER_DATA_DIR holds, where the program is, and what it opens that is traced or not.
PREFIXES = [
    ("{top}/data", ".", ["{top}/data/a", "data/a", "./data/a"], ["{top}/other/a", "database/a"]),
    ("{top}/data", "data", ["a", "./a"], ["../other/a", "../database/a"]),
    ("{top}/data", "other", ["../data/a"], ["a", "../database/a"]),
    ("{top}/data/", ".", ["data/a"], ["database/a"]),
    ("{top}/other:{top}/data", ".", ["data/a", "other/a"], ["database/a"]),
    ("{top}/link", ".", ["link/a"], ["other/a"]),
    ("{top}/link", "link", ["a"], ["../other/a"]),
    ("{top}/link", ".", ["data/a"], []),
    ("{top}/data", ".", ["data/a"], ["link/a"]),  # as the program names it
    ("data", ".", ["data/a", "{top}/data/a"], ["database/a"]),
    ("later", ".", [], ["data/a"]),
    ("{top}/data", ".", ["other/../data/a"], ["data/../other/a"]),
]


@pytest.mark.parametrize("prefix, start, inside, outside", PREFIXES)
def test_data_dir(tmp_path, prefix, start, inside, outside):
    top = data_tree(tmp_path)
    inside = [name.format(top=top) for name in inside]
    outside = [name.format(top=top) for name in outside]
    out = run(TARGET, "paths", ".", *inside, *outside, cwd=top / start,
              env=environment(tmp_path / "t", DFTRACER_DATA_DIR=prefix.format(top=top))).stdout
    assert not re.search(rb"^-1", out, re.M), out
    if not inside:
        assert not (tmp_path / "t.pfw").exists()
        return
    events = calls(tmp_path / "t.pfw")
    names = [os.path.normpath(event["args"]["fname"]) for event in events
             if event["name"] == "open"]
    assert names == [os.path.normpath((top / start).resolve() / name) for name in inside]
    assert len(events) == 3 * len(inside)  # open, pread, close


NAMES = [b'quote " and \\ backslash', b"new\nline\ttab\x01", b"caf\xc3\xa9 \xf0\x9f\x98\x80",
         b"latin1 \xe9", b"torn \xf0\x9f\x98", b"surrogate \xed\xa0\x80", b"{\"json\":[]}",
         b"\xe2\x80\xa8 line separator", b"'", b"\x7f"]


def test_names_of_any_bytes(tmp_path):
    work = os.fsencode(tmp_path / "work")
    os.mkdir(work)
    for name in NAMES:
        with open(work + b"/" + name, "wb"):
            pass
    run(TARGET, "paths", work, *NAMES, env=environment(tmp_path / "t"))
    opens = [event for event in calls(tmp_path / "t.pfw") if event["name"] == "open"]
    for name, event in zip(NAMES, opens, strict=True):
        path = work + b"/" + name
        try:
            assert event["args"]["fname"] == path.decode()
            assert "fname_b64" not in event["args"]
        except UnicodeDecodeError:
            assert base64.b64decode(event["args"]["fname_b64"]) == path
            assert "\ufffd" in event["args"]["fname"]


def test_longest_path(tmp_path):
    top = os.fsencode(tmp_path / "work")
    path = top
    while len(path) < 4095 - 256:
        path += b"/" + b"d" * 200
    os.makedirs(path)
    path += b"/" + b"f" * (4095 - len(path) - 1 - 100) + b"/" + b"g" * 99
    os.makedirs(os.path.dirname(path))
    assert len(path) == 4095
    with open(path, "wb"):
        pass
    out = run(TARGET, "paths", top, path, path + b"x", env=environment(tmp_path / "t")).stdout
    assert out == b"3 0\n-1 36\n"  # ENAMETOOLONG
    events = [event for event in calls(tmp_path / "t.pfw") if event["name"] != "dprintf"]
    assert [event["name"] for event in events] == ["open", "pread", "close", "open"]
    assert {event["args"]["fname"] for event in events[:3]} == {path.decode()}
    assert events[3]["args"]["errno"] == "ENAMETOOLONG"
    assert events[3]["args"]["fname"].startswith(path.decode()[:4095])
    shutil.rmtree(tmp_path / "work")


# The calls that strace shows for each of ours.
SYSCALLS = {"open": "open", "openat": "open", "creat": "open", "opendir": "open", "fopen": "open",
            "close": "close", "closedir": "close", "fclose": "close",
            "read": "read", "write": "write", "pread64": "pread", "pread": "pread"}
STRACE_LINE = re.compile(r"^(?P<pid>\d+)?\s*(?P<call>\w+)\((?P<args>.*?)\)?\s+= "
                         r"(?P<ret>-?\d+)(?:<(?P<file>.*)>)?")


def counts_of_strace(path, top):
    counts = collections.Counter()
    inner = set()  # opened by libc itself, in fchmodat(): no program asks for O_PATH here
    for line in path.read_text(errors="replace").splitlines():
        match = STRACE_LINE.match(line)
        if not match or int(match["ret"]) < 0:
            continue
        name = SYSCALLS.get(match["call"])
        found = re.match(r"(\d+)<([^>]*)>", match["args"])
        if name == "open":
            file, key = match["file"], (match["pid"], match["ret"])
            if "O_PATH" in match["args"]:
                inner.add(key)
                continue
        else:
            file, key = (found[2], (match["pid"], found[1])) if found else (None, None)
            if name == "close" and key in inner:
                inner.remove(key)
                continue
        if name and file and file.startswith(str(top)):
            counts[name, file] += 1
    return counts


def counts_of_trace(base, top):
    counts = collections.Counter()
    for path in base.parent.glob(base.name + "*.pfw"):
        for event in calls(path):
            args = event["args"]
            name = SYSCALLS.get(event["name"])
            if name and args.get("ret", -1) >= 0 and (args.get("fname") or "").startswith(str(top)):
                counts[name, os.path.normpath(args["fname"])] += 1
    return counts


PYTHON = """
import os, sys
for n in range(5):
    with open(f"p{n}", "w") as f:
        f.write("x" * 100000 * n)
for n in range(5):
    fd = os.open(f"p{n}", os.O_RDONLY)
    while os.read(fd, 4096):
        pass
    os.pread(fd, 10, 5)
    os.close(fd)
print(sum(len(open(f"p{n}").read()) for n in range(5)))
"""

PROGRAMS = {
    "cp": ["/bin/sh", "-c", "cp -r tree copy && cp copy/d1/f1 one && cat one copy/d2/f3 > two"],
    "tar": ["/bin/sh", "-c", "tar cf t.tar tree && mkdir out && tar xf t.tar -C out"],
    "python3": ["/usr/bin/python3", "-c", PYTHON],
}


def make_tree(top):
    for d in range(3):
        (top / "tree" / f"d{d}").mkdir(parents=True)
        for f in range(5):
            (top / "tree" / f"d{d}" / f"f{f}").write_bytes(os.urandom(30000 * f + d))


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts_as_strace(tmp_path, program):
    outputs = []
    for way in ("strace", "pfw"):
        top = tmp_path / "top"
        make_tree(top)
        command, env = PROGRAMS[program], environment()
        if way == "strace":
            command = ["strace", "-f", "-y", "-qq", "-s", "0", "-o", tmp_path / "strace", "-e",
                       "trace=open,openat,creat,close,read,write,pread64", *command]
        else:
            env = environment(tmp_path / "t", DFTRACER_DATA_DIR=str(top))
        done = run(*command, env=env, cwd=top)
        outputs.append((done.stdout, done.stderr,
                        sorted(path.relative_to(top) for path in top.rglob("*"))))
        shutil.rmtree(top)
    assert outputs[0] == outputs[1]
    seen = counts_of_strace(tmp_path / "strace", top)
    told = counts_of_trace(tmp_path / "t", top)
    assert len(seen) > 10
    assert told == seen, (told - seen, seen - told)
