// Matrix products.
#include "lower/lowering.h"

#include <algorithm>
#include <tuple>

#include "graph/builder.h"
#include "lower/index_map.h"
#include "lower/layouts.h"
#include "lower/products/float8_factors.h"
#include "lower/products/int4_weights.h"
#include "lower/products/narrow_weights.h"

namespace toroid {
namespace {

constexpr int64_t kPackedColumns = 16, kPackedRows = 128;  // of a block of weights of int4 for a GPU

}  // namespace

// Constant weights of int4 keep their four bits: the kernel takes them with a scale and a zero point for each column and group of rows.
bool Lowering::takes_int4(const Node& node) {
  if (!std::holds_alternative<Matmul>(node.op) || options_.realise_all) return false;
  const ValueId right = node.inputs[1];
  const DType type = dtype(node.outputs[0]);
  if (constant_[static_cast<size_t>(right)] != Constancy::Weights || (type != DType::F32 && !is_reduced_float(type))) return false;
  const std::vector<sym::Expr>& s = sizes(right);
  const bool is_fixed = s[s.size() - 2].is_const() && s.back().is_const();
  return is_fixed && s[s.size() - 2].value() % 2 == 0 && s[s.size() - 2].value() > 0 && holds_int4(graph_, right, may_round_weights(node));
}

// A constant of the program's own that a computation makes.
loop::Operand Lowering::prepared(const Node& node, std::string_view suffix, const std::vector<sym::Expr>& sizes,
                                 std::vector<sym::Expr> axes, ExprId value) {
  const BufferId buffer = new_buffer(graph_.value(node.inputs[1]).name + std::string(suffix), exprs().dtype(value), sizes);
  loops_->buffer(buffer).kind = loop::BufferKind::Prepared;
  add_computation(loop::Map{std::move(axes), value}, {buffer}, {node.provenance});
  return loop::Operand{buffer, sizes, contiguous_strides(sizes), 0};
}

// A byte of two numbers, and of a scale and its zero the one that `which` says.
ExprId Lowering::pair_of_int4(const Int4Element& low, const Int4Element& high) {
  const auto bits = [&](const Int4Element& e) { return exprs().convert(e.number, DType::U8); };
  const ExprId shifted = exprs().compute(ScalarOp::ShiftLeft, {bits(high), exprs().literal(Scalar(sym::Expr(4)), DType::U8)});
  return exprs().compute(ScalarOp::BitOr, {bits(low), shifted});
}
ExprId Lowering::scale_or_zero(const Int4Element& of, sym::Expr which) {
  return exprs().compute(ScalarOp::Where, {exprs().convert(exprs().index(which), DType::Bool), of.zero, of.scale});
}

// Numbers and scales as kernels of few rows copy them, a block of columns by a group of rows behind the other (narrow_columns.inc): of a
// column's 64 bytes a thread of four has 16, eight numbers of each quarter of the group: 0, 2, 4, 6, 1, 3, 5, 7, so that the two of a pair
// of floats, which are four apart in a word, are neighbours.
std::pair<loop::Operand, loop::Operand> Lowering::packed_int4(const Node& node, int64_t columns, int64_t groups, const AtInt4& at) {
  const auto axis = [&](int64_t size, std::string_view name) { return program_.symbols->axis(size, name); };
  const int64_t blocks = columns / kPackedColumns;
  const sym::Expr block = axis(blocks, "t"), group = axis(groups, "g"), in_block = axis(kPackedColumns, "n"), which = axis(2, "z");
  const sym::Expr thread = axis(4, "q"), quarter = axis(4, "p"), pair = axis(4, "k"), column = block * kPackedColumns + in_block;
  const sym::Expr first = sym::mod(pair, 2) * 4 + sym::floor_div(pair, 2);  // of eight neighbours; the next one but one is the byte's other
  const sym::Expr row = group * kPackedRows + quarter * (kPackedRows / 4) + thread * 8 + first;
  loop::Operand numbers = prepared(node, "_int4", {blocks, groups, kPackedColumns, 4, 4, 4},
                                   {block, group, in_block, thread, quarter, pair}, pair_of_int4(at(row, column), at(row + 2, column)));
  numbers.sizes = {blocks, groups, kPackedColumns, kPackedRows / 2};
  numbers.strides = contiguous_strides(numbers.sizes);
  return {std::move(numbers), prepared(node, "_scales", {blocks, groups, kPackedColumns, 2}, {block, group, in_block, which},
                                       scale_or_zero(at(group * kPackedRows, column), which))};
}

bool Lowering::lower_int4_matmul(const Node& node) {
  const ValueId right = node.inputs[1];
  const std::vector<sym::Expr>& s = sizes(right);
  const int64_t rows = s[s.size() - 2].value(), columns = s.back().value();
  const sym::Expr column = program_.symbols->axis(columns, "n"), batch = program_.symbols->axis(2, "b");
  const AtInt4 at_place = [&](sym::Expr row, sym::Expr of_column) {
    std::vector<sym::Expr> index(s.size() - 2);
    for (size_t d = 0; d < index.size(); ++d) index[d] = s[d].is_const(1) ? sym::Expr(0) : batch;
    index.push_back(row);
    index.push_back(of_column);
    const auto at_index = [&](ValueId id, const std::vector<sym::Expr>& i) { return at(id, i); };
    return int4_element(graph_, exprs(), at_index, right, may_round_weights(node), index);
  };
  auto depends = [&](ExprId value, sym::Expr axis) { return !axis.is_const() && exprs().substitute(value, {{axis, 0}}) != value; };
  // The largest groups of rows, of whole words or all, of which each has one scale and zero point.
  const bool is_for_gpu = options_.narrow_weights != NarrowWeights::Kept;
  const int64_t least = is_for_gpu ? 32 : 8;
  if (is_for_gpu && rows % least != 0) return false;
  for (int64_t groups = 1; groups <= std::max<int64_t>(rows / least, 1); ++groups) {
    if (rows % groups != 0 || (groups > 1 && rows / groups % least != 0)) continue;
    const sym::Expr group = program_.symbols->axis(groups, "g"), in_group = program_.symbols->axis(rows / groups, "k");
    const Int4Element of_group = at_place(group * (rows / groups) + in_group, column);
    if (depends(of_group.scale, in_group) || depends(of_group.zero, in_group)) continue;
    const sym::Expr pair = program_.symbols->axis(rows / 2, "k");
    const Int4Element low = at_place(pair * 2, column), high = at_place(pair * 2 + 1, column);
    if (depends(low.number, batch) || depends(of_group.scale, batch) || depends(of_group.zero, batch)) return false;
    const bool has_few_rows = is_for_gpu && sizes(node.inputs[0]).size() == 2;
    const loop::Operand left =
        has_few_rows ? rows_in_pieces(node.inputs[0], dtype(node.inputs[0])) : operand(node.inputs[0], sizes(node.inputs[0]).size() > 2);
    loop::Operand numbers, scales, zeros;
    if (has_few_rows && columns % kPackedColumns == 0 && rows / groups == kPackedRows)
      std::tie(numbers, scales) = packed_int4(node, columns, groups, at_place);
    else
      numbers = prepared(node, "_int4", {columns, rows / 2}, {column, pair}, pair_of_int4(low, high));
    if (!is_for_gpu) {
      scales = prepared(node, "_scales", {groups, columns}, {group, column}, of_group.scale);
      zeros = prepared(node, "_zeros", {groups, columns}, {group, column}, of_group.zero);
    } else {  // beside each other
      if (scales.sizes.empty()) {
        const sym::Expr which = program_.symbols->axis(2, "z");
        scales = prepared(node, "_scales", {groups, columns, 2}, {group, column, which}, scale_or_zero(of_group, which));
      }
      scales.sizes.pop_back();
      scales.strides.pop_back();
      zeros = scales;
      zeros.offset = 1;
    }
    const BufferId out = new_buffer(node.outputs[0]);
    add_computation(loop::Call{node.op, {left, numbers, scales, zeros}}, {out}, {node.provenance});
    define_buffer(node.outputs[0], out);
    return true;
  }
  return false;
}

// The kernels take int8 on the right, and bytes on both sides where the result is I32: what casts such a factor is left to them.
void Lowering::lower_matmul(const Node& node) {
  const ValueId left = node.inputs[0], right = node.inputs[1];
  if (options_.integer_products_as_loops && is_integral(dtype(node.outputs[0]))) return lower_integer_matmul(node);
  if (lower_small_product(node)) return;
  const bool keeps_weights = keeps_narrow_weights(node);
  const bool keeps_int4 = options_.narrow_weights == NarrowWeights::Kept || is_reduced_float(dtype(left));
  if (keeps_weights && keeps_int4 && takes_int4(node) && lower_int4_matmul(node)) return;
  if (may_take_float8(node) && lower_float8_matmul(node)) return;
  const bool is_for_gpus = options_.narrow_weights != NarrowWeights::Kept;
  if (const auto weights = is_for_gpus && keeps_weights ? weights_of_bytes(node) : std::nullopt)
    return lower_matmul_of_bytes(node, *weights);
  if (const DType narrow = widened_from(node); narrow != DType::F32) {
    loop::Call call{node.op, {narrow_factor(left, narrow)}};
    call.operands.push_back(narrow_factor(right, narrow));
    const BufferId out = new_buffer(node.outputs[0]);
    add_computation(std::move(call), {out}, {node.provenance});
    return define_buffer(node.outputs[0], out);
  }
  if (is_for_gpus || !takes_int8(node)) return lower_call(node, false);
  const auto narrow_right = window_before_cast(right, DType::I8);
  const DType narrow = dtype(left) != DType::I32 ? DType::BF16 : is_cast_from(left, DType::U8) ? DType::U8 : DType::I8;
  const auto narrow_left = window_before_cast(left, narrow);
  if (!narrow_right || (dtype(left) == DType::I32 && !narrow_left)) return lower_call(node, false);
  const BufferId out = new_buffer(node.outputs[0]);
  add_computation(loop::Call{node.op, {narrow_left ? *narrow_left : operand(left, false), *narrow_right}}, {out}, {node.provenance});
  define_buffer(node.outputs[0], out);
}

// On a GPU: of int8 in matrices whose depth is in pieces of 16 bytes a call, which tensor cores make; else loops.
void Lowering::lower_integer_matmul(const Node& node) {
  const std::vector<sym::Expr>&left_sizes = sizes(node.inputs[0]), &right_sizes = sizes(node.inputs[1]);
  const sym::Expr depth = left_sizes.back();
  constexpr int64_t kColumns = 8, kFewRows = 16;  // the library takes multiples; of few rows there is a kernel
  const auto is_known = [](sym::Expr size) { return size.is_const() && size.value() > 0; };
  const bool has_bytes = takes_int8(node) && is_cast_from(node.inputs[0], DType::I8) && left_sizes.size() == 2 && is_main_graph();
  const bool is_of_bytes = has_bytes && is_known(depth) && is_in_pieces(depth) && is_known(right_sizes[1]) &&
                           (sym::evaluate_hint(left_sizes[0]) <= kFewRows || right_sizes[1].value() % kColumns == 0);
  const BufferId out = new_buffer(node.outputs[0]);
  if (is_of_bytes) {
    const loop::Operand left = bytes_along(node.inputs[0], 1), right = bytes_along(node.inputs[1], 0);
    add_computation(loop::Call{node.op, {left, right}}, {out}, {node.provenance});
    return define_buffer(node.outputs[0], out);
  }
  const LoadAt left = widened_elements(node.inputs[0]), right = widened_elements(node.inputs[1]);
  const std::vector<sym::Expr> axes = fresh_axes(sizes(node.outputs[0]));
  const sym::Expr at_depth = depth.is_const(1) ? sym::Expr(0) : program_.symbols->axis(depth, "r");
  std::vector<sym::Expr> of_left = axes, of_right = axes;
  of_left.back() = of_right[axes.size() - 2] = at_depth;
  const ExprId product = exprs().compute(ScalarOp::Mul, {left(of_left), right(of_right)});
  loop::Work work = loop::Map{axes, product};
  if (!at_depth.is_const()) work = loop::Reduction{axes, {at_depth}, ReduceOp::Sum, product};
  add_computation(std::move(work), {out}, {node.provenance});
  define_buffer(node.outputs[0], out);
}

// The bytes of a matrix before they were cast, with neighbours along the dim: a copy where they do not lie so.
loop::Operand Lowering::bytes_along(ValueId id, size_t dim) {
  const size_t other = 1 - dim;
  const auto window = window_before_cast(id, DType::I8);
  if (window && window->strides[dim].is_const(1) && is_in_pieces(window->strides[other]) && is_in_pieces(window->offset)) return *window;
  std::vector<sym::Expr> strides(2, 1);
  strides[other] = sizes(id)[dim];
  const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + "_bytes", DType::I8, sizes(id)));
  loops_->buffer(copy).strides = strides;
  add_computation(loop::Map{lowered(id).axes, exprs().convert(lowered(id).value, DType::I8)}, {copy}, lowered(id).provenance);
  return {copy, sizes(id), std::move(strides), 0};
}

