"""Control flow of PyTorch's in the text form of toroid's graphs: its bodies become subgraphs.

    cond(p, true_graph_0, false_graph_0, (x, s0))    =>    subgraph 0(x: f32[s0]) { … }
                                                           subgraph 1(x: f32[s0]) { … }
                                                           y: f32[s0] = higher_order::cond(p, @0, @1, [x])

Sizes are symbols of the whole program, so numbers that a body takes are left out where they are the same ones inside.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

_OPERATORS = ("cond", "while_loop", "scan", "map_impl", "associative_scan")


def operator_of(node: torch.fx.Node) -> str | None:
    """The name of the control flow that the node is, of those that toroid has."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    name = node.target.name()
    return name if name in _OPERATORS else None


def operand_lists(node: torch.fx.Node) -> list[Any]:
    """The node's arguments with all that is given by name."""
    names = {
        "cond": ("pred", "true_fn", "false_fn", "operands"),
        "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
        "scan": ("combine_fn", "init", "xs", "additional_inputs"),
        "map_impl": ("f", "xs", "pos_args"),
        "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    }[node.target.name()]
    given = [*node.args]
    for name in names[len(given) :]:
        given.append(node.kwargs.get(name, ()))
    return given


def bodies(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that hold the bodies of control flow."""
    return [each for each in operand_lists(node) if is_body(each)]


def is_body(node: Any) -> bool:
    """Whether the node holds a graph."""
    return isinstance(node, torch.fx.Node) and node.op == "get_attr" and isinstance(_held(node), torch.fx.GraphModule)


def graph_of(body: torch.fx.Node) -> torch.fx.Graph:
    return _held(body).graph


def _held(node: torch.fx.Node) -> Any:
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    return value


def write(writer: Any, node: torch.fx.Node, refused: type[Exception]) -> None:
    """Adds the node's line and its bodies to the writer's text. refused: what is thrown where it cannot be written."""
    arguments = operand_lists(node)
    operands = [each for argument in arguments if isinstance(argument, (list, tuple)) for each in argument]
    if node.target.name() == "associative_scan":  # the body joins two slices of each tensor
        operands = [*arguments[1], *operands]
    texts: list[str] = []
    for argument in arguments:
        if is_body(argument):
            texts.append(f"@{_body(writer, argument, operands, refused)}")
        elif isinstance(argument, (list, tuple)):
            texts.append("[" + ", ".join(writer.reference(each) for each in argument if gives_tensor(each)) + "]")
        elif gives_tensor(argument):
            texts.append(writer.reference(argument))
        else:
            value = argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
            texts.append(f"({writer.number(value)})")
    if any(not isinstance(each, torch.Tensor) for each in node.meta["val"]):
        raise refused(f"{node.target.name()} with results that are no tensors is not supported", node)
    writer.add_results(node, f"higher_order::{node.target.name()}({', '.join(texts)})")


def gives_tensor(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _body(writer: Any, body: torch.fx.Node, operands: list, refused: type[Exception]) -> int:
    """The number of the subgraph that is made of it."""
    module = _held(body)
    placeholders = module.graph.find_nodes(op="placeholder")
    if len(placeholders) != len(operands):
        raise refused(f"the body '{body.target}' takes {len(placeholders)} operands, not {len(operands)}")
    for inside, outside in zip(placeholders, operands):
        if gives_tensor(inside) and gives_tensor(outside):
            continue
        value = outside.meta.get("val") if isinstance(outside, torch.fx.Node) else outside
        if gives_tensor(inside) or gives_tensor(outside) or writer.number(inside.meta.get("val")) != writer.number(value):
            raise refused("control flow over numbers that its bodies change is not supported", body)
    return writer.subgraph(module)
