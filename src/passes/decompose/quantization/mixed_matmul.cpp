// Matrix products whose result has another dtype than their factors, of integers, by groups, and with an activation.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
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

// [M, K] by int8 weights [N, K], a scale for each of the N results.
std::vector<Tensor> int8_weight_product(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), weight = a.tensor("mat2");
  Tensor y = wide(d.b.matmul(wide(x), d.b.transpose(d.b.cast(weight, compute_dtype(x.dtype())), 0, 1)));
  return {d.b.cast(y * wide(a.tensor("scales")), x.dtype())};
}

std::vector<Tensor> addmm_activation(Decomposer& d, const Args& a) {
  Tensor y = d.call1("aten::addmm", {a.tensor("self"), a.tensor("mat1"), a.tensor("mat2"), a.scalar("beta"), a.scalar("alpha")});
  return d.call(a.flag("use_gelu") ? "aten::gelu" : "aten::relu", {y});
}

// A product by groups, or of equally many matrices on both sides.
Tensor grouped(Tensor x, Tensor y, Tensor ends) {
  Builder& b = x.builder();
  if (x.rank() == 3 && y.rank() == 3) return b.matmul(x, y);
  const sym::Expr groups = ends.size(0);
  b.require_equal(x.size(-1), y.size(-2), "the depth of a product by groups");
  if (y.rank() == 3) b.require_equal(y.size(0), groups, "a matrix a group");
  if (x.rank() == 3) b.require_equal(x.size(0), groups, "a matrix a group");
  Sizes sizes = {x.size(-2), y.size(-1)};
  if (x.rank() == 2 && y.rank() == 2) sizes.insert(sizes.begin(), groups);
  return b.library("products.grouped", {x, y, b.cast(ends, DType::I64)}, {{.dtype = x.dtype(), .sizes = sizes}})[0];
}

void require_matrices(const Args& a, Tensor x, Tensor y, Tensor ends) {
  const auto is_rank = [](Tensor t) { return t.rank() == 2 || t.rank() == 3; };
  if (!is_rank(x) || !is_rank(y) || x.dtype() != y.dtype()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} takes two operands of rank 2 or 3 and of one dtype", a.schema().name));
  }
  if (x.rank() == 3 && y.rank() == 3) return;
  if (!ends.defined() || ends.rank() != 1) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} of a matrix needs the ends of its groups", a.schema().name));
  }
}

// Where a factor is a matrix, `offs` says where the groups of its rows, columns or contracted elements end.
std::vector<Tensor> grouped_product(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("mat2"), ends = a.optional_tensor("offs");
  if (a.has("bias")) throw Error(ErrorKind::Unsupported, "_grouped_mm with a bias is not supported");
  require_matrices(a, x, y, ends);
  return {d.b.cast(grouped(x, y, ends), a.dtype("out_dtype").value_or(x.dtype()))};
}

// What the library transformers registers for mixtures of experts: rows, sorted by expert, by each expert's matrix.
std::vector<Tensor> grouped_rows(Decomposer&, const Args& a) {
  Tensor x = a.tensor("input"), weight = a.tensor("weight"), ends = a.tensor("offs");
  require_matrices(a, x, weight, ends);
  return {grouped(x, weight, ends)};
}

std::vector<Tensor> grouped_rows_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input"), weight = a.tensor("weight"), ends = a.tensor("offs"), grad = a.tensor("grad_output");
  require_matrices(a, x, weight, ends);
  require_matrices(a, grad, weight, ends);
  return {grouped(grad, d.b.transpose(weight, 1, 2), ends), grouped(d.b.transpose(x, 0, 1), grad, ends)};
}

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> mixed_matmul_rows() { return kRows; }

}  // namespace toroid
