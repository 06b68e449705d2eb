// What the model calls its results: the tree of dicts, tuples and dataclasses that it returns, which the file keeps as the `out_spec` of
// its outermost call.
#pragma once

#include <string>
#include <vector>

#include "frontend/json_reader.h"

namespace toroid::pt2 {

// One name for each leaf of the tree: the keys, fields and positions that lead to it, with dots between: "logits", "past.0.key". All are
// empty where there is nothing to say: a single result, a flat tuple or list, a file without the tree, a tree that cannot be read, or one
// that has not `leaves` leaves. Names differ from each other: a second "a.b" is "a.b_2".
std::vector<std::string> output_names(const JsonValue& graph_module, size_t leaves);

}  // namespace toroid::pt2
