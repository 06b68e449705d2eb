// Buffers that calls update: in their own memory where the program allows it, with the evaluator's values in any case.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kCache = R"(
buffer 0 "keys": f32[2, 1024, 64] = external
graph(k: f32[2, 1, 64], q: f32[2, 1, 64], i: i64[1]) {
  keys: f32[2, 1024, 64] = constant(0)
  n: f32[2, 1024, 64] = aten::index_copy(keys, 1, i, k)
  t: f32[2, 64, 1024] = aten::transpose.int(n, 1, 2)
  s: f32[2, 1, 1024] = aten::matmul(q, t)
  return s, n -> buffer "keys"
})";

// Memory for constants without bytes: what a model file would have.
Program with_buffers(std::string_view text) {
  Program program = parse_text(text);
  for (ConstantData& data : program.constants) {
    if (data.bytes.data() != nullptr) continue;
    const auto value = std::make_shared<HostTensor>(example_input("v" + data.name, data.type.dtype, sizes_of(program, data.type, {})));
    data.bytes = value->bytes();
    data.owner = value;
  }
  return program;
}
CompiledModel compiled_with_buffers(std::string_view text, codegen::Target target = codegen::Target::Cpu) {
  return TestSession::get().compile(with_buffers(text), {.target = target, .optimization = test_optimisation(), .keep_program = true});
}

// What the program wrote to its buffers is what they hold when the evaluator runs next.
void keep_buffers(Program& program, const std::vector<HostTensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (ConstantData& data : program.constants) {
      if (program.outputs[i].kind != OutputKind::BufferMutation || data.name != program.outputs[i].target) continue;
      const auto value = std::make_shared<HostTensor>(outputs[i]);
      data.bytes = value->bytes();
      data.owner = value;
    }
  }
}

std::vector<HostTensor> inputs_of_call(const Program& program, int call) {
  std::vector<HostTensor> inputs;
  for (ValueId id : program.graph.inputs) {
    const Value& value = program.graph.value(id);
    inputs.push_back(example_input(fmt::format("{}{}", value.name, call), value.type.dtype, sizes_of(program, value.type, {})));
  }
  return inputs;
}

// `holds`: each call's results are still there in the next ones.
void expect_states_as_evaluated(const CompiledModel& model, bool holds) {
  Program reference = with_buffers(to_text(*model.program));
  Executable executable = model.load(2);
  const std::vector<bool> sums = made_of_sums_or_products(model.program->graph);
  std::vector<std::vector<HostTensor>> held, held_expected;
  for (int call = 0; call < 5; ++call) {
    const std::vector<HostTensor> inputs = inputs_of_call(*model.program, call), expected = evaluate(reference, inputs);
    held.push_back(executable.run(inputs));
    held_expected.push_back(expected);
    keep_buffers(reference, expected);
    for (size_t c = 0; c < held.size(); ++c) {
      for (size_t i = 0; i < held[c].size(); ++i)
        EXPECT_EQ(difference(held[c][i], held_expected[c][i], {.sums_or_products = sums[i]}), std::nullopt)
            << "output " << i << " of a result held " << held.size() - 1 - c << " calls, after call " << call << "\n"
            << to_text(*model.program);
    }
    if (!holds) held.clear(), held_expected.clear();
  }
}

const void* place_of(Executable& executable, size_t output) { return executable.updated_buffer(output).bytes().data(); }

TEST(InPlace, ACacheStaysWhereItIs) {
  for (const codegen::Target target : {codegen::Target::Cpu, codegen::Target::EmulatedCuda}) {
    const CompiledModel model = compiled_with_buffers(kCache, target);
    Executable executable = model.load(2);
    ASSERT_EQ(general_variant(executable.tables()).outputs[1].in_place, 0);
    executable.run(inputs_of_call(*model.program, 0));
    const void* const place = place_of(executable, 1);
    EXPECT_NE(place, static_cast<const void*>(model.program->constants[0].bytes.data())) << "the model's weights are not written to";
    for (int call = 1; call < 4; ++call) {
      executable.run(inputs_of_call(*model.program, call));
      EXPECT_EQ(place_of(executable, 1), place);
    }
    for (const bool holds : {false, true}) expect_states_as_evaluated(model, holds);
  }
}

