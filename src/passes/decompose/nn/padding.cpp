// Tensors that repeat, wrap around or border another one: pad, roll, repeat, pixel and channel shuffles.
#include "formula/movement/padding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/movement/view_shape.h"

namespace toroid {
namespace {

// ---- borders -------------------------------------------------------------------------------------------------------

std::vector<Tensor> pad(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self");
  const Sizes amounts = a.integers("pad");
  const std::string mode = a.text("mode");
  if (mode == "constant") return {formula::pad_constant(x, amounts, a.has("value") ? a.scalar("value") : Scalar(0.0))};
  if (mode == "reflect") return {formula::pad_reflect(x, amounts)};
  if (mode == "replicate") return {formula::pad_replicate(x, amounts)};
  if (mode == "circular") return {formula::pad_circular(x, amounts)};
  throw Error(ErrorKind::InvalidModel, fmt::format("padding mode '{}'", mode));
}
std::vector<Tensor> constant_pad_nd(Decomposer&, const Args& a) {
  return {formula::pad_constant(a.tensor("self"), a.integers("pad"), a.scalar("value"))};
}
std::vector<Tensor> pad_circular_op(Decomposer&, const Args& a) { return {formula::pad_circular(a.tensor("self"), a.integers("pad"))}; }
std::vector<Tensor> reflection_pad(Decomposer&, const Args& a) { return {formula::pad_reflect(a.tensor("self"), a.integers("padding"))}; }
std::vector<Tensor> replication_pad(Decomposer&, const Args& a) {
  return {formula::pad_replicate(a.tensor("self"), a.integers("padding"))};
}

// ---- around and around ---------------------------------------------------------------------------------------------

Tensor rolled(Tensor x, const Sizes& shifts, const Dims& dims) {
  Builder& b = x.builder();
  if (x.numel().is_const(0)) return x;
  Sizes axes, index;
  for (sym::Expr size : x.sizes()) index.push_back(axes.emplace_back(b.axis(size)));
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t dim = static_cast<size_t>(b.wrap_dim(dims[i], x.rank()));
    index[dim] = sym::mod(index[dim] - shifts[i], x.sizes()[dim]);
  }
  return b.remap(x, axes, index);
}

std::vector<Tensor> roll(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const Sizes shifts = a.integers("shifts");
  const Dims dims = a.dims("dims");
  if (dims.empty() && shifts.size() == 1) {
    return {d.b.reshape(rolled(d.b.reshape(x, {x.numel()}), shifts, {0}), x.sizes())};
  }
  if (shifts.size() != dims.size()) throw Error(ErrorKind::InvalidModel, "roll needs as many shifts as dims");
  return {x.rank() == 0 ? x : rolled(x, shifts, dims)};
}

// Moves the middle of each dim to its start (ifftshift) or back (fftshift).
template <bool inverse>
std::vector<Tensor> fftshift(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const Dims dims = d.b.wrap_dims(a.dims("dim"), x.rank());
  Sizes shifts;
  for (int64_t dim : dims) shifts.push_back(sym::floor_div(x.size(dim) + (inverse ? 1 : 0), 2));
  return {rolled(x, shifts, dims)};
}

// Each dim as many times as `repeats` says; a list that is longer than the rank adds dims in front.
Tensor tiled(Tensor x, Sizes repeats) {
  Builder& b = x.builder();
  const size_t rank = std::max(repeats.size(), x.sizes().size());
  repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  Sizes sizes(x.sizes());
  sizes.insert(sizes.begin(), rank - sizes.size(), 1);
  Sizes apart, spread, together;
  for (size_t i = 0; i < rank; ++i) {
    apart.insert(apart.end(), {1, sizes[i]});
    spread.insert(spread.end(), {repeats[i], sizes[i]});
    together.push_back(repeats[i] * sizes[i]);
  }
  return b.reshape(b.expand(b.reshape(x, apart), spread), together);
}
std::vector<Tensor> repeat(Decomposer&, const Args& a) { return {tiled(a.tensor("self"), a.integers(parameter(a, 1)))}; }

Tensor flat_unless(Tensor x, const Args& a, int64_t& dim) {
  Builder& b = x.builder();
  if (!a.has("dim")) {
    dim = 0;
    return b.reshape(x, {x.numel()});
  }
  dim = b.wrap_dim(a.constant("dim"), x.rank());
  return x.rank() == 0 ? b.unsqueeze(x, 0) : x;
}

std::vector<Tensor> repeat_interleave(Decomposer& d, const Args& a) {
  int64_t dim = 0;
  Tensor x = flat_unless(a.tensor("self"), a, dim);
  const sym::Expr repeats = a.integer("repeats");
  Sizes spread = x.sizes(), together = x.sizes();
  spread.insert(spread.begin() + dim + 1, repeats);
  together[static_cast<size_t>(dim)] = together[static_cast<size_t>(dim)] * repeats;
  return {d.b.reshape(d.b.expand(d.b.unsqueeze(x, dim + 1), spread), together)};
}

// The number of results: given, or the sum of the repetitions.
sym::Expr repeated_size(Decomposer& d, const Args& a, int64_t dim, Tensor repeats) {
  if (a.has("output_size")) return a.integer("output_size");
  return bind_recorded(d, 0, dim, d.b.sum(d.b.cast(repeats, DType::I64), {}), sym::kPosInf);
}

// For each result the position it repeats: the number of positions whose repetitions end at or before it. That a size which was given is
// the sum of the repetitions is checked as an index is, on the device: who gives it does so lest the device be waited for.
Tensor repeated_positions(Decomposer& d, const Args& a, Tensor repeats, sym::Expr count) {
  Builder& b = d.b;
  Tensor ends = b.scan(ScanOp::Sum, b.cast(repeats, DType::I64), 0)[0];
  Tensor is_before = ends <= b.unsqueeze(b.arange(count), 1);
  Tensor positions = b.sum(b.cast(is_before, DType::I64), {1});
  const sym::Expr n = repeats.numel();
  if (!a.has("output_size") || !sym::known_lt(0, n)) return positions;
  Tensor beyond = b.slice(ends, 0, n - 1, 1) - b.scalar(DType::I64, count);
  return positions + b.gather(b.arange(1), {beyond});
}

std::vector<Tensor> repeat_interleave_each(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  int64_t dim = 0;
  Tensor x = flat_unless(a.tensor("self"), a, dim);
  Tensor repeats = b.expand(b.reshape(a.tensor("repeats"), {-1}), {x.size(dim)});
  const sym::Expr count = repeated_size(d, a, dim, repeats);
  Tensor positions = repeated_positions(d, a, repeats, count);
  std::vector<Tensor> indices;
  Sizes sizes = x.sizes();
  sizes[static_cast<size_t>(dim)] = count;
  for (int64_t i = 0; i < x.rank(); ++i) {
    Sizes shape(sizes.size(), 1);
    shape[static_cast<size_t>(i)] = sizes[static_cast<size_t>(i)];
    indices.push_back(i == dim ? b.reshape(positions, shape) : b.iota(shape, i));
  }
  return {b.gather(x, indices)};
}
std::vector<Tensor> repeat_interleave_positions(Decomposer& d, const Args& a) {
  const Tensor repeats = a.tensor("repeats");
  return {repeated_positions(d, a, repeats, repeated_size(d, a, 0, repeats))};
}

// ---- shuffles ------------------------------------------------------------------------------------------------------

// [*, C r r, H, W] -> [*, C, H r, W r]
std::vector<Tensor> pixel_shuffle(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const sym::Expr r = a.integer("upscale_factor"), height = x.size(-2), width = x.size(-1);
  const sym::Expr channels = sym::floor_div(x.size(-3), r * r);
  Sizes batch = x.sizes().without_last(3), sizes = batch;
  sizes.insert(sizes.end(), {channels, height * r, width * r});
  const sym::Expr all = sym::product(batch);
  Tensor blocks = d.b.permute(d.b.reshape(x, {all, channels, r, r, height, width}), {0, 1, 4, 2, 5, 3});
  return {d.b.reshape(blocks, sizes)};
}

// [*, C, H r, W r] -> [*, C r r, H, W]
std::vector<Tensor> pixel_unshuffle(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const sym::Expr r = a.integer("downscale_factor"), channels = x.size(-3);
  const sym::Expr height = sym::floor_div(x.size(-2), r), width = sym::floor_div(x.size(-1), r);
  Sizes batch = x.sizes().without_last(3), sizes = batch;
  sizes.insert(sizes.end(), {channels * r * r, height, width});
  const sym::Expr all = sym::product(batch);
  Tensor blocks = d.b.permute(d.b.reshape(x, {all, channels, height, r, width, r}), {0, 1, 3, 5, 2, 4});
  return {d.b.reshape(blocks, sizes)};
}

std::vector<Tensor> channel_shuffle(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const sym::Expr groups = a.integer("groups");
  Sizes sizes = {x.size(0), groups, sym::floor_div(x.size(1), groups)};
  sizes.append(x.sizes().without_first(2));
  return {d.b.reshape(d.b.transpose(d.b.reshape(x, sizes), 1, 2), x.sizes())};
}

constexpr DecompositionRow kPaddingRows[] = {
    {"aten::pad", pad},
    {"aten::constant_pad_nd", constant_pad_nd},
    {"aten::_pad_circular", pad_circular_op},
    {"aten::reflection_pad1d", reflection_pad},
    {"aten::reflection_pad2d", reflection_pad},
    {"aten::reflection_pad3d", reflection_pad},
    {"aten::replication_pad1d", replication_pad},
    {"aten::replication_pad2d", replication_pad},
    {"aten::replication_pad3d", replication_pad},

    {"aten::roll", roll},
    {"aten::fft_fftshift", fftshift<false>},
    {"aten::fft_ifftshift", fftshift<true>},
    {"aten::repeat", repeat},
    {"aten::tile", repeat},
    {"aten::repeat_interleave.self_int", repeat_interleave},
    {"aten::repeat_interleave.self_Tensor", repeat_interleave_each},
    {"aten::repeat_interleave.Tensor", repeat_interleave_positions},

    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
    {"aten::channel_shuffle", channel_shuffle},
    {"aten::native_channel_shuffle", channel_shuffle},
};

}  // namespace

std::span<const DecompositionRow> padding_rows() { return kPaddingRows; }

}  // namespace toroid
