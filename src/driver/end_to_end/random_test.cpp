// Compiled random numbers: bit for bit the evaluator's, whatever the kernel looks like.
#include <gtest/gtest.h>

#include <set>

#include "base/machine/machine.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

void expect_equal_bytes(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].sizes(), b[i].sizes());
    EXPECT_TRUE(std::ranges::equal(a[i].bytes(), b[i].bytes())) << "output " << i;
  }
}

// Vectors of every width (a kernel's follows from its widest dtype), tails, transposed stores, sizes of 0 and 1, symbolic
// sizes, and draws alone and within larger kernels.
TEST(Random, CompiledBitsAreTheEvaluators) {
  const CompiledModel model = compiled(R"(sym s in [2, 1000]
graph(x: f32[s, 5], y: f64[3, 7]) {
  a: f32[1] = aten::rand([1])
  b: f32[] = aten::rand([])
  c: f64[3, 37] = aten::rand([3, 37], dtype=dtype.f64)
  d: f16[2, 3, 41] = aten::rand([2, 3, 41], dtype=dtype.f16)
  e: bf16[129] = aten::rand([129], dtype=dtype.bf16)
  f: f32[s, 5] = aten::rand([s, 5])
  g: f32[5, s] = permute(f, dims=[1, 0])
  h: f32[s, 5] = add(f, x)
  i: f32[5] = reduce.max(f, dims=[0])
  j: f32[0, 4] = aten::rand([0, 4])
  k: f32[300, 1000] = aten::rand([300, 1000])
  r = random_state()
  seed: i64[1] = slice(r, starts=[0], steps=[1])
  call: i64[1] = slice(r, starts=[1], steps=[1])
  n: i64[61] = iota(dim=0)
  seeds: i64[61] = expand(seed)
  calls: i64[61] = expand(call)
  low: i64[61] = philox_low(n, seeds, calls)
  high: i64[61] = philox_high(n, calls, seeds)
  return a, b, c, d, e, f, g, h, i, j, k, low, high
})");
  for (const int threads : {1, 2, 5}) {
    Executable executable = model.load(threads);
    for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}}) {
      executable.set_seed(seed);
      for (uint64_t call = 0; call < 2; ++call) {
        const std::vector<HostTensor> inputs = example_inputs(*model.program, {{"s", 37}});
        expect_equal_bytes(executable.run(inputs), evaluate(*model.program, inputs, {.random = {seed, call}}));
      }
    }
  }
}

// The same operator draws the same numbers, alone in a kernel or in the middle of one, used once or twice.
TEST(Random, FusionChangesNothing) {
  Executable alone = compiled("graph() {\n  r: f32[50, 20] = aten::rand([50, 20])\n  return r\n}\n").load();
  Executable fused = compiled(R"(graph(x: f32[50, 20]) {
  r: f32[50, 20] = aten::rand([50, 20])
  s: f32[50] = reduce.sum(r, dims=[1])
  t: f32[20, 50] = permute(r, dims=[1, 0])
  u: f32[50, 20] = mul(r, x)
  v: f32[50, 20] = exp(u)
  return v, s, t, r
})")
                         .load();
  const std::vector<HostTensor> x = {HostTensor::from_doubles(DType::F32, {50, 20}, std::vector<double>(1000, 1.0))};
  expect_equal_bytes({fused.run(x)[3]}, alone.run({}));
}

