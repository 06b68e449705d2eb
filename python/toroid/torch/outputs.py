"""Outputs of a graph: which are computed, which are inputs, views of inputs or of other results, and what is written to inputs."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Callable

import torch
import torch.fx

from .control_flow import gives_tensor
from .nodes import APART, Refused, base_of, is_update, takes_by_place, views_to_base
from .strides import dims_in_memory
from .symbols import expression, symbol_in_size


@dataclasses.dataclass
class Output:
    """One output of a graph, and where it comes from."""

    # "program": result `index`; "argument": input `index` itself; "view": of it; "of_output": output `index`; "view_of_result": of `base`;
    # "number": `value`
    kind: str
    index: int = -1
    value: Any = None  # of a number: None, or a number, or a sympy expression
    size: tuple = ()  # of a view: sympy expressions or ints
    stride: tuple = ()  # also of a program's result that leaves gaps in memory
    offset: Any = 0  # relative to the first element of what it views
    place: tuple = ()  # of a program's result: dim d of the tensor is dim place[d] of the result
    dtype: Any = None
    base: Any = None  # the result, an Output of kind "program", that this is a view of
    sizes: tuple = ()  # of a program's result, of the tensor: expressions or ints


@dataclasses.dataclass(eq=False)
class Update:
    """An input's new value, which the call copies there."""

    position: int  # of the input
    result: Output
    is_own: bool  # nobody else gets the result
    is_plain: bool  # it has the input's sizes and dtype, and neither's elements are still to be conjugated or negated


