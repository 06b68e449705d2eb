// The algebra: each row is a formula and the form that it must take.
#include <gtest/gtest.h>

#include "base/error.h"
#include "symbolic/expr.h"

namespace toroid::sym {
namespace {

class Simplify : public ::testing::Test {
 protected:
  Expr size(std::string_view name, Range range = {2, 512}) { return context_.symbol(name, SymbolKind::Size, range); }

  Context context_;
  Expr s0_ = size("s0");
  Expr s1_ = size("s1");
  Expr m_ = size("m", {0, kPosInf});
  Expr n_ = size("n", {0, kPosInf});
};

#define EXPECT_TEXT(expr, text) EXPECT_EQ(to_string(expr), text)

TEST_F(Simplify, CollectsLikeTerms) {
  EXPECT_TEXT(s0_ + s0_ + 3 - 1, "2*s0 + 2");
  EXPECT_TEXT((s0_ + 1) * 4 - 4, "4*s0");
  EXPECT_TEXT(s0_ * (s1_ + 2) + s0_, "3*s0 + s0*s1");
  EXPECT_TEXT(3 - s0_, "3 - s0");
  EXPECT_TEXT(-s0_ - 3, "-s0 - 3");
  EXPECT_EQ(s0_ * s1_ - s1_ * s0_, Expr(0));
  EXPECT_EQ((s0_ + s1_) * (s0_ - s1_), s0_ * s0_ - s1_ * s1_);
}

TEST_F(Simplify, EqualFormulasAreOneNodeHoweverBuilt) {
  const Expr i = context_.axis(s0_), j = context_.axis(s1_);
  EXPECT_EQ((i * s1_ + j) * 4 + 2, 2 + j * 4 + s1_ * 4 * i);
  EXPECT_TEXT(j + i, "i0 + i1");
}

TEST_F(Simplify, CapsProductsOfSums) {
  Expr product = 1;
  for (int i = 0; i < 40; ++i) product *= size("t" + std::to_string(i)) + 1;
  EXPECT_LT(to_string(product).size(), 20000u);
  EXPECT_EQ(evaluate(product, [](Expr) { return 0; }), 1);
}

TEST_F(Simplify, DividesSizes) {
  EXPECT_EQ(floor_div(s0_ * s1_, s1_), s0_);
  EXPECT_EQ(floor_div(s0_ * 128, 128), s0_);
  EXPECT_EQ(mod(s0_ * 128, 128), Expr(0));
  EXPECT_EQ(floor_div(s0_ * s1_ + s1_, s0_ + 1), s1_);
  EXPECT_EQ(mod(s0_ * s1_ + s1_, s0_ + 1), Expr(0));
  EXPECT_EQ(floor_div(s0_ + 2, s0_ + 1), Expr(1));
  EXPECT_TEXT(floor_div(s0_ + 1, 2), "(s0 + 1)//2");
  EXPECT_EQ(ceil_div(s0_ * 4, 4), s0_);
  EXPECT_TEXT(ceil_div(s0_, 16), "(s0 + 15)//16");
  EXPECT_TEXT(align_up(s0_, 16), "16*((s0 + 15)//16)");
  EXPECT_EQ(align_up(s0_ * 32, 16), s0_ * 32);
  EXPECT_TEXT(ceil_div(s0_, s1_), "(s0 - 1)//s1 + 1");
  EXPECT_EQ(-floor_div(-s0_, 2), ceil_div(s0_, 2));
  EXPECT_EQ(floor_div(-7, 2), Expr(-4));
  EXPECT_EQ(mod(-7, 2), Expr(1));
  EXPECT_EQ(mod(7, -2), Expr(-1));
}

TEST_F(Simplify, SplitsIndicesByConstantExtents) {
  const Expr i = context_.axis(64), j = context_.axis(8);
  EXPECT_EQ(floor_div(i * 8 + j, 8), i);
  EXPECT_EQ(mod(i * 8 + j, 8), j);
  EXPECT_EQ(floor_div(i * 16 + j * 2 + 1, 16), i);
  EXPECT_EQ(mod(i * 16 + j + 16, 16), j);
  EXPECT_EQ(floor_div(i, 64), Expr(0));
  EXPECT_EQ(floor_div(i + 128, 64), Expr(2));
  EXPECT_EQ(mod(i + 128, 64), i);
}

TEST_F(Simplify, SplitsIndicesBySymbolicExtents) {
  const Expr i = context_.axis(m_), j = context_.axis(n_);
  EXPECT_EQ(floor_div(i * n_ + j, n_), i);
  EXPECT_EQ(mod(i * n_ + j, n_), j);
  EXPECT_EQ(floor_div(i * n_ + j, m_ * n_), Expr(0));
  EXPECT_EQ(mod(i * n_ + j, m_ * n_), i * n_ + j);
  EXPECT_EQ(floor_div((i * n_ + j) * 4 + 3, n_ * 4), i);
  const Expr k = context_.axis(m_ * n_);
  EXPECT_EQ(mod(floor_div(k, n_), m_), floor_div(k, n_));
  EXPECT_EQ(floor_div(k, m_ * n_), Expr(0));
  // Reversed: the last element first.
  EXPECT_EQ(floor_div(i * n_ + n_ - 1 - j, n_), i);
  EXPECT_EQ(mod(i * n_ + n_ - 1 - j, n_), n_ - 1 - j);
}

TEST_F(Simplify, SplitsByProductsOfExtents) {
  const Expr p = size("p");
  const Expr i = context_.axis(m_), j = context_.axis(n_), k = context_.axis(p);
  const Expr flat = (i * n_ + j) * p + k;
  EXPECT_EQ(floor_div(flat, n_ * p), i);
  EXPECT_EQ(mod(floor_div(flat, p), n_), j);
  EXPECT_EQ(mod(flat, p), k);
  EXPECT_EQ(mod(flat, n_ * p), j * p + k);
  EXPECT_EQ(floor_div(flat, n_ * p * 2), floor_div(i, 2));
}

TEST_F(Simplify, CancelsCommonFactors) {
  const Expr i = context_.axis(100), j = context_.axis(4);
  EXPECT_EQ(floor_div(i * 4 + 2, 8), floor_div(i, 2));
  EXPECT_EQ(floor_div(i * 4 + j, 8), floor_div(i, 2));
  EXPECT_EQ(mod(i * 4 + j, 8), mod(i, 2) * 4 + j);
  const Expr v = context_.value({1, 4});  // with 3 added, it carries into the next multiple of 4
  EXPECT_EQ(floor_div(i * 4 + v + 3, 8), floor_div(i + 1, 2));
  EXPECT_EQ(mod(i * 4 + v + 3, 8), mod(i + 1, 2) * 4 + v - 1);
  EXPECT_EQ(mod(i * 6, 4), mod(i * 3, 2) * 2);
  EXPECT_EQ(mod(i * 3, 2), mod(i, 2));
  EXPECT_EQ(floor_div(s0_ * 2 + 2, s1_ * 2 + 4), floor_div(s0_ + 1, s1_ + 2));
  EXPECT_EQ(floor_div(s0_ * i, s0_ * 4), floor_div(i, 4));
}

TEST_F(Simplify, KeepsLeadingTermsPositive) {
  const Expr i = context_.axis(8);
  EXPECT_EQ(floor_div(7 - i, 2), 3 - floor_div(i, 2));
  EXPECT_EQ(mod(7 - i, 2), 1 - mod(i, 2));
  EXPECT_EQ(floor_div(7 - i, 8), Expr(0));
}

TEST_F(Simplify, FlattensNests) {
  const Expr x = context_.axis(100000);
  EXPECT_EQ(floor_div(floor_div(x, 4), 8), floor_div(x, 32));
  EXPECT_EQ(floor_div(floor_div(x, s0_), s1_), floor_div(x, s0_ * s1_));
  EXPECT_EQ(floor_div(floor_div(x, 2) + 1, 3), floor_div(x + 2, 6));
  EXPECT_EQ(floor_div(mod(x, 32), 4), mod(floor_div(x, 4), 8));
  EXPECT_EQ(mod(mod(x, 32), 4), mod(x, 4));
  EXPECT_EQ(floor_div(mod(x, s0_ * s1_), s0_), mod(floor_div(x, s0_), s1_));
  EXPECT_EQ(mod(mod(x, s0_ * s1_), s1_), mod(x, s1_));
  EXPECT_EQ(mod(mod(x, 3), 6), mod(x, 3));
}

TEST_F(Simplify, RecombinesDigits) {
  const Expr x = context_.axis(1 << 20);
  EXPECT_EQ(floor_div(x, 8) * 8 + mod(x, 8), x);
  EXPECT_EQ(floor_div(x, 32) * 32 + mod(floor_div(x, 8), 4) * 8 + mod(x, 8), x);
  EXPECT_EQ(floor_div(x, s0_ * s1_) * s0_ * s1_ + mod(floor_div(x, s0_), s1_) * s0_ + mod(x, s0_), x);
  EXPECT_EQ((floor_div(x, s0_) * s0_ + mod(x, s0_)) * s1_ + 5, x * s1_ + 5);
  EXPECT_EQ(x - floor_div(x, 8) * 8, mod(x, 8));
  EXPECT_EQ(x - mod(x, 8), floor_div(x, 8) * 8);
  EXPECT_EQ(floor_div(x + 1, 4) * 4 + mod(x + 1, 4), x + 1);
  EXPECT_EQ(floor_div(x, s0_ + 1) * (s0_ + 1) + mod(x, s0_ + 1), x);
}

TEST_F(Simplify, ReshapesComposeToNothing) {
  // [6, 4, 10] -> [24, 10] -> [240] -> [6, 4, 10]
  const Expr a = context_.axis(6), b = context_.axis(4), c = context_.axis(10);
  const Expr flat = a * 40 + b * 10 + c;
  EXPECT_EQ(floor_div(flat, 40), a);
  EXPECT_EQ(mod(floor_div(flat, 10), 4), b);
  EXPECT_EQ(mod(flat, 10), c);
  // [12, 20] read through [6, 40]: rows pair up.
  const Expr i = context_.axis(6), j = context_.axis(40);
  const Expr row = i * 2 + floor_div(j, 20);
  EXPECT_EQ(row * 20 + mod(j, 20), i * 40 + j);
}

TEST_F(Simplify, ReplacesSymbolsWithOneValue) {
  const Expr one = context_.axis(1);
  EXPECT_EQ(one * 5 + 3, Expr(3));
  EXPECT_EQ(floor_div(s0_ * one + 7, 2), Expr(3));
}

TEST_F(Simplify, FoldsMinAndMax) {
  const Expr u0 = context_.symbol("u0", SymbolKind::DataDependent, {0, kPosInf});
  EXPECT_EQ(max(1, s0_), s0_);
  EXPECT_EQ(min(s0_, 1024), s0_);
  EXPECT_EQ(min(s0_ + 1, s0_), s0_);
  EXPECT_TEXT(max(1, u0), "Max(1, u0)");
  EXPECT_EQ(max(u0, max(1, u0)), max(1, u0));
  EXPECT_EQ(max(s0_, min(s0_, s1_)), s0_);
  EXPECT_EQ(min(n_, m_ + n_), n_);
  EXPECT_EQ(max(s0_ * s1_, s1_), s0_ * s1_);
}

TEST_F(Simplify, FoldsComparisons) {
  const Expr i = context_.axis(n_);
  EXPECT_EQ(lt(i, n_), Expr(1));
  EXPECT_EQ(le(n_, i), Expr(0));
  EXPECT_EQ(eq(s0_, 1), Expr(0));
  EXPECT_EQ(ne(s0_, 1), Expr(1));
  EXPECT_EQ(eq(s0_ * 2, 7), Expr(0));
  EXPECT_EQ(lt(s0_ + 1, s0_ + 3), Expr(1));
  EXPECT_TEXT(le(s0_ * 2, 7), "s0 <= 3");
  EXPECT_TEXT(lt(i + 1, n_), "i0 + 1 < n");
  EXPECT_EQ(gt(m_, 0), ge(m_, 1));
  EXPECT_TEXT(gt(m_, 0), "0 < m");
  EXPECT_TEXT(eq(m_, 1), "Eq(m, 1)");
  EXPECT_EQ(logical_not(logical_not(lt(m_, n_))), lt(m_, n_));
  EXPECT_EQ(eq(lt(m_, n_), 1), lt(m_, n_));
  EXPECT_EQ(ne(1, lt(m_, n_)), le(n_, m_));
  EXPECT_EQ(eq(lt(m_, n_), 0), le(n_, m_));
  EXPECT_TEXT(logical_and(lt(m_, 4), ne(n_, 1)), "Ne(n, 1) & (m <= 3)");
  EXPECT_EQ(logical_or(lt(m_, 4), ge(m_, 4)), Expr(1));
  EXPECT_EQ(logical_and(lt(m_, 4), ge(m_, 4)), Expr(0));
}

TEST_F(Simplify, KnowsFacts) {
  EXPECT_TRUE(known_ne(s0_, 1));
  EXPECT_FALSE(known_ne(s0_, 2));
  EXPECT_TRUE(known_eq((s0_ + 1) * 2, s0_ * 2 + 2));
  EXPECT_TRUE(known_lt(s0_, s0_ * s1_));
  EXPECT_TRUE(known_le(s0_, s0_ * s1_));
  EXPECT_FALSE(known_le(s0_, s1_));
  EXPECT_TRUE(known_divisible(s0_ * 6, 3));
  EXPECT_TRUE(known_divisible(s0_ * s1_, s1_));
  EXPECT_FALSE(known_divisible(s0_, 2));
  EXPECT_FALSE(known_divisible(s0_, 0));
  const Expr i = context_.axis(m_), j = context_.axis(n_);
  EXPECT_TRUE(known_lt(i * n_ + j, m_ * n_));
  EXPECT_FALSE(known_lt(i * n_ + j + 1, m_ * n_));
  EXPECT_TRUE(known_lt(floor_div(i, 2), m_));
  EXPECT_TRUE(known_le(ceil_div(s0_, 2), s0_));
  const Expr half = context_.axis(ceil_div(s0_, 2));
  EXPECT_TRUE(known_le(half * 2, s0_));
  EXPECT_FALSE(known_lt(half * 2, s0_ - 1));
  EXPECT_TRUE(known_le(m_ - n_ + 1, floor_div(m_, n_) * n_));
  EXPECT_TRUE(known_le(mod(i, s0_) + 1, s0_));
  EXPECT_TRUE(known_le(min(m_, n_), n_));
  EXPECT_TRUE(known_le(n_, max(m_, n_)));
  // A tiled loop: the last full tile ends within the extent.
  const Expr tile = context_.axis(floor_div(n_, 16)), lane = context_.axis(16);
  EXPECT_TRUE(known_lt(tile * 16 + lane, n_));
}

TEST_F(Simplify, KeepsRanges) {
  EXPECT_EQ((s0_ * 2 + 1).range(), (Range{5, 1025}));
  EXPECT_EQ(mod(n_, 4).range(), (Range{0, 3}));
  EXPECT_EQ(floor_div(s0_, 2).range(), (Range{1, 256}));
  EXPECT_EQ((n_ * n_).range(), (Range{0, kPosInf}));
  EXPECT_EQ(min(n_, 5).range(), (Range{0, 5}));
  EXPECT_EQ(context_.axis(s0_).range(), (Range{0, 511}));
  const Expr v = context_.value({-3, 3});
  EXPECT_EQ((v * v).range(), (Range{0, 9}));
}

TEST_F(Simplify, Substitutes) {
  const Expr i = context_.axis(s0_), j = context_.axis(s1_), k = context_.axis(s0_ * s1_);
  const Expr index = floor_div(k, s1_) * s1_ * 4 + mod(k, s1_);
  EXPECT_EQ(substitute(index, {{k, i * s1_ + j}}), i * s1_ * 4 + j);
  EXPECT_EQ(substitute(s0_ + s1_ * 2, {{s0_, s1_}, {s1_, s0_}}), s1_ + s0_ * 2);
  EXPECT_EQ(substitute(lt(m_, n_), {{m_, 3}, {n_, 4}}), Expr(1));
  EXPECT_EQ(substitute(index, [](Expr) { return std::optional<Expr>(3); }), Expr(12));
}

TEST_F(Simplify, SubstitutionVisitsSharedNodesOnce) {
  // Each step uses the one before twice: as a tree this has 2^60 leaves.
  Expr chain = n_;
  for (int i = 0; i < 60; ++i) chain = max(floor_div(chain, s0_) + 1, mod(chain, s1_) + 2);
  EXPECT_EQ(evaluate(substitute(chain, {{s0_, 7}}), [](Expr) { return 5; }),
            evaluate(chain, [&](Expr symbol) { return symbol == s0_ ? 7 : 5; }));
}

TEST_F(Simplify, FindsLinearCoefficients) {
  const Expr i = context_.axis(s0_), j = context_.axis(s1_);
  const std::optional<Linear> linear = linear_in(i * s1_ * 2 + j + i + 5, i);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->coefficient, s1_ * 2 + 1);
  EXPECT_EQ(linear->rest, j + 5);
  EXPECT_FALSE(linear_in(i * i, i));
  EXPECT_FALSE(linear_in(floor_div(i, 3) + i, i));
  EXPECT_EQ(linear_in(j, i)->coefficient, Expr(0));
}

TEST_F(Simplify, ListsFreeSymbols) {
  EXPECT_EQ(free_symbols(s1_ * s0_ + floor_div(s1_, 3)), (std::vector<Expr>{s0_, s1_}));
  EXPECT_TRUE(free_symbols(3).empty());
  EXPECT_TRUE(depends_on(mod(s0_, s1_), s1_));
  EXPECT_FALSE(depends_on(s0_, s1_));
}

TEST_F(Simplify, EvaluatesHints) {
  const Expr h = context_.symbol("h", SymbolKind::Size, {2, kPosInf}, 10);
  EXPECT_EQ(evaluate_hint(h * 2), 20);
  EXPECT_EQ(evaluate_hint(s0_), 257);
  EXPECT_EQ(evaluate_hint(n_, 9), 9);
  EXPECT_EQ(evaluate_hint(floor_div(h, mod(n_, 4)), 8), 8);  // divides by zero at the hint
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST_F(Simplify, ReportsOverflowAndDivisionByZero) {
  EXPECT_EQ(message_of([&] { s0_*(int64_t{1} << 62) * 4; }), "integer overflow in size arithmetic: 4611686018427387904 * 4");
  EXPECT_EQ(message_of([&] { Expr(kPosInf) + Expr(1); }), "integer overflow in size arithmetic: 9223372036854775807 + 1");
  EXPECT_EQ(message_of([&] { floor_div(s0_, 0); }), "division by zero in size arithmetic: s0 // 0");
  EXPECT_EQ(message_of([&] { mod(s0_, 0); }), "division by zero in size arithmetic: s0 % 0");
  EXPECT_EQ(message_of([&] { evaluate(s0_ * s0_ * s0_, [](Expr) { return int64_t{1} << 40; }); }),
            "integer overflow in size arithmetic: s0*s0*s0");
  EXPECT_EQ(message_of([&] { evaluate(s0_ + 1, [](Expr) { return std::nullopt; }); }), "no value is known for size 's0'");
  EXPECT_EQ(message_of([&] { evaluate(floor_div(s0_, n_), [&](Expr s) { return s == n_ ? 0 : 1; }); }),
            "division by zero in size arithmetic: s0//n");
  EXPECT_EQ(message_of([&] { context_.symbol("s0", SymbolKind::Axis); }), "symbol 's0' is used for two different kinds of integer");
  EXPECT_EQ(message_of([&] { context_.symbol("a b\n", SymbolKind::Size); }), "symbol name '\"a b\\n\"' is not an identifier");
}

}  // namespace
}  // namespace toroid::sym
