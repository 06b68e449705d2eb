#include "graph/text/constant_text.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/float16.h"

namespace toroid {
namespace {

// Calls f with a value of the dtype's C++ type; false if the dtype has none.
template <class F>
bool with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::Bool: return f(bool{}), true;
    case DType::U8: return f(uint8_t{}), true;
    case DType::I8: return f(int8_t{}), true;
    case DType::I16: return f(int16_t{}), true;
    case DType::I32: return f(int32_t{}), true;
    case DType::I64: return f(int64_t{}), true;
    case DType::U16: return f(uint16_t{}), true;
    case DType::U32: return f(uint32_t{}), true;
    case DType::U64: return f(uint64_t{}), true;
    case DType::F16: return f(Float16{}), true;
    case DType::BF16: return f(BFloat16{}), true;
    case DType::F32: return f(float{}), true;
    case DType::F64: return f(double{}), true;
    default: return false;
  }
}

template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  } else {
    return element_text(static_cast<float>(value));
  }
}

template <class T>
bool read_element(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  } else if constexpr (std::is_floating_point_v<T>) {
    // Also reads "inf" and "nan", with their signs.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    float wide = 0;
    if (!read_element(text, wide)) return false;
    value = T(wide);
    return true;
  }
}

}  // namespace

bool has_element_text(DType dtype) {
  return with_type(dtype, [](auto) {});
}

std::string elements_to_text(const ConstantData& data) {
  std::string text;
  if (!has_element_text(data.type.dtype)) {
    text = "hex ";
    for (std::byte byte : data.bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return text;
  }
  text = "[";
  with_type(data.type.dtype, [&](auto value) {
    for (size_t at = 0; at + sizeof(value) <= data.bytes.size(); at += sizeof(value)) {
      std::memcpy(&value, data.bytes.data() + at, sizeof(value));
      text += (at > 0 ? ", " : "") + element_text(value);
    }
  });
  return text + "]";
}

std::optional<std::vector<std::byte>> parse_element(std::string_view text, DType dtype) {
  std::vector<std::byte> bytes;
  bool good = false;
  with_type(dtype, [&](auto value) {
    good = read_element(text, value);
    bytes.resize(sizeof(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
  });
  if (!good) return std::nullopt;
  return bytes;
}

}  // namespace toroid
