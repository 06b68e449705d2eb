// ATen's matrix products and what is made of them: linear, addmm, dot, outer, kron, matrix chains and powers; and their gradients.
#include "formula/math/matmul.h"

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> matmul(Decomposer&, const Args& a) { return {formula::matmul(a.tensor("self"), a.tensor("other"))}; }
std::vector<Tensor> mm(Decomposer&, const Args& a) { return {formula::matmul(a.tensor("self"), a.tensor("mat2"))}; }
std::vector<Tensor> mv(Decomposer&, const Args& a) { return {formula::matmul(a.tensor("self"), a.tensor("vec"))}; }
std::vector<Tensor> dot(Decomposer&, const Args& a) { return {formula::dot(a.tensor("self"), a.tensor("tensor"))}; }
std::vector<Tensor> vdot(Decomposer&, const Args& a) { return {formula::dot(a.tensor("self"), a.tensor("other"))}; }

std::vector<Tensor> linear(Decomposer&, const Args& a) {
  return {formula::linear(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"))};
}

// beta * self + alpha * product
std::vector<Tensor> added(const Args& a, Tensor product) {
  return {formula::weighted_sum(a.tensor("self"), a.scalar("beta"), product, a.scalar("alpha"))};
}

std::vector<Tensor> addmm(Decomposer&, const Args& a) { return added(a, formula::matmul(a.tensor("mat1"), a.tensor("mat2"))); }

// Of a matrix without elements PyTorch's kernel gives beta * self, in self's own shape.
std::vector<Tensor> addmv(Decomposer& d, const Args& a) {
  if (a.tensor("mat").numel().is_const(0)) {
    Tensor self = a.tensor("self");
    Tensor y = scaled(is_number(a.scalar("beta"), 0) ? d.b.full(self.sizes(), self.dtype(), 0.0) : self,
                      formula::factor_of(a.scalar("beta"), self.dtype()));
    return {d.recorded.size() == 1 ? d.b.expand(y, d.recorded[0].sizes) : y};
  }
  return added(a, formula::matmul(a.tensor("mat"), a.tensor("vec")));
}

std::vector<Tensor> baddbmm(Decomposer&, const Args& a) { return added(a, formula::matmul(a.tensor("batch1"), a.tensor("batch2"))); }

// The sum over the batch is one product with the batch folded into the contracted dim.
std::vector<Tensor> addbmm(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("batch1"), y = a.tensor("batch2");
  Tensor left = d.b.reshape(d.b.permute(x, {1, 0, 2}), {x.size(1), x.size(0) * x.size(2)});
  Tensor right = d.b.reshape(y, {y.size(0) * y.size(1), y.size(2)});
  return added(a, d.b.matmul(left, right));
}

std::vector<Tensor> outer(Decomposer&, const Args& a) { return {formula::outer(a.tensor("self"), a.tensor("vec2"))}; }
std::vector<Tensor> addr(Decomposer&, const Args& a) { return added(a, formula::outer(a.tensor("vec1"), a.tensor("vec2"))); }

std::vector<Tensor> kron(Decomposer&, const Args& a) { return {formula::kron(a.tensor("self"), a.tensor("other"))}; }
std::vector<Tensor> vecdot(Decomposer&, const Args& a) { return {formula::vecdot(a.tensor("x"), a.tensor("y"), a.constant("dim"))}; }

std::vector<Tensor> linalg_cross(Decomposer&, const Args& a) {
  return {formula::cross(a.tensor("self"), a.tensor("other"), a.constant("dim"))};
}

// Without a dim, torch.cross takes the first one of size 3.
std::vector<Tensor> cross(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  int64_t dim = 0;
  if (a.has("dim")) {
    dim = a.constant("dim");
  } else {
    while (dim < x.rank() && !x.size(dim).is_const(3)) ++dim;
    if (dim == x.rank()) throw Error(ErrorKind::InvalidModel, "cross: no dimension of size 3");
  }
  return {formula::cross(x, a.tensor("other"), dim)};
}

std::vector<Tensor> multi_dot(Decomposer&, const Args& a) { return {formula::multi_dot(a.tensors("tensors"))}; }
std::vector<Tensor> chain_matmul(Decomposer&, const Args& a) { return {formula::multi_dot(a.tensors("matrices"))}; }

std::vector<Tensor> matrix_power(Decomposer& d, const Args& a) {
  Tensor base = a.tensor("self");
  const int64_t n = a.constant("n");
  if (n >= 0) return {formula::matrix_power(base, n)};
  return {formula::matrix_power(d.call1("aten::linalg_inv", {base}), -n)};
}

// ---- gradients ------------------------------------------------------------------------------------------------------

// Of y = a b: da = g b^T, db = a^T g. Vectors count as a row or a column, and dims that were broadcast are summed.
std::vector<Tensor> matmul_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), other = a.tensor("other"), grad = a.tensor("grad");
  Tensor x = self.rank() == 1 ? b.unsqueeze(self, 0) : self, y = other.rank() == 1 ? b.unsqueeze(other, 1) : other;
  if (other.rank() == 1) grad = b.unsqueeze(grad, -1);
  if (self.rank() == 1) grad = b.unsqueeze(grad, -2);
  auto transposed = [&](Tensor t) { return b.transpose(t, -1, -2); };
  auto gradient = [&](Tensor product, Tensor matrix, Tensor argument) {
    return b.reshape(d.call1("aten::sum_to_size", {product, matrix.sizes()}), argument.sizes());
  };
  std::vector<Tensor> gradients(2);
  if (is_wanted(a, "mask", 0)) gradients[0] = gradient(b.matmul(grad, transposed(y)), x, self);
  if (is_wanted(a, "mask", 1)) gradients[1] = gradient(b.matmul(transposed(x), grad), y, other);
  return gradients;
}

// Of x [.., in], weight [out, in] and bias [out].
std::vector<Tensor> linear_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output"), weight = a.tensor("weight");
  auto as_rows = [&](Tensor t) { return b.reshape(t, {sym::product(t.sizes().without_last(1)), t.size(-1)}); };
  Tensor rows = as_rows(grad);
  std::vector<Tensor> gradients(3);
  if (is_wanted(a, 0)) gradients[0] = b.reshape(b.matmul(rows, weight), x.sizes());
  if (is_wanted(a, 1)) gradients[1] = b.matmul(b.transpose(rows, 0, 1), as_rows(x));
  if (is_wanted(a, 2)) gradients[2] = wide_sum(rows, {0});
  return gradients;
}

constexpr DecompositionRow kMatmulRows[] = {
    {"aten::matmul_backward", matmul_backward},
    {"aten::linear_backward", linear_backward},
    {"aten::matmul", matmul},
    {"aten::mm", mm},
    {"aten::bmm", mm},
    {"aten::mv", mv},
    {"aten::dot", dot},
    {"aten::vdot", vdot},
    {"aten::linear", linear},
    {"aten::addmm", addmm},
    {"aten::addmv", addmv},
    {"aten::addbmm", addbmm},
    {"aten::baddbmm", baddbmm},
    {"aten::addr", addr},
    {"aten::outer", outer},
    {"aten::ger", outer},
    {"aten::kron", kron},
    {"aten::linalg_vecdot", vecdot},
    {"aten::linalg_cross", linalg_cross},
    {"aten::cross", cross},
    {"aten::linalg_multi_dot", multi_dot},
    {"aten::chain_matmul", chain_matmul},
    {"aten::matrix_power", matrix_power},
    {"aten::linalg_matrix_power", matrix_power},
};

}  // namespace

std::span<const DecompositionRow> matmul_rows() { return kMatmulRows; }

}  // namespace toroid
