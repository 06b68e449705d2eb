// The arguments of grid samplings, read by the operators and their gradients.
#pragma once

#include "formula/nn/grid_sampling.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// interpolation_mode, padding_mode and align_corners. Throws Error{InvalidModel} for modes that there are not.
formula::Sampling sampling_arguments(const Args& a);

}  // namespace toroid
