// In vectors: strips of filters with a panel of channels, by the microkernels of products.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/conv/backward_weights/ways.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kStripsOfUnit = 4;

Scratch scratch_for_filter_lines;
Scratch scratch_for_channel_lines;

class VectorsOfPositions final : public PackedPositions {
 public:
  VectorsOfPositions(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block,
                     const BackwardWeightsSides& sides, int64_t unit_filters, int64_t unit_channels)
      : shape_(shape),
        shifts_(shifts),
        block_(block),
        sides_(sides),
        unit_filters_(unit_filters),
        unit_channels_(unit_channels),
        positions_(block.positions(shifts)),
        row_(padded_stride(positions_)),
        line_(block.length_of_plane(shifts, positions_)),
        lines_(shape, shifts, block, sides.x, sides.x_strides, line_) {
    for (int64_t first = 0; first < positions_; first += kLongestRun) all_.push_back({first, std::min(kLongestRun, positions_ - first)});
  }

  bool pack_filters(int64_t first, int64_t last) override {
    count_ = std::min(last * unit_filters_, shape_.filters) - first * unit_filters_;
    filters_ = scratch_for_filter_lines.get(count_ * row_);
    gather_filters(shape_, shifts_, block_, sides_.dy, sides_.dy_strides, first * unit_filters_, count_, positions_, filters_, row_);
    return true;
  }

  bool pack_channels(int64_t unit) override {
    const int64_t first = unit * unit_channels_, channels = std::min(unit_channels_, shape_.channels - first);
    const int64_t lanes = gemm_microkernels().lanes, planes = static_cast<int64_t>(shifts_.planes.size());
    vectors_ = divide_up(channels, lanes);
    width_ = vectors_ * lanes;
    channels_ = scratch_for_channel_lines.get(planes * line_ * width_);
    bool is_finite = true;
    for (int64_t c = 0; c < width_; c += ChannelLines::kChannels) {
      const int64_t width = std::min(ChannelLines::kChannels, width_ - c);
      lines_.take(first + c, std::min(ChannelLines::kChannels, channels - c));
      for (int64_t plane = 0; plane < planes; ++plane) {
        const Span<const int64_t> where = lines_.where(static_cast<size_t>(plane));
        float* to = channels_ + plane * line_ * width_ + c;
        for (int64_t i = 0; i < line_; ++i, to += width_) {
          const int64_t at = where[static_cast<size_t>(i)];
          float sum = 0;
          for (int64_t j = 0; j < width; ++j) {
            to[j] = at < 0 ? 0.0f : lines_.data()[at + j];
            sum += to[j] * 0.0f;
          }
          is_finite = is_finite && sum == 0.0f;
        }
      }
    }
    is_finite_ = is_finite;
    return true;
  }

  void multiply(int64_t filters, const TapShifts::Tap& tap, bool add, float* sums) const override {
    const float* const right = channels_ + (static_cast<int64_t>(tap.plane) * line_ + block_.shift_of(shifts_, tap)) * width_;
    if (is_finite_) return multiply(filters, all_, 0, right, add, sums);
    // Between rows 0 meets what others see: it may not be multiplied.
    for (int64_t first = 0; first < positions_; first += shifts_.width, add = true) {
      for (int64_t i = 0; i < shape_.out[1]; i += kLongestRun, add = true) {
        const Run some = {0, std::min(kLongestRun, shape_.out[1] - i)};
        multiply(filters, {&some, 1}, first + i, right + (first + i) * width_, add, sums);
      }
    }
  }

 private:
  void multiply(int64_t filters, Span<const Run> runs, int64_t position, const float* right, bool add, float* sums) const {
    const GemmMicrokernels& kernels = gemm_microkernels();
    const int64_t begin = filters * unit_filters_, end = std::min(begin + unit_filters_, count_);
    const int64_t most = kernels.most_rows[vectors_ - 1];
    const float* rows[GemmMicrokernels::kMostNarrowRows];
    for (int64_t k = begin; k < end; k += most) {
      const int64_t some = std::min(most, end - k);
      for (int64_t i = 0; i < some; ++i) rows[i] = filters_ + (k + i) * row_ + position;
      kernels.multiply_strip(vectors_, runs, {rows, static_cast<size_t>(some)}, right,
                             {/*data=*/sums + (k - begin) * unit_channels_, /*row=*/unit_channels_, /*columns=*/width_, /*add=*/add}, {});
    }
  }

  const BackwardWeightsShape& shape_;
  const TapShifts& shifts_;
  const PositionBlock block_;
  const BackwardWeightsSides sides_;
  const int64_t unit_filters_, unit_channels_;
  const int64_t positions_, row_;
  const int64_t line_;  // positions of a plane
  ChannelLines lines_;
  std::vector<Run> all_;
  float* filters_ = nullptr;   // [filter][position]
  float* channels_ = nullptr;  // [plane][position][channel]
  int64_t count_ = 0, vectors_ = 0, width_ = 0;
  bool is_finite_ = true;
};

class Vectors final : public BackwardWeightsWay {
 public:
  Vectors(const BackwardWeightsShape& shape, const TapShifts& shifts) : shape_(shape), shifts_(shifts) {
    const GemmMicrokernels& kernels = gemm_microkernels();
    const int64_t vectors = std::min<int64_t>(kernels.vectors, divide_up(shape.channels, kernels.lanes));
    unit_filters = kStripsOfUnit * kernels.most_rows[vectors - 1];
    unit_channels = vectors * kernels.lanes;
    bytes_of_filters = unit_filters * int64_t{sizeof(float)};
    bytes_of_channels = unit_channels * static_cast<int64_t>(sizeof(float) * shifts.planes.size());
    constexpr double kPerCycle = 1.7, kPack = 0.5;  // vectors of products; an element
    product = static_cast<double>(std::min(unit_filters, shape.filters) * vectors) / kPerCycle;
    pack_filters = kPack * static_cast<double>(std::min(unit_filters, shape.filters));
    pack_channels = kPack * static_cast<double>(unit_channels) * static_cast<double>(shifts.planes.size());
  }

  std::unique_ptr<PackedPositions> take(const PositionBlock& block, const BackwardWeightsSides& sides) const override {
    return std::make_unique<VectorsOfPositions>(shape_, shifts_, block, sides, unit_filters, unit_channels);
  }

 private:
  const BackwardWeightsShape& shape_;
  const TapShifts& shifts_;
};

}  // namespace

std::unique_ptr<const BackwardWeightsWay> backward_weights_in_vectors(const BackwardWeightsShape& shape, const TapShifts& shifts) {
  return std::make_unique<const Vectors>(shape, shifts);
}

}  // namespace toroid
