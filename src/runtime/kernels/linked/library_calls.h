// Kernels that have the names "library.NAME" and work on contiguous arrays (library/library_ops.h), as plans.
#pragma once

#include <memory>

#include "library/library_ops.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

// Runs one on a call with operands of any strides.
void run_on_contiguous(LibraryKernel kernel, const KernelCall& call);

template <LibraryKernel kKernel>
std::unique_ptr<const KernelPlan> plan_on_contiguous(const KernelCall&) {
  return plan_that_runs([](const KernelCall& each) { run_on_contiguous(kKernel, each); });
}

}  // namespace toroid
