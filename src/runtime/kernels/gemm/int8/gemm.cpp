// Products of int8 or uint8 with int8: exact, in tiles of bytes where the machine has them, else in vectors of four or two products at a time
// (microkernel.h), else of floats: a sum of 512 products of bytes is a whole number below 2^24, which float32 holds, so parts of the depth are summed
// in float32 and then as integers.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/kernels/gemm/int8/weight_only.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kExactDepth = 512;

thread_local Scratch scratch_for_rows, scratch_for_wide, scratch_for_panels, scratch_for_block;

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

void multiply_exactly(RuntimePool& pool, DType left, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const TileMatrix& b,
                      int32_t* out) {
  float* rows = scratch_for_rows.get(m * k);
  float* wide = scratch_for_wide.get(k * n);
  float* block = scratch_for_block.get(m * n);
  (left == DType::U8 ? widen<uint8_t> : widen<int8_t>)(pool, a, m, k, rows);
  widen<int8_t>(pool, b, k, n, wide);
  std::fill_n(out, m * n, 0);
  for (int64_t done = 0; done < k; done += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, k - done);
    float* panels = scratch_for_panels.get(PackedB::size(depth, n));
    pack_panels({wide + done * n, n, 1}, depth, n, 0, PackedB::panels(n), panels);
    multiply(pool, m, {rows + done, k, 1}, {depth, n, panels}, 0, PackedB::panels(n), {block, n, nullptr});
    for (int64_t i = 0; i < m * n; ++i)
      out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + static_cast<uint32_t>(static_cast<int32_t>(block[i])));
  }
}

void multiply_in_tiles(const KernelCall& call, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const TileMatrix& b, int32_t* out) {
  const int64_t form[] = {'8', 'i', k, n, b.row, b.column};
  const float* packed =
      call.packed_or_scratch(call.inputs[1], b.data, form, packed_tiles_bytes(AmxType::Int8, k, n) / kWordBytes,
                             [&](float* to) { pack_right_tiles(AmxType::Int8, call.pool, b, k, n, reinterpret_cast<std::byte*>(to)); });
  const ToroidEpilogue stored = store_as(DType::I32, out, n);
  const auto numbers = static_cast<DType>(call.inputs[0].dtype) == DType::U8 ? AmxType::Uint8 : AmxType::Int8;
  multiply_in_tiles(numbers, call.pool, m, n, k, a, reinterpret_cast<const std::byte*>(packed), {nullptr, n, &stored});
}

// ---- in vectors