// What is in memory: bytes where the value was cast from them.
LoadAt Lowering::widened_elements(ValueId id) {
  const bool is_cast = is_cast_from(id, DType::I8) || is_cast_from(id, DType::U8);
  if (!is_cast) return elements_of(id, "", {}, false);
  static_cast<void>(window_before_cast(id, dtype(graph_.producer(behind_views(id)).inputs[0])));
  return [this, id](const std::vector<sym::Expr>& index) { return at(id, index); };
}

// May its right side stay in fewer bits than the product has?
bool Lowering::keeps_narrow_weights(const Node& node) {
  const DType type = dtype(node.outputs[0]);
  if (options_.narrow_weights == NarrowWeights::Kept || type == DType::I32) return true;
  if (options_.narrow_weights == NarrowWeights::Widened || !is_main_graph() || !is_reduced_float(rows_dtype(node))) return false;
  // As schedule/cuda/products/few_rows.cpp has them.
  constexpr int64_t kFewRows = 16, kUnit = 8, kLeastDepth = 16, kMostParts = (int64_t{1} << 31) - 1;
  const int64_t most_rows = options_.most_rows_of_narrow_weights;
  sym::Expr rows = 1;
  const std::vector<sym::Expr>&made = sizes(node.outputs[0]), &left = sizes(node.inputs[0]);
  for (size_t d = 0; d + 1 < made.size(); ++d) rows = rows * made[d];
  if (!made.back().is_const() || !left.back().is_const() || sym::evaluate_hint(rows) > most_rows) return false;
  const int64_t most = rows.is_const() ? rows.value() : rows.range().max;
  if (sym::evaluate_hint(rows) > kFewRows && most > most_rows) return false;  // of many rows 16-bit floats are quicker
  return most / kUnit + 1 <= kMostParts / ((made.back().value() / kUnit + 1) * (left.back().value() / kLeastDepth + 1));
}

