"""The rows D01-D27: Diffulex's section profiler, with a stub engine."""
import ast
import csv
import dataclasses
import importlib.metadata
import json
import pathlib
import re
import sys
import time
import types

import pytest

import documents
from conftest import PFW, Run
from pfw.compat import diffulex_profiler
from pfw.compat.diffulex_profiler import (DiffulexProfiler, PerformanceMetrics, ProfilerBackend,
                                          ProfilerConfig, ProfilerExporter, backends, exporters)

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "diffulex_profiler.rst"

# The engine that the document's blocks use.
ENGINE = """
import sys, time, types
model_path, prompts, sampling_params = "model", ["a", "b"], None
diffulex = types.ModuleType("diffulex")
class Diffulex:
    def __init__(self, path, **rest):
        pass
    def generate(self, prompts, sampling_params):
        time.sleep(0.05)
        return [{"token_ids": [1] * 100, "n_diff_steps": 4} for _ in prompts]
class SamplingParams:
    def __init__(self, **rest):
        pass
diffulex.Diffulex, diffulex.SamplingParams = Diffulex, SamplingParams
sys.modules["diffulex"] = diffulex
"""

IMPORTS = "from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig\nfrom diffulex import Diffulex\n"
BASIC = ENGINE + documents.code(documents.D[0])
ADVANCED = ENGINE + IMPORTS + documents.code(documents.D[1])
GENERATE = ENGINE + documents.code(documents.D[10])

BATCHES = ENGINE + IMPORTS + """
llm, batches = Diffulex(model_path), [["a"], ["b", "c"]]
""" + documents.code(documents.D[11])


@pytest.fixture
def made(tmp_path):
    return DiffulexProfiler(ProfilerConfig(output_dir=str(tmp_path / "log"), collect_gpu_metrics=False))


def sleep_in(profiler, name, seconds=0.0, tokens=None, **keywords):
    with profiler.profile(name, **keywords):
        time.sleep(seconds)
        if tokens:
            profiler.record_throughput(tokens)


def test_d01_config_by_name_by_place_or_not_at_all():
    config = ProfilerConfig(output_dir="x")
    assert DiffulexProfiler(config=config).config is config and DiffulexProfiler(config).config is config
    assert DiffulexProfiler().config == ProfilerConfig() and DiffulexProfiler(config=None).config.enabled


def test_d02_disabled_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    off = DiffulexProfiler(ProfilerConfig(enabled=False, backend="no such", export_formats=["none"]))
    assert off.profile("a") is off.profile("b")
    with off.profile("a", metadata={"x": 1}):
        off.start("b")
        off.record_metric("m", 1)
        off.record_throughput(1)
        off.stop()
    off.export("file.json")
    assert off.get_summary() == {} and off.metrics == [] and not list(tmp_path.iterdir())


def test_d03_backends(run, recwarn):
    kinds = {name: type(DiffulexProfiler(ProfilerConfig(backend=name)).backend).__name__
             for name in ("simple",)}
    assert kinds == {"simple": "SimpleBackend"} and ProfilerConfig().backend == "simple"
    assert backends.BACKENDS["dftracer"] is backends.BACKENDS["pfw"] is backends.PfwBackend
    with pytest.warns(UserWarning, match="backend 'unheard': there is none; there are simple, viztracer"):
        simple = DiffulexProfiler(ProfilerConfig(backend="unheard")).backend
    assert type(simple) is backends.SimpleBackend
    assert simple.start("section", metadata={"x": 1}) is simple.stop() is None
    run.script("""
        import sys, warnings
        sys.modules["viztracer"] = sys.modules["torch"] = None
        from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig
        for name in ("viztracer", "pytorch"):
            profiler = DiffulexProfiler(ProfilerConfig(backend=name))
            with profiler.profile("x"):
                pass
            print(type(profiler.backend).__name__, profiler.get_summary()["total_sections"])
        """)
    assert run.output == "SimpleBackend 1\n" * 2
    assert "(pip install viztracer): simple is used" in run.errors and "pip install torch" in run.errors


def test_sections_are_recorded(run):
    run.script("""
        from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig
        profiler = DiffulexProfiler(ProfilerConfig(backend="dftracer"))
        with profiler.profile("load", metadata={"files": 1}):
            open("data", "w").write("x")
        """)
    lines = run.lines("log/profiles/sections.pfw")
    section, = [line for line in lines if line["name"] == "load"]
    assert section["cat"] == "section" and section["args"]["files"] == 1
    write, = [line for line in lines if line["name"] == "write" and line["args"]["fname"].endswith("/data")]
    assert section["ts"] <= write["ts"] <= section["ts"] + section["dur"]


