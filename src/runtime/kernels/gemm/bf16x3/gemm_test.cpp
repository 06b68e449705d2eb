// Products in tiles of BF16 parts beside those in vectors of F32.
#include "runtime/kernels/gemm/bf16x3/gemm.h"

#include <array>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "base/format.h"
#include "runtime/kernels/gemm/bf16x3/gemm_dynamic_b.h"
#include "runtime/kernels/gemm/bf16x3/gemm_grid.h"
#include "runtime/kernels/gemm/gemm_for_test.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/sums_for_test.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

uint32_t next(uint32_t& seed) { return seed = seed * 1664525u + 1013904223u; }

// Of all bits of a significand, magnitudes from 2^-10 to 2^10, both signs.
std::vector<float> wide_numbers(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& value : result) {
    const float significand = 1 + static_cast<float>(next(seed) >> 8) * 0x1p-24f;
    const int exponent = static_cast<int>(next(seed) >> 16) % 21 - 10;
    value = std::ldexp((next(seed) & 1u << 20) != 0 ? -significand : significand, exponent);
  }
  return result;
}

std::vector<float> small_integers(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& value : result) value = static_cast<float>(static_cast<int>(next(seed) >> 16) % 17 - 8);
  return result;
}

std::vector<float> product_in(MultiplyMatrices form, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b) {
  std::vector<float> c(static_cast<size_t>(m * n), std::nanf(""));
  form(pool, m, n, k, a, b, {c.data(), n, nullptr});
  return c;
}

// With both sides as they come, or with the right side packed before.
enum class Sides { AsTheyCome, RightPacked };
constexpr Sides kSides[] = {Sides::AsTheyCome, Sides::RightPacked};

void multiply_as_bf16x3(Sides sides, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                        const ProductOutput& out) {
  if (m == 0 || n == 0 || k == 0) return multiply_packed(pool, m, n, k, a, b, out);
  if (sides == Sides::AsTheyCome) return toroid::multiply_as_bf16x3(pool, m, n, k, a, b, out);
  static Scratch memory;
  float* const packed = memory.get(PackedBf16x3::size(k, n));
  pack_bf16x3(pool, b, k, n, 0, PackedBf16x3::panels(n), packed);
  multiply_all(pool, m, a, PackedBf16x3{k, n, packed}, out);
}
std::vector<float> product_in_parts(Sides sides, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b) {
  std::vector<float> c(static_cast<size_t>(m * n), std::nanf(""));
  multiply_as_bf16x3(sides, pool, m, n, k, a, b, {c.data(), n, nullptr});
  return c;
}

// One behind the other, so that a sum reads them in vectors.
std::vector<float> columns_of(const Matrix& b, int64_t k, int64_t n) {
  std::vector<float> columns;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) columns.push_back(*b.at(p, j));
  }
  return columns;
}

// Of elements' errors as parts of the sums of their products' magnitudes.
struct Errors {
  double largest = 0, mean_square = 0;
};
Errors errors(const std::vector<float>& c, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b) {
  Errors found;
  const std::vector<float> columns = columns_of(b, k, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      SumInDouble terms;
      add_products(terms, a.at(i, 0), a.column, columns.data() + j * k, 1, k);
      const auto [sum, magnitude] = terms;
      const double error = std::abs(c[static_cast<size_t>(i * n + j)] - sum) / magnitude;
      found.largest = std::max(found.largest, error);
      found.mean_square += error * error / static_cast<double>(m * n);
    }
  }
  return found;
}
TOROID_ON_MACHINES_WITH_TILES(PartsProduct);

// With one accumulator a result in blocks of 256, as BLAS libraries have it.
std::vector<float> product_in_blocks_of_float32(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b) {
  constexpr int64_t kPart = 1024, kBlock = 256;
  std::vector<float> c;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t part = 0; part < k; part += kPart) {
        const int64_t end = std::min(k, part + kPart);
        float sum_of_part = 0;
        for (int64_t block = part; block < end; block += kBlock) {
          float sum_of_block = 0;
          for (int64_t p = block; p < std::min(end, block + kBlock); ++p) sum_of_block = std::fma(*a.at(i, p), *b.at(p, j), sum_of_block);
          sum_of_part += sum_of_block;
        }
        sum += sum_of_part;
      }
      c.push_back(sum);
    }
  }
  return c;
}

