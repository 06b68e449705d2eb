// Orthogonal polynomials of a degree that is itself a tensor.
//
// Each is one scalar operation that runs the three-term recurrence. The shifted Chebyshev polynomials are the plain
// ones of 2x - 1.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

// The recurrence takes as many steps as the degree says, for each element.
void require_degree(const Args& a) {
  constexpr double kMost = 1 << 16;
  if (!is_number_argument(a, "n")) return;
  const double degree = a.number("n");
  if (degree <= kMost || std::isnan(degree)) return;
  throw Error(ErrorKind::Unsupported, fmt::format("{} of degree {}: {} is the most", a.schema().name, degree, kMost));
}

template <ScalarOp op>
std::vector<Tensor> polynomial(Decomposer& d, const Args& a) {
  require_degree(a);
  const DType dtype = as_floating(promoted_dtype(a, {"x", "n"}));
  return combine(
      d, a, dtype, [](Tensor x, Tensor n) { return apply(op, x, n); }, "x", "n");
}

template <ScalarOp op>
std::vector<Tensor> shifted(Decomposer& d, const Args& a) {
  require_degree(a);
  const DType dtype = as_floating(promoted_dtype(a, {"x", "n"}));
  return combine(
      d, a, dtype, [](Tensor x, Tensor n) { return apply(op, x * 2.0 - 1.0, n); }, "x", "n");
}

constexpr DecompositionRow kPolynomialRows[] = {
    {"aten::special_chebyshev_polynomial_t.*", polynomial<ScalarOp::ChebyshevT>},
    {"aten::special_chebyshev_polynomial_u.*", polynomial<ScalarOp::ChebyshevU>},
    {"aten::special_chebyshev_polynomial_v.*", polynomial<ScalarOp::ChebyshevV>},
    {"aten::special_chebyshev_polynomial_w.*", polynomial<ScalarOp::ChebyshevW>},
    {"aten::special_shifted_chebyshev_polynomial_t.*", shifted<ScalarOp::ChebyshevT>},
    {"aten::special_shifted_chebyshev_polynomial_u.*", shifted<ScalarOp::ChebyshevU>},
    {"aten::special_shifted_chebyshev_polynomial_v.*", shifted<ScalarOp::ChebyshevV>},
    {"aten::special_shifted_chebyshev_polynomial_w.*", shifted<ScalarOp::ChebyshevW>},
    {"aten::special_hermite_polynomial_h.*", polynomial<ScalarOp::HermiteH>},
    {"aten::special_hermite_polynomial_he.*", polynomial<ScalarOp::HermiteHe>},
    {"aten::special_laguerre_polynomial_l.*", polynomial<ScalarOp::LaguerreL>},
    {"aten::special_legendre_polynomial_p.*", polynomial<ScalarOp::LegendreP>},
};

}  // namespace

std::span<const DecompositionRow> polynomial_rows() { return kPolynomialRows; }

}  // namespace toroid
