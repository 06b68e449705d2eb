// Names, indices and literals: small pieces of C++ that must be right for any model.
#include "codegen/cpp/names.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude/prelude.h"
#include "codegen/cpp/scalar_text.h"
#include "support/pattern_for_test.h"

namespace toroid::codegen {
namespace {

TEST(Identifier, KeepsWhatCppAllows) {
  EXPECT_EQ(identifier("add_3"), "add_3");
  EXPECT_EQ(identifier("encoder.layer.0"), "encoder_layer_0");
}

TEST(Identifier, IsNeverWhatCppOrTheGeneratedFileUses) {
  EXPECT_EQ(identifier("while"), "t_while");
  EXPECT_EQ(identifier("int64_t"), "t_int64_t");
  EXPECT_EQ(identifier("load"), "t_load");
  EXPECT_EQ(identifier("stash0"), "t_stash0");
  EXPECT_EQ(identifier(""), "t_");
  EXPECT_EQ(identifier("0"), "t_0");
  EXPECT_EQ(identifier("__cplusplus"), "t___cplusplus");
}

// What kernels call at file scope: a value of that name would hide it.
TEST(Identifier, IsNeverANameOfThePrelude) {
  const std::string prelude = std::string(kPrelude) + std::string(kSpecialPrelude);
  std::set<std::string> names;
  for (const char* declaration :
       {R"(\n(template <[^\n]*> )?INLINE [^(=;\n]*\b(\w+)\()", R"(\n(typedef) [^;{\n]*\b(\w+);)", R"(\n(template <[^\n]*> )?struct (\w+))",
        R"(\n(template <[^\n]*> )?constexpr [^=;(\n<]*\b(\w+)[ <])", R"(\n(template <[^\n]*> )?using (\w+) =)", R"(\n(enum) (\w+))"}) {
    for (const std::vector<std::string>& found : matches_in(prelude, declaration)) names.insert(found[2]);
  }
  EXPECT_GT(names.size(), 80u);
  for (const std::string& name : names) EXPECT_NE(identifier(name), name);
}

TEST(Identifier, SurvivesHostileText) {
  EXPECT_EQ(identifier("a\"; system(\"x\"); //"), "a___system__x______");
  EXPECT_EQ(identifier("a\nb"), "a_b");
  EXPECT_EQ(identifier("*/"), "t___");
  EXPECT_EQ(identifier(std::string_view("a\0b", 3)), "a_b");
  EXPECT_EQ(identifier("größe"), "gr____e");
  EXPECT_EQ(identifier(std::string(1 << 20, 'x')).size(), 78u);
}

TEST(SymbolNames, NumberAxesByMentionAndKeepClearOfParameters) {
  sym::Context symbols;
  const sym::Expr far = symbols.axis(8, "i"), size = symbols.symbol("s0", sym::SymbolKind::Size), i = symbols.axis(8, "i"),
                  r = symbols.axis(8, "r"), v = symbols.value({0, 7}, "v");
  loop::LoopProgram program(symbols);
  SymbolNames names;
  names.reserve("i1");
  EXPECT_EQ(print_index(program.exprs, names, i * size + r), "s0 * i0 + r0");
  EXPECT_EQ(print_index(program.exprs, names, far + i), "i2 + i0");
  EXPECT_EQ(print_factor(program.exprs, names, v), "v0");
  EXPECT_EQ(print_factor(program.exprs, names, v + 1), "(v0 + 1)");
  EXPECT_EQ(print_factor(program.exprs, names, 16), "16");
}

// As parameters of modules that lie deep have them.
TEST(Identifier, TellsLongNamesApart) {
  const std::string module(90, 'm');
  EXPECT_NE(identifier(module + "_query_weight"), identifier(module + "_value_weight"));
  EXPECT_EQ(identifier(identifier(module)), identifier(module));
  EXPECT_EQ(identifier(std::string(78, 'm')), std::string(78, 'm'));
}

TEST(CommentText, StaysOnItsLine) {
  EXPECT_EQ(comment_text("x: f32[2]"), "x: f32[2]");
  EXPECT_EQ(comment_text("a\nint evil;"), "a int evil;");
  EXPECT_EQ(comment_text("ends in a backslash\\"), "ends in a backslash ");
  EXPECT_EQ(comment_text("trigraph ?\?/"), "trigraph   /");
  EXPECT_EQ(comment_text("\xe2\x80\xa8"), "   ");
  EXPECT_EQ(comment_text(std::string(1 << 20, 'x'), 10), "xxxxxxxxxx...");
}

TEST(LiteralText, Floats) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(literal_text(DType::F32, 1.0), "1.0f");
  EXPECT_EQ(literal_text(DType::F32, 0.1), "0.1f");
  EXPECT_EQ(literal_text(DType::F64, 0.1), "0.1");
  EXPECT_EQ(literal_text(DType::F64, 1e300), "1e+300");
  EXPECT_EQ(literal_text(DType::F32, 1e300), "__builtin_inff()");
  EXPECT_EQ(literal_text(DType::F32, -1e300), "(-__builtin_inff())");
  EXPECT_EQ(literal_text(DType::F32, 0.0), "0.0f");
  EXPECT_EQ(literal_text(DType::F32, -0.0), "(-0.0f)");
  EXPECT_EQ(literal_text(DType::F64, -2.5), "(-2.5)");
  EXPECT_EQ(literal_text(DType::F32, kInf), "(__builtin_inff())");
  EXPECT_EQ(literal_text(DType::F64, -kInf), "(-__builtin_inf())");
  EXPECT_EQ(literal_text(DType::F32, std::nan("")), "__builtin_nanf(\"\")");
  EXPECT_EQ(literal_text(DType::F64, std::nan("")), "__builtin_nan(\"\")");
  EXPECT_EQ(literal_text(DType::F64, std::numeric_limits<double>::denorm_min()), "5e-324");
}

TEST(LiteralText, Integers) {
  EXPECT_EQ(literal_text(DType::I64, int64_t{-3}), "int64_t(-3)");
  EXPECT_EQ(literal_text(DType::I64, INT64_MIN), "int64_t(-9223372036854775807 - 1)");
  EXPECT_EQ(literal_text(DType::I64, INT64_MAX), "int64_t(9223372036854775807)");
  EXPECT_EQ(literal_text(DType::U8, int64_t{255}), "uint8_t(255)");
  EXPECT_EQ(literal_text(DType::Bool, int64_t{2}), "true");
  EXPECT_EQ(literal_text(DType::F32, int64_t{7}), "7.0f");
}

TEST(IdentityText, LeavesReductionsUnchanged) {
  EXPECT_EQ(identity_text(ReduceOp::Min, DType::I8), "int8_t(127)");
  EXPECT_EQ(identity_text(ReduceOp::Max, DType::I8), "int8_t(-128)");
  EXPECT_EQ(identity_text(ReduceOp::Min, DType::U8), "uint8_t(255)");
  EXPECT_EQ(identity_text(ReduceOp::Max, DType::U8), "uint8_t(0)");
  EXPECT_EQ(identity_text(ReduceOp::Max, DType::I64), "int64_t(-9223372036854775807 - 1)");
  EXPECT_EQ(identity_text(ReduceOp::Max, DType::F32), "(-__builtin_inff())");
  EXPECT_EQ(identity_text(ReduceOp::Prod, DType::F64), "1.0");
}

class PrintIndex : public testing::Test {
 protected:
  std::string print(sym::Expr e) { return print_index(exprs, e); }

