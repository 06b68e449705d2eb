// Generated kernels as goldens, small enough to check by eye.
#include "codegen/cpp/kernel.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/generated_for_test.h"
#include "support/golden_for_test.h"

namespace toroid::codegen {
namespace {

struct KernelCase {
  std::string name;
  std::string program;
};
void PrintTo(const KernelCase& row, std::ostream* out) { *out << row.name; }

const KernelCase kKernels[] = {
    {"softmax", R"(
graph(x: f32[64, 1000]) {
  y: f32[64, 1000] = aten::softmax.int(x, -1)
  return y
})"},
    {"layer_norm_residual_gelu", R"(
sym s0 in [1, 4096]
graph(x: f32[s0, 768], r: f32[s0, 768], w: f32[768], b: f32[768]) {
  s: f32[s0, 768] = aten::add.Tensor(x, r)
  n: f32[s0, 768] = aten::layer_norm(s, [768], w, b)
  y: f32[s0, 768] = aten::gelu(n)
  return y, s
})"},
    {"embedding", R"(
graph(w: f32[1000, 64], ids: i64[8, 16]) {
  y: f32[8, 16, 64] = aten::embedding(w, ids)
  return y
})"},
    {"transpose_and_add", R"(
graph(x: f32[256, 512], y: f32[512, 256]) {
  t: f32[512, 256] = aten::permute(x, [1, 0])
  z: f32[512, 256] = aten::add.Tensor(t, y)
  return z
})"},
    {"index_add_of_rows", R"(
graph(x: f32[100, 256], rows: i64[64], y: f32[64, 256]) {
  z: f32[100, 256] = aten::index_add(x, 0, rows, y)
  return z
})"},
    {"linear_and_gelu", R"(
graph(x: f32[64, 128], w: f32[256, 128], b: f32[256]) {
  h: f32[64, 256] = aten::linear(x, w, b)
  y: f32[64, 256] = aten::gelu(h)
  return y
})"},
    {"product_of_bytes_and_rounding", R"(
graph(x: u8[64, 96], w: i8[96, 80], s: f32[80]) {
  a: i32[64, 96] = aten::to.dtype(x, dtype.i32)
  b: i32[96, 80] = aten::to.dtype(w, dtype.i32)
  p: i32[64, 80] = aten::mm(a, b)
  f: f32[64, 80] = aten::to.dtype(p, dtype.f32)
  h: f32[64, 80] = aten::mul.Tensor(f, s)
  c: f32[64, 80] = aten::clamp(h, 0, 255)
  r: f32[64, 80] = aten::round(c)
  y: u8[64, 80] = aten::to.dtype(r, dtype.u8)
  return y
})"},
    {"maxima_of_windows", R"(
graph(x: bf16[1, 28, 28, 64]) {
  image: bf16[1, 64, 28, 28] = aten::permute(x, [0, 3, 1, 2])
  pooled: bf16[1, 64, 14, 14] = aten::max_pool2d(image, [3, 3], [2, 2], [1, 1])
  y: bf16[1, 14, 14, 64] = aten::permute(pooled, [0, 2, 3, 1])
  return y
})"},
    {"sum_of_columns", R"(
graph(x: f32[1000, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0])
  return y
})"},
};

class GeneratedKernels : public testing::TestWithParam<KernelCase> {};
TEST_P(GeneratedKernels, AreTheGoldens) {
  std::string text;
  for (const GeneratedKernel& kernel : generated(GetParam().program).kernels) text += kernel.text;
  expect_golden(fmt::format("codegen/testdata/{}.cpp.golden", GetParam().name), text);
}
INSTANTIATE_TEST_SUITE_P(Rows, GeneratedKernels, testing::ValuesIn(kKernels), [](const auto& row) { return row.param.name; });

TEST(Generate, EqualKernelsOfDifferentLayersAreOne) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64, 64], w: f32[64, 64], v: f32[64, 64]) {
  a: f32[64, 64] = aten::mm(x, w)
  b: f32[64, 64] = aten::silu(a)
  c: f32[64, 64] = aten::mm(b, v)
  d: f32[64, 64] = aten::silu(c)
  return d
})");
  EXPECT_EQ(code.kernels.size(), 1u);
  EXPECT_EQ(program::counts(code.module).kernel_calls, 0);  // each is done with its product
  EXPECT_EQ(program::counts(code.module).library_calls, 2);
}

