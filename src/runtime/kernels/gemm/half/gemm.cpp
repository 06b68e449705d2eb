// Matrix products of bfloat16 and float16. They are summed in float32: of bfloat16 in tiles or in pairs where the machine can, else of widened
// rows and panels.
#include "runtime/kernels/gemm/half/gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/packed_right_plan.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPairs = 512;  // of a panel at a time: 128 KiB

thread_local Scratch scratch_for_rows, scratch_for_block;

// A matrix of 16-bit floats, strides in elements.
struct Matrix16 {
  const uint16_t* data;
  int64_t row, column;
  DType dtype;
  const uint16_t* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
  float value(int64_t i, int64_t j) const {
    const uint16_t bits = *at(i, j);
    return dtype == DType::BF16 ? static_cast<float>(BFloat16::from_bits(bits)) : static_cast<float>(Float16::from_bits(bits));
  }
};

Matrix16 matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const uint16_t*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1],
          static_cast<DType>(operand.dtype)};
}

// ---- in pairs

int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

// The panels [first, last) of b with two rows next to each other: [pair][column][2]. Floats here are pairs of bits.
void pack_pairs(const Matrix16& b, int64_t k, int64_t n, int64_t first, int64_t last, float* out) {
  const bool are_whole = b.row == 1 && k % 2 == 0 && b.column % 2 == 0 && reinterpret_cast<uintptr_t>(b.data) % sizeof(float) == 0;
  if (are_whole) return pack_panels({reinterpret_cast<const float*>(b.data), 1, b.column / 2}, k / 2, n, first, last, out);
  const PackedB shape{pairs_of(k), n, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel);
    auto* to = reinterpret_cast<uint16_t*>(out + (column - shape.first_column(first)) * shape.depth);
    for (int64_t p = 0; p < 2 * shape.depth; ++p) {
      for (int64_t j = 0; j < width; ++j) {
        to[(p / 2 * width + j) * 2 + p % 2] = p < k && column + j < n ? *b.at(p, column + j) : uint16_t{0};
      }
    }
  }
}

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

void multiply_pairs(const Bf16DotMicrokernels& kernels, const PackedB& b, int64_t panel, std::span<const uint16_t* const> rows,
                    float* block) {
  const int64_t width = b.width(panel);
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t strips = (count + GemmMicrokernels::kMostRows - 1) / GemmMicrokernels::kMostRows;
  for (int64_t done = 0; done == 0 || done < b.depth; done += kPairs) {
    const int64_t pairs = std::min(kPairs, b.depth - done);
    for (int64_t s = 0; s < strips; ++s) {
      const int64_t first = count * s / strips, last = count * (s + 1) / strips;
      const uint16_t* strip[GemmMicrokernels::kMostRows];
      for (int64_t i = first; i < last; ++i) strip[i - first] = rows[static_cast<size_t>(i)] + 2 * done;
      kernels[last - first - 1][width / gemm_microkernels().lanes - 1](
          pairs, strip, reinterpret_cast<const uint16_t*>(b.panel(panel) + done * width), block + first * width, width, done > 0);
    }
  }
}

void multiply_in_pairs(RuntimePool& pool, const Cut& cut, int64_t m, int64_t k, const Matrix16& a, const PackedB& b,
                       const ProductOutput& out) {
  for_each_part(pool, m, b.panels(), cut, [&](Range some, Range panels) {
    std::vector<const uint16_t*> rows(static_cast<size_t>(some.size()));
    take_row_pairs(a, some.first, k, rows);
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t width = b.width(panel), column = b.first_column(panel);
      float* block = scratch_for_block.get(some.size() * width);
      multiply_pairs(*bf16_dot_microkernels(), b, panel, rows, block);
      out.take(block, width, some, {column, column + std::min(width, b.columns - column)});
    }
  });
}

// ---- widened

void pack_widened(const Matrix16& b, int64_t k, int64_t n, int64_t first, int64_t last, float* out) {
  const PackedB shape{k, n, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel);
    float* to = out + (column - shape.first_column(first)) * k;
    const int64_t count = std::min(width, n - column);
    for (int64_t p = 0; p < k; ++p, to += width) {
      if (b.column == 1) {
        widen_row(b.dtype, b.at(p, column), count, to);
      } else {
        for (int64_t j = 0; j < count; ++j) to[j] = b.value(p, column + j);
      }
      std::fill(to + count, to + width, 0.0f);
    }
  }
}

void multiply_widened(RuntimePool& pool, const Cut& cut, int64_t m, int64_t k, const Matrix16& a, const PackedB& b,
                      const ProductOutput& out) {
  const RowElements elements(0, k);
  for_each_part(pool, m, b.panels(), cut, [&](Range some, Range panels) {
    const int64_t row = k + 16;
    float* widened = scratch_for_rows.get(some.size() * row);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < some.size(); ++i) {
      if (a.column == 1) {
        widen_row(a.dtype, a.at(some.first + i, 0), k, widened + i * row);
      } else {
        for (int64_t p = 0; p < k; ++p) widened[i * row + p] = a.value(some.first + i, p);
      }
      rows.push_back(widened + i * row);
    }
    multiply_rows(b, panels.first, panels.last, elements, rows, some.first, out);
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

// In panels: kInPairs of pairs of BF16, else of float32.
template <bool kInPairs>
class InPanels {
 public:
  InPanels(const KernelCall& call, const ProductSizes& sizes)
      : s_(sizes), depth_(kInPairs ? pairs_of(s_.k) : s_.k), dtype_(dtype_of(call.inputs[1])) {
    const int64_t panels = PackedB::panels(s_.n);
    if (s_.m > 0 && s_.n > 0)
      cut_ = partition_of(call.pool.threads(), size_of_matrix(s_.m, panels, s_.k, kInPairs ? sizeof(uint16_t) : sizeof(float)));
  }
  auto layout(const ToroidOperand& right) const { return std::pair(layout_of<InPanels>(right, s_), dtype_); }
  int64_t floats() const { return PackedB::size(depth_, s_.n); }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    const Matrix16 b = matrix_of(call.inputs[1], batch);
    const int64_t stride = gemm_microkernels().panel_width() * depth_;
    call.pool.parallel_for(PackedB::panels(s_.n), 1, [&](int64_t begin, int64_t end) {
      (kInPairs ? pack_pairs : pack_widened)(b, s_.k, s_.n, begin, end, to + begin * stride);
    });
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    (kInPairs ? multiply_in_pairs : multiply_widened)(call.pool, cut_, s_.m, s_.k, matrix_of(call.inputs[0], batch), {depth_, s_.n, packed},
                                                      out);
  }

 private:
  ProductSizes s_;
  int64_t depth_;
  DType dtype_;
  Cut cut_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_half_widened(const KernelCall& call) { return plan_packed_right<InPanels<false>>(call); }
std::unique_ptr<const KernelPlan> plan_bf16_pairs(const KernelCall& call) { return plan_packed_right<InPanels<true>>(call); }
std::unique_ptr<const KernelPlan> plan_bf16_tiles(const KernelCall& call) { return plan_packed_right<InTiles>(call); }

}  // namespace toroid
