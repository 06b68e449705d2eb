// ATen's gradients of convolutions.
#include "formula/backward/convolution_backward.h"

#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> gradients_of(const Decomposer& d, const Args& a, std::string_view input, const formula::ConvolutionGeometry& geometry) {
  const formula::ConvolutionGradients gradients =
      formula::convolution_backward(a.tensor("grad_output"), a.tensor(input), a.tensor("weight"), geometry, wanted<3>(a),
                                    {.flips_filters = d.flips_filters, .has_backward_weights = d.has_backward_weights});
  return {gradients.x, gradients.weight, gradients.bias};
}

std::vector<Tensor> convolution_backward(Decomposer& d, const Args& a) {
  return gradients_of(d, a, "input",
                      {.stride = a.integers("stride"),
                       .padding = a.integers("padding"),
                       .dilation = a.integers("dilation"),
                       .output_padding = a.integers("output_padding"),
                       .transposed = a.flag("transposed"),
                       .groups = a.integer("groups")});
}

std::vector<Tensor> slow_conv2d_backward(Decomposer& d, const Args& a) {
  return gradients_of(d, a, "self",
                      {.stride = a.integers("stride"),
                       .padding = a.integers("padding"),
                       .dilation = Sizes(2, 1),
                       .output_padding = Sizes(2, 0),
                       .transposed = false,
                       .groups = 1});
}

constexpr DecompositionRow kConvolutionBackwardRows[] = {
    {"aten::convolution_backward", convolution_backward},
    {"aten::convolution_backward_overrideable", convolution_backward},
    {"aten::_slow_conv2d_backward.output_mask", slow_conv2d_backward},
};

}  // namespace

std::span<const DecompositionRow> convolution_backward_rows() { return kConvolutionBackwardRows; }

}  // namespace toroid
