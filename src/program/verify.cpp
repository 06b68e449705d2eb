#include "program/verify.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/shape_error.h"
#include "program/calls.h"
#include "program/in_place.h"
#include "program/module_builder.h"
#include "program/overlaps.h"
#include "program/streams/beside.h"
#include "program/streams/branches.h"
#include "program/streams/lanes.h"
#include "program/waits.h"
#include "schedule/cpu/grid.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/mentioned.h"
#include "signature/binding_plan.h"
#include "support/match.h"

namespace toroid::program {
namespace {

using loop::BufferKind;

bool contains(const std::vector<BufferId>& list, BufferId id) { return std::find(list.begin(), list.end(), id) != list.end(); }

std::string list_text(std::span<const sym::Expr> exprs) {
  std::string text;
  for (sym::Expr each : exprs) text += (text.empty() ? "" : ", ") + sym::to_string(each);
  return text.empty() ? "none" : text;
}

bool is_same(const std::variant<double, sym::Expr>& a, const std::variant<double, sym::Expr>& b) {
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? *x == *y || (*x != *x && *y != *y) : a == b;
}

// How many kernels a step has.
size_t parts_of(const schedule::Step& step) {
  return match(
      step, [](const schedule::Kernel& s) { return 1 + s.other_forms.size(); }, [](const schedule::ScanKernel&) { return size_t{1}; },
      [](const schedule::ScatterKernel&) { return size_t{1}; }, [](const schedule::CallStep& s) { return size_t{s.gpu || s.epilogue}; },
      [](const schedule::BindStep&) { return size_t{0}; }, [](const schedule::ChainStep& s) { return s.calls.size(); },
      [](const schedule::ParallelKernels& s) { return s.kernels.size(); });
}

// What a buffer is, as a place must say.
std::string kind_text(const loop::Buffer& buffer) {
  switch (buffer.kind) {
    case BufferKind::Input: return fmt::format("input {}", buffer.position);
    case BufferKind::Constant: return fmt::format("constant {} of the program", buffer.position);
    case BufferKind::Output: return fmt::format("output {}", buffer.position);
    case BufferKind::Temporary: return "a temporary";
    case BufferKind::RandomState: return "the random state";
    case BufferKind::Prepared: return "prepared";
  }
  return "";
}

bool is_epilogue(const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  return call != nullptr ? !call->gpu : std::holds_alternative<schedule::ChainStep>(step);
}

}  // namespace

ModuleRules::ModuleRules(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, const Module& module)
    : program_(program), graphs_(graphs), module_(module) {}

// ---- before the functions ---------------------------------------------------------------------------------------------------------

void ModuleRules::check_constant() const {
  const std::vector<ConstantId>& all = module_.constants;
  const auto number = static_cast<size_t>(all.back());
  require(number < program_.constants.size(), "there is no constant {}", number);
  require(std::count(all.begin(), all.end(), all.back()) == 1, "constant {} is given twice", number);
}

void ModuleRules::check_temporary() const {
  const schedule::Lifetime& made = module_.temporaries.back();
  const loop::Buffer& each = graphs_[0].schedule.loops->buffer(made.buffer);
  require(each.kind == BufferKind::Temporary, "'{}' is no temporary", each.name);
  for (const schedule::Lifetime& other : module_.temporaries) {
    require(&other == &made || other.buffer != made.buffer, "'{}' is in the arena twice", each.name);
  }
  const size_t steps = graphs_[0].schedule.steps.size();
  require(made.first_step <= made.last_step && made.last_step < steps, "'{}' lives from step {} to {} of {}", each.name, made.first_step,
          made.last_step, steps);
}

void ModuleRules::check_output() const {
  const size_t position = module_.outputs.size() - 1;
  const std::vector<OutputBinding>& own = graphs_[0].outputs;
  require(position < own.size(), "the program has {} outputs", own.size());
  require(module_.outputs[position].sizes == own[position].sizes, "the sizes of output {} are {}", position,
          list_text(own[position].sizes));
  require(!module_.outputs[position].is_in_place || may_be_in_place(program_, graphs_, position),
          "output {} cannot be in the place of a constant: its old value is read when the new one may be there, or it is none's", position);
}

void ModuleRules::check_kernel() const {
  const KernelDefinition& made = module_.kernels.back();
  require(made.graph < graphs_.size(), "there is no subgraph {}", made.graph - 1);
  const schedule::Schedule& schedule = graphs_[made.graph].schedule;
  const size_t steps = made.runs_once ? schedule.prepare.size() : schedule.steps.size();
  require(made.step < steps, "the schedule has {} steps that run {}", steps, made.runs_once ? "once" : "in each call");
  const schedule::Step& step = step_of(graphs_, made);
  const size_t parts = parts_of(step);
  require(made.part < parts, "step {}, '{}', has {} kernels", made.step, schedule::name_of(step), parts);
  if (const auto* chain = std::get_if<schedule::ChainStep>(&step))
    require(chain->calls[made.part].epilogue.has_value(), "call {} of the chain has no epilogue", made.part);
}

void ModuleRules::check_head() {
  const std::vector<sym::Expr> sizes = sizes_of(program_);
  require(module_.symbols == sizes, "the sizes of the program are {}", list_text(sizes));
  require(module_.outputs.size() == graphs_[0].outputs.size(), "the program has {} outputs, not {}", graphs_[0].outputs.size(),
          module_.outputs.size());
  is_used_.resize(module_.kernels.size());
  is_placed_.resize(module_.constants.size());
}

// ---- sizes ------------------------------------------------------------------------------------------------------------------------

bool ModuleRules::is_known(std::span<const sym::Expr> sizes) const {
  return std::all_of(sizes.begin(), sizes.end(), [&](sym::Expr size) {
    if (size.is_const()) return true;
    const std::vector<sym::Expr> symbols = sym::free_symbols(size);
    return std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr symbol) { return known_.contains(symbol); });
  });
}

