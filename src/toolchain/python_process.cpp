#include "toolchain/python_process.h"

#include <cstdlib>

#include "toolchain/compiler_environment.h"

namespace toroid {

ProcessOptions python_process(std::vector<std::string> argv, const std::filesystem::path& folder) {
  ProcessOptions options = compiler_process(std::move(argv), folder);
  for (const char* name : {"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_*", "PYENV_*", "TRITON_PTXAS_PATH",
                           "TRITON_PTXAS_BLACKWELL_PATH"})
    options.inherited->emplace_back(name);
  options.environment.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
  return options;
}

std::string python_of(const char* variable) {
  const char* const named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : "python3";
}

}  // namespace toroid
