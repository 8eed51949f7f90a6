"""Where an index goes whose trace's directory is not this user's to write in: docs/security.rst."""
import os
import re
import sqlite3
import time

import pytest

from attack import ALICE, MALLORY, end_line, event_lines, needs_root, process_line, as_user, text_of
from harness import PFW, clean_environment, run

pytestmark = needs_root


def make(path, user, count=300, mode=0o644):
    """A finished trace of `count` events."""
    path.write_text(text_of([process_line(), *event_lines(count), end_line(number=count + 2, events=count)]))
    path.chmod(mode)
    os.chown(path, user, user)
    return path


@pytest.fixture(name="home")
def homes(place):
    """A home of Alice's, beside a directory `d` of root's with a trace of hers."""
    home = place / "alice"
    for path in (home, place / "d"):
        path.mkdir()
    os.chown(home, ALICE, ALICE)
    make(place / "d" / "t.pfw", ALICE)
    return home


def ask(home, *words, user=ALICE, status=0, **variables):
    """As that user with that home; None: without one."""
    environment = clean_environment(**{"PFW_INDEX_EVENTS": "10", **variables})
    environment.pop("XDG_CACHE_HOME", None)
    environment.pop("HOME", None)
    environment.update(variables, **({} if home is None else {"HOME": str(home)}))
    return run(as_user(user, PFW, *words) if user else [PFW, *words], environment, status=status)


def cached(home):
    return sorted((home / ".cache" / "pfw").glob("*"))


def forge(index):
    with sqlite3.connect(index) as database:
        database.execute("UPDATE name SET count = count + 600 WHERE name = 'read'")
    database.close()


