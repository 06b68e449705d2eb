// The arguments of upsamplings, read by the operators and their gradients.
#pragma once

#include <optional>
#include <vector>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// The factors that a caller gave for `spatial` dims in the arguments scales, or scales_d, scales_h and scales_w.
std::vector<std::optional<double>> scale_arguments(const Args& a, size_t spatial);

}  // namespace toroid
