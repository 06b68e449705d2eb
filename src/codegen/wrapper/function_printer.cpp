#include "codegen/wrapper/function_printer.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/halide/halide_kernel.h"
#include "library/branch_calls.h"
#include "library/device_copy.h"
#include "program/streams/received_in_place.h"
#include "support/match.h"

namespace toroid::codegen {

std::string joined(const std::vector<std::string>& parts, std::string_view otherwise) {
  return parts.empty() ? std::string(otherwise) : fmt::format("{}", fmt::join(parts, ", "));
}

FunctionPrinter::FunctionPrinter(const program::Function& function, SharedParts& shared)
    : function_(function), loops_(*shared.graphs[function.graph].schedule.loops), shared_(shared) {}

std::string FunctionPrinter::index(sym::Expr e) const { return print_index(loops_.exprs, e); }

std::string FunctionPrinter::list(const std::vector<sym::Expr>& values) const {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + index(values[i]);
  return text;
}

// The name of an array with these values: one of the program's if they are numbers, else one that is declared here.
std::string FunctionPrinter::array(std::string_view name, const std::vector<sym::Expr>& values) {
  const bool is_fixed = std::all_of(values.begin(), values.end(), [](sym::Expr e) { return e.is_const() && e.value() >= 0; });
  if (!is_fixed) {
    body_.write(fmt::format("const int64_t {}[] = {{{}}};", name, list(values)));
    return std::string(name);
  }
  std::string fixed = "d";
  for (sym::Expr e : values) fixed += fmt::format("{}{}", fixed.size() == 1 ? "" : "_", e.value());
  shared_.dims.try_emplace(fixed, list(values));
  return "dims::" + fixed;
}

std::string FunctionPrinter::bytes_of(sym::Expr elements, DType dtype) const {
  // One literal, for a product of two is an int's; throws where 63 bits do not hold it. Each call checks the others.
  if (elements.is_const()) return std::to_string((elements * size_bytes(dtype)).value());
  return fmt::format("({}) * {}", index(elements), size_bytes(dtype));
}

std::string FunctionPrinter::pointer(const program::Pointer& pointer) const {
  const std::string name = identifier(buffer(pointer.buffer).name);
  return pointer.offset.is_const(0) ? name : fmt::format("{} + {}", name, index(pointer.offset));
}

std::string FunctionPrinter::number_at(const std::string& pointer) const {
  if (is_device(target())) return fmt::format("read_number(runtime, {})", pointer);
  return pointer.find(' ') == std::string::npos ? "*" + pointer : fmt::format("*({})", pointer);
}

// ---- functions --------------------------------------------------------------------------------------------------------------------

void FunctionPrinter::read_symbols(TextBuffer& text) const {
  for (sym::Expr symbol : function_.known) {
    const std::string name = identifier(symbol.node()->name);
    text.write(fmt::format("const int64_t {0} = symbols[{1}]; (void){0};", name, shared_.symbol_positions.at(symbol)));
  }
}

void FunctionPrinter::declare(TextBuffer& text, BufferId id, std::string_view constness, std::string_view from) const {
  const std::string name = identifier(buffer(id).name);
  const std::string_view stays = taken_.contains(id) ? "" : "const ";
  text.write(fmt::format("{0}{1}* {4}{2} = ({0}{1}*){3}; (void){2};", constness, storage_type(buffer(id).dtype), name, from, stays));
}

void FunctionPrinter::declare_buffers(TextBuffer& text, std::string_view inputs, std::string_view outputs) const {
  for (const program::PlacedBuffer& each : function_.buffers) {
    match(
        each.place, [&](program::InArgument place) { declare(text, each.id, "const ", fmt::format("{}[{}]", inputs, place.position)); },
        [&](program::InResult place) { declare(text, each.id, "", fmt::format("{}[{}]", outputs, place.position)); },
        [&](program::InConstant place) { declare(text, each.id, "const ", fmt::format("call->constants[{}]", place.slot)); },
        [&](program::InArena place) {
          const bool is_apart = buffer(each.id).on_host && is_device(shared_.target);
          declare(text, each.id, "",
                  fmt::format("({}->{} + call->offsets[{}])", is_apart ? "gpu(runtime)" : "call", is_apart ? "host_arena" : "arena",
                              place.slot));
        },
        [&](program::InPrepared place) { declare(text, each.id, "", fmt::format("(call->prepared + {})", place.offset)); },
        [&](program::InRandomState) { declare(text, each.id, "const ", "call->random"); }, [](program::Allocated) {});
  }
}

std::string FunctionPrinter::print_function(const std::string& head, std::string_view inputs, std::string_view outputs,
                                            std::string_view first) {
  TextBuffer text;
  {
    auto function = text.block(head);
    if (!first.empty()) {
      text.write(std::string(first));
      read_symbols(text);
    }
    if (has_host_buffers())
      text.write(fmt::format("const ToroidRuntime* const on_host = {}; (void)on_host;",
                             is_device(shared_.target) ? "gpu(runtime)->here" : "runtime"));
    declare_buffers(text, inputs, outputs);
    print_steps();
    text.write("int32_t error = 0; (void)error;");
    text.splice(body_);
    text.write("return 0;");
  }
  return text.str();
}

std::string FunctionPrinter::print_main() {
  if (shared_.target == Target::Cuda) {
    for (size_t s : program::received_in_place(shared_.graphs, shared_.module))
      taken_.insert(std::get<program::LibraryCall>(function_.steps[s].instructions.at(0)).outputs.at(0).buffer);
  }
  return print_function(
      fmt::format("ENTRY WRAPPER int32_t toroid_run{}(const ToroidRuntime* runtime, const ToroidCall* call) {{", shared_.suffix),
      "call->inputs", "call->outputs", "const int64_t* symbols = call->symbols; (void)symbols;");
}

std::string FunctionPrinter::print_prepare() {
  prepares_ = true;
  return print_function(
      fmt::format("ENTRY WRAPPER int32_t toroid_prepare{}(const ToroidRuntime* runtime, const ToroidCall* call) {{", shared_.suffix), "",
      "", "");
}

std::string FunctionPrinter::print_subgraph(uint32_t index) {
  return print_function(
      fmt::format(
          "static WRAPPER int32_t graph_{}(const ToroidRuntime* runtime, const ToroidCall* call, const void* const* inputs, void* const* "
          "outputs) {{",
          index),
      "inputs", "outputs", "const int64_t* symbols = call->symbols; (void)symbols, (void)inputs, (void)outputs, (void)runtime;");
}

std::string FunctionPrinter::print_sizes() {
  TextBuffer text;
  {
    auto function = text.block(fmt::format(
        "ENTRY WRAPPER void toroid_sizes{}(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes) {{", shared_.suffix));
    text.write("(void)symbols, (void)temporary_bytes, (void)output_sizes;");
    read_symbols(text);
    const program::Module& module = shared_.module;
    for (size_t i = 0; i < module.temporaries.size(); ++i) {
      const loop::Buffer& each = buffer(module.temporaries[i].buffer);
      text.write(fmt::format("temporary_bytes[{}] = {};", i, bytes_of(loop::elements_in_memory(each), each.dtype)));
    }
    size_t next = 0;
    for (const program::OutputInfo& output : module.outputs) {
      for (sym::Expr size : output.sizes) {
        if (!output.is_late) text.write(fmt::format("output_sizes[{}] = {};", next, index(size)));
        ++next;
      }
    }
  }
  return text.str();
}

// ---- steps ------------------------------------------------------------------------------------------------------------------------

void FunctionPrinter::print_steps() {
  for (const program::Step& step : function_.steps) {
    number_ = step.number;
    shared_.step_kernels.resize(std::max(shared_.step_kernels.size(), number_ + 1));
    if (const auto& provenance = shared_.module.steps[number_].provenance) body_.write(origin_comment(source().provenance(*provenance)));
    if (shared_.target == Target::Cpu && !prepares_) print_step_call();
    // Where branches begin, all of them wait; within, the step's own.
    const bool all_wait = branch_ == 0;
    if (step.awaits > 0 && all_wait) print_order(kAwaitCall, step.awaits);
    print_branch(step.branch);
    if (step.awaits > 0 && !all_wait) print_order(kAwaitCall, step.awaits);
    const std::optional<loop::BufferId> taken = taken_by(step);
    if (step.is_beside) print_order(kBesideCall, taken ? kStays : 1);
    if (step.waits) print_order(kWaitCall, 0);
    for (const program::Instruction& instruction : step.instructions) step.on_host ? print_on_host(instruction) : print(instruction);
    if (step.is_beside) print_order(kBesideCall, 0);
    if (taken) print_take(*taken);
    if (step.is_marked) print_order(kBesideCall, kMarks);
  }
  number_ = function_.steps.size();
  print_branch(0);
  for (const program::Instruction& instruction : function_.at_end) print(instruction);
}

// What the step swaps, if it stays where it comes.
std::optional<loop::BufferId> FunctionPrinter::taken_by(const program::Step& step) const {
  if (!step.is_beside || &function_ != &shared_.module.main) return std::nullopt;
  const loop::BufferId id = std::get<program::LibraryCall>(step.instructions.at(0)).outputs.at(0).buffer;
  return taken_.contains(id) ? std::optional(id) : std::nullopt;
}

void FunctionPrinter::print_take(loop::BufferId id) {
  auto block = body_.block("{");
  body_.write(fmt::format("const ToroidOperand taken[] = {{{{(void*)&{}, nullptr, nullptr, 0, 0, 0}}}};", identifier(buffer(id).name)));
  body_.write(fmt::format("const ToroidLibraryCall library_call = {{\"{}\", 0, 0, nullptr, 0, taken, 1, nullptr, 0, nullptr, 0, nullptr}};",
                          kTakeCall));
  return_if("runtime->call(runtime, &library_call)");
}

void FunctionPrinter::print_branch(uint32_t branch) {
  if (std::exchange(branch_, branch) != branch) print_order(kBranchCall, branch);
}

void FunctionPrinter::print_order(std::string_view call, size_t number) {
  if (call == kWaitCall ? !is_device(shared_.target) : shared_.target != Target::Cuda) return;
  auto block = body_.block("{");
  body_.write(fmt::format("const int64_t number[] = {{{}}};", number));
  body_.write(fmt::format(
      "const ToroidLibraryCall library_call = {{\"{}\", 0, 0, nullptr, 0, nullptr, 0, number, 1, nullptr, 0, nullptr}};", call));
  return_if("runtime->call(runtime, &library_call)");
}

bool FunctionPrinter::has_host_buffers() const {
  return std::any_of(function_.buffers.begin(), function_.buffers.end(),
                     [&](const program::PlacedBuffer& each) { return buffer(each.id).on_host; });
}

// What it declares for later steps stays outside of a block.
void FunctionPrinter::print_on_host(const program::Instruction& instruction) {
  const bool declares = std::holds_alternative<program::TimeStep>(instruction) || std::holds_alternative<program::Allocate>(instruction) ||
                        std::holds_alternative<program::AllocateOutput>(instruction) ||
                        std::holds_alternative<program::Release>(instruction) || std::holds_alternative<program::ReadNumber>(instruction);
  if (declares) return print(instruction);
  auto block = body_.block("{  // on the host");
  body_.write("const ToroidRuntime* const runtime = on_host;");
  on_host_ = true;
  print(instruction);
  on_host_ = false;
}

// The runtime knows both memories.
void FunctionPrinter::print_device_copy(const program::LibraryCall& call) {
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  if (!is_device(shared_.target)) note_linked(call);
  const std::string from = operand(call.inputs[0]), to = operand(call.outputs[0]);
  body_.write(fmt::format("const ToroidOperand inputs[] = {{{}}};", from));
  body_.write(fmt::format("const ToroidOperand outputs[] = {{{}}};", to));
  body_.write(fmt::format("const double to_gpu = {};", buffer(call.outputs[0].buffer).on_host ? 0 : 1));
  body_.write(
      fmt::format("const ToroidLibraryCall library_call = {{\"{}\", {}, {}, inputs, 1, outputs, 1, nullptr, 0, &to_gpu, 1, nullptr}};",
                  call.kernel, call.site, call.has_fixed_sizes ? 1 : 0));
  return_if("runtime->call(runtime, &library_call)");
}

void FunctionPrinter::print(const program::Instruction& instruction) {
  match(
      instruction,
      [&](const program::TimeStep&) {
        if (shared_.target != Target::Cpu) print_step_call();  // else it is there anyway
      },
      [&](const program::Allocate& allocate) {
        const loop::Buffer& each = buffer(allocate.buffer);
        declare(body_, allocate.buffer, "",
                fmt::format("{0}->allocate({0}, {1})", memory_of(allocate.buffer), bytes_of(allocate.elements, each.dtype)));
        return_if("!" + identifier(each.name));
      },
      [&](const program::AllocateOutput& output) {
        const std::string sizes = array(fmt::format("sizes{}", ++arrays_), output.sizes);
        declare(body_, output.buffer, "", fmt::format("{0}->output({0}, {1}, {2})", memory_of(output.buffer), output.position, sizes));
        return_if("!" + identifier(buffer(output.buffer).name));
      },
      [&](const program::Release& release) {
        body_.write(fmt::format("{0}->release({0}, (void*){1});", memory_of(release.buffer), identifier(buffer(release.buffer).name)));
      },
      [&](const program::Launch& launch) {
        if (print_launch(launch)) return_errors();
      },
      [&](const program::LaunchTogether& together) { print_together(together); },
      [&](const program::LaunchQuickest& quickest) { print_quickest(quickest); },
      [&](const program::LibraryCall& call) { print_call(call); }, [&](const program::ChainCall& chain) { print_chain(chain); },
      [&](const program::ReadNumber& read) { print_read(read); }, [&](const program::ControlFlow& flow) { print_control_flow(flow); });
}

void FunctionPrinter::print_read(const program::ReadNumber& read) {
  on_host_ = buffer(read.buffer).on_host;
  return_if(fmt::format("runtime->bind(runtime, {}, (int64_t){})", read.binding, number_at(identifier(buffer(read.buffer).name))));
  on_host_ = false;
  if (!read.defines) return;
  const std::string name = identifier(read.defines->node()->name);
  body_.write(fmt::format("const int64_t {0} = symbols[{1}]; (void){0};", name, shared_.symbol_positions.at(*read.defines)));
}

// ---- launches ---------------------------------------------------------------------------------------------------------------------

KernelSource FunctionPrinter::print_definition(size_t number, std::string_view kind, bool assertions) {
  const program::KernelDefinition& definition = shared_.module.kernels[number];
  const schedule::Step kernel = program::kernel_of(shared_.graphs, definition);
  const std::string base = fmt::format("{}_{}{}{}", identifier(schedule::name_of(kernel)), on_host_ ? "host_" : "", kind, shared_.suffix);
  const auto* nest = std::get_if<schedule::Kernel>(&kernel);
  if (nest != nullptr && !nest->halide.empty())
    return print_halide_kernel(loops_, *nest, graph_of(definition.graph), kernels().fresh_name(base));
  return print_kernel(loops_, kernel, graph_of(definition.graph), kernels().fresh_name(base), assertions);
}

const std::string& FunctionPrinter::add_kernel(KernelSource source) {
  // Kernels of calls, as of attention, are printed without the operators that they come from.
  if (!source.text.starts_with("// ") && number_ < shared_.module.steps.size()) {
    const program::StepInfo& step = shared_.module.steps[number_];
    source.text = fmt::format("// {}: {}\n{}", source.name, comment_text(step.origin.empty() ? step.name : step.origin, 240), source.text);
  }
  shared_.calls_special_functions = shared_.calls_special_functions || (source.uses_runtime && source.halide.empty());
  for (const HalidePipeline& pipeline : source.halide) shared_.halide.emplace(pipeline.entry, pipeline);
  const std::string& name = kernels().add(source, loops_);
  shared_.step_kernels[number_].push_back(name);
  return name;
}

std::string FunctionPrinter::arguments(const KernelSource& source) const {
  std::string text;
  for (const KernelParameter& parameter : source.parameters) text += identifier(buffer(parameter.buffer).name) + ", ";
  for (sym::Expr size : source.sizes) text += identifier(size.node()->name) + ", ";
  if (source.uses_runtime) text += "runtime, ";
  if (source.access_names) text += "&checks, ";
  if (source.reports_errors) text += "&error, ";
  return text;
}

bool FunctionPrinter::print_launch(const program::Launch& launch) {
  if (target() != Target::Cpu) {
    const program::KernelDefinition& definition = shared_.module.kernels[launch.kernel];
    print_gpu_launch(program::kernel_of(shared_.graphs, definition), definition.graph, launch.tasks, launch.overlap);
    return false;
  }
  const KernelSource source = print_definition(launch.kernel, "kernel", shared_.module.assertions);
  const std::string& name = add_kernel(source);
  std::string arguments = this->arguments(source);
  std::optional<TextBuffer::Scope> block;
  if (source.counts_tasks || source.access_names) block.emplace(body_.block("{"));
  if (source.access_names) print_access_names(source, "");
  if (source.counts_tasks) {
    body_.write(fmt::format("int64_t remaining = {};", index(launch.tasks)));
    arguments += "&remaining, ";
    // Without a task nobody would run the finish.
    if (!sym::known_lt(0, launch.tasks)) body_.write(fmt::format("if (remaining == 0) {}({}0, 0);", name, arguments));
  }
  if (launch.tasks.is_const(1)) {
    body_.write(fmt::format("{}({}0, 1);", name, arguments));
    return source.reports_errors;
  }
  const sym::Expr work = launch.work_per_task;
  const std::string grain = work.is_const()
                                ? fmt::format("{}", std::max<int64_t>(1, launch.least_work / std::max<int64_t>(1, work.value())))
                                : fmt::format("max64(1, {} / max64(1, {}))", launch.least_work, index(work));
  body_.write(fmt::format("parallel(runtime, {}, {}, [&](int64_t begin, int64_t end) WRAPPER {{ {}({}begin, end); }});",
                          index(launch.tasks), grain, name, arguments));
  return source.reports_errors;
}

void FunctionPrinter::print_together(const program::LaunchTogether& together) {
  if (target() != Target::Cpu) {
    const program::KernelDefinition& first = shared_.module.kernels[together.kernels[0].kernel];
    sym::Expr blocks = 0;
    for (const program::Launch& each : together.kernels) blocks = blocks + each.tasks;
    return print_gpu_launch(program::step_of(shared_.graphs, first), first.graph, blocks, together.kernels[0].overlap);
  }
  bool reports_errors = false;
  {
    auto loop =
        body_.block(fmt::format("parallel(runtime, {}, 1, [&](int64_t begin, int64_t end) WRAPPER {{", together.kernels.size()), "});");
    auto each = body_.block("for (; begin < end; ++begin) {");
    auto which = body_.block("switch (begin) {");
    for (size_t k = 0; k < together.kernels.size(); ++k) {
      const KernelSource source = print_definition(together.kernels[k].kernel, "kernel", false);
      const std::string& name = add_kernel(source);
      reports_errors = reports_errors || source.reports_errors;
      body_.write(fmt::format("case {}: {}({}0, {}); break;", k, name, arguments(source), index(together.kernels[k].tasks)));
    }
  }
  if (reports_errors) return_errors();
}

void FunctionPrinter::print_quickest(const program::LaunchQuickest& quickest) {
  bool reports_errors = false;
  {
    auto chosen = body_.block(
        fmt::format("in_best_form(runtime, call->forms + {}, {}, [&](int32_t form) WRAPPER {{", quickest.slot, quickest.forms.size()),
        "});");
    for (size_t i = 0; i < quickest.forms.size(); ++i) {
      auto each = body_.block(fmt::format("if (form == {}) {{", i));
      reports_errors = print_launch(quickest.forms[i]) || reports_errors;
    }
  }
  if (reports_errors) return_errors();
}

// ---- control flow -----------------------------------------------------------------------------------------------------------------

void FunctionPrinter::print_control_flow(const program::ControlFlow& flow) {
  auto block = body_.block(fmt::format("{{  // {}", comment_text(flow.label)));
  std::vector<std::string> from, to, bytes;
  for (const program::Pointer& each : flow.inputs) from.push_back(pointer(each));
  for (BufferId out : flow.outputs) to.push_back(identifier(buffer(out).name));
  for (const program::ControlFlow::Bytes& each : flow.bytes) bytes.push_back(bytes_of(each.elements, each.dtype));
  body_.write(fmt::format("const void* const inputs[] = {{{}}};", joined(from, "nullptr")));
  body_.write(fmt::format("void* const outputs[] = {{{}}};", joined(to, "nullptr")));
  if (!std::holds_alternative<program::Branch>(flow.what)) body_.write(fmt::format("const int64_t bytes[] = {{{}}};", joined(bytes, "0")));
  const std::string result = match(
      flow.what,
      [&](const program::Branch& branch) {
        const std::string condition = branch.tensor ? number_at(pointer(*branch.tensor)) : index(branch.number);
        return fmt::format("{} ? graph_{}(runtime, call, inputs, outputs) : graph_{}(runtime, call, inputs, outputs)", condition,
                           branch.yes, branch.no);
      },
      [&](const program::WhileLoop& loop) {
        return fmt::format("while_loop<{}, {}>(runtime, call, graph_{}, graph_{}, {}, inputs, outputs, bytes)", loop.carried,
                           flow.inputs.size(), loop.condition, loop.body, number_ + 1);
      },
      [&](const program::ScanOver& scan) {
        return fmt::format("scan_loop<{}, {}, {}, {}>(runtime, call, graph_{}, {}, {}, inputs, outputs, bytes)", scan.carried, scan.sliced,
                           flow.outputs.size() - scan.carried, flow.inputs.size(), scan.body, number_ + 1, index(scan.slices));
      },
      [&](const program::AssociativeScan& scan) {
        return fmt::format("associative_scan<{}, {}>(runtime, call, graph_{}, {}, inputs, outputs, bytes)", scan.sliced, flow.inputs.size(),
                           scan.body, index(scan.slices));
      });
  body_.write(fmt::format("const int32_t failed = {};", result));
  shared_.uses_control_flow = true;
  body_.write("if (failed) return failed;");
}

}  // namespace toroid::codegen
