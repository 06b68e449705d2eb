#!/usr/bin/env python3
"""Models with tensors on the CPU and on a GPU, run by toroid and compared with PyTorch.

    tests/gpu/mixed_models.py build/toroid [--device emulated-as-exported] [--keep FOLDER] [MODEL...]

Where PyTorch has a GPU, models are exported from both devices and PyTorch runs them so. Elsewhere they are exported on the CPU, with each
move between devices as a copy, and the devices of the archive are rewritten (`rewritten`): the weights and inputs that a model names are
the GPU's, a copy goes to the other device, and results are where their operands are. Exit status 1 where a result differs.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import torch
from torch import nn

REAL = torch.cuda.is_available()
GPU = torch.device("cuda:0") if REAL else torch.device("cpu")
CPU = torch.device("cpu")


def move(x, device):
    return x.to(device) if REAL else torch.ops.aten._to_copy.default(x, device="cpu")


class Recommender(nn.Module):
    """A table on the CPU, and a network behind it on the GPU."""

    on_gpu = ["mlp."]

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(5000, 64, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)).to(GPU)

    def forward(self, ids, dense):
        bag = move(self.table(ids), GPU)
        return torch.sigmoid(self.mlp(torch.cat([bag, dense], 1)))

    inputs = [(torch.randint(0, 5000, (32, 10)), False), (torch.randn(32, 16), True)]


class Offloaded(nn.Module):
    """Transformer layers, some of which are on the CPU."""

    on_gpu = ["first.", "third."]

    def __init__(self):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        self.first, self.second, self.third = layer().to(GPU), layer(), layer().to(GPU)

    def forward(self, x):
        x = move(self.first(x), CPU)
        x = move(self.second(x), GPU)
        return move(self.third(x), CPU).mean(1)

    inputs = [(torch.randn(2, 24, 64), True)]


class Indices(nn.Module):
    """Indices and single numbers on the CPU beside tensors on the GPU."""

    on_gpu = ["weight"]

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(40, 8, device=GPU))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x, ids):
        y = x[ids] * self.scale
        return y @ self.weight.t(), ids + 1

    inputs = [(torch.randn(20, 8), True), (torch.tensor([3, 1, 19, 0]), False)]


class Solver(nn.Module):
    """Linear algebra on the CPU between kernels of the GPU."""

    on_gpu = []

    def forward(self, a, b):
        spd = a @ a.transpose(-1, -2) + 8 * torch.eye(16, device=a.device) if REAL else a @ a.transpose(-1, -2) + 8 * self.eye(a)
        factor = torch.linalg.cholesky(move(spd, CPU))
        return torch.tanh(move(factor, GPU) @ b)

    def eye(self, a):
        return torch.ones_like(a[0]).triu() * torch.ones_like(a[0]).tril()

    inputs = [(torch.randn(4, 16, 16), True), (torch.randn(16, 3), True)]


class Images(nn.Module):
    """Convolutions on both, and a constant of the model's own."""

    on_gpu = ["body."]

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)).to(GPU)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = (x - torch.tensor([0.1, 0.2, 0.3])[:, None, None]).relu()
        x = self.body(move(self.stem(x), GPU))
        return self.head(move(x, CPU).mean((2, 3)))

    inputs = [(torch.rand(2, 3, 32, 32), False)]


class Batches(nn.Module):
    """Any number of rows."""

    on_gpu = ["inner."]
    dynamic = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32).to(GPU)

    def forward(self, x):
        y = move(self.inner(move(x.exp(), GPU)), CPU)
        return y.softmax(1).sort(1)[0]

    inputs = [(torch.randn(9, 32), False)]


MODELS = [Recommender, Offloaded, Indices, Solver, Images, Batches]

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64", torch.bool: "BOOL"}


