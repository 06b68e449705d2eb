// Functions and their steps: where buffers are, what is launched, what is asked for late.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "program/calls.h"
#include "program/in_place.h"
#include "program/module_builder.h"
#include "program/overlaps.h"
#include "program/streams/beside.h"
#include "program/streams/branches.h"
#include "program/streams/lanes.h"
#include "program/waits.h"
#include "schedule/axes.h"
#include "schedule/cpu/grid.h"
#include "schedule/cuda/cuda_grid.h"
#include "signature/symbol_values.h"
#include "support/match.h"

namespace toroid::program {
namespace {

// Less work than so many elements is not worth waking another thread for.
constexpr int64_t kLeastWork = 16384;
// Optimising one function with more steps than this takes the compiler longer than the kernels do, and saves some ten nanoseconds a step.
constexpr size_t kOptimisedSteps = 8;

}  // namespace

std::string_view to_string(Device device) { return device == Device::Cpu ? "cpu" : "cuda"; }

std::optional<Device> parse_device(std::string_view text) {
  for (const Device each : {Device::Cpu, Device::Cuda}) {
    if (text == to_string(each)) return each;
  }
  return std::nullopt;
}

size_t ModuleBuilder::constant_slot(uint32_t id) {
  const auto [found, is_new] = constant_slots.try_emplace(id, module.constants.size());
  if (is_new) module.constants.push_back(ConstantId{id});
  return found->second;
}

size_t ModuleBuilder::add_kernel(const KernelDefinition& kernel) {
  module.kernels.push_back(kernel);
  return module.kernels.size() - 1;
}

const schedule::Step& step_of(const std::vector<schedule::ScheduledGraph>& graphs, const KernelDefinition& definition) {
  const schedule::Schedule& schedule = graphs[definition.graph].schedule;
  return (definition.runs_once ? schedule.prepare : schedule.steps)[definition.step];
}

schedule::Step kernel_of(const std::vector<schedule::ScheduledGraph>& graphs, const KernelDefinition& definition) {
  const size_t part = definition.part;
  const schedule::Step& step = step_of(graphs, definition);
  return match(
      step, [&](const schedule::Kernel& s) -> schedule::Step { return part == 0 ? s : s.other_forms[part - 1]; },
      [](const schedule::ScanKernel& s) -> schedule::Step { return s; },
      [](const schedule::ScatterKernel& s) -> schedule::Step { return s; },
      [](const schedule::CallStep& s) -> schedule::Step { return s.gpu ? schedule::Step(s) : schedule::Step(*s.epilogue); },
      [](const schedule::BindStep& s) -> schedule::Step {
        TOROID_CHECK(false, "'{}' is no kernel", s.name);
        return s;
      },
      [&](const schedule::ChainStep& s) -> schedule::Step { return *s.calls[part].epilogue; },
      [&](const schedule::ParallelKernels& s) { return schedule::as_single_step(s.kernels[part]); });
}

FunctionBuilder::FunctionBuilder(ModuleBuilder& shared, size_t graph, std::vector<sym::Expr> known)
    : shared_(shared),
      graph_(graph),
      scheduled_(shared.graphs[graph]),
      loops_(*scheduled_.schedule.loops),
      function_{.graph = graph, .known = known, .buffers = {}, .steps = {}, .at_end = {}},
      known_(known.begin(), known.end()) {}

bool FunctionBuilder::is_known(std::span<const sym::Expr> sizes) const {
  return std::all_of(sizes.begin(), sizes.end(), [&](sym::Expr size) {
    if (size.is_const()) return true;
    const std::vector<sym::Expr> symbols = sym::free_symbols(size);
    return std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr symbol) { return known_.contains(symbol); });
  });
}

// A size that nothing gives would be an unknown name in the generated code.
void FunctionBuilder::check_symbols() const {
  const auto is_known = [&](sym::Expr symbol) { return known_.contains(symbol); };
  if (std::all_of(shared_.module.symbols.begin(), shared_.module.symbols.end(), is_known)) return;
  for (const loop::Computation& computation : loops_.computations) {
    for (sym::Expr symbol : loop::size_symbols(loops_, computation)) {
      if (known_.contains(symbol)) continue;
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("the size '{}' is neither one of an input nor computed by the program", sym::to_string(symbol)))
          .help("export the model with dynamic shapes that name each size on some input");
    }
  }
}

