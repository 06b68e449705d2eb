#include "codegen/cpp/origin.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/generated_for_test.h"

namespace toroid::codegen {
namespace {

// The number, from 1, of the first line with these words.
size_t line_with(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, std::string_view::npos) << words;
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

TEST(Origin, OfEachLineOfAFusedKernelIsItsOwnOperator) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64, 1000], y: f32[64, 1000]) {
  a: f32[64, 1000] = aten::mul.Tensor(x, y)
  b: f32[64, 1000] = aten::exp(a)
  c: f32[64] = aten::sum.dim_IntList(b, [1])
  d: f32[64, 1] = aten::unsqueeze(c, 1)
  e: f32[64, 1000] = aten::div.Tensor(b, d)
  return e
})");
  ASSERT_EQ(code.kernels.size(), 1u);
  const std::string& unit = code.units[0];
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "= rounded(op_exp_v(")), "b (aten::exp)");
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "const auto mul_v")), "a (aten::mul.Tensor)");
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "const auto div_v")), "e (aten::div.Tensor)");
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "const float result0 = fold(")), "c (aten::sum.dim_IntList)")
      << unit.substr(unit.find("// mul"));
  // The call of the kernel, and what comes before any operator's own line.
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "parallel(runtime, 64")), "e (aten::div.Tensor)");
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "const int64_t i")).substr(0, 20), code.kernels[0].name.substr(0, 20));
  EXPECT_EQ(origin_of_line(unit, 1), "") << "the prelude";
  EXPECT_EQ(origin_of_line(unit, 10'000'000), "");
  EXPECT_EQ(origin_of_line(unit, 0), "");
}

TEST(Origin, OfAKernelOfOneOperatorIsSaidAboveIt) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64, 1000]) {
  y: f32[64, 1000] = aten::softmax.int(x, -1)
  return y
})");
  const std::string& unit = code.units[0];
  EXPECT_EQ(origin_of_line(unit, line_with(unit, "= rounded(op_exp_normal_v(")), "softmax_kernel: aten::softmax.int y");
  EXPECT_EQ(code.kernels[0].text.find("// of "), std::string::npos);
}

TEST(Origin, DoesNotKeepEqualKernelsApart) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64], y: f32[64]) {
  a: f32[64] = aten::mul.Tensor(x, x)
  b: f32[64] = aten::exp(a)
  s: f32[64] = aten::sort(y)
  c: f32[64] = aten::mul.Tensor(s, s)
  d: f32[64] = aten::exp(c)
  return b, d
})");
  EXPECT_EQ(program::counts(code.module).kernel_calls, 2);
  EXPECT_EQ(code.kernels.size(), 1u);
}

TEST(Origin, CommentsThatRepeatOrSayNothingAreDropped) {
  std::vector<std::string> lines = {"// of a", "x;",      "  // of a", "  y;", "// of b", "// of c",
                                    "z;",      "// of d", "// of c",   "w;",   "// of a", "v;"};
  drop_repeated_origins(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"// of a", "x;", "  y;", "// of c", "z;", "w;", "// of a", "v;"}));
}

TEST(Origin, HostileNamesStayInTheirComment) {
  const Provenance hostile{.op = "aten::add", .name = "x*/\n#include \"/etc/passwd\"\\", .module = "m\r", .source = "?\?/\nreturn;"};
  const std::string comment = origin_comment(hostile);
  EXPECT_EQ(comment.find_first_of("\n\r\\?"), std::string::npos) << comment;
}

}  // namespace
}  // namespace toroid::codegen
