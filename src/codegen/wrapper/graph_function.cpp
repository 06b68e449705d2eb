#include "codegen/wrapper/graph_function.h"

#include <algorithm>

#include "codegen/cpp/kernel.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "graph/builder.h"
#include "lower/constant_values.h"
#include "schedule/call_arguments.h"
#include "support/error.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

// Work below this many elements is not worth waking another thread for.
constexpr int64_t kGrainElements = 16384;

}  // namespace

std::string joined(const std::vector<std::string>& parts, std::string_view otherwise) {
  return parts.empty() ? std::string(otherwise) : fmt::format("{}", fmt::join(parts, ", "));
}

GraphFunction::GraphFunction(const ScheduledGraph& graph, const Graph& source, SharedParts& shared, std::vector<sym::Expr> known)
    : graph_(graph),
      source_(source),
      loops_(*graph.schedule.loops),
      shared_(shared),
      known_at_start_(std::move(known)),
      known_(known_at_start_.begin(), known_at_start_.end()) {
  make_names_unique();
}

// Buffers, axes, sizes and temporaries share scopes with each other and with the prelude's functions.
void GraphFunction::make_names_unique() {
  std::unordered_set<std::string> taken;
  for (sym::Expr symbol : shared_.program.symbols->symbols()) taken.insert(identifier(symbol.node()->name));
  for (loop::Buffer& each : graph_.schedule.loops->buffers) {
    std::string name = identifier(each.name);
    if (const size_t mark = name.rfind("_v");
        mark != std::string::npos && mark + 2 < name.size() && name.find_first_not_of("0123456789", mark + 2) == std::string::npos) {
      name = identifier(each.name + "_b");
    }
    for (int i = 1; !taken.insert(name).second; ++i) name = identifier(fmt::format("{}_b{}", each.name, i));
    each.name = name;
  }
}

std::string GraphFunction::index(sym::Expr e) const { return print_index(loops_.exprs, e); }

std::string GraphFunction::list(const std::vector<sym::Expr>& values) const {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + index(values[i]);
  return text;
}

// The name of an array with these values: one of the program's if they are numbers, else one that is declared here.
std::string GraphFunction::array(std::string_view name, const std::vector<sym::Expr>& values) {
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

std::string GraphFunction::bytes_of(std::span<const sym::Expr> sizes, DType dtype) const {
  const sym::Expr count = sym::product(sizes);
  if (count.is_const()) static_cast<void>(count * size_bytes(dtype));  // throws where 63 bits do not hold it; each call checks the others
  return fmt::format("({}) * {}", index(count), size_bytes(dtype));
}
std::string GraphFunction::bytes_of(const loop::Buffer& buffer) const { return bytes_of(buffer.sizes, buffer.dtype); }

// A size that nothing gives would be an unknown name in the generated code.
void GraphFunction::check_symbols() const {
  const auto is_known = [&](const auto& symbol) { return known_.contains(symbol.first); };
  if (std::all_of(shared_.symbol_positions.begin(), shared_.symbol_positions.end(), is_known)) return;
  for (const loop::Computation& computation : loops_.computations) {
    for (sym::Expr symbol : loop::size_symbols(loops_, computation)) {
      if (known_.contains(symbol)) continue;
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("the size '{}' is neither one of an input nor computed by the program", sym::to_string(symbol)))
          .help("export the model with dynamic shapes that name each size on some input");
    }
  }
}

bool GraphFunction::is_known(const std::vector<sym::Expr>& sizes) const {
  return std::all_of(sizes.begin(), sizes.end(), [&](sym::Expr size) {
    if (size.is_const()) return true;
    const std::vector<sym::Expr> symbols = sym::free_symbols(size);
    return std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr symbol) { return known_.contains(symbol); });
  });
}

// ---- functions --------------------------------------------------------------------------------------------------------------------

void GraphFunction::read_symbols(TextBuffer& text) const {
  for (sym::Expr symbol : known_at_start_) {
    const std::string name = identifier(symbol.node()->name);
    text.write(fmt::format("const int64_t {0} = symbols[{1}]; (void){0};", name, shared_.symbol_positions.at(symbol)));
  }
}

