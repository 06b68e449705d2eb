// Operators of a user's own, each described by a text file (docs/custom-operators.md):
//
//   operator mylib::scaled_add(Tensor x, Tensor y, float alpha=1.0) -> Tensor
//   dtype T in f32, bf16
//   argument x: T[*n]
//   argument y: T[*n]
//   result: T[*n]
//   cpp {
//     tasks n
//     source """
//     template <class T>
//     void scaled_add(const T* x, const T* y, double alpha, T* out, int64_t n, int64_t begin, int64_t end) { … }
//     """
//   }
//
// The rules give sizes and dtypes names and say what the results are. The body is a formula in operators that toroid has (formula.h), or
// a kernel: C++ or CUDA source, or a function of a shared library. A file comes from anybody: reading it executes nothing, and each error
// names its line. The grammar, by example, is all of:
//
//   operator SCHEMA                   PyTorch's schema, to the end of the line
//   dtype T in f32, f64               a dtype that differs from use to use
//   argument x: T[b, *rest, 2*d]      b and d are sizes, *rest any number of dims, whose product it stands for elsewhere, _ a size without
//                                     a name; num_xs is the length of a list xs. `strided` behind the rule lets a kernel take the
//                                     tensor with any strides
//   result: T[b, d]                   once for each result that is not an argument, in order
//   require Mod(d, 8) == 0            a fact about sizes and integers that each call must satisfy
//   formula { … return y }
//   cpp { … }, cuda { … }, triton { … }, halide { … }, library "PATH" { … } with lines of
//     function NAME                   the operator's own name without it
//     tasks EXPRESSION                of C++ and libraries: the kernel is called for ranges of [0, tasks); 1 without it
//     work EXPRESSION                 … operations of one task, roughly, so that small calls stay on one thread
//     blocks EXPRESSION, threads N, shared EXPRESSION      of CUDA
//     grid EXPRESSION, EXPRESSION     of Triton: how many programs along up to three dims, in terms of a configuration's constants too
//     configuration BLOCK=1024, FAST=true, num_warps=4, num_stages=3     … a choice of constants and options; the first is the default
//     arguments x, n, out, BLOCK      … what the function takes, in its order; without it: arguments by the schema, results (out, or out0,
//                                     out1, …), workspace, sizes, constants
//     autoscheduler NAME              of Halide: of its autoschedulers, or none where the source schedules its functions itself
//     workspace EXPRESSION            bytes of scratch memory that the call has
//     source """ … """
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/schema.h"
#include "symbolic/expr.h"

namespace toroid {

// A text within the file of an operator.
struct PlacedText {
  std::string text;
  size_t place = 0;  // offset
};

struct TypeRule {
  struct Dim {
    enum class Kind : uint8_t { Size, Rest, Any } kind = Kind::Size;
    PlacedText text = {};  // of a Size its expression, of a Rest its name
  };
  std::string dtype;  // a name that `dtype` declares, or a dtype's own
  std::vector<Dim> dims;
  bool is_strided = false;
  size_t place = 0;
};

// Constants and options that a Triton kernel may be compiled with.
struct TritonConfiguration {
  std::vector<std::pair<std::string, std::string>> constants = {};  // by name an integer, a float, true or false, as JSON has them
  int warps = 4, stages = 3;
  size_t place = 0;
};

struct CustomKernel {
  enum class Kind : uint8_t { Cpp, Cuda, Triton, Halide, Library } kind = Kind::Cpp;
  std::string function = {};
  std::optional<PlacedText> tasks = {}, work = {}, workspace = {}, blocks = {}, threads = {}, shared = {};
  std::vector<PlacedText> grid = {};                     // of Triton, one to three
  std::vector<TritonConfiguration> configurations = {};  // … at least one
  std::vector<std::string> order = {};                   // … names of what it takes; empty: the default
  std::string autoscheduler = "Mullapudi2016";           // of Halide; empty: none
  std::string source = {};                               // of Cpp, Cuda, Triton and Halide
  size_t source_line = 0;                                // of the file, where it begins
  std::filesystem::path library = {};                    // of Library; as it was written, until it is opened
  std::string digest = {};                               // … SHA-256 of its bytes, from then on
  size_t place = 0;
};
std::string_view to_string(CustomKernel::Kind kind);  // "C++", "CUDA", "Triton", "Halide", "a library"

struct CustomOperator {
  std::string file;  // its name without folders
  std::string text;  // all of it
  Schema schema = {};
  std::vector<std::pair<std::string, std::vector<DType>>> dtypes = {};
  std::vector<std::pair<std::string, TypeRule>> arguments = {};  // by parameter, in the order of the file
  std::vector<TypeRule> results = {};
  std::vector<PlacedText> requirements = {};
  std::optional<size_t> formula = {};  // the place of its brace
  std::vector<CustomKernel> kernels = {};
  std::vector<std::string> size_names = {};  // in the order of their first use in the rules; what a kernel is given

  size_t line_of(size_t place) const;
  std::string where(size_t place) const;  // "mylib.scaled_add.op:7"
  // The integer that the text stands for. `number_called` knows sizes and integer arguments, and gives nothing for other names. Throws
  // Error{InvalidModel} with the place.
  sym::Expr parse(const PlacedText& text, sym::Context& context,
                  const std::function<std::optional<sym::Expr>(std::string_view name)>& number_called) const;
  const CustomKernel* kernel(CustomKernel::Kind kind) const;  // null: there is none
  bool holds_code() const { return !kernels.empty(); }
  // What an operator that a kernel computes is called at core level: Library{"custom.mylib::scaled_add"}, in Triton
  // Library{"custom.triton.mylib::scaled_add"}.
  std::string library_name(CustomKernel::Kind kind = CustomKernel::Kind::Cpp) const;
};
// What the length of a list among the arguments is called: num_xs.
std::string length_name(const Parameter& list);
inline constexpr std::string_view kCustomPrefix = "custom.", kTritonPrefix = "custom.triton.";
// The result's name in a Triton kernel's list of arguments: "out", or of several "out0", "out1", …
std::string result_name(size_t result, size_t num_results);

inline constexpr size_t kMaxOperatorFileBytes = size_t{1} << 20;

// Throws Error{InvalidModel} with line:column. `file` names it in errors.
CustomOperator read_custom_operator(std::string text, std::string file);

}  // namespace toroid
