"""pfw.h, call by call: what api_target.c asks for is what the trace holds, whoever brings the recorder.

Without a recorder it does nothing; with the preload object, linked, and both: one recorder, one file.
"""
import math
import os
import re
import shutil
import subprocess

import pytest

import harness

TARGET = harness.BUILD / "tests" / "api_target"
LINKED = harness.BUILD / "tests" / "linked_api_target"
WAYS = {"preload": (TARGET, True), "linked": (LINKED, False), "both": (LINKED, True)}
LONG = "x" * 5000


class Run:
    """One mode of the program, run one way; its trace, its children's traces, what it printed."""

    def __init__(self, top, way, mode, suffix="", **variables):
        program, preload = WAYS[way]
        self.top = top
        (top / "spools").mkdir()
        environment = harness.traced_environment(top / f"t{suffix}", top / "spools", **variables)
        if not preload:
            del environment["LD_PRELOAD"]
        result = harness.run([program, mode], environment, top)
        self.printed, self.said = result.stdout.splitlines(), result.stderr.splitlines()
        self.names = harness.trace_names(top)
        assert os.listdir(top / "spools") == []

    def lines(self, name="t.pfw"):
        return harness.check_trace(self.top / name)

    def made(self, name="t.pfw", *names):
        """The program's own events; I/O, where it is traced, left out."""
        return [line for line in harness.events(self.lines(name), *names)
                if line["cat"] not in ("POSIX", "STDIO", "NET", "SYNC")]


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def one(lines, name):
    found = [line for line in lines if line["name"] == name]
    assert len(found) == 1, (name, found)
    return found[0]


# ---- without a recorder ----

@pytest.mark.parametrize("mode", ["spans", "compute", "stop"])
def test_absent(tmp_path, mode):
    """Not linked, nothing preloaded: each call is a no-op that returns 0."""
    result = harness.run([TARGET, mode], harness.clean_environment(DFTRACER_ENABLE="1"), tmp_path)
    printed = result.stdout.splitlines()
    assert printed[0] == "version none" and result.stderr == ""
    assert all(re.fullmatch(r"[a-z :]+[0 ]+( events 0 lost 0 enabled 0 path  bytes 0)?", line)
               for line in printed[1:]), printed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["spans", "compute", "stop"])
def test_disabled(tmp_path, way, mode):
    run = Run(tmp_path, way, mode, DFTRACER_ENABLE="0")
    assert run.names == [] and run.said == []


# ---- one recorder, whoever brings it ----

def test_one_recorder(tmp_path, way):
    run = Run(tmp_path, way, "spans")
    assert run.names[-1] == "t.pfw" and len(run.names) == 2  # the second is the forked child's
    assert run.printed[0] == "version 0.1.0"
    assert harness.events(run.lines(), "printf") and run.said == []


def test_all_ways_make_the_same_events(tmp_path):
    told = []
    for way in WAYS:
        (tmp_path / way).mkdir()
        run = Run(tmp_path / way, way, "compute")
        assert run.names == ["t.pfw"]
        told.append([(line["name"], line["cat"], line["ts"], line["args"])
                     for line in run.made()])
    assert told[0] == told[1] == told[2] and len(told[0]) == 16


def test_preload_object_and_library_elsewhere(tmp_path):
    """The program's own library is the one that the preload object takes: never two."""
    (tmp_path / "lib").mkdir()
    for name in ("libpfw_preload.so", "libpfw.so.1"):
        shutil.copy(os.path.join(harness.LIB_DIR, name), tmp_path / "lib" / name)
    run = Run(tmp_path, "both", "stop", LD_PRELOAD=str(tmp_path / "lib" / "libpfw_preload.so"))
    assert run.names == ["t.pfw"] and len(run.made()) == 2


# ---- spans ----

