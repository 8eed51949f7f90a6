"""A program that gives up rights: the writer's thread follows it, and no event is lost (docs/security.rst)."""
import ctypes
import os
import pathlib

import pytest

from harness import (PFW, check_trace, clean_environment, compile_c, events, run, trace_names,
                     traced_environment)

HERE = pathlib.Path(__file__).parent
NONE = "0" * 16

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")


def has_landlock():
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0


needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return compile_c(HERE / "sandbox_target.c", tmp_path_factory.mktemp("target") / "target")


def traced(target, tmp_path, *words):
    """Run the words: what its threads were at each word `threads`, [{what it may: value}]."""
    (tmp_path / "spools").mkdir()
    done = run([target, *words],
               traced_environment(tmp_path / "t", tmp_path / "spools", PFW_FLUSH_MS="50"))
    assert not done.stderr
    return [[dict(word.split(":\t") for word in line.split(" ")[1:]) for line in part.splitlines()]
            for part in done.stdout.split("threads\n")[1:]]


def check_events(tmp_path, *counts):
    """Of each trace the calls of access(); nothing is lost."""
    found = [len(events(check_trace(tmp_path / name), "access")) for name in trace_names(tmp_path)]
    assert sorted(found) == sorted(counts)


# ---- capabilities, no_new_privs ----

@needs_root
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "first"])
@pytest.mark.parametrize("word, key, value", [
    ("caps", "CapEff", NONE), ("caps", "CapPrm", NONE), ("caps-by-number", "CapPrm", NONE),
    ("bound", "CapBnd", None), ("no-new-privileges", "NoNewPrivs", "1"),
    ("no-new-privileges-by-number", "NoNewPrivs", "1")])
def test_the_writer_keeps_no_right(target, tmp_path, word, key, value, begun):
    """Whether its thread runs when the program gives the right up, or starts later."""
    before, after = traced(target, tmp_path, *(["100"] if begun else []), "threads", word, "20",
                           "threads", "idle", "7")
    check_events(tmp_path, 127 if begun else 27)
    assert len(after) == 2, "the program's thread and the writer's"
    assert after[0] == after[1]
    assert after[0][key] != before[0][key] and value in (None, after[0][key])


@needs_root
def test_a_place_that_only_its_rights_reached(target, tmp_path):
    """Another user's directory: the trace is made and held before root becomes nobody special."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chmod(theirs, 0o700)
    os.chown(theirs, 65534, 65534)
    (tmp_path / "spools").mkdir()
    for words in (["100", "caps", "idle", "7"], ["caps", "idle", "107"]):
        done = run([target, *words], traced_environment(theirs / "t", tmp_path / "spools"))
        assert not done.stderr
    check_events(theirs, 107, 107)


@needs_root
@pytest.mark.parametrize("words, counts", [
    (["100", "user", "idle", "7"], [107]), (["user", "idle", "107"], [107]),
    (["100", "child-user", "7"], [10, 107]), (["100", "child-caps", "7"], [10, 107]),
    (["100", "child-root", "7"], [10, 107])], ids=lambda value: "+".join(map(str, value)))
def test_the_trace_is_made_before_rights_are_given_up(target, tmp_path, words, counts):
    """Also by a child whose first call it is: it has neither a spool nor a trace before."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 1, 1)
    (tmp_path / "spools").mkdir()
    done = run([target, *words], traced_environment(theirs / "t", tmp_path / "spools"))
    assert not done.stderr
    run([PFW, "repair", theirs], clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    check_events(theirs, *counts)


# ---- Landlock ----

@needs_landlock
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "first"])
def test_nothing_is_lost_under_landlock(target, tmp_path, begun):
    """Also after the writer had nothing to do: it cannot open the trace again.  It is under the same
    rules: it can no longer remove the spool, which others do."""
    traced(target, tmp_path, *(["100"] if begun else []), "landlock", "20000", "idle", "7")
    # The target's own look whether it is under Landlock is one more.
    check_events(tmp_path, 20108 if begun else 20008)
    assert len(os.listdir(tmp_path / "spools")) == 1, "the writer is not under Landlock"
    run([PFW, "repair", tmp_path / "t.pfw"], clean_environment(PFW_SPOOL_DIR=str(tmp_path / "spools")))
    assert not os.listdir(tmp_path / "spools")


