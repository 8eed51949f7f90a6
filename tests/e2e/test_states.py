"""The same trace gives the same bytes, whatever state it is stored in: raw, gz, compacted; indexed or not."""
import base64
import gzip
import json
import random
import re
import shutil
import sqlite3

import pytest

from harness import PFW, run, traced_environment

START = 1795230878000000000  # ns


# ---- synthetic traces ----

class Process:
    """One process's file.  Lines stand in the order in which spans end, but for those added `late`."""

    def __init__(self, pid, start, rank=-1, ranks=1, parent=1, host="h", run_name="r"):
        self.pid, self.start, self.lines, self.late = pid, start, [], []
        self.head = {"format": 1, "version": "1", "run": run_name, "host": host, "boot": "b",
                     "rank": rank, "world_size": ranks, "local_rank": rank, "ppid": parent,
                     "cmd": f"program {start}", "start_ts": 1}

    def add(self, name, cat, begin, dur, args=None, tid=None, phase="X", late=False):
        (self.late if late else self.lines).append(
            (begin + dur, name, cat, begin, dur, args or {}, tid or self.pid, phase))
        return self

    def call(self, name, begin, dur, **args):
        return self.add(name, "POSIX", begin, dur, args)

    def work(self, kind, name, begin, dur, tid=None, late=False, **args):
        return self.add(name, "PP", begin, dur, {"kind": kind, **args}, tid, late=late)

    def text(self):
        def line(number, name, cat, begin, dur, args, tid, phase):
            ns = START + begin
            length = f',"dur":{dur // 1000}.{dur % 1000:03}' if phase == "X" else ""
            return (f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":{self.pid},"tid":{tid},'
                    f'"ts":{ns // 1000}.{ns % 1000:03}{length},"ph":"{phase}",'
                    f'"args":{json.dumps(args, separators=(",", ":"))}}}\n')
        found = [line(1, "process", "pfw", self.start, 0, self.head, self.pid, "M")]
        ordered = sorted(self.lines, key=lambda one: one[0]) + self.late
        for number, (_, *rest) in enumerate(ordered, 2):
            found.append(line(number, *rest))
        end = min(max((one[0] for one in ordered), default=self.start), 2**62)
        found.append(line(len(ordered) + 2, "end", "pfw", end, 0,
                          {"events": len(ordered), "lost": 0, "reason": "exit"}, self.pid, "M"))
        return "".join(found)

    def write(self, path):
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.text())


def busy(process, seed, count=150):
    """Calls, operators with their kernels, annotations and allocations, many at the same time."""
    chance, at, step = random.Random(seed), process.start + 1000, 0
    begin = at
    for n in range(1, count + 1):
        fd, name = 3 + n % 4, f"/data/{chance.randrange(4)}"
        if n % 5 == 1:
            process.call("open", at, 700, fname=name, ret=fd, flags=2)
        process.call("read", at + 1000, chance.choice([400, 900]), fname=name, fd=fd,
                     ret=chance.choice([0, 100, 4096]), count=4096)
        process.call("mmap", at + 2500, 300, fname=name, fd=fd, ret=4096 * n, length=n)
        process.call("write", at + 1000, 400, fname=name, fd=fd, ret=7)
        # Two spans of identical times, and which of them lies in the other.
        inner, outer = 2 * n, 2 * n + 1
        process.add("inner", "app", at + 3000, 5000, {"span_id": inner, "parent": outer})
        process.add("outer", "app", at + 3000, 5000, {"span_id": outer, "parent": 0})
        if n % 3 == 0:
            process.add("same", "app", at + 3000, 5000)
        process.work("cpu_op", f"aten::{'ab'[n % 2]}", at + 3000, 5000, external_id=n)
        process.work("driver", "cuLaunchKernel", at + 3400, 300, correlation=n)
        process.work("runtime", "cudaLaunchKernel", at + 3200, 900, correlation=n)
        process.work("kernel", "gemm", at + 4000 + chance.randrange(9000), 2000,
                     10001000 + n % 2, correlation=n, device=1, device_index=0, context=1,
                     stream=n % 2)
        process.add("memory", "COUNTER", at + 100, 0, {"rss": chance.randrange(1 << 40)}, phase="C")
        process.add("cpu", "COUNTER", at + 100, 0, {"user": chance.randrange(9999) / 10}, phase="C")
        for addr in (1, 2):
            process.add("[memory]", "PP", at + 3500, 0, {
                "kind": "memory", "device": n % 2, "device_index": 0 if n % 2 else -1,
                "addr": addr, "bytes": chance.choice([64, -64])}, phase="i")
        at += chance.choice([9000, 10000, 30000])
        if n % 30 == 0:
            process.work("step", f"ProfilerStep#{step}", begin, at - begin - 500)
            step, begin = step + 1, at
    process.start_of_next = at + 50000
    return process