def test_d04_default_names(tmp_path, monkeypatch):
    assert ProfilerConfig().output_dir == "log/profiles" and ProfilerConfig().output_file is None
    monkeypatch.chdir(tmp_path)
    for config in (ProfilerConfig(), ProfilerConfig(output_file="mine")):
        profiler = DiffulexProfiler(config)
        sleep_in(profiler, "a")
        profiler.export()
    names = sorted(path.name for path in (tmp_path / "log/profiles").iterdir())
    assert names[:2] == ["mine.json", "mine.txt"]
    assert all(re.fullmatch(r"profile_\d{8}_\d{6}\.(json|txt)", name) for name in names[2:]) and len(names) == 4


@pytest.mark.parametrize("key", ["collect_memory_metrics", "collect_timing", "collect_gpu_metrics"])
def test_d05_each_by_itself(key, monkeypatch):
    monkeypatch.setattr("pfw._core.gpus", lambda since: [("x", 1_000_000, 50.0)])
    found = {}
    for on in (True, False):
        profiler = DiffulexProfiler(ProfilerConfig(**{key: on}))
        sleep_in(profiler, "a", 0.001)
        one, = profiler.metrics
        found[on] = {"collect_timing": one.duration > 0 and one.start_time is not None,
                     "collect_memory_metrics": one.memory_delta_mb is not None,
                     "collect_gpu_metrics": one.gpu_utilization is not None}
    assert found[True] == dict.fromkeys(found[True], True)
    assert found[False] == {name: name != key for name in found[True]}


def test_d06_formats(tmp_path):
    assert ProfilerConfig().export_formats == ["json", "summary"]
    assert ProfilerConfig().export_formats is not ProfilerConfig().export_formats
    with pytest.warns(UserWarning, match="export format 'xml': there is none; there are json, csv, summary") as said:
        profiler = DiffulexProfiler(ProfilerConfig(export_formats=["json", "csv", "summary", "xml"]))
    assert said[0].filename == __file__  # the line of the user's
    sleep_in(profiler, "a")
    profiler.export(tmp_path / "r.v1.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.v1.csv", "r.v1.json", "r.v1.txt"]


def test_d07_viztracer(run):
    pytest.importorskip("viztracer")
    run.script("""
        from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig
        def work():
            return sum(range(1000))
        profiler = DiffulexProfiler(
            config=ProfilerConfig(
                backend="viztracer",
                viztracer_config={
                    "output_file": "trace.json",
                    "file_info": True,
                }
            )
        )
        with profiler.profile("given"):
            with profiler.profile("nested"):
                work()
        with DiffulexProfiler(ProfilerConfig(backend="viztracer")).profile("usual"):
            work()
        """)
    for name in ("trace.json", "viztracer_usual.json"):
        trace = json.loads((run.directory / "log/profiles" / name).read_text())
        assert any("work" in event["name"] for event in trace["traceEvents"]), name
    assert "file_info" in json.loads((run.directory / "log/profiles/trace.json").read_text())


def test_d08_pytorch(run):
    pytest.importorskip("torch")
    run.script("""
        from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig
        with DiffulexProfiler(ProfilerConfig(backend="pytorch", collect_gpu_metrics=False)).profile("model/load"):
            pass
        import torch
        from torch.profiler import ProfilerActivity
        profiler = DiffulexProfiler(
            config=ProfilerConfig(
                backend="pytorch",
                pytorch_profiler_config={
                    "activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
                    "record_shapes": True,
                    "profile_memory": True,
                }
            )
        )
        with profiler.profile("decode"):
            torch.nn.Linear(4, 4)(torch.randn(2, 4))
        """, timeout=900)
    assert (run.directory / "log/profiles/pytorch_trace_model_load.json").exists()
    trace = json.loads((run.directory / "log/profiles/pytorch_trace_decode.json").read_text())
    addmm, = [event for event in trace["traceEvents"] if event["name"] == "aten::addmm"]
    assert addmm["args"]["Input Dims"][1] == [2, 4]
    assert any(event["name"] == "[memory]" for event in trace["traceEvents"])


