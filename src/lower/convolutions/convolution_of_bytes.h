// Convolutions of bytes: of I32, whose image is cast from U8 and whose filters are cast from I8. A processor's library takes the bytes as
// they are; the image's channels lie innermost.
#pragma once

#include "graph/graph.h"

namespace toroid {

// Of one or two spatial dims, without bias, not transposed. Nothing else is one.
bool is_convolution_of_bytes(const Graph& graph, const Node& node);

}  // namespace toroid
