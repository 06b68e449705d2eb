// Convolutions whose filters meet the margin more often than the image: sums over the filters' elements give what the convolution gives.
#include <gtest/gtest.h>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

struct MarginCase {
  std::string name, x, weight, result;
  int64_t dims, stride, padding, dilation, groups = 1;
};

const MarginCase kMarginCases[] = {
    {"of_an_image", "f32[1, 128, 14, 15]", "f32[128, 128, 3, 3]", "f32[1, 128, 14, 15]", 2, 1, 12, 12},
    {"of_a_line", "f32[2, 320, 14]", "f32[3200, 320, 3]", "f32[2, 3200, 14]", 1, 1, 12, 12},
    {"of_a_body", "f32[1, 64, 4, 4, 4]", "f32[192, 64, 3, 3, 3]", "f32[1, 192, 4, 4, 4]", 3, 1, 3, 3},
    {"with_a_stride", "f32[2, 128, 16, 18]", "f32[128, 128, 4, 4]", "f32[2, 128, 8, 9]", 2, 2, 15, 10},
    {"of_groups", "f32[1, 128, 18, 18]", "f32[256, 64, 3, 3]", "f32[1, 256, 18, 18]", 2, 1, 15, 15, 2},
    {"of_doubles_with_a_wider_margin", "f64[1, 128, 9, 9]", "f64[128, 128, 3, 3]", "f64[1, 128, 15, 15]", 2, 1, 11, 8},
};

std::string list_of(int64_t number, int64_t dims) {
  std::string list = fmt::format("[{}", number);
  for (int64_t d = 1; d < dims; ++d) list += fmt::format(", {}", number);
  return list + "]";
}

class FilterElements : public testing::TestWithParam<MarginCase> {};
TEST_P(FilterElements, AddUpToTheConvolution) {
  const MarginCase& row = GetParam();
  const std::string how = fmt::format("stride={}, padding={}, dilation={}", list_of(row.stride, row.dims), list_of(row.padding, row.dims),
                                      list_of(row.dilation, row.dims));
  const std::string head = fmt::format("graph(x: {}, w: {}) {{\n  y: {} = ", row.x, row.weight, row.result);
  const CompiledModel model =
      compiled(fmt::format("{}aten::conv{}d(x, w, {}, groups={})\n  return y\n}}", head, row.dims, how, row.groups));
  EXPECT_GT(model.library_calls, 1);
  const Program whole = parse_text(fmt::format("{}convolution(x, w, {}, output_padding={}, transposed=false, groups={})\n  return y\n}}",
                                               head, how, list_of(0, row.dims), row.groups));
  const std::vector<HostTensor> inputs = example_inputs(*model.program);
  const std::vector<HostTensor> expected = evaluate(whole, inputs);
  EXPECT_EQ(difference(model.load(2).run(inputs)[0], expected[0], {.sums_or_products = true}), std::nullopt);
}
INSTANTIATE_TEST_SUITE_P(Rows, FilterElements, testing::ValuesIn(kMarginCases), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid
