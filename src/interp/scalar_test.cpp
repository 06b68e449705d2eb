#include "library/special/scalar.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/number.h"
#include "interp/program_for_test.h"

namespace toroid {
namespace {

TEST(Scalar, FloatsKeepNanAndSigns) {
  struct Row {
    ScalarOp op;
    double a, b, result;
  };
  const Row
      rows[] =
          {
              {ScalarOp::Min, 1, kNan, kNan},   {ScalarOp::Max, kNan, 1, kNan},    {ScalarOp::Sign, kNan, 0, 0},
              {ScalarOp::Round, 2.5, 0, 2},     {ScalarOp::Round, -0.5, 0, -0.0},  {ScalarOp::FloorDiv, -7, 2, -4},
              {ScalarOp::FloorDiv, 1, 0.1, 9},  // 1 / 0.1 rounds to 10, yet 10 * 0.1 exceeds 1
              {ScalarOp::FloorDiv, 1, 0, kInf}, {ScalarOp::Mod, -7, 2, 1},         {ScalarOp::Mod, 7, -2, -1},
              {ScalarOp::Fmod, -7, 2, -1},      {ScalarOp::Copysign, 3, -0.0, -3}, {ScalarOp::Eq, kNan, kNan, 0},
              {ScalarOp::Ne, kNan, kNan, 1},
          };
  for (const Row& row : rows) {
    const double result = apply(row.op, DType::F64, row.a, row.b);
    EXPECT_TRUE(std::isnan(row.result) ? std::isnan(result) : result == row.result)
        << to_string(row.op) << "(" << row.a << ", " << row.b << ") = " << result;
    EXPECT_EQ(std::signbit(result), std::signbit(row.result)) << to_string(row.op);
  }
}

TEST(Scalar, IntegersWrapAndFollowTheirSignRules) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  struct Row {
    ScalarOp op;
    DType dtype;
    int64_t a, b, result;
  };
  const Row rows[] = {
      {ScalarOp::Add, DType::I64, std::numeric_limits<int64_t>::max(), 1, least},
      {ScalarOp::Add, DType::U8, 200, 100, 44},
      {ScalarOp::Neg, DType::I8, -128, 0, -128},
      {ScalarOp::FloorDiv, DType::I64, -7, 2, -4},
      {ScalarOp::FloorDiv, DType::I64, least, -1, least},
      {ScalarOp::TruncDiv, DType::I64, -7, 2, -3},
      {ScalarOp::Mod, DType::I64, -7, 2, 1},
      {ScalarOp::Fmod, DType::I64, -7, 2, -1},
      {ScalarOp::Pow, DType::I64, 3, 40, -6289078614652622815},
      {ScalarOp::Pow, DType::I64, -1, -3, -1},
      {ScalarOp::Pow, DType::I64, 2, -1, 0},
      {ScalarOp::ShiftLeft, DType::I8, 1, 8, 0},
      {ScalarOp::ShiftLeft, DType::I8, 1, 7, -128},
      {ScalarOp::ShiftRight, DType::I32, -8, 40, -1},
      {ScalarOp::ShiftRight, DType::I32, -8, 1, -4},
      {ScalarOp::BitNot, DType::Bool, 1, 0, 0},
      {ScalarOp::BitNot, DType::U8, 1, 0, 254},
      {ScalarOp::Add, DType::Bool, 1, 1, 1},
      {ScalarOp::Gcd, DType::I64, -12, 18, 6},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(wrapped_to(row.dtype, apply(row.op, row.dtype, row.a, row.b)), row.result)
        << to_string(row.op) << "(" << row.a << ", " << row.b << ") on " << to_string(row.dtype);
  }
  EXPECT_THROW(apply(ScalarOp::FloorDiv, DType::I64, int64_t{1}, int64_t{0}), Error);
}

TEST(Scalar, NextafterStepsInItsOwnPrecision) {
  EXPECT_EQ(apply(ScalarOp::Nextafter, DType::BF16, 1.0, 2.0), 1.0078125);
  EXPECT_EQ(apply(ScalarOp::Nextafter, DType::BF16, -1.0, 0.0), -0.99609375);
  EXPECT_EQ(apply(ScalarOp::Nextafter, DType::F32, 1.0, 2.0), 1 + 0x1p-23);
  EXPECT_EQ(apply(ScalarOp::Nextafter, DType::F16, 0.0, -1.0), -0x1p-24);
}

TEST(Scalar, CastsTruncateAndSaturateAsX86) {
  EXPECT_EQ(truncated_to(DType::I32, -2.9), -2);
  EXPECT_EQ(truncated_to(DType::I32, 3e9), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(truncated_to(DType::I64, kNan), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(truncated_to(DType::U8, 300.5), 44);
  EXPECT_EQ(truncated_to(DType::Bool, 0.1), 1);
  EXPECT_EQ(truncated_to(DType::Bool, kNan), 1);
}

}  // namespace
}  // namespace toroid
