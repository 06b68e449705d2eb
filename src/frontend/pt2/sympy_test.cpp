#include "frontend/pt2/sympy.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::pt2 {
namespace {

std::string parsed(std::string_view text) {
  sym::Context context;
  try {
    return sym::to_string(parse_size(text, context, [&](const SymbolText& symbol) {
      const sym::Range range{symbol.positive ? 1 : symbol.nonnegative ? 0 : sym::kNegInf, sym::kPosInf};
      return context.symbol(symbol.name, sym::SymbolKind::Size, range);
    }));
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(SymPy, ReadsBothSpellings) {
  EXPECT_EQ(parsed("s77"), "s77");
  EXPECT_EQ(parsed("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(parsed("2*s77 + 1"), parsed("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(1))"));
  EXPECT_EQ(parsed("Max(1, u0)"), parsed("Max(Integer(1), Symbol('u0', integer=True))"));
  EXPECT_EQ(parsed("((s27 + 1)//2)"), parsed("FloorDiv(Add(Symbol('s27', positive=True), Integer(1)), Integer(2))"));
  EXPECT_EQ(parsed("Pow(Symbol('s0', integer=True), Integer(2))"), parsed("s0*s0"));
  EXPECT_EQ(parsed("Mod(Symbol('s0', integer=True), Integer(4))"), parsed("Mod(s0, 4)"));
  EXPECT_EQ(parsed("ModularIndexing(Symbol('s0', integer=True), Integer(2), Integer(4))"), parsed("Mod(s0//2, 4)"));
  EXPECT_EQ(parsed("Integer(-3)"), "-3");
  EXPECT_EQ(parsed("true"), "1");
}

TEST(SymPy, ComparisonsUseTheAssumptions) {
  EXPECT_EQ(parsed("GreaterThan(Symbol('s0', positive=True, integer=True), Integer(1))"), "1");
  EXPECT_EQ(parsed("StrictLessThan(Symbol('s0', positive=True, integer=True), Integer(1))"), "0");
  EXPECT_EQ(parsed("LessThan(Symbol('u0', integer=True), Integer(5))"), parsed("u0 <= 5"));
  EXPECT_EQ(parsed("Not(Equality(Symbol('u0', integer=True), Integer(5)))"), parsed("Ne(u0, 5)"));
}

TEST(SymPy, ReadsSizesThatAFloatScaled) {
  const auto scaled = [](std::string_view factor) {
    return parsed(fmt::format("TruncToInt(Mul(Float('{}', precision=53), ToFloat(Symbol('s0', positive=True, integer=True))))", factor));
  };
  EXPECT_EQ(scaled("1.5"), parsed("(3*s0)//2"));
  EXPECT_EQ(scaled("0.80000000000000004"), parsed("(4*s0)//5"));
  EXPECT_EQ(scaled("0.59999999999999998"), "Scaled(0.6, s0)");
  EXPECT_EQ(scaled("0.69999999999999996"), "Scaled(0.7, s0)");
}

TEST(SymPy, NamesWhatItCannotRead) {
  EXPECT_EQ(parsed("sin(Integer(1))"), "size expression 'sin(Integer(1))' uses sin, which is not integer arithmetic");
  EXPECT_EQ(parsed("Add(Integer(1)"), "bad size expression 'Add(Integer(1)': expected ')' at offset 14");
  EXPECT_EQ(parsed("Integer(99999999999999999999)"),
            "bad size expression 'Integer(99999999999999999999)': expected an integer of 64 bits at offset 8");
  EXPECT_EQ(parsed("Mod(Integer(1))"), "bad size expression 'Mod(Integer(1))': Mod takes 2 arguments and has 1 at offset 15");
  std::string deep = "Integer(1)";
  for (int i = 0; i < 101; ++i) deep = "Add(" + deep + ")";
  EXPECT_NE(parsed(deep).find("nested deeper than 100"), std::string::npos);
}

}  // namespace
}  // namespace toroid::pt2
