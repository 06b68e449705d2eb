// While a row that was read from memory is worked on, the next row is fetched, and the places where this one will be stored.
//
//   stage 0: for j in inner     acc0 = max x[row, j]
//   stage 1: for j in inner     fetch x[row + 1, j], out[row, j];  stash0[j] = exp(x[row, j] - acc0);  …
//   stage 2: for j in inner     out[row, j] = stash0[j] * (1 / acc1)
//
// The first stage waits for memory; a later one that computes much (exponentials and the like) works on what is in the cache by then. Rows
// that fit into the first level all together go there, longer ones into the second. Places to be stored to come into the first level as
// long as they do not push out all that is read.
#include <algorithm>

#include "lower/cost.h"
#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostRow = 1 << 24;  // as which longer ones, and those of any length, count
constexpr int64_t kLeastRow = 256;     // elements: shorter rows follow each other in memory as a stream
constexpr int64_t kFirstLevelBytes = 32 * 1024, kMostBytesToWrite = 64 * 1024;  // of all rows in use

}  // namespace

int64_t product_hint(std::span<const sym::Expr> sizes, int64_t most) {
  int64_t product = 1;
  for (sym::Expr size : sizes) product = std::min(most, product * std::min(most, sym::evaluate_hint(size)));
  return product;
}

int64_t bytes_hint(const loop::Buffer& buffer, int64_t most) { return product_hint(buffer.sizes, most) * size_bytes(buffer.dtype); }

bool is_contiguous(sym::Expr position, sym::Expr along) {
  const auto linear = sym::linear_in(position, along);
  return linear && linear->coefficient.is_const(1);
}

bool computes_much(const loop::ExprTable& exprs, const Stage& stage) {
  return std::any_of(stage.statements.begin(), stage.statements.end(), [&](const Statement& statement) {
    return cost_of(exprs, match(statement, [](const auto& s) { return s.value; })).transcendental > 0;
  });
}

std::string_view to_string(Fetch::To to) {
  switch (to) {
    case Fetch::To::SecondLevel: return "fetch";
    case Fetch::To::FirstLevel: return "fetch near";
    case Fetch::To::FirstLevelToWrite: return "fetch to write";
  }
  return {};
}

void fetch_rows(const loop::LoopProgram& program, Kernel& kernel) {
  if (kernel.vector != VectorAlong::Inner || kernel.outer.empty()) return;
  std::vector<sym::Expr> extents;
  for (sym::Expr axis : kernel.inner) extents.push_back(*axis.node()->extent);
  const int64_t row_elements = product_hint(extents, kMostRow);
  if (row_elements < kLeastRow) return;
  std::vector<Stage*> inner;
  for (Stage& stage : kernel.stages) {
    if (stage.inner && !stage.condition) inner.push_back(&stage);
  }
  size_t busy = 1;
  while (busy < inner.size() && !computes_much(program.exprs, *inner[busy])) ++busy;
  if (busy >= inner.size()) return;
  const sym::Expr row = kernel.outer.back(), along = kernel.inner.back();
  std::vector<Fetch>& fetches = inner[busy]->fetches;
  int64_t bytes = 0;  // of rows that are in use at once: the one worked on, the next, what is kept and what is stored
  for (DType kept : kernel.stashes) bytes += row_elements * size_bytes(kept);
  auto add = [&](BufferId buffer, sym::Expr position, Fetch::To to) {
    const bool is_new =
        std::none_of(fetches.begin(), fetches.end(), [&](const Fetch& each) { return each.buffer == buffer && each.position == position; });
    if (!is_new || !is_contiguous(position, along)) return;
    fetches.push_back({buffer, position, to});
    bytes += row_elements * size_bytes(program.buffer(buffer).dtype) * (to == Fetch::To::FirstLevel ? 2 : 1);
  };
  std::vector<ExprId> read;
  for (const Statement& statement : inner[0]->statements) read.push_back(match(statement, [](const auto& s) { return s.value; }));
  for (ExprId id : loop::reachable(program.exprs, read)) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(id).op);
    if (load == nullptr || !sym::depends_on(load->index[0], row) || !only_axes_and_sizes(load->index[0])) continue;
    add(load->buffer, sym::substitute(load->index[0], sym::Substitution{{row, row + 1}}), Fetch::To::FirstLevel);
  }
  for (size_t s = busy + 1; s < inner.size(); ++s) {
    for (const Statement& statement : inner[s]->statements) {
      const auto* store = std::get_if<Store>(&statement);
      if (store != nullptr && !is_written_around(kernel, store->buffer)) add(store->buffer, store->position, Fetch::To::FirstLevelToWrite);
    }
  }
  if (bytes > kMostBytesToWrite) std::erase_if(fetches, [](const Fetch& each) { return each.to == Fetch::To::FirstLevelToWrite; });
  for (Fetch& each : fetches) {
    if (bytes > kFirstLevelBytes && each.to == Fetch::To::FirstLevel) each.to = Fetch::To::SecondLevel;
  }
}

}  // namespace toroid::schedule
