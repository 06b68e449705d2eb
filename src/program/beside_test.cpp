// Which collective operations run beside kernels, what waits for them, how long their memory stays theirs, and that a text which says
// otherwise is refused.
#include "program/beside.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "program/made_for_test.h"
#include "program/text.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::program {
namespace {

Made for_gpu(std::string_view text, bool profile = false) {
  schedule::Scheduled scheduled = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper));
  Made result{std::move(scheduled.program), {}, {}};
  result.graphs.push_back({std::move(scheduled.schedule), std::move(scheduled.outputs)});
  result.module = make_module(result.graphs, result.program, {.device = Device::Cuda, .profile = profile});
  return result;
}

// A letter for each step: c of a collective operation, C of one beside others, k of a kernel, and before one that waits for how many.
std::string steps_of(const Made& made) {
  std::string text;
  for (const Step& step : made.module.main.steps) {
    if (step.awaits > 0) text += fmt::format("{}", step.awaits);
    const bool is_call = !step.instructions.empty() && std::holds_alternative<LibraryCall>(step.instructions.back());
    text += step.is_beside ? 'C' : is_call ? 'c' : 'k';
  }
  return text;
}

// Two halves of a batch, of which the first goes on.
constexpr std::string_view kHalves = R"(
graph(x: f32[64, 512], y: f32[64, 512]) {
  a: f32[64, 512] = aten::softmax.int(x, 1)
  b: f32[64, 512] = _c10d_functional::all_reduce(a, "sum", "0")
  c: f32[64, 512] = aten::softmax.int(y, 1)
  d: f32[64, 512] = _c10d_functional::all_reduce(c, "sum", "0")
  e: f32[64, 512] = aten::softmax.int(b, 1)
  f: f32[64, 512] = _c10d_functional::all_reduce(e, "sum", "0")
  g: f32[64, 512] = aten::softmax.int(d, 1)
  return f, g
})";

TEST(Beside, IsWhatKernelsDoNotWaitFor) {
  const Made halves = for_gpu(kHalves);
  EXPECT_EQ(steps_of(halves), "kCkC1kC2k") << module_text(halves.program, halves.graphs, halves.module);
  EXPECT_EQ(fault_of_beside(halves.graphs, halves.module), std::nullopt);
  // One behind the other.
  EXPECT_EQ(steps_of(for_gpu(R"(
graph(x: f32[64, 512]) {
  a: f32[64, 512] = _c10d_functional::all_reduce(x, "sum", "0")
  b: f32[64, 512] = _c10d_functional::all_reduce(a, "sum", "0")
  c: f32[64, 512] = aten::softmax.int(b, 1)
  return c
})")),
            "cck");
  EXPECT_EQ(steps_of(for_gpu(kHalves, true)).find('C'), std::string::npos) << "steps are timed one by one";
}

// Kernels of both halves are neither one kernel nor one launch: the first would wait for the second's operation.
TEST(Beside, NothingIsFusedOverAnOperation) {
  const Made alike = for_gpu(R"(
graph(x: f32[64, 512], w: f32[64, 512]) {
  a: f32[64, 512] = _c10d_functional::all_reduce(x, "sum", "0")
  b: f32[64, 512] = aten::mul.Tensor(x, w)
  c: f32[64, 512] = _c10d_functional::all_reduce(b, "sum", "0")
  d: f32[64, 512] = aten::mul.Tensor(a, w)
  e: f32[64, 512] = _c10d_functional::all_reduce(d, "sum", "0")
  f: f32[64, 512] = aten::mul.Tensor(c, w)
  return e, f
})");
  EXPECT_EQ(steps_of(alike), "CkC1kC2k") << module_text(alike.program, alike.graphs, alike.module);
}

TEST(Beside, KeepsItsMemoryUntilItHasEnded) {
  const Made made = for_gpu(kHalves);
  const std::vector<Step>& steps = made.module.main.steps;
  for (size_t s : {size_t{1}, size_t{3}}) {
    const auto& call = std::get<LibraryCall>(steps[s].instructions[0]);
    for (const schedule::Lifetime& each : made.module.temporaries) {
      const size_t waiting = s == 1 ? 4 : 6;
      if (each.buffer == call.inputs[0].buffer) {
        EXPECT_EQ(each.last_step, waiting - 1);
      }
    }
  }
}

TEST(Beside, ReadsBackAndIsChecked) {
  const Made made = for_gpu(kHalves);
  const std::string text = module_text(made.program, made.graphs, made.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
  const auto fault_with = [&](std::string_view what, std::string_view other) {
    std::string changed = text;
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    changed.replace(at, what.size(), other);
    return error_of([&] { parse_module(changed); }).message();
  };
  EXPECT_NE(fault_with(" awaits 1", "").find("step 4 has to wait for step 1, which is beside it"), std::string::npos);
  EXPECT_NE(fault_with(" awaits 2", " awaits 4").find("step 6 awaits 4 steps beside others, of which 3 are before it"), std::string::npos);
}

}  // namespace
}  // namespace toroid::program
