#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> linalg_rows() { return {}; }

}  // namespace toroid
