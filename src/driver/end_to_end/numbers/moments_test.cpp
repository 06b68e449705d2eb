// Variances and deviations of numbers whose squares are no F32.
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

// The deviation and the variance of rows and of columns of values like these, as the evaluator has them in F64.
void expect_moments_as_evaluated(const std::vector<double>& magnitudes, codegen::Target target) {
  constexpr int64_t kRows = 24, kColumns = 37;
  const CompiledModel model = compiled(R"(
graph(x: f32[24, 37]) {
  a: f32[24] = aten::std.correction(x, [1])
  b: f32[37] = aten::std.correction(x, [0])
  c: f32[24] = aten::var.correction(x, [1])
  e: f32[] = aten::std.correction(x, [0, 1])
  q: f32[24, 1] = aten::unsqueeze(a, 1)
  r: f32[24, 37] = aten::div.Tensor(x, q)
  return a, b, c, e, r
})",
                                       target);
  Executable executable = model.load(1);
  const HostTensor noise = example_input("noise", DType::F32, {kRows, kColumns});
  for (double centre : {0.0, 100.0}) {
    std::vector<double> values;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      const double magnitude = magnitudes[static_cast<size_t>(i / kColumns) % magnitudes.size()];
      values.push_back((centre + noise.double_at(i)) * magnitude);
    }
    const std::vector<HostTensor> x = {HostTensor::from_doubles(DType::F32, {kRows, kColumns}, values)};
    const std::vector<HostTensor> results = executable.run(x), expected = evaluate(*model.program, x);
    for (size_t i = 0; i < results.size(); ++i) {
      for (int64_t k = 0; k < results[i].numel(); ++k) {
        const double found = results[i].double_at(k), exact = expected[i].double_at(k);
        const bool is_same = std::isnan(exact)   ? std::isnan(found)
                             : std::isinf(exact) ? found == exact
                                                 : std::abs(found - exact) <= 1e-5 * std::abs(exact) + 1e-44;
        ASSERT_TRUE(is_same) << model.program->graph.value(model.program->graph.outputs[i]).name << "[" << k << "] is " << found << ", not "
                             << exact << ", of magnitude " << magnitudes[0] << " about " << centre;
      }
    }
  }
}

class Moments : public testing::TestWithParam<codegen::Target> {};
TEST_P(Moments, AreThoseOfNumbersWhoseSquaresAreTooLarge) { expect_moments_as_evaluated({1e20, 1e30, 1e33}, GetParam()); }
TEST_P(Moments, AreThoseOfNumbersWhoseSquaresAreTooSmall) { expect_moments_as_evaluated({1e-25, 1e-21, 1e-18}, GetParam()); }
TEST_P(Moments, AreThoseOfRowsOfAllMagnitudes) { expect_moments_as_evaluated({1e20, 1, 1e-25, 0, 1e-12, 1e12}, GetParam()); }
INSTANTIATE_TEST_SUITE_P(Targets, Moments, testing::Values(codegen::Target::Cpu, codegen::Target::EmulatedCuda),
                         [](const auto& row) { return row.param == codegen::Target::Cpu ? "Cpu" : "EmulatedCuda"; });

}  // namespace
}  // namespace toroid
