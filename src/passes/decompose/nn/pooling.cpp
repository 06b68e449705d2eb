// ATen's average, max, adaptive and fractional pooling.
#include "passes/decompose/nn/pooling.h"

#include "formula/nn/adaptive_pooling.h"
#include "formula/nn/fractional_pooling.h"

namespace toroid {

formula::PoolGeometry pool_geometry(const Args& a) {
  const Sizes kernel = a.integers("kernel_size");
  return {.kernel = kernel,
          .stride = a.has("stride") ? a.integers("stride") : Sizes{},
          .padding = a.integers("padding"),
          .dilation = a.has("dilation") ? a.integers("dilation") : Sizes(kernel.size(), 1),
          .ceil_mode = a.flag("ceil_mode")};
}

formula::AverageCount average_count(const Args& a) {
  if (a.has("divisor_override")) return {.divisor = a.integer("divisor_override")};
  return {.divisor = {}, .include_padding = a.flag("count_include_pad")};
}

namespace {

std::vector<Tensor> avg_pool(Decomposer&, const Args& a) {
  return {formula::avg_pool(a.tensor("self"), pool_geometry(a), average_count(a))};
}

std::vector<Tensor> max_pool_with_indices(Decomposer&, const Args& a) {
  return formula::max_pool_with_indices(a.tensor("self"), pool_geometry(a));
}
std::vector<Tensor> max_pool(Decomposer&, const Args& a) { return {formula::max_pool(a.tensor("self"), pool_geometry(a))}; }

std::vector<Tensor> max_unpool(Decomposer&, const Args& a) {
  return {formula::max_unpool(a.tensor("self"), a.tensor("indices"), a.integers("output_size"))};
}

std::vector<Tensor> adaptive_avg_pool(Decomposer&, const Args& a) {
  return {formula::adaptive_avg_pool(a.tensor("self"), a.integers("output_size"))};
}
std::vector<Tensor> adaptive_max_pool(Decomposer&, const Args& a) {
  return formula::adaptive_max_pool(a.tensor("self"), a.integers("output_size"));
}

std::vector<Tensor> fractional_max_pool(Decomposer&, const Args& a) {
  return formula::fractional_max_pool(a.tensor("self"), a.tensor("random_samples"), a.integers("kernel_size"), a.integers("output_size"));
}

constexpr DecompositionRow kPoolingRows[] = {
    {"aten::avg_pool1d", avg_pool},
    {"aten::avg_pool2d", avg_pool},
    {"aten::avg_pool3d", avg_pool},
    {"aten::max_pool1d", max_pool},
    {"aten::max_pool2d", max_pool},
    {"aten::max_pool3d", max_pool},
    {"aten::max_pool1d_with_indices", max_pool_with_indices},
    {"aten::max_pool2d_with_indices", max_pool_with_indices},
    {"aten::max_pool3d_with_indices", max_pool_with_indices},
    {"aten::fractional_max_pool2d", fractional_max_pool},
    {"aten::fractional_max_pool3d", fractional_max_pool},
    {"aten::max_unpool2d", max_unpool},
    {"aten::max_unpool3d", max_unpool},
    {"aten::adaptive_avg_pool1d", adaptive_avg_pool},
    {"aten::adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten::adaptive_avg_pool3d", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool3d", adaptive_avg_pool},
    {"aten::adaptive_max_pool1d", adaptive_max_pool},
    {"aten::adaptive_max_pool2d", adaptive_max_pool},
    {"aten::adaptive_max_pool3d", adaptive_max_pool},
};

}  // namespace

std::span<const DecompositionRow> pooling_rows() { return kPoolingRows; }

}  // namespace toroid
