"""Calls of compiled graphs: from AOTAutograd's list of arguments to its list of outputs."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch.utils._sympy.printers import PythonPrinter

from .. import errors
from . import gpu
from .graph_text import GraphText
from .outputs import Output

_print = PythonPrinter().doprint


class CallError(errors.InputError, RuntimeError):
    """A call of a compiled graph with values that it cannot take: an index out of bounds, an assertion that does not hold. A RuntimeError,
    as in eager PyTorch."""


def synchronize(device: torch.device | int | None = None) -> None:
    """As torch.cuda.synchronize, and throws CallError if kernels of compiled graphs have found something wrong that no call has told
    yet: an index out of bounds, a division of an integer by zero. A graph's own later calls throw it too."""
    if torch.cuda.is_available():
        torch.cuda.synchronize(device)
    try:
        gpu.raise_failures()
    except errors.InputError as error:
        raise CallError(str(error)) from error


def _empty(size: tuple, stride: tuple, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


def allocator() -> Callable:
    """What makes outputs: (sizes, strides, dtype). PyTorch's own quick way where this version has it."""
    return getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty)


def _view(tensor: torch.Tensor, size: tuple, stride: tuple, offset: int) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


# The same without a dispatch, for tensors that are neither conjugated nor negated. The view has a version of its own, so nobody is told
# when the tensor is written to.
_quick_view = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", _view)


def has_strides(tensor: torch.Tensor, strides: tuple) -> bool:
    """Whether it lies by these strides, of which those of dims with one element say nothing."""
    return all(size == 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), strides))


def with_strides(tensor: torch.Tensor, strides: tuple) -> torch.Tensor:
    """With these strides, which may leave gaps and do not overlap: a copy, unless it has them."""
    return tensor if has_strides(tensor, strides) else tensor.new_empty_strided(tensor.shape, strides).copy_(tensor)


def draw_seed() -> int:
    """A seed for one call, drawn from PyTorch's generator: torch.manual_seed decides it."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_())


def _number(value: Any, names: dict) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return repr(value) if value == value and value not in (float("inf"), float("-inf")) else f"float('{value}')"
    return _print(value.xreplace({symbol: name for symbol, name in names.items()}))


def tuple_text(values: tuple, names: dict) -> str:
    """Python's text of a tuple of numbers and expressions over sizes. names: of their symbols."""
    return "(" + "".join(_number(value, names) + ", " for value in values) + ")"


def not_captured(args: list) -> list:
    """In the place of eager PyTorch where the other pass of training would read another state of random numbers than this one gave."""
    raise CallError(
        "a graph with dropout in attention and its gradient cannot run in a stream that is being captured\n"
        "  help: toroid makes a CUDA graph of its own; call it outside of torch.cuda.graph"
    )


def _known_sizes(result: Output) -> list[int] | None:
    """Those that it has in every call, in the order in which the program gives them."""
    if not all(isinstance(size, int) for size in result.sizes):
        return None
    return [result.sizes[d] for d in sorted(range(len(result.sizes)), key=lambda d: result.place[d] if result.place else d)]


def copy_update(given: torch.Tensor, value: torch.Tensor) -> None:
    """Writes the new value to an input whose version AOTAutograd has counted on already."""
    given.data.copy_(value)


