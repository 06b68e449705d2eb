#include "cross_compile.h"

#include <chrono>
#include <cstdlib>
#include <thread>

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
std::string c_compiler_of(std::string compiler) {
  for (const auto& [of_cpp, of_c] : {std::pair("clang++", "clang"), std::pair("g++", "gcc")}) {
    const size_t found = compiler.rfind(of_cpp);
    if (found != compiler.npos) return compiler.replace(found, std::string_view(of_cpp).size(), of_c);
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_CROSS_CXX names '{}', neither g++ nor clang++", compiler))
      .help("name one, as aarch64-linux-gnu-g++");
}

void run_tool(const std::vector<std::string>& argv, const fs::path& folder) {
  // Trees differ in their folder alone.
  const ProcessResult result = run_process(
      {.argv = argv, .environment = {{"CCACHE_BASEDIR", folder.string()}, {"CCACHE_NOHASHDIR", "1"}}, .timeout = std::chrono::hours(1)});
  if (result.ok()) return;
  const std::string said = result.output + result.errors;
  const size_t error = std::min(said.find("FAILED: "), said.find("error: "));
  throw Error(ErrorKind::ToolFailed,
              fmt::format("{} {}:\n{}", describe_command(argv), result.outcome(),
                          said.substr(error == said.npos ? said.size() - std::min<size_t>(said.size(), 2000) : error, 4000)));
}

}  // namespace

void check_target(const std::string& target) {
  if (target == "aarch64") return;
  throw Error(ErrorKind::InvalidOption, fmt::format("there are no packages for the target '{}'", target))
      .help("--target aarch64, or leave it out for this architecture");
}

std::string cross_compile(const CompiledModel& model, const std::string& target, int jobs) {
  const std::string cmake = needed_program("cmake", "install cmake").string();
  const char* const named = std::getenv("TOROID_CROSS_CXX");
  const std::string wanted = named != nullptr ? named : target + "-linux-gnu-g++";
  const std::string help = fmt::format("install a cross compiler (Debian: g++-{}-linux-gnu), or name it in TOROID_CROSS_CXX", target);
  const std::string compiler = needed_program(wanted, help).string();
  const TempFolder work("toroid-cross");
  const fs::path source = work.path() / "source", built = work.path() / "build";
  const std::string name = emit_source(source, model, jobs);
  std::vector<std::string> configure = {cmake, "-S", source.string(), "-B", built.string(), "-DCMAKE_SYSTEM_NAME=Linux",
                                        "-DCMAKE_SYSTEM_PROCESSOR=" + target, "-DCMAKE_C_COMPILER=" + c_compiler_of(compiler),
                                        "-DCMAKE_CXX_COMPILER=" + compiler, "-DSEAL=OFF",
                                        // As other packages, it needs the C library alone.
                                        "-DCMAKE_SHARED_LINKER_FLAGS=-s -static-libstdc++ -static-libgcc"};
  if (find_program("ninja")) configure.insert(configure.end(), {"-G", "Ninja"});
  if (find_program("ccache"))
    configure.insert(configure.end(), {"-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"});
  run_tool(configure, work.path());
  if (jobs == 0) jobs = static_cast<int>(std::thread::hardware_concurrency());
  run_tool({cmake, "--build", built.string(), "--target", name, "--parallel", std::to_string(jobs)}, work.path());
  return read_file(built / (name + ".so"));
}

}  // namespace toroid::cli
