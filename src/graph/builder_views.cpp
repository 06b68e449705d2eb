// The operations of a Builder that say where an element of the result comes from.
#include "graph/builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/number.h"
#include "graph/shape_error.h"
#include "symbolic/real.h"

namespace toroid {

Tensor Builder::expand(Tensor x, const Sizes& sizes) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  if (rank < x.rank()) shape_error(fmt::format("cannot expand shape {} to {}", shape_text(x.sizes()), shape_text(sizes)));
  Sizes padded(static_cast<size_t>(rank - x.rank()), sym::Expr(1));
  padded.insert(padded.end(), x.sizes().begin(), x.sizes().end());
  Tensor same_rank = reshape(x, padded);
  bool changed = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sym::known_eq(padded[d], sizes[d])) continue;
    if (!padded[d].is_const(1)) {
      require_equal(padded[d], sizes[d], "expand");
      continue;
    }
    changed = true;
  }
  if (!changed) return same_rank;
  // A constant is the same in any shape.
  const Node& producer = graph_.producer(same_rank.id());
  if (const auto* value = std::get_if<Full>(&producer.op)) return full(sizes, x.dtype(), value->value);
  return emit(Expand{}, {same_rank}, {{.dtype = x.dtype(), .sizes = sizes}})[0];
}

Tensor Builder::permute(Tensor x, const Dims& dims) {
  if (static_cast<int64_t>(dims.size()) != x.rank()) {
    shape_error(fmt::format("permute of a rank {} tensor with {} dims", x.rank(), dims.size()));
  }
  std::vector<int> order;
  std::vector<bool> seen(dims.size());
  bool identity = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t dim = wrap_dim(dims[d], x.rank());
    if (seen[static_cast<size_t>(dim)]) shape_error("a dimension appears twice in permute");
    seen[static_cast<size_t>(dim)] = true;
    order.push_back(static_cast<int>(dim));
    identity = identity && dim == static_cast<int64_t>(d);
  }
  if (identity) return x;
  return emit(Permute{std::move(order)}, {x})[0];
}

Tensor Builder::transpose(Tensor x, int64_t a, int64_t b) {
  if (x.rank() == 0) return x;
  Dims dims(static_cast<size_t>(x.rank()));
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
  std::swap(dims[static_cast<size_t>(wrap_dim(a, x.rank()))], dims[static_cast<size_t>(wrap_dim(b, x.rank()))]);
  return permute(x, dims);
}

Tensor Builder::reshape(Tensor x, Sizes sizes) {
  sym::Expr known = 1;
  int64_t inferred = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_const(-1)) {
      known = known * sizes[d];
    } else if (inferred >= 0) {
      shape_error("only one size of a reshape may be -1");
    } else {
      inferred = static_cast<int64_t>(d);
    }
  }
  if (inferred >= 0) {
    if (known.is_const(0)) shape_error("cannot infer a size of -1 beside a size of 0");
    if (known.is_const() && x.numel().is_const() && x.numel().value() % known.value() != 0) {
      shape_error(fmt::format("cannot reshape {} elements to {}", sym::to_string(x.numel()), shape_text(sizes)));
    }
    sizes[static_cast<size_t>(inferred)] = sym::floor_div(x.numel(), known);
  }
  if (sizes.size() == x.sizes().size()) {
    bool same = true;
    for (size_t d = 0; d < sizes.size(); ++d) same = same && sym::known_eq(sizes[d], x.sizes()[d]);
    if (same) return x;
  }
  if (inferred < 0) require_equal(sym::product(sizes), x.numel(), "reshape");
  const Node& producer = graph_.producer(x.id());
  if (std::holds_alternative<Reshape>(producer.op)) return reshape(wrap(producer.inputs[0]), std::move(sizes));
  if (const auto* value = std::get_if<Full>(&producer.op)) return full(std::move(sizes), x.dtype(), value->value);
  return emit(Reshape{}, {x}, {{.dtype = x.dtype(), .sizes = std::move(sizes)}})[0];
}

Tensor Builder::squeeze(Tensor x, int64_t dim) {
  Sizes sizes = x.sizes();
  dim = wrap_dim(dim, x.rank());
  require_equal(sizes[static_cast<size_t>(dim)], 1, "squeeze");
  sizes.erase(sizes.begin() + dim);
  return reshape(x, std::move(sizes));
}

Tensor Builder::unsqueeze(Tensor x, int64_t dim) {
  Sizes sizes = x.sizes();
  dim = wrap_dim(dim, x.rank() + 1);
  sizes.insert(sizes.begin() + dim, 1);
  return reshape(x, std::move(sizes));
}

