// What graphs become as loops: which values are computed where they are used, and which get memory.
#include "lower/text.h"

#include <sstream>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"

namespace toroid {
namespace {

// The computations, without their names and axes.
std::string loops_of(const Program& program, const LowerOptions& options = {}) {
  std::string result;
  for (const LoweredGraph& graph : lower(program, options)) {
    if (!result.empty()) result += "subgraph\n";
    std::istringstream text(computations_text(graph));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("  axes ")) continue;
      const size_t name_end = line.find(": ");
      result += line.substr(name_end == std::string::npos ? 2 : name_end + 2) + "\n";
    }
  }
  return result;
}
std::string loops_of(std::string_view text) { return loops_of(parse_text(text)); }

TEST(Lower, ViewsAreIndexArithmetic) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[4, 6]) {
  t: f32[6, 4] = permute(x, dims=[1, 0])
  s: f32[3, 4] = slice(t, starts=[5, 0], steps=[-2, 1])
  f: f32[12] = reshape(s)
  y: f32[12] = neg(f)
  return y
})"),
            "map y_out[i7] = neg(x[Mod(i7, 4), 5 - 2*(i7//4)])\n");
}

TEST(Lower, ElementwiseChainsAreOneExpression) {
  EXPECT_EQ(loops_of(R"(
sym s0 in [2, 64]
graph(x: f32[s0, 8], b: f32[8]) {
  r: f32[1, 8] = reshape(b)
  e: f32[s0, 8] = expand(r)
  a: f32[s0, 8] = add(x, e)
  y: f32[s0, 8] = exp(a)
  return y
})"),
            "map y_out[i8, i9] = exp(add(x[i8, i9], b[i9]))\n");
}

// Who computes v0 checks it.
TEST(Lower, IndicesThatNoAddressDependsOnAreComputedAllTheSame) {
  EXPECT_EQ(loops_of(R"(
graph(w: f32[1, 4], i: i64[3]) {
  r: i64[3, 1] = reshape(i)
  a: i64[3, 4] = expand(r)
  b: i64[3, 4] = iota(dim=1)
  y: f32[3, 4] = gather(w, a, b)
  return y
})"),
            "value v0 below 1 = i[i7]\n"
            "map y_out[i7, i8] = where(ge(bitcast.i64.i64(index(v0)), 0), w[0, i8], 0.0)\n");
}

TEST(Lower, IndicesThatAreNumbersNeedNoCheck) {
  EXPECT_EQ(loops_of(R"(
graph(w: f32[1, 4]) {
  a: i64[1, 3] = iota(dim=0)
  b: i64[1, 3] = full(value=2)
  y: f32[1, 3] = gather(w, a, b)
  return y
})"),
            "map y_out[0, i3] = w[0, 2]\n");
}

// Rows of two numbers that lie across memory: no copy of them, and the result lies as they do.
TEST(Lower, ProductsOfFewNumbersAcrossMemoryAreLoops) {
  EXPECT_EQ(loops_of(R"(
graph(s: f32[3, 2, 500], w: f32[2, 2]) {
  p: f32[3, 500, 2] = permute(s, dims=[0, 2, 1])
  x: f32[1500, 2] = reshape(p)
  y: f32[1500, 2] = matmul(x, w)
  z: f32[3, 500, 2] = reshape(y)
  q: f32[3, 2, 500] = permute(z, dims=[0, 2, 1])
  r: f32[3, 2, 500] = exp(q)
  return r
})"),
            "map y[i15, i16, i17] = add(mul(s[i15, 0, i16], w[0, i17]), mul(s[i15, 1, i16], w[1, i17]))\n"
            "map r_out[i26, i27, i28] = exp(y[i26, i28, i27])\n");
  // A call reads these as they lie.
  EXPECT_EQ(loops_of(R"(
graph(x: f32[1500, 2], w: f32[2, 2]) {
  y: f32[1500, 2] = matmul(x, w)
  return y
})"),
            "call y = matmul() on x[1500, 2], w[2, 2]\n");
}

