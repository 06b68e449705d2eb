// Floor division and modulo, simplified by the same steps.
//
//   take out multiples      (n*i + j)//n        =>  i + j//n           (n*i + j)%n        =>  j%n
//   use bounds              j//n, 0 <= j < n    =>  0                  j%n                =>  j
//   cancel common factors   (4*i + 2)//8        =>  (2*i + 1)//4 => i//2
//                           (6*i)%4             =>  2*(i%2)
//   keep leading terms positive  (7 - i)//2     =>  3 - i//2           (7 - i)%2          =>  1 - i%2
//   flatten nests           (x//a)//b           =>  x//(a*b)           (x % (a*b)) % a    =>  x % a
//                           (x % (a*b))//a      =>  (x//a) % b
//
// A divisor of 0 is an error at evaluation, so a step may assume it is not 0. Steps that need a positive divisor ask
// for it.
#include <fmt/format.h>

#include "symbolic/form.h"
#include "symbolic/node_table.h"
#include "symbolic/range.h"
#include "symbolic/recombine.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

constexpr size_t kMaxFactorCandidates = 8;
constexpr int kMaxRewriteDepth = 40;

bool positive_divisor(Expr divisor) { return divisor.range().min >= 0; }

// dividend = quotient * divisor + remainder
struct Split {
  Expr quotient;
  Expr remainder;
};

// Takes out every multiple of the divisor (its coefficient positive). Coefficients shrink toward 0 so that they keep
// their signs; the constant becomes the least non-negative one.
Split split_by_monomial(Context::Impl& impl, const Form& dividend, const Monomial& divisor) {
  Form quotient, remainder;
  if (divisor.product.is_const()) {
    quotient.constant = floor_divide(dividend.constant, divisor.coefficient);
    remainder.constant = floor_modulo(dividend.constant, divisor.coefficient);
  } else {
    remainder.constant = dividend.constant;
  }
  for (const Term& term : dividend.terms) {
    const int64_t whole = term.coefficient / divisor.coefficient;
    const std::optional<Expr> left = whole == 0 ? std::nullopt : divide_products(impl, term.product, divisor.product);
    if (!left) {
      remainder.terms.push_back(term);
      continue;
    }
    append(quotient, *left, whole);
    if (const int64_t rest = term.coefficient % divisor.coefficient) remainder.terms.push_back({rest, term.product});
  }
  return {collect(impl, std::move(quotient)), collect(impl, std::move(remainder))};
}

const Term& leading_term(const Form& form) {
  return *std::max_element(form.terms.begin(), form.terms.end(),
                           [](const Term& a, const Term& b) { return factors(a.product).size() < factors(b.product).size(); });
}

// Polynomial long division by a sum. The caller decides whether the remainder is any simpler than the dividend.
Split split_by_sum(Context::Impl& impl, Expr dividend, Expr divisor) {
  const Form divisor_form = form_of(divisor);
  const Term lead = leading_term(divisor_form);
  Split split{0, dividend};
  const size_t max_steps = form_of(dividend).terms.size() + 1;
  for (size_t step = 0; step < max_steps; ++step) {
    const Form remainder = form_of(split.remainder);
    std::optional<Expr> part;
    for (const Term& term : remainder.terms) {
      if (term.coefficient == kNegInf || term.coefficient % lead.coefficient != 0) continue;  // kNegInf / -1 overflows
      const std::optional<Expr> left = divide_products(impl, term.product, lead.product);
      if (!left) continue;
      part = *left * Expr(term.coefficient / lead.coefficient);
      break;
    }
    if (!part) break;
    split.quotient += *part;
    split.remainder -= *part * divisor;
  }
  return split;
}

// The one value that dividend // divisor can have, if that is provable.
std::optional<int64_t> constant_quotient(Expr dividend, Expr divisor) {
  const Range range = floor_div_ranges(dividend.range(), divisor.range());
  if (range.min == range.max) return range.min;
  if (range.min <= 0 && range.max >= 0 && known_nonnegative(dividend) && known_nonnegative(divisor - dividend - 1)) return 0;
  if (range.min <= -1 && range.max >= -1 && known_nonnegative(-dividend - 1) && known_nonnegative(divisor + dividend)) return -1;
  return std::nullopt;
}

