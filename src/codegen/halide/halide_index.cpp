#include "codegen/halide/halide_index.h"

#include <limits>

#include <fmt/format.h>

#include "codegen/halide/halide_scalar.h"
#include "codegen/python/python_index.h"

namespace toroid::codegen {
namespace {

class HalideIndex final : public PythonIndex {
 public:
  HalideIndex(const loop::ExprTable& exprs, const std::function<std::string(sym::Expr)>& name_of, bool is_wide)
      : exprs_(exprs), name_of_(name_of), is_wide_(is_wide) {}

 private:
  std::string number(int64_t value) const override {
    if (is_wide_) return fmt::format("hl.i64({})", value);
    if (value > std::numeric_limits<int32_t>::max() || value < std::numeric_limits<int32_t>::min())
      throw NotInHalide("an index of more than 32 bits");
    return PythonIndex::number(value);
  }
  std::string symbol(sym::Expr e) const override {
    if (exprs_.value_symbol(e) != nullptr) throw NotInHalide("an index that is read from a tensor");
    return is_wide_ ? fmt::format("hl.i64({})", name_of_(e)) : name_of_(e);
  }
  std::string quotient(sym::Expr a, sym::Expr b) const override { return divided(a, b, "//"); }
  std::string remainder(sym::Expr a, sym::Expr b) const override { return divided(a, b, "%"); }
  std::string truth(const std::string& comparison) const override {
    return fmt::format("hl.cast(hl.Int({}), {})", is_wide_ ? 64 : 32, comparison);
  }
  std::string_view minimum() const override { return "hl.min"; }
  std::string_view maximum() const override { return "hl.max"; }
  [[noreturn]] void refuse_reals() const override { throw NotInHalide("an index of real numbers"); }

  // Halide's division by a positive number rounds down.
  std::string divided(sym::Expr a, sym::Expr b, std::string_view sign) const {
    if (least(b) <= 0) throw NotInHalide("an index that is divided by what may be no positive number");
    return fmt::format("({} {} {})", print(a), sign, print(b));
  }

  const loop::ExprTable& exprs_;
  const std::function<std::string(sym::Expr)>& name_of_;
  const bool is_wide_;
};

bool is_axis(sym::Expr symbol) { return symbol.node()->symbol_kind == sym::SymbolKind::Axis; }

}  // namespace

std::string halide_index(const loop::ExprTable& exprs, sym::Expr expr, const std::function<std::string(sym::Expr)>& name_of, bool is_wide) {
  return HalideIndex(exprs, name_of, is_wide).print(expr);
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
