#include "lower/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/builder.h"
#include "graph/shape_error.h"
#include "graph/text/text.h"
#include "loop/text.h"
#include "loop/text_reader.h"
#include "loop/verify.h"
#include "passes/constant_values.h"
#include "support/match.h"

namespace toroid {
namespace {

using loop::BufferId;
using loop::ExprId;

// What a computation's line refers to, told to the writer in the line's order.
void add(loop::LoopTextWriter& writer, const loop::Computation& computation) {
  match(
      computation.work,
      [&](const loop::Map& w) {
        writer.add(w.axes);
        writer.add(w.value);
      },
      [&](const loop::Reduction& w) {
        writer.add(w.axes);
        writer.add(w.reduce_axes);
        writer.add(w.value);
      },
      [&](const loop::ScanLoop& w) {
        writer.add(w.axes);
        writer.add(w.value);
      },
      [&](const loop::ScatterLoop& w) {
        writer.add(w.index);
        writer.add(w.axes);
        writer.add(w.value);
      },
      [&](const loop::Call& w) {
        if (!w.scores) return;
        writer.add(w.scores->axes);
        for (ExprId id : loop::roots(*w.scores)) writer.add(id);
      },
      [](const loop::Bind&) {});
}

std::string line(const loop::LoopTextWriter& writer, const loop::Computation& computation) {
  const ProvenanceId origin = computation.provenance.empty() ? ProvenanceId{} : computation.provenance.back();
  const std::string outputs = writer.buffers(computation.outputs);
  const auto value = [&](ExprId id) { return writer.expr(id, origin); };
  const std::string what = match(
      computation.work, [&](const loop::Map& w) { return fmt::format("map {}[{}] = {}", outputs, loop::text_of(w.axes), value(w.value)); },
      [&](const loop::Reduction& w) {
        return fmt::format("reduce {}[{}] = {}{} over {} of {}", outputs, loop::text_of(w.axes), loop::care_text(w.care), to_string(w.op),
                           loop::text_of(w.reduce_axes), value(w.value));
      },
      [&](const loop::ScanLoop& w) {
        return fmt::format("scan {}[{}] = {} along {} of {}", outputs, loop::text_of(w.axes), to_string(w.op), w.dim, value(w.value));
      },
      [&](const loop::ScatterLoop& w) {
        return fmt::format("scatter {} = {} {} [{}] over [{}] of {}", outputs, writer.buffer(w.base), to_string(w.mode),
                           loop::text_of(w.index), loop::text_of(w.axes), value(w.value));
      },
      [&](const loop::Call& w) {
        std::string operands;
        for (const loop::Operand& each : w.operands) operands += (operands.empty() ? " on " : ", ") + writer.operand(each);
        return fmt::format("call {} = {}{}{}", outputs, loop::text_of_call(w.op), operands, writer.scores(w, origin));
      },
      [&](const loop::Bind& w) { return fmt::format("bind {} = {}", sym::to_string(w.expr), writer.buffer(w.value)); });
  return fmt::format("  {}{}: {}\n", loop::step_name(computation.name), loop::text_of_origins(computation.provenance), what);
}

std::string computations(loop::LoopTextWriter& writer, const loop::LoopProgram& loops) {
  std::string text;
  for (const loop::Computation& each : loops.computations) {
    text += writer.named(loop::roots(loops, each), "  ");
    text += line(writer, each);
  }
  return text;
}

class LoopsReader : private loop::LoopTextReader {
 public:
  explicit LoopsReader(std::string_view text) : LoopTextReader(text) { read_head(text); }

  LoweredProgram read() {
    auto graphs = read_sections("loops", [this](Graph& graph) { return read_graph(graph); });
    if (!cursor_.at_end()) cursor_.fail("expected the end of the text after the loops");
    return {std::move(program_), std::move(graphs)};
  }

