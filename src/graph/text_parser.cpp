// Reads the text form by recursive descent over a cursor; nothing recurses deeper than a graph, a node, an argument.
#include <charconv>
#include <set>

#include "graph/builder.h"
#include "graph/constant_text.h"
#include "graph/text.h"
#include "graph/text_cursor.h"
#include "graph/text_names.h"
#include "graph/type_rules.h"
#include "support/error.h"

namespace toroid {
namespace {

class TextParser {
 public:
  TextParser(std::string_view text, const FindConstant& find_constant) : cursor_(text), find_constant_(find_constant) {}

  Program parse() {
    bool has_graph = false;
    while (!cursor_.at_end()) {
      const size_t start = cursor_.place();
      if (has_graph) cursor_.fail("expected the end of the text after the graph");
      if (cursor_.accept_word("program")) {
        program_.name = cursor_.string_literal();
      } else if (cursor_.accept_word("sym")) {
        parse_symbol();
      } else if (cursor_.accept_word("guard")) {
        program_.guards.push_back(expr(""));
      } else if (cursor_.accept_word("constant")) {
        parse_constant(start, false);
      } else if (cursor_.accept_word("buffer")) {
        parse_constant(start, true);
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
    for (const auto& [place, number] : subgraph_uses_) {
      if (number >= program_.subgraphs.size()) cursor_.fail_at(place, fmt::format("there is no subgraph {}", number));
    }
    return std::move(program_);
  }

 private:
  // ---- numbers and expressions

  int64_t integer(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      cursor_.fail(fmt::format("expected an integer, not '{}'", text));
    }
    return value;
  }

  static std::optional<double> floating(std::string_view text) {
    if (text.find_first_of(".en") == std::string_view::npos) return std::nullopt;  // the n of inf and nan
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  sym::Expr parse_expr(size_t place, std::string_view text) {
    try {
      return sym::parse(text, *program_.symbols, [&](std::string_view name) -> sym::Expr {
        for (const auto& [axis_name, axis] : axes_) {
          if (axis_name == name) return axis;
        }
        if (const std::optional<sym::Expr> symbol = program_.symbols->find_symbol(name);
            symbol && declared_.count(std::string(name))) {
          return *symbol;
        }
        throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' is not declared", name));
      });
    } catch (const Error& error) {
      cursor_.fail_at(place, error.message());
    }
  }
  sym::Expr expr(std::string_view stops) {
    const size_t place = cursor_.place();
    return parse_expr(place, cursor_.raw(stops));
  }
  std::vector<sym::Expr> expr_list() {
    std::vector<sym::Expr> list;
    cursor_.expect("[");
    if (cursor_.accept("]")) return list;
    do list.push_back(expr(",]"));
    while (cursor_.accept(","));
    cursor_.expect("]");
    return list;
  }
  std::vector<int> int_list() {
    std::vector<int> list;
    const size_t place = cursor_.place();
    for (sym::Expr element : expr_list()) {
      if (!element.is_const()) cursor_.fail_at(place, "expected a list of integers");
      list.push_back(small(place, element.value()));
    }
    return list;
  }
  int small(size_t place, int64_t value) {
    if (value != static_cast<int>(value)) cursor_.fail_at(place, fmt::format("{} is too large", value));
    return static_cast<int>(value);
  }
  bool boolean() {
    if (cursor_.accept_word("true")) return true;
    cursor_.expect_word("false");
    return false;
  }
  Scalar scalar(std::string_view stops = ",)]") {
    const size_t place = cursor_.place();
    const std::string_view text = cursor_.raw(stops);
    if (text == "true" || text == "false") return text == "true";
    if (const std::optional<double> number = floating(text)) return *number;
    return parse_expr(place, text);
  }

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

  DType dtype() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("a dtype");
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype) cursor_.fail_at(place, fmt::format("'{}' is not a dtype", name));
    return *dtype;
  }

  Device device() {
    if (cursor_.accept_word("cpu")) return {};
    cursor_.expect("cuda:");
    return {Device::Type::Cuda, small(cursor_.place(), integer(cursor_.word("the device's number")))};
  }

