// Norms of matrices, and linalg_norm, which is a vector's or a matrix's norm by its arguments.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// The argument in the dtype asked for, else in its own; computed wide.
struct Input {
  Tensor x;
  DType result;
};

Input input_of(const Args& a) {
  Tensor x = a.tensor("self");
  const DType dtype = a.has("dtype") ? *a.dtype("dtype") : is_floating(x.dtype()) ? x.dtype() : DType::F32;
  return {wide(x.builder().cast(x, dtype)), dtype};
}

Tensor vector_norm(Decomposer& d, Tensor x, double ord, const Dims& dims, bool keepdim) {
  return d.call1("aten::linalg_vector_norm", {x, ord, dims, keepdim});
}

// Puts the two reduced dims back.
Tensor finish(Tensor norm, const Dims& dims, bool keepdim) { return keepdim ? norm.builder().keep(norm, dims) : norm; }

Tensor singular_values_along(Decomposer& d, Tensor x, const Dims& dims) {
  Dims order;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != dims[0] && dim != dims[1]) order.push_back(dim);
  }
  order.insert(order.end(), {dims[0], dims[1]});
  return d.call1("aten::linalg_svdvals", {d.b.permute(x, order)});
}

// The largest of no norms is 0.
Tensor extremum(Tensor x, bool largest, int64_t dim) {
  Builder& b = x.builder();
  if (largest && x.size(dim).is_const(0)) return b.sum(x, {dim});
  return largest ? b.amax(x, {dim}) : b.amin(x, {dim});
}

// ±1: columns' sums, ±inf: rows' sums, ±2: singular values; the sign chooses the largest or the smallest.
Tensor matrix_norm(Decomposer& d, Tensor x, double ord, Dims dims, bool keepdim) {
  for (int64_t& dim : dims) dim = d.b.wrap_dim(dim, x.rank());
  if (dims.size() != 2 || dims[0] == dims[1]) throw Error(ErrorKind::InvalidModel, "a matrix norm needs two dims");
  const bool largest = ord > 0;
  if (std::abs(ord) == 2) return finish(extremum(singular_values_along(d, x, dims), largest, -1), dims, keepdim);
  if (std::abs(ord) != 1 && std::abs(ord) != kInfinity) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a matrix norm of order {}", ord));
  }
  int64_t summed = dims[0], rest = dims[1];
  if (std::abs(ord) == kInfinity) std::swap(summed, rest);
  Tensor sums = d.b.sum(abs(x), {summed});
  return finish(extremum(sums, largest, rest > summed ? rest - 1 : rest), dims, keepdim);
}

Tensor named_norm(Decomposer& d, Tensor x, const std::string& ord, Dims dims, bool keepdim) {
  for (int64_t& dim : dims) dim = d.b.wrap_dim(dim, x.rank());
  if (ord == "fro") return vector_norm(d, x, 2, dims, keepdim);
  if (ord == "nuc" && dims.size() == 2) return finish(d.b.sum(singular_values_along(d, x, dims), {-1}), dims, keepdim);
  throw Error(ErrorKind::InvalidModel, fmt::format("a matrix norm of order '{}'", ord));
}

std::vector<Tensor> linalg_matrix_norm(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  return {d.b.cast(matrix_norm(d, in.x, a.number("ord"), a.dims("dim"), a.flag("keepdim")), in.result)};
}

std::vector<Tensor> linalg_matrix_norm_named(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  return {d.b.cast(named_norm(d, in.x, a.text("ord"), a.dims("dim"), a.flag("keepdim")), in.result)};
}

// Without an order, the 2-norm of all elements (or over `dim`); with one, the rank or the number of dims decides.
std::vector<Tensor> linalg_norm(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  Dims dims = a.has("dim") ? a.dims("dim") : Dims{};
  const bool keepdim = a.flag("keepdim");
  const bool is_matrix = a.has("ord") && (dims.size() == 2 || (dims.empty() && in.x.rank() == 2));
  if (is_matrix && dims.empty()) dims = {0, 1};
  Tensor norm = is_matrix ? matrix_norm(d, in.x, a.number("ord"), dims, keepdim)
                          : vector_norm(d, in.x, a.has("ord") ? a.number("ord") : 2.0, dims, keepdim);
  return {d.b.cast(norm, in.result)};
}

std::vector<Tensor> linalg_norm_named(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  const Dims dims = a.has("dim") ? a.dims("dim") : Dims{0, 1};
  return {d.b.cast(named_norm(d, in.x, a.text("ord"), dims, a.flag("keepdim")), in.result)};
}

std::vector<Tensor> nuclear_norm(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  const bool has_dim = a.schema().parameters[1].name == "dim";
  return {d.b.cast(named_norm(d, in.x, "nuc", has_dim ? a.dims("dim") : Dims{0, 1}, a.flag("keepdim")), in.result)};
}

// |A| |A^-1|: infinite where there is no inverse, or the product is no number.
template <class Norm>
Tensor condition(Tensor x, Norm norm) {
  Builder& b = x.builder();
  const TensorType info = {.dtype = DType::I32, .sizes = x.sizes().without_last(2)};
  const std::vector<Tensor> results = b.library("linalg.inv", {x}, {x.type(), info});
  const Tensor is_singular = results[1] > 0;
  const Tensor inverse = where(b.unsqueeze(b.unsqueeze(is_singular, -1), -1), 0, results[0]);
  const Tensor product = norm(x) * norm(inverse);
  return where(is_singular | isnan(product), kInfinity, product);
}

// The ratio of the largest to the smallest singular value, or |A| |A^-1| in another norm.
std::vector<Tensor> linalg_cond(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  const double p = a.has("p") ? a.number("p") : 2;
  const Dims dims = {in.x.rank() - 2, in.x.rank() - 1};
  if (std::abs(p) == 2) {
    Tensor values = singular_values_along(d, in.x, dims);
    Tensor largest = d.b.amax(values, {-1}), smallest = d.b.amin(values, {-1});
    return {p > 0 ? largest / smallest : smallest / largest};
  }
  return {condition(in.x, [&](Tensor x) { return matrix_norm(d, x, p, dims, false); })};
}

std::vector<Tensor> linalg_cond_named(Decomposer& d, const Args& a) {
  const Input in = input_of(a);
  const Dims dims = {in.x.rank() - 2, in.x.rank() - 1};
  if (a.text("p") == "nuc") {
    Tensor values = singular_values_along(d, in.x, dims);
    return {d.b.sum(values, {-1}) * d.b.sum(reciprocal(values), {-1})};
  }
  return {condition(in.x, [&](Tensor x) { return named_norm(d, x, a.text("p"), dims, false); })};
}

constexpr DecompositionRow kMatrixNormRows[] = {
    {"aten::linalg_matrix_norm", linalg_matrix_norm},
    {"aten::linalg_matrix_norm.str_ord", linalg_matrix_norm_named},
    {"aten::linalg_norm", linalg_norm},
    {"aten::linalg_norm.ord_str", linalg_norm_named},
    {"aten::nuclear_norm", nuclear_norm},
    {"aten::nuclear_norm.dim", nuclear_norm},
    {"aten::linalg_cond", linalg_cond},
    {"aten::linalg_cond.p_str", linalg_cond_named},
};

}  // namespace

std::span<const DecompositionRow> matrix_norm_rows() { return kMatrixNormRows; }

}  // namespace toroid
