#!/usr/bin/env python3
"""Times torch.compile on a GPU by toroid, Inductor and eager PyTorch: first call, calls in a row, and whether results are eager's.

usage: gpu.py [--seconds 200] [--models PATTERN...] [--ways toroid,inductor]
       prints a line for each model and way; what has no time any more is left out
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import statistics
import sys
import time
import warnings

import torch
from torch import nn

import toroid.torch  # noqa: F401: registers the backend where the package is not installed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import models  # noqa: E402

DTYPE = torch.bfloat16


class Encoder(nn.Module):
    """BERT-small: 4 layers, 512 wide, 8 heads."""

    def __init__(self, words: int = 30522, width: int = 512, layers: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        make = lambda: nn.TransformerEncoderLayer(width, 8, 4 * width, dropout, "gelu", batch_first=True)  # noqa: E731
        self.layers = nn.ModuleList(make() for _ in range(layers))

    def forward(self, tokens):
        x = self.norm(self.words(tokens) + self.places.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x


def residual_net() -> nn.Module:
    """ResNet-18."""

    class Block(nn.Module):
        def __init__(self, channels, filters, stride):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
            self.beside = None
            if stride > 1 or channels != filters:
                self.beside = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

        def forward(self, x):
            return torch.relu(self.second(self.first(x)) + (x if self.beside is None else self.beside(x)))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, filters, stride), Block(filters, filters, 1)]
        channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def inference(module, *inputs, channels_last=False):
    module = module.cuda().to(DTYPE).eval()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)

    def make(compile):
        call = compile(module)

        def step():
            with torch.no_grad():
                return call(*inputs)

        return step

    return make


def mean_square(model, tokens):
    with torch.autocast("cuda", DTYPE):
        return model(tokens).float().square().mean()


def next_words(model, tokens):
    with torch.autocast("cuda", DTYPE):
        logits = model(tokens[:, :-1]) @ model.words.weight.t()
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def training(module, tokens, loss_of=next_words, until="step"):
    """until: "forward", "backward" or "step", of which each does what is before it too."""
    module = module.cuda().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}

    def make(compile):
        module.load_state_dict(before)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
        compiled = compile(lambda tokens: loss_of(module, tokens))

        def step():
            loss = compiled(tokens)
            if until != "forward":
                loss.backward()
            if until == "step":
                optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    return make


def rows():
    image = lambda n: torch.randn(n, 3, 224, 224, device="cuda", dtype=DTYPE)  # noqa: E731
    tokens = lambda n, length, words: torch.randint(words, (n, length), device="cuda")  # noqa: E731
    yield "ResNet-18, 64", lambda: inference(residual_net(), image(64).to(memory_format=torch.channels_last), channels_last=True)
    yield "ResNet-18, 1", lambda: inference(residual_net(), image(1).to(memory_format=torch.channels_last), channels_last=True)
    yield "ViT-S/16, 64", lambda: inference(models.vit(torch, width=384, heads=6), image(64))
    yield "BERT-small, 32 x 256", lambda: inference(Encoder(), tokens(32, 256, 30522))
    yield "BERT-small, 1 x 128", lambda: inference(Encoder(), tokens(1, 128, 30522))
    gpt2 = lambda until: training(models.gpt2(torch, length=513), tokens(8, 513, 50257), until=until)  # noqa: E731
    yield "GPT-2 training step, 8 x 512", lambda: gpt2("step")
    yield "GPT-2 forward, 8 x 512", lambda: gpt2("forward")
    yield "GPT-2 forward and backward, 8 x 512", lambda: gpt2("backward")
    yield "BERT-small training step, dropout, 32 x 256", lambda: training(Encoder(dropout=0.1), tokens(32, 256, 30522), mean_square)


WAYS = {
    "eager": lambda f: f,
    "toroid": lambda f: torch.compile(f, backend="toroid"),
    "inductor": lambda f: torch.compile(f),
    "toroid max": lambda f: torch.compile(f, backend="toroid", mode="max-autotune"),
    "inductor max": lambda f: torch.compile(f, mode="max-autotune"),
}


def milliseconds(step, seconds=0.7):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 100)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--models", nargs="*", default=["*"])
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    ways = options.ways.split(",")
    for turn in (ways[:3], ways[3:]):  # what tunes comes last
        for name, make_row in rows():
            if not turn or not any(fnmatch.fnmatch(name, pattern) for pattern in options.models):
                continue
            torch.manual_seed(0)
            make, wanted = make_row(), None
            for way in turn:
                if time.monotonic() > end:
                    print("no time for", name, way, flush=True)
                    continue
                torch._dynamo.reset()
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    try:
                        step = make(WAYS[way])
                        begin = time.perf_counter()
                        result = step()
                        torch.cuda.synchronize()
                        first = time.perf_counter() - begin
                        each = milliseconds(step)
                    except Exception as error:  # noqa: BLE001: the other rows go on
                        print(f"{name:44} {way:13} {type(error).__name__}: {str(error)[:300]}", flush=True)
                        continue
                wanted = result if wanted is None else wanted
                difference = ((result.float() - wanted.float()).norm() / wanted.float().norm()).item()
                fallback = [str(each.message)[:300] for each in told if "toroid runs" in str(each.message)]
                memory = torch.cuda.max_memory_allocated() / 2**20
                figures = f"first {first:6.2f} s  {each:8.3f} ms  differs by {difference:.1e}  PyTorch's {memory:.0f} MiB"
                print(f"{name:44} {way:13} {figures}", *fallback, flush=True)
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
