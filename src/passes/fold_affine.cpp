#include "passes/fold_affine.h"

#include <algorithm>
#include <map>

#include "graph/builder.h"
#include "passes/channels.h"
#include "passes/constant_values.h"
#include "passes/graph_copy.h"
#include "passes/uses.h"

namespace toroid {
namespace {

const Pointwise* as_pointwise(const Node& node) { return std::get_if<Pointwise>(&node.op); }

bool is_view(const Node& node) { return std::holds_alternative<Permute>(node.op) || std::holds_alternative<Reshape>(node.op); }

// Something done to a product: x * c, x / c, x + c, x - c, c - x, -x, or a view.
struct Step {
  NodeId node;
  std::optional<ValueId> constant = {};  // one number for each channel, or one for all; none for views and negations
  bool constant_first = false;           // c - x
};

std::optional<double> number_of(const Full& full) {
  if (const auto* number = std::get_if<double>(&full.value)) return *number;
  const auto* integer = std::get_if<sym::Expr>(&full.value);
  return integer != nullptr && integer->is_const() ? std::optional(static_cast<double>(integer->value())) : std::nullopt;
}

bool is_positive_number(const Graph& graph, ValueId id) {
  while (std::holds_alternative<Expand>(graph.producer(id).op) || std::holds_alternative<Cast>(graph.producer(id).op))
    id = graph.producer(id).inputs[0];
  const auto* full = std::get_if<Full>(&graph.producer(id).op);
  return full != nullptr && number_of(*full).value_or(0) > 0;
}

// May an element be 0? One of the model's tensors may; a sum with a positive number is taken for a variance with its epsilon.
bool may_vanish(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(id);
  if (is_view(node) || std::holds_alternative<Expand>(node.op) || std::holds_alternative<Cast>(node.op))
    return may_vanish(graph, node.inputs[0]);
  if (const auto* full = std::get_if<Full>(&node.op)) return number_of(*full).value_or(0) == 0;
  const Pointwise* pointwise = as_pointwise(node);
  if (pointwise == nullptr) return true;
  const auto vanishes = [&](ValueId input) { return may_vanish(graph, input); };
  switch (pointwise->op) {
    case ScalarOp::Sqrt: return vanishes(node.inputs[0]);
    case ScalarOp::Mul: return std::ranges::any_of(node.inputs, vanishes);
    case ScalarOp::Exp: return false;
    case ScalarOp::Add: return std::ranges::none_of(node.inputs, [&](ValueId input) { return is_positive_number(graph, input); });
    default: return true;
  }
}

// May an element of a scale be infinite, of weights that are finite? Filters of 0 would become NaN with it.
bool may_be_infinite(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(id);
  if (is_view(node) || std::holds_alternative<Expand>(node.op) || std::holds_alternative<Cast>(node.op))
    return may_be_infinite(graph, node.inputs[0]);
  const Pointwise* pointwise = as_pointwise(node);
  if (pointwise == nullptr) return false;
  if (pointwise->op == ScalarOp::Rsqrt || pointwise->op == ScalarOp::Reciprocal) return may_vanish(graph, node.inputs[0]);
  if (pointwise->op == ScalarOp::Div && may_vanish(graph, node.inputs[1])) return true;
  return std::ranges::any_of(node.inputs, [&](ValueId input) { return may_be_infinite(graph, input); });
}

// A product with all that can be folded into it, in order. Dims of the channels: of the product, and of the last result.
struct Chain {
  NodeId product;
  size_t channel, last_channel;
  std::vector<Step> steps;
  NodeId last() const { return steps.back().node; }
};

class ChainFinder {
 public:
  explicit ChainFinder(const Program& program) : graph_(program.graph), constancy_(constant_values(program)), uses_(graph_) {}

  std::vector<Chain> run() const {
    std::vector<Chain> chains;
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      if (std::optional<Chain> chain = chain_of(NodeId{static_cast<uint32_t>(i)})) chains.push_back(std::move(*chain));
    }
    return chains;
  }

 private:
  bool is_constant(ValueId id) const { return constancy_[static_cast<size_t>(id)] != Constancy::None; }

  // Is it a tensor of the model that nobody writes, seen through views?
  bool is_weight(ValueId id) const {
    while (is_view(graph_.producer(id))) id = graph_.producer(id).inputs[0];
    return std::holds_alternative<Constant>(graph_.producer(id).op) && is_constant(id);
  }

