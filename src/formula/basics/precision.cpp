#include "formula/basics/precision.h"

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {

void require_real(DType dtype) {
  if (!is_complex(dtype)) return;
  throw Error(ErrorKind::Unsupported, fmt::format("complex tensors ({}) are not supported", to_string(dtype)))
      .help("rewrite the model over real and imaginary parts");
}

}  // namespace toroid