// ---- places -----------------------------------------------------------------------------------------------------------------------

bool FunctionBuilder::is_late(const schedule::Lifetime& lifetime) const {
  if (graph_ != 0) return true;
  for (sym::Expr size : buffer(lifetime.buffer).sizes) {
    if (size.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(size)) {
      if (std::find(function_.known.begin(), function_.known.end(), symbol) == function_.known.end()) return true;
    }
  }
  return false;
}

bool FunctionBuilder::is_late_output(size_t position) const { return graph_ == 0 && shared_.module.outputs[position].is_late; }

void FunctionBuilder::place_parameters() {
  for (size_t b = 0; b < loops_.buffers.size(); ++b) {
    const BufferId id{static_cast<uint32_t>(b)};
    const loop::Buffer& each = buffer(id);
    switch (each.kind) {
      case loop::BufferKind::Input: place(id, InArgument{each.position}); break;
      case loop::BufferKind::RandomState: place(id, InRandomState{}); break;
      case loop::BufferKind::Output:
        if (!is_late_output(each.position)) place(id, InResult{each.position});
        break;
      case loop::BufferKind::Constant: place(id, InConstant{shared_.constant_slot(each.position)}); break;
      case loop::BufferKind::Temporary:
      case loop::BufferKind::Prepared: break;
    }
  }
}

// What is only read has no elements, and nobody writes it.
void FunctionBuilder::place_prepared() {
  std::vector<bool> is_used(loops_.buffers.size());
  std::vector<BufferId> used;
  auto use = [&](BufferId id) {
    const auto at = static_cast<size_t>(id);
    if (buffer(id).kind != loop::BufferKind::Prepared || is_used[at]) return;
    is_used[at] = true;
    used.push_back(id);
  };
  for (const Steps* steps : {&scheduled_.schedule.prepare, &scheduled_.schedule.steps}) {
    for (const schedule::Step& step : *steps) {
      for (BufferId id : schedule::writes_of(step)) use(id);
      for (BufferId id : schedule::reads_of(step)) use(id);
    }
  }
  std::vector<PlacedBuffer> placed;
  int64_t& end = shared_.module.prepared_bytes;
  for (BufferId id : used) {
    placed.push_back({id, InPrepared{end}, device_of(id)});
    const int64_t bytes = (loop::elements_in_memory(buffer(id)) * size_bytes(buffer(id).dtype)).value();
    end += (bytes + kPreparedAlignment - 1) / kPreparedAlignment * kPreparedAlignment;
  }
  std::sort(placed.begin(), placed.end(), [](const PlacedBuffer& a, const PlacedBuffer& b) { return a.id < b.id; });
  function_.buffers.insert(function_.buffers.end(), placed.begin(), placed.end());
}

// ---- functions --------------------------------------------------------------------------------------------------------------------

Function FunctionBuilder::main() {
  Module& module = shared_.module;
  for (size_t i = 0; i < scheduled_.outputs.size(); ++i) {
    const std::vector<sym::Expr>& sizes = scheduled_.outputs[i].sizes;
    module.outputs.push_back({sizes, !is_known(sizes), may_be_in_place(shared_.program, shared_.graphs, i)});
  }
  place_parameters();
  place_prepared();
  for (const schedule::Lifetime& lifetime : scheduled_.schedule.lifetimes) {
    if (is_late(lifetime)) continue;
    place(lifetime.buffer, InArena{module.temporaries.size()});
    module.temporaries.push_back(lifetime);
  }
  add_steps();
  check_symbols();
  return std::move(function_);
}

std::optional<Function> FunctionBuilder::prepare(const Function& main) {
  if (scheduled_.schedule.prepare.empty()) return std::nullopt;
  for (const PlacedBuffer& each : main.buffers) {
    const bool is_there = std::holds_alternative<InConstant>(each.place) || std::holds_alternative<InPrepared>(each.place);
    if (is_there) function_.buffers.push_back(each);
  }
  const Steps& steps = scheduled_.schedule.prepare;
  for (size_t s = 0; s < steps.size(); ++s) {
    begin_step(steps[s], true, s);
    add_instructions(steps[s]);
  }
  return std::move(function_);
}

