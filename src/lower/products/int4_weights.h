// Weights of int4 in the graph: numbers from 0 to 15, two in a byte or alone, that become floats by sums and products with scales and zero
// points.
//
//   numbers = bit_and(bytes, 15), shift_right(bytes, 4), stacked
//   weight  = (cast(numbers) - 8) * scales + zeros          each with views between
//
// An element of such a value is scale * number + zero. What the three are is read off the graph; how the numbers lay in bytes does not
// matter.
#pragma once

#include <functional>
#include <optional>

#include "graph/graph.h"
#include "loop/loop.h"

namespace toroid {

struct Int4Element {
  loop::ExprId number;       // an integer
  loop::ExprId scale, zero;  // F32
};

// A matrix of them, at a row and a column.
using AtInt4 = std::function<Int4Element(sym::Expr row, sym::Expr column)>;

// A value's element at an index, as an expression.
using ElementAt = std::function<loop::ExprId(ValueId, const std::vector<sym::Expr>&)>;

// Is the value made of numbers of four bits as above? `may_round`: also where it is rounded to 16 bits on the way, which is left out then.
bool holds_int4(const Graph& graph, ValueId id, bool may_round);
// Needs that.
Int4Element int4_element(const Graph& graph, loop::ExprTable& exprs, const ElementAt& at, ValueId id, bool may_round,
                         const std::vector<sym::Expr>& index);

}  // namespace toroid