void ModuleRules::check_sizes(std::span<const sym::Expr> sizes) const {
  for (sym::Expr size : sizes) {
    if (size.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(size))
      require(known_.contains(symbol), "the size '{}' is not known here", sym::to_string(symbol));
  }
}

// ---- functions --------------------------------------------------------------------------------------------------------------------

void ModuleRules::begin(const Function& function, Role role) {
  role_ = role;
  device_ = Device::Cpu;
  graph_ = function.graph;
  states_.assign(loops().buffers.size(), {});
  known_ = {function.known.begin(), function.known.end()};
  require(known_.size() == function.known.size(), "a size is given twice");
  is_bound_.assign(steps().size(), false);
  next_starts_early_ = false;
  calls_.clear();
  for (size_t s = 0; s < steps().size(); ++s) {
    if (const auto* call = std::get_if<schedule::CallStep>(&steps()[s])) calls_[call->outputs.at(0)] = {s, 0};
    if (const auto* chain = std::get_if<schedule::ChainStep>(&steps()[s])) {
      for (size_t i = 0; i < chain->calls.size(); ++i) calls_[chain->calls[i].outputs.at(0)] = {s, i};
    }
  }
  if (role == Role::Main) {
    std::vector<sym::Expr> told;
    for (const SymbolDefinition& each : plan_bindings(program_).definitions) told.push_back(each.symbol);
    require(function.known == told, "the sizes that the inputs tell are {}", list_text(told));
    for (size_t i = 0; i < module_.outputs.size(); ++i) {
      const bool is_late = !is_known(module_.outputs[i].sizes);
      require(module_.outputs[i].is_late == is_late, "the inputs {} the sizes of output {}", is_late ? "do not tell" : "tell", i);
    }
  } else if (role == Role::Prepare) {
    require(!steps().empty(), "nothing runs once");
    require(known_.empty(), "no size is known to what runs once");
  } else {
    const auto index = static_cast<uint32_t>(graph_ - 1);
    require(called_.contains(index), "no function before this one calls subgraph {}", index);
    require(made_.insert(index).second, "subgraph {} has two functions", index);
    check_known(index, function);
  }
}

void ModuleRules::check_prepared(BufferId id, InPrepared place) const {
  const loop::Buffer& each = buffer(id);
  const int64_t bytes = (loop::elements_in_memory(each) * size_bytes(each.dtype)).value();
  if (role_ == Role::Prepare) {
    const auto found = prepared_.find(id);
    require(found != prepared_.end() && found->second.first.offset == place.offset, "the main function has '{}' elsewhere", each.name);
    return;
  }
  require(place.offset >= 0 && place.offset % kPreparedAlignment == 0, "'{}' is prepared at {}, which is no multiple of {}", each.name,
          place.offset, kPreparedAlignment);
  require(place.offset <= module_.prepared_bytes && bytes <= module_.prepared_bytes - place.offset,
          "'{}' ends beyond the {} bytes that are prepared", each.name, module_.prepared_bytes);
  for (const auto& [other, where] : prepared_) {
    const auto& [begin, length] = where;
    const bool is_apart = place.offset >= begin.offset + length || begin.offset >= place.offset + bytes;
    require(is_apart || bytes == 0 || length == 0, "'{}' and '{}' are prepared in the same place", each.name, buffer(other).name);
  }
}

