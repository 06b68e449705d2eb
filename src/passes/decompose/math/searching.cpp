// Places of values among sorted boundaries: searchsorted, bucketize.
#include "passes/decompose/math/searching.h"

#include <bit>

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

// ---- searching -----------------------------------------------------------------------------------------------------

// The elements of each row at these places.
Tensor at(Tensor rows, Tensor places) { return rows.builder().gather(rows, index_along(places, rows.rank() - 1)); }

}  // namespace

// PyTorch's binary search, probe by probe: with NaNs in a row the probes decide what it finds.
Tensor insertion_points(Tensor sorted, Tensor values, bool right) {
  Builder& b = values.builder();
  const bool one_row = sorted.rank() == 1;
  const auto is_before = [&](Tensor element) { return right ? !(element > values) : !(element >= values); };
  const sym::Expr size = sorted.size(-1);
  if (size.is_const(0)) return b.full(values.sizes(), DType::I64, sym::Expr(0));
  if (!size.is_const()) {
    // The number of probes is unknown: a kernel, of the dtype that holds them all.
    const DType dtype = sorted.dtype() == DType::F64 ? DType::F64 : is_floating(sorted.dtype()) ? DType::F32 : DType::I64;
    const Tensor searched = b.cast(one_row ? b.reshape(values, {-1}) : values, dtype);
    const TensorType places = {.dtype = DType::I64, .sizes = searched.sizes()};
    const Tensor found = b.library("order.search", {b.cast(sorted, dtype), searched}, {places}, {Scalar(right)})[0];
    return b.reshape(found, values.sizes());
  }
  Tensor first = b.full(values.sizes(), DType::I64, sym::Expr(0));
  Tensor last = b.full(values.sizes(), DType::I64, size);
  Tensor end = b.scalar(DType::I64, size - 1);
  for (size_t probe = std::bit_width(static_cast<uint64_t>(size.value())); probe-- > 0;) {
    Tensor middle = b.binary(ScalarOp::ShiftRight, first + last, b.scalar(DType::I64, sym::Expr(1)));
    Tensor place = minimum(middle, end);  // a search that has ended reads anything
    Tensor element = one_row ? b.gather(sorted, {place}) : at(sorted, place);
    Tensor before = (first < last) & is_before(element);
    last = where(before, last, middle);
    first = where(before, middle + b.scalar(DType::I64, sym::Expr(1)), first);
  }
  return first;
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

constexpr DecompositionRow kSearchingRows[] = {
    {"aten::bucketize.*", bucketize},
    {"aten::searchsorted.*", searchsorted},
};

}  // namespace

std::span<const DecompositionRow> searching_rows() { return kSearchingRows; }

}  // namespace toroid
