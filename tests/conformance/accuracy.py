"""Errors of long reductions, toroid's and PyTorch's, against float64; prints the tables of docs/accuracy.md.

    python3 tests/conformance/accuracy.py [--toroid build/toroid] [--longest 100000000] [--group NAME] [--only WORDS] [--dtype f32] [--seed N]

Needs torch and safetensors. For float64 the reference has the 64 bits of x87. Inputs are uniform in [0, 1), plus what a row's name says (accuracy_forms.py). An error is the root mean square, over the
results and over several draws of the inputs (20 of up to 1000 numbers, fewer of longer ones; 100 of up to 1000 numbers with one result), of the
differences from the float64 result, as a share of the largest result. One draw of a few results would be a coin toss: both sides end with a rounding.

A cell is marked (!) if toroid's error is larger than PyTorch's and larger than half a unit in the last place of the results, which rounding the exact
result costs at most; with a dot if it is larger than PyTorch's by a tenth, but within that.
"""
import argparse
import gc
import math
import os
import subprocess
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file

from accuracy_forms import FORMS

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "c64": torch.complex64}


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Compiled:
    """A form for inputs of these sizes, as toroid compiles it."""
    def __init__(self, tool, folder, function, inputs):
        self.tool, self.folder = tool, folder
        model, self.program = os.path.join(folder, "p.pt2"), os.path.join(folder, "p.so")
        exported = torch.export.export(Model(function), tuple(inputs), strict=False)
        exported.example_inputs = None   # which would be saved too
        torch.export.save(exported, model)
        self.call("compile", model, "-o", self.program, "--no-cache")

    def call(self, *arguments):
        done = subprocess.run([self.tool, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr else f"exit {done.returncode}")

    def run(self, inputs):
        given, made = (os.path.join(self.folder, name) for name in ("in.safetensors", "out.safetensors"))
        save_file({f"in{i}": x.contiguous() for i, x in enumerate(inputs)}, given)
        self.call("run", self.program, "--inputs", given, "--outputs", made)
        return load_file(made)["out0"]

    def run_as(self, exact, inputs):
        """Complex numbers come as pairs."""
        result = self.run(inputs)
        return torch.view_as_complex(result.contiguous()) if numpy.iscomplexobj(exact) and not result.is_complex() else result


def exact_result(form, inputs):
    """In float64 or complex128; of float64 in the 64 bits of x87, by the form's function of numpy arrays."""
    if inputs[0].dtype == torch.float64:
        return numpy.asarray(form.by_numpy(*[x.numpy().astype(numpy.longdouble) if x.is_floating_point() else x.numpy() for x in inputs]))
    wide = {torch.complex64: torch.complex128}
    return form.function(*[x.to(wide.get(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x for x in inputs]).numpy()


class Error:
    """The root mean square of errors as shares of the largest result, and that of half a unit in the last place."""
    def __init__(self):
        self.squares, self.halves, self.count = 0.0, 0.0, 0

    def add(self, result, exact):
        scale = float(abs(exact).max()) or 1.0
        wide = result.to(torch.complex128 if result.is_complex() else torch.float64).numpy().astype(exact.dtype)
        self.squares += float(numpy.square(abs(wide - exact) / scale).sum())
        kind = torch.finfo(result.dtype)
        # 2^(exponent) * eps / 2, of the two parts of a complex number.
        for part in (exact.real, exact.imag) if result.is_complex() else (exact,):
            half = numpy.exp2(numpy.floor(numpy.log2(numpy.maximum(abs(part), kind.tiny)))) * (kind.eps / 2 / scale)
            self.halves += float(numpy.square(half).sum())
        self.count += result.numel()

    def value(self):
        return math.sqrt(self.squares / self.count)

    def half_unit(self):
        return math.sqrt(self.halves / self.count)


def draws_of(n, results):
    return max(20, 100 // results) if n <= 1000 else 10 if n <= 10_000 else 4 if n <= 100_000 else 2 if n <= 1_000_000 else 1


def cell(a, form, n, dtype, folder):
    wanted = form.inputs(n)
    if max(each.elements() for each in wanted) > a.most:
        return "", None
    mine, theirs, compiled = Error(), Error(), None
    draw, draws = 0, 1
    while draw < draws:
        torch.manual_seed(a.seed + n % 997 + 1000 * draw)
        inputs = [each.draw(dtype) for each in wanted]
        if compiled is None:
            compiled = Compiled(a.toroid, folder, form.function, inputs)
        exact = exact_result(form, inputs)
        mine.add(compiled.run_as(exact, inputs), exact)
        theirs.add(form.function(*inputs), exact)
        draw, draws = draw + 1, draws_of(n, exact.size)
        del inputs, exact
        gc.collect()
    m, t, half = mine.value(), theirs.value(), mine.half_unit()
    is_worse = not m <= max(t, half)
    mark = " (!)" if is_worse else " ." if m > 1.1 * t else ""
    return f"{m:.1e} / {t:.1e}{mark}", is_worse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--toroid", default="build/toroid")
    parser.add_argument("--shortest", type=int, default=10)
    parser.add_argument("--longest", type=int, default=100_000_000)
    parser.add_argument("--most", type=int, default=100_000_000, help="elements of a tensor")
    parser.add_argument("--group", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="f32", choices=sorted(DTYPES))
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    lengths = [10**k for k in range(1, 9) if a.shortest <= 10**k <= a.longest]
    print("| error of toroid / PyTorch | " + " | ".join(f"10^{round(math.log10(n))}" for n in lengths) + " |")
    print("|---" * (len(lengths) + 1) + "|")
    worse = measured = 0
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            if (a.only and a.only not in form.name) or (a.group and a.group != form.group) or not form.has(a.dtype):
                continue
            cells = []
            for n in lengths:
                try:
                    text, is_worse = cell(a, form, n, DTYPES[a.dtype], folder)
                except RuntimeError as refused:
                    text, is_worse = str(refused).splitlines()[0][:60], None
                cells.append(text)
                measured += is_worse is not None
                worse += bool(is_worse)
            print(f"| {form.name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{worse} of {measured} cells in which toroid's error is the larger one (!)")


if __name__ == "__main__":
    main()
