// Products of int8 or uint8 with int8: exact, in tiles of bytes where the machine has them, else in vectors of four or two products at a
// time (microkernel.h), else of floats: a sum of 512 products of bytes is a whole number below 2^24, which float32 holds, so parts of the
// depth are summed in float32 and then as integers.
#include "runtime/kernels/gemm/int8/gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/int8/byte_matrix.h"
#include "runtime/kernels/gemm/packed_right_plan.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kExactDepth = 512;

Scratch scratch_for_rows, scratch_for_wide, scratch_for_panels, scratch_for_block, scratch_for_sums;

TileMatrix matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const int8_t*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1]};
}

// As floats, whole.
template <class Element>
void widen(RuntimePool& pool, const TileMatrix& from, int64_t rows, int64_t columns, float* to) {
  const auto* data = static_cast<const Element*>(from.data);
  pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = data[i * from.row + j * from.column];
    }
  });
}

class BytesWidened final : public KernelPlan {
 public:
  explicit BytesWidened(const KernelCall& call) : s_(product_sizes(call.inputs[0], call.inputs[1], call.outputs[0])) {
    if (s_.m == 0 || s_.n == 0) return;
    cut_ = partition_of_panels<float>(call.pool.threads(), s_.m, PackedB::panels(s_.n), std::min(s_.k, kExactDepth));
    last_cut_ = partition_of_panels<float>(call.pool.threads(), s_.m, PackedB::panels(s_.n), s_.k % kExactDepth);
  }
  void run(const KernelCall& call) const override {
    if (s_.m == 0 || s_.n == 0) return;
    for_each_product(call.pool, s_.batches, s_.m * s_.n * s_.k, [&](int64_t batch) {
      const bool is_stored = call.epilogue == nullptr;
      int32_t* const sums = is_stored ? static_cast<int32_t*>(call.outputs[0].data) + batch * s_.m * s_.n
                                      : reinterpret_cast<int32_t*>(scratch_for_sums.get(s_.m * s_.n + kReadBeyond));
      multiply_exactly(call.pool, dtype_of(call.inputs[0]), matrix_of(call.inputs[0], batch), matrix_of(call.inputs[1], batch), sums);
      if (is_stored) return;
      call.pool.parallel_for(s_.m, 64, [&](int64_t begin, int64_t end) {
        run_epilogue(*call.epilogue, reinterpret_cast<const float*>(sums) + begin * s_.n, s_.n, {batch * s_.m + begin, batch * s_.m + end},
                     {0, s_.n});
      });
    });
  }

 private:
  void multiply_exactly(RuntimePool& pool, DType left, const TileMatrix& a, const TileMatrix& b, int32_t* out) const {
    const int64_t m = s_.m, n = s_.n, k = s_.k;
    float* rows = scratch_for_rows.get(m * k);
    float* wide = scratch_for_wide.get(k * n);
    float* block = scratch_for_block.get(m * n);
    (left == DType::U8 ? widen<uint8_t> : widen<int8_t>)(pool, a, m, k, rows);
    widen<int8_t>(pool, b, k, n, wide);
    std::fill_n(out, m * n, 0);
    for (int64_t done = 0; done < k; done += kExactDepth) {
      const int64_t depth = std::min(kExactDepth, k - done), panels = PackedB::panels(n);
      float* packed = scratch_for_panels.get(PackedB::size(depth, n));
      pack_panels({wide + done * n, n, 1}, depth, n, 0, panels, packed);
      multiply(pool, depth == kExactDepth ? cut_ : last_cut_, m, {rows + done, k, 1}, {depth, n, packed}, {0, panels}, {block, n, nullptr});
      for (int64_t i = 0; i < m * n; ++i)
        out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + static_cast<uint32_t>(static_cast<int32_t>(block[i])));
    }
  }

  ProductSizes s_;
  Cut cut_, last_cut_;  // of so much of the depth, and of what is left
};

