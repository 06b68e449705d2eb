// Programs whose kernels are Halide pipelines (--device halide): what they compute, beside the evaluator, where a Python has Halide.
#include "driver/choices/halide_kernels.h"

#include "base/error_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "graph/custom/custom_operators.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"
#include "toolchain/halide/halide.h"

namespace toroid {
namespace {

void expect_halide_as_evaluated(std::string_view text, const std::vector<SymbolSizes>& calls, const std::string& autoscheduler) {
  const CompiledModel model =
      TestSession::get().compile(parse_text(text), {.halide = autoscheduler, .optimization = 1, .keep_program = true});
  Executable executable = model.load(2);
  const std::vector<bool> sums = made_of_sums_or_products(model.program->graph);
  for (const SymbolSizes& call : calls) {
    const std::vector<HostTensor> inputs = example_inputs(*model.program, call);
    const std::vector<HostTensor> expected = evaluate(*model.program, inputs), outputs = executable.run(inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = sums[i]}), std::nullopt)
          << model.program->graph.value(model.program->graph.outputs[i]).name << " by " << autoscheduler;
    }
  }
}

// Rows of lanes with and without a rest, long ones, columns, sums to one number, positions, several outputs.
constexpr std::string_view kReductions = R"(
graph(x: f32[5, 48], y: f32[3, 7001], z: bf16[70, 66], c: f32[600, 40], h: f16[4, 9], b: bool[6, 50], n: i64[7, 33], l: f32[3, 1]) {
  a: f32[5, 48] = aten::softmax.int(x, 1)
  v: f32[3] = aten::var.correction(y, [1], correction=1)
  d: f32[3] = aten::amax(y, [1])
  e: i64[3] = aten::argmax(y, 1)
  t: bf16[66, 70] = aten::t(z)
  u: bf16[66, 70] = aten::mul.Tensor(t, t)
  s: f32[40] = aten::sum.dim_IntList(c, [0])
  w: f32[] = aten::sum(c)
  q: i64[40] = aten::argmin(c, 0)
  g: f16[4, 9] = aten::gelu(h)
  k: bool[6] = aten::any.dim(b, 1)
  m: i64[7] = aten::sum.dim_IntList(n, [1])
  o: f32[3, 100] = aten::expand(l, [3, 100])
  p: f32[3] = aten::sum.dim_IntList(o, [1])
  r: f32[100] = aten::sum.dim_IntList(o, [0])
  return a, v, d, e, u, s, w, q, g, k, m, p, r
})";

constexpr std::string_view kMaps = R"(
graph(x: f32[40], d: f64[40], xi: i32[40], i: i64[40], b: bool[40], p: f32[6, 9]) {
  a: f32[40] = aten::exp(x)
  c: f32[40] = aten::tanh(x)
  e: f32[40] = aten::log(x)
  f: f32[40] = aten::erf(x)
  g: f32[40] = aten::expm1(x)
  h: f32[40] = aten::log1p(x)
  j: f32[40] = aten::minimum(x, a)
  k: f64[40] = aten::atan2(d, d)
  l: i32[40] = aten::mul.Tensor(xi, xi)
  m: i64[40] = aten::remainder.Scalar(i, 3)
  n: i64[40] = aten::_to_copy(x, dtype=dtype.i64)
  o: f32[40] = aten::where.self(b, x, a)
  q: f32[8, 12] = aten::constant_pad_nd(p, [1, 2, 1, 1], 0.5)
  r: f32[40] = aten::neg(x)
  s: f32[40] = aten::round(x)
  t: bool[40] = aten::le.Tensor(x, a)
  u: bool[40] = aten::ge.Tensor(x, a)
  v: f32[1] = aten::amin(x, [0], True)
  return a, c, e, f, g, h, j, k, l, m, n, o, q, r, s, t, u, v
})";

// Sizes that only calls tell, small ones too: then Halide's vectors do not fit, and the kernel in C++ runs.
constexpr std::string_view kFreeSizes = R"(
sym n in [0, 100000]
sym m in [1, 100000]
graph(x: f32[n, m], y: f32[m]) {
  a: f32[n, m] = aten::mul.Tensor(x, y)
  b: f32[n, m] = aten::softmax.int(a, 1)
  return b
})";

