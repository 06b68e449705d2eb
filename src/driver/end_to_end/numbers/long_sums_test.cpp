// Sums of many elements, in every form of a kernel, beside their sums in double: their error does not grow with their length.
#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "driver/end_to_end/numbers/numbers_for_test.h"

namespace toroid {
namespace {

constexpr double kEps = 0x1p-24;  // half a unit in the last place of 1

HostTensor all(double value, std::vector<int64_t> sizes) {
  return HostTensor::from_doubles(DType::F32, sizes, std::vector<double>(static_cast<size_t>(numel(sizes)), value));
}

HostTensor run(const std::string& text, HostTensor x, int threads = 2) {
  return TestSession::get().compile(parse_text(text), {}).load(threads).run(std::vector<HostTensor>{std::move(x)})[0];
}

struct LongSum {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<bool> reduced;  // by dim
  std::string symbol = {};    // in the place of the first size
  std::string dtype = "f32";
};
void PrintTo(const LongSum& row, std::ostream* out) { *out << row.name; }

const LongSum kLongSums[] = {
    {"everything", {3'000'001}, {true}},
    {"leading", {100'003, 10}, {true, false}},
    {"leading_many_columns", {3001, 700}, {true, false}},
    {"leading_in_equal_blocks", {100'000, 64}, {true, false}},
    {"trailing", {10, 100'003}, {false, true}},
    {"trailing_short", {50, 1100}, {false, true}},
    {"middle", {3, 20'011, 17}, {false, true, false}},
    {"outer_and_inner", {3001, 5, 49}, {true, false, true}},
    {"outer_and_long_inner", {31, 5, 2049}, {true, false, true}},
    {"channels_last", {7, 101, 103, 24}, {true, true, true, false}},
    {"leading_of_any_size", {70'001, 10}, {true, false}, "n"},
    {"everything_of_any_size", {70'001, 3}, {true, true}, "n"},
};

class LongSums : public testing::TestWithParam<LongSum> {
 protected:
  // The program over x, whose result has the sizes that stay.
  std::string program(const std::string& of_dims) const {
    const LongSum& row = GetParam();
    std::string sizes, kept, dims;
    for (size_t d = 0; d < row.sizes.size(); ++d) {
      const std::string size = d == 0 && !row.symbol.empty() ? row.symbol : std::to_string(row.sizes[d]);
      sizes += (d > 0 ? ", " : "") + size;
      std::string& list = row.reduced[d] ? dims : kept;
      list += (list.empty() ? "" : ", ") + (row.reduced[d] ? std::to_string(d) : size);
    }
    const std::string symbol = row.symbol.empty() ? "" : fmt::format("sym {} in [1, 10000000]\n", row.symbol);
    return fmt::format("{}graph(x: f32[{}]) {{\n  y: f32[{}] = {}(x, [{}])\n  return y\n}}", symbol, sizes, kept, of_dims, dims);
  }
  std::vector<std::vector<double>> parts(const HostTensor& x) const { return elements_of_results(x, GetParam().reduced); }
};

// A block's sums are of 80 steps at most, in one chain or in several; what follows is in double and rounded once.
constexpr double kBound = 16 * kEps;

TEST_P(LongSums, AreAsGoodAsABlocks) {
  const HostTensor x = uniform(GetParam().sizes, 0);
  const HostTensor y = run(program("aten::sum.dim_IntList"), x);
  const auto exact = parts(x);
  ASSERT_EQ(y.numel(), static_cast<int64_t>(exact.size()));
  for (size_t i = 0; i < exact.size(); ++i) {
    const double sum = sum_of(exact[i]);
    ASSERT_NEAR(y.double_at(static_cast<int64_t>(i)), sum, kBound * sum) << i;
  }
}

TEST_P(LongSums, HaveMeansFarFromZero) {
  const HostTensor x = uniform(GetParam().sizes, 100);
  const HostTensor y = run(program("aten::mean.dim"), x);
  const auto exact = parts(x);
  for (size_t i = 0; i < exact.size(); ++i) {
    const double mean = sum_of(exact[i]) / static_cast<double>(exact[i].size());
    ASSERT_NEAR(y.double_at(static_cast<int64_t>(i)), mean, kBound * mean) << i;
  }
}

// The error of a variance is a share of the variance itself, not of the mean's square.
TEST_P(LongSums, HaveVariancesFarFromZero) {
  for (const double offset : {100.0, 10000.0}) {
    const HostTensor x = uniform(GetParam().sizes, offset);
    const HostTensor y = run(program("aten::var.dim"), x);
    const auto exact = parts(x);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double variance = variance_of(exact[i]);
      ASSERT_NEAR(y.double_at(static_cast<int64_t>(i)), variance, kBound * variance) << i << ", offset " << offset;
    }
  }
}

// What follows from the sums is in double and rounded once: on average a mean and a variance are off by little more than that rounding.
TEST_P(LongSums, HaveMomentsThatAreRoundedOnce) {
  const HostTensor x = uniform(GetParam().sizes, 100);
  const HostTensor variances = run(program("aten::var.dim"), x), means = run(program("aten::mean.dim"), x);
  const auto exact = parts(x);
  double of_variances = 0, of_means = 0;  // squares of relative errors
  for (size_t i = 0; i < exact.size(); ++i) {
    const double mean = sum_of(exact[i]) / static_cast<double>(exact[i].size());
    const auto at = static_cast<int64_t>(i);
    of_variances += std::pow(variances.double_at(at) / variance_of(exact[i]) - 1, 2) / static_cast<double>(exact.size());
    of_means += std::pow(means.double_at(at) / mean - 1, 2) / static_cast<double>(exact.size());
  }
  EXPECT_LE(std::sqrt(of_variances), kEps);
  EXPECT_LE(std::sqrt(of_means), kEps);
}

TEST_P(LongSums, DoNotDependOnTheNumberOfThreads) {
  const HostTensor x = uniform(GetParam().sizes, 0);
  const HostTensor one = run(program("aten::sum.dim_IntList"), x, 1), four = run(program("aten::sum.dim_IntList"), x, 4);
  for (int64_t i = 0; i < one.numel(); ++i) ASSERT_EQ(one.double_at(i), four.double_at(i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Rows, LongSums, testing::ValuesIn(kLongSums), [](const auto& row) { return row.param.name; });

// Rows of one block, whose sums have no totals: of one vector or a few, and columns taken all at once, in turn, and with work that keeps
// rows apart.
const LongSum kShortSums[] = {
    {"trailing_ten", {2000, 10}, {false, true}},
    {"trailing_hundred", {2000, 100}, {false, true}},
    {"trailing_thousand", {500, 1000}, {false, true}},
    {"trailing_hundred_of_any_number", {700, 100}, {false, true}, "n"},
    {"leading_ten", {10, 2000}, {true, false}},
    {"leading_hundred", {100, 2000}, {true, false}},
    {"leading_hundred_of_any_size", {100, 700}, {true, false}, "n"},
    {"middle_ten", {7, 10, 100}, {false, true, false}},
    {"middle_hundred", {7, 100, 100}, {false, true, false}},
    {"middle_of_65", {7, 65, 100}, {false, true, false}},
    {"outer_and_inner_of_hundred", {20, 40, 5}, {true, false, true}},
};

class ShortSums : public LongSums {
 protected:
  // The root mean square of relative errors, of `of_dims` beside `exact` of the elements of each result.
  template <class Exact>
  double error(const char* of_dims, double offset, const Exact& exact) {
    const HostTensor x = uniform(GetParam().sizes, offset), y = run(program(of_dims), x);
    const auto all = parts(x);
    double squares = 0;
    for (size_t i = 0; i < all.size(); ++i) squares += std::pow(y.double_at(static_cast<int64_t>(i)) / exact(all[i]) - 1, 2);
    return std::sqrt(squares / static_cast<double>(all.size()));
  }
};

// Rounding an exact result costs 0.4 kEps on average.
TEST_P(ShortSums, ErrLittleMoreThanOneRounding) { EXPECT_LE(error("aten::sum.dim_IntList", 0, sum_of), 0.85 * kEps); }
TEST_P(ShortSums, HaveVariancesThatErrLittleMoreThanOneRounding) {
  EXPECT_LE(error("aten::var.dim", 0, variance_of), 0.85 * kEps);
  EXPECT_LE(error("aten::var.dim", 100, variance_of), 0.85 * kEps);
}
INSTANTIATE_TEST_SUITE_P(Rows, ShortSums, testing::ValuesIn(kShortSums), [](const auto& row) { return row.param.name; });

TEST(LongSums, OfOnesAreExactBeyondTwoToThe24th) {
  constexpr int64_t kCount = 40'000'000;
  EXPECT_EQ(run(fmt::format("graph(x: f32[{}]) {{ y: f32[] = aten::sum(x) return y }}", kCount), all(1, {kCount})).double_at(0), kCount);
  // Of columns, without a tensor of that size.
  const std::string columns =
      "graph(x: f32[20000000]) {\n  u: f32[20000000, 1] = aten::unsqueeze(x, 1)\n  e: f32[20000000, 10] = aten::expand(u, [20000000, 10])\n"
      "  y: f32[10] = aten::sum.dim_IntList(e, [0])\n  return y\n}";
  EXPECT_EQ(run(columns, all(1, {20'000'000})).double_at(9), 20'000'000);
}

TEST(LongSums, InFormsAndLossesAreAsGood) {
  const HostTensor x = uniform({40'009, 3}, 0);
  double total = 0, squares = 0, exponentials = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    total += x.double_at(i);
    squares += x.double_at(i) * x.double_at(i);
    exponentials += std::exp(x.double_at(i));
  }
  const auto of_all = [&](const char* statement) {
    return run(fmt::format("graph(x: f32[40009, 3]) {{ f: f32[120027] = aten::view(x, [120027]) {} return y }}", statement), x)
        .double_at(0);
  };
  EXPECT_NEAR(of_all("y: f32[] = aten::linalg_vector_norm(f, 2)"), std::sqrt(squares), kBound * std::sqrt(squares));
  EXPECT_NEAR(of_all("c: f32[120027] = aten::cumsum(f, 0) y: f32[] = aten::select.int(c, 0, 120026)"), total, kBound * total);
  EXPECT_NEAR(of_all("y: f32[] = aten::dot(f, f)"), squares, kBound * squares);
  EXPECT_NEAR(of_all("a: f32[1, 120027] = aten::unsqueeze(f, 0) b: f32[120027, 1] = aten::unsqueeze(f, 1) "
                     "p: f32[1, 1] = aten::mm(a, b) y: f32[] = aten::view(p, [])"),
              squares, kBound * squares);
  EXPECT_NEAR(of_all("y: f32[] = aten::logsumexp(f, [0])"), std::log(exponentials), kBound * std::log(exponentials));
  EXPECT_NEAR(of_all("z: f32[120027] = aten::mul.Scalar(f, 0) y: f32[] = aten::mse_loss(f, z)"), squares / 120027,
              kBound * squares / 120027);
  const HostTensor shares = run("graph(x: f32[40009, 3]) { y: f32[40009, 3] = aten::softmax.int(x, 0) return y }", x);
  double sum = 0;
  for (int64_t i = 0; i < 40'009; ++i) sum += std::exp(x.double_at(3 * i));
  EXPECT_NEAR(shares.double_at(0), std::exp(x.double_at(0)) / sum, kBound / sum * 3);
}

TEST(LongSums, OfDeepProductsAreAsGood) {
  const HostTensor x = uniform({3, 70'001}, 0), w = uniform({70'001, 20}, 0);
  const std::string text = "graph(x: f32[3, 70001], w: f32[70001, 20]) { y: f32[3, 20] = aten::mm(x, w) return y }";
  const HostTensor y = TestSession::get().compile(parse_text(text), {}).load(2).run(std::vector<HostTensor>{x, w})[0];
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 20; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < 70'001; ++i) sum += x.double_at(70'001 * row + i) * w.double_at(20 * i + column);
      EXPECT_NEAR(y.double_at(20 * row + column), sum, kBound * sum) << row << ", " << column;
    }
  }
}

// ---- rows of equal numbers

struct EqualNumbers {
  std::string name, text;
  std::vector<int64_t> sizes;
  double value;
};
void PrintTo(const EqualNumbers& row, std::ostream* out) { *out << row.name; }

const EqualNumbers kEqualNumbers[] = {
    {"layer_norm_of_few", "graph(x: f32[4, 33]) { y: f32[4, 33] = aten::layer_norm(x, [33]) return y }", {4, 33}, 1000.1},
    {"layer_norm", "graph(x: f32[4, 768]) { y: f32[4, 768] = aten::layer_norm(x, [768]) return y }", {4, 768}, 3.3},
    {"layer_norm_of_many", "graph(x: f32[2, 50001]) { y: f32[2, 50001] = aten::layer_norm(x, [50001]) return y }", {2, 50001}, 0.1},
    {"instance_norm",
     "graph(x: f32[1, 4, 513]) { y: f32[1, 4, 513] = aten::instance_norm(x, none, none, none, none, true, 0.1, 1e-05, false) return y }",
     {1, 4, 513},
     77.7},
    {"group_norm", "graph(x: f32[2, 6, 100]) { y: f32[2, 6, 100] = aten::group_norm(x, 3) return y }", {2, 6, 100}, 123.4},
    {"group_norm_of_single_elements", "graph(x: f32[6, 3, 1]) { y: f32[6, 3, 1] = aten::group_norm(x, 3) return y }", {6, 3, 1}, 3.3},
    {"batch_norm",
     "graph(x: f32[8, 4, 513]) { y: f32[8, 4, 513] = aten::batch_norm(x, none, none, none, none, true, 0.1, 1e-05, false) return y }",
     {8, 4, 513},
     3.3},
    {"batch_norm_of_columns",
     "graph(x: f32[100000, 10]) { y: f32[100000, 10] = aten::batch_norm(x, none, none, none, none, true, 0.1, 1e-05, false) return y }",
     {100000, 10},
     3.3},
    {"variance", "graph(x: f32[4, 513]) { y: f32[4] = aten::var.dim(x, [1]) return y }", {4, 513}, 77.7},
    {"variance_of_columns", "graph(x: f32[5131, 4]) { y: f32[4] = aten::var.dim(x, [0]) return y }", {5131, 4}, 77.7},
};

class EqualNumbersTest : public testing::TestWithParam<EqualNumbers> {};
TEST_P(EqualNumbersTest, NormaliseToZero) {
  const HostTensor y = run(GetParam().text, all(GetParam().value, GetParam().sizes));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.double_at(i), 0) << i;
}
INSTANTIATE_TEST_SUITE_P(Rows, EqualNumbersTest, testing::ValuesIn(kEqualNumbers), [](const auto& row) { return row.param.name; });

// What the mean's rounding takes from each element is given back.
TEST(Moments, OfABatchFarFromZeroNormaliseAsWell) {
  const HostTensor x = uniform({100, 40}, 100);
  const HostTensor y =
      run("graph(x: f32[100, 40]) { y: f32[100, 40] = aten::batch_norm(x, none, none, none, none, true, 0.1, 1e-05, false) return y }", x);
  for (int64_t column = 0; column < 40; ++column) {
    std::vector<double> numbers;
    for (int64_t row = 0; row < 100; ++row) numbers.push_back(x.double_at(40 * row + column));
    const double mean = sum_of(numbers) / 100, deviation = std::sqrt(variance_of(numbers) * 0.99 + 1e-5);
    for (int64_t row = 0; row < 100; ++row)
      ASSERT_NEAR(y.double_at(40 * row + column), (numbers[static_cast<size_t>(row)] - mean) / deviation, 8 * kEps)
          << row << ", " << column;
  }
}

TEST(Moments, OfARowWithAnInfinityHaveItsMean) {
  HostTensor x = uniform({100}, 0);
  x.mutable_data<float>()[7] = std::numeric_limits<float>::infinity();
  const std::string text = "graph(x: f32[100]) {\n  v: f32[], m: f32[] = aten::var_mean.correction(x)\n  return v, m\n}";
  const std::vector<HostTensor> results = TestSession::get().compile(parse_text(text), {}).load(1).run(std::vector<HostTensor>{x});
  EXPECT_TRUE(std::isnan(results[0].double_at(0)));
  EXPECT_EQ(results[1].double_at(0), std::numeric_limits<double>::infinity());
}

// ---- products that are used twice

struct Difference {
  std::string name, text;
};
void PrintTo(const Difference& row, std::ostream* out) { *out << row.name; }

const Difference kDifferences[] = {
    {"of_a_norm_and_itself", "y: f32[12, 33] = aten::layer_norm(x, [33]) z: f32[12, 33] = aten::sub.Tensor(y, y)"},
    {"of_equal_products",
     "p: f32[12, 33] = aten::mul.Tensor(x, w) q: f32[12, 33] = aten::mul.Tensor(x, w) z: f32[12, 33] = aten::sub.Tensor(p, q)"},
    {"of_a_sum_and_its_product",
     "p: f32[12, 33] = aten::mul.Tensor(x, w) o: f32[12, 33] = aten::mul.Scalar(x, 0) s: f32[12, 33] = aten::add.Tensor(p, o) "
     "z: f32[12, 33] = aten::sub.Tensor(s, p)"},
    {"of_a_product_and_its_largest_alone",
     "p: f32[12, 33] = aten::mul.Tensor(x, w) u: f32[1, 12, 33] = aten::unsqueeze(p, 0) m: f32[1, 12, 33] = aten::amax(u, [0], true) "
     "d: f32[1, 12, 33] = aten::sub.Tensor(u, m) z: f32[12, 33] = aten::squeeze.dim(d, 0)"},
    {"log_softmax_over_one",
     "y: f32[12, 33] = aten::layer_norm(x, [33]) u: f32[1, 12, 33] = aten::unsqueeze(y, 0) l: f32[1, 12, 33] = aten::log_softmax.int(u, 0) "
     "z: f32[12, 33] = aten::squeeze.dim(l, 0)"},
};

class Differences : public testing::TestWithParam<Difference> {};
TEST_P(Differences, OfAProductAndItselfAreZero) {
  const HostTensor x = uniform({12, 33}, -0.5), w = uniform({12, 33}, 0.1);
  const std::string text = fmt::format("graph(x: f32[12, 33], w: f32[12, 33]) {{ {} return z }}", GetParam().text);
  const HostTensor z = TestSession::get().compile(parse_text(text), {}).load(1).run(std::vector<HostTensor>{x, w})[0];
  for (int64_t i = 0; i < z.numel(); ++i) ASSERT_EQ(z.double_at(i), 0) << i;
}
INSTANTIATE_TEST_SUITE_P(Rows, Differences, testing::ValuesIn(kDifferences), [](const auto& row) { return row.param.name; });

// At the largest element of a row nothing is left, whichever kernels find it and take it off.
TEST(Differences, OfAProductAndItsLargestReachZero) {
  for (const int64_t rows : {3, 300}) {
    for (const int64_t length : {1000, 70'001}) {
      if (rows * length > 1'000'000) continue;
      const HostTensor x = uniform({rows, length}, 0.5);
      const std::string text = fmt::format(
          "graph(x: f32[{0}, {1}]) {{ p: f32[{0}, {1}] = aten::mul.Scalar(x, 0.3) m: f32[{0}, 1] = aten::amax(p, [1], true) "
          "d: f32[{0}, {1}] = aten::sub.Tensor(p, m) z: f32[{0}] = aten::amax(d, [1]) return z }}",
          rows, length);
      const HostTensor z = run(text, x);
      for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(z.double_at(i), 0) << i << " of " << rows << ", " << length;
    }
  }
}

}  // namespace
}  // namespace toroid
