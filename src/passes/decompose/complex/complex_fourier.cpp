// Fourier transforms of torch.fft, and spectra of overlapping frames and back.
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/complex/complex_parts.h"
#include "passes/decompose/movement/view_shape.h"
#include "symbolic/real.h"

namespace toroid {
namespace {

Complex transformed_along(Complex x, int64_t dim, bool forward) {
  Builder& b = x.re.builder();
  auto swapped = [&](Tensor t) { return b.transpose(t, dim, -1); };
  const Complex y = fourier_transform({swapped(x.re), swapped(x.im)}, forward);
  return {swapped(y.re), swapped(y.im)};
}

// Cut, or filled with zeros, to `size` along the dim.
Tensor resized(Tensor x, int64_t dim, sym::Expr size) {
  Builder& b = x.builder();
  const sym::Expr have = x.size(dim);
  if (sym::known_eq(have, size)) return x;
  if (sym::known_le(size, have)) return b.slice(x, dim, 0, size);
  const sym::Expr kept = sym::known_le(have, size) ? have : sym::min(have, size);
  Sizes low(static_cast<size_t>(x.rank()), 0), high = low;
  high[static_cast<size_t>(dim)] = size - kept;
  return b.pad(sym::known_eq(kept, have) ? x : b.slice(x, dim, 0, kept), low, high, 0.0);
}

Complex resized(Complex x, int64_t dim, sym::Expr size) { return {resized(x.re, dim, size), resized(x.im, dim, size)}; }

Tensor multiplied(Tensor x, const Scalar& factor) {
  if (const auto* number = std::get_if<double>(&factor); number && *number == 1) return x;
  return x.builder().binary(ScalarOp::Mul, x, factor);
}

Complex multiplied(Complex x, const Scalar& factor) { return {multiplied(x.re, factor), multiplied(x.im, factor)}; }

// 1 / count and 1 / sqrt(count), in doubles.
Scalar inverse_of(sym::Expr count) {
  if (count.is_const()) return 1 / static_cast<double>(count.value());
  return sym::real(sym::RealFunction::Div, {sym::real_literal(1), sym::real(sym::RealFunction::Float, {count})});
}
Scalar inverse_root(sym::Expr count) {
  if (count.is_const()) return 1 / std::sqrt(static_cast<double>(count.value()));
  const sym::Expr root = sym::real(sym::RealFunction::Sqrt, {sym::real(sym::RealFunction::Float, {count})});
  return sym::real(sym::RealFunction::Div, {sym::real_literal(1), root});
}

// The first n/2 + 1 elements; the others are their conjugates. n is at least 1.
Complex half_along(Tensor x, int64_t dim, bool forward) {
  Builder& b = x.builder();
  const Complex y = half_spectrum(b.transpose(x, dim, -1), forward);
  return {b.transpose(y.re, dim, -1), b.transpose(y.im, dim, -1)};
}

// The whole of a spectrum of `size` whose first half is given.
Complex whole(Complex x, int64_t dim, sym::Expr size) {
  Builder& b = x.re.builder();
  x = resized(x, dim, sym::floor_div(size, 2) + 1);
  const sym::Expr rest = size - x.re.size(dim);
  if (rest.is_const(0)) return x;
  auto mirrored = [&](Tensor t) { return b.flip(b.slice(t, dim, 1, rest), {dim}); };
  return {b.cat({x.re, mirrored(x.re)}, dim), b.cat({x.im, -mirrored(x.im)}, dim)};
}

enum class Kind { ComplexToComplex, RealToHalf, RealToComplex, HalfToReal };

// Over `dims` in turn; of real input the last dim is the one that is halved, of real output the one that was.
std::vector<Tensor> transformed(Complex x, const Dims& dims, Kind kind, bool forward, const Scalar& factor,
                                std::optional<sym::Expr> real_size = std::nullopt) {
  if (kind == Kind::HalfToReal) {
    for (size_t i = 0; i + 1 < dims.size(); ++i) x = transformed_along(x, dims[i], forward);
    Builder& b = x.re.builder();
    const int64_t last = dims.back();
    x = resized(x, last, sym::floor_div(*real_size, 2) + 1);
    const Tensor y = real_signal({b.transpose(x.re, last, -1), b.transpose(x.im, last, -1)}, *real_size, forward);
    return {multiplied(b.transpose(y, last, -1), factor)};
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (kind == Kind::ComplexToComplex || i + 1 < dims.size()) {
      x = transformed_along(x, dims[i], forward);
    } else {
      const sym::Expr size = x.re.size(dims[i]);
      x = half_along(x.re, dims[i], forward);
      if (kind == Kind::RealToComplex) x = whole(x, dims[i], size);
    }
  }
  return {pairs_of(multiplied(x, factor))};
}

// What the core operators' normalization says: nothing, the root of the count, the count.
Scalar factor_of(int64_t normalization, sym::Expr count) {
  return normalization == 1 ? inverse_root(count) : normalization == 2 ? inverse_of(count) : Scalar(1.0);
}

sym::Expr count_over(Tensor x, const Dims& dims) {
  sym::Expr count = 1;
  for (int64_t dim : dims) count *= x.size(dim);
  return count;
}

Dims wrapped(Decomposer& d, Dims dims, int64_t rank) {
  for (int64_t& dim : dims) dim = d.b.wrap_dim(dim, rank);
  return dims;
}

// A transform takes one number or more: of none half of the frequencies would be one.
void require_points(Decomposer& d, sym::Expr count) {
  if (sym::known_lt(count, 1))
    throw Error(ErrorKind::InvalidModel, fmt::format("a Fourier transform of {} numbers: it takes one or more", sym::to_string(count)));
  guard(d, sym::le(1, count));
}

template <Kind kind>
std::vector<Tensor> core_transform(Decomposer& d, const Args& a) {
  const Tensor self = a.tensor("self");
  const DType dtype = part_dtype(self.dtype());
  const Complex x = complex_argument(d, a, "self", dtype);
  const Dims dims = wrapped(d, a.dims("dim"), x.re.rank());
  const int64_t normalization = a.constant("normalization");
  if constexpr (kind == Kind::HalfToReal) {
    const sym::Expr size = a.integer("last_dim_size");
    require_points(d, size);
    const Dims others = dims.without_last(1);
    const sym::Expr count = count_over(x.re, others) * size;
    return transformed(x, dims, kind, false, factor_of(normalization, count), size);
  } else {
    const Scalar factor = factor_of(normalization, count_over(x.re, dims));
    if constexpr (kind == Kind::ComplexToComplex) return transformed(x, dims, kind, a.flag("forward"), factor);
    for (int64_t dim : dims) require_points(d, x.re.size(dim));
    return transformed(x, dims, a.flag("onesided") ? Kind::RealToHalf : Kind::RealToComplex, true, factor);
  }
}

// torch.fft's functions over one dim (n, dim) or several (s, dim), normalised by name.
template <Kind named, bool forward>
std::vector<Tensor> named_transform(Decomposer& d, const Args& a) {
  const Kind kind = named == Kind::ComplexToComplex && !is_complex_input(d, a.raw("self")) ? Kind::RealToComplex : named;
  const DType dtype = result_part(d, a);
  Complex x = complex_argument(d, a, "self", dtype);
  const int64_t rank = x.re.rank();
  Sizes sizes;
  Dims dims;
  if (has_parameter(a, "n")) {
    dims = {a.constant("dim")};
    if (a.has("n")) sizes = {a.integer("n")};
  } else {
    if (a.has("s")) sizes = a.integers("s");
    if (a.has("dim")) dims = a.dims("dim");
    if (!a.has("dim")) {
      dims.resize(sizes.empty() ? static_cast<size_t>(rank) : sizes.size());
      std::iota(dims.begin(), dims.end(), rank - static_cast<int64_t>(dims.size()));
    }
  }
  dims = wrapped(d, dims, rank);
  std::optional<sym::Expr> real_size;
  sym::Expr count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_given = i < sizes.size() && !sizes[i].is_const(-1);
    if (kind == Kind::HalfToReal && i + 1 == dims.size()) {
      real_size = is_given ? sizes[i] : (x.re.size(dims[i]) - 1) * 2;
      require_points(d, *real_size);
      count *= *real_size;
    } else {
      require_points(d, is_given ? sizes[i] : x.re.size(dims[i]));
      if (is_given) x = resized(x, dims[i], sizes[i]);
      count *= x.re.size(dims[i]);
    }
  }
  const std::string norm = a.has("norm") ? a.text("norm") : "backward";
  Scalar factor = 1.0;
  if (norm == "ortho") factor = inverse_root(count);
  if (norm == (forward ? "forward" : "backward")) factor = inverse_of(count);
  return transformed(x, dims, kind, forward, factor, real_size);
}

// ---- short-time transforms -------------------------------------------------------------------------------------------

struct Frames {
  int64_t size;  // n_fft
  int64_t hop;
  Tensor window;  // as long as a frame: a shorter one is centred
};

Frames frames_of(Decomposer& d, const Args& a, DType dtype) {
  Builder& b = d.b;
  const int64_t size = a.constant("n_fft");
  const int64_t hop = a.has("hop_length") ? a.constant("hop_length") : size / 4;
  const int64_t length = a.has("win_length") ? a.constant("win_length") : size;
  if (a.has("window") && is_complex_input(d, a.raw("window"))) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} with a complex window is not supported", a.schema().name));
  }
  Tensor window = a.has("window") ? b.cast(a.tensor("window"), dtype) : b.full({length}, dtype, 1.0);
  const int64_t left = (size - length) / 2;
  return {size, hop, b.pad(window, {left}, {size - length - left}, 0.0)};
}

