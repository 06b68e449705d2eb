// What random operators draw, in the evaluator: their distributions by tests with fixed seeds, the ends of their ranges, and
// the words of their errors. Compiled programs draw the same (src/driver/end_to_end/random_test.cpp).
//
// A statistic is held against the value that a right generator exceeds once in about 10^5 seeds; the seeds are fixed, so
// a test that passes keeps passing.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/fold_constants.h"

namespace toroid {
namespace {

// The results of nodes in text form, the last of which are `results`.
std::vector<HostTensor> drawn(const std::string& nodes, const std::string& results, RandomSeed seed = {1, 0},
                              const std::string& constants = {}) {
  Program program = parse_text(fmt::format("program \"case\"\n{}graph() {{\n{}\n  return {}\n}}\n", constants, nodes, results));
  decompose(program);
  verify(program, Level::Core);
  return evaluate(program, {}, {.random = seed});
}

// One operator's only result, of this type: "f32[100] = aten::rand([100])".
std::vector<double> draw(const std::string& node, RandomSeed seed = {1, 0}) {
  const HostTensor result = drawn("  y: " + node, "y", seed)[0];
  if (is_floating(result.dtype())) return result.to_doubles();
  const std::vector<int64_t> integers = result.to_ints();
  return {integers.begin(), integers.end()};
}

// The operator's first argument is this tensor.
std::vector<double> draw_with(const std::string& tensor, const std::string& node, RandomSeed seed = {1, 0}) {
  const std::string type = tensor.substr(0, tensor.find(" ="));
  const HostTensor result =
      drawn(fmt::format("  x: {} = constant(0)\n  y: {}", type, node), "y", seed, fmt::format("constant 0 \"c\": {}\n", tensor))[0];
  if (is_floating(result.dtype())) return result.to_doubles();
  const std::vector<int64_t> integers = result.to_ints();
  return {integers.begin(), integers.end()};
}

std::string random_error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

double mean_of(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }
double variance_of(const std::vector<double>& x) {
  const double mean = mean_of(x);
  double sum = 0;
  for (double v : x) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(x.size());
}

// ---- distributions ------------------------------------------------------------------------------------------------------

// The bound of Kolmogorov's statistic for one chance in 10^5.
constexpr double kKolmogorov = 2.47;
// Of a chi-square with 15 degrees of freedom.
constexpr double kChiSquare15 = 50.5;
// Of a normal deviate.
constexpr double kSigmas = 4.5;

struct Distribution {
  const char* name;
  const char* node;  // of 20000 numbers
  std::function<double(double)> cdf;
  double mean, variance;  // NaN where there is none
};
void PrintTo(const Distribution& row, std::ostream* out) { *out << row.name; }

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

const Distribution kDistributions[] = {
    {"rand", "f32[20000] = aten::rand([20000])", [](double x) { return x; }, 0.5, 1.0 / 12},
    {"rand_f64", "f64[200, 100] = aten::rand([200, 100], dtype=dtype.f64)", [](double x) { return x; }, 0.5, 1.0 / 12},
    {"uniform", "f32[20000] = aten::uniform(x, -2, 6)", [](double x) { return (x + 2) / 8; }, 2, 64.0 / 12},
    {"randn", "f32[20000] = aten::randn([20000])", normal_cdf, 0, 1},
    {"randn_f64", "f64[20000] = aten::randn([20000], dtype=dtype.f64)", normal_cdf, 0, 1},
    {"normal", "f32[20000] = aten::normal.float_float(3, 2, [20000])", [](double x) { return normal_cdf((x - 3) / 2); }, 3, 4},
    {"log_normal", "f32[20000] = aten::log_normal(x, 0.5, 0.25)", [](double x) { return normal_cdf((std::log(x) - 0.5) / 0.25); },
     std::exp(0.53125), (std::exp(0.0625) - 1) * std::exp(1.0625)},
    {"exponential", "f32[20000] = aten::exponential(x, 2)", [](double x) { return 1 - std::exp(-2 * x); }, 0.5, 0.25},
    {"cauchy", "f32[20000] = aten::cauchy(x, 1, 3)", [](double x) { return 0.5 + std::atan((x - 1) / 3) / M_PI; }, kNone, kNone},
    {"gamma_of_1", "f32[20000] = aten::_standard_gamma(x)", [](double x) { return 1 - std::exp(-x); }, 1, 1},
};

class Distributions : public testing::TestWithParam<Distribution> {};
TEST_P(Distributions, AreTheirs) {
  const Distribution& row = GetParam();
  const std::string ones = "  x: f32[20000] = aten::ones([20000])\n";
  const std::vector<double> x = drawn(ones + "  y: " + row.node, "y")[0].to_doubles();
  const auto n = static_cast<double>(x.size());
  if (!std::isnan(row.mean)) {
    EXPECT_LT(std::fabs(mean_of(x) - row.mean), kSigmas * std::sqrt(row.variance / n));
    EXPECT_LT(std::fabs(variance_of(x) / row.variance - 1), 0.1);
  }
  // What a continuous distribution function makes of its own numbers is uniform.
  std::vector<double> u;
  for (double v : x) u.push_back(row.cdf(v));
  std::vector<double> counts(16);
  for (double v : u) ++counts[static_cast<size_t>(std::clamp(v * 16, 0.0, 15.0))];
  double chi_square = 0;
  for (double count : counts) chi_square += (count - n / 16) * (count - n / 16) / (n / 16);
  EXPECT_LT(chi_square, kChiSquare15);
  double product = 0;
  for (size_t i = 0; i + 1 < u.size(); ++i) product += (u[i] - 0.5) * (u[i + 1] - 0.5);
  EXPECT_LT(std::fabs(product / n * 12), kSigmas / std::sqrt(n)) << "neighbours are correlated";
  std::sort(u.begin(), u.end());
  double distance = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    distance = std::max({distance, u[i] - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - u[i]});
  }
  EXPECT_LT(distance * std::sqrt(n), kKolmogorov);
}
INSTANTIATE_TEST_SUITE_P(Random, Distributions, testing::ValuesIn(kDistributions), [](const auto& row) { return row.param.name; });

struct Moments {
  const char* name;
  const char* tensor;  // x, expanded to 20000 by the node before
  const char* node;
  double mean, variance;
};
void PrintTo(const Moments& row, std::ostream* out) { *out << row.name; }
const Moments kMoments[] = {
    {"poisson_small", "f32[1] = [3.5]", "f32[20000] = aten::poisson(e)", 3.5, 3.5},
    {"poisson_large", "f32[1] = [40]", "f32[20000] = aten::poisson(e)", 40, 40},
    {"gamma_small", "f64[1] = [0.3]", "f64[20000] = aten::_standard_gamma(e)", 0.3, 0.3},
    {"gamma_large", "f64[1] = [7.5]", "f64[20000] = aten::_standard_gamma(e)", 7.5, 7.5},
    {"geometric", "f32[1] = [0]", "f32[20000] = aten::geometric(e, 0.2)", 5, 20},
    {"geometric_of_integers", "i64[1] = [0]", "i64[20000] = aten::geometric(e, 0.2)", 5, 20},
    {"bernoulli", "f32[1] = [0.3]", "f32[20000] = aten::bernoulli(e)", 0.3, 0.21},
    {"bernoulli_p", "f32[1] = [0]", "f32[20000] = aten::bernoulli.p(e, 0.3)", 0.3, 0.21},
    {"binomial_small", "f32[1] = [0.1]", "f32[20000] = aten::binomial(c, e)", 2, 1.8},
    {"binomial_high", "f32[1] = [0.9]", "f32[20000] = aten::binomial(c, e)", 18, 1.8},
    {"binomial_large", "f32[1] = [500]", "f32[20000] = aten::binomial(e, h)", 200, 120},
    {"randint", "i64[1] = [0]", "i64[20000] = aten::randint_like.low_dtype(e, -3, 7)", 1.5, 99.0 / 12},
};
class RandomMoments : public testing::TestWithParam<Moments> {};
TEST_P(RandomMoments, AreTheirs) {
  const Moments& row = GetParam();
  const std::string type = std::string(row.tensor).substr(0, std::string(row.tensor).find(" ="));
  const std::string wide = type.substr(0, 3) + "[20000]";
  const HostTensor result =
      drawn(fmt::format("  x: {} = constant(0)\n  e: {} = aten::expand(x, [20000])\n  c: f32[20000] = aten::full([20000], 20.0)\n"
                        "  h: f32[20000] = aten::full([20000], 0.4)\n  y: {}",
                        type, wide, row.node),
            "y", {1, 0}, fmt::format("constant 0 \"c\": {}\n", row.tensor))[0];
  std::vector<double> x;
  if (is_floating(result.dtype())) {
    x = result.to_doubles();
  } else {
    for (int64_t v : result.to_ints()) x.push_back(static_cast<double>(v));
  }
  EXPECT_LT(std::fabs(mean_of(x) - row.mean), kSigmas * std::sqrt(row.variance / 20000));
  EXPECT_LT(std::fabs(variance_of(x) / row.variance - 1), 0.1);
}
INSTANTIATE_TEST_SUITE_P(Random, RandomMoments, testing::ValuesIn(kMoments), [](const auto& row) { return row.param.name; });

TEST(Random, IntegersFallEvenly) {
  for (const char* node :
       {"i64[16000] = aten::randint(16, [16000])", "i32[16000] = aten::randint.low(100, 116, [16000], dtype=dtype.i32)"}) {
    std::vector<double> counts(16);
    for (double v : draw(node)) ++counts[static_cast<size_t>(v) % 16];
    double chi_square = 0;
    for (double count : counts) chi_square += (count - 1000) * (count - 1000) / 1000;
    EXPECT_LT(chi_square, kChiSquare15) << node;
  }
  // The top bits of the widest range.
  std::vector<double> counts(16);
  const HostTensor all = drawn(
      "  x: i64[16000] = aten::ones([16000], dtype=dtype.i64)\n  y: i64[16000] = aten::random.from(x, -9223372036854775808, none)", "y")[0];
  for (int64_t v : all.to_ints()) ++counts[static_cast<uint64_t>(v) >> 60];
  double chi_square = 0;
  for (double count : counts) chi_square += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi_square, kChiSquare15);
}

