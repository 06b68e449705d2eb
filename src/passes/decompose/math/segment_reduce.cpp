// aten::segment_reduce and its gradient: neighbours along a dim, given by the segments' lengths or offsets, combined into one element each.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/limits.h"
#include "formula/basics/operators.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct Kind {
  ScatterMode mode;
  Scalar start;  // what an empty segment gives
};
Kind kind_of(std::string_view reduce, DType dtype) {
  if (reduce == "sum" || reduce == "mean") return {ScatterMode::Add, 0.0};
  if (reduce == "prod") return {ScatterMode::Mul, 1.0};
  if (reduce == "max") return {ScatterMode::Max, lowest_value(dtype)};
  if (reduce == "min") return {ScatterMode::Min, highest_value(dtype)};
  throw Error(ErrorKind::InvalidModel, fmt::format("segment_reduce has no reduction '{}'", reduce));
}

// Runs of neighbours along dim `axis` of the data.
struct Segments {
  int64_t axis;
  sym::Expr count;
  Tensor lengths;             // I64 [B…, count]
  std::vector<Tensor> index;  // of each element of the data; `count` along the axis for what no segment has
};

// Lengths are [B…, s] and offsets [B…, s+1] beside data [B…, n, …], where n is at `axis`.
Segments segments_of(const Args& a, Tensor x) {
  Builder& b = x.builder();
  const int64_t axis = b.wrap_dim(a.constant("axis"), x.rank());
  const sym::Expr n = x.size(axis);
  Tensor lengths = a.optional_tensor("lengths");
  Tensor ends;
  Tensor first;  // where the first segment begins
  if (lengths.defined()) {
    lengths = b.cast(lengths, DType::I64);
    ends = b.scan(ScanOp::Sum, lengths, -1)[0];
    first = b.full(lengths.sizes().without_last(1), DType::I64, sym::Expr(0));
  } else if (a.has("offsets")) {
    Tensor offsets = b.cast(a.tensor("offsets"), DType::I64);
    const sym::Expr segments = offsets.size(-1) - 1;
    ends = b.slice(offsets, -1, 1, segments);
    lengths = ends - b.slice(offsets, -1, 0, segments);
    first = b.select(offsets, -1, 0);
  } else {
    throw Error(ErrorKind::Unsupported, "segment_reduce by indices");
  }
  if (lengths.rank() != axis + 1) {
    throw Error(ErrorKind::InvalidModel, "segment_reduce needs segments along the dims up to its axis");
  }
  const sym::Expr segments = lengths.size(-1);

  // The segment of each element: the number of segments that end at or before it. What lies outside of all of them goes
  // to one segment too many.
  Tensor place = b.arange(n);
  Tensor ended = b.unsqueeze(ends, -2) <= b.unsqueeze(place, 1);
  Tensor segment = b.sum(b.cast(ended, DType::I64), {-1});
  segment = b.where(place < b.unsqueeze(first, -1), b.scalar(DType::I64, segments), segment);

  Segments result{axis, segments, lengths, {}};
  for (int64_t i = 0; i < x.rank(); ++i) result.index.push_back(positions(b, x.size(i), i, x.rank()));
  Sizes beside = x.sizes().first(static_cast<size_t>(axis) + 1);
  beside.resize(x.sizes().size(), 1);
  result.index[static_cast<size_t>(axis)] = b.reshape(segment, beside);
  return result;
}

// The data combined per segment, and one more for what no segment has: [B…, count + 1, …].
Tensor combine(Tensor x, const Segments& segments, const Kind& kind) {
  Builder& b = x.builder();
  Sizes sizes = x.sizes();
  sizes[static_cast<size_t>(segments.axis)] = segments.count + 1;
  return b.scatter(b.full(sizes, x.dtype(), kind.start), x, segments.index, kind.mode);
}

std::vector<Tensor> segment_reduce(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("data");
  const Segments segments = segments_of(a, x);
  const std::string reduce = a.text("reduce");
  Kind kind = kind_of(reduce, x.dtype());
  if (a.has("initial")) kind.start = a.scalar("initial");
  Tensor result = b.slice(combine(x, segments, kind), segments.axis, 0, segments.count);
  if (reduce != "mean") return {result};

  Sizes kept = segments.lengths.sizes();
  kept.resize(x.sizes().size(), 1);
  Tensor count = b.reshape(segments.lengths, kept);
  Tensor is_empty = eq(count, 0);
  Tensor mean = result / b.cast(maximum(count, 1), x.dtype());
  return {b.where(is_empty, b.scalar(x.dtype(), a.has("initial") ? kind.start : Scalar(std::nan(""))), mean)};
}

// Each element gets its segment's gradient: all of it, its share of a mean or of several equal extrema, or times the
// product of the others.
std::vector<Tensor> segment_reduce_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("data");
  const Segments segments = segments_of(a, x);
  const std::string reduce = a.text("reduce");
  const DType dtype = x.dtype();
  auto back = [&](Tensor per_segment) { return b.gather(per_segment, segments.index); };
  auto of_elements = [&](Tensor per_segment) {  // zero for what no segment has
    Sizes low(x.sizes().size(), 0), high = low;
    high[static_cast<size_t>(segments.axis)] = 1;
    return back(b.pad(per_segment, low, high, 0.0));
  };
  Tensor grad = of_elements(a.tensor("grad"));
  if (reduce == "sum") return {grad};
  if (reduce == "mean") {
    return {grad / maximum(back(combine(b.full(x.sizes(), dtype, 1.0), segments, {ScatterMode::Add, 0.0})), 1)};
  }
  Tensor output = of_elements(a.tensor("output"));
  if (reduce == "prod") {
    Tensor is_zero = eq(x, 0);
    Tensor zeros = back(combine(b.cast(is_zero, dtype), segments, {ScatterMode::Add, 0.0}));
    const Scalar start = a.has("initial") ? a.scalar("initial") : Scalar(1.0);
    Tensor others = back(combine(where(is_zero, 1, x), segments, {ScatterMode::Mul, start}));
    Tensor at_zero = where(eq(zeros, 1), grad * others, 0);
    return {where(is_zero, at_zero, grad * output / where(is_zero, 1, x))};
  }
  kind_of(reduce, dtype);  // refuses what there is not
  Tensor is_extremum = eq(x, output) | (isnan(x) & isnan(output));
  Tensor equals = back(combine(b.cast(is_extremum, dtype), segments, {ScatterMode::Add, 0.0}));
  return {where(is_extremum, grad / maximum(equals, 1), 0)};
}

constexpr DecompositionRow kSegmentReduceRows[] = {
    {"aten::segment_reduce", segment_reduce},
    {"aten::_segment_reduce_backward", segment_reduce_backward},
};

}  // namespace

std::span<const DecompositionRow> segment_reduce_rows() { return kSegmentReduceRows; }

}  // namespace toroid