def test_spans_nest(tmp_path, way):
    made = Run(tmp_path, way, "spans").made()
    outer, inner = one(made, "outer"), one(made, "inner")
    scoped, twice = one(made, "scoped"), one(made, "scoped twice")
    assert (outer["cat"], inner["cat"], scoped["cat"], twice["cat"]) == \
        ("mine", "app", "app", "other")
    assert "parent" not in outer["args"]
    assert inner["args"]["parent"] == scoped["args"]["parent"] == outer["args"]["span_id"]
    assert twice["args"]["parent"] == scoped["args"]["span_id"]
    ids = [line["args"]["span_id"] for line in made if "span_id" in line["args"]]
    assert len(set(ids)) == len(ids) and all(0 < number < 2 ** 53 for number in ids)
    assert outer["ts"] <= inner["ts"] and \
        inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.5  # doubles of 0.25 us


def test_args_of_a_span(tmp_path, way):
    run = Run(tmp_path, way, "spans")
    args = one(run.made(), "outer")["args"]
    assert args["int"] == -2 ** 63 and args["positive"] == 2 ** 63 - 1
    assert args["double"] == 0.1 and args["whole"] == 3.0
    assert args["infinite"] is None or math.isinf(float(args["infinite"]))
    assert args["text"] == "tab\t quote\" back\\ ü" and args["bad"] == "\ufffd!"
    assert args["long"] == LONG
    assert run.printed[1:6] == ["current 1", "after 0", "tasks 1 1", "no key -22", "refused 2"]


def test_tasks_that_take_turns_in_a_thread(tmp_path, way):
    made = Run(tmp_path, way, "spans").made()
    assert one(made, "within first")["args"]["parent"] == one(made, "first task")["args"]["span_id"]
    assert "parent" not in one(made, "second task")["args"]
    assert not [line for line in made if line["name"] == "unwanted"]


def test_too_many_args_are_cut_and_counted(tmp_path, way):
    args = one(Run(tmp_path, way, "spans").made(), "too much")["args"]
    assert args["args_cut"] == 2 and args["long"] == LONG


def test_events_instants_counters(tmp_path, way):
    run = Run(tmp_path, way, "spans")
    finished = one(run.made(), "finished")
    assert (finished["cat"], finished["dur"], finished["ph"]) == ("mine", 1.5, "X")
    raw = (tmp_path / "t.pfw").read_bytes()
    assert b'"ts":1700000000123456.789,"dur":1.500' in raw
    late, told = one(run.made(), "told late"), one(run.made(), "told moment")
    assert b'"ts":1700000000123456.789,"dur":2.500,"ph":"X","args":{"count":3' in raw
    assert late["args"]["span_id"] and told["ph"] == "i" and "dur" not in told
    assert told["args"]["value"] == "v" and "over -22 0" in run.printed
    moment, inner = one(run.made(), "moment"), one(run.made(), "inner")
    assert moment["ph"] == "i" and inner["ts"] <= moment["ts"] + 0.5
    queue = [line for line in run.made() if line["name"] == "queue"]
    assert [(line["ph"], line["cat"], line["args"]) for line in queue] == \
        [("C", "COUNTER", {"depth": 7.5}), ("C", "COUNTER", {"bytes": 4096.0})]
    assert "event -22" in run.printed


@pytest.mark.parametrize("suffix", ["", ".pfw.gz"])
def test_threads(tmp_path, way, suffix):
    made = Run(tmp_path, way, "spans", suffix).made(f"t{suffix or '.pfw'}")
    turns = [line for line in made if line["name"] == "turn"]
    parts = [line for line in made if line["name"] == "part"]
    assert len(turns) == len(parts) == 400
    for name in ("t0", "t1", "t2", "t3"):
        mine = [line for line in turns if line["cat"] == name]
        assert [line["args"]["i"] for line in mine] == list(range(100))
        (tid,) = {line["tid"] for line in mine}
        parents = [line["args"]["parent"] for line in parts if line["tid"] == tid]
        assert parents == [line["args"]["span_id"] for line in mine]
    assert len({line["tid"] for line in turns}) == 4
    assert not any("parent" in line["args"] for line in turns)


def test_span_ended_by_another_thread(tmp_path, way):
    handed = one(Run(tmp_path, way, "spans").made(), "handed over")
    assert handed["dur"] > 0 and handed["args"]["span_id"] > 0


