#include "runtime/kernels/isa/emulated_amx.h"

#include <cstring>

#include "base/error.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid::emulated_tiles {
namespace {

constexpr int kRegisters = 8;

template <class Element>
using Tile = Element[kTileSide][kTileRowBytes / sizeof(Element)];

struct Registers {
  bool are_set_up = false;
  alignas(64) std::byte bytes[kRegisters][kTileBytes];
};
PerThread<Registers> of_threads;

std::byte* bytes_of(int tile) {
  Registers& registers = of_threads.get();
  TOROID_CHECK(registers.are_set_up, "tiles are used without TileRegisters");
  return registers.bytes[tile];
}

template <class Element>
void read(int tile, Tile<Element>& to) {
  std::memcpy(to, bytes_of(tile), sizeof to);
}

// Subnormal numbers count as 0 before an operation and after it; the caller's mode is not looked at.
TOROID_INLINE void flush(Vector16& x) {
  const auto bits = reinterpret_cast<Integers16&>(x);
  const Integers16 result = (bits & 0x7F800000u) == 0 ? bits & 0x80000000u : bits;
  std::memcpy(&x, &result, sizeof x);
}
// Of a row's 32 elements the even and the odd ones.
TOROID_INLINE void widen(const uint16_t* row, Vector16& even, Vector16& odd) {
  Integers16 pairs;
  std::memcpy(&pairs, row, sizeof pairs);
  const Integers16 lower = pairs << 16, upper = pairs & 0xFFFF0000u;
  std::memcpy(&even, &lower, sizeof even);
  std::memcpy(&odd, &upper, sizeof odd);
  flush(even);
  flush(odd);
}

// Of each row the even and the odd elements are summed apart, both sums are added, and their sum to what is there.
TOROID_INLINE void multiply_bfloat16(Tile<float>& c, const Tile<uint16_t>& a, const Tile<uint16_t>& b) {
  Vector16 even[kTileSide], odd[kTileSide];  // of the right side
  for (int64_t k = 0; k < kTileSide; ++k) widen(b[k], even[k], odd[k]);
  // Several rows at a time: a row's sums wait for one another.
  constexpr int64_t kRows = 4;
  for (int64_t i = 0; i < kTileSide; i += kRows) {
    Vector16 of_even[kRows] = {}, of_odd[kRows] = {}, x[kRows], y[kRows];
    for (int64_t r = 0; r < kRows; ++r) widen(a[i + r], x[r], y[r]);
    for (int64_t k = 0; k < kTileSide; ++k) {
      for (int64_t r = 0; r < kRows; ++r) {
        of_even[r] += x[r][k] * even[k];
        flush(of_even[r]);
        of_odd[r] += y[r][k] * odd[k];
        flush(of_odd[r]);
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      of_even[r] += of_odd[r];
      flush(of_even[r]);
      Vector16 sum;
      std::memcpy(&sum, c[i + r], sizeof sum);
      flush(sum);
      sum += of_even[r];
      flush(sum);
      std::memcpy(c[i + r], &sum, sizeof sum);
    }
  }
}

// sums[i][j] += left[i][4 k + e] * right[k][4 j + e] over k and e; wraps.
template <class Left>
TOROID_INLINE void multiply_bytes(Tile<int32_t>& c, const Tile<Left>& a, const Tile<int8_t>& b) {
  typedef int32_t Signed16 __attribute__((vector_size(64)));
  for (int64_t k = 0; k < kTileSide; ++k) {
    Signed16 words;
    std::memcpy(&words, b[k], sizeof words);
    const Integers16 right[4] = {Integers16((words << 24) >> 24), Integers16((words << 16) >> 24), Integers16((words << 8) >> 24),
                                 Integers16(words >> 24)};
    for (int64_t i = 0; i < kTileSide; ++i) {
      Integers16 sum;
      std::memcpy(&sum, c[i], sizeof sum);
      for (int64_t e = 0; e < 4; ++e) sum += static_cast<uint32_t>(a[i][4 * k + e]) * right[e];
      std::memcpy(c[i], &sum, sizeof sum);
    }
  }
}

// For the vectors that the processor has, whatever it is taken for: tests spend much of their time here.
struct Loops {
  void (*bfloat16)(Tile<float>&, const Tile<uint16_t>&, const Tile<uint16_t>&);
  void (*int8)(Tile<int32_t>&, const Tile<int8_t>&, const Tile<int8_t>&);
  void (*uint8_by_int8)(Tile<int32_t>&, const Tile<uint8_t>&, const Tile<int8_t>&);
};
#define TOROID_LOOPS(TARGET)                                                                                              \
  Loops {                                                                                                                 \
    [](Tile<float>& c, const Tile<uint16_t>& a, const Tile<uint16_t>& b) TARGET { multiply_bfloat16(c, a, b); },          \
        [](Tile<int32_t>& c, const Tile<int8_t>& a, const Tile<int8_t>& b) TARGET { multiply_bytes<int8_t>(c, a, b); },   \
        [](Tile<int32_t>& c, const Tile<uint8_t>& a, const Tile<int8_t>& b) TARGET { multiply_bytes<uint8_t>(c, a, b); }, \
  }
const Loops& loops() {
#ifdef __x86_64__
  static const Loops best = reported_isa().level == IsaLevel::Avx512 ? TOROID_LOOPS(TOROID_AVX512)
                            : reported_isa().level == IsaLevel::Avx2 ? TOROID_LOOPS(TOROID_AVX2)
                                                                     : TOROID_LOOPS();
#else
  static const Loops best = TOROID_LOOPS();
#endif
  return best;
}

template <class Sum, class Left, class Right>
void add_product(void (*multiply)(Tile<Sum>&, const Tile<Left>&, const Tile<Right>&), int sums, int left, int right) {
  Tile<Sum> c;
  Tile<Left> a;
  Tile<Right> b;
  read(sums, c);
  read(left, a);
  read(right, b);
  multiply(c, a, b);
  std::memcpy(bytes_of(sums), c, sizeof c);
}

}  // namespace

void set_up() {
  Registers& registers = of_threads.get();
  registers.are_set_up = true;
  std::memset(registers.bytes, 0, sizeof registers.bytes);
}
void release() { of_threads.get().are_set_up = false; }

void zero(int tile) { std::memset(bytes_of(tile), 0, kTileBytes); }

void load(int tile, const void* from, int64_t row_bytes) {
  std::byte* const to = bytes_of(tile);
  for (int64_t i = 0; i < kTileSide; ++i)
    std::memcpy(to + i * kTileRowBytes, static_cast<const std::byte*>(from) + i * row_bytes, kTileRowBytes);
}

void store(int tile, void* to, int64_t row_bytes) {
  const std::byte* const from = bytes_of(tile);
  for (int64_t i = 0; i < kTileSide; ++i) std::memcpy(static_cast<std::byte*>(to) + i * row_bytes, from + i * kTileRowBytes, kTileRowBytes);
}

void add_product_of_bfloat16(int sums, int left, int right) { add_product(loops().bfloat16, sums, left, right); }
void add_product_of_int8(int sums, int left, int right) { add_product(loops().int8, sums, left, right); }
void add_product_of_uint8_by_int8(int sums, int left, int right) { add_product(loops().uint8_by_int8, sums, left, right); }

}  // namespace toroid::emulated_tiles
