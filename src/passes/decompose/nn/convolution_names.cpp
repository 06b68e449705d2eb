// Convolutions by the names of their kernels (depthwise, slow, oneDNN's, time first), which are aten::convolution with
// some arguments fixed.
#include "base/error.h"
#include "formula/basics/over_dims.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> convolve_all(Decomposer& d, const Args& a, Tensor x, sym::Expr groups, bool transposed) {
  const size_t spatial = dims_before(a.tensor("weight"), 2);
  auto list = [&](std::string_view name, int64_t otherwise) {
    return has_parameter(a, name) ? a.integers(name) : Sizes(spatial, otherwise);
  };
  return d.call("aten::convolution", {x, a.tensor("weight"), a.optional_tensor("bias"), list("stride", 1), list("padding", 0),
                                      list("dilation", 1), transposed, list("output_padding", 0), groups});
}

std::vector<Tensor> plain(Decomposer& d, const Args& a) { return convolve_all(d, a, a.tensor("self"), 1, false); }
std::vector<Tensor> transposed(Decomposer& d, const Args& a) { return convolve_all(d, a, a.tensor("self"), 1, true); }
std::vector<Tensor> grouped(Decomposer& d, const Args& a) { return convolve_all(d, a, a.tensor("self"), a.integer("groups"), false); }

// Each channel is convolved alone.
std::vector<Tensor> depthwise(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return convolve_all(d, a, x, x.size(1 - a.tensor_of_rank("weight", 3).rank()), false);
}

// [T, N, C] with weights [K, C, O]: a convolution over the first dim.
std::vector<Tensor> time_batch_channels(Decomposer& d, const Args& a) {
  Tensor x = d.b.permute(a.tensor("self"), {1, 2, 0}), weight = d.b.permute(a.tensor("weight"), {2, 1, 0});
  Tensor y = d.call1("aten::convolution", {x, weight, a.tensor("bias"), Sizes{1}, Sizes{a.integer("pad")}, Sizes{1}, false, Sizes{0}, 1});
  return {d.b.permute(y, {2, 0, 1})};
}

std::vector<Tensor> time_batch_channels_backward(Decomposer& d, const Args& a) {
  Tensor bias = a.tensor("bias");
  auto channels_second = [&](std::string_view name) { return d.b.permute(a.tensor(name), {1, 2, 0}); };
  const std::vector<Tensor> gradients =
      d.call("aten::convolution_backward",
             {channels_second("self"), channels_second("input"), d.b.permute(a.tensor("weight"), {2, 1, 0}), bias.sizes(), Sizes{1},
              Sizes{a.integer("pad")}, Sizes{1}, false, Sizes{0}, 1, Argument(std::vector<bool>{true, true, true})});
  return {d.b.permute(gradients[0], {2, 0, 1}), d.b.permute(gradients[1], {2, 1, 0}), gradients[2]};
}

constexpr DecompositionRow kNamedConvRows[] = {
    {"aten::_conv_depthwise2d", depthwise},      {"aten::conv_depthwise3d", depthwise},
    {"aten::conv_tbc", time_batch_channels},     {"aten::conv_tbc_backward", time_batch_channels_backward},
    {"aten::mkldnn_convolution", grouped},       {"aten::slow_conv3d", plain},
    {"aten::slow_conv3d_forward", plain},        {"aten::slow_conv_dilated2d", plain},
    {"aten::slow_conv_dilated3d", plain},        {"aten::slow_conv_transpose2d", transposed},
    {"aten::slow_conv_transpose3d", transposed}, {"aten::thnn_conv2d", plain},
    {"aten::_slow_conv2d_forward", plain},
};

}  // namespace

std::span<const DecompositionRow> named_conv_rows() { return kNamedConvRows; }

}  // namespace toroid
