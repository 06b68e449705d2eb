// The kernels of toroid itself: all. A package has a list of its own, and this file is not linked.
#include "runtime/kernels/linked/linked_kernels.h"

namespace toroid {

const LinkedKernel* const toroid_linked_kernels[] = {
#define TOROID_KERNEL(identifier, name) &toroid_kernel_##identifier,
#include "runtime/kernels/linked/linked_kernels.def"
#undef TOROID_KERNEL
    nullptr};

}  // namespace toroid
