#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> recurrent_rows() { return {}; }

}  // namespace toroid
