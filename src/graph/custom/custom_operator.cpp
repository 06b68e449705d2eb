#include "graph/custom/custom_operator.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text_cursor.h"
#include "graph/custom/formula.h"

namespace toroid {
namespace {

constexpr size_t kMaxParameters = 200, kMaxDims = 64, kMaxStatements = 1000;

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// "mylib::op" or "mylib::op.overload", each part an identifier.
bool is_operator_name(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == name.npos || !is_identifier(name.substr(0, colons))) return false;
  const std::string_view rest = name.substr(colons + 2);
  const size_t dot = rest.find('.');
  return is_identifier(rest.substr(0, dot)) && (dot == rest.npos || is_identifier(rest.substr(dot + 1)));
}

bool is_number(const Parameter& parameter) {
  return parameter.type == ArgType::Int || parameter.type == ArgType::SymInt || parameter.type == ArgType::Bool;
}

}  // namespace

std::string length_name(const Parameter& list) { return "num_" + list.name; }

namespace {

class OperatorReader {
 public:
  OperatorReader(std::string text, std::string file) : op_{.file = std::move(file), .text = std::move(text)}, cursor_(op_.text) {}

  CustomOperator read() {
    if (op_.text.size() > kMaxOperatorFileBytes) cursor_.fail_at(0, fmt::format("expected at most {} bytes", kMaxOperatorFileBytes));
    cursor_.skip();
    if (!cursor_.accept_word("operator")) cursor_.fail("expected 'operator' and a schema");
    read_schema();
    for (size_t count = 0; !cursor_.at_end(); ++count) {
      if (count == kMaxStatements) cursor_.fail("expected fewer statements");
      read_statement();
    }
    check_whole();
    return std::move(op_);
  }

 private:
  [[noreturn]] void fail_at(size_t place, std::string_view message) const { cursor_.fail_at(place, message); }

  // To the end of the line, comments aside.
  PlacedText rest_of_line() {
    const size_t place = cursor_.place();
    return {std::string(cursor_.raw("}")), place};
  }

  void read_schema() {
    const size_t place = cursor_.place(), end = std::min(op_.text.find('\n', place), op_.text.size());
    std::string text = op_.text.substr(place, end - place);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.pop_back();
    try {
      op_.schema = parse_schema(text);
    } catch (const Error& error) {
      fail_at(place, error.message());
    }
    cursor_.move_to(end);
    const Schema& schema = op_.schema;
    if (!is_operator_name(schema.name)) fail_at(place, fmt::format("expected a name as in mylib::op, not '{}'", schema.name));
    if (schema.parameters.size() > kMaxParameters) fail_at(place, fmt::format("expected at most {} arguments", kMaxParameters));
    for (const Parameter& parameter : schema.parameters) {
      if (!is_identifier(parameter.name))
        fail_at(place, fmt::format("expected an identifier as an argument's name, not '{}'", parameter.name));
      if (!names_.insert(parameter.name).second) fail_at(place, fmt::format("argument '{}' is there twice", parameter.name));
      if (parameter.is_list && !names_.insert(length_name(parameter)).second)
        fail_at(place, fmt::format("the argument '{}' has the name of a list's length", length_name(parameter)));
      if (parameter.type == ArgType::Graph || parameter.type == ArgType::Any)
        fail_at(place, fmt::format("expected another type of the argument '{}'", parameter.name));
      if (parameter.mutated && (parameter.is_list || parameter.is_optional))
        fail_at(place, fmt::format("expected one tensor where '{}' is written to", parameter.name));
    }
    for (const Parameter& result : schema.results) {
      if (result.type != ArgType::Tensor || result.is_list || result.is_optional) fail_at(place, "expected tensors as results");
      if (!result.alias.empty() && !is_updated_argument(result)) fail_at(place, "expected results that share no memory with arguments");
      if (result.alias.empty()) ++num_results_;
    }
  }

  bool is_updated_argument(const Parameter& result) const {
    return std::any_of(op_.schema.parameters.begin(), op_.schema.parameters.end(),
                       [&](const Parameter& p) { return p.mutated && p.alias == result.alias; });
  }

