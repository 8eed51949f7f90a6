"""The shape of the tree and of the two libraries: who may include whom, and who shows what.

The law itself, with its reasons, is in docs/design.rst ("Who may include what").
"""
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
LIB = pathlib.Path(os.environ["PFW_LIB_DIR"])
SRC = SOURCE / "src"

FUNCTION_LINES_MAX = 60
TLS_BYTES_MAX = 256  # more than about 1,024 and a late dlopen finds no room

# Modules of src/, by layer; the .c and the .h of a name are one module, and json_text is a part of
# json.  Everything in src/probes/ that is not named here is layer 3.
LAYERS = {
    0: {"record", "source", "spool", "os", "text", "clock", "gzip", "le", "control", "probes/calls_table"},
    1: {"config", "naming", "schedule", "ring", "strings", "spool_file", "say", "identity",
        "templates", "json", "lines", "globs", "sums", "hidden",
        "counters", "nvml"},
    2: {"writer", "worker", "trace_file", "stepper", "probes/probe", "probes/fd_table", "probes/filter", "probes/select", "probes/short"},
    4: {"session"},
}
# The words that the preload object and the recorder exchange, and how the former finds names: of no
# layer, they include nothing.
MEETING = {"preload_table", "preload_abi", "preload_next", "probes/calls"}
LAYER = {module: layer for layer, modules in LAYERS.items() for module in modules}

# What carries data away never knows where it came from, and the other way round.
NEVER = {
    "writer": re.compile(r"probes/"),
    "probes/": re.compile(r"(writer|trace_file|json|lines|gzip|session|naming|schedule)$"),
    "preload": re.compile(r"(?!os$|probes/calls$|preload_)"),
}

# What our own programs share with the recorder: formats and pure modules, never its machinery.
SHARED = {"record", "source", "spool", "json", "lines", "gzip", "le", "config", "naming", "clock",
          "schedule", "control", "text", "globs", "sums", "probes/calls", "probes/calls_table",
          "probes/unwrapped"}

# Files that define the names which os.h forbids, or (config.c) may read the environment.
MAY_UNPOISON = {"config.c", "preload.c", "probes/aio.c", "probes/attach.c",
                "probes/attach_preload.c", "probes/calls.c", "probes/made.c", "probes/posix.c",
                "probes/process.c", "probes/stdio.c", "probes/trees.c"}

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
    """'src/probes/posix.c' -> 'probes/posix'; outside src/ the path from the top."""
    base = SRC if path.is_relative_to(SRC) else SOURCE
    return str(path.relative_to(base).with_suffix(""))


def layer_of(module):
    whole = LAYER.get(module.split("_")[0])
    return LAYER.get(module, 3 if module.startswith("probes/") else whole)


def includes(path):
    """The project's own files that `path` includes."""
    for line in path.read_text().splitlines():
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if not match:
            continue
        for base in (path.parent, SRC, SOURCE / "include"):
            target = (base / match[1]).resolve()
            if target.is_file():
                yield target
                break
        else:
            assert f'"{match[1]}"' not in line, f"{path}: {line.strip()}: no such file"


def guest_files():
    files = [path for path in source_files("src") if not path.is_relative_to(SRC / "store")]
    assert len(files) > 20, "src/ is not where this test looks for it"
    return files


def law_of_guest(path):
    """Every breach of the law in one file of src/ (src/store has its own)."""
    module = name_of(path)
    layer = 4 if module in MEETING | {"preload"} else layer_of(module)
    if layer is None:
        yield f"src/{module}: in no layer: give it one in LAYERS"
        return
    for target in includes(path):
        other = name_of(target)
        if other == module or target.is_relative_to(SOURCE / "include"):
            continue
        if other.startswith(("store/", "tools/", "tests/")):
            yield f"{path}: includes {other}, which is not the recorder's"
        elif other not in MEETING and (layer_of(other) is None or layer_of(other) > layer):
            yield f"{path}: layer {layer} includes {other} of layer {layer_of(other)}"
        for who, what in NEVER.items():
            if (module == who or who.endswith("/") and module.startswith(who)) and what.match(other):
                yield f"{path}: {who} must never include {other}"


def test_recorder_includes_only_what_lies_below():
    breaches = [line for path in guest_files() for line in law_of_guest(path)]
    assert not breaches, "\n".join(breaches)


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


def test_tools_and_store_use_only_what_is_shared():
    breaches = []
    for path in source_files("tools", "src/store"):
        in_store = path.is_relative_to(SRC / "store")
        for target in includes(path):
            other = name_of(target)
            if target.is_relative_to(SOURCE / "include") or other in SHARED:
                continue
            if other.startswith("store/") or (other.startswith("tools/") and not in_store):
                continue
            breaches.append(f"{path}: includes {other}")
    assert not breaches, "\n".join(breaches)


def test_bindings_use_only_the_public_header():
    breaches = [f"{path}: includes {name_of(target)}" for path in source_files("bindings")
                for target in includes(path) if target.is_relative_to(SRC)]
    assert not breaches, "\n".join(breaches)


def test_only_wrappers_lift_the_poison():
    lifted = {str(path.relative_to(SRC)) for path in guest_files()
              if re.search(r"^\s*#\s*define\s+PFW_OS_NO_POISON", path.read_text(), re.M)}
    assert lifted <= MAY_UNPOISON, f"may not: {sorted(lifted - MAY_UNPOISON)}"
    assert "#pragma GCC poison open" in (SRC / "os.h").read_text()


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
    text = re.sub(r"/\*.*?\*/", "", (SRC / "probes/calls.def").read_text(), flags=re.S)
    names = re.findall(r"^CALL_\w+\(\s*[^,]+,\s*[^,]+,\s*(\w+)\s*,", text, re.M)
    assert len(names) > 10, "calls.def does not read as this test reads it"
    return set(names)


def test_recorder_shows_only_its_own_names():
    names = symbols("libpfw.so.1", "--defined-only")
    assert "pfw_start" in names
    others = {name for name in names if not name.startswith("pfw_")}
    # why: src/probes/attach.c; the names that the driver and NVTX's header look for
    assert others == {"__gmon_start__", "InitializeInjection", "InitializeInjectionNvtx2"}


def test_recorder_symbols_are_versioned():
    lines = output("nm", "-D", "--defined-only", "--with-symbol-versions", LIB / "libpfw.so.1")
    assert not [line for line in lines.splitlines()
                if " A " not in line and not line.endswith("@@PFW_1")]


def test_preload_shows_the_rows_of_calls_def_and_nothing_else():
    names = {name for name in symbols("libpfw_preload.so", "--defined-only")
             if not name.startswith("pfw_")}
    assert names == wrapped_calls()


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
