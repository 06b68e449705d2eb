#include "tensor/dtype.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace toroid {
namespace {

enum class Class : uint8_t { Bool, Unsigned, Signed, Float, Complex };
struct Row {
  std::string_view name;
  int64_t bytes;
  Class kind;
};
constexpr Row kRows[] = {
    {"bool", 1, Class::Bool},      {"u8", 1, Class::Unsigned},  {"i8", 1, Class::Signed},        {"i16", 2, Class::Signed},
    {"i32", 4, Class::Signed},     {"i64", 8, Class::Signed},   {"f16", 2, Class::Float},        {"bf16", 2, Class::Float},
    {"f32", 4, Class::Float},      {"f64", 8, Class::Float},    {"u16", 2, Class::Unsigned},     {"u32", 4, Class::Unsigned},
    {"f8e4m3fn", 1, Class::Float}, {"f8e5m2", 1, Class::Float}, {"f8e4m3fnuz", 1, Class::Float}, {"f8e5m2fnuz", 1, Class::Float},
    {"c32", 4, Class::Complex},    {"c64", 8, Class::Complex},  {"c128", 16, Class::Complex},    {"u64", 8, Class::Unsigned},
};
const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view to_string(DType dtype) { return row(dtype).name; }
std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}
int64_t size_bytes(DType dtype) { return row(dtype).bytes; }
bool is_floating(DType dtype) { return row(dtype).kind == Class::Float; }
bool is_integral(DType dtype) { return row(dtype).kind == Class::Unsigned || row(dtype).kind == Class::Signed; }
bool is_signed(DType dtype) { return row(dtype).kind == Class::Signed || is_floating(dtype); }
bool is_complex(DType dtype) { return row(dtype).kind == Class::Complex; }
bool is_reduced_float(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }
bool is_computed(DType dtype) { return dtype < DType::F8E4M3FN || dtype == DType::U64; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (row(a).kind > row(b).kind) std::swap(a, b);  // now class(a) <= class(b)
  const Class low = row(a).kind;
  const Class high = row(b).kind;
  if (high == Class::Complex) {
    const bool wide = a == DType::F64 || a == DType::C128 || b == DType::C128;
    return wide ? DType::C128 : (b == DType::C32 && (low != Class::Float || a == DType::F16)) ? DType::C32 : DType::C64;
  }
  if (low != high) {
    // A wider class wins; an unsigned integer next to a signed one of the same width needs the next wider signed one.
    if (low == Class::Unsigned && high == Class::Signed && size_bytes(b) <= size_bytes(a)) {
      if (size_bytes(a) == 8) {
        throw Error(ErrorKind::Unsupported, formatted("{} and {} have no common dtype", to_string(a), to_string(b)))
            .help("convert one of the tensors in the model");
      }
      return size_bytes(a) == 1 ? DType::I16 : size_bytes(a) == 2 ? DType::I32 : DType::I64;
    }
    return b;
  }
  if (high == Class::Float) {
    if (size_bytes(a) == size_bytes(b)) return DType::F32;  // f16 with bf16
    return size_bytes(a) > size_bytes(b) ? a : b;
  }
  return size_bytes(a) > size_bytes(b) ? a : b;
}

DType compute_dtype(DType dtype) { return is_reduced_float(dtype) ? DType::F32 : dtype; }

}  // namespace toroid
