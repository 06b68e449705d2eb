#include "lower/convolutions/filter_gradient.h"

#include <algorithm>

#include "lower/convolutions/packed_convolution.h"

namespace toroid {
namespace {

constexpr int64_t kFiltersOfPack = 8;                       // that one access brings
constexpr int64_t kBlocks = 264;                            // two for each multiprocessor of an H100
constexpr int64_t kStepPixels = 64, kLeastStepsOfPart = 8;  // a part's sums are written and read once more
constexpr int64_t kSmallSide = 64, kLargeSide = 128;        // of a tile

// What a permutation of batch and channels shows.
std::optional<ValueId> with_batch_first(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(id);
  const auto* permute = std::get_if<Permute>(&node.op);
  if (permute == nullptr || permute->dims[0] != 1 || permute->dims[1] != 0) return std::nullopt;
  for (size_t d = 2; d < permute->dims.size(); ++d) {
    if (permute->dims[d] != static_cast<int>(d)) return std::nullopt;
  }
  return node.inputs[0];
}

}  // namespace

std::optional<FilterGradient> filter_gradient_of(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || op->transposed || !op->groups.is_const(1) || op->stride.size() > 2 || node.inputs.size() != 2 ||
      !is_reduced_float(graph.type(node.outputs[0]).dtype))
    return std::nullopt;
  const auto image = with_batch_first(graph, node.inputs[0]), results = with_batch_first(graph, node.inputs[1]);
  if (!image || !results) return std::nullopt;
  const std::vector<sym::Expr>&made = graph.type(node.outputs[0]).sizes, &read = graph.type(*results).sizes;
  const bool is_known = std::all_of(made.begin(), made.end(), [](sym::Expr size) { return size.is_const() && size.value() > 0; });
  sym::Expr pixels = read[0];
  for (size_t d = 2; d < read.size(); ++d) pixels = pixels * read[d];
  const bool has_too_many = pixels.is_const() && pixels.value() > kMostPixels;
  if (!is_known || has_too_many || !sym::known_divisible(made[1], kFiltersOfPack)) return std::nullopt;
  return FilterGradient{.image = *image, .results = *results, .stride = op->dilation, .padding = op->padding, .dilation = op->stride};
}

Library filter_gradient_call(const FilterGradient& gradient) {
  Library call{std::string(kFilterGradient), {}};
  for (const auto* list : {&gradient.stride, &gradient.padding, &gradient.dilation})
    call.attributes.insert(call.attributes.end(), list->begin(), list->end());
  return call;
}

FilterGradientTiles filter_gradient_tiles(sym::Expr filters, sym::Expr elements_of_filter, sym::Expr pixels) {
  const auto side = [](int64_t size) { return size <= kSmallSide ? kSmallSide : kLargeSide; };
  const auto parts_of = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  const int64_t rows = sym::evaluate_hint(filters), columns = sym::evaluate_hint(elements_of_filter);
  const int64_t tiles = parts_of(rows, side(rows)) * parts_of(columns, side(columns));
  const int64_t most = std::max<int64_t>(sym::evaluate_hint(pixels) / (kStepPixels * kLeastStepsOfPart), 1);
  return {.rows = static_cast<int>(side(rows)),
          .columns = static_cast<int>(side(columns)),
          .parts = std::clamp<int64_t>(kBlocks / tiles, 1, most)};
}

}  // namespace toroid
