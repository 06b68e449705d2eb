"""Numbers of FX graphs that no call has told yet: SymPy's expressions over the symbols of sizes."""

from __future__ import annotations

from typing import Any

import sympy
import torch


def is_symbolic(value: Any) -> bool:
    """Whether the value is a number that each call may have another one of."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def expression(value: Any) -> Any:
    """The sympy expression of a symbolic number; ints as they are."""
    if not is_symbolic(value):
        return value
    expr = value.node.expr
    # What an assertion says of a number that data tell is a fact only behind the assertion, which is about the number itself.
    as_read = getattr(value.node, "_expr", expr)
    if any(str(symbol).startswith("u") for symbol in getattr(as_read, "free_symbols", ())):
        expr = as_read
    if isinstance(value, torch.SymInt) and expr.is_number:
        return int(expr)
    return expr


def symbol_in_size(size: Any) -> tuple | None:
    """(symbol, factor, added) of a size that is symbol * factor + added; else None."""
    if not isinstance(size, sympy.Expr) or len(size.free_symbols) != 1:
        return None
    (symbol,) = size.free_symbols
    factor, added = size.coeff(symbol, 1), size.coeff(symbol, 0)
    is_sum = factor.is_Integer and added.is_Integer and factor > 0 and size == symbol * factor + added
    return (symbol, int(factor), int(added)) if is_sum else None


def is_float_symbol(symbol: Any) -> bool:
    """Whether the symbol stands for a float."""
    return str(symbol).startswith(("zf", "zuf"))


def hint(value: Any) -> int:
    """Of a number what it was when the graph was traced; of one that data tell a large number."""
    if isinstance(value, torch.SymInt):
        traced = value.node.hint
        return int(traced) if traced is not None else 1 << 40
    return int(value)
