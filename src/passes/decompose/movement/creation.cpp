// Tensors from nothing: full, arange, linspace, eye, windows. Uninitialised memory is zeros.
//
// Sequences are formulas over an index, computed in F64 where their steps are not integers, as PyTorch does.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/movement/literal.h"
#include "symbolic/real.h"

namespace toroid {
namespace {

// ---- one value everywhere ------------------------------------------------------------------------------------------

std::vector<Tensor> filled(Decomposer& d, const Args& a, Sizes sizes, DType dtype, const Scalar& value) {
  return {d.b.full(std::move(sizes), a.dtype("dtype").value_or(dtype), value)};
}

std::vector<Tensor> zeros(Decomposer& d, const Args& a) { return filled(d, a, a.integers("size"), DType::F32, 0.0); }
std::vector<Tensor> ones(Decomposer& d, const Args& a) { return filled(d, a, a.integers("size"), DType::F32, 1.0); }
std::vector<Tensor> full(Decomposer& d, const Args& a) {
  const Scalar value = a.scalar("fill_value");
  return filled(d, a, a.integers("size"), number_dtype(value), value);
}

std::vector<Tensor> zeros_like(Decomposer& d, const Args& a) {
  return filled(d, a, a.tensor("self").sizes(), a.tensor("self").dtype(), 0.0);
}
std::vector<Tensor> ones_like(Decomposer& d, const Args& a) {
  return filled(d, a, a.tensor("self").sizes(), a.tensor("self").dtype(), 1.0);
}
std::vector<Tensor> full_like(Decomposer& d, const Args& a) {
  return filled(d, a, a.tensor("self").sizes(), a.tensor("self").dtype(), a.scalar("fill_value"));
}

std::vector<Tensor> new_zeros(Decomposer& d, const Args& a) { return filled(d, a, a.integers("size"), a.tensor("self").dtype(), 0.0); }
std::vector<Tensor> new_ones(Decomposer& d, const Args& a) { return filled(d, a, a.integers("size"), a.tensor("self").dtype(), 1.0); }
std::vector<Tensor> new_full(Decomposer& d, const Args& a) {
  return filled(d, a, a.integers("size"), a.tensor("self").dtype(), a.scalar("fill_value"));
}

std::vector<Tensor> scalar_tensor(Decomposer& d, const Args& a) { return filled(d, a, {}, DType::F32, a.scalar("s")); }

// ---- sequences -----------------------------------------------------------------------------------------------------

// An argument that the overload may lack or leave out.
Scalar scalar_or(const Args& a, std::string_view name, Scalar fallback) {
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.name == name && a.has(name)) return a.scalar(name);
  }
  return fallback;
}

double number_or(const Args& a, std::string_view name, double fallback) {
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.name == name && a.has(name)) return a.number(name);
  }
  return fallback;
}

struct Progression {
  Scalar start, end, step;
  bool is_integral() const {
    return !is_floating(number_dtype(start)) && !is_floating(number_dtype(end)) && !is_floating(number_dtype(step));
  }
};

sym::Expr to_integer(const Scalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* real = std::get_if<double>(&value)) return static_cast<int64_t>(*real);
  const sym::Expr expr = std::get<sym::Expr>(value);
  return sym::is_real(expr) ? sym::real(sym::RealFunction::Trunc, {expr}) : expr;
}

// In doubles, as symbolic/real.h has them.
sym::Expr to_real(const Scalar& value) {
  if (const auto* real = std::get_if<double>(&value)) return sym::real_literal(*real);
  const auto* expr = std::get_if<sym::Expr>(&value);
  return expr && sym::is_real(*expr) ? *expr : sym::real(sym::RealFunction::Float, {to_integer(value)});
}

// The number of steps between the ends, in doubles.
sym::Expr steps_between(const Scalar& start, const Scalar& end, const Scalar& step) {
  using F = sym::RealFunction;
  return sym::real(F::Div, {sym::real(F::Add, {to_real(end), sym::real(F::Neg, {to_real(start)})}), to_real(step)});
}

// start + step*i for i in [0, count). A fraction is multiplied in F64 and rounded once.
Tensor sequence(Builder& b, sym::Expr count, const Progression& p, DType dtype) {
  if (p.is_integral() || is_integral(dtype)) return b.arange(count, to_integer(p.start), to_integer(p.step), dtype);
  Tensor index = b.iota({count}, 0, DType::F64);
  return b.cast(index * b.scalar(DType::F64, p.step) + b.scalar(DType::F64, p.start), dtype);
}

Progression progression_of(const Args& a) {
  return {scalar_or(a, "start", sym::Expr(0)), a.scalar("end"), scalar_or(a, "step", sym::Expr(1))};
}