// The right side as tiles of 16 columns, and behind them, where the left's bytes are made unsigned by adding 128, what that adds to each column.
class ByteMatrix {
 public:
  ByteMatrix(const KernelCall& call, const ByteKernels& kernels, bool shifts, const TileMatrix& b, int64_t n, int64_t k)
      : kernels_(kernels), n_(n), words_((k + kernels.elements - 1) / kernels.elements) {
    const int64_t form[] = {'8', kernels.elements, shifts, k, n, b.row, b.column};
    const int64_t tiles = tiles_of(n), size = tiles * (tile_words() + ByteKernels::kColumns);
    auto pack = [&](float* to) {
      auto* words = reinterpret_cast<uint32_t*>(to);
      call.pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) {
          pack_tile(b, tile, k, words + tile * tile_words());
          int32_t* added = reinterpret_cast<int32_t*>(words + tiles * tile_words()) + tile * ByteKernels::kColumns;
          shifts ? sum_columns(words + tile * tile_words(), added) : void(std::fill_n(added, ByteKernels::kColumns, 0));
        }
      });
    };
    data_ = reinterpret_cast<const uint32_t*>(call.packed_or_scratch(call.inputs[1], b.data, form, size, pack));
  }

  int64_t words() const { return words_; }
  int64_t tile_words() const { return words_ * ByteKernels::kColumns; }
  const uint32_t* tile(int64_t i) const { return data_ + i * tile_words(); }
  const int32_t* added(int64_t column) const { return reinterpret_cast<const int32_t*>(tile(tiles_of(n_))) + column; }

 private:
  void pack_tile(const TileMatrix& b, int64_t tile, int64_t k, uint32_t* words) const {
    const int64_t first = tile * ByteKernels::kColumns, columns = std::min<int64_t>(ByteKernels::kColumns, n_ - first),
                  elements = kernels_.elements;
    const auto* data = static_cast<const int8_t*>(b.data) + first * b.column;
    std::fill_n(words, tile_words(), 0u);
    for (int64_t p = 0; p < k; ++p) {
      uint32_t* const to = words + p / elements * ByteKernels::kColumns;
      const int64_t shift = p % elements * (32 / elements);
      const uint32_t mask = elements == 4 ? 0xffu : 0xffffu;
      for (int64_t j = 0; j < columns; ++j) to[j] |= (static_cast<uint32_t>(data[p * b.row + j * b.column]) & mask) << shift;
    }
  }
  void sum_columns(const uint32_t* words, int32_t* added) const {
    constexpr uint32_t kOnes = 0x01010101u;
    const std::vector<uint32_t> ones(static_cast<size_t>(words_), kOnes);
    const uint32_t* const row = ones.data();
    kernels_.multiply[0][0](words_, &row, words, tile_words(), added, ByteKernels::kColumns);
    for (int j = 0; j < ByteKernels::kColumns; ++j) added[j] = static_cast<int32_t>(static_cast<uint32_t>(added[j]) * 128u);
  }

  const ByteKernels& kernels_;
  int64_t n_, words_;
  const uint32_t* data_ = nullptr;
};

// A row of so many words: bytes that are not signed, or numbers of 16 bits.
template <class Element>
void pack_row(const Element* from, int64_t column, int64_t k, int64_t elements, int64_t words, uint32_t* to) {
  constexpr uint8_t kShift = std::is_signed_v<Element> ? 128 : 0;
  if (elements == 4) {
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    for (int64_t p = 0; p < k; ++p) bytes[p] = static_cast<uint8_t>(static_cast<uint8_t>(from[p * column]) + kShift);
    std::fill(bytes + k, bytes + words * elements, uint8_t{0});
  } else {
    auto* numbers = reinterpret_cast<int16_t*>(to);
    for (int64_t p = 0; p < k; ++p) numbers[p] = from[p * column];
    std::fill(numbers + k, numbers + words * elements, int16_t{0});
  }
}

void multiply_in_vectors(const ByteKernels& kernels, const KernelCall& call, int64_t m, int64_t n, int64_t k, const TileMatrix& a,
                         const TileMatrix& b, int32_t* out) {
  const bool is_signed = static_cast<DType>(call.inputs[0].dtype) == DType::I8;
  const ByteMatrix right(call, kernels, is_signed && kernels.elements == 4, b, n, k);
  constexpr int64_t kPanelTiles = ByteKernels::kMostTiles, kPanelColumns = kPanelTiles * ByteKernels::kColumns;
  const int64_t panels = (n + kPanelColumns - 1) / kPanelColumns, words = right.words();
  const Cut cut = partition_of(call.pool.threads(), size_of_matrix(m, panels, k, 4 / kernels.elements));
  for_each_part(call.pool, m, panels, cut, [&](Range some, Range of_task) {
    auto* packed = reinterpret_cast<uint32_t*>(scratch_for_rows.get(some.size() * words));
    std::vector<const uint32_t*> rows;
    for (int64_t i = some.first; i < some.last; ++i, packed += words) {
      const auto* from = static_cast<const uint8_t*>(a.data) + i * a.row;
      is_signed ? pack_row(reinterpret_cast<const int8_t*>(from), a.column, k, kernels.elements, words, packed)
                : pack_row(from, a.column, k, kernels.elements, words, packed);
      rows.push_back(packed);
    }
    int32_t block[ByteKernels::kMostRows * kPanelColumns];
    for (int64_t panel = of_task.first; panel < of_task.last; ++panel) {
      const int64_t column = panel * kPanelColumns, columns = std::min(kPanelColumns, n - column), tiles = tiles_of(columns);
      for (int64_t i = 0; i < some.size(); i += ByteKernels::kMostRows) {
        const int64_t count = std::min<int64_t>(ByteKernels::kMostRows, some.size() - i);
        for (int64_t tile = 0; tile < tiles; tile += kernels.tiles) {
          const int64_t at_once = std::min<int64_t>(kernels.tiles, tiles - tile);
          kernels.multiply[count - 1][at_once - 1](words, &rows[static_cast<size_t>(i)], right.tile(panel * kPanelTiles + tile),
                                                   right.tile_words(), block + tile * ByteKernels::kColumns, kPanelColumns);
        }
        const int32_t* added = right.added(column);
        for (int64_t r = 0; r < count; ++r) {
          int32_t* to = out + (some.first + i + r) * n + column;
          for (int64_t j = 0; j < columns; ++j) {
            to[j] = static_cast<int32_t>(static_cast<uint32_t>(block[r * kPanelColumns + j]) - static_cast<uint32_t>(added[j]));
          }
        }
      }
    }
  });
}

