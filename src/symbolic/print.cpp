// Prints expressions as SymPy would write them, which parse() reads back.
//
//   2*s0 + 3      (s0 + 1)//2      4*Mod(i0, 8)      Max(1, u0)      (s0 < 4) & Ne(s1, 1)
#include <fmt/format.h>

#include "base/error.h"
#include "symbolic/expr.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

// How tightly the outermost operator of a text binds.
enum class Binding { Logic, Comparison, Sum, Product, Atom };

class Printer {
 public:
  explicit Printer(size_t max_length) : max_length_(max_length) {}

  void print(Expr expr, Binding around) {
    if (out_.size() > max_length_) return;
    const bool parentheses = binding_of(expr) < around;
    if (parentheses) out_ += '(';
    print_bare(expr);
    if (parentheses) out_ += ')';
  }

  std::string take() { return std::move(out_); }

 private:
  static Binding binding_of(Expr expr) {
    switch (expr.kind()) {
      case Kind::Const: return expr.value() < 0 ? Binding::Sum : Binding::Atom;
      case Kind::Add: return Binding::Sum;
      case Kind::Mul: return is_negative(expr) ? Binding::Sum : Binding::Product;
      case Kind::FloorDiv: return Binding::Product;
      case Kind::Lt:
      case Kind::Le: return Binding::Comparison;
      case Kind::And:
      case Kind::Or: return Binding::Logic;
      default: return Binding::Atom;
    }
  }

  static bool is_negative(Expr expr) {
    if (expr.is_const()) return expr.value() < 0;
    return expr.kind() == Kind::Mul && expr.operands()[0].is_const() && expr.operands()[0].value() < 0;
  }

  void print_bare(Expr expr) {
    const std::span<const Expr> operands = expr.operands();
    switch (expr.kind()) {
      case Kind::Const: out_ += fmt::format("{}", expr.value()); break;
      case Kind::Symbol: out_ += expr.node()->name; break;
      case Kind::Add: print_sum(operands); break;
      case Kind::Mul: print_product(operands); break;
      case Kind::FloorDiv:
        print(operands[0], Binding::Atom);
        out_ += "//";
        print(operands[1], Binding::Atom);
        break;
      case Kind::Mod: print_call("Mod", operands); break;
      case Kind::Min: print_call("Min", operands); break;
      case Kind::Max: print_call("Max", operands); break;
      case Kind::Eq: print_call("Eq", operands); break;
      case Kind::Ne: print_call("Ne", operands); break;
      case Kind::Lt: print_between(operands, " < ", Binding::Sum); break;
      case Kind::Le: print_between(operands, " <= ", Binding::Sum); break;
      case Kind::And: print_between(operands, " & ", Binding::Atom); break;
      case Kind::Or: print_between(operands, " | ", Binding::Atom); break;
      case Kind::Not:
        out_ += "~(";
        print_bare(operands[0]);
        out_ += ')';
        break;
      case Kind::Scaled:
        out_ += fmt::format("Scaled({}, ", factor_of(operands[1]));
        print(operands[0], Binding::Logic);
        out_ += ')';
        break;
      case Kind::Real: print_real(expr); break;
    }
  }

  // Real(div, 1, Real(float, s0)): constants among the doubles print as numbers.
  void print_real(Expr expr) {
    const RealRow& row = row_of(function_of(expr));
    out_ += fmt::format("Real({}", row.name);
    for (size_t i = 0; i < row.arguments.size(); ++i) {
      const Expr argument = expr.operands()[i + 1];
      out_ += ", ";
      if (row.arguments[i] == 'r' && argument.is_const()) {
        out_ += fmt::format("{}", real_value(argument));
      } else {
        print(argument, Binding::Logic);
      }
    }
    out_ += ')';
  }

  void print_call(std::string_view name, std::span<const Expr> operands) {
    out_ += name;
    out_ += '(';
    print_between(operands, ", ", Binding::Logic);
    out_ += ')';
  }

  void print_between(std::span<const Expr> operands, std::string_view separator, Binding around) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i > 0) out_ += separator;
      print(operands[i], around);
    }
  }

  // The constant comes last, unless a sum would then begin with a minus: "3 - s0".
  void print_sum(std::span<const Expr> operands) {
    std::vector<Expr> order(operands.begin(), operands.end());
    if (order[0].is_const()) std::rotate(order.begin(), order.begin() + 1, order.end());
    const auto first = std::find_if(order.begin(), order.end(), [](Expr term) { return !is_negative(term); });
    if (first != order.end()) std::rotate(order.begin(), first, first + 1);
    print_term(order[0]);
    for (size_t i = 1; i < order.size(); ++i) {
      const bool negative = is_negative(order[i]);
      out_ += negative ? " - " : " + ";
      print_term(order[i], negative);
    }
  }

  void print_term(Expr term, bool without_sign = false) {
    if (!without_sign) return print(term, Binding::Sum);
    if (term.is_const()) {
      out_ += fmt::format("{}", -static_cast<uint64_t>(term.value()));
    } else {
      print_product(term.operands(), without_sign);
    }
  }

  void print_product(std::span<const Expr> operands, bool without_sign = false) {
    if (operands[0].is_const()) {
      const int64_t coefficient = operands[0].value();
      if (coefficient < 0 && !without_sign) out_ += '-';
      const uint64_t magnitude = coefficient < 0 ? -static_cast<uint64_t>(coefficient) : static_cast<uint64_t>(coefficient);
      if (magnitude != 1) out_ += fmt::format("{}*", magnitude);
      operands = operands.subspan(1);
    }
    print_between(operands, "*", Binding::Atom);
  }

  size_t max_length_;
  std::string out_;
};

}  // namespace

std::string to_string(Expr expr) {
  Printer printer(std::string::npos);
  printer.print(expr, Binding::Logic);
  return printer.take();
}

std::string to_short_string(Expr expr, size_t max_length) {
  Printer printer(max_length);
  printer.print(expr, Binding::Logic);
  std::string text = printer.take();
  if (text.size() > max_length) text = text.substr(0, max_length) + "...";
  return text;
}

}  // namespace toroid::sym
