// A compiled program, loaded and ready to run in this process.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file/loaded_library.h"
#include "runtime/contract/contract.h"
#include "tensor/host_tensor.h"
#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid {

class RuntimePool;

// Where memory runs out its functions throw Error{Environment}, and it stays usable.
class Executable {
 public:
  // `constants`: the bytes of each of the program's constants, kept alive by `owner`. `threads` 0: the default.
  Executable(std::string_view library, std::vector<std::span<const std::byte>> constants, std::shared_ptr<const void> owner,
             std::string name, int threads = 0);
  // A file written by write_package. Throws as open_package does, before any of its code runs, and Error{Environment} when it cannot be
  // loaded.
  static Executable load(const std::filesystem::path& path, int threads = 0);
  // A library alone, of which nothing is known, and a file written by write_package whose library is not looked at.
  static Executable load(const std::filesystem::path& library, const std::filesystem::path& weights, int threads);
  Executable(Executable&&) noexcept;
  ~Executable();

  // All outputs in the program's order, buffers' new values included; those are also kept for the next call. Throws
  // Error{InvalidInput} that names the violated fact when the inputs do not fit, Error{Environment} when the file of its weights was cut short
  // (base/file/mapped_file.h).
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);

  // Is it for a GPU? Then its kernels run there, and each call copies its inputs to it and its outputs from it.
  bool is_on_device() const;
  // Of such a program: the seconds of so many calls on the device alone, their inputs and outputs staying there. Nothing that they write is kept.
  std::vector<double> time_on_device(std::span<const HostTensor> inputs, int times);
  // Library kernels that the calls so far ran on the host, with copies, for they have none on the device.
  std::vector<std::string> calls_on_host() const;

  // From the next call on random operators draw as in a program just loaded, with this seed instead of 0. Each call draws
  // other numbers than the calls before.
  void set_seed(uint64_t seed);

  // Seconds of each run of each step, by its position among those of the variant that ran; empty unless compiled to be
  // profiled. A step in a loop's body counts each time.
  const std::vector<std::vector<double>>& step_times() const;

  // Of each of last_variant()'s choices the form that calls run; none before the first call.
  std::vector<std::optional<size_t>> forms() const;

  // Lives as long as this.
  const ToroidProgram& tables() const;
  // The variant that the last call ran; the general one before the first call.
  const ToroidVariant& last_variant() const;
  int64_t arena_bytes() const;  // of the last call
  int64_t arena_lower_bound() const;

 private:
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  static std::unique_ptr<State> load_state(const std::filesystem::path& library, const std::filesystem::path& weights, int threads);
  std::unique_ptr<State> state_;
};

// The library of a program, opened for what it says about itself. Throws as loading does.
class ProgramLibrary {
 public:
  ProgramLibrary(std::string_view bytes, std::string name);
  const ToroidProgram& tables() const { return *tables_; }
  // Of a program for a GPU; else null.
  const ToroidGpuProgram* gpu_tables() const { return static_cast<const ToroidGpuProgram*>(library_.find("toroid_gpu_program")); }

 private:
  LoadedLibrary library_;
  const ToroidProgram* tables_;
};

// The variant that serves every call.
inline const ToroidVariant& general_variant(const ToroidProgram& program) { return program.variants[program.num_variants - 1]; }

}  // namespace toroid
