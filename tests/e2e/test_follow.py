"""Programs that are started with a cleaned environment: noted, or brought along with PFW_FOLLOW."""
import os
import shutil

import pytest

from harness import (BUILD, CROSS_CC, LIB_DIR, PRELOAD, RUNTIME, check_trace, compile_c, own, run, trace_names,
                     traced_environment)

TARGET = BUILD / "tests/follow_target"
EXECS = ("execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat")
WAYS = (*EXECS, *(f"fork+{name}" for name in EXECS), "vfork+execve", "vfork+execvp", "clone+execve",
        "clone+execvpe", "posix_spawn", "posix_spawnp", "system", "popen")
LIBC_STARTS = ("system", "popen")  # with the environment that the program has made its own
ASK = "echo $$; tr '\\0' '\\n' </proc/$$/environ"
WITHOUT_PRELOAD = "environment without LD_PRELOAD"


@pytest.fixture(name="world")
def make_world(tmp_path):
    for name in ("t", "s", "d"):
        (tmp_path / name).mkdir()
    return tmp_path


def start(world, how, *variables, words=("/bin/sh", "-c", ASK), status=0, said="", **settings):
    """(what the program printed, its pid, [traces])"""
    environment = traced_environment(world / "t/t", world / "s", **settings)
    done = run([TARGET, how, *variables, "--", *words], environment, world / "d", status)
    assert done.stderr == said and not os.listdir(world / "s"), done.stderr
    traces = [check_trace(world / "t" / name) for name in trace_names(world / "t")]
    pid, *printed = done.stdout.splitlines() or ("0",)
    return printed, int(pid), traces


def untraced(traces):
    return [line["args"] for lines in traces for line in own(lines, "untraced_child")]


@pytest.mark.parametrize("how", WAYS)
def test_a_cleaned_environment_stays_and_is_said(world, how):
    printed, pid, traces = start(world, how, "A=1", "B=2")
    assert printed == ["A=1", "B=2"]
    assert not any(lines[0]["args"]["cmd"].startswith("/bin/sh") for lines in traces)
    known = None if how in LIBC_STARTS else pid
    assert untraced(traces) == [{"pid": known, "why": WITHOUT_PRELOAD}]


def test_an_untraced_program_leaves_no_spool(world):
    """It cannot remove that of the program which it replaces: start() looks for one."""
    printed, _, traces = start(world, "execve", "A=1", PFW_CHILDREN="none")
    assert printed == ["A=1"] and not untraced(traces)
    (world / "api.c").write_text('#include <pfw/pfw.h>\n#include <unistd.h>\nint main(void)\n{\n'
                                 '\tpfw_start(NULL);\n\tpfw_instant("a", "b");\n'
                                 '\treturn execl("/bin/true", "true", NULL);\n}\n')
    program = compile_c(world / "api.c", world / "api", f"-L{LIB_DIR}", "-lpfw", f"-Wl,-rpath,{LIB_DIR}")
    run([program], traced_environment(world / "t/api", world / "s", LD_PRELOAD="", DFTRACER_INIT="FUNCTION"))
    assert check_trace(world / "t/api.pfw")[-1]["args"]["reason"] == "exec"
    assert trace_names(world / "t") == ["api.pfw", "t.pfw"] and not os.listdir(world / "s")


@pytest.fixture(name="static", scope="module")
def make_static(tmp_path_factory):
    place = tmp_path_factory.mktemp("static")
    (place / "a.c").write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", getpid()); }\n')
    compile_c(place / "a.c", place / "static", "-static")
    if shutil.which("musl-gcc"):
        compile_c(place / "a.c", place / "musl", compiler="musl-gcc")
    (place / "script").write_text(f"#! {place}/static any\n")
    (place / "script").chmod(0o755)
    return place


STATIC = "linked statically: nothing can be preloaded into it"
MUSL = "linked against musl: only programs that use glibc can be traced"
musl = pytest.mark.skipif(CROSS_CC is not None or bool(RUNTIME) or not shutil.which("musl-gcc"),
                          reason="no musl-gcc, or musl cannot load a sanitizer's runtime")


