// The text form of a module:
//
//   symbols s0
//   temporary 0: h, 512*s0*4 bytes, steps 0 to 2
//   function main(s0)
//     x = cpu input 0
//     h = cpu arena 0
//     step 0 linear
//       call matmul at 0: f32 x[s0, 128](128, 1) + 0, constant w[128, 512](1, 128) + 0 -> f32 h[s0, 512](512, 1) + 0
//     step 1 relu_kernel
//       launch 0: s0 tasks of 512, at least 16384
#include <fmt/format.h>

#include "base/error.h"
#include "program/module.h"
#include "support/match.h"

namespace toroid::program {
namespace {

std::string list(std::span<const sym::Expr> values) {
  std::string text;
  for (sym::Expr e : values) text += (text.empty() ? "" : ", ") + sym::to_string(e);
  return text;
}

class FunctionText {
 public:
  FunctionText(const Module& module, const Function& function, const schedule::ScheduledGraph& graph)
      : module_(module), function_(function), loops_(*graph.schedule.loops) {}

  std::string text(std::string_view name) const {
    std::string text = fmt::format("function {}({})\n", name, list(function_.known));
    for (const PlacedBuffer& each : function_.buffers) {
      text += fmt::format("  {} = {} {}\n", named(each.id), to_string(each.device), place(each.place));
    }
    for (const Step& step : function_.steps) {
      text += fmt::format("  step {} {}\n", step.number, module_.steps[step.number].name);
      for (const Instruction& instruction : step.instructions) text += "    " + line(instruction) + "\n";
    }
    for (const Instruction& instruction : function_.at_end) text += "  " + line(instruction) + "\n";
    return text;
  }

 private:
  const std::string& named(BufferId id) const { return loops_.buffer(id).name; }

  static std::string place(const Place& place) {
    return match(
        place, [](InArgument p) { return fmt::format("input {}", p.position); },
        [](InResult p) { return fmt::format("output {}", p.position); }, [](InConstant p) { return fmt::format("constant {}", p.slot); },
        [](InArena p) { return fmt::format("arena {}", p.slot); }, [](InPrepared p) { return fmt::format("prepared {}", p.offset); },
        [](InRandomState) { return std::string("random state"); }, [](Allocated) { return std::string("allocated"); });
  }

  static std::string launch(const Launch& each) {
    return fmt::format("launch {}: {} tasks of {}, at least {}", each.kernel, sym::to_string(each.tasks),
                       sym::to_string(each.work_per_task), each.least_work);
  }

  std::string pointer(const Pointer& each) const { return fmt::format("{} + {}", named(each.buffer), sym::to_string(each.offset)); }

  std::string operand(const Operand& each) const {
    return fmt::format("{}{}{} {}[{}]({}) + {}", each.is_constant ? "constant " : "", each.is_in_memory ? "" : "in blocks ",
                       toroid::to_string(loops_.buffer(each.buffer).dtype), named(each.buffer), list(each.sizes), list(each.strides),
                       sym::to_string(each.offset));
  }

  std::string call(const LibraryCall& each) const {
    std::string inputs, outputs, numbers;
    for (const Operand& input : each.inputs) inputs += (inputs.empty() ? "" : ", ") + operand(input);
    for (const Operand& output : each.outputs) outputs += (outputs.empty() ? "" : ", ") + operand(output);
    for (const auto& number : each.numbers) {
      numbers += numbers.empty() ? "" : ", ";
      numbers += match(
          number, [](double v) { return fmt::format("{}", v); }, [](sym::Expr e) { return sym::to_string(e); });
    }
    std::string text = fmt::format("{}: {} -> {}", each.kernel, inputs, outputs);
    if (!each.integers.empty()) text += fmt::format("; integers {}", list(each.integers));
    if (!numbers.empty()) text += fmt::format("; numbers {}", numbers);
    if (each.epilogue) text += fmt::format("; epilogue {}{}", *each.epilogue, each.post_ops ? " as post-operations" : "");
    return text;
  }

