// Sums taken apart: the working form of the simplifier.
//
// An expression is a Form, constant + sum of coefficient * product, and a product is a sorted list of atoms. Adding and
// collecting like terms happen here; to_expr() turns the result into interned nodes.
//
//   3 + 2*s0*i0 + i1   ==   {3, {{2, s0*i0}, {1, i1}}}
#pragma once

#include "symbolic/node_table.h"

namespace toroid::sym {

struct Term {
  int64_t coefficient;
  Expr product;  // without a constant factor, and not a constant
};

struct Form {
  int64_t constant = 0;
  std::vector<Term> terms;  // by compare_products, each product once, no coefficient 0

  bool is_zero() const { return constant == 0 && terms.empty(); }
};

// A constant times a product; the product is the constant 1 where there is none.
struct Monomial {
  int64_t coefficient = 1;
  Expr product = 1;
};

// The canonical order: by structure, symbols by age. Negative, zero or positive.
int compare(Expr a, Expr b);
int compare_products(Expr a, Expr b);

// The atoms of a product, which must outlive the result.
std::span<const Expr> factors(const Expr& product);
std::span<const Expr> factors(Expr&& product) = delete;

Form form_of(Expr expr);
// Adds scale * expr without sorting; normalise() afterwards.
void append(Form& form, Expr expr, int64_t scale);
void normalise(Form& form);
// Needs a normalised form. Does not try recombine(): the caller's terms must not call for it.
Expr to_expr(Context::Impl& impl, const Form& form);
Expr to_expr(Context::Impl& impl, const Monomial& monomial);

// Not for sums. Constants have the product 1.
std::optional<Monomial> as_monomial(Expr expr);
// The product of `atoms`, in any order, none a constant.
Expr product_of(Context::Impl& impl, std::vector<Expr> atoms);
// dividend / divisor if every atom of the divisor occurs in the dividend; 1 where nothing is left.
std::optional<Expr> divide_products(Context::Impl& impl, Expr dividend, Expr divisor);
Expr common_factors(Context::Impl& impl, Expr a, Expr b);
// Without the common factor of its coefficients, the constant rounded down: 2*s0 - 5 as s0 - 3. It is >= 0 exactly
// where `form` is, since the terms are integers.
Form tightened(Form form);
int64_t common_coefficient(const Form& form);  // of the terms; 0 where there are none
int64_t gcd_of(int64_t a, int64_t b);          // not negative

}  // namespace toroid::sym