// The dtype of 16 bits that the left side has, or was cast from.
DType Lowering::rows_dtype(const Node& node) {
  const ValueId left = node.inputs[0];
  for (const DType narrow : {DType::BF16, DType::F16}) {
    if (dtype(left) == DType::F32 && is_cast_from(left, narrow)) return narrow;
  }
  return dtype(left);
}

std::optional<Lowering::WeightsOfBytes> Lowering::weights_of_bytes(const Node& node) {
  const ValueId right = node.inputs[1];
  const bool is_of_floats = is_reduced_float(rows_dtype(node));
  if (options_.realise_all || !is_of_floats || lowered(right).buffer || sizes(right).size() != 2) return std::nullopt;
  const auto element = narrow_element(exprs(), lowered(right).value, lowered(right).axes[0]);
  if (!element) return std::nullopt;
  const auto numbers = window_of(right, element->load, exprs().dtype(element->load));
  if (!numbers || !numbers->sizes[0].is_const() || !numbers->sizes[1].is_const() || !numbers->strides[0].is_const(1)) return std::nullopt;
  if (!is_in_pieces(numbers->strides[1]) || !is_in_pieces(numbers->sizes[0]) || !is_in_pieces(numbers->offset)) return std::nullopt;
  const bool is_constant = loops_->buffer(numbers->buffer).kind == loop::BufferKind::Constant;
  if (element->dtype != DType::I8 && !is_constant) return std::nullopt;
  return WeightsOfBytes{*numbers, element->dtype, element->scale};
}

