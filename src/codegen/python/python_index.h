// Integer expressions in Python, for the languages that are embedded in it: Triton, Halide.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "symbolic/expr.h"

namespace toroid::codegen {

class PythonIndex {
 public:
  virtual ~PythonIndex() = default;
  std::string print(sym::Expr e) const;

 protected:
  // In parentheses where it is negative.
  virtual std::string number(int64_t value) const;
  virtual std::string symbol(sym::Expr e) const = 0;
  // Rounded down, and the remainder of that.
  virtual std::string quotient(sym::Expr a, sym::Expr b) const = 0;
  virtual std::string remainder(sym::Expr a, sym::Expr b) const = 0;
  // A comparison, "a < b", as 0 or 1.
  virtual std::string truth(const std::string& comparison) const = 0;
  [[noreturn]] virtual void refuse_reals() const = 0;

  // The least value that it may have.
  static int64_t least(sym::Expr e) { return e.is_const() ? e.value() : e.range().min; }

 private:
  std::string joined(std::span<const sym::Expr> operands, std::string_view sign) const;
  std::string nested(std::span<const sym::Expr> operands, std::string_view function) const;
  std::string compared(std::span<const sym::Expr> operands, std::string_view sign) const;

  // The function of two numbers: "tl.minimum".
  virtual std::string_view minimum() const = 0;
  virtual std::string_view maximum() const = 0;
};

}  // namespace toroid::codegen
