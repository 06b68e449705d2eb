#include "interp/products.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "interp/movement.h"

namespace toroid {
namespace {

// Integers are multiplied as uint64_t, whose overflow wraps.
template <class Wide>
std::vector<Wide> factors_of(const HostTensor& tensor) {
  if constexpr (std::is_same_v<Wide, double>) {
    return tensor.to_doubles();
  } else {
    const std::vector<int64_t> values = tensor.to_ints();
    return {values.begin(), values.end()};
  }
}
template <class Wide>
HostTensor products_as(DType dtype, std::vector<int64_t> sizes, const std::vector<Wide>& values) {
  if constexpr (std::is_same_v<Wide, double>) {
    return HostTensor::from_doubles(dtype, std::move(sizes), values);
  } else {
    std::vector<int64_t> integers(values.begin(), values.end());
    if (dtype == DType::Bool) {
      for (int64_t& value : integers) value = value != 0;
    }
    return HostTensor::from_ints(dtype, std::move(sizes), integers);
  }
}

// out[m, n] += a[m, k] b[k, n]
template <class Wide>
void multiply(const Wide* a, const Wide* b, Wide* out, size_t m, size_t n, size_t k) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t l = 0; l < k; ++l) {
      const Wide factor = a[i * k + l];
      const Wide* row = b + l * n;
      Wide* to = out + i * n;
      for (size_t j = 0; j < n; ++j) to[j] += factor * row[j];
    }
  }
}

template <class Wide>
HostTensor matmul_wide(const HostTensor& a, const HostTensor& b) {
  std::vector<int64_t> sizes = a.sizes();
  sizes.back() = b.sizes().back();
  const auto m = static_cast<size_t>(sizes[sizes.size() - 2]);
  const auto n = static_cast<size_t>(sizes.back());
  const auto k = static_cast<size_t>(a.sizes().back());
  const auto batches = static_cast<size_t>(numel(std::span(sizes).first(sizes.size() - 2)));
  const std::vector<Wide> left = factors_of<Wide>(a);
  const std::vector<Wide> right = factors_of<Wide>(b);
  std::vector<Wide> out(batches * m * n, Wide{0});
  for (size_t batch = 0; batch < batches; ++batch) {
    multiply(left.data() + batch * m * k, right.data() + batch * k * n, out.data() + batch * m * n, m, n, k);
  }
  return products_as(a.dtype(), std::move(sizes), out);
}

