// Where a node came from, out of the metadata that PyTorch keeps for each node:
//
//   stack_trace      File "/home/me/model.py", line 42, in forward\n    x = self.linear(x)     (innermost frame last)
//   nn_module_stack  L__self__,,model.Net;L__self___linear,linear,torch.nn.modules.linear.Linear
//   torch_fn         linear_1;builtin_function_or_method.linear
#pragma once

#include <string>
#include <string_view>

#include "frontend/json_reader.h"
#include "graph/graph.h"

namespace toroid::pt2 {

// "model.py:42, in forward: x = self.linear(x)" from the innermost frame of the user's own code: frames of PyTorch
// and of code it made ("<eval_with_key>.3") do not count. Empty when there is none.
std::string source_of(std::string_view stack_trace);
// "linear (Linear)", or "Net" for the outermost module.
std::string module_of(std::string_view nn_module_stack);

// `metadata` is a node's object of strings; null gives only the names.
Provenance read_provenance(std::string op, std::string_view node_name, const JsonValue* metadata);

}  // namespace toroid::pt2