void ModuleRules::check(const PlacedBuffer& placed) {
  const loop::Buffer& each = buffer(placed.id);
  if (!each.on_host) device_ = placed.device;
  require(!each.on_host || placed.device == Device::Cpu, "'{}' is the host's, and cannot be on a GPU", each.name);
  State& own = state(placed.id);
  require(!own.place, "'{}' has two places", each.name);
  const bool is_late = role_ == Role::Main && each.kind == BufferKind::Output && module_.outputs.at(each.position).is_late;
  const auto is = [&](BufferKind kind, bool holds) {
    require(each.kind == kind && holds, "'{}' is {}, and cannot be there", each.name, kind_text(each));
  };
  match(
      placed.place, [&](InArgument place) { is(BufferKind::Input, role_ != Role::Prepare && place.position == each.position); },
      [&](InResult place) {
        require(!is_late, "'{}' is allocated when its sizes are known", each.name);
        is(BufferKind::Output, role_ != Role::Prepare && place.position == each.position);
      },
      [&](InConstant place) {
        require(place.slot < module_.constants.size(), "there is no constant {} in this module", place.slot);
        is(BufferKind::Constant, static_cast<uint32_t>(module_.constants[place.slot]) == each.position);
        is_placed_[place.slot] = true;
      },
      [&](InArena place) {
        require(place.slot < module_.temporaries.size(), "the arena has {} temporaries", module_.temporaries.size());
        is(BufferKind::Temporary, role_ == Role::Main && module_.temporaries[place.slot].buffer == placed.id);
        check_sizes(each.sizes);
      },
      [&](InPrepared place) {
        is(BufferKind::Prepared, role_ != Role::Subgraph);
        check_prepared(placed.id, place);
        if (role_ == Role::Main) prepared_[placed.id] = {place, (loop::elements_in_memory(each) * size_bytes(each.dtype)).value()};
      },
      [&](InRandomState) { is(BufferKind::RandomState, role_ != Role::Prepare); },
      [&](Allocated) {
        if (!is_late) is(BufferKind::Temporary, role_ != Role::Prepare);
      });
  own.place = placed.place;
}

void ModuleRules::end() {
  require(!next_starts_early_, "the last launch lets the next one start, and there is none");
  for (size_t s = 0; s < steps().size(); ++s) {
    const std::vector<BufferId> writes = schedule::writes_of(steps()[s]);
    const bool is_done = std::holds_alternative<schedule::BindStep>(steps()[s])
                             ? is_bound_[s]
                             : std::all_of(writes.begin(), writes.end(), [&](BufferId id) { return state(id).is_written; });
    require(is_done, "nothing does step {} of the schedule, '{}'", s, schedule::name_of(steps()[s]));
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    const loop::Buffer& each = loops().buffers[i];
    const bool stays = states_[i].is_allocated && !states_[i].is_released && each.kind == BufferKind::Temporary;
    require(!stays, "'{}' is never released", each.name);
  }
  if (role_ != Role::Main) return;
  for (const schedule::Lifetime& each : module_.temporaries)
    require(state(each.buffer).place.has_value(), "'{}' is in the arena and has no place", buffer(each.buffer).name);
  for (size_t i = 0; i < module_.outputs.size(); ++i) {
    const State& own = state(graphs_[0].outputs[i].buffer);
    require(!module_.outputs[i].is_late || own.is_allocated, "output {} is never allocated", i);
  }
}

void ModuleRules::check_known(uint32_t subgraph, const Function& function) const {
  for (sym::Expr symbol : function.known) {
    require(called_.at(subgraph).contains(symbol), "the size '{}' is not known wherever subgraph {} is called", sym::to_string(symbol),
            subgraph);
  }
}

