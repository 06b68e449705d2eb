#include "passes/decompose/engine/forward_mode.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/nn/attention.h"
#include "support/match.h"

namespace toroid {
namespace {

constexpr std::string_view kDual = "forward.dual";            // (primal, tangent), of a level
constexpr std::string_view kWithoutTangent = "forward.stop";  // (primal)

int64_t level_of(const Op& op) { return std::get<sym::Expr>(std::get<Library>(op).attributes[0]).value(); }

// The tangents of one level.
class Tangents {
 public:
  Tangents(Builder& b, int64_t level) : b_(b), level_(level) {}

  // Undefined: 0. From the first node to the last, because a model may be deep.
  Tensor of(ValueId id) {
    std::vector<ValueId> open = {id};
    std::vector<NodeId> nodes;
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const NodeId producer = b_.graph().value(value).producer;
      if (tangents_.count(value) != 0 || !seen_.insert(producer).second) continue;
      nodes.push_back(producer);
      const std::vector<ValueId>& inputs = b_.graph().node(producer).inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    std::sort(nodes.begin(), nodes.end());
    for (NodeId node : nodes) derive(Node(b_.graph().node(node)));  // a copy: rules add nodes
    return tangents_.at(id);
  }

 private:
  using Results = std::vector<Tensor>;

