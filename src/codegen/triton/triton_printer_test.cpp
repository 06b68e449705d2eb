#include "codegen/triton/triton_printer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/triton/triton_scalar.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "support/golden_for_test.h"

namespace toroid::codegen {
namespace {

// Each kernel of the program without what stands before all, or why it is not in Triton.
std::string printed(std::string_view text) {
  const schedule::Scheduled made = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper));
  std::string all;
  for (const schedule::Step& step : made.schedule.steps) {
    const auto result = print_triton(*made.schedule.loops, step);
    if (const auto* reason = std::get_if<std::string>(&result)) {
      all += "not: " + *reason;
      continue;
    }
    const auto& triton = std::get<PrintedTriton>(result);
    EXPECT_TRUE(triton.kernel.source.starts_with(kTritonPrelude));
    all += fmt::format("# {} programs, {} warps\n{}\n", sym::to_string(triton.blocks), triton.kernel.warps,
                       triton.kernel.source.substr(kTritonPrelude.size()));
  }
  return all;
}

TEST(TritonPrinter, PrintsTilesOfRowsAndElements) {
  std::string text = printed("graph(x: f32[4096, 1000]) {\n  y: f32[4096, 1000] = aten::softmax.int(x, 1)\n  return y\n}");
  text += printed(R"(
sym n in [1, 100000]
graph(x: bf16[n, 48], y: bf16[48], c: bool[n, 48]) {
  a: bf16[n, 48] = aten::maximum(x, y)
  b: bf16[n, 48] = aten::where.self(c, a, x)
  return b
})");
  text += printed("graph(x: f32[64, 100000]) {\n  y: f32[64] = aten::amax(x, [1])\n  return y\n}");
  text += printed("graph(x: f64[5000, 96]) {\n  y: f64[96] = aten::sum.dim_IntList(x, [0])\n  return y\n}");
  // One row, and programs for 128: there are as many places as what the mask says.
  text += printed("graph(x: f64[8]) {\n  y: f64[8] = aten::softmax.int(x, 0)\n  return y\n}");
  text += printed("graph(x: f16[300, 700]) {\n  y: f16[300, 700] = aten::cumsum(x, 1)\n  return y\n}");
  text += printed("graph(x: f32[300, 40000]) {\n  y: f32[300, 40000] = aten::cumsum(x, 1)\n  return y\n}");
  text += printed(
      "graph(x: f32[5000, 300]) {\n  y: f32[300, 5000] = aten::permute(x, [1, 0])\n  z: f32[300, 5000] = aten::clone(y)\n  return z\n}");
  text += printed("graph(x: bool[100, 8]) {\n  z: i64[100] = aten::argmax(x, 1)\n  return z\n}");
  text += printed("graph(x: f32[100, 50000]) {\n  z: i64[100] = aten::argmin(x, 1)\n  return z\n}");
  expect_golden("codegen/testdata/triton_kernels.py.golden", text);
}

// Indices that are read are checked where an element is; a divisor too.
TEST(TritonPrinter, ReportsIndicesOutOfBounds) {
  std::string text = printed(R"(
graph(x: bf16[50000, 768], p: bf16[1000, 768], i: i64[1000]) {
  e: bf16[1000, 768] = aten::embedding(x, i)
  y: bf16[1000, 768] = aten::add.Tensor(e, p)
  return y
})");
  text += printed("graph(x: i64[100], y: i64[100]) {\n  z: i64[100] = aten::remainder.Tensor(x, y)\n  return z\n}");
  text += printed(R"(
graph(x: f32[300, 1000], i: i64[300, 40]) {
  e: f32[300, 40] = aten::gather(x, 1, i)
  y: f32[300] = aten::sum.dim_IntList(e, [1])
  return y
})");
  expect_golden("codegen/testdata/triton_checks.py.golden", text);
}

TEST(TritonPrinter, SaysWhyAKernelIsNotInTriton) {
  struct {
    std::string_view program, reason;
  } const rows[] = {
      {"graph(x: f32[100], y: f32[100]) {\n  z: f32[100] = aten::remainder.Tensor(x, y)\n  return z\n}", "mod of f32"},
      {"graph(x: f32[100]) {\n  z: f32[100] = aten::rand_like(x)\n  return z\n}", "random numbers"},
      {"graph(x: f32[30, 70000]) {\n  z: f32[30, 70000] = aten::cumsum(x, 1)\n  return z\n}", "a scan of few rows that do not fit a tile"},
      {"graph(x: f32[300, 70]) {\n  z: f32[300, 70] = aten::cumsum(x, 0)\n  return z\n}", "a scan across the rows of memory"},
      {"graph(x: f32[100]) {\n  z: f32[100] = aten::lgamma(x)\n  return z\n}", "lgamma of f32"},
      {"graph(x: f32[100]) {\n  z: i64[100] = aten::_to_copy(x, dtype=dtype.i64)\n  return z\n}", "i64 from f32"},
  };
  for (const auto& [program, reason] : rows) EXPECT_EQ(printed(program), fmt::format("not: {}", reason)) << program;
}

TEST(TritonScalar, LiteralsAreExact) {
  EXPECT_EQ(triton_literal(0.1, DType::F32), "tl.full([1, 1], 0.10000000149011612, tl.float32)");
  EXPECT_EQ(triton_literal(0.1, DType::F64), "tl.full([1, 1], 0.1, tl.float64)");
  EXPECT_EQ(triton_literal(-0.0, DType::F32), "(tl.full([1, 1], 0.0, tl.float32) * -1.0)");
  EXPECT_EQ(triton_literal(sym::Expr(3), DType::I64), "tl.full([1, 1], 3, tl.int64)");
  EXPECT_EQ(triton_literal(1e300 * 1e300, DType::F64), "tl.full([1, 1], float(\"inf\"), tl.float64)");
  EXPECT_EQ(triton_identity(ReduceOp::Max, DType::I32), "-2147483648");
  EXPECT_EQ(triton_identity(ReduceOp::Min, DType::I64), "9223372036854775807");
}

}  // namespace
}  // namespace toroid::codegen
