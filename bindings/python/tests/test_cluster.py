"""pfw.cluster: a run of 200 ranks on four processes of Dask gives the bytes that one process gives."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from conftest import CLEAN, PFW

distributed = pytest.importorskip("distributed", reason="no dask.distributed here: pip install pfwtrace[cluster]")
cluster = pytest.importorskip("pfw.cluster")

RANKS = 200
COMMANDS = (["table"], ["table", "-g", "name,rank", "--row-limit", "-1", "--format", "csv"],
            ["table", "-g", "fname"], ["overlap", "--format", "ndjson"], ["patterns"])


def line(number, name, cat, pid, ns, phase, args, dur=None):
    length = "" if dur is None else f',"dur":{dur // 1000}.{dur % 1000:03}'
    return (f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":{pid},"tid":{pid},'
            f'"ts":{ns // 1000}.{ns % 1000:03}{length},"ph":"{phase}",'
            f'"args":{json.dumps(args, separators=(",", ":"))}}}\n')


def write_process(path, rank, ranks, pid, seed):
    chance, at = random.Random(seed), 1795230878000000000 + seed * 1000
    lines = [line(1, "process", "pfw", pid, at, "M", {
        "format": 1, "version": "1", "run": "r", "host": "h", "boot": "b", "rank": rank, "world_size": ranks,
        "local_rank": rank, "ppid": 1, "cmd": "x", "start_ts": 1})]
    for number in range(2, 42):
        at += chance.randrange(5000, 9000)
        if number % 3:
            lines.append(line(number, chance.choice(["read", "write"]), "POSIX", pid, at, "X",
                              {"fname": f"/data/{chance.randrange(9)}", "fd": 3, "ret": 4096, "count": 4096},
                              chance.randrange(100, 4000)))
        else:
            lines.append(line(number, "aten::mm", "PP", pid, at, "X", {"kind": "cpu_op"}, 4500))
    lines.append(line(42, "end", "pfw", pid, at + 9000, "M", {"events": 40, "lost": 0, "reason": "exit"}))
    path.write_text("".join(lines))


def write_run(directory, ranks):
    """A run of one process a rank."""
    for rank in range(ranks):
        write_process(directory / f"t-rank{rank:04}.pfw", rank, ranks, 1000 + rank, rank)
    return directory


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    for rank in range(RANKS):
        write_process(directory / f"t-rank{rank:04}.pfw", rank, RANKS, 1000 + rank, 2 * rank)
        if rank % 10 == 0:
            write_process(directory / f"t-rank{rank:04}-pid{5000 + rank}.pfw", rank, RANKS, 5000 + rank, 2 * rank + 1)
    return directory


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as local, distributed.Client(local) as one:
        yield one


def alone(words, *operands):
    return subprocess.run([PFW, *words, *operands], capture_output=True, text=True, check=True, env=CLEAN).stdout


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_same_bytes_as_one_process(traces, client, words):
    assert cluster.answer(client, words[0], traces, *words[1:]) == alone(words, traces)


@pytest.mark.parametrize("words", [["compare"], ["compare", "-g", "rank", "--format", "csv"]], ids=" ".join)
def test_runs_are_compared(traces, client, words):
    other = [str(traces / "t-rank00[01]*.pfw"), str(traces / "t-rank0199.pfw")]
    true = alone(words, traces, "--", *sorted(map(str, traces.glob("t-rank00[01]*.pfw"))), other[1])
    assert cluster.answer(client, words[0], [traces, other], *words[1:]) == true
    with pytest.raises(ValueError, match="two sides"):
        cluster.answer(client, "compare", traces)


def test_a_worker_is_killed_in_the_middle(traces, client):
    pids = client.run(os.getpid)
    whole = cluster.reduce(client, traces)
    until = time.monotonic() + 60
    while not any(keys for keys in client.has_what().values()):
        assert time.monotonic() < until and not whole.done()
        time.sleep(0.001)
    holder = next(address for address, keys in client.has_what().items() if keys)
    assert not whole.done()  # some partials are made, others are not
    os.kill(pids[holder], signal.SIGKILL)
    text, said = whole.result(timeout=300)
    assert not said
    assert pids[holder] not in client.run(os.getpid).values()
    again, _ = cluster.reduce(client, traces).result(timeout=300)
    assert text == again


def test_urls_and_globs(traces, client):
    alone(["index"], *traces.glob("t-rank0001*.pfw"))  # what the globs name, too
    assert cluster.answer(client, "table", [f"file://{traces}"]) == alone(["table"], traces)
    few = sorted(str(one) for one in traces.glob("t-rank000*"))
    for given in (f"file://{traces}/t-rank000*", traces / "t-rank000*", few):
        assert cluster.answer(client, "overlap", given) == alone(["overlap"], *few)


def test_base_names_and_older_runs(client, tmp_path, capsys):
    for run, pids in (("", (10, 11)), (".2", (20, 21, 22))):
        for pid in pids:
            name = f"t{run}.pfw" if pid % 10 == 0 else f"t{run}-pid{pid}.pfw"
            write_process(tmp_path / name, 0, 1, pid, pid)
            (tmp_path / name).write_text((tmp_path / name).read_text().replace('"run":"r"', f'"run":"r{run}"'))
    (tmp_path / "tx.pfw").write_text("no trace of t")
    assert cluster.answer(client, "overlap", tmp_path / "t") == alone(["overlap"], tmp_path / "t")
    assert "2 files of older runs left out" in capsys.readouterr().err
    assert cluster.answer(client, "table", tmp_path / "t-pid11.pfw") == alone(["table"], tmp_path / "t-pid11.pfw")
    assert cluster.answer(client, "table", tmp_path / "t", "--all-runs") == alone(["table", "--all-runs"], tmp_path / "t")
    assert "older" not in capsys.readouterr().err


def test_the_newest_run_of_a_slurm_job_is_its_newest_step():
    begun = {"slurm-7-r1": 9, "slurm-7.0-r1": 2, "slurm-7.1-r1": 3, "slurm-7.2": 4, "slurm-71.0-r1": 5}
    found = [cluster._Trace(f"/d/{run}.pfw", "/d", run, at) for run, at in begun.items()]
    assert [one.run for one in cluster._newest(found, False)] == ["slurm-7.1-r1"]
    del found[0]
    assert [one.run for one in cluster._newest(found, False)] == ["slurm-71.0-r1"]


def test_a_frame(traces, client):
    pytest.importorskip("pandas")
    rows = cluster.frame(client, "table", traces, "-g", "rank", "--row-limit=-1")
    assert set(rows["rank"]) == set(range(RANKS)) and rows["count"].sum() == 40 * (RANKS + RANKS // 10)


def test_what_cannot_be_answered(traces, client, tmp_path):
    for words, said in ((["table", traces, "-g", "process"], "--group-by process or cmd is in no partial"),
                        (["query", traces], "query is none of table"),
                        (["table", tmp_path], "no worker has a trace"), (["table", tmp_path / "x"], "no worker")):
        with pytest.raises(ValueError, match=said):
            cluster.answer(client, *words)


def test_damage_is_not_lost_on_the_way(traces, client, tmp_path, capsys):
    for number in range(4):
        text = pathlib.Path(traces, f"t-rank000{number}.pfw").read_text()
        (tmp_path / f"t-rank000{number}.pfw").write_text(text.replace('"aten::mm"', '"aten::mm', 1)
                                                         if number == 2 else text)
    cluster.answer(client, "table", tmp_path)
    assert "t-rank0002.pfw" in capsys.readouterr().err


def test_the_command(run, traces):
    done = subprocess.run([sys.executable, "-m", "pfw.cluster", "table", "--workers=2", traces, "--", "-g", "cat"],
                          capture_output=True, text=True, check=False, cwd=run.directory, env=CLEAN)
    assert (done.returncode, done.stdout) == (0, alone(["table", "-g", "cat"], traces)), done.stderr
    done = subprocess.run([sys.executable, "-m", "pfw.cluster", "table", "--workers=1", run.directory / "none"],
                          capture_output=True, text=True, check=False, cwd=run.directory, env=CLEAN)
    assert done.returncode == 2 and "pfw.cluster: no worker has a trace" in done.stderr