// A step of decoding: what is rotated, and the rows of both caches, do not wait for each other. Scores are scaled to some units, in float16:
// with scores of hundreds weights follow the last bit of a rotated element, which the evaluator rounds once more.
constexpr std::string_view kDecodeStep = R"(
buffer 0 "keys": f16[2, 64, 32] = external
buffer 1 "values": f16[2, 64, 32] = external
graph(q: f16[4, 1, 32], k: f16[2, 1, 32], v: f16[2, 1, 32], cos: f16[64, 32], sin: f16[64, 32], i: i64[1]) {
  keys: f16[2, 64, 32] = constant(0)
  values: f16[2, 64, 32] = constant(1)
  c: f16[1, 32] = aten::index_select(cos, 0, i)
  s: f16[1, 32] = aten::index_select(sin, 0, i)
  kc: f16[2, 1, 32] = aten::mul.Tensor(k, c)
  kr: f16[2, 1, 32] = aten::flip(k, [2])
  ks: f16[2, 1, 32] = aten::mul.Tensor(kr, s)
  kn: f16[2, 1, 32] = aten::add.Tensor(kc, ks)
  qc: f16[4, 1, 32] = aten::mul.Tensor(q, c)
  qr: f16[4, 1, 32] = aten::flip(q, [2])
  qs: f16[4, 1, 32] = aten::mul.Tensor(qr, s)
  qn: f16[4, 1, 32] = aten::add.Tensor(qc, qs)
  n: f16[2, 64, 32] = aten::index_copy(keys, 1, i, kn)
  m: f16[2, 64, 32] = aten::index_copy(values, 1, i, v)
  q2: f16[2, 2, 32] = aten::reshape(qn, [2, 2, 32])
  t: f16[2, 32, 64] = aten::transpose.int(n, 1, 2)
  p: f16[2, 2, 64] = aten::matmul(q2, t)
  ps: f16[2, 2, 64] = aten::mul.Scalar(p, 0.0125)
  w: f16[2, 2, 64] = aten::softmax.int(ps, -1)
  o: f16[2, 2, 32] = aten::matmul(w, m)
  return o, n -> buffer "keys", m -> buffer "values"
})";
// A step of training by SGD with momentum: the old weights are read before the updates, which do not wait for each other.
constexpr std::string_view kTrainingStep = R"(
buffer 0 "w": f32[48, 32] = external
buffer 1 "mw": f32[48, 32] = external
buffer 2 "b": f32[48] = external
buffer 3 "mb": f32[48] = external
buffer 4 "s": f32[32] = external
graph(x: f32[64, 32], g: f32[64, 48]) {
  w: f32[48, 32] = constant(0)
  mw: f32[48, 32] = constant(1)
  b: f32[48] = constant(2)
  mb: f32[48] = constant(3)
  s: f32[32] = constant(4)
  y: f32[64, 48] = aten::linear(x, w)
  gx: f32[64, 32] = aten::matmul(g, w)
  gt: f32[48, 64] = aten::t(g)
  gw: f32[48, 32] = aten::matmul(gt, x)
  gb: f32[48] = aten::sum.dim_IntList(g, [0])
  gs: f32[32] = aten::sum.dim_IntList(gx, [0])
  mw1: f32[48, 32] = aten::mul.Scalar(mw, 0.9)
  nmw: f32[48, 32] = aten::add.Tensor(mw1, gw)
  dw: f32[48, 32] = aten::mul.Scalar(nmw, 0.01)
  nw: f32[48, 32] = aten::sub.Tensor(w, dw)
  mb1: f32[48] = aten::mul.Scalar(mb, 0.9)
  nmb: f32[48] = aten::add.Tensor(mb1, gb)
  db: f32[48] = aten::mul.Scalar(nmb, 0.01)
  nb: f32[48] = aten::sub.Tensor(b, db)
  ds: f32[32] = aten::mul.Scalar(gs, 0.01)
  ns: f32[32] = aten::sub.Tensor(s, ds)
  return y, nw -> buffer "w", nmw -> buffer "mw", nb -> buffer "b", nmb -> buffer "mb", ns -> buffer "s"
})";

TEST(InPlace, WhatIsStartedTogetherUpdatesBuffersWhereTheyAre) {
  for (const std::string_view text : {kDecodeStep, kTrainingStep}) {
    const CompiledModel model = compiled_with_buffers(text, codegen::Target::EmulatedCuda);
    const Executable executable = model.load(1);
    const ToroidVariant& variant = general_variant(executable.tables());
    EXPECT_GT(variant.num_kernel_calls, variant.num_kernel_steps);
    for (size_t i = 1; i < model.program->outputs.size(); ++i) EXPECT_GE(variant.outputs[i].in_place, 0) << i;
    for (const bool holds : {false, true}) expect_states_as_evaluated(model, holds);
  }
}

