// Derivatives of the scalar operators (tensor/scalar_op.def).
//
// At a kink the derivative is that of one side: of a maximum of x and a constant, 0 where they are equal, as PyTorch's of relu; of two
// equal operands with tangents, their mean.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/engine/forward_mode.h"

namespace toroid {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::ln10;
using std::numbers::ln2;
using std::numbers::pi;

Tensor sign(Tensor x) { return apply(ScalarOp::Sign, x); }

// dy/dx of a function of one argument; undefined where it is 0 between steps.
Tensor derivative(ScalarOp op, Tensor x, Tensor y) {
  using enum ScalarOp;
  switch (op) {
    case Sign:
    case Floor:
    case Ceil:
    case Trunc:
    case Round: return {};
    case Abs: return sign(x);
    case Sqrt: return 0.5 / y;
    case Rsqrt: return -0.5 * y / x;
    case Reciprocal: return -square(y);
    case Exp:
    case ExpNormal: return y;
    case Exp2: return y * ln2;
    case Expm1: return y + 1.0;
    case Log: return reciprocal(x);
    case Log2: return 1.0 / (x * ln2);
    case Log10: return 1.0 / (x * ln10);
    case Log1p: return reciprocal(x + 1.0);
    case Sin: return cos(x);
    case Cos: return -sin(x);
    case Tan: return square(y) + 1.0;
    case Asin: return rsqrt(1.0 - square(x));
    case Acos: return -rsqrt(1.0 - square(x));
    case Atan: return reciprocal(square(x) + 1.0);
    case Sinh: return apply(Cosh, x);
    case Cosh: return apply(Sinh, x);
    case Tanh: return 1.0 - square(y);
    case Asinh: return rsqrt(square(x) + 1.0);
    case Acosh: return rsqrt(square(x) - 1.0);
    case Atanh: return reciprocal(1.0 - square(x));
    case Sigmoid: return y * (1.0 - y);
    case Erf: return exp(-square(x)) * (2 * inv_sqrtpi);
    case Erfc: return exp(-square(x)) * (-2 * inv_sqrtpi);
    case Erfinv: return exp(square(y)) * (0.5 / inv_sqrtpi);
    case Erfcx: return x * y * 2.0 - 2 * inv_sqrtpi;
    case Lgamma: return digamma(x);
    case Digamma:  // the sum of 1 / (x + n)^2
      return apply(Zeta, number_like(x, 2.0), x);
    case I0: return apply(I1, x);
    case I0e: return apply(I1e, x) - sign(x) * y;
    case I1: return where(eq(x, 0), 0.5, apply(I0, x) - y / x);
    case I1e: return where(eq(x, 0), 0.5, apply(I0e, x) - y * (sign(x) + reciprocal(x)));
    case Ndtri: return exp(square(y) * 0.5) * std::sqrt(2 * pi);
    case LogNdtr:  // the density over the distribution, which is erfc(-x / sqrt(2)) / 2
      return std::sqrt(2 / pi) / apply(Erfcx, x * -std::numbers::sqrt2 / 2.0);
    default: refuse_derivative(to_string(op));
  }
}

// The derivatives by both operands, each where its tangent is there.
struct Partials {
  Tensor first, second;
};
// Of the operand that was chosen; of equal ones `tie`.
Partials choice(Tensor is_first, Tensor is_second, Tensor tie) {
  return {where(is_first, 1, where(is_second, 0, tie)), where(is_second, 1, where(is_first, 0, tie))};
}
Partials partials(ScalarOp op, Tensor a, Tensor b, Tensor y, bool needs_first, bool needs_second) {
  using enum ScalarOp;
  switch (op) {
    case FloorDiv:
    case TruncDiv:
    case Nextafter: return {};
    case Mul: return {b, a};
    case Div: return {reciprocal(b), -y / b};
    case Mod: return {number_like(a, 1.0), -floor(a / b)};
    case Fmod: return {number_like(a, 1.0), -trunc(a / b)};
    case Pow:
      return {needs_first ? where(eq(b, 0), 0.0, b * pow(a, b - 1.0)) : Tensor(),
              needs_second ? where(eq(a, 0) & (b >= 0), 0.0, y * log(a)) : Tensor()};
    case Min: return choice(a < b, b < a, number_like(a, needs_first && needs_second ? 0.5 : 0.0));
    case Max: return choice(a > b, b > a, number_like(a, needs_first && needs_second ? 0.5 : 0.0));
    case Atan2: {
      const Tensor squares = square(a) + square(b);
      return {b / squares, -a / squares};
    }
    case Hypot: return {a / y, b / y};
    case Copysign: return {where(eq(a, 0), 0.0, y / a), {}};
    case Igamma:
    case Igammac: {
      if (needs_first) refuse_derivative(fmt::format("{} by its first argument", to_string(op)));
      const Tensor density = exp((a - 1.0) * log(b) - b - lgamma(a));
      return {{}, op == Igamma ? density : -density};
    }
    case Zeta:
      if (needs_first) refuse_derivative("zeta by its first argument");
      return {{}, -a * apply(Zeta, a + 1.0, b)};
    default: refuse_derivative(to_string(op));
  }
}

Tensor product_of(Tensor factor, Tensor tangent) { return factor.defined() && tangent.defined() ? factor * tangent : Tensor(); }

}  // namespace

Tensor sum_of(Tensor a, Tensor b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

void refuse_derivative(std::string_view operation) {
  throw Error(ErrorKind::Unsupported, fmt::format("the forward-mode derivative of {} is not supported", operation))
      .help("export the model with torch.export.export(…).run_decompositions({}), which writes derivatives as operators");
}

Tensor scalar_tangent(ScalarOp op, const std::vector<Tensor>& x, Tensor y, const std::vector<Tensor>& tangents) {
  if (op == ScalarOp::Where) {
    const Tensor zero = number_like(y, 0.0);
    return where(x[0], tangents[1].defined() ? tangents[1] : zero, tangents[2].defined() ? tangents[2] : zero);
  }
  if (op == ScalarOp::Neg) return -tangents[0];
  if (op == ScalarOp::Add) return sum_of(tangents[0], tangents[1]);
  if (op == ScalarOp::Sub) return sum_of(tangents[0], tangents[1].defined() ? -tangents[1] : Tensor());
  if (x.size() == 1) return product_of(derivative(op, x[0], y), tangents[0]);
  TOROID_CHECK(x.size() == 2, "{} is a function of floats", to_string(op));
  const Partials by = partials(op, x[0], x[1], y, tangents[0].defined(), tangents[1].defined());
  return sum_of(product_of(by.first, tangents[0]), product_of(by.second, tangents[1]));
}

}  // namespace toroid
