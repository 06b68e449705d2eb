#include "symbolic/range.h"

namespace toroid::sym {
namespace {

__extension__ typedef __int128 Wide;

// A lower bound may never read as plus infinity (and the other way round), so a finite overflow stops one short of it.
int64_t clamp_min(Wide value) {
  if (value <= kNegInf) return kNegInf;
  return value >= kPosInf ? kPosInf - 1 : static_cast<int64_t>(value);
}

int64_t clamp_max(Wide value) {
  if (value >= kPosInf) return kPosInf;
  return value <= kNegInf ? kNegInf + 1 : static_cast<int64_t>(value);
}

bool infinite(int64_t bound) { return bound == kNegInf || bound == kPosInf; }

Wide floor_divide_wide(Wide a, Wide b) {
  Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// A product of two bounds, wide enough that an infinite one dominates any finite product.
Wide multiply_bounds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? Wide{kPosInf} * 2 : Wide{kNegInf} * 2;
  return Wide{a} * b;
}

Wide divide_bounds(int64_t a, int64_t positive_b) {
  if (positive_b == kPosInf) return a < 0 ? -1 : 0;
  if (infinite(a)) return a;
  return floor_divide_wide(a, positive_b);
}

int64_t negate_bound(int64_t bound) {
  if (bound == kNegInf) return kPosInf;
  return bound == kPosInf ? kNegInf : -bound;
}

Range negate_range(Range range) { return {negate_bound(range.max), negate_bound(range.min)}; }

}  // namespace

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t floor_modulo(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

Range add_ranges(Range a, Range b) {
  Range sum;
  if (a.min != kNegInf && b.min != kNegInf) sum.min = clamp_min(Wide{a.min} + b.min);
  if (a.max != kPosInf && b.max != kPosInf) sum.max = clamp_max(Wide{a.max} + b.max);
  return sum;
}

Range multiply_ranges(Range a, Range b) {
  const Wide corners[] = {multiply_bounds(a.min, b.min), multiply_bounds(a.min, b.max), multiply_bounds(a.max, b.min),
                          multiply_bounds(a.max, b.max)};
  return {clamp_min(*std::min_element(corners, corners + 4)), clamp_max(*std::max_element(corners, corners + 4))};
}

Range floor_div_ranges(Range a, Range b) {
  if (b.max <= 0) return floor_div_ranges(negate_range(a), negate_range(b));
  if (b.min < 0) {
    // Both signs: the quotient's magnitude is at most the dividend's (rounding a fraction down gives at least -1).
    if (infinite(a.min) || infinite(a.max)) return {};
    const Wide magnitude = std::max(Wide{a.min} < 0 ? -Wide{a.min} : Wide{a.min}, Wide{a.max} < 0 ? -Wide{a.max} : Wide{a.max});
    return {clamp_min(-magnitude), clamp_max(magnitude)};
  }
  const int64_t low = std::max<int64_t>(b.min, 1);
  const int64_t high = std::max<int64_t>(b.max, 1);
  const Wide corners[] = {divide_bounds(a.min, low), divide_bounds(a.min, high), divide_bounds(a.max, low), divide_bounds(a.max, high)};
  return {clamp_min(*std::min_element(corners, corners + 4)), clamp_max(*std::max_element(corners, corners + 4))};
}

Range mod_ranges(Range a, Range b) {
  if (b.max <= 0) return negate_range(mod_ranges(negate_range(a), negate_range(b)));
  Range result;
  result.min = b.min >= 0 ? 0 : (b.min == kNegInf ? kNegInf : b.min + 1);
  result.max = b.max == kPosInf ? kPosInf : b.max - 1;
  if (b.min >= 0 && a.min >= 0) {
    result.max = std::min(result.max, a.max);
    if (a.max < b.min) result.min = a.min;  // never wraps
  }
  return result;
}

}  // namespace toroid::sym
