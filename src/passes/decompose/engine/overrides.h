// Another formula in the place of an operator's own: for tests, and to try one.
//
//   const OverriddenDecomposition twice("aten::relu", [](Decomposer&, const Args& a) -> std::vector<Tensor> { return {a.tensor("self") * 2.0}; });
#pragma once

#include <string>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// While alive, `function` serves every spelling that a row called `op` would serve (of several the latest made), in all threads.
// Compilations meanwhile neither read nor write the cache of graphs.
class OverriddenDecomposition {
 public:
  OverriddenDecomposition(std::string op, Decomposition function);
  OverriddenDecomposition(const OverriddenDecomposition&) = delete;
  OverriddenDecomposition& operator=(const OverriddenDecomposition&) = delete;
  ~OverriddenDecomposition();

 private:
  std::string op_;
  DecompositionRow row_;
};
bool has_overridden_decompositions();

}  // namespace toroid
