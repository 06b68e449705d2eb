// Calls of library kernels and of subgraphs.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "passes/constant_values.h"
#include "program/calls.h"
#include "schedule/call_arguments.h"
#include "support/match.h"

namespace toroid::program {

// ---- library kernels --------------------------------------------------------------------------------------------------------------

LibraryCall library_call(const toroid::Program& program, const loop::LoopProgram& loops, const schedule::CallStep& step) {
  const auto operand = [&](BufferId id, const std::vector<sym::Expr>& sizes, const std::vector<sym::Expr>& strides, sym::Expr offset) {
    const loop::Buffer& each = loops.buffer(id);
    const bool is_constant = each.kind == loop::BufferKind::Prepared ||
                             (each.kind == loop::BufferKind::Constant && !is_written(program, ConstantId{each.position}));
    return Operand{.buffer = id, .sizes = sizes, .strides = strides, .offset = offset, .is_constant = is_constant};
  };
  schedule::CallArguments arguments = schedule::call_arguments(step.call);
  LibraryCall call{.kernel = arguments.name + (step.choice.empty() ? "" : "#" + step.choice),
                   .site = 0,
                   .inputs = {},
                   .outputs = {},
                   .integers = std::move(arguments.integers),
                   .numbers = std::move(arguments.numbers),
                   .label = toroid::to_string(step.call.op)};
  if (schedule::is_device_copy(step)) {
    const loop::Buffer& to = loops.buffer(step.outputs[0]);
    const sym::Expr bytes = sym::product(to.sizes) * size_bytes(to.dtype);
    call.label = fmt::format("{} bytes to the {}", sym::to_string(bytes), to.on_host ? "host" : "GPU");
  }
  const auto note_sizes = [&](std::span<const sym::Expr> sizes) {
    call.has_fixed_sizes = call.has_fixed_sizes && std::all_of(sizes.begin(), sizes.end(), [](sym::Expr e) { return e.is_const(); });
  };
  for (const loop::Operand& each : step.call.operands) call.inputs.push_back(operand(each.buffer, each.sizes, each.strides, each.offset));
  for (BufferId out : step.outputs) {
    call.outputs.push_back(operand(out, loops.buffer(out).sizes, loops.buffer(out).strides, 0));
    call.outputs.back().is_in_memory = !step.epilogue;
  }
  for (const std::vector<Operand>* operands : {&call.inputs, &call.outputs}) {
    for (const Operand& each : *operands) {
      note_sizes(each.sizes);
      note_sizes(each.strides);
    }
  }
  note_sizes(call.integers);
  for (const auto& each : call.numbers) {
    if (const auto* number = std::get_if<sym::Expr>(&each)) note_sizes({number, 1});
  }
  return call;
}

// ---- control flow -----------------------------------------------------------------------------------------------------------------

namespace {

uint32_t subgraph_index(const Argument& argument) {
  const auto* ref = std::get_if<SubgraphRef>(&argument);
  TOROID_CHECK(ref != nullptr, "an argument of control flow that should be a subgraph is none");
  return ref->index;
}

}  // namespace

ControlFlow control_flow(const loop::LoopProgram& loops, const schedule::CallStep& step) {
  const auto& op = std::get<HigherOrder>(step.call.op);
  const auto buffer = [&](BufferId id) -> const loop::Buffer& { return loops.buffer(id); };
  ControlFlow flow{.what = Branch{}, .inputs = {}, .outputs = step.outputs, .bytes = {}, .label = op.name};
  auto pointer = [&](size_t i) { return Pointer{step.call.operands[i].buffer, step.call.operands[i].offset}; };
  // The operands of arguments from `first` on, lists flattened, and how many each list holds.
  std::vector<size_t> inputs, list_lengths;
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
    for (size_t i : inputs) flow.inputs.push_back(pointer(i));
  };
  auto in_sizes = [&](size_t i) -> const std::vector<sym::Expr>& { return step.call.operands[inputs[i]].sizes; };
  auto bytes_of = [](std::span<const sym::Expr> sizes, DType dtype) { return ControlFlow::Bytes{sym::product(sizes), dtype}; };
  auto add_result_bytes = [&](size_t i) { flow.bytes.push_back(bytes_of(buffer(step.outputs[i]).sizes, buffer(step.outputs[i]).dtype)); };
  // Of one slice along the first dim.
  auto add_slice_bytes = [&](size_t i) {
    flow.bytes.push_back(bytes_of(std::span(in_sizes(i)).subspan(1), buffer(step.call.operands[inputs[i]].buffer).dtype));
  };

  if (op.name == "cond") {
    Branch branch{};
    if (const auto* tensor = std::get_if<InputRef>(&op.arguments[0])) {
      branch.tensor = pointer(tensor->index);
    } else if (const auto* number = std::get_if<sym::Expr>(&op.arguments[0])) {
      branch.number = *number;
    } else {
      const auto* flag = std::get_if<bool>(&op.arguments[0]);
      TOROID_CHECK(flag != nullptr, "the predicate of cond is neither a tensor nor a number");
      branch.number = *flag ? 1 : 0;
    }
    collect(3);
    branch.yes = subgraph_index(op.arguments[1]);
    branch.no = subgraph_index(op.arguments[2]);
    flow.what = branch;
  } else if (op.name == "while_loop") {
    collect(2);
    const size_t carried = list_lengths.at(0);
    for (size_t i = 0; i < carried; ++i) add_result_bytes(i);
    flow.what = WhileLoop{subgraph_index(op.arguments[0]), subgraph_index(op.arguments[1]), carried};
  } else if (op.name == "scan" || op.name == "map_impl") {
    collect(1);
    const size_t carried = op.name == "scan" ? list_lengths.at(0) : 0;
    const size_t sliced = list_lengths.at(op.name == "scan" ? 1 : 0);
    TOROID_CHECK(sliced > 0, "{} over no tensors", op.name);
    for (size_t i = 0; i < carried; ++i) add_result_bytes(i);
    for (size_t i = carried; i < carried + sliced; ++i) add_slice_bytes(i);
    for (size_t i = carried; i < step.outputs.size(); ++i) {
      flow.bytes.push_back(bytes_of(std::span(buffer(step.outputs[i]).sizes).subspan(1), buffer(step.outputs[i]).dtype));
    }
    flow.what = ScanOver{subgraph_index(op.arguments[0]), carried, sliced, in_sizes(carried)[0]};
  } else if (op.name == "associative_scan") {
    collect(1);
    const size_t sliced = list_lengths.at(0);
    for (size_t i = 0; i < sliced; ++i) add_slice_bytes(i);
    flow.what = AssociativeScan{subgraph_index(op.arguments[0]), sliced, in_sizes(0)[0]};
  } else {
    throw Error(ErrorKind::Unsupported, fmt::format("the higher-order operator '{}' is not supported", op.name));
  }
  return flow;
}

std::vector<uint32_t> called_by(const ControlFlow& flow) {
  return match(
      flow.what,
      [](const Branch& branch) {
        return std::vector{branch.yes, branch.no};
      },
      [](const WhileLoop& loop) {
        return std::vector{loop.condition, loop.body};
      },
      [](const ScanOver& scan) { return std::vector{scan.body}; }, [](const AssociativeScan& scan) { return std::vector{scan.body}; });
}

}  // namespace toroid::program