// Spectra of overlapping frames: [batch?, frequencies, frames].
std::vector<Tensor> short_time_transform(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const DType dtype = part_dtype(a.tensor("self").dtype());
  Complex x = complex_argument(d, a, "self", dtype);
  const Frames frames = frames_of(d, a, dtype);
  auto padded = [&](sym::Expr before, sym::Expr after, const char* mode) {
    for (Tensor* part : {&x.re, &x.im}) {  // reflection wants a batch and channels
      const Sizes sizes = part->sizes();
      const Tensor rows = b.reshape(*part, {1, part->rank() == 1 ? sym::Expr(1) : sizes[0], sizes.back()});
      const Tensor wider = d.call1("aten::pad", {rows, Sizes{before, after}, mode});
      *part = part->rank() == 1 ? b.reshape(wider, {-1}) : b.reshape(wider, {sizes[0], -1});
    }
  };
  if (has_parameter(a, "center") && a.flag("center")) padded(frames.size / 2, frames.size / 2, a.text("pad_mode").c_str());
  if (has_parameter(a, "align_to_window") && a.has("align_to_window") && a.flag("align_to_window")) {
    const int64_t missing = frames.size - (a.has("win_length") ? a.constant("win_length") : frames.size);
    padded(missing / 2, missing - missing / 2, "constant");
  }
  auto windowed = [&](Tensor part) { return d.call1("aten::unfold", {part, -1, frames.size, frames.hop}) * frames.window; };
  const bool is_real = !is_complex_input(d, a.raw("self")), is_half = a.has("onesided") ? a.flag("onesided") : is_real;
  if (is_half && !is_real) throw Error(ErrorKind::InvalidModel, "stft of a complex tensor has all frequencies: onesided must be false");
  Complex y;
  if (is_real) {
    y = half_spectrum(windowed(x.re), true);
    if (!is_half) y = whole(y, y.re.rank() - 1, frames.size);
  } else {
    y = fourier_transform({windowed(x.re), windowed(x.im)}, true);
  }
  if (a.flag("normalized")) y = multiplied(y, 1 / std::sqrt(static_cast<double>(frames.size)));
  return {pairs_of({b.transpose(y.re, -1, -2), b.transpose(y.im, -1, -2)})};
}

