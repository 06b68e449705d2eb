#include "schedule/cuda/column_sums.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/kept_in_registers.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::ExprTable;

// A kernel that sums some columns of a block of rows: outer block and column, inner row of the block.
struct ColumnKernel {
  sym::Expr block = 0, column = 0, row = 0;
  std::vector<const Accumulate*> sums;
  std::vector<BufferId> parts;  // of each sum
};

std::optional<ColumnKernel> as_column_kernel(const loop::LoopProgram& program, const Kernel& kernel) {
  if (!kernel.gpu || !kernel.gpu->columns || kernel.outer.size() != 2 || kernel.inner.size() != 1 || kernel.stages.size() != 2 ||
      !kernel.finish.empty() || !kernel.stashes.empty())
    return std::nullopt;
  ColumnKernel result{.block = kernel.outer[0], .column = kernel.outer[1], .row = kernel.inner[0], .sums = {}, .parts = {}};
  const Stage &adds = kernel.stages[0], &stores = kernel.stages[1];
  if (!adds.inner || adds.condition || stores.inner || stores.condition || adds.statements.size() != stores.statements.size())
    return std::nullopt;
  result.parts.resize(kernel.accumulators.size());
  for (const Statement& statement : adds.statements) {
    const auto* sum = std::get_if<Accumulate>(&statement);
    if (sum == nullptr) return std::nullopt;
    const Accumulator& acc = kernel.accumulators[static_cast<size_t>(sum->accumulator)];
    if (acc.op != ReduceOp::Sum || acc.dtype != DType::F32 || acc.care != loop::SumCare::Usual) return std::nullopt;
    result.sums.push_back(sum);
  }
  for (const Statement& statement : stores.statements) {
    const auto* store = std::get_if<Store>(&statement);
    const auto* acc = store == nullptr ? nullptr : std::get_if<loop::Accumulated>(&program.exprs.node(store->value).op);
    const bool is_part = acc != nullptr && program.buffer(store->buffer).kind == loop::BufferKind::Temporary &&
                         store->position == result.block * extent(result.column) + result.column;
    if (!is_part) return std::nullopt;
    result.parts[static_cast<size_t>(acc->id)] = store->buffer;
  }
  return result;
}

// A kernel of rows with a last stage over their elements, and its threads.
bool is_row_kernel(const Kernel& kernel) {
  return kernel.gpu && !kernel.gpu->columns && !kernel.gpu->shared && kernel.gpu->items > 0 && kernel.gpu->vector > 1 &&
         kernel.outer.size() == 1 && kernel.inner.size() == 1 && kernel.finish.empty() && kernel.stages.back().inner &&
         !kernel.stages.back().condition;
}

class ColumnSums {
 public:
  ColumnSums(loop::LoopProgram& program, std::vector<Step>& steps, const std::function<void(std::vector<Step>&, Kernel)>& plan)
      : program_(program), steps_(steps), plan_(plan), accesses_(program) {}

  void run() {
    for (size_t k = 0; k < steps_.size(); ++k) {
      const auto* columns = std::get_if<Kernel>(&steps_[k]);
      const std::optional<ColumnKernel> sums = columns == nullptr ? std::nullopt : as_column_kernel(program_, *columns);
      for (size_t r = 0; sums && r < steps_.size(); ++r) {
        if (r != k && merge(r, k, *sums)) {
          k -= 1;
          break;
        }
      }
    }
  }