  // The dim of a product's channels; none where nothing can be folded into it.
  std::optional<size_t> channel_of(const Node& node) const {
    const auto* convolution = std::get_if<Convolution>(&node.op);
    if (convolution == nullptr && !std::holds_alternative<Matmul>(node.op)) return std::nullopt;
    const TensorType& type = graph_.type(node.outputs[0]);
    if ((type.dtype != DType::F32 && type.dtype != DType::F64) || !is_weight(node.inputs[1])) return std::nullopt;
    if (convolution == nullptr) return type.sizes.size() - 1;
    const bool has_fixed_bias = node.inputs.size() < 3 || is_constant(node.inputs[2]);
    return has_fixed_bias && convolution->groups.is_const() ? std::optional<size_t>(1) : std::nullopt;
  }

  std::optional<Chain> chain_of(NodeId product) const {
    std::optional<size_t> channel = channel_of(graph_.node(product));
    if (!channel) return std::nullopt;
    Chain chain{product, *channel, *channel, {}};
    size_t length = 0;  // up to the last arithmetic: views behind it stay as they are
    bool has_scale = false;
    ValueId value = graph_.node(product).outputs[0];
    while (const std::optional<NodeId> user = uses_.only_user(value)) {
      const Node& node = graph_.node(*user);
      if (is_view(node)) {
        channel = channel_behind(node, *channel);
        if (!channel) break;
        chain.steps.push_back({*user});
      } else {
        const std::optional<Step> step = arithmetic_step(*user, value, *channel);
        if (!step) break;
        chain.steps.push_back(*step);
        chain.last_channel = *channel;
        length = chain.steps.size();
        const ScalarOp op = as_pointwise(node)->op;
        const bool scales = op == ScalarOp::Mul || op == ScalarOp::Div;
        has_scale = has_scale || (scales && constancy_[static_cast<size_t>(*step->constant)] == Constancy::Weights);
      }
      value = node.outputs[0];
    }
    if (!has_scale) return std::nullopt;
    chain.steps.resize(length);
    return chain;
  }

  // Where a view shows the channels; none where it mixes them with other dims.
  std::optional<size_t> channel_behind(const Node& view, size_t channel) const {
    if (const auto* permute = std::get_if<Permute>(&view.op)) {
      return static_cast<size_t>(std::find(permute->dims.begin(), permute->dims.end(), static_cast<int>(channel)) - permute->dims.begin());
    }
    const Sizes& from = graph_.type(view.inputs[0]).sizes;
    const Sizes& to = graph_.type(view.outputs[0]).sizes;
    auto behind = [](const Sizes& sizes, size_t dim) {
      return sym::product(Sizes(sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, sizes.end()));
    };
    for (size_t d = 0; d < to.size(); ++d) {
      if (sym::known_eq(to[d], from[channel]) && sym::known_eq(behind(to, d), behind(from, channel))) return d;
    }
    return std::nullopt;
  }

  std::optional<Step> arithmetic_step(NodeId id, ValueId value, size_t channel) const {
    const Node& node = graph_.node(id);
    const Pointwise* pointwise = as_pointwise(node);
    if (pointwise == nullptr) return std::nullopt;
    if (pointwise->op == ScalarOp::Neg) return Step{id};
    const bool is_sum = pointwise->op == ScalarOp::Add || pointwise->op == ScalarOp::Sub;
    if (!is_sum && pointwise->op != ScalarOp::Mul && pointwise->op != ScalarOp::Div) return std::nullopt;
    const bool constant_first = node.inputs[1] == value;
    const std::optional<ValueId> constant = constant_of_channels(graph_, constancy_, node.inputs[constant_first ? 0 : 1], channel);
    if (!constant || (constant_first && pointwise->op == ScalarOp::Div)) return std::nullopt;
    if (pointwise->op == ScalarOp::Div && may_vanish(graph_, *constant)) return std::nullopt;
    if (!is_sum && may_be_infinite(graph_, *constant)) return std::nullopt;
    return Step{id, constant, constant_first};
  }

  const Graph& graph_;
  const std::vector<Constancy> constancy_;
  const Uses uses_;
};

// A program's constant values once more, in double: the arithmetic that leads to them too, so that they are rounded once.
class WideConstants {
 public:
  // Makes values of the copy.
  WideConstants(const Graph& graph, const GraphCopy& copy, Builder& builder) : graph_(graph), copy_(copy), builder_(builder) {}