  void read_statement() {
    const size_t start = cursor_.place();
    if (cursor_.accept_word("dtype")) return read_dtype();
    if (cursor_.accept_word("argument")) return read_argument();
    if (cursor_.accept("result")) return read_result(start);
    if (cursor_.accept_word("require")) {
      op_.requirements.push_back(rest_of_line());
      return check_expression(op_.requirements.back());
    }
    if (cursor_.accept_word("formula")) return read_formula_body(start);
    if (cursor_.accept_word("cpp")) return read_kernel(start, CustomKernel::Kind::Cpp);
    if (cursor_.accept_word("cuda")) return read_kernel(start, CustomKernel::Kind::Cuda);
    if (cursor_.accept_word("triton")) return read_kernel(start, CustomKernel::Kind::Triton);
    if (cursor_.accept_word("halide")) return read_kernel(start, CustomKernel::Kind::Halide);
    if (cursor_.accept_word("library")) return read_kernel(start, CustomKernel::Kind::Library);
    cursor_.fail("expected dtype, argument, result, require, formula, cpp, cuda, triton, halide or library");
  }

  // ---- rules

  std::string new_name(std::string_view wanted) {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word(wanted);
    if (!is_identifier(name)) fail_at(place, fmt::format("expected {}, not '{}'", wanted, name));
    if (!names_.insert(name).second) fail_at(place, fmt::format("'{}' has a meaning already", name));
    return name;
  }

  void read_dtype() {
    const size_t name_place = cursor_.place();
    const std::string name = new_name("a name for the dtype");
    if (parse_dtype(name)) fail_at(name_place, fmt::format("'{}' is a dtype's own name; expected another one", name));
    cursor_.expect_word("in");
    std::vector<DType> dtypes;
    do {
      const size_t place = cursor_.place();
      const std::string word = cursor_.word("a dtype");
      const std::optional<DType> dtype = parse_dtype(word);
      if (!dtype) fail_at(place, fmt::format("expected a dtype, not '{}'", word));
      dtypes.push_back(*dtype);
    } while (cursor_.accept(","));
    op_.dtypes.emplace_back(name, std::move(dtypes));
  }

  bool is_known_dtype(const std::string& name) const {
    return parse_dtype(name) || std::any_of(op_.dtypes.begin(), op_.dtypes.end(), [&](const auto& each) { return each.first == name; });
  }

  TypeRule read_rule(bool is_result) {
    TypeRule rule;
    rule.place = cursor_.place();
    rule.dtype = cursor_.word("a dtype");
    if (!is_known_dtype(rule.dtype))
      fail_at(rule.place, fmt::format("expected a dtype or a name that 'dtype' gives, not '{}'", rule.dtype));
    cursor_.expect("[");
    if (cursor_.accept("]")) return rule;
    bool has_rest = false;
    do {
      const size_t place = cursor_.place();
      if (rule.dims.size() == kMaxDims) fail_at(place, fmt::format("expected at most {} dims", kMaxDims));
      if (cursor_.accept("*")) {
        if (has_rest && !is_result) fail_at(place, "expected a single dim: another '*' stands before");
        has_rest = true;
        const size_t name_place = cursor_.place();
        const std::string name = cursor_.word("a name for the dims");
        if (!rests_.contains(name)) {
          if (is_result) fail_at(name_place, fmt::format("no argument has dims *{}", name));
          cursor_.move_to(name_place);
          new_name("a name for the dims");
          rests_.insert(name);
          op_.size_names.push_back(name);
        }
        rule.dims.push_back({TypeRule::Dim::Kind::Rest, {name, name_place}});
      } else if (!is_result && cursor_.accept_word("_")) {
        rule.dims.push_back({TypeRule::Dim::Kind::Any, {"_", place}});
      } else {
        PlacedText text{std::string(cursor_.raw(",]")), place};
        if (!is_result && is_identifier(text.text) && !names_.contains(text.text)) {
          names_.insert(text.text);
          sizes_.insert(text.text);
          op_.size_names.push_back(text.text);
        } else {
          check_expression(text);
        }
        rule.dims.push_back({TypeRule::Dim::Kind::Size, std::move(text)});
      }
    } while (cursor_.accept(","));
    cursor_.expect("]");
    return rule;
  }

  void read_argument() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("an argument's name");
    const auto& parameters = op_.schema.parameters;
    const auto parameter = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
    if (parameter == parameters.end() || parameter->type != ArgType::Tensor)
      fail_at(place, fmt::format("expected a tensor of the schema, not '{}'", name));
    if (rule_of(name) != nullptr) fail_at(place, fmt::format("argument '{}' has a rule already", name));
    cursor_.expect(":");
    TypeRule rule = read_rule(false);
    rule.is_strided = cursor_.accept_word("strided");
    if (rule.is_strided && parameter->mutated) fail_at(place, fmt::format("'{}' is written to, and then contiguous", name));
    op_.arguments.emplace_back(name, std::move(rule));
  }

