// CUDA kernels as goldens. What they compute: driver/end_to_end/cuda_test.cpp.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/generated_for_test.h"
#include "program/text.h"
#include "support/golden_for_test.h"

namespace toroid::codegen {
namespace {

struct CudaKernelCase {
  std::string name, program;
};
void PrintTo(const CudaKernelCase& row, std::ostream* out) { *out << row.name; }

const CudaKernelCase kCudaKernels[] = {
    {"add_of_vectors", R"(
graph(x: bf16[512, 1024], b: bf16[1024]) {
  y: bf16[512, 1024] = aten::add.Tensor(x, b)
  return y
})"},
    {"transpose_and_add", R"(
graph(x: bf16[256, 512], y: bf16[512, 256]) {
  t: bf16[512, 256] = aten::permute(x, [1, 0])
  z: bf16[512, 256] = aten::add.Tensor(t, y)
  return z
})"},
    {"softmax", R"(
graph(x: bf16[64, 4096]) {
  y: bf16[64, 4096] = aten::softmax.int(x, -1)
  return y
})"},
    // Rows are kept in shared memory.
    {"cross_entropy", R"(
graph(x: bf16[512, 32000], t: i64[512]) {
  z: f32[512, 32000] = aten::to.dtype(x, dtype.f32)
  y: f32[] = aten::cross_entropy_loss(z, t)
  return y
})"},
    {"sum_of_columns", R"(
graph(x: f32[1000, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0])
  return y
})"},
    {"depthwise_convolution", R"(
graph(x: bf16[64, 256, 56, 56], w: bf16[256, 1, 3, 3], b: bf16[256]) {
  y: bf16[64, 256, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1], [1, 1], 256)
  z: bf16[64, 256, 56, 56] = aten::relu(y)
  s: bf16[64, 256] = aten::sum.dim_IntList(z, [2, 3])
  return s
})"},
    {"convolution_of_groups", R"(
graph(x: bf16[64, 64, 56, 56], w: bf16[128, 2, 3, 3], b: bf16[128]) {
  y: bf16[64, 128, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1], [1, 1], 32)
  z: bf16[64, 128, 56, 56] = aten::relu(y)
  s: bf16[64, 128] = aten::sum.dim_IntList(z, [2, 3])
  return s
})"},
    {"convolution_of_narrow_groups", R"(
graph(x: bf16[64, 64, 56, 56], w: bf16[128, 8, 3, 3], b: bf16[128]) {
  y: bf16[64, 128, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1], [1, 1], 8)
  z: bf16[64, 128, 56, 56] = aten::relu(y)
  s: bf16[64, 128] = aten::sum.dim_IntList(z, [2, 3])
  return s
})"},
    {"convolution_and_residual", R"(
graph(x: bf16[64, 64, 56, 56], w: bf16[64, 64, 3, 3], b: bf16[64]) {
  y: bf16[64, 64, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  z: bf16[64, 64, 56, 56] = aten::relu(y)
  p: bf16[64, 64, 56, 56] = aten::conv2d(z, w, none, [1, 1], [1, 1])
  q: bf16[64, 64, 56, 56] = aten::add.Tensor(p, z)
  r: bf16[64, 64, 54, 54] = aten::conv2d(q, w)
  return r
})"},
    {"embedding_of_free_length", R"(
sym s0 in [1, 4096]
graph(w: f32[1000, 64], ids: i64[s0]) {
  y: f32[s0, 64] = aten::embedding(w, ids)
  return y
})"},
    {"attention", R"(
sym s0 in [1, 4096]
graph(q: bf16[8, 32, s0, 128], k: bf16[8, 8, s0, 128], v: bf16[8, 8, s0, 128], m: bf16[8, 1, s0, s0]) {
  y: bf16[8, 32, s0, 128] = aten::scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
  z: bf16[8, 32, s0, 128] = aten::scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True)
  return y, z
})"},
    // The table of the tiles of which scores count comes before.
    {"attention_of_scores", R"(
sym s0 in [1, 4096]
graph(q: bf16[8, 4, s0, 128], k: bf16[8, 2, s0, 128], v: bf16[8, 2, s0, 128], d: i64[8, s0]) {
  p: f32[8, 4, s0, s0] = library.attention.product(q, k)
  t: f32[8, 4, s0, s0] = tanh(p)
  r: i64[8, 1, s0, 1] = reshape(d)
  of_row: i64[8, 4, s0, s0] = expand(r)
  c: i64[8, 1, 1, s0] = reshape(d)
  of_column: i64[8, 4, s0, s0] = expand(c)
  same: bool[8, 4, s0, s0] = eq(of_row, of_column)
  i: i64[8, 4, s0, s0] = iota(dim=2)
  j: i64[8, 4, s0, s0] = iota(dim=3)
  n: i64[8, 4, s0, s0] = sub(i, j)
  f: f32[8, 4, s0, s0] = cast(n)
  a: f32[8, 4, s0, s0] = add(t, f)
  h: f32[8, 4, s0, s0] = full(value=-inf)
  s: f32[8, 4, s0, s0] = where(same, a, h)
  y: bf16[8, 4, s0, 128] = library.attention.of_scores(q, k, v, s, attributes=[false])
  return y
})"},
    {"index_add_of_rows", R"(
graph(x: f32[100, 256], rows: i64[64], y: f32[64, 256]) {
  z: f32[100, 256] = aten::index_add(x, 0, rows, y)
  return z
})"},
    // Two of three kernels have one text.
    {"kernels_started_together", R"(
graph(x: f32[100, 64], rows: i64[20], y: f32[20, 64], p: bf16[50, 70], q: bf16[50, 70]) {
  z: f32[100, 64] = aten::index_copy(x, 0, rows, y)
  a: bf16[50, 70] = aten::relu(p)
  b: bf16[50, 70] = aten::relu(q)
  return z, a, b
})"},
    {"linear_and_gelu", R"(
graph(x: bf16[512, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[512, 768] = aten::linear(x, w, b)
  z: bf16[512, 768] = aten::gelu(y)
  return z
})"},
    {"products_of_heads", R"(
graph(q: bf16[2, 40, 3, 32], k: bf16[2, 48, 3, 32], m: bf16[40, 48]) {
  a: bf16[2, 3, 40, 32] = aten::permute(q, [0, 2, 1, 3])
  b: bf16[2, 3, 32, 48] = aten::permute(k, [0, 2, 3, 1])
  s: bf16[2, 3, 40, 48] = aten::matmul(a, b)
  t: bf16[2, 3, 40, 48] = aten::add.Tensor(s, m)
  return t
})"},
    // A norm, then two products, of which the first has its weights on the way while the norm ends.
    {"kernels_that_overlap", R"(
constant 0 "w": bf16[2048, 2048] = external
graph(x: bf16[1, 2048], u: bf16[512, 2048]) {
  w: bf16[2048, 2048] = constant(0)
  n: bf16[1, 2048] = aten::softmax.int(x, 1)
  y: bf16[1, 2048] = aten::linear(n, w)
  z: bf16[1, 512] = aten::linear(y, u)
  return z, n
})"},
    // Each block makes the softmax.
    {"product_with_a_prologue", R"(
graph(x: bf16[1, 2048], w: bf16[2048, 2048]) {
  n: bf16[1, 2048] = aten::softmax.int(x, 1)
  y: bf16[1, 2048] = aten::linear(n, w)
  return y
})"},
    // Blocks make their queries, and one of them the row that the cache gets.
    {"attention_that_writes_its_cache", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  q: bf16[1, 8, 1, 64] = aten::mul.Tensor(x, 4.0)
  m: bf16[1, 2, 1, 64] = aten::mul.Tensor(n, 8.0)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, m)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, l -> buffer "keys", w -> buffer "values"
})"},
    {"batched_matmul_of_free_rows", R"(
sym s0 in [1, 4096]
graph(x: f16[8, s0, 64], y: f16[8, 100, 64]) {
  t: f16[8, 64, 100] = aten::permute(y, [0, 2, 1])
  z: f16[8, s0, 100] = aten::bmm(x, t)
  return z
})"},
};

