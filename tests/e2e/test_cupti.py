"""The GPU probe, on the stand-ins for NVIDIA's libraries (tests/gpu/standin): no GPU is needed.

Without NVIDIA's headers (tests/gpu/fetch) there are no stand-ins: then only what needs none runs.
"""
import collections
import gzip
import json
import os
import pathlib
import re
import struct
import subprocess
import zlib

import harness
import pytest

STANDINS = {major: harness.BUILD / f"tests/standin{major}" for major in (12, 13)}
RECORDER = harness.BUILD / "lib/libpfw.so.1"
standin = pytest.mark.skipif(not (STANDINS[13] / "libcupti.so.13").exists(),
                             reason="no stand-ins: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")

# Every stride and every set of calls that CUPTI has had since 12.0.
VERSIONS = [(12, 18), (12, 22), (12, 28), (13, 130001), (13, 130101), (13, 130202), (13, 130301),
            (13, 130401), (13, 130500)]


class Run:
    """One run of target.c: its lines by kind."""

    def __init__(self, directory, words, standin="", major=13, status=0, injected=True,
                 traced=True, program=None, lost=0, reasons=("exit", "exec"), **variables):
        environment = harness.traced_environment(directory / "t", directory, **variables)
        environment |= {"LD_LIBRARY_PATH": str(STANDINS[major]), "STANDIN": standin}
        environment.pop("CUDA_INJECTION64_PATH", None)
        if injected:
            environment["CUDA_INJECTION64_PATH"] = str(RECORDER)
        program = program or harness.BUILD / f"tests/gpu_target{major}"
        result = harness.run([program, *words.split()], environment, directory, status)
        self.said, self.out = result.stderr, result.stdout
        self.paths = [directory / name for name in harness.trace_names(directory)]
        self.lines = []
        for path in self.paths if traced else []:
            self.lines += harness.check_trace(path, reasons, lost)

    def pp(self, kind, name=None):
        return [line for line in self.lines if line["cat"] == "PP" and line["args"]["kind"] == kind
                and name in (None, line["name"])]

    def figures(self):
        own = harness.own(self.lines, "gpu")
        return own[-1]["args"] if own else {}

    def spans(self):
        """{span_id: name}"""
        return {line["args"]["span_id"]: line["name"] for line in self.lines
                if "span_id" in line["args"]}


def given_time(top, kernels, start):
    """The run of start(directory, ms) that has so many kernels: on a loaded machine a thread of ours
    may need seconds to get to where it listens."""
    for pause in (100, 1000, 10000):
        directory = top / str(pause)
        directory.mkdir(parents=True)
        (directory / "data.bin").write_bytes(b"x" * 64)
        run = start(directory, pause)
        if len(run.pp("kernel")) == kernels:
            break
    return run


def launches_of(run):
    """{correlation: runtime or driver call}, and each kernel finds its own."""
    calls = {line["args"]["correlation"]: line for line in run.pp("runtime") + run.pp("driver")}
    for kernel in run.pp("kernel"):
        assert kernel["args"]["correlation"] in calls, kernel
    return calls


# ---- what is recorded ----


@standin
@pytest.mark.parametrize("major,version", VERSIONS)
def test_kernels_copies_and_calls_of_every_version(tmp_path, major, version):
    run = Run(tmp_path, "init launch=3 copies=2 driver=2", f"version={version}", major)
    assert run.said == ""
    kernels = run.pp("kernel")
    assert [k["name"] for k in kernels] == ["plain_kernel"] * 3 + ["module_kernel"] * 2
    args = kernels[0]["args"]
    # a line says all of itself, also what is usual, 0, or as in the line before
    assert kernels[0]["tid"] == 10001007 and kernels[0]["dur"] == 4
    assert args == {
        "kind": "kernel", "device": 1, "device_index": 0, "context": 1, "stream": 7,
        "correlation": args["correlation"], "grid": [128, 2, 1], "block": [256, 1, 1], "registers": 32,
        "static_smem": 1024, "dynamic_smem": 0, "local_mem": 0,
        # 256 blocks of 256 threads on 132 multiprocessors of 2048: the grid is what limits it
        "occupancy": 0.2424, "blocks_per_sm": 1.9394, "channel": 3, "graph": 0, "graph_node": 0,
        **({"priority": -5} if version >= 130100 else {})}
    for kernel in kernels[1:3]:
        assert kernel["args"] == args | {"correlation": kernel["args"]["correlation"]}
    assert {k["args"]["occupancy"] for k in kernels[3:]} == {0.0009}
    assert all(set(k["args"]) == set(args) and len(k["args"]["grid"]) == 3 for k in kernels)
    assert kernels[3]["args"]["dynamic_smem"] == 2048
    assert [c["name"] for c in run.pp("memcpy")] == [
        "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)",
        "Memcpy PtoP (Device -> Device)"] * 2
    copy = run.pp("memcpy")[0]["args"]
    place = {"device": 1, "device_index": 0, "context": 1, "stream": 7}
    assert all(place.items() <= line["args"].items() and {"graph", "graph_node"} <= set(line["args"])
               for kind in ("memcpy", "memset") for line in run.pp(kind))
    assert (copy["bytes"], copy["gbps"], copy["copy_kind"]) == (65536, 16.384, "HtoD")
    assert (copy["src_kind"], copy["dst_kind"]) == ("pageable", "device")
    assert (run.pp("memcpy")[2]["args"]["src_device"],
            run.pp("memcpy")[2]["args"]["dst_device"]) == (0, 1)
    assert [m["args"]["bytes"] for m in run.pp("memset")] == [4096, 4096]
    calls = launches_of(run)
    assert {(call["args"]["device"], call["args"]["device_index"]) for call in calls.values()} == {(0, -1)}
    names = collections.Counter(call["name"] for call in calls.values())
    assert names["cudaLaunchKernel"] == 3 and names["cudaMalloc"] == 1, names
    # the driver's launches, without the runtime, where the library can tell them apart
    assert names["cuLaunchKernel"] == (2 if version >= 23 else 0) or version < 23, names
    assert all(k["ts"] > calls[k["args"]["correlation"]]["ts"] for k in kernels[:3])


@standin
def test_a_thread_name_for_each_lane(tmp_path):
    run = Run(tmp_path, "launch graph")
    lanes = {line["tid"]: line["args"]["name"] for line in harness.own(run.lines, "thread_name")}
    assert lanes[10001007] == "GPU 0 stream 7" and lanes[10001009] == "GPU 0 stream 9"
    assert {k["tid"] for k in run.pp("kernel")} == {10001007, 10001009}


@standin
@pytest.mark.parametrize("names", [1, 2])
def test_lanes_have_the_names_that_cupti_knows(tmp_path, names):
    """Where they come late the stream's lane gets a second line."""
    run = Run(tmp_path, "launch graph launch", f"names={names}")
    lines = [(line["tid"], line["args"]["name"]) for line in harness.own(run.lines, "thread_name")
             if line["tid"] > 10000000]
    first = (10001007, 'GPU 0 (first) context 1 (main) stream 7 (the "default")')
    assert lines == [(10001007, "GPU 0 stream 7")] * (names == 2) + [
        first, (10001009, "GPU 0 (first) context 1 (main) stream 9 (copies)")]
    assert len(run.pp("kernel")) == 5 and not run.figures()