// On average; which one has the largest error is luck.
TEST_P(PartsProduct, ErrsNoMoreThanBlocksOfFloat32) {
  RuntimePool pool(2);
  for (const int64_t k : {32, 500, 700, 1020, 1180, 1500, 2000, 3000, 9000}) {
    const int64_t m = 40, n = 70;
    const std::vector<float> left = wide_numbers(m * k, 1), right = wide_numbers(k * n, 2);
    const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
    const Errors in_blocks = errors(product_in_blocks_of_float32(m, n, k, a, b), m, n, k, a, b);
    for (const Sides sides : kSides) {
      const Errors in_parts = errors(product_in_parts(sides, pool, m, n, k, a, b), m, n, k, a, b);
      EXPECT_LE(in_parts.mean_square, in_blocks.mean_square) << "depth " << k;
    }
  }
}

TEST_P(PartsProduct, OfOneProductIsRoundedAtMostOnceMore) {
  RuntimePool pool(1);
  const int64_t m = 300, n = 300;
  const std::vector<float> left = wide_numbers(m, 5), right = wide_numbers(n, 6);
  const Matrix a = {left.data(), 1, 1}, b = {right.data(), n, 1};
  EXPECT_LE(errors(product_in(toroid::multiply_as_bf16x3, pool, m, n, 1, a, b), m, n, 1, a, b).largest, 0x1.8p-23);
}

struct SizeCase {
  const char* name;
  int64_t m, n, k;
};

// Around the sizes of tiles, strips, panels, parts of the depth, blocks and what waits of sums.
const SizeCase kSizes[] = {
    {"one element", 1, 1, 1},
    {"one tile", 16, 16, 32},
    {"less than a tile", 15, 13, 31},
    {"three tiles of each", 33, 47, 65},
    {"several panels", 50, 200, 33},
    {"several blocks", 700, 65, 40},
    {"several blocks of columns", 70, 1100, 600},
    {"more rows than have sums that wait", 4200, 20, 530},
    {"blocks of each thread, and tiles left over", 700, 200, 1100},
    {"a tile that is not whole", 500, 200, 40},
    {"several depths", 20, 150, 2100},
    {"several depths and sums", 270, 1100, 1060},
    {"nothing to sum", 5, 18, 0},
    {"no rows", 0, 4, 6},
};

TEST_P(PartsProduct, IsExactForSmallIntegers) {
  for (const int threads : {1, 3}) {
    RuntimePool pool(threads);
    for (const SizeCase& size : kSizes) {
      for (const bool a_turned : {false, true}) {
        for (const bool b_turned : {false, true}) {
          // Emulated tiles are slow: of the large sizes one way.
          if (machine().emulates_amx && size.m * size.n * size.k > 2'000'000 && (threads == 1 || a_turned || !b_turned)) continue;
          SCOPED_TRACE(formatted("{}, {} threads, turned: {}, {}", size.name, threads, a_turned, b_turned));
          const std::vector<float> left = small_integers(size.m * size.k + 1, 3), right = small_integers(size.k * size.n + 1, 4);
          const Matrix a = a_turned ? Matrix{left.data(), 1, size.m} : Matrix{left.data(), size.k, 1};
          const Matrix b = b_turned ? Matrix{right.data(), 1, size.k} : Matrix{right.data(), size.n, 1};
          const std::vector<float> expected = product_in(multiply_packed, pool, size.m, size.n, size.k, a, b);
          for (const Sides sides : kSides) EXPECT_EQ(product_in_parts(sides, pool, size.m, size.n, size.k, a, b), expected);
        }
      }
    }
  }
}

// For each row.
std::vector<double> sums_of_magnitudes(const std::vector<float>& values, int64_t rows, int64_t columns) {
  constexpr float kOne = 1;
  std::vector<double> result;
  for (int64_t i = 0; i < rows; ++i) {
    SumInDouble sum;
    add_products(sum, values.data() + i * columns, 1, &kOne, 0, columns);
    result.push_back(sum.magnitude);
  }
  return result;
}

