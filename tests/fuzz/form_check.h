// The two forms of a program's kernels (docs/scheduling.md), which give the same bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "tensor/host_tensor.h"

namespace toroid::fuzz {

// Runs the program on all inputs with each form pinned. What differs, if anything; a program in which no kernel has two forms is not
// compiled. `parse` makes it anew.
std::optional<std::string> difference_between_forms(CompileSession& session, const std::function<toroid::Program()>& parse, int threads,
                                                    const std::vector<std::vector<HostTensor>>& calls);

}  // namespace toroid::fuzz