 private:
  bool merge(size_t r, size_t k, const ColumnKernel& sums) {
    const auto* rows = std::get_if<Kernel>(&steps_[r]);
    if (rows == nullptr || !is_row_kernel(*rows)) return false;
    const Kernel& columns = std::get<Kernel>(steps_[k]);
    const sym::Expr row = rows->outer[0], element = rows->inner[0];
    const sym::Expr all = extent(sums.block) * extent(sums.row);
    if (extent(element) != extent(sums.column) || !extent(row).is_const() || !sym::known_le(extent(row), all)) return false;
    // Blocks of rows that do not divide them leave out what is beyond the last row.
    const auto leaves_out = [&](const Accumulate* sum) { return std::holds_alternative<loop::Masked>(program_.exprs.node(sum->value).op); };
    if (extent(row) != all && !std::all_of(sums.sums.begin(), sums.sums.end(), leaves_out)) return false;
    // One of both moves to the other, or reads what the other one writes.
    const bool shares = std::any_of(columns.reads.begin(), columns.reads.end(), [&](BufferId id) {
      return is_large(id, *rows) && (contains(rows->reads, id) || contains(rows->writes, id));
    });
    if (!shares) return false;
    const size_t first = std::min(r, k), last = std::max(r, k);
    const std::span between = std::span<const Step>(steps_).subspan(first + 1, last - first - 1);
    const bool moves_down = accesses_.may_move_over(steps_[first], between);
    if (!moves_down && !accesses_.may_move_over(steps_[last], between)) return false;
    std::optional<Kernel> made = with_sums(*rows, columns, sums, r < k);
    if (!made) return false;
    std::vector<std::pair<size_t, Kernel>> readers;
    for (BufferId part : sums.parts) {
      if (!read_more_parts(part, *made, readers)) return false;
    }
    for (auto& [step, kernel] : readers) {
      std::vector<Step> planned;
      plan_(planned, std::move(kernel));
      steps_[step] = std::move(planned[0]);
    }
    steps_[moves_down ? last : first] = std::move(*made);
    steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(moves_down ? first : last));
    return true;
  }

  bool is_large(BufferId id, const Kernel& rows) const {
    return sym::product(program_.buffer(id).sizes) == extent(rows.outer[0]) * extent(rows.inner[0]);
  }

  // The kernel of rows with the sums of columns in its last stage.
  std::optional<Kernel> with_sums(const Kernel& rows, const Kernel& columns, const ColumnKernel& sums, bool rows_are_first) {
    ExprTable& exprs = program_.exprs;
    Kernel made = rows;
    compute_again(exprs, made);
    const sym::Expr row = made.outer[0], element = made.inner[0];
    // What the kernel itself stores.
    std::vector<const Store*> stores;
    for (const Stage& stage : made.stages) {
      for (const Statement& statement : stage.statements) {
        if (const auto* store = std::get_if<Store>(&statement)) stores.push_back(store);
      }
    }
    const sym::Substitution places = {{sums.block, 0}, {sums.row, row}, {sums.column, element}};
    const sym::Substitution of_blocks = {{sums.row, row - sums.block * extent(sums.row)}};
    bool fits = true;
    const ExprTable::Leaf leaf = [&](ExprId id) -> std::optional<ExprId> {
      const auto* index = std::get_if<loop::Index>(&exprs.node(id).op);
      if (index != nullptr && sym::depends_on(sym::substitute(index->value, of_blocks), sums.block)) fits = false;
      const auto* load = std::get_if<loop::Load>(&exprs.node(id).op);
      if (load == nullptr) return std::nullopt;
      const sym::Expr at = load->index[0];
      // The row alone decides the place, not how it is divided into blocks.
      if (sym::depends_on(sym::substitute(at, of_blocks), sums.block)) fits = false;
      const sym::Expr place = sym::substitute(at, places);
      if (!contains(rows.writes, load->buffer)) return std::nullopt;
      const auto found = std::find_if(stores.begin(), stores.end(),
                                      [&](const Store* store) { return store->buffer == load->buffer && store->position == place; });
      if (found == stores.end()) {
        fits = false;
        return std::nullopt;
      }
      const DType dtype = program_.buffer(load->buffer).dtype;
      exprs.set_origin(exprs.node(id).origin);
      return is_reduced_float(dtype) ? exprs.add(loop::BitcastTo{(*found)->value, dtype, dtype}, exprs.dtype(id)) : (*found)->value;
    };
    if (!rows_are_first && shares_any(columns.reads, rows.writes)) return std::nullopt;
    ExprTable::Memo memo;
    std::vector<Statement> added;
    for (const Accumulate* sum : sums.sums) {
      const Accumulator& own = columns.accumulators[static_cast<size_t>(sum->accumulator)];
      const ExprId value = exprs.rewrite(sum->value, places, leaf, memo);
      if (!fits) return std::nullopt;
      const auto id = static_cast<AccumulatorId>(made.accumulators.size());
      made.accumulators.push_back({.op = ReduceOp::Sum, .dtype = DType::F32, .origin = own.origin});
      added.push_back(Accumulate{id, value, 0});
    }
    const auto before =
        std::count_if(rows.accumulators.begin(), rows.accumulators.end(), [](const auto& each) { return each.of_columns.has_value(); });
    if (!plan_threads(made, sums.sums.size() + static_cast<size_t>(before))) return std::nullopt;
    const sym::Expr blocks = made.gpu->blocks, all = extent(element);
    for (size_t i = 0; i < sums.sums.size(); ++i) {
      Accumulator& acc = made.accumulators[rows.accumulators.size() + i];
      const BufferId old = sums.parts[static_cast<size_t>(sums.sums[i]->accumulator)];
      acc.of_columns = program_.add_buffer(
          {.name = program_.buffer(old).name + "_of_rows", .dtype = DType::F32, .sizes = {blocks, all}, .strides = {all, 1}});
      parts_[old] = *acc.of_columns;
      made.writes.push_back(*acc.of_columns);
    }
    std::vector<Statement>& last = made.stages.back().statements;
    last.insert(last.end(), added.begin(), added.end());
    for (BufferId id : columns.reads) {
      if (!contains(made.reads, id) && !contains(made.writes, id)) made.reads.push_back(id);
    }
    keep_loads(exprs, made, static_cast<size_t>(kMostRegisters / (int64_t{made.gpu->items} * made.gpu->vector)));
    if (made.stashes.empty()) return std::nullopt;
    if (rows.gpu->blocks == 0) made.name += "_and_columns";
    add_provenance(made.provenance, columns.provenance);
    return made;
  }

  // As many threads as have room for the sums beside what the row keeps. False where there is none, or where rows are few.
  static bool plan_threads(Kernel& kernel, size_t sums) {
    GpuLoops& gpu = *kernel.gpu;
    const int64_t of_element = static_cast<int64_t>(sums) + 2;  // with what is kept
    const auto most = [&] { return gpu.row_threads <= kLeastThreads ? 120 : gpu.row_threads == 2 * kLeastThreads ? 72 : 40; };
    const int64_t length = extent(kernel.inner[0]).value(), rows = extent(kernel.outer[0]).value();
    while (gpu.items * gpu.vector * of_element > most()) {
      if (gpu.row_threads == kMostThreads || gpu.items == 1) return false;
      gpu.row_threads *= 2;
      const int64_t of_row = int64_t{gpu.row_threads} * gpu.vector;
      gpu.items = static_cast<int>((length + of_row - 1) / of_row);
    }
    gpu.threads = std::max(gpu.threads, gpu.row_threads);
    gpu.blocks = kBlocksAtOnce * kMultiprocessors;
    return rows >= kLeastRows * gpu.blocks * (gpu.threads / gpu.row_threads);
  }

  // The kernel that adds a buffer's parts adds those of the new one. Gives its step and what it becomes.
  bool read_more_parts(BufferId part, const Kernel& rows, std::vector<std::pair<size_t, Kernel>>& readers) {
    std::optional<size_t> reader;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!contains(reads_of(steps_[s]), part)) continue;
      if (reader) return false;
      reader = s;
    }
    if (!reader) return false;
    const auto is_it = [&](const auto& each) { return each.first == *reader; };
    const auto known = std::find_if(readers.begin(), readers.end(), is_it);
    const auto* kernel = known != readers.end() ? &known->second : std::get_if<Kernel>(&steps_[*reader]);
    if (kernel == nullptr || kernel->inner.size() != 1 || kernel->stages.size() != 2 || !kernel->stages[0].inner ||
        kernel->stages[1].inner || !kernel->stashes.empty())
      return false;
    ExprTable& exprs = program_.exprs;
    const BufferId parts = parts_.at(part);
    const sym::Expr blocks = rows.gpu->blocks, before = kernel->inner[0];
    Kernel made = *kernel;
    const bool is_changed = extent(before) == blocks;
    const sym::Expr block = is_changed ? before : exprs.symbols().axis(blocks, "r");
    const sym::Substitution axes = {{before, block}};
    ExprTable::Memo memo;
    bool fits = true;
    const ExprTable::Leaf leaf = [&](ExprId id) -> std::optional<ExprId> {
      const auto* load = std::get_if<loop::Load>(&exprs.node(id).op);
      if (load == nullptr) return std::nullopt;
      if (load->buffer != part) {
        fits = fits && (load->buffer == parts || !sym::depends_on(load->index[0], before) || is_new(load->buffer));
        return std::nullopt;
      }
      const sym::Expr at = sym::substitute(load->index[0], axes);
      exprs.set_origin(exprs.node(id).origin);
      return exprs.convert(exprs.add(loop::Load{parts, {at}}, DType::F32), exprs.dtype(id));
    };
    for (Statement& statement : made.stages[0].statements) {
      auto* sum = std::get_if<Accumulate>(&statement);
      if (sum == nullptr) return false;
      sum->position = sym::substitute(sum->position, axes);
      match(statement, [&](auto& s) { s.value = exprs.rewrite(s.value, axes, leaf, memo); });
    }
    made.inner = {block};
    std::replace(made.reads.begin(), made.reads.end(), part, parts);
    if (!fits) return false;
    if (known != readers.end())
      known->second = std::move(made);
    else
      readers.emplace_back(*reader, std::move(made));
    return true;
  }
  bool is_new(BufferId buffer) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const auto& each) { return each.second == buffer || each.first == buffer; });
  }

  static constexpr int kBlocksAtOnce = 2;                        // of a multiprocessor
  static constexpr int64_t kLeastRows = 4;                       // of each group of threads, so that writing the parts is little
  static constexpr int kLeastThreads = 128, kMostThreads = 512;  // of a block

  loop::LoopProgram& program_;
  std::vector<Step>& steps_;
  const std::function<void(std::vector<Step>&, Kernel)>& plan_;
  AccessTable accesses_;
  std::unordered_map<BufferId, BufferId> parts_;  // of blocks of rows, by those of the kernels of columns
};

}  // namespace

void sum_columns_beside_rows(loop::LoopProgram& program, std::vector<Step>& steps,
                             const std::function<void(std::vector<Step>&, Kernel)>& plan) {
  ColumnSums(program, steps, plan).run();
}

}  // namespace toroid::schedule