// Rows and columns that cannot be in parts are multiplied without, whatever is beside them.
TEST_P(PartsProduct, TakesNumbersOfAnyMagnitude) {
  RuntimePool pool(2);
  struct Case {
    int64_t m, n, k;
    float extreme;
  };
  std::vector<Case> cases;
  for (const float extreme : {1e30f, -3e38f, 1e-33f, 1e-40f, HUGE_VALF, std::nanf(""), -std::bit_cast<float>(0x7FFFFFFFu)}) {
    cases.push_back({40, 150, 1100, extreme});
    cases.push_back({100, 150, 200, extreme});  // panels stay near
  }
  for (const auto& [m, n, k, extreme] : cases) {
    for (const bool is_left : {true, false}) {
      for (const bool fills : {false, true}) {  // a whole row or column, or one element of it
        std::vector<float> left = wide_numbers(m * k, 7), right = wide_numbers(k * n, 8);
        for (int64_t p = fills ? 0 : k - 50; p < (fills ? k : k - 49); ++p) {
          float& value = is_left ? left[static_cast<size_t>(17 * k + p)] : right[static_cast<size_t>(p * n + 70)];
          value = std::isfinite(extreme) ? extreme * std::abs(value) * 0x1p-11f : extreme;
        }
        const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
        const std::vector<float> expected = product_in(multiply_packed, pool, m, n, k, a, b);
        std::vector<double> allowed;
        const std::vector<float> columns = columns_of(b, k, n);
        const std::vector<double> of_rows = sums_of_magnitudes(left, m, k), of_columns = sums_of_magnitudes(columns, n, k);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            SumInDouble products;
            add_products(products, a.at(i, 0), 1, columns.data() + j * k, 1, k);
            const double beside_subnormals = of_rows[static_cast<size_t>(i)] + of_columns[static_cast<size_t>(j)];
            allowed.push_back(1e-6 * products.magnitude + 0x1p-126 * beside_subnormals);
          }
        }
        for (const Sides sides : kSides) {
          const std::vector<float> actual = product_in_parts(sides, pool, m, n, k, a, b);
          for (size_t i = 0; i < actual.size(); ++i) {
            const float x = expected[i], y = actual[i];
            const bool is_close = std::isnan(x) ? std::isnan(y) : std::isinf(x) ? x == y : std::abs(x - y) <= allowed[i];
            ASSERT_TRUE(is_close) << y << " for " << x << " at " << i << " with " << extreme
                                  << (is_left ? " on the left" : " on the right");
          }
        }
      }
    }
  }
}

// Of a number that makes a row leave the tiles, the other side's smallest are known to the last bit.
TEST_P(PartsProduct, TellsSmallNumbersAgain) {
  RuntimePool pool(1);
  const int64_t m = 3, n = 20, k = 50;
  std::vector<float> left(static_cast<size_t>(m * k), 1.0f), right(static_cast<size_t>(k * n), 1.0f);
  for (const float small : {7.21079e-38f, 3e-39f, 1e-45f, -1.23456e-34f, 7.7037196e-34f, -5.7e-42f}) {
    left[k + 7] = 3.05373e36f;
    right[7 * n + 3] = small;
    right[8 * n + 3] = -small;
    const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
    for (const Sides sides : kSides)
      EXPECT_EQ(product_in_parts(sides, pool, m, n, k, a, b)[n + 3], product_in(multiply_packed, pool, m, n, k, a, b)[n + 3]) << small;
  }
}

// Tiles that do not come out even are shared by the threads: 13 by 2 or 3, 49 by 4.
TEST_P(PartsProduct, SharesTilesThatAreLeftOver) {
  RuntimePool one(1);
  for (const auto& [m, n, k] : {std::array{196, 300, 100}, std::array{208, 256, 1500}, std::array{783, 300, 40}}) {
    std::vector<float> left = small_integers(m * k, 11), right = small_integers(k * n, 12);
    const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
    for (const bool has_extreme : {false, true}) {
      if (has_extreme) left[static_cast<size_t>((m - 1) * k + 3)] = 0x1p60f;  // in a shared row, which leaves the tiles
      const std::vector<float> expected = product_in(multiply_packed, one, m, n, k, a, b);
      for (const int threads : {1, 2, 3, 4}) {
        RuntimePool pool(threads);
        for (const Sides sides : kSides)
          EXPECT_EQ(product_in_parts(sides, pool, m, n, k, a, b), expected) << m << " rows, " << threads << " threads";
      }
    }
  }
}