class CudaKernels : public testing::TestWithParam<CudaKernelCase> {};
TEST_P(CudaKernels, AreTheGoldens) {
  std::string text;
  for (const GeneratedKernel& kernel : generated(GetParam().program, {.device = program::Device::Cuda}).kernels) text += kernel.text;
  expect_golden(fmt::format("codegen/testdata/{}.cu.golden", GetParam().name), text);
}
INSTANTIATE_TEST_SUITE_P(Rows, CudaKernels, testing::ValuesIn(kCudaKernels), [](const auto& row) { return row.param.name; });

TEST(CudaUnits, StandBesideTheWrapper) {
  const GeneratedProgram code =
      generated("graph(x: f32[8]) {\n  y: f32[8] = aten::relu(x)\n  return y\n}", {.device = program::Device::Cuda});
  ASSERT_EQ(code.gpu_units.size(), 1u);
  EXPECT_NE(code.gpu_units[0].find("KERNEL __launch_bounds__(256) relu_kernel("), std::string::npos);
  ASSERT_EQ(code.units.size(), 1u);
  EXPECT_NE(code.units[0].find("launch(runtime, \"relu_kernel\", 1, 256, passed, 0)"), std::string::npos);
  EXPECT_EQ(code.units[0].find("KERNEL"), std::string::npos);
}

