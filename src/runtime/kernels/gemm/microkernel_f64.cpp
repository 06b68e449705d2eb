// Microkernels of float64.
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

using Doubles2 = VectorOfBytes<double, 16>::Type;
using Doubles4 = VectorOfBytes<double, 32>::Type;
using Doubles8 = VectorOfBytes<double, 64>::Type;

}  // namespace

namespace microkernel_f64_levels {

TOROID_STRIPS(Baseline, Doubles2, 2, 16, GemmMicrokernels::kMostRows, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_STRIPS(Avx2, Doubles4, 2, 16, GemmMicrokernels::kMostNarrowRows, TOROID_AVX2)
TOROID_STRIPS(Avx512, Doubles8, 4, 32, GemmMicrokernels::kMostNarrowRows, TOROID_AVX512)
#endif

}  // namespace microkernel_f64_levels

namespace {

using namespace microkernel_f64_levels;

constexpr GemmMicrokernelsOf<double> kBaseline = kernels_of<Baseline>(kAll);
#ifdef __x86_64__
constexpr GemmMicrokernelsOf<double> kAvx2 = kernels_of<Avx2>(kAll);
constexpr GemmMicrokernelsOf<double> kAvx512 = kernels_of<Avx512>(kAll);
#endif

}  // namespace

#ifdef __x86_64__
template <>
const GemmMicrokernelsOf<double>* const MicrokernelSets<double>::all[3] = {&kBaseline, &kAvx2, &kAvx512};
#else
template <>
const GemmMicrokernelsOf<double>* const MicrokernelSets<double>::all[3] = {&kBaseline, &kBaseline, &kBaseline};
#endif

}  // namespace toroid
