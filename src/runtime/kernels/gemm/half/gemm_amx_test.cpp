// Products in tiles, and the forms of 16-bit products beside each other. Small integers make all sums exact.
#include "runtime/kernels/gemm/half/gemm_amx.h"

#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "base/format.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/implementations_for_test.h"

namespace toroid {
namespace {

struct ProductCase {
  const char* name;
  int64_t m, n, k;
};

// Around the sizes of tiles (16 rows and columns, 32 or 64 of the depth), of parts of the depth, panels and blocks.
const ProductCase kProducts[] = {
    {"one element", 1, 1, 1},
    {"one tile", 16, 16, 32},
    {"less than a tile", 15, 13, 31},
    {"one row", 1, 70, 65},
    {"two rows of tiles, three of columns", 31, 47, 64},
    {"odd depth", 33, 65, 97},
    {"deep", 18, 20, 1030},
    {"several blocks of rows", 300, 65, 40},
    {"narrow rows, the last of a tile of its own", 49, 20, 5},
    {"several panels", 17, 300, 34},
    {"several blocks of rows of whole steps", 290, 33, 128},
    {"deep, with a step that is not whole", 35, 70, 1100},
    {"nothing to sum", 5, 18, 0},
    {"no rows", 0, 4, 6},
};

struct HalfLayout {
  const char* name;
  bool is_turned;  // columns contiguous
  int64_t gap;     // elements after each row or column
};
const HalfLayout kLayouts[] = {{"rows", false, 0},
                               {"rows with gaps", false, 3},
                               {"rows far apart", false, 4500},
                               {"columns", true, 0},
                               {"columns with gaps", true, 5}};

std::vector<int64_t> strides_of_layout(const HalfLayout& layout, int64_t rows, int64_t columns) {
  if (layout.is_turned) return {1, rows + layout.gap};
  return {columns + layout.gap, 1};
}

constexpr int kPeriod = 15;
int integer_at(int64_t i) { return static_cast<int>(i * 7 % kPeriod) - 7; }

template <class Element>
std::vector<Element> small_half_integers(int64_t count) {
  std::vector<Element> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(Element(static_cast<float>(integer_at(i))));
  return result;
}

int64_t extent(const HalfLayout& layout, int64_t rows, int64_t columns) {
  return layout.is_turned ? (rows + layout.gap) * columns + 1 : (columns + layout.gap) * rows + 1;
}

// Calls f for each case and layouts of both sides.
template <class F>
void for_each_product(F f) {
  for (const ProductCase& row : kProducts) {
    for (const HalfLayout& a : kLayouts) {
      for (const HalfLayout& b : kLayouts) {
        SCOPED_TRACE(formatted("{}, {} times {}", row.name, a.name, b.name));
        f(row, a, b);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// sum[i, j], by the places that small_half_integers has.
int64_t expected_at(const ProductCase& row, const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t i, int64_t j) {
  const std::array<int, kPeriod> integers = [] {
    std::array<int, kPeriod> values;
    for (int at = 0; at < kPeriod; ++at) values[static_cast<size_t>(at)] = integer_at(at);
    return values;
  }();
  const auto advance = [](int64_t& at, int64_t step) { at = at + step < kPeriod ? at + step : at + step - kPeriod; };
  const int64_t a_step = a[1] % kPeriod, b_step = b[0] % kPeriod;
  int64_t sum = 0, a_at = i * a[0] % kPeriod, b_at = j * b[1] % kPeriod;
  for (int64_t p = 0; p < row.k; ++p, advance(a_at, a_step), advance(b_at, b_step)) {
    sum += integers[static_cast<size_t>(a_at)] * integers[static_cast<size_t>(b_at)];
  }
  return sum;
}

TOROID_ON_MACHINES_WITH_TILES(TileProduct);

TEST_P(TileProduct, OfInt8IsExact) {
  RuntimePool pool(2);
  for_each_product([&](const ProductCase& row, const HalfLayout& a_layout, const HalfLayout& b_layout) {
    const std::vector<int64_t> a_strides = strides_of_layout(a_layout, row.m, row.k), b_strides = strides_of_layout(b_layout, row.k, row.n);
    const auto a = small_half_integers<int8_t>(extent(a_layout, row.m, row.k)),
               b = small_half_integers<int8_t>(extent(b_layout, row.k, row.n));
    std::vector<std::byte> packed(static_cast<size_t>(packed_tiles_bytes(AmxType::Int8, row.k, row.n)) + 1);
    pack_right_tiles(AmxType::Int8, pool, {b.data(), b_strides[0], b_strides[1]}, row.k, row.n, packed.data());
    struct Result {
      int64_t n;
      std::vector<int64_t> sums;
    } result{row.n, std::vector<int64_t>(static_cast<size_t>(row.m * row.n), -1000000)};
    const ToroidEpilogue epilogue = {nullptr,
                                     [](void* argument, void* /*out*/, const float* block, int64_t row_stride, int64_t first_row,
                                        int64_t last_row, int64_t first_column, int64_t last_column) {
                                       auto& to = *static_cast<Result*>(argument);
                                       const auto* sums = reinterpret_cast<const int32_t*>(block);
                                       for (int64_t i = first_row; i < last_row; ++i) {
                                         for (int64_t j = first_column; j < last_column; ++j) {
                                           to.sums[static_cast<size_t>(i * to.n + j)] =
                                               sums[(i - first_row) * row_stride + j - first_column];
                                         }
                                       }
                                     },
                                     &result,
                                     {}};
    multiply_in_tiles(AmxType::Int8, pool, row.m, row.n, row.k, {a.data(), a_strides[0], a_strides[1]}, packed.data(),
                      {nullptr, row.n, &epilogue});
    for (int64_t i = 0; i < row.m; ++i) {
      for (int64_t j = 0; j < row.n; ++j) {
        ASSERT_EQ(result.sums[static_cast<size_t>(i * row.n + j)], expected_at(row, a_strides, b_strides, i, j)) << i << ", " << j;
      }
    }
  });
}

// Calls f(name, product) for each implementation of a kernel call, sums rounded to BF16.
template <class F>
void for_each_result(RuntimePool& pool, std::vector<BFloat16>& a, const std::vector<int64_t>& a_sizes,
                     const std::vector<int64_t>& a_strides, std::vector<BFloat16>& b, const std::vector<int64_t>& b_sizes,
                     const std::vector<int64_t>& b_strides, const F& f) {
  const std::vector<int64_t> sizes = {a_sizes[0], b_sizes[1]}, strides = {b_sizes[1], 1};
  std::vector<BFloat16> c(static_cast<size_t>(sizes[0] * sizes[1]), BFloat16(-1e9f));
  const auto dtype = static_cast<int32_t>(DType::BF16);
  const ToroidOperand inputs[] = {{a.data(), a_sizes.data(), a_strides.data(), 2, dtype, 0},
                                  {b.data(), b_sizes.data(), b_strides.data(), 2, dtype, 0}};
  const ToroidOperand output = {c.data(), sizes.data(), strides.data(), 2, dtype, 0};
  const KernelCall call = {pool, inputs, {&output, 1}, {}, {}};
  for_each_implementation("matmul.bf16", call, [&](const Implementation& implementation) {
    c.assign(c.size(), BFloat16(-1e9f));
    implementation.plan(call)->run(call);
    f(implementation.name, std::vector<float>(c.begin(), c.end()));
  });
}

TOROID_ON_MACHINES(ReducedProduct);

TEST_P(ReducedProduct, OfBFloat16InEveryFormIsExact) {
  RuntimePool pool(2);
  for_each_product([&](const ProductCase& row, const HalfLayout& a_layout, const HalfLayout& b_layout) {
    const std::vector<int64_t> a_strides = strides_of_layout(a_layout, row.m, row.k), b_strides = strides_of_layout(b_layout, row.k, row.n);
    auto a = small_half_integers<BFloat16>(extent(a_layout, row.m, row.k)),
         b = small_half_integers<BFloat16>(extent(b_layout, row.k, row.n));
    const auto check = [&](std::string_view name, const std::vector<float>& c) {
      for (int64_t i = 0; i < row.m; ++i) {
        for (int64_t j = 0; j < row.n; ++j) {
          const auto expected = static_cast<float>(BFloat16(static_cast<float>(expected_at(row, a_strides, b_strides, i, j))));
          ASSERT_EQ(c[static_cast<size_t>(i * row.n + j)], expected) << name << " at " << i << ", " << j;
        }
      }
    };
    for_each_result(pool, a, {row.m, row.k}, a_strides, b, {row.k, row.n}, b_strides, check);
  });
}

// What is beyond a row's end, or in the padding of a tile, must not reach it.
TEST_P(ReducedProduct, NanAndInfinityReachOnlyTheirRowsAndColumns) {
  RuntimePool pool(1);
  const int64_t m = 37, n = 35, k = 45;
  std::vector<BFloat16> a(static_cast<size_t>(m * k), BFloat16(1.0f)), b(static_cast<size_t>(k * n), BFloat16(1.0f));
  a[5 * k + 44] = BFloat16(std::nanf(""));
  a[20 * k] = BFloat16(HUGE_VALF);
  b[44 * n + 33] = BFloat16(-HUGE_VALF);
  for_each_result(pool, a, {m, k}, {k, 1}, b, {k, n}, {n, 1}, [&](std::string_view name, const std::vector<float>& c) {
    SCOPED_TRACE(name);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float value = c[static_cast<size_t>(i * n + j)];
        const bool is_nan = i == 5 || (i == 20 && j == 33);
        EXPECT_EQ(std::isnan(value), is_nan) << i << ", " << j;
        const float sum = i == 20 ? HUGE_VALF : j == 33 ? -HUGE_VALF : 45.0f;
        EXPECT_TRUE(is_nan || value == sum) << value << " at " << i << ", " << j;
      }
    }
  });
}

// Few rows meet the right side where it lies, more of them meet it packed.
TEST_P(ReducedProduct, RowsDoNotDependOnThoseBesideThem) {
  RuntimePool pool(1);
  const int64_t most = 31, n = 133, k = 1100;
  std::vector<BFloat16> a = small_half_integers<BFloat16>(most * k), b = small_half_integers<BFloat16>(k * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = BFloat16(static_cast<float>(a[i]) / 3 + static_cast<float>(i % 11));
  std::map<std::string_view, std::vector<float>> together;
  for_each_result(pool, a, {most, k}, {k, 1}, b, {k, n}, {n, 1},
                  [&](std::string_view name, const std::vector<float>& c) { together[name] = c; });
  for (const int64_t m : {1, 4, 7, 24, 25}) {
    for_each_result(pool, a, {m, k}, {k, 1}, b, {k, n}, {n, 1}, [&](std::string_view name, const std::vector<float>& c) {
      EXPECT_TRUE(std::equal(c.begin(), c.end(), together.at(name).begin())) << name << ", " << m << " rows";
    });
  }
}

TOROID_ON_MACHINES(TileProductChoice);

TEST_P(TileProductChoice, IsAChoiceWhereTheMachineHasIt) {
  const Problem problem = parse_problem("matmul.bf16(bf16[5, 40], constant bf16[40, 24]/[1, 40]) -> bf16[5, 24]; epilogue");
  const std::vector<Choice> choices = runtime_choices().list_choices(problem, model_of_this_machine(1));
  ASSERT_GE(choices.size(), 3u);
  EXPECT_EQ(choices[0].gate, std::nullopt);
  EXPECT_EQ(!choices[1].gate, bf16_dot_microkernels() != nullptr);
  EXPECT_EQ(choices[2].name, "tiles");
  EXPECT_EQ(!choices[2].gate, has_amx());
  EXPECT_EQ(choices[2].gate.value_or("the machine has no AMX, or does not let this process use it"),
            "the machine has no AMX, or does not let this process use it");
}

}  // namespace
}  // namespace toroid
