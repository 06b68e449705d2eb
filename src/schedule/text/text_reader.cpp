// Reads the text form of schedules.
#include <fmt/format.h>

#include "graph/text/text.h"
#include "loop/text_reader.h"
#include "lower/text.h"
#include "schedule/lifetimes.h"
#include "schedule/text/text.h"
#include "schedule/text/verify.h"

namespace toroid::schedule {
namespace {

constexpr int kMaxNesting = 8;  // of kernels: a finish, another form

class ScheduleReader : private loop::LoopTextReader {
 public:
  explicit ScheduleReader(std::string_view text) : LoopTextReader(text) { read_head(text); }

  ScheduledProgram read() {
    auto graphs = read_sections("schedule", [this](Graph& graph) { return read_graph(graph); });
    return {std::move(program_), std::move(graphs)};
  }
  size_t end() { return cursor_.place(); }
  void expect_end() {
    if (!cursor_.at_end()) cursor_.fail("expected the end of the text after the schedule");
  }

 private:
  struct Head {
    std::string name;
    std::vector<ProvenanceId> provenance;
    ProvenanceId origin;
  };

  ScheduledGraph read_graph(Graph& graph) {
    const size_t place = cursor_.place();
    ScheduledGraph result;
    Schedule& schedule = result.schedule;
    schedule.loops = std::make_unique<loop::LoopProgram>(*program_.symbols);
    begin(graph, *schedule.loops);
    cursor_.expect("{");
    while (!cursor_.accept("}")) {
      if (declaration()) continue;
      const size_t step_place = cursor_.place();
      const bool is_once = cursor_.accept_word("once");
      Step made = step();
      at(step_place, [&] { verify(loops(), made, program_.subgraphs); });
      (is_once ? schedule.prepare : schedule.steps).push_back(std::move(made));
    }
    at(place, [&] {
      result.outputs = verified_outputs(program_, graph, loops());
      verify_order(schedule);
    });
    schedule.lifetimes = lifetimes(loops(), schedule.steps);
    return result;
  }

  Head head() {
    Head result{step_name(), origins(), {}};
    result.origin = origin_of_line(result.provenance);
    return result;
  }

  Step step() {
    if (cursor_.accept_word("kernel")) return kernel(0);
    if (cursor_.accept_word("scan")) return scan();
    if (cursor_.accept_word("scatter")) return scatter();
    if (cursor_.accept_word("call")) return call_step();
    if (cursor_.accept_word("bind")) return bind();
    if (cursor_.accept_word("chain")) return chain();
    if (cursor_.accept_word("together")) return together();
    cursor_.fail("expected a declaration or a step");
  }

  // ---- kernels

  Kernel kernel(int depth) {
    if (depth > kMaxNesting) cursor_.fail(fmt::format("kernels inside each other beyond {}", kMaxNesting));
    Kernel made;
    Head its = head();
    made.name = std::move(its.name);
    made.provenance = std::move(its.provenance);
    cursor_.expect("{");
    if (cursor_.accept_word("outer")) made.outer = axis_names();
    if (cursor_.accept_word("inner")) made.inner = axis_names();
    if (cursor_.accept_word("vector")) {
      made.vector = cursor_.accept_word("inner") ? VectorAlong::Inner : VectorAlong::Outer;
      if (made.vector == VectorAlong::Outer) cursor_.expect_word("outer");
    }
    if (cursor_.accept_word("threads")) made.gpu = gpu();
    if (cursor_.accept_word("tile")) {
      made.tile = axis();
      cursor_.expect_word("of");
      made.tiled_loads = named_expressions();
      if (cursor_.accept_word("and")) {
        cursor_.expect_word("fetched");
        made.fetches_tiles = true;
      }
    }
    if (cursor_.accept_word("streaming")) made.streaming_stores = buffers();
    if (cursor_.accept_word("product")) {
      made.product = named_expression();
      if (cursor_.accept(",")) made.second_product = named_expression();
    }
    if (cursor_.accept_word("form")) form(made);
    if (cursor_.accept_word("halide")) made.halide = cursor_.word("an autoscheduler");
    if (cursor_.accept_word("unfused")) made.unfused = named_expressions();
    while (cursor_.next_word() == fmt::format("acc{}", made.accumulators.size())) made.accumulators.push_back(accumulator());
    while (cursor_.next_word() == fmt::format("stash{}", made.stashes.size())) {
      cursor_.word("a stash");
      made.stashes.push_back(dtype());
    }
    if (cursor_.accept_word("reads")) made.reads = buffers();
    if (cursor_.accept_word("writes")) made.writes = buffers();
    while (cursor_.accept_word("stage")) made.stages.push_back(stage(its.origin));
    while (cursor_.accept_word("finish")) made.finish.push_back(kernel(depth + 1));
    while (cursor_.accept_word("or")) made.other_forms.push_back(kernel(depth + 1));
    cursor_.expect("}");
    return made;
  }