def test_span_across_fork(tmp_path, way):
    """The parent's span is ended once, by the parent; the child's own are its own."""
    run = Run(tmp_path, way, "spans")
    (child,) = [name for name in run.names if name != "t.pfw"]
    around = one(run.made(), "around fork")
    own = run.made(child)
    assert [line["name"] for line in own] == ["in child", "in child again"]
    assert {line["pid"] for line in own} == {int(re.search(r"pid(\d+)", child)[1])}
    assert around["dur"] >= max(line["dur"] for line in own)


# ---- compute events ----

EVERY = {
    "kind": "kernel", "device": 1, "device_index": 3, "context": 4, "stream": 5,
    "correlation": 2 ** 40, "external_id": 7, "span": 8, "step": -9,
    "grid": [2147483647, 65535, 1], "block": [1024, 2, 64], "registers": 10, "static_smem": 11,
    "dynamic_smem": 12, "local_mem": 13, "occupancy": 0.75, "priority": -1, "queued": 1234,
    "channel": 14, "graph": 15, "graph_node": 16, "cbid": 17, "bytes": 2 ** 33,
    "copy_kind": "HtoD", "src_kind": "pinned", "dst_kind": "device", "src_device": 18,
    "dst_device": 19, "gbps": 12.5, "wait_on_stream": 20, "wait_on_event": 21, "cpu_memory": -22,
    "device_memory_usage": 23, "is_remote": 1, "input_size": 2, "input_shapes": [[8, 16], [16]],
    "dtypes": ["float", "float"], "strides": [[16, 1], [1]], "flops": 2 ** 45, "sequence": 24,
    "fwd_tid": 25, "module": "net.layer \"1\"", "python_id": 26, "parent": 27,
    "total_cpu_percent": 28.5, "total_device_percent": 29.5,
    "stack": ["f (a.py:1)", "g (b.py:2)"], "addr": 0x7f0000001000, "total_allocated": 30,
    "total_reserved": 31, "blocks_per_sm": 0.5, "phase": "active",
}
KINDS = ["cpu_op", "kernel", "memcpy", "memset", "runtime", "driver", "sync", "annotation", "step",
         "overhead", "memory", "python_function"]


def test_every_field_of_a_compute_event(tmp_path, way):
    run = Run(tmp_path, way, "compute")
    event = one(run.made(), "void kernel<float>(int)")
    assert (event["cat"], event["ph"], event["tid"], event["dur"]) == ("PP", "X", 4242, 2.5)
    assert b'"ts":1700000000000001.000,"dur":2.500' in (tmp_path / "t.pfw").read_bytes()
    for key, value in EVERY.items():
        assert event["args"].get(key) == value, key
    assert set(event["args"]) == set(EVERY)
    header = (harness.SOURCE / "include/pfw/pfw.h").read_text()
    fields = re.search(r"#define PFW_COMPUTE_FIELDS\(X\)(.*?)\n\n", header, re.S)[1]
    assert set(re.findall(r"X\((\w+)\)", fields)) | {"phase"} == set(EVERY)


def test_compute_event_without_fields(tmp_path, way):
    run = Run(tmp_path, way, "compute")
    assert one(run.made(), "aten::linear")["args"] == {}
    kinds = [line["args"]["kind"] for line in run.made() if line["name"] == "of a kind"]
    assert kinds == KINDS
    assert one(run.made(), "not json")["args"] == {"input_shapes": "[[8,"}
    assert run.printed[1:] == ["refused 3"]


def test_lane_of_a_stream(tmp_path, way):
    run = Run(tmp_path, way, "compute")
    lane = one(run.made(), "lane")
    assert lane["tid"] == 1 * 10000000 + 1 * 1000 + 7
    named = [line["args"]["name"] for line in harness.own(run.lines(), "thread_name")
             if line["tid"] == lane["tid"]]
    assert named == ["GPU 0 stream 7"]


# ---- start, stop, flush, stats ----

def test_stop_and_start_again(tmp_path, way):
    run = Run(tmp_path, way, "stop")
    assert run.names == ["t.pfw"]
    lines = run.lines()
    assert [line["name"] for line in run.made()] == ["first", "second"]
    ends = [number for number, line in enumerate(lines) if line["name"] == "end"]
    assert len(ends) >= 2 and ends[-1] == len(lines) - 1
    names = [line["name"] for line in lines]
    assert names.index("first") < ends[0] < names.index("second")