// The kernel reads the bytes: no copy of the weights in floats.
TEST(Lower, Int8FactorsAreCastByTheProduct) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[4, 6], w: i8[3, 6]) {
  f: f32[3, 6] = cast(w)
  t: f32[6, 3] = permute(f, dims=[1, 0])
  y: f32[4, 3] = matmul(x, t)
  return y
})"),
            "call y = matmul() on x[4, 6], w[6, 3] strides [1, 6]\n");
  EXPECT_EQ(loops_of(R"(
graph(x: bf16[4, 6], w: i8[6, 3]) {
  a: f32[4, 6] = cast(x)
  b: f32[6, 3] = cast(w)
  y: f32[4, 3] = matmul(a, b)
  return y
})"),
            "call y = matmul() on x[4, 6], w[6, 3]\n");
}

// Four bits of constant weights stay four bits; what makes a weight of them, for groups of rows, goes to the kernel.
TEST(Lower, Int4WeightsKeepTheirScalesApart) {
  auto product = [](std::string_view dtype, std::string_view more) {
    return loops_of(fmt::format(R"(
buffer 0 "p": u8[3, 16] = external
buffer 1 "s": f32[3, 2, 1] = external
graph(x: {0}[4, 32]) {{
  p: u8[3, 16] = constant(0)
  s: f32[3, 2, 1] = constant(1)
  fifteen: u8[3, 16] = full(value=15)
  four: u8[3, 16] = full(value=4)
  a: u8[3, 16] = bit_and(p, fifteen)
  b: u8[3, 16] = shift_right(p, four)
  c: u8[3, 32] = cat(a, b, dim=1)
  f: f32[3, 32] = cast(c)
  g: f32[3, 2, 16] = reshape(f)
  eight: f32[3, 2, 16] = full(value=8.0)
  h: f32[3, 2, 16] = sub(g, eight)
  e: f32[3, 2, 16] = expand(s)
  i: f32[3, 2, 16] = mul(h, e)
  j: f32[3, 32] = reshape(i)
  {1}
  t: {0}[32, 3] = permute(w, dims=[1, 0])
  y: {0}[4, 3] = matmul(x, t)
  return y
}})",
                                dtype, more));
  };
  const std::string whole = product("f32", "w: f32[3, 32] = neg(j)"), packed = product("f32", "w: f32[3, 32] = reshape(j)");
  EXPECT_NE(whole.find("call y = matmul() on x[4, 32], w[32, 3]"), std::string::npos) << whole;
  EXPECT_EQ(packed.substr(packed.find("map t_scales")),
            "map t_scales[g1, n0] = mul(1.0, s[n0, g1, 0])\n"
            "map t_zeros[g1, n0] = mul(sub(0.0, 8.0), s[n0, g1, 0])\n"
            "call y = matmul() on x[4, 32], t_int4[3, 16], t_scales[2, 3], t_zeros[2, 3]\n");
  // What a product in float32 would see rounded is not left out of the weights, of one in bfloat16 it is.
  const std::string rounded = "r: bf16[3, 32] = cast(j)\n  w: f32[3, 32] = cast(r)";
  EXPECT_EQ(product("f32", rounded).find("_int4"), std::string::npos);
  EXPECT_NE(product("bf16", "w: bf16[3, 32] = cast(j)").find("_int4"), std::string::npos);
  EXPECT_NE(product("bf16", "r: bf16[3, 32] = cast(j)\n  w: bf16[3, 32] = bitcast(r)").find("_int4"), std::string::npos);
}

