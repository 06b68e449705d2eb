#include "runtime/kernels/registry/problem.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "base/format.h"

namespace toroid {
namespace {

TEST(Problem, TextReadsBack) {
  for (const char* text : {
           "matmul.f32(f32[1, 2048], f32[2048, 1000]/[1, 2048]) -> f32[1, 1000]",
           "attention.f32(f32[1, 8, 1, 64]@16, bool[]@1) -> f32[1, 8, 1, 64]; integers 1; numbers 0.125",
           "convolution.f32(f32[0, 3], bf16[2]/[0]) -> f32[0, 3]; integers 0 1 -1",
           "pair.i64(i64[4]) -> i64[4], f32[4]@4; numbers 1e-300 -inf 0.1",
           "none.f32() -> f32[]",
           "matmul.f32(f32[2, 3], f32[3, 4]) -> f32[2, 4]; integers 1; epilogue",
           "matmul.f32(f32[2, 3], constant f32[3, 4]/[1, 3]@4) -> f32[2, 4]",
           "chain.f32{a.f32(f32[2]@4, f32[3]) -> f32[3]; integers 0 1; numbers 0.5; epilogue | b.f32(f32[3]) -> f32[4]; integers 1 | c() "
           "-> f32[1]}",
       }) {
    EXPECT_EQ(to_string(parse_problem(text)), text);
  }
}

TEST(Problem, SpellingsOfOneProblemAreEqual) {
  EXPECT_EQ(parse_problem("m.f32{ a() -> f32[2]|b() -> f32[ 2 ] }"), parse_problem("m.f32{a() -> f32[2] | b() -> f32[2]}"));
  EXPECT_NE(parse_problem("m.f32{a() -> f32[2] | b() -> f32[2]}"), parse_problem("m.f32{a() -> f32[2] | b() -> f32[2]; epilogue}"));
  EXPECT_EQ(parse_problem("m.f32( f32[2,3]/[3,1]@64 )->f32[ 2 ]"), parse_problem("m.f32(f32[2, 3]) -> f32[2]"));
}

TEST(Problem, IsWhatACallGets) {
  RuntimePool pool(1);
  alignas(64) float data[32] = {};
  const int64_t sizes[] = {2, 3}, strides[] = {1, 8}, out[] = {3};
  const int64_t one[] = {1};
  const ToroidOperand inputs[] = {{data + 4, sizes, strides, 2, static_cast<int32_t>(DType::F32), 0}};
  const ToroidOperand outputs[] = {{data, out, one, 1, static_cast<int32_t>(DType::F32), 0}};
  const int64_t integers[] = {7};
  EXPECT_EQ(to_string(problem_of("x.f32", {pool, inputs, outputs, integers, {}})), "x.f32(f32[2, 3]/[1, 8]@16) -> f32[3]; integers 7");
}

TEST(Problem, ExtentsCoverGapsAndRepetition) {
  EXPECT_EQ(parse_problem("x() -> f32[2, 3]/[8, 1]").outputs[0].extent_bytes(), 4 * (8 + 2 + 1));
  EXPECT_EQ(parse_problem("x() -> f32[5, 3]/[0, 1]").outputs[0].extent_bytes(), 4 * 3);
  EXPECT_EQ(parse_problem("x() -> f32[5, 0]").outputs[0].extent_bytes(), 0);
  EXPECT_EQ(parse_problem("x() -> i64[]").outputs[0].extent_bytes(), 8);
}

TEST(Problem, InRowMajorOrderDimsOfOneElementHaveAnyStride) {
  const Problem problem = parse_problem("x(f32[5, 4, 1, 1]/[4, 1, 0, 0]) -> f32[1, 3]/[8, 1]");
  EXPECT_TRUE(problem.inputs[0].is_row_major());
  EXPECT_TRUE(problem.outputs[0].is_row_major());
  EXPECT_EQ(to_string(problem), "x(f32[5, 4, 1, 1]/[4, 1, 0, 0]) -> f32[1, 3]/[8, 1]");
  EXPECT_FALSE(problem.inputs[0].is_contiguous());
  EXPECT_FALSE(parse_problem("x() -> f32[2, 3]/[4, 1]").outputs[0].is_row_major());
}

TEST(Problem, DenseIsWithoutGapsInAnyOrder) {
  auto is_dense = [](std::string_view operand) { return parse_problem(formatted("x() -> {}", operand)).outputs[0].is_dense(); };
  EXPECT_TRUE(is_dense("f32[2, 3, 4]"));
  EXPECT_TRUE(is_dense("f32[2, 3, 4, 5]/[60, 1, 15, 3]"));
  EXPECT_TRUE(is_dense("f32[1, 3]/[77, 1]"));
  EXPECT_TRUE(is_dense("f32[0, 3]/[9, 9]"));
  EXPECT_FALSE(is_dense("f32[2, 3]/[4, 1]"));
  EXPECT_FALSE(is_dense("f32[2, 3]/[0, 1]"));
}

TEST(Problem, WhatIsWrongIsNamedWithItsColumn) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "1:1: expected a family, as matmul.f32"},
      {"m f32", "1:3: expected '('"},
      {"m(f33[2]) -> f32[2]", "1:3: 'f33' is no dtype"},
      {"m(f32[2) -> f32[2]", "1:8: expected ']'"},
      {"m(f32[-2]) -> f32[2]", "1:7: sizes and strides are not negative"},
      {"m(f32[2]/[1, 1]) -> f32[2]", "1:9: as many strides as sizes are needed"},
      {"m(f32[2]@3) -> f32[2]", "1:10: an alignment is a power of two up to 64"},
      {"m(f32[4000000000, 4000000000]) -> f32[2]", "1:3: the operand has more than 2^62 bytes"},
      {"m(f32[2]/[9000000000000000000]) -> f32[2]", "1:3: the operand has more than 2^62 bytes"},
      {"m(f32[2]) -> f32[2]; integers 1 x", "1:33: expected an integer"},
      {"m(f32[2]) -> f32[2]; letters", "1:22: expected 'numbers'"},
      {"m(f32[2]) -> f32[2] f32[2]", "1:21: expected ';' or the end"},
      {"m{}", "1:3: expected a family, as matmul.f32"},
      {"m{a(f32[2]) -> f32[2]; integers 1 | }", "1:37: expected a family, as matmul.f32"},
      {"m{a(f32[2]) -> f32[2]; integers 1x | b() -> f32[2]}", "1:33: expected an integer"},
      {"m{a() -> f32[2]", "1:16: expected '}'"},
      {"m{a() -> f32[2]}; epilogue", "1:17: expected the end"},
      {"m{n{a() -> f32[2]}}", "1:4: expected '('"},
  };
  for (const auto& [text, message] : rows) {
    EXPECT_EQ(error_of([&] { parse_problem(text); }).message(), message) << text;
  }
}

}  // namespace
}  // namespace toroid
