// Copies, conversions between dtypes, changes of size, and the assertions of exported graphs.
//
// At core level a copy is the value itself: no two values share memory.
#include <algorithm>
#include <variant>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "graph/type_rules.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/forward_mode.h"

namespace toroid {
namespace {

// ---- copies and conversions ----------------------------------------------------------------------------------------

std::vector<Tensor> identity(Decomposer&, const Args& a) { return {a.tensor(parameter(a, 0))}; }

// A transposed weight or input is converted in the order of its memory, as PyTorch's conversions keep strides: products read it either way.
Tensor converted_as_it_lies(Tensor x, DType dtype) {
  Builder& b = x.builder();
  const Node& node = b.graph().producer(x.id());
  const auto* permute = std::get_if<Permute>(&node.op);
  if (permute == nullptr) return converted(x, dtype);
  const Op& source = b.graph().producer(node.inputs[0]).op;
  if (!std::holds_alternative<Input>(source) && !std::holds_alternative<Constant>(source)) return converted(x, dtype);
  const Dims dims(permute->dims.begin(), permute->dims.end());
  return b.permute(converted(b.wrap(node.inputs[0]), dtype), dims);
}

std::vector<Tensor> to_dtype(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  return {converted_as_it_lies(x, a.dtype("dtype").value_or(x.dtype()))};
}

std::vector<Tensor> to_other(Decomposer&, const Args& a) { return {converted_as_it_lies(a.tensor("self"), a.tensor("other").dtype())}; }

template <DType dtype>
std::vector<Tensor> cast_to(Decomposer&, const Args& a) {
  return {converted_as_it_lies(a.tensor("self"), dtype)};
}

// The elements in order under other sizes; a larger tensor gets zeros behind them.
Tensor resized(Tensor x, const Sizes& sizes) {
  Builder& b = x.builder();
  const sym::Expr have = x.numel(), want = sym::product(sizes);
  Tensor flat = b.reshape(x, {have});
  if (sym::known_le(want, have)) {
    flat = b.slice(flat, 0, 0, want);
  } else if (sym::known_le(have, want)) {
    flat = b.pad(flat, {0}, {want - have}, 0.0);
  } else {
    throw Error(ErrorKind::Unsupported, "resize between symbolic sizes of which neither is known to be the larger");
  }
  return b.reshape(flat, sizes);
}

// PyTorch takes the elements in the order of memory, of which values tell rows alone.
void require_rows(const Decomposer& d, const Args& a) {
  const auto* format = a.has("memory_format") ? std::get_if<MemoryFormat>(&a.raw("memory_format")) : nullptr;
  const bool becomes_rows = format == nullptr || *format == MemoryFormat::Contiguous || *format == MemoryFormat::Preserve;
  if (becomes_rows && std::ranges::all_of(d.argument_types, [](const TensorType& type) { return type.strides.empty(); })) return;
  throw Error(ErrorKind::Unsupported, "resize of what does not lie in row-major order, or to another memory format");
}

std::vector<Tensor> resize(Decomposer& d, const Args& a) {
  require_rows(d, a);
  return {resized(a.tensor("self"), a.integers("size"))};
}
std::vector<Tensor> resize_as(Decomposer& d, const Args& a) {
  require_rows(d, a);
  return {resized(a.tensor("self"), a.tensor("the_template").sizes())};
}

// The sizes as a tensor of integers.
std::vector<Tensor> shape_as_tensor(Decomposer& d, const Args& a) {
  const Sizes self = a.tensor("self").sizes();  // a copy: new values may move those of the graph
  std::vector<Tensor> sizes;
  for (sym::Expr size : self) sizes.push_back(d.b.scalar(DType::I64, size));
  return {sizes.empty() ? d.b.full({0}, DType::I64, sym::Expr(0)) : d.b.stack(sizes, 0)};
}

// The element of a tensor that has one. The program binds its value to a symbol (Graph::bindings).
std::vector<Tensor> item(Decomposer& d, const Args& a) { return {d.b.reshape(a.tensor("self"), {})}; }

// ---- assertions and symbolic sizes ---------------------------------------------------------------------------------

std::vector<Tensor> assert_true(Decomposer& d, const Args& a) {
  require_true(d.b, d.b.cast(a.tensor("self"), DType::Bool), "failed_assertions");
  return {};
}
std::vector<Tensor> assert_true_with_token(Decomposer& d, const Args& a) {
  assert_true(d, a);
  return {a.tensor("dep_token")};
}

// What the model asserts about one number is among the ranges of symbols; torch._check(n < m) is here alone. In subgraphs nothing is
// checked: no guard can name their symbols.
void require_fact(Decomposer& d, const Args& a) {
  const Scalar given = a.scalar("self");
  const auto* fact = std::get_if<sym::Expr>(&given);
  if (fact == nullptr || fact->is_const() || d.in_subgraph) return;
  for (sym::Expr symbol : sym::free_symbols(*fact)) {
    if (is_unbound(d.b.graph(), symbol) && is_unbound(d.program.graph, symbol)) return;
  }
  may_hold(*fact, &d.program.guards);
}
std::vector<Tensor> assert_scalar(Decomposer& d, const Args& a) {
  require_fact(d, a);
  return {};
}
std::vector<Tensor> assert_scalar_with_token(Decomposer& d, const Args& a) {
  require_fact(d, a);
  return {a.tensor("dep_token")};
}

std::vector<Tensor> nothing(Decomposer&, const Args&) { return {}; }
std::vector<Tensor> dependency_token(Decomposer& d, const Args&) { return {d.b.full({0}, DType::F32, 0.0)}; }
std::vector<Tensor> pass_token(Decomposer&, const Args& a) { return {a.tensor("dep_token")}; }

std::vector<Tensor> detach(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {d.has_duals ? without_tangent(x, kAllLevels) : x};
}

constexpr DecompositionRow kConversionRows[] = {
    {"aten::clone", identity},
    {"aten::contiguous", identity},
    {"aten::alias", identity},
    {"aten::detach", detach},
    {"aten::data", identity},
    {"aten::lift", identity},
    {"aten::lift_fresh", identity},
    {"aten::pin_memory", identity},
    {"aten::_pin_memory", identity},
    {"aten::_lazy_clone", identity},
    {"aten::cpu", identity},
    {"aten::cuda", identity},
    {"aten::to_dense", to_dtype},
    {"aten::_to_dense", to_dtype},
    {"aten::to.device", to_dtype},
    {"aten::to.dtype", to_dtype},
    {"aten::to.dtype_layout", to_dtype},
    {"aten::_to_copy", to_dtype},
    {"aten::to.other", to_other},
    {"aten::type_as", to_other},
    {"aten::_cast_Byte", cast_to<DType::U8>},
    {"aten::_cast_Char", cast_to<DType::I8>},
    {"aten::_cast_Short", cast_to<DType::I16>},
    {"aten::_cast_Int", cast_to<DType::I32>},
    {"aten::_cast_Long", cast_to<DType::I64>},
    {"aten::_cast_Half", cast_to<DType::F16>},
    {"aten::_cast_Float", cast_to<DType::F32>},
    {"aten::_cast_Double", cast_to<DType::F64>},
    {"aten::resize", resize},
    {"aten::resize_as", resize_as},
    {"aten::_shape_as_tensor", shape_as_tensor},
    {"aten::item", item},
    {"aten::_local_scalar_dense", item},

    {"aten::_assert_scalar", assert_scalar},
    {"aten::_assert_tensor_metadata", nothing},
    {"aten::_assert_async.*", assert_true},
    {"aten::sym_constrain_range", nothing},
    {"aten::sym_constrain_range_for_size", nothing},
    // Their answers were constants when the model was traced.
    {"aten::is_same_size", nothing},
    {"aten::_has_same_storage_numel", nothing},
    {"aten::sym_size.*", nothing},
    {"aten::sym_stride.*", nothing},
    {"aten::sym_numel", nothing},
    {"aten::sym_storage_offset", nothing},
    {"aten::_make_dep_token", dependency_token},
    {"aten::_functional_assert_scalar", assert_scalar_with_token},
    {"aten::_functional_assert_async.*", assert_true_with_token},
    {"aten::_functional_sym_constrain_range", pass_token},
    {"aten::_functional_sym_constrain_range_for_size", pass_token},
};

}  // namespace

std::span<const DecompositionRow> conversion_rows() { return kConversionRows; }

}  // namespace toroid
