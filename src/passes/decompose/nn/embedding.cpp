// ATen's embedding, one_hot and embedding_bag.
#include "formula/nn/embedding.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> embedding(Decomposer&, const Args& a) { return {formula::embedding(a.tensor("weight"), a.tensor("indices"))}; }

std::vector<Tensor> one_hot(Decomposer&, const Args& a) {
  const int64_t classes = a.constant("num_classes");
  if (classes < 0) {
    throw Error(ErrorKind::Unsupported, "one_hot without num_classes has a size that depends on the data").help("pass num_classes");
  }
  return {formula::one_hot(a.tensor("self"), classes)};
}

// ---- embedding_bag --------------------------------------------------------------------------------------------------

// In the overload with an optional padding_idx, -1 is the last row; in the others it is none.
std::optional<sym::Expr> padding_index(const Args& a) {
  if (!a.has("padding_idx")) return std::nullopt;
  const bool may_wrap = a.schema().name == "aten::embedding_bag.padding_idx";
  sym::Expr padding = a.integer("padding_idx");
  if (padding.is_const() && padding.value() < 0 && may_wrap) padding = padding + a.tensor("weight").size(0);
  if (padding.is_const() && padding.value() < 0) return std::nullopt;
  return padding;
}

// (result, bag of each index, size of each bag, rows of maxima). Backends leave the last three empty where they do not
// need them for a backward pass; their sizes follow the model.
std::vector<Tensor> embedding_bag(Decomposer& d, const Args& a) {
  const int64_t mode = a.constant("mode");
  if (mode < 0 || mode > 2) throw Error(ErrorKind::InvalidModel, fmt::format("embedding_bag mode {}", mode));
  formula::EmbeddingBag bags = formula::embedding_bag(
      a.tensor("weight"), a.tensor("indices"), a.tensor("offsets"), a.optional_tensor("per_sample_weights"),
      {.mode = static_cast<formula::BagMode>(mode), .padding_index = padding_index(a), .has_last_offset = a.flag("include_last_offset")});
  // What PyTorch keeps on a CPU: of sums no sizes, of means the sizes twice. On a GPU it counts all bags.
  const bool on_cpu = d.recorded.size() < 3 || d.recorded[2].device.type == Device::Type::Cpu;
  const auto kept_mode = static_cast<formula::BagMode>(mode);
  if (on_cpu && kept_mode == formula::BagMode::Sum) bags.bag_size = bags.maxima;
  if (on_cpu && kept_mode == formula::BagMode::Mean) bags.maxima = bags.bag_size;
  auto sized_as_recorded = [&](size_t i, Tensor x) {
    if (i >= d.recorded.size() || x.rank() == 0) return x;
    const TensorType& type = d.recorded[i];
    const bool same = type.rank() == x.rank() && sym::known_eq(type.numel(), x.numel());
    return same ? d.b.cast(x, type.dtype) : d.b.full(type.sizes, type.dtype, sym::Expr(0));
  };
  return {bags.y, sized_as_recorded(1, bags.bag_of_index), sized_as_recorded(2, bags.bag_size), sized_as_recorded(3, bags.maxima)};
}

constexpr DecompositionRow kEmbeddingRows[] = {
    {"aten::embedding", embedding},          {"aten::one_hot", one_hot},
    {"aten::embedding_bag", embedding_bag},  {"aten::embedding_bag.padding_idx", embedding_bag},
    {"aten::_embedding_bag", embedding_bag}, {"aten::_embedding_bag_forward_only", embedding_bag},
};

}  // namespace

std::span<const DecompositionRow> embedding_rows() { return kEmbeddingRows; }

}  // namespace toroid