Function FunctionBuilder::subgraph() {
  for (size_t i = 0; i < scheduled_.outputs.size(); ++i) {
    if (is_known(scheduled_.outputs[i].sizes)) continue;
    throw Error(ErrorKind::Unsupported, "a branch or loop body whose result has a size that depends on data cannot be compiled")
        .at(fmt::format("at '{}'", source().value(source().outputs[i]).name))
        .help("run the model with '--backend interp'");
  }
  place_parameters();
  add_steps();
  check_symbols();
  return std::move(function_);
}

// ---- steps ------------------------------------------------------------------------------------------------------------------------

Step& FunctionBuilder::begin_step(const schedule::Step& step, bool runs_once, size_t position) {
  place_ = {.graph = graph_, .runs_once = runs_once, .step = position};
  StepInfo info = {.name = schedule::name_of(step), .origin = {}};
  const std::vector<ProvenanceId>& provenance = schedule::provenance_of(step);
  const auto named =
      std::find_if(provenance.rbegin(), provenance.rend(), [&](ProvenanceId id) { return !source().provenance(id).op.empty(); });
  if (named != provenance.rend()) info.origin = toroid::to_string(source().provenance(*named));
  // Of a fused step the last operator, which uses the others.
  if (!provenance.empty() && !source().provenance(provenance.back()).op.empty()) info.provenance = provenance.back();
  function_.steps.push_back({shared_.module.steps.size(), {}});
  shared_.module.steps.push_back(std::move(info));
  target_ = &function_.steps.back().instructions;
  on_host_ = schedule::is_on_host(loops_, step) && !schedule::is_device_copy(step);
  function_.steps.back().on_host = on_host_;
  return function_.steps.back();
}

void FunctionBuilder::add_allocation(BufferId id) {
  const loop::Buffer& each = buffer(id);
  if (!is_known(each.sizes)) {
    throw Error(ErrorKind::Unsupported, fmt::format("the size of '{}' is known only after it has been computed", each.name))
        .help("run the model with '--backend interp'");
  }
  place(id, Allocated{});
}

void FunctionBuilder::add_output(BufferId id, std::unordered_set<BufferId>& made) {
  const loop::Buffer& out = buffer(id);
  if (out.kind != loop::BufferKind::Output || !is_late_output(out.position) || !made.insert(id).second) return;
  add_allocation(id);
  add(AllocateOutput{id, out.position, scheduled_.outputs[out.position].sizes});
}

void FunctionBuilder::add_steps() {
  const Steps& steps = scheduled_.schedule.steps;
  std::unordered_set<BufferId> made;
  // Late temporaries, by the step before which they are asked for and the one after which they are given back.
  std::vector<std::vector<BufferId>> begins(steps.size()), ends(steps.size());
  for (const schedule::Lifetime& lifetime : scheduled_.schedule.lifetimes) {
    if (!is_late(lifetime)) continue;
    begins[lifetime.first_step].push_back(lifetime.buffer);
    ends[lifetime.last_step].push_back(lifetime.buffer);
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    const size_t number = begin_step(steps[s], false, s).number;
    if (shared_.options.profile) {
      shared_.module.step_work.resize(number);  // other graphs' steps are not looked at
      schedule::StepWork work = schedule::work_of(loops_, steps[s]);
      if (const auto* scatter = std::get_if<schedule::ScatterKernel>(&steps[s]); scatter != nullptr && copies_no_base(*scatter)) {
        const loop::Buffer& out = buffer(scatter->out);
        const sym::Expr stays = sym::product(out.sizes) - schedule::product_of_extents(scatter->axes);
        work.bytes = work.bytes - 2 * sym::max(0, stays) * size_bytes(out.dtype);
      }
      shared_.module.step_work.push_back(work);
      add(TimeStep{number});
    }
    for (BufferId id : begins[s]) {
      add_allocation(id);
      add(Allocate{id, loop::elements_in_memory(buffer(id))});
    }
    for (BufferId out : schedule::writes_of(steps[s])) add_output(out, made);
    add_instructions(steps[s]);
    for (BufferId id : ends[s]) add(Release{id});
  }
  target_ = &function_.at_end;
  for (const OutputBinding& output : scheduled_.outputs) add_output(output.buffer, made);
}