@pytest.mark.parametrize("name, why", [("static", STATIC), ("script", STATIC), pytest.param("musl", MUSL, marks=musl)])
@pytest.mark.parametrize("how", ["execve", "execvp", "vfork+execve", "fork+execvp", "posix_spawn", "posix_spawnp"])
def test_a_program_without_our_linker_is_said_and_leaves_no_spool(world, static, how, name, why):
    """Our variables are there, and do nothing; musl's linker loads the preload object.  start() looks for a spool."""
    word = name if how.endswith("p") else static / name
    path = f"/nowhere:{static}:/bin"
    said = "pfw: the recorder needs glibc, and this program uses another libc; the program runs untraced\n"
    printed, pid, traces = start(world, how, f"LD_PRELOAD={PRELOAD}", "DFTRACER_ENABLE=1", f"PATH={path}", words=(word,),
                                 said=said if name == "musl" else "", PATH=path)
    assert not printed and untraced(traces) == [{"pid": pid, "why": why}]


@pytest.mark.parametrize("how", WAYS)
def test_follow_puts_our_variables_back(world, how):
    printed, pid, traces = start(world, how, "A=1", "LD_PRELOAD=libm.so.6", "PFW_FLUSH_MS=7",
                                 PFW_FOLLOW="1", PFW_FLUSH_MS="9")
    if how in LIBC_STARTS:
        assert printed == ["A=1", "LD_PRELOAD=libm.so.6", "PFW_FLUSH_MS=7"] and untraced(traces)
        return
    assert not untraced(traces)
    assert printed[0] == "A=1" and len(set(printed)) == len(printed)
    assert f"LD_PRELOAD={PRELOAD}:libm.so.6" in printed and "PFW_FOLLOW=1" in printed
    assert "PFW_FLUSH_MS=7" in printed and "PFW_FLUSH_MS=9" not in printed
    assert any(lines[0]["pid"] == pid and lines[0]["args"]["cmd"].startswith("/bin/sh")
               for lines in traces)


@pytest.mark.parametrize("how", EXECS[:-2] + ("vfork+execve", "fork+execvpe", "posix_spawn"))
def test_a_complete_environment_is_left_alone(world, how):
    _, pid, traces = start(world, how, "same", PFW_FOLLOW="1")
    assert not untraced(traces) and any(lines[0]["pid"] == pid for lines in traces)


def test_what_is_missing_is_said(world):
    _, pid, traces = start(world, "fork+execve", f"LD_PRELOAD={PRELOAD}")
    assert untraced(traces) == [{"pid": pid, "why": "environment without DFTRACER_ENABLE"}]


@pytest.mark.parametrize("settings", [{}, {"PFW_FOLLOW": "1"}])
def test_what_was_switched_off_is_no_loss(world, settings):
    """Nor what PFW_CHILDREN leaves out."""
    printed, _, traces = start(world, "fork+execve", f"LD_PRELOAD={PRELOAD}", "DFTRACER_ENABLE=0",
                               **settings)
    assert len(printed) == 2 and not untraced(traces)
    for name in trace_names(world / "t"):
        os.remove(world / "t" / name)
    printed, _, traces = start(world, "fork+execve", "A=1", PFW_CHILDREN="none", **settings)
    assert printed == ["A=1"] and not untraced(traces)


@pytest.mark.parametrize("settings", [{}, {"PFW_FOLLOW": "1"}])
@pytest.mark.parametrize("how", ["execve", "vfork+execve", "fork+execvpe", "clone+execve"])
def test_what_cannot_be_started_is_not_noted(world, how, settings):
    *_, traces = start(world, how, "bad", status=101, **settings)
    assert not untraced(traces)
    for name in trace_names(world / "t"):
        os.remove(world / "t" / name)
    *_, traces = start(world, how, "A=1", words=("/no/such", "x", "y"), status=102, **settings)
    assert not untraced(traces)


def test_a_program_that_only_cleans_leaves_a_trace_that_says_so(world):
    """`env -i` itself has nothing else to record."""
    environment = traced_environment(world / "t/t", world / "s", DFTRACER_DATA_DIR=str(world))
    done = run(["sh", "-c", "env -i /usr/bin/env; exit 3"], environment, world / "d", 3)
    assert done.stdout == "" and done.stderr == ""
    traces = [check_trace(world / "t" / name) for name in trace_names(world / "t")]
    (noted,) = untraced(traces)
    assert noted["why"] == WITHOUT_PRELOAD
    (lines,) = [lines for lines in traces if own(lines, "untraced_child")]
    assert noted["pid"] == lines[0]["pid"] and lines[-1]["args"]["exec"] == "/usr/bin/env"