  std::string line(const Instruction& instruction) const {
    return match(
        instruction, [](const TimeStep& time) { return fmt::format("time step {}", time.step); },
        [&](const Allocate& each) { return fmt::format("allocate {}: {} elements", named(each.buffer), sym::to_string(each.elements)); },
        [&](const Release& each) { return fmt::format("release {}", named(each.buffer)); },
        [&](const AllocateOutput& each) {
          return fmt::format("allocate {} = output {}[{}]", named(each.buffer), each.position, list(each.sizes));
        },
        [&](const Launch& each) { return launch(each); },
        [&](const LaunchTogether& each) {
          std::string text = "together";
          for (const Launch& kernel : each.kernels) text += fmt::format("\n      {}", launch(kernel));
          return text;
        },
        [&](const LaunchQuickest& each) {
          std::string text = fmt::format("quickest, choice {}", each.slot);
          for (size_t i = 0; i < each.forms.size(); ++i)
            text += fmt::format("\n      {}: {}", module_.choices[each.slot].forms[i], launch(each.forms[i]));
          return text;
        },
        [&](const LibraryCall& each) {
          return fmt::format("call{} at {} {}", each.has_fixed_sizes ? "" : " of free sizes", each.site, call(each));
        },
        [&](const ChainCall& each) {
          std::string text = fmt::format("{}{} at {}", each.kernel, each.has_fixed_sizes ? "" : " of free sizes", each.site);
          for (const LibraryCall& one : each.calls) text += fmt::format("\n      {}", call(one));
          return text;
        },
        [&](const ReadNumber& each) {
          return fmt::format("read {} as binding {}{}", named(each.buffer), each.binding,
                             each.defines ? ", which gives " + sym::to_string(*each.defines) : "");
        },
        [&](const ControlFlow& each) { return control_flow(each); });
  }

  std::string control_flow(const ControlFlow& flow) const {
    std::string inputs, outputs;
    for (const Pointer& each : flow.inputs) inputs += (inputs.empty() ? "" : ", ") + pointer(each);
    for (BufferId each : flow.outputs) outputs += (outputs.empty() ? "" : ", ") + named(each);
    const std::string what = match(
        flow.what,
        [&](const Branch& branch) {
          const std::string predicate = branch.tensor ? pointer(*branch.tensor) : sym::to_string(branch.number);
          return fmt::format("if {} then subgraph {} else subgraph {}", predicate, branch.yes, branch.no);
        },
        [](const WhileLoop& loop) {
          return fmt::format("while subgraph {} do subgraph {}, {} carried", loop.condition, loop.body, loop.carried);
        },
        [](const ScanOver& scan) {
          return fmt::format("scan subgraph {} over {} slices, {} carried, {} sliced", scan.body, sym::to_string(scan.slices), scan.carried,
                             scan.sliced);
        },
        [](const AssociativeScan& scan) {
          return fmt::format("associative scan subgraph {} over {} slices, {} sliced", scan.body, sym::to_string(scan.slices), scan.sliced);
        });
    return fmt::format("{}: {} -> {}", what, inputs, outputs);
  }

  const Module& module_;
  const Function& function_;
  const loop::LoopProgram& loops_;
};

}  // namespace

std::string to_string(const Module& module, const std::vector<schedule::ScheduledGraph>& graphs) {
  std::string text;
  if (!module.symbols.empty()) text += fmt::format("symbols {}\n", list(module.symbols));
  const loop::LoopProgram& loops = *graphs[0].schedule.loops;
  for (size_t i = 0; i < module.temporaries.size(); ++i) {
    const schedule::Lifetime& each = module.temporaries[i];
    const loop::Buffer& buffer = loops.buffer(each.buffer);
    text += fmt::format("temporary {}: {}, {} elements of {}, steps {} to {}\n", i, buffer.name, sym::to_string(sym::product(buffer.sizes)),
                        toroid::to_string(buffer.dtype), each.first_step, each.last_step);
  }
  if (module.prepared_bytes > 0) text += fmt::format("prepared {} bytes\n", module.prepared_bytes);
  for (size_t i = 0; i < module.bindings.size(); ++i) text += fmt::format("binding {}: {}\n", i, sym::to_string(module.bindings[i].expr));
  for (size_t i = 0; i < module.outputs.size(); ++i) {
    text += fmt::format("output {}: [{}]{}\n", i, list(module.outputs[i].sizes), module.outputs[i].is_late ? ", late" : "");
  }
  for (size_t i = 0; i < module.kernels.size(); ++i) {
    text += fmt::format("kernel {}: {} of graph {}\n", i, schedule::name_of(module.kernels[i].kernel), module.kernels[i].graph);
  }
  auto add = [&](const Function& function, std::string_view name) {
    text += FunctionText(module, function, graphs[function.graph]).text(name);
  };
  add(module.main, "main");
  if (module.prepare) add(*module.prepare, "prepare");
  for (const auto& [index, function] : module.subgraphs) add(function, fmt::format("subgraph {}", index));
  return text;
}

}  // namespace toroid::program
