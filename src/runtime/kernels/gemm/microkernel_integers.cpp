// Microkernels of integers of 32 and 64 bits, whose products and sums wrap.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/kernels/epilogue/register_post_ops.h"
#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {
namespace {

#include "runtime/kernels/gemm/microkernel_loops.inc"

// A vector of products takes several cycles, so that few rows and narrow panels do.
constexpr int kFewRows = GemmMicrokernels::kMostRows;
using Longs2 = VectorOfBytes<uint64_t, 16>::Type;
using Longs4 = VectorOfBytes<uint64_t, 32>::Type;
using Longs8 = VectorOfBytes<uint64_t, 64>::Type;

}  // namespace

namespace microkernel_integers_levels {

TOROID_STRIPS(Baseline32, Integers4, 2, 16, kFewRows, TOROID_BASELINE)
TOROID_STRIPS(Baseline64, Longs2, 2, 16, kFewRows, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_STRIPS(Avx2With32, Integers8, 2, 16, kFewRows, TOROID_AVX2)
TOROID_STRIPS(Avx2With64, Longs4, 2, 16, kFewRows, TOROID_AVX2)
TOROID_STRIPS(Avx512With32, Integers16, 2, 32, kFewRows, TOROID_AVX512)
TOROID_STRIPS(Avx512With64, Longs8, 2, 32, kFewRows, TOROID_AVX512)
#endif

}  // namespace microkernel_integers_levels

namespace {

using namespace microkernel_integers_levels;

constexpr GemmMicrokernelsOf<uint32_t> kBaseline32 = kernels_of<Baseline32>(kAll);
constexpr GemmMicrokernelsOf<uint64_t> kBaseline64 = kernels_of<Baseline64>(kAll);
#ifdef __x86_64__
constexpr GemmMicrokernelsOf<uint32_t> kAvx2With32 = kernels_of<Avx2With32>(kAll), kAvx512With32 = kernels_of<Avx512With32>(kAll);
constexpr GemmMicrokernelsOf<uint64_t> kAvx2With64 = kernels_of<Avx2With64>(kAll), kAvx512With64 = kernels_of<Avx512With64>(kAll);
#endif

}  // namespace

#ifdef __x86_64__
template <>
const GemmMicrokernelsOf<uint32_t>* const MicrokernelSets<uint32_t>::all[3] = {&kBaseline32, &kAvx2With32, &kAvx512With32};
template <>
const GemmMicrokernelsOf<uint64_t>* const MicrokernelSets<uint64_t>::all[3] = {&kBaseline64, &kAvx2With64, &kAvx512With64};
#else
template <>
const GemmMicrokernelsOf<uint32_t>* const MicrokernelSets<uint32_t>::all[3] = {&kBaseline32, &kBaseline32, &kBaseline32};
template <>
const GemmMicrokernelsOf<uint64_t>* const MicrokernelSets<uint64_t>::all[3] = {&kBaseline64, &kBaseline64, &kBaseline64};
#endif

}  // namespace toroid
