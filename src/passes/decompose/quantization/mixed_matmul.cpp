// Matrix products whose result has another dtype than their factors, of integers, by groups, and with an activation.
#include "base/error.h"
#include "formula/math/matmul.h"
#include "formula/quantization/integer_weights.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/arguments/same_as.h"

namespace toroid {
namespace {

// The factors are widened first, as the kernels of such products accumulate.
template <OperatorName op>
std::vector<Tensor> product_as(Decomposer& d, const Args& a) {
  const DType dtype = required_dtype(a, "out_dtype");
  std::vector<Decomposer::Value> values;
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.type == ArgType::Tensor && !parameter.mutated) values.emplace_back(d.b.cast(a.tensor(parameter.name), dtype));
    if (parameter.type == ArgType::Scalar) values.emplace_back(a.raw(parameter.name));
  }
  return d.call(op.text, std::move(values));
}

// int8 by int8 gives int32.
std::vector<Tensor> integer_product(Decomposer& d, const Args& a) {
  return {d.b.matmul(d.b.cast(a.tensor("self"), DType::I32), d.b.cast(a.tensor("mat2"), DType::I32))};
}

std::vector<Tensor> int8_weight_product(Decomposer&, const Args& a) {
  return {formula::int8_weight_product(a.tensor("self"), a.tensor("mat2"), a.tensor("scales"))};
}

std::vector<Tensor> addmm_activation(Decomposer& d, const Args& a) {
  Tensor y = d.call1("aten::addmm", {a.tensor("self"), a.tensor("mat1"), a.tensor("mat2"), a.scalar("beta"), a.scalar("alpha")});
  return d.call(a.flag("use_gelu") ? "aten::gelu" : "aten::relu", {y});
}

std::vector<Tensor> grouped_product(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  if (a.has("bias")) throw Error(ErrorKind::Unsupported, "_grouped_mm with a bias is not supported");
  Tensor product = formula::grouped_matmul(x, a.tensor("mat2"), a.optional_tensor("offs"));
  return {d.b.cast(product, a.dtype("out_dtype").value_or(x.dtype()))};
}

// What the library transformers registers for mixtures of experts: rows, sorted by expert, by each expert's matrix.
std::vector<Tensor> grouped_rows(Decomposer&, const Args& a) {
  return {formula::grouped_matmul(a.tensor("input"), a.tensor("weight"), a.tensor("offs"))};
}

std::vector<Tensor> grouped_rows_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input"), weight = a.tensor("weight"), ends = a.tensor("offs"), grad = a.tensor("grad_output");
  return {formula::grouped_matmul(grad, d.b.transpose(weight, 1, 2), ends), formula::grouped_matmul(d.b.transpose(x, 0, 1), grad, ends)};
}

constexpr DecompositionRow kMixedMatmulRows[] = {
    {"aten::mm.dtype", product_as<"aten::mm">},
    {"aten::bmm.dtype", product_as<"aten::bmm">},
    {"aten::addmm.dtype", product_as<"aten::addmm">},
    {"aten::baddbmm.dtype", product_as<"aten::baddbmm">},
    {"aten::_int_mm", integer_product},
    {"aten::_weight_int8pack_mm", int8_weight_product},
    {"aten::_addmm_activation", addmm_activation},
    {"aten::_grouped_mm", grouped_product},
    {"transformers::grouped_mm_fallback", grouped_rows},
    {"transformers::grouped_mm_fallback_backward", grouped_rows_backward},
};

}  // namespace

std::span<const DecompositionRow> mixed_matmul_rows() { return kMixedMatmulRows; }

}  // namespace toroid
