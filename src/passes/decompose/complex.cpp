#include "passes/decompose/complex.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "passes/decompose/formula.h"
#include "passes/decompose/fourier.h"
#include "passes/decompose/operands.h"
#include "passes/decompose/over_dims.h"
#include "support/error.h"

namespace toroid {
namespace {

DType part_dtype(DType dtype) {
  switch (dtype) {
    case DType::C32: return DType::F16;
    case DType::C64: return DType::F32;
    case DType::C128: return DType::F64;
    default: return dtype;
  }
}

bool is_complex_input(const Decomposer& d, const Argument& argument) {
  const auto* ref = std::get_if<InputRef>(&argument);
  return ref != nullptr && ref->index < d.argument_dtypes.size() && is_complex(d.argument_dtypes[ref->index]);
}

Complex parts(Tensor pairs) {
  Builder& b = pairs.builder();
  return {b.select(pairs, -1, 0), b.select(pairs, -1, 1)};
}

Tensor pairs_of(Complex x) { return x.re.builder().stack({x.re, x.im}, x.re.rank()); }

// A complex, real or number argument; `dtype` is that of the parts.
Complex complex_argument(Decomposer& d, const Args& a, std::string_view name, DType dtype) {
  Complex x;
  if (is_complex_input(d, a.raw(name))) {
    x = parts(a.tensor(name));
  } else {
    x.re = operand(d, a, name, dtype);
    x.im = d.b.full(x.re.sizes(), dtype, 0.0);
  }
  return {d.b.cast(x.re, dtype), d.b.cast(x.im, dtype)};
}

// The dtype of the first result's parts.
DType result_part(const Decomposer& d, const Args& a) {
  if (!d.recorded.empty()) return part_dtype(d.recorded[0].dtype);
  for (const Parameter& parameter : a.schema().parameters) {
    if (is_complex_input(d, a.raw(parameter.name))) return a.tensor(parameter.name).dtype();
  }
  return DType::F32;
}

// ---- part by part ---------------------------------------------------------------------------------------------------

// Views, sums and what else does the same to both parts.
std::vector<Tensor> by_part(Decomposer& d, const Args& a) {
  std::vector<std::vector<Tensor>> results;
  for (int64_t part = 0; part < 2; ++part) {
    std::vector<Decomposer::Value> values;
    for (const Parameter& parameter : a.schema().parameters) {
      const Argument& argument = a.raw(parameter.name);
      if (is_complex_input(d, argument)) {
        values.emplace_back(d.b.select(a.tensor(parameter.name), -1, part));
      } else if (const auto* list = std::get_if<InputList>(&argument)) {
        std::vector<Tensor> tensors = a.optional_tensors(parameter.name);
        for (size_t i = 0; i < tensors.size(); ++i) {
          if ((*list)[i] && is_complex_input(d, *(*list)[i])) tensors[i] = d.b.select(tensors[i], -1, part);
        }
        values.emplace_back(tensors);
      } else if (parameter.type == ArgType::Tensor) {
        values.emplace_back(a.optional_tensor(parameter.name));
      } else if (const auto* dtype = std::get_if<DType>(&argument)) {
        values.emplace_back(part_dtype(*dtype));
      } else {
        values.emplace_back(argument);
      }
    }
    results.push_back(d.call(a.schema().name, std::move(values)));
  }
  std::vector<Tensor> joined;
  for (size_t i = 0; i < results[0].size(); ++i) joined.push_back(pairs_of({results[0][i], results[1][i]}));
  return joined;
}

std::vector<Tensor> as_is(Decomposer&, const Args& a) { return {a.tensor(parameter(a, 0))}; }

std::vector<Tensor> from_parts(Decomposer&, const Args& a) { return {pairs_of({a.tensor("real"), a.tensor("imag")})}; }

std::vector<Tensor> polar(Decomposer&, const Args& a) {
  Tensor length = a.tensor("abs"), angle = a.tensor("angle");
  return {pairs_of({length * cos(angle), length * sin(angle)})};
}

std::vector<Tensor> real_part(Decomposer&, const Args& a) { return {parts(a.tensor("self")).re}; }
std::vector<Tensor> imaginary_part(Decomposer&, const Args& a) { return {parts(a.tensor("self")).im}; }

std::vector<Tensor> conjugate(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {pairs_of({x.re, -x.im})};
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

Complex product(Complex x, Complex y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

template <class F>
std::vector<Tensor> binary(Decomposer& d, const Args& a, F f) {
  const DType dtype = result_part(d, a);
  Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "other", dtype);
  const Complex result = f(x, y);
  const Sizes sizes = d.b.broadcast(result.re.sizes(), result.im.sizes());
  return {pairs_of({d.b.expand(result.re, sizes), d.b.expand(result.im, sizes)})};
}

double alpha_of(const Args& a) { return has_parameter(a, "alpha") ? a.number("alpha") : 1.0; }

std::vector<Tensor> add(Decomposer& d, const Args& a) {
  const double alpha = alpha_of(a);
  return binary(d, a, [&](Complex x, Complex y) { return Complex{x.re + y.re * alpha, x.im + y.im * alpha}; });
}
std::vector<Tensor> subtract(Decomposer& d, const Args& a) {
  const double alpha = alpha_of(a);
  return binary(d, a, [&](Complex x, Complex y) { return Complex{x.re - y.re * alpha, x.im - y.im * alpha}; });
}
std::vector<Tensor> multiply(Decomposer& d, const Args& a) { return binary(d, a, product); }
std::vector<Tensor> divide(Decomposer& d, const Args& a) {
  return binary(d, a, [&](Complex x, Complex y) {
    // Scaled by the larger part, so that squares neither overflow nor vanish.
    Tensor scale = maximum(abs(y.re), abs(y.im));
    const Complex small = {y.re / scale, -(y.im / scale)};
    Tensor square = (small.re * small.re + small.im * small.im) * scale;
    const Complex numerator = product(x, small);
    return Complex{numerator.re / square, numerator.im / square};
  });
}

std::vector<Tensor> absolute(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {apply(ScalarOp::Hypot, x.re, x.im)};
}
std::vector<Tensor> angle(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {apply(ScalarOp::Atan2, x.im, x.re)};
}
std::vector<Tensor> exponential(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  Tensor length = exp(x.re);
  return {pairs_of({length * cos(x.im), length * sin(x.im)})};
}

// ---- Fourier transforms ---------------------------------------------------------------------------------------------

Complex along_dim(Complex x, int64_t dim, bool forward) {
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
  Sizes low(static_cast<size_t>(x.rank()), 0), high = low;
  high[static_cast<size_t>(dim)] = size - have;
  return b.pad(x, low, high, 0.0);
}

Complex resized(Complex x, int64_t dim, sym::Expr size) { return {resized(x.re, dim, size), resized(x.im, dim, size)}; }

Complex scaled(Complex x, double factor) { return factor == 1 ? x : Complex{x.re * factor, x.im * factor}; }

double count_of(sym::Expr count) {
  if (!count.is_const()) throw Error(ErrorKind::Unsupported, "a Fourier transform over a symbolic size");
  return static_cast<double>(count.value());
}

// The first n/2 + 1 elements; the others are their conjugates.
Complex half(Complex x, int64_t dim) { return resized(x, dim, sym::floor_div(x.re.size(dim), 2) + 1); }

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
std::vector<Tensor> transformed(Complex x, const Dims& dims, Kind kind, bool forward, double factor,
                                std::optional<sym::Expr> real_size = std::nullopt) {
  if (kind == Kind::HalfToReal) {
    for (size_t i = 0; i + 1 < dims.size(); ++i) x = along_dim(x, dims[i], forward);
    x = along_dim(whole(x, dims.back(), *real_size), dims.back(), forward);
    return {scaled(x, factor).re};
  }
  for (size_t i = dims.size(); i-- > 0;) {
    x = along_dim(x, dims[i], forward);
    if (kind == Kind::RealToHalf && i + 1 == dims.size()) x = half(x, dims[i]);
  }
  return {pairs_of(scaled(x, factor))};
}

// What the core operators' normalization says: nothing, the root of the count, the count.
double factor_of(int64_t normalization, double count) {
  return normalization == 1 ? 1 / std::sqrt(count) : normalization == 2 ? 1 / count : 1.0;
}

double count_over(Tensor x, const Dims& dims) {
  double count = 1;
  for (int64_t dim : dims) count *= count_of(x.size(dim));
  return count;
}

Dims wrapped(Decomposer& d, Dims dims, int64_t rank) {
  for (int64_t& dim : dims) dim = d.b.wrap_dim(dim, rank);
  return dims;
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
    Dims others(dims.begin(), dims.end() - 1);
    const double count = count_over(x.re, others) * count_of(size);
    return transformed(x, dims, kind, false, factor_of(normalization, count), size);
  } else {
    const double factor = factor_of(normalization, count_over(x.re, dims));
    if constexpr (kind == Kind::ComplexToComplex) return transformed(x, dims, kind, a.flag("forward"), factor);
    return transformed(x, dims, a.flag("onesided") ? Kind::RealToHalf : Kind::RealToComplex, true, factor);
  }
}

// torch.fft's functions over one dim (n, dim) or several (s, dim), normalised by name.
template <Kind kind, bool forward>
std::vector<Tensor> named_transform(Decomposer& d, const Args& a) {
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
  double count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_given = i < sizes.size() && !sizes[i].is_const(-1);
    if (kind == Kind::HalfToReal && i + 1 == dims.size()) {
      real_size = is_given ? sizes[i] : (x.re.size(dims[i]) - 1) * 2;
      count *= count_of(*real_size);
    } else {
      if (is_given) x = resized(x, dims[i], sizes[i]);
      count *= count_of(x.re.size(dims[i]));
    }
  }
  const std::string norm = a.has("norm") ? a.text("norm") : "backward";
  double factor = 1;
  if (norm == "ortho") factor = 1 / std::sqrt(count);
  if (norm == (forward ? "forward" : "backward")) factor = 1 / count;
  return transformed(x, dims, kind, forward, factor, real_size);
}

// Spectra of overlapping frames: [batch?, frequencies, frames].
std::vector<Tensor> short_time_transform(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  const int64_t size = a.constant("n_fft");
  const int64_t hop = a.has("hop_length") ? a.constant("hop_length") : size / 4;
  const int64_t length = a.has("win_length") ? a.constant("win_length") : size;
  Tensor window = a.has("window") ? b.cast(a.tensor("window"), x.dtype()) : b.full({length}, x.dtype(), 1.0);
  const int64_t left = (size - length) / 2;
  window = b.pad(window, {left}, {size - length - left}, 0.0);
  Tensor frames = d.call1("aten::unfold", {x, -1, size, hop}) * window;
  Complex y = fourier_transform({frames, b.full(frames.sizes(), frames.dtype(), 0.0)}, true);
  if (!a.has("onesided") || a.flag("onesided")) y = half(y, frames.rank() - 1);
  if (a.flag("normalized")) y = scaled(y, 1 / std::sqrt(static_cast<double>(size)));
  const Complex result = {b.transpose(y.re, -1, -2), b.transpose(y.im, -1, -2)};
  return {pairs_of(result)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::view_as_real", as_is},
    {"aten::view_as_real_copy", as_is},
    {"aten::view_as_complex", as_is},
    {"aten::view_as_complex_copy", as_is},
    {"aten::complex", from_parts},
    {"aten::polar", polar},
    {"aten::real", real_part},
    {"aten::imag", imaginary_part},
    {"aten::conj", conjugate},
    {"aten::_conj", conjugate},
    {"aten::_conj_physical", conjugate},
    {"aten::conj_physical", conjugate},
    {"aten::resolve_conj", as_is},
    {"aten::resolve_neg", as_is},
    {"aten::abs", absolute},
    {"aten::angle", angle},
    {"aten::exp", exponential},
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", subtract},
    {"aten::sub.Scalar", subtract},
    {"aten::mul.Tensor", multiply},
    {"aten::mul.Scalar", multiply},
    {"aten::div.Tensor", divide},
    {"aten::div.Scalar", divide},

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

    {"aten::alias", by_part},
    {"aten::cat", by_part},
    {"aten::clone", by_part},
    {"aten::contiguous", by_part},
    {"aten::detach", by_part},
    {"aten::expand", by_part},
    {"aten::flatten.using_ints", by_part},
    {"aten::flip", by_part},
    {"aten::mean.dim", by_part},
    {"aten::neg", by_part},
    {"aten::permute", by_part},
    {"aten::reshape", by_part},
    {"aten::roll", by_part},
    {"aten::select.int", by_part},
    {"aten::slice.Tensor", by_part},
    {"aten::split.Tensor", by_part},
    {"aten::squeeze.dim", by_part},
    {"aten::stack", by_part},
    {"aten::sum", by_part},
    {"aten::sum.dim_IntList", by_part},
    {"aten::t", by_part},
    {"aten::transpose.int", by_part},
    {"aten::unsqueeze", by_part},
    {"aten::view", by_part},
};

}  // namespace

bool has_complex_values(const Graph& graph, const Node& node) {
  auto is_complex_value = [&](ValueId id) { return is_complex(graph.type(id).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_complex_value) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_complex_value);
}

Decomposition find_complex_decomposition(const Schema& schema) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Decomposition> rows;
    for (const DecompositionRow& row : kRows) rows.emplace(row.op, row.function);
    return rows;
  }();
  const auto row = table.find(schema.name);
  return row == table.end() ? nullptr : row->second;
}

bool is_supported(const Schema& schema) {
  return find_decomposition(schema) != nullptr || find_complex_decomposition(schema) != nullptr;
}

TensorType type_of_pairs(const TensorType& type) {
  TensorType pairs{.dtype = part_dtype(type.dtype), .sizes = type.sizes};
  pairs.sizes.emplace_back(2);
  return pairs;
}

void require_real_boundary(const TensorType& type, std::string_view what, std::string_view name) {
  if (!is_complex(type.dtype)) return;
  throw Error(ErrorKind::Unsupported, fmt::format("{} '{}' is complex ({})", what, name, to_string(type.dtype)))
      .help("pass pairs of real numbers through torch.view_as_complex and torch.view_as_real");
}

}  // namespace toroid
