#include "conform_case.h"

#include <fnmatch.h>

#include <algorithm>

#include <fmt/format.h>

#include "arrays.h"
#include "base/clock.h"
#include "base/error.h"
#include "driver/gpu_binaries.h"
#include "driver/pipeline/generate.h"
#include "interp/compare.h"
#include "interp/ties.h"

namespace toroid::cli {
namespace {

std::filesystem::path beside(const ConformCase& test, std::string_view kind, std::string_view call) {
  return test.model.parent_path() / fmt::format("{}.{}{}.safetensors", test.name, kind, call);
}

// The calls of a case: "" and every number N for which NAME.inN.safetensors exists.
std::vector<std::string> find_calls(const ConformCase& test) {
  std::vector<std::string> calls;
  if (std::filesystem::exists(beside(test, "in", ""))) calls.push_back("");
  for (int n = 0; n < 100; ++n) {
    if (std::filesystem::exists(beside(test, "in", std::to_string(n)))) calls.push_back(std::to_string(n));
  }
  return calls;
}

CaseResult failure(std::string reason, std::string cause) { return {false, std::move(reason), std::move(cause)}; }

// What a compiler complains about first, in place of all its output.
std::string first_complaint(const std::string& message) {
  const size_t begin = message.find("error: ");
  return begin == std::string::npos ? message : message.substr(begin, message.find('\n', begin) - begin);
}

// An error in one line. What varies from case to case is not part of its cause.
CaseResult failure(const Error& error) {
  std::string reason = error.message();
  std::string cause = error.message();
  if (error.kind() == ErrorKind::ToolFailed) {
    cause = "the compiler: " + first_complaint(error.message());
    reason = error.message().substr(0, error.message().find('\n')) + ": " + first_complaint(error.message());
  }
  for (const std::string& location : error.locations()) {
    if (location.starts_with("while importing") || location.starts_with("while reading")) continue;  // the case's name
    reason += "; " + location;
    // Which operators are missing is the cause; how often and where is not.
    if (location.starts_with("at aten::") || location.starts_with("at higher_order::")) {
      cause += " " + location.substr(3, location.find(' ', 3) - 3);
    }
  }
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  return failure(std::move(reason), std::move(cause));
}

CaseResult compare_call(Callable& callable, const ConformCase& test, const std::string& call) {
  const std::vector<HostTensor> expected = read_outputs(beside(test, "out", call));
  const std::vector<HostTensor> inputs = read_inputs(beside(test, "in", call), callable.program());
  const std::vector<HostTensor> results = callable.call(inputs);
  const std::vector<size_t> positions = user_outputs(callable.program());
  const std::vector<bool> sums = made_of_sums_or_products(callable.program().graph);
  if (positions.size() != expected.size()) {
    return failure(fmt::format("returns {} results, expected {}", positions.size(), expected.size()), "wrong number of results");
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t position = positions[i];
    const auto found = difference(results[position], expected[i], {.sums_or_products = sums[position]});
    if (!found) continue;
    const bool wrong_type = found->starts_with("is ");
    const bool may_tie = !wrong_type && is_integral(expected[i].dtype());
    if (may_tie && point_at_equal_values(callable.program(), inputs, position, results[position], expected[i])) continue;
    return failure(fmt::format("out{}{} {}", i, call.empty() ? "" : " of call " + call, *found),
                   wrong_type ? "wrong type of a result" : "wrong elements");
  }
  return {true, {}, {}};
}

// Whatever kernels its program has, for each of the architectures.
CaseResult compile_kernels(const ConformCase& test, const CompileModelOptions& options) {
  const codegen::GeneratedProgram code = generate_code(CompileSession::import(test.model, options), options, 1);
  for (const std::string& architecture : architectures_of(options)) {
    for (const std::string& unit : code.gpu_units) compile_for_gpu(unit, architecture, test.name);
  }
  return {true, {}, {}};
}

CaseResult run_calls(const ConformCase& test, LoadOptions options) {
  if (options.compiles_only) return compile_kernels(test, options.compile);
  if (test.calls.empty()) return failure("has no recorded inputs", "no recorded inputs");
  options.threads = 1;
  options.compile.keep_program = true;
  const std::unique_ptr<Callable> callable = load_model(test.model, options);
  for (const std::string& call : test.calls) {
    CaseResult result = compare_call(*callable, test, call);
    if (!result.passed) return result;
  }
  return {true, {}, {}};
}

}  // namespace

std::vector<ConformCase> find_cases(const std::filesystem::path& folder, const std::string& pattern) {
  std::error_code failed;
  std::vector<ConformCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() != ".pt2") continue;
    ConformCase test{entry.path().stem().string(), entry.path(), {}};
    if (!pattern.empty() && fnmatch(pattern.c_str(), test.name.c_str(), 0) != 0) continue;
    test.calls = find_calls(test);
    cases.push_back(std::move(test));
  }
  if (failed) {
    throw Error(ErrorKind::Environment, fmt::format("cannot read {}: {}", folder.string(), failed.message()))
        .help("give a folder of .pt2 files with their recorded inputs and outputs");
  }
  if (cases.empty()) {
    throw Error(ErrorKind::InvalidInput,
                fmt::format("{} has no .pt2 file{}", folder.string(), pattern.empty() ? "" : " that matches '" + pattern + "'"))
        .help("give a folder of .pt2 files with their recorded inputs and outputs");
  }
  std::sort(cases.begin(), cases.end(), [](const ConformCase& a, const ConformCase& b) { return a.name < b.name; });
  return cases;
}

CaseResult run_case(const ConformCase& test, const LoadOptions& options) {
  Stopwatch watch;
  CaseResult result;
  try {
    result = run_calls(test, options);
  } catch (const Error& error) {
    result = failure(error);
  } catch (const std::exception& error) {
    result = failure(error.what(), error.what());
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace toroid::cli