  TensorType type() {
    TensorType type;
    type.dtype = dtype();
    const size_t place = cursor_.place();
    type.sizes = expr_list();
    for (sym::Expr size : type.sizes) {
      if (sym::known_lt(size, 0)) cursor_.fail_at(place, fmt::format("size {} is negative", sym::to_string(size)));
    }
    if (cursor_.accept_word("strides")) {
      const size_t strides_place = cursor_.place();
      type.strides = expr_list();
      if (type.strides.size() != type.sizes.size()) cursor_.fail_at(strides_place, "expected a stride for each dim");
    }
    if (cursor_.accept_word("offset")) {
      cursor_.expect("(");
      type.storage_offset = expr(")");
      cursor_.expect(")");
    }
    if (cursor_.accept_word("on")) type.device = device();
    return type;
  }

  void parse_constant(size_t start, bool is_buffer) {
    const int64_t number = integer(cursor_.word("the number of the constant"));
    if (number != static_cast<int64_t>(program_.constants.size())) {
      cursor_.fail_at(start, fmt::format("constant {} stands in place {}", number, program_.constants.size()));
    }
    ConstantData data;
    data.is_buffer = is_buffer;
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
    program_.add_constant(std::move(data));
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
      cursor_.fail_at(start,
                      fmt::format("{} needs {} bytes, not {}", to_string(type), sym::to_string(wanted), bytes.size()));
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

  ValueId value() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a value");
    const auto found = values_.find(name);
    if (found == values_.end()) cursor_.fail_at(place, fmt::format("no value is called '{}'", name));
    return found->second;
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
    if (cursor_.accept("->")) {
      constexpr std::pair<std::string_view, OutputKind> kKinds[] = {
          {"user", OutputKind::User},           {"buffer", OutputKind::BufferMutation},
          {"input", OutputKind::InputMutation}, {"parameter", OutputKind::ParameterMutation},
          {"gradient", OutputKind::Gradient},   {"loss", OutputKind::Loss},
          {"token", OutputKind::Token}};
      const size_t place = cursor_.place();
      const std::string word = cursor_.word("what the output is");
      const auto* kind =
          std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& row) { return row.first == word; });
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
    if (has_results()) {
      do {
        names.push_back(new_name());
        if (std::count(names.begin(), names.end(), names.back()) > 1) cursor_.fail_at(start, "a name is given twice");
        if (cursor_.accept(":")) declared_types_.push_back(type());
      } while (cursor_.accept(","));
      cursor_.expect("=");
    }
    if (!declared_types_.empty() && declared_types_.size() != names.size()) {
      cursor_.fail_at(start, "either all results have a type or none");
    }
    inputs_.clear();
    axes_.clear();
    Op op = operation();
    axes_.clear();
    finish_node(graph, start, std::move(op), std::move(names));
  }

  void finish_node(Graph& graph, size_t start, Op op, std::vector<std::string> names) {
    std::vector<TensorType> operands;
    for (ValueId input : inputs_) operands.push_back(graph.type(input));
    if (const auto* constant = std::get_if<Constant>(&op); constant && declared_types_.empty()) {
      declared_types_.push_back(program_.constant(constant->id).type);
    }
    std::vector<TensorType> types;
    try {
      types = result_types(op, operands, declared_types_);
    } catch (const Error& error) {
      cursor_.fail_at(start, error.message());
    }
    if (types.size() != names.size()) {
      cursor_.fail_at(start, fmt::format("{} has {} results, not {}", to_string(op), types.size(), names.size()));
    }
    for (size_t i = 0; i < declared_types_.size(); ++i) {
      if (!may_agree(types[i], declared_types_[i])) {
        cursor_.fail_at(start, fmt::format("{} gives {}, not {}", to_string(op), to_string(types[i]),
                                           to_string(declared_types_[i])));
      }
    }
    if (!declared_types_.empty()) types = declared_types_;
    const NodeId id = graph.add_node(std::move(op), inputs_, std::move(types), {}, names);
    for (size_t i = 0; i < names.size(); ++i) values_[names[i]] = graph.node(id).outputs[i];
  }

  // ---- operations

  InputRef add_input() {
    inputs_.push_back(value());
    return {static_cast<uint32_t>(inputs_.size() - 1)};
  }