// For kernels of few rows on a GPU those of columns in sixteens, with scales for groups of 128, lie as these read them.
TEST(Lower, Int4WeightsForAGpuArePacked) {
  const auto product = [](int columns, int group) {
    return loops_of(parse_text(fmt::format(R"(
buffer 0 "p": u8[{0}, 128] = external
buffer 1 "s": f32[{0}, {1}, 1] = external
graph(x: bf16[4, 256]) {{
  p: u8[{0}, 128] = constant(0)
  s: f32[{0}, {1}, 1] = constant(1)
  fifteen: u8[{0}, 128] = full(value=15)
  four: u8[{0}, 128] = full(value=4)
  a: u8[{0}, 128] = bit_and(p, fifteen)
  b: u8[{0}, 128] = shift_right(p, four)
  c: u8[{0}, 256] = cat(a, b, dim=1)
  f: f32[{0}, 256] = cast(c)
  g: f32[{0}, {1}, {2}] = reshape(f)
  e: f32[{0}, {1}, {2}] = expand(s)
  h: f32[{0}, {1}, {2}] = mul(g, e)
  i: f32[{0}, 256] = reshape(h)
  w: bf16[{0}, 256] = cast(i)
  t: bf16[256, {0}] = permute(w, dims=[1, 0])
  y: bf16[4, {0}] = matmul(x, t)
  return y
}})",
                                           columns, 256 / group, group)),
                    {.narrow_weights = NarrowWeights::KeptForFewRows});
  };
  const std::string packed = product(32, 128);
  EXPECT_NE(packed.find("on x[4, 256], t_int4[2, 2, 16, 64], t_scales[2, 2, 16]"), std::string::npos) << packed;
  for (const auto& [columns, group] : {std::pair(24, 128), std::pair(32, 64), std::pair(32, 256)}) {
    const std::string plain = product(columns, group), numbers = fmt::format("on x[4, 256], t_int4[{}, 128], t_scales[", columns);
    EXPECT_NE(plain.find(numbers), std::string::npos) << plain;
  }
}

// Both are int8 where the sums are integers; what a factor is computed from is put in memory as int8.
TEST(Lower, ProductsOfInt8AreOfBytes) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[4, 6], w: i8[6, 3]) {
  q: i8[4, 6] = cast(x)
  a: i32[4, 6] = cast(q)
  b: i32[6, 3] = cast(w)
  y: i32[4, 3] = matmul(a, b)
  return y
})"),
            "map q[i4, i5] = i8(x[i4, i5])\ncall y = matmul() on q[4, 6], w[6, 3]\n");
  EXPECT_EQ(loops_of(R"(
graph(x: u8[4, 6], w: i8[6, 3]) {
  a: i32[4, 6] = cast(x)
  b: i32[6, 3] = cast(w)
  y: i32[4, 3] = matmul(a, b)
  return y
})"),
            "call y = matmul() on x[4, 6], w[6, 3]\n");
  EXPECT_EQ(loops_of(R"(
graph(x: i32[4, 6], w: i8[6, 3]) {
  b: i32[6, 3] = cast(w)
  y: i32[4, 3] = matmul(x, b)
  return y
})"),
            "map b[i4, i5] = i32(w[i4, i5])\ncall y = matmul() on x[4, 6], b[6, 3]\n");
}

TEST(Lower, WhatIsDearAndUsedTwiceIsComputedOnce) {
  const std::string loops = loops_of(R"(
graph(x: f32[8]) {
  e: f32[8] = exp(x)
  a: f32[8] = neg(e)
  b: f32[8] = abs(e)
  return a, b
})");
  EXPECT_EQ(loops, "map e[i1] = exp(x[i1])\nmap a_out[i2] = neg(e[i2])\nmap b_out[i3] = abs(e[i3])\n");
}

TEST(Lower, WhatIsCheapIsComputedAgain) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[8]) {
  n: f32[8] = neg(x)
  a: f32[8] = exp(n)
  b: f32[8] = abs(n)
  return a, b
})"),
            "map a_out[i2] = exp(neg(x[i2]))\nmap b_out[i3] = abs(neg(x[i3]))\n");
}