// Every byte of the cache but the row's is left alone: what is written there from outside stays.
TEST(InPlace, OnlyTheRowIsWritten) {
  const CompiledModel model = compiled_with_buffers(kCache);
  Executable executable = model.load(1);
  executable.run(inputs_of_call(*model.program, 0));
  auto* const data = static_cast<float*>(const_cast<void*>(place_of(executable, 1)));
  const float mark = 12345;
  std::fill(data, data + 2 * 1024 * 64, mark);
  executable.run(inputs_of_call(*model.program, 1));
  const HostTensor after = executable.updated_buffer(1);
  int64_t changed = 0;
  for (double each : after.to_doubles()) changed += each != mark ? 1 : 0;
  EXPECT_EQ(changed, 2 * 64);
}

TEST(InPlace, ACallThatFailsBeforeItWritesChangesNothing) {
  const CompiledModel model = compiled_with_buffers(kCache);
  Executable executable = model.load(2);
  std::vector<HostTensor> inputs = inputs_of_call(*model.program, 0);
  executable.run(inputs);
  const std::vector<double> before = executable.updated_buffer(1).to_doubles();
  inputs[2] = HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{1024});
  EXPECT_EQ(error_of([&] { executable.run(inputs); }).message(),
            "an index read from a tensor is out of bounds: 1024, where 0 to 1023 are allowed");
  EXPECT_EQ(executable.updated_buffer(1).to_doubles(), before);
}

// As in PyTorch: what was updated before the failure keeps its new value.
TEST(InPlace, ACallThatFailsLaterHasUpdatedWhatCameBefore) {
  const CompiledModel model = compiled_with_buffers(R"(
buffer 0 "n": f32[128, 128] = external
graph(x: f32[128, 128], i: i64[2]) {
  n: f32[128, 128] = constant(0)
  m: f32[128, 128] = aten::add.Tensor(n, x)
  y: f32[2, 128] = aten::index_select(m, 0, i)
  return y, m -> buffer "n"
})");
  Executable executable = model.load(1);
  const HostTensor ones = HostTensor::from_doubles(DType::F32, {128, 128}, std::vector<double>(128 * 128, 1.0));
  const auto run = [&](int64_t row) {
    executable.run(std::vector{ones, HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{0, row})});
  };
  run(1);
  const double first = executable.updated_buffer(1).double_at(0);
  run(2);
  EXPECT_EQ(error_of([&] { run(128); }).message(), "an index read from a tensor is out of bounds: 128, where 0 to 127 are allowed");
  EXPECT_EQ(executable.updated_buffer(1).double_at(0), first + 2);
  run(3);
  EXPECT_EQ(executable.updated_buffer(1).double_at(0), first + 3);
}

// Counters and statistics are written by whole calls only.
TEST(InPlace, SmallBuffersOfACallThatFailsKeepTheirValues) {
  Executable executable = compiled(R"(
buffer 0 "n": i64[4] = [1, 2, 3, 4]
graph(x: i64[4], t: f32[4, 3]) {
  n: i64[4] = constant(0)
  m: i64[4] = aten::add.Tensor(n, x)
  y: f32[4, 3] = aten::index_select(t, 0, m)
  return y, m -> buffer "n"
})")
                              .load(1);
  ASSERT_EQ(general_variant(executable.tables()).outputs[1].in_place, 0);
  const HostTensor t = example_input("t", DType::F32, {4, 3});
  const auto run = [&](const std::vector<int64_t>& x) { executable.run(std::vector{HostTensor::from_ints(DType::I64, {4}, x), t}); };
  run({-1, -2, -3, -4});
  run({1, 1, 1, 1});
  EXPECT_EQ(error_of([&] { run({9, 9, 9, 9}); }).message().substr(0, 42), "an index read from a tensor is out of boun");
  EXPECT_EQ(executable.updated_buffer(1).to_ints(), (std::vector<int64_t>{1, 1, 1, 1}));
}

