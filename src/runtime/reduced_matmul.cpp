// Matrix products of bfloat16 and float16. They are summed in float32: in pairs where the machine can, else of widened rows and panels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/dtype.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/pair_strips.h"
#include "runtime/product.h"
#include "runtime/scratch.h"
#include "runtime/vector_sets.h"
#include "support/float16.h"

namespace toroid {
namespace {

constexpr int64_t kPairs = 512;     // of a panel at a time: 128 KiB

thread_local Scratch scratch_for_rows, scratch_for_block;

// A matrix of 16-bit floats, strides in elements.
struct Matrix16 {
  const uint16_t* data;
  int64_t row, column;
  DType dtype;
  const uint16_t* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
  float value(int64_t i, int64_t j) const {
    const uint16_t bits = *at(i, j);
    return dtype == DType::BF16 ? static_cast<float>(BFloat16::from_bits(bits)) : static_cast<float>(Float16::from_bits(bits));
  }
};

Matrix16 matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const uint16_t*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1],
          static_cast<DType>(operand.dtype)};
}

template <class Out>
TOROID_INLINE void round_row(const float* from, int64_t count, Out* to) {
  for (int64_t j = 0; j < count; ++j) to[j] = Out(from[j]);
}
#ifdef __x86_64__
TOROID_AVX512 void round_row_avx512(const float* from, int64_t count, BFloat16* to) { round_row(from, count, to); }
#endif
void round_row_to(const float* from, int64_t count, BFloat16* to) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return round_row_avx512(from, count, to);
#endif
  round_row(from, count, to);
}
void round_row_to(const float* from, int64_t count, Float16* to) { round_row(from, count, to); }

// The epilogue of a product that has none: rounds it.
template <class Out>
struct Rounding {
  Out* out;
  int64_t row;
  ToroidEpilogue epilogue() {
    return {[](void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column, int64_t last_column) {
              const Rounding& to = *static_cast<Rounding*>(argument);
              for (int64_t i = first_row; i < last_row; ++i) {
                round_row_to(block + (i - first_row) * row_stride, last_column - first_column, to.out + i * to.row + first_column);
              }
            },
            this};
  }
};

// ---- in pairs

int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

// The panels [first, last) of b with two rows next to each other: [pair][column][2]. Floats here are pairs of bits.
void pack_pairs(const Matrix16& b, int64_t k, int64_t n, int64_t first, int64_t last, float* out) {
  const bool are_whole = b.row == 1 && k % 2 == 0 && b.column % 2 == 0 && reinterpret_cast<uintptr_t>(b.data) % sizeof(float) == 0;
  if (are_whole) return pack_panels({reinterpret_cast<const float*>(b.data), 1, b.column / 2}, k / 2, n, first, last, out);
  const PackedMatrix shape{pairs_of(k), n, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel);
    auto* to = reinterpret_cast<uint16_t*>(out + (column - shape.first_column(first)) * shape.depth);
    for (int64_t p = 0; p < 2 * shape.depth; ++p) {
      for (int64_t j = 0; j < width; ++j) {
        to[(p / 2 * width + j) * 2 + p % 2] = p < k && column + j < n ? *b.at(p, column + j) : uint16_t{0};
      }
    }
  }
}

// Rows with a whole number of pairs.
void take_row_pairs(const Matrix16& a, int64_t first, int64_t k, std::vector<const uint16_t*>& rows) {
  if (a.column == 1 && k % 2 == 0) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = a.at(first + static_cast<int64_t>(i), 0);
    return;
  }
  const int64_t row = pairs_of(k) + 16;
  float* to = scratch_for_rows.get(static_cast<int64_t>(rows.size()) * row);
  for (size_t i = 0; i < rows.size(); ++i, to += row) {
    auto* bits = reinterpret_cast<uint16_t*>(to);
    for (int64_t p = 0; p < k; ++p) bits[p] = *a.at(first + static_cast<int64_t>(i), p);
    if (k % 2 != 0) bits[k] = 0;
    rows[i] = bits;
  }
}

