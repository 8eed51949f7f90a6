"""A forward pass: what is slow, CPU time against CUDA time, regions of one's own."""
import torch
from pfw.torch import ProfilerActivity, profile, record_function

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).to(device)
data = torch.randn(64, 256, device=device)
model(data)  # warm up: the first call is not representative

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as prof:
    with record_function("model_inference"):
        model(data)

averages = prof.key_averages()
print(averages.table(sort_by="cuda_time_total" if device == "cuda" else "cpu_time_total", row_limit=10))
slowest = max(averages, key=lambda row: row.self_cpu_time_total)
print(f"slowest on the CPU: {slowest.key}")
print(f"CPU time: {sum(row.self_cpu_time_total for row in averages):.0f} us, "
      f"CUDA time: {sum(row.self_device_time_total for row in averages if row.device_type):.0f} us")
