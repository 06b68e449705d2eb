// Reads the text form by recursive descent over a cursor; nothing recurses deeper than a graph, a node, an argument.
// The parts build on each other: text_cursor.h words, text_reader.h numbers and types, operation_reader.h operations,
// and here declarations, graphs and nodes.
#include <fmt/format.h>

#include "base/checked.h"
#include "graph/control_flow.h"
#include "graph/text/constant_text.h"
#include "graph/text/operation_reader.h"
#include "graph/text/text.h"
#include "graph/type_rules.h"

namespace toroid {
namespace {

class TextParser : private OperationReader {
 public:
  TextParser(std::string_view text, const FindConstant& find_constant, std::shared_ptr<CustomOperators> operators)
      : OperationReader(text), find_constant_(find_constant) {
    program_.operators = std::move(operators);
  }

  Program parse() {
    Program program = parse_prefix();
    if (!cursor_.at_end()) cursor_.fail("expected the end of the text after the graph");
    return program;
  }
  size_t end() { return cursor_.place(); }

  // As far as the main graph.
  Program parse_prefix() {
    bool has_graph = false;
    while (!has_graph && !cursor_.at_end()) {
      const size_t start = cursor_.place();
      if (cursor_.accept_word("program")) {
        program_.name = cursor_.string_literal();
      } else if (cursor_.accept_word("sym")) {
        parse_symbol();
      } else if (cursor_.accept_word("guard")) {
        program_.guards.push_back(expr(""));
      } else if (cursor_.accept_word("constant")) {
        parse_constant(start);
      } else if (cursor_.accept_word("buffer")) {
        parse_constant(start).is_buffer = true;
      } else if (cursor_.accept_word("subgraph")) {
        const int64_t number = integer(cursor_.word("the number of the subgraph"));
        if (number != static_cast<int64_t>(program_.subgraphs.size())) {
          cursor_.fail_at(start, fmt::format("subgraph {} stands in place {}", number, program_.subgraphs.size()));
        }
        program_.subgraphs.push_back(parse_graph(false));
      } else if (cursor_.accept_word("graph")) {
        program_.graph = parse_graph(true);
        has_graph = true;
      } else {
        cursor_.fail("expected program, sym, guard, constant, buffer, subgraph or graph");
      }
    }
    if (!has_graph) cursor_.fail("expected a graph");
    return std::move(program_);
  }

 private:
  // ---- declarations

  int64_t bound() {
    if (cursor_.accept_word("-inf")) return sym::kNegInf;
    if (cursor_.accept_word("inf")) return sym::kPosInf;
    const size_t place = cursor_.place();
    const std::string_view text = cursor_.raw(",]");
    cursor_.move_to(place + text.size());
    return integer(text);
  }

  void parse_symbol() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("the symbol's name");
    if (!declared_.insert(name).second) cursor_.fail_at(place, fmt::format("symbol '{}' is declared twice", name));
    sym::Range range;
    cursor_.expect_word("in");
    cursor_.expect("[");
    range.min = bound();
    cursor_.expect(",");
    range.max = bound();
    cursor_.expect("]");
    sym::SymbolKind kind = sym::SymbolKind::Size;
    if (cursor_.accept_word("from")) {
      cursor_.expect_word("data");
      kind = sym::SymbolKind::DataDependent;
    }
    std::optional<int64_t> hint;
    if (cursor_.accept_word("hint")) hint = integer(cursor_.word("the hint"));
    program_.symbols->symbol(name, kind, range, hint);
  }

  ConstantData& parse_constant(size_t start) {
    const int64_t number = integer(cursor_.word("the number of the constant"));
    if (number != static_cast<int64_t>(program_.constants.size())) {
      cursor_.fail_at(start, fmt::format("constant {} stands in place {}", number, program_.constants.size()));
    }
    ConstantData data;
    data.name = cursor_.string_literal();
    cursor_.expect(":");
    data.type = type();
    cursor_.expect("=");
    if (cursor_.accept_word("external")) {
      if (find_constant_) find_constant_(data);
    } else {
      auto bytes = std::make_shared<std::vector<std::byte>>(elements(data.type));
      data.bytes = *bytes;
      data.owner = std::move(bytes);
    }
    require_room(start, data);
    return program_.constants[static_cast<size_t>(program_.add_constant(std::move(data)))];
  }

