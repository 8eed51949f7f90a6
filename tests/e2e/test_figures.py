"""One event has one figure: every command finds the same lines, sums them alike, and says the same of
a trace in each of its forms (raw, indexed, compacted)."""
import json
import random

import pytest

from harness import PFW, run

START = 1795230878000000  # µs


class Trace:
    """A trace made by hand; times in µs after START."""

    def __init__(self, pid=9, rank=-1):
        self.pid, self.lines = pid, []
        self.add("process", "pfw", 0, None, {"format": 1, "version": "0", "run": "r", "host": "h",
                                             "rank": rank, "world_size": 2, "ppid": 1}, ph="M")

    def add(self, name, cat, ts, dur, args, ph="X", tid=None):
        times = f'"ts":{START + ts}.000,' + (f'"dur":{dur}.000,' if dur is not None else "")
        self.lines.append(f'{{"id":{len(self.lines) + 1},"name":{json.dumps(name)},"cat":"{cat}",'
                          f'"pid":{self.pid},"tid":{tid or self.pid},{times}"ph":"{ph}","args":'
                          f'{json.dumps(args, separators=(",", ":"))}}}\n')

    def write(self, path):
        self.add("end", "pfw", 10**6, None, {"events": len(self.lines) - 1, "lost": 0,
                                             "reason": "exit"}, ph="M")
        path.write_text("".join(self.lines))
        return path


def objects(*words):
    out = run([PFW, *words, "--format", "ndjson"]).stdout
    return [json.loads(line) for line in out.splitlines()]


def forms(directory, write):
    """The same traces in each form: (name, directory); write() makes them in a directory."""
    for form in ("raw", "indexed", "compacted"):
        top = directory / form
        top.mkdir()
        write(top)
        if form == "indexed":
            run([PFW, "index", "-q", top])
        if form == "compacted":
            run([PFW, "compact", "-q", top])
        yield form, top


# ---- conditions ----

def test_self_times_are_those_among_all_events(tmp_path):
    """I/O in I/O, as compute in compute: conditions say what is shown, not what lies in what."""
    def write(top):
        trace = Trace()
        trace.add("write", "POSIX", 12, 40, {"fname": "/d/b", "fd": 4, "ret": 5, "count": 5})
        trace.add("read", "POSIX", 10, 100, {"fname": "/d/a", "fd": 3, "ret": 5, "count": 5})
        trace.add("inner", "app", 220, 10, {})
        trace.add("outer", "app", 210, 100, {})
        trace.write(top / "t.pfw")
    for form, top in forms(tmp_path, write):
        for words, name in ((["--name", "read"], "read"), (["--fname", "/d/a"], "read"),
                            (["--min-dur", "50us", "--cat", "POSIX"], "read"),
                            (["--where", "dur > 50us", "--cat", "app"], "outer")):
            for group in ("name", "fname,name"):
                row, = objects("table", top, *words, "-g", group, "--columns",
                               "count,self,self_cpu_time_total")
                expected = {"read": 60, "outer": 90}[name]
                self_us = row.get("self", row.get("self_cpu_time_total"))
                assert (row["name"], self_us) == (name, expected), (form, words, group)
    # The footer is what the percentages are of.
    text = run([PFW, "table", tmp_path / "raw", "--cat", "POSIX"]).stdout
    assert "I/O time total: 100.000us in 2 calls" in text and "100.00%" in text


def test_a_rank_that_is_said_late_counts_everywhere(tmp_path):
    """pfw_set_rank(): the first line says -1, the name and a later line say it."""
    def write(top):
        for rank in (0, 1):
            trace = Trace(pid=10 + rank)
            trace.add("read", "POSIX", 5, 5 + rank, {"fname": "/d/a", "fd": 3, "ret": 7})
            trace.add("rank", "pfw", 20, None, {"rank": rank, "world_size": 2, "local_rank": rank}, ph="M")
            trace.write(top / f"t-rank{rank:04}.pfw")
    for _, top in forms(tmp_path, write):
        assert [row["total"] for row in objects("table", "-g", "rank", "-s", "name", top)] == [5, 6]
        assert [row["rank"] for row in objects("overlap", top)] == [0, 1, "all"]
        assert [row["rank"] for row in objects("patterns", top) if row["section"] == "rank"] == [0, 1]
        line, = objects("query", "--rank", "1", "--name", "read", top)
        assert line["pid"] == 11 and line.get("rank", 1) == 1
        assert run([PFW, "query", "--fields", "rank,pid", top]).stdout == "rank\tpid\n0\t10\n1\t11\n"
    result = run([PFW, "compact", "-q", "--split-by", "none", tmp_path / "raw"], status=2)
    assert "only the file's name has the rank" in result.stderr


