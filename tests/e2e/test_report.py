"""`pfw report`: every figure of the page is one of the commands, and the page stands for itself."""
import json
import os
import random
import re

import pytest

from browser import browser, complaints
from harness import PFW, clean_environment, run
from test_export import Trace

SHEETS = {"overlap": ["overlap", "--steps", "--bins=120"],
          "names": ["table", "--row-limit=500", "--columns=count,self_cpu_time_total,self_cpu_percent,cpu_time_total,total_percent,"
                    "cpu_time,min,p50,p95,p99,max,self_device_time_total,total_device_percent,device_time_total,device_time,flops,"
                    "tensor_cores,bytes,mean_size,bandwidth"],
          "shapes": ["table", "--group-by=shape", "--columns=count,self_device_time_total,device_time_total,self_cpu_time_total,"
                     "cpu_time_total", "--row-limit=500"],
          "launches": ["table", "--group-by=name,operator,args.grid,args.block,args.registers,args.static_smem,args.dynamic_smem,args.occupancy,"
                       "args.blocks_per_sm", "--columns=tensor_cores,count,device_time_total,device_time,max,min",
                       "--where=args.kind == 'kernel'", "--row-limit=500"],
          "kinds": ["table", "--group-by=step,args.kind", "--columns=count,self_cpu_time_total,self_device_time_total",
                    "--row-limit=-1"],
          "flops": ["table", "--group-by=step", "--columns=self_flops,flops_per_second,peak_percent", "--row-limit=500"],
          "files": ["table", "--group-by=fname", "--row-limit=500"], "patterns": ["patterns", "--row-limit=500"],
          "memory": ["memory", "--bins=120", "--blocks=500"]}
EVIL = "</script><script>document.title='evil'</script><b>&"


def training(directory, ranks=1, steps=4, end=True):
    """Ranks that read, compute on a GPU, and step; the last one is slow."""
    directory.mkdir(exist_ok=True)
    for rank in range(ranks):
        chance, trace, at = random.Random(rank), Trace(100 + rank, rank if ranks > 1 else None, ranks), 1000
        for step in range(steps):
            begin = at
            for number in range(3):
                long = chance.randrange(10_000, 20_000) * (1 + (rank == ranks - 1))
                trace.add("pread", "POSIX", at, long, {"fname": f"/data/{number}{EVIL}", "fd": 3, "ret": 4096,
                                                       "count": 4096, "offset": 4096 * step})
                trace.add("aten::mm", "PP", at + long, 9000, {"kind": "cpu_op", "device": 0, "device_index": -1,
                                                                   "external_id": step * 3 + number + 1})
                trace.gpu("gemm", at + long + 3000, 8000, correlation=step * 3 + number + 1, external_id=step * 3 + number + 1)
                at += long + 10_000
            trace.add(f"ProfilerStep#{step}", "PP", begin, at - begin, {"kind": "step", "step": step})
            at += 100
        trace.add(EVIL, "app", at, 50)
        if end:
            trace.add("end", "pfw", at + 100, None, {"events": len(trace.lines) - 1, "lost": 3, "reason": "exit"}, ph="M")
        trace.write(directory / (f"t-rank{rank:04}.pfw" if ranks > 1 else "t.pfw"))
    return directory


def rows(words, *path):
    found = [json.loads(line) for line in run([PFW, *words, "--quiet", "--format=ndjson", *path]).stdout.splitlines()]
    for row in found:
        if row.get("rank") == "all":  # a type of its own for programs in this process
            row["type"] = "all"
    return found


def report(*words, **options):
    return json.loads(run([PFW, "report", "--format=json", *words], **options).stdout)


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">\n(.*?)</script>', page, re.S)[1]
    data = json.loads(text)
    for sheet in data["sheets"].values():
        packed, sheet["rows"], keys = sheet["rows"], [], None
        for row in packed:
            if isinstance(row, dict):
                keys = row["keys"]
            else:
                sheet["rows"].append(dict(zip(keys, row, strict=True)))
    return data


# ---- what is in it ----

@pytest.mark.parametrize("words", [[], ["--since=50%"], ["--rank=1"], ["--no-index", "-j1", "-q"], ["--pid", "100"]])
def test_rows_are_those_of_the_commands(tmp_path, words):
    path = training(tmp_path / "t", ranks=3)
    found = report(path, *words)
    assert list(found["sheets"]) == list(SHEETS)
    for name, command in SHEETS.items():
        sheet = found["sheets"][name]
        assert sheet["rows"] == rows(command, *words, path) and sheet["left_out"] == 0, name
        assert set().union(*sheet["rows"]) - set(sheet["kinds"]) <= {"type", "section"}
    assert {"rank", "all", "step", "bin"} == {row["type"] for row in found["sheets"]["overlap"]["rows"]}


