#include "passes/specialise.h"

#include <algorithm>

#include "support/error.h"
#include "graph/builder.h"

namespace toroid {
namespace {

class Specialisation {
 public:
  Specialisation(const Program& source, const SizeValues& values) : source_(source) {
    for (const auto& [name, value] : values) add(name, value);
    for (sym::Expr symbol : source.symbols->symbols()) {
      const sym::Node& node = *symbol.node();
      const bool is_size = node.symbol_kind == sym::SymbolKind::Size || node.symbol_kind == sym::SymbolKind::DataDependent;
      if (!is_size || find(symbol)) continue;
      map_.emplace_back(symbol, target_.symbols->symbol(node.name, node.symbol_kind, node.range, node.hint));
    }
  }

  Program run() {
    target_.name = source_.name;
    target_.constants = source_.constants;
    target_.inputs = source_.inputs;
    target_.outputs = source_.outputs;
    for (sym::Expr guard : source_.guards) {
      const sym::Expr moved = expr(guard);
      if (moved.is_const(0)) {
        throw Error(ErrorKind::InvalidOption, fmt::format("the sizes of this variant violate {}, which the program relies on",
                                                          sym::to_string(guard)));
      }
      if (!moved.is_const()) target_.guards.push_back(moved);
    }
    target_.graph = graph(source_.graph);
    for (const Graph& subgraph : source_.subgraphs) target_.subgraphs.push_back(graph(subgraph));
    return std::move(target_);
  }

 private:
  void add(const std::string& name, int64_t value) {
    const std::optional<sym::Expr> symbol = source_.symbols->find_symbol(name);
    if (!symbol || symbol->node()->symbol_kind != sym::SymbolKind::Size) {
      std::string names;
      for (sym::Expr each : source_.symbols->symbols()) {
        if (each.node()->symbol_kind == sym::SymbolKind::Size) names += (names.empty() ? "" : ", ") + each.node()->name;
      }
      throw Error(ErrorKind::InvalidOption, fmt::format("the program has no size called '{}'", name))
          .help(names.empty() ? "all of its sizes are fixed" : "its sizes: " + names);
    }
    const sym::Range range = symbol->range();
    if (value < range.min || value > range.max) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{} = {} is outside of the sizes that the program takes, {} to {}", name, value,
                                                        range.min, range.max == sym::kPosInf ? "any" : std::to_string(range.max)));
    }
    map_.emplace_back(*symbol, sym::Expr(value));
  }

  std::optional<sym::Expr> find(sym::Expr symbol) const {
    for (const auto& [from, to] : map_) {
      if (from == symbol) return to;
    }
    return std::nullopt;
  }

  sym::Expr expr(sym::Expr e) const {
    if (e.is_const()) return e;
    return sym::substitute(e, [&](sym::Expr symbol) { return find(symbol); });
  }
  std::vector<sym::Expr> exprs(std::vector<sym::Expr> list) const {
    for (sym::Expr& e : list) e = expr(e);
    return list;
  }

  TensorType type(TensorType type) const {
    type.sizes = exprs(std::move(type.sizes));
    type.strides = exprs(std::move(type.strides));
    type.storage_offset = expr(type.storage_offset);
    return type;
  }

  std::vector<Argument> arguments(std::vector<Argument> list) const {
    for (Argument& argument : list) {
      if (auto* one = std::get_if<sym::Expr>(&argument)) *one = expr(*one);
      if (auto* many = std::get_if<ExprList>(&argument)) *many = exprs(std::move(*many));
    }
    return list;
  }

  Op op(const Op& op) const {
    if (const auto* aten = std::get_if<Aten>(&op)) return Aten{aten->schema, arguments(aten->arguments)};
    if (const auto* control_flow = std::get_if<HigherOrder>(&op)) return HigherOrder{control_flow->name, arguments(control_flow->arguments)};
    TOROID_CHECK(std::holds_alternative<Input>(op) || std::holds_alternative<Constant>(op), "specialising {}: not an import-level node",
                 to_string(op));
    return op;
  }

  Graph graph(const Graph& source) const {
    Graph result;
    for (size_t i = 1; i < source.provenances().size(); ++i) result.add_provenance(source.provenances()[i]);
    // Values keep their ids: nodes are added in the same order.
    for (const Node& node : source.nodes()) {
      std::vector<TensorType> types;
      std::vector<std::string> names;
      for (ValueId output : node.outputs) {
        types.push_back(type(source.type(output)));
        names.push_back(source.value(output).name);
      }
      result.add_node(op(node.op), node.inputs, std::move(types), node.provenance, std::move(names));
    }
    result.inputs = source.inputs;
    result.outputs = source.outputs;
    for (const SymbolBinding& binding : source.bindings) result.bindings.push_back({expr(binding.expr), binding.value});
    return result;
  }

  const Program& source_;
  Program target_;
  std::vector<std::pair<sym::Expr, sym::Expr>> map_;
};

}  // namespace

Program specialise(const Program& program, const SizeValues& values) { return Specialisation(program, values).run(); }

}  // namespace toroid