void FunctionBuilder::add_instructions(const schedule::Step& step) {
  match(
      step, [&](const schedule::Kernel&) { add_kernel(step); }, [&](const schedule::ScanKernel&) { add_kernel(step); },
      [&](const schedule::ScatterKernel&) { add_kernel(step); }, [&](const schedule::BindStep& bind) { add_bind(bind); },
      [&](const schedule::CallStep& call) {
        if (std::holds_alternative<HigherOrder>(call.call.op)) return add_control_flow(call);
        if (call.gpu) return add_kernel(step);
        LibraryCall made = this->call(call, 0);
        made.site = shared_.module.num_call_sites++;
        add(std::move(made));
      },
      [&](const schedule::ChainStep& chain) {
        ChainCall made{.kernel = "chain" + (chain.choice.empty() ? "" : "#" + chain.choice), .site = 0, .calls = {}};
        for (size_t i = 0; i < chain.calls.size(); ++i) {
          made.calls.push_back(call(chain.calls[i], i));
          made.has_fixed_sizes = made.has_fixed_sizes && made.calls.back().has_fixed_sizes;
        }
        made.site = shared_.module.num_call_sites++;
        add(std::move(made));
      },
      [&](const schedule::ParallelKernels& group) {
        // What an assertion build says of a kernel is declared before it: one after the other.
        LaunchTogether together;
        for (size_t i = 0; i < group.kernels.size(); ++i) together.kernels.push_back(launch(i));
        if (!shared_.options.assertions) return add(std::move(together));
        for (Launch& each : together.kernels) add(std::move(each));
      });
}

// As a rule: where its result is in the place of its base.
bool FunctionBuilder::copies_no_base(const schedule::ScatterKernel& scatter) const {
  const loop::Buffer& out = buffer(scatter.out);
  return graph_ == 0 && loop::updates(out, buffer(scatter.base)) && shared_.module.outputs[out.position].is_in_place;
}

Launch FunctionBuilder::launch(size_t part) {
  place_.part = part;
  const schedule::Step kernel = kernel_of(shared_.graphs, place_);
  if (shared_.options.device == Device::Cuda && !on_host_)
    return {shared_.add_kernel(place_), schedule::cuda_grid_of(loops_, kernel).blocks, 1, 1};
  schedule::Grid grid = schedule::grid_of(loops_, kernel);
  if (const auto* scatter = std::get_if<schedule::ScatterKernel>(&kernel); scatter != nullptr && copies_no_base(*scatter)) {
    grid.work_per_task = sym::max(1, sym::floor_div(schedule::product_of_extents(scatter->axes), grid.tasks));
  }
  return {shared_.add_kernel(place_), grid.tasks, grid.work_per_task, kLeastWork};
}

LibraryCall FunctionBuilder::call(const schedule::CallStep& step, size_t part) {
  LibraryCall made = library_call(shared_.program, loops_, step);
  if (!step.epilogue) return made;
  // An assertion build is there to check what functions read and write.
  std::optional<schedule::PostOps> post_ops;
  if (!shared_.options.assertions) post_ops = schedule::post_ops_of(loops_, step);
  place_.part = part;
  made.epilogue = post_ops ? Epilogue(*std::move(post_ops)) : Epilogue(shared_.add_kernel(place_));
  return made;
}

void FunctionBuilder::add_control_flow(const schedule::CallStep& step) {
  ControlFlow flow = control_flow(loops_, step);
  std::vector<sym::Expr> known(known_.begin(), known_.end());
  std::sort(known.begin(), known.end(), [](sym::Expr a, sym::Expr b) { return a.node()->id < b.node()->id; });
  for (uint32_t subgraph : called_by(flow)) {
    const auto [found, is_new] = shared_.called.try_emplace(subgraph, known);
    // Called from several places, it may rely on what they all know.
    if (!is_new) std::erase_if(found->second, [&](sym::Expr symbol) { return !known_.contains(symbol); });
  }
  add(std::move(flow));
}

