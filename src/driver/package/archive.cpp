#include "driver/package/archive.h"

#include <gnu/libc-version.h>

#include <cctype>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "runtime/program/package.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

// Code reaches data within 2 GiB, and the program has some of its own.
constexpr uint64_t kMostWeights = uint64_t{1} << 30;

std::string upper(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace

std::string archive_prefix(const fs::path& archive) {
  std::string prefix = archive.stem().string();
  for (char& letter : prefix) {
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  }
  if (prefix.empty() || std::isdigit(static_cast<unsigned char>(prefix[0]))) prefix.insert(0, "m");
  return prefix;
}

void require_c_library_of_archives(std::string_view here) {
  const std::string version(here.empty() ? std::string_view(gnu_get_libc_version()) : here);
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2 || std::pair(major, minor) >= std::pair(__GLIBC__, __GLIBC_MINOR__))
    return;
  throw Error(ErrorKind::Environment,
              fmt::format("an archive needs glibc {}.{}, which this toroid was compiled with, and this system has {}", __GLIBC__,
                          __GLIBC_MINOR__, version))
      .help("write a library, as in -o FILE.so, which needs glibc 2.28 alone");
}

void write_archive(const fs::path& archive, std::string_view object, Span<const Span<const std::byte>> constants,
                   std::span<const Isa> levels, const Toolchain& tools) {
  uint64_t bytes = 0;
  for (const auto& constant : constants) bytes += constant.size();
  if (bytes > kMostWeights)
    throw Error(ErrorKind::InvalidOption, fmt::format("{} bytes of weights are too many for an archive", bytes))
        .help("add --weights FILE, and give that file to model_open");
  const std::optional<RunSide> run_side = find_run_side();
  TOROID_CHECK(run_side, "a build with sanitizers links no archive");
  const std::string prefix = archive_prefix(archive);
  const TempFolder folder;
  const fs::path program = folder.path() / "program.o", weights = folder.path() / "weights", assembled = folder.path() / "weights.o";
  write_file_atomically(program, object);
  write_package(weights, "", constants, levels);
  const std::string quoted = weights.string();
  TOROID_CHECK(quoted.find_first_of("\"\\\n") == quoted.npos, "the temporary folder is {}", quoted);
  write_file_atomically(
      assembled,
      tools.compile_object(fmt::format("asm(\".section .rodata\\n.balign 64\\n.globl {0}_toroid_weights\\n.hidden {0}_toroid_weights\\n"
                                       ".globl {0}_toroid_weights_end\\n.hidden {0}_toroid_weights_end\\n"
                                       "{0}_toroid_weights:\\n.incbin \\\"{1}\\\"\\n{0}_toroid_weights_end:\\n.byte 0\\n\");\n",
                                       prefix, quoted),
                           {.name = "weights"}));
  const fs::path made = folder.path() / "m.a";
  const std::optional<fs::path> ar = find_program("ar");
  if (!ar) throw Error(ErrorKind::Environment, "there is no ar, which makes archives").help("install binutils");
  const ProcessResult result = run_process({.argv = {ar->string(), "rcsD", made.string(), program.string(), assembled.string()}});
  if (!result.ok()) throw Error(ErrorKind::ToolFailed, fmt::format("ar {}: {}", result.outcome(), result.errors));
  write_file_atomically(
      fs::path(archive).replace_extension("h"),
      fmt::format("/* The model in {0}: link with libc and libm. {1}_toroid_api(TOROID_API_VERSION) gives the table below, and\n"
                  " * its model_open(NULL, …) opens the model. */\n#ifndef {2}_TOROID_H\n#define {2}_TOROID_H\n\n{3}\n"
                  "#ifdef __cplusplus\nextern \"C\"\n#endif\nconst ToroidApi* {1}_toroid_api(uint32_t version);\n\n#endif\n",
                  archive.filename().string(), prefix, upper(prefix), read_file(run_side->folder / "toroid.h")));
  write_file_atomically(archive, read_file(made));
}

}  // namespace toroid
