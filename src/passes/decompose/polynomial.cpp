// Orthogonal polynomials of a degree that is itself a tensor.
//
// Each is one scalar operation that runs the three-term recurrence. The shifted Chebyshev polynomials are the plain
// ones of 2x - 1.
#include "passes/decompose/formula.h"
#include "passes/decompose/operands.h"

namespace toroid {
namespace {

template <ScalarOp op>
std::vector<Tensor> polynomial(Decomposer& d, const Args& a) {
  const DType dtype = as_floating(promoted_dtype(a, {"x", "n"}));
  return combine(
      d, a, dtype, [](Tensor x, Tensor n) { return apply(op, x, n); }, "x", "n");
}

template <ScalarOp op>
std::vector<Tensor> shifted(Decomposer& d, const Args& a) {
  const DType dtype = as_floating(promoted_dtype(a, {"x", "n"}));
  return combine(
      d, a, dtype, [](Tensor x, Tensor n) { return apply(op, x * 2.0 - 1.0, n); }, "x", "n");
}

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> polynomial_rows() { return kRows; }

}  // namespace toroid
