#include "codegen/cuda/prelude.h"

namespace toroid::codegen::cuda {

// In the order in which each builds on those before it. Each file is one C++ string literal.
// clang-format off
const std::string_view kPrelude =
#include "codegen/cuda/prelude/types.inc"
#include "codegen/cuda/prelude/threads.inc"
#include "codegen/cuda/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;

const std::string_view kHostPrelude =
#include "codegen/cuda/prelude/host.inc"
#include "codegen/cpp/prelude/scalar_operators.inc"
#include "codegen/cuda/prelude/random.inc"
;

const std::string_view kEmulation =
#include "codegen/cuda/prelude/emulation.inc"
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
const std::string_view kHopperCopies =
#include "codegen/cuda/prelude/hopper_copies.inc"
;
const std::string_view kEmulatedCopies =
#include "codegen/cuda/prelude/emulated_copies.inc"
;
const std::string_view kConvolution =
#include "codegen/cuda/prelude/convolution.inc"
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
const std::string_view kWarpProducts =
#include "codegen/cuda/prelude/warp_mma.inc"
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
;
const std::string_view kHopperAttention =
#include "codegen/cuda/prelude/attention/hopper_attention.inc"
#include "codegen/cuda/prelude/attention/short_attention.inc"
;
const std::string_view kSplitAttention =
#include "codegen/cuda/prelude/attention/split_attention.inc"
;

}  // namespace
// clang-format on

std::string prelude_of(const Preludes& preludes, bool emulated) {
  std::string text(kPrelude);
  if (preludes.special) text += kSpecialPrelude;
  if (preludes.products || preludes.few_rows) text += kProducts;
  if (preludes.products || preludes.few_rows || preludes.split_attention) text += kStreamK;
  if (preludes.products) text += emulated ? kEmulatedProducts : kHopperProducts;
  if (preludes.convolutions) {
    text += std::string(emulated ? kEmulatedCopies : kHopperCopies) + std::string(kConvolution);
    text += emulated ? kEmulatedConvolution : kHopperConvolution;
  }
  if (preludes.filter_gradients) text += kFilterGradient;
  if (preludes.attention || preludes.few_rows) text += kWarpProducts;
  if (preludes.few_rows) text += kFewRows;
  if (preludes.attention) text += kAttention;
  if (preludes.hopper_attention) text += kHopperAttention;
  if (preludes.attention_gradient) text += kAttentionGradientText;
  if (preludes.hopper_attention_gradient) text += kHopperAttentionGradient;
  if (preludes.split_attention) text += kSplitAttention;
  if (preludes.order) text += kOrder;
  if (preludes.scans) text += kScans;
  return text;
}

}  // namespace toroid::codegen::cuda
