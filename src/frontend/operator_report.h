// The operators of a model, counted, and the one error that names every one that toroid cannot compile.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace toroid {

// An operator of a model and where the model uses it.
struct OperatorUse {
  std::string op;  // "aten::linear", "mylib::fast_norm", "higher_order::cond"
  size_t uses = 0;
  bool is_known = true;  // PyTorch's own operator, so that its schema is known
  Provenance first;
  std::vector<Provenance> others = {};  // the first use from each further line of the model's source
};

// Counts operators in the order of their first use.
class OperatorCounter {
 public:
  void add(const Provenance& place, bool is_known);
  const std::vector<OperatorUse>& uses() const { return uses_; }

 private:
  std::vector<OperatorUse> uses_;
  std::unordered_map<std::string, size_t> by_name_;
};

// error: 2 operators are not supported
//   at aten::foo (3 uses), first at node 'foo_1' in encoder.layer.0 (Layer), model.py:42, in forward: x = torch.foo(x)
//   at mylib::norm (1 use), …
Error unsupported_operators(std::span<const OperatorUse> operators, std::string_view model_file);

}  // namespace toroid