 private:
  LoweredGraph read_graph(Graph& graph) {
    const size_t place = cursor_.place();
    LoweredGraph result;
    result.loops = std::make_unique<loop::LoopProgram>(*program_.symbols);
    begin(graph, *result.loops);
    written_.clear();
    cursor_.expect("{");
    while (!cursor_.accept("}")) {
      if (!declaration()) computation();
    }
    loops().exprs.set_origin(origin_now());
    result.outputs = at(place, [&] { return verified_outputs(program_, graph, loops()); });
    for (const OutputBinding& output : result.outputs) {
      if (!written_.contains(output.buffer)) cursor_.fail_at(place, fmt::format("nothing writes '{}'", loops().buffer(output.buffer).name));
    }
    return result;
  }

  void computation() {
    const size_t place = cursor_.place();
    loop::Computation made{.work = loop::Map{}, .outputs = {}, .name = step_name(), .provenance = {}};
    made.provenance = origins();
    cursor_.expect(":");
    const ProvenanceId origin = origin_of_line(made.provenance);
    if (cursor_.accept_word("map")) {
      made.work = map(made, origin);
    } else if (cursor_.accept_word("reduce")) {
      made.work = reduction(made, origin);
    } else if (cursor_.accept_word("scan")) {
      made.work = scan(made, origin);
    } else if (cursor_.accept_word("scatter")) {
      made.work = scatter(made, origin);
    } else if (cursor_.accept_word("call")) {
      made.outputs = buffers();
      cursor_.expect("=");
      made.work = call(origin);
    } else {
      cursor_.expect_word("bind");
      loop::Bind bind;
      bind.expr = expr("=");
      cursor_.expect("=");
      bind.value = buffer();
      made.work = bind;
    }
    at(place, [&] {
      loop::verify(loops(), made, program_.subgraphs);
      verify_order(made);
    });
    loops().computations.push_back(std::move(made));
  }

  // Each buffer is written once, and before it is read.
  void verify_order(const loop::Computation& made) {
    for (BufferId id : loop::reads(loops(), made)) {
      const loop::Buffer& buffer = loops().buffer(id);
      const bool is_given = buffer.kind == loop::BufferKind::Input || buffer.kind == loop::BufferKind::Constant ||
                            buffer.kind == loop::BufferKind::RandomState;
      require(is_given || written_.contains(id), "'{}' is read before it is written", buffer.name);
    }
    for (BufferId id : made.outputs) {
      const loop::Buffer& buffer = loops().buffer(id);
      const bool is_ours = buffer.kind == loop::BufferKind::Temporary || buffer.kind == loop::BufferKind::Output ||
                           buffer.kind == loop::BufferKind::Prepared;
      require(is_ours, "'{}' is the caller's and cannot be written", buffer.name);
      require(written_.insert(id).second, "'{}' is written twice", buffer.name);
    }
  }

  loop::Map map(loop::Computation& made, ProvenanceId origin) {
    loop::Map work;
    made.outputs = {buffer()};
    work.axes = expr_list();
    cursor_.expect("=");
    work.value = expression(origin);
    return work;
  }

  loop::Reduction reduction(loop::Computation& made, ProvenanceId origin) {
    loop::Reduction work{};
    made.outputs = {buffer()};
    work.axes = expr_list();
    cursor_.expect("=");
    work.care = care();
    work.op = kind_of(parse_reduce_op, "reduction");
    cursor_.expect_word("over");
    work.reduce_axes = axis_names();
    cursor_.expect_word("of");
    work.value = expression(origin);
    return work;
  }

  loop::ScanLoop scan(loop::Computation& made, ProvenanceId origin) {
    loop::ScanLoop work{};
    made.outputs = buffers();
    work.axes = expr_list();
    cursor_.expect("=");
    work.op = kind_of(parse_scan_op, "scan");
    cursor_.expect_word("along");
    work.dim = static_cast<size_t>(number("the dim"));
    cursor_.expect_word("of");
    work.value = expression(origin);
    return work;
  }

  loop::ScatterLoop scatter(loop::Computation& made, ProvenanceId origin) {
    loop::ScatterLoop work{};
    made.outputs = {buffer()};
    cursor_.expect("=");
    work.base = buffer();
    work.mode = kind_of(parse_scatter_mode, "kind of scatter");
    work.index = expr_list();
    cursor_.expect_word("over");
    work.axes = expr_list();
    cursor_.expect_word("of");
    work.value = expression(origin);
    return work;
  }