  GpuLoops gpu() {
    GpuLoops made;
    made.row_threads = number("how many threads");
    cursor_.expect_word("of");
    made.threads = number("how many threads");
    made.columns = cursor_.accept_word("columns");
    cursor_.expect_word("vector");
    made.vector = number("how many elements");
    cursor_.expect_word("items");
    made.items = number("how many vectors");
    made.shared = cursor_.accept_word("shared");
    if (cursor_.accept_word("pixels")) {
      made.pixels = number("how many pixels");
      cursor_.expect_word("lanes");
      made.lanes = number("how many threads");
    }
    if (cursor_.accept_word("blocks")) made.blocks = number("how many blocks");
    made.in_triton = cursor_.accept_word("triton");
    if (made.in_triton && cursor_.accept_word("warps")) made.triton_warps = number("how many warps");
    return made;
  }

  GpuTiles gpu_tiles() {
    GpuTiles made;
    made.rows = number("how many rows");
    cursor_.expect_word("by");
    made.columns = number("how many columns");
    cursor_.expect_word("stages");
    made.stages = number("how many stages");
    cursor_.expect_word("cluster");
    made.cluster = number("how many blocks");
    made.ping_pong = cursor_.accept_word("pingpong");
    if (cursor_.accept_word("shares")) made.shares = number("how many clusters");
    if (cursor_.accept_word("few")) {
      cursor_.expect_word("rows");
      cursor_.expect_word("by");
      made.depth_warps = number("how many warps");
      cursor_.expect_word("warps");
    }
    if (cursor_.accept_word("groups")) made.groups = number("how many groups");
    return made;
  }

  std::vector<ExprId> named_expressions() {
    std::vector<ExprId> result;
    do result.push_back(named_expression());
    while (cursor_.accept(","));
    return result;
  }

  void form(Kernel& made) {
    if (cursor_.accept_word("persistent")) {
      made.form = Form::Persistent;
    } else if (cursor_.accept_word("looped")) {
      made.form = Form::Looped;
    } else {
      cursor_.expect_word("none");
    }
    made.form_estimate.persistent = real<double>(" ");
    cursor_.expect_word("or");
    made.form_estimate.looped = real<double>(" ");
  }

  Accumulator accumulator() {
    cursor_.word("an accumulator");
    const loop::SumCare care = this->care();
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("a reduction");
    const std::optional<ReduceOp> op = parse_reduce_op(name);
    if (!op) cursor_.fail_at(place, fmt::format("'{}' is no reduction", name));
    Accumulator made{.op = *op, .dtype = dtype()};
    made.care = care;
    if (cursor_.accept_word("of")) {
      cursor_.expect_word("columns");
      cursor_.expect_word("in");
      made.of_columns = buffer();
    }
    const std::vector<ProvenanceId> from = origins();
    if (from.size() > 1) cursor_.fail_at(place, "an accumulator has one origin");
    made.origin = origin_of_line(from);
    return made;
  }

