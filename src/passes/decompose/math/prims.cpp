// PyTorch's primitive operators, which decomposed exports contain: most are an operator of ATen under another name.
//
// They neither promote nor broadcast, so ATen's operators, which do, serve them; integer division rounds toward zero.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/arguments/same_as.h"

namespace toroid {
namespace {

// ---- element by element ---------------------------------------------------------------------------------------------

std::vector<Tensor> divide(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("other");
  if (is_floating(x.dtype())) return d.call("aten::div.Tensor", {x, y});
  return d.call("aten::div.Tensor_mode", {x, y, "trunc"});
}

// The real root, with the sign of x.
std::vector<Tensor> cube_root(Decomposer&, const Args& a) {
  return {compute_wide(require_real(a.tensor("self")), [](Tensor x) { return apply(ScalarOp::Copysign, pow(abs(x), 1.0 / 3.0), x); })};
}

std::vector<Tensor> convert(Decomposer&, const Args& a) { return {converted(require_real(a.tensor("a")), required_dtype(a, "dtype"))}; }

// ---- reductions -----------------------------------------------------------------------------------------------------

// None means all dims, an empty list none.
template <OperatorName op>
std::vector<Tensor> reduction_over_dims(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("inp");
  const DType dtype = a.dtype("output_dtype").value_or(x.dtype());
  if (a.has("dims") && a.dims("dims").empty()) return {d.b.cast(x, dtype)};
  return {d.b.cast(d.call1(op.text, {x, a.dims("dims")}), dtype)};
}

std::vector<Tensor> product(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("inp");
  const DType dtype = a.dtype("output_dtype").value_or(x.dtype());
  if (a.has("dims") && a.dims("dims").empty()) return {d.b.cast(x, dtype)};
  Tensor wide = d.b.cast(x, compute_dtype(dtype));
  return {d.b.cast(d.b.reduce(ReduceOp::Prod, wide, d.b.wrap_dims(a.dims("dims"), x.rank()))[0], dtype)};
}

std::vector<Tensor> variance(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("inp");
  const double correction = a.has("correction") ? a.number("correction") : 1.0;
  Tensor y = d.call1("aten::var.correction", {x, a.dims("dims"), correction});
  return {d.b.cast(y, a.dtype("output_dtype").value_or(x.dtype()))};
}

// ---- views ----------------------------------------------------------------------------------------------------------

// Dim i of the argument becomes dim broadcast_dimensions[i] of the result; the others repeat it.
std::vector<Tensor> broadcast_in_dim(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("a");
  const Sizes shape = a.integers("shape");
  const Dims places = a.dims("broadcast_dimensions");
  if (static_cast<int64_t>(places.size()) != x.rank()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} places for {} dims", places.size(), x.rank()));
  }
  Sizes sizes(shape.size(), 1);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0 || places[i] >= static_cast<int64_t>(sizes.size())) {
      throw Error(ErrorKind::InvalidModel, fmt::format("dim {} of a result of rank {}", places[i], sizes.size()));
    }
    sizes[static_cast<size_t>(places[i])] = x.size(static_cast<int64_t>(i));
  }
  return {d.b.expand(d.b.reshape(x, sizes), shape)};
}

// Dims start to end, the end included, as one.
std::vector<Tensor> collapse(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("a");
  if (x.rank() == 0) return {d.b.reshape(x, {1})};
  return d.call("aten::flatten.using_ints", {x, a.constant("start"), a.constant("end")});
}

std::vector<Tensor> split_dim(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("a");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  const sym::Expr outer = a.integer("outer_length");
  Sizes sizes = x.sizes();
  const sym::Expr inner = sym::floor_div(x.size(dim), outer);
  sizes[static_cast<size_t>(dim)] = outer;
  sizes.insert(sizes.begin() + dim + 1, inner);
  return {d.b.reshape(x, sizes)};
}

std::vector<Tensor> copied(Decomposer&, const Args& a) { return {a.tensor(parameter(a, 0))}; }

// ---- creation -------------------------------------------------------------------------------------------------------

