#include "interp/fourier.h"

#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "support/error.h"

namespace toroid::fourier {
namespace {

using Complex = std::complex<double>;

// A factor of this size or more costs more in a plain sum than Bluestein's three transforms.
constexpr int64_t kLargestFactor = 61;

// exp(-2 pi i k / n)
Complex root(int64_t k, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

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
    for (int64_t k = 0; k < n; ++k) roots_.push_back(root(k, n));
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
      roots_.push_back(root(square, 2 * n_));
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
  std::vector<Complex> chirp_;              // transformed
};

template <class T>
void transform_rows(const LibraryCall& call, int64_t n, int64_t rows) {
  const auto* re = reinterpret_cast<const T*>(call.inputs[0].data);
  const auto* im = reinterpret_cast<const T*>(call.inputs[1].data);
  auto* out_re = reinterpret_cast<T*>(call.outputs[0].data);
  auto* out_im = reinterpret_cast<T*>(call.outputs[1].data);
  // The transform back is the forward one with real and imaginary parts exchanged.
  if (call.attributes[0] == 0) {
    std::swap(re, im);
    std::swap(out_re, out_im);
  }
  const Transform transform(n);
  call.in_pieces(rows, [&](int64_t begin, int64_t end) {
    std::vector<Complex> in(static_cast<size_t>(n)), out(in.size());
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * n;
      for (int64_t j = 0; j < n; ++j) in[static_cast<size_t>(j)] = {static_cast<double>(re[first + j]), static_cast<double>(im[first + j])};
      transform.run(in.data(), out.data());
      for (int64_t j = 0; j < n; ++j) {
        out_re[first + j] = static_cast<T>(out[static_cast<size_t>(j)].real());
        out_im[first + j] = static_cast<T>(out[static_cast<size_t>(j)].imag());
      }
    }
  });
}

}  // namespace

void transform(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  int64_t elements = 1;
  for (int64_t size : x.sizes) elements *= size;
  if (elements == 0) return;
  const int64_t n = x.sizes.back();
  TOROID_CHECK(x.dtype == DType::F32 || x.dtype == DType::F64, "a Fourier transform of {}", to_string(x.dtype));
  x.dtype == DType::F32 ? transform_rows<float>(call, n, elements / n) : transform_rows<double>(call, n, elements / n);
}

}  // namespace toroid::fourier
