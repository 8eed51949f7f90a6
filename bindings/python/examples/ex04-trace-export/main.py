"""Export: a timeline, stacks for a flame graph, before and after an optimisation, a report to paste."""
import subprocess

import torch
from pfw.torch import ProfilerActivity, compare_impls, profile

device = "cuda" if torch.cuda.is_available() else "cpu"
weights = [torch.randn(128, 128, device=device) for _ in range(8)]
data = torch.randn(64, 128, device=device)


def before() -> torch.Tensor:
    return torch.stack([data @ weight for weight in weights])


together = torch.stack(weights)


def after() -> torch.Tensor:
    return data @ together


with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True) as prof:
    before()
prof.export_chrome_trace("trace.json")
prof.export_stacks("stacks.txt", "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total")
compare_impls({"before": before, "after": after}, n=100)
with open("report.md", "w") as file:
    for words in ["overlap"], ["table", "--sort-by", "self_cpu_time_total", "--row-limit", "10"]:
        subprocess.run(["pfw", *words, "--quiet", "--format", "md", "."], stdout=file, check=True)
