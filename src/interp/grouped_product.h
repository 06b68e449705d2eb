// Matrix products by groups (library/grouped_sizes.h), one product after the other.
#pragma once

#include "library/library_ops.h"

namespace toroid {

void grouped_product(const LibraryCall& call);

}  // namespace toroid
