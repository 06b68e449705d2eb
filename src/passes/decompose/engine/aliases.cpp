// Operators that PyTorch keeps beside another of ATen: older, internal or explicit spellings of it, and short formulas
// over it.
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/arguments/same_as.h"
#include "passes/decompose/movement/view_shape.h"

namespace toroid {
namespace {

// ---- the first argument, or a formula of a line ---------------------------------------------------------------------

// Levels of forward-mode differentiation, with which no exported program runs.
std::vector<Tensor> first_argument(Decomposer&, const Args& a) { return {a.tensor(parameter(a, 0))}; }

std::vector<Tensor> norm(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const DType dtype = (has_parameter(a, "dtype") ? a.dtype("dtype") : std::nullopt).value_or(x.dtype());
  const Scalar p = a.has("p") ? a.scalar("p") : Scalar(sym::Expr(2));
  const bool keepdim = has_parameter(a, "keepdim") && a.flag("keepdim");
  const Dims dims = has_parameter(a, "dim") ? a.dims("dim") : Dims{};
  return {d.b.cast(d.call1("aten::linalg_vector_norm", {x, p, dims, keepdim, dtype}), dtype)};
}

// The sum of |x|^ord, without the root that would make it a norm.
std::vector<Tensor> sum_of_powers(Decomposer& d, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  const DType dtype = a.dtype("dtype").value_or(self.dtype());
  const OverDims over = over_dims(a, self);
  Tensor x = abs(d.b.cast(self, compute_dtype(dtype)));
  const double order = a.number("ord");
  Tensor powers = order == 1 ? x : order == 2 ? square(x) : pow(x, order);
  return {over.shaped(d.b.cast(d.b.sum(powers, over.dims), dtype))};
}

std::vector<Tensor> arange_of_dim(Decomposer& d, const Args& a) {
  Tensor like = a.tensor("like");
  return {d.b.arange(like.size(a.constant("dim")))};
}

std::vector<Tensor> fill_diagonal(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  if (x.rank() < 2) throw Error(ErrorKind::InvalidModel, "fill_diagonal_ needs a tensor of rank 2 or more");
  Tensor row = d.b.iota(x.sizes(), 0), on_diagonal;
  if (x.rank() == 2 && a.flag("wrap")) {
    // In a tall matrix the diagonal starts again, one row below its end.
    row = apply(ScalarOp::Mod, row, number_like(row, x.size(1) + 1));
  }
  for (int64_t dim = 1; dim < x.rank(); ++dim) {
    Tensor same = eq(row, d.b.iota(x.sizes(), dim));
    on_diagonal = on_diagonal.defined() ? on_diagonal & same : same;
  }
  return {where(on_diagonal, number_like(x, a.scalar("fill_value")), x)};
}

// The product of three tensors, each with dims of size 1 put in, summed over some dims.
std::vector<Tensor> trilinear(Decomposer& d, const Args& a) {
  Tensor product;
  for (size_t i = 0; i < 3; ++i) {
    Tensor x = wide(a.tensor(parameter(a, i)));
    for (int64_t dim : a.dims(parameter(a, i + 3))) x = d.b.unsqueeze(x, dim);
    product = product.defined() ? product * x : x;
  }
  const Dims dims = a.dims("sumdim");
  const DType dtype = a.tensor("i1").dtype();
  return {d.b.cast(dims.empty() ? product : d.b.sum(product, d.b.wrap_dims(dims, product.rank())), dtype)};
}

// Row i is the sum of the slices of the input, weighted with row i of the coefficients.
std::vector<Tensor> linear_combination(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input"), coefficients = a.tensor("coefficients");
  Sizes sizes = x.sizes();
  sizes[0] = coefficients.size(0);
  return {d.b.reshape(d.b.matmul(coefficients, d.b.reshape(x, {x.size(0), -1})), sizes)};
}

// The derivative of glu along dx.
std::vector<Tensor> glu_derivative(Decomposer& d, const Args& a) {
  Tensor x = wide(a.tensor("x")), dx = wide(a.tensor("dx")), glu = wide(a.tensor("glu"));
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  const sym::Expr half = sym::floor_div(x.size(dim), 2);
  auto first = [&](Tensor t) { return d.b.slice(t, dim, 0, half); };
  auto second = [&](Tensor t) { return d.b.slice(t, dim, half, half); };
  Tensor gate = sigmoid(second(x));
  Tensor result = first(dx) * gate + second(dx) * (glu - gate * glu);
  return {d.b.cast(result, a.tensor("x").dtype())};
}

std::vector<Tensor> masked_scale(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return {d.b.cast(wide(x) * d.b.cast(a.tensor("mask"), compute_dtype(x.dtype())) * a.number("scale"), x.dtype())};
}

// aten::pad, the mode as a number.
std::vector<Tensor> pad_by_number(Decomposer& d, const Args& a) {
  constexpr std::array<const char*, 4> kModes = {"reflect", "replicate", "circular", "constant"};
  const int64_t mode = a.constant("mode");
  if (mode < 0 || mode > 3) throw Error(ErrorKind::InvalidModel, fmt::format("padding mode {}", mode));
  Decomposer::Value fill = a.has("value") ? Decomposer::Value(a.number("value")) : Decomposer::Value(None{});
  return d.call("aten::pad", {a.tensor("self"), a.integers("pad"), kModes[static_cast<size_t>(mode)], fill});
}

std::vector<Tensor> resize_output(Decomposer& d, const Args& a) { return d.call("aten::resize", {a.tensor("self"), a.integers("size")}); }

// The block of e^[[A^T, G], [0, A^T]] above the diagonal is the derivative of e^(A^T) along G.
std::vector<Tensor> matrix_exponential_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor transposed = b.transpose(a.tensor("self"), -1, -2), grad = a.tensor("grad");
  const sym::Expr n = grad.size(-1);
  Tensor zeros = b.full(grad.sizes(), grad.dtype(), 0.0);
  Tensor blocks = b.cat({b.cat({transposed, grad}, -1), b.cat({zeros, transposed}, -1)}, -2);
  Tensor power = d.call1("aten::linalg_matrix_exp", {blocks});
  return {b.slice(b.slice(power, -1, n, n), -2, 0, n)};
}

// ---- indices of sparse formats, which are plain tensors ----------------------------------------------------------------

// How many of the sorted row numbers are below each of 0, 1, …, size.
std::vector<Tensor> row_starts(Decomposer& d, const Args& a) {
  Tensor rows = a.tensor("self");
  Tensor bounds = d.b.arange(a.integer("size") + 1, 0, 1, rows.dtype());
  return {d.call1("aten::searchsorted.Tensor", {rows, bounds, a.flag("out_int32")})};
}

// The row of each column index, above the column indices.
std::vector<Tensor> rows_and_columns(Decomposer& d, const Args& a) {
  Tensor starts = a.tensor("crow_indices"), columns = a.tensor("col_indices");
  if (starts.rank() != 1) throw Error(ErrorKind::Unsupported, "_convert_indices_from_csr_to_coo of a batch is not supported");
  Tensor position = d.b.arange(columns.numel(), 0, 1, starts.dtype());
  const DType dtype = a.flag("out_int32") ? DType::I32 : DType::I64;
  Tensor rows = d.call1("aten::searchsorted.Tensor", {starts, position, false, true}) - d.b.scalar(DType::I64, sym::Expr(1));
  Tensor first = d.b.cast(rows, dtype), second = d.b.cast(columns, dtype);
  return {a.flag("transpose") ? d.b.stack({second, first}, 0) : d.b.stack({first, second}, 0)};
}

// ---- one answer about whole tensors ---------------------------------------------------------------------------------

std::vector<Tensor> all_close(Decomposer& d, const Args& a) { return d.call("aten::all", {d.call1("aten::isclose", values_of(a))}); }

std::vector<Tensor> is_equal(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("other");
  bool may_be_equal = x.rank() == y.rank();
  for (int64_t dim = 0; may_be_equal && dim < x.rank(); ++dim) {
    may_be_equal = !sym::known_ne(x.size(dim), y.size(dim));
    if (may_be_equal) d.b.require_equal(x.size(dim), y.size(dim), "equal");
  }
  if (!may_be_equal) return {d.b.scalar(DType::Bool, false)};
  return d.call("aten::all", {d.call1("aten::eq.Tensor", {x, y})});
}

// Of the tensor as the model has it: a program without strides knows no more.
std::vector<Tensor> always_contiguous(Decomposer& d, const Args& a) {
  const TensorType type = recorded_type(d, a, "self");
  return {d.b.scalar(DType::Bool, type.strides.empty() || type.strides == contiguous_strides(type.sizes))};
}

std::vector<Tensor> is_nonzero(Decomposer& d, const Args& a) { return {d.b.cast(d.b.reshape(a.tensor("self"), {}), DType::Bool)}; }

// ---- lists of tensors -----------------------------------------------------------------------------------------------

std::vector<Tensor> flatten_tensors(Decomposer& d, const Args& a) {
  std::vector<Tensor> parts;
  for (Tensor x : a.tensors("tensors")) parts.push_back(d.b.reshape(x, {x.numel()}));
  if (parts.empty()) throw Error(ErrorKind::InvalidModel, "flatten_dense_tensors needs a tensor");
  return {d.b.cat(parts, 0)};
}

// The runs of the flat tensor that have the sizes of each tensor in turn.
std::vector<Tensor> unflatten_tensors(Decomposer& d, const Args& a) {
  Tensor flat = a.tensor("flat");
  std::vector<Tensor> parts;
  sym::Expr at = 0;
  for (Tensor like : a.tensors("tensors")) {
    const Sizes sizes = like.sizes();
    const sym::Expr count = sym::product(sizes);
    parts.push_back(d.b.reshape(d.b.slice(flat, 0, at, count), sizes));
    at = at + count;
  }
  return parts;
}

// Sequences of different lengths as one tensor, [T, N, …] or [N, T, …].
std::vector<Tensor> pad_sequence(Decomposer& d, const Args& a) {
  const Tensors sequences = a.tensors("sequences");
  if (sequences.empty()) throw Error(ErrorKind::InvalidModel, "pad_sequence needs a sequence");
  const std::string side = a.text("padding_side");
  if (side != "left" && side != "right") throw Error(ErrorKind::InvalidModel, fmt::format("padding side '{}'", side));
  sym::Expr longest = sequences[0].size(0);
  for (Tensor x : sequences) longest = sym::max(longest, x.size(0));
  std::vector<Tensor> padded;
  for (Tensor x : sequences) {
    Sizes low(static_cast<size_t>(x.rank()), 0), high = low;
    (side == "left" ? low : high)[0] = longest - x.size(0);
    padded.push_back(d.b.pad(x, low, high, a.number("padding_value")));
  }
  return {d.b.stack(padded, a.flag("batch_first") ? 0 : 1)};
}

// ---- parts of other results -----------------------------------------------------------------------------------------

std::vector<Tensor> histogram_edges(Decomposer& d, const Args& a) {
  Tensors results = d.call("aten::histogramdd", values_of(a));
  return {results.begin() + 1, results.end()};
}
std::vector<Tensor> histogram_by_counts(Decomposer& d, const Args& a) { return {d.call1("aten::histogramdd", values_of(a))}; }
std::vector<Tensor> histogram_by_edges(Decomposer& d, const Args& a) {
  return {d.call1("aten::histogramdd.TensorList_bins",
                  {a.tensor("self"), a.tensors("bins"), None{}, a.optional_tensor("weight"), a.flag("density")})};
}

// Values and indices are written to arguments.
template <OperatorName op>
std::vector<Tensor> running_extremum(Decomposer& d, const Args& a) {
  return d.call(op.text, {a.tensor("self"), a.constant("dim")});
}

constexpr DecompositionRow kSecondNameRows[] = {
    {"aten::mH.a", same_as<"aten::mH">},
    {"aten::mT.a", same_as<"aten::mT">},
    {"aten::matrix_H.a", same_as<"aten::matrix_H">},
    {"aten::numpy_T.a", same_as<"aten::numpy_T">},
    {"aten::_reshape_copy", same_as<"aten::reshape">},
    {"aten::transpose_", same_as<"aten::transpose.int">},
    {"aten::ldexp_", same_as<"aten::ldexp.Tensor">},
    {"aten::linalg_matmul", same_as<"aten::matmul">},
    {"aten::_cholesky_solve_helper", same_as<"aten::cholesky_solve">},
    {"aten::requires_grad_", first_argument},

    {"aten::native_norm", norm},
    {"aten::native_norm.ScalarOpt_dim_dtype", norm},
    {"aten::linalg__powsum", sum_of_powers},
    {"aten::_dim_arange", arange_of_dim},
    {"aten::fill_diagonal_", fill_diagonal},
    {"aten::_trilinear", trilinear},
    {"aten::_compute_linear_combination", linear_combination},
    {"aten::glu_jvp", glu_derivative},
    {"aten::_masked_scale", masked_scale},
    {"aten::_pad_enum", pad_by_number},
    {"aten::_resize_output", resize_output},

    {"aten::matrix_exp_backward", matrix_exponential_backward},
    {"aten::_convert_indices_from_coo_to_csr", row_starts},
    {"aten::_convert_indices_from_csr_to_coo", rows_and_columns},
    {"aten::dequantize.self", first_argument},
    {"aten::sym_is_contiguous", always_contiguous},

    {"aten::allclose", all_close},
    {"aten::equal", is_equal},
    {"aten::is_nonzero", is_nonzero},

    {"aten::flatten_dense_tensors", flatten_tensors},
    {"aten::unflatten_dense_tensors", unflatten_tensors},
    {"aten::pad_sequence", pad_sequence},

    {"aten::_histogramdd_bin_edges", histogram_edges},
    {"aten::_histogramdd_from_bin_cts", histogram_by_counts},
    {"aten::_histogramdd_from_bin_tensors", histogram_by_edges},
    {"aten::_cummax_helper", running_extremum<"aten::cummax">},
    {"aten::_cummin_helper", running_extremum<"aten::cummin">},
};

}  // namespace

std::span<const DecompositionRow> second_name_rows() { return kSecondNameRows; }

}  // namespace toroid
