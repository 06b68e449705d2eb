// Winograd's method against the evaluator's plain loops in float64: every tile border, and how large the error is.
#include "runtime/kernels/conv/winograd.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "interp/products.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {
namespace {

struct WinogradCase {
  const char* name;
  int64_t batch, channels, filters, height, width;  // of the image
  int64_t padding[2];
  int64_t gap = 0;  // floats between the image's pixels, and twice as many between its rows
};

// The operands of a case, its image with channels innermost, and the result in float64.
class WinogradProblem {
 public:
  explicit WinogradProblem(const WinogradCase& row) : row_(row) {
    out_ = {row.batch, row.filters, row.height + 2 * row.padding[0] - 2, row.width + 2 * row.padding[1] - 2};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    x_strides_[1] = 1;
    x_strides_[3] = row.channels + row.gap;
    x_strides_[2] = row.width * x_strides_[3] + 2 * row.gap;
    x_strides_[0] = row.height * x_strides_[2];
    x_.assign(static_cast<size_t>(row.batch * x_strides_[0]), NAN);  // between pixels
    weight_.resize(static_cast<size_t>(row.filters * row.channels * 9));
    for (int64_t n = 0; n < row.batch; ++n) {
      for (int64_t c = 0; c < row.channels; ++c) {
        for (int64_t i = 0; i < row.height; ++i) {
          for (int64_t j = 0; j < row.width; ++j) {
            const float value = normal(random);
            planes_.push_back(value);
            x_[static_cast<size_t>(n * x_strides_[0] + c + i * x_strides_[2] + j * x_strides_[3])] = value;
          }
        }
      }
    }
    for (float& each : weight_) each = normal(random);
  }

  struct Way {
    int64_t tile;  // 0: the direct method
    int threads;
    bool is_constant, has_epilogue;
  };
  // The largest error, relative to the largest value.
  double error(Way way) {
    if (expected_.empty()) expected_ = expected();
    RuntimePool pool(way.threads);
    PreparedConstants prepared;
    const int64_t channels = row_.filters;
    Received received{{}, std::vector<std::atomic<int>>(expected_.size()), channels};
    received.values.assign(expected_.size(), NAN);
    const ToroidEpilogue epilogue = {nullptr, &Received::take, &received, {}};
    const int64_t y_strides[4] = {out_[2] * out_[3] * channels, 1, out_[3] * channels, channels};
    const ToroidOperand inputs[2] = {
        {x_.data(), x_sizes_, x_strides_, 4, static_cast<int32_t>(DType::F32), 0},
        {weight_.data(), weight_sizes_, weight_strides_, 4, static_cast<int32_t>(DType::F32), way.is_constant}};
    const ToroidOperand outputs[1] = {
        {way.has_epilogue ? nullptr : received.values.data(), out_.data(), y_strides, 4, static_cast<int32_t>(DType::F32), 0}};
    const int64_t integers[] = {0, 1, 1, 1, row_.padding[0], row_.padding[1], 1, 1, 0, 0};
    const KernelCall call = {pool, inputs, outputs, integers, {}, way.has_epilogue ? &epilogue : nullptr, &prepared};
    for (int i = 0; i < (way.is_constant ? 2 : 1); ++i) {
      (way.tile == 0 ? plan_image_rows(call) : plan_winograd(call, way.tile))->run(call);
    }
    EXPECT_EQ(prepared.bytes() > 0, way.is_constant);
    if (way.has_epilogue) {
      for (const auto& each : received.times) EXPECT_EQ(each, way.is_constant ? 2 : 1);
    }
    double largest = 0, error = 0;
    for (int64_t i = 0; i < numel(out_); ++i) {
      const int64_t plane = out_[2] * out_[3], n = i / (channels * plane), c = i / plane % channels, position = i % plane;
      const double expected = expected_[static_cast<size_t>(i)];
      const double difference = std::fabs(received.values[static_cast<size_t>((n * plane + position) * channels + c)] - expected);
      largest = std::max(largest, std::fabs(expected));
      error = difference <= error ? error : difference;  // NaN stays
    }
    return error / largest;
  }

  int64_t chosen_tile(int threads, int64_t stride = 1, int64_t dilation = 1) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    const ToroidOperand inputs[2] = {{x_.data(), x_sizes_, x_strides_, 4, static_cast<int32_t>(DType::F32), 0},
                                     {weight_.data(), weight_sizes_, weight_strides_, 4, static_cast<int32_t>(DType::F32), 1}};
    const int64_t channels = out_[1], out_strides[4] = {channels * out_[2] * out_[3], 1, channels * out_[3], channels};
    const ToroidOperand outputs[1] = {{nullptr, out_.data(), out_strides, 4, static_cast<int32_t>(DType::F32), 0}};
    const int64_t integers[] = {0, 1, stride, stride, row_.padding[0], row_.padding[1], dilation, dilation, 0, 0};
    const KernelCall call = {pool, inputs, outputs, integers, {}, nullptr, &prepared};
    const std::string choice =
        runtime_choices().cheapest_choice(problem_of("convolution.f32", call), model_of_this_machine(threads)).value();
    return choice == "winograd-4" ? 4 : choice == "winograd-2" ? 2 : 0;
  }