  void derive(const Node& node) {
    Results results(node.outputs.size());
    if (is_library(node.op, kDual) && level_of(node.op) == level_) {
      results[0] = b_.wrap(node.inputs[1]);
    } else if (is_library(node.op, kDual)) {
      results[0] = tangents_.at(node.inputs[0]);
    } else if (is_library(node.op, kWithoutTangent)) {
      const int64_t stopped = level_of(node.op);
      if (stopped != level_ && stopped != kAllLevels) results[0] = tangents_.at(node.inputs[0]);
    } else if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return tangents_.at(input).defined(); }) &&
               std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return is_float(output); })) {
      results = of_node(node);
      results.resize(node.outputs.size());
    }
    for (size_t i = 0; i < results.size(); ++i) tangents_[node.outputs[i]] = results[i];
  }

  bool is_float(ValueId id) const { return is_floating(b_.graph().type(id).dtype); }

  // Of the node at hand.
  struct Operand {
    Tensor x, tangent;
    Tensor tangent_or_zero() const { return tangent.defined() ? tangent : x.builder().full(x.sizes(), x.dtype(), 0.0); }
  };

  Results of_node(const Node& node) {
    std::vector<Operand> in;
    for (ValueId input : node.inputs) in.push_back({b_.wrap(input), tangents_.at(input)});
    std::vector<Tensor> out;
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) {
      out.push_back(b_.wrap(output));
      types.push_back(b_.graph().type(output));
    }
    // An operation that is linear in its first operand, done with its tangent.
    auto linear = [&](Op op) -> Results {
      std::vector<Tensor> operands = {in[0].tangent_or_zero()};
      for (size_t i = 1; i < in.size(); ++i) operands.push_back(in[i].x);
      return b_.emit(std::move(op), std::move(operands), types);
    };
    return match(
        node.op,
        [&](const Pointwise& op) -> Results {
          std::vector<Tensor> x, tangents;
          for (const Operand& operand : in) {
            x.push_back(operand.x);
            tangents.push_back(operand.tangent);
          }
          return {scalar_tangent(op.op, x, out[0], tangents)};
        },
        [&](const Bitcast&) -> Results {
          if (in[0].x.dtype() != out[0].dtype()) refuse_derivative("a number's bits");
          return {in[0].tangent};
        },
        [&](const Pad& op) -> Results {
          return linear(Pad{op.low, 0.0});
        },
        [&](const Cat& op) -> Results {
          std::vector<Tensor> parts;
          for (const Operand& operand : in) parts.push_back(operand.tangent_or_zero());
          return b_.emit(op, std::move(parts), types);
        },
        [&](const Scatter& op) -> Results {
          if (op.mode != ScatterMode::Set && op.mode != ScatterMode::Add) refuse_derivative(to_string(node.op));
          std::vector<Tensor> operands = {in[0].tangent_or_zero(), in[1].tangent_or_zero()};
          for (size_t i = 2; i < in.size(); ++i) operands.push_back(in[i].x);
          return b_.emit(op, std::move(operands), types);
        },
        [&](const Reduce& op) -> Results { return of_reduction(op, in[0], out, types); },
        [&](const Scan& op) -> Results { return {of_scan(op, in[0], out)}; },
        [&](const Sort& op) -> Results { return {b_.gather(in[0].tangent, index_along(out[1], op.dim))}; },
        [&](const Matmul&) -> Results {
          return {sum_of(in[0].tangent.defined() ? b_.matmul(in[0].tangent, in[1].x) : Tensor(),
                         in[1].tangent.defined() ? b_.matmul(in[0].x, in[1].tangent) : Tensor())};
        },
        [&](const Convolution& op) -> Results { return {of_convolution(op, in, types)}; },
        [&](const Attention& op) -> Results {
          const formula::AttentionOperands operands = {.q = in[0].x,
                                                       .k = in[1].x,
                                                       .v = in[2].x,
                                                       .mask = in.size() > 3 ? in[3].x : Tensor(),
                                                       .causal = op.causal,
                                                       .scale = op.scale,
                                                       .batch = {}};
          return {of(formula::attend_in_parts(operands).id())};
        },
        [&](const Library& op) -> Results { return of_library(op, in, out); },
        [&](const HigherOrder& op) -> Results { refuse_derivative(op.name); },
        // Cast, Expand, Permute, Reshape, Slice, Remap, Gather; what has no operands has no tangents.
        [&](const auto& op) -> Results { return linear(op); });
  }

  Results of_reduction(const Reduce& op, const Operand& in, const std::vector<Tensor>& out, const std::vector<TensorType>& types) {
    const Dims dims(op.dims.begin(), op.dims.end());
    auto sum = [&](Tensor x) { return b_.reduce(ReduceOp::Sum, x, dims, out[0].dtype())[0]; };
    switch (op.op) {
      case ReduceOp::Sum: return {sum(in.tangent)};
      case ReduceOp::MeanM2: {
        const Tensor centered = b_.cast(in.x, out[0].dtype()) - b_.keep(out[0], dims);
        return {b_.emit(op, {in.tangent}, types)[0], sum(centered * b_.cast(in.tangent, out[0].dtype())) * 2.0};
      }
      case ReduceOp::Min:
      case ReduceOp::Max: {  // elements that are equal share
        const Tensor is_extremum = eq(in.x, b_.keep(out[0], dims));
        return {sum(where(is_extremum, in.tangent, 0)) / sum(b_.cast(is_extremum, in.x.dtype()))};
      }
      case ReduceOp::Prod: {  // all but one element; 0 where two are 0
        const Tensor is_zero = eq(in.x, 0), zeros = sum(b_.cast(is_zero, in.x.dtype()));
        const Tensor others = where(is_zero, 1, in.x), product = b_.reduce(ReduceOp::Prod, others, dims)[0];
        return {product * where(eq(zeros, 0), sum(in.tangent / others), where(eq(zeros, 1), sum(where(is_zero, in.tangent, 0)), 0))};
      }
      default: refuse_derivative(to_string(Op(op)));
    }
  }

  Tensor of_scan(const Scan& op, const Operand& in, const std::vector<Tensor>& out) {
    const Tensor x = in.x, dx = in.tangent;
    auto scan = [&](ScanOp kind, Tensor of) { return b_.scan(kind, of, op.dim)[0]; };
    switch (op.op) {
      case ScanOp::Sum: return scan(ScanOp::Sum, dx);
      case ScanOp::Max:
      case ScanOp::Min: return b_.gather(dx, index_along(out[1], op.dim));
      case ScanOp::Prod: {  // from the first 0 on, only its tangent counts
        const Tensor is_zero = eq(x, 0), zeros = scan(ScanOp::Sum, b_.cast(is_zero, DType::I64));
        const Tensor is_first = is_zero & eq(zeros, 1);
        const Tensor before = out[0] * scan(ScanOp::Sum, where(is_zero, 0, dx / x));
        const Tensor after = scan(ScanOp::Prod, where(is_first, 1, x)) * scan(ScanOp::Sum, where(is_first, dx, 0));
        return where(eq(zeros, 0), before, after);
      }
      case ScanOp::LogAddExp: {
        // sum exp(x) dx / sum exp(x), both by their logarithms: before a row's maximum either sum may be too small for a number. Where all
        // elements so far are -inf, nothing changes.
        constexpr double kNothing = -std::numeric_limits<double>::infinity();
        const Tensor largest = b_.keep(b_.amax(x, {op.dim}), {op.dim});
        const Tensor below = x - where(eq(largest, kNothing), 0, largest), all = scan(ScanOp::LogAddExp, below);
        auto share = [&](Tensor part) { return where(eq(all, kNothing), 0, exp(scan(ScanOp::LogAddExp, below + log(part)) - all)); };
        return share(where(dx < 0, 0, dx)) - share(where(dx < 0, -dx, 0));
      }
    }
    refuse_derivative(to_string(Op(op)));
  }

  // (x, weight, bias?): linear in each.
  Tensor of_convolution(const Convolution& op, const std::vector<Operand>& in, const std::vector<TensorType>& types) {
    auto convolve = [&](Tensor x, Tensor weight) { return b_.emit(op, {x, weight}, types)[0]; };
    Tensor sum = sum_of(in[0].tangent.defined() ? convolve(in[0].tangent, in[1].x) : Tensor(),
                        in[1].tangent.defined() ? convolve(in[0].x, in[1].tangent) : Tensor());
    if (in.size() < 3 || !in[2].tangent.defined()) return sum;
    Sizes channels(types[0].sizes.size(), 1);
    channels[1] = types[0].sizes[1];
    return sum_of(sum, b_.expand(b_.reshape(in[2].tangent, channels), types[0].sizes));
  }

  // d ln |det A| = trace(A^-1 dA)
  Tensor relative_change(const Operand& matrix) {
    const Tensor inverse = b_.library("linalg.inv", {matrix.x}, {matrix.x.type()})[0];
    return b_.sum(b_.transpose(inverse, -1, -2) * matrix.tangent, {-2, -1});
  }

  Results of_library(const Library& op, const std::vector<Operand>& in, const std::vector<Tensor>& out) {
    if (op.name.starts_with("fourier.")) {  // linear in all parts together
      std::vector<Tensor> parts;
      std::vector<TensorType> types;
      for (const Operand& operand : in) parts.push_back(operand.tangent_or_zero());
      for (Tensor result : out) types.push_back(result.type());
      return b_.emit(op, std::move(parts), std::move(types));
    }
    if (op.name.starts_with("order.") && out.size() == 2 && out[1].dtype() == DType::I64 && is_floating(out[0].dtype())) {
      return {b_.gather(in[0].tangent, index_along(out[1], out[1].rank() - 1))};  // values and where they were
    }
    if (op.name == "linalg.inv") return {-b_.matmul(b_.matmul(out[0], in[0].tangent), out[0])};
    if (op.name == "linalg.det") return {out[0] * relative_change(in[0])};
    if (op.name == "linalg.slogdet") return {Tensor(), relative_change(in[0])};
    if (op.name == "linalg.solve") {  // A X = B: A dX = dB - dA X; or X A = B
      const bool left = std::get<sym::Expr>(op.attributes[0]).is_const(1);
      Tensor right = in[1].tangent;
      if (in[0].tangent.defined()) {
        right = sum_of(right, -(left ? b_.matmul(in[0].tangent, out[0]) : b_.matmul(out[0], in[0].tangent)));
      }
      return {b_.library(op.name, {in[0].x, right}, {out[0].type()}, op.attributes)[0]};
    }
    refuse_derivative(op.name);
  }

  Builder& b_;
  const int64_t level_;
  std::unordered_map<ValueId, Tensor> tangents_;
  std::set<NodeId> seen_;
};

}  // namespace

