// Matrix products whose result has another dtype than their factors, of integers, by groups, and with an activation.
#include "passes/decompose/formula.h"
#include "passes/decompose/operands.h"
#include "passes/decompose/precision.h"
#include "passes/decompose/same_as.h"
#include "support/error.h"

namespace toroid {
namespace {

// The factors are widened first, as the kernels of such products accumulate.
template <OperatorName op>
std::vector<Tensor> product_as(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("out_dtype").value();
  std::vector<Decomposer::Value> values;
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.type == ArgType::Tensor && !parameter.mutated)
      values.emplace_back(d.b.cast(a.tensor(parameter.name), dtype));
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
  Tensor y = d.call1("aten::addmm",
                     {a.tensor("self"), a.tensor("mat1"), a.tensor("mat2"), a.scalar("beta"), a.scalar("alpha")});
  return d.call(a.flag("use_gelu") ? "aten::gelu" : "aten::relu", {y});
}

// Products of several matrices at once. Where a factor is a matrix, `offs` says where the groups of its rows, columns or
// contracted elements end. Elements of other groups are zeros in each group's product.
std::vector<Tensor> grouped_product(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), y = a.tensor("mat2");
  const DType dtype = a.dtype("out_dtype").value_or(x.dtype());
  if (a.has("bias")) throw Error(ErrorKind::Unsupported, "_grouped_mm with a bias is not supported");
  if (x.rank() == 3 && y.rank() == 3) return {b.cast(b.matmul(x, y), dtype)};
  if (!a.has("offs")) throw Error(ErrorKind::InvalidModel, "_grouped_mm of a matrix needs the ends of its groups");
  Tensor ends = b.cast(a.tensor("offs"), DType::I64);
  const sym::Expr groups = ends.size(0);
  Tensor starts = b.pad(b.slice(ends, 0, 0, groups - 1), {1}, {0}, sym::Expr(0));
  // [groups, size]: whether element i is one of the group's.
  auto members = [&](sym::Expr size) {
    Tensor position = b.unsqueeze(b.iota({size}, 0), 0);
    return (position >= b.unsqueeze(starts, 1)) & (position < b.unsqueeze(ends, 1));
  };
  auto masked = [&](Tensor matrix, Tensor mask) {
    return where(mask, b.unsqueeze(matrix, 0), number_like(matrix, 0.0));
  };
  if (x.rank() == 2 && y.rank() == 3) {  // groups of rows
    Tensor product = b.matmul(masked(x, b.unsqueeze(members(x.size(0)), 2)), y);
    return {b.cast(b.sum(wide(product), {0}), dtype)};
  }
  if (x.rank() == 3 && y.rank() == 2) {  // groups of columns
    Tensor product = b.matmul(x, masked(y, b.unsqueeze(members(y.size(1)), 1)));
    return {b.cast(b.sum(wide(product), {0}), dtype)};
  }
  Tensor left = masked(x, b.unsqueeze(members(x.size(1)), 1));
  return {b.cast(b.matmul(left, b.expand(b.unsqueeze(y, 0), {groups, y.size(0), y.size(1)})), dtype)};
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
};

}  // namespace

std::span<const DecompositionRow> mixed_matmul_rows() { return kRows; }

}  // namespace toroid
