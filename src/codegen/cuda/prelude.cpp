#include "codegen/cuda/prelude.h"

namespace toroid::codegen::cuda {

// In the order in which each builds on those before it. Each file is one C++ string literal.
// clang-format off
const std::string_view kPrelude =
#include "codegen/cuda/prelude/types.inc"
#include "codegen/cuda/prelude/threads.inc"
#include "codegen/cuda/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;

const std::string_view kHostPrelude =
#include "codegen/cuda/prelude/host.inc"
#include "codegen/cpp/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;

const std::string_view kEmulation =
#include "codegen/cuda/prelude/emulation.inc"
;
// clang-format on

}  // namespace toroid::codegen::cuda
