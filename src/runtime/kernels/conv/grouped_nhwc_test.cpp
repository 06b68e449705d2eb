// Depthwise and grouped convolutions of images of all small widths: strips of each number of positions, at no edge, one or both, with all
// filter rows or some.
#include <gtest/gtest.h>

#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct Filter {
  int64_t rows, columns, stride, padding;
};

// Small integers, whose sums are exact.
std::vector<float> integers(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& value : result) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed >> 16) % 13 - 6);
  }
  return result;
}

// Groups of so many channels, of the image and of the result.
void check_filter(const Filter& filter, int64_t channels, int64_t together, int64_t width) {
  const int64_t height = 6, rows = (height + 2 * filter.padding - filter.rows) / filter.stride + 1;
  const int64_t columns = (width + 2 * filter.padding - filter.columns) / filter.stride + 1;
  if (width + 2 * filter.padding < filter.columns || rows < 1) return;
  std::vector<float> image = integers(height * width * channels, 1),
                     weights = integers(channels * together * filter.rows * filter.columns, 2);
  std::vector<float> out(static_cast<size_t>(rows * columns * channels), -100.5f);
  auto innermost = [&](int64_t h, int64_t w) { return std::vector<int64_t>{h * w * channels, 1, w * channels, channels}; };
  const std::vector<int64_t> sizes[] = {
      {1, channels, height, width}, {channels, together, filter.rows, filter.columns}, {1, channels, rows, columns}};
  const std::vector<int64_t> strides[] = {innermost(height, width),
                                          {together * filter.rows * filter.columns, filter.rows * filter.columns, filter.columns, 1},
                                          innermost(rows, columns)};
  auto operand = [&](size_t i, std::vector<float>& data) {
    return ToroidOperand{data.data(), sizes[i].data(), strides[i].data(), 4, static_cast<int32_t>(DType::F32), 0};
  };
  const ToroidOperand inputs[] = {operand(0, image), operand(1, weights)}, output = operand(2, out);
  const int64_t numbers[] = {0, channels / together, filter.stride, filter.stride, filter.padding, filter.padding, 1, 1, 0, 0};
  RuntimePool pool(1);
  run_library_kernel("convolution", {pool, inputs, {&output, 1}, numbers, {}});
  for (int64_t at = 0; at < rows * columns * channels; ++at) {
    const int64_t y = at / channels / columns, x = at / channels % columns, c = at % channels;
    float expected = 0;
    for (int64_t i = 0; i < filter.rows; ++i) {
      for (int64_t j = 0; j < filter.columns; ++j) {
        const int64_t row = y * filter.stride - filter.padding + i, column = x * filter.stride - filter.padding + j;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        for (int64_t seen = 0; seen < together; ++seen) {
          expected += image[static_cast<size_t>((row * width + column) * channels + c / together * together + seen)] *
                      weights[static_cast<size_t>(((c * together + seen) * filter.rows + i) * filter.columns + j)];
        }
      }
    }
    ASSERT_EQ(out[static_cast<size_t>(at)], expected)
        << "row " << y << ", column " << x << ", channel " << c << " of a width of " << width << ", filter " << filter.rows << " x "
        << filter.columns << ", stride " << filter.stride << ", groups of " << together;
  }
}

TOROID_ON_MACHINES(ChannelVectors);

TEST_P(ChannelVectors, AllWidthsOfStrips) {
  for (const Filter& filter : {Filter{1, 1, 1, 0}, Filter{2, 2, 1, 0}, Filter{2, 2, 2, 1}, Filter{3, 3, 1, 1}, Filter{3, 3, 2, 1},
                               Filter{3, 3, 1, 0}, Filter{4, 4, 2, 2}, Filter{5, 5, 1, 2}, Filter{5, 5, 2, 2}, Filter{6, 6, 1, 3},
                               Filter{7, 7, 1, 3}, Filter{7, 7, 2, 3}, Filter{3, 5, 1, 2}, Filter{3, 3, 1, 9}}) {
    for (int64_t channels : {16, 40}) {
      for (int64_t width = 1; width <= 23; ++width) check_filter(filter, channels, 1, width);
    }
  }
}

TEST_P(ChannelVectors, AllWidthsOfStripsOfGroups) {
  for (const Filter& filter : {Filter{1, 1, 1, 0}, Filter{2, 2, 1, 1}, Filter{3, 3, 1, 1}, Filter{3, 3, 2, 1}, Filter{5, 5, 1, 2}}) {
    for (int64_t together : {2, 8, 24}) {
      for (int64_t width : {1, 2, 3, 4, 5, 6, 7, 10, 15}) check_filter(filter, 48, together, width);
    }
  }
}

}  // namespace
}  // namespace toroid
