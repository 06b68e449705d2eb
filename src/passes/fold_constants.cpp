#include "passes/fold_constants.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "interp/evaluate.h"
#include "passes/dead_code.h"
#include "passes/graph_copy.h"
#include "support/match.h"

namespace toroid {
namespace {

// Elements of a tensor that is worth computing while compiling, and worth keeping in the program.
constexpr int64_t kMaxElements = 1 << 14;

bool is_static(const TensorType& type) {
  return std::all_of(type.sizes.begin(), type.sizes.end(), [](sym::Expr size) { return size.is_const(); });
}
bool are_static(const std::vector<sym::Expr>& exprs) {
  return std::all_of(exprs.begin(), exprs.end(), [](sym::Expr expr) { return expr.is_const(); });
}
bool is_static(const Scalar& scalar) {
  const auto* expr = std::get_if<sym::Expr>(&scalar);
  return expr == nullptr || expr->is_const();
}

// Operations the evaluator may run while compiling, if sizes and attributes are known.
bool is_foldable(const Op& op) {
  return has_fixed_attributes(op) && is_any<Full, Iota, Pointwise, Cast, Bitcast, Expand, Permute, Reshape, Slice, Remap, Pad, Cat, Gather,
                                            Scatter, Reduce, Scan, Sort>(op);
}

// Work that a kernel had better not repeat for each element of each call.
bool is_costly(const Op& op) {
  if (const auto* pointwise = std::get_if<Pointwise>(&op)) {
    switch (pointwise->op) {
      case ScalarOp::Add:
      case ScalarOp::Sub:
      case ScalarOp::Mul:
      case ScalarOp::Neg:
      case ScalarOp::Abs:
      case ScalarOp::Min:
      case ScalarOp::Max:
      case ScalarOp::BitAnd:
      case ScalarOp::BitOr:
      case ScalarOp::BitXor:
      case ScalarOp::BitNot:
      case ScalarOp::Eq:
      case ScalarOp::Ne:
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Gt:
      case ScalarOp::Ge:
      case ScalarOp::Where: return false;
      default: return true;
    }
  }
  return is_any<Gather, Scatter, Reduce, Scan, Sort>(op);
}

Scalar first_element(const HostTensor& tensor) {
  if (tensor.dtype() == DType::Bool) return tensor.bool_at(0);
  if (is_floating(tensor.dtype())) return tensor.double_at(0);
  return sym::Expr(tensor.int_at(0));
}

class GraphFolder {
 public:
  GraphFolder(Program& program, const Graph& graph)
      : program_(program), graph_(graph), uniform_(graph.num_values()), known_(graph.num_values()), costly_(graph.num_values()) {}

  // The folded graph, or nothing if there was nothing to fold.
  std::optional<Graph> run() {
    for (size_t i = 0; i < graph_.num_nodes(); ++i) examine(graph_.node(NodeId{static_cast<uint32_t>(i)}));
    const std::vector<ValueId> wanted = values_to_compute();
    const std::vector<HostTensor> computed = compute(wanted);

    GraphCopy copy(graph_);
    bool folded = false;
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const Node& node = graph_.node(id);
      std::vector<std::optional<Op>> folds;
      for (ValueId output : node.outputs) folds.push_back(fold_of(output, wanted, computed));
      const auto count = std::count_if(folds.begin(), folds.end(), [](const auto& fold) { return fold.has_value(); });
      if (count == 0 || count < static_cast<std::ptrdiff_t>(folds.size())) copy.node(id);
      for (size_t k = 0; k < folds.size(); ++k) {
        if (folds[k]) copy.substitute(node.outputs[k], std::move(*folds[k]));
      }
      folded = folded || count > 0;
    }
    if (!folded) return std::nullopt;
    return copy.finish();
  }

 private:
  std::optional<Scalar>& uniform(ValueId id) { return uniform_[static_cast<size_t>(id)]; }
  std::vector<bool>::reference known(ValueId id) { return known_[static_cast<size_t>(id)]; }
  std::vector<bool>::reference costly(ValueId id) { return costly_[static_cast<size_t>(id)]; }

  // What takes the place of a value, if anything does.
  std::optional<Op> fold_of(ValueId id, const std::vector<ValueId>& wanted, const std::vector<HostTensor>& computed) {
    if (uniform(id)) {
      if (std::holds_alternative<Full>(graph_.producer(id).op)) return std::nullopt;
      return Full{*uniform(id)};
    }
    const auto at = std::find(wanted.begin(), wanted.end(), id);
    if (at == wanted.end()) return std::nullopt;
    return constant(computed[static_cast<size_t>(at - wanted.begin())]);
  }

  void examine(const Node& node) {
    if (node.outputs.empty()) return;
    find_uniform(node);
    bool all_known = is_foldable(node.op);
    bool any_costly = is_costly(node.op);
    for (ValueId input : node.inputs) {
      all_known = all_known && known(input);
      any_costly = any_costly || costly(input);
    }
    for (ValueId output : node.outputs) {
      const TensorType& type = graph_.type(output);
      known(output) = all_known && is_static(type) && type.numel().value() <= kMaxElements;
      costly(output) = any_costly && !uniform(output);
    }
  }

