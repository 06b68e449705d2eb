// Which gradients a backward operator is asked for: its argument `output_mask`, a list with a flag per gradient. What is
// not asked for is an undefined result.
#pragma once

#include <array>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

inline bool is_wanted(const Args& a, std::string_view mask_name, size_t i) {
  const Argument& mask = a.raw(mask_name);
  if (const auto* flags = std::get_if<std::vector<bool>>(&mask)) return i < flags->size() && (*flags)[i];
  return !a.integers(mask_name)[i].is_const(0);
}

// All N of them, as formulas take them.
template <size_t N>
std::array<bool, N> wanted(const Args& a) {
  std::array<bool, N> flags{};
  for (size_t i = 0; i < N; ++i) flags[i] = is_wanted(a, "output_mask", i);
  return flags;
}

inline bool is_wanted(const Args& a, size_t i) { return is_wanted(a, "output_mask", i); }

}  // namespace toroid
