// Min, max, comparisons and logic, folded where ranges and extents decide them.
//
//   Max(4, s0) for s0 in [8, 64]  =>  s0          s0 + 1 < s0 + 3  =>  1
//   2*s0 <= 7                     =>  s0 <= 3     Eq(2*s0, 7)      =>  0
//
// A comparison keeps positive terms on both sides, divided by their common factor, so that equal facts are equal nodes:
// "s0 > 0" and "1 <= s0" are both "0 < s0".
#include "symbolic/form.h"
#include "symbolic/node_table.h"
#include "symbolic/range.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

constexpr size_t kMaxComparedOperands = 16;

void flatten(Kind kind, Expr expr, std::vector<Expr>& operands) {
  if (expr.kind() == kind) {
    operands.insert(operands.end(), expr.operands().begin(), expr.operands().end());
  } else {
    operands.push_back(expr);
  }
}

void sort_and_deduplicate(std::vector<Expr>& operands) {
  std::sort(operands.begin(), operands.end(), [](Expr a, Expr b) { return compare(a, b) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
}

Expr simplify_extremum(Context::Impl& impl, Kind kind, Expr a, Expr b) {
  std::vector<Expr> operands;
  flatten(kind, a, operands);
  flatten(kind, b, operands);
  sort_and_deduplicate(operands);
  const auto dominates = [kind](Expr winner, Expr loser) { return kind == Kind::Min ? known_le(winner, loser) : known_le(loser, winner); };
  if (operands.size() <= kMaxComparedOperands) {
    for (size_t i = 0; i < operands.size();) {
      bool dominated = false;
      for (size_t k = 0; k < operands.size() && !dominated; ++k) dominated = k != i && dominates(operands[k], operands[i]);
      if (dominated) {
        operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  return operands.size() == 1 ? operands[0] : impl.intern(kind, operands);
}

Expr extremum(Kind kind, Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a == b) return a;
  if (a.is_const() && b.is_const()) return kind == Kind::Min ? std::min(a.value(), b.value()) : std::max(a.value(), b.value());
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(kind, a, b)) return *known;
  const Expr result = simplify_extremum(impl, kind, a, b);
  impl.remember(kind, a, b, result);
  return result;
}

// The two sides of "0 <= form" or "0 = form": negative terms moved over.
struct Sides {
  Form left, right;
};

Sides sides_of(const Form& form) {
  Sides sides;
  for (const Term& term : form.terms) {
    if (term.coefficient < 0) {
      sides.left.terms.push_back({checked_negate(term.coefficient), term.product});
    } else {
      sides.right.terms.push_back(term);
    }
  }
  return sides;
}

// The comparison 0 <= difference.
Expr at_least_zero(Context::Impl& impl, Expr difference) {
  const Form form = tightened(form_of(difference));
  difference = to_expr(impl, form);
  if (known_nonnegative(difference)) return 1;
  if (known_nonnegative(-difference - 1)) return 0;
  Sides sides = sides_of(form);
  const auto side = [&](Form& terms, int64_t constant) {
    terms.constant = constant;
    return to_expr(impl, terms);
  };
  // A constant stands alone where one side has no terms: "-3 <= s0", "s0 <= -5".
  if (sides.left.terms.empty() && form.constant != -1) {
    return impl.intern(Kind::Le, {checked_negate(form.constant), side(sides.right, 0)});
  }
  if (sides.right.terms.empty() && form.constant != -1) {
    return impl.intern(Kind::Le, {side(sides.left, 0), form.constant});
  }
  if (form.constant >= 0) return impl.intern(Kind::Le, {side(sides.left, 0), side(sides.right, form.constant)});
  return impl.intern(Kind::Lt, {side(sides.left, -(form.constant + 1)), side(sides.right, 0)});
}

Expr simplify_equal(Context::Impl& impl, Kind kind, Expr a, Expr b) {
  const Expr difference = a - b;
  const Expr if_different = kind == Kind::Eq ? 0 : 1;
  if (difference.is_const()) return difference.is_const(0) ? Expr(1) - if_different : if_different;
  Form form = form_of(difference);
  const int64_t common = common_coefficient(form);
  if (form.constant % common != 0) return if_different;
  const int64_t sign = form.terms[0].coefficient < 0 ? 1 : -1;  // the first term goes to the left
  for (Term& term : form.terms) term.coefficient = checked_multiply(term.coefficient / common, sign);
  form.constant = checked_multiply(form.constant / common, sign);
  const Expr reduced = to_expr(impl, form);
  if (known_nonnegative(reduced - 1) || known_nonnegative(-reduced - 1)) return if_different;
  Sides sides = sides_of(form);
  // A constant alone on its side reads best, whatever its sign: Eq(s0, -1).
  const bool constant_right = form.constant > 0 || sides.right.terms.empty();
  (constant_right ? sides.right : sides.left).constant = constant_right ? form.constant : checked_negate(form.constant);
  const Expr left = to_expr(impl, sides.left), right = to_expr(impl, sides.right);
  if (is_condition(left.kind()) && (right.is_const(0) || right.is_const(1))) {
    return right.is_const(1 - if_different.value()) ? left : logical_not(left);
  }
  return impl.intern(kind, {left, right});
}

Expr equality(Kind kind, Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a == b) return kind == Kind::Eq ? 1 : 0;
  if (a.is_const() && b.is_const()) return kind == Kind::Eq ? 0 : 1;
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(kind, a, b)) return *known;
  Expr result;
  try {
    result = simplify_equal(impl, kind, a, b);
  } catch (const SizeOverflow&) {
    result = impl.intern(kind, {a, b});
  }
  impl.remember(kind, a, b, result);
  return result;
}

// And: zero absorbs and one is neutral. Or: the other way round.
Expr junction(Kind kind, Expr a, Expr b) {
  const Expr absorbing = kind == Kind::And ? 0 : 1;
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a == b || b.is_const(1 - absorbing.value())) return a;
  if (a.is_const(1 - absorbing.value())) return b;
  if (a == absorbing || b == absorbing) return absorbing;
  Context::Impl* impl = common_impl(a, b);
  TOROID_CHECK(impl, "logic on constants other than 0 and 1: {} and {}", to_short_string(a), to_short_string(b));
  std::vector<Expr> operands;
  flatten(kind, a, operands);
  flatten(kind, b, operands);
  sort_and_deduplicate(operands);
  if (operands.size() == 1) return operands[0];
  if (operands.size() <= kMaxComparedOperands) {
    for (Expr operand : operands) {
      if (std::find(operands.begin(), operands.end(), logical_not(operand)) != operands.end()) return absorbing;
    }
  }
  return impl->intern(kind, operands);
}

}  // namespace

