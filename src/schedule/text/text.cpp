#include "schedule/text/text.h"

#include <fmt/format.h>

#include "graph/text/text.h"
#include "graph/text/text_names.h"
#include "loop/text.h"
#include "schedule/mentioned.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::LoopTextWriter;

ProvenanceId origin_of(const std::vector<ProvenanceId>& provenance) { return provenance.empty() ? ProvenanceId{} : provenance.back(); }

// ---- lines ------------------------------------------------------------------------------------------------------------------------

class StepsWriter : loop::BlockText {
 public:
  explicit StepsWriter(const Schedule& schedule) : BlockText(2), schedule_(schedule), writer_(*schedule.loops) {
    for (const auto* steps : {&schedule.prepare, &schedule.steps}) {
      for (const Step& step : *steps) {
        const Mentioned list = mentioned(step);
        for (ExprId id : list.named) writer_.name(id);
        for (ExprId id : list.values) writer_.add(id);
        writer_.add(list.exprs);
      }
    }
  }

  std::string text() {
    text_ = writer_.symbols("  ");
    for (const Step& step : schedule_.prepare) write(step, "once ");
    for (const Step& step : schedule_.steps) write(step, "");
    return std::move(text_);
  }

 private:
  void line_of(std::string_view word, const std::string& items) {
    if (!items.empty()) line(fmt::format("{} {}", word, items));
  }
  static std::string head(std::string_view word, const std::string& name, const std::vector<ProvenanceId>& provenance) {
    return fmt::format("{} {}{}", word, loop::step_name(name), loop::text_of_origins(provenance));
  }

  void write(const Step& step, std::string_view before) {
    Mentioned list = mentioned(step);
    list.named.insert(list.named.end(), list.values.begin(), list.values.end());
    text_ += writer_.named(list.named, "  ");
    const std::string prefix(before);
    match(
        step, [&](const Kernel& s) { kernel(s, prefix + "kernel"); }, [&](const ScanKernel& s) { scan(s, prefix + "scan"); },
        [&](const ScatterKernel& s) { scatter(s, prefix + "scatter"); }, [&](const CallStep& s) { call(s, prefix + "call"); },
        [&](const BindStep& s) {
          line(fmt::format("{}: {} = {}", head(prefix + "bind", s.name, s.provenance), sym::to_string(s.expr), writer_.buffer(s.value)));
        },
        [&](const ChainStep& s) {
          open(head(prefix + "chain", s.name, s.provenance));
          if (!s.choice.empty()) line(fmt::format("choice {}", quote(s.choice)));
          for (const CallStep& each : s.calls) call(each, "call");
          close();
        },
        [&](const ParallelKernels& s) {
          open(head(prefix + "together", s.name, s.provenance));
          for (const ParallelKernel& each : s.kernels)
            match(
                each, [&](const Kernel& k) { kernel(k, "kernel"); }, [&](const ScatterKernel& k) { scatter(k, "scatter"); });
          close();
        });
  }

  std::string names(const std::vector<ExprId>& list) const {
    std::string text;
    for (ExprId id : list) text += (text.empty() ? "" : ", ") + writer_.expr(id);
    return text;
  }

