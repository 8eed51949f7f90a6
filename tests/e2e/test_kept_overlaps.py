"""Overlaps of ranks in several files are kept beside them: used for these files only, and right each time."""
import os
import re
import shutil
import struct
import subprocess
import zlib

import pytest

from harness import PFW, clean_environment, run
from test_partial import many_ranks

NAME = ".pfw-overlaps.idx"


def environment(tmp_path, events=1):
    return clean_environment(PFW_INDEX_EVENTS=str(events), XDG_CACHE_HOME=str(tmp_path / "cache"))


def overlap(tmp_path, *words, events=1, status=0):
    return run([PFW, "overlap", *words], environment(tmp_path, events), status=status)


def true(tmp_path, *words, status=0):
    return overlap(tmp_path, "--no-index", *words, events=0, status=status)


@pytest.fixture
def made(tmp_path):
    """Three ranks with a worker each, and their indexes."""
    many_ranks(tmp_path / "made", 5, 3)
    (tmp_path / "cache").mkdir()
    run([PFW, "index", "-q", tmp_path / "made"], environment(tmp_path))
    return tmp_path / "made"


def rows(path):
    """(files, data) of each rank."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        files, _, row, *_ = struct.unpack_from("<6I", data, at)
        at += 24
        found.append((data[at:at + files], data[at + files:at + files + row]))
        at += files + row
    return found


def write_rows(path, found):
    body = b""
    for files, row in found:
        lengths = [len(files), len(zlib.decompress(files, -15)), len(row), len(zlib.decompress(row, -15))]
        body += struct.pack("<6I", *lengths, zlib.crc32(files), zlib.crc32(row)) + files + row
    path.write_bytes(b"PFWPART1" + struct.pack("<QQ", len(found), 24 + len(body)) + body)


def test_the_second_answer_reads_no_line(tmp_path, made):
    expected = true(tmp_path, made)
    first = overlap(tmp_path, made)
    assert first.stdout == expected.stdout
    assert first.stderr == f"pfw overlap: made {made}/{NAME}: the next answers come at once (PFW_INDEX_EVENTS=0: make none)\n"
    for words in ([], ["--steps"], ["--steps", "--format", "ndjson"], ["--rank", "1"], ["--rank", "0,2", "--format", "csv"]):
        done = overlap(tmp_path, *words, made)
        assert (done.stdout, done.stderr) == (true(tmp_path, *words, made).stdout, "")
    found = rows(made / NAME)
    assert len(found) == 3
    write_rows(made / NAME, [(files, found[number - 1][1]) for number, (files, _) in enumerate(found)])
    assert overlap(tmp_path, made).stdout != expected.stdout  # it is used
    assert true(tmp_path, made).stdout == expected.stdout


def grow(made):
    """A rank more."""
    many_ranks(made.parent / "more", 9, 4)
    for path in (made.parent / "more").glob("t-rank0003*"):
        shutil.copy(path, made)


def add_worker(made):
    text = (made / "t-rank0001-pid201.pfw").read_text()
    (made / "t-rank0001-pid901.pfw").write_text(text.replace('"pid":201', '"pid":901'))


def replace(made):
    """Other lines, and a new index."""
    many_ranks(made.parent / "other", 77, 3)
    shutil.copy(made.parent / "other" / "t-rank0001.pfw", made)
    run([PFW, "index", "-q", made], clean_environment())


def replace_unnoticed(made):
    """As many bytes, the same time of the last change, and the index of before."""
    path = made / "t-rank0002.pfw"
    stat, text = path.stat(), path.read_text()
    path.write_text(re.sub(r'"dur":(\d)', lambda found: f'"dur":{1 + int(found[1]) % 9}', text))
    assert path.stat().st_size == stat.st_size and path.read_text() != text
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def append(made):
    path = made / "t-rank0000-pid200.pfw"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, *lines[-3:]]))


def exchange(made):
    """Two files of two ranks get each other's names."""
    one, other = made / "t-rank0000-pid200.pfw", made / "t-rank0001-pid201.pfw"
    for suffix in ("", ".idx"):
        paths = [path.with_name(path.name + suffix) for path in (one, other)]
        texts = [path.read_bytes() for path in paths]
        paths[0].write_bytes(texts[1])
        paths[1].write_bytes(texts[0])


