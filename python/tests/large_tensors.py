"""Programs over tensors of more than 2^31 and 2^32 elements or bytes, by torch.compile(backend="toroid") beside eager PyTorch.

usage: PYTHONPATH=FOLDER large_tensors.py [--device cpu|cuda] [--jobs N] [NAME...]    FOLDER: develop.sh's

Each program takes 4 to 26 GB and runs in a process of its own, --jobs of them at once. On a processor eager PyTorch takes most of the time.
Prints a line for each program; ends with 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from processes import each_in_a_process
from torch.nn import functional

import toroid.torch  # noqa: F401

BEYOND_31, BEYOND_32 = (1 << 31) + 72, (1 << 32) + 72
FAR = (0, BEYOND_32 - 1, 1 << 31, (1 << 32) + 3)
PERIOD = 1000003  # a prime, so that no power of two is a period
TOLERANCE = 2e-2  # of float16

Program = Callable[..., object]


def values(dtype: torch.dtype, device: str, *sizes: int, seed: int = 0) -> torch.Tensor:
    """Numbers that are small, and do not repeat at powers of two."""
    base = (torch.arange(PERIOD) * 2654435761 + seed * 97) % 251
    if dtype == torch.bool:
        base = base % 2 == 0
    else:
        base = (base - 125).float() / 64 if dtype.is_floating_point else base - 125
    base = base.to(device, dtype)
    out = torch.empty(sizes, dtype=dtype, device=device)
    flat, whole = out.view(-1), out.numel() // PERIOD * PERIOD
    flat[:whole].view(-1, PERIOD).copy_(base.expand(whole // PERIOD, PERIOD))
    flat[whole:] = base[: out.numel() - whole]
    return out


def programs(device: str) -> dict[str, tuple[Program, Callable[[], tuple]]]:
    """By name: what is computed, and its arguments."""

    def i8(*sizes: int, seed: int = 0) -> torch.Tensor:
        return values(torch.int8, device, *sizes, seed=seed)

    def f16(*sizes: int, seed: int = 0) -> torch.Tensor:
        return values(torch.float16, device, *sizes, seed=seed)

    def at(*indices: int) -> torch.Tensor:
        return torch.tensor(indices, device=device)

    def one_large() -> tuple:
        return (f16(BEYOND_31).index_fill_(0, at(BEYOND_31 - 5), 9),)

    def three_ones() -> tuple:
        return (torch.zeros(BEYOND_31, dtype=torch.int8, device=device).index_fill_(0, at(5, BEYOND_31 - 1, 1 << 31), 1),)

    seven = torch.tensor(7, dtype=torch.int8, device=device)
    ones = torch.ones(4, dtype=torch.int8, device=device)
    images, rows = (33, 16, 2048, 2048), (65537, 65536)
    return {
        "add_i8": (lambda x: x + 3, lambda: (i8(BEYOND_32),)),
        "add_f16": (lambda x: x * 0.5 + 1, lambda: (f16(BEYOND_31),)),
        "not": (torch.logical_not, lambda: (values(torch.bool, device, BEYOND_32),)),
        "in_place": (lambda x: x.add_(1), lambda: (i8(BEYOND_32),)),
        "slices": (lambda x: x[1:] - x[:-1], lambda: (i8(BEYOND_32),)),
        "outer": (lambda x, y: x[:, None] + y[None, :], lambda: (i8(65537), i8(65536, seed=1))),
        "arange": (lambda x: (torch.arange(BEYOND_31, device=x.device) % 127).to(torch.int8) + x, lambda: (seven,)),
        "sum": (torch.sum, lambda: (i8(BEYOND_32),)),
        "sum_rows": (lambda x: x.sum(1), lambda: (i8(8, BEYOND_32 // 8),)),
        "sum_columns": (lambda x: x.sum(0, dtype=torch.int32), lambda: (i8(*rows),)),
        "extrema": (lambda x: (x.amax(), x.argmax()), one_large),
        "softmax": (lambda x: torch.softmax(x, 1), lambda: (f16(32769, 65536),)),
        "temporary_of_floats": (lambda x: x.float().cumsum(1).amax(0), lambda: (f16(BEYOND_31 // 40, 10),)),
        "layer_norm": (lambda x: functional.layer_norm(x, (x.shape[1],)), lambda: (f16(524289, 4096),)),
        "batch_norm": (functional.batch_norm, lambda: (f16(*images), torch.zeros_like(f16(16)), torch.ones_like(f16(16)))),
        "cumsum": (lambda x: x.cumsum(0)[-9:], lambda: (i8(BEYOND_31),)),
        "cumsum_rows": (lambda x: x.cumsum(1, dtype=torch.int8), lambda: (i8(*rows),)),
        "sort": (lambda x: torch.sort(x, 1).values, lambda: (i8(2097153, 1024),)),
        "topk": (lambda x: torch.topk(x, 3, dim=1).values, lambda: (f16(32769, 65536),)),
        "nonzero": (lambda x: torch.nonzero(x)[-3:], three_ones),
        "transpose": (lambda x: x.t().contiguous(), lambda: (i8(65537, 32772),)),
        "cat": (lambda x, y: torch.cat([x, y]), lambda: (i8(BEYOND_31), i8(BEYOND_31 + 9, seed=1))),
        "flip": (lambda x: x.flip(0), lambda: (i8(BEYOND_32),)),
        "roll": (lambda x: x.roll((1 << 31) + 3), lambda: (i8(BEYOND_32),)),
        "pad": (lambda x: functional.pad(x, (3, 5), value=1), lambda: (i8(BEYOND_32),)),
        "repeat": (lambda x: x.repeat(3), lambda: (i8(BEYOND_31 // 2),)),
        "index_rows": (lambda x, i: x[i], lambda: (i8(*rows), at(0, 65536, 32768, 65535))),
        "gather": (lambda x, i: torch.gather(x, 0, i), lambda: (i8(BEYOND_32), at(*FAR))),
        "embedding": (lambda w, i: functional.embedding(i, w), lambda: (f16(40000, 65536), at(0, 39999, 32768, 32769))),
        "index_put": (lambda x, i, y: x.index_put((i,), y), lambda: (i8(BEYOND_32), at(*FAR), seven)),
        "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), lambda: (i8(BEYOND_32), at(*FAR), ones)),
        "index_add": (lambda x, i, y: x.index_add(0, i, y), lambda: (i8(*rows), at(0, 65536, 40000), i8(3, 65536))),
        "product_of_many_rows": (torch.matmul, lambda: (f16(33554433, 64), f16(64, 8, seed=2))),
        "product_over_many_rows": (lambda x, w: x.t() @ (x @ w), lambda: (f16(33554433, 64), f16(64, 8, seed=2) * 1e-3)),
        "product_of_a_large_result": (torch.matmul, lambda: (f16(65537, 16), f16(16, 32800, seed=2))),
        "products": (torch.bmm, lambda: (f16(131073, 128, 16), f16(131073, 16, 128, seed=2))),
        "convolution": (lambda x, w: functional.conv2d(x, w, padding=1), lambda: (f16(33, 1, 8192, 8192), f16(1, 1, 3, 3, seed=2))),
        "pooling": (lambda x: functional.max_pool2d(x, 2), lambda: (f16(33, 1, 8192, 8192),)),
        "attention": (functional.scaled_dot_product_attention, lambda: tuple(f16(131073, 1, 256, 64, seed=seed) for seed in range(3))),
    }


def difference(got: torch.Tensor, wanted: torch.Tensor) -> str | None:
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)} for {wanted.dtype}{list(wanted.shape)}"
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    step = 1 << 27
    for begin in range(0, got.numel(), step):
        mine, theirs = got[begin : begin + step], wanted[begin : begin + step]
        if torch.equal(mine, theirs):
            continue
        apart = (mine.double() - theirs.double()).abs() / (1 + theirs.double().abs())
        if not apart.max().item() <= (TOLERANCE if got.dtype.is_floating_point else 0):
            where = begin + int(apart.argmax())
            return f"{got[where]} for {wanted[where]} at {where} of {got.numel()}"
    return None


def check(name: str, device: str) -> bool:
    begin = time.time()
    try:
        function, make = programs(device)[name]
        given = make()
        with torch.no_grad():
            wanted = function(*(each.clone() for each in given) if name == "in_place" else given)
            got = torch.compile(function, backend="toroid", fullgraph=True, dynamic=False)(*given)
        if device == "cuda":
            torch.cuda.synchronize()
        wanted, got = (each if isinstance(each, tuple) else (each,) for each in (wanted, got))
        said = next(filter(None, map(difference, got, wanted)), None)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:600]
    print(f"{name}: {'right' if said is None else said} ({time.time() - begin:.1f} s)", flush=True)
    return said is None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names, wrong = options.names or list(programs("cpu")), 0
    for name, is_right, signal in each_in_a_process(names, options.jobs, lambda name: check(name, options.device)):
        wrong += not is_right
        if signal:
            print(f"{name}: died of signal {signal}", flush=True)
    print(f"{len(names) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
