#include <cmath>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"

namespace toroid::sym {
namespace {

class Parse : public ::testing::Test {
 protected:
  Expr read(std::string_view text) {
    return parse(text, context_, [this](std::string_view name) {
      const bool size = name[0] == 's';
      return context_.symbol(name, size ? SymbolKind::Size : SymbolKind::DataDependent, size ? Range{2, kPosInf} : Range{0, kPosInf});
    });
  }

  std::string error(std::string_view text) {
    try {
      return "no error: " + to_string(read(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
      return error.message();
    }
  }

  Context context_;
};

TEST_F(Parse, ReadsPyTorchText) {
  const struct {
    std::string_view text, printed;
  } rows[] = {
      {"s77", "s77"},
      {"2*s77", "2*s77"},
      {"((s27 + 1)//2)", "(s27 + 1)//2"},
      {"Max(1, u0)", "Max(1, u0)"},
      {"Mod(s0*s1, 8)", "Mod(s0*s1, 8)"},
      {"PythonMod(u0, 4) + FloorDiv(u0, 4)*4", "u0"},
      {"CleanDiv(8*s0, 4)", "2*s0"},
      {"s0**2 - 1", "s0*s0 - 1"},
      {"floor(s0/2)", "s0//2"},
      {"ceiling(s0/2)", "(s0 + 1)//2"},
      {"CeilToInt(IntTrueDiv(s0, 16))", "(s0 + 15)//16"},
      {"-((-s0)//2)", "(s0 + 1)//2"},
      {"floor(0.5*s0) + TruncToInt(2.0*s1)", "2*s1 + s0//2"},
      {"4*s0/2", "2*s0"},
      {"Eq(u0, 1)", "Eq(u0, 1)"},
      {"Ne(s0, 1)", "1"},
      {"u0 >= 3", "3 <= u0"},
      {"u0 != 3", "Ne(u0, 3)"},
      {"2 < u0 < 9", "(3 <= u0) & (u0 <= 8)"},
      {"(u0 < 4) & (u1 < 4) | ~(u1 < 2)", "(2 <= u1) | ((u0 <= 3) & (u1 <= 3))"},
      {"u0 < 4 and not u1 == 3", "Ne(u1, 3) & (u0 <= 3)"},
      {"And(Lt(u0, 4), True)", "u0 <= 3"},
      {"torch.sym_max(u0, 4)", "Max(4, u0)"},
      {"torch.sym_sum([u0, u1, 3])", "u0 + u1 + 3"},
      {"Where(u0 < 4, u0, 4)", "u0*(u0 <= 3) + 4*(4 <= u0)"},
      {"ModularIndexing(u0, 4, 8)", "Mod(u0//4, 8)"},
      {"-3 % 5 + 7 // -2", "-2"},
      {"2**3**2", "512"},
      {"-9223372036854775808", "-9223372036854775808"},
  };
  for (const auto& row : rows) EXPECT_EQ(to_string(read(row.text)), row.printed) << row.text;
}

TEST_F(Parse, ReadsSymPyRepresentations) {
  EXPECT_EQ(to_string(read("Mul(Integer(4), Symbol('s77', positive=True, integer=True))")), "4*s77");
  EXPECT_EQ(to_string(read("GreaterThan(Symbol('u0', integer=True), Integer(2))")), "2 <= u0");
  EXPECT_EQ(to_string(read("Mul(Integer(3), Max(Integer(1), Symbol('u0', integer=True)))")), "3*Max(1, u0)");
  EXPECT_EQ(to_string(read("Add(Pow(Symbol('s0', integer=True), Integer(2)), Integer(-1))")), "s0*s0 - 1");
  EXPECT_EQ(to_string(read("floor(Mul(Rational(1, 2), Symbol('s0')))")), "s0//2");
  EXPECT_EQ(to_string(read("Mul(Integer(2), Symbol('s0'), evaluate=False)")), "2*s0");
}

TEST_F(Parse, ReadsSizesThatAFloatScaled) {
  const auto scaled = [&](const std::string& factor) {
    return to_string(read("TruncToInt(Mul(Float('" + factor + "', precision=53), ToFloat(Symbol('s0', integer=True))))"));
  };
  EXPECT_EQ(scaled("0.5"), "s0//2");
  EXPECT_EQ(scaled("1.5"), "s0 + s0//2");
  EXPECT_EQ(scaled("2.0"), "2*s0");
  EXPECT_EQ(scaled("1.1000000000000001"), "s0 + s0//10");  // a double above its fraction: rounded down alike
  EXPECT_EQ(to_string(read("floor(0.1*s0)")), "s0//10");
  // 0.7*90 is 62.99999999999999 in doubles.
  EXPECT_EQ(to_string(read("TruncToInt(0.7*ToFloat(s0))")), "Scaled(0.7, s0)");
  EXPECT_EQ(to_string(read("Scaled(0.7, 90)")), "62");
  for (const double factor : {0.1, 0.7, 0.8, 1.1, 1.3, 1.4, 1.6, 2.25, 2.3, 0.29, 3.14159}) {
    const Expr expr = read(fmt::format("TruncToInt({:.17}*ToFloat(s0))", factor));
    for (int64_t size = 1; size < 3000; ++size) {
      EXPECT_EQ(evaluate(expr, [&](Expr) { return size; }), static_cast<int64_t>(factor * static_cast<double>(size))) << size;
    }
  }
}

// What is no fraction is computed as Python does, in doubles.
TEST_F(Parse, ComputesSizesInDoubles) {
  const struct {
    std::string_view text;
    int64_t (*python)(double n);
  } rows[] = {
      {"ceiling(0.7*s0)", [](double n) { return static_cast<int64_t>(std::ceil(0.7 * n)); }},
      {"TruncToInt(0.7*ToFloat(s0) + 0.3)", [](double n) { return static_cast<int64_t>(0.7 * n + 0.3); }},
      {"FloorToInt(FloatPow(ToFloat(s0), 0.5))", [](double n) { return static_cast<int64_t>(std::floor(std::pow(n, 0.5))); }},
      {"TruncToInt(OpaqueUnaryFn_sqrt(ToFloat(s0)) * 3.0)", [](double n) { return static_cast<int64_t>(std::sqrt(n) * 3.0); }},
      {"RoundToInt(IntTrueDiv(s0, 4))", [](double n) { return static_cast<int64_t>(std::nearbyint(n / 4)); }},
      {"Real(floor, Real(mul, 0.1, Real(float, s0)))", [](double n) { return static_cast<int64_t>(std::floor(0.1 * n)); }},
      {"1.0 / (torch.sym_float(s0) ** 0.5) < 0.25", [](double n) { return int64_t{1.0 / std::pow(n, 0.5) < 0.25}; }},
      {"TruncToInt(Max(2.5, s0/3))", [](double n) { return static_cast<int64_t>(std::max(2.5, n / 3)); }},
  };
  for (const auto& row : rows) {
    const Expr expr = read(row.text);
    EXPECT_EQ(read(to_string(expr)), expr) << to_string(expr);
    for (int64_t size = 2; size < 200; ++size) {
      EXPECT_EQ(evaluate(expr, [&](Expr) { return size; }), row.python(static_cast<double>(size))) << row.text << " at " << size;
      EXPECT_EQ(substitute(expr, {{read("s0"), size}}), Expr(row.python(static_cast<double>(size)))) << row.text;
    }
  }
  EXPECT_EQ(read("FloorToInt(FloatPow(ToFloat(s0), 0.5))").range().min, 0);
}

TEST_F(Parse, SaysWhereTextIsWrong) {
  EXPECT_EQ(error(""), "bad size expression '': expected a value but the text ends at offset 0");
  EXPECT_EQ(error("s0 +"), "bad size expression 's0 +': expected a value but the text ends at offset 4");
  EXPECT_EQ(error("(s0"), "bad size expression '(s0': expected ')' but the text ends at offset 3");
  EXPECT_EQ(error("s0 $ 2"), "bad size expression 's0 $ 2': unexpected '$' at offset 3");
  EXPECT_EQ(error("s0 s1"), "bad size expression 's0 s1': unexpected 's' at offset 3");
  EXPECT_EQ(error("1 + Foo(s0)"), "bad size expression '1 + Foo(s0)': unknown function 'Foo' at offset 4");
  EXPECT_EQ(error("Mod(s0)"), "bad size expression 'Mod(s0)': 'Mod' does not take 1 argument at offset 0");
  EXPECT_EQ(error("s0 // 0"), "bad size expression 's0 // 0': division by zero at offset 3");
  EXPECT_EQ(error("s0/3"), "bad size expression 's0/3': a fraction where an integer is needed at offset 0");
  EXPECT_EQ(error("99999999999999999999"), "bad size expression '99999999999999999999': a number beyond 64 bits at offset 0");
  EXPECT_EQ(error("0.7*s0 + 1"), "bad size expression '0.7*s0 + 1': a fraction where an integer is needed at offset 0");
  EXPECT_EQ(error("0.7*s0"), "bad size expression '0.7*s0': a fraction where an integer is needed at offset 0");
  EXPECT_EQ(error("Real(tan, s0, s1)"), "bad size expression 'Real(tan, s0, s1)': expected a decimal number at offset 10");
  EXPECT_EQ(error("Real(half, 1)"), "bad size expression 'Real(half, 1)': unknown function of doubles 'half' at offset 5");
  EXPECT_EQ(error("Float('1.5', precision=24)"),
            "bad size expression 'Float('1.5', precision=24)': a float that is no double at offset 23");
  EXPECT_EQ(error("2**s0"), "bad size expression '2**s0': an exponent that is no constant between -64 and 64 at offset 3");
  EXPECT_EQ(error("3**64"), "integer overflow in size arithmetic: 4052555153018976267 * 3");
  EXPECT_EQ(error("Symbol('a b')"), "bad size expression 'Symbol('a b')': a symbol name that is not an identifier at offset 7");
  EXPECT_EQ(error("s0\n\x01"),
            "bad size expression 's0?"
            "?': unexpected '?' at offset 3");
}

TEST_F(Parse, RefusesDeepAndLongText) {
  const auto nested = [](int depth) { return std::string(depth, '(') + "s0" + std::string(depth, ')'); };
  EXPECT_EQ(read(nested(100)), read("s0"));
  EXPECT_NE(error(nested(101)).find("nested deeper than 100 at offset 101"), std::string::npos) << error(nested(101));
  EXPECT_NE(error(std::string(60000, '-') + "s0").find("nested deeper than 100"), std::string::npos);
  std::string chain = "s0";
  for (int i = 0; i < 200; ++i) chain += "%s1";
  EXPECT_NE(error(chain).find("nested deeper than 100"), std::string::npos);
  EXPECT_NE(error(std::string(70000, '1')).find("longer than 65536 characters"), std::string::npos);
}

TEST_F(Parse, ReadsLongSumsFast) {
  std::string sum = "0";
  for (int i = 0; i < 6000; ++i) sum += "+s" + std::to_string(i);
  EXPECT_EQ(read(sum).operands().size(), 6000u);
}

}  // namespace
}  // namespace toroid::sym