Tensor Builder::keep(Tensor x, const Dims& dims) {
  const int64_t rank = x.rank() + static_cast<int64_t>(dims.size());
  Sizes sizes = x.sizes();
  for (int64_t dim : wrap_dims(dims, rank)) sizes.insert(sizes.begin() + dim, 1);
  return reshape(x, std::move(sizes));
}

Tensor Builder::slice(Tensor x, Sizes starts, Sizes steps, Sizes sizes) {
  bool whole = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    whole = whole && starts[d].is_const(0) && steps[d].is_const(1) && sym::known_eq(sizes[d], x.sizes()[d]);
  }
  if (whole) return x;
  for (sym::Expr size : sizes) {
    if (sym::known_lt(size, 0)) shape_error(fmt::format("a slice of {} has a size of {}", shape_text(x.sizes()), sym::to_string(size)));
  }
  const Node& producer = graph_.producer(x.id());
  if (const auto* value = std::get_if<Full>(&producer.op)) return full(std::move(sizes), x.dtype(), value->value);
  return emit(Slice{std::move(starts), std::move(steps)}, {x}, {{.dtype = x.dtype(), .sizes = std::move(sizes)}})[0];
}

Tensor Builder::slice(Tensor x, int64_t dim, sym::Expr start, sym::Expr length, sym::Expr step) {
  const size_t rank = x.sizes().size();
  dim = wrap_dim(dim, x.rank());
  Sizes starts(rank, 0);
  Sizes steps(rank, 1);
  Sizes sizes = x.sizes();
  starts[static_cast<size_t>(dim)] = start;
  steps[static_cast<size_t>(dim)] = step;
  sizes[static_cast<size_t>(dim)] = length;
  return slice(x, std::move(starts), std::move(steps), std::move(sizes));
}

Tensor Builder::select(Tensor x, int64_t dim, sym::Expr index) {
  dim = wrap_dim(dim, x.rank());
  return squeeze(slice(x, dim, index, 1), dim);
}

Tensor Builder::flip(Tensor x, const Dims& dims) {
  if (x.rank() == 0 || dims.empty()) return x;
  Sizes starts(x.sizes().size(), 0);
  Sizes steps(x.sizes().size(), 1);
  for (int64_t dim : wrap_dims(dims, x.rank())) {
    starts[static_cast<size_t>(dim)] = x.size(dim) - 1;
    steps[static_cast<size_t>(dim)] = -1;
  }
  return slice(x, std::move(starts), std::move(steps), Sizes(x.sizes()));
}

Tensor Builder::remap(Tensor x, std::vector<sym::Expr> axes, std::vector<sym::Expr> index) {
  require(static_cast<int64_t>(index.size()) == x.rank(), "remap needs one index per dim of its input");
  return emit(Remap{std::move(axes), std::move(index)}, {x})[0];
}

Tensor Builder::pad(Tensor x, Sizes low, Sizes high, Scalar value) {
  require(static_cast<int64_t>(low.size()) == x.rank() && low.size() == high.size(), "pad needs amounts for every dim");
  Sizes sizes = x.sizes();
  bool nothing = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    nothing = nothing && low[d].is_const(0) && high[d].is_const(0);
    sizes[d] = sizes[d] + low[d] + high[d];
    if (sym::known_lt(sizes[d], 0))
      shape_error(fmt::format("padding makes a size of {} out of {}", sym::to_string(sizes[d]), shape_text(x.sizes())));
  }
  if (nothing) return x;
  if (const auto* e = std::get_if<sym::Expr>(&value); e && sym::is_real(*e)) {
    Tensor inside = pad(full(x.sizes(), DType::Bool, true), low, high, false);
    return where(inside, pad(x, low, high, 0.0), full({}, x.dtype(), value));
  }
  return emit(Pad{std::move(low), element_of(x.dtype(), value)}, {x}, {{.dtype = x.dtype(), .sizes = std::move(sizes)}})[0];
}

Tensor Builder::cat(const std::vector<Tensor>& parts, int64_t dim) {
  require(!parts.empty(), "cat of nothing");
  if (parts.size() == 1) return parts[0];
  dim = wrap_dim(dim, parts[0].rank());
  const Sizes sizes = parts[0].sizes();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].rank() != parts[0].rank()) shape_error("cat of tensors of different rank");
    require(parts[i].dtype() == parts[0].dtype(), "cat of different dtypes");
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (static_cast<int64_t>(d) != dim) require_equal(sizes[d], parts[i].sizes()[d], "cat");
    }
  }
  return emit(Cat{static_cast<int>(dim)}, parts)[0];
}

Tensor Builder::stack(const std::vector<Tensor>& parts, int64_t dim) {
  require(!parts.empty(), "stack of nothing");
  std::vector<Tensor> lifted;
  for (const Tensor& part : parts) lifted.push_back(unsqueeze(part, dim));
  return cat(lifted, wrap_dim(dim, parts[0].rank() + 1));
}

}  // namespace toroid
