// Convolutions of bytes by each implementation that takes them, against sums of integers.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/kernels/conv/int8/convolution.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/implementations_for_test.h"

namespace toroid {
namespace {

struct ByteCase {
  const char* name;
  int64_t batch, groups, in_channels, out_channels, height, width;  // channels of a group
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t gap = 0;          // bytes between columns
  bool is_flipped = false;  // the last row is first
  bool has_planes = false;  // of a channel each
};
const ByteCase kByteCases[] = {
    {"3x3", 1, 1, 64, 70, 9, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"two images with strides", 2, 1, 20, 33, 9, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"more positions than a block", 1, 1, 8, 16, 13, 9, {3, 2}, {1, 1}, {1, 0}, {1, 1}},
    {"dilated, columns with gaps", 1, 1, 12, 130, 11, 12, {3, 2}, {1, 2}, {2, 3}, {2, 3}, 5},
    {"single elements far apart", 2, 1, 16, 24, 8, 7, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {"colours", 2, 1, 3, 20, 15, 16, {7, 7}, {2, 2}, {0, 0}, {1, 1}},
    {"colours upside down", 2, 1, 3, 20, 9, 8, {3, 3}, {1, 1}, {1, 0}, {1, 1}, 0, true},
    {"one row of colours", 1, 1, 3, 20, 1, 12, {1, 3}, {1, 1}, {0, 0}, {1, 1}},
    {"colours with a margin of rows", 1, 1, 3, 17, 9, 10, {3, 3}, {1, 1}, {2, 0}, {1, 1}},
    {"colours with a margin", 1, 1, 3, 17, 9, 10, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"channels that fill no words, dilated", 1, 1, 5, 7, 9, 10, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"a margin that nothing reaches", 1, 1, 8, 16, 3, 2, {3, 3}, {1, 1}, {4, 5}, {2, 1}},
    {"groups of four", 1, 8, 4, 4, 7, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"groups of eight with strides", 2, 6, 8, 8, 7, 9, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"wide groups", 1, 2, 32, 80, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"few groups of few", 1, 3, 5, 4, 6, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"several filters a channel", 1, 32, 1, 2, 6, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise", 2, 64, 1, 1, 7, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise with strides", 1, 144, 1, 1, 8, 75, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"depthwise 5x5, few channels", 1, 20, 1, 1, 6, 6, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 3},
    {"depthwise, one channel more", 1, 65, 1, 1, 9, 9, {2, 7}, {1, 3}, {0, 3}, {3, 1}},
    {"depthwise, dilated columns", 1, 33, 1, 1, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"depthwise in one dim", 1, 96, 1, 1, 1, 40, {1, 9}, {1, 1}, {0, 4}, {1, 1}},
    {"channels of a tile's row and some", 1, 1, 72, 70, 9, 11, {3, 3}, {2, 1}, {1, 1}, {1, 1}, 7},
    {"two rows of a tile, dilated", 2, 1, 128, 16, 9, 8, {3, 2}, {1, 1}, {1, 2}, {1, 2}},
    {"three quarters, with strides", 1, 1, 48, 80, 10, 11, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"wide pixels", 1, 1, 80, 130, 7, 9, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"wide pixels with gaps", 2, 1, 96, 33, 4, 8, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 32},
    {"wide pixels upside down", 1, 1, 64, 33, 5, 5, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, true},
    {"pixels of less than a tile's row", 1, 1, 40, 33, 6, 7, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"pixels of a word, one in a tile of its own", 1, 1, 4, 17, 3, 11, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"wide pixels with strides", 2, 1, 64, 64, 7, 9, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {"a row of an image wider than a band", 1, 1, 24, 17, 3, 600, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"planes of colours", 2, 1, 3, 20, 15, 37, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 0, false, true},
    {"two planes, dilated", 1, 1, 2, 33, 9, 40, {3, 5}, {1, 3}, {1, 2}, {2, 1}, 0, false, true},
    {"planes of several channels", 1, 1, 8, 16, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, false, true},
    {"planes of groups", 1, 2, 4, 4, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, false, true},
    {"a plane in one dim", 1, 1, 3, 20, 1, 50, {1, 9}, {1, 2}, {0, 4}, {1, 1}, 0, false, true},
    {"rows of the filter longer than a tile's", 1, 1, 20, 33, 7, 19, {2, 5}, {1, 1}, {1, 2}, {1, 1}},
    {"no channels", 1, 1, 0, 3, 4, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

class ConvolutionOfBytes {
 public:
  explicit ConvolutionOfBytes(const ByteCase& row) : c(row) {
    const int64_t channels = c.groups * c.in_channels, filters = c.groups * c.out_channels, column = channels + c.gap;
    for (const int d : {0, 1})
      out[d] = ((d == 0 ? c.height : c.width) + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    x_sizes = {c.batch, channels, c.height, c.width};
    x_strides = {column * c.height * c.width, 1, column * c.width, column};
    if (c.has_planes) x_strides = {channels * c.height * c.width, c.height * c.width, c.width, 1};
    w_sizes = {filters, c.in_channels, c.kernel[0], c.kernel[1]};
    w_strides = {c.in_channels * c.kernel[0] * c.kernel[1], c.kernel[0] * c.kernel[1], c.kernel[1], 1};
    y_sizes = {c.batch, filters, out[0], out[1]};
    y_strides = {filters * out[0] * out[1], 1, filters * out[1], filters};
    integers = {0, c.groups, c.stride[0], c.stride[1], c.padding[0], c.padding[1], c.dilation[0], c.dilation[1], 0, 0};
    uint32_t seed = 7;
    const auto next = [&] { return seed = seed * 1664525u + 1013904223u; };
    // The memory ends with the last image's last byte.
    x.resize(static_cast<size_t>(std::max<int64_t>(c.batch * x_strides[0] - c.gap, 1)));
    w.resize(static_cast<size_t>(filters * w_strides[0]));
    for (uint8_t& byte : x) byte = next() >> 30 == 0 ? 255 : static_cast<uint8_t>(next() >> 24);
    for (int8_t& byte : w) byte = next() >> 30 == 0 ? -128 : static_cast<int8_t>(next() >> 24);
    if (!c.is_flipped) return;
    first = (c.height - 1) * x_strides[2];
    x_strides[2] = -x_strides[2];
  }

  // Calls f(implementation, result) for each that takes it: stored, and to an epilogue, with filters that are constants or not.
  template <class F>
  void for_each_result(const F& f) const {
    RuntimePool pool(3);
    const int64_t columns = y_sizes[1];
    std::vector<int32_t> y(static_cast<size_t>(c.batch * out[0] * out[1] * columns));
    for (const bool is_constant : {false, true}) {
      const ToroidOperand inputs[] = {
          {const_cast<uint8_t*>(x.data()) + first, x_sizes.data(), x_strides.data(), 4, static_cast<int32_t>(DType::U8), 0},
          {const_cast<int8_t*>(w.data()), w_sizes.data(), w_strides.data(), 4, static_cast<int32_t>(DType::I8), is_constant}};
      const ToroidOperand output = {
          is_constant ? nullptr : y.data(), y_sizes.data(), y_strides.data(), 4, static_cast<int32_t>(DType::I32), 0};
      const ToroidEpilogue stores = store_as(DType::I32, y.data(), columns);
      PreparedConstants prepared;
      const KernelCall call{pool, inputs, {&output, 1}, integers, {}, is_constant ? &stores : nullptr, &prepared};
      for_each_implementation("convolution.i32", call, [&](const Implementation& each) {
        y.assign(y.size(), -7);
        for (int time = 0; time < 2; ++time) each.plan(call)->run(call);
        f(each, y);
      });
    }
  }

  std::vector<int32_t> sums() const {
    std::vector<int32_t> result;
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t i = 0; i < out[0] * out[1]; ++i) {
        for (int64_t o = 0; o < y_sizes[1]; ++o) result.push_back(sum_at(n, i, o));
      }
    }
    return result;
  }

 private:
  int32_t sum_at(int64_t n, int64_t i, int64_t o) const {
    int32_t sum = 0;
    for (int64_t k = 0; k < c.kernel[0] * c.kernel[1]; ++k) {
      const int64_t row = i / out[1] * c.stride[0] - c.padding[0] + k / c.kernel[1] * c.dilation[0];
      const int64_t column = i % out[1] * c.stride[1] - c.padding[1] + k % c.kernel[1] * c.dilation[1];
      if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
      const int64_t at =
          first + n * x_strides[0] + row * x_strides[2] + column * x_strides[3] + o / c.out_channels * c.in_channels * x_strides[1];
      for (int64_t p = 0; p < c.in_channels; ++p)
        sum += x[static_cast<size_t>(at + p * x_strides[1])] * w[static_cast<size_t>(o * w_strides[0] + p * w_strides[1] + k)];
    }
    return sum;
  }

  const ByteCase& c;
  std::vector<int64_t> x_sizes, x_strides, w_sizes, w_strides, y_sizes, y_strides, integers;
  int64_t out[2], first = 0;  // where the first row begins
  std::vector<uint8_t> x;
  std::vector<int8_t> w;
};

TOROID_ON_MACHINES(ByteConvolution);

TEST_P(ByteConvolution, IsExactByEachImplementation) {
  for (const ByteCase& row : kByteCases) {
    const ConvolutionOfBytes convolution(row);
    const std::vector<int32_t> sums = convolution.sums();
    convolution.for_each_result(
        [&](const Implementation& each, const std::vector<int32_t>& result) { EXPECT_EQ(result, sums) << row.name << ", " << each.name; });
  }
}

TEST_P(ByteConvolution, ImplementationsAreTakenWhereTheyAreQuickest) {
  const MachineModel machine = model_of_this_machine(1);
  const auto chosen = [&](const char* text) { return runtime_choices().cheapest_choice(parse_problem(text), machine).value(); };
  const auto unless_missing = [](const char* name) { return has_depthwise_of_bytes() ? name : "loops"; };
  EXPECT_EQ(chosen("convolution.i32(u8[1, 64, 56, 56]/[200704, 1, 3584, 64], constant i8[64, 64, 3, 3]) -> "
                   "i32[1, 64, 56, 56]/[200704, 1, 3584, 64]; integers 0 1 1 1 1 1 1 1 0 0; epilogue"),
            has_amx() ? "tiles" : unless_missing("fours"));
  EXPECT_EQ(chosen("convolution.i32(u8[1, 128, 56, 56]/[401408, 1, 7168, 128], constant i8[128, 4, 3, 3]) -> "
                   "i32[1, 128, 56, 56]/[401408, 1, 7168, 128]; integers 0 32 1 1 1 1 1 1 0 0; epilogue"),
            unless_missing("fours"));
  EXPECT_EQ(chosen("convolution.i32(u8[1, 96, 56, 56]/[301056, 1, 5376, 96], constant i8[96, 1, 3, 3]) -> "
                   "i32[1, 96, 56, 56]/[301056, 1, 5376, 96]; integers 0 96 1 1 1 1 1 1 0 0; epilogue"),
            unless_missing("depthwise"));
}

}  // namespace
}  // namespace toroid
