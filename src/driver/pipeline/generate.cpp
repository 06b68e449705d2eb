#include "driver/pipeline/generate.h"

#include "base/machine/machine.h"
#include "driver/choices/choose_kernels.h"
#include "driver/choices/choose_ways.h"
#include "driver/choices/halide_kernels.h"
#include "driver/choices/triton_kernels.h"
#include "driver/gpu_binaries.h"
#include "driver/pipeline/pass_costs.h"
#include "driver/pipeline/take_part.h"
#include "graph/text/text.h"
#include "lower/text.h"
#include "passes/attention/expand_attention.h"
#include "passes/attention/fold_masks.h"
#include "passes/attention/merge_attention.h"
#include "passes/attention/merge_gradient.h"
#include "passes/attention/write_scores.h"
#include "passes/dead_code.h"
#include "passes/devices/placement.h"
#include "passes/pipeline.h"
#include "program/text.h"
#include "runtime/kernels/registry/registry.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/products/few_rows_tiled.h"
#include "schedule/planner.h"
#include "schedule/text/text.h"

namespace toroid {
namespace {

// Files for so many compilers, wherever they run: the sources are then the same for any number of parts, and of cores.
constexpr int kUnitsOfParts = 16;
// The waits and the copy out of the mailbox make a swap some 30 us longer than its bytes take; reductions of less are left to NCCL.
constexpr double kSwappedFromBytes = 1 << 20;

LowerOptions lower_options(const CompileModelOptions& options) {
  LowerOptions lowering = {.realise_all = !options.optimise};
  if (options.target == codegen::Target::Cpu) return lowering;
  const schedule::TensorCores cores = tensor_cores(options);
  const bool has_cores = cores != schedule::TensorCores::None;
  lowering.convolutions_as_loops = true;
  lowering.integer_products_as_loops = true;
  lowering.products_of_narrow = is_device(options.target);
  lowering.products_of_float8 = cores == schedule::TensorCores::Hopper;
  lowering.narrow_weights = has_cores ? NarrowWeights::KeptForFewRows : NarrowWeights::Widened;
  if (cores == schedule::TensorCores::Hopper) lowering.most_rows_of_narrow_weights = schedule::kMostTiledRows;
  lowering.convolutions_in_tiles = has_cores;
  lowering.least_recomputed_bytes = int64_t{1} << 20;
  lowering.recomputes_functions = true;
  lowering.gathers_before_reductions = true;
  static const LowerOptions fused_on_host, apart_on_host = {.realise_all = true};
  if (options.as_exported) lowering.of_host = options.optimise ? &fused_on_host : &apart_on_host;
  return lowering;
}

const schedule::Planner& planner_of(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) return schedule::cpu_planner();
  const schedule::Planner& gpu = schedule::cuda_planner(tensor_cores(options), limits_of(options));
  return options.as_exported ? schedule::mixed_planner(gpu) : gpu;
}

// Tensors stay where the model has them, and what crosses is copied; or all are in one place.
void place_tensors(Program& program, const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) return;
  if (!options.as_exported) return place_together(program);
  const Placement placement = placement_of(program);
  if (placement != Placement::Mixed) {
    const bool on_cpu = placement == Placement::OnCpu;
    throw Error(ErrorKind::InvalidOption, fmt::format("all tensors of the model are on {}", on_cpu ? "the CPU" : "a GPU"))
        .help(on_cpu ? "compile with --device cpu, or with --device cuda, which moves them to a GPU" : "compile with --device cuda");
  }
  make_copies_explicit(program);
}

// On a GPU, attentions that one kernel computes become what that kernel takes; others are written out.
void take_attention_kernels(Program& program, const CompileModelOptions& options, Dumps& dumps) {
  const bool has_any = tensor_cores(options) != schedule::TensorCores::None;
  const auto is_here = [&](const TensorType& type) { return !options.as_exported || is_on_gpu(type); };
  const auto has_kernel = [&](const TensorType& q, const TensorType& v) {
    return has_any && is_here(q) && schedule::has_attention_kernel(q, v);
  };
  // The host's library has one for all.
  const auto has_kernel_for = [&](const Graph& graph, const Node& node) {
    if (!is_here(graph.type(node.inputs[0]))) return true;
    return has_any && schedule::has_attention_kernel(graph, node);
  };
  const auto has_gradient_kernel = [&](const TensorType& q, const TensorType& v) {
    return has_any && is_here(q) && schedule::has_attention_gradient_kernel(q, v);
  };
  const auto dump = [&](std::string_view pass) { dumps.write(pass, [&] { return to_text(program, {.provenance = true}); }); };
  if (options.optimise && write_scores(program, has_kernel)) {
    remove_dead_code(program);
    dump("write-scores");
  }
  if (options.optimise && merge_attention(program, has_kernel)) {
    fold_masks(program);
    remove_dead_code(program);
    dump("merge-attention");
  }
  if (expand_attention(program, has_kernel_for)) dump("expand-attention");
  if (options.optimise && merge_attention_gradients(program, has_gradient_kernel)) {
    remove_dead_code(program);
    dump("merge-attention-gradients");
  }
  if (options.optimise && merge_dropped_attention(program, has_kernel)) {
    remove_dead_code(program);
    dump("merge-dropped-attention");
  }
}

}  // namespace