Tensor make_dual(Tensor primal, Tensor tangent, int64_t level) {
  if (primal.sizes() != tangent.sizes() || primal.dtype() != tangent.dtype() || !is_floating(primal.dtype())) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a tangent {} of {}", to_string(tangent.type()), to_string(primal.type())));
  }
  const TensorType type = {.dtype = primal.dtype(), .sizes = primal.sizes()};
  return primal.builder().library(std::string(kDual), {primal, tangent}, {type}, {sym::Expr(level)})[0];
}

Tensor tangent_of(Tensor x, int64_t level) {
  const Tensor tangent = Tangents(x.builder(), level).of(x.id());
  return tangent.defined() ? tangent : x.builder().full(x.sizes(), x.dtype(), 0.0);
}

Tensor without_tangent(Tensor x, int64_t level) {
  return x.builder().library(std::string(kWithoutTangent), {x}, {x.type()}, {sym::Expr(level)})[0];
}

void remove_duals(Graph& graph) {
  auto skip = [&](ValueId& value) {
    while (is_library(graph.producer(value).op, kDual) || is_library(graph.producer(value).op, kWithoutTangent)) {
      value = graph.producer(value).inputs[0];
    }
  };
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    for (ValueId& input : graph.node(NodeId{static_cast<uint32_t>(i)}).inputs) skip(input);
  }
  for (ValueId& output : graph.outputs) skip(output);
  for (SymbolBinding& binding : graph.bindings) skip(binding.value);
}

}  // namespace toroid
