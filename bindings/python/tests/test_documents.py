"""The documents' code as it stands there (documents.py), in one process and in two ranks under torchrun.

What a block takes for granted, a model, data, an engine, is a stub that comes before it.
"""
import gzip
import importlib.util
import json
import re

import pytest

import documents
from conftest import Run
from pfw._rank import own_name

RANKS = """
import torch
if torch.distributed.is_torchelastic_launched():
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
"""

STUBS_A = RANKS + """
import argparse, sys, types
from pfw.compat.cache_dit import add_profile_arguments
prompt, input, model = "a cat", torch.randn(4, 8), torch.nn.Linear(8, 8)
class FluxPipeline:
    from_pretrained = classmethod(lambda cls, name: cls())
    def __call__(self, prompt, num_inference_steps, **rest):
        print("steps", num_inference_steps, flush=True)
        for _ in range(num_inference_steps):
            with torch.profiler.record_function("denoise"):
                image = model(torch.randn(4, 8))
        return types.SimpleNamespace(images=[image])
sys.modules["diffusers"] = types.SimpleNamespace(FluxPipeline=FluxPipeline, FluxTransformer2DModel=None)
def get_args():
    return add_profile_arguments(argparse.ArgumentParser()).parse_args()
pipe, args = FluxPipeline(), get_args()
"""

STUBS_B = RANKS + """
batch = torch.randn(4, 8)
class Model(torch.nn.Sequential):
    def forward(self, batch):
        return super().forward(batch).sum()
model = Model(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dataloader = [batch] * 4
args = None
from pfw.compat.parallelization import step_profiler  # the first block uses it, and does not import it
"""

STUBS_C = RANKS + """
torch.Tensor.cuda = lambda self: self  # no device here
torch.cuda.reset_peak_memory_stats = lambda: None
input = torch.randn(4, 8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = torch.nn.MSELoss()
train_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randn(40, 8)), 4)
"""

STUBS_D = """
import sys, time, types
from dataclasses import dataclass
from pfw.torch import ProfilerActivity
model_path, prompts, sampling_params, batches = "model", ["a", "b"], None, [["a"], ["b", "c"]]
class Diffulex:
    def __init__(self, path, *rest, **options):
        pass
    def generate(self, prompts, sampling_params):
        time.sleep(0.05)
        return [{"token_ids": [1] * 100, "n_diff_steps": 4} for _ in prompts]
sys.modules["diffulex"] = types.SimpleNamespace(
    Diffulex=Diffulex, SamplingParams=lambda temperature, max_tokens: None)
"""


def blocks(of, *numbers):
    return "".join(documents.code(of[number]) for number in numbers)


def both(name):
    """A fixture: the script of a document run as one process and in two ranks; (run, ranks)."""
    def fixture(request, tmp_path_factory):
        pytest.importorskip("torch")
        run = Run(tmp_path_factory.mktemp(name))
        text, words, env = SCRIPTS[name]
        if request.param == 1:
            run.script(text, *words, **env)
        else:
            run.ranks(text, *words, **env)
        return run, request.param
    return pytest.fixture(scope="module", params=[1, 2], ids=["alone", "two_ranks"], name=name)(fixture)


