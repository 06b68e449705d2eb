// Functions of a real variable: exponentials, trigonometry, error and gamma functions, Bessel functions.
//
// Most are one scalar operation on a floating dtype, computed in F32 for F16 and BF16; integers become F32 first. What
// can be said with few of those is a formula here.
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// f of the argument called `name`, in a floating dtype.
template <class F>
std::vector<Tensor> real_function(const Args& a, std::string_view name, F f) {
  return {compute_wide(require_real(a.tensor(name)), f)};
}

template <ScalarOp op>
std::vector<Tensor> unary(Decomposer&, const Args& a) {
  return real_function(a, parameter(a, 0), [](Tensor x) { return apply(op, x); });
}

// f of two arguments that may be numbers, in the floating dtype they promote to.
template <class F>
std::vector<Tensor> real_function_of_two(Decomposer& d, const Args& a, F f) {
  const std::string_view x = parameter(a, 0), y = parameter(a, 1);
  return combine(d, a, as_floating(promoted_dtype(a, {x, y})), f, x, y);
}

template <ScalarOp op>
std::vector<Tensor> binary(Decomposer& d, const Args& a) {
  return real_function_of_two(d, a, [](Tensor x, Tensor y) { return apply(op, x, y); });
}

// ---- angles and logarithms -----------------------------------------------------------------------------------------

std::vector<Tensor> deg2rad(Decomposer&, const Args& a) {
  return real_function(a, "self", [](Tensor x) { return x * (kPi / 180); });
}
std::vector<Tensor> rad2deg(Decomposer&, const Args& a) {
  return real_function(a, "self", [](Tensor x) { return x * (180 / kPi); });
}

// Of a real number: 0 or pi.
std::vector<Tensor> angle(Decomposer&, const Args& a) {
  return real_function(a, "self", [](Tensor x) { return where(isnan(x), x, where(x < 0, kPi, number_like(x, 0.0))); });
}

std::vector<Tensor> sinc(Decomposer&, const Args& a) {
  return real_function(a, "self", [](Tensor x) {
    Tensor angle = x * kPi;
    return where(eq(x, 0), 1, sin(angle) / angle);
  });
}

std::vector<Tensor> logit(Decomposer&, const Args& a) {
  return real_function(a, "self", [&](Tensor x) {
    if (a.has("eps")) {
      const double eps = a.number("eps");
      x = minimum(maximum(x, eps), 1 - eps);
    }
    return log(x / (1.0 - x));
  });
}

// log(e^x + e^y), from the larger one.
std::vector<Tensor> logaddexp(Decomposer& d, const Args& a) {
  return real_function_of_two(d, a, [](Tensor x, Tensor y) {
    Tensor same_infinity = isinf(x) & eq(x, y);
    return where(same_infinity, x, maximum(x, y) + log1p(exp(-abs(x - y))));
  });
}
std::vector<Tensor> logaddexp2(Decomposer& d, const Args& a) {
  return real_function_of_two(d, a, [](Tensor x, Tensor y) {
    Tensor same_infinity = isinf(x) & eq(x, y);
    return where(same_infinity, x, maximum(x, y) + log1p(exp2(-abs(x - y))) * std::numbers::log2e);
  });
}

// x log(y), 0 where x is 0, also for y <= 0; NaN where y is.
std::vector<Tensor> xlogy(Decomposer& d, const Args& a) {
  return real_function_of_two(d, a, [](Tensor x, Tensor y) { return where(eq(x, 0) & !isnan(y), 0, x * log(y)); });
}
std::vector<Tensor> xlog1py(Decomposer& d, const Args& a) {
  return real_function_of_two(d, a, [](Tensor x, Tensor y) { return where(eq(x, 0) & !isnan(y), 0, x * log1p(y)); });
}

// -x log(x)
std::vector<Tensor> entr(Decomposer&, const Args& a) {
  return real_function(
      a, "self", [](Tensor x) { return where(isnan(x), x, where(x > 0, -x * log(x), where(eq(x, 0), 0, number_like(x, -kInfinity)))); });
}

// The normal distribution function.
std::vector<Tensor> ndtr(Decomposer&, const Args& a) {
  return real_function(a, "self", [](Tensor x) { return erfc(x * -std::numbers::sqrt2 / 2.0) * 0.5; });
}

