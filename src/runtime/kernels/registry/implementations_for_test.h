// For tests of kernels: each implementation of a family that takes a call.
#pragma once

#include <algorithm>
#include <string_view>

#include "runtime/kernels/registry/registry.h"

namespace toroid {

// Calls f(implementation) for each whose gate is open, but for those of other libraries.
template <class F>
void for_each_implementation(std::string_view family, const KernelCall& call, const F& f) {
  const Problem problem = problem_of(std::string(family), call);
  for (const Implementation& implementation : runtime_choices().family(family).implementations) {
    if (!implementation.needs_measuring && !implementation.gate(problem)) f(implementation);
  }
}

inline bool takes(std::string_view family, std::string_view implementation, const KernelCall& call) {
  bool result = false;
  for_each_implementation(family, call, [&](const Implementation& each) { result = result || each.name == implementation; });
  return result;
}

}  // namespace toroid
