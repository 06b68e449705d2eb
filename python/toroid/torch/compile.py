"""From an FX graph of AOTAutograd's to a callable: compiled whole where toroid can, else around what it cannot."""

from __future__ import annotations

import copy
import itertools
import logging
import re
import time
from typing import Any, Callable

import torch
import torch.fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .. import _core, errors
from . import attention, attention_dropout, gpu, gradients, input_aliases, saved_layouts, updates
from .fallback import AS_ASKED, cut, keep_traced_layouts, names_in_memory, tell, tell_whole, why_not
from .graph_text import GraphText, write_graph
from .nodes import Refused
from .options import Options
from .regions import expand
from .runtime import allocator, make_call, not_captured

log = logging.getLogger("toroid.torch")
_numbers = itertools.count()

# For tests: where graphs run instead of where their tensors are, as "emulated-cuda".
_device: str | None = None

# How often a graph is cut anew because a part of it is refused, before all of it runs in eager PyTorch.
_MOST_CUTS = 12


def _constants(graph: GraphText) -> dict[str, tuple]:
    return {name: (tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor) for name, tensor in graph.constants.items()}


def compile_whole(
    gm: torch.fx.GraphModule, name: str, kind: str, options: Options, frozen: dict | None = None, orders: dict | None = None
) -> Callable:
    """Throws Refused, with the node where it is known. frozen: inputs that are constants, with their tensors. orders: of outputs that do
    not lie as eager PyTorch's."""
    begin = time.perf_counter()
    written_as = gm if frozen else attention_dropout.with_own_gradients(attention.with_own_sums(gm))
    graph = write_graph(
        written_as, name, lambda node: kind == "backward" and "tangent" in node.name, frozen, saved_layouts.by_name(orders or {})
    )
    if not graph.results:
        return make_call(graph, None, kind=kind)
    written = time.perf_counter()
    log.debug("%s:\n%s", name, graph.text)
    try:
        program = _core.compile_graph(graph.text, _constants(graph), _options_of(graph, name, options), allocator())
    except (errors.UnsupportedError, errors.PackageError, errors.InputError, errors.InternalError) as error:
        raise Refused(_reason(error), _node_of(error, gm)) from error
    except errors.SetupError as error:
        raise Refused(_reason(error), is_of_setup=True) from error
    eager = not_captured if attention_dropout.are_tied(gm.graph) else _boxed(gm)
    call = make_call(graph, program, eager, kind)
    log.info("%s: text %.3f s, compiled in %.3f s: %s", name, written - begin, time.perf_counter() - written, program.facts)
    return call


def _options_of(graph: GraphText, name: str, options: Options) -> dict[str, Any]:
    """What the compiler is given for the graph."""
    if graph.gpu is None:
        device = _device
    else:
        gpu.find_libraries()
        device = f"as-exported:{graph.gpu}" if graph.is_mixed else f"cuda:{graph.gpu}"
    given = options.of_compiler(name)
    if device is not None:
        given["device"] = device
    if graph.is_mixed and given.pop("measure", False):
        log.info("%s: it has tensors on the CPU and on the GPU, so nothing is measured", name)
    return given


def _node_of(error: Any, gm: torch.fx.GraphModule) -> torch.fx.Node | None:
    """The node that toroid's error names."""
    found = re.search(r"node '([^']+)'", str(error))
    if found is None:
        return None
    name = found.group(1).split(".")[0]
    return next((node for node in gm.graph.nodes if node.name == name), None)


def _reason(error: Exception) -> str:
    """The first line of toroid's error."""
    return str(error).strip().splitlines()[0].removeprefix("error: ")


class _Part(torch.nn.Module):
    """A compiled part of a graph, in the place of its submodule."""

    def __init__(self, call: Callable) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> tuple:
        return tuple(self.call(list(args)))


def _boxed(gm: torch.fx.GraphModule) -> Callable:
    def call(args: list) -> Any:
        given = list(args)
        args.clear()
        return gm(*given)

    call._boxed_call = True
    return call


def compile_in_parts(gm: torch.fx.GraphModule, name: str, kind: str, options: Options, refused: dict[torch.fx.Node, str]) -> Callable:
    """Around the refused nodes, and those that are found to be refused meanwhile, which are added to them."""
    by_name = {node.name: node for node in gm.graph.nodes}
    for _ in range(_MOST_CUTS):
        attention_dropout.settle(gm.graph, refused)
        twin = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
        twins = {node.name: node for node in twin.graph.nodes}
        cut_graph = cut(twin, {twins[node.name] for node in refused})
        before = len(refused)
        for i, (child_name, child) in enumerate(list(cut_graph.named_children())):
            if not child_name.startswith("toroid_") or not isinstance(child, torch.fx.GraphModule):
                continue
            try:
                setattr(cut_graph, child_name, _Part(compile_whole(child, f"{name}_{i}", kind, options)))
            except Refused as problem:
                if problem.node is None or problem.node.name not in by_name or by_name[problem.node.name] in refused:
                    for node in child.graph.nodes:  # nobody knows which one
                        if node.op == "call_function" and node.name in by_name and not updates.writes(node):
                            refused.setdefault(by_name[node.name], problem.reason)
                else:
                    refused[by_name[problem.node.name]] = problem.reason
        if len(refused) == before:
            tell({node: reason for node, reason in refused.items() if reason != AS_ASKED}, options.fallback)
            attention_dropout.compiled(gm.graph, refused)
            return _boxed(keep_traced_layouts(cut_graph, names_in_memory(gm)))
    tell(refused, options.fallback)
    return _boxed(keep_traced_layouts(gm, names_in_memory(gm)))


