"""Gradients of attention in a backward graph of its own.

The GPU's kernel for such a gradient makes the logarithms of sums itself, and toroid takes it where those that a gradient reads are seen to
be of its own scores (passes/attention/merge_gradient.h). AOTAutograd puts the forward pass into another graph, so there they are an input.
The joint graph tells: `mark` looks there, and `with_own_sums` computes them anew in the backward graph, where the kernel then takes their
place. Sums of other scores, as those over the keys of several processes, stay as they are.
"""

from __future__ import annotations

import copy
import operator
from typing import NamedTuple

import torch
import torch.fx

from .. import _core
from .graph_text import DTYPES

_MARK = "toroid_own_log_sums"
_OF_ANY_DEVICE = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


class _Kind(NamedTuple):
    """An operator of attention, and the places of its gradient's arguments."""

    forward: torch._ops.OpOverload
    bias: int | None
    sums: int
    dropout: int
    is_causal: int
    names: tuple[str, ...]  # of the forward operator's arguments behind queries, keys and values
    wanted: int | None = None  # which gradients are, the mask's last

    def argument(self, node: torch.fx.Node, place: int | None, default):
        return default if place is None or place >= len(node.args) else node.args[place]


_aten = torch.ops.aten
_KINDS = {
    _aten._scaled_dot_product_cudnn_attention_backward.default: _Kind(
        _aten._scaled_dot_product_cudnn_attention.default, 8, 5, 13, 14, ("bias", "sums", "dropout", "is_causal")
    ),
    _aten._scaled_dot_product_flash_attention_backward.default: _Kind(
        _aten._scaled_dot_product_flash_attention.default, None, 5, 10, 11, ("dropout", "is_causal")
    ),
    _aten._scaled_dot_product_efficient_attention_backward.default: _Kind(
        _aten._scaled_dot_product_efficient_attention.default, 4, 6, 9, 11, ("bias", "sums", "dropout", "is_causal"), 10
    ),
}


def _gradients(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for target in _KINDS for node in graph.find_nodes(op="call_function", target=target)]


def mark(joint: torch.fx.GraphModule) -> None:
    """Marks the gradients of attention whose logarithms of sums are those of their own queries, keys and masks; dropout changes no sum."""
    for node in _gradients(joint.graph):
        kind = _KINDS[node.target]
        _, q, k, v, *_ = node.args
        bias, sums = kind.argument(node, kind.bias, None), node.args[kind.sums]
        if bias is not None and kind.wanted is not None and node.args[kind.wanted][-1]:
            continue  # there is no kernel for the gradient of a mask
        if getattr(sums, "target", None) is not operator.getitem or sums.args[1] != 1:
            continue
        forward = sums.args[0]
        if forward.target is not kind.forward or list(forward.args[:3]) != [q, k, v]:
            continue
        given = dict(zip(kind.names, forward.args[3:]))
        is_causal = kind.argument(node, kind.is_causal, False)
        drops_alike = given.get("dropout", 0.0) == node.args[kind.dropout]
        if given.get("bias") is bias and drops_alike and given.get("is_causal", False) == is_causal:
            node.meta[_MARK] = forward.kwargs.get("scale") == node.kwargs.get("scale")


def _has_kernel(node: torch.fx.Node) -> bool:
    q, k, v = (each.meta.get("val") for each in node.args[1:4])
    if not all(isinstance(each, torch.Tensor) and each.is_cuda and each.dim() == q.dim() for each in (q, k, v)):
        return False
    widths = [each.shape[-1] if each.dim() > 0 else None for each in (q, v)]
    return all(isinstance(each, int) for each in widths) and _core.has_attention_gradient(DTYPES[q.dtype], q.dim(), *widths)


def with_own_sums(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy of it in which marked gradients read sums that it computes. Only for writing: eager PyTorch cannot run it."""
    if not any(node.meta.get(_MARK) and _has_kernel(node) for node in gm.graph.nodes):
        return gm
    twin = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in _gradients(twin.graph):
        if not node.meta.get(_MARK) or not _has_kernel(node):
            continue
        kind = _KINDS[node.target]
        q, k, v, sums = *node.args[1:4], node.args[kind.sums]
        with twin.graph.inserting_before(node):
            options = {"scale": node.kwargs.get("scale"), "attn_mask": kind.argument(node, kind.bias, None)}
            pair = twin.graph.call_function(_OF_ANY_DEVICE, (q, k, v, 0.0, kind.argument(node, kind.is_causal, False)), options)
            flat = twin.graph.call_function(operator.getitem, (pair, 1))
            own, of_sums, of_q, of_v = flat, sums.meta["val"], q.meta["val"], v.meta["val"]
            if of_sums.dim() == 4:  # with a last dim of size 1
                own = twin.graph.call_function(torch.ops.aten.unsqueeze.default, (flat, -1))
        with of_sums.fake_mode:
            flat.meta["val"] = of_q.new_empty(of_q.shape[:-1], dtype=of_sums.dtype)
            own.meta["val"] = flat.meta["val"].unsqueeze(-1) if of_sums.dim() == 4 else flat.meta["val"]
            pair.meta["val"] = (of_q.new_empty([*of_q.shape[:-1], of_v.shape[-1]]), flat.meta["val"])
        node.replace_input_with(sums, own)
    return twin
