// Images of bytes whose channels do not lie next to each other, as planes of three colours, copied so.
#pragma once

#include "runtime/kernels/conv/conv.h"

namespace toroid {

class ChannelsLast {
 public:
  explicit ChannelsLast(const ToroidOperand& image);  // of one or two spatial dims

  bool is_needed() const { return is_needed_; }
  // The image as the copy has it, without data. Its sizes are the image's; its strides are here.
  ToroidOperand operand(const ToroidOperand& image) const;
  // The copy: the calling thread's, until it asks again.
  const uint8_t* copy(RuntimePool& pool, const ToroidOperand& image) const;

 private:
  bool is_needed_;
  int64_t strides_[4];
};

}  // namespace toroid
