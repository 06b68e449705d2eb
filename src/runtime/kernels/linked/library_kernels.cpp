// The library's other kernels as those of programs.
#include "library/collectives/collectives.h"
#include "library/device_copy.h"
#include "library/random/random_kernels.h"
#include "library/regions.h"
#include "library/weights.h"
#include "runtime/kernels/linked/library_calls.h"
#include "runtime/kernels/linked/linked_kernels.h"

namespace toroid {

TOROID_LINKED_KERNEL(collectives_all_reduce, "library.collectives.all_reduce", nullptr, plan_on_contiguous<collectives::all_reduce>);
TOROID_LINKED_KERNEL(collectives_all_gather, "library.collectives.all_gather", nullptr, plan_on_contiguous<collectives::all_gather>);
TOROID_LINKED_KERNEL(collectives_reduce_scatter, "library.collectives.reduce_scatter", nullptr,
                     plan_on_contiguous<collectives::reduce_scatter>);
TOROID_LINKED_KERNEL(collectives_all_to_all, "library.collectives.all_to_all", nullptr, plan_on_contiguous<collectives::all_to_all>);
TOROID_LINKED_KERNEL(collectives_broadcast, "library.collectives.broadcast", nullptr, plan_on_contiguous<collectives::broadcast>);
TOROID_LINKED_KERNEL(collectives_swap, "library.collectives.swap", nullptr, plan_on_contiguous<collectives::swap>);
TOROID_LINKED_KERNEL(regions_suppress, "library.regions.suppress", nullptr, plan_on_contiguous<regions::suppress>);
TOROID_LINKED_KERNEL(regions_align, "library.regions.align", nullptr, plan_on_contiguous<regions::align>);
TOROID_LINKED_KERNEL(regions_align_backward, "library.regions.align_backward", nullptr, plan_on_contiguous<regions::align_backward>);
TOROID_LINKED_KERNEL(regions_max, "library.regions.max", nullptr, plan_on_contiguous<regions::max>);
TOROID_LINKED_KERNEL(regions_mean, "library.regions.mean", nullptr, plan_on_contiguous<regions::mean>);
TOROID_LINKED_KERNEL(regions_mean_backward, "library.regions.mean_backward", nullptr, plan_on_contiguous<regions::mean_backward>);
TOROID_LINKED_KERNEL(random_require, "library.random.require", nullptr, plan_on_contiguous<random_kernels::require>);
TOROID_LINKED_KERNEL(random_poisson, "library.random.poisson", nullptr, plan_on_contiguous<random_kernels::poisson>);
TOROID_LINKED_KERNEL(random_binomial, "library.random.binomial", nullptr, plan_on_contiguous<random_kernels::binomial>);
TOROID_LINKED_KERNEL(random_gamma, "library.random.gamma", nullptr, plan_on_contiguous<random_kernels::gamma>);
TOROID_LINKED_KERNEL(random_permutation, "library.random.permutation", nullptr, plan_on_contiguous<random_kernels::permutation>);
TOROID_LINKED_KERNEL(weights_scale, "library.weights.scale", nullptr, plan_on_contiguous<weights::scale>);
TOROID_LINKED_KERNEL(weights_join, "library.weights.join", nullptr, plan_on_contiguous<weights::join>);
TOROID_LINKED_KERNEL(device_copy, "library.device.copy", nullptr, plan_on_contiguous<device::copy>);

}  // namespace toroid