// Where an epilogue takes the results, each comes once, whatever of them was multiplied without parts.
struct Taken {
  std::vector<float> values;
  std::vector<int> times;
  int64_t columns;

  Taken(int64_t m, int64_t n) : values(static_cast<size_t>(m * n)), times(static_cast<size_t>(m * n)), columns(n) {}
  ToroidEpilogue epilogue() {
    return {nullptr,
            [](void* argument, void* /*out*/, const float* block, int64_t row, int64_t first_row, int64_t last_row, int64_t first_column,
               int64_t last_column) {
              Taken& all = *static_cast<Taken*>(argument);
              for (int64_t i = first_row; i < last_row; ++i) {
                for (int64_t j = first_column; j < last_column; ++j) {
                  all.values[static_cast<size_t>(i * all.columns + j)] = block[(i - first_row) * row + j - first_column];
                  ++all.times[static_cast<size_t>(i * all.columns + j)];
                }
              }
            },
            this,
            {}};
  }
};
TEST_P(PartsProduct, GivesEachElementOnce) {
  RuntimePool pool(2);
  for (const auto& [m, n, k] : {std::array{100, 700, 60}, std::array{300, 130, 40}, std::array{70, 530, 1100}}) {
    std::vector<float> left = small_integers(m * k, 13), right = small_integers(k * n, 14);
    const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
    for (const bool has_extremes : {false, true}) {
      if (has_extremes) {  // in a strip of the rows, and in panels of both threads
        left[static_cast<size_t>(40 * k + 3)] = 0x1p60f;
        right[static_cast<size_t>(5 * n + 130)] = 0x1p-120f;
        for (int64_t p = 0; p < k; ++p) right[static_cast<size_t>(p * n + n - 3)] = 0x1p-120f;
      }
      const std::vector<float> expected = product_in(multiply_packed, pool, m, n, k, a, b);
      for (const Sides sides : kSides) {
        Taken taken(m, n);
        const ToroidEpilogue epilogue = taken.epilogue();
        multiply_as_bf16x3(sides, pool, m, n, k, a, b, {nullptr, n, &epilogue});
        EXPECT_EQ(taken.times, std::vector<int>(static_cast<size_t>(m * n), 1));
        EXPECT_EQ(taken.values, expected) << (has_extremes ? "with extremes" : "");
      }
    }
  }
}

// Whatever the grid: blocks of rows that are no whole tiles, panels that cannot be in parts, and a depth in parts of it.
TEST_P(PartsProduct, InAGridGivesEachElementOnce) {
  RuntimePool pool(4);
  const int64_t m = 70, n = 330, k = 600;
  std::vector<float> left = small_integers(m * k, 15), right = small_integers(k * n, 16);
  for (const bool is_turned : {false, true}) {
    const Matrix a = is_turned ? Matrix{left.data(), 1, m} : Matrix{left.data(), k, 1}, b = {right.data(), n, 1};
    for (const bool has_extremes : {false, true}) {
      if (has_extremes) right[static_cast<size_t>(5 * n + 130)] = 0x1p60f;
      const std::vector<float> expected = product_in(multiply_packed, pool, m, n, k, a, b);
      std::vector<float> memory(static_cast<size_t>(PackedBf16x3::size(k, n)) + 16);
      float* const packed = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16) % 16;
      pack_bf16x3(pool, b, k, n, 0, PackedBf16x3::panels(n), packed);
      const PackedBf16x3 right_side = {k, n, packed};
      for (const Cut& grid : {Cut{1, 4, false, 1}, Cut{2, 2, false, 1}, Cut{1, 2, false, 2}, Cut{3, 1, false, 5}}) {
        SCOPED_TRACE(formatted("{} x {} x {}, turned: {}, extremes: {}", grid.blocks, grid.groups, grid.depths, is_turned, has_extremes));
        Taken taken(m, n);
        const ToroidEpilogue epilogue = taken.epilogue();
        ASSERT_TRUE(multiply_grid(pool, grid, m, a, right_side, {0, right_side.panels()}, {nullptr, n, &epilogue}));
        EXPECT_EQ(taken.times, std::vector<int>(static_cast<size_t>(m * n), 1));
        EXPECT_EQ(taken.values, expected);
      }
    }
  }
  left[7] = 0x1p60f;
  const Matrix a = {left.data(), k, 1}, b = {right.data(), n, 1};
  std::vector<float> memory(static_cast<size_t>(PackedBf16x3::size(k, n)) + 16), c(static_cast<size_t>(m * n), 5);
  float* const packed = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16) % 16;
  pack_bf16x3(pool, b, k, n, 0, PackedBf16x3::panels(n), packed);
  const Cut grid = {1, 4, false, 1};
  EXPECT_FALSE(multiply_grid(pool, grid, m, a, {k, n, packed}, {0, PackedBf16x3::panels(n)}, {c.data(), n, nullptr}));
  EXPECT_EQ(c, std::vector<float>(c.size(), 5));
  multiply(pool, grid, m, a, PackedBf16x3{k, n, packed}, {0, PackedBf16x3::panels(n)}, {c.data(), n, nullptr});
  EXPECT_EQ(c, product_in(multiply_packed, pool, m, n, k, a, b));
}

