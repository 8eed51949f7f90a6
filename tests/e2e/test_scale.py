"""tests/scale/run in small, so that it does not rot; and what many files change in what people see."""
import json
import os
import shutil
import subprocess
import time

from harness import BUILD, PFW, SOURCE, run
from test_kill import Target

SCALE = SOURCE / "tests" / "scale" / "run"
MAKE = BUILD / "bench" / "make_traces"


def make(where, ranks, *more):
    subprocess.run([MAKE, where, f"ranks={ranks}", f"events={ranks * 100}", "formats=gz", *more], check=True)
    return where / "gz"


def test_the_measurement_runs(tmp_path):
    done = subprocess.run([SCALE, "--build", BUILD, "--work", tmp_path, "--ranks", "2,5", "--events", "100",
                           "--real", "2", "--rounds", "1", "--format", "rst"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bar, heads, _, *rows, end = done.stdout.splitlines()
    assert bar == end and "2 ranks" in heads and "5 ranks" in heads
    assert any(row.startswith("patterns, a file a rank") for row in rows) and len(rows) > 15
    assert not list(tmp_path.iterdir())


def test_killed_processes_are_made_and_told(tmp_path):
    """Of 40 processes 2 end in the middle of a line; compact takes what is there, and says whose."""
    made = make(tmp_path / "made", 10, "processes=4", "killed=5")
    assert len(list(made.iterdir())) == 40
    objects = [json.loads(line) for line in run([PFW, "validate", "--format", "ndjson", made], status=1).stdout.splitlines()]
    bad = {each["file"] for each in objects if "problem" in each}
    assert len(bad) == 2
    done = run([PFW, "repair", made], status=1)
    assert done.stdout == "38 of 40 traces: finished, nothing to do\n"
    assert all(f"{name}: not finished" in done.stderr for name in bad)
    done = run([PFW, "compact", "--force", "-o", tmp_path / "c", made], status=1)
    assert all(f"{name}: not finished" in done.stderr for name in bad)
    assert len(list((tmp_path / "c").glob("*.gz"))) == 10


def test_validate_shows_people_the_files_that_are_not_in_order(tmp_path):
    made = make(tmp_path / "made", 20)
    ok = run([PFW, "validate", made]).stdout.splitlines()
    assert ok[0] == "20 of 20 files: ok, nothing lost (--all: a line each)" and len(ok) == 2, ok
    assert ok[1].startswith("all: ok, ")
    bad = made / "t-rank0007.pfw.gz"
    bad.write_bytes(bad.read_bytes()[:-100])
    told = run([PFW, "validate", made], status=1).stdout.splitlines()
    assert all(line.startswith(str(bad)) for line in told[:-2]) and len(told) > 3
    assert told[-2].startswith("19 of 20 files: ok") and told[-1].startswith("all: ")
    each = run([PFW, "validate", "--all", made], status=1).stdout.splitlines()
    assert sum(": ok, " in line for line in each) == 19 and not any("--all" in line for line in each)
    objects = [json.loads(line) for line in run([PFW, "validate", "--format", "ndjson", made], status=1).stdout.splitlines()]
    assert len({each["file"] for each in objects if each["file"] and "lines" in each}) == 20
    assert run([PFW, "validate", "-q", made], status=1).stdout.splitlines() == told[:-3]
    for path in sorted(made.iterdir())[:4]:
        path.unlink()
    assert len(run([PFW, "validate", made], status=1).stdout.splitlines()) > 16
    shutil.rmtree(made)


def test_spools_are_not_opened_for_each_trace(tmp_path):
    """Thirty spools that killed processes of other runs left: repair and compact of fifty traces look at each once
    or twice, not once a trace."""
    (tmp_path / "other").mkdir()
    with Target(str(tmp_path / "other"), 1, 100, "loop", True) as target:
        deadline = time.monotonic() + 30
        while not os.path.exists(target.trace) and time.monotonic() < deadline:
            time.sleep(0.01)
    spools = tmp_path / "other" / "spools"
    [spool] = spools.glob("*.spool")
    for number in range(30):
        shutil.copy(spool, spools / f"pfw-{os.geteuid()}-{1000000 + number}-1.spool")
    made = make(tmp_path / "made", 50)
    for words in (["repair", made], ["compact", "--keep", "-q", "-o", tmp_path / "out", made], ["validate", made]):
        subprocess.run(["strace", "-f", "-e", "trace=openat", "-o", tmp_path / "calls", PFW, *words], check=True,
                       env={**os.environ, "PFW_SPOOL_DIR": str(spools)}, stdout=subprocess.DEVNULL)
        opened = (tmp_path / "calls").read_text().count(f'{spools}/pfw-')
        assert opened <= 4 * 31, (words, opened)


def test_one_name_for_two_results_of_very_many(tmp_path):
    """Two runs have a file of one name: of two thousand files, too, it is said before anything is written."""
    for run_name, ranks in (("one", range(2100)), ("two", [1234])):
        (tmp_path / run_name).mkdir()
        for rank in ranks:
            process, end = ({"id": number, "name": name, "cat": "pfw", "pid": 100 + rank, "tid": 100 + rank,
                             "ts": 1795230878000000.5 + number, "ph": "M", "args": args}
                            for number, name, args in (
                                (1, "process", {"format": 1, "version": "1", "run": run_name, "host": "h",
                                                "rank": rank, "world_size": 2100}),
                                (2, "end", {"events": 0, "lost": 0, "reason": "exit"})))
            (tmp_path / run_name / f"t-rank{rank:04d}.pfw").write_text(f"{json.dumps(process)}\n{json.dumps(end)}\n")
    done = run([PFW, "compact", "--all-runs", "-o", tmp_path / "out", tmp_path / "one", tmp_path / "two"], status=2)
    assert "would both become t-rank1234.pfw.gz" in done.stderr, done.stderr
    assert not list((tmp_path / "out").glob("*.gz"))


def test_compact_shows_people_the_largest_of_many(tmp_path):
    made = make(tmp_path / "made", 20)
    done = run([PFW, "compact", "-o", tmp_path / "out", made])
    head, *lines = done.stdout.splitlines()
    results = sorted((tmp_path / "out").glob("*.pfw.gz"), key=lambda path: -path.stat().st_size)
    assert head.startswith("20 files: 2,") and "of 20 traces" in head and head.endswith("(--all-ranks: all):"), head
    assert {line.partition(":")[0] for line in lines} == {path.name for path in results[:10]} and len(lines) == 10, lines
    every = run([PFW, "compact", "--all-ranks", "-o", tmp_path / "all", made]).stdout.splitlines()
    assert len(every) == 20 and set(lines) < set(every)
    objects = run([PFW, "compact", "--format", "ndjson", "-o", tmp_path / "objects", made]).stdout.splitlines()
    assert sum("bytes_before" in json.loads(line) for line in objects) == 20
    assert run([PFW, "compact", "-q", "-o", tmp_path / "quiet", made]).stdout == ""
    removed = run([PFW, "compact", made]).stdout.splitlines()
    assert ", 20 removed; " in removed[0] or "removed" not in removed[0], removed  # results have the originals' names


def test_partials_of_many_hosts(tmp_path):
    """Of 200 hosts, each pid and start is a process of several; and no more than 64 indexes are open at a time."""
    made = make(tmp_path / "made", 3, "files=10", "events=1500")
    run([PFW, "index", "-q", "--partial", "-o", tmp_path / "few.partial", made])
    for out, each in (("one.partial", []), ("directory", []), ("nodes", ["--each", "7"])):
        subprocess.run([SCALE.parent / "partials", tmp_path / "few.partial", "--ranks", "200", "-o", tmp_path / out, *each],
                       check=True)
    assert len(list((tmp_path / "nodes").iterdir())) == 29
    for words in (["table"], ["table", "-g", "rank"], ["table", "-g", "fname"], ["overlap"], ["patterns"]):
        told = {out: run(["bash", "-c", 'ulimit -n 90; exec "$@"', "-", PFW, *words, tmp_path / out]).stdout
                for out in ("one.partial", "directory", "nodes")}
        assert len(set(told.values())) == 1 and len(told["nodes"].splitlines()) > 3, words
    few, many = (json.loads(run([PFW, "table", "-g", "fname", "--row-limit", "1", "--format", "ndjson",
                                 tmp_path / name]).stdout.splitlines()[0]) for name in ("few.partial", "one.partial"))
    assert few["fname"] == many["fname"] and 66 * few["count"] <= many["count"] <= 67 * few["count"]


def test_files_of_more_indexes_than_are_open(tmp_path):
    made = make(tmp_path / "made", 80, "files=50", "events=32000")
    run([PFW, "compact", "-q", "-o", tmp_path / "out", made])
    for words in (["table", "-g", "fname"], ["table", "-g", "fname", "-s", "bytes", "--row-limit", "5"]):
        told = run([PFW, *words, tmp_path / "out"]).stdout
        assert told == run([PFW, *words, "--no-index", tmp_path / "out"]).stdout and len(told.splitlines()) > 5


def test_a_directory_with_traces_is_asked_for_its_traces(tmp_path):
    made = make(tmp_path / "made", 2)
    told = run([PFW, "table", made]).stdout
    run([PFW, "index", "-q", "--partial", "-o", made / "run.partial", made])
    assert run([PFW, "table", made]).stdout == told
    (tmp_path / "only").mkdir()
    (made / "run.partial").rename(tmp_path / "only" / "run.partial")
    assert run([PFW, "table", tmp_path / "only"]).stdout == told
