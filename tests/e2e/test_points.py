"""A gzip file that somebody else wrote as one member: with its index it is read from the middle."""
import gzip
import os
import random
import sqlite3
import subprocess

import pytest

PFW = os.environ["PFW_BIN"]
EVENTS = 100000


def pfw(*arguments):
    return subprocess.run([PFW, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The same text plain and as one member, the latter indexed."""
    place = tmp_path_factory.mktemp("points")
    chance = random.Random(7)
    text = "".join(
        f'{{"id":{i},"name":"read","cat":"POSIX","pid":1,"tid":1,"ts":{1000 + i}.000,'
        f'"dur":0.500,"ph":"X","args":{{"fname":"/{chance.getrandbits(400):x}"}}}}\n'
        for i in range(EVENTS)).encode()
    (place / "plain.pfw").write_bytes(text)
    (place / "one.pfw.gz").write_bytes(gzip.compress(text, 1))
    assert pfw("index", place / "one.pfw.gz").returncode == 0
    return place


def points(traces):
    with sqlite3.connect(traces / "one.pfw.gz.idx") as index:
        return index.execute("SELECT text_at, file_at, bits, length(window) FROM point").fetchall()


def test_points_are_kept(traces):
    size = (traces / "one.pfw.gz").stat().st_size
    rows = points(traces)
    assert len(rows) >= 3
    assert rows == sorted(rows)
    for text_at, file_at, bits, window in rows:
        assert text_at >= 4 << 20 and 0 < file_at < size and bits < 8 and window > 0
    assert pfw("index", "--check", traces / "one.pfw.gz").returncode == 0


@pytest.mark.parametrize("since, until", [("0%", "1%"), ("50%", "51%"), ("98%", "100%")])
def test_window_is_that_of_the_text(traces, since, until):
    of_one, of_plain = (pfw("query", "--since", since, "--until", until, traces / name)
                        for name in ("one.pfw.gz", "plain.pfw"))
    assert of_one.returncode == of_plain.returncode == 0
    assert of_one.stderr == of_plain.stderr == ""
    assert len(of_one.stdout.splitlines()) >= EVENTS // 100
    assert of_one.stdout == of_plain.stdout


def test_what_comes_before_the_point_is_not_read(traces, tmp_path):
    data = bytearray((traces / "one.pfw.gz").read_bytes())
    last = points(traces)[-1]
    middle = last[1] // 2
    assert middle > 2 << 20, "the index looks at the first MiB itself"
    data[middle:middle + 1000] = bytes(1000)
    (tmp_path / "one.pfw.gz").write_bytes(data)
    (tmp_path / "one.pfw.gz.idx").write_bytes((traces / "one.pfw.gz.idx").read_bytes())
    cut = pfw("query", "--since", "-0.001s", tmp_path / "one.pfw.gz")
    assert cut.returncode == 0 and cut.stderr == ""
    assert cut.stdout == pfw("query", "--since", "-0.001s", traces / "plain.pfw").stdout
    assert pfw("query", "--count", tmp_path / "one.pfw.gz").returncode == 1


@pytest.mark.parametrize("change", ["bits = (bits + 1) % 8", "file_at = file_at + 1", "window = x'00'"])
def test_a_wrong_point_is_found_by_check(traces, tmp_path, change):
    for name in ("one.pfw.gz", "one.pfw.gz.idx"):
        (tmp_path / name).write_bytes((traces / name).read_bytes())
    index = sqlite3.connect(tmp_path / "one.pfw.gz.idx")
    index.execute(f"UPDATE point SET {change} WHERE id = 1")
    index.commit()
    index.close()
    done = pfw("index", "--check", tmp_path / "one.pfw.gz")
    assert done.returncode == 1 and "the index is wrong: the point at byte " in done.stdout