// Frames [N, frames, size] added up where they overlap: [N, hop * (frames - 1) + size].
Tensor overlapped(Decomposer& d, Tensor frames, sym::Expr length, int64_t hop) {
  return d.call1("aten::unfold_backward", {frames, Sizes{frames.size(0), length}, 1, frames.size(2), hop});
}

// The signal of which these are the spectra: each frame is transformed back and weighted with the window again; the sum is
// divided by that of the squared windows.
std::vector<Tensor> inverse_short_time_transform(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const DType dtype = a.tensor("self").dtype();
  Complex x = complex_argument(d, a, "self", dtype);
  const bool has_batch = x.re.rank() == 3;
  const Frames frames = frames_of(d, a, dtype);
  for (Tensor* part : {&x.re, &x.im}) {  // [N, frames, frequencies]
    *part = b.transpose(has_batch ? *part : b.unsqueeze(*part, 0), 1, 2);
  }
  const sym::Expr count = x.re.size(1);
  const bool is_complex_result = a.flag("return_complex");
  if (is_complex_result && !x.re.size(2).is_const(frames.size)) {
    throw Error(ErrorKind::InvalidModel, "istft with return_complex needs all frequencies: onesided must be false");
  }
  const double factor = a.flag("normalized") ? 1 / std::sqrt(static_cast<double>(frames.size)) : 1 / static_cast<double>(frames.size);
  Complex y;
  if (is_complex_result) {
    y = multiplied(fourier_transform(x, false), factor);
  } else {
    y.re = multiplied(real_signal(resized(x, 2, frames.size / 2 + 1), frames.size, false), factor);
  }

  const sym::Expr length = (count - 1) * frames.hop + frames.size;
  const Tensor squares = b.expand(square(frames.window), {1, count, frames.size});
  const Tensor envelope = overlapped(d, squares, length, frames.hop);
  const sym::Expr start = a.flag("center") ? frames.size / 2 : 0;
  const sym::Expr end = a.has("length") ? start + a.integer("length") : a.flag("center") ? length - frames.size / 2 : length;
  const sym::Expr kept = sym::known_le(end, length) ? end - start : sym::min(end, length) - start;
  auto signal = [&](Tensor part) {
    const Tensor sum = overlapped(d, part * frames.window, length, frames.hop);
    Tensor result = b.slice(sum, 1, start, kept) / b.slice(envelope, 1, start, kept);
    if (!sym::known_eq(kept, end - start)) result = b.pad(result, {0, 0}, {0, end - start - kept}, 0.0);
    return has_batch ? result : b.squeeze(result, 0);
  };
  if (!is_complex_result) return {signal(y.re)};
  return {pairs_of({signal(y.re), signal(y.im)})};
}

