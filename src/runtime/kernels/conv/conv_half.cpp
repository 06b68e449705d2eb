// Convolutions of images and filters of 16-bit floats, their channels' results next to each other: of bfloat16 products in tiles with sums
// in float32, for machines with AMX; of groups vectors of channels.
#include <memory>
#include <utility>

#include "runtime/kernels/conv/amx/tile_convolver.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/epilogue/post_ops.h"

namespace toroid {
namespace {

class HalfTiles final : public RowConvolution {
 public:
  HalfTiles(const KernelCall& call, const ConvolutionShape& s) : convolver_(AmxType::BFloat16, call, s), columns_(s.out_channels) {}

  void run(const KernelCall& call) const override { convolver_.run(call, output_of(call, columns_)); }
  void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const override {
    convolver_.run_rows(image, rows, in, out);
  }

 private:
  TileConvolver convolver_;
  int64_t columns_;
};

// Where there is no epilogue, the sums are stored, rounded to the result's dtype.
class StoringSums final : public KernelPlan {
 public:
  StoringSums(std::unique_ptr<const KernelPlan> sums, const ConvolutionShape& s)
      : sums_(std::move(sums)), columns_(s.groups * s.out_channels) {}

  void run(const KernelCall& call) const override {
    if (call.epilogue != nullptr) return sums_->run(call);
    const ToroidOperand& y = call.outputs[0];
    const ToroidEpilogue stored = store_as(dtype_of(y), y.data, columns_);
    KernelCall with_epilogue = call;
    with_epilogue.epilogue = &stored;
    sums_->run(with_epilogue);
  }

 private:
  std::unique_ptr<const KernelPlan> sums_;
  int64_t columns_;
};

// `make`: the plan of the sums, which gives them to the call's epilogue.
template <class Make>
std::unique_ptr<const KernelPlan> plan_storing(const KernelCall& call, const Make& make) {
  const ConvolutionShape s = convolution_shape(call);
  std::unique_ptr<const KernelPlan> sums = plan_without_sums(s);
  if (sums == nullptr) sums = make(s);
  return std::make_unique<const StoringSums>(std::move(sums), s);
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_half_tiles(const KernelCall& call) {
  return plan_storing(call, [&](const ConvolutionShape& s) { return std::make_unique<const HalfTiles>(call, s); });
}

std::unique_ptr<const KernelPlan> plan_half_channel_vectors(const KernelCall& call) {
  return plan_storing(call, [&](const ConvolutionShape& s) { return channel_vectors(call, s); });
}

std::unique_ptr<RowConvolution> bf16_row_convolution(const KernelCall& call, const ConvolutionShape& shape, const RowUse&) {
  if (takes_channel_vectors(call, shape)) return channel_vectors(call, shape);
  return std::make_unique<HalfTiles>(call, shape);
}

}  // namespace toroid
