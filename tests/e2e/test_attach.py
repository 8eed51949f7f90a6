"""I/O without the preload object: pfw_start() redirects the calls of all objects, pfw_stop() puts them back.

The calls themselves are held to their table in test_calls.py, both ways.  Here: programs and
libraries linked in each way there is, objects that come and go, and the words in memory.
"""
import collections
import os
import platform
import re
import subprocess

import pytest

import harness

SOURCE = harness.SOURCE / "tests/e2e/linked_attach_target.c"
LIBRARY = """
#include <fcntl.h>
#include <unistd.h>
void library_use(const char *path)
{
	char buf[16];
	int fd = open(path, O_RDONLY | O_CREAT, 0600);
	(void)!read(fd, buf, sizeof(buf));
	close(fd);
}
"""
CONSTRUCTOR = """
__attribute__((constructor)) static void begin(void) { library_use("constructor"); }
"""
LINKS = {
    "now": ["-Wl,-z,relro,-z,now"],
    "lazy": ["-Wl,-z,relro,-z,lazy"],
    "norelro": ["-Wl,-z,norelro,-z,lazy"],
    "noplt": ["-fno-plt", "-Wl,-z,relro,-z,now"],
    "nopie": ["-no-pie", "-fno-pie", "-Wl,-z,relro,-z,lazy"],
    "nopie-now": ["-no-pie", "-fno-pie", "-Wl,-z,relro,-z,now"],
}
WITH_RECORDER = [f"-L{harness.LIB_DIR}", "-lpfw", f"-Wl,-rpath,{harness.LIB_DIR}"]
CALLS = {"open", "read", "close"}


def environment(top, **variables):
    (top / "spools").mkdir(exist_ok=True)
    kept = harness.traced_environment(top / "t", top / "spools", DFTRACER_INIT="FUNCTION",
                                      **variables)
    del kept["LD_PRELOAD"]
    return {**kept, **({"LD_PRELOAD": variables["LD_PRELOAD"]} if "LD_PRELOAD" in variables else {})}


def make_library(top, name, text, *flags):
    source = top / f"{name}.c"
    source.write_text(text)
    return harness.compile_c(source, top / name, "-shared", "-fPIC", *flags)


def make_program(top, *flags):
    return harness.compile_c(SOURCE, top / "program", *flags, *WITH_RECORDER, "-ldl")


def seen(top, name="t.pfw"):
    """{(call, file): how often} of the I/O below top, but for the files of words()."""
    lines = harness.check_trace(top / name)
    return collections.Counter(
        (line["name"], os.path.relpath(line["args"]["fname"], top))
        for line in harness.events(lines)
        if re.match(f"{re.escape(str(top))}/(?!words)", str(line["args"].get("fname", ""))))


def each(*names, times=1):
    return {(call, name): times for call in CALLS for name in names}


# ---- words in memory ----

def calls_of(path):
    """Where in an ELF file the addresses of our three calls go."""
    text = harness.run(["readelf", "-rW", harness.program_file(path)]).stdout
    return [int(found[1], 16) for found in
            re.finditer(r"^([0-9a-f]+) .* R_\w+ +[0-9a-f]+ (open|read|close)@\S+ \+ 0$", text, re.M)]


class Memory:
    """What words() wrote: the words, and how the pages that they are in are mapped."""

    def __init__(self, path):
        words, maps = path.read_text().split("\n\n", 1)
        self.maps = [(int(start, 16), int(end, 16), mode) for start, end, mode in
                     re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+)", maps, re.M)]
        self.word, self.page = {}, {}
        for line in words.splitlines():
            name, offset, address, value = line.split()
            self.word[name, offset] = int(value, 16)
            self.page[name, offset] = self.mode(int(address, 16))

    def mode(self, address):
        return next(mode for start, end, mode in self.maps if start <= address < end)


