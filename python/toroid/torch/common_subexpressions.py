"""Nodes that compute what another node has computed, left out of a joint graph before it is cut into forward and backward."""

from __future__ import annotations

import operator
from typing import Any, Hashable

import torch
import torch.fx
from torch.multiprocessing.reductions import StorageWeakRef

from .nodes import is_update

_SCALARS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Unknown(Exception):
    """An argument that may differ although it seems equal."""


def _key(value: Any) -> Hashable:
    """Equal for equal arguments: 1 and 1.0, or 0.0 and -0.0, are not."""
    if isinstance(value, torch.fx.Node):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_key(each) for each in value)
    if isinstance(value, _SCALARS):
        return type(value), repr(value)
    if isinstance(value, slice):
        return slice, _key((value.start, value.stop, value.step))
    raise _Unknown


def _storages(node: torch.fx.Node) -> list[StorageWeakRef]:
    """Of the tensors that the node gives."""
    value = node.meta.get("val")
    found = []
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, torch.Tensor):
            try:
                found.append(StorageWeakRef(each.untyped_storage()))
            except NotImplementedError:  # as sparse tensors
                pass
    return found


def _is_pure(node: torch.fx.Node) -> bool:
    """Does it give the same tensors, or numbers of them, whenever it is computed from the same arguments?"""
    if node.target is operator.getitem:
        return isinstance(node.args[1], int)
    if not isinstance(node.target, torch._ops.OpOverload) or _is_mutable(node):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or node.target.overloadpacket is torch.ops.aten.empty:
        return False
    return isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))


def writes_to_memory(graph: torch.fx.Graph) -> bool:
    """Whether an operator of the graph may, other than new values of inputs, which are copied behind all else."""
    return any(_is_mutable(node) and not is_update(node) for node in graph.nodes)


def _is_mutable(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def merge(graph: torch.fx.Graph) -> None:
    """Of nodes that compute the same the first one stays. No operator of the graph may write to memory but at its end. Outputs stay tensors
    of their own, and so do their views: in eager PyTorch equal ones are two, and somebody may write to one."""
    (output,) = graph.find_nodes(op="output")
    kept = {storage for node in output.all_input_nodes for storage in _storages(node)}
    seen: dict[Hashable, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not _is_pure(node) or any(storage in kept for storage in _storages(node)):
            continue
        try:
            key = node.target, _key(node.args), tuple((name, _key(value)) for name, value in sorted(node.kwargs.items()))
        except _Unknown:
            continue
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
