// Sums and products in canonical form.
//
//   (s0 + 1)*4 - 4  =>  4*s0          i0*(s0 + 2) + i0  =>  s0*i0 + 3*i0
//
// Products of sums are multiplied out while the result stays small; beyond that they stay products, since a chain of
// factors would otherwise double the terms at each step.
#include "symbolic/form.h"
#include "symbolic/node_table.h"
#include "symbolic/recombine.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

// Terms that multiplying two sums, or a sum and a product, may give.
constexpr size_t kMaxTermsOfProduct = 48;
constexpr size_t kMaxDistributedTerms = 256;

Expr scale(Context::Impl& impl, Expr expr, int64_t factor) {
  if (factor == 0) return 0;
  Form form;
  append(form, expr, factor);
  return to_expr(impl, form);  // scaling keeps the order and creates no pair to recombine
}

bool has_sum_factor(const Monomial& monomial) {
  for (Expr atom : factors(monomial.product)) {
    if (atom.kind() == Kind::Add) return true;
  }
  return false;
}

Expr multiply_monomials(Context::Impl& impl, const Monomial& a, const Monomial& b) {
  std::vector<Expr> atoms(factors(a.product).begin(), factors(a.product).end());
  const std::span<const Expr> more = factors(b.product);
  atoms.insert(atoms.end(), more.begin(), more.end());
  return to_expr(impl, Monomial{checked_multiply(a.coefficient, b.coefficient), product_of(impl, std::move(atoms))});
}

// As factors of one product, not multiplied out; only the constant factor of a sum is taken out of it.
Expr keep_product(Context::Impl& impl, Expr sum, Expr other) {
  Monomial whole{1, sum};
  if (other.kind() == Kind::Add) return multiply_monomials(impl, whole, Monomial{1, other});
  return multiply_monomials(impl, whole, *as_monomial(other));
}

Expr distribute(Context::Impl& impl, Expr sum, Expr other) {
  Form form;
  for (Expr operand : sum.operands()) append(form, operand * other, 1);
  return collect(impl, std::move(form));
}

}  // namespace

Expr sum_of(std::span<const Expr> operands) {
  Form form;
  Context::Impl* impl = nullptr;
  for (Expr operand : operands) {
    if (operand.context()) {
      TOROID_CHECK(!impl || impl == &operand.context()->impl(), "expressions of two contexts meet in a sum");
      impl = &operand.context()->impl();
    }
    append(form, operand, 1);
  }
  if (!impl || form.terms.empty()) return form.constant;
  return collect(*impl, std::move(form));
}

Expr operator+(Expr a, Expr b) {
  if (a.is_const() && b.is_const()) return checked_add(a.value(), b.value());
  if (a.is_const(0)) return fold_single_value(b);
  if (b.is_const(0)) return fold_single_value(a);
  Context::Impl& impl = *common_impl(a, b);
  Form form;
  append(form, a, 1);
  append(form, b, 1);
  if (a.is_const() || b.is_const()) return to_expr(impl, form);
  return collect(impl, std::move(form));
}

Expr operator-(Expr a) {
  if (a.is_const()) return checked_negate(a.value());
  return scale(a.context()->impl(), a, -1);
}

Expr operator-(Expr a, Expr b) {
  if (b.is_const()) return a + Expr(checked_negate(b.value()));
  if (a == b) return 0;
  Context::Impl& impl = *common_impl(a, b);
  Form form;
  append(form, a, 1);
  append(form, b, -1);
  if (a.is_const()) return to_expr(impl, form);
  return collect(impl, std::move(form));
}

Expr operator*(Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a.is_const() && b.is_const()) return checked_multiply(a.value(), b.value());
  Context::Impl& impl = *common_impl(a, b);
  if (a.is_const()) return scale(impl, b, a.value());
  if (b.is_const()) return scale(impl, a, b.value());
  if (a.kind() != Kind::Add) std::swap(a, b);
  if (a.kind() != Kind::Add) return multiply_monomials(impl, *as_monomial(a), *as_monomial(b));
  const size_t a_terms = a.operands().size();
  const size_t b_terms = b.kind() == Kind::Add ? b.operands().size() : 1;
  const bool small = b_terms == 1 ? a_terms <= kMaxDistributedTerms : a_terms * b_terms <= kMaxTermsOfProduct;
  const std::optional<Monomial> b_monomial = as_monomial(b);
  if (!small || (b_monomial && has_sum_factor(*b_monomial))) return keep_product(impl, a, b);
  return distribute(impl, a, b);
}

Expr product(std::span<const Expr> factors) {
  Expr result = 1;
  for (Expr factor : factors) result *= factor;
  return result;
}

}  // namespace toroid::sym
