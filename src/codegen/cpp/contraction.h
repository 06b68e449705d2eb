// Which multiplications are fused with additions.
//
// The compiler fuses a * b + c where it sees fit. What must not be fused goes through rounded(), behind which the compiler sees no product:
// a product that is used elsewhere too (schedule/cpu/rounded_products.cpp).
//
//   y = a * b;  z = y - max(y)            y = rounded(a * b)
//
// The compiler does not fuse where a * b is used elsewhere in the same loop, which the other form of a kernel may do. Kernels that have two
// forms say all of it themselves, for each addition by its expression alone: every sum of a product is op_fma, and what ends with a
// multiplication otherwise is rounded(). Without hardware for it neither form fuses.
//
//   y = x * scale + shift;  s += y        op_fma_v(x, scale, shift)
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "codegen/cpp/scalar_text.h"
#include "loop/loop.h"

namespace toroid::codegen {

class Contraction {
 public:
  Contraction() = default;  // left to the compiler
  // `unfused`: what is rounded in any case. `is_said`: nothing is left to the compiler.
  Contraction(const loop::ExprTable& exprs, const std::vector<loop::ExprId>& unfused, bool is_said)
      : exprs_(&exprs), unfused_(unfused.begin(), unfused.end()), is_said_(is_said) {}

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
  bool is_rounded(loop::ExprId id) const;

 private:
  const loop::ExprTable* exprs_ = nullptr;
  std::unordered_set<loop::ExprId> unfused_;
  bool is_said_ = false;
};

// ±a * b ± addend, rounded once.
OperandText fused_text(DType dtype, const OperandText& a, const OperandText& b, const OperandText& addend, bool is_product_negative = false,
                       bool is_addend_negative = false);

}  // namespace toroid::codegen
