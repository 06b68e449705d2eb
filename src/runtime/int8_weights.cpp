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
#include "runtime/narrow_product.h"
#include "runtime/operands.h"
#include "runtime/stored_sums.h"
#include "runtime/tile_product.h"
#include "runtime/vector_sets.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kNarrowBytes = kTileBytes / 2;  // of a tile's elements as int8

thread_local Scratch scratch_for_rows, scratch_for_panel;

struct Int8Matrix {
  const int8_t* data;
  int64_t row, column;
  int8_t at(int64_t i, int64_t j) const { return data[i * row + j * column]; }
};

// ---- in tiles


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

#else
void widen_tiles(const std::byte*, int64_t, std::byte*) { TOROID_CHECK(false, "this machine has no tiles"); }
#endif

// Tiles of int8 as a product needs them.
struct Int8Tiles {
  int64_t steps;
  const std::byte* data;
  static constexpr int64_t kStepLines = kNarrowBytes / kTileRowBytes;

  const std::byte* at(int64_t tile, int64_t step) const { return data + (tile * steps + step) * kNarrowBytes; }
  void widen(int64_t tile, Range some, std::byte* to) const { widen_tiles(at(tile, some.first), some.size(), to); }
};

void multiply_narrow_tiles(const KernelCall& call, int64_t m, int64_t n, int64_t k, const FloatRows& a, const Int8Matrix& b, const ToroidEpilogue& epilogue) {
  const int64_t steps = steps_of(k), parts = a.parts();
  const int64_t form[] = {'8', 't', k, n, b.row, b.column};
  const float* packed = call.made_of(call.inputs[1], b.data, form, tiles_of(n) * steps * kNarrowBytes / kWordBytes, [&](float* to) {
    call.pool.parallel_for(tiles_of(n), 1, [&](int64_t begin, int64_t end) { pack_narrow_tiles(b, k, n, begin, end, reinterpret_cast<std::byte*>(to)); });
  });
  const NarrowProduct product = {Int8Tiles{steps, reinterpret_cast<const std::byte*>(packed)}, steps, parts};
  auto pack = [&](int64_t first_row, int64_t rows, std::byte* out) { pack_rows_in_parts(a, first_row, rows, k, out); };
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
