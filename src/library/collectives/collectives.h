// Collective operations as library kernels. Each takes and gives a token, I64 [], after its tensor, so that all processes run a program's
// operations in its order.
//
//   collectives.all_reduce      x (reduction, GROUP)                      y of x's sizes
//   collectives.all_gather      x [n, …] (GROUP)                          y [size n, …]: each process's x
//   collectives.reduce_scatter  x [size n, …] (reduction, GROUP)          y [n, …]: this process's part of the reduction
//   collectives.all_to_all      x [rows, …] (parts, received…, sent…, GROUP)  y: rows for and from each of the processes
//   collectives.broadcast       x (source, GROUP)                         y: process `source`'s x
//   collectives.swap            x (GROUP)                                 y: the other process's x, of two
//
// GROUP: how many processes the program was made for, 0 where it does not say; which of them it is for, -1 for any; then their ranks, or
// none of them for all (mpi.h). All dtypes are moved; complex numbers and 8-bit floats come as their parts and bits, and are not reduced.
#pragma once

#include <vector>

#include "base/span.h"
#include "library/collectives/mpi.h"
#include "library/library_ops.h"

namespace toroid::collectives {

// The GROUP that begins at this attribute.
const Group& group_of(Span<const double> attributes, size_t at);

// A broadcast's source. Throws Error{InvalidInput} for none of the group.
int64_t source_of(Span<const double> attributes, const Group& group);

// An all_to_all's attributes. Rows for each process and from each.
struct Exchange {
  explicit Exchange(Span<const double> attributes);
  // Throws Error{InvalidInput} where there are not as many processes as parts.
  void check(const Group& group) const;

  std::vector<int64_t> received, sent;
  size_t group_at;
};

void all_reduce(const LibraryCall& call);
void all_gather(const LibraryCall& call);
void reduce_scatter(const LibraryCall& call);
void all_to_all(const LibraryCall& call);
void broadcast(const LibraryCall& call);
void swap(const LibraryCall& call);

// The other one of two processes. Throws Error{InvalidInput} where there are not two.
int64_t other_of(const Group& group);

}  // namespace toroid::collectives
