#include "interp/fourier.h"

#include <cmath>
#include <complex>
#include <vector>

#include "base/error.h"
#include "library/roots_of_unity.h"
#include "tensor/host_tensor.h"

namespace toroid::fourier {
namespace {

using Complex = std::complex<double>;

// x w, without terms whose factor is 0.
Complex term(Complex x, Complex w) {
  const auto times = [](double part, double factor) { return part == 0 || factor == 0 ? 0.0 : part * factor; };
  return {times(x.real(), w.real()) - times(x.imag(), w.imag()), times(x.real(), w.imag()) + times(x.imag(), w.real())};
}

bool is_finite(const std::vector<Complex>& x) {
  for (const Complex& each : x) {
    if (!std::isfinite(each.real()) || !std::isfinite(each.imag())) return false;
  }
  return true;
}

// The forward transform, by its definition; of finite numbers as sums over the transforms of every p-th element, for the least prime factor
// p of their number, which takes less time.
std::vector<Complex> forward(const std::vector<Complex>& x) {
  const auto n = static_cast<int64_t>(x.size());
  int64_t p = 2;
  while (p * p <= n && n % p != 0) ++p;
  const int64_t parts = n % p == 0 && is_finite(x) ? p : n, length = n / std::max<int64_t>(parts, 1);
  std::vector<std::vector<Complex>> transformed;
  for (int64_t q = 0; q < parts; ++q) {
    std::vector<Complex> part;
    for (int64_t j = q; j < n; j += parts) part.push_back(x[static_cast<size_t>(j)]);
    transformed.push_back(length == 1 ? part : forward(part));
  }
  std::vector<Complex> result(x.size());
  for (int64_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (int64_t q = 0; q < parts; ++q)
      sum += term(transformed[static_cast<size_t>(q)][static_cast<size_t>(k % length)], root_of_unity(q * k % n, n));
    result[static_cast<size_t>(k)] = sum;
  }
  return result;
}

// The transform back is the forward one with real and imaginary parts exchanged.
std::vector<Complex> transformed(std::vector<Complex> x, bool is_forward) {
  const auto exchange = [](std::vector<Complex>& all) {
    for (Complex& each : all) each = {each.imag(), each.real()};
  };
  if (!is_forward) exchange(x);
  std::vector<Complex> result = forward(x);
  if (!is_forward) exchange(result);
  return result;
}

double load(const LibraryInput& input, int64_t index) {
  TOROID_CHECK(input.dtype == DType::F32 || input.dtype == DType::F64, "a Fourier transform of {}", to_string(input.dtype));
  if (input.dtype == DType::F32) return reinterpret_cast<const float*>(input.data)[index];
  return reinterpret_cast<const double*>(input.data)[index];
}
void store(const LibraryOutput& output, int64_t index, double value) {
  if (output.dtype == DType::F32) {
    reinterpret_cast<float*>(output.data)[index] = static_cast<float>(value);
  } else {
    reinterpret_cast<double*>(output.data)[index] = value;
  }
}

// For each row: give(its first element's index in the output, the transform of what read(row) gives).
template <class Read, class Give>
void for_each_row(const LibraryCall& call, const Read& read, const Give& give) {
  const std::span<const int64_t> sizes = call.outputs[0].sizes;
  const int64_t length = sizes.back();
  if (length == 0) return;
  const int64_t rows = numel(std::vector<int64_t>(sizes.begin(), sizes.end())) / length;
  for (int64_t r = 0; r < rows; ++r) give(r * length, transformed(read(r), call.attributes[0] != 0));
}

}  // namespace

void transform(const LibraryCall& call) {
  const int64_t n = call.inputs[0].sizes.back();
  for_each_row(
      call,
      [&](int64_t row) {
        std::vector<Complex> x;
        for (int64_t j = row * n; j < (row + 1) * n; ++j) x.emplace_back(load(call.inputs[0], j), load(call.inputs[1], j));
        return x;
      },
      [&](int64_t first, const std::vector<Complex>& y) {
        for (int64_t k = 0; k < n; ++k) {
          store(call.outputs[0], first + k, y[static_cast<size_t>(k)].real());
          store(call.outputs[1], first + k, y[static_cast<size_t>(k)].imag());
        }
      });
}

void half(const LibraryCall& call) {
  const int64_t n = call.inputs[0].sizes.back();
  for_each_row(
      call,
      [&](int64_t row) {
        std::vector<Complex> x;
        for (int64_t j = row * n; j < (row + 1) * n; ++j) x.emplace_back(load(call.inputs[0], j), 0.0);
        return x;
      },
      [&](int64_t first, const std::vector<Complex>& y) {
        for (int64_t k = 0; k <= n / 2; ++k) {
          store(call.outputs[0], first + k, y[static_cast<size_t>(k)].real());
          store(call.outputs[1], first + k, is_own_conjugate(k, n) ? 0.0 : y[static_cast<size_t>(k)].imag());
        }
      });
}

void real(const LibraryCall& call) {
  const int64_t n = call.outputs[0].sizes.back();
  for_each_row(
      call,
      [&](int64_t row) {
        std::vector<Complex> x(static_cast<size_t>(n));
        for (int64_t k = 0; k <= n / 2; ++k) {
          const int64_t at = row * (n / 2 + 1) + k;
          const double im = is_own_conjugate(k, n) ? 0.0 : load(call.inputs[1], at);
          x[static_cast<size_t>(k)] = {load(call.inputs[0], at), im};
          if (!is_own_conjugate(k, n)) x[static_cast<size_t>(n - k)] = {load(call.inputs[0], at), -im};
        }
        return x;
      },
      [&](int64_t first, const std::vector<Complex>& y) {
        for (int64_t k = 0; k < n; ++k) store(call.outputs[0], first + k, y[static_cast<size_t>(k)].real());
      });
}

}  // namespace toroid::fourier
