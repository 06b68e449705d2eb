// Comparisons of structs field by field, C++20's `= default`, for source packages are C++17:
//
//   struct Side {
//     bool is_transposed;
//     int64_t leading, strides[2];
//     TOROID_COMPARED_FIELDS(Side, is_transposed, leading, strides)
//   };
//
// All fields are named, in their order: with one more or less it does not compile.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

namespace toroid {

template <class T>
constexpr bool is_equal_field(const T& a, const T& b) {
  return a == b;
}
template <class T, size_t kSize>
constexpr bool is_equal_field(const T (&a)[kSize], const T (&b)[kSize]) {
  for (size_t i = 0; i < kSize; ++i) {
    if (!is_equal_field(a[i], b[i])) return false;
  }
  return true;
}
template <class Fields, size_t... I>
constexpr bool are_equal_fields(const Fields& a, const Fields& b, std::index_sequence<I...>) {
  return (is_equal_field(std::get<I>(a), std::get<I>(b)) && ...);
}
template <class... T>
constexpr bool are_equal_fields(const std::tuple<T...>& a, const std::tuple<T...>& b) {
  return are_equal_fields(a, b, std::index_sequence_for<T...>());
}

}  // namespace toroid

#define TOROID_COMPARED_FIELDS(Type, ...)                                                                             \
  static auto fields_of(const Type& its) {                                                                            \
    const auto& [__VA_ARGS__] = its;                                                                                  \
    return std::tie(__VA_ARGS__);                                                                                     \
  }                                                                                                                   \
  bool operator==(const Type& other) const { return ::toroid::are_equal_fields(fields_of(*this), fields_of(other)); } \
  bool operator!=(const Type& other) const { return !(*this == other); }
// And an order, where no field is an array.
#define TOROID_ORDERED_FIELDS(Type, ...)    \
  TOROID_COMPARED_FIELDS(Type, __VA_ARGS__) \
  bool operator<(const Type& other) const { return fields_of(*this) < fields_of(other); }
