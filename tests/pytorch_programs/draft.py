"""A random program as it grows: lines of Python, and the values that they have on example inputs.

Every line is tried on real tensors before it is kept, so a program is one that PyTorch runs.
"""
import math

import torch
import torch.nn.functional as F

MAX_ELEMENTS = 20_000


class Unfit(Exception):
    """No value fits what an operator wants."""


def overlaps(value):
    """Whether two elements may lie at one place."""
    reach = 1
    for size, stride in sorted(zip(value.shape, value.stride()), key=lambda dim: dim[1]):
        if size > 1:
            if stride < reach:
                return True
            reach = stride * size
    return False


class Draft:
    def __init__(self, rng, inputs):
        self.rng = rng
        self.lines = []
        self.values = dict(inputs)  # name -> tensor, as the lines so far leave it
        self.inputs = list(inputs)

    # ---- choices ----

    def pick(self, options):
        return self.rng.choice(options)

    def number(self, low, high):
        return self.rng.randint(low, high)

    def choose(self, fits):
        """A value that fits; those made last are likelier, so that lines build on each other."""
        names = [name for name, value in self.values.items() if fits(value)]
        if not names:
            raise Unfit
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def any(self):
        return self.choose(lambda v: not v.is_complex())

    def real(self):
        return self.choose(lambda v: v.is_floating_point())

    def integer(self):
        return self.choose(lambda v: not v.is_floating_point() and not v.is_complex() and v.dtype != torch.bool)

    def image(self):
        return self.choose(lambda v: v.is_floating_point() and v.dim() == 4 and min(v.shape) >= 1)

    def matrix(self):
        return self.choose(lambda v: v.dtype in (torch.float32, torch.float64) and v.dim() >= 2)

    def owned(self):
        """A value that the program may change: what writing to elements that share memory does is left open by PyTorch."""
        return self.choose(lambda v: not v.is_complex() and v.dim() > 0 and not overlaps(v))

    def pair(self, first):
        """`first` and a value that broadcasts with it."""
        shape = self.values[first].shape

        def fits(value):
            try:
                torch.broadcast_shapes(shape, value.shape)
            except RuntimeError:
                return False
            return not value.is_complex()

        return first, self.choose(fits)

    def dim(self, name):
        rank = self.values[name].dim()
        return self.rng.randrange(-rank, rank) if rank else 0

    def extent(self, name):
        return self.rng.choice([1, 2, 3])

    def mask(self, name):
        return f"({name} > 0.25)"

    def indices(self, name, dim):
        """A constant index into a dim, within its extent."""
        value = self.values[name]
        if value.dim() == 0 or value.shape[dim] == 0:
            raise Unfit
        n = min(value.shape[dim], 3)  # also within what a second call may have
        return f"torch.tensor({[self.rng.randrange(-n if self.rng.random() < 0.2 else 0, n) for _ in range(self.rng.randint(1, 4))]})"

    # ---- growing ----

    def run(self, lines, values):
        scope = {"torch": torch, "F": F, "math": math, **values}
        with torch.no_grad():
            for line in lines:
                exec(line, scope)
        return scope

    def try_line(self, line, name=None):
        """Keeps the line when PyTorch runs it and its result is of a sensible size."""
        values = {key: value.clone(memory_format=torch.preserve_format) for key, value in self.start.items()}
        try:
            scope = self.run(self.lines + [line], values)
        except Exception:
            return False
        if name is not None:
            value = scope[name]
            if not isinstance(value, torch.Tensor) or value.numel() > MAX_ELEMENTS or value.dim() > 6 or value.is_sparse:
                return False
            self.values[name] = value
        for key in self.values:
            self.values[key] = scope[key]
        self.lines.append(line)
        return True

    def begin(self):
        self.start = {key: self.values[key].clone() for key in self.inputs}