  void read_result(size_t start) {
    if (!cursor_.accept(":")) {
      cursor_.word("':' or the result's name");
      cursor_.expect(":");
    }
    if (op_.results.size() == num_results_) fail_at(start, fmt::format("the schema has {} new results, each with a rule", num_results_));
    op_.results.push_back(read_rule(true));
  }

  const TypeRule* rule_of(std::string_view parameter) const {
    for (const auto& [name, rule] : op_.arguments) {
      if (name == parameter) return &rule;
    }
    return nullptr;
  }

  // `constants`: names besides that stand for integers.
  void check_expression(const PlacedText& text, const TritonConfiguration* constants = nullptr) const {
    sym::Context scratch;
    op_.parse(text, scratch, [&](std::string_view name) -> std::optional<sym::Expr> {
      if (constants != nullptr && integer_constant(*constants, name)) return integer_constant(*constants, name);
      const bool is_integer = std::any_of(op_.schema.parameters.begin(), op_.schema.parameters.end(), [&](const Parameter& p) {
        return p.is_list ? name == length_name(p) : p.name == name && is_number(p);
      });
      if (!is_integer && !sizes_.contains(std::string(name)) && !rests_.contains(std::string(name))) return std::nullopt;
      return scratch.symbol(std::string(name), sym::SymbolKind::Size);
    });
  }

  // ---- bodies

  void read_formula_body(size_t start) {
    if (op_.formula) fail_at(start, "expected one formula");
    if (!cursor_.next_is("{")) cursor_.fail("expected '{'");
    op_.formula = cursor_.place();
    // Skipped here, and read when all rules are known: a brace within it would be in a string, which no formula has.
    const size_t end = op_.text.find('}', *op_.formula);
    if (end == std::string::npos) cursor_.fail("expected '}'");
    cursor_.move_to(end + 1);
  }

  void read_kernel(size_t start, CustomKernel::Kind kind) {
    if (op_.kernel(kind) != nullptr) fail_at(start, fmt::format("expected one kernel in {}", to_string(kind)));
    CustomKernel kernel{.kind = kind};
    kernel.place = start;
    const bool is_cuda = kind == CustomKernel::Kind::Cuda, is_triton = kind == CustomKernel::Kind::Triton,
               is_halide = kind == CustomKernel::Kind::Halide, has_source = kind != CustomKernel::Kind::Library,
               has_tasks = !is_cuda && !is_triton && !is_halide;
    if (!has_source) {
      const size_t place = cursor_.place();
      kernel.library = cursor_.string_literal();
      if (kernel.library.empty() || kernel.library.native().find('\0') != std::string::npos) fail_at(place, "expected a library's path");
    }
    cursor_.expect("{");
    while (!cursor_.accept("}")) {
      const size_t place = cursor_.place();
      const std::string word = cursor_.word("a setting of the kernel or '}'");
      std::optional<PlacedText>* number = nullptr;
      if (word == "workspace" && !is_halide) number = &kernel.workspace;
      if (word == "tasks" && has_tasks) number = &kernel.tasks;
      if (word == "work" && has_tasks) number = &kernel.work;
      if (word == "blocks" && is_cuda) number = &kernel.blocks;
      if (word == "threads" && is_cuda) number = &kernel.threads;
      if (word == "shared" && is_cuda) number = &kernel.shared;
      if (number != nullptr) {
        if (*number) fail_at(place, fmt::format("'{}' is there twice", word));
        *number = rest_of_line();
        check_expression(**number);
      } else if (word == "function") {
        const size_t name_place = cursor_.place();
        if (!kernel.function.empty()) fail_at(place, "'function' is there twice");
        kernel.function = cursor_.word("a function's name");
        if (!is_identifier(kernel.function)) fail_at(name_place, fmt::format("expected a function's name, not '{}'", kernel.function));
      } else if (word == "source" && has_source) {
        if (!kernel.source.empty()) fail_at(place, "'source' is there twice");
        read_source(kernel);
      } else if (is_halide && word == "autoscheduler") {
        read_autoscheduler(kernel);
      } else if (is_triton && (word == "grid" || word == "configuration" || word == "arguments")) {
        read_triton_setting(kernel, word, place);
      } else {
        fail_at(place, fmt::format("expected function, {}, not '{}'",
                                   is_halide    ? "autoscheduler or source"
                                   : is_triton  ? "workspace, grid, configuration, arguments or source"
                                   : is_cuda    ? "workspace, blocks, threads, shared or source"
                                   : has_source ? "workspace, tasks, work or source"
                                                : "workspace, tasks or work",
                                   word));
      }
    }
    if (has_source && kernel.source.empty()) fail_at(start, "expected a source: source \"\"\" … \"\"\"");
    if (is_cuda && (!kernel.blocks || !kernel.threads)) fail_at(start, "expected 'blocks' and 'threads'");
    if (kernel.function.empty()) {
      const std::string_view name = op_.schema.name;
      const std::string_view behind = name.substr(name.find("::") + 2);
      kernel.function = behind.substr(0, behind.find('.'));
    }
    if (is_triton) check_triton(kernel, start);
    op_.kernels.push_back(std::move(kernel));
  }

