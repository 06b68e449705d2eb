#include "codegen/cpp/print_index.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "symbolic/real.h"

namespace toroid::codegen {
namespace {

class IndexPrinter {
 public:
  IndexPrinter(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr vector_axis, std::string_view lane,
               std::function<bool(loop::ExprId)> varies)
      : exprs_(exprs), names_(names), vector_axis_(vector_axis), lane_(lane), varies_(std::move(varies)) {}

  // `in_product`: parenthesise sums.
  std::string print(sym::Expr e, bool in_product = false) const {
    if (e.is_const()) {
      if (e.value() == sym::kNegInf) return "(-9223372036854775807 - 1)";
      const std::string text = fmt::format("{}", e.value());
      return in_product && e.value() < 0 ? "(" + text + ")" : text;
    }
    const auto operands = e.operands();
    switch (e.kind()) {
      case sym::Kind::Const: break;
      case sym::Kind::Symbol: return symbol(e, in_product);
      case sym::Kind::Add: {
        // Constants print last, as people write them.
        std::string text;
        for (size_t pass = 0; pass < 2; ++pass) {
          for (sym::Expr term : operands) {
            if (term.is_const() != (pass == 1)) continue;
            const std::string part = print(term);
            if (text.empty()) {
              text = part;
            } else if (part[0] == '-') {
              text += " - " + part.substr(1);
            } else {
              text += " + " + part;
            }
          }
        }
        return in_product ? "(" + text + ")" : text;
      }
      case sym::Kind::Mul: {
        std::string text;
        for (sym::Expr factor : operands) {
          if (factor.is_const(-1) && text.empty()) {
            text = "-";
            continue;
          }
          const bool leading = text.empty();
          if (!text.empty() && text != "-") text += " * ";
          text += factor.is_const() && leading ? fmt::format("{}", factor.value()) : print(factor, true);
        }
        return text;
      }
      case sym::Kind::FloorDiv:
        // C++ division truncates, which is the same where nothing is negative.
        if (operands[0].range().min >= 0 && operands[1].range().min > 0) {
          return fmt::format("({} / {})", print(operands[0], true), divisor(operands[1]));
        }
        return call("floordiv<int64_t>", operands);
      case sym::Kind::Mod:
        if (operands[0].range().min >= 0 && operands[1].range().min > 0) {
          return fmt::format("({} % {})", print(operands[0], true), divisor(operands[1]));
        }
        return call("floormod<int64_t>", operands);
      case sym::Kind::Min: return call("min64", operands);
      case sym::Kind::Max: return call("max64", operands);
      case sym::Kind::Eq: return infix(" == ", operands);
      case sym::Kind::Ne: return infix(" != ", operands);
      case sym::Kind::Lt: return infix(" < ", operands);
      case sym::Kind::Le: return infix(" <= ", operands);
      case sym::Kind::And: return infix(" & ", operands);
      case sym::Kind::Or: return infix(" | ", operands);
      case sym::Kind::Not: return "!" + print(operands[0], true);
      case sym::Kind::Scaled: return fmt::format("int64_t({:a} * double({}))", sym::factor_of(operands[1]), print(operands[0], false));
      case sym::Kind::Real: return sym::is_real(e) ? fmt::format("__builtin_bit_cast(int64_t, {})", print_real(e)) : print_real(e);
    }
    TOROID_CHECK(false, "an index of unknown kind");
  }

 private:
  std::string symbol(sym::Expr e, bool in_product) const {
    const std::string& name = names_.of(e);
    if (lane_.empty()) return name;
    if (e == vector_axis_) return in_product ? fmt::format("({} + {})", name, lane_) : fmt::format("{} + {}", name, lane_);
    const loop::ValueSymbol* value = exprs_.value_symbol(e);
    if (value == nullptr || !varies_(value->index)) return name;
    return fmt::format("{}[{}]", name, lane_);
  }

