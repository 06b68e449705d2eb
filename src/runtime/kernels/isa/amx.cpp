// Four tiles of sums leave each load to two multiplications, and hide an instruction's latency of about 52 cycles behind the 16 of each of
// the others. Tiles that are only partly there are padded with zeros: where few rows meet a matrix, memory is slower than they are.
#include "runtime/kernels/isa/amx.h"

#include "base/language.h"

#ifdef TOROID_KNOWS_AMX
#include <immintrin.h>
#endif

#include "base/error.h"
#include "base/machine/machine.h"
#include "runtime/kernels/isa/emulated_amx.h"

namespace toroid {
namespace {

#ifdef TOROID_KNOWS_AMX
#define TOROID_TARGET __attribute__((target("amx-tile,amx-bf16,amx-int8")))
namespace native {

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

TOROID_TARGET void set_up() {
  static constexpr TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}
TOROID_TARGET void release() { _tile_release(); }

#include "runtime/kernels/isa/amx_loop.inc"

}  // namespace native
#undef TOROID_TARGET
#endif

#include "runtime/kernels/isa/emulated_amx.inc"
#define TOROID_TARGET
namespace emulated {
using emulated_tiles::release;
using emulated_tiles::set_up;
#include "runtime/kernels/isa/amx_loop.inc"
}  // namespace emulated

#ifndef TOROID_KNOWS_AMX
namespace native = emulated;  // never chosen
#endif

}  // namespace

bool has_amx() { return machine().has_amx(); }

TileRegisters::TileRegisters() {
  TOROID_CHECK(has_amx(), "this machine has no registers for tiles");
  machine().isa.amx ? native::set_up() : emulated::set_up();
}
TileRegisters::~TileRegisters() { machine().isa.amx ? native::release() : emulated::release(); }

void multiply_tiles(AmxType numbers, const TileStrip& strip) {
  machine().isa.amx ? native::multiply(numbers, strip) : emulated::multiply(numbers, strip);
}

}  // namespace toroid
