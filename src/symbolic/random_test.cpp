// Random expressions: whatever the simplifier makes of one, its value stays the same.
//
// Each expression is built twice: through the simplifier, and as a number computed directly. Both parsing back the
// printed text and substituting constants must keep the value too.
#include <random>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"

namespace toroid::sym {
namespace {

__extension__ typedef __int128 Wide;

constexpr int kContexts = 400;
constexpr int kExpressionsPerContext = 60;
constexpr int kSamples = 4;
constexpr int64_t kLargest = int64_t{1} << 40;

struct Item {
  Expr expr;
  std::vector<std::optional<int64_t>> values;  // one a sample; none where it is undefined or too large to follow
};

Wide floor_quotient(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::optional<int64_t> compute(Kind kind, std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return std::nullopt;
  const Wide x = *a, y = *b;
  Wide result = 0;
  switch (kind) {
    case Kind::Add: result = x + y; break;
    case Kind::Mul: result = x * y; break;
    case Kind::FloorDiv:
    case Kind::Mod:
      if (y == 0) return std::nullopt;
      result = floor_quotient(x, y);
      if (kind == Kind::Mod) result = x - y * result;
      break;
    case Kind::Min: result = std::min(x, y); break;
    case Kind::Max: result = std::max(x, y); break;
    case Kind::Eq: result = x == y; break;
    case Kind::Ne: result = x != y; break;
    case Kind::Lt: result = x < y; break;
    case Kind::Le: result = x <= y; break;
    default: return std::nullopt;
  }
  if (result > kLargest || result < -kLargest) return std::nullopt;
  return static_cast<int64_t>(result);
}

Expr combine(Kind kind, Expr a, Expr b) {
  switch (kind) {
    case Kind::Add: return a + b;
    case Kind::Mul: return a * b;
    case Kind::FloorDiv: return floor_div(a, b);
    case Kind::Mod: return mod(a, b);
    case Kind::Min: return min(a, b);
    case Kind::Max: return max(a, b);
    case Kind::Eq: return eq(a, b);
    case Kind::Ne: return ne(a, b);
    case Kind::Lt: return lt(a, b);
    default: return le(a, b);
  }
}

class RandomExpressions {
 public:
  explicit RandomExpressions(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      const int64_t low = pick(-1, 3), high = low + pick(0, 60);
      const Expr symbol = context_.symbol(fmt::format("s{}", i), SymbolKind::Size, {low, high});
      add_symbol(symbol, [&](int) { return pick(low, high); });
    }
    const Expr wild = context_.value({});
    add_symbol(wild, [&](int) { return pick(-100, 100); });
    // Axes of constant and symbolic extents; an extent below 1 has no axis value to test with.
    for (int i = 0; i < 3; ++i) {
      const Item extent = i == 0 ? constant(pick(1, 12)) : items_[static_cast<size_t>(pick(0, static_cast<int64_t>(items_.size()) - 1))];
      const Expr axis = context_.axis(extent.expr);
      add_symbol(axis, [&](int sample) -> std::optional<int64_t> {
        const std::optional<int64_t> bound = extent.values[static_cast<size_t>(sample)];
        if (!bound || *bound < 1) return std::nullopt;
        return pick(0, 3) == 0 ? *bound - 1 : pick(0, *bound - 1);
      });
    }
    symbol_count_ = items_.size();
  }

  void grow_and_check() {
    constexpr Kind kKinds[] = {Kind::Add, Kind::Add, Kind::Add, Kind::Mul, Kind::Mul, Kind::FloorDiv, Kind::FloorDiv, Kind::Mod,
                               Kind::Mod, Kind::Min, Kind::Max, Kind::Eq,  Kind::Ne,  Kind::Lt,       Kind::Le};
    const Kind kind = kKinds[pick(0, std::size(kKinds) - 1)];
    const Item a = operand(), b = operand();
    check_facts(a, b);
    Item made;
    try {
      made.expr = combine(kind, a.expr, b.expr);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::InvalidModel) << error.what();
      return;  // a constant overflow or a constant divisor of 0
    }
    for (int i = 0; i < kSamples; ++i)
      made.values.push_back(compute(kind, a.values[static_cast<size_t>(i)], b.values[static_cast<size_t>(i)]));
    check(made, fmt::format("{} of {} and {}", static_cast<int>(kind), to_string(a.expr), to_string(b.expr)));
    if (to_string(made.expr).size() < 400) items_.push_back(made);
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  static Item constant(int64_t value) { return {value, std::vector<std::optional<int64_t>>(kSamples, value)}; }

  template <class Sample>
  void add_symbol(Expr symbol, Sample&& sample) {
    Item item{symbol, {}};
    for (int i = 0; i < kSamples; ++i) item.values.push_back(sample(i));
    items_.push_back(std::move(item));
  }

  Item operand() {
    if (pick(0, 3) == 0) return constant(pick(0, 4) == 0 ? pick(-6, 40) : int64_t{1} << pick(0, 6));
    return items_[static_cast<size_t>(pick(0, static_cast<int64_t>(items_.size()) - 1))];
  }

  std::optional<int64_t> symbol_value(Expr symbol, int sample) const {
    for (size_t i = 0; i < symbol_count_; ++i) {
      if (items_[i].expr == symbol) return items_[i].values[static_cast<size_t>(sample)];
    }
    return std::nullopt;
  }

  // Every symbol has a value in this sample: an axis of an empty loop has none, and nothing need hold then.
  bool sample_exists(int sample) const {
    for (size_t i = 0; i < symbol_count_; ++i) {
      if (!items_[i].values[static_cast<size_t>(sample)]) return false;
    }
    return true;
  }

  void check(const Item& item, const std::string& origin) {
    const std::string text = to_string(item.expr);
    const Expr parsed = parse(text, context_, [&](std::string_view name) { return *context_.find_symbol(name); });
    EXPECT_EQ(parsed, item.expr) << text << " parses to " << to_string(parsed);
    for (int i = 0; i < kSamples; ++i) {
      const std::optional<int64_t> expected = item.values[static_cast<size_t>(i)];
      if (!expected || !sample_exists(i)) continue;
      const auto value_of = [&](Expr symbol) { return symbol_value(symbol, i); };
      EXPECT_EQ(evaluate(item.expr, value_of), *expected) << text << "\n  from " << origin;
      const Range range = item.expr.range();
      EXPECT_TRUE(range.min <= *expected && *expected <= range.max) << text << " = " << *expected << " is out of its range";
      if (pick(0, 3) == 0) {
        EXPECT_EQ(substitute(item.expr, [&](Expr symbol) -> std::optional<Expr> { return Expr(*value_of(symbol)); }), Expr(*expected))
            << text << "\n  from " << origin;
      }
    }
  }

  // What is claimed to be provable holds in every sample.
  void check_facts(const Item& a, const Item& b) {
    const bool equal = known_eq(a.expr, b.expr), different = known_ne(a.expr, b.expr);
    const bool less = known_lt(a.expr, b.expr), at_most = known_le(a.expr, b.expr);
    const bool divisible = known_divisible(a.expr, b.expr);
    for (size_t i = 0; i < kSamples; ++i) {
      if (!a.values[i] || !b.values[i] || !sample_exists(static_cast<int>(i))) continue;
      const int64_t x = *a.values[i], y = *b.values[i];
      const std::string pair = fmt::format("{} = {} and {} = {}", to_string(a.expr), x, to_string(b.expr), y);
      EXPECT_TRUE(!equal || x == y) << pair;
      EXPECT_TRUE(!different || x != y) << pair;
      EXPECT_TRUE(!less || x < y) << pair;
      EXPECT_TRUE(!at_most || x <= y) << pair;
      EXPECT_TRUE(!divisible || y == 0 || x % y == 0) << pair;
    }
  }

  std::mt19937 random_;
  Context context_;
  std::vector<Item> items_;
  size_t symbol_count_ = 0;
};

TEST(RandomExpressions, KeepTheirValue) {
  for (uint32_t seed = 0; seed < kContexts; ++seed) {
    RandomExpressions expressions(seed);
    for (int i = 0; i < kExpressionsPerContext; ++i) expressions.grow_and_check();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "first failing seed: " << seed;
      return;
    }
  }
}

// The same with symbolic extents: every digit of a flattened index comes back, whatever the sizes are.
TEST(RandomExpressions, SymbolicDigitsComeBack) {
  std::mt19937 random(11);
  const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    Context context;
    std::vector<Expr> extents, axes;
    Expr flat = 0, total = 1;
    const int64_t rank = pick(2, 5);
    for (int64_t d = 0; d < rank; ++d) {
      const bool symbolic = pick(0, 1) == 1;
      extents.push_back(symbolic ? context.symbol(fmt::format("s{}", d), SymbolKind::Size, {pick(0, 2), kPosInf}) : Expr(pick(1, 12)));
      axes.push_back(context.axis(extents.back()));
      flat = flat * extents.back() + axes.back();
      total *= extents.back();
    }
    EXPECT_TRUE(known_lt(flat, total)) << to_string(flat) << " < " << to_string(total);
    Expr inner = 1, again = 0;
    for (size_t d = extents.size(); d-- > 0;) {
      const Expr digit = mod(floor_div(flat, inner), extents[d]);
      EXPECT_EQ(digit, axes[d] + 0) << to_string(flat) << " by " << to_string(inner);
      again += digit * inner;
      inner *= extents[d];
    }
    EXPECT_EQ(again, flat);
    // An index over the flattened extent, taken apart and put together.
    const Expr whole = context.axis(total);
    inner = 1, again = 0;
    for (size_t d = extents.size(); d-- > 0;) {
      const Expr digit = floor_div(whole, inner);
      again += (d == 0 ? digit : mod(digit, extents[d])) * inner;
      inner *= extents[d];
    }
    EXPECT_EQ(again, whole + 0);
    EXPECT_EQ(substitute(again, {{whole, flat}}), flat);
  }
}

