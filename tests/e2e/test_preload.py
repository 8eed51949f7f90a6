"""How the preload object finds what its names lead to: as dlsym(RTLD_NEXT) does, whatever is loaded."""
import glob
import re

import pytest

import harness

# Looks the names in the file NEXT_NAMES up both ways: into the file NEXT_RESULT it writes each that
# differs, and how many it found itself, of how many.
LOOKER = r"""
#include "preload/next.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void compare(void)
{
	FILE *names = fopen(getenv("NEXT_NAMES"), "re"), *out = fopen(getenv("NEXT_RESULT"), "we");
	unsigned asked = 0, found = 0;
	char name[256];

	pfw_preload_next_init();
	if (!names || !out)
		_exit(9);
	while (fgets(name, sizeof(name), names)) {
		void *ours, *volatile theirs;

		name[strcspn(name, "\n")] = '\0';
		ours = pfw_preload_next(name);
		theirs = dlsym(RTLD_NEXT, name);
		asked++;
		found += ours != NULL;
		if (ours && ours != theirs)
			fprintf(out, "%s: %p, and by dlsym %p\n", name, ours, theirs);
	}
	fclose(names);
	fprintf(out, "%u of %u\n", found, asked);
	fclose(out);
}
"""

# Stands between the preload object and libc, with every kind of definition.
BETWEEN = r"""
int open(void) { return 1; }
__attribute__((weak)) int fsync(void) { return 2; }
int read_old(void) { return 3; }
int read_new(void) { return 4; }
__asm__(".symver read_old, read@OLD\n.symver read_new, read@@NEW");
int write_old(void) { return 5; }
__asm__(".symver write_old, write@OLD");
int pread_old(void) { return 5; }
__asm__(".symver pread_old, pread@NEW");
int pwrite_one(void) { return 5; }
int pwrite_two(void) { return 5; }
__asm__(".symver pwrite_one, pwrite@MORE\n.symver pwrite_two, pwrite@@NEW");
__thread int unlink;
static int rename_real(void) { return 6; }
static int (*choose(void))(void) { return rename_real; }
int rename(void) __attribute__((ifunc("choose")));
int link __attribute__((visibility("hidden")));
extern int symlink(void);
int uses(void) { return symlink() + link + unlink; }
__asm__(".globl lseek\n.set lseek, 4096\n");
__asm__(".globl creat\n.type creat, @gnu_unique_object\n.data\ncreat: .long 0\n.size creat, 4\n.text\n");
"""
VERSIONS = "OLD { global: *; local: none; };\nNEW { } OLD;\nMORE { } NEW;\n"


@pytest.fixture(name="target", scope="module")
def fixture_target(tmp_path_factory):
    top = tmp_path_factory.mktemp("next")
    (top / "between.c").write_text(BETWEEN)
    (top / "versions").write_text(VERSIONS)
    for name, *flags in (("gnu.so", f"-Wl,--version-script={top / 'versions'}"), ("plain.so",),
                         ("sysv.so", "-Wl,--hash-style=sysv")):
        source = BETWEEN if "gnu" in name else re.sub(r"(?m)^__asm__\(\"\.symver.*\n", "", BETWEEN)
        (top / "between.c").write_text(source)
        harness.compile_c(top / "between.c", top / name, "-shared", "-fPIC", "-fno-builtin", "-w",
                          *flags)
    (top / "next.c").write_text(LOOKER)
    source = harness.SOURCE / "src"
    harness.compile_c(top / "next.c", top / "next.so", source / "preload/next.c", f"-I{source}",
                      "-shared", "-fPIC", "-D_GNU_SOURCE", "-ldl")
    return top


def names_in(library):
    """What a library defines, as nm says it, without versions."""
    listing = harness.run(["nm", "-D", "--defined-only", library]).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


def libc():
    return re.search(r"libc\.so\.6 => (\S+)", harness.run(["ldd", "/bin/sh"]).stdout)[1]


def look(target, names, *between, program="/bin/true"):
    """How many names it found itself, of how many.  Each was what dlsym finds."""
    (target / "names").write_text("".join(f"{name}\n" for name in sorted(names)))
    (target / "result").write_text("")
    harness.run([program, "--version"], harness.clean_environment(
        NEXT_NAMES=str(target / "names"), NEXT_RESULT=str(target / "result"),
        ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
        LD_PRELOAD=":".join(str(library) for library in (target / "next.so", *between))))
    *differences, last = (target / "result").read_text().splitlines()
    assert not differences
    return tuple(map(int, last.split(" of ")))


def rows():
    return {name for name in names_in(harness.PRELOAD_OBJECT) if not name.startswith("pfw_")}


def test_every_row(target):
    here = rows() & names_in(libc())
    found, asked = look(target, here)
    assert len(here) > 350 and found == asked == len(here)


def test_every_name_of_libc(target):
    """Also those with several versions, chosen at run time, or that are no functions."""
    found, asked = look(target, names_in(libc()))
    assert found > asked * 0.8


def test_names_that_are_nowhere(target):
    assert look(target, {"pfw_nowhere", "", "x" * 200, "zzzzzzzzzz"}) == (0, 4)


@pytest.mark.parametrize("between", ["gnu.so", "plain.so"])
def test_behind_every_kind_of_definition(target, between):
    found, asked = look(target, rows() & names_in(libc()), target / between)
    assert asked * 0.9 < found < asked  # not those that only the linker understands


def test_leaves_odd_objects_to_the_linker(target):
    found, asked = look(target, rows(), target / "sysv.so")
    assert found == 0 and asked == len(rows())


OTHERS = [name for pattern in ("libfakeroot/libfakeroot-*.so", "faketime/libfaketime.so.1",
                               "libjemalloc.so.2", "libasan.so.*", "coreutils/libstdbuf.so")
          for name in (glob.glob(f"/usr/lib/x86_64-linux-gnu/{pattern}") +
                       glob.glob(f"/usr/libexec/{pattern}"))[:1]]


@pytest.mark.parametrize("between", OTHERS)
def test_behind_another_preload(target, between):
    found, asked = look(target, rows(), between)
    assert found > asked * 0.9


@pytest.mark.parametrize("program", ["/usr/bin/python3", "/usr/bin/git", "/bin/ls"])
def test_in_a_program_of_many_libraries(target, program):
    here = rows() & names_in(libc())
    assert look(target, here, program=program)[0] == len(here)