// dividend = factor * multiple + rest and divisor = factor * divisor_left, with 0 <= rest < factor (or rest = 0), so
// that
//   dividend // divisor = multiple // divisor_left     dividend % divisor = factor * (multiple % divisor_left) + rest
struct Factored {
  Expr factor;
  Expr multiple;
  Expr rest;
  Expr divisor_left;
};

std::optional<Factored> factor_by(Context::Impl& impl, const Form& dividend, const Monomial& divisor, const Monomial& factor) {
  Form multiple, rest;
  if (factor.product.is_const()) {
    multiple.constant = floor_divide(dividend.constant, factor.coefficient);
    rest.constant = floor_modulo(dividend.constant, factor.coefficient);
  } else {
    rest.constant = dividend.constant;
  }
  for (const Term& term : dividend.terms) {
    std::optional<Expr> left;
    if (term.coefficient % factor.coefficient == 0) left = divide_products(impl, term.product, factor.product);
    if (left) {
      append(multiple, *left, term.coefficient / factor.coefficient);
    } else {
      rest.terms.push_back(term);
    }
  }
  const std::optional<Expr> product_left = divide_products(impl, divisor.product, factor.product);
  Factored result{to_expr(impl, factor), collect(impl, std::move(multiple)), collect(impl, std::move(rest)),
                  to_expr(impl, Monomial{divisor.coefficient / factor.coefficient, *product_left})};
  if (result.rest.is_const(0)) return result;
  if (!positive_divisor(result.divisor_left)) return std::nullopt;
  const std::optional<int64_t> carry = constant_quotient(result.rest, result.factor);
  if (!carry) return std::nullopt;
  result.multiple += *carry;
  result.rest -= result.factor * Expr(*carry);
  return result;
}

std::optional<Factored> factor_out(Context::Impl& impl, Expr dividend, const Monomial& divisor) {
  const Form form = form_of(dividend);
  std::vector<Monomial> candidates;
  const auto add_candidate = [&](const Monomial& factor) {
    if (factor.coefficient == 1 && factor.product.is_const()) return;
    for (const Monomial& other : candidates) {
      if (other.coefficient == factor.coefficient && other.product == factor.product) return;
    }
    candidates.push_back(factor);
  };
  Monomial common = divisor;
  for (const Term& term : form.terms) {
    common = {gcd_of(common.coefficient, term.coefficient), common_factors(impl, common.product, term.product)};
    if (candidates.size() >= kMaxFactorCandidates) continue;
    add_candidate({gcd_of(divisor.coefficient, term.coefficient), common_factors(impl, divisor.product, term.product)});
  }
  add_candidate(common);
  // Larger factors leave less to divide.
  std::stable_sort(candidates.begin(), candidates.end(), [](const Monomial& a, const Monomial& b) {
    const size_t a_size = factors(a.product).size();
    const size_t b_size = factors(b.product).size();
    return a_size != b_size ? a_size > b_size : a.coefficient > b.coefficient;
  });
  for (const Monomial& factor : candidates) {
    if (std::optional<Factored> factored = factor_by(impl, form, divisor, factor)) return factored;
  }
  return std::nullopt;
}

// What divides every term of both sums.
Monomial common_divisor(Context::Impl& impl, Expr a, Expr b) {
  std::optional<Monomial> common;
  for (const Form& form : {form_of(a), form_of(b)}) {
    if (form.constant != 0) {
      common = common ? Monomial{gcd_of(common->coefficient, form.constant), 1} : Monomial{gcd_of(form.constant, 0), 1};
    }
    for (const Term& term : form.terms) {
      common = common ? Monomial{gcd_of(common->coefficient, term.coefficient), common_factors(impl, common->product, term.product)}
                      : Monomial{gcd_of(term.coefficient, 0), term.product};
    }
  }
  return *common;
}

// expr / divisor where every term is a multiple.
std::optional<Expr> divide_exactly(Context::Impl& impl, Expr expr, Expr divisor) {
  if (divisor.is_const(0)) return std::nullopt;
  Split split{0, expr};
  const std::optional<Monomial> monomial = as_monomial(divisor);
  if (!monomial) {
    split = split_by_sum(impl, expr, divisor);
  } else if (monomial->coefficient > 0) {
    split = split_by_monomial(impl, form_of(expr), *monomial);
  }
  return split.remainder.is_const(0) ? std::optional(split.quotient) : std::nullopt;
}

