// 8-bit floats against PyTorch 2.11: bits and values of numbers that round, vanish and overflow, and a scaled product.
#include "passes/decompose/quantization/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"

namespace toroid {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<HostTensor> float8_results_of(const std::string& text, const std::vector<HostTensor>& inputs) {
  Program program = parse_text(text);
  decompose(program);
  verify(program, Level::Core);
  return evaluate(program, inputs);
}

struct Format {
  std::string dtype;
  std::vector<int64_t> bits;
  std::vector<double> values;
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.dtype; }  // NOLINT: gtest's name

const Format kFormats[] = {
    {"f8e4m3fn",
     {56, 128, 56, 58, 126, 126, 127, 127, 255, 127, 127, 1, 0, 2, 8, 8, 127, 127, 0, 0},
     {1, -0.0, 1, 1.25, 448, 448, kNan, kNan, kNan, kNan, kNan, 0.001953125, 0, 0.00390625, 0.015625, 0.015625, kNan, kNan, 0, 0}},
    {"f8e5m2",
     {60, 128, 60, 61, 95, 95, 95, 96, 252, 124, 127, 24, 20, 26, 36, 36, 123, 124, 1, 1},
     {1,        -0.0,     1,     1.25, 448,     448,    448, 512, -kInf, kInf, kNan, 0.001953125, 0.0009765625, 0.0029296875,
      0.015625, 0.015625, 57344, kInf, 0x1p-16, 0x1p-16}},
};

class Float8 : public testing::TestWithParam<Format> {};

TEST_P(Float8, RoundsAsPyTorchDoes) {
  const std::vector<double> numbers = {1,    -0.0,        1.0625,       1.1875,       448,      463.9,  464.1, 480,   -1e9,    kInf,
                                       kNan, 0.001953125, 0.0009765625, 0.0029296875, 0.015625, 0.0154, 61439, 61441, 0x1p-16, 0x1.8p-17};
  const std::string& dtype = GetParam().dtype;
  const std::vector<HostTensor> results =
      float8_results_of("graph(x: f32[20]) {\n  a: " + dtype + "[20] = aten::_to_copy(x, dtype=dtype." + dtype +
                            ")\n  b: u8[20] = aten::view.dtype(a, dtype.u8)\n"
                            "  c: f32[20] = aten::to.dtype(a, dtype.f32)\n  return b, c, a\n}\n",
                        {HostTensor::from_doubles(DType::F32, {20}, numbers)});
  EXPECT_EQ(results[0].to_ints(), GetParam().bits);
  EXPECT_EQ(results[2].to_ints(), GetParam().bits);
  const std::vector<double> values = results[1].to_doubles();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double expected = GetParam().values[i];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i])) << numbers[i];
    } else {
      EXPECT_EQ(values[i], expected) << numbers[i];
      EXPECT_EQ(std::signbit(values[i]), std::signbit(expected)) << numbers[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8, testing::ValuesIn(kFormats));

TEST(Float8Product, IsScaled) {
  const std::vector<HostTensor> results =
      float8_results_of(R"(graph(x: f32[1, 2], w: f8e4m3fn[3, 2], s: f32[], bias: f32[3]) {
  a: f8e4m3fn[1, 2] = aten::to.dtype(x, dtype.f8e4m3fn)
  t: f8e4m3fn[2, 3] = aten::t(w)
  y: f32[1, 3] = aten::_scaled_mm(a, t, s, s, bias, none, dtype.f32)
  return y
})",
                        {HostTensor::from_doubles(DType::F32, {1, 2}, std::vector<double>{1.0625, -2}),
                         HostTensor::from_ints(DType::U8, {3, 2}, std::vector<int64_t>{56, 58, 184, 0, 8, 126}),
                         HostTensor::from_doubles(DType::F32, {}, std::vector<double>{0.5}),
                         HostTensor::from_doubles(DType::F32, {3}, std::vector<double>{0, 1, 2})});
  EXPECT_EQ(results[0].to_doubles(), (std::vector<double>{-0.375, 0.75, -221.99609375}));
}

TEST(Float8Product, OtherOperatorsAreRefusedByName) {
  Program program = parse_text("program \"case\"\ngraph(x: f8e5m2[4]) {\n  y: f8e5m2[4] = aten::exp(x)\n  return y\n}\n");
  try {
    decompose(program);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "operator 'aten::exp of 8-bit floats' is not supported");
  }
}

}  // namespace
}  // namespace toroid