void ModuleRules::check_all() const {
  for (const auto& [subgraph, known] : called_) require(made_.contains(subgraph), "subgraph {} is called and has no function", subgraph);
  require(module_.prepare.has_value() || graphs_[0].schedule.prepare.empty(), "what runs once has no function");
  for (size_t i = 0; i < is_used_.size(); ++i) require(is_used_[i], "kernel {} is never launched", i);
  const std::optional<std::string> fault = fault_of_branches(graphs_, module_);
  require(!fault, "{}", fault.value_or(""));
  const std::optional<std::string> beside = fault_of_beside(graphs_, module_);
  require(!beside, "{}", beside.value_or(""));
  const std::optional<std::string> lanes = fault_of_lanes(graphs_, module_);
  require(!lanes, "{}", lanes.value_or(""));
  const std::optional<std::string> waits = fault_of_waits(graphs_, module_);
  require(!waits, "{}", waits.value_or(""));
  const std::vector<schedule::Step>& steps = graphs_[0].schedule.steps;
  for (size_t s = 0; s < std::min(steps.size(), module_.main.steps.size()); ++s) {
    const bool on_host = schedule::is_on_host(*graphs_[0].schedule.loops, steps[s]) && !schedule::is_device_copy(steps[s]);
    require(on_host == module_.main.steps[s].on_host, "step {} is {} the host's", s, on_host ? "one of" : "none of");
  }
  for (size_t i = 0; i < is_placed_.size(); ++i)
    require(is_placed_[i], "no function has a place for constant {}", static_cast<uint32_t>(module_.constants[i]));
}

// ---- memory -----------------------------------------------------------------------------------------------------------------------

void ModuleRules::use(BufferId id) {
  const State& own = state(id);
  const std::string& name = buffer(id).name;
  require(own.place.has_value(), "'{}' has no place in this function", name);
  if (std::holds_alternative<Allocated>(*own.place)) require(own.is_allocated && !own.is_released, "'{}' has no memory here", name);
  if (const auto* arena = std::get_if<InArena>(&*own.place)) {
    const schedule::Lifetime& life = module_.temporaries[arena->slot];
    require(life.first_step <= step_ && step_ <= life.last_step, "'{}' is used in step {}, and lives from step {} to {}", name, step_,
            life.first_step, life.last_step);
  }
}

void ModuleRules::read(BufferId id, const std::vector<BufferId>& own) {
  use(id);
  const loop::Buffer& each = buffer(id);
  const bool is_given = each.kind == BufferKind::Input || each.kind == BufferKind::Constant || each.kind == BufferKind::RandomState ||
                        (each.kind == BufferKind::Prepared && role_ == Role::Main);
  const bool is_empty = sym::product(each.sizes).is_const(0);
  require(is_given || is_empty || state(id).is_written || contains(own, id), "'{}' is read before it is written", each.name);
}

void ModuleRules::write(BufferId id) {
  use(id);
  const loop::Buffer& each = buffer(id);
  const bool is_ours =
      role_ == Role::Prepare ? each.kind == BufferKind::Prepared : each.kind == BufferKind::Temporary || each.kind == BufferKind::Output;
  require(is_ours, "'{}' cannot be written here", each.name);
  require(!std::exchange(state(id).is_written, true), "'{}' is written twice", each.name);
}

void ModuleRules::flow(const schedule::Step& step) {
  const std::vector<BufferId> writes = schedule::writes_of(step);
  for (BufferId id : schedule::reads_of(step)) read(id, writes);
  for (BufferId id : writes) write(id);
}

// ---- instructions -----------------------------------------------------------------------------------------------------------------

void ModuleRules::check(const Instruction& instruction) {
  match(instruction, [&](const auto& each) { check(each); });
  check_overlap(instruction);
}

void ModuleRules::check_overlap(const Instruction& instruction) {
  const schedule::Overlap* const given = overlap_of(instruction);
  const schedule::Overlap own = given == nullptr ? schedule::Overlap{} : *given;
  require(!own.starts_early || next_starts_early_, "a launch starts early, and what is before it lets none start");
  require(own.starts_early || !next_starts_early_, "a launch lets the next one start, and what is behind it does not wait");
  next_starts_early_ = own.lets_next_start;
  if (own == schedule::Overlap{}) return;
  const bool may_overlap = device_ == Device::Cuda && role_ != Role::Prepare && can_overlap(graphs_, module_, loops(), instruction);
  require(may_overlap, "this launch cannot overlap with others");
  const bool may_load = own.starts_early && can_load_ahead(graphs_, module_, loops(), instruction);
  require(!own.loads_ahead || may_load, "what this launch would load ahead may not be there yet");
}

