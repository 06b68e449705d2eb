// ATen's convolutions in all their spellings, im2col and its transpose.
#include "formula/convolution/convolution.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/movement/im2col.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Tensor convolve(const Decomposer& d, const Args& a, const formula::ConvolutionGeometry& geometry) {
  return formula::convolution(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"), geometry,
                              {.of_bytes = d.byte_convolutions, .sums_elements = d.sums_elements});
}

formula::ConvolutionGeometry geometry(const Args& a, Sizes padding, Sizes output_padding = {}, bool transposed = false) {
  return {.stride = a.integers("stride"),
          .padding = std::move(padding),
          .dilation = a.integers("dilation"),
          .output_padding = std::move(output_padding),
          .transposed = transposed,
          .groups = a.integer("groups")};
}

std::vector<Tensor> conv(Decomposer& d, const Args& a) { return {convolve(d, a, geometry(a, a.integers("padding")))}; }

std::vector<Tensor> conv_named_padding(Decomposer& d, const Args& a) {
  const std::string mode = a.text("padding");
  if (mode == "valid") return {convolve(d, a, geometry(a, Sizes{0}))};
  if (mode == "same")
    return {formula::convolution_same(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"), geometry(a, Sizes{0}))};
  throw Error(ErrorKind::InvalidModel, fmt::format("convolution padding '{}'", mode));
}

std::vector<Tensor> conv_transpose(Decomposer& d, const Args& a) {
  return {convolve(d, a, geometry(a, a.integers("padding"), a.integers("output_padding"), true))};
}

std::vector<Tensor> convolution(Decomposer& d, const Args& a) {
  return {convolve(d, a, geometry(a, a.integers("padding"), a.integers("output_padding"), a.flag("transposed")))};
}

formula::BlockGeometry block_geometry(const Args& a) {
  return {.kernel = a.integers("kernel_size"),
          .dilation = a.integers("dilation"),
          .padding = a.integers("padding"),
          .stride = a.integers("stride")};
}

std::vector<Tensor> im2col(Decomposer&, const Args& a) { return {formula::im2col(a.tensor("self"), block_geometry(a))}; }
std::vector<Tensor> col2im(Decomposer&, const Args& a) {
  return {formula::col2im(a.tensor("self"), a.integers("output_size"), block_geometry(a))};
}

constexpr DecompositionRow kConvolutionRows[] = {
    {"aten::conv1d", conv},
    {"aten::conv2d", conv},
    {"aten::conv3d", conv},
    {"aten::conv1d.padding", conv_named_padding},
    {"aten::conv2d.padding", conv_named_padding},
    {"aten::conv3d.padding", conv_named_padding},
    {"aten::conv_transpose1d", conv_transpose},
    {"aten::conv_transpose2d.input", conv_transpose},
    {"aten::conv_transpose3d.input", conv_transpose},
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::_convolution.deprecated", convolution},
    {"aten::_convolution_mode", conv_named_padding},
    {"aten::convolution_overrideable", convolution},
    {"aten::im2col", im2col},
    {"aten::col2im", col2im},
};

}  // namespace

std::span<const DecompositionRow> convolution_rows() { return kConvolutionRows; }

}  // namespace toroid