def made_of_steps(top, chance):
    """Lines that say their step and lines that do not, of a process with steps and of its worker."""
    truth = []
    steps = [(number, 100 * number, 100 * number + chance.randrange(40, 100)) for number in range(4)]
    main, worker = Trace(pid=9), Trace(pid=10)

    def step_at(ts):
        return next((number for number, begin, end in steps if begin <= ts < end), None)
    for number, begin, end in steps:
        main.add(f"ProfilerStep#{number}", "PP", begin, end - begin, {"kind": "step"})
        truth.append(("step", number))
        # torch writes it a second time, on the device: that is no step, but it is in one.
        main.add(f"ProfilerStep#{number}", "PP", begin + 30, 50, {"kind": "step", "device": 1})
        truth.append(("step", step_at(begin + 30)))
    for i in range(60):
        trace, ts = chance.choice([main, worker]), chance.randrange(420)
        says = chance.choice([None, None, 7, "no number"])
        args = {} if says is None else {"step": says}
        kind = chance.choice(["read", "memory"])
        if kind == "read":
            trace.add("read", "POSIX", ts, 1, {"fname": f"/d/{i % 3}", "fd": 3, "ret": 1, **args})
        else:
            trace.add("[memory]", "PP", ts, None, {"kind": "memory", "bytes": 10, "addr": 100 + i,
                                                   "device": 0, **args}, ph="i")
        truth.append((kind, 7 if says == 7 else step_at(ts)))
    for trace in (main, worker):
        head, *lines = trace.lines
        trace.lines = [head, *chance.sample(lines, len(lines))]
    main.write(top / "t.pfw")
    worker.write(top / "t-pid10.pfw")
    return truth


@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_the_same_lines_everywhere(tmp_path, seed):
    """By args.step, else by the time of the process, else by that of its rank's only one with steps."""
    truth = None

    def write(top):
        nonlocal truth
        truth = made_of_steps(top, random.Random(seed))
    for form, top in forms(tmp_path, write):
        for step in (0, 1, 3, 7):
            expected = {kind: truth.count((kind, step)) for kind in ("step", "read", "memory")}
            words = ["--step", str(step), top]
            assert run([PFW, "query", "--count", *words]).stdout.strip() == \
                str(sum(expected.values())), (form, step)
            for group in ("name", "fname,step", "fname", "step", "pid"):
                found = [row for row in objects("table", "-g", group, *words) if row["section"] == "io"]
                assert sum(row["count"] for row in found) == expected["read"], (form, step, group)
            assert objects("patterns", *words)[0]["reads"] == expected["read"], (form, step)
            assert sum(row["allocations"] for row in objects("memory", *words)
                       if row["section"] == "device") == expected["memory"], (form, step)
            in_step = [row for row in objects("memory", top) if row["section"] == "step"]
            assert sum(row["growth_bytes"] for row in in_step if row["step"] == step) == \
                10 * expected["memory"], (form, step)
            grouped = [row for row in objects("table", "-g", "step", top) if row["section"] == "io"]
            assert sum(row["count"] for row in grouped if str(row["step"]) == str(step)) == \
                expected["read"], (form, step)


def test_steps_of_two_processes_of_a_rank_are_not_mixed(tmp_path):
    """Which of them a third one follows is not known: it is in none."""
    for pid in (9, 10):
        trace = Trace(pid=pid)
        trace.add("ProfilerStep#0", "PP", 0, 100, {"kind": "step"})
        trace.write(tmp_path / f"t-pid{pid}.pfw")
    trace = Trace(pid=11)
    trace.add("read", "POSIX", 10, 1, {"fname": "/d/a", "fd": 3, "ret": 1})
    trace.write(tmp_path / "t-pid11.pfw")
    assert run([PFW, "query", "--count", "--step", "0", tmp_path]).stdout == "2\n"


