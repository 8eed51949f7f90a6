"""A disk that is full, a real one: what cannot be written leaves everything as it was, and says so.

The disk is a small tmpfs in a mount namespace of its own.
"""
import os
import random
import re
import shutil
import subprocess

import pytest

from harness import PFW, clean_environment, run

ENTER = ["unshare", "--user", "--map-root-user", "--mount"]
# What is on the disk when the command begins, and what it leaves, are copied out.
SCRIPT = """
set -e
mount -t tmpfs -o size=16m,mode=700 none "$1/disk"
cp -p "$1"/traces/* "$1/disk/"
cd "$1/disk"
if [ "$2" != all ]; then
    dd if=/dev/zero of=filler bs=64k 2>/dev/null || true
    truncate -s "-$2" filler
fi
shift 2
status=0
"$@" > ../out 2> ../err || status=$?
rm -f filler
cp -rp ./* ../left/
ls -A . > ../names
exit $status
"""


@pytest.fixture(name="place")
def place_with_traces(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1) to make mounts of one's own with")
    tried = subprocess.run([*ENTER, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                           text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"mounts of one's own are not allowed here: {tried.stderr.strip()}")
    for name in ("disk", "traces", "left"):
        (tmp_path / name).mkdir()
    for pid in (100, 101):
        write_trace(tmp_path / "traces" / ("t.pfw" if pid == 100 else "t-pid101.pfw"), pid)
    return tmp_path


def write_trace(path, pid):
    """About a MiB that does not compress too well, with many files, so that an index is large."""
    chance = random.Random(pid)
    start = 1795230878000000
    lines = [f'{{"id":1,"name":"process","cat":"pfw","pid":{pid},"tid":{pid},"ts":{start}.000,"ph":"M",'
             '"args":{"format":1,"version":"1","run":"r","host":"h","rank":null,"world_size":1}}']
    lines += [f'{{"id":{n + 2},"name":"read","cat":"POSIX","pid":{pid},"tid":{pid},'
              f'"ts":{start + n * 10}.{chance.randrange(1000):03},"dur":1.{chance.randrange(1000):03},'
              f'"ph":"X","args":{{"fname":"/data/{chance.getrandbits(64):016x}","ret":{n}}}}}'
              for n in range(6000)]
    lines.append(f'{{"id":6002,"name":"end","cat":"pfw","pid":{pid},"tid":{pid},"ts":{start + 99999}.000,'
                 '"ph":"M","args":{"events":6000,"lost":0,"reason":"exit"}}')
    path.write_text("\n".join(lines) + "\n")


def on_disk(place, free, *command, **variables):
    """Run it on a disk with so much room left; its result, and the names that are there then."""
    done = run([*ENTER, "sh", "-c", SCRIPT, "sh", place, free, PFW, *command],
               clean_environment(**variables), status=None)
    names = sorted((place / "names").read_text().split())
    return done.returncode, (place / "err").read_text(), names


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


COMMANDS = {"compact": (["compact", "."], ["t.manifest.json", "t.pfw.gz", "t.pfw.gz.idx"]),
            "index": (["index", "t.pfw"], ["t-pid101.pfw", "t.pfw", "t.pfw.idx"]),
            "query": (["query", "-o", "lines", "."], ["lines", "t-pid101.pfw", "t.pfw"]),
            "export": (["export", "-o", "e.json", "t.pfw"], ["e.json", "t-pid101.pfw", "t.pfw"]),
            "anonymise": (["anonymise", "-o", "an", "t.pfw"], ["an", "t-pid101.pfw", "t.pfw"])}


@pytest.mark.parametrize("free", ["0", "4096", "16K", "64K", "128K"])
@pytest.mark.parametrize("name", COMMANDS)
def test_full_disk_leaves_everything_as_it_was(place, name, free):
    status, err, names = on_disk(place, free, *COMMANDS[name][0])
    assert status == 2, err
    assert err.count("\n") == 1 and re.search("[\\w./-]+( cannot be written)?: No space left on device", err), err
    assert names == ["t-pid101.pfw", "t.pfw"]
    assert contents(place / "left") == contents(place / "traces")


@pytest.mark.parametrize("name", COMMANDS)
def test_with_room_the_same_does_its_work(place, name):
    status, err, names = on_disk(place, "all", *COMMANDS[name][0])
    assert (status, err) == (0, "")
    assert names == COMMANDS[name][1]


@pytest.mark.parametrize("free", ["0", "4096", "64K"])
def test_an_answer_needs_no_room(place, free):
    """An index that nobody asked for is left out."""
    status, err, names = on_disk(place, free, "table", "t.pfw", PFW_INDEX_EVENTS="10")
    assert (status, err, names) == (0, "", ["t-pid101.pfw", "t.pfw"])
    status, err, names = on_disk(place, "all", "table", "t.pfw", PFW_INDEX_EVENTS="10")
    assert status == 0 and "made t.pfw.idx" in err and names == ["t-pid101.pfw", "t.pfw", "t.pfw.idx"]


RUN_THEN_REPAIR = """
mount -t tmpfs -o size=1m,mode=700 none "$1/disk"
cd "$1/disk"
dd if=/dev/zero of=filler bs=4k 2>/dev/null
"$2" run -o t -- sh -c 'echo x > ../out' 2> ../err
rm filler
"$2" repair t
stat -c '%n %a' *
"""


def test_a_trace_without_room_keeps_its_name(place):
    """`pfw run` does not remove the empty trace that `pfw repair` is to fill."""
    (place / "spools").mkdir()
    done = run([*ENTER, "sh", "-c", RUN_THEN_REPAIR, "sh", place, PFW],
               clean_environment(PFW_SPOOL_DIR=str(place / "spools")))
    assert "cannot write the trace" in (place / "err").read_text()
    assert "recovered, nothing lost" in done.stdout
    assert done.stdout.splitlines()[1:] == ["t.pfw 644"]
