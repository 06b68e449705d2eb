"""What toroid refuses runs in eager PyTorch: the graph is cut around it, and the user is told.

Nodes get a level: the number of refused operators that are before them on some path. All other nodes of a level are one graph, which
toroid compiles; refused operators stay where they are between these.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import warnings
from typing import Callable

import sympy
import torch
import torch.fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from .. import _core
from . import attention_dropout, control_flow, updates
from .nodes import base_of, computes_sizes_only, is_update, operator_name, takes_by_place, views_to_base
from .runtime import CallError, has_strides, tuple_text, with_strides
from .strides import dims_in_memory
from .symbols import expression

# Why an operator runs in eager PyTorch that toroid could compile.
AS_ASKED = "the option fallback_random is set"

# Of these no code is made: sizes and guards say the same.
_STATEMENTS = ("aten::_assert_tensor_metadata",)


# Operators whose new elements nobody has written: under deterministic algorithms eager PyTorch fills them with NaN or the largest integer.
_FILLED_IF_DETERMINISTIC = ("aten::resize", "aten::resize_as")


class FallbackWarning(UserWarning):
    """Operators of a model run in eager PyTorch."""


class UnsupportedGraph(RuntimeError):
    """A graph has operators that toroid refuses, and the options allow no fallback."""


def why_not(node: torch.fx.Node, keeps_random: bool) -> str | None:
    """Why toroid cannot compile the node, as far as its operator tells; None: it can, or nothing is known."""
    if node.op != "call_function" or node.target is operator.getitem or computes_sizes_only(node):
        return None
    if control_flow.operator_of(node) is not None:
        for body in control_flow.bodies(node):
            for each in control_flow.graph_of(body).nodes:
                reason = why_not(each, keeps_random)
                if reason is not None:
                    return f"its body calls {target_name(each)}: {reason}"
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return "toroid has no such operator"
    if keeps_random and torch.Tag.nondeterministic_seeded in node.target.tags:
        return AS_ASKED
    eager = attention_dropout.why_eager(node)
    if eager is not None:
        return AS_ASKED if keeps_random else eager
    name = operator_name(node.target)
    if updates.writes(node) and not is_update(node):
        return "it changes where an input is in memory"
    if name.split(".")[0] in _FILLED_IF_DETERMINISTIC and _fills_new_elements():
        return "under deterministic algorithms its new elements are NaN (torch.utils.deterministic.fill_uninitialized_memory)"
    if _core.operator_is_supported(name) or name.startswith("aten::sym_") or name in _STATEMENTS:
        return None
    return "toroid has no such operator"


def _fills_new_elements() -> bool:
    return torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory


def target_name(node: torch.fx.Node) -> str:
    """The operator's name; of one that writes to its arguments, what AOTAutograd has put around it is left out."""
    if isinstance(node.target, torch._ops.OpOverload):
        return operator_name(node.target)
    if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name().startswith("auto_functionalized"):
        return operator_name(node.args[0])
    return str(node.target)


_PYTORCH = os.path.dirname(torch.__file__) + os.sep