  // The bytes hold every element, wherever the type's strides put it.
  void require_room(size_t start, const ConstantData& data) {
    if (data.bytes.data() == nullptr || data.type.numel().is_const(0)) return;
    const Sizes strides = data.type.strides.empty() ? contiguous_strides(data.type.sizes) : Sizes(data.type.strides);
    Checked last = 0;
    bool is_fixed = true, is_forward = true;
    for (size_t d = 0; d < strides.size(); ++d) {
      is_fixed = is_fixed && data.type.sizes[d].is_const() && strides[d].is_const();
      if (!is_fixed) break;
      is_forward = is_forward && strides[d].value() >= 0;
      last += (Checked(data.type.sizes[d].value()) - 1) * strides[d].value();
    }
    const std::optional<int64_t> bytes = ((last + 1) * size_bytes(data.type.dtype)).value();
    if (is_fixed && is_forward && bytes && *bytes <= static_cast<int64_t>(data.bytes.size())) return;
    cursor_.fail_at(start, fmt::format("the constant '{}' has {} bytes, which do not hold {}", data.name.substr(0, 80), data.bytes.size(),
                                       to_string(data.type)));
  }

  std::vector<std::byte> elements(const TensorType& type) {
    const size_t start = cursor_.place();
    std::vector<std::byte> bytes;
    if (cursor_.accept_word("hex")) {
      const size_t place = cursor_.place();
      // No digits at all for a tensor without elements.
      const std::string digits = type.numel().is_const(0) ? "" : cursor_.word("hex digits");
      for (size_t i = 0; i + 1 < digits.size() + 1; i += 2) {
        unsigned byte = 0;
        const std::string_view pair = std::string_view(digits).substr(i, 2);
        if (pair.size() != 2 || std::from_chars(pair.data(), pair.data() + 2, byte, 16).ptr != pair.data() + 2) {
          cursor_.fail_at(place, "expected pairs of hex digits");
        }
        bytes.push_back(static_cast<std::byte>(byte));
      }
    } else {
      cursor_.expect("[");
      if (!cursor_.accept("]")) {
        do {
          const size_t place = cursor_.place();
          const std::string_view text = cursor_.raw(",]");
          const std::optional<std::vector<std::byte>> element = parse_element(text, type.dtype);
          if (!element) cursor_.fail_at(place, fmt::format("'{}' is not a {}", text, to_string(type.dtype)));
          bytes.insert(bytes.end(), element->begin(), element->end());
        } while (cursor_.accept(","));
        cursor_.expect("]");
      }
    }
    const sym::Expr wanted = type.numel() * size_bytes(type.dtype);
    if (!wanted.is_const(static_cast<int64_t>(bytes.size()))) {
      cursor_.fail_at(start, fmt::format("{} needs {} bytes, not {}", to_string(type), sym::to_string(wanted), bytes.size()));
    }
    return bytes;
  }

  // ---- graphs

  std::string new_name() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a name");
    if (values_.count(name) > 0) cursor_.fail_at(place, fmt::format("value '{}' is defined twice", name));
    return name;
  }

  Graph parse_graph(bool is_main) {
    Graph graph;
    values_.clear();
    cursor_.expect("(");
    if (!cursor_.accept(")")) {
      do parse_input(graph, is_main);
      while (cursor_.accept(","));
      cursor_.expect(")");
    }
    cursor_.expect("{");
    while (!cursor_.accept_word("return")) {
      if (cursor_.accept_word("sym")) {
        const sym::Expr defined = expr("=");
        cursor_.expect("=");
        graph.bindings.push_back({defined, value()});
      } else {
        parse_node(graph);
      }
    }
    if (!cursor_.accept("}")) {
      do parse_output(graph, is_main);
      while (cursor_.accept(","));
      cursor_.expect("}");
    }
    return graph;
  }

  void parse_input(Graph& graph, bool is_main) {
    const std::string name = new_name();
    cursor_.expect(":");
    const TensorType value_type = type();
    std::string model_name = name;
    if (cursor_.accept_word("named")) model_name = cursor_.string_literal();
    if (is_main) program_.inputs.push_back({model_name});
    const Input input{static_cast<uint32_t>(graph.inputs.size())};
    const NodeId id = graph.add_node(input, {}, {value_type}, {}, {name});
    graph.inputs.push_back(graph.node(id).outputs[0]);
    values_[name] = graph.inputs.back();
  }