  void kernel(const Kernel& kernel, const std::string& word) {
    const ProvenanceId origin = origin_of(kernel.provenance);
    open(head(word, kernel.name, kernel.provenance));
    line_of("outer", loop::text_of(kernel.outer));
    line_of("inner", loop::text_of(kernel.inner));
    if (kernel.vector != VectorAlong::None) line(kernel.vector == VectorAlong::Inner ? "vector inner" : "vector outer");
    if (kernel.gpu) {
      const GpuLoops& gpu = *kernel.gpu;
      line(fmt::format("threads {} of {}{} vector {} items {}{}{}{}{}{}", gpu.row_threads, gpu.threads, gpu.columns ? " columns" : "",
                       gpu.vector, gpu.items, gpu.shared ? " shared" : "",
                       gpu.pixels > 1 ? fmt::format(" pixels {} lanes {}", gpu.pixels, gpu.lanes) : "",
                       gpu.blocks > 0 ? fmt::format(" blocks {}", gpu.blocks) : "", gpu.in_triton ? " triton" : "",
                       gpu.triton_warps > 0 ? fmt::format(" warps {}", gpu.triton_warps) : ""));
    }
    if (kernel.tile) {
      line(fmt::format("tile {} of {}{}", sym::to_string(*kernel.tile), names(kernel.tiled_loads),
                       kernel.fetches_tiles ? " and fetched" : ""));
    }
    line_of("streaming", writer_.buffers(kernel.streaming_stores));
    if (kernel.product) {
      std::vector<ExprId> products = {*kernel.product};
      if (kernel.second_product) products.push_back(*kernel.second_product);
      line_of("product", names(products));
    }
    const bool has_estimate = kernel.form_estimate.persistent != 0 || kernel.form_estimate.looped != 0;
    if (kernel.form || has_estimate) {
      line(fmt::format("form {} {} or {}", kernel.form ? to_string(*kernel.form) : "none", kernel.form_estimate.persistent,
                       kernel.form_estimate.looped));
    }
    if (!kernel.halide.empty()) line(fmt::format("halide {}", kernel.halide));
    line_of("unfused", names(kernel.unfused));
    for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
      const Accumulator& each = kernel.accumulators[i];
      const std::vector<ProvenanceId> from = each.origin == ProvenanceId{} ? std::vector<ProvenanceId>{} : std::vector{each.origin};
      line(fmt::format("acc{} {}{} {}{}{}", i, loop::care_text(each.care), toroid::to_string(each.op), toroid::to_string(each.dtype),
                       each.of_columns ? " of columns in " + writer_.buffer(*each.of_columns) : "", loop::text_of_origins(from)));
    }
    for (size_t i = 0; i < kernel.stashes.size(); ++i) line(fmt::format("stash{} {}", i, toroid::to_string(kernel.stashes[i])));
    line_of("reads", writer_.buffers(kernel.reads));
    line_of("writes", writer_.buffers(kernel.writes));
    for (const Stage& each : kernel.stages) stage(each, origin);
    for (const Kernel& each : kernel.finish) this->kernel(each, "finish");
    for (const Kernel& each : kernel.other_forms) this->kernel(each, "or");
    close();
  }

  void stage(const Stage& stage, ProvenanceId origin) {
    std::string text = stage.inner ? "stage inner" : "stage once";
    if (stage.turns != 1) text += fmt::format(" turns {}", stage.turns);
    if (stage.rows != 1) text += fmt::format(" rows {}", stage.rows);
    if (stage.blocks.steps != 0 || stage.blocks.of_rows) {
      text += fmt::format(" blocks {} {}", stage.blocks.steps, stage.blocks.of_rows ? "rows" : "vectors");
    }
    open(text);
    if (stage.condition) line("if " + writer_.expr(*stage.condition, origin));
    for (const Fetch& each : stage.fetches) {
      line(fmt::format("{} {}[{}]", to_string(each.to), writer_.buffer(each.buffer), sym::to_string(each.position)));
    }
    for (const Statement& statement : stage.statements) {
      match(
          statement,
          [&](const Accumulate& s) {
            const std::string at = s.position.is_const(0) ? "" : fmt::format(" at {}", sym::to_string(s.position));
            line(fmt::format("acc{}{} = {}", static_cast<uint32_t>(s.accumulator), at, writer_.expr(s.value, origin)));
          },
          [&](const Store& s) {
            line(fmt::format("store {}[{}] = {}", writer_.buffer(s.buffer), sym::to_string(s.position), writer_.expr(s.value, origin)));
          },
          [&](const Keep& s) { line(fmt::format("stash{} = {}", static_cast<uint32_t>(s.stash), writer_.expr(s.value, origin))); });
    }
    close();
  }

  void scan(const ScanKernel& scan, const std::string& word) {
    open(head(word, scan.name, scan.provenance));
    line_of("outer", loop::text_of(scan.outer));
    if (scan.vector > 1) line(fmt::format("vector {}", scan.vector));
    if (scan.in_triton) line("triton");
    line_of("reads", writer_.buffers(scan.reads));
    std::string outputs;
    for (size_t i = 0; i < scan.outputs.size(); ++i) {
      outputs += fmt::format("{}{}[{}]", i > 0 ? ", " : "", writer_.buffer(scan.outputs[i]), sym::to_string(scan.positions[i]));
    }
    line(fmt::format("store {} = {} along {} of {}", outputs, toroid::to_string(scan.op), sym::to_string(scan.along),
                     writer_.expr(scan.value, origin_of(scan.provenance))));
    close();
  }

  void scatter(const ScatterKernel& scatter, const std::string& word) {
    open(head(word, scatter.name, scatter.provenance));
    line_of("outer", loop::text_of(scatter.axes));
    line_of("reads", writer_.buffers(scatter.reads));
    if (scatter.split) line(fmt::format("split dim {} at {}", scatter.split->dim, sym::to_string(scatter.split->index)));
    if (scatter.ordered) {
      std::vector<BufferId> lists = {scatter.ordered->keys, scatter.ordered->elements};
      if (scatter.ordered->parts) lists.push_back(*scatter.ordered->parts);
      const ScatterKernel::Ordered& ordered = *scatter.ordered;
      line(fmt::format("ordered by {} unit {} bias {} vector {}", writer_.buffers(lists), ordered.unit, ordered.bias, ordered.vector));
      if (ordered.rounds_once) line("rounds once");
      if (ordered.fill) line(fmt::format("fill {}", writer_.expr(*ordered.fill, origin_of(scatter.provenance))));
    }
    line(fmt::format("store {}[{}] = {} {} of {}", writer_.buffer(scatter.out), sym::to_string(scatter.position),
                     writer_.buffer(scatter.base), toroid::to_string(scatter.mode),
                     writer_.expr(scatter.value, origin_of(scatter.provenance))));
    close();
  }

  void call(const CallStep& call, const std::string& word) {
    open(head(word, call.name, call.provenance));
    std::string operands;
    for (const loop::Operand& each : call.call.operands) operands += (operands.empty() ? " on " : ", ") + writer_.operand(each);
    line(fmt::format("{} = {}{}{}", writer_.buffers(call.outputs), loop::text_of_call(call.call.op), operands,
                     writer_.scores(call.call, origin_of(call.provenance))));
    if (!call.choice.empty()) line(fmt::format("choice {}", quote(call.choice)));
    if (call.gpu) {
      const GpuTiles& tiles = *call.gpu;
      const std::string few = tiles.depth_warps > 0 ? fmt::format(" few rows by {} warps", tiles.depth_warps) : "";
      const std::string shares = tiles.shares > 0 ? fmt::format(" shares {}", tiles.shares) : "";
      const std::string groups = tiles.groups > 0 ? fmt::format(" groups {}", tiles.groups) : "";
      line(fmt::format("tiles {} by {} stages {} cluster {}{}{}{}{}", tiles.rows, tiles.columns, tiles.stages, tiles.cluster,
                       tiles.ping_pong ? " pingpong" : "", shares, few, groups));
    }
    if (call.prologue) kernel(*call.prologue, "prologue");
    for (const ScatterKernel& each : call.updates) scatter(each, "update");
    if (call.epilogue) kernel(*call.epilogue, "epilogue");
    close();
  }

  const Schedule& schedule_;
  LoopTextWriter writer_;
};

}  // namespace

std::string to_string(const Schedule& schedule) { return StepsWriter(schedule).text(); }

std::string schedule_text(const Program& program, const std::vector<ScheduledGraph>& graphs) {
  std::string text = to_text(program);
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph& graph = i == 0 ? program.graph : program.subgraphs[i - 1];
    text += i == 0 ? "schedule {\n" : fmt::format("schedule of subgraph {} {{\n", i - 1);
    text += loop::text_of_origins(graph, "  ");
    text += LoopTextWriter(*graphs[i].schedule.loops).buffers("  ");
    text += to_string(graphs[i].schedule);
    text += "}\n";
  }
  return text;
}

}  // namespace toroid::schedule