// Every convolution is one over three spatial dims: missing ones have size 1.
struct Spatial {
  int64_t in[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t out[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
};
int64_t volume(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

Spatial spatial_sizes(const HostTensor& x, const HostTensor& weight, const ConvolutionSizes& how, std::span<const int64_t> out) {
  Spatial s;
  const size_t count = how.stride.size();
  TOROID_CHECK(count >= 1 && count <= 3, "a convolution over {} dims", count);
  for (size_t d = 0; d < count; ++d) {
    const size_t to = 3 - count + d;
    s.in[to] = x.sizes()[d + 2];
    s.kernel[to] = weight.sizes()[d + 2];
    s.out[to] = out[d + 2];
    s.stride[to] = how.stride[d];
    s.padding[to] = how.padding[d];
    s.dilation[to] = how.dilation[d];
  }
  return s;
}

// The range of i in [0, count) for which 0 <= i*step + shift < limit.
struct Span {
  int64_t begin;
  int64_t end;
};
Span places_inside(int64_t count, int64_t step, int64_t shift, int64_t limit) {
  auto steps_over = [&](int64_t distance) { return distance <= 0 ? 0 : (distance - 1) / step + 1; };  // a step may be of any size
  const int64_t begin = steps_over(-shift), end = steps_over(limit - shift);
  return {begin, std::min(count, end)};
}

// For one kernel element: the coarse side (a convolution's output, a transposed one's input) has element o beside
// element o*stride + k*dilation - padding of the fine side. `move` is called with runs along the last dim.
template <class F>
void for_each_run(const Spatial& s, const int64_t (&coarse)[3], const int64_t (&fine)[3], const int64_t (&k)[3], F move) {
  int64_t shift[3];
  Span span[3];
  for (int d = 0; d < 3; ++d) {
    shift[d] = k[d] * s.dilation[d] - s.padding[d];
    span[d] = places_inside(coarse[d], s.stride[d], shift[d], fine[d]);
  }
  const int64_t length = span[2].end - span[2].begin;
  if (length <= 0) return;
  for (int64_t z = span[0].begin; z < span[0].end; ++z) {
    for (int64_t y = span[1].begin; y < span[1].end; ++y) {
      const int64_t coarse_at = (z * coarse[1] + y) * coarse[2] + span[2].begin;
      const int64_t fine_at =
          ((z * s.stride[0] + shift[0]) * fine[1] + y * s.stride[1] + shift[1]) * fine[2] + span[2].begin * s.stride[2] + shift[2];
      move(coarse_at, fine_at, length);
    }
  }
}

// The output's elements that read padding with this kernel element, as for_each_run visits the others.
template <class F>
void for_each_padded(const Spatial& s, const int64_t (&k)[3], F visit) {
  int64_t at = 0;
  for (int64_t z = 0; z < s.out[0]; ++z) {
    for (int64_t y = 0; y < s.out[1]; ++y) {
      for (int64_t x = 0; x < s.out[2]; ++x, ++at) {
        const int64_t place[3] = {z, y, x};
        bool is_inside = true;
        for (int d = 0; d < 3; ++d) {
          const int64_t from = place[d] * s.stride[d] + k[d] * s.dilation[d] - s.padding[d];
          is_inside = is_inside && from >= 0 && from < s.in[d];
        }
        if (!is_inside) visit(at);
      }
    }
  }
}

template <class Wide>
HostTensor convolution_wide(const HostTensor& x, const HostTensor& weight, const HostTensor* bias, const ConvolutionSizes& how,
                            std::vector<int64_t> sizes) {
  const Spatial s = spatial_sizes(x, weight, how, sizes);
  const int64_t batches = sizes[0];
  const int64_t in_channels = x.sizes()[1];
  const int64_t out_channels = sizes[1];
  const int64_t in_a_group = in_channels / how.groups;
  const int64_t out_a_group = out_channels / how.groups;
  const std::vector<Wide> in = factors_of<Wide>(x);
  const std::vector<Wide> w = factors_of<Wide>(weight);
  std::vector<Wide> out(static_cast<size_t>(numel(sizes)), Wide{0});
  if (bias != nullptr) {
    const std::vector<Wide> b = factors_of<Wide>(*bias);
    for (size_t i = 0; i < out.size(); ++i) out[i] = b[(i / static_cast<size_t>(volume(s.out))) % b.size()];
  }

  for (int64_t n = 0; n < batches; ++n) {
    for (int64_t oc = 0; oc < out_channels; ++oc) {
      Wide* to = out.data() + (n * out_channels + oc) * volume(s.out);
      for (int64_t c = 0; c < in_a_group; ++c) {
        const int64_t ic = oc / out_a_group * in_a_group + c;
        const Wide* from = in.data() + (n * in_channels + ic) * volume(s.in);
        // Weights are [O, C/groups, …]; transposed ones [C, O/groups, …].
        const int64_t filter = how.transposed ? ic * out_a_group + oc % out_a_group : oc * in_a_group + c;
        const Wide* factor = w.data() + filter * volume(s.kernel);
        int64_t k[3];
        for (k[0] = 0; k[0] < s.kernel[0]; ++k[0]) {
          for (k[1] = 0; k[1] < s.kernel[1]; ++k[1]) {
            for (k[2] = 0; k[2] < s.kernel[2]; ++k[2]) {
              const Wide f = *factor++;
              const int64_t step = s.stride[2];
              if (how.transposed) {
                for_each_run(s, s.in, s.out, k, [&](int64_t coarse, int64_t fine, int64_t length) {
                  for (int64_t i = 0; i < length; ++i) to[fine + i * step] += f * from[coarse + i];
                });
              } else {
                for_each_run(s, s.out, s.in, k, [&](int64_t coarse, int64_t fine, int64_t length) {
                  for (int64_t i = 0; i < length; ++i) to[coarse + i] += f * from[fine + i * step];
                });
                // Padding is a zero that takes part: times infinity it is NaN.
                if (!(f - f == Wide{0})) for_each_padded(s, k, [&](int64_t i) { to[i] += f * Wide{0}; });
              }
            }
          }
        }
      }
    }
  }
  return products_as(x.dtype(), std::move(sizes), out);
}

// In place; a row of -infinity alone, which looks nowhere, becomes 0.
void softmax(std::span<double> row) {
  double high = -std::numeric_limits<double>::infinity();
  for (double x : row) high = std::isnan(x) || x > high ? x : high;
  if (high == -std::numeric_limits<double>::infinity()) {
    std::fill(row.begin(), row.end(), 0.0);
    return;
  }
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - high);
  for (double& x : row) x /= sum;
}

}  // namespace

HostTensor matmul(const HostTensor& a, const HostTensor& b) {
  return is_floating(a.dtype()) ? matmul_wide<double>(a, b) : matmul_wide<uint64_t>(a, b);
}

HostTensor convolution(const HostTensor& x, const HostTensor& weight, const HostTensor* bias, const ConvolutionSizes& how,
                       std::vector<int64_t> sizes) {
  return is_floating(x.dtype()) ? convolution_wide<double>(x, weight, bias, how, std::move(sizes))
                                : convolution_wide<uint64_t>(x, weight, bias, how, std::move(sizes));
}

HostTensor attention_product(const HostTensor& q, const HostTensor& k) {
  const std::vector<int64_t>&s = q.sizes(), &of_keys = k.sizes();
  TOROID_CHECK(s.size() == 4 && of_keys.size() == 4 && of_keys[1] > 0 && s[1] % of_keys[1] == 0, "the product of {} and {}", to_string(q),
               to_string(k));
  const int64_t group = s[1] / of_keys[1], queries = s[2], keys = of_keys[2], width = s[3];
  const std::vector<double> query = q.to_doubles(), key = k.to_doubles();
  std::vector<int64_t> sizes = {s[0], s[1], queries, keys};
  std::vector<double> out(static_cast<size_t>(numel(sizes)));
  for (int64_t b = 0; b < s[0] * s[1]; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        const double *q_row = query.data() + (b * queries + i) * width, *k_row = key.data() + (b / group * keys + j) * width;
        double dot = 0;
        for (int64_t e = 0; e < width; ++e) dot += q_row[e] * k_row[e];
        out[static_cast<size_t>((b * queries + i) * keys + j)] = dot;
      }
    }
  }
  return HostTensor::from_doubles(DType::F32, std::move(sizes), out);
}

