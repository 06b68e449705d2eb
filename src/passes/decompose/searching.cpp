// Places of values among sorted boundaries or equal intervals: searchsorted, bucketize, histc.
#include <bit>

#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/operands.h"

namespace toroid {
namespace {

// ---- searching ---------------------------------------------------------------------------------------------------------------------

// The elements of each row at these places.
Tensor at(Tensor rows, Tensor places) { return rows.builder().gather(rows, index_along(places, rows.rank() - 1)); }

// For each value the number of elements of its sorted row before it: those below it, with `right` also those equal to it.
// `sorted` has rank 1 or the leading sizes of `values`. NaN comes after every number.
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

// ---- counting ------------------------------------------------------------------------------------------------------------------------

// Elements in each of `bins` equal intervals; without bounds between the smallest and the largest element.
std::vector<Tensor> histc(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = require_real(a.tensor("self"));
  const int64_t bins = a.constant("bins");
  const double min = a.number("min"), max = a.number("max");
  if (self.numel().is_const(0)) return {b.full({bins}, self.dtype(), 0.0)};
  const DType wide = compute_dtype(as_floating(self.dtype()));
  Tensor x = b.reshape(b.cast(self, wide), {self.numel()});
  Tensor low = b.scalar(wide, min), high = b.scalar(wide, max);
  if (min == max) {
    low = b.amin(x, {0});
    high = b.amax(x, {0});
  }
  Tensor is_point = eq(low, high);
  low = where(is_point, low - 1.0, low);
  high = where(is_point, high + 1.0, high);
  Tensor is_inside = (x >= low) & (x <= high);
  Tensor place = where(is_inside, (x - low) / (high - low) * static_cast<double>(bins), 0);
  Tensor bin = minimum(b.cast(place, DType::I64), static_cast<int>(bins - 1));
  Tensor counts = b.scatter(b.full({bins}, wide, 0.0), b.cast(is_inside, wide), {bin}, ScatterMode::Add);
  return {b.cast(counts, self.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::bucketize.*", bucketize},
    {"aten::searchsorted.*", searchsorted},
    {"aten::histc", histc},
};

}  // namespace

std::span<const DecompositionRow> searching_rows() { return kRows; }

}  // namespace toroid
