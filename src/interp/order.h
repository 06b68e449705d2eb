// Elements picked out of rows by their order, plainly: rows are sorted whole. runtime/kernels/select/selection.h says what each kernel is.
#pragma once

#include "library/library_ops.h"

namespace toroid::order {

void topk(const LibraryCall& call);
void kth(const LibraryCall& call);
void median(const LibraryCall& call);
void mode(const LibraryCall& call);
void search(const LibraryCall& call);
void positions(const LibraryCall& call);

}  // namespace toroid::order
