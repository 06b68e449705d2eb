// ATen's gradients of upsampling.
#include "formula/backward/resampling_backward.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/nn/resampling.h"

namespace toroid {
namespace {

using formula::Upsampling;

// PyTorch's gradients of nearest upsampling look at the sizes alone where they are equal or double.
bool ignores_factor(const formula::Extent& e) { return sym::known_eq(e.out, e.in) || sym::known_eq(e.out, e.in * 2); }

template <Upsampling kind>
std::vector<Tensor> upsample_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad_output");
  const Sizes out = a.integers("output_size"), in = a.integers("input_size");
  if (in.size() != out.size() + 2 || grad.sizes().size() != in.size()) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("{}: a gradient of rank {} of {} sizes that became {}", a.schema().name, grad.rank(), in.size(), out.size()));
  }
  for (size_t i = 0; i < 2; ++i) d.b.require_equal(grad.sizes()[i], in[i], "the batch and channels of a gradient");
  const std::vector<std::optional<double>> factors = scale_arguments(a, out.size());
  std::vector<formula::Extent> extents;
  for (size_t i = 0; i < out.size(); ++i) {
    extents.push_back(formula::resampled(in[i + 2], out[i], factors[i]));
    if (kind == Upsampling::Nearest && ignores_factor(extents.back())) extents.back().factor.reset();
  }
  constexpr bool kHasCorners = kind != Upsampling::Nearest && kind != Upsampling::NearestExact;
  return {formula::upsample_backward(grad, extents, kind, kHasCorners && a.flag("align_corners"))};
}

constexpr DecompositionRow kResamplingBackwardRows[] = {
    {"aten::upsample_nearest1d_backward", upsample_backward<Upsampling::Nearest>},
    {"aten::upsample_nearest2d_backward", upsample_backward<Upsampling::Nearest>},
    {"aten::upsample_nearest3d_backward", upsample_backward<Upsampling::Nearest>},
    {"aten::_upsample_nearest_exact1d_backward", upsample_backward<Upsampling::NearestExact>},
    {"aten::_upsample_nearest_exact2d_backward", upsample_backward<Upsampling::NearestExact>},
    {"aten::_upsample_nearest_exact3d_backward", upsample_backward<Upsampling::NearestExact>},
    {"aten::upsample_linear1d_backward", upsample_backward<Upsampling::Linear>},
    {"aten::upsample_bilinear2d_backward", upsample_backward<Upsampling::Linear>},
    {"aten::upsample_trilinear3d_backward", upsample_backward<Upsampling::Linear>},
    {"aten::upsample_bicubic2d_backward", upsample_backward<Upsampling::Cubic>},
    {"aten::_upsample_bilinear2d_aa_backward", upsample_backward<Upsampling::FilteredLinear>},
    {"aten::_upsample_bicubic2d_aa_backward", upsample_backward<Upsampling::FilteredCubic>},
    {"aten::_upsample_lanczos2d_aa_backward", upsample_backward<Upsampling::Lanczos>},
};

}  // namespace

std::span<const DecompositionRow> resampling_backward_rows() { return kResamplingBackwardRows; }

}  // namespace toroid