  // An expression whose value is the bits of a double, as the double; or a function of doubles that gives an integer.
  std::string print_real(sym::Expr e) const {
    if (e.is_const()) return double_text(sym::real_value(e));
    if (e.kind() != sym::Kind::Real) return fmt::format("__builtin_bit_cast(double, {})", print(e));
    const sym::RealRow& row = sym::row_of(sym::function_of(e));
    std::string arguments[3];
    for (size_t i = 0; i < row.arguments.size(); ++i) {
      const sym::Expr argument = e.operands()[i + 1];
      arguments[i] = row.arguments[i] == 'r' ? print_real(argument) : print(argument);
    }
    return fmt::format(fmt::runtime(row.code), arguments[0], arguments[1], arguments[2]);
  }

  static std::string double_text(double value) {
    if (std::isnan(value)) return "__builtin_nan(\"\")";
    if (std::isinf(value)) return value < 0 ? "(-__builtin_inf())" : "__builtin_inf()";
    return value < 0 ? fmt::format("({:a})", value) : fmt::format("{:a}", value);
  }

  // x / (a * b): C++ would divide x by a, then multiply.
  std::string divisor(sym::Expr e) const {
    const std::string text = print(e, true);
    return e.kind() == sym::Kind::Mul ? "(" + text + ")" : text;
  }

  std::string call(std::string_view function, std::span<const sym::Expr> operands) const {
    std::string text = print(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) {
      text = fmt::format("{}({}, {})", function, text, print(operands[i]));
    }
    return text;
  }

  std::string infix(std::string_view sign, std::span<const sym::Expr> operands) const {
    std::string text = "(";
    for (size_t i = 0; i < operands.size(); ++i) text += (i > 0 ? std::string(sign) : "") + print(operands[i]);
    return text + ")";
  }

  const loop::ExprTable& exprs_;
  SymbolNames& names_;
  sym::Expr vector_axis_;
  std::string_view lane_;
  std::function<bool(loop::ExprId)> varies_;  // does an expression differ between lanes?
};

}  // namespace

const std::string& SymbolNames::of(sym::Expr symbol) {
  auto [slot, is_new] = names_.try_emplace(symbol);
  std::string& name = slot->second;
  if (!is_new) return name;
  const std::string own = identifier(symbol.node()->name);
  const sym::SymbolKind kind = symbol.node()->symbol_kind;
  if (kind != sym::SymbolKind::Axis && kind != sym::SymbolKind::Value) {
    name = own;
    return name;
  }
  const std::string prefix = own.substr(0, own.find_last_not_of("0123456789") + 1);
  do {
    name = fmt::format("{}{}", prefix, counts_[prefix]++);
  } while (!taken_.insert(name).second);
  return name;
}

std::string print_index(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr) {
  return IndexPrinter(exprs, names, {}, {}, {}).print(expr);
}

std::string print_index(const loop::ExprTable& exprs, sym::Expr expr) {
  SymbolNames names;
  return print_index(exprs, names, expr);
}

std::string print_lane_index(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr, sym::Expr vector_axis, std::string_view lane,
                             const std::function<bool(loop::ExprId)>& varies) {
  return IndexPrinter(exprs, names, vector_axis, lane, varies).print(expr);
}

std::string print_factor(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr) {
  const std::string text = print_index(exprs, names, expr);
  return (expr.is_const() && expr.value() >= 0) || expr.is_symbol() ? text : "(" + text + ")";
}

bool fits_32_bits(sym::Expr e) {
  const sym::Range range = e.is_const() ? sym::Range{e.value(), e.value()} : e.range();
  if (range.min < INT32_MIN || range.max > INT32_MAX) return false;
  if (e.is_const() || e.kind() == sym::Kind::Symbol) return true;
  if (e.kind() == sym::Kind::Scaled || e.kind() == sym::Kind::Real) return false;
  const auto operands = e.operands();
  if (e.kind() == sym::Kind::Add) {  // in whatever order its terms are added
    int64_t least = 0, most = 0;
    for (sym::Expr term : operands) {
      const sym::Range its = term.is_const() ? sym::Range{term.value(), term.value()} : term.range();
      least += std::max<int64_t>(std::min<int64_t>(its.min, 0), INT32_MIN);
      most += std::min<int64_t>(std::max<int64_t>(its.max, 0), INT32_MAX);
    }
    if (least < INT32_MIN || most > INT32_MAX) return false;
  }
  return std::all_of(operands.begin(), operands.end(), fits_32_bits);
}

}  // namespace toroid::codegen