def compile_fx_graph(gm: torch.fx.GraphModule, inputs: list, kind: str, options: Options, parameters: list | None = None) -> Callable:
    """What AOTAutograd calls. It traces with fake tensors, and constants of the graph are real. parameters: of the graph's inputs those
    that may be frozen, with their tensors; None for all others."""
    expand(gm)
    updates.settle(gm)
    attention_dropout.mark_whole(gm)
    if kind == "backward":
        saved_layouts.take_inputs(gm, inputs)
        gradients.lie_apart(gm)
    elif kind == "forward":
        input_aliases.copy_what_is_kept(gm)
        input_aliases.keep_views_apart(gm)
    if kind != "backward":
        input_aliases.view_what_is_updated(gm)
    with unset_fake_temporarily():
        call = None
        if options.freezing and kind == "inference" and parameters is not None:
            call = _compile_frozen(gm, options, parameters)
        if call is None:
            call = _compile(gm, kind, options)
        return call if kind == "backward" else input_aliases.place(gm, call)


def _compile_frozen(gm: torch.fx.GraphModule, options: Options, parameters: list) -> Callable | None:
    """A program with the parameters as constants, for calls with just these; another one, compiled when it is needed, for all others. None
    where nothing is to be frozen, or the graph is refused."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    written = {node.args[0] for node in filter(updates.writes, gm.graph.nodes)}
    frozen: dict[torch.fx.Node, torch.Tensor] = {}
    if len(parameters) != len(placeholders):
        return None
    for node, tensor in zip(placeholders, parameters):
        value = node.meta.get("val")
        if tensor is None or node in written or tensor.is_inference() or not isinstance(value, torch.Tensor):
            continue
        if tuple(value.shape) == tuple(tensor.shape) and value.dtype == tensor.dtype and value.stride() == tensor.stride():
            frozen[node] = tensor
    if not frozen:
        return None
    try:
        call = compile_whole(gm, f"graph{next(_numbers)}_frozen", "inference", options, frozen)
    except Refused as problem:
        log.info("a graph is not frozen: %s", problem.reason)
        return None
    held = [(i, frozen[node], frozen[node]._version) for i, node in enumerate(placeholders) if node in frozen]
    others: list[Callable] = []

    def checked(args: list) -> list:
        for i, tensor, version in held:
            if args[i] is not tensor or tensor._version != version:
                if not others:
                    log.warning("a frozen parameter was replaced or written to: such calls take a program with them as arguments")
                    with unset_fake_temporarily():
                        others.append(_compile(gm, "inference", options))
                return others[0](args)
        return call(args)

    checked._boxed_call = True
    return checked


def _compile(gm: torch.fx.GraphModule, kind: str, options: Options) -> Callable:
    name = f"graph{next(_numbers)}_{kind}"
    refused: dict[torch.fx.Node, str] = {}
    for node in gm.graph.nodes:
        reason = why_not(node, options.fallback_random)
        if reason is not None:
            refused[node] = reason
    if not refused:
        try:
            orders = saved_layouts.orders_of_kept(gm) if kind == "forward" else {}
            call = compile_whole(gm, name, kind, options, orders=orders)
            saved_layouts.report(gm, orders)
            attention_dropout.compiled(gm.graph, refused)
            return call
        except Refused as problem:
            log.info("%s: refused: %s", name, problem.reason)
            saved_layouts.restore_inputs(gm)
            if problem.is_of_setup:
                tell_whole(gm, problem.reason, options.fallback)
                return _boxed(keep_traced_layouts(gm, names_in_memory(gm)))
            node = problem.node
            if node is None or node.op in ("placeholder", "output"):
                for each in gm.graph.nodes:
                    if each.op == "call_function" and not updates.writes(each):
                        refused[each] = problem.reason
                tell(refused, options.fallback)
                return _boxed(keep_traced_layouts(gm, names_in_memory(gm)))
            refused[node] = problem.reason
    if not options.fallback:
        tell({node: reason for node, reason in refused.items() if reason != AS_ASKED}, False)
    saved_layouts.restore_inputs(gm)
    return compile_in_parts(gm, name, kind, options, refused)
