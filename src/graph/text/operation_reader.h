// Operations of the text form: name, operands and attributes at core level, arguments at import level.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/custom/custom_operators.h"
#include "graph/text/text_names.h"
#include "graph/text/text_reader.h"
#include "symbolic/named_symbols.h"

namespace toroid {

class OperationReader : public TextReader {
 protected:
  using TextReader::TextReader;

  ValueId value() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a value");
    const auto found = values_.find(name);
    if (found == values_.end()) cursor_.fail_at(place, fmt::format("no value is called '{}'", name));
    return found->second;
  }

  InputRef add_input() {
    inputs_.push_back(value());
    return {static_cast<uint32_t>(inputs_.size() - 1)};
  }

  // What stands before a node's operation: the names of its results, each read by new_name(), with the types of all or none of them in
  // declared_types_.
  template <class NewName>
  std::vector<std::string> results(const NewName& new_name) {
    const size_t start = cursor_.place();
    std::vector<std::string> names;
    do {
      names.push_back(new_name());
      if (std::count(names.begin(), names.end(), names.back()) > 1) cursor_.fail_at(start, "a name is given twice");
      if (cursor_.accept(":")) declared_types_.push_back(type());
    } while (cursor_.accept(","));
    cursor_.expect("=");
    if (!declared_types_.empty() && declared_types_.size() != names.size())
      cursor_.fail_at(start, "either all results have a type or none");
    return names;
  }

  Op operation() {
    const size_t start = cursor_.place();
    const std::string name = cursor_.word("an operation", true);
    cursor_.expect("(");
    if (name.starts_with("higher_order::")) return higher_order(name.substr(std::string_view("higher_order::").size()));
    if (name.find("::") != std::string::npos) {
      const Schema* schema = find_schema(name);
      if (schema == nullptr && program_.operators != nullptr) {
        if (const CustomOperator* custom = program_.operators->find(name)) schema = &custom->schema;
      }
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
    if (name == "random_state") return RandomState{};
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
    if (name == "matmul.float8") {
      Matmul op;
      op.left_e5m2 = flag("left_e5m2");
      op.right_e5m2 = flag("right_e5m2");
      return op;
    }
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

  // a7 keeps its name if it can: printed, the text is as it was. Nodes may share an axis.
  sym::Expr remap_axis(std::string_view name, sym::Expr extent) {
    const bool is_numbered = name.size() > 1 && name[0] == 'a' && name.find_first_not_of("0123456789", 1) == std::string_view::npos;
    const std::optional<sym::Expr> found = is_numbered ? symbols().find_symbol(name) : std::nullopt;
    if (is_numbered && !found) return sym::named_axis(symbols(), name, extent);
    const bool is_bound = std::any_of(axes_.begin(), axes_.end(), [&](const auto& axis) { return axis.first == name; });
    return found && !is_bound && found->node()->extent == extent ? *found : symbols().axis(extent, "a");
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
      axes_.emplace_back(name, remap_axis(name, declared_types_[0].sizes[d]));
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
    for (std::string_view prefix : {"dtype.", "layout.", "device.", "format.", "Real("}) {
      if (cursor_.next_is(prefix)) return false;
    }
    const size_t start = cursor_.place();
    const bool is_name = !cursor_.at_end() && is_plain_name(cursor_.next_word());
    cursor_.move_to(start);
    return is_name;
  }

  // The operator's argument that the next word names, in the body of an operator: a number, a list, or none for a tensor that is not there.
  const Argument* next_argument() {
    if (arguments_.empty() || cursor_.at_end()) return nullptr;
    const size_t start = cursor_.place();
    const std::string_view word = cursor_.next_word();
    const Argument* given = argument_called(word);
    if (given == nullptr) return nullptr;
    cursor_.move_to(start + word.size());
    if (cursor_.next_is(",") || cursor_.next_is(")")) return given;
    cursor_.move_to(start);
    return nullptr;
  }

  const std::vector<ValueId>* next_list() {
    if (lists_.empty() || cursor_.at_end()) return nullptr;
    const size_t start = cursor_.place();
    const std::string word(cursor_.next_word());
    const auto found = lists_.find(word);
    if (found == lists_.end()) return nullptr;
    cursor_.move_to(start + word.size());
    return &found->second;
  }

  Argument argument(const Parameter* parameter) {
    const bool may_be_tensor = parameter == nullptr || parameter->type == ArgType::Tensor;
    if (const Argument* given = next_argument()) return *given;
    if (const std::vector<ValueId>* list = next_list()) {
      InputList tensors;
      for (ValueId each : *list) {
        inputs_.push_back(each);
        tensors.push_back(InputRef{static_cast<uint32_t>(inputs_.size() - 1)});
      }
      return tensors;
    }
    if (cursor_.next_is("[")) return list_argument(parameter);
    if (cursor_.next_is("\"")) return cursor_.string_literal();
    if (cursor_.accept_word("none")) return None{};
    if (cursor_.accept("@")) {
      const size_t place = cursor_.place();
      const int64_t number = integer(cursor_.word("the number of a subgraph"));
      if (number < 0) cursor_.fail_at(place, "expected the number of a subgraph");
      // Each stands before the graphs that call it, so none calls itself.
      if (static_cast<size_t>(number) >= program_.subgraphs.size()) cursor_.fail_at(place, fmt::format("there is no subgraph {}", number));
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
      constexpr std::pair<std::string_view, MemoryFormat> kFormats[] = {{"contiguous", MemoryFormat::Contiguous},
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
        if (p == schema.parameters.size()) cursor_.fail_at(place, fmt::format("{} has no argument '{}'", schema.name, *name));
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

  std::unordered_map<std::string, ValueId> values_;              // of the graph being read
  std::unordered_map<std::string, std::vector<ValueId>> lists_;  // arguments of the operator whose body is being read
  std::vector<ValueId> inputs_;                                  // of the node being read
  std::vector<TensorType> declared_types_;                       // of its results
};

}  // namespace toroid
