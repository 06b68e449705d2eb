#include "driver/choices/choose_ways.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "driver/build_library.h"
#include "driver/choices/halide_kernels.h"
#include "driver/gpu_binaries.h"
#include "driver/pipeline/generated_variant.h"
#include "lower/convolutions/filter_gradient.h"
#include "program/module.h"
#include "runtime/cuda/cudnn/api.h"
#include "runtime/cuda/device.h"
#include "schedule/axes.h"
#include "schedule/call_arguments.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/ways/step_alone.h"
#include "schedule/cuda/ways/ways.h"
#include "support/hash.h"
#include "support/log.h"
#include "support/process/thread_pool.h"
#include "tune/measure/program_trial.h"

namespace toroid {
namespace {

// A way that is quicker by less is not taken: what differs so little differs by chance.
constexpr double kLeastGain = 1.015;
// Of the time of all steps: what takes less is no problem.
constexpr double kLeastShare = 0.003;

// Steps that are equal but for names, and the ways of each.
struct StepProblem {
  std::string name;
  std::vector<std::pair<size_t, std::vector<schedule::Way>>> steps;  // positions in the schedule
  const std::vector<schedule::Way>& ways() const { return steps.front().second; }
  double seconds() const { return static_cast<double>(steps.size()) * ways().front().seconds; }
};

std::string kind_of(const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  if (call == nullptr) return "rows";
  std::string name = schedule::call_arguments(call->call).name;
  for (size_t colons = name.find("::"); colons != std::string::npos; colons = name.find("::")) name.replace(colons, 2, ".");  // a user's
  return name;
}

OperandMeta meta_of_buffer(const loop::Buffer& buffer) {
  OperandMeta meta{.dtype = buffer.dtype, .sizes = {}, .strides = {}};
  for (sym::Expr size : buffer.sizes) meta.sizes.push_back(size.value());
  for (sym::Expr stride : buffer.strides) meta.strides.push_back(stride.value());
  return meta;
}

// "gpu.matmul.bf16(bf16[64, 64], bf16[64, 64]) -> bf16[64, 64]; epilogue; step 5f0c…", or "cpu.rows…" of a processor
std::string name_of_problem(const loop::LoopProgram& loops, const schedule::Step& step, bool is_for_gpu) {
  Problem problem;
  for (schedule::BufferId id : schedule::reads_of(step)) problem.inputs.push_back(meta_of_buffer(loops.buffer(id)));
  for (schedule::BufferId id : schedule::writes_of(step)) problem.outputs.push_back(meta_of_buffer(loops.buffer(id)));
  problem.family = fmt::format("{}.{}.{}", is_for_gpu ? "gpu" : "cpu", kind_of(step), to_string(problem.outputs.at(0).dtype));
  const auto* call = std::get_if<schedule::CallStep>(&step);
  problem.has_epilogue = call != nullptr && call->epilogue.has_value();
  constexpr size_t kDigits = 16;
  return fmt::format("{}; step {}", to_string(problem), sha256(schedule::text_without_names(loops, step)).hex().substr(0, kDigits));
}

std::string family_of_problem(const std::string& name) { return name.substr(0, name.find('(')); }

// Of a kernel of the user's own it is not known what it sums.
int64_t longest_of(const std::vector<loop::Operand>& operands) {
  int64_t longest = 1;
  for (const loop::Operand& each : operands) {
    for (sym::Expr size : each.sizes) longest = std::max(longest, size.value());
  }
  return longest;
}

// Terms of the sums that decide how far results may differ.
int64_t depth_of(const schedule::Step& step) {
  if (const auto* kernel = std::get_if<schedule::Kernel>(&step))
    return std::max<int64_t>(sym::evaluate_hint(schedule::product_of_extents(kernel->inner)), 1);
  if (const auto* call = std::get_if<schedule::CallStep>(&step)) {
    const std::vector<loop::Operand>& in = call->call.operands;
    if (std::holds_alternative<Library>(call->call.op)) return longest_of(in);
    if (std::holds_alternative<Matmul>(call->call.op)) return in[0].sizes.back().value();
    if (std::holds_alternative<Attention>(call->call.op)) return in[1].sizes[in[1].sizes.size() - 2].value();
    // Of a convolution a filter, without the number of filters; of a gradient of filters the results of a channel.
    const size_t left_out = std::holds_alternative<Convolution>(call->call.op) ? 0 : 1;
    int64_t depth = 1;
    for (size_t d = 0; d < in[1].sizes.size(); ++d) depth *= d == left_out ? 1 : in[1].sizes[d].value();
    return depth;
  }
  return 1;
}

// Sums that one way makes in several parts another one may make at once.
int64_t parts_of(const loop::LoopProgram& loops, const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  return call != nullptr && is_library(call->call.op, kFilterGradient) ? loops.buffer(call->outputs[0]).sizes[0].value() : 1;
}

// The dtype of the step's sums, which may be narrower than its results: parts of float32 are kept in float64.
std::optional<DType> dtype_of_sums(const schedule::Step& step) {
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  if (kernel == nullptr) return std::nullopt;
  std::optional<DType> narrowest;
  for (const schedule::Accumulator& each : kernel->accumulators) {
    if (is_floating(each.dtype) && (!narrowest || size_bytes(each.dtype) < size_bytes(*narrowest))) narrowest = each.dtype;
  }
  return narrowest;
}

// Where the program is compiled for another machine, by a lock, that may have cuDNN.
bool may_use_cudnn(const CompileModelOptions& options) {
  return options.target == codegen::Target::Cuda && (options.choose.lock || !cuda::cudnn::absence());
}

// Of a program with tensors on both devices: is all of it in the GPU's memory?
bool is_away_from_host(const loop::LoopProgram& loops, const schedule::Step& step) {
  const auto is_away = [&](schedule::BufferId id) { return !loops.buffer(id).on_host; };
  return std::ranges::all_of(schedule::reads_of(step), is_away) && std::ranges::all_of(schedule::writes_of(step), is_away);
}

// A kernel of a processor: in C++, or in Halide by each of its autoschedulers. The C++ is what has to be beaten: estimates are equal.
std::vector<schedule::Way> ways_of_processor(const loop::LoopProgram& loops, const schedule::Step& step) {
  const double seconds = schedule::seconds_of(loops, step);
  std::vector<schedule::Way> ways = {{"cpp", seconds, step}};
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  if (kernel == nullptr) return ways;
  for (const char* name : {"mullapudi2016", "li2018", "adams2019"}) {
    auto taken = in_halide(loops, *kernel, halide_autoscheduler(name));
    if (auto* made = std::get_if<schedule::Kernel>(&taken)) ways.push_back({fmt::format("halide-{}", name), seconds, std::move(*made)});
  }
  return ways;
}

std::vector<StepProblem> problems_of(schedule::Schedule& schedule, schedule::TensorCores cores, bool with_cudnn, bool is_for_gpu) {
  std::vector<StepProblem> problems;
  std::map<std::string, size_t> known;
  double total_s = 0;
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const schedule::Step& step = schedule.steps[s];
    total_s += schedule::seconds_of(*schedule.loops, step);
    if (!schedule::can_be_alone(*schedule.loops, step) || !is_away_from_host(*schedule.loops, step)) continue;
    std::vector<schedule::Way> ways =
        is_for_gpu ? schedule::ways_of(*schedule.loops, step, cores, with_cudnn) : ways_of_processor(*schedule.loops, step);
    if (ways.size() < 2) continue;
    std::string name = name_of_problem(*schedule.loops, step, is_for_gpu);
    const auto [found, is_new] = known.try_emplace(name, problems.size());
    if (is_new) problems.push_back({std::move(name), {}});
    problems[found->second].steps.emplace_back(s, std::move(ways));
  }
  const double least = kLeastShare * total_s;
  std::erase_if(problems, [&](const StepProblem& problem) { return problem.seconds() < least; });
  std::ranges::stable_sort(problems, std::greater(), &StepProblem::seconds);
  return problems;
}

// The libraries of the ways that are measured, compiled while others are tried.
class Libraries {
 public:
  Libraries(const Program& program, const loop::LoopProgram& loops, const std::vector<StepProblem>& problems, const WaysOptions& how)
      : program_(program), loops_(loops), problems_(problems), how_(how), made_(problems.size()) {}
  ~Libraries() { is_over_ = true; }