TEST(Random, DirichletSharesAddUp) {
  const std::vector<double> x = draw_with("f32[2, 3] = [1, 2, 3, 0.01, 0.01, 0.01]", "f32[2, 3] = aten::_sample_dirichlet(x)");
  EXPECT_NEAR(x[0] + x[1] + x[2], 1, 1e-6);
  EXPECT_NEAR(x[3] + x[4] + x[5], 1, 1e-6);
  for (double v : x) EXPECT_GT(v, 0);
}

// ---- streams ------------------------------------------------------------------------------------------------------------

TEST(Random, DrawsDifferByPlaceCallAndSeed) {
  const std::string node = "f32[64] = aten::rand([64])";
  EXPECT_EQ(draw(node), draw(node));
  EXPECT_NE(draw(node), draw(node, {2, 0}));
  EXPECT_NE(draw(node), draw(node, {1, 1}));
  const auto both = drawn("  y: " + node + "\n  z: " + node, "y, z");
  EXPECT_NE(both[0].to_doubles(), both[1].to_doubles());
}

// What else is in the program, and which draws are used, moves no draw; and folding takes none for a constant.
TEST(Random, StreamsFollowTheOrderOfRandomOperators) {
  const std::string y = "  y: f32[64] = aten::rand([64])\n", z = "  z: f32[64] = aten::randn([64])\n";
  const std::string other = "  a: f32[64] = aten::ones([64])\n  b: f32[64] = aten::dropout(a, 0.5, False)\n";
  EXPECT_EQ(drawn(y + z, "y, z")[1].to_doubles(), drawn(y + other + z, "z, b")[0].to_doubles());
  Program program = parse_text("graph() {\n" + y + z + "  return y, z\n}\n");
  decompose(program);
  const auto before = evaluate(program, {}, {.random = {5, 3}});
  fold_constants(program);
  verify(program, Level::Core);
  const auto after = evaluate(program, {}, {.random = {5, 3}});
  EXPECT_EQ(before[0].to_doubles(), after[0].to_doubles());
  EXPECT_EQ(before[1].to_doubles(), after[1].to_doubles());
}

