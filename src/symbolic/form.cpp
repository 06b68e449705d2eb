#include "symbolic/form.h"

#include <numeric>

#include "symbolic/range.h"

namespace toroid::sym {

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  if (a.is_const() || b.is_const()) {
    if (a.is_const() && b.is_const()) return a.value() < b.value() ? -1 : 1;
    return a.is_const() ? -1 : 1;
  }
  if (a.kind() != b.kind()) return a.kind() < b.kind() ? -1 : 1;
  if (a.is_symbol()) return a.node()->id < b.node()->id ? -1 : 1;
  // Only the first differing operand is entered, so this walks one path even where nodes are shared.
  const std::span<const Expr> left = a.operands();
  const std::span<const Expr> right = b.operands();
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] != right[i]) return compare(left[i], right[i]);
  }
  return left.size() < right.size() ? -1 : 1;
}

std::span<const Expr> factors(const Expr& product) {
  if (product.kind() == Kind::Mul) return product.operands();
  return product.is_const() ? std::span<const Expr>() : std::span(&product, 1);
}

int compare_products(Expr a, Expr b) {
  if (a == b) return 0;
  const std::span<const Expr> left = factors(a);
  const std::span<const Expr> right = factors(b);
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] != right[i]) return compare(left[i], right[i]);
  }
  return left.size() < right.size() ? -1 : 1;
}

void append(Form& form, Expr expr, int64_t scale) {
  expr = fold_single_value(expr);
  if (expr.is_const()) {
    form.constant = checked_add(form.constant, checked_multiply(expr.value(), scale));
  } else if (expr.kind() == Kind::Add) {
    for (Expr operand : expr.operands()) append(form, operand, scale);
  } else {
    const Node* product = expr.node()->product;
    const int64_t coefficient = product == expr.node() ? 1 : expr.operands()[0].value();
    form.terms.push_back({checked_multiply(coefficient, scale), Expr(product)});
  }
}

void normalise(Form& form) {
  std::vector<Term>& terms = form.terms;
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_products(a.product, b.product) < 0; });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    Term sum = terms[i];
    for (++i; i < terms.size() && terms[i].product == sum.product; ++i) {
      sum.coefficient = checked_add(sum.coefficient, terms[i].coefficient);
    }
    if (sum.coefficient != 0) terms[kept++] = sum;
  }
  terms.resize(kept);
}

Form form_of(Expr expr) {
  Form form;
  append(form, expr, 1);
  return form;  // operands of a canonical sum are sorted already
}

Expr to_expr(Context::Impl& impl, const Monomial& monomial) {
  if (monomial.coefficient == 0 || monomial.product.is_const()) {
    return monomial.product.is_const() ? checked_multiply(monomial.coefficient, monomial.product.value()) : 0;
  }
  if (monomial.coefficient == 1) return monomial.product;
  std::vector<Expr> operands{monomial.coefficient};
  const std::span<const Expr> atoms = factors(monomial.product);
  operands.insert(operands.end(), atoms.begin(), atoms.end());
  return impl.intern(Kind::Mul, operands);
}

Expr to_expr(Context::Impl& impl, const Form& form) {
  if (form.terms.empty()) return form.constant;
  std::vector<Expr> operands;
  operands.reserve(form.terms.size() + 1);
  if (form.constant != 0) operands.push_back(form.constant);
  for (const Term& term : form.terms) operands.push_back(to_expr(impl, Monomial{term.coefficient, term.product}));
  return operands.size() == 1 ? operands[0] : impl.intern(Kind::Add, operands);
}

std::optional<Monomial> as_monomial(Expr expr) {
  expr = fold_single_value(expr);
  if (expr.is_const()) return Monomial{expr.value(), 1};
  if (expr.kind() == Kind::Add) return std::nullopt;
  const Node* product = expr.node()->product;
  return Monomial{product == expr.node() ? 1 : expr.operands()[0].value(), Expr(product)};
}

Expr product_of(Context::Impl& impl, std::vector<Expr> atoms) {
  if (atoms.empty()) return 1;
  if (atoms.size() == 1) return atoms[0];
  std::sort(atoms.begin(), atoms.end(), [](Expr a, Expr b) { return compare(a, b) < 0; });
  return impl.intern(Kind::Mul, atoms);
}

std::optional<Expr> divide_products(Context::Impl& impl, Expr dividend, Expr divisor) {
  if (divisor.is_const()) return dividend;
  if (dividend == divisor) return Expr(1);
  const std::span<const Expr> atoms = factors(dividend);
  const std::span<const Expr> divisor_atoms = factors(divisor);
  if (divisor_atoms.size() >= atoms.size()) return std::nullopt;
  std::vector<Expr> left(atoms.begin(), atoms.end());
  for (Expr atom : divisor_atoms) {
    const auto found = std::find(left.begin(), left.end(), atom);
    if (found == left.end()) return std::nullopt;
    left.erase(found);
  }
  return product_of(impl, std::move(left));
}

Expr common_factors(Context::Impl& impl, Expr a, Expr b) {
  if (a == b) return a;
  std::vector<Expr> common;
  const std::span<const Expr> b_atoms = factors(b);
  std::vector<Expr> left(b_atoms.begin(), b_atoms.end());
  for (Expr atom : factors(a)) {
    const auto found = std::find(left.begin(), left.end(), atom);
    if (found == left.end()) continue;
    left.erase(found);
    common.push_back(atom);
  }
  return product_of(impl, std::move(common));
}

int64_t common_coefficient(const Form& form) {
  int64_t common = 0;
  for (const Term& term : form.terms) common = gcd_of(common, term.coefficient);
  return common;
}

Form tightened(Form form) {
  const int64_t common = common_coefficient(form);
  if (common <= 1) return form;
  for (Term& term : form.terms) term.coefficient /= common;
  form.constant = floor_divide(form.constant, common);
  return form;
}

int64_t gcd_of(int64_t a, int64_t b) {
  // std::gcd is undefined for the most negative integer; 1 is a safe answer.
  if (a == kNegInf || b == kNegInf) return 1;
  return std::gcd(a, b);
}

}  // namespace toroid::sym
