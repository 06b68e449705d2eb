#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> convolution_rows() { return {}; }

}  // namespace toroid
