// Places of values among sorted boundaries: searchsorted, bucketize.
#include "passes/decompose/searching.h"

#include <bit>

#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/operands.h"

namespace toroid {
namespace {

// ---- searching -----------------------------------------------------------------------------------------------------

// The elements of each row at these places.
Tensor at(Tensor rows, Tensor places) { return rows.builder().gather(rows, index_along(places, rows.rank() - 1)); }

}  // namespace

Tensor insertion_points(Tensor sorted, Tensor values, bool right) {
  Builder& b = values.builder();
  const bool one_row = sorted.rank() == 1;
  const auto is_before = [&](Tensor element) { return right ? !(element > values) : !(element >= values); };
  const sym::Expr size = sorted.size(-1);
  if (size.is_const(0)) return b.full(values.sizes(), DType::I64, sym::Expr(0));
  if (!size.is_const()) {
    Tensor column = b.unsqueeze(values, -1);
    Tensor rows = one_row ? sorted : b.unsqueeze(sorted, -2);
    return b.sum(b.cast(right ? !(rows > column) : !(rows >= column), DType::I64), {values.rank()});
  }
  // Binary search, by halving steps: the answer is the sum of the steps taken.
  Tensor taken = b.full(values.sizes(), DType::I64, sym::Expr(0));
  for (int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size.value()))); step > 0; step /= 2) {
    Tensor candidate = taken + b.scalar(DType::I64, sym::Expr(step));
    Tensor fits = candidate <= b.scalar(DType::I64, size);
    Tensor place = minimum(candidate, b.scalar(DType::I64, size)) - b.scalar(DType::I64, sym::Expr(1));
    Tensor element = one_row ? b.gather(sorted, {place}) : at(sorted, place);
    taken = where(fits & is_before(element), candidate, taken);
  }
  return taken;
}

namespace {

std::vector<Tensor> bucketize(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"self", "boundaries"});
  Tensor found = insertion_points(operand(d, a, "boundaries", dtype), operand(d, a, "self", dtype), a.flag("right"));
  return {d.b.cast(found, a.flag("out_int32") ? DType::I32 : DType::I64)};
}

std::vector<Tensor> searchsorted(Decomposer& d, const Args& a) {
  const DType dtype = promoted_dtype(a, {"sorted_sequence", "self"});
  Tensor sorted = operand(d, a, "sorted_sequence", dtype);
  if (a.has("sorter")) sorted = at(sorted, a.tensor("sorter"));
  const bool right = a.flag("right") || (a.has("side") && a.text("side") == "right");
  Tensor found = insertion_points(sorted, operand(d, a, "self", dtype), right);
  return {d.b.cast(found, a.flag("out_int32") ? DType::I32 : DType::I64)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::bucketize.*", bucketize},
    {"aten::searchsorted.*", searchsorted},
};

}  // namespace

std::span<const DecompositionRow> searching_rows() { return kRows; }

}  // namespace toroid
