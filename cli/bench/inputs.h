// Inputs for calls whose results nobody looks at.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid::cli {

// Normal numbers for floats, zeros for integers (which may be indices), at the sizes' hints.
std::vector<HostTensor> random_inputs(const Program& program);
// Copies in memory of this process, aligned as a program's own tensors are. Those of a mapped file may begin anywhere: then every vector
// that is loaded lies in two lines of the cache, and pages come when they are first read.
std::vector<HostTensor> in_own_memory(const std::vector<HostTensor>& inputs);

}  // namespace toroid::cli
