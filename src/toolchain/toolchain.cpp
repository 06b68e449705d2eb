#include "toolchain/toolchain.h"

#include <signal.h>

#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/kept_files.h"
#include "base/machine/machine.h"
#include "base/machine/memory.h"
#include "support/log.h"
#include "support/process/subprocess.h"
#include "support/text/byte_size.h"
#include "support/text/lines.h"
#include "toolchain/compiler_environment.h"
#include "toolchain/compiler_slots.h"
#include "toolchain/extra_flags.h"
#include "toolchain/large_pages/large_pages.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr const char* kStandardInput = "-";  // in the place of a source file's name
constexpr size_t kKeptErrorBytes = 64 * 1024;
constexpr int kShownErrorLines = 12;
constexpr uint64_t kLeastMemoryLimit = uint64_t{2} << 30;

void append(std::vector<std::string>& list, std::vector<std::string> more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// -nostdlib because start files and libstdc++ cost 15 ms a library and generated code needs neither.
std::vector<std::string> link_flags() { return {"-shared", "-nostdlib"}; }
std::vector<std::string> link_libraries() { return {"-Wl,--as-needed", "-lm", "-lgcc"}; }

std::string first_lines(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count && !text.empty(); ++i) {
    const size_t end = text.find('\n');
    result.append("\n    ").append(text.substr(0, std::min<size_t>(end, 300)));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  if (!text.empty()) result += "\n    …";
  return result;
}

// A file name from a kernel's name, which may come from a model and hold anything.
std::string file_name_for(std::string_view name) {
  std::string safe;
  for (char c : name.substr(0, 80)) safe += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ? c : '_';
  return (safe.empty() ? "kernel" : safe) + ".cpp";
}

ToolchainOptions with_extra_flags(ToolchainOptions options) {
  const char* variable = std::getenv("TOROID_CXXFLAGS");
  if (options.extra_flags.empty() && variable != nullptr) {
    ErrorContext context("reading TOROID_CXXFLAGS");
    options.extra_flags = split_flags(variable);
    check_extra_flags(options.extra_flags);
  }
  check_extra_flags(options.extra_flags);
  return options;
}

ToolchainOptions with_limits(ToolchainOptions options) {
  if (const char* variable = std::getenv("TOROID_COMPILE_MEMORY");
      options.memory_limit_bytes == 0 && variable != nullptr && *variable != '\0') {
    ErrorContext context("reading TOROID_COMPILE_MEMORY");
    options.memory_limit_bytes = parse_byte_size(variable);
  }
  if (options.timeout.count() > 0) return options;
  options.timeout = compiler_timeout();
  return options;
}

// How g++, clang++, ld and the loader say that they got no more memory.
constexpr const char* kOutOfMemory[] = {
    "out of memory",         "memory exhausted",          "std::bad_alloc", "annot allocate memory", "annot allocate TLS",
    "failed to map segment", "cannot map zero-fill pages"};
// How they end where they do not notice; told from other crashes by a limit that none of them can work with.
constexpr const char* kCrashed[] = {"internal compiler error", "signal terminated program"};
constexpr uint64_t kScarceMemory = uint64_t{1} << 30;

struct Mend {
  const char* words;  // of the compiler
  const char* help;
};
constexpr Mend kMends[] = {
    {"Killed signal terminated program", "the compiler may have run out of memory: free some, or compile fewer kernels at once; "},
    {"No space left on device", "free some space where temporary files go (TMPDIR); "},
    {"File size limit exceeded", "raise the limit on the size of files (ulimit -f); "},
    {"File too large", "raise the limit on the size of files (ulimit -f); "},
    {"cannot find 'ld'", "set PATH so that the compiler finds as and ld; "},
    {"fatal error: cannot execute ", "set PATH so that the compiler finds as and ld; "},
};

// Without what a compiler asks for when it believes that the fault is its own.
std::string without_pleas(std::string_view errors) {
  return without_lines(
      errors, [](std::string_view line) { return line.starts_with("Please submit a full bug report") || line.starts_with("See <file:"); });
}

// From the first error that names a line: both compilers write "SOURCE:LINE:COLUMN: error: …".
std::string origin_of_failure(std::string_view errors, std::string_view source, const CompileOptions& options) {
  const std::string mark = fmt::format("{}:", source);
  if (!options.origin_of_line) return "";
  for (size_t at = errors.find(mark); at != std::string_view::npos; at = errors.find(mark, at)) {
    at += mark.size();
    const std::string_view message = errors.substr(at, errors.find('\n', at) - at);
    size_t line = 0;
    const auto [end, problem] = std::from_chars(message.data(), message.data() + message.size(), line);
    if (problem == std::errc() && message.find("error: ") != std::string_view::npos) return options.origin_of_line(line);
  }
  return "";
}

}  // namespace

