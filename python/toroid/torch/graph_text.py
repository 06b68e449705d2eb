"""FX graphs of ATen operators in the text form of toroid's graphs.

What AOTAutograd hands to a backend is a graph whose nodes call ``torch.ops.aten`` operators, with a fake tensor in ``node.meta["val"]``
for each value. ``write_graph`` prints it as toroid reads it::

    add = torch.ops.aten.add.Tensor(x, y, alpha=2)    =>    add: f32[s77, 8] = aten::add.Tensor(x, y, alpha=2)

Sizes stay symbolic. Nodes that only compute sizes vanish: their values are expressions in the types and arguments that use them.
Outputs that are inputs, or views of inputs, are not computed: they are described for the caller, who has the tensors.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from typing import Any

import sympy
import torch
import torch.fx

from . import control_flow
from .control_flow import gives_tensor
from .nodes import MEMORY_VIEWS, READS_ELEMENT, STATEMENTS, Refused, base_of, computes_sizes_only, needed, operator_name
from .outputs import Output, OutputPlan, Update
from .strides import dims_in_memory, is_contiguous, reach
from .symbols import expression, is_float_symbol, is_symbolic, symbol_in_size

DTYPES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
FORMATS = {
    torch.contiguous_format: "contiguous",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve",
}

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORDS = frozenset(("none", "true", "false", "inf", "nan", "sym", "return", "graph", "constant", "Real"))

# SymPy's functions of floats, and PyTorch's, by their names in the text; of others, the name is the same.
_REALS = {
    "Add": "add",
    "Mul": "mul",
    "FloatTrueDiv": "div",
    "IntTrueDiv": "div",
    "FloatPow": "pow",
    "Pow": "pow",
    "Max": "max",
    "Min": "min",
}
_REAL_FUNCTIONS = frozenset("""add mul div pow max min sqrt exp log log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh""".split())


@dataclasses.dataclass
class GraphText:
    text: str
    constants: dict[str, torch.Tensor]
    inputs: list[int]  # positions of the graph's inputs that the program takes
    outputs: list[Output]
    results: list[Output]  # the outputs that the program computes, in its order
    symbols: dict[Any, tuple]  # of each sympy symbol that outputs mention: ("number", position) or ("size", position, dim, factor, added)
    is_random: bool  # it draws random numbers
    lazy: dict[int, torch.dtype]  # inputs whose elements are still to be conjugated or negated, or may be: positions, dtypes
    layouts: dict[int, tuple] = dataclasses.field(default_factory=dict)  # of inputs by position: dims from the outermost in memory on
    gpu: int | None = None  # the number of the GPU that it has tensors on
    is_mixed: bool = False  # inputs or results are on the CPU beside those on the GPU
    draws_on_gpu: bool = False  # it draws random numbers there
    updates: list[Update] = dataclasses.field(default_factory=list)
    storage_offsets: dict[int, int] = dataclasses.field(default_factory=dict)  # of inputs by position, where results depend on them


def _is_symbolic_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node) and is_symbolic(value.meta.get("val"))


def _name(text: str) -> str:
    return text if _PLAIN_NAME.match(text) and text not in _WORDS else '%"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(text: str) -> str:
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" if ord(c) < 256 else "?" for c in text) + '"'


def _float(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(float(value))
    return text if "." in text or "e" in text else text + ".0"


@dataclasses.dataclass
class _Inputs:
    """What a program takes of a graph's inputs, while its text is written."""

    taken: list[int] = dataclasses.field(default_factory=list)  # positions
    header: list[str] = dataclasses.field(default_factory=list)  # of these, names and types
    layouts: dict[int, tuple] = dataclasses.field(default_factory=dict)  # by position: dims from the outermost in memory on
    is_any_on_cpu: bool = False
    numbers: dict[Any, int] = dataclasses.field(default_factory=dict)  # of symbols that are inputs, their positions
    sizes: dict[Any, tuple] = dataclasses.field(default_factory=dict)  # of symbols that are sizes: (position, dim, factor, added)
    parts_of_sizes: dict[Any, tuple] = dataclasses.field(default_factory=dict)  # the same of symbols in sizes
    of_shapes: set = dataclasses.field(default_factory=set)  # symbols in sizes and strides of what is taken

    def known_symbols(self) -> dict[Any, tuple]:
        """Where calls find symbols, as in GraphText."""
        known = {symbol: ("number", position) for symbol, position in self.numbers.items()}
        for symbol, place in (*self.sizes.items(), *self.parts_of_sizes.items()):
            known.setdefault(symbol, ("size", *place))
        return known


