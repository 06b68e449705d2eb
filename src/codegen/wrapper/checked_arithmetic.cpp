#include "codegen/wrapper/checked_arithmetic.h"

#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/print_index.h"
#include "support/text/text_buffer.h"

namespace toroid::codegen {
namespace {

class CheckedPrinter {
 public:
  explicit CheckedPrinter(std::span<const sym::Expr> symbols) {
    for (size_t i = 0; i < symbols.size(); ++i) positions_.emplace(symbols[i], i);
  }

  std::string print(sym::Expr e) const {
    if (e.is_const()) return fmt::format("Wide({})", number_text(e.value()));
    const std::span<const sym::Expr> operands = e.operands();
    switch (e.kind()) {
      case sym::Kind::Const: break;
      case sym::Kind::Symbol: return fmt::format("Wide(symbols[{}])", positions_.at(e));
      case sym::Kind::Add: return folded("sum_of", operands);
      case sym::Kind::Mul: return folded("product_of", operands);
      case sym::Kind::FloorDiv: return folded("quotient_of", operands);
      case sym::Kind::Mod: return folded("remainder_of", operands);
      case sym::Kind::Min: return folded("least_of", operands);
      case sym::Kind::Max: return folded("most_of", operands);
      case sym::Kind::Eq: return infix("==", operands);
      case sym::Kind::Ne: return infix("!=", operands);
      case sym::Kind::Lt: return infix("<", operands);
      case sym::Kind::Le: return infix("<=", operands);
      case sym::Kind::And: return infix("&&", operands);
      case sym::Kind::Or: return infix("||", operands);
      case sym::Kind::Not: return fmt::format("Wide({} == 0)", print(operands[0]));
      case sym::Kind::Scaled:
        return fmt::format("whole({:a} * double(narrowed({}, fault)), fault)", sym::factor_of(operands[1]), print(operands[0]));
      case sym::Kind::Real: return fmt::format("Wide({})", print_index(loop::ExprTable(*e.context()), e));
    }
    TOROID_CHECK(false, "an expression of unknown kind");
  }

 private:
  std::string folded(std::string_view function, std::span<const sym::Expr> operands) const {
    std::string text = print(operands[0]);
    for (sym::Expr operand : operands.subspan(1)) text = fmt::format("{}({}, {}, fault)", function, text, print(operand));
    return text;
  }
  std::string infix(std::string_view sign, std::span<const sym::Expr> operands) const {
    const bool is_logical = sign == "&&" || sign == "||";
    std::string text;
    for (sym::Expr operand : operands) {
      if (!text.empty()) text += fmt::format(" {} ", sign);
      text += is_logical ? fmt::format("({} != 0)", print(operand)) : print(operand);
    }
    return fmt::format("Wide({})", text);
  }

  std::unordered_map<sym::Expr, size_t> positions_;
};

}  // namespace

const std::string_view kCheckedArithmetic = R"code(
// Sizes in 128 bits. *fault becomes 1 where a number does not fit, or a divisor is 0.
__extension__ typedef __int128 Wide;
static inline bool fits(Wide a) { return a >= -9223372036854775807 - 1 && a <= 9223372036854775807; }
static inline Wide sum_of(Wide a, Wide b, int32_t* fault) {
  Wide sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  *fault = 1;
  return 0;
}
static inline Wide product_of(Wide a, Wide b, int32_t* fault) {
  if (fits(a) && fits(b)) return a * b;
  *fault = 1;
  return 0;
}
static inline Wide quotient_of(Wide a, Wide b, int32_t* fault) {
  if (b == -1) return -a;
  if (b == 0 || !fits(a) || !fits(b)) {
    *fault = 1;
    return 0;
  }
  const int64_t dividend = (int64_t)a, divisor = (int64_t)b, quotient = dividend / divisor;
  return quotient * divisor != dividend && (dividend < 0) != (divisor < 0) ? quotient - 1 : quotient;
}
static inline Wide remainder_of(Wide a, Wide b, int32_t* fault) { return a - b * quotient_of(a, b, fault); }
static inline Wide least_of(Wide a, Wide b, int32_t*) { return b < a ? b : a; }
static inline Wide most_of(Wide a, Wide b, int32_t*) { return b > a ? b : a; }
static inline int64_t narrowed(Wide a, int32_t* fault) {
  if (!fits(a)) *fault = 1;
  return (int64_t)a;
}
static inline Wide whole(double value, int32_t* fault) {
  if (value > -9.2e18 && value < 9.2e18) return (int64_t)value;
  *fault = 1;
  return 0;
}
)code";

std::string number_text(int64_t value) { return value == sym::kNegInf ? "(-9223372036854775807 - 1)" : fmt::format("{}", value); }

std::string checked_evaluation(const std::string& name, std::span<const sym::Expr> expressions, std::span<const sym::Expr> symbols) {
  TextBuffer text;
  {
    auto function = text.block(
        fmt::format("static int32_t {}(const ToroidContract*, int32_t expression, const int64_t* symbols, int64_t* value) {{", name));
    for (size_t i = 0; i < symbols.size(); ++i)
      text.write(fmt::format("const int64_t {0} = symbols[{1}]; (void){0};", identifier(symbols[i].node()->name), i));
    text.write("int32_t failed = 0, *const fault = &failed;");
    text.write("Wide result = 0;");
    {
      auto cases = text.block("switch (expression) {");
      const CheckedPrinter printer(symbols);
      for (size_t i = 0; i < expressions.size(); ++i)
        text.write(fmt::format("case {}: result = {}; break;", i, printer.print(expressions[i])));
    }
    text.write("*value = narrowed(result, fault);");
    text.write("return failed;");
  }
  return text.str();
}

}  // namespace toroid::codegen