// Operators whose results are whole numbers or come from library kernels agree exactly too.
TEST(Random, WholeNumbersAreTheEvaluators) {
  const CompiledModel model = compiled(R"(sym s in [2, 1000]
graph(p: f32[s, 3], q: f64[4, 5], w: f32[6, 9], i: i64[s]) {
  a: i64[s, 7] = aten::randint(10, [s, 7])
  b: i64[s] = aten::randint.low(-4, s, [s])
  c: i64[s] = aten::random(i)
  e: i8[77] = aten::randint.low(-128, 128, [77], dtype=dtype.i8)
  f: f32[s, 3] = aten::bernoulli.p(p, 0.25)
  g: i64[s] = aten::randperm(s)
  h: f32[s, 3] = aten::poisson(p)
  j: f64[4, 5] = aten::poisson(q)
  k: f64[4, 5] = aten::_standard_gamma(q)
  l: i64[6, 2] = aten::multinomial(w, 2)
  m: i64[6, 20] = aten::multinomial(w, 20, True)
  n: f32[s, 3] = aten::dropout(p, 0.5, True)
  o: i64[s] = aten::geometric(i, 0.125)
  t: f64[4, 5] = aten::sigmoid(q)
  u: f64[4, 5] = aten::bernoulli(t)
  v: f64[4, 5] = aten::binomial(q, t)
  return a, b, c, e, f, g, h, j, k, l, m, n, o, u, v
})");
  Executable executable = model.load(2);
  executable.set_seed(11);
  for (uint64_t call = 0; call < 3; ++call) {
    std::vector<HostTensor> inputs = example_inputs(*model.program, {{"s", 45}});
    const std::vector<double> rates = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 160, 1700, 18000, 0.5};
    inputs[1] = HostTensor::from_doubles(DType::F64, {4, 5}, rates);
    inputs[2] = HostTensor::from_doubles(DType::F32, {6, 9}, std::vector<double>(54, 0.5));
    expect_equal_bytes(executable.run(inputs), evaluate(*model.program, inputs, {.random = {11, call}}));
  }
}

TEST(Random, RealNumbersAreTheEvaluators) {
  expect_as_evaluated(R"(sym s in [2, 1000]
graph(x: f32[s, 3], y: f64[40]) {
  a: f32[s, 3] = aten::normal_functional(x, 1, 2)
  b: f64[40] = aten::randn_like(y)
  c: f16[s, 9] = aten::randn([s, 9], dtype=dtype.f16)
  d: f32[s, 3] = aten::exponential(x, 0.5)
  e: f64[40] = aten::log_normal(y, 0, 1)
  f: f32[s, 3] = aten::uniform(x, -1, 2)
  g: f32[s, 3] = aten::alpha_dropout(x, 0.5, True)
  h: f32[s, 3] = aten::rrelu(x, 0.125, 0.5, True)
  q: f32[2, 3, 8, 16] = aten::randn([2, 3, 8, 16])
  k: f32[2, 3, 8, 16] = aten::scaled_dot_product_attention(q, q, q, none, 0.25)
  return a, b, c, d, e, f, g, h, k
})",
                      {{{"s", 2}}, {{"s", 301}}});
}

// In branches, and of a size that the values of a tensor decide.
TEST(Random, WhereTheProgramBranches) {
  const CompiledModel model = compiled(R"(sym u0 in [0, 1000] from data
subgraph 0(x: f32[40]) {
  y: f32[40] = aten::rand([40])
  return y
}
subgraph 1(x: f32[40]) {
  y: f32[40] = aten::rand([40])
  z: f32[40] = aten::neg(y)
  return z
}
graph(x: f32[40], p: bool[]) {
  a: f32[40] = higher_order::cond(p, @0, @1, [x])
  n: i64[u0, 1] = aten::nonzero(x)
  b: f32[u0, 3] = aten::rand([u0, 3])
  c: i64[u0] = aten::randperm(u0)
  return a, b, c
})");
  Executable executable = model.load(2);
  for (int64_t call = 0; call < 3; ++call) {
    std::vector<double> x(40, 0.0);
    for (int64_t i = 0; i < call * 13; ++i) x[static_cast<size_t>(i)] = 1;
    const std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::F32, {40}, x),
                                            HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{call % 2})};
    expect_equal_bytes(executable.run(inputs), evaluate(*model.program, inputs, {.random = {0, static_cast<uint64_t>(call)}}));
  }
}

TEST(Random, WrongElementsEndTheCall) {
  Executable executable = compiled("graph(x: f32[3]) {\n  y: f32[3] = aten::bernoulli(x)\n  return y\n}\n").load();
  try {
    executable.run(std::vector<HostTensor>{HostTensor::from_doubles(DType::F32, {3}, std::vector<double>{0, 1.25, 1})});
    FAIL() << "a probability of 1.25 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "bernoulli expects all probabilities to be in [0, 1]");
  }
  const std::vector<double> certain = {0, 1, 1};
  EXPECT_EQ(executable.run(std::vector{HostTensor::from_doubles(DType::F32, {3}, certain)})[0].to_doubles(), certain);
}

