// A program of one operator, decomposed: how the reference computes and how the generator learns types.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/program_text.h"
#include "graph/graph.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid::fuzz {

using Operands = std::vector<std::pair<std::string, std::string>>;  // names and types: "v0", "f32[3]"

struct OneOperator {
  toroid::Program program;  // at core level; its inputs are the operands in order
  const Schema* schema = nullptr;
  std::vector<TensorType> types;  // of its results; a complex one is computed as pairs of numbers in a last dim
  bool has_guards = false;
};
struct OperatorContext {
  std::vector<Symbol> symbols = {};
  std::vector<std::string> declared = {};  // types as the program records them, where a size depends on data or a result is complex
  RandomStreams* streams = nullptr;        // null: nothing may be drawn
};

// An operator like aten::_foreach_add_, which has no results: what it computes is what the tensors of its first list hold
// next.
bool writes_to_list(std::string_view call);

// `results` 0: for those, all that the operator computes. Throws Error when the operator does not exist or its arguments do
// not fit.
OneOperator one_operator(const OperatorContext& context, const Operands& operands, const std::string& call, size_t results);

// Operators that were made before, so that the runs of a program that differ by noise share them. Not those that draw random
// numbers: no two draw the same.
class OperatorCache {
 public:
  // As one_operator.
  std::shared_ptr<const OneOperator> get(const OperatorContext& context, const Operands& operands, const std::string& call, size_t results);

 private:
  std::map<std::string, std::shared_ptr<const OneOperator>> known_;
};

// The types of an operator's results (or of what it writes to a list), symbolic sizes and all: "f32[s0, 3]". Empty when it
// needs a guard on the sizes.
std::vector<std::string> result_types(const OperatorContext& context, const Operands& operands, const std::string& call);

}  // namespace toroid::fuzz
