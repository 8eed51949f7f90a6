"""The shape of the tree and of the two libraries: who may include whom, and who shows what.

The law itself, with its reasons, is in docs/design.rst ("Who may include what").
"""
import collections
import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
LIB = pathlib.Path(os.environ["PFW_LIB_DIR"])
BUILD = pathlib.Path(os.environ["PFW_BUILD_DIR"])
SRC = SOURCE / "src"

FUNCTION_LINES_MAX = 60
TLS_BYTES_MAX = 256  # more than about 1,024 and a late dlopen finds no room

# The rooms, lowest first: a room may include only those above it in this list.
ROOMS = """
common/base common/format common/encode common/settings common/calls
preload
recorder/guest recorder/spool recorder/writer recorder/sample recorder/stack recorder/probe recorder/wrap
recorder/waits recorder/attach recorder/gpu_records recorder/gpu recorder/marks recorder/session
store/kit store/sys store/sqlite store/math store/json store/line store/gzip store/read store/partial store/traces store/pass
store/regex store/expr store/summary store/index store/select store/nesting store/table store/compare store/memory store/overlap
store/patterns store/merge store/pack store/commit store/manifest store/recover store
tools/ui tools/share tools/run tools/doctor tools/query tools/table tools/overlap tools/patterns
tools/memory tools/compare tools/advice tools/report
read
tools/export tools/chrome tools/perfetto tools/import tools/compact
tools/copies tools/anonymise tools/symbolize tools/validate tools/top tools/attach tools
""".split()
ORDER = {room: place for place, room in enumerate(ROOMS)}

# The wings, by who runs them, and the wings that each may include.
WINGS = {
    "common": {"common"},
    "preload": {"preload", "common"},
    "recorder": {"recorder", "preload", "common"},
    "store": {"store", "common"},
    "read": {"read", "tools", "store", "common"},
    "tools": {"tools", "store", "common"},
}

# What carries records away never knows where they came from, and the other way round: the two meet
# in the ring.
NEVER = {
    "recorder/writer": re.compile(r"recorder/(probe|wrap|attach|gpu|gpu_records|marks)/"),
    "recorder/probe": re.compile(r"recorder/writer/|common/encode/(?!text\b)|common/format/gzip"),
    "recorder/wrap": re.compile(r"recorder/writer/|common/encode/(?!text\b)|common/format/gzip"),
    "recorder/waits": re.compile(r"recorder/writer/|common/encode/(?!text\b)|common/format/gzip"),
    "recorder/attach": re.compile(r"recorder/writer/|common/encode/(?!text\b)|common/format/gzip"),
    # It runs commands by their names, and takes their rows: how a command works is not its business.
    "read": re.compile(r"tools/(?!ui/(cli|host|grid)\b)"),
    # It is in every traced program, also in those that the recorder is not loaded into.
    "preload": re.compile(r"(?!common/base/os|common/calls/|preload/|recorder/wrap/calls\b)"),
}

FILES_OF_A_ROOM = 20
LINES_OF_A_FILE = 700

# Files that define the names which os.h forbids, or (config.c) may read the environment.
MAY_UNPOISON = {
    "common/settings/config.c", "preload/preload.c", "recorder/wrap/aio.c",
    "recorder/attach/attach.c", "recorder/attach/preload.c", "recorder/attach/thunks.c",
    "common/base/seccomp.c", "recorder/wrap/calls.c",
    "recorder/wrap/descriptors.c", "recorder/wrap/exec.c", "recorder/wrap/mmap.c",
    "recorder/wrap/namespaces.c", "recorder/wrap/open.c", "recorder/wrap/posix.c",
    "recorder/wrap/net.c", "recorder/wrap/process.c", "recorder/wrap/rights.c",
    "recorder/wrap/stdio.c", "recorder/wrap/directories.c", "recorder/waits/waits.c"}

# Calls that have no place in somebody else's program.
FORBIDDEN_IN_GUEST = {
    "exit", "abort", "__assert_fail", "printf", "fprintf", "vfprintf", "snprintf", "vsnprintf",
    "sprintf", "puts", "fputs", "fopen", "fopen64", "fwrite", "perror", "system", "popen",
    "getenv", "setenv", "setlocale", "strtok", "localtime", "gmtime", "__fprintf_chk",
    "__snprintf_chk", "__printf_chk", "__sprintf_chk"}


