"""Every function of libc that touches a file is wrapped, or is on the list of those that are not.

Which ones touch a file is read from libc's machine code (reach.py), not from a list.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

import reach
from symbols import directory

if platform.machine() != "x86_64":
    pytest.skip("reach.py reads x86-64 code only", allow_module_level=True)

SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
# Calls on files and descriptors.  Left out are sockets, waiting (poll), and descriptors that no file
# is behind (eventfd, timerfd, signalfd, epoll).
FILE_CALLS = set("""
    access acct chdir chmod chown chroot close close_range copy_file_range creat dup dup2 dup3 execve
    execveat faccessat faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2
    fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsconfig fsetxattr fsmount
    fsopen fspick fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr
    inotify_add_watch io_getevents io_pgetevents io_submit io_uring_enter io_uring_setup ioctl lchown
    lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat memfd_create mkdir
    mkdirat mknod mknodat mount mount_setattr move_mount name_to_handle_at newfstatat open
    open_by_handle_at open_tree openat openat2 pipe pipe2 pivot_root pread64 preadv preadv2 pwrite64
    pwritev pwritev2 quotactl quotactl_fd read readahead readlink readlinkat readv removexattr rename
    renameat renameat2 rmdir sendfile setxattr splice stat statfs statx swapoff swapon symlink
    symlinkat sync sync_file_range syncfs tee truncate umount2 unlink unlinkat uselib ustat utime
    utimensat utimes vmsplice write writev""".split())
# These count only where a function makes them itself: mapped memory may be a file's, but who allocates
# does not mean a file; and a new process has the descriptors, but a new thread is none.
OWN_CALLS = {"madvise", "mmap", "mremap", "msync", "munmap", "remap_file_pages",
             "clone", "exit_group", "fork", "vfork"}
# Whoever finds a broken heap or stack comes here, to say so and die: they are listed, but what calls
# them is not for that.
LAST_WORDS = {"__libc_fatal", "__assert_fail", "__assert_perror_fail", "__assert", "abort",
              "__stack_chk_fail", "__chk_fail"}
# Rows that the walk does not find: they make a process by another function, ask about work that was
# submitted before, make the call whose number they are given, or change what names lead to, and for
# whom.
NOT_FOUND = {"fork", "__fork", "aio_return", "aio_return64", "aio_suspend", "aio_suspend64", "syscall",
             "unshare", "setns", "setuid", "seteuid", "setreuid", "setresuid",
             "capset", "prctl", "mlockall", "munlockall"}
# Listed, but not to be found: they lead into the dynamic linker.
IN_LINKER = {"dlmopen", "dlopen"}


def exceptions(kind):
    """[names] in unwrapped.def of one kind of row, or of both."""
    text = (SOURCE / "src/common/calls/unwrapped.def").read_text()
    names = []
    for row in re.findall(rf"^{kind}\((.*?)\)\n", text, re.M | re.S):
        strings = re.findall(r'"((?:[^"\\]|\\.)*)"', row.split('",\n')[1])
        names += "".join(strings).split()
    return names


def wrapped():
    """The names that the preload object exports: those are the rows (test_layout.py)."""
    lines = reach.output("nm", "-D", "--defined-only", os.environ["PFW_PRELOAD"]).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines} - {"pfw_version"}


def off_files():
    """Rows of calls that need touch no file."""
    text = (SOURCE / "src/common/calls/calls.def").read_text()
    return set(re.findall(r"^CALL_\w+\((?:NET|SYNC), [^,]+, (\w+),", text, re.M))


class Libc:
    def __init__(self):
        self.library = reach.Library(directory() / "libc.so.6")
        self.name_of = reach.system_calls()
        functions = self.library.functions
        self.cut = set()
        for name in LAST_WORDS & functions.keys():
            self.cut |= functions[name]
        # The function inside libc that they all print by.
        for start in functions["__libc_fatal"]:
            self.cut |= self.library.edges[start]
        for name in exceptions("UNWRAPPED_HELPER"):
            self.cut |= functions.get(name, set())

    def files_of(self, name):
        """The calls on files that a function comes to."""
        found = set()
        for start in self.library.functions[name]:
            own, inner = self.library.reach(start, self.cut)
            own, inner = ({self.name_of.get(number) for number in calls} for calls in (own, inner))
            found |= own & (FILE_CALLS | OWN_CALLS) | inner & FILE_CALLS
        return found


@pytest.fixture(scope="module")
def libc():
    found = Libc()
    if "aio_read" not in found.library.public:
        pytest.skip("before glibc 2.34 the C library is several files; the walk reads one")
    return found


@pytest.fixture(scope="module")
def touching(libc):
    return {name: files for name in libc.library.public if (files := libc.files_of(name))}


def test_code_is_read_rightly(libc):
    """What is known of some functions, so that a walk that finds nothing does not pass."""
    assert len(libc.library.public) > 1500 and len(libc.library.methods) > 20
    assert len(libc.library.unknown) <= 3, "system calls with a number that was not found"
    expected = {"read": {"read"}, "openat": {"openat"}, "fsync": {"fsync"},
                "mmap": {"mmap"}, "getpid": set(), "strlen": set(), "kill": set(),
                "memcpy": set(), "nanosleep": set()}
    for name, calls in expected.items():
        assert libc.files_of(name) == calls, name
    assert "openat" in libc.files_of("fopen")  # two functions further down
    assert {"read", "write", "lseek"} <= libc.files_of("fwrite")  # by the methods of the stream
    assert {"openat", "getdents64"} <= libc.files_of("nftw")
    assert {"pread64", "pwrite64"} <= libc.files_of("aio_read")  # in a thread that it starts
    assert "execve" in libc.files_of("popen")


def test_every_symbol_that_touches_a_file_is_wrapped_or_listed(touching):
    missing = touching.keys() - wrapped() - set(exceptions(r"UNWRAPPED\w*"))
    assert not missing, "neither in src/common/calls/calls.def nor in src/common/calls/unwrapped.def:\n" + \
        "\n".join(f"{name}: {' '.join(sorted(touching[name]))}" for name in sorted(missing))


def test_no_row_could_go_unseen(touching, libc):
    """Each row of calls.def, taken out, would be missed by the test above."""
    rows = (wrapped() - off_files()) & libc.library.public
    assert len(rows) > 350
    assert rows - touching.keys() - set(exceptions(r"UNWRAPPED\w*")) == NOT_FOUND & rows


def test_list_of_exceptions_is_true(touching, libc):
    names = exceptions(r"UNWRAPPED\w*")
    assert len(names) > 100
    assert len(names) == len(set(names)), "named twice"
    assert not set(names) & wrapped(), "wrapped, and said not to be"
    idle = {name for name in set(names) - IN_LINKER
            if name in libc.library.public and name not in touching}
    assert not idle, "they touch no file: take them out"
    gone = set(names) - libc.library.public
    assert len(gone) < len(names) / 10, f"not in this libc: {sorted(gone)}"


def test_calls_prints_the_list():
    def printed(*options):
        return subprocess.run([os.environ["PFW_BIN"], "calls", "--unwrapped", *options], check=True,
                              capture_output=True, text=True).stdout

    names = set(exceptions(r"UNWRAPPED\w*"))
    groups = [json.loads(line) for line in printed("--format=ndjson").splitlines()]
    assert {name for group in groups for name in group["calls"]} == names
    lines = printed().splitlines()
    assert {line.strip() for line in lines if line.startswith(" ")} == names
    assert [line for line in lines if line and line[0] != " "] == [
        group["reason"] for group in groups]
    assert names <= set(printed("--format=rst").replace("``", "").split())


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_row_agrees_with_the_headers(compiler, tmp_path):
    """What calls.h declares for want of a header is held to one where there is one after all.

    The headers declare what _FORTIFY_SOURCE calls only where that is on; other names of a call have
    the type of the call itself.
    """
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    text = (SOURCE / "src/common/calls/calls.def").read_text()
    rows = re.findall(r"^CALL_\w+\(\w+, [^,]+, (\w+), (\w+),", text, re.M)
    twins = []
    for name, canonical in rows:
        for twin in (canonical, canonical + "64"):
            if re.fullmatch(rf"(__|_IO_){twin}|__isoc(99|23)_{twin}", name):
                twins.append((name, twin))
    assert len(rows) > 400 and len(twins) > 50
    source = tmp_path / "rows.c"
    source.write_text('#include "recorder/wrap/calls.h"\n' + "".join(
        f"_Static_assert(__builtin_types_compatible_p(__typeof__({name}), __typeof__({twin})), "
        f'"{name}");\n' for name, twin in twins))
    subprocess.run([compiler, "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE",
                    "-D_FORTIFY_SOURCE=2", f"-I{SOURCE}/src", f"-I{SOURCE}/include", "-Werror",
                    "-Wno-deprecated-declarations", "-fsyntax-only", source], check=True)