// ---- ends of ranges -----------------------------------------------------------------------------------------------------

TEST(Random, UniformNumbersStayBelowTheEnd) {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
    const std::vector<double> x = draw(fmt::format("{0}[20000] = aten::rand([20000], dtype=dtype.{0})", dtype));
    EXPECT_GE(*std::ranges::min_element(x), 0) << dtype;
    EXPECT_LT(*std::ranges::max_element(x), 1) << dtype;
    const std::vector<double> y =
        drawn(fmt::format("  x: {0}[20000] = aten::zeros([20000], dtype=dtype.{0})\n  y: {0}[20000] = aten::uniform(x, 3, 3.5)", dtype),
              "y")[0]
            .to_doubles();
    EXPECT_GE(*std::ranges::min_element(y), 3) << dtype;
    EXPECT_LT(*std::ranges::max_element(y), 3.5) << dtype;
  }
  EXPECT_EQ(draw_with("f32[2] = [0, 0]", "f32[2] = aten::uniform(x, 2, 2)"), (std::vector<double>{2, 2}));
}

TEST(Random, LogarithmsAreFinite) {
  const std::string zeros = "  x: f32[40000] = aten::zeros([40000])\n";
  for (double v : drawn(zeros + "  y: f32[40000] = aten::exponential(x, 1)", "y")[0].to_doubles()) EXPECT_GT(v, 0);
  for (double v : draw("f32[40000] = aten::randn([40000])")) EXPECT_TRUE(std::isfinite(v));
  for (double v : draw("f16[40000] = aten::randn([40000], dtype=dtype.f16)")) EXPECT_TRUE(std::isfinite(v));
}

