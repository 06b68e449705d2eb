// Element types, and PyTorch's rules for combining them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace toroid {

// The first twelve and U64 are computed with. Complex numbers and 8-bit floats are held as what is
// (passes/decompose/engine/storage_types.h); the rest are recognised, carried and refused with their name.
enum class DType : uint8_t {
  Bool,
  U8,
  I8,
  I16,
  I32,
  I64,
  F16,
  BF16,
  F32,
  F64,
  U16,
  U32,
  F8E4M3FN,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  C32,
  C64,
  C128,
  U64,
};

std::string_view to_string(DType dtype);                  // "f32", "bf16", "i64", "bool", …
std::optional<DType> parse_dtype(std::string_view text);  // the inverse of to_string
int64_t size_bytes(DType dtype);                          // of one element
bool is_floating(DType dtype);                            // F16, BF16, F32, F64 and the 8-bit floats
bool is_integral(DType dtype);                            // integers, without Bool
bool is_signed(DType dtype);
bool is_complex(DType dtype);
bool is_reduced_float(DType dtype);  // F16 and BF16: computed in F32 inside kernels
bool is_computed(DType dtype);       // what operations give

// The dtype of an operation between two tensors of equal rank class (torch.promote_types). Throws Error{Unsupported} for U64 and a signed
// integer, for which there is none.
DType promote(DType a, DType b);
// The dtype in which sums, means and special functions of `dtype` are computed: F32 for F16 and BF16, else itself.
DType compute_dtype(DType dtype);

}  // namespace toroid