def test_a_long_run_has_a_choice_of_its_steps(tmp_path):
    """Whole steps, one in so many, and the slowest; what is added up is of all."""
    path = tmp_path / "t"
    path.mkdir()
    for rank in range(2):
        trace = Trace(100 + rank, rank, 2)
        for step in range(3000):
            trace.add("aten::mm", "PP", step * 100, 40, {"kind": "cpu_op", "device": 0, "device_index": -1})
            trace.add(f"ProfilerStep#{step}", "PP", step * 100, 99 if step == 1001 else 50 + rank, {"kind": "step", "step": step})
        trace.write(path / f"t-rank{rank:04}.pfw")
    found = report(path)
    sheet, steps = found["sheets"]["overlap"], found["steps"]
    shown = [row for row in sheet["rows"] if row["type"] == "step"]
    whole = rows(["overlap", "--steps"], path)
    assert steps["rows"] == 6000 and steps["wall_us"] == pytest.approx((2999 * (50 + 51) + 2 * 99) / 1000)
    assert sheet["left_out"] == 6000 - len(shown) and 1500 <= len(shown) <= 2000
    assert all(row in whole for row in shown) and 1001 in {row["step"] for row in shown}
    assert all(sum(row["step"] == step for row in shown) == 2 for step in range(0, 3000, steps["every"]))
    assert any(row["type"] == "bin" for row in sheet["rows"])
    assert {row["step"] for row in found["sheets"]["kinds"]["rows"]} == {row["step"] for row in shown}
    run([PFW, "report", "-q", path, "-o", tmp_path / "r.html"])
    assert data_of((tmp_path / "r.html").read_text()) == found


def test_flops_of_steps_against_the_peak(tmp_path):
    """What pfw table says of them; without FLOPs they are not measured, and not 0."""
    trace = Trace()
    for step in range(3):
        trace.add(f"ProfilerStep#{step}", "PP", 1_000_000 * step, 900_000, {"kind": "step", "step": step})
        trace.add("aten::mm", "PP", 1_000_000 * step + 10, 500_000,
                  {"kind": "cpu_op", "device": 0, "device_index": -1, "flops": 900_000_000 * (step + 1)})
    found = report(trace.write(tmp_path / "t.pfw"), "--peak-tflops=10")["sheets"]["flops"]["rows"]
    assert found == rows([*SHEETS["flops"], "--peak-tflops=10"], tmp_path / "t.pfw")
    assert [(row["flops_per_second"], row["peak_percent"]) for row in found] == [
        (pytest.approx(1e12 * n), pytest.approx(10 * n)) for n in (1, 2, 3)]
    assert {row["peak_percent"] for row in report(tmp_path / "t.pfw")["sheets"]["flops"]["rows"]} == {None}
    none = report(training(tmp_path / "n"), "--peak-tflops", "10")["sheets"]["flops"]["rows"]
    assert none and all(row.get("flops_per_second") is None for row in none)
    assert "--peak-tflops x" in run([PFW, "report", "--peak-tflops", "x", tmp_path / "t.pfw"], status=2).stderr


@pytest.mark.parametrize("words", [[], ["--rank=0"], ["--since=step:1", "--no-index"]])
def test_against_another_run(tmp_path, words):
    old, new = training(tmp_path / "old", ranks=2), training(tmp_path / "new", ranks=2, steps=6)
    found = report("--against", old, *words, new)
    assert list(found["sheets"]) == [*SHEETS, "compare", "before"] and found["run"]["against"] == str(old)
    for name, command in SHEETS.items():
        assert found["sheets"][name]["rows"] == rows(command, *words, new), name
    assert found["sheets"]["compare"]["rows"] == rows(["compare", "--row-limit=500", *words], old, new) != []
    assert found["sheets"]["before"]["rows"] == rows(["overlap", "--steps", *words], old)
    text = run([PFW, "report", "--format=md", "--against", old, *words, new]).stdout
    for command in (["overlap", *words, old], ["overlap", *words, new], ["compare", "--row-limit=15", *words, old, new]):
        assert run([PFW, *command, "--format=md", "-q"]).stdout in text, command
    assert "name the other run" in run([PFW, "report", "--against", old], status=2).stderr
    none = run([PFW, "report", "--format=md", "--against", "no-such", new], status=2)
    assert none.stdout == "" and none.stderr.startswith("pfw report: --against no-such: there is no such file")


