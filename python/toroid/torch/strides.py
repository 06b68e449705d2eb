"""How the elements of tensors lie in memory, by sizes and strides that may be expressions."""

from __future__ import annotations

from typing import Any

import sympy
import torch

from .symbols import expression, hint


def _is_max_with_one(expr: Any) -> bool:
    return type(expr).__name__ == "Max" and len(expr.args) == 2 and 1 in expr.args


def _are_equal(stride: Any, expected: Any) -> bool:
    """Of a tensor with elements. Some of PyTorch's strides have max(size, 1) where others have the size."""
    if stride == expected:
        return True
    if not isinstance(stride, sympy.Expr):
        return False
    plain = stride.replace(_is_max_with_one, lambda expr: next(each for each in expr.args if each != 1))
    return plain == expected or sympy.expand(plain - expected) == 0


def is_contiguous(sizes: Any, strides: Any) -> bool:
    """PyTorch's rule for row-major order without gaps, on expressions: strides of dims of size 1 do not matter."""
    if any(size == 0 for size in sizes):
        return True
    expected: Any = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size == 1:
            continue
        if not _are_equal(stride, expected):
            return False
        expected = expected * size
    return True


def reach(sizes: Any, strides: Any) -> int:
    """The place of the last element, from the first one on."""
    return sum((size - 1) * stride for size, stride in zip(sizes, strides))


def _order(sizes: Any, strides: Any, hints: Any) -> tuple | None:
    """The dims from the outermost in memory to the innermost one, where each place holds one element; else None."""
    if any(size == 0 for size in sizes):
        return tuple(range(len(sizes)))
    order = sorted(range(len(sizes)), key=lambda d: (-hints[d], d))
    inner = [d for d in order if sizes[d] != 1]
    expected: Any = 1
    for d in reversed(inner):
        if not _are_equal(strides[d], expected):
            return None
        expected = expected * sizes[d]
    # Dims of size 1 stay where they are among the others as far as their strides tell.
    return tuple(order)


def dims_in_memory(tensor: torch.Tensor) -> tuple | None:
    """Its dims from the outermost in memory on; None where elements overlap or leave gaps."""
    sizes, strides = [expression(s) for s in tensor.shape], [expression(s) for s in tensor.stride()]
    if is_contiguous(sizes, strides):
        return tuple(range(len(sizes)))
    return _order(sizes, strides, [hint(s) for s in tensor.stride()])
