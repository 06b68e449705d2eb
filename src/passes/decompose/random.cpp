// Operators that draw random numbers: random_bits.h says from what.
//
// The numbers are not PyTorch's, whose generator hands them out one after the other; the distributions and their ends are.
#include "passes/decompose/formula.h"
#include "passes/decompose/random_bits.h"
#include "support/error.h"

namespace toroid {
namespace {

// ---- rand, randn and their kin ------------------------------------------------------------------------------------------

std::vector<Tensor> rand(Decomposer& d, const Args& a) {
  return {unit_uniform(d, a.integers("size"), a.dtype("dtype").value_or(DType::F32))};
}
std::vector<Tensor> randn(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("dtype").value_or(DType::F32);
  return {d.b.cast(standard_normal(d, a.integers("size"), compute_dtype(dtype)), dtype)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::rand", rand},
    {"aten::randn", randn},
};

}  // namespace

std::span<const DecompositionRow> random_rows() { return kRows; }

}  // namespace toroid
