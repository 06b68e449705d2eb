// Matrix products of bfloat16 and float16. They are summed in float32: of bfloat16 in tiles or in pairs where the machine can, else of widened
// rows and panels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/float16.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"
#include "tensor/dtype.h"

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

void multiply_in_pairs(RuntimePool& pool, int64_t m, int64_t k, const Matrix16& a, const PackedB& b, const ProductOutput& out) {
  for_each_part(pool, m, b.panels(), partition_of(pool.threads(), size_of_matrix(m, b.panels(), k, sizeof(uint16_t))),
                [&](Range some, Range panels) {
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

void multiply_widened(RuntimePool& pool, int64_t m, int64_t k, const Matrix16& a, const PackedB& b, const ProductOutput& out) {
  const RowElements elements(0, k);
  for_each_part(pool, m, b.panels(), partition_of(pool.threads(), size_of_matrix(m, b.panels(), k, sizeof(float))),
                [&](Range some, Range panels) {
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

// ---- all

void multiply16(const KernelCall& call, HalfGemmAlgorithm form, int64_t m, int64_t n, int64_t k, const Matrix16& a, const Matrix16& b,
                const ProductOutput& out) {
  const bool in_tiles = form == HalfGemmAlgorithm::Tiles, in_pairs = form == HalfGemmAlgorithm::Pairs;
  const int64_t depth = in_pairs ? pairs_of(k) : k;
  const int64_t size = in_tiles ? packed_tiles_bytes(AmxType::BFloat16, k, n) / kWordBytes : PackedB::size(depth, n);
  auto pack = [&](float* to) {
    if (in_tiles) return pack_right_tiles(AmxType::BFloat16, call.pool, {b.data, b.row, b.column}, k, n, reinterpret_cast<std::byte*>(to));
    const int64_t stride = gemm_microkernels().panel_width() * depth;
    call.pool.parallel_for(PackedB::panels(n), 1, [&](int64_t begin, int64_t end) {
      (in_pairs ? pack_pairs : pack_widened)(b, k, n, begin, end, to + begin * stride);
    });
  };
  const int64_t key[] = {in_tiles ? 't' : in_pairs ? 'p' : 'w', static_cast<int64_t>(b.dtype), k, n, b.row, b.column};
  const float* packed = call.packed_or_scratch(call.inputs[1], b.data, key, size, pack);
  if (in_tiles) {
    multiply_in_tiles(AmxType::BFloat16, call.pool, m, n, k, {a.data, a.row, a.column}, reinterpret_cast<const std::byte*>(packed), out);
  } else {
    (in_pairs ? multiply_in_pairs : multiply_widened)(call.pool, m, k, a, {depth, n, packed}, out);
  }
}

void run(const KernelCall& call, HalfGemmAlgorithm form) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  if (m == 0 || n == 0) return;
  const ToroidEpilogue stored = store_as(static_cast<DType>(c.dtype), c.data, n);
  const ProductOutput out = {nullptr, n, call.epilogue != nullptr ? call.epilogue : &stored};
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    multiply16(call, form, m, n, k, matrix_of(a, batch), matrix_of(b, batch), out.part(batch * m, 0));
  });
}

}  // namespace

bool can_multiply(HalfGemmAlgorithm form, DType dtype) {
  if (form == HalfGemmAlgorithm::Tiles) return dtype == DType::BF16 && has_amx();
  if (form == HalfGemmAlgorithm::Pairs) return dtype == DType::BF16 && bf16_dot_microkernels() != nullptr;
  return true;
}

void run_matmul_half(const KernelCall& call, HalfGemmAlgorithm form) {
  TOROID_CHECK(can_multiply(form, static_cast<DType>(call.outputs[0].dtype)));
  run(call, form);
}

}  // namespace toroid
