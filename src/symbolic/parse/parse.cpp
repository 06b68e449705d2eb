// Parses size expressions as PyTorch and SymPy write them.
//
//   2*s77 + 3       ((s27 + 1)//2)       Max(1, u0)       floor(s0/2)       (s0 < 4) & Ne(s1, 1)
//   Mul(Integer(4), Symbol('s77', positive=True, integer=True))            SymPy's srepr, found in .pt2 files
//   TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s77'))))    a size that a float factor scaled
//
// A subexpression may be a fraction, s0/2, until floor, ceiling or a multiplication makes it an integer; the whole of parse()
// must be one. Operators bind as in Python. Input is untrusted: depth and length are limited, and every error says where.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"
#include "symbolic/parse/fraction.h"
#include "symbolic/parse/functions.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxLength = 65536;

using F = RealFunction;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(std::string_view)>& make_symbol) : text_(text), make_symbol_(make_symbol) {}

  // Or a double that says so itself: Real(sqrt, …), its bits.
  Expr parse_integer() {
    const Fraction value = parse_all();
    return value.is_only_real && text_.starts_with("Real(") ? *value.real : integer(value, at(0));
  }
  Expr parse_double() { return in_doubles(parse_all()); }

 private:
  Fraction parse_all() {
    if (text_.size() > kMaxLength) fail(kMaxLength, fmt::format("longer than {} characters", kMaxLength));
    const Fraction value = parse_or();
    skip_space();
    if (position_ < text_.size()) fail(position_, fmt::format("unexpected '{}'", shown(text_.substr(position_, 1))));
    return value;
  }

  // Counts nesting: parentheses, calls and operators that nest to the left or right without end.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (parser_.depth_ >= kMaxDepth) parser_.fail(parser_.position_, fmt::format("nested deeper than {}", kMaxDepth));
      ++parser_.depth_;
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  Place at(size_t offset) const { return {text_, offset}; }
  [[noreturn]] void fail(size_t offset, std::string_view problem) const { at(offset).fail(problem); }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t' || text_[position_] == '\n')) ++position_;
  }

  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(position_).starts_with(token)) return false;
    if (is_name_part(token.back()) && position_ + token.size() < text_.size() && is_name_part(text_[position_ + token.size()])) {
      return false;
    }
    position_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (accept(token)) return;
    if (position_ == text_.size()) fail(position_, fmt::format("expected '{}' but the text ends", token));
    fail(position_, fmt::format("expected '{}' before '{}'", token, shown(text_.substr(position_, 1))));
  }

  Fraction parse_or() {
    Fraction left = parse_and();
    while (accept("or")) left = logic(Function::Or, left, parse_and());
    return left;
  }

  Fraction parse_and() {
    Fraction left = parse_not();
    while (accept("and")) left = logic(Function::And, left, parse_not());
    return left;
  }

  Fraction parse_not() {
    if (!accept("not")) return parse_comparison();
    Deeper deeper(*this);
    const size_t offset = position_;
    return {logical_not(integer(parse_not(), at(offset)))};
  }

  Fraction parse_comparison() {
    Fraction left = parse_bit_or();
    std::optional<Fraction> all;
    while (const std::optional<Comparison> comparison = accept_comparison()) {
      const Fraction right = parse_bit_or();
      const Fraction result{compare(*comparison, left, right)};
      all = all ? logic(Function::And, *all, result) : result;
      left = right;
    }
    return all.value_or(left);
  }

  std::optional<Comparison> accept_comparison() {
    if (accept("<=")) return Comparison::Le;
    if (accept(">=")) return Comparison::Ge;
    if (accept("==")) return Comparison::Eq;
    if (accept("!=")) return Comparison::Ne;
    if (accept("<")) return Comparison::Lt;
    if (accept(">")) return Comparison::Gt;
    return std::nullopt;
  }

  Fraction parse_bit_or() {
    Fraction left = parse_bit_and();
    while (accept("|")) left = logic(Function::Or, left, parse_bit_and());
    return left;
  }

  Fraction parse_bit_and() {
    Fraction left = parse_sum();
    while (accept("&")) left = logic(Function::And, left, parse_sum());
    return left;
  }

  Fraction parse_sum() {
    // Integer terms are summed at the end: adding one by one would take quadratic time.
    std::vector<Expr> terms;
    std::optional<Fraction> fractions;
    const int depth_before = depth_;
    bool negative = false;
    do {
      const Fraction term = parse_product();
      if (term.is_integer()) {
        terms.push_back(negative ? -term.numerator : term.numerator);
      } else {
        count_left_nesting();
        const Fraction signed_term = negative ? negate(term) : term;
        fractions = fractions ? add(*fractions, signed_term) : signed_term;
      }
    } while (accept_sign(negative));
    depth_ = depth_before;
    if (terms.empty()) return *fractions;
    const Fraction whole{terms.size() == 1 ? terms[0] : sum_of(terms)};
    return fractions ? add(whole, *fractions) : whole;
  }

  bool accept_sign(bool& negative) {
    if (accept("+")) {
      negative = false;
      return true;
    }
    negative = accept("-");
    return negative;
  }

  Fraction parse_product() {
    Fraction left = parse_unary();
    const int depth_before = depth_;
    for (;;) {
      const size_t offset = position_;
      if (accept("//")) {
        count_left_nesting();
        left = quotient(left, parse_unary(), at(offset));
      } else if (accept("/")) {
        count_left_nesting();
        left = divide(left, parse_unary(), at(offset));
      } else if (accept("%")) {
        count_left_nesting();
        left = modulo(left, parse_unary(), at(offset));
      } else if (accept("*")) {
        left = multiply(left, parse_unary());
        if (!left.is_integer()) count_left_nesting();
      } else {
        depth_ = depth_before;
        return left;
      }
    }
  }

  // a//b//c and sums of doubles nest to the left without recursion here, but whoever walks the result recurses.
  void count_left_nesting() {
    if (depth_ >= kMaxDepth) fail(position_, fmt::format("nested deeper than {}", kMaxDepth));
    ++depth_;
  }

  Fraction parse_unary() {
    if (accept("-")) {
      Deeper deeper(*this);
      skip_space();
      if (const std::optional<Expr> lowest = accept_lowest_integer()) return {*lowest};
      return negate(parse_unary());
    }
    if (accept("+")) {
      Deeper deeper(*this);
      return parse_unary();
    }
    if (accept("~")) {
      Deeper deeper(*this);
      const size_t offset = position_;
      return {logical_not(integer(parse_unary(), at(offset)))};
    }
    return parse_power();
  }

  // The magnitude of the lowest 64-bit integer does not fit itself.
  std::optional<Expr> accept_lowest_integer() { return accept("9223372036854775808") ? std::optional(Expr(kNegInf)) : std::nullopt; }

  Fraction parse_power() {
    const Fraction base = parse_atom();
    if (!accept("**")) return base;
    Deeper deeper(*this);
    const size_t offset = position_;
    return power(base, parse_unary(), at(offset));
  }

  Fraction parse_atom() {
    skip_space();
    if (position_ == text_.size()) fail(position_, "expected a value but the text ends");
    if (is_digit(text_[position_])) return parse_number();
    if (accept("(")) {
      Deeper deeper(*this);
      const Fraction value = parse_or();
      expect(")");
      return value;
    }
    if (is_name_start(text_[position_])) return parse_name();
    fail(position_, fmt::format("expected a value before '{}'", shown(text_.substr(position_, 1))));
  }

  Fraction parse_number() {
    const size_t start = position_;
    int64_t value = 0;
    int64_t denominator = 1;
    bool fits = true;
    bool fraction = false;
    for (; position_ < text_.size() && (is_digit(text_[position_]) || (text_[position_] == '.' && !fraction)); ++position_) {
      if (text_[position_] == '.') {
        fraction = true;
        continue;
      }
      fits &= !__builtin_mul_overflow(value, 10, &value) && !__builtin_add_overflow(value, text_[position_] - '0', &value);
      if (fraction) fits &= !__builtin_mul_overflow(denominator, 10, &denominator);
    }
    if (position_ < text_.size() && is_name_part(text_[position_])) {
      fail(position_, fmt::format("unexpected '{}' in a number", text_[position_]));
    }
    if (!fits && !fraction) fail(start, "a number beyond 64 bits");
    if (fits) {
      const Fraction result = reduced(value, denominator);
      const int64_t reduced = result.denominator.value();
      if ((reduced & (reduced - 1)) == 0) return result;  // what the double is, exactly
    }
    return nearest_fraction(std::strtod(std::string(text_.substr(start, position_ - start)).c_str(), nullptr));
  }

  // Float('1.5', precision=53)
  Fraction parse_float_call() {
    skip_space();
    const bool quoted = accept("'");
    const bool negative = accept("-");
    skip_space();
    if (position_ == text_.size() || !is_digit(text_[position_])) fail(position_, "expected a decimal number");
    Fraction value = parse_number();
    if (quoted) expect("'");
    if (accept(",")) {
      if (!accept("precision")) fail(position_, "expected 'precision'");
      expect("=");
      skip_space();
      const size_t start = position_;
      if (scan_name().empty()) fail(start, "expected a number of bits");
      if (text_.substr(start, position_ - start) != "53") fail(start, "a float that is no double");
    }
    expect(")");
    return negative ? negate(value) : value;
  }

  Fraction parse_name() {
    const size_t start = position_;
    std::string_view name = scan_name();
    // torch.sym_max, math.ceil, torch.utils._sympy.functions.FloorDiv: the last part is the function.
    bool qualified = false;
    while (position_ + 1 < text_.size() && text_[position_] == '.' && is_name_start(text_[position_ + 1])) {
      ++position_;
      name = scan_name();
      qualified = true;
    }
    if (accept("(")) return parse_call(name, start);
    if (qualified) fail(start, fmt::format("unknown name '{}'", shown(text_.substr(start, position_ - start))));
    if (name == "True" || name == "true") return {1};
    if (name == "False" || name == "false") return {0};
    return made(name);
  }

  // A symbol: an integer, or the bits of a double.
  Fraction made(std::string_view name) {
    const Expr symbol = make_symbol_(name);
    return is_real(symbol) ? only_real(symbol) : Fraction{symbol};
  }

  std::string_view scan_name() {
    const size_t start = position_;
    while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }

  Fraction parse_call(std::string_view name, size_t start) {
    Deeper deeper(*this);
    const FunctionName* found = find_function(name);
    if (found == nullptr) return parse_call_in_doubles(name, start);
    if (found->function == Function::Symbol) return parse_symbol_call();
    if (found->function == Function::Real) return parse_real_call();
    if (found->function == Function::Float) return parse_float_call();
    const std::vector<Fraction> arguments = parse_arguments();
    if (arguments.size() < found->min_arguments || arguments.size() > found->max_arguments) {
      fail(start, fmt::format("'{}' does not take {} argument{}", name, arguments.size(), arguments.size() == 1 ? "" : "s"));
    }
    return call(found->function, arguments, start);
  }

  // OpaqueUnaryFn_sqrt, torch._sym_sqrt, math.sqrt
  Fraction parse_call_in_doubles(std::string_view name, size_t start) {
    std::string_view function = name;
    for (std::string_view prefix : {"OpaqueUnaryFn_", "_sym_"}) {
      if (function.starts_with(prefix)) function.remove_prefix(prefix.size());
    }
    const RealRow* row = find_real_function(function);
    if (row == nullptr || row->arguments != "r" || row->function < F::Sqrt || row->function > F::Asinh) {
      fail(start, fmt::format("unknown function '{}'", shown(name)));
    }
    const std::vector<Fraction> arguments = parse_arguments();
    if (arguments.size() != 1) fail(start, fmt::format("'{}' takes one argument", shown(name)));
    return in_doubles(row->function, arguments[0]);
  }

  // Symbol('s77', positive=True, integer=True): assumptions are not needed, the model states ranges elsewhere.
  Fraction parse_symbol_call() {
    skip_space();
    const size_t start = position_;
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail(position_, "expected a quoted symbol name");
    const size_t end = text_.find(quote, start + 1);
    if (end == std::string_view::npos) fail(start, "a symbol name without its closing quote");
    const std::string_view name = text_.substr(start + 1, end - start - 1);
    if (name.empty() || !is_name_start(name[0]) || !std::all_of(name.begin(), name.end(), is_name_part)) {
      fail(start, "a symbol name that is not an identifier");
    }
    position_ = end + 1;
    while (accept(",")) {
      skip_space();
      if (scan_name().empty()) fail(position_, "expected an assumption such as 'integer=True'");
      expect("=");
      skip_space();
      if (scan_name().empty()) fail(position_, "expected an assumption such as 'integer=True'");
    }
    expect(")");
    return made(name);
  }

  // Real(div, 1, Real(float, s0)), after the opening parenthesis.
  Fraction parse_real_call() {
    skip_space();
    const size_t start = position_;
    const RealRow* row = find_real_function(scan_name());
    if (row == nullptr) fail(start, fmt::format("unknown function of doubles '{}'", shown(text_.substr(start, position_ - start))));
    std::vector<Expr> arguments;
    for (char kind : row->arguments) {
      expect(",");
      const size_t offset = position_;
      arguments.push_back(kind == 'i' ? integer(parse_or(), at(offset)) : parse_double_argument(row->function == F::Value));
    }
    expect(")");
    const Expr value = real(row->function, arguments);
    return row->gives_real ? only_real(value) : Fraction{value};
  }

  Expr parse_double_argument(bool is_bits) {
    skip_space();
    const size_t start = position_;
    const bool is_number = !is_bits && text_.substr(start, 4) != "Real";
    if (!is_number) {
      const Fraction value = parse_or();
      return is_bits && value.is_integer() ? value.numerator : in_doubles(value);
    }
    position_ = std::min(text_.find_first_of(",) ", start), text_.size());
    const std::string number(text_.substr(start, position_ - start));
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0') fail(start, "expected a decimal number");
    return real_literal(value);
  }

  // Up to the closing parenthesis; a list counts as its elements (torch.sym_sum takes one).
  std::vector<Fraction> parse_arguments() {
    std::vector<Fraction> arguments;
    if (accept(")")) return arguments;
    const bool list = accept("[");
    do {
      arguments.push_back(parse_or());
      skip_keyword_argument();
    } while (accept(","));
    if (list) expect("]");
    expect(")");
    return arguments;
  }

  // evaluate=False, which SymPy prints where it kept an operation unevaluated.
  void skip_keyword_argument() {
    const size_t before = position_;
    if (!accept(",") || !accept("evaluate") || !accept("=") || !(accept("False") || accept("True"))) position_ = before;
  }

  Fraction call(Function function, const std::vector<Fraction>& arguments, size_t offset) {
    const auto fold = [&](auto&& combine) {
      Fraction result = arguments[0];
      const int depth_before = depth_;
      for (size_t i = 1; i < arguments.size(); ++i) {
        result = combine(result, arguments[i]);
        if (!result.is_integer()) count_left_nesting();
      }
      depth_ = depth_before;
      return result;
    };
    const auto integer_at = [&](size_t index) { return integer(arguments[index], at(offset)); };
    switch (function) {
      case Function::Add: return fold([&](const Fraction& a, const Fraction& b) { return add(a, b); });
      case Function::Mul: return fold([&](const Fraction& a, const Fraction& b) { return multiply(a, b); });
      case Function::Pow: return power(arguments[0], arguments[1], at(offset));
      case Function::Integer: return {integer_at(0)};
      case Function::Rational:
      case Function::TrueDiv: return divide(arguments[0], arguments[1], at(offset));
      case Function::Float:
      case Function::Real:
      case Function::Symbol: break;
      case Function::Mod: return modulo(arguments[0], arguments[1], at(offset));
      case Function::FloorDiv: return quotient(arguments[0], arguments[1], at(offset));
      case Function::CeilDiv: return {ceiling(divide(arguments[0], arguments[1], at(offset)))};
      case Function::ModularIndexing: return modulo(quotient(arguments[0], arguments[1], at(offset)), arguments[2], at(offset));
      case Function::Floor: return {rounded_down(arguments[0])};
      case Function::Ceiling: return {ceiling(arguments[0])};
      case Function::Truncate: return {truncate(arguments[0])};
      case Function::TruncateToFloat: return in_doubles(F::Truncated, arguments[0]);
      case Function::Round: return arguments[0].is_integer() ? arguments[0] : Fraction{real(F::Round, {in_doubles(arguments[0])})};
      case Function::RoundDecimal: return round_decimal(arguments[0], integer_at(1), at(position_));
      case Function::Scaled: return {truncate(multiply(arguments[0], arguments[1]))};
      case Function::Identity: return arguments[0];
      case Function::Min:
      case Function::Max: {
        const bool is_whole = std::all_of(arguments.begin(), arguments.end(), [](const Fraction& each) { return each.is_integer(); });
        if (!is_whole) {
          const F extremum = function == Function::Min ? F::Min : F::Max;
          return fold([&](const Fraction& a, const Fraction& b) { return in_doubles(extremum, a, b); });
        }
        Expr best = integer_at(0);
        for (size_t i = 1; i < arguments.size(); ++i) {
          best = function == Function::Min ? min(best, integer_at(i)) : max(best, integer_at(i));
        }
        return {best};
      }
      case Function::Abs:
        if (!arguments[0].is_integer()) return in_doubles(F::Abs, arguments[0]);
        return {max(integer_at(0), -integer_at(0))};
      case Function::Where:
        if (!arguments[1].is_integer() || !arguments[2].is_integer()) {
          return only_real(real(F::Where, {integer_at(0), in_doubles(arguments[1]), in_doubles(arguments[2])}));
        }
        return {integer_at(0) * integer_at(1) + logical_not(integer_at(0)) * integer_at(2)};
      case Function::Eq: return {compare(Comparison::Eq, arguments[0], arguments[1])};
      case Function::Ne: return {compare(Comparison::Ne, arguments[0], arguments[1])};
      case Function::Lt: return {compare(Comparison::Lt, arguments[0], arguments[1])};
      case Function::Le: return {compare(Comparison::Le, arguments[0], arguments[1])};
      case Function::Gt: return {compare(Comparison::Gt, arguments[0], arguments[1])};
      case Function::Ge: return {compare(Comparison::Ge, arguments[0], arguments[1])};
      case Function::And:
      case Function::Or: return fold([&](const Fraction& a, const Fraction& b) { return logic(function, a, b); });
      case Function::Not: return {logical_not(integer_at(0))};
    }
    fail(offset, "unknown function");
  }

  Fraction logic(Function function, const Fraction& a, const Fraction& b) const {
    const Expr left = truth(a, at(position_));
    const Expr right = truth(b, at(position_));
    return {function == Function::And ? logical_and(left, right) : logical_or(left, right)};
  }

  std::string_view text_;
  const std::function<Expr(std::string_view)>& make_symbol_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse(std::string_view text, Context& context, const std::function<Expr(std::string_view name)>& make_symbol) {
  const Expr result = Parser(text, make_symbol).parse_integer();
  TOROID_CHECK(!result.context() || result.context() == &context, "a symbol of another context in '{}'", text);
  return result;
}

Expr parse_real(std::string_view text, Context& context, const std::function<Expr(std::string_view name)>& make_symbol) {
  const Expr result = Parser(text, make_symbol).parse_double();
  TOROID_CHECK(!result.context() || result.context() == &context, "a symbol of another context in '{}'", text);
  return result;
}

}  // namespace toroid::sym
