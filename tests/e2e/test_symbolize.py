"""`pfw symbolize`: addresses in stacks become the functions and lines of the program that ran."""
import ctypes.util
import gzip
import json
import re
import shutil

import pytest
from harness import PFW, SOURCE, clean_environment, compile_c, run

TARGET = SOURCE / "tests/e2e/symbolize_target.c"
LINES = {match[1]: number for number, text in enumerate(TARGET.read_text().splitlines(), 1)
         for match in re.finditer(r"; /\* (.*) \*/", text)}
START = 1_700_000_000_000_000

without = run([PFW, "symbolize", "-o", "/nowhere/x", "/nowhere/t.pfw"], status=2).stderr
pytestmark = pytest.mark.skipif("elfutils" in without, reason=without)


def at(word, function):
    return f"{TARGET}({LINES[word]}): {function}"


# What the stacks of the target become, as far as main().
SLOW = [at("the slow read", "load [inlined]"), at("called here", "epoch"), at("the epoch", "main")]
SORT = [at("in a callback of libc", "compare"), at("the sort", "main")]


def build(directory, *flags, compiler="gcc", name="target"):
    return compile_c(TARGET, directory / name, "-O2", *flags, "-ldl", compiler=compiler)


def stacks_of(program):
    return [stack.split("\n") for stack in run([program, TARGET]).stdout.strip().split("\n\n")]


def build_id(path):
    return re.search(r"Build ID: (\w+)", run(["readelf", "-n", path]).stdout)[1]


def line(number, name, cat, phase, args, pid=7):
    times = {"ts": START + number * 10, **({"dur": 5} if phase == "X" else {})}
    return json.dumps({"id": number, "name": name, "cat": cat, "pid": pid, "tid": pid, **times, "ph": phase, "args": args},
                      separators=(",", ":"))


def trace(path, stacks, modules, pid=7):
    """A trace with a read of each stack, after the lines of the modules: path -> build id."""
    lines = [("process", "pfw", "M", {"format": 1, "version": "1", "run": "r", "host": "h", "rank": None, "ppid": 1,
                                      "cmd": "target", "start_ts": START - pid})]
    lines += [("module", "pfw", "M", {"fname": str(name), "build_id": id_}) for name, id_ in modules.items()]
    lines += [("read", "POSIX", "X", {"fname": "/data", "fd": 3, "ret": 10, "count": 10, "stack": stack}) for stack in stacks]
    lines += [("end", "pfw", "M", {"events": len(stacks), "lost": 0, "reason": "exit"})]
    text = "".join(line(number, *one, pid=pid) + "\n" for number, one in enumerate(lines, 1))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def ids(stacks):
    return {path: build_id(path) for path in {frame.rsplit("+", 1)[0] for stack in stacks for frame in stack}}


def symbolize(path, *options, status=0, out="o.pfw"):
    done = run([PFW, "symbolize", path, "-o", path.parent / out, *options], status=status)
    return read(path.parent / out), done


def read(path):
    """The stacks of a copy."""
    data = path.read_bytes()
    lines = [json.loads(one) for one in (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).splitlines()]
    return [one["args"]["stack"] for one in lines if "stack" in one["args"]]


@pytest.mark.parametrize("compiler, flags", [
    ("gcc", ["-fomit-frame-pointer"]), ("gcc", ["-gdwarf-4", "-no-pie"]), ("gcc", ["-gsplit-dwarf"]), ("clang", ["-gdwarf-5"])])
def test_lines(tmp_path, compiler, flags):
    """The line of the slow read is named, with the function that is inlined there and those that call it."""
    stacks = stacks_of(build(tmp_path, *flags, compiler=compiler))
    path = trace(tmp_path / "t.pfw", [[*stacks[0], "..."], stacks[1], ["train.py(3): step"]], ids(stacks))
    (slow, sort, python), done = symbolize(path)
    assert slow[:3] == SLOW and slow[-1] == "..." and python == ["train.py(3): step"]
    assert [frame for frame in sort if "target.c" in frame] == SORT and len(sort) >= len(stacks[1])
    assert all("libc" in frame for frame in sort[1:sort.index(SORT[1])]) and "left as addresses" in done.stdout
    rows = [json.loads(row) for row in run([PFW, "table", "-g", "line", "--format", "ndjson", path.with_name("o.pfw")]
                                           ).stdout.splitlines()]
    assert {row["line"]: row["count"] for row in rows} == {SLOW[0]: 1, SORT[0]: 1, "train.py(3): step": 1}
    folded = run([PFW, "export", "--format", "folded", "-o", "-", path.with_name("o.pfw")]).stdout
    assert ";".join([*reversed(SLOW), "read 5"]) in folded


