// Proves inequalities from ranges and extents.
//
// Intervals alone lose what terms share: for an axis j of extent n they cannot show n - 1 - j >= 0. So a proof replaces
// one atom after another, newest first, by the bound that makes the whole smallest:
//
//   m*n - 1 - n*i - j   j := n - 1   =>   m*n - n - n*i   i := m - 1   =>   0   >= 0
//
// An atom is replaced only where the sign of its coefficient is known. Bounds of quotients are quotients of bounds, or
// come from n*(x//n) <= x <= n*(x//n) + n - 1; a Min or Max is replaced by one of its operands, or by each where that
// is needed. Proofs are limited in steps, and a failed one says nothing.
#include "symbolic/form.h"
#include "symbolic/node_table.h"
#include "symbolic/recombine.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

constexpr int kMaxProofSteps = 24;
// For a proof with all the simplification and further proofs that it causes: bounds the cost of a hopeless one.
constexpr int kMaxStepsTogether = 400;
// Tags remembered proofs among remembered operations.
constexpr Kind kProof = Kind::Const;

class DeeperProof {
 public:
  explicit DeeperProof(Context::Impl& impl) : impl_(impl) {
    if (impl_.proof_depth++ == 0) impl_.proof_steps_left = kMaxStepsTogether;
  }
  ~DeeperProof() { --impl_.proof_depth; }
  DeeperProof(const DeeperProof&) = delete;
  DeeperProof& operator=(const DeeperProof&) = delete;

 private:
  Context::Impl& impl_;
};

enum class Side { Lower, Upper };

std::optional<Expr> extreme(Context::Impl& impl, Expr expr, Side side);

std::vector<Expr> atoms_newest_first(const Form& form) {
  std::vector<Expr> atoms;
  for (const Term& term : form.terms) {
    for (Expr atom : factors(term.product)) atoms.push_back(atom);
  }
  std::sort(atoms.begin(), atoms.end(), [](Expr a, Expr b) { return a.node()->id > b.node()->id; });
  atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
  return atoms;
}

// form = coefficient * atom + rest, or nothing where the atom occurs in a higher power.
std::optional<Linear> linear_in_atom(Context::Impl& impl, const Form& form, Expr atom) {
  Form coefficient, rest;
  rest.constant = form.constant;
  for (const Term& term : form.terms) {
    const std::optional<Expr> left = divide_products(impl, term.product, atom);
    if (!left) {
      rest.terms.push_back(term);
      continue;
    }
    for (Expr other : factors(*left)) {
      if (other == atom) return std::nullopt;
    }
    append(coefficient, *left, term.coefficient);
  }
  return Linear{collect(impl, std::move(coefficient)), to_expr(impl, rest)};
}

// 1, -1, or 0 where the sign is not known.
int known_sign(Expr expr) {
  if (expr.range().min >= 0) return 1;
  if (expr.range().max <= 0) return -1;
  if (expr.node()->constant_bounds) return 0;
  if (known_nonnegative(expr)) return 1;
  return known_nonnegative(-expr) ? -1 : 0;
}

std::optional<Expr> constant_bound(Expr atom, Side side) {
  const int64_t bound = side == Side::Lower ? atom.range().min : atom.range().max;
  return bound == kNegInf || bound == kPosInf ? std::nullopt : std::optional(Expr(bound));
}

// A bound in terms of older symbols, or a constant one.
std::optional<Expr> bound_of(Context::Impl& impl, Expr atom, Side side) {
  const Node& node = *atom.node();
  if (node.constant_bounds) return constant_bound(atom, side);
  if (node.kind == Kind::Symbol && side == Side::Upper) return *node.extent - 1;
  if (node.kind == Kind::Mod && node.operands[1].range().min >= 0) {
    return side == Side::Lower ? Expr(0) : node.operands[1] - 1;
  }
  if (node.kind == Kind::FloorDiv && node.operands[1].range().min >= 0) {
    if (side == Side::Lower && node.range.min >= 0) return node.range.min;
    const std::optional<Expr> dividend = extreme(impl, node.operands[0], side);
    if (dividend && *dividend != node.operands[0]) {
      const Expr bound = floor_div(*dividend, node.operands[1]);
      if (bound != atom) return bound;
    }
  }
  return constant_bound(atom, side);
}

bool is_loop_bound(Expr atom) {
  switch (atom.kind()) {
    case Kind::Symbol: return atom.node()->symbol_kind == SymbolKind::Axis || atom.node()->symbol_kind == SymbolKind::Value;
    case Kind::Mod:
    case Kind::FloorDiv: return true;
    default: return false;
  }
}

// A bound of `expr` without axes and values, in sizes only; nullopt where a sign is not known.
std::optional<Expr> extreme(Context::Impl& impl, Expr expr, Side side) {
  for (int step = 0; step < kMaxProofSteps; ++step) {
    const Form form = form_of(expr);
    bool changed = false;
    for (Expr atom : atoms_newest_first(form)) {
      if (!is_loop_bound(atom)) continue;
      const std::optional<Linear> linear = linear_in_atom(impl, form, atom);
      if (!linear) return std::nullopt;
      const int sign = known_sign(linear->coefficient);
      if (sign == 0) return std::nullopt;
      const std::optional<Expr> bound = bound_of(impl, atom, sign > 0 ? side : (side == Side::Lower ? Side::Upper : Side::Lower));
      if (!bound) return std::nullopt;
      expr = linear->rest + linear->coefficient * *bound;
      changed = true;
      break;
    }
    if (!changed) return expr;
  }
  return std::nullopt;
}