void ModuleRules::check_at_end(const Instruction& instruction) {
  require(std::holds_alternative<AllocateOutput>(instruction), "only outputs are allocated at the end");
  check(instruction);
}

void ModuleRules::check(const TimeStep& time) { require(time.step == step_, "step {} begins in step {}", time.step, step_); }

void ModuleRules::check(const Allocate& each) {
  const loop::Buffer& made = buffer(each.buffer);
  State& own = state(each.buffer);
  const bool is_late = own.place && std::holds_alternative<Allocated>(*own.place) && made.kind == BufferKind::Temporary;
  require(is_late, "'{}' is no temporary that is allocated", made.name);
  require(!std::exchange(own.is_allocated, true), "'{}' is allocated twice", made.name);
  const sym::Expr elements = loop::elements_in_memory(made);
  require(each.elements == elements, "'{}' has {} elements, not {}", made.name, sym::to_string(elements), sym::to_string(each.elements));
  check_size(each.elements);
}

void ModuleRules::check(const Release& each) {
  State& own = state(each.buffer);
  require(own.is_allocated && !own.is_released && buffer(each.buffer).kind == BufferKind::Temporary, "'{}' has no memory here",
          buffer(each.buffer).name);
  own.is_released = true;
}

void ModuleRules::check(const AllocateOutput& each) {
  const loop::Buffer& made = buffer(each.buffer);
  State& own = state(each.buffer);
  const bool is_late = own.place && std::holds_alternative<Allocated>(*own.place) && made.kind == BufferKind::Output;
  require(is_late && made.position == each.position, "'{}' is not output {} that is allocated", made.name, each.position);
  require(!std::exchange(own.is_allocated, true), "'{}' is allocated twice", made.name);
  require(each.sizes == module_.outputs[each.position].sizes, "the sizes of output {} are {}", each.position,
          list_text(module_.outputs[each.position].sizes));
  check_sizes(each.sizes);
}

void ModuleRules::use_kernel(size_t kernel) {
  require(kernel < module_.kernels.size(), "there is no kernel {}", kernel);
  require(!is_used_[kernel], "kernel {} is launched twice", kernel);
  is_used_[kernel] = true;
}

const KernelDefinition& ModuleRules::launched(const Launch& launch) {
  use_kernel(launch.kernel);
  const KernelDefinition& definition = module_.kernels[launch.kernel];
  require(definition.graph == graph_ && definition.runs_once == (role_ == Role::Prepare), "kernel {} is of another function",
          launch.kernel);
  require(!is_epilogue(step_of(graphs_, definition)), "kernel {} is an epilogue, and cannot be launched", launch.kernel);
  const schedule::Step kernel = kernel_of(graphs_, definition);
  check_sizes(schedule::size_symbols(loops(), kernel));
  const bool on_host = schedule::is_on_host(loops(), kernel);
  const sym::Expr tasks =
      device_ == Device::Cuda && !on_host ? schedule::cuda_grid_of(loops(), kernel).blocks : schedule::grid_of(loops(), kernel).tasks;
  require(launch.tasks == tasks, "kernel {} has {} tasks, not {}", launch.kernel, sym::to_string(tasks), sym::to_string(launch.tasks));
  require(launch.least_work >= 1, "a least work of {}", launch.least_work);
  check_size(launch.work_per_task);
  return definition;
}

void ModuleRules::check(const Launch& each) { flow(kernel_of(graphs_, launched(each))); }

void ModuleRules::check(const LaunchTogether& each) {
  require(!each.kernels.empty(), "no kernels together");
  require(!module_.assertions, "kernels that check their accesses run one after the other");
  std::vector<schedule::Step> kernels;
  const KernelDefinition first = launched(each.kernels[0]);
  for (const Launch& launch : each.kernels) {
    const KernelDefinition& definition = &launch == each.kernels.data() ? first : launched(launch);
    const bool is_of_group = definition.step == first.step && std::holds_alternative<schedule::ParallelKernels>(step_of(graphs_, first));
    require(is_of_group, "kernel {} is not of those that the schedule starts together", launch.kernel);
    kernels.push_back(kernel_of(graphs_, definition));
  }
  for (const schedule::Step& kernel : kernels) {
    for (BufferId id : schedule::reads_of(kernel)) read(id, schedule::writes_of(kernel));
  }
  for (const schedule::Step& kernel : kernels) {
    for (BufferId id : schedule::writes_of(kernel)) write(id);
  }
}

