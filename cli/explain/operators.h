// What operators of a model are called, and which of them somebody asks about.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace toroid::cli {

std::string operator_text(const Provenance& from);
std::string short_text(const Provenance& from);
// Is it meant by `name`: "gelu_1" (the node), "gelu" or "aten::gelu" (every node of the operator, whichever overload)?
bool is_called(const Provenance& from, std::string_view name);
// Throws Error{InvalidOption} with the names there are.
void check_is_known(const Graph& graph, const std::string& name);

// Which pairs and steps are asked for.
struct Filter {
  std::string op;                    // those in which this operator takes part; empty: all
  std::vector<std::string> between;  // those of these two operators, in either order; empty: all

  bool is_set() const { return !op.empty() || !between.empty(); }
  bool takes(const Provenance& producer, const Provenance& consumer) const {
    const auto joins = [&](size_t a, size_t b) { return is_called(producer, between[a]) && is_called(consumer, between[b]); };
    if (!between.empty() && !joins(0, 1) && !joins(1, 0)) return false;
    return op.empty() || is_called(producer, op) || is_called(consumer, op);
  }
  bool takes(const Provenance& from) const {
    if (!op.empty()) return is_called(from, op);
    return between.empty() || is_called(from, between[0]) || is_called(from, between[1]);
  }
};

}  // namespace toroid::cli