TEST(Random, IntegersReachBothEnds) {
  const auto ends = [](const std::string& dtype, const std::string& node) {
    const auto values =
        drawn(fmt::format("  x: {0}[20000] = aten::zeros([20000], dtype=dtype.{0})\n  y: {0}[20000] = {1}", dtype, node), "y")[0].to_ints();
    return std::pair(*std::ranges::min_element(values), *std::ranges::max_element(values));
  };
  using Ends = std::pair<int64_t, int64_t>;
  EXPECT_EQ(ends("i8", "aten::random.from(x, -128, 128)"), (Ends{-128, 127}));
  EXPECT_EQ(ends("u8", "aten::random(x)"), (Ends{0, 255}));
  EXPECT_EQ(ends("bool", "aten::random(x)"), (Ends{0, 1}));
  EXPECT_EQ(ends("i64", "aten::random.from(x, 9223372036854775804, none)"), (Ends{INT64_MAX - 3, INT64_MAX}));
  EXPECT_EQ(ends("i64", "aten::random.from(x, -9223372036854775808, -9223372036854775806)"), (Ends{INT64_MIN, INT64_MIN + 1}));
  EXPECT_EQ(ends("i64", "aten::randint_like.low_dtype(x, 5, 6)"), (Ends{5, 5}));
  const Ends wide = ends("i64", "aten::random.from(x, -9223372036854775808, 9223372036854775807)");
  EXPECT_LT(wide.first, INT64_MIN / 1000 * 999);
  EXPECT_GT(wide.second, INT64_MAX / 1000 * 999);
  const Ends positive = ends("i64", "aten::random(x)");
  EXPECT_GE(positive.first, 0);
  EXPECT_GT(positive.second, INT64_MAX / 1000 * 999);
}

TEST(Random, CertainAndImpossibleEvents) {
  const std::vector<double> p = draw_with("f32[4] = [0, 1, 0, 1]", "f32[4] = aten::bernoulli(x)");
  EXPECT_EQ(p, (std::vector<double>{0, 1, 0, 1}));
  for (double v : draw_with("f32[2] = [5, 5]", "f32[2] = aten::bernoulli.p(x, 0)")) EXPECT_EQ(v, 0);
  for (double v : draw_with("f32[2] = [5, 5]", "f32[2] = aten::bernoulli.p(x, 1)")) EXPECT_EQ(v, 1);
}

