// Views: other sizes, other orders and parts of one tensor. None of them moves data: lowering turns them into index
// arithmetic.
//
// Joining and splitting lists of tensors is in joining.cpp, padding and repeating in padding.cpp, diagonals in
// diagonal.cpp.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/movement/view_shape.h"

namespace toroid {
namespace {

// ---- other sizes ---------------------------------------------------------------------------------------------------

std::vector<Tensor> reshape(Decomposer& d, const Args& a) { return {d.b.reshape(a.tensor("self"), a.integers(parameter(a, 1)))}; }
std::vector<Tensor> reshape_as(Decomposer& d, const Args& a) { return {d.b.reshape(a.tensor("self"), a.tensor("other").sizes())}; }
std::vector<Tensor> ravel(Decomposer& d, const Args& a) { return {d.b.reshape(a.tensor("self"), {a.tensor("self").numel()})}; }

std::vector<Tensor> view_dtype(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const DType dtype = *a.dtype("dtype");
  if (size_bytes(dtype) != size_bytes(x.dtype())) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("viewing {} as {}, of another size, is not supported", to_string(x.dtype()), to_string(dtype)));
  }
  return {d.b.bitcast(x, dtype)};
}

std::vector<Tensor> flatten(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  if (x.rank() == 0) return {d.b.reshape(x, {1})};
  const int64_t first = d.b.wrap_dim(a.constant("start_dim"), x.rank()), last = d.b.wrap_dim(a.constant("end_dim"), x.rank());
  if (last < first) throw Error(ErrorKind::InvalidModel, "flatten ends before it starts");
  const Sizes& sizes = x.sizes();
  Sizes flat(sizes.begin(), sizes.begin() + first);
  flat.push_back(sym::product(std::span(sizes).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1))));
  flat.insert(flat.end(), sizes.begin() + last + 1, sizes.end());
  return {d.b.reshape(x, flat)};
}

std::vector<Tensor> unflatten(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  Sizes parts = a.integers("sizes");
  sym::Expr known = 1;
  x.size(dim);  // a number has none to unfold
  for (sym::Expr part : parts) known = part.is_const(-1) ? known : known * part;
  for (sym::Expr& part : parts) part = part.is_const(-1) ? sym::floor_div(x.size(dim), known) : part;
  Sizes sizes = x.sizes();
  sizes.erase(sizes.begin() + dim);
  sizes.insert(sizes.begin() + dim, parts.begin(), parts.end());
  return {d.b.reshape(x, sizes)};
}

// Drops those of the given dims (wrapped) whose size is 1. A size that may be 1 is taken for another, as the model's rank
// says, and guarded.
Tensor squeezed(Decomposer& d, Tensor x, const Dims& dims) {
  Sizes sizes;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const bool chosen = std::find(dims.begin(), dims.end(), dim) != dims.end();
    if (chosen && x.size(dim).is_const(1)) continue;
    sizes.push_back(x.size(dim));
    if (!chosen || sym::known_ne(x.size(dim), 1)) continue;
    guard(d, sym::ne(x.size(dim), 1));
  }
  return x.builder().reshape(x, sizes);
}
std::vector<Tensor> squeeze(Decomposer& d, const Args& a) {
  return {squeezed(d, a.tensor("self"), d.b.wrap_dims({}, a.tensor("self").rank()))};
}
std::vector<Tensor> squeeze_dim(Decomposer& d, const Args& a) {
  return {squeezed(d, a.tensor("self"), {d.b.wrap_dim(a.constant("dim"), a.tensor("self").rank())})};
}
std::vector<Tensor> squeeze_dims(Decomposer& d, const Args& a) {
  Dims dims = a.dims("dim");
  for (int64_t& dim : dims) dim = d.b.wrap_dim(dim, a.tensor("self").rank());
  return {squeezed(d, a.tensor("self"), dims)};
}

std::vector<Tensor> unsqueeze(Decomposer& d, const Args& a) { return {d.b.unsqueeze(a.tensor("self"), a.constant("dim"))}; }

// A size of -1 keeps the dim as it is.
std::vector<Tensor> expand(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  Sizes sizes = a.integers("size");
  const size_t added = sizes.size() - std::min(sizes.size(), x.sizes().size());
  for (size_t i = added; i < sizes.size(); ++i) {
    if (sizes[i].is_const(-1)) sizes[i] = x.sizes()[i - added];
  }
  return {d.b.expand(x, sizes)};
}
std::vector<Tensor> expand_as(Decomposer& d, const Args& a) { return {d.b.expand(a.tensor("self"), a.tensor("other").sizes())}; }

std::vector<Tensor> broadcast_tensors(Decomposer& d, const Args& a) {
  Tensors tensors = a.tensors("tensors");
  Sizes sizes;
  for (Tensor x : tensors) sizes = d.b.broadcast(sizes, x.sizes());
  for (Tensor& x : tensors) x = d.b.expand(x, sizes);
  return tensors;
}