 private:
  // What an epilogue was given.
  struct Received {
    std::vector<float> values;
    std::vector<std::atomic<int>> times;
    int64_t channels;

    static void take(void* argument, void* /*out*/, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row,
                     int64_t first_column, int64_t last_column) {
      Received& to = *static_cast<Received*>(argument);
      for (int64_t i = first_row; i < last_row; ++i) {
        for (int64_t j = first_column; j < last_column; ++j) {
          to.values[static_cast<size_t>(i * to.channels + j)] = block[(i - first_row) * row_stride + j - first_column];
          ++to.times[static_cast<size_t>(i * to.channels + j)];
        }
      }
    }
  };

  std::vector<double> expected() const {
    const HostTensor result = convolution(
        HostTensor::from_doubles(DType::F64, {x_sizes_, x_sizes_ + 4}, planes_),
        HostTensor::from_doubles(DType::F64, {weight_sizes_, weight_sizes_ + 4}, std::vector<double>(weight_.begin(), weight_.end())),
        nullptr, {{1, 1}, {row_.padding[0], row_.padding[1]}, {1, 1}}, out_);
    const auto* values = result.data<double>();
    return {values, values + numel(out_)};
  }

  const WinogradCase row_;
  const int64_t x_sizes_[4] = {row_.batch, row_.channels, row_.height, row_.width};
  const int64_t weight_sizes_[4] = {row_.filters, row_.channels, 3, 3}, weight_strides_[4] = {row_.channels * 9, 9, 3, 1};
  int64_t x_strides_[4];
  std::vector<int64_t> out_;
  std::vector<float> x_, weight_;
  std::vector<double> planes_;    // the image, contiguous
  std::vector<double> expected_;  // made when it is asked for
};

const WinogradCase kWinogradCases[] = {
    {"whole tiles", 1, 16, 16, 8, 8, {1, 1}},
    {"smaller than a tile", 2, 16, 5, 3, 4, {0, 0}},
    {"one past a tile", 1, 17, 33, 5, 9, {1, 1}},
    {"one short of a tile", 3, 31, 70, 7, 3, {1, 1}},
    {"padding wider than the filter", 2, 20, 18, 4, 6, {3, 4}},
    {"padding of rows alone", 1, 16, 64, 6, 11, {1, 0}},
    {"wide", 1, 24, 40, 3, 301, {1, 1}},
    {"high, with tasks of several images", 5, 40, 130, 13, 6, {1, 1}},
    {"pixels and rows apart", 2, 19, 21, 10, 9, {1, 1}, 5},
    {"more channels than are taken at a time", 1, 1030, 9, 6, 5, {1, 1}},
};

TOROID_ON_MACHINES(Winograd);

TEST_P(Winograd, IsTheEvaluators) {
  for (const WinogradCase& row : kWinogradCases) {
    WinogradProblem problem(row);
    for (const int64_t tile : {2, 4}) {
      for (int way = 0; way < 8; ++way) {
        const WinogradProblem::Way how = {tile, (way & 4) != 0 ? 2 : 1, (way & 1) != 0, (way & 2) != 0};
        EXPECT_LT(problem.error(how), row.channels > 1000 ? 1e-5 : 3e-6)
            << row.name << ", tile " << tile << ", " << how.threads << " threads" << (how.is_constant ? ", constant" : "")
            << (how.has_epilogue ? ", epilogue" : "");
      }
    }
  }
}

// With the points 0, ±1, ±2 it would be four to five times the direct method's.
TEST_P(Winograd, ErrsLittleMoreThanTheDirectMethod) {
  WinogradProblem problem({"", 1, 64, 32, 18, 18, {1, 1}});
  EXPECT_LT(problem.error({2, 2, true, false}), 1e-6);
  EXPECT_LT(problem.error({4, 2, true, false}), 3e-6);
}

TEST_P(Winograd, IsChosenForWhatItDoesFasterAndCanDo) {
  // Rows of 64 filters; few positions with many weights are the direct method's.
  EXPECT_EQ(WinogradProblem({"", 1, 64, 64, 56, 56, {1, 1}}).chosen_tile(2), 4);
  EXPECT_EQ(WinogradProblem({"", 1, 64, 64, 2, 2, {1, 1}}).chosen_tile(2), 0);
  EXPECT_EQ(WinogradProblem({"", 1, 15, 64, 56, 56, {1, 1}}).chosen_tile(2), 0);
  WinogradProblem problem({"", 1, 64, 64, 30, 30, {1, 1}});
  EXPECT_EQ(problem.chosen_tile(2), 4);
  EXPECT_EQ(problem.chosen_tile(2, 2), 0);
  EXPECT_EQ(problem.chosen_tile(2, 1, 2), 0);
  EXPECT_LT(problem.error({0, 2, true, true}), 3e-6);
  // Weights that take as long as the products: two threads read twice as many.
  WinogradProblem deep({"", 1, 256, 256, 14, 14, {1, 1}});
  EXPECT_EQ(deep.chosen_tile(1), deep.chosen_tile(2));
}

}  // namespace
}  // namespace toroid