Toolchain::Toolchain(ToolchainOptions options)
    : options_(with_limits(with_extra_flags(std::move(options)))),
      compiler_(identify_compiler(find_compiler(options_.compiler), options_.probe_cache)) {
  const char* variable = std::getenv("TOROID_ISA");
  if (!options_.isa.empty()) {
    isa_ = parse_isa(options_.isa);
  } else if (variable != nullptr && *variable != '\0') {
    ErrorContext context("reading TOROID_ISA");
    isa_ = parse_isa(variable);
  } else {
    isa_ = probe_isa();
  }
}

std::vector<std::string> language_flags(const CompileOptions& options) {
  std::vector<std::string> flags = {
      fmt::format("-O{}", options.debug ? std::min(options.optimization, 1) : options.optimization),
      "-std=gnu++17",
      "-fPIC",
      "-w",
      "-fno-exceptions",
      "-fno-rtti",
      // Float rules. Traps and errno are never looked at; everything else stays as IEEE says.
      "-fno-math-errno",
      "-fno-trapping-math",
      options.contract ? "-ffp-contract=fast" : "-ffp-contract=off",
      // Integers wrap, in vectors too: the least of negatives is not the negative of the largest.
      "-fwrapv",
      // Calls inside a library go straight to their function.
      "-fno-semantic-interposition",
      // Distributions turn these on to harden servers; kernels pay for them and gain nothing.
      "-fno-stack-protector",
      "-fcf-protection=none",
      "-U_FORTIFY_SOURCE",  // refuses a longjmp to another stack, by which emulated threads of a GPU take turns
      // g++ tries to combine up to four instructions: a second for sums over rows of 49 elements, and the code is that of two.
      "--param=max-combine-insns=2",
      // The same source gives the same bytes.
      "-frandom-seed=toroid",
  };
#if !defined(__x86_64__)
  std::erase(flags, "-fcf-protection=none");
#endif
  if (options.contract) flags.push_back("-DFUSES_MULTIPLY_ADD");  // code may rely on it
  return flags;
}

std::vector<std::string> Toolchain::compile_flags(const CompileOptions& options) const {
  std::vector<std::string> flags = language_flags(options);
  append(flags, options.isa.value_or(isa_).compiler_flags());
  if (options.debug) flags.push_back("-g");
  append(flags, options_.extra_flags);
  append(flags, options.extra_flags);
  return flags;
}

std::vector<std::string> Toolchain::flags(const CompileOptions& options) const {
  std::vector<std::string> flags = compile_flags(options);
  append(flags, link_flags());
  append(flags, link_libraries());
  if (options.debug) flags.push_back("(debugged with the sources in " + sources_folder().string() + ")");
  return flags;
}

std::map<std::string, std::string> Toolchain::environment() { return deciding_variables(); }

