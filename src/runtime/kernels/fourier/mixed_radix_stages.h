// The inner loops of fourier.h, for the instruction sets of the machine.
#pragma once

#include <cstdint>

#include "runtime/kernels/fourier/mixed_radix_plan.h"

namespace toroid::mixed_radix {

// Real and imaginary parts of as many numbers.
template <class T>
struct Arrays {
  T *re, *im;
};

// Interleaved rows: element j of row l is at j * rows + l.
template <class T>
struct Work {
  const Plan<T>& plan;
  Arrays<T> x, y;  // of (n + 1) * rows elements each
  T* all;          // 2n * rows elements: packed rows as they are
  T* terms;
  int64_t rows;
  bool is_packed;  // real numbers of even length are complex ones of half of it
  bool is_real;    // imaginary parts are 0
};

// to[j * to_row + l] = from[l * from_row + j] for l < rows, j < columns.
template <class T>
struct Turn {
  const T* from;
  int64_t from_row;
  T* to;
  int64_t to_row, rows, columns;
};

template <class T>
struct Kernel {
  // The forward transform of what is in work.x; `is_from_half`: which is elements 0..n of the transform of 2n real numbers, packed.
  // Returns where the result is: in one of the work's arrays.
  Arrays<T> (*compute)(const Work<T>& work, bool is_from_half);
  void (*turn)(const Turn<T>& turn);
  bool (*are_finite)(const T* from, int64_t count);
  int64_t lanes;  // elements of a vector
};
template <class T>
Kernel<T> kernel_for_this_machine();

}  // namespace toroid::mixed_radix
