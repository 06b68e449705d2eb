#include "driver/compile_options.h"

#include <charconv>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/choices/choose_ways.h"
#include "driver/gpu_binaries.h"
#include "driver/graph_cache.h"
#include "driver/halide_objects.h"
#include "driver/triton_binaries.h"
#include "passes/pipeline.h"
#include "runtime/cuda/device.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/pool/pool.h"
#include "support/hash.h"
#include "support/text/number.h"
#include "toolchain/amdgcn.h"
#include "toolchain/extra_flags.h"
#include "toolchain/random_delays.h"

namespace toroid {
namespace {

// What of these options decides the program: with the libraries that may compete, for a program is not to be found where they are not.
std::string choices_text(const ChooseOptions& options) {
  if (!options.is_asked()) return "";
  const std::string onednn = onednn_absence().value_or("with oneDNN");
  if (options.lock) return fmt::format("lock {}, {}", sha256(options.lock->text()).hex(), onednn);
  return fmt::format("measured for {} threads, {}, on {}", RuntimePool::threads_for(options.threads), onednn,
                     tune::identity_of_this_machine().machine);
}

// The same of a program for a GPU, where it is measured on one.
std::string choices_text(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu || !options.choose.is_asked()) {
    const std::string chosen = choices_text(options.choose);
    if (chosen.empty() || !options.halide_competes) return chosen;
    return fmt::format("{}, with {}, within {} s", chosen, halide_part(true), options.choose.limit_s);
  }
  if (!is_device(options.target)) return fmt::format("{}, within {} s", choices_text(options.choose), options.choose.limit_s);
  if (options.choose.lock) return fmt::format("lock {}", sha256(options.choose.lock->text()).hex());
  const tune::Identity identity = identity_of_gpu(options);
  return fmt::format("measured on {}, {}, within {} s", identity.machine, identity.isa, options.choose.limit_s);
}

std::string package_text(const CompileModelOptions& options) {
  const std::optional<RunSide> run_side = run_side_of(options);
  if (!run_side) return "";
  std::string levels;
  for (const Isa& isa : *options.package) levels += " " + isa.name();
  return fmt::format("package for{}{}, with {}", levels.empty() ? " " + machine().name() : levels,
                     fmt::format("{}{}", options.is_portable ? " and others" : "",
                                 options.archive_prefix.empty() ? "" : ", as an object of " + options.archive_prefix),
                     run_side->fingerprint);
}

// What is for processors alone.
void refuse_for_gpus(const CompileModelOptions& options) {
  if (options.assertions && !options.halide.empty())
    throw Error(ErrorKind::InvalidOption, "there are no checks of each access for kernels in Halide").help("compile for the device cpu");
  if (options.target == codegen::Target::Cpu || !options.assertions) return;
  throw Error(ErrorKind::InvalidOption, "there are no checks of each access for programs on a GPU yet").help("compile for the device cpu");
}

// Ways are measured on the GPU that they are for.
void refuse_to_measure_for_others(const CompileModelOptions& options) {
  if (is_amd(options.target) && options.choose.measure) {
    throw Error(ErrorKind::InvalidOption, "nothing is measured on AMD's GPUs yet").help("compile with --mode default");
  }
  if (options.target != codegen::Target::Cuda || !options.choose.measure || options.choose.lock) return;
  const int own = cuda::Device::get(options.gpu).compute_capability();
  for (const std::string& each : architectures_of(options)) {
    if (capability_of(each) == own) continue;
    throw Error(ErrorKind::InvalidOption, fmt::format("nothing can be measured for {}: the GPU that is here is sm_{}", each, own))
        .help("measure on such a GPU with --write-lock, and give the file with --lock here");
  }
}

// The levels of a package: "native", "portable", or their instruction sets, in any order. The most demanding first.
std::vector<Isa> levels_of_text(std::string_view text) {
  if (text == "native") return {};
  if (text == "portable") text = "baseline,avx2,avx512";
  std::vector<Isa> levels;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    levels.push_back(parse_isa(part == "amx" ? "avx512+vnni+bf16+amx" : part));
  }
  // One that needs more than another comes before it.
  const auto demands = [](const Isa& isa) { return std::pair(isa.level, isa.vnni + isa.bf16 + isa.fp16 + isa.amx); };
  std::ranges::stable_sort(levels, std::greater(), demands);
  const auto same = std::ranges::unique(levels);
  levels.erase(same.begin(), same.end());
  return levels;
}

