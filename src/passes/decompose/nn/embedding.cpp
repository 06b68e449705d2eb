// Embedding tables: rows by index, sums of bags of rows, one-hot vectors.
#include "passes/decompose/nn/embedding.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/precision.h"

namespace toroid {

Tensor bag_of_index(sym::Expr n, Tensor offsets) {
  Builder& b = offsets.builder();
  Tensor starts = b.scatter(b.full({n + 1}, DType::I64, sym::Expr(0)), b.scalar(DType::I64, sym::Expr(1)), {b.cast(offsets, DType::I64)},
                            ScatterMode::Add);
  return b.slice(b.scan(ScanOp::Sum, starts, 0)[0] - b.scalar(DType::I64, sym::Expr(1)), 0, 0, n);
}

namespace {

Tensor rows_of(Tensor weight, Tensor indices) { return weight.builder().gather(weight, index_one_dim(weight, 0, indices).per_dim); }

std::vector<Tensor> embedding(Decomposer&, const Args& a) { return {rows_of(a.tensor("weight"), a.tensor("indices"))}; }

std::vector<Tensor> one_hot(Decomposer& d, const Args& a) {
  const int64_t classes = a.constant("num_classes");
  if (classes < 0) {
    throw Error(ErrorKind::Unsupported, "one_hot without num_classes has a size that depends on the data").help("pass num_classes");
  }
  Tensor index = d.b.unsqueeze(a.tensor("self"), -1);
  return {d.b.cast(d.b.binary(ScalarOp::Eq, index, d.b.arange(classes)), DType::I64)};
}

// ---- embedding_bag --------------------------------------------------------------------------------------------------

enum class BagMode { Sum = 0, Mean = 1, Max = 2 };

struct Bags {
  BagMode mode;
  Tensor weight, indices, offsets;
  Tensor counted;  // Bool [n]: false for padding; undefined when everything counts
  sym::Expr count;
};

// Bags of one fixed length, offsets 0, k, 2k, …: what F.embedding_bag makes of a matrix of indices.
std::optional<sym::Expr> fixed_length(const Bags& bags) {
  const Graph& graph = bags.offsets.builder().graph();
  const Node* node = &graph.producer(bags.offsets.id());
  sym::Expr length = 1;
  if (const auto* multiply = std::get_if<Pointwise>(&node->op); multiply && multiply->op == ScalarOp::Mul) {
    for (size_t i = 0; i < 2; ++i) {
      const auto* factor = std::get_if<Full>(&graph.producer(node->inputs[i]).op);
      const Node& other = graph.producer(node->inputs[1 - i]);
      const auto* value = factor != nullptr ? std::get_if<sym::Expr>(&factor->value) : nullptr;
      if (value == nullptr || !std::holds_alternative<Iota>(other.op)) continue;
      length = *value;
      node = &other;
      break;
    }
  }
  if (!std::holds_alternative<Iota>(node->op) || !sym::known_eq(length * bags.count, bags.indices.size(0))) {
    return std::nullopt;
  }
  return length;
}

// Combines rows [n, …] per bag into [bags, …].
class BagReducer {
 public:
  explicit BagReducer(const Bags& bags) : bags_(bags), length_(fixed_length(bags)) {
    if (!length_) bag_ = bag_of_index(bags.indices.size(0), bags.offsets);
  }

  Tensor operator()(ReduceOp op, Tensor rows) const {
    Builder& b = rows.builder();
    Sizes sizes = rows.sizes();
    if (length_) {
      sizes[0] = bags_.count;
      sizes.insert(sizes.begin() + 1, *length_);
      return b.reduce(op, b.reshape(rows, sizes), {1})[0];
    }
    sizes[0] = bags_.count;
    std::vector<Tensor> index = {bag_};
    if (rows.rank() == 2) index = {b.unsqueeze(bag_, 1), positions(b, rows.size(1), 1, 2)};
    const bool add = op == ReduceOp::Sum, largest = op == ReduceOp::Max;
    const Scalar identity = add ? Scalar(0.0) : largest ? lowest_value(rows.dtype()) : highest_value(rows.dtype());
    const ScatterMode mode = add ? ScatterMode::Add : largest ? ScatterMode::Max : ScatterMode::Min;
    return b.scatter(b.full(sizes, rows.dtype(), identity), rows, index, mode);
  }

  Tensor bag_of_each() const { return length_ ? by_length() : bag_; }

 private:
  Tensor by_length() const {
    Builder& b = bags_.indices.builder();
    return b.binary(ScalarOp::FloorDiv, b.arange(bags_.indices.size(0)), Scalar(*length_));
  }

