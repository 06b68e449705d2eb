// Products with int8 on the right, by each implementation that takes them, against sums in double precision or of integers.
#include <cmath>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/float16.h"
#include "base/format.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/implementations_for_test.h"

namespace toroid {
namespace {

struct Case {
  const char* name;
  int64_t m, n, k;
};
const Case kInt8Cases[] = {{"one element", 1, 1, 1},
                           {"one row", 1, 200, 70},
                           {"tails everywhere", 37, 75, 99},
                           {"a whole tile", 16, 16, 32},
                           {"deep", 5, 18, 2100},
                           {"several blocks", 150, 70, 41},
                           {"rows in registers", 11, 130, 600},
                           {"blocks of a deep one", 60, 34, 3100},
                           {"rows and panels", 97, 130, 64},
                           {"many rows", 173, 75, 70},
                           {"many rows of a deep one", 161, 34, 2100},
                           {"nothing to sum", 3, 5, 0},
                           {"nothing to sum in many rows", 170, 5, 0},
                           {"no rows", 0, 5, 7}};

// Numbers without a pattern that an error of places would keep.
class Numbers {
 public:
  uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }
  int8_t int8() { return static_cast<int8_t>(next() >> 24); }
  float number() { return (static_cast<float>(next() >> 8) / 8388608.0f - 1) * std::ldexp(1.0f, static_cast<int>(next() >> 29)); }

 private:
  uint32_t state_ = 7;
};

// A matrix of int8 whose columns or rows are contiguous, with a gap.
struct Right {
  std::vector<int8_t> data;
  std::vector<int64_t> sizes, strides;
  int at(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * strides[0] + j * strides[1])]; }
};
Right right_of(const Case& row, bool is_turned, Numbers& numbers) {
  Right right = {{}, {row.k, row.n}, is_turned ? std::vector<int64_t>{1, row.k + 3} : std::vector<int64_t>{row.n + 2, 1}};
  right.data.resize(static_cast<size_t>((row.k + 3) * (row.n + 3)));
  for (int8_t& x : right.data) x = numbers.int8();
  return right;
}

template <class F>
void for_each_case(F f) {
  for (const Case& row : kInt8Cases) {
    for (const bool is_turned : {false, true}) {
      SCOPED_TRACE(formatted("{}{}", row.name, is_turned ? ", turned" : ""));
      f(row, is_turned);
    }
  }
}

// Of a sum of so many terms of any sign, relative to the root of the sum of their squares, one after the other in float32: partial sums
// grow with the root of their terms, and each is rounded by up to 2^-24 of itself, evenly spread. Six standard deviations.
double error_of_sum(int64_t terms) { return 6 * 0x1p-24 * std::sqrt(static_cast<double>(terms) / 6); }

template <class T>
void expect_products_of_floats(DType dtype, DType result, double tolerance) {
  RuntimePool pool(2);
  Numbers numbers;
  for_each_case([&](const Case& row, bool is_turned) {
    std::vector<T> a;
    for (int64_t i = 0; i < row.m * row.k; ++i) a.push_back(T(numbers.number()));
    Right b = right_of(row, is_turned, numbers);
    const std::vector<int64_t> a_sizes = {row.m, row.k}, a_strides = {row.k, 1}, sizes = {row.m, row.n}, strides = {row.n, 1};
    std::vector<float> wide(static_cast<size_t>(row.m * row.n), std::nanf(""));
    std::vector<BFloat16> narrow(wide.size());
    const ToroidOperand inputs[] = {{a.data(), a_sizes.data(), a_strides.data(), 2, static_cast<int32_t>(dtype), 0},
                                    {b.data.data(), b.sizes.data(), b.strides.data(), 2, static_cast<int32_t>(DType::I8), 1}};
    void* to = result == DType::F32 ? static_cast<void*>(wide.data()) : narrow.data();
    const ToroidOperand output = {to, sizes.data(), strides.data(), 2, static_cast<int32_t>(result), 0};
    std::vector<double> sums, tolerances;
    for (int64_t i = 0; i < row.m; ++i) {
      for (int64_t j = 0; j < row.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < row.k; ++p) {
          const double term = static_cast<double>(static_cast<float>(a[static_cast<size_t>(i * row.k + p)])) * b.at(p, j);
          sum += term;
          size += term * term;
        }
        sums.push_back(sum);
        tolerances.push_back(std::max(tolerance, error_of_sum(row.k)) * std::max(std::fabs(sum), std::sqrt(size)) + 1e-30);
      }
    }
    PreparedConstants prepared;
    const KernelCall call = {pool, inputs, {&output, 1}, {}, {}, nullptr, &prepared};
    for_each_implementation("matmul.int8", call, [&](const Implementation& implementation) {
      for (int time = 0; time < 2; ++time) implementation.plan(call)->run(call);
      for (size_t i = 0; i < sums.size(); ++i) {
        const double actual = result == DType::F32 ? static_cast<double>(wide[i]) : static_cast<double>(static_cast<float>(narrow[i]));
        ASSERT_NEAR(actual, sums[i], tolerances[i]) << implementation.name << ", element " << i;
      }
    });
  });
}