void multiply_pairs(const PairKernels& kernels, const PackedMatrix& b, int64_t panel, std::span<const uint16_t* const> rows, float* block) {
  const int64_t width = b.width(panel);
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t strips = (count + StripKernels::kMostRows - 1) / StripKernels::kMostRows;
  for (int64_t done = 0; done == 0 || done < b.depth; done += kPairs) {
    const int64_t pairs = std::min(kPairs, b.depth - done);
    for (int64_t s = 0; s < strips; ++s) {
      const int64_t first = count * s / strips, last = count * (s + 1) / strips;
      const uint16_t* strip[StripKernels::kMostRows];
      for (int64_t i = first; i < last; ++i) strip[i - first] = rows[static_cast<size_t>(i)] + 2 * done;
      kernels[last - first - 1][width / strip_kernels().lanes - 1](pairs, strip, reinterpret_cast<const uint16_t*>(b.panel(panel) + done * width),
                                                                    block + first * width, width, done > 0);
    }
  }
}

void multiply_in_pairs(RuntimePool& pool, int64_t m, int64_t k, const Matrix16& a, const PackedMatrix& b, const ToroidEpilogue& epilogue) {
  for_each_part(pool, m, b.panels(), [&](Range some, Range panels) {
    std::vector<const uint16_t*> rows(static_cast<size_t>(some.size()));
    take_row_pairs(a, some.first, k, rows);
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t width = b.width(panel), column = b.first_column(panel);
      float* block = scratch_for_block.get(some.size() * width);
      multiply_pairs(*pair_kernels(), b, panel, rows, block);
      epilogue.run(epilogue.argument, block, width, some.first, some.last, column, column + std::min(width, b.columns - column));
    }
  });
}

// ---- widened

void pack_widened(const Matrix16& b, int64_t k, int64_t n, int64_t first, int64_t last, float* out) {
  const PackedMatrix shape{k, n, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel);
    float* to = out + (column - shape.first_column(first)) * k;
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < width; ++j) to[p * width + j] = column + j < n ? b.value(p, column + j) : 0.0f;
    }
  }
}

void multiply_widened(RuntimePool& pool, int64_t m, int64_t k, const Matrix16& a, const PackedMatrix& b, const ToroidEpilogue& epilogue) {
  std::vector<Run> runs;
  add_runs(runs, 0, k);
  for_each_part(pool, m, b.panels(), [&](Range some, Range panels) {
    const int64_t row = k + 16;
    float* widened = scratch_for_rows.get(some.size() * row);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < some.size(); ++i) {
      for (int64_t p = 0; p < k; ++p) widened[i * row + p] = a.value(some.first + i, p);
      rows.push_back(widened + i * row);
    }
    multiply_rows(b, panels.first, panels.last, runs, rows, some.first, {nullptr, 0, &epilogue});
  });
}

// ---- both

void multiply16(const KernelCall& call, int64_t m, int64_t n, int64_t k, const Matrix16& a, const Matrix16& b,
                const ToroidEpilogue& epilogue) {
  const bool in_pairs = b.dtype == DType::BF16 && pair_kernels() != nullptr;
  const int64_t depth = in_pairs ? pairs_of(k) : k;
  auto pack = [&](float* to) {
    const int64_t stride = strip_kernels().panel_width() * depth;
    call.pool.parallel_for(PackedMatrix::panels(n), 1, [&](int64_t begin, int64_t end) {
      (in_pairs ? pack_pairs : pack_widened)(b, k, n, begin, end, to + begin * stride);
    });
  };
  const int64_t form[] = {in_pairs ? 'p' : 'w', static_cast<int64_t>(b.dtype), k, n, b.row, b.column};
  const float* packed = call.made_of(call.inputs[1], b.data, form, PackedMatrix::size(depth, n), pack);
  (in_pairs ? multiply_in_pairs : multiply_widened)(call.pool, m, k, a, {depth, n, packed}, epilogue);
}

template <class Out>
void run(const KernelCall& call) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const int32_t dims = a.rank - 2;
  const int64_t m = c.sizes[dims], n = c.sizes[dims + 1], k = a.sizes[dims + 1];
  const int64_t batches = product(c.sizes, dims);
  if (m == 0 || n == 0) return;
  Rounding<Out> rounding = {static_cast<Out*>(c.data), n};
  const ToroidEpilogue rounded = rounding.epilogue();
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    const EpiloguePart epilogue(call.epilogue != nullptr ? call.epilogue : &rounded, batch * m, 0);
    multiply16(call, m, n, k, matrix_of(a, batch), matrix_of(b, batch), *epilogue.get());
  });
}

}  // namespace

void run_matmul_reduced(const KernelCall& call) {
  if (static_cast<DType>(call.outputs[0].dtype) == DType::BF16) {
    run<BFloat16>(call);
  } else {
    run<Float16>(call);
  }
}

}  // namespace toroid