def test_stats(tmp_path, way):
    run = Run(tmp_path, way, "stop", DFTRACER_DISABLE_IO="1")
    stats = {}
    for line in run.printed:
        found = re.fullmatch(r"(\w+): 0 events (\d+) lost 0 enabled (\d) path (\S*) bytes (\d)",
                             line)
        if found:
            stats[found[1]] = (int(found[2]), *found.groups()[2:])
    assert stats["before"] == (0, "1", "", "0")
    assert [stats[when][1:] for when in ("first", "stopped", "second")] == \
        [("1", "t.pfw", "1"), ("0", "t.pfw", "1"), ("1", "t.pfw", "1")]
    counts = [stats[when][0] for when in ("first", "stopped", "second")]
    assert counts == [1, 1, 2]
    assert [line for line in run.printed if line.startswith(("start", "flush", "stop", "again"))
            and ":" not in line] == \
        ["start 0", "flush 0", "stop 0", "again 0 0", "flush 0", "stop 0 0"]


def test_bad_options_are_said(tmp_path, way):
    run = Run(tmp_path, way, "stop")
    assert run.printed[-1] == "bad 1"
    assert len([line for line in run.said if "options.bytes" in line]) == 1


@pytest.mark.parametrize("enable", ["1", ""])
def test_bad_variables_are_said_once(tmp_path, way, enable):
    """Also where nothing but the program's pfw_start() turns recording on."""
    said = Run(tmp_path, way, "stop", DFTRACER_ENABLE=enable, PFW_COUNTERS="9", PFW_RNAK="3").said
    assert len([line for line in said if "PFW_COUNTERS=9: bad value" in line]) == 1, said
    assert len([line for line in said if "did you mean PFW_RANK?" in line]) == 1, said


# ---- languages and link modes ----

CPLUSPLUS = """
#include <pfw/pfw.h>
#include <cstdio>

static int work(int n)
{
    PFW_SPAN("work");
    return n ? work(n - 1) : 0;
}

int main()
{
    try {
        PFW_SPAN("throwing");
        throw work(2);
    } catch (int) {
        pfw_instant("caught", "c++");
    }
    std::printf("%d\\n", pfw_version() != nullptr);
}
"""


@pytest.mark.parametrize("link", [False, True], ids=["unlinked", "linked"])
def test_cplusplus(tmp_path, link):
    """C++ includes it; spans of a scope end when an exception leaves it."""
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    source = tmp_path / "spans.cc"
    source.write_text(CPLUSPLUS)
    flags = [f"-L{harness.LIB_DIR}", "-lpfw", f"-Wl,-rpath,{harness.LIB_DIR}"] if link else ["-DPFW_OPTIONAL"]
    program = harness.compile_c(source, tmp_path / "spans", *flags, compiler="g++")
    (tmp_path / "spools").mkdir()
    assert harness.run([program], cwd=tmp_path).stdout == f"{int(link)}\n"
    result = harness.run([program], harness.traced_environment(tmp_path / "t",
                                                               tmp_path / "spools"))
    assert result.stdout == "1\n"
    lines = harness.check_trace(tmp_path / "t.pfw")
    names = [line["name"] for line in harness.events(lines) if line["cat"] in ("app", "c++")]
    assert names == ["work"] * 3 + ["throwing", "caught"]


