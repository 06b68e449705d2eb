#include "emit_benchmark.h"

#include <deque>

#include <fmt/format.h>

#include "api/tensors.h"
#include "base/error.h"
#include "base/file/file.h"
#include "driver/signature.h"
#include "runtime/contract/contract.h"
#include "runtime/program/executable.h"
#include "runtime/program/package.h"
#include "support/process/subprocess.h"

namespace toroid::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMain =
#include "benchmark_main.inc"
    ;
constexpr const char* kHeader =
#include "toroid_h_text.inc"  // include/toroid/toroid.h, as CMake finds it
    ;

std::string_view values_of(DType dtype) {
  switch (dtype) {
    case DType::F16: return "F16";
    case DType::BF16: return "BF16";
    case DType::F32: return "F32";
    case DType::F64: return "F64";
    default: return "Zeros";
  }
}

std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "\"";
}

// At the sizes that the model was exported with.
std::string tables_text(const CompiledModel& model) {
  const ProgramLibrary library(model.library, model.name);
  const ToroidVariant& variant = general_variant(library.tables());
  const Program signature = signature_of(variant);
  std::string inputs, steps;
  std::vector<InputShape> shapes;
  std::deque<std::vector<int64_t>> all_sizes;
  for (ValueId id : signature.graph.inputs) {
    const TensorType& type = signature.graph.type(id);
    std::vector<int64_t>& sizes = all_sizes.emplace_back();
    for (sym::Expr size : type.sizes) sizes.push_back(sym::evaluate_hint(size));
    const std::string& name = signature.graph.value(id).name;
    const DLDataType dtype = api::dlpack_dtype(type.dtype);
    inputs += fmt::format("    {{{}, {{{}, {}, {}}}, Input::{}, {}, {{{}}}}},\n", string_literal(name), dtype.code, dtype.bits, dtype.lanes,
                          values_of(type.dtype), bytes_of(type.dtype, sizes), fmt::join(sizes, ", "));
    shapes.push_back({type.dtype, sizes});
  }
  const CallSizes sizes = bind_sizes(variant.contract, shapes);
  auto value = [&](int32_t expression) -> int64_t {
    try {
      return sizes.evaluate(expression);
    } catch (const Error&) {
      return 0;  // known only while the program runs
    }
  };
  for (int32_t i = 0; i < variant.num_steps; ++i) {
    const bool is_known = i < variant.num_work;
    steps += fmt::format("    {{{}, {}, {}}},\n", string_literal(variant.steps[i].name), is_known ? value(variant.work[i].bytes) : 0,
                         is_known ? value(variant.work[i].flops) : 0);
  }
  return fmt::format(
      "const char* const kName = {};\n"
      "// Name, dtype, what they are filled with, bytes, sizes.\n"
      "const std::vector<Input> kInputs = {{\n{}}};\n"
      "// Name, bytes moved, multiplications and additions.\n"
      "const std::vector<Step> kSteps = {{\n{}}};\n",
      string_literal(model.name), inputs, steps);
}

std::string build_text(const Toolchain& tools, const CompileModelOptions& options) {
  std::vector<std::string> flags = tools.flags({.optimization = options.optimization, .extra_flags = options.compiler_flags});
  std::error_code failure;
  const fs::path toroid = fs::read_symlink("/proc/self/exe", failure);
  return fmt::format(
      "#!/bin/sh\n"
      "# Builds the program and its timing main: sh build.sh && ./benchmark [SECONDS [THREADS]]\n"
      "# TOROID_LIBRARY: the folder of libtoroid.so, which is all that the benchmark needs of toroid.\n"
      "set -e\n"
      "cd \"$(dirname \"$0\")\"\n"
      ": \"${{TOROID_LIBRARY:={}}}\"\n"
      ": \"${{CXX:={}}}\"\n"
      "\"$CXX\" program/*_unit*.cpp {} -o program.so\n"
      "\"$CXX\" -O2 -std=c++17 main.cpp -o benchmark \"$TOROID_LIBRARY/libtoroid.so\" -Wl,-rpath,\"$TOROID_LIBRARY\"\n",
      toroid.parent_path().string(), tools.compiler().path.string(), describe_command(flags));
}

}  // namespace

fs::path program_folder(const fs::path& folder) { return folder / "program"; }

void emit_benchmark(const fs::path& folder, const CompiledModel& model, const CompileModelOptions& options, const Toolchain& tools) {
  TOROID_CHECK(options.profile && options.save_source == program_folder(folder));
  write_file_atomically(folder / "main.cpp", std::string_view(kMain));
  write_file_atomically(folder / "program.h", std::string_view(tables_text(model)));
  write_file_atomically(folder / "toroid.h", std::string_view(kHeader));
  write_file_atomically(folder / "build.sh", std::string_view(build_text(tools, options)), 0777);
  write_package(folder / "weights.bin", "", model.constants, model.isa);
}

}  // namespace toroid::cli
