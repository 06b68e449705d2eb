// The body of a custom operator as a formula: nodes of the text form (graph/text/text.h) over the operator's arguments.
//
//   formula {
//     scaled = aten::mul.Scalar(gate, alpha)      PyTorch's operators, whose results need no type
//     s: T[n] = sigmoid(scaled)                   core operations; T and n are named by the rules
//     y = aten::mul.Tensor(x, s)
//     return y
//   }
//
// An argument's name stands for what the operator was called with: a tensor, a list of tensors, a number, none. What is returned are the
// results in order, then the new values of mutated arguments that are no result. A formula is read once to check it, and again at each use.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/custom/custom_operator.h"
#include "graph/graph.h"

namespace toroid {

// What the names in a formula stand for.
struct FormulaNames {
  std::map<std::string, ValueId> tensors;
  std::map<std::string, std::vector<ValueId>> lists;
  std::map<std::string, Argument, std::less<>> arguments;  // numbers, sizes, dtypes, None
};
struct FormulaNode {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<TensorType> declared;  // types of its results, or none
  size_t num_results;
};
// Computes a node: one value for each of its results.
using EmitNode = std::function<std::vector<ValueId>(const FormulaNode& node)>;

// The values that the formula returns. Throws Error{InvalidModel} with line:column, also of what `emit` throws.
std::vector<ValueId> read_formula(const CustomOperator& op, sym::Context& context, FormulaNames names, const EmitNode& emit);

}  // namespace toroid
