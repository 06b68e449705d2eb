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
    {"sum_of_columns", R"(
graph(x: f32[1000, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0])
  return y
})"},
    {"embedding_of_free_length", R"(
sym s0 in [1, 4096]
graph(w: f32[1000, 64], ids: i64[s0]) {
  y: f32[s0, 64] = aten::embedding(w, ids)
  return y
})"},
    {"index_add_of_rows", R"(
graph(x: f32[100, 256], rows: i64[64], y: f32[64, 256]) {
  z: f32[100, 256] = aten::index_add(x, 0, rows, y)
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

}  // namespace
}  // namespace toroid::codegen
