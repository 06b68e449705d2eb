"""Operators that hold a graph and are no control flow are replaced by their nodes: regions that Dynamo compiles once and calls often
(``torch.compiler.nested_compile_region``), and flex_attention, by PyTorch's own definition in ATen's operators. So is what decompositions
of PyTorch's make that ATen has a name for."""

from __future__ import annotations

import logging
from typing import Any, Callable

import torch
import torch.fx
from torch._C import DispatchKey
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

from .control_flow import graph_of, is_body

log = logging.getLogger("toroid.torch")

_REGION = "invoke_subgraph"
_FLEX_ATTENTION = "flex_attention"


def _definition(node: torch.fx.Node) -> Callable | None:
    """What the node computes, as a function of its arguments; None where it stays as it is."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    if node.target.name() == _REGION:
        return lambda body, _, *operands: body(*operands)
    if node.target.name() == _FLEX_ATTENTION:
        return node.target.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    return None


def _traced(node: torch.fx.Node, definition: Callable) -> tuple[torch.fx.Graph, list[torch.fx.Node]]:
    """The graph of the node's operators, and the nodes that are its inputs."""
    leaves, tree = _pytree.tree_flatten((node.args, node.kwargs))
    inputs = [each for each in leaves if isinstance(each, torch.fx.Node) and not is_body(each)]
    unique = list(dict.fromkeys(inputs))

    def of_inputs(*values: Any) -> Any:
        given = dict(zip(unique, values))
        filled = [given.get(each, each) if isinstance(each, torch.fx.Node) else each for each in leaves]
        filled = [graph_of(each).owning_module if is_body(each) else each for each in filled]
        args, kwargs = _pytree.tree_unflatten(filled, tree)
        return definition(*args, **kwargs)

    values = [each.meta["val"] for each in unique]
    mode = detect_fake_mode(values)
    with mode:
        return make_fx(of_inputs)(*values).graph, unique


def expand(gm: torch.fx.GraphModule) -> None:
    """Replaces all such nodes, also those within them. One that PyTorch cannot trace stays, and runs in eager PyTorch."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and str(node.target) == "prims.fma.default":
            a, b, c = node.args
            node.target, node.args = torch.ops.aten.addcmul.default, (c, a, b)
    kept: set[torch.fx.Node] = set()
    while found := [node for node in gm.graph.nodes if node not in kept and _definition(node) is not None]:
        for node in found:
            try:
                traced = _traced(node, _definition(node))
            except Exception as error:  # noqa: BLE001: it is PyTorch's
                log.info("%s is not expanded: %s", node.name, error)
                kept.add(node)
                continue
            _replace(gm, node, *traced)


def _replace(gm: torch.fx.GraphModule, node: torch.fx.Node, graph: torch.fx.Graph, inputs: list[torch.fx.Node]) -> None:
    places = dict(zip(graph.find_nodes(op="placeholder"), inputs))
    output = next(each for each in graph.nodes if each.op == "output")
    with gm.graph.inserting_before(node):
        for inside in graph.nodes:
            if inside.op in ("placeholder", "output"):
                continue
            copied = places[inside] = gm.graph.node_copy(inside, lambda each: places[each])
            if inside.op == "get_attr":
                copied.target = f"{node.name}_{inside.target}".replace(".", "_")
                setattr(gm, copied.target, _attribute(graph.owning_module, inside.target))
            if "stack_trace" in node.meta:
                copied.meta["stack_trace"] = node.meta["stack_trace"]
    results = _pytree.tree_map_only(torch.fx.Node, lambda each: places[each], output.args[0])
    for getitem in list(node.users):
        getitem.replace_all_uses_with(results[getitem.args[1]])
        gm.graph.erase_node(getitem)
    gm.graph.erase_node(node)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module
