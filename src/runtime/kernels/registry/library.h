// Library kernels that compiled programs call by name (ToroidRuntime::call).
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "runtime/kernels/gemm/gemm.h"
#include "runtime/kernels/registry/prepared_constants.h"
#include "runtime/pool/pool.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

struct KernelCall {
  RuntimePool& pool;
  std::span<const ToroidOperand> inputs;
  std::span<const ToroidOperand> outputs;  // contiguous, but for those of convolutions, whose strides may be of any order
  std::span<const int64_t> integers;
  std::span<const double> numbers;
  const ToroidEpilogue* epilogue = nullptr;  // takes the result of run_matmul_f32 and run_convolution_f32; null: none
  PreparedConstants* prepared = nullptr;     // null: what is made of constants is not kept
  // Of a chain, which has no operands besides: its calls, "convolution" in float32 (chain.h). Each but the first reads what the one before
  // makes, its output or the one result of its epilogue.
  const KernelCall* stages = nullptr;
  size_t num_stages = 0;

  bool keeps(const ToroidOperand& operand) const { return prepared != nullptr && operand.is_constant; }
  // `count` floats that `make` writes: another form of an operand, or of the part of it at `data`. `form`: all that decides them besides
  // the elements. Of a constant they are made once and kept, of others for this thread's use until it asks again.
  const float* packed_or_scratch(const ToroidOperand& operand, const void* data, std::span<const int64_t> form, int64_t count,
                                 const std::function<void(float*)>& make) const;
};

// Throws Error. Names: "matmul", "convolution", "attention", "sort", "library.NAME" (library/library_ops.h); "matmul#packed" names one of
// several implementations (runtime/kernels/registry/registry.h), which must be able to compute the call.
void run_library_kernel(std::string_view name, const KernelCall& call);

// A chain as the call of its implementations, which has no operands besides. The stages are only looked at.
KernelCall call_of_chain(RuntimePool& pool, std::span<const KernelCall> stages);

// Fast kernels, each in its own file. Shapes as in graph/graph.h; any strides. The first, of F32, takes the algorithm of the lowest estimate.
void run_matmul_f32(const KernelCall& call);
// F16 and BF16, both operands alike.
enum class HalfGemmAlgorithm {
  Tiles,    // of BF16, for machines with AMX
  Pairs,    // of BF16, two elements of a row at a time, for machines with AVX512_BF16
  Widened,  // rows and panels as F32
};
bool can_multiply(HalfGemmAlgorithm form, DType dtype);  // on this machine
void run_matmul_half(const KernelCall& call, HalfGemmAlgorithm form);
// The right side I8: the left F32, BF16 or F16 and the result one of them, or the left I8 or U8 and the result I32, exact but that it wraps, without an
// epilogue.
enum class Int8Algorithm {
  Tiles,          // for machines with AMX
  Fours,          // of bytes by bytes, four products at a time, for machines with AVX512_VNNI
  Pairs,          // of bytes by bytes, two products of 16 bits at a time, for machines with AVX2
  InRegisters,    // of floats by bytes, which become F32 as they are multiplied: for few rows
  BFloat16Pairs,  // of BF16 by bytes, which become pairs of BF16, for machines with AVX512_BF16
  Widened,        // as F32
};
bool can_multiply_int8(Int8Algorithm form, DType left);  // on this machine
void run_matmul_int8(const KernelCall& call, Int8Algorithm form);
// How an implementation of "matmul.int8" reads its weights: "read as bytes, …".
std::string_view reading_of_int8(std::string_view choice);
inline constexpr int64_t kMostRowsInRegisters = 12;  // with more, widening a panel once costs less than doing so for each strip of rows
// integers: transposed, groups, then stride, padding, dilation and output padding for each spatial dim. In a form that takes any operands.
void run_convolution_f32(const KernelCall& call);
// In a form of the caller's choice, which takes the operands.
void run_matmul_f32(const KernelCall& call, GemmAlgorithm form);
enum class ConvAlgorithm {
  // Everything contiguous:
  ImageColumns,    // not transposed: a product with the image's columns, made block by block
  AdjointColumns,  // transposed: a product whose columns are added where they belong
  Planes,          // not transposed, one input channel a group: each plane with its filter
  // The output's channels next to each other, at most two spatial dims, no bias, not transposed, any other strides:
  ImageRows,       // a product of image rows, where they lie, with packed weights
  ChannelVectors,  // groups of few channels (takes_channel_vectors), next to each other: vectors of channels
  Winograd4,       // 3x3 filters, no stride, dilation or groups, 16 or more channels next to each other: tiles of 4x4 outputs
  Winograd2,       // … of 2x2
};
void run_convolution_f32(const KernelCall& call, ConvAlgorithm form);
// Images and filters of BF16 or F16, both alike, the result F32 or as they are, its channels next to each other; at most two spatial dims, no bias,
// not transposed, any other strides. Sums are F32, and so is what an epilogue gets.
enum class HalfConvAlgorithm {
  Tiles,           // of BF16, without groups, for machines with AMX
  ChannelVectors,  // groups of few channels (takes_channel_vectors), next to each other: rows are widened as they are needed
  Widened,         // as F32
};
bool can_convolve(HalfConvAlgorithm form, const KernelCall& call);  // on this machine
void run_convolution_half(const KernelCall& call, HalfConvAlgorithm form);
// F32, F16 or BF16. integers: causal. numbers: scale. The output may have any strides but between the elements of a row. The mask, of the same dtype,
// is added to the scores or, when Bool, tells where a query may look.
enum class AttentionAlgorithm {
  Widened,     // in F32
  Tiles,       // BF16 on machines with AMX
  FewQueries,  // of few queries that meet the same keys, where keys and values have contiguous rows that fill a vector
};
bool can_attend(AttentionAlgorithm form, const KernelCall& call);  // on this machine
void run_attention(const KernelCall& call, AttentionAlgorithm form);
// Any dtype, contiguous. integers: dim, descending, stable (it always is). Outputs: values, positions (I64); NaN is the largest.
void run_sort(const KernelCall& call);

}  // namespace toroid
