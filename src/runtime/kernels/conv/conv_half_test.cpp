// Convolutions of bfloat16 and float16 in each form, beside sums in double of the same rounded numbers.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/format.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/registry/implementations_for_test.h"
#include "runtime/kernels/sums_for_test.h"

namespace toroid {
namespace {

struct HalfCase {
  const char* name;
  int64_t batch, groups, in_channels, out_channels, height, width;  // channels of a group
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool in_planes = false;
};

const HalfCase kHalfCases[] = {
    {"pointwise", 2, 1, 64, 144, 14, 14, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"pointwise, channels that fill no step", 1, 1, 27, 70, 9, 13, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"pointwise with strides", 2, 1, 64, 130, 27, 26, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {"pointwise with padding", 1, 1, 40, 20, 6, 5, {1, 1}, {1, 2}, {1, 2}, {1, 1}},
    {"3x3", 1, 1, 64, 32, 20, 23, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3, two images, columns beyond a panel", 2, 1, 32, 150, 13, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3, several bands", 1, 1, 32, 20, 61, 60, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 with strides", 1, 1, 64, 70, 21, 22, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"odd channels", 1, 1, 37, 33, 11, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"uneven everything", 1, 1, 48, 17, 19, 16, {2, 5}, {3, 2}, {0, 3}, {2, 1}},
    {"dilated", 1, 1, 64, 80, 17, 17, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"dilated with strides", 1, 1, 32, 32, 23, 24, {3, 3}, {2, 3}, {3, 3}, {3, 2}},
    {"deep", 1, 1, 288, 70, 7, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"padding that no column reaches", 1, 1, 32, 16, 3, 2, {3, 3}, {1, 1}, {4, 5}, {2, 1}},
    {"one row", 1, 1, 64, 80, 1, 150, {1, 5}, {1, 1}, {0, 2}, {1, 1}},
    {"colours in planes", 2, 1, 3, 20, 41, 40, {7, 7}, {2, 2}, {3, 3}, {1, 1}, true},
    {"colours", 1, 1, 3, 20, 24, 25, {4, 4}, {4, 4}, {0, 0}, {1, 1}},
    {"colours in planes, several bands", 1, 1, 3, 40, 70, 75, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true},
    {"few channels, strides beyond the filter", 2, 1, 5, 18, 20, 21, {2, 2}, {3, 3}, {0, 1}, {1, 1}},
    {"few channels, a row of the filter in two steps", 1, 1, 12, 70, 18, 14, {3, 3}, {1, 2}, {1, 1}, {1, 1}},
    {"few channels, dilated rows", 1, 1, 4, 33, 17, 12, {3, 3}, {2, 1}, {2, 1}, {3, 1}},
    {"one channel, few filters", 1, 1, 1, 16, 12, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"one channel, many filters", 1, 1, 1, 260, 12, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"few channels, dilated", 1, 1, 10, 24, 15, 15, {3, 3}, {1, 2}, {2, 1}, {2, 2}},
    {"many channels in planes", 1, 1, 34, 24, 9, 10, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
    {"groups of eight", 1, 5, 8, 8, 10, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"groups of sixteen with strides", 2, 3, 12, 16, 11, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"groups", 1, 3, 32, 24, 10, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise", 2, 40, 1, 1, 15, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise with strides", 1, 33, 1, 1, 16, 15, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"depthwise 7x7", 1, 96, 1, 1, 14, 14, {7, 7}, {1, 1}, {3, 3}, {1, 1}},
    {"depthwise, dilated, far apart", 1, 20, 1, 1, 19, 23, {3, 5}, {3, 3}, {1, 4}, {2, 2}},
    {"depthwise 5x5 with strides, one row more than strips", 1, 64, 1, 1, 13, 31, {5, 5}, {2, 2}, {2, 2}, {1, 1}},
    {"depthwise, a filter wider than the image", 1, 45, 1, 1, 6, 4, {3, 7}, {1, 1}, {1, 5}, {1, 1}},
    {"depthwise, two columns", 2, 50, 1, 1, 7, 12, {2, 2}, {1, 2}, {1, 1}, {2, 1}},
    {"depthwise, three positions", 1, 34, 1, 1, 5, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise, few channels", 1, 5, 1, 1, 9, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

class HalfConvolution {
 public:
  HalfConvolution(const HalfCase& row, DType dtype) : c(row), dtype_(dtype) {
    const int64_t channels = c.groups * c.in_channels, filters = c.groups * c.out_channels;
    for (int64_t d : {0, 1}) {
      out[d] = ((d == 0 ? c.height : c.width) + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    }
    x_sizes = {c.batch, channels, c.height, c.width};
    x_strides = {channels * c.height * c.width, 1, channels * c.width, channels};
    if (c.in_planes) x_strides = {channels * c.height * c.width, c.height * c.width, c.width, 1};
    w_sizes = {filters, c.in_channels, c.kernel[0], c.kernel[1]};
    w_strides = {c.in_channels * c.kernel[0] * c.kernel[1], c.kernel[0] * c.kernel[1], c.kernel[1], 1};
    y_sizes = {c.batch, filters, out[0], out[1]};
    y_strides = {filters * out[0] * out[1], 1, filters * out[1], filters};
    integers = {0, c.groups, c.stride[0], c.stride[1], c.padding[0], c.padding[1], c.dilation[0], c.dilation[1], 0, 0};
    x.resize(static_cast<size_t>(c.batch * x_strides[0]));
    w.resize(static_cast<size_t>(filters * w_strides[0]));
    uint32_t seed = 1;
    for (std::vector<uint16_t>* values : {&x, &w}) {
      for (uint16_t& value : *values) {
        seed = seed * 1664525u + 1013904223u;
        const float random = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
        round_row(dtype, &random, 1, &value);
      }
    }
    sum_in_double();
  }

  // With the result in float32, in the images' dtype, or taken by an epilogue; weights constant or not.
  void run(const Implementation& implementation, int threads, DType result, bool with_epilogue, bool is_constant) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    const int64_t rows = c.batch * out[0] * out[1], columns = y_sizes[1];
    y.assign(static_cast<size_t>(rows * columns), std::nanf(""));
    std::vector<uint16_t> narrow(y.size(), 0xffff);
    const ToroidOperand inputs[] = {{x.data(), x_sizes.data(), x_strides.data(), 4, static_cast<int32_t>(dtype_), 0},
                                    {w.data(), w_sizes.data(), w_strides.data(), 4, static_cast<int32_t>(dtype_), is_constant}};
    void* const data = with_epilogue ? nullptr : result == DType::F32 ? static_cast<void*>(y.data()) : narrow.data();
    const ToroidOperand output = {data, y_sizes.data(), y_strides.data(), 4, static_cast<int32_t>(result), 0};
    StoreAll store = {y.data(), columns};
    const ToroidEpilogue epilogue = {nullptr, StoreAll::run, &store, {}};
    const KernelCall call{pool, inputs, {&output, 1}, integers, {}, with_epilogue ? &epilogue : nullptr, &prepared};
    // The second time with what is kept.
    for (int time = 0; time < 2; ++time) implementation.plan(call)->run(call);
    if (!with_epilogue && result != DType::F32) widen_row(result, narrow.data(), static_cast<int64_t>(y.size()), y.data());
  }

  // The result in the images' dtype with a scale and a bias of each column and bounds, as post-operations.
  std::vector<uint16_t> run_with_post_ops(const Implementation& implementation, Span<const float> scale, Span<const float> bias) {
    RuntimePool pool(2);
    PreparedConstants prepared;
    const int64_t columns = y_sizes[1];
    std::vector<uint16_t> narrow(y.size(), 0xffff);
    const ToroidOperand inputs[] = {{x.data(), x_sizes.data(), x_strides.data(), 4, static_cast<int32_t>(dtype_), 0},
                                    {w.data(), w_sizes.data(), w_strides.data(), 4, static_cast<int32_t>(dtype_), 1}};
    const ToroidOperand output = {nullptr, y_sizes.data(), y_strides.data(), 4, static_cast<int32_t>(dtype_), 0};
    ToroidEpilogue epilogue = store_as(dtype_, narrow.data(), columns);
    epilogue.post_ops.scale = scale.data();
    epilogue.post_ops.bias = bias.data();
    epilogue.post_ops.low = -0.5f;
    epilogue.post_ops.high = 0.75f;
    const KernelCall call{pool, inputs, {&output, 1}, integers, {}, &epilogue, &prepared};
    implementation.plan(call)->run(call);
    return narrow;
  }

  // Calls f(implementation) for each that takes it.
  template <class F>
  void for_each_implementation(const F& f) const {
    RuntimePool pool(1);
    const ToroidOperand inputs[] = {{nullptr, x_sizes.data(), x_strides.data(), 4, static_cast<int32_t>(dtype_), 0},
                                    {nullptr, w_sizes.data(), w_strides.data(), 4, static_cast<int32_t>(dtype_), 0}};
    const ToroidOperand output = {nullptr, y_sizes.data(), y_strides.data(), 4, static_cast<int32_t>(dtype_), 0};
    toroid::for_each_implementation(dtype_ == DType::BF16 ? "convolution.bf16" : "convolution.f16",
                                    {pool, inputs, {&output, 1}, integers, {}}, f);
  }

  // To be called after the numbers have changed.
  void sum_in_double() {
    auto wide = [&](const std::vector<uint16_t>& from) {
      std::vector<float> to(from.size());
      widen_row(dtype_, from.data(), static_cast<int64_t>(from.size()), to.data());
      return to;
    };
    const std::vector<float> image = wide(x), filters = wide(w);
    sums.clear();
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t i = 0; i < out[0] * out[1]; ++i) {
        for (int64_t o = 0; o < y_sizes[1]; ++o) sums.push_back(sum_at(image, filters, n, i, o));
      }
    }
  }

  // `rounding`: of the result, relative.
  void check(double rounding) const {
    for (size_t i = 0; i < y.size(); ++i) {
      const auto got = static_cast<double>(y[i]);
      const auto [sum, magnitude] = sums[i];
      if (std::isfinite(sum)) {
        ASSERT_LE(std::abs(got - sum), magnitude * 1e-6 + std::abs(sum) * rounding) << "element " << i;
      } else {
        ASSERT_TRUE(std::isnan(sum) ? std::isnan(got) : got == sum) << "element " << i << ": " << got << ", not " << sum;
      }
    }
  }

  const HalfCase& c;
  std::vector<int64_t> x_sizes, x_strides, w_sizes, w_strides, y_sizes, y_strides, integers;
  int64_t out[2];
  std::vector<uint16_t> x, w;
  std::vector<float> y;

 private:
  struct StoreAll {
    float* data;
    int64_t row;
    static void run(void* argument, void* /*out*/, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row,
                    int64_t first_column, int64_t last_column) {
      const StoreAll& to = *static_cast<StoreAll*>(argument);
      for (int64_t i = first_row; i < last_row; ++i) {
        for (int64_t j = first_column; j < last_column; ++j)
          to.data[i * to.row + j] = block[(i - first_row) * row_stride + j - first_column];
      }
    }
  };

  SumInDouble sum_at(const std::vector<float>& image, const std::vector<float>& filters, int64_t n, int64_t i, int64_t o) const {
    SumInDouble sum;
    for (int64_t k = 0; k < c.kernel[0] * c.kernel[1]; ++k) {
      const int64_t row = i / out[1] * c.stride[0] - c.padding[0] + k / c.kernel[1] * c.dilation[0];
      const int64_t column = i % out[1] * c.stride[1] - c.padding[1] + k % c.kernel[1] * c.dilation[1];
      if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
      const int64_t channel = o / c.out_channels * c.in_channels;
      const int64_t at = n * x_strides[0] + channel * x_strides[1] + row * x_strides[2] + column * x_strides[3];
      add_products(sum, image.data() + at, x_strides[1], filters.data() + o * w_strides[0] + k, w_strides[1], c.in_channels);
    }
    return sum;
  }

  DType dtype_;
  std::vector<SumInDouble> sums;  // for each element of y
};

TOROID_ON_MACHINES(ReducedConvolution);

TEST_P(ReducedConvolution, IsRightInEachForm) {
  for (const HalfCase& row : kHalfCases) {
    for (const DType dtype : {DType::BF16, DType::F16}) {
      HalfConvolution convolution(row, dtype);
      convolution.for_each_implementation([&](const Implementation& form) {
        SCOPED_TRACE(formatted("{}, {}, {}", row.name, to_string(dtype), form.name));
        const double rounding = dtype == DType::BF16 ? 0x1p-8 : 0x1p-11;
        convolution.run(form, 1, DType::F32, false, true);
        convolution.check(0);
        const std::vector<float> alone = convolution.y;
        convolution.run(form, 3, DType::F32, true, false);
        convolution.check(0);
        if (form.name != "widened") {
          EXPECT_EQ(convolution.y, alone) << "how threads share the work shows";
        }
        convolution.run(form, 2, dtype, false, true);
        convolution.check(rounding);
      });
    }
  }
}

// Not a bit differs from the same done with the sums afterwards.
TEST_P(ReducedConvolution, PostOperationsAreDoneBeforeTheResultIsRounded) {
  for (const HalfCase& row : kHalfCases) {
    if (row.in_channels > 1) continue;
    for (const DType dtype : {DType::BF16, DType::F16}) {
      HalfConvolution convolution(row, dtype);
      const int64_t columns = convolution.y_sizes[1];
      std::vector<float> scale, bias;
      for (int64_t i = 0; i < columns; ++i) {
        scale.push_back(0.25f + static_cast<float>(i % 7) * 0.1f);
        bias.push_back(static_cast<float>(i % 5) * 0.13f - 0.3f);
      }
      convolution.for_each_implementation([&](const Implementation& form) {
        SCOPED_TRACE(formatted("{}, {}, {}", row.name, to_string(dtype), form.name));
        if (form.name == "widened") return;  // may sum in another order with an epilogue
        convolution.run(form, 1, DType::F32, true, true);
        std::vector<uint16_t> expected(convolution.y.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          const size_t column = i % static_cast<size_t>(columns);
          const bool fuses = vector_set() != VectorSet::Baseline;
          const float y = convolution.y[i], product = y * scale[column];
          const float sum = fuses ? std::fma(y, scale[column], bias[column]) : product + bias[column];
          const float bounded = std::clamp(sum, -0.5f, 0.75f);
          round_row(dtype, &bounded, 1, &expected[i]);
        }
        EXPECT_EQ(convolution.run_with_post_ops(form, scale, bias), expected);
      });
    }
  }
}

TEST_P(ReducedConvolution, TilesAreTakenWhereTheyCanBe) {
  auto can = [](DType dtype, size_t row) {
    bool in_tiles = false;
    HalfConvolution(kHalfCases[row], dtype).for_each_implementation([&](const Implementation& each) { in_tiles |= each.name == "tiles"; });
    return in_tiles;
  };
  EXPECT_EQ(can(DType::BF16, 0), has_amx());
  EXPECT_FALSE(can(DType::F16, 0));
}

// Places of the band that hold no element are 0, and what lies beside a position's elements is not multiplied with it.
TEST_P(ReducedConvolution, InfinitiesStayWhereTheyAreSeen) {
  for (const HalfCase& row : kHalfCases) {
    HalfConvolution convolution(row, DType::BF16);
    constexpr uint16_t kInfinity = 0x7f80, kNotANumber = 0x7fc0;
    convolution.x[convolution.x.size() / 3] = kInfinity;
    convolution.x[convolution.x.size() - 1] = kNotANumber;
    convolution.sum_in_double();
    convolution.for_each_implementation([&](const Implementation& form) {
      if (form.name == "widened") return;  // Winograd's method spreads them
      SCOPED_TRACE(row.name);
      convolution.run(form, 2, DType::F32, false, true);
      convolution.check(0);
    });
  }
}

}  // namespace
}  // namespace toroid
