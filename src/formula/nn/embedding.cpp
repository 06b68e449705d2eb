#include "formula/nn/embedding.h"

#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/precision.h"

namespace toroid::formula {

Tensor embedding(Tensor weight, Tensor indices) { return weight.builder().gather(weight, index_one_dim(weight, 0, indices).per_dim); }

Tensor one_hot(Tensor indices, int64_t classes) {
  Builder& b = indices.builder();
  Tensor all = b.arange(classes);
  Tensor index = b.gather(all, {b.unsqueeze(indices, -1)});  // the index itself; others than 0 to classes - 1 are errors
  return b.cast(b.binary(ScalarOp::Eq, index, all), DType::I64);
}

// ---- bags -----------------------------------------------------------------------------------------------------------

Tensor bag_of_index(sym::Expr n, Tensor offsets) {
  Builder& b = offsets.builder();
  Tensor starts = b.scatter(b.full({n + 1}, DType::I64, sym::Expr(0)), b.scalar(DType::I64, sym::Expr(1)), {b.cast(offsets, DType::I64)},
                            ScatterMode::Add);
  return b.slice(b.scan(ScanOp::Sum, starts, 0)[0] - b.scalar(DType::I64, sym::Expr(1)), 0, 0, n);
}

namespace {

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

EmbeddingBag combined_bags(const Bags& bags, Tensor per_sample_weights) {
  Builder& b = bags.weight.builder();
  const BagReducer reduce(bags);
  const sym::Expr n = bags.indices.size(0);
  Tensor rows = wide(embedding(bags.weight, bags.indices));
  if (per_sample_weights.defined()) rows = rows * b.unsqueeze(wide(per_sample_weights), 1);
  if (bags.counted.defined()) {
    const Scalar nothing = bags.mode == BagMode::Max ? lowest_value(rows.dtype()) : Scalar(0.0);
    rows = b.where(b.unsqueeze(bags.counted, 1), rows, b.scalar(rows.dtype(), nothing));
  }
  Tensor ones = bags.counted.defined() ? b.cast(bags.counted, DType::I64) : b.full({n}, DType::I64, sym::Expr(1));
  Tensor size = reduce(ReduceOp::Sum, ones);
  Tensor of_bags = reduce(bags.mode == BagMode::Max ? ReduceOp::Max : ReduceOp::Sum, rows);
  Tensor result = of_bags;
  if (bags.mode == BagMode::Mean) {
    Tensor divisor = b.binary(ScalarOp::Max, size, Scalar(sym::Expr(1)));
    result = of_bags / b.unsqueeze(b.cast(divisor, of_bags.dtype()), 1);
  } else if (bags.mode == BagMode::Max) {
    Tensor is_empty = b.unsqueeze(b.binary(ScalarOp::Eq, size, Scalar(sym::Expr(0))), 1);
    result = b.where(is_empty, b.scalar(of_bags.dtype(), 0.0), of_bags);
  }
  Tensor maxima = bags.mode == BagMode::Max ? rows_of_maxima(bags, reduce, rows, of_bags) : b.full({bags.count}, DType::I64, sym::Expr(0));
  return {b.cast(result, bags.weight.dtype()), reduce.bag_of_each(), size, maxima};
}

}  // namespace

EmbeddingBag embedding_bag(Tensor weight, Tensor indices, Tensor offsets, Tensor per_sample_weights, const BagOptions& options) {
  Builder& b = weight.builder();
  Bags bags;
  bags.weight = weight;
  bags.indices = b.cast(indices, DType::I64);
  bags.offsets = b.cast(offsets, DType::I64);
  bags.mode = options.mode;
  bags.count = bags.offsets.size(0) - (options.has_last_offset ? 1 : 0);
  bags.offsets = b.slice(bags.offsets, 0, 0, bags.count);
  if (options.padding_index) bags.counted = b.binary(ScalarOp::Ne, bags.indices, Scalar(*options.padding_index));
  return combined_bags(bags, per_sample_weights);
}

}  // namespace toroid::formula