def line_of(node: torch.fx.Node) -> str:
    """The user's line that the node comes from: "model.py:42, in forward: x = f(x)"; "" where it is not known. It is the innermost one that
    is not PyTorch's own, if there is one."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.strip().splitlines()]
    frames = [i for i, line in enumerate(lines) if line.startswith("File ")]
    if not frames:
        return ""
    i = next((i for i in reversed(frames) if not lines[i].startswith(f'File "{_PYTORCH}')), frames[-1])
    place = lines[i].removeprefix('File "').replace('", line ', ":")
    return place + (f": {lines[i + 1]}" if i + 1 < len(lines) else "")


def describe(refused: dict[torch.fx.Node, str]) -> str:
    """One line for each operator, with its first place."""
    seen: dict[tuple[str, str], torch.fx.Node] = {}
    counts: dict[tuple[str, str], int] = {}
    for node, reason in refused.items():
        key = (target_name(node), reason)
        seen.setdefault(key, node)
        counts[key] = counts.get(key, 0) + 1
    lines = []
    for (name, reason), node in seen.items():
        times = f" ({counts[name, reason]} times)" if counts[name, reason] > 1 else ""
        place = line_of(node)
        lines.append(f"  {name}{times}: {reason}" + (f"\n    at {place}" if place else ""))
    return "\n".join(lines)


_DRAWN = "\n  help: with options={'fallback_random': True} attention with dropout runs in eager PyTorch"


def tell(refused: dict[torch.fx.Node, str], allowed: bool) -> None:
    """The one warning of a graph, or the error."""
    if not refused:
        return
    text = describe(refused)
    if any(attention_dropout.must_be_compiled(node) for node in refused):
        raise UnsupportedGraph(f"toroid cannot compile this graph, whose forward pass has drawn toroid's numbers:\n{text}{_DRAWN}")
    if not allowed:
        raise UnsupportedGraph(
            f"toroid cannot compile this graph as a whole:\n{text}\n  help: compile without fullgraph=True and without "
            "options={'fallback': False}, and these operators run in eager PyTorch"
        )
    warnings.warn(f"toroid runs these operators in eager PyTorch:\n{text}", FallbackWarning, stacklevel=2)


def tell_whole(gm: torch.fx.GraphModule, reason: str, allowed: bool) -> None:
    """The same where the machine lacks what compiling any graph takes."""
    if any(attention_dropout.must_be_compiled(node) for node in gm.graph.nodes):
        raise UnsupportedGraph(f"toroid cannot compile this graph, whose forward pass has drawn toroid's numbers: {reason}{_DRAWN}")
    if not allowed:
        raise UnsupportedGraph(
            f"toroid cannot compile this graph: {reason}\n  help: `toroid doctor` says what is missing; without fullgraph=True and without "
            "options={'fallback': False} the graph runs in eager PyTorch"
        )
    warnings.warn(f"toroid runs graphs in eager PyTorch: {reason}; `toroid doctor` says what is missing", FallbackWarning, stacklevel=2)


def _own_bodies(graph: torch.fx.Graph) -> None:
    """Each control flow gets nodes of its own for its bodies, so that they can be in its part."""
    for node in list(graph.nodes):
        if control_flow.operator_of(node) is not None:
            for body in control_flow.bodies(node):
                with graph.inserting_before(node):
                    node.replace_input_with(body, graph.get_attr(body.target))
    for node in list(graph.find_nodes(op="get_attr")):
        if not node.users:
            graph.erase_node(node)


def _with_strides(tensor: torch.Tensor, strides: tuple, moves: bool) -> torch.Tensor:
    """The tensor with these strides, which leave gaps or overlap, copied where it has others. moves: it may be copied."""
    if tensor.numel() == 0 or has_strides(tensor, strides):
        return tensor
    if not moves:
        raise _moved(tensor)
    if 0 in (stride for size, stride in zip(tensor.shape, strides) if size > 1):
        raise CallError(
            f"an operator in eager PyTorch gave strides {tuple(tensor.stride())}, and its fake implementation overlapping ones, {strides}"
        )
    return with_strides(tensor, strides)


def _with_symbolic_strides(tensor: torch.Tensor, moves: bool, strides: str, names: tuple, *numbers: int) -> torch.Tensor:
    """The same with a text of strides over sizes of these names."""
    return _with_strides(tensor, _formula(strides, names)(*numbers), moves)


@functools.lru_cache(maxsize=None)
def _formula(text: str, names: tuple) -> Callable:
    # The text is made of expressions over sizes.
    return eval(f"lambda {', '.join(names)}: {text}", {"math": math, "torch": torch})  # noqa: S307


def _of_dtype(tensor: torch.Tensor, dtype: torch.dtype, is_lazy: bool) -> torch.Tensor:
    """The tensor in this dtype, which holds all its values. is_lazy: its elements may be still to be conjugated or negated. PyTorch's own
    statistics of 16-bit batch norms on a CPU are 16-bit, and those of its fake implementation 32-bit."""
    if not is_lazy:
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype == dtype:
        return tensor
    if torch.promote_types(tensor.dtype, dtype) != dtype:
        raise CallError(f"an operator in eager PyTorch gave {tensor.dtype}, and its fake implementation {dtype}")
    return tensor.to(dtype)


def _as_traced(tensor: torch.Tensor, dims: tuple, moves: bool) -> torch.Tensor:
    """The tensor with its dims in this order in memory, from the outermost on, copied where it lies otherwise. moves: it may be copied."""
    in_order = tensor.permute(dims)
    if in_order.is_contiguous():
        return tensor
    if not moves:
        raise _moved(tensor)
    return in_order.contiguous().permute([dims.index(d) for d in range(len(dims))])


def _moved(tensor: torch.Tensor) -> CallError:
    return CallError(
        f"an operator in eager PyTorch gave strides {tuple(tensor.stride())}, and its fake implementation others; as_strided takes "
        "elements by their place in memory\n  help: give the fake implementation the strides of the real one"
    )


def names_in_memory(gm: torch.fx.GraphModule) -> frozenset[str]:
    """Of the nodes that an operator takes elements of by their place in memory, itself or of a view of them."""
    return frozenset(
        base_of(node).name
        for user in gm.graph.nodes
        if takes_by_place(user)
        for node in user.all_input_nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    )


def _numbers_of(node: torch.fx.Node) -> dict:
    """The symbols that the node's value tells, each with the node and the dim of it whose size it is, or None."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return {expr: (node, d) for d, size in enumerate(value.shape) if isinstance(expr := expression(size), sympy.Symbol)}
    if isinstance(value, torch.SymInt) and isinstance(expr := expression(value), sympy.Symbol):
        return {expr: (node, None)}
    return {}


