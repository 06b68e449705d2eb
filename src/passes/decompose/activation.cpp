#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> activation_rows() { return {}; }

}  // namespace toroid
