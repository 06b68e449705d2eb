// Formulas called as a front end does that knows nothing of ATen: with tensors of a Builder and plain parameters.
#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "formula/backward/activation_backward.h"
#include "formula/convolution/convolution.h"
#include "formula/math/einsum.h"
#include "formula/movement/scattering.h"
#include "formula/nn/activation.h"
#include "formula/nn/attention.h"
#include "formula/nn/grid_sampling.h"
#include "formula/nn/normalization.h"
#include "formula/nn/pooling.h"
#include "formula/nn/recurrent.h"
#include "formula/quantization/affine.h"
#include "formula/quantization/integer_weights.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace toroid {
namespace {

class FormulaTest : public testing::Test {
 protected:
  Tensor input(std::string name, DType dtype, Sizes sizes) {
    const Tensor tensor =
        b.emit(Input{static_cast<uint32_t>(program.graph.inputs.size())}, {}, {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
    program.graph.inputs.push_back(tensor.id());
    program.graph.rename(tensor.id(), name);
    program.inputs.push_back({name});
    return tensor;
  }
  Tensor f32(std::string name, Sizes sizes) { return input(std::move(name), DType::F32, std::move(sizes)); }

  // The text of the program that gives `result`.
  std::string text_of(Tensor result) {
    program.graph.outputs = {result.id()};
    program.outputs = {{}};
    verify(program, Level::Core);
    return "\n" + to_text(program);
  }

  template <class F>
  std::string error_of(F f) {
    return toroid::error_of(f).message();
  }

  Program program;
  Builder b{program.graph, *program.symbols, &program.guards};
};

// With a dilation of 6 over five positions only the middle of three elements meets the image; of 3, all do.
TEST_F(FormulaTest, ElementsOfFiltersThatMeetTheMarginAloneAreLeftOut) {
  const Tensor x = f32("x", {1, 2, 5}), w = f32("w", {4, 2, 3});
  const formula::ConvolutionGeometry beyond = {.stride = {1}, .padding = {6}, .dilation = {6}, .output_padding = {}};
  const std::string text = text_of(formula::convolution(x, w, {}, beyond));
  EXPECT_NE(text.find("f32[4, 2, 1] = slice(w, starts=[0, 0, 1], steps=[1, 1, 1])"), std::string::npos) << text;
  EXPECT_NE(text.find("padding=[0]"), std::string::npos) << text;
  const formula::ConvolutionGeometry within = {.stride = {1}, .padding = {3}, .dilation = {3}, .output_padding = {}};
  EXPECT_NE(text_of(formula::convolution(x, w, {}, within)).find("padding=[3]"), std::string::npos);
  // A model says any numbers. They are not counted one by one.
  constexpr int64_t kLarge = int64_t{1} << 40;
  const formula::ConvolutionGeometry large = {.stride = {4}, .padding = {kLarge}, .dilation = {2}, .output_padding = {}};
  EXPECT_NE(text_of(formula::convolution(f32("y", {1, 1, 1}), f32("v", {1, 1, kLarge}), {}, large)).find("f32[1, 1, 1] = convolution(y, v"),
            std::string::npos);
}

// A dilation of 12 over 14 positions: the outer elements meet the image for two results each.
TEST_F(FormulaTest, AConvolutionWhoseFiltersMeetTheMarginMostlyIsASumOverTheirElements) {
  const auto convolutions = [&](DType dtype, int64_t batch, int64_t filters, int64_t dilation) {
    const size_t before = program.graph.nodes().size();
    const Tensor x = input("x", dtype, {batch, 320, 14}), w = input("w", dtype, {filters, 320, 3});
    formula::convolution(x, w, {}, {.stride = {1}, .padding = {dilation}, .dilation = {dilation}, .output_padding = {}},
                         {.sums_elements = true});
    std::vector<std::string> types;
    for (const Node& node : std::span(program.graph.nodes()).subspan(before)) {
      if (std::holds_alternative<Convolution>(node.op)) types.push_back(to_string(program.graph.value(node.outputs[0]).type));
    }
    return types;
  };
  EXPECT_EQ(convolutions(DType::F32, 2, 3200, 12), (std::vector<std::string>{"f32[2, 3200, 2]", "f32[2, 3200, 14]", "f32[2, 3200, 2]"}));
  // Not where most multiplications are with the image, where they are few, and where sums would be rounded more than once.
  EXPECT_EQ(convolutions(DType::F32, 2, 3200, 6), (std::vector<std::string>{"f32[2, 3200, 14]"}));
  EXPECT_EQ(convolutions(DType::F32, 1, 64, 12), (std::vector<std::string>{"f32[1, 64, 14]"}));
  EXPECT_EQ(convolutions(DType::BF16, 2, 3200, 12), (std::vector<std::string>{"bf16[2, 3200, 14]"}));
}

TEST_F(FormulaTest, AnActivationOfHalvesIsComputedInF32) {
  EXPECT_EQ(text_of(formula::silu(input("x", DType::F16, {2, 3}))), R"(
graph(x: f16[2, 3]) {
  t_1: f32[2, 3] = cast(x)
  t_2: f32[2, 3] = sigmoid(t_1)
  t_3: f32[2, 3] = mul(t_1, t_2)
  t_4: f16[2, 3] = cast(t_3)
  return t_4
}
)");
}

TEST_F(FormulaTest, AMaxPoolIsAViewOfWindowsAndTheirMaximum) {
  const Tensor x = f32("x", {1, 1, 4});
  EXPECT_EQ(text_of(formula::max_pool(x, {.kernel = {2}, .stride = {}, .padding = {0}, .dilation = {1}})), R"(
graph(x: f32[1, 1, 4]) {
  t_1: f32[1, 1, 2, 2] = remap(x, axes=[a0, a1, a2, a3], index=[a0, a1, 2*a2 + a3])
  t_2: f32[1, 1, 2] = reduce.max(t_1, dims=[3])
  return t_2
}
)");
}

TEST_F(FormulaTest, ATransposedFactorIsNoMoreThanAProduct) {
  const Tensor x = f32("x", {2, 3}), y = f32("y", {4, 3});
  EXPECT_EQ(text_of(formula::einsum("ij, kj -> ik", {x, y})), R"(
graph(x: f32[2, 3], y: f32[4, 3]) {
  t_2: f32[3, 4] = permute(y, dims=[1, 0])
  t_3: f32[2, 4] = matmul(x, t_2)
  return t_3
}
)");
}

TEST_F(FormulaTest, AGradientTakesWhatTheForwardFormulaTook) {
  const Tensor grad = f32("grad", {3}), x = f32("x", {3});
  EXPECT_EQ(text_of(formula::log_sigmoid_backward(grad, x)), R"(
graph(grad: f32[3], x: f32[3]) {
  t_2: f32[3] = neg(x)
  t_3: f32[3] = sigmoid(t_2)
  t_4: f32[3] = mul(grad, t_3)
  return t_4
}
)");
}

TEST_F(FormulaTest, AMaskThatWritesOneValueIsAChoice) {
  const Tensor x = f32("x", {2, 3}), mask = input("mask", DType::Bool, {2});
  EXPECT_EQ(text_of(formula::index_put(x, {mask}, f32("value", {}), false)), R"(
graph(x: f32[2, 3], mask: bool[2], value: f32[]) {
  t_3: bool[2, 1] = reshape(mask)
  t_4: bool[2, 3] = expand(t_3)
  t_5: f32[1, 1] = reshape(value)
  t_6: f32[2, 3] = expand(t_5)
  t_7: f32[2, 3] = where(t_4, t_6, x)
  return t_7
}
)");
}

TEST_F(FormulaTest, DequantisedValuesAreIntegersTimesTheirScales) {
  const Tensor q = input("q", DType::I8, {2, 3}), scales = f32("scales", {2});
  EXPECT_EQ(text_of(formula::dequantize_per_channel(q, scales, {}, 0, DType::F32)), R"(
graph(q: i8[2, 3], scales: f32[2]) {
  t_2: f32[2, 1] = reshape(scales)
  t_3: f32[2, 3] = cast(q)
  t_4: f32[2, 3] = expand(t_2)
  t_5: f32[2, 3] = mul(t_3, t_4)
  return t_5
}
)");
}

// Errors say what is wrong where no operator of ATen is at hand to be named.
TEST_F(FormulaTest, ErrorsNameTheOperatorWithoutATen) {
  const Tensor vector = f32("vector", {4});
  EXPECT_EQ(error_of([&] { formula::batch_norm(vector, vector, vector, {}, {}, 0); }), "batch_norm needs a channel dim");
  EXPECT_EQ(error_of([&] { formula::instance_norm(vector, {}, {}, 0); }), "instance_norm needs a channel dim");
  EXPECT_EQ(error_of([&] {
              formula::batch_norm(f32("x", {1, 4}), vector, {}, {}, {}, 0);
            }),
            "batch_norm outside training needs running statistics");
  for (const DType dtype : {DType::F32, DType::F64}) {
    const Tensor bias = input("bias", dtype, {dtype == DType::F32 ? 1 : 6});
    const formula::ConvolutionGeometry plain = {.stride = {1}, .padding = {1}, .dilation = {1}, .output_padding = {}};
    EXPECT_EQ(error_of([&] {
                formula::convolution(f32("signal", {2, 8, 5}), f32("filters", {6, 8, 3}), bias, plain);
              }),
              fmt::format("a convolution of f32[2, 8, 5] to 6 channels with a bias {}", to_string(bias.type())));
  }
  EXPECT_EQ(error_of([&] { formula::scaled_dot_product_attention(vector, vector, vector, {}, {}); }),
            "attention needs tensors of rank 2 or more");
  const formula::QuantizedRange bits{sym::Expr(0), sym::Expr(1)};
  EXPECT_EQ(error_of([&] { formula::quantize_per_group(vector, vector, vector, 2, bits, DType::U8); }),
            "groups of a tensor of rank 1: matrices are quantised so");
  EXPECT_EQ(error_of([&] {
              formula::grid_sample(f32("image", {1, 1, 2, 2}), f32("grid", {1, 2, 2}), {});
            }),
            "a grid f32[1, 2, 2] for a tensor f32[1, 1, 2, 2]: both have one rank, 3 or more");
  EXPECT_EQ(error_of([&] {
              formula::pack_int4(input("numbers", DType::I32, {8, 4}));
            }),
            "packed int4 weights need a multiple of 16 rows, not 8");
  const sym::Expr steps = program.symbols->symbol("steps", sym::SymbolKind::Size, {1, 1024});
  EXPECT_EQ(error_of([&] {
              formula::recurrent_network(f32("sequence", {steps, 1, 2}), {}, {}, {.between_layers = {}, .name = "onnx::GRU"});
            }),
            "onnx::GRU over a sequence of symbolic length");
}

}  // namespace
}  // namespace toroid
