#include "toolchain/compiler.h"

#include <sys/stat.h>

#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "support/hash.h"
#include "support/process/subprocess.h"
#include "toolchain/compiler_environment.h"
#include "toolchain/extra_flags.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(20);

// Changes whenever the file is replaced or written; empty when it does not exist.
std::string stamp_of(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return "";
  return fmt::format("{}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

ProcessResult ask(const fs::path& compiler, const std::string& question) {
  ProcessOptions process = compiler_process({compiler.string(), question});
  process.timeout = kAnswerTimeout;
  return run_process(process);
}

// The programs whose bytes decide what comes out.
std::vector<fs::path> components_of(const fs::path& compiler) {
  std::vector<fs::path> components = {compiler};
  for (const char* program : {"cc1plus", "as", "ld"}) {
    const ProcessResult answer = ask(compiler, fmt::format("-print-prog-name={}", program));
    // A compiler that has no such program, as clang++ has no cc1plus, answers with the bare name.
    const std::string name = first_line(answer.output);
    if (!answer.ok() || name.empty()) continue;
    if (std::optional<fs::path> path = find_program(name)) components.push_back(*path);
  }
  return components;
}

// The remembered form: kind, version and fingerprint, then a stamp and a path for each component, one a line.
std::string to_text(const Compiler& compiler, const std::vector<fs::path>& components) {
  std::string text =
      fmt::format("{}\n{}\n{}\n", compiler.kind == CompilerKind::Clang ? "clang" : "gcc", compiler.version, compiler.fingerprint);
  for (const fs::path& component : components) text += stamp_of(component) + " " + component.string() + "\n";
  return text;
}

// False when the text is damaged or a component has changed since.
bool from_text(const std::string& text, Compiler& compiler) {
  std::istringstream lines(text);
  std::string kind, line;
  if (!std::getline(lines, kind) || !std::getline(lines, compiler.version) || !std::getline(lines, compiler.fingerprint) ||
      compiler.fingerprint.size() != 64) {
    return false;
  }
  compiler.kind = kind == "clang" ? CompilerKind::Clang : CompilerKind::Gcc;
  size_t components = 0;
  for (; std::getline(lines, line); ++components) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || stamp_of(line.substr(space + 1)) != line.substr(0, space)) return false;
  }
  return components > 0;
}

constexpr const char* kCompilerHelp = "install g++ or set TOROID_CXX to the path of a g++ or clang++";

// Launchers, and last the compiler: "distcc g++".
CompilerCommand command_of_words(std::string_view text, std::string_view source) {
  std::vector<fs::path> paths;
  for (const std::string& word : split_flags(text)) {
    if (word.starts_with('-')) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{} is '{}', which has the flag '{}'", source, text, word))
          .help("name programs alone, as in 'distcc g++'; flags for the compiler are given with TOROID_CXXFLAGS");
    }
    const std::optional<fs::path> path = find_program(word);
    if (!path) {
      const std::string which = word == text ? "which" : fmt::format("in which '{}'", word);
      throw Error(ErrorKind::Environment, fmt::format("no C++ compiler found: {} is '{}', {} is not a program", source, text, which))
          .help(kCompilerHelp);
    }
    paths.push_back(*path);
  }
  CompilerCommand command{.path = paths.back(), .launcher = std::move(paths)};
  command.launcher.pop_back();
  return command;
}

}  // namespace

CompilerCommand find_compiler(std::string_view wanted) {
  const char* variable = std::getenv("TOROID_CXX");
  std::string_view source = "the compiler asked for";
  if (wanted.empty() && variable != nullptr && *variable != '\0') {
    wanted = variable;
    source = "TOROID_CXX";
  }
  if (wanted.find_first_not_of(' ') != std::string_view::npos) {
    if (std::optional<fs::path> path = find_program(wanted)) return {.path = *path};  // which may have spaces in it
    return command_of_words(wanted, source);
  }
  for (const char* name : {"g++", "clang++"}) {
    if (std::optional<fs::path> path = find_program(name)) return {.path = *path};
  }
  throw Error(ErrorKind::Environment, "no C++ compiler found: tried g++ and clang++ in PATH").help(kCompilerHelp);
}

Compiler identify_compiler(CompilerCommand command, const ProbeCache& cache) {
  Compiler compiler = identify_compiler(command.path, cache);
  compiler.launcher = std::move(command.launcher);
  return compiler;
}

Compiler identify_compiler(const fs::path& path, const ProbeCache& cache) {
  const std::string key = "compiler 2\n" + fs::absolute(path).string() + "\n" + stamp_of(path) + "\n" + finding_variables();
  Compiler compiler;
  compiler.path = path;
  if (cache.get) {
    if (std::optional<std::string> text = cache.get(key); text && from_text(*text, compiler)) return compiler;
  }
  const ProcessResult answer = ask(path, "--version");
  compiler.version = first_line(answer.output);
  if (!answer.ok() || compiler.version.empty()) {
    throw Error(ErrorKind::ToolFailed, fmt::format("'{} --version' {}", path.string(), answer.ok() ? "printed nothing" : answer.outcome()))
        .help("set TOROID_CXX to the path of a working g++ or clang++");
  }
  compiler.kind = answer.output.find("clang") != std::string::npos ? CompilerKind::Clang : CompilerKind::Gcc;
  const std::vector<fs::path> components = components_of(path);
  Sha256 hash;
  hash.update(answer.output);
  for (const fs::path& component : components) hash.update(sha256(MappedFile(component).bytes()).hex());
  compiler.fingerprint = hash.finish().hex();
  if (cache.put) cache.put(key, to_text(compiler, components));
  return compiler;
}

}  // namespace toroid
