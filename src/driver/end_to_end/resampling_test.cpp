// One dim after the other, resampling gives the same numbers as all dims at once, bit for bit, with fewer elements gathered.
#include <algorithm>

#include "driver/end_to_end/compiled_for_test.h"
#include "graph/verify.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct Resampled {
  HostTensor result;
  int64_t gathered = 0;  // elements
};

std::string resampling_text(std::string_view input, std::string_view call, std::string_view result) {
  return fmt::format("graph(x: {}) {{\n  y: {} = {}\n  return y\n}}", input, result, call);
}

Resampled resampled(const std::string& text, bool by_dims) {
  Program program = parse_text(text);
  decompose(program, {.resamples_by_dims = by_dims});
  verify(program, Level::Core);
  Resampled resampled{evaluate(program, example_inputs(program))[0]};
  for (const Node& node : program.graph.nodes()) {
    if (std::holds_alternative<Gather>(node.op)) resampled.gathered += program.graph.type(node.outputs[0]).numel().value();
  }
  return resampled;
}

void expect_the_same(std::string_view input, std::string_view call, std::string_view result, bool gathers_less) {
  SCOPED_TRACE(call);
  const std::string text = resampling_text(input, call, result);
  const Resampled at_once = resampled(text, false), by_dims = resampled(text, true);
  EXPECT_TRUE(std::ranges::equal(by_dims.result.bytes(), at_once.result.bytes()));
  if (gathers_less)
    EXPECT_LT(by_dims.gathered, at_once.gathered);
  else
    EXPECT_EQ(by_dims.gathered, at_once.gathered);
  expect_as_evaluated(text);
}

TEST(Resampling, DimByDimIsTheSame) {
  expect_the_same("f32[2, 3, 4, 5]", "aten::upsample_bilinear2d(x, [9, 13], false)", "f32[2, 3, 9, 13]", true);
  expect_the_same("f32[2, 3, 4, 5]", "aten::upsample_bilinear2d(x, [9, 13], true)", "f32[2, 3, 9, 13]", true);
  expect_the_same("f32[1, 2, 4, 5]", "aten::upsample_bicubic2d(x, [7, 8], false)", "f32[1, 2, 7, 8]", true);
  expect_the_same("bf16[1, 2, 4, 5]", "aten::upsample_bilinear2d(x, [8, 10], false)", "bf16[1, 2, 8, 10]", true);
  expect_the_same("f32[1, 2, 3, 4, 5]", "aten::upsample_trilinear3d(x, [6, 7, 8], false)", "f32[1, 2, 6, 7, 8]", true);
}

TEST(Resampling, OfOneDimAndToFewRowsIsDoneAtOnce) {
  expect_the_same("f32[1, 2, 4]", "aten::upsample_linear1d(x, [7], false)", "f32[1, 2, 7]", false);
  expect_the_same("f32[1, 2, 9, 5]", "aten::upsample_bilinear2d(x, [4, 13], false)", "f32[1, 2, 4, 13]", false);
}

}  // namespace
}  // namespace toroid
