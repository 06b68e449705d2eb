#include "formula/math/matmul.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "formula/math/dequantised_product.h"

namespace toroid::formula {

Tensor dot(Tensor x, Tensor y) {
  Builder& b = x.builder();
  b.require_equal(x.size(0), y.size(0), "dot");
  return b.cast(b.sum(wide(x) * wide(y), {0}), x.dtype());
}

namespace {

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

}  // namespace

Tensor matmul(Tensor x, Tensor y) {
  Builder& b = x.builder();
  if (x.rank() == 0 || y.rank() == 0) throw Error(ErrorKind::InvalidModel, "matmul needs tensors of rank 1 or more");
  if (x.rank() == 1 && y.rank() == 1) return dot(x, y);
  if (x.rank() == 1) return b.squeeze(matmul(b.unsqueeze(x, 0), y), -2);
  if (y.rank() == 1) return b.squeeze(matmul(x, b.unsqueeze(y, 1)), -1);
  if (y.rank() == 2) return fold_rows(x, y);
  return b.matmul(x, y);
}

Tensor grouped_matmul(Tensor x, Tensor y, Tensor ends) {
  Builder& b = x.builder();
  const auto is_rank = [](Tensor t) { return t.rank() == 2 || t.rank() == 3; };
  if (!is_rank(x) || !is_rank(y) || x.dtype() != y.dtype()) {
    throw Error(ErrorKind::InvalidModel, "a product by groups takes two operands of rank 2 or 3 and of one dtype");
  }
  if (x.rank() == 3 && y.rank() == 3) return b.matmul(x, y);
  if (!ends.defined() || ends.rank() != 1)
    throw Error(ErrorKind::InvalidModel, "a product by groups of a matrix needs the ends of its groups");
  const sym::Expr groups = ends.size(0);
  b.require_equal(x.size(-1), y.size(-2), "the depth of a product by groups");
  if (y.rank() == 3) b.require_equal(y.size(0), groups, "a matrix a group");
  if (x.rank() == 3) b.require_equal(x.size(0), groups, "a matrix a group");
  Sizes sizes = {x.size(-2), y.size(-1)};
  if (x.rank() == 2 && y.rank() == 2) sizes.insert(sizes.begin(), groups);
  return b.library("products.grouped", {x, y, b.cast(ends, DType::I64)}, {{.dtype = x.dtype(), .sizes = sizes}})[0];
}

Tensor linear(Tensor x, Tensor weight, Tensor bias) {
  Tensor y = matmul(x, weight.rank() == 1 ? weight : x.builder().transpose(weight, 0, 1));
  return bias.defined() ? y + bias : y;
}

Scalar factor_of(const Scalar& number, DType dtype) {
  const auto* real = std::get_if<double>(&number);
  return real != nullptr && is_integral(dtype) ? Scalar(sym::Expr(static_cast<int64_t>(*real))) : number;
}

Tensor weighted_sum(Tensor x, Scalar beta, Tensor y, Scalar alpha) {
  Builder& b = y.builder();
  beta = factor_of(beta, x.dtype());
  alpha = factor_of(alpha, y.dtype());
  if (is_number(beta, 0)) return scaled(y, alpha);
  if (is_number(beta, 1) && is_number(alpha, 1)) return x + y;
  const DType dtype = result_dtype(std::vector<Tensor>{x, y});
  return b.cast(scaled(wide(x), beta) + scaled(wide(y), alpha), dtype);
}

Tensor outer(Tensor x, Tensor y) { return x.builder().unsqueeze(x, 1) * y; }

// Dims interleave, then merge in pairs.
Tensor kron(Tensor x, Tensor y) {
  Builder& b = x.builder();
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
  return b.reshape(b.reshape(x, x_sizes) * b.reshape(y, y_sizes), merged);
}

Tensor vecdot(Tensor x, Tensor y, int64_t dim) {
  Builder& b = x.builder();
  const Sizes sizes = b.broadcast(x.sizes(), y.sizes());
  const DType dtype = result_dtype(std::vector<Tensor>{x, y});
  Tensor terms = b.expand(wide(x) * wide(y), sizes);
  return b.cast(b.sum(terms, {dim}), dtype);
}

// Component i of the product is x[i+1]*y[i+2] - x[i+2]*y[i+1], indices modulo 3.
Tensor cross(Tensor x, Tensor y, int64_t dim) {
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

// ---- chains and powers ----------------------------------------------------------------------------------------------

namespace {

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
    return matmul(multiply(i, split[i][j]), multiply(split[i][j] + 1, j));
  };
  return multiply(0, n - 1);
}

}  // namespace

Tensor multi_dot(std::vector<Tensor> tensors) {
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

Tensor matrix_power(Tensor base, int64_t n) {
  Builder& b = base.builder();
  if (n == 0) {
    Sizes sizes = base.sizes();
    const int64_t rank = base.rank();
    Tensor is_diagonal = b.binary(ScalarOp::Eq, b.iota(sizes, rank - 2), b.iota(sizes, rank - 1));
    return b.cast(is_diagonal, base.dtype());
  }
  Tensor result;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) result = result.defined() ? b.matmul(result, base) : base;
    if (n > 1) base = b.matmul(base, base);
  }
  return result;
}

}  // namespace toroid::formula
