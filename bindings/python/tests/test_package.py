"""What `pip install` gives: the module, the command, and what C programs build with."""
import importlib.metadata
import pathlib
import shutil
import subprocess
import sys

import pytest

import pfw

from conftest import PFW

PACKAGE = pathlib.Path(pfw.__file__).parent
PROGRAM = """
#include <pfw/pfw.h>
int main(void)
{
    pfw_start(0);
    { PFW_SPAN("in C"); }
    return pfw_stop();
}
"""


def test_version_is_that_of_the_recorder_and_of_the_command(run):
    assert pfw.__version__ == importlib.metadata.version("pfwtrace")
    assert run.command(PFW, "--version") == f"pfw {pfw.__version__}\n"


def test_nothing_is_required_and_types_are_there():
    required = importlib.metadata.requires("pfwtrace") or []
    assert [line for line in required if "extra ==" not in line] == []
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_core.pyi").exists()


def test_installed_is_small_and_ours():
    files = importlib.metadata.files("pfwtrace")
    assert sum(file.locate().stat().st_size for file in files) < 6 << 20
    tops = {file.parts[0] for file in files if not file.parts[0].startswith(("..", "pfwtrace-"))}
    assert tops == {"pfw"}


def test_command_finds_its_libraries(run):
    assert run.command(PFW, "config", "--preload").strip() == str(PACKAGE / "lib/libpfw_preload.so")


def test_one_recorder_under_pfw_run(run):
    run.traced("""
        import pfw
        maps = {line.split()[-1] for line in open("/proc/self/maps") if "libpfw.so" in line}
        assert len(maps) == 1, maps
        with pfw.span("work"):
            open("file", "w").write("x")
        """)
    assert "work" in run.spans() and run.spans(cat="POSIX")["write"]["args"]["fname"].endswith("/file")


def test_c_program_builds_against_it(run):
    run.save(PROGRAM, "c.c")
    flags = run.command(PFW, "config", "--cflags", "--libs").split()
    assert flags == [*run.command(PFW, "config", "--cflags").split(),
                     *run.command(PFW, "config", "--libs").split()]
    # Wherever they stand, with weak references or strong ones, whatever the compiler's own --as-needed.
    for number, words in enumerate((["c.c", *flags], [*flags, "c.c"], [*flags, "-DPFW_OPTIONAL", "c.c"])):
        run.command("cc", "-Wl,--as-needed", "-o", "c", *words)
        run.command("./c", DFTRACER_LOG_FILE=f"t{number}")
        assert "in C" in run.spans(f"t{number}.pfw"), words


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_c_program_builds_with_cmake(run):
    run.save(PROGRAM, "c.c")
    run.save("""
        cmake_minimum_required(VERSION 3.16)
        project(c C)
        find_package(pfw REQUIRED)
        add_executable(c c.c)
        target_link_libraries(c pfw::pfw)
        if(NOT EXISTS ${PFW_EXECUTABLE})
            message(FATAL_ERROR "no ${PFW_EXECUTABLE}")
        endif()
        """, "CMakeLists.txt")
    place = run.command(PFW, "config", "--cmake-dir").strip()
    run.command("cmake", "-S", ".", "-B", "b", f"-Dpfw_DIR={place}")
    run.command("cmake", "--build", "b")
    run.command("b/c", DFTRACER_LOG_FILE="t")
    assert "in C" in run.spans()


def test_extension_finds_the_recorder_by_its_name():
    needed = subprocess.run(["readelf", "-d", PACKAGE / "_core.abi3.so"], check=True, text=True,
                            capture_output=True).stdout
    assert "[libpfw.so.1]" in needed and "libpython" not in needed


def test_without_the_library_nothing_raises(run):
    shutil.copytree(PACKAGE, run.directory / "pfw", ignore=shutil.ignore_patterns("lib"))
    run.script("""
        import pfw
        assert not pfw.start("t")
        with pfw.span("a", x=1) as span:
            span.set(y=2)
        pfw.instant("b"); pfw.counter("c", 1.0); pfw.event("d", 1, 2); pfw.step()
        pfw.compute_event("e", 1, 2, kind="kernel")
        pfw.schedule(active=1); pfw.on_trace_ready(print); pfw.set_rank(0, 2)
        assert pfw.stats().events == 0
        pfw.flush(); pfw.stop()
        print(pfw.__file__)
        """)
    assert str(run.directory) in run.output
    assert run.errors.count("\n") == 1 and "nothing is recorded" in run.errors
    assert not list(run.directory.glob("*.pfw"))


def test_disabled_leaves_nothing(run):
    run.script("""
        import pfw
        assert not pfw.start("t")
        with pfw.span("a"):
            pass
        """, DFTRACER_ENABLE="0")
    assert not list(run.directory.glob("*.pfw")) and not run.errors


def test_import_loads_little(run):
    """What a program that only records does not use takes longer to import than pfw."""
    name = run.save(f"""
        import os, sys
        before = set(sys.modules)
        sys.path.insert(0, {str(pathlib.Path(pfw.__file__).parent.parent)!r})
        import pfw
        pfw.start("t")
        with pfw.span("a"):
            pass
        print(sorted({{"typing", "inspect", "re", "enum", "importlib.util", "json"}} & set(sys.modules) - before))
        """)
    run.command(sys.executable, "-I", "-S", name)
    assert run.output == "[]\n"
