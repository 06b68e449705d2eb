// What the plans of convolutions of bytes have in common.
#pragma once

#include <memory>

#include "base/error.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/conv/int8/channels_last.h"
#include "runtime/kernels/epilogue/post_ops.h"

namespace toroid {

// The call with another image.
class WithImage {
 public:
  WithImage(const KernelCall& call, const ToroidOperand& image) : inputs_{image, call.inputs[1]}, call_(call) { call_.inputs = inputs_; }
  WithImage(const WithImage&) = delete;
  WithImage& operator=(const WithImage&) = delete;
  const KernelCall& call() const { return call_; }

 private:
  ToroidOperand inputs_[2];
  KernelCall call_;
};

// A plan of sums, which go to the call's epilogue or are stored: Loops(call, shape) has run(call, out), of images whose channels lie next
// to each other.
template <class Loops>
class SumsOfBytes final : public KernelPlan {
 public:
  SumsOfBytes(const KernelCall& call, const ConvolutionShape& s)
      : columns_(s.groups * s.out_channels),
        channels_last_(call.inputs[0]),
        loops_(WithImage(call, channels_last_.is_needed() ? channels_last_.operand(call.inputs[0]) : call.inputs[0]).call(), s) {}

  void run(const KernelCall& call) const override {
    const ToroidEpilogue stored = store_as(DType::I32, call.outputs[0].data, columns_);
    const ProductOutput out = {nullptr, columns_, call.epilogue != nullptr ? call.epilogue : &stored};
    if (!channels_last_.is_needed()) return loops_.run(call, out);
    ToroidOperand image = channels_last_.operand(call.inputs[0]);
    image.data = const_cast<uint8_t*>(channels_last_.copy(call.pool, call.inputs[0]));
    loops_.run(WithImage(call, image).call(), out);
  }

 private:
  int64_t columns_;
  ChannelsLast channels_last_;
  Loops loops_;
};

template <class Loops>
std::unique_ptr<const KernelPlan> plan_sums_of_bytes(const KernelCall& call) {
  TOROID_CHECK(call.inputs.size() == 2 && call.integers[0] == 0, "a convolution of bytes is transposed or has a bias");
  TOROID_CHECK(call.outputs[0].rank <= 4 && call.outputs[0].strides[1] == 1, "the sums of a convolution of bytes lie otherwise");
  const ConvolutionShape s = convolution_shape(call);
  if (s.is_empty()) return plan_that_runs([](const KernelCall&) {});
  return std::make_unique<const SumsOfBytes<Loops>>(call, s);
}

}  // namespace toroid
