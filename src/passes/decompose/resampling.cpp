#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> resampling_rows() { return {}; }

}  // namespace toroid
