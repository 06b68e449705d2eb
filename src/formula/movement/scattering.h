// Writing elements by index or mask.
//
// The result is x with some elements replaced or combined with others, in x's dtype; what is written is brought to that dtype. Numbers that
// are combined count as integers where they are Bool, and are combined in F32 where they are F16 or BF16. Indices are integers, in bounds
// unless said otherwise; where several name one element, `Set` takes any of what is written.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// What becomes of elements and what is written to them. Means divide sums by the number of terms; those of integers round down.
enum class ScatterReduction { Sum, Product, Mean, Max, Min };

// ---- along one dim ----------------------------------------------------------------------------------------------------

// result[.., index[.., i, ..], ..] op= source[.., i, ..] along `dim`. `source` is at least as large as the index, and what lies beyond is
// not used; a single number is written everywhere.
Tensor scatter(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterMode mode = ScatterMode::Set);
// Without `include_self` the old value does not count where something is written.
Tensor scatter_reduce(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterReduction reduction, bool include_self);

// The same of slices: `index`, a vector or a number, names those of x along `dim` that the slices of `source` are written to, or a number.
// Indices may be negative and count from the end.
Tensor scatter_slices(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterMode mode = ScatterMode::Set);
Tensor reduce_slices(Tensor x, int64_t dim, Tensor index, Tensor source, ScatterReduction reduction, bool include_self);

// ---- at several dims --------------------------------------------------------------------------------------------------

// x[indices] = values, or += with `accumulate`, as advanced_index (basics/index_tensors.h) places the dims. Indices may be negative.
//
// One of them may be a mask when it stands alone (is_single_mask). Its values may be one for all that it selects, or as many as it selects:
// how many, a binding of the graph then checks when the program runs. Other masks become positions first (positions_of_mask).
Tensor index_put(Tensor x, const std::vector<Tensor>& indices, Tensor values, bool accumulate);
bool is_single_mask(const std::vector<Tensor>& indices);

// x[indices] += values where `mask` is true, which broadcasts with the values; elsewhere the indices may be anything.
Tensor masked_index_add(Tensor x, Tensor mask, const std::vector<Tensor>& indices, Tensor values);

// x as if it were a vector, with x[index] = source, or += with `accumulate`. Indices may be negative.
Tensor put(Tensor x, Tensor index, Tensor source, bool accumulate);

// ---- masks ------------------------------------------------------------------------------------------------------------

// `value` where the mask is true; both broadcast with x.
Tensor masked_fill(Tensor x, Tensor mask, Tensor value);
// The k-th true element of the mask takes the k-th element of `source`. x and the mask broadcast.
Tensor masked_scatter(Tensor x, Tensor mask, Tensor source);

// I64 [size, rank]: the positions of the first `size` elements of x that are not 0, one row each; rows that nothing is left for hold
// `fill`.
Tensor nonzero_static(Tensor x, sym::Expr size, sym::Expr fill);

}  // namespace toroid::formula
