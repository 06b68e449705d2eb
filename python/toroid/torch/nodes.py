"""Nodes of FX graphs: their operators, what they are views of, which inputs they write to, and marks in their meta."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from .symbols import is_symbolic

# In a node's meta: the output is computed apart, although it is a view of something that others get.
APART = "toroid_apart"
# In a placeholder's meta: the gradient writes to the input too.
WRITTEN_LATER = "toroid_written_later"

# Statements about sizes: the ranges of the symbols, and the guards that Dynamo checks, say the same.
STATEMENTS = frozenset(("aten::sym_constrain_range", "aten::sym_constrain_range_for_size", "aten::_assert_tensor_metadata"))
# They read a number out of a tensor.
READS_ELEMENT = frozenset(("aten::item", "aten::_local_scalar_dense"))
# They take elements by their place in memory.
MEMORY_VIEWS = frozenset(
    ("aten::as_strided", "aten::as_strided_", "aten::as_strided_copy", "aten::as_strided_scatter", "aten::slice_inverse")
)


class Refused(Exception):
    """A graph, or one node of it, that toroid does not compile. ``node`` is None where the graph as a whole is at fault."""

    def __init__(self, reason: str, node: torch.fx.Node | None = None, is_of_setup: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node
        self.is_of_setup = is_of_setup  # what is missing is no operator but a compiler, a driver or a library


def operator_name(target: Any) -> str:
    """``torch.ops.aten.add.Tensor`` as ``aten::add.Tensor``; the default overload has no suffix."""
    name = target._schema.name
    overload = target._schema.overload_name
    return f"{name}.{overload}" if overload else name


def computes_sizes_only(node: torch.fx.Node) -> bool:
    """Whether the node's value is a number that its expression tells."""
    value = node.meta.get("val")
    if not isinstance(value, (int, float, bool)) and not is_symbolic(value):
        return False
    return not (isinstance(node.target, torch._ops.OpOverload) and operator_name(node.target) in READS_ELEMENT)


def is_update(node: torch.fx.Node) -> bool:
    """Whether the node is copy_(input of the graph, its new value)."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder" and isinstance(node.args[1], torch.fx.Node)


def viewed_by(node: torch.fx.Node) -> torch.fx.Node | None:
    """What the node is a view of; None where it is none."""
    if node.op != "call_function":
        return None
    viewing = node.args[0] if node.target is operator.getitem else node
    if not isinstance(viewing, torch.fx.Node) or not isinstance(viewing.target, torch._ops.OpOverload):
        return None
    returns = viewing.target._schema.returns
    if not returns or returns[0].alias_info is None or returns[0].alias_info.is_write:
        return None
    return viewing.args[0] if isinstance(viewing.args[0], torch.fx.Node) else None


def base_of(node: torch.fx.Node) -> torch.fx.Node:
    """What the node is a view of, through any number of views; itself where it is none."""
    return views_to_base(node)[-1]


def views_to_base(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The node, what it is a view of, and so on, down to base_of(node)."""
    views = [node]
    while (viewed := viewed_by(views[-1])) is not None:
        views.append(viewed)
    return views


def takes_by_place(node: torch.fx.Node) -> bool:
    """Whether the node takes elements by their place in memory."""
    return isinstance(node.target, torch._ops.OpOverload) and operator_name(node.target) in MEMORY_VIEWS


def needed(roots: list[torch.fx.Node], graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that the roots depend on, and those with effects of their own."""
    found = set(roots)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            schema = node.target._schema
            if is_update(node):
                continue
            if schema.is_mutable or (not schema.returns and operator_name(node.target) not in STATEMENTS):
                found.add(node)
        if node in found:
            found.update(node.all_input_nodes)
    return found
