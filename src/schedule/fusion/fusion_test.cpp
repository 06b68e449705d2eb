// Which steps common pieces of models become: the kernel counts that toroid promises.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/scheduled_for_test.h"
#include "support/golden_for_test.h"

namespace toroid::schedule {
namespace {

struct FusionCase {
  std::string name;
  std::string steps;  // kinds, in order
  std::string program;
};
void PrintTo(const FusionCase& row, std::ostream* out) { *out << row.name; }

// x doubled so often: a graph in which each node is used twice is no tree.
std::string doubled(int times) {
  std::string text = "graph(x: f32[64, 128]) {\n  m: f32[64, 1] = aten::amax(x, [1], true)\n  v0: f32[64, 128] = aten::sub.Tensor(x, m)\n";
  for (int i = 0; i < times; ++i) {
    text += fmt::format("  w{0}: f32[64, 128] = aten::sin(v{0})\n  v{1}: f32[64, 128] = aten::mul.Tensor(v{0}, w{0})\n", i, i + 1);
  }
  return text + fmt::format("  y: f32[64] = aten::sum.dim_IntList(v{}, [1])\n  return y\n}}", times);
}

const FusionCase kCases[] = {
    {"chain_of_values_used_twice", "kernel", doubled(60)},
    {"pointwise_chain", "kernel", R"(
graph(x: f32[64, 128], y: f32[128]) {
  a: f32[64, 128] = aten::mul.Tensor(x, y)
  b: f32[64, 128] = aten::exp(a)
  c: f32[64, 128] = aten::add.Tensor(b, x)
  d: f32[64, 128] = aten::tanh(c)
  return d
})"},
    {"softmax", "kernel", R"(
graph(x: f32[64, 1000]) {
  y: f32[64, 1000] = aten::softmax.int(x, -1)
  return y
})"},
    {"softmax_of_symbolic_sizes", "kernel", R"(
sym s0 in [2, 512]
sym s1 in [2, 4096]
graph(x: f32[s0, s1]) {
  y: f32[s0, s1] = aten::softmax.int(x, -1)
  return y
})"},
    {"softmax_along_the_first_dim", "kernel", R"(
graph(x: f32[1000, 64]) {
  y: f32[1000, 64] = aten::softmax.int(x, 0)
  return y
})"},
    {"log_softmax", "kernel", R"(
graph(x: f32[64, 1000]) {
  y: f32[64, 1000] = aten::log_softmax.int(x, 1)
  return y
})"},
    {"masked_softmax", "kernel", R"(
graph(x: f32[8, 64, 64], mask: bool[64, 64]) {
  hidden: bool[64, 64] = aten::bitwise_not(mask)
  scores: f32[8, 64, 64] = aten::masked_fill.Scalar(x, hidden, -inf)
  y: f32[8, 64, 64] = aten::softmax.int(scores, -1)
  return y
})"},
    {"layer_norm", "kernel", R"(
graph(x: f32[64, 768], w: f32[768], b: f32[768]) {
  y: f32[64, 768] = aten::layer_norm(x, [768], w, b)
  return y
})"},
    {"layer_norm_with_residual_and_gelu", "kernel", R"(
graph(x: f32[64, 768], r: f32[64, 768], w: f32[768], b: f32[768]) {
  s: f32[64, 768] = aten::add.Tensor(x, r)
  n: f32[64, 768] = aten::layer_norm(s, [768], w, b)
  y: f32[64, 768] = aten::gelu(n)
  return y, s
})"},
    {"layer_norm_of_bf16", "kernel", R"(
graph(x: bf16[64, 768], w: bf16[768], b: bf16[768]) {
  y: bf16[64, 768] = aten::layer_norm(x, [768], w, b)
  return y
})"},
    {"rms_norm", "kernel", R"(
graph(x: f32[64, 768], w: f32[768]) {
  y: f32[64, 768] = aten::rms_norm(x, [768], w)
  return y
})"},
    {"rms_norm_with_residual_and_silu", "kernel", R"(
graph(x: f32[64, 768], r: f32[64, 768], w: f32[768]) {
  s: f32[64, 768] = aten::add.Tensor(x, r)
  n: f32[64, 768] = aten::rms_norm(s, [768], w)
  y: f32[64, 768] = aten::silu(n)
  return y
})"},
    {"cross_entropy_of_each_row", "kernel", R"(
graph(x: f32[64, 1000], t: i64[64]) {
  y: f32[64] = aten::cross_entropy_loss(x, t, none, 0)
  return y
})"},
    {"mean_cross_entropy", "kernel", R"(
graph(x: f32[64, 1000], t: i64[64]) {
  y: f32[] = aten::cross_entropy_loss(x, t)
  return y
})"},
    // The forward and the backward pass are one kernel over rows; the weights' gradients are sums over columns.
    {"layer_norm_and_gelu_with_their_gradients", "kernel kernel", R"(
graph(x: f32[512, 256], w: f32[256], b: f32[256], g: f32[512, 256]) {
  n: f32[512, 256], m: f32[512, 1], r: f32[512, 1] = aten::native_layer_norm(x, [256], w, b, 1e-05)
  y: f32[512, 256] = aten::gelu(n)
  gn: f32[512, 256] = aten::gelu_backward(g, n)
  gx: f32[512, 256], gw: f32[256], gb: f32[256] = aten::native_layer_norm_backward(gn, x, [256], m, r, w, b, [true, true, true])
  return y, gx, gw, gb
})"},
    {"gradient_of_pooling_and_relu", "kernel", R"(
graph(x: f32[2, 8, 32, 32], g: f32[2, 8, 16, 16]) {
  p: f32[2, 8, 32, 32] = aten::avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], false, true, none)
  y: f32[2, 8, 32, 32] = aten::threshold_backward(p, x, 0)
  return y
})"},
    {"gradient_of_max_pooling", "kernel", R"(
graph(x: f32[2, 8, 32, 32], g: f32[2, 8, 16, 16], i: i64[2, 8, 16, 16]) {
  y: f32[2, 8, 32, 32] = aten::max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], false, i)
  return y
})"},
    {"two_reductions_of_one_input", "kernel", R"(
graph(x: f32[64, 1000]) {
  a: f32[64] = aten::sum.dim_IntList(x, [1])
  b: f32[64] = aten::amax(x, [1])
  return a, b
})"},
    {"a_reduction_and_its_broadcast_consumer", "kernel", R"(
graph(x: f32[64, 1000]) {
  m: f32[64, 1] = aten::mean.dim(x, [1], true)
  y: f32[64, 1000] = aten::sub.Tensor(x, m)
  return y
})"},
    {"a_reduction_of_rows_and_a_map_of_its_results", "kernel", R"(
graph(x: f32[64, 1000]) {
  m: f32[64] = aten::sum.dim_IntList(x, [1])
  y: f32[64] = aten::sqrt(m)
  return y
})"},
    {"transpose_and_add", "kernel", R"(
graph(x: f32[64, 128], y: f32[128, 64]) {
  t: f32[128, 64] = aten::t(x)
  z: f32[128, 64] = aten::add.Tensor(t, y)
  return z
})"},
    {"view_cat_and_pad", "kernel", R"(
graph(x: f32[8, 6], y: f32[4, 12]) {
  v: f32[4, 12] = aten::view(x, [4, 12])
  c: f32[4, 24] = aten::cat([v, y], 1)
  p: f32[4, 27] = aten::constant_pad_nd(c, [1, 2])
  r: f32[4, 27] = aten::relu(p)
  return r
})"},
    {"embedding_and_add", "kernel", R"(
graph(w: f32[1000, 64], ids: i64[8, 16], p: f32[16, 64]) {
  e: f32[8, 16, 64] = aten::embedding(w, ids)
  y: f32[8, 16, 64] = aten::add.Tensor(e, p)
  return y
})"},
    {"matmul_bias_gelu", "call+kernel", R"(
graph(x: f32[64, 128], w: f32[256, 128], b: f32[256]) {
  h: f32[64, 256] = aten::linear(x, w, b)
  y: f32[64, 256] = aten::gelu(h)
  return y
})"},
    // a and c iterate alike and share x, but c needs the product, which needs a: one kernel for both would wait for itself.
    {"a_kernel_does_not_wait_for_itself", "kernel call+kernel", R"(
graph(x: f32[64, 64]) {
  a: f32[64, 64] = aten::exp(x)
  b: f32[64, 64] = aten::mm(a, a)
  c: f32[64, 64] = aten::add.Tensor(x, b)
  return c
})"},
    {"convolution_bias_relu_residual", "call+kernel call kernel", R"(
graph(x: f32[2, 8, 10, 10], w: f32[16, 8, 3, 3], b: f32[16], r: f32[2, 16, 10, 10], v: f32[16, 16, 1, 1]) {
  h: f32[2, 16, 10, 10] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  s: f32[2, 16, 10, 10] = aten::relu(h)
  t: f32[2, 16, 10, 10] = aten::conv2d(s, v)
  u: f32[2, 16, 10, 10] = aten::mul.Tensor(t, s)
  y: f32[2] = aten::sum.dim_IntList(u, [1, 2, 3])
  return y
})"},
    // The planes of the output are not how the convolution makes it.
    {"a_convolutions_result_is_turned_by_a_kernel", "call kernel", R"(
graph(x: f32[1, 8, 10, 10], w: f32[16, 8, 3, 3]) {
  h: f32[1, 16, 8, 8] = aten::conv2d(x, w)
  y: f32[1, 16, 8, 8] = aten::relu(h)
  return y
})"},
    {"an_image_of_many_planes_is_turned_first", "kernel call kernel", R"(
graph(x: f32[1, 24, 10, 10], w: f32[16, 24, 3, 3]) {
  h: f32[1, 16, 8, 8] = aten::conv2d(x, w)
  y: f32[1, 16, 8, 8] = aten::relu(h)
  return y
})"},
    {"a_product_that_two_kernels_read_is_written", "call kernel kernel", R"(
graph(x: f32[64, 64], w: f32[64, 64]) {
  h: f32[64, 64] = aten::mm(x, w)
  a: f32[64, 64] = aten::relu(h)
  b: f32[64] = aten::sum.dim_IntList(h, [0])
  return a, b
})"},
    {"a_padded_product_is_written", "call kernel", R"(
graph(x: f32[64, 64], w: f32[64, 64]) {
  h: f32[64, 64] = aten::mm(x, w)
  y: f32[66, 64] = aten::constant_pad_nd(h, [0, 0, 1, 1])
  return y
})"},
    {"of_two_products_the_later_one_takes_the_epilogue", "call call+kernel", R"(
graph(x: f32[64, 64], w: f32[64, 64], v: f32[64, 64]) {
  a: f32[64, 64] = aten::mm(x, w)
  b: f32[64, 64] = aten::mm(x, v)
  s: f32[64, 64] = aten::silu(a)
  y: f32[64, 64] = aten::mul.Tensor(s, b)
  return y
})"},
    {"heads_of_a_product_of_symbolic_size", "call+kernel", R"(
sym s0 in [2, 512]
graph(x: f32[s0, 64], w: f32[96, 64], b: f32[96]) {
  h: f32[s0, 96] = aten::linear(x, w, b)
  y: f32[s0, 96] = aten::gelu(h)
  return y
})"},
    {"columns_and_rows_are_reduced_apart", "kernel kernel", R"(
graph(x: f32[64, 64]) {
  a: f32[64] = aten::sum.dim_IntList(x, [0])
  b: f32[64] = aten::sum.dim_IntList(x, [1])
  return a, b
})"},
};

