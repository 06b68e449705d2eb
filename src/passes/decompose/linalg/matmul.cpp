// Matrix products and what is made of them: linear, addmm, dot, outer, kron, matrix chains and powers.
//
// A product keeps the whole Matmul operation; biases and scales stay outside as broadcast arithmetic, so that they fuse
// with whatever follows. Leading dims are folded into rows when the right side is a single matrix:
//
//   linear(x [B, T, K], w [N, K], bias [N])  =>  reshape(matmul(reshape(x, [B*T, K]), permute(w)), [B, T, N]) + bias
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "formula/math/dequantised_product.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Tensor inner_product(Tensor x, Tensor y) {
  Builder& b = x.builder();
  b.require_equal(x.size(0), y.size(0), "dot");
  return b.cast(b.sum(wide(x) * wide(y), {0}), x.dtype());
}

// [M…, K] x [K, N] as one product with product(M…) rows.
Tensor fold_rows(Tensor x, Tensor matrix) {
  Builder& b = x.builder();
  Sizes sizes = x.sizes();
  sizes.pop_back();
  Tensor rows = b.reshape(x, {sym::product(sizes), x.size(-1)});
  sizes.push_back(matrix.size(-1));
  Tensor product = dequantised_product(rows, matrix);
  return b.reshape(product.defined() ? product : b.matmul(rows, matrix), sizes);
}

// torch.matmul: a vector on the left is a row, on the right a column; batch dims broadcast.
Tensor product(Tensor x, Tensor y) {
  Builder& b = x.builder();
  if (x.rank() == 0 || y.rank() == 0) throw Error(ErrorKind::InvalidModel, "matmul needs tensors of rank 1 or more");
  if (x.rank() == 1 && y.rank() == 1) return inner_product(x, y);
  if (x.rank() == 1) return b.squeeze(product(b.unsqueeze(x, 0), y), -2);
  if (y.rank() == 1) return b.squeeze(product(x, b.unsqueeze(y, 1)), -1);
  if (y.rank() == 2) return fold_rows(x, y);
  return b.matmul(x, y);
}

// A number as it multiplies tensors of this dtype.
Scalar converted(const Scalar& number, DType dtype) {
  const auto* real = std::get_if<double>(&number);
  return real != nullptr && is_integral(dtype) ? Scalar(sym::Expr(static_cast<int64_t>(*real))) : number;
}

// beta*x + alpha*y in y's dtype; with beta 0 not even a NaN of x counts.
Tensor blend(Tensor x, Scalar beta, Tensor y, Scalar alpha) {
  Builder& b = y.builder();
  beta = converted(beta, x.dtype());
  alpha = converted(alpha, y.dtype());
  if (is_number(beta, 0)) return scaled(y, alpha);
  if (is_number(beta, 1) && is_number(alpha, 1)) return x + y;
  const DType dtype = result_dtype(std::vector<Tensor>{x, y});
  return b.cast(scaled(wide(x), beta) + scaled(wide(y), alpha), dtype);
}

std::vector<Tensor> matmul(Decomposer&, const Args& a) { return {product(a.tensor("self"), a.tensor("other"))}; }
std::vector<Tensor> mm(Decomposer&, const Args& a) { return {product(a.tensor("self"), a.tensor("mat2"))}; }
std::vector<Tensor> mv(Decomposer&, const Args& a) { return {product(a.tensor("self"), a.tensor("vec"))}; }
std::vector<Tensor> dot(Decomposer&, const Args& a) { return {inner_product(a.tensor("self"), a.tensor("tensor"))}; }
std::vector<Tensor> vdot(Decomposer&, const Args& a) { return {inner_product(a.tensor("self"), a.tensor("other"))}; }

std::vector<Tensor> linear(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input"), weight = a.tensor("weight"), bias = a.optional_tensor("bias");
  Tensor y = product(x, weight.rank() == 1 ? weight : d.b.transpose(weight, 0, 1));
  return {bias.defined() ? y + bias : y};
}

