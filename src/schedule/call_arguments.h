// What a library kernel is called with besides its operands (runtime/kernels/registry/library.h says what each number means).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "loop/loop.h"

namespace toroid::schedule {

struct CallArguments {
  std::string name;  // "matmul", "library.qr"
  std::vector<sym::Expr> integers;
  std::vector<std::variant<double, sym::Expr>> numbers;
};
// Not of control flow.
CallArguments call_arguments(const loop::Call& call);

}  // namespace toroid::schedule