def source_files(*directories):
    return sorted(path for directory in directories
                  for path in (SOURCE / directory).rglob("*")
                  if path.suffix in (".c", ".h", ".S", ".def"))


def name_of(path):
    """'src/store/kit/grow.c' -> 'store/kit/grow', 'tools/ui/cli.c' -> 'tools/ui/cli'."""
    base = SRC if path.is_relative_to(SRC) else SOURCE
    return str(path.relative_to(base).with_suffix(""))


def room_of(path):
    return os.path.dirname(name_of(path))


def includes(path):
    """The project's own files that `path` includes."""
    for line in path.read_text().splitlines():
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if not match:
            continue
        for base in (SRC, SOURCE / "tools", SOURCE / "include", SOURCE / "bindings/python/core",
                     SOURCE / "bindings/python/read"):
            target = base / match[1]
            if target.is_file():
                yield target
                break
        else:
            assert f'"{match[1]}"' not in line, f"{path}: {line.strip()}: write it from src/ or tools/"


def guest_files():
    files = source_files("src/common", "src/preload", "src/recorder")
    assert len(files) > 100, "src/ is not where this test looks for it"
    return files


def breaches(path):
    """What a file includes against the law of wings and rooms."""
    room = room_of(path)
    wing = room.split("/")[0]
    for target in includes(path):
        if target.is_relative_to(SOURCE / "include"):
            continue
        other, of = name_of(target), room_of(target)
        if of.split("/")[0] not in WINGS[wing]:
            yield f"{path}: the wing {wing} must not include {other}"
        elif ORDER[of] > ORDER[room]:
            yield f"{path}: includes {other} of a room that comes later than {room}"
        elif of != room and target.name.startswith("internal"):
            yield f"{path}: includes {other}, which is internal to its room"
        elif room in NEVER and NEVER[room].match(other):
            yield f"{path}: {room} must never include {other}"


def test_every_file_has_a_room():
    lost = [str(path) for path in source_files("src", "tools") if room_of(path) not in ORDER]
    assert not lost, "in no room of ROOMS:\n" + "\n".join(lost)


def test_a_room_includes_only_lower_rooms_of_its_wings():
    found = [line for path in source_files("src", "tools") for line in breaches(path)]
    assert not found, "\n".join(found)


def test_rooms_do_not_include_each_other_in_a_circle():
    assert not circles_of(source_files("src", "tools"), room_of)


def test_every_room_has_a_face():
    """One header of a room, or the one .c that it begins with, says what the room is for."""
    faces = collections.Counter()
    for path in source_files("src", "tools"):
        head = path.read_text().split("*/", 1)[0]
        for room in re.findall(r"^ \* Room ([\w/]+): ", head, re.M):
            assert room == room_of(path), f"{path}: the face of another room, {room}"
            faces[room] += 1
    rooms = {room_of(path) for path in source_files("src", "tools")}
    assert faces == collections.Counter(rooms)


def test_rooms_and_files_are_small():
    files = source_files("src", "tools")
    sizes = collections.Counter(room_of(path) for path in files)
    crowded = {room: size for room, size in sizes.items() if size > FILES_OF_A_ROOM}
    lines = {str(path): len(path.read_text().splitlines()) for path in files}
    long = {path: size for path, size in lines.items() if size > LINES_OF_A_FILE}
    assert not crowded and not long, (crowded, long)


