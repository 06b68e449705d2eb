#include "library/device_copy.h"

#include <cstring>

#include "tensor/dtype.h"

namespace toroid::device {

void copy(const LibraryCall& call) {
  const LibraryInput& from = call.inputs[0];
  int64_t elements = 1;
  for (const int64_t size : from.sizes) elements *= size;
  const auto bytes = static_cast<size_t>(elements * size_bytes(from.dtype));
  if (bytes > 0) std::memcpy(call.outputs[0].data, from.data, bytes);
}

}  // namespace toroid::device
