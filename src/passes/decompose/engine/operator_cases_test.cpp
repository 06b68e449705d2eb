#include "passes/decompose/engine/operator_cases.h"

#include <gtest/gtest-spi.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Inputs and expected results are constants of one program, so that one parser reads them.
Program program_of(const OperatorCase& row) {
  std::string constants, body, results;
  size_t count = 0;
  auto add_constant = [&](const char* text) { constants += fmt::format("constant {0} \"c{0}\": {1}\n", count++, text); };
  auto type_of = [](std::string_view text) { return text.substr(0, text.find(" =")); };
  for (const char* input : row.inputs) {
    body += fmt::format("  x{0}: {1} = constant({0})\n", count, type_of(input));
    add_constant(input);
  }
  size_t i = 0;
  for (const char* result : row.results) {
    results += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
    body += fmt::format("{}y{}: {}", i == 0 ? "  " : ", ", i, type_of(result));
    add_constant(result);
    ++i;
  }
  return parse_text(fmt::format("program \"case\"\n{}graph() {{\n{} = {}\n  return {}\n}}\n", constants, body, row.call, results));
}

}  // namespace

void check(const OperatorCase& row) {
  SCOPED_TRACE(row.call);
  try {
    Program program = program_of(row);
    std::vector<HostTensor> expected;
    for (size_t i = row.inputs.size(); i < program.constants.size(); ++i) {
      expected.push_back(constant_tensor(program.constants[i]));
    }
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

namespace {

// A table that is not compared with anything would pass too.
TEST(OperatorCases, FailWhereAResultIsAnother) {
  EXPECT_NONFATAL_FAILURE(check({"aten::neg(x0)", {"f32[1] = [1]"}, {"f32[1] = [1]"}}), "result 0");
  EXPECT_NONFATAL_FAILURE(check({"aten::neg(x0)", {"f32[1] = [1]"}, {"f32[2] = [-1, -1]"}}), "");
}

}  // namespace
}  // namespace toroid
