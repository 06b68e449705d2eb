#include "passes/specialise.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "symbolic/real.h"
#include "symbolic/symbol_map.h"

namespace toroid {
namespace {

// "s40 (image.0), s62 (image.1)"
std::string sizes_text(const Program& program) {
  std::string text;
  for (sym::Expr symbol : program.symbols->symbols()) {
    if (symbol.node()->symbol_kind != sym::SymbolKind::Size) continue;
    text += (text.empty() ? "" : ", ") + symbol.node()->name;
    for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
      const std::vector<sym::Expr>& sizes = program.graph.type(program.graph.inputs[i]).sizes;
      const auto dim = std::find(sizes.begin(), sizes.end(), symbol);
      if (dim == sizes.end()) continue;
      text += fmt::format(" ({}.{})", program.inputs[i].name, dim - sizes.begin());
      break;
    }
  }
  return text;
}

// "image.0": the expression that is this size; none where there is no such input.
std::optional<sym::Expr> size_of_input(const std::string& name, const Program& program) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].name != name.substr(0, dot)) continue;
    const TensorType& type = program.graph.type(program.graph.inputs[i]);
    const std::string dim = name.substr(dot + 1);
    const bool is_number =
        !dim.empty() && dim.size() < 4 && std::all_of(dim.begin(), dim.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || std::stoi(dim) >= type.rank()) {
      throw Error(ErrorKind::InvalidOption, fmt::format("the input '{}' has no dimension '{}'", program.inputs[i].name, dim))
          .help(type.rank() == 0 ? "it is a single number" : fmt::format("its dimensions are 0 to {}", type.rank() - 1));
    }
    return type.sizes[static_cast<size_t>(std::stoi(dim))];
  }
  return std::nullopt;
}

// The value of the one symbol with which `size` is `value`. Sizes of inputs are linear in it.
std::pair<std::string, int64_t> solved(const std::string& name, sym::Expr size, int64_t value) {
  if (size.is_const())
    throw Error(ErrorKind::InvalidOption, fmt::format("{} is {} in every call", name, size.value())).help("leave it out of --variant");
  const std::vector<sym::Expr> symbols = sym::free_symbols(size);
  if (symbols.size() == 1) {
    auto at = [&](int64_t number) { return sym::evaluate(size, [&](sym::Expr) { return std::optional<int64_t>(number); }); };
    const int64_t start = at(0), step = at(1) - start;
    if (step != 0 && (value - start) % step == 0 && at((value - start) / step) == value)
      return {symbols[0].node()->name, (value - start) / step};
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("{} cannot be {}: it is {}", name, value, sym::to_string(size)))
      .help("give the sizes that it is made of instead");
}

sym::Expr size_called(const std::string& name, const Program& program) {
  const std::optional<sym::Expr> symbol = program.symbols->find_symbol(name);
  if (symbol && symbol->node()->symbol_kind == sym::SymbolKind::Size) return *symbol;
  if (const std::optional<sym::Expr> size = size_of_input(name, program)) return *size;
  const std::string sizes = sizes_text(program);
  throw Error(ErrorKind::InvalidOption, fmt::format("the program has no size called '{}'", name))
      .help(sizes.empty() ? "all of its sizes are fixed"
                          : fmt::format("its sizes: {}; a .pt2 file does not keep the names of torch.export.Dim", sizes));
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
    target_.operators = source_.operators;
    target_.process_groups = source_.process_groups;
    target_.constants = source_.constants;
    target_.inputs = source_.inputs;
    target_.outputs = source_.outputs;
    for (sym::Expr guard : source_.guards) {
      const sym::Expr moved = map_.moved(guard);
      if (moved.is_const(0)) {
        throw Error(ErrorKind::InvalidOption,
                    fmt::format("the sizes of this variant violate {}, which the program relies on", sym::to_string(guard)));
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
    if (const auto* control_flow = std::get_if<HigherOrder>(&op))
      return HigherOrder{control_flow->name, arguments(control_flow->arguments)};
    if (const auto* full = std::get_if<Full>(&op)) {
      const auto* expr = std::get_if<sym::Expr>(&full->value);
      return expr ? Full{map_.moved(*expr)} : *full;  // as an integer, bits of a double too
    }
    const bool has_no_sizes = std::holds_alternative<Input>(op) || std::holds_alternative<Constant>(op) ||
                              std::holds_alternative<Cast>(op) || std::holds_alternative<Bitcast>(op);
    if (!has_no_sizes) {
      const std::string text = to_string(op);
      throw Error(ErrorKind::InvalidOption,
                  fmt::format("'{}' is a core operation: the program was decomposed before", text.substr(0, text.find('('))))
          .help("variants, and operators called one by one, need the model itself or its text from before decompose");
    }
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

SizeValues by_symbols(const Program& program, const SizeValues& values) {
  SizeValues result;
  for (const auto& [name, value] : values) {
    const sym::Expr size = size_called(name, program);
    const bool is_symbol = size.is_symbol();
    const auto found = is_symbol ? std::pair(size.node()->name, value) : solved(name, size, value);
    const auto known = std::find_if(result.begin(), result.end(), [&](const auto& each) { return each.first == found.first; });
    if (known == result.end()) {
      result.push_back(found);
    } else if (known->second != found.second) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{}={} gives {} the value {}, and it has the value {} already", name, value,
                                                        found.first, found.second, known->second));
    }
  }
  return result;
}

std::string training_operators(const Program& program) {
  std::map<std::string, int> uses;
  for (const OutputSpec& output : program.outputs) {
    if (output.kind == OutputKind::Gradient || output.kind == OutputKind::Loss) return "";
  }
  for (const Node& node : program.graph.nodes()) {
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr) continue;
    for (size_t i = 0; i < aten->arguments.size() && i < aten->schema->parameters.size(); ++i) {
      const std::string_view parameter = aten->schema->parameters[i].name;
      const auto* flag = std::get_if<bool>(&aten->arguments[i]);
      const auto* rate = std::get_if<double>(&aten->arguments[i]);
      const bool trains = (parameter == "train" || parameter == "training") && flag != nullptr && *flag;
      if (!trains && !(parameter == "dropout_p" && rate != nullptr && *rate > 0)) continue;
      ++uses[aten->schema->name];
      break;
    }
  }
  std::string text;
  for (const auto& [name, count] : uses) {
    const size_t colon = name.rfind(':');
    text += fmt::format("{}{} ({} use{})", text.empty() ? "" : ", ", name.substr(colon == name.npos ? 0 : colon + 1), count,
                        count == 1 ? "" : "s");
  }
  return text;
}

Program specialise(const Program& program, const SizeValues& values) { return Specialisation(program, by_symbols(program, values)).run(); }

}  // namespace toroid
