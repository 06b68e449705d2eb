#include "graph/verify.h"

#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/text/text.h"
#include "graph/type_rules.h"
#include "support/match.h"

namespace toroid {
namespace {

[[noreturn]] void broken(std::string message) {
  throw Error(ErrorKind::Internal, "broken graph: " + std::move(message)).help("please report this together with the model");
}

// What is wrong with a node; the caller adds its text.
[[noreturn]] void wrong(std::string message) { throw Error(ErrorKind::Internal, std::move(message)); }

class GraphVerifier {
 public:
  // `number` of a subgraph; of the main graph, how many subgraphs there are.
  GraphVerifier(const Program& program, const Graph& graph, size_t number, Level level)
      : program_(program), graph_(graph), number_(number), level_(level) {}

  void run() {
    check_values();
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      check_order(id);
      try {
        check_node(graph_.node(id));
      } catch (const Error& error) {
        broken(fmt::format("{}\n  in {}", error.message(), to_text(graph_, id)));
      }
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      check_exists(graph_.inputs[i], "an input");
      const auto* input = std::get_if<Input>(&graph_.producer(graph_.inputs[i]).op);
      if (input == nullptr || input->index != i) {
        broken(fmt::format("'{}' is listed as input {}, but its node is not", graph_.value(graph_.inputs[i]).name, i));
      }
    }
    for (ValueId output : graph_.outputs) check_exists(output, "an output");
    for (const SymbolBinding& binding : graph_.bindings) {
      check_exists(binding.value, "what defines a symbol");
      const Value& value = graph_.value(binding.value);
      if (value.type.rank() != 0 || is_floating(value.type.dtype)) {
        broken(fmt::format("'{}' is {} and defines {}", value.name, to_string(value.type), sym::to_string(binding.expr)));
      }
    }
  }

 private:
  void check_exists(ValueId id, std::string_view what) const {
    if (static_cast<size_t>(id) >= graph_.num_values()) broken(fmt::format("{} is a value that does not exist", what));
  }

  void check_values() const {
    std::unordered_set<std::string_view> names;
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      const Value& value = graph_.value(id);
      if (value.name.empty()) broken(fmt::format("value {} has no name", i));
      if (!names.insert(value.name).second) broken(fmt::format("two values are called '{}'", value.name));
      const bool has_producer = static_cast<size_t>(value.producer) < graph_.num_nodes();
      const std::vector<ValueId>* outputs = has_producer ? &graph_.node(value.producer).outputs : nullptr;
      if (outputs == nullptr || value.output_index >= outputs->size() || (*outputs)[value.output_index] != id) {
        broken(fmt::format("'{}' is not an output of its producer", value.name));
      }
      check_sizes(value);
    }
  }

  void check_sizes(const Value& value) const {
    for (sym::Expr size : value.type.sizes) {
      if (sym::known_lt(size, 0)) broken(fmt::format("'{}' has the size {}", value.name, sym::to_string(size)));
      for (sym::Expr symbol : sym::free_symbols(size)) {
        const sym::SymbolKind kind = symbol.node()->symbol_kind;
        if (kind == sym::SymbolKind::Size || kind == sym::SymbolKind::DataDependent) continue;
        broken(
            fmt::format("the size {} of '{}' depends on '{}', which is no size", sym::to_string(size), value.name, sym::to_string(symbol)));
      }
    }
  }

  void check_order(NodeId id) const {
    for (ValueId input : graph_.node(id).inputs) {
      check_exists(input, "an operand");
      if (graph_.value(input).producer >= id) {
        broken(fmt::format("'{}' is used before it is defined\n  in {}", graph_.value(input).name, to_text(graph_, id)));
      }
    }
  }

  void check_node(const Node& node) const {
    std::vector<const TensorType*> operands;
    std::vector<TensorType> declared;
    for (ValueId input : node.inputs) operands.push_back(&graph_.type(input));
    for (ValueId output : node.outputs) declared.push_back(graph_.type(output));
    const auto* control_flow = std::get_if<HigherOrder>(&node.op);
    if (control_flow != nullptr) {
      for (const Argument& argument : control_flow->arguments) check_argument(node, argument);
    }
    const std::vector<TensorType> types = control_flow != nullptr ? control_flow_types(*control_flow, operands, program_.subgraphs, nullptr)
                                                                  : result_types(node.op, operands, declared);
    if (types.size() != declared.size()) wrong(fmt::format("the operation has {} results", types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      if (!may_agree(types[i], declared[i])) wrong(fmt::format("the operation gives {}", to_string(types[i])));
    }
    if (const auto* constant = std::get_if<Constant>(&node.op)) check_constant(*constant, declared[0]);
    if (const auto* aten = std::get_if<Aten>(&node.op)) {
      if (level_ == Level::Core) wrong("an import-level operator at core level");
      for (const Argument& argument : aten->arguments) check_argument(node, argument);
    }
  }

  void check_constant(const Constant& constant, const TensorType& type) const {
    if (static_cast<size_t>(constant.id) >= program_.constants.size()) wrong("the constant does not exist");
    const ConstantData& data = program_.constant(constant.id);
    if (!may_agree(data.type, type)) wrong(fmt::format("the constant is {}", to_string(data.type)));
  }

  void check_argument(const Node& node, const Argument& argument) const {
    auto check_ref = [&](const InputRef& ref) {
      if (ref.index >= node.inputs.size()) wrong(fmt::format("argument %{} is no operand", ref.index));
    };
    if (const auto* ref = std::get_if<InputRef>(&argument)) check_ref(*ref);
    if (const auto* list = std::get_if<InputList>(&argument)) {
      for (const std::optional<InputRef>& ref : *list) {
        if (ref) check_ref(*ref);
      }
    }
    if (const auto* subgraph = std::get_if<SubgraphRef>(&argument); subgraph && subgraph->index >= program_.subgraphs.size()) {
      wrong(fmt::format("subgraph {} does not exist", subgraph->index));
    }
    if (const auto* subgraph = std::get_if<SubgraphRef>(&argument); subgraph && subgraph->index >= number_) {
      wrong(fmt::format("subgraph {} does not stand before the graph that calls it", subgraph->index));
    }
  }

  const Program& program_;
  const Graph& graph_;
  size_t number_;
  Level level_;
};

}  // namespace

void verify(const Program& program, Level level) {
  GraphVerifier(program, program.graph, program.subgraphs.size(), level).run();
  for (size_t i = 0; i < program.subgraphs.size(); ++i) GraphVerifier(program, program.subgraphs[i], i, level).run();
  if (program.inputs.size() != program.graph.inputs.size()) {
    broken(fmt::format("the program has {} inputs, its graph {}", program.inputs.size(), program.graph.inputs.size()));
  }
  if (program.outputs.size() != program.graph.outputs.size()) {
    broken(fmt::format("the program has {} outputs, its graph {}", program.outputs.size(), program.graph.outputs.size()));
  }
}

}  // namespace toroid
