// A custom operator (graph/custom/custom_operator.h) as core operations: its formula, or one node that its kernel computes.
//
//   Library{"custom.mylib::op", numbers}(tensors…) -> results…, new values of arguments that are written to…, scratch memory
//
// The numbers are what the kernel takes besides tensors, in this order (CustomCall reads them again, in codegen/custom):
//   of each argument by the schema, of a number its value; of one that may be absent 1 or 0 before it, and 0 for the value that is not there;
//   of a list of numbers their count, then each; of a tensor that may be absent 1 or 0; of a list of tensors its length;
//   the value of each of size_names; tasks and work of a task, or blocks, threads and bytes of shared memory; or, of a kernel in Triton, of
//   each configuration three numbers of programs, then how many configurations there are.
#pragma once

#include <vector>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

struct CustomOperator;
struct CustomKernel;

// As a decomposition returns them. Throws Error{InvalidModel} where the arguments do not fit the operator's rules, or the results are not
// what the model records; it names the file's line.
std::vector<Tensor> apply_custom(Decomposer& d, const CustomOperator& op, const Args& a);

// Of such a node's inputs those that its kernel takes with any strides; none of one in CUDA or Triton.
std::vector<bool> strided_inputs(const CustomOperator& op, const CustomKernel& kernel, const Library& node);

}  // namespace toroid
