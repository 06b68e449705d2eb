#include "symbolic/parse/functions.h"

#include <algorithm>
#include <iterator>

namespace toroid::sym {
namespace {

constexpr size_t kAny = 4096;

// PyTorch's own functions (torch.utils._sympy.functions), SymPy's (also by class name, as srepr writes them), Python's.
constexpr FunctionName kFunctions[] = {
    {"Add", Function::Add, 1, kAny},
    {"sym_sum", Function::Add, 1, kAny},
    {"Mul", Function::Mul, 1, kAny},
    {"Pow", Function::Pow, 2, 2},
    {"PowByNatural", Function::Pow, 2, 2},
    {"pow", Function::Pow, 2, 2},
    {"Integer", Function::Integer, 1, 1},
    {"Float", Function::Float, 1, 1},
    {"Rational", Function::Rational, 2, 2},
    {"Symbol", Function::Symbol, 1, 1},
    {"Mod", Function::Mod, 2, 2},
    {"PythonMod", Function::Mod, 2, 2},
    {"FloorDiv", Function::FloorDiv, 2, 2},
    {"CleanDiv", Function::FloorDiv, 2, 2},
    {"IntTrueDiv", Function::TrueDiv, 2, 2},
    {"FloatTrueDiv", Function::TrueDiv, 2, 2},
    {"CeilDiv", Function::CeilDiv, 2, 2},
    {"ModularIndexing", Function::ModularIndexing, 3, 3},
    {"floor", Function::Floor, 1, 1},
    {"FloorToInt", Function::Floor, 1, 1},
    {"ceiling", Function::Ceiling, 1, 1},
    {"ceil", Function::Ceiling, 1, 1},
    {"CeilToInt", Function::Ceiling, 1, 1},
    {"TruncToInt", Function::Truncate, 1, 1},
    {"trunc", Function::Truncate, 1, 1},
    {"TruncToFloat", Function::TruncateToFloat, 1, 1},
    {"RoundToInt", Function::Round, 1, 1},
    {"round", Function::Round, 1, 1},
    {"RoundDecimal", Function::RoundDecimal, 2, 2},
    {"Real", Function::Real, 2, 4},
    {"FloatPow", Function::Pow, 2, 2},
    {"Scaled", Function::Scaled, 2, 2},
    {"int", Function::Truncate, 1, 1},
    {"sym_int", Function::Truncate, 1, 1},
    {"Identity", Function::Identity, 1, 1},
    {"ToFloat", Function::Identity, 1, 1},
    {"sym_float", Function::Identity, 1, 1},
    {"Min", Function::Min, 1, kAny},
    {"sym_min", Function::Min, 1, kAny},
    {"min", Function::Min, 1, kAny},
    {"Max", Function::Max, 1, kAny},
    {"sym_max", Function::Max, 1, kAny},
    {"max", Function::Max, 1, kAny},
    {"Abs", Function::Abs, 1, 1},
    {"abs", Function::Abs, 1, 1},
    {"Where", Function::Where, 3, 3},
    {"sym_ite", Function::Where, 3, 3},
    {"Eq", Function::Eq, 2, 2},
    {"Equality", Function::Eq, 2, 2},
    {"Ne", Function::Ne, 2, 2},
    {"Unequality", Function::Ne, 2, 2},
    {"Lt", Function::Lt, 2, 2},
    {"StrictLessThan", Function::Lt, 2, 2},
    {"Le", Function::Le, 2, 2},
    {"LessThan", Function::Le, 2, 2},
    {"Gt", Function::Gt, 2, 2},
    {"StrictGreaterThan", Function::Gt, 2, 2},
    {"Ge", Function::Ge, 2, 2},
    {"GreaterThan", Function::Ge, 2, 2},
    {"And", Function::And, 1, kAny},
    {"Or", Function::Or, 1, kAny},
    {"Not", Function::Not, 1, 1},
    {"sym_not", Function::Not, 1, 1},
};

}  // namespace

const FunctionName* find_function(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const FunctionName& row) { return row.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace toroid::sym
