#include "codegen/halide/halide_printer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/halide/halide_scalar.h"
#include "schedule/scheduled_for_test.h"
#include "support/golden_for_test.h"

namespace toroid::codegen {
namespace {

// Each kernel of the program without what stands before all, or why it is not in Halide.
std::string in_halide_text(std::string_view text) {
  const schedule::Scheduled made = schedule::scheduled(text);
  std::string all;
  for (const schedule::Step& step : made.schedule.steps) {
    const auto* kernel = std::get_if<schedule::Kernel>(&step);
    if (kernel == nullptr) {
      all += "another step\n";
      continue;
    }
    const auto result = print_halide(*made.schedule.loops, *kernel, "Li2018");
    if (const auto* reason = std::get_if<std::string>(&result)) {
      all += "not: " + *reason;
      continue;
    }
    const HalidePipeline& pipeline = std::get<PrintedHalide>(result).pipeline;
    EXPECT_TRUE(pipeline.source.starts_with(kHalidePrelude));
    all += pipeline.source.substr(kHalidePrelude.size()) + "\n";
  }
  return all;
}

TEST(HalidePrinter, PrintsWhatIsComputed) {
  std::string text = in_halide_text("graph(x: f32[512, 1001]) {\n  y: f32[512, 1001] = aten::softmax.int(x, 1)\n  return y\n}");
  text += in_halide_text(R"(
sym n in [1, 100000]
graph(x: bf16[n, 48], y: bf16[48], c: bool[n, 48]) {
  a: bf16[n, 48] = aten::maximum(x, y)
  b: bf16[n, 48] = aten::where.self(c, a, x)
  return b
})");
  text += in_halide_text("graph(x: f64[500, 96]) {\n  y: f64[96] = aten::sum.dim_IntList(x, [0])\n  return y\n}");
  text += in_halide_text("graph(x: f32[30, 8]) {\n  y: i64[30] = aten::argmax(x, 1)\n  return y\n}");
  // An index outside of the tensor is none that is read.
  text += in_halide_text("graph(x: f32[6, 9]) {\n  y: f32[8, 12] = aten::constant_pad_nd(x, [1, 2, 1, 1], 0.5)\n  return y\n}");
  expect_golden("codegen/testdata/halide_pipelines.py.golden", text);
}

TEST(HalidePrinter, SaysWhyAKernelIsNotInHalide) {
  struct {
    std::string_view program, reason;
  } const rows[] = {
      {"graph(x: f32[100, 8], i: i64[5]) {\n  y: f32[5, 8] = aten::embedding(x, i)\n  return y\n}", "an index that is read from a tensor"},
      {"graph(x: i64[100], y: i64[100]) {\n  z: i64[100] = aten::remainder.Tensor(x, y)\n  return z\n}", "mod of i64"},
      {"graph(x: f32[100]) {\n  z: f32[100] = aten::rand_like(x)\n  return z\n}", "random numbers"},
      {"graph(x: f32[100]) {\n  z: f32[100] = aten::lgamma(x)\n  return z\n}", "lgamma of f32"},
      {"graph(x: f64[100]) {\n  z: f64[100] = aten::erf(x)\n  return z\n}", "erf of f64"},
      {"graph(x: f32[1100000000]) {\n  z: f32[1100000000] = aten::neg(x)\n  return z\n}", "a tensor of 2^31 bytes"},
  };
  for (const auto& [program, reason] : rows) EXPECT_EQ(in_halide_text(program), fmt::format("not: {}", reason)) << program;
}

TEST(HalideScalar, LiteralsAreExact) {
  EXPECT_EQ(halide_literal(0.1, DType::F32), "f32(0.10000000149011612)");
  EXPECT_EQ(halide_literal(0.1, DType::F64), "f64(0.1)");
  EXPECT_EQ(halide_literal(-0.0, DType::F32), "f32(-0.0)");
  EXPECT_EQ(halide_literal(sym::Expr(3), DType::I64), "hl.i64(3)");
  EXPECT_EQ(halide_literal(1e300 * 1e300, DType::F64), "f64(inf)");
  EXPECT_EQ(halide_identity(ReduceOp::Max, DType::I32), "hl.cast(hl.Int(32), -2147483648)");
  EXPECT_EQ(halide_identity(ReduceOp::Min, DType::I64), "hl.i64(9223372036854775807)");
}

}  // namespace
}  // namespace toroid::codegen
