"""`pfw advise`: what the report finds, in a terminal and for programs."""
import json
import os

import pytest

from harness import BUILD, PFW, clean_environment, run
from test_export import Trace
from test_report import MS, loop, report


def advise(*words, **options):
    return run([PFW, "advise", *words], **options)


def rows(*words):
    return [json.loads(line) for line in advise("--format=ndjson", "-q", *words).stdout.splitlines()]


def test_findings_are_those_of_the_report(tmp_path):
    path = loop(tmp_path / "t", "small_calls")
    found, wanted = rows(path), report(path)["findings"]
    assert [(one["rule"], one["finding"], one["remedy"], one["query"]) for one in found] == \
        [(one["rule"], one["text"], one["remedy"], one["query"]) for one in wanted] and found
    assert all(one["cost"] * 1000 == one_["cost_ns"] for one, one_ in zip(found, wanted))
    assert found == rows("--no-index", "-j1", path)


def test_the_line_of_code_is_named(tmp_path):
    """Where calls have stacks, a finding about I/O says which line spent most time in such calls."""
    path = loop(tmp_path / "t", "small_calls")
    plain = rows(path)
    number = 0
    for file in path.glob("*.pfw"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            number += line["cat"] == "POSIX"
            if line["cat"] == "POSIX" and number % 3:  # as the slow ones of many
                line["args"]["stack"] = ["/lib/libc.so.6+0x1", f"/home/me/train.py({number % 3}): load", "train.py(9): main"]
            if line["name"] == "process":
                line["args"]["stacks"] = True
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    found = {one["rule"]: one for one in rows(path)}
    assert list(found) == [one["rule"] for one in plain] and "small_calls" in found
    spent = {one["line"]: one["total"] for one in map(json.loads, run(
        [PFW, "table", "-g", "line", "--format=ndjson", path]).stdout.splitlines()) if one["section"] == "io" and one["line"]}
    most = max(spent, key=spent.get)
    assert len(spent) == 2 and f", most of those with a stack in {most}: " in found["small_calls"]["finding"]
    assert "with a stack" not in "".join(one["finding"] for one in plain)


def test_for_people(tmp_path):
    loop(tmp_path / "t", "loader")
    text = advise("t", cwd=tmp_path).stdout
    assert text.startswith("1. loader  (1.92s at most, ") and "\n   Do:  Give the DataLoader" in text
    assert "\n   See: pfw overlap --steps t\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "Not recorded, so not judged: what the system counts (PFW_COUNTERS=500ms)." in text
    assert advise(cwd=tmp_path / "t").stdout == text.replace(" t\n", "\n")  # the newest run here
    assert advise("--format=md", "t", cwd=tmp_path).stdout.startswith("| Rule")


def test_a_healthy_run(tmp_path):
    path = loop(tmp_path / "t")
    assert advise(path).stdout.startswith("Nothing stands out: no rule found") and rows(path) == []
    assert advise("--since=50%", path).stdout.startswith("Nothing stands out")


def test_what_is_not_recorded_is_said(tmp_path):
    path = Trace().add("read", "POSIX", 0, 5, {"fname": "/a", "ret": 1}).write(tmp_path / "t.pfw")
    text = advise(path).stdout
    for what in ("steps", "compute", "GPU work", "what the system counts"):
        assert what in text.split("Not recorded, so not judged: ")[1]


def test_status(tmp_path):
    """Findings are no damage; damage is told once, though several commands find it."""
    path = loop(tmp_path / "t", "loader")
    advise(path)
    with (path / "t-rank0000.pfw").open("a") as file:
        file.write("no line\n")
    done = advise(path, status=1)
    assert done.stderr.count("t-rank0000.pfw:") == 1 and done.stderr.startswith("pfw advise: ")
    assert "1. loader" in done.stdout
    assert "no-such" in advise("no-such", cwd=tmp_path, status=2).stderr
    assert "--since" in advise("--since=soon", path, status=2).stderr
    advise("--format=html", path, status=2)


# ---- rules that need rows of other commands ----

def counted(trace, at, **figures):
    for name, values in figures.items():
        trace.add(name.replace("_", " "), "COUNTER", at, None, values, ph="C")


def counting(tmp_path, figures, steps=12):
    """Steps of 100 ms of compute, and after each what figures(step) counts."""
    trace = Trace()
    for step in range(steps):
        at = MS + step * 100 * MS
        trace.add("forward", "PP", at, 100 * MS, {"kind": "cpu_op", "device": 0, "device_index": -1})
        trace.add(f"ProfilerStep#{step}", "PP", at, 100 * MS, {"kind": "step", "step": step})
        counted(trace, at + 99 * MS, **{"io": {"read": 0, "written": 0}, **figures(step)})
    return trace.write(tmp_path / "t.pfw")


def test_page_faults(tmp_path):
    path = counting(tmp_path, lambda step: {"page_faults": {"minor": 5, "major": 200}})
    found, = rows(path)
    assert found["rule"] == "page_faults" and "2,400 major page faults" in found["finding"]
    assert found["cost"] is None and found["share"] is None
    assert "1. page_faults  (cost not measured)" in advise(path).stdout
    assert report(path)["findings"][0]["cost_ns"] is None
    assert rows(counting(tmp_path, lambda step: {"page_faults": {"minor": 9000, "major": 20}})) == []


def test_growing_memory(tmp_path):
    path = counting(tmp_path, lambda step: {"memory": {"rss": (100 + 20 * step) << 20}})
    found, = rows(path)
    assert found["rule"] == "memory_growth" and "by 100.0 MiB to 320.0 MiB" in found["finding"]
    for healthy in (lambda step: 500 << 20, lambda step: min(step, 5) << 28,
                    lambda step: (300 + 200 * (step % 2)) << 20):
        assert rows(counting(tmp_path, lambda step, rss=healthy: {"memory": {"rss": rss(step)}})) == []


def test_growing_memory_of_a_device(tmp_path):
    def allocating(leak):
        trace = Trace()
        for step in range(12):
            at = MS + step * 100 * MS
            trace.add(f"ProfilerStep#{step}", "PP", at, 100 * MS, {"kind": "step", "step": step})
            for number, size in enumerate((50 << 20, -(50 << 20) + leak)):
                trace.add("[memory]", "PP", at + (number + 1) * MS, 0, {
                    "kind": "memory", "device": 1, "device_index": 0, "bytes": size, "addr": 4096 * (step + 1)})
        return rows(trace.write(tmp_path / "t.pfw"))
    assert allocating(0) == []
    found, = allocating(10 << 20)
    assert found["rule"] == "memory_growth" and "10 of 10 steps, by 10.0 MiB a step" in found["finding"]


def test_mapped_input(tmp_path):
    def mapping(name):
        trace = Trace()
        trace.add("mmap", "POSIX", 5, 5, {"fname": name, "fd": 3, "ret": 4096, "length": 1 << 30, "prot": "PROT_READ",
                                          "flags": "MAP_SHARED", "offset": 0})
        return rows(trace.add("forward", "PP", 100, MS, {"kind": "cpu_op"}).write(tmp_path / "t.pfw"))
    found, = mapping("/data/weights.bin")
    assert found["rule"] == "mapped_input" and "1.0 GiB of files are mapped" in found["finding"]
    assert "/data/weights.bin" in found["finding"] and mapping("/lib/libtorch.so.2") == []


def test_slow_worker(tmp_path):
    """Of four workers one reads for the time that the steps wait."""
    def working(slow):
        directory = tmp_path / f"t{slow}"
        loop(directory, "loader", ranks=1)
        for worker in range(4):
            trace = Trace(500 + worker, 0, 1)
            trace.lines[0] = trace.lines[0].replace('"ppid":1,', '"ppid":100,')
            for step in range(12):
                trace.add("read", "POSIX", 2 * MS + step * 140 * MS, (50 if worker == slow else 5) * MS,
                          {"fname": "/data/x", "fd": 3, "ret": 1 << 20, "count": 1 << 20})
                trace.add("read", "POSIX", 60 * MS + step * 140 * MS, (70 if worker == 3 else 1) * MS,
                          {"fname": "pipe:[7]", "fd": 4, "ret": 8, "count": 8}) # the worker waits for work
            trace.write(directory / f"t-pid{500 + worker}.pfw")
        return rows(directory)[0]
    found = working(2)
    assert found["rule"] == "slow_worker" and "502 worker 2 of 100" in found["finding"]
    found = working(9)
    assert found["rule"] == "loader" and "4 processes were forked" in found["finding"]
    # One of them is known to be the loader's: what the others do makes no step wait.
    one = next(path for path in (tmp_path / "t2").glob("*.pfw") if "-pid50" not in path.name)
    begun = next(line for line in map(json.loads, one.read_text().splitlines()) if line["cat"] == "PP")
    with open(one, "a", encoding="utf-8") as file:
        print(json.dumps({"id": 10**6, "name": "DataLoader worker", "cat": "pfw", "pid": begun["pid"], "tid": begun["tid"],
                          "ts": begun["ts"], "ph": "i", "args": {"kind": "annotation", "pid": 500, "number": 0}},
                         separators=(",", ":")), file=file)
    found = rows(tmp_path / "t2")[0]
    assert found["rule"] == "loader" and "1 process was forked" in found["finding"]


# ---- problems planted in a program that runs ----

STANDIN = BUILD / "tests/standin13"
# As advice_target.c's, of 2 ms; none: work is launched ahead, so that the GPU has some while a loaded machine lets the
# host wait.
KERNEL_MS = {"launch_bound": 0.5, "copies": 0.9, "none": 18}

def train(directory, problem, scale, ranks=1):
    """The findings of a run of advice_target.c."""
    directory.mkdir()
    for name in ("data", "locked"):
        (directory / name).write_bytes(b"x" * (1 << 20))
    if problem == "page_cache":
        with (directory / "cold").open("wb") as file:
            file.write(os.urandom(32 << 20))
            os.fsync(file.fileno())
    traces = directory / "traces"
    traces.mkdir()
    command = [BUILD / "tests/advice_target", problem, directory, str(scale)]
    standin = {}
    if problem in KERNEL_MS and (STANDIN / "libcupti.so.13").exists():
        command.append(STANDIN / "libcudart.so.13")
        standin = {"LD_LIBRARY_PATH": str(STANDIN), "STANDIN": f"kernel_ns={round(KERNEL_MS[problem] * scale * 1e6)}"}
    for rank in range(ranks):
        environment = clean_environment(PFW_COUNTERS="20ms", PFW_SPOOL_DIR=str(directory), **standin)
        environment |= {"PFW_CALLS": "+sync"} if problem == "thread_lock_wait" else {}
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks > 1 else {}
        run([PFW, "run", "-q", "--all", "-o", traces / "t", "--", *command], environment)
    if standin:  # CUPTI's records, not the program's
        kernel = json.loads(run([PFW, "query", "-q", "--name", "gemm", "--limit", "1", traces]).stdout)
        assert kernel["tid"] == 10001007 and kernel["args"]["blocks_per_sm"] == 0.0076
    return rows("--all-runs", traces)


PLANTED = ["slow_rank", "small_calls", "loader", "page_cache", "launch_bound", "copies", "opened_again", "lock_wait",
           "thread_lock_wait", "checkpoint", "memory_growth"]


def planted(tmp_path, problem):
    """On a loaded machine steps differ by more than what is planted: then with longer ones."""
    for scale in (1, 4, 16) if problem == "page_cache" else (1, 4, 16, 64):
        found = train(tmp_path / str(scale), problem, scale, 4 if problem == "slow_rank" else 1)
        if [one["rule"] for one in found][:1] == ([problem] if problem != "none" else []):
            break
    return found


@pytest.mark.parametrize("problem", PLANTED)
def test_the_planted_problem_is_the_first_finding(tmp_path, problem):
    found = planted(tmp_path, problem)
    if problem == "page_cache" and not storage_reads(tmp_path / "16/traces"):
        pytest.skip("no storage is behind the page cache of this directory, or it is as fast as memory")
    assert [one["rule"] for one in found][:1] == [problem], found
    assert found[0]["cost"] is None if problem == "memory_growth" else found[0]["cost"] > 10_000


def storage_reads(traces):
    """Whether the system counted any where the finding was not made."""
    if not traces.exists():
        return True
    row = json.loads(run([PFW, "patterns", "-q", "--format=ndjson", traces]).stdout.splitlines()[0])
    return row["storage_read_bytes"] > row["calls_read_bytes"] / 2 and row["read_us"] > 1e6


def test_a_healthy_program(tmp_path):
    assert planted(tmp_path, "none") == []
