"""Dropout inside of attention, whose gradient draws the same numbers again.

The forward operator gives the state that it drew with, and the gradient's operator reads it. PyTorch's kernels and toroid's give states of
different meaning, so both passes have to run by the same. AOTAutograd compiles them apart, the forward pass first: `mark` ties the two in
the joint graph, `compiled` notes that toroid compiled the forward operator, and `why_eager` keeps the gradient where its forward pass runs.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from typing import NamedTuple

import torch
import torch.fx

_MARK = "toroid_attention_dropout"
_aten = torch.ops.aten


@dataclasses.dataclass
class _Tie:
    """Of a forward operator and its gradients."""

    is_compiled: bool = False  # the forward operator, by toroid
    is_of_one_graph: bool = False


class _Forward(NamedTuple):
    dropout: int  # the place of its argument
    states: tuple[int, ...]  # the places of its results


class _Gradient(NamedTuple):
    """The places of its arguments; None: it has none."""

    bias: int | None
    out: int
    sums: int
    states: tuple[int, int]
    dropout: int
    wanted: int | None
    is_causal: int


_FORWARD = {
    _aten._scaled_dot_product_flash_attention.default: _Forward(3, (6, 7)),
    _aten._scaled_dot_product_efficient_attention.default: _Forward(5, (2, 3)),
    _aten._scaled_dot_product_cudnn_attention.default: _Forward(5, (6, 7)),
}
_GRADIENTS = {
    _aten._scaled_dot_product_flash_attention_backward.default: _Gradient(None, 4, 5, (12, 13), 10, None, 11),
    _aten._scaled_dot_product_efficient_attention_backward.default: _Gradient(4, 5, 6, (7, 8), 9, 10, 11),
    _aten._scaled_dot_product_cudnn_attention_backward.default: _Gradient(8, 4, 5, (6, 7), 13, None, 14),
}

_library = torch.library.Library("toroid", "DEF")
_library.define(
    "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor out, Tensor logsumexp, "
    "Tensor philox_seed, Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)


def _argument(node: torch.fx.Node, place: int, name: str, default: object) -> object:
    return node.args[place] if place < len(node.args) else node.kwargs.get(name, default)


def _drops(node: torch.fx.Node) -> bool:
    kind = _FORWARD.get(node.target) or _GRADIENTS.get(node.target)
    return kind is not None and _argument(node, kind.dropout, "dropout_p", 0.0) != 0.0


def _forward_of(node: torch.fx.Node) -> torch.fx.Node | None:
    seed = node.args[_GRADIENTS[node.target].states[0]]
    while getattr(seed, "target", None) is _aten.detach.default:
        seed = seed.args[0]
    if getattr(seed, "target", None) is not operator.getitem or seed.args[0].target not in _FORWARD:
        return None
    return seed.args[0]


def mark(joint: torch.fx.GraphModule) -> None:
    for node in joint.graph.nodes:
        if node.target in _GRADIENTS and _drops(node):
            forward = _forward_of(node)
            if forward is not None:
                node.meta[_MARK] = forward.meta.setdefault(_MARK, _Tie())


def mark_whole(gm: torch.fx.GraphModule) -> None:
    """Of gradients that are in one graph with their forward operators, as torch.func has it: both are compiled, or none."""
    for node in gm.graph.nodes:
        if node.target in _GRADIENTS and _drops(node) and _MARK not in node.meta:
            forward = _forward_of(node)
            if forward is not None:
                node.meta[_MARK] = forward.meta.setdefault(_MARK, _Tie(is_compiled=True, is_of_one_graph=True))


def settle(graph: torch.fx.Graph, refused: dict) -> None:
    """Where one of two that are in one graph is refused, both are."""
    tied = [node for node in graph.nodes if _MARK in node.meta and node.meta[_MARK].is_of_one_graph]
    for tie in {id(node.meta[_MARK]): node.meta[_MARK] for node in tied}.values():
        nodes = [node for node in tied if node.meta[_MARK] is tie]
        reasons = [refused[node] for node in nodes if node in refused]
        tie.is_compiled = not reasons
        for node in nodes:
            if reasons:
                refused.setdefault(node, reasons[0])


def why_eager(node: torch.fx.Node) -> str | None:
    """Why a forward operator or a gradient with dropout has to run in eager PyTorch; None: toroid may compile it."""
    if not _drops(node):
        return None
    tie = node.meta.get(_MARK)
    if node.target in _GRADIENTS:
        if tie is None:  # of one graph with its forward pass, or refused by the compiler
            return None
        return None if tie.is_compiled else "its forward pass runs in eager PyTorch"
    if tie is None and any(each.args[1] in _FORWARD[node.target].states and each.users for each in node.users):
        if not any(user.target in _GRADIENTS for each in node.users for user in each.users):
            return "the state of its dropout goes to a gradient that this graph does not tell"
    return None


def compiled(graph: torch.fx.Graph, refused: dict) -> None:
    """Notes that the graph is compiled but for the refused nodes."""
    for node in graph.nodes:
        if node.target in _FORWARD and _MARK in node.meta:
            node.meta[_MARK].is_compiled = node not in refused


def must_be_compiled(node: torch.fx.Node) -> bool:
    """Of a gradient: eager PyTorch would read another state than its own."""
    return node.target in _GRADIENTS and _MARK in node.meta and node.meta[_MARK].is_compiled


def are_tied(graph: torch.fx.Graph) -> bool:
    return any(_MARK in node.meta and _drops(node) for node in graph.nodes)


def with_own_gradients(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy of it, only for writing, in which gradients say that the state they read is toroid's."""
    if not any(must_be_compiled(node) for node in gm.graph.nodes):
        return gm
    twin = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in twin.graph.nodes:
        if must_be_compiled(node):
            _say_own(node)
    return twin


def _say_own(node: torch.fx.Node) -> None:
    kind, given = _GRADIENTS[node.target], node.args
    bias = None if kind.bias is None else given[kind.bias]
    wanted = [True, True, True, False] if kind.wanted is None else given[kind.wanted]
    states = [given[place] for place in kind.states]
    dropout, is_causal = (_argument(node, *each) for each in ((kind.dropout, "dropout_p", 0.0), (kind.is_causal, "is_causal", False)))
    node.args = (*given[:4], bias, given[kind.out], given[kind.sums], *states, dropout, wanted, is_causal)
    node.kwargs = {"scale": node.kwargs.get("scale")}
    node.target = torch.ops.toroid.attention_backward.default
