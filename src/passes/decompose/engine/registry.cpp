// Finds the decomposition that serves an operator.
//
// The spelling that computes is the functional one; the others are looked up as it:
//
//   aten::relu_            in place       -> aten::relu
//   aten::add.out          into a tensor  -> aten::add.Tensor, the overload with the same arguments
//   aten::zeros.out                       -> aten::zeros, whose dtype and device are those of `out`
//   aten::slice_copy.Tensor  a view, copied -> aten::slice.Tensor
//
// For each spelling the row of the overload itself comes first, then the row "name.*".
#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decomposition_table.h"
#include "passes/decompose/engine/overrides.h"

namespace toroid {

std::vector<std::span<const DecompositionRow>> decomposition_families() {
  return {
      collective_rows(),
      arithmetic_rows(),
      comparison_rows(),
      special_rows(),
      polynomial_rows(),
      activation_rows(),
      creation_rows(),
      conversion_rows(),
      view_rows(),
      joining_rows(),
      padding_rows(),
      diagonal_rows(),
      reduction_rows(),
      softmax_rows(),
      scan_rows(),
      difference_rows(),
      sorting_rows(),
      searching_rows(),
      histogram_rows(),
      indexing_rows(),
      jagged_rows(),
      scattering_rows(),
      embedding_rows(),
      matmul_rows(),
      contraction_rows(),
      convolution_rows(),
      pooling_rows(),
      resampling_rows(),
      grid_sampling_rows(),
      normalization_rows(),
      dropout_rows(),
      random_rows(),
      random_integer_rows(),
      sampling_rows(),
      attention_rows(),
      loss_rows(),
      cross_entropy_rows(),
      distance_rows(),
      recurrent_rows(),
      linalg_rows(),
      matrix_norm_rows(),
      activation_backward_rows(),
      convolution_backward_rows(),
      distance_backward_rows(),
      dual_tensor_rows(),
      embedding_backward_rows(),
      grid_sampling_backward_rows(),
      indexing_backward_rows(),
      loss_backward_rows(),
      normalization_backward_rows(),
      padding_backward_rows(),
      pooling_backward_rows(),
      recurrent_cell_rows(),
      resampling_backward_rows(),
      sampling_backward_rows(),
      foreach_rows(),
      mutation_rows(),
      data_dependent_rows(),
      segment_reduce_rows(),
      prims_rows(),
      second_name_rows(),
      statistics_rows(),
      optimizer_rows(),
      named_conv_rows(),
      norm_part_rows(),
      quantization_rows(),
      fake_quant_rows(),
      mixed_matmul_rows(),
      packed_weight_rows(),
      encoder_layer_rows(),
      ctc_loss_rows(),
      detection_rows(),
      deformable_convolution_rows(),
  };
}

namespace {

// Where an operator that makes a tensor puts it and in which dtype; the tensor `out` answers that.
bool is_placement(const Parameter& parameter) {
  constexpr std::string_view kNames[] = {"dtype", "layout", "device", "pin_memory"};
  return parameter.keyword_only && std::find(std::begin(kNames), std::end(kNames), parameter.name) != std::end(kNames);
}

bool same_parameters(const Schema& functional, const Schema& out) {
  size_t i = 0;
  auto skip_placement = [&](std::string_view next) {
    while (i < functional.parameters.size() && is_placement(functional.parameters[i]) && functional.parameters[i].name != next) {
      ++i;
    }
  };
  for (const Parameter& parameter : out.parameters) {
    if (parameter.keyword_only && parameter.mutated) continue;
    skip_placement(parameter.name);
    if (i == functional.parameters.size()) return false;
    const Parameter& other = functional.parameters[i++];
    if (other.name != parameter.name || other.type != parameter.type || other.is_list != parameter.is_list) {
      return false;
    }
  }
  skip_placement("");
  return i == functional.parameters.size();
}

bool writes_to_out(const Schema& schema) {
  return std::any_of(schema.parameters.begin(), schema.parameters.end(), [](const Parameter& p) { return p.mutated && p.keyword_only; });
}

// aten::max.dim for aten::max.dim_max(…, *, Tensor(a!) max, Tensor(b!) max_values).
const Schema* functional_of_out(const Schema& out) {
  const std::string_view base = std::string_view(out.name).substr(0, out.name.find('.'));
  static const std::vector<std::string_view> names = schema_names();
  for (auto name = std::lower_bound(names.begin(), names.end(), base); name != names.end() && name->starts_with(base); ++name) {
    if (name->substr(0, name->find('.')) != base) continue;
    const Schema* candidate = find_schema(*name);
    if (!writes_to_out(*candidate) && same_parameters(*candidate, out)) return candidate;
  }
  return nullptr;
}

// "aten::add.Tensor" as {"aten::", "add", ".Tensor"}.
struct Spelling {
  std::string_view space, base, overload;
  explicit Spelling(std::string_view name) {
    const size_t colons = name.find("::");
    const size_t start = colons == std::string_view::npos ? 0 : colons + 2;
    const size_t dot = std::min(name.find('.', start), name.size());
    space = name.substr(0, start);
    base = name.substr(start, dot - start);
    overload = name.substr(dot);
  }
};

}  // namespace

DecompositionTable::DecompositionTable(const std::vector<std::span<const DecompositionRow>>& families) {
  for (std::span<const DecompositionRow> family : families) {
    for (const DecompositionRow& row : family) rows_.try_emplace(row.op, row.function);
  }
}

Decomposition DecompositionTable::find_row(std::string_view op) const {
  if (const auto row = rows_.find(op); row != rows_.end()) return row->second;
  const std::string any_overload = fmt::format("{}.*", op.substr(0, op.find('.')));
  if (const auto row = rows_.find(any_overload); row != rows_.end()) return row->second;
  return nullptr;
}

Decomposition DecompositionTable::find(const Schema& schema) const {
  if (const Decomposition row = find_row(schema.name)) return row;
  if (writes_to_out(schema)) {
    const Schema* functional = functional_of_out(schema);
    return functional == nullptr ? nullptr : find(*functional);
  }
  const Spelling name(schema.name);
  std::string functional;
  if (name.base.ends_with("__") && name.base.starts_with("__i")) {
    functional = fmt::format("__{}", name.base.substr(3));  // __iadd__ is __add__
  } else if (name.base.ends_with("_") && !name.base.ends_with("__")) {
    functional = name.base.substr(0, name.base.size() - 1);
  } else if (name.base.ends_with("_copy")) {
    functional = name.base.substr(0, name.base.size() - 5);
  } else {
    return nullptr;
  }
  return find_row(fmt::format("{}{}{}", name.space, functional, name.overload));
}

namespace {

// Rows that tests put before all others, the latest last.
std::mutex overriding;
std::vector<const DecompositionRow*> overridden;
std::atomic<size_t> num_overridden = 0;

}  // namespace

OverriddenDecomposition::OverriddenDecomposition(std::string op, Decomposition function) : op_(std::move(op)), row_{op_, function} {
  const std::lock_guard lock(overriding);
  overridden.push_back(&row_);
  num_overridden = overridden.size();
}

OverriddenDecomposition::~OverriddenDecomposition() {
  const std::lock_guard lock(overriding);
  std::erase(overridden, &row_);
  num_overridden = overridden.size();
}

bool has_overridden_decompositions() { return num_overridden.load(std::memory_order_relaxed) != 0; }

Decomposition find_decomposition(const Schema& schema) {
  static const DecompositionTable table(decomposition_families());
  if (has_overridden_decompositions()) {
    const std::lock_guard lock(overriding);
    std::vector<DecompositionRow> rows;
    for (auto row = overridden.rbegin(); row != overridden.rend(); ++row) rows.push_back(**row);
    if (const Decomposition function = DecompositionTable({std::span<const DecompositionRow>(rows)}).find(schema)) return function;
  }
  return table.find(schema);
}

}  // namespace toroid