std::vector<Tensor> addmm(Decomposer&, const Args& a) {
  return {blend(a.tensor("self"), a.scalar("beta"), product(a.tensor("mat1"), a.tensor("mat2")), a.scalar("alpha"))};
}

// Of a matrix without elements PyTorch's kernel gives beta * self, in self's own shape.
std::vector<Tensor> addmv(Decomposer& d, const Args& a) {
  if (a.tensor("mat").numel().is_const(0)) {
    Tensor self = a.tensor("self");
    Tensor y = scaled(is_number(a.scalar("beta"), 0) ? d.b.full(self.sizes(), self.dtype(), 0.0) : self,
                      converted(a.scalar("beta"), self.dtype()));
    return {d.recorded.size() == 1 ? d.b.expand(y, d.recorded[0].sizes) : y};
  }
  return {blend(a.tensor("self"), a.scalar("beta"), product(a.tensor("mat"), a.tensor("vec")), a.scalar("alpha"))};
}

std::vector<Tensor> baddbmm(Decomposer&, const Args& a) {
  return {blend(a.tensor("self"), a.scalar("beta"), product(a.tensor("batch1"), a.tensor("batch2")), a.scalar("alpha"))};
}

// The sum over the batch is one product with the batch folded into the contracted dim.
std::vector<Tensor> addbmm(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("batch1"), y = a.tensor("batch2");
  Tensor left = d.b.reshape(d.b.permute(x, {1, 0, 2}), {x.size(1), x.size(0) * x.size(2)});
  Tensor right = d.b.reshape(y, {y.size(0) * y.size(1), y.size(2)});
  return {blend(a.tensor("self"), a.scalar("beta"), d.b.matmul(left, right), a.scalar("alpha"))};
}

Tensor outer_product(Tensor x, Tensor y) { return x.builder().unsqueeze(x, 1) * y; }

std::vector<Tensor> outer(Decomposer&, const Args& a) { return {outer_product(a.tensor("self"), a.tensor("vec2"))}; }

std::vector<Tensor> addr(Decomposer&, const Args& a) {
  Tensor update = outer_product(a.tensor("vec1"), a.tensor("vec2"));
  return {blend(a.tensor("self"), a.scalar("beta"), update, a.scalar("alpha"))};
}

// out[i*p + k, j*q + l] = x[i, j] * y[k, l], for any rank: dims interleave, then merge in pairs.
std::vector<Tensor> kron(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("other");
  const size_t rank = static_cast<size_t>(std::max(x.rank(), y.rank()));
  Sizes x_sizes, y_sizes, merged;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t from_end = static_cast<int64_t>(i) - static_cast<int64_t>(rank);
    const sym::Expr m = -from_end <= x.rank() ? x.size(from_end) : sym::Expr(1);
    const sym::Expr n = -from_end <= y.rank() ? y.size(from_end) : sym::Expr(1);
    x_sizes.insert(x_sizes.end(), {m, 1});
    y_sizes.insert(y_sizes.end(), {1, n});
    merged.push_back(m * n);
  }
  return {d.b.reshape(d.b.reshape(x, x_sizes) * d.b.reshape(y, y_sizes), merged)};
}

std::vector<Tensor> vecdot(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("x"), y = a.tensor("y");
  const Sizes sizes = d.b.broadcast(x.sizes(), y.sizes());
  const DType dtype = result_dtype(std::vector<Tensor>{x, y});
  Tensor terms = d.b.expand(wide(x) * wide(y), sizes);
  return {d.b.cast(d.b.sum(terms, {a.constant("dim")}), dtype)};
}

