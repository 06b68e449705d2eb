// In tiles: int8 is exact in bfloat16, and so is a float32 as the sum of three. So one product of bfloat16 is as exact as one of float32, and three of
// them, with the rows' parts, are for float32: three times 16 x 16 x 32 in 48 cycles still beat vectors by far.
//
// In panels, without tiles: a panel is widened to float32 for each block of rows.
//
// Either way the bytes of the matrix are all that is read from memory, a quarter of float32's.
#include "runtime/int8_weights.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <vector>

#include "runtime/cut.h"
#include "runtime/operands.h"
#include "runtime/rows16.h"
#include "runtime/stored_sums.h"
#include "runtime/tile_blocks.h"
#include "runtime/tile_product.h"
#include "runtime/vector_sets.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kStepDepth = 32;                // of bfloat16 in a tile
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kNarrowBytes = kTileBytes / 2;  // of a tile's elements as int8

thread_local Scratch scratch_for_rows, scratch_for_panel;

struct Int8Matrix {
  const int8_t* data;
  int64_t row, column;
  int8_t at(int64_t i, int64_t j) const { return data[i * row + j * column]; }
};

// Rows of the left side, of any float, as float32.
class FloatRows {
 public:
  FloatRows(const ToroidOperand& operand, int64_t batch)
      : dtype_(static_cast<DType>(operand.dtype)), row_(operand.strides[operand.rank - 2]), column_(operand.strides[operand.rank - 1]) {
    data_ = static_cast<const std::byte*>(operand.data) + batch_offset(operand, operand.rank - 2, batch) * size_bytes(dtype_);
  }
  DType dtype() const { return dtype_; }
  TileMatrix matrix() const { return {data_, row_, column_}; }

  // Where it lies, or a copy in `to`.
  const float* row(int64_t i, int64_t k, float* to) const {
    const std::byte* from = data_ + i * row_ * size_bytes(dtype_);
    if (dtype_ == DType::F32) {
      const auto* floats = reinterpret_cast<const float*>(from);
      if (column_ == 1) return floats;
      for (int64_t p = 0; p < k; ++p) to[p] = floats[p * column_];
      return to;
    }
    const auto* bits = reinterpret_cast<const uint16_t*>(from);
    if (column_ == 1) {
      widen_row(dtype_, bits, k, to);
    } else {
      for (int64_t p = 0; p < k; ++p) widen_row(dtype_, bits + p * column_, 1, to + p);
    }
    return to;
  }

 private:
  DType dtype_;
  int64_t row_, column_;
  const std::byte* data_;
};

// ---- in tiles

int64_t steps_of(int64_t k) { return (k + kStepDepth - 1) / kStepDepth; }

// The tiles [first, last) of 16 columns, each with all its depth, as in packed_tiles_bytes but of int8.
void pack_narrow_tiles(const Int8Matrix& b, int64_t k, int64_t n, int64_t first, int64_t last, std::byte* out) {
  const int64_t tile_bytes = steps_of(k) * kNarrowBytes;
  for (int64_t tile = first; tile < last && k > 0; ++tile) {
    auto* to = reinterpret_cast<int8_t*>(out + tile * tile_bytes);
    std::memset(to, 0, static_cast<size_t>(tile_bytes));
    for (int64_t j = 0; j < std::min(kTileSide, n - tile * kTileSide); ++j) {
      for (int64_t p = 0; p < k; ++p) to[(p / 2 * kTileSide + j) * 2 + p % 2] = b.at(p, tile * kTileSide + j);
    }
  }
}

#ifdef __x86_64__
// So many tiles one after the other, from int8 to bfloat16.
__attribute__((target("arch=x86-64-v4,avx512bf16"))) void widen_tiles(const std::byte* from, int64_t tiles, std::byte* to) {
  for (int64_t i = 0; i < tiles * kTileSide; ++i, from += kTileRowBytes / 2, to += kTileRowBytes) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16));
    const __m512 first = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, low));
    const __m512 second = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, high));
    const __m512bh both = _mm512_cvtne2ps_pbh(second, first);
    std::memcpy(to, &both, sizeof both);
  }
}