@pytest.mark.parametrize("link", LINKS)
def test_all_and_back(tmp_path, link):
    flags = LINKS[link]
    program = make_program(tmp_path, *flags)
    shared = [flag for flag in flags if "pie" not in flag]
    needed = make_library(tmp_path, "needed.so", LIBRARY, *shared)
    late = make_library(tmp_path, "late.so", LIBRARY + CONSTRUCTOR, *shared)
    slots = [("program", offset) for offset in calls_of(program)] + \
        [(path.name, offset) for path in (needed, late) for offset in calls_of(path)]
    assert len(slots) >= 9 - 3 * (link == "nopie-now")
    (tmp_path / "words").write_text("".join(f"{name} {offset:x}\n" for name, offset in slots))
    result = harness.run([program, "all", needed, late], environment(tmp_path), tmp_path)
    assert result.stderr == ""

    expected = each("program", "table", "needed", "again")
    expected.update(each("late", "constructor", times=3))
    assert seen(tmp_path) == expected

    memory = {when: Memory(tmp_path / f"words.{when}")
              for when in ("before", "during", "loaded", "after", "end")}
    for later in memory.values():
        assert not [mode for _, _, mode in later.maps if "w" in mode and "x" in mode]
        assert {key: later.page[key] for key in memory["before"].page if key in later.page} == \
            {key: mode for key, mode in memory["before"].page.items() if key in later.page}
    before, during, after = (memory[when].word for when in ("before", "during", "after"))
    assert all(before[key] != during[key] for key in before)
    came = {key: mode for key, mode in memory["loaded"].page.items() if key[0] == "late.so"}
    assert set(came.values()) == ({"r--p"} if link in ("now", "noplt", "nopie-now") else {"rw-p"})
    assert all(memory["loaded"].word[key] != value for key, value in after.items())
    # What the linker had not resolved yet is resolved now; all else is as it was.
    resolved = {value for key, value in before.items() if key[0] == "program"}
    if link == "now":
        assert before == {key: after[key] for key in before}
    for key, value in before.items():
        assert after[key] == value or (key[0] == "needed.so" and after[key] in resolved), key
    assert all(memory["end"].word[key] == after[key] for key in before)


# ---- objects ----

def test_object_without_start_up_code(tmp_path):
    program = make_program(tmp_path)
    bare = make_library(tmp_path, "bare.so", LIBRARY, "-nostartfiles", "-Wl,-z,lazy")
    harness.run([program, "untold", bare], environment(tmp_path, PFW_FLUSH_MS="50"), tmp_path)
    found = seen(tmp_path)
    names = [number for number in range(150) if found[("open", f"untold{number}")]]
    assert names and names == list(range(names[0], 150))
    assert found[("close", "untold149")] == 1


def test_function_of_the_programs_own_is_left_alone(tmp_path):
    """The program exports a read() that is not libc's: it is neither recorded nor replaced."""
    library = make_library(tmp_path, "needed.so", LIBRARY)
    source = tmp_path / "own.c"
    source.write_text("""
        #include <pfw/pfw.h>
        #include <stdio.h>
        #include <unistd.h>
        void library_use(const char *path);
        ssize_t read(int fd, void *buf, size_t bytes) { printf("own %d\\n", fd < 0 || !buf || !bytes); return 0; }
        int main(void) { pfw_start(0); library_use("file"); return pfw_stop(); }
        """)
    program = harness.compile_c(source, tmp_path / "own", library, f"-Wl,-rpath,{tmp_path}",
                                "-rdynamic", *WITH_RECORDER)
    result = harness.run([program], environment(tmp_path), tmp_path)
    assert result.stdout == "own 0\n" and result.stderr == ""
    assert seen(tmp_path) == {("open", "file"): 1, ("close", "file"): 1}


FRONT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
ssize_t read(int fd, void *buf, size_t bytes)
{
	ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	fputs("front\\n", stderr);
	return next(fd, buf, bytes);
}
"""


def test_other_tool_in_front_of_libc(tmp_path):
    """It is still called, and the call is recorded once."""
    front = make_library(tmp_path, "front.so", FRONT)
    program = make_program(tmp_path)
    result = harness.run([program, "once", "file"],
                         environment(tmp_path, LD_PRELOAD=str(front)), tmp_path)
    assert result.stderr == "front\n"
    assert seen(tmp_path) == each("file")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this libc has one version of each call")
@pytest.mark.parametrize("link", ["lazy", "now"])
def test_old_version_of_a_call_is_left_alone(tmp_path, link):
    """posix_spawn of glibc 2.2.5 runs a script without #! by the shell; the one of 2.15 refuses."""
    source = tmp_path / "old.c"
    source.write_text("""
        #include <pfw/pfw.h>
        #include <spawn.h>
        #include <sys/wait.h>
        __asm__(".symver posix_spawn,posix_spawn@GLIBC_2.2.5");
        int main(int argc, char **argv)
        {
            pid_t pid = 0;
            int error, status = 0;
            pfw_start(0);
            error = posix_spawn(&pid, argv[argc - 1], 0, 0, argv, argv + argc);
            waitpid(pid, &status, 0);
            pfw_stop();
            return error ? 1 : status ? 2 : 0;
        }
        """)
    script = tmp_path / "script"
    script.write_text("exit 0\n")
    script.chmod(0o700)
    program = harness.compile_c(source, tmp_path / "old", *WITH_RECORDER, f"-Wl,-z,{link}")
    result = harness.run([program, script], environment(tmp_path), tmp_path)
    if link == "now":  # unresolved, it cannot be told that it is left alone for good
        assert re.fullmatch(r"pfw: not recorded: posix_spawn of the program: .*\n", result.stderr)
    assert harness.trace_names(tmp_path) == []


# ---- where it cannot ----

