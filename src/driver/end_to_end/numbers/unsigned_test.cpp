// Unsigned integers of 16, 32 and 64 bits: what numbers above the signed ones' do in comparisons, divisions, orders and conversions.
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

// Of one dtype; names end in its number of bits. "x" begins with the ends of the dtype, and numbers below 0 wrap to large ones.
constexpr std::string_view kSteps = R"(
  add@: u@[3, 37] = aten::add.Tensor(x@, d@)
  sub@: u@[3, 37] = aten::sub.Tensor(x@, d@)
  mul@: u@[3, 37] = aten::mul.Tensor(x@, d@)
  quotient@: u@[3, 37] = aten::floor_divide(x@, d@)
  rest@: u@[3, 37] = aten::remainder.Tensor(x@, d@)
  sevenths@: u@[3, 37] = aten::div.Scalar_mode(x@, 7, rounding_mode="trunc")
  less@: bool[3, 37] = aten::lt.Tensor(x@, d@)
  most@: u@[3, 37] = aten::maximum(x@, d@)
  least@: u@[3, 37] = aten::minimum(x@, d@)
  left@: u@[3, 37] = aten::bitwise_left_shift.Tensor(x@, p@)
  right@: u@[3, 37] = aten::bitwise_right_shift.Tensor(x@, p@)
  not@: u@[3, 37] = aten::bitwise_not(x@)
  power@: u@[3, 37] = aten::pow.Tensor_Scalar(x@, 3)
  signs@: u@[3, 37] = aten::sign(x@)
  chosen@: u@[3, 37] = aten::where.self(less@, x@, d@)
  single@: f32[3, 37] = aten::to.dtype(x@, dtype.f32)
  double@: f64[3, 37] = aten::to.dtype(x@, dtype.f64)
  half@: bf16[3, 37] = aten::to.dtype(x@, dtype.bf16)
  byte@: u8[3, 37] = aten::to.dtype(x@, dtype.u8)
  whole@: i64[3, 37] = aten::to.dtype(x@, dtype.i64)
  back@: u@[3, 37] = aten::to.dtype(k, dtype.u@)
  of_single@: u@[3, 37] = aten::to.dtype(f, dtype.u@)
  of_double@: u@[3, 37] = aten::to.dtype(g, dtype.u@)
  of_one@: u@[] = aten::to.dtype(h, dtype.u@)
  largest@: u@[3] = aten::amax(x@, [1])
  smallest@: u@[] = aten::amin(x@, [])
  place@: i64[3] = aten::argmax(x@, 1)
  total@: i64[3] = aten::sum.dim_IntList(x@, [1])
  sums@: u@[3, 37] = aten::cumsum(x@, 1, dtype=dtype.u@)
  sorted@: u@[3, 37], order@: i64[3, 37] = aten::sort(x@, 1)
  product@: u@[3, 3] = aten::matmul(x@, t@)
  filled@: u@[2] = aten::full([2], 65535, dtype=dtype.u@)
)";
constexpr std::string_view kResults[] = {"add",   "sub",   "mul",    "quotient",  "rest",      "sevenths", "less",    "most",     "least",
                                         "left",  "right", "not",    "power",     "signs",     "chosen",   "single",  "double",   "half",
                                         "byte",  "whole", "back",   "of_single", "of_double", "of_one",   "largest", "smallest", "place",
                                         "total", "sums",  "sorted", "order",     "product",   "filled"};

std::string program() {
  std::string inputs = "f: f32[3, 37], g: f64[3, 37], h: f32[], k: i64[3, 37]", steps, results;
  for (const std::string_view bits : {"16", "32", "64"}) {
    for (const std::string_view name : {"x", "d", "p"}) inputs += fmt::format(", {0}{1}: u{1}[3, 37]", name, bits);
    inputs += fmt::format(", t{0}: u{0}[37, 3]", bits);
    for (const char c : kSteps) c == '@' ? steps += bits : steps += c;
    for (const std::string_view name : kResults) results += fmt::format("{}{}{}", results.empty() ? "" : ", ", name, bits);
  }
  return fmt::format("graph({}) {{{}  return {}\n}}\n", inputs, steps, results);
}

TEST(Unsigned, IntegersAreTheEvaluators) { expect_as_evaluated(program()); }
TEST(Unsigned, IntegersAreTheEvaluatorsOnGpus) { expect_as_evaluated(program(), {{}}, 2, codegen::Target::EmulatedCuda); }

// A hash of positions, which has wrapped from the third on.
TEST(Integers, ProductsThatAreIndicesWrapToo) {
  expect_as_evaluated(R"(
sym s0 in [2, 1000000] hint 20
graph(x: f32[s0], table: f32[1000, 4]) {
  i: i64[s0] = aten::arange(s0)
  m: i64[s0] = aten::mul.Scalar(i, 6364136223846793005)
  h: i64[s0] = aten::remainder.Scalar(m, 1000)
  e: f32[s0, 4] = aten::embedding(table, h)
  g: bool[s0] = aten::lt.Scalar(m, 0)
  return h, e, g
})",
                      {{{"s0", 20}}});
}

// Above the signed numbers, written down; the tests above compare with the evaluator alone.
TEST(Unsigned, NumbersAboveTheSignedOnes) {
  const CompiledModel model = compiled(R"(
graph(x: u64[20], f: f64[20]) {
  y: u64[20] = aten::full_like(x, 3)
  third: u64[20] = aten::floor_divide(x, y)
  real: f32[20] = aten::to.dtype(x, dtype.f32)
  whole: u64[20] = aten::to.dtype(f, dtype.u64)
  large: bool[20] = aten::gt.Scalar(x, 5)
  most: u64[] = aten::amax(x, [])
  return third, real, whole, large, most
})");
  Executable executable = model.load();
  const HostTensor x = HostTensor::from_ints(DType::U64, {20}, std::vector<int64_t>(20, -16));  // 2^64 - 16
  const HostTensor f = HostTensor::from_doubles(DType::F64, {20}, std::vector<double>(20, 0x1.8p63));
  for (const auto& results : {executable.run(std::vector<HostTensor>{x, f}), evaluate(*model.program, std::vector<HostTensor>{x, f})}) {
    for (int64_t i : {int64_t{0}, int64_t{19}}) {
      EXPECT_EQ(static_cast<uint64_t>(results[0].int_at(i)), 6148914691236517200u);
      EXPECT_EQ(results[1].double_at(i), 0x1p64);
      EXPECT_EQ(static_cast<uint64_t>(results[2].int_at(i)), 0xC000000000000000u);
      EXPECT_TRUE(results[3].bool_at(i));
    }
    EXPECT_EQ(static_cast<uint64_t>(results[4].int_at(0)), 0xFFFFFFFFFFFFFFF0u);
  }
}

}  // namespace
}  // namespace toroid
