// Joining tensors (cat, stack, meshgrid, block_diag) and splitting them (split, chunk, unbind).
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/movement/literal.h"
#include "passes/decompose/movement/view_shape.h"

namespace toroid {
namespace {

// ---- joining -------------------------------------------------------------------------------------------------------

std::vector<Tensor> promoted(std::vector<Tensor> tensors) {
  if (tensors.empty()) throw Error(ErrorKind::InvalidModel, "an operator that joins tensors got an empty list");
  const DType dtype = result_dtype(tensors);
  for (Tensor& x : tensors) x = x.builder().cast(x, dtype);
  return tensors;
}

// Empty tensors of rank 1 join anything: PyTorch's rule from before tensors could be empty in other shapes.
Tensor joined_along(const std::vector<Tensor>& tensors, int64_t dim) {
  std::vector<Tensor> parts = promoted(tensors);
  const auto is_legacy_empty = [](Tensor x) { return x.rank() == 1 && x.size(0).is_const(0); };
  const bool ranks_differ = std::any_of(parts.begin(), parts.end(), [&](Tensor x) { return x.rank() != 1; });
  if (ranks_differ) std::erase_if(parts, is_legacy_empty);
  return parts[0].builder().cat(parts, dim);
}

std::vector<Tensor> cat(Decomposer&, const Args& a) { return {joined_along(a.tensors("tensors"), a.constant("dim"))}; }
std::vector<Tensor> stack(Decomposer& d, const Args& a) { return {d.b.stack(promoted(a.tensors("tensors")), a.constant("dim"))}; }

std::vector<Tensor> hstack(Decomposer& d, const Args& a) {
  Tensors parts = d.call("aten::atleast_1d.Sequence", {a.tensors("tensors")});
  return {joined_along(parts, parts[0].rank() == 1 ? 0 : 1)};
}
std::vector<Tensor> vstack(Decomposer& d, const Args& a) {
  return {joined_along(d.call("aten::atleast_2d.Sequence", {a.tensors("tensors")}), 0)};
}
std::vector<Tensor> dstack(Decomposer& d, const Args& a) {
  return {joined_along(d.call("aten::atleast_3d.Sequence", {a.tensors("tensors")}), 2)};
}
std::vector<Tensor> column_stack(Decomposer& d, const Args& a) {
  Tensors parts = a.tensors("tensors");
  for (Tensor& x : parts) {
    if (x.rank() <= 1) x = d.b.reshape(x, {x.numel(), 1});
  }
  return {joined_along(parts, 1)};
}

std::vector<Tensor> block_diag(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  std::vector<Tensor> blocks = promoted(a.tensors("tensors"));
  sym::Expr columns = 0;
  for (Tensor& block : blocks) {
    if (block.rank() < 2) block = b.reshape(block, {1, block.numel()});
    columns += block.size(1);
  }
  sym::Expr before = 0;
  for (Tensor& block : blocks) {
    const sym::Expr width = block.size(1);
    block = b.pad(block, {0, before}, {0, columns - before - width}, 0.0);
    before += width;
  }
  return {b.cat(blocks, 0)};
}

// Each tensor is padded along `dim` to a multiple of the number of chunks, and the chunks of all lie side by side.
std::vector<Tensor> chunk_cat(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const int64_t chunks = a.constant("num_chunks");
  Tensors parts = a.tensors("tensors");
  const int64_t dim = b.wrap_dim(a.constant("dim"), parts.front().rank());
  for (Tensor& x : parts) {
    Sizes low(x.sizes().size(), 0), high(x.sizes().size(), 0);
    high[static_cast<size_t>(dim)] = sym::ceil_div(x.size(dim), chunks) * chunks - x.size(dim);
    Tensor padded = b.pad(x, low, high, 0.0);
    Sizes sizes = x.sizes().first(static_cast<size_t>(dim));
    sizes.push_back(chunks);
    sizes.push_back(-1);
    x = b.reshape(padded, sizes);
  }
  return {joined_along(parts, dim + 1)};
}

// ---- products of lists ---------------------------------------------------------------------------------------------

// Every vector spread over the grid of all of them.
std::vector<Tensor> grid_of(Builder& b, std::vector<Tensor> vectors) {
  Sizes sizes;
  for (Tensor& vector : vectors) {
    if (vector.rank() == 0) vector = b.unsqueeze(vector, 0);
    sizes.push_back(vector.size(0));
  }
  for (size_t i = 0; i < vectors.size(); ++i) {
    Sizes own(sizes.size(), 1);
    own[i] = sizes[i];
    vectors[i] = b.expand(b.reshape(vectors[i], own), sizes);
  }
  return vectors;
}

std::vector<Tensor> meshgrid(Decomposer& d, const Args& a) {
  Tensors vectors = a.tensors("tensors");
  const bool by_columns = a.schema().name.ends_with(".indexing") && a.text("indexing") == "xy";
  if (!by_columns || vectors.size() < 2) return grid_of(d.b, vectors);
  std::swap(vectors[0], vectors[1]);
  std::vector<Tensor> grids = grid_of(d.b, vectors);
  std::swap(grids[0], grids[1]);
  return grids;
}

std::vector<Tensor> cartesian_prod(Decomposer& d, const Args& a) {
  const Tensors vectors = a.tensors("tensors");
  if (vectors.size() == 1) return vectors;
  std::vector<Tensor> columns = grid_of(d.b, vectors);
  for (Tensor& column : columns) column = d.b.reshape(column, {column.numel()});
  return {d.b.stack(columns, 1)};
}

// All choices of r positions in rising order.
std::vector<Tensor> combinations(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  const int64_t r = a.constant("r");
  const bool repeats = a.flag("with_replacement");
  if (!x.size(0).is_const()) throw Error(ErrorKind::Unsupported, "combinations of a symbolic number of elements");
  const int64_t n = x.size(0).value();
  if (r < 0) throw Error(ErrorKind::InvalidModel, fmt::format("argument 'r' of aten::combinations is {}, which is negative", r));
  if (r == 0) return {b.full({0}, x.dtype(), 0.0)};
  if (n == 0 || (!repeats && r > n)) return {b.full({0, r}, x.dtype(), 0.0)};
  require_small_table(r);
  std::vector<int64_t> table, choice(static_cast<size_t>(r), 0);
  if (!repeats) std::iota(choice.begin(), choice.end(), 0);
  for (;;) {
    table.insert(table.end(), choice.begin(), choice.end());
    require_small_table(static_cast<int64_t>(table.size()));
    int64_t last = r - 1;  // the last position that may move on
    while (last >= 0 && choice[static_cast<size_t>(last)] == (repeats ? n - 1 : n - r + last)) --last;
    if (last < 0) break;
    int64_t next = ++choice[static_cast<size_t>(last)];
    for (int64_t i = last + 1; i < r; ++i) choice[static_cast<size_t>(i)] = repeats ? next : ++next;
  }
  return {b.gather(x, {literal(d, {static_cast<int64_t>(table.size()) / r, r}, table)})};
}

// ---- splitting -----------------------------------------------------------------------------------------------------

std::vector<Tensor> split_into(Tensor x, int64_t dim, const Sizes& lengths) {
  std::vector<Tensor> parts;
  sym::Expr start = 0;
  for (sym::Expr length : lengths) {
    parts.push_back(x.builder().slice(x, dim, start, length));
    start += length;
  }
  x.builder().require_equal(start, x.size(dim), "split");
  return parts;
}

// Pieces of `length`, the last one shorter. For a symbolic size the exporter knows how many there are.
std::vector<Tensor> split_every(Decomposer& d, Tensor x, int64_t dim, sym::Expr length) {
  const sym::Expr size = x.size(dim);
  if (size.is_const(0) || length.is_const(0)) return {x};
  const sym::Expr exact = sym::ceil_div(size, length);
  const int64_t count = exact.is_const() ? exact.value() : static_cast<int64_t>(d.recorded.size());
  if (count == 0) throw Error(ErrorKind::Unsupported, "a split into a symbolic number of pieces");
  if (count < 0) throw Error(ErrorKind::InvalidModel, fmt::format("a split into pieces of {} elements", sym::to_string(length)));
  d.b.spend(count, "pieces");
  Sizes lengths(static_cast<size_t>(count), length);
  lengths.back() = size - length * (count - 1);
  return split_into(x, dim, lengths);
}

std::vector<Tensor> split(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return split_every(d, x, d.b.wrap_dim(a.constant("dim"), x.rank()), a.integer("split_size"));
}
std::vector<Tensor> split_with_sizes(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return split_into(x, d.b.wrap_dim(a.constant("dim"), x.rank()), a.integers(parameter(a, 1)));
}

std::vector<Tensor> chunk(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank()), chunks = a.constant_in("chunks", 1, kMaxSteps);
  if (x.size(dim).is_const(0)) return std::vector<Tensor>(static_cast<size_t>(chunks), x);
  return split_every(d, x, dim, sym::ceil_div(x.size(dim), chunks));
}

std::vector<Tensor> split_sections(Tensor x, int64_t dim, int64_t sections) {
  if (sections < 1) throw Error(ErrorKind::InvalidModel, fmt::format("a split into {} sections", sections));
  x.builder().spend(sections, "sections");
  const sym::Expr size = x.size(dim), base = sym::floor_div(size, sections), longer = sym::mod(size, sections);
  Sizes lengths;
  for (int64_t i = 0; i < sections; ++i) {
    lengths.push_back(longer.is_const() ? base + (i < longer.value() ? 1 : 0) : base + sym::lt(i, longer));
  }
  return split_into(x, dim, lengths);
}

std::vector<Tensor> split_at(Tensor x, int64_t dim, const Sizes& indices) {
  std::vector<Tensor> parts;
  auto add_part = [&](std::optional<sym::Expr> start, std::optional<sym::Expr> end) {
    const Bounds bounds = slice_bounds(x.size(dim), start, end);
    parts.push_back(x.builder().slice(x, dim, bounds.start, bounds.length));
  };
  std::optional<sym::Expr> start;
  for (sym::Expr index : indices) {
    add_part(start, index);
    start = index;
  }
  add_part(start, std::nullopt);
  return parts;
}

std::vector<Tensor> tensor_split_sections(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return split_sections(x, d.b.wrap_dim(a.constant("dim"), x.rank()), a.constant("sections"));
}
std::vector<Tensor> tensor_split_indices(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return split_at(x, d.b.wrap_dim(a.constant("dim"), x.rank()), a.integers("indices"));
}

// At positions computed while running: the parts' sizes and starts are read out of tensors.
std::vector<Tensor> split_at_computed(Decomposer& d, Tensor x, int64_t dim, Tensor positions) {
  Builder& b = d.b;
  if (positions.rank() != 1 || !positions.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, "tensor_split into a number of parts that is computed while running");
  }
  const Tensor zero = b.full({1}, DType::I64, sym::Expr(0)), size = b.full({1}, DType::I64, x.size(dim));
  positions = b.cast(positions, DType::I64);
  positions = minimum(maximum(where(positions < 0, positions + size, positions), zero), size);
  const Tensor starts = b.cat({zero, positions}, 0);
  const Tensor lengths = maximum(b.cat({positions, size}, 0) - starts, 0);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < starts.size(0).value(); ++i) {
    const sym::Expr start = bound_symbol(b, b.select(starts, 0, i), x.size(dim));
    const sym::Expr length = bind_recorded(d, static_cast<size_t>(i), dim, b.select(lengths, 0, i), x.size(dim));
    parts.push_back(b.slice(x, dim, start, length));
  }
  return parts;
}