def one_pid(directory, seed, run_name="r"):
    """A program that execs: one pid, one thread id, correlations from 1, three times."""
    start = 0
    for number in range(3):
        process = busy(Process(4711, start, run_name=run_name), seed + number)
        process.write(directory / ("t.pfw" if not number else f"t.{number + 1}.pfw"))
        start = process.start_of_next


def children(directory, seed, run_name="r"):
    """Processes at the same time, of which later ones have pids of earlier ones."""
    start = busy(Process(10, 0, run_name=run_name), seed)
    start.write(directory / "t.pfw")
    for number, pid in enumerate([9, 11, 9, 100]):
        child = busy(Process(pid, 50000 + number * 4000000, parent=10, run_name=run_name),
                     seed + 10 + number, 60)
        child.write(directory / f"t-pid{pid}{'.2' if number == 2 else ''}.pfw")


def ranks(directory, seed, run_name="r"):
    """Three ranks with a worker each; the last rank has the same pid twice."""
    for rank in range(3):
        first = busy(Process(100 + rank, rank * 700, rank, 3, run_name=run_name), seed + rank)
        first.write(directory / f"t-rank000{rank}.pfw")
        pid = 100 + rank if rank == 2 else 200 + rank
        second = Process(pid, first.start_of_next if rank == 2 else 900, rank, 3, 100 + rank,
                         run_name=run_name)
        busy(second, seed + 20 + rank, 40).write(directory / (
            "t-rank0002.2.pfw" if rank == 2 else f"t-rank000{rank}-pid{pid}.pfw"))


def late(directory, seed, run_name="r"):
    """Calls whose lines come a MiB after their kernels', and a kernel that waits for 20 s."""
    process = busy(Process(50, 0, run_name=run_name), seed, 30)
    for n in range(9000):
        process.work("cpu_op", "aten::add", 20000000 + n * 500, 400, external_id=1000 + n)
    for n in range(1, 31):
        process.work("runtime", "cudaGraphLaunch", 1500, 90000000, correlation=n, late=True)
    process.work("kernel", "waits", 30000000000, 1000, 10001000, correlation=3, device=1)
    process.call("read", 30000000500, 4000, fname="/data/0", fd=3, ret=9)
    process.write(directory / "t.pfw")