// "0,2,4-7".
std::optional<std::vector<int64_t>> ranks_of(std::string_view text) {
  constexpr int64_t kMostRanks = 1 << 20;
  std::vector<int64_t> ranks;
  for (;;) {
    const std::string_view part = text.substr(0, text.find(','));
    const size_t dash = part.find('-');
    const auto first = number_of(part.substr(0, dash)), last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMostRanks) return std::nullopt;
    for (int64_t rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    if (part.size() == text.size()) return ranks;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

bool may_halide_compete() {
  const char* const named = std::getenv("TOROID_HALIDE_PYTHON");
  return named != nullptr && *named != '\0';
}

CompileOptions compiler_options(const CompileModelOptions& options) {
  check_extra_flags(options.compiler_flags);
  // Emulated kernels are tested, not timed: g++ takes a third of the time.
  const int optimization = is_emulated(options.target) ? 0 : options.optimization;
  return {.optimization = optimization, .debug = options.debug, .extra_flags = options.compiler_flags};
}

std::optional<RunSide> run_side_of(const CompileModelOptions& options, Whole whole) {
  return options.package && !is_emulated(options.target) ? find_run_side(whole) : std::nullopt;
}

std::string target_text(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) {
    const std::string package = package_text(options);
    if (options.halide.empty()) return package;
    return fmt::format("{}{}kernels in {}, by {}", package, package.empty() ? "" : ", ", halide_part(true), options.halide);
  }
  const std::string_view placed = options.as_exported ? ", as exported" : "";
  if (is_emulated(options.target))
    return fmt::format("emulated {} {}{}", is_amd(options.target) ? "ROCm" : "CUDA", fmt::join(options.architectures, " "), placed);
  const std::string package = package_text(options), triton = triton_part(options.in_triton);
  return fmt::format("{}{}, {}, {}{}{}{}{}{}", is_amd(options.target) ? "ROCm" : "CUDA", placed, fmt::join(architectures_of(options), " "),
                     gpu_compiler_version(is_amd(options.target)), triton.empty() ? "" : ", kernels in ", triton,
                     has_random_delays() ? ", with random delays" : "", package.empty() ? "" : ", ", package);
}

GraphKeyParts key_parts(const CompileModelOptions& options) {
  check_left_out(options.without_passes);
  refuse_for_gpus(options);
  refuse_to_measure_for_others(options);
  return {.optimise = options.optimise,
          .without_passes = options.without_passes,
          .profile = options.profile,
          .assertions = options.assertions,
          .compiler = compiler_options(options),
          .variants = options.variants,
          .forms = forms_of(options),
          .target = target_text(options),
          .choices = choices_text(options),
          .process_groups = options.process_groups};
}

std::vector<Isa> levels_for(const CompileModelOptions& options, const Isa& here) {
  return options.package && !options.package->empty() ? *options.package : std::vector<Isa>{here};
}

std::map<std::string, std::vector<int64_t>> process_groups_of(const CompileModelOptions& options) {
  std::map<std::string, std::vector<int64_t>> groups;
  for (const std::string& text : options.process_groups) {
    const size_t equals = text.find('=');
    const auto ranks = equals == std::string::npos || equals == 0 ? std::nullopt : ranks_of(std::string_view(text).substr(equals + 1));
    if (!ranks) {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no group of processes", text))
          .help("give a name and ranks: --group row=0,1 --group all=0-3");
    }
    groups[text.substr(0, equals)] = *ranks;
  }
  return groups;
}

schedule::Forms forms_of(const CompileModelOptions& options) {
  if (options.forms) return *options.forms;
  if (const char* variable = std::getenv("TOROID_FORMS"); variable != nullptr && *variable != '\0') {
    if (const auto forms = schedule::parse_forms(variable)) return *forms;
    throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_FORMS is '{}'", variable))
        .help("it may be measured, estimated, persistent or looped");
  }
  return options.choose.lock ? schedule::Forms::Estimated : schedule::Forms::Measured;
}

std::shared_ptr<CustomOperators> find_operators(const std::filesystem::path& model, const CompileModelOptions& options) {
  OperatorFolders folders{.trusted = {options.operators.begin(), options.operators.end()}};
  if (const char* variable = std::getenv("TOROID_OPERATORS"); variable != nullptr) {
    for (std::string_view rest = variable; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      if (!folder.empty()) folders.trusted.emplace_back(folder);
    }
  }
  folders.beside_model = model.has_parent_path() ? model.parent_path() : ".";
  folders.for_gpu = options.target != codegen::Target::Cpu;
  folders.is_emulated = is_emulated(options.target);
  folders.for_amd = is_amd(options.target);
  return std::make_shared<CustomOperators>(std::move(folders));
}

tune::TunerOptions tuner_options(const ChooseOptions& options) {
  tune::TunerOptions result;
  result.lock = options.lock;  // then nothing is measured
  result.mode = options.lock ? tune::Mode::Default : tune::Mode::Max;
  result.measure.threads = RuntimePool::threads_for(options.threads);
  if (!options.lock) result.worker.argv = options.worker.empty() ? tune::own_tuning_worker() : options.worker;
  return result;
}

tune::TunerOptions tuner_options(const CompileModelOptions& options) {
  tune::TunerOptions result = tuner_options(options.choose);
  if (options.target != codegen::Target::Cpu) choose_on_gpus(result, options);
  if (options.part) result.part = *options.part;
  return result;
}

// A program for a GPU does on the processor what any does as well, but for library kernels, which choose by themselves.
void set_levels(CompileModelOptions& options, std::string_view text) {
  const bool is_for_gpu = is_device(options.target);
  options.package = levels_of_text(is_for_gpu ? "baseline" : text);
  options.is_portable = is_for_gpu || text == "portable";
}

void set_device(CompileModelOptions& options, std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':')), number = name.substr(std::min(name.size(), kind.size() + 1));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.gpu);
  const bool has_number = error == std::errc() && end == number.data() + number.size() && options.gpu >= 0;
  options.in_triton = kind == "triton";
  options.as_exported = kind == "as-exported" || name == "emulated-as-exported";
  options.halide.clear();
  if (name == "cpu") {
    options.target = codegen::Target::Cpu;
  } else if (kind == "halide") {
    options.target = codegen::Target::Cpu;
    options.gpu = 0;
    options.halide = name == kind ? default_halide_autoscheduler() : halide_autoscheduler(number);
  } else if (name == "cuda" || name == "triton" || name == "as-exported" ||
             ((kind == "cuda" || kind == "triton" || kind == "as-exported") && has_number)) {
    options.target = codegen::Target::Cuda;
  } else if (name == "emulated-cuda" || name == "emulated-as-exported") {
    options.target = codegen::Target::EmulatedCuda;
  } else if (name == "rocm" || (kind == "rocm" && has_number)) {
    options.target = codegen::Target::Rocm;
  } else if (name == "emulated-rocm" || kind == "emulated-rocm") {
    options.target = codegen::Target::EmulatedRocm;
    if (name != kind) options.architectures = parse_architectures(number, options.target);
  } else {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no device '{}'", name))
        .help(
            "devices: cpu, halide (a processor with kernels in Halide; or halide:adams2019, by its autoscheduler), cuda (or cuda:1, by its "
            "number), triton (a GPU of NVIDIA with kernels in Triton), as-exported (tensors stay on the CPU or the GPU, as the model has "
            "them), "
            "rocm (or rocm:1), emulated-cuda, emulated-as-exported, emulated-rocm (or emulated-rocm:gfx1100)");
  }
}

}  // namespace toroid