@needs_landlock
def test_a_child_under_landlock_is_said(target, tmp_path):
    """It can make no trace of its own."""
    (tmp_path / "spools").mkdir()
    done = run([target, "100", "landlock", "child", "7"],
               traced_environment(tmp_path / "t", tmp_path / "spools"))
    assert "cannot create the trace" in done.stderr
    check_events(tmp_path, 108)


# ---- seccomp ----

@pytest.mark.parametrize("words", [["filter"], ["filter-by-number"], ["kill-other"],
                                   ["filter-all-threads"], ["filter", "filter-all-threads"],
                                   ["filter-by-number", "kill-other", "filter-all-threads"]],
                         ids="+".join)
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "first"])
def test_the_writer_is_under_the_filter(target, tmp_path, words, begun):
    """The same one: else the kernel would refuse to put a later filter on all threads."""
    (threads,) = traced(target, tmp_path, *(["100"] if begun else []), *words, "20", "threads",
                        "idle", "7")
    check_events(tmp_path, 127 if begun else 27)
    assert [thread["Seccomp"] for thread in threads] == ["2", "2"]
    assert [thread["NoNewPrivs"] for thread in threads] == ["1", "1"]


def test_nothing_is_lost_where_a_filter_refuses_to_open(target, tmp_path):
    traced(target, tmp_path, "100", "refuse-open", "20", "idle", "7")
    check_events(tmp_path, 127)


@pytest.mark.parametrize("words", [["refuse-pwrite"], ["thread", "filter"]], ids="+".join)
def test_the_writer_stays_outside(target, tmp_path, words):
    """Of a filter that may refuse what it needs, and of one that another thread is outside of, too."""
    (threads,) = traced(target, tmp_path, "100", *words, "20", "threads", "idle", "7")
    check_events(tmp_path, 127)
    assert sorted(thread["Seccomp"] for thread in threads) == ["0"] * (len(threads) - 1) + ["2"]


def test_a_filter_for_all_threads_after_one_that_the_writer_is_outside_of(target, tmp_path):
    (threads,) = traced(target, tmp_path, "100", "refuse-pwrite", "filter-all-threads", "20", "threads")
    check_events(tmp_path, 120)
    assert [thread["Seccomp"] for thread in threads] == ["2", "2"]


@pytest.mark.parametrize("words, call, counts", [
    (["whitelist", "idle", "child", "7"], "futex", 100),
    (["kill-writing-to-7", "7", "child"], "pwrite64", 100),
    (["filter", "20", "whitelist", "child", "7"], "futex", 120),
    (["idle", "whitelist", "7"], "futex", 100)],
                         ids=lambda value: "+".join(value) if isinstance(value, list) else None)
def test_recording_ends_before_a_filter_that_kills(target, tmp_path, words, call, counts):
    """The program goes on to its end, with its children, and the trace is whole up to the filter."""
    (tmp_path / "spools").mkdir()
    done = run([target, "100", *words], traced_environment(tmp_path / "t", tmp_path / "spools"))
    assert done.stderr.startswith("pfw: recording ends here: ") and f" {call}()," in done.stderr
    assert done.stderr.count("\n") == 1 and not os.listdir(tmp_path / "spools")
    lines = check_trace(tmp_path / "t.pfw", reasons=("seccomp",))
    assert len(events(lines, "access")) == counts
    assert trace_names(tmp_path) == ["t.pfw"]


def test_recording_ends_before_the_strict_mode(target, tmp_path):
    (tmp_path / "spools").mkdir()
    done = run([target, "100", "strict", "raw-exit"],
               traced_environment(tmp_path / "t", tmp_path / "spools"), status=3)
    assert "recording ends here" in done.stderr
    assert len(events(check_trace(tmp_path / "t.pfw", reasons=("seccomp",)), "access")) == 100


@pytest.mark.skipif(os.geteuid() != 0, reason="others must set no_new_privs, and need not try")
def test_a_filter_that_the_kernel_refuses_ends_nothing(target, tmp_path):
    traced(target, tmp_path, "100", "no-new-privileges", "bad-filter", "20")
    check_events(tmp_path, 120)