  Op operation() {
    const size_t start = cursor_.place();
    const std::string name = cursor_.word("an operation", true);
    cursor_.expect("(");
    if (name.starts_with("higher_order::")) return higher_order(name.substr(std::string_view("higher_order::").size()));
    if (name.find("::") != std::string::npos) {
      const Schema* schema = find_schema(name);
      if (schema == nullptr) cursor_.fail_at(start, fmt::format("no operator is called '{}'", name));
      return aten(start, *schema);
    }
    // Operands, then attributes by name.
    while (name != "constant" && !cursor_.next_is(")") && !at_attribute()) {
      add_input();
      if (!cursor_.accept(",")) break;
    }
    Op op = core_operation(start, name);
    cursor_.expect(")");
    return op;
  }

  bool at_attribute() {
    const size_t start = cursor_.place();
    bool is_attribute = false;
    if (!cursor_.next_is("%")) {
      cursor_.word("an operand");
      is_attribute = !cursor_.next_is(",") && !cursor_.next_is(")");
    }
    cursor_.move_to(start);
    return is_attribute;
  }

  void attribute(std::string_view name) {
    cursor_.accept(",");
    cursor_.expect_word(name);
    cursor_.expect("=");
  }
  std::vector<sym::Expr> exprs(std::string_view name) { return attribute(name), expr_list(); }
  std::vector<int> ints(std::string_view name) { return attribute(name), int_list(); }
  bool flag(std::string_view name) { return attribute(name), boolean(); }
  int dim() {
    attribute("dim");
    const size_t place = cursor_.place();
    return small(place, integer(cursor_.raw(",)")));
  }

  // "reduce.sum": the part behind the dot, if the name starts so.
  static std::optional<std::string_view> after(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    return name.substr(prefix.size());
  }

  Op core_operation(size_t start, std::string_view name) {
    if (name == "constant") {
      const size_t place = cursor_.place();
      const int64_t number = integer(cursor_.raw(")"));
      if (number < 0 || number >= static_cast<int64_t>(program_.constants.size())) {
        cursor_.fail_at(place, fmt::format("there is no constant {}", number));
      }
      return Constant{ConstantId{static_cast<uint32_t>(number)}};
    }
    if (name == "full") return attribute("value"), Full{scalar()};
    if (name == "iota") return Iota{dim()};
    if (name == "cast") return Cast{};
    if (name == "bitcast") return Bitcast{};
    if (name == "expand") return Expand{};
    if (name == "permute") return Permute{ints("dims")};
    if (name == "reshape") return Reshape{};
    if (name == "slice") {
      Slice op;
      op.starts = exprs("starts");
      op.steps = exprs("steps");
      return op;
    }
    if (name == "remap") return remap(start);
    if (name == "pad") {
      Pad op;
      op.low = exprs("low");
      attribute("value");
      op.value = scalar();
      return op;
    }
    if (name == "cat") return Cat{dim()};
    if (name == "gather") return Gather{};
    if (name == "matmul") return Matmul{};
    if (name == "sort") {
      Sort op{};
      op.dim = dim();
      op.descending = flag("descending");
      op.stable = flag("stable");
      return op;
    }
    if (name == "convolution") {
      Convolution op;
      op.stride = exprs("stride");
      op.padding = exprs("padding");
      op.dilation = exprs("dilation");
      op.output_padding = exprs("output_padding");
      op.transposed = flag("transposed");
      attribute("groups");
      op.groups = expr(",)");
      return op;
    }
    if (name == "attention") {
      Attention op{};
      op.causal = flag("causal");
      attribute("scale");
      const size_t place = cursor_.place();
      const std::optional<double> scale = floating(cursor_.raw(",)"));
      if (!scale) cursor_.fail_at(place, "expected a floating number");
      op.scale = *scale;
      return op;
    }
    if (const auto kind = after(name, "reduce.")) {
      if (const auto op = parse_reduce_op(*kind)) return Reduce{*op, ints("dims")};
    }
    if (const auto kind = after(name, "scan.")) {
      if (const auto op = parse_scan_op(*kind)) return Scan{*op, dim()};
    }
    if (const auto kind = after(name, "scatter.")) {
      if (const auto op = parse_scatter_mode(*kind)) return Scatter{*op};
    }
    if (const auto kernel = after(name, "library."); kernel && !kernel->empty()) return library(*kernel);
    if (const auto op = parse_scalar_op(name)) return Pointwise{*op};
    cursor_.fail_at(start, fmt::format("no operation is called '{}'", name));
  }