TEST(Random, PermutationsHoldEachNumberOnce) {
  for (int n : {0, 1, 2, 1000}) {
    std::vector<double> p = draw(fmt::format("i64[{0}] = aten::randperm({0})", n));
    EXPECT_EQ(std::ranges::is_sorted(p), n <= 1 || (n == 2 && p[0] == 0));
    std::ranges::sort(p);
    for (int i = 0; i < n; ++i) EXPECT_EQ(p[static_cast<size_t>(i)], i);
  }
}

TEST(Random, MultinomialFollowsTheWeights) {
  const std::string weights = "f32[2, 4] = [0, 1, 3, 0, 2, 0, 0, 2]";
  const std::vector<double> x = draw_with(weights, "i64[2, 8000] = aten::multinomial(x, 8000, True)");
  std::vector<double> counts(8);
  for (size_t i = 0; i < x.size(); ++i) ++counts[i / 8000 * 4 + static_cast<size_t>(x[i])];
  EXPECT_EQ(counts[0] + counts[3] + counts[5] + counts[6], 0);
  EXPECT_NEAR(counts[1] / 8000, 0.25, 0.025);
  EXPECT_NEAR(counts[4] / 8000, 0.5, 0.025);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<double> y = draw_with("f32[5] = [0, 1, 0.001, 5, 2]", "i64[4] = aten::multinomial(x, 4)", {seed, 0});
    std::ranges::sort(y);
    EXPECT_EQ(y, (std::vector<double>{1, 2, 3, 4}));
    EXPECT_NE(draw_with("f32[5] = [0, 1, 0.001, 5, 2]", "i64[1] = aten::multinomial(x, 1)", {seed, 0})[0], 0);
  }
}

// The chance of each category when one is drawn, which is what the race of exponential clocks promises.
TEST(Random, OneOfSeveralIsDrawnByItsWeight) {
  std::string rows = "f32[2000, 3] = [";
  for (int i = 0; i < 2000; ++i) rows += i == 0 ? "1, 2, 5" : ", 1, 2, 5";
  std::vector<double> counts(3);
  for (double v : draw_with(rows + "]", "i64[2000, 1] = aten::multinomial(x, 1)")) ++counts[static_cast<size_t>(v)];
  EXPECT_NEAR(counts[0] / 2000, 0.125, 0.035);
  EXPECT_NEAR(counts[2] / 2000, 0.625, 0.05);
}

TEST(Random, PoissonAndBinomialAtTheirEnds) {
  EXPECT_EQ(draw_with("f32[1] = [0]", "f32[1] = aten::poisson(x)"), (std::vector<double>{0}));
  for (const char* count : {"-3", "0"}) {
    EXPECT_EQ(draw_with(fmt::format("f32[1] = [{}]", count), "f32[1] = aten::binomial(x, x)")[0], 0);
  }
  EXPECT_TRUE(std::isnan(draw_with("f32[1] = [nan]", "f32[1] = aten::binomial(x, x)")[0]));
  EXPECT_GT(draw_with("f32[1] = [0]", "f32[1] = aten::_standard_gamma(x)")[0], 0);
}

// ---- dropout ------------------------------------------------------------------------------------------------------------

TEST(Dropout, KeepsTheMean) {
  const std::string ones = "  x: f32[200, 100] = aten::ones([200, 100])\n";
  const auto both = drawn(ones + "  y: f32[200, 100], m: bool[200, 100] = aten::native_dropout(x, 0.3, True)", "y, m");
  const std::vector<double> y = both[0].to_doubles();
  EXPECT_NEAR(mean_of(y), 1, 0.025);
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_FLOAT_EQ(static_cast<float>(y[i]), both[1].bool_at(static_cast<int64_t>(i)) ? 1 / 0.7f : 0.0f);
  const std::vector<double> channels = drawn(ones + "  y: f32[200, 100] = aten::dropout(x, 0.3, True)", "y")[0].to_doubles();
  EXPECT_NEAR(mean_of(channels), 1, 0.025);
}

