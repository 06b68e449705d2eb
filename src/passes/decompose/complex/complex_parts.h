// What the families of operators on complex tensors share: complex.h says how such tensors are held.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/linalg/fourier.h"

namespace toroid {

// F32 for C64 and so on; real dtypes are their own.
DType part_dtype(DType dtype);

// Whether the argument is a complex tensor of the model, and so a tensor of pairs here.
bool is_complex_input(const Decomposer& d, const Argument& argument);

Complex parts(Tensor pairs);
Tensor pairs_of(Complex x);  // parts of equal sizes

// A complex, real or number argument; `dtype` is that of the parts.
Complex complex_argument(Decomposer& d, const Args& a, std::string_view name, DType dtype);

// The dtype of the first result's parts.
DType result_part(const Decomposer& d, const Args& a);

Complex product(Complex x, Complex y);

// One table per family, in the file that it is named after; find_complex_decomposition joins them.
std::span<const DecompositionRow> complex_arithmetic_rows();  // complex_arithmetic.cpp: sums, quotients, exp, abs, products of matrices
std::span<const DecompositionRow> complex_fourier_rows();     // complex_fourier.cpp: torch.fft, stft, istft
std::span<const DecompositionRow> complex_movement_rows();    // complex_movement.cpp: what does the same to both parts

}  // namespace toroid