  Op library(std::string_view kernel) {
    Library op{std::string(kernel), {}};
    if (cursor_.next_is(")")) return op;
    attribute("attributes");
    cursor_.expect("[");
    do op.attributes.push_back(scalar());
    while (cursor_.accept(","));
    cursor_.expect("]");
    return op;
  }

  // The axes are bound here: their extents are the sizes of the result.
  Op remap(size_t start) {
    Remap op;
    attribute("axes");
    if (declared_types_.size() != 1) cursor_.fail_at(start, "remap has one result, and its type must be given");
    cursor_.expect("[");
    while (!cursor_.accept("]")) {
      const std::string name = cursor_.word("an axis");
      const size_t d = axes_.size();
      if (d >= declared_types_[0].sizes.size()) cursor_.fail_at(start, "remap has more axes than its result has dims");
      axes_.emplace_back(name, program_.symbols->axis(declared_types_[0].sizes[d], "a"));
      op.axes.push_back(axes_.back().second);
      cursor_.accept(",");
    }
    op.index = exprs("index");
    return op;
  }

  // ---- import level

  // Whether a value's name comes, rather than a number, a word with a meaning, or one of dtype.f32 and its like.
  bool at_value_name() {
    if (cursor_.next_is("%")) return true;
    for (std::string_view prefix : {"dtype.", "layout.", "device.", "format."}) {
      if (cursor_.next_is(prefix)) return false;
    }
    const size_t start = cursor_.place();
    const bool is_name = !cursor_.at_end() && is_plain_name(cursor_.next_word());
    cursor_.move_to(start);
    return is_name;
  }

  Argument argument(const Parameter* parameter) {
    const bool may_be_tensor = parameter == nullptr || parameter->type == ArgType::Tensor;
    if (cursor_.next_is("[")) return list_argument(parameter);
    if (cursor_.next_is("\"")) return cursor_.string_literal();
    if (cursor_.accept_word("none")) return None{};
    if (cursor_.accept("@")) {
      const size_t place = cursor_.place();
      const int64_t number = integer(cursor_.word("the number of a subgraph"));
      if (number < 0) cursor_.fail_at(place, "expected the number of a subgraph");
      subgraph_uses_.emplace_back(place, static_cast<size_t>(number));
      return SubgraphRef{static_cast<uint32_t>(number)};
    }
    if (cursor_.accept("dtype.")) return dtype();
    if (cursor_.accept("device.")) return device();
    if (cursor_.accept("layout.")) {
      if (cursor_.accept_word("strided")) return Layout::Strided;
      cursor_.expect_word("other");
      return Layout::Other;
    }
    if (cursor_.accept("format.")) {
      constexpr std::pair<std::string_view, MemoryFormat> kFormats[] = {
          {"contiguous", MemoryFormat::Contiguous},
          {"channels_last_3d", MemoryFormat::ChannelsLast3d},
          {"channels_last", MemoryFormat::ChannelsLast},
          {"preserve", MemoryFormat::Preserve}};
      for (const auto& [name, format] : kFormats) {
        if (cursor_.accept_word(name)) return format;
      }
      cursor_.fail("expected a memory format");
    }
    if (may_be_tensor && at_value_name()) return add_input();
    return std::visit([](const auto& number) { return Argument(number); }, scalar(",)"));
  }

  Argument list_argument(const Parameter* parameter) {
    const bool is_tensors = parameter == nullptr || parameter->type == ArgType::Tensor;
    cursor_.expect("[");
    InputList tensors;
    std::vector<std::string> texts;
    std::vector<Scalar> numbers;
    while (!cursor_.accept("]")) {
      if (cursor_.next_is("\"")) {
        texts.push_back(cursor_.string_literal());
      } else if (is_tensors && cursor_.accept_word("none")) {
        tensors.push_back(std::nullopt);
      } else if (is_tensors && at_value_name()) {
        tensors.push_back(add_input());
      } else {
        numbers.push_back(scalar(",]"));
      }
      if (!cursor_.next_is("]")) cursor_.expect(",");
    }
    if ((tensors.empty() ? 0 : 1) + (texts.empty() ? 0 : 1) + (numbers.empty() ? 0 : 1) > 1) {
      cursor_.fail("the elements of a list must be of one kind");
    }
    if (!texts.empty()) return texts;
    if (!numbers.empty()) return number_list(numbers);
    if (is_tensors) return tensors;
    if (parameter->type == ArgType::Float) return std::vector<double>{};
    if (parameter->type == ArgType::Bool) return std::vector<bool>{};
    if (parameter->type == ArgType::String) return std::vector<std::string>{};
    return ExprList{};
  }