GeneratedVariant generate(const SizeValues& when, Program program, const CompileModelOptions& options, const Isa& isa, int threads,
                          std::string_view suffix, Dumps& dumps, PhaseClock& clock, const Choosing& choosing) {
  const bool is_for_gpu = options.target != codegen::Target::Cpu;
  dumps.write("import", [&] { return to_text(program, {.provenance = true}); });
  place_tensors(program, options);
  PassCosts costs = is_for_gpu ? gpu_pass_costs() : pass_costs();
  costs.beside = costs_beside(options);
  if (costs.beside && options.target == codegen::Target::Cuda) costs.swapped_from_bytes = kSwappedFromBytes;
  costs.byte_convolutions = is_for_gpu ? ByteConvolutions::None : byte_convolutions(isa);
  costs.sums_elements = costs.flips_filters = costs.has_backward_weights = costs.resamples_by_dims = !is_for_gpu;
  run_passes(program, {.optimise = options.optimise,
                       .without = options.without_passes,
                       .costs = std::move(costs),
                       .changed = [&](const Pass& pass,
                                      const Program& now) { dumps.write(pass.name, [&] { return to_text(now, {.provenance = true}); }); },
                       .timed = [&](const Pass& pass, double seconds) { clock.add(pass.name, seconds); }});
  clock.restart();
  if (options.as_exported) assign_devices(program);
  if (is_for_gpu) take_attention_kernels(program, options, dumps);
  if (options.as_exported) {
    assign_devices(program);  // to what was written out
    dumps.write("devices", [&] { return to_text(program, {.provenance = true}); });
  }

  std::vector<LoweredGraph> lowered = lower(program, lower_options(options));
  clock.done("lower");
  dumps.write("loops", [&] { return loops_text(program, lowered); });

  std::vector<schedule::ScheduledGraph> scheduled =
      schedule::schedule_graphs(std::move(lowered), options.optimise, nullptr, forms_of(options), planner_of(options));
  clock.done("schedule");
  std::vector<std::string> not_in_triton;
  if (options.in_triton) not_in_triton = take_triton(scheduled);
  std::vector<std::string> not_in_halide;
  if (!options.halide.empty()) not_in_halide = take_halide(scheduled, options.halide);
  if (choosing.tuner != nullptr) {
    if (is_for_gpu) {
      choose_ways(scheduled, program, *choosing.tuner, {.options = options, .tools = choosing.tools, .threads = threads});
    } else {
      choose_kernels(scheduled, program, *choosing.tuner);
      if (options.halide_competes && options.halide.empty())
        choose_ways(scheduled, program, *choosing.tuner, {.options = options, .tools = choosing.tools, .threads = threads});
    }
    clock.done("tune");
  }
  dumps.write("schedule", [&] { return schedule::schedule_text(program, scheduled); });

  const program::Device device = is_for_gpu ? program::Device::Cuda : program::Device::Cpu;
  program::Module module =
      program::make_module(scheduled, program, {.device = device, .profile = options.profile, .assertions = options.assertions});
  clock.done("program");
  dumps.write("program", [&] { return program::module_text(program, scheduled, module); });

  codegen::GeneratedProgram code = codegen::generate(
      std::move(module), scheduled, program,
      {.target = options.target, .wave = wave_of(options), .max_units = options.part ? kUnitsOfParts : threads, .suffix = suffix});
  code.not_in_triton = std::move(not_in_triton);
  code.not_in_halide = std::move(not_in_halide);
  clock.done("generate");
  return {when, std::move(program), std::move(code)};
}

codegen::GeneratedProgram generate_code(Program program, const CompileModelOptions& options, int threads) {
  std::vector<PhaseTime> phases;
  PhaseClock clock(phases);
  Dumps dumps(options.dump_ir);
  const Isa isa = levels_for(options, machine().isa).back();
  if (!options.choose.lock) return generate({}, std::move(program), options, isa, threads, "", dumps, clock, {}).code;
  Cache none(StoreOptions{.enabled = false});
  tune::Tuner tuner(runtime_choices(), none, tuner_options(options));
  return generate({}, std::move(program), options, isa, threads, "", dumps, clock, {.tuner = &tuner}).code;
}

}  // namespace toroid