// Up to, but without, the end.
std::vector<Tensor> arange(Decomposer& d, const Args& a) {
  const Progression p = progression_of(a);
  const DType dtype = a.dtype("dtype").value_or(p.is_integral() ? DType::I64 : DType::F32);
  sym::Expr count;
  if (p.is_integral()) {
    count = sym::ceil_div(to_integer(p.end) - to_integer(p.start), to_integer(p.step));
  } else {
    count = sym::real(sym::RealFunction::Ceil, {steps_between(p.start, p.end, p.step)});
    if (!count.is_const() && !d.recorded.empty()) count = d.recorded[0].sizes.at(0);
  }
  return {sequence(d.b, count, p, dtype)};
}

// With the end.
std::vector<Tensor> range(Decomposer& d, const Args& a) {
  const Progression p = progression_of(a);
  const sym::Expr steps = sym::real(sym::RealFunction::Floor, {steps_between(p.start, p.end, p.step)});
  return {sequence(d.b, steps + 1, p, a.dtype("dtype").value_or(DType::F32))};
}

// The dtype in which the points between two ends are computed; the ends themselves are rounded to `dtype` first.
DType points_dtype(DType dtype) { return is_floating(dtype) ? compute_dtype(dtype) : DType::F64; }

// `steps` points from start to end, each computed from the nearer end.
Tensor evenly_spaced(Decomposer& d, const Args& a, DType dtype) {
  Builder& b = d.b;
  const sym::Expr steps = a.integer("steps");
  const DType wide = points_dtype(dtype);
  auto end_point = [&](std::string_view name) { return b.cast(b.reshape(operand(d, a, name, dtype), {}), wide); };
  Tensor start = end_point("start"), end = end_point("end");
  if (sym::known_le(steps, 1)) return b.expand(start, {steps});
  // One step alone has no length; its point is the start.
  Tensor step = (end - start) / b.scalar(wide, sym::max(steps - 1, 1));
  Tensor from_start = b.arange(steps);
  Tensor from_end = b.arange(steps, steps - 1, -1);
  return where(b.binary(ScalarOp::Lt, from_start, Scalar(sym::max(sym::floor_div(steps, 2), 1))), start + step * b.cast(from_start, wide),
               end - step * b.cast(from_end, wide));
}

std::vector<Tensor> linspace(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  return {d.b.cast(evenly_spaced(d, a, dtype), dtype)};
}

std::vector<Tensor> logspace(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  Tensor exponents = evenly_spaced(d, a, dtype);
  return {d.b.cast(pow(number_like(exponents, a.number("base")), exponents), dtype)};
}

// The frequencies of the results of a Fourier transform of n samples that are `d` apart: 0, 1, … and then the negative ones.
std::vector<Tensor> fourier_frequencies(Decomposer& d, const Args& a) {
  const sym::Expr n = a.integer("n");
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  const bool is_half = a.schema().name.starts_with("aten::fft_rfftfreq");
  Tensor position = d.b.arange(is_half ? sym::floor_div(n, 2) + 1 : n);
  if (!is_half) {
    Tensor is_positive = d.b.binary(ScalarOp::Lt, position, Scalar(sym::floor_div(n + 1, 2)));
    position = where(is_positive, position, position - d.b.scalar(DType::I64, n));
  }
  Tensor count = d.b.cast(position, compute_dtype(dtype));
  const sym::Expr length = sym::real(sym::RealFunction::Mul, {to_real(n), sym::real_literal(a.number("d"))});
  const sym::Expr unit = sym::real(sym::RealFunction::Div, {sym::real_literal(1), length});
  return {d.b.cast(d.b.binary(ScalarOp::Mul, count, unit.is_const() ? Scalar(sym::real_value(unit)) : Scalar(unit)), dtype)};
}

std::vector<Tensor> eye(Decomposer& d, const Args& a) {
  const sym::Expr rows = a.integer("n");
  Sizes sizes = {rows, a.schema().name.ends_with(".m") ? a.integer("m") : rows};
  return {d.b.cast(eq(d.b.iota(sizes, 0), d.b.iota(sizes, 1)), a.dtype("dtype").value_or(DType::F32))};
}

// The rows and columns of the elements on one side of a diagonal, in row-major order.
template <class Keep>
std::vector<Tensor> triangle_indices(Decomposer& d, const Args& a, Keep keep) {
  const int64_t rows = a.constant("row"), columns = a.constant("col"), offset = a.constant("offset");
  if (rows < 0 || columns < 0)
    throw Error(ErrorKind::InvalidModel, fmt::format("{} of {} rows and {} columns", a.schema().name, rows, columns));
  require_small_table((sym::Expr(rows) * columns).value());
  std::vector<int64_t> row_of, column_of;
  for (int64_t row = 0; columns > 0 && row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      if (!keep(column - row, offset)) continue;
      row_of.push_back(row);
      column_of.push_back(column);
    }
  }
  const int64_t count = static_cast<int64_t>(row_of.size());
  row_of.insert(row_of.end(), column_of.begin(), column_of.end());
  return {d.b.cast(literal(d, {2, count}, row_of), a.dtype("dtype").value_or(DType::I64))};
}
std::vector<Tensor> tril_indices(Decomposer& d, const Args& a) {
  return triangle_indices(d, a, [](int64_t diagonal, int64_t offset) { return diagonal <= offset; });
}
std::vector<Tensor> triu_indices(Decomposer& d, const Args& a) {
  return triangle_indices(d, a, [](int64_t diagonal, int64_t offset) { return diagonal >= offset; });
}

