"""PFW_STACK: the line that made a slow call is in args.stack, of C with and without frame pointers and of Python."""
import pathlib
import subprocess

import pytest

import harness

C = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int data, ends[2];
static char buf[64], two[] = "ba";
__attribute__((noinline)) int quick(void) { return (int)pread(data, buf, 1, 0) + 1; }
__attribute__((noinline)) int planted(const void *key) {
	int n = (int)read(ends[0], buf, 4);           /* SLOW */
	return n + *(const char *)key;
}
static int compare(const void *a, const void *b) { return planted(a) * 0 + *(const char *)a - *(const char *)b; }
int main(int argc, char **argv) {
	int calls = atoi(argv[1]);
	data = open("data", O_RDWR | O_CREAT, 0600);
	pwrite(data, "x", 1, 0);
	pipe(ends);
	for (int i = 0; i < calls; i++)
		quick();
	if (!fork()) { usleep(50000); write(ends[1], "word", 4); _exit(0); }
	qsort(two, 2, 1, compare);
	if (argc > 2) { write(1, "x", 1); pause(); }
	return 0;
}
"""

PY = """\
import os
import threading

ends = os.pipe()


class Loader:
    def fetch(self):
        return os.read(ends[0], 4)  # SLOW

    def __iter__(self):
        yield self.fetch()


def nächste():
    return next(iter(Loader()))


