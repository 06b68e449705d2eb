#include "passes/decompose/arguments/reduced_dims.h"

#include <algorithm>

namespace toroid {

bool has_parameter(const Args& a, std::string_view name) {
  const std::vector<Parameter>& parameters = a.schema().parameters;
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
}

OverDims over_dims(const Args& a, Tensor x) {
  const bool keepdim = has_parameter(a, "keepdim") && a.flag("keepdim");
  return over_dims(x, has_parameter(a, "dim") ? a.dims("dim") : Dims{}, keepdim);
}

}  // namespace toroid
