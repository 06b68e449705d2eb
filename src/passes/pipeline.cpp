#include "passes/pipeline.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/attention/fold_masks.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/fold_affine.h"
#include "passes/fold_constants.h"
#include "passes/merge_products.h"
#include "passes/shard/micro_batches.h"
#include "passes/shard/swap_rows.h"
#include "passes/shard/swap_sums.h"
#include "support/hash.h"

namespace toroid {
namespace {

// Operators of PyTorch: is the program at import level?
bool has_operators(const Program& program) {
  auto has = [](const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return std::holds_alternative<Aten>(node.op); });
  };
  return has(program.graph) || std::any_of(program.subgraphs.begin(), program.subgraphs.end(), has);
}

// All that a pass may change, constants' bytes apart: no pass writes into those.
std::string fingerprint(const Program& program) { return sha256(to_text(program, {.provenance = true})).hex(); }

// Graphs at core level are rebuilt as well, which merges equal nodes; only their text tells whether any were.
bool decompose_program(Program& program, const PassCosts& costs) {
  const std::string before = has_operators(program) ? "" : fingerprint(program);
  decompose(program, {.byte_convolutions = costs.byte_convolutions,
                      .sums_elements = costs.sums_elements,
                      .flips_filters = costs.flips_filters,
                      .has_backward_weights = costs.has_backward_weights,
                      .resamples_by_dims = costs.resamples_by_dims});
  return before.empty() || fingerprint(program) != before;
}

template <bool (*kRun)(Program&)>
bool without_costs(Program& program, const PassCosts&) {
  return kRun(program);
}

// In this order, each line with the reason of its place.
constexpr Pass kPasses[] = {
    // First: all others work on core operations.
    {"decompose", "operators of PyTorch to core operations", false, decompose_program},
    // Formulas leave arithmetic on numbers that only the model's arguments made known.
    {"fold-constants", "compute what does not depend on inputs", true, without_costs<fold_constants>},
    // By now only weights' own arithmetic is left of a batch norm's.
    {"fold-affine", "batch norms, and other scales and shifts of channels, into constant filters", true, without_costs<fold_affine>},
    // Behind it: scaled weights and biases are joined as any others.
    {"merge-products", "products of one left side by constants become one", true, merge_products},
    // Behind what computes small masks.
    {"fold-masks", "attention's masks that are true everywhere or a triangle", true, without_costs<fold_masks>},
    // Behind what makes products larger: it splits them.
    {"swap-rows", "two processes swap rows that they gather and sums that they scatter, beside products of others", true, swap_rows},
    // Behind what makes products larger: halves are weighed by their times.
    {"split-batch", "compute for one half of a batch while the other one's is communicated", true, split_batch},
    // Behind it: it knows reductions, and halves are what is large enough or not.
    {"swap-sums", "two processes swap what they add, which kernels behind that add", true, swap_sums},
    // Last: what the others put something else in the place of.
    {"dead-code", "remove what nobody uses", false, without_costs<remove_dead_code>},
};

std::string names_of(std::span<const Pass> list, bool only_optional) {
  std::string text;
  for (const Pass& pass : list) {
    if (pass.optimises || !only_optional) text += fmt::format("{}{}", text.empty() ? "" : ", ", pass.name);
  }
  return text;
}

void check_left_out(std::span<const std::string> without, std::span<const Pass> list) {
  for (const std::string& name : without) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Pass& pass) { return pass.name == name; });
    if (found != list.end() && found->optimises) continue;
    throw Error(ErrorKind::InvalidOption,
                found == list.end() ? fmt::format("there is no pass '{}'", name) : fmt::format("every program needs the pass '{}'", name))
        .help(fmt::format("passes that can be left out: {}", names_of(list, true)));
  }
}

Error fault(const Pass& pass, std::string_view what) {
  Error error(ErrorKind::Internal, fmt::format("the pass '{}' {}", pass.name, what));
  error.help(fmt::format("please report this together with the model{}",
                         pass.optimises ? fmt::format("; --without-pass {} compiles it without this pass", pass.name) : ""));
  return error;
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }
std::string pass_names() { return names_of(kPasses, false); }
std::string optional_pass_names() { return names_of(kPasses, true); }

bool passes_are_checked() {
#ifdef NDEBUG
  const char* const variable = std::getenv("TOROID_VERIFY");
  return variable != nullptr && *variable != '\0' && std::string_view(variable) != "0";
#else
  return true;
#endif
}

void run_pass(const Pass& pass, Program& program, const PassOptions& options) {
  const std::string before = options.check ? fingerprint(program) : "";
  const Level level = has_operators(program) ? Level::Import : Level::Core;  // decompose itself verifies that it leaves core level
  const Stopwatch watch;
  const bool changed = pass.run(program, options.costs);
  if (options.timed) options.timed(pass, watch.seconds());
  if (options.check) {
    try {
      verify(program, level);
    } catch (const Error& error) {
      throw fault(pass, fmt::format("broke the program: {}", error.message()));
    }
    const bool differs = fingerprint(program) != before;
    if (differs && !changed) throw fault(pass, "changed the program and says that it did not");
    if (changed && !differs) throw fault(pass, "says that it changed the program, which is as it was");
  }
  if (changed && options.changed) options.changed(pass, program);
}

void check_left_out(std::span<const std::string> without) { check_left_out(without, kPasses); }

void run_passes(Program& program, const PassOptions& options, std::span<const Pass> list) {
  check_left_out(options.without, list);
  for (const Pass& pass : list) {
    const bool is_left_out = std::find(options.without.begin(), options.without.end(), pass.name) != options.without.end();
    if (is_left_out || (pass.optimises && !options.optimise)) continue;
    run_pass(pass, program, options);
  }
}

}  // namespace toroid
