// For tests: compiles programs in text form and compares what they compute with the evaluator.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "base/file/file.h"
#include "driver/compile.h"
#include "graph/text/text.h"
#include "interp/compare.h"
#include "interp/evaluate.h"

namespace toroid {

// One session, and with it one probe of the compiler, for all tests of the binary; its cache lives as long as the process.
class TestSession {
 public:
  static CompileSession& get() {
    static TestSession instance;
    return *instance.session_;
  }

 private:
  TestSession() {
    const ScopedVariable here("TOROID_CACHE_DIR", folder_.path().string());
    session_.emplace();
  }
  TempFolder folder_;
  std::optional<CompileSession> session_;
};

using SymbolSizes = std::vector<std::pair<std::string, int64_t>>;

// A program and the sizes of its calls: a row of a table of tests.
struct ProgramCase {
  std::string name, text;
  std::vector<SymbolSizes> calls = {{}};
};

inline std::vector<int64_t> sizes_of(const Program& program, const TensorType& type, const SymbolSizes& symbols) {
  std::vector<int64_t> sizes;
  for (sym::Expr size : type.sizes) {
    sizes.push_back(size.is_const() ? size.value() : sym::evaluate(size, [&](sym::Expr symbol) -> std::optional<int64_t> {
      for (const auto& [name, value] : symbols) {
        if (program.symbols->find_symbol(name) == symbol) return value;
      }
      return std::nullopt;
    }));
  }
  return sizes;
}

// Elements that look random but never change. What they may be is told by the first letter of the input's name:
//   i  indices: 0, 1, 2      d  divisors: not 0      p  positive and small      else  ends, specials and small numbers
inline HostTensor example_input(std::string_view name, DType dtype, std::vector<int64_t> sizes) {
  uint64_t state = 12345;
  for (char c : name) state = state * 31 + static_cast<unsigned char>(c);
  auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state >> 33);
  };
  const auto count = static_cast<size_t>(numel(sizes));
  if (is_floating(dtype)) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const std::vector<double> edges = {0.0, -0.0, 1, -1, 0.5, -2.5, 3.5, kInf, -kInf, std::nan(""), 100, -100};
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i) {
      double value = static_cast<double>(next() % 4096) / 512 - 4;
      if (name[0] == 'p')
        value = std::fabs(value);
      else if (name[0] == 'd')
        value = value == 0 ? 1 : value;
      else if (name[0] == 'x' && i < edges.size())
        value = edges[i];
      values.push_back(value);
    }
    return HostTensor::from_doubles(dtype, std::move(sizes), values);
  }
  const int64_t bits = size_bytes(dtype) * 8 - 1;
  const int64_t least = dtype == DType::U8 || dtype == DType::Bool ? 0 : bits == 63 ? INT64_MIN : -(int64_t{1} << bits);
  const int64_t most = dtype == DType::Bool ? 1 : dtype == DType::U8 ? 255 : bits == 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  const std::vector<int64_t> edges = {0, 1, least, most, most - 1};
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) {
    int64_t value = next() % 20 - (least < 0 ? 10 : 0);
    if (dtype == DType::Bool)
      value = next() % 2;
    else if (name[0] == 'i')
      value = next() % 3;
    else if (name[0] == 'p')
      value = next() % 6 + 1;
    else if (name[0] == 'd')
      value = value == 0 ? 3 : value;
    else if (name[0] == 'x' && i < edges.size())
      value = edges[i];
    values.push_back(value);
  }
  return HostTensor::from_ints(dtype, std::move(sizes), values);
}

inline std::vector<HostTensor> example_inputs(const Program& program, const SymbolSizes& symbols = {}) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const Value& value = program.graph.value(program.graph.inputs[i]);
    inputs.push_back(example_input(value.name, value.type.dtype, sizes_of(program, value.type, symbols)));
  }
  return inputs;
}

// With less optimisation than users have, which takes 0.6 of the time: what is compared are results. Recorded programs (toroid conform)
// are compiled as users' are, and so is what tests compile otherwise; ./run conform asks for -O3.
inline int test_optimisation() {
  const char* const asked = std::getenv("TOROID_TEST_OPTIMISATION");
  return asked == nullptr ? 1 : std::atoi(asked);
}

inline CompiledModel compiled(std::string_view text, codegen::Target target = codegen::Target::Cpu, int optimization = test_optimisation(),
                              std::vector<std::string> architectures = {}) {
  return TestSession::get().compile(
      parse_text(text), {.target = target, .architectures = std::move(architectures), .optimization = optimization, .keep_program = true});
}

// Compiles the program and calls it with each choice of sizes, in order.
inline void expect_as_evaluated(std::string_view text, const std::vector<SymbolSizes>& calls = {{}}, int threads = 2,
                                codegen::Target target = codegen::Target::Cpu, std::vector<std::string> architectures = {}) {
  try {
    const CompiledModel model = compiled(text, target, test_optimisation(), std::move(architectures));
    Executable executable = model.load(threads);
    const std::vector<bool> sums = made_of_sums_or_products(model.program->graph);
    EvaluateOptions evaluation;
    for (const SymbolSizes& call : calls) {
      const std::vector<HostTensor> inputs = example_inputs(*model.program, call);
      const std::vector<HostTensor> expected = evaluate(*model.program, inputs, evaluation);
      ++evaluation.random.call;
      const std::vector<HostTensor> outputs = executable.run(inputs);
      ASSERT_EQ(outputs.size(), expected.size());
      std::string where;
      for (const auto& [name, value] : call) where += fmt::format(" {} = {}", name, value);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto found = difference(outputs[i], expected[i], {.sums_or_products = sums[i]});
        EXPECT_EQ(found, std::nullopt) << model.program->graph.value(model.program->graph.outputs[i]).name << where;
      }
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

}  // namespace toroid
