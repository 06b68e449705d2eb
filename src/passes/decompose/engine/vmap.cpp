#include "passes/decompose/engine/vmap.h"

#include <algorithm>

#include "base/error.h"
#include "support/match.h"

namespace toroid {
namespace {

// Kernels that take any leading dims alike among their operands (library/library_ops.h).
bool takes_batches(const Library& library) {
  constexpr std::string_view kOfRows[] = {"order.topk", "order.kth", "order.median", "order.mode"};
  return library.name.starts_with("linalg.") || std::find(std::begin(kOfRows), std::end(kOfRows), library.name) != std::end(kOfRows);
}

class Batching {
 public:
  Batching(Builder& b, const Graph& body, sym::Expr count, bool draws_the_same)
      : b_(b), body_(body), count_(count), draws_the_same_(draws_the_same), values_(body.num_values()) {}

  std::optional<std::vector<Tensor>> run(const std::vector<Tensor>& mapped, const std::vector<Tensor>& others) {
    TOROID_CHECK(body_.inputs.size() == mapped.size() + others.size(), "a vmap's body takes {} tensors of {}", body_.inputs.size(),
                 mapped.size() + others.size());
    if (!body_.bindings.empty()) return std::nullopt;
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      const bool is_mapped = i < mapped.size();
      at(body_.inputs[i]) = {is_mapped ? mapped[i] : others[i - mapped.size()], is_mapped};
    }
    for (const Node& node : body_.nodes()) {
      if (!std::holds_alternative<Input>(node.op) && !add(node)) return std::nullopt;
    }
    std::vector<Tensor> results;
    for (ValueId output : body_.outputs) results.push_back(batched(output));
    return results;
  }

 private:
  struct Value {
    Tensor tensor;
    bool is_batched = false;
  };

  Value& at(ValueId id) { return values_[static_cast<size_t>(id)]; }

  Sizes with_batch(const Sizes& sizes) const {
    Sizes all = {count_};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return all;
  }

  // The value with the batch as its first dim.
  Tensor batched(ValueId id) {
    const Value value = at(id);
    if (value.is_batched) return value.tensor;
    return b_.expand(b_.unsqueeze(value.tensor, 0), with_batch(value.tensor.sizes()));
  }
  std::vector<Tensor> all_batched(const Node& node) {
    std::vector<Tensor> tensors;
    for (ValueId input : node.inputs) tensors.push_back(batched(input));
    return tensors;
  }

