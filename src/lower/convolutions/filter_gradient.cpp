#include "lower/convolutions/filter_gradient.h"

#include <algorithm>
#include <numeric>

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

// What several groups' images show as [C, groups * N, …], of [N, groups * C, …].
std::optional<ValueId> with_groups_as_channels(const Graph& graph, ValueId id, sym::Expr groups) {
  const Node& merged = graph.producer(id);
  if (std::get_if<Reshape>(&merged.op) == nullptr) return std::nullopt;
  const Node& permuted = graph.producer(merged.inputs[0]);
  const auto* permute = std::get_if<Permute>(&permuted.op);
  if (permute == nullptr || permute->dims.size() != graph.type(id).sizes.size() + 1) return std::nullopt;
  for (size_t d = 0; d < permute->dims.size(); ++d) {
    if (permute->dims[d] != static_cast<int>(d < 3 ? 2 - d : d)) return std::nullopt;
  }
  const Node& split = graph.producer(permuted.inputs[0]);
  if (std::get_if<Reshape>(&split.op) == nullptr) return std::nullopt;
  const std::vector<sym::Expr>&from = graph.type(split.inputs[0]).sizes, &into = graph.type(split.outputs[0]).sizes,
        &made = graph.type(id).sizes;
  if (from.size() != made.size() || !sym::known_eq(into[0], from[0]) || !sym::known_eq(into[1], groups)) return std::nullopt;
  if (!sym::known_eq(into[2] * groups, from[1]) || !sym::known_eq(made[0], into[2])) return std::nullopt;
  for (size_t d = 2; d < from.size(); ++d) {
    if (!sym::known_eq(into[d + 1], from[d]) || !sym::known_eq(made[d], from[d])) return std::nullopt;
  }
  return split.inputs[0];
}

// Slabs of so many groups that their filters fill tiles; none of groups of fewer channels or filters than four, which would be in vain.
std::optional<int64_t> slabs_of(int64_t groups, int64_t channels, int64_t filters) {
  constexpr int64_t kLeastOfGroup = 4;
  if (groups == 1) return 1;
  if (std::min(channels, filters) < kLeastOfGroup) return std::nullopt;
  const int64_t of_slab = kSmallSide / std::gcd(kSmallSide, filters);
  const int64_t slabs = groups <= of_slab && groups * filters <= kSmallSide ? 1 : groups / of_slab;
  if (slabs > 1 && groups % of_slab != 0) return std::nullopt;
  return slabs == 0 || groups / slabs * channels % kFiltersOfPack != 0 ? std::nullopt : std::optional(slabs);
}

}  // namespace

std::optional<FilterGradient> filter_gradient_of(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || op->transposed || !op->groups.is_const() || op->stride.size() > 2 || node.inputs.size() != 2 ||
      !is_reduced_float(graph.type(node.outputs[0]).dtype))
    return std::nullopt;
  const bool has_groups = !op->groups.is_const(1);
  const auto image = has_groups ? with_groups_as_channels(graph, node.inputs[0], op->groups) : with_batch_first(graph, node.inputs[0]);
  const auto results = with_batch_first(graph, node.inputs[1]);
  if (!image || !results) return std::nullopt;
  const std::vector<sym::Expr>&made = graph.type(node.outputs[0]).sizes, &read = graph.type(*results).sizes;
  const bool is_known = std::all_of(made.begin(), made.end(), [](sym::Expr size) { return size.is_const() && size.value() > 0; });
  sym::Expr pixels = read[0];
  for (size_t d = 2; d < read.size(); ++d) pixels = pixels * read[d];
  const bool has_too_many = pixels.is_const() && pixels.value() > kMostPixels;
  if (!is_known || has_too_many || !sym::known_divisible(made[1], kFiltersOfPack)) return std::nullopt;
  const int64_t groups = op->groups.value();
  const std::optional<int64_t> slabs = slabs_of(groups, made[0].value(), made[1].value() / groups);
  if (!slabs) return std::nullopt;
  return FilterGradient{.image = *image,
                        .results = *results,
                        .stride = op->dilation,
                        .padding = op->padding,
                        .dilation = op->stride,
                        .groups = groups,
                        .slabs = *slabs};
}

Library filter_gradient_call(const FilterGradient& gradient) {
  Library call{std::string(kFilterGradient), {}};
  for (const auto* list : {&gradient.stride, &gradient.padding, &gradient.dilation})
    call.attributes.insert(call.attributes.end(), list->begin(), list->end());
  return call;
}

FilterGradientTiles filter_gradient_tiles(sym::Expr filters, sym::Expr slabs, sym::Expr elements_of_filter, sym::Expr pixels) {
  const auto side = [](int64_t size) { return size <= kSmallSide ? kSmallSide : kLargeSide; };
  const int64_t of_slab = sym::evaluate_hint(filters) / std::max<int64_t>(sym::evaluate_hint(slabs), 1);
  const auto parts_of = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  const int64_t rows = sym::evaluate_hint(filters), columns = sym::evaluate_hint(elements_of_filter);
  const int64_t height = sym::known_eq(slabs, 1) || of_slab % kLargeSide == 0 ? side(of_slab) : kSmallSide;
  const int64_t tiles = parts_of(rows, height) * parts_of(columns, side(columns));
  const int64_t most = std::max<int64_t>(sym::evaluate_hint(pixels) / (kStepPixels * kLeastStepsOfPart), 1);
  return {
      .rows = static_cast<int>(height), .columns = static_cast<int>(side(columns)), .parts = std::clamp<int64_t>(kBlocks / tiles, 1, most)};
}

}  // namespace toroid
