// Kernels for AMD's GPUs: compiled for this processor with waves of 64 and of 32 threads they give what the evaluator gives; clang takes
// them for the GPUs; and their elementary functions, which are toroid's own, are those of the C library to a few units in the last place.
#include <cmath>

#include "base/error_for_test.h"
#include "base/file/loaded_library.h"
#include "codegen/cuda/prelude.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "driver/gpu_binaries.h"
#include "driver/pipeline/generate.h"

namespace toroid {
namespace {

const ProgramCase kRocmPrograms[] = {
    {"rows_columns_and_transposes", R"(
graph(x: f32[5, 48], y: f32[3, 3000], z: bf16[70, 66], c: f32[600, 40], h: f16[4, 9]) {
  a: f32[5, 48] = aten::softmax.int(x, 1)
  b: f32[3] = aten::var.correction(y, [1], correction=1)
  d: f32[3] = aten::amax(y, [1])
  e: i64[3] = aten::argmax(y, 1)
  t: bf16[66, 70] = aten::t(z)
  u: bf16[66, 70] = aten::mul.Tensor(t, t)
  s: f32[40] = aten::sum.dim_IntList(c, [0])
  q: i64[40] = aten::argmin(c, 0)
  g: f16[4, 9] = aten::gelu(h)
  return a, b, d, e, u, s, q, g
})"},
    {"scans_and_orders", R"(
graph(x: f32[3, 700], n: i64[2, 50], y: f64[2, 40000], b: bool[90], h: bf16[1, 9000]) {
  a: f32[3, 700] = aten::cumsum(x, 1)
  c: i64[2, 50] = aten::cumsum(n, 0)
  d: f64[2, 40000] = aten::cumsum(y, 1)
  v: f32[3, 700], at: i64[3, 700] = aten::sort(x, 1)
  m: i64[2, 50], of: i64[2, 50] = aten::sort(n, 1, True)
  w: bf16[1, 9000], to: bf16[1, 9000] = aten::cummax(h, 1)
  k: f32[3, 5], p: i64[3, 5] = aten::topk(x, 5)
  return a, c, d, v, at, m, of, k, p
})"},
    {"digits_of_long_rows", R"(
graph(x: f32[1, 20000], h: f16[2, 9000]) {
  v: f32[1, 20000], at: i64[1, 20000] = aten::sort(x, 1)
  w: f16[2, 64], to: i64[2, 64] = aten::topk(h, 64)
  m: f16[2], of: i64[2] = aten::median.dim(h, 1)
  return v, at, w, to, m, of
})"},
    {"products_and_scatters", R"(
graph(x: f32[3, 70, 33], y: f32[3, 33, 130], p: f64[9, 20], q: f64[20, 5], h: bf16[17, 64], w: bf16[40, 64], i: i64[2000], s: f32[2000]) {
  a: f32[3, 70, 130] = aten::bmm(x, y)
  b: f64[9, 5] = aten::mm(p, q)
  c: bf16[17, 40] = aten::linear(h, w)
  z: f32[3] = aten::new_zeros(s, [3])
  d: f32[3] = aten::index_add(z, 0, i, s)
  return a, b, c, d
})"},
    {"functions", R"(
graph(x: f32[64], d: f64[64], p: f64[20]) {
  a: f32[64] = aten::exp(x)
  b: f32[64] = aten::sin(x)
  c: f32[64] = aten::tanh(x)
  e: f64[64] = aten::pow.Tensor_Scalar(d, 3.5)
  f: f64[64] = aten::erf(d)
  g: f64[20] = aten::lgamma(p)
  h: f64[20] = aten::digamma(p)
  j: f32[64] = aten::log1p(x)
  k: f64[64] = aten::fmod.Tensor(d, d)
  return a, b, c, e, f, g, h, j, k
})"},
};

class EmulatedRocm : public testing::TestWithParam<std::tuple<ProgramCase, std::string>> {};

TEST_P(EmulatedRocm, ComputesAsTheEvaluator) {
  const auto& [program, architecture] = GetParam();
  expect_as_evaluated(program.text, program.calls, 2, codegen::Target::EmulatedRocm, {architecture});
}

// What waves have to do with runs with both.
INSTANTIATE_TEST_SUITE_P(WavesOf64, EmulatedRocm, testing::Combine(testing::ValuesIn(kRocmPrograms), testing::Values("gfx90a")),
                         [](const auto& each) { return std::get<0>(each.param).name; });
INSTANTIATE_TEST_SUITE_P(WavesOf32, EmulatedRocm,
                         testing::Combine(testing::ValuesIn(kRocmPrograms, kRocmPrograms + 2), testing::Values("gfx1100")),
                         [](const auto& each) { return std::get<0>(each.param).name; });

// By clang, where there is one that knows the GPU.
TEST(RocmKernels, AreCompiledForTheGpu) {
  const CompileModelOptions options = {.target = codegen::Target::Rocm, .architectures = {"gfx90a"}};
  const codegen::GeneratedProgram code = generate_code(parse_text(kRocmPrograms[0].text), options, 1);
  ASSERT_FALSE(code.gpu_units.empty());
  try {
    const CudaBinary binary = compile_for_gpu(code.gpu_units[0], "gfx90a", "kernels");
    EXPECT_EQ(binary.bytes.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_NE(binary.bytes.find("_kernel.kd"), std::string::npos);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) throw;
    GTEST_SKIP() << error.report();
  }
}

TEST(RocmArchitectures, AreThoseOfAmd) {
  const auto parse = [](std::string_view list) { return parse_architectures(list, codegen::Target::Rocm); };
  EXPECT_EQ(parse("gfx90a,gfx942,gfx1100,gfx90a"), (std::vector<std::string>{"gfx90a", "gfx942", "gfx1100"}));
  for (const char* none : {"sm_90a", "gfx803", "gfx", "gfx90", "gfx90z", "gfx1300", "gfx90a:xnack+"}) {
    const Error error = error_of([&] { parse(none); });
    EXPECT_EQ(error.message(), fmt::format("'{}' is no architecture of AMD's", none));
    EXPECT_EQ(error.help_text(), "write gfx90a, gfx942, gfx1100 or another one of gfx9 to gfx12, as in --arch gfx90a,gfx942");
  }
  EXPECT_EQ(wave_of("gfx90a"), 64);
  EXPECT_EQ(wave_of("gfx942"), 64);
  EXPECT_EQ(wave_of("gfx1030"), 32);
  EXPECT_EQ(wave_of("gfx1100"), 32);
}

// ---- elementary functions

struct OwnFunction {
  const char* name;
  bool takes_two, is_wavy;  // wavy: with zeros beside which errors are absolute; of double alone
  long double (*reference)(long double, long double);
  double first, last, most_units;  // from where to where; units in the last place
};

#define REFERENCE(name) #name, false, false, [](long double x, long double) { return name##l(x); }
#define REFERENCE2(name) #name, true, false, [](long double x, long double y) { return name##l(x, y); }
#define WAVY(name) #name, false, true, [](long double x, long double) { return name##l(x); }

const OwnFunction kOwnFunctions[] = {
    {REFERENCE(exp), -740, 705, 1},
    {REFERENCE(exp2), -1070, 1020, 1.5},
    {REFERENCE(expm1), -30, 30, 4},
    {REFERENCE(log), 0, 1e3, 1},
    {REFERENCE(log2), 0, 1e3, 1.5},
    {REFERENCE(log10), 0, 1e3, 1},
    {REFERENCE(log1p), -1, 20, 4},
    {REFERENCE(sin), -1e4, 1e4, 1},
    {REFERENCE(sin), -1e22, 1e22, 1},
    {REFERENCE(cos), -1e300, 1e300, 1},
    {REFERENCE(tan), -1e3, 1e3, 3},
    {REFERENCE(asin), -1, 1, 4},
    {REFERENCE(acos), -1, 1, 4},
    {REFERENCE(atan), -50, 50, 1},
    {REFERENCE(sinh), -20, 20, 4},
    {REFERENCE(cosh), -20, 20, 4},
    {REFERENCE(tanh), -20, 20, 5},
    {REFERENCE(asinh), -50, 50, 4},
    {REFERENCE(acosh), 1, 50, 4},
    {REFERENCE(atanh), -1, 1, 5},
    {REFERENCE(erf), -4, 4, 3},
    {REFERENCE(erfc), -3, 26, 8},
    {REFERENCE(lgamma), 3, 100, 150},
    {REFERENCE2(pow), 0, 50, 2},
    {REFERENCE2(atan2), -3, 3, 2},
    {REFERENCE2(hypot), -1e3, 1e3, 2},
    {REFERENCE2(fmod), -1e20, 1e20, 0},
    {WAVY(j0), -60, 60, 8},
    {WAVY(j1), -60, 60, 8},
    {WAVY(y0), 0, 60, 8},
    {WAVY(y1), 0, 60, 8},
};

// The text of kernels with a function that computes the one of this number, of double or float.
std::string functions_text() {
  const codegen::PreludeParts prelude(codegen::cuda::emulation(64) +
                                      codegen::cuda::prelude_of({.special = true}, {.is_amd = true, .is_emulated = true}));
  std::string text =
      "extern \"C\" __attribute__((visibility(\"default\"))) double evaluate(int which, bool narrow, double x, double y) {\n";
  for (size_t i = 0; i < std::size(kOwnFunctions); ++i) {
    const OwnFunction& each = kOwnFunctions[i];
    text += fmt::format("  if (which == {}) return narrow ? (double)own_{}{}((float)x{}) : own_{}(x{});\n", i, each.name,
                        each.is_wavy ? "" : "f", each.takes_two ? ", (float)y" : "", each.name, each.takes_two ? ", y" : "");
  }
  text += "  return 0;\n}\n";
  return prelude.used_by(text) + text;
}

// `least`: the least size whose unit counts.
template <class Float>
double units_between(Float got, long double want, Float least = 0) {
  const auto rounded = static_cast<Float>(want);
  if (std::isnan(rounded) || std::isinf(rounded)) return std::isnan(rounded) ? !std::isnan(got) : got != rounded;
  const Float size = std::max(std::fabs(rounded), least);
  const Float unit =
      std::max(std::nextafter(size, std::numeric_limits<Float>::infinity()) - size, std::numeric_limits<Float>::denorm_min());
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / static_cast<long double>(unit));
}

TEST(RocmFunctions, AreExactToAFewUnitsInTheLastPlace) {
  const LoadedLibrary library(Toolchain().compile_shared(functions_text(), {.optimization = 0}), "functions");
  const auto evaluate = library.function<double(int, bool, double, double)>("evaluate");
  constexpr int kPoints = 500;
  for (size_t i = 0; i < std::size(kOwnFunctions); ++i) {
    const OwnFunction& each = kOwnFunctions[i];
    double most = 0, most_of_float = 0;
    for (int point = 1; point < kPoints; ++point) {
      double x = each.first + (each.last - each.first) * point / kPoints;
      if (point % 3 == 0 && each.first * each.last <= 0) x *= std::pow(2.0, -point % 40);  // small ones too
      const double y = point % 7 * 1.375 - 3;
      most = std::max(most, units_between(evaluate(static_cast<int>(i), false, x, y), each.reference(x, y), each.is_wavy ? 1.0 : 0.0));
      if (each.is_wavy) continue;
      const auto narrow = static_cast<float>(x);
      const double of_float = evaluate(static_cast<int>(i), true, narrow, y);
      most_of_float = std::max(most_of_float, units_between(static_cast<float>(of_float), each.reference(narrow, static_cast<float>(y))));
    }
    EXPECT_LE(most, each.most_units) << each.name << " of double";
    EXPECT_LE(most_of_float, 1.0) << each.name << " of float";
  }
}

}  // namespace
}  // namespace toroid
