"""The operators whose errors accuracy.py measures: a row is a function of tensors that a length gives."""
import math
from dataclasses import dataclass
from typing import Callable

import numpy
import torch
import torch.nn.functional as F

C = 10   # columns, rows or bins beside the long dim


@dataclass
class Form:
    group: str
    name: str
    function: Callable
    inputs: Callable              # the tensors for a length: sizes and offsets of uniform numbers, or tensors of indices
    by_numpy: Callable = None     # the same of arrays, in the precision of its arguments: these forms are measured in float64 too
    of_complex: bool = False      # has a meaning for complex numbers

    def has(self, dtype):
        return self.of_complex if dtype == "c64" else dtype != "f64" or self.by_numpy is not None


class Uniform:
    """Numbers in [low, low + width)."""
    def __init__(self, *sizes, low=0.0, width=1.0):
        self.sizes, self.low, self.width = sizes, low, width

    def elements(self):
        return math.prod(self.sizes)

    def draw(self, dtype):
        real = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
        x = torch.rand(self.sizes, dtype=real)
        if self.width != 1.0:
            x.mul_(self.width)
        if self.low != 0.0:
            x.add_(self.low)
        if dtype.is_complex:
            return torch.complex(x, torch.rand(self.sizes, dtype=real))
        return x.to(dtype)


class Turns(Uniform):
    """Complex numbers of magnitude 1; of real ones their real parts' signs."""
    def draw(self, dtype):
        x = torch.polar(torch.ones(self.sizes, dtype=torch.float64), 2 * math.pi * torch.rand(self.sizes, dtype=torch.float64))
        return x.to(dtype) if dtype.is_complex else x.real.sign().to(dtype)


class Indices:
    """Numbers of rows below `count`."""
    def __init__(self, *sizes, count=C):
        self.sizes, self.count = sizes, count

    def elements(self):
        return 2 * math.prod(self.sizes)

    def draw(self, dtype):
        return torch.randint(self.count, self.sizes)


def form(group, name, function, *sizes, low=0.0, by_numpy=None, of_complex=False):
    """Of one tensor, or of several that `sizes` makes."""
    def inputs(n):
        made = [size(n) for size in sizes]
        return [Uniform(*each, low=low) if isinstance(each, tuple) else each for each in made]
    return Form(group, name, function, inputs, by_numpy, of_complex)


def normalized(x, axis): return (x - x.mean(axis, keepdims=True)) / numpy.sqrt(x.var(axis, keepdims=True) + numpy.longdouble(1e-5))


def numpy_softmax(x):
    e = numpy.exp(x - x.max(0))
    return e / e.sum(0)


def numpy_index_add(x, at):
    y = numpy.zeros(C, x.dtype)
    for i in range(C):
        y[i] = x[at == i].sum()
    return y


def vector(n): return (n,)
def columns(n): return (n, C)
def rows(n): return (C, n)


FORMS = [
    form("sums", "sum, all", lambda x: x.sum(), vector, by_numpy=lambda x: x.sum(), of_complex=True),
    form("sums", "mean of +100, all", lambda x: x.mean(), vector, low=100, of_complex=True),
    form("sums", "sum, leading", lambda x: x.sum(0), columns, by_numpy=lambda x: x.sum(0), of_complex=True),
    form("sums", "sum, leading of 512", lambda x: x.sum(0), lambda n: (n, 512)),
    form("sums", "mean of +100, leading", lambda x: x.mean(0), columns, low=100, by_numpy=lambda x: x.mean(0), of_complex=True),
    form("sums", "sum, trailing", lambda x: x.sum(1), rows, by_numpy=lambda x: x.sum(1), of_complex=True),
    form("sums", "mean of +100, trailing", lambda x: x.mean(1), rows, low=100, of_complex=True),
    form("sums", "sum, middle", lambda x: x.sum(1), lambda n: (3, n, C), of_complex=True),
    form("sums", "sum, outer and inner", lambda x: x.sum((0, 2)), lambda n: (max(n // 10, 1), C, 10)),
    form("sums", "sum, channels last", lambda x: x.permute(0, 3, 1, 2).sum((0, 2, 3)), lambda n: (2, max(n // 10, 1), 5, C)),
    form("sums", "sum, every second", lambda x: x[:, ::2].sum(1), lambda n: (C, 2 * n)),
    form("sums", "nansum, trailing", lambda x: x.nansum(1), rows),
    form("sums", "einsum ij->j", lambda x: torch.einsum("ij->j", x), columns),
    form("sums", "sum of logs, leading", lambda x: x.log().sum(0), columns, low=1),
    form("sums", "norm, leading", lambda x: x.norm(dim=0), columns, by_numpy=lambda x: numpy.sqrt((x * x).sum(0)), of_complex=True),
    form("sums", "norm, trailing", lambda x: x.norm(dim=1), rows, of_complex=True),
    form("sums", "norm, all", lambda x: torch.linalg.vector_norm(x), vector),
    form("sums", "norm of order 3", lambda x: torch.linalg.vector_norm(x, 3), vector),
    form("sums", "logsumexp, leading", lambda x: x.logsumexp(0), columns),
    form("sums", "logsumexp, all", lambda x: x.logsumexp(0), vector),
    form("sums", "avg_pool of the row", lambda x: F.adaptive_avg_pool1d(x, 2), lambda n: (1, C, 2 * (n // 2))),

    form("moments", "var of +100, leading", lambda x: x.var(0), columns, low=100, by_numpy=lambda x: x.var(0, ddof=1)),
    form("moments", "var of +100, trailing", lambda x: x.var(1), rows, low=100, by_numpy=lambda x: x.var(1, ddof=1)),
    form("moments", "var, leading", lambda x: x.var(0), columns),
    form("moments", "var, trailing", lambda x: x.var(1), rows),
    form("moments", "std of +10000, all", lambda x: x.std(), vector, low=10000),
    form("moments", "batch_norm of +100", lambda x: F.batch_norm(x, None, None, training=True), columns, low=100, by_numpy=lambda x: normalized(x, 0)),
    form("moments", "batch_norm", lambda x: F.batch_norm(x, None, None, training=True), columns),
    form("moments", "batch_norm of planes", lambda x: F.batch_norm(x, None, None, training=True), lambda n: (2, C, n // 2)),
    form("moments", "layer_norm of +100", lambda x: F.layer_norm(x, (x.shape[1],)), rows, low=100, by_numpy=lambda x: normalized(x, 1)),
    form("moments", "layer_norm", lambda x: F.layer_norm(x, (x.shape[1],)), rows),
    form("moments", "group_norm of +100", lambda x: F.group_norm(x, 2), lambda n: (2, C, max(n // 5, 1)), low=100),
    form("moments", "group_norm", lambda x: F.group_norm(x, 2), lambda n: (2, C, max(n // 5, 1))),
    form("moments", "instance_norm of +100", lambda x: F.instance_norm(x), lambda n: (2, C, n), low=100),
    form("moments", "rms_norm", lambda x: F.rms_norm(x, (x.shape[1],)), rows),

    form("softmax", "softmax, leading", lambda x: x.softmax(0), columns, by_numpy=numpy_softmax),
    form("softmax", "softmax, trailing", lambda x: x.softmax(1), rows),
    form("softmax", "log_softmax, leading", lambda x: x.log_softmax(0), columns),
    form("softmax", "log_softmax, trailing", lambda x: x.log_softmax(1), rows),
    form("softmax", "normalize", lambda x: F.normalize(x, dim=1), rows),

    form("scans", "cumsum, last", lambda x: x.cumsum(0)[-1], vector, by_numpy=lambda x: x.sum(), of_complex=True),
    form("scans", "cumsum of columns, last", lambda x: x.cumsum(0)[-1], columns),
    form("scans", "logcumsumexp, last", lambda x: x.logcumsumexp(0)[-1], vector),
    form("scans", "cumprod, last", lambda x: x.cumprod(0)[-1], lambda n: Uniform(n, low=1 - 1 / n, width=2 / n)),
    form("scans", "prod", lambda x: x.prod(), lambda n: Uniform(n, low=1 - 1 / n, width=2 / n)),
    form("scans", "prod of turns", lambda x: x.prod(), lambda n: Turns(n), of_complex=True),

    form("losses", "mse_loss", F.mse_loss, vector, vector, by_numpy=lambda x, y: ((x - y) ** 2).mean()),
    form("losses", "l1_loss", F.l1_loss, vector, vector),
    form("losses", "huber_loss", F.huber_loss, vector, vector),
    form("losses", "kl_div", lambda x, y: F.kl_div(x.log(), y), *[lambda n: Uniform(n, low=0.1)] * 2),
    form("losses", "binary_cross_entropy", F.binary_cross_entropy, *[lambda n: Uniform(n, low=0.1, width=0.8)] * 2),
    form("losses", "cross_entropy", F.cross_entropy, columns, lambda n: Indices(n)),

    form("products", "dot", torch.dot, vector, vector, by_numpy=lambda x, y: (x * y).sum(), of_complex=True),
    form("products", "vector by matrix", lambda x, y: x @ y, vector, columns, of_complex=True),
    form("products", "matrix by vector", lambda x, y: x @ y, rows, vector, of_complex=True),
    form("products", "matmul", lambda x, y: x @ y, rows, columns, by_numpy=lambda x, y: (x[:, :, None] * y[None]).sum(1), of_complex=True),
    form("products", "matmul of 64", lambda x, y: x @ y, lambda n: (64, n), lambda n: (n, 64), of_complex=True),
    form("products", "linear", F.linear, rows, rows, of_complex=True),
    form("products", "linear of one row", F.linear, lambda n: (1, n), rows),
    form("products", "bmm", torch.bmm, lambda n: (3, C, n), lambda n: (3, n, C), of_complex=True),
    form("products", "einsum bi,bi->b", lambda x, y: torch.einsum("bi,bi->b", x, y), rows, rows, of_complex=True),
    form("products", "conv1d of many channels", F.conv1d, lambda n: (1, n // 3 + 1, 8), lambda n: (C, n // 3 + 1, 3)),
    form("products", "conv2d of many channels", F.conv2d, lambda n: (1, n // 9 + 1, 5, 5), lambda n: (C, n // 9 + 1, 3, 3)),
    form("products", "conv1d of a long filter", F.conv1d, lambda n: (1, 1, n + 9), lambda n: (1, 1, n)),
    form("products", "attention over keys", F.scaled_dot_product_attention, lambda n: (1, 2, 4, 16), lambda n: (1, 2, n, 16), lambda n: (1, 2, n, 16)),
    form("products", "cov of +100", torch.cov, lambda n: (5, n), low=100),
    form("products", "corrcoef", torch.corrcoef, lambda n: (5, n)),
    form("products", "cdist", torch.cdist, lambda n: (3, n), lambda n: (4, n)),
    form("products", "cosine_similarity", F.cosine_similarity, rows, rows),

    form("scatters", "index_add", lambda x, at: x.new_zeros(C).index_add(0, at, x), vector, lambda n: Indices(n), by_numpy=numpy_index_add, of_complex=True),
    form("scatters", "index_add of rows", lambda x, at: x.new_zeros(C, C).index_add(0, at, x), columns, lambda n: Indices(n)),
    form("scatters", "scatter_add", lambda x, at: x.new_zeros(C, C).scatter_add(0, at, x), columns, lambda n: Indices(n, C)),
    form("scatters", "scatter_reduce, mean", lambda x, at: x.new_zeros(C).scatter_reduce(0, at, x, "mean", include_self=False), vector, lambda n: Indices(n)),
    form("scatters", "index_put, accumulated", lambda x, at: x.new_zeros(C).index_put((at,), x, accumulate=True), vector, lambda n: Indices(n)),
    form("scatters", "bincount with weights", lambda x, at: torch.bincount(at, x, minlength=C), vector, lambda n: Indices(n)),
    form("scatters", "embedding_bag, sum", lambda w, at: F.embedding_bag(at, w, at.new_zeros(1), mode="sum"), lambda n: (1000, C), lambda n: Indices(n, count=1000)),
    form("scatters", "embedding_bag, mean", lambda w, at: F.embedding_bag(at[None], w, mode="mean"), lambda n: (1000, C), lambda n: Indices(n, count=1000)),
    form("scatters", "renorm", lambda x: x.renorm(2, 0, 1.0), rows),
]
