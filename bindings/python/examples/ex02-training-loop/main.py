"""A training loop: forward, backward and optimizer apart; data loading; mixed against full precision."""
import sys

import torch
import pfw.torch
from pfw.torch import ProfilerActivity, profile, record_function

directory = sys.argv[1] if len(sys.argv) > 1 else "./logs"
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = torch.nn.CrossEntropyLoss()
train_set = torch.utils.data.TensorDataset(torch.randn(640, 128), torch.randint(10, (640,)))


def train(mixed: bool) -> dict[str, float]:
    """Microseconds of each part of a step."""
    loader = iter(torch.utils.data.DataLoader(train_set, batch_size=64))
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=pfw.torch.schedule(wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=pfw.torch.tensorboard_trace_handler(directory),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as prof:
        for _ in range(10):
            with record_function("data_loading"):
                data, target = next(loader)
            with record_function("forward"), torch.autocast(device, torch.bfloat16, enabled=mixed):
                loss = criterion(model(data.to(device)), target.to(device))
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    parts = ("data_loading", "forward", "backward", "optimizer")
    return {row.key: row.cpu_time for row in prof.key_averages() if row.key in parts}


full, mixed = train(False), train(True)
print(f"{'':14}{'full':>12}{'mixed':>12}  us a step")
for part in full:
    print(f"{part:14}{full[part]:12.1f}{mixed[part]:12.1f}")
