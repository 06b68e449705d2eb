// Which products of 32-bit integers have factors of 16 bits at most, so that one instruction of every x86-64 multiplies vectors of them,
// where one for 32 bits takes two or more.
//
//   i32(x: u8) * i32(i16(w: i32))         op_mul_low_v(i32(x), w), whose lanes are the products of the lower halves
#pragma once

#include <optional>

#include "loop/loop.h"

namespace toroid::codegen {

// `a` is 0 in its upper half and not negative in its lower one; of `b` the lower half counts, with its sign.
struct NarrowProduct {
  loop::ExprId a, b;
};
std::optional<NarrowProduct> narrow_product(const loop::ExprTable& exprs, const loop::Compute& op);

// A sum with one, which AVX512_VNNI adds in the same instruction: op_add_mul_low_v.
struct NarrowSum {
  loop::ExprId addend;
  loop::Compute product;
};
std::optional<NarrowSum> narrow_sum(const loop::ExprTable& exprs, const loop::Compute& op);

}  // namespace toroid::codegen
