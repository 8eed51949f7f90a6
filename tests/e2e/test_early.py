"""Calls before the recorder's constructor, of .preinit_array and other libraries': each one counted."""
import json
import os
import signal

import pytest

import harness

# 40 calls; of each the result, and errno of the one that fails, go into `sum`.
READS = r"""
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long sum;

__attribute__((unused)) static void reads(int count)
{
	int fd = open("data", O_RDONLY);
	char byte[2];

	for (int i = 0; i < count - 3; i++)
		sum = sum * 3 + (unsigned long)pread(fd, byte, 2, i % 5) * 256 + (unsigned long)byte[0];
	errno = 0;
	sum += (unsigned long)(1000 * open("nowhere", O_RDONLY) + errno);
	sum += (unsigned long)close(fd);
}
"""
LIBRARY = READS + """
unsigned long library_sum(void) { return sum; }
__attribute__((constructor)) static void begin(void) { reads(40); }
"""
PROGRAM = READS + """
extern unsigned long library_sum(void) __attribute__((weak));
#ifdef PREINIT
static void first(int argc, char **argv, char **env) { (void)argc; (void)argv; (void)env; reads(PREINIT); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **) = first;
#endif
int main(int argc, char **argv)
{
	char line[64];

	reads(140);
	snprintf(line, sizeof(line), "%lu %lu\\n", sum, library_sum ? library_sum() : 0);
	if (write(1, line, strlen(line)) < 0)
		return 1;
	if (argc > 1 && !strcmp(argv[1], "kill")) {
		usleep(200000);
		kill(getpid(), SIGKILL);
	}
	return 7;
}
"""
OWN = 141  # calls of main


@pytest.fixture(name="top", scope="module")
def fixture_top(tmp_path_factory):
    top = tmp_path_factory.mktemp("early").resolve()
    (top / "data").write_text("abcdefgh")
    (top / "library.c").write_text(LIBRARY)
    (top / "program.c").write_text(PROGRAM)
    harness.compile_c(top / "library.c", top / "library.so", "-shared", "-fPIC")
    harness.compile_c(top / "program.c", top / "plain")
    harness.compile_c(top / "program.c", top / "preinit", "-DPREINIT=40")
    harness.compile_c(top / "program.c", top / "linked", "-Wl,--no-as-needed", top / "library.so",
                      f"-Wl,-rpath,{top}")
    return top


def run(top, tmp_path, program, before="", after="", status=7, arguments=(), **variables):
    """Its trace's lines.  It does and says what it does without us."""
    def preload(*objects):
        return {"LD_PRELOAD": ":".join(str(top / one) if one == "library.so" else one
                                       for one in objects if one)}
    (tmp_path / "s").mkdir(exist_ok=True)
    command = [top / program, *arguments]
    plain = harness.run(command, harness.clean_environment(**preload(harness.RUNTIME, before, after)),
                        top, status)
    traced = harness.run(command, harness.traced_environment(
        tmp_path / "t", tmp_path / "s", **{**preload(before, harness.PRELOAD, after), **variables}),
        top, status)
    assert (traced.stdout, traced.stderr) == (plain.stdout, plain.stderr)
    if status < 0:
        harness.run([harness.PFW, "repair", tmp_path],
                    harness.clean_environment(PFW_SPOOL_DIR=str(tmp_path / "s")))
    names = harness.trace_names(tmp_path)
    return harness.check_trace(tmp_path / names[0], ("exit", "recovered")) if names else []


def early(lines):
    return sum(line["args"].get("early_calls", 0) for line in harness.own(lines, "unrecorded"))


def test_nothing_before(top, tmp_path):
    lines = run(top, tmp_path, "plain")
    assert len(harness.events(lines)) == OWN and not harness.own(lines, "unrecorded")


@pytest.mark.parametrize("program, before, after, calls", [
    ("plain", "library.so", "", 40), ("plain", "", "library.so", 40), ("linked", "", "", 40),
    ("preinit", "", "", 40), ("preinit", "library.so", "", 80), ("preinit", "", "library.so", 80)])
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_each_is_recorded_or_counted(top, tmp_path, program, before, after, calls, end):
    """Whichever constructor comes first: that is the dynamic linker's choice."""
    killed = end == "kill"
    lines = run(top, tmp_path, program, before, after, -signal.SIGKILL if killed else 7,
                ("kill",) if killed else ())
    assert len(harness.events(lines)) + early(lines) == OWN + calls
    assert early(lines) in (calls, calls - 40)
    name = harness.trace_names(tmp_path)[0]
    report = harness.run([harness.PFW, "validate", "--format=ndjson", tmp_path / name]).stdout
    assert json.loads(report.splitlines()[-1])["early_calls"] == early(lines)
    if early(lines):
        assert f"{early(lines)} calls before the start not recorded" in harness.run(
            [harness.PFW, "validate", tmp_path / name]).stdout


def test_both_orders_differ(top, tmp_path):
    """Else the cases above would show one thing twice."""
    counts = []
    for before, after in (("library.so", ""), ("", "library.so")):
        where = tmp_path / (before or "after")
        where.mkdir()
        counts.append(early(run(top, where, "plain", before, after)))
    assert sorted(counts) == [0, 40]


def test_calls_that_are_not_recorded_are_not_counted(top, tmp_path):
    lines = run(top, tmp_path, "preinit", PFW_CALLS="pread")
    assert len(harness.events(lines)) == 137 and early(lines) == 37


def test_what_was_not_asked_for_is_not_counted(top, tmp_path):
    """Not without recording, nor where it begins with pfw_start()."""
    assert not run(top, tmp_path, "preinit", DFTRACER_ENABLE="0")
    assert not run(top, tmp_path, "preinit", DFTRACER_INIT="FUNCTION", PFW_QUIET="1")
    assert not os.listdir(tmp_path / "s")