void GraphFunction::declare(TextBuffer& text, BufferId id, std::string_view constness, std::string_view from) const {
  const std::string name = identifier(buffer(id).name);
  text.write(fmt::format("{0}{1}* const {2} = ({0}{1}*){3}; (void){2};", constness, storage_type(buffer(id).dtype), name, from));
}

void GraphFunction::declare_parameters(TextBuffer& text, std::string_view inputs, std::string_view outputs) {
  for (size_t b = 0; b < loops_.buffers.size(); ++b) {
    const BufferId id{static_cast<uint32_t>(b)};
    const loop::Buffer& each = buffer(id);
    if (each.kind == loop::BufferKind::Input) declare(text, id, "const ", fmt::format("{}[{}]", inputs, each.position));
    if (each.kind == loop::BufferKind::RandomState) declare(text, id, "const ", "call->random");
    if (each.kind == loop::BufferKind::Output && !is_late_output(each.position)) {
      declare(text, id, "", fmt::format("{}[{}]", outputs, each.position));
    }
    if (each.kind != loop::BufferKind::Constant) continue;
    std::vector<ConstantId>& constants = shared_.result.constants;
    const auto [found, is_new] = shared_.constant_positions.try_emplace(each.position, constants.size());
    if (is_new) constants.push_back(ConstantId{each.position});
    declare(text, id, "const ", fmt::format("call->constants[{}]", found->second));
  }
}

bool GraphFunction::is_late(const schedule::Lifetime& lifetime, bool is_main) const {
  if (!is_main) return true;
  for (sym::Expr size : buffer(lifetime.buffer).sizes) {
    if (size.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(size)) {
      if (std::find(known_at_start_.begin(), known_at_start_.end(), symbol) == known_at_start_.end()) return true;
    }
  }
  return false;
}

bool GraphFunction::is_late_output(size_t position) const {
  const auto& late = shared_.result.late_outputs;
  return &source_ == &shared_.program.graph && late[position];
}

// Where prepared buffers lie in ToroidCall::prepared.
void GraphFunction::declare_prepared(TextBuffer& text) const {
  for (size_t b = 0; b < loops_.buffers.size(); ++b) {
    const BufferId id{static_cast<uint32_t>(b)};
    if (const auto found = prepared_offsets_.find(id); found != prepared_offsets_.end()) {
      declare(text, id, "", fmt::format("(call->prepared + {})", found->second));
    }
  }
}

std::string GraphFunction::print_prepare() {
  if (graph_.schedule.prepare.empty()) return {};
  body_ = TextBuffer();
  TextBuffer text;
  {
    auto function = text.block(
        fmt::format("EXPORT WRAPPER int32_t toroid_prepare{}(const ToroidRuntime* runtime, const ToroidCall* call) {{", shared_.suffix));
    for (size_t b = 0; b < loops_.buffers.size(); ++b) {
      const BufferId id{static_cast<uint32_t>(b)};
      if (buffer(id).kind == loop::BufferKind::Constant) {
        declare(text, id, "const ", fmt::format("call->constants[{}]", shared_.constant_positions.at(buffer(id).position)));
      }
    }
    declare_prepared(text);
    for (const schedule::Step& step : graph_.schedule.prepare) {
      const size_t number = shared_.result.step_names.size();
      add_step(step);
      write_origin(step);
      print_step(step, number);
    }
    text.write("int32_t error = 0; (void)error;");
    text.splice(body_);
    text.write("return 0;");
  }
  return text.finish().text;
}