// Row i holds the powers of x[i], falling unless `increasing`.
std::vector<Tensor> vander(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = require_real(a.tensor("x"));
  const sym::Expr count = a.has("N") ? a.integer("N") : x.size(0);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::I64;
  const DType wide = compute_dtype(dtype);
  Tensor exponents = a.flag("increasing") ? b.arange(count, 0, 1, wide) : b.arange(count, count - 1, -1, wide);
  return {b.cast(pow(b.unsqueeze(b.cast(x, wide), 1), exponents), dtype)};
}

// ---- windows -------------------------------------------------------------------------------------------------------

// f of the position (0 at the first sample, 1 at the last) of each sample. A periodic window is one sample longer, and
// cut.
template <class F>
std::vector<Tensor> window(Decomposer& d, const Args& a, F f) {
  const int64_t length = a.constant("window_length");
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  bool periodic = true;
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.name == "periodic") periodic = a.flag("periodic");
  }
  if (length <= 1) return {d.b.full({length}, dtype, 1.0)};
  const double last = static_cast<double>(periodic ? length : length - 1);
  return {d.b.cast(f(d.b.iota({length}, 0, DType::F64) / last), dtype)};
}

Tensor cosine(Tensor position, double turns) { return cos(position * (2 * std::numbers::pi * turns)); }

std::vector<Tensor> bartlett_window(Decomposer& d, const Args& a) {
  return window(d, a, [](Tensor t) { return 1.0 - abs(t * 2.0 - 1.0); });
}
std::vector<Tensor> hann_window(Decomposer& d, const Args& a) {
  return window(d, a, [](Tensor t) { return 0.5 - cosine(t, 1) * 0.5; });
}
std::vector<Tensor> hamming_window(Decomposer& d, const Args& a) {
  const double alpha = number_or(a, "alpha", 0.54), beta = number_or(a, "beta", 0.46);
  return window(d, a, [&](Tensor t) { return alpha - cosine(t, 1) * beta; });
}
std::vector<Tensor> blackman_window(Decomposer& d, const Args& a) {
  return window(d, a, [](Tensor t) { return 0.42 - cosine(t, 1) * 0.5 + cosine(t, 2) * 0.08; });
}
std::vector<Tensor> kaiser_window(Decomposer& d, const Args& a) {
  const double beta = number_or(a, "beta", 12.0);
  return window(d, a, [&](Tensor t) {
    Tensor centred = t * 2.0 - 1.0;
    Tensor argument = sqrt(maximum(1.0 - square(centred), 0)) * beta;
    return apply(ScalarOp::I0, argument) / apply(ScalarOp::I0, number_like(t, beta));
  });
}

constexpr DecompositionRow kCreationRows[] = {
    {"aten::zeros", zeros},
    {"aten::ones", ones},
    {"aten::full", full},
    {"aten::empty.memory_format", zeros},
    {"aten::empty_strided", zeros},
    {"aten::empty_permuted", zeros},
    {"aten::_efficientzerotensor", zeros},
    {"aten::zeros_like", zeros_like},
    {"aten::ones_like", ones_like},
    {"aten::full_like", full_like},
    {"aten::empty_like", zeros_like},
    {"aten::new_zeros", new_zeros},
    {"aten::new_ones", new_ones},
    {"aten::new_full", new_full},
    {"aten::new_empty", new_zeros},
    {"aten::new_empty_strided", new_zeros},
    {"aten::scalar_tensor", scalar_tensor},

    {"aten::arange.*", arange},
    {"aten::range.*", range},
    {"aten::linspace.*", linspace},
    {"aten::logspace.*", logspace},
    {"aten::eye.*", eye},
    {"aten::fft_fftfreq", fourier_frequencies},
    {"aten::fft_rfftfreq", fourier_frequencies},
    {"aten::tril_indices", tril_indices},
    {"aten::triu_indices", triu_indices},
    {"aten::vander", vander},

    {"aten::bartlett_window.*", bartlett_window},
    {"aten::hann_window.*", hann_window},
    {"aten::hamming_window.*", hamming_window},
    {"aten::blackman_window.*", blackman_window},
    {"aten::kaiser_window.*", kaiser_window},
};

}  // namespace

std::span<const DecompositionRow> creation_rows() { return kCreationRows; }

}  // namespace toroid
