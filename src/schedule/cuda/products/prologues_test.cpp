// Which kernels become prologues of the products that read their result.
#include "schedule/cuda/products/prologues.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct PrologueCase {
  const char* name;
  const char* graph;
  const char* steps;
};
void PrintTo(const PrologueCase& row, std::ostream* out) { *out << row.name; }

const PrologueCase kPrologues[] = {
    {"a_norm_of_two_products", R"(
graph(x: bf16[1, 2048], w: bf16[512, 2048], v: bf16[512, 2048]) {
  n: bf16[1, 2048] = aten::layer_norm(x, [2048])
  y: bf16[1, 512] = aten::linear(n, w)
  z: bf16[1, 512] = aten::linear(n, v)
  return y, z
})",
     "call with a prologue, call with a prologue"},
    {"what_others_read_is_made_once", R"(
graph(x: bf16[1, 2048], w: bf16[512, 2048]) {
  n: bf16[1, 2048] = aten::layer_norm(x, [2048])
  y: bf16[1, 512] = aten::linear(n, w)
  s: bf16[1, 2048] = aten::cumsum(n, 1)
  return y, s
})",
     "other, call, other, other"},
    {"what_the_caller_gets_is_made_once", R"(
graph(x: bf16[1, 2048], w: bf16[512, 2048]) {
  n: bf16[1, 2048] = aten::layer_norm(x, [2048])
  y: bf16[1, 512] = aten::linear(n, w)
  return y, n
})",
     "other, call"},
    {"several_rows_are_made_once", R"(
graph(x: bf16[2, 2048], w: bf16[512, 2048]) {
  n: bf16[2, 2048] = aten::layer_norm(x, [2048])
  y: bf16[2, 512] = aten::linear(n, w)
  return y
})",
     "other, call"},
    {"long_rows_are_made_once", R"(
graph(x: bf16[1, 16384], w: bf16[512, 16384]) {
  n: bf16[1, 16384] = aten::layer_norm(x, [16384])
  y: bf16[1, 512] = aten::linear(n, w)
  return y
})",
     "other, call"},
    {"of_a_right_side_there_is_none", R"(
graph(x: bf16[1, 2048], w: bf16[512, 2048], v: bf16[1, 2048]) {
  n: bf16[1, 2048] = aten::layer_norm(x, [2048])
  y: bf16[512, 1] = aten::linear(w, n)
  return y
})",
     "other, call"},
};

class Prologues : public testing::TestWithParam<PrologueCase> {};

TEST_P(Prologues, AreOfOneRow) {
  const Scheduled made = scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper));
  std::string text;
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    text += text.empty() ? "" : ", ";
    text += call == nullptr ? "other" : call->prologue ? "call with a prologue" : "call";
  }
  EXPECT_EQ(text, GetParam().steps);
}
INSTANTIATE_TEST_SUITE_P(Rows, Prologues, testing::ValuesIn(kPrologues), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace toroid::schedule