  Stage stage(ProvenanceId origin) {
    Stage made;
    made.inner = cursor_.accept_word("inner");
    if (!made.inner) cursor_.expect_word("once");
    if (cursor_.accept_word("turns")) made.turns = number("how many turns");
    if (cursor_.accept_word("rows")) made.rows = number("how many rows");
    if (cursor_.accept_word("blocks")) {
      made.blocks.steps = number("how many steps");
      made.blocks.of_rows = cursor_.accept_word("rows");
      if (!made.blocks.of_rows) cursor_.expect_word("vectors");
    }
    cursor_.expect("{");
    if (cursor_.accept_word("if")) made.condition = expression(origin);
    while (cursor_.accept_word("fetch")) made.fetches.push_back(fetch());
    while (!cursor_.accept("}")) made.statements.push_back(statement(origin));
    return made;
  }

  Fetch fetch() {
    Fetch made{};
    if (cursor_.accept_word("near")) {
      made.to = Fetch::To::FirstLevel;
    } else if (const size_t place = cursor_.place(); cursor_.accept_word("to")) {
      // "fetch to[3]" is a fetch of a buffer called so.
      if (cursor_.accept_word("write")) {
        made.to = Fetch::To::FirstLevelToWrite;
      } else {
        cursor_.move_to(place);
      }
    }
    made.buffer = buffer();
    made.position = bracketed();
    return made;
  }

  template <class Id>
  Id id_behind(std::string_view prefix) {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("a statement");
    const int64_t id = integer(std::string_view(name).substr(prefix.size()));
    if (id < 0 || id > 1'000'000) cursor_.fail_at(place, "expected a smaller number");
    return Id{static_cast<uint32_t>(id)};
  }

  Statement statement(ProvenanceId origin) {
    if (cursor_.accept_word("store")) {
      Store made{.buffer = buffer(), .position = bracketed(), .value = {}};
      cursor_.expect("=");
      made.value = expression(origin);
      return made;
    }
    if (cursor_.next_word().starts_with("acc")) {
      Accumulate made{.accumulator = id_behind<AccumulatorId>("acc"), .value = {}, .position = 0};
      if (cursor_.accept_word("at")) made.position = expr("=");
      cursor_.expect("=");
      made.value = expression(origin);
      return made;
    }
    if (!cursor_.next_word().starts_with("stash")) cursor_.fail("expected acc, stash or store");
    Keep made{.stash = id_behind<StashId>("stash"), .value = {}};
    cursor_.expect("=");
    made.value = expression(origin);
    return made;
  }

  // ---- other steps

  ScanKernel scan() {
    Head its = head();
    ScanKernel made{};
    made.name = std::move(its.name);
    made.provenance = std::move(its.provenance);
    cursor_.expect("{");
    if (cursor_.accept_word("outer")) made.outer = axis_names();
    if (cursor_.accept_word("vector")) made.vector = number("how many elements");
    made.in_triton = cursor_.accept_word("triton");
    if (cursor_.accept_word("reads")) made.reads = buffers();
    cursor_.expect_word("store");
    do {
      made.outputs.push_back(buffer());
      made.positions.push_back(bracketed());
    } while (cursor_.accept(","));
    cursor_.expect("=");
    made.op = kind_of(parse_scan_op, "scan");
    cursor_.expect_word("along");
    made.along = axis();
    cursor_.expect_word("of");
    made.value = expression(its.origin);
    cursor_.expect("}");
    return made;
  }