TEST(Generate, EqualKernelsWithAFinishAreOne) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[2, 784, 320], w: f32[320, 320]) {
  s1: f32[2, 320] = aten::sum.dim_IntList(x, [1])
  m1: f32[2, 1] = aten::mean.dim(s1, [-1], True)
  q1: f32[2, 320] = aten::div.Tensor(s1, m1)
  y: f32[2, 784, 320] = aten::matmul(x, w)
  s2: f32[2, 320] = aten::sum.dim_IntList(y, [1])
  m2: f32[2, 1] = aten::mean.dim(s2, [-1], True)
  q2: f32[2, 320] = aten::div.Tensor(s2, m2)
  return q1, q2
})");
  ASSERT_EQ(code.kernels.size(), 1u);
  EXPECT_NE(code.kernels[0].text.find(code.kernels[0].name + "_finish0("), std::string::npos) << code.kernels[0].text;
  EXPECT_EQ(program::counts(code.module).kernel_calls, 2);
}

// A sum over rows takes the compiler as long as three times as much straight-line code: by lengths both would be in one file.
TEST(Generate, FilesCostTheCompilerAboutTheSame) {
  std::string text = "graph(x: f32[1000, 64], y: f32[900, 32], z: f32[4096]) {\n  v0: f32[4096] = aten::relu(z)\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("  v{}: f32[4096] = aten::{}(v{})\n", i + 1, i % 2 == 0 ? "neg" : "ceil", i);
  text += R"(  a: f32[64] = aten::sum.dim_IntList(x, [0])
  b: f32[32] = aten::sum.dim_IntList(y, [0])
  return v40, a, b
})";
  const GeneratedProgram code = generated(text, {}, 2);
  ASSERT_EQ(code.units.size(), 2u);
  for (const std::string& unit : code.units) {
    const size_t first = unit.find("for_rows<");
    ASSERT_NE(first, std::string::npos) << unit;
    EXPECT_EQ(first, unit.rfind("for_rows<")) << unit;
  }
}

constexpr std::string_view kLinearAndRelu = R"(
graph(x: f32[8, 64], w: f32[32, 64], b: f32[32]) {
  h: f32[8, 32] = aten::linear(x, w, b)
  y: f32[8, 32] = aten::relu(h)
  return y
})";

TEST(Generate, BytesAreRoundedAndMultipliedByOneInstructionEach) {
  const auto rounded_to = [](const char* dtype) {
    return generated(fmt::format(R"(
graph(x: f32[4096]) {{
  r: f32[4096] = aten::round(x)
  y: {0}[4096] = aten::to.dtype(r, dtype.{0})
  return y
}})",
                                 dtype))
        .kernels.at(0)
        .text;
  };
  EXPECT_NE(rounded_to("u8").find("convert<uint8_t>(op_nearest_v(x_v1))"), std::string::npos) << rounded_to("u8");
  for (const char* wide : {"u32", "i64", "u64"}) {  // have values that 32 bits with a sign have not
    EXPECT_EQ(rounded_to(wide).find("op_nearest_v"), std::string::npos) << wide;
  }
  const auto kernel_of = [](const char* left) {
    const std::string text = fmt::format(
        R"(graph(x: {}[4096], w: i8[4096], v: i32[4096]) {{
  a: i32[4096] = aten::to.dtype(x, dtype.i32)
  b: i32[4096] = aten::to.dtype(w, dtype.i32)
  y: i32[4096] = aten::mul.Tensor(a, b)
  z: i32[4096] = aten::add.Tensor(v, y)
  return y, z
}})",
        left);
    return generated(text).kernels.at(0).text;
  };
  const std::string kernel = kernel_of("u8");
  EXPECT_NE(kernel.find("op_mul_low_v("), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("op_add_mul_low_v("), std::string::npos) << kernel;
  EXPECT_EQ(kernel_of("i8").find("mul_low_v("), std::string::npos);  // whose upper halves would be multiplied too
}

