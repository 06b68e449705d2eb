// Which epilogues are post-operations, and which.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/cpu/post_ops.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

std::string place_text(const Schedule& schedule, const PostOps::Place& place) {
  std::string text = schedule.loops->buffer(place.buffer).name;
  if (!place.offset.is_const(0)) text += "+" + sym::to_string(place.offset);
  if (!place.row.is_const(0)) text += "[" + sym::to_string(place.row) + "]";
  return text;
}

// "x * scale + bias + residual[row] in [low, high] -> out[row]" of the program's last product; or "something else".
std::string post_ops_text(std::string_view text) {
  const Scheduled result = scheduled(text);
  std::string found = "no epilogue";
  for (const Step& step : result.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (call == nullptr || !call->epilogue) continue;
    const std::optional<PostOps> sum = post_ops_of(*result.schedule.loops, *call);
    if (!sum) {
      found = "something else";
      continue;
    }
    found = "x";
    if (sum->scale) found += " * " + place_text(result.schedule, *sum->scale);
    if (sum->bias) found += " + " + place_text(result.schedule, *sum->bias);
    if (sum->residual) found += " + " + place_text(result.schedule, *sum->residual);
    found += fmt::format(" in [{}, {}] -> {}", sum->low, sum->high, place_text(result.schedule, sum->out));
  }
  return found;
}