TEST(InPlace, VariantsShareThePlace) {
  CompileModelOptions options;
  options.variants = {{{"s0", 1}}};
  options.keep_program = true;
  const CompiledModel model = TestSession::get().compile(with_buffers(R"(
sym s0 in [1, 512]
buffer 0 "n": f32[16384] = external
graph(x: f32[s0, 16384]) {
  n: f32[16384] = constant(0)
  s: f32[16384] = aten::sum.dim_IntList(x, [0])
  m: f32[16384] = aten::add.Tensor(n, s)
  return m -> buffer "n"
})"),
                                                         options);
  Executable executable = model.load(1);
  const auto run = [&](int64_t rows) {
    const std::vector<double> ones(static_cast<size_t>(16384 * rows), 1.0);
    executable.run(std::vector{HostTensor::from_doubles(DType::F32, {rows, 16384}, ones)});
  };
  run(3);
  const void* const place = place_of(executable, 0);
  const double first = executable.updated_buffer(0).double_at(7);
  for (int64_t rows : {1, 2, 1}) run(rows);
  EXPECT_EQ(place_of(executable, 0), place);
  EXPECT_EQ(executable.updated_buffer(0).double_at(7), first + 4);
}

// ---- random programs: scatters, maps and reads around buffers ---------------------------------------------------------------------

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 99) {}
  size_t below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state_ >> 33) % n;
  }

 private:
  uint64_t state_;
};

// Four buffers, each with some operations on its old value and what follows from it, and a new value. Of integers, whose results are exact
// however they are computed.
std::string random_updates(uint64_t seed) {
  Random random(seed);
  std::string constants, body, results;
  int count = 0;
  for (int b = 0; b < 4; ++b) {
    constants += fmt::format("buffer {0} \"b{0}\": i64[128, 128] = external\n", b);
    body += fmt::format("  b{0}: i64[128, 128] = constant({0})\n", b);
    std::vector<std::string> values = {fmt::format("b{}", b), "v"}, made;
    if (b > 0 && random.below(3) == 0) values.push_back(fmt::format("b{}", b - 1));
    const auto value = [&] { return random.below(2) == 0 ? values[0] : values[random.below(values.size())]; };
    for (size_t left = 2 + random.below(4); left > 0; --left) {
      const std::string name = fmt::format("t{}", count++), from = value();
      const std::string what[] = {
          fmt::format("aten::index_copy({}, 0, i, r)", from),         fmt::format("aten::index_add({}, 0, i, r)", from),
          fmt::format("aten::index_put({}, [i], r, True)", from),     fmt::format("aten::slice_scatter({}, r, 0, 1, 3)", from),
          fmt::format("aten::add.Tensor({}, {})", from, value()),     fmt::format("aten::mul.Tensor({}, v)", from),
          fmt::format("aten::flip({}, [{}])", from, random.below(2)), fmt::format("aten::where.self(c, {}, {})", from, value()),
          fmt::format("aten::sub.Tensor({}, s{})", from, name),       fmt::format("aten::matmul({}, w)", from),
          fmt::format("aten::cumsum({}, {})", from, random.below(2)), fmt::format("aten::sub.Tensor({}, {})", from, value()),
      };
      body += fmt::format("  s{}: i64[128, 1] = aten::sum.dim_IntList({}, [1], True)\n", name, from);
      body += fmt::format("  {}: i64[128, 128] = {}\n", name, what[random.below(std::size(what))]);
      values.push_back(name);
      made.push_back(name);
    }
    results += fmt::format("{}{} -> buffer \"b{}\"", results.empty() ? "" : ", ", made[random.below(made.size())], b);
    if (random.below(2) == 0) results += ", " + made[random.below(made.size())];
  }
  return fmt::format("{}graph(v: i64[128, 128], r: i64[2, 128], i: i64[2], c: bool[128, 128], w: i64[128, 128]) {{\n{}  return {}\n}}\n",
                     constants, body, results);
}

TEST(InPlace, RandomUpdatesAreAsEvaluated) {
  int in_place = 0, beside = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const codegen::Target target : {codegen::Target::Cpu, codegen::Target::EmulatedCuda}) {
      const CompiledModel model = compiled_with_buffers(random_updates(seed), target);
      Executable executable = model.load(1);
      const ToroidVariant& its = general_variant(executable.tables());
      for (int i = 0; i < its.num_outputs; ++i) {
        if (its.outputs[i].kind == TOROID_OUTPUT_BUFFER_MUTATION) ++(its.outputs[i].in_place >= 0 ? in_place : beside);
      }
      expect_states_as_evaluated(model, seed % 4 == 3);
    }
  }
  EXPECT_GE(in_place, 20);
  EXPECT_GE(beside, 20);
}

}  // namespace
}  // namespace toroid
