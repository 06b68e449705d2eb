// A compiled program in memory, shared by the contexts that run it (executable.h). Nothing in it changes but its weights, which are
// replaced as a whole.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/loaded_library.h"
#include "base/span.h"
#include "runtime/program/loaded_variant.h"
#include "runtime/program/weights.h"
#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid {

namespace cuda {
class DeviceWeights;
}
class RuntimePool;
struct ConstantBytes;
struct Isa;
struct PackageChecks;

// The library of a program, opened for what it says about itself; of several levels, the one for this machine. Throws as loading does.
class ProgramLibrary {
 public:
  // needs_level false: one that this machine lacks will do, for what it says.
  ProgramLibrary(std::string_view bytes, std::string name, bool needs_level = true);
  // The library that this code is linked into (own_program.h), which stays as long as that does.
  explicit ProgramLibrary(const ToroidLevels& own, std::string_view name);
  const ToroidProgram& tables() const { return *tables_; }
  // Of a program for a GPU; else null.
  const ToroidGpuProgram* gpu_tables() const { return gpu_tables_; }
  std::string_view isa() const { return isa_; }           // of the level; "" where there is but one
  const char* provenance() const { return provenance_; }  // as ToroidModelInfo::provenance

 private:
  void take_level(const ToroidLevels& levels, std::string_view name, bool needs_level);

  std::optional<LoadedLibrary> library_;
  std::string_view isa_;
  const ToroidProgram* tables_ = nullptr;
  const ToroidGpuProgram* gpu_tables_ = nullptr;
  const char* provenance_ = "";
};

// The variant that serves every call.
inline const ToroidVariant& general_variant(const ToroidProgram& program) { return program.variants[program.num_variants - 1]; }

class LoadedProgram {
 public:
  // As Executable's constructor.
  LoadedProgram(std::string_view library, std::vector<Span<const std::byte>> constants, std::shared_ptr<const void> owner, std::string name,
                std::shared_ptr<RuntimePool> pool);
  // A file written by write_package, and `weights`, the same file, a safetensors file, or another one of that kind, whose library is not
  // looked at. With such weights `library` may be a bare library of one level, as `compile --emit-benchmark` has it; nothing is known of
  // that before it is loaded. Throws as open_package does, before any of the program's code runs, and Error{Environment} when it cannot be
  // loaded.
  static std::shared_ptr<LoadedProgram> load(const std::string& library, const std::string& weights, std::shared_ptr<RuntimePool> pool,
                                             const PackageChecks& checks, const HostMemory* memory = nullptr);
  static std::shared_ptr<LoadedProgram> load(const std::string& library, const std::string& weights, std::shared_ptr<RuntimePool> pool);
  // The program of the library that this code is linked into, whose file is checked as that one is; weights: empty, or as above.
  static std::shared_ptr<LoadedProgram> load_own(const std::string& weights, std::shared_ptr<RuntimePool> pool, const PackageChecks& checks,
                                                 const HostMemory* memory = nullptr);
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  const std::string& name() const { return name_; }
  const ToroidProgram& tables() const { return library_.tables(); }
  const ToroidGpuProgram* gpu_tables() const { return library_.gpu_tables(); }
  const std::string& isa() const { return isa_; }  // the instruction set that it was compiled for; "" where its file does not say
  Span<const LoadedVariant> variants() const { return variants_; }  // as in the tables: the general one last
  const char* provenance() const { return library_.provenance(); }
  // Of a variant, by output, the constant that it is the new value of, or -1.
  Span<const int32_t> updates(size_t variant) const { return updates_[variant]; }
  const std::shared_ptr<RuntimePool>& pool() const { return pool_; }
  // The weights' copies on GPUs; null for a processor.
  const std::shared_ptr<cuda::DeviceWeights>& on_devices() const { return on_devices_; }

  // The variant that serves a call with these inputs: its sizes. Throws Error{InvalidInput} as bind_sizes.
  std::pair<size_t, CallSizes> find_variant(Span<const InputShape> shapes) const;

  // The newest ones. A number that grows with each replacement tells whether there are newer ones, without a lock.
  std::shared_ptr<const Weights> weights() const;
  uint64_t weights_version() const { return version_.load(std::memory_order_acquire); }
  // A value for a constant, laid out as its table says.
  struct NewValue {
    size_t constant;
    std::shared_ptr<const HostBytes> bytes;
  };
  // Calls that begin from now on have all of these, those that run none.
  void replace_weights(Span<const NewValue> values);

 private:
  LoadedProgram(ProgramLibrary library, std::string name, std::shared_ptr<RuntimePool> pool);
  static std::shared_ptr<LoadedProgram> make(ProgramLibrary library, std::string name, const Isa& isa, ConstantBytes constants,
                                             std::shared_ptr<RuntimePool> pool, const HostMemory* memory);
  std::vector<int32_t> updates_of(const ToroidVariant& variant) const;

  ProgramLibrary library_;
  std::string name_, isa_;
  std::shared_ptr<RuntimePool> pool_;
  std::optional<HostMemory> memory_;
  std::vector<LoadedVariant> variants_;
  std::vector<std::vector<int32_t>> updates_;
  std::shared_ptr<cuda::DeviceWeights> on_devices_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
  std::atomic<uint64_t> version_{1};
};

}  // namespace toroid
