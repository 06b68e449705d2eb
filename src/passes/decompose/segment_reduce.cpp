// aten::segment_reduce: neighbours along a dim, given by the segments' lengths or offsets, combined into one element each.
#include <cmath>

#include "passes/decompose/decompose.h"
#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/limits.h"
#include "support/error.h"

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

// Lengths are [B…, s] and offsets [B…, s+1] beside data [B…, n, …], where n is at `axis`.
std::vector<Tensor> segment_reduce(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("data");
  const int64_t axis = b.wrap_dim(a.constant("axis"), x.rank());
  const sym::Expr n = x.size(axis);
  Tensor lengths = a.optional_tensor("lengths");
  Tensor ends;
  Tensor first;  // where the first segment begins
  if (lengths.defined()) {
    lengths = b.cast(lengths, DType::I64);
    ends = b.scan(ScanOp::Sum, lengths, -1)[0];
    first = b.full(Sizes(lengths.sizes().begin(), lengths.sizes().end() - 1), DType::I64, sym::Expr(0));
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

  const std::string reduce = a.text("reduce");
  Kind kind = kind_of(reduce, x.dtype());
  if (a.has("initial")) kind.start = a.scalar("initial");
  Sizes sizes = x.sizes();
  sizes[static_cast<size_t>(axis)] = segments + 1;
  std::vector<Tensor> indices;
  for (int64_t i = 0; i < x.rank(); ++i) indices.push_back(positions(b, x.size(i), i, x.rank()));
  Sizes beside(x.sizes().begin(), x.sizes().begin() + axis + 1);
  beside.resize(x.sizes().size(), 1);
  indices[static_cast<size_t>(axis)] = b.reshape(segment, beside);
  Tensor result = b.scatter(b.full(sizes, x.dtype(), kind.start), x, indices, kind.mode);
  result = b.slice(result, axis, 0, segments);
  if (reduce != "mean") return {result};

  Sizes kept = lengths.sizes();
  kept.resize(x.sizes().size(), 1);
  Tensor count = b.reshape(lengths, kept);
  Tensor is_empty = eq(count, 0);
  Tensor mean = result / b.cast(maximum(count, 1), x.dtype());
  return {b.where(is_empty, b.scalar(x.dtype(), a.has("initial") ? kind.start : Scalar(std::nan(""))), mean)};
}

constexpr DecompositionRow kRows[] = {{"aten::segment_reduce", segment_reduce}};

}  // namespace

std::span<const DecompositionRow> segment_reduce_rows() { return kRows; }

}  // namespace toroid