std::string GraphFunction::print_main() {
  GeneratedProgram& result = shared_.result;
  constexpr int64_t kAlignment = 64;
  // What is only read has no elements, and nobody writes it.
  std::vector<BufferId> prepared;
  for (const auto* steps : {&graph_.schedule.prepare, &graph_.schedule.steps}) {
    for (const schedule::Step& step : *steps) {
      for (BufferId id : schedule::writes_of(step)) prepared.push_back(id);
      for (BufferId id : schedule::reads_of(step)) prepared.push_back(id);
    }
  }
  for (BufferId id : prepared) {
    if (buffer(id).kind == loop::BufferKind::Prepared && prepared_offsets_.emplace(id, result.prepared_bytes).second) {
      const int64_t bytes = (sym::product(buffer(id).sizes) * size_bytes(buffer(id).dtype)).value();
      result.prepared_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  for (const OutputBinding& output : graph_.outputs) result.late_outputs.push_back(!is_known(output.sizes));
  TextBuffer text;
  {
    auto function = text.block(
        fmt::format("EXPORT WRAPPER int32_t toroid_run{}(const ToroidRuntime* runtime, const ToroidCall* call) {{", shared_.suffix));
    text.write("const int64_t* symbols = call->symbols; (void)symbols;");
    read_symbols(text);
    declare_parameters(text, "call->inputs", "call->outputs");
    declare_prepared(text);
    for (const schedule::Lifetime& lifetime : graph_.schedule.lifetimes) {
      if (is_late(lifetime, true)) continue;
      declare(text, lifetime.buffer, "", fmt::format("(call->arena + call->offsets[{}])", result.temporaries.size()));
      result.temporaries.push_back(lifetime);
    }
    print_steps(true);
    check_symbols();
    text.write("int32_t error = 0; (void)error;");
    text.splice(body_);
    text.write("return 0;");
  }
  return text.finish().text;
}

std::string GraphFunction::print_subgraph(uint32_t index) {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    if (is_known(graph_.outputs[i].sizes)) continue;
    throw Error(ErrorKind::Unsupported, "a branch or loop body whose result has a size that depends on data cannot be compiled")
        .at(fmt::format("at '{}'", source_.value(source_.outputs[i]).name))
        .help("run the model with '--backend interp'");
  }
  TextBuffer text;
  {
    auto function =
        text.block(fmt::format("static WRAPPER int32_t graph_{}(const ToroidRuntime* runtime, const ToroidCall* call, const void* const* "
                               "inputs, void* const* outputs) {{",
                               index));
    text.write("const int64_t* symbols = call->symbols; (void)symbols, (void)inputs, (void)outputs, (void)runtime;");
    read_symbols(text);
    declare_parameters(text, "inputs", "outputs");
    print_steps(false);
    check_symbols();
    text.write("int32_t error = 0; (void)error;");
    text.splice(body_);
    text.write("return 0;");
  }
  return text.finish().text;
}

std::string GraphFunction::print_sizes() {
  TextBuffer text;
  {
    auto function = text.block(fmt::format(
        "EXPORT WRAPPER void toroid_sizes{}(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes) {{", shared_.suffix));
    text.write("(void)symbols, (void)temporary_bytes, (void)output_sizes;");
    read_symbols(text);
    for (size_t i = 0; i < shared_.result.temporaries.size(); ++i) {
      text.write(fmt::format("temporary_bytes[{}] = {};", i, bytes_of(buffer(shared_.result.temporaries[i].buffer))));
    }
    size_t next = 0;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      for (sym::Expr size : graph_.outputs[i].sizes) {
        if (!is_late_output(i)) text.write(fmt::format("output_sizes[{}] = {};", next, index(size)));
        ++next;
      }
    }
  }
  return text.finish().text;
}

// ---- steps ------------------------------------------------------------------------------------------------------------------------

void GraphFunction::print_allocation(BufferId id, std::string_view request, size_t number) {
  if (!is_known(buffer(id).sizes)) {
    throw Error(ErrorKind::Unsupported, fmt::format("the size of '{}' is known only after it has been computed", buffer(id).name))
        .help("run the model with '--backend interp'");
  }
  declare(body_, id, "", request);
  body_.write(fmt::format("if (!{}) return {};", identifier(buffer(id).name), number + 1));
}