def test_patterns_lists_what_has_a_counted_call(tmp_path):
    """Ranks, processes and files without one are in no row."""
    def write(top):
        for rank, name, cat in ((0, "read", "POSIX"), (1, "fread", "STDIO")):
            trace = Trace(pid=9 + rank, rank=rank)
            trace.add(name, cat, 10, 1, {"fname": "/d/a", "fd": 3, "ret": 3, "size": 1, "count": 3})
            trace.write(top / f"t-rank{rank:04}.pfw")
    for form, top in forms(tmp_path, write):
        for words, ranks, rank in (([], 2, None), (["--cat", "POSIX"], 1, 0), (["--cat", "NONE"], 0, None)):
            found = objects("patterns", top, *words)
            assert (found[0]["section"], found[0]["ranks"]) == ("all", ranks), (form, words)
            assert sum(row["section"] == "rank" for row in found) == ranks, (form, words)
            files = [row for row in found if row["section"] == "file"]
            assert [(row["ranks"], row["processes"], row["rank"]) for row in files] == \
                [(ranks, ranks, rank)] * bool(ranks), (form, words)


# ---- calls on two files ----

@pytest.mark.parametrize("call", ["sendfile", "copy_file_range", "splice", "tee"])
def test_a_copy_counts_for_both_of_its_files(tmp_path, call):
    """What it reads has its time; --fname shows the one that it names; a pipe may have no name."""
    def write(top):
        trace = Trace()
        trace.add(call, "POSIX", 10, 40, {"fname": "/d/a", "fd": 4, "ret": 5000, "fd_out": 6,
                                          "count": 5000, "target": "/d/b"})
        trace.add(call, "POSIX", 60, 5, {"fd": 4, "ret": 70, "fd_out": 6, "count": 70,
                                         "target": "/d/b"})
        trace.write(top / "t.pfw")
    of_file = {"/d/a": (1, 5000, 40), "/d/b": (2, 5070, 0)}
    sides = {"/d/a": (1, 5000, 0, 0), "/d/b": (0, 0, 2, 5070)}
    for form, top in forms(tmp_path, write):
        for names in (["/d/a", "/d/b"], ["/d/a"], ["/d/b"]):
            words = [top] + ["--fname", names[0]] * (len(names) == 1)
            for group in ("fname", "fname,name"):
                found = {row["fname"]: (row["count"], row["bytes"], row["total"])
                         for row in objects("table", "-g", group, "--columns", "count,bytes,total",
                                            "-s", "bytes", *words) if row["fname"]}
                assert found == {name: of_file[name] for name in names}, (form, names, group)
            found = {row["fname"]: (row["reads"], row["read_bytes"], row["writes"], row["written_bytes"])
                     for row in objects("patterns", *words) if row["section"] == "file"}
            assert found == {name: sides[name] for name in names}, (form, names)
        assert run([PFW, "query", "--count", "--fname", "/d/b", top]).stdout == "2\n"


# ---- sums ----

def test_bytes_are_added_up_alike(tmp_path):
    """Copies of no bytes, failed calls, large products: raw and indexed, by name and by file."""
    def write(top):
        trace = Trace()
        for i, size in enumerate((0, 1000)):
            trace.add("Memcpy HtoD", "PP", 10 + 10 * i, 1, {"kind": "memcpy", "bytes": size}, tid=10001007)
        trace.add("Memset", "PP", 40, 1, {"kind": "memset", "bytes": 0}, tid=10001007)
        trace.add("aten::mm", "PP", 50, 1, {"kind": "cpu_op"})
        trace.add("fputs", "STDIO", 60, 1, {"fname": "/d/a", "fd": 3, "ret": -1, "errno": "EIO", "count": 100})
        trace.add("write", "POSIX", 70, 1, {"fname": "/d/a", "fd": 3, "ret": -1, "errno": "EIO", "count": 100})
        trace.add("fread", "STDIO", 80, 1, {"fname": "/d/b", "fd": 4, "ret": 2**40, "size": 2**20, "count": 1})
        trace.write(top / "t.pfw")
    expected = {"Memcpy HtoD": (1000, 500), "Memset": (0, 0), "aten::mm": (None, None), "fputs": (0, 0),
                "write": (0, 0), "fread": (2**60, 2**60)}
    for form, top in forms(tmp_path, write):
        found = {row["name"]: (row["bytes"], row["mean_size"]) for row in objects("table", "--plain", top)}
        assert found == expected, form
        found = {row["fname"]: row["bytes"] for row in objects("table", "-g", "fname", top)}
        assert found == {"/d/a": 0, "/d/b": 2**60}, form
        found = {row["fname"]: row["read_bytes"] + row["written_bytes"] for row in objects("patterns", top)
                 if row["section"] == "file"}
        assert found == {"/d/a": 0, "/d/b": 2**60}, form
        assert next(row for row in objects("overlap", top) if row["type"] == "rank")["io_bytes"] == \
            2**60, form


