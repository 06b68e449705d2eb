"""What outputs share memory with: inputs that a graph writes to, and what its gradient keeps.

The new values of inputs that are written to are copied there behind the graph, by its call (updates.py), or by AOTAutograd where sizes or
strides change too, or a gradient goes through the write. What a gradient keeps is told of later writes by its version (keep_views_apart).

Views of them as outputs. AOTAutograd makes such a view anew, of the input that is updated, by the size, the strides and, where its shape
is symbolic, the storage offset of what the graph gave. In the graph that is a view of the input's new value, a tensor of its own, which
begins its storage. Here it becomes a view of the input (view_what_is_updated), or gets the place that it has there (place).

Their old values, kept for a gradient. The partitioner may keep the input itself, of which a copy would be computed anew: so it is copied.
"""

from __future__ import annotations

import collections
from typing import Any, Callable

import torch
import torch.fx
from torch._functorch._aot_autograd.schemas import OutputType

from .control_flow import gives_tensor
from . import updates
from .nodes import APART, WRITTEN_LATER, base_of
from .runtime import CallError
from .strides import dims_in_memory


def _known() -> Any:
    """AOTAutograd's facts of the graph that it has compiled; None: there are none."""
    context = torch._guards.TracingContext.try_get()
    known = None if context is None else context.fw_metadata
    return None if known is None or known.tokens else known


def copy_what_is_kept(gm: torch.fx.GraphModule) -> None:
    """In a forward graph."""
    known = _known()
    placeholders = gm.graph.find_nodes(op="placeholder")
    written = set() if known is None else {placeholders[i] for i in known.mutated_inp_runtime_indices if i < len(placeholders)}
    written |= {node.args[0] for node in filter(updates.writes, gm.graph.nodes)}
    if not written:
        return
    before = updates.before_all(gm.graph)
    results = list(gm.graph.output_node().args[0])
    are_kept = slice(None) if known is None else known.tensors_saved_for_backwards_slice
    for i in range(*are_kept.indices(len(results))):
        kept = results[i]
        if gives_tensor(kept) and base_of(kept) in written and WRITTEN_LATER not in kept.meta:
            results[i] = updates.copied(gm.graph, kept, before)
    _return(gm, results)


def keep_views_apart(gm: torch.fx.GraphModule) -> None:
    """In a forward graph: what is given to the caller, as the one view of something that the gradient keeps, is computed apart. As a view
    that is a result of an autograd function it has a version of its own, so the gradient would not be told when the caller writes to it."""
    known = _known()
    if known is None:
        return
    results = list(gm.graph.output_node().args[0])
    kept = slice(*known.tensors_saved_for_backwards_slice.indices(len(results)))
    saved = {base_of(node) for node in filter(gives_tensor, results[kept])}
    given = list(filter(gives_tensor, results[: kept.start] + results[kept.stop :]))
    views = collections.Counter(base_of(node) for node in given)
    expanded: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in given:
        base, value = base_of(node), node.meta["val"]
        if base is node or base.op != "call_function" or base not in saved or views[base] != 1:
            continue
        if dims_in_memory(value) is None and 0 in value.stride():  # a view of a copy, for elements of its own would lie otherwise
            copy = updates.copied(gm.graph, base, updates.before_all(gm.graph))
            expanded[node] = updates.as_view_of(gm.graph, node, base, copy) or node
        else:
            node.meta[APART] = True
    if expanded:
        results = [expanded.get(node, node) if i not in range(*kept.indices(len(results))) else node for i, node in enumerate(results)]
        _return(gm, results)


def _return(gm: torch.fx.GraphModule, results: list) -> None:
    output = gm.graph.output_node()
    output.args = (tuple(results) if isinstance(output.args[0], tuple) else results,)
    gm.recompile()


def view_what_is_updated(gm: torch.fx.GraphModule) -> None:
    """In a forward graph or one of inference, of inputs that the graph itself writes to."""
    known = _known()
    written = {update.input: update for update in updates.updates_of(gm.graph)}
    if known is None or not written:
        return
    placeholders = gm.graph.find_nodes(op="placeholder")
    results = list(gm.graph.output_node().args[0])
    for i, info in enumerate(known.output_info, len(known.mutated_inp_runtime_indices)):
        if info.output_type is not OutputType.alias_of_input or i >= len(results) or info.base_idx >= len(placeholders):
            continue  # of tensor subclasses, whose parts are the graph's inputs and outputs, AOTAutograd makes the views
        update = written.get(placeholders[info.base_idx])
        if update is not None and gives_tensor(results[i]):
            view = updates.as_view_of(gm.graph, results[i], update.value, update.input)
            results[i] = results[i] if view is None else view
    _return(gm, results)


def _found(gm: torch.fx.GraphModule) -> list[tuple[int, int, int]]:
    """Of each such output its index, the input's, and the index of the output that is the input's new value."""
    known = _known()
    if known is None:
        return []
    inputs = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    outputs = [node.meta.get("val") if isinstance(node, torch.fx.Node) else None for node in gm.graph.output_node().args[0]]
    updated = list(known.mutated_inp_runtime_indices)
    found = []
    for i, info in enumerate(known.output_info, len(updated)):
        if info.output_type is not OutputType.alias_of_input or info.base_idx not in updated:
            continue
        new = updated.index(info.base_idx)
        given = inputs[info.base_idx] if info.base_idx < len(inputs) else None
        made = (outputs[new], outputs[i]) if i < len(outputs) else (None, None)
        if all(isinstance(each, torch.Tensor) for each in (given, *made)) and given.shape == made[0].shape:
            found.append((i, info.base_idx, new))
    return found


def place(gm: torch.fx.GraphModule, call: Callable[[list], list]) -> Callable[[list], list]:
    """The call, whose outputs of this kind lie in their inputs."""
    found = _found(gm)
    if not found:
        return call

    def placed(args: list) -> list:
        given = [args[i] for _, i, _ in found]
        results = list(call(args))
        for (i, _, new), tensor in zip(found, given):
            results[i] = _in_input(results[i], tensor, results[new])
        return results

    placed._boxed_call = True
    return placed


def _in_input(view: torch.Tensor, given: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    if view.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
        if given.storage_offset() == 0:
            return view
        raise CallError("a view of an input that is written to, which begins behind the first element of its memory, is not supported here")
    offset = given.storage_offset() + view.storage_offset() - new.storage_offset()
    return torch.as_strided(given.detach(), view.size(), view.stride(), offset)
