"""train.py - trains a small model on files that it makes itself, with PyTorch or without.

    pip install ./dist/*.whl
    pfw run -- python examples/train.py     # a trace of the run
    pfw report                              # one page of it, for a browser

Under plain `python train.py` the calls of pfw do nothing.
"""
from __future__ import annotations

import os
import random
import struct
import tempfile

import pfw

try:
    import torch
except ImportError:
    torch = None

STEPS, SAMPLES, WIDTH = 30, 32, 64


def make_data(directory: str) -> list[str]:
    """A file for each sample: its values, then what the model shall say of them."""
    chance, paths = random.Random(1), []
    for number in range(8 * SAMPLES):
        values = [chance.uniform(-1, 1) for _ in range(WIDTH)]
        paths.append(os.path.join(directory, f"{number:04}.f32"))
        with open(paths[-1], "wb") as file:
            file.write(struct.pack(f"{WIDTH + 1}f", *values, sum(values[::2])))
    return paths


@pfw.trace(category="dataloader")
def load(paths: list[str]) -> list[tuple[float, ...]]:
    """The next batch.  Each sample is opened and read while nothing is computed: `pfw report` shows what that costs."""
    batch = []
    for path in random.sample(paths, SAMPLES):
        with open(path, "rb") as file:
            batch.append(struct.unpack(f"{WIDTH + 1}f", file.read()))
    return batch


class Plain:
    """A linear model, by Python alone."""

    def __init__(self) -> None:
        self.weights = [0.0] * WIDTH

    @pfw.trace("forward", category="compute")
    def forward(self, batch: list[tuple[float, ...]]) -> list[float]:
        return [sum(weight * value for weight, value in zip(self.weights, sample)) - sample[-1] for sample in batch]

    @pfw.trace("backward", category="compute")
    def backward(self, batch: list[tuple[float, ...]], errors: list[float]) -> None:
        for place in range(WIDTH):
            slope = sum(error * sample[place] for error, sample in zip(errors, batch))
            self.weights[place] -= 0.5 * slope / len(batch)

    def train(self, batch: list[tuple[float, ...]]) -> float:
        errors = self.forward(batch)
        self.backward(batch, errors)
        return sum(error * error for error in errors) / len(errors)

    def save(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(struct.pack(f"{WIDTH}f", *self.weights))


class Torch:
    """The same by PyTorch, with two layers."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    @pfw.trace("forward", category="compute")
    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return ((self.model(data[:, :-1]).squeeze(1) - data[:, -1]) ** 2).mean()

    @pfw.trace("backward", category="compute")
    def backward(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self, batch: list[tuple[float, ...]]) -> float:
        loss = self.forward(torch.tensor(batch))
        self.backward(loss)
        return loss.item()

    def save(self, path: str) -> None:
        torch.save(self.model.state_dict(), path)


def main() -> None:
    if torch is None:
        print("PyTorch is not installed (pip install torch): this trains by Python alone")
    random.seed(2)
    with tempfile.TemporaryDirectory() as directory:
        paths, model = make_data(directory), Torch() if torch else Plain()
        for step in range(STEPS):
            loss = model.train(load(paths))
            if step % 10 == 9:
                print(f"step {step}: loss {loss:.4f}")
                with pfw.span("checkpoint"):
                    model.save(os.path.join(directory, "model"))
            pfw.step()


if __name__ == "__main__":
    main()