class Fusion : public testing::TestWithParam<FusionCase> {};
TEST_P(Fusion, GivesTheseSteps) {
  try {
    const Scheduled result = scheduled(GetParam().program);
    EXPECT_EQ(kinds_of_steps(result.schedule), GetParam().steps) << to_string(result.schedule);
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Fusion, testing::ValuesIn(kCases), [](const auto& row) { return row.param.name; });

// Along the outermost dim whose index is an axis or, for rows that are worth looking for, read from a tensor.
TEST(Scatter, RunsInParallelAlongADim) {
  const Scheduled result = scheduled(R"(
graph(x: f32[64, 32], k: i64[64, 32], rows: i64[64], y: f32[64, 32], one: i64[32], w: f32[100, 256], z: f32[64, 256],
      t: f32[8, 100, 256], u: f32[8, 64, 256]) {
  a: f32[64, 32] = aten::scatter_add(x, 1, k, y)
  b: f32[64, 32] = aten::index_add(x, 0, rows, y)
  v: f32[32] = aten::sum.dim_IntList(x, [0])
  c: f32[32] = aten::index_add(v, 0, one, v)
  d: f32[100, 256] = aten::index_add(w, 0, rows, z)
  e: f32[8, 100, 256] = aten::index_copy(t, 1, rows, u)
  f: f32[64, 32] = aten::scatter_add(x, 0, k, y)
  return a, b, c, d, e, f
})");
  std::string text;
  for (const Step& step : result.schedule.steps) {
    const auto* scatter = std::get_if<ScatterKernel>(&step);
    if (scatter == nullptr) continue;
    if (!scatter->split) {
      text += "none\n";
      continue;
    }
    const bool is_axis = std::find(scatter->axes.begin(), scatter->axes.end(), scatter->split->index) != scatter->axes.end();
    text += fmt::format("dim {}, {}\n", scatter->split->dim, is_axis ? "an axis" : "read");
  }
  EXPECT_EQ(text, "dim 0, an axis\ndim 1, an axis\nnone\ndim 0, read\ndim 1, read\ndim 1, an axis\n");
}

TEST(Turns, AreForLongRowsOfLittleWork) {
  auto turns = [](std::string_view text) {
    const Scheduled result = scheduled(text);
    return std::get<Kernel>(result.schedule.steps.at(0)).stages.at(0).turns;
  };
  EXPECT_EQ(turns("graph(x: f32[64, 1000]) { y: f32[64] = aten::amax(x, [1]) return y }"), 4);
  EXPECT_EQ(turns("graph(x: f32[64, 100]) { y: f32[64] = aten::amax(x, [1]) return y }"), 1);
  EXPECT_EQ(turns("graph(x: f32[64, 1000]) { e: f32[64, 1000] = aten::exp(x) y: f32[64] = aten::amax(e, [1]) return y }"), 1);
  EXPECT_EQ(turns("graph(x: f32[1000, 64]) { y: f32[64] = aten::amax(x, [0]) return y }"), 1);
}

TEST(Lifetimes, SpanFromTheWriterToTheLastReader) {
  const Scheduled result = scheduled(R"(
graph(x: f32[64, 64]) {
  a: f32[64, 64] = aten::exp(x)
  b: f32[64, 64] = aten::mm(a, a)
  c: f32[64, 64] = aten::mm(b, a)
  d: f32[64, 64] = aten::mm(c, c)
  return d
})");
  ASSERT_EQ(kinds_of_steps(result.schedule), "kernel call call call");
  std::string text;
  for (const Lifetime& lifetime : result.schedule.lifetimes) {
    text += fmt::format("{}: {} to {}\n", result.schedule.loops->buffer(lifetime.buffer).name, lifetime.first_step, lifetime.last_step);
  }
  EXPECT_EQ(text, "a: 0 to 2\nb: 1 to 2\nc: 2 to 3\n");
}

// What goldens show is small: only shapes of loops, not of data.
const FusionCase kGoldens[] = {
    {"softmax", "", "graph(x: f32[4, 1000]) {\n  y: f32[4, 1000] = aten::softmax.int(x, -1)\n  return y\n}"},
    {"sum_of_columns", "", "graph(x: f32[1000, 64]) {\n  y: f32[64] = aten::sum.dim_IntList(x, [0])\n  return y\n}"},
    {"sum_of_everything", "", "graph(x: f32[4096, 4096]) {\n  y: f32[] = aten::sum(x)\n  return y\n}"},
    {"transpose_and_add", "",
     "graph(x: f32[64, 128], y: f32[128, 64]) {\n  t: f32[128, 64] = aten::t(x)\n  z: f32[128, 64] = "
     "aten::add.Tensor(t, y)\n"
     "  return z\n}"},
    {"embedding", "", "graph(w: f32[1000, 64], ids: i64[8, 16]) {\n  y: f32[8, 16, 64] = aten::embedding(w, ids)\n  return y\n}"},
};

class ScheduleText : public testing::TestWithParam<FusionCase> {};
TEST_P(ScheduleText, IsTheGoldens) {
  expect_golden(fmt::format("schedule/testdata/{}.schedule", GetParam().name), to_string(scheduled(GetParam().program).schedule));
}
INSTANTIATE_TEST_SUITE_P(Rows, ScheduleText, testing::ValuesIn(kGoldens), [](const auto& row) { return row.param.name; });

// Masks have the random state in common, which is no reason to draw them all with the first one.
TEST(Fusion, AMaskOfDropoutIsDrawnWhereItIsUsed) {
  const std::string text = to_string(scheduled(R"(
graph(x: f32[8, 256, 512], w: f32[512, 512], v: f32[512, 512]) {
  a: f32[8, 256, 512] = aten::matmul(x, w)
  b: f32[8, 256, 512], m: bool[8, 256, 512] = aten::native_dropout(a, 0.1, True)
  c: f32[8, 256, 512] = aten::matmul(b, v)
  d: f32[8, 256, 512], n: bool[8, 256, 512] = aten::native_dropout(c, 0.1, True)
  return d, m, n
})")
                                         .schedule);
  const size_t first = text.find("store m["), between = text.rfind("call "), second = text.find("store n[");
  ASSERT_NE(first, std::string::npos) << text;
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_LT(first, between) << text;
  EXPECT_LT(between, second) << text;
}

using Names = std::vector<std::string>;

// "stage: fetch buffer" and "around: buffer" of a program's first kernel.
Names fetches(std::string_view text) {
  const Scheduled result = scheduled(text);
  Names found;
  const Kernel& kernel = std::get<Kernel>(result.schedule.steps.at(0));
  for (BufferId each : kernel.streaming_stores) found.push_back(fmt::format("around: {}", result.schedule.loops->buffer(each).name));
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    for (const Fetch& each : kernel.stages[s].fetches) {
      found.push_back(fmt::format("{}: {} {}", s, to_string(each.to), result.schedule.loops->buffer(each.buffer).name));
    }
  }
  return found;
}