// A normalised row is the row itself and two numbers.
std::string normalised_rows(int rows, std::string_view last) {
  return loops_of(fmt::format(R"(
graph(x: bf16[{0}, 32768], m: f32[{0}, 1], s: f32[{0}, 1]) {{
  y: f32[{0}, 32768] = cast(x)
  em: f32[{0}, 32768] = expand(m)
  es: f32[{0}, 32768] = expand(s)
  c: f32[{0}, 32768] = sub(y, em)
  n: f32[{0}, 32768] = sub(c, es)
  e: f32[{0}, 32768] = exp(n)
  t: f32[{0}] = reduce.sum(e, dims=[1])
  l: f32[{0}] = reduce.sum(n, dims=[1])
  return t, l{1}
}})",
                              rows, last));
}
TEST(Lower, WhatReadsNoMoreThanItWouldBeWrittenToNeedsNoMemoryBeyondCaches) {
  EXPECT_EQ(normalised_rows(1024, "").find("map n"), std::string::npos);
  EXPECT_NE(normalised_rows(1024, ", n").find("map n"), std::string::npos);
  EXPECT_NE(normalised_rows(8, "").find("map n"), std::string::npos);
}

// The tangent of a GELU, of 16 bits: two consumers.
std::string loops_with_tangent(const LowerOptions& options) {
  return loops_of(parse_text(R"(
graph(x: bf16[64, 1024]) {
  v: bf16[65536] = reshape(x)
  y: f32[65536] = cast(v)
  c: f32[65536] = mul(y, y)
  t: f32[65536] = tanh(c)
  a: f32[] = reduce.sum(t, dims=[0])
  b: f32[] = reduce.max(t, dims=[0])
  return a, b
})"),
                  options);
}
TEST(Lower, FunctionsOfNarrowerElementsAreComputedAgainWhereThatIsQuicker) {
  const LowerOptions on_gpu{.least_recomputed_bytes = 1 << 10, .recomputes_functions = true};
  EXPECT_NE(loops_with_tangent({}).find("map t"), std::string::npos);
  EXPECT_EQ(loops_with_tangent(on_gpu).find("map t"), std::string::npos);
  EXPECT_NE(loops_with_tangent({.least_recomputed_bytes = 1 << 20, .recomputes_functions = true}).find("map t"), std::string::npos);
}

TEST(Lower, WhatIsGatheredIsInMemoryBeforeFewThreadsReduceIt) {
  const auto loops = [](const LowerOptions& options) {
    return loops_of(parse_text(R"(
graph(w: f32[64, 4], i: i64[64]) {
  n: i64[64] = iota(dim=0)
  g: f32[64] = gather(w, n, i)
  y: f32[64] = neg(g)
  s: f32[] = reduce.sum(y, dims=[0])
  return s
})"),
                    options);
  };
  EXPECT_EQ(loops({}), "value v2 below 4 = i[r0]\nreduce s[] = sum over r0 of neg(w[r0, v2])\n");
  EXPECT_EQ(loops({.gathers_before_reductions = true}),
            "value v1 below 4 = i[i5]\nmap y[i5] = neg(w[i5, v1])\nreduce s[] = sum over r0 of y[r0]\n");
}

// At most one element of a row is not zero: no loop looks for it.
TEST(Lower, ASumOfOneHotIsAChoice) {
  EXPECT_EQ(loops_of(R"(
graph(l: i64[4], v: f32[4]) {
  n: i64[4, 9] = iota(dim=1)
  r: i64[4, 1] = reshape(l)
  e: i64[4, 9] = expand(r)
  h: bool[4, 9] = eq(n, e)
  w: f32[4, 1] = reshape(v)
  x: f32[4, 9] = expand(w)
  z: f32[4, 9] = full(value=0.0)
  o: f32[4, 9] = where(h, x, z)
  s: f32[4] = reduce.sum(o, dims=[1])
  return s
})"),
            "map s_out[i16] = where(bit_and(ge(l[i16], 0), lt(l[i16], 9)), v[i16], 0.0)\n");
}

