"""Errors of long reductions, toroid's and PyTorch's, against float64; prints the table of docs/accuracy.md.

    python3 tests/conformance/accuracy.py [--toroid build/toroid] [--longest 100000000] [--only WORDS] [--seed N]

Needs torch and safetensors. Inputs are uniform in [0, 1) plus 100 where a row says so. An error is the largest difference from the float64 result,
as a share of the largest result.
"""
import argparse
import math
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


C = 10
# Name, function, the shape for a length, what is added to uniform numbers.
FORMS = [
    ("sum, all", lambda x: x.sum(), lambda n: (n,), 0),
    ("mean of +100, all", lambda x: x.mean(), lambda n: (n,), 100),
    ("sum, leading", lambda x: x.sum(0), lambda n: (n, C), 0),
    ("mean of +100, leading", lambda x: x.mean(0), lambda n: (n, C), 100),
    ("sum, trailing", lambda x: x.sum(1), lambda n: (C, n), 0),
    ("sum, middle", lambda x: x.sum(1), lambda n: (3, n, C), 0),
    ("sum, outer and inner", lambda x: x.sum((0, 2)), lambda n: (max(n // 10, 1), C, 10), 0),
    ("sum, channels last", lambda x: x.permute(0, 3, 1, 2).sum((0, 2, 3)), lambda n: (2, max(n // 10, 1), 5, C), 0),
    ("sum, every second", lambda x: x[:, ::2].sum(1), lambda n: (C, 2 * n), 0),
    ("einsum ij->j", lambda x: torch.einsum("ij->j", x), lambda n: (n, C), 0),
    ("var of +100, leading", lambda x: x.var(0), lambda n: (n, C), 100),
    ("var of +100, trailing", lambda x: x.var(1), lambda n: (C, n), 100),
    ("std of +10000, all", lambda x: x.std(), lambda n: (n,), 10000),
    ("norm, leading", lambda x: x.norm(dim=0), lambda n: (n, C), 0),
    ("norm, all", lambda x: torch.linalg.vector_norm(x), lambda n: (n,), 0),
    ("logsumexp, leading", lambda x: x.logsumexp(0), lambda n: (n, C), 0),
    ("logsumexp, all", lambda x: x.logsumexp(0), lambda n: (n,), 0),
    ("sum of logs, leading", lambda x: x.log().sum(0), lambda n: (n, C), 1),
    ("mse_loss", lambda x: F.mse_loss(x[0], x[1]), lambda n: (2, n), 0),
    ("cumsum, last", lambda x: x.cumsum(0)[-1], lambda n: (n,), 0),
    ("logcumsumexp, last", lambda x: x.logcumsumexp(0)[-1], lambda n: (n,), 0),
    ("softmax, leading", lambda x: x.softmax(0), lambda n: (n, C), 0),
    ("softmax, trailing", lambda x: x.softmax(1), lambda n: (C, n), 0),
    ("batch_norm of +100", lambda x: F.batch_norm(x, None, None, training=True), lambda n: (n, C), 100),
    ("layer_norm of +100", lambda x: F.layer_norm(x, (x.shape[1],)), lambda n: (C, n), 100),
    ("group_norm of +100", lambda x: F.group_norm(x, 2), lambda n: (2, C, max(n // 5, 1)), 100),
    ("instance_norm of +100", lambda x: F.instance_norm(x), lambda n: (2, C, n), 100),
]


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def toroid_result(tool, folder, function, x):
    program, inputs, outputs = (os.path.join(folder, name) for name in ("p.pt2", "in.safetensors", "out.safetensors"))
    exported = torch.export.export(Model(function), (x,), strict=False)
    exported.example_inputs = None   # which would be saved too
    torch.export.save(exported, program)
    save_file({"in0": x}, inputs)
    done = subprocess.run([tool, "run", program, "--inputs", inputs, "--outputs", outputs], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return load_file(outputs)["out0"]


def error(result, exact):
    scale = exact.abs().max().item() or 1.0
    return (result.double() - exact).abs().max().item() / scale


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--toroid", default="build/toroid")
    parser.add_argument("--longest", type=int, default=100_000_000)
    parser.add_argument("--most", type=int, default=100_000_000, help="elements of a tensor")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="f32", choices=["f32", "f16", "bf16"])
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[a.dtype]
    lengths = [10**k for k in range(1, 9) if 10**k <= a.longest]
    print("| error of toroid / PyTorch | " + " | ".join(f"10^{round(math.log10(n))}" for n in lengths) + " |")
    print("|---" * (len(lengths) + 1) + "|")
    worse = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, function, shape, offset in FORMS:
            if a.only and a.only not in name:
                continue
            cells = []
            for n in lengths:
                sizes = shape(n)
                if math.prod(sizes) > a.most:
                    cells.append("")
                    continue
                torch.manual_seed(a.seed + n % 997)
                x = (torch.rand(sizes) + offset).to(dtype)
                got, exact = toroid_result(a.toroid, folder, function, x), function(x.double())
                mine, theirs = error(got, exact), error(function(x), exact)
                mark = "" if mine <= theirs else " !"
                worse += mark != ""
                cells.append(f"{mine:.1e} / {theirs:.1e}{mark}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{worse} cells in which toroid's error is the larger one (!)")


if __name__ == "__main__":
    main()
