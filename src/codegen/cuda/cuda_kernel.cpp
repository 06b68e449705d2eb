#include "codegen/cuda/cuda_kernel.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/masked_stage.h"
#include "support/match.h"

namespace toroid::codegen::cuda {
namespace {

using loop::BufferId;
using loop::ExprId;
using schedule::Accumulate;
using schedule::Keep;
using schedule::Stage;
using schedule::Statement;
using schedule::Store;

bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }

class CudaPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::Step& step) {
    match(
        step, [&](const schedule::Kernel& kernel) { nest(kernel); },
        [&](const schedule::ScatterKernel& kernel) { scatter(kernel); },
        [](const auto& other) { TOROID_CHECK(false, "'{}' is no kernel", other.name); });
    finish(schedule::provenance_of(step), fmt::format("__launch_bounds__({})", schedule::cuda_grid_of(program_, step).threads));
    return {.source = std::move(source_), .waits = waits_, .preludes = {.special = body_.is_special}};
  }

 private:
  // ---- nests

  void nest(const schedule::Kernel& kernel) {
    TOROID_CHECK(kernel.gpu.has_value(), "the kernel '{}' is not planned for a GPU", kernel.name);
    gpu_ = *kernel.gpu;
    kernel_ = &kernel;
    body_.unfused = {kernel.unfused.begin(), kernel.unfused.end()};
    const sym::Expr rows = product_of_extents(kernel.outer), row = product_of_extents(kernel.inner);
    constexpr int64_t kMostRounded = 16384;  // what the last block has beyond the last row
    Contents contents{{}, {rows + kMostRounded, row + kMostRounded}};
    for (const Stage& stage : kernel.stages) {
      for (const Statement& statement : stage.statements) {
        match(
            statement,
            [&](const Accumulate& s) {
              contents.values.push_back(s.value);
              if (is_arg(kernel.accumulators[static_cast<size_t>(s.accumulator)].op)) contents.positions.push_back(s.position);
            },
            [&](const Store& s) {
              contents.values.push_back(s.value);
              contents.positions.push_back(s.position);
            },
            [&](const Keep& s) { contents.values.push_back(s.value); });
      }
    }
    begin(contents, kernel.reads, kernel.writes);
    if (kernel.inner.empty()) return map(kernel, rows);

    const int rows_of_block = gpu_.threads / gpu_.row_threads;
    const std::string row_thread =
        gpu_.columns ? fmt::format("threadIdx.x % {}", rows_of_block) : fmt::format("threadIdx.x / {}", gpu_.row_threads);
    body_.line(
        fmt::format("const int thread = {};  // of the row's {}",
                    gpu_.columns ? fmt::format("threadIdx.x / {}", rows_of_block) : fmt::format("threadIdx.x % {}", gpu_.row_threads),
                    gpu_.row_threads));
    // Threads without a row go along with the last one, so that all wait for each other.
    const int columns = of_thread();
    body_.line(columns > 1 ? fmt::format("const Index own_row = (blockIdx.x * (Index){} + {}) * {};", rows_of_block, row_thread, columns)
                           : fmt::format("const Index own_row = blockIdx.x * (Index){} + {};", rows_of_block, row_thread));
    body_.line(fmt::format("const bool is_row = own_row < {0};", index(rows)));
    body_.line(fmt::format("const Index row = is_row ? own_row : {} - {};", print_factor(exprs_, names_, rows), columns));
    decode(kernel.outer, "row");
    for (size_t i = 0; i < kernel.stashes.size(); ++i)
      body_.line(fmt::format("{} stash{}[{}];", register_type(kernel.stashes[i]), i, gpu_.items * gpu_.vector));
    for (const Stage& stage : kernel.stages) stage.inner ? row_stage(stage, row) : once_stage(stage);
  }

  // A block has a tile: it reads what the tile turns with its threads along the tile's axis, and computes with them along the last axis.
  void map_by_tiles(const schedule::Kernel& kernel) {
    constexpr auto kSide = static_cast<int>(schedule::kTileSide);
    const sym::Expr across = *kernel.tile, along = kernel.outer.back();
    std::vector<std::string> tiles;
    for (ExprId id : kernel.tiled_loads) {
      const loop::Buffer& buffer = program_.buffer(std::get<loop::Load>(exprs_.node(id).op).buffer);
      const int64_t padding = std::max<int64_t>(1, 4 / size_bytes(buffer.dtype));  // a column lies in as many banks as it has elements
      tiles.push_back(fmt::format("tile{}", tiles.size()));
      body_.line(fmt::format("__shared__ {} {}[{}][{}];", storage_type(buffer.dtype), tiles.back(), kSide, kSide + padding));
    }
    std::string rest = "blockIdx.x";
    for (size_t d = kernel.outer.size(); d-- > 0;) {
      const sym::Expr axis = kernel.outer[d];
      const bool is_side = axis == across || axis == along;
      const std::string count = print_factor(exprs_, names_, is_side ? sym::ceil_div(extent(axis), kSide) : extent(axis));
      const std::string name = axis == across  ? "first_across"
                               : axis == along ? "first_along"
                                               : body_.name_of(axis),
                        next = body_.fresh("rest");
      body_.line(fmt::format("const Index {0} = {1} % {2}{3}, {4} = {1} / {2};", name, rest, count,
                             is_side ? fmt::format(" * {}", kSide) : "", next));
      rest = next;
    }
    const auto each_row = [&](sym::Expr of_rows, std::string_view first_row, sym::Expr of_lanes, std::string_view first_lane) {
      body_.open(fmt::format("for (int tile_row = threadIdx.x / {0}; tile_row < {0}; tile_row += {1}) {{", kSide, gpu_.threads / kSide));
      body_.line(fmt::format("const int tile_lane = threadIdx.x % {};", kSide));
      body_.line(fmt::format("const Index {} = {} + tile_row, {} = {} + tile_lane;", body_.name_of(of_rows), first_row,
                             body_.name_of(of_lanes), first_lane));
      body_.line(fmt::format("if ({} >= {} || {} >= {}) continue;", body_.name_of(of_rows), index(extent(of_rows)), body_.name_of(of_lanes),
                             index(extent(of_lanes))));
    };
    each_row(along, "first_along", across, "first_across");
    for (size_t i = 0; i < tiles.size(); ++i) {
      const auto& load = std::get<loop::Load>(exprs_.node(kernel.tiled_loads[i]).op);
      const std::string at = index(load.index[0]);
      body_.line(fmt::format("{}[tile_row][tile_lane] = {}[{}];", tiles[i], body_.memory(load.buffer), at));
    }
    body_.close();
    body_.line("__syncthreads();");
    waits_ = true;
    each_row(across, "first_across", along, "first_along");
    for (size_t i = 0; i < tiles.size(); ++i) body_.define(kernel.tiled_loads[i], fmt::format("widen({}[tile_lane][tile_row])", tiles[i]));
    for (const Stage& stage : kernel.stages) elements_of(stage, kernel.outer, "");
    body_.close();
  }

  void map(const schedule::Kernel& kernel, sym::Expr elements) {
    if (kernel.tile) return map_by_tiles(kernel);
    const std::string vector = gpu_.vector > 1 ? fmt::format(" * {}", gpu_.vector) : "";
    const std::string place = fmt::format("blockIdx.x * (Index){} + threadIdx.x", gpu_.threads);
    body_.line(fmt::format("const Index element = {};", vector.empty() ? place : "(" + place + ")" + vector));
    body_.line(fmt::format("if (element >= {}) return;", index(elements)));
    decode(kernel.outer, "element");
    for (const Stage& stage : kernel.stages) {
      declare_accumulators(stage);
      elements_of(stage, kernel.outer, "");
      combine_accumulators(stage);
    }
  }

  // What one thread of a row does for all.
  void once_stage(const Stage& stage) {
    body_.open("if (is_row && thread == 0) {");
    if (of_thread() > 1) {
      elements_of(stage, kernel_->outer, "");
    } else {
      for (const Statement& statement : stage.statements) print(statement, {});
    }
    body_.close();
  }

  // Rows beside each other that a thread has.
  int of_thread() const { return gpu_.columns ? gpu_.vector : 1; }

  // One thread's row: a loop for each inner axis. What is added only under a condition is asked for in the outermost loop that knows it.
  void row_of_thread(const Stage& stage) {
    const std::optional<schedule::MaskedStage> masked = schedule::masked_stage(exprs_, *kernel_, stage);
    const bool asks_once = masked && (of_thread() == 1 || !changes(masked->condition, {kernel_->outer.back()}));
    std::vector<sym::Expr> inner(kernel_->inner.rbegin(), kernel_->inner.rend());  // those that are still to come
    int open = 0;
    bool asked = !asks_once;
    while (true) {
      if (!asked && !changes(masked->condition, inner)) {
        const std::string condition = body_.value(masked->condition);
        body_.open(fmt::format("if ({}) {{", condition));
        ++open;
        asked = true;
      }
      if (inner.empty()) break;
      const std::string length = index(extent(inner.back())), name = body_.name_of(inner.back());
      body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", name, length));
      ++open;
      inner.pop_back();
    }
    const Stage& adds = asks_once ? masked->stage : stage;
    if (of_thread() > 1) body_.hoist(values_of(adds), {kernel_->outer.back()});
    elements_of(adds, of_thread() > 1 ? kernel_->outer : kernel_->inner, "");
    while (open-- > 0) body_.close();
  }
  static std::vector<ExprId> values_of(const Stage& stage) {
    std::vector<ExprId> values;
    for (const Statement& statement : stage.statements) values.push_back(match(statement, [](const auto& s) { return s.value; }));
    return values;
  }
  bool changes(ExprId id, const std::vector<sym::Expr>& axes) const { return !schedule::varying(exprs_, {id}, axes).empty(); }

  void row_stage(const Stage& stage, sym::Expr row) {
    if (gpu_.row_threads == 1 && gpu_.items == 0 && (gpu_.columns || gpu_.vector == 1)) {
      declare_accumulators(stage);
      body_.open("{");
      row_of_thread(stage);
      body_.close();
      return combine_accumulators(stage);
    }
    declare_accumulators(stage);
    body_.open("{");
    const std::vector<sym::Expr>& axes = of_thread() > 1 ? kernel_->outer : kernel_->inner;  // along the last one the thread has neighbours
    std::vector<sym::Expr> changing = kernel_->inner;
    if (of_thread() > 1) changing.push_back(axes.back());
    if (sym::known_lt(0, row)) body_.hoist(values_of(stage), changing);
    const int vector = gpu_.vector / of_thread(), step = gpu_.row_threads * vector;
    const std::string first = vector > 1 ? fmt::format("thread * {}", vector) : "thread";
    if (gpu_.items > 0) {
      body_.line("UNROLLED");
      body_.open(fmt::format("for (int item = 0; item < {}; ++item) {{", gpu_.items));
      body_.line(fmt::format("const Index place = item * (Index){} + {};", step, first));
      if (row.value() < int64_t{1} * gpu_.items * step) body_.line(fmt::format("if (place >= {}) continue;", row.value()));
    } else {
      body_.open(fmt::format("for (Index place = {}; place < {}; place += {}) {{", first, index(row), step));
    }
    decode(kernel_->inner, "place");
    elements_of(stage, axes, gpu_.items > 0 ? fmt::format("item * {}", gpu_.vector) : "");
    body_.close();
    body_.close();
    combine_accumulators(stage);
  }

  // ---- the elements of a thread

  struct Packs {
    std::vector<std::pair<const Store*, std::string>> stores;
  };

  // The neighbours along the last of the axes, which are declared for the first of them.
  void elements_of(const Stage& stage, const std::vector<sym::Expr>& axes, const std::string& stash_place) {
    if (gpu_.vector == 1) {
      body_.stash_index = stash_place.empty() ? "0" : stash_place.substr(0, stash_place.find(' '));
      for (const Statement& statement : stage.statements) print(statement, {});
      return;
    }
    const sym::Expr axis = axes.back();
    const std::string name = body_.name_of(axis), first = body_.fresh("first"), k = body_.fresh("k");
    schedule::Kernel alone;
    alone.stages = {stage};
    std::vector<std::pair<ExprId, std::string>> loads;
    for (ExprId id : schedule::unconditional_loads(exprs_, alone)) {
      const auto load = std::get<loop::Load>(exprs_.node(id).op);
      if (!fills_packs(load.buffer, load.index[0], axis)) continue;
      const std::string pack = body_.fresh("pack"), at = index(load.index[0]);
      body_.line(fmt::format("const auto {} = load_pack<{}>({} + {});", pack, gpu_.vector, body_.memory(load.buffer), at));
      loads.emplace_back(id, pack);
    }
    Packs packs;
    for (const Statement& statement : stage.statements) {
      const auto* s = std::get_if<Store>(&statement);
      if (s == nullptr || !fills_packs(s->buffer, s->position, axis)) continue;
      packs.stores.emplace_back(s, body_.fresh("result"));
      body_.line(fmt::format("Pack<{}, {}> {};", storage_type(program_.buffer(s->buffer).dtype), gpu_.vector, packs.stores.back().second));
    }
    body_.line(fmt::format("const Index {} = {};", first, name));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, gpu_.vector));
    body_.line(fmt::format("const Index {} = {} + {};", name, first, k));
    for (const auto& [id, pack] : loads) body_.define(id, fmt::format("{}.get({})", pack, k));
    body_.stash_index = stash_place.empty() ? k : fmt::format("{} + {}", stash_place, k);
    pack_element_ = k;
    if (of_thread() > 1) body_.column = fmt::format("[{}]", k);
    for (const Statement& statement : stage.statements) print(statement, packs);
    body_.column.clear();
    body_.close();
    for (const auto& [s, pack] : packs.stores) {
      const std::string at = index(s->position);
      body_.line(fmt::format("{}store_pack({} + {}, {});", guard(), body_.memory(s->buffer), at, pack));
    }
  }

  // Are neighbours along the axis neighbours in memory, from a place on that one access may have?
  bool fills_packs(BufferId buffer, sym::Expr position, sym::Expr axis) const {
    const auto linear = sym::linear_in(position, axis);
    return program_.buffer(buffer).kind != loop::BufferKind::RandomState && linear && linear->coefficient.is_const(1) &&
           !schedule::depends_on_through_values(exprs_, linear->rest, axis) && sym::known_divisible(linear->rest, gpu_.vector);
  }

  std::string_view guard() const { return kernel_->inner.empty() ? "" : "if (is_row) "; }

  void print(const Statement& statement, const Packs& packs) {
    match(
        statement, [&](const Accumulate& s) { accumulate(s); },
        [&](const Store& s) {
          const auto pack = std::find_if(packs.stores.begin(), packs.stores.end(), [&](const auto& each) { return each.first == &s; });
          const std::string value = body_.value(s.value);
          if (pack != packs.stores.end()) return body_.line(fmt::format("{}.set({}, {});", pack->second, pack_element_, value));
          const std::string at = index(s.position);
          body_.line(fmt::format("{}store({} + {}, {});", guard(), body_.memory(s.buffer), at, value));
        },
        [&](const Keep& s) {
          const std::string value = body_.value(s.value);
          body_.line(fmt::format("stash{}[{}] = {};", static_cast<uint32_t>(s.stash), body_.stash_index, value));
        });
  }

  // ---- accumulators

  // Sums that are to be exact are in double, but for the few elements that a thread has in registers.
  DType own_dtype(const schedule::Accumulator& acc) const {
    const bool is_wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care == loop::SumCare::Finest && gpu_.items == 0;
    return is_wide ? DType::F64 : acc.dtype;
  }

  void declare_accumulators(const Stage& stage) {
    for (const Statement& statement : stage.statements) {
      if (const auto* s = std::get_if<Accumulate>(&statement)) declare_accumulator(static_cast<size_t>(s->accumulator));
    }
  }
  void combine_accumulators(const Stage& stage) {
    for (const Statement& statement : stage.statements) {
      if (const auto* s = std::get_if<Accumulate>(&statement)) combine(static_cast<size_t>(s->accumulator));
    }
  }

  void declare_accumulator(size_t i) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const std::string_view type = register_type(own_dtype(acc));
    if (is_arg(acc.op)) {
      body_.line(fmt::format("Best<{}> best{} = {{0, -1}};", type, i));
    } else {
      const std::string identity = identity_text(acc.op, own_dtype(acc));
      if (of_thread() == 1) return body_.line(fmt::format("{} sum{} = {};", type, i, identity));
      body_.line(fmt::format("{} sum{}[{}];", type, i, of_thread()));
      body_.line("UNROLLED");
      body_.line(fmt::format("for (int k = 0; k < {}; ++k) sum{}[k] = {};", of_thread(), i, identity));
    }
  }

  void accumulate(const Accumulate& s) {
    const auto i = static_cast<size_t>(s.accumulator);
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const std::string value = body_.value(s.value);
    if (is_arg(acc.op)) {
      const std::string at = index(s.position);
      return body_.line(fmt::format("best{0} = better<{1}>(best{0}, Best<{2}>{{{3}, {4}}});", i, acc.op == ReduceOp::ArgMin,
                                    register_type(acc.dtype), value, at));
    }
    const DType own = own_dtype(acc);
    const std::string sum = fmt::format("sum{}{}", i, body_.column), x = own == acc.dtype ? value : fmt::format("(double){}", value);
    body_.line(fmt::format("{} = {};", sum, combine_text(acc.op, own, {sum, false, true}, {x, false, true})));
  }

  // Of the threads of the row. Sums of floats that are kept in double are added so.
  void combine(size_t i) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const bool arg = is_arg(acc.op);
    const bool wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care != loop::SumCare::Usual;
    const DType dtype = wide ? DType::F64 : acc.dtype;
    const std::string type = arg ? fmt::format("Best<{}>", register_type(dtype)) : std::string(register_type(dtype));
    const bool several = of_thread() > 1;
    std::string total = fmt::format("{}{}{}", arg ? "best" : "sum", i, several ? "[k]" : "");
    if (wide) total = fmt::format("(double){}", total);
    if (gpu_.row_threads > 1) {
      const std::string how = gpu_.columns ? fmt::format("combine_column<{}, {}>", gpu_.row_threads, gpu_.threads / gpu_.row_threads)
                                           : fmt::format("combine_row<{}>", gpu_.row_threads);
      const std::string both = arg ? fmt::format("better<{}>(a, b)", acc.op == ReduceOp::ArgMin)
                                   : combine_text(acc.op, dtype, {"a", false, true}, {"b", false, true});
      total = fmt::format("{}({}, []({} a, {} b) {{ return ({}){}; }})", how, total, type, type, type, arg ? both : "(" + both + ")");
      waits_ = true;
    }
    if (arg) total = fmt::format("op_max(({}).position, (int64_t)0)", total);
    if (!several) return body_.line(fmt::format("const auto acc{} = {};", i, total));
    body_.line(fmt::format("{} acc{}[{}];", type, i, of_thread()));
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) acc{}[k] = {};", of_thread(), i, total));
  }

  // ---- scatters

  void scatter(const schedule::ScatterKernel& kernel) {
    const schedule::ScatterThreads threads = schedule::scatter_threads(program_, kernel);
    const sym::Expr combinations = product_of_extents(threads.parallel);
    Contents contents{{kernel.value}, {kernel.position, combinations * threads.owners}};
    for (sym::Expr axis : kernel.axes) contents.positions.push_back(extent(axis));
    begin(contents, kernel.reads, {kernel.out});
    body_.line(fmt::format("const Index thread = blockIdx.x * (Index){} + threadIdx.x;", schedule::cuda_grid_of(program_, kernel).threads));
    body_.line(fmt::format("if (thread >= {}) return;", index(combinations * threads.owners)));
    if (threads.owners > 1) body_.line(fmt::format("const Index own = thread % {0}, combination = thread / {0};", threads.owners));
    decode(threads.parallel, threads.owners > 1 ? "combination" : "thread");
    for (sym::Expr axis : threads.serial) {
      const std::string length = index(extent(axis)), name = body_.name_of(axis);
      body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", name, length));
    }
    const std::string at = index(kernel.position), to = body_.fresh("to");
    body_.line(fmt::format("const Index {} = {};", to, at));
    if (threads.owners > 1) body_.line(fmt::format("if (owner_of({}, {}) != own) continue;", to, threads.owners));
    const std::string x = body_.value(kernel.value), pointer = fmt::format("{} + {}", body_.memory(kernel.out), to);
    const DType dtype = exprs_.dtype(kernel.value);
    std::string result = x;
    if (kernel.mode != ScatterMode::Set) {
      constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Min, ScalarOp::Max};
      const std::string old = body_.fresh("old");
      body_.line(fmt::format("const {} {} = load({});", register_type(dtype), old, pointer));
      result = scalar_text(kOps[static_cast<size_t>(kernel.mode)], dtype, {{old, false, true}, {x, false, true}});
    }
    body_.line(fmt::format("store({}, {}({}));", pointer, register_type(dtype), result));
    for (size_t i = 0; i < threads.serial.size(); ++i) body_.close();
  }

  schedule::GpuLoops gpu_;
  const schedule::Kernel* kernel_ = nullptr;  // of a nest
  std::string pack_element_;
  bool waits_ = false;
};

}  // namespace

CudaKernel print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name) {
  if (const auto* product = std::get_if<schedule::CallStep>(&step)) return print_product(program, *product, graph, std::move(name));
  if (const auto* scan = std::get_if<schedule::ScanKernel>(&step)) return print_scan(program, *scan, graph, std::move(name));
  return CudaPrinter(program, graph, std::move(name)).run(step);
}

}  // namespace toroid::codegen::cuda