  void parse_output(Graph& graph, bool is_main) {
    graph.outputs.push_back(value());
    if (!is_main) return;
    OutputSpec spec;
    if (cursor_.accept("named")) spec.name = cursor_.string_literal();
    if (cursor_.accept("->")) {
      constexpr std::pair<std::string_view, OutputKind> kKinds[] = {
          {"user", OutputKind::User},           {"buffer", OutputKind::BufferMutation},
          {"input", OutputKind::InputMutation}, {"parameter", OutputKind::ParameterMutation},
          {"gradient", OutputKind::Gradient},   {"loss", OutputKind::Loss},
          {"token", OutputKind::Token}};
      const size_t place = cursor_.place();
      const std::string word = cursor_.word("what the output is");
      const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& row) { return row.first == word; });
      if (kind == std::end(kKinds)) cursor_.fail_at(place, fmt::format("'{}' is no kind of output", word));
      spec.kind = kind->second;
      if (cursor_.next_is("\"")) spec.target = cursor_.string_literal();
    }
    program_.outputs.push_back(std::move(spec));
  }

  // Whether the text goes on with results, rather than with the operation of a node without results.
  bool has_results() {
    const size_t start = cursor_.place();
    bool results = true;
    if (!cursor_.next_is("%")) {
      cursor_.word("a node");
      results = !cursor_.next_is("::") && !cursor_.next_is("(");
    }
    cursor_.move_to(start);
    return results;
  }

  void parse_node(Graph& graph) {
    const size_t start = cursor_.place();
    std::vector<std::string> names;
    declared_types_.clear();
    if (has_results()) names = results([this] { return new_name(); });
    inputs_.clear();
    axes_.clear();
    Op op = operation();
    axes_.clear();
    finish_node(graph, start, std::move(op), std::move(names));
  }

  void finish_node(Graph& graph, size_t start, Op op, std::vector<std::string> names) {
    std::vector<const TensorType*> operands;
    for (ValueId input : inputs_) operands.push_back(&graph.type(input));
    if (const auto* constant = std::get_if<Constant>(&op)) {
      const TensorType& type = program_.constant(constant->id).type;
      if (declared_types_.empty()) declared_types_.push_back(type);
      if (declared_types_.size() == 1 && (declared_types_[0].dtype != type.dtype || declared_types_[0].sizes != type.sizes)) {
        cursor_.fail_at(start, fmt::format("the constant is {}, not {}", to_string(type), to_string(declared_types_[0])));
      }
    }
    std::vector<TensorType> types;
    try {
      const auto* control_flow = std::get_if<HigherOrder>(&op);
      types = control_flow != nullptr ? control_flow_types(*control_flow, operands, program_.subgraphs, nullptr)
                                      : result_types(op, operands, declared_types_);
    } catch (const Error& error) {
      cursor_.fail_at(start, error.message());
    }
    if (types.size() != names.size()) {
      cursor_.fail_at(start, fmt::format("{} has {} results, not {}", to_string(op), types.size(), names.size()));
    }
    for (size_t i = 0; i < declared_types_.size(); ++i) {
      if (!may_agree(types[i], declared_types_[i])) {
        cursor_.fail_at(start, fmt::format("{} gives {}, not {}", to_string(op), to_string(types[i]), to_string(declared_types_[i])));
      }
    }
    if (!declared_types_.empty()) types = declared_types_;
    const NodeId id = graph.add_node(std::move(op), inputs_, std::move(types), {}, names);
    for (size_t i = 0; i < names.size(); ++i) values_[names[i]] = graph.node(id).outputs[i];
  }

  const FindConstant& find_constant_;
};

}  // namespace

Program parse_text(std::string_view text, const FindConstant& find_constant, std::shared_ptr<CustomOperators> operators) {
  return TextParser(text, find_constant, std::move(operators)).parse();
}

Program parse_text_prefix(std::string_view text, size_t& end, const FindConstant& find_constant,
                          std::shared_ptr<CustomOperators> operators) {
  TextParser parser(text, find_constant, std::move(operators));
  Program program = parser.parse_prefix();
  end = parser.end();
  return program;
}

void require_elements(const ConstantData& constant) {
  if (constant.bytes.data() != nullptr || constant.type.numel().is_const(0)) return;
  throw Error(ErrorKind::InvalidInput, fmt::format("the constant '{}' is external: its elements are not in the text form", constant.name))
      .help("use the model that the text was printed from, or write the constant's elements into the text");
}

}  // namespace toroid
