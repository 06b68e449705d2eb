#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> backward_rows() { return {}; }

}  // namespace toroid
