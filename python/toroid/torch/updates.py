"""Inputs that a graph writes to, as copy_(input, new value).

Where AOTAutograd may, it leaves these to the graph, at its end: all else in the graph reads what was there before. A program computes the
new values beside the inputs, and its call copies them when all is computed (runtime.py); in eager PyTorch they are the last nodes to run.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.fx

from .nodes import APART, WRITTEN_LATER, base_of, is_update, viewed_by


class Update(NamedTuple):
    node: torch.fx.Node  # copy_(input, value)
    input: torch.fx.Node
    value: torch.fx.Node


def writes(node: torch.fx.Node) -> bool:
    """Whether the node writes to an input of the graph, in whichever way."""
    is_mutable = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
    return is_mutable and isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "placeholder"


def updates_of(graph: torch.fx.Graph) -> list[Update]:
    return [Update(node, *node.args[:2]) for node in graph.nodes if is_update(node)]


def settle(gm: torch.fx.GraphModule) -> None:
    """Makes writes to inputs the last nodes of the graph, which nobody reads, and of which none reads what another one has written."""
    output = gm.graph.output_node()
    last = list(filter(writes, gm.graph.nodes))
    if not last:
        return
    updated = {node.args[0] for node in last}
    for node in last:
        output.prepend(node)
        if is_update(node):
            node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user: user is output)
            node.replace_all_uses_with(node.args[1])
    for node in last:
        value = node.args[1] if is_update(node) else None
        if isinstance(value, torch.fx.Node) and base_of(value) in updated and base_of(value) is not node.args[0]:
            node.args = (node.args[0], copied(gm.graph, value, last[0]), *node.args[2:])
    gm.recompile()


def copied(graph: torch.fx.Graph, node: torch.fx.Node, before: torch.fx.Node) -> torch.fx.Node:
    with graph.inserting_before(before):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    with node.meta["val"].fake_mode:
        copy.meta = {**node.meta, "val": node.meta["val"].clone()}
    for mark in (APART, WRITTEN_LATER):
        copy.meta.pop(mark, None)
    return copy


def before_all(graph: torch.fx.Graph) -> torch.fx.Node:
    """The first of the nodes that write to inputs, behind which nothing is computed; the output where there are none."""
    return next(filter(writes, graph.nodes), graph.output_node())


def as_view_of(graph: torch.fx.Graph, node: torch.fx.Node, value: torch.fx.Node, given: torch.fx.Node) -> torch.fx.Node | None:
    """The same view of the input as the node is of its new value. None: it is no view of that."""
    if node is value:
        return given
    viewed = viewed_by(node)
    source = None if viewed is None else as_view_of(graph, viewed, value, given)
    if source is None:
        return None
    return _applied_to(graph, node, viewed, source)


def _applied_to(graph: torch.fx.Graph, node: torch.fx.Node, viewed: torch.fx.Node, source: torch.fx.Node) -> torch.fx.Node:
    """The view that the node is of `viewed`, of `source`."""
    if node.args[0] is not viewed:  # an element of what an operator with several results gives
        source = _applied_to(graph, node.args[0], viewed, source)
    with graph.inserting_before(graph.output_node()):
        new = graph.call_function(node.target, (source, *node.args[1:]), dict(node.kwargs))
    given, named = torch.fx.node.map_arg((new.args, new.kwargs), lambda each: each.meta["val"])
    with viewed.meta["val"].fake_mode:
        new.meta = {**node.meta, "val": node.target(*given, **named)}
    return new