  Tensor of(ValueId id) {
    if (const auto known = made_.find(id); known != made_.end()) return known->second;
    return made_[id] = make(id);
  }

 private:
  Tensor make(ValueId id) {
    const Node& node = graph_.producer(id);
    const TensorType& type = graph_.type(id);
    if (type.dtype == DType::F32 && node.outputs.size() == 1) {
      const TensorType wide = {.dtype = DType::F64, .sizes = type.sizes};
      if (const auto* full = std::get_if<Full>(&node.op)) return builder_.full(type.sizes, DType::F64, full->value);
      if (is_view(node) || std::holds_alternative<Expand>(node.op)) return builder_.emit(node.op, {of(node.inputs[0])}, {wide})[0];
      if (const Pointwise* pointwise = as_pointwise(node); pointwise != nullptr && is_arithmetic(pointwise->op)) {
        std::vector<Tensor> operands;
        for (ValueId input : node.inputs) operands.push_back(of(input));
        return builder_.pointwise(pointwise->op, std::move(operands));
      }
    }
    return builder_.cast(builder_.wrap(copy_.copied(id)), DType::F64);
  }

  static bool is_arithmetic(ScalarOp op) {
    return op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::Mul || op == ScalarOp::Div || op == ScalarOp::Neg ||
           op == ScalarOp::Sqrt || op == ScalarOp::Rsqrt;
  }

  const Graph& graph_;
  const GraphCopy& copy_;
  Builder& builder_;
  std::map<ValueId, Tensor> made_;
};

class ChainFolder {
 public:
  ChainFolder(Program& program, std::vector<Chain> chains)
      : graph_(program.graph),
        chains_(std::move(chains)),
        copy_(graph_),
        builder_(copy_.target(), *program.symbols, &program.guards),
        wide_(graph_, copy_, builder_) {}

  Graph run() {
    std::vector<const Chain*> ends(graph_.num_nodes());
    std::vector<bool> vanishes(graph_.num_nodes());
    for (const Chain& chain : chains_) {
      vanishes[static_cast<size_t>(chain.product)] = true;
      for (const Step& step : chain.steps) vanishes[static_cast<size_t>(step.node)] = true;
      ends[static_cast<size_t>(chain.last())] = &chain;
    }
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      if (!vanishes[i]) copy_.node(NodeId{static_cast<uint32_t>(i)});
      if (ends[i] != nullptr) fold(*ends[i]);
    }
    return copy_.finish();
  }

 private:
  // What a chain does: product * scale + shift, of shape [channels] and in double. Undefined: nothing.
  struct Affine {
    Tensor scale, shift;
  };

  void from_now_on(NodeId node) {
    builder_.set_provenance(graph_.node(node).provenance, graph_.value(graph_.node(node).outputs[0]).name + "_t");
  }

  Affine affine_of(const Chain& chain, sym::Expr channels) {
    const Node& product = graph_.node(chain.product);
    auto number = [&](double value) { return builder_.full({channels}, DType::F64, value); };
    Affine result;
    auto& [scale, shift] = result;
    auto times = [&](Tensor c) {
      scale = scale.defined() ? scale * c : c;
      if (shift.defined()) shift = shift * c;
    };
    auto plus = [&](Tensor c) { shift = shift.defined() ? shift + c : c; };
    if (product.inputs.size() > 2) shift = wide_.of(product.inputs[2]);
    for (const Step& step : chain.steps) {
      const Pointwise* pointwise = as_pointwise(graph_.node(step.node));
      if (pointwise == nullptr) continue;
      from_now_on(step.node);
      const Tensor c = step.constant ? of_channels(*step.constant, channels) : Tensor();
      switch (pointwise->op) {
        case ScalarOp::Mul: times(c); break;
        case ScalarOp::Div: times(number(1.0) / c); break;
        case ScalarOp::Add: plus(c); break;
        case ScalarOp::Neg: times(number(-1.0)); break;
        default:  // Sub
          if (step.constant_first) times(number(-1.0));
          plus(step.constant_first ? c : -c);
      }
    }
    return result;
  }

