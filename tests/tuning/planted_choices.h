// A family of kernels of which most do what no kernel should: each kind of fault that tuning must survive, once.
//
// copy.f32(f32[m, n]) -> f32[m, n]; epilogue is for what an epilogue makes of a kernel: some are slow with it, some without, some cannot
// have one.
//
// double.f32(f32[n]) -> f32[n] is the input times two. The integers, if there are any, close gates: a choice may compete when its
// place in the table is among them, or when there are none.
#pragma once

#include "runtime/kernels/registry/registry.h"

namespace toroid::tune {

const ChoiceRegistry& planted_choices();

// The place of a choice in the table, for problems' integers.
int64_t place_of(std::string_view choice);

// Names the file in which "leaves-a-child" leaves the child's process id.
inline constexpr const char* kPidFileVariable = "TOROID_TEST_PID_FILE";

}  // namespace toroid::tune