TOROID_ON_MACHINES(Int8Matmul);

// The tolerance is that of sums in float32, also in tiles of bfloat16.
TEST_P(Int8Matmul, OfFloat32LosesNothing) { expect_products_of_floats<float>(DType::F32, DType::F32, 3e-6); }
TEST_P(Int8Matmul, OfBFloat16) {
  expect_products_of_floats<BFloat16>(DType::BF16, DType::BF16, 4e-3);
  expect_products_of_floats<BFloat16>(DType::BF16, DType::F32, 3e-6);
}
TEST_P(Int8Matmul, OfFloat16) { expect_products_of_floats<Float16>(DType::F16, DType::F32, 3e-6); }

template <class T>
void expect_exact_products(DType left) {
  RuntimePool pool(2);
  Numbers numbers;
  const T extreme = left == DType::U8 ? static_cast<T>(255) : static_cast<T>(-128);
  for_each_case([&](const Case& row, bool is_turned) {
    std::vector<T> a;
    for (int64_t i = 0; i < row.m * row.k; ++i) a.push_back(i % 3 == 0 ? extreme : static_cast<T>(numbers.int8()));
    Right b = right_of(row, is_turned, numbers);
    for (size_t i = 0; i < b.data.size(); i += 2) b.data[i] = -128;
    const std::vector<int64_t> a_sizes = {row.m, row.k}, a_strides = {row.k, 1}, sizes = {row.m, row.n}, strides = {row.n, 1};
    std::vector<int32_t> c(static_cast<size_t>(row.m * row.n), -7);
    const ToroidOperand inputs[] = {{a.data(), a_sizes.data(), a_strides.data(), 2, static_cast<int32_t>(left), 0},
                                    {b.data.data(), b.sizes.data(), b.strides.data(), 2, static_cast<int32_t>(DType::I8), 0}};
    const ToroidOperand output = {c.data(), sizes.data(), strides.data(), 2, static_cast<int32_t>(DType::I32), 0};
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < row.m; ++i) {
      for (int64_t j = 0; j < row.n; ++j) {
        int32_t sum = 0;
        for (int64_t p = 0; p < row.k; ++p) sum += a[static_cast<size_t>(i * row.k + p)] * b.at(p, j);
        expected.push_back(sum);
      }
    }
    const KernelCall call = {pool, inputs, {&output, 1}, {}, {}};
    ToroidOperand nowhere = output;
    nowhere.data = nullptr;
    const ToroidEpilogue stores = store_as(DType::I32, c.data(), row.n);
    const KernelCall to_epilogue = {pool, inputs, {&nowhere, 1}, {}, {}, &stores};
    for_each_implementation("matmul.i32", call, [&](const Implementation& implementation) {
      c.assign(c.size(), -7);
      implementation.plan(call)->run(call);
      EXPECT_EQ(c, expected) << implementation.name;

      c.assign(c.size(), -7);
      implementation.plan(to_epilogue)->run(to_epilogue);
      EXPECT_EQ(c, expected) << implementation.name << ", to an epilogue";
    });
  });
}
TEST_P(Int8Matmul, OfInt8IsExact) { expect_exact_products<int8_t>(DType::I8); }
TEST_P(Int8Matmul, OfUint8IsExact) { expect_exact_products<uint8_t>(DType::U8); }

