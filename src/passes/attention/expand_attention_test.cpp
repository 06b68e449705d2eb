#include "passes/attention/expand_attention.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

HostTensor waves(std::vector<int64_t> sizes) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37) % 101) / 50 - 1;
  return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
}

// The mask's second row sees nothing, and keys serve two heads of queries each.
TEST(ExpandAttention, ComputesTheSame) {
  Program program = parse_text(R"(
graph(q: f32[1, 4, 3, 8], k: f32[1, 2, 5, 8], v: f32[1, 2, 5, 6], m: f32[3, 5]) {
  y: f32[1, 4, 3, 6] = aten::scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True)
  z: f32[1, 4, 3, 6] = aten::scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
  return y, z
})");
  decompose(program);
  HostTensor mask = waves({3, 5});
  for (size_t i = 5; i < 10; ++i) mask.mutable_data<float>()[i] = -std::numeric_limits<float>::infinity();
  const std::vector<HostTensor> inputs = {waves({1, 4, 3, 8}), waves({1, 2, 5, 8}), waves({1, 2, 5, 6}), mask};
  const std::vector<HostTensor> expected = evaluate(program, inputs);
  const auto none = [](const Graph&, const Node&) { return false; };
  ASSERT_TRUE(expand_attention(program, none));
  verify(program, Level::Core);
  EXPECT_EQ(to_text(program).find("attention("), std::string::npos);
  const std::vector<HostTensor> outputs = evaluate(program, inputs);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = true}), std::nullopt);
  EXPECT_FALSE(expand_attention(program, none));
}

}  // namespace
}  // namespace toroid