  void read_autoscheduler(CustomKernel& kernel) {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("an autoscheduler's name, or none");
    if (name == "none") {
      kernel.autoscheduler.clear();
      return;
    }
    if (name != "Mullapudi2016" && name != "Li2018" && name != "Adams2019")
      fail_at(place, fmt::format("expected Mullapudi2016, Li2018, Adams2019 or none, not '{}'", name));
    kernel.autoscheduler = name;
  }

  void read_triton_setting(CustomKernel& kernel, const std::string& word, size_t place) {
    if (word == "configuration") {
      kernel.configurations.push_back(read_configuration(place));
      return;
    }
    if (!(word == "grid" ? kernel.grid.empty() : kernel.order.empty())) fail_at(place, fmt::format("'{}' is there twice", word));
    constexpr size_t kMostDims = 3;
    do {
      const size_t each = cursor_.place();
      if (word == "grid") {
        if (kernel.grid.size() == kMostDims) fail_at(each, "expected at most three numbers of programs");
        kernel.grid.push_back({std::string(cursor_.raw(",}")), each});
      } else {
        kernel.order.push_back(cursor_.word("an argument's name"));
      }
    } while (cursor_.accept(","));
  }

  TritonConfiguration read_configuration(size_t start) {
    TritonConfiguration result;
    result.place = start;
    do {
      const size_t place = cursor_.place();
      const std::string name = cursor_.word("a constant's name");
      cursor_.expect("=");
      const size_t value_place = cursor_.place();
      const std::string value(cursor_.raw(",}"));
      if (name == "num_warps" || name == "num_stages") {
        const std::optional<int64_t> number = integer_of(value);
        const bool is_warps = name == "num_warps";
        const bool is_power = number && *number > 0 && (*number & (*number - 1)) == 0;
        if (!number || *number < 1 || *number > 32 || (is_warps && !is_power))
          fail_at(value_place, fmt::format("expected {} as {}, not '{}'", is_warps ? "1, 2, 4, 8, 16 or 32" : "1 to 32", name, value));
        (is_warps ? result.warps : result.stages) = static_cast<int>(*number);
        continue;
      }
      if (!is_identifier(name) || names_.contains(name)) fail_at(place, fmt::format("'{}' has a meaning already, or is no name", name));
      if (!is_json_number(value) && value != "true" && value != "false")
        fail_at(value_place, fmt::format("expected a number, true or false, not '{}'", value));
      result.constants.emplace_back(name, value);
    } while (cursor_.accept(","));
    return result;
  }

  static std::optional<int64_t> integer_of(std::string_view text) {
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
  }

  static bool is_json_number(std::string_view text) {
    if (integer_of(text)) return true;
    double number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool has_digit_first = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    return problem == std::errc() && end == text.data() + text.size() && has_digit_first &&
           text.find_first_not_of("+-.0123456789eE") == text.npos && text.back() != '.';
  }

  static std::optional<sym::Expr> integer_constant(const TritonConfiguration& configuration, std::string_view name) {
    for (const auto& [known, value] : configuration.constants) {
      if (known == name) return integer_of(value) ? std::optional(sym::Expr(*integer_of(value))) : std::nullopt;
    }
    return std::nullopt;
  }

