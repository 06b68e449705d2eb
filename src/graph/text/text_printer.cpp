// Writes the text form: see text.h.
#include <fmt/format.h>

#include "graph/builder.h"
#include "graph/text/constant_text.h"
#include "graph/text/text.h"
#include "graph/text/text_names.h"
#include "support/match.h"

namespace toroid {
namespace {

std::string_view kind_text(OutputKind kind) {
  constexpr std::string_view kNames[] = {"user", "buffer", "input", "parameter", "gradient", "loss", "token"};
  return kNames[static_cast<size_t>(kind)];
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, const TextOptions& options) : graph_(graph), options_(options) {}

  std::string node(NodeId id) const {
    const Node& node = graph_.node(id);
    std::string text;
    for (ValueId output : node.outputs) text += fmt::format("{}{}", text.empty() ? "" : ", ", typed(output));
    if (!node.outputs.empty()) text += " = ";
    return text + operation(node);
  }

  std::string body(std::string_view head, const Program* program) const {
    std::string text = fmt::format("{}(", head);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : "", typed(graph_.inputs[i]));
      if (program != nullptr && i < program->inputs.size() && program->inputs[i].name != graph_.value(graph_.inputs[i]).name) {
        text += fmt::format(" named {}", quote(program->inputs[i].name));
      }
    }
    text += ") {\n";
    for (ValueId input : graph_.inputs) text += bindings_of(input);
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      if (std::holds_alternative<Input>(graph_.node(id).op)) continue;
      text += "  " + node(id);
      if (options_.provenance) text += comment(graph_.provenance(graph_.node(id).provenance));
      text += "\n";
      for (ValueId output : graph_.node(id).outputs) text += bindings_of(output);
    }
    text += "  return";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      text += fmt::format("{} {}", i > 0 ? "," : "", name(graph_.outputs[i]));
      if (program == nullptr || i >= program->outputs.size()) continue;
      const OutputSpec& output = program->outputs[i];
      if (!output.name.empty()) text += " named " + quote(output.name);
      if (output.kind == OutputKind::User) continue;
      text += fmt::format(" -> {}", kind_text(output.kind));
      if (!output.target.empty()) text += " " + quote(output.target);
    }
    return text + "\n}\n";
  }

 private:
  std::string bindings_of(ValueId value) const {
    std::string text;
    for (const SymbolBinding& binding : graph_.bindings) {
      if (binding.value == value) text += fmt::format("  sym {} = {}\n", sym::to_string(binding.expr), name(value));
    }
    return text;
  }

  std::string name(ValueId id) const { return value_name(graph_.value(id).name); }
  std::string typed(ValueId id) const { return fmt::format("{}: {}", name(id), to_string(graph_.type(id))); }

  // On one line whatever the model's names contain.
  static std::string comment(const Provenance& provenance) {
    std::string text = to_string(provenance);
    if (text.empty()) return text;
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return "  # " + text;
  }

  // Where a tensor may stand, an integer expression is put in parentheses, so that a symbol is not taken for a value.
  std::string argument(const Node& node, const Argument& value, bool may_be_tensor) const {
    if (const auto* ref = std::get_if<InputRef>(&value)) return name(node.inputs[ref->index]);
    if (const auto* list = std::get_if<InputList>(&value)) {
      std::string text = "[";
      for (size_t i = 0; i < list->size(); ++i) {
        text += fmt::format("{}{}", i > 0 ? ", " : "", (*list)[i] ? name(node.inputs[(*list)[i]->index]) : "none");
      }
      return text + "]";
    }
    const auto* expr = std::get_if<sym::Expr>(&value);
    if (expr != nullptr && !expr->is_const() && may_be_tensor) return fmt::format("({})", sym::to_string(*expr));
    return to_string(value);
  }

  // Positional arguments while none was left out, then named ones; flags always say their name. Defaults are left out.
  std::string aten_call(const Node& node, const Aten& aten) const {
    std::string text = aten.schema->name + "(";
    bool first = true;
    bool positional = true;
    for (size_t p = 0; p < aten.arguments.size(); ++p) {
      const Parameter& parameter = aten.schema->parameters[p];
      if (parameter.default_value && *parameter.default_value == aten.arguments[p]) {
        positional = false;
        continue;
      }
      positional = positional && !parameter.keyword_only && parameter.type != ArgType::Bool;
      text += fmt::format("{}{}{}", first ? "" : ", ", positional ? "" : parameter.name + "=",
                          argument(node, aten.arguments[p], parameter.type == ArgType::Tensor));
      first = false;
    }
    return text + ")";
  }

  std::string higher_order_call(const Node& node, const HigherOrder& op) const {
    std::string text = fmt::format("higher_order::{}(", op.name);
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : "", argument(node, op.arguments[i], true));
    }
    return text + ")";
  }

  std::string operation(const Node& node) const {
    if (const auto* aten = std::get_if<Aten>(&node.op)) return aten_call(node, *aten);
    if (const auto* op = std::get_if<HigherOrder>(&node.op)) return higher_order_call(node, *op);
    // "reduce.sum(dims=[1])" becomes "reduce.sum(x, dims=[1])".
    std::string text = to_string(node.op);
    const size_t open = text.find('(');
    std::string attributes = open == std::string::npos ? "" : text.substr(open + 1, text.size() - open - 2);
    std::string operands;
    for (ValueId input : node.inputs) operands += fmt::format("{}{}", operands.empty() ? "" : ", ", name(input));
    if (!operands.empty() && !attributes.empty()) operands += ", ";
    return fmt::format("{}({}{})", text.substr(0, open), operands, attributes);
  }

  const Graph& graph_;
  const TextOptions& options_;
};

