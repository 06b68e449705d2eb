// ATen's gradients of embedding tables.
#include "formula/backward/embedding_backward.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

formula::TableGradient table_gradient(const Args& a) {
  return {.rows = a.integer("num_weights"), .padding_index = a.integer("padding_idx"), .scale_by_frequency = a.flag("scale_grad_by_freq")};
}

void refuse_sparse(const Args& a, std::string_view name) {
  if (!a.flag("sparse")) return;
  throw Error(ErrorKind::Unsupported, fmt::format("{} to a sparse gradient", name)).help("export with sparse=False");
}

std::vector<Tensor> embedding_dense_backward(Decomposer&, const Args& a) {
  return {formula::embedding_backward(a.tensor("grad_output"), a.tensor("indices"), table_gradient(a))};
}

std::vector<Tensor> embedding_backward(Decomposer&, const Args& a) {
  refuse_sparse(a, "embedding_backward");
  return {formula::embedding_backward(a.tensor("grad"), a.tensor("indices"), table_gradient(a))};
}

// ---- embedding_bag --------------------------------------------------------------------------------------------------

Tensor bag_gradient(const Args& a, Tensor bag_of_index) {
  const formula::BagReads reads{.mode = static_cast<formula::BagMode>(a.constant_in("mode", 0, 2)),
                                .indices = a.tensor("indices"),
                                .bag_of_index = bag_of_index,
                                .bag_size = a.tensor("bag_size"),
                                .maxima = a.tensor("maximum_indices"),
                                .per_sample_weights = a.optional_tensor("per_sample_weights")};
  return formula::embedding_bag_backward(a.tensor("grad"), reads, table_gradient(a));
}

std::vector<Tensor> embedding_bag_dense_backward(Decomposer&, const Args& a) { return {bag_gradient(a, a.tensor("offset2bag"))}; }

// The forward operator may leave `offset2bag` empty: then the offsets tell.
Tensor bags_of(const Args& a) {
  Tensor known = a.tensor("offset2bag"), indices = a.tensor("indices");
  if (!known.numel().is_const(0) || indices.numel().is_const(0)) return known;
  return formula::bag_of_index(indices.size(0), a.tensor("offsets"));
}

std::vector<Tensor> embedding_bag_backward(Decomposer&, const Args& a) {
  refuse_sparse(a, "embedding_bag_backward");
  return {bag_gradient(a, bags_of(a))};
}

std::vector<Tensor> embedding_bag_per_sample_weights_backward(Decomposer&, const Args& a) {
  return {formula::per_sample_weights_backward(a.tensor("grad"), a.tensor("weight"), a.tensor("indices"), bags_of(a),
                                               a.integer("padding_idx"))};
}

constexpr DecompositionRow kEmbeddingBackwardRows[] = {
    {"aten::embedding_dense_backward", embedding_dense_backward},
    {"aten::embedding_backward", embedding_backward},
    {"aten::_embedding_bag_dense_backward", embedding_bag_dense_backward},
    {"aten::_embedding_bag_backward", embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", embedding_bag_per_sample_weights_backward},
};

}  // namespace

std::span<const DecompositionRow> embedding_backward_rows() { return kEmbeddingBackwardRows; }

}  // namespace toroid