  // Each configuration has the same constants, which the grid may be in terms of, and each name of `arguments` is known.
  void check_triton(CustomKernel& kernel, size_t start) const {
    if (kernel.grid.empty()) fail_at(start, "expected 'grid'");
    if (kernel.configurations.empty()) kernel.configurations.push_back({.place = start});
    const auto names_of = [](const TritonConfiguration& configuration) {
      std::vector<std::string> names;
      for (const auto& [name, value] : configuration.constants) names.push_back(name);
      return names;
    };
    const std::vector<std::string> constants = names_of(kernel.configurations[0]);
    if (std::set(constants.begin(), constants.end()).size() != constants.size())
      fail_at(kernel.configurations[0].place, "a constant is there twice");
    for (const TritonConfiguration& each : kernel.configurations) {
      if (names_of(each) != constants) fail_at(each.place, "expected the constants of the first configuration, in its order");
      for (const PlacedText& number : kernel.grid) check_expression(number, &each);
    }
    std::set<std::string> given;
    for (const std::string& name : kernel.order) {
      const auto& parameters = op_.schema.parameters;
      bool is_known = std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; }) ||
                      std::find(op_.size_names.begin(), op_.size_names.end(), name) != op_.size_names.end() ||
                      std::find(constants.begin(), constants.end(), name) != constants.end() || (kernel.workspace && name == "workspace");
      for (size_t i = 0; i < num_results_; ++i) is_known = is_known || name == result_name(i, num_results_);
      if (!is_known)
        fail_at(start, fmt::format("the kernel's argument '{}' is none of the operator's, nor a size, a result or a constant", name));
      if (!given.insert(name).second) fail_at(start, fmt::format("the kernel's argument '{}' is there twice", name));
    }
  }

  void read_source(CustomKernel& kernel) {
    constexpr std::string_view kQuotes = "\"\"\"";
    if (!cursor_.accept(kQuotes)) cursor_.fail("expected '\"\"\"'");
    const size_t begin = cursor_.here();
    const size_t end = op_.text.find(kQuotes, begin);
    if (end == std::string::npos) fail_at(begin, "expected '\"\"\"' at the end of the source");
    kernel.source = op_.text.substr(begin, end - begin);
    if (kernel.source.find('\0') != std::string::npos) fail_at(begin, "expected a source without zero bytes");
    kernel.source_line = op_.line_of(begin);
    if (kernel.source.empty()) kernel.source = "\n";
    cursor_.move_to(end + kQuotes.size());
  }

  // ---- the whole

  void check_whole() {
    if (!op_.formula && op_.kernels.empty()) cursor_.fail("expected a body: formula, cpp, cuda, triton, halide or library");
    if (!op_.results.empty() && op_.results.size() != num_results_)
      cursor_.fail(fmt::format("expected a rule for each of {} results, not {}", num_results_, op_.results.size()));
    for (const CustomKernel& kernel : op_.kernels) check_for_kernel(kernel);
    if (op_.kernel(CustomKernel::Kind::Cpp) != nullptr && op_.kernel(CustomKernel::Kind::Library) != nullptr)
      fail_at(op_.kernel(CustomKernel::Kind::Library)->place, "expected C++ or a library, not both");
    if (op_.formula) check_formula();
  }

  // A kernel knows its tensors by rules, and takes numbers besides.
  void check_for_kernel(const CustomKernel& kernel) const {
    const bool is_halide = kernel.kind == CustomKernel::Kind::Halide;
    const bool is_cuda = kernel.kind == CustomKernel::Kind::Cuda || kernel.kind == CustomKernel::Kind::Triton || is_halide;
    const std::string_view language = to_string(kernel.kind);
    for (const Parameter& parameter : op_.schema.parameters) {
      if (parameter.type == ArgType::Tensor) {
        const TypeRule* rule = rule_of(parameter.name);
        if (rule == nullptr)
          fail_at(kernel.place, fmt::format("expected a rule for the argument '{}', which a kernel takes", parameter.name));
        if (is_halide && (parameter.is_optional || parameter.mutated))
          fail_at(kernel.place, fmt::format("a Halide kernel cannot take '{}', which may be absent or is written to", parameter.name));
        if (is_cuda && parameter.is_list)
          fail_at(kernel.place, fmt::format("a {} kernel cannot take '{}', a list of tensors", language, parameter.name));
        continue;
      }
      const bool is_real = parameter.type == ArgType::Float || parameter.type == ArgType::Scalar;
      if (!is_number(parameter) && !is_real)
        fail_at(kernel.place, fmt::format("a kernel takes tensors, integers, floats and bools; '{}' is none", parameter.name));
      if (parameter.is_list && (parameter.type == ArgType::Bool || parameter.is_optional))
        fail_at(kernel.place, fmt::format("a kernel cannot take the list '{}'", parameter.name));
      if (is_cuda && (parameter.is_list || parameter.is_optional))
        fail_at(kernel.place, fmt::format("a {} kernel takes single numbers: '{}' is a list, or may be absent", language, parameter.name));
    }
    if (op_.results.size() != num_results_) fail_at(kernel.place, "expected a rule for each result, which a kernel writes");
  }

  void check_formula() {
    sym::Context scratch;
    FormulaNames names;
    const auto number = [&](const std::string& name) { return Argument(scratch.symbol(name, sym::SymbolKind::Size)); };
    for (const Parameter& p : op_.schema.parameters) {
      if (p.type == ArgType::Tensor) {
        if (p.is_list) {
          names.lists[p.name] = {ValueId{0}};
        } else {
          names.tensors[p.name] = ValueId{0};
        }
      } else if (p.is_list) {
        names.arguments[p.name] = p.type == ArgType::Float ? Argument(std::vector<double>{}) : Argument(ExprList{});
      } else if (is_number(p)) {
        names.arguments[p.name] = number(p.name);
      } else if (p.type == ArgType::Float || p.type == ArgType::Scalar) {
        names.arguments[p.name] = 1.0;
      } else if (p.type == ArgType::ScalarType) {
        names.arguments[p.name] = DType::F32;
      } else {
        names.arguments[p.name] = None{};
      }
    }
    for (const Parameter& p : op_.schema.parameters) {
      if (p.is_list) names.arguments[length_name(p)] = number(length_name(p));
    }
    for (const std::string& name : sizes_) names.arguments[name] = number(name);
    for (const std::string& name : rests_) names.arguments[name] = number(name);
    for (const auto& [name, dtypes] : op_.dtypes) names.arguments[name] = dtypes[0];
    const size_t count =
        read_formula(op_, scratch, std::move(names), [](const FormulaNode& node) { return std::vector<ValueId>(node.num_results); }).size();
    const size_t expected = op_.schema.results.size() + num_updates();
    if (count != expected) {
      fail_at(*op_.formula,
              fmt::format("the formula returns {} tensors; expected {}: the results, then new values of arguments that are written to",
                          count, expected));
    }
  }

  // Arguments that are written to and are no result.
  size_t num_updates() const {
    const auto& [parameters, results] = std::tie(op_.schema.parameters, op_.schema.results);
    return static_cast<size_t>(std::count_if(parameters.begin(), parameters.end(), [&](const Parameter& p) {
      return p.mutated && std::none_of(results.begin(), results.end(), [&](const Parameter& r) { return r.alias == p.alias; });
    }));
  }

  CustomOperator op_;
  Cursor cursor_;
  std::set<std::string> names_;  // of arguments, dtypes and sizes
  std::set<std::string> sizes_, rests_;
  size_t num_results_ = 0;  // that are no argument
};

}  // namespace