def make_call(graph: GraphText, program: Any, eager: Callable | None = None, kind: str = "inference") -> Callable[[list], list]:
    """The callable that runs the program, in AOTAutograd's boxed convention: it empties the list of its arguments. eager: the same in eager
    PyTorch, for calls that a program on a GPU cannot be. kind: what is "forward" has results that are kept for a gradient, which has to
    know when they are written to, as by way of the tensors that they are views of; inputs that "backward" writes to get a new version
    here."""
    is_kept = kind == "forward"
    is_on_gpu = program is not None and graph.gpu is not None and program.is_for_gpu
    if program is not None:
        program.set_inputs(graph.inputs)
        program.set_outputs(
            [result.dtype for result in graph.results],
            [list(result.place) for result in graph.results],
            [result.dtype.is_complex for result in graph.results],
            [_known_sizes(result) for result in graph.results],
        )
    num_given = len(graph.results)
    copied_by_program = [] if graph.gpu is not None else [u for u in graph.updates if u.is_plain and u.position not in graph.lazy]
    if copied_by_program:
        given = {id(output) for output in (*graph.outputs, *(output.base for output in graph.outputs))}
        given |= {id(update.result) for update in graph.updates if not update.is_own or update not in copied_by_program}
        while num_given > 0 and id(graph.results[num_given - 1]) not in given:
            num_given -= 1
        program.set_updates(
            [update.result.index for update in copied_by_program],
            [update.position for update in copied_by_program],
            [id(result) in given for result in graph.results],
            copy_update,
        )
    if is_on_gpu:
        program.set_gpu(gpu.allocator(), gpu.copy_late)
        gpu.programs.add(program)
    mentioned: dict[Any, None] = {}
    for output in graph.outputs:
        base = () if output.base is None else output.base.stride
        for value in (*output.size, *output.stride, *base, output.offset, output.value):
            for symbol in getattr(value, "free_symbols", ()):
                mentioned.setdefault(symbol)
    lines = ["def call(args):"]
    names = {symbol: symbol for symbol in mentioned}
    for symbol in mentioned:
        source, *place = graph.symbols[symbol]
        value = f"args[{place[0]}]"
        if source == "size":
            _, d, factor, added = place
            value = f"({value}.size({d}) - {added}) // {factor}" if (factor, added) != (1, 0) else f"{value}.size({d})"
        lines.append(f"    {symbol} = {value}")
    for i, first in graph.storage_offsets.items():
        lines.append(f"    if args[{i}].storage_offset() != {first}:")
        lines.append("        raise CallError('a tensor that begins at another place in its storage than the one that was compiled for')")
    if program is not None and graph.results:
        given = "args"
        if graph.lazy:
            given = "given"
            lines.append("    given = args")
            for i, dtype in graph.lazy.items():
                conjugated = f"args[{i}].is_conj() or " if dtype.is_complex else ""
                lines += [f"    if {conjugated}args[{i}].is_neg():", "        given = list(args) if given is args else given"]
                lines.append(f"        given[{i}] = args[{i}].resolve_conj().resolve_neg()")
        seed = "-1" if not graph.is_random else f"draw_gpu_seed({graph.gpu})" if graph.draws_on_gpu else "draw_seed()"
        if is_on_gpu:
            seed = f"-1 if is_capturing() else {seed}" if graph.is_random else seed
            lines += ["    try:", f"        made, instead = run({given}, {seed})"]
            lines += ["        if made is None:", "            args.clear()", "            return instead"]
        else:
            lines += ["    try:", f"        made = run({given}, {seed})"]
        lines += ["    except InputError as error:", "        raise CallError(str(error)) from error"]
    for update in graph.updates:
        if update not in copied_by_program:
            lines.append(f"    copy_update(args[{update.position}], made[{update.result.index}])")
    if kind == "backward" and graph.updates:
        lines.append(f"    increment_version(({''.join(f'args[{update.position}], ' for update in graph.updates)}))")
    # What others are views of gets the strides that leave gaps once.
    with_gaps = {output.base.index: output.base for output in graph.outputs if output.base is not None and output.base.stride}
    for i, base in with_gaps.items():
        lines.append(f"    made[{i}] = with_strides(made[{i}], {tuple_text(base.stride, names)})")
    texts: list[str] = []
    for i, output in enumerate(graph.outputs):
        texts.append(_output(output, names, graph.lazy, is_kept))
    for i in sorted({output.index for output in graph.outputs if output.kind in ("argument", "view")}):
        lines.append(f"    a{i} = args[{i}]")
    lines.append("    args.clear()")
    if graph.results and texts == [f"made[{i}]" for i in range(num_given)]:
        lines.append("    return made")
    else:
        lines += [f"    o{i} = {text}" for i, text in enumerate(texts)]
        lines.append(f"    return [{', '.join(f'o{i}' for i in range(len(texts)))}]")
    scope = {
        "run": gpu.run_on(graph.gpu, program.call, eager, graph.layouts) if is_on_gpu else program.call if program is not None else None,
        "is_capturing": torch._C._cuda_isCurrentStreamCapturing if is_on_gpu else None,
        "draw_gpu_seed": gpu.draw_seed,
        "math": math,  # of the printed expressions, as torch is
        "torch": torch,
        "draw_seed": draw_seed,
        "view": _view,
        "quick_view": _quick_view,
        "with_strides": with_strides,
        "copy_update": copy_update,
        "increment_version": torch.autograd.graph.increment_version,
        "InputError": errors.InputError,
        "CallError": CallError,
    }
    exec("\n".join(lines), scope)  # noqa: S102: the text is made of expressions over sizes
    call = scope["call"]
    call._boxed_call = True
    return call


def _output(output: Output, names: dict, lazy: dict, is_kept: bool) -> str:
    quick_view = "view" if is_kept else "quick_view"
    if output.kind == "program" and output.stride:
        return f"with_strides(made[{output.index}], {tuple_text(output.stride, names)})"
    if output.kind == "program":
        return f"made[{output.index}]"
    if output.kind == "argument":
        return f"a{output.index}"
    if output.kind == "of_output":
        return f"o{output.index}"
    if output.kind == "view":
        size, stride = tuple_text(output.size, names), tuple_text(output.stride, names)
        view = "view" if output.index in lazy else quick_view
        return f"{view}(a{output.index}, {size}, {stride}, {_number(output.offset, names)})"
    if output.kind == "view_of_result":
        size, stride = tuple_text(output.size, names), tuple_text(output.stride, names)
        return f"{quick_view}(made[{output.base.index}], {size}, {stride}, {_number(output.offset, names)})"
    return _number(output.value, names)