TEST(HalideProgram, ComputesWhatTheEvaluatorDoes) {
  try {
    halide_version();
  } catch (const Error& error) {
    GTEST_SKIP() << error.report();
  }
  try {
    for (const char* autoscheduler : {"Mullapudi2016", "Li2018", "Adams2019"}) {
      expect_halide_as_evaluated(kReductions, {{}}, autoscheduler);
      if (autoscheduler == std::string("Adams2019")) continue;  // it gives up with sizes that it does not know
      expect_halide_as_evaluated(kFreeSizes, {{{"n", 100}, {"m", 300}}, {{"n", 3}, {"m", 1}}, {{"n", 0}, {"m", 40}}}, autoscheduler);
    }
    expect_halide_as_evaluated(kMaps, {{}}, "Mullapudi2016");
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

// The example of a user's own stencil, beside the same by PyTorch's operators.
TEST(HalideProgram, AUsersKernelIsAPipeline) {
  try {
    halide_version();
  } catch (const Error& error) {
    GTEST_SKIP() << error.report();
  }
  const auto folders = OperatorFolders{.trusted = {std::filesystem::path(TOROID_SOURCE_DIR) / "examples/halide"}};
  Program program = parse_text(R"(graph(x: f32[3, 64, 96]) {
  y: f32[3, 64, 96] = mylib::sharpen(x, 0.5)
  around: f32[3, 66, 98] = aten::replication_pad2d(x, [1, 1, 1, 1])
  mean: f32[3, 64, 96] = aten::avg_pool2d(around, [3, 3], [1, 1])
  detail: f32[3, 64, 96] = aten::sub.Tensor(x, mean)
  scaled: f32[3, 64, 96] = aten::mul.Scalar(detail, 0.5)
  z: f32[3, 64, 96] = aten::add.Tensor(x, scaled)
  return y, z
})",
                               {}, std::make_shared<CustomOperators>(folders));
  try {
    const std::vector<HostTensor> inputs = {example_input("p", DType::F32, {3, 64, 96})};
    const std::vector<HostTensor> outputs = TestSession::get().compile(std::move(program), {}).load(2).run(inputs);
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(difference(outputs[0], outputs[1], {.sums_or_products = true}), std::nullopt);
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

TEST(HalideProgram, AScheduleSaysWhichKernelsArePipelines) {
  const std::string_view text = R"(
graph(x: f32[8, 64], i: i64[5], w: f32[64, 32]) {
  a: f32[8, 64] = aten::softmax.int(x, 1)
  c: f32[5, 64] = aten::index_select(a, 0, i)
  d: f32[8, 32] = aten::mm(a, w)
  return c, d
})";
  schedule::Scheduled made = schedule::scheduled(text);
  std::vector<schedule::ScheduledGraph> graphs(1);
  graphs[0].outputs = std::move(made.outputs);
  graphs[0].schedule = std::move(made.schedule);
  EXPECT_EQ(fmt::format("{}", fmt::join(take_halide(graphs, "Li2018"), "; ")),
            "mm: a call; index_select: an index that is read from a tensor");
  const std::string dumped = schedule::schedule_text(made.program, graphs);
  EXPECT_TRUE(dumped.find("\n    halide Li2018\n") != std::string::npos) << dumped;
  EXPECT_EQ(schedule::schedule_text(made.program, schedule::parse_schedule(dumped).graphs), dumped);
}

TEST(HalideProgram, ChecksOfAccessesAreRefused) {
  CompileModelOptions options{.assertions = true};
  set_device(options, "halide:adams2019");
  EXPECT_EQ(options.halide, "Adams2019");
  EXPECT_EQ(error_of([&] { TestSession::get().compile(parse_text("graph(x: f32[4]) {\n  return x\n}"), options); }).report(),
            "error: there are no checks of each access for kernels in Halide\n  help: compile for the device cpu");
}

}  // namespace
}  // namespace toroid
