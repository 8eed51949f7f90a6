"""Processes that Python starts, in all its ways: each records into the right files."""
import importlib.util
import os
import pathlib
import shlex
import sys

import pytest

from conftest import PFW

WORKER = """
    import os, pfw

    def work(name):
        with pfw.span(f"work {name}"):
            with open(f"file-{name}", "w") as file:
                file.write("x")
        return os.getpid()
    """
PROGRAM = """
    import multiprocessing, os, sys
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    import pfw
    from worker import work

    def main():
        if "start" in sys.argv:
            assert pfw.start("t")
        if "rank" in sys.argv:
            assert pfw.set_rank(3, 8)
        with pfw.span("main"):
            for method in "fork", "forkserver", "spawn":
                context = multiprocessing.get_context(method)
                process = context.Process(target=work, args=(method,))
                process.start()
                process.join()
                assert process.exitcode == 0
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(work, ["pool"]))
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(work, ["thread"]))

    if __name__ == "__main__":
        main()
    """
WAYS = ["fork", "forkserver", "spawn", "pool", "thread"]


@pytest.mark.parametrize("way", ["preloaded", "started", "late rank"])
def test_all_start_methods(run, way):
    run.save(WORKER, "worker.py")
    if way == "preloaded":
        run.traced(PROGRAM)
    else:
        run.script(PROGRAM, "start", *(["rank"] if way == "late rank" else []))
    base = "t-rank0003" if way == "late rank" else "t"
    top = {line["pid"] for line in run.lines(f"{base}.pfw")}
    assert len(top) == 1
    for name in WAYS:
        span, = [line for line in run.lines(f"{base}*.pfw") if line["name"] == f"work {name}"]
        opened, = [line for line in run.lines(f"{base}*.pfw")
                   if line["name"] == "open" and line["args"]["fname"].endswith(f"file-{name}")]
        assert span["pid"] == opened["pid"]
        assert (span["pid"] in top) == (name == "thread")
        assert name == "thread" or run.lines(f"{base}-pid{span['pid']}.pfw")
    assert {path.name.split("-pid")[0].removesuffix(".pfw")
            for path in run.directory.glob("*.pfw")} == {base}


def test_variables_of_children_go_when_it_stops(run):
    run.script("""
        import os, pfw
        before = dict(os.environ)
        assert pfw.start("t") and os.environ["DFTRACER_ENABLE"] == "1"
        pfw.stop()
        assert dict(os.environ) == before
        """)


def test_variables_of_the_user_stay(run):
    run.script("""
        import os, pfw
        assert pfw.start("t")
        pfw.stop()
        assert os.environ["DFTRACER_ENABLE"] == "1" and "DFTRACER_INIT" not in os.environ
        """, DFTRACER_ENABLE="1")


def test_threads_have_lanes_of_their_own(run):
    run.script("""
        import threading, pfw
        pfw.start("t")

        def work():
            with pfw.span("outer"):
                with pfw.span("inner"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        with pfw.span("main"):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """)
    outer = {line["tid"]: line for line in run.lines() if line["name"] == "outer"}
    inner = {line["tid"]: line for line in run.lines() if line["name"] == "inner"}
    assert len(outer) == 4 and outer.keys() == inner.keys()
    for tid, line in inner.items():
        assert line["args"]["parent"] == outer[tid]["args"]["span_id"]
        assert "parent" not in outer[tid]["args"]


torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch here")


@torch
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("way, first", [("preloaded", "import torch.distributed, pfw"),
                                        ("started", "import pfw, torch.distributed")])
def test_late_rank_of_torch(run, way, first, told):
    """torch.multiprocessing.spawn: nobody but init_process_group() knows the ranks, or a worker that sets
    RANK only then, as those of Accelerate's notebook_launcher() and of Ray Train do."""
    program = first + f"\nTOLD = {told}" + """
import os, sys, torch.multiprocessing

def work(rank, store):
    if TOLD:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    with pfw.span("before"):
        pass
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    with pfw.span(f"rank {rank}"):
        pass
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    if "start" in sys.argv:
        pfw.start("t")
    torch.multiprocessing.spawn(work, (__file__ + ".store",), nprocs=2)
"""
    if way == "preloaded":
        run.traced(program)
    else:
        run.script(program, "start")
    for rank in range(2):
        names = [line["name"] for line in run.lines(f"t-rank{rank:04}*.pfw")]
        assert "before" in names and f"rank {rank}" in names


@torch
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_dataloader(run, method):
    (run.directory / "data").mkdir()
    for i in range(8):
        (run.directory / f"data/{i}").write_bytes(bytes(64))
    run.save("""
        import pfw, torch

        class Files(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            @pfw.trace
            def __getitem__(self, i):
                with open(f"data/{i}", "rb") as file:
                    return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        """, "files.py")
    run.traced("""
        import sys, torch
        from files import Files
        if __name__ == "__main__":
            loader = torch.utils.data.DataLoader(Files(), batch_size=2, num_workers=2,
                                                 multiprocessing_context=METHOD)
            assert sum(batch.sum().item() for batch in loader) == 0
        """.replace("METHOD", repr(method)))
    items = [line for line in run.lines() if line["name"] == "Files.__getitem__"]
    opened = [line for line in run.lines() if line["name"] == "open"
              and os.path.basename(os.path.dirname(line["args"]["fname"])) == "data"]
    assert len(items) == len(opened) == 8
    pids = {line["pid"] for line in items}
    assert len(pids) == 2 and pids == {line["pid"] for line in opened}
    for pid in pids:
        assert run.lines(f"t-pid{pid}.pfw")


SLOW = """
    import torch

    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, i):
            size = 1 if torch.utils.data.get_worker_info().id == 1 else 4096
            with open(f"data/{i}", "rb", buffering=0) as file:
                data = b"".join(iter(lambda: file.read(size), b""))
            return torch.frombuffer(bytearray(data), dtype=torch.uint8)[:4].float()

    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(Files(), batch_size=4, num_workers=2)
        weight = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for epoch in range(2):
            for batch in loader:
                (batch.sum() * weight.sum()).backward()
                optimizer.step()
    """


# 4711 stands for the slow worker's pid.
FINDING = """pfw run --torch -o t -- python train.py
pfw table -g process --cat POSIX -s total t
pfw table -g name --pid 4711 t
pfw table -g fname --pid 4711 t
pfw query --pid 4711 --cat POSIX --sort -dur --limit 5 --fields dur,name,pid,args.fname t"""


@torch
def test_a_slow_worker_is_found(run):
    """The worker that reads byte by byte is named by its number."""
    commands = [shlex.split(line) for line in FINDING.splitlines()]
    (run.directory / "data").mkdir()
    for i in range(32):
        (run.directory / f"data/{i}").write_bytes(bytes(4096))
    run.save(SLOW, "train.py")
    pid = ""
    for words in commands:
        told = run.command(PFW, *(sys.executable if word == "python" else pid if word == "4711" else word
                                  for word in words[1:]))
        if not pid and words[1] == "table":
            rows = [line.split() for line in told.splitlines() if "DataLoader worker" in line]
            assert sorted(row[3] for row in rows) == ["0", "0", "1", "1"]  # two epochs, two workers
            assert [row[3] for row in rows[:2]] == ["1", "1"], told
            pid = rows[0][0]
    assert f"\tread\t{pid}\t" in told, told
