#include "emit_source.h"

#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "codegen/wrapper/package_entry.h"
#include "driver/build_library.h"
#include "driver/package/provenance.h"
#include "runtime/program/package.h"
#include "toolchain/run_side.h"

namespace toroid::cli {
namespace fs = std::filesystem;
using namespace std::string_literals;
namespace {

// The model's name as that of a file.
std::string file_name(std::string_view name) {
  std::string target(name.substr(0, name.rfind('.')));
  for (char& c : target) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  }
  return target.empty() ? "model" : target;
}

std::string program_cmake(const std::string& target, const PackageSources& sources) {
  std::string levels, names, flags;
  for (size_t i = 0; i < sources.levels.size(); ++i) {
    levels += fmt::format(" level{}", i);
    names += " " + sources.levels[i].name();
    flags += fmt::format("set(FLAGS_level{} {})\n", i, fmt::join(sources.levels[i].compiler_flags(), " "));
  }
  return fmt::format(
      "# What CMakeLists.txt builds.\n"
      "set(MODEL {})\n"
      "set(TOROID_VERSION {})\n"
      "set(LEVELS{})\n"
      "set(LEVEL_NAMES{})\n"
      "{}"
      "# The language of the units and its rules for numbers. Those that the compiler does not know are left out.\n"
      "set(LANGUAGE_FLAGS {})\n"
      "# Whether the program decomposes matrices, which takes Eigen.\n"
      "set(LINEAR_ALGEBRA {})\n"
      "# Whether it is for GPUs, whose driver is opened when it runs.\n"
      "set(GPU {})\n",
      target, TOROID_VERSION, levels, names, flags, fmt::join(sources.flags, " "),
      sources.entry.find("toroid_kernel_linalg_") == std::string::npos ? "OFF" : "ON", sources.use.gpu ? "ON" : "OFF");
}

std::string readme(const std::string& target, const CompiledModel& model) {
  return fmt::format(
      "# {0}\n\n"
      "The model {1}, compiled by toroid {2}, as sources. They need CMake, g++ or clang++ for C++17, and the C library:\n\n"
      "```sh\n"
      "cmake -G Ninja -B build && cmake --build build      # or another generator of CMake's\n"
      "build/example build/{0}.so      # what it takes and gives, and a call on zeros\n"
      "```\n\n"
      "`build/{0}.so`, with `{0}.weights` beside it, is a package: a shared library with the interface of "
      "`run_side/include/toroid/toroid.h`.\n"
      "Its results are those of `toroid compile -o` with the same compiler.\n\n"
      "| what | holds |\n"
      "|---|---|\n"
      "| `program/unit*.cpp` | the model: a function for each fused kernel, with the operators that it computes and their lines in the "
      "model's\n"
      "source; then the table of its steps, sizes and weights |\n"
      "| `program/prelude*.h` | what kernels are written in: vectors, loops, conversions |\n"
      "{3}"
      "| `program/entry.cpp` | the instruction sets that the library has, and the library kernels that it calls |\n"
      "| `run_side/` | what the program calls: products, convolutions, attention, sorting, threads, memory, the interface in C |\n"
      "| `{0}.weights` | the weights |\n"
      "| `seal.cpp` | writes the checksums by which a damaged library is refused |\n"
      "| `example.c` | a program that uses the library |\n",
      target, model.name, TOROID_VERSION,
      (model.sources->custom_units.empty() ? "" : "| `program/custom*.cpp` | kernels of custom operators |\n"s) +
          (model.sources->use.gpu
               ? "| `program/kernels*.cu`, `program/binary*.cpp` | the kernels for GPUs, and what NVRTC made of them for each "
                 "architecture: a kernel that is changed must be compiled anew by toroid |\n"
               : ""));
}

}  // namespace

std::string emit_code(const fs::path& folder, const CompiledModel& model, int threads) {
  TOROID_CHECK(model.sources != nullptr);
  const PackageSources& sources = *model.sources;
  if (fs::exists(folder) && !fs::is_empty(folder)) {
    throw Error(ErrorKind::InvalidOption, fmt::format("the folder {} has files in it", folder.string())).help("name a new one");
  }
  if (sources.use.onednn) {
    throw Error(ErrorKind::Unsupported, "the program calls oneDNN, which a source package does not hold")
        .help("set TOROID_ONEDNN=0, or leave out --mode max and --lock");
  }
  const fs::path run_source = find_run_source();
  const std::string target = file_name(model.name);
  const fs::path program = folder / "program";
  try {
    fs::create_directories(program);
    fs::copy(run_source, folder, fs::copy_options::recursive);
  } catch (const fs::filesystem_error& failure) {
    throw Error(ErrorKind::Environment, fmt::format("cannot write {}: {}", folder.string(), failure.code().message()));
  }
  for (size_t i = 0; i < sources.units.size(); ++i) {
    const std::string number = sources.units.size() == 1 ? "" : std::to_string(i);
    const std::string_view unit = sources.units[i];
    const size_t prelude = sources.prelude_bytes[i];
    write_file_atomically(program / fmt::format("prelude{}.h", number), unit.substr(0, prelude));
    const std::string text = fmt::format("#include \"prelude{}.h\"\n{}", number, unit.substr(prelude));
    write_file_atomically(program / fmt::format("unit{}.cpp", number), codegen::unit_of_level(text, "TOROID_NAMESPACE"));
  }
  for (size_t i = 0; i < sources.custom_units.size(); ++i)
    write_file_atomically(program / fmt::format("custom{}.cpp", i), sources.custom_units[i]);
  for (size_t i = 0; i < sources.gpu.units.size(); ++i)
    write_file_atomically(program / fmt::format("kernels{}.cu", i), sources.gpu.units[i]);
  const int compilers = threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
  for (size_t i = 0; const std::string& unit : binary_units(sources.gpu, compilers))
    write_file_atomically(program / fmt::format("binary{}.cpp", i++), unit);
  write_file_atomically(program / "entry.cpp", source_with_provenance(sources.entry, model));
  write_file_atomically(program / "program.cmake", program_cmake(target, sources));
  write_file_atomically(folder / "README.md", readme(target, model));
  return target;
}

void emit_source(const fs::path& folder, const CompiledModel& model, int threads) {
  const std::string target = emit_code(folder, model, threads);
  write_package(folder / (target + kWeightsExtension), "", model.constants, model.levels);
}

}  // namespace toroid::cli