// Component i of the product is x[i+1]*y[i+2] - x[i+2]*y[i+1], indices modulo 3.
Tensor cross_product(Tensor x, Tensor y, int64_t dim) {
  Builder& b = x.builder();
  const Sizes sizes = b.broadcast(x.sizes(), y.sizes());
  x = b.expand(x, sizes);
  y = b.expand(y, sizes);
  dim = b.wrap_dim(dim, x.rank());
  b.require_equal(x.size(dim), 3, "cross");
  auto rolled = [&](Tensor t, int by) {
    Sizes axes, index;
    for (sym::Expr size : t.sizes()) index.push_back(axes.emplace_back(b.axis(size)));
    index[static_cast<size_t>(dim)] = sym::mod(axes[static_cast<size_t>(dim)] + by, 3);
    return b.remap(t, axes, index);
  };
  return rolled(x, 1) * rolled(y, 2) - rolled(x, 2) * rolled(y, 1);
}

std::vector<Tensor> linalg_cross(Decomposer&, const Args& a) {
  return {cross_product(a.tensor("self"), a.tensor("other"), a.constant("dim"))};
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
  return {cross_product(x, a.tensor("other"), dim)};
}

// ---- chains and powers ----------------------------------------------------------------------------------------------

// The cheapest order by dynamic programming over the hinted sizes: cost[i][j] multiplies matrices i..j.
Tensor multiply_chain(const std::vector<Tensor>& matrices) {
  const size_t n = matrices.size();
  std::vector<double> extent;
  for (const Tensor& matrix : matrices) extent.push_back(static_cast<double>(sym::evaluate_hint(matrix.size(0))));
  extent.push_back(static_cast<double>(sym::evaluate_hint(matrices.back().size(1))));
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      const size_t j = i + length;
      for (size_t s = i; s < j; ++s) {
        const double total = cost[i][s] + cost[s + 1][j] + extent[i] * extent[s + 1] * extent[j + 1];
        if (s == i || total < cost[i][j]) {
          cost[i][j] = total;
          split[i][j] = s;
        }
      }
    }
  }
  std::function<Tensor(size_t, size_t)> multiply = [&](size_t i, size_t j) -> Tensor {
    if (i == j) return matrices[i];
    return product(multiply(i, split[i][j]), multiply(split[i][j] + 1, j));
  };
  return multiply(0, n - 1);
}

// The first and the last may be vectors: a row and a column.
Tensor chain_of(std::vector<Tensor> tensors) {
  if (tensors.empty()) throw Error(ErrorKind::InvalidModel, "a matrix chain needs at least one matrix");
  if (tensors.size() == 1) return tensors[0];
  Builder& b = tensors[0].builder();
  const bool row = tensors.front().rank() == 1, column = tensors.back().rank() == 1;
  if (row) tensors.front() = b.unsqueeze(tensors.front(), 0);
  if (column) tensors.back() = b.unsqueeze(tensors.back(), 1);
  Tensor result = multiply_chain(tensors);
  if (column) result = b.squeeze(result, 1);
  if (row) result = b.squeeze(result, 0);
  return result;
}

std::vector<Tensor> multi_dot(Decomposer&, const Args& a) { return {chain_of(a.tensors("tensors"))}; }
std::vector<Tensor> chain_matmul(Decomposer&, const Args& a) { return {chain_of(a.tensors("matrices"))}; }

std::vector<Tensor> matrix_power(Decomposer& d, const Args& a) {
  Tensor base = a.tensor("self");
  int64_t n = a.constant("n");
  if (n < 0) {
    base = d.call1("aten::linalg_inv", {base});
    n = -n;
  }
  if (n == 0) {
    Sizes sizes = base.sizes();
    const int64_t rank = base.rank();
    Tensor is_diagonal = d.b.binary(ScalarOp::Eq, d.b.iota(sizes, rank - 2), d.b.iota(sizes, rank - 1));
    return {d.b.cast(is_diagonal, base.dtype())};
  }
  Tensor result;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) result = result.defined() ? d.b.matmul(result, base) : base;
    if (n > 1) base = d.b.matmul(base, base);
  }
  return {result};
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

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> matmul_rows() { return kRows; }

}  // namespace toroid
