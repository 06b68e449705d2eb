#include "runtime/kernels/registry/contiguous_inputs.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/registry/operands.h"

namespace toroid {

ContiguousInputs::ContiguousInputs(const KernelCall& call) : call_(call) {
  copies_.reserve(call.inputs.size());
  for (const ToroidOperand& input : call.inputs) {
    inputs_.push_back(input);
    if (is_contiguous(input)) continue;
    const int64_t width = size_bytes(dtype_of(input));
    Copy& copy = copies_.emplace_back();
    copy.data = std::unique_ptr<std::byte[]>(new std::byte[static_cast<size_t>(product(input.sizes, input.rank) * width)]);
    copy.strides.assign(static_cast<size_t>(input.rank), 1);
    for (size_t d = copy.strides.size(); d-- > 1;) copy.strides[d - 1] = copy.strides[d] * std::max<int64_t>(input.sizes[d], 1);
    const auto* from = static_cast<const std::byte*>(input.data);
    for_each_position(input, [&](int64_t i, int64_t position) {
      std::memcpy(copy.data.get() + i * width, from + position * width, static_cast<size_t>(width));
    });
    inputs_.back() = {copy.data.get(), input.sizes, copy.strides.data(), input.rank, input.dtype, 0};
  }
  call_.inputs = inputs_;
}

}  // namespace toroid
