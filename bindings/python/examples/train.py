"""A training loop whose operators torch.profiler records, two steps of four.

    pfw run -- python train.py
    pfw overlap trace*          # where the steps' time went
    pfw table trace*            # torch's key averages, from the trace

Run by plain `python train.py` it records, too: pfw.start() begins the trace then.
"""
import pathlib

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import pfw
from pfw.torch import trace_handler

pfw.start("trace")  # under `pfw run` the trace has its name from there

model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


@pfw.trace(category="training")
def training_step(inputs, labels):
    optimizer.zero_grad()
    with record_function("forward"):
        outputs = model(inputs)
    with record_function("loss"):
        loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
    return loss.item()


with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True,
             schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
             on_trace_ready=trace_handler) as profiler:
    for step in range(4):
        loss = training_step(torch.randn(8, 10), torch.randint(0, 2, (8,)))
        pfw.counter("loss", loss)
        with pfw.span("checkpoint", category="training", step=step):
            torch.save(model.state_dict(), "model.pt")
        profiler.step()

pathlib.Path("model.pt").unlink()
print(f"loss {loss:.3f}")
