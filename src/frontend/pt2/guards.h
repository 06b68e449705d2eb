// The conditions on input sizes that PyTorch's tracing relied on, as the export writes them:
//
//   "L['x'].size()[0] == 2*L['y'].size()[1]"   =>   Eq(s0, 2*s1), with the sizes that the program gives x and y
#pragma once

#include <functional>
#include <string_view>

#include "frontend/pt2/types.h"
#include "graph/graph.h"

namespace toroid::pt2 {

// Appends the guard, unless it holds for every call. `input_type` finds the metadata of a user input by name, or null.
// A guard that cannot be read throws Error{Unsupported}: a program must not run with an unchecked guard.
void read_guard(std::string_view code, Program& program, const std::function<const TensorType*(const std::string& input)>& input_type);

// The ranges to which guards narrow sizes, where they say more than the sizes' own: s0//4 == 1 says that s0 is 4 to 7. A program whose
// sizes have them from the start knows more of what it is made of, such as that s0//4 is 1, which broadcasts.
SymbolRanges ranges_of_guards(const Program& program);

}  // namespace toroid::pt2
