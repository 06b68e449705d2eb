#include "driver/package/write_compiled.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "driver/package/archive.h"
#include "driver/package/provenance.h"
#include "frontend/safetensors.h"
#include "runtime/contract/contract.h"
#include "runtime/program/loaded_program.h"
#include "runtime/program/package.h"
#include "runtime/program/safetensors_weights.h"
#include "tensor/host_tensor.h"
#include "tensor/strided_copy.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

bool is_archive(const fs::path& output) { return output.extension() == ".a"; }
bool is_by_name(const fs::path& weights) { return weights.extension() == kSafetensorsExtension; }

// As a safetensors file, whose tensors are row-major whatever their strides in the program are.
void write_weights_by_name(const fs::path& path, const CompiledModel& model) {
  const ProgramLibrary library(model.host_library.empty() ? model.library : model.host_library, path.string(), false);
  const ToroidProgram& program = library.tables();
  std::vector<SafeTensor> tensors;
  std::vector<std::vector<std::byte>> copies;
  for (size_t i = 0; const ToroidConstantInfo& constant : rows(program.constants, program.num_constants)) {
    const std::span<const int64_t> sizes = rows(constant.sizes, constant.rank);
    const auto dtype = static_cast<DType>(constant.dtype);
    const auto element = static_cast<size_t>(size_bytes(dtype));
    SafeTensor& tensor =
        tensors.emplace_back(SafeTensor{weight_name(constant, i), dtype, {sizes.begin(), sizes.end()}, model.constants[i]});
    const size_t bytes = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())) * element;
    if (constant.strides != nullptr && !is_same_layout(sizes, rows(constant.strides, constant.rank), strides_of(sizes))) {
      std::vector<std::byte>& copy = copies.emplace_back(bytes);
      copy_strided(copy.data(), strides_of(sizes), model.constants[i].data(), rows(constant.strides, constant.rank), sizes, element);
      tensor.bytes = copy;
    } else {
      tensor.bytes = tensor.bytes.first(bytes);
    }
    ++i;
  }
  write_safetensors(path, tensors);
}

}  // namespace

std::string prefix_of_output(const fs::path& output, const CompileModelOptions& options) {
  if (!is_archive(output)) return "";
  if (is_emulated(options.target))
    throw Error(ErrorKind::InvalidOption, "an archive is for the devices cpu, cuda and rocm").help("write a library, as in -o FILE.so");
  require_c_library_of_archives();
  return archive_prefix(output);
}

void check_outputs(const fs::path& output, const fs::path& weights) {
  if (is_by_name(weights) && is_archive(output))
    throw Error(ErrorKind::InvalidOption, "an archive's weights are not written by name")
        .help("write a library's, as in -o FILE.so, which are the same");
  check_writable(output);
  if (!weights.empty()) check_writable(weights);
}

void write_compiled(const CompiledModel& model, const fs::path& output, const fs::path& weights, CompileSession& session) {
  if (is_by_name(weights)) {
    write_weights_by_name(weights, model);
  } else if (!weights.empty()) {
    write_package(weights, "", model.constants, model.levels);
  }
  const std::vector<Span<const std::byte>> appended = weights.empty() ? model.constants : decltype(model.constants)();
  const std::string library = with_provenance(model.library, model);
  if (is_archive(output)) {
    write_archive(output, library, appended, model.levels, session.toolchain());
  } else {
    write_package(output, library, appended, model.levels);
  }
}

}  // namespace toroid
