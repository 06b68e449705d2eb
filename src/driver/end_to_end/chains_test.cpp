// Convolutions that programs do band by band, compared with the evaluator.
#include "driver/end_to_end/locked_for_test.h"

#include <fmt/format.h>

namespace toroid {
namespace {

// A constant of small numbers that differ.
std::string constant(int number, std::string_view sizes, int64_t count, std::string_view dtype = "f32") {
  std::string text = fmt::format("constant {0} \"w{0}\": {2}{1} = [", number, sizes, dtype);
  for (int64_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", static_cast<double>((i * 37 + number) % 23 - 11) / 64);
  return text + "]\n";
}

// An inverted bottleneck with what programs do between its convolutions, and a number for each channel; then another without a projection.
// `images`: how many, as a size.
std::string bottlenecks(std::string_view images) {
  std::string text = constant(0, "[48, 12, 1, 1]", 48 * 12) + constant(1, "[48, 1, 3, 3]", 48 * 9) +
                     constant(2, "[12, 48, 1, 1]", 12 * 48) + constant(3, "[48]", 48) + R"(
graph(image: f32[s0, 12, 45, 37]) {
  w: f32[48, 12, 1, 1] = constant(0)
  v: f32[48, 1, 3, 3] = constant(1)
  u: f32[12, 48, 1, 1] = constant(2)
  bias: f32[48] = constant(3)
  a: f32[s0, 48, 45, 37] = aten::conv2d(image, w, bias)
  b: f32[s0, 48, 45, 37] = aten::hardtanh(a, 0.0, 6.0)
  c: f32[s0, 48, 45, 37] = aten::conv2d(b, v, bias, padding=[1, 1], groups=48)
  d: f32[s0, 48, 45, 37] = aten::silu(c)
  e: f32[s0, 12, 45, 37] = aten::conv2d(d, u)
  y: f32[s0, 12, 45, 37] = aten::add.Tensor(e, image)
  f: f32[s0, 48, 45, 37] = aten::conv2d(y, w)
  z: f32[s0, 48, 23, 19] = aten::conv2d(f, v, stride=[2, 2], padding=[1, 1], groups=48)
  return y, z
})";
  for (size_t at = 0; (at = text.find("s0", at)) != text.npos; at += images.size()) text.replace(at, 2, images);
  return text;
}

TEST(Chains, AreTheEvaluators) {
  const std::string text = "sym s0 in [1, 8] hint 2\n" + bottlenecks("s0");
  const CompiledModel model = compiled(text);
  EXPECT_EQ(model.library_calls, 2);
  for (const int threads : {1, 2, 3}) {
    Executable executable = model.load(threads);
    for (const int64_t images : {1, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} images, {} threads", images, threads));
      const HostTensor image = example_input("image", DType::F32, {images, 12, 45, 37});
      const std::vector<HostTensor> expected = evaluate(*model.program, {&image, 1}), actual = executable.run({&image, 1});
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(difference(actual[i], expected[i], {.sums_or_products = true}), std::nullopt);
    }
  }
}

// On machines without tiles one after the other.
TEST(Chains, AreTheEvaluatorsInBFloat16) {
  const std::string text = constant(0, "[48, 12, 1, 1]", 48 * 12, "bf16") + constant(1, "[48, 1, 3, 3]", 48 * 9, "bf16") +
                           constant(2, "[12, 48, 1, 1]", 12 * 48, "bf16") + R"(
graph(image: bf16[2, 12, 45, 37]) {
  w: bf16[48, 12, 1, 1] = constant(0)
  v: bf16[48, 1, 3, 3] = constant(1)
  u: bf16[12, 48, 1, 1] = constant(2)
  a: bf16[2, 48, 45, 37] = aten::conv2d(image, w)
  b: bf16[2, 48, 45, 37] = aten::hardtanh(a, 0.0, 6.0)
  c: bf16[2, 48, 23, 19] = aten::conv2d(b, v, stride=[2, 2], padding=[1, 1], groups=48)
  d: bf16[2, 48, 23, 19] = aten::hardtanh(c, 0.0, 6.0)
  y: bf16[2, 12, 23, 19] = aten::conv2d(d, u)
  return y
})";
  const CompiledModel model = compiled(text);
  EXPECT_EQ(model.library_calls, 1);
  for (const int threads : {1, 2, 3}) {
    const HostTensor image = example_input("image", DType::BF16, {2, 12, 45, 37});
    const std::vector<HostTensor> expected = evaluate(*model.program, {&image, 1}), actual = model.load(threads).run({&image, 1});
    EXPECT_EQ(difference(actual[0], expected[0], {.sums_or_products = true}), std::nullopt) << threads;
  }
}

// A lock without a line for a chain is an error (compiled_with waits for it); with one, the program does what it says.
TEST(Chains, AreDoneAsALockSays) {
  for (const std::string_view choice : {"bands", "apart"}) {
    SCOPED_TRACE(choice);
    const auto [model, choices] = compiled_with(bottlenecks("1"), [&](const Problem&, const Choice& each) { return each.name == choice; });
    EXPECT_EQ(model.library_calls, choice == "bands" ? 2 : 5);
    EXPECT_EQ(choices.size(), choice == "bands" ? 2u : 7u);
    const HostTensor image = example_input("image", DType::F32, {1, 12, 45, 37});
    const std::vector<HostTensor> expected = evaluate(*model.program, {&image, 1});
    for (const int threads : {1, 2, 3}) {
      const std::vector<HostTensor> actual = model.load(threads).run({&image, 1});
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(difference(actual[i], expected[i], {.sums_or_products = true}), std::nullopt);
    }
  }
}

}  // namespace
}  // namespace toroid