class InTiles {
 public:
  InTiles(const KernelCall&, const ProductSizes& sizes) : s_(sizes) {}
  auto layout(const ToroidOperand& right) const { return layout_of<InTiles>(right, s_); }
  int64_t floats() const { return packed_tiles_bytes(AmxType::Int8, s_.k, s_.n) / kWordBytes; }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    pack_right_tiles(AmxType::Int8, call.pool, matrix_of(call.inputs[1], batch), s_.k, s_.n, reinterpret_cast<std::byte*>(to));
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const AmxType numbers = dtype_of(call.inputs[0]) == DType::U8 ? AmxType::Uint8 : AmxType::Int8;
    multiply_in_tiles(numbers, call.pool, s_.m, s_.n, s_.k, matrix_of(call.inputs[0], batch), reinterpret_cast<const std::byte*>(packed),
                      out);
  }

 private:
  ProductSizes s_;
};

// ---- in vectors

constexpr int64_t kBytesAtOnce = 16;

// So many numbers of 16 bits.
template <class Element>
void widen_some(const Element* from, int16_t* to) {
  typedef int8_t Signed __attribute__((vector_size(kBytesAtOnce)));
  typedef uint8_t Unsigned __attribute__((vector_size(kBytesAtOnce)));
  typedef int16_t Numbers __attribute__((vector_size(2 * kBytesAtOnce)));
  Numbers numbers;
  if constexpr (std::is_signed_v<Element>) {
    Signed bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    numbers = __builtin_convertvector(bytes, Numbers);
  } else {
    Unsigned bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    numbers = __builtin_convertvector(bytes, Numbers);
  }
  std::memcpy(to, &numbers, sizeof(numbers));
}

// So many bytes, their first bits flipped where they are signed: 128 more, without a sign.
template <class Element>
void make_unsigned_some(const Element* from, uint8_t* to) {
  constexpr uint64_t kFlips = std::is_signed_v<Element> ? 0x8080808080808080u : 0;
  uint64_t halves[2];
  static_assert(sizeof(halves) == kBytesAtOnce);
  std::memcpy(halves, from, sizeof(halves));
  for (uint64_t& half : halves) half ^= kFlips;
  std::memcpy(to, halves, sizeof(halves));
}

// A row of so many words: bytes that are not signed, or numbers of 16 bits.
template <class Element>
void pack_row(const Element* from, int64_t column, int64_t k, int64_t elements, int64_t words, uint32_t* to) {
  constexpr uint8_t kShift = std::is_signed_v<Element> ? 128 : 0;
  const int64_t in_vectors = column == 1 ? k / kBytesAtOnce * kBytesAtOnce : 0;
  if (elements == 4) {
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    for (int64_t p = 0; p < in_vectors; p += kBytesAtOnce) make_unsigned_some(from + p, bytes + p);
    for (int64_t p = in_vectors; p < k; ++p) bytes[p] = static_cast<uint8_t>(static_cast<uint8_t>(from[p * column]) + kShift);
    std::fill(bytes + k, bytes + words * elements, uint8_t{0});
  } else {
    auto* numbers = reinterpret_cast<int16_t*>(to);
    for (int64_t p = 0; p < in_vectors; p += kBytesAtOnce) widen_some(from + p, numbers + p);
    for (int64_t p = in_vectors; p < k; ++p) numbers[p] = from[p * column];
    std::fill(numbers + k, numbers + words * elements, int16_t{0});
  }
}