  bool add(const Node& node) {
    const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return at(input).is_batched; });
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) {
      const TensorType& type = body_.type(output);
      types.push_back({.dtype = type.dtype, .sizes = depends ? with_batch(type.sizes) : type.sizes});
    }
    std::optional<std::vector<Tensor>> results;
    if (std::holds_alternative<HigherOrder>(node.op)) return false;
    if (std::holds_alternative<RandomState>(node.op) && !draws_the_same_) return false;
    if (!depends) {
      std::vector<Tensor> inputs;
      for (ValueId input : node.inputs) inputs.push_back(at(input).tensor);
      results = b_.emit(node.op, std::move(inputs), std::move(types));
    } else {
      results = of_batch(node, std::move(types));
    }
    if (!results) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) at(node.outputs[i]) = {(*results)[i], depends};
    return true;
  }

  static std::vector<int> behind_batch(const std::vector<int>& dims) {
    std::vector<int> moved;
    for (int dim : dims) moved.push_back(dim + 1);
    return moved;
  }
  static std::vector<sym::Expr> after(sym::Expr first, const std::vector<sym::Expr>& rest) {
    std::vector<sym::Expr> all = {first};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  // Each slice's number, to index the batch: [count, 1, …] of this rank.
  Tensor numbers(int64_t rank) {
    Sizes sizes(static_cast<size_t>(rank), 1);
    sizes[0] = count_;
    return b_.reshape(b_.arange(count_), sizes);
  }

  // An operation with the batch as its first dim too.
  std::vector<Tensor> as(Op op, const Node& node, std::vector<TensorType> types) {
    return b_.emit(std::move(op), all_batched(node), std::move(types));
  }

  std::optional<std::vector<Tensor>> of_batch(const Node& node, std::vector<TensorType> types) {
    using Results = std::optional<std::vector<Tensor>>;
    return match(
        node.op,
        [&](const Permute& op) -> Results {
          std::vector<int> dims = behind_batch(op.dims);
          dims.insert(dims.begin(), 0);
          return as(Permute{std::move(dims)}, node, std::move(types));
        },
        [&](const Slice& op) -> Results {
          return as(Slice{after(0, op.starts), after(1, op.steps)}, node, std::move(types));
        },
        [&](const Remap& op) -> Results {
          const sym::Expr axis = b_.axis(count_);
          return as(Remap{after(axis, op.axes), after(axis, op.index)}, node, std::move(types));
        },
        [&](const Pad& op) -> Results {
          return as(Pad{after(0, op.low), op.value}, node, std::move(types));
        },
        [&](const Cat& op) -> Results { return as(Cat{op.dim + 1}, node, std::move(types)); },
        [&](const Reduce& op) -> Results {
          return as(Reduce{op.op, behind_batch(op.dims)}, node, std::move(types));
        },
        [&](const Scan& op) -> Results {
          return as(Scan{op.op, op.dim + 1}, node, std::move(types));
        },
        [&](const Sort& op) -> Results {
          return as(Sort{op.dim + 1, op.descending, op.stable}, node, std::move(types));
        },
        [&](const Gather&) -> Results { return std::vector<Tensor>{gather(node)}; },
        [&](const Scatter& op) -> Results { return std::vector<Tensor>{scatter(node, op.mode)}; },
        [&](const Matmul&) -> Results { return std::vector<Tensor>{matmul(node)}; },
        [&](const Convolution& op) -> Results { return convolution(node, op); },
        [&](const Library& op) -> Results {
          if (!takes_batches(op)) return std::nullopt;
          return as(op, node, std::move(types));
        },
        [&](const Input&) -> Results { return std::nullopt; }, [&](const Constant&) -> Results { return std::nullopt; },
        [&](const Aten&) -> Results { return std::nullopt; }, [&](const HigherOrder&) -> Results { return std::nullopt; },
        [&](const RandomState&) -> Results { return std::nullopt; }, [&](const Full&) -> Results { return std::nullopt; },
        [&](const Iota&) -> Results { return std::nullopt; },
        // Pointwise, Cast, Bitcast, Expand, Reshape, Attention: what they do follows from the types.
        [&](const auto& op) -> Results { return as(op, node, std::move(types)); });
  }

  // Of one tensor for all slices, the slices' own indices are enough.
  Tensor gather(const Node& node) {
    const Value x = at(node.inputs[0]);
    const int64_t rank = body_.type(node.outputs[0]).rank() + 1;
    std::vector<Tensor> indices;
    if (x.is_batched) indices.push_back(numbers(rank));
    for (size_t i = 1; i < node.inputs.size(); ++i) indices.push_back(at(node.inputs[i]).tensor);
    if (indices.empty() || (!x.is_batched && node.inputs.size() == 1)) return x.tensor;
    Tensor result = b_.gather(x.tensor, indices);
    return b_.expand(result, with_batch(body_.type(node.outputs[0]).sizes));
  }

  Tensor scatter(const Node& node, ScatterMode mode) {
    const int64_t rank = body_.type(node.inputs[1]).rank() + 1;
    std::vector<Tensor> indices = {numbers(rank)};
    for (size_t i = 2; i < node.inputs.size(); ++i) indices.push_back(batched(node.inputs[i]));
    return b_.scatter(batched(node.inputs[0]), batched(node.inputs[1]), indices, mode);
  }

  // Slices that meet one matrix on the right are one product of more rows.
  Tensor matmul(const Node& node) {
    const Value left = at(node.inputs[0]), right = at(node.inputs[1]);
    if (right.is_batched || body_.type(node.inputs[1]).rank() != 2) return b_.matmul(batched(node.inputs[0]), batched(node.inputs[1]));
    const sym::Expr rows = left.tensor.size(1), depth = left.tensor.size(2), columns = right.tensor.size(1);
    Tensor product = b_.matmul(b_.reshape(left.tensor, {count_ * rows, depth}), right.tensor);
    return b_.reshape(product, {count_, rows, columns});
  }

  // Slices of images become more images.
  std::optional<std::vector<Tensor>> convolution(const Node& node, const Convolution& op) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (at(node.inputs[i]).is_batched) return std::nullopt;
    }
    auto joined = [&](const Sizes& sizes) {
      Sizes all(sizes.begin(), sizes.end());
      all[0] = all[0] * count_;
      return all;
    };
    std::vector<Tensor> inputs = {b_.reshape(batched(node.inputs[0]), joined(body_.type(node.inputs[0]).sizes))};
    for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(at(node.inputs[i]).tensor);
    const TensorType& type = body_.type(node.outputs[0]);
    Tensor result = b_.emit(op, std::move(inputs), {{.dtype = type.dtype, .sizes = joined(type.sizes)}})[0];
    return std::vector<Tensor>{b_.reshape(result, with_batch(type.sizes))};
  }

  Builder& b_;
  const Graph& body_;
  const sym::Expr count_;
  const bool draws_the_same_;
  std::vector<Value> values_;
};

}  // namespace

std::optional<std::vector<Tensor>> map_all_slices(Builder& b, const Graph& body, sym::Expr count, const std::vector<Tensor>& mapped,
                                                  const std::vector<Tensor>& others, bool draws_the_same) {
  return Batching(b, body, count, draws_the_same).run(mapped, others);
}

}  // namespace toroid
