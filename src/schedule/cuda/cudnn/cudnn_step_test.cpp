// Which steps cuDNN may compute, and what it is asked for.
#include "schedule/cuda/cudnn/cudnn_step.h"

#include <gtest/gtest.h>

#include "library/cudnn_calls.h"
#include "schedule/cuda/ways/ways.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

Scheduled on(TensorCores cores, std::string_view text) {
  return scheduled(text, cuda_planner(cores), {.convolutions_as_loops = true, .convolutions_in_tiles = true});
}

struct StepCase {
  const char* name;
  // "mul value0 input2, add value1 input3, relu value2", "gradient of filters", "attention", or why not.
  const char* expected;
  const char* graph;
};
void PrintTo(const StepCase& row, std::ostream* out) { *out << row.name; }

const StepCase kCudnnSteps[] = {
    {"batch_norm_residual_and_relu", "mul value0 input2, add value1 input3, add value2 input4, relu value3", R"(
graph(x: bf16[4, 64, 28, 28], w: bf16[64, 64, 3, 3], s: bf16[64, 1, 1], b: bf16[64, 1, 1], v: bf16[64, 64, 1, 1], r: bf16[4, 64, 28, 28] strides [50176, 1, 1792, 64]) {
  y: bf16[4, 64, 28, 28] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  m: bf16[4, 64, 28, 28] = aten::mul.Tensor(y, s)
  a: bf16[4, 64, 28, 28] = aten::add.Tensor(m, b)
  c: bf16[4, 64, 28, 28] = aten::add.Tensor(a, r)
  z: bf16[4, 64, 28, 28] = aten::relu(c)
  q: bf16[4, 64, 28, 28] = aten::conv2d(z, v)
  return q
})"},
    {"relu6_and_silu", "relu value0 number0, sigmoid value1, mul value1 value2", R"(
graph(x: f16[4, 64, 28, 28], w: f16[64, 64, 3, 3], v: f16[64, 64, 1, 1]) {
  y: f16[4, 64, 28, 28] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  m: f16[4, 64, 28, 28] = aten::hardtanh(y, 0.0, 6.0)
  s: f16[4, 64, 28, 28] = aten::silu(m)
  q: f16[4, 64, 28, 28] = aten::conv2d(s, v)
  return q
})"},
    {"without_an_epilogue", "", R"(
graph(x: bf16[64, 512, 7, 7], w: bf16[512, 512, 3, 3]) {
  y: bf16[64, 512, 7, 7] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  return y
})"},
    {"other_bounds", "an epilogue with other bounds than those of a relu", R"(
graph(x: bf16[4, 64, 28, 28], w: bf16[64, 64, 3, 3], v: bf16[64, 64, 1, 1]) {
  y: bf16[4, 64, 28, 28] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  m: bf16[4, 64, 28, 28] = aten::hardtanh(y, -1.0, 1.0)
  q: bf16[4, 64, 28, 28] = aten::conv2d(m, v)
  return q
})"},
    {"results_in_planes", "a result whose channels do not lie next to each other", R"(
graph(x: bf16[64, 256, 28, 28], w: bf16[256, 256, 3, 3]) {
  y: bf16[64, 256, 28, 28] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  z: bf16[64, 256, 28, 28] = aten::relu(y)
  return z
})"},
    {"any_number_of_images", "its sizes are no numbers", R"(
sym s0 in [1, 256] hint 64
graph(x: bf16[s0, 64, 56, 56], w: bf16[64, 64, 3, 3], v: bf16[64, 64, 1, 1]) {
  y: bf16[s0, 64, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  z: bf16[s0, 64, 56, 56] = aten::relu(y)
  q: bf16[s0, 64, 56, 56] = aten::conv2d(z, v)
  return q
})"},
    {"gradient_of_filters", "gradient of filters", R"(
graph(x: bf16[8, 64, 28, 28], g: bf16[8, 64, 28, 28], w: bf16[64, 64, 3, 3]) {
  i: bf16[8, 64, 28, 28], d: bf16[64, 64, 3, 3], b: bf16[64] = aten::convolution_backward(g, x, w, [64], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false])
  return d
})"},
    {"attention", "attention", R"(
graph(q: bf16[2, 8, 256, 64], k: bf16[2, 4, 256, 64], v: bf16[2, 4, 256, 64]) {
  y: bf16[2, 8, 256, 64] = aten::scaled_dot_product_attention(q, k, v, none, 0.0, true, enable_gqa=true)
  return y
})"},
    {"attention_with_a_mask", "no step of cuDNN's", R"(
graph(q: bf16[2, 4, 256, 64], k: bf16[2, 4, 256, 64], v: bf16[2, 4, 256, 64], m: bf16[256, 256]) {
  y: bf16[2, 4, 256, 64] = aten::scaled_dot_product_attention(q, k, v, m)
  return y
})"},
    {"wide_attention", "no step of cuDNN's", R"(
graph(q: bf16[2, 4, 256, 96], k: bf16[2, 4, 256, 96], v: bf16[2, 4, 256, 96]) {
  y: bf16[2, 4, 256, 96] = aten::scaled_dot_product_attention(q, k, v)
  return y
})"},
};

