"""Writes what PyTorch computes at the edges: OpInfo samples with sizes of 0 and 1, odd strides and special numbers.

    python tests/conformance/edge_cases.py FOLDER [--only NAME ...] [--part K/N]
    build/toroid conform FOLDER --isolate

For a sample of each operator in float32 and one in int64, each size that occurs in it becomes 0, then 1, wherever it occurs, as
far as PyTorch takes that; the inputs are laid out transposed, stepped and behind an offset; and floats meet NaN, infinities, -0,
denormals and the largest numbers. Needs PyTorch like regenerate.py; run by hand. Last results: docs/operators.md.
"""

import argparse
import contextlib
import io
import os
import warnings

import torch
from regenerate import Sample, record_sample, tensors_of
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, -1e-40, 3.4e38, -3.4e38]
RANDOM = ("normal.in_place", "uniform", "cauchy", "exponential", "geometric", "log_normal")  # seeded by their samples
SPECIAL_INT = [0, -1, 1, 2**63 - 1, -(2**63)]


class Changed:
    """A sample with other tensors."""

    def __init__(self, sample, change):
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        leaves = [change(leaf.detach()) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        (self.input, *args), self.kwargs = pytree.tree_unflatten(leaves, structure)
        self.args = tuple(args)


def resized(sample, old, new):
    def change(t):
        for dim, size in enumerate(t.shape):
            if size == old:
                t = t.narrow(dim, 0, new)
        return t.clone()

    return Changed(sample, change)


def transposed(t):
    return t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim()))) if t.dim() > 1 else t


def stepped(t):
    if t.dim() == 0:
        return t
    return torch.stack([t, torch.zeros_like(t)], -1).flatten(-2)[..., ::2]


def behind_an_offset(t):
    storage = torch.cat([torch.zeros(3, dtype=t.dtype), t.flatten()])
    return storage[3:].view(t.shape)


def special(t):
    values = SPECIAL if t.is_floating_point() else SPECIAL_INT if t.dtype == torch.int64 else []
    t = t.clone()
    flat = t.view(-1)
    for i in range(0, flat.numel(), 2):
        if values:
            flat[i] = values[(i // 2) % len(values)]
    return t


def changes(sample, indices):
    tensors = tensors_of(((sample.input, *sample.args), sample.kwargs))
    sizes = sorted({size for t in tensors for size in t.shape if size > 1})
    for size in sizes[:3]:
        for new in (0, 1):
            yield f"size{size}to{new}", resized(sample, size, new)
    for layout in (transposed, stepped, behind_an_offset):
        yield layout.__name__, Changed(sample, layout)
    if not indices:  # an index may be any number only where PyTorch says so
        yield "special", Changed(sample, special)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    warnings.filterwarnings("ignore")
    os.makedirs(options.folder, exist_ok=True)
    written = 0
    for number, info in enumerate(op_db):
        operator = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if operator in RANDOM or number % parts != part or (options.only and operator not in options.only):
            continue
        for dtype in (torch.float32, torch.int64):
            if not info.supports_dtype(dtype, "cpu"):
                continue
            torch.manual_seed(0)
            try:
                samples = list(info.sample_inputs("cpu", dtype))
            except Exception:
                continue
            if not samples:
                continue
            sample = samples[len(samples) // 3]
            tensors = tensors_of(((sample.input, *sample.args), sample.kwargs))
            indices = dtype == torch.float32 and any(not t.is_floating_point() for t in tensors)
            if any(t.layout != torch.strided for t in tensors):
                continue
            for change, changed in changes(sample, indices):
                name = f"{operator}-{str(dtype).removeprefix('torch.')}-{change}"
                try:
                    with contextlib.redirect_stderr(io.StringIO()):
                        written += record_sample(options.folder, name, info.op, changed) is not None
                except Exception:  # what PyTorch refuses; a case is whole or it is not there
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(os.path.join(options.folder, name + ".pt2"))
    print(f"{written} cases")


if __name__ == "__main__":
    main()
