// What passes do with weights once, when a program is loaded. As library kernels: a generated kernel for each shape of a filter would cost
// more to compile than it does.
//
//   weights.scale   w [.., n, ..], scale F64 [n]   (dim) -> w's shape    w times the scale of its place along dim; F32 is rounded once
//   weights.join    w0, w1, …                      (dim) -> [.., sum of their sizes, ..]   the tensors after each other along dim
//
// Scaled are F32 and F64, joined are tensors of any one dtype.
#pragma once

#include "library/library_ops.h"

namespace toroid::weights {

void scale(const LibraryCall& call);
void join(const LibraryCall& call);

}  // namespace toroid::weights
