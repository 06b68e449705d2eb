"""Writes models with control flow and with sizes that depend on data, with PyTorch's results.

    python tests/conformance/control_flow.py FOLDER
    build/toroid conform FOLDER

Each model is NAME.pt2 with recorded calls NAME.in.safetensors, NAME.in2.safetensors, ... Needs PyTorch; run by hand: the
archive control_flow.tar.xz holds the result.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.cond import cond
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

MODELS = {}
BATCH = Dim("batch", min=2, max=64)


def model(*calls, dynamic=None, decomposed=False, weights=()):
    """Registers a function of tensors; `weights` are Linear sizes that become its first arguments."""

    def register(function):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(*size) for size in weights)

            def forward(self, *args):
                return function(*self.layers, *args)

        MODELS[function.__name__] = (Model, calls, dynamic, decomposed)
        return function

    return register


def r(*sizes):
    return torch.randn(*sizes)


def write(folder, name, make, calls, dynamic, decomposed):
    torch.manual_seed(0)
    module = make()
    calls = [call() for call in calls]
    program = torch.export.export(module, calls[0], dynamic_shapes=(dynamic,) if dynamic else None, strict=False)
    if decomposed:
        program = program.run_decompositions()
    torch.export.save(program, folder / f"{name}.pt2")
    for number, args in enumerate(calls, 1):
        suffix = "" if number == 1 else str(number)
        results = torch.utils._pytree.tree_leaves(module(*[a.clone() if torch.is_tensor(a) else a for a in args]))
        for kind, values in (("in", args), ("out", results)):
            tensors = {f"{kind}{i}": torch.as_tensor(v).contiguous().clone() for i, v in enumerate(values)}
            save_file(tensors, folder / f"{name}.{kind}{suffix}.safetensors")


# ---- branches ----------------------------------------------------------------------------------------------------------------


@model(lambda: (r(4, 8).abs(),), lambda: (-r(7, 8).abs(),), dynamic=({0: BATCH},), weights=[(8, 8)])
def cond_tensor(layer, x):
    return cond(x.sum() > 0, lambda x: layer(x).relu() + x.shape[0], lambda x: x * 2 - 1, (x,))


@model(lambda: (r(4, 8),), lambda: (r(9, 8),), dynamic=({0: BATCH},))
def cond_size(x):
    return cond(x.shape[0] > 5, lambda x: x + 1, lambda x: x - 1, (x,))


@model(
    lambda: (r(4, 8), r(8, 5), torch.tensor(True)),
    lambda: (r(4, 8), r(8, 5), torch.tensor(False)),
    lambda: (r(4, 8), r(8, 5) * 0.01, torch.tensor(True)),
    decomposed=True,
)
def cond_nested(x, y, flag):
    def yes(x, y):
        return cond(y.max() > 1, lambda x, y: (x @ y, x.sum()), lambda x, y: ((x - 1) @ y, x.mean()), (x, y))

    a, b = cond(flag, yes, lambda x, y: (x @ y.cos(), y.sum()), (x, y))
    return a.softmax(-1), b


# ---- loops -------------------------------------------------------------------------------------------------------------------


@model(lambda: (r(3, 8), torch.tensor([2, 3])), lambda: (r(3, 8), torch.tensor([0, 0])), weights=[(8, 8)])
def while_counted(layer, x, n):
    return while_loop(lambda i, x: i < n.sum(), lambda i, x: (i + 1, layer(x).tanh()), (torch.tensor(0), x))


@model(lambda: (r(3, 3), r(3, 3)), lambda: (r(3, 3) * 100, r(3, 3)))
def while_converges(x, w):
    def body(i, x, seen):
        return i + 1, x @ w + x, seen.index_put((i.unsqueeze(0) % 4,), x.sum().unsqueeze(0))

    return while_loop(
        lambda i, x, seen: (x.abs().sum() < 1e4) & (i < 50), body, (torch.zeros((), dtype=torch.int64), x, torch.zeros(4))
    )


@model(lambda: (r(5, 3, 4), r(4)), lambda: (r(9, 3, 4), r(4)), dynamic=({0: BATCH}, None))
def map_one(xs, y):
    return map_slices(lambda x, y: (x.sin() + y).softmax(-1), xs, y)


@model(lambda: (r(5, 3, 4), r(5, 3, 6), r(4, 6)), decomposed=True)
def map_two(xs, ys, w):
    return map_slices(lambda xy, w: (xy[0] @ w + xy[1], xy[1].sum()), (xs, ys), w)


@model(lambda: (r(2, 6), r(7, 2, 6)), lambda: (r(2, 6), r(3, 2, 6)), dynamic=(None, {0: BATCH}), weights=[(6, 6)])
def scan_recurrent(layer, init, xs):
    def step(c, x):
        n = torch.tanh(layer(c) + x)
        return n, n * 2

    return scan(step, init, xs, dim=0)


@model(lambda: (r(4), r(4, 9)))
def scan_backwards(init, xs):
    def step(c, x):
        total, most = c[0] + x[0], torch.maximum(c[1], x[1])
        return [total.clone(), most.clone()], [total * most, x[0] - most]

    return scan(step, [init, init * 2], [xs, xs.cos()], dim=1, reverse=True)


@model(lambda: (torch.rand(3, 5, 2), r(3, 5, 2)), decomposed=True)
def associative_recurrence(a, b):
    return associative_scan(
        lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), 1, combine_mode="generic"
    )


# ---- sizes that depend on data -----------------------------------------------------------------------------------------------


@model(lambda: (r(5, 6).round(),), lambda: (torch.zeros(5, 6),))
def selected_by_value(x):
    return x.nonzero(), x[x > 0] * 2, torch.masked_select(x, x < 0).sum()


@model(lambda: (r(9, 3), torch.tensor(5)), lambda: (r(9, 3), torch.tensor(2)))
def size_in_tensor(x, n):
    k = n.item()
    torch._check(k >= 2)
    torch._check(k <= x.shape[0])
    y = x[:k]
    return y.softmax(0) @ torch.ones(3, 4), torch.arange(k), torch.zeros(k, 2) + y.sum()


@model(lambda: (torch.randint(0, 6, (4, 5)),), lambda: (torch.randint(0, 3, (4, 5)),))
def unique_values(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values, inverse, counts, values.float().cumsum(0), torch.bincount(x.flatten())


@model(
    lambda: (r(8, 6), torch.tensor([1, 0, 1, 1, 0, 0, 1, 0]).bool()),
    lambda: (r(8, 6), torch.zeros(8).bool()),
    weights=[(6, 7)],
)
def routed_tokens(layer, x, mask):
    chosen = x[mask]
    z = layer(chosen).relu()
    out = torch.zeros(x.shape[0], 7)
    out[mask] = z
    return out, z.mean()


@model(lambda: (r(4, 3), torch.tensor([1, 0, 3, 2])))
def repeated_rows(x, counts):
    return torch.repeat_interleave(x, counts, dim=0), x + 1


@model(lambda: (r(9, 3), torch.tensor([2, 3, 4])), lambda: (r(9, 3), torch.tensor([0, 9, 0])))
def split_by_lengths(x, lengths):
    sizes = lengths.tolist()
    for size in sizes:
        torch._check(size >= 0)
        torch._check(size <= x.shape[0])
    torch._check(sum(sizes) == x.shape[0])
    return tuple(part.sum(0) for part in torch.split(x, sizes))


# ---- numbers -----------------------------------------------------------------------------------------------------------------


@model(lambda: (r(4, 6), 3), lambda: (r(4, 6), 5), dynamic=(None, Dim.DYNAMIC))
def integer_input(x, k):
    return x * k + k, x[:, :k]


@model(lambda: (r(4, 8), torch.tensor(2.5)))
def number_in_tensor(x, n):
    return x * n.item() + 1


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, calls, dynamic, decomposed) in MODELS.items():
        write(folder, name, make, calls, dynamic, decomposed)
        print(name)


if __name__ == "__main__":
    main()
