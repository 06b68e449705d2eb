// Matrix products of bfloat16 and float16. They are summed in float32: of bfloat16 in tiles or in pairs where the machine can, else of
// widened rows and panels.
#include "runtime/kernels/gemm/half/gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/half/packed_b.h"
#include "runtime/kernels/gemm/packed_right_plan.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPairs = 512, kPairsOfOneStrip = 64;  // of a panel at a time: 128 and 16 KiB
constexpr int64_t kMostInRows = 24;                     // rows that meet those of a right side that is not packed

Scratch scratch_for_rows, scratch_for_block;

Matrix16 matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const uint16_t*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1],
          static_cast<DType>(operand.dtype)};
}

// ---- in pairs

// Rows with a whole number of pairs.
void take_row_pairs(const Matrix16& a, int64_t first, int64_t k, std::vector<const uint16_t*>& rows) {
  if (a.column == 1 && k % 2 == 0) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = a.at(first + static_cast<int64_t>(i), 0);
    return;
  }
  const int64_t row = pairs_of(k) + 16;
  float* to = scratch_for_rows.get(static_cast<int64_t>(rows.size()) * row);
  for (size_t i = 0; i < rows.size(); ++i, to += row) {
    auto* bits = reinterpret_cast<uint16_t*>(to);
    for (int64_t p = 0; p < k; ++p) bits[p] = *a.at(first + static_cast<int64_t>(i), p);
    if (k % 2 != 0) bits[k] = 0;
    rows[i] = bits;
  }
}

// The right side in panels, and its rows where they lie, if few rows of the left are multiplied with those: k is even then.
struct RightInPairs {
  PackedB panels;
  const Matrix16* rows;
};

// These rows of a product, in the columns of one panel.
void multiply_panel(const RightInPairs& right, int64_t panel, Span<const uint16_t* const> rows, int64_t first_row,
                    const ProductOutput& out) {
  constexpr int64_t kStripsPerBlock = 4;  // which leave it while they are in the first-level cache
  const PackedB& b = right.panels;
  const int64_t width = b.width(panel), column = b.first_column(panel);
  const Range columns = {column, column + std::min(width, b.columns - column)};
  const bool in_rows = right.rows != nullptr && columns.size() == width && width % kColumnsInRows == 0;
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t strips = divide_up(count, GemmMicrokernels::kMostRows);
  float* const block = scratch_for_block.get(count * width);
  // What one strip needs is packed into the first-level cache.
  const int64_t most_pairs = in_rows ? b.depth : b.pack != nullptr && strips == 1 ? kPairsOfOneStrip : kPairs;
  for (int64_t done = 0; done == 0 || done < b.depth; done += most_pairs) {
    const int64_t pairs = std::min(most_pairs, b.depth - done);
    const bool is_last = done + pairs == b.depth;
    const auto* const part = in_rows ? nullptr : reinterpret_cast<const uint16_t*>(b.part(panel, {done, done + pairs}));
    int64_t taken = 0;
    for (int64_t s = 0; s < strips; ++s) {
      const Range some = part_of(count, s, strips);
      const uint16_t* strip[GemmMicrokernels::kMostRows];
      for (int64_t i = some.first; i < some.last; ++i) strip[i - some.first] = rows[static_cast<size_t>(i)] + 2 * done;
      float* const sums = block + some.first * width;
      if (in_rows) {
        const auto multiply = (*bf16_row_microkernels())[some.size() - 1][width / kColumnsInRows - 1];
        multiply(pairs, strip, right.rows->at(0, column), right.rows->row, sums, width);
      } else {
        const auto multiply = (*bf16_dot_microkernels())[some.size() - 1][width / gemm_microkernels().lanes - 1];
        multiply(pairs, strip, part, sums, width, done > 0);
      }
      if (!is_last || (s % kStripsPerBlock != kStripsPerBlock - 1 && s + 1 < strips)) continue;
      out.take(block + taken * width, width, {first_row + taken, first_row + some.last}, columns);
      taken = some.last;
    }
  }
}

void multiply_in_pairs(RuntimePool& pool, const Cut& cut, int64_t m, int64_t k, const Matrix16& a, const RightInPairs& b,
                       const ProductOutput& out) {
  for_each_part(pool, m, b.panels.panels(), cut, [&](Range some, Range panels) {
    std::vector<const uint16_t*> rows(static_cast<size_t>(some.size()));
    take_row_pairs(a, some.first, k, rows);
    for (int64_t panel = panels.first; panel < panels.last; ++panel) multiply_panel(b, panel, rows, some.first, out);
  });
}

// ---- widened

