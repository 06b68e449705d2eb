#include "schedule/cuda/sliding_window.h"

#include <algorithm>

#include "schedule/axes.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/masked_stage.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostTaps = 16, kMostPixels = 32, kMostOfThread = 64;
constexpr int64_t kLeastThreads = 1 << 15;  // fewer do not fill the device
constexpr int64_t kLineBytes = 128;

bool is_same_for(sym::Expr e, sym::Expr pixels, sym::Expr taps) { return !sym::depends_on(e, pixels) && !sym::depends_on(e, taps); }

// Is it the same one pixel further as `step` taps further?
bool slides(sym::Expr e, sym::Expr pixels, sym::Expr taps, int64_t step) {
  return sym::substitute(e, sym::Substitution{{pixels, pixels + 1}}) == sym::substitute(e, sym::Substitution{{taps, taps + step}});
}

// The steps of pixels and taps in memory: how many of the latter the former is.
std::optional<int64_t> step_of(sym::Expr position, sym::Expr pixels, sym::Expr taps) {
  const auto pixel = sym::linear_in(position, pixels), tap = sym::linear_in(position, taps);
  if (!pixel || !tap || !pixel->coefficient.is_const() || !tap->coefficient.is_const()) return std::nullopt;
  const int64_t own = pixel->coefficient.value(), its = tap->coefficient.value();
  if (its <= 0 || own <= 0 || own % its != 0) return std::nullopt;
  return own / its;
}

// The condition's parts, if it is one of indices, and the same for all neighbours along `last`.
bool split(const loop::ExprTable& exprs, ExprId condition, sym::Expr last, SlidingWindow& window) {
  const auto* convert = std::get_if<loop::Convert>(&exprs.node(condition).op);
  const auto* index = std::get_if<loop::Index>(&exprs.node(convert == nullptr ? condition : convert->operand).op);
  if (index == nullptr || !only_axes_and_sizes(index->value) || sym::depends_on(index->value, last)) return false;
  const sym::Expr alone[] = {index->value};
  for (sym::Expr part : index->value.kind() == sym::Kind::And ? index->value.operands() : std::span<const sym::Expr>(alone)) {
    const bool is_of_row = is_same_for(part, window.pixels, window.taps);
    if (!is_of_row && !slides(part, window.pixels, window.taps, window.step)) return false;
    sym::Expr& its = is_of_row ? window.row_condition : window.condition;
    its = sym::logical_and(its, part);
  }
  return true;
}

std::optional<SlidingWindow> along(const loop::ExprTable& exprs, const Kernel& kernel, SlidingWindow window,
                                   std::optional<ExprId> condition) {
  const sym::Expr last = kernel.outer.back();
  for (ExprId id : loop::reachable(exprs, {window.value})) {
    const loop::ExprOp& op = exprs.node(id).op;
    if (std::holds_alternative<loop::Masked>(op) || std::holds_alternative<loop::Index>(op)) return std::nullopt;
    const auto* load = std::get_if<loop::Load>(&op);
    if (load == nullptr) continue;
    const sym::Expr position = load->index[0];
    if (!only_axes_and_sizes(position) || (sym::depends_on(position, last) && !is_contiguous(position, last))) return std::nullopt;
    if (!sym::depends_on(position, window.pixels)) {
      window.of_taps.push_back(id);
      continue;
    }
    const std::optional<int64_t> step = step_of(position, window.pixels, window.taps);
    if (!step || (!window.of_pixels.empty() && *step != window.step)) return std::nullopt;
    window.step = *step;
    if (!slides(position, window.pixels, window.taps, window.step)) return std::nullopt;
    window.of_pixels.push_back(id);
  }
  if (window.of_pixels.size() != 1 || window.of_taps.size() != 1 || (condition && !split(exprs, *condition, last, window)))
    return std::nullopt;
  return window;
}

}  // namespace

