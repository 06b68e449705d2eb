#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> creation_rows() { return {}; }

}  // namespace toroid
