// Which library kernels a process has: toroid all (linked_kernels.def), a package those that its program calls.
//
// Kernels are reached by this table alone, so that a linker leaves out the others: each is a symbol, toroid_kernel_IDENTIFIER, in the file of
// what it runs, and whoever links the runtime gives the list.
//
//   const LinkedKernel* const toroid_linked_kernels[] = {&toroid_kernel_matmul_f32, &toroid_kernel_sort, nullptr};
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/language.h"
#include "base/span.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/registry.h"
#include "tensor/dtype.h"

namespace toroid {

struct LinkedKernel {
  std::string_view name;       // as linked_name
  const KernelFamily* family;  // its implementations; null where there are none to choose from
  // Of calls that no implementation takes; null where one takes each.
  std::unique_ptr<const KernelPlan> (*plan)(const KernelCall& call);
};

extern "C" {
extern const LinkedKernel* const toroid_linked_kernels[];  // behind the last one null
#define TOROID_KERNEL(identifier, name) extern const LinkedKernel toroid_kernel_##identifier;
#include "runtime/kernels/linked/linked_kernels.def"
#undef TOROID_KERNEL
}

// Defines one, in the file of what it runs; the arguments are the members.
#define TOROID_LINKED_KERNEL(identifier, ...) TOROID_CONSTINIT const LinkedKernel toroid_kernel_##identifier = {__VA_ARGS__}

// The kernel of a call: "matmul.f32", "sort", "library.linalg.qr". The inputs' dtypes and the first output's.
std::string linked_name(std::string_view kernel, Span<const DType> inputs, DType output);

// Null where it is not linked.
const LinkedKernel* find_linked_kernel(std::string_view name);

}  // namespace toroid