def circles_of(paths, name):
    """Circles among the files or modules that `name` tells apart, as text."""
    graph = {}
    for path in paths:
        graph.setdefault(name(path), set()).update(name(target) for target in includes(path))
    done, circles = set(), []

    def visit(module, trail):
        if module in trail:
            circles.append(" -> ".join(trail[trail.index(module):] + [module]))
        elif module not in done:
            for other in sorted(graph.get(module, set()) - {module}):
                visit(other, trail + [module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return circles


def test_headers_do_not_include_each_other_in_a_circle():
    headers = [path for path in source_files("src", "tools") if path.suffix == ".h"]
    assert not circles_of(headers, str)


def declarations(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def test_a_tag_has_one_meaning():
    """Also in two libraries: who searches for a struct finds one."""
    places = collections.defaultdict(set)
    for path in source_files("src", "tools"):
        for tag in re.findall(r"^\s*(?:struct|enum|union)\s+(\w+)\s*{", declarations(path), re.M):
            if path.suffix == ".h" or tag.startswith("pfw_"):
                places[tag].add(name_of(path))
    assert len(places) > 300, "tags are not written as this test reads them"
    assert not {tag: where for tag, where in places.items() if len(where) > 1}


def test_a_prefix_has_one_meaning():
    """A word after pfw_ that two wings use is a word of the format, and so of src/common."""
    wings = collections.defaultdict(set)
    for path in source_files("src"):
        if path.suffix == ".h":
            for word in re.findall(r"^[\w\s*]*?\bpfw_([a-z0-9]+)_\w+\(", declarations(path), re.M):
                wings[word].add(name_of(path).split("/")[0])
    assert len(wings) > 100, "functions are not declared as this test reads them"
    assert not {word: found for word, found in wings.items()
                if len(found - {"preload"}) > 1 and "common" not in found}


def test_bindings_use_only_the_public_header():
    found = [f"{path}: includes {name_of(target)}" for path in source_files("bindings")
                for target in includes(path) if target.is_relative_to(SRC)]
    assert not found, "\n".join(found)


def test_only_wrappers_lift_the_poison():
    lifted = {str(path.relative_to(SRC)) for path in guest_files()
              if re.search(r"^\s*#\s*define\s+PFW_OS_NO_POISON", path.read_text(), re.M)}
    assert lifted <= MAY_UNPOISON, f"may not: {sorted(lifted - MAY_UNPOISON)}"
    assert "#pragma GCC poison open" in (SRC / "common/base/os.h").read_text()


def test_functions_are_short():
    long = []
    for path in source_files("src", "tools", "bindings"):
        start = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("{"):
                start = number
            elif line.startswith("}") and start:
                if number - start - 1 > FUNCTION_LINES_MAX:
                    long.append(f"{path}:{start}: {number - start - 1} lines")
                start = None
    assert not long, f"over {FUNCTION_LINES_MAX} lines:\n" + "\n".join(long)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library, which):
    """Names in the dynamic symbol table, without their versions."""
    names = set()
    for line in output("nm", "-D", which, LIB / library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the version's own entry
            names.add(name.split("@")[0])
    return names


def needed(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", LIB / library)))


def wrapped_calls():
    text = re.sub(r"/\*.*?\*/", "", (SRC / "common/calls/calls.def").read_text(), flags=re.S)
    names = re.findall(r"^CALL_\w+\(\s*[^,]+,\s*[^,]+,\s*(\w+)\s*,", text, re.M)
    assert len(names) > 10, "calls.def does not read as this test reads it"
    return set(names)


def test_recorder_shows_only_its_own_names():
    names = symbols("libpfw.so.1", "--defined-only")
    assert "pfw_start" in names
    others = {name for name in names if not name.startswith("pfw_")}
    # why: recorder/attach/attach.c; the names that the driver and NVTX's header look for
    assert others == {"__gmon_start__", "InitializeInjection", "InitializeInjectionNvtx2"}


def test_recorder_symbols_are_versioned():
    lines = output("nm", "-D", "--defined-only", "--with-symbol-versions", LIB / "libpfw.so.1")
    assert not [line for line in lines.splitlines()
                if " A " not in line and not line.endswith("@@PFW_1")]


@pytest.mark.parametrize("library", ["libpfw_preload.so", "libpfw_preload_sync.so"])
def test_preload_shows_the_rows_of_calls_def_and_nothing_else(library):
    """Those of locks and sleeps only where PFW_CALLS=+sync asks for them: see docs/design.rst."""
    names = {name.split("@")[0] for name in symbols(library, "--defined-only")
             if not name.startswith("pfw_")}
    waits = set(re.findall(r"^CALL_\w+\(SYNC, \w+, (\w+),", (SRC / "common/calls/calls.def").read_text(), re.M))
    assert len(waits) > 20
    hooks = {"__asan_default_options", "__tsan_default_suppressions"}
    assert names - {"GLIBC_2.3.2"} - hooks == wrapped_calls() - (set() if "sync" in library else waits)


def test_recorder_needs_only_libc():
    allowed = re.compile(r"lib(c|dl|pthread)\.so\.\d+|ld-linux.*")
    assert not {name for name in needed("libpfw.so.1") if not allowed.fullmatch(name)}


def test_preload_needs_only_libc():
    names = needed("libpfw_preload.so")
    assert "libc.so.6" in names
    assert not {name for name in names if not re.fullmatch(r"libc\.so\.6|ld-linux.*", name)}


def test_soname():
    assert "Library soname: [libpfw.so.1]" in output("readelf", "-dW", LIB / "libpfw.so.1")


def test_guest_calls_nothing_forbidden():
    for library in ("libpfw.so.1", "libpfw_preload.so"):
        used = symbols(library, "--undefined-only")
        assert not used & FORBIDDEN_IN_GUEST, library


def test_thread_local_storage_is_small():
    for library in ("libpfw.so.1", "libpfw_preload.so"):
        tls = re.findall(r"^\s*TLS\s+(?:\S+\s+){4}(0x[0-9a-f]+)",
                         output("readelf", "-lW", LIB / library), re.M)
        assert sum(int(size, 16) for size in tls) <= TLS_BYTES_MAX, library


# Writable variables with static storage in what reads traces, by their sections in the objects: the
# commands run in several threads, and two that filled one buffer made wrong indexes.
SHARED = {
    "store/gzip/inflate.c": {"isal": "filled once, by pthread_once()"},
    "store/kit/hash.c": {"seed": "atomic, and set once"},
    "store/json/value.c": {"c_locale": "filled once, by pthread_once()", "once": "pthread_once()'s own"},
    "store/line/fast.c": {"last": "atomic"},
    "store/line/io.c": {"slot": "filled once, by pthread_once()", "once": "pthread_once()'s own"},
    "store/recover/lines.c": {"clock": "pthread_once()'s own"},
    "store/sys/spill.c": {"known": "atomic, and set once"},
    "store/sqlite/rows.c": {"kept": "atomic: a thread takes it whole"},
    "store/table/by_arg.c": {"files": "atomic"},
    "tools/compact/compact.c": {"compact_stop": "set before there are threads"},
    "tools/attach/attach.c": {"worker": "of a signal handler; this process has one thread"},
    "tools/overlap/figures.c": {"parts_of": "filled once, by pthread_once()",
                                "once": "pthread_once()'s own"},
    "tools/run/launch.c": {"child": "of a signal handler; `pfw run` has one thread",
                           "before": "as child", "before_chld": "as child"},
    "tools/run/name.c": {"path": "`pfw run` has one thread"},
    "tools/symbolize/elfutils.c": {"elfutils": "filled before there are threads", "demangle": "as elfutils"},
    "tools/ui/interrupt.c": {"stopped": "atomic", "by": "written by the signal handler only"},
    "tools/ui/progress.c": {"bar": "the main thread draws"},
}


def writable(object_file):
    """Names of an object file's variables that may change and that all threads share."""
    sections = dict(re.findall(r"^\s*\[\s*(\d+)\] (\.\S+)", output("readelf", "-SW", object_file), re.M))
    for line in output("readelf", "-sW", object_file).splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "OBJECT" and re.match(r"\.(bss|data)(?!\.rel\.ro)", sections.get(words[6], "")):
            yield words[7].split(".")[0]


def test_threads_share_no_variables_that_are_not_listed():
    found, objects = {}, 0
    for library in ("pfw_store", "pfw_read", "pfw_commands", "pfw"):
        for path in (BUILD / f"CMakeFiles/{library}.dir").rglob("*.c.o"):
            source = str(path.relative_to(BUILD / f"CMakeFiles/{library}.dir")).removeprefix("src/")[:-2]
            objects += 1
            if (names := set(writable(path))) and any((base / source).exists() for base in (SRC, SOURCE)):
                found[source] = names
    assert objects > 150, "the objects are not where this test looks for them"
    assert found == {source: set(names) for source, names in SHARED.items()}
