// AMX's instructions in plain code, for tests of what is made of them on machines without AMX (base/machine/machine.h, "+emulated-amx"):
// some two hundred times slower. A loop over tiles is compiled twice, the second time behind emulated_amx.inc, which gives the intrinsics'
// names to these functions.
//
// Registers are a thread's own: 8 tiles of 16 rows of 64 bytes, the only configuration that the kernels use. Source: Intel's Software
// Developer's Manual, volume 2, of TDPBF16PS, TDPBSSD and TDPBUSD; products of bfloat16 are exact within float32's range. Beyond
// it a product is infinite before it is added, but where the processor fuses the two, as the instruction does.
#pragma once

#include <cstdint>

namespace toroid::emulated_tiles {

void set_up();  // zeros
void release();
// These stop where there was no set_up.
void zero(int tile);
void load(int tile, const void* from, int64_t row_bytes);
void store(int tile, void* to, int64_t row_bytes);
void add_product_of_bfloat16(int sums, int left, int right);
void add_product_of_int8(int sums, int left, int right);
void add_product_of_uint8_by_int8(int sums, int left, int right);

}  // namespace toroid::emulated_tiles