  sym::Context symbols;
  loop::ExprTable exprs{symbols};
  sym::Expr n = symbols.symbol("s0", sym::SymbolKind::Size, {2, 512});
  sym::Expr i = symbols.axis(16, "i");
  sym::Expr j = symbols.axis(n, "j");
};

TEST_F(PrintIndex, SumsAndProducts) {
  EXPECT_EQ(print(0), "0");
  EXPECT_EQ(print(-3), "-3");
  EXPECT_EQ(print(128 * i + j + 3), "128 * i0 + j0 + 3");
  EXPECT_EQ(print(i - j - 1), "i0 - j0 - 1");
  EXPECT_EQ(print(n * (i + 1)), "s0 + s0 * i0");
  EXPECT_EQ(print(-2 * i), "-2 * i0");
}

TEST_F(PrintIndex, DivisionIsCppsOwnOnlyWhereNothingIsNegative) {
  EXPECT_EQ(print(sym::floor_div(i, 3)), "(i0 / 3)");
  EXPECT_EQ(print(sym::mod(i + j, 3)), "((i0 + j0) % 3)");
  EXPECT_EQ(print(sym::floor_div(i - 5, n)), "floordiv<int64_t>(i0 - 5, s0)");
  EXPECT_EQ(print(sym::mod(i - 5, n)), "floormod<int64_t>(i0 - 5, s0)");
}

TEST_F(PrintIndex, Conditions) {
  EXPECT_EQ(print(sym::lt(i, j)), "(i0 < j0)");
  EXPECT_EQ(print(sym::min(i, j)), "min64(i0, j0)");
}

TEST(Names, OfWhatTilesAreCalledAreTaken) {
  for (const char* name : {"tile", "tile0", "tile_at", "TileAt", "next", "next_row", "next_first"})
    EXPECT_EQ(identifier(name), std::string("t_") + name);
}

TEST(Names, OfWhatAnEpilogueIsCalledWithAreTaken) {
  for (const char* name : {"passed", "epilogue", "block", "row", "row_stride", "first_row", "last_row", "first", "last"}) {
    EXPECT_EQ(identifier(name), std::string("t_") + name);
  }
}

}  // namespace
}  // namespace toroid::codegen