std::string_view to_string(CustomKernel::Kind kind) {
  switch (kind) {
    case CustomKernel::Kind::Cpp: return "C++";
    case CustomKernel::Kind::Cuda: return "CUDA";
    case CustomKernel::Kind::Triton: return "Triton";
    case CustomKernel::Kind::Halide: return "Halide";
    case CustomKernel::Kind::Library: return "a library";
  }
  return "";
}

size_t CustomOperator::line_of(size_t place) const {
  return static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(place, text.size())), '\n')) + 1;
}

std::string CustomOperator::where(size_t place) const { return fmt::format("{}:{}", file, line_of(place)); }

sym::Expr CustomOperator::parse(const PlacedText& placed, sym::Context& context,
                                const std::function<std::optional<sym::Expr>(std::string_view name)>& number_called) const {
  try {
    return sym::parse(placed.text, context, [&](std::string_view name) -> sym::Expr {
      if (const std::optional<sym::Expr> number = number_called(name)) return *number;
      throw Error(ErrorKind::InvalidModel, fmt::format("expected a size or an integer argument, not '{}'", name));
    });
  } catch (const Error& error) {
    Cursor(text).fail_at(placed.place, error.message());
  }
}

const CustomKernel* CustomOperator::kernel(CustomKernel::Kind kind) const {
  for (const CustomKernel& each : kernels) {
    if (each.kind == kind) return &each;
  }
  return nullptr;
}

std::string CustomOperator::library_name(CustomKernel::Kind kind) const {
  return std::string(kind == CustomKernel::Kind::Triton ? kTritonPrefix : kCustomPrefix) + schema.name;
}

std::string result_name(size_t result, size_t num_results) { return num_results == 1 ? "out" : fmt::format("out{}", result); }

CustomOperator read_custom_operator(std::string text, std::string file) { return OperatorReader(std::move(text), std::move(file)).read(); }

}  // namespace toroid