// (x//a + c)//b and (x % (a*b))//a, for a dividend that is one such atom (plus a constant).
std::optional<Expr> flatten_quotient(Context::Impl& impl, Expr dividend, Expr divisor) {
  const Form form = form_of(dividend);
  if (form.terms.size() != 1 || form.terms[0].coefficient != 1) return std::nullopt;
  const Expr atom = form.terms[0].product;
  if (atom.kind() == Kind::FloorDiv) {
    const Expr x = atom.operands()[0];
    const Expr inner = atom.operands()[1];
    if (!positive_divisor(divisor) || (form.constant != 0 && !inner.is_const())) return std::nullopt;
    return floor_div(x + inner * Expr(form.constant), inner * divisor);
  }
  if (atom.kind() == Kind::Mod && form.constant == 0) {
    const std::optional<Expr> left = divide_exactly(impl, atom.operands()[1], divisor);
    if (left && positive_divisor(*left)) return mod(floor_div(atom.operands()[0], divisor), *left);
  }
  return std::nullopt;
}

// Replaces x % n by x in the terms of a dividend where that changes it by multiples of the divisor.
std::optional<Expr> unwrap_modulos(Context::Impl& impl, Expr dividend, Expr divisor) {
  for (const Term& term : form_of(dividend).terms) {
    for (Expr atom : factors(term.product)) {
      if (atom.kind() != Kind::Mod) continue;
      const Expr scale = to_expr(impl, Monomial{term.coefficient, *divide_products(impl, term.product, atom)});
      if (!divide_exactly(impl, scale * atom.operands()[1], divisor)) continue;
      return dividend + scale * (atom.operands()[0] - atom);
    }
  }
  return std::nullopt;
}

bool leads_negative(Expr expr) {
  const Form form = form_of(expr);
  return !form.terms.empty() && form.terms[0].coefficient < 0;
}

Expr simplify_floor_div(Context::Impl& impl, Expr a, Expr b) {
  if (const std::optional<int64_t> quotient = constant_quotient(a, b)) return *quotient;
  const std::optional<Monomial> divisor = as_monomial(b);
  if (!divisor) {
    const Split split = split_by_sum(impl, a, b);
    if (split.remainder.is_const(0)) return split.quotient;
    if (!split.quotient.is_const(0)) {
      if (const std::optional<int64_t> rest = constant_quotient(split.remainder, b)) return split.quotient + Expr(*rest);
    }
    const Monomial common = common_divisor(impl, a, b);
    if (common.coefficient != 1 || !common.product.is_const()) {
      const Expr factor = to_expr(impl, common);
      return floor_div(*divide_exactly(impl, a, factor), *divide_exactly(impl, b, factor));
    }
    if (const std::optional<Expr> flat = flatten_quotient(impl, a, b)) return *flat;
    return impl.intern(Kind::FloorDiv, {a, b});
  }
  if (divisor->coefficient < 0) return floor_div(-a, -b);
  const Split split = split_by_monomial(impl, form_of(a), *divisor);
  if (!split.quotient.is_const(0)) return split.quotient + floor_div(split.remainder, b);
  if (const std::optional<Factored> factored = factor_out(impl, a, *divisor)) {
    return floor_div(factored->multiple, factored->divisor_left);
  }
  if (leads_negative(a) && positive_divisor(b)) return -1 - floor_div(-a - 1, b);
  if (const std::optional<Expr> flat = flatten_quotient(impl, a, b)) return *flat;
  return impl.intern(Kind::FloorDiv, {a, b});
}

