// Reductions, softmax, scans and sorting.
#include <limits>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kReductions[] = {
    {"aten::sum.dim_IntList(x0, [1])", {"f32[2, 2] = [1, 2, 3, 4]"}, {"f32[2] = [3, 7]"}},
    {"aten::sum.dim_IntList(x0, [1], true)", {"f32[2, 0] = []"}, {"f32[2, 1] = [0, 0]"}},
    {"aten::sum(x0)", {"bool[3] = [true, false, true]"}, {"i64[] = [2]"}},
    {"aten::sum.dim_IntList(x0, [0], true)", {"f32[] = [5]"}, {"f32[] = [5]"}},
    // BF16 alone would stay at 256.
    {"aten::sum(x0)", {"bf16[3] = [256, 1, 1]"}, {"bf16[] = [258]"}},
    {"aten::mean.dim(x0, [0])", {"f32[2, 2] = [1, 2, 3, 4]"}, {"f32[2] = [2, 3]"}},
    {"aten::nanmean(x0)", {"f32[3] = [1, nan, 3]"}, {"f32[] = [2]"}},
    {"aten::prod.dim_int(x0, 0)", {"i64[2, 2] = [1, 2, 3, 4]"}, {"i64[2] = [3, 8]"}},
    {"aten::amax(x0, [0, 1])", {"f32[2, 2] = [1, nan, 3, 4]"}, {"f32[] = [nan]"}},
    {"aten::max.dim(x0, 1)", {"f32[2, 2] = [2, 2, 3, 4]"}, {"f32[2] = [2, 4]", "i64[2] = [0, 1]"}},
    {"aten::argmin(x0)", {"f32[2, 2] = [2, 2, 1, 4]"}, {"i64[] = [2]"}},
    {"aten::argmax(x0, 0, true)", {"f32[2, 2] = [2, 2, 1, 4]"}, {"i64[1, 2] = [0, 1]"}},
    {"aten::all.dim(x0, 0)", {"u8[2] = [1, 0]"}, {"u8[] = [0]"}},
    {"aten::var.correction(x0, [0])", {"f32[4] = [1, 2, 3, 4]"}, {"f32[] = [1.6666667]"}},
    {"aten::var_mean.correction(x0, correction=0)", {"f32[2, 2] = [1, 2, 3, 4]"}, {"f32[] = [1.25]", "f32[] = [2.5]"}},
    {"aten::std(x0, false)", {"f32[2] = [1, 3]"}, {"f32[] = [1]"}},
    {"aten::var(x0)", {"f32[1] = [1]"}, {"f32[] = [nan]"}},
    {"aten::linalg_vector_norm(x0)", {"f32[2] = [3, 4]"}, {"f32[] = [5]"}},
    {"aten::linalg_vector_norm(x0, 0)", {"f32[3] = [3, 0, 4]"}, {"f32[] = [2]"}},
    {"aten::norm.ScalarOpt_dim(x0, 3, [0])", {"f32[2, 1] = [1, 2]"}, {"f32[1] = [2.0800838]"}},
    {"aten::dist(x0, x1, inf)", {"f32[2] = [1, 5]", "f32[2] = [2, 2]"}, {"f32[] = [3]"}},
    {"aten::renorm(x0, 2, 0, 1)", {"f32[2, 2] = [3, 4, 0.3, 0.4]"}, {"f32[2, 2] = [0.6, 0.8, 0.3, 0.4]"}},
    {"aten::count_nonzero.dim_IntList(x0, [1])", {"f32[2, 2] = [0, 0.5, nan, 4]"}, {"i64[2] = [1, 2]"}},
    {"aten::sum_to_size(x0, [1, 2])", {"f32[3, 1, 2] = [1, 2, 3, 4, 5, 6]"}, {"f32[1, 2] = [9, 12]"}},
};

const OperatorCase kSoftmax[] = {
    {"aten::softmax.int(x0, -1)", {"f32[2] = [1000, 1000]"}, {"f32[2] = [0.5, 0.5]"}},
    {"aten::softmax.int(x0, 0)", {"f32[] = [3]"}, {"f32[] = [1]"}},
    {"aten::log_softmax.int(x0, 1)", {"f32[1, 2] = [0, 0]"}, {"f32[1, 2] = [-0.6931472, -0.6931472]"}},
    {"aten::_safe_softmax(x0, 0)", {"f32[2] = [-inf, -inf]"}, {"f32[2] = [0, 0]"}},
    {"aten::logsumexp(x0, [0])", {"f32[2, 2] = [0, -inf, 0, -inf]"}, {"f32[2] = [0.6931472, -inf]"}},
};