void ModuleRules::check(const LaunchQuickest& each) {
  const Choice& choice = module_.choices[each.slot];
  require(!each.forms.empty(), "a choice of nothing");
  std::vector<KernelDefinition> definitions;
  for (size_t i = 0; i < each.forms.size(); ++i) {
    definitions.push_back(launched(each.forms[i]));
    const bool is_form = definitions[i].step == definitions[0].step &&
                         std::count(definitions.begin(), definitions.end(), definitions[i]) == 1 &&
                         std::holds_alternative<schedule::Kernel>(step_of(graphs_, definitions[i]));
    const schedule::Step step = kernel_of(graphs_, definitions[i]);
    const auto* kernel = std::get_if<schedule::Kernel>(&step);
    require(is_form && kernel != nullptr && kernel->form.has_value(), "kernel {} is no other form of the same kernel",
            each.forms[i].kernel);
    require(choice.forms[i] == schedule::to_string(*kernel->form), "kernel {} is {}, not {}", each.forms[i].kernel,
            schedule::to_string(*kernel->form), choice.forms[i]);
  }
  flow(kernel_of(graphs_, definitions[0]));
}

// ---- calls ------------------------------------------------------------------------------------------------------------------------

const ModuleRules::CallPlace& ModuleRules::call_place(const LibraryCall& call) const {
  require(!call.outputs.empty(), "a call without results");
  const auto found = calls_.find(call.outputs[0].buffer);
  require(found != calls_.end(), "no call of the schedule gives '{}'", buffer(call.outputs[0].buffer).name);
  return found->second;
}

const schedule::CallStep& ModuleRules::source_of(const LibraryCall& call) const {
  const CallPlace& place = call_place(call);
  const schedule::Step& step = steps()[place.step];
  if (const auto* chain = std::get_if<schedule::ChainStep>(&step)) return chain->calls[place.part];
  return std::get<schedule::CallStep>(step);
}

void ModuleRules::check_epilogue(const Epilogue& epilogue, const schedule::CallStep& step, const CallPlace& place) {
  check_sizes(schedule::size_symbols(loops(), *step.epilogue));
  if (const auto* post_ops = std::get_if<schedule::PostOps>(&epilogue)) {
    require(!module_.assertions, "epilogues that check their accesses are functions");
    const std::optional<schedule::PostOps> expected = schedule::post_ops_of(loops(), step);
    require(expected.has_value(), "this epilogue does more than post-operations can");
    return require(*post_ops == *expected, "the schedule has other post-operations here");
  }
  const size_t kernel = std::get<size_t>(epilogue);
  use_kernel(kernel);
  const KernelDefinition expected = {.graph = graph_, .runs_once = role_ == Role::Prepare, .step = place.step, .part = place.part};
  require(module_.kernels[kernel] == expected, "kernel {} is not the epilogue of this call", kernel);
}

void ModuleRules::check_call(const LibraryCall& call, const schedule::CallStep& step, const CallPlace& place) {
  require(!std::holds_alternative<HigherOrder>(step.call.op), "the schedule has control flow here");
  const LibraryCall own = library_call(program_, loops(), step);
  const auto base = [](const std::string& kernel) { return kernel.substr(0, kernel.find('#')); };
  require(base(call.kernel) == base(own.kernel), "the schedule calls {} here", base(own.kernel));
  require(call.inputs == own.inputs, "the schedule gives {} other operands", base(own.kernel));
  require(call.outputs == own.outputs, "the schedule takes other results from {}", base(own.kernel));
  require(call.integers == own.integers, "the integers of {} are {}", base(own.kernel), list_text(own.integers));
  require(std::equal(call.numbers.begin(), call.numbers.end(), own.numbers.begin(), own.numbers.end(), is_same),
          "the schedule gives {} other numbers", base(own.kernel));
  require(own.has_fixed_sizes || !call.has_fixed_sizes, "the sizes of {} are free", base(own.kernel));
  for (const std::vector<Operand>* operands : {&call.inputs, &call.outputs}) {
    for (const Operand& each : *operands) {
      check_sizes(each.sizes);
      check_sizes(each.strides);
      check_size(each.offset);
    }
  }
  check_sizes(call.integers);
  for (const auto& each : call.numbers) {
    if (const auto* number = std::get_if<sym::Expr>(&each)) check_size(*number);
  }
  require(call.epilogue.has_value() == step.epilogue.has_value(), "the schedule has {} epilogue here", step.epilogue ? "an" : "no");
  if (call.epilogue) check_epilogue(*call.epilogue, step, place);
}