std::vector<Tensor> tensor_split_tensor(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), positions = a.tensor("tensor_indices_or_sections");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  const std::optional<std::vector<int64_t>> values = constant_integers(d, positions);
  if (!values) return split_at_computed(d, x, dim, positions);
  if (positions.rank() == 0) return split_sections(x, dim, values->front());
  return split_at(x, dim, Sizes(values->begin(), values->end()));
}

// hsplit, vsplit and dsplit: tensor_split along a fixed dim.
template <int64_t dim>
std::vector<Tensor> split_dim(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t along = dim == 1 && x.rank() == 1 ? 0 : dim;
  return a.schema().name.ends_with(".int") ? split_sections(x, along, a.constant("sections")) : split_at(x, along, a.integers("indices"));
}

std::vector<Tensor> unbind(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  // For a symbolic size the exporter knows how many there are.
  const int64_t count = x.size(dim).is_const() ? x.size(dim).value() : static_cast<int64_t>(d.recorded.size());
  if (!x.size(dim).is_const()) {
    if (count == 0) throw Error(ErrorKind::Unsupported, "unbind of a symbolic number of parts");
    d.b.require_equal(x.size(dim), count, "unbind");
  }
  d.b.spend(count, "parts");
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(d.b.select(x, dim, i));
  return parts;
}