TEST(Dropout, AlphaKeepsMeanAndDeviation) {
  const std::vector<double> y =
      drawn("  x: f64[20000] = aten::randn([20000], dtype=dtype.f64)\n  y: f64[20000] = aten::alpha_dropout(x, 0.2, True)", "y")[0]
          .to_doubles();
  EXPECT_NEAR(mean_of(y), 0, 0.04);
  EXPECT_NEAR(variance_of(y), 1, 0.06);
}

TEST(Dropout, DropsWholeChannels) {
  const std::vector<double> y =
      drawn("  x: f32[5, 20, 3, 4] = aten::ones([5, 20, 3, 4])\n  y: f32[5, 20, 3, 4] = aten::feature_dropout(x, 0.5, True)", "y")[0]
          .to_doubles();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], y[i / 12 * 12]);
  EXPECT_NEAR(mean_of(y), 1, 0.45);
}

TEST(Dropout, OfNothingAndOfEverything) {
  const std::string x = "f32[4] = [1, nan, inf, -2]";
  EXPECT_EQ(draw_with(x, "f32[4] = aten::dropout(x, 0, True)")[3], -2);
  const std::vector<double> y = draw_with(x, "f32[4] = aten::dropout(x, 1, True)");
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
  EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
}

// Equal scores give each of two values half of the weight; what stays is doubled.
TEST(Dropout, OfAttentionByAMask) {
  const auto results = drawn(
      "  q: f32[1, 2, 1] = aten::zeros([1, 2, 1])\n  v: f32[1, 2, 1] = constant(0)\n  m: bool[1, 2, 2] = constant(1)\n"
      "  y: f32[1, 2, 1], w: f32[1, 2, 2] = aten::_scaled_dot_product_attention_math(q, q, v, none, 0.5, False, m)",
      "y, w", {1, 0}, "constant 0 \"v\": f32[1, 2, 1] = [1, 3]\nconstant 1 \"m\": bool[1, 2, 2] = [true, false, true, true]\n");
  EXPECT_EQ(results[0].to_doubles(), (std::vector<double>{1, 4}));
  EXPECT_EQ(results[1].to_doubles(), (std::vector<double>{0.5, 0, 0.5, 0.5}));
}

TEST(Dropout, OfAttentionKeepsTheMean) {
  const auto results = drawn(
      "  q: f32[4, 50, 1] = aten::zeros([4, 50, 1])\n  v: f32[4, 50, 1] = aten::ones([4, 50, 1])\n"
      "  y: f32[4, 50, 1] = aten::scaled_dot_product_attention(q, q, v, none, 0.5)",
      "y");
  EXPECT_NEAR(mean_of(results[0].to_doubles()), 1, 0.05);
  EXPECT_GT(variance_of(results[0].to_doubles()), 0.005);
}

TEST(Rrelu, SlopesAreRandomInTraining) {
  const auto results = drawn(
      "  x: f32[4000] = aten::full([4000], -2.0)\n  n: f32[4000] = aten::zeros([4000])\n"
      "  y: f32[4000], m: f32[4000] = aten::rrelu_with_noise_functional(x, n, 0.25, 0.5, True)",
      "y, m");
  const std::vector<double> y = results[0].to_doubles();
  EXPECT_GE(*std::ranges::min_element(y), -1);
  EXPECT_LE(*std::ranges::max_element(y), -0.5);
  EXPECT_NEAR(mean_of(y), -0.75, 0.02);
  EXPECT_EQ(results[1].to_doubles()[7] * -2, y[7]);
}

// ---- refusals -----------------------------------------------------------------------------------------------------------

