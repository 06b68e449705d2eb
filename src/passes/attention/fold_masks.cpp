#include "passes/attention/fold_masks.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "graph/builder.h"
#include "passes/graph_copy.h"
#include "support/match.h"
#include "tensor/host_tensor.h"

namespace toroid {
namespace {

constexpr int kMostNodes = 64;  // from a mask down: masks are short formulas
constexpr int64_t kMostElements = 1 << 20;

// What a mask lets a row see: all keys, or those up to its own position.
enum class Sees : uint8_t { Unknown, All, Past };

// Integers of a tensor.
struct Positions {
  int64_t least, most;
  std::optional<size_t> along;  // each element is its index along this dim, and `offset`
  int64_t offset = 0;
};

class MaskReader {
 public:
  MaskReader(const Program& program, const Graph& graph) : program_(program), graph_(graph) {}

  // `negated`: of a mask of truths, what the opposite lets rows see.
  Sees sees(ValueId mask, int depth = 0, bool negated = false) const {
    if (depth > kMostNodes) return Sees::Unknown;
    const Node& node = graph_.producer(mask);
    const bool is_truth = type(mask).dtype == DType::Bool;
    const auto of = [&](size_t i) { return sees(node.inputs[i], depth + 1, negated); };
    const auto compared_to = [&](size_t a, size_t b, int64_t more) { return compared(node.inputs[a], node.inputs[b], more); };
    if (const auto* full = std::get_if<Full>(&node.op)) {
      const auto* truth = std::get_if<bool>(&full->value);
      return (truth != nullptr ? *truth != negated : allows(full->value)) ? Sees::All : Sees::Unknown;
    }
    if (const auto* constant = std::get_if<Constant>(&node.op)) return of_constant(constant->id, type(mask), negated);
    if (std::holds_alternative<Expand>(node.op) || std::holds_alternative<Reshape>(node.op)) {
      const Sees inner = of(0);
      return inner == Sees::Past && !has_same_rows(type(node.inputs[0]), type(mask)) ? Sees::Unknown : inner;
    }
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (pointwise == nullptr) return Sees::Unknown;
    switch (pointwise->op) {
      case ScalarOp::BitNot: return is_truth ? sees(node.inputs[0], depth + 1, !negated) : Sees::Unknown;
      case ScalarOp::BitAnd: return is_truth && !negated ? both(of(0), of(1)) : Sees::Unknown;
      case ScalarOp::BitOr: return is_truth && negated ? both(of(0), of(1)) : Sees::Unknown;
      case ScalarOp::Where: {
        if (is_truth) return truth(node.inputs[1]) == true && truth(node.inputs[2]) == false ? of(0) : Sees::Unknown;
        const Sees condition = of(0);
        if (of(1) != Sees::All) return Sees::Unknown;
        return condition == Sees::All || hides(node.inputs[2]) ? condition : Sees::Unknown;
      }
      case ScalarOp::Le: return negated ? compared_to(1, 0, 1) : compared_to(0, 1, 0);
      case ScalarOp::Ge: return negated ? compared_to(0, 1, 1) : compared_to(1, 0, 0);
      case ScalarOp::Lt: return negated ? compared_to(1, 0, 0) : compared_to(0, 1, 1);
      case ScalarOp::Gt: return negated ? compared_to(0, 1, 0) : compared_to(1, 0, 1);
      case ScalarOp::Eq: {
        const auto a = positions(node.inputs[0]), b = positions(node.inputs[1]);
        return !negated && a && b && a->least == a->most && b->least == a->least && b->most == a->most ? Sees::All : Sees::Unknown;
      }
      default: return Sees::Unknown;
    }
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.type(id); }

  // What does not change a score: true, or 0.
  static bool allows(const Scalar& value) {
    return match(
        value, [](bool v) { return v; }, [](const sym::Expr& e) { return e.is_const(0); }, [](double v) { return v == 0; });
  }
  static Sees both(Sees a, Sees b) {
    if (a == Sees::Unknown || b == Sees::Unknown) return Sees::Unknown;
    return a == Sees::Past || b == Sees::Past ? Sees::Past : Sees::All;
  }
  static bool has_same_rows(const TensorType& a, const TensorType& b) {
    if (a.rank() < 2 || b.rank() < 2) return false;
    return sym::known_eq(a.sizes[a.rank() - 1], b.sizes[b.rank() - 1]) && sym::known_eq(a.sizes[a.rank() - 2], b.sizes[b.rank() - 2]);
  }
  bool hides(ValueId id) const {
    const auto* full = std::get_if<Full>(&graph_.producer(id).op);
    const auto* value = full == nullptr ? nullptr : std::get_if<double>(&full->value);
    return value != nullptr && *value <= kHides;
  }

