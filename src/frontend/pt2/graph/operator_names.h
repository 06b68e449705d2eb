// The names by which a .pt2 file calls operators, and which of them toroid has.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json_reader.h"
#include "frontend/operator_report.h"
#include "frontend/pt2/import.h"
#include "graph/schema.h"

namespace toroid::pt2 {

inline constexpr std::string_view kTorchOps = "torch.ops.";
inline constexpr std::string_view kHigherOrder = "higher_order::";

// Control flow that the graph keeps as it is.
inline constexpr std::string_view kControlFlow[] = {"cond", "while_loop", "map_impl", "scan", "associative_scan"};
// A body that computes the same without its wrapper; (mode, body, operands…).
inline constexpr std::string_view kGradientRegion = "wrap_with_set_grad_enabled";
// A body whose operators convert their inputs; (device type, dtype, enabled, cache enabled, body, operands…).
inline constexpr std::string_view kAutocastRegion = "wrap_with_autocast";
// An operator whose effects are in order: (token, operator, its arguments…) gives a token, then the operator's results. Tokens hold
// nothing.
inline constexpr std::string_view kWithEffects = "with_effects";
// An operator that writes to its arguments, as run_decompositions() records it: (operator, its other arguments by name, for each x that it
// writes to _x_base_index, _all_bases) gives the operator's results, or None without any, and then the new value of each base.
inline constexpr std::string_view kFunctionalized = "auto_functionalized_v2";
// torch.vmap as export records it: between these two, values are slices of what was mapped. vmap(body, mapped, others,
// randomness) computes the body for each slice of the mapped tensors along their first dim, as map_impl does, in any order or all at
// once; with the randomness "same" all slices draw the same numbers.
inline constexpr std::string_view kVmapBegins = "torch._functorch.predispatch._vmap_increment_nesting";
inline constexpr std::string_view kVmapEnds = "torch._functorch.predispatch._vmap_decrement_nesting";
inline constexpr std::string_view kMapped = "torch._functorch.predispatch._add_batch_dim";      // (x, dim, level): a slice of x
inline constexpr std::string_view kStacked = "torch._functorch.predispatch._remove_batch_dim";  // (x, level, size, dim): all slices
inline constexpr std::string_view kVmapLoads = "torch._functorch.predispatch.lazy_load_decompositions";
// torch.func.jvp and torch.autograd.forward_ad: operators of dual tensors, which have a level. That of a tensor is how many jvps are open.
inline constexpr std::string_view kJvpBegins = "torch._functorch.predispatch._jvp_increment_nesting";
inline constexpr std::string_view kJvpEnds = "torch._functorch.predispatch._jvp_decrement_nesting";
inline constexpr std::string_view kDualsBegin = "torch._functorch.predispatch._enter_dual_level";
inline constexpr std::string_view kDualsEnd = "torch._functorch.predispatch._exit_dual_level";
inline constexpr std::string_view kMakesDual = "torch._functorch.predispatch._make_dual";          // (primal, tangent)
inline constexpr std::string_view kUnpacksDual = "torch._functorch.predispatch._unpack_dual";      // (x)
inline constexpr std::string_view kLeavesLevel = "torch._functorch.predispatch._unwrap_for_grad";  // (x): itself
inline constexpr std::string_view kTransforms[] = {kVmapBegins, kVmapEnds,   kMapped,   kStacked,   kVmapLoads,   kJvpBegins,
                                                   kJvpEnds,    kDualsBegin, kDualsEnd, kMakesDual, kUnpacksDual, kLeavesLevel};
// These state ranges of symbols, which range_constraints states as well.
inline constexpr std::string_view kRangeStatements[] = {"aten::sym_constrain_range", "aten::sym_constrain_range_for_size"};
// These read a data-dependent integer out of a tensor.
inline constexpr std::string_view kReadsElement[] = {"aten::item", "aten::_local_scalar_dense"};

// These address the memory behind their argument.
inline constexpr std::string_view kMemoryViews[] = {"aten::as_strided", "aten::as_strided_", "aten::as_strided_copy",
                                                    "aten::as_strided_scatter", "aten::slice_inverse"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// "torch.ops.aten.add.Tensor" as "aten::add.Tensor"; the default overload has no suffix. Python's operators stay as they are.
std::string operator_name(std::string_view target);
// Of a node, for messages.
std::string_view name_of_node(const JsonValue& node);
// PyTorch names values by Python identifiers. Whatever else a file holds must not reach generated code.
std::string value_name(std::string_view name);
// The operator of a node with effects.
std::string effect_of(const JsonValue& node);

inline bool is_symbolic(std::string_view kind) { return kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float"; }

// A node that computes sizes only; the file gives its results as expressions.
bool has_only_symbolic_outputs(const JsonValue& node);

// PyTorch's, or that of an operator of the user's own; null: neither.
const Schema* known_schema(std::string_view op, const Pt2Options& options);
bool is_supported(const Schema& schema, const Pt2Options& options);

// Counts those of a graph and of the graphs inside it.
void count_operators(const JsonValue& graph, OperatorCounter& counter);
// Those that toroid lacks; none where the file is damaged.
std::vector<OperatorUse> missing_operators(const JsonValue& graph, const Pt2Options& options);

}  // namespace toroid::pt2