  std::filesystem::path folder_of(size_t problem) const { return folder_.path() / std::to_string(problem); }

  // In this order, those that are not begun yet.
  void begin(const std::vector<size_t>& problems) {
    const std::lock_guard lock(beginning_);
    if (!pool_) pool_.emplace(static_cast<size_t>(std::max(1, how_.threads)));
    for (size_t problem : problems) {
      if (!made_[problem].empty()) continue;
      std::filesystem::create_directory(folder_of(problem));
      for (const schedule::Way& way : problems_[problem].ways()) {
        auto sources =
            std::make_shared<const LibrarySources>(sources_of_step(program_, loops_, schedule::only_by_cudnn(way.step), how_.options));
        made_[problem].push_back(pool_->submit([this, problem, &way, sources] { return make(problem, way, *sources); }));
      }
    }
  }

  // Why ways have no library, by name.
  std::map<std::string, std::string> wait(size_t problem) {
    begin({problem});  // another process's share
    std::map<std::string, std::string> reasons;
    for (size_t i = 0; i < made_[problem].size(); ++i) {
      const std::string reason = made_[problem][i].get();
      if (!reason.empty()) reasons[problems_[problem].ways()[i].name] = reason;
    }
    return reasons;
  }

 private:
  // "" or why not.
  std::string make(size_t problem, const schedule::Way& way, const LibrarySources& sources) {
    if (is_over_) return "the time was up";
    try {
      std::mutex telling;
      std::string spills;
      const std::string library =
          build_library(sources, *how_.tools, 1, {.optimization = 2, .kept = &failed_}, [&](const KernelResources& kernel) {
            const std::lock_guard lock(telling);
            if (kernel.spilled_bytes > 0) spills = fmt::format("its kernel spills {} bytes of registers", kernel.spilled_bytes);
          });
      const bool is_default = &way == &problems_[problem].ways().front();
      if (!spills.empty() && !is_default) return spills;
      write_file_atomically(folder_of(problem) / (way.name + ".so"), std::string_view(library));
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  }

  const Program& program_;
  const loop::LoopProgram& loops_;
  const std::vector<StepProblem>& problems_;
  const WaysOptions& how_;
  TempFolder folder_{"toroid-ways"};
  KeptSources failed_{folder_.path()};  // a way that does not compile is left out, and its source with it
  std::atomic<bool> is_over_ = false;
  std::mutex beginning_;
  std::vector<std::vector<std::future<std::string>>> made_;  // by problem and way
  std::optional<ThreadPool> pool_;                           // its destructor waits
};

OperandMeta operand_of_elements(const TensorType& type) { return contiguous_operand(type.dtype, {type.sizes[0].value()}); }

tune::Question question_about(const Program& program, const loop::LoopProgram& loops, const StepProblem& problem,
                              std::filesystem::path folder) {
  const schedule::Step& step = problem.ways().front().step;
  tune::Question question{.problem = problem.name, .family = family_of_problem(problem.name), .choices = {}, .least_gain = kLeastGain};
  for (const schedule::Way& way : problem.ways()) question.choices.push_back({.name = way.name, .description = "", .cost_s = way.seconds});
  tune::ProgramsToTry programs;
  programs.tensors.family = question.family;
  programs.folder = std::move(folder);
  const schedule::StepAlone alone = schedule::step_alone(program, loops, step);
  const Graph& graph = alone.program.graph;
  for (ValueId id : graph.inputs) programs.tensors.inputs.push_back(operand_of_elements(graph.type(id)));
  for (ValueId id : graph.outputs) programs.tensors.outputs.push_back(operand_of_elements(graph.type(id)));
  programs.tensors.integers = {depth_of(step), parts_of(loops, step)};
  if (const auto sums = dtype_of_sums(step)) programs.tensors.integers.push_back(static_cast<int64_t>(*sums));
  for (const auto* list : {&programs.tensors.inputs, &programs.tensors.outputs}) {
    for (const OperandMeta& each : *list) question.needed_bytes += 2 * static_cast<double>(each.extent_bytes());
  }
  question.trial = to_string(programs);
  return question;
}

}  // namespace

LibrarySources sources_of_step(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step,
                               const CompileModelOptions& options) {
  schedule::StepAlone alone = schedule::step_alone(program, loops, step);
  const program::Device device = options.target == codegen::Target::Cpu ? program::Device::Cpu : program::Device::Cuda;
  program::Module module = program::make_module(alone.graphs, alone.program, {.device = device});
  std::vector<GeneratedVariant> variants;
  codegen::GeneratedProgram code =
      codegen::generate(std::move(module), alone.graphs, alone.program, {.target = options.target, .wave = wave_of(options)});
  variants.push_back({{}, std::move(alone.program), std::move(code)});
  codegen::GeneratedProgram& made = variants[0].code;
  LibrarySources sources{.units = std::move(made.units),
                         .gpu = {.units = std::move(made.gpu_units), .triton = std::move(made.triton_units)},
                         .halide = {.pipelines = std::move(made.halide_pipelines)}};
  sources.units.back() += tables_text(variants, ConstantTable(variants));
  if (is_device(options.target)) {
    if (sources.gpu.units.empty()) sources.gpu.units.push_back("");  // a call of the library
    sources.gpu.binaries = binaries_of(sources.gpu.units.size(), sources.gpu.triton.size(), architectures_of(options));
    sources.units.back() += codegen::gpu_tables(sources.gpu.binaries, made.draws);
  }
  codegen::add_prelude(sources.units, made);
  return sources;
}

tune::Identity identity_of_gpu(const CompileModelOptions& options) {
  tune::Identity identity = tune::identity_of_this_machine();
  if (!is_device(options.target)) return identity;
  const std::vector<std::string> architectures = architectures_of(options);
  identity.isa = fmt::format("{}, {}", fmt::join(architectures, " "), gpu_compiler_version(is_amd(options.target)));
  if (!is_amd(options.target) && !options.choose.lock && !cuda::cudnn::absence()) identity.isa += ", cuDNN " + cuda::cudnn::version();
  if (!options.choose.lock) identity.machine = cuda::Device::get(options.gpu).name();
  return identity;
}

void choose_on_gpus(tune::TunerOptions& tuning, const CompileModelOptions& options) {
  tuning.identity = identity_of_gpu(options);
  // Rounds that a GPU has of: caches are emptied before each run, which takes longer than most.
  tuning.measure.rounds = {.round_s = 2e-3, .most_repetitions = 20, .limit_s = 1.5};
  if (tuning.worker.argv.empty()) return;
  tuning.worker.start_timeout = std::chrono::seconds(20);
  if (!is_device(options.target)) return;
  const tune::WorkerOptions any = tuning.worker;
  const auto on_gpu = [&](int gpu) {
    tune::WorkerOptions worker = any;
    worker.argv.insert(worker.argv.end(), {"--gpu", std::to_string(gpu)});
    return worker;
  };
  tuning.worker = on_gpu(options.gpu);
  const std::string name = cuda::Device::get(options.gpu).name();
  for (int gpu = 0; gpu < cuda::Device::count(); ++gpu) {
    if (gpu != options.gpu && cuda::Device::get(gpu).name() == name) tuning.others.push_back(on_gpu(gpu));
  }
}

void keep_products(tune::TunerOptions& tuning) {
  const auto keep = [](tune::WorkerOptions& worker) {
    if (!worker.argv.empty()) worker.argv.emplace_back("--keep-products");
  };
  keep(tuning.worker);
  std::ranges::for_each(tuning.others, keep);
}

void choose_ways(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner, const WaysOptions& how) {
  schedule::Schedule& schedule = graphs[0].schedule;
  const bool is_for_gpu = how.options.target != codegen::Target::Cpu;
  const std::vector<StepProblem> problems = is_for_gpu ? problems_of(schedule, tensor_cores(how.options), may_use_cudnn(how.options), true)
                                                       : problems_of(schedule, schedule::TensorCores::None, false, false);
  Libraries libraries(program, *schedule.loops, problems, how);
  std::vector<tune::Question> questions;
  for (const StepProblem& problem : problems) {
    const size_t position = questions.size();
    questions.push_back(question_about(program, *schedule.loops, problem, libraries.folder_of(position)));
    questions.back().prepare = [&libraries, position] { return libraries.wait(position); };
  }
  const std::vector<const tune::Decision*> decisions =
      tuner.choose_all(questions, how.options.choose.limit_s / static_cast<double>(1 + how.options.variants.size()),
                       [&](const std::vector<size_t>& positions) { libraries.begin(positions); });
  for (size_t p = 0; p < problems.size(); ++p) {
    for (const auto& [position, ways] : problems[p].steps) {
      const auto way = std::ranges::find(ways, decisions[p]->choice, &schedule::Way::name);
      TOROID_CHECK(way != ways.end(), "'{}' has no way '{}'", problems[p].name, decisions[p]->choice);
      schedule.steps[position] = way->step;
    }
  }
}

}  // namespace toroid
