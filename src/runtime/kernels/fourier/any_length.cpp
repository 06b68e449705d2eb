#include "runtime/kernels/fourier/any_length.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "library/roots_of_unity.h"

namespace toroid::any_length_fourier {
namespace {

using Complex = std::complex<double>;

// A factor of this size or more costs more in a plain sum than Bluestein's three transforms.
constexpr int64_t kLargestFactor = 61;

// Factors in ascending order, fours before twos; the last one may be large.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

// The forward transform of `n` complex numbers.
class Transform {
 public:
  explicit Transform(int64_t n) : n_(n), factors_(factors_of(n)) {
    if (!factors_.empty() && factors_.back() > kLargestFactor) {
      prepare_chirp();
      return;
    }
    for (int64_t k = 0; k < n; ++k) roots_.push_back(root_of_unity(k, n));
  }

  // `out` is another array than `in`.
  void run(const Complex* in, Complex* out) const {
    if (convolution_) return run_chirp(in, out);
    factored(in, out, 1, 0);
  }

 private:
  // Element j of the input is in[j*step]: transforms of every p-th element, then sums of p terms between them.
  void factored(const Complex* in, Complex* out, int64_t step, size_t level) const {
    if (level == factors_.size()) {
      *out = *in;
      return;
    }
    const int64_t p = factors_[level], m = n_ / step / p;
    for (int64_t q = 0; q < p; ++q) factored(in + q * step, out + q * m, step * p, level + 1);
    Complex terms[kLargestFactor + 1];
    for (int64_t u = 0; u < m; ++u) {
      for (int64_t q = 0; q < p; ++q) terms[q] = product(out[u + q * m], roots_[static_cast<size_t>(q * u * step % n_)]);
      for (int64_t k = 0; k < p; ++k) {
        Complex sum = terms[0];
        for (int64_t q = 1; q < p; ++q) sum += product(terms[q], roots_[static_cast<size_t>(q * k % p * (n_ / p))]);
        out[u + k * m] = sum;
      }
    }
  }

  // Without the checks for infinities that C++ asks of operator*.
  static Complex product(Complex a, Complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  // j*k = (j^2 + k^2 - (k-j)^2)/2: X[k] = c[k] sum over j of (x[j] c[j]) conj(c[k-j]), for c[j] = exp(-pi i j^2 / n).
  void prepare_chirp() {
    size_ = 1;
    while (size_ < 2 * n_ - 1) size_ *= 2;
    convolution_ = std::make_unique<Transform>(size_);
    int64_t square = 0;  // j^2 mod 2n
    for (int64_t j = 0; j < n_; ++j) {
      roots_.push_back(root_of_unity(square, 2 * n_));
      square = (square + 2 * j + 1) % (2 * n_);
    }
    std::vector<Complex> chirp(static_cast<size_t>(size_));
    for (int64_t j = 0; j < n_; ++j) {
      chirp[static_cast<size_t>(j)] = chirp[static_cast<size_t>((size_ - j) % size_)] = std::conj(roots_[static_cast<size_t>(j)]);
    }
    chirp_.resize(chirp.size());
    convolution_->run(chirp.data(), chirp_.data());
  }

  void run_chirp(const Complex* in, Complex* out) const {
    std::vector<Complex> a(chirp_.size()), b(chirp_.size());
    for (size_t j = 0; j < static_cast<size_t>(n_); ++j) a[j] = product(in[j], roots_[j]);
    convolution_->run(a.data(), b.data());
    // The transform back is the conjugate of that of conjugates.
    for (size_t j = 0; j < b.size(); ++j) b[j] = std::conj(product(b[j], chirp_[j]));
    convolution_->run(b.data(), a.data());
    for (size_t j = 0; j < static_cast<size_t>(n_); ++j) out[j] = product(std::conj(a[j]) / static_cast<double>(size_), roots_[j]);
  }

  int64_t n_;
  std::vector<int64_t> factors_;
  std::vector<Complex> roots_;              // of n; of 2n at squares for a chirp
  std::unique_ptr<Transform> convolution_;  // of a power of two
  int64_t size_ = 0;
  std::vector<Complex> chirp_;  // transformed
};

// ---- rows ------------------------------------------------------------------------------------------------------------

// A row of complex numbers whose elements are finite, and what is not apart.
struct Row {
  std::vector<Complex> finite;
  std::vector<Term> rest;

  explicit Row(int64_t n) : finite(static_cast<size_t>(n)) {}