std::optional<SlidingWindow> sliding_window(const loop::ExprTable& exprs, const Kernel& kernel) {
  if (kernel.outer.size() < 2 || !kernel.stashes.empty() || kernel.accumulators.size() != 1) return std::nullopt;
  const Accumulator& sum = kernel.accumulators[0];
  if (sum.op != ReduceOp::Sum || sum.dtype != DType::F32 || sum.care != loop::SumCare::Usual) return std::nullopt;
  std::optional<SlidingWindow> found;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const Stage& stage = kernel.stages[s];
    if (!stage.inner) continue;
    const std::optional<MaskedStage> masked = masked_stage(exprs, kernel, stage);
    const Statement& statement = masked ? masked->stage.statements[0] : stage.statements[0];
    if (found || s != 0 || stage.statements.size() != 1 || !std::holds_alternative<Accumulate>(statement)) return std::nullopt;
    const std::optional<ExprId> condition = masked ? std::optional(masked->condition) : std::nullopt;
    for (sym::Expr taps : kernel.inner) {
      const sym::Expr count = extent(taps);
      if (!count.is_const() || count.value() < 2 || count.value() > kMostTaps) continue;
      for (size_t d = kernel.outer.size() - 1; !found && d-- > 0;) {
        if (kernel.outer[d].is_const()) continue;
        found = along(exprs, kernel,
                      {.stage = s,
                       .pixels = kernel.outer[d],
                       .taps = taps,
                       .step = 1,
                       .of_pixels = {},
                       .of_taps = {},
                       .value = std::get<Accumulate>(statement).value,
                       .row_condition = 1,
                       .condition = 1,
                       .extent_of_taps = count.value()},
                      condition);
      }
      if (found) break;
    }
    if (!found) return std::nullopt;
  }
  return found;
}

WindowShare share_of_window(const loop::LoopProgram& program, const Kernel& kernel, const SlidingWindow& window, int vector) {
  const sym::Expr all = extent(window.pixels);
  if (!all.is_const()) return {};
  const auto& load = std::get<loop::Load>(program.exprs.node(window.of_pixels[0]).op);
  const int64_t bytes = size_bytes(program.buffer(load.buffer).dtype), elements = sym::evaluate_hint(product_of_extents(kernel.outer));
  for (int64_t pixels = std::min(kMostPixels, all.value()); pixels > 1; --pixels) {
    if (all.value() % pixels != 0) continue;
    WindowShare share{static_cast<int>(pixels), vector};
    while (share.vector > 1 && pixels * share.vector > kMostOfThread) share.vector /= 2;
    if (elements / (pixels * share.vector) < kLeastThreads) continue;
    const sym::Expr vectors = sym::floor_div(extent(kernel.outer.back()), share.vector);
    for (int64_t lanes = kLineBytes / (share.vector * bytes); share.lanes == 1 && lanes > 1; --lanes) {
      if (sym::known_divisible(vectors, lanes)) share.lanes = static_cast<int>(lanes);
    }
    return share;
  }
  return {};
}

// Where the image ends is known at places that no size or other axis moves.
std::pair<int64_t, int64_t> always_inside(const SlidingWindow& window, int pixels) {
  const int64_t elements = window.elements(pixels);
  for (sym::Expr symbol : sym::free_symbols(window.condition)) {
    if (symbol != window.pixels && symbol != window.taps) return {0, 0};
  }
  const auto is_inside = [&](int64_t element) {
    for (int64_t first = 0; first < extent(window.pixels).value(); first += pixels) {
      const auto value_of = [&](sym::Expr symbol) { return std::optional(symbol == window.pixels ? first : element); };
      if (sym::evaluate(window.condition, value_of) == 0) return false;
    }
    return true;
  };
  int64_t begin = 0;
  while (begin < elements && !is_inside(begin)) ++begin;
  int64_t end = begin;
  while (end < elements && is_inside(end)) ++end;
  return {begin, end};
}

}  // namespace toroid::schedule