class _Writer:
    def __init__(self, gm: torch.fx.GraphModule, name: str, is_tangent: Any, frozen: dict, orders: dict) -> None:
        self.gm = gm
        self.orders = orders  # of outputs by name, where they do not lie as PyTorch's
        self.frozen = frozen  # inputs that are constants, with their tensors
        self.name = name
        self.is_tangent = is_tangent
        self.lines: list[str] = []
        self.body: list[str] = []
        self.names: dict[torch.fx.Node, str] = {}
        self.parts: dict[tuple, str] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.constant_lines: list[str] = []
        self.symbols: dict[Any, None] = {}
        self.shape_env: Any = None
        self.is_random = False
        self.draws_on_gpu = False
        self.gpu: int | None = None
        self.memory_of_views_unknown = False
        self.storage_offsets: dict[torch.fx.Node, int] = {}
        self.subgraphs: list[str] = []  # the text of each, in the order of their numbers

    # ---- numbers and types

    def number(self, value: Any) -> str:
        value = expression(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return _float(value)
        for symbol in value.free_symbols:
            self.symbols.setdefault(symbol)
        return str(value)

    def type_of(self, tensor: Any, keeps_strides: bool = True) -> str:
        if tensor.layout is not torch.strided:
            raise Refused(f"tensors of layout {tensor.layout} are not supported")
        if tensor.dtype not in DTYPES:
            raise Refused(f"tensors of dtype {tensor.dtype} are not supported")
        for size in tensor.shape:
            if is_symbolic(size):
                self.shape_env = size.node.shape_env
        text = f"{DTYPES[tensor.dtype]}[{', '.join(self.number(s) for s in tensor.shape)}]"
        device = self.device_of(tensor)
        if not keeps_strides:
            return text + device
        sizes, strides = [expression(s) for s in tensor.shape], [expression(s) for s in tensor.stride()]
        if not is_contiguous(sizes, strides):
            text += f" strides [{', '.join(self.number(s) for s in strides)}]"
        offset = tensor.storage_offset()
        if expression(offset) != 0:
            text += f" offset({self.number(offset)})"
        return text + device

    def device_of(self, tensor: Any) -> str:
        """The end of a type that says where the tensor is. A program's GPU is the first one in its text, whichever it runs on."""
        if tensor.device.type == "cpu":
            return ""
        if tensor.device.type != "cuda":
            raise Refused(f"tensors on the device {tensor.device} are not supported")
        number = tensor.device.index or 0
        if self.gpu not in (None, number):
            raise Refused("tensors on several GPUs are not supported")
        self.gpu = number
        return " on cuda:0"

    def real(self, expr: Any) -> str:
        """An expression over floats, in the text's form of them: Real(mul, Real(value, zf0), 0.5)."""
        if expr.is_number:
            return _float(float(expr))
        if expr.is_Symbol and is_float_symbol(expr):
            self.symbols.setdefault(expr)
            return f"Real(value, {expr})"
        name = type(expr).__name__
        if name == "ToFloat" or expr.is_integer:
            return f"Real(float, {self.number_of(expr.args[0] if name == 'ToFloat' else expr)})"
        name = _REALS.get(name, name.removeprefix("OpaqueUnaryFn_") if name.startswith("OpaqueUnaryFn_") else "")
        if name == "pow" and expr.args[1] == sympy.Rational(1, 2):
            return f"Real(sqrt, {self.real(expr.args[0])})"
        if name in _REAL_FUNCTIONS and expr.args:
            parts = [self.real(each) for each in expr.args]
            text = parts[0]
            if len(parts) == 1:
                return f"Real({name}, {text})"
            for part in parts[1:]:
                text = f"Real({name}, {text}, {part})"
            return text
        raise Refused(f"a float that is computed as {expr} is not supported")

    def number_of(self, expr: Any) -> str:
        for symbol in expr.free_symbols:
            self.symbols.setdefault(symbol)
        return str(expr)

    # ---- arguments

    def reference(self, node: torch.fx.Node) -> str:
        if node in self.names:
            return _name(self.names[node])
        raise Refused(f"'{node.name}' is used where toroid needs a tensor", node)

    def argument(self, value: Any, parameter: Any) -> str:
        kind = parameter.type
        while kind.kind() == "OptionalType":
            kind = kind.getElementType()
        is_list = kind.kind() == "ListType"
        element = kind.getElementType() if is_list else kind
        while element.kind() == "OptionalType":
            element = element.getElementType()
        if value is None:
            return "none"
        if is_list and not isinstance(value, (list, tuple)):
            count = max(parameter.N or 1, 1)
            value = [value] * count
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(each, int) and not isinstance(each, bool) for each in value) and element.kind() == "FloatType":
                value = [float(each) for each in value]
            return "[" + ", ".join(self.scalar(each, element) for each in value) + "]"
        return self.scalar(value, element)

    def scalar(self, value: Any, kind: Any) -> str:
        wants_tensor = kind.kind() == "TensorType"
        if isinstance(value, torch.fx.Node):
            if not computes_sizes_only(value) and value in self.names:
                return self.reference(value)
            value = value.meta.get("val") if "val" in value.meta else value
            if isinstance(value, torch.fx.Node):
                raise Refused(f"'{value.name}' has no value that is known", value)
        if isinstance(value, torch.SymFloat):
            return self.real(value.node.expr)
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, torch.SymInt, torch.SymBool)):
            if kind.kind() == "FloatType" and isinstance(value, int):
                return _float(float(value))
            if kind.kind() == "BoolType" and isinstance(value, int):
                return "true" if value else "false"
            text = self.number(value)
            return text if isinstance(value, int) or not wants_tensor else f"({text})"
        if isinstance(value, float):
            return _float(value)
        if isinstance(value, complex):
            return self.complex_number(value)
        if isinstance(value, torch.dtype):
            if value not in DTYPES:
                raise Refused(f"the dtype {value} is not supported")
            return f"dtype.{DTYPES[value]}"
        if isinstance(value, torch.device):
            if value.type == "cpu":
                return "device.cpu"
            if value.type == "cuda":
                return "device.cuda:0"
            raise Refused(f"the device {value} is not supported")
        if isinstance(value, torch.layout):
            return "layout.strided" if value is torch.strided else "layout.other"
        if isinstance(value, torch.memory_format):
            return f"format.{FORMATS[value]}"
        if isinstance(value, str):
            return _quoted(value)
        raise Refused(f"arguments of type {type(value).__name__} are not supported")

    def complex_number(self, value: complex) -> str:
        return _name(self.constant(torch.tensor(value, dtype=torch.complex128, device="cpu"), "number"))

    def constant(self, tensor: torch.Tensor, name: str) -> str:
        device = self.device_of(tensor)
        tensor = tensor.detach().cpu()
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        number = len(self.constants)
        key = f"{name}.{number}"
        value = f"{name}_{number}_constant"
        kind = f"{DTYPES[tensor.dtype]}[{', '.join(map(str, tensor.shape))}]{device}"
        self.constants[key] = tensor
        self.constant_lines.append(f"constant {number} {_quoted(key)}: {kind} = external")
        self.body.append(f"  {value}: {kind} = constant({number})")
        return value

    # ---- nodes

    @staticmethod
    def holds(condition: Any) -> bool:
        """Whether the condition of an assertion is true in every call."""
        value = condition.meta.get("val") if isinstance(condition, torch.fx.Node) else condition
        value = expression(value)
        return value is True or value == sympy.true

    def statement(self, node: torch.fx.Node, target: Any) -> None:
        name = operator_name(target)
        schema = target._schema
        if torch.Tag.nondeterministic_seeded in target.tags:
            self.is_random = True
            values = node.meta.get("val")
            values = values if isinstance(values, (list, tuple)) else [values]
            self.draws_on_gpu |= any(isinstance(each, torch.Tensor) and each.device.type == "cuda" for each in values)
        if self.memory_of_views_unknown and name in MEMORY_VIEWS:
            for each in node.all_input_nodes:
                if base_of(each) is not each:
                    raise Refused(f"{name} of a view, in a graph with an input whose strides overlap or leave gaps", node)
        arguments: list[str] = []
        names_now = False
        for position, parameter in enumerate(schema.arguments):
            if position < len(node.args) and not parameter.kwarg_only:
                value = node.args[position]
            elif parameter.name in node.kwargs:
                value = node.kwargs[parameter.name]
            else:
                names_now = True
                if parameter.name == "dtype" and name == "aten::full" and _is_symbolic_node(node.args[1]):
                    arguments.append(f"dtype=dtype.{DTYPES[node.meta['val'].dtype]}")  # a condition of sizes is a number in the text
                elif not parameter.has_default_value():
                    arguments.append(f"{parameter.name}=none")
                continue
            if name in MEMORY_VIEWS and parameter.name == "storage_offset":
                value = self.offset_in_base(node)
            text = self.argument(value, parameter)
            names_now = names_now or parameter.kwarg_only
            arguments.append(f"{parameter.name}={text}" if names_now else text)
        self.add_results(node, f"{name}({', '.join(arguments)})")

    def offset_in_base(self, node: torch.fx.Node) -> Any:
        """Of an operator that takes elements by their place in a storage that place, counted from the first element of the tensor that it
        views: programs are given no storages. None where it names none."""
        named = dict(zip((parameter.name for parameter in node.target._schema.arguments), node.args)) | node.kwargs
        offset, base = named.get("storage_offset"), base_of(node.args[0])
        if offset is None or base.op != "placeholder" or not isinstance(base.meta.get("val"), torch.Tensor):
            return offset
        held = base.meta["val"]
        first = expression(held.storage_offset())
        if not isinstance(first, (int, sympy.Integer)) or (first != 0 and not isinstance(offset, int)):
            raise Refused("a place in the storage of an input that begins at a free place in it", node)
        if base not in self.frozen:
            self.storage_offsets[base] = int(first)
        if not isinstance(offset, int):
            return offset
        numbers = [*named["size"], *named["stride"], *held.shape, *held.stride()]
        if all(isinstance(number, int) for number in numbers) and 0 not in named["size"]:
            end = offset - int(first) + reach(named["size"], named["stride"])
            if offset < first or end > reach(held.shape, held.stride()):
                raise Refused("elements of an input's storage that are not the input's", node)
        return offset - int(first)

    def add_results(self, node: torch.fx.Node, call: str) -> None:
        """The line that gives the node's results."""
        left = ", ".join(f"{_name(result)}: {kind}" for result, kind in self.results_of(node))
        self.body.append(f"  {left}{' = ' if left else ''}{call}")

    def subgraph(self, gm: torch.fx.GraphModule) -> int:
        """The number of a new subgraph, of which all inputs and outputs are tensors, or numbers that the program knows."""
        inside = _Writer(gm, "", self.is_tangent, {}, {})
        inside.constants, inside.constant_lines, inside.symbols, inside.subgraphs = (
            self.constants,
            self.constant_lines,
            self.symbols,
            self.subgraphs,
        )
        inside.gpu = self.gpu
        header: list[str] = []
        for node in gm.graph.find_nodes(op="placeholder"):
            if isinstance(node.meta.get("val"), torch.Tensor):
                header.append(f"{_name(node.name)}: {inside.type_of(node.meta['val'])}")
                inside.names[node] = node.name
        output = next(node for node in gm.graph.nodes if node.op == "output")
        returned = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        if not all(map(gives_tensor, returned)):
            raise Refused("a body of control flow with results that are no tensors is not supported")
        used = needed(list(returned), gm.graph)
        for node in gm.graph.nodes:
            if node in used and node.op != "placeholder":
                inside.node(node)
        results = ", ".join(inside.reference(node) for node in returned)
        self.shape_env = self.shape_env or inside.shape_env
        if any(inside.storage_offsets.values()):
            raise Refused("a body of control flow with a place in the storage of an input that does not begin there")
        self.is_random = self.is_random or inside.is_random
        self.draws_on_gpu = self.draws_on_gpu or inside.draws_on_gpu
        self.gpu = inside.gpu
        number = len(self.subgraphs)
        self.subgraphs.append("\n".join([f"subgraph {number}({', '.join(header)}) {{", *inside.body, f"  return {results}", "}"]))
        return number

    def results_of(self, node: torch.fx.Node) -> list[tuple[str, str]]:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.names[node] = node.name
            return [(node.name, self.type_of(value))]
        if value is None:
            return []
        results = []
        if not isinstance(value, (list, tuple)):
            raise Refused(f"results of type {type(value).__name__} are not supported", node)
        for i, each in enumerate(value):
            part = f"{node.name}.{i}"
            self.parts[node, i] = part
            if isinstance(each, torch.Tensor):
                results.append((part, self.type_of(each)))
            elif each is None:
                results.append((part, "f32[]"))
            elif isinstance(each, (int, torch.SymInt)):  # who uses it has it as a number
                results.append((part, "i64[]"))
            else:
                raise Refused(f"results of type {type(each).__name__} are not supported", node)
        return results

    def read_element(self, node: torch.fx.Node) -> None:
        value = node.meta["val"]
        source = node.args[0].meta["val"]
        if not isinstance(value, (torch.SymInt, torch.SymFloat)):
            raise Refused("reading a boolean out of a tensor is not supported", node)
        self.shape_env = value.node.shape_env
        device = self.device_of(source)
        read = f"{operator_name(node.target)}({self.reference(node.args[0])})"
        self.body.append(f"  {_name(node.name)}: {DTYPES[source.dtype]}[]{device} = {read}")
        if isinstance(value, torch.SymInt):
            self.body.append(f"  sym {self.number(value)} = {_name(node.name)}")
            return
        element = node.name
        if source.dtype != torch.float64:
            element = f"{node.name}.wide"
            self.body.append(f"  {_name(element)}: f64[]{device} = cast({_name(node.name)})")
        self.body += self.float_binding(value.node.expr, element, device)

    def float_binding(self, symbol: Any, value: str, device: str = "") -> list[str]:
        """The symbol stands for the bits of the f64 called `value`."""
        self.symbols.setdefault(symbol)
        return [f"  {_name(value + '.bits')}: i64[]{device} = bitcast({_name(value)})", f"  sym {symbol} = {_name(value + '.bits')}"]

    def node(self, node: torch.fx.Node) -> None:
        if node.op == "get_attr":
            tensor = node.meta.get("constant")
            if tensor is None:
                tensor = _attribute(self.gm, node.target)
            if not isinstance(tensor, torch.Tensor):
                return  # the body of control flow
            self.names[node] = self.constant(tensor, str(node.target))
            return
        if node.op != "call_function":
            raise Refused(f"nodes of kind {node.op} are not supported", node)
        if node.target is operator.getitem:
            part = self.parts.get((node.args[0], node.args[1]))
            if part is None:
                raise Refused("an element of what is no list of tensors", node)
            if isinstance(node.meta.get("val"), torch.Tensor):
                self.names[node] = part
            return
        if computes_sizes_only(node):
            return
        if control_flow.operator_of(node) is not None:
            control_flow.write(self, node, Refused)
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Refused(f"'{node.target}' is no operator that toroid knows", node)
        name = operator_name(node.target)
        if name in STATEMENTS or (name == "aten::_assert_scalar" and self.holds(node.args[0])):
            return
        if name in READS_ELEMENT:
            self.read_element(node)
            return
        self.statement(node, node.target)

    # ---- the whole

    def write(self) -> GraphText:
        placeholders = self.gm.graph.find_nodes(op="placeholder")
        plan = OutputPlan(self.gm, self.is_tangent, self.offset_in_base)
        used = needed(plan.computed(), self.gm.graph)
        inputs = _Inputs()
        for position, node in enumerate(placeholders):
            self.input(inputs, position, node, node in used)
        for node in self.gm.graph.nodes:
            if node.op in ("placeholder", "output") or node not in used:
                continue
            try:
                self.node(node)
            except Refused as refused:
                refused.node = refused.node or node
                raise
        planned = plan.results()
        are_on_cpu = [node.meta["val"].device.type == "cpu" for node, _, _ in planned]
        returned = [self.result(node, made, order) for node, made, order in planned]
        results = [made for _, made, _ in planned]
        for index, made in enumerate(results):
            made.index = index
        bindings = self.bind_numbers(inputs, placeholders)
        text = [f"program {_quoted(self.name)}"]
        text += [self.declaration(symbol) for symbol in self.symbols]
        text += self.constant_lines + self.subgraphs
        text += [f"graph({', '.join(inputs.header)}) {{"] + bindings + self.body
        text += [f"  return {', '.join(returned)}", "}", ""]
        return GraphText(
            text="\n".join(text),
            constants=self.constants,
            inputs=inputs.taken,
            outputs=plan.outputs,
            results=results,
            symbols=inputs.known_symbols(),
            is_random=self.is_random,
            lazy={i: node.meta["val"].dtype for i, node in enumerate(placeholders) if self.is_lazy(node)},
            layouts=inputs.layouts,
            gpu=self.gpu,
            is_mixed=self.gpu is not None and (inputs.is_any_on_cpu or any(are_on_cpu)),
            draws_on_gpu=self.draws_on_gpu,
            updates=plan.updates,
            storage_offsets={placeholders.index(node): first for node, first in self.storage_offsets.items()},
        )

    def is_lazy(self, node: torch.fx.Node) -> bool:
        """Whether elements of the input may be still to be conjugated or negated. A tangent's may be in any call, which neither its fake
        tensor nor a guard tells."""
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg() or self.is_tangent(node))

    def input(self, inputs: _Inputs, position: int, node: torch.fx.Node, is_used: bool) -> None:
        """Adds a placeholder to the inputs."""
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            self.shape_env = value.node.shape_env
            expr = expression(value)
            if isinstance(expr, sympy.Symbol):
                inputs.numbers.setdefault(expr, position)
        if not isinstance(value, torch.Tensor):
            return
        if is_used and node in self.frozen:
            self.names[node] = self.constant(self.frozen[node], node.name)
        elif is_used:
            keeps = dims_in_memory(value)
            if keeps is None:
                self.memory_of_views_unknown = True
            try:
                inputs.header.append(f"{_name(node.name)}: {self.type_of(value, keeps is not None)}")
            except Refused as refused:
                refused.node = node
                raise
            self.names[node] = node.name
            inputs.taken.append(position)
            inputs.layouts[position] = keeps or tuple(range(value.ndim))
            inputs.is_any_on_cpu |= value.device.type == "cpu"
            for size in (*value.shape, *value.stride()):
                inputs.of_shapes |= getattr(expression(size), "free_symbols", set())
        for d, size in enumerate(value.shape):
            expr = expression(size)
            if not isinstance(expr, int) and expr.is_symbol:
                inputs.sizes.setdefault(expr, (position, d, 1, 0))
            elif (found := symbol_in_size(expr)) is not None:
                inputs.parts_of_sizes.setdefault(found[0], (position, d, *found[1:]))

    def bind_numbers(self, inputs: _Inputs, placeholders: list[torch.fx.Node]) -> list[str]:
        """Adds numbers that no size tells to the inputs, and gives the lines that make them symbols. They come in as tensors of rank 0;
        those that shapes of tensors are checked with, which a call needs before anything is computed, as the size of a tensor without
        elements."""
        taken = set(inputs.taken)
        defined = {symbol for symbol, (position, *_) in inputs.sizes.items() if position in taken}
        bindings: list[str] = []
        for symbol in list(self.symbols):
            if symbol in defined or symbol not in inputs.numbers:
                continue
            position = inputs.numbers[symbol]
            name = placeholders[position].name
            inputs.taken.append(position)
            if symbol in inputs.of_shapes and self.is_size(symbol):
                inputs.header.append(f"{_name(name)}: u8[{symbol}, 0]")
                continue
            inputs.header.append(f"{_name(name)}: {'f64' if is_float_symbol(symbol) else 'i64'}[]")
            bindings += self.float_binding(symbol, name) if is_float_symbol(symbol) else [f"  sym {symbol} = {_name(name)}"]
            inputs.is_any_on_cpu = True
        return bindings

    def is_size(self, symbol: Any) -> bool:
        """Whether the symbol of an argument of a program for the CPU can be a tensor's size."""
        if self.gpu is not None or self.shape_env is None or is_float_symbol(symbol) or str(symbol).startswith("u"):
            return False
        its = self.shape_env.var_to_range.get(symbol)
        return its is not None and bool(its.lower >= 0)

    def declaration(self, symbol: Any) -> str:
        low, high = "-inf", "inf"
        name = str(symbol)
        if self.shape_env is not None and symbol in self.shape_env.var_to_range:
            its = self.shape_env.var_to_range[symbol]
            low, high = _bound(its.lower, "-inf"), _bound(its.upper, "inf")
        if is_float_symbol(symbol):
            return f"sym {name} in [-inf, inf] from data"
        if name.startswith("u"):
            return f"sym {name} in [{low}, {high}] from data"
        return f"sym {name} in [{low}, {high}]"

    def result(self, node: torch.fx.Node, made: Output, order: tuple | None = None) -> str:
        """The name of what the program returns for the node: in this order of its dims, or that which they have in memory."""
        value = node.meta["val"]
        made.dtype = value.dtype
        made.sizes = tuple(expression(size) for size in value.shape)
        made.value = None
        name = self.reference(node)
        order = order or self.orders.get(node.name) or dims_in_memory(value)
        if order is None or order == tuple(range(len(order))):
            return name  # PyTorch takes any strides here
        place = [0] * len(order)
        for at, d in enumerate(order):
            place[d] = at
        made.place = tuple(place)
        permuted = f"{node.name}.in_memory"
        kind = f"{DTYPES[value.dtype]}[{', '.join(self.number(value.shape[d]) for d in order)}]{self.device_of(value)}"
        self.body.append(f"  {_name(permuted)}: {kind} = aten::permute({name}, [{', '.join(map(str, order))}])")
        return _name(permuted)


def _bound(value: Any, otherwise: str) -> str:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise
    return otherwise if abs(number) >= 2**62 else str(number)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def write_graph(
    gm: torch.fx.GraphModule,
    name: str = "graph",
    is_tangent: Any = lambda node: False,
    frozen: dict[torch.fx.Node, torch.Tensor] | None = None,
    orders: dict[str, tuple] | None = None,
) -> GraphText:
    """The graph as text. is_tangent(input): its views are computed, although they could be described, and calls conjugate or negate it
    where it is still to be. orders: of outputs by their names, dims from the outermost in memory on, where these are not as PyTorch's.
    Throws Refused."""
    return _Writer(gm, name, is_tangent, frozen or {}, orders or {}).write()
