"""pfw.to_dask: the same figures as one process has, whatever becomes of workers."""
import os
import signal
import subprocess
import time

import pytest

from conftest import CLEAN, PFW
from test_cluster import write_process, write_run

dd = pytest.importorskip("dask.dataframe", reason="no dask.dataframe here: pip install pfwtrace[dask]")
distributed = pytest.importorskip("distributed")

import pfw

RANKS = 24


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), RANKS)


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as local, distributed.Client(local) as one:
        yield one


def sums(frame):
    return frame.groupby(["rank", "name"])[["dur", "args.ret"]].sum()


def as_dict(frame):
    return {key: tuple(map(int, row)) for key, row in zip(frame.index, frame.itertuples(index=False))}


def test_the_same_as_in_one_process(traces, client):
    frame = pfw.to_dask(traces, blocks=1)
    whole = pfw.read(traces).to_pandas()
    assert frame.npartitions == RANKS and not frame.known_divisions
    assert list(frame.columns) == list(whole.columns) and len(frame) == len(whole) == 40 * RANKS
    assert as_dict(sums(frame).compute()) == as_dict(sums(whole.assign(name=whole["name"].astype(str))))
    some = pfw.to_dask(traces, columns=["name", "args.fname", "dur"], where="args.ret == 4096", ranks="3-5")
    assert set(some.compute()["args.fname"]) <= {f"/data/{i}" for i in range(9)}
    assert len(some) == pfw.read(traces, where="args.ret == 4096", ranks="3-5").arrow().num_rows > 0


def test_divisions_by_time(tmp_path):
    """Of one compacted trace: the index is the ts, and a window needs only some partitions."""
    text = "".join('{"id":%d,"name":"n%d","cat":"c","pid":1,"tid":1,"ts":%d.%03d,"dur":0.100,"ph":"X","args":{}}\n' %
                   (i, i % 3, 1795230878000000 + i, i % 1000) for i in range(60000))
    (tmp_path / "t.pfw").write_text(text)
    subprocess.run([PFW, "compact", "-q", tmp_path / "t.pfw"], check=True, env=CLEAN)
    frame = pfw.to_dask(tmp_path, blocks=1)
    whole = pfw.read(tmp_path).to_pandas().set_index("ts", drop=False)
    assert frame.known_divisions and frame.npartitions > 4
    assert frame.divisions[0] == whole.index[0] and frame.divisions[-1] == whole.index[-1]
    since, until = whole.index[20000], whole.index[21999]
    window = frame.loc[since:until]
    assert window.npartitions <= 2
    assert list(window.compute(scheduler="synchronous")["id"]) == list(range(20000, 22000))
    assert frame.map_partitions(lambda part: part.index.is_monotonic_increasing).compute(scheduler="synchronous").all()
    assert not pfw.to_dask(tmp_path, blocks=1, columns=["name"]).known_divisions


def slowly(part, mark):
    """Takes long enough that a worker can be killed in the middle, and says that it has begun."""
    open(os.path.join(mark, str(os.getpid())), "a", encoding="utf-8").close()
    time.sleep(0.2)
    return part


def test_a_worker_is_killed_in_the_middle(traces, client, tmp_path):
    frame = pfw.to_dask(traces, blocks=1, columns=["rank", "name", "dur", "args.ret"])
    before = client.run(os.getpid)
    future = client.compute(sums(frame.map_partitions(slowly, str(tmp_path), meta=frame._meta)))
    until = time.monotonic() + 60
    while len(os.listdir(tmp_path)) < 2:  # both have begun
        assert time.monotonic() < until and not future.done()
        time.sleep(0.01)
    killed = int(os.listdir(tmp_path)[0])
    assert killed in before.values()
    os.kill(killed, signal.SIGKILL)
    again = future.result(timeout=300)
    assert killed not in client.run(os.getpid).values()
    assert as_dict(again) == as_dict(sums(pfw.read(traces).to_pandas().astype({"name": str})))


def test_traces_that_change_are_refused(tmp_path):
    write_process(tmp_path / "t-rank0000.pfw", 0, 1, 1000, 0)
    frame = pfw.to_dask(tmp_path)
    with open(tmp_path / "t-rank0000.pfw", "a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(ValueError, match="have grown: divide them again"):
        frame.compute(scheduler="synchronous")


def test_what_cannot_be_asked(traces, tmp_path):
    for path, options, said in ((tmp_path, {}, "in this directory"), (traces, {"where": "(("}, "where"),
                                (traces, {"blocks": 0}, "at least one"), (traces, {"columns": ["x"]}, "no column x")):
        with pytest.raises(ValueError, match=said):
            pfw.to_dask(path, **options)