def keep_traced_layouts(gm: torch.fx.GraphModule, in_memory: frozenset[str]) -> torch.fx.GraphModule:
    """The same graph, where what eager PyTorch computes has the dtype of its fake tensors and lies as they said. Views, what outputs alias,
    and compiled parts go by these, and on other memory would take other elements without an error. Operators of users whose fake
    implementation errs need it. in_memory: names of what must not be copied (names_in_memory)."""
    numbers: dict = {}
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        numbers = _numbers_of(node) | numbers
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            continue
        if updates.writes(node):
            continue
        if node.target is operator.getitem and node.args[0].op == "call_module":
            continue  # of a compiled part
        moves = node.name not in in_memory
        dims = dims_in_memory(value)
        with gm.graph.inserting_after(node):
            typed = gm.graph.call_function(_of_dtype, (node, value.dtype, value.is_conj() or value.is_neg()))
        with gm.graph.inserting_after(typed):
            if dims is not None:
                kept = gm.graph.call_function(_as_traced, (typed, dims, moves))
            else:
                kept = _keep_strides(gm.graph, typed, value, moves, numbers)
        kept.meta = dict(node.meta)
        own = {typed, kept, *kept.all_input_nodes}
        node.replace_all_uses_with(kept, delete_user_cb=lambda user, own=own: user not in own)
    gm.recompile()
    return gm


def _keep_strides(graph: torch.fx.Graph, node: torch.fx.Node, value: torch.Tensor, moves: bool, numbers: dict) -> torch.fx.Node:
    """The call that gives the node the strides of its fake value, which are numbers or expressions over these. The node itself where they
    take a number that no size tells."""
    strides = tuple(expression(stride) for stride in value.stride())
    symbols = sorted({symbol for stride in strides for symbol in getattr(stride, "free_symbols", ())}, key=str)
    if not symbols:
        return graph.call_function(_with_strides, (node, strides, moves))
    if any(symbol not in numbers for symbol in symbols):
        return node
    given = []
    for at, dim in (numbers[symbol] for symbol in symbols):
        if dim is not None:
            at = graph.call_function(torch.ops.aten.sym_size.int, (at, dim))
            graph.inserting_after(at)  # one behind the other
        given.append(at)
    text = tuple_text(strides, {symbol: symbol for symbol in symbols})
    return graph.call_function(_with_symbolic_strides, (node, moves, text, tuple(map(str, symbols)), *given))