def save_tensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def tensors_of(value):
    """The names of the tensors in an argument of a node."""
    if isinstance(value, dict):
        if set(value) >= {"name"} and isinstance(value["name"], str) and "arg" not in value:
            return [value["name"]]
        return [name for each in value.values() for name in tensors_of(each)]
    if isinstance(value, list):
        return [name for each in value for name in tensors_of(each)]
    return []


def rewritten(path, model):
    """The archive with the devices that the model says."""
    cuda = {"type": "cuda", "index": 0}
    on_gpu = lambda target: any(target == name or target.startswith(name) for name in model.on_gpu)
    source = zipfile.ZipFile(path)
    texts = {name: source.read(name) for name in source.namelist()}
    name = next(each for each in texts if each.endswith("models/model.json"))
    program = json.loads(texts[name])
    graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
    values, users = graph["tensor_values"], iter(model.inputs)
    where = {}
    for spec in signature["input_specs"]:
        kind, it = next(iter(spec.items()))
        if kind == "user_input":
            where[it["arg"]["as_tensor"]["name"]] = next(users)[1]
        else:
            target = it.get("parameter_name") or it.get("buffer_name") or it.get("tensor_constant_name") or ""
            where[it["arg"]["name"]] = on_gpu(target)
    for node in graph["nodes"]:
        operands = [each for each in tensors_of([i["arg"] for i in node["inputs"]]) if each in where]
        wide = [each for each in operands if values[each]["sizes"]] or operands
        crosses = node["target"].startswith("torch.ops.aten._to_copy") and any(i["name"] == "device" for i in node["inputs"])
        gpu = not where[operands[0]] if crosses else any(where[each] for each in wide)
        for each in node["inputs"]:
            if each["name"] == "device" and "as_device" in each["arg"]:
                each["arg"]["as_device"] = cuda if gpu else {"type": "cpu", "index": None}
        for each in tensors_of(node["outputs"]):
            where[each] = gpu
    for each, gpu in where.items():
        if gpu:
            values[each]["device"] = cuda
    texts[name] = json.dumps(program).encode()
    for config in [each for each in texts if each.endswith("_config.json")]:
        entries = json.loads(texts[config])
        for target, entry in entries["config"].items():
            if on_gpu(target):
                entry["tensor_meta"]["device"] = cuda
        texts[config] = json.dumps(entries).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in texts.items():
            archive.writestr(each, text)


def check(kind, options, folder):
    torch.manual_seed(1)
    model = kind().eval()
    inputs = tuple(value.to(GPU) if gpu else value for value, gpu in model.inputs)
    base = os.path.join(folder, kind.__name__.lower())
    with torch.no_grad():
        results = model(*inputs)
        exported = torch.export.export(model, inputs, dynamic_shapes=getattr(model, "dynamic", None))
    torch.export.save(exported, base + ".pt2")
    if not REAL:
        rewritten(base + ".pt2", model)
    results = results if isinstance(results, tuple) else (results,)
    save_tensors(base + ".in", {f"in{i}": each for i, each in enumerate(inputs)})
    save_tensors(base + ".out", {f"out{i}": each for i, each in enumerate(results)})
    common = [base + ".pt2", "--inputs", base + ".in", "--device", options.device]
    run = subprocess.run([options.toroid, "run", *common, "--expect", base + ".out"], capture_output=True, text=True)
    print(f"{kind.__name__}: {'as PyTorch' if run.returncode == 0 else 'DIFFERENT'}\n{run.stdout}{run.stderr}", flush=True)
    if options.bench and run.returncode == 0:
        print(subprocess.run([options.toroid, "bench", *common], capture_output=True, text=True).stdout, flush=True)
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("toroid")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--device", default="as-exported" if REAL else "emulated-as-exported")
    parser.add_argument("--keep", help="a folder for the models, their inputs and results")
    parser.add_argument("--bench", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        chosen = [kind for kind in MODELS if not options.models or kind.__name__ in options.models]
        good = [check(kind, options, folder) for kind in chosen]
    print(f"{sum(good)} of {len(good)} as PyTorch computes them, on {options.device}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
