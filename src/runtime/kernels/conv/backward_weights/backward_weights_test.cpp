// Gradients of filters beside sums in double.
#include "runtime/kernels/conv/backward_weights/backward_weights.h"

#include <cmath>
#include <limits>
#include <tuple>

#include <gtest/gtest.h>

#include "runtime/kernels/conv/backward_weights/write_filters.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/sums_for_test.h"

namespace toroid {
namespace {

struct BackwardWeightsCase {
  const char* name;
  int64_t batch, groups, channels, filters;  // the latter two of a group
  int64_t in[2], kernel[2], stride[2], padding[2], dilation[2];
};

const BackwardWeightsCase kBackwardWeightsCases[] = {
    {"3x3", 2, 1, 32, 32, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"many images of few positions", 9, 1, 40, 70, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"without padding", 3, 1, 17, 33, {9, 8}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
    {"more padding than filter", 2, 1, 5, 3, {5, 6}, {3, 2}, {1, 1}, {4, 3}, {1, 1}},
    {"strides", 3, 1, 24, 40, {15, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"strides of pointwise filters", 4, 1, 40, 24, {9, 9}, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {"strides beyond the filter", 2, 1, 16, 16, {13, 14}, {2, 2}, {3, 4}, {0, 1}, {1, 1}},
    {"dilated", 2, 1, 18, 20, {15, 16}, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"dilated with strides", 2, 1, 18, 20, {16, 17}, {3, 3}, {2, 3}, {3, 2}, {3, 2}},
    {"few channels, large filters", 2, 1, 3, 64, {32, 30}, {7, 7}, {2, 2}, {3, 3}, {1, 1}},
    {"uneven", 1, 1, 20, 12, {11, 7}, {2, 5}, {1, 2}, {1, 2}, {1, 1}},
    {"groups", 2, 3, 16, 40, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise", 3, 40, 1, 1, {15, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise with strides", 2, 96, 1, 1, {15, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"depthwise of five", 2, 17, 1, 1, {9, 12}, {5, 5}, {1, 2}, {2, 2}, {1, 1}},
    {"depthwise, dilated, of seven", 1, 64, 1, 1, {19, 16}, {7, 7}, {1, 1}, {6, 6}, {2, 2}},
    {"depthwise without a place that all taps see", 1, 5, 1, 1, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"two filters a channel", 2, 6, 1, 2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"one row of positions", 1, 1, 48, 48, {1, 90}, {1, 3}, {1, 1}, {0, 1}, {1, 1}},
    {"one position", 1, 1, 33, 17, {3, 3}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
    {"filters larger than the image", 1, 1, 16, 16, {2, 3}, {5, 5}, {1, 1}, {2, 2}, {1, 1}},
    {"rows that are cut", 1, 1, 34, 70, {60, 61}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

struct FilterGradientCall {
  FilterGradientCall(const BackwardWeightsCase& row, bool x_is_nhwc, bool dy_is_nhwc) : c(row) {
    for (int64_t d : {0, 1}) out[d] = (c.in[d] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    x_sizes = {c.batch, c.groups * c.channels, c.in[0], c.in[1]};
    dy_sizes = {c.batch, c.groups * c.filters, out[0], out[1]};
    dw_sizes = {c.groups * c.filters, c.channels, c.kernel[0], c.kernel[1]};
    x_strides = strides_of_image(x_sizes, x_is_nhwc);
    dy_strides = strides_of_image(dy_sizes, dy_is_nhwc);
    dw_strides = strides_of_image(dw_sizes, false);
    numbers = {static_cast<double>(c.groups)};
    for (const int64_t* each : {c.stride, c.padding, c.dilation}) numbers.insert(numbers.end(), each, each + 2);
    uint32_t seed = 1;
    for (auto [values, sizes] : {std::pair{&x, &x_sizes}, std::pair{&dy, &dy_sizes}}) {
      values->resize(static_cast<size_t>((*sizes)[0] * (*sizes)[1] * (*sizes)[2] * (*sizes)[3]));
      for (float& value : *values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
      }
    }
    dw.resize(static_cast<size_t>(dw_sizes[0] * dw_strides[0]));
  }

  static std::vector<int64_t> strides_of_image(const std::vector<int64_t>& s, bool is_nhwc) {
    if (is_nhwc) return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
    return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
  }

  void run(int threads) {
    RuntimePool pool(threads);
    std::fill(dw.begin(), dw.end(), std::nanf(""));
    const auto dtype = static_cast<int32_t>(DType::F32);
    const ToroidOperand inputs[] = {{x.data(), x_sizes.data(), x_strides.data(), 4, dtype, 0},
                                    {dy.data(), dy_sizes.data(), dy_strides.data(), 4, dtype, 0}};
    const ToroidOperand output = {dw.data(), dw_sizes.data(), dw_strides.data(), 4, dtype, 0};
    run_library_kernel("library.convolution.backward_weights", {pool, inputs, {&output, 1}, {}, numbers});
  }

  // The terms of an element, row by row of positions.
  SumInDouble sum_of(int64_t k, int64_t channel, int64_t ky, int64_t kx) const {
    SumInDouble sum;
    const int64_t from = k / c.filters * c.channels + channel;
    // Columns j of positions whose x is in the image.
    const int64_t offset = kx * c.dilation[1] - c.padding[1];
    int64_t first = 0, last = out[1];
    while (first < last && first * c.stride[1] + offset < 0) ++first;
    while (first < last && (last - 1) * c.stride[1] + offset >= c.in[1]) --last;
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t i = 0; i < out[0]; ++i) {
        const int64_t row = i * c.stride[0] - c.padding[0] + ky * c.dilation[0];
        if (row < 0 || row >= c.in[0] || first == last) continue;
        const int64_t column = first * c.stride[1] + offset;
        const float* const xs = x.data() + n * x_strides[0] + from * x_strides[1] + row * x_strides[2] + column * x_strides[3];
        const float* const dys = dy.data() + n * dy_strides[0] + k * dy_strides[1] + i * dy_strides[2] + first * dy_strides[3];
        add_products(sum, xs, c.stride[1] * x_strides[3], dys, dy_strides[3], last - first);
      }
    }
    return sum;
  }

  void check() const {
    constexpr double kSmallest = 0x1p-126;  // below that tiles have 0
    size_t at = 0;
    for (int64_t k = 0; k < dw_sizes[0]; ++k) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        for (int64_t ky = 0; ky < c.kernel[0]; ++ky) {
          for (int64_t kx = 0; kx < c.kernel[1]; ++kx, ++at) {
            const auto [sum, magnitude] = sum_of(k, channel, ky, kx);
            const float value = dw[at];
            const bool is_right = std::isnan(sum)   ? std::isnan(value)
                                  : std::isinf(sum) ? static_cast<double>(value) == sum
                                                    : std::abs(static_cast<double>(value) - sum) <= 5e-7 * magnitude + kSmallest;
            ASSERT_TRUE(is_right) << "[" << k << ", " << channel << ", " << ky << ", " << kx << "] is " << value << ", not " << sum;
          }
        }
      }
    }
  }

  const BackwardWeightsCase& c;
  int64_t out[2];
  std::vector<int64_t> x_sizes, dy_sizes, dw_sizes, x_strides, dy_strides, dw_strides;
  std::vector<double> numbers;
  std::vector<float> x, dy, dw;
};

TOROID_ON_MACHINES(BackwardWeights);

TEST_P(BackwardWeights, IsTheSumOfProducts) {
  for (const BackwardWeightsCase& row : kBackwardWeightsCases) {
    for (const auto& [x_is_nhwc, dy_is_nhwc] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      SCOPED_TRACE(std::string(row.name) + (x_is_nhwc ? ", x as NHWC" : "") + (dy_is_nhwc ? ", dy as NHWC" : ""));
      FilterGradientCall gradient(row, x_is_nhwc, dy_is_nhwc);
      gradient.run(x_is_nhwc == dy_is_nhwc ? 1 : 3);
      gradient.check();
    }
  }
}

TEST_P(BackwardWeights, IsTheSameInEachCall) {
  for (const BackwardWeightsCase& row : kBackwardWeightsCases) {
    FilterGradientCall gradient(row, false, false);
    gradient.run(4);
    const std::vector<float> first = gradient.dw;
    for (int i = 0; i < 3; ++i) {
      gradient.run(4);
      ASSERT_EQ(gradient.dw, first) << row.name;
    }
  }
}

// Of a row's last element only the taps that see it have something, though others meet it with zeros.
TEST_P(BackwardWeights, KeepsNumbersThatAreNotFiniteWhereTheyBelong) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e30f, 1e-40f}) {
    for (const BackwardWeightsCase& row : kBackwardWeightsCases) {
      if (row.in[0] > 32) continue;
      SCOPED_TRACE(row.name);
      FilterGradientCall gradient(row, false, false);
      gradient.x[static_cast<size_t>(row.in[1] - 1)] = value;
      gradient.run(2);
      gradient.check();
    }
  }
}

TEST_P(BackwardWeights, OfNoImagesIsZero) {
  BackwardWeightsCase none = kBackwardWeightsCases[0];
  none.batch = 0;
  FilterGradientCall gradient(none, false, false);
  gradient.run(1);
  for (float value : gradient.dw) ASSERT_EQ(value, 0.0f);
}

TEST_P(BackwardWeights, TapsAreInterleaved) {
  for (const int64_t taps : {1, 2, 9, 16, 17, 49}) {
    for (const int64_t channels : {1, 3, 16, 17, 24, 31, 32, 40}) {
      std::vector<float> from(static_cast<size_t>(taps * 50)), to(static_cast<size_t>(taps * channels + 1), -1.0f);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
      interleave_taps(from.data(), 50, taps, channels, to.data());
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) ASSERT_EQ(to[static_cast<size_t>(c * taps + t)], static_cast<float>(t * 50 + c));
      }
      ASSERT_EQ(to.back(), -1.0f);
    }
  }
}

}  // namespace
}  // namespace toroid