HostTensor attention_of_scores(const HostTensor& scores, const HostTensor& v, bool nan_of_nothing) {
  const std::vector<int64_t>&s = scores.sizes(), &of_values = v.sizes();
  TOROID_CHECK(s.size() == 4 && of_values.size() == 4 && of_values[1] > 0 && s[1] % of_values[1] == 0, "attention of scores {} and {}",
               to_string(scores), to_string(v));
  const int64_t group = s[1] / of_values[1], queries = s[2], keys = s[3], width = of_values[3];
  std::vector<double> weights = scores.to_doubles();
  const std::vector<double> value = v.to_doubles();
  std::vector<int64_t> sizes = {s[0], s[1], queries, width};
  std::vector<double> out(static_cast<size_t>(numel(sizes)), 0);
  for (int64_t r = 0; r < s[0] * s[1] * queries; ++r) {
    const std::span<double> row(weights.data() + r * keys, static_cast<size_t>(keys));
    const bool sees_nothing = std::all_of(row.begin(), row.end(), [](double x) { return x == -std::numeric_limits<double>::infinity(); });
    softmax(row);
    double* const to = out.data() + r * width;
    multiply(row.data(), value.data() + r / queries / group * keys * width, to, 1, static_cast<size_t>(width), static_cast<size_t>(keys));
    if (sees_nothing && nan_of_nothing) std::fill_n(to, width, std::nan(""));
  }
  return HostTensor::from_doubles(v.dtype(), std::move(sizes), out);
}

