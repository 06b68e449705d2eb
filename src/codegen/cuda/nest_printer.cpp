#include "codegen/cuda/nest_printer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/masked_stage.h"
#include "support/match.h"

namespace toroid::codegen::cuda {

CudaKernel NestPrinter::run(const schedule::Kernel& kernel) {
  nest(kernel);
  finish(kernel.provenance, fmt::format("__launch_bounds__({}{})", schedule::cuda_grid_of(program_, kernel).threads,
                                        gpu_.shared || gpu_.blocks > 0 ? ", 2" : ""));
  return {.source = std::move(source_), .waits = waits_, .preludes = {.special = body_.is_special}};
}

ThreadText NestPrinter::run_thread(const schedule::Kernel& kernel) {
  nest(kernel);
  return take_thread(waits_);
}

void NestPrinter::nest(const schedule::Kernel& kernel) {
  TOROID_CHECK(kernel.gpu.has_value(), "the kernel '{}' is not planned for a GPU", kernel.name);
  gpu_ = *kernel.gpu;
  kernel_ = &kernel;
  body_.unfused = {kernel.unfused.begin(), kernel.unfused.end()};
  const sym::Expr rows = product_of_extents(kernel.outer), row = product_of_extents(kernel.inner);
  constexpr int64_t kMostRounded = 16384;  // what the last block has beyond the last row
  Contents contents{{}, {rows + kMostRounded, row + kMostRounded}};
  // A product with an extent of 0 does not mention the others.
  for (const auto* axes : {&kernel.outer, &kernel.inner}) contents.positions.insert(contents.positions.end(), axes->begin(), axes->end());
  for (const Stage& stage : kernel.stages) {
    if (stage.condition) contents.values.push_back(*stage.condition);
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
  if (gpu_.pixels > 1) return slide(kernel, *schedule::sliding_window(exprs_, kernel));

  const int rows_of_block = gpu_.threads / gpu_.row_threads;
  const std::string row_thread =
      gpu_.columns ? fmt::format("threadIdx.x % {}", rows_of_block) : fmt::format("threadIdx.x / {}", gpu_.row_threads);
  body_.line(fmt::format("const int thread = {};  // of the row's {}",
                         gpu_.columns ? fmt::format("threadIdx.x / {}", rows_of_block) : fmt::format("threadIdx.x % {}", gpu_.row_threads),
                         gpu_.row_threads));
  // Threads without a row go along with the last one, so that all wait for each other.
  const int columns = of_thread();
  if (gpu_.blocks > 0) {
    for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
      if (kernel.accumulators[i].of_columns) body_.line(fmt::format("float column{}[{}] = {{}};", i, gpu_.items * gpu_.vector));
    }
    body_.open(fmt::format("for (Index first_row = blockIdx.x * (Index){0}; first_row < {1}; first_row += {2}) {{", rows_of_block,
                           index(rows), gpu_.blocks * rows_of_block));
    body_.line(fmt::format("const Index own_row = first_row + {};", row_thread));
  } else {
    body_.line(columns > 1 ? fmt::format("const Index own_row = (blockIdx.x * (Index){} + {}) * {};", rows_of_block, row_thread, columns)
                           : fmt::format("const Index own_row = blockIdx.x * (Index){} + {};", rows_of_block, row_thread));
  }
  body_.line(fmt::format("const bool is_row = own_row < {0};", index(rows)));
  body_.line(fmt::format("const Index row = is_row ? own_row : {} - {};", print_factor(exprs_, names_, rows), columns));
  decode(kernel.outer, "row");
  if (gpu_.shared) {
    const auto& load = std::get<loop::Load>(exprs_.node(schedule::kept_values(kernel)[0]).op);
    stash_type_ = fmt::format("Pack<{}, {}>", storage_type(program_.buffer(load.buffer).dtype), gpu_.vector);
    body_.line(fmt::format("{0}* const stash0 = ({0}*)memory_of_stash() + threadIdx.x;", stash_type_));
  }
  for (size_t i = 0; i < kernel.stashes.size() && !gpu_.shared; ++i)
    body_.line(fmt::format("{} stash{}[{}];", register_type(kernel.stashes[i]), i, gpu_.items * gpu_.vector));
  for (const Stage& stage : kernel.stages) stage.inner ? row_stage(stage, row) : once_stage(stage);
  if (gpu_.blocks == 0) return;
  body_.close();
  for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
    const std::optional<BufferId> to = kernel.accumulators[i].of_columns;
    if (!to) continue;
    body_.line(fmt::format("store_columns<{}, {}, {}>(column{}, {} + blockIdx.x * (Index){}, {});", gpu_.row_threads, gpu_.threads,
                           gpu_.vector, i, body_.memory(*to), row.value(), row.value()));
    waits_ = true;
  }
}

// What one thread of a row does for all.
void NestPrinter::once_stage(const Stage& stage) {
  body_.open("if (is_row && thread == 0) {");
  if (of_thread() > 1) {
    elements_of(stage, kernel_->outer, "");
  } else {
    for (const Statement& statement : stage.statements) print(statement, {});
  }
  body_.close();
}