TEST(Fetches, GoWithTheStageThatComputesMuch) {
  EXPECT_EQ(fetches("graph(x: f32[64, 1000]) { y: f32[64, 1000] = aten::softmax.int(x, 1) return y }"),
            (Names{"1: fetch near x", "1: fetch to write y_out"}));
  // Rows that the first-level cache cannot hold together.
  EXPECT_EQ(fetches("graph(x: f32[64, 4000]) { y: f32[64, 4000] = aten::softmax.int(x, 1) return y }"),
            (Names{"1: fetch x", "1: fetch to write y_out"}));
  EXPECT_EQ(fetches("graph(x: f32[64, 5000]) { y: f32[64, 5000] = aten::softmax.int(x, 1) return y }"), Names{"1: fetch x"});
  // Short rows are a stream, and cheap stages leave no time.
  EXPECT_EQ(fetches("graph(x: f32[64, 100]) { y: f32[64, 100] = aten::softmax.int(x, 1) return y }"), Names{});
  EXPECT_EQ(fetches("graph(x: f32[64, 1000]) { s: f32[64, 1] = aten::sum.dim_IntList(x, [1], True) y: f32[64, 1000] = aten::div.Tensor(x, "
                    "s) return y }"),
            Names{});
}

TEST(Fetches, OfLargeTensorsGoAheadOfMuchComputing) {
  EXPECT_EQ(fetches("graph(x: f32[1024, 512], y: f32[512]) { a: f32[1024, 512] = aten::gelu(x) b: f32[1024, 512] = aten::mul.Tensor(a, y) "
                    "return b }"),
            Names{});
  EXPECT_EQ(fetches("graph(x: f32[128, 8192], y: f32[8192]) { a: f32[128, 8192] = aten::gelu(x) b: f32[128, 8192] = aten::mul.Tensor(a, y) "
                    "return b }"),
            Names{"0: fetch near x"});
  // Tiles that are turned come with what is read and written beside them.
  EXPECT_EQ(fetches("graph(x: f32[512, 1024], y: f32[1024, 512]) { t: f32[1024, 512] = aten::t(x) a: f32[1024, 512] = aten::add.Tensor(t, "
                    "y) return a }"),
            (Names{"0: fetch y", "0: fetch to write a_out"}));
  EXPECT_EQ(
      fetches(
          "graph(x: f32[128, 256], y: f32[256, 128]) { t: f32[256, 128] = aten::t(x) a: f32[256, 128] = aten::add.Tensor(t, y) return a }"),
      Names{});
  // What is small stays in a cache, and sums alone keep up with the processor's own fetching.
  EXPECT_EQ(fetches("graph(x: f32[128, 512]) { a: f32[128, 512] = aten::gelu(x) return a }"), Names{});
  EXPECT_EQ(fetches("graph(x: f32[128, 8192]) { a: f32[128, 8192] = aten::add.Tensor(x, x) return a }"), Names{});
}