def _views_of_storages(refused: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """The views that a refused operator takes elements of by their place in a storage: eager PyTorch makes them, too, for a compiled part
    may give a copy in the place of a view."""
    views = set()
    for node in refused:
        if takes_by_place(node):
            views.update(views_to_base(node.args[0])[:-1])
    return views


def cut(gm: torch.fx.GraphModule, refused: set[torch.fx.Node]) -> torch.fx.GraphModule:
    """The graph with its compiled parts as submodules toroid_0, toroid_1, … Consumes the graph."""
    _own_bodies(gm.graph)
    refused = refused | _views_of_storages(refused)
    levels: dict[torch.fx.Node, int] = {}
    outside: set[torch.fx.Node] = set()
    parts: dict[int, dict[torch.fx.Node, None]] = {}
    positions = {node: i for i, node in enumerate(gm.graph.nodes)}
    next_random = 0  # random operators stay in order: each has a level of its own
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            outside.add(node)
            levels[node] = 0
            continue
        if updates.writes(node):
            outside.add(node)
            levels[node] = len(positions)  # behind all others, which read what was there before
            continue
        levels[node] = max((levels[each] + (each in refused) for each in node.all_input_nodes), default=0)
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, torch.fx.Node) and source in outside:
            outside.add(node)  # an element of what a refused operator gives
            levels[node] = levels[source]
            refused = refused | {node}
        elif node in refused:
            outside.add(node)
            if _draws(node):
                levels[node] = max(levels[node], next_random)
                next_random = levels[node] + 1
        else:
            part = parts.setdefault(levels[node], {})
            if control_flow.operator_of(node) is not None:
                part.update(dict.fromkeys(control_flow.bodies(node)))
            part[node] = None
    worth, levels_of_parts = [], []
    for level, part in sorted(parts.items()):
        gives = any(user not in part for node in part for user in node.users)
        if gives and any(node.op != "get_attr" and not computes_sizes_only(node) for node in part):
            worth.append(part)
            levels_of_parts.append(level)
    cut_graph = fuse_by_partitions(gm, worth, prefix="toroid_", always_return_tuple=True)
    _sort(cut_graph, {node.name: (level, 2, positions[node]) for node, level in levels.items()}, levels_of_parts)
    return cut_graph


def _draws(node: torch.fx.Node) -> bool:
    """Whether it is a random operator, or one that runs it: of checkpointed regions some keep the generator's state for their gradient."""
    operators = node.args if isinstance(node.target, torch._ops.HigherOrderOperator) else (node.target,)
    return any(isinstance(each, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in each.tags for each in operators)


def _sort(gm: torch.fx.GraphModule, places: dict[str, tuple], levels_of_parts: list[int]) -> None:
    """Puts the nodes in the order of their levels: in each the part, its elements, then all others at their places. The sort of
    fuse_by_partitions, which makes nodes anew, may change the order of random operators."""

    def place(node: torch.fx.Node) -> tuple[int, int, int]:
        if node.op == "call_module":
            return levels_of_parts[int(str(node.target).removeprefix("toroid_"))], 0, 0
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, torch.fx.Node) and source.op == "call_module":
            return place(source)[0], 1, 0
        return places[node.name]

    output = next(node for node in gm.graph.nodes if node.op == "output")
    for node in sorted((node for node in gm.graph.nodes if node.op.startswith("call_")), key=place):
        output.prepend(node)
    gm.graph.lint()
    gm.recompile()
