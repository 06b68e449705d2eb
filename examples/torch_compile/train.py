"""Trains a small network with torch.compile(backend="toroid") until it tells two spirals apart, and eager PyTorch beside it.

    python examples/torch_compile/train.py [--inductor]

Prints the accuracies and the time of a step; exit 1 where toroid's is below 99 % or differs from eager's.
"""

import copy
import math
import sys
import time

import torch

from beside import backends

torch.manual_seed(0)


def spirals(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two spirals, [points, 2], and on which one each is, [points]."""
    turn = torch.rand(points)
    arm = torch.arange(points) % 2
    angle = 3 * math.pi * turn + math.pi * arm
    return torch.stack([turn * angle.cos(), turn * angle.sin()], 1) + 0.01 * torch.randn(points, 2), arm


def network() -> torch.nn.Module:
    width = 64
    return torch.nn.Sequential(
        torch.nn.Linear(2, width), torch.nn.SiLU(), torch.nn.Linear(width, width), torch.nn.SiLU(), torch.nn.Linear(width, 2)
    )


def train(model: torch.nn.Module, forward, steps: int) -> tuple[float, float]:
    """The accuracy on new points, and the median time of a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = spirals(512)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(x), y).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    torch.manual_seed(1)
    x, y = spirals(1000)
    with torch.no_grad():
        return float((forward(x).argmax(1) == y).float().mean()), sorted(times)[len(times) // 2]


def main() -> None:
    model = network()
    found = {}
    for name in ("eager", *backends()):
        twin = copy.deepcopy(model)
        torch._dynamo.reset()
        torch.manual_seed(0)
        found[name], step = train(twin, twin if name == "eager" else torch.compile(twin, backend=name), 400)
        print(f"{name}: {100 * found[name]:.1f} % right after 400 steps of {1e6 * step:.0f} us")
    sys.exit(0 if found["toroid"] >= 0.99 and abs(found["toroid"] - found["eager"]) < 0.01 else 1)


if __name__ == "__main__":
    main()
