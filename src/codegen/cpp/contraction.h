// Which multiplications are fused with additions, in kernels that have two forms.
//
// The compiler fuses a * b + c where it sees fit: not where a * b is used elsewhere too, which the other form of a kernel may do. Such kernels say
// it themselves, for each addition by its expression alone: every sum of a product is op_fma, and what ends with a multiplication otherwise goes
// through rounded(), behind which the compiler sees no product. Without hardware for it neither form fuses.
//
//   y = x * scale + shift;  s += y        op_fma_v(x, scale, shift)
//   p = x * x;  q = p + 1;  r = exp(p)    q = op_fma_v(x, x, 1), and p = rounded(x * x) for exp
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "codegen/cpp/scalar_text.h"
#include "loop/loop.h"

namespace toroid::codegen {

class Contraction {
 public:
  Contraction() = default;   // left to the compiler
  // `unfused`: products that are kept in one of the forms, so they are rounded in both.
  Contraction(const loop::ExprTable& exprs, const std::vector<loop::ExprId>& unfused)
      : exprs_(&exprs), unfused_(unfused.begin(), unfused.end()) {}

  struct Product {
    loop::ExprId a, b;
  };
  // The factors of what is fused with an addition.
  std::optional<Product> product(loop::ExprId id) const;
  // An addition or subtraction as a fused one: ±a * b ± addend.
  struct Sum {
    Product product;
    loop::ExprId addend;
    bool is_product_negative = false, is_addend_negative = false;
  };
  std::optional<Sum> sum(const loop::Compute& op) const;
  // Must the result be put through rounded()?
  bool is_rounded(const loop::Compute& op, DType dtype) const;

 private:
  const loop::ExprTable* exprs_ = nullptr;
  std::unordered_set<loop::ExprId> unfused_;
};

// ±a * b ± addend, rounded once.
OperandText fused_text(DType dtype, const OperandText& a, const OperandText& b, const OperandText& addend, bool is_product_negative = false,
                       bool is_addend_negative = false);

}  // namespace toroid::codegen