HostTensor attention(const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor* mask, bool causal, double scale) {
  const size_t rank = q.sizes().size();
  TOROID_CHECK(rank >= 2 && k.sizes().size() == rank && v.sizes().size() == rank, "attention of {}, {} and {}", to_string(q), to_string(k),
               to_string(v));
  const int64_t queries = q.sizes()[rank - 2];
  const int64_t keys = k.sizes()[rank - 2];
  const int64_t width = q.sizes()[rank - 1];
  const int64_t out_width = v.sizes()[rank - 1];
  const std::span<const int64_t> batch_sizes = std::span(q.sizes()).first(rank - 2);
  const int64_t batches = numel(batch_sizes);
  int64_t group = 1;  // heads of q for one of k and v
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (d + 3 == rank && k.sizes()[d] > 0 && batch_sizes[d] % k.sizes()[d] == 0) group = batch_sizes[d] / k.sizes()[d];
    TOROID_CHECK(k.sizes()[d] * (d + 3 == rank ? group : 1) == batch_sizes[d] && v.sizes()[d] == k.sizes()[d], "attention of {}, {} and {}",
                 to_string(q), to_string(k), to_string(v));
  }
  std::vector<int64_t> score_sizes(batch_sizes.begin(), batch_sizes.end());
  score_sizes.insert(score_sizes.end(), {queries, keys});

  const std::vector<double> query = q.to_doubles();
  const std::vector<double> key = k.to_doubles();
  const std::vector<double> value = v.to_doubles();
  std::vector<double> bias;
  if (mask != nullptr) {
    std::vector<int64_t> padded(rank - mask->sizes().size(), 1);
    padded.insert(padded.end(), mask->sizes().begin(), mask->sizes().end());
    bias = expand(mask->reshaped(padded), score_sizes).to_doubles();
    if (mask->dtype() == DType::Bool) {
      for (double& x : bias) x = x != 0 ? 0 : -std::numeric_limits<double>::infinity();
    }
  }

  std::vector<int64_t> sizes = q.sizes();
  sizes.back() = out_width;
  std::vector<double> out(static_cast<size_t>(numel(sizes)), 0);
  std::vector<double> scores(static_cast<size_t>(keys));
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      const double* q_row = query.data() + (b * queries + i) * width;
      for (int64_t j = 0; j < keys; ++j) {
        const double* k_row = key.data() + (b / group * keys + j) * width;
        double dot = 0;
        for (int64_t e = 0; e < width; ++e) dot += q_row[e] * k_row[e];
        double score = dot * scale;
        if (mask != nullptr) score += bias[static_cast<size_t>((b * queries + i) * keys + j)];
        if (causal && j > i) score = -std::numeric_limits<double>::infinity();
        scores[static_cast<size_t>(j)] = score;
      }
      softmax(scores);
      double* to = out.data() + (b * queries + i) * out_width;
      multiply(scores.data(), value.data() + b / group * keys * out_width, to, 1, static_cast<size_t>(out_width),
               static_cast<size_t>(keys));
    }
  }
  return HostTensor::from_doubles(q.dtype(), std::move(sizes), out);
}

}  // namespace toroid