def test_what_ran(tmp_path):
    training(tmp_path / "t", ranks=3)
    for prepare in ([], ["compact", "-q"]):
        if prepare:
            run([PFW, *prepare, tmp_path / "t"])
        ran = report(tmp_path / "t")["run"]
        assert (ran["files"], ran["ranks"], ran["processes"], ran["hosts"]) == (3, 3, 3, ["here"])
        assert (ran["ended"], ran["unfinished"], ran["lost"]) == (3, 0, 9)
    killed = report(training(tmp_path / "k", end=False))["run"]
    assert (killed["ended"], killed["unfinished"], killed["ranks"]) == (0, 1, 0)


def test_notes_say_what_is_missing(tmp_path):
    path = Trace().add("read", "POSIX", 0, 5, {"fname": "/a", "ret": 1}).write(tmp_path / "t.pfw")
    notes = report(path)["notes"]
    assert any("have no steps" in note for note in notes) and any("no allocations" in note for note in notes)
    assert len(notes) == len(set(notes))


def test_many_ranks_have_the_steps_of_the_slowest(tmp_path):
    """Of more than 16 ranks ten, as in `pfw overlap`; the ranks themselves are all there."""
    path = training(tmp_path / "t", ranks=20, steps=3)
    found, wanted = report(path)["sheets"]["overlap"]["rows"], rows(SHEETS["overlap"], path)
    slow = {row["rank"] for row in found if row["type"] == "step"}
    own = {row["rank"]: row["steps_own"] for row in wanted if row["type"] == "rank"}
    assert len(slow) == 10 and 19 in slow
    assert min(own[rank] for rank in slow) >= max(own[rank] for rank in own if rank not in slow)
    assert found == [row for row in wanted if row["type"] not in ("step", "bin") or row["rank"] in slow]


# ---- findings: one problem planted in a loop that has none ----

MS = 1_000_000
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loop(directory, problem=None, steps=12, ranks=4):
    """Steps of 100 ms: an operator runs all the time, the GPU nine tenths of it, and a worker reads meanwhile."""
    directory.mkdir(exist_ok=True)
    for rank in range(ranks):
        trace, at = Trace(100 + rank, rank, ranks), MS
        for step in range(steps):
            begin = at
            for name, cat, long, args in planted(problem, rank, step):
                trace.add(name, cat, at, long, args)
                at += long
            long = 100 * MS
            if problem == "slow_rank" and rank == 2:
                long = 150 * MS
            if problem == "slow_steps" and step in (4, 9):
                long = 400 * MS
            trace.add("forward", "PP", at, long, {"kind": "cpu_op", "device": 0, "device_index": -1})
            kernels, copies = {"launch_bound": (0.3, 0), "copies": (0.6, 0.3)}.get(problem, (0.95, 0))
            for part in range(10):
                call = at + part * long // 10
                number = step * 10 + part + 1
                trace.add("cudaLaunchKernel", "PP", call, 100_000,
                          {"kind": "runtime", "device": 0, "device_index": -1, "correlation": number, "cbid": 211})
                trace.gpu("gemm", call + 100_000, int(kernels * long / 10), correlation=number)
                if copies:
                    trace.gpu("Memcpy HtoD", call + 100_000 + int(kernels * long / 10), int(copies * long / 10), kind="memcpy",
                              correlation=10_000 + number, bytes=4096, copy_kind="HtoD")
            trace.add("pread", "POSIX", at, 50 * MS, {"fname": "/data/all", "fd": 3, "ret": 1 << 20, "count": 1 << 20,
                                                      "offset": step << 20}, tid=7)
            at += long
            trace.add(f"ProfilerStep#{step}", "PP", begin, at - begin, {"kind": "step", "step": step})
        trace.add("end", "pfw", at, None, {"events": len(trace.lines) - 1, "lost": 0, "reason": "exit"}, ph="M")
        trace.write(directory / f"t-rank{rank:04}.pfw")
    return directory


