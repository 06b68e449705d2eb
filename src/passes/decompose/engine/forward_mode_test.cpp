#include "passes/decompose/engine/forward_mode.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"

namespace toroid {
namespace {

// What is computed from `a` and `b`, both f64, each with a tangent.
struct DualBody {
  const char* name;
  const char* a;
  const char* b;
  std::string nodes;  // define y
  const char* result;
};

void PrintTo(const DualBody& body, std::ostream* out) { *out << body.name; }

// Of one argument: f64[6] between 0.1 and 0.9.
constexpr const char* kFunctions[] = {
    "neg",           "abs",     "sqrt",        "rsqrt",    "reciprocal", "exp",       "exp2",        "expm1",         "log",
    "log2",          "log10",   "log1p",       "sin",      "cos",        "tan",       "asin",        "acos",          "atan",
    "sinh",          "cosh",    "tanh",        "asinh",    "atanh",      "sigmoid",   "erf",         "erfc",          "erfinv",
    "lgamma",        "digamma", "special_i0e", "i0",       "special_i1", "floor",     "special_i1e", "special_ndtri", "special_log_ndtr",
    "special_erfcx", "gelu",    "silu",        "softplus", "relu",       "hardswish", "mish",        "special_entr",  "log_sigmoid",
    "frac",          "square",  "round"};

const DualBody kDualBodies[] = {
    {"sums and products", "3, 4", "4", "t: f64[3, 4] = aten::mul.Tensor(a, b)\n  y: f64[3, 4] = aten::sub.Tensor(t, a)", "3, 4"},
    {"quotient", "5", "5", "y: f64[5] = aten::div.Tensor(a, b)", "5"},
    {"power", "5", "5", "y: f64[5] = aten::pow.Tensor_Tensor(a, b)", "5"},
    {"power of a number", "5", "5", "y: f64[5] = aten::pow.Tensor_Scalar(a, 3)", "5"},
    {"remainder", "5", "5", "t: f64[5] = aten::mul.Scalar(a, 7)\n  y: f64[5] = aten::remainder.Tensor(t, b)", "5"},
    {"larger and smaller", "5", "5", "t: f64[5] = aten::maximum(a, b)\n  y: f64[5] = aten::minimum(t, a)", "5"},
    {"angle and length", "5", "5", "t: f64[5] = aten::atan2(a, b)\n  u: f64[5] = aten::hypot(a, b)\n  y: f64[5] = aten::add.Tensor(t, u)",
     "5"},
    {"choice", "5", "5", "t: bool[5] = aten::gt.Tensor(a, b)\n  u: f64[5] = aten::exp(a)\n  y: f64[5] = aten::where.self(t, u, b)", "5"},
    {"incomplete gamma", "5", "5", "t: f64[5] = aten::detach(a)\n  u: f64[5] = aten::mul.Tensor(t, t)\n  y: f64[5] = aten::igamma(u, b)",
     "5"},
    {"sum", "3, 4", "4", "y: f64[3] = aten::sum.dim_IntList(a, [1])", "3"},
    {"mean", "3, 4", "4", "y: f64[4] = aten::mean.dim(a, [0])", "4"},
    {"variance", "3, 4", "4", "y: f64[4] = aten::var.correction(a, [0])", "4"},
    {"product of all", "3, 4", "4", "y: f64[] = aten::prod(a)", ""},
    {"largest", "3, 4", "4", "y: f64[3] = aten::amax(a, [1])", "3"},
    {"least, and where", "3, 4", "4", "y: f64[4], i: i64[4] = aten::min.dim(a, 0)", "4"},
    {"norm", "3, 4", "4", "y: f64[3] = aten::linalg_vector_norm(a, 3, [1])", "3"},
    {"running sum", "3, 4", "4", "y: f64[3, 4] = aten::cumsum(a, 1)", "3, 4"},
    {"running product", "3, 4", "4", "y: f64[3, 4] = aten::cumprod(a, 0)", "3, 4"},
    {"running maximum", "3, 4", "4", "y: f64[3, 4], i: i64[3, 4] = aten::cummax(a, 1)", "3, 4"},
    {"running logarithm of a sum", "3, 4", "4", "y: f64[3, 4] = aten::logcumsumexp(a, 1)", "3, 4"},
    {"softmax", "3, 4", "4", "t: f64[3, 4] = aten::add.Tensor(a, b)\n  y: f64[3, 4] = aten::softmax.int(t, 0)", "3, 4"},
    {"layer norm", "3, 4", "4", "y: f64[3, 4] = aten::layer_norm(a, [4], b, b)", "3, 4"},
    {"sorted", "3, 4", "4", "y: f64[3, 4], i: i64[3, 4] = aten::sort(a, 1, true)", "3, 4"},
    {"first of the sorted", "3, 4", "4", "y: f64[3, 2], i: i64[3, 2] = aten::topk(a, 2)", "3, 2"},
    {"median", "3, 5", "4", "y: f64[3], i: i64[3] = aten::median.dim(a, 1)", "3"},
    {"turned and cut", "3, 4", "4", "t: f64[4, 3] = aten::t(a)\n  y: f64[2, 3] = aten::slice.Tensor(t, 0, 1, 4, 2)", "2, 3"},
    {"padded", "3, 4", "4", "y: f64[3, 7] = aten::constant_pad_nd(a, [1, 2], 5)", "3, 7"},
    {"joined", "3, 4", "4", "t: f64[1, 4] = aten::unsqueeze(b, 0)\n  y: f64[4, 4] = aten::cat([a, t], 0)", "4, 4"},
    {"diagonal", "3, 4", "4", "y: f64[3] = aten::diagonal(a)", "3"},
    {"rows by number", "3, 4", "4", "i: i64[2] = aten::arange.start(1, 3)\n  y: f64[2, 4] = aten::index_select(a, 0, i)", "2, 4"},
    {"added by number", "3, 4", "4", "i: i64[3] = aten::arange(3)\n  y: f64[3, 4] = aten::index_add(a, 0, i, a)", "3, 4"},
    {"matrices", "3, 4", "4, 2", "y: f64[3, 2] = aten::mm(a, b)", "3, 2"},
    {"linear", "3, 4", "2, 4", "t: f64[2] = aten::sum.dim_IntList(b, [1])\n  y: f64[3, 2] = aten::linear(a, b, t)", "3, 2"},
    {"images", "1, 2, 5", "3, 2, 2", "t: f64[3] = aten::sum.dim_IntList(b, [1, 2])\n  y: f64[1, 3, 4] = aten::conv1d(a, b, t)", "1, 3, 4"},
    {"pooled images", "1, 2, 6", "4", "y: f64[1, 2, 3] = aten::max_pool1d(a, [2])", "1, 2, 3"},
    {"attention", "1, 2, 3, 4", "1, 2, 3, 4", "y: f64[1, 2, 3, 4] = aten::scaled_dot_product_attention(a, b, a, none, 0.0, true)",
     "1, 2, 3, 4"},
    {"inverse", "3, 3", "4", "y: f64[3, 3] = aten::linalg_inv(a)", "3, 3"},
    {"determinant", "3, 3", "4", "y: f64[] = aten::linalg_det(a)", ""},
    {"logarithm of a determinant", "3, 3", "4", "t: f64[], y: f64[] = aten::linalg_slogdet(a)", ""},
    {"solution", "3, 3", "3, 2", "y: f64[3, 2] = aten::linalg_solve(a, b)", "3, 2"},
    {"solution from the right", "3, 3", "2, 3", "y: f64[2, 3] = aten::linalg_solve(a, b, false)", "2, 3"},
    {"spectrum", "3, 4", "4", "t: c128[3, 3] = aten::fft_rfft(a)\n  y: f64[3, 3] = aten::abs(t)", "3, 3"},
    {"of one alone", "3, 4", "4", "y: f64[4] = aten::sin(b)", "4"},
};

Program program(std::string_view text) {
  Program program = parse_text(text);
  decompose(program);
  verify(program, Level::Core);
  return program;
}

HostTensor numbers(const TensorType& type, uint32_t seed) {
  std::vector<int64_t> sizes;
  for (sym::Expr size : type.sizes) sizes.push_back(size.value());
  std::vector<double> elements;
  for (int64_t i = 0; i < numel(sizes); ++i) {
    seed = seed * 1664525u + 1013904223u;
    elements.push_back(0.1 + 0.8 * static_cast<double>(seed >> 16) / 65536);
  }
  return HostTensor::from_doubles(type.dtype, sizes, elements);
}

HostTensor moved(const HostTensor& x, const HostTensor& direction, double step) {
  std::vector<double> elements;
  for (int64_t i = 0; i < x.numel(); ++i) elements.push_back(x.double_at(i) + step * direction.double_at(i));
  return HostTensor::from_doubles(x.dtype(), x.sizes(), elements);
}

class ForwardMode : public testing::TestWithParam<DualBody> {};

// The tangent is the slope along the line through (a, b) in the tangents' direction.
TEST_P(ForwardMode, GivesTheSlopeOfWhatIsComputed) {
  const DualBody& body = GetParam();
  // What detach() ends is no part of the slope.
  const bool is_detached = body.nodes.find("detach") != std::string::npos;
  try {
    const Program duals = program(fmt::format(
        "graph(x: f64[{0}], v: f64[{1}], s: f64[{0}], r: f64[{1}]) {{\n  a: f64[{0}] = aten::_make_dual(x, s, 0)\n"
        "  b: f64[{1}] = aten::_make_dual(v, r, 0)\n  {2}\n  p: f64[{3}], q: f64[{3}] = aten::_unpack_dual(y, 0)\n  return p, q\n}}\n",
        body.a, body.b, body.nodes, body.result));
    const Program plain = program(fmt::format("graph(a: f64[{}], b: f64[{}]) {{\n  {}\n  return y\n}}\n", body.a, body.b, body.nodes));
    std::vector<HostTensor> inputs;
    for (ValueId id : duals.graph.inputs) inputs.push_back(numbers(duals.graph.type(id), static_cast<uint32_t>(inputs.size() + 1)));
    const std::vector<HostTensor> found = evaluate(duals, inputs);
    constexpr double kStep = 1e-6;
    auto at = [&](double step) {
      const std::vector<HostTensor> there = {moved(inputs[0], inputs[2], is_detached ? 0 : step), moved(inputs[1], inputs[3], step)};
      return evaluate(plain, there)[0];
    };
    const HostTensor here = at(0), ahead = at(kStep), behind = at(-kStep);
    for (int64_t i = 0; i < here.numel(); ++i) {
      EXPECT_NEAR(found[0].double_at(i), here.double_at(i), 1e-12 * (1 + std::abs(here.double_at(i)))) << i;
      const double slope = (ahead.double_at(i) - behind.double_at(i)) / (2 * kStep);
      EXPECT_NEAR(found[1].double_at(i), slope, 1e-7 * (1 + std::abs(slope))) << i;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

std::vector<DualBody> all_dual_bodies() {
  std::vector<DualBody> all(std::begin(kDualBodies), std::end(kDualBodies));
  for (const char* function : kFunctions) all.push_back({function, "6", "1", fmt::format("y: f64[6] = aten::{}(a)", function), "6"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bodies, ForwardMode, testing::ValuesIn(all_dual_bodies()), [](const auto& row) {
  std::string name = row.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == ','; }, '_');
  return name;
});

std::vector<double> results(std::string_view text, const std::vector<std::vector<double>>& inputs) {
  const Program compiled = program(text);
  std::vector<HostTensor> tensors;
  for (const std::vector<double>& input : inputs) tensors.push_back(HostTensor::from_doubles(DType::F64, {std::ssize(input)}, input));
  std::vector<double> all;
  for (const HostTensor& result : evaluate(compiled, tensors)) {
    for (int64_t i = 0; i < result.numel(); ++i) all.push_back(result.double_at(i));
  }
  return all;
}

TEST(ForwardModeLevels, AreApart) {
  // The derivative along r of the derivative of x^3 along s: 6 x s r.
  const char* second =
      "graph(x: f64[1], s: f64[1], r: f64[1]) {\n"
      "  outer: f64[1] = aten::_make_dual(x, r, 1)\n"
      "  inner: f64[1] = aten::_make_dual(outer, s, 2)\n"
      "  y: f64[1] = aten::pow.Tensor_Scalar(inner, 3)\n"
      "  p: f64[1], first: f64[1] = aten::_unpack_dual(y, 2)\n"
      "  q: f64[1], second: f64[1] = aten::_unpack_dual(first, 1)\n"
      "  return q, second\n}\n";
  EXPECT_EQ(results(second, {{2}, {5}, {7}}), (std::vector<double>{60, 420}));
  // Behind its level a result is a number: x^2 has no tangent in the second derivative, of x^2 * z.
  const char* closed =
      "graph(x: f64[1], s: f64[1], z: f64[1]) {\n"
      "  a: f64[1] = aten::_make_dual(x, s, 1)\n"
      "  y: f64[1] = aten::mul.Tensor(a, a)\n"
      "  p: f64[1], q: f64[1] = aten::_unpack_dual(y, 1)\n"
      "  b: f64[1] = aten::_make_dual(z, s, 1)\n"
      "  w: f64[1] = aten::mul.Tensor(p, b)\n"
      "  v: f64[1], r: f64[1] = aten::_unpack_dual(w, 1)\n"
      "  return q, r\n}\n";
  EXPECT_EQ(results(closed, {{3}, {2}, {10}}), (std::vector<double>{12, 18}));
}

TEST(ForwardModeValues, AreThoseOfPyTorchAtKinksAndZeros) {
  auto tangent = [](std::string_view nodes, std::vector<double> x) {
    const std::vector<double> ones(x.size(), 1);
    return results(fmt::format("graph(x: f64[{0}], s: f64[{0}]) {{\n  a: f64[{0}] = aten::_make_dual(x, s, 0)\n  {1}\n"
                               "  p: f64[{0}], q: f64[{0}] = aten::_unpack_dual(y, 0)\n  return q\n}}\n",
                               x.size(), nodes),
                   {x, ones});
  };
  EXPECT_EQ(tangent("y: f64[3] = aten::relu(a)", {-1, 0, 1}), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(tangent("y: f64[3] = aten::abs(a)", {-1, 0, 1}), (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(tangent("y: f64[3] = aten::pow.Tensor_Scalar(a, 2)", {-1, 0, 1}), (std::vector<double>{-2, 0, 2}));
  EXPECT_EQ(tangent("y: f64[4] = aten::cumprod(a, 0)", {2, 0, 3, 0}), (std::vector<double>{1, 2, 6, 0}));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(tangent("y: f64[4] = aten::logcumsumexp(a, 0)", {-kInf, 0, 1, 2})[0], 0);
  EXPECT_EQ(tangent("t: f64[] = aten::prod(a)\n  y: f64[3] = aten::expand(t, [3])", {2, 0, 3}), (std::vector<double>{6, 6, 6}));
  EXPECT_EQ(tangent("t: f64[] = aten::prod(a)\n  y: f64[3] = aten::expand(t, [3])", {0, 0, 3}), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(tangent("t: f64[3] = aten::detach(a)\n  y: f64[3] = aten::mul.Tensor(t, a)", {2, 3, 4}), (std::vector<double>{2, 3, 4}));
}

// Of numbers below a row's maximum by more than an exponential can tell.
TEST(ForwardModeValues, OfRunningLogarithmsAreThoseOfNumbersBeforeTheMaximum) {
  const char* text =
      "graph(x: f64[3], s: f64[3]) {\n  a: f64[3] = aten::_make_dual(x, s, 0)\n  y: f64[3] = aten::logcumsumexp(a, 0)\n"
      "  p: f64[3], q: f64[3] = aten::_unpack_dual(y, 0)\n  return q\n}\n";
  EXPECT_EQ(results(text, {{0, 900, 2000}, {1, -1, 1}}), (std::vector<double>{1, -1, 1}));
  EXPECT_EQ(results(text, {{0, 900, 2000}, {0, 0, 0}}), (std::vector<double>{0, 0, 0}));
}

TEST(ForwardModeRefusals, NameWhatHasNoRule) {
  auto refusal = [](std::string_view nodes) {
    return error_of([&] {
             program(
                 fmt::format("graph(x: f64[3, 3], s: f64[3, 3]) {{\n  a: f64[3, 3] = aten::_make_dual(x, s, 0)\n  {}\n"
                             "  p: f64[3, 3], q: f64[3, 3] = aten::_unpack_dual(y, 0)\n  return q\n}}\n",
                             nodes));
           })
        .report();
  };
  const std::string report = refusal("y: f64[3, 3] = aten::linalg_matrix_exp(a)");
  EXPECT_NE(report.find("error: the forward-mode derivative of linalg.matrix_exp is not supported"), std::string::npos) << report;
  EXPECT_NE(report.find("help: export the model with torch.export.export(…).run_decompositions({})"), std::string::npos) << report;
  const std::string bessel = refusal("y: f64[3, 3] = aten::special_bessel_j0(a)");
  EXPECT_NE(bessel.find("the forward-mode derivative of bessel_j0 is not supported"), std::string::npos) << bessel;
  const std::string in_place = refusal("y: f64[3, 3] = aten::mul_.Scalar(a, 2)");
  EXPECT_NE(in_place.find("an update in place of a tensor with a tangent"), std::string::npos) << in_place;
}

}  // namespace
}  // namespace toroid
