// Parses PyTorch's schema text and looks schemas up.
//
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//
// aten_schemas.inc holds one schema a line, a tab, and its tags, sorted by name as bytes; it is a C++ string literal, so
// that the compiler embeds it and no file is needed at run time. Schemas whose types no exported program can hold
// (dictionaries, futures, storages, complex numbers) are left out of it.
#include "graph/schema.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

constexpr char kEmbedded[] =
#include "graph/aten_schemas.inc"
    ;

struct TypeName {
  std::string_view name;
  ArgType type;
};
constexpr TypeName kTypeNames[] = {
    {"Tensor", ArgType::Tensor},
    {"int", ArgType::Int},
    {"SymInt", ArgType::SymInt},
    {"float", ArgType::Float},
    {"SymFloat", ArgType::Float},
    {"bool", ArgType::Bool},
    {"SymBool", ArgType::Bool},
    {"Scalar", ArgType::Scalar},
    {"str", ArgType::String},
    {"ScalarType", ArgType::ScalarType},
    {"Layout", ArgType::Layout},
    {"Device", ArgType::Device},
    {"MemoryFormat", ArgType::MemoryFormat},
    {"Generator", ArgType::Generator},
    {"Dimname", ArgType::Dimname},
    {"Any", ArgType::Any},
};

