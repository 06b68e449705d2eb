#include "codegen/triton/triton_index.h"

#include <fmt/format.h>

#include "codegen/triton/triton_scalar.h"

namespace toroid::codegen {

std::string TritonIndex::truth(const std::string& comparison) const { return fmt::format("({}).to({})", comparison, type_); }

void TritonIndex::refuse_reals() const { throw NotInTriton("an index of real numbers"); }

std::string TritonIndex::divided(sym::Expr a, sym::Expr b, std::string_view sign, std::string_view function) const {
  const std::string first = print(a), second = print(b);
  return least(a) < 0 || least(b) <= 0 ? fmt::format("{}({}, {})", function, first, second)
                                       : fmt::format("({} {} {})", first, sign, second);
}

}  // namespace toroid::codegen
