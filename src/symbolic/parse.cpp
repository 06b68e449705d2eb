// Parses size expressions as PyTorch and SymPy write them.
//
//   2*s77 + 3       ((s27 + 1)//2)       Max(1, u0)       floor(s0/2)       (s0 < 4) & Ne(s1, 1)
//   Mul(Integer(4), Symbol('s77', positive=True, integer=True))            SymPy's srepr, found in .pt2 files
//   TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s77'))))    a size that a float factor scaled
//
// PyTorch multiplies doubles. A factor like 1.5 is an exact fraction; 1.1 is a double a little above 11/10, and what is rounded
// down from a product with it is rounded down from that with 11/10. Below its fraction, like 0.7, a product may round to either
// side of an integer: it stays a product of doubles, Scaled(0.7, s0). What is no such fraction at all, sqrt(s0) or 0.7*s0 + 0.1,
// is computed in doubles: Real(sqrt, Real(float, s0)).
//
// A subexpression may be a fraction, s0/2, until floor, ceiling or a multiplication makes it an integer; the whole of parse()
// must be one. Operators bind as in Python. Input is untrusted: depth and length are limited, and every error says where.
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxLength = 65536;

using F = RealFunction;

// numerator / denominator; the denominator is positive where it is a constant.
struct Fraction {
  Expr numerator = 0;
  Expr denominator = 1;
  bool is_above = false;                    // stands for doubles a little above it: good for rounding down
  double factor = 0;                        // not 0: this double times the numerator, computed in doubles
  std::optional<Expr> real = std::nullopt;  // as PyTorch computes it in doubles, where that is known to differ
  bool is_only_real = false;                // no fraction stands for it

  bool is_integer() const { return denominator.is_const(1) && factor == 0 && !is_only_real; }
  bool is_exact() const { return !is_above && factor == 0 && !is_only_real; }
};

Fraction only_real(Expr real) { return {.real = real, .is_only_real = true}; }

// The value in doubles.
Expr in_doubles(const Fraction& value) {
  if (value.real) return *value.real;
  if (value.factor != 0) return real_literal(value.factor);  // other products know their doubles
  const auto whole = [](Expr integer) {
    return integer.is_const() ? real_literal(static_cast<double>(integer.value())) : real(F::Float, {integer});
  };
  if (value.denominator.is_const(1)) return whole(value.numerator);
  return real(F::Div, {whole(value.numerator), whole(value.denominator)});
}

Fraction in_doubles(RealFunction function, const Fraction& a, const Fraction& b) {
  return only_real(real(function, {in_doubles(a), in_doubles(b)}));
}
Fraction in_doubles(RealFunction function, const Fraction& a) { return only_real(real(function, {in_doubles(a)})); }

// `exact` with its value in doubles, unless it is an integer.
Fraction with_doubles(Fraction exact, const Fraction& doubles) {
  if (!exact.is_integer()) exact.real = doubles.real;
  return exact;
}

