#include "passes/decompose/linalg/fourier.h"

namespace toroid {
namespace {

// One of runtime/kernels/fourier/fourier.h's, whose `count` results have `size` elements a row. 16-bit floats are computed in F32.
std::vector<Tensor> fourier_kernel(const char* name, std::vector<Tensor> parts, sym::Expr size, size_t count, bool forward) {
  Builder& b = parts[0].builder();
  const DType dtype = parts[0].dtype(), wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  for (Tensor& part : parts) part = b.cast(part, wide);
  Sizes sizes = parts[0].sizes();
  sizes.back() = size;
  const std::vector<TensorType> types(count, {.dtype = wide, .sizes = std::move(sizes)});
  std::vector<Tensor> results = b.library(name, parts, types, {Scalar(sym::Expr(forward ? 1 : 0))});
  for (Tensor& result : results) result = b.cast(result, dtype);
  return results;
}

}  // namespace

Complex fourier_transform(Complex x, bool forward) {
  const std::vector<Tensor> y = fourier_kernel("fourier.transform", {x.re, x.im}, x.re.size(-1), 2, forward);
  return {y[0], y[1]};
}

Complex half_spectrum(Tensor x, bool forward) {
  const std::vector<Tensor> y = fourier_kernel("fourier.half", {x}, sym::floor_div(x.size(-1), 2) + 1, 2, forward);
  return {y[0], y[1]};
}

Tensor real_signal(Complex half, sym::Expr size, bool forward) {
  return fourier_kernel("fourier.real", {half.re, half.im}, size, 1, forward)[0];
}

}  // namespace toroid
