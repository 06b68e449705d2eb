// Rows of decompositions, found by any spelling of their operators: registry.cpp has the rules.
#pragma once

#include <unordered_map>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

class DecompositionTable {
 public:
  // Of two rows with one name the first counts.
  explicit DecompositionTable(const std::vector<std::span<const DecompositionRow>>& families);

  // The function that serves the operator (any of its in-place, out or _copy spellings); null if there is none.
  Decomposition find(const Schema& schema) const;

 private:
  Decomposition find_row(std::string_view op) const;

  std::unordered_map<std::string_view, Decomposition> rows_;
};

}  // namespace toroid
