// Real random numbers: uniform, normal and what follows from them by a formula. random_bits.h says what they are drawn from.
//
// The numbers are not PyTorch's, whose generator hands them out one after the other; the distributions, their ends and
// the errors are.
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/random/random_bits.h"
#include "support/match.h"

namespace toroid {
namespace {

void require_floating(const Args& a, DType dtype) {
  require(is_floating(dtype) && size_bytes(dtype) > 1, "{} draws floating-point numbers, not {}", a.schema().name, to_string(dtype));
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::F16: return 65504;
    case DType::BF16: return 0x1.fep127;
    case DType::F32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

std::string_view c_name_of_real(DType dtype) {
  switch (dtype) {
    case DType::F16: return "c10::Half";
    case DType::BF16: return "c10::BFloat16";
    case DType::F32: return "float";
    default: return "double";
  }
}

// ---- uniform ------------------------------------------------------------------------------------------------------------

Tensor uniform_in(Decomposer& d, const Args& a, Sizes sizes, DType dtype, double from, double to) {
  require_floating(a, dtype);
  require(std::fabs(from) <= largest(dtype), "from is out of bounds for {}", c_name_of_real(dtype));
  require(std::fabs(to) <= largest(dtype), "to is out of bounds for {}", c_name_of_real(dtype));
  require(from <= to, "uniform_ expects to return a [from, to) range, but found from={} > to={}", from, to);
  require(to - from <= largest(dtype), "uniform_ expects to-from to be at most the largest {}, but found to={} and from={}",
          c_name_of_real(dtype), to, from);
  if (from == 0 && to == 1) return unit_uniform(d, std::move(sizes), dtype);
  const Tensor unit = d.b.cast(unit_uniform(d, std::move(sizes), dtype), compute_dtype(dtype));
  // Rounding may reach `to`, which the range does not have.
  const Tensor y = d.b.cast(unit * (to - from) + from, dtype);
  return where(y < to, y, from);
}

std::vector<Tensor> rand(Decomposer& d, const Args& a) {
  return {uniform_in(d, a, a.integers("size"), a.dtype("dtype").value_or(DType::F32), 0, 1)};
}
std::vector<Tensor> rand_like(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {uniform_in(d, a, x.sizes(), a.dtype("dtype").value_or(x.dtype()), 0, 1)};
}
std::vector<Tensor> uniform(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {uniform_in(d, a, x.sizes(), x.dtype(), a.number("from"), a.number("to"))};
}
std::vector<Tensor> prims_uniform(Decomposer& d, const Args& a) {
  return {uniform_in(d, a, a.integers("shape"), *a.dtype("dtype"), a.number("low"), a.number("high"))};
}

// ---- normal -------------------------------------------------------------------------------------------------------------

Tensor normal_about(Decomposer& d, const Args& a, Sizes sizes, DType dtype, double mean, double std) {
  require_floating(a, dtype);
  require(std >= 0, "normal expects std >= 0.0, but found std {}", std);
  Tensor y = standard_normal(d, std::move(sizes), compute_dtype(dtype));
  if (std != 1) y = y * std;
  if (mean != 0) y = y + mean;
  return d.b.cast(y, dtype);
}

std::vector<Tensor> randn(Decomposer& d, const Args& a) {
  return {normal_about(d, a, a.integers("size"), a.dtype("dtype").value_or(DType::F32), 0, 1)};
}
std::vector<Tensor> randn_like(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {normal_about(d, a, x.sizes(), a.dtype("dtype").value_or(x.dtype()), 0, 1)};
}
std::vector<Tensor> normal(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {normal_about(d, a, x.sizes(), x.dtype(), a.number("mean"), a.number("std"))};
}
std::vector<Tensor> normal_of_size(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  return {normal_about(d, a, a.integers("size"), dtype, a.number("mean"), a.number("std"))};
}
std::vector<Tensor> prims_normal(Decomposer& d, const Args& a) {
  return {normal_about(d, a, a.integers("shape"), *a.dtype("dtype"), a.number("mean"), a.number("std"))};
}

// Means and deviations from tensors; the result has the dtype of the means, or of the deviations beside a number.
std::vector<Tensor> normal_around(Decomposer& d, const Args& a) {
  const bool mean_is_number = is_number_argument(a, "mean");
  const bool std_is_number = is_number_argument(a, "std");
  const DType dtype = a.tensor(mean_is_number ? "std" : "mean").dtype();
  require_floating(a, dtype);
  const DType wide = compute_dtype(dtype);
  const Tensor mean = operand(d, a, "mean", wide);
  Tensor std = operand(d, a, "std", wide);
  const Sizes sizes = d.b.broadcast(mean.sizes(), std.sizes());
  if (std_is_number) {
    require(a.number("std") >= 0, "normal expects std >= 0.0, but found std {}", a.number("std"));
  } else {
    Tensor holds = std >= 0.0;
    if (holds.rank() > 0) holds = d.b.reduce(ReduceOp::All, holds, {})[0];
    std = checked(d, std, holds, RandomRequirement::NormalDeviation);
  }
  const Tensor y = standard_normal(d, sizes, wide) * d.b.expand(std, sizes) + d.b.expand(mean, sizes);
  return {d.b.cast(y, dtype)};
}

std::vector<Tensor> log_normal(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require_floating(a, x.dtype());
  require(a.number("std") > 0, "log_normal_ expects std > 0.0, but found std={}", a.number("std"));
  const Tensor y = standard_normal(d, x.sizes(), compute_dtype(x.dtype()));
  return {d.b.cast(exp(y * a.number("std") + a.number("mean")), x.dtype())};
}

// ---- by their inverse distribution functions ----------------------------------------------------------------------------

std::vector<Tensor> exponential(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require(is_floating(x.dtype()),
          "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
          to_string(x.dtype()));
  const double lambda = a.number("lambd");
  require(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda={}", lambda);
  return {d.b.cast(standard_exponential(d, x.sizes(), compute_dtype(x.dtype())) * (1 / lambda), x.dtype())};
}

std::vector<Tensor> cauchy(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require_floating(a, x.dtype());
  const double sigma = a.number("sigma");
  require(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma={}", sigma);
  const Tensor unit = unit_uniform(d, x.sizes(), compute_dtype(x.dtype()));
  const Tensor y = apply(ScalarOp::Tan, (unit - 0.5) * std::numbers::pi) * sigma + a.number("median");
  return {d.b.cast(y, x.dtype())};
}

constexpr DecompositionRow kRandomRows[] = {
    {"aten::rand.*", rand},
    {"aten::rand_like.*", rand_like},
    {"aten::uniform", uniform},
    {"prims::uniform", prims_uniform},
    {"aten::randn.*", randn},
    {"aten::randn_like.*", randn_like},
    {"aten::normal_", normal},
    {"aten::normal.out", normal},
    {"aten::normal_functional", normal},
    {"aten::normal.Tensor_Tensor", normal_around},
    {"aten::normal.Tensor_float", normal_around},
    {"aten::normal.float_Tensor", normal_around},
    {"aten::normal.float_float", normal_of_size},
    {"prims::normal", prims_normal},
    {"aten::log_normal", log_normal},
    {"aten::exponential", exponential},
    {"aten::cauchy", cauchy},
};

}  // namespace

std::span<const DecompositionRow> random_rows() { return kRandomRows; }

}  // namespace toroid
