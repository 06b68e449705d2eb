// Which convolutions of dequantised tensors a target takes as products of bytes.
#pragma once

namespace toroid {

enum class ByteConvolutions {
  None,      // those of float32 are quicker
  OfPixels,  // those by filters of one element, without padding: products of matrices
  All,
};

}  // namespace toroid
