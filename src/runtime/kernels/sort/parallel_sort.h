// The order of a long line of keys, found by all threads together.
#pragma once

#include <cstdint>

#include "base/span.h"
#include "runtime/pool/pool.h"

namespace toroid {

// Lines from this length on are worth it.
inline constexpr int64_t kLongLine = 1 << 14;

// order[i * stride]: the position in `keys` of the i-th smallest, of equal ones the earlier first. Uses `keys` as working memory. The
// order does not depend on the number of threads, since there is only one.
void order_of_keys(RuntimePool& pool, Span<uint64_t> keys, int64_t* order, int64_t stride);

}  // namespace toroid
