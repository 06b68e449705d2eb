#include "schedule/call_arguments.h"

#include "base/error.h"
#include "support/match.h"

namespace toroid::schedule {

CallArguments call_arguments(const loop::Call& call) {
  if (std::holds_alternative<Matmul>(call.op)) return {"matmul", {}, {}};
  if (const auto* convolution = std::get_if<Convolution>(&call.op)) {
    CallArguments result = {"convolution", {convolution->transposed ? 1 : 0, convolution->groups}, {}};
    for (const auto* list : {&convolution->stride, &convolution->padding, &convolution->dilation, &convolution->output_padding}) {
      result.integers.insert(result.integers.end(), list->begin(), list->end());
    }
    return result;
  }
  if (const auto* attention = std::get_if<Attention>(&call.op)) return {"attention", {attention->causal ? 1 : 0}, {attention->scale}};
  if (const auto* sort = std::get_if<Sort>(&call.op)) return {"sort", {sort->dim, sort->descending ? 1 : 0, sort->stable ? 1 : 0}, {}};
  const auto* library = std::get_if<Library>(&call.op);
  TOROID_CHECK(library != nullptr, "control flow is no library call");
  CallArguments result = {"library." + library->name, {}, {}};
  // Every attribute in both forms: the kernel knows which it is.
  for (const Scalar& attribute : library->attributes) {
    match(
        attribute,
        [&](bool v) {
          result.integers.push_back(v ? 1 : 0);
          result.numbers.push_back(v ? 1.0 : 0.0);
        },
        [&](const sym::Expr& e) {
          result.integers.push_back(e);
          result.numbers.push_back(e);
        },
        [&](double v) {
          result.integers.push_back(0);
          result.numbers.push_back(v);
        });
  }
  return result;
}

}  // namespace toroid::schedule
