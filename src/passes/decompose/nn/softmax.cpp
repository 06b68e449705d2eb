// Softmax and its logarithm, from the row's largest element so that nothing overflows.
//
// Written as separate reductions over one dim: they share the loop over rows, and scheduling makes them stages of one
// kernel. Terms that would not be normal numbers are 0: scores that are masked with -100, as shifted windows of images are, would make rows of them,
// and processors take a hundred times as long for each.
#include <limits>

#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor softmax_of(Tensor x, int64_t dim) {
  Tensor e = exp_normal(x - reduce_keeping(ReduceOp::Max, x, {dim}));
  return e * reciprocal(reduce_keeping(ReduceOp::Sum, e,
                                       {dim}));  // of a sum between 1 and the row's length, so it neither overflows nor underflows
}

Tensor log_softmax_of(Tensor x, int64_t dim) {
  Tensor shifted = x - reduce_keeping(ReduceOp::Max, x, {dim});
  return shifted - log(reduce_keeping(ReduceOp::Sum, exp_normal(shifted), {dim}));
}

// Rows that are masked out entirely give zeros instead of NaN.
Tensor safe_softmax_of(Tensor x, int64_t dim) {
  Tensor is_masked = eq(reduce_keeping(ReduceOp::Max, x, {dim}), -kInfinity);
  return where(is_masked, 0, softmax_of(x, dim));
}

// In the dtype that the argument `dtype` asks for, else in x's own; `half_to_float` asks for F32.
template <Tensor (*f)(Tensor, int64_t)>
std::vector<Tensor> along_rows(Decomposer& d, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  DType dtype = as_floating(self.dtype());
  if (has_parameter(a, "dtype")) dtype = a.dtype("dtype").value_or(dtype);
  if (has_parameter(a, "half_to_float") && a.flag("half_to_float")) dtype = DType::F32;
  const AlongDim along = along_dim(self, a.constant("dim"));
  return along.results({d.b.cast(f(d.b.cast(along.x, compute_dtype(dtype)), along.dim), dtype)});
}

// A maximum that is infinite is taken off as zero: infinity minus infinity would be NaN.
std::vector<Tensor> logsumexp(Decomposer&, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, self);
  return {over.shaped(compute_wide(self, [&](Tensor x) {
    Tensor largest = reduce_keeping(ReduceOp::Max, x, over.dims);
    Tensor shift = where(eq(abs(largest), kInfinity), 0, largest);
    Tensor sum = reduce_keeping(ReduceOp::Sum, exp_normal(x - shift), over.dims);
    return log(sum) + shift;
  }))};
}

constexpr DecompositionRow kRows[] = {
    {"aten::softmax.int", along_rows<softmax_of>},
    {"aten::_softmax", along_rows<softmax_of>},
    {"aten::special_softmax", along_rows<softmax_of>},
    {"aten::_safe_softmax", along_rows<safe_softmax_of>},
    {"aten::log_softmax.int", along_rows<log_softmax_of>},
    {"aten::_log_softmax", along_rows<log_softmax_of>},
    {"aten::special_log_softmax", along_rows<log_softmax_of>},
    {"aten::logsumexp", logsumexp},
    {"aten::special_logsumexp", logsumexp},
};

}  // namespace

std::span<const DecompositionRow> softmax_rows() { return kRows; }

}  // namespace toroid
