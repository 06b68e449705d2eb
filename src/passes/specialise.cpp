#include "passes/specialise.h"

#include "graph/builder.h"
#include "support/error.h"
#include "symbolic/real.h"
#include "symbolic/symbol_map.h"

namespace toroid {
namespace {

sym::Expr size_called(const std::string& name, const Program& program) {
  const std::optional<sym::Expr> symbol = program.symbols->find_symbol(name);
  if (symbol && symbol->node()->symbol_kind == sym::SymbolKind::Size) return *symbol;
  std::string names;
  for (sym::Expr each : program.symbols->symbols()) {
    if (each.node()->symbol_kind == sym::SymbolKind::Size) names += (names.empty() ? "" : ", ") + each.node()->name;
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("the program has no size called '{}'", name))
      .help(names.empty() ? "all of its sizes are fixed" : "its sizes: " + names);
}

sym::Substitution fixed_sizes(const Program& program, const SizeValues& values) {
  sym::Substitution fixed;
  for (const auto& [name, value] : values) {
    const sym::Expr symbol = size_called(name, program);
    const sym::Range range = symbol.range();
    if (value < range.min || value > range.max) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{} = {} is outside of the sizes that the program takes, {} to {}", name, value,
                                                        range.min, range.max == sym::kPosInf ? "any" : std::to_string(range.max)));
    }
    fixed.emplace_back(symbol, sym::Expr(value));
  }
  return fixed;
}

class Specialisation {
 public:
  Specialisation(const Program& source, const SizeValues& values)
      : source_(source), map_(*source.symbols, *target_.symbols, fixed_sizes(source, values)) {}

  Program run() {
    target_.name = source_.name;
    target_.constants = source_.constants;
    target_.inputs = source_.inputs;
    target_.outputs = source_.outputs;
    for (sym::Expr guard : source_.guards) {
      const sym::Expr moved = map_.moved(guard);
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
  TensorType type(TensorType type) const {
    type.sizes = map_.moved(std::move(type.sizes));
    type.strides = map_.moved(std::move(type.strides));
    type.storage_offset = map_.moved(type.storage_offset);
    return type;
  }

  // A double that became known says so itself.
  template <class Number>
  Number number(sym::Expr expr) const {
    const sym::Expr moved = map_.moved(expr);
    return sym::is_real(expr) && moved.is_const() ? Number(sym::real_value(moved)) : Number(moved);
  }

  std::vector<Argument> arguments(std::vector<Argument> list) const {
    for (Argument& argument : list) {
      if (const auto* one = std::get_if<sym::Expr>(&argument)) argument = number<Argument>(*one);
      if (auto* many = std::get_if<ExprList>(&argument)) *many = map_.moved(std::move(*many));
    }
    return list;
  }

  Op op(const Op& op) const {
    if (const auto* aten = std::get_if<Aten>(&op)) return Aten{aten->schema, arguments(aten->arguments)};
    if (const auto* control_flow = std::get_if<HigherOrder>(&op)) return HigherOrder{control_flow->name, arguments(control_flow->arguments)};
    if (const auto* full = std::get_if<Full>(&op)) {
      const auto* expr = std::get_if<sym::Expr>(&full->value);
      return expr ? Full{map_.moved(*expr)} : *full;  // as an integer, bits of a double too
    }
    const bool has_no_sizes = std::holds_alternative<Input>(op) || std::holds_alternative<Constant>(op) || std::holds_alternative<Cast>(op) ||
                              std::holds_alternative<Bitcast>(op);
    TOROID_CHECK(has_no_sizes, "specialising {}: not an import-level node", to_string(op));
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
    for (const SymbolBinding& binding : source.bindings) result.bindings.push_back({map_.moved(binding.expr), binding.value});
    return result;
  }

  const Program& source_;
  Program target_;
  const sym::SymbolMap map_;
};

}  // namespace

Program specialise(const Program& program, const SizeValues& values) { return Specialisation(program, values).run(); }

}  // namespace toroid