// Every kind of loop, one within another, with formulas and with library kernels: each run draws anew, as the evaluator does.
TEST(Random, EachRunOfALoopDrawsAnew) {
  const CompiledModel model = compiled(R"(subgraph 0(n: i64[], sum: f32[3], x: f32[3]) {
  go: bool[] = aten::lt.Scalar(n, 4)
  return go
}
subgraph 1(n: i64[], sum: f32[3], x: f32[3]) {
  m: i64[] = aten::add.Tensor(n, 1)
  r: f32[3] = aten::rand([3])
  y: f32[3] = aten::add.Tensor(sum, r)
  p: f32[3] = aten::poisson(x)
  z: f32[3] = aten::add.Tensor(y, p)
  return m, z
}
subgraph 2(row: f32[3]) {
  zero: i64[] = aten::full([], 0)
  start: f32[3] = aten::zeros([3])
  n: i64[], sum: f32[3] = higher_order::while_loop(@0, @1, [zero, start], [row])
  return sum
}
subgraph 3(carried: f32[2], row: f32[3]) {
  r: f32[2] = aten::rand([2])
  next: f32[2] = aten::add.Tensor(carried, r)
  q: f32[2] = aten::clone(r)
  return next, q
}
subgraph 4(a: f32[3], b: f32[3]) {
  r: f32[3] = aten::rand([3])
  return r
}
graph(p: f32[6, 3]) {
  maps: f32[6, 3] = higher_order::map_impl(@2, [p], [])
  start: f32[2] = aten::zeros([2])
  total: f32[2], steps: f32[6, 2] = higher_order::scan(@3, [start], [p], [])
  last: f32[6, 3] = higher_order::associative_scan(@4, [p], [])
  outside: f32[3] = aten::rand([3])
  return maps, total, steps, last, outside
})");
  Executable executable = model.load();
  const std::vector<HostTensor> inputs = example_inputs(*model.program, {});
  for (uint64_t call = 0; call < 2; ++call) {
    const std::vector<HostTensor> drawn = executable.run(inputs);
    expect_equal_bytes(drawn, evaluate(*model.program, inputs, {.random = {0, call}}));
    std::set<double> distinct;
    for (const size_t output : {size_t{0}, size_t{2}, size_t{3}}) {
      const std::vector<double> values = drawn[output].to_doubles();
      distinct.insert(values.begin() + (output == 3 ? 3 : 0), values.end());
    }
    EXPECT_EQ(distinct.size(), 18u + 12u + 15u);
  }
}

// Vectors of 2, 4 and 8 64-bit lanes multiply by instructions of their own.
TEST(Random, InstructionSetsDrawTheSame) {
  const char* text = R"(graph() {
  a: f32[1001] = aten::rand([1001])
  b: i64[333] = aten::randint(1000000, [333])
  return a, b
})";
  Executable best = compiled(text).load();
  const std::vector<HostTensor> expected = best.run({});
  for (const char* isa : {"baseline", "avx2"}) {
    if (parse_isa(isa).level > machine().isa.level) continue;
    const ScopedVariable variable("TOROID_ISA", isa);
    CompileSession session(false);
    const CompiledModel model = session.compile(parse_text(text));
    Executable executable = model.load();
    expect_equal_bytes(executable.run({}), expected);
  }
}

TEST(Random, CallsDifferAndSeedsRepeat) {
  Executable executable = compiled(R"(graph() {
  r: f32[64] = aten::rand([64])
  q: f32[64] = aten::rand([64])
  return r, q
})")
                              .load();
  const std::vector<HostTensor> first = executable.run({});
  const std::vector<HostTensor> second = executable.run({});
  EXPECT_NE(first[0].to_doubles(), first[1].to_doubles());
  EXPECT_NE(first[0].to_doubles(), second[0].to_doubles());
  executable.set_seed(1);
  EXPECT_NE(executable.run({})[0].to_doubles(), first[0].to_doubles());
  executable.set_seed(0);
  expect_equal_bytes(executable.run({}), first);
  expect_equal_bytes(executable.run({}), second);
}

}  // namespace
}  // namespace toroid
