#include "schedule/cuda/attention/attention_gradient_kernel.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostGradientWidth = 128, kEights = 8, kNarrow = 64;

}  // namespace

// Rows of two operands that a block has, and two stages of tiles of the two others, with what the first kernel found of each row.
int64_t AttentionGradientKernel::shared_bytes() const {
  constexpr int64_t kStatisticsBytes = 12, kPadding = 8;
  const int64_t row = ((width + 15) / 16 * 16 + kPadding) * 2;
  return 2 * kRows * row + 2 * (2 * tile * row + tile * kStatisticsBytes);
}

int64_t HopperGradientKernel::shared_bytes() const {
  constexpr int64_t kAlignment = 1024, kTile = kHopperGradientWidth * 64 * 2, kStatistics = 1024, kStoredRow = 144, kBarriers = 256;
  return kAlignment + kStages * (2 * kTile + kStatistics) + rows() * kStoredRow + kBarriers;
}

bool has_attention_gradient_kernel(const TensorType& q, const TensorType& v) {
  const sym::Expr width = q.sizes.back();
  return is_reduced_float(q.dtype) && q.sizes.size() == 4 && width.is_const() && v.sizes.back() == width && width.value() > 0 &&
         width.value() <= kMostGradientWidth && width.value() % kEights == 0;
}

// Tiles for the registers that a thread may have.
AttentionGradientKernel attention_gradient_kernel(sym::Expr width) {
  return {.width = static_cast<int>(width.value()), .tile = width.value() <= kNarrow ? 64 : 32};
}

}  // namespace toroid::schedule
