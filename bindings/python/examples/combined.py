"""I/O and compute on one clock: a Dataset that reads files, two workers that load, a model that trains.

    pfw run -o combined -- python combined.py
    pfw overlap combined        # how much of the loading the compute hides
    pfw compact combined        # the workers' files and this one as one, in order of time

The workers' reads are POSIX events of their own processes, the operators PP events of this one.
"""
import pathlib
import tempfile

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

import pfw
from pfw.torch import trace_handler

FILES, NUMBERS = 32, 4096


class Numbers(Dataset):
    """One file an item: what it holds is the input, its number decides the label."""

    def __init__(self, directory):
        self.paths = sorted(pathlib.Path(directory).glob("*.f32"))

    def __len__(self):
        return len(self.paths)

    @pfw.trace("item", category="data")
    def __getitem__(self, index):
        return torch.frombuffer(bytearray(self.paths[index].read_bytes()), dtype=torch.float32), index % 2


def main():
    pfw.start("combined")
    with tempfile.TemporaryDirectory() as directory:
        for index in range(FILES):
            pathlib.Path(directory, f"{index:04}.f32").write_bytes(torch.randn(NUMBERS).numpy().tobytes())
        model = nn.Sequential(nn.Linear(NUMBERS, 64), nn.ReLU(), nn.Linear(64, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = DataLoader(Numbers(directory), batch_size=8, num_workers=2)
        with profile(activities=[ProfilerActivity.CPU], on_trace_ready=trace_handler) as profiler:
            for inputs, labels in loader:
                with record_function("train"):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                profiler.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":  # workers that are spawned import this file
    main()