// kKernels: vnni_kernels or byte_pair_kernels.
template <const ByteKernels* (*kKernels)()>
class InVectors {
 public:
  InVectors(const KernelCall& call, const ProductSizes& sizes)
      : s_(sizes), kernels_(*kKernels()), is_signed_(dtype_of(call.inputs[0]) == DType::I8), right_(kernels_, s_.n, s_.k) {
    if (s_.m > 0 && s_.n > 0) cut_ = partition_of(call.pool.threads(), size_of_matrix(s_.m, panels(), s_.k, 4 / kernels_.elements));
  }
  auto layout(const ToroidOperand& right) const { return std::pair(layout_of<InVectors>(right, s_), shifts()); }
  int64_t floats() const { return right_.size(); }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    right_.pack(call.pool, matrix_of(call.inputs[1], batch), shifts(), reinterpret_cast<uint32_t*>(to));
  }

  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const TileMatrix a = matrix_of(call.inputs[0], batch);
    const auto* const right = reinterpret_cast<const uint32_t*>(packed);
    // Where there is no epilogue, sums go where they belong.
    int32_t* const stored = call.epilogue != nullptr ? nullptr : static_cast<int32_t*>(call.outputs[0].data) + batch * s_.m * s_.n;
    const int64_t words = right_.words();
    for_each_part(call.pool, s_.m, panels(), cut_, [&](Range some, Range of_task) {
      const bool is_as_packed = !is_signed_ && a.column == 1 && kernels_.elements == 4 && s_.k % 4 == 0;
      auto* to = is_as_packed ? nullptr : reinterpret_cast<uint32_t*>(scratch_for_rows.get(some.size() * words));
      std::vector<const uint32_t*> rows;
      rows.reserve(static_cast<size_t>(some.size()));
      for (int64_t i = some.first; i < some.last; ++i) {
        const auto* from = static_cast<const uint8_t*>(a.data) + i * a.row;
        if (is_as_packed) {
          rows.push_back(reinterpret_cast<const uint32_t*>(from));
          continue;
        }
        is_signed_ ? pack_row(reinterpret_cast<const int8_t*>(from), a.column, s_.k, kernels_.elements, words, to)
                   : pack_row(from, a.column, s_.k, kernels_.elements, words, to);
        rows.push_back(to);
        to += words;
      }
      for (int64_t panel = of_task.first; panel < of_task.last; ++panel) multiply_panel(right, panel, rows, some.first, stored, out);
    });
  }

 private:
  static constexpr int64_t kPanelColumns = ByteMatrix::kPanelColumns;

  int64_t panels() const { return right_.panels(); }
  bool shifts() const { return is_signed_ && kernels_.elements == 4; }

  // To `stored`, or, where that is null, block by block to the epilogue of `out`.
  void multiply_panel(const uint32_t* right, int64_t panel, const std::vector<const uint32_t*>& rows, int64_t first_row, int32_t* stored,
                      const ProductOutput& out) const {
    constexpr int64_t kBlockRows = 8 * ByteKernels::kMostRows;  // that an epilogue gets at a time
    alignas(64) int32_t block[kBlockRows * kPanelColumns + kReadBeyond];
    const int64_t column = panel * kPanelColumns, columns = std::min(kPanelColumns, s_.n - column);
    const bool is_direct = stored != nullptr && columns % ByteKernels::kColumns == 0;
    const int64_t row = is_direct ? s_.n : kPanelColumns;
    const auto num_rows = static_cast<int64_t>(rows.size());
    for (int64_t i = 0; i < num_rows; i += kBlockRows) {
      const int64_t count = std::min(kBlockRows, num_rows - i);
      int32_t* const sums = is_direct ? stored + (first_row + i) * s_.n + column : block;
      right_.multiply(right, panel, {&rows[static_cast<size_t>(i)], 1, right_.words()}, count, shifts(), sums, row);
      const Range taken = {first_row + i, first_row + i + count};
      if (!is_direct) out.take(reinterpret_cast<const float*>(block), kPanelColumns, taken, {column, column + columns});
    }
  }

  ProductSizes s_;
  const ByteKernels& kernels_;
  bool is_signed_;
  ByteMatrix right_;
  Cut cut_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_bytes_widened(const KernelCall& call) { return std::make_unique<const BytesWidened>(call); }
std::unique_ptr<const KernelPlan> plan_bytes_pairs(const KernelCall& call) { return plan_packed_right<InVectors<byte_pair_kernels>>(call); }
std::unique_ptr<const KernelPlan> plan_bytes_fours(const KernelCall& call) { return plan_packed_right<InVectors<vnni_kernels>>(call); }
std::unique_ptr<const KernelPlan> plan_bytes_tiles(const KernelCall& call) { return plan_packed_right<InTiles>(call); }

}  // namespace toroid
