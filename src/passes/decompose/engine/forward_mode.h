// Forward-mode derivatives, as torch.func.jvp and torch.autograd.forward_ad ask for them: a dual tensor is a value with a tangent, and what
// is computed from it has the tangent that the chain rule gives (Griewank and Walther, "Evaluating Derivatives", 2008). Rules are of core
// operations, which are few:
//
//   d = dual(x, t);  y = exp(d) * 2        =>        tangent_of(y) = (exp(d) * t) * 2
//
// Levels keep derivatives within each other apart. While an operator after the other is decomposed, a dual tensor is a node of its own;
// remove_duals() ends that.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// `primal` with a tangent of its shape and dtype.
Tensor make_dual(Tensor primal, Tensor tangent, int64_t level);

// The tangent of x, of its shape and dtype: 0 where no dual tensor of the level has a part in x. Throws Error{Unsupported} for an operation
// without a rule.
Tensor tangent_of(Tensor x, int64_t level);

// The same number without a tangent of this level, or of any.
inline constexpr int64_t kAllLevels = -1;
Tensor without_tangent(Tensor x, int64_t level);

// Puts what they hold in the place of dual tensors. Their nodes are dead then.
void remove_duals(Graph& graph);

// The tangent of op(x…) = y, from those of the operands; an undefined one is 0, one at least is defined. All have one shape, and the dtype
// of a float. Undefined where y moves in steps. Throws Error{Unsupported} for a function whose derivative is not known.
Tensor scalar_tangent(ScalarOp op, const std::vector<Tensor>& x, Tensor y, const std::vector<Tensor>& tangents);

Tensor sum_of(Tensor a, Tensor b);  // of tangents, of which each may be undefined
[[noreturn]] void refuse_derivative(std::string_view operation);

}  // namespace toroid