Tensor with_rank(Tensor x, int64_t rank) {
  Builder& b = x.builder();
  if (x.rank() == 0 && rank >= 1) x = b.unsqueeze(x, 0);
  if (x.rank() == 1 && rank >= 2) x = b.unsqueeze(x, 0);
  if (x.rank() == 2 && rank >= 3) x = b.unsqueeze(x, 2);
  return x;
}
template <int64_t rank>
std::vector<Tensor> at_least(Decomposer&, const Args& a) {
  return {with_rank(a.tensor("self"), rank)};
}
template <int64_t rank>
std::vector<Tensor> all_at_least(Decomposer&, const Args& a) {
  Tensors tensors = a.tensors("tensors");
  for (Tensor& x : tensors) x = with_rank(x, rank);
  return tensors;
}

// ---- other orders --------------------------------------------------------------------------------------------------

std::vector<Tensor> permute(Decomposer& d, const Args& a) { return {d.b.permute(a.tensor("self"), a.dims("dims"))}; }

std::vector<Tensor> transpose(Decomposer& d, const Args& a) {
  return {d.b.transpose(a.tensor("self"), a.constant(parameter(a, 1)), a.constant(parameter(a, 2)))};
}

std::vector<Tensor> matrix_transpose(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return {x.rank() < 2 ? x : d.b.transpose(x, -2, -1)};
}
std::vector<Tensor> conjugate_transpose(Decomposer& d, const Args& a) {
  require_real(a.tensor("self"));
  return matrix_transpose(d, a);
}

std::vector<Tensor> reverse_dims(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  Dims dims(static_cast<size_t>(x.rank()));
  std::iota(dims.rbegin(), dims.rend(), 0);
  return {d.b.permute(x, dims)};
}

// The listed dims go to their destinations, the others keep their order around them.
std::vector<Tensor> movedim(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const Dims source = a.dims("source"), destination = a.dims("destination");
  if (source.size() != destination.size()) throw Error(ErrorKind::InvalidModel, "movedim needs as many sources as destinations");
  const size_t rank = static_cast<size_t>(x.rank());
  Dims order(rank, -1);
  std::vector<bool> moved(rank);
  for (size_t i = 0; i < source.size() && rank > 0; ++i) {
    const int64_t from = d.b.wrap_dim(source[i], x.rank());
    order[static_cast<size_t>(d.b.wrap_dim(destination[i], x.rank()))] = from;
    moved[static_cast<size_t>(from)] = true;
  }
  size_t next = 0;
  for (int64_t& dim : order) {
    if (dim >= 0) continue;
    while (moved[next]) ++next;
    dim = static_cast<int64_t>(next++);
  }
  return {d.b.permute(x, order)};
}

std::vector<Tensor> flip(Decomposer& d, const Args& a) { return {d.b.flip(a.tensor("self"), a.dims("dims"))}; }
std::vector<Tensor> fliplr(Decomposer& d, const Args& a) { return {d.b.flip(a.tensor("self"), {1})}; }
std::vector<Tensor> flipud(Decomposer& d, const Args& a) { return {d.b.flip(a.tensor("self"), {0})}; }

std::vector<Tensor> rot90(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const Dims dims = a.dims("dims");
  if (dims.size() != 2) throw Error(ErrorKind::InvalidModel, "rot90 needs two dims");
  switch (((a.constant("k") % 4) + 4) % 4) {
    case 1: return {d.b.transpose(d.b.flip(x, {dims[1]}), dims[0], dims[1])};
    case 2: return {d.b.flip(x, dims)};
    case 3: return {d.b.transpose(d.b.flip(x, {dims[0]}), dims[0], dims[1])};
    default: return {x};
  }
}

// ---- parts ---------------------------------------------------------------------------------------------------------

std::vector<Tensor> select(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  return {d.b.select(x, dim, wrap_index(a.integer("index"), x.size(dim)))};
}

std::vector<Tensor> slice(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  Bounds bounds = slice_bounds(a, x.size(dim));
  // The exporter may know more about the length than the bounds tell: then it is a fact to check, not to lose.
  if (d.recorded.size() == 1 && d.recorded[0].rank() == x.rank()) {
    const sym::Expr recorded = d.recorded[0].sizes[static_cast<size_t>(dim)];
    if (is_unbound(d.b.graph(), recorded)) {  // the exporter could not tell where the slice begins or ends
      bind_size(d.b, recorded, d.b.scalar(DType::I64, bounds.length));
      bounds.length = recorded;
    } else if (!sym::known_eq(recorded, bounds.length)) {
      d.b.require_equal(bounds.length, recorded, "slice");
      bounds.length = recorded;
    }
  }
  return {d.b.slice(x, dim, bounds.start, bounds.length, bounds.step)};
}

std::vector<Tensor> narrow(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  return {d.b.slice(x, dim, from_start(a.integer("start"), x.size(dim)), a.integer("length"))};
}

