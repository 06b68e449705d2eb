// For tests: operators as rows of a table, checked against values known from PyTorch's documentation or by hand.
//
//   {"aten::sum.dim_IntList(x0, [1])", {"f32[2, 2] = [1, 2, 3, 4]"}, {"f32[2] = [3, 7]"}},
//
// The call and the arrays are in the text form of programs (graph/text.h). The operator is decomposed, evaluated and
// compared with the tolerances of `toroid conform`.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/decompose.h"
#include "support/error.h"

namespace toroid {

struct OperatorCase {
  std::string call;                 // its arguments are called x0, x1, …
  std::vector<std::string> inputs;  // "TYPE = ELEMENTS"
  std::vector<std::string> results;
};

inline void PrintTo(const OperatorCase& row, std::ostream* out) { *out << row.call; }

// Inputs and expected results are constants of one program, so that one parser reads them.
inline Program program_of(const OperatorCase& row) {
  std::string constants, body, results;
  size_t count = 0;
  auto add_constant = [&](const std::string& text) {
    constants += fmt::format("constant {0} \"c{0}\": {1}\n", count++, text);
  };
  auto type_of = [](const std::string& text) { return text.substr(0, text.find(" =")); };
  for (const std::string& input : row.inputs) {
    body += fmt::format("  x{0}: {1} = constant({0})\n", count, type_of(input));
    add_constant(input);
  }
  for (size_t i = 0; i < row.results.size(); ++i) {
    results += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
    body += fmt::format("{}y{}: {}", i == 0 ? "  " : ", ", i, type_of(row.results[i]));
    add_constant(row.results[i]);
  }
  return parse_text(
      fmt::format("program \"case\"\n{}graph() {{\n{} = {}\n  return {}\n}}\n", constants, body, row.call, results));
}

inline void check(const OperatorCase& row) {
  SCOPED_TRACE(row.call);
  try {
    Program program = program_of(row);
    std::vector<HostTensor> expected;
    for (size_t i = 0; i < row.results.size(); ++i)
      expected.push_back(constant_tensor(program.constants[row.inputs.size() + i]));
    decompose(program);
    verify(program, Level::Core);
    const std::vector<HostTensor> outputs = evaluate(program, {});
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(difference(outputs[i], expected[i], {}), std::nullopt) << "result " << i;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

}  // namespace toroid
