#include "interp/ties.h"

#include <cmath>
#include <optional>
#include <unordered_set>
#include <vector>

#include "interp/evaluate.h"
#include "interp/movement.h"

namespace toroid {
namespace {

// The values that indices choose from, as rows, and for each index the row it belongs to.
struct Choice {
  std::vector<double> values;  // [rows, length]
  int64_t length = 1;
  HostTensor rows;         // shaped like the indices
  bool each_once = false;  // the indices of a row are a permutation, or part of one
};

std::vector<int> with_last(int64_t rank, std::span<const int> last) {
  std::vector<int> order;
  for (int d = 0; d < rank; ++d) {
    if (std::find(last.begin(), last.end(), d) == last.end()) order.push_back(d);
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

std::vector<double> doubles_of(const HostTensor& x) {
  if (is_floating(x.dtype())) return x.to_doubles();
  const std::vector<int64_t> values = x.to_ints();
  return {values.begin(), values.end()};
}

// Rows along `dims`; an index result keeps those dims (sort, scan) or drops them (arg-reductions).
Choice choice_along(const HostTensor& x, std::span<const int> dims, bool keeps_dims) {
  Choice choice;
  std::vector<int64_t> row_sizes;
  for (int d : with_last(x.rank(), dims)) row_sizes.push_back(x.sizes()[static_cast<size_t>(d)]);
  for (int d : dims) choice.length *= x.sizes()[static_cast<size_t>(d)];
  row_sizes.resize(row_sizes.size() - dims.size());
  choice.values = doubles_of(permute(x, with_last(x.rank(), dims)));

  std::vector<int64_t> numbers(static_cast<size_t>(numel(row_sizes)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  choice.rows = HostTensor::from_ints(DType::I64, row_sizes, numbers);
  if (keeps_dims) {
    std::vector<int64_t> ones = row_sizes;
    for (int d : dims) ones.insert(ones.begin() + d, 1);
    choice.rows = expand(choice.rows.reshaped(ones), x.sizes());
  }
  return choice;
}

// What node `node` chooses from, given its operand; nothing when it does not choose.
std::optional<Choice> choice_of(const Node& node, uint32_t output_index, const HostTensor& operand) {
  if (const auto* sort = std::get_if<Sort>(&node.op); sort != nullptr && output_index == 1) {
    const std::vector<int> dims(operand.rank() > 0 ? 1 : 0, sort->dim);
    Choice choice = choice_along(operand, dims, true);
    choice.each_once = true;
    return choice;
  }
  if (const auto* scan = std::get_if<Scan>(&node.op); scan != nullptr && output_index == 1) {
    return choice_along(operand, std::vector<int>(operand.rank() > 0 ? 1 : 0, scan->dim), true);
  }
  if (const auto* reduce = std::get_if<Reduce>(&node.op)) {
    if (reduce->op == ReduceOp::ArgMax || reduce->op == ReduceOp::ArgMin) {
      return choice_along(operand, reduce->dims, false);
    }
  }
  return std::nullopt;
}

// The view `node` of `x`; nothing when it is no view, or depends on symbols. `sizes` are those of its result.
std::optional<HostTensor> moved(const Node& node, const HostTensor& x, const std::vector<int64_t>& sizes) {
  if (std::holds_alternative<Cast>(node.op)) return x;  // of the indices themselves
  if (std::holds_alternative<Reshape>(node.op)) return x.reshaped(sizes);
  if (std::holds_alternative<Expand>(node.op)) return expand(x, sizes);
  if (const auto* op = std::get_if<Permute>(&node.op)) return permute(x, op->dims);
  if (const auto* op = std::get_if<Slice>(&node.op)) {
    std::vector<int64_t> starts, steps;
    for (size_t d = 0; d < op->starts.size(); ++d) {
      if (!op->starts[d].is_const() || !op->steps[d].is_const()) return std::nullopt;
      starts.push_back(op->starts[d].value());
      steps.push_back(op->steps[d].value());
    }
    return slice(x, starts, steps, sizes);
  }
  return std::nullopt;
}

bool in_range(const Choice& choice, std::span<const int64_t> indices) {
  return std::all_of(indices.begin(), indices.end(), [&](int64_t i) { return i >= 0 && i < choice.length; });
}

bool all_different(std::span<const int64_t> places) {
  return std::unordered_set<int64_t>(places.begin(), places.end()).size() == places.size();
}

bool same_choice(const Choice& choice, const HostTensor& a, const HostTensor& b) {
  const std::vector<int64_t> rows = choice.rows.to_ints();
  std::vector<int64_t> first = a.to_ints();
  std::vector<int64_t> second = b.to_ints();
  if (first.size() != rows.size() || second.size() != rows.size()) return false;
  if (!in_range(choice, first) || !in_range(choice, second)) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    first[i] += rows[i] * choice.length;
    second[i] += rows[i] * choice.length;
    const double x = choice.values[static_cast<size_t>(first[i])];
    const double y = choice.values[static_cast<size_t>(second[i])];
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return !choice.each_once || all_different(second) || !all_different(first);
}

}  // namespace

bool point_at_equal_values(const Program& program, std::span<const HostTensor> inputs, size_t output, const HostTensor& a,
                           const HostTensor& b) {
  const Graph& graph = program.graph;
  // From the output back through views to what found the indices.
  std::vector<ValueId> views;
  ValueId found = graph.outputs[output];
  for (;;) {
    const Node& node = graph.producer(found);
    const bool is_view = std::holds_alternative<Cast>(node.op) || std::holds_alternative<Reshape>(node.op) ||
                         std::holds_alternative<Expand>(node.op) || std::holds_alternative<Permute>(node.op) ||
                         std::holds_alternative<Slice>(node.op);
    if (!is_view) break;
    views.push_back(found);
    found = node.inputs[0];
  }
  const Node& finder = graph.producer(found);
  const bool finds =
      std::holds_alternative<Sort>(finder.op) || std::holds_alternative<Scan>(finder.op) || std::holds_alternative<Reduce>(finder.op);
  if (!finds) return false;

  std::optional<HostTensor> operand;
  std::vector<std::vector<int64_t>> sizes(views.size());
  EvaluateOptions options;
  options.after_node = [&](const Graph& where, const Node& node, std::span<const HostTensor> results) {
    if (&where != &graph) return;
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] == finder.inputs[0]) operand = results[i];
      for (size_t v = 0; v < views.size(); ++v) {
        if (node.outputs[i] == views[v]) sizes[v] = results[i].sizes();
      }
    }
  };
  evaluate(program, inputs, options);

  std::optional<Choice> choice = choice_of(finder, graph.value(found).output_index, *operand);
  if (!choice) return false;
  for (size_t v = views.size(); v-- > 0;) {
    std::optional<HostTensor> rows = moved(graph.producer(views[v]), choice->rows, sizes[v]);
    if (!rows) return false;
    choice->rows = std::move(*rows);
  }
  return same_choice(*choice, a, b);
}

}  // namespace toroid