const OperatorCase kScans[] = {
    {"aten::cumsum(x0, 0)", {"i64[3] = [1, 2, 3]"}, {"i64[3] = [1, 3, 6]"}},
    {"aten::cummax(x0, 0)", {"f32[3] = [1, 3, 2]"}, {"f32[3] = [1, 3, 3]", "i64[3] = [0, 1, 1]"}},
    {"aten::logcumsumexp(x0, 0)", {"f32[2] = [0, 0]"}, {"f32[2] = [0, 0.6931472]"}},
    {"aten::diff(x0, 2)", {"i64[4] = [1, 4, 9, 16]"}, {"i64[2] = [2, 2]"}},
    {"aten::trapezoid.x(x0, x1)", {"f32[3] = [1, 2, 3]", "f32[3] = [0, 1, 3]"}, {"f32[] = [6.5]"}},
    {"aten::trapezoid.x(x0, x1)", {"f32[3] = [1, 2, 3]", "u8[3] = [2, 1, 3]"}, {"f32[] = [387.5]"}},
    {"aten::trapezoid.x(x0, x1)", {"u8[2] = [200, 100]", "f32[2] = [0, 1]"}, {"f32[] = [22]"}},
    {"aten::trapezoid.dx(x0, dx=2)", {"f32[2, 3] = [1, 2, 4, 3, inf, 5]"}, {"f32[2] = [9, inf]"}},
    {"aten::trapezoid.dx(x0)", {"f32[2] = [inf, 1]"}, {"f32[] = [nan]"}},
    {"aten::trapezoid.dx(x0)", {"i64[1] = [-9223372036854775808]"}, {"f32[] = [-9.223372e18]"}},
    {"aten::trapezoid.dx(x0)", {"i8[2] = [100, 100]"}, {"f32[] = [228]"}},
    {"aten::trapezoid.dx(x0)", {"i64[2, 0] = []"}, {"i64[2] = [0, 0]"}},
    {"aten::cumulative_trapezoid.dx(x0, dx=2)", {"f32[3] = [1, 2, 3]"}, {"f32[2] = [3, 8]"}},
    {"aten::cumulative_trapezoid.dx(x0)",
     {"i64[5] = [1, 2, -9223372036854775808, -9223372036854775808, 5]"},
     {"f32[4] = [1.5, -4.6116860e18, -4.6116860e18, -9.2233720e18]"}},
    {"aten::cumulative_trapezoid.dx(x0)", {"u8[3] = [200, 100, 250]"}, {"f32[2] = [22, 69]"}},
    {"aten::cumulative_trapezoid.x(x0, x1)",
     {"i64[3] = [4611686018427387904, 0, 4611686018427387904]", "i64[3] = [0, 1, 2]"},
     {"f32[2] = [2.305843e18, -4.6116860e18]"}},
    {"aten::gradient.scalarint(x0)", {"f32[4] = [0, 1, 4, 9]"}, {"f32[4] = [1, 2, 4, 5]"}},
    {"aten::gradient.tensorarrayint(x0, spacing=[x1])", {"f32[4] = [1, 2, 4, 8]", "f32[4] = [0, 1, 3, 7]"}, {"f32[4] = [1, 1, 1, 1]"}},
};