def test_sums_are_exact_and_do_not_wrap(tmp_path):
    """Beyond 2^53 they are whole numbers of a program, at 2^63 they end; names with escapes are one name."""
    names = ["read", "re\\u0061d", "r\\u0065ad"]

    def write(top, bytes_):
        trace = Trace()
        for at in range(9):
            trace.add("read", "POSIX", 10 * at, 9, {"fname": "/d/a", "fd": 3, "ret": bytes_, "count": bytes_})
            trace.lines[-1] = trace.lines[-1].replace('"read"', f'"{names[at % 3]}"')
        trace.write(top / "t.pfw")
    for number, (bytes_, wanted) in enumerate([(2**53 + 1, 9 * (2**53 + 1)), (2**62 + 1, 2**63 - 1)]):
        (tmp_path / str(number)).mkdir()
        for form, top in forms(tmp_path / str(number), lambda top, bytes_=bytes_: write(top, bytes_)):
            for words in ([], ["--plain"], ["-g", "fname"], ["--columns", "files"]):
                row, = objects("table", *words, top)
                assert (row["count"], row["bytes"], row["total"]) == (9, wanted, 81), (form, words)
            assert {row["read_bytes"] for row in objects("patterns", top)} == {wanted}, form
            assert {row["reads"] for row in objects("patterns", top)} == {9}, form
            assert next(row for row in objects("overlap", top) if row["type"] == "rank")["io_bytes"] == wanted, form


def test_a_span_beyond_the_end_of_time_is_cut(tmp_path):
    """Its duration is what is left up to 2^63 - 2 ns, not less than none and not no span."""
    longest = 2**63 - 1

    def write(top):
        trace = Trace()
        trace.add("long", "app", 0, 1, {})
        trace.lines[-1] = trace.lines[-1].replace('"dur":1.000', f'"dur":{longest // 1000}.{longest % 1000:03}')
        trace.add("long", "app", 0, 1, {}, tid=10)
        trace.lines[-1] = trace.lines[-1].replace('"dur":1.000', f'"dur": {longest // 1000}.{longest % 1000:03}')
        trace.write(top / "t.pfw")
    left = (2**63 - 2 - START * 1000) / 1000
    for form, top in forms(tmp_path, write):
        for words, key in (([], "cpu_time_total"), (["--plain"], "total")):
            rows = objects("table", "-g", "name,tid", *words, top)
            assert [abs(row[key] - left) < 2 for row in rows] == [True, True], (form, words, rows)


# ---- what was not recorded ----

def test_what_was_not_recorded_is_no_0(tmp_path):
    """Null, and in text - with what would record it; a rank that has it has 0."""
    def write(top):
        trace = Trace(rank=0)
        trace.add("read", "POSIX", 0, 10, {"fname": "/d/a", "fd": 3, "ret": 1})
        trace.add("train", "app", 0, 50, {})
        trace.write(top / "t-rank0000.pfw")
        trace = Trace(pid=10, rank=1)
        trace.add("aten::mm", "PP", 0, 10, {"kind": "cpu_op"})
        trace.write(top / "t-rank0001.pfw")
    for form, top in forms(tmp_path, write):
        found = {row["rank"]: row for row in objects("overlap", top) if row["type"] == "rank"}
        keys = ("io", "cpu", "load", "compute", "io_unoverlapped", "io_compute", "copy", "kernels", "cpu_load")
        assert [found[0][key] for key in keys] == [10, None, None, None, 10, None, None, None, None], form
        assert [found[1][key] for key in keys] == [None, 10, 0, 10, None, None, None, None, 0], form
        assert [found["all"][key] for key in keys] == [10, 10, 0, 10, 10, None, None, None, 0], form
        sums = ("io_calls", "io_bytes", "kernel_count", "copy_count", "copy_bytes")
        assert [found[0][key] for key in sums] == [1, 1, None, None, None], form
        assert [found[1][key] for key in sums] == [None] * 5, form
        bins = {row["rank"]: row for row in objects("overlap", "--bins", "1", top) if row["type"] == "bin"}
        keys = ("io_bytes", "io_bandwidth", "io_calls", "iops", "io")
        assert [bins[1][key] for key in keys] == [None] * 5 and None not in [bins[0][key] for key in keys], form
        text = run([PFW, "overlap", "--rank", "0", top]).stdout
        assert "PFW_TORCH_OPS=1" in text and "PFW_CUPTI" in text and "DISABLE_IO" not in text, form
        text = run([PFW, "overlap", "--rank", "1", top]).stdout
        assert "PFW_TORCH_OPS=1" not in text and "DFTRACER_DISABLE_IO" in text, form
        text = run([PFW, "patterns", "--rank", "1", top], status=None)
        assert "no call on a file" in text.stderr and "DFTRACER_DISABLE_IO" in text.stderr, form


