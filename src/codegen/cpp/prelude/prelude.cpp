#include "codegen/cpp/prelude/prelude.h"

namespace toroid::codegen {

// In the order in which each builds on those before it. Each file is one C++ string literal.
// clang-format off
const std::string_view kPrelude =
#include "codegen/cpp/prelude/lanes.inc"
#include "codegen/cpp/prelude/memory.inc"
#include "codegen/cpp/prelude/loops.inc"
#include "codegen/cpp/prelude/contraction.inc"
#include "codegen/cpp/prelude/scalar_operators.inc"
#include "codegen/cpp/prelude/vector_operators.inc"
#include "codegen/cpp/prelude/folds.inc"
;
// clang-format on

}  // namespace toroid::codegen