// Views: an index through a chain of random reshapes back to the first shape is the identity.
TEST(RandomExpressions, ReshapeChainsKeepTheirValue) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    Context context;
    std::vector<int64_t> prime_factors;
    for (int i = 0; i < 6; ++i) prime_factors.push_back(pick(2, 5));
    const auto random_shape = [&] {
      std::vector<int64_t> shape{1};
      std::shuffle(prime_factors.begin(), prime_factors.end(), random);
      for (int64_t factor : prime_factors) {
        if (pick(0, 1)) shape.push_back(1);
        shape.back() *= factor;
      }
      return shape;
    };
    const auto split = [](Expr flat, const std::vector<int64_t>& shape) {
      std::vector<Expr> index(shape.size());
      for (size_t d = shape.size(); d-- > 0;) {
        index[d] = d == 0 ? flat : mod(flat, shape[d]);
        flat = floor_div(flat, shape[d]);
      }
      return index;
    };
    const auto flatten = [](const std::vector<Expr>& index, const std::vector<int64_t>& shape) {
      Expr flat = 0;
      for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
      return flat;
    };
    const std::vector<int64_t> shape = random_shape();
    std::vector<Expr> axes;
    for (int64_t extent : shape) axes.push_back(context.axis(extent));
    Expr flat = flatten(axes, shape);
    const Expr first = flat;
    for (int step = 0; step < 3; ++step) {
      const std::vector<int64_t> other = random_shape();
      flat = flatten(split(flat, other), other);
      EXPECT_EQ(flat, first) << to_string(flat) << " is not " << to_string(first);
    }
  }
}

}  // namespace
}  // namespace toroid::sym
