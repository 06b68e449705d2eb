// ATen's softmax, log_softmax and logsumexp.
#include "formula/nn/softmax.h"

#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

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

std::vector<Tensor> logsumexp(Decomposer&, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, self);
  return {over.shaped(compute_wide(self, [&](Tensor x) { return formula::logsumexp(x, over.dims); }))};
}

constexpr DecompositionRow kSoftmaxRows[] = {
    {"aten::softmax.int", along_rows<formula::softmax>},
    {"aten::_softmax", along_rows<formula::softmax>},
    {"aten::special_softmax", along_rows<formula::softmax>},
    {"aten::_safe_softmax", along_rows<formula::safe_softmax>},
    {"aten::log_softmax.int", along_rows<formula::log_softmax>},
    {"aten::_log_softmax", along_rows<formula::log_softmax>},
    {"aten::special_log_softmax", along_rows<formula::log_softmax>},
    {"aten::logsumexp", logsumexp},
    {"aten::special_logsumexp", logsumexp},
};

}  // namespace

std::span<const DecompositionRow> softmax_rows() { return kSoftmaxRows; }

}  // namespace toroid