// PyTorch's numbers for dtypes, as they stand in defaults.
std::optional<DType> dtype_of_number(int64_t number) {
  constexpr DType kByNumber[] = {DType::U8,  DType::I8,  DType::I16, DType::I32, DType::I64,  DType::F16,
                                 DType::F32, DType::F64, DType::C32, DType::C64, DType::C128, DType::Bool};
  if (number >= 0 && number < static_cast<int64_t>(std::size(kByNumber))) return kByNumber[number];
  if (number == 15) return DType::BF16;
  return std::nullopt;
}

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  Schema parse() {
    Schema schema;
    schema.text = text_;
    schema.name = name("an operator name");
    expect("(");
    bool keyword_only = false;
    if (!accept(")")) {
      do {
        if (accept("*")) {
          keyword_only = true;
          continue;
        }
        Parameter parameter = type();
        parameter.keyword_only = keyword_only;
        parameter.name = name("an argument name");
        if (accept("=")) parameter.default_value = default_value(parameter);
        schema.parameters.push_back(std::move(parameter));
      } while (accept(","));
      expect(")");
    }
    expect("->");
    if (accept("(")) {
      if (!accept(")")) {
        do schema.results.push_back(result());
        while (accept(","));
        expect(")");
      }
    } else {
      schema.results.push_back(result());
    }
    skip_spaces();
    if (at_ != text_.size()) fail("the end");
    return schema;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw Error(ErrorKind::InvalidModel, fmt::format("bad operator schema '{}': expected {} at offset {}", text_, wanted, at_));
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }

  std::string name(std::string_view wanted) {
    skip_spaces();
    const size_t start = at_;
    auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':' || c == '.'; };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    if (at_ == start) fail(wanted);
    return std::string(text_.substr(start, at_ - start));
  }

  // Base, then any of "(a!)", "[2]", "[]" and "?": Tensor(a!)? and Tensor?[] are both types.
  Parameter type() {
    Parameter parameter;
    const size_t start = at_;
    const std::string base = name("a type");
    const auto* row = std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const TypeName& t) { return t.name == base; });
    if (row == std::end(kTypeNames)) {
      at_ = start;
      fail("a known type");
    }
    parameter.type = row->type;
    while (at_ < text_.size()) {
      if (text_[at_] == '(') {
        const size_t close = text_.find(')', at_);
        if (close == std::string_view::npos) fail("')'");
        const std::string_view alias = text_.substr(at_ + 1, close - at_ - 1);
        parameter.mutated = alias.find('!') != std::string_view::npos;
        parameter.alias = alias.substr(0, alias.find_first_of("! "));
        at_ = close + 1;
      } else if (text_[at_] == '[') {
        ++at_;
        if (parameter.is_list) fail("at most one list level");
        parameter.elements_optional = std::exchange(parameter.is_optional, false);
        parameter.is_list = true;
        const char* end = text_.data() + text_.size();
        const auto [rest, error] = std::from_chars(text_.data() + at_, end, parameter.fixed_length);
        at_ = static_cast<size_t>(rest - text_.data());
        expect("]");
      } else if (text_[at_] == '?') {
        ++at_;
        parameter.is_optional = true;
      } else {
        break;
      }
    }
    return parameter;
  }

  Parameter result() {
    Parameter parameter = type();
    skip_spaces();
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') parameter.name = name("a result name");
    return parameter;
  }

  std::string string_literal() {
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_++];
    }
    if (at_ == text_.size()) fail("'\"'");
    ++at_;
    return value;
  }

  double number() {
    skip_spaces();
    double value = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    const std::string_view digits(text_.data() + at_, static_cast<size_t>(rest - text_.data()) - at_);
    number_is_integer_ = digits.find_first_of(".e") == std::string_view::npos;
    at_ += digits.size();
    return value;
  }

  std::vector<double> number_list() {
    std::vector<double> values;
    if (accept("]")) return values;
    do values.push_back(number());
    while (accept(","));
    expect("]");
    return values;
  }

  Argument default_value(const Parameter& parameter) {
    if (accept("None")) return None{};
    if (accept("True")) return true;
    if (accept("False")) return false;
    if (accept("\"")) return string_literal();
    const bool brackets = accept("[");
    if (brackets && !parameter.is_list) fail("a single value");
    std::vector<double> values = brackets ? number_list() : std::vector<double>{number()};
    if (parameter.is_list) {
      if (!brackets) values.resize(static_cast<size_t>(std::max(parameter.fixed_length, 1)), values[0]);
      if (parameter.type == ArgType::Float) return values;
      if (parameter.type != ArgType::Int && parameter.type != ArgType::SymInt) fail("a list of numbers");
      ExprList list;
      for (double value : values) list.emplace_back(static_cast<int64_t>(value));
      return list;
    }
    const auto integer = static_cast<int64_t>(values[0]);
    switch (parameter.type) {
      case ArgType::Float: return values[0];
      case ArgType::Scalar:
        if (!number_is_integer_) return values[0];
        return sym::Expr(integer);
      case ArgType::Int:
      case ArgType::SymInt: return sym::Expr(integer);
      case ArgType::ScalarType: {
        const std::optional<DType> dtype = dtype_of_number(integer);
        if (!dtype) fail("the number of a dtype");
        return *dtype;
      }
      case ArgType::Layout: return integer == 0 ? Layout::Strided : Layout::Other;
      case ArgType::MemoryFormat: {
        // PyTorch counts: contiguous, preserve, channels last, channels last 3d.
        constexpr MemoryFormat kByNumber[] = {MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast,
                                              MemoryFormat::ChannelsLast3d};
        if (integer < 0 || integer > 3) fail("the number of a memory format");
        return kByNumber[integer];
      }
      default: fail("a default that fits the type");
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool number_is_integer_ = false;
};

// The embedded lines and, for each, its schema once it was parsed.
class EmbeddedSchemas {
 public:
  struct Row {
    std::string_view name;
    std::string_view text;
    std::string_view tags;
  };

  EmbeddedSchemas() {
    std::string_view rest(kEmbedded, sizeof(kEmbedded) - 1);
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (line.empty()) continue;
      const size_t tab = line.find('\t');
      rows_.push_back({line.substr(0, line.find('(')), line.substr(0, tab), line.substr(tab + 1)});
    }
    parsed_ = std::make_unique<std::atomic<const Schema*>[]>(rows_.size());
  }
  ~EmbeddedSchemas() {
    for (size_t i = 0; i < rows_.size(); ++i) delete parsed_[i].load();
  }

  const std::vector<Row>& rows() const { return rows_; }

  const Schema* find(std::string_view name) const {
    const auto row = std::lower_bound(rows_.begin(), rows_.end(), name, [](const Row& r, std::string_view n) { return r.name < n; });
    if (row == rows_.end() || row->name != name) return nullptr;
    std::atomic<const Schema*>& slot = parsed_[static_cast<size_t>(row - rows_.begin())];
    const Schema* schema = slot.load(std::memory_order_acquire);
    if (schema != nullptr) return schema;
    // Two threads may both parse; the first to publish wins.
    auto made = std::make_unique<Schema>(parse_schema(row->text));
    for (std::string_view tags = row->tags; !tags.empty();) {
      const size_t comma = tags.find(',');
      made->tags.emplace_back(tags.substr(0, comma));
      tags.remove_prefix(comma == std::string_view::npos ? tags.size() : comma + 1);
    }
    if (slot.compare_exchange_strong(schema, made.get(), std::memory_order_acq_rel)) return made.release();
    return schema;
  }

 private:
  std::vector<Row> rows_;
  std::unique_ptr<std::atomic<const Schema*>[]> parsed_;
};

const EmbeddedSchemas& embedded() {
  static const EmbeddedSchemas schemas;
  return schemas;
}

}  // namespace

Schema parse_schema(std::string_view text) { return SchemaParser(text).parse(); }

const Schema* find_schema(std::string_view name) {
  constexpr std::string_view kDefault = ".default";
  if (name.ends_with(kDefault)) name.remove_suffix(kDefault.size());
  return embedded().find(name);
}

std::vector<std::string_view> schema_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedSchemas::Row& row : embedded().rows()) names.push_back(row.name);
  return names;
}

bool Schema::is_view() const {
  for (const Parameter& result : results) {
    if (result.alias.empty() || result.mutated) continue;
    for (const Parameter& parameter : parameters) {
      if (!parameter.mutated && parameter.type == ArgType::Tensor && parameter.alias == result.alias) return true;
    }
  }
  return false;
}

bool Schema::mutates() const {
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.mutated; });
}

}  // namespace toroid