void FunctionBuilder::add_kernel(const schedule::Step& step) {
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  if (kernel == nullptr || kernel->other_forms.empty()) return add(launch(0));
  Module& module = shared_.module;
  LaunchQuickest quickest{.forms = {}, .slot = module.choices.size()};
  Choice choice = {module.steps.size() - 1, {}};
  auto add_form = [&](const schedule::Kernel& form) {
    quickest.forms.push_back(launch(quickest.forms.size()));
    choice.forms.emplace_back(schedule::to_string(*form.form));
  };
  add_form(*kernel);
  for (const schedule::Kernel& other : kernel->other_forms) add_form(other);
  module.choices.push_back(std::move(choice));
  add(std::move(quickest));
}

void FunctionBuilder::add_bind(const schedule::BindStep& step) {
  std::optional<sym::Expr> defines;
  for (sym::Expr symbol : step.expr.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(step.expr)) {
    if (known_.contains(symbol)) continue;
    if (defines) throw Error(ErrorKind::Unsupported, fmt::format("the number '{}' leaves two sizes open", sym::to_string(step.expr)));
    defines = symbol;
  }
  add(ReadNumber{step.value, shared_.module.bindings.size(), defines});
  shared_.module.bindings.push_back({step.expr, defines});
  if (defines) known_.insert(*defines);
}

Counts counts(const Module& module) {
  Counts result;
  auto count = [&](const Function& function) {
    for (const Step& step : function.steps) {
      const int before = result.kernel_calls;
      for (const Instruction& each : step.instructions) {
        if (const auto* together = std::get_if<LaunchTogether>(&each)) result.kernel_calls += static_cast<int>(together->kernels.size());
        if (std::holds_alternative<Launch>(each) || std::holds_alternative<LaunchQuickest>(each)) ++result.kernel_calls;
        if (std::holds_alternative<LibraryCall>(each) || std::holds_alternative<ChainCall>(each)) ++result.library_calls;
      }
      if (result.kernel_calls > before) ++result.kernel_steps;
    }
  };
  count(module.main);
  if (module.prepare) count(*module.prepare);
  for (const auto& [index, function] : module.subgraphs) count(function);
  return result;
}

std::vector<sym::Expr> sizes_of(const toroid::Program& program) {
  std::vector<sym::Expr> result;
  for (const sym::Expr symbol : program.symbols->symbols()) {
    const sym::SymbolKind kind = symbol.node()->symbol_kind;
    if (kind == sym::SymbolKind::Size || kind == sym::SymbolKind::DataDependent) result.push_back(symbol);
  }
  return result;
}

Module make_module(const std::vector<schedule::ScheduledGraph>& graphs, const toroid::Program& program, const ModuleOptions& options) {
  ModuleBuilder shared{.graphs = graphs, .program = program, .options = options};
  Module& module = shared.module;
  module.assertions = options.assertions;
  module.symbols = sizes_of(program);
  // The call's shapes give these; nodes of the program define the others.
  std::vector<sym::Expr> known;
  for (const SymbolDefinition& each : plan_bindings(program).definitions) known.push_back(each.symbol);
  module.main = FunctionBuilder(shared, 0, known).main();
  module.prepare = FunctionBuilder(shared, 0, {}).prepare(module.main);
  // A subgraph may call others.
  std::vector<bool> is_made(program.subgraphs.size());
  for (bool again = true; again;) {
    again = false;
    const auto called = shared.called;
    for (const auto& [index, symbols] : called) {
      if (is_made[index]) continue;
      is_made[index] = again = true;
      Function function = FunctionBuilder(shared, 1 + index, symbols).subgraph();
      module.subgraphs.emplace_back(index, std::move(function));
    }
  }
  size_t steps = 0;
  for (const schedule::ScheduledGraph& graph : graphs) steps += graph.schedule.steps.size();
  module.is_long = steps > kOptimisedSteps;
  if (options.device == Device::Cuda) {
    if (!add_lanes(graphs, module)) {
      add_branches(graphs, module);
      add_beside(graphs, module);
    }
    add_overlaps(graphs, module);
    add_waits(graphs, module);
  }
  return std::move(module);
}

}  // namespace toroid::program
