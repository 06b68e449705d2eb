#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> view_rows() { return {}; }

}  // namespace toroid
