"""The functions that glibc exports."""
import pathlib
import re
import subprocess

# Each was a library of its own before glibc 2.34.
LIBRARIES = ("libc.so.6", "libpthread.so.0", "librt.so.1", "libdl.so.2", "libutil.so.1", "libanl.so.1")


def directory():
    """Where the C library of this system is: the one that programs here are started with."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    return pathlib.Path(re.search(r"(/\S*)/libc\.so\.6$", maps, re.M)[1])


def functions_of(library):
    """{name: its versions} of the functions in a library's dynamic symbol table.

    A version that is not the name's default ends in "!": programs linked against it have it, but a
    lookup by the bare name finds it no more.
    """
    found = {}
    lines = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        words = line.split()
        if len(words) < 8 or words[3] not in ("FUNC", "IFUNC") or words[6] == "UND":
            continue
        name, _, version = words[7].partition("@")
        hidden = not version.startswith("@") and version != ""
        found.setdefault(name, set()).add(version.lstrip("@") + ("!" if hidden else ""))
    return found


def libc_symbols():
    """{name: its versions} over the whole C library; glibc's own (GLIBC_PRIVATE) left out."""
    found = {}
    for library in LIBRARIES:
        path = directory() / library
        if path.exists():
            for name, versions in functions_of(path).items():
                public = {one for one in versions if "GLIBC_PRIVATE" not in one}
                if public:
                    found.setdefault(name, set()).update(public)
    return found
