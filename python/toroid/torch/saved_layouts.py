"""Where what a forward pass keeps for its gradient has its channels in memory.

A convolution computes with the channels of a pixel next to each other, and so does what follows it. What eager PyTorch would return has
them in planes: written so, each such tensor would be transposed for the gradient, and transposed again there. Nobody else sees what is
kept, so it stays as it is computed, and AOTAutograd is told, as Inductor does, before it compiles the gradient.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from .nodes import base_of, is_update

_ORDER = (0, 2, 3, 1)  # dims from the outermost in memory on


def _is_image(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.ndim == len(_ORDER)
        and value.device.type == "cpu"
        and all(isinstance(size, int) for size in value.shape)
        and value.is_contiguous()
    )


def _is_convolution(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.aten.convolution.default and not node.args[6]


def _follow_convolutions(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that are images of a convolution, or computed from these element by element, over windows or channel by channel."""
    found: dict[torch.fx.Node, tuple] = {}  # with their batch and channels
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        of_inputs = {found[each] for each in node.all_input_nodes if each in found}
        value = node.meta.get("val")
        if node.target is operator.getitem or not isinstance(value, (tuple, list)):
            if _is_image(node) and (_is_convolution(node) or tuple(value.shape[:2]) in of_inputs):
                found[node] = tuple(value.shape[:2])
        elif of_inputs:
            found[node] = next(iter(of_inputs))
    return {node for node in found if _is_image(node)}


def _tracing() -> Any:
    """AOTAutograd's context where it asks for the strides of a forward pass; else None."""
    context = torch._guards.TracingContext.try_get()
    is_asked = context is not None and context.output_strides is not None and context.fw_metadata is not None
    return context if is_asked else None


def orders_of_kept(gm: torch.fx.GraphModule) -> dict[torch.fx.Node, tuple]:
    """Of the outputs of a forward graph those that only its gradient gets and that are not to lie as eager PyTorch's do: dims from the
    outermost in memory on."""
    context = _tracing()
    if context is None:
        return {}
    listed = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    kept = context.fw_metadata.tensors_saved_for_backwards_slice
    seen = {node for i, node in enumerate(listed) if i not in range(*kept.indices(len(listed))) and isinstance(node, torch.fx.Node)}
    images = _follow_convolutions(gm.graph)
    # What outputs are views of keeps the strides that they are made with.
    viewed = {base for node in listed if isinstance(node, torch.fx.Node) and (base := base_of(node)) is not node}
    return {
        node: _ORDER for node in listed[kept] if node in images and node not in seen and node not in viewed and base_of(node) is node
    }


def by_name(orders: dict[torch.fx.Node, tuple]) -> dict[str, tuple]:
    return {node.name: order for node, order in orders.items()}


def report(gm: torch.fx.GraphModule, orders: dict[torch.fx.Node, tuple]) -> None:
    """Tells AOTAutograd the strides of these outputs."""
    context = _tracing()
    if context is None or not orders or context.output_strides:
        return
    listed = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    context.output_strides.extend(_strides(node.meta["val"], orders[node]) if node in orders else None for node in listed)


def _strides(value: torch.Tensor, order: tuple) -> tuple:
    strides, stride = [0] * len(order), 1
    for d in reversed(order):
        strides[d] = stride
        stride *= int(value.shape[d])
    return tuple(strides)


def take_inputs(gm: torch.fx.GraphModule, inputs: list) -> None:
    """Gives the inputs of a backward graph, which is to be compiled as a whole, the strides that they will have."""
    for node, given in zip(gm.graph.find_nodes(op="placeholder"), inputs):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not isinstance(given, torch.Tensor) or value.shape != given.shape:
            continue
        if value.stride() != given.stride():
            node.meta["toroid_traced"], node.meta["val"] = value, given


def restore_inputs(gm: torch.fx.GraphModule) -> None:
    """Undoes take_inputs: such inputs are copied to the strides that the graph was traced with. What eager PyTorch computes of one has
    strides by those of its inputs, and parts are compiled for the traced ones."""
    changed = [node for node in gm.graph.find_nodes(op="placeholder") if "toroid_traced" in node.meta]
    if not changed:
        return
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    with gm.graph.inserting_before(first):
        for node in changed:
            traced = node.meta.pop("toroid_traced")
            strided = gm.graph.call_function(torch.ops.aten.new_empty_strided.default, (node, list(traced.shape), list(traced.stride())))
            copied = gm.graph.call_function(torch.ops.aten.copy.default, (strided, node))
            strided.meta["val"] = copied.meta["val"] = traced
            node.replace_all_uses_with(copied, delete_user_cb=lambda user: user not in (strided, copied) and not is_update(user))
    gm.recompile()