constexpr DecompositionRow kJoiningRows[] = {
    {"aten::cat", cat},
    {"aten::concat", cat},
    {"aten::concatenate", cat},
    {"aten::stack", stack},
    {"aten::_stack", stack},
    {"aten::hstack", hstack},
    {"aten::vstack", vstack},
    {"aten::row_stack", vstack},
    {"aten::dstack", dstack},
    {"aten::column_stack", column_stack},
    {"aten::block_diag", block_diag},
    {"aten::_chunk_cat", chunk_cat},
    {"aten::meshgrid.*", meshgrid},
    {"aten::cartesian_prod", cartesian_prod},
    {"aten::combinations", combinations},

    {"aten::split.Tensor", split},
    {"aten::unsafe_split.Tensor", split},
    {"aten::split", split_with_sizes},
    {"aten::split.sizes", split_with_sizes},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::unsafe_split_with_sizes", split_with_sizes},
    {"aten::chunk", chunk},
    {"aten::unsafe_chunk", chunk},
    {"aten::tensor_split.sections", tensor_split_sections},
    {"aten::tensor_split.indices", tensor_split_indices},
    {"aten::tensor_split.tensor_indices_or_sections", tensor_split_tensor},
    {"aten::hsplit.*", split_dim<1>},
    {"aten::vsplit.*", split_dim<0>},
    {"aten::dsplit.*", split_dim<2>},
    {"aten::unbind.int", unbind},
};

}  // namespace

std::span<const DecompositionRow> joining_rows() { return kJoiningRows; }

}  // namespace toroid
