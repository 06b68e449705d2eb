// What of CUDA's run side needs no GPU. With one, the command's conformance is the test (docs/gpu.md).
#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/matmul.h"
#include "tensor/dtype.h"

namespace toroid::cuda {
namespace {

TEST(CudaDriver, WhereThereIsNoneTheErrorSaysSoAndWhatToDo) {
  if (!absence()) GTEST_SKIP() << "there is a GPU";
  const Error error = error_of([] { driver(); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), *absence());
  EXPECT_EQ(error.help_text(), "run with '--device cpu', or where a GPU and its driver are");
}

struct Shape {
  std::vector<int64_t> sizes, strides;
};

std::optional<Product> product_of(const Shape& a, const Shape& b, const Shape& out, DType dtype = DType::BF16, DType result = DType::BF16) {
  const auto operand = [](const Shape& shape, DType of) {
    return ToroidOperand{
        nullptr, shape.sizes.data(), shape.strides.data(), static_cast<int32_t>(shape.sizes.size()), static_cast<int32_t>(of), 0};
  };
  const ToroidOperand inputs[] = {operand(a, dtype), operand(b, dtype)}, outputs[] = {operand(out, result)};
  ToroidLibraryCall call{};
  call.name = "matmul";
  call.inputs = inputs;
  call.num_inputs = 2;
  call.outputs = outputs;
  call.num_outputs = 1;
  return as_product(call);
}

TEST(CudaImages, TheNearestArchitectureIsTaken) {
  const char family[] = "", later[] = "", exact[] = "", ptx[] = "", later_ptx[] = "";
  const ToroidGpuBinary binaries[] = {{family, 0, 80, TOROID_GPU_FAMILY, "", nullptr},
                                      {later, 0, 86, TOROID_GPU_FAMILY, "", nullptr},
                                      {exact, 0, 90, TOROID_GPU_EXACT, "", nullptr},
                                      {ptx, 0, 70, TOROID_GPU_PTX, "", nullptr},
                                      {later_ptx, 0, 80, TOROID_GPU_PTX, "", nullptr}};
  const ToroidGpuProgram program = {binaries, 5, 0, nullptr};
  EXPECT_EQ(images_for(program, 80), std::vector<const void*>{family});
  EXPECT_EQ(images_for(program, 89), std::vector<const void*>{later});
  EXPECT_EQ(images_for(program, 90), std::vector<const void*>{exact});
  EXPECT_EQ(images_for(program, 100), std::vector<const void*>{later_ptx});
  EXPECT_EQ(images_for(program, 75), std::vector<const void*>{ptx});
  EXPECT_EQ(error_of([&] { images_for(program, 61); }).message(),
            "the program's kernels are for compute_70, compute_80, sm_80, sm_86, sm_90a, and the GPU is sm_61");
}

TEST(CudaImages, KernelsOverlapWhereAllWereCompiledForHopper) {
  const char data[] = "";
  const ToroidGpuBinary binaries[] = {
      {data, 0, 80, TOROID_GPU_PTX, "", nullptr}, {data, 1, 80, TOROID_GPU_PTX, "", nullptr}, {data, 1, 90, TOROID_GPU_EXACT, "", nullptr}};
  EXPECT_FALSE(may_overlap({binaries, 3, 0, nullptr}, 90));
  EXPECT_FALSE(may_overlap({binaries, 3, 0, nullptr}, 80));
  const ToroidGpuBinary all[] = {binaries[0], {data, 0, 90, TOROID_GPU_EXACT, "", nullptr}, {data, 1, 90, TOROID_GPU_PTX, "", nullptr}};
  EXPECT_TRUE(may_overlap({all, 3, 0, nullptr}, 90));
  EXPECT_FALSE(may_overlap({all, 3, 0, nullptr}, 100));
}

TEST(CudaProduct, AMatrixIsTakenByRowsOrByColumns) {
  const auto product = product_of({{8, 64}, {64, 1}}, {{64, 48}, {1, 64}}, {{8, 48}, {48, 1}});
  ASSERT_TRUE(product);
  EXPECT_EQ(product->rows, 8);
  EXPECT_EQ(product->columns, 48);
  EXPECT_EQ(product->depth, 64);
  EXPECT_EQ(product->a, (Product::Side{false, 64, 0}));
  EXPECT_EQ(product->b, (Product::Side{true, 64, 0}));
  EXPECT_EQ(product->out_leading, 48);
}

TEST(CudaProduct, BatchesWithOneStrideAreOneDim) {
  // Heads of one tensor [B, L, H, E], seen as [B, H, L, E]: no single stride.
  const Shape out = {{2, 3, 5, 7}, {105, 35, 7, 1}};
  EXPECT_FALSE(product_of({{2, 3, 5, 4}, {60, 4, 12, 1}}, {{2, 3, 4, 7}, {84, 28, 7, 1}}, out));
  const auto product = product_of({{2, 3, 5, 4}, {60, 20, 4, 1}}, {{2, 3, 4, 7}, {0, 0, 7, 1}}, out);
  ASSERT_TRUE(product);
  EXPECT_EQ(product->batches, 6);
  EXPECT_EQ(product->a.batch_stride, 20);
  EXPECT_EQ(product->b.batch_stride, 0);
  EXPECT_EQ(product->out_batch_stride, 35);
}

TEST(CudaProduct, BytesGiveIntegers) {
  const auto product = product_of({{32, 64}, {64, 1}}, {{64, 48}, {1, 64}}, {{32, 48}, {48, 1}}, DType::I8, DType::I32);
  ASSERT_TRUE(product);
  EXPECT_EQ(product->dtype, static_cast<int32_t>(DType::I32));
  EXPECT_EQ(product->factors, static_cast<int32_t>(DType::I8));
}

TEST(CudaProduct, OtherIntegersAndStridesOfNoMatrixAreLeftToOthers) {
  EXPECT_FALSE(product_of({{4, 4}, {4, 1}}, {{4, 4}, {4, 1}}, {{4, 4}, {4, 1}}, DType::I32, DType::I32));
  EXPECT_FALSE(product_of({{4, 4}, {4, 1}}, {{4, 4}, {4, 1}}, {{4, 4}, {4, 1}}, DType::I8, DType::I8));
  EXPECT_FALSE(product_of({{4, 4}, {8, 2}}, {{4, 4}, {4, 1}}, {{4, 4}, {4, 1}}));
}

}  // namespace
}  // namespace toroid::cuda