Expr min(Expr a, Expr b) { return extremum(Kind::Min, a, b); }
Expr max(Expr a, Expr b) { return extremum(Kind::Max, a, b); }
Expr eq(Expr a, Expr b) { return equality(Kind::Eq, a, b); }
Expr ne(Expr a, Expr b) { return equality(Kind::Ne, a, b); }

Expr le(Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a.is_const() && b.is_const()) return a.value() <= b.value() ? 1 : 0;
  if (a == b) return 1;
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(Kind::Le, a, b)) return *known;
  Expr result;
  try {
    result = at_least_zero(impl, b - a);
  } catch (const SizeOverflow&) {
    result = impl.intern(Kind::Le, {a, b});
  }
  impl.remember(Kind::Le, a, b, result);
  return result;
}

Expr lt(Expr a, Expr b) {
  a = fold_single_value(a);
  b = fold_single_value(b);
  if (a.is_const() && b.is_const()) return a.value() < b.value() ? 1 : 0;
  if (a == b) return 0;
  Context::Impl& impl = *common_impl(a, b);
  if (const std::optional<Expr> known = impl.recall(Kind::Lt, a, b)) return *known;
  Expr result;
  try {
    result = at_least_zero(impl, b - a - 1);
  } catch (const SizeOverflow&) {
    result = impl.intern(Kind::Lt, {a, b});
  }
  impl.remember(Kind::Lt, a, b, result);
  return result;
}

Expr logical_and(Expr a, Expr b) { return junction(Kind::And, a, b); }
Expr logical_or(Expr a, Expr b) { return junction(Kind::Or, a, b); }

Expr logical_not(Expr a) {
  a = fold_single_value(a);
  if (a.is_const()) return a.is_const(0) ? 1 : 0;
  Context::Impl& impl = a.context()->impl();
  const std::span<const Expr> operands = a.operands();
  switch (a.kind()) {
    case Kind::Eq: return impl.intern(Kind::Ne, operands);
    case Kind::Ne: return impl.intern(Kind::Eq, operands);
    case Kind::Lt: return le(operands[1], operands[0]);
    case Kind::Le: return lt(operands[1], operands[0]);
    case Kind::Not: return operands[0];
    case Kind::And:
    case Kind::Or: {
      Expr result = logical_not(operands[0]);
      for (Expr operand : operands.subspan(1)) {
        result = junction(a.kind() == Kind::And ? Kind::Or : Kind::And, result, logical_not(operand));
      }
      return result;
    }
    default: return impl.intern(Kind::Not, {a});
  }
}

Expr rebuild(Kind kind, std::span<const Expr> operands) {
  const auto fold = [&](Expr (*combine)(Expr, Expr)) {
    Expr result = operands[0];
    for (Expr operand : operands.subspan(1)) result = combine(result, operand);
    return result;
  };
  switch (kind) {
    case Kind::Const:
    case Kind::Symbol: break;
    case Kind::Add: return sum_of(operands);
    case Kind::Mul: return product(operands);
    case Kind::FloorDiv: return floor_div(operands[0], operands[1]);
    case Kind::Mod: return mod(operands[0], operands[1]);
    case Kind::Min: return fold(min);
    case Kind::Max: return fold(max);
    case Kind::Eq: return eq(operands[0], operands[1]);
    case Kind::Ne: return ne(operands[0], operands[1]);
    case Kind::Lt: return lt(operands[0], operands[1]);
    case Kind::Le: return le(operands[0], operands[1]);
    case Kind::And: return fold(logical_and);
    case Kind::Or: return fold(logical_or);
    case Kind::Not: return logical_not(operands[0]);
    case Kind::Scaled: return scaled(operands[0], factor_of(operands[1]));
    case Kind::Real: return real(static_cast<RealFunction>(operands[0].value()), operands.subspan(1));
  }
  internal_error(__FILE__, __LINE__, "rebuild", "this kind has no operands");
}

}  // namespace toroid::sym