  Argument number_list(const std::vector<Scalar>& numbers) {
    std::vector<bool> flags;
    std::vector<double> doubles;
    ExprList exprs;
    for (const Scalar& number : numbers) {
      if (const auto* flag = std::get_if<bool>(&number)) flags.push_back(*flag);
      if (const auto* value = std::get_if<double>(&number)) doubles.push_back(*value);
      if (const auto* value = std::get_if<sym::Expr>(&number)) exprs.push_back(*value);
    }
    if (flags.size() == numbers.size()) return flags;
    if (doubles.size() == numbers.size()) return doubles;
    if (exprs.size() == numbers.size()) return exprs;
    cursor_.fail("the elements of a list must be of one kind");
  }

  Op aten(size_t start, const Schema& schema) {
    std::vector<std::optional<Argument>> given(schema.parameters.size());
    size_t next = 0;
    bool named = false;
    while (!cursor_.accept(")")) {
      const size_t place = cursor_.place();
      size_t p = next++;
      if (const std::optional<std::string> name = argument_name()) {
        named = true;
        for (p = 0; p < schema.parameters.size() && schema.parameters[p].name != *name; ++p) {
        }
        if (p == schema.parameters.size())
          cursor_.fail_at(place, fmt::format("{} has no argument '{}'", schema.name, *name));
      } else if (named) {
        cursor_.fail_at(place, "expected the argument's name");
      }
      if (p >= schema.parameters.size()) {
        cursor_.fail_at(place, fmt::format("{} takes {} arguments", schema.name, schema.parameters.size()));
      }
      if (given[p]) cursor_.fail_at(place, fmt::format("argument '{}' is given twice", schema.parameters[p].name));
      given[p] = argument(&schema.parameters[p]);
      if (!cursor_.next_is(")")) cursor_.expect(",");
    }
    Aten op{&schema, {}};
    for (size_t p = 0; p < given.size(); ++p) {
      const std::optional<Argument>& fallback = schema.parameters[p].default_value;
      if (!given[p] && !fallback) {
        cursor_.fail_at(start, fmt::format("{} needs the argument '{}'", schema.name, schema.parameters[p].name));
      }
      op.arguments.push_back(given[p] ? std::move(*given[p]) : *fallback);
    }
    return op;
  }

  // "dim" of "dim=1"; nothing, and no step forward, when no name is given.
  std::optional<std::string> argument_name() {
    const size_t start = cursor_.place();
    if (at_value_name() && !cursor_.next_is("%")) {
      std::string name = cursor_.word("a name");
      if (!cursor_.next_is("==") && cursor_.accept("=")) return name;
    }
    cursor_.move_to(start);
    return std::nullopt;
  }

  Op higher_order(std::string name) {
    HigherOrder op{std::move(name), {}};
    while (!cursor_.accept(")")) {
      op.arguments.push_back(argument(nullptr));
      if (!cursor_.next_is(")")) cursor_.expect(",");
    }
    return op;
  }

  Cursor cursor_;
  const FindConstant& find_constant_;
  Program program_;
  std::set<std::string> declared_;                        // symbols
  std::unordered_map<std::string, ValueId> values_;       // of the graph being read
  std::vector<ValueId> inputs_;                           // of the node being read
  std::vector<TensorType> declared_types_;                // of its results
  std::vector<std::pair<std::string, sym::Expr>> axes_;   // that it binds
  std::vector<std::pair<size_t, size_t>> subgraph_uses_;  // where, and which
};

}  // namespace

Program parse_text(std::string_view text, const FindConstant& find_constant) {
  return TextParser(text, find_constant).parse();
}

}  // namespace toroid