  const Bags& bags_;
  std::optional<sym::Expr> length_;
  Tensor bag_;
};

// For each column of a bag the index of the row that has the maximum; 0 for empty bags.
Tensor rows_of_maxima(const Bags& bags, const BagReducer& reduce, Tensor rows, Tensor maxima) {
  Builder& b = rows.builder();
  const sym::Expr n = bags.indices.size(0);
  Tensor own = b.gather(maxima, {b.unsqueeze(reduce.bag_of_each(), 1), positions(b, maxima.size(1), 1, 2)});
  Tensor at = b.where(b.pointwise(ScalarOp::Eq, {rows, own}), b.unsqueeze(b.arange(n), 1), b.scalar(DType::I64, n));
  Tensor first = reduce(ReduceOp::Min, at);
  Tensor is_some = b.binary(ScalarOp::Lt, first, Scalar(n));
  const Tensor zero = b.scalar(DType::I64, sym::Expr(0));
  return b.where(is_some, b.gather(bags.indices, {b.where(is_some, first, zero)}), zero);
}

// (result, bag of each index, size of each bag, rows of maxima). Backends leave the last three empty where they do not
// need them for a backward pass; their sizes follow the model.
std::vector<Tensor> bag_results(Decomposer& d, const Bags& bags, Tensor per_sample_weights) {
  Builder& b = d.b;
  const BagReducer reduce(bags);
  const sym::Expr n = bags.indices.size(0);
  Tensor rows = wide(rows_of(bags.weight, bags.indices));
  if (per_sample_weights.defined()) rows = rows * b.unsqueeze(wide(per_sample_weights), 1);
  if (bags.counted.defined()) {
    const Scalar nothing = bags.mode == BagMode::Max ? lowest_value(rows.dtype()) : Scalar(0.0);
    rows = b.where(b.unsqueeze(bags.counted, 1), rows, b.scalar(rows.dtype(), nothing));
  }
  Tensor ones = bags.counted.defined() ? b.cast(bags.counted, DType::I64) : b.full({n}, DType::I64, sym::Expr(1));
  Tensor size = reduce(ReduceOp::Sum, ones);
  Tensor combined = reduce(bags.mode == BagMode::Max ? ReduceOp::Max : ReduceOp::Sum, rows);
  Tensor result = combined;
  if (bags.mode == BagMode::Mean) {
    Tensor divisor = b.binary(ScalarOp::Max, size, Scalar(sym::Expr(1)));
    result = combined / b.unsqueeze(b.cast(divisor, combined.dtype()), 1);
  } else if (bags.mode == BagMode::Max) {
    Tensor is_empty = b.unsqueeze(b.binary(ScalarOp::Eq, size, Scalar(sym::Expr(0))), 1);
    result = b.where(is_empty, b.scalar(combined.dtype(), 0.0), combined);
  }
  auto sized_as_recorded = [&](size_t i, Tensor x) {
    if (i >= d.recorded.size() || x.rank() == 0) return x;
    const TensorType& type = d.recorded[i];
    const bool same = type.rank() == x.rank() && sym::known_eq(type.numel(), x.numel());
    return same ? b.cast(x, type.dtype) : b.full(type.sizes, type.dtype, sym::Expr(0));
  };
  Tensor maxima = bags.mode == BagMode::Max ? rows_of_maxima(bags, reduce, rows, combined) : b.full({bags.count}, DType::I64, sym::Expr(0));
  return {b.cast(result, bags.weight.dtype()), sized_as_recorded(1, reduce.bag_of_each()), sized_as_recorded(2, size),
          sized_as_recorded(3, maxima)};
}

std::vector<Tensor> embedding_bag(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Bags bags;
  bags.weight = a.tensor("weight");
  bags.indices = b.cast(a.tensor("indices"), DType::I64);
  bags.offsets = b.cast(a.tensor("offsets"), DType::I64);
  const int64_t mode = a.constant("mode");
  if (mode < 0 || mode > 2) throw Error(ErrorKind::InvalidModel, fmt::format("embedding_bag mode {}", mode));
  bags.mode = static_cast<BagMode>(mode);
  bags.count = bags.offsets.size(0) - (a.flag("include_last_offset") ? 1 : 0);
  bags.offsets = b.slice(bags.offsets, 0, 0, bags.count);
  if (a.has("padding_idx")) {
    // In the overload with an optional padding_idx, -1 is the last row; in the others it is none.
    const bool may_wrap = a.schema().name == "aten::embedding_bag.padding_idx";
    sym::Expr padding = a.integer("padding_idx");
    if (padding.is_const() && padding.value() < 0 && may_wrap) padding = padding + bags.weight.size(0);
    if (!padding.is_const() || padding.value() >= 0) {
      bags.counted = b.binary(ScalarOp::Ne, bags.indices, Scalar(padding));
    }
  }
  return bag_results(d, bags, a.optional_tensor("per_sample_weights"));
}

constexpr DecompositionRow kRows[] = {
    {"aten::embedding", embedding},          {"aten::one_hot", one_hot},
    {"aten::embedding_bag", embedding_bag},  {"aten::embedding_bag.padding_idx", embedding_bag},
    {"aten::_embedding_bag", embedding_bag}, {"aten::_embedding_bag_forward_only", embedding_bag},
};

}  // namespace

std::span<const DecompositionRow> embedding_rows() { return kRows; }

}  // namespace toroid