def test_it_is_in_the_cache(home, place):
    trace = place / "d" / "t.pfw"
    true = ask(home, "table", "--no-index", trace).stdout
    assert not (home / ".cache").exists()
    first = ask(home, "table", trace)
    index, link = cached(home)
    assert first.stdout == true and f"made {index}:" in first.stderr
    assert re.fullmatch(r"[0-9a-f]{16}\.idx", index.name) and link.name == index.stem + ".trace"
    assert os.readlink(link) == str(trace)
    assert [oct(path.stat().st_mode & 0o777) for path in (home / ".cache", index.parent, index)] == \
        ["0o700", "0o700", "0o600"]
    assert ask(home, "table", trace).stderr == "" and ask(home, "index", "--check", trace).returncode == 0
    forge(index)
    assert "900" in ask(home, "table", trace).stdout  # it is what answers
    assert ask(home, "table", "--no-index", trace).stdout == true
    assert os.listdir(place / "d") == ["t.pfw"]
    assert str(index) in ask(home, "index", trace).stdout  # asked for, the same place
    assert ask(home, "table", trace).stdout == true
    os.truncate(trace, trace.stat().st_size // 2)  # of another state: not believed
    assert ask(home, "query", "--count", trace, status=None).stdout.strip() != "300"


def test_without_a_home_it_is_only_read(home, place):
    trace = place / "d" / "t.pfw"
    true = ask(home, "table", "--no-index", trace).stdout
    locked = place / "locked"
    locked.mkdir()
    homes = [None, "", "relative", "/nonexistent", str(locked)]
    for where in homes:
        done = ask(where, "table", trace)
        assert (done.stdout, done.stderr) == (true, "")
    done = ask(home, "table", trace, XDG_CACHE_HOME=str(locked))
    assert (done.stdout, done.stderr) == (true, "")
    home.chmod(0o500)  # hers, but not writable
    assert (ask(home, "table", trace).stdout, os.listdir(home)) == (true, [])
    assert not list(locked.iterdir())


def test_nobody_elses_cache_is_used(home, place):
    trace = place / "d" / "t.pfw"
    ask(home, "table", trace)
    index, _ = cached(home)
    forge(index)
    true = ask(home, "table", "--no-index", trace).stdout
    for path, user, mode in ((index.parent, MALLORY, 0o755), (index.parent, ALICE, 0o777), (index, MALLORY, 0o644)):
        was = path.stat()
        os.chown(path, user, user)
        path.chmod(mode)
        assert ask(home, "table", trace, PFW_INDEX_EVENTS="0").stdout == true
        os.chown(path, ALICE, ALICE)
        path.chmod(was.st_mode & 0o777)
    assert ask(home, "table", trace).stdout != true
    index.parent.rename(place / "pfw")
    index.parent.symlink_to(place / "pfw")
    assert ask(home, "table", trace, PFW_INDEX_EVENTS="0").stdout == true


def test_root_makes_nothing_in_other_users_directories(home, place):
    """Neither beside their traces nor, with their HOME (as sudo leaves it), there."""
    theirs = place / "m"
    theirs.mkdir()
    os.chown(theirs, MALLORY, MALLORY)
    traces = [make(theirs / "t.pfw", MALLORY), make(theirs / "r.pfw", 0)]
    for trace in traces:
        true = ask(home, "table", "--no-index", trace, user=None).stdout
        done = ask(home, "table", trace, user=None)
        assert (done.stdout, done.stderr) == (true, "")
    assert sorted(os.listdir(theirs)) == ["r.pfw", "t.pfw"] and os.listdir(home) == []
    roots = place / "root"
    roots.mkdir()
    for trace in traces:
        assert f"made {roots}/.cache/pfw/" in ask(roots, "table", trace, user=None).stderr
    assert sorted(os.listdir(theirs)) == ["r.pfw", "t.pfw"]
    mine = make(place / "d" / "mine.pfw", 0)
    assert f"made {mine}.idx" in ask(roots, "table", mine, user=None).stderr


def test_no_file_of_others_is_replaced(home, place):
    shared = place / "s"
    shared.mkdir()
    shared.chmod(0o777)
    trace = make(shared / "t.pfw", ALICE)
    for user, text in ((MALLORY, "x"), (ALICE, "somebody's notes")):
        beside = shared / "t.pfw.idx"
        beside.write_text(text)
        os.chown(beside, user, user)
        assert f"made {home}/.cache/pfw/" in ask(home, "table", trace).stderr
        assert beside.read_text() == text and beside.stat().st_uid == user
        for path in cached(home):
            path.unlink()
    beside.unlink()
    assert f"made {trace}.idx" in ask(home, "table", trace).stderr  # his directory or not: her trace
    # A newer pfw made it: the two must not take turns.
    with open(beside, "r+b") as file:
        file.seek(60)
        file.write((1000).to_bytes(4, "big"))
    assert f"made {home}/.cache/pfw/" in ask(home, "table", trace).stderr
    assert ask(home, "table", trace).stderr == ""
    # Another user's trace: he would not believe her index.
    his = make(shared / "his.pfw", MALLORY)
    assert f"made {home}/.cache/pfw/" in ask(home, "table", his).stderr
    assert not (shared / "his.pfw.idx").exists()


def test_the_cache_does_not_grow_without_end(home, place):
    trace = place / "d" / "t.pfw"
    ask(home, "table", trace)
    index, link = cached(home)
    directory = index.parent
    now = time.time()

    def fake(name, mebibytes, age, target):
        for suffix in (".idx", ".trace"):
            path = directory / (name * 16 + suffix)
            if suffix == ".trace":
                path.symlink_to(target)
            else:
                path.touch()
                os.truncate(path, mebibytes << 20)
                os.utime(path, (now - age, now - age))
            os.chown(path, ALICE, ALICE, follow_symlinks=False)
    fake("a", 500, 300, trace)
    fake("b", 400, 200, trace)
    fake("c", 300, 100, trace)
    fake("d", 1, 10, place / "gone.pfw")
    (directory / "notes.idx").touch()
    (directory / ("e" * 16 + ".idx.tmp")).touch()
    os.utime(directory / ("e" * 16 + ".idx.tmp"), (now - 90000, now - 90000))
    (directory / ("f" * 16 + ".idx.tmp")).touch()
    index.unlink()
    ask(home, "table", trace)
    left = {path.name[:1] for path in cached(home) if path not in (index, link)}
    assert left == {"b", "c", "n", "f"}  # the oldest, the one of no trace and the one left over are gone
    assert index.exists() and link.exists()
