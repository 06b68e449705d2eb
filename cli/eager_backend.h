// Runs a model as a framework without a compiler of programs would: one operator after the other, each compiled by itself.
#pragma once

#include <memory>

#include "backend.h"

namespace toroid::cli {

// `program` at import level. Calls throw Error{Unsupported} for higher-order operators, and where an operator writes to a tensor
// whose memory others show as well: results of single operators have memory of their own.
std::unique_ptr<Callable> eager_backend(Program program, const LoadOptions& options);

}  // namespace toroid::cli