TEST(Lower, CatAndPadReadOnlyWhereTheyMay) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[4], y: f32[6]) {
  c: f32[10] = cat(x, y, dim=0)
  p: f32[13] = pad(c, low=[2], value=1.5)
  return p
})"),
            "map p_out[i3] = masked(bool(index((2 <= i3) & (i3 <= 11))), masked(bool(index(i3 <= 5)), x[i3 - 2], y[i3 - 6]), 1.5)\n");
}

TEST(Lower, AnIndexFromATensorIsAValueSymbol) {
  EXPECT_EQ(loops_of(R"(
graph(w: f32[8, 4], i: i64[5], k: i64[5]) {
  g: f32[5] = gather(w, i, k)
  return g
})"),
            "value v0 below 8 = i[i4]\nvalue v1 below 4 = k[i4]\nmap g_out[i4] = w[v0, v1]\n");
}

TEST(Lower, ReductionsOverDimsOfSizeOneVanish) {
  EXPECT_EQ(loops_of(R"(
graph(x: f32[4, 1]) {
  s: f32[4] = reduce.sum(x, dims=[1])
  y: f32[4] = exp(s)
  return y
})"),
            "map y_out[i2] = exp(x[i2, 0])\n");
}

TEST(Lower, MeanAndDeviationAreTwoPassesAndACorrection) {
  std::string loops = loops_of(R"(
graph(x: f32[9]) {
  mean: f32[], m2: f32[] = reduce.welford(x, dims=[0])
  return mean, m2
})");
  const std::string far = "ge(mul(mul(mean_rough[], mean_rough[]), 9.0), mul(mean_squares[], 64.0))";
  for (size_t at = 0; (at = loops.find(far, at)) != std::string::npos;) loops.replace(at, far.size(), "FAR");
  EXPECT_EQ(loops,
            "reduce mean_sum[] = fine sum over r0 of x[r0]\n"
            "map mean_rough[] = div(mean_sum[], 9.0)\n"
            "e0 = sub(x[r0], mean_rough[])\n"
            "reduce mean_squares[] = finest sum over r0 of mul(e0, e0)\n"
            "e1 = FAR\n"
            "reduce mean_drift[] = fine sum over r0 of where(e1, e0, 0.0)\n"
            "e2 = where(e1, div(mean_drift[], 9.0), 0.0)\n"
            "map mean[] = add(mean_rough[], e2)\n"
            "map m2[] = max(sub(mean_squares[], mul(mean_drift[], e2)), 0.0)\n");
}

