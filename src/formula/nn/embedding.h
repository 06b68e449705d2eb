// Embedding tables: rows by index, bags of rows, one-hot vectors.
//
// Tables are [rows, …] of any dtype; indices are integers of any shape, in bounds.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace toroid::formula {

// weight[indices]: [indices…, …].
Tensor embedding(Tensor weight, Tensor indices);

// I64 [indices…, classes]: 1 at the index, else 0.
Tensor one_hot(Tensor indices, int64_t classes);

// ---- bags -------------------------------------------------------------------------------------------------------------

enum class BagMode { Sum = 0, Mean = 1, Max = 2 };

struct EmbeddingBag {
  Tensor y;             // [bags, width] in the table's dtype; of an empty bag 0
  Tensor bag_of_index;  // I64 [n]
  Tensor bag_size;      // I64 [bags], without padding
  Tensor maxima;        // BagMode::Max: I64 [bags, width], the index of the row that has each maximum, 0 for empty bags; else zeros [bags]
};

struct BagOptions {
  BagMode mode = BagMode::Sum;
  std::optional<sym::Expr> padding_index;  // these indices count as absent
  bool has_last_offset = false;            // the last offset is n, the end of the last bag
};

// Combines the rows of `weight` [rows, width] that indices [n] name, per bag: bag i begins at offsets[i], of which the first is 0, and ends
// where the next one begins. `per_sample_weights` [n] multiply rows before; they may be undefined. Computed in F32 for F16 and BF16.
EmbeddingBag embedding_bag(Tensor weight, Tensor indices, Tensor offsets, Tensor per_sample_weights, const BagOptions& options);

// [n], I64, from the bags' offsets [bags], of which the first is 0: how many of them are at or before i, less one.
Tensor bag_of_index(sym::Expr n, Tensor offsets);

}  // namespace toroid::formula
