// The functions that size expressions call, by the names that PyTorch and SymPy print.
#pragma once

#include <cstddef>
#include <string_view>

namespace toroid::sym {

enum class Function {
  Add,
  Mul,
  Pow,
  Integer,
  Float,
  Rational,
  Symbol,
  Mod,
  FloorDiv,
  TrueDiv,
  CeilDiv,
  ModularIndexing,
  Floor,
  Ceiling,
  Truncate,
  TruncateToFloat,
  Round,
  RoundDecimal,
  Real,
  Scaled,
  Identity,
  Min,
  Max,
  Abs,
  Where,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  And,
  Or,
  Not,
};

// A name and how many arguments it takes.
struct FunctionName {
  std::string_view name;
  Function function;
  size_t min_arguments;
  size_t max_arguments;
};

// The row of a name; null for one that is not known.
const FunctionName* find_function(std::string_view name);

}  // namespace toroid::sym