TEST(Lower, LibraryCallsReadStridedWindowsWithoutACopy) {
  const std::vector<LoweredGraph> graphs = lower(parse_text(R"(
graph(x: f32[6, 4], w: f32[6, 5]) {
  t: f32[4, 6] = permute(x, dims=[1, 0])
  m: f32[4, 5] = matmul(t, w)
  return m
})"));
  ASSERT_EQ(graphs[0].loops->computations.size(), 1u);
  const auto& call = std::get<loop::Call>(graphs[0].loops->computations[0].work);
  EXPECT_EQ(call.operands[0].strides, (std::vector<sym::Expr>{1, 4}));
  // The result is written where the caller wants it.
  EXPECT_EQ(graphs[0].loops->buffer(graphs[0].outputs[0].buffer).kind, loop::BufferKind::Output);
}

// Channels of groups shuffled, then halved: one half to a convolution, the other computed with.
TEST(Lower, HalvesOfShuffledChannelsAreWindowsOfOneImage) {
  const Program program = parse_text(R"(
graph(x: f32[1, 32, 8, 8], w: f32[32, 32, 1, 1], v: f32[16, 16, 1, 1]) {
  c: f32[1, 32, 8, 8] = convolution(x, w, stride=[1, 1], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], transposed=false, groups=1)
  e: f32[1, 32, 8, 8] = exp(c)
  g: f32[1, 2, 16, 8, 8] = reshape(e)
  p: f32[1, 16, 2, 8, 8] = permute(g, dims=[0, 2, 1, 3, 4])
  s: f32[1, 32, 8, 8] = reshape(p)
  a: f32[1, 16, 8, 8] = slice(s, starts=[0, 0, 0, 0], steps=[1, 1, 1, 1])
  b: f32[1, 16, 8, 8] = slice(s, starts=[0, 16, 0, 0], steps=[1, 1, 1, 1])
  d: f32[1, 16, 8, 8] = convolution(b, v, stride=[1, 1], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], transposed=false, groups=1)
  y: f32[1, 16, 8, 8] = add(a, d)
  return y
})");
  const std::vector<LoweredGraph> graphs = lower(program);
  const loop::LoopProgram& loops = *graphs[0].loops;
  // The convolutions with a copy of x for the first, the shuffled image, the sum.
  ASSERT_EQ(loops.computations.size(), 5u);
  const auto& shuffle = loops.computations[2];
  EXPECT_EQ(loops.buffer(shuffle.outputs[0]).strides, (std::vector<sym::Expr>{2048, 1, 256, 32}));
  const auto& second = std::get<loop::Call>(loops.computations[3].work);
  EXPECT_EQ(second.operands[0].buffer, shuffle.outputs[0]);
  EXPECT_EQ(second.operands[0].strides, (std::vector<sym::Expr>{0, 1, 256, 32}));
  // exp is not computed again for the other half.
  const auto& sum = std::get<loop::Map>(loops.computations[4].work);
  for (const loop::ExprId id : loop::reachable(loops.exprs, {sum.value})) {
    const auto* compute = std::get_if<loop::Compute>(&loops.exprs.node(id).op);
    EXPECT_FALSE(compute != nullptr && compute->op == ScalarOp::Exp);
  }
}

// Of a convolution of images of this dtype.
std::vector<LoweredGraph> lowered_convolution(std::string_view dtype) {
  return lower(parse_text(fmt::format(R"(
graph(x: {0}[2, 16, 8, 8], w: {0}[5, 16, 3, 3]) {{
  y: {0}[2, 5, 6, 6] = convolution(x, w, stride=[1, 1], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], transposed=false, groups=1)
  return y
}})",
                                      dtype)));
}

TEST(Lower, AnImageOfBFloat16IsLaidOutAsItIs) {
  const std::vector<LoweredGraph> graphs = lowered_convolution("bf16");
  const loop::LoopProgram& loops = *graphs[0].loops;
  ASSERT_EQ(loops.computations.size(), 3u) << computations_text(graphs[0]);  // the image, the call, the result's layout
  const loop::Operand& image = std::get<loop::Call>(loops.computations[1].work).operands[0];
  EXPECT_EQ(loops.computations[0].outputs[0], image.buffer);
  EXPECT_EQ(loops.buffer(image.buffer).dtype, DType::BF16);
  EXPECT_EQ(image.strides, (std::vector<sym::Expr>{1024, 1, 128, 16}));
  EXPECT_EQ(loops.buffer(loops.computations[1].outputs[0]).dtype, DType::BF16);
}

TEST(Lower, AnImageOfFloat16IsWidenedAndLaidOutInOneCopy) {
  const std::vector<LoweredGraph> graphs = lowered_convolution("f16");
  const loop::LoopProgram& loops = *graphs[0].loops;
  ASSERT_EQ(loops.computations.size(), 4u) << computations_text(graphs[0]);  // the image, the filters, the call, the result's rounding
  const loop::Operand& image = std::get<loop::Call>(loops.computations[2].work).operands[0];
  EXPECT_EQ(loops.computations[0].outputs[0], image.buffer);
  EXPECT_EQ(loops.buffer(image.buffer).dtype, DType::F32);
  EXPECT_EQ(image.strides, (std::vector<sym::Expr>{1024, 1, 128, 16}));
}

