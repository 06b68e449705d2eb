// The operator that a Builder computes at the moment, and its arguments: what errors name, and what the work is counted for.
//
// A model's arguments are foreign: any may have a rank, dtype or size that PyTorch refuses. Checks lie where decompositions pass by (List,
// Tensor, Builder) and know neither operator nor argument; the scope does.
//
//   error: argument 'self' (f32[]) has no dim 0
//     while computing aten::slice.Tensor(self: f32[], dim: 0, start: 0, end: 1, step: 1)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"

namespace toroid {

class OperatorScope {
 public:
  // Refers to all of its arguments. Scopes nest: an operator that is computed by another one counts for that.
  OperatorScope(Builder& builder, const Schema& schema, const std::vector<Argument>& arguments, std::span<const Tensor> inputs);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

  const Schema& schema() const { return schema_; }
  // The name of the parameter that `x` was passed for, here or in the operators around; empty: none.
  std::string parameter_of(Tensor x) const;

 private:
  std::string text() const;

  Builder& builder_;
  const Schema& schema_;
  const std::vector<Argument>& arguments_;
  std::span<const Tensor> inputs_;
  const OperatorScope* outer_;
  LazyErrorContext context_;
};

}  // namespace toroid