PROGRAM = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *use(void *name)
{
	char text[300];
	int fd;

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 40; i++) {
		fd = open(name, O_RDWR | O_CREAT, 0600);
		write(fd, text, sizeof(text));
		lseek(fd, i % 3 * 50, SEEK_SET);
		read(fd, text, 100);
		close(fd);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int left = argc > 1 ? atoi(argv[1]) : 2;
	char *next[] = { argv[0], left == 2 ? "1" : "0", NULL };

	pthread_create(&thread, NULL, use, "one");
	use("two");
	pthread_join(thread, NULL);
	if (fork() == 0) {
		use("one");
		_exit(0);
	}
	wait(NULL);
	if (left)
		execv(argv[0], next);
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("program")
    (directory / "x.c").write_text(PROGRAM)
    run(["cc", "-pthread", "-o", directory / "x", directory / "x.c"])
    return directory / "x"


def extremes(directory, seed, run_name="r"):
    """Spans beyond the end of time, sizes beyond 2^53 and, added up, 2^63; names with escapes."""
    process = Process(4711, seed * 1000, run_name=run_name)
    most = 2**63 - 1
    for at in range(0, 8000, 1000):
        process.call("read", at, 500, fname="/d/a", ret=2**62 + at + 1, count=2**62 + at + 1)
        process.add("ends", "app", at, most - START - at - (at == 1000), tid=30 + at)
        process.add("huge", "app", at, most - at, tid=4000 + at)
        process.add("mat\\u00e9riau\\u0041" if at % 2000 else "matériauA", "app", at, 10, tid=12)
        process.add("re\\u0061d", "P\\u004fSIX", at + 600, 10, {"fname": "/d/\u0061é", "ret": 5, "count": 5})
        process.add("kern\\u0065l", "\\u0050P", at, 10, {"kind": "kernel", "device": 1}, tid=10000007)
        process.work("memory", "[memory]", at, 0, device=0, addr=at + 1, bytes=2**62 + 1, total_allocated=2**62 + 1)
        process.work("cpu_op", "aten::mm", at, 90, tid=13, flops=2**62 + 1, cpu_memory=2**62 + 1)
    process.write(directory / "t.pfw")


# ---- states ----

def stored(made, directory, state, indexed):
    """A copy of the traces in that state."""
    shutil.copytree(made, directory)
    if state == "gz":
        for path in directory.glob("*.pfw"):
            with gzip.open(f"{path}.gz", "wb") as out:
                out.write(path.read_bytes())
            path.unlink()
    elif state != "raw":
        run([PFW, "compact", "-q", "--split-by", state, directory])
    for path in directory.glob("*.idx"):
        path.unlink()
    if indexed:
        run([PFW, "index", "-q", directory])


STATES = [("raw", False), ("raw", True), ("gz", False), ("gz", True), ("rank", False),
          ("rank", True), ("process", False), ("process", True), ("none", False), ("none", True)]

COMMANDS = [
    *(["table", "--format", "csv", "--row-limit", "-1", *words] for words in (
        [], *(["-g", by] for by in ("name", "cat", "fname", "rank", "step", "pid", "tid",
                                    "name,rank", "fname,step", "cat,pid,tid", "shape",
                                    "rank,step")),
        ["-g", "step", "-s", "p95"],
        ["--plain"], ["--columns", "self_cpu_time_total,cpu_time_total,device_time_total,count"],
        ["--columns", "io"], ["--name", "read"], ["--cat", "PP"], ["--step", "1"],
        ["--since", "40%"], ["--pid", "4711"])),
    ["table"], ["table", "-g", "fname"], ["table", "-s", "none"],
    ["overlap", "--format", "ndjson"], ["overlap", "--steps", "--format", "ndjson"],
    ["overlap", "--bins", "7", "--format", "ndjson"], ["overlap"],
    ["overlap", "--since", "30%", "--until", "80%", "--format", "ndjson"],
    ["patterns", "--format", "ndjson"], ["patterns"], ["patterns", "--cat", "POSIX"],
    ["patterns", "--name", "read", "--format", "ndjson"],
    ["memory", "--format", "ndjson", "--bins", "4"], ["memory"],
    ["counters", "--format", "ndjson"], ["counters"], ["counters", "--name", "cpu", "--since", "30%"],
    ["query", "--count"], ["query", "--count", "--where", "dur > 1us && cat == \"PP\""],
    *(["query", "--sort-by", key, "--limit", "300", *words]
      for key in ("ts", "-ts", "dur", "-dur") for words in ([], ["--meta"])),
    ["export", "--merge"], ["export", "--merge", "--format", "csv"],
    ["export", "--merge", "--format", "dftracer"], ["export", "--merge", "--format", "perfetto"],
    *(["export", "--format", "folded", "--weight", weight]
      for weight in ("host", "device", "count")),
]


# Whose lines stand in the order of the files.
IN_FILES = [["query"], ["query", "--meta", "--fields", "ts,dur,name,rank,args.fname"],
            ["query", "--where", "step == 1"]]


def answers(directory):
    """The output of each command, by its words; of lines in the order of files, sorted."""
    found = {" ".join(words): run([PFW, *words, directory]).stdout for words in COMMANDS}
    for words in IN_FILES:
        lines = run([PFW, *words, directory]).stdout.split("\n")
        found[" ".join(words)] = "\n".join(sorted(lines))
    return found


def check(made, tmp_path):
    first = None
    for state, indexed in STATES:
        directory = tmp_path / f"{state}-{indexed}"
        stored(made, directory, state, indexed)
        found = answers(directory)
        first = first or found
        for words, bytes_ in found.items():
            assert bytes_ == first[words], (state, indexed, words)


@pytest.mark.parametrize("make", [one_pid, children, ranks, late, extremes])
def test_answers_do_not_depend_on_the_state(tmp_path, make):
    make(tmp_path / "made", 1)
    check(tmp_path / "made", tmp_path)


def test_answers_for_a_program_do_not_depend_on_the_state(tmp_path, program):
    """Threads, children and two execs: five processes or more, three of one pid."""
    (tmp_path / "made").mkdir()
    run([program], traced_environment(tmp_path / "made/t", tmp_path), cwd=tmp_path)
    assert len(list((tmp_path / "made").glob("*.pfw"))) == 6
    check(tmp_path / "made", tmp_path)


@pytest.mark.parametrize("make", [one_pid, children, ranks])
def test_comparisons_do_not_depend_on_the_state(tmp_path, make):
    """One run a side, whose processes are a file each or one file."""
    make(tmp_path / "a", 1, "one")
    make(tmp_path / "b", 50, "two")
    first = None
    for state, indexed in STATES:
        for side in "ab":
            stored(tmp_path / side, tmp_path / f"{side}-{state}-{indexed}", state, indexed)
        found = [run([PFW, "compare", *words, *(tmp_path / f"{side}-{state}-{indexed}" for side in "ab")],
                     status=None).stdout
                 for words in (["--format", "ndjson"], [], ["-g", "fname"], ["-g", "rank", "--format", "csv"])]
        first = first or found
        assert found == first, (state, indexed)


# ---- the same process twice ----

def test_the_same_process_counts_once(tmp_path):
    """After compact --keep every process is in two files: one is used, and one line says so."""
    children(tmp_path / "t", 1)
    before = answers(tmp_path / "t")
    run([PFW, "compact", "-q", "--keep", tmp_path / "t"])
    assert len(list((tmp_path / "t").glob("*.pfw"))) == 5
    assert answers(tmp_path / "t") == before
    for words in (["table"], ["overlap"], ["patterns"], ["memory"], ["query"], ["export"]):
        result = run([PFW, *words, tmp_path / "t"])
        said = [line for line in result.stderr.splitlines() if "left out" in line]
        assert len(said) == 1 and "t.pfw.gz" in said[0] and "4 more" in said[0], said
    said = run([PFW, "validate", tmp_path / "t"]).stderr
    assert said.count("\n") == 1 and "4 more left out by other commands: the same processes are in" in said, said
    assert run([PFW, "validate", "-q", tmp_path / "t"]).stderr == ""


def test_files_that_share_only_some_processes(tmp_path):
    """Neither can be left out: what both have counts twice, and every command says so, validate as a problem."""
    children(tmp_path / "t", 1)
    raw = sorted((tmp_path / "t").glob("*.pfw"))
    for name, kept in (("a", raw[:3]), ("b", raw[2:])):
        (tmp_path / name).mkdir()
        for path in kept:
            shutil.copy(path, tmp_path / name)
        run([PFW, "compact", "-q", "-o", tmp_path / f"{name}.out", tmp_path / name])
    both = [tmp_path / "a.out", tmp_path / "b.out"]
    for words in (["table"], ["query", "-q", "--count"]):
        result = run([PFW, *words, *both], status=None)
        assert re.search(r"b\.out/\S+: shares processes with \S+/a\.out/\S+: they count twice", result.stderr)
    for words in ([], ["-q"]):
        result = run([PFW, "validate", *words, *both], status=1)
        assert result.stdout.count("they count twice") == 1 and result.stderr == "", result
    found = [json.loads(line) for line in run([PFW, "validate", "--format", "ndjson", *both], status=1).stdout.splitlines()]
    assert [each["file"].count("b.out/") for each in found if "problem" in each] == [1] and found[-1]["problems"] == 1
    assert run([PFW, "validate", tmp_path / "a.out"]).stdout.count("problem") == 0


def test_what_only_one_file_has_is_not_left_out(tmp_path):
    """Of a run that went on after it was compacted, the new processes count as well."""
    children(tmp_path / "t", 1)
    all_ = run([PFW, "query", "--count", tmp_path / "t"]).stdout
    (tmp_path / "t/t-pid100.pfw").rename(tmp_path / "later")
    run([PFW, "compact", "-q", "--keep", tmp_path / "t"])
    (tmp_path / "later").rename(tmp_path / "t/t-pid100.pfw")
    assert run([PFW, "query", "--count", tmp_path / "t"]).stdout == all_


def test_processes_of_a_large_trace(tmp_path):
    """Its index says how many there are; of two the second may begin in the middle of a file that was put together."""
    for pid in (1, 2):
        process = Process(pid, pid, rank=pid, ranks=2)
        for number in range(18000):
            name = base64.b64encode(random.randbytes(300)).decode()
            process.call("read", pid * 10 ** 10 + number * 1000, 500, fname=f"/{name}", ret=number)
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / f"t-{pid}.pfw").write_text(process.text())
        run([PFW, "compact", "-q", "--keep", tmp_path / str(pid)])
    both = tmp_path / "both"
    both.mkdir()
    (both / "t.pfw.gz").write_bytes(b"".join(path.read_bytes() for path in sorted(tmp_path.glob("?/*.gz"))))
    assert (both / "t.pfw.gz").stat().st_size > 8 << 20
    run([PFW, "index", "-q", both])
    shutil.copy(tmp_path / "2" / "t-2.pfw", both)
    commands = ("table", "overlap", "patterns", "memory")
    read = {command: run([PFW, command, both, "--no-index"]).stdout for command in commands}
    for kind in (None, *commands):
        if kind:  # without its answer the blocks have to be found after all
            with sqlite3.connect(both / "t.pfw.gz.idx") as index:
                index.execute("DELETE FROM part WHERE kind = ?", (kind,))
        for command in (kind,) if kind else commands:
            done = run([PFW, command, both])
            assert done.stdout == read[command], (kind, command)
            assert "t-2.pfw left out: the same processes are in" in done.stderr, (kind, command)