std::string bound(int64_t value) { return value == sym::kNegInf ? "-inf" : value == sym::kPosInf ? "inf" : fmt::format("{}", value); }

std::string symbol_lines(const Program& program, bool hints) {
  std::string text;
  for (sym::Expr symbol : program.symbols->symbols()) {
    const sym::Node& node = *symbol.node();
    if (node.symbol_kind != sym::SymbolKind::Size && node.symbol_kind != sym::SymbolKind::DataDependent) continue;
    text += fmt::format("sym {} in [{}, {}]", node.name, bound(node.range.min), bound(node.range.max));
    if (node.symbol_kind == sym::SymbolKind::DataDependent) text += " from data";
    if (node.hint && hints) text += fmt::format(" hint {}", *node.hint);
    text += "\n";
  }
  return text;
}

std::string constant_line(const ConstantData& data, size_t number, const TextOptions& options) {
  std::string text = fmt::format("{} {} {}: {} = ", data.is_buffer ? "buffer" : "constant", number, quote(data.name), to_string(data.type));
  const bool is_here = data.bytes.data() != nullptr || data.type.numel().is_const(0);
  const bool is_small = static_cast<int64_t>(data.bytes.size()) <= options.inline_elements * size_bytes(data.type.dtype);
  return text + (is_here && (is_small || data.name.empty()) ? elements_to_text(data) : "external") + "\n";
}

}  // namespace

std::string to_text(const Graph& graph, NodeId id) { return GraphPrinter(graph, {}).node(id); }

std::string to_text(const Program& program, const TextOptions& options) {
  std::string text;
  if (!program.name.empty() && options.name) text += fmt::format("program {}\n", quote(program.name));
  text += symbol_lines(program, options.hints);
  for (sym::Expr guard : program.guards) text += fmt::format("guard {}\n", sym::to_string(guard));
  for (size_t i = 0; options.constants && i < program.constants.size(); ++i) text += constant_line(program.constants[i], i, options);
  for (size_t i = 0; i < program.subgraphs.size(); ++i) {
    text += GraphPrinter(program.subgraphs[i], options).body(fmt::format("subgraph {}", i), nullptr);
  }
  return text + GraphPrinter(program.graph, options).body("graph", &program);
}

}  // namespace toroid