@pytest.mark.parametrize("kind", ["-static", "-static-pie"])
def test_static_program_is_told(tmp_path, kind):
    source = tmp_path / "static.c"
    source.write_text("""
        #include <pfw/pfw.h>
        #include <fcntl.h>
        int main(void)
        {
            pfw_start(0);
            pfw_instant("it", 0);
            return open("/etc/passwd", O_RDONLY) < 0 || pfw_stop();
        }
        """)
    program = harness.compile_c(source, tmp_path / "static", kind,
                                f"{harness.LIB_DIR}/../libpfw_core.a")
    result = harness.run([program], environment(tmp_path), tmp_path)
    assert result.stderr == \
        "pfw: not recorded: I/O calls of the program: it is statically linked\n"
    assert [line["name"] for line in harness.events(harness.check_trace(tmp_path / "t.pfw"))] == ["it"]


def test_no_descriptor_left(tmp_path):
    program = make_program(tmp_path)
    result = harness.run([program, "full"], environment(tmp_path), tmp_path)
    assert re.fullmatch(r"pfw: /proc/self/maps cannot be read \(errno 24\).*\n", result.stderr)
    assert seen(tmp_path) == each("seen")


# ---- processes and threads ----

def test_children(tmp_path):
    program = make_program(tmp_path)
    harness.run([program, "children"], environment(tmp_path), tmp_path)
    (child,) = [name for name in harness.trace_names(tmp_path) if name != "t.pfw"]
    assert seen(tmp_path) == each("parent", "after vfork")
    assert seen(tmp_path, child) == each("child")
    names = [line["name"] for line in harness.events(harness.check_trace(tmp_path / "t.pfw"))]
    assert names.count("fork") == names.count("vfork") == 1


@pytest.mark.parametrize("link", ["now", "lazy"])
def test_threads_call_while_slots_are_rewritten(tmp_path, link):
    program = make_program(tmp_path, *LINKS[link])
    late = make_library(tmp_path, "late.so", LIBRARY, *LINKS[link])
    result = harness.run([program, "threads", late], environment(tmp_path), tmp_path)
    assert result.stderr == ""
    found = seen(tmp_path)
    assert all(found[(call, "late")] == 40 for call in CALLS)
    assert all(found[(call, f"busy{i}")] for call in CALLS for i in range(4))


def test_forks_while_objects_are_loaded(tmp_path):
    program = make_program(tmp_path)
    late = make_library(tmp_path, "late.so", LIBRARY)
    harness.run([program, "forks", late], environment(tmp_path), tmp_path)
    names = [name for name in harness.trace_names(tmp_path) if name != "t.pfw"]
    assert len(names) == 50
    assert all(seen(tmp_path, name) == each("child") for name in names)


# ---- who begins ----

def test_linked_program_from_its_beginning(tmp_path):
    """DFTRACER_INIT=PRELOAD in a program that links the recorder: as if it had been preloaded."""
    source = tmp_path / "silent.c"
    source.write_text("#include <pfw/pfw.h>\n#include <fcntl.h>\n#include <unistd.h>\n"
                      'int main(void) { close(open("file", O_RDONLY | O_CREAT, 0600)); '
                      'return !pfw_version(); }\n')
    program = harness.compile_c(source, tmp_path / "silent", *WITH_RECORDER)
    for mode in ("FUNCTION", "PRELOAD"):
        harness.run([program], {**environment(tmp_path), "DFTRACER_INIT": mode}, tmp_path)
        assert harness.trace_names(tmp_path) == ([] if mode == "FUNCTION" else ["t.pfw"])
    assert seen(tmp_path) == {("open", "file"): 1, ("close", "file"): 1}


PYTHON = """
import ctypes, os, sys
def use(name):
    with open(name, "w+") as file:
        file.write("text")
use("before")
recorder = ctypes.CDLL("libpfw.so.1")
assert recorder.pfw_start(None) == 0
use("python")
import sqlite3
connection = sqlite3.connect("database")
connection.execute("create table t (a)")
connection.commit()
connection.close()
assert recorder.pfw_stop() == 0
use("after")
"""


@pytest.mark.parametrize("preload", [None, "off", "on"])
def test_python(tmp_path, preload):
    """By ctypes; and where the preload object is there, it is by that object, once."""
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    variables = environment(tmp_path, LD_LIBRARY_PATH=harness.LIB_DIR,
                            **({"LD_PRELOAD": harness.PRELOAD} if preload else {}))
    if preload == "off":
        del variables["DFTRACER_ENABLE"]
    result = harness.run(["/usr/bin/python3", script], variables, tmp_path)
    assert result.stderr == ""
    found = seen(tmp_path)
    assert found[("open", "python")] == found[("write", "python")] == found[("close", "python")] == 1
    assert found[("open", "database")] == found[("close", "database")] == 1
    assert found[("pwrite", "database")] >= 2 and found[("unlink", "database-journal")] == 1
    assert not [name for _, name in found if name in ("before", "after")]