def test_columns_of_a_table_that_were_not_recorded(tmp_path):
    """The same for columns that are asked for; a kernel that is not shown is recorded all the same."""
    columns = "device_time_total,cpu_memory_usage,flops,self_flops,count"
    gpu = [("k", 5, {"kind": "kernel", "device": 1}), ("aten::add", 7, {"cpu_memory": 64, "flops": 2})]

    def write(top, more=()):
        trace = Trace()
        trace.add("aten::mm", "PP", 0, 10, {"kind": "cpu_op"})
        for name, dur, args in more:
            trace.add(name, "PP", 20, dur, {"kind": "cpu_op", **args}, tid=11)
        trace.write(top / "t.pfw")
    for form, top in forms(tmp_path, write):
        row, = objects("table", "--columns", columns, top)
        assert [row[key] for key in columns.split(",")] == [None, None, None, None, 1], form
        text = run([PFW, "table", "--columns", columns, top]).stdout
        assert text.splitlines()[5].split() == ["aten::mm", "-", "-", "-", "-", "1"], form
        assert "\n- CUDA total: no kernel was recorded (PFW_CUPTI" in text, form
        assert "\n- CPU Mem: no operator reports its memory (profile_memory=True" in text, form
        assert "\n- Total FLOPs, Self FLOPS: no operator reports its FLOPs (with_flops=True" in text, form
        assert "was recorded" not in run([PFW, "table", top]).stdout, form
    write(tmp_path, gpu)
    row, = objects("table", "--columns", columns, "--name", "aten::mm", tmp_path / "t.pfw")
    assert [row[key] for key in columns.split(",")] == [0, 0, 0, 0, 1]
    assert "\n- " not in run([PFW, "table", "--columns", columns, tmp_path / "t.pfw"]).stdout


def test_totals_that_no_allocator_reported(tmp_path):
    def write(top, **totals):
        trace = Trace()
        trace.add("[memory]", "PP", 0, None, {"kind": "memory", "device": 0, "addr": 1, "bytes": 64, **totals}, ph="i")
        trace.write(top / "t.pfw")
    for form, top in forms(tmp_path, write):
        text = run([PFW, "memory", top]).stdout
        assert "\n- Peak as told, Reserved: no allocation reports" in text and "profile_memory=True" in text, form
        assert text.splitlines()[1].split()[9:14] == ["64", "B", "-", "-", "64"], form
    write(tmp_path, total_allocated=0, total_reserved=0)
    assert "no allocation reports" not in run([PFW, "memory", tmp_path / "t.pfw"]).stdout


def test_a_side_that_did_not_record(tmp_path):
    """Calls that the other run could not see are not 0 calls; those that a condition leaves out may be."""
    def write(top):
        for name, more in (("a", [("read", "POSIX", {"fname": "/d/a", "ret": 1}), ("k", "PP", {"kind": "kernel"})]),
                           ("b", [("step", "app", {})])):
            trace = Trace()
            trace.add("train", "app", 0, 50, {})
            for event, cat, args in more:
                trace.add(event, cat, 10, 10, args, tid=11)
            trace.write(top / f"{name}.pfw")
    keys = ("count_a", "count_b", "total_a", "total_b", "difference")
    for form, top in forms(tmp_path, write):
        sides = [path for name in "ab" for path in top.glob(f"{name}*.pfw*") if path.suffix != ".idx"]
        assert len(sides) == 2, form
        found = {row.get("name"): row for row in objects("compare", *sides)}
        assert [found["read"][key] for key in keys] == [1, None, 10, None, None], form
        assert [found["k"][key] for key in keys] == [1, None, 10, None, None], form
        assert [found["step"][key] for key in keys] == [0, 1, 0, 10, 10], form
        text = run([PFW, "compare", *sides]).stdout
        assert "\n- I/O of B: no call was recorded (DFTRACER_DISABLE_IO=0" in text, form
        assert "\n- GPU of B: no kernel was recorded (PFW_CUPTI" in text and "of A:" not in text, form
        found = {row.get("name"): row for row in objects("compare", "--name", "read", *sides)}
        assert [found["read"][key] for key in keys] == [1, 0, 10, 0, -10], form
