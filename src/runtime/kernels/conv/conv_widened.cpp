// Convolutions of 16-bit floats as such of float32: image, filters and bias are widened, the result is rounded.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/fields.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPiece = 4096;  // elements that a thread takes at a time

Scratch scratch_for_image, scratch_for_filters, scratch_for_bias, scratch_for_result;

// Elements at strided positions, in row-major order, as float32.
void widen_operand(RuntimePool& pool, const ToroidOperand& operand, float* to) {
  const DType dtype = dtype_of(operand);
  const auto* const from = static_cast<const uint16_t*>(operand.data);
  if (is_contiguous(operand)) {
    return pool.parallel_for(product(operand.sizes, operand.rank), kPiece,
                             [&](int64_t begin, int64_t end) { widen_row(dtype, from + begin, end - begin, to + begin); });
  }
  const int32_t dims = operand.rank - 1;
  const int64_t count = operand.sizes[dims];
  pool.parallel_for(product(operand.sizes, dims), std::max<int64_t>(1, kPiece / std::max<int64_t>(count, 1)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i)
                        widen_elements(dtype, from + batch_offset(operand, dims, i), operand.strides[dims], count, to + i * count);
                    });
}

// An input as float32: row by row, or, of an image whose channels lie next to each other, so again.
class WidenedInput {
 public:
  WidenedInput(const KernelCall& call, size_t input, bool channels_last) {
    const ToroidOperand& operand = call.inputs[input];
    for (int32_t d = 0; d < operand.rank; ++d) order_.push_back(d);
    if (channels_last) std::rotate(order_.begin() + 1, order_.begin() + 2, order_.end());  // the channels come last
    strides_.resize(order_.size());
    for (size_t i = order_.size(); i-- > 0; elements_ *= operand.sizes[order_[i]]) strides_[static_cast<size_t>(order_[i])] = elements_;
    if (!call.keeps(operand) || !is_reduced_float(dtype_of(operand))) return;
    const auto list = [&](const int64_t* first) { return std::vector<int64_t>(first, first + operand.rank); };
    kept_ = call.prepared->get(operand.data, Layout{dtype_of(operand), order_, list(operand.sizes), list(operand.strides)}, elements_,
                               [&](float* to) { widen(call.pool, operand, to); });
  }

  // Of what is no constant in this memory.
  ToroidOperand of(const KernelCall& call, size_t input, Scratch& scratch) const {
    const ToroidOperand& operand = call.inputs[input];
    if (!is_reduced_float(dtype_of(operand))) return operand;
    const float* data = kept_;
    if (data == nullptr) {
      float* const to = scratch.get(elements_);
      widen(call.pool, operand, to);
      data = to;
    }
    return {const_cast<float*>(data), operand.sizes, strides_.data(), operand.rank, static_cast<int32_t>(DType::F32), kept_ != nullptr};
  }

 private:
  struct Layout {
    DType dtype;
    std::vector<int32_t> order;
    std::vector<int64_t> sizes, strides;
    TOROID_COMPARED_FIELDS(Layout, dtype, order, sizes, strides)
  };

  void widen(RuntimePool& pool, const ToroidOperand& operand, float* to) const {
    std::vector<int64_t> sizes, strides;
    for (const int32_t d : order_) {
      sizes.push_back(operand.sizes[d]);
      strides.push_back(operand.strides[d]);
    }
    widen_operand(pool, {operand.data, sizes.data(), strides.data(), operand.rank, operand.dtype, 0}, to);
  }

  std::vector<int32_t> order_;    // of dims in memory
  std::vector<int64_t> strides_;  // of the dims
  int64_t elements_ = 1;
  const float* kept_ = nullptr;
};

class WidenedConvolution final : public KernelPlan {
 public:
  // To channels next to each other: the result, or its epilogue, takes the sums as they come; else they are a whole result first.
  WidenedConvolution(const KernelCall& call, bool to_channels_last) : to_channels_last_(to_channels_last) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      inputs_.emplace_back(call, i, i == 0 && to_channels_last && image_strides(call.inputs[0]).channel == 1);
    }
    with_float_call(call, [&](const KernelCall& floats) { plan_ = plan_library_kernel("convolution", floats); });
  }

  void run(const KernelCall& call) const override {
    with_float_call(call, [&](const KernelCall& floats) { plan_->run(floats); });
  }

 private:
  template <class F>
  void with_float_call(const KernelCall& call, const F& f) const {
    std::vector<ToroidOperand> inputs;
    Scratch* const scratches[] = {&scratch_for_image, &scratch_for_filters, &scratch_for_bias};
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(inputs_[i].of(call, i, *scratches[i]));
    ToroidOperand y = call.outputs[0];
    y.dtype = static_cast<int32_t>(DType::F32);
    KernelCall floats = call;
    floats.inputs = inputs;
    floats.outputs = {&y, 1};
    if (to_channels_last_) {
      const ToroidEpilogue stored = store_as(dtype_of(call.outputs[0]), y.data, y.sizes[1]);
      if (call.epilogue == nullptr) floats.epilogue = &stored;
      return f(floats);
    }
    const DType dtype = dtype_of(call.outputs[0]);
    if (!is_reduced_float(dtype)) return f(floats);
    const int64_t elements = product(y.sizes, y.rank);
    auto* const result = scratch_for_result.get(elements);
    y.data = result;
    f(floats);
    auto* const to = static_cast<uint16_t*>(call.outputs[0].data);
    call.pool.parallel_for(elements, kPiece,
                           [&](int64_t begin, int64_t end) { round_row(dtype, result + begin, end - begin, to + begin); });
  }

  bool to_channels_last_;
  std::vector<WidenedInput> inputs_;
  std::unique_ptr<const KernelPlan> plan_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_widened(const KernelCall& call) {
  const ToroidOperand& y = call.outputs[0];
  const ConvolutionShape s = convolution_shape(call);
  const bool to_channels_last = call.inputs.size() == 2 && !s.transposed && y.rank <= 4 && y.strides[1] == 1;
  return std::make_unique<const WidenedConvolution>(call, to_channels_last);
}

}  // namespace toroid