const OperatorCase kSorting[] = {
    {"aten::sort(x0, descending=true)", {"f32[3] = [1, nan, 2]"}, {"f32[3] = [nan, 2, 1]", "i64[3] = [1, 2, 0]"}},
    {"aten::topk(x0, 2)", {"i64[3] = [5, 7, 6]"}, {"i64[2] = [7, 6]", "i64[2] = [1, 2]"}},
    {"aten::kthvalue(x0, 2)", {"f32[3] = [3, 1, 2]"}, {"f32[] = [2]", "i64[] = [2]"}},
    {"aten::median(x0)", {"f32[4] = [4, 1, 3, 2]"}, {"f32[] = [2]"}},
    {"aten::median.dim(x0, 0)", {"f32[3] = [4, nan, 3]"}, {"f32[] = [nan]", "i64[] = [1]"}},
    {"aten::nanmedian.dim(x0, 0)", {"f32[3] = [4, nan, 3]"}, {"f32[] = [3]", "i64[] = [2]"}},
    {"aten::mode(x0)", {"i64[5] = [3, 1, 3, 1, 2]"}, {"i64[] = [1]", "i64[] = [3]"}},
    {"aten::mode(x0)", {"f32[5] = [3, nan, 2, nan, 3]"}, {"f32[] = [3]", "i64[] = [4]"}},
    {"aten::mode(x0)", {"f32[3] = [nan, 1, nan]"}, {"f32[] = [nan]", "i64[] = [2]"}},
    {"aten::searchsorted.Tensor(x0, x1)", {"f32[3] = [1, 3, 5]", "f32[4] = [0, 3, 6, nan]"}, {"i64[4] = [0, 1, 3, 3]"}},
    {"aten::searchsorted.Tensor(x0, x1, right=true)", {"f32[3] = [1, 3, 5]", "f32[2] = [0, 3]"}, {"i64[2] = [0, 2]"}},
    {"aten::searchsorted.Tensor(x0, x1)", {"f32[5] = [1, 2, 3, 4, nan]", "f32[5] = [0, 2, 3.5, 9, nan]"}, {"i64[5] = [0, 1, 5, 5, 5]"}},
    {"aten::cosine_similarity(x0, x1, 0)", {"f32[2] = [inf, 1]", "f32[2] = [1, 1]"}, {"f32[] = [nan]"}},
    {"aten::cosine_similarity(x0, x0, 0)", {"f32[1] = [1e19]"}, {"f32[] = [1]"}},
    {"aten::cosine_similarity(x0, x0, 0)", {"f32[2] = [0, 0]"}, {"f32[] = [0]"}},
    {"aten::cosine_similarity(x0, x0, 0)", {"f16[2] = [0, 0]"}, {"f16[] = [nan]"}},
    {"aten::multi_margin_loss(x0, x1)", {"f32[2, 2] = [nan, 1, 1, 1]", "i64[2] = [1, 0]"}, {"f32[] = [0.25]"}},
    {"aten::bucketize.Tensor(x0, x1, out_int32=true)", {"i64[2] = [2, 9]", "i64[2] = [1, 4]"}, {"i32[2] = [1, 2]"}},
    {"aten::histc(x0, 2, 0, 2)", {"f32[4] = [0, 1, 2, 5]"}, {"f32[2] = [1, 2]"}},
};

class Reductions : public testing::TestWithParam<OperatorCase> {};
TEST_P(Reductions, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, Reductions, testing::ValuesIn(kReductions));
INSTANTIATE_TEST_SUITE_P(Softmax, Reductions, testing::ValuesIn(kSoftmax));
INSTANTIATE_TEST_SUITE_P(Scans, Reductions, testing::ValuesIn(kScans));
INSTANTIATE_TEST_SUITE_P(Sorting, Reductions, testing::ValuesIn(kSorting));

// With NaNs in a row the probes of PyTorch's search decide what it finds.
TEST(Reductions, SearchesOfASymbolicSizeProbeAsPyTorchDoes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> rows = {1, nan, 2, 3, nan, 0, 0, 1, 1, 2, 4, nan}, values = {1, nan, 2.5, 1, nan, 9};
  const std::vector<std::pair<std::string, std::vector<int64_t>>> cases = {
      {"aten::searchsorted.Tensor(x, v)", {2, 6, 3, 1, 6, 6}},
      {"aten::searchsorted.Tensor(x, v, right=true)", {2, 6, 3, 3, 6, 6}},
      {"aten::bucketize.Tensor(v, r)", {2, 6, 3, 2, 6, 6}},
  };
  for (DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    for (const auto& [line, expected] : cases) {
      SCOPED_TRACE(fmt::format("{} of {}", line, to_string(dtype)));
      const std::string name(to_string(dtype));
      Program program =
          parse_text(fmt::format("program \"case\"\nsym s0 in [2, 512]\ngraph(x: {0}[2, s0], v: {0}[2, 3]) {{\n"
                                 "  r: {0}[s0] = aten::select.int(x, 0, 0)\n  y: i64[2, 3] = {1}\n  return y\n}}\n",
                                 name, line));
      decompose(program);
      const HostTensor inputs[] = {HostTensor::from_doubles(dtype, {2, 6}, rows), HostTensor::from_doubles(dtype, {2, 3}, values)};
      const HostTensor found = evaluate(program, inputs)[0];
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found.double_at(static_cast<int64_t>(i)), static_cast<double>(expected[i]));
    }
  }
}

TEST(Reductions, SoftmaxIsThreeReductionsDeepWithoutCopies) {
  Program program = parse_text("program \"case\"\ngraph(x: f32[4, 8]) {\n  y: f32[4, 8] = aten::softmax.int(x, -1)\n  return y\n}\n");
  decompose(program);
  std::vector<std::string> ops;
  for (const Node& node : program.graph.nodes()) {
    if (!std::holds_alternative<Reshape>(node.op) && !std::holds_alternative<Expand>(node.op)) ops.push_back(to_string(node.op));
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"input(0)", "reduce.max(dims=[1])", "sub", "exp_normal", "reduce.sum(dims=[1])", "reciprocal",
                                           "mul"}));
}

}  // namespace
}  // namespace toroid