// Few rows on many threads are split once; each thread with many rows splits its own.
TEST_P(PartsProduct, SplitsFewRowsOnceForManyThreads) {
  auto cut = [](int64_t threads, int64_t m, int64_t n, int64_t k) { return partition_of(threads, m, PackedBf16x3{k, n, nullptr}); };
  EXPECT_EQ(cut(1, 128, 768, 3072).depths, 0);
  EXPECT_GT(cut(16, 128, 3072, 768).depths, 0);
  EXPECT_GT(cut(16, 128, 768, 3072).depths, 1);  // 12 panels
  EXPECT_EQ(cut(16, 4096, 768, 3072).depths, 0);
}

// As convolutions have them.
TEST_P(PartsProduct, TakesRowsOfScatteredRuns) {
  RuntimePool pool(1);
  const std::vector<std::vector<toroid::Run>> rows_of_runs = {
      {{0, 5}, {20, 5}, {40, 5}}, {{3, 64}, {100, 32}}, {{0, 40}, {50, 40}, {150, 7}}, {{7, 1}, {5, 1}, {9, 1}}};
  for (const std::vector<toroid::Run>& runs : rows_of_runs) {
    const int64_t m = 21, n = 30, row_size = 200;
    const std::vector<float> image = small_integers(m * row_size, 9);
    RowElements elements;
    std::vector<const float*> rows;
    std::vector<float> dense;
    for (int64_t i = 0; i < m; ++i) {
      rows.push_back(image.data() + i * row_size);
      for (const toroid::Run& run : runs) dense.insert(dense.end(), rows.back() + run.offset, rows.back() + run.offset + run.length);
    }
    for (const toroid::Run& run : runs) elements.add(run.offset, run.length);
    const int64_t k = static_cast<int64_t>(dense.size()) / m;
    const std::vector<float> right = small_integers(k * n, 10);
    std::vector<float> packed(static_cast<size_t>(PackedBf16x3::size(k, n)) + 16), c(static_cast<size_t>(m * n));
    float* aligned = packed.data() + (16 - reinterpret_cast<uintptr_t>(packed.data()) / sizeof(float) % 16) % 16;
    pack_bf16x3({right.data(), n, 1}, k, n, 0, 1, aligned);
    multiply_rows(PackedBf16x3{k, n, aligned}, 0, 1, elements, rows, 0, {c.data(), n, nullptr});
    EXPECT_EQ(c, product_in(multiply_packed, pool, m, n, k, {dense.data(), k, 1}, {right.data(), n, 1}));
  }
}

TOROID_ON_MACHINES(PartsProductChoice);

TEST_P(PartsProductChoice, PaysForManyRowsOnMachinesThatHaveTiles) {
  EXPECT_EQ(pays_as_bf16x3({128, 768, 768, true, 1}), has_amx_bf16x3());
  EXPECT_EQ(pays_as_bf16x3({1024, 1024, 1024, false, 1}), has_amx_bf16x3());
  EXPECT_FALSE(pays_as_bf16x3({128, 768, 3072, true, 16}));
  EXPECT_FALSE(pays_as_bf16x3({1, 768, 768, true, 1}));
  EXPECT_FALSE(pays_as_bf16x3({10000, 3, 64, true, 1}));
  EXPECT_FALSE(pays_as_bf16x3({8, 4096, 4096, false, 1}));
}

}  // namespace
}  // namespace toroid