// ---- the gamma function and its derivatives ------------------------------------------------------------------------

// The derivative of digamma: below 1/2 by reflection, then six steps up, where the asymptotic series is exact enough.
Tensor trigamma(Tensor x) {
  Tensor is_low = x < 0.5;
  Tensor sine = sin(x * kPi);
  Tensor reflected = number_like(x, kPi * kPi) / square(sine);
  Tensor t = where(is_low, 1.0 - x, x);
  Tensor sum = reciprocal(square(t));
  for (int step = 1; step < 6; ++step) sum = sum + reciprocal(square(t + static_cast<double>(step)));
  t = t + 6.0;
  Tensor u = reciprocal(square(t));
  sum = sum + (1.0 + 0.5 / t + u * (1.0 / 6 - u * (1.0 / 30 - u * (1.0 / 42)))) / t;
  return where(is_low, reflected - sum, sum);
}

std::vector<Tensor> polygamma(Decomposer&, const Args& a) {
  const int64_t order = a.constant("n");
  if (order < 0) throw Error(ErrorKind::InvalidModel, fmt::format("polygamma of negative order {}", order));
  return real_function(a, "self", [&](Tensor x) {
    if (order == 0) return digamma(x);
    if (order == 1) return trigamma(x);
    const double n = static_cast<double>(order);
    const double factor = (order % 2 != 0 ? 1.0 : -1.0) * std::exp(std::lgamma(n + 1));
    return apply(ScalarOp::Zeta, number_like(x, n + 1), x) * factor;
  });
}

// log of the multivariate gamma function of dimension p: a sum of lgamma at steps of 1/2.
std::vector<Tensor> mvlgamma(Decomposer&, const Args& a) {
  const int64_t p = a.constant("p");
  if (p < 1) throw Error(ErrorKind::InvalidModel, fmt::format("mvlgamma of dimension {}", p));
  return real_function(a, "self", [&](Tensor x) {
    x.builder().spend(p, "terms");
    Tensor sum = lgamma(x);
    for (int64_t j = 1; j < p; ++j) sum = sum + lgamma(x - 0.5 * static_cast<double>(j));
    return sum + 0.25 * static_cast<double>(p) * static_cast<double>(p - 1) * std::log(kPi);
  });
}