  // Element by element operations on tensors with one value have one value, and views show it.
  void find_uniform(const Node& node) {
    if (const auto* full = std::get_if<Full>(&node.op)) {
      if (is_foldable(node.op)) uniform(node.outputs[0]) = full->value;
      return;
    }
    if (!is_any<Pointwise, Cast, Bitcast, Expand, Reshape, Permute, Slice, Remap>(node.op)) return;
    for (ValueId input : node.inputs) {
      if (!uniform(input)) return;
    }
    if (!is_any<Pointwise, Cast, Bitcast>(node.op)) {
      uniform(node.outputs[0]) = uniform(node.inputs[0]);
      return;
    }
    Program one_element;
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) {
      const NodeId full = one_element.graph.add_node(Full{*uniform(input)}, {}, {{.dtype = graph_.type(input).dtype}});
      operands.push_back(one_element.graph.node(full).outputs[0]);
    }
    const NodeId result = one_element.graph.add_node(node.op, operands, {{.dtype = graph_.type(node.outputs[0]).dtype}});
    one_element.graph.outputs = one_element.graph.node(result).outputs;
    one_element.outputs.resize(1);
    uniform(node.outputs[0]) = first_element(evaluate(one_element, {})[0]);
  }

  // Known values that took work and that something unknown uses.
  std::vector<ValueId> values_to_compute() {
    std::vector<ValueId> wanted;
    auto want = [&](ValueId id) {
      // A view of the result costs nothing and may be much larger.
      while (is_any<Expand, Reshape, Permute>(graph_.producer(id).op)) id = graph_.producer(id).inputs[0];
      if (!known(id) || !costly(id) || uniform(id)) return;
      if (std::find(wanted.begin(), wanted.end(), id) == wanted.end()) wanted.push_back(id);
    };
    for (const Node& node : graph_.nodes()) {
      if (node.outputs.empty() || known(node.outputs[0])) continue;
      for (ValueId input : node.inputs) want(input);
    }
    for (ValueId output : graph_.outputs) want(output);
    return wanted;
  }

  std::vector<HostTensor> compute(const std::vector<ValueId>& wanted) {
    if (wanted.empty()) return {};
    Program part;
    std::vector<ValueId> new_id(graph_.num_values());
    for (const Node& node : graph_.nodes()) {
      if (node.outputs.empty() || !known(node.outputs[0])) continue;
      std::vector<ValueId> inputs;
      std::vector<TensorType> types;
      for (ValueId input : node.inputs) inputs.push_back(new_id[static_cast<size_t>(input)]);
      for (ValueId output : node.outputs) types.push_back(graph_.type(output));
      const NodeId copy = part.graph.add_node(node.op, std::move(inputs), std::move(types));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        new_id[static_cast<size_t>(node.outputs[i])] = part.graph.node(copy).outputs[i];
      }
    }
    for (ValueId id : wanted) part.graph.outputs.push_back(new_id[static_cast<size_t>(id)]);
    part.outputs.resize(wanted.size());
    remove_dead_code(part);
    return evaluate(part, {});
  }

  Op constant(const HostTensor& tensor) {
    if (tensor.numel() == 1) return Full{first_element(tensor)};
    auto owner = std::make_shared<HostTensor>(tensor);
    ConstantData data;
    data.type.dtype = tensor.dtype();
    data.type.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    data.bytes = owner->bytes();
    data.owner = owner;
    return Constant{program_.add_constant(std::move(data))};
  }

  Program& program_;
  const Graph& graph_;
  std::vector<std::optional<Scalar>> uniform_;  // the value of all elements
  std::vector<bool> known_;                     // can be computed without inputs and weights
  std::vector<bool> costly_;                    // … and is work
};

bool fold_graph(Program& program, Graph& graph) {
  std::optional<Graph> folded = GraphFolder(program, graph).run();
  if (!folded) return false;
  graph = std::move(*folded);
  return true;
}

}  // namespace

bool has_fixed_attributes(const Op& op) {
  if (const auto* full = std::get_if<Full>(&op)) return is_static(full->value);
  if (const auto* slice = std::get_if<Slice>(&op)) return are_static(slice->starts) && are_static(slice->steps);
  if (const auto* pad = std::get_if<Pad>(&op)) return are_static(pad->low) && is_static(pad->value);
  if (const auto* remap = std::get_if<Remap>(&op)) {
    for (sym::Expr index : remap->index) {
      for (sym::Expr symbol : sym::free_symbols(index)) {
        if (std::find(remap->axes.begin(), remap->axes.end(), symbol) == remap->axes.end()) return false;
      }
    }
  }
  if (const auto* convolution = std::get_if<Convolution>(&op)) {
    return are_static(convolution->stride) && are_static(convolution->padding) && are_static(convolution->dilation) &&
           are_static(convolution->output_padding) && convolution->groups.is_const();
  }
  if (is_collective(op)) return false;  // which a process does not compute by itself
  if (const auto* library = std::get_if<Library>(&op)) {
    return std::all_of(library->attributes.begin(), library->attributes.end(), [](const Scalar& each) { return is_static(each); });
  }
  return true;
}

bool fold_constants(Program& program) {
  bool changed = fold_graph(program, program.graph);
  for (Graph& subgraph : program.subgraphs) changed = fold_graph(program, subgraph) || changed;
  if (changed) remove_dead_code(program);
  return changed;
}

}  // namespace toroid
