// Functions that the prelude computes itself, beside those of doubles, in units in the last place: a sample of all floats. The limits are
// those of all.
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/machine/machine.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

struct Function {
  std::string name;
  double (*exact)(double);
  double limit, limit_without_fma;  // in units in the last place
};
void PrintTo(const Function& row, std::ostream* out) { *out << row.name; }

const Function kFunctions[] = {
    {"exp", std::exp, 0.91, 1.18},
    {"exp_normal", [](double x) { return x < -87.3f ? 0 : std::exp(x); }, 0.91, 1.18},
    {"erf", std::erf, 6.1, 7.1},
};

bool has_fma() {
#if defined(__x86_64__)
  return machine().isa.level >= IsaLevel::Avx2;
#else
  return true;
#endif
}

// Of floats near `exact`; denormal ones are equally far apart.
double unit_in_the_last_place(double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(1, std::max(exponent - 24, -149));
}

class Accuracy : public testing::TestWithParam<Function> {};
TEST_P(Accuracy, IsWithinItsLimitForFloatsOfAllSizes) {
  constexpr uint64_t kStep = 1021;
  constexpr int64_t kCount = (uint64_t{1} << 32) / kStep;
  const Function& function = GetParam();
  const std::string text = fmt::format("graph(x: f32[{0}]) {{\n  y = {1}(x)\n  return y\n}}", kCount, function.name);
  const CompiledModel model = compiled(text, codegen::Target::Cpu, 3);
  Executable executable = model.load(2);
  HostTensor x(DType::F32, {kCount});
  for (int64_t i = 0; i < kCount; ++i)
    x.mutable_data<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(static_cast<uint64_t>(i) * kStep));
  const HostTensor result = executable.run(std::vector<HostTensor>{x})[0];
  const auto* given = reinterpret_cast<const float*>(x.bytes().data());
  const auto* computed = reinterpret_cast<const float*>(result.bytes().data());
  double worst = 0;
  float where = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double exact = function.exact(given[i]);
    if (std::isnan(exact) || std::isinf(static_cast<float>(exact))) {
      const bool same = std::isnan(exact) ? std::isnan(computed[i]) : computed[i] == static_cast<float>(exact);
      ASSERT_TRUE(same) << function.name << " of " << given[i] << " is " << computed[i];
      continue;
    }
    const double error = std::fabs(computed[i] - exact) / unit_in_the_last_place(exact);
    ASSERT_FALSE(std::isnan(error)) << function.name << " of " << given[i] << " is " << computed[i];
    if (error > worst) worst = error, where = given[i];
  }
  EXPECT_LE(worst, has_fma() ? function.limit : function.limit_without_fma) << "of " << where;
  EXPECT_GT(worst, 0.5);  // or nothing was compared
}
INSTANTIATE_TEST_SUITE_P(Functions, Accuracy, testing::ValuesIn(kFunctions), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid
