// Programs whose products were locked to an implementation, compared with the evaluator.
#include <fmt/ranges.h>

#include <set>

#include "driver/end_to_end/locked_for_test.h"

namespace toroid {
namespace {

struct Row {
  const char* name;
  const char* graph;
  std::vector<int64_t> x, w;
  DType dtype = DType::F32;
};

// In each one product gives its result to an epilogue.
const Row kChoices[] = {
    {"a_product",
     R"(graph(p: f32[37, 50], w: f32[50, 45]) {
  a: f32[37, 45] = aten::mm(p, w)
  b: f32[37, 45] = aten::gelu(a)
  return b
})",
     {37, 50},
     {50, 45}},
    {"batches",
     R"(graph(p: f32[3, 5, 20], w: f32[3, 20, 33]) {
  a: f32[3, 5, 33] = aten::bmm(p, w)
  b: f32[3, 5, 33] = aten::mul.Tensor(a, 0.125)
  return b
})",
     {3, 5, 20},
     {3, 20, 33}},
    {"one_row_of_many_columns",
     R"(graph(p: f32[1, 64], w: f32[64, 5000]) {
  a: f32[1, 5000] = aten::mm(p, w)
  b: f32[1, 5000] = aten::relu(a)
  return b
})",
     {1, 64},
     {64, 5000}},
    {"bfloat16",
     R"(graph(p: bf16[70, 64], w: bf16[64, 81]) {
  a: bf16[70, 81] = aten::mm(p, w)
  b: bf16[70, 81] = aten::relu(a)
  return b
})",
     {70, 64},
     {64, 81},
     DType::BF16},
    {"a_convolution_before_another",
     R"(graph(p: f32[2, 24, 15, 11], w: f32[24, 24, 3, 3]) {
  a: f32[2, 24, 15, 11] = aten::conv2d(p, w, padding=[1, 1])
  b: f32[2, 24, 15, 11] = aten::relu(a)
  c: f32[2, 24, 13, 9] = aten::conv2d(b, w)
  return c
})",
     {2, 24, 15, 11},
     {24, 24, 3, 3}},
    {"an_image_of_one_pixel",
     R"(graph(p: f32[2, 20, 3, 3], w: f32[24, 20, 3, 3]) {
  a: f32[2, 24, 1, 1] = aten::conv2d(p, w)
  b: f32[2, 24, 1, 1] = aten::sigmoid(a)
  return b
})",
     {2, 20, 3, 3},
     {24, 20, 3, 3}},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class EpilogueAfterwards : public testing::TestWithParam<Row> {};

// All that may compete, so those too that can give nothing to an epilogue.
TEST_P(EpilogueAfterwards, IsWhatItIsInBetween) {
  const Row& row = GetParam();
  const std::vector<HostTensor> inputs = {example_input("p", row.dtype, row.x), example_input("w", row.dtype, row.w)};
  std::set<std::string> tried;
  std::vector<HostTensor> expected;
  for (;;) {
    const size_t before = tried.size();
    const auto [model, choices] = compiled_with(row.graph, [&](const Problem&, const Choice& each) {
      return each.then_epilogue && !each.name.starts_with("onednn") && tried.insert(each.name).second;
    });
    if (tried.size() == before) break;
    ASSERT_EQ(tried.size(), before + 1);
    SCOPED_TRACE(fmt::format("{}", fmt::join(choices, ", ")));
    if (expected.empty()) expected = evaluate(*model.program, inputs);
    for (const int threads : {1, 3}) {
      EXPECT_EQ(difference(model.load(threads).run(inputs)[0], expected[0], {.sums_or_products = true}), std::nullopt)
          << threads << " threads";
    }
  }
  EXPECT_GE(tried.size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(Rows, EpilogueAfterwards, testing::ValuesIn(kChoices), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid
