// A kernel in Triton as a program for GPUs has it: one instance of a function of some source, for certain types, constants and options. It
// becomes a binary by a Python that has Triton (toolchain/triton/triton.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "symbolic/expr.h"
#include "tensor/dtype.h"

namespace toroid::codegen {

struct TritonKernel {
  struct Argument {
    std::string name = {};      // for messages
    std::string type = {};      // as Triton spells it: "*fp32", "i64"; empty: a constant
    std::string constant = {};  // … in JSON: 1024, true, 0.5
    int multiple = 1;           // its value, or address, is known to be a multiple of
  };
  std::string entry;     // what the kernel is called in the binary
  std::string function;  // … and in the source
  std::string source;
  std::string file = {};  // that the source is from, and its first line there; for messages
  size_t line = 1;
  std::vector<Argument> arguments = {};  // those of the function, in order
  int warps = 4, stages = 3;
  bool fuses_products = true;      // a product may be added to something without being rounded
  bool flushes_subnormals = true;  // in libdevice's functions, as Triton has it by default
};

// The kernel as JSON, in the form that toolchain/triton/compile_triton.py takes; a part of keys.
std::string to_text(const TritonKernel& kernel);

// "*fp32", "*bf16", "*i1". None for dtypes that Triton has not.
std::optional<std::string> triton_pointer(DType dtype);
// What Triton specialises kernels by: addresses and integers that are multiples of 16.
inline constexpr int kTritonMultiple = 16;
// An integer argument as Triton's own launches have it: the constant 1 is one, others are as wide as they must be.
TritonKernel::Argument triton_integer(std::string name, sym::Expr value);

}  // namespace toroid::codegen