  Tensor of_channels(ValueId constant, sym::Expr channels) {
    if (const auto* full = std::get_if<Full>(&graph_.producer(constant).op)) return builder_.full({channels}, DType::F64, full->value);
    const Tensor wide = wide_.of(constant);
    return builder_.expand(builder_.reshape(wide, {wide.numel()}), {channels});
  }

  void fold(const Chain& chain) {
    const Node& product = graph_.node(chain.product);
    const DType dtype = graph_.type(product.outputs[0]).dtype;
    const sym::Expr channels = graph_.type(product.outputs[0]).sizes[chain.channel];
    const Affine affine = affine_of(chain, channels);

    from_now_on(chain.product);
    const Tensor left = builder_.wrap(copy_.copied(product.inputs[0])), right = scaled(product, affine.scale);
    Tensor shift = affine.shift.defined() ? builder_.cast(affine.shift, dtype) : Tensor(), value;
    if (const auto* c = std::get_if<Convolution>(&product.op)) {
      value = builder_.convolution(left, right, shift, c->stride, c->padding, c->dilation, c->transposed, c->output_padding, c->groups);
      shift = {};
    } else {
      value = builder_.matmul(left, right);
    }
    for (const Step& step : chain.steps) {
      const Node& view = graph_.node(step.node);
      if (!is_view(view)) continue;
      from_now_on(step.node);
      value = builder_.emit(view.op, {value}, {{.dtype = dtype, .sizes = graph_.type(view.outputs[0]).sizes}})[0];
    }
    if (shift.defined()) {
      from_now_on(chain.last());
      value = value + builder_.reshape(shift, sizes_along(value.type().sizes.size(), chain.last_channel, channels));
    }
    copy_.replace(graph_.node(chain.last()).outputs[0], value.id());
  }

  // [1, …, size, …, 1]
  static Sizes sizes_along(size_t rank, size_t dim, sym::Expr size) {
    Sizes sizes(rank, 1);
    sizes[dim] = size;
    return sizes;
  }

  // The filters with the channels scaled.
  Tensor scaled(const Node& product, Tensor scale) {
    const ValueId filters = product.inputs[1];
    const Sizes& sizes = graph_.type(filters).sizes;
    const auto* convolution = std::get_if<Convolution>(&product.op);
    if (convolution == nullptr) return scaled(filters, sizes.size() - 1, scale);  // [.., K, N]
    if (!convolution->transposed) return scaled(filters, 0, scale);               // [out, in / groups, ..]
    // [in, out / groups, ..]: each group of inputs has its own outputs.
    if (convolution->groups.is_const(1)) return scaled(filters, 1, scale);
    const sym::Expr groups = convolution->groups, in = sizes[0], out = sizes[1];
    const Tensor by_group = builder_.reshape(scale, {groups, 1, out});
    const Tensor by_filter = builder_.reshape(builder_.expand(by_group, {groups, sym::floor_div(in, groups), out}), {in * out});
    const Tensor flat = builder_.reshape(builder_.wrap(copy_.copied(filters)), {in * out, -1});
    return builder_.reshape(scaled(flat, 0, by_filter), sizes);
  }

  // In the order in which the filters lie in memory.
  Tensor scaled(ValueId filters, size_t dim, Tensor scale) {
    const Node& node = graph_.producer(filters);
    const auto* permute = std::get_if<Permute>(&node.op);
    if (permute == nullptr) return scaled(builder_.wrap(copy_.copied(filters)), dim, scale);
    const Tensor inner = scaled(node.inputs[0], static_cast<size_t>(permute->dims[dim]), scale);
    return builder_.permute(inner, Dims(permute->dims.begin(), permute->dims.end()));
  }
  Tensor scaled(Tensor filters, size_t dim, Tensor scale) {
    return builder_.library("weights.scale", {filters, scale}, {{.dtype = filters.dtype(), .sizes = filters.sizes()}},
                            {sym::Expr(static_cast<int64_t>(dim))})[0];
  }

  const Graph& graph_;
  const std::vector<Chain> chains_;
  GraphCopy copy_;
  Builder builder_;
  WideConstants wide_;
};

}  // namespace

bool fold_affine(Program& program) {
  if (returns_gradients(program)) return false;
  std::vector<Chain> chains = ChainFinder(program).run();
  if (chains.empty()) return false;
  program.graph = ChainFolder(program, std::move(chains)).run();
  return true;
}

}  // namespace toroid
