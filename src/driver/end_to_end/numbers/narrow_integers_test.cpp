// Integers of 8 and 16 bits become wider ones and floats, and wider ones become narrow, a vector at a time: with each instruction set the
// same as in the evaluator. Rows of 37 have whole vectors and a part of one.
#include "base/environment_for_test.h"
#include "base/machine/machine.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kNarrow[] = {"i8", "u8", "i16"};
constexpr std::string_view kWide[] = {"i64", "f64", "i32", "f32"};

std::string conversions() {
  std::string inputs, steps, results;
  const auto result = [&](std::string_view name, std::string_view dtype, std::string_view sizes, const std::string& value) {
    steps += fmt::format("  {}: {}[{}] = {}\n", name, dtype, sizes, value);
    results += fmt::format("{}{}", results.empty() ? "" : ", ", name);
  };
  for (const std::string_view narrow : kNarrow) {
    inputs += fmt::format("{}x_{}: {}[5, 37]", inputs.empty() ? "" : ", ", narrow, narrow);
    for (const std::string_view wide : kWide) {
      result(fmt::format("{}_{}", narrow, wide), wide, "5, 37", fmt::format("aten::to.dtype(x_{}, dtype.{})", narrow, wide));
    }
    result(fmt::format("columns_{}", narrow), "i64", "37", fmt::format("aten::sum.dim_IntList(x_{}, [0])", narrow));
    result(fmt::format("rows_{}", narrow), "i64", "5", fmt::format("aten::sum.dim_IntList(x_{}, [1])", narrow));
  }
  for (const std::string_view wide : {"i32", "i64"}) {
    inputs += fmt::format(", w_{}: {}[5, 37]", wide, wide);
    for (const std::string_view narrow : kNarrow) {
      result(fmt::format("{}_{}", wide, narrow), narrow, "5, 37", fmt::format("aten::to.dtype(w_{}, dtype.{})", wide, narrow));
    }
    result(fmt::format("more_{}", wide), "bool", "5, 37", fmt::format("aten::gt.Scalar(w_{}, 0)", wide));
  }
  return fmt::format("graph({}) {{\n{}  return {}\n}}\n", inputs, steps, results);
}

TEST(NarrowIntegers, AreTheEvaluatorsWithEachInstructionSet) {
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (parse_isa(isa).level > machine().isa.level) continue;
    SCOPED_TRACE(isa);
    const ScopedVariable variable("TOROID_ISA", isa);
    CompileSession session(false);
    const CompiledModel model = session.compile(parse_text(conversions()), {.keep_program = true});
    const std::vector<HostTensor> inputs = example_inputs(*model.program, {});
    const std::vector<HostTensor> expected = evaluate(*model.program, inputs);
    Executable executable = model.load();
    const std::vector<HostTensor> outputs = executable.run(inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(difference(outputs[i], expected[i], {}), std::nullopt) << model.program->graph.value(model.program->graph.outputs[i]).name;
    }
  }
}

}  // namespace
}  // namespace toroid