CHANGES = {
    "a rank added": grow, "a worker added": add_worker, "replaced": replace, "replaced unnoticed": replace_unnoticed,
    "grown": append, "exchanged": exchange,
    "no worker": lambda made: (made / "t-rank0001-pid201.pfw").unlink(),
    "no index": lambda made: (made / "t-rank0001.pfw.idx").unlink(),
    "cut": lambda made: os.truncate(made / NAME, 300),
    "rubbish": lambda made: (made / NAME).write_bytes(os.urandom(3000)),
    "copied": lambda made: (made.rename(made.parent / "moved"), shutil.copytree(made.parent / "moved", made)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_files_are_read(tmp_path, made, change):
    overlap(tmp_path, made)
    CHANGES[change](made)
    expected = true(tmp_path, made)
    for _ in range(3):
        assert overlap(tmp_path, "-q", made).stdout == expected.stdout


def test_damaged_rows(tmp_path, made):
    expected = true(tmp_path, made).stdout
    overlap(tmp_path, made)
    good = (made / NAME).read_bytes()
    for at in range(0, len(good), max(1, len(good) // 40)):
        (made / NAME).write_bytes(good[:at] + bytes([good[at] ^ 0x11]) + good[at + 1:])
        assert overlap(tmp_path, "-q", made, events=0).stdout == expected
    (made / NAME).write_bytes(good)
    found = rows(made / NAME)
    for length in range(0, 60, 7):
        write_rows(made / NAME, [(files, zlib.compress(zlib.decompress(row, -15)[:length])[2:-4]) for files, row in found])
        assert overlap(tmp_path, "-q", made, events=0).stdout == expected


def test_killed_processes_are_told_of(tmp_path, made):
    path = made / "t-rank0001-pid201.pfw"
    path.write_text(path.read_text()[:-40])
    run([PFW, "index", "-q", made], environment(tmp_path), status=1)
    expected = true(tmp_path, made, status=1)
    assert "the last line is cut" in expected.stderr
    overlap(tmp_path, "-q", made, status=1)
    assert (made / NAME).exists()
    done = overlap(tmp_path, made, status=1)
    assert (done.stdout, done.stderr) == (expected.stdout, expected.stderr)


def test_where_nothing_may_be_written(tmp_path, made):
    made.chmod(0o777 if os.geteuid() == 0 else 0o555)  # root leaves nothing where others write
    expected = true(tmp_path, made).stdout
    assert f"made {tmp_path}/cache/pfw/" in overlap(tmp_path, made).stderr
    assert not (made / NAME).exists()
    done = overlap(tmp_path, made)
    assert (done.stdout, done.stderr) == (expected, "")
    made.chmod(0o755)


@pytest.mark.parametrize("words, events", [((), 0), ((), 10**6), (("--no-index",), 1), (("--bins", "3"), 1), (("--since", "+1ms"), 1)])
def test_none_is_kept(tmp_path, made, words, events):
    overlap(tmp_path, "-q", *words, made, events=events)
    assert not (made / NAME).exists()


def test_ranks_one_after_the_other(tmp_path, made):
    for rank in range(3):
        overlap(tmp_path, "--rank", str(rank), made)
        assert len(rows(made / NAME)) == rank + 1
    assert overlap(tmp_path, made).stderr == ""
    (made / "t-rank0001-pid201.pfw").unlink()
    grow(made)
    run([PFW, "index", "-q", made], environment(tmp_path))
    assert overlap(tmp_path, "-q", made).stdout == true(tmp_path, made).stdout
    names = {re.search(rb"t-rank000\d.*?pfw", zlib.decompress(files, -15))[0] for files, _ in rows(made / NAME)}
    assert names == {b"t-rank0000-pid200.pfw", b"t-rank0002-pid202.pfw", b"t-rank0003-pid203.pfw"}


def test_commands_at_once(tmp_path, made):
    expected = [true(tmp_path, "--rank", str(number % 3), made).stdout for number in range(9)]
    commands = [subprocess.Popen([PFW, "overlap", "-q", "--rank", str(number % 3), made], stdout=subprocess.PIPE,
                                 env=environment(tmp_path), text=True) for number in range(9)]
    assert [command.communicate()[0] for command in commands] == expected
    assert sorted(path.name for path in made.iterdir() if path.name.startswith(".")) == [NAME]
    assert overlap(tmp_path, "-q", made).stdout == true(tmp_path, made).stdout