class OutputPlan:
    """Of a graph's outputs and of the inputs that it writes to: what its program computes, and what a call makes of that.

    is_tangent(input): its views are computed, although they could be described. check_place(node): called of operators that take elements
    of inputs by their place in memory, where their results are only described. Throws Refused.
    """

    def __init__(self, gm: torch.fx.GraphModule, is_tangent: Callable, check_place: Callable) -> None:
        self._graph = gm.graph
        self._is_tangent, self._check_place = is_tangent, check_place
        self._positions = {node: i for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
        self._argument_symbols: set | None = None
        self.outputs: list[Output] = []
        # What several outputs are views of, or one that leaves gaps, is computed as a whole; nobody else gets it.
        self.hidden: dict[torch.fx.Node, Output] = {}
        # New values of inputs that are no outputs, each with the order of its dims.
        self.updated: dict[torch.fx.Node, tuple[Output, tuple | None]] = {}
        self._plan_outputs(gm.graph.output_node())
        made = {each.value: each for each in self.outputs if each.kind == "program"} | self.hidden
        self.updates = [self._update(node, made) for node in gm.graph.nodes if is_update(node)]

    def computed(self) -> list[torch.fx.Node]:
        """The nodes that the program computes."""
        return [*(output.value for output in self.outputs if output.kind == "program"), *self.hidden, *self.updated]

    def results(self) -> list[tuple[torch.fx.Node, Output, tuple | None]]:
        """What the program returns: nodes, each with the order of its dims where it is given."""
        results = [(output.value, output, None) for output in self.outputs if output.kind == "program"]
        results += [(node, output, None) for node, output in self.hidden.items()]
        return results + [(node, output, order) for node, (output, order) in self.updated.items()]

    def _plan_outputs(self, output: torch.fx.Node) -> None:
        computed: dict[torch.fx.Node, int] = {}
        listed = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        tensors = dict.fromkeys(filter(gives_tensor, listed))
        bases = collections.Counter(base_of(node) for node in tensors)
        for node in listed:
            value = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
            if not isinstance(value, torch.Tensor):
                self.outputs.append(self._number(node, value))
            elif node in self._positions:
                self.outputs.append(Output("argument", self._positions[node]))
            elif node in computed:
                self.outputs.append(Output("of_output", computed[node]))
            else:
                self.outputs.append(self._tensor(node, value, bases))
                if self.outputs[-1].kind == "program":
                    computed[node] = len(self.outputs) - 1
        for made in self.outputs:
            if made.kind == "view_of" and made.value not in computed and made.value not in self.hidden:
                self.hidden[made.value] = self._with_gaps(made.value, made.value.meta["val"])
        for made in self.outputs:
            if made.kind != "view_of":
                continue
            base, made.value = made.value, None
            made.kind = "view_of_result"
            made.base = self.outputs[computed[base]] if base in computed else self.hidden[base]

    def _update(self, node: torch.fx.Node, made: dict[torch.fx.Node, Output]) -> Update:
        given, value = node.args[:2]
        held, new = given.meta["val"], value.meta["val"]
        is_own = value not in made
        if is_own:
            self.updated.setdefault(value, (Output("program", value=value), dims_in_memory(held) if held.ndim == new.ndim else None))
        is_plain = held.dtype == new.dtype and list(map(expression, held.shape)) == list(map(expression, new.shape))
        is_lazy = any(each.is_conj() or each.is_neg() for each in (held, new)) or self._is_tangent(given)
        result = self.updated[value][0] if is_own else made[value]
        return Update(self._positions[given], result, is_own, is_plain and not is_lazy)

    def _are_known(self, *expressions: Any) -> bool:
        """Whether the arguments of a call tell these."""
        if self._argument_symbols is None:
            self._argument_symbols = set()
            for node in self._graph.nodes:
                value = node.meta.get("val") if node.op == "placeholder" else None
                candidates = value.shape if isinstance(value, torch.Tensor) else [value]
                for each in candidates:
                    found = symbol_in_size(expression(each)) if isinstance(value, torch.Tensor) else None
                    self._argument_symbols |= {found[0]} if found else {expression(each)}
        return all(getattr(each, "free_symbols", set()) <= self._argument_symbols for each in expressions)

    def _number(self, node: Any, value: Any) -> Output:
        if isinstance(node, torch.fx.Node) and node in self._positions:
            return Output("argument", self._positions[node])
        if isinstance(value, (torch.SymInt, torch.SymFloat)) and isinstance(node, torch.fx.Node):
            if not self._are_known(expression(value)):
                raise Refused("a number that is read out of a tensor is not supported as a result", node)
            return Output("number", value=expression(value))
        if value is None or isinstance(value, (int, float, bool)):
            return Output("number", value=value)
        raise Refused(f"outputs of type {type(value).__name__} are not supported", node if isinstance(node, torch.fx.Node) else None)

    def _tensor(self, node: torch.fx.Node, value: torch.Tensor, bases: dict) -> Output:
        base = base_of(node)
        made = self._with_gaps(node, value)
        if node.meta.get(APART) or base is node or base.op not in ("placeholder", "call_function") or not gives_tensor(base):
            return made
        held = base.meta["val"]
        is_input = base in self._positions
        numbers = [expression(number) for number in (*value.shape, *value.stride(), value.storage_offset(), held.storage_offset())]
        if held.dtype != value.dtype or (is_input and self._is_tangent(base)) or not self._are_known(*numbers):
            return made
        if value.is_conj() != held.is_conj() or value.is_neg() != held.is_neg():
            return made
        if is_input:
            for viewing in filter(takes_by_place, views_to_base(node)):
                self._check_place(viewing)
        else:
            has_gaps = dims_in_memory(held) is None
            if has_gaps and not self._with_gaps(base, held).stride:
                return made
            if bases[base] == 1 and dims_in_memory(value) is not None:
                return made
        return Output(
            "view" if is_input else "view_of",
            self._positions.get(base, -1),
            value=None if is_input else base,
            size=tuple(expression(s) for s in value.shape),
            stride=tuple(expression(s) for s in value.stride()),
            offset=expression(value.storage_offset()) - expression(held.storage_offset()),
        )

    def _with_gaps(self, node: torch.fx.Node, value: torch.Tensor) -> Output:
        """A result of the program; where PyTorch's leaves gaps in memory, with its strides."""
        made = Output("program", value=node)
        numbers = [expression(number) for number in (*value.shape, *value.stride())]
        if dims_in_memory(value) is None and 0 not in value.stride() and self._are_known(*numbers):
            made.stride = tuple(numbers[value.ndim :])
        return made
