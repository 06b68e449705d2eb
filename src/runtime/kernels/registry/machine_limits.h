// How fast this machine can be, measured: what kernels' times are compared with.
#pragma once

#include "runtime/pool/pool.h"
#include "tensor/dtype.h"

namespace toroid {

// Memory of one kind: how much of it all threads have together, and how fast they move what it holds, copied or only read, whichever is
// faster.
struct MemoryLimit {
  int64_t bytes;  // 0: there is none, or nobody knows
  double bytes_per_s;
};
struct MachineLimits {
  double copy_bytes_per_s;  // read and written by memcpy of what no cache holds
  double
      multiply_flops_per_s;  // float32 products of what the first-level cache holds, in vectors or in parts (split.h); a multiplication and an addition each count
  MemoryLimit first_level, second_level, third_level;  // caches
  double memory_bytes_per_s;                           // as of a cache; at least copy_bytes_per_s
  double int8_flops_per_s,
      bf16_flops_per_s;  // products of bytes and of bfloat16, likewise; those of float32 where the machine has no instructions for them

  // Of what moves so many bytes: those of the smallest memory that holds them all, since a program's calls follow each other.
  double bytes_per_s_of(double bytes) const;
  // Of products of this dtype.
  double flops_per_s_of(DType dtype) const;
  // The least time that a step can take, in seconds.
  double least_seconds(double bytes, double flops, DType dtype) const;
};
// Of the last cache, what a program may count on: a cache that is larger than this is shared with other machines' work. 0: nobody knows.
int64_t bytes_of_last_cache();
// On all threads of the pool, as fast as the machine goes on; takes about a second. Other work on the machine lowers the figures of memory
// and caches, which it shares.
MachineLimits measure_machine_limits(RuntimePool& pool);

}  // namespace toroid