// A matrix of 16-bit floats, which the value is or was cast from, whose rows are in pieces of 16 bytes: a copy where it does not lie so.
loop::Operand Lowering::rows_in_pieces(ValueId id, DType narrow) {
  const loop::Operand window = dtype(id) == narrow ? operand(id, false) : narrow_factor(id, narrow);
  const bool lies_so = window.strides[1].is_const(1) && is_in_pieces(window.strides[0] * 2) && is_in_pieces(window.offset * 2);
  return lies_so ? window : copy_of(id, "_rows", narrow, contiguous_strides(sizes(id)));
}

// A scale is left to the product's epilogue: sums are in F32 until then.
void Lowering::lower_matmul_of_bytes(const Node& node, const WeightsOfBytes& weights) {
  const ValueId left = node.inputs[0], right = node.inputs[1], id = node.outputs[0];
  const loop::Operand rows = rows_in_pieces(left, rows_dtype(node));
  loop::Operand numbers = weights.numbers;
  if (weights.dtype != DType::I8) {
    const loop::Buffer bits = loops_->buffer(numbers.buffer);  // which are another buffer in the same place
    numbers.buffer = new_buffer(bits.name + "_floats", bits.dtype, bits.sizes);
    loop::Buffer& floats = loops_->buffer(numbers.buffer);
    floats.dtype = weights.dtype;
    std::tie(floats.kind, floats.position, floats.strides, floats.updated_by) =
        std::tie(bits.kind, bits.position, bits.strides, bits.updated_by);
  }
  const BufferId out = weights.scale ? new_buffer(graph_.value(id).name + "_sums", DType::F32, sizes(id)) : new_buffer(id);
  add_computation(loop::Call{node.op, {rows, numbers}}, {out}, {node.provenance});
  if (!weights.scale) return define_buffer(id, out);
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  sym::Substitution columns;
  if (!axes[1].is_const()) columns.emplace_back(lowered(right).axes[1], axes[1]);
  const ExprId scale = exprs().substitute(*weights.scale, columns);
  const ExprId value = exprs().compute(ScalarOp::Mul, {exprs().load(out, axes, DType::F32), scale});
  define(id, std::move(axes), value, {node.provenance});
  realise_if_worth_it(id);
}

