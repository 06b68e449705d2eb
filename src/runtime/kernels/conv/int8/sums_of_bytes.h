// What the plans of convolutions of bytes have in common.
#pragma once

#include <memory>

#include "base/error.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/epilogue/post_ops.h"

namespace toroid {

// A plan of sums, which go to the call's epilogue or are stored: Loops(call, shape) has run(call, out).
template <class Loops>
class SumsOfBytes final : public KernelPlan {
 public:
  SumsOfBytes(const KernelCall& call, const ConvolutionShape& s) : columns_(s.groups * s.out_channels), loops_(call, s) {}

  void run(const KernelCall& call) const override {
    const ToroidEpilogue stored = store_as(DType::I32, call.outputs[0].data, columns_);
    loops_.run(call, {nullptr, columns_, call.epilogue != nullptr ? call.epilogue : &stored});
  }

 private:
  int64_t columns_;
  Loops loops_;
};

template <class Loops>
std::unique_ptr<const KernelPlan> plan_sums_of_bytes(const KernelCall& call) {
  const auto has_channels_innermost = [](const ToroidOperand& operand) { return operand.rank <= 4 && operand.strides[1] == 1; };
  TOROID_CHECK(call.inputs.size() == 2 && call.integers[0] == 0, "a convolution of bytes is transposed or has a bias");
  TOROID_CHECK(has_channels_innermost(call.inputs[0]) && has_channels_innermost(call.outputs[0]), "bytes of a convolution lie otherwise");
  const ConvolutionShape s = convolution_shape(call);
  if (s.is_empty()) return plan_that_runs([](const KernelCall&) {});
  return std::make_unique<const SumsOfBytes<Loops>>(call, s);
}

}  // namespace toroid