constexpr DecompositionRow kComplexFourierRows[] = {
    {"aten::_fft_c2c", core_transform<Kind::ComplexToComplex>},
    {"aten::_fft_r2c", core_transform<Kind::RealToHalf>},
    {"aten::_fft_c2r", core_transform<Kind::HalfToReal>},
    {"aten::fft_fft", named_transform<Kind::ComplexToComplex, true>},
    {"aten::fft_fft2", named_transform<Kind::ComplexToComplex, true>},
    {"aten::fft_fftn", named_transform<Kind::ComplexToComplex, true>},
    {"aten::fft_ifft", named_transform<Kind::ComplexToComplex, false>},
    {"aten::fft_ifft2", named_transform<Kind::ComplexToComplex, false>},
    {"aten::fft_ifftn", named_transform<Kind::ComplexToComplex, false>},
    {"aten::fft_rfft", named_transform<Kind::RealToHalf, true>},
    {"aten::fft_rfft2", named_transform<Kind::RealToHalf, true>},
    {"aten::fft_rfftn", named_transform<Kind::RealToHalf, true>},
    {"aten::fft_irfft", named_transform<Kind::HalfToReal, false>},
    {"aten::fft_irfft2", named_transform<Kind::HalfToReal, false>},
    {"aten::fft_irfftn", named_transform<Kind::HalfToReal, false>},
    {"aten::stft", short_time_transform},
    {"aten::fft_hfft", named_transform<Kind::HalfToReal, true>},
    {"aten::fft_hfft2", named_transform<Kind::HalfToReal, true>},
    {"aten::fft_hfftn", named_transform<Kind::HalfToReal, true>},
    {"aten::fft_ihfft", named_transform<Kind::RealToHalf, false>},
    {"aten::fft_ihfft2", named_transform<Kind::RealToHalf, false>},
    {"aten::fft_ihfftn", named_transform<Kind::RealToHalf, false>},
    {"aten::stft.center", short_time_transform},
    {"aten::istft", inverse_short_time_transform},
};

}  // namespace

std::span<const DecompositionRow> complex_fourier_rows() { return kComplexFourierRows; }

}  // namespace toroid
