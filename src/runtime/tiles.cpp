// Four tiles of sums leave each load to two multiplications, and hide an instruction's latency of about 52 cycles behind the 16 of each of
// the others. Tiles that are only partly there are padded with zeros: where few rows meet a matrix, memory is slower than they are.
#include "runtime/tiles.h"

#include <cstdlib>
#include <string_view>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "support/error.h"

namespace toroid {

#if defined(__x86_64__) && defined(__linux__)
namespace {

#define TOROID_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))

struct TileSet {
  bool bf16 = false, int8 = false;
};

TileSet find_tiles() {
  const char* const wanted = std::getenv("TOROID_TILES");
  if (wanted != nullptr && std::string_view(wanted) == "0") return {};
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & 1u << 24) == 0) return {};
  // The registers' 8 KiB are part of a thread's state, which Linux wants to be asked for; also where a hypervisor hides them, or threads
  // have signal stacks too small for them, it says no.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return {};
  return {(edx & 1u << 22) != 0, (edx & 1u << 25) != 0};
}

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

TOROID_AMX void set_up() {
  static constexpr TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}
TOROID_AMX void release() { _tile_release(); }

// The four tiles of sums, in registers 0 to 3.
template <bool kTwoRows, bool kTwoColumns>
struct Sums {
  const TileStrip& strip;
  int64_t row_bytes = strip.row * kWordBytes;
  float* upper = strip.sums;
  float* lower = strip.sums + kTileSide * strip.row;

  TOROID_AMX inline __attribute__((always_inline)) void begin() const {
    if (strip.add) {
      _tile_loadd(0, upper, row_bytes);
      if constexpr (kTwoColumns) _tile_loadd(1, upper + kTileSide, row_bytes);
      if constexpr (kTwoRows) _tile_loadd(2, lower, row_bytes);
      if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, lower + kTileSide, row_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  TOROID_AMX inline __attribute__((always_inline)) void end() const {
    _tile_stored(0, upper, row_bytes);
    if constexpr (kTwoColumns) _tile_stored(1, upper + kTileSide, row_bytes);
    if constexpr (kTwoRows) _tile_stored(2, lower, row_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, lower + kTileSide, row_bytes);
  }
};

template <TileNumbers kNumbers, bool kTwoRows, bool kTwoColumns>
TOROID_AMX void multiply(const TileStrip& strip) {
  const Sums<kTwoRows, kTwoColumns> sums{strip};
  sums.begin();
#define TOROID_ADD_PRODUCT(SUMS, LEFT, RIGHT)            \
  if constexpr (kNumbers == TileNumbers::BFloat16) {     \
    _tile_dpbf16ps(SUMS, LEFT, RIGHT);                   \
  } else if constexpr (kNumbers == TileNumbers::Uint8) { \
    _tile_dpbusd(SUMS, LEFT, RIGHT);                     \
  } else {                                               \
    _tile_dpbssd(SUMS, LEFT, RIGHT);                     \
  }
  const std::byte *first = strip.ahead[0], *second = strip.ahead[1];
  int64_t offset = 0;
  for (int64_t step = 0; step < strip.steps; ++step) {
    const int64_t left = strip.offsets != nullptr ? strip.offsets[step] : offset;
    for (int64_t line = 0; line < strip.lines; ++line, first += kTileRowBytes, second += kTileRowBytes) {
      __builtin_prefetch(first, 0, 3);
      __builtin_prefetch(second, 0, 3);
    }
    _tile_loadd(6, strip.right[0] + offset, kTileRowBytes);
    _tile_loadd(4, strip.left[0] + left, kTileRowBytes);
    TOROID_ADD_PRODUCT(0, 4, 6)
    if constexpr (kTwoColumns) {
      _tile_loadd(7, strip.right[1] + offset, kTileRowBytes);
      TOROID_ADD_PRODUCT(1, 4, 7)
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, strip.left[1] + left, kTileRowBytes);
      TOROID_ADD_PRODUCT(2, 5, 6)
    }
    if constexpr (kTwoRows && kTwoColumns) {
      TOROID_ADD_PRODUCT(3, 5, 7)
    }
    offset += kTileBytes;
    if (offset == strip.right_bytes) offset = 0;
  }
#undef TOROID_ADD_PRODUCT
  sums.end();
}

template <TileNumbers kNumbers>
void multiply(const TileStrip& strip) {
  const bool two_rows = strip.left[1] != nullptr, two_columns = strip.right[1] != nullptr;
  if (two_rows) return two_columns ? multiply<kNumbers, true, true>(strip) : multiply<kNumbers, true, false>(strip);
  return two_columns ? multiply<kNumbers, false, true>(strip) : multiply<kNumbers, false, false>(strip);
}

}  // namespace

bool has_tiles(TileNumbers numbers) {
  static const TileSet set = find_tiles();
  return numbers == TileNumbers::BFloat16 ? set.bf16 : set.int8;
}

TileRegisters::TileRegisters() {
  TOROID_CHECK(has_tiles(TileNumbers::BFloat16) || has_tiles(TileNumbers::Int8), "this process may not use tiles");
  set_up();
}
TileRegisters::~TileRegisters() { release(); }

void multiply_tiles(TileNumbers numbers, const TileStrip& strip) {
  if (numbers == TileNumbers::BFloat16) return multiply<TileNumbers::BFloat16>(strip);
  numbers == TileNumbers::Int8 ? multiply<TileNumbers::Int8>(strip) : multiply<TileNumbers::Uint8>(strip);
}

#else
bool has_tiles(TileNumbers) { return false; }
TileRegisters::TileRegisters() { TOROID_CHECK(false, "this machine has no registers for tiles"); }
TileRegisters::~TileRegisters() = default;
void multiply_tiles(TileNumbers, const TileStrip&) { TOROID_CHECK(false, "this machine has no registers for tiles"); }
#endif

}  // namespace toroid
