// Several forms of one program, chosen by the sizes of a call.
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kSoftmax = R"(
program "rows"
constant 0 "w": f32[4] = [1, 2, 3, 4]
sym s0 in [1, 512]
sym s1 in [1, 64]
graph(x: f32[s0, s1, 4]) {
  w: f32[4] = constant(0)
  y: f32[s0, s1, 4] = aten::mul.Tensor(x, w)
  z: f32[s0, s1, 4] = aten::softmax.int(y, 1)
  return z
})";

CompiledModel with_variants(std::string_view text, std::vector<SizeValues> variants) {
  CompileModelOptions options;
  options.variants = std::move(variants);
  options.keep_program = true;
  options.optimization = test_optimisation();
  return TestSession::get().compile(parse_text(text), options);
}

std::string error_of_variant(std::string_view text, SizeValues variant) {
  try {
    with_variants(text, {std::move(variant)});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidOption);
    return error.message() + " | " + error.help_text();
  }
  return "no error";
}

TEST(Variants, EachCallGetsTheRightResultsWhicheverServesIt) {
  const CompiledModel model = with_variants(kSoftmax, {{{"s0", 1}}, {{"s0", 3}, {"s1", 7}}});
  EXPECT_EQ(model.constants.size(), 1u);  // shared by all
  Executable executable = model.load(2);
  ASSERT_EQ(executable.tables().num_variants, 3);
  EXPECT_EQ(executable.tables().variants[1].contract.num_symbols, 0);
  for (const auto& [a, b] : {std::pair{1, 7}, {3, 7}, {3, 8}, {1, 1}, {20, 64}, {3, 7}}) {
    const std::vector<HostTensor> inputs = {example_input("v", DType::F32, {a, b, 4})};
    EXPECT_EQ(difference(executable.run(inputs)[0], evaluate(*model.program, inputs)[0], {}), std::nullopt) << a << " " << b;
  }
}

TEST(Variants, TakeTheBranchOfTheirSizes) {
  constexpr std::string_view kText = R"(
sym s0 in [1, 512]
subgraph 0(x: f32[s0]) {
  y: f32[s0] = aten::square(x)
  return y
}
subgraph 1(x: f32[s0]) {
  y: f32[s0] = aten::neg(x)
  return y
}
graph(x: f32[s0]) {
  y: f32[s0] = higher_order::cond((s0 < 4), @0, @1, [x])
  return y
})";
  const CompiledModel model = with_variants(kText, {{{"s0", 2}}, {{"s0", 5}}});
  Executable executable = model.load(1);
  for (int64_t n : {2, 5, 3, 4}) {
    const std::vector<HostTensor> inputs = {example_input("v", DType::F32, {n})};
    EXPECT_EQ(difference(executable.run(inputs)[0], evaluate(*model.program, inputs)[0], {}), std::nullopt) << n;
  }
}

TEST(Variants, ShareTheStateOfBuffers) {
  constexpr std::string_view kText = R"(
sym s0 in [1, 512]
buffer 0 "n": f32[] = [10]
graph(x: f32[s0]) {
  n: f32[] = constant(0)
  m: f32[] = aten::add_.Scalar(n, 1)
  y: f32[s0] = aten::add.Tensor(x, m)
  return y
})";
  Executable executable = with_variants(kText, {{{"s0", 1}}}).load(1);
  auto call = [&](int64_t n) {
    const HostTensor zeros = HostTensor::from_doubles(DType::F32, {n}, std::vector<double>(n, 0.0));
    const std::vector<HostTensor> outputs = executable.run({&zeros, 1});
    return outputs.back().to_doubles()[0];
  };
  EXPECT_EQ(call(1), 11);
  EXPECT_EQ(call(2), 12);
  EXPECT_EQ(call(1), 13);
}

TEST(Variants, AreChecked) {
  EXPECT_EQ(error_of_variant(kSoftmax, {{"s7", 1}}),
            "the program has no size called 's7' | its sizes: s0 (x.0), s1 (x.1); a .pt2 file does not keep the names of torch.export.Dim");
  EXPECT_EQ(error_of_variant(kSoftmax, {{"s1", 65}}), "s1 = 65 is outside of the sizes that the program takes, 1 to 64 | ");
  EXPECT_EQ(error_of_variant("graph(x: f32[3]) {\n  return x\n}", {{"s0", 1}}),
            "the program has no size called 's0' | all of its sizes are fixed");
}

TEST(Variants, SizesMayBeCalledByTheirPlace) {
  constexpr std::string_view kDoubled = R"(
sym s0 in [2, 64]
graph(x: f32[2*s0 + 1, 3], y: f32[s0]) {
  z: f32[s0] = aten::neg(y)
  return z, x
})";
  const Program program = parse_text(kDoubled);
  EXPECT_EQ(by_symbols(program, {{"x.0", 17}}), (SizeValues{{"s0", 8}}));
  EXPECT_EQ(by_symbols(program, {{"y.0", 8}, {"x.0", 17}}), (SizeValues{{"s0", 8}})) << "both say the same";
  EXPECT_EQ(error_of_variant(kDoubled, {{"x.0", 16}}), "x.0 cannot be 16: it is 2*s0 + 1 | give the sizes that it is made of instead");
  EXPECT_EQ(error_of_variant(kDoubled, {{"x.0", 17}, {"s0", 9}}), "s0=9 gives s0 the value 9, and it has the value 8 already | ");
  EXPECT_EQ(error_of_variant(kDoubled, {{"x.1", 3}}), "x.1 is 3 in every call | leave it out of --variant");
}

TEST(Variants, TheLastCallSaysWhichOneRan) {
  Executable executable = with_variants(kSoftmax, {{{"x.0", 1}}}).load(1);
  EXPECT_EQ(executable.last_variant().num_conditions, 0);
  executable.run(std::vector<HostTensor>{example_input("v", DType::F32, {1, 7, 4})});
  ASSERT_EQ(executable.last_variant().num_conditions, 1);
  EXPECT_STREQ(executable.last_variant().conditions[0].symbol, "s0");
  EXPECT_EQ(executable.last_variant().conditions[0].value, 1);
  executable.run(std::vector<HostTensor>{example_input("v", DType::F32, {2, 7, 4})});
  EXPECT_EQ(executable.last_variant().num_conditions, 0);
}

}  // namespace
}  // namespace toroid
