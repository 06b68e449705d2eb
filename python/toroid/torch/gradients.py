"""Gradients that a backward graph gives share no memory.

PyTorch keeps a gradient that nobody else holds as it comes, without a copy, and adds the next one to it in place. It takes a view for a
tensor that nobody else holds. Of ``y = (a.view(-1) + b).sin()`` the gradients of a and b would be one memory then::

    return mul.view(3, 4), mul    =>    return mul.view(3, 4).clone(), mul

Views that do not overlap stay views, as those of parameters that were concatenated.
"""

from __future__ import annotations

import torch
import torch.fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from . import updates
from .control_flow import gives_tensor
from .nodes import base_of

# Elements between the first and the last one of two views, up to which they are compared one by one. Others count as overlapping.
_MOST_ELEMENTS = 1 << 26


def lie_apart(gm: torch.fx.GraphModule) -> None:
    """In a backward graph. An output that is there twice is one tensor, which PyTorch copies."""
    output = gm.graph.output_node()
    results = list(output.args[0])
    before = updates.before_all(gm.graph)
    apart: dict[torch.fx.Node, list[torch.fx.Node]] = {}  # of each base the outputs that are no copies
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in dict.fromkeys(filter(gives_tensor, results)):
        others = apart.setdefault(base_of(node), [])
        if any(may_overlap(node.meta["val"], other.meta["val"]) for other in others):
            copies[node] = updates.copied(gm.graph, node, before)
        else:
            others.append(node)
    if copies:
        output.args = (tuple(copies.get(node, node) for node in results),)
        gm.recompile()


def may_overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Of two views of one tensor, as far as their sizes and strides tell."""
    numbers = [*a.shape, *a.stride(), a.storage_offset(), *b.shape, *b.stride(), b.storage_offset()]
    if a.dtype != b.dtype or not all(isinstance(number, int) for number in numbers):
        return True
    if a.numel() == 0 or b.numel() == 0:
        return False
    first = min(a.storage_offset(), b.storage_offset())
    ends = [each.storage_offset() + 1 + sum((size - 1) * step for size, step in zip(each.shape, each.stride())) for each in (a, b)]
    if ends[0] <= b.storage_offset() or ends[1] <= a.storage_offset():
        return False
    if max(ends) - first > _MOST_ELEMENTS:
        return True
    with unset_fake_temporarily():
        is_taken = torch.zeros(max(ends) - first, dtype=torch.bool, device="cpu")
        is_taken.as_strided(a.shape, a.stride(), a.storage_offset() - first).fill_(True)
        return bool(is_taken.as_strided(b.shape, b.stride(), b.storage_offset() - first).any())
