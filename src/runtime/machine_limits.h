// How fast this machine can be, measured: what kernels' times are compared with.
#pragma once

#include "runtime/pool.h"

namespace toroid {

struct MachineLimits {
  double copy_bytes_per_s;        // read and written by memcpy of what no cache holds
  double multiply_flops_per_s;    // float32 products of what the first-level cache holds, in vectors or in parts (float_parts.h); a multiplication and an addition each count
};
// On all threads of the pool, as fast as the machine goes on; takes about a second. Other work on the machine lowers the figures.
MachineLimits measure_machine_limits(RuntimePool& pool);

}  // namespace toroid
