// For tests: operators as rows of a table, checked against values known from PyTorch's documentation or by hand.
//
//   {"aten::sum.dim_IntList(x0, [1])", {"f32[2, 2] = [1, 2, 3, 4]"}, {"f32[2] = [3, 7]"}},
//
// The call and the arrays are in the text form of programs (graph/text/text.h). The operator is decomposed, evaluated and
// compared with the tolerances of `toroid conform`.
#pragma once

#include <initializer_list>
#include <ostream>

#include <gtest/gtest.h>

namespace toroid {

// Literals only, so that a table is data and needs no code that builds it: strings of the library took most of these files' compile time.
struct OperatorCase {
  const char* call;                           // its arguments are called x0, x1, …
  std::initializer_list<const char*> inputs;  // "TYPE = ELEMENTS"
  std::initializer_list<const char*> results;
};

inline void PrintTo(const OperatorCase& row, std::ostream* out) { *out << row.call; }

void check(const OperatorCase& row);  // operator_cases_test.cpp

}  // namespace toroid