TEST(Lower, AConvolutionAsLoopsAddsOnlyWhatIsInsideOfTheImage) {
  EXPECT_EQ(loops_of(parse_text(R"(
graph(x: f32[2, 4, 9], w: f32[6, 2, 3], b: f32[6]) {
  y: f32[2, 6, 5] = convolution(x, w, b, stride=[2], padding=[1], dilation=[1], output_padding=[0], transposed=false, groups=2)
  return y
})"),
                     {.convolutions_as_loops = true}),
            "map w_by_tap[i3, i4, i5] = w[i3, i4, i5]\n"
            "reduce y[i7, i8, i9] = sum over r0, r1 of masked(bool(index((0 < 2*i9 + r0) & (2*i9 + r0 <= 9))), "
            "mul(x[i7, r1 + 2*(i8//3), 2*i9 + r0 - 1], w_by_tap[i8, r1, r0]), 0.0)\n"
            "map y_out[i10, i11, i12] = add(y[i10, i11, i12], b[i11])\n");
}

TEST(Lower, ATransposedConvolutionAsLoopsReadsWhereItsStrideLeadsTo) {
  EXPECT_EQ(loops_of(parse_text(R"(
graph(x: f32[2, 4, 5], w: f32[4, 3, 3]) {
  y: f32[2, 3, 11] = convolution(x, w, stride=[2], padding=[0], dilation=[1], output_padding=[0], transposed=true, groups=1)
  return y
})"),
                     {.convolutions_as_loops = true}),
            "reduce y[i6, i7, i8] = sum over r0, r1 of masked(bool(index(Eq(Mod(i8 - r0, 2), 0) & (0 <= (i8 - r0)//2) & "
            "((i8 - r0)//2 <= 4))), mul(x[i6, r1, (i8 - r0)//2], w[r1, i7, r0]), 0.0)\n");
}

void expect_contains(const std::string& loops, std::string_view part) { EXPECT_NE(loops.find(part), std::string::npos) << loops; }

TEST(Lower, AProductOfWidenedFactorsTakesThemAsTheyWere) {
  expect_contains(loops_of(parse_text(R"(
graph(x: bf16[2, 3, 4, 16], y: bf16[2, 3, 8, 16]) {
  p: bf16[3, 2, 4, 16] = permute(x, dims=[1, 0, 2, 3])
  a: f32[3, 2, 4, 16] = cast(p)
  r: bf16[3, 2, 8, 16] = reshape(y)
  b: f32[3, 2, 8, 16] = cast(r)
  t: f32[3, 2, 16, 8] = permute(b, dims=[0, 1, 3, 2])
  z: f32[3, 2, 4, 8] = matmul(a, t)
  return z
})"),
                           {.products_of_narrow = true}),
                  "call z = matmul() on a_narrow[3, 2, 4, 16], y[3, 2, 16, 8] strides [256, 128, 1, 16]\n");
}

// Libraries take no matrix whose rows, or columns, are all the same elements.
TEST(Lower, AProductOfWidenedFactorsCopiesThoseThatRepeat) {
  const std::string loops = loops_of(parse_text(R"(
graph(x: f16[4, 6]) {
  c: f16[4, 6, 1] = reshape(x)
  d: f16[4, 6, 2] = cat(c, c, dim=2)
  a: f32[4, 6, 2] = cast(d)
  t: f32[4, 2, 6] = permute(a, dims=[0, 2, 1])
  z: f32[4, 6, 6] = matmul(a, t)
  return z
})"),
                                     {.products_of_narrow = true});
  expect_contains(loops, "call z = matmul() on a_narrow[4, 6, 2]");
  expect_contains(loops, ", t_narrow[4, 2, 6]");
}