def test_d09_profile_is_a_span_and_exceptions_pass(run):
    run.traced("""
        from pfw.compat.diffulex_profiler import DiffulexProfiler
        profiler = DiffulexProfiler()
        try:
            with profiler.profile("broken", metadata={"batch_size": 10, 7: "seven"}):
                profiler.record_throughput(5)
                raise KeyError
        except KeyError:
            pass
        assert profiler.get_summary()["total_sections"] == 1
        """)
    line, = [line for line in run.lines() if line["name"] == "broken"]
    assert line["args"].items() >= {"batch_size": 10, "7": "seven", "tokens": 5}.items() and line["dur"] > 0


def test_d10_start_and_stop_nest(made):
    made.start("outer")
    made.start("inner", metadata={"a": 1})
    made.stop()
    made.stop()
    assert [(one.name, one.depth) for one in made.metrics] == [("inner", 1), ("outer", 0)]
    assert made.metrics[1].duration >= made.metrics[0].duration
    with pytest.warns(UserWarning, match="no section is open"):
        made.stop()


def test_d11_record_metric(made, tmp_path):
    with made.profile("a"):
        made.record_metric("list", [1, {"b": None}])
        made.record_metric("avg_length", 128.5)
    made.record_metric("outside", 1)
    made.export(tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["metrics"][0]["custom_metrics"] == {"list": [1, {"b": None}], "avg_length": 128.5}


def test_d12_throughput(made):
    """Of the section's whole time, though it is told inside of it; both of its names."""
    with made.profile("custom_section"):
        time.sleep(0.05)
        made.record_throughput(total_tokens=1000)
    one, = made.metrics
    assert 0 < one.throughput_tokens_per_sec == pytest.approx(1000 / one.duration)
    with made.profile("told"):
        made.record_throughput(tokens=50, duration=0.5)
    assert made.metrics[1].throughput_tokens_per_sec == 100
    with made.profile("none"), pytest.raises(TypeError, match="number of tokens"):
        made.record_throughput()


def test_d13_export(made, tmp_path):
    with pytest.warns(UserWarning, match="no section has ended"):
        made.export(tmp_path / "a/b.json")
    assert not (tmp_path / "a").exists()
    sleep_in(made, "x")
    made.exporters = {"json": Broken(), **made.exporters, "again": exporters.JsonExporter()}
    with pytest.warns(UserWarning, match="json: ZeroDivisionError"):
        made.exporters["json"] = Broken()
        made.export(tmp_path / "a/b.json")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b.json", "b.txt"]


class Broken(ProfilerExporter):
    def export(self, metrics, summary, path):
        raise ZeroDivisionError


def test_d14_summary(made):
    with made.profile("outer"):
        sleep_in(made, "decode", 0.02, tokens=10)
    sleep_in(made, "plain", 0.01)
    summary = made.get_summary()
    assert list(summary) == ["total_sections", "total_duration_sec", "total_tokens",
                             "avg_throughput_tokens_per_sec", "sections"]
    by_name = {one.name: one for one in made.metrics}
    assert summary["total_sections"] == 3 and summary["total_tokens"] == 10
    assert summary["total_duration_sec"] == by_name["outer"].duration + by_name["plain"].duration
    assert summary["avg_throughput_tokens_per_sec"] == pytest.approx(10 / by_name["decode"].duration)
    assert summary["sections"][0] == {
        "name": "decode", "duration_sec": by_name["decode"].duration, "total_tokens": 10,
        "throughput_tokens_per_sec": by_name["decode"].throughput_tokens_per_sec}


def test_d15_clear(made):
    sleep_in(made, "a", tokens=3)
    made.clear()
    assert made.get_summary()["total_sections"] == 0
    assert made.get_summary()["avg_throughput_tokens_per_sec"] == 0.0


NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = (void *)(index + 1L), 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length)
{ return strncpy(name, device == (void *)1 ? "GPU one" : "GPU two", length), 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{ return memory[2] = 1500000ull * (long)device, 0; }
struct sample { unsigned long long ts, value; };
int nvmlDeviceGetSamples(void *device, int kind, unsigned long long since, int *type, unsigned *count,
                         struct sample *sample)
{
        if (kind != 1 || device != (void *)1)
                return 3;
        for (int i = 0; i < 3; i++)
                sample[i] = (struct sample){ since + 10 * i, 30 + 20 * i };   /* the first is too old */
        return *count = 3, 0;
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { return rates[0] = 20, rates[1] = 1, 0; }
"""


@pytest.fixture
def nvml(run):
    """No GPU here: a stand-in of the driver's library, in the run's directory."""
    run.save(NVML, "nvml.c")
    run.command("cc", "-shared", "-fPIC", "-o", "libnvidia-ml.so.1", "nvml.c")

    def measure(**env):
        run.script("""
            import sys
            sys.modules["pynvml"] = None
            from pfw.compat.diffulex_profiler import DiffulexProfiler
            profiler = DiffulexProfiler()
            with profiler.profile("a"):
                pass
            one, = profiler.metrics
            print([one.gpu_utilization, one.gpu_memory_mb, one.gpu_devices])
            """, **env)
        return ast.literal_eval(run.output)
    return measure


def test_d16_performance_metrics(nvml, run):
    """The attributes; GPU utilisation is the mean over the section, not end less start."""
    names = {field.name for field in dataclasses.fields(PerformanceMetrics)}
    assert names >= {"name", "duration", "total_tokens", "throughput_tokens_per_sec", "gpu_utilization",
                     "memory_delta_mb", "custom_metrics", "metadata"}
    assert nvml(LD_LIBRARY_PATH=str(run.directory))[0] == ((50 + 70) / 2 + 20) / 2


def test_d18_gpu_metrics(nvml, run):
    """Of the driver's library, without pynvml; without a driver none."""
    assert nvml(LD_LIBRARY_PATH=str(run.directory))[1:] == [4.5, ["GPU one", "GPU two"]]
    (run.directory / "libnvidia-ml.so.1").unlink()
    assert nvml(LD_LIBRARY_PATH="")[2] != ["GPU one", "GPU two"]


def test_d17_timing(made):
    before = time.time()
    sleep_in(made, "a", 0.02)
    one, = made.metrics
    assert before <= one.start_time <= one.end_time <= time.time() + 0.001
    assert one.duration >= 0.02 and one.end_time - one.start_time == pytest.approx(one.duration, abs=1e-6)


def test_d19_memory(run):
    run.script("""
        import sys
        sys.modules["psutil"] = None
        from pfw.compat.diffulex_profiler import DiffulexProfiler
        profiler = DiffulexProfiler()
        with profiler.profile("a"):
            block = bytearray(100_000_000)
            block[::4096] = bytes(len(block[::4096]))
        print(profiler.metrics[0].memory_delta_mb, profiler.metrics[0].memory_mb)
        """)
    delta, total = map(float, run.output.split())
    assert 99 < delta < 130 and total > delta


def test_d20_files(made, tmp_path):
    made.exporters = {name: kind() for name, kind in exporters.EXPORTERS.items()}
    sleep_in(made, "prefill", metadata={"num_prompts": 2})
    with made.profile("decode", metadata={"model": "dream"}):
        made.record_metric("num_outputs", 2)
        made.record_throughput(200)
    made.export(tmp_path / "results.json")
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert list(rows[0]) == ["name", "duration_sec", "total_tokens", "throughput_tokens_per_sec",
                             "num_outputs", "metadata_num_prompts", "metadata_model"]
    assert rows[1]["total_tokens"] == "200" and rows[1]["num_outputs"] == "2" and rows[0]["num_outputs"] == ""
    lines = (tmp_path / "results.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == [
        "Total Sections", "Total Duration", "Total Tokens", "Average Throughput"]
    assert lines[5].startswith("prefill: ") and "200 tokens" in lines[6]
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["summary"]["total_tokens"] == 200 and len(document["metrics"]) == 2


def test_d21_examples(run):
    run.script(BASIC)
    inference = json.loads((run.directory / "log/profiles/inference_profile.json").read_text())
    assert inference["metrics"][0]["throughput_tokens_per_sec"] > 0
    assert (run.directory / "log/profiles/inference_profile.txt").exists()
    run.script(GENERATE)
    generated = json.loads((run.directory / "generation_profile.json").read_text())["metrics"][0]
    assert generated["metadata"] == {"num_prompts": 2}
    assert generated["custom_metrics"] == {"num_outputs": 2, "avg_diff_steps": 4.0}
    speed = float(re.fullmatch(r"Throughput: ([\d.]+) tok/s\n", run.output)[1])
    assert 0 < speed <= 200 / 0.05
    run.script(BATCHES)
    batches = json.loads((run.directory / "batch_profiles.json").read_text())["metrics"]
    assert [(one["name"], one["total_tokens"]) for one in batches] == [("batch_0", 100), ("batch_1", 200)]


def test_d22_printed_figures(run):
    run.script(ADVANCED)
    duration, speed = re.fullmatch(
        r"Total duration: (\d+\.\d\d)s\nAverage throughput: (\d+\.\d\d) tok/s\n", run.output).groups()
    files = sorted((run.directory / "log/profiles").iterdir())
    sections = json.loads(files[1].read_text())["summary"]["sections"]
    assert float(duration) == pytest.approx(sum(one["duration_sec"] for one in sections), abs=0.006)
    assert float(speed) == pytest.approx(200 / sections[2]["duration_sec"], rel=0.001)
    assert [path.suffix for path in files] == [".csv", ".json", ".txt"]
    assert [section["name"] for section in sections] == ["model_loading", "prefill", "decode"]


def entry_points(monkeypatch, group, name, kind):
    real = importlib.metadata.entry_points

    def found(**wanted):
        if wanted == {"group": group, "name": name}:
            return [types.SimpleNamespace(load=lambda: kind)]
        return real(**wanted)
    monkeypatch.setattr(importlib.metadata, "entry_points", found)


def test_d23_backend_of_an_entry_point(monkeypatch):
    calls = []

    class Own(ProfilerBackend):
        def start(self, name, metadata=None):
            calls.append((name, metadata))

        def stop(self):
            calls.append("stop")
    entry_points(monkeypatch, "pfw.diffulex_profiler.backends", "own", Own)
    profiler = DiffulexProfiler(ProfilerConfig(backend="own"))
    sleep_in(profiler, "a", metadata={"x": 1})
    assert calls == [("a", {"x": 1}), "stop"] and isinstance(profiler.backend, Own)
    with pytest.raises(TypeError):
        ProfilerBackend(ProfilerConfig())


def test_d24_exporter_of_an_entry_point(monkeypatch, tmp_path):
    class Lines(ProfilerExporter):
        suffix = ".lines"

        def export(self, metrics, summary, path):
            path.write_text("".join(one.name + "\n" for one in metrics))
    entry_points(monkeypatch, "pfw.diffulex_profiler.exporters", "lines", Lines)
    profiler = DiffulexProfiler(ProfilerConfig(export_formats=["lines"]))
    sleep_in(profiler, "a")
    profiler.export(tmp_path / "out.json")
    assert (tmp_path / "out.lines").read_text() == "a\n" and list(profiler.exporters) == ["lines"]


def test_d25_what_was_measured_is_on_disk_before_the_end(run):
    """A section that has ended survives a kill: no export() is needed for that."""
    run.script("""
        import os, signal, pfw
        from pfw.compat.diffulex_profiler import DiffulexProfiler, ProfilerConfig
        profiler = DiffulexProfiler(ProfilerConfig(backend="pfw"))
        for index in range(3):
            with profiler.profile(f"batch_{index}"):
                pass
        os.kill(os.getpid(), signal.SIGKILL)
        """, status=-9)
    run.command(PFW, "repair", "log/profiles/sections.pfw")
    names = {line["name"] for line in run.lines("log/profiles/sections.pfw")}
    assert names >= {"batch_0", "batch_1", "batch_2"}


def test_d26_troubles_are_told_with_their_cure(run):
    """`pfw doctor` looks in the environment that it was installed in, whatever is on the PATH."""
    text = DOCS.read_text()
    assert all(word in text for word in ("pip install viztracer", "enabled=True", "libnvidia-ml", "pfw doctor"))
    said = run.command(PFW, "doctor", PATH="/usr/bin:/bin")
    assert re.search(rf"^ok +pfw +backends simple and pfw in {PFW.with_name('python3')}$", said, re.MULTILINE)
    assert re.search("^(ok|note) +viztracer ", said, re.MULTILINE) and re.search(" recording ", said)
    assert re.search("^(ok|note) +gpu-metrics ", said, re.MULTILINE)


def test_d27_extras_and_no_need(run):
    metadata = importlib.metadata.metadata("pfwtrace")
    assert {"viztracer", "nvml"} <= set(metadata.get_all("Provides-Extra"))
    run.script("""
        import sys
        for name in ("torch", "viztracer", "pynvml", "psutil", "numpy"):
            sys.modules[name] = None
        """ + BASIC.replace("\n", "\n        "))
    assert diffulex_profiler.DiffulexProfiler is DiffulexProfiler and Run and sys
