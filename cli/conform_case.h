// One conformance case: a model, its recorded inputs and PyTorch's results for them.
//
//   NAME.pt2   NAME.in.safetensors   NAME.out.safetensors      the first call
//              NAME.in2.safetensors  NAME.out2.safetensors     more calls: other sizes or branches
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend.h"

namespace toroid::cli {

struct ConformCase {
  std::string name;
  std::filesystem::path model;
  std::vector<std::string> calls;  // what stands between "in" or "out" and ".safetensors": "", "2", …
};

struct CaseResult {
  bool passed = false;
  std::string reason;  // why not, in one line
  std::string cause;   // what failures of one kind have in common
  double seconds = 0;
};

// The cases of a folder whose names match the pattern, sorted by name. Throws Error{InvalidInput} when there are none.
std::vector<ConformCase> find_cases(const std::filesystem::path& folder, const std::string& pattern);

// Never throws: whatever goes wrong is the reason.
CaseResult run_case(const ConformCase& test, const LoadOptions& options);

}  // namespace toroid::cli