// A row as the sum of three of bfloat16, each cut off, not rounded, so that none overflows; the last is exact. to[part][step].
TOROID_AVX512 void split_row(const float* from, int64_t k, int64_t part_bytes, std::byte* to) {
  typedef uint16_t Bits __attribute__((vector_size(32)));
  constexpr uint32_t kUpper = 0xffff0000u, kExponent = 0x7f800000u, kQuiet = 0x400000u;
  for (int64_t p = 0; p < k; p += 16) {
    Vector16 x = {};
    if (p + 16 <= k) {
      std::memcpy(&x, from + p, sizeof x);
    } else {
      for (int64_t q = p; q < k; ++q) x[q - p] = from[q];
    }
    const auto bits = (Integers16)x;
    const auto has_rest = (bits & kExponent) != kExponent;   // infinities and NaN have none
    const Integers16 first = (x == x ? bits : bits | kQuiet) & kUpper;
    const Vector16 rest = x - (Vector16)first;
    const Integers16 second = has_rest ? (Integers16)rest & kUpper : Integers16{};
    const Integers16 third = has_rest ? (Integers16)(rest - (Vector16)second) : Integers16{};
    std::byte* at = to + p / kStepDepth * kTileBytes + p % kStepDepth * 2;
    for (const Integers16& part : {first, second, third}) {
      const Bits narrow = __builtin_convertvector(part >> 16, Bits);
      std::memcpy(at, &narrow, sizeof narrow);
      at += part_bytes;
    }
  }
}
#else
void widen_tiles(const std::byte*, int64_t, std::byte*) { TOROID_CHECK(false, "this machine has no tiles"); }
void split_row(const float*, int64_t, int64_t, std::byte*) { TOROID_CHECK(false, "this machine has no tiles"); }
#endif

struct NarrowProduct {
  int64_t steps, parts;       // parts: of each row
  const std::byte* right;     // packed

  void multiply(const TileBlock& block) const {
    auto* wide = reinterpret_cast<std::byte*>(scratch_for_panel.get(2 * kPartSteps * kTileBytes / kWordBytes));
    const int64_t strips = (block.row_tiles + 1) / 2 * parts, lines = (kTileSide / 2 + strips - 1) / strips;
    for (int64_t done = 0; done == 0 || done < steps; done += kPartSteps) {
      const int64_t some = std::min(kPartSteps, steps - done);
      for (int64_t j = block.first_column; j < block.last_column; j += 2) {
        const bool has_second = j + 1 < block.last_column;
        for (int64_t c = 0; c < 1 + has_second; ++c) widen_tiles(right_at(j + c, done), some, wide + c * kPartSteps * kTileBytes);
        const bool is_last_column = j + 2 >= block.last_column, is_last = is_last_column && done + kPartSteps >= steps;
        const int64_t next_column = is_last || !is_last_column ? j + 2 : block.first_column;
        const int64_t next_step = is_last ? 0 : is_last_column ? done + kPartSteps : done;
        int64_t strip = 0;
        for (int64_t i = 0; i < block.row_tiles; i += 2) {
          for (int64_t part = 0; part < parts; ++part, ++strip) {
            const int64_t offset = strip * lines * kPartSteps * kTileRowBytes;
            multiply_tiles(TileNumbers::BFloat16,
                           {{left_at(block, i, part, done), i + 1 < block.row_tiles ? left_at(block, i + 1, part, done) : nullptr},
                            {wide, has_second ? wide + kPartSteps * kTileBytes : nullptr},
                            some,
                            block.sums + i * kTileSide * kPanelColumns + (j - block.first_column) * kTileSide,
                            kPanelColumns,
                            done > 0 || part > 0,
                            {right_at(next_column, next_step) + offset, right_at(next_column + 1, next_step) + offset},
                            lines});
          }
        }
      }
    }
  }
  const std::byte* right_at(int64_t tile, int64_t step) const { return right + (tile * steps + step) * kNarrowBytes; }
  const std::byte* left_at(const TileBlock& block, int64_t tile, int64_t part, int64_t step) const {
    return block.left + ((tile * parts + part) * steps + step) * kTileBytes;
  }
};

void multiply_narrow_tiles(const KernelCall& call, int64_t m, int64_t n, int64_t k, const FloatRows& a, const Int8Matrix& b, const ToroidEpilogue& epilogue) {
  const int64_t steps = steps_of(k), parts = a.dtype() == DType::BF16 ? 1 : 3;
  const int64_t form[] = {'8', 't', k, n, b.row, b.column};
  const float* packed = call.made_of(call.inputs[1], b.data, form, tiles_of(n) * steps * kNarrowBytes / kWordBytes, [&](float* to) {
    call.pool.parallel_for(tiles_of(n), 1, [&](int64_t begin, int64_t end) { pack_narrow_tiles(b, k, n, begin, end, reinterpret_cast<std::byte*>(to)); });
  });
  const NarrowProduct product = {steps, parts, reinterpret_cast<const std::byte*>(packed)};
  auto pack = [&](int64_t first_row, int64_t rows, std::byte* out) {
    if (parts == 1) {
      const TileMatrix matrix = a.matrix();
      return pack_left_tiles(TileNumbers::BFloat16, {static_cast<const uint16_t*>(matrix.data) + first_row * matrix.row, matrix.row, matrix.column}, rows, k, out);
    }
    if (rows < kTileSide || k % kStepDepth != 0) std::memset(out, 0, static_cast<size_t>(parts * steps * kTileBytes));
    float* copy = scratch_for_rows.get(k);
    for (int64_t i = 0; i < rows; ++i) split_row(a.row(first_row + i, k, copy), k, steps * kTileBytes, out + i * kTileRowBytes);
  };
  for_each_tile_block(call.pool, m, n, parts * steps * kTileBytes, pack, [&](const TileBlock& block) { product.multiply(block); }, epilogue);
}