std::vector<Tensor> iota(Decomposer& d, const Args& a) {
  const sym::Expr start = a.integer("start"), step = a.integer("step");
  return {d.b.arange(a.integer("length"), start, step, required_dtype(a, "dtype"))};
}

std::vector<Tensor> empty(Decomposer& d, const Args& a) { return {d.b.full(a.integers("shape"), required_dtype(a, "dtype"), 0.0)}; }
std::vector<Tensor> full(Decomposer& d, const Args& a) {
  return {d.b.full(a.integers("shape"), required_dtype(a, "dtype"), a.scalar("fill_value"))};
}
std::vector<Tensor> full_like(Decomposer& d, const Args& a) {
  return {d.b.full(a.tensor("a").sizes(), required_dtype(a, "dtype"), a.scalar("fill_value"))};
}

std::vector<Tensor> scalar_tensor(Decomposer& d, const Args& a) {
  return {d.b.full({}, a.dtype("dtype").value_or(DType::F32), a.scalar("s"))};
}

constexpr DecompositionRow kPrimsRows[] = {
    {"prims::abs", same_as<"aten::abs">},
    {"prims::acos", same_as<"aten::acos">},
    {"prims::acosh", same_as<"aten::acosh">},
    {"prims::asin", same_as<"aten::asin">},
    {"prims::asinh", same_as<"aten::asinh">},
    {"prims::atan", same_as<"aten::atan">},
    {"prims::atanh", same_as<"aten::atanh">},
    {"prims::bessel_i0", same_as<"aten::i0">},
    {"prims::bessel_i0e", same_as<"aten::special_i0e">},
    {"prims::bessel_i1", same_as<"aten::special_i1">},
    {"prims::bessel_i1e", same_as<"aten::special_i1e">},
    {"prims::bessel_j0", same_as<"aten::special_bessel_j0">},
    {"prims::bessel_j1", same_as<"aten::special_bessel_j1">},
    {"prims::bitwise_not", same_as<"aten::bitwise_not">},
    {"prims::cbrt", cube_root},
    {"prims::ceil", same_as<"aten::ceil">},
    {"prims::conj", same_as<"aten::conj">},
    {"prims::conj_physical", same_as<"aten::conj_physical">},
    {"prims::cos", same_as<"aten::cos">},
    {"prims::cosh", same_as<"aten::cosh">},
    {"prims::digamma", same_as<"aten::digamma">},
    {"prims::erf", same_as<"aten::erf">},
    {"prims::erf_inv", same_as<"aten::erfinv">},
    {"prims::erfc", same_as<"aten::erfc">},
    {"prims::erfcx", same_as<"aten::special_erfcx">},
    {"prims::exp", same_as<"aten::exp">},
    {"prims::exp2", same_as<"aten::exp2">},
    {"prims::expm1", same_as<"aten::expm1">},
    {"prims::fill", same_as<"aten::fill.Scalar">},
    {"prims::floor", same_as<"aten::floor">},
    {"prims::frexp", same_as<"aten::frexp.Tensor">},
    {"prims::isfinite", same_as<"aten::isfinite">},
    {"prims::lgamma", same_as<"aten::lgamma">},
    {"prims::log", same_as<"aten::log">},
    {"prims::log10", same_as<"aten::log10">},
    {"prims::log1p", same_as<"aten::log1p">},
    {"prims::log2", same_as<"aten::log2">},
    {"prims::ndtri", same_as<"aten::special_ndtri">},
    {"prims::neg", same_as<"aten::neg">},
    {"prims::real", same_as<"aten::real">},
    {"prims::reciprocal", same_as<"aten::reciprocal">},
    {"prims::round", same_as<"aten::round">},
    {"prims::rsqrt", same_as<"aten::rsqrt">},
    {"prims::sign", same_as<"aten::sign">},
    {"prims::signbit", same_as<"aten::signbit">},
    {"prims::sin", same_as<"aten::sin">},
    {"prims::sinh", same_as<"aten::sinh">},
    {"prims::spherical_bessel_j0", same_as<"aten::special_spherical_bessel_j0">},
    {"prims::sqrt", same_as<"aten::sqrt">},
    {"prims::tan", same_as<"aten::tan">},
    {"prims::tanh", same_as<"aten::tanh">},
    {"prims::trunc", same_as<"aten::trunc">},
    {"prims::convert_element_type", convert},

    {"prims::add", same_as<"aten::add.Tensor">},
    {"prims::atan2", same_as<"aten::atan2">},
    {"prims::bitwise_and", same_as<"aten::bitwise_and.Tensor">},
    {"prims::bitwise_or", same_as<"aten::bitwise_or.Tensor">},
    {"prims::bitwise_xor", same_as<"aten::bitwise_xor.Tensor">},
    {"prims::div", divide},
    {"prims::eq", same_as<"aten::eq.Tensor">},
    {"prims::fmax", same_as<"aten::fmax">},
    {"prims::fmin", same_as<"aten::fmin">},
    {"prims::fmod", same_as<"aten::fmod.Tensor">},
    {"prims::gcd", same_as<"aten::gcd">},
    {"prims::ge", same_as<"aten::ge.Tensor">},
    {"prims::gt", same_as<"aten::gt.Tensor">},
    {"prims::hypot", same_as<"aten::hypot">},
    {"prims::igamma", same_as<"aten::igamma">},
    {"prims::igammac", same_as<"aten::igammac">},
    {"prims::le", same_as<"aten::le.Tensor">},
    {"prims::lt", same_as<"aten::lt.Tensor">},
    {"prims::maximum", same_as<"aten::maximum">},
    {"prims::minimum", same_as<"aten::minimum">},
    {"prims::mul", same_as<"aten::mul.Tensor">},
    {"prims::ne", same_as<"aten::ne.Tensor">},
    {"prims::nextafter", same_as<"aten::nextafter">},
    {"prims::pow", same_as<"aten::pow.Tensor_Tensor">},
    {"prims::remainder", same_as<"aten::remainder.Tensor">},
    {"prims::shift_left", same_as<"aten::bitwise_left_shift.Tensor">},
    {"prims::shift_right_arithmetic", same_as<"aten::bitwise_right_shift.Tensor">},
    {"prims::sub", same_as<"aten::sub.Tensor">},
    {"prims::where", same_as<"aten::where.self">},
    {"prims::zeta", same_as<"aten::special_zeta">},

    {"prims::amax", reduction_over_dims<"aten::amax">},
    {"prims::amin", reduction_over_dims<"aten::amin">},
    {"prims::sum", reduction_over_dims<"aten::sum.dim_IntList">},
    {"prims::prod", product},
    {"prims::var", variance},

    {"prims::as_strided_scatter", same_as<"aten::as_strided_scatter">},
    {"prims::broadcast_in_dim", broadcast_in_dim},
    {"prims::cat", same_as<"aten::cat">},
    {"prims::collapse", collapse},
    {"prims::collapse_view", collapse},
    {"prims::reshape", same_as<"aten::reshape">},
    {"prims::rev", same_as<"aten::flip">},
    {"prims::split_dim", split_dim},
    {"prims::squeeze", same_as<"aten::squeeze.dims">},
    {"prims::transpose", same_as<"aten::permute">},
    {"prims::view_of", copied},
    {"prims::view_of_dtype", same_as<"aten::view.dtype">},
    {"prims::clone", copied},
    {"prims::copy_strided", copied},
    {"prims::device_put", copied},
    {"prims::item", same_as<"aten::item">},

    {"prims::empty", empty},
    {"prims::empty_permuted", empty},
    {"prims::empty_strided", empty},
    {"prims::full", full},
    {"prims::full_like", full_like},
    {"prims::iota", iota},
    {"prims::scalar_tensor", scalar_tensor},
    {"prims::svd", same_as<"aten::linalg_svd">},
};

}  // namespace

std::span<const DecompositionRow> prims_rows() { return kPrimsRows; }

}  // namespace toroid