  std::unordered_set<BufferId> written_;
};

// What is declared of a buffer that the graph knows.
void verify_type(const loop::Buffer& buffer, const TensorType& type, std::string_view what) {
  const TensorType own = {.dtype = buffer.dtype, .sizes = buffer.sizes};
  // Bits may be read as the 8-bit floats that they are.
  const bool are_bits = type.dtype == DType::U8 && is_floating(own.dtype) && size_bytes(own.dtype) == 1;
  require((buffer.dtype == type.dtype || are_bits) && own.sizes == type.sizes, "buffer '{}' is {}, and its {} is {}", buffer.name,
          to_string(own), what, to_string(type));
}

}  // namespace

std::string computations_text(const LoweredGraph& graph) {
  loop::LoopTextWriter writer(*graph.loops);
  for (const loop::Computation& each : graph.loops->computations) add(writer, each);
  std::string text = writer.symbols("  ");  // before the computations, which go on with its names
  text += computations(writer, *graph.loops);
  return text;
}

std::string loops_text(const Program& program, const std::vector<LoweredGraph>& graphs) {
  std::string text = to_text(program);
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph& graph = i == 0 ? program.graph : program.subgraphs[i - 1];
    text += i == 0 ? "loops {\n" : fmt::format("loops of subgraph {} {{\n", i - 1);
    text += loop::text_of_origins(graph, "  ");
    text += loop::LoopTextWriter(*graphs[i].loops).buffers("  ");
    text += computations_text(graphs[i]);
    if (const ProvenanceId now = graphs[i].loops->exprs.origin(); now != ProvenanceId{}) {
      text += fmt::format("  origin now {}\n", static_cast<uint32_t>(now));
    }
    text += "}\n";
  }
  return text;
}

LoweredProgram parse_loops(std::string_view text) { return LoopsReader(text).read(); }

std::vector<OutputBinding> verified_outputs(const Program& program, const Graph& graph, const loop::LoopProgram& loops) {
  std::vector<std::optional<BufferId>> holder(graph.outputs.size());
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    const loop::Buffer& buffer = loops.buffers[i];
    if (buffer.kind == loop::BufferKind::Input) {
      require(buffer.position < graph.inputs.size(), "there is no input {}", buffer.position);
      verify_type(buffer, graph.type(graph.inputs[buffer.position]), "input");
    } else if (buffer.kind == loop::BufferKind::Constant) {
      require(buffer.position < program.constants.size(), "there is no constant {}", buffer.position);
      verify_type(buffer, program.constants[buffer.position].type, "constant");
      const std::optional<uint32_t> update = update_of(program, ConstantId{buffer.position});
      require(buffer.updated_by == update, "'{}' is updated by {}", buffer.name, update ? fmt::format("output {}", *update) : "no output");
    } else if (buffer.kind == loop::BufferKind::Prepared) {
      require(sym::product(buffer.sizes).is_const(), "the prepared buffer '{}' has no fixed size", buffer.name);
    } else if (buffer.kind == loop::BufferKind::Output) {
      require(buffer.position < graph.outputs.size(), "there is no output {}", buffer.position);
      require(!holder[buffer.position], "two buffers are output {}", buffer.position);
      holder[buffer.position] = BufferId{static_cast<uint32_t>(i)};
      const TensorType& type = graph.type(graph.outputs[buffer.position]);
      require(buffer.dtype == type.dtype && !sym::known_ne(sym::product(buffer.sizes), type.numel()),
              "buffer '{}' does not hold output {}, {}", buffer.name, buffer.position, to_string(type));
    }
  }
  std::vector<OutputBinding> result;
  for (size_t i = 0; i < holder.size(); ++i) {
    require(holder[i].has_value(), "no buffer is output {}", i);
    const auto& sizes = graph.type(graph.outputs[i]).sizes;
    result.push_back({*holder[i], {sizes.begin(), sizes.end()}});
  }
  return result;
}

}  // namespace toroid
