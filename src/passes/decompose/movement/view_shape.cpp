#include "passes/decompose/movement/view_shape.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/type_rules.h"

namespace toroid {

sym::Expr from_start(sym::Expr position, sym::Expr size) { return position + sym::lt(position, 0) * size; }

namespace {

// `bound` within [0, size].
sym::Expr clamp_bound(sym::Expr bound, sym::Expr size) {
  bound = from_start(bound, size);
  if (sym::known_le(size, bound)) return size;
  if (!sym::known_le(0, bound)) bound = sym::max(bound, 0);
  return sym::known_le(bound, size) ? bound : sym::min(bound, size);
}

}  // namespace

Bounds slice_bounds(sym::Expr size, std::optional<sym::Expr> start, std::optional<sym::Expr> end, sym::Expr step) {
  if (sym::known_le(step, 0)) throw Error(ErrorKind::InvalidModel, "a slice needs a positive step");
  const sym::Expr first = start ? clamp_bound(*start, size) : sym::Expr(0);
  const sym::Expr last = end ? clamp_bound(*end, size) : size;
  sym::Expr length = sym::ceil_div(last - first, step);
  if (!sym::known_le(0, length)) length = sym::max(length, 0);
  return {first, length, step};
}

std::optional<sym::Expr> optional_integer(const Args& a, std::string_view name) {
  return a.has(name) ? std::optional(a.integer(name)) : std::nullopt;
}

Bounds slice_bounds(const Args& a, sym::Expr size) {
  return slice_bounds(size, optional_integer(a, "start"), optional_integer(a, "end"), a.integer("step"));
}

void guard(Decomposer& d, sym::Expr fact) { may_hold(fact, &d.program.guards); }

sym::Expr wrap_index(sym::Expr index, sym::Expr size) {
  const sym::Expr wrapped = from_start(index, size);
  if (sym::known_lt(wrapped, 0) || sym::known_le(size, wrapped)) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("index {} is out of range for a dimension of size {}", sym::to_string(index), sym::to_string(size)));
  }
  return wrapped;
}

Tensor move_dim(Tensor x, int64_t from, int64_t to) {
  Builder& b = x.builder();
  from = b.wrap_dim(from, x.rank());
  to = b.wrap_dim(to, x.rank());
  Dims order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return b.permute(x, order);
}

TensorType recorded_type(const Decomposer& d, const Args& a, std::string_view name) {
  const auto* ref = std::get_if<InputRef>(&a.raw(name));
  return ref != nullptr && ref->index < d.argument_types.size() ? d.argument_types[ref->index] : a.tensor(name).type();
}

Tensor storage_of(Tensor x, const TensorType& type) {
  Builder& b = x.builder();
  const Sizes& strides = type.strides;
  if (!strides.empty()) {
    // The dims from the outermost in memory inwards must be dense.
    Dims order(strides.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t l, int64_t r) { return sym::known_lt(strides[static_cast<size_t>(r)], strides[static_cast<size_t>(l)]); });
    sym::Expr expected = 1;
    for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
      const sym::Expr size = x.sizes()[static_cast<size_t>(*dim)];
      if (!size.is_const(1) && !sym::known_eq(strides[static_cast<size_t>(*dim)], expected)) {
        throw Error(ErrorKind::Unsupported, "as_strided of a tensor with gaps in its memory is not supported");
      }
      expected = expected * size;
    }
    x = b.permute(x, order);
  }
  return b.reshape(x, {x.numel()});
}

}  // namespace toroid
