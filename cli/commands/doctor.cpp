// toroid doctor: what this machine offers to the compiler, and how to mend what is wrong with it.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/loaded_library.h"
#include "base/machine/machine.h"
#include "cache/base.h"
#include "cache/remote/remote.h"
#include "cache/store.h"
#include "command.h"
#include "flags/flags.h"
#include "json_text.h"
#include "library/collectives/mpi.h"
#include "runtime/cuda/cudnn/api.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/vendors/blas_lt.h"
#include "runtime/pool/pool.h"
#include "support/process/launcher.h"
#include "toolchain/amdgcn.h"
#include "toolchain/halide/halide.h"
#include "toolchain/toolchain.h"
#include "toolchain/triton/triton.h"
#include "tune/identity.h"

namespace toroid::cli {
namespace {

struct Finding {
  enum class State { Good, Note, Problem };  // a note is nothing that stops a compilation
  std::string what;
  State state;
  std::string text;
  std::string mend = "";
};
using State = Finding::State;

Finding problem(std::string what, const Error& error) { return {std::move(what), State::Problem, error.message(), error.help_text()}; }

// Every compiler that toroid would take, the chosen one first: it must build a kernel that runs.
void check_compilers(std::vector<Finding>& findings) {
  std::optional<std::filesystem::path> chosen;
  CompilerCommand command;
  try {
    command = find_compiler();
    chosen = command.path;
  } catch (const Error& error) {
    findings.push_back(problem("compiler", error));
  }
  std::vector<std::filesystem::path> all;
  if (chosen) all.push_back(*chosen);
  for (const char* name : {"g++", "clang++"}) {
    const std::optional<std::filesystem::path> path = find_program(name);
    if (path && (!chosen || *path != *chosen)) all.push_back(*path);
  }
  for (const std::filesystem::path& path : all) {
    const bool is_chosen = chosen && path == *chosen;
    const std::string what = is_chosen ? "compiler" : "another compiler";
    try {
      const Toolchain tools({.compiler = is_chosen ? "" : path.string()});  // the chosen one with its launcher
      const LoadedLibrary library(tools.compile_shared("extern \"C\" int answer() { return 42; }", {.name = "doctor"}), "doctor");
      const bool works = library.function<int()>("answer")() == 42;
      findings.push_back({what, works ? State::Good : State::Problem,
                          fmt::format("{}, {}{}", path.string(), tools.compiler().version, works ? "" : ", miscompiles"),
                          works ? "" : "set TOROID_CXX to another compiler"});
      if (!is_chosen) continue;
      for (const std::filesystem::path& launcher : command.launcher)
        findings.push_back({"launcher", State::Good, fmt::format("{}, from TOROID_CXX", launcher.string())});
      if (!tools.extra_flags().empty()) {
        findings.push_back({"compiler's flags", State::Note, fmt::format("{}, from TOROID_CXXFLAGS", fmt::join(tools.extra_flags(), " "))});
      }
      const Isa reported = machine().isa;
      if (machine().name() != reported_isa().name()) {
        findings.push_back({"machine", State::Note, fmt::format("taken for one with {}, has {}", machine().name(), reported_isa().name()),
                            "unset TOROID_MACHINE to use all it has"});
      }
      try {
        refuse_missing_instructions(tools.isa(), "what TOROID_ISA names", reported);
      } catch (const Error& error) {
        findings.push_back({"instructions", State::Note, error.message(),
                            "programs compiled so run on other machines only; unset TOROID_ISA for this one"});
        continue;
      }
      const bool is_whole = tools.isa() == reported;
      findings.push_back(
          {"instructions", is_whole ? State::Good : State::Note,
           is_whole ? tools.isa().name() : fmt::format("{} of {}, which the processor reports", tools.isa().name(), reported.name()),
           is_whole ? "" : "a newer compiler may know them; TOROID_ISA, where it is set, decides"});
    } catch (const Error& error) {
      Finding finding = problem(what, error);
      if (!is_chosen) finding.state = State::Note;
      findings.push_back(std::move(finding));
    }
  }
}

void check_cache(std::vector<Finding>& findings) {
  try {
    std::string warning;
    Store store({.warn = [&](const std::string& text) { warning = text; }});
    if (!store.is_open()) {
      findings.push_back({"cache", State::Problem, warning, "make its folder writable, or set TOROID_CACHE_DIR to a folder of your own"});
      return;
    }
    const StoreStats stats = store.stats();
    const ProbeCache probes = store.probe_cache();
    probes.put("can the cache be written?", "yes");
    if (probes.get("can the cache be written?") != "yes") {
      findings.push_back({"cache", State::Problem, fmt::format("{} cannot be written: {}", store.file().string(), warning),
                          "free some space, or set TOROID_CACHE_DIR to another disk"});
      return;
    }
    if (const uint64_t damaged = store.verify(); damaged != 0) {
      findings.push_back({"cache", State::Note, fmt::format("{}: {} damaged entries, now removed", store.file().string(), damaged),
                          "check the disk if this comes again"});
      return;
    }
    findings.push_back(
        {"cache", State::Good,
         fmt::format("{}, {} entries, {} of {} bytes", store.file().string(), stats.entries, stats.bytes, stats.limit_bytes)});
  } catch (const Error& error) {
    findings.push_back(problem("cache", error));
  }
}

// Nothing to say when there is none.
void check_base(std::vector<Finding>& findings) {
  const std::optional<std::filesystem::path> file = base_from_environment();
  if (!file) return;
  try {
    ReadOnlyBase base(*file);
    const uint64_t entries = base.contents().entries, damaged = base.verify();
    findings.push_back({"read-only base", damaged == 0 ? State::Good : State::Problem,
                        fmt::format("{}, {} entries{}", file->string(), entries, damaged == 0 ? "" : fmt::format(", {} damaged", damaged)),
                        damaged == 0 ? "" : "write it again with 'toroid cache export'"});
  } catch (const Error& error) {
    findings.push_back(problem("read-only base", error));
  }
}

// The same.
void check_remote_cache(std::vector<Finding>& findings) {
  try {
    const std::optional<RemoteOptions> options = remote_options_from_environment();
    if (!options) return;
    Remote remote(*options);
    remote.check();
    const char* const use = remote.is_read_only() ? "read only" : "read and written";
    findings.push_back({"remote cache", State::Good, fmt::format("{}, {}", remote.address(), use)});
  } catch (const Error& error) {
    findings.push_back(problem("remote cache", error));
  }
}

// What --spread goes by. Nothing to say where nobody started several processes.
void check_parts(std::vector<Finding>& findings) {
  const std::optional<Launched> launched = launched_anywhere();
  if (!launched || launched->processes == 1) return;
  const char* const remote = std::getenv("TOROID_REMOTE_CACHE");
  const bool has_remote = remote != nullptr && *remote != '\0';
  findings.push_back({"parts", has_remote ? State::Good : State::Note,
                      fmt::format("{} of {}, by {}{}", launched->rank + 1, launched->processes, launched->by,
                                  has_remote ? "" : "; without a remote cache, those of one machine alone share their work"),
                      has_remote ? "" : "set TOROID_REMOTE_CACHE to a Redis or HTTP server that all machines reach"});
}

void check_memory_and_folders(std::vector<Finding>& findings) {
  try {
    const TempFolder folder;
    write_file_atomically(folder.path() / "probe", std::string_view("x"));
    findings.push_back({"temporary files", State::Good, folder.path().parent_path().string()});
  } catch (const Error& error) {
    findings.push_back(problem("temporary files", error));
  }
  if (const char* folder = std::getenv("TOROID_KEEP_FILES"); folder != nullptr && *folder != '\0') {
    findings.push_back({"kept files", State::Note, fmt::format("sources and libraries are kept in {}", folder),
                        "unset TOROID_KEEP_FILES to load libraries from memory"});
  }
}

// What is found or made when it is needed: its name, else a note of why there is none and of what is absent then.
void look_for(std::vector<Finding>& findings, const char* what, const std::function<std::string()>& name, const char* absent) {
  try {
    findings.push_back({what, State::Good, name()});
  } catch (const Error& error) {
    findings.push_back({what, State::Note, fmt::format("{}: {}", error.message(), absent), error.help_text()});
  }
}

// What compiles kernels for AMD's GPUs, which may be done where there are none.
void check_amd_compiler(std::vector<Finding>& findings) {
  look_for(findings, "ROCm compiler", amd_compiler_version, "programs for AMD's GPUs cannot be compiled");
}

// GPUs, and what programs on them are compiled with.
void check_gpus(std::vector<Finding>& findings) {
  const auto absence = cuda::absence(cuda::Vendor::Nvidia), amd_absence = cuda::absence(cuda::Vendor::Amd);
  if (absence && amd_absence) {
    findings.push_back({"GPU", State::Note, fmt::format("programs run on the CPU: {}; {}", *absence, *amd_absence)});
    return check_amd_compiler(findings);
  }
  const bool is_amd = absence.has_value();
  cuda::use(is_amd ? cuda::Vendor::Amd : cuda::Vendor::Nvidia);
  for (int number = 0; number < cuda::Device::count(); ++number) {
    const cuda::Device& device = cuda::Device::get(number);
    findings.push_back({fmt::format("GPU {}", number), State::Good,
                        fmt::format("{}, {}", device.name(), cuda::architecture_of(device.compute_capability()))});
  }
  if (is_amd) {
    check_amd_compiler(findings);
  } else {
    look_for(findings, "CUDA compiler", nvrtc_version, "programs for GPUs cannot be compiled");
  }
  look_for(
      findings, is_amd ? "ROCm products" : "CUDA products", [] { return cuda::blas_lt().name; },
      is_amd ? "products are slower" : "programs with products do not run on GPUs");
  if (is_amd) return;
  look_for(
      findings, "cuDNN", [] { return "version " + cuda::cudnn::version(); }, "tuning for GPUs is without its convolutions and attention");
}

// What is opened by name at run time: present or not, never a problem by itself.
void check_libraries(std::vector<Finding>& findings) {
  constexpr const char* kVectorFunctions = "libmvec.so.1";
  void* const handle = ::dlopen(kVectorFunctions, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) {
    findings.push_back({"vector functions", State::Good, kVectorFunctions});
    ::dlclose(handle);
  } else {
    findings.push_back(
        {"vector functions", State::Problem, fmt::format("{} cannot be opened", kVectorFunctions), "install the C library whole (libc6)"});
  }
  look_for(
      findings, "processes", [] { return "MPI: " + collectives::open_mpi(); }, "programs of several processes do not run");
  findings.push_back({"threads", State::Good, fmt::format("{}", RuntimePool::threads_for(0))});
  findings.push_back({"tuned for", State::Good, tune::identity_of_this_machine().machine});
}

}  // namespace

int cmd_doctor(int argc, const char* const* argv) {
  Flags flags("toroid doctor", "Checks what toroid needs of this machine and says how to mend it; exit status 1 when something is wrong.");
  bool as_json = false;
  flags.add_flag("--json", as_json, "print JSON");
  if (const auto status = flags.read(argc, argv)) return *status;

  std::vector<Finding> findings;
  check_compilers(findings);
  check_cache(findings);
  check_base(findings);
  check_remote_cache(findings);
  check_parts(findings);
  check_memory_and_folders(findings);
  check_libraries(findings);
  check_gpus(findings);
  look_for(findings, "Triton", triton_version, "kernels in Triton cannot be compiled");
  look_for(findings, "Halide", halide_version, "kernels in Halide cannot be compiled");
  bool is_well = true;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Finding& each : findings) {
    constexpr const char* kStates[] = {"ok", "note", "problem"};
    const char* const state = kStates[static_cast<size_t>(each.state)];
    is_well = is_well && each.state != State::Problem;
    json.push_back({{"what", each.what}, {"state", state}, {"text", each.text}, {"mend", each.mend}});
    if (as_json) continue;
    fmt::print("{:<8} {:<17} {}\n", state, each.what, each.text);
    if (!each.mend.empty()) fmt::print("{:26} mend: {}\n", "", each.mend);
  }
  if (as_json) fmt::print("{}\n", json_text(json));
  return is_well ? 0 : 1;
}

}  // namespace toroid::cli
