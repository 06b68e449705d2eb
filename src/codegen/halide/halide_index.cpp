#include "codegen/halide/halide_index.h"

#include <limits>

#include <fmt/format.h>

#include "codegen/halide/halide_scalar.h"

namespace toroid::codegen {
namespace {

class IndexText {
 public:
  IndexText(const loop::ExprTable& exprs, const std::function<std::string(sym::Expr)>& name_of, bool is_wide)
      : exprs_(exprs), name_of_(name_of), is_wide_(is_wide) {}

  std::string print(sym::Expr e) const {
    if (e.is_const()) return number(e.value());
    const auto operands = e.operands();
    switch (e.kind()) {
      case sym::Kind::Symbol:
        if (exprs_.value_symbol(e) != nullptr) throw NotInHalide("an index that is read from a tensor");
        return is_wide_ ? fmt::format("hl.i64({})", name_of_(e)) : name_of_(e);
      case sym::Kind::Add: return joined(operands, " + ");
      case sym::Kind::Mul: return joined(operands, " * ");
      case sym::Kind::FloorDiv: return divided(operands, "//");
      case sym::Kind::Mod: return divided(operands, "%");
      case sym::Kind::Min: return nested(operands, "hl.min");
      case sym::Kind::Max: return nested(operands, "hl.max");
      case sym::Kind::Eq: return compared(operands, "==");
      case sym::Kind::Ne: return compared(operands, "!=");
      case sym::Kind::Lt: return compared(operands, "<");
      case sym::Kind::Le: return compared(operands, "<=");
      case sym::Kind::And: return joined(operands, " & ");
      case sym::Kind::Or: return joined(operands, " | ");
      case sym::Kind::Not: return fmt::format("(1 - {})", print(operands[0]));
      default: throw NotInHalide("an index of real numbers");
    }
  }

 private:
  std::string number(int64_t value) const {
    if (is_wide_) return fmt::format("hl.i64({})", value);
    if (value > std::numeric_limits<int32_t>::max() || value < std::numeric_limits<int32_t>::min())
      throw NotInHalide("an index of more than 32 bits");
    return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
  }
  std::string joined(std::span<const sym::Expr> operands, std::string_view sign) const {
    std::string text;
    for (sym::Expr each : operands) text += (text.empty() ? "" : std::string(sign)) + print(each);
    return "(" + text + ")";
  }
  std::string nested(std::span<const sym::Expr> operands, std::string_view function) const {
    std::string text = print(operands[0]);
    for (const sym::Expr each : operands.subspan(1)) text = fmt::format("{}({}, {})", function, text, print(each));
    return text;
  }
  // Halide's division by a positive number rounds down.
  std::string divided(std::span<const sym::Expr> operands, std::string_view sign) const {
    const int64_t least = operands[1].is_const() ? operands[1].value() : operands[1].range().min;
    if (least <= 0) throw NotInHalide("an index that is divided by what may be no positive number");
    return fmt::format("({} {} {})", print(operands[0]), sign, print(operands[1]));
  }
  std::string compared(std::span<const sym::Expr> operands, std::string_view sign) const {
    return fmt::format("hl.cast(hl.Int({}), {} {} {})", is_wide_ ? 64 : 32, print(operands[0]), sign, print(operands[1]));
  }

  const loop::ExprTable& exprs_;
  const std::function<std::string(sym::Expr)>& name_of_;
  const bool is_wide_;
};

bool is_axis(sym::Expr symbol) { return symbol.node()->symbol_kind == sym::SymbolKind::Axis; }

}  // namespace

std::string halide_index(const loop::ExprTable& exprs, sym::Expr expr, const std::function<std::string(sym::Expr)>& name_of, bool is_wide) {
  return IndexText(exprs, name_of, is_wide).print(expr);
}

bool is_affine(sym::Expr expr) {
  if (expr.is_const()) return true;
  for (sym::Expr axis : sym::free_symbols(expr)) {
    if (!is_axis(axis)) continue;
    const auto linear = sym::linear_in(expr, axis);
    if (!linear) return false;
    if (!linear->coefficient.is_const()) {
      for (sym::Expr symbol : sym::free_symbols(linear->coefficient)) {
        if (is_axis(symbol)) return false;
      }
    }
  }
  return true;
}

}  // namespace toroid::codegen
