#include "runtime/kernels/conv/interleave.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

// From this pixel on.
template <class Element>
void copy_pixels(const PixelRow& row, int64_t first, std::byte* to) {
  to += first * row.elements * static_cast<int64_t>(sizeof(Element));
  for (int64_t i = first; i < row.count; ++i) {
    for (int64_t e = 0; e < row.elements; ++e, to += sizeof(Element))
      std::memcpy(to, row.from + i * row.column + e * row.element, sizeof(Element));
  }
}

#ifdef __x86_64__
constexpr int kPlanes = 3, kVectorBytes = 16;

// Where the bytes of a vector's pixels come from: for each of three vectors and each plane.
struct Places {
  alignas(kVectorBytes) uint8_t of[kPlanes][kPlanes][kVectorBytes] = {};
};
constexpr Places places_of_colours(int element_bytes) {
  constexpr uint8_t kZero = 0x80;
  Places places;
  for (int v = 0; v < kPlanes; ++v) {
    for (int plane = 0; plane < kPlanes; ++plane) {
      for (int i = 0; i < kVectorBytes; ++i) {
        const int byte = v * kVectorBytes + i, element = byte / element_bytes;
        const int from = element / kPlanes * element_bytes + byte % element_bytes;
        places.of[v][plane][i] = element % kPlanes == plane ? static_cast<uint8_t>(from) : kZero;
      }
    }
  }
  return places;
}

// Of three planes with contiguous columns.
template <class Element>
TOROID_AVX2 void interleave_colours(const PixelRow& row, std::byte* to) {
  constexpr int64_t kBytes = sizeof(Element), kPixels = kVectorBytes / kBytes;
  static constexpr Places kPlaces = places_of_colours(kBytes);
  int64_t i = 0;
  for (; i + kPixels <= row.count; i += kPixels) {
    __m128i planes[kPlanes];
#pragma GCC unroll 3
    for (int c = 0; c < kPlanes; ++c)
      planes[c] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.from + c * row.element + i * kBytes));
#pragma GCC unroll 3
    for (int v = 0; v < kPlanes; ++v) {
      __m128i pixels = _mm_setzero_si128();
#pragma GCC unroll 3
      for (int c = 0; c < kPlanes; ++c) {
        const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(kPlaces.of[v][c]));
        pixels = _mm_or_si128(pixels, _mm_shuffle_epi8(planes[c], places));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kPlanes * kBytes + v * kVectorBytes), pixels);
    }
  }
  copy_pixels<Element>(row, i, to);
}
#endif

}  // namespace

void interleave(const PixelRow& row, int64_t element_bytes, std::byte* to) {
  if (row.element == element_bytes && row.column == row.elements * element_bytes) {
    std::memcpy(to, row.from, static_cast<size_t>(row.count * row.column));
    return;
  }
#ifdef __x86_64__
  if (row.elements == kPlanes && row.column == element_bytes && vector_set() >= VectorSet::Avx2)
    return element_bytes == 1 ? interleave_colours<uint8_t>(row, to) : interleave_colours<uint16_t>(row, to);
#endif
  element_bytes == 1 ? copy_pixels<uint8_t>(row, 0, to) : copy_pixels<uint16_t>(row, 0, to);
}

}  // namespace toroid