TEST(Fetches, PlacesBeyondTheCachesAreWrittenAroundThem) {
  EXPECT_EQ(fetches("graph(x: f32[2048, 4096]) { a: f32[2048, 4096] = aten::add.Tensor(x, x) return a }"), Names{"around: a_out"});
  EXPECT_EQ(fetches("graph(x: f32[2047, 4096]) { a: f32[2047, 4096] = aten::add.Tensor(x, x) return a }"), Names{});
  EXPECT_EQ(fetches("graph(x: bf16[4096, 4096]) { a: bf16[4096, 4096] = aten::add.Tensor(x, x) return a }"), Names{"around: a_out"});
  // Their lines are not read before.
  EXPECT_EQ(fetches("graph(x: f32[9000, 1000]) { y: f32[9000, 1000] = aten::softmax.int(x, 1) return y }"),
            (Names{"around: y_out", "1: fetch near x"}));
  EXPECT_EQ(fetches("graph(x: f32[4096, 2048], y: f32[2048, 4096]) { t: f32[2048, 4096] = aten::t(x) a: f32[2048, 4096] = "
                    "aten::add.Tensor(t, y) return a }"),
            (Names{"around: a_out", "0: fetch y"}));
  // A size with a hint counts as that, one that only data tells as none.
  EXPECT_EQ(fetches("sym s0 in [1, 9000] hint 8000 graph(x: f32[s0, 4096]) { a: f32[s0, 4096] = aten::add.Tensor(x, x) return a }"),
            Names{"around: a_out"});
  EXPECT_EQ(fetches("sym s0 in [1, 9000] hint 80 graph(x: f32[s0, 4096]) { a: f32[s0, 4096] = aten::add.Tensor(x, x) return a }"), Names{});
  // Sums of rows are few.
  EXPECT_EQ(fetches("graph(x: f32[4096, 4096]) { s: f32[4096] = aten::sum.dim_IntList(x, [1]) return s }"), Names{});
}

}  // namespace
}  // namespace toroid::schedule
