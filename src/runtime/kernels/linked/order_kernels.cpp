// Selection as kernels of programs.
#include "runtime/kernels/linked/library_calls.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/select/selection.h"

namespace toroid {

TOROID_LINKED_KERNEL(order_topk, "library.order.topk", nullptr, plan_on_contiguous<selection::topk>);
TOROID_LINKED_KERNEL(order_kth, "library.order.kth", nullptr, plan_on_contiguous<selection::kth>);
TOROID_LINKED_KERNEL(order_median, "library.order.median", nullptr, plan_on_contiguous<selection::median>);
TOROID_LINKED_KERNEL(order_mode, "library.order.mode", nullptr, plan_on_contiguous<selection::mode>);
TOROID_LINKED_KERNEL(order_search, "library.order.search", nullptr, plan_on_contiguous<selection::search>);
TOROID_LINKED_KERNEL(order_positions, "library.order.positions", nullptr, plan_on_contiguous<selection::positions>);

}  // namespace toroid
