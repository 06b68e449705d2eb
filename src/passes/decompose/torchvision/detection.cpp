// torchvision's operators of object detection: suppression of boxes that overlap a better one, and regions of images pooled to a fixed
// size. The kernels are the library's (library/regions.h); what is selected and what its size is are ordinary operations:
//
//   nms(boxes, scores)   order = sort(scores); kept = regions.suppress(boxes[order]); order[where kept is true]
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/engine/data_dependent.h"

namespace toroid {
namespace {

bool may_be(sym::Expr size, int64_t value) { return !size.is_const() || size.is_const(value); }

// The dtype whose elements the kernels of regions read.
DType kernel_dtype(DType dtype) { return dtype == DType::F64 || dtype == DType::F16 ? dtype : DType::F32; }
Tensor for_kernel(Tensor x, DType dtype) { return x.builder().cast(x, dtype); }

// ---- boxes ---------------------------------------------------------------------------------------------------------------------

std::vector<Tensor> nms(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor boxes = a.tensor("dets"), scores = a.tensor("scores");
  demand(a, boxes.rank() == 2 && may_be(boxes.size(1), 4), "boxes are rows of 4 numbers");
  demand(a, scores.rank() == 1, "there is one score a box");
  const sym::Expr n = boxes.size(0);
  b.require_equal(scores.size(0), n, "as many scores as boxes");
  boxes = b.cast(boxes, boxes.dtype() == DType::F64 ? DType::F64 : DType::F32);
  Tensor order = b.sort(scores, 0, true, true).second;
  Tensor best_first = b.gather(boxes, index_one_dim(boxes, 0, order).per_dim);
  Tensor kept = b.library("regions.suppress", {best_first}, {{.dtype = DType::Bool, .sizes = {n}}}, {a.number("iou_threshold")})[0];
  const sym::Expr count = bind_recorded(d, 0, 0, b.sum(b.cast(kept, DType::I64), {}), n);
  return {b.gather(order, {true_positions(kept, count)})};
}

// ---- regions -------------------------------------------------------------------------------------------------------------------

// [K,5] in the dtype of the image's kernel.
Tensor regions_of(const Args& a, DType dtype) {
  Tensor rois = a.tensor("rois");
  demand(a, rois.rank() == 2 && may_be(rois.size(1), 5), "regions are rows of 5 numbers: the image, x1, y1, x2, y2");
  return for_kernel(rois, dtype);
}

Tensor image_of(const Args& a) {
  Tensor image = a.tensor("input");
  demand(a, image.rank() == 4, "the image has rank 4");
  return image;
}

// The output channels that read `channels` by position.
sym::Expr maps_by_position(const Args& a, sym::Expr channels) {
  const sym::Expr bins = a.integer("pooled_height") * a.integer("pooled_width");
  demand(a, !bins.is_const() || bins.value() > 0, "the pooled size is positive");
  demand(a, !bins.is_const() || !channels.is_const() || channels.value() % bins.value() == 0,
         "the channels are a multiple of the bins of a region");
  return sym::floor_div(channels, bins);
}

Sizes pooled_sizes(const Args& a, sym::Expr maps) {
  for (std::string_view side : {"pooled_height", "pooled_width"}) {
    demand(a, !a.integer(side).is_const() || a.integer(side).value() > 0, "the pooled size is positive");
  }
  return {a.tensor("rois").size(0), maps, a.integer("pooled_height"), a.integer("pooled_width")};
}

std::vector<Scalar> alignment(const Args& a, bool by_position) {
  constexpr int64_t kMostSamples = 256;
  const int64_t samples = a.constant("sampling_ratio");
  if (samples > kMostSamples) {
    throw Error(ErrorKind::Unsupported, fmt::format("{}: {} x {} samples a bin", a.schema().name, samples, samples))
        .help(fmt::format("sampling_ratio may be up to {}", kMostSamples));
  }
  const bool aligned = !by_position && a.flag("aligned");
  return {a.number("spatial_scale"), sym::Expr(std::max<int64_t>(samples, 0)), sym::Expr(aligned ? 1 : 0), sym::Expr(by_position ? 1 : 0)};
}

// The input channel of each bin, which is the same for all regions.
Tensor channel_mapping(Builder& b, const Sizes& pooled) {
  Tensor numbers = b.reshape(b.arange(pooled[1] * pooled[2] * pooled[3], 0, 1, DType::I32), {1, pooled[1], pooled[2], pooled[3]});
  return b.expand(numbers, pooled);
}

// One result of the image's dtype, and other ones, from an image and regions.
std::vector<Tensor> pooled(const Args& a, std::string kernel, Sizes sizes, std::vector<TensorType> others, std::vector<Scalar> attributes) {
  Tensor image = image_of(a);
  Builder& b = image.builder();
  const DType dtype = kernel_dtype(image.dtype());
  std::vector<TensorType> types = {{.dtype = dtype, .sizes = std::move(sizes)}};
  types.insert(types.end(), others.begin(), others.end());
  std::vector<Tensor> results =
      b.library(std::move(kernel), {for_kernel(image, dtype), regions_of(a, dtype)}, types, std::move(attributes));
  results[0] = b.cast(results[0], image.dtype());
  return results;
}

// The gradient of an image from those of its pooled regions.
std::vector<Tensor> pooled_backward(const Args& a, std::string kernel, std::vector<Scalar> attributes) {
  Tensor grad = a.tensor("grad");
  demand(a, grad.rank() == 4, "the gradient has rank 4");
  Builder& b = grad.builder();
  b.require_equal(grad.size(0), a.tensor("rois").size(0), "as many gradients as regions");
  const DType dtype = kernel_dtype(grad.dtype());
  const Sizes sizes = {a.integer("batch_size"), a.integer("channels"), a.integer("height"), a.integer("width")};
  Tensor image = b.library(std::move(kernel), {for_kernel(grad, dtype), regions_of(a, dtype)}, {{.dtype = dtype, .sizes = sizes}},
                           std::move(attributes))[0];
  return {b.cast(image, grad.dtype())};
}

void require_pooled_sizes(const Args& a, sym::Expr maps) {
  Tensor grad = a.tensor("grad");
  demand(a, grad.rank() == 4, "the gradient has rank 4");
  const Sizes sizes = pooled_sizes(a, maps);
  for (size_t i = 0; i < sizes.size(); ++i) grad.builder().require_equal(grad.sizes()[i], sizes[i], "the gradient's sizes");
}

std::vector<Tensor> roi_align(Decomposer&, const Args& a) {
  return pooled(a, "regions.align", pooled_sizes(a, image_of(a).size(1)), {}, alignment(a, false));
}

std::vector<Tensor> roi_align_backward(Decomposer&, const Args& a) {
  require_pooled_sizes(a, a.integer("channels"));
  return pooled_backward(a, "regions.align_backward", alignment(a, false));
}

std::vector<Tensor> ps_roi_align(Decomposer& d, const Args& a) {
  const Sizes sizes = pooled_sizes(a, maps_by_position(a, image_of(a).size(1)));
  return {pooled(a, "regions.align", sizes, {}, alignment(a, true))[0], channel_mapping(d.b, sizes)};
}

// The channel mapping is always the one that the forward operator gives.
std::vector<Tensor> ps_roi_align_backward(Decomposer&, const Args& a) {
  require_pooled_sizes(a, maps_by_position(a, a.integer("channels")));
  return pooled_backward(a, "regions.align_backward", alignment(a, true));
}

std::vector<Tensor> roi_pool(Decomposer&, const Args& a) {
  const Sizes sizes = pooled_sizes(a, image_of(a).size(1));
  return pooled(a, "regions.max", sizes, {{.dtype = DType::I32, .sizes = sizes}}, {a.number("spatial_scale")});
}

// Each bin's gradient goes to where its maximum was.
std::vector<Tensor> roi_pool_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad"), places = b.cast(a.tensor("argmax"), DType::I64);
  require_pooled_sizes(a, a.integer("channels"));
  const sym::Expr plane = a.integer("height") * a.integer("width");
  Tensor image = b.cast(b.select(a.tensor("rois"), 1, 0), DType::I64);
  Tensor none = b.full({a.integer("batch_size"), a.integer("channels"), plane}, grad.dtype(), 0.0);
  Tensor is_place = places >= 0;
  Tensor result = b.scatter(none, where(is_place, grad, 0.0),
                            {b.reshape(image, {grad.size(0), 1, 1, 1}), positions(b, grad.size(1), 1, 4), where(is_place, places, 0)},
                            ScatterMode::Add);
  return {b.reshape(result, {a.integer("batch_size"), a.integer("channels"), a.integer("height"), a.integer("width")})};
}

std::vector<Tensor> ps_roi_pool(Decomposer& d, const Args& a) {
  const Sizes sizes = pooled_sizes(a, maps_by_position(a, image_of(a).size(1)));
  return {pooled(a, "regions.mean", sizes, {}, {a.number("spatial_scale")})[0], channel_mapping(d.b, sizes)};
}

std::vector<Tensor> ps_roi_pool_backward(Decomposer&, const Args& a) {
  require_pooled_sizes(a, maps_by_position(a, a.integer("channels")));
  return pooled_backward(a, "regions.mean_backward", {a.number("spatial_scale")});
}

constexpr DecompositionRow kDetectionRows[] = {
    {"torchvision::nms", nms},
    {"torchvision::roi_align", roi_align},
    {"torchvision::_roi_align_backward", roi_align_backward},
    {"torchvision::ps_roi_align", ps_roi_align},
    {"torchvision::_ps_roi_align_backward", ps_roi_align_backward},
    {"torchvision::roi_pool", roi_pool},
    {"torchvision::_roi_pool_backward", roi_pool_backward},
    {"torchvision::ps_roi_pool", ps_roi_pool},
    {"torchvision::_ps_roi_pool_backward", ps_roi_pool_backward},
};

}  // namespace

std::span<const DecompositionRow> detection_rows() { return kDetectionRows; }

}  // namespace toroid