constexpr DecompositionRow kSpecialRows[] = {
    {"aten::sqrt", unary<ScalarOp::Sqrt>},
    {"aten::rsqrt", unary<ScalarOp::Rsqrt>},
    {"aten::reciprocal", unary<ScalarOp::Reciprocal>},
    {"aten::exp", unary<ScalarOp::Exp>},
    {"aten::exp2", unary<ScalarOp::Exp2>},
    {"aten::special_exp2", unary<ScalarOp::Exp2>},
    {"aten::expm1", unary<ScalarOp::Expm1>},
    {"aten::special_expm1", unary<ScalarOp::Expm1>},
    {"aten::log", unary<ScalarOp::Log>},
    {"aten::log2", unary<ScalarOp::Log2>},
    {"aten::log10", unary<ScalarOp::Log10>},
    {"aten::log1p", unary<ScalarOp::Log1p>},
    {"aten::special_log1p", unary<ScalarOp::Log1p>},
    {"aten::logaddexp", logaddexp},
    {"aten::logaddexp2", logaddexp2},
    {"aten::xlogy.*", xlogy},
    {"aten::special_xlogy.*", xlogy},
    {"aten::special_xlog1py.*", xlog1py},

    {"aten::sin", unary<ScalarOp::Sin>},
    {"aten::cos", unary<ScalarOp::Cos>},
    {"aten::tan", unary<ScalarOp::Tan>},
    {"aten::asin", unary<ScalarOp::Asin>},
    {"aten::arcsin", unary<ScalarOp::Asin>},
    {"aten::acos", unary<ScalarOp::Acos>},
    {"aten::arccos", unary<ScalarOp::Acos>},
    {"aten::atan", unary<ScalarOp::Atan>},
    {"aten::arctan", unary<ScalarOp::Atan>},
    {"aten::sinh", unary<ScalarOp::Sinh>},
    {"aten::cosh", unary<ScalarOp::Cosh>},
    {"aten::tanh", unary<ScalarOp::Tanh>},
    {"aten::asinh", unary<ScalarOp::Asinh>},
    {"aten::arcsinh", unary<ScalarOp::Asinh>},
    {"aten::acosh", unary<ScalarOp::Acosh>},
    {"aten::arccosh", unary<ScalarOp::Acosh>},
    {"aten::atanh", unary<ScalarOp::Atanh>},
    {"aten::arctanh", unary<ScalarOp::Atanh>},
    {"aten::deg2rad", deg2rad},
    {"aten::rad2deg", rad2deg},
    {"aten::angle", angle},
    {"aten::sinc", sinc},
    {"aten::special_sinc", sinc},

    {"aten::sigmoid", unary<ScalarOp::Sigmoid>},
    {"aten::special_expit", unary<ScalarOp::Sigmoid>},
    {"aten::logit", logit},
    {"aten::special_logit", logit},

    {"aten::erf", unary<ScalarOp::Erf>},
    {"aten::special_erf", unary<ScalarOp::Erf>},
    {"aten::erfc", unary<ScalarOp::Erfc>},
    {"aten::special_erfc", unary<ScalarOp::Erfc>},
    {"aten::special_erfcx", unary<ScalarOp::Erfcx>},
    {"aten::erfinv", unary<ScalarOp::Erfinv>},
    {"aten::special_erfinv", unary<ScalarOp::Erfinv>},
    {"aten::special_ndtr", ndtr},
    {"aten::special_ndtri", unary<ScalarOp::Ndtri>},
    {"aten::special_log_ndtr", unary<ScalarOp::LogNdtr>},
    {"aten::special_entr", entr},

    {"aten::lgamma", unary<ScalarOp::Lgamma>},
    {"aten::special_gammaln", unary<ScalarOp::Lgamma>},
    {"aten::digamma", unary<ScalarOp::Digamma>},
    {"aten::special_digamma", unary<ScalarOp::Digamma>},
    {"aten::special_psi", unary<ScalarOp::Digamma>},
    {"aten::polygamma", polygamma},
    {"aten::special_polygamma", polygamma},
    {"aten::mvlgamma", mvlgamma},
    {"aten::special_multigammaln", mvlgamma},
    {"aten::igamma", binary<ScalarOp::Igamma>},
    {"aten::special_gammainc", binary<ScalarOp::Igamma>},
    {"aten::igammac", binary<ScalarOp::Igammac>},
    {"aten::special_gammaincc", binary<ScalarOp::Igammac>},
    {"aten::special_zeta.*", binary<ScalarOp::Zeta>},

    {"aten::i0", unary<ScalarOp::I0>},
    {"aten::special_i0", unary<ScalarOp::I0>},
    {"aten::special_i0e", unary<ScalarOp::I0e>},
    {"aten::special_i1", unary<ScalarOp::I1>},
    {"aten::special_i1e", unary<ScalarOp::I1e>},
    {"aten::special_bessel_j0", unary<ScalarOp::BesselJ0>},
    {"aten::special_bessel_j1", unary<ScalarOp::BesselJ1>},
    {"aten::special_bessel_y0", unary<ScalarOp::BesselY0>},
    {"aten::special_bessel_y1", unary<ScalarOp::BesselY1>},
    {"aten::special_modified_bessel_i0", unary<ScalarOp::ModifiedBesselI0>},
    {"aten::special_modified_bessel_i1", unary<ScalarOp::ModifiedBesselI1>},
    {"aten::special_modified_bessel_k0", unary<ScalarOp::ModifiedBesselK0>},
    {"aten::special_modified_bessel_k1", unary<ScalarOp::ModifiedBesselK1>},
    {"aten::special_scaled_modified_bessel_k0", unary<ScalarOp::ScaledModifiedBesselK0>},
    {"aten::special_scaled_modified_bessel_k1", unary<ScalarOp::ScaledModifiedBesselK1>},
    {"aten::special_spherical_bessel_j0", unary<ScalarOp::SphericalBesselJ0>},
    {"aten::special_airy_ai", unary<ScalarOp::AiryAi>},
};

}  // namespace

std::span<const DecompositionRow> special_rows() { return kSpecialRows; }

}  // namespace toroid