@standin
def test_members_of_a_kernels_line(tmp_path):
    """All of them in each, and few bytes once compressed."""
    run = Run(tmp_path, "launch=3 step=2 spans threads=20000", "version=130001", PFW_SCHEDULE="active=10")
    members = {"kind", "device", "device_index", "context", "stream", "correlation", "grid", "block",
               "registers", "static_smem", "dynamic_smem", "local_mem", "occupancy", "channel", "graph",
               "graph_node", "blocks_per_sm", "step", "phase"}
    assert {frozenset(kernel["args"]) for kernel in run.pp("kernel")} == {
        frozenset(members), frozenset(members | {"span"})}
    assert {frozenset(call["args"]) - {"span"} for call in run.pp("runtime")} == {
        frozenset({"kind", "device", "device_index", "correlation", "cbid", "step", "phase"})}
    lines = [line for line in run.paths[0].read_bytes().splitlines(keepends=True)
             if b'"kind":"kernel"' in line]
    assert len(zlib.compress(b"".join(lines), 1)) / len(lines) <= 30


@standin
def test_kernels_of_a_graph_share_their_launch(tmp_path):
    run = Run(tmp_path, "graph=2")
    kernels = run.pp("kernel")
    assert [k["args"]["graph_node"] for k in kernels] == [40, 41, 42] * 2
    assert {k["args"]["graph"] for k in kernels} == {5}
    assert len({k["args"]["correlation"] for k in kernels}) == 2
    assert {c["name"] for c in launches_of(run).values()} == {"cudaGraphLaunch"}


@standin
def test_names_are_demangled_where_the_program_can(tmp_path):
    assert Run(tmp_path, "mangled").pp("kernel")[0]["name"] == "_Z5scaleIfEvPT_i"
    (tmp_path / "b").mkdir()
    run = Run(tmp_path / "b", "mangled nested", LD_PRELOAD=f"{harness.PRELOAD}:libstdc++.so.6")
    short, cut = (kernel["name"] for kernel in run.pp("kernel"))
    assert short == "void scale<float>(float*, int)"
    assert cut.startswith("f(A<A<A<A<A<A<A<A<A<A<A<int, int>, A<int, int> >, ") and len(cut) == 4096


@standin
def test_names_are_kept_before_their_module_is_unloaded(tmp_path):
    run = Run(tmp_path, "init " + " ".join(["driver=20"] * 50))
    assert [k["name"] for k in run.pp("kernel")] == ["module_kernel"] * 1000


@standin
def test_names_are_kept_while_our_thread_has_the_buffers(tmp_path):
    """Its flush has taken them from CUPTI: they name kernels of the module that goes meanwhile."""
    run = Run(tmp_path, "init module=3 sleep=100 unload", "deliver_ms=300", PFW_FLUSH_MS="20")
    assert [k["name"] for k in run.pp("kernel")] == ["module_kernel"] * 3


@standin
def test_only_the_kinds_that_are_wanted(tmp_path):
    def kinds(name, wanted, words="noise launch sync copies"):
        (tmp_path / name).mkdir()
        run = Run(tmp_path / name, words, PFW_CUPTI=wanted)
        return {line["args"]["kind"] for line in run.lines if line["cat"] == "PP"}, run
    assert kinds("a", "kernel")[0] == {"kernel"}
    assert kinds("b", "memcpy,memset")[0] == {"memcpy", "memset"}
    found, run = kinds("c", "runtime,sync,event,memory")
    assert found == {"runtime", "sync", "memory"}
    assert not run.pp("runtime", "cudaGetDevice")
    memory = run.pp("memory")
    assert [m["args"]["bytes"] for m in memory] == [65536, -4096]
    assert len({m["args"]["addr"] for m in memory}) == 1 and memory[0]["ph"] == "i"
    waits = {line["name"]: line["args"] for line in run.pp("sync")}
    assert set(waits) == {"Event Record", "Stream Wait Event", "Stream Sync", "Context Sync"}
    assert waits["Stream Wait Event"]["wait_on_event"] == 3
    assert waits["Stream Wait Event"]["wait_on_stream"] == 8  # where the event was recorded
    assert kinds("d", "0")[0] == set()


@standin
def test_off_means_that_cupti_is_not_even_loaded(tmp_path):
    run = Run(tmp_path, "launch read", PFW_CUPTI="off", LD_DEBUG="files",
              **({} if (tmp_path / "data.bin").write_bytes(b"x" * 64) else {}))
    assert "libcuda.so.1" in run.said and "libcupti" not in run.said


# ---- spans ----


def check_spans(run, names):
    spans = run.spans()
    for kernel in run.pp("kernel"):
        span = kernel["args"].get("span")
        assert spans.get(span) == names[kernel["name"]], kernel


@standin
@pytest.mark.parametrize("major,version", [(12, 18), (13, 130001), (13, 130301)])
def test_each_kernel_names_the_span_that_launched_it(tmp_path, major, version):
    run = Run(tmp_path, "spans=50", f"version={version}", major)
    check_spans(run, {"outside": None, "in_outer": "outer", "in_inner": "inner"})
    assert len(run.pp("kernel")) == 251
    calls = launches_of(run)
    assert all(k["args"].get("span") == calls[k["args"]["correlation"]]["args"].get("span")
               for k in run.pp("kernel"))


@standin
def test_span_open_when_cuda_is_initialised(tmp_path):
    run = Run(tmp_path, "span_first=3")
    check_spans(run, {"in_first": "first", "outside": None})
    assert len(run.pp("kernel")) == 4


@standin
def test_span_open_when_the_driver_is_ready_after_its_injection(tmp_path):
    """CUPTI begins in a thread of ours then: the program's thread catches up when its context is there."""
    def start(top, ms):
        return Run(top, "span_first=3", f"late_ready context_ms={ms}")
    run = given_time(tmp_path, 4, start)
    check_spans(run, {"in_first": "first", "outside": None})


@standin
def test_spans_after_stop_and_start(tmp_path):
    run = Run(tmp_path, "span_first=1 stop spans=2 start spans=2 stop start spans=1",
              traced=False)
    run.lines = harness.read_lines(run.paths[0])
    check_spans(run, {"in_first": "first", "outside": None, "in_outer": "outer",
                      "in_inner": "inner"})
    assert len(run.pp("kernel", "in_inner")) == 6
    assert not run.figures()


def has_nvtx():
    return (harness.BUILD / "tests/nvtx_target").exists()


NVTX = {"NVTX_INJECTION64_PATH": str(RECORDER)}
IN_NVTX = {"in_step": "nvtx_step", "in_span": "span", "in_inner_range": "nvtx_inner", "outside": None}


