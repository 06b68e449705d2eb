#include "codegen/python/python_index.h"

#include <fmt/format.h>

namespace toroid::codegen {

std::string PythonIndex::print(sym::Expr e) const {
  if (e.is_const()) return number(e.value());
  const auto operands = e.operands();
  switch (e.kind()) {
    case sym::Kind::Symbol: return symbol(e);
    case sym::Kind::Add: return joined(operands, " + ");
    case sym::Kind::Mul: return joined(operands, " * ");
    case sym::Kind::FloorDiv: return quotient(operands[0], operands[1]);
    case sym::Kind::Mod: return remainder(operands[0], operands[1]);
    case sym::Kind::Min: return nested(operands, minimum());
    case sym::Kind::Max: return nested(operands, maximum());
    case sym::Kind::Eq: return compared(operands, "==");
    case sym::Kind::Ne: return compared(operands, "!=");
    case sym::Kind::Lt: return compared(operands, "<");
    case sym::Kind::Le: return compared(operands, "<=");
    case sym::Kind::And: return joined(operands, " & ");
    case sym::Kind::Or: return joined(operands, " | ");
    case sym::Kind::Not: return fmt::format("(1 - {})", print(operands[0]));
    default: refuse_reals();
  }
  __builtin_unreachable();  // g++ does not see that a virtual function never returns
}

std::string PythonIndex::number(int64_t value) const { return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value); }

std::string PythonIndex::joined(std::span<const sym::Expr> operands, std::string_view sign) const {
  std::string text;
  for (sym::Expr each : operands) text += (text.empty() ? "" : std::string(sign)) + print(each);
  return "(" + text + ")";
}

std::string PythonIndex::nested(std::span<const sym::Expr> operands, std::string_view function) const {
  std::string text = print(operands[0]);
  for (const sym::Expr each : operands.subspan(1)) text = fmt::format("{}({}, {})", function, text, print(each));
  return text;
}

std::string PythonIndex::compared(std::span<const sym::Expr> operands, std::string_view sign) const {
  return truth(fmt::format("{} {} {}", print(operands[0]), sign, print(operands[1])));
}

}  // namespace toroid::codegen
