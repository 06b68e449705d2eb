// Evaluates expressions when every symbol has a value.
//
// Intermediate values are 128 bits wide: the simplifier may have reordered a sum, and only a result (or a product
// beyond 128 bits) that does not fit is an overflow.
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

__extension__ typedef __int128 Wide;

using ValueOf = std::function<std::optional<int64_t>(Expr symbol)>;

Error evaluation_error(Expr expr, std::string_view problem) {
  return Error(ErrorKind::InvalidInput, fmt::format("{} in size arithmetic: {}", problem, to_short_string(expr)));
}

Wide floor_divide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

class Evaluator {
 public:
  explicit Evaluator(const ValueOf& value_of) : value_of_(value_of) {}

  Wide value(Expr expr) {
    if (expr.is_const()) return expr.value();
    if (const auto found = done_.find(expr.node()); found != done_.end()) return found->second;
    const Wide result = compute(expr);
    done_.emplace(expr.node(), result);
    return result;
  }

 private:
  Wide compute(Expr expr) {
    const std::span<const Expr> operands = expr.operands();
    switch (expr.kind()) {
      case Kind::Const: return expr.value();
      case Kind::Symbol: {
        const std::optional<int64_t> found = value_of_(expr);
        if (!found) {
          throw Error(ErrorKind::InvalidInput, fmt::format("no value is known for size '{}'", expr.node()->name));
        }
        return *found;
      }
      case Kind::Add: {
        Wide sum = 0;
        for (Expr operand : operands) {
          if (__builtin_add_overflow(sum, value(operand), &sum)) throw evaluation_error(expr, "integer overflow");
        }
        return sum;
      }
      case Kind::Mul: {
        Wide product = 1;
        for (Expr operand : operands) {
          if (__builtin_mul_overflow(product, value(operand), &product)) throw evaluation_error(expr, "integer overflow");
        }
        return product;
      }
      case Kind::FloorDiv: return floor_divide(value(operands[0]), divisor(expr));
      case Kind::Mod: {
        const Wide dividend = value(operands[0]);
        const Wide by = divisor(expr);
        return dividend - by * floor_divide(dividend, by);
      }
      case Kind::Min:
      case Kind::Max: {
        Wide best = value(operands[0]);
        for (Expr operand : operands.subspan(1)) {
          const Wide other = value(operand);
          if (expr.kind() == Kind::Min ? other < best : other > best) best = other;
        }
        return best;
      }
      case Kind::Eq: return value(operands[0]) == value(operands[1]);
      case Kind::Ne: return value(operands[0]) != value(operands[1]);
      case Kind::Lt: return value(operands[0]) < value(operands[1]);
      case Kind::Le: return value(operands[0]) <= value(operands[1]);
      case Kind::And: return std::all_of(operands.begin(), operands.end(), [&](Expr operand) { return value(operand) != 0; });
      case Kind::Or: return std::any_of(operands.begin(), operands.end(), [&](Expr operand) { return value(operand) != 0; });
      case Kind::Not: return value(operands[0]) == 0;
      case Kind::Scaled: {
        const Wide size = value(operands[0]);
        const std::optional<int64_t> result = size <= INT64_MAX ? scale(static_cast<int64_t>(size), factor_of(operands[1])) : std::nullopt;
        if (!result) throw evaluation_error(expr, "integer overflow");
        return *result;
      }
      case Kind::Real: {
        std::vector<int64_t> arguments;
        for (Expr operand : operands.subspan(1)) {
          const Wide argument = value(operand);
          if (argument < kNegInf || argument > kPosInf) throw evaluation_error(expr, "integer overflow");
          arguments.push_back(static_cast<int64_t>(argument));
        }
        const std::optional<int64_t> result = compute_real(function_of(expr), arguments);
        if (!result) throw evaluation_error(expr, "integer overflow");
        return *result;
      }
    }
    internal_error(__FILE__, __LINE__, "kind", "unknown kind of expression");
  }

  Wide divisor(Expr expr) {
    const Wide by = value(expr.operands()[1]);
    if (by == 0) throw evaluation_error(expr, "division by zero");
    return by;
  }

  const ValueOf& value_of_;
  std::unordered_map<const Node*, Wide> done_;
};

int64_t hint_of(Expr symbol, int64_t fallback) {
  const Node& node = *symbol.node();
  if (node.hint) return *node.hint;
  const bool bounded = node.range.min != kNegInf && node.range.max != kPosInf;
  if (bounded) return static_cast<int64_t>((Wide{node.range.min} + node.range.max) / 2);
  if (node.extent) return std::max<int64_t>(evaluate_hint(*node.extent, fallback) / 2, 0);
  return std::clamp(fallback, node.range.min, node.range.max);
}

}  // namespace

int64_t evaluate(Expr expr, const ValueOf& value_of) {
  if (expr.is_const()) return expr.value();
  const Wide result = Evaluator(value_of).value(expr);
  if (result < kNegInf || result > kPosInf) throw evaluation_error(expr, "integer overflow");
  return static_cast<int64_t>(result);
}

int64_t evaluate_hint(Expr expr, int64_t fallback) {
  try {
    return evaluate(expr, [&](Expr symbol) { return std::optional(hint_of(symbol, fallback)); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidInput) throw;
    return fallback;  // a guess may overflow or divide by zero where no real input would
  }
}

}  // namespace toroid::sym