// ---- in panels

template <class Vector>
TOROID_INLINE void widen_bytes(const int8_t* from, int64_t count, float* to) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  for (int64_t j = 0; j < count; j += kLanes) {
    Bytes bytes;
    std::memcpy(&bytes, from + j, sizeof bytes);
    const Vector wide = __builtin_convertvector(bytes, Vector);
    std::memcpy(to + j, &wide, sizeof wide);
  }
}
#ifdef __x86_64__
TOROID_AVX512 void widen_bytes_avx512(const int8_t* from, int64_t count, float* to) { widen_bytes<Vector16>(from, count, to); }
TOROID_AVX2 void widen_bytes_avx2(const int8_t* from, int64_t count, float* to) { widen_bytes<Vector8>(from, count, to); }
#endif

// A whole number of strip_kernels().lanes.
void widen_bytes(const int8_t* from, int64_t count, float* to) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return widen_bytes_avx512(from, count, to);
  if (vector_set() == VectorSet::Avx2) return widen_bytes_avx2(from, count, to);
#endif
  widen_bytes<Vector4>(from, count, to);
}

void pack_narrow_panels(const Int8Matrix& b, int64_t k, int64_t n, int64_t first, int64_t last, int8_t* out) {
  const PackedMatrix shape{k, n, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel), count = std::min(width, n - column);
    int8_t* to = out + column * k;
    if (count < width && k > 0) std::memset(to, 0, static_cast<size_t>(k * width));
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < count; ++j) to[p * width + j] = b.at(p, column + j);
    }
  }
}

void multiply_narrow_panels(const KernelCall& call, int64_t m, int64_t n, int64_t k, const FloatRows& a, const Int8Matrix& b, const ToroidEpilogue& epilogue) {
  const PackedMatrix shape{k, n, nullptr};
  const int64_t form[] = {'8', 'w', k, n, b.row, b.column};
  const float* packed = call.made_of(call.inputs[1], b.data, form, (PackedMatrix::size(k, n) + kWordBytes - 1) / kWordBytes, [&](float* to) {
    call.pool.parallel_for(shape.panels(), 1, [&](int64_t begin, int64_t end) { pack_narrow_panels(b, k, n, begin, end, reinterpret_cast<int8_t*>(to)); });
  });
  const RowElements elements(0, k);
  for_each_part(call.pool, m, shape.panels(), cut_of(call.pool.threads(), size_of_matrix(m, shape.panels(), k, kFloatBytes)), [&](Range some, Range panels) {
    const int64_t row = k + 16;
    float* copies = scratch_for_rows.get(some.size() * row);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < some.size(); ++i) rows.push_back(a.row(some.first + i, k, copies + i * row));
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t width = shape.width(panel), column = shape.first_column(panel);
      float* wide = scratch_for_panel.get(k * width);
      widen_bytes(reinterpret_cast<const int8_t*>(packed) + column * k, k * width, wide);
      const EpiloguePart part(&epilogue, 0, column);
      multiply_rows({k, std::min(width, n - column), wide}, 0, 1, elements, rows, some.first, {nullptr, 0, part.get()});
    }
  });
}

}  // namespace

void run_int8_weights(const KernelCall& call, Int8Form form) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const int32_t dims = a.rank - 2;
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  if (m == 0 || n == 0) return;
  StoredSums sums = {c.data, static_cast<DType>(c.dtype), n};
  const ToroidEpilogue stored = sums.epilogue();
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    const EpiloguePart epilogue(call.epilogue != nullptr ? call.epilogue : &stored, batch * m, 0);
    const Int8Matrix right = {static_cast<const int8_t*>(b.data) + batch_offset(b, dims, batch), b.strides[dims], b.strides[dims + 1]};
    (form == Int8Form::Tiles ? multiply_narrow_tiles : multiply_narrow_panels)(call, m, n, k, FloatRows(a, batch), right, *epilogue.get());
  });
}

}  // namespace toroid