TEST(Lower, ProductsOfIntegersAreLoopsBesideThoseOfBytes) {
  const std::string loops = loops_of(parse_text(R"(
graph(x: i8[2, 16], w: i8[8, 16], n: i64[2, 3], m: i64[3, 4]) {
  a: i32[2, 16] = cast(x)
  t: i8[16, 8] = permute(w, dims=[1, 0])
  b: i32[16, 8] = cast(t)
  y: i32[2, 8] = matmul(a, b)
  z: i64[2, 4] = matmul(n, m)
  return y, z
})"),
                                     {.integer_products_as_loops = true});
  expect_contains(loops, "call y = matmul() on x[2, 16], w[16, 8] strides [1, 16]\n");
  expect_contains(loops, "sum over r0 of mul(n[");
}

TEST(Lower, AGradientOfFiltersIsAProductOverPixelsInParts) {
  const std::string loops = loops_of(parse_text(R"(
graph(x: bf16[4, 16, 32, 32] strides [16384, 1, 512, 16], g: bf16[4, 24, 32, 32] strides [24576, 1, 768, 24]) {
  a: bf16[16, 4, 32, 32] = permute(x, dims=[1, 0, 2, 3])
  b: bf16[24, 4, 32, 32] = permute(g, dims=[1, 0, 2, 3])
  w: bf16[16, 24, 3, 3] = convolution(a, b, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], transposed=false, groups=1)
  return w
})"),
                                     {.convolutions_as_loops = true, .convolutions_in_tiles = true});
  expect_contains(loops,
                  "call w_parts = library.convolution.filter_gradient(attributes=[1, 1, 1, 1, 1, 1]) on x[4, 16, 32, 32] strides "
                  "[16384, 1, 512, 16], g[4, 24, 32, 32] strides [24576, 1, 768, 24]\n");
  expect_contains(loops, " = sum over r0 of w_parts[r0, ");
}

TEST(Lower, PhasesOfATransposedConvolutionAreFiltersOfOneThatIsNot) {
  expect_contains(
      loops_of(parse_text(R"(
graph(x: bf16[4, 16, 5] strides [80, 1, 16], w: bf16[16, 8, 3]) {
  y: bf16[4, 8, 10] = convolution(x, w, stride=[2], padding=[1], dilation=[1], output_padding=[1], transposed=true, groups=1)
  return y
})"),
               {.convolutions_as_loops = true, .convolutions_in_tiles = true}),
      "call y = convolution(stride=[1], padding=[1], dilation=[1], output_padding=[0], transposed=false, groups=1) on x[4, 16, 5] "
      "strides [80, 1, 16], w_packed[16, 16, 2]");
}

TEST(Lower, ANumberReadFromATensorIsBoundBeforeItIsUsed) {
  EXPECT_EQ(loops_of(R"(
sym u0 in [0, 9] from data
graph(x: f32[9], n: i64[]) {
  sym u0 = n
  y: f32[u0] = slice(x, starts=[0], steps=[1])
  z: f32[u0] = exp(y)
  return z
})"),
            "bind u0 = n\nmap z_out[i2] = exp(x[i2])\n");
}

TEST(Lower, EachBranchIsALoopProgramOfItsOwn) {
  EXPECT_EQ(loops_of(R"(
subgraph 0(x: f32[3]) {
  y: f32[3] = exp(x)
  return y
}
subgraph 1(x: f32[3]) {
  return x
}
graph(x: f32[3], p: bool[]) {
  y: f32[3] = higher_order::cond(p, @0, @1, [x])
  return y
})"),
            "call y = higher_order::cond(in0, @0, @1, [in1]) on p[], x[3]\n"
            "subgraph\nmap y_out[i3] = exp(x[i3])\n"
            "subgraph\nmap x_out[i4] = x[i4]\n");
}

TEST(Lower, RefusesDtypesThatLoopsCannotCompute) {
  try {
    loops_of("graph(x: c64[3]) {\n  return x\n}");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_EQ(error.message(), "tensors of dtype c64 are not supported by the CPU backend");
  }
}

}  // namespace
}  // namespace toroid