Expr simplify_mod(Context::Impl& impl, Expr a, Expr b) {
  if (const std::optional<int64_t> quotient = constant_quotient(a, b)) return a - b * Expr(*quotient);
  const std::optional<Monomial> divisor = as_monomial(b);
  if (!divisor) {
    const Split split = split_by_sum(impl, a, b);
    if (split.remainder.is_const(0)) return 0;
    if (!split.quotient.is_const(0)) {
      if (const std::optional<int64_t> rest = constant_quotient(split.remainder, b)) {
        return split.remainder - b * Expr(*rest);
      }
    }
    const Monomial common = common_divisor(impl, a, b);
    if (common.coefficient != 1 || !common.product.is_const()) {
      const Expr factor = to_expr(impl, common);
      return factor * mod(*divide_exactly(impl, a, factor), *divide_exactly(impl, b, factor));
    }
    if (const std::optional<Expr> plain = unwrap_modulos(impl, a, b)) return mod(*plain, b);
    return impl.intern(Kind::Mod, {a, b});
  }
  if (divisor->coefficient < 0) return -mod(-a, -b);
  const Split split = split_by_monomial(impl, form_of(a), *divisor);
  if (!split.quotient.is_const(0)) return mod(split.remainder, b);
  if (const std::optional<Factored> factored = factor_out(impl, a, *divisor)) {
    return factored->factor * mod(factored->multiple, factored->divisor_left) + factored->rest;
  }
  if (leads_negative(a) && positive_divisor(b)) return b - 1 - mod(-a - 1, b);
  if (const std::optional<Expr> plain = unwrap_modulos(impl, a, b)) return mod(*plain, b);
  return impl.intern(Kind::Mod, {a, b});
}

class DeeperRewrite {
 public:
  explicit DeeperRewrite(Context::Impl& impl) : impl_(impl) { ++impl_.rewrite_depth; }
  ~DeeperRewrite() { --impl_.rewrite_depth; }
  DeeperRewrite(const DeeperRewrite&) = delete;
  DeeperRewrite& operator=(const DeeperRewrite&) = delete;

 private:
  Context::Impl& impl_;
};

// Applies `simplify`, or leaves the operation as it is where that would overflow or go too deep. Each rewrite here
// makes its operands simpler by some measure, but together with recombining sums that is no proof that they end.
Expr rewrite(Context::Impl& impl, Kind kind, Expr a, Expr b, Expr (*simplify)(Context::Impl&, Expr, Expr)) {
  if (impl.rewrite_depth >= kMaxRewriteDepth) return impl.intern(kind, {a, b});
  Expr result;
  try {
    DeeperRewrite deeper(impl);
    result = simplify(impl, a, b);
  } catch (const SizeOverflow&) {
    result = impl.intern(kind, {a, b});
  }
  impl.remember(kind, a, b, result);
  return result;
}

void check_divisor(Expr a, Expr b, std::string_view operation) {
  if (!b.is_const(0)) return;
  throw Error(ErrorKind::InvalidModel, fmt::format("division by zero in size arithmetic: {} {} 0", to_short_string(a), operation));
}

}  // namespace

Expr floor_div(Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  check_divisor(a, b, "//");
  if (b.is_const(1) || a.is_const(0)) return a;
  if (b.is_const(-1)) return -a;
  if (a == b) return 1;
  if (a.is_const() && b.is_const()) {
    if (b.value() > 0) return floor_divide(a.value(), b.value());
    return floor_divide(checked_negate(a.value()), checked_negate(b.value()));
  }
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(Kind::FloorDiv, a, b)) return *known;
  return rewrite(impl, Kind::FloorDiv, a, b, simplify_floor_div);
}

Expr mod(Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  check_divisor(a, b, "%");
  if (a.is_const(0) || a == b || b.is_const(1) || b.is_const(-1)) return 0;
  if (a.is_const() && b.is_const()) {
    if (b.value() > 0) return floor_modulo(a.value(), b.value());
    if (b.value() == kNegInf) return a.value() <= 0 ? (a == b ? 0 : a.value()) : a.value() + b.value();
    const int64_t remainder = a.value() % b.value();
    return remainder > 0 ? remainder + b.value() : remainder;
  }
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(Kind::Mod, a, b)) return *known;
  return rewrite(impl, Kind::Mod, a, b, simplify_mod);
}

Expr ceil_div(Expr a, Expr b) {
  if (positive_divisor(b) && !b.is_const(0)) return floor_div(a + b - 1, b);
  return -floor_div(-a, b);
}

Expr align_up(Expr a, int64_t alignment) { return ceil_div(a, alignment) * Expr(alignment); }

bool known_divisible(Expr a, Expr divisor) {
  divisor = fold_single_value(divisor);
  return !divisor.is_const(0) && mod(a, divisor).is_const(0);
}

}  // namespace toroid::sym