// Those of calls too, whose text begins with their operator, as it is saved.
TEST(CudaUnits, KernelsNameTheirOperators) {
  const GeneratedProgram code = generated(R"(
graph(q: bf16[2, 4, 30, 64], k: bf16[2, 4, 50, 64], x: f32[4, 3000]) {
  y: bf16[2, 4, 30, 64] = aten::scaled_dot_product_attention(q, k, k)
  s: f32[4, 3000], i: i64[4, 3000] = aten::sort(x)
  return y, s, i
})",
                                          {.device = program::Device::Cuda});
  EXPECT_GE(code.kernels.size(), 2u);
  for (const GeneratedKernel& kernel : code.kernels) {
    EXPECT_TRUE(kernel.text.starts_with(fmt::format("// {}: ", kernel.name))) << kernel.text.substr(0, 200);
    EXPECT_FALSE(kernel.text.starts_with(fmt::format("// {}: \n", kernel.name))) << kernel.text.substr(0, 200);
  }
}

// NVRTC takes signed numbers that overflow for ones that do not: the absolute value of the least one for no negative number, so that its
// remainder is that of an unsigned division.
TEST(CudaUnits, IntegersWrapAsUnsignedOnes) {
  const GeneratedProgram code = generated("graph(x: i32[8]) {\n  n: i32[8] = aten::neg(x)\n  y: i32[8] = aten::abs(n)\n  return y\n}",
                                          {.device = program::Device::Cuda});
  const std::string& unit = code.gpu_units.at(0);
  EXPECT_NE(unit.find("int32_t(0 - uint64_t(x_v1))"), std::string::npos) << unit;
  EXPECT_NE(unit.find("T op_abs(T x) { return x < 0 ? negated(x) : x; }"), std::string::npos) << unit;
}

// Two heads of queries share one of keys; the sizes and strides are those of batch, head, row and column.
TEST(CudaAttention, IsLaunchedWithItsShapeAndOnHopperWithTensorMaps) {
  const std::string wrapper = generated(R"(
graph(q: bf16[2, 4, 300, 64], k: bf16[2, 2, 500, 64], v: bf16[2, 2, 500, 64]) {
  y: bf16[2, 4, 300, 64] = aten::scaled_dot_product_attention(q, k, v, enable_gqa=True)
  return y
})",
                                        {.device = program::Device::Cuda})
                                  .units[0];
  const auto has = [&](std::string_view text) { return wrapper.find(text) != std::string::npos; };
  EXPECT_TRUE(
      has("const int64_t sizes[] = {2, 4, 2, 300, 500, 76800, 19200, 64, 1, 64000, 32000, 64, 1, 64000, 32000, 64, 1, 0, 0, 0, 0, "
          "76800, 19200, 64, 1};"))
      << wrapper;
  EXPECT_TRUE(has("{t_k, 7, {64, 500, 2, 2}, {1, 64, 32000, 64000}, {64, 128, 1, 1}}")) << wrapper;
  EXPECT_TRUE(has("launch(runtime, \"attention_kernel\", 24, 384, passed, 0, 99584, 1, maps, 3)")) << wrapper;
}

}  // namespace
}  // namespace toroid::codegen