threading.Timer(0.05, os.write, (ends[1], b"word")).start()
nächste()
"""
PY_STACK = ["9): Loader.fetch", "12): Loader.__iter__", "16): nächste", "20): <module>"]
# The system's, and those of pyenv.
PYTHONS = ["/usr/bin/python3",
           *sorted(map(str, pathlib.Path.home().glob(".pyenv/versions/3.1[0-5].*/bin/python3")))]


@pytest.fixture
def top(tmp_path):
    (tmp_path / "spools").mkdir()
    (tmp_path / "a.c").write_text(C)
    (tmp_path / "a.py").write_text(PY)
    return tmp_path


def environment(top, stack, **variables):
    return harness.traced_environment(top / "t", top / "spools", PFW_STACK=stack, DFTRACER_DATA_DIR="all", **variables)


def build(top, *flags):
    harness.compile_c(top / "a.c", top / "a", "-O2", "-g", *flags)
    return top / "a"


def record(top, stack, *command, **variables):
    harness.run(command, environment(top, stack, **variables), cwd=top)
    return harness.read_lines(top / "t.pfw")


def stacks(lines, name=None):
    return [line["args"]["stack"] for line in lines
            if "stack" in line["args"] and name in (None, line["name"])]


def functions(frames):
    """The function and the line of each native frame's call, by the tool of every compiler."""
    found = []
    for frame in frames:
        path, offset = frame.rsplit("+", 1)
        text = subprocess.run(["addr2line", "-f", "-e", path, hex(int(offset, 16) - 1)], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.split("\n")
        found.append((text[0], text[1].rsplit(":", 1)[-1].split()[0]))
    return found


def line_of(text):
    return str(next(n for n, line in enumerate(text.split("\n"), 1) if "SLOW" in line))


@pytest.mark.parametrize("flags", [["-fomit-frame-pointer"], ["-fno-omit-frame-pointer", "-no-pie"]])
def test_a_slow_call_of_c(top, flags):
    lines = record(top, "min:10ms", build(top, *flags), "50")
    (stack,) = stacks(lines, "read")  # any other call may be slow, too
    found = functions(stack)
    assert found[0] == ("planted", line_of(C)), found
    names = [name for name, _ in found]
    assert names.index("compare") == 1 < names.index("main") and "..." not in stack
    modules = [line["args"]["fname"] for line in lines if line["name"] == "module"]
    assert len(modules) == len(set(modules)) and {frame.rsplit("+", 1)[0] for frame in stack} <= set(modules)
    notes = subprocess.run(["readelf", "-n", top / "a"], stdout=subprocess.PIPE, text=True, check=True).stdout
    (build_id,) = [line["args"]["build_id"] for line in lines if line["args"].get("fname") == str(top / "a")]
    assert f"Build ID: {build_id}" in notes


def test_modules_that_come_and_go(top):
    """Two libraries by turns, likely at the same place, with frames of other sizes."""
    (top / "lib.c").write_text("""
        #include <unistd.h>
        int through(int fd) {
            volatile char frame[SIZE];
            frame[0] = (char)read(fd, (char *)frame + 1, 1);
            return frame[0];
        }""")
    (top / "turns.c").write_text("""
        #include <dlfcn.h>
        #include <fcntl.h>
        int main(void) {
            int fd = open("/dev/zero", O_RDONLY), sum = 0;
            for (int i = 0; i < 40; i++) {
                void *lib = dlopen(i % 2 ? "./odd.so" : "./even.so", RTLD_NOW);
                int (*through)(int) = (int (*)(int))dlsym(lib, "through");
                sum += through(fd);
                dlclose(lib);
            }
            return sum != 40;
        }""")
    for name, size in ("odd", 16), ("even", 500):
        harness.compile_c(top / "lib.c", top / f"{name}.so", "-O2", "-shared", "-fPIC", f"-DSIZE={size}")
    lines = record(top, "every:1", harness.compile_c(top / "turns.c", top / "turns", "-O2"))
    frames = [[frame.rsplit("+", 1)[0] for frame in stack[:2]] for stack in stacks(lines, "read")]
    files = [[str(top / name) for name in names] for names in (("even.so", "turns"), ("odd.so", "turns"))]
    assert frames == files * 20 and all("..." not in stack for stack in stacks(lines))
    modules = [line["args"]["fname"] for line in lines if line["name"] == "module"]
    assert len(modules) == len(set(modules)) == 4


@pytest.mark.parametrize("python", PYTHONS)
def test_a_slow_call_of_python(top, python):
    lines = record(top, "min:10ms", python, "a.py", PYTHONIOENCODING="utf-8")
    (stack,) = [line["args"]["stack"] for line in lines
                if line["name"] == "read" and line["args"]["fname"].startswith("pipe:")]
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    want = [text if int(version) > 10 else text.replace(": Loader.", ": ") for text in PY_STACK]
    assert stack == [f"{top}/a.py({text}" for text in want]


def test_every_nth_call(top):
    lines = record(top, "every:10", build(top), "995")
    calls = [line for line in lines if line["ph"] == "X" and line["pid"] == lines[0]["pid"]]
    assert [n for n, line in enumerate(calls, 1) if "stack" in line["args"]] == list(range(10, len(calls) + 1, 10))
    assert len(calls) >= 999


def test_nothing_without_the_variable(top):
    harness.run([build(top), "10"], harness.traced_environment(top / "t", top / "spools", DFTRACER_DATA_DIR="all"),
                cwd=top)
    assert not stacks(harness.read_lines(top / "t.pfw"))


@pytest.mark.parametrize("suffix", [".pfw", ".pfw.gz"])
def test_stacks_of_a_killed_process(top, suffix):
    """What was not written yet has the same stacks, and a module's line is there once."""
    environ = environment(top, "every:1", PFW_FLUSH_MS="60000")
    environ["DFTRACER_LOG_FILE"] = str(top / f"t{suffix}")
    with subprocess.Popen([build(top), "100", "wait"], cwd=top, env=environ, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        query = subprocess.run([harness.PFW, "query", top / f"t{suffix}", "--name", "pread", "--format", "ndjson"],
                               env=harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")), check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        process.kill()
    assert query.count('"stack":["') == 100
    harness.run([harness.PFW, "repair", top], harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")))
    lines = harness.read_lines(top / f"t{suffix}")
    assert len(stacks(lines, "pread")) == 100
    assert functions(stacks(lines, "pread")[0])[0][0] == "quick"
    modules = [line["args"]["fname"] for line in lines if line["name"] == "module"]
    assert len(modules) == len(set(modules)) >= 2


def test_what_is_no_such_setting(top):
    done = subprocess.run([harness.PFW, "run", "--stack", "1ms", "true"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 125 and "--stack 1ms: wants min:TIME or every:N" in done.stderr