def test_cxx(tmp_path):
    """C++ functions have their classes, and no arguments."""
    (tmp_path / "x.cc").write_text("""
        extern "C" void *seen; extern "C" int printf(const char *, ...); void *seen;
        namespace app { template <class T> struct Loader { __attribute__((noinline)) T load(T x) const {
            seen = __builtin_return_address(0); __asm__ volatile("" ::: "memory"); return x; }
            __attribute__((noinline)) T all(T x) { return load(x) + 1; } }; }
        int main() { app::Loader<int> l; int got = l.all(1); extern char __executable_start;
            printf("%lx", (unsigned long)((char *)seen - &__executable_start)); return got - 2; }""")
    run(["g++", "-O1", "-g", tmp_path / "x.cc", "-o", tmp_path / "x"])
    frame = f"{tmp_path}/x+0x{run([tmp_path / 'x']).stdout}"
    (stack,), _ = symbolize(trace(tmp_path / "t.pfw", [[frame]], ids([[frame]])))
    assert stack == [f"{tmp_path}/x.cc(5): app::Loader<int>::all"]


def test_without_debug_information(tmp_path):
    """Only symbols: functions.  None: addresses.  With the debug file in --root: lines, also without the program."""
    program = build(tmp_path)
    stacks = stacks_of(program)
    own = [[frame for frame in stack if frame.startswith(str(program))] for stack in stacks]
    path, id_ = trace(tmp_path / "t.pfw", own, ids(own)), build_id(program)
    debug = tmp_path / f"root/usr/lib/debug/.build-id/{id_[:2]}/{id_[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run(["objcopy", "--only-keep-debug", program, debug])
    run(["strip", "-g", program])
    (slow, sort), _ = symbolize(path, out="functions.pfw")
    assert slow[:2] == [f"{program}: epoch", f"{program}: main"] and sort[0] == f"{program}: compare"
    run(["strip", program])
    stripped, done = symbolize(path, out="stripped.pfw")
    assert stripped == own and f"{sum(map(len, own))} left as addresses" in done.stdout
    (tmp_path / "root" / str(tmp_path)[1:]).mkdir(parents=True)
    moved = tmp_path / "root" / str(program)[1:]
    for there in (moved, tmp_path / "away"):
        shutil.move(program if program.exists() else moved, there)
        (slow, sort), _ = symbolize(path, "--root", tmp_path / "root", out=f"{there.name}-lines.pfw")
        assert slow[:3] == SLOW and sort[:2] == SORT


