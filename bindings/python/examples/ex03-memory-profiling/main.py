"""Memory: who allocates, the peak, a leak, and which batch size fits."""
import torch
from pfw.torch import ProfilerActivity, memory_profile, profile, schedule

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)).to(device)
kept = []


def run(batch: int, leak: bool, steps: int = 6) -> profile:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True,
                 schedule=schedule(wait=0, warmup=1, active=steps, repeat=1)) as prof:
        for _ in range(steps + 1):
            output = model(torch.randn(batch, 256, device=device))
            if leak:
                kept.append(output)
            prof.step()
    return prof


prof = run(64, leak=True)
print(prof.key_averages().table(
    sort_by="self_cuda_memory_usage" if device == "cuda" else "self_cpu_memory_usage", row_limit=5))
prof.export_memory_timeline("memory.json")
memory = prof.memory()
print(f"peak: {memory['peak_bytes']} bytes; leaked: {memory['end_bytes']} bytes")
for batch in (32, 64, 128):
    memory = run(batch, leak=False).memory()
    print(f"batch {batch}: peak {memory['peak_bytes']} bytes; leaked: {memory['end_bytes']} bytes")


@memory_profile
def forward() -> torch.Tensor:
    return model(torch.randn(64, 256, device=device))


forward()
