// An input element is read by neighbouring outputs, at most a few: with known sizes the first of them and their number
// are computed here, and the gradient is a view of those readers, weighted and summed:
//
//   dx[i] = sum over j < most of W[base(i) + j, i] * g[base(i) + j],   base(i) = floor(i * out / in) + shift
//
// An integer factor of nearest upsampling is the sum of a block. Over symbolic sizes the outputs are scattered.
#include "formula/backward/resampling_backward.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// One dim of an upsampling whose gradient is taken.
struct Line {
  Upsampling kind;
  Extent extent;
  bool align_corners;
};

bool is_filtered(Upsampling kind) { return kind >= Upsampling::FilteredLinear; }

Filter filter_of(Upsampling kind) {
  return kind == Upsampling::FilteredLinear ? triangle_filter() : kind == Upsampling::Lanczos ? lanczos_filter() : keys_cubic_filter();
}

std::vector<Tap> taps_of(Builder& b, const Line& line, DType dtype) {
  switch (line.kind) {
    case Upsampling::Nearest: return {nearest_tap(b, line.extent, 0, dtype)};
    case Upsampling::NearestExact: return {nearest_tap(b, line.extent, 0.5, dtype)};
    case Upsampling::Linear: return linear_taps(b, line.extent, line.align_corners, dtype);
    default: return cubic_taps(b, line.extent, line.align_corners, dtype);
  }
}

// W [out, in].
Tensor weights_of(Builder& b, const Line& line, DType dtype) {
  if (is_filtered(line.kind)) {
    const Filter filter = filter_of(line.kind);
    const FilterWindow window = filter_window(b, line.extent, line.align_corners, filter, dtype);
    Tensor norm = b.sum(filter_weight(window, filter, window.first + b.arange(window.taps)), {1});
    return filter_weight(window, filter, b.unsqueeze(b.arange(line.extent.in), 0)) / b.unsqueeze(norm, 1);
  }
  Tensor i = b.unsqueeze(b.arange(line.extent.in), 0), weights;
  for (const Tap& tap : taps_of(b, line, dtype)) {
    Tensor weight = tap.weight.defined() ? b.unsqueeze(tap.weight, 1) : b.scalar(dtype, 1.0);
    Tensor part = where(eq(b.unsqueeze(tap.index, 1), i), weight, 0);
    weights = weights.defined() ? weights + part : part;
  }
  return weights;
}

// ---- readers --------------------------------------------------------------------------------------------------------

// The outputs that read input i are among base(i), …, base(i) + most - 1.
struct Readers {
  int64_t shift, most;
};

// The inputs that output o may read, generously: rounding may go either way.
std::pair<int64_t, int64_t> inputs_of(const Line& line, int64_t o) {
  const double in = static_cast<double>(line.extent.in.value()), out = static_cast<double>(line.extent.out.value());
  const double slack = 1e-4 + 1e-6 * in;
  double scale = in / out;
  if (line.align_corners) {
    scale = out > 1 ? (in - 1) / (out - 1) : 0;
  } else if (line.extent.factor && *line.extent.factor > 0) {
    scale = 1 / *line.extent.factor;
  }
  const double at = static_cast<double>(o), centered = line.align_corners ? at * scale : (at + 0.5) * scale - 0.5;
  double low = centered, high = centered;
  switch (line.kind) {
    case Upsampling::Nearest: low = high = at * scale; break;
    case Upsampling::NearestExact: low = high = (at + 0.5) * scale; break;
    case Upsampling::Linear: high += 1; break;
    case Upsampling::Cubic:
      low -= 1;
      high += 2;
      break;
    default: {
      const double radius = filter_of(line.kind).radius * std::max(scale, 1.0), center = (at + 0.5) * scale;
      low = center - radius - 0.5;
      high = center + radius + 0.5;
    }
  }
  auto clamped = [&](double position) { return static_cast<int64_t>(std::clamp(std::floor(position), 0.0, in - 1)); };
  return {clamped(low - slack), clamped(high + slack)};
}

