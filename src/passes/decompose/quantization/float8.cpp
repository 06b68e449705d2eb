#include "passes/decompose/quantization/float8.h"

#include <algorithm>

#include "formula/quantization/float8.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/engine/decomposition_table.h"

namespace toroid {
namespace {

// The dtype of the argument as the model records it.
DType recorded_dtype(const Decomposer& d, const Args& a, std::string_view name) {
  const auto* ref = std::get_if<InputRef>(&a.raw(name));
  return ref != nullptr && ref->index < d.argument_types.size() ? d.argument_types[ref->index].dtype : a.tensor(name).dtype();
}

Tensor values_of_argument(Decomposer& d, const Args& a, std::string_view name) {
  const DType dtype = recorded_dtype(d, a, name);
  return formula::is_float8(dtype) ? formula::float8_values(a.tensor(name), dtype) : a.tensor(name);
}

Tensor converted(Decomposer& d, Tensor values, DType to) {
  return formula::is_float8(to) ? formula::float8_bits(values, to) : d.b.cast(values, to);
}

std::vector<Tensor> convert_float8(Decomposer& d, const Args& a) {
  const DType to = required_result_type(d).dtype;
  const std::string_view name = parameter(a, 0);
  if (recorded_dtype(d, a, name) == to) return {a.tensor(name)};
  return {converted(d, values_of_argument(d, a, name), to)};
}

// What tensor cores may multiply, in F32, and a number by which the product is to be multiplied.
std::pair<Tensor, double> factor_of(Decomposer& d, const Args& a, std::string_view name) {
  const DType dtype = recorded_dtype(d, a, name);
  if (!formula::is_float8(dtype)) return {d.b.cast(a.tensor(name), DType::F32), 1};
  return {d.b.cast(formula::float8_halves(a.tensor(name), dtype), DType::F32), formula::float8_half_scale(dtype)};
}

// [M, K] by [K, N]; scales follow the sums. PyTorch's kernel for CPUs takes no notice of `scale_result`.
std::vector<Tensor> scaled_product(Decomposer& d, const Args& a) {
  const auto [left, of_left] = factor_of(d, a, "self");
  const auto [right, of_right] = factor_of(d, a, "mat2");
  Tensor product = d.b.matmul(left, right) * (of_left * of_right) * formula::scale_of_factor(left, a.tensor("scale_a"), 0) *
                   formula::scale_of_factor(right, a.tensor("scale_b"), 1);
  if (a.has("bias")) product = product + d.b.cast(a.tensor("bias"), DType::F32);
  const DType to = d.recorded.empty() ? a.dtype("out_dtype").value_or(recorded_dtype(d, a, "self")) : d.recorded[0].dtype;
  return {converted(d, product, to)};
}

// What moves elements: as for any other tensor.
Decomposition moving(const Schema& schema) {
  constexpr std::string_view kNames[] = {"aten::_assert_tensor_metadata",
                                         "aten::_reshape_alias",
                                         "aten::_unsafe_view",
                                         "aten::alias",
                                         "aten::as_strided",
                                         "aten::cat",
                                         "aten::chunk",
                                         "aten::clone",
                                         "aten::contiguous",
                                         "aten::copy",
                                         "aten::detach",
                                         "aten::embedding",
                                         "aten::empty_like",
                                         "aten::expand",
                                         "aten::expand_as",
                                         "aten::flatten",
                                         "aten::flip",
                                         "aten::gather",
                                         "aten::index",
                                         "aten::index_put",
                                         "aten::index_select",
                                         "aten::lift",
                                         "aten::lift_fresh",
                                         "aten::movedim",
                                         "aten::narrow",
                                         "aten::new_empty",
                                         "aten::new_zeros",
                                         "aten::permute",
                                         "aten::repeat",
                                         "aten::reshape",
                                         "aten::roll",
                                         "aten::select",
                                         "aten::slice",
                                         "aten::slice_scatter",
                                         "aten::select_scatter",
                                         "aten::split",
                                         "aten::split_with_sizes",
                                         "aten::squeeze",
                                         "aten::stack",
                                         "aten::sym_size",
                                         "aten::t",
                                         "aten::transpose",
                                         "aten::unbind",
                                         "aten::unflatten",
                                         "aten::unfold",
                                         "aten::unsqueeze",
                                         "aten::view",
                                         "aten::view_as",
                                         "aten::where",
                                         "aten::zeros_like"};
  std::string_view base = std::string_view(schema.name).substr(0, schema.name.find('.'));
  for (std::string_view suffix : {"_copy", "_"}) {
    if (base.ends_with(suffix)) base.remove_suffix(suffix.size());
  }
  const bool moves = std::find(std::begin(kNames), std::end(kNames), base) != std::end(kNames);
  return moves ? find_decomposition(schema) : nullptr;
}

// The same bits under another name.
std::vector<Tensor> view_bits(Decomposer& d, const Args& a) {
  const DType to = required_result_type(d).dtype;
  return {d.b.bitcast(a.tensor("self"), formula::is_float8(to) ? DType::U8 : to)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::to.*", convert_float8},    {"aten::_to_copy", convert_float8},
    {"aten::type_as", convert_float8}, {"prims::convert_element_type", convert_float8},
    {"aten::view.dtype", view_bits},   {"aten::_scaled_mm", scaled_product},
};

}  // namespace

bool has_float8_values(const Graph& graph, const Node& node) {
  auto is_such = [&](ValueId id) { return formula::is_float8(graph.type(id).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_such) || std::any_of(node.outputs.begin(), node.outputs.end(), is_such);
}

Decomposition find_float8_decomposition(const Schema& schema) {
  static const DecompositionTable table({kRows});
  if (const Decomposition found = table.find(schema)) return found;
  return moving(schema);
}

}  // namespace toroid
