// In tiles of BF16 (gemm/bf16x3/split.h): dy on the left, x on the right, whose words begin at each position.
#include <algorithm>
#include <vector>

#include "runtime/kernels/conv/backward_weights/ways.h"
#include "runtime/kernels/gemm/bf16x3/microkernel.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kUnitTiles = 2, kUnit = kUnitTiles * kTileSide;

Scratch scratch_for_filters;
Scratch scratch_for_filter_rows;
Scratch scratch_for_channels_in_parts;

class TilesOfPositions final : public PackedPositions {
 public:
  TilesOfPositions(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block,
                   const BackwardWeightsSides& sides)
      : shape_(shape),
        shifts_(shifts),
        block_(block),
        sides_(sides),
        steps_(steps_of(block.positions(shifts))),
        line_(block.length_of_plane(shifts, steps_ * kStepElements)),
        lines_(shape, shifts, block, sides.x, sides.x_strides, line_ + kTileSide) {
    for (int64_t step = 0; step < steps_; ++step) offsets_.push_back(step * kPartsBytes);
  }

  bool pack_filters(int64_t first, int64_t last) override {
    const int64_t length = steps_ * kStepElements, row = padded_stride(length), filters = std::min(last * kUnit, shape_.filters);
    const Run all = {0, length};
    const StepElements elements({&all, 1});
    filters_ = scratch_for_filters.get<std::byte>(tiles_of(filters - first * kUnit) * tile_bytes());
    float* const rows = scratch_for_filter_rows.get(kTileSide * row);
    std::byte* to = filters_;
    for (int64_t tile = first * kUnit; tile < filters; tile += kTileSide, to += tile_bytes()) {
      const int64_t count = std::min(kTileSide, filters - tile);
      gather_filters(shape_, shifts_, block_, sides_.dy, sides_.dy_strides, tile, count, length, rows, row);
      const float* pointers[kTileSide];
      for (int64_t k = 0; k < count; ++k) pointers[k] = rows + k * row;
      if (!split_rows(elements, 0, steps_, {pointers, static_cast<size_t>(count)}, kPartsBytes, to)) return false;
    }
    tiles_of_filters_ = tiles_of(filters - first * kUnit);
    return true;
  }

  bool pack_channels(int64_t unit) override {
    const int64_t first = unit * kUnit, channels = std::min(kUnit, shape_.channels - first);
    tiles_of_channels_ = tiles_of(channels);
    const int64_t planes = static_cast<int64_t>(shifts_.planes.size());
    channels_ = scratch_for_channels_in_parts.get<std::byte>(tiles_of_channels_ * planes * plane_bytes());
    for (int64_t tile = 0; tile < tiles_of_channels_; ++tile) {
      lines_.take(first + tile * kTileSide, std::min(kTileSide, channels - tile * kTileSide));
      ColumnsInParts columns;
      for (int64_t plane = 0; plane < planes; ++plane) {
        columns.split_line(lines_.data(), lines_.where(static_cast<size_t>(plane)).data(), line_, part_bytes(),
                           channels_ + (tile * planes + plane) * plane_bytes());
      }
      if (!columns.fit()) return false;
    }
    return true;
  }

  void multiply(int64_t filters, const TapShifts::Tap& tap, bool add, float* sums) const override {
    const int64_t tile = filters * kUnitTiles, planes = static_cast<int64_t>(shifts_.planes.size());
    const std::byte* const left = filters_ + tile * tile_bytes();
    const std::byte* const right =
        channels_ + static_cast<int64_t>(tap.plane) * plane_bytes() + block_.shift_of(shifts_, tap) * kTileRowBytes;
    const PartsStrip strip = {{left, tile + 1 < tiles_of_filters_ ? left + tile_bytes() : nullptr},
                              offsets_.data(),
                              {right, tiles_of_channels_ > 1 ? right + planes * plane_bytes() : nullptr},
                              steps_,
                              sums,
                              kUnit,
                              add ? sums : nullptr,
                              kUnit};
    multiply_line_of_parts(strip, part_bytes());
  }

 private:
  int64_t tile_bytes() const { return steps_ * kPartsBytes; }
  int64_t part_bytes() const { return line_ * kTileRowBytes; }
  int64_t plane_bytes() const { return kPartsOfFloat * part_bytes(); }

  const BackwardWeightsShape& shape_;
  const TapShifts& shifts_;
  const PositionBlock block_;
  const BackwardWeightsSides sides_;
  const int64_t steps_;
  const int64_t line_;  // words of a plane
  ChannelLines lines_;
  std::vector<int64_t> offsets_;
  std::byte* filters_ = nullptr;   // [tile][step][filter][part][element]
  std::byte* channels_ = nullptr;  // [tile][plane][part][word][channel]
  int64_t tiles_of_filters_ = 0, tiles_of_channels_ = 0;
  const TileRegisters registers_;
};

class Tiles final : public BackwardWeightsWay {
 public:
  Tiles(const BackwardWeightsShape& shape, const TapShifts& shifts) : shape_(shape), shifts_(shifts) {
    unit_filters = unit_channels = kUnit;
    step = kStepElements;
    bytes_of_filters = kUnitTiles * kPartsRowBytes * kTileSide / kStepElements;
    bytes_of_channels = kUnitTiles * kPartsRowBytes * static_cast<int64_t>(shifts.planes.size());
    constexpr double kTileProduct = 18, kProducts = 6, kPackFilter = 0.9, kPackChannel = 1.3;
    const auto tiles_in = [](int64_t count) { return static_cast<double>(std::min(kUnitTiles, tiles_of(count))); };
    product = kProducts * kTileProduct / static_cast<double>(kStepElements) * tiles_in(shape.filters) * tiles_in(shape.channels);
    pack_filters = kPackFilter * static_cast<double>(std::min(kUnit, shape.filters));
    pack_channels = kPackChannel * tiles_in(shape.channels) * static_cast<double>(kTileSide) * static_cast<double>(shifts.planes.size());
  }

  std::unique_ptr<PackedPositions> take(const PositionBlock& block, const BackwardWeightsSides& sides) const override {
    return std::make_unique<TilesOfPositions>(shape_, shifts_, block, sides);
  }

 private:
  const BackwardWeightsShape& shape_;
  const TapShifts& shifts_;
};

}  // namespace

std::unique_ptr<const BackwardWeightsWay> backward_weights_in_tiles(const BackwardWeightsShape& shape, const TapShifts& shifts) {
  return std::make_unique<const Tiles>(shape, shifts);
}

}  // namespace toroid