NATURAL = ["gcc a.c -lpfw -o a", "gcc -lpfw a.c -o a", "gcc -O2 -o a -lpfw a.c -lm", "gcc -c a.c && gcc -lpfw a.o -o a",
           "gcc -no-pie -fno-pic a.c -lpfw -o a", "gcc -Wl,--as-needed a.c -lpfw -o a",
           "gcc a.c $(pkg-config --cflags --libs pfw) -o a", "gcc $(pkg-config --cflags --libs pfw) a.c -o a",
           "gcc -DPFW_OPTIONAL a.c -o a", "g++ -lpfw a.c -o a", "clang -lpfw a.c -o a", "clang a.c -lpfw -o a",
           "gcc -Wl,--as-needed -Wl,--gc-sections -flto -O2 -lpfw a.c -o a", "gcc -fuse-ld=gold -lpfw a.c -o a",
           "gcc -fuse-ld=lld -lpfw a.c -o a", "clang -fuse-ld=lld -Wl,--gc-sections -lpfw a.c -o a"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where `cmake --install` has put all of it, moved later, as a directory that compilers look into."""
    if harness.CROSS_CC:
        pytest.skip("the compiler's own search path is meant")
    first = tmp_path_factory.mktemp("at first")
    harness.run(["cmake", "--install", harness.BUILD, "--prefix", first])
    top = first.rename(first.with_name("moved"))
    assert harness.run([top / "bin/pfw", "config", "--preload"]).stdout == f"{top}/lib/libpfw_preload.so\n"
    return {"C_INCLUDE_PATH": str(top / "include"), "CPLUS_INCLUDE_PATH": str(top / "include"),
            "LIBRARY_PATH": str(top / "lib"),
            "LD_LIBRARY_PATH": str(top / "lib"), "PKG_CONFIG_PATH": str(top / "lib/pkgconfig"),
            "CMAKE_PREFIX_PATH": str(top)}


def check_it_records(top, places, linked=True):
    (top / "spools").mkdir()
    environment = harness.traced_environment(top / "t", top / "spools", **places)
    if linked:
        del environment["LD_PRELOAD"]
    else:
        harness.run([top / "a"], harness.clean_environment(), top)
    harness.run([top / "a"], environment, top)
    assert [event["name"] for event in harness.events(harness.check_trace(top / "t.pfw"))
            if event["cat"] == "app"] == ["work"]


SMALL = '#include <pfw/pfw.h>\nint main(void) { PFW_SPAN("work"); return 0; }\n'


@pytest.mark.parametrize("line", NATURAL)
def test_natural_command_lines(tmp_path, installed, line):
    """With libpfw in the compiler's search path, as after an installation: no options to know."""
    for tool in re.findall("pkg-config|clang|g[+][+]", line) + [f"ld.{name}" for name in re.findall("fuse-ld=([a-z]+)", line)]:
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")
    (tmp_path / "a.c").write_text(SMALL)
    harness.run(["sh", "-c", line], harness.clean_environment(**installed), tmp_path)
    check_it_records(tmp_path, installed, "OPTIONAL" not in line)


@pytest.mark.parametrize("how", ["-static", "-static-pie"])
def test_static_programs(tmp_path, installed, how):
    """They cannot have the recorder, which is a shared library: -lpfw does not link, PFW_OPTIONAL makes calls of nothing."""
    (tmp_path / "a.c").write_text(SMALL)
    env = harness.clean_environment(**installed)
    assert "lpfw" in harness.run(["gcc", how, "a.c", "-lpfw"], env, tmp_path, status=1).stderr
    harness.run(["gcc", how, "-DPFW_OPTIONAL", "a.c", "-o", "a"], env, tmp_path)
    done = harness.run([harness.PFW, "run", "-o", "t", "./a"], env, tmp_path)
    assert "linked statically" in done.stderr


def test_natural_cmake(tmp_path, installed):
    (tmp_path / "a.c").write_text(SMALL)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(a C)\nfind_package(pfw REQUIRED)\n"
        "add_executable(a a.c)\ntarget_link_libraries(a pfw::pfw)\n"
        "set_target_properties(a PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR})\n")
    for words in (["-S", ".", "-B", "b"], ["--build", "b"]):
        harness.run(["cmake", *words], harness.clean_environment(**installed), tmp_path)
    check_it_records(tmp_path, installed)


