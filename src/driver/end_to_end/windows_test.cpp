// Extrema of the few elements of a window, of images whose channels lie next to each other: lanes go along these.
#include <limits>
#include <vector>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

// 16 channels for whole vectors, others for parts of one.
std::string maxima_of_windows(std::string_view dtype, int64_t channels) {
  return fmt::format(R"(
graph(x: {0}[2, 9, 7, {1}]) {{
  image: {0}[2, {1}, 9, 7] = aten::permute(x, [0, 3, 1, 2])
  pooled: {0}[2, {1}, 5, 4] = aten::max_pool2d(image, [3, 3], [2, 2], [1, 1])
  y: {0}[2, 5, 4, {1}] = aten::permute(pooled, [0, 2, 3, 1])
  return y
}})",
                     dtype, channels);
}

TEST(Windows, MaximaAreTheEvaluators) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
    for (const int64_t channels : {16, 83}) {
      SCOPED_TRACE(fmt::format("{}, {} channels", to_string(dtype), channels));
      const CompiledModel model =
          TestSession::get().compile(parse_text(maxima_of_windows(to_string(dtype), channels)), {.keep_program = true});
      HostTensor x = example_input("x", dtype, {2, 9, 7, channels});
      if (dtype == DType::F32) {
        x.mutable_data<float>()[5 * channels + 3] = std::numeric_limits<float>::quiet_NaN();
        x.mutable_data<float>()[channels] = -std::numeric_limits<float>::infinity();
      }
      const std::vector<HostTensor> expected = evaluate(*model.program, {&x, 1}), actual = model.load(2).run({&x, 1});
      EXPECT_EQ(difference(actual[0], expected[0], {}), std::nullopt);
    }
  }
}

// Where two accumulators go through the same window.
TEST(Windows, SeveralExtremaAreTheEvaluators) {
  const CompiledModel model = TestSession::get().compile(parse_text(R"(
graph(x: i32[40, 3, 5, 70]) {
  a: i32[40, 70] = aten::amax(x, [1, 2])
  b: i32[40, 70] = aten::amin(x, [1, 2])
  y: i32[40, 70] = aten::sub.Tensor(a, b)
  return y
})"),
                                                         {.keep_program = true});
  const HostTensor x = example_input("x", DType::I32, {40, 3, 5, 70});
  const std::vector<HostTensor> expected = evaluate(*model.program, {&x, 1}), actual = model.load(2).run({&x, 1});
  EXPECT_EQ(difference(actual[0], expected[0], {}), std::nullopt);
}

}  // namespace
}  // namespace toroid