void GraphFunction::print_steps(bool is_main) {
  const std::vector<schedule::Step>& steps = graph_.schedule.steps;
  std::unordered_set<BufferId> made;
  auto make_output = [&](BufferId id, size_t number) {
    const loop::Buffer& out = buffer(id);
    if (out.kind != loop::BufferKind::Output || !is_late_output(out.position) || !made.insert(id).second) return;
    const std::string sizes = array(fmt::format("sizes{}", ++arrays_), graph_.outputs[out.position].sizes);
    print_allocation(id, fmt::format("runtime->output(runtime, {}, {})", out.position, sizes), number);
  };
  // Late temporaries, by the step before which they are asked for and the one after which they are given back.
  std::vector<std::vector<BufferId>> begins(steps.size());
  std::vector<std::vector<BufferId>> ends(steps.size());
  for (const schedule::Lifetime& lifetime : graph_.schedule.lifetimes) {
    if (!is_late(lifetime, is_main)) continue;
    begins[lifetime.first_step].push_back(lifetime.buffer);
    ends[lifetime.last_step].push_back(lifetime.buffer);
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    const size_t number = shared_.result.step_names.size();
    add_step(steps[s]);
    write_origin(steps[s]);
    if (shared_.profile) {
      shared_.result.step_work.resize(number);  // other graphs' steps are not looked at
      shared_.result.step_work.push_back(schedule::work_of(loops_, steps[s]));
      body_.write(fmt::format("runtime->step(runtime, {});", number));
    }
    for (BufferId id : begins[s]) print_allocation(id, fmt::format("runtime->allocate(runtime, {})", bytes_of(buffer(id))), number);
    for (BufferId out : schedule::writes_of(steps[s])) make_output(out, number);
    print_step(steps[s], number);
    for (BufferId id : ends[s]) body_.write(fmt::format("runtime->release(runtime, (void*){});", identifier(buffer(id).name)));
  }
  // Outputs without elements, which nobody writes.
  for (const OutputBinding& output : graph_.outputs) make_output(output.buffer, steps.size());
}

void GraphFunction::add_step(const schedule::Step& step) {
  shared_.result.step_names.push_back(schedule::name_of(step));
  shared_.result.step_kernels.emplace_back();
  const std::vector<ProvenanceId>& provenance = schedule::provenance_of(step);
  const auto named =
      std::find_if(provenance.rbegin(), provenance.rend(), [&](ProvenanceId id) { return !source_.provenance(id).op.empty(); });
  shared_.result.step_origins.push_back(named == provenance.rend() ? "" : to_string(source_.provenance(*named)));
}

const std::string& GraphFunction::add_kernel(const KernelSource& source) {
  const std::string& name = shared_.kernels.add(source, loops_);
  shared_.result.step_kernels.back().push_back(name);
  return name;
}

// Of a fused step the last operator, which uses the others; the comment above the kernel names them all.
void GraphFunction::write_origin(const schedule::Step& step) {
  const std::vector<ProvenanceId>& provenance = schedule::provenance_of(step);
  if (!provenance.empty() && !source_.provenance(provenance.back()).op.empty())
    body_.write(origin_comment(source_.provenance(provenance.back())));
}

void GraphFunction::print_step(const schedule::Step& step, size_t number) {
  if (const auto* call = std::get_if<schedule::CallStep>(&step)) {
    if (const auto* control_flow = std::get_if<HigherOrder>(&call->call.op)) return print_control_flow(*call, *control_flow, number);
    ++shared_.result.library_calls;
    return print_call(*call, number);
  }
  if (const auto* chain = std::get_if<schedule::ChainStep>(&step)) {
    ++shared_.result.library_calls;
    return print_chain(*chain, number);
  }
  if (const auto* bind = std::get_if<schedule::BindStep>(&step)) return print_bind(*bind, number);
  if (const auto* group = std::get_if<schedule::ParallelKernels>(&step)) {
    shared_.result.kernel_calls += static_cast<int>(group->kernels.size());
    ++shared_.result.kernel_steps;
    return print_group(*group, number);
  }
  ++shared_.result.kernel_calls;
  ++shared_.result.kernel_steps;
  print_kernel_step(step, number);
}