std::string Toolchain::run_compiler(std::vector<std::string> arguments, std::string_view source, const CompileOptions& options,
                                    std::string_view product, const fs::path& folder) const {
  const fs::path out = folder / "out";
  const bool is_launched = !compiler_.launcher.empty() && !source.empty();
  std::vector<std::string> argv;
  for (const fs::path& launcher : compiler_.launcher) {
    if (is_launched) argv.push_back(launcher.string());
  }
  argv.push_back(compiler_.path.string());
  append(argv, std::move(arguments));
  std::string input_name = "<stdin>";
  if (options.debug && !source.empty()) {
    input_name = keep_file(sources_folder(), options.name, "cpp", source).string();
    std::replace(argv.begin(), argv.end(), std::string(kStandardInput), input_name);
  } else if (is_launched) {
    // Launchers send files to other machines and remember them by their names, but take no standard input.
    input_name = file_name_for(options.name);
    write_file_atomically(folder / input_name, source);
    std::replace(argv.begin(), argv.end(), std::string(kStandardInput), input_name);
  }
  append(argv, {"-o", out.string()});
  // The machine is asked only when a compiler runs at all: a warm start needs none.
  const uint64_t memory_limit_bytes =
      options_.memory_limit_bytes > 0 ? options_.memory_limit_bytes : std::max(kLeastMemoryLimit, total_memory_bytes() / 2);
  std::optional<CompilerSlot> slot;
  if (!is_launched) slot.emplace();  // what runs elsewhere, or is found, needs none of this machine's cores
  ProcessOptions process = compiler_process(argv, folder);
  if (is_launched) process.folder = folder;
  if (!is_launched) ask_for_large_pages(process, folder);
  if (!options.debug && !is_launched) process.input = source;
  process.timeout = options_.timeout;
  process.memory_limit_bytes = memory_limit_bytes;
  process.output_limit_bytes = kKeptErrorBytes;
  const ProcessResult result = run_process(process);
  std::string bytes;
  if (result.ok()) {
    std::error_code ignored;
    if (fs::is_regular_file(out, ignored)) bytes = read_file(out);
    if (bytes.starts_with("\x7f"
                          "ELF")) {
      log_debug("{}: {} compiled in {:.0f} ms", options.name, product, result.seconds * 1e3);
      if (const std::optional<fs::path> kept = kept_files_folder(); kept && !source.empty()) {
        fs::path path = keep_file(*kept, options.name, "cpp", source);
        argv.back() = fs::path(path).replace_extension("o").string();
        if (is_launched) std::replace(argv.begin(), argv.end(), input_name, path.string());
        const std::string input = options.debug || is_launched ? "" : " < " + describe_command({path.string()});
        write_file_atomically(fs::path(path).replace_extension("sh"), describe_command(argv) + input + "\n");
      }
      return bytes;
    }
  }
  // Wrappers of compilers may complain on standard output.
  const std::string errors = without_words_about_large_pages(result.errors);
  const std::string& words_said = errors.empty() ? result.output : errors;
  const auto said = [&](const char* words) { return words_said.find(words) != std::string::npos; };
  const bool crashed = (result.signal != 0 && !result.timed_out) || std::any_of(std::begin(kCrashed), std::end(kCrashed), said);
  const bool reached_limit =
      std::any_of(std::begin(kOutOfMemory), std::end(kOutOfMemory), said) || (crashed && memory_limit_bytes < kScarceMemory);
  const std::string problem = result.ok()     ? fmt::format("succeeded but wrote no {}", product)
                              : reached_limit ? fmt::format("{}, with {} of memory,", result.outcome(), byte_size_text(memory_limit_bytes))
                                              : result.outcome();
  Error error(ErrorKind::ToolFailed, fmt::format("{} {} while it made the {} '{}'{}", compiler_.name(), problem, product, options.name,
                                                 first_lines(reached_limit ? without_pleas(words_said) : words_said, kShownErrorLines)));
  std::string help;
  const auto* const mend = std::find_if(std::begin(kMends), std::end(kMends), [&](const Mend& each) { return said(each.words); });
  if (reached_limit) {
    help = fmt::format("the compiler may use {}: allow more with TOROID_COMPILE_MEMORY; ", byte_size_text(memory_limit_bytes));
  } else if (result.timed_out) {
    help = "check the compiler and the machine's load, or allow more with TOROID_COMPILE_TIMEOUT_S; ";
  } else if (result.ok()) {
    help = "set TOROID_CXX to a working g++ or clang++; ";
  } else if (mend != std::end(kMends) || result.signal == SIGKILL) {
    help = mend != std::end(kMends) ? mend->help : kMends[0].help;
  } else if (is_launched) {
    help = fmt::format("the compiler was started through {}: leave that out of TOROID_CXX to see whether it is at fault; ",
                       compiler_.launcher.front().filename().string());
  }
  std::string command;
  if (source.empty()) {
    command = describe_command(argv);
    help += "the inputs were temporary: compile the sources again to see them";
  } else {
    std::string input = file_name_for(options.name);
    try {
      KeptSources own;
      input = (options.kept != nullptr ? *options.kept : own).keep(input, source).string();
      help += "the source is kept in " + input;
    } catch (const Error& unkept) {  // as where the disk is full, which may be what the compiler failed for
      help += fmt::format("the source could not be kept ({}); compile with --save-source to see it", unkept.message());
    }
    argv.back() = fs::path(input).parent_path() / "out";  // the temporary folder is gone when somebody repeats the command
    if (is_launched) std::replace(argv.begin(), argv.end(), input_name, input);
    command = describe_command(argv) + (options.debug || is_launched ? "" : " < " + describe_command({input}));
  }
  if (const std::string origin = origin_of_failure(result.errors, input_name, options); !origin.empty())
    error.at("generated for " + origin);
  error.at("command: " + command).help(help);
  throw error;
}

std::string Toolchain::compile_object(std::string_view source, const CompileOptions& options) const {
  const TempFolder folder;
  std::vector<std::string> arguments = compile_flags(options);
  append(arguments, {"-c"});
  if (compiler_.launcher.empty()) append(arguments, {"-x", "c++"});  // else the file's name says it: distcc sends none with -x away
  arguments.emplace_back(kStandardInput);
  return run_compiler(std::move(arguments), source, options, "object", folder.path());
}

std::string Toolchain::compile_shared(std::string_view source, const CompileOptions& options) const {
  if (!compiler_.launcher.empty()) {  // which takes no step that links
    const std::string object = compile_object(source, options);
    return link_shared({&object, 1}, options);
  }
  const TempFolder folder;
  std::vector<std::string> arguments = compile_flags(options);
  append(arguments, link_flags());
  append(arguments, {"-x", "c++", kStandardInput, "-x", "none"});
  append(arguments, link_libraries());
  return run_compiler(std::move(arguments), source, options, "library", folder.path());
}