void multiply_widened(RuntimePool& pool, const Cut& cut, int64_t m, int64_t k, const Matrix16& a, const PackedB& b,
                      const ProductOutput& out) {
  const RowElements elements(0, k);
  const int64_t group_bytes = b.panels() / cut.groups * gemm_microkernels().panel_width() * k * int64_t{sizeof(float)};
  const Fetching fetching = {b.pack == nullptr && pays_to_fetch(group_bytes, cut.blocks)};
  for_each_part(pool, m, b.panels(), cut, [&](Range some, Range panels) {
    const int64_t row = k + 16;
    float* widened = scratch_for_rows.get(some.size() * row);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < some.size(); ++i) {
      widen_elements(a.dtype, a.at(some.first + i, 0), a.column, k, widened + i * row);
      rows.push_back(widened + i * row);
    }
    multiply_rows(b, panels.first, panels.last, elements, rows, some.first, out, fetching);
  });
}

// ---- plans

class InTiles {
 public:
  InTiles(const KernelCall&, const ProductSizes& sizes) : s_(sizes) {}
  auto layout(const ToroidOperand& right) const { return layout_of<InTiles>(right, s_); }
  int64_t floats() const { return packed_tiles_bytes(AmxType::BFloat16, s_.k, s_.n) / kWordBytes; }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    const Matrix16 b = matrix_of(call.inputs[1], batch);
    pack_right_tiles(AmxType::BFloat16, call.pool, {b.data, b.row, b.column}, s_.k, s_.n, reinterpret_cast<std::byte*>(to));
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const Matrix16 a = matrix_of(call.inputs[0], batch);
    multiply_in_tiles(AmxType::BFloat16, call.pool, s_.m, s_.n, s_.k, {a.data, a.row, a.column}, reinterpret_cast<const std::byte*>(packed),
                      out);
  }

 private:
  ProductSizes s_;
};

// In panels: kInPairs of pairs of BF16, else of float32. What is no constant is packed part by part where that pays (packs_parts).
template <bool kInPairs>
class InPanels {
 public:
  InPanels(const KernelCall& call, const ProductSizes& sizes)
      : s_(sizes),
        depth_(kInPairs ? pairs_of(s_.k) : s_.k),
        dtype_(dtype_of(call.inputs[1])),
        packs_parts_(!call.keeps(call.inputs[1]) && packs_parts(s_.m, s_.k)) {
    if (s_.m == 0 || s_.n == 0) return;
    const ProductSize size = size_of_matrix(s_.m, PackedB::panels(s_.n), s_.k, kInPairs ? sizeof(uint16_t) : sizeof(float));
    cut_ = partition_of(call.pool.threads(), packs_parts_ ? with_packed_parts(size) : size);
  }
  auto layout(const ToroidOperand& right) const { return std::pair(layout_of<InPanels>(right, s_), dtype_); }
  int64_t floats() const { return packs_parts_ ? 0 : PackedB::size(depth_, s_.n); }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    if (packs_parts_) return;
    const Matrix16 b = matrix_of(call.inputs[1], batch);
    const int64_t stride = gemm_microkernels().panel_width() * depth_;
    call.pool.parallel_for(PackedB::panels(s_.n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) pack_part(b, panel, {0, depth_}, to + panel * stride);
    });
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const Matrix16 a = matrix_of(call.inputs[0], batch), b = matrix_of(call.inputs[1], batch);
    const PackPanel pack = [this, &b](int64_t panel, Range rows, float* to) { pack_part(b, panel, rows, to); };
    const PackedB right = {/*depth=*/depth_, /*columns=*/s_.n, /*data=*/packed, /*in_pairs=*/false,
                           /*pack=*/packs_parts_ ? &pack : nullptr};
    if constexpr (kInPairs) {
      const bool in_rows = packs_parts_ && s_.m <= kMostInRows && s_.k > 0 && s_.k % 2 == 0 && b.column == 1;
      multiply_in_pairs(call.pool, cut_, s_.m, s_.k, a, {right, in_rows ? &b : nullptr}, out);
    } else {
      multiply_widened(call.pool, cut_, s_.m, s_.k, a, right, out);
    }
  }

 private:
  void pack_part(const Matrix16& b, int64_t panel, Range rows, float* to) const {
    if constexpr (kInPairs) {
      pack_pairs(b, s_.k, s_.n, panel, rows, to);
    } else {
      pack_widened(b, s_.n, panel, rows, to);
    }
  }

  ProductSizes s_;
  int64_t depth_;
  DType dtype_;
  bool packs_parts_;
  Cut cut_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_half_widened(const KernelCall& call) { return plan_packed_right<InPanels<false>>(call); }
std::unique_ptr<const KernelPlan> plan_bf16_pairs(const KernelCall& call) { return plan_packed_right<InPanels<true>>(call); }
std::unique_ptr<const KernelPlan> plan_bf16_tiles(const KernelCall& call) { return plan_packed_right<InTiles>(call); }

}  // namespace toroid
