// Masks of attention that say what attention can do without reading them.
//
//   m = where(le(column, row), 0.0, -inf)                    a triangle         y = attention(q, k, v, causal=true)
//   y = attention(q, k, v, m, causal=false)           =>
//   m = where(ge(position, 0), 0.0, -inf)                    true everywhere    y = attention(q, k, v, causal=false)
//
// Exporters write such masks although nothing is padded. They are known from positions and small constants of the program: conjunctions of
// comparisons, and what a pass folded of them. Constants that have names are weights, which may be exchanged: they are not looked at.
#pragma once

#include "graph/graph.h"

namespace toroid {

// What is added to a score and is not greater hides it, as -inf does: beside it a score is lost in rounding. Models hide by the lowest
// number of bfloat16 or float32.
inline constexpr double kHides = -1e37;

// Needs core level. Keeps outputs and names. True if a mask was folded.
bool fold_masks(Program& program);

// Is it known of the mask that each row sees a key, where there are any?
bool shows_each_row_a_key(const Program& program, const Graph& graph, ValueId mask, bool negated = false);

}  // namespace toroid
