"""No line is without a name for what was touched: `pfw table -g fname` of a pipeline, of pandas, of a job of two ranks.

Two kinds of calls touch nothing, and so have none: those that make a process, and those on descriptors that are not
open."""
from __future__ import annotations

import json
import sys

import pytest

from conftest import PFW, Run

PIPELINE = """
    seq 1 2000 > numbers
    cat numbers | grep 7 | sort -n | (read first; wc -l) > count
    tail -n 3 numbers | tee last | od -c >od.txt
    diff <(sort numbers) <(sort last) > difference
    python3 -c 'import socket; a, b = socket.socketpair(); a.send(b"x"); b.recv(1); socket.socket().close()'
    python3 -c 'import os; fd = os.eventfd(1) if hasattr(os, "eventfd") else os.pipe()[0]; os.fstat(fd); os.close(fd)'
    exit 0
    """

PANDAS = """
    import pandas
    frame = pandas.DataFrame({"a": range(5000), "b": 0.5})
    frame.to_csv("f.csv")
    frame.to_pickle("f.pickle")
    frame.to_json("f.json")
    print(pandas.read_csv("f.csv").a.sum(), len(pandas.read_pickle("f.pickle")), len(pandas.read_json("f.json")))
    """

RANKS = """
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(2):
        model(torch.ones(4, 8)).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.barrier()
    dist.destroy_process_group()
    """


def check_named(run: Run, *some: str) -> None:
    """Each of `some` begins the name of a row; no row is without one but that of the calls that touch nothing."""
    lines = [line for line in run.lines("**/*.pfw") if line["cat"] in ("POSIX", "STDIO", "NET", "SYNC")]
    nameless = [line for line in lines if line["args"].get("fname") is None]
    assert not [line for line in nameless if line["name"] not in ("fork", "vfork", "clone", "posix_spawn")
                and line["args"].get("errno") != "EBADF"]
    rows = run.command(PFW, "table", "-q", "-g", "fname", "--row-limit", "-1", "--format", "ndjson", ".")
    counts = {row["fname"]: row["count"] for row in map(json.loads, rows.splitlines()) if row["section"] == "io"}
    summed = sum(line["args"]["count"] for line in run.lines("**/*.pfw") if line["name"] == "summed")
    assert counts.pop("", 0) == len(nameless) and sum(counts.values()) == len(lines) - len(nameless) + summed
    for begin in some:
        assert [name for name in counts if name.startswith(begin)], (begin, sorted(counts))


def test_pipeline(run: Run) -> None:
    run.command(PFW, "run", "--all", "-q", "-o", "t", "--", "bash", run.save(PIPELINE, "pipeline.sh"))
    check_named(run, "pipe:[", f"{run.directory}/numbers", "socket:[unix]", "socket:[tcp]")


def test_pandas(run: Run) -> None:
    pytest.importorskip("pandas")
    assert run.traced(PANDAS, "--all", "-q") == "12497500 5000 5000\n"
    check_named(run, f"{run.directory}/f.csv", f"{run.directory}/f.json")


def test_ranks(run: Run) -> None:
    """gloo's connections, the rendezvous, and what the threads wait for."""
    pytest.importorskip("torch")
    run.command(PFW, "run", "--all", "-q", "-o", "t", "--", sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc_per_node=2", run.save(RANKS), PFW_CALLS="+sync")
    check_named(run, "socket:[tcp ", "anon_inode:[eventpoll]", "cond:[", f"{run.directory}/model.pt")
