// A program of one operator, decomposed: how the reference computes and how the generator learns types.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuzz/program_text.h"
#include "graph/graph.h"
#include "passes/decompose/decompose.h"

namespace toroid::fuzz {

using Operands = std::vector<std::pair<std::string, std::string>>;  // names and types: "v0", "f32[3]"

struct OneOperator {
  toroid::Program program;  // at core level; its inputs are the operands in order
  const Schema* schema = nullptr;
  std::vector<TensorType> types;  // of its results
  bool has_guards = false;
};
struct OperatorContext {
  std::vector<Symbol> symbols = {};
  std::vector<std::string> declared = {};  // types of results whose sizes depend on data, as the program records them
  RandomStreams* streams = nullptr;        // null: nothing may be drawn
};

// Throws Error when the operator does not exist or its arguments do not fit.
OneOperator one_operator(const OperatorContext& context, const Operands& operands, const std::string& call,
                         size_t results);

// The types of an operator's results, symbolic sizes and all: "f32[s0, 3]". Empty when it needs a guard on the sizes.
std::vector<std::string> result_types(const OperatorContext& context, const Operands& operands, const std::string& call);

}  // namespace toroid::fuzz
