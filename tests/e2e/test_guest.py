"""A program does not notice its guest: children of clone(), permissions, keys of threads."""
import os
import shutil
import tempfile

import pytest

import harness

TARGET = harness.BUILD / "tests" / "guest_target"


def traced(tmp_path, *arguments, status=0, limits=None, **variables):
    """Run the target traced; its end, and the directory of its spools."""
    spools = tmp_path / "spools"
    spools.mkdir(exist_ok=True)
    environment = harness.traced_environment(tmp_path / "t", spools, **variables)
    done = harness.run([TARGET, *arguments], environment, tmp_path, status, preexec_fn=limits)
    return done, spools


@pytest.mark.parametrize("compressed", "01")
def test_child_of_clone_ends_as_any_other(tmp_path, compressed):
    """libc ends it past exit(), by a bare system call, when its function returns."""
    _, spools = traced(tmp_path, "clone", "20", DFTRACER_TRACE_COMPRESSION=compressed)
    assert not os.listdir(spools)
    names = harness.trace_names(tmp_path)
    assert len(names) == 21
    for name in names:
        lines = harness.check_trace(tmp_path / name, reasons=("exit",))
        if "-pid" in name:
            assert len(harness.events(lines, "pread")) == 20


def test_child_in_our_memory_does_not_end_our_trace(tmp_path):
    """Of clone() with CLONE_VM and without CLONE_VFORK, or past libc: by its pid it is known."""
    traced(tmp_path, "shared", "4")
    lines = harness.check_trace(tmp_path / "t.pfw", reasons=("exit",))
    assert len(harness.events(lines, "pread")) == 4 * 25
    assert [line["name"] for line in lines].count("end") == 1


@pytest.mark.parametrize("begin", ["PRELOAD", "FUNCTION"])
def test_a_program_that_has_cleared_its_environment(tmp_path, begin):
    """Then `environ` is NULL; the recorder reads it when a program is started, and in pfw_start()."""
    traced(tmp_path, "clearenv", "1", DFTRACER_INIT=begin)
    if begin == "PRELOAD":
        lines = harness.check_trace(tmp_path / "t.pfw", reasons=("exit",))
        assert len(harness.events(lines, "pread")) == 3


@pytest.mark.parametrize("left", "01")
def test_keys_of_the_program_stay_its_own(tmp_path, left):
    """Thread-local data: there may be no key left for us, and then the key 0 is the program's."""
    traced(tmp_path, "keys", left, DFTRACER_INIT="FUNCTION")
    (name,) = harness.trace_names(tmp_path)
    assert len(harness.events(harness.check_trace(tmp_path / name), "pread")) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_set_user_id_program_is_not_traced():
    """It may be linked to the recorder; who starts it must not choose what it writes where."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        program = shutil.copy(harness.BUILD / "tests" / "linked_attach_target", f"{name}/program")
        os.chmod(program, 0o4755)
        where = os.path.join(name, "private")
        os.mkdir(where, 0o700)
        environment = harness.traced_environment(f"{where}/t", where)
        for user, written in ((65534, False), (0, True)):
            harness.run([program, "once", "/etc/passwd"], environment, "/", None, user=user, group=user)
            assert bool(os.listdir(where)) == written
