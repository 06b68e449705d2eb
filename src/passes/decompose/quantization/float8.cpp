#include <fmt/format.h>

#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/quantization/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/engine/decomposition_table.h"

namespace toroid {
namespace {

Tensor bit_and(Tensor x, int64_t mask) { return x.builder().binary(ScalarOp::BitAnd, x, Scalar(sym::Expr(mask))); }
Tensor shift_left(Tensor x, int64_t by) { return x.builder().binary(ScalarOp::ShiftLeft, x, Scalar(sym::Expr(by))); }
Tensor shift_right(Tensor x, int64_t by) { return x.builder().binary(ScalarOp::ShiftRight, x, Scalar(sym::Expr(by))); }

struct Float8Layout {
  int mantissa_bits;
  int bias;
  int64_t overflow;  // the bits of what is too large
  int64_t nan;
};
Float8Layout layout_of(DType dtype) { return dtype == DType::F8E4M3FN ? Float8Layout{3, 7, 0x7f, 0x7f} : Float8Layout{2, 15, 0x7c, 0x7f}; }

// The dtype of the argument as the model records it.
DType recorded_dtype(const Decomposer& d, const Args& a, std::string_view name) {
  const auto* ref = std::get_if<InputRef>(&a.raw(name));
  return ref != nullptr && ref->index < d.argument_types.size() ? d.argument_types[ref->index].dtype : a.tensor(name).dtype();
}

Tensor values_of_argument(Decomposer& d, const Args& a, std::string_view name) {
  const DType dtype = recorded_dtype(d, a, name);
  return is_float8(dtype) ? float8_values(a.tensor(name), dtype) : a.tensor(name);
}

Tensor converted(Decomposer& d, Tensor values, DType to) { return is_float8(to) ? float8_bits(values, to) : d.b.cast(values, to); }

std::vector<Tensor> convert(Decomposer& d, const Args& a) {
  const DType to = required_result_type(d).dtype;
  const std::string_view name = parameter(a, 0);
  if (recorded_dtype(d, a, name) == to) return {a.tensor(name)};
  return {converted(d, values_of_argument(d, a, name), to)};
}

// [M, K] by [K, N], with a scale for the whole of each factor, or for each row of the first and each column of the second. PyTorch's
// kernel for CPUs takes no notice of `scale_result`.
std::vector<Tensor> scaled_product(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  auto factor = [&](const char* matrix, const char* scale) {
    Tensor s = b.cast(a.tensor(scale), DType::F32), x = b.cast(values_of_argument(d, a, matrix), DType::F32);
    if (s.numel().is_const(1)) return x * b.reshape(s, {});
    const size_t own = matrix == std::string_view("self") ? 0 : 1;
    if (s.rank() != 2 || !sym::known_eq(s.sizes()[own], x.sizes()[own]) || !s.sizes()[1 - own].is_const(1)) {
      throw Error(ErrorKind::Unsupported, fmt::format("_scaled_mm with {} that has {} elements", scale, sym::to_string(s.numel())))
          .help("scale the whole matrix, or each row of the first and each column of the second");
    }
    return x * s;
  };
  Tensor y = b.matmul(factor("self", "scale_a"), factor("mat2", "scale_b"));
  if (a.has("bias")) y = y + b.cast(a.tensor("bias"), DType::F32);
  const DType to = d.recorded.empty() ? a.dtype("out_dtype").value_or(recorded_dtype(d, a, "self")) : d.recorded[0].dtype;
  return {converted(d, y, to)};
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
  return {d.b.bitcast(a.tensor("self"), is_float8(to) ? DType::U8 : to)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::to.*", convert},         {"aten::_to_copy", convert},
    {"aten::type_as", convert},      {"prims::convert_element_type", convert},
    {"aten::view.dtype", view_bits}, {"aten::_scaled_mm", scaled_product},
};

}  // namespace

// A half with these exponent and mantissa bits has the value times a power of two, subnormal or not.
Tensor float8_values(Tensor bits, DType dtype) {
  Builder& b = bits.builder();
  Tensor x = b.cast(bits, DType::I16);
  if (dtype == DType::F8E5M2) return b.cast(b.bitcast(shift_left(x, 8), DType::F16), DType::F32);
  Tensor magnitude = bit_and(x, 0x7f);
  Tensor half = b.binary(ScalarOp::BitOr, shift_left(magnitude, 7), shift_left(bit_and(x, 0x80), 8));
  Tensor value = b.cast(b.bitcast(half, DType::F16), DType::F32) * 256.0;
  return where(eq(magnitude, 0x7f), std::numeric_limits<double>::quiet_NaN(), value);
}

Tensor float8_bits(Tensor values, DType dtype) {
  Builder& b = values.builder();
  const Float8Layout layout = layout_of(dtype);
  Tensor x = b.cast(values, DType::F32), magnitude = abs(x);
  // Normal numbers: the bits of F32 with the mantissa cut, and a carry that rounds.
  const int cut = 23 - layout.mantissa_bits;
  Tensor wide = b.bitcast(where(isnan(x), 0, magnitude), DType::I32);
  Tensor odd = bit_and(shift_right(wide, cut), 1);
  Tensor rounded = shift_right(wide + odd + b.scalar(DType::I32, sym::Expr((int64_t{1} << (cut - 1)) - 1)), cut);
  Tensor normal = rounded - b.scalar(DType::I32, sym::Expr(int64_t{127 - layout.bias} << layout.mantissa_bits));
  // Others are multiples of the least one.
  const int least_exponent = 1 - layout.bias - layout.mantissa_bits;
  Tensor small = b.cast(round(minimum(where(isnan(x), 0, magnitude), 1.0) * std::ldexp(1.0, -least_exponent)), DType::I32);
  Tensor field = where(magnitude < std::ldexp(1.0, 1 - layout.bias), small, normal);
  field = minimum(field, static_cast<int>(layout.overflow));
  field = where(isnan(x), static_cast<int>(layout.nan), field);
  Tensor sign = bit_and(shift_right(b.bitcast(x, DType::I32), 24), 0x80);
  return b.cast(b.binary(ScalarOp::BitOr, field, sign), DType::U8);
}

bool has_float8_values(const Graph& graph, const Node& node) {
  auto is_such = [&](ValueId id) { return is_float8(graph.type(id).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_such) || std::any_of(node.outputs.begin(), node.outputs.end(), is_such);
}

Decomposition find_float8_decomposition(const Schema& schema) {
  static const DecompositionTable table({kRows});
  if (const Decomposition found = table.find(schema)) return found;
  return moving(schema);
}

}  // namespace toroid
