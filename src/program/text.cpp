// Writes the text form of modules.
#include "program/text.h"

#include <fmt/format.h>

#include "graph/builder.h"
#include "graph/text/text_names.h"
#include "loop/text.h"
#include "schedule/text/text.h"
#include "support/match.h"

namespace toroid::program {
namespace {

// " name a, b", or nothing.
std::string clause(std::string_view name, const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format(" {} {}", name, fmt::join(items, ", "));
}

class ModuleWriter : loop::BlockText {
 public:
  ModuleWriter(const Module& module, const std::vector<schedule::ScheduledGraph>& graphs) : module_(module) {
    for (const schedule::ScheduledGraph& graph : graphs) names_.emplace_back(*graph.schedule.loops);
  }

  std::string text() {
    open("program");
    if (module_.assertions) line("assertions");
    if (module_.is_long) line("long");
    if (!module_.symbols.empty()) line("symbols " + loop::text_of(module_.symbols));
    std::vector<std::string> constants;
    for (ConstantId id : module_.constants) constants.push_back(fmt::format("{}", static_cast<uint32_t>(id)));
    if (!constants.empty()) line(fmt::format("constants {}", fmt::join(constants, ", ")));
    if (module_.prepared_bytes > 0) line(fmt::format("prepared {} bytes", module_.prepared_bytes));
    graph_ = 0;
    for (size_t i = 0; i < module_.temporaries.size(); ++i) {
      const schedule::Lifetime& each = module_.temporaries[i];
      line(fmt::format("temporary {}: {}, steps {} to {}", i, named(each.buffer), each.first_step, each.last_step));
    }
    for (size_t i = 0; i < module_.outputs.size(); ++i) {
      const OutputInfo& each = module_.outputs[i];
      line(fmt::format("output {}: [{}]{}{}", i, loop::text_of(each.sizes), each.is_late ? " late" : "",
                       each.is_in_place ? " in place" : ""));
    }
    for (size_t i = 0; i < module_.kernels.size(); ++i) line(fmt::format("kernel {}: {}", i, definition(module_.kernels[i])));
    write(module_.main, "main");
    if (module_.prepare) write(*module_.prepare, "prepare");
    for (const auto& [index, function] : module_.subgraphs) write(function, fmt::format("subgraph {}", index));
    close();
    return std::move(text_);
  }

 private:
  // ---- parts of lines

  std::string named(BufferId id) const { return names_[graph_].buffer(id); }

  static std::string definition(const KernelDefinition& each) {
    return fmt::format("{}step {}{}{}", each.runs_once ? "once " : "", each.step, each.part == 0 ? "" : fmt::format(" part {}", each.part),
                       each.graph == 0 ? "" : fmt::format(" of subgraph {}", each.graph - 1));
  }

  static std::string place(const Place& place) {
    return match(
        place, [](InArgument p) { return fmt::format("input {}", p.position); },
        [](InResult p) { return fmt::format("output {}", p.position); }, [](InConstant p) { return fmt::format("constant {}", p.slot); },
        [](InArena p) { return fmt::format("arena {}", p.slot); }, [](InPrepared p) { return fmt::format("prepared {}", p.offset); },
        [](InRandomState) { return std::string("random state"); }, [](Allocated) { return std::string("allocated"); });
  }

  static std::string overlap(const schedule::Overlap& each) {
    return fmt::format("{}{}{}", each.starts_early ? " starts early" : "", each.loads_ahead ? " loading ahead" : "",
                       each.lets_next_start ? " lets next start" : "");
  }

  static std::string launch(const Launch& each) {
    return fmt::format("launch {}: tasks {}, work {}, least {}{}", each.kernel, sym::to_string(each.tasks),
                       sym::to_string(each.work_per_task), each.least_work, overlap(each.overlap));
  }

  std::string pointer(const Pointer& each) const {
    return named(each.buffer) + (each.offset.is_const(0) ? "" : fmt::format(" offset({})", sym::to_string(each.offset)));
  }