def planted(problem, rank, step):
    """What a rank does before the operator of a step begins."""
    chance = random.Random(rank * 100 + step)
    read = {"fname": "/data/slow", "fd": 4, "ret": 65536, "count": 65536}
    if problem == "io_alone":
        return [("pread", "POSIX", 30 * MS, {**read, "offset": step * 65536})]
    if problem == "checkpoint" and step % 3 == 2:
        return [("write", "POSIX", 80 * MS, {"fname": "/ckpt/model.pt", "fd": 9, "ret": 8 << 20, "count": 8 << 20})]
    if problem == "loader":
        return [(LOADER, "PP", 40 * MS, {"kind": "annotation", "device": 0, "device_index": -1})]
    if problem == "small_calls":
        return [("read", "POSIX", MS // 4, {**read, "ret": 100, "count": 100})] * 200
    if problem == "random_reads":
        return [("pread", "POSIX", MS, {**read, "offset": chance.randrange(1 << 30)}) for _ in range(50)]
    if problem == "opened_again":
        return [("open", "POSIX", MS, {"fname": "/data/index", "ret": 5}),
                ("close", "POSIX", MS // 10, {"fname": "/data/index", "fd": 5, "ret": 0})] * 40
    if problem == "metadata":
        return [("stat", "POSIX", MS // 3, {"fname": f"/data/{number}", "ret": 0}) for number in range(200)]
    return []


def test_nothing_is_found_in_a_healthy_run(tmp_path):
    assert report(loop(tmp_path / "t"))["findings"] == []


@pytest.mark.parametrize("problem", ["io_alone", "checkpoint", "loader", "slow_rank", "slow_steps", "launch_bound",
                                     "copies", "small_calls", "random_reads", "opened_again", "metadata"])
def test_the_planted_problem_is_the_first_finding(tmp_path, problem):
    """Its cost is what was planted, and its query a command that runs."""
    path = loop(tmp_path / "t", problem)
    found = report(path)
    assert [one["rule"] for one in found["findings"]][:1] == [problem]
    first = found["findings"][0]
    costs = [one["cost_ns"] for one in found["findings"]]
    assert costs == sorted(costs, reverse=True)
    wall = sum(row["wall"] for row in found["sheets"]["overlap"]["rows"] if row["type"] == "step")
    assert 0.1 <= first["cost_ns"] / 1000 / wall <= 0.6
    alone = {"io_alone": 12 * 4 * 30, "checkpoint": 4 * 4 * 80, "loader": 12 * 4 * 40, "slow_rank": 12 * 4 * 50,
             "slow_steps": 2 * 4 * 300, "small_calls": 12 * 4 * 50, "random_reads": 12 * 4 * 50,
             "opened_again": 12 * 4 * 44, "metadata": 12 * 4 * 200 // 3}
    if problem in alone:
        assert first["cost_ns"] == pytest.approx(alone[problem] * MS, rel=0.02)
    assert re.search(r": [\d.]+(ms|s|m .*), [\d.]+ % of the time of all steps$", first["text"])
    run([PFW, *first["query"].split()[1:], "-q", path])


# ---- the page ----

def test_page_needs_nothing_else(tmp_path):
    path = training(tmp_path / "t")
    run([PFW, "report", "-q", path, "-o", tmp_path / "r.html"])
    page = (tmp_path / "r.html").read_text()
    assert data_of(page) == report(path)
    assert page.count("<script") == 3 and page.count("</script>") == 3 and "default-src 'none'" in page
    assert not re.search(r'(src|href)=|@import|url\(', page)


def test_the_flame_graph_is_the_exports(tmp_path):
    """With the conditions of the report; of a large run it is left out, and json has none."""
    path = training(tmp_path / "t", ranks=2)
    for words in ([], ["--rank=1", "--no-index"]):
        done = run([PFW, "report", "-q", "-o", "-", *words, path]).stdout
        picture = run([PFW, "export", "-q", "--format=svg", "--merge", *words[:1], path]).stdout
        assert f'<div id="flame" hidden>{picture}</div>' in done
    many = tmp_path / "many"
    many.mkdir()
    for rank in range(65):
        Trace(100 + rank, rank, 65).add("f", "app", 0, 5, {}).write(many / f"t-rank{rank:04}.pfw")
    assert '<div id="flame" hidden></div>' in run([PFW, "report", "-q", "-o", "-", many]).stdout


def test_markdown_has_the_findings_and_the_commands_tables(tmp_path):
    path = loop(tmp_path / "t", "loader")
    text = run([PFW, "report", "--format", "md", path]).stdout
    assert text.startswith("# made\n") and "1. **The steps wait for the DataLoader, of which no process was forked: 1.92s" in text
    for words in (["overlap"], ["table", "--row-limit=15"], ["table", "-g", "fname", "--row-limit=10"],
                  ["patterns", "--row-limit=10"]):
        assert run([PFW, *words, "--format", "md", "-q", path]).stdout in text, words
    for _ in range(2):
        run([PFW, "report", "--format", "md", "-q", "--force", path, "-o", tmp_path / "r.md"])
        assert (tmp_path / "r.md").read_text() == text
    run([PFW, "report", "--format", "md", path, "-o", "/dev/full"], status=2)
    assert "No rule found" in run([PFW, "report", "--format", "md", loop(tmp_path / "h")]).stdout


def test_its_own_page_is_replaced_and_nothing_else(tmp_path):
    training(tmp_path / "t")
    for _ in range(2):
        done = run([PFW, "report", "t"], cwd=tmp_path)
        assert done.stderr.splitlines()[-1] == "pfw report: report.html" and done.stdout == ""
        assert data_of((tmp_path / "report.html").read_text())
    (tmp_path / "report.html").write_text("mine")
    assert "exists already" in run([PFW, "report", "t"], cwd=tmp_path, status=2).stderr
    assert (tmp_path / "report.html").read_text() == "mine"
    run([PFW, "report", "-q", "--force", "-o", "report.html", "t"], cwd=tmp_path)
    # Refused before all the work, and so before the traces are looked for.
    for command in ("report", "export", "query"):
        said = run([PFW, command, "-o", "report.html", "none"], cwd=tmp_path, status=2).stderr
        assert "exists already" in said, command
    (tmp_path / "j.json").write_text("{")
    said = run([PFW, "import", "j.json", "-o", "report.html"], cwd=tmp_path, status=2).stderr
    assert "exists already" in said and "j.json" not in said
    trace = (tmp_path / "t/t.pfw").read_text()
    run([PFW, "report", "--force", "-o", "t/t.pfw", "t"], cwd=tmp_path, status=2)
    assert (tmp_path / "t/t.pfw").read_text() == trace


def test_permissions_are_those_of_the_trace(tmp_path):
    path = training(tmp_path / "t")
    (path / "t.pfw").chmod(0o600)
    run([PFW, "report", "-q", path, "-o", tmp_path / "r.html"])
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600


def test_wrong_words(tmp_path):
    training(tmp_path / "t")
    assert "none of html, md, json" in run([PFW, "report", "--format", "pdf", "t"], cwd=tmp_path, status=2).stderr
    assert "no-such" in run([PFW, "report", "no-such"], cwd=tmp_path, status=2).stderr
    assert "--since" in run([PFW, "report", "--since", "soon", "t"], cwd=tmp_path, status=2).stderr
    assert os.listdir(tmp_path) == ["t"]


def test_damage_is_told_and_the_page_is_made(tmp_path):
    path = training(tmp_path / "t", end=False)
    with (path / "t.pfw").open("a") as file:
        file.write("no line\n{\n")
    done = run([PFW, "report", path, "-o", tmp_path / "r.html"], status=1)
    assert "t.pfw:" in done.stderr
    assert any("t.pfw:" in note for note in data_of((tmp_path / "r.html").read_text())["notes"])


def test_leaves_an_index_of_a_large_trace(tmp_path):
    path = training(tmp_path / "t")
    run([PFW, "report", "-q", path, "-o", tmp_path / "r.html"], environment={**clean_environment(), "PFW_INDEX_EVENTS": "10"})
    assert [name for name in os.listdir(path) if name != "t.pfw"]
    assert report(path) == report(path, "--no-index")


def test_a_browser_draws_the_page(tmp_path):
    """All figures of a small table, and no element that the trace's names have made."""
    path = training(tmp_path / "t", ranks=2)
    run([PFW, "report", "-q", path, "-o", tmp_path / "r.html"])
    with browser() as driver:
        driver.get((tmp_path / "r.html").as_uri())
        page = driver.page_source
        assert complaints(driver) == []
    assert 'data-ready="yes"' in page and "<title>pfw report</title>" in page
    steps = [row for row in report(path)["sheets"]["overlap"]["rows"] if row["type"] == "step"]
    assert re.search(r'aria-labelledby="flame-graph".*<g data-x="0.0000000000" data-w="1.0000000000"', page, re.S)
    shown = re.search(r'aria-labelledby="steps".*?<tbody>(.*?)</tbody>', page, re.S)[1]
    assert shown.count("<tr>") == len(steps)
    for row in steps:
        assert f"<td>{row['wall']:.3f} µs</td>" in shown