SCRIPTS = {
    "cache_dit": (
        # Directories of the test's own instead of the machine's.
        STUBS_A + blocks(documents.A, 0, 1, 2, 3).replace('"/tmp/profiles"', '"profiles"') + """
assert my_function().shape == (4, 8)
""", ["--profile", "--profile-activities", "CPU", "GPU", "MEM", "--track-memory"],
        {"CACHE_DIT_TORCH_PROFILER_DIR": "out"}),
    "parallelization": (
        STUBS_B + blocks(documents.B, 0) + "\ntrain_model(args)\n" + """
from pfw.compat.parallelization import profiler
@profiler(output_dir="./loop", skip_first=0, warmup=1, active=1)
def loop():
""" + re.sub("^", "    ", blocks(documents.B, 2), flags=re.MULTILINE) + """
loop()
""" + blocks(documents.B, 1).replace("    pass", "    for _ in range(13):\n        model(batch); step_profiler()")
        + "\ndistributed_train(args)\n", [], {}),
    "tutorial": (
        STUBS_C + blocks(documents.C, 0) + "\nprint('END OF TABLE')\n" + blocks(documents.C, 1, 3)
        + blocks(documents.C, 4, 5) + "\nprint([schedule(step).name for step in range(6)])\n"
        + blocks(documents.C, 6).replace("prof.key_averages().table", "long = prof.key_averages().table")
        + "\nprint(long)\nprint('END OF LONG')\n" + blocks(documents.C, 2) + """
print("END OF MEMORY")
with profile(activities=[ProfilerActivity.CPU]) as prof:
    data, target = torch.randn(4, 8), torch.randn(4, 8)
    loss = model(data).sum()
""" + re.sub("^", "    ", blocks(documents.C, 7), flags=re.MULTILINE) + """
print("REGIONS", [row.key for row in prof.key_averages() if row.key in ("data_loading", "forward", "backward")])
""" + blocks(documents.C, 8, 9) + """
profile_impl("linear", model, input)
print("RESULT", memory_profile(model)(input).shape)
HANDLER = dict(
""" + blocks(documents.C, 10) + """
)
with profile(**HANDLER):
    model(input)
""", [], {}),
    "diffulex": (
        RANKS + STUBS_D + blocks(documents.D, 0, 1, 10, 11)
        + "".join(f"""
{blocks(documents.D, number)}
with profiler.profile("section{number}"):
    model = torch.nn.Linear(4, 4)(torch.randn(2, 4))
""" for number in (3, 4, 5)) + blocks(documents.D, 6)
        + "".join(block.replace("profiler.export(", 'with profiler.profile("one"):\n    pass\nprofiler.export(')
                  for block in map(documents.code, documents.D[7:10])), [], {}),
}
cache_dit, parallelization, tutorial, diffulex = map(both, SCRIPTS)


