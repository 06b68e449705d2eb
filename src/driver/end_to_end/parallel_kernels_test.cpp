// Kernels that are started together, compared with the evaluator.
#include "driver/end_to_end/compiled_for_test.h"

#include <fmt/format.h>

namespace toroid {
namespace {

constexpr std::string_view kUpdates = R"(
sym s0 in [2, 300] hint 200
graph(p: f32[150, 150], q: f32[s0, 100], r: f32[77], i: i64[90]) {
  x: f32[150, 150] = aten::exp(p)
  y: f32[s0, 100] = aten::sin(q)
  z: f32[77] = aten::cos(r)
  o: f32[90] = aten::index.Tensor(r, [i])
  a: f32[150, 150] = aten::flip(x, [0])
  u: f32[150, 150] = aten::add.Tensor(a, p)
  b: f32[s0, 100] = aten::flip(y, [0])
  v: f32[s0, 100] = aten::add.Tensor(b, q)
  return x, y, z, o, u, v
})";

std::vector<HostTensor> inputs_of(int64_t rows, int64_t place) {
  std::vector<HostTensor> inputs = {example_input("p", DType::F32, {150, 150}), example_input("q", DType::F32, {rows, 100}),
                                    example_input("r", DType::F32, {77}), HostTensor(DType::I64, {90})};
  std::fill_n(inputs[3].mutable_data<int64_t>(), 90, place);
  return inputs;
}

TEST(LaunchTogether, IsTheEvaluators) {
  for (const bool assertions : {false, true}) {
    const CompiledModel model = TestSession::get().compile(parse_text(kUpdates), {.assertions = assertions, .keep_program = true});
    EXPECT_EQ(model.kernel_calls, 6);
    for (const int threads : {1, 3}) {
      Executable executable = model.load(threads);
      for (const int64_t rows : {2, 200, 300}) {
        SCOPED_TRACE(fmt::format("{} rows, {} threads, assertions: {}", rows, threads, assertions));
        const std::vector<HostTensor> inputs = inputs_of(rows, 70), expected = evaluate(*model.program, inputs),
                                      actual = executable.run(inputs);
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(difference(actual[i], expected[i], {}), std::nullopt);
      }
    }
  }
}

// Of the kernels beside each other one finds an index that does not exist.
TEST(LaunchTogether, TellsOfErrors) {
  Executable executable = TestSession::get().compile(parse_text(kUpdates), {}).load(2);
  try {
    executable.run(inputs_of(200, 77));
    FAIL() << "an index beyond the tensor was taken";
  } catch (const Error& error) {
    EXPECT_NE(error.report().find("index"), std::string::npos) << error.report();
  }
}

}  // namespace
}  // namespace toroid