TEST(Generate, SumsOfBytesThatBecomeWiderAreTakenRowByRow) {
  const std::string kernel = generated(R"(
graph(x: u8[64, 96], w: i8[96, 80], s: f32[80]) {
  a: i32[64, 96] = aten::to.dtype(x, dtype.i32)
  b: i32[96, 80] = aten::to.dtype(w, dtype.i32)
  p: i32[64, 80] = aten::mm(a, b)
  f: f32[64, 80] = aten::to.dtype(p, dtype.f32)
  y: f32[64, 80] = aten::mul.Tensor(f, s)
  return y
})")
                                 .kernels.at(0)
                                 .text;
  EXPECT_NE(kernel.find("for (int64_t row = first_row; row < last_row; ++row)"), std::string::npos) << kernel;
}

TEST(Generate, PostOperationsHaveNoKernel) {
  const GeneratedProgram code = generated(kLinearAndRelu);
  EXPECT_EQ(code.kernels.size(), 0u);
  constexpr std::string_view kEpilogue =
      "const ToroidEpilogue epilogue = {y_out, nullptr, nullptr, {nullptr, b, nullptr, 0, 0.0f, (__builtin_inff()), 32, 8}};";
  EXPECT_NE(code.units.at(0).find(kEpilogue), std::string::npos) << code.units[0];
  EXPECT_EQ(generated(kLinearAndRelu, {.assertions = true}).kernels.size(), 1u);  // which checks what it accesses
}

// Of 4096 rows sixteen blocks, of 2048 columns two.
TEST(Generate, TasksThatSumRowsAreFollowedByThoseOfTheNextRows) {
  const GeneratedProgram sums = generated("graph(x: f32[4096, 2048]) { s: f32[2048] = aten::sum.dim_IntList(x, [0], False) return s }");
  EXPECT_NE(sums.units[0].find("const int64_t block = task / 16;"), std::string::npos) << sums.units[0];
  EXPECT_NE(sums.units[0].find("const int64_t rows = task % 16;"), std::string::npos);
}

// Blocks of rows make tasks enough, which read whole rows then; sums of whole columns are tasks of 512.
TEST(Generate, BlocksOfRowsAreReadInTheOrderOfMemory) {
  auto sum_of_rows = [](int rows) {
    const GeneratedProgram program =
        generated(fmt::format("graph(x: f32[{}, 1024]) {{ s: f32[1024] = aten::sum.dim_IntList(x, [0], False) return s }}", rows));
    const std::string& unit = program.units[0];
    const size_t begin = unit.find("extern \"C\" void t_sum_kernel");
    return unit.substr(begin, unit.find("\n}", begin) - begin);
  };
  const std::string in_blocks = sum_of_rows(4096), whole = sum_of_rows(512);
  EXPECT_NE(in_blocks.find("const int64_t last = 1024;"), std::string::npos) << in_blocks;
  EXPECT_NE(in_blocks.find("double sum0_total[1024];"), std::string::npos) << in_blocks;
  EXPECT_NE(whole.find("const int64_t last = min64(first + 512, 1024);"), std::string::npos) << whole;
}

TEST(Generate, UnitsHaveThePartsOfThePreludeThatTheyUse) {
  struct Row {
    std::string_view dtype, op;
    std::vector<std::string_view> used, unused;
  };
  for (const Row& row : {Row{"f32", "sin", {"LIBMVEC(sin,"}, {"LIBMVEC(cos,", "in_doubles", "philox", "struct Total", "struct Checked"}},
                         Row{"f32", "lgamma", {"op_lgamma_v", "in_doubles", "LIBMVEC(log,"}, {"op_digamma_v", "philox"}},
                         Row{"f64", "lgamma", {"FLOAT_FUNCTION(lgamma, lgamma)"}, {"in_doubles", "philox"}},
                         Row{"f32", "bernoulli", {"philox"}, {"in_doubles", "LIBMVEC"}}}) {
    const GeneratedProgram code =
        generated(fmt::format("graph(x: {0}[64]) {{\n  y: {0}[64] = aten::{1}(x)\n  return y\n}}", row.dtype, row.op));
    const std::string used = code.unit_prelude->used_by(code.units.at(0));
    for (const std::string_view text : row.used) EXPECT_NE(used.find(text), std::string::npos) << row.op << " " << text;
    for (const std::string_view text : row.unused) EXPECT_EQ(used.find(text), std::string::npos) << row.op << " " << text;
    for (const std::string_view text : row.used) EXPECT_NE(code.prelude.find(text), std::string::npos) << text;
  }
}