struct Refusal {
  const char* node;  // x is f32[2], i is i64[2]
  const char* words;
};
const Refusal kRefusals[] = {
    {"f32[2] = aten::dropout(x, 1.5, True)", "dropout probability has to be between 0 and 1, but got 1.5"},
    {"i64[2] = aten::dropout(i, 0.5, True)", "dropout is defined on floating dtypes, not i64"},
    {"f32[2] = aten::feature_dropout(x, 0.5, True)", "Feature dropout requires at least 2 dimensions in the input"},
    {"f32[2] = aten::rrelu(x, 0.5, 0.2, True)", "Lower bound should be less than or equal to the upper bound"},
    {"f32[2] = aten::bernoulli.p(x, 2)", "bernoulli_ expects p to be in [0, 1], but got p=2"},
    {"f32[2] = aten::bernoulli.p(x, nan)", "bernoulli_ expects p to be in [0, 1], but got p=nan"},
    {"i64[2] = aten::bernoulli(i)", "bernoulli expects probabilities of a floating dtype, not i64"},
    {"f32[2] = aten::normal_functional(x, 0, -1)", "normal expects std >= 0.0, but found std -1"},
    {"i64[2] = aten::normal_functional(i, 0, 1)", "aten::normal_functional draws floating-point numbers, not i64"},
    {"f32[2] = aten::uniform(x, 3, 1)", "uniform_ expects to return a [from, to) range, but found from=3 > to=1"},
    {"f32[2] = aten::uniform(x, nan, 1)", "from is out of bounds for float"},
    {"f32[2] = aten::exponential(x, 0)", "exponential_ expects lambda > 0.0, but found lambda=0"},
    {"i64[2] = aten::exponential(i, 1)",
     "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified i64"},
    {"f32[2] = aten::geometric(x, 1)", "geometric_ expects p to be in (0, 1), but got p=1"},
    {"f32[2] = aten::cauchy(x, 0, 0)", "cauchy_ expects sigma > 0.0, but found sigma=0"},
    {"f32[2] = aten::log_normal(x, 0, 0)", "log_normal_ expects std > 0.0, but found std=0"},
    {"i64[2] = aten::randint.low(5, 3, [2])", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3"},
    {"u8[2] = aten::randint(300, [2], dtype=dtype.u8)", "to - 1 is out of bounds for unsigned char"},
    {"f16[2] = aten::randint.low(-70000, 3, [2], dtype=dtype.f16)", "from is out of bounds for c10::Half"},
    {"i64[2] = aten::randperm(-1)", "n must be non-negative, got -1"},
    {"f16[3000] = aten::randperm(3000, dtype=dtype.f16)", "n cannot be greater than 2049 for f16"},
    {"i64[3] = aten::multinomial(x, 3)", "cannot sample n_sample > prob_dist.size(-1) samples without replacement"},
    {"i64[0] = aten::multinomial(x, 0)", "cannot sample n_sample <= 0 samples"},
    {"i64[1] = aten::multinomial(i, 1)", "multinomial only supports floating-point dtypes for input, got: i64"},
    {"f32[2] = aten::rand.names([2], names=[\"n\"])", "aten::rand.names with named dims is not supported"},
    // found in the elements, when the program runs
    {"f32[2] = aten::bernoulli(high)", "bernoulli expects all probabilities to be in [0, 1]"},
    {"f32[2] = aten::bernoulli(nans)", "bernoulli expects all probabilities to be in [0, 1]"},
    {"f32[2] = aten::normal.float_Tensor(0, low)", "normal expects all elements of std >= 0.0"},
    {"i64[1] = aten::multinomial(low, 1)", "probability tensor contains either `inf`, `nan` or element < 0"},
    {"i64[1] = aten::multinomial(nans, 1)", "probability tensor contains either `inf`, `nan` or element < 0"},
    {"i64[1] = aten::multinomial(x, 1)", "invalid multinomial distribution (sum of probabilities <= 0)"},
    {"f32[2] = aten::poisson(low)", "invalid Poisson rate, expected rate to be non-negative"},
};

TEST(Random, RefusesAsPyTorchDoes) {
  const std::string tensors =
      "  x: f32[2] = aten::zeros([2])\n  i: i64[2] = aten::zeros([2], dtype=dtype.i64)\n  low: f32[2] = aten::full([2], -1.0)\n"
      "  high: f32[2] = aten::full([2], 1.5)\n  nans: f32[2] = aten::full([2], nan)\n";
  for (const Refusal& row : kRefusals) {
    const std::string text = random_error_of([&] { drawn(tensors + "  y: " + row.node, "y"); });
    EXPECT_EQ(text, row.words) << row.node;
  }
}

}  // namespace
}  // namespace toroid