std::string GraphFunction::arguments(const KernelSource& source) const {
  std::string text;
  for (const KernelParameter& parameter : source.parameters) text += identifier(buffer(parameter.buffer).name) + ", ";
  for (sym::Expr size : source.sizes) text += identifier(size.node()->name) + ", ";
  if (source.uses_runtime) text += "runtime, ";
  if (source.access_names) text += "&checks, ";
  if (source.reports_errors) text += "&error, ";
  return text;
}

void GraphFunction::print_kernel_step(const schedule::Step& step, size_t number) {
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  const bool has_forms = kernel != nullptr && !kernel->other_forms.empty();
  if (has_forms ? print_forms(*kernel, number) : print_launch(step))
    body_.write(fmt::format("if (error) return {} | error << 28;", number + 1));
}

bool GraphFunction::print_forms(const schedule::Kernel& kernel, size_t number) {
  GeneratedChoice choice = {number, {}};
  const std::string place = fmt::format("call->forms + {}", shared_.result.choices.size());
  bool reports_errors = false;
  auto chosen =
      body_.block(fmt::format("in_best_form(runtime, {}, {}, [&](int32_t form) WRAPPER {{", place, kernel.other_forms.size() + 1), "});");
  auto print = [&](const schedule::Kernel& form) {
    auto each = body_.block(fmt::format("if (form == {}) {{", choice.forms.size()));
    reports_errors = print_launch(form) || reports_errors;
    choice.forms.emplace_back(schedule::to_string(*form.form));
  };
  print(kernel);
  for (const schedule::Kernel& other : kernel.other_forms) print(other);
  shared_.result.choices.push_back(std::move(choice));
  return reports_errors;
}

bool GraphFunction::print_launch(const schedule::Step& step) {
  const std::string own_name = shared_.kernels.fresh_name(fmt::format("{}_kernel{}", identifier(schedule::name_of(step)), shared_.suffix));
  const KernelSource source = print_kernel(loops_, step, source_, own_name, shared_.assertions);
  const std::string& name = add_kernel(source);
  std::string arguments = this->arguments(source);
  const sym::Expr tasks = source.tasks;
  std::optional<TextBuffer::Scope> block;
  if (source.counts_tasks || source.access_names) block.emplace(body_.block("{"));
  if (source.access_names) print_access_names(source, "");
  if (source.counts_tasks) {
    body_.write(fmt::format("int64_t remaining = {};", index(tasks)));
    arguments += "&remaining, ";
    // Without a task nobody would run the finish.
    if (!sym::known_lt(0, tasks)) body_.write(fmt::format("if (remaining == 0) {}({}0, 0);", name, arguments));
  }
  if (tasks.is_const(1)) {
    body_.write(fmt::format("{}({}0, 1);", name, arguments));
  } else {
    const sym::Expr work = source.work_per_task;
    const std::string grain = work.is_const() ? fmt::format("{}", std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, work.value())))
                                              : fmt::format("max64(1, {} / max64(1, {}))", kGrainElements, index(work));
    body_.write(fmt::format("parallel(runtime, {}, {}, [&](int64_t begin, int64_t end) WRAPPER {{ {}({}begin, end); }});", index(tasks),
                            grain, name, arguments));
  }
  return source.reports_errors;
}

void GraphFunction::print_group(const schedule::ParallelKernels& step, size_t number) {
  // What an assertion build says of a kernel is declared before it: one after the other.
  if (shared_.assertions) {
    for (const schedule::Kernel& kernel : step.kernels) print_kernel_step(kernel, number);
    return;
  }
  bool reports_errors = false;
  {
    auto loop = body_.block(fmt::format("parallel(runtime, {}, 1, [&](int64_t begin, int64_t end) WRAPPER {{", step.kernels.size()), "});");
    auto each = body_.block("for (; begin < end; ++begin) {");
    auto which = body_.block("switch (begin) {");
    for (size_t k = 0; k < step.kernels.size(); ++k) {
      const std::string own_name = shared_.kernels.fresh_name(fmt::format("{}_kernel{}", identifier(step.kernels[k].name), shared_.suffix));
      const KernelSource source = print_kernel(loops_, step.kernels[k], source_, own_name, false);
      const std::string& name = add_kernel(source);
      reports_errors = reports_errors || source.reports_errors;
      body_.write(fmt::format("case {}: {}({}0, {}); break;", k, name, arguments(source), index(source.tasks)));
    }
  }
  if (reports_errors) body_.write(fmt::format("if (error) return {} | error << 28;", number + 1));
}

