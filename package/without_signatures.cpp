// In the place of signatures' verifying (src/runtime/program/signature.cpp) in packages: code that has run already cannot vouch for itself.
#include "base/error.h"
#include "runtime/program/signature.h"

namespace toroid {

void require_signature(Trust&, const std::optional<SignatureBlock>&, std::string_view, bool, const std::string&, RuntimePool&) {
  throw Error(ErrorKind::Unsupported, "a package does not verify its own signature, for its code runs already")
      .help("open it by libtoroid.so, or ask 'toroid verify --trusted' before it is loaded");
}

}  // namespace toroid