@pytest.mark.parametrize("standard", ["c++98", "c++11", "c++20"])
def test_cpp_with_strict_warnings(tmp_path, standard):
    """Included with -I, where warnings of a header count."""
    (tmp_path / "a.cc").write_text("#include <pfw/pfw.h>\n" + ("#include <pfw/read.h>\n" if standard != "c++98" else "") +
                                   'int main() { PFW_SPAN("a"); { PFW_SPAN("b"); } return pfw_stats(0); }\n')
    harness.run(["g++", f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
                 "-Wold-style-cast", "-Werror", "-fsyntax-only", f"-I{harness.SOURCE / 'include'}", tmp_path / "a.cc"])


READING = ["cc longest.c -lpfwread -o a", "cc longest.c $(pkg-config --cflags --libs pfwread) -o a",
           "g++ -fsyntax-only -Wall -Wextra -Wpedantic -Werror -include pfw/read.h -x c++ /dev/null && cc longest.c -lpfwread -o a",
           "cmake -S . -B b && cmake --build b && cp b/a a"]


@pytest.mark.parametrize("line", READING)
def test_natural_reading(tmp_path, installed, line):
    """The example of docs/read.rst: it needs nothing of the recorder, and gives the longest event."""
    for tool in ("pkg-config", "cmake"):
        if tool in line and not shutil.which(tool):
            pytest.skip(f"no {tool} here")
    shutil.copy(harness.SOURCE / "examples/longest.c", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(a C)\nfind_package(pfw REQUIRED)\n"
        "add_executable(a longest.c)\ntarget_link_libraries(a pfw::read)\n")
    harness.run(["sh", "-c", line], harness.clean_environment(**installed), tmp_path)
    event = '{"id":%d,"name":"%s","cat":"c","pid":1,"tid":1,"ts":1.000,"dur":%s,"ph":"X","args":{}}\n'
    (tmp_path / "t.pfw").write_text(event % (1, "b", "2.000") + event % (2, "a\\u00e9", "12.345") + "bad\n")
    done = harness.run([tmp_path / "a", "t.pfw"], harness.clean_environment(**installed), tmp_path)
    assert done.stdout == "a\u00e9: 12.345 us\n" and done.stderr.startswith("t.pfw:3: not a JSON object")
    done = harness.run([tmp_path / "a", "t.pfw", "dur < 5us"], harness.clean_environment(**installed), tmp_path)
    assert done.stdout == "b: 2.000 us\n"
    failed = harness.run([tmp_path / "a", "t.pfw", "dur <"], harness.clean_environment(**installed), tmp_path, status=2)
    assert "where" in failed.stderr
    assert "libpfw.so" not in harness.run(["ldd", tmp_path / "a"], harness.clean_environment(**installed)).stdout


def test_reading_from_rust(tmp_path, installed):
    """The other example there: the structs of Arrow and the functions, as Rust declares them."""
    if not shutil.which("rustc"):
        pytest.skip("no rustc here")
    shutil.copy(harness.SOURCE / "examples/longest.rs", tmp_path)
    env = harness.clean_environment(**installed)
    harness.run(["rustc", "--edition", "2021", "-l", "pfwread", "longest.rs"], env, tmp_path)
    line = '{"id":1,"name":"b","cat":"c","pid":1,"tid":1,"ts":1.000%s,"ph":"X","args":{}}\n'
    (tmp_path / "t.pfw").write_text("".join(line % dur for dur in (',"dur":2.000', ',"dur":12.345', "")) * 30000)
    assert harness.run([tmp_path / "longest", "t.pfw"], env, tmp_path).stdout == "12345 ns\n"
    assert "there is no such file" in harness.run([tmp_path / "longest", "none"], env, tmp_path, status=2).stderr


def test_linked_program_needs_no_preload(tmp_path):
    """Built with -lpfw as a user would, by the header and library of this build."""
    source = tmp_path / "one.c"
    source.write_text('#include <pfw/pfw.h>\nint main(void) { pfw_start(0); '
                      'pfw_instant("it", 0); return pfw_stop(); }\n')
    program = harness.compile_c(source, tmp_path / "one", f"-L{harness.LIB_DIR}",
                                "-lpfw", f"-Wl,-rpath,{harness.LIB_DIR}")
    harness.run([program], harness.clean_environment(DFTRACER_LOG_FILE=str(tmp_path / "t")))
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert [line["name"] for line in harness.events(lines)] == ["it"]