  // Of a + more <= b.
  Sees compared(ValueId a_id, ValueId b_id, int64_t more) const {
    const auto a = positions(a_id), b = positions(b_id);
    if (!a || !b) return Sees::Unknown;
    if (a->most + more <= b->least) return Sees::All;
    const size_t rank = type(a_id).sizes.size();
    const bool is_triangle = rank >= 2 && a->along == rank - 1 && b->along == rank - 2 && a->offset + more == b->offset;
    return is_triangle ? Sees::Past : Sees::Unknown;
  }

  std::optional<HostTensor> contents(ConstantId id) const {
    const ConstantData& data = program_.constant(id);
    if (!data.name.empty() || data.is_buffer || data.bytes.data() == nullptr || !data.type.strides.empty()) return std::nullopt;
    std::vector<int64_t> sizes;
    for (sym::Expr size : data.type.sizes) {
      if (!size.is_const()) return std::nullopt;
      sizes.push_back(size.value());
    }
    if (numel(sizes) == 0 || numel(sizes) > kMostElements) return std::nullopt;
    const auto bytes = static_cast<size_t>(numel(sizes) * size_bytes(data.type.dtype));
    return HostTensor(data.type.dtype, std::move(sizes), data.bytes.first(bytes), data.owner);
  }

  std::optional<bool> truth(ValueId id) const {
    const auto* full = std::get_if<Full>(&graph_.producer(id).op);
    const auto* value = full == nullptr ? nullptr : std::get_if<bool>(&full->value);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  Sees of_constant(ConstantId id, const TensorType& type, bool negated) const {
    if (type.dtype != DType::Bool && !is_floating(type.dtype)) return Sees::Unknown;
    const std::optional<HostTensor> found = contents(id);
    if (!found) return Sees::Unknown;
    const std::vector<double> values = found->to_doubles();
    const bool is_truth = type.dtype == DType::Bool;
    const double allowed = is_truth && !negated ? 1 : 0;
    const auto holds = [&](auto is_seen) {
      const size_t columns = static_cast<size_t>(found->sizes().back()), rows = static_cast<size_t>(found->sizes()[type.rank() - 2]);
      for (size_t i = 0; i < values.size(); ++i) {
        const bool is_allowed = values[i] == allowed, is_hidden = is_truth ? values[i] != allowed : values[i] <= kHides;
        if (!(is_seen(i / columns % rows, i % columns) ? is_allowed : is_hidden)) return false;
      }
      return true;
    };
    if (std::all_of(values.begin(), values.end(), [&](double v) { return v == allowed; })) return Sees::All;
    return type.rank() >= 2 && holds([](size_t row, size_t column) { return column <= row; }) ? Sees::Past : Sees::Unknown;
  }

  std::optional<Positions> positions(ValueId id, int depth = 0) const {
    if (depth > kMostNodes || is_floating(type(id).dtype)) return std::nullopt;
    const Node& node = graph_.producer(id);
    if (const auto* full = std::get_if<Full>(&node.op)) {
      const auto* value = std::get_if<sym::Expr>(&full->value);
      if (value == nullptr || !value->is_const()) return std::nullopt;
      return Positions{value->value(), value->value(), std::nullopt};
    }
    if (const auto* iota = std::get_if<Iota>(&node.op)) {
      const sym::Expr size = type(id).sizes[static_cast<size_t>(iota->dim)];
      const int64_t count = size.is_const() ? size.value() : size.range().max;
      return Positions{0, std::max<int64_t>(count, 1) - 1, static_cast<size_t>(iota->dim)};
    }
    if (const auto* constant = std::get_if<Constant>(&node.op)) return positions_of_constant(constant->id);
    if (std::holds_alternative<Expand>(node.op)) {
      auto result = positions(node.inputs[0], depth + 1);
      if (result && result->along && !sym::known_eq(type(node.inputs[0]).sizes[*result->along], type(id).sizes[*result->along]))
        result->along.reset();
      return result;
    }
    if (std::holds_alternative<Reshape>(node.op)) {
      auto result = positions(node.inputs[0], depth + 1);
      if (result && result->along) result->along = same_dim(type(node.inputs[0]), *result->along, type(id));
      return result;
    }
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (pointwise == nullptr || (pointwise->op != ScalarOp::Add && pointwise->op != ScalarOp::Sub)) return std::nullopt;
    const auto added = positions(node.inputs[1], depth + 1);
    constexpr int64_t kMost = int64_t{1} << 60;  // beyond it sums may wrap
    if (!added || added->least != added->most || std::abs(added->least) > kMost) return std::nullopt;
    auto result = positions(node.inputs[0], depth + 1);
    if (!result || result->most > kMost || result->least < -kMost) return std::nullopt;
    const int64_t shift = pointwise->op == ScalarOp::Add ? added->least : -added->least;
    if (shift != 0 && type(id).dtype != DType::I64) return std::nullopt;
    result->least += shift, result->most += shift, result->offset += shift;
    return result;
  }

  // Where a dim went in a reshape that only adds and removes dims of one element.
  static std::optional<size_t> same_dim(const TensorType& from, size_t dim, const TensorType& to) {
    const auto large = [](const TensorType& type) {
      std::vector<size_t> dims;
      for (size_t d = 0; d < type.sizes.size(); ++d) {
        if (!type.sizes[d].is_const(1)) dims.push_back(d);
      }
      return dims;
    };
    const std::vector<size_t> before = large(from), after = large(to);
    if (before.size() != after.size()) return std::nullopt;
    std::optional<size_t> result;
    for (size_t i = 0; i < before.size(); ++i) {
      if (!sym::known_eq(from.sizes[before[i]], to.sizes[after[i]])) return std::nullopt;
      if (before[i] == dim) result = after[i];
    }
    return result;
  }

  std::optional<Positions> positions_of_constant(ConstantId id) const {
    const std::optional<HostTensor> found = contents(id);
    if (!found) return std::nullopt;
    const std::vector<double> values = found->to_doubles();
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    Positions result{static_cast<int64_t>(*least), static_cast<int64_t>(*most), std::nullopt, 0};
    size_t inner = 1;
    for (size_t d = found->sizes().size(); d-- > 0;) {
      const size_t size = static_cast<size_t>(found->sizes()[d]);
      const auto is_along = [&] {
        for (size_t i = 0; i < values.size(); ++i) {
          if (values[i] != static_cast<double>(i / inner % size)) return false;
        }
        return true;
      };
      if (size > 1 && is_along()) result.along = d;
      inner *= size;
    }
    return result;
  }

  const Program& program_;
  const Graph& graph_;
};

// What the mask of a node comes to, if it has one.
Sees mask_of(const Program& program, const Graph& graph, const Node& node) {
  if (!std::holds_alternative<Attention>(node.op) || node.inputs.size() < 4) return Sees::Unknown;
  const Sees sees = MaskReader(program, graph).sees(node.inputs[3]);
  if (sees != Sees::Past) return sees;
  const TensorType &q = graph.type(node.inputs[0]), &k = graph.type(node.inputs[1]), &mask = graph.type(node.inputs[3]);
  const bool has_all_rows = mask.rank() >= 2 && sym::known_eq(mask.sizes[mask.rank() - 2], q.sizes[q.rank() - 2]) &&
                            sym::known_eq(mask.sizes[mask.rank() - 1], k.sizes[k.rank() - 2]);
  return has_all_rows ? sees : Sees::Unknown;
}

Graph folded(const Graph& graph, Program& program, const std::vector<Sees>& masks) {
  GraphCopy copy(graph);
  Builder builder(copy.target(), *program.symbols, &program.guards);
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    const Node& node = graph.node(id);
    if (masks[i] == Sees::Unknown) {
      copy.node(id);
      continue;
    }
    const auto& attention = std::get<Attention>(node.op);
    builder.set_provenance(node.provenance, graph.value(node.outputs[0]).name + "_t");
    const auto operand = [&](size_t k) { return builder.wrap(copy.copied(node.inputs[k])); };
    const Tensor made =
        builder.attention(operand(0), operand(1), operand(2), {}, attention.causal || masks[i] == Sees::Past, attention.scale);
    copy.replace(node.outputs[0], made.id());
  }
  return copy.finish();
}

}  // namespace

bool shows_each_row_a_key(const Program& program, const Graph& graph, ValueId mask, bool negated) {
  return MaskReader(program, graph).sees(mask, 0, negated) != Sees::Unknown;
}

bool fold_masks(Program& program) {
  bool changed = false;
  const auto fold = [&](Graph& graph) {
    std::vector<Sees> masks;
    for (const Node& node : graph.nodes()) masks.push_back(mask_of(program, graph, node));
    if (std::all_of(masks.begin(), masks.end(), [](Sees each) { return each == Sees::Unknown; })) return;
    graph = folded(graph, program, masks);
    changed = true;
  };
  fold(program.graph);
  for (Graph& graph : program.subgraphs) fold(graph);
  return changed;
}

}  // namespace toroid
