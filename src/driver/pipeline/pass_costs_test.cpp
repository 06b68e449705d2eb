#include "driver/pipeline/pass_costs.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "schedule/scheduled_for_test.h"

namespace toroid {
namespace {

double product_s(int64_t m, int64_t n, int64_t k, DType dtype = DType::F32) {
  return pass_costs().product_s({.dtype = dtype, .m = m, .n = n, .k = k, .by_columns = true});
}

TEST(PassCosts, AreThoseOfTheRuntime) {
  EXPECT_GT(product_s(32, 64, 64), 0);
  EXPECT_LT(product_s(32, 192, 64), 3 * product_s(32, 64, 64));
  EXPECT_GT(product_s(512, 768, 768), 100 * product_s(32, 64, 64));
  EXPECT_GT(product_s(32, 64, 64, DType::BF16), 0);
  EXPECT_EQ(product_s(32, 64, 64, DType::I64), 0);  // which no family estimates
}

double gpu_product_s(int64_t m, int64_t n, int64_t k, DType dtype = DType::BF16) {
  return gpu_pass_costs().product_s({.dtype = dtype, .m = m, .n = n, .k = k, .by_columns = true});
}

// What joining saves is a start, and multiprocessors without a tile in the last round; of large products neither counts.
TEST(PassCosts, OfAGpuAreItsTiles) {
  EXPECT_LT(gpu_product_s(8, 3 * 1024, 1024), 0.7 * 3 * gpu_product_s(8, 1024, 1024));
  EXPECT_LT(gpu_product_s(256, 3 * 768, 768), 0.6 * 3 * gpu_product_s(256, 768, 768));
  EXPECT_GT(gpu_product_s(32768, 3 * 4096, 4096), 0.95 * 3 * gpu_product_s(32768, 4096, 4096));
  EXPECT_GT(gpu_product_s(4096, 4096, 4096, DType::F32), 8 * gpu_product_s(4096, 4096, 4096));
}

std::string constant_matrix(int number, int64_t rows, int64_t columns) {
  std::string values;
  for (int64_t i = 0; i < rows * columns; ++i) values += fmt::format("{}{}", i == 0 ? "" : ", ", static_cast<double>(i % 13) * 0.1 - 0.6);
  return columns == 1 ? fmt::format("constant {} \"b{}\": f32[{}] = [{}]\n", number, number, rows, values)
                      : fmt::format("constant {} \"w{}\": f32[{}, {}] = [{}]\n", number, number, rows, columns, values);
}

// Self-attention of four heads.
std::string attention() {
  std::string text;
  for (int i = 0; i < 6; ++i) text += constant_matrix(i, 16, i < 3 ? 16 : 1);
  return text + R"(graph(x: f32[2, 5, 16]) {
  w0: f32[16, 16] = constant(0)
  w1: f32[16, 16] = constant(1)
  w2: f32[16, 16] = constant(2)
  b0: f32[16] = constant(3)
  b1: f32[16] = constant(4)
  b2: f32[16] = constant(5)
  q: f32[2, 5, 16] = aten::linear(x, w0, b0)
  k: f32[2, 5, 16] = aten::linear(x, w1, b1)
  v: f32[2, 5, 16] = aten::linear(x, w2, b2)
  q1: f32[2, 5, 4, 4] = aten::view(q, [2, 5, 4, 4])
  k1: f32[2, 5, 4, 4] = aten::view(k, [2, 5, 4, 4])
  v1: f32[2, 5, 4, 4] = aten::view(v, [2, 5, 4, 4])
  q2: f32[2, 4, 5, 4] = aten::transpose.int(q1, 1, 2)
  k2: f32[2, 4, 5, 4] = aten::transpose.int(k1, 1, 2)
  v2: f32[2, 4, 5, 4] = aten::transpose.int(v1, 1, 2)
  a: f32[2, 4, 5, 4] = aten::scaled_dot_product_attention(q2, k2, v2)
  y: f32[2, 5, 4, 4] = aten::transpose.int(a, 1, 2)
  return y
})";
}

TEST(PassCosts, AttentionReadsItsQueriesKeysAndValuesWhereOneProductWritesThem) {
  Program program = parse_text(attention());
  run_passes(program, {.costs = pass_costs()});
  std::vector<LoweredGraph> lowered = lower(program);
  const schedule::Schedule schedule = schedule::make_schedule(std::move(lowered[0].loops));
  EXPECT_EQ(schedule::kinds_of_steps(schedule), "call+kernel call");
}

TEST(PassCosts, AMergedProductComputesTheSame) {
  std::vector<double> values(160);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 19) * 0.1 - 0.9;
  const HostTensor x = HostTensor::from_doubles(DType::F32, {2, 5, 16}, values);
  auto run = [&](const CompileModelOptions& options) {
    CompileSession session(false);
    const CompiledModel model = session.compile(parse_text(attention()), options);
    return model.load(1).run({&x, 1})[0].to_doubles();
  };
  const std::vector<double> merged = run({}), apart = run({.without_passes = {"merge-products"}});
  ASSERT_EQ(merged.size(), apart.size());
  for (size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], apart[i], 1e-5) << "element " << i;
}

}  // namespace
}  // namespace toroid
