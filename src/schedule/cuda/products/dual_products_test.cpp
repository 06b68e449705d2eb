// Which pairs of products with one left side become one kernel.
#include "schedule/cuda/products/dual_products.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

struct DualCase {
  const char* name;
  const char* steps;  // "dual 128x192": a product with both right sides, and its tiles; "call", "kernel"
  const char* graph;
};
void PrintTo(const DualCase& row, std::ostream* out) { *out << row.name; }

const DualCase kDuals[] = {
    {"a_gate_of_contiguous_columns", "dual 128x192", R"(
graph(x: bf16[4096, 2048], w: bf16[5632, 2048], v: bf16[5632, 2048]) {
  g: bf16[4096, 5632] = aten::linear(x, w)
  s: bf16[4096, 5632] = aten::silu(g)
  u: bf16[4096, 5632] = aten::linear(x, v)
  y: bf16[4096, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"a_gate_of_contiguous_rows", "dual 128x128", R"(
graph(x: bf16[4096, 2048], w: bf16[2048, 5632], v: bf16[2048, 5632]) {
  g: bf16[4096, 5632] = aten::mm(x, w)
  s: bf16[4096, 5632] = aten::silu(g)
  u: bf16[4096, 5632] = aten::mm(x, v)
  y: bf16[4096, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"a_gate_with_biases", "dual 128x128", R"(
graph(x: f16[2, 512, 1024], w: f16[3072, 1024], b: f16[3072], v: f16[3072, 1024], c: f16[3072]) {
  u: f16[2, 512, 3072] = aten::linear(x, v, c)
  g: f16[2, 512, 3072] = aten::linear(x, w, b)
  s: f16[2, 512, 3072] = aten::gelu(g)
  y: f16[2, 512, 3072] = aten::mul.Tensor(s, u)
  return y
})"},
    {"not_of_8_bit_floats_of_two_kinds", "kernel kernel call kernel call kernel", R"(
graph(x: f8e4m3fn[4096, 2048], w: f8e4m3fn[5632, 2048], v: f8e5m2[5632, 2048], s: f32[]) {
  a: f8e4m3fn[2048, 5632] = aten::t(w)
  b: f8e5m2[2048, 5632] = aten::t(v)
  g: bf16[4096, 5632] = aten::_scaled_mm(x, a, s, s, none, none, dtype.bf16)
  u: bf16[4096, 5632] = aten::_scaled_mm(x, b, s, s, none, none, dtype.bf16)
  y: bf16[4096, 5632] = aten::mul.Tensor(g, u)
  return y
})"},
    {"of_one_row_through_the_ring", "dual 8x16", R"(
graph(x: bf16[1, 2048], w: bf16[5632, 2048], v: bf16[5632, 2048]) {
  g: bf16[1, 5632] = aten::linear(x, w)
  s: bf16[1, 5632] = aten::silu(g)
  u: bf16[1, 5632] = aten::linear(x, v)
  y: bf16[1, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"of_one_row_behind_a_norm", "dual 8x16", R"(
graph(x: bf16[1, 576], w: bf16[269, 576], v: bf16[269, 576]) {
  n: bf16[1, 576] = aten::layer_norm(x, [576])
  g: bf16[1, 269] = aten::linear(n, w)
  s: bf16[1, 269] = aten::silu(g)
  u: bf16[1, 269] = aten::linear(n, v)
  y: bf16[1, 269] = aten::mul.Tensor(s, u)
  return y
})"},
    {"of_few_rows_beside_a_stationary_left_side", "dual 16x16", R"(
graph(x: bf16[12, 2048], w: bf16[5632, 2048], v: bf16[5632, 2048]) {
  g: bf16[12, 5632] = aten::linear(x, w)
  s: bf16[12, 5632] = aten::silu(g)
  u: bf16[12, 5632] = aten::linear(x, v)
  y: bf16[12, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"of_few_rows_in_registers", "dual 16x96", R"(
graph(x: bf16[12, 2048], w: bf16[5636, 2048], v: bf16[5636, 2048]) {
  g: bf16[12, 5636] = aten::linear(x, w)
  s: bf16[12, 5636] = aten::silu(g)
  u: bf16[12, 5636] = aten::linear(x, v)
  y: bf16[12, 5636] = aten::mul.Tensor(s, u)
  return y
})"},
    {"of_bytes", "dual 8x16", R"(
graph(x: bf16[3, 1024], w: i8[2048, 1024], v: i8[2048, 1024], s: bf16[2048]) {
  a: bf16[2048, 1024] = aten::to.dtype(w, dtype.bf16)
  b: bf16[2048, 1024] = aten::to.dtype(v, dtype.bf16)
  g: bf16[3, 2048] = aten::linear(x, a)
  h: bf16[3, 2048] = aten::mul.Tensor(g, s)
  u: bf16[3, 2048] = aten::linear(x, b)
  y: bf16[3, 2048] = aten::mul.Tensor(h, u)
  return y
})"},
    {"a_gate_that_is_read_again_stays", "call call kernel", R"(
graph(x: bf16[4096, 2048], w: bf16[5632, 2048], v: bf16[5632, 2048]) {
  g: bf16[4096, 5632] = aten::linear(x, w)
  s: bf16[4096, 5632] = aten::silu(g)
  u: bf16[4096, 5632] = aten::linear(x, v)
  y: bf16[4096, 5632] = aten::mul.Tensor(s, u)
  m: bf16[4096] = aten::amax(g, [1])
  return y, m
})"},
    {"other_left_sides_stay", "call call", R"(
graph(x: bf16[4096, 2048], z: bf16[4096, 2048], w: bf16[5632, 2048], v: bf16[5632, 2048]) {
  g: bf16[4096, 5632] = aten::linear(x, w)
  s: bf16[4096, 5632] = aten::silu(g)
  u: bf16[4096, 5632] = aten::linear(z, v)
  y: bf16[4096, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"elements_at_other_places_stay", "call call", R"(
graph(x: bf16[2048, 2048], w: bf16[2048, 2048], v: bf16[2048, 2048]) {
  g: bf16[2048, 2048] = aten::linear(x, w)
  t: bf16[2048, 2048] = aten::flip(g, [0])
  u: bf16[2048, 2048] = aten::linear(x, v)
  y: bf16[2048, 2048] = aten::mul.Tensor(t, u)
  return y
})"},
    {"right_sides_that_lie_otherwise_stay", "call call", R"(
graph(x: bf16[4096, 2048], w: bf16[5632, 2048], v: bf16[2048, 5632]) {
  g: bf16[4096, 5632] = aten::linear(x, w)
  s: bf16[4096, 5632] = aten::silu(g)
  u: bf16[4096, 5632] = aten::mm(x, v)
  y: bf16[4096, 5632] = aten::mul.Tensor(s, u)
  return y
})"},
    {"a_chain_of_products_stays", "call call", R"(
graph(x: bf16[2048, 2048], w: bf16[2048, 2048]) {
  g: bf16[2048, 2048] = aten::linear(x, w)
  u: bf16[2048, 2048] = aten::linear(x, g)
  y: bf16[2048, 2048] = aten::mul.Tensor(g, u)
  return y
})"},
};

class DualProductsOf : public testing::TestWithParam<DualCase> {};

TEST_P(DualProductsOf, MeetElementByElement) {
  Scheduled made = scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper));
  std::string text;
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    text += text.empty() ? "" : " ";
    text += call == nullptr                            ? "kernel"
            : is_dual_product(call->call) && call->gpu ? fmt::format("dual {}x{}", call->gpu->rows, call->gpu->columns)
                                                       : "call";
  }
  EXPECT_EQ(text, GetParam().steps);
  const std::string schedule = text_of_schedule(std::move(made));
  EXPECT_EQ(read_back(schedule), schedule);
}
INSTANTIATE_TEST_SUITE_P(Rows, DualProductsOf, testing::ValuesIn(kDuals), [](const auto& row) { return std::string(row.param.name); });

// `from` in the text of the first case's schedule is `to`.
std::string refusal(std::string_view from, std::string_view to) {
  std::string text = text_of_schedule(scheduled(kDuals[0].graph, cuda_planner(TensorCores::Hopper)));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << text;
  if (at == std::string::npos) return "";
  return error_of([&] { parse_schedule(text.replace(at, from.size(), to)); }).message();
}
TEST(DualProducts, AreRefusedWhereTheyHaveNoKernel) {
  EXPECT_EQ(refusal("product e0, e1", "product e0"), "30:3: only an epilogue takes products, one or two as there are");
  EXPECT_EQ(refusal("stages 4 cluster 1", "stages 4 cluster 2"), "30:3: tiles of a dual product that have no kernel");
  EXPECT_EQ(refusal("e1 = g~2[5632*i32 + i33]", "e1 = g~2[5632*i32 + i33 + 1]"),
            "30:3: an epilogue takes elements of two products at different places");
  EXPECT_EQ(refusal("    tiles 128 by 192 stages 4 cluster 1 pingpong\n", ""), "30:3: an epilogue for another device than its product");
}

// Both products' results are nowhere in memory, and the step reads what both read.
TEST(DualProducts, ReadBothRightSides) {
  const Scheduled made = scheduled(kDuals[0].graph, cuda_planner(TensorCores::Hopper));
  ASSERT_EQ(made.schedule.steps.size(), 1U);
  std::string names;
  for (BufferId id : reads_of(made.schedule.steps[0])) names += made.schedule.loops->buffer(id).name + " ";
  EXPECT_EQ(names, "x v w ");
  EXPECT_TRUE(made.schedule.lifetimes.empty());
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  const ProductAttempt attempt = as_product_of_tiles(*made.schedule.loops, call.call, call.outputs);
  ASSERT_TRUE(attempt.shape.has_value());
  EXPECT_EQ(tensor_maps(*attempt.shape, *call.gpu, true).size(), 3U);
  EXPECT_EQ(cuda_grid_of(*made.schedule.loops, made.schedule.steps[0]).blocks.value(), 32 * 59);  // tiles of 96 columns
}

}  // namespace
}  // namespace toroid::schedule
