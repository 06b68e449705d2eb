#include "formula/basics/index_tensors.h"

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

// Follows integer arithmetic a few nodes up: positions made by arange and what is added to or selected from them.
bool never_negative(const Graph& graph, ValueId id, int depth = 8) {
  if (depth == 0 || !is_integral(graph.type(id).dtype)) return false;
  const Node& node = graph.producer(id);
  auto all_inputs = [&](size_t first) {
    for (size_t i = first; i < node.inputs.size(); ++i) {
      if (!never_negative(graph, node.inputs[i], depth - 1)) return false;
    }
    return true;
  };
  if (std::holds_alternative<Iota>(node.op)) return true;
  if (const auto* full = std::get_if<Full>(&node.op)) {
    const auto* value = std::get_if<sym::Expr>(&full->value);
    return value != nullptr && sym::known_le(0, *value);
  }
  if (const auto* pointwise = std::get_if<Pointwise>(&node.op)) {
    const ScalarOp op = pointwise->op;
    if (op == ScalarOp::Where) return all_inputs(1);
    return (op == ScalarOp::Add || op == ScalarOp::Mul || op == ScalarOp::Min || op == ScalarOp::FloorDiv) && all_inputs(0);
  }
  const bool moves = std::holds_alternative<Cast>(node.op) || std::holds_alternative<Expand>(node.op) ||
                     std::holds_alternative<Reshape>(node.op) || std::holds_alternative<Permute>(node.op) ||
                     std::holds_alternative<Slice>(node.op) || std::holds_alternative<Remap>(node.op) ||
                     std::holds_alternative<Cat>(node.op);
  return moves && all_inputs(0);
}

}  // namespace

Tensor wrap_index(Tensor index, sym::Expr size) {
  Builder& b = index.builder();
  index = b.cast(index, DType::I64);
  if (never_negative(b.graph(), index.id())) return index;
  Tensor is_negative = b.binary(ScalarOp::Lt, index, Scalar(sym::Expr(0)));
  return b.where(is_negative, b.binary(ScalarOp::Add, index, Scalar(size)), index);
}

Tensor positions(Builder& b, sym::Expr size, int64_t dim, int64_t rank) {
  Sizes sizes(static_cast<size_t>(rank), 1);
  sizes[static_cast<size_t>(dim)] = size;
  return b.iota(sizes, dim);
}

std::vector<Tensor> index_along(Tensor index, int64_t dim) {
  std::vector<Tensor> per_dim;
  for (int64_t d = 0; d < index.rank(); ++d) {
    per_dim.push_back(d == dim ? index : positions(index.builder(), index.size(d), d, index.rank()));
  }
  return per_dim;
}

AdvancedIndex advanced_index(Tensor x, const std::vector<Tensor>& indices, bool may_be_negative) {
  Builder& b = x.builder();
  if (static_cast<int64_t>(indices.size()) > x.rank()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} indices for a tensor of rank {}", indices.size(), x.rank()));
  }
  Sizes selected;
  std::vector<size_t> indexed;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (is_mask(indices[d])) {
      throw Error(ErrorKind::Unsupported, "indexing with a mask gives a result whose size depends on the data")
          .help("torch.where or masked_fill with the same mask keep the size");
    }
    indexed.push_back(d);
    selected = b.broadcast(selected, indices[d].sizes());
  }
  const bool neighbours = !indexed.empty() && indexed.back() - indexed.front() + 1 == indexed.size();
  const size_t start = neighbours ? indexed.front() : 0;  // of the selected dims in the result

  AdvancedIndex result;
  std::vector<int64_t> place(x.sizes().size(), -1);  // of each whole dim in the result
  for (size_t d = 0; d < x.sizes().size(); ++d) {
    if (d == start) result.sizes.insert(result.sizes.end(), selected.begin(), selected.end());
    if (d < indices.size() && indices[d].defined()) continue;
    place[d] = static_cast<int64_t>(result.sizes.size());
    result.sizes.push_back(x.sizes()[d]);
  }

  const int64_t rank = static_cast<int64_t>(result.sizes.size());
  const size_t after = result.sizes.size() - start - selected.size();
  for (size_t d = 0; d < x.sizes().size(); ++d) {
    if (place[d] >= 0) {
      result.per_dim.push_back(positions(b, x.sizes()[d], place[d], rank));
      continue;
    }
    Tensor index = may_be_negative ? wrap_index(indices[d], x.sizes()[d]) : b.cast(indices[d], DType::I64);
    Sizes sizes = index.sizes();
    sizes.resize(sizes.size() + after, 1);
    result.per_dim.push_back(b.reshape(index, sizes));
  }
  return result;
}

std::vector<Tensor> indices_in_bounds(Tensor x, std::vector<Tensor> indices) {
  Builder& b = x.builder();
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    Tensor& index = indices[dim];
    if (!index.defined()) continue;
    const sym::Expr size = x.sizes()[dim];
    index = b.binary(ScalarOp::Min, b.binary(ScalarOp::Max, index, Scalar(-size)), Scalar(size - 1));
  }
  return indices;
}

bool is_mask(Tensor index) { return index.defined() && (index.dtype() == DType::Bool || index.dtype() == DType::U8); }

Tensor true_positions(Tensor is_true, sym::Expr count) {
  return is_true.builder().library("order.positions", {is_true}, {{.dtype = DType::I64, .sizes = {count}}}, {})[0];
}

std::vector<Tensor> positions_of_mask(Tensor mask, sym::Expr count) {
  Builder& b = mask.builder();
  std::vector<Tensor> columns(mask.sizes().size());
  Tensor rest = true_positions(b.reshape(b.cast(mask, DType::Bool), {mask.numel()}), count);
  for (size_t i = columns.size(); i-- > 0;) {
    // An empty tensor has no positions, and no size of 0 may divide.
    const sym::Expr size = sym::max(mask.sizes()[i], 1);
    columns[i] = i == 0 ? rest : b.binary(ScalarOp::Mod, rest, Scalar(size));
    rest = b.binary(ScalarOp::FloorDiv, rest, Scalar(size));
  }
  return columns;
}

AdvancedIndex index_one_dim(Tensor x, int64_t dim, Tensor index, bool may_be_negative) {
  std::vector<Tensor> indices(static_cast<size_t>(x.builder().wrap_dim(dim, x.rank())) + 1);
  indices.back() = index;
  return advanced_index(x, indices, may_be_negative);
}

}  // namespace toroid