@pytest.mark.skipif(not ctypes.util.find_library("debuginfod"), reason="libdebuginfod is not installed")
def test_debuginfod(tmp_path):
    """A program that is not here comes from a server, by its build id."""
    program = build(tmp_path)
    own = [[frame for frame in stack if frame.startswith(str(program))] for stack in stacks_of(program)]
    path, server = trace(tmp_path / "t.pfw", own, ids(own)), tmp_path / "server/buildid" / build_id(program)
    server.mkdir(parents=True)
    shutil.copy(program, server / "executable")
    shutil.move(program, server / "debuginfo")
    run([PFW, "symbolize", path, "-o", tmp_path / "o.pfw"], clean_environment(
        DEBUGINFOD_URLS=f"file://{tmp_path}/server/", DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache")))
    assert [stack[:2] for stack in read(tmp_path / "o.pfw")] == [SLOW[:2], SORT]


def test_another_build(tmp_path):
    """What has changed is said once, with both ids; each process of a trace has modules of its own."""
    program = build(tmp_path)
    stacks = stacks_of(program)
    own = [frame for frame in stacks[0] if frame.startswith(str(program))]
    old, new = "ab" * 20, build_id(program)
    for pid, id_ in ((7, old), (8, new)):
        trace(tmp_path / f"t-pid{pid}.pfw", [own] * 3, {program: id_}, pid)
    done = run([PFW, "symbolize", tmp_path / "t", "-o", tmp_path / "o"], status=1)
    assert done.stderr.count(str(program)) == 1 and old in done.stderr and new in done.stderr
    assert read(tmp_path / "o/t-pid7.pfw") == [own] * 3 and read(tmp_path / "o/t-pid8.pfw")[0][:3] == SLOW
    run([PFW, "compact", "-q", tmp_path / "t", "-o", tmp_path / "c"])
    run([PFW, "symbolize", tmp_path / "c", "-o", tmp_path / "oc"], status=1)
    made, = (tmp_path / "oc").glob("*.gz")
    assert sorted(map(tuple, read(made))) == sorted([tuple(own)] * 3 + [tuple(read(tmp_path / "o/t-pid8.pfw")[0])] * 3)
    run([PFW, "validate", made])
    run([PFW, "query", "--count", made])


def test_missing(tmp_path):
    missing = [f"{tmp_path}/lib{number}.so+0x10" for number in range(12)]
    stacks, done = symbolize(trace(tmp_path / "t.pfw", [missing] * 5, {}), status=1)
    assert stacks == [missing] * 5 and done.stderr.count("No such file") == 10 and "and 2 more" in done.stderr
    assert "60 left as addresses" in done.stdout


def test_hostile(tmp_path):
    """Whatever a stack holds, only addresses of files that exist change, and the lines stay whole."""
    program = build(tmp_path)
    (tmp_path / "text.so").write_text("no ELF file")
    run(["mkfifo", tmp_path / "pipe.so"])
    good = next(frame for frame in stacks_of(program)[0] if frame.startswith(str(program)))
    stacks = [[good] * 10000, [f"{program}+0x{n:x}" for n in (0, 1, 2**63, 2**64 - 1)], [f"{program}+0x" + "1" * 17],
              [1, None, good, [good], {"a": good}, True], [], ["", "+0x1", "...", "/+0x1", "[vdso]+0x10", "\u00e9\"\\+0x1"],
              ["x" * 20000 + "+0x1"], [f"{name}+0x10" for name in ("/dev/zero", "/etc", "/proc/self/mem", f"{tmp_path}/text.so",
                                                                   f"{tmp_path}/pipe.so", "/" + "y" * 5000)]]
    modules = {program: build_id(program), "/etc": "xyz", "": "", "/a": "AB" * 200, "/b": "abc", "/" + "z" * 9000: "ab"}
    path = trace(tmp_path / "t.pfw", stacks, modules)
    text = path.read_text().replace('"name":"module"', '"name":"module","x":[{}]', 1)
    path.write_text(text + line(99, "module", "pfw", "M", {"fname": 3}) + "\n" + line(100, "module", "pfw", "M", {}) + "\n")
    found, _ = symbolize(path, status=1)
    assert found[0] == SLOW[:2] * 10000 and found[3] == [1, None, *SLOW[:2], [good], {"a": good}, True]
    assert found[1:3] + found[4:] == stacks[1:3] + stacks[4:]
    strip = re.compile(r'"stack":\[.*')
    assert [strip.sub("", one) for one in (tmp_path / "o.pfw").read_text().splitlines()] == [
        strip.sub("", one) for one in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["text", "gz", "compacted", "pipe"])
def test_forms(tmp_path, kind):
    """Copies have the form of their traces."""
    program = build(tmp_path)
    own = [[frame for frame in stack if frame.startswith(str(program))] for stack in stacks_of(program)]
    path = trace(tmp_path / ("t.pfw.gz" if kind == "gz" else "t.pfw"), own * 4000, ids(own))
    if kind == "compacted":
        run([PFW, "compact", "-q", path, "-o", tmp_path / "c"])
        path = tmp_path / "c/t.pfw.gz"
    if kind == "pipe":
        run(["sh", "-c", f"cat {path} | {PFW} symbolize - -o {tmp_path}/t.symbolized"])
    else:
        run([PFW, "symbolize", "-j", "2", path])
    made, = path.parent.joinpath("t.symbolized").iterdir()
    stacks = read(made)
    assert len(stacks) == 8000 and {tuple(stack[:2]) for stack in stacks} == {tuple(SLOW[:2]), tuple(SORT)}
    assert (kind == "pipe" or made.name == path.name) and run([PFW, "validate", made])


@pytest.mark.parametrize("arguments, said", [
    (["t*.pfw"], "give -o DIR"), (["t.pfw", "-o", "."], "exists already"), (["t.pfw", "u.pfw", "-o", "o.pfw"], "go to a directory"),
    (["t.pfw", "-o", "none/o"], "No such file"), (["t.pfw", "--roof", "x"], "--root")])
def test_usage(tmp_path, arguments, said):
    for name, pid in (("t.pfw", 7), ("u.pfw", 8)):
        trace(tmp_path / name, [], {}, pid)
    done = run([PFW, "symbolize", *arguments], cwd=tmp_path, status=2)
    assert said in done.stderr and sorted(one.name for one in tmp_path.iterdir()) == ["t.pfw", "u.pfw"]