// Pairs of an output and an input that it may read, which are looked at one by one.
constexpr int64_t kMostPairs = 1 << 22;

void require_few_pairs(int64_t count) {
  if (count <= kMostPairs) return;
  throw Error(ErrorKind::Unsupported, fmt::format("the gradient of a resampling that reads more than {} elements along a dim", kMostPairs))
      .help("resample in several steps, or make the sizes smaller");
}

Readers readers_of(const Line& line) {
  const int64_t in = line.extent.in.value(), out = line.extent.out.value();
  require_few_pairs(std::max(in, out));
  if (in < 1 || out < 0) return {0, 0};
  int64_t pairs = 0;
  std::vector<int64_t> first(static_cast<size_t>(in), out), last(static_cast<size_t>(in), -1);
  for (int64_t o = 0; o < out; ++o) {
    const auto [low, high] = inputs_of(line, o);
    require_few_pairs(pairs += high - low + 1);
    for (int64_t i = low; i <= high; ++i) {
      first[static_cast<size_t>(i)] = std::min(first[static_cast<size_t>(i)], o);
      last[static_cast<size_t>(i)] = o;
    }
  }
  int64_t shift = out, reach = 0;
  for (int64_t i = 0; i < in; ++i) {
    if (last[static_cast<size_t>(i)] < 0) continue;  // nobody reads it
    shift = std::min(shift, first[static_cast<size_t>(i)] - i * out / in);
    reach = std::max(reach, last[static_cast<size_t>(i)] - i * out / in);
  }
  return {shift, reach - shift + 1};
}

// Sums over the readers of each element along `dims`, of which lines[k] describes dims[k]: [.., out, ..] -> [.., in, ..].
Tensor sum_taps(Tensor grad, const std::vector<Line>& lines, const Dims& dims) {
  Builder& b = grad.builder();
  const size_t rank = grad.sizes().size();
  Sizes sizes = grad.sizes(), low(rank, 0), high = low;
  for (size_t k = 0; k < dims.size(); ++k) sizes[static_cast<size_t>(dims[k])] = lines[k].extent.in;
  Sizes axes, index;
  for (sym::Expr size : sizes) index.push_back(axes.emplace_back(b.axis(size)));
  Tensor weights;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t at = static_cast<size_t>(dims[k]);
    const Extent& e = lines[k].extent;
    const Readers readers = readers_of(lines[k]);
    const int64_t in = e.in.value(), out = e.out.value();
    const sym::Expr before = std::max<int64_t>(-readers.shift, 0);
    const sym::Expr after = std::max<int64_t>((in - 1) * out / in + readers.shift + readers.most - out, 0);
    auto reader = [&](sym::Expr i, sym::Expr j) { return sym::floor_div(i * out, in) + readers.shift + before + j; };
    low[at] = before;
    high[at] = after;
    index[at] = reader(axes[at], axes.emplace_back(b.axis(readers.most)));

    Tensor table = b.pad(weights_of(b, lines[k], grad.dtype()), {before, 0}, {after, 0}, 0.0);
    const sym::Expr i = b.axis(in), j = b.axis(readers.most);
    Sizes beside(rank + dims.size(), 1);
    beside[at] = in;
    beside[rank + k] = readers.most;
    Tensor of_readers = b.reshape(b.remap(table, {i, j}, {reader(i, j), i}), beside);
    weights = weights.defined() ? weights * of_readers : of_readers;
  }
  Dims summed;
  for (size_t k = 0; k < dims.size(); ++k) summed.push_back(static_cast<int64_t>(rank + k));
  return b.sum(b.remap(b.pad(grad, low, high, 0.0), axes, index) * weights, summed);
}

// All dims at once while that reads few elements, else one after the other.
Tensor sum_all_readers(Tensor grad, const std::vector<Line>& lines, const Dims& dims) {
  constexpr double kFew = 16;
  double reads = 1;
  for (const Line& line : lines) reads *= static_cast<double>(readers_of(line).most);
  if (reads <= kFew) return sum_taps(grad, lines, dims);
  for (size_t k = dims.size(); k-- > 0;) grad = sum_taps(grad, {lines[k]}, {dims[k]});
  return grad;
}

