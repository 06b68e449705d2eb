#include "toolchain/python_process.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "support/log.h"
#include "toolchain/compiler_environment.h"

namespace toroid {
namespace {

// Has it as many numbers as the least version, and is it no older?
bool is_new_enough(const std::string& version, const char* least) {
  std::pair<int, int> found, needed;
  const int wanted = std::sscanf(least, "%d.%d", &needed.first, &needed.second);
  return std::sscanf(version.c_str(), "%d.%d", &found.first, &found.second) >= wanted && found >= needed;
}

// The version of the compiler that this Python has.
std::string probe_python(const PythonCompiler& compiler, const std::string& python) {
  const std::string other = fmt::format("name a Python that has {} in {}", compiler.name, compiler.variable);
  if (!find_program(python))
    throw Error(ErrorKind::Environment,
                fmt::format("{} are compiled by a Python that has {}, and there is no '{}'", compiler.what, compiler.name, python))
        .help(fmt::format("install Python and 'pip install {}', or name a Python that has it in {}", compiler.package, compiler.variable));
  ProcessOptions process = python_process({python, "-c", compiler.version_script});
  process.timeout = std::chrono::minutes(1);
  const ProcessResult result = run_process(process);
  if (!result.ok())
    throw Error(ErrorKind::Environment, fmt::format("'{}' does not run: it {}", python, result.outcome()))
        .at(result.errors.substr(0, 1000))
        .help(other);
  const std::string install =
      fmt::format("'{} -m pip install {}' installs it; {} names another Python", python, compiler.package, compiler.variable);
  const std::string version = result.output.substr(0, result.output.find('\n'));
  if (version.empty()) throw Error(ErrorKind::Environment, fmt::format("'{}' has no {}", python, compiler.name)).help(install);
  if (!is_new_enough(version, compiler.least))
    throw Error(ErrorKind::Environment,
                fmt::format("'{}' has {} {}, and {} or newer is needed", python, compiler.name, version, compiler.least))
        .help(install);
  return version;
}

}  // namespace

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

std::string version_of(const PythonCompiler& compiler) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::string> known;  // by compiler and Python
  const std::string python = python_of(compiler.variable);
  const std::lock_guard lock(mutex);
  const std::pair key(std::string(compiler.name), python);
  const auto found = known.find(key);
  const std::string version = found != known.end() ? found->second : known.emplace(key, probe_python(compiler, python)).first->second;
  return fmt::format("{} {}", compiler.name, version);
}

JsonDocument compile_in_python(const PythonCompiler& compiler, std::string_view script, const std::string& request,
                               const std::filesystem::path& folder, size_t count, std::string_view answers) {
  const std::string version = version_of(compiler), python = python_of(compiler.variable);
  ProcessOptions process = python_process({python, "-c", std::string(script)}, folder);
  process.input = request;
  process.timeout = compiler_timeout() * static_cast<int64_t>(std::max<size_t>(1, count));
  process.output_limit_bytes = size_t{16} << 20;
  const ProcessResult result = run_process(process);
  log_debug("{} {} compiled in {:.0f} ms", count, compiler.what, result.seconds * 1e3);
  if (!result.ok())
    throw Error(ErrorKind::ToolFailed, fmt::format("{} of '{}' {}", version, python, result.outcome()))
        .at(result.errors.substr(result.errors.size() - std::min<size_t>(result.errors.size(), 2000)))
        .help(fmt::format("{} names another Python; TOROID_COMPILE_TIMEOUT_S allows more time", compiler.variable));
  JsonDocument document = parse_json(result.output, fmt::format("what {} says", version));
  if (document.root().elements().size() != count) document.root().fail(fmt::format("expected {} {}", count, answers));
  return document;
}

}  // namespace toroid