TEST_P(Int8Matmul, FewRowsAreReadAsBytesAndManyAsFloats) {
  const MachineModel machine = model_of_this_machine(2);
  auto chosen = [&](std::string_view dtype, int64_t rows) {
    const std::string text = fmt::format("matmul.int8({0}[{1}, 768], constant i8[768, 768]) -> {0}[{1}, 768]", dtype, rows);
    return runtime_choices().cheapest_choice(parse_problem(text), machine).value();
  };
  auto unless_tiles = [](std::string_view name) { return has_amx() ? "tiles" : name; };
  EXPECT_EQ(chosen("f32", 1), "in-registers");
  EXPECT_EQ(chosen("f16", 4), "in-registers");
  for (const int64_t rows : {kMostRowsInRegisters + 1, int64_t{256}}) {
    // Where multiplying hides no reading, fewer bytes may be the quicker ones.
    const std::string name = chosen("f32", rows);
    EXPECT_TRUE(name == unless_tiles("kept") || (machine.hidden < 1 && name == unless_tiles("widened"))) << name;
  }
  EXPECT_EQ(chosen("f16", kMostRowsInRegisters + 1), unless_tiles("widened"));
  EXPECT_EQ(reading_of_int8("kept"), "kept as float32, in panels that are made once");
  const bool gains_by_pairs = bf16_dot_microkernels() != nullptr && machine.pairs > 1;
  EXPECT_EQ(chosen("bf16", 32), unless_tiles(gains_by_pairs ? "pairs" : "widened"));
}

// A float32's parts must not make NaN of what is infinite, nor lose what is large, tiny or not a number.
TEST_P(Int8Matmul, TakesEveryFloat32) {
  RuntimePool pool(1);
  const float kValues[] = {HUGE_VALF, -HUGE_VALF, 3.4028235e38f, 1.1754944e-38f, 1.00000012f, -0.333333343f, 16777215.0f};
  const int64_t m = std::size(kValues) + 1, k = 40, n = 17;
  std::vector<float> a(static_cast<size_t>(m * k), 0.0f), c(static_cast<size_t>(m * n));
  for (size_t i = 0; i < std::size(kValues); ++i) a[i * k + i] = kValues[i];
  a[(m - 1) * k + 39] = std::bit_cast<float>(0x7f800001u);  // a NaN that says so in its last bit alone
  std::vector<int8_t> b(static_cast<size_t>(k * n), 1);
  const std::vector<int64_t> a_sizes = {m, k}, a_strides = {k, 1}, b_sizes = {k, n}, b_strides = {n, 1}, sizes = {m, n};
  const ToroidOperand inputs[] = {{a.data(), a_sizes.data(), a_strides.data(), 2, static_cast<int32_t>(DType::F32), 0},
                                  {b.data(), b_sizes.data(), b_strides.data(), 2, static_cast<int32_t>(DType::I8), 0}};
  const ToroidOperand output = {c.data(), sizes.data(), b_strides.data(), 2, static_cast<int32_t>(DType::F32), 0};
  const KernelCall call = {pool, inputs, {&output, 1}, {}, {}};
  for_each_implementation("matmul.int8", call, [&](const Implementation& implementation) {
    SCOPED_TRACE(implementation.name);
    implementation.plan(call)->run(call);
    for (size_t i = 0; i < std::size(kValues); ++i) EXPECT_EQ(c[i * n], kValues[i]);
    for (int64_t j = 0; j < n; ++j) EXPECT_TRUE(std::isnan(c[static_cast<size_t>((m - 1) * n + j)]));
  });
}

}  // namespace
}  // namespace toroid
