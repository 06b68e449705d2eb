// Programs with tensors on the CPU and on a GPU, whose kernels for the GPU are emulated, compared with the evaluator.
#include <filesystem>

#include "base/error_for_test.h"
#include "base/file/file.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "driver/pipeline/generate.h"
#include "passes/decompose/engine/decompose.h"
#include "program/text.h"

namespace toroid {
namespace {

const ProgramCase kMixedPrograms[] = {
    {"layers_on_both_and_linear_algebra", R"(
graph(x: f32[8, 64], w: f32[128, 64] on cuda:0, b: f32[128] on cuda:0, s: f32[], p2: f32[3, 4, 4] on cuda:0, b2: f32[4, 2] on cuda:0) {
  g: f32[8, 64] = aten::relu(x)
  h: f32[8, 64] on cuda:0 = aten::to.device(g, device=device.cuda:0, dtype=dtype.f32)
  y: f32[8, 128] on cuda:0 = aten::linear(h, w, b)
  z: f32[8, 128] on cuda:0 = aten::mul.Tensor(y, s)
  c: f32[8, 128] = aten::to.device(z, device=device.cpu, dtype=dtype.f32)
  m: f32[8] = aten::mean.dim(c, [1])
  v: f32[8] on cuda:0 = aten::to.device(m, device=device.cuda:0, dtype=dtype.f32)
  q: f32[8] on cuda:0 = aten::exp(v)
  r: f32[8, 128] = aten::softmax.int(c, 1)
  t2: f32[3, 4, 4] on cuda:0 = aten::matmul(p2, p2)
  e2: f32[4, 4] on cuda:0 = aten::eye(4, device=device.cuda:0)
  d2: f32[4, 4] on cuda:0 = aten::mul.Scalar(e2, 1000.0)
  s2: f32[3, 4, 4] on cuda:0 = aten::add.Tensor(t2, d2)
  c2: f32[3, 4, 4] = aten::to.device(s2, device=device.cpu, dtype=dtype.f32)
  i2: f32[3, 4, 4] = aten::linalg_inv(c2)
  g2: f32[3, 4, 4] on cuda:0 = aten::to.device(i2, device=device.cuda:0, dtype=dtype.f32)
  y2: f32[3, 4, 2] on cuda:0 = aten::matmul(g2, b2)
  return q, m, r, y2
})"},
    // Views are copied whole; literals are on both.
    {"indices_numbers_views_and_literals", R"(
graph(a: f32[5, 7] on cuda:0, i: i64[4], p: f32[], a2: f32[6, 10] on cuda:0, b2: f32[9, 4], x3: f32[6], g3: f32[6] on cuda:0) {
  b: f32[4, 7] on cuda:0 = aten::index.Tensor(a, [i])
  c: f32[4, 7] on cuda:0 = aten::add.Tensor(b, p)
  d: f32[5, 7] on cuda:0 = aten::mul.Tensor(p, a)
  e: f32[5, 7] on cuda:0 = aten::index_put(d, [i], c)
  t2: f32[10, 6] on cuda:0 = aten::t(a2)
  s2: f32[4, 6] on cuda:0 = aten::slice.Tensor(t2, 0, 3, 7)
  c2: f32[4, 6] = aten::to.device(s2, device=device.cpu, dtype=dtype.f32)
  u2: f32[4, 9] = aten::t(b2)
  n2: f32[4, 6] = aten::neg(c2)
  v2: f32[4, 9] on cuda:0 = aten::to.device(u2, device=device.cuda:0, dtype=dtype.f32)
  w2: f32[4, 9] on cuda:0 = aten::exp(v2)
  i3: f32[6] = aten::arange(6, dtype=dtype.f32)
  s3: f32[6] = aten::sin(i3)
  j3: f32[6] on cuda:0 = aten::to.device(s3, device=device.cuda:0, dtype=dtype.f32)
  o3: f32[6] on cuda:0 = aten::ones([6], device=device.cuda:0)
  a3: f32[6] = aten::add.Tensor(x3, s3)
  b3: f32[6] on cuda:0 = aten::add.Tensor(g3, j3)
  c3: f32[6] on cuda:0 = aten::sub.Tensor(b3, o3)
  k3: f32[3] = aten::zeros([3])
  return e, n2, w2, a3, c3, j3, k3
})"},
    {"images_and_attention_on_both", R"(
graph(p: f32[1, 8, 12, 12], w: f32[16, 8, 3, 3], v: f32[16, 16, 3, 3] on cuda:0, a2: f32[1, 2, 20, 16], g2: f32[1, 2, 20, 16] on cuda:0) {
  a: f32[1, 16, 12, 12] = aten::conv2d(p, w, padding=[1, 1])
  r: f32[1, 16, 12, 12] = aten::relu(a)
  g: f32[1, 16, 12, 12] on cuda:0 = aten::to.device(r, device=device.cuda:0, dtype=dtype.f32)
  b: f32[1, 16, 10, 10] on cuda:0 = aten::conv2d(g, v)
  m: f32[1, 16, 5, 5] on cuda:0 = aten::max_pool2d(b, [2, 2], [2, 2])
  c: f32[1, 16, 5, 5] = aten::to.device(m, device=device.cpu, dtype=dtype.f32)
  z: f32[1, 16] = aten::mean.dim(c, [2, 3])
  b2: f32[1, 2, 20, 16] = aten::scaled_dot_product_attention(a2, a2, a2)
  c2: f32[1, 2, 20, 16] on cuda:0 = aten::to.device(b2, device=device.cuda:0, dtype=dtype.f32)
  d2: f32[1, 2, 20, 16] on cuda:0 = aten::scaled_dot_product_attention(c2, g2, g2, is_causal=True)
  return z, d2
})"},
    {"sums_sorts_and_scatters_on_both", R"(
graph(u: f32[300000], g: f32[300000] on cuda:0, x2: f32[4, 30], g2: f32[4, 30] on cuda:0, i2: i64[4, 30]) {
  a: f32[] = aten::sum(u)
  b: f32[] on cuda:0 = aten::sum(g)
  c: f32[] on cuda:0 = aten::add.Tensor(b, a)
  d: f32[300000] on cuda:0 = aten::mul.Tensor(g, a)
  e: f32[300000] = aten::to.device(d, device=device.cpu, dtype=dtype.f32)
  f: f32[300000] = aten::add.Tensor(e, u)
  v2: f32[4, 30], o2: i64[4, 30] = aten::sort(x2, 1)
  p2: i64[4, 30] on cuda:0 = aten::to.device(o2, device=device.cuda:0, dtype=dtype.i64)
  a2: f32[4, 30] on cuda:0 = aten::gather(g2, 1, p2)
  w2: f32[4, 30] on cuda:0, q2: i64[4, 30] on cuda:0 = aten::sort(a2, 1)
  c2: f32[4, 30] = aten::to.device(w2, device=device.cpu, dtype=dtype.f32)
  s2: f32[4, 30] = aten::scatter_add(v2, 1, i2, c2)
  t2: f32[4, 30] = aten::cumsum(s2, 1)
  return c, f, t2, q2
})"},
    // A table on the CPU, and a network on the GPU.
    {"embedding_on_the_host", R"(
graph(i: i64[6, 2], t: f32[3, 40], w: f16[24, 40] on cuda:0) {
  e: f32[6, 2, 40] = aten::embedding(t, i)
  s: f32[6, 40] = aten::sum.dim_IntList(e, [1])
  g: f16[6, 40] on cuda:0 = aten::_to_copy(s, dtype=dtype.f16, device=device.cuda:0)
  y: f16[6, 24] on cuda:0 = aten::linear(g, w)
  z: f16[6, 24] on cuda:0 = aten::gelu(y)
  return z
})"},
    // The copy is of what the source holds then; the destination is written where it lies.
    {"writes_between_copies", R"(
graph(x: f32[4, 5], g: f32[4, 5] on cuda:0) {
  a: f32[4, 5] on cuda:0 = aten::clone(g)
  v: f32[5] on cuda:0 = aten::select.int(a, 0, 1)
  r: f32[5] = aten::select.int(x, 0, 2)
  c: f32[5] on cuda:0 = aten::copy_(v, r)
  b: f32[4, 5] = aten::to.device(a, device=device.cpu, dtype=dtype.f32)
  d: f32[4, 5] on cuda:0 = aten::mul_.Tensor(a, a)
  e: f32[4, 5] = aten::to.device(a, device=device.cpu, dtype=dtype.f32)
  f: f32[4, 5] = aten::sub.Tensor(e, b)
  return f, a
})"},
    {"sizes_of_calls",
     R"(
sym s0 in [1, 64]
graph(x: f32[s0, 8], g: f32[8, s0] on cuda:0) {
  n: f32[s0, 8] = aten::neg(x)
  h: f32[s0, 8] on cuda:0 = aten::to.device(n, device=device.cuda:0, dtype=dtype.f32)
  y: f32[s0, s0] on cuda:0 = aten::mm(h, g)
  c: f32[s0, s0] = aten::to.device(y, device=device.cpu, dtype=dtype.f32)
  m: f32[s0] = aten::amax(c, [1])
  return m
})",
     {{{"s0", 1}}, {{"s0", 5}}, {{"s0", 64}}}},
    {"a_branch_by_a_number_of_the_host", R"(
subgraph 0(g: f32[4, 5] on cuda:0) {
  a: f32[4, 5] on cuda:0 = aten::exp(g)
  return a
}
subgraph 1(g: f32[4, 5] on cuda:0) {
  b: f32[4, 5] on cuda:0 = aten::neg(g)
  return b
}
graph(p: bool[], g: f32[4, 5] on cuda:0) {
  y: f32[4, 5] on cuda:0 = higher_order::cond(p, @0, @1, [g])
  z: f32[4, 5] = aten::to.device(y, device=device.cpu, dtype=dtype.f32)
  return z
})"},
    {"a_loop_that_counts_on_the_host", R"(
subgraph 0(i: i64[], h: f32[5], g: f32[4, 5] on cuda:0) {
  c: bool[] = aten::lt.Scalar(i, 3)
  return c
}
subgraph 1(i: i64[], h: f32[5], g: f32[4, 5] on cuda:0) {
  j: i64[] = aten::add.Scalar(i, 1)
  k: f32[5] = aten::mul.Scalar(h, 0.5)
  m: f32[5] on cuda:0 = aten::to.device(k, device=device.cuda:0, dtype=dtype.f32)
  a: f32[4, 5] on cuda:0 = aten::add.Tensor(g, m)
  return j, k, a
}
graph(x: f32[5], g: f32[4, 5] on cuda:0) {
  z: i64[] = aten::full([], 0, dtype=dtype.i64)
  n: f32[5] = aten::neg(x)
  i: i64[], h: f32[5], a: f32[4, 5] on cuda:0 = higher_order::while_loop(@0, @1, [z, n, g], [])
  b: f32[5] = aten::add.Tensor(h, x)
  return i, b, a
})"},
    // Weights of bodies, from both devices, behind one of the host's.
    {"a_loop_with_weights_of_its_own", R"(
constant 0 "t": f32[5] = [1, 2, 3, 4, 5]
constant 1 "u": f32[5] = [0.5, 0.25, -1, 1, 2]
constant 2 "w": f32[5] = [3, -1, 0.5, 0.25, 1]
subgraph 0(i: i64[], g: f32[4, 5] on cuda:0) {
  c: bool[] = aten::lt.Scalar(i, 3)
  return c
}
subgraph 1(i: i64[], g: f32[4, 5] on cuda:0) {
  u: f32[5] = constant(1)
  w: f32[5] on cuda:0 = constant(2)
  j: i64[] = aten::add.Scalar(i, 1)
  v: f32[5] on cuda:0 = aten::to.device(u, device=device.cuda:0, dtype=dtype.f32)
  m: f32[4, 5] on cuda:0 = aten::mul.Tensor(g, v)
  a: f32[4, 5] on cuda:0 = aten::add.Tensor(m, w)
  return j, a
}
graph(x: f32[5], g: f32[4, 5] on cuda:0) {
  t: f32[5] = constant(0)
  z: i64[] = aten::full([], 0, dtype=dtype.i64)
  i: i64[], a: f32[4, 5] on cuda:0 = higher_order::while_loop(@0, @1, [z, g], [])
  b: f32[5] = aten::mul.Tensor(t, x)
  return i, b, a
})"},
};

CompiledModel compiled_as_exported(std::string_view text) {
  return TestSession::get().compile(
      parse_text(text), {.target = codegen::Target::EmulatedCuda, .as_exported = true, .optimization = 1, .keep_program = true});
}

class MixedDevices : public testing::TestWithParam<ProgramCase> {};

// What is expected is computed of the program as it was before its copies were explicit.
TEST_P(MixedDevices, ComputeWhatTheEvaluatorDoes) {
  try {
    const CompiledModel model = compiled_as_exported(GetParam().text);
    Executable executable = model.load(2);
    Program plain = parse_text(GetParam().text);
    decompose(plain);
    const std::vector<bool> sums = made_of_sums_or_products(plain.graph);
    for (const SymbolSizes& call : GetParam().calls) {
      const std::vector<HostTensor> inputs = example_inputs(plain, call), expected = evaluate(plain, inputs);
      const std::vector<HostTensor> outputs = executable.run(inputs);
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = sums[i]}), std::nullopt) << "output " << i;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, MixedDevices, testing::ValuesIn(kMixedPrograms), [](const auto& info) { return info.param.name; });

