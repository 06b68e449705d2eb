#include "lower/products/float8_factors.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Of the one product's sides, how many are found to be made of bits.
int found_sides(std::string_view float8) {
  Program program = parse_text(fmt::format(R"(
graph(a: {0}[32, 64], w: {0}[48, 64], s: f32[]) {{
  t: {0}[64, 48] = aten::t(w)
  y: bf16[32, 48] = aten::_scaled_mm(a, t, s, s, none, none, dtype.bf16)
  return y
}})",
                                           float8));
  decompose(program);
  const std::vector<Node>& nodes = program.graph.nodes();
  const auto product = std::find_if(nodes.begin(), nodes.end(), [](const Node& node) { return std::holds_alternative<Matmul>(node.op); });
  int found = 0;
  for (ValueId side : product->inputs) {
    const std::optional<Float8Factor> factor = as_float8_factor(program.graph, side);
    if (!factor) continue;
    EXPECT_EQ(to_string(factor->dtype), float8);
    EXPECT_EQ(program.graph.type(factor->bits).dtype, DType::U8);
    EXPECT_EQ(program.graph.type(factor->bits).sizes, program.graph.type(side).sizes);
    ++found;
  }
  return found;
}

TEST(Float8Factors, AreRecognisedByTheirFormula) {
  EXPECT_EQ(found_sides("f8e4m3fn"), 2);
  EXPECT_EQ(found_sides("f8e5m2"), 2);
}

}  // namespace
}  // namespace toroid