// Windows of `size` elements, `step` apart, along a new last dim.
std::vector<Tensor> unfold(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  const bool was_scalar = a.tensor("self").rank() == 0;
  const int64_t dim = b.wrap_dim(a.constant("dimension"), x.rank());
  const sym::Expr size = a.integer("size"), step = a.integer("step");
  guard(d, sym::le(size, x.size(dim)));
  Sizes axes, index;
  for (int64_t i = 0; i < x.rank(); ++i) {
    axes.push_back(b.axis(i == dim ? sym::floor_div(x.size(dim) - size, step) + 1 : x.size(i)));
    index.push_back(axes.back());
  }
  axes.push_back(b.axis(size));
  index[static_cast<size_t>(dim)] = index[static_cast<size_t>(dim)] * step + axes.back();
  Tensor windows = b.remap(x, axes, index);
  return {was_scalar ? b.squeeze(windows, 0) : windows};
}

// Elements of the memory behind an argument, counted from the beginning of its storage.
Tensor strided_view(Decomposer& d, const Args& a, const Sizes& sizes, const Sizes& strides, sym::Expr offset) {
  Builder& b = d.b;
  const TensorType owner = d.memory_type.value_or(recorded_type(d, a, "self"));
  Tensor storage = storage_of(a.tensor("self"), owner);
  if (sizes.size() != strides.size()) throw Error(ErrorKind::InvalidModel, "as_strided needs as many strides as sizes");
  if (sym::product(sizes).is_const(0)) return b.full(sizes, storage.dtype(), 0.0);
  offset = offset - owner.storage_offset;  // of a view in another dtype, which stands for its memory
  if (sym::known_lt(offset, 0)) throw Error(ErrorKind::Unsupported, "as_strided reaches before the elements of its tensor");
  Sizes axes;
  sym::Expr last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back(b.axis(sizes[i]));
    last += strides[i] * (sizes[i] - 1);
    offset += strides[i] * axes.back();
  }
  if (sym::known_le(storage.numel(), last)) {
    throw Error(ErrorKind::Unsupported, "as_strided reaches beyond the elements of its tensor");
  }
  b.require_equal(sym::lt(last, storage.numel()), 1, "as_strided");
  return b.remap(storage, axes, {offset});
}

std::vector<Tensor> as_strided(Decomposer& d, const Args& a) {
  const sym::Expr offset = optional_integer(a, "storage_offset").value_or(recorded_type(d, a, "self").storage_offset);
  return {strided_view(d, a, a.integers("size"), a.integers("stride"), offset)};
}

// The memory of self, seen as the whole of which self is a slice is.
std::vector<Tensor> slice_inverse(Decomposer& d, const Args& a) {
  const TensorType whole = recorded_type(d, a, "src");
  return {strided_view(d, a, whole.sizes, whole.strides.empty() ? contiguous_strides(whole.sizes) : whole.strides, whole.storage_offset)};
}

constexpr DecompositionRow kViewRows[] = {
    {"aten::view", reshape},
    {"aten::view.dtype", view_dtype},
    {"aten::reshape", reshape},
    {"aten::_unsafe_view", reshape},
    {"aten::_reshape_alias", reshape},
    {"aten::view_as", reshape_as},
    {"aten::reshape_as", reshape_as},
    {"aten::ravel", ravel},
    {"aten::flatten.using_ints", flatten},
    {"aten::unflatten.int", unflatten},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze_dim},
    {"aten::squeeze.dims", squeeze_dims},
    {"aten::unsqueeze", unsqueeze},
    {"aten::expand", expand},
    {"aten::broadcast_to", expand},
    {"aten::expand_as", expand_as},
    {"aten::broadcast_tensors", broadcast_tensors},
    {"aten::atleast_1d", at_least<1>},
    {"aten::atleast_2d", at_least<2>},
    {"aten::atleast_3d", at_least<3>},
    {"aten::atleast_1d.Sequence", all_at_least<1>},
    {"aten::atleast_2d.Sequence", all_at_least<2>},
    {"aten::atleast_3d.Sequence", all_at_least<3>},

    {"aten::permute", permute},
    {"aten::transpose.int", transpose},
    {"aten::swapaxes", transpose},
    {"aten::swapdims", transpose},
    {"aten::t", matrix_transpose},
    {"aten::mT", matrix_transpose},
    {"aten::mH", conjugate_transpose},
    {"aten::matrix_H", conjugate_transpose},
    {"aten::adjoint", conjugate_transpose},
    {"aten::numpy_T", reverse_dims},
    {"aten::movedim.*", movedim},
    {"aten::moveaxis.*", movedim},
    {"aten::flip", flip},
    {"aten::fliplr", fliplr},
    {"aten::flipud", flipud},
    {"aten::rot90", rot90},

    {"aten::select.int", select},
    {"aten::slice.Tensor", slice},
    {"aten::narrow", narrow},
    {"aten::unfold", unfold},
    {"aten::as_strided", as_strided},
    {"aten::slice_inverse", slice_inverse},
};

}  // namespace

std::span<const DecompositionRow> view_rows() { return kViewRows; }

}  // namespace toroid
