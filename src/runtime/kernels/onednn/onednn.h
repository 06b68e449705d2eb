// Matrix products and convolutions by oneDNN, where it is installed: one more implementation beside toroid's own.
//
// As distributions package it, oneDNN runs on OpenMP, whose threads would fight the pool's for the cores: on two cores a product that
// takes 1 ms took 8. So it never sees more than one thread. The pool's threads each ask it for a part of the product: some rows, or some
// columns where there are few rows; of a convolution, rows of an image. An epilogue takes each part from a buffer.
// Constant weights are copied once into the layout that it prefers and kept.
#pragma once

#include <optional>
#include <string>

#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/problem.h"

namespace toroid {

// "built without oneDNN", "libdnnl.so.2: not found", …; nullopt when it is there. Opens it when asked for the first time.
std::optional<std::string> onednn_absence();
// Why it should not compute a well-formed problem; nullopt when it may try. What it has no kernel for shows only when it runs.
std::optional<std::string> onednn_refuses_matmul(const Problem& problem);
std::optional<std::string> onednn_refuses_convolution(const Problem& problem);

// Throw Error{Unsupported} for what oneDNN has no kernel for, and Error{Environment} where it is absent. F32 or BF16, both operands alike.
std::unique_ptr<const KernelPlan> plan_matmul_onednn(const KernelCall& call);
// F32, not transposed, the channels of images next to each other.
std::unique_ptr<const KernelPlan> plan_convolution_onednn(const KernelCall& call);

}  // namespace toroid
