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

constexpr int64_t kGradientAlignment = 1024, kStageStatistics = 1024, kGradientBarriers = 256;

// Both kernels of narrow rows have the same.
HopperGradientKernel::Half narrow_half(const HopperGradientKernel& kernel) {
  constexpr int kStages = 4;
  constexpr int64_t kStoredRow = 144;
  const int rows = kernel.groups() * HopperGradientKernel::kTileRows;
  const int64_t ring = kStages * (2 * kernel.tile_bytes() + kStageStatistics);
  return {rows, kStages, kGradientAlignment + ring + rows * kStoredRow + kGradientBarriers};
}

}  // namespace

HopperGradientKernel::Half HopperGradientKernel::of_queries() const {
  if (!is_wide()) return narrow_half(*this);
  const int rows = groups() * kTileRows, stages = width() > 192 ? 3 : width() > kWideGradient ? 5 : 6;
  return {rows, stages, kGradientAlignment + (2 * groups() + stages) * tile_bytes() + kGradientBarriers};
}

HopperGradientKernel::Half HopperGradientKernel::of_keys() const {
  if (!is_wide()) return narrow_half(*this);
  constexpr int64_t kWeights = kTileRows * kTileRows * 4;
  const int stages = width() > 192 ? 2 : width() > kWideGradient ? 3 : 4;
  const int64_t ring = stages * (2 * tile_bytes() + kStageStatistics);
  return {kTileRows, stages, kGradientAlignment + 2 * tile_bytes() + ring + kWeights + kGradientBarriers};
}

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