def trace(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        return json.load(file)


def names(path):
    return [event["name"] for event in trace(path)["traceEvents"] if event["ph"] == "X"]


def each(ranks, name):
    """{rank: the name of its file}."""
    if ranks == 1:
        return {0: name}
    stem, dot, suffix = name.partition(".")
    return {rank: f"{stem}-rank{rank}{dot}{suffix}" for rank in range(ranks)}


def plain(path, pattern="*"):
    """What lies there, without what has a time in its name."""
    return {found.name for found in path.glob(pattern)
            if not re.search(r"\.pt\.trace\.json|-memory-\d+|profile_\d{8}_", found.name)}


def test_cache_dit(cache_dit):
    run, ranks = cache_dit
    out = run.directory / "out"
    wanted = {"flux_inference.trace.json.gz": 3, "flux_inference-2.trace.json.gz": 3,
              "forward_pass.trace.json.gz": 0}
    assert plain(out, "*.json.gz") == {own for name in wanted for own in each(ranks, name).values()}
    for name, denoised in wanted.items():
        for rank, own in each(ranks, name).items():
            assert names(out / own).count("denoise") == denoised and "aten::linear" in names(out / own)
            assert trace(out / own)["distributedInfo"] == {"rank": rank, "world_size": ranks}
    for own in each(ranks, "my_inference.trace.json.gz").values():
        assert "aten::linear" in names(run.directory / "profiles" / own)
    for rank in range(ranks):
        for kind in (".pickle", ".txt"):
            assert len(list(out.glob(f"flux_inference-rank{rank}-memory-*{kind}"))) == 1
    assert run.output.count("steps 3\n") == 3 * ranks and "steps 28" not in run.output
    for name in ("flux_inference", "flux_inference-2"):
        for own in each(ranks, f"{name}.trace.json.gz").values():
            assert f"Profiler traces saved to: out/{own}\n" in run.output
    assert run.output.count("Peak host memory: ") == ranks


def test_parallelization(parallelization):
    run, ranks = parallelization
    for folder, active in (("profiler_logs", 3), ("loop", 1), ("profiles", 10)):
        assert plain(run.directory / folder, "trace_*") == {f"trace_rank_{rank}.json" for rank in range(ranks)}
        for rank in range(ranks):
            path = run.directory / folder / f"trace_rank_{rank}.json"
            assert len([name for name in names(path) if name.startswith("ProfilerStep#")]) == active
            assert trace(path)["distributedInfo"] == {"rank": rank, "world_size": ranks}
            for_tensorboard, = (run.directory / folder / f"rank_{rank}").iterdir()
            assert for_tensorboard.name.endswith(".pt.trace.json")
    assert run.output.count("Top operations by CPU time") == 3, "only rank 0 prints"
    for line in run.output.splitlines():
        if "Self FLOPS" in line:
            assert re.split("  +", line.strip()) == ["Name", "Self FLOPS", "CPU total", "CUDA total", "# of Calls"]
    assert "Self FLOPS" in run.output


def test_tutorial(tutorial):
    run, ranks = tutorial
    assert run.output.count("model_inference") == ranks
    assert run.output.count("END OF LONG") == run.output.count("END OF MEMORY") == ranks
    assert run.output.count("['NONE', 'WARMUP', 'RECORD', 'RECORD', 'RECORD_AND_SAVE', 'NONE']") == ranks
    assert plain(run.directory, "*.json") == set(each(ranks, "trace.json").values())
    for own in each(ranks, "trace.json").values():
        steps = [name for name in names(run.directory / own) if name.startswith("ProfilerStep#")]
        assert steps == ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"]
    assert plain(run.directory, "stacks*") == set(each(ranks, "stacks.txt").values())
    for own in each(ranks, "stacks.txt").values():
        lines = (run.directory / own).read_text().splitlines()
        assert lines and all(re.fullmatch(r"[^;]+(;[^;]+)* \d+", line) for line in lines)
    # Two cycles of the loop and the handler's own block, of each rank.
    assert len(list((run.directory / "logs").glob("*.pt.trace.json"))) == 3 * ranks
    assert run.output.count("linear: 0.00 ms\n") == ranks, "no device worked"
    assert run.output.count("Peak memory: 0.00 GB\n") == ranks
    assert run.output.count("RESULT torch.Size([4, 8])\n") == ranks
    regions = re.findall(r"^REGIONS (.*)$", run.output, re.MULTILINE)
    assert [sorted(eval(one)) for one in regions] == [["backward", "data_loading", "forward"]] * ranks


def test_diffulex(diffulex):
    run, ranks = diffulex
    wanted = ["generation_profile.json", "generation_profile.txt", "batch_profiles.json", "batch_profiles.txt",
              "results.json", "results.csv", "results.txt"]
    here = {name for name in plain(run.directory) if re.search(r"_profile|results", name)}
    assert here == {own for name in wanted for own in each(ranks, name).values()}
    log = run.directory / "log/profiles"
    viztracer = ["trace.json"] if importlib.util.find_spec("viztracer") else []
    for name in ("inference_profile.json", "pytorch_trace_section5.json", *viztracer):
        for own in each(ranks, name).values():
            assert trace(log / own), own
    assert len(list(log.glob("profile_????????_??????*"))) >= 3 * ranks
    for own in each(ranks, "generation_profile.json").values():
        made, = trace(run.directory / own)["metrics"]
        assert made["metadata"] == {"num_prompts": 2}
        assert made["custom_metrics"] == {"num_outputs": 2, "avg_diff_steps": 4.0}
        assert 0 < made["throughput_tokens_per_sec"] <= 200 / 0.05
    for own in each(ranks, "batch_profiles.json").values():
        assert [(one["name"], one["total_tokens"]) for one in trace(run.directory / own)["metrics"]] == [
            ("batch_0", 100), ("batch_1", 200)]
    for pattern in (r"Total duration: \d+\.\d\ds\n", r"Average throughput: \d+\.\d\d tok/s\n",
                    r"^Throughput: \d+\.\d\d tok/s\n"):
        assert len(re.findall(pattern, run.output, re.MULTILINE)) == ranks


@pytest.mark.parametrize("given, wanted", [
    ("trace.json", "trace-rank1.json"), ("a/flux.trace.json.gz", "a/flux-rank1.trace.json.gz"),
    ("r.v1.csv", "r.v1-rank1.csv"), ("stacks", "stacks-rank1"), ("trace_rank_0.json", "trace_rank_0-rank1.json"),
    ("trace_rank_1.json", None), ("rank1/trace.json", None), ("t-rank0001.json", None),
    ("rank12.json", "rank12-rank1.json"), ("host_7.123.pt.trace.json.gz", None)])
def test_names_of_ranks(given, wanted, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "16")
    assert own_name(given) == (wanted or given)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert own_name(given) == given


def test_diffulex_config_is_the_documents():
    """The listing of ProfilerConfig: names, order, types' places and defaults."""
    from pfw.compat.diffulex_profiler import ProfilerConfig
    listed = re.findall(r"^    (\w+): \S.*? = (.*?)\s*(?:#.*)?$", documents.D[2], re.MULTILINE)
    ours = ProfilerConfig()
    assert [(name, eval(value)) for name, value in listed] == list(vars(ours).items())
    assert len(listed) == 10
