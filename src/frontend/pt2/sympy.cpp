#include "frontend/pt2/sympy.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::pt2 {
namespace {

constexpr int kMaxDepth = 100;
constexpr int64_t kMaxExponent = 64;

using Exprs = std::vector<sym::Expr>;
using Fold = sym::Expr (*)(sym::Expr a, sym::Expr b);

sym::Expr add(sym::Expr a, sym::Expr b) { return a + b; }
sym::Expr multiply(sym::Expr a, sym::Expr b) { return a * b; }

// Functions of two arguments, and those of any number that fold from the left.
struct Function {
  std::string_view name;
  Fold fold;
  bool variadic;
};
constexpr Function kFunctions[] = {
    {"Add", add, true},
    {"Mul", multiply, true},
    {"Max", sym::max, true},
    {"Min", sym::min, true},
    {"And", sym::logical_and, true},
    {"Or", sym::logical_or, true},
    {"Mod", sym::mod, false},
    {"PythonMod", sym::mod, false},
    {"FloorDiv", sym::floor_div, false},
    {"CleanDiv", sym::floor_div, false},
    {"CeilDiv", sym::ceil_div, false},
    {"Equality", sym::eq, false},
    {"Unequality", sym::ne, false},
    {"LessThan", sym::le, false},  // SymPy's LessThan is <=
    {"StrictLessThan", sym::lt, false},
    {"GreaterThan", sym::ge, false},
    {"StrictGreaterThan", sym::gt, false},
};

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class ReprParser {
 public:
  ReprParser(std::string_view text, const MakeSymbol& make_symbol) : text_(text), make_symbol_(make_symbol) {}

  sym::Expr parse() {
    const sym::Expr result = expression(0);
    skip_spaces();
    if (at_ != text_.size()) fail("expected the end");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::InvalidModel, fmt::format("bad size expression '{}': {} at offset {}", text_.substr(0, 200), what, at_));
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }
  std::string_view name() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  int64_t integer() {
    skip_spaces();
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected an integer of 64 bits");
    at_ = static_cast<size_t>(rest - text_.data());
    return value;
  }

  // Symbol('s77', positive=True, integer=True), after the opening bracket.
  sym::Expr symbol() {
    SymbolText symbol;
    expect('\'');
    symbol.name = name();
    expect('\'');
    while (accept(',')) {
      const std::string_view assumption = name();
      expect('=');
      const bool holds = name() == "True";
      if (assumption == "positive") symbol.positive = holds;
      if (assumption == "nonnegative") symbol.nonnegative = holds;
    }
    expect(')');
    return make_symbol_(symbol);
  }

  Exprs arguments(int depth) {
    Exprs values;
    if (accept(')')) return values;
    do values.push_back(expression(depth + 1));
    while (accept(','));
    expect(')');
    return values;
  }

  sym::Expr expression(int depth) {
    if (depth > kMaxDepth) fail(fmt::format("nested deeper than {}", kMaxDepth));
    const std::string_view function = name();
    if (function == "true") return 1;
    if (function == "false") return 0;
    expect('(');
    if (function == "Symbol" || function == "Dummy") return symbol();
    if (function == "Integer") {
      const int64_t value = integer();
      expect(')');
      return value;
    }
    return apply(function, arguments(depth));
  }

  sym::Expr apply(std::string_view function, const Exprs& values) const {
    const auto needs = [&](size_t count) {
      if (values.size() != count) fail(fmt::format("{} takes {} arguments and has {}", function, count, values.size()));
    };
    for (const Function& known : kFunctions) {
      if (known.name != function) continue;
      if (!known.variadic) needs(2);
      if (values.empty()) fail(fmt::format("{} without arguments", function));
      sym::Expr result = values[0];
      for (size_t i = 1; i < values.size(); ++i) result = known.fold(result, values[i]);
      return result;
    }
    if (function == "Not") {
      needs(1);
      return sym::logical_not(values[0]);
    }
    if (function == "ModularIndexing") {  // (a // b) % c
      needs(3);
      return sym::mod(sym::floor_div(values[0], values[1]), values[2]);
    }
    if (function == "Pow" || function == "PowByNatural") {
      needs(2);
      const std::optional<int64_t> exponent = values[1].try_value();
      if (exponent && *exponent >= 0 && *exponent <= kMaxExponent) {
        sym::Expr result = 1;
        for (int64_t i = 0; i < *exponent; ++i) result = result * values[0];
        return result;
      }
    }
    throw Error(ErrorKind::Unsupported,
                fmt::format("size expression '{}' uses {}, which is not integer arithmetic", text_.substr(0, 200), function));
  }

  std::string_view text_;
  const MakeSymbol& make_symbol_;
  size_t at_ = 0;
};

// Only repr writes symbols and numbers as calls.
bool is_repr(std::string_view text) {
  return text == "true" || text == "false" || text.find("Symbol('") != text.npos || text.find("Integer(") != text.npos;
}

bool has_floats(std::string_view text) {
  constexpr std::string_view kFunctions[] = {"Float", "TrueDiv", "OpaqueUnaryFn_", "Round", "Trunc"};
  return std::any_of(std::begin(kFunctions), std::end(kFunctions), [&](std::string_view name) { return text.find(name) != text.npos; });
}

// Floats are the affair of the general parser, which skips assumptions.
auto symbol_maker(std::string_view text, const MakeSymbol& make_symbol) {
  return [text, &make_symbol](std::string_view name) {
    const auto is_assumed = [&](std::string_view what) { return text.find(fmt::format("Symbol('{}', {}=True", name, what)) != text.npos; };
    return make_symbol({.name = name, .positive = is_assumed("positive"), .nonnegative = is_assumed("nonnegative")});
  };
}

}  // namespace

sym::Expr parse_size(std::string_view text, sym::Context& context, const MakeSymbol& make_symbol) {
  if (has_floats(text)) return sym::parse(text, context, symbol_maker(text, make_symbol));
  if (is_repr(text)) return ReprParser(text, make_symbol).parse();
  return sym::parse(text, context, [&](std::string_view name) { return make_symbol({.name = name}); });
}

sym::Expr parse_real(std::string_view text, sym::Context& context, const MakeSymbol& make_symbol) {
  return sym::parse_real(text, context, symbol_maker(text, make_symbol));
}

}  // namespace toroid::pt2