@standin
@pytest.mark.skipif(not has_nvtx(), reason="no nvtx3/nvToolsExt.h")
@pytest.mark.parametrize("injected", [True, False])
def test_lanes_have_the_names_that_nvtx_gives(tmp_path, injected):
    """A stream that has a line already gets another one."""
    run = Run(tmp_path, "launch flush nvtx_names graph launch", injected=injected, **NVTX)
    lines = [(line["tid"], line["args"]["name"]) for line in harness.own(run.lines, "thread_name")
             if line["tid"] > 10000000]
    early = [(10001007, "GPU 0 stream 7")] * injected
    assert sorted(lines) == sorted(early + [
        (10001007, 'GPU 0 (first) context 1 (m\u00e4in) stream 7 (the "default")'),
        (10001009, "GPU 0 (first) context 1 (m\u00e4in) stream 9 (copies)")])
    assert len(run.pp("kernel")) == 4 + injected and not run.figures()


@standin
@pytest.mark.skipif(not has_nvtx(), reason="no nvtx3/nvToolsExt.h")
def test_each_kernel_names_the_nvtx_range_that_launched_it(tmp_path):
    """Pushed ranges and API spans in each other; a range that is open as CUDA begins, too."""
    run = Run(tmp_path, "nvtx=20", **NVTX)
    check_spans(run, IN_NVTX)
    assert collections.Counter(k["name"] for k in run.pp("kernel")) == {
        "in_step": 40, "in_span": 40, "in_inner_range": 40, "outside": 20}
    ranges = {line["args"]["span_id"]: line for line in run.pp("annotation") if line["ph"] == "X"}
    spans = {line["args"]["span_id"]: line for line in run.lines if line["cat"] == "app"}
    assert len(ranges) == 40 and len(spans) == 20
    for kernel in run.pp("kernel", "in_inner_range"):
        span = spans[ranges[kernel["args"]["span"]]["args"]["parent"]]
        assert ranges[span["args"]["parent"]]["name"] == "nvtx_step"


@standin
@pytest.mark.skipif(not has_nvtx(), reason="no nvtx3/nvToolsExt.h")
def test_nvtx_ranges_schedule_the_kernels(tmp_path):
    run = Run(tmp_path, "nvtx=8", PFW_STEP="nvtx_step", PFW_SCHEDULE="wait=1,warmup=1,active=2", **NVTX)
    steps = collections.Counter((c["args"]["step"], c["args"]["phase"]) for c in run.pp("runtime"))
    assert steps == {(step, "warmup" if step % 4 == 1 else "active"): 7 for step in (1, 2, 3, 5, 6, 7)}
    check_spans(run, IN_NVTX)
    assert len(launches_of(run)) == len(run.pp("kernel")) == 42
    assert len(harness.own(run.lines, "segment")) == 2


@standin
def test_kernels_that_come_before_their_launch(tmp_path):
    run = Run(tmp_path, "threads=20000", "split")
    check_spans(run, {"plain_kernel": None, "thread_outside": None, "thread_in_span": "step"})
    assert len(run.pp("kernel")) == 20001


@standin
def test_a_kernel_joins_the_reads_of_its_span(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"x" * 64)
    run = Run(tmp_path, "read=3")
    program = """
        (map(select(.args.span_id)) | map({key: (.args.span_id | tostring), value: .}) | from_entries)
            as $spans
        | map(select(.name == "read" and .args.ret == 64)) as $reads
        | .[] | select(.args.kind == "kernel") | $spans[.args.span | tostring] as $span
        | [.name, $span.name, ([$reads[] | select(.tid == $span.tid and .ts >= $span.ts
            and .ts + .dur <= $span.ts + $span.dur)] | length)] | @tsv"""
    joined = harness.run(["jq", "-s", "-r", program, run.paths[0]]).stdout.split("\n")
    assert joined[:3] == ["in_load\tload\t1"] * 3


# ---- what does not go as it should ----


@standin
def test_records_without_times(tmp_path):
    for knob, figure, instants in (("untimed=3", "untimed", 20), ("running=5", "unfinished", 12),
                                   ("skewed=4", "skewed", 0)):
        directory = tmp_path / figure
        directory.mkdir()
        run = Run(directory, "launch=60", knob)
        assert collections.Counter(k["ph"] for k in run.pp("kernel"))["i"] == instants
        assert run.figures() == {figure: instants or 15}
        calls = launches_of(run)
        for kernel in run.pp("kernel"):  # at its launch, not in 1970
            assert abs(kernel["ts"] - calls[kernel["args"]["correlation"]]["ts"]) < 10, kernel


@standin
def test_records_of_later_kinds_are_counted(tmp_path):
    run = Run(tmp_path, "launch=100", "unknown=10")
    assert len(run.pp("kernel")) == 100 and run.figures() == {"unknown": 10}


@standin
def test_what_the_library_cannot_step_over(tmp_path):
    """The rest of its buffer is lost, and counted; in two of them, where a flush came between."""
    run = Run(tmp_path, "launch=100", "invalid=50")
    kernels = len(run.pp("kernel"))
    assert run.figures() == {"unreadable": 1} and kernels == 50 or \
        run.figures() == {"unreadable": 2} and 50 <= kernels < 100