std::string text_of(cudnn_calls::PointRef ref) {
  constexpr std::string_view kKinds[] = {"value", "input", "number", ""};
  return ref.kind == cudnn_calls::PointRef::Kind::None ? "" : fmt::format("{}{}", kKinds[static_cast<size_t>(ref.kind)], ref.index);
}

std::string epilogue_of(const CudnnCall& call, size_t dims) {
  constexpr std::string_view kNames[] = {"add",  "mul",     "sub", "div", "relu", "exp",   "erf",
                                         "tanh", "sigmoid", "neg", "abs", "sqrt", "rsqrt", "reciprocal"};
  static_assert(std::size(kNames) == cudnn_calls::kNumPointOps);
  std::string text;
  const auto number = [&](size_t at) { return call.integers.at(at).value(); };
  for (size_t i = 0; i < static_cast<size_t>(number(3 * dims)); ++i) {
    const size_t at = 3 * dims + 1 + i * cudnn_calls::kOperationIntegers;
    const std::string second = text_of(cudnn_calls::PointRef::decoded(number(at + 2)));
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", kNames[static_cast<size_t>(number(at))],
                        text_of(cudnn_calls::PointRef::decoded(number(at + 1))), second.empty() ? "" : " ", second);
  }
  return text;
}

// Of the first step that is a convolution, a gradient or attention.
std::string asked_of(const Scheduled& made) {
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (call == nullptr) continue;
    if (may_be_cudnn_attention(*made.schedule.loops, *call)) return "attention";
    if (!call->gpu) continue;
    const CudnnAttempt attempt = as_cudnn_call(*made.schedule.loops, *call);
    if (!attempt.call) return std::string(attempt.reason);
    return attempt.call->name == cudnn_calls::kFilterGradient ? "gradient of filters" : epilogue_of(*attempt.call, 2);
  }
  return "no step of cuDNN's";
}

class CudnnCalls : public testing::TestWithParam<StepCase> {};
TEST_P(CudnnCalls, AskForWhatFollowsToo) {
  for (const TensorCores cores : {TensorCores::Hopper, TensorCores::Warps}) {
    // Without TMA results in planes are made by another kernel.
    if (cores == TensorCores::Warps && std::string_view(GetParam().name) == "results_in_planes") continue;
    EXPECT_EQ(asked_of(on(cores, GetParam().graph)), GetParam().expected);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, CudnnCalls, testing::ValuesIn(kCudnnSteps), [](const auto& row) { return row.param.name; });

TEST(CudnnWay, IsAChoiceOfTheStepThatReadsBack) {
  Scheduled made = on(TensorCores::Hopper, kCudnnSteps[0].graph);
  for (Step& step : made.schedule.steps) {
    for (const Way& way : ways_of(*made.schedule.loops, step, TensorCores::Hopper, true)) {
      if (way.name != "cudnn") continue;
      EXPECT_EQ(std::get<CallStep>(way.step).choice, "cudnn");
      EXPECT_EQ(std::get<CallStep>(only_by_cudnn(way.step)).choice, "only-cudnn");
      step = way.step;
      break;
    }
  }
  const std::string text = to_string(made.schedule);
  EXPECT_NE(text.find("choice \"cudnn\"\n"), std::string::npos) << text;
}

TEST(CudnnWay, HasTheOwnKernelBehindIt) {
  for (const std::string_view own : {"", "flash", "flash-hopper"}) {
    for (const Cudnn how : {Cudnn::First, Cudnn::Only}) {
      EXPECT_EQ(cudnn_of(with_cudnn(how, own)), how);
      EXPECT_EQ(without_cudnn(with_cudnn(how, own)), own);
    }
    EXPECT_EQ(cudnn_of(own), Cudnn::Never);
  }
}

TEST(CudnnWay, IsNoneUnlessAskedFor) {
  Scheduled made = on(TensorCores::Hopper, kCudnnSteps[0].graph);
  for (const Step& step : made.schedule.steps) {
    for (const Way& way : ways_of(*made.schedule.loops, step)) EXPECT_NE(way.name, "cudnn");
  }
}

}  // namespace
}  // namespace toroid::schedule
