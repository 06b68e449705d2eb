#include "schedule/cuda/attention/attention_gradient_kernel.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostGradientWidth = 256, kEights = 8, kNarrow = 64, kWideGradient = 128;

}  // namespace

// Rows of two operands that a block has, and two stages of tiles of the two others. What the first kernel found of each row is in the
// padding.
int64_t AttentionGradientKernel::shared_bytes() const {
  constexpr int64_t kPadding = 8;
  const int64_t row = ((width + 15) / 16 * 16 + kPadding) * 2;
  return 2 * kRows * row + 2 * 2 * tile * row;
}

int AttentionGradientKernel::parts() const { return width > kWideGradient ? 2 : 1; }

namespace {

constexpr int64_t kGradientAlignment = 1024, kStageStatistics = 1024, kGradientBarriers = 256, kMaskTile = 64 * 64 * 2,
                  kMostTiledWidth = 192;

// Both kernels of narrow rows have the same.
HopperGradientKernel::Half narrow_half(const HopperGradientKernel& kernel) {
  constexpr int kStages = 4;
  constexpr int64_t kStoredRow = 144;
  const int rows = kernel.groups() * HopperGradientKernel::kTileRows;
  const int64_t ring = kStages * (2 * kernel.tile_bytes() + kStageStatistics + (kernel.has_tiled_mask ? kMaskTile : 0));
  return {rows, kStages, kGradientAlignment + ring + rows * kStoredRow + kGradientBarriers};
}

}  // namespace

HopperGradientKernel::Half HopperGradientKernel::of_queries() const {
  if (!is_wide()) return narrow_half(*this);
  // A mask for both groups lies behind two tiles of the ring.
  const int rows = groups() * kTileRows, stages = width() > 192 ? 3 : width() <= kWideGradient ? 6 : has_tiled_mask ? 4 : 5;
  const int64_t masks = has_tiled_mask ? stages / 2 * groups() * kMaskTile : 0;
  return {rows, stages, kGradientAlignment + (2 * groups() + stages) * tile_bytes() + masks + kGradientBarriers};
}

HopperGradientKernel::Half HopperGradientKernel::of_keys() const {
  if (!is_wide()) return narrow_half(*this);
  constexpr int64_t kWeights = kTileRows * kTileRows * 4;
  const int stages = width() > 192 ? 2 : width() <= kWideGradient ? 4 : has_tiled_mask ? 2 : 3;
  const int64_t ring = stages * (2 * tile_bytes() + kStageStatistics + (has_tiled_mask ? kMaskTile : 0));
  return {kTileRows, stages, kGradientAlignment + 2 * tile_bytes() + ring + kWeights + kGradientBarriers};
}

// Shared memory holds no masks beside the widest tiles.
bool can_have_tiled_mask(sym::Expr width) { return is_hopper_gradient_width(width) && width.value() <= kMostTiledWidth; }
bool is_hopper_gradient_width(sym::Expr width) {
  return width.is_const() && width.value() >= kNarrow && width.value() <= kMostGradientWidth && width.value() % kEights == 0;
}

bool has_attention_gradient_kernel(const TensorType& q, const TensorType& v) {
  const sym::Expr width = q.sizes.back();
  return is_reduced_float(q.dtype) && q.sizes.size() == 4 && width.is_const() && v.sizes.back() == width && width.value() > 0 &&
         width.value() <= kMostGradientWidth && width.value() % kEights == 0;
}

// Tiles for the registers that a thread may have, and, of wide rows, for the 99 KiB of shared memory that every GPU has.
AttentionGradientKernel attention_gradient_kernel(sym::Expr width) {
  return {.width = static_cast<int>(width.value()), .tile = width.value() <= kNarrow ? 64 : width.value() <= kWideGradient ? 32 : 16};
}

}  // namespace toroid::schedule
