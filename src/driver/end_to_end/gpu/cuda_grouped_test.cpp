// Products by groups in one kernel for a GPU, compiled for this processor and compared with the evaluator.
#include "base/error_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

const ProgramCase kProducts[] = {
    // Groups of 0, 37 and 74 rows, and rows of no group behind them.
    {"rows_of_matrices", R"(
graph(x: bf16[340, 72], y: bf16[4, 72, 136], i: i64[4]) {
  s: i64[4] = aten::mul.Scalar(i, 37)
  e: i64[4] = aten::cumsum(s, 0)
  n: i32[4] = aten::to.dtype(e, dtype.i32)
  z: bf16[340, 136] = aten::_grouped_mm(x, y, n)
  return z
})"},
    {"rows_of_transposed_matrices_in_large_tiles", R"(
graph(x: f16[700, 136], y: f16[3, 50, 136], i: i64[3]) {
  s: i64[3] = aten::mul.Scalar(i, 113)
  e: i64[3] = aten::cumsum(s, 0)
  n: i32[3] = aten::to.dtype(e, dtype.i32)
  t: f16[3, 136, 50] = aten::transpose.int(y, 1, 2)
  z: f16[700, 50] = aten::_grouped_mm(x, t, n)
  r: f16[700, 50] = aten::relu(z)
  return r
})"},
    {"few_rows_of_many_matrices", R"(
graph(x: bf16[24, 64], y: bf16[40, 64, 64], i: i64[40]) {
  p: i64[40] = aten::clamp(i, 0, 1)
  e: i64[40] = aten::cumsum(p, 0)
  c: i64[40] = aten::clamp(e, 0, 24)
  n: i32[40] = aten::to.dtype(c, dtype.i32)
  z: bf16[24, 64] = aten::_grouped_mm(x, y, n)
  return z
})"},
    // Groups of 0, 37 and 74 of the depth, as gradients of matrices are summed.
    {"depth", R"(
graph(x: bf16[340, 72], g: bf16[340, 136], i: i64[4]) {
  s: i64[4] = aten::mul.Scalar(i, 37)
  e: i64[4] = aten::cumsum(s, 0)
  n: i32[4] = aten::to.dtype(e, dtype.i32)
  t: bf16[72, 340] = aten::t(x)
  z: bf16[4, 72, 136] = aten::_grouped_mm(t, g, n)
  return z
})"},
    {"any_number_of_rows",
     R"(
sym s0 in [1, 500]
graph(x: bf16[s0, 64], y: bf16[2, 64, 72], i: i64[2]) {
  e: i64[2] = aten::cumsum(i, 0)
  c: i64[2] = aten::clamp(e, 0, 1)
  n: i32[2] = aten::to.dtype(c, dtype.i32)
  z: bf16[s0, 72] = aten::_grouped_mm(x, y, n)
  return z
})",
     {{{"s0", 1}}, {{"s0", 65}}, {{"s0", 300}}}},
};

class GroupedProductOnGpu : public testing::TestWithParam<ProgramCase> {};

TEST_P(GroupedProductOnGpu, ComputesAsTheEvaluator) {
  expect_as_evaluated(GetParam().text, GetParam().calls, 2, codegen::Target::EmulatedCuda);
}

INSTANTIATE_TEST_SUITE_P(Programs, GroupedProductOnGpu, testing::ValuesIn(kProducts), [](const auto& each) { return each.param.name; });

TEST(GroupedProductsOnGpu, SayWhereGroupsLie) {
  const CompiledModel model = compiled(R"(
graph(x: bf16[70, 64], y: bf16[3, 64, 64], n: i32[3]) {
  z: bf16[70, 64] = aten::_grouped_mm(x, y, n)
  return z
})",
                                       codegen::Target::EmulatedCuda);
  Executable executable = model.load(1);
  const HostTensor x = HostTensor::from_doubles(DType::BF16, {70, 64}, std::vector<double>(70 * 64, 1.0));
  const HostTensor y = HostTensor::from_doubles(DType::BF16, {3, 64, 64}, std::vector<double>(3 * 64 * 64, 0.5));
  const auto run = [&](std::vector<int64_t> ends) {
    return executable.run(std::vector{x, y, HostTensor::from_ints(DType::I32, {3}, std::move(ends))});
  };
  EXPECT_EQ(run({1, 1, 70})[0].to_doubles()[69 * 64], 32.0);
  EXPECT_EQ(run({1, 1, 69})[0].to_doubles()[69 * 64], 0.0);
  EXPECT_EQ(error_of([&] { run({1, 1, 71}); }).message(), "an index read from a tensor is out of bounds: 71, where 0 to 70 are allowed");
  EXPECT_EQ(error_of([&] { run({5, 3, 70}); }).message(), "an index read from a tensor is out of bounds: -2, where 0 to 70 are allowed");
}

}  // namespace
}  // namespace toroid
