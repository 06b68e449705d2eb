// Assertion builds: an access out of bounds is named, whatever kind of load or store it is, and a sound program computes what it should.
//
// The bugs are planted by telling the code generator, behind the back of the schedule, that a buffer has fewer elements than it has.
#include <functional>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "codegen/wrapper/generate.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "driver/pipeline/generated_variant.h"
#include "schedule/scheduled_for_test.h"

namespace toroid {
namespace {

struct AccessCase {
  std::string name;
  std::string program;
  std::string buffer;    // whose size is planted
  int64_t elements = 0;  // that it is said to have
  int64_t found = 0;     // the element beyond that is accessed first
};
void PrintTo(const AccessCase& row, std::ostream* out) { *out << row.name; }

// Runs the program, compiled with assertions.
std::vector<HostTensor> run_with_assertions(const std::string& text, const std::function<void(loop::LoopProgram&)>& plant) {
  schedule::Scheduled scheduled = schedule::scheduled(text);
  plant(*scheduled.schedule.loops);
  std::vector<schedule::ScheduledGraph> graphs;
  graphs.push_back({std::move(scheduled.schedule), std::move(scheduled.outputs)});
  const std::vector<HostTensor> inputs = example_inputs(scheduled.program);
  program::Module module = program::make_module(graphs, scheduled.program, {.assertions = true});
  codegen::GeneratedProgram code = codegen::generate(std::move(module), graphs, scheduled.program);
  std::vector<GeneratedVariant> variants;
  variants.push_back({{}, std::move(scheduled.program), std::move(code)});
  const ConstantTable constants(variants);
  std::vector<std::string> units = {variants[0].code.units.at(0) + tables_text(variants, constants)};
  codegen::add_prelude(units, *variants[0].code.unit_prelude);
  return Executable(TestSession::get().toolchain().compile_shared(units[0]), {}, nullptr, "planted", 1).run(inputs);
}

const AccessCase kAccesses[] = {
    {"vector", R"(
graph(x: f32[100]) {
  y: f32[100] = aten::relu(x)
  return y
})",
     "x", 90, 90},
    {"bfloat16", R"(
graph(x: bf16[100]) {
  y: bf16[100] = aten::relu(x)
  return y
})",
     "x", 90, 90},
    {"store", R"(
graph(x: f32[100]) {
  y: f32[100] = aten::relu(x)
  return y
})",
     "y_out", 90, 90},
    {"gathered", R"(
graph(x: f32[20, 7]) {
  c: f32[20] = aten::select.int(x, 1, 3)
  y: f32[20] = aten::relu(c)
  return y
})",
     "x", 100, 101},
    {"backward", R"(
graph(x: f32[100]) {
  r: f32[100] = aten::flip(x, [0])
  y: f32[100] = aten::relu(r)
  return y
})",
     "x", 98, 99},
    {"every_second", R"(
graph(x: f32[100]) {
  s: f32[50] = aten::slice.Tensor(x, 0, 0, 100, 2)
  y: f32[50] = aten::relu(s)
  return y
})",
     "x", 97, 98},
    {"repeated", R"(
graph(x: f32[1, 1, 40]) {
  u: f32[1, 1, 80] = aten::upsample_nearest1d(x, [80])
  y: f32[1, 1, 80] = aten::relu(u)
  return y
})",
     "x", 39, 39},
    {"masked", R"(
graph(x: f32[40]) {
  y: f32[46] = aten::constant_pad_nd(x, [3, 3], 1.0)
  return y
})",
     "x", 30, 30},
    {"turned_tile", R"(
graph(x: f32[64, 96], y: f32[96, 64]) {
  t: f32[96, 64] = aten::permute(x, [1, 0])
  z: f32[96, 64] = aten::add.Tensor(t, y)
  return z
})",
     "x", 6143, 6143},
    {"indexed", R"(
graph(w: f32[3, 4], ids: i64[8]) {
  e: f32[8, 4] = aten::embedding(w, ids)
  y: f32[8, 4] = aten::relu(e)
  return y
})",
     "w", 4, 4},
    {"scattered_base", R"(
graph(x: f32[3, 16], ids: i64[4], y: f32[4, 16]) {
  z: f32[3, 16] = aten::index_add(x, 0, ids, y)
  return z
})",
     "x", 47, 47},
    {"running", R"(
graph(x: f32[50]) {
  y: f32[50] = aten::cumsum(x, 0)
  return y
})",
     "x", 49, 49},
    {"reduced", R"(
graph(x: f32[5, 100]) {
  y: f32[5] = aten::sum.dim_IntList(x, [1])
  return y
})",
     "x", 499, 499},
    {"shared_sum", R"(
graph(x: f32[200000]) {
  y: f32[] = aten::sum(x)
  return y
})",
     "x", 199999, 199999},
    {"epilogue", R"(
graph(x: f32[8, 16], w: f32[32, 16], b: f32[32]) {
  h: f32[8, 32] = aten::linear(x, w, b)
  y: f32[8, 32] = aten::gelu(h)
  return y
})",
     "b", 31, 31},
};

class Accesses : public testing::TestWithParam<AccessCase> {};

TEST_P(Accesses, AreNamedWhenOutOfBounds) {
  const AccessCase& row = GetParam();
  const Error error = error_of([&] {
    run_with_assertions(row.program, [&](loop::LoopProgram& loops) {
      for (loop::Buffer& each : loops.buffers) {
        if (each.name != row.buffer) continue;
        each.sizes = {row.elements};
        each.strides = {1};
      }
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::Internal);
  EXPECT_EQ(error.message(), fmt::format("a kernel accesses element {} of '{}', which has {}", row.found, row.buffer, row.elements));
  EXPECT_NE(error.report().find("in kernel '"), std::string::npos) << error.report();
  EXPECT_NE(error.report().find("(aten::"), std::string::npos) << error.report();
}

TEST_P(Accesses, WithinBoundsPass) {
  const AccessCase& row = GetParam();
  const std::vector<HostTensor> outputs = run_with_assertions(row.program, [](loop::LoopProgram&) {});
  Program program = schedule::scheduled(row.program).program;
  const std::vector<HostTensor> expected = evaluate(program, example_inputs(program));
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = true}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Rows, Accesses, testing::ValuesIn(kAccesses), [](const auto& row) { return row.param.name; });

TEST(Assertions, StridedInputsReachToTheirLastElement) {
  const std::string text = R"(
graph(x: f32[4, 5] strides [1, 10]) {
  y: f32[4, 5] = aten::relu(x)
  return y
})";
  const CompiledModel model = TestSession::get().compile(parse_text(text), {.assertions = true, .keep_program = true});
  const std::vector<HostTensor> inputs = example_inputs(*model.program);
  EXPECT_EQ(difference(model.load(1).run(inputs)[0], evaluate(*model.program, inputs)[0], {}), std::nullopt);
}

}  // namespace
}  // namespace toroid