std::string Toolchain::link(std::span<const std::string> objects, std::vector<std::string> before, std::vector<std::string> behind,
                            const CompileOptions& options) const {
  const TempFolder folder;
  std::vector<std::string> arguments = std::move(before);
  append(arguments, options_.extra_flags);
  append(arguments, options.extra_flags);
  for (size_t i = 0; i < objects.size(); ++i) {
    const fs::path path = folder.path() / fmt::format("{}.o", i);
    write_file_atomically(path, objects[i]);
    arguments.push_back(path.string());
  }
  append(arguments, std::move(behind));
  return run_compiler(std::move(arguments), {}, options, "library", folder.path());
}

std::string Toolchain::link_shared(std::span<const std::string> objects, const CompileOptions& options) const {
  return link(objects, link_flags(), link_libraries(), options);
}

std::string Toolchain::link_package(std::span<const std::string> objects, const RunSide& run_side, const RunSideUse& use,
                                    const CompileOptions& options) const {
  std::vector<std::string> behind = link_arguments(run_side, use);
  if (!options.debug) behind.emplace_back("-Wl,-s");
  return link(objects, {}, std::move(behind), options);
}

std::string Toolchain::link_object(std::span<const std::string> objects, const RunSide& run_side, const RunSideUse& use,
                                   std::string_view prefix, const CompileOptions& options) const {
  const TempFolder folder;
  const fs::path path = folder.path() / "whole.o";
  write_file_atomically(path, link(objects, {}, object_link_arguments(run_side, use), options));
  const auto run_tool = [](std::string_view tool, std::vector<std::string> arguments) {
    const std::optional<fs::path> found = find_program(tool);
    if (!found)
      throw Error(ErrorKind::Environment, fmt::format("there is no {}, which archives are made with", tool)).help("install binutils");
    arguments.insert(arguments.begin(), found->string());
    ProcessResult result = run_process({.argv = std::move(arguments)});
    if (!result.ok()) throw Error(ErrorKind::ToolFailed, fmt::format("{} {}: {}", tool, result.outcome(), result.errors));
    return std::move(result.output);
  };
  // Symbols that are unique in a process (of g++'s static members in templates) stay so, unless they are weak first.
  const std::string symbols = run_tool("nm", {"--defined-only", "--format=posix", path.string()});
  std::string unique;
  for (std::string_view rest = symbols; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (line.substr(space).starts_with(" u ")) unique.append(line.substr(0, space)) += '\n';
  }
  const fs::path list = folder.path() / "unique";
  write_file_atomically(list, unique);
  run_tool("objcopy", {"--weaken-symbols", list.string(), path.string()});
  const std::string name = fmt::format("{}_toroid_api", prefix);
  std::vector<std::string> arguments = {"--redefine-sym", "toroid_api=" + name, "--keep-global-symbol", name};
  if (!options.debug) arguments.emplace_back("--strip-unneeded");
  arguments.push_back(path.string());
  run_tool("objcopy", std::move(arguments));
  return read_file(path);
}

Isa Toolchain::probe_isa() const {
  const Isa reported = machine().isa;
  const std::string key = "isa 1\n" + reported.name() + "\n" + compiler_.fingerprint;
  if (options_.probe_cache.get) {
    if (std::optional<std::string> known = options_.probe_cache.get(key)) {
      try {
        return parse_isa(*known);
      } catch (const Error&) {
        log_debug("the remembered instruction set '{}' is unknown: probing again", *known);
      }
    }
  }
  Isa found;
  for (const Isa& isa : fallbacks_of(reported)) {
    if (isa != Isa{} && !isa_works(isa)) continue;
    found = isa;
    break;
  }
  if (found != reported) log_info("the processor reports {} but only {} works here", reported.name(), found.name());
  if (options_.probe_cache.put) options_.probe_cache.put(key, found.name());
  return found;
}

bool Toolchain::isa_works(const Isa& isa) const {
  const TempFolder folder;
  const fs::path program = folder.path() / "probe";
  std::vector<std::string> argv = {compiler_.path.string(), "-O1", "-w", "-x", "c++", "-", "-o", program.string()};
  append(argv, isa.compiler_flags());
  ProcessOptions process = compiler_process(argv, folder.path());
  process.input = isa_probe_source();
  process.timeout = options_.timeout;
  const ProcessResult built = run_process(process);
  if (!built.ok()) return false;
  try {
    return run_process({.argv = {program.string()}, .timeout = std::chrono::seconds(10)}).ok();
  } catch (const Error& error) {
    // The temporary folder may forbid execution. The processor's own report is then the best we have.
    log_debug("the instruction probe cannot run: {}", error.message());
    return true;
  }
}

}  // namespace toroid