// Are both sides' factors 8-bit floats, and rows many?
bool Lowering::may_take_float8(const Node& node) const {
  constexpr int64_t kFewRows = 16;
  if (!options_.products_of_float8 || options_.realise_all || !std::holds_alternative<Matmul>(node.op) || !is_main_graph()) return false;
  const std::vector<sym::Expr>& made = sizes(node.outputs[0]);
  return made.size() == 2 && sym::evaluate_hint(made[0]) > kFewRows && as_float8_factor(graph_, node.inputs[0]) &&
         as_float8_factor(graph_, node.inputs[1]);
}

// False where they do not lie as tensor cores take them: rows of the left side and columns of the right one in pieces of 16 bytes.
bool Lowering::lower_float8_matmul(const Node& node) {
  const Float8Factor of_left = *as_float8_factor(graph_, node.inputs[0]), of_right = *as_float8_factor(graph_, node.inputs[1]);
  const loop::Operand left = operand(of_left.bits, false), right = operand(of_right.bits, false);
  const auto lies_along = [](const loop::Operand& side, size_t dim) {
    return side.strides[dim].is_const(1) && is_in_pieces(side.sizes[dim]) && is_in_pieces(side.strides[1 - dim]) &&
           is_in_pieces(side.offset);
  };
  if (!lies_along(left, 1) || !lies_along(right, 0)) return false;
  const ValueId id = node.outputs[0];
  const BufferId out = new_buffer(graph_.value(id).name + "_sums", DType::F32, sizes(id));
  const Matmul op{.left_e5m2 = of_left.dtype == DType::F8E5M2, .right_e5m2 = of_right.dtype == DType::F8E5M2};
  add_computation(loop::Call{op, {left, right}}, {out}, {node.provenance});
  const std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const ExprId factor = exprs().literal(of_left.scale * of_right.scale, DType::F32);
  define(id, axes, exprs().compute(ScalarOp::Mul, {exprs().load(out, axes, DType::F32), factor}), {node.provenance});
  realise_if_worth_it(id);
  return true;
}