// One thread's row: a loop for each inner axis. What is added only under a condition is asked for in the outermost loop that knows it.
void NestPrinter::row_of_thread(const Stage& stage) {
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

std::vector<loop::ExprId> NestPrinter::values_of(const Stage& stage) {
  std::vector<ExprId> values;
  for (const Statement& statement : stage.statements) values.push_back(match(statement, [](const auto& s) { return s.value; }));
  return values;
}

bool NestPrinter::changes(ExprId id, const std::vector<sym::Expr>& axes) const { return !schedule::varying(exprs_, {id}, axes).empty(); }

// The scope of a stage's loop, which a thread leaves out where its condition holds in no column.
void NestPrinter::open_stage(const Stage& stage) {
  if (!stage.condition) return body_.open("{");
  const sym::Expr axis = kernel_->outer.empty() ? sym::Expr(0) : kernel_->outer.back();
  if (of_thread() == 1 || !changes(*stage.condition, {axis})) {
    const std::string condition = body_.value(*stage.condition);
    return body_.open(fmt::format("if ({}) {{", condition));
  }
  const std::string any = body_.fresh("any"), first = body_.fresh("first"), k = body_.fresh("k"), name = body_.name_of(axis);
  body_.line(fmt::format("bool {} = false;", any));
  body_.line(fmt::format("const Index {} = {};", first, name));
  body_.line("UNROLLED");
  body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, of_thread()));
  body_.line(fmt::format("const Index {} = {} + {};", name, first, k));
  body_.column = fmt::format("[{}]", k);
  const std::string condition = body_.value(*stage.condition);
  body_.line(fmt::format("{0} = {0} || {1};", any, condition));
  body_.column.clear();
  body_.close();
  body_.open(fmt::format("if ({}) {{", any));
}

void NestPrinter::row_stage(const Stage& stage, sym::Expr row) {
  declare_accumulators(stage);
  // Threads that leave out a stage need not combine what they have not added.
  const bool combines_inside = combines_inside_of(stage);
  if (combines_inside) declare_results(stage);
  open_stage(stage);
  if (gpu_.row_threads == 1 && gpu_.items == 0 && (gpu_.columns || gpu_.vector == 1)) {
    row_of_thread(stage);
    body_.close();
    return combine_accumulators(stage);
  }
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
    const std::string length = index(row);
    // For some loads at once.
    if (of_thread() >= 4 || (!gpu_.columns && gpu_.vector > 1)) {
      body_.line("UNROLLED_BY_4");
    } else if (gpu_.columns && stage.statements.size() == 1) {
      body_.line("UNROLLED_BY_16");
    }
    body_.open(fmt::format("for (Index place = {}; place < {}; place += {}) {{", first, length, step));
  }
  decode(kernel_->inner, "place");
  elements_of(stage, axes, gpu_.items > 0 ? fmt::format("item * {}", gpu_.vector) : "");
  body_.close();
  if (combines_inside) combine_accumulators(stage, true);
  body_.close();
  if (!combines_inside) combine_accumulators(stage);
}

// The neighbours along the last of the axes, which are declared for the first of them.
void NestPrinter::elements_of(const Stage& stage, const std::vector<sym::Expr>& axes, const std::string& stash_place) {
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
  std::string kept;  // the pack that goes to shared memory, or comes from there
  if (gpu_.shared) {
    const std::string at = fmt::format("stash0[item * {}]", gpu_.threads);
    if (std::any_of(stage.statements.begin(), stage.statements.end(), [](const auto& s) { return std::holds_alternative<Keep>(s); })) {
      kept = std::find_if(loads.begin(), loads.end(), [&](const auto& each) {
               return each.first == schedule::kept_values(*kernel_)[0];
             })->second;
      body_.line(fmt::format("{} = {};", at, kept));
    } else {
      for (ExprId id : loop::reachable(exprs_, values_of(stage))) {
        if (!std::holds_alternative<loop::Stashed>(exprs_.node(id).op)) continue;
        if (kept.empty()) {
          kept = body_.fresh("kept");
          body_.line(fmt::format("const {} {} = {};", stash_type_, kept, at));
        }
        loads.emplace_back(id, kept);
      }
    }
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
  define_tiled(fmt::format("tile_lane + {}", k));
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
bool NestPrinter::fills_packs(BufferId buffer, sym::Expr position, sym::Expr axis) const {
  const auto linear = sym::linear_in(position, axis);
  return program_.buffer(buffer).kind != loop::BufferKind::RandomState && linear && linear->coefficient.is_const(1) &&
         !schedule::depends_on_through_values(exprs_, linear->rest, axis) && sym::known_divisible(linear->rest, gpu_.vector);
}

void NestPrinter::print(const Statement& statement, const Packs& packs) {
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
        if (gpu_.shared) return;
        const std::string value = body_.value(s.value);
        body_.line(fmt::format("stash{}[{}] = {};", static_cast<uint32_t>(s.stash), body_.stash_index, value));
      });
}

}  // namespace toroid::codegen::cuda