void GraphFunction::print_bind(const schedule::BindStep& step, size_t number) {
  std::optional<sym::Expr> defines;
  for (sym::Expr symbol : step.expr.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(step.expr)) {
    if (known_.contains(symbol)) continue;
    if (defines) {
      throw Error(ErrorKind::Unsupported, fmt::format("the number '{}' leaves two sizes open", sym::to_string(step.expr)));
    }
    defines = symbol;
  }
  body_.write(fmt::format("if (runtime->bind(runtime, {}, (int64_t)*{})) return {};", shared_.result.bindings.size(),
                          identifier(buffer(step.value).name), number + 1));
  shared_.result.bindings.push_back({step.expr, defines});
  if (!defines) return;
  known_.insert(*defines);
  const std::string name = identifier(defines->node()->name);
  body_.write(fmt::format("const int64_t {0} = symbols[{1}]; (void){0};", name, shared_.symbol_positions.at(*defines)));
}

// ---- control flow -----------------------------------------------------------------------------------------------------------------

std::string GraphFunction::subgraph(const Argument& argument) {
  const auto* ref = std::get_if<SubgraphRef>(&argument);
  TOROID_CHECK(ref != nullptr, "an argument of control flow that should be a subgraph is none");
  std::vector<sym::Expr> known(known_.begin(), known_.end());
  std::sort(known.begin(), known.end(), [](sym::Expr a, sym::Expr b) { return a.node()->id < b.node()->id; });
  const auto [found, is_new] = shared_.called.try_emplace(ref->index, known);
  // Called from several places, it may rely on what they all know.
  if (!is_new) std::erase_if(found->second, [&](sym::Expr symbol) { return !known_.contains(symbol); });
  return fmt::format("graph_{}", ref->index);
}

