// A library call without its data: what decides which implementation is quickest.
//
//   matmul.f32(f32[1, 2048], f32[2048, 1000]/[1, 2048]) -> f32[1, 1000]
//   convolution.f32(f32[1, 64, 56, 56], f32[64, 64, 3, 3]) -> f32[1, 64, 56, 56]; integers 0 1 1 1 1 1 1 1 0 0
//   matmul.f32(f32[128, 768], constant f32[768, 768]) -> f32[128, 768]
//   matmul.f32(f32[128, 768], constant f32[768, 3072]) -> f32[128, 3072]; epilogue
//   attention.f32(f32[1, 8, 1, 64]@16, …) -> f32[1, 8, 1, 64]; integers 1; numbers 0.125
//   chain.f32{convolution.f32(f32[…], constant f32[…]) -> f32[…]; integers …; epilogue | convolution.f32(…) -> f32[…]; integers …}
//
// The text names cached results of tuning, locks and requests to tuning workers, so it says everything: sizes in brackets,
// strides in elements after a '/' unless the operand is contiguous, after '@' the alignment of the first element in bytes unless
// it is kAlignment. Of a constant kernels may keep other forms (prepared_constants.h), so it is another problem. Several calls that are one
// step stand in braces, each as it would be by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/span.h"
#include "runtime/kernels/registry/library.h"
#include "tensor/dtype.h"

namespace toroid {

struct OperandMeta {
  static constexpr int64_t kAlignment = 64;  // of temporaries, weights and outputs; more is not told apart

  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;          // in elements, as many as sizes, never negative
  int64_t alignment_bytes = kAlignment;  // of the first element: a power of two up to kAlignment
  bool is_constant = false;              // as ToroidOperand::is_constant

  TOROID_COMPARED_FIELDS(OperandMeta, dtype, sizes, strides, alignment_bytes, is_constant)
  int64_t elements() const;
  bool is_contiguous() const;
  // The same, whatever the strides of dims of one element.
  bool is_row_major() const;
  // No gaps and no element twice: contiguous but for the order of dims.
  bool is_dense() const;
  // From the first element to the end of the last in memory; 0 when there are none.
  int64_t extent_bytes() const;
  // Of the dim-th from the end: size(-1) is that of the last. 1 beyond the first.
  int64_t size(int dim) const;
  int64_t stride(int dim) const;
};
OperandMeta contiguous_operand(DType dtype, std::vector<int64_t> sizes);

struct Problem {
  std::string family;  // the kernel and its dtype: "matmul.f32"
  std::vector<OperandMeta> inputs;
  std::vector<OperandMeta> outputs;  // dense, in any order of dims
  std::vector<int64_t> integers;     // as in KernelCall
  std::vector<double> numbers;
  bool has_epilogue = false;  // KernelCall::epilogue takes the result
  // Of a chain, which has nothing else: its calls. The first input of each but the first is what the one before makes.
  std::vector<Problem> stages = {};

  TOROID_COMPARED_FIELDS(Problem, family, inputs, outputs, integers, numbers, has_epilogue, stages)
};

// The family of a call: its kernel and the result's dtype, or, of products with a right side of int8 or int4 beside floats, that.
std::string family_of(std::string_view kernel, Span<const DType> inputs, DType output);
Problem problem_of(std::string family, const KernelCall& call);

std::string to_string(const OperandMeta& operand);
std::string to_string(const Problem& problem);
// The inverse of to_string. Throws Error{InvalidModel} that names the column: "1:14: expected ']'".
Problem parse_problem(std::string_view text);

}  // namespace toroid