  std::string operand(const Operand& each) const {
    return fmt::format("{}{}{}", names_[graph_].operand({each.buffer, each.sizes, each.strides, each.offset}),
                       each.is_constant ? " constant" : "", each.is_in_memory ? "" : " in blocks");
  }

  // "matmul#packed": matmul choice "packed".
  static std::string kernel_name(const std::string& kernel) {
    const size_t mark = kernel.find('#');
    return mark == std::string::npos ? kernel : fmt::format("{} choice {}", kernel.substr(0, mark), quote(kernel.substr(mark + 1)));
  }

  static std::string place_of_call(int32_t site, bool has_fixed_sizes) {
    return (site < 0 ? "" : fmt::format(" at {}", site)) + (has_fixed_sizes ? "" : " of free sizes");
  }

  // `site` is negative for a call of a chain, which has none.
  std::string call(const LibraryCall& each, int32_t site) const {
    std::vector<std::string> inputs, outputs, numbers;
    for (const Operand& input : each.inputs) inputs.push_back(operand(input));
    for (const Operand& output : each.outputs) outputs.push_back(operand(output));
    for (const auto& number : each.numbers) {
      numbers.push_back(match(number, [](const auto& v) { return toroid::to_string(Scalar(v)); }));
    }
    std::string text = fmt::format("call {}{}", kernel_name(each.kernel), place_of_call(site, each.has_fixed_sizes));
    text += clause("on", inputs) + clause("->", outputs);
    if (!each.integers.empty()) text += fmt::format(" integers [{}]", loop::text_of(each.integers));
    if (!numbers.empty()) text += fmt::format(" numbers [{}]", fmt::join(numbers, ", "));
    if (each.epilogue)
      text += match(
          *each.epilogue, [&](const schedule::PostOps& ops) { return post_ops(ops); },
          [](size_t kernel) { return fmt::format(" epilogue {}", kernel); });
    return text + overlap(each.overlap);
  }

  std::string post_ops(const schedule::PostOps& ops) const {
    auto place = [&](const schedule::PostOps::Place& each) {
      return fmt::format("{}[{}, {}]", named(each.buffer), sym::to_string(each.offset), sym::to_string(each.row));
    };
    std::string text = " post-operations";
    for (const auto& [name, term] : {std::pair("scale", &ops.scale), std::pair("bias", &ops.bias), std::pair("residual", &ops.residual)}) {
      if (*term) text += fmt::format(" {} {}", name, place(**term));
    }
    return text + fmt::format(" low {} high {} to {}", ops.low, ops.high, place(ops.out));
  }

  std::string control_flow(const ControlFlow& flow) const {
    std::vector<std::string> inputs, outputs, bytes;
    for (const Pointer& each : flow.inputs) inputs.push_back(pointer(each));
    for (BufferId each : flow.outputs) outputs.push_back(named(each));
    for (const ControlFlow::Bytes& each : flow.bytes)
      bytes.push_back(fmt::format("{}[{}]", toroid::to_string(each.dtype), sym::to_string(each.elements)));
    const std::string what = match(
        flow.what,
        [&](const Branch& branch) {
          const std::string predicate =
              branch.tensor ? "tensor " + pointer(*branch.tensor) : fmt::format("number [{}]", sym::to_string(branch.number));
          return fmt::format("{} then subgraph {} else subgraph {}", predicate, branch.yes, branch.no);
        },
        [](const WhileLoop& loop) { return fmt::format("subgraph {} do subgraph {} carried {}", loop.condition, loop.body, loop.carried); },
        [](const ScanOver& scan) {
          return fmt::format("subgraph {} over [{}] carried {} sliced {}", scan.body, sym::to_string(scan.slices), scan.carried,
                             scan.sliced);
        },
        [](const AssociativeScan& scan) {
          return fmt::format("subgraph {} over [{}] sliced {}", scan.body, sym::to_string(scan.slices), scan.sliced);
        });
    return fmt::format("{} {}{}{}{}", flow.label, what, clause("on", inputs), clause("->", outputs), clause("bytes", bytes));
  }

