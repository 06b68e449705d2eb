#include "schedule/cuda/ways/step_alone.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "graph/builder.h"
#include "schedule/lifetimes.h"
#include "schedule/mentioned.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

std::vector<BufferId> once(std::vector<BufferId> list) {
  std::vector<BufferId> result;
  for (BufferId id : list) {
    if (std::ranges::find(result, id) == result.end()) result.push_back(id);
  }
  return result;
}

// From the first element to behind the last.
sym::Expr span_of(const loop::Buffer& buffer) {
  if (sym::product(buffer.sizes).is_const(0)) return 0;
  if (buffer.has_padded_rows) return loop::elements_in_memory(buffer);
  sym::Expr last = 0;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) last = last + (buffer.sizes[d] - 1) * buffer.strides[d];
  return last + 1;
}

void rename(Step& step) {
  const auto rename_kernel = [](Kernel& kernel, const auto& self) -> void {
    kernel.name = "step";
    for (auto* more : {&kernel.finish, &kernel.other_forms}) {
      for (Kernel& each : *more) self(each, self);
    }
  };
  match(
      step, [&](Kernel& kernel) { rename_kernel(kernel, rename_kernel); },
      [&](CallStep& call) {
        call.name = "step";
        call.gpu.reset();
        if (call.prologue) rename_kernel(*call.prologue, rename_kernel);
        if (call.epilogue) rename_kernel(*call.epilogue, rename_kernel);
        for (ScatterKernel& update : call.updates) update.name = "step";
      },
      [](auto& other) { other.name = "step"; });
}

// Numbers axes and values by their first places, and drops operators' numbers: " from 3, 4" behind a step, and "~3" behind an expression.
std::string without_numbers(const std::string& text) {
  std::string result;
  std::map<std::string, std::string> names;
  const auto is_digit = [&](size_t at) { return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; };
  const auto is_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '~' && is_digit(at + 1)) {
      for (++at; is_digit(at);) ++at;
    } else if (text.compare(at, 6, " from ") == 0 && is_digit(at + 6)) {
      for (at += 6; is_digit(at) || (text[at] == ',' && text[at + 1] == ' ' && is_digit(at + 2));) at += text[at] == ',' ? 2 : 1;
    } else if (is_word(at)) {
      const size_t begin = at;
      while (is_word(at)) ++at;
      const std::string word = text.substr(begin, at - begin);
      const bool is_numbered = word.size() > 1 && std::isalpha(static_cast<unsigned char>(word[0])) != 0 &&
                               std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      // i64[8], i64(x), 3:i64, bitcast.i64.f64
      const bool is_dtype =
          (at < text.size() && (text[at] == '[' || text[at] == '(')) || (begin > 0 && (text[begin - 1] == ':' || text[begin - 1] == '.'));
      const bool is_axis = is_numbered && !is_dtype && (word[0] == 'i' || word[0] == 'r' || word[0] == 'v');
      result += is_axis ? names.try_emplace(word, fmt::format("{}{}", word[0], names.size())).first->second : word;
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace

bool can_be_alone(const loop::LoopProgram& loops, const Step& step) {
  if (!size_symbols(loops, step).empty()) return false;
  std::vector<BufferId> buffers = reads_of(step);
  const std::vector<BufferId> writes = writes_of(step);
  buffers.insert(buffers.end(), writes.begin(), writes.end());
  const auto is_fixed = [](const std::vector<sym::Expr>& list) {
    return std::ranges::all_of(list, [](sym::Expr e) { return e.is_const(); });
  };
  return std::ranges::all_of(buffers, [&](BufferId id) {
    const loop::Buffer& buffer = loops.buffer(id);
    return is_fixed(buffer.sizes) && is_fixed(buffer.strides) && buffer.kind != loop::BufferKind::RandomState;
  });
}

StepAlone step_alone(const Program& program, const loop::LoopProgram& loops, const Step& step) {
  StepAlone result;
  Graph& graph = result.program.graph;
  for (size_t i = 1; i < program.graph.provenances().size(); ++i) graph.add_provenance(program.graph.provenances()[i]);
  result.program.name = "step";
  result.program.operators = program.operators;
  ScheduledGraph& scheduled = result.graphs.emplace_back();
  scheduled.schedule.loops = std::make_unique<loop::LoopProgram>(loops);
  loop::LoopProgram& own = *scheduled.schedule.loops;
  own.computations.clear();
  for (loop::Buffer& each : own.buffers) {
    each.kind = loop::BufferKind::Temporary;
    each.on_host = false;
    each.updated_by.reset();
  }
  const std::vector<BufferId> writes = once(writes_of(step));
  for (BufferId id : once(reads_of(step))) {
    if (std::ranges::find(writes, id) != writes.end()) continue;
    loop::Buffer& buffer = own.buffer(id);
    const auto position = static_cast<uint32_t>(graph.inputs.size());
    const NodeId node =
        graph.add_node(Input{position}, {}, {{.dtype = buffer.dtype, .sizes = {span_of(buffer)}}}, {}, {fmt::format("in{}", position)});
    graph.inputs.push_back(graph.node(node).outputs[0]);
    result.program.inputs.push_back({fmt::format("in{}", position)});
    buffer.kind = loop::BufferKind::Input;
    buffer.position = position;
  }
  for (BufferId id : writes) {
    loop::Buffer& buffer = own.buffer(id);
    const auto position = static_cast<uint32_t>(graph.outputs.size());
    const std::vector<sym::Expr> sizes = {loop::elements_in_memory(buffer)};
    const NodeId node = graph.add_node(Full{0.0}, {}, {{.dtype = buffer.dtype, .sizes = sizes}}, {}, {fmt::format("out{}", position)});
    graph.outputs.push_back(graph.node(node).outputs[0]);
    result.program.outputs.push_back({});
    scheduled.outputs.push_back({id, sizes});
    buffer.kind = loop::BufferKind::Output;
    buffer.position = position;
  }
  scheduled.schedule.steps.push_back(step);
  scheduled.schedule.lifetimes = lifetimes(own, scheduled.schedule.steps);
  return result;
}

std::string text_without_names(const loop::LoopProgram& loops, const Step& step) {
  Schedule alone;
  alone.loops = std::make_unique<loop::LoopProgram>(loops);
  std::vector<BufferId> buffers = reads_of(step);
  const std::vector<BufferId> writes = writes_of(step);
  buffers.insert(buffers.end(), writes.begin(), writes.end());
  if (const auto* call = std::get_if<CallStep>(&step)) buffers.insert(buffers.end(), call->outputs.begin(), call->outputs.end());
  std::string text;
  for (loop::Buffer& each : alone.loops->buffers) each.name = "other";
  const std::vector<BufferId> mentioned = once(buffers);
  for (size_t i = 0; i < mentioned.size(); ++i) {
    loop::Buffer& buffer = alone.loops->buffer(mentioned[i]);
    buffer.name = fmt::format("buffer_{}", i);
    text += fmt::format("{}: {}\n", buffer.name,
                        toroid::to_string(TensorType{.dtype = buffer.dtype, .sizes = buffer.sizes, .strides = buffer.strides}));
  }
  Step copy = step;
  rename(copy);
  alone.steps.push_back(std::move(copy));
  return without_numbers(text + to_string(alone));
}

}  // namespace toroid::schedule