@standin
@pytest.mark.parametrize("major,version,figure", [(12, 18, "discarded"), (13, 130101, None)])
def test_no_buffer_to_be_had(tmp_path, major, version, figure):
    run = Run(tmp_path, "threads=200000", f"version={version}", major, PFW_ON_FULL="drop",
              traced=False)
    run.lines = harness.read_lines(run.paths[0])
    lost = harness.own(run.lines, "lost")
    lost = {line["args"]["reason"]: line["args"]["count"] for line in lost}
    written = len(run.pp("kernel")) + len(run.pp("runtime"))
    # every record is in the trace, or lost, or was read only to be counted
    externals = 4 * (200000 // 4 // 4)
    figures = run.figures()
    missing = 2 * 200001 + externals - written - lost.get("gpu", 0) - figures.get("discarded", 0)
    assert missing >= 0, (lost, figures)
    # those of spans make no line; where more than 31 last resorts were out at once, one was used twice
    assert missing <= externals or figures.get("starved", 0) > 31, (lost, figures)
    if figures.get("starved"):
        assert lost.get("gpu", 0) or figures.get(figure)


@standin
@pytest.mark.parametrize("fail,said", [
    ("Subscribe:39", "CUPTI for nsys holds CUPTI, which takes one tool at a time"),
    ("Subscribe:15", r"cuptiSubscribe in .*libcupti.so.13: .*\(15\); set PFW_CUPTI_LIB"),
    ("GetVersion:999", "cuptiGetVersion in "),
    ("ActivityRegisterCallbacks:14", "CUPTI_ERROR_NOT_COMPATIBLE"),
    ("ActivityEnable/10:35", "NVreg_RestrictProfilingToAdminUsers=0.*--cap-add=SYS_ADMIN"),
])
def test_one_line_says_why_not(tmp_path, fail, said):
    run = Run(tmp_path, "launch=2 spans", f"fail={fail}", program=None)
    assert run.said.count("\n") == 1 and run.said.startswith("pfw: GPU work is not recorded: ")
    assert re.search(said, run.said), run.said
    assert not [line for line in run.lines if line["cat"] == "PP"]
    assert len(run.spans()) == 2


@standin
def test_a_kind_that_is_missing_is_named(tmp_path):
    run = Run(tmp_path, "launch", "fail=ActivityEnable/17:21")
    assert run.said == ("pfw: this CUPTI does not record activities of kind 17: they are missing in "
                        "the trace\n")
    assert len(run.pp("kernel")) == 1


@standin
@pytest.mark.parametrize("standin", ["devices=0", "stub"])
def test_no_gpu(tmp_path, standin):
    """Neither the probe nor CUPTI does anything: the stand-in aborts a call before cuInit."""
    assert Run(tmp_path, "init_fails spans", standin).said == ""
    (tmp_path / "b").mkdir()
    run = Run(tmp_path / "b", "init_fails spans sleep=50", standin, PFW_CUPTI="1", PFW_FLUSH_MS="5")
    assert run.said.startswith("pfw: GPU work is not recorded: the driver finds no device (CUDA error ")
    assert run.said.count("\n") == 1


@standin
def test_cupti_whose_clock_is_another(tmp_path):
    run = Run(tmp_path, "launch", "clock=5000000000")
    call, kernel = run.pp("runtime")[0], run.pp("kernel")[0]
    assert abs(kernel["ts"] - call["ts"]) < 1000


# ---- when it begins and ends ----


@standin
def test_driver_that_is_not_ready_in_its_injection(tmp_path):
    run = given_time(tmp_path, 1, lambda top, ms: Run(top, f"init sleep={ms} launch", "late_ready"))
    assert len(run.pp("kernel")) == 1


@standin
def test_without_injection_the_writer_looks(tmp_path):
    run = given_time(tmp_path, 2, lambda top, ms: Run(
        top, f"init read sleep={ms} launch=2", injected=False, PFW_FLUSH_MS="20", PFW_CUPTI="1"))
    assert len(run.pp("kernel", "plain_kernel")) == 2


@standin
def test_libcuda_that_nobody_initialises_stays_so(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"x" * 64)
    run = Run(tmp_path, "sleep=100", injected=True, PFW_FLUSH_MS="5", PFW_CUPTI="1")
    assert run.said == "" and not [line for line in run.lines if line["cat"] == "PP"]


@standin
def test_stop_and_start(tmp_path):
    run = Run(tmp_path, "launch=2 stop launch=5 start launch=3 stop start launch", traced=False)
    run.lines = harness.read_lines(run.paths[0])
    assert len(run.pp("kernel")) == 6
    assert run.lines[-1]["name"] == "end"


@standin
def test_stop_brings_it_into_the_file(tmp_path):
    assert len(Run(tmp_path, "launch=2 stop").pp("kernel")) == 2


@standin
def test_flush_brings_it_into_the_file(tmp_path):
    run = Run(tmp_path, "launch=7 flush abort", status=-6, traced=False)
    text = run.paths[0].read_text()
    assert text.count('"kind":"kernel"') == 7


@standin
@pytest.mark.parametrize("end,status", [("exec", 0), ("_exit=4", 3)])
def test_ends_of_a_process(tmp_path, end, status):
    run = Run(tmp_path, f"launch=3 {end}", status=status)
    assert len(run.pp("kernel")) == 3


@standin
def test_a_kill_says_how_long_gpu_work_is_missing(tmp_path):
    """What CUPTI has not handed over dies with the process."""
    (tmp_path / "data.bin").write_bytes(b"x" * 64)
    run = Run(tmp_path, "launch=3 flush launch=4 sleep=30 read abort", status=-6, traced=False, PFW_FLUSH_MS="60000")
    harness.pfw("repair", tmp_path)
    lines = harness.read_lines(run.paths[0])
    missing = harness.own(lines, "unrecorded")[0]["args"]["gpu_us"]
    assert len([line for line in lines if line["args"].get("kind") == "kernel"]) == 3 and missing > 30000
    assert "GPU work of the last " in harness.pfw("validate", tmp_path).stdout


@standin
def test_a_client_that_looks_its_calls_up_by_name(tmp_path):
    """JAX's profiler: it gets our subscription, and what it finalises goes on for us."""
    program = """if 1:
        import ctypes, sys
        cupti, looker = ctypes.CDLL("libcupti.so.13"), ctypes.CDLL(sys.argv[1])
        looker.look.restype, looker.look.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        def found(name):
            return ctypes.CFUNCTYPE(ctypes.c_int)(looker.look(cupti._handle, name.encode()))
        def address(function):
            return ctypes.cast(function, ctypes.c_void_p).value
        cuda, function, module, handle = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(3))
        cuda.cuInit(0)
        callback = ctypes.CFUNCTYPE(None)(lambda: None)
        args = [ctypes.byref(handle), callback, None]
        print(cupti.cuptiSubscribe(*args), found("cuptiSubscribe")(*args), found("cuptiFinalize")(),
              address(found("cuptiGetTimestamp")) == address(cupti.cuptiGetTimestamp))
        cuda.cuModuleLoadData(ctypes.byref(module), b"named")
        cuda.cuModuleGetFunction(ctypes.byref(function), module, b"named")
        cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)"""
    environment = harness.traced_environment(tmp_path / "t", tmp_path)
    environment |= {"LD_LIBRARY_PATH": str(STANDINS[13]), "CUDA_INJECTION64_PATH": str(RECORDER),
                    "STANDIN": "version=130001"}
    result = harness.run(["/usr/bin/python3", "-c", program, harness.BUILD / "tests/xla_cuda_looker.so"], environment,
                         tmp_path)
    assert result.stdout.split() == ["39", "0", "0", "True"] and result.stderr == ""
    kernels = [line for line in harness.check_trace(tmp_path / "t.pfw") if line["args"].get("kind") == "kernel"]
    assert [kernel["name"] for kernel in kernels] == ["named"]


@standin
def test_a_kill_while_a_kernel_runs(tmp_path):
    """A flush leaves CUPTI the buffer with the fifth kernel, and all that is in it."""
    (tmp_path / "data.bin").write_bytes(b"x" * 64)
    run = Run(tmp_path, "launch=3 flush launch=4 sleep=300 flush read abort", "running=5", status=-6, traced=False,
              PFW_FLUSH_MS="60000")
    harness.pfw("repair", tmp_path)
    lines = harness.read_lines(run.paths[0])
    assert len([line for line in lines if line["args"].get("kind") == "kernel"]) == 3
    assert harness.own(lines, "unrecorded")[0]["args"]["gpu_us"] > 300000


@standin
@pytest.mark.parametrize("end", ["exec", "_exit=1", "stop", ""])
def test_an_end_while_our_thread_has_the_buffers(tmp_path, end):
    """Its flush has taken them from CUPTI, and hands them over only after the program's last call."""
    run = Run(tmp_path, f"launch=3 sleep=100 {end}", "deliver_ms=300", PFW_FLUSH_MS="20")
    assert len(run.pp("kernel")) == 3


@standin
def test_an_exec_while_kernels_run(tmp_path):
    """Nothing of CUPTI is left after it: what runs still is in the trace as far as it is known."""
    run = Run(tmp_path, "launch=60 exec", "running=5")
    assert collections.Counter(k["ph"] for k in run.pp("kernel")) == {"X": 48, "i": 12}


@standin
def test_only_the_steps_of_the_schedule(tmp_path):
    words = " ".join(f"span_first={n} step" for n in range(1, 9))
    run = Run(tmp_path, words, PFW_SCHEDULE="wait=1,warmup=1,active=2,repeat=2")
    # in step n: n + 2 launches.  1: warm-up; 2, 3: active; 4: wait; 5: warm-up; 6, 7: active
    steps = collections.Counter((c["args"]["step"], c["args"]["phase"]) for c in run.pp("runtime"))
    assert len(launches_of(run)) == len(run.pp("kernel")) == 36
    assert steps == {(1, "warmup"): 3, (2, "active"): 4, (3, "active"): 5, (5, "warmup"): 7,
                     (6, "active"): 8, (7, "active"): 9}
    check_spans(run, {"in_first": "first", "outside": None})


@standin
@pytest.mark.parametrize("asked", [True, False])
def test_who_asks_is_told_why_there_is_none(tmp_path, asked):
    """However short the program."""
    (tmp_path / "data.bin").write_bytes(b"x")
    environment = harness.traced_environment(tmp_path / "t", tmp_path, PFW_CUPTI="1" if asked else "auto")
    environment |= {"LD_LIBRARY_PATH": str(STANDINS[13]), "STANDIN": "stub"}
    result = harness.run(["/usr/bin/python3", "-c", "import ctypes, os; ctypes.CDLL('libcuda.so.1').cuInit(0)\n"
                          "open('data.bin').close()\nif not os.fork(): open('data.bin').close()"],
                         environment, tmp_path)
    assert result.stderr.count("CUDA error 34") <= 2 if asked else not result.stderr, result.stderr
    assert not asked or result.stderr.startswith("pfw: GPU work is not recorded: the driver finds no device")


# ---- PFW_SCHEDULE=range ----


def ranges(top, words, standin="", **variables):
    top.mkdir(exist_ok=True)
    run = Run(top, words, standin, PFW_SCHEDULE="range", traced=False, **variables)
    run.lines = [line for path in run.paths for line in harness.read_lines(path)]
    run.ready = [[int(word) for word in line.split()[1:]] for line in run.out.splitlines()]
    run.segments = [line["args"] for line in harness.own(run.lines, "segment")]
    return run


@standin
@pytest.mark.parametrize("major,version,fault", [(12, 18, ""), (12, 28, ""), (13, 130001, ""),
                                                 (13, 130500, ""), (13, 130500, "alone")])
def test_ranges_of_the_program(tmp_path, major, version, fault):
    """Two ranges, of which the first is begun twice: two cycles, and the hook behind each."""
    run = ranges(tmp_path, "hook launch=2 spans range=2 spans=3 range_ends=2 launch spans range driver=2 "
                 "range_ends launch", f"version={version} {fault}", major=major)
    assert run.said == ""
    assert collections.Counter(k["name"] for k in run.pp("kernel")) == {
        "outside": 4, "in_outer": 6, "in_inner": 6, "module_kernel": 2}
    check_spans(run, {"outside": None, "in_outer": "outer", "in_inner": "inner", "module_kernel": None})
    assert len(run.spans()) == 6
    assert [(s["cycle"], s["steps"]) for s in run.segments] == [(0, 0), (1, 0)] and len(run.ready) == 2
    for segment, names in zip(run.segments, ({"outside", "in_outer", "in_inner"}, {"module_kernel"})):
        assert {k["name"] for k in run.pp("kernel")
                if segment["first_id"] <= k["id"] <= segment["last_id"]} == names


@standin
def test_a_range_that_is_open_at_the_end(tmp_path):
    for number, end in enumerate(("", " stop", " _exit=1", " exec")):
        run = ranges(tmp_path / str(number), "hook launch range launch=3" + end)
        assert len(run.pp("kernel")) == 3 and len(run.segments) == 1, end
        assert all(run.segments[0]["first_id"] <= k["id"] <= run.segments[0]["last_id"]
                   for k in run.pp("kernel"))
        assert len(run.ready) == (end == " stop")  # as a cycle that the end cuts short
        assert len(harness.own(run.lines, "end")) == 1


@standin
def test_steps_inside_a_range(tmp_path):
    run = ranges(tmp_path, "step=2 launch step launch range launch=2 step launch=3 step range_ends "
                 "launch=9 step range launch range_ends")
    assert collections.Counter(c["args"]["step"] for c in run.pp("runtime", "cudaLaunchKernel")) == {
        3: 2, 4: 3, 6: 1}
    assert [(s["first_step"], s["steps"]) for s in run.segments] == [(3, 3), (6, 1)]
    # the steps that end in a range
    assert [line["args"]["step"] for line in run.pp("step")] == [3, 4]


@standin
def test_ranges_before_a_stop_and_behind_a_start(tmp_path):
    run = ranges(tmp_path, "range launch range_ends launch=2 stop range launch=3 range_ends start "
                 "launch=4 range launch=5 range_ends launch=6 range launch=7 stop start launch=8")
    assert len(run.pp("kernel")) == 1 + 5 + 7
    assert [s["cycle"] for s in run.segments] == [0, 1, 2]


@standin
def test_ranges_beside_another_client(tmp_path):
    """It takes CUPTI over within a range, and between two: its profile is whole, and so is ours after it."""
    run = ranges(tmp_path, "launch range launch=2 profile=50 launch=3 range_ends profile=7 launch range "
                 "launch=4 profile=9 range_ends launch=5 range launch=6 range_ends", "version=130202",
                 program=harness.BUILD / "tests/gpu_client13")
    assert len(run.pp("kernel", "plain_kernel")) == 2 + 3 + 4 + 6 and not run.pp("kernel", "in_profile")
    assert [s["cycle"] for s in run.segments] == [0, 1, 2]
    assert run.figures()["yielded"] == 3


@standin
def test_ranges_where_nothing_is_injected(tmp_path):
    """The writer's thread finds the driver; a child of a process that has none has a range of its own."""
    run = given_time(tmp_path, 3, lambda top, ms: ranges(
        top, f"init sleep={ms} range launch=3 range_ends launch", injected=False))
    assert len(run.pp("kernel")) == 3
    run = ranges(tmp_path / "b", "fork_range=2 launch range launch=3 range_ends")
    assert sorted(len([k for k in harness.read_lines(path) if k["args"].get("kind") == "kernel"])
                  for path in run.paths) == [2, 3]


@standin
@pytest.mark.parametrize("now", [{}, {"LD_BIND_NOW": "1"}])
def test_a_range_that_begins_before_cupti_does(tmp_path, now):
    """The call that begins it is the program's first one of CUDA, and no driver brings us in."""
    run = ranges(tmp_path, "range launch=3 range_ends launch range launch=2 range_ends", injected=False, **now)
    assert len(run.pp("kernel")) == 5 and len(run.segments) == 2 and run.said == ""


@standin
@pytest.mark.parametrize("now", [{}, {"LD_BIND_NOW": "1"}])
def test_ranges_where_another_profiler_holds_cupti(tmp_path, now):
    """No GPU work is to be had, but I/O and spans of the ranges are."""
    (tmp_path / "data.bin").write_bytes(b"x" * 64)
    run = ranges(tmp_path, "read=9 range read=2 range_ends read=9 range read range_ends", "fail=Subscribe:39",
                 DFTRACER_DATA_DIR=str(tmp_path), **now)
    assert len(harness.events(run.lines, "read")) == 3 and len(run.spans()) == 3 and not run.pp("kernel")
    assert len(run.segments) == 2 and run.said.count("\n") == 1, run.said


@standin
def test_ranges_are_no_error_where_nobody_listens(tmp_path):
    said = "pfw: nothing was recorded: PFW_SCHEDULE=range, and this program "
    run = ranges(tmp_path / "a", "launch=3 range_ends")
    assert run.said == said + "never called cudaProfilerStart()\n" and not run.paths
    run = ranges(tmp_path / "b", "range launch range_ends", PFW_CUPTI="0")
    assert run.said.startswith(said + "used no CUDA") and not run.paths
    run = ranges(tmp_path / "c", "range launch range_ends", "fail=Subscribe:39", PFW_QUIET="1")
    assert not run.paths
    run = ranges(tmp_path / "d", "init_fails", "devices=0")
    assert "finds no device" in run.said and said in run.said
    (tmp_path / "e").mkdir()
    run = Run(tmp_path / "e", "range launch=2 range_ends launch")  # without the schedule
    assert len(run.pp("kernel")) == 3 and not harness.own(run.lines, "segment")


@standin
def test_ranges_of_a_program_that_opens_the_driver_itself(tmp_path):
    program = """if 1:
        import ctypes
        for turn in range(3):
            open("data.bin").close()
            cuda = ctypes.CDLL("libcuda.so.1")
            cuda.cuInit(0)
            cuda.cuProfilerStart()
            open(f"/dev/null").close()
            open("data.bin").close()
            cuda.cuProfilerStop()"""
    (tmp_path / "data.bin").write_bytes(b"x")
    environment = harness.traced_environment(tmp_path / "t", tmp_path, PFW_SCHEDULE="range")
    environment |= {"LD_LIBRARY_PATH": str(STANDINS[13]), "CUDA_INJECTION64_PATH": str(RECORDER)}
    harness.run(["/usr/bin/python3", "-c", program], environment, tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert len([line for line in lines if line["args"].get("fname") == str(tmp_path / "data.bin")
                and line["name"].startswith("open")]) == 3
    assert len(harness.own(lines, "segment")) == 3


def test_ranges_without_cuda(tmp_path):
    environment = harness.traced_environment(tmp_path / "t", tmp_path, PFW_SCHEDULE="range")
    result = harness.run(["/usr/bin/python3", "-c", ""], environment, tmp_path)
    assert result.stderr.startswith("pfw: nothing was recorded: PFW_SCHEDULE=range") and \
        result.stderr.count("\n") == 1 and harness.trace_names(tmp_path) == []
    result = harness.run([harness.PFW, "run", "--schedule", "range", "-o", tmp_path / "t", "/bin/cat",
                          "/etc/passwd"], harness.clean_environment(), tmp_path)
    assert result.stderr.count("nothing was recorded") == 1 and "cudaProfilerStart" in result.stderr


@standin
def test_pfw_run_with_ranges(tmp_path):
    environment = harness.clean_environment(LD_LIBRARY_PATH=str(STANDINS[13]), STANDIN="")
    harness.run([harness.PFW, "run", "-q", "--schedule", "range", "-o", tmp_path / "t",
                 harness.BUILD / "tests/gpu_target13", "launch", "range", "launch=2", "range_ends"],
                environment, tmp_path)
    lines = harness.check_trace(tmp_path / "t.pfw")
    assert len([line for line in lines if line["args"].get("kind") == "kernel"]) == 2


@standin
def test_records_reach_the_file_while_the_program_runs(tmp_path):
    environment = harness.traced_environment(tmp_path / "t", tmp_path, PFW_FLUSH_MS="20")
    environment |= {"LD_LIBRARY_PATH": str(STANDINS[13]), "CUDA_INJECTION64_PATH": str(RECORDER)}
    with subprocess.Popen([harness.BUILD / "tests/gpu_target13", "launch=5", "sleep=20000"],
                          env=environment) as program:
        for _ in range(200):
            text = (tmp_path / "t.pfw").read_text() if (tmp_path / "t.pfw").exists() else ""
            if text.count('"kind":"kernel"') == 5:
                break
            try:
                program.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
        program.kill()
    assert text.count('"kind":"kernel"') == 5


@standin
def test_forked_children_never_touch_cupti(tmp_path):
    run = Run(tmp_path, "launch=2 fork=3 launch=2")
    assert len(run.paths) == 4 and len(run.pp("kernel")) == 4
    assert len([line for line in run.lines if line["name"] == "child"]) == 3


@standin
def test_forked_child_that_uses_cuda_first(tmp_path):
    run = Run(tmp_path, "fork_launch=3 launch=2")
    assert len(run.paths) == 2
    assert len(run.pp("kernel", "in_child")) == 3 and len(run.pp("kernel", "plain_kernel")) == 2


@standin
def test_a_million_launches_on_four_threads(tmp_path):
    """Streamed, in bounded memory, each with its span, none lost."""
    run = Run(tmp_path, "threads=1000000", traced=False, status=0)
    assert int(re.search(r"rss_growth_kib=(\d+)", run.out)[1]) <= 32 * 1024
    counts = collections.Counter()
    with open(run.paths[0], "rb") as file:
        for line in file:
            span = b'"span":' in line
            for name in (b"thread_in_span", b"thread_outside", b"cudaLaunchKernel", b"plain_kernel"):
                if b'"name":"' + name + b'"' in line:
                    counts[name.decode(), span] += 1
            last = line
    assert counts == {("thread_in_span", True): 250000, ("thread_outside", False): 750000,
                      ("plain_kernel", False): 1, ("cudaLaunchKernel", True): 250000,
                      ("cudaLaunchKernel", False): 750001}
    assert json.loads(last)["args"]["lost"] == 0


# ---- with other clients of CUPTI ----


@standin
def test_beside_other_subscribers_where_there_may_be_several(tmp_path):
    run = Run(tmp_path, "init launch=2", "version=130500")
    assert len(run.pp("kernel")) == 2
    (tmp_path / "b").mkdir()
    run = Run(tmp_path / "b", "init launch=2", "version=130500 alone")
    assert len(run.pp("kernel")) == 2


@standin
@pytest.mark.parametrize("major,version", [(12, 18), (12, 28), (13, 130001), (13, 130202)])
@pytest.mark.parametrize("flags", [(), ("-z", "now")])
def test_another_client_gets_all_and_then_we_do(tmp_path, major, version, flags):
    """Its profile is whole, ours has the rest, and says what it left out."""
    program = harness.BUILD / f"tests/gpu_client{major}"
    run = Run(tmp_path, "launch=3 profile=50 spans=2 profile=7 launch=4", f"version={version}", major,
              program=program, **({"LD_BIND_NOW": "1"} if flags else {}))
    names = collections.Counter(k["name"] for k in run.pp("kernel"))
    assert names == {"plain_kernel": 7, "outside": 3, "in_outer": 4, "in_inner": 4}, names
    check_spans(run, {"plain_kernel": None, "outside": None, "in_outer": "outer",
                      "in_inner": "inner"})
    assert run.figures()["yielded"] == 2 and run.figures()["yielded_us"] > 0
    assert run.said.count("\n") == 1 and run.said.startswith("pfw: another profiler of this process")


@standin
@pytest.mark.parametrize("major,version", [(12, 18), (13, 130001), (13, 130202)])
def test_another_client_shares_our_subscription(tmp_path, major, version):
    """CUPTI refuses a second one; the client is told what it has enabled, and no more."""
    run = Run(tmp_path, "launch=2 driver=1 told=0 subscribe driver=1 told=1 profile=50 driver=1 told=2 mute driver=1 "
              "told=2 launch=3 range_ends unsubscribe driver=1 told=2 subscribe driver=1 told=3 launch=1",
              f"version={version}", major, program=harness.BUILD / f"tests/gpu_client{major}")
    names = collections.Counter(k["name"] for k in run.pp("kernel"))
    assert names == {"plain_kernel": 6, "module_kernel": 6} and run.figures()["yielded"] == 1, names
    assert run.said.startswith("pfw: another profiler of this process") and run.said.count("\n") == 1


@standin
@pytest.mark.parametrize("major,version", [(12, 18), (13, 130001)])
def test_another_client_that_is_first_shares_its_subscription(tmp_path, major, version):
    """It subscribes and begins a profile as soon as CUDA is initialised; we begin behind it."""
    run = given_time(tmp_path, 2, lambda top, ms: Run(
        top, f"init subscribe profile=50 driver=1 told=1 sleep={ms} launch=2", f"version={version} late_ready", major,
        program=harness.BUILD / f"tests/gpu_client{major}", PFW_FLUSH_MS="20"))
    assert len(run.pp("kernel", "plain_kernel")) == 2 and not run.pp("kernel", "in_profile")
    launches_of(run)


@standin
def test_another_client_keeps_the_subscription_when_we_leave(tmp_path):
    run = Run(tmp_path, "launch=2 subscribe stop driver=1 told=1 start launch=2 stop unsubscribe driver=1 told=1 "
              "subscribe driver=1 told=2", "version=130001", program=harness.BUILD / "tests/gpu_client13", traced=False)
    run.lines = harness.read_lines(run.paths[0])
    assert len(run.pp("kernel")) == 4


@standin
def test_no_dance_where_there_may_be_several(tmp_path):
    run = Run(tmp_path, "launch=3 profile=50 launch=4", "version=130500",
              program=harness.BUILD / "tests/gpu_client13")
    assert len(run.pp("kernel")) == 57 and not run.figures() and run.said == ""


# ---- the vendor's own iterator ----


def test_buffers_stepped_by_our_own_rule(tmp_path):
    assert iterate().startswith("ok: ")


def iterate(*words, version=None):
    """What gpu_iterate prints, with NVIDIA's library of that version to step over records, or without one."""
    found = pathlib.Path(os.environ.get("PFW_CUDA_DIR") or "/nowhere").glob(f"{version}/lib/libcupti.so.1?")
    library = list(found)[:1] if version else []
    if version and not library:
        pytest.skip("no libcupti: run tests/gpu/fetch, set PFW_CUDA_DIR, build again")
    return harness.run([harness.BUILD / "tests/gpu_iterate", *words, *library]).stdout


@pytest.mark.parametrize("version,stride", [("12", 208), ("13.0", 216)])
def test_buffers_stepped_by_the_real_library(version, stride):
    """The last libcupti that iterates without a driver is 13.1's; 13.2's crashes, 13.3's refuses."""
    out = iterate(version=version)
    assert re.fullmatch(rf"ok: \d+ records, stride of a kernel {stride}\n", out), out


def recorded(path, version, stride, names):
    """A file as tests/gpu/run writes it: a buffer of kernels and their calls, and the names."""
    buffer, after = b"", b""
    for number, name in enumerate(names, 1):
        start = 1795230878627000000 + number * 5000
        buffer += struct.pack("<IIQQIIII", 5, 211, start, start + 900, 1, 77, number, 0)
        kernel = struct.pack("<IIIIQQQIII3i3iiiIIIqQ", 10, 40 << 16, 0, 0, start + 2000, start + 4500, 0,
                             0, 1, 7, 8, 1, 1, 128, 1, 1, 0, 0, 0, 0, number, 0, 0xdead0000)
        buffer += kernel.ljust(stride, b"\0")
        after += struct.pack("<I", len(name)) + name.encode()
    path.write_bytes(b"PFWGPU1\n" + struct.pack("<II", version, len(buffer)) + buffer + after)


@pytest.mark.parametrize("version,stride,library", [(130401, 248, None), (130001, 216, "13.0")])
def test_replay_of_recorded_buffers(tmp_path, version, stride, library):
    recorded(tmp_path / "r", version, stride, ["first", "second<int>"])
    lines = [json.loads(line) for line in iterate("--replay", tmp_path / "r", version=library).splitlines()]
    kernels = [line for line in lines if line["args"].get("kind") == "kernel"]
    assert [k["name"] for k in kernels] == ["first", "second<int>"]
    assert [k["dur"] for k in kernels] == [2.5, 2.5] and kernels[0]["args"]["registers"] == 40


def test_static_variables_of_modules_are_no_allocations(tmp_path):
    buffer = b"".join(struct.pack("<IIIIQQQQIIIIQII", 49, 1, kind, kind, 4096 * kind, 64, 1795230878627000000, 0, 1, 0,
                                  1, 7, 0, 0, 0).ljust(128, b"\0") for kind in range(1, 8))
    (tmp_path / "r").write_bytes(b"PFWGPU1\n" + struct.pack("<II", 130001, len(buffer)) + buffer)
    assert [json.loads(line)["args"]["dst_kind"] for line in iterate("--replay", tmp_path / "r").splitlines()] == [
        "pageable", "pinned", "device", "array", "managed"]


def test_the_calls_of_the_driver_that_launch(tmp_path):
    """Of all calls that libcupti 13.0 knows, those that give the GPU work: also cuGraphLaunch and cuMemcpy, which
    programs on the driver's API make."""
    start = 1795230878627000000
    buffer = b"".join(struct.pack("<IIQQIIII", 4, cbid, start + cbid, start + cbid + 1, 1, 77, cbid, 0)
                      for cbid in range(1, 700))
    (tmp_path / "r").write_bytes(b"PFWGPU1\n" + struct.pack("<II", 130001, len(buffer)) + buffer)
    names = [json.loads(line)["name"] for line in iterate("--replay", tmp_path / "r", version="13.0").splitlines()]
    assert {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "cuMemcpy", "cuMemcpyDtoD_v2",
            "cuMemsetD8Async"} <= set(names)
    assert all(name.startswith(("cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset")) for name in names)


@pytest.mark.parametrize("library", [None, "13.0"])
def test_replay_of_buffers_of_an_h200(tmp_path, library):
    """Recorded by tests/gpu/run on an H200 with CUPTI 13.0: vectors=3, tiny=200, graph=3, streams=40, async=3."""
    path = tmp_path / "recorded"
    path.write_bytes(gzip.decompress((harness.SOURCE / "tests/gpu/h200-cupti-13.0.gpu.gz").read_bytes()))
    lines = [json.loads(line) for line in iterate("--replay", path, version=library).splitlines()]
    calls = {line["args"]["correlation"]: line for line in lines if line["args"].get("kind") == "runtime"}
    kernels = [line for line in lines if line["args"].get("kind") == "kernel"]
    assert collections.Counter(k["name"] for k in kernels) == {
        "_Z11add_vectorsPKfS0_Pfi": 3, "_Z11tiny_kernelPi": 200 + 3 * 10 + 40 + 3}
    assert all(k["ts"] > calls[k["args"]["correlation"]]["ts"] and 0 < k["dur"] < 100 for k in kernels)
    assert {(*k["args"]["grid"], *k["args"]["block"]) for k in kernels} == {
        (4096, 1, 1, 256, 1, 1), (1, 1, 1, 32, 1, 1)}
    assert collections.Counter(bool(k["args"]["graph"]) for k in kernels) == {True: 30, False: 246}
    assert len({k["tid"] for k in kernels}) == 7
    copies = collections.Counter((line["name"], line["args"]["bytes"]) for line in lines
                                 if line["args"].get("kind") in ("memcpy", "memset"))
    assert copies == {("Memcpy HtoD (Pageable -> Device)", 1 << 22): 3,
                      ("Memcpy DtoH (Device -> Pageable)", 1 << 22): 3,
                      ("Memset (Device)", 1 << 22): 3, ("Memset (Device)", 4): 1,
                      ("Memset (Device)", 1 << 20): 3}
    allocations = collections.Counter((line["name"], line["args"]["bytes"]) for line in lines
                                      if line["args"].get("kind") == "memory" and "Pool" not in line["name"])
    assert allocations == {(f"Memory {what}", sign * size): count for what, sign in (("Alloc", 1), ("Free", -1))
                           for size, count in ((1 << 22, 3), (4, 1), (1 << 20, 3))}
    waits = collections.Counter(line["name"] for line in lines if line["args"].get("kind") == "sync")
    assert waits["Event Record"] == waits["Stream Wait Event"] == 3
    # CUPTI itself asks for each kernel's name
    assert library is None or not [line for line in lines if line["args"].get("kind") == "driver"]


# ---- pfw run ----


def injection(environment, *options):
    """CUDA_INJECTION64_PATH of a program under `pfw run`."""
    result = harness.run([harness.PFW, "run", "-q", *options, "--", "/usr/bin/env"], environment)
    return dict(line.split("=", 1) for line in result.stdout.splitlines()).get(
        "CUDA_INJECTION64_PATH")


def test_run_sets_the_injection(tmp_path):
    base = ["-o", str(tmp_path / "t")]
    assert injection(harness.clean_environment(), *base) == str(RECORDER)
    assert injection(harness.clean_environment(PFW_CUPTI="off"), *base) is None
    assert injection(harness.clean_environment(), "--no-gpu", *base) is None
    mine = harness.clean_environment(CUDA_INJECTION64_PATH="/mine.so")
    assert injection(mine, *base) == "/mine.so"


def doctor(**variables):
    result = harness.run([harness.PFW, "doctor"], harness.clean_environment(**variables), status=None)
    return {line[6:18].strip(): line[:5].strip() + " " + line[19:]
            for line in result.stdout.splitlines()}


@standin
def test_doctor_says_what_is_missing():
    def of(name, **variables):
        return doctor(LD_LIBRARY_PATH=str(STANDINS[13]), **variables).get(name, "")
    assert of("gpu") == "ok 1 device, driver of CUDA 13.0"
    assert of("cupti") == f"ok {STANDINS[13]}/libcupti.so.13"
    assert "is CUDA's stub" in of("gpu", STANDIN="stub") and not of("cupti", STANDIN="stub")
    assert "finds no device" in of("gpu", STANDIN="devices=0")
    assert of("cupti", STANDIN="driver=12040").startswith("note the dynamic linker finds no libcupti")
    assert of("cupti", PFW_CUPTI_LIB="/none.so").startswith("WRONG PFW_CUPTI_LIB: /none.so")
    assert "another tool" in of("injection", CUDA_INJECTION64_PATH="/nsys.so")


@standin
def test_doctor_and_schedule_on_ranges():
    there = {"LD_LIBRARY_PATH": str(STANDINS[13]), "PFW_SCHEDULE": "range"}
    assert doctor(**there)["schedule"].startswith("ok between cudaProfilerStart()")
    assert doctor(**there, STANDIN="devices=0")["schedule"].startswith("WRONG PFW_SCHEDULE=range records")

    def printed(**variables):
        return harness.run([harness.PFW, "schedule", "range"], harness.clean_environment(**variables)).stdout
    assert "no CUDA here" not in printed(**there) and "cudaProfilerStart" in printed(**there)
    if "no libcuda.so.1" in doctor()["gpu"]:
        assert "there is no CUDA here" in printed()


def test_doctor_without_a_driver():
    found = doctor()["gpu"]
    assert "no libcuda.so.1" in found or "device" in found or "cuInit" in found


def test_nothing_is_loaded_where_there_is_no_cuda(tmp_path):
    environment = harness.traced_environment(tmp_path / "t", tmp_path, LD_DEBUG="files",
                                             PFW_FLUSH_MS="5")
    said = harness.run(["python3", "-c", "import time; open('/dev/null').read(); time.sleep(.1)"],
                       environment).stderr
    assert "libcupti" not in said and "libcuda" not in re.sub(r"file=libcuda.so.1 .*", "", said)
