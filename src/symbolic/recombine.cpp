// Puts back together what a reshape took apart.
//
// Composing views splits an index into digits and sums them again. Of the three quantities in x = n*(x//n) + x%n, any
// two that meet in a sum with matching coefficients become the third:
//
//   n*(x//n) + x%n  =>  x          a*b*(x//(a*b)) + a*((x//a)%b) + x%a  =>  x   (by two steps)
//   x - n*(x//n)    =>  x%n
//   x - x%n         =>  n*(x//n)
//
// Each step removes a division, so this ends.
#include "symbolic/recombine.h"

namespace toroid::sym {
namespace {

// Strides have few factors; looking through long polynomials in mods would only cost time.
constexpr size_t kMaxFactors = 6;
constexpr size_t kMaxTerms = 64;

const Term* find_term(const Form& form, Expr product) {
  for (const Term& term : form.terms) {
    if (term.product == product) return &term;
  }
  return nullptr;
}

// Every term of `part` occurs in `form`, with the same coefficient. A constant can always be made up for.
bool contains(const Form& form, const Form& part) {
  if (part.terms.empty()) return false;
  for (const Term& term : part.terms) {
    const Term* found = find_term(form, term.product);
    if (!found || found->coefficient != term.coefficient) return false;
  }
  return true;
}

// Rules contains() out without making a node: the atoms of the part's first term occur in no one term of the form.
bool may_contain(const Form& form, Expr part) {
  const Form part_form = form_of(part);
  if (part_form.terms.empty()) return false;
  const std::span<const Expr> atoms = factors(part_form.terms[0].product);
  return std::any_of(form.terms.begin(), form.terms.end(), [&](const Term& term) {
    const std::span<const Expr> present = factors(term.product);
    return std::all_of(atoms.begin(), atoms.end(),
                       [&](Expr atom) { return std::find(present.begin(), present.end(), atom) != present.end(); });
  });
}

bool has_division(const Form& form) {
  for (const Term& term : form.terms) {
    for (Expr atom : factors(term.product)) {
      if (atom.kind() == Kind::Mod || atom.kind() == Kind::FloorDiv) return true;
    }
  }
  return false;
}

void replace(Form& form, const Term& term, Expr other, Expr result) {
  append(form, term.product, checked_negate(term.coefficient));
  append(form, other, -1);
  append(form, result, 1);
  normalise(form);
}

// Tries both pairs that `atom`, a mod or floordiv in `term`, may be half of.
bool recombine_atom(Context::Impl& impl, Form& form, const Term term, Expr atom) {
  const Expr x = atom.operands()[0];
  const Expr n = atom.operands()[1];
  const std::optional<Expr> scale_product = divide_products(impl, term.product, atom);
  if (atom.kind() == Kind::Mod) {
    const Expr digit = floor_div(x, n);
    const bool quotient_possible = may_contain(form, digit), whole_possible = may_contain(form, x);
    if (!quotient_possible && !whole_possible) return false;
    const Expr scale = to_expr(impl, Monomial{term.coefficient, *scale_product});
    const Expr quotient = scale * n * digit;
    if (quotient_possible && contains(form, form_of(quotient))) {
      replace(form, term, quotient, scale * x);
      return true;
    }
    const Expr whole = -scale * x;
    if (whole_possible && contains(form, form_of(whole))) {
      replace(form, term, whole, -quotient);
      return true;
    }
    return false;
  }
  if (!may_contain(form, x)) return false;
  const std::optional<Monomial> divisor = as_monomial(n);
  if (!divisor || divisor->coefficient <= 0 || term.coefficient % divisor->coefficient != 0) return false;
  const std::optional<Expr> whole_product = divide_products(impl, *scale_product, divisor->product);
  if (!whole_product) return false;
  const Expr whole_scale = to_expr(impl, Monomial{checked_negate(term.coefficient / divisor->coefficient), *whole_product});
  const Expr whole = whole_scale * x;
  if (!contains(form, form_of(whole))) return false;
  replace(form, term, whole, whole_scale * mod(x, n));
  return true;
}

bool recombine_once(Context::Impl& impl, Form& form) {
  for (const Term& term : form.terms) {
    const std::span<const Expr> atoms = factors(term.product);
    if (atoms.size() > kMaxFactors) continue;
    for (Expr atom : atoms) {
      if (atom.kind() != Kind::Mod && atom.kind() != Kind::FloorDiv) continue;
      if (recombine_atom(impl, form, term, atom)) return true;
    }
  }
  return false;
}

}  // namespace

void recombine(Context::Impl& impl, Form& form) {
  if (form.terms.size() < 2 || form.terms.size() > kMaxTerms || !has_division(form)) return;
  const Form before = form;
  try {
    for (size_t step = 0; step < kMaxTerms && recombine_once(impl, form); ++step) {
    }
  } catch (const SizeOverflow&) {
    form = before;  // the sum stands as it is
  }
}

Expr collect(Context::Impl& impl, Form form) {
  normalise(form);
  recombine(impl, form);
  return to_expr(impl, form);
}

}  // namespace toroid::sym