void ModuleRules::check(const LibraryCall& each) {
  const CallPlace& place = call_place(each);
  const schedule::Step& step = steps()[place.step];
  require(std::holds_alternative<schedule::CallStep>(step), "the schedule has this call in a chain");
  check_call(each, source_of(each), place);
  flow(step);
}

void ModuleRules::check(const ChainCall& each) {
  require(!each.calls.empty(), "a chain of no calls");
  const size_t step = call_place(each.calls[0]).step;
  const auto* chain = std::get_if<schedule::ChainStep>(&steps()[step]);
  require(chain != nullptr && chain->calls.size() == each.calls.size(), "the schedule has another chain here");
  for (size_t i = 0; i < each.calls.size(); ++i) {
    const CallPlace& place = call_place(each.calls[i]);
    require(place.step == step && place.part == i, "the schedule has another chain here");
    check_call(each.calls[i], chain->calls[i], place);
    require(each.calls[i].has_fixed_sizes || !each.has_fixed_sizes, "the sizes of the chain are free");
  }
  flow(steps()[step]);
}

void ModuleRules::check(const ReadNumber& each) {
  const sym::Expr expr = module_.bindings[each.binding].expr;
  size_t at = 0;
  for (; at < steps().size(); ++at) {
    const auto* bind = std::get_if<schedule::BindStep>(&steps()[at]);
    if (bind != nullptr && bind->value == each.buffer && bind->expr == expr && !is_bound_[at]) break;
  }
  require(at < steps().size(), "the schedule does not read '{}' for '{}'", buffer(each.buffer).name, sym::to_string(expr));
  is_bound_[at] = true;
  read(each.buffer, {});
  std::vector<sym::Expr> open;
  for (sym::Expr symbol : expr.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(expr)) {
    if (!known_.contains(symbol)) open.push_back(symbol);
  }
  require(open == (each.defines ? std::vector{*each.defines} : std::vector<sym::Expr>{}), "the sizes that '{}' leaves open are {}",
          sym::to_string(expr), list_text(open));
  if (!each.defines) return;
  require(rest_beside(expr, *each.defines).has_value(), "'{}' does not tell '{}'", sym::to_string(expr), sym::to_string(*each.defines));
  known_.insert(*each.defines);
}

void ModuleRules::check(const ControlFlow& each) {
  require(!each.outputs.empty(), "control flow without results");
  const auto found = calls_.find(each.outputs[0]);
  const auto* call = found == calls_.end() ? nullptr : std::get_if<schedule::CallStep>(&steps()[found->second.step]);
  require(call != nullptr && std::holds_alternative<HigherOrder>(call->call.op), "no control flow of the schedule gives '{}'",
          buffer(each.outputs[0]).name);
  const ControlFlow own = control_flow(loops(), *call);
  require(own.label == each.label, "the schedule has {} here", own.label);
  require(own.what == each.what, "the schedule runs other subgraphs, or runs them otherwise");
  require(own.inputs == each.inputs && own.outputs == each.outputs, "the schedule gives {} other operands", own.label);
  require(own.bytes == each.bytes, "the values of {} have other sizes", own.label);
  for (const Pointer& pointer : each.inputs) check_size(pointer.offset);
  for (const ControlFlow::Bytes& bytes : each.bytes) check_size(bytes.elements);
  match(
      each.what, [&](const Branch& branch) { check_size(branch.tensor ? branch.tensor->offset : branch.number); }, [](const WhileLoop&) {},
      [&](const ScanOver& scan) { check_size(scan.slices); }, [&](const AssociativeScan& scan) { check_size(scan.slices); });
  for (uint32_t subgraph : called_by(each)) {
    const auto [known, is_new] = called_.try_emplace(subgraph, known_);
    if (!is_new) std::erase_if(known->second, [&](sym::Expr symbol) { return !known_.contains(symbol); });
  }
  flow(*call);
}

}  // namespace toroid::program
