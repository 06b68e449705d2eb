// Sequences of different lengths, one after the other ("jagged") or padded to one length, and the ways between the two.
//
//   offsets [0, 1, 3]:   values [a, b, c]   <->   padded [[a, -], [b, c]]
//
// Source: torch's nested tensors of layout jagged. As its CPU kernels, one jagged dim.
#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/movement/indexing.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/math/searching.h"

namespace toroid {
namespace {

// I64 [B + 1]: sequence i is the rows [offsets[i], offsets[i + 1]).
Tensor offsets_of(const Args& a) {
  const Tensors offsets = a.tensors("offsets");
  if (offsets.size() != 1) throw Error(ErrorKind::Unsupported, "more than one jagged dim");
  if (offsets[0].rank() != 1) throw Error(ErrorKind::InvalidModel, "offsets of sequences must have rank 1");
  return offsets[0].builder().cast(offsets[0], DType::I64);
}

// A mask of rows beside the `count` dims that each row has.
Tensor beside_rows(Tensor mask, int64_t count) {
  Sizes sizes = mask.sizes();
  sizes.resize(sizes.size() + static_cast<size_t>(count), 1);
  return mask.builder().reshape(mask, sizes);
}

// values [n, …] -> [B, length, …]: longer sequences are cut off, shorter ones continue with the padding value.
std::vector<Tensor> padded_of_jagged(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor values = a.tensor_of_rank("values", 1);
  Tensor offsets = offsets_of(a);
  const sym::Expr length = a.integers_of("max_lengths", 1)[0];
  const sym::Expr count = offsets.size(0) - 1;
  const auto of_sequences = [&](sym::Expr from) { return b.unsqueeze(b.slice(offsets, 0, from, count), 1); };
  Tensor row = of_sequences(0) + b.arange(length);
  Tensor is_inside = row < of_sequences(1);
  const Scalar padding = a.number("padding_value");
  if (!sym::known_lt(0, values.size(0))) {
    Sizes before(values.sizes().size(), 0), behind = before;
    // Where there may be no row, what is beyond a sequence reads one of padding behind the last.
    behind[0] = 1;
    Tensor read = b.where(is_inside, row, b.scalar(DType::I64, values.size(0)));
    return {formula::index(b.pad(values, before, behind, padding), {read})};
  }
  Tensor picked = formula::index(values, {where(is_inside, row, 0)});
  return {b.where(beside_rows(is_inside, values.rank() - 1), picked, b.scalar(values.dtype(), padding))};
}

// padded [B, length, …] -> [n, …], where n is the last offset. Rows before the first sequence, which PyTorch leaves undefined, are 0.
std::vector<Tensor> jagged_of_padded(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor padded = a.tensor_of_rank("dense", 2);
  Tensor offsets = offsets_of(a);
  Tensor last = b.select(offsets, 0, offsets.size(0) - 1);
  const bool is_told = a.has("total_L");
  const sym::Expr n = is_told ? a.integer("total_L") : bind_recorded(d, 0, 0, last, sym::kPosInf);
  if (is_told) require_true(b, eq(last, b.scalar(DType::I64, n)), "total_L_that_is_not_the_last_offset");
  Tensor row = b.arange(n);
  Tensor sequence = insertion_points(offsets, row, true) - b.scalar(DType::I64, sym::Expr(1));
  Tensor is_inside = sequence >= 0;
  Tensor place = row - formula::index(offsets, {where(is_inside, sequence, 0)});
  Tensor picked = formula::index(padded, {where(is_inside, sequence, 0), where(is_inside, place, 0)});
  return {where(beside_rows(is_inside, padded.rank() - 2), picked, 0)};
}

constexpr DecompositionRow kJaggedRows[] = {
    {"aten::_jagged_to_padded_dense_forward", padded_of_jagged},
    {"aten::_padded_dense_to_jagged_forward", jagged_of_padded},
};

}  // namespace

std::span<const DecompositionRow> jagged_rows() { return kJaggedRows; }

}  // namespace toroid
