#include "codegen/cuda/prelude.h"

namespace toroid::codegen::cuda {

// In the order in which each builds on those before it. Each file is one C++ string literal.
// clang-format off
namespace {
const std::string_view kTypes =
#include "codegen/cuda/prelude/types.inc"
;
const std::string_view kPrelude =
#include "codegen/cuda/prelude/threads.inc"
#include "codegen/cuda/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;
const std::string_view kAmd =
#include "codegen/cuda/prelude/amd.inc"
;
const std::string_view kLibraryFunctions =
#include "codegen/cuda/prelude/library_functions.inc"
;
const std::string_view kAmdMath =
#include "codegen/cuda/prelude/amd_math.inc"
;
const std::string_view kAmdBessel =
#include "codegen/cuda/prelude/amd_bessel.inc"
;
const std::string_view kEmulation =
#include "codegen/cuda/prelude/emulation.inc"
;
}  // namespace

const std::string_view kHostPrelude =
#include "codegen/cuda/prelude/host.inc"
#include "codegen/cpp/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;

namespace {

const std::string_view kProducts =
#include "codegen/cuda/prelude/products/products.inc"
;
const std::string_view kHopperProducts =
#include "codegen/cuda/prelude/products/hopper_products.inc"
;
const std::string_view kEmulatedProducts =
#include "codegen/cuda/prelude/products/emulated_products.inc"
;
const std::string_view kCopies =
#include "codegen/cuda/prelude/copies.inc"
;
const std::string_view kTileSums =
#include "codegen/cuda/prelude/tile_sums.inc"
;
const std::string_view kEmulatedCopies =
#include "codegen/cuda/prelude/emulated_copies.inc"
;
const std::string_view kConvolution =
#include "codegen/cuda/prelude/convolution.inc"
;
const std::string_view kGroupConvolution =
#include "codegen/cuda/prelude/group_convolution.inc"
;
const std::string_view kHopperConvolution =
#include "codegen/cuda/prelude/hopper_convolution.inc"
;
const std::string_view kEmulatedConvolution =
#include "codegen/cuda/prelude/emulated_convolution.inc"
;
const std::string_view kFilterGradient =
#include "codegen/cuda/prelude/filter_gradient.inc"
;
const std::string_view kGroupedProducts =
#include "codegen/cuda/prelude/products/grouped_products.inc"
;
const std::string_view kPlainProducts =
#include "codegen/cuda/prelude/products/plain_products.inc"
;
const std::string_view kWarpMma =
#include "codegen/cuda/prelude/warp_mma.inc"
;
const std::string_view kWarpProducts =
#include "codegen/cuda/prelude/warp_products.inc"
;
const std::string_view kStreamK =
#include "codegen/cuda/prelude/products/stream_k.inc"
;
const std::string_view kFewRows =
#include "codegen/cuda/prelude/products/few_rows.inc"
;
const std::string_view kAttention =
#include "codegen/cuda/prelude/attention/attention.inc"
;
const std::string_view kScans =
#include "codegen/cuda/prelude/scan.inc"
;
const std::string_view kOrder =
#include "codegen/cuda/prelude/sort.inc"
#include "codegen/cuda/prelude/select.inc"
;
const std::string_view kAttentionGradientText =
#include "codegen/cuda/prelude/attention/attention_gradient.inc"
;
const std::string_view kHopperAttentionGradient =
#include "codegen/cuda/prelude/attention/hopper_attention_gradient.inc"
#include "codegen/cuda/prelude/attention/hopper_wide_gradient.inc"
;
const std::string_view kHopperAttention =
#include "codegen/cuda/prelude/attention/hopper_instructions.inc"
#include "codegen/cuda/prelude/attention/hopper_attention.inc"
#include "codegen/cuda/prelude/attention/short_attention.inc"
;
const std::string_view kWrittenScores =
#include "codegen/cuda/prelude/attention/written_scores.inc"
;
const std::string_view kHopperWrittenScores =
#include "codegen/cuda/prelude/attention/hopper_written_scores.inc"
;
const std::string_view kSplitAttention =
#include "codegen/cuda/prelude/attention/split_attention.inc"
;

// What Hopper's tensor cores need, and other GPUs: one text is compiled for both.
std::string on_hopper(std::string_view text, std::string_view otherwise = "") {
  const std::string other = otherwise.empty() ? "" : "#else\n" + std::string(otherwise);
  return "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n" + std::string(text) + other + "#endif\n";
}

}  // namespace
// clang-format on

std::string emulation(int wave) { return "#define TOROID_WAVE " + std::to_string(wave) + "\n" + std::string(kEmulation); }

std::string prelude_of(const Preludes& preludes, const Language& language) {
  const bool emulated = language.is_emulated;
  constexpr std::string_view kSharedAddress =
      "INLINE uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }\n";
  const bool multiplies_copies = preludes.convolutions || preludes.grouped_products,
             has_warps = preludes.attention || preludes.few_rows || preludes.group_convolutions;
  std::string text;
  if (language.is_amd && !emulated) text += kAmd;
  text += kTypes;
  text += language.is_amd ? kAmdMath : kLibraryFunctions;
  text += kPrelude;
  if (preludes.special && language.is_amd) text += kAmdBessel;
  if (preludes.special) text += kSpecialPrelude;
  if (preludes.products || preludes.few_rows || multiplies_copies) text += kProducts;
  if (preludes.products || preludes.few_rows || preludes.split_attention || multiplies_copies) text += kStreamK;
  if (has_warps || (emulated && multiplies_copies)) text += kWarpMma;
  if (emulated) {
    if (preludes.products || multiplies_copies) text += kEmulatedProducts;
    if (multiplies_copies) text += std::string(kEmulatedCopies) + std::string(kWarpProducts);
  } else if (multiplies_copies) {
    const std::string others = std::string(has_warps ? "" : kWarpMma) + std::string(kSharedAddress);
    text += on_hopper(kHopperProducts, others) + std::string(kCopies) + on_hopper("", kWarpProducts);
  } else if (preludes.products) {
    text += kHopperProducts;
  }
  if (multiplies_copies) text += kTileSums;
  if (preludes.convolutions) {
    text += kConvolution;
    text += emulated ? std::string(kEmulatedConvolution) : on_hopper(kHopperConvolution);
  }
  if (preludes.group_convolutions) text += kGroupConvolution;
  if (preludes.filter_gradients) text += kFilterGradient;
  if (preludes.grouped_products) text += kGroupedProducts;
  if (preludes.plain_products) text += kPlainProducts;
  if (preludes.few_rows) text += kFewRows;
  if (preludes.attention) text += kAttention;
  if (preludes.hopper_attention) text += kHopperAttention;
  if (preludes.written_scores) text += kWrittenScores;
  if (preludes.written_scores && preludes.hopper_attention) text += kHopperWrittenScores;
  if (preludes.attention_gradient) text += kAttentionGradientText;
  if (preludes.hopper_attention_gradient) text += kHopperAttentionGradient;
  if (preludes.split_attention) text += kSplitAttention;
  if (preludes.order) text += kOrder;
  if (preludes.scans) text += kScans;
  return text;
}

}  // namespace toroid::codegen::cuda