// The host goes on after a copy from the GPU, and waits before the step that reads it.
TEST(MixedDevices, ProgramsSayWhereTheHostWaits) {
  const TempFolder folder;
  generate_code(parse_text(R"(graph(x: f32[4], g: f32[4] on cuda:0) {
  c: f32[4] = aten::to.device(g, device=device.cpu, dtype=dtype.f32)
  a: f32[4] = aten::cumsum(x, 0)
  b: f32[4] = aten::add.Tensor(c, a)
  return b
})"),
                {.target = codegen::Target::EmulatedCuda, .as_exported = true, .dump_ir = folder.path()});
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().ends_with("program.txt")) text = read_file(entry.path());
  }
  const program::ParsedModule read = program::parse_module(text);
  EXPECT_EQ(program::module_text(read.program, read.graphs, read.module), text);
  std::string steps;  // C: a copy, h: the host's, w: the host's that waits
  for (const program::Step& step : read.module.main.steps) steps += step.waits ? 'w' : step.on_host ? 'h' : 'C';
  EXPECT_EQ(steps, "Chw");

  const auto refusal = [&](std::string_view from, std::string_view to) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), from.size(), to);
    return error_of([&] { program::parse_module(damaged); }).message();
  };
  EXPECT_TRUE(refusal(" at host waits", " at host").ends_with("step 2 reads what a copy from the GPU may still write"));
  EXPECT_TRUE(refusal(" at host {", " {").ends_with("step 1 is one of the host's"));
  EXPECT_TRUE(refusal("place x: cpu", "place x: cuda").ends_with("'x' is the host's, and cannot be on a GPU"));
}

TEST(MixedDevices, AProgramOfOneDeviceIsToldSo) {
  const auto message = [](const char* text) { return error_of([text] { compiled_as_exported(text); }).message(); };
  EXPECT_EQ(message("graph(x: f32[4]) {\n  y: f32[4] = aten::exp(x)\n  return y\n}"), "all tensors of the model are on the CPU");
  EXPECT_EQ(message("graph(x: f32[4] on cuda:0) {\n  y: f32[4] on cuda:0 = aten::exp(x)\n  return y\n}"),
            "all tensors of the model are on a GPU");
}

}  // namespace
}  // namespace toroid