// The dtype of 16 bits that both factors of a product in F32 were cast from: their products are exact in F32, whose sums a GPU's tensor
// cores make of them. F32 where there is none.
DType Lowering::widened_from(const Node& node) {
  if (!options_.products_of_narrow || dtype(node.outputs[0]) != DType::F32) return DType::F32;
  for (DType narrow : {DType::BF16, DType::F16}) {
    if (is_cast_from(node.inputs[0], narrow) && is_cast_from(node.inputs[1], narrow)) return narrow;
  }
  return DType::F32;
}

// The factor before it was cast, with one stride for all batches and rows or columns that are contiguous and apart, as libraries take
// them: a copy where it does not lie so.
loop::Operand Lowering::narrow_factor(ValueId id, DType narrow) {
  const std::optional<loop::Operand> window = window_before_cast(id, narrow);
  const size_t rank = sizes(id).size();
  if (window) {
    const auto is_along = [&](size_t dim, size_t other) {
      return window->strides[dim].is_const(1) && sym::known_le(window->sizes[dim], window->strides[other]);
    };
    bool is_even = is_along(rank - 1, rank - 2) || is_along(rank - 2, rank - 1);
    for (size_t d = 0; d + 3 < rank; ++d)
      is_even = is_even && sym::known_eq(window->strides[d], window->strides[d + 1] * window->sizes[d + 1]);
    if (is_even) return *window;
  }
  std::vector<sym::Expr> strides = contiguous_strides(sizes(id));
  if (window && window->strides[rank - 2].is_const(1)) {
    strides[rank - 2] = 1;
    strides[rank - 1] = sizes(id)[rank - 2];
  }
  const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + "_narrow", narrow, sizes(id)));
  loops_->buffer(copy).strides = strides;
  add_computation(loop::Map{lowered(id).axes, exprs().convert(lowered(id).value, narrow)}, {copy}, lowered(id).provenance);
  return {copy, sizes(id), std::move(strides), 0};
}

bool Lowering::takes_int8(const Node& node) {
  if (!std::holds_alternative<Matmul>(node.op) || !is_cast_from(node.inputs[1], DType::I8)) return false;
  const DType type = dtype(node.inputs[0]);
  return type == DType::F32 || is_reduced_float(type) ||
         (type == DType::I32 && (is_cast_from(node.inputs[0], DType::I8) || is_cast_from(node.inputs[0], DType::U8)));
}

ValueId Lowering::behind_views(ValueId id) {
  while (!lowered(id).buffer && is_view(graph_.producer(id).op)) id = graph_.producer(id).inputs[0];
  return id;
}

// Views of a cast that is not in memory yet?
bool Lowering::is_cast_from(ValueId id, DType narrow) {
  id = behind_views(id);
  const Node& node = graph_.producer(id);
  return !lowered(id).buffer && std::holds_alternative<Cast>(node.op) && dtype(node.inputs[0]) == narrow;
}

// Where the value lies as it was before it was cast, seen through the same views. None where no strides say so.
std::optional<loop::Operand> Lowering::window_before_cast(ValueId id, DType narrow) {
  if (!is_cast_from(id, narrow)) return std::nullopt;
  const ValueId cast = behind_views(id);
  operand(graph_.producer(cast).inputs[0], false);  // puts it in memory
  lower_cast(graph_.producer(cast));
  lower_views_between(cast, id);
  const auto* convert = std::get_if<loop::Convert>(&exprs().node(lowered(id).value).op);
  return window_of(id, convert != nullptr ? convert->operand : lowered(id).value, narrow);
}

void Lowering::lower_views_between(ValueId from, ValueId to) {
  if (from == to) return;
  lower_views_between(from, graph_.producer(to).inputs[0]);
  lower_view(graph_.producer(to));
}

}  // namespace toroid