  ScatterKernel scatter() {
    Head its = head();
    ScatterKernel made{};
    made.name = std::move(its.name);
    made.provenance = std::move(its.provenance);
    cursor_.expect("{");
    if (cursor_.accept_word("outer")) made.axes = axis_names();
    if (cursor_.accept_word("reads")) made.reads = buffers();
    if (cursor_.accept_word("split")) {
      cursor_.expect_word("dim");
      ScatterKernel::Split split{.dim = static_cast<size_t>(number("the dim")), .index = 0};
      cursor_.expect_word("at");
      split.index = expr("");
      made.split = split;
    }
    if (cursor_.accept_word("ordered")) {
      cursor_.expect_word("by");
      const size_t place = cursor_.place();
      const std::vector<BufferId> lists = buffers();
      if (lists.size() != 2 && lists.size() != 3) cursor_.fail_at(place, "a scatter is ordered by destinations and elements");
      made.ordered = ScatterKernel::Ordered{lists[0], lists[1]};
      if (lists.size() == 3) made.ordered->parts = lists[2];
      if (cursor_.accept_word("unit")) made.ordered->unit = number("elements of a destination");
      if (cursor_.accept_word("bias")) made.ordered->bias = number("a number");
      if (cursor_.accept_word("vector")) made.ordered->vector = static_cast<int>(number("neighbours"));
      if (cursor_.accept_word("rounds")) {
        cursor_.expect_word("once");
        made.ordered->rounds_once = true;
      }
      if (cursor_.accept_word("fill")) made.ordered->fill = expression(its.origin);
    }
    cursor_.expect_word("store");
    made.out = buffer();
    made.position = bracketed();
    cursor_.expect("=");
    made.base = buffer();
    made.mode = kind_of(parse_scatter_mode, "kind of scatter");
    cursor_.expect_word("of");
    made.value = expression(its.origin);
    cursor_.expect("}");
    return made;
  }

  CallStep call_step() {
    Head its = head();
    CallStep made{};
    made.name = std::move(its.name);
    made.provenance = std::move(its.provenance);
    cursor_.expect("{");
    made.outputs = buffers();
    cursor_.expect("=");
    made.call = call(its.origin);
    if (cursor_.accept_word("choice")) made.choice = cursor_.string_literal();
    if (cursor_.accept_word("tiles")) made.gpu = gpu_tiles();
    if (cursor_.accept_word("prologue")) made.prologue = kernel(0);
    while (cursor_.accept_word("update")) made.updates.push_back(scatter());
    if (cursor_.accept_word("epilogue")) made.epilogue = kernel(0);
    cursor_.expect("}");
    return made;
  }

  BindStep bind() {
    Head its = head();
    cursor_.expect(":");
    BindStep made{std::move(its.name), expr("="), {}, std::move(its.provenance)};
    cursor_.expect("=");
    made.value = buffer();
    return made;
  }

  ChainStep chain() {
    Head its = head();
    ChainStep made{std::move(its.name), {}, std::move(its.provenance), {}};
    cursor_.expect("{");
    if (cursor_.accept_word("choice")) made.choice = cursor_.string_literal();
    while (cursor_.accept_word("call")) made.calls.push_back(call_step());
    cursor_.expect("}");
    return made;
  }

  ParallelKernels together() {
    Head its = head();
    ParallelKernels made{std::move(its.name), {}, std::move(its.provenance)};
    cursor_.expect("{");
    while (true) {
      if (cursor_.accept_word("kernel")) {
        made.kernels.emplace_back(kernel(0));
      } else if (cursor_.accept_word("scatter")) {
        made.kernels.emplace_back(scatter());
      } else {
        break;
      }
    }
    cursor_.expect("}");
    return made;
  }
};

}  // namespace

ScheduledProgram parse_schedule(std::string_view text) {
  ScheduleReader reader(text);
  ScheduledProgram result = reader.read();
  reader.expect_end();
  return result;
}

ScheduledProgram parse_schedule_prefix(std::string_view text, size_t& end) {
  ScheduleReader reader(text);
  ScheduledProgram result = reader.read();
  end = reader.end();
  return result;
}

}  // namespace toroid::schedule