class Proof {
 public:
  explicit Proof(Context::Impl& impl) : impl_(impl) {}

  bool nonnegative(Expr expr) {
    if (expr.range().min >= 0) return true;
    if (expr.range().max < 0 || expr.node()->constant_bounds || steps_left_-- <= 0) return false;
    if (impl_.proof_steps_left-- <= 0) return false;
    const Form form = form_of(expr);
    if (common_coefficient(form) > 1) return nonnegative(to_expr(impl_, tightened(form)));
    if (const std::optional<bool> divided = without_common_factor(form)) return *divided;
    for (Expr atom : atoms_newest_first(form)) {
      const std::optional<Linear> linear = linear_in_atom(impl_, form, atom);
      if (!linear) continue;
      // Intervals have used constant bounds of atoms with constant coefficients already.
      if (linear->coefficient.is_const() && atom.node()->constant_bounds) continue;
      const int sign = known_sign(linear->coefficient);
      if (sign == 0) continue;
      if (atom.kind() == Kind::Min || atom.kind() == Kind::Max) return by_cases(*linear, atom, sign);
      const std::optional<Expr> bound = bound_of(impl_, atom, sign > 0 ? Side::Lower : Side::Upper);
      if (atom.kind() == Kind::FloorDiv && (!bound || bound->is_const())) {
        if (const std::optional<Expr> scaled = without_quotient(*linear, atom, sign)) return nonnegative(*scaled);
      }
      if (bound) return nonnegative(linear->rest + linear->coefficient * *bound);
    }
    return false;
  }

 private:
  // s0*s1 - s0 = s0*(s1 - 1) has the sign of s1 - 1, for s0 >= 0.
  std::optional<bool> without_common_factor(const Form& form) {
    if (form.constant != 0 || form.terms.size() < 2) return std::nullopt;
    Expr common = form.terms[0].product;
    for (const Term& term : form.terms) common = common_factors(impl_, common, term.product);
    if (common.is_const() || common.range().min < 0) return std::nullopt;
    Form left;
    for (const Term& term : form.terms) append(left, *divide_products(impl_, term.product, common), term.coefficient);
    return nonnegative(collect(impl_, std::move(left)));
  }

  // Something that is nonnegative only if coefficient * (x//n) + rest is, without the quotient: a multiple of that,
  // where n*(x//n) is replaced by its bound x or x - n + 1.
  std::optional<Expr> without_quotient(const Linear& linear, Expr atom, int sign) {
    const Expr x = atom.operands()[0];
    const Expr n = atom.operands()[1];
    if (n.range().min < 0) return std::nullopt;
    const Expr bound = sign > 0 ? x - n + 1 : x;
    if (known_divisible(linear.coefficient, n)) return linear.rest + floor_div(linear.coefficient, n) * bound;
    if (!n.is_const() || !linear.coefficient.is_const()) return std::nullopt;
    const int64_t common = gcd_of(linear.coefficient.value(), n.value());
    const int64_t scale = n.value() / common;
    // The scaled sum is a multiple of `scale`, so more than -scale is enough.
    return linear.rest * Expr(scale) + Expr(linear.coefficient.value() / common) * bound + (scale - 1);
  }

  bool by_cases(const Linear& linear, Expr atom, int sign) {
    // coefficient * atom is at least its value at some operand for a Max that adds and a Min that subtracts.
    const bool any_will_do = (atom.kind() == Kind::Max) == (sign > 0);
    for (Expr operand : atom.operands()) {
      if (nonnegative(linear.rest + linear.coefficient * operand) == any_will_do) return any_will_do;
    }
    return !any_will_do;
  }

  Context::Impl& impl_;
  int steps_left_ = kMaxProofSteps;
};

}  // namespace

bool known_nonnegative(Expr expr) {
  expr = fold_single_value(expr);
  if (expr.range().min >= 0) return true;
  if (expr.range().max < 0 || expr.node()->constant_bounds) return false;
  Context::Impl& impl = expr.context()->impl();
  if (impl.proof_depth >= kMaxProofDepth) return false;
  if (const std::optional<Expr> known = impl.recall(kProof, expr, 0)) return known->is_const(1);
  bool proved = false;
  try {
    DeeperProof deeper(impl);
    proved = Proof(impl).nonnegative(expr);
  } catch (const SizeOverflow&) {
    // A bound does not fit in 64 bits: nothing is known.
  }
  // A proof that ran out of steps may succeed where more are left.
  if (proved || impl.proof_steps_left > 0) impl.remember(kProof, expr, 0, proved ? 1 : 0);
  return proved;
}

bool known_le(Expr a, Expr b) {
  if (a == b) return true;
  try {
    return known_nonnegative(b - a);
  } catch (const SizeOverflow&) {
    return a.range().max <= b.range().min;
  }
}

bool known_lt(Expr a, Expr b) {
  if (a == b) return false;
  try {
    return known_nonnegative(b - a - 1);
  } catch (const SizeOverflow&) {
    return a.range().max < b.range().min;
  }
}

bool known_eq(Expr a, Expr b) {
  if (a == b) return true;
  try {
    return (a - b).is_const(0);
  } catch (const SizeOverflow&) {
    return false;
  }
}

bool known_ne(Expr a, Expr b) {
  if (a == b) return false;
  try {
    return ne(a, b).is_const(1);
  } catch (const SizeOverflow&) {
    return a.range().max < b.range().min || b.range().max < a.range().min;
  }
}

}  // namespace toroid::sym