Fraction make_fraction(Expr numerator, Expr denominator) {
  if (denominator.is_const() && denominator.value() < 0) return {-numerator, -denominator};
  if (known_divisible(numerator, denominator)) return {floor_div(numerator, denominator), 1};
  return {numerator, denominator};
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// Printable and short, for messages.
std::string shown(std::string_view text) {
  std::string result;
  for (char c : text.substr(0, 120)) result += c >= ' ' && c < 127 ? c : '?';
  return text.size() > 120 ? result + "..." : result;
}

enum class Function {
  Add,
  Mul,
  Pow,
  Integer,
  Float,
  Rational,
  Symbol,
  Mod,
  FloorDiv,
  TrueDiv,
  CeilDiv,
  ModularIndexing,
  Floor,
  Ceiling,
  Truncate,
  TruncateToFloat,
  Round,
  RoundDecimal,
  Real,
  Scaled,
  Identity,
  Min,
  Max,
  Abs,
  Where,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  And,
  Or,
  Not,
};

struct FunctionName {
  std::string_view name;
  Function function;
  size_t min_arguments;
  size_t max_arguments;
};

constexpr size_t kAny = 4096;

// PyTorch's own functions (torch.utils._sympy.functions), SymPy's (also by class name, as srepr writes them), Python's.
constexpr FunctionName kFunctions[] = {
    {"Add", Function::Add, 1, kAny},
    {"sym_sum", Function::Add, 1, kAny},
    {"Mul", Function::Mul, 1, kAny},
    {"Pow", Function::Pow, 2, 2},
    {"PowByNatural", Function::Pow, 2, 2},
    {"pow", Function::Pow, 2, 2},
    {"Integer", Function::Integer, 1, 1},
    {"Float", Function::Float, 1, 1},
    {"Rational", Function::Rational, 2, 2},
    {"Symbol", Function::Symbol, 1, 1},
    {"Mod", Function::Mod, 2, 2},
    {"PythonMod", Function::Mod, 2, 2},
    {"FloorDiv", Function::FloorDiv, 2, 2},
    {"CleanDiv", Function::FloorDiv, 2, 2},
    {"IntTrueDiv", Function::TrueDiv, 2, 2},
    {"FloatTrueDiv", Function::TrueDiv, 2, 2},
    {"CeilDiv", Function::CeilDiv, 2, 2},
    {"ModularIndexing", Function::ModularIndexing, 3, 3},
    {"floor", Function::Floor, 1, 1},
    {"FloorToInt", Function::Floor, 1, 1},
    {"ceiling", Function::Ceiling, 1, 1},
    {"ceil", Function::Ceiling, 1, 1},
    {"CeilToInt", Function::Ceiling, 1, 1},
    {"TruncToInt", Function::Truncate, 1, 1},
    {"trunc", Function::Truncate, 1, 1},
    {"TruncToFloat", Function::TruncateToFloat, 1, 1},
    {"RoundToInt", Function::Round, 1, 1},
    {"round", Function::Round, 1, 1},
    {"RoundDecimal", Function::RoundDecimal, 2, 2},
    {"Real", Function::Real, 2, 4},
    {"FloatPow", Function::Pow, 2, 2},
    {"Scaled", Function::Scaled, 2, 2},
    {"int", Function::Truncate, 1, 1},
    {"sym_int", Function::Truncate, 1, 1},
    {"Identity", Function::Identity, 1, 1},
    {"ToFloat", Function::Identity, 1, 1},
    {"sym_float", Function::Identity, 1, 1},
    {"Min", Function::Min, 1, kAny},
    {"sym_min", Function::Min, 1, kAny},
    {"min", Function::Min, 1, kAny},
    {"Max", Function::Max, 1, kAny},
    {"sym_max", Function::Max, 1, kAny},
    {"max", Function::Max, 1, kAny},
    {"Abs", Function::Abs, 1, 1},
    {"abs", Function::Abs, 1, 1},
    {"Where", Function::Where, 3, 3},
    {"sym_ite", Function::Where, 3, 3},
    {"Eq", Function::Eq, 2, 2},
    {"Equality", Function::Eq, 2, 2},
    {"Ne", Function::Ne, 2, 2},
    {"Unequality", Function::Ne, 2, 2},
    {"Lt", Function::Lt, 2, 2},
    {"StrictLessThan", Function::Lt, 2, 2},
    {"Le", Function::Le, 2, 2},
    {"LessThan", Function::Le, 2, 2},
    {"Gt", Function::Gt, 2, 2},
    {"StrictGreaterThan", Function::Gt, 2, 2},
    {"Ge", Function::Ge, 2, 2},
    {"GreaterThan", Function::Ge, 2, 2},
    {"And", Function::And, 1, kAny},
    {"Or", Function::Or, 1, kAny},
    {"Not", Function::Not, 1, 1},
    {"sym_not", Function::Not, 1, 1},
};

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(std::string_view)>& make_symbol) : text_(text), make_symbol_(make_symbol) {}

  // Or a double that says so itself: Real(sqrt, …), its bits.
  Expr parse_integer() {
    const Fraction value = parse_all();
    return value.is_only_real && text_.starts_with("Real(") ? *value.real : integer(value, 0);
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

  [[noreturn]] void fail(size_t offset, std::string_view problem) const {
    throw Error(ErrorKind::InvalidModel, fmt::format("bad size expression '{}': {} at offset {}", shown(text_), problem, offset));
  }

  Expr integer(const Fraction& value, size_t offset) const {
    if (!value.is_integer() || !value.is_exact()) fail(offset, "a fraction where an integer is needed");
    return value.numerator;
  }

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
    return {logical_not(integer(parse_not(), offset))};
  }

  Fraction parse_comparison() {
    Fraction left = parse_bit_or();
    std::optional<Fraction> all;
    while (const std::optional<Function> comparison = accept_comparison()) {
      const Fraction right = parse_bit_or();
      const Fraction result{compare(*comparison, left, right)};
      all = all ? logic(Function::And, *all, result) : result;
      left = right;
    }
    return all.value_or(left);
  }

  std::optional<Function> accept_comparison() {
    if (accept("<=")) return Function::Le;
    if (accept(">=")) return Function::Ge;
    if (accept("==")) return Function::Eq;
    if (accept("!=")) return Function::Ne;
    if (accept("<")) return Function::Lt;
    if (accept(">")) return Function::Gt;
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
        left = quotient(left, parse_unary(), offset);
      } else if (accept("/")) {
        count_left_nesting();
        left = divide(left, parse_unary(), offset);
      } else if (accept("%")) {
        count_left_nesting();
        left = modulo(left, parse_unary(), offset);
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
      return {logical_not(integer(parse_unary(), offset))};
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
    return power(base, parse_unary(), offset);
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
      const Fraction result = reduce(value, denominator);
      const int64_t reduced = result.denominator.value();
      if ((reduced & (reduced - 1)) == 0) return result;  // what the double is, exactly
    }
    return nearest_fraction(std::strtod(std::string(text_.substr(start, position_ - start)).c_str(), nullptr));
  }

  // The fraction of the smallest denominator whose double is `value`, if that is not below it.
  static Fraction nearest_fraction(double value) {
    constexpr int64_t kMaxDenominator = 10'000;
    for (int64_t denominator = 1; denominator <= kMaxDenominator; ++denominator) {
      const double numerator = std::round(value * static_cast<double>(denominator));
      if (numerator > 1e9) break;
      if (numerator / static_cast<double>(denominator) != value) continue;
      // Rounded once, so the sign is right.
      const double above = std::fma(value, static_cast<double>(denominator), -numerator);
      if (above >= 0) return {static_cast<int64_t>(numerator), denominator, above > 0};
      break;
    }
    return {.numerator = 1, .denominator = 1, .factor = value};
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

  static Fraction reduce(int64_t numerator, int64_t denominator) {
    while (denominator % 5 == 0 && numerator % 5 == 0) numerator /= 5, denominator /= 5;
    while (denominator % 2 == 0 && numerator % 2 == 0) numerator /= 2, denominator /= 2;
    return {numerator, denominator};
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
    const auto* found =
        std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const FunctionName& function) { return function.name == name; });
    if (found == std::end(kFunctions)) return parse_call_in_doubles(name, start);
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
      arguments.push_back(kind == 'i' ? integer(parse_or(), offset) : parse_double_argument(row->function == F::Value));
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
    const auto integer_at = [&](size_t index) { return integer(arguments[index], offset); };
    switch (function) {
      case Function::Add: return fold([&](const Fraction& a, const Fraction& b) { return add(a, b); });
      case Function::Mul: return fold([&](const Fraction& a, const Fraction& b) { return multiply(a, b); });
      case Function::Pow: return power(arguments[0], arguments[1], offset);
      case Function::Integer: return {integer_at(0)};
      case Function::Rational:
      case Function::TrueDiv: return divide(arguments[0], arguments[1], offset);
      case Function::Float:
      case Function::Real:
      case Function::Symbol: break;
      case Function::Mod: return modulo(arguments[0], arguments[1], offset);
      case Function::FloorDiv: return quotient(arguments[0], arguments[1], offset);
      case Function::CeilDiv: return {ceiling(divide(arguments[0], arguments[1], offset))};
      case Function::ModularIndexing: return modulo(quotient(arguments[0], arguments[1], offset), arguments[2], offset);
      case Function::Floor: return {rounded_down(arguments[0])};
      case Function::Ceiling: return {ceiling(arguments[0])};
      case Function::Truncate: return {truncate(arguments[0])};
      case Function::TruncateToFloat: return in_doubles(F::Truncated, arguments[0]);
      case Function::Round: return arguments[0].is_integer() ? arguments[0] : Fraction{real(F::Round, {in_doubles(arguments[0])})};
      case Function::RoundDecimal: return round_decimal(arguments[0], integer_at(1));
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
      case Function::Eq:
      case Function::Ne:
      case Function::Lt:
      case Function::Le:
      case Function::Gt:
      case Function::Ge: return {compare(function, arguments[0], arguments[1])};
      case Function::And:
      case Function::Or: return fold([&](const Fraction& a, const Fraction& b) { return logic(function, a, b); });
      case Function::Not: return {logical_not(integer_at(0))};
    }
    fail(offset, "unknown function");
  }

  static Fraction negate(const Fraction& value) {
    if (!value.is_exact()) return in_doubles(F::Neg, value);
    return with_doubles({-value.numerator, value.denominator}, value.real ? in_doubles(F::Neg, value) : Fraction{});
  }

  static Fraction add(const Fraction& a, const Fraction& b) {
    if (!a.is_exact() || !b.is_exact()) return in_doubles(F::Add, a, b);
    const Fraction sum = a.denominator == b.denominator
                             ? make_fraction(a.numerator + b.numerator, a.denominator)
                             : make_fraction(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
    return with_doubles(sum, in_doubles(F::Add, a, b));
  }

  static Fraction multiply(const Fraction& a, const Fraction& b) {
    if (a.is_only_real || b.is_only_real) return in_doubles(F::Mul, a, b);
    if (a.is_exact() && b.is_exact()) {
      return with_doubles(make_fraction(a.numerator * b.numerator, a.denominator * b.denominator), in_doubles(F::Mul, a, b));
    }
    // Of one double and a size.
    const Fraction& scale = a.is_exact() ? b : a;
    const Fraction& other = a.is_exact() ? a : b;
    const Fraction product = in_doubles(F::Mul, a, b);
    if (!other.is_exact() || !other.is_integer() || other.numerator.range().min < 0) return product;
    if (scale.factor == 0)
      return {.numerator = a.numerator * b.numerator, .denominator = scale.denominator, .is_above = true, .real = product.real};
    if (!scale.numerator.is_const(1)) return product;
    return {.numerator = other.numerator, .denominator = 1, .factor = scale.factor, .real = product.real};
  }

  Fraction divide(const Fraction& a, const Fraction& b, size_t offset) const {
    if (b.is_exact() && b.numerator.is_const(0)) fail(offset, "division by zero");
    if (!a.is_exact() || !b.is_exact()) return in_doubles(F::Div, a, b);
    return with_doubles(make_fraction(a.numerator * b.denominator, a.denominator * b.numerator), in_doubles(F::Div, a, b));
  }

  Fraction quotient(const Fraction& a, const Fraction& b, size_t offset) const {
    if (!a.is_exact() || !b.is_exact()) return in_doubles(F::FloorDiv, a, b);
    if (b.numerator.is_const(0)) fail(offset, "division by zero");
    const Fraction exact = make_fraction(a.numerator * b.denominator, a.denominator * b.numerator);
    return {floor_div(exact.numerator, exact.denominator)};
  }

  Fraction modulo(const Fraction& a, const Fraction& b, size_t offset) const {
    if (!a.is_integer() || !b.is_integer()) return in_doubles(F::Mod, a, b);
    if (b.numerator.is_const(0)) fail(offset, "division by zero");
    return {mod(a.numerator, b.numerator)};
  }

  static Expr ceiling(const Fraction& value) {
    return value.is_exact() ? ceil_div(value.numerator, value.denominator) : real(F::Ceil, {in_doubles(value)});
  }

  static Expr rounded_down(const Fraction& value) {
    if (value.is_only_real) return real(F::Floor, {in_doubles(value)});
    return value.factor != 0 ? scaled(value.numerator, value.factor) : floor_div(value.numerator, value.denominator);
  }

  static Expr truncate(const Fraction& value) {
    if (!value.is_exact() && (value.is_only_real || value.numerator.range().min < 0)) return real(F::Trunc, {in_doubles(value)});
    const Expr down = rounded_down(value);
    if (down.range().min >= 0) return down;
    return down + (ceiling(value) - down) * lt(down, 0);
  }

  // To so many digits behind the point; an integer counts as rounded.
  Fraction round_decimal(const Fraction& value, Expr digits) const {
    if (value.is_integer()) return value;
    if (!digits.is_const() || std::abs(digits.value()) > 300) fail(position_, "a number of digits that is no small constant");
    const Expr unit = real_literal(std::pow(10.0, static_cast<double>(digits.value())));
    const Expr shifted = real(F::Rounded, {real(F::Mul, {in_doubles(value), unit})});
    return only_real(real(F::Div, {shifted, unit}));
  }

  Fraction power(const Fraction& base, const Fraction& exponent, size_t offset) const {
    const bool is_short = exponent.is_integer() && exponent.numerator.is_const() && std::abs(exponent.numerator.value()) <= 64;
    if (!base.is_exact() || !is_short) {
      if (base.is_integer() && exponent.is_integer()) fail(offset, "an exponent that is no constant between -64 and 64");
      return in_doubles(F::Pow, base, exponent);
    }
    const int64_t count = exponent.numerator.value();
    Fraction result{1};
    for (int64_t i = 0; i < std::abs(count); ++i) result = multiply(result, base);
    if (count < 0) result = divide({1}, result, offset);
    return with_doubles(result, in_doubles(F::Pow, base, exponent));
  }

  static Expr compare(Function comparison, const Fraction& a, const Fraction& b) {
    if (!a.is_exact() || !b.is_exact() || a.denominator.range().min < 0 || b.denominator.range().min < 0) {
      return compare_doubles(comparison, in_doubles(a), in_doubles(b));
    }
    const Expr left = a.numerator * b.denominator;
    const Expr right = b.numerator * a.denominator;
    switch (comparison) {
      case Function::Eq: return eq(left, right);
      case Function::Ne: return ne(left, right);
      case Function::Lt: return lt(left, right);
      case Function::Le: return le(left, right);
      case Function::Gt: return gt(left, right);
      default: return ge(left, right);
    }
  }

  static Expr compare_doubles(Function comparison, Expr a, Expr b) {
    switch (comparison) {
      case Function::Eq: return real(F::Eq, {a, b});
      case Function::Ne: return real(F::Ne, {a, b});
      case Function::Lt: return real(F::Lt, {a, b});
      case Function::Le: return real(F::Le, {a, b});
      case Function::Gt: return real(F::Lt, {b, a});
      default: return real(F::Le, {b, a});
    }
  }

  Fraction logic(Function function, const Fraction& a, const Fraction& b) const {
    const Expr left = truth(a);
    const Expr right = truth(b);
    return {function == Function::And ? logical_and(left, right) : logical_or(left, right)};
  }

  Expr truth(const Fraction& value) const {
    const Expr number = integer(value, position_);
    const Range range = number.range();
    return range.min >= 0 && range.max <= 1 ? number : ne(number, 0);
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