  // ---- functions

  void write(const Function& function, std::string_view name) {
    graph_ = function.graph;
    open(fmt::format("function {}({})", name, loop::text_of(function.known)));
    for (const PlacedBuffer& each : function.buffers) {
      line(fmt::format("place {}: {} {}", named(each.id), to_string(each.device), place(each.place)));
    }
    for (const Step& step : function.steps) write(step);
    if (!function.at_end.empty()) {
      open("at end");
      for (const Instruction& instruction : function.at_end) write(instruction);
      close();
    }
    close();
  }

  void write(const Step& step) {
    const StepInfo& info = module_.steps[step.number];
    std::string head = fmt::format("step {} {}", step.number, value_name(info.name));
    if (info.provenance) head += fmt::format(" from {}", static_cast<uint32_t>(*info.provenance));
    if (!info.origin.empty()) head += " " + quote(info.origin);
    if (step.awaits > 0) head += fmt::format(" awaits {}", step.awaits);
    if (step.is_beside) head += " beside";
    if (step.is_marked) head += " marked";
    if (step.on_host) head += " at host";
    if (step.waits) head += " waits";
    if (step.branch > 0) head += fmt::format(" on branch {}", step.branch);
    open(head);
    if (step.number < module_.step_work.size()) {
      const schedule::StepWork& work = module_.step_work[step.number];
      line(fmt::format("work bytes {}, flops {}, numbers {}", sym::to_string(work.bytes), sym::to_string(work.flops),
                       toroid::to_string(work.numbers)));
    }
    for (const Instruction& instruction : step.instructions) write(instruction);
    close();
  }

  void write(const Instruction& instruction) {
    match(
        instruction, [&](const TimeStep& time) { line(fmt::format("time step {}", time.step)); },
        [&](const Allocate& each) { line(fmt::format("allocate {}[{}]", named(each.buffer), sym::to_string(each.elements))); },
        [&](const Release& each) { line(fmt::format("release {}", named(each.buffer))); },
        [&](const AllocateOutput& each) {
          line(fmt::format("allocate {}[{}] = output {}", named(each.buffer), loop::text_of(each.sizes), each.position));
        },
        [&](const Launch& each) { line(launch(each)); },
        [&](const LaunchTogether& each) {
          open("together");
          for (const Launch& kernel : each.kernels) line(launch(kernel));
          close();
        },
        [&](const LaunchQuickest& each) {
          open(fmt::format("quickest as choice {}", each.slot));
          for (size_t i = 0; i < each.forms.size(); ++i)
            line(fmt::format("{}: {}", module_.choices[each.slot].forms[i], launch(each.forms[i])));
          close();
        },
        [&](const LibraryCall& each) { line(call(each, each.site)); },
        [&](const ChainCall& each) {
          open(kernel_name(each.kernel) + place_of_call(each.site, each.has_fixed_sizes));
          for (const LibraryCall& one : each.calls) line(call(one, -1));
          close();
        },
        [&](const ReadNumber& each) {
          line(fmt::format("read {} as binding {} of [{}]{}", named(each.buffer), each.binding,
                           sym::to_string(module_.bindings[each.binding].expr),
                           each.defines ? " gives " + sym::to_string(*each.defines) : ""));
        },
        [&](const ControlFlow& each) { line(control_flow(each)); });
  }

  const Module& module_;
  std::vector<loop::LoopTextWriter> names_;  // of each graph's buffers
  size_t graph_ = 0;                         // of the function at hand
};

}  // namespace

std::string to_string(const Module& module, const std::vector<schedule::ScheduledGraph>& graphs) {
  return ModuleWriter(module, graphs).text();
}

std::string module_text(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  return schedule::schedule_text(program, graphs) + to_string(module, graphs);
}

}  // namespace toroid::program