// ---- other forms ----------------------------------------------------------------------------------------------------

// Outputs per input where each input is repeated.
std::optional<sym::Expr> repeats_of(Builder& b, const Line& line) {
  if (line.kind != Upsampling::Nearest || !sym::known_divisible(line.extent.out, line.extent.in)) return std::nullopt;
  if (!exact_nearest(line.extent, 0, b.axis(line.extent.out))) return std::nullopt;
  return sym::floor_div(line.extent.out, line.extent.in);
}

// The blocks of outputs that show one input; nothing when some dim repeats in another way.
std::optional<Tensor> sum_blocks(Tensor grad, const std::vector<Line>& lines) {
  Builder& b = grad.builder();
  Sizes sizes = {grad.size(0), grad.size(1)};
  Dims dims;
  for (const Line& line : lines) {
    const std::optional<sym::Expr> repeats = repeats_of(b, line);
    if (!repeats) return std::nullopt;
    sizes.push_back(line.extent.in);
    if (repeats->is_const(1)) continue;
    dims.push_back(static_cast<int64_t>(sizes.size()));
    sizes.push_back(*repeats);
  }
  return dims.empty() ? grad : b.sum(b.reshape(grad, sizes), dims);
}

// base += grad at every combination of taps. `index` holds the dims chosen so far.
Tensor scatter_taps(Tensor base, Tensor grad, const std::vector<std::vector<Tap>>& taps, std::vector<Tensor> index) {
  Builder& b = grad.builder();
  const size_t done = index.size() - 2;
  if (done == taps.size()) return b.scatter(base, grad, index, ScatterMode::Add);
  Sizes along(grad.sizes().size(), 1);
  for (const Tap& tap : taps[done]) {
    along[index.size()] = tap.index.size(0);
    std::vector<Tensor> chosen = index;
    chosen.push_back(b.reshape(tap.index, along));
    Tensor share = tap.weight.defined() ? grad * b.reshape(tap.weight, along) : grad;
    base = scatter_taps(base, share, taps, std::move(chosen));
  }
  return base;
}

// The gradient in grad's own dtype, F32 or F64; `in` is not empty.
Tensor gradient_of(Tensor grad, const Sizes& in, const std::vector<Line>& lines) {
  Builder& b = grad.builder();
  if (const std::optional<Tensor> sum = sum_blocks(grad, lines)) return *sum;
  Dims dims;
  bool known = true;
  for (size_t i = 0; i < lines.size(); ++i) {
    dims.push_back(static_cast<int64_t>(i) + 2);
    known = known && lines[i].extent.in.is_const() && lines[i].extent.out.is_const();
  }
  if (known) return sum_all_readers(grad, lines, dims);
  std::vector<std::vector<Tap>> taps;
  for (const Line& line : lines) {
    if (is_filtered(line.kind)) throw Error(ErrorKind::Unsupported, "the gradient of antialiased upsampling of a symbolic size");
    taps.push_back(taps_of(b, line, grad.dtype()));
  }
  const int64_t rank = grad.rank();
  return scatter_taps(b.full(in, grad.dtype(), 0.0), grad, taps,
                      {positions(b, grad.size(0), 0, rank), positions(b, grad.size(1), 1, rank)});
}

}  // namespace

Tensor upsample_backward(Tensor grad_out, const std::vector<Extent>& extents, Upsampling kind, bool align_corners) {
  Builder& b = grad_out.builder();
  Tensor grad = wide(grad_out);
  Sizes in = {grad.size(0), grad.size(1)};
  std::vector<Line> lines;
  for (const Extent& extent : extents) {
    in.push_back(extent.in);
    lines.push_back({kind, extent, align_corners});
  }
  if (sym::product(in).is_const(0)) return b.full(in, grad_out.dtype(), 0.0);
  return b.cast(gradient_of(grad, in, lines), grad_out.dtype());
}

}  // namespace toroid::formula
