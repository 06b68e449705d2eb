#include "passes/decompose/arguments/same_as.h"

namespace toroid {

std::vector<Decomposer::Value> values_of(const Args& a) {
  std::vector<Decomposer::Value> values;
  for (const Parameter& parameter : a.schema().parameters) {
    if (parameter.mutated && parameter.keyword_only) continue;  // `out`: the caller's to write
    if (parameter.type == ArgType::Tensor && parameter.is_list) {
      values.emplace_back(a.optional_tensors(parameter.name));
    } else if (parameter.type == ArgType::Tensor) {
      values.emplace_back(a.optional_tensor(parameter.name));
    } else {
      values.emplace_back(a.raw(parameter.name));
    }
  }
  return values;
}

}  // namespace toroid
