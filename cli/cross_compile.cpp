#include "cross_compile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "emit_source.h"
#include "support/process/subprocess.h"

namespace toroid::cli {
namespace fs = std::filesystem;
namespace {

fs::path needed_program(const std::string& name, const std::string& help) {
  if (const auto found = find_program(name)) return *found;
  throw Error(ErrorKind::Environment, fmt::format("a package for another architecture needs {}, which is not in PATH", name)).help(help);
}

// "aarch64-linux-gnu-g++-12" compiles C as "aarch64-linux-gnu-gcc-12".
std::string c_compiler_of(const fs::path& compiler) {
  std::string name = compiler.filename().string();
  for (const auto& [of_cpp, of_c] : {std::pair("clang++", "clang"), std::pair("g++", "gcc")}) {
    if (const size_t found = name.rfind(of_cpp); found != name.npos)
      return (compiler.parent_path() / name.replace(found, std::string_view(of_cpp).size(), of_c)).string();
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_CROSS_CXX names '{}', neither g++ nor clang++", compiler.string()))
      .help("name one, as aarch64-linux-gnu-g++");
}

void run_tool(const std::vector<std::string>& argv, const fs::path& folder) {
  // Trees differ in their folder alone. Flags of the environment are for programs of this machine.
  const std::string base = folder.string();
  const ProcessResult result =
      run_process({.argv = argv,
                   .environment = {{"CCACHE_BASEDIR", base}, {"CCACHE_NOHASHDIR", "1"}, {"CFLAGS", ""}, {"CXXFLAGS", ""}, {"LDFLAGS", ""}},
                   .timeout = std::chrono::hours(1)});
  if (result.ok()) return;
  const std::string said = result.output + result.errors;
  constexpr size_t kMost = 4000, kEnd = 2000;  // bytes: of an error, of the end where there is none
  size_t first = std::min(said.find("FAILED: "), said.find("error: "));
  if (first == said.npos) first = said.size() - std::min(said.size(), kEnd);
  throw Error(ErrorKind::ToolFailed, fmt::format("{} {}:\n{}", describe_command(argv), result.outcome(), said.substr(first, kMost)));
}

}  // namespace

CrossCompiler::CrossCompiler(std::string target) : target_(std::move(target)) {
  if (target_ != "aarch64") {
    throw Error(ErrorKind::InvalidOption, fmt::format("there are no packages for the target '{}'", target_))
        .help("--target aarch64, or leave it out for this architecture");
  }
  cmake_ = needed_program("cmake", "install cmake").string();
  const char* const named = std::getenv("TOROID_CROSS_CXX");
  const std::string wanted = named != nullptr ? named : target_ + "-linux-gnu-g++";
  const std::string help = fmt::format("install a cross compiler (Debian: g++-{}-linux-gnu), or name it in TOROID_CROSS_CXX", target_);
  compiler_ = needed_program(wanted, help).string();
  c_compiler_ = needed_program(c_compiler_of(compiler_), help).string();
}

std::string CrossCompiler::library(const CompiledModel& model, int jobs) const {
  const TempFolder work("toroid-cross");
  const fs::path source = work.path() / "source", built = work.path() / "build";
  const std::string name = emit_code(source, model, jobs);
  std::vector<std::string> configure = {cmake_, "-S", source.string(), "-B", built.string(), "-DCMAKE_SYSTEM_NAME=Linux",
                                        "-DCMAKE_SYSTEM_PROCESSOR=" + target_, "-DCMAKE_C_COMPILER=" + c_compiler_,
                                        "-DCMAKE_CXX_COMPILER=" + compiler_, "-DSEAL=OFF",
                                        // As other packages, it needs the C library alone.
                                        "-DCMAKE_SHARED_LINKER_FLAGS=-s -static-libstdc++ -static-libgcc"};
  if (find_program("ninja")) configure.insert(configure.end(), {"-G", "Ninja"});
  if (find_program("ccache"))
    configure.insert(configure.end(), {"-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"});
  run_tool(configure, work.path());
  if (jobs == 0) jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  run_tool({cmake_, "--build", built.string(), "--target", "model", "--parallel", std::to_string(jobs)}, work.path());
  return read_file(built / (name + ".so"));
}

}  // namespace toroid::cli
