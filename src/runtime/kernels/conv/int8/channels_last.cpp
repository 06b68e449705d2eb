#include "runtime/kernels/conv/int8/channels_last.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_copies;

// A row of an image, its strides in bytes.
struct PixelRow {
  const uint8_t* from;
  int64_t column, channel, columns, channels;
};

// From this column on.
void copy_pixels(const PixelRow& row, int64_t first, uint8_t* to) {
  for (int64_t i = first; i < row.columns; ++i) {
    for (int64_t c = 0; c < row.channels; ++c) to[i * row.channels + c] = row.from[i * row.column + c * row.channel];
  }
}

#ifdef __x86_64__
constexpr int kPlanes = 3, kPixels = 16;

// Where the bytes of 16 pixels come from: for each of three vectors and each plane.
struct Places {
  alignas(16) uint8_t of[kPlanes][kPlanes][kPixels] = {};
};
constexpr Places places_of_colours() {
  constexpr uint8_t kZero = 0x80;
  Places places;
  for (int v = 0; v < kPlanes; ++v) {
    for (int plane = 0; plane < kPlanes; ++plane) {
      for (int i = 0; i < kPixels; ++i) {
        const int byte = v * kPixels + i;
        places.of[v][plane][i] = byte % kPlanes == plane ? static_cast<uint8_t>(byte / kPlanes) : kZero;
      }
    }
  }
  return places;
}

// Of three planes with contiguous columns.
TOROID_AVX2 void copy_colours(const PixelRow& row, uint8_t* to) {
  static constexpr Places kPlaces = places_of_colours();
  int64_t i = 0;
  for (; i + kPixels <= row.columns; i += kPixels) {
    __m128i planes[kPlanes];
    for (int c = 0; c < kPlanes; ++c) planes[c] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.from + c * row.channel + i));
    for (int v = 0; v < kPlanes; ++v) {
      __m128i pixels = _mm_setzero_si128();
      for (int c = 0; c < kPlanes; ++c) {
        const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(kPlaces.of[v][c]));
        pixels = _mm_or_si128(pixels, _mm_shuffle_epi8(planes[c], places));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kPlanes + v * kPixels), pixels);
    }
  }
  copy_pixels(row, i, to);
}
#endif

void copy_row(const PixelRow& row, uint8_t* to) {
#ifdef __x86_64__
  if (row.channels == kPlanes && row.column == 1 && vector_set() >= VectorSet::Avx2) return copy_colours(row, to);
#endif
  copy_pixels(row, 0, to);
}

}  // namespace

ChannelsLast::ChannelsLast(const ToroidOperand& image) : is_needed_(image.strides[1] != 1) {
  int64_t stride = image.sizes[1];
  for (int32_t d = image.rank; d-- > 2; stride *= image.sizes[d]) strides_[d] = stride;
  strides_[0] = stride;
  strides_[1] = 1;
}

ToroidOperand ChannelsLast::operand(const ToroidOperand& image) const {
  ToroidOperand copy = image;
  copy.data = nullptr;
  copy.strides = strides_;
  return copy;
}

const uint8_t* ChannelsLast::copy(RuntimePool& pool, const ToroidOperand& image) const {
  const bool has_rows = image.rank == 4;
  const int64_t height = has_rows ? image.sizes[2] : 1, rows = image.sizes[0] * height, row_bytes = strides_[has_rows ? 2 : 0];
  auto* const to = scratch_for_copies.get<uint8_t>(rows * row_bytes);
  pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i / height * image.strides[0] + (has_rows ? i % height * image.strides[2] : 0);
      copy_row({static_cast<const uint8_t*>(image.data) + offset, image.strides[image.rank - 1], image.strides[1],
                image.sizes[image.rank - 1], image.sizes[1]},
               to + i * row_bytes);
    }
  });
  return to;
}

}  // namespace toroid
