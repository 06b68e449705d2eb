// Formulas called as a front end does that knows nothing of ATen: with tensors of a Builder and plain parameters.
#include <gtest/gtest.h>

#include "base/error.h"
#include "formula/math/einsum.h"
#include "formula/nn/activation.h"
#include "formula/nn/attention.h"
#include "formula/nn/normalization.h"
#include "formula/nn/pooling.h"
#include "formula/nn/recurrent.h"
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
    try {
      f();
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  }

  Program program;
  Builder b{program.graph, *program.symbols, &program.guards};
};

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

// Errors say what is wrong where no operator of ATen is at hand to be named.
TEST_F(FormulaTest, ErrorsNameTheOperatorWithoutATen) {
  const Tensor vector = f32("vector", {4});
  EXPECT_EQ(error_of([&] { formula::batch_norm(vector, vector, vector, {}, {}, 0); }), "batch_norm needs a channel dim");
  EXPECT_EQ(error_of([&] { formula::instance_norm(vector, {}, {}, 0); }), "instance_norm needs a channel dim");
  EXPECT_EQ(error_of([&] {
              formula::batch_norm(f32("x", {1, 4}), vector, {}, {}, {}, 0);
            }),
            "batch_norm outside training needs running statistics");
  EXPECT_EQ(error_of([&] { formula::scaled_dot_product_attention(vector, vector, vector, {}, {}); }),
            "attention needs tensors of rank 2 or more");
  const sym::Expr steps = program.symbols->symbol("steps", sym::SymbolKind::Size, {1, 1024});
  EXPECT_EQ(error_of([&] {
              formula::recurrent_network(f32("sequence", {steps, 1, 2}), {}, {}, {.name = "onnx::GRU"});
            }),
            "onnx::GRU over a sequence of symbolic length");
}

}  // namespace
}  // namespace toroid
