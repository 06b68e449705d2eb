// The passes from import level to what is lowered, in their order: one list, which compiling, `toroid explain` and `toroid opt` share.
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace toroid {

struct Pass {
  std::string_view name;  // "dead-code": of `toroid opt --passes`
  std::string_view summary;
  bool optimises;  // only makes programs quicker, and may be left out
  void (*run)(Program& program);
};
std::span<const Pass> passes();

// Runs all of them, or, without `optimise`, those that must be run.
void run_passes(Program& program, bool optimise = true);

}  // namespace toroid
