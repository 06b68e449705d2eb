"""The rows: small programs, each one kind of kernel or library call, sizes as in the issue that set their goals."""

import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

SAVED = pathlib.Path(__file__).resolve().parent.parent / "models"  # what `./run bench` times

ROWS = {}


def row(*make_inputs):
    """Registers a function as a benchmark; the inputs are made anew, from the same seed, for each use."""

    def register(function):
        ROWS[function.__name__] = (function, make_inputs)
        return function

    return register


def normal(*shape):
    return lambda: torch.randn(*shape)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.1


def classes(below, *shape):
    return lambda: torch.randint(0, below, shape)


LONG = 4 * 1024 * 1024


@row(normal(LONG), normal(LONG))
def pointwise_gelu_chain(x, y):
    return F.gelu(x * y + 1.0) * torch.sigmoid(y)


@row(normal(2048, 2048))
def softmax(x):
    return torch.softmax(x, -1)


@row(normal(2048, 1024), normal(2048, 1024), normal(1024), normal(1024))
def layernorm_residual_gelu(x, residual, weight, bias):
    return F.gelu(F.layer_norm(x + residual, (x.shape[-1],), weight, bias))


@row(normal(2048, 1024), normal(1024))
def rmsnorm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@row(normal(4096, 1024))
def sum_dim0(x):
    return x.sum(0)


@row(normal(LONG))
def full_sum_sq(x):
    return (x * x).sum()


@row(normal(256, 8000), classes(8000, 256))
def cross_entropy(x, target):
    return F.cross_entropy(x, target)


@row(normal(2048, 2048), normal(2048, 2048))
def transpose_add(x, y):
    return x.t() + y


@row(normal(512, 1024), normal(1024, 1024), normal(1024))
def linear_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


@row(normal(1024, 1024), normal(1024, 1024))
def mm_square(a, b):
    return a @ b


@row(normal(1, 1024), normal(1024, 4096))
def mm_skinny_decode(a, b):
    return a @ b


@row(normal(8, 256, 64), normal(8, 64, 256))
def bmm(a, b):
    return torch.bmm(a, b)


@row(normal(1, 8, 512, 64), normal(1, 8, 512, 64), normal(1, 8, 512, 64))
def sdpa_causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@row(normal(1, 64, 56, 56), normal(64, 64, 3, 3), normal(64), normal(64), normal(64), positive(64))
def conv_bn_relu(x, kernel, weight, bias, mean, variance):
    return F.relu(F.batch_norm(F.conv2d(x, kernel, padding=1), mean, variance, weight, bias))


class Row(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.function, self.make_inputs = ROWS[name]

    def forward(self, *args):
        return self.function(*args)

    def inputs(self):
        torch.manual_seed(0)
        return tuple(make() for make in self.make_inputs)


def build_row(name):
    """(module, inputs), the same at each call."""
    module = Row(name)
    return module, module.inputs()


def save_rows():
    """Writes each row as bench/models/ROW.pt2."""
    SAVED.mkdir(parents=True, exist_ok=True)
    for name in ROWS:
        module = Row(name)
        program = torch.export.export(module, module.inputs(), strict=False)
        program.example_inputs = None  # else the archive carries them, megabytes, as a pickle
        for node in program.graph.nodes:  # and nothing about where this machine keeps its files
            node.meta.pop("stack_trace", None)
        torch.export.save(program, SAVED / f"{name}.pt2")
