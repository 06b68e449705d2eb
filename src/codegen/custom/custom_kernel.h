// Kernels of a user's own (graph/custom/custom_operator.h) as code: the file's source, and a function for each use that calls it.
//
//   // Kernel of mylib::scaled_add, from mylib.scaled_add.op.
//   namespace { namespace custom {
//   #line 8 "mylib.scaled_add.op"
//   template <class T> void scaled_add(const T* x, …) { … }
//   }}
//   extern "C" void toroid_custom_8c1f…(const ToroidOperand* in, const ToroidOperand* out, const int64_t* integers, const double* numbers,
//                                       int64_t begin, int64_t end) {
//     custom::scaled_add((const float*)in[0].data, …, begin, end);
//   }
//
// The source is a file of its own, so that it may include what it likes and names nothing of the program's. What calls it passes the operands as
// the wrapper has them; dtypes, lengths of lists and absent arguments are written into the function.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/custom/custom_operator.h"
#include "program/module.h"

namespace toroid::codegen {

// One of CUDA takes the same as its arguments, and has no range.
struct CustomArgument {
  std::string type, value;               // "const float*", "in[0].data", which is to be cast
  std::string name = {};                 // as a kernel in Triton calls it
  std::optional<DType> dtype = {};       // of what it points to
  std::optional<sym::Expr> number = {};  // that it is
  std::optional<size_t> input = {};      // whose address it is, or
  std::optional<size_t> output = {};
};

// What a use passes to the user's function, in order, but for the range.
struct CustomCall {
  std::vector<std::string> statements;  // that make lists, before the call
  std::vector<CustomArgument> arguments;
  std::vector<std::pair<size_t, size_t>> copies;  // from the input at this position to the output at that one, before the call
  sym::Expr first = 1, second = 1, third = 0;     // tasks and work; or blocks, threads and bytes of shared memory
  std::vector<std::array<sym::Expr, 3>> grids;    // of a kernel in Triton, of each configuration
};
// `input_dtypes` and `output_dtypes`: of the call's operands. `types` of 16-bit floats are custom::bf16 and custom::f16.
CustomCall custom_call(const CustomOperator& op, const CustomKernel& kernel, const program::LibraryCall& call,
                       const std::vector<DType>& input_dtypes, const std::vector<DType>& output_dtypes);

// The function that makes the call on a processor: its name, which equal functions share, and its text.
struct CustomEntry {
  std::string name, text;
};
CustomEntry custom_entry(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& call);

// The uses of each operator: by entry's name its text.
using CustomEntries = std::map<std::string, std::map<std::string, std::string>>;
// A C++ file for each operator.
std::vector<std::string> custom_units(const Program& program, const CustomEntries& entries);

// What stands before a CUDA kernel of this operator, in a namespace of this name.
std::string custom_cuda_source(const CustomOperator& op, const CustomKernel& kernel, const std::string& space, int64_t threads);

}  // namespace toroid::codegen