void GraphFunction::print_control_flow(const schedule::CallStep& step, const HigherOrder& op, size_t number) {
  auto pointer = [&](size_t i) {
    const loop::Operand& each = step.call.operands[i];
    return fmt::format("{} + {}", identifier(buffer(each.buffer).name), index(each.offset));
  };
  // The operands of arguments from `first` on, lists flattened, and how many each list holds.
  std::vector<size_t> inputs;
  std::vector<size_t> list_lengths;
  auto collect = [&](size_t first) {
    for (size_t i = first; i < op.arguments.size(); ++i) {
      size_t count = 0;
      if (const auto* one = std::get_if<InputRef>(&op.arguments[i])) inputs.push_back(one->index), ++count;
      if (const auto* many = std::get_if<InputList>(&op.arguments[i])) {
        for (const std::optional<InputRef>& each : *many) inputs.push_back(each->index);
        count = many->size();
      }
      list_lengths.push_back(count);
    }
  };
  auto block = body_.block(fmt::format("{{  // {}", comment_text(op.name)));
  auto write_pointers = [&] {
    std::vector<std::string> from;
    for (size_t i : inputs) from.push_back(pointer(i));
    std::vector<std::string> to;
    for (BufferId out : step.outputs) to.push_back(identifier(buffer(out).name));
    body_.write(fmt::format("const void* const inputs[] = {{{}}};", joined(from, "nullptr")));
    body_.write(fmt::format("void* const outputs[] = {{{}}};", joined(to, "nullptr")));
  };
  auto out_bytes = [&](size_t i) { return bytes_of(buffer(step.outputs[i])); };
  auto in_sizes = [&](size_t i) -> const std::vector<sym::Expr>& { return step.call.operands[inputs[i]].sizes; };
  // Bytes of one slice along the first dim.
  auto slice_bytes = [&](const std::vector<sym::Expr>& sizes, DType dtype) { return bytes_of(std::span(sizes).subspan(1), dtype); };
  auto in_slice_bytes = [&](size_t i) { return slice_bytes(in_sizes(i), buffer(step.call.operands[inputs[i]].buffer).dtype); };

  if (op.name == "cond") {
    std::string condition;
    if (const auto* tensor = std::get_if<InputRef>(&op.arguments[0])) condition = fmt::format("*({})", pointer(tensor->index));
    if (const auto* number_ = std::get_if<sym::Expr>(&op.arguments[0])) condition = index(*number_);
    if (const auto* flag = std::get_if<bool>(&op.arguments[0])) condition = *flag ? "true" : "false";
    TOROID_CHECK(!condition.empty(), "the predicate of cond is neither a tensor nor a number");
    collect(3);
    write_pointers();
    const std::string yes = subgraph(op.arguments[1]);
    const std::string no = subgraph(op.arguments[2]);
    body_.write(fmt::format("const int32_t failed = {} ? {}(runtime, call, inputs, outputs) : {}(runtime, call, inputs, outputs);",
                            condition, yes, no));
  } else if (op.name == "while_loop") {
    collect(2);
    write_pointers();
    const size_t carried = list_lengths.at(0);
    std::vector<std::string> bytes;
    for (size_t i = 0; i < carried; ++i) bytes.push_back(out_bytes(i));
    body_.write(fmt::format("const int64_t bytes[] = {{{}}};", joined(bytes, "0")));
    const std::string condition = subgraph(op.arguments[0]);
    body_.write(fmt::format("const int32_t failed = while_loop<{}, {}>(runtime, call, {}, {}, {}, inputs, outputs, bytes);", carried,
                            inputs.size(), condition, subgraph(op.arguments[1]), number + 1));
  } else if (op.name == "scan" || op.name == "map_impl") {
    collect(1);
    write_pointers();
    const size_t carried = op.name == "scan" ? list_lengths.at(0) : 0;
    const size_t sliced = list_lengths.at(op.name == "scan" ? 1 : 0);
    TOROID_CHECK(sliced > 0, "{} over no tensors", op.name);
    std::vector<std::string> bytes;
    for (size_t i = 0; i < carried; ++i) bytes.push_back(out_bytes(i));
    for (size_t i = carried; i < carried + sliced; ++i) bytes.push_back(in_slice_bytes(i));
    for (size_t i = carried; i < step.outputs.size(); ++i) {
      bytes.push_back(slice_bytes(buffer(step.outputs[i]).sizes, buffer(step.outputs[i]).dtype));
    }
    body_.write(fmt::format("const int64_t bytes[] = {{{}}};", joined(bytes, "0")));
    body_.write(fmt::format("const int32_t failed = scan_loop<{}, {}, {}, {}>(runtime, call, {}, {}, {}, inputs, outputs, bytes);", carried,
                            sliced, step.outputs.size() - carried, inputs.size(), subgraph(op.arguments[0]), number + 1,
                            index(in_sizes(carried)[0])));
  } else if (op.name == "associative_scan") {
    collect(1);
    write_pointers();
    const size_t sliced = list_lengths.at(0);
    std::vector<std::string> bytes;
    for (size_t i = 0; i < sliced; ++i) bytes.push_back(in_slice_bytes(i));
    body_.write(fmt::format("const int64_t bytes[] = {{{}}};", joined(bytes, "0")));
    body_.write(fmt::format("const int32_t failed = associative_scan<{}, {}>(runtime, call, {}, {}, inputs, outputs, bytes);", sliced,
                            inputs.size(), subgraph(op.arguments[0]), index(in_sizes(0)[0])));
  } else {
    throw Error(ErrorKind::Unsupported, fmt::format("the higher-order operator '{}' is not supported", op.name));
  }
  shared_.uses_control_flow = true;
  body_.write("if (failed) return failed;");
}

}  // namespace toroid::codegen
