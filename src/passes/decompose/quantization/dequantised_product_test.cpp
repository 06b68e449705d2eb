// Which products of dequantised factors become products of bytes. That they are right is tested against the operators one by one
// (tests/programs/products_of_quantised_values.txt).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// The dtypes of the products and convolutions in a program: "i32 f32", "convolution of i32".
std::string products_of(const std::string& inputs, const std::string& body, ByteConvolutions of_bytes = ByteConvolutions::None) {
  Program program = parse_text("graph(" + inputs + ") {\n" + body + "  return y\n}");
  verify(program, Level::Import);
  decompose(program, {.byte_convolutions = of_bytes});
  verify(program, Level::Core);
  std::string dtypes;
  for (const Node& node : program.graph.nodes()) {
    if (std::holds_alternative<Convolution>(node.op))
      dtypes += (dtypes.empty() ? "" : " ") + ("convolution of " + std::string(to_string(program.graph.type(node.outputs[0]).dtype)));
    if (!std::holds_alternative<Matmul>(node.op)) continue;
    dtypes += (dtypes.empty() ? "" : " ") + std::string(to_string(program.graph.type(node.outputs[0]).dtype));
    // The factors of such a product are casts of what is in memory.
    const Node& right = program.graph.producer(node.inputs[1]);
    if (std::holds_alternative<Cast>(right.op)) dtypes += " of " + std::string(to_string(program.graph.type(right.inputs[0]).dtype));
  }
  return dtypes;
}

const char kWeights[] = "  w: f32[8, 6] = quantized_decomposed::dequantize_per_channel(q, s, z, 0, -128, 127, dtype.i8)\n";

TEST(DequantisedProduct, AScaleOfEachColumnIsAppliedToTheResult) {
  EXPECT_EQ(products_of("x: f32[2, 3, 6], q: i8[8, 6], s: f32[8]",
                        "  w: f32[8, 6] = quantized_decomposed::dequantize_per_channel(q, s, none, 0, -128, 127, dtype.i8)\n"
                        "  y: f32[2, 3, 8] = aten::linear(x, w)\n"),
            "f32 of i8");
  EXPECT_EQ(products_of("x: bf16[3, 8], q: i8[8, 6], s: bf16[1, 6]",
                        "  f: bf16[8, 6] = aten::_to_copy(q, dtype=dtype.bf16)\n"
                        "  w: bf16[8, 6] = aten::mul.Tensor(s, f)\n"
                        "  y: bf16[3, 6] = aten::mm(x, w)\n"),
            "f32 of i8");
}

TEST(DequantisedProduct, OfTwoDequantisedFactorsIsOneOfIntegers) {
  EXPECT_EQ(
      products_of("x: i8[5, 6], q: i8[8, 6], s: f32[8], z: i64[8]",
                  std::string(kWeights) + "  f: f32[5, 6] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, -128, 127, dtype.i8)\n"
                                          "  y: f32[5, 8] = aten::linear(f, w)\n"),
      "i32 of i8");
}

TEST(DequantisedProduct, AConvolutionOfTwoIsOneOfIntegers) {
  const std::string inputs = "x: u8[2, 6, 9, 9], q: i8[8, 6, 3, 3], s: f32[8], z: i64[8], e: f64[], zero: i64[]";
  const std::string filters =
      "  w: f32[8, 6, 3, 3] = quantized_decomposed::dequantize_per_channel(q, s, z, 0, -128, 127, dtype.i8)\n"
      "  f: f32[2, 6, 9, 9] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, 0, 255, dtype.u8)\n";
  const std::string strided = "  y: f32[2, 8, 5, 5] = aten::conv2d(f, w, none, [2, 2], [1, 1])\n";
  EXPECT_EQ(products_of(inputs, filters + strided, ByteConvolutions::All), "i32 of i8");  // of windows, where zero points may be any
  EXPECT_EQ(products_of(inputs, filters + strided), "convolution of f32");
  const auto with_zeros_known = [&](int kernel, const std::string& convolution) {
    return products_of(fmt::format("x: u8[2, 6, 9, 9], q: i8[8, 6, {0}, {0}], s: f32[8]", kernel),
                       fmt::format("  w: f32[8, 6, {0}, {0}] = quantized_decomposed::dequantize_per_channel(q, s, none, 0, -128, 127, "
                                   "dtype.i8)\n  f: f32[2, 6, 9, 9] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, 0, 255, "
                                   "dtype.u8)\n",
                                   kernel) +
                           convolution,
                       ByteConvolutions::All);
  };
  EXPECT_EQ(with_zeros_known(3, strided), "convolution of i32");
  EXPECT_EQ(with_zeros_known(1, "  y: f32[2, 8, 9, 9] = aten::conv2d(f, w)\n"), "i32 of i8");  // of single elements
  // Of a zero point that is not known the margins would not be either.
  EXPECT_EQ(products_of(inputs,
                        "  w: f32[8, 6, 3, 3] = quantized_decomposed::dequantize_per_channel(q, s, z, 0, -128, 127, dtype.i8)\n"
                        "  f: f32[2, 6, 9, 9] = quantized_decomposed::dequantize_per_tensor.tensor(x, e, zero, 0, 255, dtype.u8)\n"
                        "  y: f32[2, 8, 9, 9] = aten::conv2d(f, w, none, [1, 1], [1, 1])\n",
                        ByteConvolutions::All),
            "convolution of f32");
}