  void set(int64_t j, double re, double im) {
    const bool re_fits = std::isfinite(re), im_fits = std::isfinite(im);
    finite[static_cast<size_t>(j)] = {re_fits ? re : 0.0, im_fits ? im : 0.0};
    if (!re_fits || !im_fits) rest.push_back({j, re_fits ? 0.0 : re, im_fits ? 0.0 : im});
  }
};

template <class T>
const T* elements(const LibraryInput& input, int64_t row) {
  return reinterpret_cast<const T*>(input.data) + row * input.sizes.back();
}
template <class T>
T* elements(const LibraryOutput& output, int64_t row) {
  return reinterpret_cast<T*>(output.data) + row * output.sizes.back();
}

// set(row, j's elements) and get(number of the row, its transform) for every row.
template <class T, class Set, class Get>
void transform_rows(const LibraryCall& call, int64_t n, int64_t rows, const Set& set, const Get& get) {
  const Transform transform(n);
  call.in_pieces(rows, [&](int64_t begin, int64_t end) {
    std::vector<Complex> out(static_cast<size_t>(n));
    std::vector<double> re(out.size()), im(out.size());
    for (int64_t r = begin; r < end; ++r) {
      Row row(n);
      set(r, row);
      transform.run(row.finite.data(), out.data());
      for (size_t k = 0; k < out.size(); ++k) re[k] = out[k].real(), im[k] = out[k].imag();
      add_terms(row.rest, n, re.data(), im.data(), n);
      get(r, re.data(), im.data());
    }
  });
}

template <class T>
void transform_of(const LibraryCall& call, int64_t rows) {
  const int64_t n = call.inputs[0].sizes.back();
  // The transform back is the forward one with real and imaginary parts exchanged.
  const size_t first = call.attributes[0] == 0 ? 1 : 0;
  transform_rows<T>(
      call, n, rows,
      [&](int64_t r, Row& row) {
        const T *re = elements<T>(call.inputs[first], r), *im = elements<T>(call.inputs[1 - first], r);
        for (int64_t j = 0; j < n; ++j) row.set(j, static_cast<double>(re[j]), static_cast<double>(im[j]));
      },
      [&](int64_t r, const double* re, const double* im) {
        std::transform(re, re + n, elements<T>(call.outputs[first], r), [](double x) { return static_cast<T>(x); });
        std::transform(im, im + n, elements<T>(call.outputs[1 - first], r), [](double x) { return static_cast<T>(x); });
      });
}

template <class T>
void half_of(const LibraryCall& call, int64_t rows) {
  const int64_t n = call.inputs[0].sizes.back(), half = n / 2 + 1;
  const double sign = call.attributes[0] == 0 ? -1 : 1;
  transform_rows<T>(
      call, n, rows,
      [&](int64_t r, Row& row) {
        const T* x = elements<T>(call.inputs[0], r);
        for (int64_t j = 0; j < n; ++j) row.set(j, static_cast<double>(x[j]), 0.0);
      },
      [&](int64_t r, const double* re, const double* im) {
        T *out_re = elements<T>(call.outputs[0], r), *out_im = elements<T>(call.outputs[1], r);
        for (int64_t k = 0; k < half; ++k) {
          out_re[k] = static_cast<T>(re[k]);
          out_im[k] = is_own_conjugate(k, n) ? T(0) : static_cast<T>(sign * im[k]);
        }
      });
}

template <class T>
void real_of(const LibraryCall& call, int64_t rows) {
  const int64_t n = call.outputs[0].sizes.back();
  const double sign = call.attributes[0] == 0 ? -1 : 1;
  transform_rows<T>(
      call, n, rows,
      [&](int64_t r, Row& row) {
        const T *re = elements<T>(call.inputs[0], r), *im = elements<T>(call.inputs[1], r);
        for (int64_t k = 0; k <= n / 2; ++k) {
          const double x = static_cast<double>(re[k]), y = is_own_conjugate(k, n) ? 0.0 : sign * static_cast<double>(im[k]);
          row.set(k, x, y);
          if (!is_own_conjugate(k, n)) row.set(n - k, x, -y);
        }
      },
      [&](int64_t r, const double* re, const double*) {
        std::transform(re, re + n, elements<T>(call.outputs[0], r), [](double x) { return static_cast<T>(x); });
      });
}

int64_t rows_of(const LibraryOutput& out) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < out.sizes.size(); ++d) rows *= out.sizes[d];
  return out.sizes.back() == 0 ? 0 : rows;
}

template <class F32, class F64>
void by_dtype(const LibraryCall& call, F32 f32, F64 f64) {
  const DType dtype = call.inputs[0].dtype;
  TOROID_CHECK(dtype == DType::F32 || dtype == DType::F64, "a Fourier transform of {}", to_string(dtype));
  const int64_t rows = rows_of(call.outputs[0]);
  if (rows > 0) dtype == DType::F32 ? f32(call, rows) : f64(call, rows);
}

}  // namespace

template <class T>
void add_terms(Span<const Term> terms, int64_t n, T* re, T* im, int64_t count) {
  // Sums that are NaN already stay so.
  std::vector<int64_t> left(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) left[static_cast<size_t>(k)] = k;
  const auto times = [](double part, double factor) { return part == 0 || factor == 0 ? 0.0 : part * factor; };
  for (const Term& term : terms) {
    const auto is_nan = [&](int64_t k) { return std::isnan(re[k]) && (im == nullptr || std::isnan(im[k])); };
    left.erase(std::remove_if(left.begin(), left.end(), is_nan), left.end());
    if (left.empty()) return;
    for (int64_t k : left) {
      __extension__ typedef __int128 Wide;
      const Complex w = root_of_unity(static_cast<int64_t>(static_cast<Wide>(term.j) * k % n), n);
      re[k] = static_cast<T>(static_cast<double>(re[k]) + (times(term.re, w.real()) - times(term.im, w.imag())));
      if (im != nullptr) im[k] = static_cast<T>(static_cast<double>(im[k]) + (times(term.re, w.imag()) + times(term.im, w.real())));
    }
  }
}
template void add_terms(Span<const Term>, int64_t, float*, float*, int64_t);
template void add_terms(Span<const Term>, int64_t, double*, double*, int64_t);

void transform(const LibraryCall& call) { by_dtype(call, transform_of<float>, transform_of<double>); }
void half(const LibraryCall& call) { by_dtype(call, half_of<float>, half_of<double>); }
void real(const LibraryCall& call) { by_dtype(call, real_of<float>, real_of<double>); }

}  // namespace toroid::any_length_fourier
