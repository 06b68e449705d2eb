// The operands of element-wise operators: tensors or numbers, brought to the dtype that PyTorch computes them in.
//
// Exported graphs pass numbers to Tensor overloads (aten::add.Tensor(x, 1)), so one function serves the overloads
// Tensor, Scalar and Scalar_Tensor of an operator: it asks what each argument is.
//
//   std::vector<Tensor> hypot(Decomposer& d, const Args& a) {
//     const DType dtype = as_floating(promoted_dtype(a, {"self", "other"}));
//     auto f = [](Tensor x, Tensor y) { return apply(ScalarOp::Hypot, x, y); };
//     return combine(d, a, dtype, f, "self", "other");
//   }
#pragma once

#include <initializer_list>
#include <string_view>

#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// The name of the operator's i-th argument.
inline std::string_view parameter(const Args& a, size_t i) { return a.schema().parameters.at(i).name; }

// Whether the argument is a number rather than a tensor.
bool is_number_argument(const Args& a, std::string_view name);

// The dtype that these arguments promote to; absent ones do not count. Throws Error{Unsupported} when it is complex.
DType promoted_dtype(const Args& a, std::initializer_list<std::string_view> names);

// The argument as a tensor of `dtype`; a number becomes a rank 0 tensor.
Tensor operand(Decomposer& d, const Args& a, std::string_view name, DType dtype);

// f over these arguments, computed in `dtype` (F32 where it is a reduced float) and rounded to it.
template <class F, class... Names>
std::vector<Tensor> combine(Decomposer& d, const Args& a, DType dtype, F f, Names... names) {
  const DType wide = compute_dtype(dtype);
  return {d.b.cast(f(operand(d, a, names, wide)...), dtype)};
}

}  // namespace toroid
