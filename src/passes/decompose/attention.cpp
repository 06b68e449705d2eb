#include "passes/decompose/decompose.h"

namespace toroid {

std::span<const DecompositionRow> attention_rows() { return {}; }

}  // namespace toroid
