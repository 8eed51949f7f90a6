"""What the end-to-end tests share: the tracer's environment, running programs, reading traces."""
import collections
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

# A shell lets what it starts with `&` ignore these, and so would each program that a test interrupts.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

BUILD = pathlib.Path(os.environ["PFW_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["PFW_SOURCE_DIR"])
PFW = os.environ["PFW_BIN"]
PRELOAD_OBJECT = os.environ["PFW_PRELOAD"]
LIB_DIR = os.environ["PFW_LIB_DIR"]

# What launchers and schedulers set: a test that runs inside a job must not take its rank from it.
LAUNCHERS = ("SLURM_", "OMPI_", "PMI", "MV2_", "PALS_", "FLUX_", "JSM_", "TORCHELASTIC_", "LSB_",
             "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_")
OURS = ("PFW_", "DFTRACER_", "LD_PRELOAD", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH")

# A build with AddressSanitizer: conftest.py sees to the rest.  Its runtime stands behind our object,
# so that calls are ours before they are the runtime's.
RUNTIME = os.environ.get("PFW_SANITIZER_RUNTIME", "")
PRELOAD = f"{PRELOAD_OBJECT}:{RUNTIME}" if RUNTIME else PRELOAD_OBJECT

# A build with ThreadSanitizer: `pfw` has it, the libraries have not.
RACES = os.environ.get("PFW_SANITIZE") == "thread"

# What such a build cannot show, by the beginning of a test's name.
NOT_SANITIZED = {
    "test_calls.py": "hands each call pointers to nowhere, and the runtime looks at what they point to",
    "test_api.py::test_natural": "such a build is not installed",
    "test_api.py::test_reading_from_rust": "such a build is not installed",
    "test_api.py::test_static_programs": "such a build is not installed",
    "test_attach.py::test_old_version_of_a_call_is_left_alone": "the runtime has it without version",
    "test_attach.py::test_static_program_is_told": "a static program has no runtime",
    "test_attach_running.py::test_children_are_recorded": "words of a signal's frame stay in the runtime's frames",
    "test_browser.py": "the browser has an allocator of its own",
    "test_cli.py::test_variables": "LD_PRELOAD has the runtime, too",
    "test_counters.py::test_memory": "the runtime's memory is counted, too",
    "test_cupti.py::test_names_are_demangled_where_the_program_can": "the runtime brings what demangles",
    "test_contributing.py": "it makes a build of its own, without a runtime",
    "test_export_formats.py::test_a_browser": "the browser has an allocator of its own",
    "test_failopen.py::test_empty_environment": "without LD_PRELOAD there is no runtime",
    "test_failopen.py::test_limit_before_the_first_event[limit1": "the runtime gets no memory either",
    "test_faults.py::test_clock_that_is_set": "the runtime stands between us and the clock",
    "test_follow.py::test_follow_puts_our_variables_back": "we put back what is ours, not the runtime",
    "test_follow.py::test_what_cannot_be_started_is_not_noted[clone": "the runtime warns of the stack",
    "test_follow.py::test_what_is_missing_is_said": "the runtime is told nothing there",
    "test_follow.py::test_what_was_switched_off_is_no_loss": "the runtime is told nothing there",
    "test_index.py::test_a_million_names_and_files": "the runtime has no room in so little memory",
    "test_layout.py": "the libraries need the runtime, too",
    "test_preload.py::test_behind_another_preload": "no place for a second runtime or allocator",
    "test_programs.py::test_counts_are_those_of_strace[dd]": "the runtime refuses dd its memory",
    "test_programs.py::test_programs_do_the_same[dd]": "the runtime refuses dd its memory",
    "test_programs.py::test_traces_are_whole[dd]": "the runtime refuses dd its memory",
    "test_programs.py::test_each_process_has_its_file[dd]": "the runtime refuses dd its memory",
    "test_programs.py::test_jq_reads_them": "the runtime refuses dd its memory",
    "test_report.py::test_a_browser": "the browser has an allocator of its own",
    "test_sandbox.py::test_recording_ends_before_a_filter_that_kills": "the filter kills for the runtime's own calls",
    "test_table.py::test_short_calls_that_were_summed_count": "the runtime refuses dd its memory",
    "test_unseen.py::test_under_": "valgrind has other memory, and a second runtime no place",
    "test_unseen.py::test_call_refused[munmap": "the runtime cannot do without it",
    "test_unseen.py::test_call_refused[prlimit64": "the runtime cannot do without it",
}

SIGNALS_LATE = "the runtime calls no handler while waitpid() waits"

# The same under ThreadSanitizer.
NOT_FOR_RACES = {
    "test_index.py::test_a_million_names_and_files": "the runtime has no room in so little memory",
    "test_compact.py::test_a_full_disk_is_said": "the runtime's reports need room, too",
    "test_cli.py::test_signals_reach_the_program_once": SIGNALS_LATE,
    "test_cli.py::test_an_interrupt_from_the_terminal_arrives_once": SIGNALS_LATE,
    "test_cli.py::test_stop_and_continue": SIGNALS_LATE,
}

# Reads and writes of many sizes, names that want escapes, some that fail.
ODD_FILES = r"""
import os, sys
top = sys.argv[1]
for i in range(400):
    name = os.path.join(top, ["a.npz", 'q"uote', "b\\s.txt", "t\tab", "c.npy"][i % 5])
    with open(name, "wb", buffering=0) as file:
        file.write(b"x" * (i * 37 % 5000))
    with open(name, "rb", buffering=0) as file:
        file.read(i % 777)
    try:
        os.stat(name + ".none")
    except OSError:
        pass
"""


def clean_environment(**variables):
    """This environment without the tracer's and the launchers' variables.

    PFW_REPAIR=0: a test repairs nothing of another one that runs at the same time (test_repairs.py does)."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(LAUNCHERS + OURS) and name != "COLUMNS"}
    return {**kept, "LC_ALL": "C", "PFW_REPAIR": "0", **variables}


def traced_environment(base, spools, **variables):
    """The variables that make a program traced, its trace named after base."""
    return clean_environment(**{
        "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_DATA_DIR": "all",
        "DFTRACER_LOG_FILE": str(base), "LD_PRELOAD": PRELOAD, "PFW_SPOOL_DIR": str(spools),
        **variables})


def run(command, environment=None, cwd=None, status=0, **options):
    """Run it to its end, with its own output taken; it must exit with the status (None: any).

    The time is for what hangs: with sanitizers, on a loaded machine, two minutes are soon over."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 600, **options}
    result = subprocess.run([str(word) for word in command], cwd=cwd, text=True, errors="surrogateescape",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                            env=clean_environment() if environment is None else environment,
                            **options)
    assert status is None or result.returncode == status, \
        f"{command}: status {result.returncode}\n{result.stdout}\n{result.stderr}"
    if [str(word) for word in command[:2]] == [PFW, "table"] and not result.stdout.startswith("usage:"):
        check_table(result.stdout)
    return result


def pfw(*words, **options):
    """Run the command; the result of run()."""
    return run([PFW, *words], **options)


# In a table for people; in rows of NDJSON: memory may be freed, time is never given back.
BELOW_ZERO = re.compile(r'(?<![\w.#+-])-[0-9.]*[1-9][0-9.]* ?(?:ns|us|µs|ms|s|%)(?![\w%])'
                        r'|"self_[a-z_]*time[a-z_]*":-')


def check_table(text):
    """What `pfw table` prints has no time below 0: self times are what children leave of a span."""
    assert not BELOW_ZERO.search(text), f"a time below 0:\n{text}"


# For another processor: its compiler, and what stands where a program of it should be.
CROSS_CC = os.environ.get("PFW_CROSS_CC")
LAUNCHER = os.environ.get("PFW_LAUNCHER")


def compile_c(source, out, *flags, compiler="gcc"):
    if LAUNCHER and out.suffix != ".so":
        (out.parent / ".real").mkdir(exist_ok=True)
        shutil.copy(LAUNCHER, out)
    run([*(shlex.split(CROSS_CC) if CROSS_CC else [compiler]), "-O1", "-g", "-Wall", "-Wextra",
         "-Werror", f"-I{SOURCE / 'include'}", source, "-o", program_file(out), "-pthread", *flags])
    return out


def program_file(path):
    """The ELF file of a program that was compiled."""
    real = path.parent / ".real" / path.name
    return real if real.parent.exists() and path.suffix != ".so" else path


# ---- traces ----

REQUIRED = ("id", "name", "cat", "pid", "tid", "ts", "ph", "args")
KEYS = ["id", "name", "cat", "pid", "tid", "ts", "dur", "ph", "args"]
TIME = re.compile(rb'"(?:ts|dur)":(-?[0-9]+\.[0-9]{3})[,}]')


def open_trace(path):
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")


def read_lines(path):
    """The lines of a trace, each held to docs/format.rst."""
    with open_trace(path) as file:
        text = file.read()
    assert text.endswith(b"\n"), f"{path}: cut"
    return [checked_line(path, raw) for raw in text.splitlines()]


def checked_line(path, raw):
    raw.decode("utf-8", "strict")
    line = json.loads(raw)
    assert [key for key in KEYS if key in line] == list(line), f"{path}: {raw}"
    assert all(key in line for key in REQUIRED), f"{path}: {raw}"
    assert line["ph"] in ("X", "i", "C", "M") and ("dur" in line) == (line["ph"] == "X"), raw
    assert isinstance(line["args"], dict) and line.get("dur", 0) >= 0, raw
    assert len(TIME.findall(raw)) >= 1 + ("dur" in line), f"{path}: {raw}"
    assert isinstance(line["id"], int) and isinstance(line["pid"], int), raw
    return line


def events(lines, *names):
    """The lines that are not the tracer's own; of these names, where some are given."""
    return [line for line in lines
            if line["cat"] != "pfw" and (not names or line["name"] in names)]


def own(lines, name):
    return [line for line in lines if line["cat"] == "pfw" and line["name"] == name]


def check_trace(path, reasons=("exit", "exec"), lost=0):
    """A whole trace of one process: lines, order, ids, threads' names, end.  Return its lines."""
    lines = read_lines(path)
    first, last = lines[0], lines[-1]
    assert (first["name"], first["cat"], first["ph"]) == ("process", "pfw", "M"), path
    assert [line["name"] for line in lines].count("process") == 1, path
    assert (last["name"], last["cat"]) == ("end", "pfw"), f"{path}: ends in {last}"
    assert last["args"]["reason"] in reasons, f"{path}: {last}"
    assert last["args"]["lost"] == lost, f"{path}: {last}"
    assert last["args"]["events"] == sum(line["ph"] != "M" for line in lines), path
    ids = [line["id"] for line in lines]
    assert ids == sorted(set(ids)), f"{path}: ids are not unique and increasing"
    assert {line["pid"] for line in lines} == {first["pid"]}, path
    named = set()
    for line in lines:
        if line["name"] == "thread_name" and line["cat"] == "pfw":
            named.add(line["tid"])
        assert line["cat"] in ("pfw", "PP", "COUNTER") or line["tid"] in named, f"{path}: {line} before its thread"
    if any(line["cat"] not in ("POSIX", "STDIO", "NET", "SYNC", "COUNTER", "pfw") for line in lines):
        run([PFW, "table", "--row-limit", "-1", "--format", "ndjson", "-q", path], status=None)
    return lines


def trace_names(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith((".pfw", ".pfw.gz")))


def process_args(path):
    """The args of a trace's first line."""
    return read_lines(path)[0]["args"]


# ---- counts ----

STRACED = {"open": "open", "openat": "open", "creat": "open", "openat2": "open",
           "read": "read", "pread64": "read", "readv": "read", "preadv": "read", "preadv2": "read",
           "write": "write", "pwrite64": "write", "writev": "write", "pwritev": "write",
           "pwritev2": "write", "close": "close"}
TRACED = {name.replace("64", ""): kind for name, kind in STRACED.items()}


def traced_counts(traces, below):
    """{(open|read|write|close, path): calls} of files below a directory, by the traces."""
    counts = collections.Counter()
    for lines in traces:
        for line in lines:
            name = line["args"].get("fname") or ""
            if line["cat"] == "POSIX" and line["name"] in TRACED and name.startswith(f"{below}/"):
                counts[TRACED[line["name"]], name] += 1
    return counts


def strace_counts(command, below, cwd, environment, scratch):
    """The same by `strace -f`, of an untraced run.  One file a thread: no call is cut in two."""
    result = run(["strace", "-ff", "-y", "-qq", "-s", "4096", "-e",
                  "trace=" + ",".join(STRACED), "-o", f"{scratch}/s", *command],
                 environment, cwd, status=None)
    counts = collections.Counter()
    for name in os.listdir(scratch):
        for line in (pathlib.Path(scratch) / name).read_text(errors="replace").splitlines():
            found = re.match(r"(\w+)\((.*)\)\s+= (.*)$", line)
            if found and found[1] in STRACED:
                path = unescaped(strace_path(*found.groups(), str(cwd)))
                if path.startswith(f"{below}/"):
                    counts[STRACED[found[1]], path] += 1
    return result, counts


def strace_path(call, arguments, returned, cwd):
    if STRACED[call] != "open":
        found = re.match(r"\d+<([^>]*)>", arguments)
        return found[1] if found else ""
    found = re.match(r"\d+<([^>]*)>", returned)
    if found:
        return found[1].removesuffix(" (deleted)")
    found = re.match(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"', arguments)
    return os.path.normpath(os.path.join(found[1] or cwd, found[2]))


def unescaped(text):
    """strace shows bytes as C would."""
    return re.sub(rb"\\([0-7]{1,3}|.)", lambda found: bytes([int(found[1], 8)])
                  if found[1].isdigit() else found[1], text.encode()).decode()


def torchs_table(*arguments, **options):
    """The tables of `pfw table` in PyTorch's order, without the head, which PyTorch does not have."""
    order = [] if "--sort-by" in arguments else ["--sort-by", "none"]
    return run([PFW, "table", "--no-head", *order, *arguments], **options).stdout


def without_ends(text):
    """PyTorch's table without the blanks at the ends of its lines."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
