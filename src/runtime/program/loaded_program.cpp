#include "runtime/program/loaded_program.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/fail.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "base/format.h"
#include "base/machine/machine.h"
#include "runtime/cuda/device_weights.h"
#include "runtime/pool/pool.h"
#include "runtime/program/own_program.h"
#include "runtime/program/package.h"
#include "runtime/program/safetensors_weights.h"

namespace toroid {

namespace {

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Where the weights of a program are whose file has none: in a file of the same name beside it, if there is one.
std::string weights_of(const Package& package, const ToroidProgram& program) {
  const auto has_bytes = [](const ToroidConstantInfo& constant) { return constant.bytes > 0; };
  const Span<const ToroidConstantInfo> constants = rows(program.constants, program.num_constants);
  if (!package.weights.empty() || std::none_of(constants.begin(), constants.end(), has_bytes)) return {};
  const std::string stem = package.path.substr(0, package.path.size() - extension_of(package.path).size());
  std::string weights = stem + kWeightsExtension, by_name = stem + kSafetensorsExtension;
  const bool are_by_name = is_there(by_name);
  if (!is_there(weights)) return are_by_name ? by_name : std::string();
  // Which of them is of an earlier compilation nobody can see.
  if (are_by_name) {
    fail(ErrorKind::InvalidInput, Help{"remove the one that is not of this package, or give a path for weights"},
         "{} has its weights beside it, but there are two files: {} and {}", package.path, weights, by_name);
  }
  return weights;
}

// In the order of the program's constants.
ConstantBytes constants_of(const Package& package, const ToroidProgram& program) {
  ConstantBytes result;
  uint64_t offset = 0;
  for (const ToroidConstantInfo& constant : rows(program.constants, program.num_constants)) {
    result.places.push_back(package.take_weight(offset, constant.name, constant.bytes).data());
    result.owners.push_back(package.owner);
  }
  return result;
}

ConstantBytes constants_of(const std::string& weights, const ToroidProgram& program, RuntimePool& pool, const PackageChecks& checks,
                           const HostMemory* memory) {
  if (extension_of(weights) != kSafetensorsExtension) return constants_of(open_package(weights, pool, checks), program);
  if (checks.trust == nullptr) return read_safetensors_weights(weights, program, memory);
  fail(ErrorKind::InvalidInput,
       Help{"compile with weights in the package, or in a file of its own kind: --weights FILE.weights --sign KEYFILE"},
       "{} has no signature, and only signed files are trusted", weights);
}

// One without toroid_levels, which each package shows (codegen/wrapper/package_entry.cpp), also where its end is cut off.
bool is_bare_library(const std::string& path) { return MappedFile(path).text().find("toroid_levels") == std::string_view::npos; }

void require_version(int32_t version) {
  if (version == TOROID_ABI_VERSION) return;
  fail(ErrorKind::InvalidInput, Help{"compile the model again with 'toroid compile'"},
       "the library was not made by this version of toroid");
}

}  // namespace

ProgramLibrary::ProgramLibrary(std::string_view bytes, std::string name, bool needs_level) : library_(LoadedLibrary(bytes, name)) {
  if (const auto* const levels = static_cast<const ToroidLevels*>(library_->find("toroid_levels"))) {
    take_level(*levels, name, needs_level);
  } else {
    tables_ = static_cast<const ToroidProgram*>(library_->find("toroid_program"));
  }
  require_version(tables_ == nullptr ? 0 : tables_->abi_version);
  gpu_tables_ = static_cast<const ToroidGpuProgram*>(library_->find("toroid_gpu_program"));
  const void* const provenance = library_->find("toroid_provenance");
  if (const char* const text = provenance == nullptr ? nullptr : *static_cast<const char* const*>(provenance)) provenance_ = text;
}

ProgramLibrary::ProgramLibrary(const ToroidLevels& own, std::string_view name)
    : gpu_tables_(toroid_own_gpu_program), provenance_(toroid_own_provenance) {
  take_level(own, name, true);
}

void ProgramLibrary::take_level(const ToroidLevels& levels, std::string_view name, bool needs_level) {
  require_version(levels.abi_version);
  const Span<const ToroidLevel> all = rows(levels.levels, levels.num_levels);
  const auto is_ours = [](const ToroidLevel& level) { return has_instructions(parse_isa(level.isa), machine().isa); };
  auto found = std::find_if(all.begin(), all.end(), is_ours);
  if (found == all.end() && !needs_level) --found;
  if (found == all.end()) refuse_missing_instructions(parse_isa(all.back().isa), name);
  isa_ = found->isa;
  tables_ = found->program;
}

LoadedProgram::LoadedProgram(ProgramLibrary library, std::string name, std::shared_ptr<RuntimePool> pool)
    : library_(std::move(library)), name_(std::move(name)), isa_(library_.isa()), pool_(std::move(pool)) {
  for (const ToroidVariant& variant : rows(tables().variants, tables().num_variants)) {
    const bool is_mixed = gpu_tables() != nullptr && (gpu_tables()->facts & TOROID_GPU_MIXED) != 0;
    variants_.emplace_back(variant, tables().bad_index, is_mixed ? gpu_tables()->placements + variants_.size() : nullptr);
    updates_.push_back(updates_of(variant));
  }
  if (gpu_tables() != nullptr) on_devices_ = cuda::DeviceWeights::make();
}

LoadedProgram::LoadedProgram(std::string_view library, std::vector<Span<const std::byte>> constants, std::shared_ptr<const void> owner,
                             std::string name, std::shared_ptr<RuntimePool> pool)
    : LoadedProgram(ProgramLibrary(library, name), name, std::move(pool)) {
  TOROID_CHECK(constants.size() == static_cast<size_t>(tables().num_constants), "{} constants for a program with {}", constants.size(),
               tables().num_constants);
  std::vector<const void*> places;
  for (const auto& constant : constants) places.push_back(constant.data());
  std::vector<std::shared_ptr<const void>> owners(places.size(), owner);
  weights_ = std::make_shared<const Weights>(std::move(places), std::move(owners), variants_.size(), nullptr);
}

std::shared_ptr<LoadedProgram> LoadedProgram::load(const std::string& library, const std::string& weights,
                                                   std::shared_ptr<RuntimePool> pool, const PackageChecks& checks,
                                                   const HostMemory* memory) {
  ErrorContext context("loading {}", library);
  const std::string name(file_name_of(library));
  if (library == weights || extension_of(weights) == kSafetensorsExtension || checks.trust != nullptr || !is_bare_library(library)) {
    const Package package = open_package(library, *pool, checks);
    ProgramLibrary opened(package.library, name);
    const std::string elsewhere = library == weights ? weights_of(package, opened.tables()) : weights;
    ConstantBytes constants =
        elsewhere.empty() ? constants_of(package, opened.tables()) : constants_of(elsewhere, opened.tables(), *pool, checks, memory);
    return make(std::move(opened), name, package.isa, std::move(constants), std::move(pool), memory);
  }
  const Package package = open_package(weights, *pool, checks);
  ProgramLibrary opened(read_file(library), name);
  ConstantBytes constants = constants_of(package, opened.tables());
  return make(std::move(opened), name, package.isa, std::move(constants), std::move(pool), memory);
}

std::shared_ptr<LoadedProgram> LoadedProgram::load(const std::string& library, const std::string& weights,
                                                   std::shared_ptr<RuntimePool> pool) {
  return load(library, weights, std::move(pool), {});
}

std::shared_ptr<LoadedProgram> LoadedProgram::load_own(const std::string& weights, std::shared_ptr<RuntimePool> pool,
                                                       const PackageChecks& checks, const HostMemory* memory) {
  if (toroid_embedded_package != nullptr) {
    if (checks.trust != nullptr) fail(ErrorKind::Unsupported, "a model that is linked into the program has no signature");
    const EmbeddedPackage& own = *toroid_embedded_package;
    ErrorContext context("loading the model '{}'", own.name);
    const Package package = open_package({own.begin, static_cast<size_t>(own.end - own.begin)}, own.name, *pool, checks);
    ProgramLibrary library(*toroid_own_levels, own.name);
    ConstantBytes constants =
        weights.empty() ? constants_of(package, library.tables()) : constants_of(weights, library.tables(), *pool, checks, memory);
    return make(std::move(library), own.name, package.isa, std::move(constants), std::move(pool), memory);
  }
  const OwnProgram own = own_program();
  ErrorContext context("loading {}", own.path);
  const Package package = open_package(own.path, *pool, checks);
  refuse_other_code(own, package.library);
  const std::string name(file_name_of(own.path));
  ProgramLibrary library(own.levels, name);
  const std::string elsewhere = weights.empty() ? weights_of(package, library.tables()) : weights;
  ConstantBytes constants =
      elsewhere.empty() ? constants_of(package, library.tables()) : constants_of(elsewhere, library.tables(), *pool, checks, memory);
  return make(std::move(library), name, package.isa, std::move(constants), std::move(pool), memory);
}

std::shared_ptr<LoadedProgram> LoadedProgram::make(ProgramLibrary library, std::string name, const Isa& isa, ConstantBytes constants,
                                                   std::shared_ptr<RuntimePool> pool, const HostMemory* memory) {
  std::shared_ptr<LoadedProgram> program(new LoadedProgram(std::move(library), std::move(name), std::move(pool)));
  if (program->isa_.empty()) program->isa_ = isa.name();
  program->memory_ = copy_of(memory);
  program->weights_ =
      std::make_shared<const Weights>(std::move(constants.places), std::move(constants.owners), program->variants_.size(), memory);
  return program;
}

std::vector<int32_t> LoadedProgram::updates_of(const ToroidVariant& variant) const {
  std::vector<int32_t> result;
  for (const ToroidOutputInfo& output : rows(variant.outputs, variant.num_outputs)) {
    const Span<const ToroidConstantInfo> all = rows(tables().constants, tables().num_constants);
    const auto found = std::find_if(all.begin(), all.end(), [&](const ToroidConstantInfo& constant) {
      return output.kind == TOROID_OUTPUT_BUFFER_MUTATION && std::string_view(constant.name) == output.target;
    });
    result.push_back(found == all.end() ? -1 : static_cast<int32_t>(found - all.begin()));
  }
  return result;
}

std::pair<size_t, CallSizes> LoadedProgram::find_variant(Span<const InputShape> shapes) const {
  const size_t general = variants_.size() - 1;
  CallSizes sizes = variants_[general].bind(shapes);
  for (size_t i = 0; i < general; ++i) {
    if (variants_[i].is_chosen(sizes)) return {i, variants_[i].bind(shapes)};
  }
  return {general, std::move(sizes)};
}

std::shared_ptr<const Weights> LoadedProgram::weights() const {
  const std::lock_guard lock(mutex_);
  return weights_;
}

void LoadedProgram::replace_weights(Span<const NewValue> values) {
  std::shared_ptr<const Weights> old;  // let go after the lock
  const std::lock_guard lock(mutex_);
  std::vector<const void*> places(weights_->constants().begin(), weights_->constants().end());
  std::vector<std::shared_ptr<const void>> owners(weights_->owners().begin(), weights_->owners().end());
  for (const NewValue& value : values) {
    places[value.constant] = value.bytes->data();
    owners[value.constant] = value.bytes;
  }
  old = std::exchange(
      weights_, std::make_shared<const Weights>(std::move(places), std::move(owners), variants_.size(), memory_ ? &*memory_ : nullptr));
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace toroid