struct Case {
  std::string name, sum, program;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

const Case kPostOpCases[] = {
    {"linear", "x + b in [-inf, inf] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96]) {
  y: f32[32, 96] = aten::linear(x, w, b)
  return y
})"},
    {"linear_and_relu_of_any_size", "x + b in [0, inf] -> y_out[96]", R"(
sym s0 in [2, 512]
graph(x: f32[s0, 64], w: f32[96, 64], b: f32[96]) {
  h: f32[s0, 96] = aten::linear(x, w, b)
  y: f32[s0, 96] = aten::relu(h)
  return y
})"},
    {"linear_of_any_width", "x + b in [0, inf] -> y_out[s0]", R"(
sym s0 in [2, 512]
graph(x: f32[32, 64], w: f32[s0, 64], b: f32[s0]) {
  h: f32[32, s0] = aten::linear(x, w, b)
  y: f32[32, s0] = aten::relu(h)
  return y
})"},
    {"batch_norm_and_relu6", "x * s + t in [0, 6] -> h[24]", R"(
graph(x: f32[2, 16, 9, 9], w: f32[24, 16, 3, 3], s: f32[24, 1, 1], t: f32[24, 1, 1], v: f32[8, 24, 3, 3]) {
  c: f32[2, 24, 9, 9] = aten::conv2d(x, w, padding=[1, 1])
  a: f32[2, 24, 9, 9] = aten::mul.Tensor(c, s)
  b: f32[2, 24, 9, 9] = aten::add.Tensor(t, a)
  h: f32[2, 24, 9, 9] = aten::hardtanh(b, 0.0, 6.0)
  y: f32[2, 8, 9, 9] = aten::conv2d(h, v, padding=[1, 1])
  return y
})"},
    {"residual_and_relu", "x + b + r[96] in [0, inf] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96], r: f32[32, 96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  s: f32[32, 96] = aten::add.Tensor(r, h)
  y: f32[32, 96] = aten::relu(s)
  return y
})"},
    {"residual_alone", "x + r[96] in [-inf, inf] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[64, 96], r: f32[32, 96]) {
  h: f32[32, 96] = aten::mm(x, w)
  y: f32[32, 96] = aten::add.Tensor(h, r)
  return y
})"},
    {"a_part_of_a_residual", "x + r+7[200] in [-inf, inf] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[64, 96], r: f32[32, 200]) {
  h: f32[32, 96] = aten::mm(x, w)
  p: f32[32, 96] = aten::slice.Tensor(r, 1, 7, 103)
  y: f32[32, 96] = aten::add.Tensor(h, p)
  return y
})"},
    {"scale_alone", "x * s in [-inf, 1.5] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[64, 96], s: f32[96]) {
  h: f32[32, 96] = aten::mm(x, w)
  m: f32[32, 96] = aten::mul.Tensor(h, s)
  y: f32[32, 96] = aten::clamp(m, max=1.5)
  return y
})"},
    {"a_bias_of_a_row_and_another", "x + b + c in [-inf, inf] -> y_out", R"(
graph(x: f32[1, 64], w: f32[96, 64], b: f32[96], c: f32[1, 96]) {
  h: f32[1, 96] = aten::linear(x, w, b)
  y: f32[1, 96] = aten::add.Tensor(h, c)
  return y
})"},
    {"scale_and_residual_without_bias", "x * s + r[96] in [-inf, inf] -> y_out[96]", R"(
graph(x: f32[32, 64], w: f32[64, 96], s: f32[96], r: f32[32, 96]) {
  h: f32[32, 96] = aten::mm(x, w)
  m: f32[32, 96] = aten::mul.Tensor(h, s)
  y: f32[32, 96] = aten::add.Tensor(m, r)
  return y
})"},
    // Rounded in another order.
    {"bias_after_the_residual", "something else", R"(
graph(x: f32[32, 64], w: f32[64, 96], b: f32[96], r: f32[32, 96]) {
  h: f32[32, 96] = aten::mm(x, w)
  s: f32[32, 96] = aten::add.Tensor(h, r)
  y: f32[32, 96] = aten::add.Tensor(s, b)
  return y
})"},
    {"bias_before_the_scale", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96], s: f32[96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  y: f32[32, 96] = aten::mul.Tensor(h, s)
  return y
})"},
    {"a_residual_that_is_added_after_the_bound", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96], r: f32[32, 96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  s: f32[32, 96] = aten::relu(h)
  y: f32[32, 96] = aten::add.Tensor(s, r)
  return y
})"},
    {"three_additions", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96], r: f32[32, 96], q: f32[32, 96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  s: f32[32, 96] = aten::add.Tensor(h, r)
  y: f32[32, 96] = aten::add.Tensor(s, q)
  return y
})"},
    {"the_product_twice", "something else", R"(
graph(x: f32[32, 64], w: f32[64, 96]) {
  h: f32[32, 96] = aten::mm(x, w)
  y: f32[32, 96] = aten::mul.Tensor(h, h)
  return y
})"},
    {"another_activation", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  y: f32[32, 96] = aten::silu(h)
  return y
})"},
    {"a_number_a_row", "something else", R"(
graph(x: f32[32, 64], w: f32[64, 96], b: f32[32, 1]) {
  h: f32[32, 96] = aten::mm(x, w)
  y: f32[32, 96] = aten::add.Tensor(h, b)
  return y
})"},
    {"two_results", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  y: f32[32, 96] = aten::relu(h)
  return h, y
})"},
    {"rows_that_are_not_equally_far_apart", "something else", R"(
graph(x: f32[4, 8, 64], w: f32[96, 64], r: f32[8, 4, 96]) {
  h: f32[4, 8, 96] = aten::linear(x, w)
  t: f32[4, 8, 96] = aten::transpose.int(r, 0, 1)
  y: f32[4, 8, 96] = aten::add.Tensor(h, t)
  return y
})"},
    {"a_bias_of_each_row_of_images", "something else", R"(
graph(x: f32[4, 8, 64], w: f32[96, 64], r: f32[8, 96]) {
  h: f32[4, 8, 96] = aten::linear(x, w)
  y: f32[4, 8, 96] = aten::add.Tensor(h, r)
  return y
})"},
    {"a_result_of_16_bits", "something else", R"(
graph(x: bf16[32, 64], w: bf16[96, 64], b: bf16[96]) {
  y: bf16[32, 96] = aten::linear(x, w, b)
  return y
})"},
    {"a_depthwise_result_of_16_bits", "x in [0, 6] -> h[24]", R"(
graph(x: bf16[2, 24, 9, 9], w: bf16[24, 1, 3, 3], v: bf16[8, 24, 1, 1]) {
  c: bf16[2, 24, 9, 9] = aten::conv2d(x, w, padding=[1, 1], groups=24)
  h: bf16[2, 24, 9, 9] = aten::hardtanh(c, 0.0, 6.0)
  y: bf16[2, 8, 9, 9] = aten::conv2d(h, v)
  return y
})"},
    {"a_result_of_16_bits_of_all_channels", "something else", R"(
graph(x: bf16[2, 24, 9, 9], w: bf16[24, 24, 3, 3], v: bf16[8, 24, 1, 1]) {
  c: bf16[2, 24, 9, 9] = aten::conv2d(x, w, padding=[1, 1])
  h: bf16[2, 24, 9, 9] = aten::hardtanh(c, 0.0, 6.0)
  y: bf16[2, 8, 9, 9] = aten::conv2d(h, v)
  return y
})"},
    {"a_bound_that_is_nan", "something else", R"(
graph(x: f32[32, 64], w: f32[96, 64], b: f32[96]) {
  h: f32[32, 96] = aten::linear(x, w, b)
  y: f32[32, 96] = aten::clamp(h, nan)
  return y
})"},
};

class PostOperations : public testing::TestWithParam<Case> {};
TEST_P(PostOperations, AreRecognisedByWhatTheyCompute) {
  try {
    EXPECT_EQ(post_ops_text(GetParam().program), GetParam().sum) << to_string(scheduled(GetParam().program).schedule);
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PostOperations, testing::ValuesIn(kPostOpCases), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid::schedule
