#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

// What tests/conformance/extensions.py does not record: torchvision's CPU kernels have no bfloat16.
const OperatorCase kDetectionCases[] = {
    {"torchvision::roi_align(x0, x1, 1.0, 1, 1, 1, true)",
     {"bf16[1, 1, 2, 2] = [1, 2, 3, 4]", "bf16[2, 5] = [0, 0, 0, 2, 2, 0, 0, 0, 1, 1]"},
     {"bf16[2, 1, 1, 1] = [2.5, 1]"}},
    {"torchvision::roi_pool(x0, x1, 1.0, 1, 1)",
     {"bf16[1, 1, 2, 2] = [1, 2, 3, 4]", "bf16[2, 5] = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]"},
     {"bf16[2, 1, 1, 1] = [4, 1]", "i32[2, 1, 1, 1] = [3, 0]"}},
    {"torchvision::deform_conv2d(x0, x1, x2, x3, x4, 1, 1, 0, 0, 1, 1, 1, 1, false)",
     {"bf16[1, 1, 1, 2] = [2, 4]", "bf16[1, 1, 1, 1] = [3]", "bf16[1, 2, 1, 2] = [0, 0, 0.5, 0.5]", "bf16[1, 1] = [0]", "bf16[1] = [1]"},
     {"bf16[1, 1, 1, 2] = [10, 7]"}},
};

class Detection : public testing::TestWithParam<OperatorCase> {};
TEST_P(Detection, IsPyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, Detection, testing::ValuesIn(kDetectionCases));

std::string report_of(std::string_view call, std::string_view inputs, std::string_view type) {
  try {
    Program program = parse_text(fmt::format("program \"case\"\ngraph({}) {{\n  y: {} = {}\n  return y\n}}\n", inputs, type, call));
    decompose(program);
  } catch (const Error& error) {
    return error.report();
  }
  return "accepted";
}

TEST(DetectionArguments, ThatCannotBeAreRefusedByName) {
  const struct {
    const char *call, *inputs, *type, *words;
  } kRefused[] = {
      {"torchvision::nms(b, s, 0.5)", "b: f32[7, 5], s: f32[7]", "i64[3]", "torchvision::nms: boxes are rows of 4 numbers"},
      {"torchvision::nms(b, s, 0.5)", "b: f32[7, 4], s: f32[7, 1]", "i64[3]", "torchvision::nms: there is one score a box"},
      {"torchvision::nms(b, s, 0.5)", "b: f32[7, 4], s: f32[6]", "i64[3]", "as many scores as boxes"},
      {"torchvision::roi_align(x, r, 1.0, 2, 2, 2, true)", "x: f32[1, 2, 3], r: f32[7, 5]", "f32[7, 2, 2, 2]", "the image has rank 4"},
      {"torchvision::roi_align(x, r, 1.0, 2, 2, 2, true)", "x: f32[1, 2, 3, 3], r: f32[7, 4]", "f32[7, 2, 2, 2]",
       "regions are rows of 5 numbers"},
      {"torchvision::roi_align(x, r, 1.0, 0, 2, 2, true)", "x: f32[1, 2, 3, 3], r: f32[7, 5]", "f32[7, 2, 0, 2]",
       "the pooled size is positive"},
      {"torchvision::roi_align(x, r, 1.0, 2, 2, 1099511627776, true)", "x: f32[1, 2, 3, 3], r: f32[7, 5]", "f32[7, 2, 2, 2]",
       "sampling_ratio may be up to 256"},
      {"torchvision::deform_conv2d(x, w, o, o, v, 0, 1, 0, 0, 1, 1, 1, 1, false)",
       "x: f32[1, 1, 4, 4], w: f32[1, 1, 1, 1], o: f32[1, 2, 4, 4], v: f32[1]", "f32[1, 1, 4, 4]", "groups and strides are positive"},
  };
  for (const auto& row : kRefused) {
    const std::string report = report_of(row.call, row.inputs, row.type);
    EXPECT_NE(report.find(row.words), std::string::npos) << row.call << "\n" << report;
  }
}

}  // namespace
}  // namespace toroid
