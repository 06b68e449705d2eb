#include "runtime/kernels/isa/emulated_amx.h"

#include <cstring>

#include "base/error.h"
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
thread_local Registers registers;

std::byte* bytes_of(int tile) {
  TOROID_CHECK(registers.are_set_up, "tiles are used without TileRegisters");
  return registers.bytes[tile];
}

template <class Element>
void read(int tile, Tile<Element>& to) {
  std::memcpy(to, bytes_of(tile), sizeof to);
}

// Subnormal numbers count as 0 before an operation and after it; the caller's mode is not looked at. By vectors of a row, which any machine has in some way.
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

// sums[i][j] += left[i][4 k + e] * right[k][4 j + e] over k and e.
template <class Left>
void add_product_of_bytes(int sums, int left, int right) {
  Tile<int32_t> c;
  Tile<Left> a;
  Tile<int8_t> b;
  read(sums, c);
  read(left, a);
  read(right, b);
  for (int64_t i = 0; i < kTileSide; ++i) {
    for (int64_t k = 0; k < kTileSide; ++k) {
      for (int64_t j = 0; j < kTileSide; ++j) {
        int32_t sum = 0;
        for (int64_t e = 0; e < 4; ++e) sum += a[i][4 * k + e] * b[k][4 * j + e];
        c[i][j] = static_cast<int32_t>(static_cast<uint32_t>(c[i][j]) + static_cast<uint32_t>(sum));  // wraps
      }
    }
  }
  std::memcpy(bytes_of(sums), c, sizeof c);
}

}  // namespace

void set_up() {
  registers.are_set_up = true;
  std::memset(registers.bytes, 0, sizeof registers.bytes);
}
void release() { registers.are_set_up = false; }

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

// Of each row the even and the odd elements are summed apart, both sums are added, and their sum to what is there.
void add_product_of_bfloat16(int sums, int left, int right) {
  Tile<float> c;
  Tile<uint16_t> a, b;
  read(sums, c);
  read(left, a);
  read(right, b);
  Vector16 even[kTileSide], odd[kTileSide];  // of the right side
  for (int64_t k = 0; k < kTileSide; ++k) widen(b[k], even[k], odd[k]);
  for (int64_t i = 0; i < kTileSide; ++i) {
    Vector16 of_even = {}, of_odd = {}, x, y, sum;
    widen(a[i], x, y);
    for (int64_t k = 0; k < kTileSide; ++k) {
      of_even += x[k] * even[k];
      flush(of_even);
      of_odd += y[k] * odd[k];
      flush(of_odd);
    }
    of_even += of_odd;
    flush(of_even);
    std::memcpy(&sum, c[i], sizeof sum);
    flush(sum);
    sum += of_even;
    flush(sum);
    std::memcpy(c[i], &sum, sizeof sum);
  }
  std::memcpy(bytes_of(sums), c, sizeof c);
}

void add_product_of_int8(int sums, int left, int right) { add_product_of_bytes<int8_t>(sums, left, right); }
void add_product_of_uint8_by_int8(int sums, int left, int right) { add_product_of_bytes<uint8_t>(sums, left, right); }

}  // namespace toroid::emulated_tiles