// 2^16 products of bytes have a sum of 32 bits.
TEST(DequantisedProduct, AConvolutionWhoseSumsNeedMoreBitsStaysAmongFloats) {
  const auto convolution_of = [](int channels) {
    const std::string of_image = fmt::format("[1, {}, 4, 4]", channels), of_filters = fmt::format("[8, {}, 4, 4]", channels);
    return products_of(fmt::format("x: u8{}, q: i8{}", of_image, of_filters),
                       fmt::format("  f: f32{} = quantized_decomposed::dequantize_per_tensor(x, 0.1, 0, 0, 255, dtype.u8)\n"
                                   "  w: f32{} = quantized_decomposed::dequantize_per_tensor(q, 0.1, 0, -128, 127, dtype.i8)\n"
                                   "  y: f32[1, 8, 1, 1] = aten::conv2d(f, w)\n",
                                   of_image, of_filters),
                       ByteConvolutions::All);
  };
  EXPECT_EQ(convolution_of(1 << 12), "convolution of i32");
  EXPECT_EQ(convolution_of((1 << 12) + 1), "convolution of f32");
}

TEST(DequantisedProduct, OfPixelsAConvolutionIsOneWhereOthersStayAmongFloats) {
  const auto products = [](int kernel, int stride, int padding, int size, ByteConvolutions of_bytes) {
    return products_of(
        fmt::format("x: u8[2, 6, 9, 9], q: i8[8, 6, {0}, {0}], s: f32[8], z: i64[8]", kernel),
        fmt::format("  w: f32[8, 6, {0}, {0}] = quantized_decomposed::dequantize_per_channel(q, s, z, 0, -128, 127, dtype.i8)\n"
                    "  f: f32[2, 6, 9, 9] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, 0, 255, dtype.u8)\n"
                    "  y: f32[2, 8, {3}, {3}] = aten::conv2d(f, w, none, [{1}, {1}], [{2}, {2}])\n",
                    kernel, stride, padding, size),
        of_bytes);
  };
  constexpr auto kNone = ByteConvolutions::None, kOfPixels = ByteConvolutions::OfPixels;
  EXPECT_EQ(products(1, 1, 0, 9, kOfPixels), "i32 of i8");
  EXPECT_EQ(products(1, 2, 0, 5, kOfPixels), "i32 of i8");
  EXPECT_EQ(products(1, 1, 1, 11, kOfPixels), "convolution of f32");
  EXPECT_EQ(products(3, 1, 1, 9, kOfPixels), "convolution of f32");
  EXPECT_EQ(products(1, 1, 0, 9, kNone), "convolution of f32");
}

TEST(DequantisedProduct, ADepthwiseConvolutionOfTwoIsOneOfIntegers) {
  const std::string inputs =
      "x: u8[2, 6, 9, 9], q: i8[6, 1, 3, 3], r: i8[12, 1, 3, 3], p: i8[6, 2, 3, 3], s: f32[6], t: f32[12], z: i64[6]";
  const auto dtypes = [&](const std::string& filters, int in, int out, int groups) {
    const std::string data = "  f: f32[2, 6, 9, 9] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, 0, 255, dtype.u8)\n";
    const std::string filter = fmt::format(
        "  w: f32[{}, {}, 3, 3] = quantized_decomposed::dequantize_per_channel({}, 0, -128, 127, dtype.i8)\n", out, in, filters);
    const std::string convolution =
        fmt::format("  y: f32[2, {}, 9, 9] = aten::conv2d(f, w, none, [1, 1], [1, 1], [1, 1], {})\n", out, groups);
    return products_of(inputs, data + filter + convolution, ByteConvolutions::All);
  };
  EXPECT_EQ(dtypes("q, s, none", 1, 6, 6), "convolution of i32");
  EXPECT_EQ(dtypes("p, s, none", 2, 6, 3), "convolution of f32");   // other groups
  EXPECT_EQ(dtypes("r, t, none", 1, 12, 6), "convolution of f32");  // several filters a channel
  EXPECT_EQ(dtypes("q, s, z", 1, 6, 6), "convolution of f32");      // zero points that are not known
}

// Infinities times zero points would be NaN.
TEST(DequantisedProduct, ZeroPointsBesideFloatsStayInTheFactor) {
  EXPECT_EQ(products_of("x: f32[5, 6], q: i8[8, 6], s: f32[8], z: i64[8]", std::string(kWeights) + "  y: f32[5, 8] = aten::linear(x, w)\n"),
            "f32");
}

TEST(DequantisedProduct, ScalesAlongTheSumStayInTheFactor) {
  EXPECT_EQ(products_of("x: f32[5, 6], q: i8[6, 8], s: f32[6, 1]",
                        "  f: f32[6, 8] = aten::_to_copy(q, dtype=dtype.f32)\n"
                        "  w: f32[6, 8] = aten::mul.Tensor(f, s)\n"
                        "  y: f32[5, 8] = aten::mm(x, w)\n"),
            "f32");
}

}  // namespace
}  // namespace toroid