// Small, and yet with a load of each element, a gathered one, and a store.
constexpr std::string_view kGathering = R"(
graph(x: f32[8, 64], w: f32[100, 64], ids: i64[8]) {
  e: f32[8, 64] = aten::embedding(w, ids)
  y: f32[8, 64] = aten::add.Tensor(x, e)
  return y
})";

TEST(Generate, AssertionBuildsAccessMemoryThroughCheckedBuffers) {
  const GeneratedProgram code = generated(kGathering, {.assertions = true});
  ASSERT_EQ(code.kernels.size(), 1u);
  expect_golden("codegen/testdata/assertions.cpp.golden", code.kernels[0].text);
}

TEST(Generate, EqualKernelsOfAnAssertionBuildAreOneThatIsToldTheNames) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64]) {
  a: f32[64] = aten::relu(x)
  b: f32[64], i: i64[64] = aten::sort(a)
  c: f32[64] = aten::relu(b)
  return c, i
})",
                                          {.assertions = true});
  ASSERT_EQ(code.kernels.size(), 1u);
  EXPECT_NE(code.units[0].find(R"(names[] = {"x", "a"})"), std::string::npos) << code.units[0];
  EXPECT_NE(code.units[0].find(R"(names[] = {"b", "c_out"})"), std::string::npos);
  EXPECT_NE(code.units[0].find(R"x(origins[] = {"c (aten::relu)"})x"), std::string::npos);
}

TEST(Generate, KernelsThatDifferInAConstantStayApart) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[64, 64], w: f32[64, 64]) {
  a: f32[64, 64] = aten::mm(x, w)
  b: f32[64, 64] = aten::add.Scalar(a, 1)
  c: f32[64, 64] = aten::mm(b, w)
  d: f32[64, 64] = aten::add.Scalar(c, 2)
  return d
})");
  EXPECT_EQ(code.kernels.size(), 2u);
}

// 4 times 536870930 is more than an int holds.
TEST(Generate, BytesOfATemporaryAreALiteral) {
  const GeneratedProgram code = generated(R"(
graph(x: f32[536870930]) {
  a: f32[536870930] = aten::cumsum(x, 0)
  b: f32[536870930] = aten::cumsum(a, 0)
  return b
})");
  EXPECT_NE(code.units[0].find("temporary_bytes[0] = 2147483720;"), std::string::npos) << code.units[0];
}

TEST(Generate, IsDeterministic) {
  for (const KernelCase& row : kKernels) EXPECT_EQ(generated(row.program).units, generated(row.program).units) << row.name;
}

TEST(Generate, NamesThatLookAlikeStayApart) {
  const GeneratedProgram code = generated(R"(
graph(%"a.b": f32[8], a_b: f32[8], %"a\"b": f32[8], %"while": f32[8]) {
  c = add(%"a.b", a_b)
  d = sub(%"a\"b", c)
  e = mul(d, %"while")
  return e
})");
  ASSERT_EQ(code.kernels.size(), 1u);
  const std::string& text = code.kernels[0].text;
  EXPECT_NE(text.find("const float* a_b, "), std::string::npos) << text;
  EXPECT_EQ(text.find("const float* a_b, "), text.rfind("const float* a_b, ")) << text;
  EXPECT_NE(text.find("const float* t_while, "), std::string::npos) << text;
}

}  // namespace
}  // namespace toroid::codegen