void run_int8(const KernelCall& call, Int8Algorithm form) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  if (m == 0 || n == 0) return;
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    int32_t* out = static_cast<int32_t*>(c.data) + batch * m * n;
    if (form == Int8Algorithm::Tiles) return multiply_in_tiles(call, m, n, k, matrix_of(a, batch), matrix_of(b, batch), out);
    if (form == Int8Algorithm::Fours || form == Int8Algorithm::Pairs) {
      const ByteKernels& kernels = form == Int8Algorithm::Fours ? *vnni_kernels() : *byte_pair_kernels();
      return multiply_in_vectors(kernels, call, m, n, k, matrix_of(a, batch), matrix_of(b, batch), out);
    }
    multiply_exactly(call.pool, static_cast<DType>(a.dtype), m, n, k, matrix_of(a, batch), matrix_of(b, batch), out);
  });
}

}  // namespace

bool can_multiply_int8(Int8Algorithm form, DType left) {
  const bool are_bytes = left == DType::I8 || left == DType::U8;
  if (form == Int8Algorithm::Tiles) return has_amx();
  if (form == Int8Algorithm::Fours) return are_bytes && vnni_kernels() != nullptr;
  if (form == Int8Algorithm::Pairs) return are_bytes && byte_pair_kernels() != nullptr;
  if (form == Int8Algorithm::InRegisters) return !are_bytes;
  if (form == Int8Algorithm::BFloat16Pairs) return left == DType::BF16 && bf16_dot_microkernels() != nullptr;
  return true;
}

void run_matmul_int8(const KernelCall& call, Int8Algorithm form) {
  const auto left = static_cast<DType>(call.inputs[0].dtype), result = static_cast<DType>(call.outputs[0].dtype);
  TOROID_CHECK(can_multiply_int8(form, left));
  if (left == DType::I8 || left == DType::U8) {
    TOROID_CHECK(result == DType::I32 && call.epilogue == nullptr);
    return run_int8(call, form);
  }
  TOROID_CHECK((left == DType::F32 || is_reduced_float(left)) && (result == DType::F32 || is_reduced_float(result)));
  run_int8_weights(call, form);
}

std::string_view reading_of_int8(std::string_view choice) {
  if (choice == "tiles") return "widened to bfloat16 a few tiles at a time, as they are multiplied";
  if (choice == "in-registers") return "read as bytes, which become float32 in registers";
  if (choice == "pairs") return "widened to bfloat16 in the cache, once a call for each block of rows";
  return "widened to float32 in the cache, once a call for each block of rows";
}

}  // namespace toroid
