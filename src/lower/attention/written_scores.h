// An attention's scores as one expression, with the masks that they are hidden by (passes/attention/write_scores.h).
#pragma once

#include <functional>

#include "graph/graph.h"
#include "loop/loop.h"

namespace toroid {

// The scores at `index`, in which the accumulator 0 stands for the product: computed there as far as that is cheap. `of_product`: by value,
// what depends on the product, none of which is ever in memory. `from_memory`: the element of another value, which then is there.
loop::ExprId written_scores(const Graph& graph, loop::ExprTable& exprs, ValueId scores, const std::vector<sym::Expr>& index,
                            const std::vector<bool>& of_product,
                            const std::function<loop::ExprId(ValueId, const std::vector<sym::Expr>&)>& from_memory);

}  // namespace toroid
