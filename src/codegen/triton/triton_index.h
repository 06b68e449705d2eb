// Integer expressions in Triton's language, whose divisions truncate as C's.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "codegen/cpp/print_index.h"
#include "codegen/python/python_index.h"
#include "loop/loop.h"

namespace toroid::codegen {

class TritonIndex final : public PythonIndex {
 public:
  // `type`: of the expressions. `value_of`: the name of an index that is read from a tensor. All but it must outlive this.
  TritonIndex(const loop::ExprTable& exprs, SymbolNames& names, std::string_view type, std::function<std::string(sym::Expr)> value_of)
      : exprs_(exprs), names_(names), type_(type), value_of_(std::move(value_of)) {}

 private:
  std::string symbol(sym::Expr e) const override { return exprs_.value_symbol(e) != nullptr ? value_of_(e) : names_.of(e); }
  std::string quotient(sym::Expr a, sym::Expr b) const override { return divided(a, b, "//", "floor_div"); }
  std::string remainder(sym::Expr a, sym::Expr b) const override { return divided(a, b, "%", "floor_mod"); }
  std::string truth(const std::string& comparison) const override;
  std::string_view minimum() const override { return "tl.minimum"; }
  std::string_view maximum() const override { return "tl.maximum"; }
  [[noreturn]] void refuse_reals() const override;

  std::string divided(sym::Expr a, sym::Expr b, std::string_view sign, std::string_view function) const;

  const loop::ExprTable& exprs_;
  SymbolNames& names_;
  std::string_view type_;
  std::function<std::string(sym::Expr)> value_of_;
};

}  // namespace toroid::codegen
